"""Predictions: the chapters ask and answer in one form, the page judges as the notebook does, and Your path lists them."""

import json
import random
import re
import shutil
from html import escape, unescape

import pytest

import quack_tutorial as qt
from quack_tutorial import notebook
from quack_tutorial.figures import theme

from .javascript import evaluated
from .test_site import browsed

CELL = re.compile(r"```\{code-cell\} ipython3\n(?::tags: [^\n]*\n\n|---\n.*?\n---\n)?(.*?)\n```\n", re.DOTALL)
PREDICT = re.compile(r"\*\*Predict(?: for later)?\.?\*\*")


@pytest.fixture(scope="module")
def folds(load):
    pytest.importorskip("myst_nb", reason="myst-nb is not installed, whose pages are tested")
    return load("book/extension/folds.py")


def test_every_prediction_of_the_chapters_says_what_it_asks_and_is_judged(root, folds):
    for chapter in sorted((root / "notebooks").glob("[01]*.md")):
        text = chapter.read_text("utf-8")
        asked, judged = [], []
        for match in CELL.finditer(text):
            name, keys = folds.guess_of(match[1])
            if keys:
                asked.append((name, keys))
                before = text[: match.start()].rstrip().rpartition("\n\n")[2]
                assert PREDICT.search(before), f"{chapter.name}: {keys} do not follow a prediction"
            # An exercise on paper is judged in its solution, and named for what it asks.
            elif (judge := re.search(r"^qt\.answer\(\s*(\w*guess)\b", match[1], re.M)) and "hide-cell" not in match[0]:
                judged.append(judge[1])
        assert len(PREDICT.findall(text)) == len(asked) == len(judged), chapter.name
        # In their order, but for what is answered later.
        at_once = [name for name, _ in asked if name == "guess"]
        assert [name for name in judged if name == "guess"] == at_once
        assert sorted(judged) == sorted(n for n, _ in asked)


# The rules in the page and in the notebook ---------------------------------------------------------------------------

TYPED = {  # value: what is typed, and the verdict that is right for it
    7: {"7": "right", "8": "near", "5.6": "near", "9": "off", "-7": "off", "7 or so": None},
    0: {"0": "right", "1": "off"},
    92.9: {"90": "right", "75": "near", "74": "off"},
    -2.0: {"-2.05": "right"},
    (3, 33): {"33 and 3": "right", "1, 3, 33": "near", "1, 2, 3, 33, 4": "off"},
    (1024, 4096): {"1,024, 4,096": "right"},
    (0, 31): {"lane 0 and lane 31": "right"},
    1024: {"1,024": "right"},
    16384: {"16 Ki": "right"},
}
CASES = [(value, guess, verdict) for value, typed in TYPED.items() for guess, verdict in typed.items()]


def javascript(root, script):
    """What `script` writes to `said`, run by Node.js beside the page's own rules."""
    rules = (root / "book/static/predict.js").read_text("utf-8")
    page = "const document = { addEventListener() {} }, said = [];"
    return evaluated("\n".join([page, rules, script, "console.log(JSON.stringify(said));"]))


def fields_of(answer):
    return json.loads(unescape(re.search(r'data-answer="([^"]*)"', answer._repr_html_())[1]))


@pytest.mark.parametrize("value, guess, verdict", CASES)
def test_the_notebook_judges(value, guess, verdict):
    assert qt.answer({"x": guess}, value).verdicts == (verdict or "",)
    if verdict and not isinstance(value, tuple) and "Ki" not in guess:
        assert qt.answer({"x": float(guess.replace(",", ""))}, value).verdicts == (verdict,)


def test_the_page_judges_as_the_notebook_does(root):
    random.seed(1)
    cases = CASES + [
        (v := random.choice((3, 40, 2.5, 0.3)), f"{v * 10 ** random.uniform(-0.6, 0.6):.4g}", "") for _ in range(200)
    ]
    fields = [fields_of(qt.answer({"x": None}, value))["fields"][0] for value, _, _ in cases]
    pairs = [(json.dumps(field), json.dumps(guess)) for field, (_, guess, _) in zip(fields, cases)]
    calls = [f"{field}, {guess}, 0.25" for field, guess in pairs]
    script = "\n".join(f"said.push(quackJudge({call}).verdict);" for call in calls)
    wanted = [qt.answer({"x": guess}, value).verdicts[0] or None for value, guess, _ in cases]
    assert javascript(root, script) == wanted and len(set(wanted)) == 4


