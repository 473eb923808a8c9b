"""What a cell of a page gives: text, values, figures, errors, and sentences for what a page has not."""

import json
import re
import sys

import pytest

from quack_tutorial.browser.errors import GPU
from quack_tutorial.browser.session import CHART, Session, watch_printed

KERNEL = """\
import cutlass.cute as cute
import numpy as np
import quack_tutorial as qt

@cute.kernel
def copy_kernel(mX: cute.Tensor, mO: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    mO[tidx] = mX[tidx]

@cute.jit
def copy(mX: cute.Tensor, mO: cute.Tensor):
    copy_kernel(mX, mO).launch(grid=[1, 1, 1], block=[64, 1, 1])
"""


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


def test_a_cell_prints_and_shows_the_value_of_its_last_line(session):
    ended, told = outputs(session, 1, "print('a', 1)\nx = 2\nx + 1")
    assert ended and "".join(text for kind, text in told if kind == "text") == "a 1\n"
    assert told[-1] == ("value", "3")
    assert outputs(session, 2, "x;") == (True, [])
    assert outputs(session, 3, "None") == (True, [])


def test_what_has_html_is_shown_as_a_figure_also_by_display(session):
    source = "class Figure:\n    def _repr_html_(self): return '<b>7</b>'\ndisplay(Figure(), 3)\nFigure()"
    assert outputs(session, 1, source)[1] == [("html", "<b>7</b>"), ("value", "3"), ("html", "<b>7</b>")]


def test_an_error_is_told_from_the_cells_own_line_on(session):
    ended, told = outputs(session, 4, "def f():\n    return 1 / 0\n\nf()")
    assert not ended and [kind for kind, _ in told] == ["error"]
    text = told[0][1]
    assert text.splitlines()[1].strip() == "cell 4:4, in <module>" and "session.py" not in text
    assert "return 1 / 0" in text and text.endswith("ZeroDivisionError: division by zero")
    ended, told = outputs(session, 5, "1 +")
    assert not ended and "SyntaxError" in told[0][1] and "session.py" not in told[0][1]


def test_a_finding_names_the_cell_and_its_line_also_of_one_that_was_changed(session):
    for before, line in (("", 8), ("\n\n", 10)):
        assert outputs(session, 7, before + KERNEL)[0]
        ended, told = outputs(
            session, 8, "x = np.zeros(40, np.float32)\nprint(qt.simulate(copy, x, x.copy()).findings[0])"
        )
        assert ended and told[0][1].startswith(f"cell 7:{line}: Out of bounds: thread 40")


def test_what_needs_a_gpu_says_so_in_one_sentence(session):
    outputs(session, 1, KERNEL)
    ended, told = outputs(session, 2, "copy(1, 2)")
    assert not ended and told[0][1].splitlines()[-1] == GPU


