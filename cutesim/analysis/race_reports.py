"""What `races` says, as a reader should see it: who, where, and what is probably missing."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from cutesim.context import counted, is_own
from cutesim.trace import SMEM_BLOCK_BITS, FenceKind, Finding, Op

from .accesses import Kind, Role, among
from .ordering import NEVER, level_of

HAZARDS = ("read after write", "write after read", "write after write")
WARP, BLOCK, CLUSTER, GRID = range(4)
VERBS = {
    Op.LOAD: "read",
    Op.STORE: "wrote",
    Op.ATOMIC: "updated",
    Op.STORE_ASYNC: "sent by st.async",
    Op.MBARRIER_INIT: "initialised an mbarrier",
}
ASYNCHRONOUS = {Op.ASYNC_COPY: "cp.async", Op.BULK_COPY: "the bulk copy", Op.STORE_ASYNC: "st.async"}
WAITS = {Role.GROUP: "cp_async_wait_group", Role.PHASE: "mbarrier_wait"}
EXCHANGES = {Op.SHUFFLE: "shuffle", Op.VOTE: "vote", Op.REDUX: "redux", Op.ELECT: "elect"}


@dataclass(frozen=True)
class Race:
    """A group of unordered pairs and the one to show; `first` of each tuple comes first in the program."""

    hazard: int  # index of HAZARDS
    events: tuple
    threads: tuple  # within their blocks
    blocks: tuple
    scope: int  # WARP, BLOCK, CLUSTER or GRID: what the two threads share
    kinds: tuple
    roles: tuple
    first_over: int  # step at which the first access was complete for its own thread
    tensor: int
    shared: bool
    words: int
    block_count: int  # blocks that show it
    lines: tuple  # rows of trace.lines
    address: int
    step: int

    @property
    def same_thread(self) -> bool:
        """Whether one thread of one block makes both accesses."""
        return self.blocks[0] == self.blocks[1] and self.threads[0] == self.threads[1]

    def at_mbarrier(self, k: int) -> bool:
        """Whether the access is a use of an mbarrier, by the thread or by its transfer."""
        return self.roles[k] == Role.USE or (self.roles[k] == Role.PHASE and self.kinds[k] == Kind.READ)

    @property
    def of_atomics(self) -> bool:
        """Whether both are atomics: then the scope of one leaves the other's thread out."""
        return set(self.kinds) == {Kind.ATOMIC}

    @property
    def unpublished(self) -> bool:
        """Whether an mbarrier is used that another thread's init does not yet let be seen."""
        return Role.INIT in self.roles and (self.at_mbarrier(0) or self.at_mbarrier(1))


def one_per_cause(trace, order, races: list[Race]) -> list[Race]:
    """The races without those that the same missing wait, publication or scope explains."""
    kept, explained = [], set()
    too_narrow = [race for race in races if race.of_atomics]
    if too_narrow:
        told = set()
        for race in (race for race in races if not race.of_atomics):
            sides = _narrow(trace, race, _handed_over(trace, order, race))
            told |= {int(trace.events["line"][row]) for row in sides}
        races = [race for race in races if not race.of_atomics or not told & set(race.lines)]
    early = [race for race in races if _too_early(trace, order, race)]
    for race in early:
        if (race.lines[0], race.tensor) not in explained:
            explained.add((race.lines[0], race.tensor))
            kept.append(race)
    for race in races:
        cause = ("init", race.lines[race.roles.index(Role.INIT)]) if race.unpublished else None
        copies = {(line, race.tensor) for line, role in zip(race.lines, race.roles) if role in WAITS}
        one_line = race.events[0] != race.events[1] and race.lines[0] == race.lines[1]
        if cause is None and not copies and one_line:
            # It reads and writes: two of its hazards are one mistake.
            cause = "line", race.lines[0], race.tensor
        told = cause in explained or (race.hazard != 1 and copies & explained)
        if told or _too_early(trace, order, race):
            continue
        explained |= {cause} - {None}
        kept.append(race)
    return sorted(kept, key=lambda race: race.step)


def _too_early(trace, order, race: Race) -> bool:
    return race.roles[0] in WAITS and race.hazard == 0 and not _waited(trace, order, race)


