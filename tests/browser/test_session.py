"""What a cell of a page gives: text, values, figures, errors, and sentences for what a page has not."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.transcripts import played
from workbench.errors import GPU
from workbench.session import CHART, Session, watch_printed


@pytest.fixture
def session():
    told = []
    session = Session(lambda kind, text: told.append((kind, text)))
    session.told = told
    return session


def outputs(session, number, source):
    """(whether the cell came to its end, what was told of it)."""
    session.told.clear()
    return session.run(number, source), list(session.told)


def test_cells_are_told_and_see_the_names_of_the_cells_above(snapshot):
    file = Path(__file__).with_name("cells.txt")
    snapshot(played(file), file)


def test_an_error_is_told_without_a_frame_of_ours(session):
    for source in ("def f():\n    return 1 / 0\n\nf()", "1 +"):
        ended, ((kind, text),) = outputs(session, 5, source)
        assert not ended and kind == "error" and "cell 5" in text and "session.py" not in text


def test_a_chart_is_left_as_the_book_has_it(session, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert outputs(session, 1, "import matplotlib.pyplot")[1] == [("chart", CHART)]


def test_random_numbers_are_those_of_the_cells_order():
    from cutesim import torch_answer

    said, generator = [], torch_answer.Generator()
    session = Session(lambda kind, text: said.append(text), vars(generator))
    session.namespace["draw"] = lambda: float(generator.uniform(1)[0])
    session.run(1, "draw()")
    session.run(2, "draw()", after=1)
    session.run(3, "draw()", after=2)
    session.run(2, "draw()", after=1)
    assert said[3] == said[1] and len({*said}) == 3


# What is printed ----------------------------------------------------------------------------------------------------------


def test_text_is_told_as_it_is_printed(session):
    times = []
    session.tell = lambda kind, text: times.append(text)
    session.namespace["seen"] = lambda: list(times)
    session.run(1, "print('a')\nfirst = seen()\nprint('b')")
    assert "".join(session.namespace["first"]) == "a\n" and "".join(times) == "a\nb\n"


@pytest.mark.parametrize(
    "source", ["for i in range(5_000): print('line', i)", "print(*[f'line {i}\\n' for i in range(5_000)], sep='')"]
)
def test_of_a_long_output_the_middle_is_left_out_and_counted(session, source):
    _, told = outputs(session, 1, source)
    begins, (_, cut), end = "".join(text for _, text in told[:-2]), *told[-2:]
    written = "".join(f"line {i}\n" for i in range(5_000))
    assert begins.count("\n") == 1000 and written.startswith(begins) and len(end[1]) == 4_000
    assert written.endswith(end[1].rstrip() + "\n")
    left_out = int(re.search(r"([\d,]+) characters", cut)[1].replace(",", ""))
    assert 0 <= len(begins) + left_out + len(end[1]) - len(written) <= 1  # print's own newline


def test_one_line_without_end_is_cut_too(session):
    _, told = outputs(session, 1, "print('x' * 3_000_000)")
    assert "2,896,001 characters" in next(text for kind, text in told if kind == "cut")
    assert sum(len(text) for _, text in told) < 110_000
    _, told = outputs(session, 2, "'x' * 3_000_000")
    assert len(told[0][1]) < 110_000 and "characters are left out" in told[0][1]


# Races ----------------------------------------------------------------------------------------------------------------------

RACY = """\
import cutlass
import cutlass.cute as cute
import numpy as np
import quack_tutorial as qt

@cute.kernel
def racy_kernel(mO: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    slots = smem.allocate_tensor(cutlass.Float32, cute.make_layout(64), 16)
    slots[tidx] = cutlass.Float32(tidx)
    mO[tidx] = slots[63 - tidx]

@cute.jit
def racy(mO: cute.Tensor):
    racy_kernel(mO).launch(grid=[1, 1, 1], block=[64, 1, 1])
"""


def test_what_needs_a_gpu_says_so_in_one_sentence(session):
    outputs(session, 1, RACY)
    ended, told = outputs(session, 2, "racy(1)")
    assert not ended and told[0][1].splitlines()[-1] == GPU


@pytest.fixture
def watched(session, monkeypatch):
    """The session, which knows of the runs that its cells print."""
    from cutesim import simulation

    for name in ("__str__", "__repr__"):
        monkeypatch.setattr(simulation.Run, name, getattr(simulation.Run, name))
    watch_printed(session, simulation.Run)
    session.run(1, RACY)
    return session


def test_a_race_in_the_readers_kernel_is_drawn_when_its_run_is_printed(watched):
    run = "run = qt.simulate(racy, np.zeros(64, np.float32), values=True)\n"

    def kinds(source, yours):
        return [kind for kind, _ in outputs_of(watched, source, yours) if kind not in ("text", "lines")]

    assert kinds(run + "print(run)", [1]) == ["html"] and "A race: cell 1:11 against cell 1:12" in watched.told[-1][1]
    assert kinds(run + "run", [1]) == ["value", "html"]
    # Of the book's own kernel the text says why.
    assert kinds(run + "print(run)", []) == [] == kinds(run + "print(run)", [2])
    assert kinds(run + "print(run.ok)", [1]) == []
    shown = run + "print(run)\nfrom quack_tutorial import figures\nfigures.race(run.trace, run.findings[0])"
    assert kinds(shown, [1]) == ["html"]  # once


def test_the_bytes_of_each_line_are_told_when_a_run_is_printed(watched):
    # Each of 64 threads writes a float to shared memory, reads one from there, and writes one out.
    for source, told in (("print({})", True), ("{}", True), ("print({}.ok)", False)):
        run = "qt.simulate(racy, np.zeros(64, np.float32))"
        lines = [text for kind, text in outputs_of(watched, source.format(run), [1]) if kind == "lines"]
        assert len(lines) == told
    found = json.loads(outputs_of(watched, f"print({run})", [1])[-2][1])
    assert found == {"1": {"11": [["writes", "256 B shared"]], "12": [["reads", "256 B shared"], ["writes", "256 B"]]}}


def outputs_of(session, source, yours):
    session.told.clear()
    session.run(2, source, yours=yours)
    return list(session.told)


def test_what_depends_on_the_card_names_it(session):
    """A cell that asks, and one that reads a name that such a cell bound, itself or in a function; no other."""
    cells = [
        "from quack_tutorial import card\ndef sms():\n    return row.sms\nplain = 1",
        "row = card.selected()",
        "plain + 1",
        "sms()",
        "row = 3",
        "row",
    ]
    session.take_card("h200")
    told = [dict(outputs(session, n, cell)[1]).get("card") for n, cell in enumerate(cells, 1)]
    assert told == [None, "h200", None, "h200", None, None]
    session.take_card("")
