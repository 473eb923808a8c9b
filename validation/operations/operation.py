"""What the suite `operations` asks for: a `Case` is a kernel of `kernels` with its inputs, and each row of its output
is an `Operation`, whose answer `vectors` works out. `case` builds one from numbers and Python functions.
"""

from __future__ import annotations

import math
import operator
import re
import zlib
from dataclasses import dataclass

import numpy as np

from validation.operations import kernels as k
from validation.operations import vectors as v

WARP, BLOCK = 32, k.BLOCK

TYPES = "Float64 Float32 Float16 BFloat16 Int64 Int32 Int16 Int8".split()
# numpy's type of the bits, torch's name
STORAGE = {t: (getattr(np, re.sub(r"\D+", "uint", t)), t.lower()) for t in TYPES}


@dataclass(frozen=True)
class Bound:
    """How far an approximate function may be from the truth, as its document says: `allowed(x, truth)`, an absolute error.

    `flushes` says that a subnormal result is a zero instead.
    """

    text: str
    allowed: object
    flushes: bool = False


@dataclass(frozen=True)
class Operation:
    """A row of a case's output. `answers` are bits of the case's output type; for a bounded operation, true values."""

    row: str  # the line of the table that it counts in
    name: str
    answers: np.ndarray
    bound: Bound | None = None
    moves_bits: bool = False  # even those of a NaN


@dataclass(frozen=True)
class Case:
    """A kernel, its inputs as bits (arity, padded), and how many of each output row's elements count."""

    name: str
    host: object
    types: tuple[str, str]  # of x and of out
    x: np.ndarray
    out_shape: tuple[int, int]
    operations: tuple[Operation, ...]
    count: int

    def key(self, operation: Operation) -> str:
        """What its recorded bits go by; other inputs, another key."""
        return f"{self.name}: {operation.name} @{zlib.crc32(self.x.tobytes()):08x}"


# ---- building cases -------------------------------------------------------------------------------------------------


def width_of(name: str) -> int:
    return STORAGE[name][0]().itemsize * 8


def encoded(name: str, number) -> int:
    """The bits of a number in a type; integers wrap."""
    if name in v.FLOATS:
        return v.FLOATS[name].encode(float(number) if isinstance(number, int) else number)
    return v.wrapped(int(number), width_of(name), signed=False)


def decoded(name: str, bits):
    if name in v.FLOATS:
        return v.FLOATS[name].decode(bits)
    return v.wrapped(int(bits), width_of(name))


def as_bits(name: str, values) -> np.ndarray:
    """Integers of either sign, or bits, as an array of a type's bits."""
    return np.array([v.wrapped(int(value), width_of(name), signed=False) for value in values], STORAGE[name][0])


def padded(columns: list, name: str) -> np.ndarray:
    """The columns as (arity, n) of bits, repeated up to a multiple of the block."""
    rows = [as_bits(name, column) for column in columns]
    n = -(-len(rows[0]) // BLOCK) * BLOCK
    return np.stack([np.resize(row, n) for row in rows])


def said(row: str, arity: int) -> str:
    """The expression that a row of the table says: "cute.math.exp, fastmath=True" of one number, or "a + b"."""
    called, *options = row.partition(" of ")[0].split(", ")
    named = "." in called and "(" not in called
    return f"{called}({', '.join([*'abc'[:arity], *options])})" if named else called


def case(name, types, columns, rows, vector=False) -> Case:
    """A case of `Each` or `EachFour`; `rows` are (row of the table, expression or "" where the row says it, answer[, how]).

    `answer` takes the numbers and gives one, exactly (no `how`) or truly (a `Bound`); with "bits" it takes and gives bits;
    an array holds the answers' bits themselves.
    """
    source, target = types
    given = [as_bits(source, column) for column in columns]
    numbers = [[decoded(source, bits) for bits in column] for column in given]
    operations = []
    for row, _, answer, *rest in rows:
        how = rest[0] if rest else None
        bound = how if isinstance(how, Bound) else None
        if isinstance(answer, np.ndarray):
            answers = answer.astype(STORAGE[target][0])
        elif how == "bits":
            answers = np.array([answer(*map(int, one)) for one in zip(*given)], STORAGE[target][0])
        elif bound:
            answers = np.array([answer(*one) for one in zip(*numbers)], np.float64)
        else:
            answers = np.array([encoded(target, answer(*one)) for one in zip(*numbers)], STORAGE[target][0])
        operations.append(Operation(row, f"{len(operations)} {row}", answers, bound, how == "bits"))
    x = padded(columns, source)
    functions = [k.function(expression or said(row, len(columns)), len(columns)) for row, expression, *_ in rows]
    host = (k.EachFour if vector else k.Each)(functions, len(columns))
    label = f"{name}, vectors" if vector else name
    return Case(label, host, types, x, (len(rows), x.shape[1]), tuple(operations), len(columns[0]))


def float_pairs(format, extra: int = 60):
    left, right = v.pairs(v.edges(format))
    return left + v.random_bits(format.bits, extra, 1), right + v.random_bits(format.bits, extra, 2)


def integer_pairs(width: int, divisor: bool = False, extra: int = 60):
    left, right = v.pairs(v.integer_edges(width))
    left, right = left + v.random_bits(width, extra, 3), right + v.random_bits(width, extra, 4)
    signed = [(v.wrapped(a, width), v.wrapped(b, width)) for a, b in zip(left, right)]
    if divisor:
        signed = [(a, b) for a, b in signed if b and (a, b) != (-(1 << width - 1), -1)]
    return [a for a, _ in signed], [b for _, b in signed]


COMPARE = operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne
COMPARISONS = dict(zip(("<", "<=", ">", ">=", "==", "!="), COMPARE))


def comparisons():
    def row(sign, holds):
        return f"a {sign} b", f"(a {sign} b).to(Int32)", lambda a, b: int(holds(a, b))

    return [row(*one) for one in COMPARISONS.items()]


def second_if(condition, nan_of: int):
    """The DSL's max and min, as its compiler writes them: b where `condition`, or where that operand is NaN; else a."""
    return lambda a, b: b if condition(a, b) or math.isnan((a, b)[nan_of]) else a
