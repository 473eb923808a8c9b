"""CuTe layouts: functions from coordinates to offsets.

A `Layout` is a shape and a stride, two tuples that nest alike. A coordinate has one number per mode; the offset is the
sum of coordinate times stride. One number may stand for a whole nested mode: it is taken apart in colexicographic
order (the first mode runs fastest), and the last mode takes what is left, so that a coordinate past the end gives an
offset past the end, not a wrapped one. Numbers may be numpy integer arrays: one call then serves every thread.

A stride may also be a `Basis`, written 1@0: one step along coordinate 0. A layout of such strides gives a coordinate
instead of an offset, which is what an identity tensor needs for its predicates.

    question                      functions
    make a layout                 make_layout, make_ordered_layout, make_identity_layout
    what is at this coordinate    layout(coord), crd2idx, idx2crd, offsets
    part of it                    layout[mode], get, select, slice_, dice, slice_and_offset
    the same modes, rearranged    flatten, group_modes, append, prepend
    arithmetic on shapes          size, cosize, rank, depth, product, product_each, ceil_div, shape_div

Names and results are CuTe DSL's. Composition, tiles and inverses are in layout_algebra.py.

An extent or stride may be an `Extent`, known only when the kernel runs, as ? in what CuTe prints: it has a number here all the
same, but no layout is simplified because of it.

Not covered: swizzles, composed layouts.

Source: https://docs.nvidia.com/cutlass/latest/media/docs/cpp/cute/01_layout.html.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from math import gcd

import numpy as np

cached = lru_cache(maxsize=8192)


class Extent(int):
    """An extent or stride that the compiler does not know; it knows that it is a multiple of `div`, and its bits.

    It is a number in arithmetic and in < or >; it equals no plain number, so that nothing is dropped for being 1 or merged for
    fitting. Written ?, ?{div=4} or ?{i64 div=4}.
    """

    def __new__(cls, value: int, div: int = 1, bits: int = 32):
        self = super().__new__(cls, value)
        self.div, self.bits = div, bits
        return self

    def _key(self) -> tuple:
        return int(self), self.div, self.bits

    def __eq__(self, other) -> bool:
        return type(other) is Extent and self._key() == other._key()

    def __ne__(self, other) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(("?", *self._key()))

    def __mul__(self, other):
        if not isinstance(other, int):
            return NotImplemented
        bits = max(self.bits, other.bits) if type(other) is Extent else self.bits
        return Extent(int(self) * int(other), self.div * divisor(other), bits) if other else 0

    __rmul__ = __mul__

    def __add__(self, other):
        if not isinstance(other, int):
            return NotImplemented
        return Extent(int(self) + int(other), gcd(self.div, divisor(other)), self.bits)

    __radd__ = __add__

    def __sub__(self, other):
        return self + -other

    def __rsub__(self, other):
        return -self + other

    def __neg__(self):
        return Extent(-int(self), self.div, self.bits)

    def __floordiv__(self, other):
        if not isinstance(other, int):
            return NotImplemented
        whole = type(other) is int and self.div % other == 0
        return Extent(int(self) // int(other), self.div // other if whole else 1, self.bits)

    def __rfloordiv__(self, other):
        return Extent(other // int(self), 1, self.bits)

    def __mod__(self, other):
        return Extent(int(self) % int(other), 1, self.bits)

    def __rmod__(self, other):
        return Extent(other % int(self), 1, self.bits)

    def __str__(self) -> str:
        facts = ["i64"] * (self.bits == 64) + [f"div={self.div}"] * (self.div != 1)
        return f"?{{{' '.join(facts)}}}" if facts else "?"

    __repr__ = __str__


def divisor(x: int) -> int:
    """What a number is known to be a multiple of."""
    return x.div if type(x) is Extent else abs(x)


def is_static(x) -> bool:
    """Whether all numbers of a nested tuple are known while compiling."""
    return all(map(is_static, x)) if type(x) is tuple else type(x) is not Extent


@dataclass(frozen=True, slots=True)
class Basis:
    """`value` steps along one coordinate, found by `path`: (1, 0) is part 0 of coordinate 1, written 1@0@1."""

    value: int
    path: tuple[int, ...]

    def __mul__(self, factor: int):
        return Basis(self.value * factor, self.path) if factor else 0

    __rmul__ = __mul__

    def at(self, count):
        """The coordinate tuple `count` strides from the origin; `count` is an int or an integer array."""
        result = count if self.value == 1 else self.value * count
        for place in reversed(self.path):
            result = (0,) * place + (result,)
        return result

    def __str__(self) -> str:
        return "@".join(str(part) for part in (self.value, *reversed(self.path)))

    __repr__ = __str__


def E(path) -> Basis:
    """One step along the coordinate at `path`, an int or a sequence of ints."""
    return Basis(1, as_tuple(tuple(path) if isinstance(path, list) else path))


@dataclass(frozen=True, slots=True)
class Layout:
    """A shape and a stride that nest alike; unchecked, because the simulator makes thousands: make_layout checks."""

    shape: int | tuple
    stride: int | Basis | tuple

    def __call__(self, coord):
        """The offset at `coord`, or the sublayout if `coord` has a None in it."""
        return slice_(self, coord) if has_none(coord) else _offset(coord, self.shape, self.stride)

    __iter__ = None  # Python would count up for ever

    def __getitem__(self, mode: int) -> Layout:
        if isinstance(self.shape, tuple):
            return Layout(self.shape[mode], self.stride[mode])
        if mode not in (0, -1):
            raise IndexError(f"the layout {self} has one mode, not {mode + 1}")
        return self

    def get_hier_coord(self, index, **_):
        """The coordinate at the offset `index`, nested as the shape is: (index / stride) modulo the extent in each mode."""
        return _coordinate_at(index, self.shape, self.stride)

    def get_flat_coord(self, index, **_):
        """The same with one number for each mode at the top."""
        found = _coordinate_at(index, self.shape, self.stride)
        return tuple(map(_counted, found, self.shape)) if isinstance(found, tuple) else found

    def __str__(self) -> str:
        return f"{text(self.shape)}:{text(self.stride)}"

    __repr__ = __str__


def _coordinate_at(index, shape, stride):
    if isinstance(shape, tuple):
        return tuple(_coordinate_at(index, s, d) for s, d in zip(shape, stride))
    return 0 if type(stride) is int and stride == 0 else index // stride % shape


def _counted(coord, shape):
    """A coordinate as the one number that counts to it, first mode first."""
    if not isinstance(coord, tuple):
        return coord
    number, step = 0, 1
    for c, s in zip(coord, shape):
        number, step = number + _counted(c, s) * step, step * product(s)
    return number


def modes(layout: Layout) -> tuple[Layout, ...]:
    """The modes at the top, each a layout."""
    if not isinstance(layout.shape, tuple):
        return (layout,)
    return tuple(map(Layout, layout.shape, layout.stride))


def join(parts) -> Layout:
    """The layout with these layouts as its modes."""
    parts = tuple(parts)
    return Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))


def leaves(layout: Layout) -> tuple[tuple, ...]:
    """(extent, stride) of every leaf, first mode first."""
    return tuple(zip(flatten_to_tuple(layout.shape), flatten_to_tuple(layout.stride), strict=True))


# ---- nested tuples --------------------------------------------------------------------------------------------------


def text(x) -> str:
    """A nested tuple as CuTe prints it: (4,(2,3))."""
    if isinstance(x, np.ndarray):
        return "?"  # one number a thread
    return f"({','.join(map(text, x))})" if isinstance(x, tuple) else str(x)


def as_tuple(x) -> tuple:
    return x if isinstance(x, tuple) else (x,)


def has_none(coord) -> bool:
    if not isinstance(coord, tuple):
        return coord is None
    for c in coord:  # any(map(...)) takes twice as long
        if c is None or isinstance(c, tuple) and has_none(c):
            return True
    return False


def is_congruent(a, b) -> bool:
    """Whether two shapes, coordinates or layouts nest alike."""
    a, b = shape_of(a), shape_of(b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(is_congruent, a, b))
    return isinstance(a, tuple) == isinstance(b, tuple)


def flatten_to_tuple(x) -> tuple:
    """The leaves of a nested tuple, first mode first; (x,) for a bare leaf."""
    if type(x) is not tuple:
        return (x,)
    result = []
    for part in x:
        if type(part) is tuple:
            result.extend(flatten_to_tuple(part))
        else:
            result.append(part)
    return tuple(result)


# ---- construction ---------------------------------------------------------------------------------------------------


def make_layout(shape, *, stride=None) -> Layout:
    """A layout of `shape`, compact and column-major without `stride`; a tuple of layouts is joined mode by mode."""
    if isinstance(shape, Layout):
        raise ValueError(f"make_layout needs a shape or a tuple of layouts, got the layout {shape}")
    if isinstance(shape, tuple) and shape and all(isinstance(part, Layout) for part in shape):
        return join(shape)
    return _checked_layout(shape, stride)


@cached
def _checked_layout(shape, stride) -> Layout:
    plain = _plain(shape)
    if any(extent < 1 for extent in flatten_to_tuple(plain)):
        raise ValueError(f"extents must be at least 1, got the shape {text(shape)}")
    if stride is None:
        return Layout(plain, _compact(plain))
    if not is_congruent(shape, stride):
        raise ValueError(f"the shape {text(shape)} and the stride {text(stride)} do not nest alike")
    return Layout(plain, _plain(stride))


def _plain(x):
    """The same nested tuple with Python ints for numpy's."""
    if isinstance(x, tuple):
        return tuple(map(_plain, x))
    if isinstance(x, Basis):
        return x
    if not isinstance(x, (int, np.integer)):
        raise ValueError(f"shapes and strides are made of integers, got {x!r}")
    return x if type(x) is Extent else int(x)