def test_the_page_reads_numbers_as_they_are_typed(root):
    typed = ["1,024", "93 %", "2/3", "16 Ki", "4k", "1e3", ".5"]
    typed += ["about 5", "", "1 2/3", "1/0", "1e400", "0,5"]
    asked = ["bytes", "percent", "percent of a copy", "bytes", "N", "us", "us", *6 * ["N"]]
    script = "".join(f"said.push(quackNumber({json.dumps(t)}, {json.dumps(a)}));" for t, a in zip(typed, asked))
    found = javascript(root, script)
    # a blank between digits is none of the number's
    assert found[2] == pytest.approx(200 / 3) and found[9] == 4
    assert found[:2] + found[3:9] == [1024, 93, 16384, 4000, 1000, 0.5, None, None]
    assert [notebook._number(text, words) for text, words in zip(typed, asked)] == found
    assert found[10:] == [None] * 3  # neither infinite, nor 5 where half was meant


def test_the_page_judges_no_list_that_it_cannot_read(root):
    field = fields_of(qt.answer({"lanes": None}, (3, 33)))["fields"][0]
    typed = ["33 and lane 3", "none", "all of them", "3 or 33", "3-33"]
    script = "".join(f"said.push(quackJudge({json.dumps(field)}, {json.dumps(t)}, 0.25).verdict ?? '');" for t in typed)
    assert javascript(root, script) == ["right", "off", "", "", ""]


# In a browser --------------------------------------------------------------------------------------------------------

COLOURS = {  # of the theme, light and dark
    "text-base": ("#222832", "#ced6dd"),
    "background": ("#ffffff", "#14181e"),
    "surface": ("#f3f4f5", "#222832"),
    "text-muted": ("#48566b", "#9ca4af"),
    "primary": ("#0a5f73", "#3fb1c5"),
    "success": ("#00553c", "#5fb488"),
    "danger": ("#a31515", "#f78f8f"),
}
STYLE = """html {{ {} color: var(--pst-color-text-base); background: var(--pst-color-background) }}
html[data-theme=dark] {{ {} }} a {{ color: inherit }} .pst-scrollable-table-container {{ overflow-x: auto }}""".format(
    *(" ".join(f"--pst-color-{name}: {both[dark]};" for name, both in COLOURS.items()) for dark in (0, 1))
)
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<link rel="stylesheet" href="../_static/palette.css"><link rel="stylesheet" href="../_static/book.css"><style>{style}</style></head>
<body><nav class="bd-links" aria-label="Pages"><a href="../notebooks/page.html">1. Chapter</a>
<a href="../book/labs/lab.html">A lab</a></nav>
<main><article class="bd-article">{body}</article></main><script src="../_static/{script}"></script></body></html>"""


def with_static(root, folder):
    """Puts what the site's pages share into a folder."""
    shutil.copytree(root / "book/static", folder / "_static")
    # as book_site.py does
    (folder / "_static/palette.css").write_text(theme.palette(), "utf-8")


def driven(root, script, folder):
    """What a script of tests/site saw on a folder's pages, where nothing was wrong; skips where there is no browser."""
    seen = browsed(root, script, folder)
    assert not seen["errors"] and not seen["violations"] and not seen["overflow"], seen
    return seen


class Written:
    def __init__(self):
        self.body = []


def chapter(folds):
    """A page of four predictions, the last of them for later, with the values that `qt.answer` gives."""

    def fold(n, answer):
        answer = unescape(re.search(r'data-answer="([^"]*)"', answer._repr_html_())[1])
        written = Written()
        folds.visit_fold(written, folds.Fold(label="Answer", prediction=n, answer=answer, classes=["qt-answered"]))
        told = f'<div class="qt-verdicts">{folds.values(answer)}<p>Because {n}.</p></div>'
        return f"{written.body[0]}{told}<pre>{n}</pre></details>"

    asked = [("shuffles a warp", "bytes"), ("from: L1 | L2", "what comes out")]
    asked += [("words",), ("sectors",)]
    values = [(7, 1000.0), ("L1", "stale words"), (4,), (12,)]
    answers = [fold(n + 1, qt.answer(dict.fromkeys(a), *v)) for n, (a, v) in enumerate(zip(asked, values))]
    forms = [folds.form(n + 1, a) for n, a in enumerate(asked)]
    later = folds.form(4, asked[3], title="You predicted at the start", later="-again")
    parts = [forms[3].replace("Reveal", "Keep it for later")]
    for n in range(3):
        parts.append(f"<section><h2>Section {n + 1}</h2>{forms[n]}{answers[n]}</section>")
    last = f"<section><h2>Section 4</h2>{later}{answers[3]}</section>"
    return "".join(["<h1>Chapter</h1>", *parts, last])


