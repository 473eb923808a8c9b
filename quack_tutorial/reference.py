"""The right answers: each operation in float64 on numpy, how far from them a result may be, and how far it is.

| function                                       | what it gives                                                      |
|------------------------------------------------|--------------------------------------------------------------------|
| `softmax`                                      | softmax of the last axis in float64, NaN where torch has NaN       |
| `softmax_backward`                             | the gradient of its input, from y and dy                           |
| `rmsnorm`, `rmsnorm_rstd`                      | RMSNorm with weight, bias, residual; 1 / root mean square          |
| `rmsnorm_dx`, `rmsnorm_dw`, `rmsnorm_db`       | the gradients of its input, weight and bias                        |
| `rmsnorm_quantized`, `float8`                  | RMSNorm over its scales, of rows or blocks of columns; float8's numbers |
| `layernorm`, `layernorm_stats`                 | LayerNorm with weight and bias; mean and 1 / standard deviation    |
| `layernorm_dx`, `layernorm_dw`                 | the gradients of its input and weight; its bias's is `rmsnorm_db`  |
| `logsumexp`                                    | log(sum(exp(x))) of the last axis                                  |
| `cross_entropy`, `cross_entropy_backward`      | the loss of each row; the gradient of the logits                   |
| each of these with `_error`                    | the largest error of a result over what is tolerated: right if <= 1 |
| `softmax_tolerance`                            | the ulp that a softmax result may be away, element by element      |
| `round_to`, `ulp`, `ulp_distance`              | rounding, spacing and distance in a dtype                          |

dtypes are named "float32", "float16", "bfloat16" and are those of the result; float32 is compared with the float64
reference, narrower types with the reference rounded to them. bfloat16 values are kept as the float32 numbers that they
are. Inputs are taken as they are, exact; so is a log-sum-exp or an rstd that a function is given.

Tolerances. Kernels compute in float32 and round once at the end. A result may be as far away as float32 arithmetic
takes it, which for sums of unlike signs depends on the terms and not on what is left of them, and in a narrow type 1 ulp
more. eps is 2^-23, twice the error of one rounding.

| operation               | how far float32 arithmetic may be away                                                      |
|-------------------------|---------------------------------------------------------------------------------------------|
| softmax                 | 4 + log2(N) / 2 + 2 (|x - max| + mean) ulp                                                   |
| softmax_backward        | eps |y| (2 |dy| + (2 + log2(N) / 2) sum|y dy|)                                               |
| rmsnorm                 | 4 ulp of the largest of |x rstd w|, |b| and the result                                      |
| rmsnorm_rstd            | 4 ulp                                                                                       |
| rmsnorm_dx              | eps (4 |rstd w dy| + (10 + log2(N) / 2) rstd |x'| mean|x' w dy| + 2 |dresidual|), x' = x rstd |
| rmsnorm_dw, rmsnorm_db  | eps (4 + log2(M)) sum|dy x'|, eps (1 + log2(M)) sum|dy|                                      |
| rmsnorm_quantized       | scale: 5 eps of itself; y / scale, before it is rounded to float8: 10 eps of itself         |
| layernorm               | 5 ulp of the largest of |x' w|, |b| and the result, and |w| s (1 + s |x'|), x' = (x - mean) rstd |
| layernorm_stats         | eps (1 + log2(N) / 2) mean|x|; 4 ulp and s^2 rstd                                           |
| layernorm_dx            | eps rstd (4 |w dy| + (4 + log2(N) / 2) mean|w dy| + (12 + log2(N) / 2) |x'| mean|x' w dy|)   |
| layernorm_dw            | eps (6 + log2(M)) sum|dy x'|                                                                |
| logsumexp               | eps (4 + log2(N) / 2 + |max| + |lse| + 2 mean)                                               |
| cross_entropy           | that plus eps (|x_target| + |loss|), or 5e-5 of the loss, whichever is more                     |
| cross_entropy_backward  | eps |dloss| (p (4 + log2(N) / 2 + 2 (|x - lse| + mean) + |lse|) + [target]) + 2^-126 |dloss|  |

Why, softmax: rounding x - max and its product with log2(e) moves exp(x - max) by up to 2 |x - max|; a handful of other
roundings by 4. The sum of a row is off by half an ulp for each level of a balanced tree of additions, log2(N) / 2,
and inherits the errors of its terms, each weighted by its share: 2 times the mean of |x - max| under the softmax itself
("mean" above). The sum's part is needed: without it, 4 + 2 |x - max|, random rows on an H200 (12 lengths from 256 to
16384, standard deviations 1, 4 and 20, 2026-11-21) take torch.softmax to 2.8 times the bound and ours to 1.7; with it,
to 1.05 and 0.78. Narrow types hold one rounding of a good float32 result: 1.

Why, the others: each product or sum is half an eps of the term that it belongs to; a reciprocal square root is 2 eps,
and dx has rstd once in its first term, three times in its second. Sums along a row count as softmax's, relative to the sum
of the magnitudes. A sum over M rows is taken in runs, one a block, where roundings pile up more than in a tree, so it
gets a whole eps a doubling. The log-sum-exp is max + log(sum): an error of the sum relative to itself is one of the
logarithm absolutely, and the addition rounds at the size of the result; a loss near 0 is the difference of two numbers
of that size, so 5e-5 of it alone would ask for more than float32 holds. A rounded log-sum-exp moves every p by that much
relative to itself, hence |lse|; and exp may flush what is below 2^-126 to 0. Where a bound is not 0, 2^-148 is added for
results that have lost digits to underflow.

Why, RMSNorm in float8: y is off by 4 eps at most, and so is the largest of them. The scale is its product with a rounded 1/448, 1
more; the quotient is y times 448 over the largest, 2 more. It is then rounded to float8, to nearest, ties to even. So a code is
right if a number within 10 eps of the quotient rounds to it: next to a tie two codes are, elsewhere one is.

Why, LayerNorm: the mean may be off by eps (1 + log2(N) / 2) mean|x|, which is s = that times rstd in x'. It moves x' by s; it moves
the variance about it by no more than its square, which is why the variance must be taken about the mean that was found. x - mean
rounds once more than RMSNorm has to. The gradients start from the mean and rstd that they are given, and have s, as x' has, only
where they are given none.

Not covered: rows whose squares leave the range of float32 in RMSNorm (its kernels do not scale).
"""

