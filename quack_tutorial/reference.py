"""The right answers: each operation in float64 on numpy, how far from them a result may be, and how far it is.

| function            | what it gives                                                          |
|---------------------|------------------------------------------------------------------------|
| `softmax`           | softmax of the last axis in float64, NaN where torch has NaN           |
| `round_to`          | float64 values rounded to a dtype, ties to even                        |
| `ulp_distance`      | how many representable numbers lie between a result and a reference     |
| `softmax_tolerance` | the ulp that a softmax result may be away, element by element           |

dtypes are named "float32", "float16", "bfloat16". bfloat16 values are kept as the float32 numbers that they are.

Tolerances, in ulp. Rounding x - max and its product with log2(e) moves exp(x - max) by up to 2 |x - max|; a handful of
other roundings by 4. The sum of a row is off by half an ulp for each level of a balanced tree of additions, log2(N) / 2,
and inherits the errors of its terms, each weighted by its share: 2 times the mean of |x - max| under the softmax itself.
The sum's part is needed: without it, 4 + 2 |x - max|, random rows on an H200 (12 lengths from 256 to 16384, standard
deviations 1, 4 and 20, 2026-11-21) take torch.softmax to 2.8 times the bound and ours to 1.7; with it, to 1.05 and 0.78.
Narrow types hold one rounding of a good float32 result: 1.
"""

import numpy as np

# dtype: bits of the mantissa after the leading one, smallest normal exponent, exponent beyond the largest finite number
FORMATS = {"float32": (23, -126, 128), "float16": (10, -14, 16), "bfloat16": (7, -126, 128)}


def softmax(x):
    """Softmax of the last axis in float64; rows that are all -inf, or hold NaN or +inf, become NaN."""
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # -inf - -inf is the NaN that is wanted
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)


def ulp(values, dtype):
    """The distance between neighbouring numbers of `dtype` at each of the float64 `values`; subnormals included."""
    mantissa_bits, min_exponent, _ = _format(dtype)
    magnitude = np.abs(np.asarray(values, dtype=np.float64))
    normal = np.isfinite(magnitude) & (magnitude > 0)  # frexp gives 0 the exponent of 1
    exponent = np.frexp(np.where(normal, magnitude, np.ldexp(1.0, min_exponent)))[1] - 1
    return np.ldexp(1.0, np.maximum(exponent, min_exponent) - mantissa_bits)


def round_to(values, dtype):
    """float64 `values` rounded to numbers of `dtype` (as float64), ties to even, overflow to infinity."""
    values = np.asarray(values, dtype=np.float64)
    step = ulp(values, dtype)
    with np.errstate(invalid="ignore"):
        rounded = np.where(np.isfinite(values), np.rint(values / step) * step, values)
    limit = np.ldexp(1.0, _format(dtype)[2])
    return np.where(np.abs(rounded) >= limit, np.copysign(np.inf, rounded), rounded)


def ulp_distance(result, reference, dtype):
    """How far `result` is from float64 `reference`, in ulp of `dtype` at the reference; float64, elementwise.

    0 where both are NaN or the same infinity; infinity where only one is.
    """
    result, reference = np.asarray(result, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    same = (result == reference) | (np.isnan(result) & np.isnan(reference))
    comparable = np.isfinite(result) & np.isfinite(reference)
    with np.errstate(invalid="ignore"):
        distance = np.abs(result - reference) / ulp(reference, dtype)
    return np.where(same, 0.0, np.where(comparable, distance, np.inf))


def softmax_tolerance(x, dtype):
    """The ulp that each element of softmax of `x` in `dtype` may be from the reference; same shape as `x`."""
    x = np.asarray(x, dtype=np.float64)
    if dtype != "float32":
        return np.ones_like(x)
    with np.errstate(invalid="ignore"):
        below_max = np.abs(x - x.max(axis=-1, keepdims=True))
    below_max = np.where(np.isfinite(below_max), below_max, 0.0)
    mean = np.nansum(softmax(x) * below_max, axis=-1, keepdims=True)
    return 4.0 + 0.5 * np.log2(x.shape[-1]) + 2.0 * (below_max + mean)


def softmax_error(x, result, dtype):
    """The largest error of `result` as softmax of `x`, as a fraction of the tolerance: right if at most 1.

    float32 is compared with the float64 reference, narrower types with the reference rounded to them. 0 for no elements.
    """
    reference = softmax(x)
    if dtype != "float32":
        reference = round_to(reference, dtype)
    fraction = ulp_distance(result, reference, dtype) / softmax_tolerance(x, dtype)
    return float(fraction.max(initial=0.0))


def _format(dtype):
    if dtype not in FORMATS:
        raise ValueError(f"dtype must be one of {', '.join(FORMATS)}, got {dtype!r}")
    return FORMATS[dtype]
