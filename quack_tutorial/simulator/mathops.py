"""cute.math: elementwise functions of numbers and vectors.

float32 results are rounded from float64, so within the bounds the CUDA documentation gives for its own (CUDA C++ Programming
Guide, mathematical functions); with fastmath=True, exp and exp2 flush subnormals as ex2.approx.ftz does.
"""

from __future__ import annotations

import numpy as np

from .arch import flush
from .numeric import Float32, Float64, TensorSSA, Value, binary, convert_array, scalar, type_of


def _apply(x, function, fast=None, fastmath=False):
    if not isinstance(x, (Value, TensorSSA)):
        x = scalar(x)
    dtype = type_of(x)
    if not dtype.is_float:
        x, dtype = x.to(Float32), Float32
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


def exp2(x, fastmath=False, approx=False, ftz=False, **_):
    return _apply(x, np.exp2, lambda a: flush(np.exp2(flush(a))), fastmath or approx)


def log(x, fastmath=False, **_):
    return _apply(x, np.log)


def log2(x, fastmath=False, **_):
    return _apply(x, np.log2)


def log10(x, fastmath=False, **_):
    return _apply(x, np.log10)


def sqrt(x, fastmath=False, **_):
    return _apply(x, np.sqrt)


def rsqrt(x, fastmath=False, **_):
    return _apply(x, lambda a: 1.0 / np.sqrt(a))


def rcp(x, **_):
    return _apply(x, lambda a: 1.0 / a)


def tanh(x, fastmath=False, **_):
    return _apply(x, np.tanh)


def sin(x, fastmath=False, **_):
    return _apply(x, np.sin)


def cos(x, fastmath=False, **_):
    return _apply(x, np.cos)


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
