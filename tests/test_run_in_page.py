"""Chapters and labs run in the page, in a real browser: the same findings and numbers as the built page, what a reader may
do, and what a student hands in.

`tests/site/run.mjs` does what a reader does, this file judges. Skipped where the site was built without
the parts that run Python in a page; where the site or a browser is missing, SITE_TEST=required makes that a failure.
"""

import ast
import base64
import datetime
import gzip
import io
import json
import os
import re
import zipfile
import zlib
from html import unescape
from statistics import median

import pytest

from grading import folders, release, student
from grading.grade import grade
from tests.test_site import browsed, built_site

# What the reader of an exercise writes, and what its cell shows once it is right; None: what the book's solution shows.
EXERCISES = {
    "00-ten-minute-win": ("axpy_kernel", r"^right"),
    "01-memory-hierarchy": ("(?:floors|least)", None),
    "02-layouts": ("Transpose", r"^right"),
    "03-coalesced-loads": ("Widen", r"^right"),
    "04-warp-reduce": ("sign_of_product", r"^right"),
    "05-block-reduce": ("one_warp_finishes", r"^right"),
    "06-cluster-reduce": ("log_sum_exp", r"^right"),
    "07-rmsnorm": ("WithResidual", r"^right"),
    "08-softmax": ("LogSumExp", r"^right"),
    "09-cross-entropy": ("LossAndEntropy", r"^right"),
    "11-profiler": ("kept", None),
    "12-case-files": ("lengths", None),
    "14-the-same-answer": ("added", r"^right"),
    "15-fewer-bytes": ("rotary", r"^right"),
    "16-where-next": ("log_softmax_tile", r"^right"),
}

TOO_LARGE = (
    "np.empty(2**31 + 64, np.uint8)"  # chapter 9: an array that no page can have, since addresses have 32 bits there
)


@pytest.fixture(scope="module")
def reader(request):
    """A function: the answer of run.mjs for a chapter and steps, several of them in a dict."""
    root = request.config.rootpath
    site = built_site(root)
    if not (site / "runtime/manifest.json").exists():
        pytest.skip("the site was built without what runs Python in a page")

    def run(chapter, *steps):
        todo = [{step: value} for several in steps for step, value in several.items()]
        page = f"{'book' if chapter.startswith('labs/') or chapter == 'motion' else 'notebooks'}/{chapter}.html"
        answer = browsed(root, "run", site, page, json.dumps(todo), timeout=400)
        assert not answer["findings"]
        steps_ms = ", ".join(f"{step} {took_ms} ms" for step, took_ms in answer["took_ms"].items())
        print(f"{chapter}: ready after {answer.get('ready_ms')} ms ({steps_ms}), {answer['bytes'] / 1e6:.1f} MB")
        return answer

    run.root, run.site = root, site
    return run


def built_cells(page):
    """{number: (source, printed output)} of the cells of a built page."""
    found = {}
    for part in re.split(r'<div class="cell_input', without_gpu_outputs(page.read_text("utf-8")))[1:]:
        plain = lambda html: unescape(re.sub(r"<[^>]+>", "", html))  # noqa: E731
        number = int(re.search(r'<span class="qt-number"[^>]*>cell (\d+)', part)[1])
        outputs = re.findall(
            r'<div class="output (?:stream|text_plain)[^>]*><div class="highlight"><pre>(.*?)</pre>', part, re.S
        )
        found[number] = plain(re.search(r"<pre>(.*?)</pre>", part, re.S)[1]), plain("".join(outputs))
    return found


def without_gpu_outputs(html):
    """A page without the folds of what its cells gave on a GPU, or give for another card's records; a fold may hold others."""
    kept = re.split(r'<details class="qt-fold qt-(?:on-gpu|card qt-of-\w+)">', html)
    for i, rest in enumerate(kept[1:], 1):
        depth = 1
        for tag in re.finditer(r"<(/?)details", rest):
            depth += -1 if tag[1] else 1
            if not depth:
                break
        assert not depth
        kept[i] = rest[tag.end() + 1 :]
    return "".join(kept)


def comparable(text):
    """A cell's text without line breaks and what may differ: where kernels run, what was drawn, a float's last bits."""
    text = re.sub(r"Kernels run on .*|(?m:(?<=^right) for .*(?:\n {2,}.*)*)", "", text)
    text = re.sub(r"\d+\.\d{7,}|\d\.\d+e-\d+|[\d.]+(?= of the tolerated error)|\b\d+e-\d+|\d+(?=\s+ulp)", "#", text)
    return " ".join(text.split())


