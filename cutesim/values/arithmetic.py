"""cute.arch's arithmetic: maxima, minima, approximate functions, bits.

Sources: PTX ISA 9.0 (max, min, ex2.approx, rcp.approx, clz, popc).
"""

from __future__ import annotations

import numpy as np

from ..context import any_of
from .numeric import Float32, Int32, Value, convert, scalar


def int32(a) -> Value:
    return Value(Int32, np.array(a, np.int32, ndmin=2))


def _f32(x) -> np.ndarray:
    return convert(x, Float32).a


def signed_zero(result, a, b, larger: bool):
    """max(+0, -0) is +0 and min is -0 (PTX ISA, max and min)."""
    both = (a == 0) & (b == 0)
    if not any_of(both):
        return result
    zero = a + b if larger else -((-a) + (-b))
    return np.where(both, zero, result)


def fmax(a, b, *, abs=False, nan=False, ftz=False, **_) -> Value:
    """The larger number; NaN only where both are NaN (where either is, with nan=True).

    `abs` compares magnitudes and gives the product's sign (.xorsign.abs), `ftz` flushes subnormal numbers.
    """
    return _pick(np.maximum if nan else np.fmax, True, a, b, abs, ftz)


def fmin(a, b, *, abs=False, nan=False, ftz=False, **_) -> Value:
    return _pick(np.minimum if nan else np.fmin, False, a, b, abs, ftz)


def _pick(pick, largest: bool, a, b, magnitudes: bool, ftz: bool) -> Value:
    x, y = _f32(a), _f32(b)
    x, y = (flush(x), flush(y)) if ftz else (x, y)
    if magnitudes:
        negative = np.signbit(x) ^ np.signbit(y)
        x, y = np.abs(x), np.abs(y)
        result = pick(x, y)
        return Value(Float32, np.where(negative, -result, result))
    return Value(Float32, signed_zero(pick(x, y), x, y, largest))


def flush(a: np.ndarray) -> np.ndarray:
    """Subnormal float32 numbers become zero of the same sign (.ftz)."""
    tiny = np.abs(a) < np.float32(1.17549435e-38)
    return np.where(tiny, np.copysign(np.float32(0), a), a) if any_of(tiny) else a


def exp2(a, **_) -> Value:
    """ex2.approx.ftz (documented error: 2 ulp)."""
    return Value(Float32, flush(np.exp2(flush(_f32(a)))))


def exp(a, **_) -> Value:
    return Value(Float32, flush(np.exp2(flush(_f32(a) * np.float32(1.4426950408889634)))))


def rcp_approx(a, **_) -> Value:
    """rcp.approx.ftz (documented error: 1 ulp)."""
    return Value(Float32, flush(np.float32(1) / flush(_f32(a))))


def clz(a, **_) -> Value:
    """The number of zeros above the highest bit that is 1."""
    value = scalar(a)
    bits = value.a.view(f"u{value.dtype.itemsize}").astype(np.uint64)
    width = value.dtype.width
    used = sum((bits >> np.uint64(i) != 0).astype(np.int32) for i in range(width))
    return Value(Int32, (width - used).astype(np.int32))


def popc(a, **_) -> Value:
    """The number of bits that are 1, in the type of `a`."""
    value = scalar(a)
    bits = value.a.view(f"u{value.dtype.itemsize}").astype(np.uint64)
    ones = sum((bits >> np.uint64(i)) & np.uint64(1) for i in range(value.dtype.width))
    return Value(value.dtype, ones.astype(value.dtype.carrier))
