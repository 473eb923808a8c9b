"""Runs the cells of one page in one namespace, and tells what came out as it comes.

`Session.run` does what IPython does with a cell: it shows the value of its last line, and a traceback where a line failed. A
cell's file is named `cell N`, the number that the page shows beside it, so that findings and tracebacks lead there.

A cell sees the names as the cells above it left them, whatever has run since: each cell's names are kept, and put back before
the cell below runs again. What no copy of the names can put back is an object that was changed in place. `note` tells of it where
an array, or a list's or dict's own entries, are other ones; of what lies deeper, or in a module, it does not. The page's *Run all
cells* therefore starts Python anew.

| what is told | what it is                                                                       |
|--------------|----------------------------------------------------------------------------------|
| `text`       | printed text, in pieces                                                          |
| `cut`        | a sentence in the place of printed text that is left out |
| `value`      | the text of a value                                                              |
| `html`       | a figure                                                                         |
| `error`      | a traceback, without the frames of this file; of a lab's check, its sentence     |
| `lines`      | of the printed runs, as JSON: what each line of a cell moved, {cell: {line: [[kind, words], ...]}} |
| `verdict`  | as JSON: what `quack_tutorial.notebook.VERDICTS` has of this cell; by nothing else does the page know what is right |
| `card`     | of a cell that depends on it, itself or by a name from above: the card whose records it read |
| `chart`    | a sentence: this chart cannot be drawn here; the one in the page is the book's |
| `note`       | a sentence: the cell used a value that a cell below it has changed               |

Not covered: magics, `In` and `Out`, widgets, rich outputs other than HTML.
"""

from __future__ import annotations

import ast
import copy
import inspect
import io
import json
import linecache
import os
import re
import sys
import zlib
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from types import FunctionType

from cutesim.language.loading import answer_imports
from quack_tutorial.compiler import global_names
from workbench.errors import told_error

CHART = "Drawing this chart takes matplotlib, which is not in this page: the chart shown is the one that the book was built with."
MOST_LINES, MOST_CHARACTERS = 1_000, 100_000  # of what a cell prints, at the beginning
END_CHARACTERS = 4_000  # of what it prints in the end, when the middle is left out
# Bytes of an array, or entries of a list, that are looked through for changes.
MOST_WATCHED = 1 << 22


@dataclass(frozen=True)
class _Left:
    """What a cell left behind: all names, the state of the random numbers, what the objects looked like, by identity, and which
    names depend on the card."""

    names: dict
    random: dict
    looks: dict
    of_card: frozenset


