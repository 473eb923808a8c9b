"""The pictures of a kernel that is being typed: what its warps did, what its lanes read and wrote, and what is wrong with it."""

from __future__ import annotations

import json
from html import escape

from quack_tutorial import figures
from quack_tutorial.trace import Op, Space

MOST_RACES = 2
READS, WRITES = (Op.LOAD, Op.ASYNC_COPY, Op.BULK_COPY), (Op.STORE, Op.ATOMIC, Op.STORE_ASYNC)
WAITS = (Op.BARRIER, Op.CLUSTER_WAIT, Op.MBARRIER_WAIT, Op.WAIT_GROUP)


class Margin:
    """What each line of a file moved or waited for, for the editor's margin: {line: [[kind, words], ...]} in `data-lines`."""

    def __init__(self, run, file):
        moved, waits = {}, {}
        for event in run.trace.events if run.trace else ():
            line, op = run.trace.line(event), Op(int(event["op"]))
            if line.file != file:
                continue
            kind = "reads" if op in READS else "writes" if op in WRITES else None
            if kind:
                space = (
                    "" if Space(int(event["space"])) == Space.GMEM or op in (Op.ASYNC_COPY, Op.BULK_COPY) else " shared"
                )
                lanes = 1 if op == Op.BULK_COPY else bin(int(event["mask"]) & 0xFFFFFFFF).count("1")
                size = int(event["arg"]) if op == Op.BULK_COPY else int(event["bytes"])
                moved[line.number, kind, space] = moved.get((line.number, kind, space), 0) + size * lanes
            elif op in WAITS:
                waits.setdefault(line.number, set()).add((int(event["block"]), int(event["warp"])))
        self.lines = {}
        for (number, kind, space), size in moved.items():
            self.lines.setdefault(number, []).append([kind, f"{size:,} B{space}"])
        for number, warps in waits.items():
            self.lines.setdefault(number, []).append(["waits", f"{len(warps)} warp{'s' * (len(warps) > 1)}"])

    def _repr_html_(self) -> str:
        return f'<div class="qt-motion-margin" data-lines="{escape(json.dumps(self.lines))}"></div>'


def pictures(run):
    """The figures of one simulated run: its races, then all warps side by side, shared words, and the first warp's lanes.

    A figure that the run has nothing for is left out.
    """
    if run.trace is None:
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
