"""Somebody's own file on the simulator: `cutesim check FILE.py[:function] [ARGUMENT ...]`.

| words                                     | what runs                                                                    |
|-------------------------------------------|------------------------------------------------------------------------------|
| `FILE.py`                                 | the file, as a script; every launch in it is simulated and checked           |
| `FILE.py:softmax x=bf16:8x4096 out=...`   | that @cute.jit function, or that Python function which launches kernels      |
| `'FILE.py:Softmax(4096)' x=bf16:8x4096`   | that object: what stands after the colon is an expression of the file's names |

An argument is a number, `true`, `false`, `none`, or a tensor `TYPE:SHAPE[:VALUES]`; `name=` before it gives it to that parameter.
TYPE is f32, bf16, f16, f64, i32, i64, i16, i8, u8, u32 or bool, also in the long form (float32, ...). VALUES is `random` (standard
normal, or integers from 0 to 99; what is taken if nothing is said), `arange`, `nan` or a number.

The file's `import cutlass` is answered by the simulator, whether CuTe DSL is installed or not; where torch is not installed, its
`import torch` by the part of torch that the simulator has. A tensor that is asked for on a GPU is made in the CPU's memory.

With `against`, FILE.py:function, the tensors that the run has changed are compared with what that function gives: it gets those of
its parameters that it names, as they were before, in float64 (as torch's if its file imports torch), and returns what one or
several of the changed tensors must hold, in their order, or by name in a dict. Where a result is wrong, a run of the same steps
in float64 tells a wrong formula from rounding.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import math
import re
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb

import numpy as np

from cutesim import torch_answer
from cutesim.analysis import rounding
from cutesim.context import NotSimulated, is_own
from cutesim.language.loading import answer_folder, answer_imports
from cutesim.memory.arguments import Array, as_array
from cutesim.simulation import LOOKED_FOR, simulate, watched
from cutesim.values.numeric import BFloat16

BITS = {"float": (64, 32, 16), "int": (64, 32, 16, 8), "uint": (32, 8)}
TYPES = {f"{kind[0]}{bits}": f"{kind}{bits}" for kind, widths in BITS.items() for bits in widths}
TYPES |= {"bf16": "bfloat16", "bool": "bool"}
LONG = {long: long for long in TYPES.values()} | TYPES
LONG |= {f"fp{bits}": f"float{bits}" for bits in (64, 32, 16)}
WORDS = {"true": True, "false": False, "none": None}
MOST_ELEMENTS = 2**28  # of a tensor: 2 GB in float64
PIECE = 1 << 16  # elements of a tensor that are made at a time
TENSOR = re.compile(r"(?P<type>[a-z]+\d*):(?P<shape>\d+(x\d+)*)(:(?P<values>.+))?")


class Unusable(ValueError):
    """Words that make no sense for this file: one sentence for who typed them."""


# What is said first, and its exit status; of several the first.
VERDICTS = {"finding": 1, "not simulated": 3, "failed": 5, "wrong": 4, "clean within bounds": 6, "clean": 0}
# How far from the reference a result may be: (relative, absolute), as torch.testing has it.
TOLERANCES = {"float64": (1e-7, 1e-7), "float32": (1.3e-6, 1e-5), "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5)}


@dataclass(frozen=True)
class Outcome:
    """What running a file gave: its runs, what became of the tensors of the command line, and what ended it early."""

    runs: tuple
    tensors: tuple = ()  # one sentence each
    ended: str = ""  # "" or why the file did not come to its end
    wrong: tuple = ()  # one sentence for each tensor that is not what `against` gives
    notes: tuple = ()  # what was taken otherwise than the file says
    kept: tuple = ()  # a few words for each tensor given as nan that holds some of that nan still

    @property
    def verdict(self) -> str:
        """One of VERDICTS."""
        if not all(run.ok for run in self.runs):
            return "finding"
        if self.ended:
            return "not simulated" if self.ended.startswith("not simulated") else "failed"
        if self.wrong:
            return "wrong"
        whole = all(getattr(run, "whole", True) for run in self.runs)
        return "clean" if whole else "clean within bounds"

    status = property(lambda self: VERDICTS[self.verdict])

    def __str__(self) -> str:
        """The verdict in one line."""
        findings = [finding for run in self.runs for finding in run.findings]
        named = findings and next((line for line in findings[0].lines if line.number), None)
        first = findings[0].kind + (f", {named.where}" if named else "") if findings else ""
        said = {
            "finding": first + (f", and {len(findings) - 1} more" if len(findings) > 1 else ""),
            "not simulated": self.ended.removeprefix("not simulated: "),
            "failed": self.ended,
            "wrong": "; ".join(self.wrong),
            "clean within bounds": f"no {LOOKED_FOR} in the orders that were tried; more are left",
            "clean": f"no {LOOKED_FOR} in {len(self.runs)} run{'s' * (len(self.runs) != 1)}",
        }
        if self.verdict.startswith("clean"):
            relaxed = any(getattr(run, "relaxed", False) for run in self.runs)
            weaker = (
                "a GPU may order relaxed operations otherwise than all orders here, which are sequentially consistent",
            )
            said[self.verdict] = "; ".join((said[self.verdict], *self.kept, *weaker * relaxed))
        return f"{self.verdict}: {said[self.verdict]} (exit status {self.status})"


def run_file(target: str, words=(), seed=0, against="", **options) -> Outcome:
    """Simulate what `target` names on the arguments in `words`; Unusable for what cannot be run.

    `options` are simulate's: schedule, orders, values, blocks, dynamic.
    """
    file, expression = _file_and_name(target)
    if against and not expression:
        raise Unusable("--against compares the tensors of one function: name it, as in FILE.py:function x=f32:8x256")
    notes, wrong, kept = [], (), ()
    options |= {"exact": True} if against else {}
    with watched(alone=not expression, seed=seed, **options) as runs, gpu_as_cpu(notes):
        ended, tensors = "", ()
        try:
            if not expression:
                _run_script(file, words)
            else:
                tensors, wrong, kept = _run_function(file, expression, words, seed, against, runs)
        except NotSimulated as error:
            ended = str(error)
        except SystemExit as error:
            ended = "" if not error.code else f"{file.name} ended with exit status {error.code}"
        except Unusable:
            raise
        except Exception as error:  # the file's own, or an argument that simulate cannot take
            ended = f"{_where(error, file) or f'{file.name}: '}{type(error).__name__}: {error}"
    if not runs and not ended:
        more = "" if expression else f"; {_functions_of(load(file))}"
        raise Unusable(f"{expression or file.name} ran, and launched no kernel{more}")
    return Outcome(tuple(runs), tensors, ended, wrong, tuple(notes), kept)


def _file_and_name(target: str) -> tuple[Path, str]:
    file, _, expression = target.partition(".py:")
    file = Path(file if target.endswith(".py") else f"{file}.py")
    if not file.is_file():
        raise Unusable(f"there is no file {file}")
    return file, expression


@contextlib.contextmanager
def gpu_as_cpu(notes: list):
    """Inside, a tensor that torch, or what answers for it, is asked for on a GPU is the CPU's; `notes` is told of the first."""

    def is_others(file: str) -> bool:
        here = file.startswith(str(Path(__file__).parent)) or file == contextlib.__file__
        return here or "site-packages" in file or is_own(file)

    def tell():
        if not notes:
            frame = sys._getframe(2)
            while frame is not None and is_others(frame.f_code.co_filename):
                frame = frame.f_back
            place = ""
            if frame is not None:
                place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}: "
            notes.append(f"{place}the device is taken as the CPU, since the simulator runs there and no GPU is used.")

    torch_answer.CUDA.append(tell)
    try:
        has_torch = importlib.util.find_spec("torch") is not None
        with _torch_on_cpu(tell) if has_torch else contextlib.nullcontext():
            yield
    finally:
        torch_answer.CUDA.remove(tell)


