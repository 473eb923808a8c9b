"""What kernels take from below CuTe DSL: the architecture, short vectors of registers, instructions by their dialect's name.

| name                                                  | here                                                            |
|-------------------------------------------------------|-----------------------------------------------------------------|
| `BaseDSL._get_dsl().get_arch_enum()`, `Arch.sm_90`    | Hopper: sm_90a; members are ordered as they appeared            |
| `Vector.from_elements(...).bitcast(...).to_elements()` | a few values of a thread, and the same bits as another type     |
| `Vector` +, -, *, /, &, `|`, ^, <<, >>                 | element by element, of one type                                 |
| `vector.from_elements`, `.bitcast`, `.extract`        | the same, of the dialect `vector`                               |
| `nvvm.fmin`, `nvvm.fmax`; `primitives.redux_sync`     | as cute.arch has them                                           |

Not covered: anything else of the dialects.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

import numpy as np

from ..context import not_simulated, refused
from ..machine.warps import FULL_MASK, warp_redux_sync
from ..values import arithmetic, numeric
from ..values.exact import contiguous
from ..values.numeric import (
    BFloat16,
    Boolean,
    DType,
    Float32,
    Int32,
    TensorSSA,
    Value,
    binary,
    convert,
    scalar,
)

# as MLIR writes them
TYPES = {"i1": Boolean, "bf16": BFloat16}
TYPES |= {f"i{bits}": numeric.TYPES[f"Int{bits}"] for bits in (8, 16, 32, 64)}
TYPES |= {f"f{bits}": numeric.TYPES[f"Float{bits}"] for bits in (16, 32, 64)}

# ---- the architecture -----------------------------------------------------------------------------------------------

ARCHITECTURES = "80 86 87 89 90 90a 100 100a 100f 103 103a 103f 110 110a 110f 120 120a 120f 121 121a 121f".split()


@functools.total_ordering
@dataclass(frozen=True)
class Architecture:
    """One member of Arch: sm_90a is (9, 0, "a")."""

    major: int
    minor: int
    suffix: str

    name = property(lambda self: f"sm_{self.major}{self.minor}{self.suffix}")
    value = property(lambda self: (self.major, self.minor, self.suffix))

    def __lt__(self, other) -> bool:
        return self.value < other.value

    def is_family_of(self, other) -> bool:
        """Whether code for the other's family runs here."""
        newer = self.major == other.major and self.minor >= other.minor
        return newer and (other.suffix != "a" or self == other)

    def to_string(self) -> str:
        return self.name

    __repr__ = to_string


class Arch:
    """The enumeration: Arch.sm_90 and so on."""


for _name in ARCHITECTURES:
    _number, _suffix = re.fullmatch(r"(\d+)(\w?)", _name).groups()
    setattr(Arch, f"sm_{_name}", Architecture(int(_number[:-1]), int(_number[-1]), _suffix))


class BaseDSL:
    """What a kernel asks for the architecture that it is compiled for: Hopper's."""

    @classmethod
    def _get_dsl(cls):
        return cls

    @staticmethod
    def get_arch_enum() -> Architecture:
        return Arch.sm_90a


# ---- vectors --------------------------------------------------------------------------------------------------------


_SCALARS = (int, float, Value)