import numpy as np

# dtype: bits of the mantissa after the leading one, smallest normal exponent, exponent beyond the largest finite number
FORMATS = {"float32": (23, -126, 128), "float16": (10, -14, 16), "bfloat16": (7, -126, 128)}
FLOAT8_LARGEST, FLOAT8_NAN = 448.0, 127  # of e4m3, and the bits of its NaN but for the sign
LEAST_MAXIMUM = 2.0**-100  # of which a scale is made
EPS = 2.0**-23
FLUSHED = 2.0**-126
UNDERFLOW = 2.0**-148  # two roundings of numbers below the smallest normal one
LOSS_RELATIVE = 5e-5


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
    result = np.asarray(result, dtype=np.float64)
    reference = np.asarray(reference, dtype=np.float64)
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


def softmax_backward(y, dy):
    """The gradient of softmax's input in float64: y (dy - sum(dy y)), from its output `y` and the gradient `dy`."""
    y, dy = _float64(y, dy)
    return y * (dy - (dy * y).sum(axis=-1, keepdims=True))


def softmax_backward_error(y, dy, result, dtype):
    """The largest error of `result` as the gradient of softmax's input, over what is tolerated."""
    y, dy = _float64(y, dy)
    terms = np.abs(dy * y).sum(axis=-1, keepdims=True)
    bound = EPS * np.abs(y) * (2 * np.abs(dy) + (2 + _tree(y.shape[-1])) * terms)
    return _largest(result, softmax_backward(y, dy), dtype, bound)


def topk(x, k):
    """(values, indices) of the k largest of the last axis, the largest first: NaN before all others, equal ones as they stand."""
    x = np.asarray(x, dtype=np.float64)
    order = np.lexsort((-np.nan_to_num(x, posinf=np.inf, neginf=-np.inf), ~np.isnan(x)), axis=-1)[..., :k]
    return np.take_along_axis(x, order, axis=-1), order


def topk_error(x, values, dtype, with_softmax=False):
    """How far `values` are from the largest of the last axis of `x`, in quarters of an ulp; softmax of them, from that."""
    reference, _ = topk(x, values.shape[-1])
    if with_softmax:
        return softmax_error(reference, values, dtype)
    # Of the number below a power of 2: 2.
    return float(4 * ulp_distance(values, reference, dtype).max(initial=0.0))


