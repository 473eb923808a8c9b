"""Tensors: a pointer (or a coordinate) with a layout, sliced and accessed as CuTe does.

`Tensor` is data in global memory, shared memory or registers. `CoordinateTensor` is what make_identity_tensor gives: its
elements are coordinates, for predicates. Beside every view of a kernel argument goes the same view of its coordinates
(`Tensor.coords`): an access past the end of a row is then seen, although its address lies in the next row. Where the
coordinates are lost (recast_tensor, arithmetic on the iterator, make_tensor with another layout), addresses decide.

Of composed layouts only a swizzle of a plain layout, in shared memory (`swizzle`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd

import numpy as np

from ..context import (
    STATE,
    SimulationError,
    any_of,
    executing,
    fail,
    first_lane,
    not_simulated,
    refused,
    spread,
    wrong_kind,
)
from ..layouts import layout as la
from ..layouts import layout_algebra as algebra
from ..layouts.layout import Layout, has_none
from ..layouts.layout import offsets as element_offsets
from ..values.numeric import Boolean, DType, Int32, Int64, TensorSSA, Value, convert, type_of
from ..values.package_methods import Open, indexed_by_a_package, is_python_s
from .bounds import Place
from .pointers import SPACE_NAMES, Pointer, read, write
from .registers import Registers, check_register_view, make_registers
from .swizzle import OF_ADDRESSES, ComposedLayout

SWIZZLED = "a swizzle of the layout's"  # the view of a pointer whose tensor has one


def plain(coord):
    """A coordinate whose dynamic numbers are int64 arrays, for the layout functions."""
    if type(coord) is int or coord is None:
        return coord
    if isinstance(coord, tuple):
        return tuple([plain(c) for c in coord])
    if isinstance(coord, Value):
        if not coord.dtype.is_integer:
            raise refused(f"a coordinate must be an integer, got {coord.dtype}")
        return coord.a.astype(np.int64)
    return coord


ZERO = np.zeros(1, np.int64)
INT32_MOST = 2**31 - 1


@lru_cache(maxsize=4096)
def contiguous_run(layout: Layout) -> int:
    """How many consecutive elements, in column-major order, are consecutive in memory, from every run's start."""
    offsets = element_offsets(layout)
    run = n = len(offsets)
    while run > 1:
        if n % run == 0:
            rows = offsets.reshape(-1, run)
            if (rows - rows[:, :1] == np.arange(run, dtype=np.int64)).all():
                return run
        run -= 1
    return 1


@lru_cache(maxsize=4096)
def stride_gcd(layout: Layout) -> int:
    """The greatest common divisor of the strides, 0 for none."""
    return gcd(*(la.divisor(d) for n, d in la.leaves(layout) if n != 1 and isinstance(d, int)))


@lru_cache(maxsize=4096)
def as_promised(layout: Layout) -> Layout:
    """The layout with strides of which nothing holds but what the compiler knows: multiples of their divisors, far apart."""

    def stride(x):
        if isinstance(x, tuple):
            return tuple(map(stride, x))
        return x.div * 1_048_577 if type(x) is la.Extent else x

    return layout if la.is_static(layout.stride) else Layout(layout.shape, stride(layout.stride))


def hidden(x):
    """Numbers of a shape or stride that are known only when the kernel runs, as extents: they are the same in all threads."""
    if type(x) is int or x is None:
        return x
    if isinstance(x, (tuple, list)):
        return tuple(map(hidden, x))
    if not isinstance(x, Value):
        return x
    g = STATE.group
    of_threads = x.a.reshape(-1) if g is None else spread(x.a, g.shape)[g.active()]
    if any_of(of_threads != of_threads[0]):
        raise not_simulated("a layout that is not the same in all threads")
    return la.Extent(int(of_threads[0]), 1, 64 if x.dtype.width == 64 else 32)


def shown(x):
    """A shape, stride or coordinate as the kernel sees it: what is known only when it runs is a value."""
    if type(x) is tuple:
        return x if la.is_static(x) else tuple(map(shown, x))
    return convert(int(x), Int64 if x.bits == 64 else Int32) if type(x) is la.Extent else x


@lru_cache(maxsize=4096)
def _widest_run(layout: Layout) -> int:
    """The most elements, a power of 2, that lie together from every so many on, at a multiple of that from the first."""
    layout = as_promised(layout)
    run, offsets, width = contiguous_run(layout), element_offsets(layout), 1
    while run % (width * 2) == 0 and not (offsets[:: width * 2] % (width * 2)).any():
        width *= 2
    return width


