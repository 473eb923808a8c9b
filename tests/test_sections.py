"""What the search and the popovers know of a page, and the front page that index.html is."""

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed, which builds the pages")
from docutils import nodes

from tests.test_folds import cell


def page():
    inner = nodes.section("", nodes.title("", "Inner"), ids=["inner", "also-inner"])
    inner += nodes.paragraph("", "", nodes.Text("Call "), nodes.literal("", "sync()"), nodes.Text("\nfirst."))
    inner += nodes.raw("", "<svg>drawn</svg>", format="html")
    inner += cell("code = 1", "printed")
    inner += cell("solution = 2", "printed", hide_mode="all")
    inner += nodes.bullet_list("", nodes.list_item("", nodes.paragraph("", "An item.")))
    outer = nodes.section("", nodes.title("", "Page"), nodes.paragraph("", "Question?"), inner, ids=["page"])
    return nodes.section("", outer)


def test_each_section_has_its_prose_and_code_without_outputs_and_solutions(load, tmp_path):
    load("book/extension/folds.py")
    sections, document = load("book/extension/sections.py"), page()
    found = list(sections.sections_of(document[0]))
    assert found == [
        (["page"], "Page", "Question?"),
        (["inner", "also-inner"], "Inner", "Call `sync()` first.\n\ncode = 1\n\nAn item."),
    ]
    (tmp_path / "_static").mkdir()
    env = SimpleNamespace(all_docs={"a/page": 0}, toctree_includes={}, get_doctree=lambda name: document[0])
    builder = SimpleNamespace(format="html", get_target_uri=lambda name: f"{name}.html")
    config = SimpleNamespace(root_doc="a/page")
    sections.write_index(SimpleNamespace(env=env, builder=builder, config=config, outdir=tmp_path), None)
    text = (tmp_path / "_static/section-index.js").read_text("utf-8")
    data = json.loads(text.removeprefix("bookSections(").removesuffix(")\n"))
    assert data["pages"] == [["a/page.html", "Page"]]
    wanted = [[0, "", "Page"], [0, "inner also-inner", "Inner"]]
    assert [row[:3] for row in data["sections"]] == wanted


def test_the_front_page_is_the_first_page_with_its_links_moved(load, tmp_path):
    site = load("book/extension/book_site.py")
    (tmp_path / "book").mkdir()
    (tmp_path / "book/intro.html").write_text(
        '<html data-content_root="../"><head><title>Book</title></head>'
        '<body><a href="#here">h</a> <a href="two.html#x">2</a>'
        ' <a href="../notebooks/00.html">0</a> <img src="../_static/race.svg"> <a href="https://example.org/">e</a>',
        encoding="utf-8",
    )
    builder = SimpleNamespace(format="html", get_target_uri=lambda name: f"{name}.html")
    config = SimpleNamespace(root_doc="book/intro")
    app = SimpleNamespace(builder=builder, config=config, outdir=tmp_path)
    site.write_front_page(app, None)
    assert (tmp_path / "index.html").read_text("utf-8") == (
        '<html data-content_root="./"><head><title>Book</title>'
        '<link rel="canonical" href="book/intro.html"/>\n</head><body>'
        '<a href="#here">h</a> <a href="book/two.html#x">2</a> <a href="notebooks/00.html">0</a> '
        '<img src="_static/race.svg"> <a href="https://example.org/">e</a>'
    )


@pytest.mark.parametrize("body, kept", [("<p>plain</p>", 1), ('<span class="math notranslate">x</span>', 3)])
def test_mathjax_comes_where_there_are_formulas(load, body, kept):
    site = load("book/extension/book_site.py")

    class Script(SimpleNamespace):
        def __str__(self):
            return self.filename

    scripts = [
        Script(filename="_static/book.js", attributes={}),
        Script(filename="_static/mathjax/tex-chtml.js", attributes={"defer": "defer"}),
        Script(filename="", attributes={"body": "window.MathJax = {}"}),
    ]
    context = {"body": body, "script_files": scripts}
    site.drop_mathjax(None, "page", "page.html", context, None)
    assert len(context["script_files"]) == kept


def test_a_function_of_the_reference_is_a_section_with_its_signature(load):
    load("book/extension/folds.py")
    sections = load("book/extension/sections.py")
    from sphinx import addnodes

    signature = addnodes.desc_signature("", "f(x)", ids=["room.f"], fullname="f")
    content = addnodes.desc_content("", nodes.paragraph("", "Twice x."), nodes.paragraph("", "Raises nothing."))
    room = nodes.section("", nodes.title("", "Room"), nodes.paragraph("", "What is there."), ids=["room"])
    room += addnodes.desc("", signature, content)
    assert list(sections.sections_of(nodes.section("", room)[0])) == [
        (["room"], "Room", "What is there."),
        (["room.f"], "f", "`f(x)` Twice x.\n\nRaises nothing."),
    ]
