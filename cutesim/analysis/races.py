"""Accesses that nothing orders: races, reads before an asynchronous copy has arrived, and clusters taken apart too early.

Independent of the schedule that the simulator happened to run: `ordering` says what is ordered, this module compares the
accesses to each byte. First every access is compared with the accesses just before it, which decides for each byte
whether all is ordered, since order is transitive; only bytes where it is not are compared pair by pair.

What a bulk copy reads or overwrites, or wgmma reads, must be ordered after what threads wrote there *and* have passed a proxy fence
of that memory on the way: see `_Pairs.unfenced`.

Not covered: paths that were not executed, proxy fences between clusters, launches that overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cutesim.trace import SMEM_BLOCK_BITS, Finding, Op

from .accesses import (
    COPIES,
    MBARRIER_BYTES,
    Accesses,
    Kind,
    Role,
    accesses,
    among,
    by_async_proxy,
    distinct,
    granules,
    holds,
    repeat,
)
from .ordering import (
    BLOCK_LEVEL,
    CLUSTER_LEVEL,
    GLOBAL_PART,
    GRID_LEVEL,
    LOCATIONS,
    SHARED_PART,
    Order,
    level_of,
)
from .race_reports import (
    Race,
    one_per_cause,
    report,
    report_exit,
    report_overtaking,
    report_overwritten,
    report_proxy,
    report_start,
)
from .requests import tensor_at

MOST_ACCESSES = 512  # of one granule that are compared pair by pair
MOST_PAIRS = 20_000_000
CHUNK = 1_000_000
DENSE = 1 << 22  # granules that a table is made for
PASSES = (Op.BARRIER_RESUME, Op.BARRIER_ARRIVE, Op.CLUSTER_RESUME)


def races(trace) -> tuple[Finding, ...]:
    """The accesses that nothing orders in a trace, as one finding for each cause, launch by launch and in the order of the log.

    A cause is a pair of lines, a hazard and a tensor; a copy that is not waited for, or an mbarrier that is not
    published, is one cause whatever comes after it.
    """
    findings = []
    for launch in _launches(trace):
        lifetimes, unstarted = launch.lifetimes()
        found = [race for race in launch.unordered() if not unstarted & set(race.lines)]
        findings += lifetimes + [
            report(trace, launch.order, race) for race in one_per_cause(trace, launch.order, found)
        ]
        unfenced = launch.unfenced(shared=True) + launch.unfenced(shared=False)
        findings += [report_proxy(trace, race) for race in unfenced]
        said = {line for finding in findings for line in finding.lines}
        lost = [report_overwritten(trace, *one) for one in launch.overwritten()]
        findings += [finding for finding in lost if finding.lines[0] not in said]
    return tuple(findings)


def unordered(trace) -> tuple[Race, ...]:
    """Every pair of source lines with accesses that conflict and that nothing orders, by hazard and tensor."""
    return tuple(race for launch in _launches(trace) for race in launch.unordered())


def unfenced(trace) -> tuple[Race, ...]:
    """Every pair of source lines with a thread's write and a later use of it by a bulk copy or wgmma that no proxy fence joins."""
    return tuple(race for launch in _launches(trace) for race in launch.unfenced(shared=True))


def miscounted(trace) -> tuple[Finding, ...]:
    """Arrivals at a block barrier that may count for the turn before their own, which the order of the run does not show."""
    pairs = (pair for launch in _launches(trace) for pair in launch.overtaking())
    return tuple(report_overtaking(trace, *pair) for pair in pairs)


def _launches(trace):
    for number, geometry in enumerate(trace.launches):
        chosen = np.nonzero(trace.events["launch"] == number)[0]
        if len(chosen):
            yield _Launch(trace, chosen, geometry)


