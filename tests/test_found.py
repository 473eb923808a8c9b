"""How the book is found, cited, answered and looked up: a small site with all settings on, and the built site as it stands."""

import functools
import json
import re
import shutil
import subprocess
import sys
from importlib import import_module
from xml.etree import ElementTree

import pytest
import yaml

pytest.importorskip("sphinx_book_theme", reason="the book's theme is not installed")
from bs4 import BeautifulSoup
from sphinx.util.inventory import InventoryFile

import quack_tutorial
from quack_tutorial import cli
from tests.javascript import evaluated
from tests.test_site import built_site

SITE, REPOSITORY = "https://example.org/a/book", "https://github.com/someone/book"
CHAPTER = """# 5. Block reduce

How do all threads of a block get the *row's* sum?

Call `qt.launch(kernel)`, then `qt.launch` again, or `quack-tutorial simulate`; `qt.nothing` is no name.
"""
CONF = """
extensions = ["myst_parser", "sphinx_external_toc", "sphinx_book_theme", "found", "reference"]
html_theme, html_title, author, html_baseurl = "sphinx_book_theme", "The book", "The authors", {site!r}
html_theme_options = {{"repository_url": {repository!r}, "repository_branch": "main", "extra_footer": "Licences."}}
external_toc_path, external_toc_exclude_missing = "_toc.yml", True
nitpick_ignore_regex = [["py:.*", ".*"]]
autodoc_inherit_docstrings = add_module_names = False
html_sourcelink_suffix = ""
suppress_warnings = ["myst.xref_missing"]  # of pages that the small site lacks
"""


