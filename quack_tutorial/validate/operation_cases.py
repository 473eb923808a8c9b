"""The cases of the suite `operations`: kernels, edge inputs, and the answers that the specification gives.

A `Case` is one kernel of `operation_kernels` with its inputs; each row of its output is an `Operation`, whose answer
`vectors` works out. Sections named here are those of the PTX ISA 9.0.

Not covered, because nothing specifies it: integer division by zero and of the smallest integer by -1, shifts by the width
or more, a*b + c where the compiler may fuse it, and which NaN an operation gives.
"""

from __future__ import annotations

import math
import operator
import zlib
from dataclasses import dataclass

import cutlass
import cutlass.cute as cute
import numpy as np

from quack_tutorial.validate import operation_kernels as k
from quack_tutorial.validate import vectors as v

WARP, BLOCK = 32, k.BLOCK

# DSL type: numpy's type of its bits, torch's name
STORAGE = {
    "Float64": (np.uint64, "float64"),
    "Float32": (np.uint32, "float32"),
    "Float16": (np.uint16, "float16"),
    "BFloat16": (np.uint16, "bfloat16"),
    "Int64": (np.uint64, "int64"),
    "Int32": (np.uint32, "int32"),
    "Int16": (np.uint16, "int16"),
    "Int8": (np.uint8, "int8"),
}


@dataclass(frozen=True)
class Bound:
    """How far an approximate function may be from the truth, as its document says: `allowed(x, truth)`, an absolute error.

    `flushes` says that a subnormal result is a zero instead.
    """

    text: str
    allowed: object
    flushes: bool = False


@dataclass(frozen=True)
class Operation:
    """A row of a case's output. `answers` are bits of the case's output type; for a bounded operation, true values."""

    row: str  # the line of the table that it counts in
    name: str
    answers: np.ndarray
    bound: Bound | None = None
    moves_bits: bool = False  # even those of a NaN


@dataclass(frozen=True)
class Case:
    """A kernel, its inputs as bits (arity, padded), and how many of each output row's elements count."""

    name: str
    host: object
    types: tuple[str, str]  # of x and of out
    x: np.ndarray
    out_shape: tuple[int, int]
    operations: tuple[Operation, ...]
    count: int

    def key(self, operation: Operation) -> str:
        """What its recorded bits go by; other inputs, another key."""
        return f"{self.name}: {operation.name} @{zlib.crc32(self.x.tobytes()):08x}"


# ---- building cases -------------------------------------------------------------------------------------------------


def width_of(name: str) -> int:
    return STORAGE[name][0]().itemsize * 8


def encoded(name: str, number) -> int:
    """The bits of a number in a type; integers wrap."""
    if name in v.FLOATS:
        return v.FLOATS[name].encode(float(number) if isinstance(number, int) else number)
    return v.wrapped(int(number), width_of(name), signed=False)


def decoded(name: str, bits):
    if name in v.FLOATS:
        return v.FLOATS[name].decode(bits)
    return v.wrapped(int(bits), width_of(name))


def as_bits(name: str, values) -> np.ndarray:
    """Integers of either sign, or bits, as an array of a type's bits."""
    return np.array([v.wrapped(int(value), width_of(name), signed=False) for value in values], STORAGE[name][0])


