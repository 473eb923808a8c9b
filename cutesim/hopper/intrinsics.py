"""Arithmetic on registers beyond the book's: pairs of floats, bits, and what cute.math has for single numbers.

| names                                                        | here                                                      |
|--------------------------------------------------------------|-----------------------------------------------------------|
| `fma_packed_f32x2`, `mul_`, `add_`, `sub_`, `exp_packed_f32x2` | both numbers of a pair, each rounded once               |
| `prmt`, `lop3`, `brev`                                       | as the PTX ISA says, of 32 (or 64) bits                   |
| `mul_hi`, `mul_wide`                                         | integer products                                          |
| `lanemask_lt`                                                | the lanes before this one                                 |
| `log2_of_pow2_int`                                           | which bit of a power of two is set                        |
| `abs`, `div`, `isfinite`, `isinf`, `log1p`, ...               | elementwise, float32 rounded from float64                 |
| `select_`, `FastDivmodDivisor`                               | a choice lane by lane; `divmod` by a number kept           |

Sources: PTX ISA 9.0. Hopper has no packed instructions for float32, and the compiler refuses them for it: a kernel that uses
one runs here all the same, with a note that says so.
Not covered: directed rounding of pairs (rnd other than "rn").
"""

from __future__ import annotations

import operator

import numpy as np

from ..context import STATE, group, here, not_simulated, refuse_other, refused
from ..machine.warps import FULL_MASK, ShuffleKind, shuffle
from ..values import mathops
from ..values import numeric as nm
from ..values.arithmetic import clz, exp, flush, int32
from ..values.numeric import (
    Boolean,
    Float32,
    Int32,
    Int64,
    TensorSSA,
    Uint32,
    Uint64,
    Value,
    constant_number,
    convert,
    scalar,
)

# ---- pairs ----------------------------------------------------------------------------------------------------------


def _pairs(name: str, rnd, ftz, *operands) -> list:
    """(first of each operand), (second of each), as Float32, flushed where ftz says so."""
    if rnd is not None and str(rnd).rpartition(".")[2].lower() not in ("rn", "nearest_even"):
        raise not_simulated(f"{name} with rnd={rnd}")
    _note_newer(name)
    wide = [[convert(part, Float32) for part in _two(operand)] for operand in operands]
    if ftz:
        wide = [[Value(Float32, flush(part.a)) for part in pair] for pair in wide]
    return list(zip(*wide))


def _note_newer(name: str) -> None:
    says = f"{here().where}: {name} is compiled for Blackwell (sm_100) and newer; for Hopper the compiler refuses it."
    if says not in STATE.run.notes:
        STATE.run.notes.append(says)


def _two(pair) -> tuple:
    elements = getattr(pair, "to_elements", None)
    parts = tuple(elements() if elements else (pair[0], pair[1]) if isinstance(pair, TensorSSA) else pair)
    if len(parts) != 2:
        raise refused(f"a packed instruction takes two numbers at once, got {len(parts)}")
    return parts


def _settled(parts, ftz) -> tuple:
    return tuple(Value(Float32, flush(part.a)) for part in parts) if ftz else tuple(parts)


def fma_packed_f32x2(src_a, src_b, src_c, *, rnd=None, ftz=False, **_) -> tuple:
    pairs = _pairs("fma_packed_f32x2", rnd, ftz, src_a, src_b, src_c)
    return _settled((mathops.fma(*each) for each in pairs), ftz)


def _packed(name: str, function):
    def call(src_a, src_b, *, src_c=None, rnd=None, ftz=False, **_) -> tuple:
        refuse_other(f"{name} with src_c", src_c, None)
        return _settled((function(a, b) for a, b in _pairs(name, rnd, ftz, src_a, src_b)), ftz)

    call.__name__ = call.__qualname__ = name
    return call


mul_packed_f32x2 = _packed("mul_packed_f32x2", operator.mul)
add_packed_f32x2 = _packed("add_packed_f32x2", operator.add)
sub_packed_f32x2 = _packed("sub_packed_f32x2", operator.sub)


def exp_packed_f32x2(a, **_) -> tuple:
    _note_newer("exp_packed_f32x2")
    return tuple(exp(part) for part in _two(a))


# ---- shuffles -------------------------------------------------------------------------------------------------------


def shuffle_sync_op(value, offset, mask=FULL_MASK, mask_and_clamp=31, kind="idx", **_):
    return shuffle(value, offset, ShuffleKind[str(kind).rpartition(".")[2].upper()], mask, mask_and_clamp)


# ---- bits -----------------------------------------------------------------------------------------------------------


def _bits(x, width: int | None = None) -> np.ndarray:
    """A register's bits, as unsigned 64-bit numbers."""
    value = scalar(x)
    if value.dtype.is_float:
        raise refused(f"this instruction takes integers, not {value.dtype}")
    mask = (1 << (width or value.dtype.width)) - 1
    return value.a.astype(np.int64).view(np.uint64) & np.uint64(mask)


def _as(bits: np.ndarray, dtype) -> Value:
    """Unsigned 64-bit numbers, as a value of an integer type."""
    return Value(dtype, bits.astype(np.uint64).astype(f"u{dtype.itemsize}").view(dtype.carrier))


