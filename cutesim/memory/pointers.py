"""Memory and how warps reach it: global arrays, shared memory of the blocks that run together, registers.

| memory   | array                                  | shared by                    |
|----------|----------------------------------------|------------------------------|
| global   | flat, one per kernel argument          | the grid                     |
| shared   | (blocks that run together, bytes)      | a block; a cluster by `mapa` |
| register | (blocks, threads, values), `registers` | one thread                   |

Every access goes through `read` and `write` with static element offsets and a width: they check bounds and alignment (`bounds`),
record one event per warp instruction in the checked mode (`recording`), and move the bits. Not covered: caches, timing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod

import numpy as np

from cutesim.trace import Op, Space, TensorInfo

from ..context import STATE, all_of, any_of, executing, fail, here, not_simulated, refused, spread
from ..values.exact import plain, wide
from ..values.loaded import Loaded, loaded
from ..values.numeric import DType, Int64, Value, convert
from .bounds import check
from .recording import record, refuse_the_host
from .registers import Registers, check_register_view, read_registers, write_registers
from .swizzle import is_same, permuted, recast

LOWEST_ADDRESS = 1 << 28  # of global memory, see arguments.AddressSpace
REDUCES = 1  # of a bulk copy's row in the trace: `bytes` says that it adds to what it writes
CLUSTER_SHIFT = 20  # bits of an offset in shared memory below the block's rank


@dataclass(eq=False)
class GlobalMemory:
    """A kernel argument's elements, from its lowest to its highest address."""

    name: str
    dtype: DType
    array: np.ndarray  # 1-D, storage dtype
    shape: tuple
    stride: tuple  # elements
    address: int  # simulated byte address of element 0
    index: int = -1  # row in trace.tensors once recorded
    space = Space.GMEM

    def __post_init__(self):
        self.dense = len(self.array) == prod(self.shape)
        self.modes = sorted(zip(self.stride, self.shape), reverse=True)

    def flat(self, dtype: DType) -> np.ndarray:
        return self.array if dtype is self.dtype else self.array.view(dtype.storage)

    def inside(self, index: np.ndarray, count: int) -> np.ndarray:
        """Which runs of `count` elements from `index` lie wholly in the tensor (not in a gap between its rows)."""
        ok = (index >= 0) & (index + count <= len(self.array))
        if self.dense:
            return ok
        rest = index
        for stride, extent in self.modes:
            if extent == 1 or stride == 0:
                continue
            coordinate = rest // stride
            rest = rest - coordinate * stride
            ok = ok & (coordinate + (count - 1 if stride == 1 else 0) < extent)
        return ok & (rest == 0)

    def exactly(self, shadows) -> np.ndarray:
        """The tensor in float64, as nothing was rounded that a run with these shadows has stored."""
        every = np.arange(len(self.array), dtype=np.int64)
        values = wide(self.dtype.decode(shadows.load(self.array, every, self.array)))
        strides = tuple(s * values.itemsize for s in self.stride)
        return np.lib.stride_tricks.as_strided(values, self.shape, strides).copy()

    def coordinate(self, index: int) -> tuple:
        """The coordinate of a flat index, counted on past the end where it lies outside."""
        result = [0] * len(self.shape)
        for stride, mode in sorted(((s, i) for i, s in enumerate(self.stride)), reverse=True):
            if stride:
                result[mode], index = divmod(index, stride)
        return tuple(int(c) for c in result)

    def info(self) -> TensorInfo:
        return _info(self, self.address, len(self.array) * self.dtype.itemsize)


@dataclass(eq=False)
class SharedAllocation:
    """One `allocate_tensor` in a block's shared memory; the bytes live in `LaunchState.shared`."""

    name: str
    dtype: DType
    shape: tuple
    stride: tuple
    start: int  # byte offset in the block
    nbytes: int
    index: int = -1
    space = Space.SMEM

    def info(self) -> TensorInfo:
        return _info(self, self.start, self.nbytes)


def _info(memory, start: int, nbytes: int) -> TensorInfo:
    dtype, laid = memory.dtype, (memory.shape, memory.stride)
    return TensorInfo(memory.name, int(memory.space), dtype.name, dtype.itemsize, *laid, start, nbytes)