class Session:
    """The cells of one page; `tell(kind, text)` is called with each piece of output.

    `random` is what the generator of random numbers is made of; it is put back like the names.
    """

    def __init__(self, tell, random=None):
        self.tell = tell
        self.random = {} if random is None else random
        self.namespace = {"__name__": "__main__", "display": self.display}
        answer_imports(self.namespace, always=True)
        self.of_card = frozenset()  # names that a cell bound which depends on the card
        self.left = {0: self._state()}  # by cell; 0 before the first
        self.out = _Told(tell)
        # Runs of the simulator that this cell printed, figures that it showed.
        self.printed, self.titles = [], set()

    def take_card(self, name):
        """From here on the records of that card are read; of an empty name, the book's."""
        os.environ.pop("QUACK_TUTORIAL_CARD", None)
        if name:
            os.environ["QUACK_TUTORIAL_CARD"] = name

    def run(self, number, source, after=None, yours=()):
        """Run the source of cell `number` on the names that cell `after` left, or on all; whether it came to its end.

        `yours` are the cells whose text is the reader's: a race in one of them is drawn when its run is printed.
        """
        file = f"cell {number}"
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
        if after is not None:
            self._go_back(after)
        self.printed.clear()
        self.titles.clear()
        _of("notebook", "VERDICTS", []).clear()
        asked, before = _of("card", "times_asked", int)(), dict(self.namespace)
        self.out = _Told(self.tell)
        notes, used = [], set()
        try:
            with redirect_stdout(self.out), redirect_stderr(self.out):
                body, last, used = _split(source, file)
                notes = [] if after is None else self._changed_below(number, self.left[after], used)
                exec(body, self.namespace)
                if last is not None:
                    self.display(eval(last, self.namespace))
                self._tell_lines()
                self._draw_races(set(yours))
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "matplotlib":
                self._show("error", told_error(error))
                return False
            self._show("chart", CHART)
        except BaseException as error:
            self._show("error", _shortened(told_error(error) + self._stands_below(number, error)))
            return False
        finally:
            self.out.end()
            for note in notes:
                self.tell("note", note)
            if verdicts := list(_of("notebook", "VERDICTS", [])):
                self.tell("verdict", json.dumps(verdicts))
            self._tell_card(_of("card", "times_asked", int)() > asked, used, before)
            self.left.pop(number, None)  # so that the dictionary's order is the order of the runs
            self.left[number] = self._state()
        return True

    def display(self, *values):
        """Show each value: as a figure where it is one, as text otherwise; None is not shown."""
        for value in values:
            if value is None:
                continue
            figure = getattr(value, "_repr_html_", None)
            html = figure() if callable(figure) and not isinstance(value, type) else None
            if html is None:
                self._show("value", _shortened(repr(value)))
            else:
                self.titles.add(getattr(value, "title", None))
                self._show("html", html)

    def _show(self, kind, text):
        self.out.end()
        self.tell(kind, text)

    def _state(self):
        looks = {id(value): _look(value) for value in self.namespace.values()}
        return _Left(dict(self.namespace), copy.deepcopy(self.random), looks, self.of_card)

    def _go_back(self, after):
        state = self.left[after]
        self.namespace.clear()  # functions know it, so it stays the same dictionary
        self.namespace.update(state.names)
        self.of_card = state.of_card
        self.random.clear()
        self.random.update(copy.deepcopy(state.random))

    def _changed_below(self, number, above, used):
        """A sentence for each used name whose object this cell or one below it changed in place since the state `above`."""
        notes = []
        for name in sorted(self._reached(used)):
            value = self.namespace[name]
            before = above.looks[id(value)]
            if before == _look(value):
                continue
            later = [cell for cell, left in self.left.items() if cell >= number and id(value) in left.looks]
            changed = next((cell for cell in later if self.left[cell].looks[id(value)] != before), None)
            if changed is not None:
                whose = "an earlier run of this cell" if changed == number else f"cell {changed}, which stands below,"
                notes.append(f"This uses `{name}` as {whose} left it. Run all cells begins anew.")
        return notes

    def _reached(self, names):
        """These names of the namespace, and those that its functions among them use."""
        found, todo = set(), [name for name in names if name in self.namespace]
        while todo:
            name = todo.pop()
            if name in found:
                continue
            found.add(name)
            function = self.namespace[name]
            function = inspect.unwrap(function) if callable(function) and not isinstance(function, type) else None
            if isinstance(function, FunctionType) and function.__globals__ is self.namespace:
                todo += [other for other in global_names(function.__code__) if other in self.namespace]
        return found

    def _tell_card(self, has_asked, used, before):
        """Tell the card whose records were read where this cell depends on it, and know its names from now on."""
        depends = has_asked or not self.of_card.isdisjoint(self._reached(used))
        bound = {name for name, value in self.namespace.items() if name not in before or before[name] is not value}
        self.of_card = self.of_card | bound if depends else self.of_card - bound
        if depends:
            self.tell("card", os.environ.get("QUACK_TUTORIAL_CARD", ""))

    def _stands_below(self, number, error):
        """A sentence where a name is missing that a cell below assigns."""
        name = getattr(error, "name", None) if isinstance(error, NameError) else None
        cells = sorted(cell for cell, left in self.left.items() if cell > number and name in left.names)
        if not cells or name in self.namespace:
            return ""
        return f"\n`{name}` comes from cell {cells[0]}, which stands below: a cell sees what is above it."

    def _draw_races(self, yours):
        """Show the first race of each printed run that has a line in one of these cells, where the cell does not show it itself."""
        for run in self.printed:
            races = [f for f in run.findings if f.kind == "race" and _cells(f) & yours]
            if not races:
                continue
            from quack_tutorial import figures

            try:
                picture = figures.race(run.trace, races[0])
            except ValueError:  # the report says it in words
                continue
            if picture.title not in self.titles:
                self.display(picture)

    def _tell_lines(self):
        """What the lines of the page's cells moved in the printed runs, of each cell in the last run that it took part in."""
        found = {}
        for run in self.printed:
            from workbench import motion

            lines = motion.beside_lines(run)
            found |= {file[5:]: of_file for file, of_file in lines.items() if re.fullmatch(r"cell \d+", file)}
        if found:
            self._show("lines", json.dumps(found))


