"""Runs the cells of one page in one namespace, and tells what came out as it comes.

`Session.run` does what IPython does with a cell: it shows the value of its last line, and a traceback where a line failed. A
cell's file is named `cell N`, the number that the page shows beside it, so that findings and tracebacks lead there.

| what is told | what it is                                                                       |
|--------------|----------------------------------------------------------------------------------|
| `text`       | printed text, in pieces                                                          |
| `value`      | the text of a value                                                              |
| `html`       | a figure                                                                         |
| `error`      | a traceback, without the frames of this file; of a lab's check, its sentence     |
| `chart`      | a sentence: this chart cannot be drawn here, the one in the page is the book's   |

Not covered: magics, `In` and `Out`, widgets, rich outputs other than HTML.
"""

from __future__ import annotations

import ast
import io
import linecache
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout

from quack_tutorial.simulator.context import NotSimulated, told
from quack_tutorial.simulator.loading import answer_imports

CHART = "Drawing this chart takes matplotlib, which is not in this page: the chart shown is the one that the book was built with."
GPU = "This page has no GPU and no CuTe DSL: run this cell in the notebook, on a machine with a Hopper GPU."


class Session:
    """The cells of one page; `tell(kind, text)` is called with each piece of output."""

    def __init__(self, tell):
        self.tell = tell
        self.namespace = {"__name__": "__main__", "display": self.display}
        answer_imports(self.namespace, always=True)

    def run(self, number, source):
        """Run the source of cell `number`; whether it came to its end."""
        file = f"cell {number}"
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
        out = _Told(lambda text: self.tell("text", text))
        try:
            with redirect_stdout(out), redirect_stderr(out):
                body, last = _split(source, file)
                exec(body, self.namespace)
                if last is not None:
                    self.display(eval(last, self.namespace))
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "matplotlib":
                self.tell("error", told_error(error))
                return False
            self.tell("chart", CHART)
        except BaseException as error:
            self.tell("error", told_error(error))
            return False
        return True

    def display(self, *values):
        """Show each value: as a figure where it is one, as text otherwise; None is not shown."""
        for value in values:
            if value is None:
                continue
            figure = getattr(value, "_repr_html_", None)
            html = figure() if callable(figure) and not isinstance(value, type) else None
            self.tell("value" if html is None else "html", repr(value) if html is None else html)


class _Told(io.TextIOBase):
    """A stream that passes on what is written to it."""

    def __init__(self, tell):
        self._tell = tell

    def writable(self):
        return True

    def write(self, text):
        if text:
            self._tell(text)
        return len(text)


def _split(source, file):
    """The code of a cell, and that of the expression that ends it, or None."""
    tree = ast.parse(source, file)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        last = compile(ast.Expression(tree.body.pop().value), file, "eval")
    return compile(tree, file, "exec"), last


def told_error(error):
    """The traceback of a cell's error as text, from the cell's own line on; a sentence more for what only a GPU has.

    Of an error that a notebook shows without a traceback, as a finding or a lab's check, what it says and the lines it is about.
    """
    if hasattr(error, "_render_traceback_"):
        text = "\n".join(told(error))  # in the page its lines are as long as the page is wide
    else:
        frame = error.__traceback__
        while frame is not None and frame.tb_frame.f_code.co_filename == __file__:
            frame = frame.tb_next
        text = "".join(traceback.format_exception(type(error), error, frame)).rstrip()
    needs_gpu = isinstance(error, NotSimulated) and not error.near or "CuTe DSL is not installed" in str(error)
    return f"{text}\n{GPU}" if needs_gpu else text


def start(tell):
    """A session in a page: torch is answered, warnings of long runs are kept quiet."""
    import os

    from quack_tutorial.simulator import torch_answer

    os.environ["QUACK_TUTORIAL_PROGRESS"] = "0"
    torch_answer.answer()
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 3000))
    return Session(tell)
