"""Two cards on a page: what cards.py and folds.py make of what the kernel published, and what the switch shows in a browser."""

import json
import re
from html import escape

import pytest

pytest.importorskip("myst_nb", reason="myst-nb is not installed, whose pages are tested")
from docutils import nodes

import quack_tutorial as qt
from quack_tutorial import hardware, records
from workbench.other_cards import MARK

from .test_predictions import PAGE, STYLE, Written, driven, with_static
from .test_site import built_site


@pytest.fixture(scope="module")
def extension(load):
    return {name: load(f"book/extension/{name}.py") for name in ("folds", "on_gpu", "cards")}


def raw(html):
    return nodes.container("", nodes.raw("", html, format="html"), classes=["output", "text_html"])


def printed(text):
    return nodes.literal_block(text, text)


def marked(**told):
    return raw(MARK.format(json.dumps({"here": "h200", "card": "h100", **told}).replace("</", "<\\/")))


def output(*children):
    return nodes.container("", *children, nb_element="cell_code_output", classes=["cell_output"])


def told(place):
    """(classes, words) of the parts of an output."""
    return [(" ".join(n["classes"]), n.get("label", ""), n.astext().split()) for n in place.children]


def test_what_differs_stands_beside_each_other(extension):
    place = output(
        printed("4,000 GB/s"),
        raw("<p>fast</p>"),
        marked(outputs=[{"text": "3,000 GB/s\n"}, {"text/html": "<p>slow</p>"}]),
    )
    assert extension["cards"].show(place) == {"h100": "h200"}
    assert told(place) == [
        ("qt-card qt-of-h200", "", ["4,000", "GB/s", "<p>fast</p>"]),
        ("qt-card qt-of-h100", "On an H100", ["3,000", "GB/s", "<p>slow</p>"]),
    ]


def test_what_is_alike_stands_once_whatever_number_a_figure_has(extension):
    figure = '<div class="qt-figure" id="qt-0123abcd-{}">x</div>'
    place = output(
        printed("same"), raw(figure.format(7)), marked(outputs=[{"text": "same\n"}, {"text/html": figure.format(8)}])
    )
    assert extension["cards"].show(place) == {}
    assert [words for _, _, words in told(place)] == [["same"], figure.format(7).split()]


def test_what_was_not_measured_is_said(extension):
    place = output(printed("4,000"), marked(missing=True))
    extension["cards"].show(place)
    assert told(place)[1][1:] == ("On an H100", "Not measured on an H100 yet.".split())
    place = output(printed("4,000"), marked(outputs=[{"text": "3,000"}], missing=True))
    extension["cards"].show(place)
    assert told(place)[1][2] == "3,000 The rest was not measured on an H100 yet.".split()


def test_a_third_card_takes_nothing_away_from_those_that_are_alike(extension):
    place = output(
        printed("4,000"),
        marked(outputs=[{"text": "4,000"}]),
        marked(outputs=[{"text": "300"}], card="l4"),
    )
    assert extension["cards"].show(place) == {"l4": "h200"}
    assert told(place) == [("qt-card qt-of-h200 qt-of-h100", "", ["4,000"]), ("qt-card qt-of-l4", "On an L4", ["300"])]


def wrong_boxes(page) -> list[str]:
    """What is wrong with the boxes of a page's cells: another card's numbers, two of one title, a share without its number."""
    soup = pytest.importorskip("bs4").BeautifulSoup(page, "html.parser")
    for unseen in soup.select("style, script"):
        unseen.extract()
    found = []
    for output in soup.select(".cell_output"):
        boxes = output.select(".qt-card, .qt-on-gpu")
        for box in boxes:
            words = " ".join(box.get_text(" ").split())
            label = box.summary.get_text() if box.name == "details" else ""
            card = next((name for name in records.cards() if f"qt-of-{name}" in box["class"]), None)
            own = hardware.called(card) if card else label
            # what changed kernels were compared on
            words = re.sub(r"earlier kernel's, on one NVIDIA \w+", "", words)
            devices = set(re.findall(r"\b[Oo]n (?:this |one |\d+ )?NVIDIA ([A-Z]+\d+)", words))
            found += [f"{own}: {device}" for device in devices if not own.endswith(device)]
            if re.search(r": of (the|a) |:( [+-]?\d+ us predicted\.)? not yet measured", words):
                found.append(f"{own}: {words}")
            found += [f"{own}: nothing"] * (words == label)
        titles = [box.summary.get_text() for box in boxes if box.name == "details"]
        found += [f"twice: {title}" for title in set(titles) if titles.count(title) > 1]
    return found