def padded(columns: list, name: str) -> np.ndarray:
    """The columns as (arity, n) of bits, repeated up to a multiple of the block."""
    rows = [as_bits(name, column) for column in columns]
    n = -(-len(rows[0]) // BLOCK) * BLOCK
    return np.stack([np.resize(row, n) for row in rows])


def case(name, types, columns, rows, vector=False) -> Case:
    """A case of `Each` or `EachFour`; `rows` are (row of the table, function, answer, how).

    `answer` takes the numbers and gives one, exactly (`how` None) or truly (a `Bound`); with "bits" it takes and gives bits;
    an array holds the answers' bits themselves.
    """
    source, target = types
    given = [as_bits(source, column) for column in columns]
    numbers = [[decoded(source, bits) for bits in column] for column in given]
    operations = []
    for row, _, answer, how in rows:
        bound = how if isinstance(how, Bound) else None
        if isinstance(answer, np.ndarray):
            answers = answer.astype(STORAGE[target][0])
        elif how == "bits":
            answers = np.array([answer(*map(int, one)) for one in zip(*given)], STORAGE[target][0])
        elif bound:
            answers = np.array([answer(*one) for one in zip(*numbers)], np.float64)
        else:
            answers = np.array([encoded(target, answer(*one)) for one in zip(*numbers)], STORAGE[target][0])
        operations.append(Operation(row, f"{len(operations)} {row}", answers, bound, how == "bits"))
    x = padded(columns, source)
    host = (k.EachFour if vector else k.Each)([function for _, function, *_ in rows], len(columns))
    label = f"{name}, vectors" if vector else name
    return Case(label, host, types, x, (len(rows), x.shape[1]), tuple(operations), len(columns[0]))


def float_pairs(format, extra: int = 60):
    left, right = v.pairs(v.edges(format))
    return left + v.random_bits(format.bits, extra, 1), right + v.random_bits(format.bits, extra, 2)


def integer_pairs(width: int, divisor: bool = False, extra: int = 60):
    left, right = v.pairs(v.integer_edges(width))
    left, right = left + v.random_bits(width, extra, 3), right + v.random_bits(width, extra, 4)
    signed = [(v.wrapped(a, width), v.wrapped(b, width)) for a, b in zip(left, right)]
    if divisor:
        signed = [(a, b) for a, b in signed if b and (a, b) != (-(1 << width - 1), -1)]
    return [a for a, _ in signed], [b for _, b in signed]


COMPARISONS = (
    ("a < b", k.less, operator.lt),
    ("a <= b", k.less_equal, operator.le),
    ("a > b", k.greater, operator.gt),
    ("a >= b", k.greater_equal, operator.ge),
    ("a == b", k.equal, operator.eq),
    ("a != b", k.unequal, operator.ne),
)


def comparisons():
    return [(row, function, lambda a, b, o=o: int(o(a, b)), None) for row, function, o in COMPARISONS]


def second_if(condition, nan_of: int):
    """The DSL's max and min, as its compiler writes them: b where `condition`, or where that operand is NaN; else a."""
    return lambda a, b: b if condition(a, b) or math.isnan((a, b)[nan_of]) else a


# ---- floating point -------------------------------------------------------------------------------------------------


def arithmetic(format) -> list:
    def rounded(number):
        return format.decode(format.encode(number))

    return [
        ("a + b", k.add, v.add, None),
        ("a - b", k.subtract, v.subtract, None),
        ("a * b", k.multiply, v.multiply, None),
        ("a / b", k.divide, v.divide, None),
        ("a // b of floats", k.floor_divide, lambda a, b: v.floor(rounded(v.divide(a, b))), None),
        ("a % b of floats", k.modulo, v.remainder, None),
        ("cutlass.max", k.maximum, second_if(operator.le, 1), None),
        ("cutlass.min", k.minimum, second_if(operator.ge, 1), None),
        ("cute.math.max", k.math_max, second_if(operator.le, 0), None),
        ("cute.math.min", k.math_min, second_if(operator.ge, 0), None),
    ]


UNARY = (
    ("-a", k.negate, operator.neg, None),
    ("abs(a)", k.absolute, abs, None),
    ("cute.math.absf", k.magnitude, abs, None),
    ("cute.math.floor", k.floor, v.floor, None),
    ("cute.math.ceil", k.ceil, v.ceil, None),
)


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
        isnan = [("cute.math.isnan", k.is_nan, lambda a: int(math.isnan(a)), None)]
        yield case(f"{format.name} isnan", compared, single, isnan)
        if format is v.F64:
            continue
        yield case(f"{format.name} arithmetic", same, [c[::3] for c in columns], arithmetic(format), vector=True)
        yield case(f"{format.name} comparisons", compared, [c[::7] for c in columns], comparisons(), vector=True)
        yield case(f"{format.name} of one", same, single, UNARY[:2], vector=True)

        def chosen(a, b, format=format):
            return a if format.decode(a) < format.decode(b) else b

        yield case(f"{format.name} where", same, columns, [("cute.where", k.where_less, chosen, "bits")], vector=True)
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
    for row, pick, functions in (
        ("cute.arch.fmax", v.largest, (k.fmax, k.fmax_nan, k.fmax_abs, k.fmax_ftz)),
        ("cute.arch.fmin", v.smallest, (k.fmin, k.fmin_nan, k.fmin_abs, k.fmin_ftz)),
    ):
        answers = (pick, with_nan(pick), by_magnitude(pick), flushing(pick))
        flags = ("", ", nan=True", ", abs=True", ", ftz=True")
        rows += [(row + flag, function, answer, None) for flag, function, answer in zip(flags, functions, answers)]
    yield case("Float32 fmax, fmin", same, float_pairs(v.F32), rows)
    some = list(v.edges(v.F32))[1::2]
    a, b = v.pairs(some)
    c = (some * len(a))[7 : 7 + len(a)]
    a, b, c = (column + v.random_bits(32, 60, seed) for seed, column in ((6, a), (7, b), (8, c)))
    near = [
        v.F32.encode(x) for x in (1 + 2**-12, -(1 + 2**-11), 1 + 2**-23, -1.0, 2.0**-24)
    ]  # where one rounding shows
    triples = [(x, y, z) for x in near for y in near for z in near]
    a, b, c = (column + [one[i] for one in triples] for i, column in enumerate((a, b, c)))
    yield case("Float32 fma", same, [a, b, c], [("cute.math.fma", k.fused_multiply_add, v.fma, None)])
    single = [list(v.edges(v.F32)) + v.random_bits(32, 200, 9)]
    rows = [
        ("cute.math.sqrt", k.sqrt, v.sqrt, None),
        ("cute.math.rcp", k.rcp, lambda a: v.divide(1.0, a), None),
    ]
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


PTX, CUDA = (
    "PTX ISA",
    "CUDA guide",
)  # whose bound it is: PTX ISA 9.0, CUDA C++ Programming Guide: Mathematical Functions
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
    ("cute.math.exp", k.exp, np.exp, ulps(2, CUDA)),
    ("cute.math.exp2", k.exp2, np.exp2, EX2),
    ("cute.math.log", k.log, np.log, ulps(1, CUDA)),
    ("cute.math.log2", k.log2, np.log2, ulps(1, CUDA)),
    ("cute.math.log10", k.log10, np.log10, ulps(2, CUDA)),
    ("cute.math.rsqrt", k.rsqrt, _rsqrt, RSQRT),
    ("cute.math.tanh", k.tanh, np.tanh, ulps(2, CUDA)),
    ("cute.math.exp, fastmath=True", k.exp_fast, np.exp, EXP_FAST),
    ("cute.math.exp2, fastmath=True", k.exp2_fast, np.exp2, EX2_FTZ),
    ("cute.math.log, fastmath=True", k.log_fast, np.log, LOG_FAST),
    ("cute.math.log2, fastmath=True", k.log2_fast, np.log2, LG2),
    ("cute.math.log10, fastmath=True", k.log10_fast, np.log10, LOG10_FAST),
    ("cute.math.sqrt, fastmath=True", k.sqrt_fast, np.sqrt, SQRT_FTZ),
    ("cute.math.rsqrt, fastmath=True", k.rsqrt_fast, _rsqrt, RSQRT_FTZ),
    ("cute.math.tanh, fastmath=True", k.tanh_fast, np.tanh, TANH_FAST),
)
# of numbers alone: the DSL refuses approx= for vectors, and cute.arch takes none
APPROXIMATE_NUMBERS = (
    ("cute.math.exp2, approx=True", k.exp2_approx, np.exp2, EX2),
    ("cute.math.exp2, approx=True, ftz=True", k.exp2_approx_ftz, np.exp2, EX2_FTZ),
    ("cute.arch.exp", k.arch_exp, np.exp, EXP_FAST),
    ("cute.arch.exp2", k.arch_exp2, np.exp2, EX2_FTZ),
    ("cute.arch.rcp_approx", k.arch_rcp, lambda a: 1 / a, ulps(1, PTX, flushes=True)),
)
PERIODIC = (
    ("cute.math.sin", k.sin, np.sin, ulps(2, CUDA)),
    ("cute.math.cos", k.cos, np.cos, ulps(2, CUDA)),
)
PERIODIC_FAST = (
    ("cute.math.sin, fastmath=True", k.sin_fast, np.sin, SINE),
    ("cute.math.cos, fastmath=True", k.cos_fast, np.cos, SINE),
)


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
        table = [
            (f"{row} of 16 bits", function, f, narrowed(bound, format))
            for row, function, f, bound in APPROXIMATE[:7] + PERIODIC
        ]
        yield case(f"{format.name} functions", (format.name, format.name), narrow, rows(table))
    small = [x for x in edges + spread + near_one if not 100 * math.pi < abs(v.F32.decode(x)) < math.inf]
    yield case("Float32 fast sine, cosine", same, [small], rows(PERIODIC_FAST))