@pytest.mark.parametrize("chapter", [*EXERCISES, "sandbox", "layout-playground"])
def test_a_chapter_runs_to_its_end_and_its_exercise_is_solved(reader, chapter):
    """The exercise as a reader solves it: in its own cell, whose own lines then say that it is right.

    *Run all* leaves out the solutions that stand folded, and no cell lacks what they define.
    """
    built = built_cells(reader.site / f"notebooks/{chapter}.html")
    name, right = EXERCISES.get(chapter, (None, None))
    solve = ()
    if name:
        number, solution = [n for n in built if re.search(rf"^(class |def ){name}\b|^{name} = ", built[n][0], re.M)][:2]
        both = built[number][0], built[solution][0]
        # on paper: the solution judges what the exercise has named
        typed = solved(*both) if right else "\n".join(both)
        solve = dict(enter=number, type=[number, typed]), dict(enter=number, look=True)
    answer = reader(chapter, dict(run=0, look=True, solutions=True), *solve, dict(download=True))
    assert set(answer["requests_before"]) <= {"/_static/run/lines.js"}
    html = (reader.site / f"notebooks/{chapter}.html").read_text("utf-8")
    folded = len(re.findall(r'<div class="cell [^"]*tag_hide-cell', html))
    states = [cell["state"] for cell in answer["looks"][0]["cells"]]
    assert not [cell["text"] for cell in answer["ran"] if cell["state"] == "failed"]
    assert set(states) <= {"done", "new"} and bool(folded) == ("new" in states)
    assert states.count("new") <= folded
    assert [cell["state"] for cell in answer["ran"]] == ["done"] * len(answer["ran"])
    assert [*built] == [cell["number"] for cell in answer["ran"]]
    for cell in answer["ran"]:
        source, shown = built[cell["number"]]
        # Of an exercise that is not solved the book shows no output, by the rule of book/extension/folds.py.
        unsolved = "# your line" in source or re.search(r"^(\S+ )?not yet\b", cell["text"], re.MULTILINE)
        absent = "matplotlib" in cell["text"] or (TOO_LARGE in source and cell["text"].startswith("Not shown: "))
        if not unsolved and not absent:
            assert comparable(cell["text"]) == comparable(shown), f"cell {cell['number']}"
    assert sum(cell["alive"] for cell in answer["ran"]) >= answer["players"]
    assert 12e6 < answer["bytes"] <= 20e6
    before, after = answer["said"] or (None, None)
    if right:
        assert not re.search(right, before, re.M) and re.search(right, after, re.M), (before, after)
        record = json.loads(answer["looks"][-1]["kept"][f"quack-tutorial:solved:/notebooks/{chapter}.html"])[
            str(number)
        ]
        assert record["right"] and record["points"] is None and record["title"]
        assert record["when"] > "2026"
    elif name:
        assert not before and comparable(after) == comparable(built[solution][1]) != ""
    # The download is the reader's notebook, in which solutions are text, with what was typed.
    mine = json.loads(answer["downloaded"][1])["cells"]
    given = json.loads((reader.root / f"notebooks/{chapter}.ipynb").read_text("utf-8"))["cells"]
    found = [(cell["id"], cell["cell_type"]) for cell in mine]
    assert found == [(cell["id"], cell["cell_type"]) for cell in given]
    if name:
        code = ["".join(cell["source"]).strip() for cell in mine if cell["cell_type"] == "code"]
        assert code.count(typed.strip()) == 1


@pytest.mark.timed
def test_python_is_ready_in_5_s_and_a_simulation_takes_less_than_300_ms(reader):
    """The best of three; half of the chapter's simulations are quicker."""
    answers = [reader("05-block-reduce", dict(run=0)) for _ in range(3)]
    assert min(answer["ready_ms"] for answer in answers) < 5000
    built = built_cells(reader.site / "notebooks/05-block-reduce.html")
    simulating = [n for n in built if re.search(r"\b(watch|simulate|simulated)\(", built[n][0])]
    states = {cell["number"]: cell["state"] for cell in answers[0]["ran"]}
    # Run all leaves folded solutions out
    simulating = [n for n in simulating if states.get(n) == "done"]
    assert len(simulating) >= 10
    took = [[float(re.search(r"[\d.]+", one(answer, n)["took"])[0]) for n in simulating] for answer in answers]
    assert median(map(min, *took)) < 0.3


def one(answer, number):
    """What a cell shows in the end."""
    return next(cell for cell in answer["cells"] if cell["number"] == number)


