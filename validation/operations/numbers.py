"""Cases of the suite `operations`: arithmetic, comparisons and functions of floats and integers, of numbers and of vectors.

Sections named here are those of the PTX ISA 9.0; the bounds of approximate functions name their document.
"""

from __future__ import annotations

import math
import operator

import numpy as np

from validation.operations import vectors as v
from validation.operations.operation import Bound, case, comparisons, float_pairs, integer_pairs, second_if, width_of

# ---- floating point -------------------------------------------------------------------------------------------------


def arithmetic(format) -> list:
    def rounded(number):
        return format.decode(format.encode(number))

    return [
        ("a + b", "", v.add),
        ("a - b", "", v.subtract),
        ("a * b", "", v.multiply),
        ("a / b", "", v.divide),
        ("a // b of floats", "", lambda a, b: v.floor(rounded(v.divide(a, b)))),
        ("a % b of floats", "", v.remainder),
        ("cutlass.max", "", second_if(operator.le, 1)),
        ("cutlass.min", "", second_if(operator.ge, 1)),
        ("cute.math.max", "", second_if(operator.le, 0)),
        ("cute.math.min", "", second_if(operator.ge, 0)),
    ]


UNARY = ("-a", "", operator.neg), ("abs(a)", "", abs), ("cute.math.absf", "", abs)
UNARY += ("cute.math.floor", "", v.floor), ("cute.math.ceil", "", v.ceil)


def float_cases():
    """Arithmetic, comparisons and rounding of every float type, of numbers and of vectors."""
    for format in v.FLOATS.values():
        same, compared = (format.name, format.name), (format.name, "Int32")
        columns = float_pairs(format)
        columns = [c[::5] for c in columns] if format is v.F64 else columns
        single = [list(v.edges(format)) + v.random_bits(format.bits, 100, 5)]
        yield case(f"{format.name} arithmetic", same, columns, arithmetic(format))
        yield case(f"{format.name} comparisons", compared, columns, comparisons())
        yield case(f"{format.name} of one", same, single, UNARY)
        isnan = [("cute.math.isnan", "Boolean(cute.math.isnan(a)).to(Int32)", lambda a: int(math.isnan(a)))]
        yield case(f"{format.name} isnan", compared, single, isnan)
        if format is v.F64:
            continue
        yield case(f"{format.name} arithmetic", same, [c[::3] for c in columns], arithmetic(format), vector=True)
        yield case(f"{format.name} comparisons", compared, [c[::7] for c in columns], comparisons(), vector=True)
        yield case(f"{format.name} of one", same, single, UNARY[:2], vector=True)

        def chosen(a, b, format=format):
            return a if format.decode(a) < format.decode(b) else b

        where = [("cute.where", "cute.where(a < b, a, b)", chosen, "bits")]
        yield case(f"{format.name} where", same, columns, where, vector=True)
    yield from float32_cases()


def float32_cases():
    """What the hardware does in float32 alone: fmax and fmin with their flags, fma, sqrt and the reciprocal."""
    same = ("Float32", "Float32")

    def flushing(pick):
        return lambda a, b: v.flushed(pick(v.flushed(a), v.flushed(b)))

    def with_nan(pick):
        return lambda a, b: pick(a, b, nan=True)

    def by_magnitude(pick):
        return lambda a, b: v.xorsign(a, b, pick)

    rows = []
    for row, pick in (("cute.arch.fmax", v.largest), ("cute.arch.fmin", v.smallest)):
        answers = (pick, with_nan(pick), by_magnitude(pick), flushing(pick))
        flags = ("", ", nan=True", ", abs=True", ", ftz=True")
        rows += [(row + flag, "", answer) for flag, answer in zip(flags, answers)]
    yield case("Float32 fmax, fmin", same, float_pairs(v.F32), rows)
    some = list(v.edges(v.F32))[1::2]
    a, b = v.pairs(some)
    c = (some * len(a))[7 : 7 + len(a)]
    a, b, c = (column + v.random_bits(32, 60, seed) for seed, column in ((6, a), (7, b), (8, c)))
    one_rounding = (1 + 2**-12, -(1 + 2**-11), 1 + 2**-23, -1.0, 2.0**-24)  # where it shows
    near = [v.F32.encode(x) for x in one_rounding]
    triples = [(x, y, z) for x in near for y in near for z in near]
    a, b, c = (column + [one[i] for one in triples] for i, column in enumerate((a, b, c)))
    yield case("Float32 fma", same, [a, b, c], [("cute.math.fma", "", v.fma)])
    single = [list(v.edges(v.F32)) + v.random_bits(32, 200, 9)]
    rows = [("cute.math.sqrt", "", v.sqrt), ("cute.math.rcp", "", lambda a: v.divide(1.0, a))]
    yield case("Float32 roots", same, single, rows)
    yield case("Float32 roots", same, single, rows, vector=True)