def _of(module, name, otherwise):
    """What a module of ours has under a name, where it is loaded."""
    return getattr(sys.modules.get(f"quack_tutorial.{module}"), name, otherwise)


def _cells(finding):
    """The numbers of the cells that a finding's lines are in."""
    return {int(line.file[5:]) for line in finding.lines if line.file.startswith("cell ") and line.file[5:].isdigit()}


def _look(value):
    """What tells an array, list, dict or set from what it was before it was changed; 0 for other things, and large ones."""
    if isinstance(value, (list, set)) and len(value) <= MOST_WATCHED >> 10:
        return hash(tuple(map(id, value)))
    if isinstance(value, dict) and len(value) <= MOST_WATCHED >> 10:
        return hash(tuple((key, id(item)) for key, item in value.items()))
    if not hasattr(type(value), "shape"):
        return 0
    bits = getattr(value, "bits", value)  # of what answers for torch's tensors in a page
    try:
        array = bits if hasattr(bits, "tobytes") else value.detach().cpu().numpy()
        return zlib.crc32(array.tobytes()) if array.nbytes <= MOST_WATCHED else 0
    except Exception:  # no array, or of a type that numpy has not
        return 0


def _shortened(text):
    """A text's beginning and end, where it is very long."""
    pieces = []
    out = _Told(lambda kind, piece: pieces.append(f"\n{piece}\n" if kind == "cut" else piece))
    out.write(text)
    out.end()
    return "".join(pieces)


class _Told(io.TextIOBase):
    """A stream that tells what is written to it: of a very long text the beginning at once, in the end the end."""

    def __init__(self, tell):
        self._tell = tell
        self._lines, self._characters = MOST_LINES, MOST_CHARACTERS  # what there is room for
        self._end, self._left_out = "", 0

    def writable(self):
        return True

    def write(self, text):
        begins = "".join(text[: self._characters].splitlines(True)[: self._lines])
        self._lines -= begins.count("\n")
        self._characters -= len(begins)
        if begins:
            self._tell("text", begins)
        end = self._end + text[len(begins) :]
        self._end = end[-END_CHARACTERS:]
        self._left_out += len(end) - len(self._end)
        return len(text)

    def end(self):
        """Tell the end of what was written, and how much is missing before it."""
        if self._left_out:
            self._tell("cut", f"… {self._left_out:,} characters are left out here, of so long an output. …")
        if self._end:
            self._tell("text", self._end)
        self._end, self._left_out = "", 0


def _split(source, file):
    """The code of a cell, that of the expression that ends it or None, and the names that it takes from elsewhere."""
    tree = ast.parse(source, file)
    used, own, last = set(), set(), None
    for statement in tree.body:
        nodes = list(ast.walk(statement))
        taken = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        taken |= {n.target.id for n in nodes if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
        used |= taken - own
        own |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        own |= {statement.name} if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) else set()
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        last = compile(ast.Expression(tree.body.pop().value), file, "eval")
    return compile(tree, file, "exec"), last, used


def start(tell):
    """A session in a page: torch is answered, warnings of long runs are kept quiet, printed runs are watched for races."""
    from cutesim import simulation, torch_answer

    os.environ["QUACK_TUTORIAL_PROGRESS"] = "0"
    torch_answer.answer()
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 3000))
    session = Session(tell, vars(torch_answer.default_generator))
    watch_printed(session, simulation.Run)
    return session


def watch_printed(session, Run):
    """From now on the session knows which of the simulator's runs a cell printed."""
    plain = Run.__str__

    def told(run):
        if not any(run is other for other in session.printed):
            session.printed.append(run)
        return plain(run)

    Run.__str__ = Run.__repr__ = told