def _at(trace, event) -> str:
    """An event's place; of one in a helper, with the calls that led to it, from the innermost to the kernel's."""
    line, calls = trace.line(event), [call.where for call in trace.callers(event)]
    within = f" (in {line.function}, called at {' from '.join(calls)})" if calls else ""
    return line.where + within


def _with_callers(trace, events) -> tuple:
    """The events' lines, then those of the calls that led to them; but first where they leave a helper of an own package."""
    first, calls = {}, dict.fromkeys(call for event in events for call in trace.callers(event))
    for event in events:
        if is_own(trace.line(event).file):
            left = (call for call in trace.callers(event) if not is_own(call.file))
            first |= dict.fromkeys([*left][:1])
    return (*first, *map(trace.line, events), *(call for call in calls if call not in first))


def report(trace, order, race: Race) -> Finding:
    """The finding for one cause."""
    events = [trace.events[i] for i in race.events]
    kind = "race"
    if race.unpublished:
        kind, message = "mbarrier not published", _unpublished(trace, order, race, events)
    elif _too_early(trace, order, race):
        kind, message = "read before arrival", _before_arrival(trace, order, race, events)
    else:
        message = _race(trace, order, race, events)
    block = race.blocks[0] if race.scope < CLUSTER else race.blocks[1]
    lines = _with_callers(trace, events)
    return Finding(kind, message, lines, block, race.threads, (race.address,), race.words)


def _race(trace, order, race: Race, events) -> str:
    space = "shared memory" if race.shared else "global memory"
    of = "" if race.shared or race.tensor < 0 else f" of {trace.tensors[race.tensor].name}"
    head = f"Race ({HAZARDS[race.hazard]}) on {space}, {counted(race.words, 'word')}{of}: "
    if race.events[0] == race.events[1]:
        verb = "initialise" if race.roles[0] == Role.INIT else "write"
        return (
            f"{head}threads {race.threads[0]} and {race.threads[1]} {verb} it in the same instruction, "
            f"{_at(trace, events[0])}, and which of them wins is not defined{_where(race)}. "
            "Should one thread do it, or is the index wrong?"
        )
    did = [_did(race, k, Op(int(events[k]["op"])), _at(trace, events[k])) for k in (0, 1)]
    return f"{head}{did[0]}, {did[1]}, and nothing orders them{_where(race)}. {_question(trace, order, race, events)}"


def _did(race: Race, k: int, op: Op, where: str) -> str:
    who = f"thread {race.threads[k]}" + (f" of block {race.blocks[k]}" if race.scope >= CLUSTER else "")
    if race.at_mbarrier(k):
        return f"{who} used it as an mbarrier at {where}"
    if op in (Op.ASYNC_COPY, Op.BULK_COPY):
        name = "cp.async" if op == Op.ASYNC_COPY else "bulk copy"
        return f"{who}'s {name} {'read' if race.kinds[k] == Kind.READ else 'wrote'} at {where}"
    return f"{who} {VERBS[op]} at {where}"


def _where(race: Race) -> str:
    if race.scope >= CLUSTER:
        return ""
    others = race.block_count - 1
    also = f", and the same in {counted(others, 'other block')}" if others > 0 else ""
    return f" (block {race.blocks[0]}{also})"


