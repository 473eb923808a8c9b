"""Requests of one warp whose every lane is known, against what Nsight Compute counted of them on an H200.

Lane l touches the element `to[l]` of `width` bytes: in global memory a load and a store, in shared memory a store, and a load of
`back[l]`, and by cp.async, which fills with zeros where a lane takes no part: all take it but where some `lanes` are named. The
kernels that ran there are `validation/access_patterns.py` of commit 23bc2acc.
"""

import json
from pathlib import Path

import numpy as np
from log import Log

from cutesim.analysis import requests
from cutesim.trace import Op, Space

RECORDED = json.loads(Path(__file__).with_name("access_patterns_h200.json").read_text())["patterns"]
LANE = np.arange(32)


def traced(kind, width, to, back=(), lanes=LANE):
    log, globally, mine = Log(), dict(space=Space.GMEM), LANE * width
    to, back = (width * np.array(places) for places in (to, back))

    def some(places):
        return np.where(np.isin(LANE, lanes), places, -1)

    if kind == "global":
        log.load(1, some(to), width, **globally)
        log.store(2, some(to), width, **globally)
    elif kind == "shared":
        log.load(1, some(mine), width, **globally)
        log.store(2, some(to), width)
        log.load(3, some(back), width)
        log.store(4, some(mine), width, **globally)
    else:
        log.cp_async(1, to, some(mine), width)
        log.load(2, to, width)
        log.store(3, mine, width, **globally)
    return log.trace()


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
    for name, kept in RECORDED.items():
        row = dict(kept)
        wanted = row.pop("counted")
        assert counted(traced(name.partition(",")[0], **row)) == wanted, name
