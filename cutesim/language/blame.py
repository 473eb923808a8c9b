"""Whose a Python error in simulated code is: the reader's mistake, or something that the simulator lacks.

| Python raised it                 | about                                          | and it becomes |
|----------------------------------|------------------------------------------------|----------------|
| in the simulator's own code      | anything                                       | `NotSimulated` |
| on a line of the reader's        | an object of the simulator's                   | `NotSimulated` |
| in a library's or Python's own function | an object of the simulator's that it was given | `NotSimulated` |
| in any of the last two           | names, the reader's own functions and objects, Python's own values | a finding |

This is the only place that turns a Python error into a finding, so that what the simulator lacks never becomes one. Rules that the
DSL itself has are no Python errors here: the code that knows them raises `context.fail`.
"""

from __future__ import annotations

import builtins
import difflib
import inspect
import re
import sys
import types
from collections import Counter
from traceback import walk_tb

from cutesim.trace import Finding

from ..context import (
    HERE,
    MARK,
    NeedsWarps,
    NotSimulated,
    SimulationError,
    is_own,
    line_at,
    not_simulated,
    refused,
    without_frames,
)
from ..layouts.layout_algebra import Doubtful
from ..memory.tensor import Tensor
from ..values import mathops
from ..values.numeric import TensorSSA, Value
from ..values.placeholders import Missing
from .proxies import STANDS_FOR, original

# What a number is asked for that is one already, and what to write.
ALREADY = {"item": "it is a number already", "numpy": "it is a number already", "astype": "write .to(cutlass.Float32)"}
# what a number has in a simulated kernel
OF_A_NUMBER = ".dtype, .width, .to(type) and .bitcast(type)"
TORCH = f"{HERE}.torch_answer"  # which is torch in a page
# What Python's own functions of numbers are called where a number is known only when the kernel runs.
INSTEAD = {
    int: "x.to(cutlass.Int32)",
    float: "x.to(cutlass.Float32)",
    bool: "x != 0",
    round: "cute.math.floor(x + 0.5)",
    divmod: "q = a // b, then a - q * b",
}
PYTHONS = {kind.__name__: inspect.formatannotation(what) for kind, (_, what) in STANDS_FOR.items()}
# Functions that take here every argument that the DSL's API reference gives them: any other is the caller's mistake.
WHOLE = frozenset(
    "thread_idx block_idx block_dim grid_dim lane_idx warp_idx shuffle_sync shuffle_sync_up shuffle_sync_down "
    "shuffle_sync_bfly vote_ballot_sync vote_any_sync vote_all_sync sync_threads sync_warp".split()
)
# Python's own objects that stand here for richer ones of the DSL's: what they lack may be there.
POORER = (bool, int, float, tuple)
# Whose words need no name.
PLAIN = (AttributeError, IndexError, NameError, TypeError, ValueError, ZeroDivisionError)
RECURSIONS = 20  # calls of one function on the way to a RecursionError that make it the reader's