def _question(trace, order, race: Race, events) -> str:
    copy = race.roles[0] in WAITS
    if race.of_atomics:
        return _too_narrow(trace, race, race.events)
    atomics = _handed_over(trace, order, race)
    if not copy and _changed_on_one_line(trace, order, race):
        # one takes it, the other gives it back
        lock = len({int(trace.events["line"][row]) for row in atomics}) == 2
        return _handed_nothing_over(trace, race, atomics) if lock else ONE_CHANGE_LOST
    if race.scope == GRID:
        if atomics and not race.shared:
            return _handed_nothing_over(trace, race, atomics)
        launch = trace.launches[int(events[0]["launch"])]
        of = "different clusters" if max(launch.cluster) > 1 else "one launch"
        return f"Blocks of {of} run in any order: let one of them do it, use an atomic, or split the kernel in two."
    owner = race.address >> SMEM_BLOCK_BITS
    if race.roles[0] == Role.PHASE and race.hazard == 2 and owner != race.blocks[1]:
        return (
            f"Only block {owner}, which gets them, can wait for the first: let a cluster barrier stand after its mbarrier_wait and "
            "before the second, or give the second its own place and mbarrier."
        )
    unheeded = _unheeded(trace, order, race)
    if unheeded is not None:
        return unheeded
    if copy and not _waited(trace, order, race):
        missing = f"Is {_wait_name(race, events[0])} missing between the two?"
        return _read_alone(trace, order, race) or missing
    if race.scope == CLUSTER:
        if (_between(trace, order, race, Op.CLUSTER_ARRIVE)["arg"] == 1).any():
            return "cluster_arrive_relaxed orders no memory: is cluster_arrive() meant?"
        return "Is a cluster barrier (cluster_arrive, cluster_wait) or an mbarrier missing between the two?"
    stage = _stage(trace, order, race)
    if stage is not None:
        return stage
    if copy:
        name = _wait_name(race, events[0])
        if race.scope == WARP and race.same_thread:
            return _read_alone(trace, order, race) or f"Is {name} missing between the two?"
        barrier = "cute.arch.sync_warp()" if race.scope == WARP else "cute.arch.barrier()"
        return f"{name} orders a copy only for the thread that made it: is {barrier} missing after it?"
    if race.scope == WARP:
        exchanges = _between(trace, order, race, *EXCHANGES)
        if len(exchanges):
            exchange = f"{EXCHANGES[int(exchanges[-1]['op'])]} at {trace.line(exchanges[-1]).where}"
            return f"The {exchange} stands between the two but orders no memory: is cute.arch.sync_warp() missing?"
        if race.hazard == 2 and events[0]["line"] == events[1]["line"]:
            return "Should one thread do it, or is the index wrong?"
        return "Is cute.arch.sync_warp() missing between the two?"
    apart = _barriers_apart(trace, order, race)
    if apart is not None:
        return apart
    if race.hazard == 1:
        return "Is cute.arch.barrier() missing before the memory is used again?"
    if race.hazard == 2 and events[0]["line"] == events[1]["line"]:
        return "Should one thread do it, or is the index wrong?"
    overlap = ", or do two tensors overlap here" if race.hazard == 2 else ""
    return f"Is cute.arch.barrier() missing between the two{overlap}?"


ONE_CHANGE_LOST = (
    "Each of the two reads the element, changes it and writes it back, so one change is lost: is an atomic, as "
    "cute.arch.atomic_add, meant?"
)


def _changed_on_one_line(trace, order, race: Race) -> bool:
    """Whether one line reads an element and writes it, and another thread does so, too: no barrier mends that."""
    reader = next((k for k in (0, 1) if race.kinds[k] == Kind.READ), None)
    if reader is None or race.lines[0] != race.lines[1] or race.hazard == 2:
        return False
    at, lane = race.events[reader], race.threads[reader] % 32
    later = (row for row in _of_warp(trace, order, at, Op.STORE) if row > at)
    stores = [row for row in later if trace.events["line"][row] == race.lines[0]]
    places = [trace.addresses[int(trace.events["addresses"][row])][lane] for row in (at, *stores[:1])]
    return len(places) == 2 and places[0] == places[1]


def _unpublished(trace, order, race: Race, events) -> str:
    init = 0 if race.roles[0] == Role.INIT else 1
    use = 1 - init
    of = [f" of block {block}" if race.scope >= CLUSTER else "" for block in race.blocks]
    head = (
        f"Mbarrier used before its init is published: thread {race.threads[init]}{of[init]} initialised it at "
        f"{_at(trace, events[init])}, thread {race.threads[use]}{of[use]} uses it at {_at(trace, events[use])}, and nothing "
        f"orders them{_where(race)}. "
    )
    if race.scope == WARP:
        return head + "Is cute.arch.sync_warp() or cute.arch.barrier() missing between the two?"
    if race.scope == BLOCK:
        return head + "Are mbarrier_init_fence() and cute.arch.barrier() missing between the two?"
    fences = trace.events[_of_warp(trace, order, race.events[init], Op.FENCE)]
    if ((fences["arg"] == FenceKind.MBARRIER_INIT) & (fences["step"] > events[init]["step"])).any():
        waits = "cluster_arrive_relaxed, cluster_wait"
        return f"{head}Is a cluster barrier ({waits}) missing between the two?"
    return head + "Are mbarrier_init_fence() and a cluster barrier missing between the two?"


