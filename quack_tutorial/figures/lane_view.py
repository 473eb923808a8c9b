"""`lanes`: a kernel as one warp runs it, instruction by instruction, with what each of the 32 lanes does."""

from __future__ import annotations

import numpy as np

from cutesim.trace import Op, Space

from .player import Frame, Player
from .scene import PITCH, Box, Label, Scene, lane_row, numbered, row_height, wide_texts
from .wording import (
    LANES,
    NOTHING,
    active,
    counted,
    element,
    lane_words,
    line_of,
    offset_in,
    origin,
    picked,
    row,
    short,
    verb,
)

HEIGHT, LEFT = 19, 64
CODE_HEIGHT, CODE_ROW, CODE_GLYPHS = 20, 23, 108
COUNTED = 10_000  # from here on, element numbers do not fit a box
MOST_STEPS, MOST_LINES = 64, 24
MEMORY = (Op.LOAD, Op.STORE, Op.ATOMIC, Op.ASYNC_COPY)
SPACES = {Space.GMEM: "global memory", Space.SMEM: "shared memory", Space.DSMEM: "another block's shared memory"}
SAYS = {
    Op.BARRIER: "The warp arrives at the block's barrier and waits for the other warps.",
    Op.BARRIER_RESUME: "All warps have arrived: the warp goes on.",
    Op.SYNC_WARP: "The lanes of the warp meet: what each wrote before, the others can read now.",
    Op.VOTE: "The lanes vote: each gives a yes or no, all get the result.",
    Op.REDUX: "One instruction combines an integer of each lane; all lanes get the result.",
    Op.ELECT: "The hardware picks one lane.",
    Op.COMMIT_GROUP: "The asynchronous copies so far become a group that can be waited for.",
    Op.WAIT_GROUP: "The warp waits until its asynchronous copies have landed.",
    Op.FENCE: "A fence: writes before it become visible before those after it.",
    Op.MBARRIER_INIT: "A lane sets an mbarrier up for so many arrivals.",
    Op.MBARRIER_ARRIVE: "A lane arrives at an mbarrier, and goes on.",
    Op.MBARRIER_WAIT: "The warp waits until a phase of an mbarrier is complete.",
    Op.MBARRIER_RESUME: "The phase is complete: the warp goes on.",
    Op.BULK_COPY: "One lane starts a bulk copy: the copy engine moves the bytes, and the warp goes on.",
    Op.ASYNC_DONE: "A copy that was started before has landed.",
    Op.EXIT: "The warp is done.",
}
WAITS = (Op.BARRIER, Op.WAIT_GROUP, Op.MBARRIER_WAIT, Op.CLUSTER_WAIT)


def lanes(trace, block=0, warp=0, launch=0, code=True) -> Player:
    """Each instruction of a warp in turn: its source line, the lanes that take part, their elements and values.

    Elements have their number in the whole tensor, row after row; from 10,000 on they are counted from the lowest that the
    instruction touches, which the caption names. A vector access shows its first value. The first 64 instructions are drawn.
    `code` says whether the source lines stand above the lanes. ValueError where the trace has no such warp.
    """
    events = picked(trace, launch, block, warp)
    total, events = len(events), events[:MOST_STEPS]
    numbers = list(dict.fromkeys(map(int, events["line"])))
    files = list(dict.fromkeys(trace.lines[n].file for n in numbers))
    listing = sorted(numbers, key=lambda n: (files.index(trace.lines[n].file), trace.lines[n].number))
    listing = listing[:MOST_LINES] if code else []
    thread = warp * LANES
    rest = f"; the first {MOST_STEPS} of {total} instructions" if total > MOST_STEPS else ""
    moves = [i for i, e in enumerate(events) if Op(int(e["op"])) in (*MEMORY, Op.SHUFFLE)]
    frames = tuple(_frame(trace, event, listing) for event in events)
    return Player(
        title=f"{trace.line(events[0]).function}, lane by lane: warp {warp} of block {block}",
        scene=_scene(len(listing), thread, frames),
        frames=frames,
        origin=origin(trace, launch, f"block {block}", f"warp {warp}{rest}")
        + " Lines that only compute leave no trace.",
        key=(("r", "reads"), ("w", "writes"), ("v", "runs"), ("p", "waits"), ("i", "takes no part")),
        start=moves[-1] if moves else -1,
    )