# ---- integers -------------------------------------------------------------------------------------------------------


def integer_cases():
    """Integers wrap, // floors, % is the remainder of division toward zero."""
    for name in ("Int32", "Int64", "Int8"):
        width, same = width_of(name), (name, name)
        columns, divisible = integer_pairs(width), integer_pairs(width, divisor=True)
        ring = [
            ("a + b", k.add, operator.add, None),
            ("a - b", k.subtract, operator.sub, None),
            ("a * b", k.multiply, operator.mul, None),
            ("a & b", k.bit_and, operator.and_, None),
            ("a | b", k.bit_or, operator.or_, None),
            ("a ^ b", k.bit_xor, operator.xor, None),
            ("cutlass.max", k.maximum, max, None),
            ("cutlass.min", k.minimum, min, None),
        ]
        division = [
            ("a // b of integers", k.floor_divide, operator.floordiv, None),
            ("a % b of integers", k.modulo, v.truncated_remainder, None),
        ]
        one = [("-a", k.negate, operator.neg, None), ("abs(a)", k.absolute, abs, None)]
        yield case(f"{name} ring", same, columns, ring)
        yield case(f"{name} division", same, divisible, division)
        yield case(f"{name} comparisons", (name, "Int32"), columns, comparisons())
        yield case(f"{name} of one", same, columns[:1], [*one, ("~a", k.bit_not, operator.invert, None)])
        shifted = v.random_bits(width, 6 * width, 11), list(range(width)) * 6
        shifts = [
            ("a << b", k.shift_left, operator.lshift, None),
            ("a >> b", k.shift_right, operator.rshift, None),
        ]
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
        ("& of Booleans", k.both, lambda a, b: int(a < b and a > 0), None),
        ("| of Booleans", k.either, lambda a, b: int(a < b or a > 0), None),
        ("^ of Booleans", k.one_of, lambda a, b: int((a < b) != (a > 0)), None),
    ]
    yield case("Booleans", same, columns, booleans)
    yield case("Booleans", same, columns, booleans, vector=True)
    positive = [
        ("a // b of Uint32", k.unsigned_floor_divide, unsigned(operator.floordiv), None),
        ("a % b of Uint32", k.unsigned_modulo, unsigned(operator.mod), None),
        ("a < b of Uint32", k.unsigned_less, unsigned(lambda a, b: int(a < b)), None),
        ("cutlass.max of Uint32", k.unsigned_max, unsigned(max), None),
    ]
    yield case("Uint32", same, divisible, positive)
    logical = [("a >> b of Uint32", k.unsigned_shift_right, unsigned(operator.rshift), None)]
    yield case("Uint32 shifts", same, shifted, logical)

    def quotient(a, b):  # both are rounded to float32 first
        nearest = [v.F32.decode(v.F32.encode(float(n))) for n in (a, b)]
        return v.divide(*nearest)

    def cut(a, b):
        return v.float_to_integer(v.F32.decode(v.F32.encode(quotient(a, b))), 32, True)

    yield case("Int32 /", ("Int32", "Float32"), divisible, [("a / b of integers", k.divide, quotient, None)])
    yield case("Int32 /", same, divisible, [("a / b of integer vectors", k.divide, cut, None)], vector=True)
    for name in ("Int32", "Int64"):
        count = [("cute.arch.popc", k.popc_to_int32, _bits_set(width_of(name)), None)]
        yield case(f"{name} popc", (name, "Int32"), integer_pairs(width_of(name))[:1], count)


