"""One row of 32 numbers a warp, in formulas that are equal or not."""

import operator

import cutlass.cute as cute

from .hosts import Constexpr, launched


def reduced(value, op):
    for i in range(5):
        value = op(value, cute.arch.shuffle_sync_bfly(value, offset=1 << i))
    return value


def added(value):
    return reduced(value, operator.add)


def softmax(x):
    y = cute.math.exp(x - reduced(x, cute.arch.fmax))
    return y / added(y)


def softmax_in_powers_of_two(x):
    y = cute.math.exp2((x - reduced(x, cute.arch.fmax)) * 1.4426950408889634)
    return y * (1.0 / added(y))


def softmax_unshifted(x):
    y = cute.math.exp(x)
    return y / added(y)


def softmax_by_logarithm(x):
    return cute.math.exp(x - cute.math.log(added(cute.math.exp(x))))


def softmax_with_a_tiny_term(x):
    y = cute.math.exp(x - reduced(x, cute.arch.fmax))
    return y / (added(y) + 1e-12)


def variance(x):
    d = x - added(x) / 32
    return added(d * d) * (1.0 / 32)


def variance_by_squares(x):
    mean = added(x) * 0.03125
    return added(x * x) / 32.0 - mean * mean


def variance_of_a_sample(x):
    d = x - added(x) / 32
    return added(d * d) / 31.999999


def normed(x):
    return x / cute.math.sqrt(added(x * x) / 32 + 1e-5)


def normed_by_rsqrt(x):
    r = cute.math.rsqrt(added(x * x) * (1.0 / 32) + 1e-5)
    # a step of Newton's more
    return x * (r * (1.5 - 0.5 * (added(x * x) * (1.0 / 32) + 1e-5) * r * r))


def largest(x):
    return reduced(x, cute.arch.fmax)


def largest_of_negatives(x):
    return -reduced(-x, cute.arch.fmin)


def tanh(x):
    return cute.math.tanh(x + x)


def tanh_of_a_product(x):
    return cute.math.tanh(2.0 * x)


def of_exponents(x):
    return cute.math.exp(cute.math.exp(x))


def root_of_a_sum(x):
    return cute.math.sqrt(x + cute.math.exp(x))


@launched(32, blocks="mX.shape[0]")
@cute.kernel
def rows(mX: cute.Tensor, mO: cute.Tensor, formula: Constexpr):
    lane, row = cute.arch.thread_idx()[0], cute.arch.block_idx()[0]
    mO[row, lane] = formula(mX[row, lane])
