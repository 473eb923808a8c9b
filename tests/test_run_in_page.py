"""Chapters run in the page, in a real browser: the same findings and numbers as the built page, and what a reader may do.

`tests/site/run.mjs` does what a reader does, this file judges. Skipped where the site was built without
the parts that run Python in a page; where the site or a browser is missing, SITE_TEST=required makes that a failure.
"""

import json
import re
import subprocess
from html import unescape

import pytest

from tests.test_site import find_chromium, missing_tool, skip_unless_required

CHAPTERS = (
    "00-ten-minute-win",
    "01-memory-hierarchy",
    "02-layouts",
    "03-coalesced-loads",
    "04-warp-reduce",
    "05-block-reduce",
    "06-cluster-reduce",
    "07-rmsnorm",
    "08-softmax",
    "11-profiler",
    "12-case-files",
    "14-where-next",
    "sandbox",
)


@pytest.fixture(scope="module")
def reader(request):
    """A function: the answer of run.mjs for a chapter and steps."""
    root = request.config.rootpath
    site = root / "_build/html"
    lack = missing_tool(root)
    if not (site / ".built").exists():
        lack = lack or "it is not built; run `make book` first"
    if lack:
        skip_unless_required(lack)
    if not (site / "runtime/manifest.json").exists():
        pytest.skip("the site was built without what runs Python in a page")

    def run(chapter, *steps):
        command = ["node", str(root / "tests/site/run.mjs"), str(site), f"notebooks/{chapter}.html", json.dumps(steps)]
        done = subprocess.run([*command, "--chromium", find_chromium()], capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr[-3000:]
        answer = json.loads(done.stdout)
        assert not answer["findings"]
        steps_ms = ", ".join(f"{step} {took_ms} ms" for step, took_ms in answer["took_ms"].items())
        print(f"{chapter}: ready after {answer['ready_ms']} ms ({steps_ms}), {answer['bytes'] / 1e6:.1f} MB")
        return answer

    run.site = site
    return run


def built_cells(page):
    """{number: (source, printed output)} of the cells of a built page."""
    found = {}
    for part in re.split(r'<div class="cell_input', page.read_text(encoding="utf-8"))[1:]:
        plain = lambda html: unescape(re.sub(r"<[^>]+>", "", html))  # noqa: E731
        number = int(re.search(r'<span class="qt-number">cell (\d+)', part)[1])
        outputs = re.findall(
            r'<div class="output (?:stream|text_plain)[^>]*><div class="highlight"><pre>(.*?)</pre>', part, re.S
        )
        found[number] = plain(re.search(r"<pre>(.*?)</pre>", part, re.S)[1]), plain("".join(outputs))
    return found


def comparable(text):
    """A cell's text without line breaks and what may differ: where kernels run, and numbers that rest on a float's last bits."""
    text = re.sub(r"Kernels run on .*", "", text)
    text = re.sub(r"\d+\.\d{7,}|\d\.\d+e-\d+|[\d.]+(?= of the tolerated error)|\b\d+e-\d+", "#", text)
    return " ".join(text.split())


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_runs_to_its_end_with_the_built_pages_numbers(reader, chapter):
    answer = reader(chapter, {"run": 0})
    assert not answer["requests_before"]
    assert [cell["state"] for cell in answer["cells"]] == ["done"] * len(answer["cells"])
    built = built_cells(reader.site / f"notebooks/{chapter}.html")
    assert [*built] == [cell["number"] for cell in answer["cells"]]
    for cell in answer["cells"]:
        source, shown = built[cell["number"]]
        # Of an exercise that is not solved the book shows no output, by the rule of book/extension/folds.py.
        unsolved = "# your line" in source or re.search(r"^(\S+ )?not yet\b", cell["text"], re.MULTILINE)
        if not unsolved and "matplotlib" not in cell["text"]:
            assert comparable(cell["text"]) == comparable(shown), f"cell {cell['number']}"
    assert sum(cell["alive"] for cell in answer["cells"]) >= answer["players"]
    assert 12e6 < answer["bytes"] <= 20e6


def test_a_reader_mends_the_race_and_finds_the_change_again(reader):
    """Chapter 5: the kernel without its barrier races; with the barrier put back it does not; the change survives a reload."""
    built = built_cells(reader.site / "notebooks/05-block-reduce.html")
    number, watched = (next(n for n in built if text in built[n][0]) for text in ("def no_barrier", "watch(no_barrier"))
    barrier = "        buffer[warp] = value\n    cute.arch.barrier()"
    steps = [
        {"run": watched + 1},
        {"replace": [number, "        buffer[warp] = value", barrier]},
        {"reload": True},
        {"run": watched},
    ]
    broken = one(reader("05-block-reduce", *steps[:1]), watched + 1)
    assert re.search(
        rf"Race \(read after write\).*cell {number}:\d+.*cell {number}:\d+", " ".join(broken["text"].split())
    )
    assert broken["alive"] == 1
    mended = one(reader("05-block-reduce", *steps[1:]), watched)
    assert mended["text"].count("[8256.0, 8256.0, 8256.0, 8256.0]") == 4


def one(answer, number):
    """What a cell shows in the end."""
    return next(cell for cell in answer["cells"] if cell["number"] == number)


def test_a_kernel_without_end_is_stopped_and_the_page_goes_on(reader):
    built = built_cells(reader.site / "notebooks/00-ten-minute-win.html")
    first = next(n for n in built if "qt.launch(double, x, out)" in built[n][0])
    answer = reader(
        "00-ten-minute-win",
        {"replace": [first, "print(out)", "while True:\n    pass"]},
        {"stop": first},
        {"replace": [first, "while True:\n    pass", "print(out)"]},
        {"run": first},
    )
    assert answer["stopped_ms"] < 1000
    assert one(answer, first)["text"].startswith("tensor([ 0.,  2.,  4.,")


def test_a_sandbox_kernel_travels_in_its_link(reader):
    """Take the block reduce, leave its barrier out, copy the link, open it in a fresh profile: the race is there."""
    steps = [
        {"choose": ["Start from", "reduce"]},
        {"choose": ["N", "64"]},
        {"replace": [2, "    cute.arch.barrier()\n", ""]},
        {"link": True},
        {"run": 6},
    ]
    answer = reader("sandbox", *steps)
    assert any("M, N, dtype = 2, 64, torch.float32" in text for text in answer["linked"])
    assert not any("cute.arch.barrier()" in text for text in answer["linked"])
    text = " ".join(one(answer, 3)["text"].split())
    assert re.search(r"Race \(read after write\) on shared memory.*wrote at cell 2:\d+.*read at cell 2:\d+", text)
