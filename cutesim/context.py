"""Where the simulator is: the group of threads that executes now, its mask, and the Python line it is on.

A `Group` is the unit of lockstep execution. In the fast mode it is a batch of whole blocks; in the checked mode, one
warp. Dynamic values are arrays of shape (blocks or 1, threads or 1), so that uniform values stay small.
"""

from __future__ import annotations

import linecache
import math
import os
import re
import sys
import textwrap
from dataclasses import dataclass, field
from functools import lru_cache
from traceback import walk_tb

import numpy as np

from cutesim.trace import Finding, Line

HERE = __name__.rpartition(".")[0]
PER_THREAD: set = set()  # names of objects in such packages, see `own`
# What to do instead, as an error says it; a package that has its own way to run kernels says that.
ADVICE = {
    "call": "run it with cutesim.simulate(...), or the whole file with `cutesim check FILE.py`",
    "device": "use tensor.cpu()",
}
OWN: dict = {}  # {package: its folder} of kernels that readers import, see `own`
MARK = "_rt"  # the global by which a rewritten function's frame is known
KIND = "_kind_"  # the global that says how it is decorated: "kernel", "jit" or ""
WARP = 32
COPIED = 4096  # the most elements that `spread` copies
COLUMNS = 84  # of an output in JupyterLab beside its file list; it breaks a longer line in the middle of a word


class Told:
    """An error that a notebook and a page show in sentences, with the reader's own lines and without a traceback."""

    def _render_traceback_(self):
        return told(self, COLUMNS)


class SimulationError(Told, Exception):
    """A kernel did something that the DSL or the hardware refuses; `finding` holds the same as data."""

    def __init__(self, finding: Finding):
        super().__init__(finding.message)
        self.finding = finding


class NotSimulated(Told, Exception):
    """The kernel uses something that the simulator does not model; `line` is where, `near` a modelled name much like it."""

    line: Line | None = None
    near = ""


class NeedsWarps(Exception):
    """Raised in the fast mode when warps of one block must run apart; the launch starts again warp by warp."""


@dataclass
class Group:
    """Threads that run in lockstep: `blocks` x `threads` lanes."""

    launch: object  # of scheduler.LaunchState
    blocks: np.ndarray  # (B,) linear block indices
    threads: np.ndarray  # (T,) thread indices within the block; T a multiple of 32
    exists: np.ndarray | None  # (1, T) bool where the last warp is ragged, else None
    warp: int  # warp index in checked mode, -1 in the fast mode
    rows: np.ndarray  # (B,) rows of the launch's shared memory that hold these blocks
    mask: np.ndarray | None = None  # (B|1, T|1) bool, None = every lane
    masks: list = field(default_factory=list)
    pending: list = field(default_factory=list)  # cp.async groups of this warp, oldest first
    open_group: list = field(default_factory=list)
    smem_top: int = 0  # next free byte of the block's shared memory
    # of the cluster barrier that this group has arrived at; negative: at none since it has waited, or ever
    cluster_generation: int = -1
    bulk_open: list = field(default_factory=list)  # bulk stores not yet committed to a group
    bulk_groups: list = field(default_factory=list)
    # lanes that the kernel before this one may not have ended for, None = no lane
    early: np.ndarray | None = None
    shape: tuple = (0, 0)  # blocks and threads
    behind: int = 0  # arms of `if`s that lanes have yet to run once those that run now are through with theirs
    # Of the register arrays changed in this pass of the innermost `while`, by `RunState.made`; -1 = in no such loop
    oldest: float = -1

    def __post_init__(self):
        self.shape = len(self.blocks), len(self.threads)
        if self.launch.use_pdl:
            self.early = np.ones(self.shape, bool)

    def active(self) -> np.ndarray:
        """The active lanes, as a bool array of the group's shape."""
        mask = self.mask
        if mask is None:
            mask = self.exists
        elif self.exists is not None:
            mask = mask & self.exists
        return _every(self.shape) if mask is None else spread(mask, self.shape)

    def lanes_off(self):
        """The mask where some lane is off, or None when every lane is on."""
        if self.mask is None:
            return self.exists
        return self.mask if self.exists is None else self.mask & self.exists

    def push(self, condition: np.ndarray) -> None:
        self.masks.append(self.mask)
        self.mask = condition if self.mask is None else self.mask & condition

    def pop(self) -> None:
        self.mask = self.masks.pop()


@lru_cache(maxsize=64)
def _every(shape: tuple) -> np.ndarray:
    """All lanes on."""
    lanes = np.ones(shape, bool)
    lanes.flags.writeable = False
    return lanes


@dataclass
class Waiting:
    """What a blocked warp yields: `ready()` says when it may go on; `what` is for the deadlock report."""

    ready: object
    what: object  # str, or a function that gives one when a deadlock is reported
    line: object
    mismatch: object = None  # (what is wrong with an mbarrier's byte count, the lines), or ""
    gives_up: bool = False  # goes on, unready, rather than be part of a deadlock
    spins: bool = False  # asks again and again for what another warp, or another block, is to write


