"""Races: accesses to the same bytes that nothing orders, found by happens-before on a finished trace.

Each warp has a vector clock; the trace is replayed once. An access happens before another when the second's clock has seen
the first. Lanes of a warp run in lockstep in the simulator, but the hardware does not promise that, so two lanes are ordered
only by a sync_warp or a barrier between them.

| edge                                             | from                                   | to                          |
|--------------------------------------------------|----------------------------------------|-----------------------------|
| block barrier, named barriers                    | arrival                                | everyone who goes on        |
| cluster barrier (not a relaxed arrive)           | arrival                                | everyone who goes on        |
| mbarrier                                         | arrivals and bytes landed in a phase   | who sees that phase complete |
| cp.async                                         | its landing                            | the issuer's wait_group     |
| mbarrier_init_fence and any cluster barrier      | the init                               | uses of that mbarrier       |

Shuffles, votes, redux and elect order no memory. Blocks of different clusters are never ordered in one launch; launches are.
The search covers the executed paths for the given inputs, so no race found is not a proof. Source: PTX ISA 9.0, memory
consistency model, asynchronous operations. Not covered: fences with flags in ordinary memory; acquire and release atomics.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from quack_tutorial.simulator.trace import FenceKind, Finding, Op, Space, Trace

NEVER = 1 << 60
_READS = {Op.LOAD}
_WRITES = {Op.STORE}
_MBARRIER = {Op.MBARRIER_INIT, Op.MBARRIER_ARRIVE, Op.MBARRIER_EXPECT, Op.MBARRIER_WAIT}
_NO_MEMORY = {Op.SHUFFLE: "a shuffle", Op.VOTE: "a vote", Op.REDUX: "redux", Op.ELECT: "elect"}


@dataclass
class _Access:
    """One event's (or one asynchronous transfer's) touching of memory, with what orders it."""

    event: int  # index into trace.events
    writes: bool
    atomic: bool
    agent: int  # clock column that must be seen for this access to be over
    clock: int  # … from this value on
    epoch: int  # intra-warp epoch when it is over
    over_step: int  # step of the issuing warp from which it is over for its own thread
    seen: np.ndarray  # what the issuer had seen when it began
    begin_epoch: int
    warp: int  # dense warp index
    order: tuple  # (barriers passed, events since): where warps that run the same code are compared
    kind: str  # "", "cp.async", "transfer" or "mbarrier"


def races(trace: Trace) -> tuple:
    """The races of a trace as Findings, one a cause: the same two lines on the same tensor are one report."""
    found = []
    for launch in range(len(trace.launches)):
        rows = np.nonzero(trace.events["launch"] == launch)[0]
        if len(rows):
            found += _launch_races(trace, rows)
    return tuple(found)


def _launch_races(trace: Trace, rows: np.ndarray) -> list:
    replay = _Replay(trace, rows)
    accesses, spans = replay.run()
    conflicts = _conflicts(trace, accesses, spans)
    return _reports(trace, replay, accesses, conflicts)


class _Replay:
    """Runs the log once and gives every access its clocks."""

    def __init__(self, trace: Trace, rows: np.ndarray):
        self.trace, self.rows = trace, rows
        events = trace.events[rows]
        pairs = sorted(set(zip(events["block"].tolist(), events["warp"].tolist())))
        self.warps = {pair: i for i, pair in enumerate(pairs)}
        self.phases: dict = {}  # (mbarrier address, phase) -> column
        for e in events[events["op"] == Op.ASYNC_DONE]:
            self.phases.setdefault(self._phase(e), len(pairs) + len(self.phases))
        columns = len(pairs) + len(self.phases)
        self.clocks = np.zeros((len(pairs), columns), np.int32)
        self.clocks[np.arange(len(pairs)), np.arange(len(pairs))] = 1
        self.inits = self.clocks.copy()  # also what init fences published
        self.epochs = [0] * len(pairs)
        self.since = [0] * len(pairs)
        self.fenced = [False] * len(pairs)

    def _phase(self, event) -> tuple:
        return int(self.trace.addresses[event["addresses"]].max()), int(event["arg2"])

    def run(self):
        """(accesses, spans): spans are (access, lane, first byte, bytes) rows."""
        trace, rows = self.trace, self.rows
        accesses, spans = [], []
        gates = defaultdict(lambda: 0)  # barrier generation or phase -> what its arrivals had seen
        init_gates = defaultdict(lambda: 0)
        groups = defaultdict(lambda: ([[]], []))  # warp -> (open group in a list, committed groups)
        transfers = {}
        # Plain Python numbers: numpy scalars are slow one at a time.
        for index, e in zip(rows.tolist(), trace.events[rows].tolist()):
            step, _, block, warp, _, op, space, _, mask, nbytes, at, source, _, arg, arg2 = e
            op = Op(op)
            w = self.warps[(block, warp)]
            if op in (Op.LOAD, Op.STORE, Op.ATOMIC):
                access = self._access(index, w, step, op is not Op.LOAD, op is Op.ATOMIC, "")
                _add_spans(spans, len(accesses), trace.addresses[at], nbytes)
                accesses.append(access)
            elif op in _MBARRIER:
                access = self._access(index, w, step, op is Op.MBARRIER_INIT, op is not Op.MBARRIER_INIT, "mbarrier")
                access.seen = self.inits[w].copy()
                _add_spans(spans, len(accesses), trace.addresses[at], 8)
                accesses.append(access)
                if op is Op.MBARRIER_ARRIVE:
                    for address in set(trace.addresses[at].tolist()) - {-1}:
                        key = ("phase", address, arg2)
                        gates[key] = np.maximum(
                            np.maximum(gates[key], gates[("phase", address, arg2 - 1)]), self.clocks[w]
                        )
                    self._advance(w, sync=False)
            elif op is Op.ASYNC_COPY:
                for row, writes in ((source, False), (at, True)):
                    access = self._pending(index, w, step, writes, "cp.async")
                    groups[w][0][0].append(access)
                    _add_spans(spans, len(accesses), trace.addresses[row], nbytes)
                    accesses.append(access)
            elif op is Op.COMMIT_GROUP:
                group = groups[(w, "bulk") if arg else w]
                group[1].append(group[0][0])
                group[0][0] = []
            elif op is Op.WAIT_GROUP:
                committed = groups[(w, "bulk") if arg2 else w][1]
                while len(committed) > arg:
                    for access in committed.pop(0):
                        access.clock, access.over_step = int(self.clocks[w, w]), step
                        access.epoch = self.epochs[w]
            elif op is Op.STORE_ASYNC:  # one transfer a lane: each is counted by its own block's mbarrier
                for lane in np.nonzero(trace.addresses[at] >= 0)[0]:
                    only = np.where(np.arange(32) == lane, trace.addresses[at], -1)
                    transfer = self._pending(index, w, step, True)
                    transfers.setdefault((step, int(trace.addresses[source][lane])), []).append(transfer)
                    _add_spans(spans, len(accesses), only, nbytes)
                    accesses.append(transfer)
            elif op is Op.BULK_COPY:
                for row, writes in ((at, True), (source, False)):
                    transfer = self._pending(index, w, step, writes)
                    transfers.setdefault((step, arg2), []).append(transfer)
                    _add_spans(spans, len(accesses), trace.addresses[row], arg)
                    accesses.append(transfer)
                if arg2 < 0:  # counted by a bulk group of this thread
                    groups[(w, "bulk")][0][0].extend(accesses[-2:])
            elif op is Op.ASYNC_DONE:
                mbarrier = int(trace.addresses[at].max())
                column = self.phases[(mbarrier, arg2)]
                for access in transfers.get((arg, mbarrier), ()):
                    access.agent, access.clock = column, 1
                key = ("phase", mbarrier, arg2)
                gate = np.array(np.maximum(gates[key], np.zeros(self.clocks.shape[1], np.int32)))
                gate[column] = 1
                gates[key] = gate
            elif op in (Op.BARRIER, Op.BARRIER_ARRIVE):
                key = ("barrier", block, arg, arg2)
                gates[key] = np.maximum(gates[key], self.clocks[w])
                self._advance(w, sync=True)
            elif op is Op.BARRIER_RESUME:
                self._acquire(w, gates[("barrier", block, arg, arg2)])
            elif op is Op.CLUSTER_ARRIVE:
                key = ("cluster", self._cluster(block), arg2)
                if not arg:
                    gates[key] = np.maximum(gates[key], self.clocks[w])
                if not arg or self.fenced[w]:
                    init_gates[key] = np.maximum(init_gates[key], self.inits[w])
                self._advance(w, sync=not arg)
            elif op is Op.CLUSTER_RESUME:
                key = ("cluster", self._cluster(block), arg2)
                self._acquire(w, gates[key])
                self.inits[w] = np.maximum(self.inits[w], init_gates[key])
            elif op is Op.MBARRIER_RESUME:
                if arg2 >= 0:
                    for address in set(trace.addresses[at].tolist()) - {-1}:
                        for phase in range(arg2 + 1):
                            self._acquire(w, gates[("phase", address, phase)])
            elif op is Op.SYNC_WARP:
                self.epochs[w] += 1
            elif op is Op.FENCE and arg == FenceKind.MBARRIER_INIT:
                self.fenced[w] = True
        return accesses, spans

    def _cluster(self, block: int) -> tuple:
        launch = self.trace.launches[int(self.trace.events[self.rows[0]]["launch"])]
        (gx, gy, _), (cx, cy, cz) = launch.grid, launch.cluster
        return block % gx // cx, block // gx % gy // cy, block // (gx * gy) // cz

    def _access(self, index, w, step, writes, atomic, kind) -> _Access:
        clock = int(self.clocks[w, w])
        self.since[w] += 1
        order = (self.epochs[w], self.since[w])
        seen = self.clocks[w].copy()
        return _Access(index, writes, atomic, w, clock, self.epochs[w], step, seen, self.epochs[w], w, order, kind)

    def _pending(self, index, w, step, writes, kind="transfer") -> _Access:
        """An asynchronous access: not over until something waits for it."""
        access = self._access(index, w, step, writes, False, kind)
        access.clock, access.over_step, access.epoch = NEVER, NEVER, NEVER
        return access

    def _advance(self, w: int, sync: bool) -> None:
        """A release: what the warp does from here on is not covered by it."""
        self.clocks[w, w] += 1
        self.inits[w, w] += 1
        if sync:
            self.epochs[w] += 1
            self.since[w] = 0

    def _acquire(self, w: int, gate) -> None:
        self.clocks[w] = np.maximum(self.clocks[w], gate)
        self.inits[w] = np.maximum(self.inits[w], gate)


def _add_spans(spans: list, access: int, addresses: np.ndarray, nbytes: int) -> None:
    lanes = np.nonzero(addresses >= 0)[0]
    block = np.empty((len(lanes), 4), np.int64)
    block[:, 0], block[:, 1], block[:, 2], block[:, 3] = access, lanes, addresses[lanes], nbytes
    spans.append(block)


def _conflicts(trace: Trace, accesses: list, spans: list) -> dict:
    """(earlier access, lane, later access, lane) -> first byte and words of unordered pairs with a write, by lines."""
    if not spans:
        return {}
    spans = np.concatenate(spans)
    space = np.array([_space(trace, a) for a in accesses])
    result = {}
    for one in (Space.GMEM, Space.SMEM):
        part = spans[space[spans[:, 0]] == one]
        if len(part):
            _space_conflicts(trace, accesses, part, result)
    return result


def _space(trace: Trace, access: _Access) -> int:
    if access.kind == "cp.async":
        return Space.SMEM if access.writes else Space.GMEM
    event = trace.events[access.event]
    space = int(event["space"])
    if Op(int(event["op"])) is Op.BULK_COPY and not access.writes:
        return Space.GMEM if space == Space.SMEM else Space.SMEM
    return Space.SMEM if space in (Space.SMEM, Space.DSMEM) else space


def _space_conflicts(trace, accesses, part, result) -> None:
    writes = np.array([a.writes or a.atomic for a in accesses])
    everything = part[:, 2] | part[:, 3]
    granule = int(np.bitwise_or.reduce(everything))
    granule = min(granule & -granule, 16)
    count = part[:, 3] // granule
    entry = np.repeat(np.arange(len(part)), count)
    first = np.repeat(part[:, 2] // granule, count)
    within = np.arange(len(entry)) - np.repeat(np.cumsum(count) - count, count)
    cell = first + within
    order = np.argsort(cell, kind="stable")
    cell, entry = cell[order], entry[order]
    edges = np.nonzero(np.diff(cell))[0] + 1
    begins = np.concatenate([[0], edges])
    ends = np.concatenate([edges, [len(cell)]])
    access = part[entry, 0]
    thread = np.array([a.warp for a in accesses])[access] * 32 + part[entry, 1]
    # Only cells that two threads touch and one writes can race, and cells that an asynchronous copy touches.
    low, high = np.minimum.reduceat(thread, begins), np.maximum.reduceat(thread, begins)
    written = np.add.reduceat(writes[access].astype(np.int64), begins) > 0
    is_async = np.array([a.kind in ("cp.async", "transfer") for a in accesses])
    touched = np.add.reduceat(is_async[access].astype(np.int64), begins) > 0
    known: dict = {}
    for group in np.nonzero(written & ((low != high) | touched))[0]:
        b, e = begins[group], ends[group]
        ids, lanes = access[b:e], part[entry[b:e], 1]
        signature = ids.tobytes() + lanes.tobytes()
        pairs = known.get(signature)
        if pairs is None:
            pairs = known[signature] = _unordered(trace, accesses, ids.tolist(), lanes.tolist())
        for key, pair in pairs.items():
            cells, example, address = result.get(key, (set(), pair, int(cell[b]) * granule))
            cells.add(int(cell[b]) * granule // 4)
            result[key] = (cells, example, address)


def _unordered(trace, accesses, ids, lanes) -> dict:
    """Unordered conflicting pairs at one cell, one example for each pair of lines."""
    members: dict = {}
    for a, lane in zip(ids, lanes):
        members.setdefault(a, []).append(lane)
    keys = sorted(members, key=lambda a: accesses[a].event)
    found = {}
    for i, x in enumerate(keys):
        first = accesses[x]
        if first.writes and not first.atomic and len(members[x]) > 1 and _values_differ(trace, first.event, members[x]):
            _note(trace, found, accesses, x, members[x][0], x, members[x][1])
        for y in keys[i + 1 :]:
            second = accesses[y]
            if not (first.writes or second.writes) or (first.atomic and second.atomic):
                continue
            if first.event == second.event:
                continue
            pair = _first_unordered(first, second, members[x], members[y], trace)
            if pair is None:
                continue
            if (
                first.writes
                and second.writes
                and not first.kind
                and not second.kind
                and _same_value(trace, first, second, pair)
            ):
                continue
            _note(trace, found, accesses, x, pair[0], y, pair[1])
    return found


def _first_unordered(first, second, lanes_x, lanes_y, trace):
    if first.warp != second.warp:
        return None if second.seen[first.agent] >= first.clock else (lanes_x[0], lanes_y[0])
    began = int(trace.events[second.event]["step"])
    through_phase = first.kind == "transfer" and second.seen[first.agent] >= first.clock
    for p in lanes_x:
        for q in lanes_y:
            if p == q:
                over = began > first.over_step or through_phase
            else:
                over = second.begin_epoch > first.epoch or through_phase
            if not over:
                return p, q
    return None


def _note(trace, found, accesses, x, lane_x, y, lane_y) -> None:
    if (
        accesses[y].order < accesses[x].order and not accesses[x].kind
    ):  # as the program has them, not as this run came by them
        x, lane_x, y, lane_y = y, lane_y, x, lane_x
    ex, ey = trace.events[accesses[x].event], trace.events[accesses[y].event]
    key = (frozenset((int(ex["line"]), int(ey["line"]))), int(ex["tensor"]) if accesses[x].kind != "mbarrier" else -2)
    rank = _rank(accesses[x], accesses[y])
    old = found.get(key)
    if old is None or rank < old[0]:
        found[key] = (rank, x, lane_x, y, lane_y)


def _rank(first, second) -> tuple:
    """Which pair stands for two lines: a read after a write tells most, and two warps more than two lanes of one."""
    hazard = 2 if first.writes and second.writes else (0 if first.writes else 1)
    return hazard, first.warp == second.warp


def _values_differ(trace, event: int, lanes: list) -> bool:
    row = int(trace.events[event]["values"])
    if row < 0:
        return False
    values = trace.values[row][lanes]
    return not ((values == values[0]) | (np.isnan(values) & np.isnan(values[0]))).all()


def _same_value(trace, first, second, pair) -> bool:
    rows = int(trace.events[first.event]["values"]), int(trace.events[second.event]["values"])
    if min(rows) < 0:
        return False
    a, b = trace.values[rows[0]][pair[0]], trace.values[rows[1]][pair[1]]
    return bool(a == b or (np.isnan(a) and np.isnan(b)))


# ---- texts ----------------------------------------------------------------------------------------------------------


def _reports(trace, replay, accesses, conflicts) -> list:
    best = {}
    for key, (cells, example, address) in conflicts.items():
        old = best.get(key)
        if old is None or example[0] < old[1][0]:
            best[key] = (cells | (old[0] if old else set()), example, address)
        else:
            old[0].update(cells)
    return [_report(trace, accesses, *best[key]) for key in sorted(best, key=lambda k: best[k][1][1:])]


def _report(trace, accesses, cells, example, address) -> Finding:
    _, x, lane_x, y, lane_y = example
    first, second = accesses[x], accesses[y]
    ex, ey = trace.events[first.event], trace.events[second.event]
    line_x, line_y = trace.line(ex), trace.line(ey)
    blocks = int(ex["block"]), int(ey["block"])
    threads = int(ex["warp"]) * 32 + lane_x, int(ey["warp"]) * 32 + lane_y
    hazard = {(True, False): "read after write", (False, True): "write after read"}.get(
        (first.writes, second.writes), "write after write"
    )
    memory = "global memory" if _space(trace, first) == Space.GMEM else "shared memory"
    common = dict(lines=(line_x, line_y), block=blocks[0], threads=threads, addresses=(address,), count=len(cells))
    if first.kind == "cp.async" and first.writes and not second.writes and first.warp == second.warp:
        text = (
            f"Read before arrival: {line_y.where} reads bytes that cp.async ({line_x.where}) is still copying. "
            "Is cp_async_wait_group missing?"
        )
        return Finding("read before arrival", text, **common)
    if first.kind == "transfer" and first.writes and not second.writes:
        text = (
            f"Read before arrival: {line_y.where} reads bytes that the transfer from {line_x.where} has not delivered for sure. "
            "Is mbarrier_wait missing, or its phase wrong?"
        )
        return Finding("read before arrival", text, **common)
    if first.kind == "mbarrier":
        text = (
            f"mbarrier used before its init is published: thread {threads[0]} of block {blocks[0]} initialised it at {line_x.where}, "
            f"thread {threads[1]} of block {blocks[1]} uses it at {line_y.where}, and nothing orders them. "
            f"{'Is cute.arch.barrier()' if blocks[0] == blocks[1] else 'Is a cluster barrier'} missing between the two?"
        )
        return Finding("mbarrier init not published", text, **common)
    who = (
        f"thread {threads[0]} {_verb(first)} at {line_x.where}, thread {threads[1]} {_verb(second)} at {line_y.where}"
        if blocks[0] == blocks[1]
        else f"thread {threads[0]} of block {blocks[0]} {_verb(first)} at {line_x.where}, "
        f"thread {threads[1]} of block {blocks[1]} {_verb(second)} at {line_y.where}"
    )
    words = f"{len(cells)} word{'s' * (len(cells) != 1)}"
    place = f" (block {blocks[0]})" if blocks[0] == blocks[1] else ""
    text = f"Race ({hazard}) on {memory}, {words}: {who}, and nothing orders them{place}. {_advice(trace, first, second, ex, ey)}"
    return Finding("race", text, **common)


def _verb(access) -> str:
    return "updated" if access.atomic else "wrote" if access.writes else "read"


def _advice(trace, first, second, ex, ey) -> str:
    if first.kind == "cp.async" and first.clock < NEVER:
        return "cp_async_wait_group makes a copy visible to the thread that issued it alone. Is cute.arch.barrier() missing after it?"
    if int(ex["block"]) != int(ey["block"]):
        launch = trace.launches[int(ex["launch"])]
        if launch.cluster == (1, 1, 1):
            return "Blocks of one launch run in any order: give each block its own place, or use an atomic."
        return "Is a cluster barrier or an mbarrier missing between the two?"
    note = _shuffle_note(trace, ex, ey)
    if int(ex["warp"]) == int(ey["warp"]):
        return f"Is cute.arch.sync_warp() missing between the two?{note}"
    if not first.writes and second.writes:
        return f"The buffer is written again before all threads have read it: is cute.arch.barrier() missing before the write?{note}"
    return f"Is cute.arch.barrier() missing between the two?{note}"


def _shuffle_note(trace, ex, ey) -> str:
    """Whether the second access's warp made the first one too and then a shuffle: perhaps it was meant as a barrier."""
    events = trace.events
    same = (events["launch"] == ey["launch"]) & (events["block"] == ey["block"]) & (events["warp"] == ey["warp"])
    before = events[same & (events["step"] < ey["step"])]
    made = np.nonzero(before["line"] == ex["line"])[0]
    if len(made) == 0:
        return ""
    names = [_NO_MEMORY[op] for op in map(Op, before["op"][made[-1] :].tolist()) if op in _NO_MEMORY]
    return f" ({names[0].capitalize()} between them orders no memory.)" if names else ""
