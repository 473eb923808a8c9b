"""Source, lanes, PTX and SASS: every line of a pane leads where the record says, and the record is of today's source."""

import re
from collections import Counter

import numpy as np
import pytest

import quack_tutorial as qt
from quack_tutorial import figures
from quack_tutorial.figures.linked import panes
from quack_tutorial.kernels import copy, softmax
from quack_tutorial.records import listings
from tests.figures.test_players import Checker

CASES = {"copy-vectors": copy.CopyVectors, "softmax-registers": softmax.SoftmaxRegisters}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    listing, kernel = listings.load(request.param), CASES[request.param]
    x = np.random.default_rng(0).standard_normal((1, listing.N)).astype(np.float32)
    run = qt.simulate(kernel(copy.cutlass.Float32, listing.N), x, np.zeros_like(x), values=True)
    return listing, kernel, run.trace


def test_every_recorded_line_is_in_todays_source(case, root):
    listing, _, _ = case
    text = "".join((root / "quack_tutorial/kernels" / name).read_text() for name in KERNELS)
    source = {line.strip() for line in text.splitlines()}
    assert not [line for _, line in listing.sources if line not in source], "run scripts/record_listing.py again"


KERNELS = ("copy.py", "softmax.py", "reduce.py", "layout.py")


def test_instructions_are_of_the_lines_that_ask_for_them(case):
    listing, _, _ = case

    def lines_of(kind, pattern):
        places, texts = getattr(listing, f"{kind}_from"), getattr(listing, kind)
        every = zip(places, texts)
        return Counter(listing.sources[place][1] for place, text in every if re.search(pattern, text))

    for kind, load, store in (("ptx", r"ld\.global", r"st\.global"), ("sass", r"\bLDG", r"\bSTG")):
        (read,), (write,) = lines_of(kind, load), lines_of(kind, store)
        assert read.startswith("cute.copy(atom, tXgX, tXrX")
        assert write.startswith("cute.copy(atom, tXrX, tXgO")
    if listing.kernel == "SoftmaxRegisters":
        # The compiler gives the first of a row of shuffles to the line before.
        shuffles = lines_of("ptx", r"shfl\.sync")
        found = shuffles["value = op(value, cute.arch.shuffle_sync_bfly(value, offset=1 << i))"]
        assert found >= shuffles.total() - 3 > 8
        assert set(lines_of("sass", r"\bBAR")) == {"cute.arch.barrier()"}


def test_each_step_has_its_line_in_the_source_pane_and_memory_steps_their_instructions(case):
    listing, kernel, trace = case
    player = figures.linked(trace, listing, kernel)
    source, ptx, sass = ({key for key, _ in pane.lines} for pane in panes(trace, listing, kernel))
    assert {frame.source for frame in player.frames} - {""} <= source
    assert ptx | sass <= source | {""}
    moves = {frame.source for frame in player.frames if "global memory" in frame.caption}
    assert len(moves) == 2 and moves <= ptx & sass


def test_the_page_gets_a_button_a_linked_line_and_marks_the_opening_step(case):
    listing, kernel, trace = case
    player = figures.linked(trace, listing, kernel)
    html = player._repr_html_()
    lines = [key for pane in panes(trace, listing, kernel) for key, _ in pane.lines if key]
    assert html.count("data-key=") == len(lines) and html.count('tabindex="0" data-key') == 3
    keys = list(dict.fromkeys(lines))
    marked = {keys[int(n)] for n in re.findall(r'data-key="(\d+)" aria-current', html)}
    assert marked == {player.frames[player.start].source}
    assert html.count("<label hidden>") == 2  # all lines of PTX and of SASS
    assert listing.origin in html and "http" not in html
    checked = Checker(html)
    assert (checked.wrong, checked.open) == ([], [])
