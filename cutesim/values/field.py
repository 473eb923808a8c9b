"""Numbers as elements of two finite fields, in which sums, products, quotients, exp and log are exact.

A number is a pair, modulo the primes P and Q = K P + 1, kept as the real and the imaginary part of a complex number; -1 stands for
a part that is not known. Sums, products and quotients are the fields' own. exp takes the part modulo P, by which exponents may be
counted, to a power of an element of order P modulo Q: so exp(a) exp(b) = exp(a + b), and log, from Q to P, turns products into
sums. A result of exp has no part modulo P, and one of log none modulo Q: there stands -1 - h, h being what exp must multiply by to
give back the number whose logarithm it was. Half of the elements are squares, and only those have a root. What else there is of
functions gives a number that depends on its argument alone.

A constant is what a reader takes it for (`Field.constant`); two that are one number in float32 are one. Two formulas that these
laws turn into each other give equal elements. Two that are not equal give equal ones for an element in two
thousand million, or in a million where an exponential or a logarithm is in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache

import numpy as np

from .symbolic import Symbolic

UNKNOWN = Symbolic.lost
# It stands for the logarithm of e to base 2, of which no kernel knows all digits.
LOG2_E = 654321, 1234567891
FEW = 4  # different numbers that an array of constants has at most
FEW_BITS = 1 << 11  # a number of fewer is meant as it is
# What a constant may be a fraction of, which power of the logarithm of e that is, and the most of numerator times denominator.
BASES = (math.log2(math.e), 1, 1 << 12), (math.log(2), -1, 1 << 12), (1.0, 0, 1 << 18)
LEAST_POWER = -1200  # of two, in a float64 as a whole number times it
ONE = np.asarray(1 + 1j)
# P and K
PRIMES = (1048571, 1962), (1048559, 2034), (1048507, 1990), (1048447, 1974), (1048423, 2046)


@dataclass(frozen=True)
class Field(Symbolic):
    """The two fields of the primes P and K P + 1, both of which leave 3 when divided by 4."""

    P: int
    K: int

    @cached_property
    def moduli(self) -> tuple[int, int]:
        return self.P, self.K * self.P + 1

    def __hash__(self):
        return self.P

    def encode(self, x, constants=True) -> np.ndarray:
        """The pairs of floats: of `constants` those of the fractions that they stand for, of others those of their bits."""
        x = np.asarray(x, np.float64)
        some = x.reshape(-1)[: FEW + 1]
        if constants and (x.size <= FEW or (some == some[0]).all()):
            values, places = np.unique(x, return_inverse=True)
            if len(values) <= FEW:
                return np.array([self.constant(float(value)) for value in values])[places].reshape(x.shape)
        finite = np.isfinite(x)
        mantissa, exponent = np.frexp(np.where(finite, x, 0))
        whole, power = np.ldexp(mantissa, 53).astype(np.int64), exponent.astype(np.int64) - 53
        parts = [whole % M * _powers_of_two(M)[power - LEAST_POWER] % M for M in self.moduli]
        return np.where(finite, _pair(*parts), UNKNOWN)

    def constant(self, value: float) -> complex:
        """The pair of a number that stands in the source, told apart as float32 tells it: 0.001 is a thousandth, 1.442695 the
        logarithm of e; a third in float32 is a third."""
        return self._of(*_meant(value)) if math.isfinite(value) else UNKNOWN

    def _of(self, fraction: Fraction, power=0) -> complex:
        """A fraction, times a power of the logarithm of e."""
        above, below = fraction.numerator, fraction.denominator
        parts = zip(LOG2_E, self.moduli)
        return complex(*(above * pow(below, -1, M) * pow(L, power, M) % M for L, M in parts))

    def each(self, function, *pairs) -> np.ndarray:
        """`function(*parts, modulus)` of both parts; unknown where one of the parts is."""
        found = []
        for name, M in zip(("real", "imag"), self.moduli):
            parts = [getattr(pair, name).astype(np.int64) for pair in pairs]
            lacks = np.any(np.broadcast_arrays(*(part < 0 for part in parts)), axis=0)
            found.append(np.where(lacks, -1, function(*(np.maximum(part, 0) for part in parts), M)))
        return _pair(*found)

    def add(self, a, b):
        total = self.each(lambda x, y, M: (x + y) % M, a, b)
        return self._of_logs(total, lambda Q: _rest(a) * _rest(b) % Q, a, b)

    def subtract(self, a, b):
        return self.add(a, self.negative(b))

    def multiply(self, a, b):
        product = self.each(lambda x, y, M: x * y % M, a, b)
        product = self._of_logs(product, lambda Q: self._rest_of_product(a, b), a, b)
        zero = (a == 0) | (b == 0)  # whatever the other is
        return np.where(zero, 0, product) if zero.any() else product

    def _of_logs(self, found, rest, *pairs):
        """`found`, a sum or product of `pairs`, with the `rest` that exp multiplies by where a logarithm is in it."""
        if not any((pair.imag < -1).any() for pair in pairs):
            return found
        h = np.where((found.imag < 0) & (found.real >= 0), rest(self.moduli[1]), 0)
        return _pair(found.real, np.where(h > 0, -1 - h, found.imag))

    def _rest_of_product(self, a, b):
        """Of a logarithm times 1 or the logarithm of 2 or its inverse, which change only its unit; or times -1."""
        (_, Q), found = self.moduli, 0
        units = [1, *(self._of(Fraction(1), power).imag for power in (1, -1))]
        for log, factor in ((a, b), (b, a)):
            h = np.where(log.imag < -1, _rest(log), 0)
            kept = np.where(np.isin(factor.imag, units), h, np.where(factor.imag == Q - 1, _inverse(h, Q), 0))
            found = np.maximum(found, kept)
        return found

    def divide(self, a, b):
        return self.multiply(a, self.each(_inverse, b))

    def negative(self, a):
        return self._of_logs(self.each(lambda x, M: -x % M, a), lambda Q: _inverse(_rest(a), Q), a)

    def root(self, a):
        def principal(x, M):
            found = _power(x, (M + 1) // 4, M)
            return np.where(found * found % M == x, found, -1)

        return self.each(principal, a)

    @cached_property
    def exponentials(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The powers of an element of order P modulo Q; sorted, and of which exponent each is."""
        P, Q = self.moduli
        element, powers = pow(5, self.K, Q), np.ones(1, np.int64)
        while len(powers) < P:
            powers = np.concatenate([powers, powers * pow(element, len(powers), Q) % Q])
        order = np.argsort(powers[:P])
        return powers[:P], powers[order], order

    def exp(self, a):
        exponent, rest = a.real.astype(np.int64), _rest(a)
        power = self.exponentials[0][np.maximum(exponent, 0)] * rest % self.moduli[1]
        return _pair(-1, np.where((exponent < 0) | (rest == 0), -1, power))

    def log(self, a):
        P, Q = self.moduli
        _, in_order, exponents = self.exponentials
        number = a.imag.astype(np.int64)
        in_group = _power(np.maximum(number, 1), self.K, Q)
        exponent = exponents[np.searchsorted(in_order, in_group)] * pow(self.K, -1, P) % P
        rest = number * _inverse(self.exponentials[0][exponent], Q) % Q
        return np.where(number < 1, UNKNOWN, _pair(exponent, -1 - rest))

    def times_log2_e(self, a, power: int):
        return self.multiply(a, np.asarray(self._of(Fraction(1), power)))

    def some_function(self, name: str, a):
        """A number that depends on the function's name and on its argument alone."""
        P, Q = self.moduli
        salt = sum(ord(letter) << (5 * n) for n, letter in enumerate(name[:5])) % P
        argument = np.where(a.imag < 0, a.real, a.imag).astype(np.int64)
        mixed = _power((argument + salt) % Q, 5, Q)
        return np.where(argument < 0, UNKNOWN, _pair(mixed % P, mixed))

    @cached_property
    def functions(self) -> dict:
        """numpy's universal functions that mean something in a field."""
        return {
            np.add: self.add,
            np.subtract: self.subtract,
            np.multiply: self.multiply,
            np.divide: self.divide,
            np.negative: self.negative,
            np.positive: lambda a: a,
            np.square: lambda a: self.multiply(a, a),
            np.reciprocal: lambda a: self.divide(ONE, a),
            np.sqrt: self.root,
            np.exp: self.exp,
            np.exp2: lambda a: self.exp(self.times_log2_e(a, -1)),
            np.log: self.log,
            np.log2: lambda a: self.times_log2_e(self.log(a), 1),
        }

    def call(self, function, result, inputs, pairs) -> np.ndarray:
        if function in self.functions:
            found, powers = self.functions[function](*pairs), function in (np.exp, np.exp2)
            return np.where(np.isneginf(inputs[0]), 0, found) if powers else found
        if function is np.absolute:
            return np.where(np.signbit(inputs[0]), self.negative(pairs[0]), pairs[0])
        if function is np.copysign:
            return np.where(np.signbit(inputs[0]) == np.signbit(inputs[1]), pairs[0], self.negative(pairs[0]))
        if len(pairs) > 1:
            return np.full(np.shape(result), UNKNOWN)
        return self.some_function(function.__name__, pairs[0])


