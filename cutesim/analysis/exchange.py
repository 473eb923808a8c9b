"""How threads exchange values and wait for each other: shuffles in a warp, bytes between blocks.

| function         | says                                                                      |
|------------------|---------------------------------------------------------------------------|
| `shuffle_graph`  | who read whom in each round, and whose values each lane then holds         |
| `dsmem_matrix`   | bytes from block to block of a cluster                                     |

Not covered: values; what lanes do with what they receive (a reduction is assumed: received and own are combined).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutesim.trace import SMEM_BLOCK_BITS, Op, ShuffleKind, Space, Trace

from .accesses import LANES, lane_bits
from .table import Table


@dataclass(frozen=True)
class Chain:
    """Shuffles that belong together: `partners[r, i]` is the lane that lane i reads in round r (itself where it idles)."""

    events: tuple  # rows of trace.events
    partners: np.ndarray  # (rounds, 32)
    # (rounds, 32, 32) bool: after round r, lane i holds a part of lane j's first value
    held: np.ndarray
    active: np.ndarray  # (32,) bool

    @property
    def groups(self) -> tuple:
        """Lanes that are connected, directly or through others, as tuples of lanes."""
        linked = np.eye(32, dtype=bool)
        for row in self.partners:
            linked[LANES, row] = linked[row, LANES] = True
        for _ in range(5):  # 32 lanes: five doublings reach everyone
            linked = linked @ linked
        found = {tuple(map(int, np.nonzero(linked[i])[0])) for i in np.nonzero(self.active)[0]}
        return tuple(sorted(found))

    @property
    def complete(self) -> np.ndarray:
        """(32,) bool: lanes that end with a part of every lane of their group."""
        whole = np.zeros(32, bool)
        for group in self.groups:
            members = list(group)
            whole[members] = self.held[-1][np.ix_(members, members)].all(axis=1)
        return whole & self.active

    def __str__(self) -> str:
        sizes = sorted({len(group) for group in self.groups})
        done, active, count = int(self.complete.sum()), int(self.active.sum()), len(self.groups)
        rounds = f"{len(self.events)} round{'s' * (len(self.events) != 1)}"
        if count == active:
            return f"{rounds}: no lane reads another"
        of = f"{sizes[0]} lanes" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} lanes"
        shape = f"{count} groups of {of}, none of which hears another"
        shape = f"one group of {of}" if count == 1 else shape
        who = f"{done} of {active} lanes hear{'s' * (done == 1)}"
        who = "every lane hears" if done == active else who
        return f"{rounds}: {shape}; {who} its whole group"


@dataclass(frozen=True)
class ShuffleGraph(Table):
    """The rounds of one warp's shuffles as a table, and as `chains`."""

    chains: tuple = ()

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *map(str, self.chains)])

    __repr__ = __str__


def shuffle_graph(trace: Trace, block: int = 0, warp: int = 0, launch: int = 0) -> ShuffleGraph:
    """The rounds of one warp's shuffles: who reads whom, and of how many lanes each lane then holds a part.

    A chain is a run of shuffles of one kind with nothing in between. An offset that a chain has had already begins another chain,
    or goes on with one, so that values that are reduced side by side each have a chain of their own. The table is empty where the
    warp of that launch and block has no shuffles.
    """
    chains = [_chain(trace, rows) for rows in _chain_rows(trace, block, warp, launch)]
    rows = []
    for chain in chains:
        for k, number in enumerate(chain.events):
            event = trace.events[number]
            sizes = chain.held[k].sum(axis=1)[chain.active]
            kind = ShuffleKind(int(event["arg"])).name.lower()
            how = kind, int(event["arg2"]), _reads(chain.partners[k], chain.active)
            rows.append((trace.line(event).where, *how, int(sizes.min()), int(sizes.max())))
    least = min((int(chain.held[-1].sum(axis=1)[chain.active].min()) for chain in chains[:1]), default=1)
    columns = ("line", "kind", "by", "partners", "lanes held, least", "most")
    total = {
        "rounds": len(rows),
        "every_lane_holds": least,
        "groups": len(chains[0].groups) if chains else 0,
        "complete_lanes": int(chains[0].complete.sum()) if chains else 0,
    }
    return ShuffleGraph("Shuffles of one warp", columns, tuple(rows), total, tuple(chains))


def _reads(partners: np.ndarray, active: np.ndarray) -> str:
    lanes = np.nonzero(active)[0]
    sources = np.unique(partners[lanes])
    if len(sources) == 1 and len(lanes) > 1:
        return f"all read lane {sources[0]}"
    return ", ".join(f"lane {lane} reads {partners[lane]}" for lane in lanes[:2])


def _chain_rows(trace: Trace, block: int, warp: int, launch: int) -> list:
    events = trace.events
    mine = np.nonzero((events["launch"] == launch) & (events["block"] == block) & (events["warp"] == warp))[0]
    found, running = [], []  # running: (offsets so far, rows) of this run of shuffles
    kind = None
    for number in mine:
        event = events[number]
        if event["op"] != Op.SHUFFLE or event["arg"] != kind:
            running = []
        if event["op"] != Op.SHUFFLE:
            continue
        kind, offset = event["arg"], int(event["arg2"])
        chain = next((c for c in running if offset not in c[0]), None)
        if chain is None:
            chain = (set(), [])
            running.append(chain)
            found.append(chain[1])
        chain[0].add(offset)
        chain[1].append(int(number))
    return found


def _chain(trace: Trace, rows: list) -> Chain:
    events = trace.events[rows]
    active = lane_bits(events["mask"])
    sources = trace.addresses[events["addresses"]]
    partners = np.where(active & (sources >= 0), sources, LANES)
    held, states = np.eye(32, dtype=bool), []
    for row, kind in zip(partners, events["arg"]):
        # A read by index hands a value on; in the other kinds a lane combines it with its own.
        held = held[row] if kind == ShuffleKind.IDX else held | held[row]
        states.append(held)
    return Chain(tuple(rows), partners, np.stack(states), active.any(axis=0))


def dsmem_matrix(trace: Trace) -> np.ndarray:
    """Bytes that block i (row) moved to or from the shared memory of block j (column), over the whole grid; int64."""
    blocks = max((launch.blocks for launch in trace.launches), default=0)
    matrix = np.zeros((blocks, blocks), np.int64)
    events = trace.events
    moving = np.isin(events["op"], [int(op) for op in (Op.LOAD, Op.STORE, Op.ATOMIC, Op.STORE_ASYNC)])
    chosen = events[moving & (events["space"] == int(Space.DSMEM)) & (events["addresses"] >= 0)]
    if len(chosen):
        addresses = trace.addresses[chosen["addresses"]]
        row, lane = np.nonzero(lane_bits(chosen["mask"]) & (addresses >= 0))
        ends = chosen["block"][row], addresses[row, lane] >> SMEM_BLOCK_BITS
        np.add.at(matrix, ends, chosen["bytes"][row].astype(np.int64))
    return matrix
