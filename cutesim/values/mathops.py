"""cute.math: elementwise functions of numbers and vectors.

float32 results are rounded from float64, so within the bounds the CUDA documentation gives for its own (CUDA C++ Programming
Guide, mathematical functions). With fastmath=True, exp, exp2, log, log2, sqrt and rsqrt flush subnormal numbers, as the
.approx.ftz instructions do that they are compiled to.
"""

from __future__ import annotations

import math

import numpy as np

from ..context import refused
from .arithmetic import flush
from .numeric import Float32, Float64, TensorSSA, Value, binary, convert_array, require_arithmetic, scalar, type_of


def _apply(x, function, fast=None, fastmath=False):
    if not isinstance(x, (Value, TensorSSA)):
        x = scalar(x)
    dtype = type_of(x)
    if not dtype.is_float:
        raise refused(f"a function of cute.math takes floating-point numbers, got {dtype}; convert it first")
    require_arithmetic(dtype, "a function of cute.math")
    if fastmath and fast is not None and dtype is Float32:
        a = fast(x.a)
    elif dtype.width == 64:
        a = function(x.a)
    else:
        a = dtype.round(function(x.a.astype(np.float64)))
    return TensorSSA(dtype, a, x.shape) if isinstance(x, TensorSSA) else Value(dtype, a)


def elementwise(name, function, fast=None, has_ftz=False):
    """A function of cute.math; with fastmath=True, or ftz=True where the DSL has that, float32 goes the `fast` way."""

    def call(x, fastmath=False, approx=False, ftz=False, **_):
        return _apply(x, function, fast, fastmath or (has_ftz and ftz))

    call.__name__ = call.__qualname__ = name
    return call


def _flushing(function):
    """A float64 function between flushed float32 numbers."""
    return lambda a: flush(function(flush(a).astype(np.float64)).astype(np.float32))


_ROOT, _RECIPROCAL = (lambda a: 1.0 / np.sqrt(a)), (lambda a: 1.0 / a)
LOG2_E = np.float32(1.4426950408889634)
exp = elementwise("exp", np.exp, lambda a: flush(np.exp2(flush(a * LOG2_E))))
exp2 = elementwise("exp2", np.exp2, _flushing(np.exp2), has_ftz=True)
log = elementwise("log", np.log, _flushing(np.log))
log2 = elementwise("log2", np.log2, _flushing(np.log2), has_ftz=True)
sqrt = elementwise("sqrt", np.sqrt, _flushing(np.sqrt), has_ftz=True)
rsqrt = elementwise("rsqrt", _ROOT, _flushing(_ROOT), has_ftz=True)
log10, tanh = elementwise("log10", np.log10), elementwise("tanh", np.tanh)
sin, cos, tan = elementwise("sin", np.sin), elementwise("cos", np.cos), elementwise("tan", np.tan)
asin, acos = elementwise("asin", np.arcsin), elementwise("acos", np.arccos)
atan = elementwise("atan", np.arctan)
floor, ceil = elementwise("floor", np.floor), elementwise("ceil", np.ceil)
erf = elementwise("erf", np.vectorize(math.erf, otypes=[np.float64]))


def rcp(x, fastmath=False, approx=False, ftz=False, **_):
    return _apply(x, _RECIPROCAL, _flushing(_RECIPROCAL), ftz)


def atan2(y, x, fastmath=False, **_):
    wide = [v if isinstance(v, (Value, TensorSSA)) else scalar(v) for v in (y, x)]
    if type(wide[0]) is not type(wide[1]) or wide[0].dtype is not wide[1].dtype:
        raise refused("cute.math.atan2 takes two numbers, or two vectors, of one type")
    return _apply(wide[0], lambda a: np.arctan2(a, wide[1].a.astype(np.float64)))


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
