"""Somebody's own file on the simulator: `quack-tutorial simulate FILE.py[:function] [ARGUMENT ...]`.

| words                                     | what runs                                                                    |
|-------------------------------------------|------------------------------------------------------------------------------|
| `FILE.py`                                 | the file, as a script; every launch in it is simulated and checked           |
| `FILE.py:softmax x=bf16:8x4096 out=...`   | that @cute.jit function, or that Python function which launches kernels      |
| `'FILE.py:Softmax(4096)' x=bf16:8x4096`   | that object: what stands after the colon is an expression of the file's names |

An argument is a number, `true`, `false`, `none`, or a tensor `TYPE:SHAPE[:VALUES]`; `name=` before it gives it to that parameter.
TYPE is f32, bf16, f16, f64, i32, i64, i16, i8, u8, u32 or bool, also in the long form (float32, ...). VALUES is `random` (standard
normal, or integers from 0 to 99; what is taken if nothing is said), `arange`, `nan` or a number.

The file's `import cutlass` is answered by the simulator, whether CuTe DSL is installed or not. Not covered: CUDA tensors.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from quack_tutorial.simulation import simulate, watched
from quack_tutorial.simulator import Array, NotSimulated
from quack_tutorial.simulator.loading import answer_folder, answer_imports

TYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u32": "uint32",
    "u8": "uint8",
    "bool": "bool",
}
LONG = {long: long for long in TYPES.values()} | {"fp64": "float64", "fp32": "float32", "fp16": "float16"} | TYPES
WORDS = {"true": True, "false": False, "none": None}
TENSOR = re.compile(r"(?P<type>[a-z]+\d*):(?P<shape>\d+(x\d+)*)(:(?P<values>.+))?")


class Unusable(ValueError):
    """Words that make no sense for this file: one sentence for who typed them."""


@dataclass(frozen=True)
class Outcome:
    """What running a file gave: its runs, what became of the tensors of the command line, and what ended it early."""

    runs: tuple
    tensors: tuple = ()  # one sentence each
    ended: str = ""  # "" or why the file did not come to its end


def run_file(target: str, words=(), seed=0, **options) -> Outcome:
    """Simulate what `target` names on the arguments in `words`; Unusable for what cannot be run.

    `options` are simulate's: schedule, values, blocks, dynamic.
    """
    file, _, expression = target.partition(".py:")
    file = Path(file if target.endswith(".py") else f"{file}.py")
    if not file.is_file():
        raise Unusable(f"there is no file {file}")
    with watched(seed=seed, **options) as runs:
        ended, tensors = "", ()
        try:
            if not expression:
                _run_script(file, words)
            else:
                tensors = _run_function(file, expression, words, seed)
        except NotSimulated as error:
            ended = str(error)
        except SystemExit as error:
            ended = "" if not error.code else f"{file.name} ended with exit status {error.code}"
        except Unusable:
            raise
        except Exception as error:  # the file's own, or an argument that simulate cannot take
            ended = f"{_where(error, file)}{type(error).__name__}: {error}"
    if not runs and not ended:
        raise Unusable(_nothing_ran(file, expression))
    return Outcome(tuple(runs), tensors, ended)


def _where(error, file: Path) -> str:
    """The last line of the file on the way to an error."""
    lines = [entry.tb_lineno for entry in _entries(error) if Path(entry.tb_frame.f_code.co_filename).name == file.name]
    return f"{file.name}:{lines[-1]}: " if lines else ""


def _entries(error):
    entry = error.__traceback__
    while entry is not None:
        yield entry
        entry = entry.tb_next


def _run_script(file: Path, words) -> None:
    """As `python FILE.py words` would, with the simulator's answer to `import cutlass`."""
    answered = {}
    answer_imports(answered, always=True)
    answer_folder(str(file.resolve().parent), always=True)
    before = sys.argv[:], sys.path[:]
    sys.argv[:] = [str(file), *words]
    sys.path.insert(0, str(file.resolve().parent))
    try:
        runpy.run_path(str(file), init_globals=answered, run_name="__main__")
    finally:
        sys.argv[:], sys.path[:] = before


def load(file: Path):
    """The module of a file, its `import cutlass` answered by the simulator."""
    folder = str(file.resolve().parent)
    answer_folder(folder, always=True)
    name = f"{file.stem}_simulated"  # not a name of the standard library's
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    answer_imports(module.__dict__, always=True)
    sys.modules[name] = module  # dataclasses look there
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


