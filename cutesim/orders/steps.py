"""The steps of a run: what each did that others can see, and which of two must come first.

A step is a warp's run to the end of its next visible operation, or one asynchronous transfer that lands. It is known by what it
did to each shared object, its effects; of two steps the order matters only if they do something to one object that does not
commute.

| object                        | effects                                                                                   |
|-------------------------------|-------------------------------------------------------------------------------------------|
| a word that atomics touch     | read, write, or a sum whose old value nobody reads: such sums commute (but for rounding)   |
| an mbarrier                   | init, use, arrive (phase, whether it completes it), expect, wait (phase), a test that failed |
| a block or cluster barrier    | arrive (generation, whether it completes it), resume (generation)                         |
| a block, while it lives       | touch: traffic into its shared memory; leave, and exit: its last warp ends                 |

Arrivals at one phase or generation commute, since it completes after the same ones. Ordinary loads and stores are no effects: the
search for races judges them in each run, and without a race they are ordered by what is an effect.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from cutesim.trace import SMEM_BLOCK_BITS, Op, Space

# After one of these another warp may come.
SEEN = (
    "ATOMIC BULK_COPY STORE_ASYNC BARRIER BARRIER_ARRIVE MBARRIER_INIT "
    "MBARRIER_ARRIVE MBARRIER_EXPECT MBARRIER_WAIT MBARRIER_RESUME CLUSTER_ARRIVE"
)
SEEN = frozenset(int(Op[name]) for name in SEEN.split())
ATOMIC = re.compile(r"atomic_\w+")
SUMS = frozenset("add max min and or xor".split())
IDLE = {"use", "resume", "leave"}  # commute with all but an init
# columns of the log
_, _, BLOCK, _, LINE, _, OP, SPACE, TENSOR, _, BYTES, ADDRESSES, SOURCES, _, ARG, ARG2 = range(16)


@dataclass(frozen=True)
class Step:
    """One step of a run: who made it, its effects as (object, effect), and what there is to tell."""

    agent: tuple  # (block, warp), or (block, warp, n) for the n-th transfer that this warp has sent
    launch: int
    effects: frozenset
    told: tuple  # of (what it did, trace.Line)
    ready: tuple = ()  # the agents that could have gone
    sender: tuple | None = None  # of a transfer: the warp that has sent it
    ended: bool = False
    waits: tuple = ()  # (for what, Line) where the warp stands at a wait afterwards


def commute(a: tuple, b: tuple) -> bool:
    """Whether two effects on one object give the same whichever comes first."""
    (x, *p), (y, *q) = a, b
    if "init" in (x, y):
        return False
    if x in IDLE or y in IDLE:
        return True
    if x == y:
        return x in ("read", "wait", "test", "touch", "exit", "expect") or (x in ("arrive", "sum") and p[0] == q[0])
    if {x, y} == {"arrive", "wait"} or {x, y} == {"arrive", "test"}:
        return not (p if x == "arrive" else q)[1]
    return {x, y} == {"wait", "test"} or {x, y} == {"expect", "wait"} or {x, y} == {"expect", "test"}


def still(effects: frozenset, step: frozenset) -> frozenset | None:
    """What an agent that could have done `effects` would do after another's step, as far as is known; None if it may be something
    else. An arrival may now complete its phase, and a warp's end may be its block's."""
    found = set()
    for thing, effect in effects:
        for other, did in step:
            if other != thing:
                continue
            if not commute(effect, did) or did[0] == effect[0] == "arrive" and did[2]:
                return None
            if did[0] == effect[0] == "arrive":
                effect = ("arrive", effect[1], True)
            elif did[0] == effect[0] == "leave":
                effect = ("exit",)
        found.add((thing, effect))
    return frozenset(found)


def changes(effect: tuple) -> bool:
    """Whether the effect may be what a loop that asks again and again waits for."""
    return effect[0] not in ("read", "use", "wait", "test", "resume", "leave", "touch")


def met_in_step(steps, trace) -> set:
    """(file, line) of atomics that several lanes made in one step, on a word to which another warp does what does not commute."""
    touched: dict = {}  # word -> {(agent, effect)}
    for step in steps:
        for thing, effect in step.effects:
            if thing[0] == "word":
                touched.setdefault(thing[2], set()).add((step.agent, effect))
    meet = lambda did: any(a != b and not commute(x, y) for a, x in did for b, y in did)  # noqa: E731
    met = [word for word, did in touched.items() if meet(did)]
    events = trace.events[trace.events["op"] == int(Op.ATOMIC)]
    events = events[(events["mask"] & (events["mask"] - 1)) != 0]
    if not met or not len(events):
        return set()
    hit = np.isin(trace.addresses[events["addresses"]], met).any(axis=1)
    return {(trace.lines[row].file, trace.lines[row].number) for row in np.unique(events["line"][hit])}


# ---- from the log's rows to effects ---------------------------------------------------------------------------------


def effects_of(recorder, rows, launch, atomics, places) -> frozenset:
    """The effects of these rows of the log; `atomics` has (name, whether it changed the word) of each ATOMIC among them, and
    `places` the row of each block."""
    found, atomics = set(), iter(atomics)
    for row in rows:
        op, block = row[OP], row[BLOCK]
        if op == Op.ATOMIC:
            effect = _of_atomic(row, *next(atomics, ("", True)))
            space = Space.SMEM if row[SPACE] == Space.DSMEM else row[SPACE]
            words = _lanes(recorder, row[ADDRESSES])
            found.update((("word", int(space), word), effect) for word in words)
        elif op in _MBARRIER:
            for address in _lanes(recorder, row[ADDRESSES]):
                found.add((("mbarrier", address), _MBARRIER[op](row, _phase(launch, address, places))))
                if op == Op.ASYNC_DONE:
                    found.add((("block", address >> SMEM_BLOCK_BITS), ("touch",)))
        elif op == Op.STORE_ASYNC:
            for address in _lanes(recorder, row[SOURCES]):
                found.update({(("mbarrier", address), ("use",)), (("block", address >> SMEM_BLOCK_BITS), ("touch",))})
        elif op in (Op.BARRIER, Op.BARRIER_ARRIVE):
            completes = launch.barriers[block, row[ARG]].generation > row[ARG2]
            found.add((("barrier", block, row[ARG]), ("arrive", row[ARG2], completes)))
        elif op == Op.BARRIER_RESUME:
            found.add((("barrier", block, row[ARG]), ("resume", row[ARG2])))
        elif op in (Op.CLUSTER_ARRIVE, Op.CLUSTER_RESUME):
            effect = ("resume", row[ARG2]) if op == Op.CLUSTER_RESUME else ("arrive", row[ARG2], False)
            found.add((("cluster", places[block] // launch.cluster_size), effect))
        elif op == Op.EXIT:
            found.add((("block", block), ("exit" if launch.live_warps[block] == 0 else "leave",)))
    return frozenset(found)


def accesses_of(recorder, rows) -> frozenset:
    """Ordinary reads and writes as effects on the 128 bytes that they are in, and those of transfers that land."""
    found = set()
    for row in rows:
        if row[OP] == Op.ASYNC_DONE:
            sent = recorder.rows[row[ARG]]
            nbytes = sent[ARG] if sent[OP] == Op.BULK_COPY else sent[BYTES]
            for first in _lanes(recorder, sent[ADDRESSES]):
                lines = range(first >> 7, (first + nbytes - 1 >> 7) + 1)
                found.update((("line", int(Space.SMEM), line), ("write",)) for line in lines)
        if row[OP] in (Op.LOAD, Op.STORE):
            space = Space.SMEM if row[SPACE] == Space.DSMEM else row[SPACE]
            kind = "read" if row[OP] == Op.LOAD else "write"
            lines = {address >> 7 for address in _lanes(recorder, row[ADDRESSES])}
            found.update((("line", int(space), line), (kind,)) for line in lines)
    return frozenset(found)


_MBARRIER = {
    Op.MBARRIER_INIT: lambda row, phase: ("init",),
    Op.MBARRIER_ARRIVE: lambda row, phase: ("arrive", row[ARG2], phase > row[ARG2]),
    Op.ASYNC_DONE: lambda row, phase: ("arrive", row[ARG2], phase > row[ARG2]),
    Op.MBARRIER_EXPECT: lambda row, phase: ("expect",),
    Op.MBARRIER_WAIT: lambda row, phase: ("test",) if row[ARG2] else ("use",),
    Op.MBARRIER_RESUME: lambda row, phase: ("wait", row[ARG2]),
}


def _lanes(recorder, row: int) -> set:
    if row < 0:
        return set()
    return {int(address) for address in recorder.address_rows[row] if address >= 0}


def _phase(launch, address: int, places) -> int:
    """The phase that an mbarrier is in now."""
    block, offset = address >> SMEM_BLOCK_BITS, address & ((1 << SMEM_BLOCK_BITS) - 1)
    barrier = launch.mbarriers.get((places[block], offset))
    return 0 if barrier is None else barrier.phase


def _of_atomic(row, name: str, changed: bool) -> tuple:
    if name in SUMS and changed and row[ARG2]:
        return "sum", name
    return ("write",) if changed or name == "exch" else ("read",)


# ---- what is told ---------------------------------------------------------------------------------------------------


def told_of(recorder, rows) -> tuple:
    """What the rows did that others can see, in words, each with its line."""
    found = []
    for row in rows:
        words = _WORDS.get(row[OP])
        if words is not None:
            entry = words(row, recorder), recorder.lines[row[LINE]]
            if entry[0] and entry not in found:
                found.append(entry)
    return tuple(found)


def _of(recorder, row) -> str:
    return recorder.tensors[row[TENSOR]].name if row[TENSOR] >= 0 else "memory"


def _element(recorder, row) -> str:
    """`x[3]`, where an operation names one element."""
    lanes = _lanes(recorder, row[ADDRESSES])
    if row[TENSOR] < 0 or len(lanes) != 1:
        return _of(recorder, row)
    tensor, address = recorder.tensors[row[TENSOR]], lanes.pop()
    at = address if row[SPACE] == Space.GMEM else address & ((1 << SMEM_BLOCK_BITS) - 1)
    return f"{tensor.name}[{(at - tensor.base_address) // tensor.itemsize}]"


def _barrier(row) -> str:
    return "the block barrier" if row[ARG] == 0 else f"barrier {row[ARG]}"


_WORDS = {
    Op.ATOMIC: lambda row, r: (
        f"does {[*ATOMIC.findall(r.lines[row[LINE]].text), 'an atomic'][0]} on {_element(r, row)}"
    ),
    Op.STORE: lambda row, r: f"writes {_element(r, row)}",
    Op.LOAD: lambda row, r: f"reads {_element(r, row)}",
    Op.BULK_COPY: lambda row, r: f"starts a bulk copy to {_of(r, row)}",
    Op.STORE_ASYNC: lambda row, r: f"sends numbers to {_of(r, row)} of another block",
    Op.BARRIER: lambda row, r: f"comes to {_barrier(row)}",
    Op.BARRIER_ARRIVE: lambda row, r: f"arrives at {_barrier(row)} without waiting",
    Op.MBARRIER_INIT: lambda row, r: f"initialises the mbarrier for {row[ARG]} arrival{'s' * (row[ARG] != 1)}",
    Op.MBARRIER_ARRIVE: lambda row, r: (
        f"arrives at the mbarrier, phase {row[ARG2]}" + (f", and expects {row[ARG]} bytes" if row[ARG] else "")
    ),
    Op.MBARRIER_EXPECT: lambda row, r: f"expects {row[ARG]} bytes at the mbarrier",
    Op.MBARRIER_WAIT: lambda row, r: (
        f"finds the mbarrier's phase {('', 'in')[row[ARG2] % 2]}complete" if row[ARG2] else ""
    ),
    Op.MBARRIER_RESUME: lambda row, r: (
        f"passes the wait, since phase {row[ARG2]} is complete"
        if row[ARG2] >= 0
        else "passes the wait at once, since no phase has begun"
    ),
    Op.CLUSTER_ARRIVE: lambda row, r: "arrives at the cluster barrier",
    Op.ASYNC_DONE: lambda row, r: f"lands, and counts for phase {row[ARG2]} of the mbarrier",
    Op.EXIT: lambda row, r: "ends",
}


def name_of(agent: tuple, blocks: int) -> str:
    """`warp 1`, `warp 1 of block 2`, `transfer 3 of warp 0`."""
    block, warp, *transfer = agent
    whose = f"warp {warp}" + (f" of block {block}" if blocks > 1 else "")
    return f"transfer {transfer[0] + 1} of {whose}" if transfer else whose
