"""Every byte range that a thread or an asynchronous copy touched, as columns, from a trace's events.

| role     | who touches memory                                             | touches                                     |
|----------|----------------------------------------------------------------|---------------------------------------------|
| `PLAIN`  | the thread itself                                              | what a load or store names                  |
| `GROUP`  | an asynchronous copy that wait_group orders (cp.async, bulk)   | its source and its destination              |
| `PHASE`  | a transfer that a phase of an mbarrier orders (st.async, bulk) | its source, its destination, the mbarrier   |
| `USE`    | the thread itself, at an mbarrier                              | the mbarrier's 8 bytes                      |
| `INIT`   | the thread that initialises an mbarrier                        | the mbarrier's 8 bytes                      |

Not covered: registers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from functools import lru_cache

import numpy as np

from cutesim.trace import Op, Space

LANES = np.arange(32, dtype=np.int64)
MBARRIER_BYTES = 8
REDUCES = 1  # `bytes` of a bulk copy that adds to what it writes, atomically


class Kind(IntEnum):
    """What an access does to its bytes; two reads, or two atomics, never race."""

    READ = 0
    WRITE = 1
    ATOMIC = 2


class Role(IntEnum):
    """Who makes the access, hence when it is complete."""

    PLAIN = 0
    GROUP = 1
    PHASE = 2
    USE = 3
    INIT = 4


def distinct(numbers: np.ndarray) -> np.ndarray:
    """The numbers, sorted and each once. The first call of np.unique loads numpy.ma, which takes longer than a small kernel."""
    found = np.sort(numbers, axis=None)
    new = np.ones(len(found), bool)
    new[1:] = found[1:] != found[:-1]
    return found[new]


def holds(numbers: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Which of the wanted are among numbers that are sorted."""
    if not len(numbers):
        return np.zeros(wanted.shape, bool)
    return numbers[np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)] == wanted


@dataclass(frozen=True)
class Accesses:
    """Columns, one row a lane and byte range; `event` is a row of `trace.events`."""

    event: np.ndarray
    lane: np.ndarray
    address: np.ndarray
    size: np.ndarray
    kind: np.ndarray
    role: np.ndarray

    def __len__(self) -> int:
        return len(self.event)

    def take(self, chosen) -> Accesses:
        """The rows that an index or a mask chooses."""
        return Accesses(*(getattr(self, column.name)[chosen] for column in fields(self)))


def lane_bits(masks: np.ndarray) -> np.ndarray:
    """Which lanes each 32-bit mask names: bool (n, 32)."""
    return (np.asarray(masks, np.int64)[:, None] >> LANES) & 1 == 1


PLAIN_KINDS = {Op.LOAD: Kind.READ, Op.STORE: Kind.WRITE, Op.ATOMIC: Kind.ATOMIC}
USES = (Op.MBARRIER_ARRIVE, Op.MBARRIER_EXPECT, Op.MBARRIER_WAIT, Op.MBARRIER_RESUME)
SHARED = (Space.SMEM, Space.DSMEM)
COPIES = (Role.GROUP, Role.PHASE)


def among(column: np.ndarray, kinds: tuple) -> np.ndarray:
    """Which numbers of a column are of these kinds; np.isin takes ten times as long for a kernel of a few warps."""
    return _table(kinds)[column]


@lru_cache(maxsize=256)
def _table(kinds: tuple) -> np.ndarray:
    table = np.zeros(256, bool)
    table[list(map(int, kinds))] = True
    return table


def repeat(values, times) -> np.ndarray:
    """Each value as often as `times` says; numpy counts in the machine's own integers, which have 32 bits in a browser."""
    return np.repeat(values, np.asarray(times, np.intp))


def by_async_proxy(events) -> np.ndarray:
    """Which events reach memory through the async proxy: bulk copies, and the reads of wgmma."""
    return (events["op"] == int(Op.BULK_COPY)) | (events["op"] == int(Op.LOAD)) & (events["arg"] == 1)