# ---- approximate functions ------------------------------------------------------------------------------------------


def ulp(number: float, format=v.F32) -> float:
    """A format's unit in the last place of a number."""
    smallest = 1 - format.bias
    if number == 0 or not math.isfinite(number):
        return 2.0 ** (smallest - format.mantissa)
    return 2.0 ** (max(math.frexp(number)[1] - 1, smallest) - format.mantissa)


def off_by(n: float, truth: float) -> float:
    """The error of a float32 result that is `n` ulp from the correctly rounded one, which is how both documents count."""
    nearest = v.F32.decode(v.F32.encode(float(truth)))
    return n * ulp(truth) + (abs(nearest - truth) if math.isfinite(nearest) else 0.0)


def ulps(n: int, source: str, flushes=False) -> Bound:
    return Bound(f"{n} ulp ({source})", lambda x, truth: off_by(n, truth), flushes)


def split(inside: float, outside, text: str, source: str, flushes=False) -> Bound:
    """An absolute error for x from 0.5 to 2, and another bound elsewhere."""
    return Bound(f"{text} ({source})", lambda x, truth: inside if 0.5 <= x <= 2 else outside(truth), flushes)


def _sine_error(x, truth):
    return 2.0**-20.5 if abs(x) <= 2 * math.pi else 2.0**-14.7


# Whose bound it is: PTX ISA 9.0, CUDA C++ Programming Guide: Mathematical Functions.
PTX, CUDA = "PTX ISA", "CUDA guide"
EX2, EX2_FTZ = ulps(2, PTX), ulps(2, PTX, flushes=True)
EXP_FAST = Bound(
    f"2 + floor(|1.173 x|) ulp ({CUDA})", lambda x, truth: off_by(2 + math.floor(abs(1.173 * x)), truth), flushes=True
)
SINE = Bound(f"2^-20.5, from 2 pi to 100 pi 2^-14.7 ({PTX})", _sine_error)
TANH_FAST = Bound(f"2^-11 relative ({PTX})", lambda x, truth: 2.0**-11 * abs(truth))
RSQRT = Bound(f"2^-22.9 relative ({PTX})", lambda x, truth: 2.0**-22.9 * abs(truth))
RSQRT_FTZ = Bound(RSQRT.text, RSQRT.allowed, flushes=True)
SQRT_FTZ = Bound(f"2^-23 relative ({PTX})", lambda x, truth: 2.0**-23 * abs(truth), flushes=True)
LG2 = split(2.0**-22, lambda t: 2.0**-22 * abs(t), "2^-22, absolute near 1, else relative", PTX, flushes=True)
LOG_FAST = split(2.0**-21.41, lambda t: off_by(3, t), "2^-21.41 near 1, else 3 ulp", CUDA, flushes=True)
LOG10_FAST = split(2.0**-24, lambda t: off_by(3, t), "2^-24 near 1, else 3 ulp", CUDA)


def narrowed(bound: Bound, format) -> Bound:
    """The bound of a float32 result that is rounded once more."""
    return Bound("half an ulp beyond float32's", lambda x, t: 0.5 * ulp(t, format) + bound.allowed(x, t))


