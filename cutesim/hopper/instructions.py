"""Names of MLIR's dialects that kernels call for want of one in CuTe DSL: types by their text, bits of pointers, plain arithmetic.

| names                                                    | here                                                        |
|----------------------------------------------------------|-------------------------------------------------------------|
| `ir.Type.parse("!llvm.struct<(i32, f32)>")`, `IntegerType`, `VectorType`, `F32Type` | what inline assembly gives, and vectors |
| `llvm.ptrtoint`, `inttoptr`, `bitcast`, `mlir_undef`      | addresses as numbers, the same bits as another type         |
| `arith.addf`, `mulf`, `select`, `cmpi`-free integer arithmetic | of two numbers of one type                             |
| `nvvm.atomicrmw`, `cluster_arrive`, `elect_sync`, `memory_barrier`, ... | as cute.arch has them                         |
| `arith.FastMathFlags`                                    | `afn` asks for approximate functions, the others for nothing |

Source: the MLIR dialects' documentation (llvm, arith, math, nvvm). Anything else is refused by its name.
"""

from __future__ import annotations

import enum
import math
import re

import numpy as np

from ..context import not_simulated
from ..dialect import assembly
from ..dialect.dialects import TYPES, Vector, VectorType
from ..machine import barriers
from ..machine.atomics import run_atomic
from ..memory import pointers as m
from ..values import arithmetic, mathops
from ..values.numeric import (
    Boolean,
    DType,
    Uint32,
    Uint64,
    Value,
    binary,
    convert,
    scalar,
    select,
)


class Type:
    """ir.Type: by its text."""

    @staticmethod
    def parse(text: str, *_, **__):
        plain = text.replace(" ", "")
        if plain in TYPES:
            return TYPES[plain]
        found = re.fullmatch(r"!llvm\.struct<\(([\w,]+)\)>", plain)
        if found and all(part in TYPES for part in found[1].split(",")):
            return assembly.Struct(TYPES[part] for part in found[1].split(","))
        found = re.fullmatch(r"vector<(\d+)x(\w+)>", plain)
        if found and found[2] in TYPES:
            return VectorType(int(found[1]), TYPES[found[2]])
        raise not_simulated(f"ir.Type.parse({text!r})")


class IntegerType:
    @staticmethod
    def get_signless(width: int, *_, **__) -> DType:
        if f"i{width}" not in TYPES:
            raise not_simulated(f"an integer of {width} bits")
        return TYPES[f"i{width}"]


class VectorTypes:
    @staticmethod
    def get(shape, dtype: DType, **_) -> VectorType:
        return VectorType(math.prod(shape), dtype)


def plain_type(dtype: DType):
    """F32Type and so on, which give their type by get()."""
    return type(f"{dtype}Type", (), {"get": staticmethod(lambda *_, **__: dtype)})


def ptrtoint(result: DType, pointer, **_) -> Value:
    return convert(pointer.toint(), result)


def bitcast(result, value, **_):
    """The same bits as another type; a vector may become one number, and one number a vector."""
    count, dtype = (result.count, result.dtype) if isinstance(result, VectorType) else (0, result)
    if isinstance(value, m.Pointer):
        return value
    vector = value if isinstance(value, Vector) else Vector([scalar(value)])
    made = vector.bitcast(dtype)
    return made if count else made[0]


# ---- arithmetic -----------------------------------------------------------------------------------------------------


def _two(operator: str, unsigned=False):
    def operate(a, b, **_):
        if not unsigned:
            return binary(operator, a, b)
        values = [scalar(x) for x in (a, b)]
        words = [value.bitcast({32: Uint32, 64: Uint64}[value.dtype.width]) for value in values]
        return binary(operator, *words).bitcast(values[0].dtype)

    return operate


