"""Functions of shapes and layouts that kernels ask beside the layout algebra: coordinates of an index, repeats, partitions."""

from __future__ import annotations

import functools
import operator

import numpy as np

from ..context import not_simulated, refused
from ..layouts import layout as la
from ..layouts import layout_algebra as algebra
from ..layouts.layout import Layout
from ..memory import swizzle
from ..memory import tensor as tn
from ..values.numeric import Boolean, DType, Int32, TensorSSA, Value, convert
from . import copying


def repeat_like(x, target, **_):
    """`x` for every number of a nested tuple."""
    return tuple(repeat_like(x, part) for part in target) if isinstance(target, tuple) else x


def prepend_ones(x, up_to_rank: int, **_):
    """A layout, or a tensor, of that rank: with extents of 1 before the others."""
    return tn.on_layout(lambda layout: la.prepend(layout, Layout(1, 0), up_to_rank), "prepend_ones")(x)


def filter_zeros(x, **_):
    """A layout, or a tensor, with an extent of 1 where its stride is 0."""

    def walk(shape, stride):
        if isinstance(shape, tuple):
            return tuple(map(walk, shape, stride))
        return 1 if stride == 0 else shape

    return tn.on_layout(lambda layout: Layout(walk(layout.shape, layout.stride), layout.stride), "filter_zeros")(x)


def idx2crd(idx, shape, **_):
    """The coordinate in a shape of a column-major index."""

    def values(x):
        if isinstance(x, tuple):
            return tuple(map(values, x))
        return Value(Int32, x.astype(np.int32)) if isinstance(x, np.ndarray) else tn.shown(x)

    shape = shape.shape if isinstance(shape, Layout) else tn.hidden(shape)
    return values(la.idx2crd(tn.plain(idx), shape))


def local_partition(target, tiler, index, proj=None, **_):
    """What one thread of a layout of threads has of a tensor: an element of each tile as large as the layout."""
    if proj is not None:
        raise not_simulated("local_partition with proj")
    tiler = tn.as_layout(tiler)
    tile = la.as_tuple(la.product_each(tiler.shape))
    # A layout of threads says by its strides which of them has which place: an index is undone mode by mode.
    place = tuple(index // d % n if d else 0 for n, d in la.leaves(tiler))
    view = target.relaid(lambda layout: algebra.zipped_divide(layout, tile))
    return view[(place, (None,) * la.rank(view.layout.shape[1]))]


def is_static(x, **_) -> bool:
    """Whether all of it is known while tracing."""
    if isinstance(x, (tn.Tensor, tn.CoordinateTensor)):
        x = x.layout
    if isinstance(x, Layout):
        return la.is_static(x.shape) and la.is_static(x.stride)
    return not any(isinstance(part, Value) for part in la.flatten_to_tuple(x))


# ---- functions of layouts, shapes and tensors -----------------------------------------------------------------------


def size(x, mode=(), **_):
    """Number of elements, of a mode if given."""
    if isinstance(mode, int):
        mode = (mode,)
    if isinstance(x, copying.TiledCopy):
        return x.size
    layout = x.layout if isinstance(x, (tn.Tensor, tn.CoordinateTensor)) else x
    shape = layout.shape if isinstance(layout, (Layout, TensorSSA, swizzle.ComposedLayout)) else layout
    for m in mode or ():
        shape = shape[m] if isinstance(shape, tuple) else shape
    return tn.shown(_product(shape))


def _product(shape):
    if isinstance(shape, tuple):
        result = 1
        for s in shape:
            result = result * _product(s)
        return result
    return shape


def _shape_of(x, mode):
    found = x.shape if hasattr(x, "shape") else x
    for m in (mode,) if isinstance(mode, int) else mode or ():
        found = found[m]
    return found


def rank(x, mode=(), **_):
    found = _shape_of(x, mode)
    return len(found) if isinstance(found, tuple) else 1


def shape(x, mode=(), **_):
    return tn.shown(_shape_of(x, mode))


def ceil_div(x, y, **_):
    return la.ceil_div(x, y)


def cosize(x, **_):
    if isinstance(x, swizzle.ComposedLayout):
        return x.reach
    return tn.shown(la.cosize(x.layout if isinstance(x, tn.Tensor) else x))


def size_in_bytes(dtype: DType, layout, **_):
    layout = layout.outer if isinstance(layout, swizzle.ComposedLayout) else tn.as_layout(layout)
    return la.cosize(layout) * dtype.itemsize


def make_layout(shape, stride=None, **_):
    shape = tn.hidden(shape)
    return la.make_layout(shape) if stride is None else Layout(shape, tn.hidden(stride))


def slice_(x, coord, **_):
    if isinstance(x, (tn.Tensor, tn.CoordinateTensor)):
        return x[coord]
    if isinstance(x, Layout):
        return la.slice_and_offset(tn.plain(coord), x)[0]
    if isinstance(x, swizzle.ComposedLayout):
        outer, offset = la.slice_and_offset(tn.plain(coord), x.outer)
        return swizzle.ComposedLayout(x.inner, x.offset + offset, outer)
    return la.slice_(x, coord)


def crd2idx(coord, layout, **_):
    layout = tn.as_layout(layout)
    result = la.crd2idx(tn.plain(coord), layout.shape, layout.stride)
    if isinstance(result, np.ndarray):
        return Value(Int32, result.astype(np.int32))
    return tn.shown(result)


def elem_less(left, right, **_):
    """True where every coordinate of `left` is below `right`'s."""
    lefts, rights = la.flatten_to_tuple(left), la.flatten_to_tuple(right)
    if len(lefts) != len(rights):
        raise refused(f"elem_less compares coordinates of one rank, got {left} and {right}")
    result = functools.reduce(operator.and_, (a < b for a, b in zip(lefts, rights)))
    return result if isinstance(result, Value) else convert(bool(result), Boolean)
