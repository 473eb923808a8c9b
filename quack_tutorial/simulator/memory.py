"""Memory and how warps reach it: global arrays, shared memory of the blocks that run together, registers.

| memory   | array                                  | shared by                    |
|----------|----------------------------------------|------------------------------|
| global   | flat, one per kernel argument          | the grid                     |
| shared   | (blocks that run together, bytes)      | a block; a cluster by `mapa` |
| register | (blocks, threads, values)              | one thread                   |

Every access goes through `read` and `write` with static element offsets and a width: they check bounds and alignment,
record one event per warp instruction in the checked mode, and move the bits. Bounds are those of the coordinates where the
tensor knows them (a `Place`), else those of the addresses. Not covered: caches, timing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from quack_tutorial.trace import SMEM_BLOCK_BITS, Op, Space, TensorInfo

from .context import STATE, WARP, calls_to, executing, fail, group, here, kernel_frame, line_of, not_simulated, spread
from .exact import exact, plain, wide
from .numeric import Boolean, DType, Int64, Value, convert

LOWEST_ADDRESS = 1 << 28  # of global memory, see arguments.AddressSpace
FAR_BELOW = -(1 << 24)  # an index further below 0 was too large for an Int32: nobody counts back so far
REDUCES = 1  # of a bulk copy's row in the trace: `bytes` says that it adds to what it writes
CLUSTER_SHIFT = 20  # bits of an offset in shared memory below the block's rank
EVERY_LANE = 0xFFFFFFFF


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
        self.dense = len(self.array) == int(np.prod(self.shape, dtype=np.int64))
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
        values = wide(
            self.dtype.decode(shadows.load(self.array, np.arange(len(self.array), dtype=np.int64), self.array))
        )
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
        size = self.dtype.itemsize
        return TensorInfo(
            self.name,
            int(Space.GMEM),
            self.dtype.name,
            size,
            self.shape,
            self.stride,
            self.address,
            len(self.array) * size,
        )


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
        return TensorInfo(
            self.name,
            int(Space.SMEM),
            self.dtype.name,
            self.dtype.itemsize,
            self.shape,
            self.stride,
            self.start,
            self.nbytes,
        )


@dataclass(eq=False)
class Registers:
    """A thread's register array, for every thread of the group. Pointers to it may be of another type of the same or a
    greater width: what recast_tensor gives."""

    dtype: DType
    array: np.ndarray  # (B, T, values), carrier
    line: object = None  # trace.Line where they were made, in a run that looks for unwritten ones
    written: np.ndarray | None = None  # (B, T, values), in such a run
    pending: object = None  # trace.Line of a product that is to change them and has not been waited for
    changed: int = 0  # the store, by `RunState.writes`, that changed them last
    space = Space.NONE


@dataclass(eq=False)
class Either:
    """What a pointer points into that is one of two, lane by lane: a tensor rebound in a dynamic `if`."""

    condition: np.ndarray  # (B|1, T|1): which lanes have `yes`
    yes: Pointer
    no: Pointer

    @property
    def space(self) -> Space:
        return self.yes.memory.space

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


@dataclass(frozen=True, eq=False)
class Pointer:
    """A typed pointer: memory, element offset (int or array a lane) and known alignment in bytes."""

    memory: object
    dtype: DType
    offset: object  # int, or int64 array (B|1, T|1): elements of dtype from the memory's start
    alignment: int = 1
    rows: object = None  # shared memory of another block of the cluster: its row, (B|1, T|1)
    view: object = None  # (layout, coordinates) of the tensor whose first element this is, where they are known
    swizzle: object = (
        None  # (Swizzle, first element of the tensor that it permutes): `offset` counts before it is applied
    )
    rounded: tuple | None = (
        None  # what to say when a lane uses it that `align` has moved, and which those are (B|1, T|1)
    )

    @property
    def value_type(self) -> DType:
        return self.dtype

    element_type = value_type

    @property
    def memspace(self):
        return self.memory.space

    def __add__(self, count):
        if isinstance(count, Value):
            return self.shifted(count.a.astype(np.int64), min(self.alignment, self.dtype.itemsize))
        return self.shifted(int(count), _gcd2(self.alignment, int(count) * self.dtype.itemsize))

    __radd__ = __add__

    def __sub__(self, count):
        return self + -count

    def load(self, *, count=None, alignment=None, **_):
        """The element that it points to, or a vector of `count`."""
        if count is not None:
            from .hopper.arrays import load_elements

            return load_elements(self, count, alignment)
        return Value(self.dtype, read(self, np.zeros(1, np.int64))[..., 0])

    def store(self, value, *, alignment=None, **_) -> None:
        if hasattr(value, "to_elements"):
            from .hopper.arrays import store_elements

            store_elements(self, value, alignment)
            return
        write(self, np.zeros(1, np.int64), convert(value, self.dtype).a[..., None])

    @property
    def carried_type(self) -> str:
        """What must not change where a dynamic `if` or loop rebinds the pointer."""
        where = "distributed " if self.rows is not None else ""
        return f"{self.dtype} in {where}{SPACE_NAMES[self.memspace]}, aligned to {self.alignment} bytes"

    def either(self, condition: np.ndarray, other: Pointer) -> Pointer:
        """This pointer where `condition`, else the other."""
        if self.swizzle != other.swizzle:
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
        if (at % dtype.itemsize).any():
            raise fail("misaligned", f"a pointer to {dtype} must be at a multiple of {dtype.itemsize} bytes")
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
        if not gap.any():
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
        return Pointer(
            self.memory, self.dtype, self.offset, self.alignment, self.rows, view, self.swizzle, self.rounded
        )

    def shifted(self, offset, alignment: int) -> Pointer:
        at = self.offset + offset
        return Pointer(self.memory, self.dtype, at, alignment, self.rows, swizzle=self.swizzle, rounded=self.rounded)


def recast(pointer: Pointer, made: Pointer) -> Pointer:
    """A pointer with a swizzle, as one to another type."""
    from .hopper import swizzled  # which imports this module

    return swizzled.recast(pointer, made)


def pointer_at(dtype: DType, address, space=None, align=None) -> Pointer:
    """A pointer to `dtype` at a byte address (a Value or a number) in a kernel argument or in the block's shared memory.

    In shared memory the address is an offset, and above it, for another block of the cluster, one more than its rank.
    """
    at = address.a.astype(np.int64) if isinstance(address, Value) else np.full((1, 1), int(address), np.int64)
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
        memories = [(memory, memory.start, memory.nbytes) for memory in executing().launch.allocations.values()]
    for memory, start, nbytes in memories:
        if start <= first < start + max(nbytes, 1):
            base = 0 if memory.space is Space.SMEM else memory.address
            if (lanes_misaligned := (at - base) % dtype.itemsize).any():
                raise fail(
                    "misaligned",
                    f"a pointer to {dtype} is {int(lanes_misaligned.max())} bytes off a multiple of its size",
                )
            offset = (at - base) // dtype.itemsize
            return Pointer(
                memory, dtype, int(offset[0, 0]) if offset.size == 1 else offset, align or dtype.itemsize, rows
            )
    raise fail("out of bounds", f"Out of bounds: the address {first} belongs to no tensor that the kernel was given")


SPACE_NAMES = {Space.GMEM: "global memory", Space.SMEM: "shared memory", Space.NONE: "registers"}


def _gcd2(a: int, b: int) -> int:
    return int(np.gcd(a, b)) if b else a


@lru_cache(maxsize=4096)
def _span(offsets: bytes) -> tuple[int, int, bool]:
    """(lowest, highest, whether they follow each other) of int64 offsets, given as their bytes."""
    numbers = np.frombuffer(offsets, np.int64)
    return int(numbers.min()), int(numbers.max()), bool((np.diff(numbers) == 1).all())


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """The coordinates that an access touches in a kernel argument, one entry per dimension: a base (int, or (B|1, T|1)),
    and how far from it the instruction's lowest and highest elements are (int, or one per instruction)."""

    base: tuple
    low: tuple | None = None
    high: tuple | None = None

    def outside(self, shape: tuple):
        """Which lanes and instructions (…, instructions) leave the shape; None when none does."""
        bad = None
        low = self.low or (0,) * len(shape)
        high = self.high or low
        for b, lo, hi, extent in zip(self.base, low, high, shape):
            if _lowest(b) + _lowest(lo) >= 0 and _highest(b) + _highest(hi) < extent:
                continue
            b = b[..., None] if isinstance(b, np.ndarray) else np.full((1, 1, 1), b)
            wrong = (b + lo < 0) | (b + hi >= extent)
            bad = wrong if bad is None else bad | wrong
        return bad

    def coordinate(self, shape: tuple, block: int, thread: int, instruction: int) -> tuple:
        """Where one lane's instruction starts; `shape` is the group's with the instructions."""
        low = self.low or (0,) * len(self.base)
        whole = ((b[..., None] if isinstance(b, np.ndarray) else b) + lo for b, lo in zip(self.base, low))
        return tuple(int(np.broadcast_to(c, shape)[block, thread, instruction]) for c in whole)


