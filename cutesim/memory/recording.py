"""The trace of a checked run: one row for each instruction of a warp.

`record` is for accesses to memory, `record_event` for everything else. Nothing is recorded in the fast mode. Warps that run in step
write to a `log.Log` instead.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from cutesim.trace import SMEM_BLOCK_BITS, Op, Space

from ..context import STATE, WARP, NeedsWarps, executing, fail, frames_to, group, kernel_frame, line_at, spread

EVERY_LANE = 0xFFFFFFFF


def current_line(recorder) -> tuple[int, int]:
    """The rows of the trace's lines and of its calls for what the kernel does now.

    Frames say cheaply at which instruction they are, but not at which line; so that is asked once an instruction.
    """
    if STATE.run.played is not None:
        return STATE.run.played
    frames = frames_to(kernel_frame())
    codes = [frame.f_code for frame in frames]
    key = (*map(id, codes), *[frame.f_lasti for frame in frames])
    found = STATE.run.line_numbers.get(key)
    if found is None:
        line, *calls = map(line_at, frames)
        row = recorder.line(line), recorder.called_from(tuple(calls))
        # It keeps the codes alive, so that an id stays its own.
        found = STATE.run.line_numbers[key] = row, codes
    return found[0]


def tensor_index(recorder, memory) -> int:
    if memory.index < 0:
        memory.index = recorder.tensor(memory.info())
    return memory.index


def lane_addresses(pointer, index: np.ndarray) -> np.ndarray:
    """Byte addresses as the trace has them for flat indices (T, chunks) of one warp, before any masking."""
    size = pointer.dtype.itemsize
    if pointer.memory.space is Space.GMEM:
        return pointer.memory.address + index * size
    g = executing()
    launch, row = g.launch, g.rows[0]
    per_block = launch.smem_stride // size
    if pointer.rows is None and g.warp >= 0:
        return (launch.row_blocks[row] << SMEM_BLOCK_BITS) + (index - row * per_block) * size
    row, inside = index // per_block, index % per_block
    # Lanes that are off may hold any index.
    return (np.take(launch.row_blocks, row, mode="clip") << SMEM_BLOCK_BITS) | (inside * size)


class Row(NamedTuple):
    """An instruction of one warp: what `TraceRecorder.event` is told, with memories in place of their numbers."""

    at: tuple  # rows of the recorder's lines and calls
    op: Op
    bits: int
    space: int = 0
    memory: object = None
    nbytes: int = 0
    addresses: np.ndarray | None = None
    values: np.ndarray | None = None
    arg: int = 0
    arg2: int = 0
    sources: np.ndarray | None = None
    source: object = None  # the memory of `sources`

    def write(self, recorder, block: int, warp: int, at: tuple) -> None:
        """Add it to the trace; `at` is its place in the trace's own lines and calls."""
        tensor = -1 if self.memory is None else tensor_index(recorder, self.memory)
        if self.source is not None:
            tensor_index(recorder, self.source)
        _, op, bits, space, _, nbytes, addresses, values, arg, arg2, sources, _ = self
        facts = {"addresses": addresses, "values": values, "sources": sources, "arg": arg, "arg2": arg2, "call": at[1]}
        recorder.event(block, warp, at[0], op, bits, space=space, tensor=tensor, nbytes=nbytes, **facts)


def refuse_the_host(pointer, op) -> None:
    """Raise where the host's code touches a tensor that is taken for a GPU's."""
    if STATE.group is None and STATE.run.on_device and pointer.memory.space == Space.GMEM:
        raise fail(
            "host access",
            f"the host's code {'writes' if op == Op.STORE else 'reads'} a number of a tensor in the GPU's memory: only a "
            "@cute.kernel can touch it",
        )


