"""Why the GPU counted other numbers than the source makes: the rules by which compiler and hardware may change them.

| rule       | what compiler or hardware does             | explains a number if                                             |
|------------|--------------------------------------------|------------------------------------------------------------------|
| `MERGED`   | makes a warp's neighbouring accesses one   | it is what the trace gives with them merged, and the PTX has     |
|            |                                            | accesses of that width                                           |
| `LEFT_OUT` | makes loads only where their value is used | it lies between the loads whose value can matter and all         |
| `EMPTY`    | executes loads in which no lane takes part | the kernel has cp.async, to which the assembler adds three loads |
|            |                                            | for nobody, and the number is no larger than that allows         |
| `BULK`     | lets bulk copies into shared memory and    | it is of wavefronts of shared loads or stores, larger than       |
|            | warps that use it wait for each other      | simulated by at most 2 %, and the kernel has such copies         |

A load's value cannot matter if its warp does nothing visible afterwards, or if nothing that its block stores changes when the
tensor that it reads does. Everything else that differs is a mismatch.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property

import numpy as np

from quack_tutorial import compiler
from quack_tutorial.simulator import simulate
from quack_tutorial.simulator.trace import Op, Space

MERGED = "the compiler makes neighbouring accesses one, as wide as the PTX has them"
LEFT_OUT = "the compiler makes loads only where their value is used"
EMPTY = (
    "instructions in which no lane takes part are executed, too; the assembler adds three loads for nobody to cp.async"
)
BULK = (
    "bulk copies write into shared memory while warps use the same banks; how many wavefronts that adds varies from run to "
    "run (here at most 2 %)"
)
BULK_EXCESS = 0.02  # of 1,360 wavefronts an H200 added 9 in one run and 13 in another
EMPTY_LOADS = 3  # a warp, in the SASS of CUDA 13 for sm_90a
VISIBLE = (Op.STORE, Op.ATOMIC, Op.BULK_COPY, Op.STORE_ASYNC, Op.SHUFFLE, Op.VOTE, Op.REDUX, Op.ASYNC_COPY)
WIDEST = 16
PTX_ACCESS = re.compile(r"\b(ld|st)\.([\w.:]*)\b")


class Rules:
    """The rules for one case; `counted(trace)` gives {quantity: number}."""

    def __init__(self, case, counted, ptx=None):
        self.case, self.counted, self._ptx = case, counted, ptx or compiled
        self.trace = simulate(case.host, *case.arguments()).trace

    def explain(self, comparison) -> str:
        """The rule by which a comparison's numbers differ, or "" if there is none."""
        name, quantity, number = str(comparison.quantity), comparison.quantity, comparison.counted
        if number == self.merged_numbers[name] and self.new_widths(quantity) <= self.ptx_widths(quantity):
            return MERGED
        if self.bulk_may_add(comparison):
            return BULK
        if not quantity.kind.startswith("loads"):
            return ""
        least = self.needed_numbers[name]
        if least <= number <= comparison.simulated:
            return LEFT_OUT
        if self.uses_cp_async and (quantity.what, quantity.space) == ("requests", Space.SMEM):
            most = comparison.simulated + EMPTY_LOADS * self.warps
            return EMPTY if least <= number <= most else ""
        return ""

    def bulk_may_add(self, comparison) -> bool:
        """Whether the number is so little larger than simulated that bulk copies at the same time may be why."""
        quantity, more = comparison.quantity, comparison.counted - comparison.simulated
        if (quantity.what, quantity.space) != ("wavefronts", Space.SMEM) or quantity.kind not in ("loads", "stores"):
            return False
        return 0 < more <= BULK_EXCESS * comparison.simulated and self.uses_bulk_loads

    @cached_property
    def merged_numbers(self) -> dict:
        return self.counted(self.merged)

    @cached_property
    def merged(self):
        return merged(self.trace)

    @cached_property
    def needed_numbers(self) -> dict:
        return self.counted(needed(self.case, self.trace))

    @property
    def uses_cp_async(self) -> bool:
        return bool((self.trace.events["op"] == int(Op.ASYNC_COPY)).any())

    @property
    def uses_bulk_loads(self) -> bool:
        events = self.trace.events
        return bool(((events["op"] == int(Op.BULK_COPY)) & (events["space"] == int(Space.SMEM))).any())

    @property
    def warps(self) -> int:
        return int((self.trace.events["op"] == int(Op.EXIT)).sum())

    def new_widths(self, quantity) -> set:
        """Bytes a lane of the accesses that only the merged trace has."""
        before, after = (_widths(trace, quantity) for trace in (self.trace, self.merged))
        return after - before

    def ptx_widths(self, quantity) -> set:
        """Bytes a lane of the accesses of this kind that the compiler's PTX has."""
        return ptx_widths(self.ptx, "st" if quantity.kind == "stores" else "ld", quantity.space)

    @cached_property
    def ptx(self) -> str:
        return self._ptx(self.case)


def compiled(case) -> str:
    """The case's PTX; "" where the DSL is missing, which then explains nothing by its widths."""
    return "" if compiler.dsl_problem() else compiler.ptx(case.host, *map(_tensor, case.arguments()))


def _tensor(argument):
    import torch

    return torch.from_numpy(argument) if isinstance(argument, np.ndarray) else argument