def _before_arrival(trace, order, race: Race, events) -> str:
    op = Op(int(events[0]["op"]))
    doing = "sending" if op == Op.STORE_ASYNC else "copying"
    head = (
        f"Read before arrival: {_at(trace, events[1])} reads bytes that {ASYNCHRONOUS[op]} ({_at(trace, events[0])}) is still "
        f"{doing}. "
    )
    name = _wait_name(race, events[0])
    held = order.pending.get(race.events[0])
    if race.roles[0] == Role.GROUP and held is not None:
        wait, allowed = held
        where = trace.line(trace.events[wait]).where
        if trace.events["step"][wait] < events[1]["step"]:
            why = f"{name}({allowed}) at {where} lets {counted(allowed, 'group')} stay under way: is that too many?"
            if not allowed:
                commit = name.replace("wait", "commit")
                why = f"{name} at {where} waits for committed groups alone: is cute.arch.{commit}() missing before it?"
            return head + why
    if race.roles[0] == Role.PHASE:
        passed = _unheeded(trace, order, race) or _passed_too_soon(trace, race, events)
        passed = passed or _waited_elsewhere(trace, events)
    else:
        passed = _read_alone(trace, order, race)
    return f"{head}{passed or f'Is {name} missing' + ('' if race.roles[0] == Role.GROUP else ' before the read') + '?'}"


def _read_alone(trace, order, race: Race) -> str | None:
    """What to say where a bulk store was waited for with read=True, and its written bytes are used."""
    read = order.group_read.get(race.events[0])
    writes = race.roles[0] == Role.GROUP and race.kinds[0] != Kind.READ
    if not writes or read is None or (read >= NEVER).all():
        return None
    wait = trace.events[int(np.searchsorted(trace.events["step"], read.min()))]
    return (
        f"cp_async_bulk_wait_group(..., read=True) at {trace.line(wait).where} waits until the copy has read shared memory; "
        "what it writes is there after one without read=True."
    )


def _counting(trace, events) -> int | None:
    """The address of the mbarrier that counts the bytes sent by the first event to where the second reads."""
    sent, read = events
    if int(sent["op"]) != Op.STORE_ASYNC:
        return int(sent["arg2"])
    owner = int(trace.addresses[int(read["addresses"])].max()) >> SMEM_BLOCK_BITS
    mbarriers = trace.addresses[int(sent["sources"])]
    return next((int(at) for at in mbarriers if at >> SMEM_BLOCK_BITS == owner), None)


def _waited_elsewhere(trace, events) -> str | None:
    """What to say where another warp or block waits at the mbarrier that counts the bytes, or this one does so later."""
    read, place = events[1], _counting(trace, events)
    resumed = trace.events[trace.events["launch"] == read["launch"]]
    resumed = resumed[resumed["op"] == int(Op.MBARRIER_RESUME)]
    waits = resumed[(trace.addresses[resumed["addresses"]] == place).any(axis=1)]
    if place is None or not len(waits):
        return None
    same = [w for w in waits if (w["block"], w["warp"]) == (read["block"], read["warp"])]
    owner, wait = place >> SMEM_BLOCK_BITS, [*same, *waits][0]
    if same:
        where, line, at = _at(trace, wait), trace.line(wait), trace.line(read)
        if line.file == at.file and line.number < at.number:
            return f"mbarrier_wait at {where} waits for them in a later step only: before this read it waited at another mbarrier."
        return f"mbarrier_wait at {where} comes after it: it belongs before the read."
    if read["block"] != owner:
        return (
            f"Only block {owner}, which gets them, can wait for them, and nothing puts its mbarrier_wait at {_at(trace, wait)} "
            "before this read in another block: let a cluster barrier stand after the wait and before the read."
        )
    return (
        f"mbarrier_wait at {_at(trace, wait)} is passed by warp {int(wait['warp'])}, and nothing orders this warp's read after it: "
        "let this warp wait too, or let cute.arch.barrier() stand between the two."
    )