FIELDS = tuple(Field(*primes) for primes in PRIMES)


@lru_cache(4096)
def _meant(value: float) -> tuple[Fraction, int]:
    """The fraction, and the power of the logarithm of e beside it, that a constant stands for."""
    if (exact := Fraction(value)).denominator == 1 or abs(exact.numerator) < FEW_BITS:
        return exact, 0
    kind = np.float32 if abs(value) >= 2.0**-126 else np.float64
    held = kind(value)
    written = Fraction(str(held))
    for base, power, most in BASES:
        for below in (1 << 5, 1 << 10, most):
            fraction = Fraction(float(written) / base).limit_denominator(below)
            small = abs(fraction.numerator) * fraction.denominator <= most
            if small and kind(float(fraction) * base) == held:
                return fraction, power
    return written, 0


def _pair(real, imag) -> np.ndarray:
    """Pairs of whole numbers."""
    result = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), np.complex128)
    result.real, result.imag = real, imag
    return result


def _rest(a):
    """What exp multiplies by: 1 of a number, of a logarithm what is kept in the part modulo Q; 0 where that is not known."""
    imag = a.imag.astype(np.int64)
    return np.where(imag >= 0, 1, -1 - imag)


@cache
def _powers_of_two(M: int) -> np.ndarray:
    return np.array([pow(2, e, M) for e in range(LEAST_POWER, -LEAST_POWER)], np.int64)


def _power(a, n: int, M: int):
    result, a = np.ones_like(a), a % M
    while n:
        result = result * a % M if n & 1 else result
        a, n = a * a % M, n >> 1
    return result


def _inverse(a, M):
    return np.where(a == 0, -1, _power(a, M - 2, M))


def same(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(where two arrays of pairs differ, where they have no part in common that is known)."""
    differ, compared = np.zeros(a.shape, bool), np.zeros(a.shape, bool)
    for one, other in ((a.imag, b.imag), (a.real, b.real)):
        both = (one != -1) & (other != -1) & ((one < 0) == (other < 0))
        differ |= both & (one != other)
        compared |= both
    return differ, ~compared