def _lowest(x):
    return x.min() if isinstance(x, np.ndarray) else x


def _highest(x):
    return x.max() if isinstance(x, np.ndarray) else x


# ---- registers ------------------------------------------------------------------------------------------------------


def make_registers(dtype: DType, count: int) -> Registers:
    shape = (*executing().shape, count)
    run = STATE.run
    if run.unwritten is None and run.poisoned is None:
        array = np.full(shape, run.poison(dtype), dtype.carrier)
        return Registers(dtype, exact(array, array.astype(np.float64)) if STATE.exact and dtype.is_float else array)
    line = here()
    changed = run.poisoned is None or run.poisoned == line
    return Registers(dtype, np.full(shape, run.poison(dtype, changed), dtype.carrier), line, np.zeros(shape, bool))


def check_register_view(pointer: Pointer, dtype: DType) -> None:
    """Refuse to see registers as `dtype` where that takes a part of a register, or starts in the middle of a number."""
    made = pointer.memory.dtype
    if dtype.width < made.width or Boolean in (dtype, made) and dtype is not made:
        raise not_simulated(f"recast_tensor of {made} registers to {dtype}")
    if np.any(pointer.offset * pointer.dtype.itemsize % dtype.itemsize):
        raise fail("misaligned", f"recast_tensor to {dtype}: the registers start in the middle of such a number")