def _passed_too_soon(trace, race: Race, events) -> str | None:
    """What to say where the reading warp has waited at the mbarrier that counts the bytes, and was let pass before they came."""
    read, counting = events[1], _counting(trace, events)
    if counting is None:
        return None
    before = trace.events[(trace.events["launch"] == read["launch"]) & (trace.events["step"] < read["step"])]
    before = before[before["addresses"] >= 0]
    here = before[(trace.addresses[before["addresses"]] == counting).any(axis=1)]
    waits = here[here["op"] == int(Op.MBARRIER_RESUME)]
    waits = waits[(waits["block"] == read["block"]) & (waits["warp"] == read["warp"])]
    if not len(waits):
        return None
    wait, where = waits[-1], trace.line(waits[-1]).where
    arrivals = here[(here["op"] == int(Op.MBARRIER_ARRIVE)) & (here["step"] < wait["step"])]
    running = int(arrivals[-1]["arg2"]) if len(arrivals) else int(wait["arg2"]) + 1
    if wait["arg2"] < running:
        return (
            f"mbarrier_wait at {where} was passed by phase {wait['arg2']}, complete since before; these bytes count for phase "
            f"{running}: wait for parity {running % 2}."
        )
    said = here[np.isin(here["op"], (int(Op.MBARRIER_ARRIVE), int(Op.MBARRIER_EXPECT))) & (here["arg"] > 0)]
    if not len(said):
        return f"mbarrier_wait at {where} waited for arrivals alone: does no expect_tx say how many bytes come?"
    return (
        f"mbarrier_wait at {where} was over as soon as the {said[-1]['arg']} bytes had come that {trace.line(said[-1]).where} "
        "expects: does it count all that is sent?"
    )


def _wait_name(race: Race, event) -> str:
    if race.roles[0] == Role.PHASE:
        return "mbarrier_wait"
    return "cp_async_bulk_wait_group" if int(event["op"]) == Op.BULK_COPY else "cp_async_wait_group"


def _waited(trace, order, race: Race) -> bool:
    """Whether the copy's own thread has waited for it by the time that the program comes to the second access.

    Two warps are compared by how many instructions each has behind it, unless the copy's warp reaches no barrier between
    copy and wait: then the wait is in its place whatever the other warp does.
    """
    if race.roles[0] != Role.GROUP or race.first_over >= NEVER or race.same_thread:
        return False
    first, second = race.events
    warps = order.warp_of
    wait = int(np.searchsorted(trace.events["step"], race.first_over))
    barriers = _of_warp(trace, order, first, Op.BARRIER, Op.BARRIER_ARRIVE, Op.CLUSTER_ARRIVE)
    if not ((barriers > first) & (barriers < wait)).any():
        return True
    return int(np.sum(warps[:wait] == warps[first])) < int(np.sum(warps[:second] == warps[second]))


# The least scope that reaches from one thread to another, by what the two share; the index is the level of `ordering`.
REACHES = {BLOCK: "cta", CLUSTER: "cluster", GRID: "gpu"}
SHARED_BY = tuple(REACHES)


def _handed_over(trace, order, race: Race) -> tuple:
    """The release and the acquire that stand between a race's two accesses: the atomics of both threads on one address that
    come right after the first access and right before the second, as rows of the events; () where there are none."""
    if race.scope == WARP:
        return ()
    events = trace.events
    first, second = (int(np.searchsorted(events["step"], events["step"][i])) for i in race.events)
    rows = np.flatnonzero((events["op"] == int(Op.ATOMIC)) & (events["launch"] == events["launch"][first]))
    after = rows[(events["block"][rows] == race.blocks[0]) & (rows > first)]
    before = rows[(events["block"][rows] == race.blocks[1]) & (rows < second)]
    if race.scope == BLOCK:
        after = after[order.warp_of[after] == order.warp_of[first]]
        before = before[order.warp_of[before] == order.warp_of[second]]
    addresses = trace.addresses[events["addresses"]]
    places = [[{*addresses[row].tolist()} - {-1} for row in some] for some in (after, before)]
    met = set().union(*places[0]) & set().union(*places[1])
    after, before = ([int(row) for row, at in zip(*some) if at & met] for some in zip((after, before), places))
    return (after[0], before[-1]) if after and before else ()


