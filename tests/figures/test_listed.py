"""Source, lanes, PTX and SASS: every line opens to what the record has of it, and the record is of today's source."""

import re
from collections import Counter
from html import unescape

import numpy as np
import pytest

import quack_tutorial as qt
from quack_tutorial import figures
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


def test_a_line_opens_to_its_lanes_its_ptx_and_its_sass(case):
    listing, kernel, trace = case
    html = figures.listed(listing, kernel, trace).html
    opened = {}
    for inside in re.findall(r'<details class="qt-line".*?</details>', html, re.DOTALL):
        opened[unescape(re.search(r"<code[^>]*>(.*?)</code>", inside)[1])] = unescape(inside)
    for text, ptx, sass, verb in (
        ("tXgX, tXrX, pred=tXpX", "ld.global", "LDG.E.128", "read"),
        ("tXrX, tXgO, pred=tXpX", "st.global", "STG.E.128", "write"),
    ):
        (line,) = (inside for source, inside in opened.items() if source.startswith(f"cute.copy(atom, {text}"))
        assert ptx in line and sass in line and f"lanes {verb} 512 bytes" in line
    # These only describe.
    assert not [text for text in opened if text.startswith(("bits =", "atom =", "tiled_copy ="))]
    assert {text for _, text in listing.sources if not text.startswith("@")} <= set(opened)
    assert listing.origin in html and "http" not in html
    checked = Checker(html)
    assert (checked.wrong, checked.open) == ([], [])
