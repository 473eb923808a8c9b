"""The trace of a checked run: one row for each instruction of a warp.

`record` is for accesses to memory, `record_event` for everything else. Nothing is recorded in the fast mode. Warps that run in step
write to a `log.Log` instead.
"""

from __future__ import annotations

import numpy as np

from cutesim.trace import SMEM_BLOCK_BITS, Op, Space

from ..context import STATE, WARP, executing, fail, frames_to, group, kernel_frame, line_of, spread

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
        line, *calls = (line_of(code.co_filename, frame.f_lineno, code.co_name) for code, frame in zip(codes, frames))
        row = recorder.line(line.file, line.number, line.text, line.function), recorder.called_from(tuple(calls))
        found = STATE.run.line_numbers[key] = row, codes  # keeps them alive, so that an id stays its own
    return found[0]


def tensor_index(recorder, memory) -> int:
    if memory.index < 0:
        memory.index = recorder.tensor(memory.info())
    return memory.index


def mask_bits(active: np.ndarray) -> int:
    return int.from_bytes(np.packbits(active, bitorder="little").tobytes(), "little")


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


def record(pointer, first, width, lanes, op, flat, index, shown=None, arg=0, arg2=0) -> None:
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
    if g.warp < 0:
        recorder.accesses(g, pointer, width, lanes, op, flat, index, shown, arg, arg2)
        return
    line, call = current_line(recorder)
    tensor = tensor_index(recorder, pointer.memory)
    space = Space.DSMEM if pointer.rows is not None else pointer.memory.space
    index = spread(index, (1, WARP, index.shape[2]))[0]
    addresses = lane_addresses(pointer, index)
    if shown is None and recorder.record_values:
        safe = np.minimum(np.maximum(index, 0), len(flat) - 1)
        shown = pointer.dtype.decode(flat[safe])[None]
    if shown is not None:
        shown = spread(shown, (1, WARP, index.shape[1]))[0].astype(np.float64)
    every = lanes is None and g.lanes_off() is None
    if not every:
        active = spread(g.active()[..., None] if lanes is None else lanes, (1, WARP, index.shape[1]))[0]
        addresses = np.where(active, addresses, -1)
        shown = None if shown is None else np.where(active, shown, np.nan)
    block, nbytes = int(g.blocks[0]), width * pointer.dtype.itemsize
    for chunk in range(index.shape[1]):
        bits = EVERY_LANE if every else mask_bits(active[:, chunk])
        if not bits:
            continue
        recorder.event(
            block,
            g.warp,
            line,
            op,
            bits,
            space=space,
            tensor=tensor,
            nbytes=nbytes,
            addresses=addresses[:, chunk],
            values=None if shown is None else shown[:, chunk],
            arg=arg,
            arg2=arg2,
            call=call,
        )


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
    bits = EVERY_LANE if mask is None else mask_bits(mask)
    line, call = current_line(recorder)
    return recorder.event(int(g.blocks[0]), g.warp, line, op, bits, call=call, **facts)


def bits_by_warp(active: np.ndarray) -> np.ndarray:
    """The 32-bit masks of (..., 32) lanes."""
    return np.packbits(active, axis=-1, bitorder="little").view("<u4")[..., 0]


def record_branch(g, taken: np.ndarray, left: np.ndarray) -> None:
    """A row for each warp whose lanes part, where some are `taken` and some `left`; of the group's shape."""
    taken, left = (lanes.reshape(len(g.blocks), -1, WARP) for lanes in (taken, left))
    bits = bits_by_warp(left)
    if g.warp >= 0:
        record_event(Op.BRANCH, mask=taken[0, 0], arg=int(bits[0, 0]))
        return
    part = taken.any(axis=2) & left.any(axis=2)
    record_event(Op.BRANCH, mask=taken & part[..., None], arg=bits)