@dataclass(eq=False)
class Either:
    """What a pointer points into that is one of two, lane by lane: a tensor rebound in a dynamic `if`."""

    condition: np.ndarray  # (B|1, T|1): which lanes have `yes`
    yes: Pointer
    no: Pointer

    space = property(lambda self: self.yes.memory.space)

    @property
    def name(self) -> str:
        return " or ".join(getattr(p.memory, "name", "registers") for p in (self.yes, self.no))

    def sides(self, pointer: Pointer):
        """(condition, pointer) of each side that some lane has, executed under its mask."""
        g = executing()
        for condition, side in ((self.condition, self.yes), (~self.condition, self.no)):
            if (g.active() & condition).any():
                g.push(condition)
                yield condition, side.shifted(pointer.offset, pointer.alignment)
                g.pop()

    def read(self, pointer: Pointer, offsets, width, keep) -> np.ndarray:
        result = np.zeros((1, 1, len(offsets)), pointer.dtype.carrier)
        for condition, side in self.sides(pointer):
            result = np.where(condition[..., None], read(side, offsets, width, keep), result)
        return result


def _whole(count):
    """How many elements an index of a pointer leaps over."""
    if type(count) is int or isinstance(count, Value) and count.dtype.is_integer:
        return count
    raise refused(f"a pointer is indexed by a whole number, not by {count!r}; a tensor takes coordinates")


