"""Swizzles: layouts whose offsets are permuted by exclusive or, so that rows and columns of a tile spread over the banks.

CuTe DSL has two kinds. A composed layout permutes the numbers of elements, counted from the tensor's first: the tensor keeps
the plain layout, and its pointer carries the swizzle, which each access applies to its offsets. A pointer with a swizzle
(`allocate_tensor(..., swizzle=)`, `MemRange.get_tensor(..., swizzle=)`, `recast_ptr(..., swizzle_)`) permutes byte addresses,
whatever the type of the elements: S<3,4,3> exchanges the 16-byte pieces of 128 bytes by the address bits 7 to 9.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..context import not_simulated, refused
from ..layouts import layout as la
from ..layouts.layout import Layout
from ..values.numeric import DType, constant_number

OF_ADDRESSES = None  # the origin of a swizzle that is the pointer's, and counts from the start of shared memory


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

    shape = property(lambda self: self.outer.shape)

    def __call__(self, coord):
        return self.inner(self.offset + la.crd2idx(coord, self.outer.shape, self.outer.stride))

    @property
    def reach(self) -> int:
        """The elements that a buffer needs."""
        every = np.arange(self.offset + la.cosize(self.outer), dtype=np.int64)
        return int(self.inner(every).max()) + 1

    def __str__(self) -> str:
        return f"{self.inner} o {self.offset} o {self.outer}"


def make_swizzle(b, m, s, **_) -> Swizzle:
    bits, base, shift = (constant_number(x, "a swizzle's parameter") for x in (b, m, s))
    if bits < 0 or base < 0 or abs(shift) < bits:
        raise refused(
            f"make_swizzle({bits}, {base}, {shift}): bits and base are 0 or more, and |shift| is at least bits"
        )
    return Swizzle(bits, base, shift)


def make_composed_layout(inner, offset, outer, **_) -> ComposedLayout:
    if not isinstance(inner, Swizzle) or not isinstance(outer, Layout):
        kinds = " and ".join(type(x).__name__ for x in (inner, outer))
        raise not_simulated(f"make_composed_layout of other things than a swizzle and a layout ({kinds})")
    return ComposedLayout(inner, constant_number(offset, "the offset of a composed layout"), outer)


def get_swizzle_portion(x, **_) -> Swizzle:
    return x.inner if isinstance(x, ComposedLayout) else Swizzle(0, 4, 3)


def get_nonswizzle_portion(x, **_):
    return x.outer if isinstance(x, ComposedLayout) else x


# ---- pointers with a swizzle ----------------------------------------------------------------------------------------


def permuted(pointer, index):
    """The elements at which those counted by the layout lie."""
    if pointer.swizzle is None:
        return index
    swizzle, origin = pointer.swizzle
    if origin is OF_ADDRESSES:
        return swizzle(index)
    if isinstance(origin, np.ndarray):  # each thread's own
        origin = origin.reshape(origin.shape + (1,) * (index.ndim - origin.ndim))
    return origin + swizzle(index - origin)


def is_same(one, other) -> bool:
    """Whether two pointers' swizzles are one."""
    if one is None or other is None:
        return one is other
    return one[0] == other[0] and np.array_equal(one[1], other[1])


def by_address(pointer, swizzle: Swizzle):
    """The pointer with a swizzle of its byte addresses."""
    if swizzle.bits == 0:
        return replace(pointer, swizzle=None)
    return replace(pointer, swizzle=(_in_elements(swizzle, pointer.dtype), OF_ADDRESSES))


def _in_elements(swizzle: Swizzle, dtype: DType) -> Swizzle:
    base = swizzle.base - (dtype.itemsize.bit_length() - 1)
    if base < 0:
        raise not_simulated(
            f"the swizzle {swizzle} of {dtype}: it permutes byte addresses and keeps {1 << swizzle.base} "
            f"byte{'s'[: swizzle.base]} together, less than an element has; give it a base of {swizzle.base - base} or more, "
            "or swizzle elements with cute.make_composed_layout"
        )
    return Swizzle(swizzle.bits, base, swizzle.shift)


def recast(pointer, made):
    """`made`, the pointer recast to another type, with the pointer's swizzle."""
    if pointer.swizzle is None:
        return made
    swizzle, origin = pointer.swizzle
    if origin is not OF_ADDRESSES:
        raise not_simulated("another type of elements in a tensor whose layout has a swizzle")
    bytewise = Swizzle(swizzle.bits, swizzle.base + pointer.dtype.itemsize.bit_length() - 1, swizzle.shift)
    return by_address(made, bytewise)