def _as_made(pointer: Pointer, offsets: np.ndarray):
    """A pointer of another type and its offsets as those of the registers' own type, and how many of these make one."""
    made = pointer.memory.dtype
    factor = pointer.dtype.itemsize // made.itemsize
    own = replace(pointer, dtype=made, offset=pointer.offset * factor)
    return own, (offsets[:, None] * factor + np.arange(factor, dtype=np.int64)).reshape(-1), factor


def _read_registers(pointer: Pointer, offsets: np.ndarray) -> np.ndarray:
    """A copy: a value that was read stays what it was when the register changes."""
    if pointer.dtype is not pointer.memory.dtype:
        own, places, _ = _as_made(pointer, offsets)
        raw = own.dtype.encode(_read_registers(own, places))
        return pointer.dtype.decode(np.ascontiguousarray(raw).view(pointer.dtype.storage))
    if pointer.memory.pending is not None:
        _refuse_pending(pointer.memory, "reads")
    array = pointer.memory.array
    start = pointer.offset
    _check_registers(array, start, offsets)
    if pointer.memory.written is not None:
        _note_unwritten(pointer.memory, start, offsets)
    if isinstance(start, np.ndarray):
        index = np.broadcast_to(start[..., None] + offsets, array.shape[:2] + (len(offsets),))
        return np.take_along_axis(array, np.clip(index, 0, array.shape[2] - 1), axis=2)
    if _span(offsets.tobytes())[2]:
        return array[:, :, start + offsets[0] : start + offsets[0] + len(offsets)].copy()
    return array[:, :, start + offsets]


def _refuse_pending(memory: Registers, verb: str) -> None:
    """An accumulator is used that products under way are to change."""
    raise fail(
        "read before arrival",
        f"Before arrival: this {verb} an accumulator that the product at {memory.pending.where} is still changing. "
        "Is warpgroup.wait_group missing, or does it leave that group under way?",
        lines=(here(), memory.pending),
        block=int(executing().blocks[0]),
    )