def _bits_set(width):
    return lambda a: (a & (1 << width) - 1).bit_count()


# ---- conversions ----------------------------------------------------------------------------------------------------


def _to_integer(width, signed=True, wide_source=False, low=None):
    def convert(a):
        number = v.float_to_integer(a, width, signed, wide_source)
        return number if low is None else v.wrapped(number, low, signed)

    return convert


def conversion_cases():
    """cvt: one rounding to nearest even between floats, toward zero and clamped to integers, low bits between integers."""
    c, to = cutlass, k.converted
    floats = {name: getattr(cutlass, name) for name in v.FLOATS}
    single = [list(v.edges(v.F32)) + list(v.rounding_ties()) + v.random_bits(32, 200, 12)]
    for vector in (False, True):
        for name in ("BFloat16", "Float16", "Float64"):
            row = [(f"Float32 to {name}", to(floats[name]), float, None)]
            yield case(f"Float32 to {name}", ("Float32", name), single, row, vector)
        # The PTX of a conversion to 8 bits is one to 16 bits, of which the low 8 are taken.
        integers = [
            ("Float32 to Int32", to(c.Int32), _to_integer(32), None),
            ("Float32 to Uint32", to(c.Uint32, c.Int32), _to_integer(32, False), None),
            ("Float32 to Int16", to(c.Int16, c.Int32), _to_integer(16), None),
            ("Float32 to Uint16", to(c.Uint16, c.Int32), _to_integer(16, False), None),
            ("Float32 to Int8", to(c.Int8, c.Int32), _to_integer(16, low=8), None),
            ("Float32 to Uint8", to(c.Uint8, c.Int32), _to_integer(16, False, low=8), None),
        ]
        yield case("Float32 to integers", ("Float32", "Int32"), single, integers, vector)
        wide = [
            ("Float32 to Int64", to(c.Int64), _to_integer(64), None),
            ("Float32 to Uint64", to(c.Uint64, c.Int64), _to_integer(64, False), None),
        ]
        yield case("Float32 to 64 bits", ("Float32", "Int64"), single, wide, vector)
        whole = [
            list(v.integer_edges(32)) + [(1 << 24) + 1, (1 << 24) + 3, 257, 2049, 65519] + v.random_bits(32, 100, 13)
        ]
        for name in ("Float32", "BFloat16", "Float16", "Float64"):
            row = [(f"Int32 to {name}", to(floats[name]), float, None)]
            yield case(f"Int32 to {name}", ("Int32", name), whole, row, vector)
        for name in ("Float16", "BFloat16"):
            half = [list(v.edges(v.FLOATS[name])) + v.random_bits(16, 200, 14)]
            yield case(
                f"{name} to Float32",
                (name, "Float32"),
                half,
                [(f"{name} to Float32", to(c.Float32), float, None)],
                vector,
            )
            row = [(f"{name} to Int32", to(c.Int32), _to_integer(32), None)]
            yield case(f"{name} to Int32", (name, "Int32"), half, row, vector)
            other = "BFloat16" if name == "Float16" else "Float16"
            yield case(
                f"{name} to {other}",
                (name, other),
                half,
                [(f"{name} to {other}", to(floats[other]), float, None)],
                vector,
            )
    yield case(
        "Float32 to Boolean",
        ("Float32", "Int32"),
        single,
        [("Float32 to Boolean", to(c.Boolean, c.Int32), lambda a: int(a != 0), None)],
    )
    # Of a vector, the compiler looks at the bits: -0 is True.
    row = [("Float32 vector to Boolean", to(c.Boolean, c.Int32), lambda bits: int(bits != 0), "bits")]
    yield case("Float32 to Boolean", ("Float32", "Int32"), single, row, vector=True)
    yield from wide_conversions()
    yield from bitcasts()