class Vector:
    """A few values of one type, a thread's own."""

    def __init__(self, elements):
        self.elements = tuple(elements)

    @classmethod
    def from_elements(cls, elements, dtype: DType | None = None, **_) -> Vector:
        return cls(scalar(x) if dtype is None else convert(x, dtype) for x in elements)

    dtype = property(lambda self: self.elements[0].dtype)

    def to_elements(self, **_) -> tuple:
        return self.elements

    def ir_value(self, **_) -> Vector:
        return self

    __iter__ = None  # Python would count up for ever

    def __getitem__(self, index) -> Value:
        return self.values[index] if isinstance(index, Value) else self.elements[index]

    def __setitem__(self, index, value) -> None:
        raise refused("a Vector is immutable; make a new one with Vector.from_elements, or use a cutlass.Array")

    _carries_values = True

    def _copied(self) -> Vector:
        return self

    def _joined(self, other: Vector, join) -> Vector:
        """A vector with join(name, mine, the other's) of each element: one that a dynamic `if` or loop rebinds."""
        if self.dtype is not other.dtype or self.shape != other.shape:
            raise not_simulated(f"a vector of {self.numel()} {self.dtype} rebound to {other.numel()} {other.dtype}")
        return Vector(join(str(i), *pair) for i, pair in enumerate(zip(self.elements, other.elements)))

    @property
    def values(self) -> TensorSSA:
        """The same numbers as one array."""
        arrays = np.broadcast_arrays(*(x.a for x in self.elements))
        return TensorSSA(self.dtype, np.stack(arrays, axis=-1), self.shape)

    shape = property(lambda self: (len(self.elements),))

    def numel(self, **_) -> int:
        return len(self.elements)

    def to(self, dtype: DType, **_) -> Vector:
        return Vector(convert(x, dtype) for x in self.elements)

    def __neg__(self) -> Vector:
        return Vector(-x for x in self.elements)

    def _with(self, op: str, other, reflected: bool) -> Vector:
        """Element by element; a number is one of the vector's type."""
        if isinstance(other, Vector):
            if other.dtype is not self.dtype or other.shape != self.shape:
                raise not_simulated(f"{op} of {self.numel()} {self.dtype} and {other.numel()} {other.dtype}")
            numbers = other.elements
        elif isinstance(other, _SCALARS) and getattr(other, "dtype", self.dtype) is self.dtype:
            numbers = [convert(other, self.dtype)] * self.numel()
        else:
            raise not_simulated(f"{op} of a vector of {self.dtype} and {other!r}")
        if op == "/" and not self.dtype.is_float:
            raise not_simulated("/ of vectors of integers")
        sides = ((b, a) if reflected else (a, b) for a, b in zip(self.elements, numbers))
        return Vector(binary(op, *pair) for pair in sides)

    def bitcast(self, dtype: DType, **_) -> Vector:
        """The same bits as values of another type; the first value has the lowest."""
        arrays = np.broadcast_arrays(*(x.a for x in self.elements))
        raw = np.stack([self.dtype.encode(a) for a in arrays], axis=-1)
        if raw.shape[-1] * self.dtype.itemsize % dtype.itemsize:
            raise not_simulated(f"bitcast of {len(arrays)} {self.dtype} to {dtype}")
        words = dtype.decode(contiguous(raw).view(dtype.storage))
        return Vector(Value(dtype, words[..., i]) for i in range(words.shape[-1]))


def _operator(op: str, reflected: bool):
    return lambda self, other: self._with(op, other, reflected)


_OPERATORS = "add + sub - mul * truediv / and & or | xor ^".split()
for _name, _op in zip(_OPERATORS[::2], _OPERATORS[1::2]):
    setattr(Vector, f"__{_name}__", _operator(_op, False))
    setattr(Vector, f"__r{_name}__", _operator(_op, True))
Vector.__lshift__, Vector.__rshift__ = _operator("<<", False), _operator(">>", False)


@dataclass(frozen=True)
class VectorType:
    """T.vector(2, T.f32())."""

    count: int
    dtype: DType


def from_elements(result: VectorType, elements, **_) -> Vector:
    return Vector.from_elements(elements, result.dtype)


def bitcast(result: VectorType, vector: Vector, **_) -> Vector:
    return vector.bitcast(result.dtype)


def extract(vector: Vector, dynamic_position=(), static_position=(), **_) -> Value:
    if len(dynamic_position) or len(static_position) != 1:
        raise not_simulated("vector.extract at a position known only when the kernel runs")
    return vector[static_position[0]]


# ---- instructions ---------------------------------------------------------------------------------------------------


def fmin(*operands, results=None, abs=False, nan=False, ftz=False, **_) -> Value:
    return _of_two(arithmetic.fmin, operands, abs, nan, ftz)


def fmax(*operands, results=None, abs=False, nan=False, ftz=False, **_) -> Value:
    return _of_two(arithmetic.fmax, operands, abs, nan, ftz)


def _of_two(function, operands, abs, nan, ftz) -> Value:
    """function(a, b), before which releases older than 4.8 are given the result's type."""
    *result, a, b = operands
    return convert(function(a, b, abs=abs, nan=nan, ftz=ftz), result[0] if result else Float32)


def redux_sync(value, kind, mask=FULL_MASK, **options) -> Value:
    """cutlass.experimental.primitives.redux_sync; of floats Hopper has none."""
    if scalar(value).dtype is Float32 or str(kind).startswith("F"):
        raise not_simulated("redux_sync of floating-point numbers, which Hopper does not have,")
    return warp_redux_sync(convert(value, Int32), str(kind).lower(), mask, **options)