def ptx_widths(text: str, op: str, space: Space) -> set:
    """Bytes a lane of each `op` ("ld" or "st") to a space in PTX text."""
    name = "shared" if space == Space.SMEM else "global"
    found = set()
    for kind, suffix in PTX_ACCESS.findall(text):
        parts = re.split(r"[.:]+", suffix)
        if kind == op and name in parts:
            vector = max([int(part[1:]) for part in parts if re.fullmatch(r"v\d", part)], default=1)
            found |= {vector * int(part[1:]) // 8 for part in parts if re.fullmatch(r"[bfsu]\d+", part)}
    return found


def _widths(trace, quantity) -> set:
    op = Op.STORE if quantity.kind == "stores" else Op.LOAD
    events = trace.events
    return set(events["bytes"][(events["op"] == int(op)) & (events["space"] == int(quantity.space))].tolist())


def merged(trace):
    """The trace with each warp's loads, and its stores, of neighbouring places made one, up to 16 bytes a lane.

    Two are made one if they follow each other in their warp, for the same lanes, and each lane's second begins where its
    first ends, aligned to both together.
    """
    events = trace.events.copy()
    keep = np.ones(len(events), bool)
    order = np.lexsort((events["step"], events["warp"], events["block"], events["launch"]))
    order = order[events["op"][order] != int(Op.BRANCH)]
    again = True
    while again:
        again, last = False, -1
        for i in order[keep[order]]:
            if last >= 0 and _continues(trace, events[last], events[i]):
                events["bytes"][last] *= 2
                keep[i], again, last = False, True, -1
            else:
                last = i
    return replace(trace, events=events[keep])


def _continues(trace, first, second) -> bool:
    same = all(first[name] == second[name] for name in ("launch", "block", "warp", "op", "space", "mask", "bytes"))
    if not same or first["op"] not in (int(Op.LOAD), int(Op.STORE)) or first["bytes"] * 2 > WIDEST:
        return False
    a, b = (trace.addresses[event["addresses"]] for event in (first, second))
    on = a >= 0
    wide = int(first["bytes"]) * 2
    return bool((b[on] == a[on] + wide // 2).all() and (a[on] % wide == 0).all())


def needed(case, trace):
    """The trace without the loads whose value cannot matter (see the module)."""
    events = trace.events
    loads = events["op"] == int(Op.LOAD)
    drop = loads & ~_something_visible_follows(events)
    if all(launch.cluster == (1, 1, 1) for launch in trace.launches) and len(trace.launches) == 1:
        for at, tensor in _tensors_of(case.arguments(), trace).items():
            inside = loads & (events["space"] == int(Space.GMEM)) & (events["tensor"] == tensor)
            if inside.any():
                drop |= inside & ~np.isin(events["block"], _blocks_that_change(case, at))
    return replace(trace, events=events[~drop])


def _something_visible_follows(events) -> np.ndarray:
    """Of each event, whether its warp stores, sends or shuffles anything later."""
    result = np.zeros(len(events), bool)
    for _, rows in _by_warp(events):
        visible = np.isin(events["op"][rows], [int(op) for op in VISIBLE])
        result[rows] = np.maximum.accumulate(visible[::-1])[::-1]
    return result


def _by_warp(events):
    keys = np.stack([events[name].astype(np.int64) for name in ("launch", "block", "warp")], axis=1)
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    for i, key in enumerate(unique):
        rows = np.nonzero(inverse.ravel() == i)[0]
        yield tuple(key), rows[np.argsort(events["step"][rows], kind="stable")]


def _tensors_of(arguments, trace) -> dict:
    """{position of an argument of floating-point numbers: row of trace.tensors}; both lie in memory in this order."""
    known = [i for i, tensor in enumerate(trace.tensors) if tensor.space == Space.GMEM]
    known.sort(key=lambda i: trace.tensors[i].base_address)
    found = {}
    for at, argument in enumerate(arguments):
        if not hasattr(argument, "shape"):
            continue
        if known and trace.tensors[known[0]].shape == tuple(argument.shape):
            tensor = known.pop(0)
            if "float" in str(argument.dtype):
                found[at] = tensor
    return {} if known else found


def _blocks_that_change(case, at) -> list:
    """The blocks that store other values when argument `at` holds other numbers."""
    before, after = case.arguments(), case.arguments()
    after[at][...] = after[at] * 0.5 + 1
    trace = simulate(case.host, *before).trace
    simulate(case.host, *after)
    blocks = set()
    for position, tensor in _tensors_of(case.arguments(), trace).items():
        info = trace.tensors[tensor]
        changed = _bytes(before[position]) != _bytes(after[position])
        events = trace.events[
            (trace.events["tensor"] == tensor) & np.isin(trace.events["op"], [int(Op.STORE), int(Op.ATOMIC)])
        ]
        for event in events:
            offsets = trace.addresses[event["addresses"]]
            offsets = offsets[offsets >= 0] - info.base_address
            if any(changed[o : o + int(event["bytes"])].any() for o in offsets):
                blocks.add(int(event["block"]))
    return sorted(blocks)


def _bytes(argument) -> np.ndarray:
    if not isinstance(argument, np.ndarray):
        import torch

        argument = argument.contiguous().view(torch.uint8).numpy()
    return np.ascontiguousarray(argument).reshape(-1).view(np.uint8)
