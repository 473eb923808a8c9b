"""Swizzles of shared memory's own addresses, as tensor maps and wgmma want them, and composed layouts in layout functions.

CuTe DSL has two kinds. A composed layout permutes the numbers of elements, counted from the tensor's first (`swizzle`). A pointer
with a swizzle (`allocate_tensor(..., swizzle=)`, `MemRange.get_tensor(..., swizzle=)`, `recast_ptr(..., swizzle_)`) permutes byte
addresses, whatever the type of the elements: S<3,4,3> exchanges the 16-byte pieces of 128 bytes by the address bits 7 to 9.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from .. import layout as la
from .. import tensor as tn
from ..context import not_simulated
from ..memory import Pointer
from ..numeric import DType
from ..swizzle import ComposedLayout, Swizzle

OF_ADDRESSES = 0  # the origin of a swizzle that counts from the start of shared memory


def by_address(pointer: Pointer, swizzle: Swizzle) -> Pointer:
    """The pointer with a swizzle of its byte addresses."""
    if swizzle.bits == 0:
        return replace(pointer, swizzle=None)
    return replace(pointer, swizzle=(_in_elements(swizzle, pointer.dtype), OF_ADDRESSES))


def _in_elements(swizzle: Swizzle, dtype: DType) -> Swizzle:
    base = swizzle.base - (dtype.itemsize.bit_length() - 1)
    if base < 0:
        raise not_simulated(f"the swizzle {swizzle} of elements wider than what it keeps together")
    return Swizzle(swizzle.bits, base, swizzle.shift)


def recast(pointer: Pointer, made: Pointer) -> Pointer:
    """`made`, the pointer recast to another type, with the pointer's swizzle."""
    if pointer.swizzle is None:
        return made
    swizzle, origin = pointer.swizzle
    if origin != OF_ADDRESSES:
        raise not_simulated("another type of elements in a tensor whose layout has a swizzle")
    bytewise = Swizzle(swizzle.bits, swizzle.base + pointer.dtype.itemsize.bit_length() - 1, swizzle.shift)
    return by_address(made, bytewise)


# ---- composed layouts -----------------------------------------------------------------------------------------------

_KEPT = (
    "select group_modes coalesce append prepend logical_divide zipped_divide tiled_divide flat_divide composition flatten"
).split()


def taking_composed(cute: dict) -> dict:
    """The functions of `cute` that take a composed layout too, by working on its outer one."""

    def lifted(function):
        @functools.wraps(function)
        def take(x, *args, **kwargs):
            if isinstance(x, ComposedLayout):
                return replace(x, outer=function(x.outer, *args, **kwargs))
            return function(x, *args, **kwargs)

        return take

    def slice_(x, coord, **kwargs):
        if not isinstance(x, ComposedLayout):
            return plain_slice(x, coord, **kwargs)
        outer, offset = la.slice_and_offset(tn.plain(coord), x.outer)
        return ComposedLayout(x.inner, x.offset + offset, outer)

    def cosize(x, **kwargs):
        return x.reach if isinstance(x, ComposedLayout) else plain_cosize(x, **kwargs)

    def size_in_bytes(dtype, layout, **kwargs):
        inner = layout.outer if isinstance(layout, ComposedLayout) else layout
        return plain_size(dtype, inner, **kwargs)

    def tile_to_shape(atom, trg_shape, order, **kwargs):
        if isinstance(atom, ComposedLayout):
            return replace(atom, outer=plain_tile(atom.outer, trg_shape, order, **kwargs))
        return plain_tile(atom, trg_shape, order, **kwargs)

    plain_slice, plain_cosize, plain_size, plain_tile = (
        cute[n] for n in ("slice_", "cosize", "size_in_bytes", "tile_to_shape")
    )
    return {name: lifted(cute[name]) for name in _KEPT} | {
        "slice_": slice_,
        "cosize": cosize,
        "size_in_bytes": size_in_bytes,
        "tile_to_shape": tile_to_shape,
        "get_nonswizzle_portion": lambda x, **_: x.outer if isinstance(x, ComposedLayout) else x,
        "get_swizzle_portion": lambda x, **_: x.inner if isinstance(x, ComposedLayout) else Swizzle(0, 4, 3),
    }