def test_code_is_typed_coloured_and_left_by_keyboard(reader):
    """Enter keeps the indent and deepens it after a colon, Tab indents, Ctrl-Z takes back, Escape and Tab leave."""
    built = built_cells(reader.site / "notebooks/00-ten-minute-win.html")
    number = next(n for n in built if "qt.launch(double, x, out)" in built[n][0])
    presses = [["End", "Enter", *"y=1", "Enter", "Tab", "z"], ["Control+z", "Control+z"], ["Escape", "Tab"]]
    steps = [dict(type=[number, "def f(n):"]), *({"keys": [number, *keys]} for keys in presses)]
    typed, undone, left = reader("00-ten-minute-win", *steps)["keys"]
    assert typed["text"] == "def f(n):\n    y=1\n        z"
    assert typed["focus"] == f"Code of cell {number}"
    found = [["k", "def"], ["nf", "f"], ["n", "y"], ["mi", "1"]]
    assert found == [part for part in typed["coloured"] if part[1] in ("def", "f", "y", "1")]
    assert typed["text"].startswith(undone["text"]) and len(undone["text"]) < len(typed["text"])
    assert left["text"] == undone["text"] and left["focus"] == f"Run cell {number}"


@pytest.mark.timed
def test_a_kernel_without_end_is_stopped_and_the_page_goes_on(reader):
    built = built_cells(reader.site / "notebooks/00-ten-minute-win.html")
    first = next(n for n in built if "qt.launch(double, x, out)" in built[n][0])
    answer = reader(
        "00-ten-minute-win",
        dict(replace=[first, "print(out)", "while True:\n    pass"], stop=first),
        dict(replace=[first, "while True:\n    pass", "print(out)"], run=first),
    )
    assert answer["stopped_ms"] < 1000
    assert one(answer, first)["text"].startswith("tensor([ 0.,  2.,  4.,")


def test_a_sandbox_kernel_travels_in_its_link(reader):
    """Take the block reduce, leave its barrier out, copy the link, open it in a fresh profile: the race is there."""
    steps = [
        dict(choose=["Start from", "reduce"]),
        dict(choose=["N", "64"], replace=[2, "    cute.arch.barrier()\n", ""], link=True),
        dict(run=6),
    ]
    answer = reader("sandbox", *steps)
    assert any("M, N, dtype = 2, 64, torch.float32" in text for text in answer["linked"])
    assert not any("cute.arch.barrier()" in text for text in answer["linked"])
    text = " ".join(one(answer, 3)["text"].split())
    assert re.search(r"Race \(read after write\) on shared memory.*wrote at cell 2:\d+.*read at cell 2:\d+", text)


BEGIN = dict(visit="", click="Run in this page", wait="Every cell can be changed now")
NONE, BACK = "    # cute.arch.barrier()", "    cute.arch.barrier()"


def test_a_kernel_is_judged_and_drawn_as_one_types(reader):
    """The sum without its barrier, mended, made to add one word twice, and broken again; work is kept over a reload."""
    steps = [
        dict(visit="", look=True, keys=[1, {"before": NONE.strip()}, "Delete", "Delete"]),
        dict(settled=True, look=True),
        dict(replace=[1, "buffer[0] + buffer[1]", "buffer[0] + buffer[0]"], settled=True),
        dict(look=True, axe=True, scheme="dark"),
        dict(axe=True, size=[390, 844], look=True),
        dict(axe=True, choose=["Start from", "race"], settled=True, look=True, follow=True),
        dict(look=True, click="yours, older"),
        dict(look=True, visit="", click="yours, older"),
        dict(look=True),
    ]
    built, mended, twice, narrow, broken, led, older, again = reader("motion", *steps)["looks"]
    race, warps, words, lanes = built["titles"]
    assert race.startswith("A race:") and "wait" in warps and "shared memory" in words
    assert "lane by lane" in lanes
    assert built["python"] == 0 and built["report"].startswith("Something is wrong:")
    assert re.search(r"Race \(read after write\).*wrote at cell 1:18,\s+thread 32 read at cell 1:21", built["report"])

    assert BACK in mended["texts"]["1"] and mended["report"].startswith("Nothing wrong found.")
    beside = dict(zip(map(str.strip, mended["texts"]["1"].split("\n")), mended["cells"][0]["beside"]))
    assert {line: words for line, words in beside.items() if words} == {
        "total = mX[tidx]": "256 B",
        "buffer[warp] = total": "8 B shared",
        "cute.arch.barrier()": "2 warps",
        "mO[tidx] = buffer[0] + buffer[1]": "512 B shared 256 B",
    }
    assert mended["titles"] == [warps, words, lanes]
    assert twice["report"].startswith("Something is wrong:")
    assert "Largest difference" in twice["report"]
    assert narrow["width"] <= 390

    # As it was at first, but for the page that built it.
    assert broken["titles"] == built["titles"]
    assert broken["report"].split() == built["report"].split()
    assert led["focus"] == {"label": "Code of cell 1", "line": 18}
    assert "buffer[0] + buffer[0]" in older["texts"]["1"]
    assert again["texts"] == older["texts"] and again["python"] == 0


