"""What a cell of a page gives: text, values, figures, errors, and sentences for what a page has not."""

import sys

import pytest

from quack_tutorial.browser.session import CHART, GPU, Session

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
    assert text.splitlines()[1].strip() == 'File "cell 4", line 4, in <module>' and "session.py" not in text
    assert "return 1 / 0" in text and text.endswith("ZeroDivisionError: division by zero")
    ended, told = outputs(session, 5, "1 +")
    assert not ended and "SyntaxError" in told[0][1] and "session.py" not in told[0][1]


def test_a_finding_names_the_cell_and_its_line(session):
    assert outputs(session, 7, KERNEL)[0]
    ended, told = outputs(session, 8, "x = np.zeros(40, np.float32)\nprint(qt.simulate(copy, x, x.copy()).findings[0])")
    assert ended and told[0][1].startswith("cell 7:8: Out of bounds: thread 40")


def test_the_lines_of_a_cell_that_was_changed_are_the_new_ones(session):
    outputs(session, 7, KERNEL)
    outputs(session, 7, "\n\n" + KERNEL)
    _, told = outputs(session, 8, "x = np.zeros(40, np.float32)\nprint(qt.simulate(copy, x, x.copy()).findings[0])")
    assert told[0][1].startswith("cell 7:10: Out of bounds")


def test_what_needs_a_gpu_says_so_in_one_sentence(session):
    outputs(session, 1, KERNEL)
    ended, told = outputs(session, 2, "copy(1, 2)")
    assert not ended and told[0][1].splitlines()[-1] == GPU


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("mXX[tidx]", "cell 7:8: name 'mXX' is not defined; did you mean mX?"),
        ("cute.arch.lane_id()", "not simulated: cute.arch.lane_id (did you mean lane_idx?) (cell 7:8)"),
    ],
)
def test_a_misspelled_name_is_told_with_its_line_and_sends_nobody_to_a_gpu(session, value, said):
    assert outputs(session, 7, KERNEL.replace("= mX[tidx]", f"= {value}"))[0]
    ended, told = outputs(session, 8, "x = np.zeros(64, np.float32)\nqt.launch(copy, x, x.copy())")
    assert not ended and told == [("error", f"{said}\n    cell 7:8:  mO[tidx] = {value}")]


def test_a_chart_is_left_as_the_book_has_it(session, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert outputs(session, 1, "import matplotlib.pyplot")[1] == [("chart", CHART)]


def test_a_labs_check_is_told_in_sentences(session):
    """What is wrong, also where nothing can be tried; the traceback would be the grader's."""
    source = "from quack_tutorial import labs\n"
    outputs(session, 1, source + "def shuffles(width):\n    return 3\n\nclass ClipToSecond:\n    pass")
    ended, told = outputs(session, 2, "labs.check('butterfly', shuffles)")
    assert not ended and told[0][1].startswith("shuffles: shuffles(2) returns 3. ") and "\n" not in told[0][1]
    ended, told = outputs(session, 3, "labs.check('butterfly', ClipToSecond, 'groups')")
    wanted = "groups: ClipToSecond needs a @cute.jit method __call__(self, mX, mY)"
    assert not ended and told == [("error", wanted)]
