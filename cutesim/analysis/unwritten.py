"""Reads of shared memory that nobody has written: where a result may come from that changes with what memory held.

In the order in which the simulator ran the launch; a read that might have come first in another order is a race, see `races`.
Not covered: registers, which a trace does not have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutesim.trace import SMEM_BLOCK_BITS, Line, Space

from .accesses import Kind, Role, accesses, granules


@dataclass(frozen=True)
class UnwrittenRead:
    """The first read of a line; `thread` within its block, `what` is an element of an allocation, in the order of memory."""

    line: Line
    block: int
    thread: int
    what: str

    def __str__(self):
        return f"thread {self.thread} of block {self.block} reads {self.what} at {self.line.where}"


def unwritten_reads(trace) -> tuple[UnwrittenRead, ...]:
    """The lines of a trace that read shared memory which nothing wrote before, in the order of the log, each once."""
    found = {}
    for number in range(len(trace.launches)):
        chosen = np.nonzero(trace.events["launch"] == number)[0]
        for read in _of_launch(trace, accesses(trace, chosen, shared=True)):
            found.setdefault(read.line, read)
    return tuple(found.values())


def _of_launch(trace, table):
    """An `UnwrittenRead` for each line, in the order of the log."""
    # The bytes of a transfer's mbarrier are looked at by the machine, and a use of one that was not initialised stops the run.
    looked_at = (table.kind == Kind.READ) & (table.role == Role.PHASE)
    table = table.take(np.nonzero((table.role != Role.USE) & ~looked_at)[0])
    if not len(table):
        return
    size, row, at = granules(table)
    _, place = np.unique(at, return_inverse=True)
    written = np.full(place.max() + 1, np.iinfo(np.int64).max)
    writes = table.kind[row] == Kind.WRITE
    np.minimum.at(written, place[writes], table.event[row[writes]])
    early = np.nonzero(~writes & (table.event[row] <= written[place]))[0]
    lines = set()
    for one in early[np.argsort(table.event[row[early]], kind="stable")]:
        i = row[one]
        event = trace.events[table.event[i]]
        if int(event["line"]) in lines:
            continue
        lines.add(int(event["line"]))
        offset = int(at[one] * size) & ((1 << SMEM_BLOCK_BITS) - 1)
        what = f"byte {offset} of shared memory"
        # The shared tensor that the event names, then all of them: a bulk copy names what it writes to.
        one = [trace.tensors[event["tensor"]]] if event["tensor"] >= 0 else []
        for info in (info for info in (*one, *trace.tensors) if info.space == Space.SMEM):
            if 0 <= offset - info.base_address < info.nbytes:
                what = f"element {(offset - info.base_address) // info.itemsize} of {info.name}"
                break
        thread = int(event["warp"]) * 32 + int(table.lane[i])
        yield UnwrittenRead(trace.line(event), int(event["block"]), thread, what)