def spread(a: np.ndarray, shape: tuple) -> np.ndarray:
    """`a` broadcast to a shape. A view of numpy's takes six times as long to make as a warp's copy; it is for large arrays."""
    if a.shape == shape:
        return a
    if type(a) is not np.ndarray or math.prod(shape) > COPIED:
        return np.broadcast_to(a, shape)
    result = np.empty(shape, a.dtype)
    result[...] = a
    return result


def any_of(a) -> bool:
    """Whether some of an array is True, or not 0: of a warp's, numpy's any() and all() take four times as long as to count."""
    return np.count_nonzero(a) > 0


def all_of(a: np.ndarray) -> bool:
    return np.count_nonzero(a) == a.size


class _State:
    loops: int = 0  # loops of the running kernel that are dynamic
    group: Group | None = None
    run: object = None  # of scheduler.RunState
    exact: bool = False  # whether numbers are computed in float64 as well, see `exact`


STATE = _State()


def group() -> Group:
    """The executing group; an error outside a kernel."""
    if STATE.group is None:
        raise refused("this call belongs inside a @cute.kernel function")
    return STATE.group


def executing() -> Group:
    """The executing group; of a host function, which may touch tensors too, its one thread."""
    return STATE.group or STATE.run.host_thread


def kernel_frame():
    """The innermost frame of the reader's own code, or None."""
    frame = sys._getframe(1)
    while frame is not None and MARK not in frame.f_globals:
        frame = frame.f_back
    return frame


def frames_to(frame) -> list:
    """The frames of the reader's functions that lead from the kernel to this one in a helper, this one first."""
    found, names = [frame], frame.f_globals
    while names.get(KIND) != "kernel":
        frame = frame.f_back
        if frame is None:
            break
        # A lambda has those of its function.
        if frame.f_globals is not names and MARK in frame.f_globals:
            found.append(frame)
            names = frame.f_globals
    return found


def line_of(file: str, number: int, function: str) -> Line:
    return Line(display_name(file), number, linecache.getline(file, number).strip(), function)


def line_at(frame, number: int | None = None) -> Line:
    """The line that a frame is on, or that of another number in its function."""
    return line_of(frame.f_code.co_filename, number or frame.f_lineno, frame.f_code.co_name)


_TEXTS: dict = {}


def text_of(file: str, names: dict | None = None) -> str:
    """All that is in a file, as one text."""
    lines = linecache.getlines(file, names)
    if file not in _TEXTS or _TEXTS[file][0] is not lines:
        _TEXTS[file] = lines, "".join(lines)
    return _TEXTS[file][1]


def display_name(file: str) -> str:
    """A source file's name as a reader knows it: notebook cells become `cell N`."""
    if "ipykernel_" in file or file.startswith("<ipython-input-"):
        return cell_name(file)
    return file


def cell_name(file: str) -> str:
    """`cell N` for the source file that a notebook's kernel gave its Nth cell: the number in brackets beside it."""
    try:
        from IPython import get_ipython

        return f"cell {get_ipython().compile._filename_map[file]}"  # of its last run
    except Exception:
        return "cell"


def here() -> Line:
    """The line the reader's kernel is on."""
    if STATE.run is not None and STATE.run.played is not None:
        return STATE.run.recorder.lines[STATE.run.played[0]]
    frame = kernel_frame()
    return Line("?", 0, "", "?") if frame is None else line_at(frame)


def own(package: str, folder: str, per_thread: tuple = ()) -> None:
    """Simulate the code of a package as the reader's own, wherever it is installed.

    What goes wrong in it is told at the reader's line that called it. `per_thread`: the names that it gives to objects whose
    attributes differ from thread to thread.
    """
    PER_THREAD.update(per_thread)
    OWN[package] = os.path.join(folder, "")


# packages that were loaded before the simulator, and say so
for _module in list(sys.modules.values()):
    if "SIMULATED_AS_OWN" in getattr(_module, "__dict__", ()):
        own(*_module.SIMULATED_AS_OWN)


def is_own(file: str) -> bool:
    """Whether a file belongs to such a package."""
    return file.startswith(tuple(OWN.values()))


def _caller_of_own() -> Line | None:
    """Where the reader's kernel has called the function of an own package that runs now; None where it runs none."""
    frame, inner = kernel_frame(), None
    while frame is not None:
        if MARK in frame.f_globals:
            if not is_own(frame.f_code.co_filename):
                return line_at(frame) if inner else None
            inner = frame
        frame = frame.f_back
    return None