def test_what_came_with_a_link_runs_on_a_click_alone(reader):
    """Neither on load nor as it is edited, also where it is the second link in a tab; afterwards as one types."""
    race = (reader.root / "book/static/run/starts/race.py").read_text("utf-8").strip()
    linked, other = race.replace(NONE, BACK) + "\n# theirs", race + "\n# of another"
    steps = [
        dict(visit={"1": linked}, look=True, keys=[1, "Control+End", "!"]),
        dict(wait="changed by you", look=True, axe=True, click="Keep it as mine"),
        dict(keys=[1, "Control+End", "!"], look=True, visit={"1": linked}),
        dict(click="Run the link's code: cell 1", settled=True, look=True),
        dict(replace=[1, "buffer[1]", "buffer[0]"], settled=True, look=True, hash={"1": other}),
        dict(keys=[1, "Control+End", "!"], look=True, click="yours"),
        dict(look=True),
    ]
    opened, typed, kept, ran, changed, second, mine = reader("motion", *steps)["looks"]
    assert opened["texts"]["1"] == linked
    for look in (opened, typed, kept):
        assert look["python"] == 0
        assert "this is what the book's code gives" in look["cells"][0]["stale"]
    for look in (opened, typed, second):
        assert "somebody else's code" in look["remarks"]["1"]
        assert any("It is somebody else's code" in words for words in look["bar"])
    assert ran["report"].startswith("Nothing wrong found.")
    assert changed["report"].startswith("Something is wrong:")
    assert second["texts"]["1"] == other + "!" and "Out of date" in second["cells"][0]["stale"]
    assert mine["texts"]["1"] == linked + "!!"


def test_what_a_link_did_to_python_does_not_meet_the_books_text(reader):
    race = (reader.root / "book/static/run/starts/race.py").read_text("utf-8").strip()
    patch = "from workbench import motion\nmotion.Verdict.right = property(lambda self: True)\n"
    steps = [
        dict(visit={"1": patch + race}, click="Run the link's code: cell 1", settled=True),
        dict(look=True, click="the book's", keys=[1, "Control+Enter"], settled=True),
        dict(look=True),
    ]
    patched, books = reader("motion", *steps)["looks"]
    assert patched["report"].startswith("Nothing wrong found.")
    assert books["report"].startswith("Something is wrong:")


# What is on the page is true of its code --------------------------------------------------------------------------------

BARRIER = "    cute.arch.barrier()\n"


def test_what_an_edit_makes_untrue_is_out_of_date_until_it_runs_again(reader):
    """The sandbox's reduce, run, then without its barrier: no "No race" stands there unmarked; run again, a race.

    The race is drawn below the run, and its lines lead into the editor.
    """
    steps = [
        dict(choose=["Start from", "reduce"], run=0, look=True, replace=[2, BARRIER, ""]),
        dict(look=True, axe=True, scheme="dark"),
        dict(axe=True, size=[390, 844], look=True),
        dict(axe=True, click="Cells"),
        dict(click="Run all cells", wait="1 finding:", run=8, look=True, axe=True),
        dict(click="cell 2:26", look=True, size=[1280, 844], scheme="light", axe=True, run=2),
        dict(look=True, enter=6),
        dict(look=True),
    ]
    clean, broken, narrow, raced, jumped, again, entered = reader("sandbox", *steps)["looks"]
    assert [cell["state"] for cell in clean["cells"]] == ["done"] * 8
    assert not any("stale" in c for c in clean["cells"])
    assert "No race, out-of-bounds access" in clean["cells"][2]["text"]
    # What each line moved stands beside it until the text is another one.
    moved = [one["cells"][1]["beside"] for one in (clean, broken, raced)]
    assert not moved[1]
    assert all(any("shared" in words for words in lines) for lines in (moved[0], moved[2]))
    assert [cell["state"] for cell in broken["cells"]] == ["done"] + ["stale"] * 7
    for cell in broken["cells"][2:]:
        assert cell["stale"] == "Out of date: this came out before cell 2 above was changed."
        assert cell["isHeard"]
    wanted = "The outputs of 6 cells are out of date until they run again: 3, 4, 5, 6, 7, 8."
    assert broken["said"] == wanted
    assert narrow["width"] <= 390
    text = " ".join(raced["cells"][2]["text"].split())
    assert re.search(r"Race \(read after write\).* wrote at cell 2:21, .* read at cell 2:26", text)
    assert raced["cells"][2]["alive"] == 1 and not any("stale" in cell for cell in raced["cells"])
    assert raced["width"] <= 390
    assert jumped["focus"] == {"label": "Code of cell 2", "line": 26} and jumped["markInSight"]
    assert jumped["said"] == "Line 26 of cell 2: total = total + buffer[w]"
    lines = jumped["texts"]["2"].split("\n")
    assert jumped["numbers"]["2"].split("\n") == [str(n) for n in range(1, len(lines) + 1)]
    # Out of order: what came before the second run of cell 2 does not count as coming from it.
    assert [cell["state"] for cell in again["cells"]] == ["done"] * 2 + ["stale"] * 6
    assert again["cells"][2]["stale"] == "Out of date: this came out before cell 2 above ran again."
    assert [cell["state"] for cell in entered["cells"]] == ["done"] * 6 + ["stale"] * 2
    assert re.match(r"Cell 6: Bytes and sectors of cell 2:\d+ cell 2:\d+ .* Request 1 of \d+: ", entered["said"])