def of_call(error: Exception, function, args, kwargs) -> Exception:
    """The error of a call that the reader's code made, as the reader is told of it; itself where the call is not its cause."""
    within = any(MARK in frame.f_globals for frame, _ in walk_tb(error.__traceback__.tb_next))
    if isinstance(error, (NotSimulated, NeedsWarps)) or within:
        return error
    for x in (*args, *kwargs.values()):
        if isinstance(x, Missing):
            return not_simulated(repr(x), near=x._near)
    module = getattr(function, "__module__", None) or type(function).__module__
    name = getattr(function, "__name__", type(function).__name__)
    if function is len and len(args) == 1 and isinstance(args[0], Tensor):
        x = getattr(args[0].pointer.memory, "name", "x")
        return refused(f"a tensor has no len(): {x}.shape[0] is its first extent, cute.size({x}) counts its elements")
    if function is len and len(args) == 1 and isinstance(args[0], Value):
        return refused(
            "a number has no len(): in a kernel each thread has its own; cute.size(x) counts a tensor's elements"
        )
    python = function in INSTEAD if isinstance(function, (type, types.BuiltinFunctionType)) else False
    if isinstance(error, (TypeError, SimulationError)) and (python or module in ("math", "numpy")):
        if any(isinstance(x, (Value, TensorSSA)) for x in args):
            instead = INSTEAD[function] if python else f"cute.math.{name}(x)"
            has = python or hasattr(mathops, name)
            return refused(
                f"{'' if python else module + '.'}{name} takes numbers that Python has now, and this one is known only when "
                f"the kernel runs{f': write {instead}' if has else ''}",
            )
    if module.partition(".")[0] == "torch" or module.startswith(TORCH):
        of_kernel = any(isinstance(x, (Value, TensorSSA, Tensor)) for x in args)
        if isinstance(error, TypeError) and of_kernel:
            instead = "CuTe DSL has functions of its own"
            instead = f"write cute.math.{name}(x)" if hasattr(mathops, name) else instead
            return refused(f"torch.{name} takes torch's tensors, on the host, and no value of a kernel: {instead}")
    if isinstance(error, SimulationError):
        return error
    if module.startswith(HERE):
        at_once = error.__traceback__.tb_next is None or error.__traceback__.tb_next.tb_next is None
        if not isinstance(error, TypeError) or not at_once:
            return error
        if error.__traceback__.tb_next is None and name in WHOLE:
            takes = ", ".join(p for p in inspect.signature(function).parameters if p not in ("loc", "ip"))
            return refused(f"{error}; it takes {takes or 'no arguments'}")
        return not_simulated(f"{name} as it is called here: {error}")
    given = [x for x in (*args, *kwargs.values(), getattr(function, "__self__", None)) if _holds_ours(x)]
    if given or _names_ours(str(error)) or _looks_into_twins(function, module, args):
        return not_simulated(f"{name} as it is called here: {_words(error)}")
    return refused(_words(error))


def _looks_into_twins(function, module: str, args) -> bool:
    """Whether a function that looks into its arguments, as a library's and Python's operators do, was given a twin."""
    itself = getattr(function, "__self__", None)
    if isinstance(function, (types.WrapperDescriptorType, types.MethodWrapperType)):
        module = ""
    return module != "builtins" and any(original(x) is not x for x in (*args, itself))


def of_run(error: Exception) -> Exception | None:
    """An error that came out of simulated code as what it is, with its line; None where it is not from simulated code."""
    passed = list(walk_tb(error.__traceback__))
    simulated = [at for at in passed if MARK in at[0].f_globals]
    if not simulated or isinstance(error, MemoryError):
        return None
    of_readers = [at for at in simulated if not is_own(at[0].f_code.co_filename)]
    inner, on_a_line = line_at(*simulated[-1]), simulated[-1] is passed[-1]
    # What goes wrong inside a function of an own package is said at the line that called it.
    line = line_at(*of_readers[-1]) if of_readers and of_readers[-1] is not simulated[-1] else inner
    calls = Counter(frame.f_code for frame, _ in of_readers)
    message = _of_readers(error, on_a_line, max(calls.values(), default=0))
    if message is None:
        of_an_object = _is_of_an_object(error)
        near = _like(error.name, dir(error.obj), 0.8) if of_an_object else ""
        has = OF_A_NUMBER if of_an_object and isinstance(error.obj, Value) else ""
        return not_simulated(_lacks(error, on_a_line), line, near, has)
    if isinstance(error, NameError):
        message += _near(error.name, simulated[-1][0])
    within = "" if line is inner else f" (in {inner.function}, {inner.where})"
    return SimulationError(Finding("language", f"{line.where}: {message}{within}", tuple(dict.fromkeys((line, inner)))))