def topk_indices_error(x, indices):
    """How far what is at `indices` is from a row's largest, as `topk_error` in float32; infinity if two are equal or outside."""
    N = np.shape(x)[-1]
    differ = (np.diff(np.sort(indices, axis=-1), axis=-1) > 0).all()
    if not differ or indices.min(initial=0) < 0 or indices.max(initial=0) >= N:
        return np.inf
    return topk_error(x, np.take_along_axis(np.asarray(x, dtype=np.float64), indices.astype(np.int64), -1), "float32")


def rmsnorm_rstd(x, residual=None, eps=1e-6):
    """1 / sqrt(mean(h^2) + eps) of the last axis in float64, h = x + residual; shape of x without its last axis."""
    h = _with_residual(x, residual)
    return 1.0 / np.sqrt((h * h).mean(axis=-1) + eps)


def rmsnorm_rstd_error(x, result, residual=None, eps=1e-6):
    """The largest error of float32 `result` as 1 / sqrt(mean(h^2) + eps), over what is tolerated."""
    reference = rmsnorm_rstd(x, residual, eps)
    return _largest(result, reference, "float32", 4 * ulp(reference, "float32"))


def rmsnorm(x, weight=None, bias=None, residual=None, eps=1e-6):
    """h rstd weight + bias in float64, h = x + residual; weight and bias have the length of the last axis."""
    h = _with_residual(x, residual)
    scaled = h * rmsnorm_rstd(h, eps=eps)[..., None]
    scaled = scaled if weight is None else scaled * _float64(weight)
    return scaled if bias is None else scaled + _float64(bias)


def rmsnorm_error(x, result, dtype, weight=None, bias=None, residual=None, eps=1e-6):
    """The largest error of `result` as RMSNorm, over what is tolerated."""
    reference = rmsnorm(x, weight, bias, residual, eps)
    largest = np.abs(reference)
    if bias is not None:
        largest = np.maximum(
            largest, np.maximum(np.abs(rmsnorm(x, weight, None, residual, eps)), np.abs(_float64(bias)))
        )
    return _largest(result, reference, dtype, 4 * ulp(largest, "float32"))