def test_what_was_read_of_another_card_is_out_of_date(reader):
    """A cell that asks for it, and one that reads what that one bound; one that does not depend on it is left alone."""
    steps = [
        dict(type=[3, "print(1)"]),
        dict(type=[4, "from quack_tutorial import card\nrow = card.selected()\nprint(row.card)"]),
        dict(type=[5, "print('of', row.card)"], enter=5, card="h200", look=True),
        dict(enter=5, look=True, card="h100"),
        dict(look=True),
    ]
    answer = reader("sandbox", *steps)
    stale = [[cell.get("stale") for cell in look["cells"][2:5]] for look in answer["looks"]]
    words = "Out of date: this came from what was recorded on the {}."
    assert stale[:2] == [[None] + [words.format("H100")] * 2, [None] * 3]
    assert stale[2] == [None] + [words.format("H200")] * 2
    assert [said.split() for said in answer["said"]] == [["of", "h100"], ["of", "h200"]]


def test_run_all_forgets_what_a_line_that_is_gone_did_to_a_module(reader):
    patch = "import numpy as np\nnp.pi = 3\nprint(np.pi)"
    steps = [
        dict(type=[3, patch]),
        dict(type=[4, "print(np.pi)"], enter=4),
        dict(type=[3, patch.replace("np.pi = 3\n", "")], run=0, look=True),
    ]
    answer = reader("sandbox", *steps)
    assert answer["said"] == ["3\n"]
    every = answer["looks"][0]["cells"][2:4]
    assert [cell["text"] for cell in every] == ["3.141592653589793\n"] * 2


def test_output_comes_as_it_is_printed_stays_when_stopped_and_is_cut_when_long(reader):
    """What an endless cell printed is there after Stop; of 200,000 lines the page shows the beginning and the end, in boxes
    that scroll."""
    steps = [
        dict(run=3, type=[4, "for i in range(3):\n    print('line', i)\nwhile True: pass"]),
        dict(stop=4, look=True, type=[4, "for i in range(200_000):\n    print('line', i)"]),
        dict(enter=4, look=True, axe=True),
    ]
    every = reader("sandbox", *steps)["looks"]
    stopped, long = (look["cells"][3] | {"height": look["height"]} for look in every)
    assert re.fullmatch(r"line 0\nline 1\nline 2\nStopped here, after [\d.]+ s\.", stopped["text"])
    assert stopped["state"] == "stopped"
    assert long["text"].startswith("line 0\n") and long["text"].endswith("line 199999\n")
    assert long["text"].count("\n") < 2_000 and long["height"] < stopped["height"] + 2_000
    assert re.search(r"2,2\d\d,\d\d\d characters are left out here", long["text"])
    assert float(re.search(r"[\d.]+", long["took"])[0]) < 10


# Nobody's work is lost --------------------------------------------------------------------------------------------------


def test_what_the_reader_wrote_is_there_before_python_is(reader):
    """After a reload, in a second tab, and when both tabs write; without a byte of Python."""
    steps = [
        BEGIN,
        dict(replace=[2, "THREADS = 64", "THREADS = 32"], visit="", look=True, axe=True, tab=1),
        dict(replace=[3, "= 2, 100", "= 3, 50"], tab=0, look=True, keys=[2, "Control+Home"]),
        dict(tab=1, replace=[2, "THREADS = 32", "THREADS = 96"], click="the book's", look=True),
        dict(visit="", look=True),
    ]
    back, merged, books, after = reader("sandbox", *steps)["looks"]
    assert "THREADS = 32" in back["texts"]["2"] and back["python"] == 0
    assert back["versions"] == {"2": ["*yours", "the book's"]}
    stale = "Out of date: this is what the book's code gives, not the text that cell 2 above has now."
    assert [cell.get("stale") for cell in back["cells"]] == [None, None, *[stale] * 6]
    assert "THREADS = 32" in merged["texts"]["2"] and "= 3, 50" in merged["texts"]["3"]
    # what is shown is what runs
    assert "THREADS = 64" in books["texts"]["2"] and "= 3, 50" in books["texts"]["3"]
    assert books["versions"]["2"][0] == "yours" and books["versions"]["2"][-1] == "*the book's"
    assert "THREADS = 64" in after["texts"]["2"] and len(after["kept"]) == 2
    assert any("THREADS = 96" in record for record in after["kept"].values())