def access_width(tensor: Tensor, limit_bytes: int = 16) -> int:
    """Elements per instruction that alignment and contiguity allow: what .load(), .store() and autovec_copy use."""
    size, pointer = tensor.dtype.itemsize, tensor.pointer
    most = min(_widest_run(tensor.layout), limit_bytes // size)
    if pointer.swizzle is not None:
        most = min(most, pointer.swizzle[0].run)
    width = 1
    while width * 2 <= most and pointer.alignment % (width * 2 * size) == 0:
        width *= 2
    return width


class _Laid:
    """What has a layout, and the methods that a package adds."""

    __slots__ = ("layout",)

    shape = property(lambda self: self.layout.shape)
    stride = property(lambda self: self.layout.stride)

    def __getattr__(self, name: str):
        found = None if name.startswith("__") else TENSORS.method(name, self)
        if found is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return found


class Tensor(_Laid):
    """A tensor a kernel can touch: `.iterator` points, `.layout` maps coordinates to elements.

    `coords` gives the coordinate of each element in the kernel argument that the tensor is a view of, None if not known.
    """

    __slots__ = ("pointer", "coords")

    def __init__(self, pointer: Pointer, layout: Layout, coords: CoordinateTensor | None = None):
        self.pointer = pointer
        self.layout = layout
        self.coords = coords

    @property
    def iterator(self) -> Pointer:
        """The pointer; it remembers the view, so that make_tensor(t.iterator, t.layout) is t again."""
        # A swizzle that counts from the tensor's start is the layout's: the pointer has none.
        if self.pointer.swizzle is not None and self.pointer.swizzle[1] is not OF_ADDRESSES:
            origin = self.pointer.swizzle[1]
            return replace(self.pointer, offset=origin, swizzle=None).seen_as((SWIZZLED, None))
        if self.coords is None:
            return self.pointer
        return self.pointer.seen_as((self.layout, self.coords))

    element_type = property(lambda self: self.pointer.dtype)

    dtype = element_type

    @property
    def type(self) -> str:
        """What a kernel prints of a tensor while tracing, in our words."""
        return f"tensor<{self.element_type}, {SPACE_NAMES[self.memspace]}, {self.layout}>"

    memspace = property(lambda self: self.pointer.memory.space)

    def __repr__(self) -> str:
        name = getattr(self.pointer.memory, "name", "registers")
        return f"Tensor({name}, {self.element_type}, {self.layout})"

    @property
    def carried_type(self) -> str:
        """What must not change where a dynamic `if` or loop rebinds the tensor."""
        return f"{self.layout} of {self.pointer.carried_type}"

    def either(self, condition: np.ndarray, other: Tensor) -> Tensor:
        """This tensor where `condition`, else the other."""
        pointer = self.pointer.either(condition, other.pointer)
        mine, theirs = self.coords, other.coords
        known = pointer.memory is self.pointer.memory and mine is not None and theirs is not None
        if not known or mine.layout != theirs.layout:
            return Tensor(pointer, self.layout)
        base = tuple(a if a is b else np.where(condition, a, b) for a, b in zip(mine.base, theirs.base))
        return Tensor(pointer, self.layout, CoordinateTensor(base, mine.layout))

    def relaid(self, function) -> Tensor:
        """The tensor with its layout changed by `function`, a function of a layout."""
        layout = function(self.layout)
        coords = None if self.coords is None else _relaid(self.coords, function, layout)
        return Tensor(self.pointer, layout, coords)

    def place(self, width: int = 1) -> Place | None:
        """The coordinates that an access of all elements, `width` an instruction, touches."""
        if self.coords is None:
            return None
        return Place(self.coords.base, *coordinate_spans(self.coords.layout, len(self.coords.base), width))

    def moved(self, offset, layout: Layout, full=None, coords=None) -> Tensor:
        """The tensor from `offset` elements on. `full` is the layout that was sliced: its strides bound the alignment."""
        pointer = self.pointer
        size = pointer.dtype.itemsize
        if isinstance(offset, np.ndarray):
            step = stride_gcd(full or layout) * size
            align = gcd(pointer.alignment, step) if step else pointer.alignment
        else:
            known = la.divisor(offset) * size
            offset = int(offset)
            align = gcd(pointer.alignment, known) if offset or known else pointer.alignment
        return Tensor(pointer.shifted(offset, align), layout, coords)

    def __getitem__(self, coord):
        if is_python_s(coord):
            return indexed_by_a_package(TENSORS, self, "__getitem__", coord)
        if has_none(coord):
            at = plain(coord)
            sub, offset = la.slice_and_offset(at, self.layout)
            self._require_32_bits(coord, offset)
            coords = None if self.coords is None else self.coords.sliced(at)
            full = _dropped(coord, self.layout) if isinstance(offset, np.ndarray) else None
            return self.moved(offset, sub, full, coords)
        pointer, offsets, place = self._element(coord)
        return Value(self.dtype, read(pointer, offsets, place=place)[..., 0])

    def __iter__(self):
        """One element after the other, and no end: as in the DSL, where sum(tensor) is traced for ever."""
        for i in range(la.size(self.layout)):
            yield self[i]
        raise refused(
            f"iterating over a tensor, here of {la.size(self.layout)} elements, does not end in the DSL. Loop over its indices; "
            "a sum is .load().reduce(cute.ReductionOp.ADD, 0.0, 0)",
        )

    def _reachable(self) -> None:
        """The DSL has no plain loads and stores of another block's shared memory."""
        if self.pointer.rows is not None:
            raise refused(
                "a tensor over map_dsmem_ptr has no element access, load or store; copy it with cute.autovec_copy, or send with "
                "cute.arch.store_async_dsmem",
            )

    def __setitem__(self, coord, value) -> None:
        if is_python_s(coord):
            return indexed_by_a_package(TENSORS, self, "__setitem__", coord, value)
        if has_none(coord):
            part = self[coord]
            if isinstance(value, TensorSSA):
                part.store(value)
            else:
                part.fill(value)
            return
        source = type_of(value)
        if source is None:
            raise wrong_kind(f"cannot store a {type(value).__name__} in a {self.dtype} tensor", value)
        if not _holds(self.dtype, source):
            raise refused(f"cannot store {source} in a {self.dtype} tensor; convert it: cutlass.{self.dtype}(...)")
        pointer, offsets, place = self._element(coord)
        write(pointer, offsets, convert(value, self.dtype).a[..., None], place=place)

    def _require_32_bits(self, coord, offset) -> None:
        """An offset that is computed in 32 bits must fit: CuTe DSL 4.8.1 does so unless a coordinate or a stride has 64."""
        if not isinstance(offset, np.ndarray) or not reaches_far(self.layout) or _is_wide(coord):
            return
        g = executing()
        far = (np.abs(offset) > INT32_MOST) & g.active()
        if far.any():
            at, facts = first_lane(far)
            raise fail(
                "overflow",
                f"Overflow: thread {facts['threads'][0]} of block {facts['block']} computes the offset "
                f"{int(np.broadcast_to(offset, g.shape)[at]):,} in {getattr(self.pointer.memory, 'name', 'registers')}, which "
                f"does not fit 32 bits: the layout {self.layout} is static and the coordinate Int32. Convert the coordinate to "
                "Int64, or compile with a dynamic layout, whose strides have 64 bits.",
                **facts,
            )

    def _element(self, coord):
        self._reachable()
        at = plain(coord)
        offset = la.crd2idx(at, self.layout.shape, self.layout.stride)
        self._require_32_bits(coord, offset)
        pointer = self.pointer
        place = None if self.coords is None else Place(self.coords.at(at))
        if isinstance(offset, np.ndarray):
            if isinstance(pointer.memory, Registers) and not isinstance(pointer.offset, np.ndarray):
                return Pointer(pointer.memory, pointer.dtype, offset + pointer.offset), ZERO, None
            return pointer.shifted(offset, 1), ZERO, place
        return pointer, np.array([offset], np.int64), place

    def _whole(self) -> tuple:
        """(the offsets of all elements, how many of them an instruction moves)."""
        self._reachable()
        return element_offsets(self.layout), 1 if isinstance(self.pointer.memory, Registers) else access_width(self)

    def load(self, **_) -> TensorSSA:
        """All elements as a register vector; global and shared memory are read as wide as alignment allows."""
        offsets, width = self._whole()
        return TensorSSA(self.dtype, read(self.pointer, offsets, width, place=self.place(width)), self.shape)

    def store(self, value, **_) -> None:
        """Write a register vector of the same size; its type may be narrower than the tensor's."""
        offsets, width = self._whole()
        if not isinstance(value, TensorSSA):
            raise wrong_kind(f"store takes a TensorSSA, got {type(value).__name__}; use fill for one number", value)
        if not _holds(self.dtype, value.dtype):
            raise refused(f"cannot store {value.dtype} values in a {self.dtype} tensor; add .to(cutlass.{self.dtype})")
        if len(offsets) != value.a.shape[-1]:
            raise refused(f"cannot store {value.shape} in a tensor of shape {self.shape}")
        write(self.pointer, offsets, convert(value, self.dtype).a, width, place=self.place(width))

    def fill(self, value) -> None:
        offsets, width = self._whole()
        new = convert(value, self.dtype).a[..., None]
        write(self.pointer, offsets, new, width, place=self.place(width))


@lru_cache(maxsize=4096)
def reaches_far(layout: Layout) -> bool:
    """Whether some offset needs more than 32 bits and the strides do not say so."""
    for n, d in la.leaves(layout):
        if n != 1 and (isinstance(d, la.Basis) or d > INT32_MOST or getattr(d, "bits", 32) == 64):
            return False
    return la.cosize(layout) > INT32_MOST


def _is_wide(coord) -> bool:
    if isinstance(coord, tuple):
        return any(map(_is_wide, coord))
    return isinstance(coord, Value) and coord.dtype.width == 64


def _dropped(coord, layout: Layout) -> Layout:
    """What `coord` fixes, as a layout whose strides say what the offset divides by: of a constant, the offset that it makes."""
    shapes, strides = [], []

    def walk(c, shape, stride):
        if c is None:
            return
        if isinstance(c, tuple) and isinstance(shape, tuple):
            for part in zip(c, shape, stride):
                walk(*part)
        elif type(c) is int and type(stride) is int:
            if c:
                shapes.append(2)  # any but 1
                strides.append(c * stride)
        else:
            shapes.append(shape)
            strides.append(stride)

    walk(coord, layout.shape, layout.stride)
    return la.Layout(tuple(shapes), tuple(strides)) if shapes else layout


def _holds(target: DType, source: DType) -> bool:
    """Whether the DSL stores a `source` in a tensor of `target` without a conversion: as wide or wider, of the same kind.

    A Python number counts as Boolean, Int32 or Float32. Signs do not matter, nor which of the 16-bit floats it is.
    """
    if target is source or target is Boolean:
        return target is source
    return source.is_float == target.is_float and source.width <= target.width


@dataclass(frozen=True)
class CoordinateIterator:
    """The first coordinate of a tensor of coordinates."""

    base: tuple


class CoordinateTensor(_Laid):
    """A tensor whose elements are coordinates: from make_identity_tensor, then tiled and partitioned like the data."""

    __slots__ = ("base",)

    def __init__(self, base: tuple, layout: Layout):
        self.base = base  # one int or array per dimension
        self.layout = layout

    element_type = dtype = Int32

    type = property(lambda self: f"coordinates<{self.layout}>")

    def __repr__(self) -> str:
        return f"CoordinateTensor({self.layout})"

    @property
    def iterator(self) -> CoordinateIterator:
        """Where it begins: make_tensor(t.iterator, layout) is the same coordinates in another order."""
        return CoordinateIterator(self.base)

    def relaid(self, function) -> CoordinateTensor:
        return CoordinateTensor(self.base, function(self.layout))

    def sliced(self, at) -> CoordinateTensor:
        """The part where the coordinate `at` has None."""
        sub, offset = la.slice_and_offset(at, self.layout)
        return CoordinateTensor(_add_coordinates(self.base, offset), sub)

    def at(self, at) -> tuple:
        """The element at a coordinate: one int or array per dimension."""
        return _add_coordinates(self.base, la.crd2idx(at, self.layout.shape, self.layout.stride))

    __iter__ = None  # Python would count up for ever

    def __getitem__(self, coord):
        if is_python_s(coord):
            return indexed_by_a_package(TENSORS, self, "__getitem__", coord)
        if has_none(coord):
            return self.sliced(plain(coord))
        return _coordinate_values(self.at(plain(coord)))


TENSORS = Open("_Tensor", Tensor, CoordinateTensor)


def _add_coordinates(base, offset):
    if isinstance(base, tuple):
        if not isinstance(offset, tuple):
            offset = (offset,) + (0,) * (len(base) - 1)
        offset = offset + (0,) * (len(base) - len(offset))
        return tuple(map(_add_coordinates, base, offset))
    if type(base) is int and base == 0:
        return offset
    return base if type(offset) is int and offset == 0 else base + offset


def _relaid(coords: CoordinateTensor, function, layout: Layout) -> CoordinateTensor | None:
    """The coordinates of a tensor whose layout `function` made `layout`; None where they cannot follow."""
    try:
        twin = function(coords.layout)
    except (ValueError, SimulationError):
        return None
    if twin.shape != layout.shape or not _gives_coordinates(twin):
        return None
    return CoordinateTensor(coords.base, twin)


@lru_cache(maxsize=4096)
def _gives_coordinates(layout: Layout) -> bool:
    return all(isinstance(stride, la.Basis) or stride == 0 for stride in la.flatten_to_tuple(layout.stride))


@lru_cache(maxsize=4096)
def coordinate_spans(layout: Layout, dimensions: int, width: int) -> tuple:
    """(lowest, highest) coordinate of each run of `width` elements, per dimension: an int where all runs have the same."""
    offsets = la.offsets(layout)
    columns = offsets.T if offsets.ndim == 2 else ()
    lows, highs = [], []
    for i in range(dimensions):
        runs = columns[i].reshape(-1, width) if i < len(columns) else np.zeros((1, 1), np.int64)
        lows.append(_single(runs.min(axis=1)))
        highs.append(_single(runs.max(axis=1)))
    return tuple(lows), tuple(highs)


def _single(a: np.ndarray):
    return int(a[0]) if (a == a[0]).all() else a


def _coordinate_values(coordinate):
    if isinstance(coordinate, tuple):
        return tuple(_coordinate_values(c) for c in coordinate)
    if isinstance(coordinate, np.ndarray):
        return Value(Int32, coordinate.astype(np.int32))
    return shown(coordinate) if type(coordinate) is la.Extent else int(coordinate)


# ---- construction ---------------------------------------------------------------------------------------------------


def make_tensor(iterator, layout) -> Tensor:
    layout = layout if isinstance(layout, ComposedLayout) else as_layout(layout)
    if isinstance(layout, ComposedLayout):
        return _of_composed(iterator, layout)
    if isinstance(iterator, Pointer) and iterator.view is not None:
        known, coords = iterator.view
        if known == SWIZZLED:
            raise not_simulated(
                "make_tensor of the iterator of a tensor whose layout has a swizzle, with a layout without one,"
            )
        return Tensor(iterator.seen_as(None), layout, coords if layout == known else None)
    if isinstance(iterator, CoordinateIterator):
        return CoordinateTensor(iterator.base, layout)
    if isinstance(iterator, tuple):
        return CoordinateTensor(tuple(plain(c) for c in iterator), layout)
    if not isinstance(iterator, Pointer):
        raise not_simulated(f"make_tensor over {type(iterator).__name__}")
    return Tensor(iterator, layout)


def _of_composed(iterator, layout: ComposedLayout) -> Tensor:
    """A tensor whose layout has a swizzle, which counts from where the iterator points to."""
    if not isinstance(iterator, Pointer):
        raise not_simulated(f"make_tensor over {type(iterator).__name__} with a layout that has a swizzle")
    if iterator.swizzle is not None:
        raise not_simulated("make_tensor of a pointer with a swizzle and a layout with another")
    moved = {"offset": iterator.offset + layout.offset, "swizzle": (layout.inner, iterator.offset)}
    return Tensor(replace(iterator.seen_as(None), **moved), layout.outer)


def make_identity_tensor(shape, **_) -> CoordinateTensor:
    shape = hidden(shape)
    zero = lambda s: tuple(zero(p) for p in s) if isinstance(s, tuple) else 0  # noqa: E731
    return CoordinateTensor(zero(shape), la.make_identity_layout(shape))


def make_rmem_tensor(layout_or_shape, dtype: DType, **_) -> Tensor:
    layout = as_layout(layout_or_shape)
    if not la.is_static(layout.shape):
        raise refused(
            f"registers need a shape known while tracing, and this one is {layout.shape}, where ? is known only when the kernel "
            "runs; cut a static tile first, for example with cute.local_tile",
        )
    return Tensor(Pointer(make_registers(dtype, la.cosize(layout)), dtype, 0, 16), layout)


def make_rmem_tensor_like(tensor, dtype: DType | None = None, **_) -> Tensor:
    """Registers of the same shape: compact, in the order of the source's strides."""
    if isinstance(tensor, Layout):
        if dtype is None:
            raise refused("make_rmem_tensor_like of a layout needs a dtype")
        source = tensor
    elif isinstance(tensor, TensorSSA):
        source, dtype = la.make_layout(tensor.shape), dtype or tensor.dtype
    else:
        source, dtype = tensor.layout, dtype or tensor.element_type
    if dtype is Boolean or isinstance(tensor, CoordinateTensor):
        source = la.make_layout(source.shape)
    return make_rmem_tensor(fragment_layout(source), dtype)


@lru_cache(maxsize=4096)
def fragment_layout(layout: Layout) -> Layout:
    """make_fragment_like: compact, modes in the order of their strides; stride 0 stays 0."""
    shape = layout.shape
    if not isinstance(shape, tuple):
        return la.make_layout(shape)
    flat = la.leaves(layout)
    if any(not isinstance(d, int) for _, d in flat):
        return la.make_layout(shape)
    order = sorted(range(len(flat)), key=lambda i: (flat[i][1], i))
    result, size = [0] * len(flat), 1
    for i in order:
        extent, d = flat[i]
        result[i] = size if d else 0
        size *= extent if d else 1
    it = iter(result)
    rebuild = lambda s: tuple(rebuild(p) for p in s) if isinstance(s, tuple) else next(it)  # noqa: E731
    return Layout(shape, rebuild(shape))


def as_layout(x) -> Layout:
    if isinstance(x, Layout):
        return x
    if isinstance(x, (int, tuple, Value)):
        return la.make_layout(hidden(x))
    raise wrong_kind(f"a layout or a shape is needed, got {type(x).__name__}", x)


def local_tile(tensor, tiler, coord, proj=None, **_):
    """The tile at `coord` when the tensor is cut into `tiler`-sized tiles (the last ones may be ragged)."""
    if proj is not None:
        tiler = tuple(t for t, p in zip(tiler, proj) if p is not None)
        # Coordinates past those that `proj` speaks of are for the tensor's further modes.
        coord = tuple(c for c, p in zip(coord, proj) if p is not None) + tuple(coord[len(proj) :])
    view = tensor.relaid(lambda layout: algebra.zipped_divide(layout, tiler))
    divided = view.layout
    coord = coord if isinstance(coord, tuple) else (coord,)
    missing = la.rank(divided.shape[1]) - len(coord)
    inner = (None,) * la.rank(divided.shape[0])
    return view[(inner, coord + (None,) * missing)]


def on_layout(function, name=""):
    """Lift a layout function to tensors (the pointer stays, the layout changes), to layouts with a swizzle (which stays) and to
    numbers known when the kernel runs."""

    def lifted(x, *args, **kwargs):
        kwargs.pop("loc", None)
        kwargs.pop("ip", None)
        args, kwargs = tuple(map(hidden, args)), {k: hidden(v) for k, v in kwargs.items()}
        if isinstance(x, (Tensor, CoordinateTensor)):
            return x.relaid(lambda layout: function(layout, *args, **kwargs))
        if isinstance(x, ComposedLayout):
            return replace(x, outer=function(x.outer, *args, **kwargs))
        return shown(function(hidden(x), *args, **kwargs))

    lifted.__name__ = name or function.__name__
    return lifted


def domain_offset(coord, tensor, **_):
    """The tensor with its origin moved to `coord`; the shape stays."""
    at = plain(_zeros_for_none(coord))
    if isinstance(tensor, CoordinateTensor):
        return CoordinateTensor(tensor.at(at), tensor.layout)
    offset = la.crd2idx(at, tensor.layout.shape, tensor.layout.stride)
    coords = None if tensor.coords is None else domain_offset(coord, tensor.coords)
    full = _dropped(_zeros_for_none(coord), tensor.layout) if isinstance(offset, np.ndarray) else None
    return tensor.moved(offset, tensor.layout, full, coords)


def _zeros_for_none(coord):
    """None in an offset leaves its mode where it is."""
    if isinstance(coord, tuple):
        return tuple(map(_zeros_for_none, coord))
    return 0 if coord is None else coord


def recast_tensor(tensor: Tensor, dtype: DType, *_, **__) -> Tensor:
    """The same bytes as elements of another type. Of registers: not of a narrower one than they were made with."""
    pointer = tensor.pointer
    if isinstance(pointer.memory, Registers):
        check_register_view(pointer, dtype)
    offset = pointer.offset * pointer.dtype.itemsize // dtype.itemsize
    layout = algebra.recast_layout(dtype.width, tensor.dtype.width, tensor.layout)
    if pointer.swizzle is not None:
        return Tensor(pointer.recast(dtype), layout)
    return Tensor(Pointer(pointer.memory, dtype, offset, pointer.alignment, pointer.rows), layout)
