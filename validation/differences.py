"""Why the GPU counted other numbers than the source makes: the rules by which compiler and hardware may change them.

| rule       | what compiler or hardware does             | explains a number if                                             |
|------------|--------------------------------------------|------------------------------------------------------------------|
| `MERGED`   | makes a warp's neighbouring accesses one   | it is what the trace gives with them merged, and the PTX has     |
|            |                                            | accesses of that width                                           |
| `LEFT_OUT` | makes loads only where their value is used | it lies between the loads whose value can matter and all         |
| `EMPTY`    | executes loads in which no lane takes part | the kernel has cp.async, to which the assembler adds three loads |
|            |                                            | for nobody, and the number is no larger than that allows         |

A load's value cannot matter if its warp does nothing visible afterwards, or if its block stores the same when this warp finds NaN
or an infinity there. Everything else that differs is a mismatch.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from cutesim.context import STATE, group
from cutesim.memory import pointers as memory
from cutesim.memory.recording import current_line
from cutesim.simulation import simulate
from cutesim.trace import Op, Space
from quack_tutorial import compiler
from validation.compiled import SPACES, emitted

MERGED = "the compiler makes neighbouring accesses one, as wide as the PTX has them"
LEFT_OUT = "the compiler makes loads only where their value is used"
EMPTY = (
    "instructions in which no lane takes part are executed, too; the assembler adds three loads for nobody to cp.async"
)
EMPTY_LOADS = 3  # a warp, in the SASS of CUDA 13 for sm_90a
VISIBLE = (Op.STORE, Op.ATOMIC, Op.BULK_COPY, Op.STORE_ASYNC, Op.SHUFFLE, Op.VOTE, Op.REDUX, Op.ASYNC_COPY)
WIDEST = 16


class Rules:
    """The rules for one case; `counted(trace)` gives {quantity: number}."""

    def __init__(self, case, counted, ptx=None):
        self.case, self.counted, self._ptx = case, counted, ptx or compiled
        self.trace = simulate(case.host, *case.arguments()).trace

    def explain(self, comparison) -> str:
        """The rule by which a comparison's numbers differ, or "" if there is none."""
        name, quantity, number = str(comparison.quantity), comparison.quantity, comparison.counted
        if number == self.numbers[MERGED][name] and self.new_widths(quantity) <= self.ptx_widths(quantity):
            return MERGED
        most = comparison.simulated + EMPTY_LOADS * self.warps * self.uses_cp_async
        if not quantity.kind.startswith("loads") or number > most:
            return ""
        least = self.numbers[LEFT_OUT if quantity.space == Space.GMEM else EMPTY][name]
        if least <= number <= comparison.simulated:
            return LEFT_OUT
        if self.uses_cp_async and (quantity.what, quantity.space) == ("requests", Space.SMEM):
            return EMPTY if least <= number else ""
        return ""

    @cached_property
    def merged(self):
        return merged(self.trace)

    @cached_property
    def numbers(self) -> dict:
        """What each rule makes of the trace, counted."""
        left = {LEFT_OUT: needed(self.case, self.trace), EMPTY: seen(self.trace)}
        return {rule: self.counted(trace) for rule, trace in {MERGED: self.merged, **left}.items()}

    @property
    def uses_cp_async(self) -> bool:
        return bool((self.trace.events["op"] == int(Op.ASYNC_COPY)).any())

    @property
    def warps(self) -> int:
        return int((self.trace.events["op"] == int(Op.EXIT)).sum())

    def new_widths(self, quantity) -> set:
        """Bytes a lane of the accesses that only the merged trace has."""
        before, after = (_widths(trace, quantity) for trace in (self.trace, self.merged))
        return after - before

    def ptx_widths(self, quantity) -> set:
        """Bytes a lane of the accesses of this kind that the compiler's PTX has."""
        return ptx_widths(self.ptx, "store" if quantity.kind == "stores" else "load", quantity.space)

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
    """Bytes a lane of each `op` ("load" or "store") to a space in PTX text."""
    return {width for where, way, width in emitted(text).accesses if (where, way) == (SPACES[space], op)}


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