@contextlib.contextmanager
def _torch_on_cpu(tell):
    import torch
    from torch.overrides import TorchFunctionMode

    def is_gpu(x):
        return (isinstance(x, torch.device) and x.type == "cuda") or (
            isinstance(x, str) and x.partition(":")[0] == "cuda"
        )

    class OnCpu(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if function is torch.Tensor.cuda:
                tell()
                return args[0]
            if any(map(is_gpu, (*args, *kwargs.values()))):
                tell()
                args = tuple("cpu" if is_gpu(x) else x for x in args)
                kwargs = {name: "cpu" if is_gpu(x) else x for name, x in kwargs.items()}
            return function(*args, **kwargs)

    answers = torch_answer.as_of_a_gpu()
    kept = {name: getattr(torch.cuda, name) for name in answers}
    try:
        vars(torch.cuda).update(answers)
        with OnCpu():
            yield
    finally:
        vars(torch.cuda).update(kept)


def _where(error, file: Path) -> str:
    """The last line of the file on the way to an error."""
    passed = walk_tb(error.__traceback__)
    lines = [number for frame, number in passed if Path(frame.f_code.co_filename).name == file.name]
    return f"{file.name}:{lines[-1]}: " if lines else ""


def _run_script(file: Path, words) -> None:
    """As `python FILE.py words` would, with the simulator's answer to `import cutlass`."""
    answered = {}
    answer_imports(answered, always=True, torch=True)
    answer_folder(str(file.resolve().parent), always=True)
    before = sys.argv[:], sys.path[:]
    sys.argv[:] = [str(file), *words]
    sys.path.insert(0, str(file.resolve().parent))
    try:
        runpy.run_path(str(file), init_globals=answered, run_name="__main__")
    finally:
        sys.argv[:], sys.path[:] = before


def load(file: Path, answered=True):
    """The module of a file, its `import cutlass` answered by the simulator, or where not `answered` by what is installed."""
    folder = str(file.resolve().parent)
    # not a name of the standard library's
    name = f"{file.stem}_simulated" if answered else f"{file.stem}_loaded"
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    if answered:
        answer_folder(folder, always=True)
        answer_imports(module.__dict__, always=True, torch=True)
    sys.modules[name] = module  # dataclasses look there
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


def called(target: str, words=(), seed=0, answered=True) -> tuple:
    """(what FILE.py:function names, its arguments as the file's own code would have them); Unusable for what cannot be run."""
    file, expression = _file_and_name(target)
    if not expression:
        raise Unusable(f"name the function and its arguments, as in {target}:function x=f32:8x256")
    module = load(file, answered)
    function, bound = _bound(module, file, expression, words, seed)
    return function, [_for_host(x) if isinstance(x, (np.ndarray, Array)) else x for x in bound.args]


def _bound(module, file: Path, expression: str, words, seed: int) -> tuple:
    """(what the expression names, the words as its arguments)."""
    try:
        # the reader's own file and words
        function = eval(compile(expression, "<words>", "eval"), vars(module))
    except SyntaxError as error:
        raise Unusable(f"{expression!r} is no expression of Python: {error.msg}") from None
    except NameError as error:
        raise Unusable(f"{file.name}: {error}; {_functions_of(module)}") from None
    if isinstance(function, type):
        raise Unusable(f"{expression} is a class: make an object of it, as in '{file.name}:{expression}(...)'")
    signature = _signature(function, expression)
    rng = np.random.default_rng(seed)
    named, unnamed = {}, []
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name.isidentifier():
            if name in named:
                raise Unusable(f"{name} is given twice: give each argument once")
            named[name] = argument(value, rng)
        else:
            unnamed.append(argument(word, rng))
    parameters = signature.parameters.values()
    free = [p.name for p in parameters if p.name not in named and p.kind is not p.KEYWORD_ONLY]
    try:
        if len(unnamed) > len(free):
            raise TypeError(f"it takes {len(free)} unnamed, and {len(unnamed)} are given")
        bound = signature.bind_partial(**dict(zip(free, unnamed)), **named)
    except TypeError as error:
        raise Unusable(f"{expression}{signature}: {error}") from None
    single = (p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
    needed = [p.name for p in single if p.default is p.empty and p.name != "stream"]
    lacking = [name for name in needed if name not in bound.arguments]
    if lacking:
        raise Unusable(
            f"{expression}{signature} needs {', '.join(lacking)}: give each, as in {lacking[0]}=f32:8x256 or {lacking[0]}=3"
        )
    return function, bound


def _run_function(file: Path, expression: str, words, seed: int, against: str, runs: list) -> tuple:
    """(a sentence on each tensor, a sentence on each that is not what `against` gives, some words on each that is still nan)."""
    module = load(file)
    reference = _reference(against, file, module) if against else None
    function, bound = _bound(module, file, expression, words, seed)
    decorated = hasattr(function, "__wrapped__") or not inspect.isfunction(function)
    given = {name: _copy(x) for name, x in bound.arguments.items()}
    before = {name: as_array(x)[0] for name, x in given.items() if isinstance(x, (np.ndarray, Array))}
    if decorated:
        simulate(function, *bound.args, **bound.kwargs)
    else:
        bound.arguments.update({name: _for_host(x) for name, x in bound.arguments.items() if name in before})
        function(*bound.args, **bound.kwargs)
    differing = {name: _differing(bound.arguments[name], old) for name, old in before.items()}
    counts = ((name, int(at.sum()), at.size) for name, at in differing.items())
    became = tuple(f"{name}: {count:,} of {size:,} elements changed" for name, count, size in counts)
    kept = tuple(filter(None, (_still_nan(name, given[name], bound.arguments[name]) for name in before)))
    # A run with a finding may have stopped before it wrote.
    if reference is None or not all(run.ok for run in runs):
        return became, (), kept
    changed = {name: bound.arguments[name] for name, at in differing.items() if at.any()}
    exact = runs[0].exact if len(runs) == 1 else None
    return became, compare(reference, given, changed, exact), kept


def _reference(against: str, file: Path, module):
    """The function that FILE.py:function names."""
    other, name = _file_and_name(against)
    if not name:
        raise Unusable(f"--against {against}: name a function of it, as in {other.name}:function")
    held = module if other.resolve() == file.resolve() else load(other)
    function = getattr(held, name, None)
    if not callable(function):
        raise Unusable(f"--against {against}: {other.name} has no function {name}")
    return function


def compare(reference, given: dict, changed: dict, exact: dict | None = None) -> tuple:
    """A sentence for each of the `changed` tensors that is not what `reference` gives for the arguments `given`.

    exact: what the tensors would hold without rounding, where that is known.
    """
    signature = inspect.signature(reference)
    named = reference.__name__
    parameters = signature.parameters.values()
    lacking = [p.name for p in parameters if p.default is p.empty and p.name not in given]
    if lacking:
        raise Unusable(
            f"{named}{signature} needs {', '.join(lacking)}, which is no parameter of what it is compared with"
        )
    wide = {name: _wide(x, reference) for name, x in given.items() if name in signature.parameters}
    wanted = reference(**wide)
    if not isinstance(wanted, dict):
        parts = wanted if isinstance(wanted, (tuple, list)) else (wanted,)
        if len(parts) > len(changed):
            raise Unusable(
                f"{named} gives {len(parts)} tensors, and {len(changed)} were changed ({', '.join(changed) or 'none'}); let it "
                "give a dict of them by name"
            )
        wanted = dict(zip(changed, parts))
    unknown = [name for name in wanted if name not in given]
    if unknown:
        raise Unusable(f"{named} gives {', '.join(unknown)}, which is no parameter of what it is compared with")
    held, sentences = given | changed, []
    for name, x in wanted.items():
        unrounded = (exact or {}).get(name)
        sentences.append(_distance(name, held[name], given[name], np.asarray(x), named, unrounded))
    return tuple(filter(None, sentences))


def checked_against(run, reference, function, args, kwargs) -> tuple:
    """(what `run` gives, a sentence for each tensor that the function has changed to something else than `reference` gives)."""
    if reference is None:
        return run(function, *args, **kwargs), ()
    names = [name for name in _signature(function, "the kernel").parameters if name not in kwargs]
    tensors = {name: x for name, x in (*zip(names, args), *kwargs.items())}
    given = {name: _as_numpy(x) for name, x in tensors.items()}
    result = run(function, *args, exact=True, **kwargs)
    if not result.ok:
        return result, ()
    of_tensors = [name for name, x in given.items() if isinstance(x, (np.ndarray, Array))]
    after = {name: _as_numpy(tensors[name]) for name in of_tensors}
    changed = {name: x for name, x in after.items() if _differing(x, as_array(given[name])[0]).any()}
    return result, compare(reference, given, changed, result.exact)


def _as_numpy(x):
    """A copy of a tensor, numpy's or torch's, as numpy has it; anything else is itself."""
    if hasattr(x, "untyped_storage"):
        bits, dtype = as_array(x)
        return Array(bits.copy(), dtype) if dtype is BFloat16 else bits.copy()
    return _copy(x)


def _wide(x, reference):
    """An argument as a reference function gets it."""
    if not isinstance(x, (np.ndarray, Array)):
        return x
    values = x.numpy() if isinstance(x, Array) else x
    values = values.astype(np.float64) if values.dtype.kind == "f" else values.copy()
    torch = reference.__globals__.get("torch") if inspect.isfunction(reference) else None
    return values if torch is None else torch.from_numpy(values)


def _distance(name: str, x, before, wanted: np.ndarray, named: str, exact: np.ndarray | None) -> str:
    """What to say of a tensor that is further from `wanted` than its type allows; "" where it is not."""
    same = ~_differing(x, as_array(before)[0])
    x = _as_numpy(x)
    got = x.numpy() if isinstance(x, Array) else x
    if got.shape != wanted.shape:
        return f"{name} has the shape {got.shape}, and {named} gives {wanted.shape}"
    relative, absolute = TOLERANCES.get("bfloat16" if isinstance(x, Array) else str(got.dtype), (0, 0))
    off = ~np.isclose(got.astype(np.float64), wanted.astype(np.float64), relative, absolute, equal_nan=True)
    if not off.any():
        return ""
    with np.errstate(invalid="ignore"):
        error = np.where(off, np.abs(got.astype(np.float64) - wanted), 0)
    at = np.unravel_index(int(np.argmax(np.where(np.isnan(error), np.inf, error))), got.shape)
    place, still = f"{name}[{', '.join(map(str, at))}]", "still " if same[at] else ""
    sentence = (
        f"{int(off.sum()):,} of {off.size:,} elements of {name} are not those of {named}: {place} is {still}{got[at]:.9g} where it "
        f"gives {wanted[at]:.9g}"
    )
    if still:
        return f"{sentence}. {int((off & same).sum()):,} of them hold what they did before the run: does a thread store there"
    if exact is None or exact.shape != got.shape:
        return sentence
    return f"{sentence}. {rounding.said(float(got[at]), float(exact[at]), float(wanted[at])).rstrip('.')}"


def _copy(x):
    if isinstance(x, Array):
        return Array(x.bits.copy(), x.dtype)
    return x.copy() if isinstance(x, np.ndarray) else x


def _differing(x, old: np.ndarray) -> np.ndarray:
    """Where a tensor's bits are not the old ones."""
    bits = as_array(x)[0]
    return bits.view(f"u{bits.itemsize}") != old.view(f"u{old.itemsize}")


def _signature(function, expression: str):
    plain = inspect.isfunction(function) or inspect.ismethod(function)
    target = function if plain else type(function).__call__
    if not callable(function):
        raise Unusable(f"{expression} is a {type(function).__name__}, which cannot be called")
    signature = inspect.signature(target)
    parameters = list(signature.parameters.values())
    bare = [p.replace(annotation=p.empty) for p in parameters[0 if plain else 1 :]]
    return inspect.Signature(bare)


def argument(word: str, rng):
    """A command-line word as an argument; Unusable where it is none."""
    if word.lower() in WORDS:
        return WORDS[word.lower()]
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            pass
    found = TENSOR.fullmatch(word)
    if not found or found["type"] not in LONG:
        raise Unusable(
            f"{word!r} is no argument: write a number, true, false, none, or a tensor as f32:8x4096 or bf16:8x4096:nan "
            f"(types: {', '.join(TYPES)}; values: random, arange, nan or a number)"
        )
    shape = tuple(map(int, found["shape"].split("x")))
    if not 1 <= math.prod(shape) <= MOST_ELEMENTS:
        raise Unusable(f"{word!r} has {math.prod(shape):,} elements: a tensor has 1 to {MOST_ELEMENTS:,} here")
    return _tensor(LONG[found["type"]], shape, found["values"] or "random", rng, word)


def _tensor(dtype: str, shape: tuple, values: str, rng, word: str):
    floats, half = "float" in dtype, dtype == "bfloat16"
    try:
        number = 0 if values in ("random", "arange") else float(values) if floats else int(values)
    except ValueError:
        raise Unusable(f"{word!r}: values are random, arange, nan (of floats) or a number, not {values!r}") from None
    flat = np.empty(math.prod(shape), np.uint16 if half else dtype)
    for first in range(0, len(flat), PIECE):  # drawn numbers are of 8 bytes each
        count = min(PIECE, len(flat) - first)
        if values == "random":
            below = 2 if dtype == "bool" else 100
            numbers = rng.standard_normal(count) if floats else rng.integers(0, below, count)
        elif values == "arange":
            numbers = np.arange(first, first + count)
        else:
            numbers = np.full(count, number)
        flat[first : first + count] = Array.bf16(numbers).bits if half else numbers.astype(dtype)
    return Array(flat.reshape(shape), BFloat16) if half else flat.reshape(shape)


def _for_host(x):
    """A tensor as the file's own Python code would have it: torch's, where torch is installed."""
    if importlib.util.find_spec("torch") is None:
        return x
    import torch

    if isinstance(x, Array):
        return torch.from_numpy(x.bits.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def _still_nan(name: str, given, x) -> str:
    """What to say of a tensor that was given as nan, of which some is as it was; "" of any other."""
    values = given.numpy() if isinstance(given, Array) else given
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or not np.isnan(values).all():
        return ""
    left = int((~_differing(x, as_array(given)[0])).sum())
    return f"{left:,} of {values.size:,} elements of {name} are still nan, as given" if left else ""


def _functions_of(module) -> str:
    """The @cute.jit functions that a module defines, with their parameters."""
    found = []
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        owner = vars(value).get("__call__") if isinstance(value, type) else value
        is_kernel = getattr(owner, "decorated_as", "") == "kernel"
        if inspect.isfunction(owner) and hasattr(owner, "__wrapped__") and not is_kernel:
            signature = _signature(owner, name)
            found.append(f"{name}(...){signature}" if isinstance(value, type) else f"{name}{signature}")
    if not found:
        return "it has no @cute.jit function"
    return f"its @cute.jit functions are {', '.join(found)}"
