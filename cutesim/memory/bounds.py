"""Which accesses are refused: outside of a tensor, misaligned, or before the kernel ahead has ended.

`check` looks at one access of all lanes. Bounds are those of the coordinates where the tensor knows them (a `Place`), else those of
the addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cutesim.trace import Op, Space

from ..context import STATE, all_of, any_of, executing, fail, first_lane, refused
from ..values.numeric import Int32
from .swizzle import permuted

# an index further below 0 was too large for an Int32: nobody counts back so far
FAR_BELOW = -(1 << 24)


@lru_cache(maxsize=4096)
def span(offsets: bytes) -> tuple[int, int, bool]:
    """(lowest, highest, whether they follow each other) of int64 offsets, given as their bytes."""
    numbers = np.frombuffer(offsets, np.int64)
    return int(numbers.min()), int(numbers.max()), bool((np.diff(numbers) == 1).all())


@dataclass(eq=False, slots=True)
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
            if _within(b, -_lowest(lo), extent - _highest(hi)):
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


def _within(x, low: int, high: int) -> bool:
    """Whether a number, or all of an array, is from `low` to below `high`. One comparison says both of an array: as an unsigned
    number a negative one is large."""
    if not isinstance(x, np.ndarray):
        return low <= x < high
    if x.size == 1:
        return low <= x.item() < high
    return all_of((x - low).astype(np.uint64) < max(0, high - low))


def _lowest(x):
    return x.min() if isinstance(x, np.ndarray) else x


def _highest(x):
    return x.max() if isinstance(x, np.ndarray) else x


def check(pointer, first, width: int, lanes, op: Op, place: Place | None = None) -> None:
    """Raise for the first lane whose access is out of bounds or misaligned, or comes before the kernel ahead has ended."""
    memory = pointer.memory
    if pointer.rounded is not None:
        says, moved = pointer.rounded
        used = executing().active() if lanes is None else lanes.any(axis=-1)
        if says not in STATE.run.notes and (moved & used).any():
            STATE.run.notes.append(says)
    if STATE.group is not None and memory.space is Space.GMEM:
        if STATE.group.early is not None:
            check_early(memory, STATE.group, lanes, op)
        STATE.group.launch.touch(memory, op)
    known = place is not None and memory.space is Space.GMEM
    bad = place.outside(memory.shape) if known else _outside(pointer, first, width)
    if bad is not None and lanes is not None:
        bad = bad & lanes
    if bad is not None and any_of(bad):
        _out_of_bounds(pointer, _elements(pointer, first), width, bad, op, place if known else None)
    if width == 1:
        return
    if pointer.swizzle is not None and width > pointer.swizzle[0].run:
        raise refused(
            f"a copy of {width} elements at once from {memory.name}: its swizzle {pointer.swizzle[0]} keeps only "
            f"{pointer.swizzle[0].run} together",
        )
    base, size = memory.address if memory.space is Space.GMEM else 0, pointer.dtype.itemsize
    step = width * size
    if not any_of(first % width) and not any_of((base + pointer.offset * size) % step):
        return
    index = _elements(pointer, first)
    bad = (base + index * size) % step != 0
    if lanes is not None:
        bad = bad & lanes
    if any_of(bad):
        _misaligned(pointer, index, width, bad, op, base)


def _elements(pointer, first) -> np.ndarray:
    """The element indices (B|1, T|1, instructions) at which instructions start."""
    offset = pointer.offset
    offset = offset[..., None] if isinstance(offset, np.ndarray) else np.array([[[offset]]], np.int64)
    return permuted(pointer, offset + first)


def _outside(pointer, first, width: int):
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
    lowest, highest, _ = span(first.tobytes())
    if _within(offset, begin - lowest, end - highest - width + 1):
        return None
    index = _elements(pointer, first)
    return (index < begin) | (index + width > end)


def _out_of_bounds(pointer, index, width, bad, op, known: Place | None):
    place, facts = first_lane(bad)
    memory, size = pointer.memory, pointer.dtype.itemsize
    shape = executing().shape + index.shape[2:]
    at = int(np.broadcast_to(index, shape)[place])
    if memory.space is Space.GMEM:
        # of the tensor's own type, whatever the pointer's is
        element = at * size // memory.dtype.itemsize
        where = memory.coordinate(element) if known is None else known.coordinate(shape, *place)
        place_text = f"{memory.name}[{', '.join(map(str, where))}]; {memory.name} is {memory.shape}"
        advice = _advice(where, facts["threads"][0], memory.name, known is not None)
    else:
        place_text = f"word {at - memory.start // size} of {memory.name}; it has {memory.nbytes // size}"
        advice = "Is the buffer large enough, and the index right?"
    text = f"Out of bounds: {_who_does(op, facts)} {width * size} bytes at {place_text}. {advice}"
    raise fail("out of bounds", text, addresses=(at,), **facts)


def _who_does(op: Op, facts: dict) -> str:
    if STATE.group is None:
        return f"the host function {_does(op)}"
    return f"thread {facts['threads'][0]} of block {facts['block']} {_does(op)}"


def _does(op: Op) -> str:
    return "writes" if op == Op.STORE else "reads"


def _advice(where: tuple, thread: int, name: str, known: bool) -> str:
    """What to ask of an access to a tensor outside its shape; `known` says that its coordinate is the tensor's own."""
    if STATE.run.likely is None and STATE.run.poison(Int32, None) in where:
        return "Such a number is what unwritten memory holds here: is what the index is made of never written?"
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
            "Even the block's first thread is outside: are the index, the grid, the layout and the tile's coordinate right, or "
            "does a loop lack its predicate?"
        )
    return "Is the row or column predicate missing?"


def _misaligned(pointer, index, width, bad, op, base):
    place, facts = first_lane(bad)
    memory, size = pointer.memory, pointer.dtype.itemsize
    at = int(np.broadcast_to(index, executing().shape + index.shape[2:])[place])
    over = (base + at * size) % (width * size)
    text = (
        f"Misaligned: thread {facts['threads'][0]} of block {facts['block']} {_does(op)} {width * size} bytes of "
        f"{memory.name} at an address that is {over} past a multiple of {width * size}. Use a narrower copy, or "
        "align the row stride and the pointer."
    )
    raise fail("misaligned", text, addresses=(at,), **facts)


def check_early(memory, threads, lanes, op) -> None:
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
    _, facts = first_lane(early)
    did = f"{_who_does(op, facts)} {memory.name} before griddepcontrol_wait"
    raise fail("early access", f"Early access: {did}. {why}", **facts)