def fail(kind: str, message: str, *, lines: tuple = (), **facts) -> SimulationError:
    """An error at the current line: `file.py:12: message`, with the calls that led there. Inside a function of an own
    package, at the line that called it."""
    where = ""
    if not lines:
        lines = (here(),)
        caller = _caller_of_own()
        if caller is not None:
            where = f" (in {lines[0].function}, {lines[0].where})"
            lines = (caller, *lines)
        else:
            frame = kernel_frame()
            lines += tuple(map(line_at, frames_to(frame)[1:] if frame else ()))
    text = message if not lines[0].number else f"{lines[0].where}: {message}{where}"
    return SimulationError(Finding(kind, text, tuple(lines), **facts))


def first_lane(bad: np.ndarray) -> tuple:
    """Of lanes at fault, (block, thread) or (block, thread, …) of the group: (the first one's place, facts for `fail`)."""
    g = executing()
    wide = np.broadcast_to(bad, g.shape + bad.shape[2:])
    at = tuple(int(place[0]) for place in np.nonzero(wide))
    count = int(wide.reshape(*g.shape, -1).any(axis=2).sum())
    return at, {"block": int(g.blocks[at[0]]), "threads": (int(g.threads[at[1]]),), "count": count}


def counted(number: int, what: str) -> str:
    """ "1 word", "2 words"."""
    return f"{number} {what}{'s' * (number != 1)}"


def refused(message: str, **facts) -> SimulationError:
    """What the language has not, or a mistake of the reader's: kind "language"."""
    return fail("language", message, **facts)


# Of these it is known where the DSL takes them.
WELL_KNOWN = {"Value", "TensorSSA", "Tensor", "CoordinateTensor", "Layout", "Pointer"}


def wrong_kind(message: str, x) -> Exception:
    """A refusal of an object that the DSL does not take there; of one of the simulator's of which that is not known, its own."""
    kind = type(x)
    if hasattr(kind, "_refuse"):  # a name without a value
        x._refuse()
    if kind.__module__.startswith(HERE) and kind.__name__ not in WELL_KNOWN:
        return not_simulated(message)
    return refused(message)


ON_A_GPU = "; run this cell on a GPU"


def refuse_other(call: str, value, *modelled) -> None:
    """NotSimulated if a parameter has another value than those that are modelled; `call` is as in "mapa with addrspace"."""
    if value not in modelled:
        raise not_simulated(f"{call}={value!r}")


def not_simulated(name: str, line: Line | None = None, near: str = "", has: str = "") -> NotSimulated:
    """What is raised for something that the simulator does not have; in a notebook it says that a GPU has it.

    Not where a name is spelt much like one that it has, which is more likely meant, nor where `has` or the name itself, behind a
    semicolon, says what to write.
    """
    line = line or here()
    place = f" ({line.where})" if line.number else ""
    hint = f" (did you mean {near}?)" if near else f", which has {has}" if has else ""
    on_a_gpu = ON_A_GPU if in_notebook() and not hint and "; " not in name else ""
    error = NotSimulated(f"not simulated: {name}{hint}{place}{on_a_gpu}")
    error.line, error.near = line if line.number else None, near or has
    return error


def in_notebook() -> bool:
    return "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None


def told(error: BaseException, columns: int | None = None) -> list[str]:
    """An error as lines of text: what it says, and the reader's lines that it is about.

    Where it names none, as one that no kernel raised, that is the line of the cell that led to it.
    """
    said, *more = getattr(error, "said", str(error)).splitlines() or [""]
    if columns:
        whole = re.sub(r"cell (?=\d)", "cell\0", said)  # so that no row ends between the two
        rows = textwrap.wrap(whole, columns, break_long_words=False, break_on_hyphens=False)
        said = "\n".join(rows).replace("\0", " ")
    lines = (getattr(error, "line", None),)
    lines = error.finding.lines if isinstance(error, SimulationError) else lines
    if not any(lines) and not isinstance(error, AssertionError):  # what a check says is whole
        lines = _cell_lines(error)[-1:]
    shown = (f"    {line.where}:  {line.text}" for line in lines if line and line.number)
    return said.split("\n") + more + list(dict.fromkeys(shown))


def without_frames(error: BaseException) -> BaseException:
    """The same error without the frames so far, for `raise ... from None`; a notebook shows none at all."""
    if not isinstance(error, Told):
        error._render_traceback_ = lambda: told(error, COLUMNS)
    return error.with_traceback(None)


def interrupted(error: KeyboardInterrupt) -> KeyboardInterrupt:
    """The same, which a notebook shows with the line of the reader's that it came in."""
    error.line, error.args = next(reversed(_cell_lines(error)), None), ("Interrupted.",)
    return without_frames(error)


def _cell_lines(error: BaseException) -> list[Line]:
    """The lines of notebook cells that an error has passed through, outermost first."""
    passed = walk_tb(error.__traceback__)
    return [line_at(*at) for at in passed if display_name(at[0].f_code.co_filename).startswith("cell")]