def _note_unwritten(memory: Registers, start, offsets: np.ndarray) -> None:
    """Keep the line of the first read of registers that no store has reached, in a run that looks for them."""
    run = STATE.run
    if run.unwritten is None or memory.line in run.unwritten:
        return
    index = np.asarray(start)[..., None] + offsets
    index = np.broadcast_to(index, memory.array.shape[:2] + (len(offsets),))
    unwritten = ~np.take_along_axis(memory.written, np.clip(index, 0, memory.array.shape[2] - 1), axis=2)
    if (unwritten.any(axis=2) & executing().active()).any():
        run.unwritten[memory.line] = here()


def _check_registers(array: np.ndarray, start, offsets: np.ndarray) -> None:
    lowest, highest, _ = _span(offsets.tobytes())
    low, high = start + lowest, start + highest
    bad = (low < 0) | (high >= array.shape[2])
    if isinstance(bad, np.ndarray):
        off = executing().lanes_off()
        bad = (bad if off is None else bad & off).any()
    if bad:
        worst = int(np.asarray(low).min()) if np.asarray(low).min() < 0 else int(np.asarray(high).max())
        raise fail("out of bounds", f"Out of bounds: register {worst} of a register tensor of {array.shape[2]}")


def _write_registers(pointer: Pointer, offsets: np.ndarray, new: np.ndarray, keep) -> None:
    STATE.run.writes += 1
    if pointer.dtype is not pointer.memory.dtype:
        own, places, factor = _as_made(pointer, offsets)
        raw = np.broadcast_to(pointer.dtype.encode(np.asanyarray(new)), np.shape(new)[:-1] + (len(offsets),))
        if keep is not None and keep.shape[-1] > 1:
            keep = np.repeat(keep, factor, axis=-1)
        _write_registers(own, places, own.dtype.decode(np.ascontiguousarray(raw).view(own.dtype.storage)), keep)
        return
    if pointer.memory.pending is not None:
        _refuse_pending(pointer.memory, "writes")
    pointer.memory.changed = STATE.run.writes
    array = pointer.memory.array
    start = pointer.offset
    _check_registers(array, start, offsets)
    if pointer.memory.written is not None:
        index = np.broadcast_to(np.asarray(start)[..., None] + offsets, array.shape[:2] + (len(offsets),)).copy()
        on = np.broadcast_to(True if keep is None else keep, index.shape)
        held = np.take_along_axis(pointer.memory.written, index, axis=2)
        np.put_along_axis(pointer.memory.written, index, held | on, axis=2)
    if isinstance(start, np.ndarray):
        shape = array.shape[:2] + (len(offsets),)
        index = np.clip(np.broadcast_to(start[..., None] + offsets, shape), 0, array.shape[2] - 1)
        if keep is not None:
            new = np.where(keep, new, np.take_along_axis(array, index, axis=2))
        np.put_along_axis(array, index, np.broadcast_to(new, shape), axis=2)
        return
    if _span(offsets.tobytes())[2]:
        place = slice(start + int(offsets[0]), start + int(offsets[0]) + len(offsets))
    else:
        place = start + offsets
    if keep is None:
        array[:, :, place] = new
    elif isinstance(place, slice):
        np.copyto(array[:, :, place], new, where=keep, casting="unsafe")
    else:
        array[:, :, place] = np.where(keep, new, array[:, :, place])


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
    index = _swizzled(pointer, index)
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
        return _read_registers(pointer, offsets)
    if isinstance(pointer.memory, Either):
        return pointer.memory.read(pointer, offsets, width, keep)
    raw = read_raw(pointer, offsets, width, keep, Op.LOAD, place)
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
        _write_registers(pointer, offsets, new, lanes)
        return
    write_raw(pointer, offsets, pointer.dtype.encode(np.asanyarray(new)), width, keep, place)


def read_raw(pointer, offsets, width, keep, op, place) -> np.ndarray:
    first = starts(offsets, width)
    flat, index = _flat_index(pointer, first)
    lanes = _lanes(keep, len(first))
    check(pointer, first, width, lanes, op, place)
    record(pointer, first, width, lanes, op, flat, index)
    if lanes is not None and not lanes.all():
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
    if len(flat) >= width and not (index & (width - 1)).any():
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
    STATE.run.before_write(pointer.memory)
    scatter(flat, index, raw, width, lanes)


