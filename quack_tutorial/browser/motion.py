"""The pictures of a kernel that is being typed: what its warps did, what its lanes read and wrote, and what is wrong with it."""

from __future__ import annotations

import json
from html import escape

import numpy as np

from cutesim.trace import Op, Space

MOST_RACES = 2
READS, WRITES = (Op.LOAD, Op.ASYNC_COPY, Op.BULK_COPY), (Op.STORE, Op.ATOMIC, Op.STORE_ASYNC)
WAITS = (Op.BARRIER, Op.CLUSTER_WAIT, Op.MBARRIER_WAIT, Op.WAIT_GROUP)


def beside_lines(run) -> dict:
    """What each line moved or waited for in a run, for the margin of an editor: {file: {line: [[kind, words], ...]}}."""
    if run.recorded is None or not len(run.trace.events):
        return {}
    events, moved, waits = run.trace.events, {}, {}
    lanes = np.unpackbits(np.ascontiguousarray(events["mask"], np.uint32).view(np.uint8).reshape(-1, 4), axis=1).sum(1)
    bulk = events["op"] == Op.BULK_COPY
    sizes = np.where(bulk, events["arg"], events["bytes"].astype(np.int64) * lanes)
    codes = events["line"].astype(np.int64) << 16 | events["op"].astype(np.int64) << 8 | events["space"]
    for code, size in _summed(codes, sizes):
        line, op, space = run.trace.lines[code >> 16], Op(code >> 8 & 255), Space(code & 255)
        kind = "reads" if op in READS else "writes" if op in WRITES else None
        if kind:
            where = "" if space == Space.GMEM or op in (Op.ASYNC_COPY, Op.BULK_COPY) else " shared"
            at = line.file, line.number, kind, where
            moved[at] = moved.get(at, 0) + size
    waiting = np.isin(events["op"], [int(op) for op in WAITS])
    for key in np.unique(np.stack([events[name] for name in ("line", "block", "warp")], axis=1)[waiting], axis=0):
        line = run.trace.lines[key[0]]
        waits[line.file, line.number] = waits.get((line.file, line.number), 0) + 1
    found = {}
    for (file, number, kind, where), size in moved.items():
        found.setdefault(file, {}).setdefault(number, []).append([kind, f"{size:,} B{where}"])
    for (file, number), warps in waits.items():
        words = f"{warps} warp{'s' * (warps > 1)}"
        found.setdefault(file, {}).setdefault(number, []).append(["waits", words])
    return found


def _summed(codes, sizes):
    """(code, sum of its sizes), in the order in which the codes first come."""
    found, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    sums = np.zeros(len(found), np.int64)
    np.add.at(sums, inverse, sizes)
    return [(int(found[k]), int(sums[k])) for k in np.argsort(first)]


class Margin:
    """What `beside_lines` says of one file, in `data-lines`."""

    def __init__(self, run, file):
        self.lines = beside_lines(run).get(file, {})

    def _repr_html_(self) -> str:
        return f'<div class="qt-motion-margin" data-lines="{escape(json.dumps(self.lines))}"></div>'


def pictures(run):
    """The figures of one simulated run: its races, then all warps side by side, shared words, and the first warp's lanes.

    A figure that the run has nothing for is left out.
    """
    from quack_tutorial import (
        figures,
    )  # here, because `beside_lines` has no need of it and every printed run has it counted

    if run.recorded is None:
        return
    races = [finding for finding in run.findings if finding.kind == "race"]
    draws = [lambda finding=finding: figures.race(run.trace, finding) for finding in races[:MOST_RACES]]
    draws.append(lambda: figures.timeline(run.trace))
    draws.append(lambda: figures.block_reduce(run.trace))
    draws.append(lambda: figures.lanes(run.trace))
    for draw in draws:
        try:
            yield draw()
        except (ValueError, IndexError):  # no such events in this run
            continue
