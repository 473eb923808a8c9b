"""Requests of one warp whose every lane is known, against what Nsight Compute counted of them on an H200.

Lane l touches the element `start + stride * order(l)` of `width` bytes: in global memory a load and a store, in shared memory a
store and a load by `read`, and by cp.async, which also fills with zeros for lanes that take no part. The kernels that ran there
are `validation/access_patterns.py` of commit 23bc2acc.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from log import Log

from cutesim.analysis import requests
from cutesim.trace import Op, Space

RECORDED = json.loads(Path(__file__).with_name("access_patterns_h200.json").read_text())["patterns"]
LANE = np.arange(32)
# (a, b, c, d): lane l takes the place of m = (a l + b) mod 32 in runs of d elements, each of which is there for c runs of lanes
IN_ORDER, REVERSED, SHUFFLED = (1, 0, 1, 1), (31, 31, 1, 1), (13, 5, 1, 1)
PAIRS, ALL_THE_SAME, EIGHTHS = (1, 0, 2, 1), (0, 0, 1, 1), (1, 0, 4, 8)
TOGETHER = {distance: (1, 0, 2, distance) for distance in (2, 4, 8, 16)}  # lane l and lane l xor distance
STRIDES = (1, 2, 3, 4, 5, 8, 16, 32, 33)
NAMES = {REVERSED: ", reversed", SHUFFLED: ", shuffled", PAIRS: ", in pairs"}
READS = {
    PAIRS: ", read in pairs",
    ALL_THE_SAME: ", all read one",
    IN_ORDER: ", read in order",
    EIGHTHS: ", read by eighths",
}
READS |= {order: f", read with lane xor {distance}" for distance, order in TOGETHER.items()}


def taken(lane, order):
    a, b, c, d = order
    m = (lane * a + b) % 32
    return m // (c * d) * d + m % d


@dataclass(frozen=True)
class Pattern:
    """Lanes take part that are below `below` and multiples of `every`."""

    width: int
    stride: int = 1
    start: int = 0
    order: tuple = IN_ORDER
    read: tuple = REVERSED
    below: int = 32
    every: int = 1

    def __str__(self) -> str:
        text = f"{self.width} byte{'s' * (self.width > 1)} a lane, stride {self.stride}"
        text += f", from {self.start}" * bool(self.start) + NAMES.get(self.order, "") + READS.get(self.read, "")
        text += f", lanes below {self.below}" * (self.below < 32)
        return text + f", every {self.every}{'nd' if self.every == 2 else 'th'} lane" * (self.every > 1)

    def trace(self, kind):
        log, some = Log(), (LANE < self.below) & (LANE % self.every == 0)
        places, global_ = (taken(LANE, self.order), taken(taken(LANE, self.read), self.order)), dict(space=Space.GMEM)
        to, back = ((self.start + self.stride * place) * self.width for place in places)
        mine = LANE * self.width
        if kind == "global":
            log.load(1, np.where(some, to, -1), self.width, **global_)
            log.store(2, np.where(some, to, -1), self.width, **global_)
        elif kind == "shared":
            log.load(1, np.where(some, mine, -1), self.width, **global_)
            log.store(2, np.where(some, to, -1), self.width)
            log.load(3, np.where(some, back, -1), self.width)
            log.store(4, np.where(some, mine, -1), self.width, **global_)
        else:
            log.cp_async(1, to, np.where(some, mine, -1), self.width)
            log.load(2, to, self.width)
            log.store(3, mine, self.width, **global_)
        return log.trace()


def patterns():
    """(kind, pattern): each width at every stride; from 4 bytes on, what else decides: order, start, broadcasts, idle lanes."""
    for width in (1, 2, 4, 8, 16):
        yield from ((kind, Pattern(width, stride)) for kind in ("global", "shared") for stride in STRIDES)
        if width < 4:
            continue
        made = [Pattern(width, start=start) for start in (1, 3, 7)]
        made += [Pattern(width, stride, order=order) for stride in (1, 2) for order in (REVERSED, SHUFFLED)]
        made += [Pattern(width, below=17), Pattern(width, every=4), Pattern(width, 2, below=5)]
        yield from (("global", pattern) for pattern in made)
        made = [Pattern(width, stride, order=SHUFFLED) for stride in (1, 2, 32)]
        made += [Pattern(width, stride, read=read) for stride in (1, 32) for read in (PAIRS, ALL_THE_SAME)]
        made += [Pattern(width, stride, read=IN_ORDER, below=17) for stride in (1, 32)]
        made += [Pattern(width, stride, read=IN_ORDER, every=4) for stride in (1, 2)]
        # Who has to read the same address for a wide load to take more lanes at once; whether an idle lane counts.
        made += [Pattern(width, read=read) for read in (*TOGETHER.values(), EIGHTHS)]
        yield from (("shared", pattern) for pattern in (*made, Pattern(width, order=PAIRS, read=IN_ORDER, every=2)))
        made = [Pattern(width, stride, read=IN_ORDER) for stride in STRIDES]
        made += [Pattern(width, 2, order=SHUFFLED, read=IN_ORDER)]
        made += [Pattern(width, stride, read=IN_ORDER, below=17) for stride in (1, 2)]
        yield from (("cp.async", pattern) for pattern in made)


COUNTED = {  # by space: which operations under which name
    ("global", Space.GMEM, "sectors"): {
        "loads and cp.async": (Op.LOAD, Op.ASYNC_COPY),
        "stores": (Op.STORE,),
        "cp.async": (Op.ASYNC_COPY,),
    },
    ("shared", Space.SMEM, "wavefronts"): {"loads": (Op.LOAD,), "stores": (Op.STORE,), "cp.async": (Op.ASYNC_COPY,)},
}


def counted(trace) -> dict:
    """{what: number} of a trace, for what is not 0: requests, and the sectors or wavefronts that they take."""
    found = {}
    for (name, space, cost), kinds in COUNTED.items():
        table = requests(trace, space)
        for kind, ops in kinds.items():
            mine = table[np.isin(trace.events["op"][table["event"]], ops) & (table["lanes"] > 0)]
            found |= {f"{name} {kind}: requests": len(mine), f"{name} {kind}: {cost}": int(mine[cost].sum())}
    found.pop("shared cp.async: requests")
    return {what: number for what, number in found.items() if number}


def test_every_pattern_counts_what_nsight_compute_counted_on_an_h200():
    assert len(RECORDED) > 150
    found = {f"{kind}, {pattern}": counted(pattern.trace(kind)) for kind, pattern in patterns()}
    assert {name: found.get(name) for name in RECORDED} == RECORDED