def test_whose_text_is_chosen_in_one_tab_is_followed_by_another(reader):
    steps = [
        BEGIN,
        dict(type=[2, "mine = 1"], keys=[3, "Home"], tab=1, click="the book's"),
        dict(tab=0, look=True),
        dict(tab=1, click="yours"),
        dict(tab=0, look=True),
    ]
    books, mine = reader("sandbox", *steps)["looks"]
    assert books["versions"]["2"] == ["yours", "*the book's"] and "def host" in books["texts"]["2"]
    assert mine["versions"]["2"] == ["*yours", "the book's"] and mine["texts"]["2"] == "mine = 1"


def test_an_edit_of_another_tab_leaves_what_is_typed_here(reader):
    steps = [BEGIN, dict(type=[2, "mine = 1"], tab=1)]
    steps += [dict(type=[2, "theirs = 1"], tab=0, look=True, click="yours, older"), dict(look=True)]
    typing, older = reader("sandbox", *steps)["looks"]
    assert typing["texts"]["2"] == "mine = 1" and older["texts"]["2"] == "theirs = 1"
    wanted = "Another tab changed this cell: its text is under “yours, older”."
    assert typing["remarks"]["2"] == wanted


def test_a_link_opens_beside_what_the_reader_wrote(reader):
    """It says where it comes from; typing in it keeps what was there, and "Keep it as mine" too."""
    steps = [
        BEGIN,
        dict(type=[2, "mine = 1"]),
        dict(type=[3, "mine = 2"], visit={"2": "linked = 1"}, look=True, axe=True),
        dict(keys=[2, "Control+End", "+", "1"], look=True, click="yours"),
        dict(look=True, click="the link's"),
        dict(click="Keep it as mine", look=True, visit=""),
        dict(look=True),
    ]
    linked, typed, mine, taken, after = reader("sandbox", *steps)["looks"]
    assert linked["texts"]["2"] == "linked = 1" and linked["python"] == 0
    (note,) = [words for words in linked["bar"] if words.startswith("The link carries a text for cell 2,")]
    assert "somebody else's code" in note
    assert linked["remarks"] == {
        "2": "From the link: somebody else's code. Read it before you run it. Yours is kept.",
        "3": "The link has the book's text here. Yours is kept.",
    }
    assert all("mine = " in record for record in linked["kept"].values())
    assert typed["texts"]["2"] == "linked = 1+1" and mine["texts"]["2"] == "mine = 1"
    assert taken["texts"]["2"] == "linked = 1+1"
    assert taken["versions"]["2"] == ["*yours", "yours, older", "the book's"]
    assert (after["texts"]["2"], after["texts"]["3"]) == ("linked = 1+1", "mine = 2")


def test_each_text_that_was_replaced_can_be_had_back(reader):
    """Also what was made of one link when another one is opened."""
    steps = [BEGIN]
    for text in ("first = 1", "second = 2", "third = 3"):
        steps += [dict(type=[2, text], click="the book's")]
    steps += [dict(visit={"2": "linked = 1"}, type=[2, "linked = 1 + mine"]), dict(visit={"2": "other = 1"})]
    cases = ("the link's", "yours, older", "yours, older, 1 of 3", "yours, older, 2 of 3", "yours")
    for name in cases:
        steps += [dict(click=name, look=True)]
    looks = reader("sandbox", *steps)["looks"]
    wanted = ["other = 1", "linked = 1 + mine", "second = 2", "first = 1", "third = 3"]
    assert [look["texts"]["2"] for look in looks] == wanted


def test_what_waited_for_a_cell_that_failed_says_so_until_it_runs_again(reader):
    steps = [dict(run=4, replace=[2, "THREADS = 64", "THREADS = 1 / 0"]), dict(run=4, look=True)]
    steps += [dict(replace=[2, "THREADS = 1 / 0", "THREADS = 64"], look=True, run=2), dict(look=True)]
    every = reader("sandbox", *steps)["looks"]
    failed, mended, again = ([cell["took"] for cell in look["cells"]][1:4] for look in every)
    assert failed == ["stopped at the error", *["not run: cell 2 above it failed"] * 2]
    assert not any("failed" in words for words in (*mended, *again))