class _Launch:
    """One launch's accesses by space, those that are contended, and (once something needs it) their order."""

    def __init__(self, trace, chosen, geometry):
        self.trace, self.chosen, self.geometry = trace, chosen, geometry
        self.tables = {shared: accesses(trace, chosen, shared) for shared in (True, False)}

    @cached_property
    def order(self) -> Order:
        return Order(self.trace, self.chosen, self.geometry)

    def lifetimes(self):
        """Findings for accesses to a block that may not have started or may have exited, and the lines of the former: of accesses
        to another block's shared memory, and of asynchronous copies to any."""
        events, table, late, early = self.trace.events, self.tables[True], {}, {}
        other = table.address >> SMEM_BLOCK_BITS != events["block"][table.event]
        # the mbarrier of a transfer; its bytes are looked at
        counting = (table.role == Role.PHASE) & (table.kind == Kind.READ)
        table = table.take(np.nonzero((other | among(table.role, COPIES)) & ~counting)[0])
        if not len(table):
            return [], set()
        order = self.order
        strand = order.strand_of[order.warp_of[table.event], table.lane]
        step = events["step"][table.event].astype(np.int64)
        owner = (table.address >> SMEM_BLOCK_BITS).astype(np.int64)
        offset = order.offsets(strand, step)
        entry, over, _ = order.completions(table.event, table.lane, table.role, step, table.kind)
        for block in distinct(owner).tolist():
            mine = owner == block
            if block in order.exits:
                for i in np.nonzero(mine & (order.exits[block][entry] <= over))[0]:
                    event = events[table.event[i]]
                    late.setdefault((int(event["line"]), int(event["block"]) == block), []).append(i)
            if block in order.started:
                for i in np.nonzero(mine & (order.clocks[offset + order.started[block]] < 1))[0]:
                    early.setdefault(int(events["line"][table.event[i]]), []).append(i)
        findings = [report_start(self.trace, table, rows) for rows in early.values()]
        return findings + [report_exit(self.trace, table, rows) for rows in late.values()], set(early)

    @cached_property
    def pairs(self) -> dict:
        """For shared (True) and global memory: the accesses to contended bytes, where there are any."""
        found = {}
        for shared, table in self.tables.items():
            part = _contended(self.trace, table)
            if len(part.row):
                found[shared] = _Pairs(self.trace, self.order, table, part)
        return found

    def unordered(self) -> list[Race]:
        return [race for shared, pairs in self.pairs.items() for race in pairs.grouped(shared)]

    def unfenced(self, shared: bool) -> list[Race]:
        return self.pairs[shared].unfenced(shared) if shared in self.pairs else []

    def overtaking(self) -> list:
        """Arrivals at a block barrier's turn which nothing orders after one of the turn before, a pair for each two lines."""
        events = self.trace.events[self.chosen]
        arrives = events[among(events["op"], (Op.BARRIER, Op.BARRIER_ARRIVE))]
        place = np.stack([arrives[name].astype(np.int64) for name in ("block", "warp", "arg", "arg2")])
        waited = {*map(tuple, place[:, arrives["op"] == int(Op.BARRIER)].T.tolist())}
        if all((*who, turn - 1) in waited for *who, turn in place.T.tolist() if turn):
            return []  # who has waited for the turn before cannot come too early
        lines = self.trace.events["line"]
        pairs = {tuple(lines[[*pair]]): pair for pair in reversed(self.order.overtaking)}
        return sorted(pairs.values())

    def overwritten(self) -> list:
        """(event that writes to an mbarrier in use, the next event that uses it), the first of each line."""
        table, found = self.tables[True], {}
        started, used = table.role == Role.INIT, table.role == Role.USE
        words = distinct(table.address[started])
        writes = np.nonzero((table.kind != Kind.READ) & ~started)[0] if len(words) else ()
        if not len(writes):
            return []
        address = table.address[writes]
        word = words[np.minimum(np.searchsorted(words, address - MBARRIER_BYTES + 1), len(words) - 1)]
        hit = (word > address - MBARRIER_BYTES) & (word < address + table.size[writes])
        for event, at in sorted(zip(table.event[writes[hit]].tolist(), word[hit].tolist())):
            line, here = int(self.trace.events["line"][event]), table.address == at
            later = table.event[here & used & (table.event > event)]
            if line not in found and len(later) and (table.event[here & started] < event).any():
                found[line] = event, int(later.min())
        return list(found.values())


