"""What is ordered before what in one launch: the event log replayed with vector clocks.

Lanes of a warp that take part in the same synchronisations form a *strand*; a warp has one strand unless some lanes
synchronise alone. A clock belongs to a strand and has one entry for each

| entry            | value T means                                                              |
|------------------|----------------------------------------------------------------------------|
| strand           | every lane's events of that strand before step T are ordered before        |
| mbarrier         | transfers that its phases 0 … T - 1 counted have landed                    |
| strand's inits   | mbarriers that it initialised before step T are published                  |
| block            | 1: that block has started                                                  |

A clock has one such vector a cluster: the strand's own, and those of which it learnt through atomics, which alone order
blocks of different clusters within a launch. An edge joins what the arriving strands knew, and what they did, into the
clocks of those that go on: `barrier`, `barrier_arrive`, `sync_warp`, `cluster_arrive` (relaxed: only inits before a fence,
and that the block has started), and an mbarrier's phase: its arrivals, unless it lies beyond their scope, and the st.async that it
counted, which release what their threads did before; a bulk copy orders its own bytes only.

Atomics (PTX ISA, memory consistency model): an atomic releases what its thread knew and did before the thread's last fence;
a later atomic on the same address reads from it, directly or through the atomics between, and its thread acquires that at
its next fence. Both fences and both atomics must have a scope that holds both threads (`level_of`). An atomic that is itself
a release or an acquire (bits RELEASE, ACQUIRE of the event's `arg`) needs no fence. With or without fences,
the earlier atomic itself is ordered before all that the later one's thread does next; for that a clock has an entry for
each address (vector LOCATIONS). Where nobody reads what an atomic gives (`arg2`), its thread learns nothing: the two might as well
have come the other way round. A plain store to the address is not taken to end the chain: where it is ordered with the
atomics, so is what they release, and where it is not, it races with them.

Where there are bulk copies or products of wgmma, each vector has two more parts: what proxy fences have made visible to them, in
shared memory (PROXY_ASYNC_SHARED), in global memory (PROXY_ASYNC_GLOBAL), or both (PROXY_ASYNC). A fence copies the first part to
another, and edges join each. mbarrier_init_fence does so for the thread's inits alone.

Not covered: flags that are stored and loaded without atomics.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np

from cutesim.trace import COPY_WAIT, READ_WAIT, FenceKind, Op

from .accesses import LANES, SHARED, Kind, Role, among, by_async_proxy, distinct, holds, lane_bits, repeat

NEVER = np.iinfo(np.int64).max // 2
MBARRIER_OPS = (Op.MBARRIER_INIT, Op.MBARRIER_ARRIVE, Op.MBARRIER_RESUME)
WARP_OPS = (Op.BARRIER, Op.BARRIER_ARRIVE, Op.BARRIER_RESUME)
WARP_OPS += (Op.CLUSTER_ARRIVE, Op.CLUSTER_RESUME, Op.SYNC_WARP)
GROUP_OPS = (Op.ASYNC_COPY, Op.BULK_COPY, Op.COMMIT_GROUP, Op.WAIT_GROUP)
REPLAYED = (*WARP_OPS, *MBARRIER_OPS, *GROUP_OPS, Op.STORE_ASYNC, Op.FENCE, Op.ASYNC_DONE, Op.EXIT)
LOCATIONS = -1  # the vector of a clock that has an entry for each address of atomics
MOST_ATOMICS = 1000  # that are followed one by one where there is no fence
# An atomic's `arg`: two bits, and by how many levels its scope is less than GRID_LEVEL.
ACQUIRE, RELEASE, NARROWER = 1, 2, 4
# How far a fence reaches: two threads of one block, of one cluster, or any.
BLOCK_LEVEL, CLUSTER_LEVEL, GRID_LEVEL = range(3)
FENCE_LEVEL = {
    FenceKind.CTA: BLOCK_LEVEL,
    FenceKind.CLUSTER: CLUSTER_LEVEL,
    FenceKind.GPU: GRID_LEVEL,
    FenceKind.SYS: GRID_LEVEL,
}


def level_of(atomics):
    """How far an event's atomic, or each of several, reaches: to a thread beyond it is none, and hands nothing over (PTX ISA,
    morally strong operations)."""
    return GRID_LEVEL - atomics["arg"] // NARROWER


SHARED_PART, GLOBAL_PART = 1, 2  # of a vector: what bulk copies see there
PROXY_PARTS = {
    FenceKind.PROXY_ASYNC: (SHARED_PART, GLOBAL_PART),
    FenceKind.PROXY_ASYNC_SHARED: (SHARED_PART,),
    FenceKind.PROXY_ASYNC_GLOBAL: (GLOBAL_PART,),
}


@dataclass
class MBarrier:
    """An initialised mbarrier: its clock entry, and what the arrivals of each phase release."""

    entry: int
    released: dict = field(default_factory=dict)  # phase -> clock


@dataclass
class Cluster:
    """The clocks' shape in one cluster, and its barrier's generations."""

    number: int
    blocks: list = field(default_factory=list)
    width: int = 0
    started: dict = field(default_factory=dict)  # block -> entry
    inits: dict = field(default_factory=dict)  # strand -> entry
    mbarriers: dict = field(default_factory=dict)  # address -> MBarrier
    next_mbarrier: int = 0
    generations: dict = field(default_factory=dict)
    fenced: dict = field(default_factory=dict)  # strand -> step of its last mbarrier_init_fence


class Order:
    """The clocks of one launch: the events `chosen` (row numbers, in order) replayed. Entries and clock offsets are positions for
    `clocks[offset + entry]`.

    | attribute                 | what                                                                                            |
    |---------------------------|-------------------------------------------------------------------------------------------------|
    | `warps`, `warp_of`        | block and warp index of each warp; of each event its row of them, -1 outside the launch          |
    | `strand_of`, `cluster_of` | strands of each warp's lanes; clusters of strands                                               |
    | `width_of`                | of each strand: the entries of its cluster's vector (of each part)                              |
    | `group_done`              | event -> (32,) step at which the issuing lane has waited for the copy, or NEVER                  |
    | `group_read`              | the same of a bulk copy's source, where the lane waited for that alone                          |
    | `phase_done`              | event -> (32, 2): mbarrier entry and phase that counted the lane's transfer, or -1              |
    | `pending`                 | event -> (step, n) of a wait_group that came after it and did not cover it                      |
    | `exits`, `started`        | block -> clock of the whole block at its exit, if all its warps did; block -> clock entry       |
    | `overtaking`              | (event, event of the turn before) of arrivals at a block barrier that may count for that turn   |
    """

    def __init__(self, trace, chosen, launch):
        self.trace, self.launch = trace, launch
        self.places = {}  # row of trace.addresses -> what `_at` found there
        self.events = trace.events[chosen]
        place = self.events["block"].astype(np.int64) << 16 | self.events["warp"]
        places = distinct(place)
        self.warp = np.searchsorted(places, place)  # of each event of the launch
        self.warp_of = np.full(len(trace.events), -1, np.int64)
        self.warp_of[chosen] = self.warp
        self.warps = np.stack([places >> 16, places & 0xFFFF], axis=1)
        self.chosen = chosen
        op = self.events["op"]
        fence = np.where(op == int(Op.FENCE), self.events["arg"], -1)
        atomics = op == int(Op.ATOMIC)
        memory_fences = among(fence, tuple(FENCE_LEVEL))
        ordering = bool(memory_fences.any() or (self.events["arg"][atomics] & (ACQUIRE | RELEASE)).any())
        if not ordering:
            atomics &= self._counters(atomics)
        # Bulk copies and wgmma see what threads wrote, data and mbarriers, only after a proxy fence.
        self.parts = 3 if by_async_proxy(self.events).any() else 1
        keep = among(op, tuple(REPLAYED)) & (op != int(Op.FENCE))
        keep |= fence == int(FenceKind.MBARRIER_INIT)
        keep |= among(fence, tuple(PROXY_PARTS)) & (self.parts == 3)
        keep |= atomics | (memory_fences & atomics.any())
        self.sync = np.nonzero(keep)[0]
        used = self.events["addresses"][atomics]
        self.locations = distinct(trace.addresses[used][trace.addresses[used] >= 0])
        self._find_strands()
        self._shape_clocks()
        self._replay()
        self._freeze()

    def _counters(self, atomics) -> np.ndarray:
        """Which atomics to follow where no fence gives them meaning: those on global words that are also read or written
        plainly, as a counter that is reset at the end is.

        A histogram's thousands are not followed one by one, nor atomics on shared memory: barriers order them with the
        rest, and a missing one is said more plainly than the order that atomics happen to have.
        """
        atomics = atomics & ~among(self.events["space"], SHARED)
        if not 0 < int(lane_bits(self.events["mask"][atomics]).sum()) <= MOST_ATOMICS:
            return np.zeros(len(atomics), bool)
        plain = among(self.events["op"], (Op.LOAD, Op.STORE))
        words = [self.trace.addresses[self.events["addresses"][rows]] >> 4 for rows in (atomics, plain)]
        return atomics & bool(holds(distinct(words[0][words[0] >= 0]), words[1]).any())

    # ---- strands ----

    def _find_strands(self) -> None:
        """Split each warp's lanes by the synchronisations that they take part in."""
        count = len(self.warps)
        exists = np.zeros(count, np.uint32)
        # an exit's mask names lanes that a ragged last warp does not have
        real = self.events["op"] != int(Op.EXIT)
        np.bitwise_or.at(exists, self.warp[real], self.events["mask"][real])
        labels = np.zeros((count, 32), np.int64)
        labels[~lane_bits(exists)] = 1
        seen = set()
        for i in self.sync:
            event = self.events[i]
            op, w = int(event["op"]), int(self.warp[i])
            if op in GROUP_OPS or op in (Op.EXIT, Op.ASYNC_DONE):
                continue
            for mask in self._masks(event):
                if mask == exists[w] or (w, mask) in seen:
                    continue
                seen.add((w, mask))
                bits = (mask >> LANES) & 1
                halves = labels[w] * 2 + bits
                labels[w] = np.searchsorted(distinct(halves), halves)
        per_warp = labels.max(axis=1) + 1
        starts = np.cumsum(per_warp) - per_warp
        self.strand_of = labels + starts[:, None]
        self.strand_warp = repeat(np.arange(count, dtype=np.int64), per_warp)

    def _masks(self, event):
        """The lanes that synchronise with the same thing: all of the mask, those at one mbarrier, or each with an atomic."""
        if int(event["op"]) == Op.ATOMIC:
            return [1 << int(lane) for lane in LANES if int(event["mask"]) >> int(lane) & 1]
        if int(event["op"]) not in (*MBARRIER_OPS, Op.STORE_ASYNC):
            return [int(event["mask"])]
        return [sum(1 << int(lane) for lane in lanes) for _, lanes in self._at(event)]

    def _at(self, event):
        """(mbarrier address, lanes that are at it)."""
        row = int(event["sources" if event["op"] == Op.STORE_ASYNC else "addresses"])
        found = self.places.get(row)
        if found is None:
            addresses = self.trace.addresses[row]
            lanes = np.nonzero(lane_bits(event["mask"][None])[0] & (addresses >= 0))[0]
            here = addresses[lanes]
            found = self.places[row] = [(int(a), lanes[here == a]) for a in distinct(here)]
        return found

    def _strands(self, w: int, lanes=None, mask=None) -> list:
        if mask is not None:
            lanes = (int(mask) >> LANES) & 1 == 1
        row = self.strand_of[w] if lanes is None else self.strand_of[w][lanes]
        return [int(row[0])] if len(row) and (row == row[0]).all() else distinct(row).tolist()

    # ---- clocks ----

    def _shape_clocks(self) -> None:
        (gx, gy, _), (cx, cy, cz), block = self.launch.grid, self.launch.cluster, self.warps[:, 0]
        x, y, z = block % gx // cx, block // gx % gy // cy, block // (gx * gy) // cz
        self.cluster_of = (x + (gx // cx) * (y + (gy // cy) * z))[self.strand_warp]
        count = len(self.cluster_of)
        self.clusters = {}
        self.entry_of = np.zeros(count, np.int64)
        blocks = self.warps[self.strand_warp, 0]
        for s in range(count):
            c = self.clusters.setdefault(int(self.cluster_of[s]), Cluster(int(self.cluster_of[s])))
            self.entry_of[s] = c.width
            c.width += 1
            if int(blocks[s]) not in c.blocks:
                c.blocks.append(int(blocks[s]))
        self.init_entry_of = np.full(count, -1, np.int64)
        for i in self.sync[among(self.events["op"][self.sync], (*MBARRIER_OPS, Op.ASYNC_DONE))]:
            event, w = self.events[i], int(self.warp[i])
            c = self.clusters[int(self.cluster_of[self.strand_of[w, 0]])]
            for address, lanes in self._at(event):
                if int(event["op"]) == Op.MBARRIER_INIT:
                    c.next_mbarrier += 1  # how many entries to set aside
                    for s in self._strands(w, lanes):
                        if s not in c.inits:
                            c.inits[s] = self.init_entry_of[s] = c.width
                            c.width += 1
                elif address not in c.mbarriers:
                    c.mbarriers[address] = None  # used without an init: one entry as well
                    c.next_mbarrier += 1
        for c in self.clusters.values():
            c.mbarriers = {}
            c.next_mbarrier, c.width = c.width, c.width + c.next_mbarrier
            for b in c.blocks:
                c.started[b] = c.width
                c.width += 1
        self.now, self.flat, self.flat_size, self.far = [], [], 0, {}
        self.kept = {}  # id of a far vector -> its offset
        self.changes = []  # (strand, step + 1, offset)
        for s in range(count):
            c = self.clusters[int(self.cluster_of[s])]
            vector = np.zeros(c.width * self.parts, np.int64)
            vector[c.started[int(blocks[s])]] = 1
            self.now.append({c.number: vector})
        for s, clock in enumerate(self.now):
            self.changes.append((s, 0, self._keep(int(self.cluster_of[s]), clock)))

    def _keep(self, cluster: int, clock) -> int:
        offset = self._append(clock[cluster])
        for key, vector in clock.items():
            if key == cluster:
                continue
            if id(vector) not in self.kept:  # self.flat keeps it alive, so its id stays its own
                self.kept[id(vector)] = self._append(vector)
            self.far.setdefault(offset, {})[key] = self.kept[id(vector)]
        return offset

    def _append(self, vector) -> int:
        offset = self.flat_size
        self.flat.append(vector)
        self.flat_size += len(vector)
        return offset

    def _release(self, c: Cluster, strands: list, step: int) -> dict:
        """What the strands did and knew before `step`."""
        clock = dict(self.now[strands[0]])
        for s in strands[1:]:
            clock = _joined(clock, self.now[s])
        clock[c.number] = own = clock[c.number].copy()
        for s in strands:
            own[self.entry_of[s]] = step
            if s in c.inits:
                own[c.inits[s]] = step
        return clock

    def _release_relaxed(self, c: Cluster, strands: list) -> dict:
        """A relaxed cluster arrive: the strands' fenced mbarrier inits, and which blocks have started."""
        own = np.zeros(c.width * self.parts, np.int64)
        started = list(c.started.values())
        for s in strands:
            own[started] = np.maximum(own[started], self.now[s][c.number][started])
            if s in c.inits:
                for entry in [c.inits[s] + part * c.width for part in range(self.parts)]:
                    own[entry] = max(c.fenced.get(s, 0), own[entry])
        return {c.number: own}

    def _acquire(self, c: Cluster, strands: list, clock, step: int) -> None:
        last = new = offset = None
        for s in strands:
            if self.now[s] is not last:
                last = self.now[s]
                new = _joined(last, clock)
                offset = self._keep(c.number, new)
            self.now[s] = new
            self.changes.append((s, step + 1, offset))

    # ---- the log ----

    def _replay(self) -> None:
        barriers, groups, came, self.overtaking = {}, {}, {}, []
        self.group_done, self.phase_done, self.pending, self.group_read = {}, {}, {}, {}
        self.sending = {}  # (event, mbarrier address) -> [what its threads release, lanes whose transfer has not landed]
        exits, exited = {}, {}
        # (address, level, block or cluster or 0) -> what atomics there released; strand -> level -> a clock
        self.released_at, self.fence_releases, self.read_by = {}, {}, {}
        for i in self.sync.tolist():
            event, w = self.events[i], int(self.warp[i])
            op, step = int(event["op"]), int(event["step"])
            c = self.clusters[int(self.cluster_of[self.strand_of[w, 0]])]
            if op in (Op.BARRIER, Op.BARRIER_ARRIVE):
                key = (int(event["block"]), int(event["arg"]), int(event["arg2"]))
                strands = self._strands(w, mask=event["mask"])
                clock = self._release(c, strands, step)
                entries = self.entry_of[strands]
                for other, known, when in came.get((*key[:2], key[2] - 1), ()):
                    if (clock[c.number][known] < when).any():
                        self.overtaking.append((int(self.chosen[i]), other))
                came.setdefault(key, []).append((int(self.chosen[i]), entries, step))
                _join(barriers, key, clock)
            elif op == Op.BARRIER_RESUME:
                key = (int(event["block"]), int(event["arg"]), int(event["arg2"]))
                if key in barriers:
                    self._acquire(c, self._strands(w, mask=event["mask"]), barriers[key], step)
            elif op == Op.SYNC_WARP:
                strands = self._strands(w, mask=event["mask"])
                self._acquire(c, strands, self._release(c, strands, step), step)
            elif op in MBARRIER_OPS:
                self._at_mbarrier(c, event, w, op, step)
            elif op == Op.CLUSTER_ARRIVE:
                strands = self._strands(w, mask=event["mask"])
                if int(event["arg"]) == 1:  # relaxed
                    clock = self._release_relaxed(c, strands)
                else:
                    clock = self._release(c, strands, step)
                _join(c.generations, int(event["arg2"]), clock)
            elif op == Op.CLUSTER_RESUME:
                if int(event["arg2"]) in c.generations:
                    clock = c.generations[int(event["arg2"])]
                    self._acquire(c, self._strands(w, mask=event["mask"]), clock, step)
            elif op == Op.FENCE:
                self._fence(c, self._strands(w, mask=event["mask"]), FenceKind(int(event["arg"])), step)
            elif op == Op.ATOMIC:
                self._atomic(c, event, w, step)
            elif op == Op.STORE_ASYNC:
                for address, lanes in self._at(event):
                    clock = self._release(c, self._strands(w, lanes), step)
                    self.sending[(int(self.chosen[i]), address)] = [clock, len(lanes)]
            elif op == Op.ASYNC_DONE:
                self._landed(c, event)
            elif op == Op.EXIT:
                block = int(event["block"])
                _join(exits, block, self._release(c, self._strands(w), step))
                exited[block] = exited.get(block, 0) + 1
            else:
                self._group(groups, i, event, w, op, step)
        whole = -(-self.launch.threads // 32)
        self.started = {block: entry for c in self.clusters.values() for block, entry in c.started.items()}
        number = {block: c.number for c in self.clusters.values() for block in c.started}
        self.exits = {block: clock[number[block]] for block, clock in exits.items() if exited[block] == whole}

    def _freeze(self) -> None:
        """The clocks in one array, and which of them each strand has from which step on."""
        strand, step, offset = np.array(self.changes, np.int64).T
        # The last change of a strand at a step is the one that holds; searchsorted from the right finds it.
        order = np.lexsort((step, strand))
        self.steps = int(self.events["step"].max()) + 2
        self.change_keys, self.change_offsets = (strand * self.steps + step)[order], offset[order]
        self.clocks = np.concatenate(self.flat)
        self.width_of = np.array([self.clusters[int(number)].width for number in self.cluster_of])

    def _fence(self, c: Cluster, strands: list, kind: FenceKind, step: int) -> None:
        for s in strands:
            if kind == FenceKind.MBARRIER_INIT:
                c.fenced[s] = step
                if self.parts == 3 and s in c.inits:
                    own = np.zeros(3 * c.width, np.int64)
                    own[SHARED_PART * c.width + c.inits[s]] = step
                    self._acquire(c, [s], {c.number: own}, step)
            elif kind in PROXY_PARTS:
                clock = self._release(c, [s], step)
                own = clock[c.number]
                for part in PROXY_PARTS[kind]:
                    there = slice(part * c.width, (part + 1) * c.width)
                    own[there] = np.maximum(own[there], own[: c.width])
                own[: c.width] = self.now[s][c.number][: c.width]
                self._acquire(c, [s], clock, step)
            else:
                levels = range(FENCE_LEVEL[kind] + 1)
                read = [self.read_by[s, level] for level in levels if (s, level) in self.read_by]
                if read:
                    self._acquire(c, [s], functools.reduce(_joined, read), step)
                self.fence_releases.update({(s, level): self._release(c, [s], step) for level in levels})

    def _atomic(self, c: Cluster, event, w: int, step: int) -> None:
        """Each lane's atomic, one after the other: it reads what those before released, and releases in turn."""
        addresses, block = self.trace.addresses[int(event["addresses"])], int(event["block"])
        domains = (block, c.number, 0)[: level_of(event) + 1]
        for lane in np.nonzero(lane_bits(event["mask"][None])[0] & (addresses >= 0))[0]:
            s, address = int(self.strand_of[w, lane]), int(addresses[lane])
            acquired = {}
            if not event["arg2"]:  # atomics at this address before `step` are seen
                acquired[LOCATIONS] = np.zeros(len(self.locations), np.int64)
                acquired[LOCATIONS][np.searchsorted(self.locations, address)] = step
            released = self._release(c, [s], step) if event["arg"] & RELEASE else None
            for level, domain in enumerate(domains):
                place = (address, level, domain)
                if place in self.released_at and not event["arg2"]:
                    read = self.released_at[place]
                    self.read_by[s, level] = _joined(self.read_by.get((s, level), {}), read)
                    if event["arg"] & ACQUIRE:
                        acquired = _joined(acquired, read)
                sent = released or self.fence_releases.get((s, level))
                if sent is not None:
                    self.released_at[place] = _joined(self.released_at.get(place, {}), sent)
            self._acquire(c, [s], acquired, step)

    def _mbarrier(self, c: Cluster, address: int, fresh=False) -> MBarrier:
        if fresh or address not in c.mbarriers:
            c.mbarriers[address] = MBarrier(c.next_mbarrier)
            c.next_mbarrier += 1
        return c.mbarriers[address]

    def _at_mbarrier(self, c: Cluster, event, w: int, op: int, step: int) -> None:
        phase = int(event["arg2"])
        for address, lanes in self._at(event):
            mbarrier = self._mbarrier(c, address, fresh=op == Op.MBARRIER_INIT)
            strands = self._strands(w, lanes)
            if op == Op.MBARRIER_ARRIVE:
                if event["sources"] >= 0 and address in self.trace.addresses[int(event["sources"])]:
                    continue  # beyond its scope
                # Who sees the phase complete sees this arrival as well, hence + 1.
                _join(mbarrier.released, phase, self._release(c, strands, step + 1))
            elif op == Op.MBARRIER_RESUME and phase >= 0:
                # Phases complete in order, so a later one has the arrivals of all before it.
                own = np.zeros(c.width * self.parts, np.int64)
                own[mbarrier.entry] = phase + 1
                clock = {c.number: own}
                for p, released in mbarrier.released.items():
                    if p <= phase:
                        clock = _joined(clock, released)
                self._acquire(c, strands, clock, step)

    def _landed(self, c: Cluster, event) -> None:
        """Note which phase counted a transfer; transfers of one instruction to one mbarrier land in lane order."""
        source = int(np.searchsorted(self.trace.events["step"], int(event["arg"])))
        issued = self.trace.events[source]
        address = int(self.trace.addresses[int(event["addresses"])].max())
        done = self.phase_done.setdefault(source, np.full((32, 2), -1, np.int64))
        active = lane_bits(issued["mask"][None])[0]
        if int(issued["op"]) == Op.STORE_ASYNC and issued["sources"] >= 0:
            active = active & (self.trace.addresses[int(issued["sources"])] == address)
        waiting = np.nonzero(active & (done[:, 0] < 0))[0]
        if len(waiting):
            mbarrier, phase = self._mbarrier(c, address), int(event["arg2"])
            done[waiting[0]] = mbarrier.entry, phase
            sent = self.sending.get((source, address))
            if sent is not None:
                sent[1] -= 1
                if sent[1] == 0:
                    _join(mbarrier.released, phase, sent[0])

    def _group(self, groups, i: int, event, w: int, op: int, step: int) -> None:
        """Copies of each lane in commit groups; wait_group(n) completes all but the lane's last n groups."""
        bulk = op == Op.BULK_COPY or (op == Op.COMMIT_GROUP and event["arg"] == 1)
        bulk = bulk or (op == Op.WAIT_GROUP and event["arg2"] != COPY_WAIT)
        if op == Op.BULK_COPY and event["arg2"] >= 0:
            return
        committed, copies = groups.setdefault((w, bulk), (np.zeros(32, np.int64), []))
        lanes = (int(event["mask"]) >> LANES) & 1 == 1
        if op in (Op.ASYNC_COPY, Op.BULK_COPY):
            source = int(self.chosen[i])
            done = self.group_done[source] = np.full(32, NEVER, np.int64)
            copies.append((source, lanes, committed.copy(), done))
        elif op == Op.COMMIT_GROUP:
            committed[lanes] += 1
        else:
            allowed = committed - int(event["arg"])
            for copy in list(copies):
                source, issuing, group, done = copy
                if event["arg2"] == READ_WAIT:
                    read = self.group_read.setdefault(source, np.full(32, NEVER, np.int64))
                    read[lanes & issuing & (group < allowed) & (read == NEVER)] = step
                    continue
                done[lanes & issuing & (group < allowed) & (done == NEVER)] = step
                if (done[issuing] < NEVER).all():
                    copies.remove(copy)
                else:
                    self.pending.setdefault(source, (int(self.chosen[i]), int(event["arg"])))

    # ---- what it says ----

    def knows_far(self, offset, vector, entry, over) -> np.ndarray:
        """Whether the clock at each offset has, in another cluster's vector (or LOCATIONS), an entry beyond `over`."""
        known = np.zeros(len(offset), bool)
        keys, index = np.unique(np.stack([offset, vector]), axis=1, return_inverse=True)
        at = np.array([self.far.get(int(o), {}).get(int(v), -1) for o, v in keys.T], np.int64)[index.reshape(-1)]
        there = at >= 0
        known[there] = self.clocks[at[there] + entry[there]] > over[there]
        return known

    def location(self, address: np.ndarray) -> np.ndarray:
        """The LOCATIONS entry of each address, -1 for none."""
        if not len(self.locations):
            return np.full(len(address), -1, np.int64)
        entry = np.minimum(np.searchsorted(self.locations, address), len(self.locations) - 1)
        return np.where(self.locations[entry] == address, entry, -1)

    def offsets(self, strand: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Where the clock that each strand had at each step begins in `clocks`."""
        keys = strand.astype(np.int64) * self.steps + step
        return self.change_offsets[np.searchsorted(self.change_keys, keys, side="right") - 1]

    def completions(self, event, lane, role, step, kind):
        """When each access is over: (clock entry, time in it, step for its own thread)."""
        strand = self.strand_of[self.warp_of[event], lane]
        entry, over, own_over = self.entry_of[strand].copy(), step.copy(), step.copy()
        published = (role == Role.INIT) & (self.init_entry_of[strand] >= 0)
        entry[published] = self.init_entry_of[strand[published]]
        for which, done in ((Role.GROUP, self.group_done), (Role.PHASE, self.phase_done)):
            mine = np.nonzero(role == which)[0]
            if not len(mine):
                continue
            numbers = distinct(event[mine])
            index = np.searchsorted(numbers, event[mine])
            nothing = np.full(32, NEVER) if which == Role.GROUP else np.full((32, 2), -1, np.int64)
            table = np.stack([done.get(int(number), nothing) for number in numbers])[index, lane[mine]]
            if which == Role.GROUP:
                read = np.stack([self.group_read.get(int(number), nothing) for number in numbers])[index, lane[mine]]
                table = np.where(kind[mine] == Kind.READ, np.minimum(table, read), table)
                over[mine] = own_over[mine] = table
            else:
                landed = table[:, 0] >= 0
                # its own thread is not ordered with it but through the mbarrier
                own_over[mine] = NEVER
                over[mine] = np.where(landed, table[:, 1], NEVER)
                entry[mine] = np.where(landed, table[:, 0], entry[mine])
        return entry, over, own_over


def _join(clocks: dict, key, clock) -> None:
    clocks[key] = _joined(clocks[key], clock) if key in clocks else clock


def _joined(a: dict, b: dict) -> dict:
    """The clock that knows what either knows; vectors are shared with them where one has nothing to add."""
    clock = dict(a)
    for key, vector in b.items():
        held = clock.get(key)
        if held is None:
            clock[key] = vector
        elif held is not vector:
            clock[key] = np.maximum(held, vector)
    return clock
