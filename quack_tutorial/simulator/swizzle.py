"""Swizzles: layouts whose offsets are permuted by exclusive or, so that rows and columns of a tile spread over the banks.

A tensor of a composed layout keeps the plain layout; its pointer carries the swizzle, which each access applies to its offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import layout as la
from .context import fail, not_simulated
from .control import constant_number
from .layout import Layout


@dataclass(frozen=True)
class Swizzle:
    """Bits `base + shift` to `base + shift + bits` of an offset, exclusive or, into the `bits` bits from `base` on."""

    bits: int
    base: int
    shift: int

    def __call__(self, offset):
        """The permuted offsets, of ints or arrays of them."""
        mask = ((1 << self.bits) - 1) << (self.base + max(self.shift, 0))
        picked = offset & mask
        return offset ^ (picked >> self.shift if self.shift >= 0 else picked << -self.shift)

    @property
    def run(self) -> int:
        """Elements that stay together."""
        return 1 << self.base

    def __str__(self) -> str:
        return f"S<{self.bits},{self.base},{self.shift}>"


@dataclass(frozen=True)
class ComposedLayout:
    """`inner(offset + outer(coordinate))`."""

    inner: Swizzle
    offset: int
    outer: Layout

    @property
    def shape(self):
        return self.outer.shape

    def __call__(self, coord):
        return self.inner(self.offset + la.crd2idx(coord, self.outer.shape, self.outer.stride))

    @property
    def reach(self) -> int:
        """The elements that a buffer needs."""
        return int(self.inner(np.arange(self.offset + la.cosize(self.outer), dtype=np.int64)).max()) + 1

    def __str__(self) -> str:
        return f"{self.inner} o {self.offset} o {self.outer}"


def make_swizzle(b, m, s, **_) -> Swizzle:
    bits, base, shift = (constant_number(x, "a swizzle's parameter") for x in (b, m, s))
    if bits < 0 or base < 0 or abs(shift) < bits:
        raise fail(
            "language",
            f"make_swizzle({bits}, {base}, {shift}): bits and base are 0 or more, and |shift| is at least bits",
        )
    return Swizzle(bits, base, shift)


def make_composed_layout(inner, offset, outer, **_) -> ComposedLayout:
    if not isinstance(inner, Swizzle) or not isinstance(outer, Layout):
        kinds = " and ".join(type(x).__name__ for x in (inner, outer))
        raise not_simulated(f"make_composed_layout of other things than a swizzle and a layout ({kinds})")
    return ComposedLayout(inner, constant_number(offset, "the offset of a composed layout"), outer)