# ---- which bytes are contended --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Contended:
    """Granules that more than one thread or copy touches, one of them writing: columns in log order within each."""

    row: np.ndarray  # rows of the access table
    granule: np.ndarray  # compressed number
    place: np.ndarray  # address of the granule
    bytes: int  # of a granule


def _contended(trace, table: Accesses) -> _Contended:
    none = _Contended(*(np.zeros(0, np.int64),) * 3, 1)
    writes = table.kind != Kind.READ
    if not writes.any():
        return none
    kept = np.nonzero(_near_writes(table, writes))[0]
    granule, row, place = granules(table.take(kept))
    row = kept[row]
    key, extent = _compress(place, granule)
    written = np.zeros(extent, bool)
    written[key[writes[row]]] = True
    # A granule is contended when some access to it is not by the thread that a first look finds there.
    events = trace.events[table.event]
    who = (events["block"].astype(np.int64) << 24 | events["warp"].astype(np.int64) << 8) + table.lane
    asynchronous = among(table.role, COPIES)
    who = np.where(asynchronous, -1 - np.arange(len(table), dtype=np.int64), who)
    who = who[row]
    seen = np.zeros(extent, np.int64)
    seen[key] = who
    several = np.zeros(extent, bool)
    several[key[seen[key] != who]] = True
    keep = (written & several)[key]
    if not keep.any():
        return none
    return _Contended(row[keep], key[keep], place[keep] * granule, granule)


def _near_writes(table: Accesses, writes) -> np.ndarray:
    """Accesses within some 4 KiB page that is written: cheap, and leaves out inputs that are only read."""
    pages = table.address >> 12
    last = (table.address + table.size - 1) >> 12
    dirty = distinct(np.concatenate([pages[writes], last[writes]]))
    big = np.nonzero(writes & (table.size > 4096))[0]
    if len(big):  # a bulk copy may cover pages between its first and its last
        covered = (np.arange(pages[i], last[i] + 1, dtype=np.int64) for i in big)
        dirty = distinct(np.concatenate([dirty, *covered]))
    return holds(dirty, pages) | holds(dirty, last) | (table.size > 4096)