def _compact(shape, step: int = 1):
    """Column-major strides from `step` up; an extent of 1 gets stride 0, as in CuTe DSL."""
    if not isinstance(shape, tuple):
        return step if shape != 1 else 0
    strides = []
    for part in shape:
        strides.append(_compact(part, step))
        step *= product(part)
    return tuple(strides)


def make_ordered_layout(shape, order) -> Layout:
    """A compact layout of `shape`; the mode with the smallest number in `order` runs fastest."""
    frozen = lambda x: tuple(map(frozen, x)) if isinstance(x, (tuple, list)) else x  # noqa: E731
    return _ordered(shape, frozen(order))


@cached
def _ordered(shape, order) -> Layout:
    ranked = []  # (order number, extent under it)

    def collect(part, number):
        if not isinstance(number, tuple):
            ranked.append((number, product(part)))
        elif isinstance(part, tuple) and len(part) == len(number):
            for p, n in zip(part, number, strict=True):
                collect(p, n)
        else:
            raise ValueError(f"the order {text(order)} does not fit the shape {text(shape)}: give one number per mode")

    def stride(part, number):
        if isinstance(number, tuple):
            return tuple(map(stride, part, number))
        return _compact(part, product(tuple(extent for n, extent in ranked if n < number)))

    collect(shape, order)
    return make_layout(shape, stride=stride(shape, order))


