"""The lists that the site makes of its pages."""

import re
import types

import pytest
import yaml

pytest.importorskip("myst_nb", reason="myst-nb is not installed, whose pages are tested")

from quack_tutorial import card, records


@pytest.fixture(scope="module")
def contents(load):
    return load("book/extension/contents.py")


@pytest.mark.parametrize("name", records.cards())
def test_every_version_of_the_climb_is_recorded_and_has_its_page(root, contents, name):
    with card.taken_for(name):
        found = [contents.recorded("softmax", "float32", N=N, ladder=True) for N in contents.LENGTHS]
    for version, _, page in contents.CLIMB:
        assert all(0 < one[version].of_copy <= 1.05 for one in found), version
        assert (root / f"{page}.md").exists()


def test_the_climb_is_there_for_each_card_one_of_them_folded(contents, monkeypatch):
    nodes = pytest.importorskip("docutils.nodes", reason="docutils is not installed")
    from docutils.frontend import get_default_settings
    from docutils.utils import new_document

    monkeypatch.delenv(card.VARIABLE, raising=False)
    document = new_document("page", get_default_settings())
    document += contents.listing(of="climb")
    builder = types.SimpleNamespace(get_relative_uri=lambda here, page: f"{page}.html")
    app = types.SimpleNamespace(builder=builder)
    document.settings.env = types.SimpleNamespace(docname="intro", app=app, _app=app)
    contents.FillListings(document).run()
    (html,) = (raw.astext() for raw in document.findall(nodes.raw))
    own = records.folder().name
    (other,) = (name for name in records.cards() if name != own)
    first, second = html.split("<details")
    assert f"qt-of-{own}" in first and f"qt-of-{other}" in second
    assert first.count("<li>") == second.count("<li>") == len(contents.CLIMB)
    assert own.upper() in first and other.upper() in second and other.upper() not in first


def test_the_card_of_a_heat_map_shows_its_shades(contents):
    nodes = pytest.importorskip("docutils.nodes", reason="docutils is not installed")
    table = (
        '<div class="qt-picture"><table class="qt-heat"><thead><tr><th>x</th></tr></thead><tbody>'
        '<tr><th scope="row">1</th><td></td><td style="background: red">99</td></tr>'
        '<tr><th scope="row">2</th><td data-best style="background: blue">100</td></tr></tbody></table></div>'
    )
    page = nodes.section("", nodes.container("", nodes.raw("", table, format="html"), classes=["tag_opening"]))
    svg = contents.picture(page)
    assert svg.count("<rect") == 2 and 'x="16" y="0"' in svg and 'x="0" y="9"' in svg
    assert svg.index("fill:red") < svg.index("fill:blue")


def test_every_chapter_and_lab_is_on_one_level_or_has_none(root):
    config = yaml.safe_load((root / "_config.yml").read_text("utf-8"))
    every = config["sphinx"]["config"]["html_context"]["levels"].values()
    placed = [name for names in every for name in names]
    contents = (root / "_toc.yml").read_text("utf-8")
    pages = [page.rpartition("/")[2] for page in re.findall(r"- file: (\S+)", contents)]
    assert len(placed) == len(set(placed)) and set(placed) <= set(pages)
    assert {page for page in pages if page[0].isdigit()} <= set(placed)