@pytest.fixture(scope="module")
def small(root, tmp_path_factory):
    """A site of a few pages, whose addresses are known."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    cases = ("book/changelog.md", "book/help.md")
    cases += ("book/reference.md", "CITATION.cff")
    for name in cases:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, source / name)
    shutil.copytree(root / "book/reference", source / "book/reference")
    for name, text in (
        ("book/intro", "# The front\n\nWhat it is.\n"),
        ("notebooks/05-block-reduce", CHAPTER),
        ("book/labs/floor", CHAPTER),
    ):
        (source / f"{name}.md").parent.mkdir(exist_ok=True)
        (source / f"{name}.md").write_text(text, "utf-8")
    (source / "conf.py").write_text(CONF.format(site=SITE, repository=REPOSITORY), "utf-8")
    every = (root / "book/reference").iterdir()
    reference = sorted(f"book/reference/{path.stem}" for path in every)
    files = "notebooks/05-block-reduce book/labs/floor book/changelog book/help book/reference".split() + reference
    parts = [{"caption": "All", "chapters": [{"file": file} for file in files]}]
    contents = {"format": "jb-book", "root": "book/intro", "parts": parts}
    (source / "_toc.yml").write_text(yaml.safe_dump(contents), "utf-8")
    # No kernel is needed, and so no CuTe DSL.
    paths = [str(root), str(root / "book/extension")]
    program = f"import sys; sys.modules['cutlass'] = None; sys.path[:0] = {paths}"
    program += "; from sphinx.cmd.build import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "-q", "-W", "-n", str(source), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=source)
    assert done.returncode == 0, done.stderr
    return out, ["book/intro", *files]


@functools.cache
def page(site, name):
    return BeautifulSoup((site / f"{name}.html").read_text("utf-8"), "html.parser")


def tags(soup):
    named = [(tag.get("property") or tag.get("name"), tag) for tag in soup.select("meta[content]")]
    return {name: tag["content"] for name, tag in named}


def test_a_page_says_what_it_is(small):
    site, _ = small
    soup = page(site, "notebooks/05-block-reduce")
    found, asked = tags(soup), "How do all threads of a block get the row’s sum?"
    assert found["description"] == found["og:description"] == asked
    assert (found["og:title"], found["og:type"]) == ("5. Block reduce", "article")
    own = f"{SITE}/notebooks/05-block-reduce.html"
    assert found["og:url"] == own == soup.select_one('link[rel="canonical"]')["href"]
    assert tags(page(site, "book/intro"))["og:type"] == "website"


def test_search_engines_find_every_page(small):
    site, names = small
    maps = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
    places = ElementTree.parse(site / "sitemap.xml").getroot().iter(f"{maps}loc")
    assert [place.text for place in places] == [f"{SITE}/{name}.html" for name in names]


def test_the_changelog_begins_with_this_version(root):
    text = (root / "book/changelog.md").read_text("utf-8")
    version, day = re.search(r"^## (\S+) \((\S+)\)$", text, re.MULTILINE).groups()
    cited = yaml.safe_load((root / "CITATION.cff").read_text("utf-8"))
    assert version == quack_tutorial.__version__ == cited["version"]
    assert day == str(cited["date-released"])


def test_each_page_can_be_edited_reported_and_cited(root, small):
    site, _ = small
    for name, source in (
        ("notebooks/05-block-reduce", "notebooks/05-block-reduce.md"),
        ("book/labs/floor", "labs/floor/floor.md"),
    ):
        foot = page(site, name).select_one(".qt-foot")
        links = {link.get_text(): link["href"] for link in foot.select("a")}
        assert foot.get_text().startswith(f"Version {quack_tutorial.__version__}, ")
        assert links["Edit this page"] == f"{REPOSITORY}/edit/main/{source}"
        assert (root / source).exists()
        report = links["Report an error on this page"]
        assert report.startswith(f"{REPOSITORY}/issues/new?title=5.%20Block%20reduce%3A%20&body=Page%3A%20https")
        assert f"Version%3A%20{quack_tutorial.__version__}" in report
        inside = [link for link in links.values() if "://" not in link]
        assert all((site / name / ".." / link.split("#")[0]).resolve().exists() for link in inside)
    cited = page(site, "book/help")
    place = links["Cite this book"].split("#")[1]
    found = f"version = {{{quack_tutorial.__version__}}}"
    assert found in cited.find(id=place).find_next("pre").get_text()
    assert "Report an error on this page" in (text := cited.article.get_text())
    assert "without the address" not in text


def test_the_page_that_is_missing_finds_the_site(root):
    text = (root / "book/extension/found.py").read_text("utf-8")
    found = re.search(r'ROOT = """<script>(.*?)</script>"""', text, re.DOTALL)[1].replace("\\\\", "\\")
    roots = {  # what is known of the site's place, where the reader is, and where its root is
        ("", "/404.html"): "/",
        ("", "/a/book/404.html"): "/a/book/",
        ("", "/a/notebooks/gone.html"): "/a/",
        ("", "/a/gone.html"): "/a/",
        ("/a/book/", "/a/book/notebooks/gone/deeper.html"): "/a/book/",
        ("/a/book/", "/a/book/gone/deeper.html"): "/a/book/",
    }
    script = "const said = [], document = {createElement: () => ({}), head: {append: (base) => said.push(base.href)}};"
    for known, at in roots:
        script += f"{{ const location = {{pathname: {json.dumps(at)}}}; {found.replace('%s', known)} }}\n"
    assert evaluated(script + "console.log(JSON.stringify(said))") == [*roots.values()]


def test_the_missing_page_leads_back_from_any_folder(small):
    site, _ = small
    soup = page(site, "404")
    assert 'known = "/a/book/"' in soup.head.script.get_text() and tags(soup)["robots"] == "noindex"
    before = str(soup).split("document.head.append(base)")[0]
    assert "href=" not in before.split("<head>")[1]
    assert not soup.select('link[rel="canonical"]')


# The reference -------------------------------------------------------------------------------------------------------


def public_names():
    """Every name that the package offers: of the rooms that say so, and what the modules of results define."""
    cases = ("quack_tutorial", "quack_tutorial.ops", "cutesim.analysis", "quack_tutorial.figures")
    for room in cases:
        modules = ("analysis", "figures", "reference") if room == "quack_tutorial" else ()
        every = import_module(room).__all__
        yield from (f"{room}.{name}" for name in every if name not in (*modules, "__version__"))
    for room in ("quack_tutorial.reference", "cutesim.trace", "cutesim.simulation"):
        for name, thing in vars(import_module(room)).items():
            if not name.startswith("_") and getattr(thing, "__module__", None) == room and name != "simulate":
                yield f"{room}.{name}"
    given = "Answer AnotherGuess NotTimed Recorded Speed Timing"
    yield from (f"quack_tutorial.notebook.{name}" for name in given.split())
    yield "cutesim.pytest_plugin.simulate"


def test_every_public_name_is_in_the_reference_with_its_docstring(small):
    site, _ = small
    with (site / "objects.inv").open("rb") as file:
        found = InventoryFile.load(file, "", lambda base, path: path)
    entries = [all_ for kind, all_ in found.items() if kind.startswith("py:")]
    places = {name: entry[2] for all_ in entries for name, entry in all_.items()}
    names = list(public_names())
    assert len(names) > 90 and [name for name in names if name not in places] == []
    for name in names:
        path, _, place = places[name].partition("#")
        found = page(site, path.removesuffix(".html")).find(id=place.replace("$", name))
        text = found.find_parent("dl").get_text()
        thing = getattr(import_module(name.rpartition(".")[0]), name.rpartition(".")[2])
        if callable(thing) and thing.__doc__:
            words = re.findall(r"\w+", thing.__doc__)[:3]
            assert all(word in text for word in words), name


def test_every_command_is_in_the_reference(small):
    site, _ = small
    soup = page(site, "book/reference/commands")
    for name, does, _ in cli.commands_of():
        text = soup.find(id=f"command-{name}").get_text().replace("’", "'")
        assert f"usage: quack-tutorial {name}" in text and does[1:] in text
    # of the machine that built it
    assert not re.search(r"(?<![\w.])/(root|home|tmp|work)/", soup.article.get_text())
    named = [code.get_text() for code in soup.article.find_all("code")]
    for what in ("list", "check", "show", "student", "course"):
        assert what in soup.find(id="command-labs").get_text()
        assert any(text.split()[0] == what for text in named), what


def test_a_chapter_s_first_mention_of_a_name_leads_to_the_reference(small):
    site, _ = small
    soup = page(site, "notebooks/05-block-reduce").article
    links = [(link.get_text(), link["href"]) for link in soup.select("p a.internal")]
    assert links == [
        ("qt.launch(kernel)", "../book/reference/notebook.html#quack_tutorial.launch"),
        ("quack-tutorial simulate", "../book/reference/commands.html#command-simulate"),
    ]


@pytest.fixture
def reference(root, load, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "book/extension"))
    # By its place, since another test's file has that name.
    return load("book/extension/reference.py")


def test_a_name_in_a_cell_is_a_link_once(reference, monkeypatch):
    monkeypatch.setattr(reference, "places", lambda app: {"simulate": "r.html#s", "figures.lanes": "r.html#l"})
    dot, name = '<span class="o">.</span>', lambda n: f'<span class="n">{n}</span>'
    simulate, lanes = name("qt") + dot + name("simulate"), name("figures") + dot + name("lanes")
    cell = f'<div class="cell_input x"><pre>{simulate} {lanes} {simulate}</pre>'
    context = {"body": cell + cell}
    reference.link_code(None, "notebooks/05", "", context, doctree=True)
    wanted = [("../r.html#s", "simulate"), ("../r.html#l", "lanes")]
    assert re.findall(r'href="([^"]*)">(\w+)</a>', context["body"]) == wanted
    found = BeautifulSoup(context["body"], "html.parser").get_text()
    assert found == 2 * "qt.simulate figures.lanes qt.simulate"


# The install page ----------------------------------------------------------------------------------------------------


def commands_of(root, name):
    """The lines of a page's blocks of commands, without what is said behind them."""
    text = (root / name).read_text("utf-8")
    return [line[4:].split("   #")[0].strip() for line in text.splitlines() if line.startswith("    ")]