def record(pointer, first, width, lanes, op, flat, index, shown=None, arg=0, arg2=0) -> None:
    """One trace row per instruction (per `width` elements) of the executing warp."""
    recorder = STATE.run.recorder
    refuse_the_host(pointer, op)
    if recorder is None or STATE.group is None:  # what the host does is no kernel's
        return
    g = executing()
    if g.warp < 0 and (op is Op.ATOMIC or arg):  # each depends on who has come before
        raise NeedsWarps
    shape = (*g.shape, index.shape[2])
    index = spread(index, shape)
    if shown is None and recorder.record_values:
        shown = pointer.dtype.decode(flat[np.minimum(np.maximum(index, 0), len(flat) - 1)])
    if shown is not None:
        shown = spread(shown, shape).astype(np.float64)
    active = None
    if lanes is not None or g.lanes_off() is not None:
        active = spread(g.active()[..., None] if lanes is None else lanes, shape)
    facts = {"space": Space.DSMEM if pointer.rows is not None else pointer.memory.space, "memory": pointer.memory}
    facts |= {"nbytes": width * pointer.dtype.itemsize, "arg": arg, "arg2": arg2}
    record_accesses(op, active, lane_addresses(pointer, index), shown, **facts)


def record_accesses(op: Op, active, addresses, values=None, sources=None, **facts) -> None:
    """A row for each warp and chunk with an active lane; arrays are (B, T, chunks), `active` None = every lane."""
    recorder, g = STATE.run.recorder, group()
    at, block = current_line(recorder), int(g.blocks[0])
    if active is not None:
        addresses = np.where(active, addresses, -1)
        values = None if values is None else np.where(active, values, np.nan)
        active = bits_by_warp(_by_warp(active)).tolist()
    addresses, values, sources = (None if a is None else _by_warp(a) for a in (addresses, values, sources))
    blocks, chunks, warps, _ = addresses.shape
    for b, c, w in itertools.product(range(blocks), range(chunks), range(warps)):
        bits = EVERY_LANE if active is None else active[b][c][w]
        if bits:
            value = None if values is None else values[b, c, w]
            far = None if sources is None or (sources[b, c, w] < 0).all() else sources[b, c, w]
            row = Row(at, op, bits, addresses=addresses[b, c, w], values=value, sources=far, **facts)
            if g.warp < 0:
                recorder.here[b][w].append(row)
            else:
                row.write(recorder, block, g.warp, at)


def _by_warp(a: np.ndarray) -> np.ndarray:
    """(B, chunks, warps, 32) of (B, T, chunks)."""
    a = a.transpose(0, 2, 1)
    if a.shape[2] == WARP:
        return a[:, :, None]
    return np.ascontiguousarray(a).reshape(*a.shape[:2], -1, WARP)


def record_event(op: Op, *, mask=None, **facts) -> int:
    """A trace row for an instruction that is not a memory access; returns its step (-1 when nothing is recorded)."""
    recorder = STATE.run.recorder
    if recorder is None:
        return -1
    g = group()
    if g.warp < 0:
        recorder.instruction(g, op, mask, **facts)
        return -1
    if mask is None:
        mask = None if g.lanes_off() is None else g.active()[0]
    bits = EVERY_LANE if mask is None else int(bits_by_warp(mask))
    line, call = current_line(recorder)
    return recorder.event(int(g.blocks[0]), g.warp, line, op, bits, call=call, **facts)


def bits_by_warp(active: np.ndarray) -> np.ndarray:
    """The 32-bit masks of (..., 32) lanes."""
    return np.packbits(np.ascontiguousarray(active), axis=-1, bitorder="little").view("<u4")[..., 0]


def record_branch(g, taken: np.ndarray, left: np.ndarray) -> None:
    """A row for each warp whose lanes part, where some are `taken` and some `left`; of the group's shape."""
    taken, left = (lanes.reshape(len(g.blocks), -1, WARP) for lanes in (taken, left))
    bits = bits_by_warp(left)
    if g.warp >= 0:
        record_event(Op.BRANCH, mask=taken[0, 0], arg=int(bits[0, 0]))
        return
    part = taken.any(axis=2) & left.any(axis=2)
    record_event(Op.BRANCH, mask=taken & part[..., None], arg=bits)