def test_every_box_of_the_built_site_shows_its_own_card(root):
    pages = sorted((built_site(root) / "notebooks").glob("[0-9]*.html"))
    assert len(pages) > 10
    told = [f"{page.stem}: {wrong}" for page in pages for wrong in wrong_boxes(page.read_text("utf-8"))]
    assert not told, "\n".join(told)


def judged(extension, value, other):
    """The output of a judge whose value is another on the H100; None where it was not measured."""
    here, there = (qt.answer({"GB/s": None}, v)._repr_html_() if v else None for v in (value, other))
    place = output(raw(here), marked(outputs=[{"text/html": there}]) if other else marked(missing=True))
    extension["cards"].show(place)
    return place


def test_each_card_has_its_answer(extension):
    folds = extension["folds"]
    answers = folds.answers_in(judged(extension, 4000, 3000))
    values = {card: json.loads(answer)["fields"][0]["value"] for card, answer in answers.items()}
    assert values == {"h200": 4000, "h100": 3000}
    assert [*folds.answers_in(judged(extension, 4000, None)).values()][1] == ""
    assert list(folds.answers_in(judged(extension, 4000, 4000))) == [""]
    assert "values of an H200" in folds.of_card("h100", "", answers)


def folded(folds, answers, title="Answer"):
    """An answer's fold as HTML."""
    written = Written()
    given = {"prediction": 1, "answer": next(iter(answers.values())), "of_cards": answers}
    folds.visit_fold(written, folds.Fold(label=title, **given, classes=["qt-answered"]))
    lists = "".join(folds.of_card(card, answer, answers) for card, answer in answers.items())
    return f'{written.body[0]}<div class="qt-verdicts">{lists}</div></details>'


def cell(folds, here, there):
    written = Written()
    folds.visit_fold(written, folds.Fold(label="On an H100", classes=["qt-card", "qt-of-h100"]))
    own = f'<div class="qt-card qt-of-h200"><pre>{here}</pre></div>'
    return f'<div class="cell_output">{own}{written.body[0]}{there}</details></div>'


def test_the_switch_by_keyboard_and_without_scripts(root, extension, tmp_path):
    with_static(root, tmp_path)
    folds = extension["folds"]
    shown = "".join(extension["cards"].SHOWN.format(card=card) for card in ("h100", "h200"))
    (tmp_path / "_static/cards.css").write_text(shown, "utf-8")
    answers = folds.answers_in(judged(extension, 4000, 100))
    cells = cell(folds, "4,000 GB/s", "<pre>100 GB/s</pre>") + cell(
        folds, "36 cases", "<p>Not measured on an H100 yet.</p>"
    )
    body = '<header class="article-header-buttons"></header><h1>Chapter</h1>'
    body += f'<div id="cells">{cells}</div><section><h2>Section</h2>{folds.form(1, ["GB/s"])}{folded(folds, answers)}</section>'
    page = PAGE.format(style=STYLE, title="Chapter", body=body, script="predict.js")
    names = escape(json.dumps([["h200", "H200"], ["h100", "H100"]]))
    head = '<link rel="stylesheet" href="../_static/cards.css">'
    head += f'<script src="../_static/cards.js" data-cards="{names}"></script></head>'
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/page.html").write_text(page.replace("</head>", head, 1), "utf-8")
    seen = driven(root, "cards", tmp_path)
    of_h200, of_h100 = ["4,000 GB/s", "36 cases"], ["100 GB/s", "Not measured on an H100 yet."]
    assert seen["first"] == of_h200
    assert seen["judged"][:2] == ["On an H200:", "GB/s: you said 100, it is 4,000: off"]
    # what was judged stays with the card by whose answer it was
    unjudged = ["On an H100:", "GB/s: 100"]
    found = seen["switched"][0]
    assert found == seen["followed"] == seen["reloaded"][0] == seen["forbidden"] == of_h100
    assert seen["switched"][1][:2] == seen["reloaded"][1][:2] == unjudged
    assert seen["back"][:2] == seen["judged"][:2]
    assert seen["plain"] == ["4,000 GB/s", "On an H100", "36 cases", "On an H100"]
    assert seen["unfolded"] == ["4,000 GB/s", "On an H100", "100 GB/s", "36 cases", "On an H100"]