def prmt(src, src_reg_shifted, prmt_indices, **_) -> Value:
    """Four bytes picked from two registers: nibble i of the selector says which of the eight, its high bit repeats the sign."""
    low, high, selector = _bits(src, 32), _bits(src_reg_shifted, 32), _bits(prmt_indices, 32)
    both, result = low | (high << np.uint64(32)), np.uint64(0)
    for i in range(4):
        nibble = (selector >> np.uint64(4 * i)) & np.uint64(15)
        byte = (both >> ((nibble & np.uint64(7)) * np.uint64(8))) & np.uint64(255)
        sign = np.where(byte & np.uint64(128), np.uint64(255), np.uint64(0))
        result = result | (np.where(nibble & np.uint64(8), sign, byte) << np.uint64(8 * i))
    return _as(result, Int32)


def lop3(a, b, c, lut, **_) -> Value:
    """Any function of three bits: bit (a, b, c) of `lut`."""
    table, result = constant_number(lut, "lop3's lut"), np.uint64(0)
    parts = [_bits(x, 32) for x in (a, b, c)]
    for row in range(8):
        if table >> row & 1:
            picked = [p if row >> place & 1 else ~p for p, place in zip(parts, (2, 1, 0))]
            result = result | (picked[0] & picked[1] & picked[2])
    return _as(result & np.uint64(0xFFFFFFFF), scalar(a).dtype)


def brev(value, **_) -> Value:
    dtype, bits, result = scalar(value).dtype, _bits(value), np.uint64(0)
    for i in range(dtype.width):
        result = result | (((bits >> np.uint64(i)) & np.uint64(1)) << np.uint64(dtype.width - 1 - i))
    return _as(result, dtype)


_WIDER = {16: {True: Int32, False: Uint32}, 32: {True: Int64, False: Uint64}}


def mul_wide(a, b, **_) -> Value:
    """The whole product, of twice the width."""
    x, y = scalar(a), scalar(b)
    wide = _WIDER[x.dtype.width][x.dtype.signed]
    return convert(x, wide) * convert(y, wide)


def mul_hi(a, b, **_) -> Value:
    x, y = scalar(a), scalar(b)
    product = x.a.astype(object) * y.a.astype(object)
    return Value(x.dtype, (product >> x.dtype.width).astype(x.dtype.carrier))


def log2_of_pow2_int(a, **_) -> Value:
    """31 less the zeros above the highest bit."""
    return 31 - clz(convert(a, Int32))


def lanemask_lt(**_) -> Value:
    bits = (np.uint64(1) << (group().threads % 32).astype(np.uint64)) - np.uint64(1)
    return _as(bits[None, :], Uint32)


def smid(**_) -> Value:
    """Which multiprocessor: any would be right, and here every block has one of its own."""
    return int32(group().blocks[:, None] % 132)


# ---- cute.math ------------------------------------------------------------------------------------------------------


def _wide(x):
    return x if isinstance(x, (Value, TensorSSA)) else scalar(x)


def div(x, y, fastmath=False, approx=False, ftz=False, full=False, rounding=None, **_):
    if rounding is not None and "NEAREST" not in str(rounding):
        raise not_simulated(f"cute.math.div with rounding={rounding}")
    result = _wide(x) / _wide(y)
    return result._like(result.dtype, flush(result.a)) if ftz and isinstance(result, Value) else result


def isfinite(x, *_, **__):
    return _wide(x)._like(Boolean, np.isfinite(_wide(x).a))


def isinf(x, *_, **__):
    return _wide(x)._like(Boolean, np.isinf(_wide(x).a))


log1p, trunc = mathops.elementwise("log1p", np.log1p), mathops.elementwise("trunc", np.trunc)
roundeven = mathops.elementwise("roundeven", np.rint)
round_away = mathops.elementwise("round_away", lambda a: np.trunc(a + np.copysign(0.5, a)))


def copysign(mag, sign, *_, **__):
    return mathops._apply(mag, lambda a: np.copysign(a, _wide(sign).a))


# ---- choices and divisions ------------------------------------------------------------------------------------------


def select_(condition, yes, no, **_):
    """`yes` where the condition holds, else `no`; both have been computed."""
    if not isinstance(condition, (Value, TensorSSA)):
        return yes if condition else no
    x, y = _wide(yes), _wide(no)
    of_kernel = [isinstance(choice, (Value, TensorSSA)) for choice in (yes, no)]
    if of_kernel == [True, False]:
        y = convert(y, x.dtype)
    elif of_kernel == [False, True]:
        x = convert(x, y.dtype)
    return nm.select(condition.a != 0, x, y)


class FastDivmodDivisor:
    """A divisor kept for many divisions: `divmod(x, divisor)` is (x // divisor, x % divisor) of numbers that are not negative."""

    _carries_values = True

    def __init__(self, divisor, is_power_of_2=None, **_):
        self.divisor = convert(divisor, Int32)

    def _copied(self) -> FastDivmodDivisor:
        return self

    def _joined(self, other, join) -> FastDivmodDivisor:
        return FastDivmodDivisor(join("divisor", self.divisor, other.divisor))

    def __rdivmod__(self, dividend):
        x = convert(dividend, Int32)
        return x // self.divisor, x % self.divisor


def fast_divmod_create_divisor(divisor, **_) -> FastDivmodDivisor:
    return FastDivmodDivisor(divisor)
