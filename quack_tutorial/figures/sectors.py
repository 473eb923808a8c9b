"""Which bytes of which 32-byte sectors a request touches: `coalescing` of each request of a source line, `strides` of any."""

from __future__ import annotations

from itertools import product

import numpy as np

from cutesim.trace import Op, Space

from .grid import explorer
from .player import Frame, Player
from .scene import Box, Label, Scene, rectangle
from .wording import LANES, active, counted, element, lane_words, line_of, origin, picked, ranges, row, verb

SECTOR_BYTES, LINE_BYTES = 32, 128
BYTE, GAP = 5, 4  # pixels a byte, and between sectors
LEFT, TOP = 88, 22
MOST_REQUESTS, MOST_LINES = 64, 32
STRIDES, OFFSETS, MOST_IN_EXPLORER = (1, 2, 3, 4, 8, 32), (0, 1, 2, 4, 8), 8
KEY = (("r", "sector that the request moves"), ("-", "sector that it leaves"), ("even", "bytes that lanes ask for"))


def coalescing(trace, line=None, block=0, warp=0, launch=0, requests=MOST_REQUESTS, title=None) -> Player:
    """The bytes that a warp's requests to global memory touch, in their sectors; one frame a request.

    `line` is a source line's number; without it, the first line that accesses global memory is taken. The first `requests` are
    drawn. ValueError where there is no such request.
    """
    events = picked(trace, launch, block, warp, line)
    # These read global memory at their sources.
    copies = (events["op"] == Op.ASYNC_COPY) & (events["sources"] >= 0)
    events = events[((events["space"] == Space.GMEM) & (events["addresses"] >= 0)) | copies]
    if not len(events):
        raise ValueError(f"no request to global memory on line {line} in warp {warp} of block {block}")
    if line is None:
        events = events[events["line"] == events[0]["line"]]
    total, events = (len(events) if requests > 1 else 1), events[:requests]
    requests = [_request(trace, e) for e in events]
    needed = max(len({s // 4 for s in r["sectors"]}) for r in requests)
    rows = min(needed, MOST_LINES)
    place = trace.line(events[0])
    where = (f"block {int(events[0]['block'])}", f"warp {int(events[0]['warp'])}")
    return Player(
        title=title or f"Bytes and sectors of {place.where}",
        scene=_scene(rows),
        frames=tuple(_frame(trace, request, rows, i, total) for i, request in enumerate(requests)),
        origin=origin(trace, launch, *where) + " Numbers in the bars are lanes; a line is 128 bytes, 4 sectors of 32.",
        key=KEY,
        start=0,
    )


def strides() -> Player:
    """Sliders for how many bytes each lane of a warp reads, how many times as many the next lane begins behind it, and where
    the first begins: the sectors that follow."""

    def draw(**chosen):
        nbytes, stride, offset = chosen.values()
        addresses = nbytes * (offset + stride * np.arange(LANES))
        request = _touching(addresses, np.ones(LANES, bool), nbytes)
        roles, inks, notes, hidden = _bars_in(request, MOST_IN_EXPLORER, lambda address: f"byte {address}")
        asked, sectors = LANES * nbytes, len(request["sectors"])
        moved = sectors * SECTOR_BYTES
        caption = f"{asked} bytes asked for, {sectors} sectors, {moved} bytes moved: {100 * asked / moved:.3g} % used."
        return Frame(caption + hidden, roles, ("",) * len(roles), inks=inks, notes=notes)

    return explorer(
        "A warp's request: which sectors it touches",
        {"bytes of a lane": (4, 8, 16), "stride": STRIDES, "offset": OFFSETS},
        _scene(MOST_IN_EXPLORER),
        draw,
        "Computed by the rule that the simulator counts by. Stride and offset count such lanes. A row is a line of 128 bytes, 4 "
        "sectors of 32; lines that no lane touches are left out.",
        KEY,
        {"bytes of a lane": 4, "stride": 3, "offset": 0},  # one colour of three
    )


def _request(trace, event) -> dict:
    key = "sources" if event["op"] == Op.ASYNC_COPY and event["sources"] >= 0 else "addresses"
    addresses = row(trace.addresses, event[key])
    lanes = active(event) & (addresses >= 0)
    return {"event": event, **_touching(addresses, lanes, max(1, int(event["bytes"])))}


def _touching(addresses, lanes, size: int) -> dict:
    """A request of `size` bytes a lane, and the sectors that it touches."""
    sectors = {
        s for a in addresses[lanes] for s in range(int(a) // SECTOR_BYTES, (int(a) + size - 1) // SECTOR_BYTES + 1)
    }
    return {"addresses": addresses, "lanes": lanes, "bytes": size, "sectors": sorted(sectors)}


def _row(rows: int) -> tuple[int, int]:
    """Distance and height of rows: closer together where there are many."""
    return (28, 22) if rows <= 12 else (18, 16)


def _tensor_at(trace, event, address):
    """The global tensor that an event touches at an address; of an asynchronous copy, the one it reads."""
    own = trace.tensors[int(event["tensor"])]
    if own.space == Space.GMEM:
        return own
    inside = (
        t for t in trace.tensors if t.space == Space.GMEM and t.base_address <= address < t.base_address + t.nbytes
    )
    return next(inside, own)


def _sector_x(k: int) -> float:
    return LEFT + k * (SECTOR_BYTES * BYTE + GAP)


def _scene(rows: int) -> Scene:
    pitch, height = _row(rows)
    boxes = [Box(_sector_x(k), TOP + r * pitch, SECTOR_BYTES * BYTE, height) for r in range(rows) for k in range(4)]
    labels = [Label(_sector_x(k) + 1, TOP - 10, f"+{k * SECTOR_BYTES} bytes", "start", "small") for k in range(4)]
    return Scene(_sector_x(4) - GAP + 2, TOP + rows * pitch, tuple(boxes), tuple(labels))


def _frame(trace, request, rows, i, total) -> Frame:
    event = request["event"]
    tensor = _tensor_at(trace, event, int(request["addresses"][request["lanes"]].min()))

    def name(address):
        inside = tensor.base_address <= address < tensor.base_address + tensor.nbytes
        return element(tensor, address) if inside else f"{tensor.name} {address - tensor.base_address:+d} B"

    roles, inks, notes, hidden = _bars_in(request, rows, name)
    caption = _caption(request, tensor, i, total) + hidden
    return Frame(caption, roles, ("",) * len(roles), **line_of(trace, event), inks=inks, notes=notes)


def _bars_in(request, rows: int, name):
    """Roles, inks and notes of a request in so many rows, and a sentence on the rows that are left out; `name(address)` is
    what a line of 128 bytes is called."""
    lines = sorted({s // 4 for s in request["sectors"]})
    shown = {line: r for r, line in enumerate(lines[:rows])}
    touched = set(request["sectors"])
    roles = "".join(
        ("r" if lines[r] * 4 + k in touched else "-") if r < len(shown) else "h"
        for r, k in product(range(rows), range(4))
    )
    pitch, height = _row(rows)
    inks, notes = _bars(request, shown, pitch, height)
    names = [Label(LEFT - 8, TOP + r * pitch + height / 2, name(line * LINE_BYTES), "end") for line, r in shown.items()]
    hidden = len(lines) - len(shown)
    return roles, inks, (*names, *notes), f" {counted(hidden, 'more row')} of this request not drawn." if hidden else ""


def _bars(request, shown, pitch, height):
    """The bytes of each lane as bars, neighbours in two tints, and the lane numbers in them."""
    by_start = {}
    for lane in np.nonzero(request["lanes"])[0]:
        by_start.setdefault(int(request["addresses"][lane]), []).append(int(lane))
    inks, notes = {"even": "", "odd": ""}, []
    for i, (address, lanes) in enumerate(sorted(by_start.items())):
        pieces = []
        at, end = address, address + request["bytes"]
        while at < end:  # an access that crosses sectors is drawn in pieces
            stop = min(end, (at // SECTOR_BYTES + 1) * SECTOR_BYTES)
            line = at // LINE_BYTES
            if line in shown:
                x = _sector_x(at % LINE_BYTES // SECTOR_BYTES) + at % SECTOR_BYTES * BYTE
                pieces.append((x, TOP + shown[line] * pitch, (stop - at) * BYTE))
            at = stop
        for x, y, width in pieces:
            inks["odd" if i % 2 else "even"] += rectangle(x + 0.5, y + 3, width - 1, height - 6)
        words = ranges(lanes)
        if pieces and len(words) * 5.3 <= pieces[0][2] + 2:
            x, y, width = pieces[0]
            notes.append(Label(x + width / 2, y + height / 2, words, "middle"))
    return inks, notes


def _caption(request, tensor, i, total) -> str:
    lanes, size, sectors = request["lanes"], request["bytes"], len(request["sectors"])
    distinct = {b for a in request["addresses"][lanes] for b in range(int(a), int(a) + size)}
    fewest = -(-len(distinct) // SECTOR_BYTES)
    head = f"Request {i + 1} of {total}: " if total > 1 else ""
    of = f"{size} bytes each of {tensor.name}" if lanes.sum() > 1 else f"{size} bytes of {tensor.name}"
    subject = lane_words(lanes)
    text = f"{head}{subject} {verb(request['event'], lanes.sum() > 1)} {of}, in {counted(sectors, 'sector')}. "
    if not head:
        text = text[0].upper() + text[1:]
    moved = sectors * SECTOR_BYTES
    if sectors == fewest:
        text += f"{len(distinct)} bytes cannot be in fewer."
    else:
        used = 100 * len(distinct) / moved
        text += f"{len(distinct)} bytes would fit in {fewest}; of the {moved} bytes moved, {used:.3g} % are used."
    return text
