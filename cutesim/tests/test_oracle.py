"""`races` against brute force: on tiny random traces both find the same pairs of lines."""

import random

import pytest
from log import Log, at
from oracle import racing_lines, unfenced_lines

from cutesim.analysis.races import unfenced, unordered
from cutesim.trace import FenceKind, Op, Space

LANES = (0, 1, 2)  # lanes that do anything
MEMORY_FENCES = (FenceKind.CTA, FenceKind.CLUSTER, FenceKind.GPU, FenceKind.GPU, FenceKind.SYS)


class RandomLog:
    """Random events in an order that some execution could have; every event is on a line of its own."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.blocks, self.warps, self.cluster = self.random.choice(
            [(1, 2, 1), (1, 3, 1), (2, 2, 2), (4, 1, 2), (3, 1, 1)]
        )
        self.log = Log(self.blocks, self.cluster, 32 * self.warps)
        self.line = 0
        self.phase = {}  # (owner, offset) -> current phase
        self.flying = []

    def next(self) -> int:
        self.line += 1
        return self.line

    def lanes(self):
        return sorted(self.random.sample(LANES, self.random.randint(1, len(LANES))))

    def place(self):
        block = self.random.randrange(self.blocks)
        return dict(block=block, warp=self.random.randrange(self.warps))

    def peer(self, block: int) -> int:
        return block // self.cluster * self.cluster + self.random.randrange(self.cluster)

    def addresses(self, unit):
        return at(**{f"l{lane}": unit * self.random.randrange(3) for lane in self.lanes()})

    def access(self):
        place, nbytes = self.place(), self.random.choice([1, 2, 4])
        op = self.random.choice([Op.LOAD, Op.LOAD, Op.STORE, Op.ATOMIC])
        if self.random.random() < 0.25:
            place["space"] = Space.GMEM
        else:
            place["owner"] = self.peer(place["block"])
        self.log.access(self.next(), op, self.addresses(nbytes), nbytes, **place)

    def sync_warp(self):
        self.log.sync_warp(self.next(), self.random.choice([range(32), self.lanes()]), **self.place())

    def barrier(self):
        block = self.random.randrange(self.blocks)
        warps = self.random.sample(range(self.warps), self.random.randint(1, self.warps))
        waiting = warps[: self.random.randint(1, len(warps))]
        barrier_id = self.random.randrange(2)
        place = dict(block=block, barrier_id=barrier_id, arrive_only=warps[len(waiting) :])
        self.log.barrier(self.next(), waiting, **place)

    def cluster_barrier(self):
        first = self.random.randrange(self.blocks // self.cluster) * self.cluster
        blocks = range(first, first + self.cluster)
        relaxed = [b for b in blocks if self.random.random() < 0.4]
        self.log.cluster_barrier(self.next(), blocks, range(self.warps), relaxed)

    def mbarrier(self):
        place = self.place()
        owner, offset = self.peer(place["block"]), 64
        key = (owner, offset)
        choice = self.random.random()
        place |= dict(owner=owner, offset=offset, lanes=self.lanes())
        if choice < 0.15:
            place["owner"] = place["block"]
            self.phase[(place["block"], offset)] = 0
            self.log.init(self.next(), **place)
        elif choice < 0.55:
            self.log.arrive(self.next(), self.phase.get(key, 0), **place)
        elif choice < 0.7:
            if not any(k == key for _, k in self.flying):
                self.phase[key] = self.phase.get(key, 0) + 1
        elif self.phase.get((place["block"], offset), 0):
            place["owner"] = place["block"]
            self.log.wait(self.next(), self.phase[(place["block"], offset)] - 1, **place)

    def fence(self):
        self.log.fence_init(self.next(), self.random.choice([range(32), self.lanes()]), **self.place())

    def counter(self):
        """A fence, or an atomic on a word that all blocks count on, or a plain access to it."""
        place, choice = self.place(), self.random.random()
        lanes = self.random.choice([range(32), self.lanes()])
        if choice < 0.5:
            self.log.fence(self.next(), self.random.choice(MEMORY_FENCES), lanes, **place)
        elif choice < 0.95:
            bits = self.random.choice([0, 0, 0, 1, 2, 3])
            row = at(**{f"l{lane}": 64 for lane in self.lanes()})
            self.log.atomic(self.next(), row, space=Space.GMEM, arg=bits, **place)
        else:
            op = self.random.choice([Op.LOAD, Op.STORE])
            self.log.access(self.next(), op, at(l0=64), space=Space.GMEM, **place)

    def cp_async(self):
        place, choice = self.place(), self.random.random()
        if choice < 0.4:
            row = self.addresses(4)
            self.log.cp_async(self.next(), row, row, 4, **place)
        elif choice < 0.7:
            self.log.commit(self.next(), self.lanes(), **place)
        else:
            self.log.wait_group(self.next(), self.random.randrange(2), self.lanes(), **place)

    def bulk_store(self):
        """A bulk copy out of shared memory (there is none into it), its group, or a proxy fence."""
        place, choice = self.place(), self.random.random()
        lane = self.random.choice(LANES)
        if choice < 0.3:
            self.log.bulk(self.next(), 0, 4096 * self.line, 16, store=True, lane=lane, **place)
        elif choice < 0.5:
            self.log.commit(self.next(), [lane], bulk=True, **place)
        elif choice < 0.65:
            self.log.wait_group(self.next(), self.random.randrange(2), [lane], bulk=True, **place)
        else:
            lanes = self.random.choice([range(32), self.lanes()])
            self.log.fence(self.next(), FenceKind.PROXY_ASYNC, lanes, **place)

    def st_async(self):
        place = self.place()
        owner = self.peer(place["block"])
        row = self.addresses(4)
        step = self.log.st_async(self.next(), row, owner=owner, mbarrier=64, **place)
        self.flying += [((step, owner, place), (owner, 64))] * int((row >= 0).sum())

    def land(self):
        if self.flying:
            (step, owner, place), key = self.flying.pop(self.random.randrange(len(self.flying)))
            self.log.done(self.next(), step, self.phase.get(key, 0), owner=owner, mbarrier=64, **place)

    def make(self, events: int, counters: int = 2, bulk: int = 0):
        steps = [self.access] * 8 + [self.sync_warp] * 2 + [self.barrier] * 2 + [self.mbarrier] * 4
        steps += [self.cp_async] * 3 + [self.st_async, self.land, self.land, self.fence] + [self.counter] * counters
        steps += [self.bulk_store] * bulk
        steps += [self.cluster_barrier] * (2 if self.cluster > 1 else 0)
        for _ in range(events):
            self.random.choice(steps)()
        return self.log.trace()


def found_lines(trace) -> set:
    return {frozenset(trace.lines[k].number for k in race.lines) for race in unordered(trace)}


@pytest.mark.parametrize("block", range(20))
def test_the_same_pairs_as_brute_force(block):
    for seed in range(block * 20, block * 20 + 20):
        trace = RandomLog(seed).make(14 + seed % 25, counters=seed % 3 * 12)
        assert found_lines(trace) == racing_lines(trace), f"seed {seed}"


@pytest.mark.parametrize("block", range(10))
def test_the_same_missing_proxy_fences_as_brute_force(block):
    for seed in range(block * 20, block * 20 + 20):
        trace = RandomLog(seed).make(20 + seed % 25, bulk=12)
        found = {tuple(trace.lines[k].number for k in race.lines) for race in unfenced(trace)}
        # lanes that write the same bytes in one instruction count as one, and race anyway
        racing = racing_lines(trace)
        others = {pair for pair in unfenced_lines(trace) if frozenset(pair) not in racing}
        assert {pair for pair in found if frozenset(pair) not in racing} == others, f"seed {seed}"
        assert found_lines(trace) == racing, f"seed {seed}"
