"""Every operation of the simulator on edge values, against the specification, and against what an H200 gave.

`numbers`, `conversions` and `warps` have the kernels, inputs and specified answers; `operation` says what a case is.
What an H200 gave for the same kernels is kept in quack_tutorial/records/validation/operations-h200.json (CONTRIBUTING.md says what
made it); here it is compared, too: bit for bit where an operation is exact, by the
documented bound where it is approximate. Any NaN is as good as another.

Not covered, because nothing specifies it: what `LEFT_OUT` says, and a*b + c where the compiler may fuse it. Nor vectors of floats
converted to Boolean, which CuTe DSL 4.8.1 compiles to the opposite.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from dataclasses import dataclass

import numpy as np

from cutesim import Array
from cutesim.dialect.names import CUTLASS
from cutesim.simulation import simulate
from quack_tutorial.records import suite as report
from validation.operations import kernels as k
from validation.operations import vectors as v
from validation.operations.conversions import conversion_cases, mixed_cases
from validation.operations.numbers import approximate_cases, float_cases, integer_cases
from validation.operations.operation import STORAGE, Bound, Case, Operation, decoded, width_of
from validation.operations.warps import atomic_cases, barrier_cases, reduction_cases, warp_cases

RECORD = "operations-h200.json"
POISON = 0xA5  # every byte of an output that nobody has written
MAKERS = (float_cases, approximate_cases, integer_cases)
MAKERS += (conversion_cases, mixed_cases, warp_cases, reduction_cases)
MAKERS += (atomic_cases, barrier_cases)


def cases(sample: bool = False) -> list[Case]:
    """Every case, or every third as a sample."""
    found = [case for make in MAKERS for case in make()]
    return found[::3] if sample else found


def poisoned(case: Case) -> np.ndarray:
    """The bits of an output that nobody has written yet."""
    count = case.out_shape[0] * case.out_shape[1]
    storage = STORAGE[case.types[1]][0]
    return np.full(count * storage().itemsize, POISON, np.uint8).view(storage).reshape(case.out_shape)


def simulated(case: Case) -> np.ndarray:
    """The bits that the simulator gives; raises what it raises."""
    x, out = case.x.copy(), poisoned(case)
    simulate(case.host, _typed(case.types[0], x), _typed(case.types[1], out), check=False)
    return out


def _typed(name: str, bits: np.ndarray):
    dtype = getattr(CUTLASS, name)
    return Array(bits, dtype) if name == "BFloat16" else bits.view(dtype.storage)


def tensors(case: Case) -> list:
    """(x, poisoned out) as torch tensors."""
    import torch

    def tensor(name, bits):
        signed = torch.from_numpy(bits.copy().view(bits.dtype.str.replace("u", "i")))
        return signed.view(getattr(torch, STORAGE[name][1]))

    return [tensor(case.types[0], case.x), tensor(case.types[1], poisoned(case))]


def agreeing(operation: Operation, case: Case, got: np.ndarray, answers=None) -> np.ndarray:
    """Where bits agree with the answers (the operation's own, or another's bits); a NaN with a NaN."""
    if operation.bound is not None and answers is None:
        source, target = (v.FLOATS[name] for name in case.types)
        elements = zip(map(source.decode, case.x[0, : case.count]), operation.answers, map(target.decode, got))
        return np.array([within(operation.bound, x, t, g, target) for x, t, g in elements])
    answers = operation.answers if answers is None else answers
    same = got == answers
    if case.types[1] in v.FLOATS and not operation.moves_bits:
        format = v.FLOATS[case.types[1]]
        same = same | (format.is_nan(got) & format.is_nan(answers))
    return same


def within(bound: Bound, x: float, truth: float, got: float, format=v.F32) -> bool:
    """Whether `got` is near enough to the truth, with its NaN, infinities, zeros and flushed subnormals right."""
    if math.isnan(truth) or math.isnan(got):
        return math.isnan(truth) and math.isnan(got)
    if math.isinf(truth) or truth == 0:
        return got == truth and math.copysign(1, got) == math.copysign(1, truth)
    allowed = bound.allowed(x, truth)
    smallest, largest = 2.0 ** (1 - format.bias), format.decode(format.infinity - 1)
    if bound.flushes and abs(got) < smallest:
        return got == 0 and math.copysign(1, got) == math.copysign(1, truth) and abs(truth) - allowed < smallest
    if math.isinf(got):
        return math.copysign(1, got) == math.copysign(1, truth) and abs(truth) + allowed > largest
    return abs(got - truth) <= allowed


def shown(name: str, bits) -> str:
    return f"{decoded(name, bits)!r} ({int(bits):#0{width_of(name) // 4 + 2}x})"


def sentence(operation: Operation, case: Case, got, agrees, who: str, answers=None) -> str:
    """The first element that does not agree: where, what was expected, what came."""
    at, target = int(np.argmin(agrees)), case.types[1]
    if operation.bound is not None and answers is None:
        wanted = f"{float(operation.answers[at])!r} within {operation.bound.text}"
    else:
        wanted = shown(target, (operation.answers if answers is None else answers)[at])
    given = ""
    if isinstance(case.host, (k.Each, k.EachFour)):
        given = " of " + ", ".join(shown(case.types[0], bits) for bits in case.x[:, at])
    wrong = f"{int((~agrees).sum())} of {len(agrees)} differ"
    return f"{case.name}, {operation.row}{given}: expected {wanted}, {who} gives {shown(target, got[at])} ({wrong})"


# ---- what the GPU gave ----------------------------------------------------------------------------------------------


def unpacked(text: str, dtype) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype)


def recorded(known: list[Case]) -> tuple[dict, dict]:
    """What an H200 gave: where and when, and its bits by `Case.key`."""
    types = {case.key(operation): STORAGE[case.types[1]][0] for case in known for operation in case.operations}
    data = json.loads((report.default_folder() / RECORD).read_text("utf-8"))
    return data["where"], {key: unpacked(text, types[key]) for key, text in data["bits"].items() if key in types}


# ---- the suite ------------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """A line of the table as it is counted."""

    types: dict
    compared: str
    vectors: int = 0
    specification: int = 0
    device: int = 0


def run(sample: bool, progress) -> report.Suite:
    """Every case on the simulator, against its answers and the record; what the simulator refuses is a mismatch."""
    known = cases(sample)
    where, record = recorded(known)
    rows, mismatches, checked = {}, [], 0
    for case in known:
        progress(case.name)
        try:
            out = simulated(case)
        except Exception as error:  # whatever it is, it is this case's
            mismatches.append(f"{case.name}: the simulator raises {type(error).__name__}: {error}")
            out = [None] * len(case.operations)
        for operation, got in zip(case.operations, out):
            row = rows.setdefault(operation.row, Row({}, _compared(operation)))
            mismatches += count(row, operation, case, got, record)
            checked += case.count
    return report.Suite(
        name="operations",
        title="Operations on edge values",
        columns=("operation", "types", "vectors", "agree with the specification", "agree with the H200", "compared"),
        rows=tuple(_cells(name, row) for name, row in rows.items()),
        mismatches=tuple(mismatches),
        notes=(LEFT_OUT,),
        checked=checked,
        where=report.here() | {f"recorded {key}": value for key, value in where.items()},
    )


def _compared(operation) -> str:
    if operation.bound is not None:
        return operation.bound.text
    return "exact, NaN's payload too" if operation.moves_bits else "exact"


def count(row: Row, operation: Operation, case: Case, got, record: dict) -> list[str]:
    """Add one operation to its row; the sentences on what does not agree. `got` is None where the simulator failed."""
    row.types[case.types[0]] = None
    row.vectors += case.count
    if got is None:
        return []
    got = got[: case.count]
    agrees = agreeing(operation, case, got)
    row.specification += int(agrees.sum())
    said = [] if agrees.all() else [sentence(operation, case, got, agrees, "the simulator")]
    if case.key(operation) not in record:
        return [*said, f"{case.name}, {operation.row}: not in {RECORD}, or with other inputs"]
    theirs = record[case.key(operation)][: case.count]
    right = agreeing(operation, case, theirs)
    if not right.all():
        said.append(sentence(operation, case, theirs, right, "the H200"))
    # Two approximations need not be equal: each has to keep the bound.
    same = right & agrees if operation.bound is not None else agreeing(operation, case, got, theirs)
    row.device += int(same.sum())
    if operation.bound is None and not same.all():
        said.append("against the H200: " + sentence(operation, case, got, same, "the simulator", theirs))
    return said


def _cells(name: str, row: Row) -> tuple:
    return name, ", ".join(row.types), row.vectors, row.specification, row.device, row.compared


LEFT_OUT = (
    "Nothing says what these give, and they are left out: integer division by zero and of the smallest integer by -1, shifts "
    "by the width or more, floats that an 8-bit integer type does not hold, which NaN an operation gives."
)