def _run_function(file: Path, expression: str, words, seed: int) -> tuple:
    module = load(file)
    try:
        function = eval(expression, vars(module))  # the reader's own file and words
    except NameError as error:
        raise Unusable(f"{file.name}: {error}; {_functions_of(module)}") from None
    if isinstance(function, type):
        raise Unusable(f"{expression} is a class: make an object of it, as in '{file.name}:{expression}(...)'")
    decorated = hasattr(function, "__wrapped__") or not inspect.isfunction(function)
    signature = _signature(function, expression)
    rng = np.random.default_rng(seed)
    named, unnamed = {}, []
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name.isidentifier():
            named[name] = argument(value, rng)
        else:
            unnamed.append(argument(word, rng))
    free = [p.name for p in signature.parameters.values() if p.name not in named and p.kind is not p.KEYWORD_ONLY]
    try:
        if len(unnamed) > len(free):
            raise TypeError(f"{len(unnamed) - len(free)} arguments too many")
        bound = signature.bind_partial(**dict(zip(free, unnamed)), **named)
    except TypeError as error:
        raise Unusable(f"{expression}{signature}: {error}") from None
    lacking = [
        p.name
        for p in signature.parameters.values()
        if p.name not in bound.arguments and p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        if p.name != "stream"
    ]
    if lacking:
        raise Unusable(
            f"{expression}{signature} needs {', '.join(lacking)}: give each, as in {lacking[0]}=f32:8x256 or {lacking[0]}=3"
        )
    before = {name: _bits(x).copy() for name, x in bound.arguments.items() if isinstance(x, (np.ndarray, Array))}
    if decorated:
        simulate(function, *bound.args, **bound.kwargs)
    else:
        bound.arguments.update({name: _for_host(x) for name, x in bound.arguments.items() if name in before})
        function(*bound.args, **bound.kwargs)
    return tuple(_what_became(name, bound.arguments[name], old) for name, old in before.items())


def _signature(function, expression: str):
    target = function if inspect.isfunction(function) or inspect.ismethod(function) else type(function).__call__
    if not callable(function):
        raise Unusable(f"{expression} is a {type(function).__name__}, which cannot be called")
    signature = inspect.signature(target)
    parameters = list(signature.parameters.values())
    if target is not function:
        parameters = parameters[1:]
    bare = [p.replace(annotation=p.empty) for p in parameters]
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
    return _tensor(LONG[found["type"]], shape, found["values"] or "random", rng, word)


def _tensor(dtype: str, shape: tuple, values: str, rng, word: str):
    floats = "float" in dtype
    if values == "random":
        numbers = rng.standard_normal(shape) if floats else rng.integers(0, 2 if dtype == "bool" else 100, shape)
    elif values == "arange":
        numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    else:
        try:
            numbers = np.full(shape, float(values) if floats else int(values))
        except ValueError:
            raise Unusable(
                f"{word!r}: values are random, arange, nan (of floats) or a number, not {values!r}"
            ) from None
    return Array.bf16(numbers) if dtype == "bfloat16" else numbers.astype(dtype)


def _for_host(x):
    """A tensor as the file's own Python code would have it: torch's, where torch is installed."""
    if importlib.util.find_spec("torch") is None:
        return x
    import torch

    return torch.from_numpy(x.bits.view(np.int16)).view(torch.bfloat16) if isinstance(x, Array) else torch.from_numpy(x)


def _bits(x) -> np.ndarray:
    if isinstance(x, (np.ndarray, Array)):
        return x.bits if isinstance(x, Array) else x
    import torch

    return (x.view(torch.int16) if x.dtype is torch.bfloat16 else x).numpy()


def _what_became(name: str, x, old: np.ndarray) -> str:
    bits = _bits(x)
    changed = int((bits.view(f"u{bits.itemsize}") != old.view(f"u{bits.itemsize}")).sum())
    return f"{name}: {changed:,} of {bits.size:,} elements changed"


def _nothing_ran(file: Path, expression: str) -> str:
    if expression:
        return f"{expression} ran, and launched no kernel"
    return f"{file.name} ran, and launched no kernel; {_functions_of(load(file))}"


def _functions_of(module) -> str:
    """The @cute.jit functions that a module defines, with their parameters."""
    found = []
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        owner = vars(value).get("__call__") if isinstance(value, type) else value
        if inspect.isfunction(owner) and hasattr(owner, "__wrapped__") and not _is_kernel(owner):
            signature = _signature(owner, name)
            found.append(f"{name}(...){signature}" if isinstance(value, type) else f"{name}{signature}")
    return f"its @cute.jit functions are {', '.join(found)}" if found else "it has no @cute.jit function"


def _is_kernel(function) -> bool:
    return getattr(function, "decorated_as", "") == "kernel"