def _compress(place: np.ndarray, granule: int):
    """Small numbers for granule numbers, and how many there may be."""
    low = place.min()
    if place.max() - low < DENSE:
        return place - low, int(place.max() - low) + 1
    block_granules = (1 << SMEM_BLOCK_BITS) // granule
    blocks, block = np.unique(place // block_granules, return_inverse=True)
    inside = place % block_granules
    extent = int(inside.max()) + 1
    if len(blocks) * extent < 4 * DENSE:
        return block * extent + inside, len(blocks) * extent
    found, key = np.unique(place, return_inverse=True)
    return key, len(found)


# ---- comparing accesses ---------------------------------------------------------------------------------------------


class _Pairs:
    """The contended accesses of one space, and which pairs of them nothing orders."""

    def __init__(self, trace, order: Order, table: Accesses, part: _Contended):
        self.trace, self.order = trace, order
        events = trace.events
        event, lane = table.event[part.row], table.lane[part.row]
        warp = order.warp_of[event]
        strand = order.strand_of[warp, lane]
        step = events["step"][event].astype(np.int64)
        role = table.role[part.row]
        # Lanes of a strand that touch a granule in one instruction are one row; asynchronous copies have a row each.
        alone = among(role, COPIES)
        inside = strand - order.strand_of[warp, 0] + 32
        fine = np.where(alone, 128 + lane, inside) * 8 + role
        sort = _sorted(part.granule, step - step.min(), fine, lane)
        self.granule, self.place, self.bytes = part.granule[sort], part.place[sort], part.bytes
        event, lane, warp, strand, step = (column[sort] for column in (event, lane, warp, strand, step))
        row, fine = part.row[sort], fine[sort]
        new = np.ones(len(sort), bool)
        new[1:] = (np.diff(self.granule) != 0) | (np.diff(step) != 0) | (np.diff(fine) != 0)
        first = np.nonzero(new)[0]
        last = np.append(first[1:], len(sort)) - 1
        self.collides = self._collisions(table, row, event, lane, first, last)
        self.granule, self.place = self.granule[first], self.place[first]
        self.event, self.warp = event[first], warp[first]
        self.strand, self.step = strand[first], step[first]
        self.low, self.high = lane[first], lane[last]
        self.row = row[first]
        self.kind, self.role = table.kind[self.row], table.role[self.row]
        self.address, self.size = table.address[self.row], table.size[self.row]
        self.cluster = order.cluster_of[self.strand]
        self.entry, self.over, self.own_over = order.completions(self.event, self.low, self.role, self.step, self.kind)
        self.offset = order.offsets(self.strand, self.step)
        self.location = np.where(self.kind == Kind.ATOMIC, order.location(self.address), -1)
        # How far an atomic reaches; to a thread beyond, it is none.
        is_atomic = events["op"][self.event] == int(Op.ATOMIC)
        self.level = np.where(is_atomic, level_of(events[self.event]), GRID_LEVEL)

    def _collisions(self, table, row, event, lane, first, last):
        """Rows whose lanes write the same bytes in one instruction, unless they are known to write the same value."""
        several = (first != last) & (table.kind[row[first]] == Kind.WRITE)
        if not several.any():
            return several
        value = self._values(table, row, event, lane)
        start = repeat(first, np.diff(np.append(first, len(row))))
        differs = (value != value[start]) | (table.address[row] != table.address[row[start]])
        return several & np.logical_or.reduceat(differs, first)

    def _values(self, table, row, event, lane):
        """The number each row stored as its bits, or one that equals no other where it is not known."""
        events, tensors = self.trace.events, self.trace.tensors
        unknown = -1 - np.arange(len(row), dtype=np.int64) - (1 << 62)
        if not len(self.trace.values):
            return unknown
        value_row, tensor = events["values"][event], events["tensor"][event]
        itemsize = np.array([t.itemsize for t in tensors] + [0], np.int64)[tensor]
        known = (value_row >= 0) & (table.role[row] == Role.PLAIN)
        known &= events["bytes"][event] == itemsize
        stored = self.trace.values[np.where(known, value_row, 0), lane]
        bits = np.where(np.isnan(stored), 1, (stored + 0.0).view(np.int64))
        return np.where(known, bits, unknown)

    def ordered(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Whether each access a is complete before access b, of a later or the same step, begins."""
        same = (self.warp[a] == self.warp[b]) & (self.low[a] == self.low[b])
        same &= (self.low[a] == self.high[a]) & (self.low[b] == self.high[b])
        same &= self.own_over[a] < self.step[b]
        near = self.cluster[a] == self.cluster[b]
        known = near & (self.order.clocks[self.offset[b] + np.where(near, self.entry[a], 0)] > self.over[a])
        if self.order.far:
            far = np.nonzero(~near)[0]
            known[far] = self.order.knows_far(
                self.offset[b[far]], self.cluster[a[far]], self.entry[a[far]], self.over[a[far]]
            )
            seen = np.nonzero(~known & (self.location[a] >= 0))[0]
            earlier, vector = a[seen], np.full(len(seen), LOCATIONS)
            known[seen] = self.order.knows_far(self.offset[b[seen]], vector, self.location[earlier], self.step[earlier])
        return same | known

    def _conflicts(self, a, b) -> np.ndarray:
        """Whether the accesses do not go together where nothing orders them: a write with any, an atomic with any but atomics
        whose scopes hold both threads."""
        apart = np.where(self.cluster[a] != self.cluster[b], GRID_LEVEL, CLUSTER_LEVEL)
        block = self.order.warps[:, 0]
        apart = np.where(block[self.warp[a]] == block[self.warp[b]], BLOCK_LEVEL, apart)
        narrow = np.minimum(self.level[a], self.level[b]) < apart
        return (self.kind[a] != self.kind[b]) | (self.kind[a] == Kind.WRITE) | narrow

    def _racing_granules(self) -> np.ndarray:
        """Granules where some access is not ordered after those just before it."""
        breaks = np.ones(len(self.granule), bool)
        breaks[1:] = (np.diff(self.granule) != 0) | (np.diff(self.kind) != 0) | (self.kind[1:] == Kind.WRITE)
        breaks[1:] |= (self.level[1:] < GRID_LEVEL) | (self.level[:-1] < GRID_LEVEL)
        start = np.nonzero(breaks)[0]
        length = np.diff(np.append(start, len(self.granule)))
        follows = np.nonzero(self.granule[start[1:]] == self.granule[start[:-1]])[0]
        racing = [self.granule[self.collides]]
        for part in _chunks(length[follows] * length[follows + 1]):
            runs = follows[part]
            a, b = _product(start[runs], length[runs], start[runs + 1], length[runs + 1])
            racing.append(distinct(self.granule[b[~self.ordered(a, b)]]))
        return distinct(np.concatenate(racing))

    def _racing_pairs(self):
        """(a, b) of unordered conflicting accesses, a logged first, and whether each row reads after an ordered write."""
        racing = self._racing_granules()
        initialised = np.zeros(len(self.granule), bool)
        found_a, found_b = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        begin = np.searchsorted(self.granule, racing)
        length = np.minimum(np.searchsorted(self.granule, racing, side="right") - begin, MOST_ACCESSES)
        pairs = length * (length - 1) // 2
        within = np.cumsum(pairs) <= max(MOST_PAIRS, int(pairs[:1].sum()))
        begin, length = begin[within], length[within]
        for part in _chunks(pairs[within]):
            b = _ranges(begin[part], length[part])
            before = b - repeat(begin[part], length[part])
            a = _ranges(repeat(begin[part], length[part]), before)
            b = repeat(b, before)
            conflict = self._conflicts(a, b)
            a, b = a[conflict], b[conflict]
            ordered = self.ordered(a, b)
            initialised[b[ordered & (self.kind[a] != Kind.READ)]] = True
            found_a.append(a[~ordered])
            found_b.append(b[~ordered])
        a, b = np.concatenate(found_a), np.concatenate(found_b)
        harmful = ~self._same_value(a, b)
        alone = np.nonzero(self.collides)[0]
        a, b = (np.concatenate([x[harmful], alone]) for x in (a, b))
        return a, b, initialised

    def _same_value(self, a, b) -> np.ndarray:
        """Pairs of stores that are known to write the same value to the same place."""
        both = (self.kind[a] == Kind.WRITE) & (self.kind[b] == Kind.WRITE)
        both &= (self.address[a] == self.address[b]) & (self.size[a] == self.size[b])
        both &= ~self.collides[a] & ~self.collides[b]
        if not both.any() or not len(self.trace.values):
            return np.zeros(len(a), bool)
        table = Accesses(self.event, self.low, self.address, self.size, self.kind, self.role)
        value = self._values(table, np.arange(len(self.event), dtype=np.int64), self.event, self.low)
        return both & (value[a] == value[b])

    # ---- one report a cause ----

    def grouped(self, shared: bool) -> list[Race]:
        """The racing pairs, gathered by lines, hazard and tensor; the pair shown spans the widest scope."""
        a, b, initialised = self._racing_pairs()
        return self._gathered(*self._hazards(a, b, initialised, shared), shared)

    def unfenced(self, shared: bool) -> list[Race]:
        """Threads' writes that are ordered before a bulk copy reads or overwrites them, or wgmma reads them, but with no proxy
        fence on the way.

        Only writes since a bulk copy last wrote the same bytes count. cp.async writes as a thread does, for a bulk copy alone. An
        mbarrier's init is such a write, which the bulk copy that it counts reads.
        """
        events = self.trace.events[self.event]
        bulk, uses = events["op"] == int(Op.BULK_COPY), by_async_proxy(events)
        written = (self.kind != Kind.READ) & among(self.role, (Role.PLAIN, Role.GROUP, Role.INIT)) & ~bulk
        uses = np.nonzero(uses)[0]
        if not len(uses) or not written.any():
            return []
        begin = np.searchsorted(self.granule, self.granule[uses])
        overwritten = np.maximum.accumulate(
            np.where(bulk & (self.kind == Kind.WRITE), np.arange(len(bulk), dtype=np.int64) + 1, 0)
        )
        begin = np.maximum(begin, np.where(uses > 0, overwritten[uses - 1], 0))
        before = np.concatenate([[0], np.cumsum(written)])
        some = before[uses] > before[begin]
        uses, begin = uses[some], begin[some]
        found_a, found_b = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for part in _chunks(uses - begin):
            a = _ranges(begin[part], (uses - begin)[part])
            b = repeat(uses[part], (uses - begin)[part])
            generic = written[a] & (bulk[b] | (self.role[a] == Role.PLAIN))
            if shared:
                # on an mbarrier
                counts = (self.role[b] == Role.PHASE) & (self.kind[b] == Kind.READ)
                generic &= (self.role[a] == Role.INIT) == counts
            else:
                generic &= self.cluster[a] == self.cluster[b]
            a, b = a[generic], b[generic]
            ordered = self.ordered(a, b)
            part = self.order.width_of[self.strand[b]] * (SHARED_PART if shared else GLOBAL_PART)
            fenced = self.order.clocks[self.offset[b] + part + self.entry[a]] > self.over[a]
            found_a.append(a[ordered & ~fenced])
            found_b.append(b[ordered & ~fenced])
        first, second = np.concatenate(found_a), np.concatenate(found_b)
        return self._gathered(first, second, np.zeros(len(first), np.int64), shared)

    def _gathered(self, first, second, hazard, shared: bool) -> list[Race]:
        if not len(first):
            return []
        events = self.trace.events
        of = lambda column: [events[column][self.event[x]].astype(np.int64) for x in (first, second)]  # noqa: E731
        lines, tensors, block, warp = map(of, ("line", "tensor", "block", "warp"))
        tensor = np.where(tensors[0] >= 0, *tensors)
        if not shared:
            tensor = tensor_at(self.trace, self.place[first])
        scope = np.where(self.cluster[first] != self.cluster[second], 3, np.where(block[0] != block[1], 2, 0))
        scope = np.where((scope == 0) & (warp[0] != warp[1]), 1, scope)
        lane = [self.low[first], self.low[second]]
        clash = (scope == 0) & (lane[0] == lane[1])
        lane[1] = np.where(clash, self.high[second], lane[1])
        lane[0] = np.where(clash & (lane[1] == lane[0]), self.high[first], lane[0])
        threads = [w * 32 + n for w, n in zip(warp, lane)]
        keys = np.stack([lines[0], lines[1], hazard, tensor], axis=1)
        group = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        order = np.lexsort((self.place[first], threads[1], threads[0], block[1], block[0], -scope, group))
        starts = np.nonzero(np.diff(group[order], prepend=-1))[0]
        ends = np.append(starts[1:], len(order))
        found = []
        for start, end in zip(starts, ends):
            best = order[start]
            members = order[start:end]
            here = members[(block[0][members] == block[0][best]) & (block[1][members] == block[1][best])]
            if scope[best] == 3:
                here = members
            found.append(
                Race(
                    int(hazard[best]),
                    tuple(int(self.event[x[best]]) for x in (first, second)),
                    tuple(int(t[best]) for t in threads),
                    tuple(int(x[best]) for x in block),
                    int(scope[best]),
                    tuple(Kind(int(self.kind[x[best]])) for x in (first, second)),
                    tuple(Role(int(self.role[x[best]])) for x in (first, second)),
                    int(self.own_over[first[best]]),
                    int(tensor[best]),
                    shared,
                    _words(self.place[first[here]], self.bytes),
                    len(np.unique(block[1][members])),
                    tuple(int(x[best]) for x in lines),
                    int(self.place[first[best]]),
                    int(min(self.step[first[members]].min(), self.step[second[members]].min())),
                )
            )
        return sorted(found, key=lambda race: race.step)

    def _hazards(self, a, b, initialised, shared: bool):
        """Which of each pair comes first in the program, and the hazard: 0 read after write, 1 write after read, 2 two writes.

        The log's order is one schedule's. A read of shared memory that no write is ordered before waits for the other's
        write. Otherwise the access with fewer barriers behind it comes first; with equally many, a warp's k-th read of the
        bytes comes before another's k+1-th write, and its k-th write before the k+1-th read; else instructions decide.
        """
        barriers, since = self._positions()
        turn = self._turns()
        read_a, read_b = self.kind[a] == Kind.READ, self.kind[b] == Kind.READ
        mixed = read_a != read_b
        by_turn = [np.where(mixed, turn[x], 0) for x in (a, b)]
        by_since, by_barriers = ([rank[self.event[x]] for x in (a, b)] for rank in (since, barriers))
        swap = np.zeros(len(a), bool)
        for one, other in (by_since, by_turn, by_barriers):
            swap = np.where(one == other, swap, one > other)
        if shared:
            swap = np.where(read_a & ~initialised[a], True, swap)
            swap = np.where(read_b & ~initialised[b], False, swap)
        # An asynchronous copy begins in its own thread, so there the log is the program's order.
        own = (self.warp[a] == self.warp[b]) & (self.role[a] != Role.PLAIN)
        swap &= ~own
        first, second = np.where(swap, b, a), np.where(swap, a, b)
        hazard = np.where(self.kind[second] == Kind.READ, 0, np.where(self.kind[first] == Kind.READ, 1, 2))
        return first, second, hazard

    def _positions(self):
        """Of each event, in its own warp's program: block and cluster barriers behind it, and instructions since."""
        warp = self.order.warp_of
        order = np.argsort(warp, kind="stable")
        ranked, op = warp[order], self.trace.events["op"][order]
        first = np.searchsorted(ranked, ranked)
        number = np.arange(len(warp), dtype=np.int64)
        passed = np.cumsum(among(op, PASSES))
        last = np.maximum.accumulate(np.where(np.diff(passed, prepend=0) > 0, number, 0))
        barriers, since = np.zeros(len(warp), np.int64), np.zeros(len(warp), np.int64)
        barriers[order], since[order] = passed - passed[first], number - np.maximum(last, first)
        return barriers, since

    def _turns(self) -> np.ndarray:
        """How often each row's warp has read, or written, the same granule before."""
        key = (self.granule * len(self.order.warps) + self.warp) * 2 + (self.kind == Kind.READ)
        order = np.argsort(key, kind="stable")
        ranked = key[order]
        turn = np.zeros(len(key), np.int64)
        turn[order] = np.arange(len(key), dtype=np.int64) - np.searchsorted(ranked, ranked)
        return turn


def _sorted(granule, step, fine, lane) -> np.ndarray:
    """argsort by (granule, step, fine, lane); through one integer each where they fit (fine < 2**11, lane < 2**5)."""
    if granule.max() >> 23 or step.max() >> 24:
        return np.lexsort((lane, fine, step, granule))
    return np.argsort(granule << 40 | step << 16 | fine << 5 | lane, kind="stable")


def _words(places: np.ndarray, granule: int) -> int:
    """Distinct 4-byte words in granules at these addresses."""
    if granule <= 4:
        return len(np.unique(places // 4))
    return len(np.unique(places)) * granule // 4


def _ranges(start, length) -> np.ndarray:
    """start[0], start[0] + 1, … (length[0] of them), then the next."""
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) - repeat(ends - length, length) + repeat(start, length)


def _product(a_start, a_length, b_start, b_length):
    """All (a, b) with a in the k-th range of a and b in the k-th range of b."""
    b = _ranges(b_start, b_length)
    times = repeat(a_length, b_length)
    return _ranges(repeat(a_start, b_length), times), repeat(b, times)


def _chunks(sizes: np.ndarray):
    """Slices of about CHUNK in total each."""
    if not len(sizes):
        return
    chunk = np.cumsum(sizes) // CHUNK
    edges = np.nonzero(np.diff(chunk))[0] + 1
    yield from (slice(i, j) for i, j in zip([0, *edges], [*edges, len(sizes)]))