def test_what_somebody_else_keeps_under_our_names_breaks_nothing(reader):
    path = "/notebooks/sandbox.html"
    strange = {"text:" + path + ":x": '{"text": 5}', "text:" + path + ":y": "7"}
    strange |= {path[1:]: "[1]", path: '["x", {}]'}
    store = [{"store": [f"quack-tutorial:{key}", text]} for key, text in strange.items()]
    look = reader("sandbox", dict(visit=""), *store, dict(visit="", look=True))["looks"][0]
    assert "def host" in look["texts"]["2"]
    assert not any("cannot be opened" in words for words in look["bar"])


def test_without_a_connection_a_start_or_a_download_says_so_and_changes_nothing(reader):
    choose = ["Start from", "softmax"]
    steps = [dict(offline=True, choose=choose, click="Download as notebook"), dict(look=True)]
    look = reader("sandbox", *steps)["looks"][0]
    assert "softmax" not in look["texts"]["2"] and not look["kept"]
    assert any(words.startswith("The notebook cannot be fetched now") for words in look["bar"])


def test_a_link_that_cannot_be_read_is_a_sentence(reader):
    steps = [dict(visit="")]
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = deflate.compress(b'{"2": "' + b" " * 10_000_000 + b'"}') + deflate.flush()
    large = "#cells=" + base64.urlsafe_b64encode(bomb).decode()
    mixed = {"2": 5, "99": "x", "-1": "y", "3": "z = 3"}
    for bad in ("#cells=%%%", "#cells=q1ZQMlKyUjI", mixed, None, [1], "#cells=", large):
        steps += [dict(visit=bad, look=True)]
    looks = reader("sandbox", *steps)["looks"]
    for i, look in enumerate(looks):
        sentence = next(
            words for words in look["bar"] if words.startswith("The link cannot") or "The link cannot" in words
        )
        found = "in full: what it has for cell 2 is no text; this page has no cell “99”" in sentence
        assert found == (i == 2)
    assert looks[2]["texts"]["3"] == "z = 3" and "def host" in looks[2]["texts"]["2"]


def test_a_browser_that_keeps_nothing_says_so_once_and_asks_before_it_leaves(reader):
    wait = dict(visit=""), dict(click="Run in this page", wait="Every cell can be changed now", type=[2, "x = 1"])
    kept = reader("sandbox", *wait, dict(look=True))["looks"][0]
    assert not kept["asks"] and not any("does not keep" in words for words in kept["bar"])
    lost = reader("sandbox", dict(visit="", full=True), *wait, dict(type=[3, "y"], look=True))["looks"][0]
    assert lost["asks"]
    assert sum("does not keep what you write" in words for words in lost["bar"]) == 1


def test_a_report_of_the_built_page_leads_to_its_line(reader):
    """Chapter 5, before anything is started, at the width of a phone."""
    answer = reader("05-block-reduce", dict(visit="", size=[390, 844], follow=True, look=True))
    (look,), (cell, line) = answer["looks"], answer["followed"]
    assert look["focus"] == {"label": f"Code of cell {cell}", "line": line} and look["markInSight"]
    assert look["python"] == 0 and look["width"] <= 390


def test_the_sandbox_says_why_a_number_is_not_taken(reader):
    steps = [dict(choose=["N", "100000"], look=True), dict(choose=["N", "128"], look=True)]
    refused, taken = reader("sandbox", *steps)["looks"]
    assert refused["why"].startswith("Not taken over: N is a whole number from 1 to 4,096")
    assert "2, 100," in refused["texts"]["3"]
    assert taken["why"] == "" and "2, 128," in taken["texts"]["3"]


def solved(exercise, solution):
    """The exercise's text with the functions and classes of the solution in the place of its own, after what it imports."""
    every = ast.parse(solution).body
    answers = {s.name: s for s in every if isinstance(s, (ast.FunctionDef, ast.ClassDef))}
    imports = [s for s in ast.parse(solution).body if isinstance(s, (ast.Import, ast.ImportFrom))]
    parts = [source_of(s, solution) for s in imports]
    for statement in ast.parse(exercise).body:
        answer = answers.get(getattr(statement, "name", None))
        # `class Widen(Widen)` has but what was missing.
        if answer is None or getattr(answer, "bases", None):
            parts.append(source_of(statement, exercise))
        if answer is not None:
            parts.append(source_of(answer, solution))
    return "\n\n\n".join(parts)


def source_of(statement, source):
    """The lines of a statement, its decorators included."""
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
    return "\n".join(source.splitlines()[first - 1 : statement.end_lineno])


# Labs -------------------------------------------------------------------------------------------------------------------


def cells_of(name, master):
    """The code of a lab's cells."""
    notebook = json.loads(release.notebook(name, master))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def typed(name):
    """The steps by which a student types a lab's solution into its page."""
    master = (folders()[name] / f"{name}.md").read_text("utf-8")
    whole = re.sub(rf" *({'|'.join(student.SOLUTION)})\n", "", master)
    both = zip(cells_of(name, student.student_version(master)), cells_of(name, whole), strict=True)
    steps = [{"type": [i, answer]} for i, (given, answer) in enumerate(both, 1) if given != answer]
    assert steps
    return steps