def truth(function, flushes=False):
    """A float64 function that gives NaN and infinities where mathematics does."""

    def value(a):
        with np.errstate(all="ignore"):
            return float(function(np.float64(v.flushed(a) if flushes else a)))

    return value


def _rsqrt(a):
    return 1 / np.sqrt(a)


APPROXIMATE = (
    ("cute.math.exp", "", np.exp, ulps(2, CUDA)),
    ("cute.math.exp2", "", np.exp2, EX2),
    ("cute.math.log", "", np.log, ulps(1, CUDA)),
    ("cute.math.log2", "", np.log2, ulps(1, CUDA)),
    ("cute.math.log10", "", np.log10, ulps(2, CUDA)),
    ("cute.math.rsqrt", "", _rsqrt, RSQRT),
    ("cute.math.tanh", "", np.tanh, ulps(2, CUDA)),
    ("cute.math.exp, fastmath=True", "", np.exp, EXP_FAST),
    ("cute.math.exp2, fastmath=True", "", np.exp2, EX2_FTZ),
    ("cute.math.log, fastmath=True", "", np.log, LOG_FAST),
    ("cute.math.log2, fastmath=True", "", np.log2, LG2),
    ("cute.math.log10, fastmath=True", "", np.log10, LOG10_FAST),
    ("cute.math.sqrt, fastmath=True", "", np.sqrt, SQRT_FTZ),
    ("cute.math.rsqrt, fastmath=True", "", _rsqrt, RSQRT_FTZ),
    ("cute.math.tanh, fastmath=True", "", np.tanh, TANH_FAST),
)
# of numbers alone: the DSL refuses approx= for vectors, and cute.arch takes none
APPROXIMATE_NUMBERS = (
    ("cute.math.exp2, approx=True", "", np.exp2, EX2),
    ("cute.math.exp2, approx=True, ftz=True", "", np.exp2, EX2_FTZ),
    ("cute.arch.exp", "", np.exp, EXP_FAST),
    ("cute.arch.exp2", "", np.exp2, EX2_FTZ),
    ("cute.arch.rcp_approx", "", lambda a: 1 / a, ulps(1, PTX, flushes=True)),
)
PERIODIC = ("cute.math.sin", "", np.sin, ulps(2, CUDA)), ("cute.math.cos", "", np.cos, ulps(2, CUDA))
PERIODIC_FAST = tuple((f"{row}, fastmath=True", "", function, SINE) for row, _, function, _ in PERIODIC)


def approximate_cases():
    """Functions that are right up to a documented error; inputs spread over where they are finite, and edges."""

    def rows(table):
        return [(row, function, truth(f, bound.flushes), bound) for row, function, f, bound in table]

    spread = [v.F32.encode(float(x)) for x in np.linspace(-152.3, 131.7, 180)]
    near_one = [v.F32.encode(float(x)) for x in np.linspace(0.5, 2.0, 41)]
    edges = list(v.edges(v.F32))
    columns = [edges + spread + near_one + v.random_bits(32, 80, 10)]
    same = ("Float32", "Float32")
    yield case("Float32 functions", same, columns, rows(APPROXIMATE + APPROXIMATE_NUMBERS))
    yield case("Float32 functions", same, [columns[0][::4]], rows(APPROXIMATE), vector=True)
    yield case("Float32 sine, cosine", same, columns, rows(PERIODIC))
    for format in (v.F16, v.BF16):  # computed in float32 and rounded
        narrow = [list(v.edges(format)) + v.random_bits(16, 150, 25)]
        of_32 = APPROXIMATE[:7] + PERIODIC
        table = [(f"{row} of 16 bits", called, f, narrowed(bound, format)) for row, called, f, bound in of_32]
        yield case(f"{format.name} functions", (format.name, format.name), narrow, rows(table))
    small = [x for x in edges + spread + near_one if not 100 * math.pi < abs(v.F32.decode(x)) < math.inf]
    yield case("Float32 fast sine, cosine", same, [small], rows(PERIODIC_FAST))


# ---- integers -------------------------------------------------------------------------------------------------------