def divsi(a, b, **_) -> Value:
    """Division of signed integers toward zero."""
    x, y = scalar(a), scalar(b)
    safe = np.where(y.a == 0, 1, y.a)
    quotient = np.abs(x.a.astype(np.int64)) // np.abs(safe.astype(np.int64))
    return Value(x.dtype, np.where((x.a < 0) != (safe < 0), -quotient, quotient).astype(x.dtype.carrier))


def extui(result: DType, a, **_) -> Value:
    value = scalar(a)
    if value.dtype is Boolean:
        return convert(value, result)
    bits = value.a.astype(np.int64) & ((1 << value.dtype.width) - 1)
    return Value(result, bits.astype(result.carrier))


def chosen(condition, yes, no, **_):
    if hasattr(yes, "dtype") or hasattr(no, "dtype"):
        return select(scalar(condition).a != 0, scalar(yes), scalar(no))
    raise not_simulated("arith.select of other things than numbers")


def converted(result: DType, a, **_):
    return convert(a, result)


_OPERATORS = "addf + subf - mulf * divf / addi + subi - muli * andi & ori | xori ^ shli << shrsi >> remsi % floordivsi //".split()
ARITH = {
    **{name: _two(operator) for name, operator in zip(_OPERATORS[::2], _OPERATORS[1::2])},
    "shrui": _two(">>", unsigned=True),
    "divui": _two("//", unsigned=True),
    "remui": _two("%", unsigned=True),
    **dict.fromkeys("extsi trunci extf truncf sitofp fptosi".split(), converted),
    "divsi": divsi,
    "extui": extui,
    "bitcast": bitcast,
    "select": chosen,
    "maximumf": lambda a, b, **_: arithmetic.fmax(a, b, nan=True),
    "minimumf": lambda a, b, **_: arithmetic.fmin(a, b, nan=True),
    "maxnumf": lambda a, b, **_: arithmetic.fmax(a, b),
    "minnumf": lambda a, b, **_: arithmetic.fmin(a, b),
}


class FastMathFlags(enum.IntFlag):
    """Liberties that a kernel gives the compiler."""

    none = 0
    reassoc, nnan, ninf, nsz, arcp, contract, afn = (1 << i for i in range(7))
    fast = 127


def _function(name: str):
    function = getattr(mathops, name)
    return lambda x, fastmath=FastMathFlags.none, **_: function(x, fastmath=bool(fastmath & FastMathFlags.afn))


MATH = {
    **{name: _function(name) for name in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt")},
    "fma": lambda a, b, c, **_: mathops.fma(a, b, c),
    "absf": mathops.absf,
    "floor": mathops.floor,
    "ceil": mathops.ceil,
    "tanh": mathops.tanh,
}

_ATOMICS = {"umax": "max", "umin": "min", "fadd": "add"}


def atomicrmw(*given, op=None, ptr=None, a=None, b=None, mem_order=None, syncscope=None, **_) -> Value:
    """nvvm.atomicrmw(op, ptr, a), with or without the type that it gives first."""
    given = list(given)
    if given and isinstance(given[0], DType):
        given.pop(0)
    op = given.pop(0) if given else op
    ptr = given.pop(0) if given else ptr
    a = given.pop(0) if given else a
    word = str(op).rpartition(".")[2].lower()
    pointer = getattr(ptr, "pointer", ptr)
    value = scalar(a)
    if not isinstance(pointer, m.Pointer):
        pointer = m.pointer_at(value.dtype, pointer)
    if word == "cas":  # PTX: compare with a, put b
        return run_atomic("cas", pointer, scalar(b), mem_order, convert(a, pointer.dtype).a, syncscope)
    return run_atomic(_ATOMICS.get(word, word), pointer, value, mem_order, scope=syncscope)


def memory_barrier(scope, **_) -> None:
    word = str(scope).rpartition(".")[2].upper()
    if word not in ("CTA", "GPU"):
        raise not_simulated(f"nvvm.memory_barrier of {word}")
    (barriers.fence_acq_rel_cta if word == "CTA" else barriers.fence_acq_rel_gpu)()
