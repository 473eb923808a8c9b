"""The algebra of CuTe layouts: compose them, invert them, cut them into tiles, repeat tiles.

Layouts are functions, so almost everything here is composition: a divide composes a layout with (tile, complement of
the tile), a product composes the complement of the block with the tiler, a thread-value layout is an inverse composed
with (threads, values). What composition does to one mode n:d of its right side: take every d-th element of the left, n
of them.

    question                              functions
    the same function, fewest modes       coalesce
    one after the other, and back         composition, right_inverse, left_inverse, complement
    cut into tiles                        logical_divide, zipped_divide, tiled_divide, flat_divide
    repeat a tile                         logical_product, zipped_product, blocked_product, raked_product,
                                          tile_to_shape
    who has which element                 make_layout_tv
    other element width; what vectorises  recast_layout, max_common_layout, max_common_vector

Names and results are CuTe DSL's, with one difference on purpose: where the result would not be a layout, CuTe DSL may
give one that is not the function asked for, and this module raises ValueError. A tile that does not divide an extent
gives ceil_div rest modes; the last tile then reaches past the end, and a predicate must guard it.

Not covered: swizzles and composed layouts; negative strides; inverses of basis strides.

Sources: https://docs.nvidia.com/cutlass/latest/media/docs/cpp/cute/02_layout_algebra.html;
Jay Shah, "A note on the algebra of CuTe layouts".
"""

from __future__ import annotations

import numpy as np

from .layout import (
    Basis,
    Layout,
    append,
    as_tuple,
    cached,
    ceil_div,
    cosize,
    get,
    has_none,
    is_static,
    join,
    leaves,
    make_layout,
    make_ordered_layout,
    modes,
    product,
    product_each,
    rank,
    shape_of,
    size,
    text,
)

ONE = Layout(1, 0)


# ---- coalesce -------------------------------------------------------------------------------------------------------


@cached
def coalesce(layout: Layout, target_profile=None) -> Layout:
    """The same function with the fewest modes: over everything, or within each mode of a tuple `target_profile`."""
    if isinstance(target_profile, tuple):
        return by_mode(coalesce, layout, target_profile)
    return _flat_layout(_coalesced(leaves(layout)))


def _coalesced(pairs) -> list[tuple]:
    result = []
    for s, d in pairs:
        if s == 1:
            continue
        if result and is_static((s, d, result[-1])) and result[-1][0] * result[-1][1] == d:
            result[-1] = (result[-1][0] * s, result[-1][1])
        else:
            result.append((s, d))
    return result


def _flat_layout(pairs) -> Layout:
    """A flat layout from (shape, stride) pairs, a bare leaf if there is one, 1:0 if there is none."""
    if len(pairs) == 1:
        return Layout(*pairs[0])
    return Layout(*(tuple(column) for column in zip(*pairs, strict=True))) if pairs else ONE


def by_mode(function, layout: Layout, tiler: tuple) -> Layout:
    """function(mode, tile) for every mode that has a tile; modes with the tile None, or with none, stay as they are."""
    parts = modes(layout)
    if len(parts) < len(tiler):
        raise ValueError(f"the tiler {text(tiler)} has more modes than the layout {layout}")
    pairs = zip(parts, tiler, strict=False)
    done = [part if tile is None else function(part, tile) for part, tile in pairs]
    return join((*done, *parts[len(done) :]))


# ---- composition, complement, inverses ------------------------------------------------------------------------------


@cached
def composition(lhs: Layout, rhs) -> Layout:
    """lhs(rhs(coord)) with the profile of `rhs`; a tuple `rhs` is a tiler, composed mode by mode.

    A tiler keeps only as many modes of lhs as it has; None keeps its mode whole. ValueError where the result is not a
    layout: a stride or an extent of `rhs` that does not fit into those of `lhs` evenly. The modes of `rhs` are composed one
    by one, as in CuTe: a sum of two of them that carries from one mode of lhs into the next is not seen.
    """
    if isinstance(rhs, tuple):
        return join(modes(by_mode(composition, lhs, rhs))[: len(rhs)])
    rhs = _tile(rhs)
    whole = _domain(lhs)

    def walk(shape, stride):
        if isinstance(shape, tuple):
            return join(map(walk, shape, stride))
        if isinstance(stride, Basis):  # steps along one coordinate of lhs
            mode = get(lhs, stride.path)
            return _composed(mode, _domain(mode), shape, stride.value)
        return _composed(lhs, whole, shape, stride)

    return walk(rhs.shape, rhs.stride)


class Doubtful(ValueError):
    """Something that has no right answer, and that CuTe DSL 4.8.1 answers nevertheless."""


def _tile(x) -> Layout:
    """The leaf of a tiler as a layout: an int n is n:1."""
    if isinstance(x, Layout):
        return x
    if isinstance(x, (int, np.integer)):
        return make_layout(x)
    raise ValueError(f"a layout or an int is needed as tile, got {text(x)}")


