"""`timeline`: what every warp of a block did, a row a warp and a column a step, so that one sees who waits for whom."""

from __future__ import annotations

from cutesim.trace import Op

from .lane_view import MEMORY, WAITS, _caption
from .player import Frame, Player
from .scene import Box, Label, Scene
from .wording import active, counted, line_of, origin, picked

LEFT, ROW, HEIGHT, WIDEST, MOST = 58, 30, 22, 24, 160
RESUMES = (Op.BARRIER_RESUME, Op.MBARRIER_RESUME, Op.CLUSTER_RESUME)
SIGNALS = (Op.BARRIER, Op.BARRIER_ARRIVE, Op.MBARRIER_ARRIVE, Op.CLUSTER_ARRIVE)
DRAWN = (*MEMORY, Op.BULK_COPY, Op.STORE_ASYNC, *WAITS, *RESUMES)
DRAWN += (Op.BARRIER_ARRIVE, Op.MBARRIER_ARRIVE, Op.CLUSTER_ARRIVE)


def timeline(trace, block=0, launch=0, title=None) -> Player:
    """The loads, stores, copies and waits of a block's warps in columns: a warp moves one column a step, unless it waits.

    A wait lasts until the column after the last arrival that its barrier's phase needed; bytes land a column after their copy. A
    GPU takes other times, and any order that the waits allow. The first 160 instructions are drawn.
    """
    columns, ends, signals, issued, phases = [], {}, {}, {}, {}
    for event in picked(trace, launch, block):
        warp, op = int(event["warp"]), Op(int(event["op"]))
        if op == Op.ASYNC_DONE:  # the copy engine's doing, not the warp's
            address = _address(trace, event)
            place = address, phases.get(address)
            signals[place] = max(signals.get(place, 0), issued[int(event["arg"])] + 1)
        if op not in DRAWN:
            continue
        place = _meets(trace, event, op)
        column = max(ends.get(warp, -1), signals.get(place, -1) if op in RESUMES else -1) + 1
        columns.append((event, warp, op, column))
        ends[warp] = column - (op in RESUMES)  # going on takes no step
        if op in (Op.BULK_COPY, Op.ASYNC_COPY, Op.STORE_ASYNC):
            issued[int(event["step"])] = column
        if op in SIGNALS:
            signals[place] = max(signals.get(place, 0), column)
        if op == Op.MBARRIER_ARRIVE:
            phases[place[0]] = place[1]
    cells = [(e, w, op, c) for e, w, op, c in columns if op in DRAWN and op not in RESUMES][:MOST]
    until = {}  # where a warp's wait ends: the column before it goes on
    for event, warp, op, column in columns:
        if op in RESUMES and until.get(warp) is not None:
            cells[until[warp]] += (column,)  # a wait is as long as it lasts
            until[warp] = None
        elif op in WAITS:
            until[warp] = next((i for i, cell in enumerate(cells) if cell[0] is event), None)
    warps = sorted({warp for _, warp, _, _ in columns})
    wide = 1 + max(cell[-1] for cell in cells)
    roles = [_role(cell[2]) for cell in cells]
    frames = tuple(
        Frame(
            f"Warp {cell[1]}: {_caption(trace, cell[0], cell[2], active(cell[0]))}",
            "".join(roles[: i + 1]) + "-" * (len(cells) - i - 1),
            ("",) * len(cells),
            **line_of(trace, cell[0]),
        )
        for i, cell in enumerate(cells)
    )
    return Player(
        title or f"{trace.line(cells[0][0]).function}, all its warps: who waits for whom",
        _scene(cells, warps, wide),
        frames,
        origin(
            trace, launch, f"block {block}", f"{counted(len(cells), 'instruction')} of {counted(len(warps), 'warp')}"
        )
        + " A column is a step, not a time: every instruction counts as one, and waits last as long as they must.",
        (("r", "reads"), ("w", "writes, copies or sends"), ("p", "waits"), ("v", "tells that it is done")),
    )


def _address(trace, event) -> int:
    return int(max(trace.addresses[int(event["addresses"])]))


def _meets(trace, event, op):
    """What an arrival and those who wait for it have in common: the barrier and its generation, or the mbarrier and its phase."""
    if op in (Op.MBARRIER_ARRIVE, Op.MBARRIER_RESUME):
        return _address(trace, event), int(event["arg2"])
    if op in (Op.CLUSTER_ARRIVE, Op.CLUSTER_RESUME):
        return "cluster", int(event["arg2"])
    return (int(event["arg"]) if op in (Op.BARRIER, Op.BARRIER_ARRIVE, Op.BARRIER_RESUME) else None), int(event["arg2"])


def _role(op) -> str:
    if op in WAITS:
        return "p"
    return "r" if op == Op.LOAD else "w" if op in (*MEMORY, Op.BULK_COPY, Op.STORE_ASYNC) else "v"


def _scene(cells, warps, wide) -> Scene:
    boxes, pitch = [], min(WIDEST, 700 / wide)
    for _, warp, _, column, *end in cells:
        width = (max(end[0] - column, 1) if end else 1) * pitch - (2 if pitch > 12 else 1)
        boxes.append(Box(LEFT + column * pitch, 4 + warps.index(warp) * ROW, width, HEIGHT))
    labels = [Label(0, 4 + i * ROW + HEIGHT / 2, f"warp {warp}") for i, warp in enumerate(warps)]
    y = 4 + len(warps) * ROW
    labels.append(Label(LEFT, y + 8, "steps →", kind="small"))
    return Scene(LEFT + wide * pitch + 4, y + 18, tuple(boxes), tuple(labels))
