"""Edge values and the answers that the specification gives for them, in plain Python and numpy, without the simulator.

Numbers are bits (unsigned integers) of a format; results are computed exactly, as fractions, and rounded once. Sections
are those of the PTX ISA 9.0 unless another document is named.

| here                                        | from the section                                                   |
|---------------------------------------------|--------------------------------------------------------------------|
| `Format.encode`                             | Rounding Modifiers (.rn), and IEEE 754                             |
| `add`, `multiply`, `fma`, `divide`, `sqrt`  | Floating Point Instructions: add, mul, fma, div, sqrt              |
| `largest`, `smallest`                       | Floating Point Instructions: max, min                              |
| `float_to_integer`                          | Data Movement and Conversion Instructions: cvt                     |
| `flushed`                                   | the .ftz paragraphs of those instructions                          |
| `shuffled`                                  | Data Movement and Conversion Instructions: shfl.sync               |

A result that is not a number is compared as "some NaN": the specification leaves its payload open.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: `exponent` and `mantissa` bits (without the implicit one), and a sign."""

    name: str
    exponent: int
    mantissa: int

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        return (1 << self.exponent - 1) - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def nan(self) -> int:
        return self.infinity | 1 << self.mantissa - 1

    @property
    def sign(self) -> int:
        return 1 << self.bits - 1

    def decode(self, bits: int) -> float:
        """The number, which a Python float holds exactly in every format here."""
        bits = int(bits)
        sign = -1.0 if bits & self.sign else 1.0
        exponent = bits >> self.mantissa & ((1 << self.exponent) - 1)
        mantissa = bits & ((1 << self.mantissa) - 1)
        if exponent == (1 << self.exponent) - 1:
            return math.copysign(math.nan, sign) if mantissa else sign * math.inf
        if exponent == 0:
            return sign * math.ldexp(mantissa, 1 - self.bias - self.mantissa)
        return sign * math.ldexp(mantissa | 1 << self.mantissa, exponent - self.bias - self.mantissa)

    def encode(self, number) -> int:
        """The nearest bits of a float or a fraction, ties to even, overflow to infinity."""
        if isinstance(number, float):
            negative = math.copysign(1.0, number) < 0
            if math.isnan(number):
                return self.nan
            if math.isinf(number) or number == 0:
                return (self.sign if negative else 0) | (self.infinity if number else 0)
            number = Fraction(number)
        if number == 0:
            return 0
        sign, number = (self.sign if number < 0 else 0), abs(number)
        exponent = number.numerator.bit_length() - number.denominator.bit_length()
        exponent -= number < Fraction(2) ** exponent  # 2^exponent <= number
        exponent = max(exponent, 1 - self.bias)  # subnormal numbers share the smallest exponent
        scaled = number / Fraction(2) ** (exponent - self.mantissa)
        whole, rest = divmod(scaled.numerator, scaled.denominator)
        twice = 2 * rest
        whole += twice > scaled.denominator or (twice == scaled.denominator and whole & 1)
        # A carry out of the mantissa raises the exponent by itself; the same at the largest number gives infinity.
        biased = exponent + self.bias - 1 if whole >> self.mantissa else 0
        return sign | min((biased << self.mantissa) + whole, self.infinity)

    def is_nan(self, bits: np.ndarray) -> np.ndarray:
        return (bits & ~np.array(self.sign, bits.dtype)) > self.infinity


F64, F32 = Format("Float64", 11, 52), Format("Float32", 8, 23)
F16, BF16 = Format("Float16", 5, 10), Format("BFloat16", 8, 7)
FLOATS = {f.name: f for f in (F64, F32, F16, BF16)}


# ---- arithmetic of decoded numbers: floats where infinities, NaN or signed zeros decide, else exact fractions -------


def finite(*numbers) -> bool:
    return all(map(math.isfinite, numbers))


def add(a: float, b: float):
    exact = Fraction(a) + Fraction(b) if finite(a, b) else 0
    return exact or a + b


def subtract(a: float, b: float):
    return add(a, -b)


def multiply(a: float, b: float):
    return Fraction(a) * Fraction(b) if finite(a, b) and a and b else a * b


def divide(a: float, b: float):
    if finite(a, b) and a and b:
        return Fraction(a) / Fraction(b)
    if b:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def fma(a: float, b: float, c: float):
    exact = Fraction(a) * Fraction(b) + Fraction(c) if finite(a, b, c) else 0
    return exact or a * b + c


def sqrt(a: float):
    """Of a number with up to 24 bits of mantissa: rounding the root to 53 bits first then changes nothing."""
    return math.sqrt(a) if a >= 0 else a if a == 0 else math.nan


def remainder(a: float, b: float):
    """C's fmod: exact, with the sign of `a`; numbers `%` in the DSL."""
    return math.nan if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0 else math.fmod(a, b)


def floor(a: float) -> float:
    return float(math.floor(a)) if finite(a) and a and math.floor(a) else a if not finite(a) or a == 0 else 0.0


def ceil(a: float) -> float:
    return -floor(-a)


def is_before(a: float, b: float) -> bool:
    """a < b with -0 below +0."""
    return a < b or (a == b == 0 and math.copysign(1, a) < math.copysign(1, b))