@cached
def make_identity_layout(shape) -> Layout:
    """The layout that maps each coordinate of `shape` to itself: strides 1@0, 1@1, ...; plain n:1 for an int n."""

    def basis(part, path):
        if isinstance(part, tuple):
            return tuple(basis(p, (*path, i)) for i, p in enumerate(part))
        return Basis(1, path) if path else 1

    return make_layout(shape, stride=basis(shape, ()))


# ---- arithmetic on shapes -------------------------------------------------------------------------------------------


def shape_of(x):
    return x.shape if isinstance(x, Layout) else x


def product(x):
    """The product of all numbers in a nested tuple."""
    if type(x) is not tuple:
        return x
    result = 1
    for part in x:
        result *= product(part) if type(part) is tuple else part
    return result


def product_each(x):
    """The product of each mode."""
    return tuple(map(product, x)) if isinstance(x, tuple) else x


def ceil_div(a, b):
    """a / b rounded up, mode by mode; a tuple over an int divides its product, and an int over (n,) is an int."""
    if isinstance(b, tuple) and len(b) == 1 and not isinstance(a, tuple):
        return ceil_div(a, b[0])
    if not isinstance(b, tuple):
        return (product(a) + b - 1) // b
    if not isinstance(a, tuple) or len(a) < len(b):
        raise ValueError(f"ceil_div cannot divide {text(a)} by {text(b)}, which has more modes")
    return tuple(map(ceil_div, a, b)) + a[len(b) :]


def round_up(a, b):
    """The next multiple of b from a on, mode by mode; modes that b lacks stay."""
    if isinstance(a, tuple) != isinstance(b, tuple) or isinstance(a, tuple) and len(a) < len(b):
        raise ValueError(f"round_up cannot round {a} to multiples of {b}: their modes differ")
    if isinstance(a, tuple):
        return tuple(map(round_up, a, b)) + a[len(b) :]
    return (a + b - 1) // b * b