def test_a_chart_is_left_as_the_book_has_it(session, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert outputs(session, 1, "import matplotlib.pyplot")[1] == [("chart", CHART)]


def test_a_labs_check_is_told_in_sentences(session):
    """What is wrong, also where nothing can be tried; the traceback would be the grader's."""
    source = "import grading as labs\n"
    outputs(session, 1, source + "def shuffles(width):\n    return 3\n\nclass ClipToSecond:\n    pass")
    ended, told = outputs(session, 2, "labs.check('butterfly', shuffles)")
    assert not ended and told[0][1].startswith("shuffles: shuffles(2) returns 3. ") and "\n" not in told[0][1]
    ended, told = outputs(session, 3, "labs.check('butterfly', ClipToSecond, 'groups')")
    wanted = "groups: ClipToSecond needs a @cute.jit method __call__(self, mX, mY)"
    verdict = '[{"of": "lab", "right": false, "checks": ["groups"]}]'
    assert not ended and told == [("error", wanted), ("verdict", verdict)]


# Names: each cell sees what the cells above left ------------------------------------------------------------------------


def told(session, number, source, **how):
    """What is told of a cell, as one text."""
    session.told.clear()
    session.run(number, source, **how)
    return "\n".join(text for _, text in session.told)


def test_a_cell_that_runs_again_sees_the_names_that_the_cells_above_left(session):
    told(session, 1, "x = 1", after=0)
    told(session, 2, "def show():\n    return x\n\nshow()", after=1)
    told(session, 3, "x = 3\ny = 4", after=2)
    assert told(session, 2, "def show():\n    return x\n\nshow()", after=1) == "1"
    assert told(session, 3, "show() + x", after=2) == "2"


def test_a_name_that_no_text_above_defines_any_more_is_missing(session):
    told(session, 1, "tile, width = 4, 5", after=0)
    told(session, 1, "width = 5", after=0)
    text = told(session, 2, "tile", after=1)
    assert text.endswith("NameError: name 'tile' is not defined")


def test_a_missing_name_that_a_cell_below_defines_says_from_where(session):
    told(session, 5, "pass", after=0)
    told(session, 12, "tile = 4", after=5)
    text = told(session, 5, "print(tile)", after=0)
    assert text.endswith("`tile` comes from cell 12, which stands below: a cell sees what is above it.")


def test_what_a_cell_below_changed_in_place_is_named(session):
    told(session, 1, "import numpy as np\nx, names = np.zeros(4), []\ndef total():\n    return x.sum()", after=0)
    told(session, 2, "x.sum()", after=1)
    told(session, 3, "x[0] = 9\nnames.append(3)", after=2)
    note = "This uses `x` as cell 3, which stands below, left it. Run all cells begins anew."
    assert told(session, 2, "x.sum()", after=1).endswith(note)
    assert told(session, 2, "total()", after=1).endswith(note)  # by the way of a function
    assert "`names` as cell 3" in told(session, 2, "len(names)", after=1)
    assert told(session, 2, "len('x')", after=1) == "1"
    told(session, 1, "import numpy as np\nx = np.zeros(4)", after=0)
    assert "note" not in told(session, 2, "x.sum()", after=1) and session.told[-1][0] == "value"


def test_a_tensor_that_a_cell_below_changed_is_named_too(session):
    from cutesim import torch_answer

    session.namespace["torch"] = torch_answer.module()
    told(session, 1, "x, y = torch.zeros(4), torch.ones(4).bfloat16()")
    told(session, 2, "print(x, y)", after=1)
    told(session, 3, "x[0] = 9\ny += 1", after=2)
    again = told(session, 2, "print(x, y)", after=1)
    assert "This uses `x` as cell 3" in again and "This uses `y` as cell 3" in again


def test_a_cell_that_changes_what_stands_above_says_so_when_it_runs_twice(session):
    told(session, 1, "import numpy as np\nx = np.zeros(4)", after=0)
    assert told(session, 2, "x += 1\nprint(x[0])", after=1) == "1.0\n\n"
    again = told(session, 2, "x += 1\nprint(x[0])", after=1)
    assert again.endswith("This uses `x` as an earlier run of this cell left it. Run all cells begins anew.")


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
    session.told.clear()
    session.run(1, source)
    text = "".join(text for kind, text in session.told if kind == "text")
    numbers = [int(line.split()[1]) for line in text.splitlines() if line]
    begins = numbers.index(999) + 1
    assert numbers[:begins] == list(range(1000)) and numbers[begins:] == list(range(numbers[begins], 5000))
    cut = [text for kind, text in session.told if kind == "cut"][-1]
    assert abs(int(re.search(r"([\d,]+) lines", cut)[1].replace(",", "")) - (numbers[begins] - 1000)) <= 1
    assert sum(len(text) for _, text in session.told) < 30_000


def test_one_line_without_end_is_cut_too(session):
    _, told = outputs(session, 1, "for i in range(1_100): print(i)")  # just fits
    text = "".join(text for kind, text in told if kind == "text")
    assert [int(line) for line in text.split()] == list(range(1_100)) and {kind for kind, _ in told} == {"text"}
    _, told = outputs(session, 1, "print('x' * 3_000_000)")
    assert sum(len(text) for _, text in told) < 110_000
    assert "2,896,001 characters" in next(text for kind, text in told if kind == "cut")
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


def test_verdicts_are_told_as_data_and_not_by_what_is_printed(session):
    """The cell before has none of this cell's; what a cell prints is none."""
    source = (
        "import quack_tutorial as qt\nqt.check(1.0, {0});\nqt.verdict({1}, 'it is 3')\nprint('right: 11 of 11 points')"
    )
    said = [dict(outputs(session, 1, source.format(wanted, right))[1]) for wanted, right in ((1.0, True), (2.0, False))]
    for told, right in zip(said, (True, False)):
        assert json.loads(told["verdict"]) == [{"of": "check", "right": right}, {"of": "judge", "right": right}]
    assert "verdict" not in dict(outputs(session, 2, "print('right: 11 of 11 points')\nprint('Right: all')")[1])


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
