"""The front page's picture is drawn from a run, and the README shows the same."""

import pytest


@pytest.fixture(scope="module")
def front(load):
    return load("book/front.py")


def test_the_readmes_picture_is_current(root, front):
    drawn = front.as_svg(front.race())
    assert (root / "book/static/race.svg").read_text("utf-8") == drawn, "run `python book/front.py`"


def test_the_picture_names_the_lines_of_the_race(front):
    first = front.race().frames[0]
    assert "read after write" in first.caption and "missing: cute.arch.barrier()" in first.texts
    found = [text.split("  ", 1)[1] for text, role in zip(first.texts, first.roles) if role == "w"]
    assert found == ["buffer[warp] = total"]


@pytest.mark.parametrize(
    "text, links",
    [
        ("A warp has 32 lanes, and a warp is a warp.", ["warp", "lanes"]),
        ("Bank conflicts are not banks.", ["Bank conflicts", "banks"]),
        ("The memory-bound warp-wide subwarp", ["memory-bound"]),
        ("global memory", ["global memory"]),
        ("(a) the loss, (b) its gradient, and (a + b) + c", []),
    ],
)
def test_the_first_use_of_a_word_is_linked(root, load, text, links):
    pytest.importorskip("sphinx", reason="Sphinx is not installed, which links the words")
    terms = load("book/extension/terms.py")
    known = terms.entries(str(root / "book/glossary.md"))
    pieces = list(terms.linked(text, terms.pattern_of(known), known, set(), "glossary.html"))
    assert [piece.astext() for piece in pieces if piece.tagname == "reference"] == links
    assert "".join(piece.astext() for piece in pieces) == text


TIMES = {"an hour and a half, half": 90, "an hour and": 60, "two hours, 40": 120, "75 minutes": 75}


@pytest.mark.parametrize("said, minutes", TIMES.items())
def test_a_card_has_the_chapter_s_minutes(load, said, minutes):
    pytest.importorskip("sphinx", reason="Sphinx is not installed, which draws the cards")
    contents = load("book/extension/contents.py")
    found = contents.MINUTES.search(f"It takes about {said} of it.")[1]
    assert int(contents.HOURS.get(found, found)) == minutes


def test_a_card_passes_over_figures_without_a_drawing_and_has_no_link_in_it(load):
    pytest.importorskip("sphinx", reason="Sphinx is not installed, which draws the cards")
    from docutils import nodes

    contents = load("book/extension/contents.py")
    table = nodes.raw("", '<div class="qt-picture"><table></table></div>', format="html")
    drawn = '<svg viewBox="0 0 1 1"><a href="elsewhere.html"><path/></a></svg>'
    chart = nodes.raw("", f'<div class="qt-picture">{drawn}</div>', format="html")
    page = nodes.section()
    page += table
    assert contents.picture(page) == ""
    page += chart
    assert contents.picture(page) == '<svg viewBox="0 0 1 1"><path/></svg>'