def granules(table: Accesses) -> tuple[int, np.ndarray, np.ndarray]:
    """Every access in pieces of equal size: their bytes, the row of the table that each is of, and its address over the bytes."""
    size = int(np.gcd(np.gcd.reduce(table.address), np.gcd.reduce(table.size)))
    counts = table.size // size
    row = repeat(np.arange(len(table), dtype=np.int64), counts)
    place = repeat(table.address // size, counts)
    if len(row) > len(table):
        place = place + np.arange(len(row), dtype=np.int64) - repeat(np.cumsum(counts) - counts, counts)
    return size, row, place


def accesses(trace, chosen: np.ndarray, shared: bool) -> Accesses:
    """The accesses of the events `chosen` (row numbers of trace.events) to shared, or to global memory."""
    rows = _Rows(trace, chosen, shared)
    for op, kind in PLAIN_KINDS.items():
        rows.add(op, kind, Role.PLAIN)
    rows.add(Op.ASYNC_COPY, Kind.WRITE, Role.GROUP, shared=True)
    rows.add(Op.ASYNC_COPY, Kind.READ, Role.GROUP, column="sources", shared=False)
    rows.add_bulk()
    rows.add(Op.STORE_ASYNC, Kind.WRITE, Role.PHASE, shared=True)
    rows.add(Op.STORE_ASYNC, Kind.READ, Role.PHASE, column="sources", shared=True, size=MBARRIER_BYTES)
    for op in USES:
        rows.add(op, Kind.READ, Role.USE, shared=True, size=MBARRIER_BYTES)
    rows.add(Op.MBARRIER_INIT, Kind.WRITE, Role.INIT, shared=True, size=MBARRIER_BYTES)
    return rows.table()


class _Rows:
    """Collects the columns of `accesses`, op by op."""

    def __init__(self, trace, chosen, shared: bool):
        self.trace, self.chosen, self.shared = trace, chosen, shared
        self.ops = trace.events["op"][chosen]
        self.present = set(self.ops.tolist())
        self.parts = []

    def add(self, op, kind, role, *, column="addresses", shared=None, size=None) -> None:
        """Rows of one op; `shared` says where this column points when the event's space does not."""
        if int(op) not in self.present or (shared is not None and shared != self.shared):
            return
        at = self.chosen[self.ops == int(op)]
        events = self.trace.events[at]
        if shared is None:
            keep = among(events["space"], SHARED) == self.shared
            at, events = at[keep], events[keep]
        keep = events[column] >= 0
        at, events = at[keep], events[keep]
        addresses = self.trace.addresses[events[column]]
        row, lane = np.nonzero(lane_bits(events["mask"]) & (addresses >= 0))
        sizes = np.full(len(row), size, np.int64) if size else events["bytes"][row].astype(np.int64)
        self.append(at[row], lane, addresses[row, lane], sizes, kind, role)

    def append(self, event, lane, address, size, kind, role) -> None:
        if len(event):
            of_all = (np.full(len(event), int(what), np.int8) for what in (kind, role))
            self.parts.append((event, lane, address, size, *of_all))

    def add_bulk(self) -> None:
        """A bulk copy's two ends and the mbarrier that counts it; `arg` is its bytes, `arg2` the mbarrier."""
        if int(Op.BULK_COPY) not in self.present:
            return
        at = self.chosen[self.ops == int(Op.BULK_COPY)]
        events = self.trace.events[at]
        to_shared = among(events["space"], SHARED)
        counted = events["arg2"] >= 0
        ends = ("addresses", Kind.WRITE, to_shared), ("sources", Kind.READ, ~to_shared)
        for column, kind, here in ends:
            for role, ordered in ((Role.PHASE, counted), (Role.GROUP, ~counted)):
                keep = (here == self.shared) & ordered & (events[column] >= 0)
                addresses = self.trace.addresses[events[column][keep]]
                row, lane = np.nonzero(lane_bits(events["mask"][keep]) & (addresses >= 0))
                adds = (events["bytes"][keep][row] == REDUCES) & (kind == Kind.WRITE)
                for chosen, does in ((~adds, kind), (adds, Kind.ATOMIC)):
                    at_row, its_lane = row[chosen], lane[chosen]
                    place = addresses[at_row, its_lane]
                    self.append(at[keep][at_row], its_lane, place, events["arg"][keep][at_row], does, role)
        if self.shared:
            keep = np.nonzero(counted)[0]
            lane = lane_bits(events["mask"][keep]).argmax(axis=1)
            size = np.full(len(keep), MBARRIER_BYTES, np.int64)
            self.append(at[keep], lane, events["arg2"][keep], size, Kind.READ, Role.PHASE)

    def table(self) -> Accesses:
        if not self.parts:
            empty = np.zeros(0, np.int64)
            return Accesses(empty, empty, empty, empty, empty.astype(np.int8), empty.astype(np.int8))
        return Accesses(*(np.concatenate(column) for column in zip(*self.parts)))