def scatter(flat, index, raw, width, lanes) -> None:
    shape, chunks = executing().shape, index.shape[2]  # a uniform store is made by every lane
    index = spread(index, shape + (chunks,))
    raw = spread(raw, shape + (chunks * width,)).reshape(shape + (chunks, width))
    if lanes is not None and not lanes.all():
        lanes = np.broadcast_to(lanes, shape + (chunks,))
        index, raw = index[lanes], raw[lanes]
    if STATE.exact:
        STATE.run.shadows.store(flat, index[..., None] + np.arange(width, dtype=np.int64), raw)
        raw = plain(raw)
    wide = _WIDE.get(width * flat.itemsize)
    if width > 1 and wide is not None and not (index & (width - 1)).any():
        vectors = _vectors(flat, width).view(wide)[:, 0]
        vectors[index >> width.bit_length() - 1] = np.ascontiguousarray(raw).view(wide)[..., 0]
    elif width > 1:
        flat[index[..., None] + np.arange(width, dtype=np.int64)] = raw
    else:
        flat[index] = raw[..., 0]


def check(pointer: Pointer, first, width: int, lanes, op: Op, place: Place | None = None) -> None:
    """Raise for the first lane whose access is out of bounds or misaligned, or comes before the kernel ahead has ended."""
    memory = pointer.memory
    if pointer.rounded is not None:
        says, moved = pointer.rounded
        used = executing().active() if lanes is None else lanes.any(axis=-1)
        if says not in STATE.run.notes and (moved & used).any():
            STATE.run.notes.append(says)
    if STATE.group is not None and memory.space is Space.GMEM:
        if STATE.group.early is not None:
            _check_early(memory, STATE.group, lanes, op)
        STATE.group.launch.touch(memory, op)
    known = place is not None and memory.space is Space.GMEM
    bad = place.outside(memory.shape) if known else _outside(pointer, first, width)
    if bad is not None and lanes is not None:
        bad = bad & lanes
    if bad is not None and bad.any():
        _out_of_bounds(pointer, _elements(pointer, first), width, bad, op, place if known else None)
    if width == 1:
        return
    if pointer.swizzle is not None and width > pointer.swizzle[0].run:
        raise fail(
            "language",
            f"a copy of {width} elements at once from {memory.name}: its swizzle {pointer.swizzle[0]} keeps only "
            f"{pointer.swizzle[0].run} together",
        )
    base, size = memory.address if memory.space is Space.GMEM else 0, pointer.dtype.itemsize
    step = width * size
    if not (first % width).any() and not np.any((base + pointer.offset * size) % step):
        return
    index = _elements(pointer, first)
    bad = (base + index * size) % step != 0
    if lanes is not None:
        bad = bad & lanes
    if bad.any():
        _misaligned(pointer, index, width, bad, op, base)


def _elements(pointer: Pointer, first) -> np.ndarray:
    """The element indices (B|1, T|1, instructions) at which instructions start."""
    offset = pointer.offset
    offset = offset[..., None] if isinstance(offset, np.ndarray) else np.full((1, 1, 1), offset, np.int64)
    return _swizzled(pointer, offset + first)


def _swizzled(pointer: Pointer, index):
    """The elements at which those counted by the layout lie."""
    if pointer.swizzle is None:
        return index
    swizzle, origin = pointer.swizzle
    return origin + swizzle(index - origin)


def _outside(pointer: Pointer, first, width: int):
    """Which instructions reach outside their memory, by address; None when none does."""
    memory, size = pointer.memory, pointer.dtype.itemsize
    if memory.space is Space.GMEM:
        begin, end = 0, memory.array.nbytes // size
        whole = memory.dense or pointer.dtype is not memory.dtype
    else:
        begin, end, whole = memory.start // size, (memory.start + memory.nbytes) // size, True
    offset = pointer.offset
    if pointer.swizzle is not None:
        index = _elements(pointer, first)
        return (index < begin) | (index + width > end)
    if not whole:
        return ~memory.inside(_elements(pointer, first), width)
    lowest, highest, _ = _span(first.tobytes())
    if _lowest(offset) + lowest >= begin and _highest(offset) + highest + width <= end:
        return None
    index = _elements(pointer, first)
    return (index < begin) | (index + width > end)


