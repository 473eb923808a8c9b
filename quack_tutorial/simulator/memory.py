"""Memory and how warps reach it: global arrays, shared memory of the blocks that run together, registers.

| memory   | array                                  | shared by                    |
|----------|----------------------------------------|------------------------------|
| global   | flat, one per kernel argument          | the grid                     |
| shared   | (blocks that run together, bytes)      | a block; a cluster by `mapa` |
| register | (blocks, threads, values)              | one thread                   |

Every access goes through `read` and `write` with static element offsets and a width: they check bounds and alignment,
record one event per warp instruction in the checked mode, and move the bits. Not covered: caches, timing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .context import STATE, WARP, fail, group, kernel_frame, line_of
from .numeric import DType, Int64, Value
from .trace import SMEM_BLOCK_BITS, Op, Space, TensorInfo

LANE_BIT = (np.uint64(1) << np.arange(WARP, dtype=np.uint64)).astype(np.uint64)


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
    """A thread's register array, for every thread of the group."""

    dtype: DType
    array: np.ndarray  # (B, T, values), carrier
    space = Space.NONE


@dataclass(frozen=True, eq=False)
class Pointer:
    """A typed pointer: memory, element offset (int or array a lane) and known alignment in bytes."""

    memory: object
    dtype: DType
    offset: object  # int, or int64 array (B|1, T|1): elements of dtype from the memory's start
    alignment: int = 1
    rows: object = None  # shared memory of another block of the cluster: its row, (B|1, T|1)

    @property
    def value_type(self) -> DType:
        return self.dtype

    element_type = value_type

    @property
    def memspace(self):
        return self.memory.space

    def __add__(self, count):
        if isinstance(count, Value):
            return replace(
                self, offset=self.offset + count.a.astype(np.int64), alignment=min(self.alignment, self.dtype.itemsize)
            )
        return replace(
            self, offset=self.offset + int(count), alignment=_gcd2(self.alignment, int(count) * self.dtype.itemsize)
        )

    __radd__ = __add__

    def address(self):
        """The byte address: in global memory, or within the block's shared memory."""
        base = self.memory.address if self.memory.space is Space.GMEM else 0
        return base + np.asarray(self.offset, np.int64) * self.dtype.itemsize

    def toint(self, **_) -> Value:
        return Value(Int64, np.atleast_2d(self.address()))

    def align(self, min_align: int, **_) -> Pointer:
        """The first pointer at or after this one whose address is a multiple of `min_align` bytes."""
        gap = -self.address() % min_align
        return replace(self, offset=self.offset + gap // self.dtype.itemsize, alignment=min_align)

    def shifted(self, offset, alignment: int) -> Pointer:
        return replace(self, offset=self.offset + offset, alignment=alignment)


def _gcd2(a: int, b: int) -> int:
    return int(np.gcd(a, b)) if b else a


# ---- registers ------------------------------------------------------------------------------------------------------


def make_registers(dtype: DType, count: int) -> Registers:
    blocks, threads = group().shape
    fill = STATE.run.poison(dtype)
    return Registers(dtype, np.full((blocks, threads, count), fill, dtype.carrier))


def _read_registers(pointer: Pointer, offsets: np.ndarray) -> np.ndarray:
    """A copy: a value that was read stays what it was when the register changes."""
    array = pointer.memory.array
    start = pointer.offset
    _check_registers(array, start, offsets)
    if isinstance(start, np.ndarray):
        index = np.broadcast_to(start[..., None] + offsets, array.shape[:2] + (len(offsets),))
        return np.take_along_axis(array, np.clip(index, 0, array.shape[2] - 1), axis=2)
    if offsets[-1] - offsets[0] == len(offsets) - 1 and (np.diff(offsets) == 1).all():
        return array[:, :, start + offsets[0] : start + offsets[0] + len(offsets)].copy()
    return array[:, :, start + offsets]


def _check_registers(array: np.ndarray, start, offsets: np.ndarray) -> None:
    low, high = start + int(offsets.min()), start + int(offsets.max())
    bad = (low < 0) | (high >= array.shape[2])
    if isinstance(bad, np.ndarray):
        off = group().lanes_off()
        bad = (bad if off is None else bad & off).any()
    if bad:
        worst = int(np.asarray(low).min()) if np.asarray(low).min() < 0 else int(np.asarray(high).max())
        raise fail("out of bounds", f"Out of bounds: register {worst} of a register tensor of {array.shape[2]}")


def _write_registers(pointer: Pointer, offsets: np.ndarray, new: np.ndarray, keep) -> None:
    array = pointer.memory.array
    start = pointer.offset
    _check_registers(array, start, offsets)
    if isinstance(start, np.ndarray):
        shape = array.shape[:2] + (len(offsets),)
        index = np.clip(np.broadcast_to(start[..., None] + offsets, shape), 0, array.shape[2] - 1)
        if keep is not None:
            new = np.where(keep, new, np.take_along_axis(array, index, axis=2))
        np.put_along_axis(array, index, np.broadcast_to(new, shape), axis=2)
        return
    whole = len(offsets) == array.shape[2] and (offsets == np.arange(len(offsets))).all()
    place = slice(None) if whole else start + offsets
    if keep is None:
        array[:, :, place] = new
    else:
        array[:, :, place] = np.where(keep, new, array[:, :, place])


# ---- global and shared ----------------------------------------------------------------------------------------------


def _flat_index(pointer: Pointer, chunk_starts: np.ndarray):
    """The flat array an access indexes and its element indices (B|1, T|1, chunks)."""
    offset = pointer.offset
    index = (offset[..., None] if isinstance(offset, np.ndarray) else np.int64(offset)) + chunk_starts
    if index.ndim == 1:
        index = index[None, None, :]
    if pointer.memory.space is Space.GMEM:
        return pointer.memory.flat(pointer.dtype), index
    launch = group().launch
    rows = group_rows() if pointer.rows is None else pointer.rows
    return launch.shared_flat(pointer.dtype), index + (rows * (launch.smem_stride // pointer.dtype.itemsize))[..., None]


def group_rows() -> np.ndarray:
    """The shared-memory row of each block of the group, (B, 1)."""
    return group().rows[:, None]


def _lanes(keep, chunks: int):
    """Lanes and chunks that take part: bool (B, T, chunks) or None for all."""
    off = group().lanes_off()
    if keep is None:
        return None if off is None else off[..., None]
    return keep if off is None else keep & off[..., None]


def starts(offsets: np.ndarray, width: int) -> np.ndarray:
    return offsets if width == 1 else offsets[::width]


def read(pointer: Pointer, offsets: np.ndarray, width: int = 1, keep=None) -> np.ndarray:
    """Elements (B|1, T|1, len(offsets)) in the carrier; `width` of them are one instruction. keep: (…, instructions)."""
    if isinstance(pointer.memory, Registers):
        return _read_registers(pointer, offsets)
    raw = read_raw(pointer, offsets, width, keep, Op.LOAD)
    return pointer.dtype.decode(raw)


def write(pointer: Pointer, offsets: np.ndarray, new: np.ndarray, width: int = 1, keep=None) -> None:
    """Store carrier values (broadcastable to (B, T, len(offsets)))."""
    if isinstance(pointer.memory, Registers):
        lanes = _lanes(keep, len(offsets) // width)
        if lanes is not None and lanes.shape[-1] != 1 and width > 1:
            lanes = np.repeat(lanes, width, axis=-1)
        _write_registers(pointer, offsets, new, lanes)
        return
    write_raw(pointer, offsets, pointer.dtype.encode(np.asarray(new)), width, keep)


def read_raw(pointer, offsets, width, keep, op) -> np.ndarray:
    first = starts(offsets, width)
    flat, index = _flat_index(pointer, first)
    lanes = _lanes(keep, len(first))
    check(pointer, first, width, lanes, op)
    record(pointer, first, width, lanes, op, flat, index)
    if lanes is not None:
        index = np.where(lanes, index, 0)
    return gather(flat, index, width)


def gather(flat, index, width) -> np.ndarray:
    if width == 1:
        return flat[index]
    if len(flat) % width == 0 and not (index % width).any():
        picked = flat.reshape(-1, width)[index // width]
    else:
        picked = flat[np.minimum(index[..., None] + np.arange(width), len(flat) - 1)]
    return picked.reshape(picked.shape[:2] + (-1,))


def write_raw(pointer, offsets, raw, width, keep) -> None:
    first = starts(offsets, width)
    flat, index = _flat_index(pointer, first)
    lanes = _lanes(keep, len(first))
    check(pointer, first, width, lanes, Op.STORE)
    if STATE.run.recorder is not None:
        shape = group().shape + (len(first), width)
        shown = np.broadcast_to(raw, group().shape + (len(offsets),)).reshape(shape)[..., 0]
        record(pointer, first, width, lanes, Op.STORE, flat, index, pointer.dtype.decode(shown))
    STATE.run.before_write(pointer.memory)
    scatter(flat, index, raw, width, lanes)


def scatter(flat, index, raw, width, lanes) -> None:
    shape = np.broadcast_shapes(index.shape[:2], raw.shape[:2], (1, 1) if lanes is None else lanes.shape[:2])
    chunks = index.shape[2]
    if group().shape != shape:
        shape = group().shape  # a uniform store is made by every lane
    index = np.broadcast_to(index, shape + (chunks,))
    raw = np.broadcast_to(raw, shape + (chunks * width,)).reshape(shape + (chunks, width))
    if lanes is None:
        if width > 1 and len(flat) % width == 0 and not (index % width).any():
            flat.reshape(-1, width)[index // width] = raw
        else:
            flat[index[..., None] + np.arange(width)] = raw
        return
    lanes = np.broadcast_to(lanes, shape + (chunks,))
    chosen, raw = index[lanes], raw[lanes]
    flat[chosen[:, None] + np.arange(width)] = raw


def check(pointer: Pointer, first, width: int, lanes, op: Op) -> None:
    """Raise for the first lane whose access is out of bounds or misaligned."""
    memory, size = pointer.memory, pointer.dtype.itemsize
    offset = pointer.offset
    index = (offset[..., None] if isinstance(offset, np.ndarray) else np.int64(offset)) + first
    if index.ndim == 1:
        index = index[None, None, :]
    if memory.space is Space.GMEM:
        if memory.dense and pointer.dtype is memory.dtype:
            bad = (index < 0) | (index > len(memory.array) - width)
        elif pointer.dtype is memory.dtype:
            bad = ~memory.inside(index, width)
        else:
            bad = (index < 0) | ((index + width) * size > memory.array.nbytes)
        base = memory.address
    else:
        begin = memory.start // size
        bad = (index < begin) | ((index + width) * size > memory.start + memory.nbytes)
        base = 0
    if lanes is not None:
        bad = bad & lanes
    if bad.any():
        _out_of_bounds(pointer, index, width, bad, op)
    if width > 1:
        bad = ((base + index * size) % (width * size)) != 0
        if lanes is not None:
            bad = bad & lanes
        if bad.any():
            _misaligned(pointer, index, width, bad, op, base)


def _first_lane(bad: np.ndarray):
    """(block, thread, chunk) of the first bad lane, and how many lanes are bad."""
    g = group()
    wide = np.broadcast_to(bad, g.shape + bad.shape[2:])
    b, t, c = (int(k[0]) for k in np.nonzero(wide))
    return int(g.blocks[b]), int(g.threads[t]), (b, t, c), int(wide.any(axis=2).sum())


def _out_of_bounds(pointer, index, width, bad, op):
    block, thread, place, count = _first_lane(bad)
    memory, size = pointer.memory, pointer.dtype.itemsize
    at = int(np.broadcast_to(index, group().shape + index.shape[2:])[place])
    verb = "writes" if op == Op.STORE else "reads"
    if memory.space is Space.GMEM:
        coordinate = ", ".join(str(c) for c in memory.coordinate(at))
        place_text = f"{memory.name}[{coordinate}]; {memory.name} is {_shape(memory.shape)}"
        advice = "Is the row or column predicate missing?"
    else:
        place_text = f"word {at - memory.start // size} of {memory.name}; it has {memory.nbytes // size}"
        advice = "Is the buffer large enough, and the index right?"
    raise fail(
        "out of bounds",
        f"Out of bounds: thread {thread} of block {block} {verb} {width * size} bytes at {place_text}. {advice}",
        block=block,
        threads=(thread,),
        addresses=(at,),
        count=count,
    )


def _misaligned(pointer, index, width, bad, op, base):
    block, thread, place, count = _first_lane(bad)
    memory, size = pointer.memory, pointer.dtype.itemsize
    at = int(np.broadcast_to(index, group().shape + index.shape[2:])[place])
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


def _shape(shape) -> str:
    return "(" + ", ".join(str(s) for s in shape) + ("," if len(shape) == 1 else "") + ")"


# ---- recording ------------------------------------------------------------------------------------------------------


def current_line(recorder) -> int:
    frame = kernel_frame()
    key = (frame.f_code.co_filename, frame.f_lineno)
    index = STATE.run.line_numbers.get(key)
    if index is None:
        line = line_of(key[0], key[1], frame.f_code.co_name)
        index = STATE.run.line_numbers[key] = recorder.line(line.file, line.number, line.text, line.function)
    return index


def tensor_index(recorder, memory) -> int:
    if memory.index < 0:
        memory.index = recorder.tensor(memory.info())
    return memory.index


def mask_bits(active: np.ndarray) -> int:
    return int(LANE_BIT[active].sum())


def lane_addresses(pointer: Pointer, index: np.ndarray) -> np.ndarray:
    """Byte addresses as the trace has them for flat indices (T, chunks) of one warp, before any masking."""
    size = pointer.dtype.itemsize
    if pointer.memory.space is Space.GMEM:
        return pointer.memory.address + index * size
    launch = group().launch
    per_block = launch.smem_stride // size
    row, inside = index // per_block, index % per_block
    return (launch.row_blocks[row] << SMEM_BLOCK_BITS) | (inside * size)


def record(pointer, first, width, lanes, op, flat, index, shown=None) -> None:
    """One trace row per instruction (per `width` elements) of the executing warp."""
    recorder = STATE.run.recorder
    if recorder is None:
        return
    g = group()
    line = current_line(recorder)
    tensor = tensor_index(recorder, pointer.memory)
    space = Space.DSMEM if pointer.rows is not None else pointer.memory.space
    index = np.broadcast_to(index, (1, WARP, index.shape[2]))[0]
    addresses = lane_addresses(pointer, index)
    active = np.broadcast_to(g.active()[..., None] if lanes is None else lanes, (1, WARP, index.shape[1]))[0]
    if shown is None and recorder.record_values:
        safe = np.clip(index, 0, len(flat) - 1)
        shown = pointer.dtype.decode(flat[safe])[None]
    if shown is not None:
        shown = np.broadcast_to(shown, (1, WARP, index.shape[1]))[0]
    for chunk in range(index.shape[1]):
        on = active[:, chunk]
        if not on.any():
            continue
        values = None if shown is None else np.where(on, shown[:, chunk].astype(np.float64), np.nan)
        recorder.event(
            int(g.blocks[0]),
            g.warp,
            line,
            op,
            mask_bits(on),
            space=space,
            tensor=tensor,
            nbytes=width * pointer.dtype.itemsize,
            addresses=np.where(on, addresses[:, chunk], -1),
            values=values,
        )


def record_event(op: Op, *, mask=None, **facts) -> int:
    """A trace row for an instruction that is not a memory access; returns its step (-1 when nothing is recorded)."""
    recorder = STATE.run.recorder
    if recorder is None:
        return -1
    g = group()
    active = g.active()[0] if mask is None else mask
    return recorder.event(int(g.blocks[0]), g.warp, current_line(recorder), op, mask_bits(active), **facts)