def _narrow(trace, race: Race, atomics) -> list:
    """Those of these atomics whose scope leaves the race's other thread out."""
    return [row for row in atomics if level_of(trace.events[row]) < SHARED_BY.index(race.scope)]


def _handed_nothing_over(trace, race: Race, atomics) -> str:
    """What to say where atomics on one address stand between the two, and order no other memory."""
    if _narrow(trace, race, atomics):
        return _too_narrow(trace, race, atomics)
    release, acquire = (_at(trace, trace.events[row]) for row in atomics)
    fence = f"cute.arch.fence_acq_rel_{REACHES[race.scope]}()"
    return (
        f'An atomic orders no other memory: the one at {release} must be a release (sem="release", or {fence} before it) and '
        f"the one at {acquire} an acquire, each in the thread that makes the access or with a barrier between."
    )


def _too_narrow(trace, race: Race, atomics) -> str:
    """What to say of a pair of atomics, the first of which is in the first thread's block, where a scope leaves the other out."""
    said = {}
    for row, block in zip(atomics, race.blocks[::-1]):
        event = trace.events[row]
        if level_of(event) < SHARED_BY.index(race.scope):
            scope = tuple(REACHES.values())[level_of(event)]
            said.setdefault(_at(trace, event), f"has scope {scope}, which leaves out block {block}")
    left_out = " and ".join(f"the one at {place} {why}" for place, why in said.items())
    return f'To a thread outside its scope an atomic is none: {left_out}. Is scope="{REACHES[race.scope]}" meant?'


def _of_warp(trace, order, event: int, *ops: Op) -> np.ndarray:
    """The rows of the events of these kinds of the warp that made an event."""
    return np.flatnonzero(among(trace.events["op"], ops) & (order.warp_of == order.warp_of[event]))


def _between(trace, order, race: Race, *ops: Op) -> np.ndarray:
    """The events of these kinds that the warp of the access that is logged first has between the two."""
    first, last = sorted(race.events)
    rows = _of_warp(trace, order, first, *ops)
    return trace.events[rows[(rows > first) & (rows < last)]]


def _barriers_apart(trace, order, race: Race) -> str | None:
    """What to say where each thread comes to a barrier on its way, but to one of another number."""
    (first, second), events = race.events, trace.events
    after, before = (_of_warp(trace, order, event, Op.BARRIER, Op.BARRIER_ARRIVE) for event in (first, second))
    after, before = after[after > first], before[before < second]
    if not len(after) or not len(before) or events["arg"][after[0]] == events["arg"][before[-1]]:
        return None
    left, reached = events[after[0]], events[before[-1]]
    return (
        f"Thread {race.threads[0]} comes to barrier {left['arg']} after it ({trace.line(left).where}), thread {race.threads[1]} to "
        f"barrier {reached['arg']} before ({trace.line(reached).where}): is one barrier meant for both?"
    )


def _stage(trace, order, race: Race) -> str | None:
    """What to say where the first thread's warp arrives at an mbarrier that the second's waits for; None if at none."""
    first, second = race.events
    waits = _of_warp(trace, order, second, Op.MBARRIER_RESUME)
    arrivals = _of_warp(trace, order, first, Op.MBARRIER_ARRIVE)
    of = lambda row: trace.addresses[int(trace.events["addresses"][row])]  # noqa: E731
    pairs = ((row, wait) for wait in waits[waits < second] for row in arrivals)
    met = [(row, wait) for row, wait in pairs if of(wait).max() in of(row)]
    if not met:
        return None
    awaited = [row for row, wait in met if trace.events["arg2"][row] == trace.events["arg2"][wait]]
    if awaited and awaited[-1] < first:
        event = trace.events[awaited[-1]]
        return f"The {_call(trace, event)} at {_at(trace, event)} comes before the first of the two: does it belong after that?"
    event = trace.events[met[0][0]]
    return (
        f"The two warps meet at mbarriers, as in the {_call(trace, event)} at {_at(trace, event)}: is a wait missing before the "
        "second access or for another phase or stage, or is cute.arch.sync_warp() missing before one lane arrives for its warp?"
    )