def of_the_compiler(error: Exception) -> Exception | None:
    """An error of the real DSL's compiler whose cause Python raised in the kernel's own line, told with it; None for any other."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    *_, (frame, number) = walk_tb(cause.__traceback__)
    own = "cutlass" not in frame.f_code.co_filename
    if not own or not isinstance(cause, (NameError, AttributeError, TypeError)):
        return None
    line, said = line_at(frame, number), str(cause)
    if isinstance(cause, NameError):
        said += _near(cause.name, frame)
    elif _is_of_an_object(cause) and _like(cause.name, dir(cause.obj), 0.8):
        said += f"; did you mean {_like(cause.name, dir(cause.obj), 0.8)}?"
    error.said, error.line = f"{line.where}: {said}", line
    # what Python prints where no notebook shows it
    error.add_note(f"{error.said}\n    {line.text}")
    return without_frames(error)


def _is_of_an_object(error) -> bool:
    return isinstance(error, AttributeError) and hasattr(error, "obj") and error.name is not None


def _near(name, frame) -> str:
    """What is asked about a name that is not defined: whether one much like it is meant."""
    near = _like(name or "", {**frame.f_globals, **frame.f_locals})
    return f"; did you mean {near}?" if near else ""


def _like(name, known, cutoff=0.6) -> str:
    """The public name most like `name`, or nothing."""
    public = [known for known in known if not known.startswith("_")]
    return next(iter(difflib.get_close_matches(name, public, 1, cutoff)), "")


def _of_readers(error, on_a_line: bool, repeats: int) -> str | None:
    """What to say of an error that is the reader's own; None where it is the simulator's. `on_a_line`: Python raised it there."""
    if isinstance(error, RecursionError):
        return f"{error}: a function calls itself without end" if repeats >= RECURSIONS else None
    if isinstance(error, AttributeError):
        return _attribute_of_readers(error, on_a_line)
    if on_a_line:
        return None if isinstance(error, TypeError) and _names_ours(str(error)) else _words(error)
    raised_by = _last_frame(error).f_globals.get("__name__", "")
    if raised_by.startswith(HERE):
        # The functions of layouts say by ValueError what a layout cannot do.
        of_layout = raised_by.rpartition(".")[2].startswith("layout")
        return str(error) if type(error) is ValueError and of_layout else None
    # of a library: `of_call` has seen that it was given nothing of the simulator's
    return _words(error)


def _attribute_of_readers(error: AttributeError, on_a_line: bool) -> str | None:
    if not hasattr(error, "obj") or error.name is None:
        return None if not on_a_line or _names_ours(str(error)) else _words(error)
    x = error.obj
    mine = original(x)
    if mine is not x:
        if hasattr(mine, error.name):
            return None
        if isinstance(mine, types.ModuleType) or callable(mine) and hasattr(mine, "__name__"):
            return f"{getattr(mine, '__name__', mine)} has no .{error.name}"
        return (
            f"{type(mine).__name__} has no .{error.name}: is it spelt so, and set in __init__ or defined in the class?"
        )
    if is_ours(x):
        if isinstance(x, (Value, TensorSSA)) and error.name in ALREADY:
            return f".{error.name} is numpy's and torch's; of a value in a kernel, {ALREADY[error.name]}"
        return None
    theirs = on_a_line or _last_frame(error).f_code.co_name == "extents"
    return _words(error) if theirs and not isinstance(x, POORER) else None


def _lacks(error, on_a_line: bool) -> str:
    """The name of what the simulator lacks."""
    if isinstance(error, AttributeError) and getattr(error, "name", None) is not None:
        x = getattr(error, "obj", None)
        if is_ours(x) or isinstance(x, POORER) or original(x) is not x:
            return f".{error.name} of {_noun(original(x))}"
    if isinstance(error, Doubtful):
        return f"what CuTe DSL makes of this: {error}"
    return _words(error) if on_a_line else f"what this line asks for: {type(error).__name__}: {error}"


def _noun(x) -> str:
    kind = "number" if isinstance(x, Value) else type(x).__name__
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"


def _words(error: Exception) -> str:
    """What Python says, with the names that Python has for the reader's functions and classes."""
    said = re.sub(rf"'({'|'.join(PYTHONS)})'", lambda found: f"'{PYTHONS[found[1]]}'", str(error))
    said = said.replace("_inner_", "the function")
    if said and isinstance(error, PLAIN):
        return said
    return ": ".join(filter(None, (type(error).__name__, said)))


def _last_frame(error):
    return [frame for frame, _ in walk_tb(error.__traceback__)][-1]


def is_ours(x) -> bool:
    """Whether an object is the simulator's, in place of one of the DSL's."""
    return type(x).__module__.startswith(HERE) and type(x) not in STANDS_FOR


def _holds_ours(x, depth=0) -> bool:
    if is_ours(x):
        return True
    if depth > 2 or not isinstance(x, (tuple, list, set, dict)):
        return False
    return any(_holds_ours(v, depth + 1) for v in (x.values() if isinstance(x, dict) else x))


def _names_ours(message: str) -> bool:
    """Whether Python names a class of the simulator's in what it says."""
    words = set(re.findall(r"\w+", message))
    for name, module in list(sys.modules.items()):
        if name.startswith(HERE):
            for word in words & vars(module).keys():
                kind = vars(module)[word]
                if isinstance(kind, type) and kind.__module__ == name and word not in PYTHONS:
                    return not hasattr(builtins, word)
    return False