def _first_lane(bad: np.ndarray):
    """(block, thread, chunk) of the first bad lane, and how many lanes are bad."""
    g = executing()
    wide = np.broadcast_to(bad, g.shape + bad.shape[2:])
    b, t, c = (int(k[0]) for k in np.nonzero(wide))
    return int(g.blocks[b]), int(g.threads[t]), (b, t, c), int(wide.any(axis=2).sum())


def _out_of_bounds(pointer, index, width, bad, op, known: Place | None):
    block, thread, place, count = _first_lane(bad)
    memory, size = pointer.memory, pointer.dtype.itemsize
    shape = executing().shape + index.shape[2:]
    at = int(np.broadcast_to(index, shape)[place])
    verb = "writes" if op == Op.STORE else "reads"
    if memory.space is Space.GMEM:
        element = at * size // memory.dtype.itemsize  # of the tensor's own type, whatever the pointer's is
        where = memory.coordinate(element) if known is None else known.coordinate(shape, *place)
        place_text = f"{memory.name}[{', '.join(map(str, where))}]; {memory.name} is {_shape(memory.shape)}"
        advice = _advice(where, thread, memory.name, known is not None)
    else:
        place_text = f"word {at - memory.start // size} of {memory.name}; it has {memory.nbytes // size}"
        advice = "Is the buffer large enough, and the index right?"
    raise fail(
        "out of bounds",
        f"Out of bounds: {_who(thread, block)} {verb} {width * size} bytes at {place_text}. {advice}",
        block=block,
        threads=(thread,),
        addresses=(at,),
        count=count,
    )


def _who(thread: int, block: int) -> str:
    return "the host function" if STATE.group is None else f"thread {thread} of block {block}"


def _advice(where: tuple, thread: int, name: str, known: bool) -> str:
    """What to ask of an access to a tensor outside its shape; `known` says that its coordinate is the tensor's own."""
    if min(where) < FAR_BELOW:
        meant = min(where) + 2**32
        return (
            f"An Int32 cannot hold {meant:,}, which wraps to {min(where):,}: the index has overflowed. Compute it in Int64, or "
            "from smaller numbers."
        )
    if min(where) < 0:
        return "Indices do not count from the end."
    if not known:
        return f"It was made over {name} with a layout of its own: does that reach too far, or is a predicate missing?"
    if STATE.group is None:
        return "Is the index right?"
    if thread == 0:
        return (
            "Even the block's first thread is outside: are the grid, the layout and the tile's coordinate right, or does a loop "
            "lack its predicate?"
        )
    return "Is the row or column predicate missing?"


def _misaligned(pointer, index, width, bad, op, base):
    block, thread, place, count = _first_lane(bad)
    memory, size = pointer.memory, pointer.dtype.itemsize
    at = int(np.broadcast_to(index, executing().shape + index.shape[2:])[place])
    over = (base + at * size) % (width * size)
    verb = "writes" if op == Op.STORE else "reads"
    raise fail(
        "misaligned",
        f"Misaligned: thread {thread} of block {block} {verb} {width * size} bytes of {memory.name} at an address that is "
        f"{over} past a multiple of {width * size}. Use a narrower copy, or align the row stride and the pointer.",
        block=block,
        threads=(thread,),
        addresses=(at,),
        count=count,
    )


def _check_early(memory, threads, lanes, op) -> None:
    """Raise for the first lane that has neither waited for the kernel before its own nor met one that has, unless that kernel is
    known and leaves `memory` alone."""
    early = threads.early & threads.active() if lanes is None else threads.early & lanes.any(axis=-1)
    if not early.any():
        return
    if threads.launch.ahead is None:
        why = (
            "With use_pdl=True a kernel may start while the one before it on the stream still writes: wait first, or meet a "
            "thread that has waited at a block barrier or a sync_warp. (What that kernel never touches needs no wait; launch "
            "both in one @cute.jit function, and the simulator knows.)"
        )
    else:
        ahead = threads.launch.disturbed_by(memory, op)
        if ahead is None:
            return
        why = (
            f"With use_pdl=True this kernel may start while {ahead.name}, which uses {memory.name}, still runs: wait first, or "
            "meet a thread that has waited at a block barrier or a sync_warp."
        )
    row, lane = np.argwhere(early)[0]
    block, thread = int(threads.blocks[row]), int(threads.threads[lane])
    verb = "writes" if op == Op.STORE else "reads"
    raise fail(
        "early access",
        f"Early access: thread {thread} of block {block} {verb} {memory.name} before griddepcontrol_wait. {why}",
        block=block,
        threads=(thread,),
        count=int(early.sum()),
    )