def largest(a: float, b: float, nan=False) -> float:
    """max: +0 is above -0; a NaN gives way to a number, except with .NaN."""
    if math.isnan(a) or math.isnan(b):
        return math.nan if nan or (math.isnan(a) and math.isnan(b)) else b if math.isnan(a) else a
    return b if is_before(a, b) else a


def smallest(a: float, b: float, nan=False) -> float:
    return -largest(-a, -b, nan)


def xorsign(a: float, b: float, pick) -> float:
    """max.xorsign.abs and min.xorsign.abs: of the magnitudes, with the product's sign."""
    magnitude = pick(abs(a), abs(b))
    return math.nan if math.isnan(magnitude) else math.copysign(magnitude, math.copysign(1, a) * math.copysign(1, b))


def flushed(a: float) -> float:
    """.ftz: a subnormal float32 number becomes a zero of its sign."""
    return math.copysign(0.0, a) if abs(a) < 2.0**-126 else a


# ---- integers -------------------------------------------------------------------------------------------------------


def wrapped(number: int, width: int, signed: bool = True) -> int:
    """The low `width` bits, as a number."""
    low = number & ((1 << width) - 1)
    return low - (1 << width) if signed and low >> width - 1 else low


def truncated_remainder(a: int, b: int) -> int:
    """rem: the sign is that of `a`."""
    return int(math.copysign(1, a)) * (abs(a) % abs(b))


def float_to_integer(number: float, width: int, signed: bool, wide_source: bool = False) -> int:
    """cvt.rzi: toward zero and clamped; NaN is 0, or 2^(width - 1) where source or destination has 64 bits."""
    if math.isnan(number):
        return wrapped(1 << width - 1, width, signed) if wide_source or width == 64 else 0
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    return low if number < low else high if number > high else int(number)


# ---- shuffles -------------------------------------------------------------------------------------------------------


def shuffled(kind: str, lane: int, b: int, c: int) -> int:
    """The lane that `lane` reads, by the pseudo-code of shfl.sync; `b` and `c` as the instruction has them."""
    b, clamp, segment = b & 0x1F, c & 0x1F, c >> 8 & 0x1F
    highest = (lane & segment) | (clamp & ~segment)
    lowest = lane & segment
    at = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": lowest | (b & ~segment & 0x1F)}[kind]
    inside = at >= highest if kind == "up" else at <= highest
    return at if inside else lane


# ---- edge values ----------------------------------------------------------------------------------------------------


@cache
def edges(format: Format) -> tuple:
    """Bits of zeros, subnormals, the largest and smallest, infinities, NaN, and numbers around 1, of both signs."""
    one = format.encode(1.0)
    positive = [0, 1, (1 << format.mantissa) - 1, 1 << format.mantissa, (1 << format.mantissa) + 1]
    positive += [one, one + 1, one - 1, format.encode(1.5)]
    positive += [format.encode(2.5), format.encode(3.0), format.encode(10.0)]
    positive += [format.infinity - 1, format.infinity, format.encode(2.0**-10), format.encode(1000.0)]
    return tuple(positive) + tuple(bits | format.sign for bits in positive) + (format.nan, format.nan | format.sign | 5)


@cache
def rounding_ties() -> tuple:
    """Bits of float32 numbers between two neighbours of float16, of bfloat16 or of the integers."""
    found = []
    # Below, at and above half of bfloat16's last place.
    for low in (0x0000, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        found += [high << 16 | low for high in (0x3F80, 0x3F81, 0x0000, 0x0001, 0x007F, 0x7F7F, 0xC2C7)]
    halves = [1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-11 + 2**-23, 65504, 65519.996, 65520, 65536]
    halves += [2.0**-24, 2.0**-25, 2.0**-25 * (1 + 2**-23)]
    halves += [3 * 2.0**-25, 2.0**-14 - 2.0**-25, 2.0**-14]
    whole = [0.5, 0.99999994, 1.5, 2.5, 127.5, 128.0, 255.5]
    whole += [256.0, 32767.9, 32768.0, 65535.9, 65536.0, 8388607.5]
    whole += [2.0**31 - 128, 2.0**31, 2.0**32 - 256, 2.0**32]
    whole += [2.0**63 - 2.0**39, 2.0**63, 2.0**64 - 2.0**40, 2.0**64]
    for number in halves + whole:
        found += [F32.encode(float(number)), F32.encode(-float(number))]
    return tuple(found)


def random_bits(width: int, count: int, seed: int) -> list[int]:
    """Bits drawn evenly, which for a float means every exponent; the same on every machine, as recorded results need."""
    drawn = random.Random(seed)
    return [drawn.getrandbits(width) for _ in range(count)]


def random_numbers(size: float, count: int, seed: int) -> list[float]:
    """Numbers between -size and size."""
    drawn = random.Random(seed)
    return [drawn.uniform(-size, size) for _ in range(count)]


def integer_edges(width: int) -> tuple:
    """Zero, small numbers of both signs, powers of two and their neighbours, the ends; as signed numbers."""
    ends = [(1 << width - 1) - 1, -(1 << width - 1), (1 << width - 1) - 2, 1 - (1 << width - 1)]
    return (0, 1, -1, 2, -2, 3, -3, 7, -7, 1 << width // 2, -(1 << width // 2), (1 << width // 2) - 1, 100, *ends)


def pairs(values) -> tuple[list, list]:
    """Every value with every value."""
    values = list(values)
    return [a for a in values for _ in values], [b for _ in values for b in values]