def wide_conversions():
    """From and to 64 bits."""
    c, to = cutlass, k.converted
    ties = [
        v.F64.encode(x) for x in (1 + 2.0**-24, 1 + 2.0**-24 + 2.0**-52, 1 + 3 * 2.0**-24, 2.0**-150, 2.0**-150 * 1.1)
    ]
    # Just above a tie of bfloat16 and float16 by less than float32 holds: rounding twice would go wrong.
    ties += [
        v.F64.encode(x)
        for x in (1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-40, 3.4028235677973366e38, 65520 - 2.0**-20)
    ]
    narrow = [v.F64.encode(v.F32.decode(bits)) for bits in v.rounding_ties()]
    doubles = [list(v.edges(v.F64)) + ties + narrow + v.random_bits(64, 60, 15)]
    for name in ("Float32", "BFloat16", "Float16"):
        row = [(f"Float64 to {name}", to(getattr(c, name)), float, None)]
        yield case(f"Float64 to {name}", ("Float64", name), doubles, row)
    row = [("Float64 to Int32", to(c.Int32), _to_integer(32, wide_source=True), None)]
    yield case("Float64 to Int32", ("Float64", "Int32"), doubles, row)
    row = [("Float64 to Int64", to(c.Int64), _to_integer(64, wide_source=True), None)]
    yield case("Float64 to Int64", ("Float64", "Int64"), doubles, row)
    wide = [
        list(v.integer_edges(64))
        + [(1 << 53) + 1, (1 << 53) + 3, (1 << 24) + 1, (1 << 40) + (1 << 16)]
        + v.random_bits(64, 60, 16)
    ]
    rows = [
        ("Int64 to Float32", to(c.Float32), float32_of, None),
        ("Uint64 to Float32", to(c.Uint64, c.Float32), lambda a: float32_of(a & (1 << 64) - 1), None),
    ]
    yield case("Int64 to Float32", ("Int64", "Float32"), wide, rows)
    yield case("Int64 to Float64", ("Int64", "Float64"), wide, [("Int64 to Float64", to(c.Float64), v.Fraction, None)])
    rows = [
        ("Int64 to Int32", to(c.Int32), int, None),
        ("Int64 to Int16", to(c.Int16, c.Int32), lambda a: v.wrapped(a, 16), None),
        ("Int64 to Int8", to(c.Int8, c.Int32), lambda a: v.wrapped(a, 8), None),
        ("Int64 to Uint8", to(c.Uint8, c.Int32), lambda a: v.wrapped(a, 8, False), None),
    ]
    yield case("Int64 to fewer bits", ("Int64", "Int32"), wide, rows)
    rows = [
        ("Int32 to Int64", to(c.Int64), int, None),
        ("Uint32 to Int64", to(c.Uint32, c.Int64), lambda a: a & 0xFFFFFFFF, None),
    ]
    yield case("Int32 to Int64", ("Int32", "Int64"), [v.integer_edges(32)], rows)
    row = [("Uint32 to Float32", to(c.Uint32, c.Float32), lambda a: float(a & 0xFFFFFFFF), None)]
    yield case("Uint32 to Float32", ("Int32", "Float32"), integer_pairs(32)[:1], row)


def float32_of(a: int):
    return v.Fraction(a)  # exactly: float(a) would round once before