def _unheeded(trace, order, race: Race) -> str | None:
    """What to say where the second thread's warp has asked at an mbarrier at which the first arrives, or that counts its transfer,
    and goes on whatever the answer is."""
    first, second = race.events
    of = lambda row: trace.addresses[int(trace.events["addresses"][row])].max()  # noqa: E731
    if race.roles[0] == Role.PHASE:
        places = {_counting(trace, [trace.events[i] for i in race.events])}
    else:
        places = {of(row) for row in _of_warp(trace, order, first, Op.MBARRIER_ARRIVE) if row > first}
    asked = _of_warp(trace, order, second, Op.MBARRIER_WAIT)
    asked = [row for row in asked if row < second and of(row) in places]
    if not asked or not trace.events["arg2"][asked[-1]]:
        return None
    line, at = trace.line(trace.events[asked[-1]]), _at(trace, trace.events[asked[-1]])
    named = re.search(r"\b(\w*(?:try_wait|test_wait|wait_parity)\w*)\(", line.text)
    name = named[1] if named else "mbarrier_try_wait"
    went_on = _of_warp(trace, order, second, Op.MBARRIER_RESUME)
    if any(asked[-1] < row < second and of(row) == of(asked[-1]) for row in went_on):
        return None
    return f"{name} at {at} may return False: the second access belongs where it has returned True."


def _call(trace, event) -> str:
    """What the reader's line calls to arrive."""
    named = re.search(r"\b(\w*(?:release|commit|arrive)\w*)\(", trace.line(event).text)
    return named[1] if named else "arrival"


def report_proxy(trace, race: Race) -> Finding:
    """A thread's write that a bulk copy reads or overwrites, or wgmma reads, with no proxy fence between the two."""
    events = [trace.events[i] for i in race.events]
    places, words = [_at(trace, event) for event in events], race.words
    if race.roles[0] == Role.INIT:
        kind, words = "mbarrier not published", 1
        message = (
            f"Mbarrier used before its init is published: thread {race.threads[0]} initialised it at {places[0]}, and "
            f"the bulk copy at {places[1]} counts on it through the async proxy (block {race.blocks[0]}). "
            f"Is mbarrier_init_fence() missing {_fence_place(race)}?"
        )
    else:
        kind, space, fence = "missing proxy fence", "shared memory", "fence_view_async_shared()"
        if not race.shared:
            space = f"{trace.tensors[race.tensor].name} in global memory"
            fence = 'fence_proxy("async.global")'
        verb = "overwrites" if race.kinds[1] == Kind.WRITE else "reads"
        by_copy = events[1]["op"] == Op.BULK_COPY
        user = f"the bulk copy at {places[1]}" if by_copy else f"wgmma, waited for at {places[1]},"
        message = (
            f"Missing proxy fence: {user} {verb} {space} that thread {race.threads[0]} wrote at "
            f"{places[0]} ({counted(race.words, 'word')}, block {race.blocks[0]}); the async proxy needs "
            f"cute.arch.{fence} {_fence_place(race)}."
        )
    lines = _with_callers(trace, events)
    return Finding(kind, message, lines, race.blocks[0], race.threads, (race.address,), words)


def report_overtaking(trace, late: int, early: int) -> Finding:
    """An arrival at a block barrier that may count for the turn before its own."""
    events = [trace.events[i] for i in (late, early)]
    block, number = int(events[0]["block"]), int(events[0]["arg"])
    warps = [int(event["warp"]) for event in events]
    name = f"barrier {number}" if number else "barrier 0, the block's own,"
    message = (
        f"Barrier counted too early: at {name} warp {warps[0]} comes at {_at(trace, events[0])} for a turn after that of warp "
        f"{warps[1]} at {_at(trace, events[1])} (block {block}), but nothing makes it wait for that, so it may be counted there. "
        "Give one of the two another barrier_id, or let the one wait for the other."
    )
    threads = tuple(32 * warp for warp in warps)
    return Finding("barrier count", message, _with_callers(trace, events), block, threads)


