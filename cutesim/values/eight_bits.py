"""Floats of 8 bits: how they are rounded, and how memory holds them.

| type           | sign, exponent, mantissa | largest | beyond it                        | NaN              |
|----------------|--------------------------|---------|----------------------------------|------------------|
| `Float8E4M3FN` | 1, 4, 3                  | 448     | the largest; of a constant NaN    | 0x7f, 0xff       |
| `Float8E5M2`   | 1, 5, 2                  | 57344   | the largest; of a constant infinity | 0x7d to 0x7f, ... |

A conversion in the kernel is the instruction cvt.rn.satfinite: to nearest, ties to even, subnormals kept, numbers beyond the
largest and infinities become the largest, NaN is 0x7f. A Python number is converted by the compiler, which does not saturate.
From float64 it goes through float32. Arithmetic on them is refused, as the compiler refuses it.

Sources: PTX ISA 9.0 (cvt), OCP's 8-bit floating-point specification, PTX of small kernels. A number that the compiler can fold,
as `Float32(1000.0)`, is taken here for one that is converted in the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

QUIET_NAN = np.uint32(0x7FC00000)  # of float32; below it a NaN of 8 bits keeps its byte


@dataclass(frozen=True)
class EightBits:
    """One format: the bits of its exponent and mantissa, and whether it has infinities."""

    exponent: int
    mantissa: int
    infinity: bool

    largest = property(lambda self: 57344.0 if self.infinity else 448.0)

    @cached_property
    def values(self) -> np.ndarray:
        """The number of each byte, as float32."""
        code = np.arange(256)
        field = code >> self.mantissa & ((1 << self.exponent) - 1)
        fraction = code & ((1 << self.mantissa) - 1)
        bias = (1 << self.exponent - 1) - 1
        scale = np.exp2(np.maximum(field, 1) - bias - self.mantissa)
        result = ((np.where(field, 1 << self.mantissa, 0) + fraction) * scale).astype(np.float32)
        if self.infinity:
            result[field == (1 << self.exponent) - 1] = np.inf
        result = np.where(code >= 128, -result, result)
        nan = (code & 127) > (0x7C if self.infinity else 0x7E)
        result.view(np.uint32)[nan] = QUIET_NAN | code[nan].astype(np.uint32)
        return result

    def rounded(self, a: np.ndarray, saturate: bool = True) -> np.ndarray:
        """To nearest, ties to even, as float32; beyond the largest number that number, or what the compiler makes of a constant."""
        size = np.abs(a.astype(np.float64))
        bias = (1 << self.exponent - 1) - 1
        power = np.maximum(np.frexp(np.where(np.isfinite(size), size, 1))[1] - 1, 1 - bias)
        step = np.exp2(power - self.mantissa)
        with np.errstate(invalid="ignore"):
            near = np.where(np.isfinite(size), np.rint(size / step) * step, size)
        beyond = self.largest if saturate else np.inf if self.infinity else np.nan
        near = np.where(near > self.largest, beyond, near).astype(np.float32)
        return np.where(np.isnan(a), np.float32(np.nan), np.copysign(near, a.astype(np.float32)))

    def decode(self, raw: np.ndarray) -> np.ndarray:
        return self.values[raw]

    def encode(self, a: np.ndarray) -> np.ndarray:
        """The bytes of numbers that are rounded."""
        a = np.ascontiguousarray(a, np.float32)
        last = 0x7C if self.infinity else 0x7E
        size = np.abs(a)
        code = np.searchsorted(self.values[: last + 1], np.where(np.isnan(size), 0, size)).astype(np.uint8)
        code |= np.signbit(a).astype(np.uint8) << np.uint8(7)
        kept = (a.view(np.uint32) & np.uint32(255)).astype(np.uint8)
        return np.where(np.isnan(a), np.where(kept == 0, np.uint8(0x7F), kept), code)


E4M3FN = EightBits(4, 3, False)
E5M2 = EightBits(5, 2, True)
