"""Numbers as the DSL has them: types, dynamic values, vectors in registers, and how they combine.

| class       | what                                   | array                                        |
|-------------|----------------------------------------|----------------------------------------------|
| `DType`     | a numeric type; calling it converts     |                                              |
| `Value`     | one number a thread                    | (blocks or 1, threads or 1)                  |
| `Literal`   | one that the source gives: `Int32(4)`  | (1, 1)                                       |
| `TensorSSA` | a small immutable array a thread       | (blocks or 1, threads or 1, values), column-major |

bf16 is computed in float32 and rounded to nearest even after every operation; fp16 is numpy's; floats of 8 bits, which have
no arithmetic, are `eight_bits`. Not covered: FMA contraction, approximate functions' last bits.
"""

from __future__ import annotations

import operator
import typing
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ..context import STATE, all_of, any_of, executing, fail, first_lane, not_simulated, refused, wrong_kind
from ..layouts.layout import (
    Extent,
    as_tuple,
    crd2idx,
    flatten_to_tuple,
    has_none,
    make_layout,
    offsets,
    product,
    slice_and_offset,
)
from . import eight_bits
from .exact import Exact, beside, decoded, exact, plain, wide
from .package_methods import Open, indexed_by_a_package, is_python_s


# One object a type: hashing all fields would cost more than most operations.
@dataclass(frozen=True, eq=False)
class DType:
    """A numeric type: `Float32(x)` converts, `Float32.width` is its bits."""

    name: str
    width: int
    storage: np.dtype  # how memory holds it
    carrier: np.dtype  # what arithmetic uses
    kind: str  # "f", "i", "u" or "b"
    _coding: eight_bits.EightBits | None = None  # of floats of 8 bits

    def __call__(self, x=0, **_):
        if type(x) in _KNOWN:
            return Literal(self, known(x))
        return convert(x, self)

    def __repr__(self) -> str:
        return self.name

    def __or__(self, other):
        """`Int32 | int` in an annotation."""
        return typing.Union[self, other]  # noqa: UP007

    def __ror__(self, other):
        return typing.Union[other, self]  # noqa: UP007

    @property
    def __name__(self) -> str:
        return self.name

    @cached_property
    def itemsize(self) -> int:
        return max(1, self.width // 8)

    bytes = property(lambda self: self.itemsize)

    @cached_property
    def is_float(self) -> bool:
        return self.kind == "f"

    @cached_property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    signed = property(lambda self: self.kind in "if")

    @property
    def mlir_type(self) -> DType:
        """What inline assembly gives a result of this type by."""
        return self

    def _special(self, number: float):
        return number if self._coding else Value(self, np.array([[number]], self.carrier))

    inf = property(lambda self: self._special(float("inf")))
    nan = property(lambda self: self._special(float("nan")))

    zero = property(lambda self: Value(self, np.zeros((1, 1), self.carrier)))

    def round(self, a: np.ndarray) -> np.ndarray:
        """Bring an array to this type's precision, in its carrier."""
        if STATE.exact and a.dtype.kind == "f":
            return exact(self._rounded(plain(a)), wide(a))
        return self._rounded(a)

    def _rounded(self, a: np.ndarray) -> np.ndarray:
        if self is BFloat16:
            return round_bf16(a.astype(np.float32) if a.dtype != np.float64 else double_to_float_odd(a))
        if self._coding:
            return self._coding.rounded(a)
        return a.astype(self.carrier)

    def decode(self, raw: np.ndarray) -> np.ndarray:
        """Memory's bits to the carrier."""
        if isinstance(raw, Exact):
            return decoded(self, raw) if raw.wide is not None else self.decode(plain(raw))
        if self is BFloat16:
            return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
        if self is Boolean:
            return raw != 0
        return self._coding.decode(raw) if self._coding else raw

    def encode(self, a: np.ndarray) -> np.ndarray:
        """The carrier to memory's bits; `a` is already rounded."""
        if isinstance(a, Exact):
            return beside(self.encode(plain(a)), a)
        if self is BFloat16:
            return (np.ascontiguousarray(a, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        return self._coding.encode(a) if self._coding else a.astype(self.storage, copy=False)


def _dtype(name, width, storage, carrier, kind, coding=None):
    return DType(name, width, np.dtype(storage), np.dtype(carrier), kind, coding)


Float64 = _dtype("Float64", 64, "f8", "f8", "f")
Float32 = _dtype("Float32", 32, "f4", "f4", "f")
Float16 = _dtype("Float16", 16, "f2", "f2", "f")
BFloat16 = _dtype("BFloat16", 16, "u2", "f4", "f")
Float8E4M3FN = _dtype("Float8E4M3FN", 8, "u1", "f4", "f", eight_bits.E4M3FN)
Float8E5M2 = _dtype("Float8E5M2", 8, "u1", "f4", "f", eight_bits.E5M2)
Int64 = _dtype("Int64", 64, "i8", "i8", "i")
Int32 = _dtype("Int32", 32, "i4", "i4", "i")
Int16 = _dtype("Int16", 16, "i2", "i2", "i")
Int8 = _dtype("Int8", 8, "i1", "i1", "i")
Uint64 = _dtype("Uint64", 64, "u8", "u8", "u")
Uint32 = _dtype("Uint32", 32, "u4", "u4", "u")
Uint16 = _dtype("Uint16", 16, "u2", "u2", "u")
Uint8 = _dtype("Uint8", 8, "u1", "u1", "u")
Boolean = _dtype("Boolean", 8, "u1", "?", "b")

TYPES = {t.name: t for t in list(globals().values()) if isinstance(t, DType)}


def round_bf16(a: np.ndarray) -> np.ndarray:
    """float32 to the nearest bfloat16 (ties to even), kept as float32."""
    bits = np.ascontiguousarray(a).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) & np.uint32(0xFFFF0000)
    result = rounded.view(np.float32)
    nan = np.isnan(a)
    if any_of(nan):
        result = np.where(nan, np.float32(np.nan), result)
    return result


def double_to_float_odd(a: np.ndarray) -> np.ndarray:
    """float64 to float32 rounding to odd, so that a second rounding (to bf16) is right."""
    near = a.astype(np.float32)
    inexact = np.isfinite(near) & (near.astype(np.float64) != a)
    bits = near.view(np.uint32)
    even = (bits & np.uint32(1)) == 0
    toward = np.where(near.astype(np.float64) < a, np.float32(np.inf), np.float32(-np.inf))
    return np.where(inexact & even, np.nextafter(near, toward), near)


class _Arithmetic:
    """Operators shared by Value and TensorSSA."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy scalars defer to us
    __hash__ = None

    def __eq__(self, o):
        return False if o is None else binary("==", self, o)

    def __ne__(self, o):
        return True if o is None else binary("!=", self, o)

    def __pow__(self, o):
        """To a constant power up to 7, as it is compiled: 1, a, a², a a², a⁴, a a⁴, a² a⁴, a (a² a⁴)."""
        o = known(o)
        if not (self.dtype.is_float and isinstance(o, (int, float)) and o in range(8)):
            return binary("**", self, o)
        if self.dtype.width == 16:
            return self.to(Float32) ** o
        if o == 0:
            return self._like(self.dtype, np.ones_like(self.a))
        result = None
        for bit in (4, 2, 1):
            if int(o) & bit:
                factor = self if bit == 1 else self * self if bit == 2 else (self * self) * (self * self)
                result = factor if result is None else factor * result
        return result

    def __rpow__(self, o):
        if isinstance(self, TensorSSA):
            return binary("**", o, self)
        raise refused(f"the DSL has no {o!r} ** {self.dtype}; write cutlass.Float32({o!r}) ** ...")

    def __pos__(self):
        raise refused("the DSL's numbers have no unary +; leave it out")

    def __neg__(self):
        require_arithmetic(self.dtype, "-")
        if self.dtype is Boolean and isinstance(self, Value):
            raise refused("- of a Boolean is refused by the DSL; write `not x`, or convert it: cutlass.Int32(x)")
        return self._like(self.dtype, -self.a if self.dtype is not Boolean else ~self.a)

    def __invert__(self):
        return self._like(self.dtype, ~self.a)

    def __abs__(self):
        return self._like(self.dtype, np.abs(self.a))

    def __bool__(self):
        raise refused(
            "a value known only when the kernel runs is used where Python needs True or False now; "
            "use `if` on it in a @cute.kernel or @cute.jit function (a helper needs @cute.jit for that), or cute.where",
        )

    def __index__(self):
        raise refused(
            "a value known only when the kernel runs is used where Python needs a number now (a list index, range_constexpr, "
            "a shape); make it a Constexpr, or use range_constexpr for the loop",
        )

    __int__ = __index__
    __float__ = __index__
    __len__ = __index__

    def __iter__(self):
        raise refused(f"cannot loop over a {type(self).__name__}; index it in a loop with range_constexpr")


def _operators(symbol: str) -> tuple:
    """An operator's method, and that of the number on its right."""
    return lambda self, o: binary(symbol, self, o), lambda self, o: binary(symbol, o, self)


_REFLECTED = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%"}
_REFLECTED |= {"and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>"}
for _name, _symbol in _REFLECTED.items():
    _forward, _backward = _operators(_symbol)
    setattr(_Arithmetic, f"__{_name}__", _forward)
    setattr(_Arithmetic, f"__r{_name}__", _backward)
for _name, _symbol in {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    setattr(_Arithmetic, f"__{_name}__", _operators(_symbol)[0])


class Value(_Arithmetic):
    """One number a thread, known only when the kernel runs."""

    __slots__ = ("dtype", "a")

    def __init__(self, dtype: DType, a: np.ndarray):
        self.dtype = dtype
        self.a = a

    def _like(self, dtype, a):
        return Value(dtype, a)

    def to(self, dtype: DType, **_) -> Value:
        return convert(self, dtype)

    def bitcast(self, dtype: DType, **_) -> Value:
        """The same bits read as another type of the same width."""
        if dtype.width != self.dtype.width:
            raise refused(f"bitcast from {self.dtype} to {dtype}: the widths differ")
        return Value(dtype, dtype.decode(self.dtype.encode(self.a).view(dtype.storage)))

    __iter__ = None  # Python would ask `__getitem__`

    def __getitem__(self, _):
        raise refused("one number has no index; a tensor takes all of its own in one pair of brackets: mX[row, col]")

    width = property(lambda self: self.dtype.width)

    def ir_value(self, **_) -> Value:
        """The value itself: what inline assembly takes."""
        return self

    def __repr__(self) -> str:
        """What the DSL has for it in a text that a kernel makes: there is no number yet."""
        return f"{self.dtype}(?)"

    def __str__(self) -> str:
        return "?"


class Literal(Value):
    """A number that a kernel writes as `Int32(4)`, or computes of such alone.

    It is dynamic in an `if` or a shape, but Python has it where it asks for a number now: in const_expr, range_constexpr, int() and
    a list's index. As in the DSL, Python computes with it: -7 % 3 is 2, and a float is not rounded before it meets a dynamic value.
    """

    __slots__ = ("value",)

    def __init__(self, dtype: DType, number):
        self.value = plain(to_array(number, dtype)).item() if not dtype.is_float else float(number)
        super().__init__(dtype, to_array(self.value, dtype))

    def __index__(self):
        if self.dtype.is_float:
            raise refused(f"{self.dtype} where Python needs a whole number; convert it: cutlass.Int32(...)")
        return int(self.value)

    __int__ = __index__

    def __repr__(self) -> str:
        return f"{self.dtype}({self.value})"

    def __pow__(self, o):
        if type(o) in (int, Literal) and int(o) >= 0:
            return Literal(self.dtype, self.value ** int(o))
        return _Arithmetic.__pow__(self, o)

    def to(self, dtype: DType, **_) -> Literal:
        return dtype(self)


Literal.__name__ = Value.__name__  # what messages call it


def are_known(*numbers) -> bool:
    """Whether Python has them all."""
    return all(type(x) in _KNOWN for x in numbers)


def known(x):
    """A number that Python has, as Python's."""
    return x.value if type(x) is Literal else x


def _of_literals(name: str):
    of_values, swapped = getattr(_Arithmetic, name), name in _SWAPPED
    of_numbers = getattr(operator, name.replace("__r", "__", 1) if swapped else name)

    def operate(self, *others):
        result = of_values(self, *others)
        if type(result) is not Value or not are_known(*others):
            return result
        numbers = [self.value, *map(known, others)]
        # In the type that they have in common, as of values: -1 is no number of Uint32's.
        if others:
            common = _joined(self.dtype, type_of(others[0]))
            numbers = [Literal(common, number).value for number in numbers]
        return Literal(result.dtype, of_numbers(*(numbers[::-1] if swapped else numbers)))

    return operate


_KNOWN = (int, float, bool, Literal)
_SWAPPED = [f"__r{_name}__" for _name in _REFLECTED]
_OF_NUMBERS = [f"__{_name}__" for _name in ("lt le gt ge eq ne neg abs".split() + [*_REFLECTED])]
for _name in _OF_NUMBERS + _SWAPPED:
    setattr(Literal, _name, _of_literals(_name))


class TensorSSA(_Arithmetic):
    """A thread's vector in registers: what `tensor.load()` gives."""

    __slots__ = ("dtype", "a", "shape")

    def __init__(self, dtype: DType, a: np.ndarray, shape):
        self.dtype = dtype
        self.a = a
        self.shape = shape

    element_type = property(lambda self: self.dtype)
    numel = property(lambda self: product(self.shape))

    def _like(self, dtype, a):
        return TensorSSA(dtype, a, self.shape)

    def to(self, dtype: DType, **_) -> TensorSSA:
        if dtype is Boolean and self.dtype.is_float:
            raise refused(
                f".to(Boolean) of a {self.dtype} vector is not simulated: CuTe DSL 4.8.1 compiles it to the opposite, True "
                "where the number is 0; compare with `!= 0` instead",
            )
        return TensorSSA(dtype, convert_array(self.a, self.dtype, dtype), self.shape)

    def ir_value(self, **_) -> TensorSSA:
        """The vector itself: what an atomic of several elements takes."""
        return self

    def bitcast(self, dtype: DType, **_) -> TensorSSA:
        """The same bits read as another type of the same width."""
        return TensorSSA(dtype, Value(self.dtype, self.a).bitcast(dtype).a, self.shape)

    def reshape(self, shape) -> TensorSSA:
        if product(shape) != product(self.shape):
            raise refused(f"cannot reshape {self.shape} to {shape}: {product(self.shape)} and {product(shape)} values")
        return TensorSSA(self.dtype, self.a, shape)

    def broadcast_to(self, shape) -> TensorSSA:
        a = _broadcast(self.a, self.shape, shape)
        return TensorSSA(self.dtype, a, shape)

    def __getitem__(self, coord):
        """One value, at a constant or a dynamic coordinate; or, where `coord` has None, a vector of those modes."""
        if is_python_s(coord):
            return indexed_by_a_package(VECTORS, self, "__getitem__", coord)
        layout = make_layout(self.shape)
        at = _indices(coord)
        if has_none(coord):
            if any(isinstance(c, np.ndarray) for c in flatten_to_tuple(at)):
                raise refused("slicing a register vector at a dynamic coordinate is refused by the DSL")
            part, first = slice_and_offset(at, layout)
            index = first + offsets(part)
            self._check(index, coord)
            return TensorSSA(self.dtype, self.a[..., index], part.shape)
        index = crd2idx(at, layout)
        self._check(index, coord)
        if not isinstance(index, np.ndarray):
            return Value(self.dtype, self.a[..., index])
        lanes = np.broadcast_shapes(index.shape, self.a.shape[:2])
        inside = np.clip(np.broadcast_to(index, lanes), 0, self.a.shape[-1] - 1)[..., None]
        whole = np.broadcast_to(self.a, lanes + self.a.shape[2:])
        return Value(self.dtype, np.take_along_axis(whole, inside, 2)[..., 0])

    def _check(self, index, coord) -> None:
        bad = (np.asarray(index) < 0) | (np.asarray(index) >= self.a.shape[-1])
        if bad.ndim == 2:  # one index a lane: lanes that are switched off read nothing
            off = executing().lanes_off()
            bad = bad if off is None else bad & off
        if any_of(bad):
            worst = coord if bad.ndim != 2 else int(np.broadcast_to(index, bad.shape)[bad][0])
            text = f"Out of bounds: element {worst} of a register vector of shape {self.shape}"
            raise fail("out of bounds", text)

    def reduce(self, op, init_val=None, reduction_profile=None, **_):
        """Left fold over the values (all of them, or the modes a profile marks), starting at `init_val`."""
        require_arithmetic(self.dtype, "reduce")
        if init_val is None or reduction_profile is None:
            raise refused("reduce needs init_val and reduction_profile (0: over all values)")
        if str(op) in ("MAX", "MIN") and not self.dtype.is_float:
            raise refused(f"the DSL refuses reduce({op}) of {self.dtype}; fold the elements with cutlass.max or min")
        if reduction_profile != 0:
            return _reduce_modes(self, op, init_val, reduction_profile)
        return Value(self.dtype, _fold(self.a, self.dtype, str(op), init_val))

    def __repr__(self) -> str:
        return f"TensorSSA({self.dtype}, {self.shape})"


def _fold(a: np.ndarray, dtype: DType, op: str, init_val) -> np.ndarray:
    combine = {"ADD": np.add, "MUL": np.multiply, "MAX": np.maximum, "MIN": np.minimum}[op]
    rounds = dtype is BFloat16 and op in ("ADD", "MUL")
    result = as_array(init_val, dtype)
    for k in range(a.shape[-1]):  # numpy reduces a short last axis thirty times more slowly
        result = combine(result, a[..., k])
        result = dtype.round(result) if rounds else result
    return result


def _reduce_modes(x: TensorSSA, op, init_val, profile):
    if not isinstance(profile, tuple) or len(profile) != len(x.shape):
        raise not_simulated(f"reduce with reduction_profile={profile}")
    sizes = [product(s) for s in x.shape]
    a = x.a.reshape(x.a.shape[:2] + tuple(reversed(sizes)))  # row-major axes: last mode first
    for mode in reversed(range(len(sizes))):
        if profile[mode] is not None:
            axis = 2 + profile[mode:].count(None)
            a = _fold(np.moveaxis(a, axis, -1), x.dtype, str(op), init_val)
    keep = tuple(s for s, p in zip(x.shape, profile) if p is None)
    if not keep:
        return Value(x.dtype, a)
    return TensorSSA(x.dtype, a.reshape(a.shape[:2] + (-1,)), keep if len(keep) > 1 else keep[0])


def _indices(coord):
    """A coordinate whose dynamic numbers are int64 arrays."""
    if isinstance(coord, tuple):
        return tuple(_indices(c) for c in coord)
    if not isinstance(coord, Value):
        return coord
    if not coord.dtype.is_integer:
        raise refused(f"an index must be an integer, got {coord.dtype}")
    return coord.a.astype(np.int64)


def _broadcast(a, shape, target):
    shape, target = as_tuple(shape), as_tuple(target)
    if shape == target:
        return a
    if len(shape) != len(target):
        raise refused(f"cannot broadcast {shape} with {target}: ranks differ (a TensorSSA broadcasts only modes of 1)")
    source = [product(s) for s in shape]
    wanted = [product(s) for s in target]
    if any(s != w and s != 1 for s, w in zip(source, wanted)):
        raise refused(f"cannot broadcast {shape} to {target}: only a mode of 1 is repeated")
    lead = a.shape[:2]
    spread = np.broadcast_to(a.reshape(lead + tuple(reversed(source))), lead + tuple(reversed(wanted)))
    return spread.reshape(lead + (-1,))


VECTORS = Open("TensorSSA", TensorSSA)


# ---- conversion -----------------------------------------------------------------------------------------------------

_PYTHON = {bool: Boolean, int: Int32, float: Float32}


def type_of(x) -> DType | None:
    """The DSL type of a Python or simulated number, None for anything else."""
    if isinstance(x, (Value, TensorSSA)):
        return x.dtype
    known = _PYTHON.get(type(x))
    if known is not None:
        return known if known is not Int32 or -(2**31) <= x < 2**31 else Int64
    if isinstance(x, np.generic):
        return type_of(x.item())
    if hasattr(type(x), "_refuse"):  # a name without a value says so itself
        x._refuse()
    if type(x) is Extent:
        return Int64 if x.bits == 64 else Int32
    return Int64 if isinstance(x, int) and not -(2**31) <= x < 2**31 else None


def truth(x, what: str = "the condition"):
    """A dynamic condition as a bool array, or None when `x` is a plain Python value."""
    if isinstance(x, Value):
        return x.a if x.dtype is Boolean else x.a != 0
    if isinstance(x, TensorSSA):
        raise refused(f"{what} is a vector of {x.numel} values; reduce it to one, or use cute.where")
    return None


def constant_number(x, what: str) -> int:
    """A Python integer, or a clear refusal of a dynamic one."""
    if isinstance(x, Value) and type(x) is not Literal:
        raise refused(f"{what} must be known while tracing (a Constexpr), not a value known only when the kernel runs")
    return operator.index(x)


def convert_array(a: np.ndarray, source: DType, target: DType) -> np.ndarray:
    if source is target:
        return a
    if source._coding or target._coding:
        a = _eight_bits(a, source, target)
    if target is Boolean:
        return a != 0
    if target.is_float:
        # one rounding: int32 is exact in float64
        return target.round(a if source.is_float else a.astype(np.float64))
    if source.is_float:  # to an integer: toward zero, clamped, NaN is 0 (cvt.rzi)
        if target.width == 8:
            _require_inside(a, source, target)
        info = np.iinfo(target.carrier)
        wide = np.nan_to_num(np.trunc(a.astype(np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
        inside = np.where((wide >= float(info.min)) & (wide < float(info.max) + 1), wide, 0.0)
        result = inside.astype(target.carrier)
        result = np.where(wide >= float(info.max), target.carrier.type(info.max), result)
        result = np.where(wide < float(info.min), target.carrier.type(info.min), result)
        # PTX ISA, cvt: with 64 bits on either side NaN is the highest bit alone.
        if 64 in (source.width, target.width):
            highest = np.array(1 << target.width - 1, f"u{target.itemsize}").view(target.carrier)
            result = np.where(np.isnan(a), highest, result)
        return result
    return a.astype(target.carrier)


def _eight_bits(a: np.ndarray, source: DType, target: DType) -> np.ndarray:
    """What is rounded in a conversion from or to a float of 8 bits; the compiler has those alone that instructions have."""
    other = source if target._coding else target
    if other._coding or not other.is_float:
        raise refused(f"the compiler fails at a conversion of {source} to {target}; convert to Float32 in between")
    return a.astype(np.float32) if source is Float64 else a


def require_arithmetic(dtype: DType, op: str) -> None:
    if dtype._coding:
        raise refused(
            f"{op} of {dtype}: the compiler fails at arithmetic on floats of 8 bits; convert to Float32 first"
        )


def _require_inside(a: np.ndarray, source: DType, target: DType) -> None:
    """Floats beyond an 8-bit integer type: the DSL's compiler leaves the result open, so no number would be right.

    There is no instruction for them. An H200 showed the 16-bit conversion's result when the 8 bits were widened again.
    Lanes that are switched off convert nothing, whatever they hold.
    """
    info = np.iinfo(target.carrier)
    outside = ~((a > info.min - 1) & (a < info.max + 1))  # NaN, too
    off = None if STATE.group is None else STATE.group.lanes_off()
    if off is not None:
        outside = outside & (off if a.ndim == 2 else off[..., None])
    if not outside.any():
        return
    value = float(np.broadcast_to(a, outside.shape)[outside][0])
    raise fail(
        "undefined conversion",
        f"Undefined conversion: {source} {value:.9g} does not fit {target} ({info.min} to {info.max}), and the DSL's compiler "
        "leaves the result undefined; clamp the number first, or convert to Int32",
    )


def convert(x, dtype: DType):
    """`dtype(x)`: a Value (or TensorSSA) of that type."""
    if isinstance(x, TensorSSA):
        return x.to(dtype)
    if isinstance(x, Value):
        return x if x.dtype is dtype else Value(dtype, as_array(x, dtype))
    return Value(dtype, to_array(x, dtype))


def to_array(x, dtype: DType) -> np.ndarray:
    """A Python number as a (1, 1) array of `dtype`'s carrier; read-only."""
    return _number(x, dtype) if type(x) in (int, bool) else _new_number(x, dtype)


@lru_cache(maxsize=2048, typed=True)
def _number(x, dtype: DType) -> np.ndarray:
    result = _new_number(x, dtype)
    result.flags.writeable = False
    return result


def _new_number(x, dtype: DType) -> np.ndarray:
    if not isinstance(x, (bool, int, float, np.generic)):
        raise wrong_kind(f"{dtype} needs a number, got {type(x).__name__}", x)
    if dtype._coding:
        return dtype._coding.rounded(np.array([[x]], np.float64), saturate=False)
    if dtype.is_float:
        return dtype.round(np.array([[x]], np.float64))
    if dtype is Boolean:
        return np.array([[bool(x)]])
    most = 2 ** (dtype.width - 1)
    if isinstance(x, float) and dtype in (Int32, Int64) and not -most <= x < most:
        raise not_simulated(f"{dtype}({x!r}), a number that the type does not hold,")
    bits = int(x) & ((1 << dtype.width) - 1)
    return np.array([[bits]], np.uint64).astype(f"u{dtype.itemsize}").view(dtype.carrier)


_RANKED = [Boolean, Int8, Uint8, Int16, Uint16, Int32, Uint32, Int64, Uint64]
_RANKED += [Float8E4M3FN, Float8E5M2, BFloat16, Float16, Float32, Float64]
_RANK = {dtype: rank for rank, dtype in enumerate(_RANKED)}


def promote(x, y, op: str) -> DType:
    """The type of `x op y` by the DSL's rules: a Python int counts as Int32, a float as Float32, and nothing gives way."""
    tx, ty = type_of(x), type_of(y)
    if tx is None or ty is None:
        bad = x if tx is None else y
        raise wrong_kind(f"{op} of a kernel value with {bad!r}: not a number", bad)
    result = _joined(tx, ty)
    if op != "select":
        require_arithmetic(result, op)
    vectors = isinstance(x, TensorSSA) or isinstance(y, TensorSSA)
    if op == "/" and not result.is_float and not vectors:
        return Float32  # a vector of integers stays one, and truncates
    return result


def _joined(tx: DType, ty: DType) -> DType:
    if tx is ty:
        return tx
    if tx.is_float and ty.is_float:
        if tx._coding and ty._coding:
            raise refused(f"{tx} and {ty} have no common type; convert them to Float32")
        return Float16 if {tx, ty} == {BFloat16, Float16} else max(tx, ty, key=_RANK.get)
    if not tx.is_float and not ty.is_float:
        return max(tx, ty, key=_RANK.get)
    number, integer = (tx, ty) if tx.is_float else (ty, tx)
    holds = integer.width < number.width or integer.width == number.width and number is not BFloat16
    if integer is Boolean or holds:
        return number
    return {16: Float16, 32: Float32, 64: Float64}[integer.width]


_COMPARE = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
_BITS = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor, "<<": np.left_shift, ">>": np.right_shift}
_ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
_NUMBERS = (_Arithmetic, int, float, np.generic)
_DIRECT = frozenset((Float32, Float64, Int32, Int64, Uint32))
_DIRECT_OPERATORS = _COMPARE | {"+": np.add, "-": np.subtract, "*": np.multiply}


def operands(x, y, dtype):
    """Both sides as arrays of one type and compatible shape, and how to wrap the result."""
    shape = None
    if isinstance(x, TensorSSA) and isinstance(y, TensorSSA) and x.shape != y.shape:
        shape = _common_shape(x.shape, y.shape)
        x, y = x.broadcast_to(shape), y.broadcast_to(shape)
    shape = x.shape if isinstance(x, TensorSSA) else y.shape if isinstance(y, TensorSSA) else None
    ax, ay = as_array(x, dtype), as_array(y, dtype)
    if shape is not None:
        ax = ax if isinstance(x, TensorSSA) else ax[..., None]
        ay = ay if isinstance(y, TensorSSA) else ay[..., None]
        return ax, ay, lambda t, a: TensorSSA(t, a, shape)
    return ax, ay, Value


def _common_shape(s, t):
    s, t = as_tuple(s), as_tuple(t)  # a bare extent is a mode like (n,)
    if len(s) != len(t):
        raise refused(f"shapes {s} and {t} do not match: a TensorSSA broadcasts only equal ranks with modes of 1")
    return tuple(b if product(a) == 1 else a for a, b in zip(s, t))


def as_array(x, dtype: DType) -> np.ndarray:
    if isinstance(x, _Arithmetic) and type(x) is not Literal:
        return convert_array(x.a, x.dtype, dtype)
    return to_array(known(x), dtype)


def binary(op: str, x, y):
    """`x op y` for simulated values, TensorSSA and Python numbers."""
    if type(x) is Value and type(y) is Value and x.dtype is y.dtype and x.dtype in _DIRECT:
        # most operations by far, so without the general case's questions
        direct = _DIRECT_OPERATORS.get(op)
        if direct is not None:
            return Value(Boolean if op in _COMPARE else x.dtype, direct(x.a, y.a))
    if not isinstance(x, _NUMBERS) or not isinstance(y, _NUMBERS):
        return NotImplemented
    dtype = promote(x, y, op)
    if op in _BITS and dtype.is_float:
        raise refused(f"{op} needs integers or booleans, got {dtype}")
    ax, ay, wrap = operands(x, y, dtype)
    if op in _COMPARE:
        return wrap(Boolean, _COMPARE[op](ax, ay))
    if op in _BITS:
        return wrap(dtype, _BITS[op](ax, ay))
    if op in _ARITHMETIC:
        if op == "/" and not dtype.is_float:
            # a vector's: through float32, then cut off
            quotient = ax.astype(np.float32) / ay.astype(np.float32)
            return wrap(dtype, convert_array(quotient, Float32, dtype))
        if dtype is Boolean:
            return wrap(Boolean, {"+": np.logical_or, "-": np.logical_xor, "*": np.logical_and}[op](ax, ay))
        result = _ARITHMETIC[op](ax, ay)
        return wrap(dtype, dtype.round(result) if dtype is BFloat16 else result)
    if op == "**":
        if getattr(x, "dtype", None) is Boolean:
            raise not_simulated("** of a condition")
        if not dtype.is_float:
            raise refused("** of integers ends CuTe DSL 4.8.1's compiler without a word; multiply, or shift")
        return wrap(dtype, dtype.round(np.power(ax.astype(np.float64), ay.astype(np.float64))))
    if dtype.is_float:
        if op == "//":
            return wrap(dtype, np.floor(dtype.round(ax / ay)))
        return wrap(dtype, dtype.round(np.fmod(ax, ay)))
    safe = ay if all_of(ay) else _without_zeros(op, ay)
    return wrap(dtype, np.floor_divide(ax, safe) if op == "//" else np.fmod(ax, safe))


def _without_zeros(op: str, divisors: np.ndarray) -> np.ndarray:
    """Divisors of integers with 1 for 0 where a lane is off; a lane that is on may not divide by zero (PTX ISA, div, rem)."""
    g, zero = executing(), divisors == 0
    bad = zero & (g.active() if zero.ndim == 2 else g.active()[..., None])
    if bad.any():
        _, facts = first_lane(bad)
        who = f"thread {facts['threads'][0]} of block {facts['block']}"
        text = f"{who} divides an integer by zero ({op}), which gives any number on a GPU"
        raise fail("division by zero", text, **facts | {"count": int(np.count_nonzero(bad))})
    return np.where(zero, divisors.dtype.type(1), divisors)


def select(condition: np.ndarray, x, y):
    """Lane by lane `condition ? x : y` for two simulated values of one type."""
    dtype = promote(x, y, "select")
    ax, ay, wrap = operands(x, y, dtype)
    c = condition[..., None] if wrap is not Value else condition
    return wrap(dtype, np.where(c, ax, ay))


def scalar(x) -> Value:
    """A Python number as a Value of the type the DSL gives it; Values pass."""
    if isinstance(x, Value):
        return x
    dtype = type_of(x)
    if dtype is None:
        raise wrong_kind(f"a number is needed, got {type(x).__name__}", x)
    return Value(dtype, to_array(x, dtype))
