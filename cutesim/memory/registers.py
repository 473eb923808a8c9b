"""A thread's registers, as an array for every thread of the group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutesim.trace import Space

from ..context import STATE, any_of, executing, fail, here, not_simulated, spread
from ..values.exact import contiguous, exact, wide
from ..values.loaded import Loaded, loaded
from ..values.numeric import Boolean, DType
from .bounds import span


@dataclass(eq=False)
class Registers:
    """A thread's register array, for every thread of the group. Pointers to it may be of another type of the same or a
    greater width: what recast_tensor gives."""

    dtype: DType
    array: np.ndarray  # (B, T, values), carrier
    line: object = None  # trace.Line where they were made, in a run that looks for unwritten ones
    written: np.ndarray | None = None  # (B, T, values), in such a run
    # trace.Line of a product that is to change them and has not been waited for
    pending: object = None
    changed: int = 0  # the store, by `RunState.changes`, that changed them last
    made: int = 0  # how many arrays were made before, by `RunState.made`
    space = Space.NONE


def make_registers(dtype: DType, count: int) -> Registers:
    shape = (*executing().shape, count)
    run = STATE.run
    run.made += 1
    places = lambda: (executing().blocks[:, None] + executing().threads)[..., None]  # noqa: E731
    if run.unwritten is None and run.poisoned is None:
        array = np.empty(shape, dtype.carrier)
        array[...] = run.poison(dtype, places)
        array = exact(array, wide(array)) if STATE.exact and dtype.is_float else array
        return Registers(dtype, array, made=run.made)
    line = here()
    changed = run.poisoned is None or run.poisoned == line
    array = np.full(shape, run.poison(dtype, places, changed), dtype.carrier)
    return Registers(dtype, array, line, np.zeros(shape, bool), made=run.made)


def check_register_view(pointer, dtype: DType) -> None:
    """Refuse to see registers as `dtype` where that takes a part of a register, or starts in the middle of a number."""
    made = pointer.memory.dtype
    if dtype.width < made.width or Boolean in (dtype, made) and dtype is not made:
        raise not_simulated(f"recast_tensor of {made} registers to {dtype}")
    if any_of(pointer.offset * pointer.dtype.itemsize % dtype.itemsize):
        text = f"recast_tensor to {dtype}: the registers start in the middle of such a number"
        raise fail("misaligned", text)


def _as_made(pointer, offsets: np.ndarray):
    """Where a pointer of another type and its offsets are in the registers' own type, and how many of these make one."""
    factor = pointer.dtype.itemsize // pointer.memory.dtype.itemsize
    if factor > 1:
        offsets = (offsets[:, None] * factor + np.arange(factor, dtype=np.int64)).reshape(-1)
    return pointer.offset * factor, offsets, factor


def read_registers(pointer, offsets: np.ndarray) -> np.ndarray:
    """A copy: a value that was read stays what it was when the register changes."""
    memory = pointer.memory
    if pointer.dtype is memory.dtype:
        return _read(memory, pointer.offset, offsets)
    start, places, _ = _as_made(pointer, offsets)
    raw = memory.dtype.encode(_read(memory, start, places))
    return pointer.dtype.decode(contiguous(raw).view(pointer.dtype.storage))


def _read(memory: Registers, start, offsets: np.ndarray) -> np.ndarray:
    if memory.pending is not None:
        _refuse_pending(memory, "reads")
    array = memory.array
    _check_registers(array, start, offsets)
    if memory.written is not None:
        _note_unwritten(memory, start, offsets)
    if isinstance(start, np.ndarray):
        index = np.broadcast_to(start[..., None] + offsets, array.shape[:2] + (len(offsets),))
        return np.take_along_axis(array, np.clip(index, 0, array.shape[2] - 1), axis=2)
    if span(offsets.tobytes())[2]:
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
    lowest, highest, _ = span(offsets.tobytes())
    low, high = start + lowest, start + highest
    bad = (low < 0) | (high >= array.shape[2])
    if isinstance(bad, np.ndarray):
        off = executing().lanes_off()
        bad = (bad if off is None else bad & off).any()
    if bad:
        worst = int(np.asarray(low).min()) if np.asarray(low).min() < 0 else int(np.asarray(high).max())
        text = f"Out of bounds: register {worst} of a register tensor of {array.shape[2]}"
        raise fail("out of bounds", text)


def write_registers(pointer, offsets: np.ndarray, new: np.ndarray, keep) -> None:
    memory = pointer.memory
    if pointer.dtype is memory.dtype:
        _write(memory, pointer.offset, offsets, new, keep)
        return
    start, places, factor = _as_made(pointer, offsets)
    raw = spread(pointer.dtype.encode(np.asanyarray(new)), np.shape(new)[:-1] + (len(offsets),))
    if keep is not None and keep.shape[-1] > 1:
        keep = np.repeat(keep, factor, axis=-1)
    _write(memory, start, places, memory.dtype.decode(contiguous(raw).view(memory.dtype.storage)), keep)


def _write(memory: Registers, start, offsets: np.ndarray, new: np.ndarray, keep) -> None:
    STATE.run.changes += 1
    g = executing()
    before = memory.array.tobytes() if memory.made < g.oldest else None
    _put(memory, start, offsets, new, keep)
    if before is not None and before != memory.array.tobytes():
        g.oldest = memory.made


def _put(memory: Registers, start, offsets: np.ndarray, new: np.ndarray, keep) -> None:
    if memory.pending is not None:
        _refuse_pending(memory, "writes")
    memory.changed = STATE.run.changes
    if type(new) is Loaded:
        memory.array = loaded(memory.array)
    array = memory.array
    _check_registers(array, start, offsets)
    if memory.written is not None:
        index = np.broadcast_to(np.asarray(start)[..., None] + offsets, array.shape[:2] + (len(offsets),)).copy()
        on = np.broadcast_to(True if keep is None else keep, index.shape)
        held = np.take_along_axis(memory.written, index, axis=2)
        np.put_along_axis(memory.written, index, held | on, axis=2)
    if isinstance(start, np.ndarray):
        shape = array.shape[:2] + (len(offsets),)
        index = np.clip(np.broadcast_to(start[..., None] + offsets, shape), 0, array.shape[2] - 1)
        if keep is not None:
            new = np.where(keep, new, np.take_along_axis(array, index, axis=2))
        np.put_along_axis(array, index, np.broadcast_to(new, shape), axis=2)
        return
    if span(offsets.tobytes())[2]:
        place = slice(start + int(offsets[0]), start + int(offsets[0]) + len(offsets))
    else:
        place = start + offsets
    if keep is None:
        array[:, :, place] = new
    elif isinstance(place, slice):
        np.copyto(array[:, :, place], new, where=keep, casting="unsafe")
    else:
        array[:, :, place] = np.where(keep, new, array[:, :, place])