# Not frozen, which makes each four times as slow to make.
@dataclass(eq=False, slots=True, repr=False)
class Pointer:
    """A typed pointer: memory, element offset (int or array a lane) and known alignment in bytes. Nothing changes one."""

    memory: object
    dtype: DType
    offset: object  # int, or int64 array (B|1, T|1): elements of dtype from the memory's start
    alignment: int = 1
    rows: object = None  # shared memory of another block of the cluster: its row, (B|1, T|1)
    view: object = None  # (layout, coordinates) of the tensor whose first element this is, where they are known
    # (Swizzle, first element of the tensor that it permutes): `offset` counts before it is applied
    swizzle: object = None
    # what to say when a lane uses it that `align` has moved, and which those are (B|1, T|1)
    rounded: tuple | None = None

    def __repr__(self) -> str:
        """Without the numbers there, as where the compiler reads the source."""
        return f"Pointer({getattr(self.memory, 'name', 'registers')}, {self.dtype.name}, align {self.alignment})"

    value_type = property(lambda self: self.dtype)

    element_type = value_type

    memspace = property(lambda self: self.memory.space)

    def __add__(self, count):
        if isinstance(count, Value):
            return self.shifted(count.a.astype(np.int64), min(self.alignment, self.dtype.itemsize))
        return self.shifted(int(count), gcd(self.alignment, int(count) * self.dtype.itemsize))

    __radd__ = __add__

    def __sub__(self, count):
        return self + -count

    def __getitem__(self, count) -> Value:
        return (self + _whole(count)).load()

    def __setitem__(self, count, value) -> None:
        (self + _whole(count)).store(value)

    def __iter__(self):
        """One element after the other, and no end: as in the DSL, where it is traced for ever."""
        raise refused("iterating over a pointer does not end in the DSL; index it in a loop with range_constexpr")

    def load_elements(self, count, alignment):
        """A vector of neighbours; `hopper` has it."""
        raise not_simulated("Pointer.load(count=...)")

    def store_elements(self, vector, alignment) -> None:
        raise not_simulated("Pointer.store of a vector")

    def load(self, *, count=None, alignment=None, **_):
        """The element that it points to, or a vector of `count`."""
        if count is not None:
            return self.load_elements(count, alignment)
        return Value(self.dtype, read(self, np.zeros(1, np.int64))[..., 0])

    def store(self, value, *, alignment=None, **_) -> None:
        if hasattr(value, "to_elements"):
            self.store_elements(value, alignment)
            return
        write(self, np.zeros(1, np.int64), convert(value, self.dtype).a[..., None])

    @property
    def carried_type(self) -> str:
        """What must not change where a dynamic `if` or loop rebinds the pointer."""
        where = "distributed " if self.rows is not None else ""
        return f"{self.dtype} in {where}{SPACE_NAMES[self.memspace]}, aligned to {self.alignment} bytes"

    def either(self, condition: np.ndarray, other: Pointer) -> Pointer:
        """This pointer where `condition`, else the other."""
        if not is_same(self.swizzle, other.swizzle):
            raise not_simulated("a tensor that a dynamic `if` rebinds to one of another swizzle")
        if self.memory is not other.memory or isinstance(self.memory, Either):
            return Pointer(Either(condition, self, other), self.dtype, 0, self.alignment)
        rows = None if self.rows is None else np.where(condition, self.rows, other.rows)
        same = type(self.offset) is int and type(other.offset) is int and self.offset == other.offset
        offset = self.offset if same else np.where(condition, self.offset, other.offset)
        return Pointer(self.memory, self.dtype, offset, self.alignment, rows, swizzle=self.swizzle)

    def address(self):
        """The byte address: in global memory, or within the block's shared memory."""
        if isinstance(self.memory, Either):
            both = (p.shifted(self.offset, 1).address() for p in (self.memory.yes, self.memory.no))
            return np.where(self.memory.condition, *both)
        base = self.memory.address if self.memory.space is Space.GMEM else 0
        return base + np.asarray(self.offset, np.int64) * self.dtype.itemsize

    max_alignment = property(lambda self: self.alignment)
    ptr = property(lambda self: self)  # of a number in a cute.struct

    @property
    def llvm_ptr(self) -> Pointer:
        """The pointer itself: what inline assembly takes."""
        return self

    def recast(self, dtype: DType) -> Pointer:
        """The same address as a pointer to another type."""
        if isinstance(self.memory, Registers):
            check_register_view(self, dtype)
        at = np.asarray(self.offset) * self.dtype.itemsize
        bad = at % dtype.itemsize != 0
        if (bad & executing().active() if bad.ndim else bad).any():
            text = f"a pointer to {dtype} must be at a multiple of {dtype.itemsize} bytes"
            raise fail("misaligned", text)
        offset = at // dtype.itemsize
        made = Pointer(self.memory, dtype, offset if offset.ndim else int(offset), self.alignment, self.rows)
        return made if self.swizzle is None else recast(self, made)

    def toint(self, **_) -> Value:
        """The address as a number: of another block of the cluster its rank and one more, above the offset."""
        if self.rows is None:
            return Value(Int64, np.atleast_2d(self.address()))
        g = executing()
        first = g.rows[:, None] // g.launch.cluster_size * g.launch.cluster_size
        return Value(Int64, np.atleast_2d(self.address() | (self.rows - first + 1) << CLUSTER_SHIFT))

    def align(self, min_align: int, **_) -> Pointer:
        """The first pointer at or after this one whose address is a multiple of `min_align` bytes: it rounds up, and is no
        promise. A kernel that goes on to use a pointer to a tensor that it moved is told so."""
        gap = -self.address() % min_align
        if not any_of(gap):
            return replace(self, alignment=min_align)
        moved = self.shifted(gap // self.dtype.itemsize, min_align)
        if self.memory.space is not Space.GMEM:
            return moved
        says = (
            f"{here().where}: align({min_align}) moved a pointer to {self.memory.name} up to the next multiple of {min_align} "
            "bytes, as it does on a GPU: what is read or written through it begins later than before."
        )
        return replace(moved, rounded=(says, gap != 0))

    def seen_as(self, view) -> Pointer:
        """The pointer with another view, which `replace` takes three times as long to make."""
        return self._at(self.offset, self.alignment, view)

    def shifted(self, offset, alignment: int) -> Pointer:
        return self._at(self.offset + offset, alignment, None)

    def _at(self, offset, alignment: int, view) -> Pointer:
        return Pointer(self.memory, self.dtype, offset, alignment, self.rows, view, self.swizzle, self.rounded)


def pointer_at(dtype: DType, address, space=None, align=None) -> Pointer:
    """A pointer to `dtype` at a byte address (a Value or a number) in a kernel argument or in the block's shared memory.

    In shared memory the address is an offset, and above it, for another block of the cluster, one more than its rank.
    """
    at = np.atleast_2d(address.a if isinstance(address, Value) else int(address)).astype(np.int64)
    lanes = np.broadcast_to(at, executing().shape)[executing().active()]
    first, rows = int(lanes[0]), None
    if space is not Space.SMEM and first >= LOWEST_ADDRESS:
        memories = [(memory, memory.address, memory.array.nbytes) for memory in STATE.run.arguments]
    elif space is Space.GMEM:
        raise fail("out of bounds", f"Out of bounds: {first} is no address in global memory")
    else:
        rank = at >> CLUSTER_SHIFT
        at = at & ((1 << CLUSTER_SHIFT) - 1)
        first = int(np.broadcast_to(at, executing().shape)[executing().active()][0])
        if (rank > 0).any():
            size = executing().launch.cluster_size
            rows = np.where(rank > 0, group_rows() // size * size + rank - 1, group_rows())
        allocations = executing().launch.allocations.values()
        memories = [(memory, memory.start, memory.nbytes) for memory in allocations]
    for memory, start, nbytes in memories:
        if start <= first < start + max(nbytes, 1):
            base = 0 if memory.space is Space.SMEM else memory.address
            offset, off = np.divmod(at - base, dtype.itemsize)
            if off.any():
                text = f"a pointer to {dtype} is {int(off.max())} bytes off a multiple of its size"
                raise fail("misaligned", text)
            offset = int(offset[0, 0]) if offset.size == 1 else offset
            return Pointer(memory, dtype, offset, align or dtype.itemsize, rows)
    text = f"Out of bounds: the address {first} belongs to no tensor that the kernel was given"
    raise fail("out of bounds", text)


SPACE_NAMES = {Space.GMEM: "global memory", Space.SMEM: "shared memory", Space.NONE: "registers"}


# ---- global and shared ----------------------------------------------------------------------------------------------


def _flat_index(pointer: Pointer, chunk_starts: np.ndarray):
    """The flat array an access indexes and its element indices (B|1, T|1, chunks)."""
    if isinstance(pointer.memory, Either):
        raise not_simulated("this use of a tensor that a dynamic `if` rebinds")
    offset = pointer.offset
    index = (offset[..., None] if isinstance(offset, np.ndarray) else np.int64(offset)) + chunk_starts
    if index.ndim == 1:
        index = index[None, None, :]
    if pointer.memory.space is Space.GMEM:
        return pointer.memory.flat(pointer.dtype), index
    index = permuted(pointer, index)
    launch = executing().launch
    rows = group_rows() if pointer.rows is None else pointer.rows
    return launch.shared_flat(pointer.dtype), index + (rows * (launch.smem_stride // pointer.dtype.itemsize))[..., None]


def group_rows() -> np.ndarray:
    """The shared-memory row of each block of the group, (B, 1)."""
    return executing().rows[:, None]


def _lanes(keep, chunks: int):
    """Lanes and chunks that take part: bool (B, T, chunks) or None for all."""
    off = executing().lanes_off()
    if keep is None:
        return None if off is None else off[..., None]
    return keep if off is None else keep & off[..., None]


def starts(offsets: np.ndarray, width: int) -> np.ndarray:
    return offsets if width == 1 else offsets[::width]


def read(pointer: Pointer, offsets: np.ndarray, width: int = 1, keep=None, place=None) -> np.ndarray:
    """Elements (B|1, T|1, len(offsets)) in the carrier; `width` of them are one instruction. keep: (…, instructions)."""
    if isinstance(pointer.memory, Registers):
        return read_registers(pointer, offsets)
    if isinstance(pointer.memory, Either):
        return pointer.memory.read(pointer, offsets, width, keep)
    raw = read_raw(pointer, offsets, width, keep, Op.LOAD, place)
    if STATE.run.follows and pointer.memory.space is Space.GMEM:
        raw = loaded(raw)
    return pointer.dtype.decode(raw)


def write(pointer: Pointer, offsets: np.ndarray, new: np.ndarray, width: int = 1, keep=None, place=None) -> None:
    """Store carrier values (broadcastable to (B, T, len(offsets)))."""
    if isinstance(pointer.memory, Either):
        for _, side in pointer.memory.sides(pointer):
            write(side, offsets, new, width, keep)
        return
    if isinstance(pointer.memory, Registers):
        lanes = _lanes(keep, len(offsets) // width)
        if lanes is not None and lanes.shape[-1] != 1 and width > 1:
            lanes = np.repeat(lanes, width, axis=-1)
        write_registers(pointer, offsets, new, lanes)
        return
    write_raw(pointer, offsets, pointer.dtype.encode(np.asanyarray(new)), width, keep, place)


def read_raw(pointer, offsets, width, keep, op, place, arg=0) -> np.ndarray:
    first = starts(offsets, width)
    flat, index = _flat_index(pointer, first)
    lanes = _lanes(keep, len(first))
    check(pointer, first, width, lanes, op, place)
    waits = Loaded in (type(index), type(lanes))
    record(pointer, first, width, lanes, op, flat, index, arg=arg, arg2=int(waits))
    if lanes is not None and not all_of(lanes):
        index = np.where(lanes, index, 0)
    return gather(flat, index, width)


def gather(flat, index, width) -> np.ndarray:
    if STATE.exact:
        whole = (index[..., None] + np.arange(width, dtype=np.int64)).reshape(*index.shape[:2], -1)
        whole = np.minimum(whole, len(flat) - 1)
        return STATE.run.shadows.load(flat, whole, flat[whole])
    if width == 1:
        return flat.take(index)
    # Ten times as fast as single elements; a tensor may be smaller than a vector that no lane reads.
    if len(flat) >= width and not any_of(index & (width - 1)):
        picked = _vectors(flat, width).take(index >> width.bit_length() - 1, axis=0)
    else:
        picked = flat[np.minimum(index[..., None] + np.arange(width, dtype=np.int64), len(flat) - 1)]
    return picked.reshape(picked.shape[:2] + (-1,))


def _vectors(flat: np.ndarray, width: int) -> np.ndarray:
    """The whole vectors of a flat array, (vectors, width); `width` is a power of 2."""
    return flat[: len(flat) & -width].reshape(-1, width)


# Numbers as wide as a vector: numpy moves one such number faster than the elements it stands for.
_WIDE = {2: np.int16, 4: np.int32, 8: np.int64, 16: np.complex128}


def write_raw(pointer, offsets, raw, width, keep, place) -> None:
    first = starts(offsets, width)
    flat, index = _flat_index(pointer, first)
    lanes = _lanes(keep, len(first))
    check(pointer, first, width, lanes, Op.STORE, place)
    if STATE.run.recorder is not None and STATE.group is not None:
        shape = executing().shape + (len(first), width)
        shown = spread(raw, executing().shape + (len(offsets),)).reshape(shape)[..., 0]
        record(pointer, first, width, lanes, Op.STORE, flat, index, pointer.dtype.decode(shown))
    refuse_the_host(pointer, Op.STORE)
    STATE.run.before_write(pointer.memory)
    scatter(flat, index, raw, width, lanes)


def scatter(flat, index, raw, width, lanes) -> None:
    shape, chunks = executing().shape, index.shape[2]  # a uniform store is made by every lane
    index = spread(index, shape + (chunks,))
    raw = spread(raw, shape + (chunks * width,)).reshape(shape + (chunks, width))
    if lanes is not None and not all_of(lanes):
        lanes = spread(lanes, shape + (chunks,))
        index, raw = index[lanes], raw[lanes]
    if STATE.exact:
        STATE.run.shadows.store(flat, index[..., None] + np.arange(width, dtype=np.int64), raw)
        raw = plain(raw)
    wide = _WIDE.get(width * flat.itemsize)
    if width > 1 and wide is not None and not any_of(index & (width - 1)):
        vectors = _vectors(flat, width).view(wide)[:, 0]
        vectors[index >> width.bit_length() - 1] = np.ascontiguousarray(raw).view(wide)[..., 0]
    elif width > 1:
        flat[index[..., None] + np.arange(width, dtype=np.int64)] = raw
    else:
        flat[index] = raw[..., 0]