def mixed_cases():
    """Numbers of two types: which one the result has, and where it is rounded, is as the DSL's compiler writes it."""

    def to32(x):
        return v.F32.decode(v.F32.encode(x))

    def to16(x, format=v.F16):
        return format.decode(format.encode(x))

    row = "numbers of two types"
    for name in ("Int32", "BFloat16", "Float16"):  # a Python float is a Float32
        values = list(v.integer_edges(32)) if name == "Int32" else list(v.edges(v.FLOATS[name]))
        halves = [
            (row, k.half_of, lambda a: v.multiply(to32(float(a)), 0.5), None),
            (row, k.one_over, lambda a: v.divide(1.0, to32(float(a))), None),
        ]
        yield case(f"{name} and Python floats", (name, "Float32"), [values], halves)
    single = [list(v.edges(v.F32)) + list(v.rounding_ties())]
    mixed = [
        (row, k.with_its_bfloat16, lambda a: v.add(a, to16(a, v.BF16)), None),
        (row, k.with_its_integer, lambda a: v.add(a, to32(float(v.float_to_integer(a, 32, True)))), None),
        (row, k.float16_and_bfloat16, lambda a: to16(v.add(to16(a), to16(to16(a, v.BF16)))), None),
    ]
    yield case("Float32 and others", ("Float32", "Float32"), single, mixed)
    integers = [
        (row, k.three_minus, lambda a: 3 - a, None),
        (row, k.int8_and_int16, lambda a: v.wrapped(v.wrapped(a, 8) + v.wrapped(a, 16), 16), None),
        (row, k.int64_and_int32, lambda a: a * a, None),
    ]
    yield case("Int32 and others", ("Int32", "Int32"), [v.integer_edges(32)], integers)
    divisors = [a for a in v.integer_edges(32) if a]
    yield case(
        "Python integers over Int32", ("Int32", "Int32"), [divisors], [(row, k.seven_over, lambda a: 7 // a, None)]
    )
    yield from powers(single[0])


def powers(bits):
    """By squaring: a³ is a a², a⁷ is a (a² a⁴), rounded at every step; a⁰ is 1 whatever a is."""

    def product(a, b):
        return v.F32.decode(v.F32.encode(v.multiply(a, b)))

    def power(n):
        def value(a):
            square = product(a, a)
            factors = {4: product(square, square), 2: square, 1: a}
            result = None
            for bit in (4, 2, 1):
                if n & bit:
                    result = factors[bit] if result is None else product(factors[bit], result)
            return 1.0 if result is None else result

        return value

    rows = [("a ** n, n from 0 to 7", k.power(n), power(n), None) for n in range(8)]
    yield case("Float32 powers", ("Float32", "Float32"), [bits[::2]], rows)
    yield case("Float32 powers", ("Float32", "Float32"), [bits[1::4]], rows[:6], vector=True)


def bitcasts():
    """The same bits as another type, a NaN's payload among them."""
    for source, target in (("Float32", "Int32"), ("Int32", "Float32"), ("Float64", "Int64"), ("Int64", "Float64")):
        bits = [list(v.edges(v.FLOATS[source if source in v.FLOATS else target])) + [0x7F800001, 0xFFC12345]]
        row = [("bitcast", k.bitcast_to(getattr(cutlass, target)), lambda a: a, "bits")]
        yield case(f"{source} as {target}", (source, target), bits, row)
    for source, target in (("Float16", "Int16"), ("Int16", "BFloat16")):
        bits = [list(v.edges(v.F16)) + list(v.edges(v.BF16))]
        row = [("bitcast", k.bitcast_to(getattr(cutlass, target)), lambda a: a, "bits")]
        yield case(f"{source} as {target}", (source, target), bits, row)


# ---- warps ----------------------------------------------------------------------------------------------------------

DISTANCES = np.array([0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 30, 31])  # of the shuffles, a warp each
WARPS = len(DISTANCES)
LANES = np.arange(WARP * WARPS)
# mask_and_clamp: segments of 32, 16, 8, 4, 2 lanes (the segment mask is 32 - width), then clamps that cut segments short
SEGMENTS = tuple((32 - width) << 8 for width in (32, 16, 8, 4, 2))
SHUFFLES = (
    ("idx", "shuffle_sync", [s | 31 for s in SEGMENTS] + [0x0007, 0x1003, 0x0C1F]),
    ("down", "shuffle_sync_down", [s | 31 for s in SEGMENTS] + [0x0007, 0x180C]),
    ("bfly", "shuffle_sync_bfly", [s | 31 for s in SEGMENTS] + [0x000F, 0x1C05]),
    ("up", "shuffle_sync_up", [*SEGMENTS, 0x0003, 0x1812]),
)


def warp_cases():
    """Sections shfl.sync, vote.sync, redux.sync, elect.sync."""
    values = (LANES + 0x40000000).astype(np.uint32)
    for kind, name, clamps in SHUFFLES:
        # idx: every lane asks for its own; the others: a warp a distance
        distance = (LANES * 13 + LANES // 32 * 5) % 32 if kind == "idx" else DISTANCES[LANES // 32]
        rows = []
        for c in clamps:
            at = [lane // 32 * 32 + v.shuffled(kind, lane % 32, int(b), c) for lane, b in zip(LANES, distance)]
            rows.append((f"cute.arch.{name}", k.shuffled_by(kind, c), values[at], "bits"))
        yield case(f"shuffle {kind}", ("Int32", "Int32"), [values, distance], rows)
    yield from typed_shuffles()
    yield from votes()
    yield from reductions_of_warps()


def typed_shuffles():
    """Values of other widths move as they are."""
    for name in ("Float32", "Float64", "Int64", "Float16", "BFloat16", "Int16", "Int8"):
        width = width_of(name)
        values = as_bits(name, v.random_bits(width, WARP * 4, 18))
        if name in v.FLOATS:
            values[: len(v.edges(v.FLOATS[name]))] = v.edges(v.FLOATS[name])
        lanes = LANES[: len(values)]
        row = "shuffles of other types" if width >= 32 else "shuffles of 8 and 16 bits"
        how = "bits" if width >= 32 else None  # 16-bit floats travel as float32
        rows = [
            (row, k.butterfly_by_21, values[lanes ^ 21], how),
            (
                row,
                k.from_lane_9,
                values[lanes // 32 * 32 + 9],
                how,
            ),
        ]
        yield case(f"shuffles of {name}", (name, name), [values], rows)


def votes():
    """Ballots of patterns: nobody, everybody, one lane, all but one, halves, alternating, and random ones."""
    patterns = [0, 0xFFFFFFFF, 1, 1 << 31, 0xFFFFFFFE, 0x7FFFFFFF, 0xFFFF, 0xFFFF0000, 0x55555555]
    patterns += v.random_bits(32, WARPS - len(patterns), 17)
    says = np.array([pattern >> lane & 1 for pattern in patterns for lane in range(WARP)], np.uint32)
    ballots = np.repeat(np.array(patterns, np.uint32), WARP)
    none, every = ballots == 0, ballots == 0xFFFFFFFF
    rows = [
        ("cute.arch.vote_ballot_sync", k.vote_ballot, ballots, None),
        ("cute.arch.vote_any_sync", k.vote_any, ~none, None),
        ("cute.arch.vote_all_sync", k.vote_all, every, None),
        ("cute.arch.vote_uni_sync", k.vote_uni, none | every, None),
    ]
    yield case("votes", ("Int32", "Int32"), [says], rows)

    halves = np.where(LANES % 32 < 16, 0xFFFF, 0xFFFF0000).astype(np.uint32)
    named = ballots & halves
    x = as_bits("Int32", says)[None]
    answers = [named, named != 0, named == halves, (named == 0) | (named == halves), x[0][LANES ^ 5]]
    names = ["vote_ballot_sync", "vote_any_sync", "vote_all_sync", "vote_uni_sync", "shuffle_sync_bfly"]
    yield hand_made(
        "half warps", k.HalfWarps(), x, [(f"cute.arch.{n}, half a warp's mask", a) for n, a in zip(names, answers)]
    )
    yield hand_made("elect", k.ElectOne(), x[:, :BLOCK], [("cute.arch.elect_one: one lane of a warp", np.full(4, 2))])


def hand_made(name, host, x, rows, types=("Int32", "Int32")) -> Case:
    """A case whose kernel is not `Each`: a row of out an operation, its answers in bits."""
    operations = tuple(
        Operation(row, f"{i} {row}", np.asarray(a).astype(STORAGE[types[1]][0])) for i, (row, a) in enumerate(rows)
    )
    count = len(operations[0].answers)
    return Case(name, host, types, x, (len(rows), count), operations, count)


def reductions_of_warps():
    edge = list(v.integer_edges(32))
    values = np.array([edge[i % len(edge)] for i in range(WARP * 4)] + v.random_bits(32, WARP * 8, 19), np.int64)
    values[:WARP] = -3  # a warp of one number, and one of the largest
    values[WARP : 2 * WARP] = (1 << 31) - 1
    warps = [[v.wrapped(int(x), 32) for x in warp] for warp in values.reshape(-1, WARP)]
    unsigned = [[x & 0xFFFFFFFF for x in warp] for warp in warps]

    def folded(function, source):
        result = []
        for warp in source:
            total = warp[0]
            for x in warp[1:]:
                total = function(total, x)
            result += [v.wrapped(total, 32, False)] * WARP
        return np.array(result, np.uint32)

    kinds = {"add": operator.add, "and": operator.and_, "or": operator.or_, "xor": operator.xor, "max": max, "min": min}
    rows = [(f"cute.arch.warp_redux_sync, {kind}", k.redux(kind), folded(f, warps), None) for kind, f in kinds.items()]
    rows += [
        (f"cute.arch.warp_redux_sync, u{kind}", k.redux(f"u{kind}"), folded(kinds[kind], unsigned), None)
        for kind in ("max", "min")
    ]
    rows.append(("cute.arch.warp_reduction_sum", k.warp_sum, folded(operator.add, warps), None))
    rows.append(("cute.arch.warp_reduction_max", k.warp_max, folded(max, warps), None))
    first = np.repeat(np.array([warp[0] for warp in unsigned], np.uint32), WARP)
    rows.append(("cute.arch.make_warp_uniform", k.warp_uniform, first, None))
    yield case("warp reductions", ("Int32", "Int32"), [values], rows)
    yield from float_warps()


def float_warps():
    """Butterflies of float32, rounded after every step as the hardware does."""
    for name in ("Float32", "Float64"):
        format = v.FLOATS[name]
        ordinary = [format.encode(x) for x in v.random_numbers(200.0, WARP * 4, 20)]
        bits = ordinary + [v.edges(format)[i % 34] for i in range(0, WARP * 4 * 5, 5)]

        def fold(function, width, format=format, bits=bits):
            numbers = [format.decode(b) for b in bits]
            offset = width // 2
            while offset:
                numbers = [
                    format.decode(format.encode(function(numbers[i], numbers[i ^ offset]))) for i in range(len(numbers))
                ]
                offset //= 2
            return np.array([format.encode(x) for x in numbers], STORAGE[format.name][0])

        rows = [
            ("cute.arch.warp_reduction_sum", k.warp_sum, fold(v.add, 32), None),
            ("cute.arch.warp_reduction_sum, threads_in_group", k.sum_of_four, fold(v.add, 4), None),
            ("cute.arch.warp_reduction, threads_in_group", k.product_of_sixteen, fold(v.multiply, 16), None),
        ]
        # Of float64 it is compiled like cutlass.max, with which NaN wins.
        pick = v.largest if name == "Float32" else second_if(operator.le, 1)
        rows.append(("cute.arch.warp_reduction_max", k.warp_max, fold(pick, 32), None))
        rows.append(("cute.arch.warp_reduction_max, threads_in_group", k.max_of_eight, fold(pick, 8), None))
        yield case(f"{name} warp reductions", (name, name), [bits], rows)


# ---- reductions of vectors, atomics, barriers -----------------------------------------------------------------------


def reduction_cases():
    """TensorSSA.reduce: ADD and MUL fold from the left, MAX and MIN let NaN win."""
    count = BLOCK
    for name in ("Float32", "Float16", "BFloat16"):
        format = v.FLOATS[name]
        ordinary = [format.encode(x) for x in v.random_numbers(60.0, count * 4, 21)]
        edge = [v.edges(format)[(7 * i + i // 34) % 34] for i in range(count * 4)]
        x = as_bits(name, ordinary + edge)
        operations = {
            "ADD": v.add,
            "MUL": v.multiply,
            "MAX": lambda a, b: v.largest(a, b, nan=True),
            "MIN": lambda a, b: v.smallest(a, b, nan=True),
        }

        def fold(function, format=format, x=x):
            results = []
            for group in x.reshape(-1, 8):
                total = 1.0
                for bits in group:
                    total = format.decode(format.encode(function(total, format.decode(bits))))
                results.append(format.encode(total))
            return np.array(results)

        rows = [(f"TensorSSA.reduce, {op}", fold(f)) for op, f in operations.items()]
        host = k.Reduce([getattr(cute.ReductionOp, op) for op in operations], 1.0)
        yield hand_made(f"{name} reduce", host, x[None], rows, (name, name))
    x = as_bits("Int32", v.random_bits(32, count * 8, 22))
    groups = [[v.wrapped(int(b), 32) for b in group] for group in x.reshape(-1, 8)]
    rows = [
        ("TensorSSA.reduce, ADD", as_bits("Int32", [3 + sum(group) for group in groups])),
        ("TensorSSA.reduce, MUL", as_bits("Int32", [3 * math.prod(group) for group in groups])),
    ]
    host = k.Reduce([cute.ReductionOp.ADD, cute.ReductionOp.MUL], 3)
    yield hand_made("Int32 reduce", host, x[None], rows)


INTEGER_ATOMICS = {
    "atomic_add": operator.add,
    "atomic_max": max,
    "atomic_min": min,
    "atomic_and": operator.and_,
    "atomic_or": operator.or_,
    "atomic_xor": operator.xor,
    "atomic_exch": lambda old, new: new,
}


def atomic_cases():
    """Section atom: what it returns and leaves; float32 sums in global memory flush subnormals, in shared memory not."""
    for shared in (False, True):
        where = "shared" if shared else "global"
        for name in ("Int32", "Int64"):
            left, right = (column[: 2 * BLOCK] for column in integer_pairs(width_of(name)))
            x = np.stack([as_bits(name, left), as_bits(name, right)])
            for op, function in INTEGER_ATOMICS.items():
                after = as_bits(name, [function(a, b) for a, b in zip(left, right)])
                row = f"cute.arch.{op}"
                host = k.Atomic(getattr(cute.arch, op), getattr(cutlass, name), shared)
                yield hand_made(f"{row} of {name}, {where}", host, x, [(row, x[0]), (row, after)], (name, name))
        for name in ("Float32", "Float16"):
            yield _float_atomic(name, shared, where)
    x = as_bits("Int32", v.random_bits(32, BLOCK, 23))
    numbers = [v.wrapped(int(b), 32) for b in x]
    names, lefts = [op for op in INTEGER_ATOMICS if op != "atomic_exch"], []
    for op in names:
        total = 5
        for number in numbers:
            total = v.wrapped(INTEGER_ATOMICS[op](total, number), 32)
        lefts.append(as_bits("Int32", [total]))
    host = k.Contended([getattr(cute.arch, op) for op in names])
    yield hand_made("contended atomics", host, x[None], [(f"cute.arch.{op}", a) for op, a in zip(names, lefts)])


def _float_atomic(name, shared, where):
    format = v.FLOATS[name]
    left, right = (as_bits(name, column[: 9 * BLOCK]) for column in float_pairs(format))
    flush = v.flushed if name == "Float32" and not shared else float

    def total(a, b):
        exact = v.add(flush(format.decode(a)), flush(format.decode(b)))
        return format.encode(flush(format.decode(format.encode(exact))))

    after = np.array([total(a, b) for a, b in zip(left, right)])
    host = k.Atomic(cute.arch.atomic_add, getattr(cutlass, name), shared)
    row = f"cute.arch.atomic_add of floats, {where} memory"
    return hand_made(f"{row}: {name}", host, np.stack([left, right]), [(row, left), (row, after)], (name, name))


def barrier_cases():
    """Sections bar, mbarrier.init, mbarrier.arrive, mbarrier.test_wait, st.async; last, since a wrong one may wait for ever."""
    lanes = np.arange(WARP)
    x = as_bits("Int32", v.random_bits(32, BLOCK, 24))[None]
    swapped = np.concatenate([x[0, 32:64], x[0, :32], x[0, 64:96], x[0, 64:96]])
    yield hand_made("named barriers", k.Named(), x, [("named barriers", swapped)])
    waits = [("mbarrier_wait, phase by phase", lanes + step) for step in range(k.Phases.PHASES + 1)]
    yield hand_made("mbarrier waits", k.Phases(), x[:, :WARP], waits)
    # (parity 0 is over, parity 1 is over): fresh, after one arrival of two, after two, after four
    tests = [0, 1, 0, 1, 1, 0, 0, 1]
    rows = [("mbarrier_test_wait", np.full(WARP, said)) for said in tests]
    yield hand_made("mbarrier tests", k.PhaseTests(), x[:, :WARP], rows)
    sent = np.repeat([x[0, 32 + 7], x[0, 7]], WARP)
    yield hand_made(
        "bytes before expect_tx", k.EarlyBytes(), x[:, : 2 * WARP], [("bytes that arrive before expect_tx", sent)]
    )


MAKERS = (
    float_cases,
    approximate_cases,
    integer_cases,
    conversion_cases,
    mixed_cases,
    warp_cases,
    reduction_cases,
    atomic_cases,
    barrier_cases,
)


def cases(sample: bool = False) -> list[Case]:
    """Every case, or every third as a sample."""
    found = [case for make in MAKERS for case in make()]
    return found[::3] if sample else found