# In .ci/run one a day: what a page adds is the same for all, and `tests/grading` grades every lab's solution.
LABS = [*folders()]
if os.environ.get("TESTS") == "part":
    LABS = [LABS[datetime.date.today().toordinal() % len(LABS)]]


@pytest.mark.parametrize("name", LABS)
def test_a_lab_is_solved_in_the_page_and_handed_in(reader, name):
    """The solution typed in survives a reload and passes each check there; the download gets full marks, on other numbers."""
    words = "Because each lane needs it."
    steps = [*typed(name), dict(answer=words, reload=True, run=0, look=True, download=True)]
    answer = reader(f"labs/{name}", *steps)
    assert set(answer["requests_before"]) <= {"/_static/run/lines.js"}
    checks = [cell["text"] for cell in answer["cells"] if re.search("^right: ", cell["text"], re.M)]
    assert len(checks) == len(re.findall(r"^labs\.check", "\n".join(cells_of(name, master_of(name))), re.M))
    file, text = answer["downloaded"]
    assert file == f"{name}.ipynb"
    every = answer["looks"][0]["kept"].items()
    record = next(value for key, value in every if key.startswith("quack-tutorial:solved:"))
    points = [one["points"] for one in json.loads(record).values()]
    assert all(got == of > 0 for got, of in points) and len(points) == len(checks)
    # test_compiled.py compiles the masters.
    report = grade(name, file, text, seed=77, confirm=False)
    assert report.full, report
    cells = json.loads(text)["cells"]
    assert cells[-1]["source"] == words
    assert cells[-1]["metadata"]["nbgrader"]["grade_id"] == "explain"
    given = json.loads(release.notebook(name, master_of(name)))["cells"]
    assert [(c["id"], c["metadata"]) for c in cells] == [(c["id"], c["metadata"]) for c in given]


def master_of(name):
    """The student's version of a lab's text."""
    return student.student_version((folders()[name] / f"{name}.md").read_text("utf-8"))


def test_a_lab_that_is_not_solved_says_so_without_a_traceback(reader):
    cells = reader("labs/butterfly", dict(run=0, axe=True))["cells"]
    told = [cell["text"] for cell in cells if "not filled in yet" in cell["text"]]
    watched = [text for text in told if text.startswith("Nothing to watch yet: ")]
    assert (len(told), len(watched)) == (7, 1) and not any("Traceback" in text for text in told)
    assert told[-1].startswith("traffic: cell 6:23: RuntimeError: this cell is not filled in yet")


def texts_of(name, content):
    """(name, text) of a file of the site, and of the files that it packs."""
    if name.endswith((".whl", ".zip")):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for entry in archive.namelist():
                yield from texts_of(f"{name}/{entry}", archive.read(entry))
        return
    if name.endswith(".packed"):
        content = zlib.decompress(content)
    elif name.endswith(".bin"):
        content = gzip.decompress(content)
    text = content.decode("utf-8", "replace")
    if name.endswith((".ipynb", ".cells.json")):
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    elif name.endswith(".html"):
        text = unescape(re.sub(r"<[^>]+>", "", text))
    yield name, text


def test_no_solution_and_no_rubric_is_on_the_site(reader):
    """Nor in what runs in the page: not a line of a solution."""
    secret = {}
    public = "".join(file.read_text("utf-8") for file in reader.root.glob("notebooks/*.md"))
    public += "".join(file.read_text("utf-8") for file in reader.root.glob("quack_tutorial/**/*.py"))
    masters = {name: (home / f"{name}.md").read_text("utf-8") for name, home in folders().items()}
    public += "".join(map(student.student_version, masters.values()))
    for name, master in masters.items():
        told = [line for line in student.solution_lines(master) if len(line) >= 30 and "labs.check(" not in line]
        secret[name] = [line for line in told if line not in public]
        assert len(secret[name]) >= 3
    seen = set()
    for file in sorted(reader.site.rglob("*")):
        if not file.is_file() or file.suffix in (".woff", ".woff2", ".png"):
            continue
        for name, text in texts_of(file.relative_to(reader.site).as_posix(), file.read_bytes()):
            seen.add(name.split("/")[0])
            assert "answers.toml" not in name
            # the code that knows the marks
            marks = () if "grading/" in name else ("### BEGIN", "### END")
            told = [words for words in marks if words in text]
            told += [line for lines in secret.values() for line in lines if line in text]
            assert not told, (name, told)
    assert {"book", "notebooks", "runtime", "_sources", "searchindex.js"} <= seen