def _shape(shape) -> str:
    return "(" + ", ".join(str(s) for s in shape) + ("," if len(shape) == 1 else "") + ")"


# ---- recording ------------------------------------------------------------------------------------------------------


def current_line(recorder) -> tuple[int, int]:
    """The rows of the trace's lines and of its calls for what the kernel does now."""
    frame = kernel_frame()
    calls = calls_to(frame)
    key = (frame.f_code.co_filename, frame.f_lineno, calls)
    rows = STATE.run.line_numbers.get(key)
    if rows is None:
        line = line_of(key[0], key[1], frame.f_code.co_name)
        row = recorder.line(line.file, line.number, line.text, line.function)
        rows = STATE.run.line_numbers[key] = row, recorder.called_from(tuple(line_of(*call) for call in calls))
    return rows


def tensor_index(recorder, memory) -> int:
    if memory.index < 0:
        memory.index = recorder.tensor(memory.info())
    return memory.index


def mask_bits(active: np.ndarray) -> int:
    return int.from_bytes(np.packbits(active, bitorder="little").tobytes(), "little")


def lane_addresses(pointer: Pointer, index: np.ndarray) -> np.ndarray:
    """Byte addresses as the trace has them for flat indices (T, chunks) of one warp, before any masking."""
    size = pointer.dtype.itemsize
    if pointer.memory.space is Space.GMEM:
        return pointer.memory.address + index * size
    launch = executing().launch
    per_block = launch.smem_stride // size
    row, inside = index // per_block, index % per_block
    return (launch.row_blocks[row] << SMEM_BLOCK_BITS) | (inside * size)


def record(pointer, first, width, lanes, op, flat, index, shown=None, arg=0) -> None:
    """One trace row per instruction (per `width` elements) of the executing warp."""
    recorder = STATE.run.recorder
    if STATE.group is None and STATE.run.on_device and pointer.memory.space == Space.GMEM:
        raise fail(
            "host access",
            f"the host's code {'writes' if op == Op.STORE else 'reads'} a number of a tensor in the GPU's memory: only a "
            "@cute.kernel can touch it",
        )
    if recorder is None or STATE.group is None:  # what the host does is no kernel's
        return
    g = executing()
    line, call = current_line(recorder)
    tensor = tensor_index(recorder, pointer.memory)
    space = Space.DSMEM if pointer.rows is not None else pointer.memory.space
    index = spread(index, (1, WARP, index.shape[2]))[0]
    addresses = lane_addresses(pointer, index)
    every = lanes is None and g.lanes_off() is None
    active = spread(g.active()[..., None] if lanes is None else lanes, (1, WARP, index.shape[1]))[0]
    if shown is None and recorder.record_values:
        safe = np.clip(index, 0, len(flat) - 1)
        shown = pointer.dtype.decode(flat[safe])[None]
    if shown is not None:
        shown = spread(shown, (1, WARP, index.shape[1]))[0]
    for chunk in range(index.shape[1]):
        on = active[:, chunk]
        if not every and not on.any():
            continue
        values = None if shown is None else np.where(on, shown[:, chunk].astype(np.float64), np.nan)
        recorder.event(
            int(g.blocks[0]),
            g.warp,
            line,
            op,
            EVERY_LANE if every else mask_bits(on),
            space=space,
            tensor=tensor,
            nbytes=width * pointer.dtype.itemsize,
            addresses=addresses[:, chunk] if every else np.where(on, addresses[:, chunk], -1),
            values=values,
            arg=arg,
            call=call,
        )


def record_event(op: Op, *, mask=None, **facts) -> int:
    """A trace row for an instruction that is not a memory access; returns its step (-1 when nothing is recorded)."""
    recorder = STATE.run.recorder
    if recorder is None:
        return -1
    g = group()
    if mask is None:
        mask = None if g.lanes_off() is None else g.active()[0]
    bits = EVERY_LANE if mask is None else mask_bits(mask)
    line, call = current_line(recorder)
    return recorder.event(int(g.blocks[0]), g.warp, line, op, bits, call=call, **facts)