def _scene(lines: int, thread: int, frames) -> Scene:
    y = lines * CODE_ROW + 34
    boxes = [Box(1, 2 + i * CODE_ROW, LEFT + LANES * PITCH, CODE_HEIGHT, wide=True) for i in range(lines)]
    each = 1 if thread < 96 else 2  # three digits are wider than a lane
    labels = numbered(LEFT, y - 10, "thread", thread, each)
    rows = {name: lines + r * LANES for r, name in enumerate(("element", "value"))}
    bricks = {name: wide_texts(t for f in frames for t in f.texts[at : at + LANES]) for name, at in rows.items()}
    for name, wide in bricks.items():
        labels.append(Label(LEFT - 14, y + HEIGHT / 2, name, "end"))
        boxes += lane_row(LEFT, y, HEIGHT, wide)
        y += row_height(HEIGHT, wide) + 4
    return Scene(LEFT + LANES * PITCH + 10, y, tuple(boxes), tuple(labels))


def _frame(trace, event, listing) -> Frame:
    op, on = Op(int(event["op"])), active(event)
    role = (
        "w"
        if op in (Op.STORE, Op.ATOMIC)
        else "r"
        if op in (Op.LOAD, Op.SHUFFLE, Op.ASYNC_COPY)
        else "p"
        if op in WAITS
        else "v"
    )
    code = "".join(role if n == int(event["line"]) else "-" for n in listing)
    row_roles = "".join(role if a else "i" for a in on)
    places, values = _cells(trace, event, op, on)
    texts = [_listed(trace.lines[n]) for n in listing] + places + values
    return Frame(_caption(trace, event, op, on), code + row_roles * 2, tuple(texts), **line_of(trace, event))


def _listed(source) -> str:
    text = f"{source.where}  {source.text}"
    return text if len(text) <= CODE_GLYPHS else text[: CODE_GLYPHS - 1] + "…"


def _cells(trace, event, op, on):
    """Texts of the rows "element" (for a shuffle: the lane read) and "value"."""
    blank = ["" if a else NOTHING for a in on]
    addresses, values = row(trace.addresses, event["addresses"]), row(trace.values, event["values"])
    places = list(blank)
    if op in MEMORY and addresses is not None:
        tensor = trace.tensors[int(event["tensor"])]
        base = _base(tensor, addresses[on])
        index = [offset_in(tensor, int(a)) // tensor.itemsize - base for a in addresses]
        places = [short(i) if use else NOTHING for i, use in zip(index, on)]
    elif op == Op.SHUFFLE:
        places = [f"←{source}" if use else NOTHING for source, use in zip(addresses, on)]
    shown = list(blank) if values is None else [short(v) if use else NOTHING for v, use in zip(values, on)]
    return places, shown


def _base(tensor, addresses) -> int:
    """The element that numbers are counted from: 0, unless the numbers would be too long."""
    index = [offset_in(tensor, int(a)) // tensor.itemsize for a in addresses]
    return min(index) if max(index) >= COUNTED else 0


def _caption(trace, event, op, on) -> str:
    who = lane_words(on)
    who = who[0].upper() + who[1:]
    chosen = np.nonzero(on)[0]
    addresses = row(trace.addresses, event["addresses"])
    if op in MEMORY and addresses is not None:
        tensor = trace.tensors[int(event["tensor"])]
        first, last = int(chosen[0]), int(chosen[-1])
        count = int(event["bytes"]) // tensor.itemsize
        each = f"{counted(count, 'element')} ({int(event['bytes'])} bytes)" + (" each" if len(chosen) > 1 else "")
        space = "in " + SPACES.get(Space(int(event["space"])), "memory")
        if op == Op.ASYNC_COPY:
            space = "from global to shared memory without waiting"
        text = (
            f"{who} {verb(event, len(chosen) > 1)} {each} {space}: lane {first} at {element(tensor, addresses[first])}"
        )
        if last != first:
            text += f", lane {last} at {element(tensor, addresses[last])}"
        lowest = int(chosen[np.argmin(addresses[on])])
        base = _base(tensor, addresses[on])
        return text + "." + (f" Elements are counted from {element(tensor, addresses[lowest])}." if base else "")
    if op == Op.SHUFFLE:
        first = int(chosen[0])
        return f"{who} receive a value of another lane's register: lane {first} that of lane {int(addresses[first])}."
    if op == Op.BRANCH:
        others = counted(bin(int(event["arg"]) & 0xFFFFFFFF).count("1"), "lane")
        return f"The lanes part: {lane_words(on)} go{'es' * (len(chosen) == 1)} in, the other {others} do not and wait."
    return SAYS.get(op, f"{who}: {op.name.lower().replace('_', ' ')}.")