def test_predictions_by_keyboard_and_after_a_reload(root, folds, tmp_path):
    with_static(root, tmp_path)
    for name, title, body, script in (
        ("notebooks/page", "Chapter", chapter(folds), "predict.js"),
        ("book/your-path", "Your path", '<h1>Your path</h1><div id="qt-path"></div>', "path.js"),
    ):
        page = tmp_path / f"{name}.html"
        page.parent.mkdir()
        page.write_text(PAGE.format(style=STYLE, title=escape(title), body=body, script=script), "utf-8")
    seen = driven(root, "predict", tmp_path)

    assert seen["before"] == [["shuffles a warp: 7", "bytes: 1,000"], False]
    first = ["shuffles a warp: you said 5, it is 7: off", "bytes: you said 1,024, it is 1,000: right"]
    second = ["from: you said L2, it is L1: off", "what comes out: you said “zeros <b>”; the answer: stale words"]
    assert seen["revealed"] == [first, True, "Answer"] and seen["words"] == second
    assert seen["without"] == [["words: 4"], False]
    assert seen["later"] == ["Kept: the answer comes below", "12"]
    assert seen["again"] == ["sectors: you said 12, it is 12: right"]
    assert seen["reloaded"] == ["5", first, second, "12", seen["again"]]
    # Once the answer was shown, the guess stays what it was, and another one is marked.
    assert seen["unread"][0].startswith("“1/0” cannot be read as a number")
    assert not seen["unread"][1]
    late = " (you said “{}” after the answer was shown, which does not count)"
    found = seen["changed"]
    assert found == [[first[0] + late.format("7"), first[1]], ["words: 4" + late.format("5")]]
    assert seen["changed_reloaded"] == ["7", *seen["changed"]]

    assert seen["nothing"].startswith("Nothing is kept yet.")
    assert seen["path"] == [
        ["Section 1", "shuffles a warp", "5 (after the answer: 7)", "7", "off"],
        ["", "bytes", "1,024", "1,000", "right"],
        ["Section 2", "from", "L2", "L1", "off"],
        ["", "what comes out", "zeros <b>", "stale words", "–"],
        ["Section 3", "words", "(after the answer: 5)", "4", "no guess"],
        ["Section 4", "sectors", "12", "12", "right"],
    ]
    # Of numbers only three: no median.
    assert seen["few"] == "Of 4 guesses that could be judged 2 right, 0 near, 2 off."
    page = "/notebooks/page.html"
    wanted = [page, f"{page}#predict-1", f"{page}#predict-2"]
    wanted += [f"{page}#predict-3", f"{page}#predict-4"]
    assert seen["links"] == wanted
    # The ratios are 5/7, 1.024, 1, 2, 4, 8, 16; the one in the middle is 2.
    assert "The median of your numbers is 2.0 times the value; you guess too much" in seen["many"]
    assert seen["titles"] == ["1. Chapter", "A lab", "Elsewhere"]
    wanted = ["order: right, 2 of 2 points", "sums: not yet, 1 of 2 points"]
    assert seen["lab"].splitlines() == wanted
    assert seen["exported"] == ["/book/labs/lab.html", "/elsewhere.html", page]
    assert seen["kept"] == 10
    cleared, left = seen["cleared"]
    assert cleared.startswith("Nothing is kept yet.")
    assert left == ["quack-tutorial:edits:/notebooks/page.html"]
    verdicts, forbidden = seen["forbidden"]
    assert verdicts[0] == "shuffles a warp: you said 7, it is 7: right"
    assert seen["unkept"].startswith("This browser does not keep your guess")
    assert seen["forbidden_late"][0] == verdicts[0] + late.format("8")
    assert seen["junk"] == ["bytes: you said 1,024, it is 1,000: right"] * len(seen["junk"])
    assert len(seen["junk"]) > 8
    assert forbidden.startswith("This browser does not let the page keep anything")