def shape_div(a, b):
    """a / b where one divides the other (1 if b is the multiple); b takes from the modes of a tuple in turn."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(a) != len(b):
            raise ValueError(f"shape_div needs tuples of one length, got {text(a)} and {text(b)}")
        return tuple(map(shape_div, a, b))
    if isinstance(a, tuple):
        result = []
        for part in a:
            result.append(shape_div(part, b))
            b = shape_div(b, product(part))
        return tuple(result)
    b = product(b)
    if a % b and b % a:
        raise ValueError(f"shape_div cannot divide {a} by {b}: neither is a multiple of the other")
    return a // b or 1


def size(x, mode=()) -> int:
    """The number of coordinates of a shape or layout, or of one mode of it."""
    return product(shape_of(get(x, mode)))


def cosize(layout: Layout, mode=()) -> int:
    """One more than the largest offset: the elements a buffer needs. ValueError for basis strides."""
    layout = get(layout, mode)
    result = 1
    for s, d in leaves(layout):
        if isinstance(d, Basis):
            raise ValueError(f"cosize needs a layout of offsets, but {layout} gives coordinates")
        result += (s - 1) * abs(d)
    return result


def rank(x, mode=()) -> int:
    """The number of modes at the top; 1 for a bare extent."""
    return len(as_tuple(shape_of(get(x, mode))))


def depth(x) -> int:
    """How deep the tuples nest; 0 for a bare extent."""
    x = shape_of(x)
    return 1 + max(map(depth, x), default=0) if isinstance(x, tuple) else 0


# ---- coordinates and offsets ----------------------------------------------------------------------------------------


def add_coordinates(a, b):
    """The sum of two offsets, or of two coordinate tuples with the shorter one padded by zeros."""
    if type(a) is int and a == 0:  # most parts of a coordinate; adding 0 to an array would copy it
        return b
    if type(b) is int and b == 0:
        return a
    if type(a) is not tuple and type(b) is not tuple:
        return a + b
    if type(a) is tuple and type(b) is tuple:
        return tuple([add_coordinates(p, q) for p, q in zip_longest(a, b, fillvalue=0)])
    coordinate, number = (a, b) if type(a) is tuple else (b, a)
    if isinstance(number, np.ndarray) or number != 0:
        raise ValueError(f"cannot add the offset {number} to the coordinate {text(coordinate)}")
    return coordinate


def _offset(coord, shape, stride):
    """The offset of a coordinate without None."""
    if type(shape) is not tuple:
        if type(coord) is tuple:
            raise _misfit(coord, shape)
        if type(stride) is Basis:
            return stride.at(coord)
        # stride 0 adds nothing to a number or to a coordinate
        return coord * stride if stride else 0
    if type(coord) is not tuple:
        return _offset(idx2crd(coord, shape), shape, stride)
    if len(coord) != len(shape):
        raise _misfit(coord, shape)
    total = 0
    for c, s, d in zip(coord, shape, stride, strict=True):
        leaf = type(d) is int and type(c) is not tuple  # most are: no call for these
        total = add_coordinates(total, (c * d if d else 0) if leaf else _offset(c, s, d))
    return total


def _misfit(coord, shape) -> ValueError:
    return ValueError(f"the coordinate {text(coord)} does not fit the shape {text(shape)}: give one number per mode")


def crd2idx(coord, shape, stride=None):
    """The offset of `coord` in a layout, in a shape and a stride, or in a shape alone (column-major)."""
    if isinstance(shape, Layout):
        shape, stride = shape.shape, shape.stride
    return _offset(coord, shape, _compact(shape) if stride is None else stride)


def idx2crd(idx, shape):
    """The coordinate in `shape` of a column-major index; a tuple of indices is taken apart mode by mode."""
    if type(idx) is tuple:
        if type(shape) is not tuple or len(idx) != len(shape):
            raise _misfit(idx, shape)
        return tuple(map(idx2crd, idx, shape))
    if isinstance(shape, Layout):
        raise ValueError(f"idx2crd needs a shape, got the layout {shape}")
    if type(shape) is not tuple:
        return idx
    result, last = [], len(shape) - 1
    for i, part in enumerate(shape):
        if i == last:
            result.append(idx2crd(idx, part))
        else:
            extent = product(part)
            result.append(idx2crd(idx % extent, part))
            idx = idx // extent
    return tuple(result)


@cached
def offsets(layout: Layout) -> np.ndarray:
    """Every offset in colexicographic order, int64, read-only: (size,), or (size, coordinates) for basis strides."""
    if any(isinstance(d, Basis) for _, d in leaves(layout)):
        n = size(layout)
        columns = flatten_to_tuple(layout(np.arange(n, dtype=np.int64)))
        result = np.stack([np.broadcast_to(c, (n,)) for c in columns], axis=1).astype(np.int64)
    else:
        result = np.zeros(1, np.int64)
        for s, d in leaves(layout):
            result = (np.arange(s, dtype=np.int64)[:, None] * d + result).ravel()
    result.flags.writeable = False
    return result


def slice_and_offset(coord, layout: Layout):
    """(sublayout, offset): the modes where `coord` is None, and what the other modes add: int, array or coordinate."""
    if coord is None:
        return layout, 0
    numbers = []
    part, offset, places = _sliced(_form(coord, numbers), layout)
    for number, (shape, stride) in zip(numbers, places, strict=True):
        offset = add_coordinates(offset, _offset(number, shape, stride))
    return part, offset


def _form(coord, numbers: list):
    """A coordinate with `...` for what only the run knows, which goes into `numbers`."""
    if type(coord) is tuple:
        return tuple([_form(c, numbers) for c in coord])
    if type(coord) is int or coord is None:
        return coord
    numbers.append(coord)
    return ...


@cached
def _sliced(form, layout: Layout) -> tuple:
    """(sublayout, offset of the known numbers, (shape, stride) of the modes of the others) of a coordinate's form."""
    shapes, strides, places = [], [], []
    offset = _slice(form, layout.shape, layout.stride, shapes, strides, places)
    return Layout(tuple(shapes), tuple(strides)), offset, tuple(places)