def test_the_install_page_s_commands_are_understood(root):
    """That targets and extras exist test_publishing looks at."""
    commands = commands_of(root, "book/setup.md")
    of_ours = (re.match(r"(?:\.venv[/\\]\S+[/\\])?quack-tutorial (.*)", line) for line in commands)
    ours = [found[1].split() for found in of_ours if found]
    assert {"doctor", "lab", "bench"} <= {words[0] for words in ours}
    modules = {name: module for name, _, module in cli.commands_of()}
    for name, *words in ours:
        parser = cli._Parser()
        import_module(modules[name]).add_arguments(parser)
        parser.parse_args(words)


# The built site ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(root):
    contents = (root / "_toc.yml").read_text("utf-8")
    return built_site(root), [yaml.safe_load(contents)["root"], *re.findall(r"- file: (\S+)", contents)]


def test_the_built_site_tells_of_each_page(built):
    site, names = built
    titles = set()
    for name in names:
        soup = page(site, name)
        found = tags(soup)
        assert found["og:title"] and 20 < len(found["description"]) <= 202, name
        titles.add(found["og:title"])
    assert len(titles) > len(names) - 13  # a lab may have its chapter's name


def test_the_built_site_without_addresses_names_none(root, built):
    settings = yaml.safe_load((root / "_config.yml").read_text("utf-8"))
    site, names = built
    assert (site / "sitemap.xml").exists() == bool(settings["html"]["baseurl"])
    text = page(site, names[3]).select_one(".qt-foot").get_text()
    found = "Edit this page" in text
    assert found == ("Report an error on this page" in text) == bool(settings["repository"]["url"])
    assert not page(site, names[3]).select('script[src^="http"]')