def _domain(lhs: Layout) -> list[tuple]:
    """The modes that a composition walks, coalesced, except that the last stays even if its extent is 1.

    Indices past the end continue along the last mode, so its stride counts; 2 is any extent that coalesce keeps.
    """
    *first, (s, d) = leaves(lhs) or [(1, 0)]
    return _coalesced([*first, (max(s, 2), d)])


def _composed(lhs: Layout, domain, shape: int, stride: int) -> Layout:
    """`shape` elements of lhs, every `stride`-th: in each mode first skip, then keep, and hand the rest to the next."""
    if stride == 0:
        return Layout(shape, 0)

    def refuse(why, error=ValueError):
        raise error(f"{lhs} composed with {shape}:{stride} is not a layout: {why}")

    if stride < 0:
        refuse("the stride is negative")
    result, rest, step = [], shape, stride
    for s, d in domain[:-1]:
        available = -(-s // step)
        if available == 1 and step % s:
            refuse(f"a step of {step} is no multiple of the extent {s}")
        if rest > 1 and available > 1:
            kept = min(available, rest)
            if rest > kept and (s % step or rest % kept):
                error = ValueError if rest % kept else Doubtful
                refuse(f"{rest} elements in steps of {step} do not run evenly through the extent {s}", error)
            result.append((kept, step * d))
            rest //= kept
        step = max(1, step // s)
    if rest > 1 or not result or not is_static(rest):
        result.append((rest, step * domain[-1][1]))
    return _flat_layout(result)


@cached
def complement(layout: Layout, cotarget) -> Layout:
    """Where copies of `layout` start so that together they fill the offsets below `cotarget`, as far as they fit."""
    result, filled = [], 1
    for d, s, _ in _by_stride(leaves(layout), layout):
        if d < filled:
            raise ValueError(f"{layout} has no complement: it reaches some offset twice")
        result.append((d // filled, filled))
        filled = d * s
    result.append((ceil_div(product(shape_of(cotarget)), filled), filled))
    return coalesce(_flat_layout(result))


def _by_stride(pairs, layout: Layout) -> list[tuple]:
    """(stride, extent, index step) of the leaves that move, smallest stride first."""
    result, step = [], 1
    for s, d in pairs:
        if isinstance(d, Basis) or d < 0:
            error = ValueError if isinstance(d, Basis) else Doubtful
            raise error(f"integer strides of 0 or more are needed, got {layout}")
        if d and s != 1:
            result.append((d, s, step))
        step *= s
    return sorted(result, key=lambda leaf: leaf[0])


@cached
def right_inverse(layout: Layout) -> Layout:
    """A layout R with layout(R(i)) == i for every i below its size, as long as whole modes allow."""
    result, filled = [], 1
    for d, s, step in _by_stride(_coalesced(leaves(layout)), layout):
        if d == filled:
            result.append((s, step))
            filled *= s
    return coalesce(_flat_layout(result))


@cached
def left_inverse(layout: Layout) -> Layout:
    """A layout L with L(layout(i)) == i for every i; modes of stride 0 count as absent. ValueError if there is none."""
    moving = _by_stride(_coalesced(leaves(layout)), layout)
    result = [(moving[0][0], 0)] if moving else []
    for i, (d, s, step) in enumerate(moving):
        following = moving[i + 1][0] if i + 1 < len(moving) else d * s
        if following % d or following < d * s:
            why = f"after {s}:{d} comes the stride {following}, which is no multiple of {d} from {d * s} on"
            raise ValueError(f"{layout} has no left inverse: {why}")
        result.append((following // d, step))
    return coalesce(_flat_layout(result))


# ---- divide: cut into tiles -----------------------------------------------------------------------------------------


@cached
def logical_divide(layout: Layout, tiler) -> Layout:
    """(tile, rest) of the layout, or of each mode if `tiler` is a tuple; the last tile may be ragged."""
    if isinstance(tiler, tuple):
        return by_mode(logical_divide, layout, tiler)
    tile = _tile(tiler)
    return composition(layout, join((tile, complement(tile, size(layout)))))


@cached
def zipped_divide(layout: Layout, tiler) -> Layout:
    """((tile of each mode), (rest of each mode)): the second mode picks a tile, the first runs inside it."""
    if not isinstance(tiler, (tuple, Layout)) or (isinstance(tiler, tuple) and has_none(tiler)):
        raise ValueError(f"a layout or a tuple of tiles without None is needed to divide {layout}, got {text(tiler)}")
    return join(_zipped(logical_divide(layout, tiler), tiler))


def _zipped(divided: Layout, tiler) -> tuple[Layout, ...]:
    parts = modes(divided)
    if not isinstance(tiler, tuple):
        return parts
    tiles, rests = zip(*map(_zipped, parts, tiler), strict=True)
    return join(tiles), join((*rests, *parts[len(tiler) :]))


def tiled_divide(layout: Layout, tiler) -> Layout:
    """(tile, rest0, rest1, ...): zipped_divide with the rest modes at the top."""
    tile, rest = modes(zipped_divide(layout, tiler))
    return join((tile, *modes(rest)))


def flat_divide(layout: Layout, tiler) -> Layout:
    """(tile0, tile1, ..., rest0, rest1, ...): zipped_divide with all modes at the top."""
    tile, rest = modes(zipped_divide(layout, tiler))
    return join((*modes(tile), *modes(rest)))


# ---- product: repeat a tile -----------------------------------------------------------------------------------------


@cached
def logical_product(block: Layout, tiler) -> Layout:
    """(block, repeats): copies of `block`, without overlap, in the order of `tiler`; by mode if `tiler` is a tuple."""
    if isinstance(tiler, tuple):
        return by_mode(logical_product, block, tiler)
    tiler = _tile(tiler)
    return join((block, composition(complement(block, size(block) * cosize(tiler)), tiler)))


def zipped_product(block: Layout, tiler: Layout) -> Layout:
    """(block, repeats), as logical_product; `tiler` must be a layout."""
    return logical_product(block, _tile(tiler))


def _product_modes(block: Layout, tiler: Layout):
    """(block's mode, repeats' mode) for each mode, the one of lower rank padded with 1:0."""
    r = max(rank(block), rank(tiler))
    inner, outer = modes(logical_product(append(block, ONE, r), append(tiler, ONE, r)))
    return zip(modes(inner), modes(outer), strict=True)


@cached
def blocked_product(block: Layout, tiler: Layout) -> Layout:
    """Copies of `block` side by side: mode i is (block's mode i, tiler's mode i)."""
    return join(join((inner, outer)) for inner, outer in _product_modes(block, tiler))


@cached
def raked_product(block: Layout, tiler: Layout) -> Layout:
    """Copies of `block` interleaved: mode i is (tiler's mode i, block's mode i), coalesced."""
    return join(coalesce(join((outer, inner))) for inner, outer in _product_modes(block, tiler))


def tile_to_shape(block: Layout, shape, order) -> Layout:
    """`block` repeated until it covers `shape`, its copies in the given order (the smallest number runs fastest)."""
    shape = product_each(as_tuple(shape))
    block = append(block, ONE, len(shape))
    repeats = tuple(map(ceil_div, shape, product_each(block.shape)))
    return blocked_product(block, make_ordered_layout(repeats, order))


@cached
def make_layout_tv(thr_layout: Layout, val_layout: Layout) -> tuple[tuple, Layout]:
    """(tiler_mn, layout_tv): the tile that threads times values cover; (thread, value) -> column-major index in it."""
    layout_mn = raked_product(thr_layout, val_layout)
    threads_values = make_layout((size(thr_layout), size(val_layout)))
    return product_each(layout_mn.shape), composition(right_inverse(layout_mn), threads_values)


# ---- other element widths, vectors ----------------------------------------------------------------------------------


@cached
def recast_layout(new_bits: int, old_bits: int, layout: Layout) -> Layout:
    """The layout of the same memory in elements of `new_bits` instead of `old_bits`.

    Only the contiguous mode changes its extent. ValueError if its elements do not fill whole new ones.
    """
    ratio, ragged = divmod(max(new_bits, old_bits), min(new_bits, old_bits))
    before = [s for _, s, _ in _by_stride(leaves(layout), layout)]

    def refuse(why):
        raise ValueError(f"cannot recast {layout} from {old_bits} to {new_bits} bits: {why}")

    def wider(s, d):
        if ratio % d and d % ratio:
            refuse(f"the stride {d} and {ratio} do not divide each other")
        return ceil_div(s, ceil_div(ratio, d)), ceil_div(d, ratio)

    def narrower(s, d):
        return (s * ratio, 1) if d == 1 else (s, d * ratio)

    def walk(shape, stride):
        if isinstance(shape, tuple):
            return join(map(walk, shape, stride))
        return Layout(*change(shape, stride)) if stride else Layout(shape, 0)

    if ragged:
        refuse("one width is not a multiple of the other")
    if ratio == 1 or not before:
        return layout
    change = wider if new_bits > old_bits else narrower
    result = walk(layout.shape, layout.stride)
    # The moving modes must hold as many bits as before: otherwise a new element would lie only partly in them.
    after = [s for (s, _), (_, d) in zip(leaves(result), leaves(layout), strict=True) if d]
    if product(tuple(after)) * new_bits != product(tuple(before)) * old_bits:
        refuse(f"its contiguous elements do not come in groups of {ratio}")
    return result


@cached
def max_common_layout(a: Layout, b: Layout) -> Layout:
    """The coordinates that both layouts map to 0, 1, 2, ..., as far as they agree: what a vector access can move."""
    inverse = right_inverse(b)
    common = modes(coalesce(composition(a, inverse)))[0]
    return composition(inverse, common) if common.stride == 1 else ONE


def max_common_vector(a: Layout, b: Layout) -> int:
    """How many elements are contiguous in both layouts, in the same order."""
    return size(max_common_layout(a, b))
