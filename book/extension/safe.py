"""What a page may do: run the site's own scripts and ask the site, and nothing else, whatever a reader's code or a link brings.

Each page gets a content security policy, which the worker that runs Python takes over (static/run/safe.js), and the names of its
scripts and styles a hash of their content, so that no page works with another build's. A script that stands in a page is one that
its hash lets in. Those that draw figures are left out: `figures.js` has their functions, the page their data.
"""

import base64
import functools
import hashlib
import posixpath
import re
from pathlib import Path

from quack_tutorial import figures
from quack_tutorial.figures import breakage, theme
from quack_tutorial.figures.player import function_in

INLINE = re.compile(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)[^>]*>(.*?)</script>", re.DOTALL)
DRAWN = re.compile(r'<script data-draws="(\w+)">(.*?)</script>', re.DOTALL)
CALL = re.compile(r'.*\("(qt-[\w-]+)",(.*)\);', re.DOTALL)
CLICK = re.compile(r"(<button\b[^>]*?) onclick=")  # static/book.js
NAMED = re.compile(r'((?:src|href)=")([^":?]*_static/(?!mathjax)[^":?]+\.(?:js|css))(?:\?v=\w+)?"')
LOADED = re.compile(r"""((?:\./|run/)[\w/${}.-]+\.(?:js|py))(?=["`])""")  # by one of our scripts
ADD = """const policy = document.createElement("meta");
policy.httpEquiv = "Content-Security-Policy";
policy.content = "%s";
document.head.append(policy);"""
DRAW = """for (const data of document.querySelectorAll("script[data-draws]")) {
  quackFigures[data.dataset.draws](data.dataset.of, JSON.parse(data.textContent));
}
"""


def digest(content):
    return hashlib.sha256(content).hexdigest()[:12]


def policy(page):
    """The content security policy of a page's HTML."""
    scripts = dict.fromkeys(hashlib.sha256(text.encode()).digest() for text in INLINE.findall(page))
    hashes = "".join(f" 'sha256-{base64.b64encode(value).decode()}'" for value in scripts)
    return (
        f"default-src 'self'; script-src 'self' 'wasm-unsafe-eval'{hashes}; style-src 'self' 'unsafe-inline'; "
        f"img-src 'self' data:; worker-src 'self' blob:; frame-src 'none'; object-src 'none'; base-uri 'self'; "
        "form-action 'self'"
    )


def secured(page):
    """A page's HTML with its policy, its figures' data in the place of their scripts."""

    def data(script):
        identifier, values = CALL.fullmatch(script[2]).groups()
        return f'<script type="application/json" data-draws="{script[1]}" data-of="{identifier}">{values}</script>'

    page = CLICK.sub(r"\1 data-click=", DRAWN.sub(data, page))
    # A script adds it, behind the scripts of the head: where a tag of it is in sight, Chromium fetches them one after the other.
    return page.replace("</head>", f"<script>{{{ADD % policy(page)}}}</script>\n</head>", 1)


def write_figures(app):
    """What draws the figures, and their style, for those that a reader's run brings."""
    if app.builder.format != "html":
        return
    home, static = Path(figures.__file__).parent, Path(app.outdir, "_static")
    static.mkdir(parents=True, exist_ok=True)
    functions = ",\n".join(f"{file.stem}: {function_in(file.name)}" for file in sorted(home.glob("*.js")))
    (static / "figures.js").write_text(f"const quackFigures = {{\n{functions}}};\n{DRAW}", encoding="utf-8")
    others = "".join(theme.asset(file.name) for file in sorted(home.glob("*.css")) if file.stem != "player")
    (static / "figures.css").write_text(theme.style_sheet() + others + breakage.STYLE, encoding="utf-8")


def add_figures(app, pagename, templatename, context, doctree):
    if "<script data-draws=" in context.get("body", "") or "qt-runtime-bytes" in context.get("metatags", ""):
        app.add_js_file("figures.js", loading_method="defer")
        app.add_css_file("figures.css", priority=900)


def finish(out):
    """Secure all pages of the built site in a folder."""
    static = out / "_static"
    scripts = sorted([*static.glob("*.js"), *static.glob("run/**/*.*")])
    version = digest(b"".join(file.read_bytes() for file in scripts))
    for file in scripts:
        if file.suffix == ".js":
            file.write_text(LOADED.sub(rf"\1?v={version}", file.read_text(encoding="utf-8")), encoding="utf-8")
    hash_of = functools.cache(lambda path: digest((out / path).read_bytes()))
    for file in out.rglob("*.html"):
        if "_static" not in file.parts:
            page = named(file.read_text(encoding="utf-8"), file.parent.relative_to(out).as_posix(), hash_of)
            file.write_text(secured(page), encoding="utf-8")


def named(page, folder, hash_of):
    """A page's HTML, which lies in a folder of the site, with a hash behind the name of each script and style."""
    path = lambda name: posixpath.normpath(posixpath.join(folder, name))  # noqa: E731
    return NAMED.sub(lambda match: f'{match[1]}{match[2]}?v={hash_of(path(match[2]))}"', page)


def finish_site(app, error):
    if not error and app.builder.format == "html":
        finish(Path(app.outdir))


def setup(app):
    app.connect("builder-inited", write_figures)
    app.connect("html-page-context", add_figures, priority=800)
    app.connect("build-finished", finish_site, priority=850)  # when all pages stand
    return {"parallel_read_safe": True, "parallel_write_safe": True}