def report_overwritten(trace, write: int, use: int) -> Finding:
    """A write to the bytes of an mbarrier that is used afterwards."""
    events = [trace.events[i] for i in (write, use)]
    message = (
        f"Mbarrier overwritten: {_at(trace, events[0])} writes to the 8 bytes of an mbarrier, and {_at(trace, events[1])} uses it "
        "afterwards. Only mbarrier operations may touch them: give the data a place of their own."
    )
    return Finding("mbarrier overwritten", message, _with_callers(trace, events), int(events[0]["block"]), ())


def _fence_place(race: Race) -> str:
    return "between the two" if race.same_thread else "before the barrier"


def report_exit(trace, table, rows) -> Finding:
    """A block that may exit while its shared memory is still in use; `rows` of one line."""
    event, owner, issuer, facts = _in_its_memory(trace, table, rows)
    here = [i for i in rows if int(table.address[i] >> SMEM_BLOCK_BITS) == owner]
    nbytes = int(sum(table.size[i] for i in here if trace.events["block"][table.event[i]] == issuer))
    op, role, where = Op(int(event["op"])), table.role[rows[0]], trace.line(event).where
    if owner == issuer and op in ASYNCHRONOUS and role == Role.GROUP:
        wait = "cp_async_bulk_wait_group" if op == Op.BULK_COPY else "cp_async_wait_group"
        why = f"{ASYNCHRONOUS[op]} ({where}) still uses its shared memory. Is {wait} missing?"
    elif owner == issuer:
        why = (
            f"{ASYNCHRONOUS[op]} ({where}) still writes {nbytes} bytes of its shared memory. Is mbarrier_wait missing?"
        )
    elif table.kind[rows[0]] == Kind.READ and role == Role.PLAIN:
        why = f"block {issuer} still reads {nbytes} bytes of its shared memory ({where}). {_closing(trace, event)}"
    else:
        what = "an arrival" if role == Role.USE else f"{nbytes} bytes"
        why = f"block {issuer} still has {what} in flight to its shared memory ({where}). {_closing(trace, event)}"
    return Finding("exit with traffic in flight", f"Block {owner} may exit while {why}", *facts)


def _in_its_memory(trace, table, rows) -> tuple:
    """(the first event, the block whose memory it uses, its own block, what a finding has behind its message)."""
    event, address = trace.events[table.event[rows[0]]], int(table.address[rows[0]])
    owner, thread = address >> SMEM_BLOCK_BITS, int(event["warp"]) * 32 + int(table.lane[rows[0]])
    facts = ((trace.line(event),), owner, (thread,), (address,), len(rows))
    return event, owner, int(event["block"]), facts


def _closing(trace, event) -> str:
    """What to say where an access to another block's shared memory is not ordered before that block's exit."""
    events = trace.events
    later = (events["step"] > event["step"]) & (events["op"] == int(Op.CLUSTER_ARRIVE))
    later &= events[["launch", "block", "warp"]] == event[["launch", "block", "warp"]]
    later &= events["arg"] == 1
    if not later.any() or int(event["op"]) in ASYNCHRONOUS:
        return "Is the closing cluster barrier missing?"
    where = _at(trace, events[later][-1])
    return f"cluster_arrive_relaxed at {where} orders no memory: is cluster_arrive() meant?"


def report_start(trace, table, rows) -> Finding:
    """A block whose shared memory is used before it is known to have started; `rows` of one line."""
    event, owner, issuer, facts = _in_its_memory(trace, table, rows)
    message = (
        f"Block {owner} may not have started when block {issuer} uses its shared memory ({trace.line(event).where}). Is the "
        "opening cluster barrier (cluster_arrive, cluster_wait) missing?"
    )
    return Finding("peer not started", message, *facts)