def seen(trace):
    """The trace without the loads of warps that do nothing visible afterwards."""
    events = trace.events
    return replace(trace, events=events[(events["op"] != int(Op.LOAD)) | _something_visible_follows(events)])


def needed(case, trace):
    """The trace without the loads whose value cannot matter (see the module); which change nothing, of global memory alone."""
    events = seen(trace).events
    atomic = (events["op"] == int(Op.ATOMIC)).any()  # what it leaves is not looked at
    if atomic or len(trace.launches) > 1 or trace.launches[0].cluster != (1, 1, 1):
        return replace(trace, events=events)
    loads = (events["op"] == int(Op.LOAD)) & (events["space"] == int(Space.GMEM))
    usual, drop = _stored(case), np.zeros(len(events), bool)
    for line, warp in sorted(set(zip(events["line"][loads].tolist(), events["warp"][loads].tolist()))):
        same = set(usual)
        for value in (np.nan, np.inf, -np.inf):  # a maximum ignores the first and the last, a minimum the first two
            other = _stored(case, value, (line, warp)) if same else {}
            same = {block for block in same if usual[block] == other.get(block)}
        drop |= loads & (events["line"] == line) & (events["warp"] == warp) & np.isin(events["block"], sorted(same))
    return replace(trace, events=events[~drop])


def _stored(case, value: float = 0.0, changed: tuple = ()) -> dict:
    """{block: what its warps write in global and shared memory, in order}; with `changed`, (line, warp), what they write when that
    warp finds `value` in all that it loads from global memory there; nothing if that is no floating-point number."""
    read_raw, scatter, loaded, found, runs = memory.read_raw, memory.scatter, [], {}, []

    def read(pointer, offsets, width, keep, op, place):
        raw, recorder = read_raw(pointer, offsets, width, keep, op, place), STATE.run.recorder
        here = recorder is not None and pointer.memory.space is Space.GMEM
        if not here or (current_line(recorder)[0], group().warp) != changed:
            return raw
        loaded.append(pointer.dtype.is_float)
        return pointer.dtype.encode(np.full(raw.shape, value)) if loaded[-1] else raw

    def write(flat, index, raw, width, lanes):
        running = group()
        shape = (*running.shape, index.shape[2])
        on = np.ones(shape, bool) if lanes is None else np.broadcast_to(lanes, shape)
        values = np.broadcast_to(raw, (*running.shape, index.shape[2] * width)).reshape(*shape, width)
        what = running.warp, np.broadcast_to(index, shape)[on].tobytes(), values[on].tobytes()
        runs.append(STATE.run)
        if (
            runs[-1] is runs[0]
        ):  # where NaN is written there is a second run, which looks for reads of what nobody wrote
            found.setdefault(int(running.blocks[0]), []).append(what)
        scatter(flat, index, raw, width, lanes)

    memory.read_raw, memory.scatter = read, write
    try:
        simulate(case.host, *case.arguments())
    finally:
        memory.read_raw, memory.scatter = read_raw, scatter
    return found if all(loaded) and bool(loaded) == bool(changed) else {}


def _something_visible_follows(events) -> np.ndarray:
    """Of each event, whether its warp stores, sends or shuffles anything later."""
    result = np.zeros(len(events), bool)
    warps = np.stack([events[name].astype(np.int64) for name in ("launch", "block", "warp")], axis=1)
    for warp in np.unique(warps, axis=0):
        rows = np.nonzero((warps == warp).all(axis=1))[0]
        rows = rows[np.argsort(events["step"][rows], kind="stable")]
        visible = np.isin(events["op"][rows], [int(op) for op in VISIBLE])
        result[rows] = np.maximum.accumulate(visible[::-1])[::-1]
    return result
