"""cute.math: elementwise functions of numbers and vectors.

float32 results are rounded from float64, so within the bounds the CUDA documentation gives for its own (CUDA C++ Programming
Guide, mathematical functions). With fastmath=True, exp, exp2, log, log2, sqrt and rsqrt flush subnormal numbers, as the
.approx.ftz instructions do that they are compiled to.
"""

from __future__ import annotations

import math

import numpy as np

from ..context import fail
from .arithmetic import flush
from .numeric import Float32, Float64, TensorSSA, Value, binary, convert_array, require_arithmetic, scalar, type_of


def _apply(x, function, fast=None, fastmath=False):
    if not isinstance(x, (Value, TensorSSA)):
        x = scalar(x)
    dtype = type_of(x)
    if not dtype.is_float:
        raise fail("language", f"a function of cute.math takes floating-point numbers, got {dtype}; convert it first")
    require_arithmetic(dtype, "a function of cute.math")
    if fastmath and fast is not None and dtype is Float32:
        a = fast(x.a)
    elif dtype.width == 64:
        a = function(x.a)
    else:
        a = dtype.round(function(x.a.astype(np.float64)))
    return TensorSSA(dtype, a, x.shape) if isinstance(x, TensorSSA) else Value(dtype, a)


LOG2_E = np.float32(1.4426950408889634)


def exp(x, fastmath=False, **_):
    return _apply(x, np.exp, lambda a: flush(np.exp2(flush(a * LOG2_E))), fastmath)


def _flushing(function):
    """A float64 function between flushed float32 numbers."""
    return lambda a: flush(function(flush(a).astype(np.float64)).astype(np.float32))


def exp2(x, fastmath=False, approx=False, ftz=False, **_):
    return _apply(x, np.exp2, _flushing(np.exp2), fastmath or ftz)


def log(x, fastmath=False, **_):
    return _apply(x, np.log, _flushing(np.log), fastmath)


def log2(x, fastmath=False, approx=False, ftz=False, **_):
    return _apply(x, np.log2, _flushing(np.log2), fastmath or ftz)


def log10(x, fastmath=False, **_):
    return _apply(x, np.log10)


def _reciprocal_root(a):
    return 1.0 / np.sqrt(a)


def _reciprocal(a):
    return 1.0 / a


def sqrt(x, fastmath=False, approx=False, ftz=False, **_):
    return _apply(x, np.sqrt, _flushing(np.sqrt), fastmath or ftz)


def rsqrt(x, fastmath=False, approx=False, ftz=False, **_):
    return _apply(x, _reciprocal_root, _flushing(_reciprocal_root), fastmath or ftz)


def rcp(x, fastmath=False, approx=False, ftz=False, **_):
    return _apply(x, _reciprocal, _flushing(_reciprocal), ftz)


def tanh(x, fastmath=False, **_):
    return _apply(x, np.tanh)


def sin(x, fastmath=False, **_):
    return _apply(x, np.sin)


def cos(x, fastmath=False, **_):
    return _apply(x, np.cos)


def tan(x, fastmath=False, **_):
    return _apply(x, np.tan)


def asin(x, fastmath=False, **_):
    return _apply(x, np.arcsin)


def acos(x, fastmath=False, **_):
    return _apply(x, np.arccos)


def atan(x, fastmath=False, **_):
    return _apply(x, np.arctan)


def atan2(y, x, fastmath=False, **_):
    wide = [v if isinstance(v, (Value, TensorSSA)) else scalar(v) for v in (y, x)]
    if type(wide[0]) is not type(wide[1]) or wide[0].dtype is not wide[1].dtype:
        raise fail("language", "cute.math.atan2 takes two numbers, or two vectors, of one type")
    return _apply(wide[0], lambda a: np.arctan2(a, wide[1].a.astype(np.float64)))


def erf(x, fastmath=False, **_):
    return _apply(x, np.vectorize(math.erf, otypes=[np.float64]))


def floor(x, **_):
    return _apply(x, np.floor)


def ceil(x, **_):
    return _apply(x, np.ceil)


def absf(x, **_):
    return abs(x) if isinstance(x, (Value, TensorSSA)) else abs(scalar(x))


def isnan(x, **_):
    return x != x


def fma(a, b, c, **_):
    """a*b + c with one rounding."""
    wide = [scalar(v) if not isinstance(v, (Value, TensorSSA)) else v for v in (a, b, c)]
    dtype = wide[0].dtype
    total = binary("+", binary("*", wide[0].to(Float64), wide[1].to(Float64)), wide[2].to(Float64))
    a64 = convert_array(total.a, Float64, dtype)
    return TensorSSA(dtype, a64, total.shape) if isinstance(total, TensorSSA) else Value(dtype, a64)