SIGNS = dict(zip("+-*&|^", (operator.add, operator.sub, operator.mul, operator.and_, operator.or_, operator.xor)))


def integer_cases():
    """Integers wrap, // floors, % is the remainder of division toward zero."""
    for name in ("Int32", "Int64", "Int8"):
        width, same = width_of(name), (name, name)
        columns, divisible = integer_pairs(width), integer_pairs(width, divisor=True)
        ring = [(f"a {sign} b", "", function) for sign, function in SIGNS.items()]
        ring += [("cutlass.max", "", max), ("cutlass.min", "", min)]
        division = [("a // b of integers", "", operator.floordiv), ("a % b of integers", "", v.truncated_remainder)]
        one = [("-a", "", operator.neg), ("abs(a)", "", abs)]
        yield case(f"{name} ring", same, columns, ring)
        yield case(f"{name} division", same, divisible, division)
        yield case(f"{name} comparisons", (name, "Int32"), columns, comparisons())
        yield case(f"{name} of one", same, columns[:1], [*one, ("~a", "", operator.invert)])
        shifted = v.random_bits(width, 6 * width, 11), list(range(width)) * 6
        shifts = [("a << b", "", operator.lshift), ("a >> b", "", operator.rshift)]
        yield case(f"{name} shifts", same, shifted, shifts)
        if name == "Int32":
            yield case(f"{name} ring", same, columns, ring, vector=True)
            yield case(f"{name} division", same, divisible, division, vector=True)
            yield case(f"{name} comparisons", (name, "Int32"), columns, comparisons(), vector=True)
            yield case(f"{name} of one", same, columns[:1], one, vector=True)
            yield from int32_cases(columns, divisible, shifted)


def int32_cases(columns, divisible, shifted):
    same = ("Int32", "Int32")

    def unsigned(function):
        return lambda a, b: function(a & 0xFFFFFFFF, b & 0xFFFFFFFF)

    booleans = [
        ("& of Booleans", "((a < b) & (a > 0)).to(Int32)", lambda a, b: int(a < b and a > 0)),
        ("| of Booleans", "((a < b) | (a > 0)).to(Int32)", lambda a, b: int(a < b or a > 0)),
        ("^ of Booleans", "((a < b) ^ (a > 0)).to(Int32)", lambda a, b: int((a < b) != (a > 0))),
    ]
    yield case("Booleans", same, columns, booleans)
    yield case("Booleans", same, columns, booleans, vector=True)

    def of_uint32(sign, function):
        expression = f"(a.to(Uint32) {sign} b.to(Uint32)).to(Int32)"
        return f"a {sign} b of Uint32", expression, unsigned(function)

    positive = [
        of_uint32("//", operator.floordiv),
        of_uint32("%", operator.mod),
        of_uint32("<", lambda a, b: int(a < b)),
        ("cutlass.max of Uint32", "cutlass.max(a.to(Uint32), b.to(Uint32)).to(Int32)", unsigned(max)),
    ]
    yield case("Uint32", same, divisible, positive)
    yield case("Uint32 shifts", same, shifted, [of_uint32(">>", operator.rshift)])

    def quotient(a, b):  # both are rounded to float32 first
        nearest = [v.F32.decode(v.F32.encode(float(n))) for n in (a, b)]
        return v.divide(*nearest)

    def cut(a, b):
        return v.float_to_integer(v.F32.decode(v.F32.encode(quotient(a, b))), 32, True)

    yield case("Int32 /", ("Int32", "Float32"), divisible, [("a / b of integers", "", quotient)])
    yield case("Int32 /", same, divisible, [("a / b of integer vectors", "", cut)], vector=True)
    for name in ("Int32", "Int64"):
        count = [("cute.arch.popc", "Int32(cute.arch.popc(a))", _bits_set(width_of(name)))]
        yield case(f"{name} popc", (name, "Int32"), integer_pairs(width_of(name))[:1], count)


def _bits_set(width):
    return lambda a: (a & (1 << width) - 1).bit_count()