def _slice(coord, shape, stride, shapes, strides, places):
    if coord is ...:
        places.append((shape, stride))
        return 0
    if type(coord) is not tuple:
        return _offset(coord, shape, stride)
    if type(shape) is not tuple or len(coord) != len(shape):
        raise _misfit(coord, shape)
    total = 0
    for c, s, d in zip(coord, shape, stride, strict=True):
        if c is None:
            shapes.append(s)
            strides.append(d)
        else:
            total = add_coordinates(total, _slice(c, s, d, shapes, strides, places))
    return total


def slice_(x, coord):
    """The modes of a layout or tuple where `coord` is None; those found deeper come up to the top."""
    if isinstance(x, Layout):
        return slice_and_offset(coord, x)[0]
    return x if coord is None else _picked(x, coord, lambda c: c is None)


def dice(x, coord):
    """The modes of a layout or tuple where `coord` is not None: those that slice_ leaves out."""
    if isinstance(x, Layout):
        return Layout(dice(x.shape, coord), dice(x.stride, coord))
    if not isinstance(coord, tuple) and coord is not None:
        return x
    return _picked(x, coord, lambda c: c is not None)


def _picked(x, coord, wanted) -> tuple:
    if not isinstance(coord, tuple):
        return (x,) if wanted(coord) else ()
    if not isinstance(x, tuple) or len(coord) != len(x):
        raise _misfit(coord, x)
    return tuple(mode for part, c in zip(x, coord, strict=True) for mode in _picked(part, c, wanted))


# ---- the same modes, rearranged -------------------------------------------------------------------------------------


def flatten(x):
    """A layout or tuple without nesting; a bare leaf stays bare."""
    if isinstance(x, Layout):
        return Layout(flatten(x.shape), flatten(x.stride))
    return flatten_to_tuple(x) if isinstance(x, tuple) else x


def get(x, mode=()):
    """The mode at a path: get(x, [1, 0]) is part 0 of mode 1."""
    for i in as_tuple(mode) if isinstance(mode, int) else mode:
        x = x[i] if isinstance(x, Layout) else as_tuple(x)[i]
    return x


def _rearranged(x, change):
    """`change`, a function of a tuple of modes, on a tuple, or on shape and stride of a layout."""
    if isinstance(x, Layout):
        return Layout(change(as_tuple(x.shape)), change(as_tuple(x.stride)))
    return change(as_tuple(x))


def select(x, mode):
    """The modes listed, in that order."""
    return _rearranged(x, lambda parts: tuple(parts[i] for i in mode))


def group_modes(x, begin: int, end: int | None = None):
    """Modes begin to end - 1 as one nested mode; without `end`, all from begin on."""
    n = rank(x)
    end = n if end is None else end + n if end < 0 else end
    if not 0 <= begin < end <= n:
        raise ValueError(f"group_modes of {text(shape_of(x))} needs 0 <= begin < end <= {n}, got {begin} and {end}")
    return _rearranged(x, lambda parts: (*parts[:begin], parts[begin:end], *parts[end:]))


def append(x, extra, up_to_rank: int | None = None):
    """`extra` as a new last mode, or as many times as it takes to reach a rank."""
    return _extended(x, extra, up_to_rank, lambda parts, new: parts + new)


def prepend(x, extra, up_to_rank: int | None = None):
    """`extra` as a new first mode, or as many times as it takes to reach a rank."""
    return _extended(x, extra, up_to_rank, lambda parts, new: new + parts)


def _extended(x, extra, up_to_rank, combine):
    count = 1 if up_to_rank is None else up_to_rank - rank(x)
    if count <= 0:
        return x
    if isinstance(x, Layout):
        return join(combine(modes(x), (extra,) * count))
    return combine(as_tuple(x), (extra,) * count)
