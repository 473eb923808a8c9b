"""Arithmetic of chapter 8's `short exp` and chapter 9's `short terms`: fewer instructions an element, as exact as 16 bits can tell.

In 16 bits a kernel moves twice as many elements in the same time as in float32, and its arithmetic holds up the loads that follow
it. Here a bfloat16 is widened by a shift, 16-bit values are compared two at a time, and an exponential takes two or three
instructions instead of nine. Each function says how far off it is. `corrected` is for float32: one instruction more, not fewer.
The last three are for numbers that are to be written in float8.
"""

import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.reduce import LOG2_E, exp, exp_flushed, thread_reduce

FLOAT8_LARGEST = 448.0  # of e4m3
LEAST_MAXIMUM = 2.0**-100  # that a scale is made of, also for zeros: it and its inverse are normal numbers then


def as_float32(tensor):
    """The values of a register tensor in float32, as a TensorSSA.

    A bfloat16 is the upper half of a float32. Taken from words of two, each costs one instruction: a shift for the
    lower, a mask for the upper. What the compiler makes of a conversion takes the upper one out first and then shifts
    it.
    """
    if tensor.element_type is not cutlass.BFloat16 or cute.size(tensor) % 2:
        return tensor.load().to(cutlass.Float32)
    words, count = cute.recast_tensor(tensor, cutlass.Int32), cute.size(tensor) // 2
    values = cute.make_rmem_tensor(2 * count, cutlass.Int32)
    for k in range(count):
        values[2 * k], values[2 * k + 1] = words[k] << 16, words[k] & -65536
    return cute.recast_tensor(values, cutlass.Float32).load()


def thread_max(tensor, init_val):
    """The maximum of `init_val` and all values of a register tensor, in float32. Values of 16 bits are compared as they are, two
    in one instruction."""
    if tensor.element_type.width == 32:
        return thread_reduce(tensor.load(), cute.ReductionOp.MAX, init_val)
    largest = thread_reduce(tensor.load(), cute.ReductionOp.MAX, -tensor.element_type.inf)
    return cute.arch.fmax(init_val, tensor.element_type(largest).to(cutlass.Float32))


def exp_terms(tensor, reference):
    """e^(x - reference) for each x of a register tensor, the terms of a sum of which only the logarithm is needed.

    For 16 bits a term is two instructions: x log2(e) - reference log2(e) in one, and 2 to that. Rounding reference
    log2(e) moves the logarithm by up to 2^-24 |reference|, no more than rounding it to float32 afterwards may.
    """
    x = as_float32(tensor)
    if tensor.element_type.width == 32:
        return exp_flushed(x - reference)
    factor, shift = exponent_factors(reference, tensor.element_type)
    return cute.math.exp2(x * factor - shift, fastmath=True)


@cute.jit
def exponent_factors(reference, dtype: cutlass.Constexpr):
    """(f, s) with e^(x - reference) = 2^(x f - s) for x of a 16-bit type, as far as a sum's logarithm can tell.

    A bfloat16 of 2^14 or more is 128 or more from its neighbours, so that e or 2 to the difference is 1 where there is
    none, and else far below what the sum can see; with e, s might not be finite.
    """
    factor, shift = cutlass.Float32(LOG2_E), reference * LOG2_E
    if cutlass.const_expr(dtype is cutlass.BFloat16):
        if reference >= 16384.0 or reference <= -16384.0:
            factor, shift = cutlass.Float32(1.0), reference
    return factor, shift


def exp_scale(dtype):
    """The scale for `exp_scaled` where e^x is divided by a sum of the same and rounded to `dtype`; 0 for float32."""
    return 64 if dtype.width < 32 else 0


def exp_scaled(x, scale):
    """2^scale e^x: without a scale to 1 ulp, with one in two instructions and to 2^-18 of itself, which 16 bits do not see.

    A scale of 64 keeps, for the quotient, all results that bfloat16 and float16 can tell from 0.
    """
    return exp_flushed(x, scale) if scale else exp(x)


def quotient_factors(difference, total, scale):
    """(f, g): what y is multiplied with, one after the other, to be y e^difference / total; `scale` as in `exp_scaled`.

    With a scale, e^difference / total may be too small for a float32 though the result is not: then f is 1 / total, and
    else None.
    """
    if scale:
        return 1.0 / total, exp(difference)
    return None, exp(difference) / total


@cute.jit
def corrected(root, a):
    """1 / sqrt(a), rounded but for rare cases: a step of Newton's method from `rsqrt`, which may be 2^-22.9 off (PTX ISA).

    A residual and a bias round once more each: with both, the worst of 4 million float32 results was 4.4 ulp off without this.
    """
    product = a * root
    rest = cute.math.fma(a, root, -product)  # what its rounding took
    off = cute.math.fma(-rest, root, cute.math.fma(-product, root, cutlass.Float32(1.0)))  # 1 - a root^2
    better = cute.math.fma(root * 0.5, off, root)
    if better == better:  # NaN where root is 0 or infinity
        root = better
    return root


def larger(a, b):
    """The larger of two numbers, NaN if one is."""
    return cute.arch.fmax(a, b, nan=True)


def largest_magnitude(x):
    """The largest magnitude of a TensorSSA, NaN if one is there."""
    return thread_reduce(cute.math.absf(x), cute.ReductionOp.MAX, cutlass.Float32(0.0))


def scale_of(largest):
    """(what numbers are divided by so that none is beyond float8's 448, the inverse), from the `largest` magnitude."""
    largest = larger(largest, cutlass.Float32(LEAST_MAXIMUM))
    return largest * (1.0 / FLOAT8_LARGEST), FLOAT8_LARGEST / largest
