"""Composed layouts (`swizzle`) in the functions of layouts."""

from __future__ import annotations

import functools
from dataclasses import replace

from ..layouts import layout as la
from ..memory import tensor as tn
from ..memory.swizzle import ComposedLayout, Swizzle

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