def rmsnorm_quantized(x, weight=None, residual=None, eps=1e-6, block=None):
    """(y / scale, scale) in float64, y = `rmsnorm`, scale = max|y| / 448 of each row, or of each `block` of its columns.

    The quotients, of x's shape, are what is rounded to float8; the scales' last axis has a number a block. The maximum is no
    less than 2^-100, so that a row of zeros has a scale; NaN in y makes it NaN.
    """
    y = rmsnorm(x, weight, residual=residual, eps=eps)
    N = y.shape[-1]
    parts = y.reshape(*y.shape[:-1], N // block if block else 1, block or N)
    scale = np.maximum(np.abs(parts).max(axis=-1, initial=0.0), LEAST_MAXIMUM) / FLOAT8_LARGEST
    # Of an infinite scale: infinity over it is NaN, as torch has it.
    with np.errstate(invalid="ignore"):
        return (parts / scale[..., None]).reshape(y.shape), scale


def float8(codes):
    """The numbers, in float64, of 8-bit `codes` of e4m3: sign, 4 bits of exponent, 3 of mantissa; no infinity, one NaN."""
    codes = np.asarray(codes, dtype=np.uint8)
    exponent, fraction = (codes & 127) >> 3, codes & 7
    size = np.ldexp(fraction + np.where(exponent > 0, 8.0, 0.0), np.maximum(exponent, 1).astype(int) - 10)
    size = np.where(codes & 127 == FLOAT8_NAN, np.nan, size)
    return np.where(codes > 127, -size, size)


def rmsnorm_quantized_code_error(x, codes, weight=None, residual=None, eps=1e-6, block=None):
    """By how much the quotients of `rmsnorm_quantized` must move at most to be rounded to these `codes`, over what is tolerated.

    Where a quotient is NaN a code must be, and nowhere else.
    """
    quotient, _ = rmsnorm_quantized(x, weight, residual, eps, block)
    codes = np.asarray(codes, dtype=np.uint8)
    size = codes & 127
    number, next_lower, next_higher = (
        float8(code) for code in (size, np.maximum(size, 1) - 1, np.minimum(size + 1, 127))
    )
    # All between these is rounded to the code; beyond the largest number there is nothing else.
    high = np.where(size >= FLOAT8_NAN - 1, np.inf, (number + next_higher) / 2)
    low = np.where(size > 0, (number + next_lower) / 2, -high)
    signed = np.where(codes > 127, -quotient, quotient)
    off = np.maximum(np.maximum(low - signed, signed - high), 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        fraction = np.where(off == 0, 0.0, off / (10 * EPS * np.abs(quotient)))
    is_nan = size == FLOAT8_NAN
    fraction = np.where(is_nan | np.isnan(quotient), np.where(is_nan == np.isnan(quotient), 0.0, np.inf), fraction)
    return float(fraction.max(initial=0.0))


def rmsnorm_quantized_scale_error(x, result, weight=None, residual=None, eps=1e-6, block=None):
    """The largest error of float32 `result` as the scales of `rmsnorm_quantized`, over what is tolerated."""
    _, scale = rmsnorm_quantized(x, weight, residual, eps, block)
    return _largest(np.reshape(result, scale.shape), scale, "float32", 5 * EPS * scale)


def sum_error(x, residual, result, dtype):
    """The largest error of `result` as x + residual, over what is tolerated: one step of float32 before it is rounded."""
    reference = _with_residual(x, residual)
    return _largest(result, reference, dtype, ulp(reference, "float32"))


def rmsnorm_dx(x, dy, weight=None, dresidual=None, rstd=None, eps=1e-6):
    """The gradient of RMSNorm's input: rstd (w dy - x' mean(x' w dy)) + dresidual in float64, x' = x rstd.

    `x` is what was normalised (the residual's sum where there is one), `dresidual` the gradient that reaches that sum
    by other ways, `rstd` what the forward pass saved, of the shape of x without its last axis (None: found from x).
    """
    normalised, rstd, wdy = _backward_terms(x, dy, weight, rstd, eps)
    dx = rstd * (wdy - normalised * (normalised * wdy).mean(axis=-1, keepdims=True))
    return dx if dresidual is None else dx + _float64(dresidual)


def rmsnorm_dx_error(x, dy, result, dtype, weight=None, dresidual=None, rstd=None, eps=1e-6):
    """The largest error of `result` as the gradient of RMSNorm's input, over what is tolerated."""
    normalised, scale, wdy = _backward_terms(x, dy, weight, rstd, eps)
    mean = np.abs(normalised * wdy).mean(axis=-1, keepdims=True)
    bound = EPS * scale * (4 * np.abs(wdy) + (10 + _tree(wdy.shape[-1])) * np.abs(normalised) * mean)
    if dresidual is not None:
        bound = bound + 2 * EPS * np.abs(_float64(dresidual))
    return _largest(result, rmsnorm_dx(x, dy, weight, dresidual, rstd, eps), dtype, bound)


def rmsnorm_dw(x, dy, rstd=None, eps=1e-6):
    """The gradient of RMSNorm's weight: the sum of dy x rstd over the M rows of (M, N) arrays, in float64, (N,).

    With `rstd` given, (M,), x and dy may be some of the columns.
    """
    normalised, _, dy = _backward_terms(x, dy, None, rstd, eps)
    return (dy * normalised).sum(axis=0)


def rmsnorm_dw_error(x, dy, result, dtype, rstd=None, eps=1e-6):
    """The largest error of `result` as the gradient of RMSNorm's weight, over what is tolerated."""
    normalised, _, dy = _backward_terms(x, dy, None, rstd, eps)
    bound = EPS * (4 + np.log2(max(len(dy), 1))) * np.abs(dy * normalised).sum(axis=0)
    return _largest(result, (dy * normalised).sum(axis=0), dtype, bound)


def rmsnorm_db(dy):
    """The gradient of RMSNorm's bias: the sum of (M, N) `dy` over its rows in float64, (N,)."""
    return _float64(dy).sum(axis=0)


def rmsnorm_db_error(dy, result, dtype):
    """The largest error of `result` as the gradient of RMSNorm's bias, over what is tolerated."""
    dy = _float64(dy)
    bound = EPS * (1 + np.log2(max(len(dy), 1))) * np.abs(dy).sum(axis=0)
    return _largest(result, dy.sum(axis=0), dtype, bound)


def layernorm_stats(x, eps=1e-5):
    """(mean, 1 / sqrt(mean((x - mean)^2) + eps)) of the last axis in float64; each of the shape of x without its last axis."""
    x = _float64(x)
    mean = x.mean(axis=-1)
    return mean, 1.0 / np.sqrt(((x - mean[..., None]) ** 2).mean(axis=-1) + eps)


def layernorm_stats_error(x, mean, rstd, eps=1e-5):
    """The largest error of float32 `mean` and `rstd`, over what is tolerated."""
    right_mean, right_rstd = layernorm_stats(x, eps)
    spread = _mean_spread(x, right_rstd[..., None])[..., 0]
    of_mean = _largest(mean, right_mean, "float32", spread / right_rstd)
    return max(of_mean, _largest(rstd, right_rstd, "float32", 4 * ulp(right_rstd, "float32") + spread**2 * right_rstd))


def layernorm(x, weight=None, bias=None, eps=1e-5):
    """(x - mean) rstd weight + bias in float64; weight and bias have the length of the last axis."""
    x, (mean, rstd) = _float64(x), layernorm_stats(x, eps)
    scaled = (x - mean[..., None]) * rstd[..., None]
    scaled = scaled if weight is None else scaled * _float64(weight)
    return scaled if bias is None else scaled + _float64(bias)


def layernorm_error(x, result, dtype, weight=None, bias=None, eps=1e-5):
    """The largest error of `result` as LayerNorm, over what is tolerated."""
    reference, normalised = layernorm(x, weight, bias, eps), layernorm(x, eps=eps)
    w = 1.0 if weight is None else np.abs(_float64(weight))
    largest = np.maximum(np.abs(reference), np.abs(normalised) * w)
    if bias is not None:
        largest = np.maximum(largest, np.abs(_float64(bias)))
    spread = _mean_spread(x, layernorm_stats(x, eps)[1][..., None])
    bound = 5 * ulp(largest, "float32") + w * spread * (1 + spread * np.abs(normalised))
    return _largest(result, reference, dtype, bound)


def layernorm_dx(x, dy, weight=None, mean=None, rstd=None, eps=1e-5):
    """The gradient of LayerNorm's input: rstd (w dy - mean(w dy) - x' mean(x' w dy)) in float64, x' = (x - mean) rstd.

    `mean` and `rstd` are what the forward pass saved, of the shape of x without its last axis (None: found from x).
    """
    normalised, rstd, wdy, _ = _centred_terms(x, dy, weight, mean, rstd, eps)
    slope = (normalised * wdy).mean(axis=-1, keepdims=True)
    return rstd * (wdy - wdy.mean(axis=-1, keepdims=True) - normalised * slope)


def layernorm_dx_error(x, dy, result, dtype, weight=None, mean=None, rstd=None, eps=1e-5):
    """The largest error of `result` as the gradient of LayerNorm's input, over what is tolerated."""
    normalised, scale, wdy, spread = _centred_terms(x, dy, weight, mean, rstd, eps)
    tree, size = _tree(wdy.shape[-1]), np.abs(normalised)
    of_wdy, slope = (np.abs(terms).mean(axis=-1, keepdims=True) for terms in (wdy, normalised * wdy))
    bound = EPS * scale * (4 * np.abs(wdy) + (4 + tree) * of_wdy + (12 + tree) * size * slope)
    bound = bound + scale * spread * (slope + size * of_wdy)
    return _largest(result, layernorm_dx(x, dy, weight, mean, rstd, eps), dtype, bound)


def layernorm_dw(x, dy, mean=None, rstd=None, eps=1e-5):
    """The gradient of LayerNorm's weight: the sum of dy (x - mean) rstd over the M rows of (M, N) arrays, in float64, (N,).

    With `mean` and `rstd` given, (M,) each, x and dy may be some of the columns.
    """
    normalised, _, dy, _ = _centred_terms(x, dy, None, mean, rstd, eps)
    return (dy * normalised).sum(axis=0)


def layernorm_dw_error(x, dy, result, dtype, mean=None, rstd=None, eps=1e-5):
    """The largest error of `result` as the gradient of LayerNorm's weight, over what is tolerated."""
    normalised, _, dy, spread = _centred_terms(x, dy, None, mean, rstd, eps)
    bound = EPS * (6 + np.log2(max(len(dy), 1))) * np.abs(dy * normalised).sum(axis=0)
    bound = bound + (spread * np.abs(dy)).sum(axis=0)
    return _largest(result, (dy * normalised).sum(axis=0), dtype, bound)


def logsumexp(x):
    """log(sum(exp(x))) of the last axis in float64, as torch.logsumexp: -inf for rows all -inf, +inf for rows with one."""
    x = _float64(x)
    with np.errstate(invalid="ignore", divide="ignore"):
        highest = x.max(axis=-1)
        finite = np.where(np.isfinite(highest), highest, 0.0)
        return finite + np.log(np.exp(x - finite[..., None]).sum(axis=-1))


def logsumexp_error(x, result):
    """The largest error of float32 `result` as the log-sum-exp of each row, over what is tolerated."""
    return _largest(result, logsumexp(x), "float32", _logsumexp_bound(x))


def cross_entropy(x, target, ignore_index=-100):
    """The loss of each row in float64: logsumexp(x) - x[target]; x is (M, N), `target` (M,) integers.

    0 where the target is `ignore_index`; NaN where it is out of range, and, as torch has it, where the row is all -inf
    or holds NaN or +inf.
    """
    x, target = _float64(x), np.asarray(target)
    valid, picked = _picked(x, target)
    lse = logsumexp(x)
    with np.errstate(invalid="ignore"):
        loss = np.where(valid & np.isfinite(lse), lse - picked, np.nan)
    return np.where(target == ignore_index, 0.0, loss)


def cross_entropy_error(x, target, result, dtype="float32", ignore_index=-100):
    """The largest error of `result` as the loss of each row, over what is tolerated."""
    loss = cross_entropy(x, target, ignore_index)
    _, picked = _picked(_float64(x), np.asarray(target))
    finite = np.isfinite(loss)
    magnitudes = np.where(finite, np.abs(loss), 0.0) + np.where(finite & np.isfinite(picked), np.abs(picked), 0.0)
    bound = np.maximum(LOSS_RELATIVE * np.where(finite, np.abs(loss), 0.0), _logsumexp_bound(x) + EPS * magnitudes)
    bound = np.where(np.asarray(target) == ignore_index, 0.0, bound)  # an ignored row is exactly 0
    return _largest(result, loss, dtype, bound)


def cross_entropy_backward(x, target, dloss, lse=None, ignore_index=-100):
    """The gradient of the logits in float64: (exp(x - lse) - [column == target]) dloss; shape of x, (M, N).

    `dloss` is (M,) or a scalar; `lse` (M,) is what the forward pass saved, as it is (None: softmax of x, and so NaN in
    the rows where softmax is). Rows whose target is `ignore_index` are 0; one out of range equals no column.
    """
    x, target = _float64(x), np.asarray(target)
    p, hit = _probabilities(x, lse), np.arange(x.shape[-1]) == target[:, None]
    gradient = (p - hit) * np.broadcast_to(_float64(dloss), target.shape)[:, None]
    return np.where((target == ignore_index)[:, None], 0.0, gradient)


def cross_entropy_backward_error(x, target, dloss, result, dtype, lse=None, ignore_index=-100):
    """The largest error of `result` as the gradient of the logits, over what is tolerated."""
    x, target = _float64(x), np.asarray(target)
    p, hit = _probabilities(x, lse), np.arange(x.shape[-1]) == target[:, None]
    size = np.nan_to_num(logsumexp(x) if lse is None else _float64(lse), nan=0.0, posinf=0.0, neginf=0.0)[:, None]
    below = np.abs(x - size)
    below = np.where(np.isfinite(below), below, 0.0)
    mean = np.nansum(p * below, axis=-1, keepdims=True)
    relative = 4 + _tree(x.shape[-1]) + 2 * (below + mean) + np.abs(size)
    scale = np.abs(np.broadcast_to(_float64(dloss), target.shape))[:, None]
    bound = scale * (EPS * (p * relative + hit) + FLUSHED)
    bound = np.where((target == ignore_index)[:, None], 0.0, bound)  # an ignored row is exactly 0
    return _largest(result, cross_entropy_backward(x, target, dloss, lse, ignore_index), dtype, bound)


def _float64(*arrays):
    converted = tuple(np.asarray(array, dtype=np.float64) for array in arrays)
    return converted if len(converted) > 1 else converted[0]


def _tree(count):
    """The eps that a sum of `count` terms is off, relative to the sum of their magnitudes: half of one a level."""
    return 0.5 * np.log2(max(count, 1))


def _with_residual(x, residual):
    return _float64(x) if residual is None else _float64(x) + _float64(residual)


def _backward_terms(x, dy, weight, rstd, eps):
    """x rstd, rstd with an axis for the columns, and w dy."""
    x, dy = _float64(x, dy)
    rstd = (rmsnorm_rstd(x, eps=eps) if rstd is None else _float64(rstd))[..., None]
    return x * rstd, rstd, dy if weight is None else dy * _float64(weight)


def _mean_spread(x, rstd):
    """How far float32 may be from the mean of each row, times rstd: by so much may (x - mean) rstd be off."""
    x = _float64(x)
    return EPS * (1 + _tree(x.shape[-1])) * np.abs(x).mean(axis=-1, keepdims=True) * rstd


def _centred_terms(x, dy, weight, mean, rstd, eps):
    """(x - mean) rstd, rstd with an axis for the columns, w dy, and how far the first may be off where no mean is given."""
    x, dy = _float64(x, dy)
    found = layernorm_stats(x, eps) if mean is None else _float64(mean, rstd)
    mean, scale = (one[..., None] for one in found)
    spread = _mean_spread(x, scale) if rstd is None else 0.0
    return (x - mean) * scale, scale, dy if weight is None else dy * _float64(weight), spread


def _logsumexp_bound(x):
    x, lse = _float64(x), logsumexp(x)
    with np.errstate(invalid="ignore"):
        below = np.abs(x - x.max(axis=-1, keepdims=True))
        mean = np.nansum(softmax(x) * np.where(np.isfinite(below), below, 0.0), axis=-1)
    sizes = np.abs(x.max(axis=-1)) + np.abs(lse)
    return EPS * (4 + _tree(x.shape[-1]) + np.where(np.isfinite(sizes), sizes, 0.0) + 2 * mean)


def _picked(x, target):
    """Which targets are columns of x, and x at those (0 elsewhere)."""
    valid = (target >= 0) & (target < x.shape[-1])
    found = np.take_along_axis(x, np.where(valid, target, 0)[:, None], axis=-1)[:, 0]
    return valid, np.where(valid, found, 0.0)


def _probabilities(x, lse):
    if lse is None:
        return softmax(x)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.exp(x - _float64(lse)[:, None])


def _largest(result, reference, dtype, bound):
    """The largest error of `result` over what is tolerated: `bound`, and 1 ulp more in types narrower than float32.

    NaN must be NaN. Infinity counts as the number that follows the largest finite one.
    """
    result, reference = _float64(result, reference)
    if result.shape != reference.shape:
        raise ValueError(f"the result has shape {result.shape}, the reference {reference.shape}")
    bound = np.broadcast_to(np.where(np.isnan(bound), 0.0, bound), reference.shape)
    bound = np.where(bound > 0, bound + UNDERFLOW, 0.0)
    if dtype != "float32":
        reference = round_to(reference, dtype)
        bound = np.where(bound > 0, bound + ulp(reference, dtype), 0.0)
    limit = np.ldexp(1.0, _format(dtype)[2])
    with np.errstate(invalid="ignore"):
        off = np.abs(np.clip(result, -limit, limit) - np.clip(reference, -limit, limit))
    wrong_nan = np.isnan(result) != np.isnan(reference)
    right = (result == reference) | (np.isnan(result) & np.isnan(reference))
    with np.errstate(invalid="ignore", divide="ignore"):
        fraction = np.where(right, 0.0, np.where(wrong_nan, np.inf, off / bound))
    return float(fraction.max(initial=0.0))


def _format(dtype):
    if dtype not in FORMATS:
        raise ValueError(f"dtype must be one of {', '.join(FORMATS)}, got {dtype!r}")
    return FORMATS[dtype]
