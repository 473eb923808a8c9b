"""What warps that run in step do: each one's instructions in its own order, until they are played to the trace in the schedule's.

`scheduler` says when warps do so. Calls that change what a warp waits for or has under way (`by_warp`) are kept as calls, which
each warp makes for itself as its log is played. What depends on who comes first, as an atomic does, needs warps: no log has it.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cutesim.trace import TraceRecorder

from ..context import STATE, WARP, NeedsWarps, group
from ..values.numeric import Value
from .pointers import Pointer
from .recording import Row, bits_by_warp, current_line
from .tensor import Tensor


class Call(NamedTuple):
    """What each warp does for itself when its log is played: `function` of its own part of the arguments, under its mask."""

    function: object
    at: tuple
    args: tuple
    kwargs: dict
    row: int  # of the batch
    mask: np.ndarray | None


class Log(TraceRecorder):
    """What warps that run in step do; whatever it cannot keep needs warps."""

    def __init__(self, function, record_values: bool):
        super().__init__(record_values)
        self.function = function
        self.of_warp = {}  # (block, warp) -> its rows and calls
        self.here = []  # those of the batch that runs, by block and warp
        self.positions = {}  # `at` -> rows of the trace's lines and calls

    def open_batch(self, blocks: np.ndarray, warps: int) -> None:
        of = lambda block, warp: self.of_warp.setdefault((block, warp), [])  # noqa: E731
        self.here = [[of(block, warp) for warp in range(warps)] for block in blocks.tolist()]

    def tensor(self, info) -> int:
        raise NeedsWarps

    def event(self, *_, **__) -> int:
        raise NeedsWarps

    def instruction(self, g, op, mask=None, *, nbytes=0, addresses=None, values=None, arg=0, arg2=0) -> None:
        """The rows of `record_event`, one a warp with a lane in `mask`; facts are of all warps, or of shape (B, warps, ...)."""
        at, shape = current_line(self), (len(g.blocks), len(g.threads) // WARP)
        active = g.active() if mask is None else mask
        bits = bits_by_warp(active.reshape(*shape, WARP)).tolist()

        given = (addresses, 1), (values, 1), (arg, 0), (arg2, 0)
        facts = [(fact, np.ndim(fact) > dims) for fact, dims in given]
        for b, logs in enumerate(self.here):
            for w, log in enumerate(logs):
                if bits[b][w]:
                    near, value, first, second = (fact[b, w] if differs else fact for fact, differs in facts)
                    head = at, op, bits[b][w], 0, None, nbytes
                    log.append(Row(*head, near, value, int(first), int(second)))

    def call(self, function, args, kwargs) -> None:
        """Let each warp with an active lane call this when its log is played."""
        g, at = group(), current_line(self)
        off = g.lanes_off()
        active = None if off is None else g.active().reshape(len(g.blocks), -1, WARP)
        whole = None if off is None else (g.mask is None) | active.all(axis=2)
        for b, logs in enumerate(self.here):
            for w, log in enumerate(logs):
                if active is None or active[b, w].any():
                    mask = None if whole is None or whole[b, w] else active[b, w][None]
                    log.append(Call(function, at, args, kwargs, b, mask))

    def steps(self, g):
        """The generator of one warp that plays its log to the trace of the run."""
        run, block = STATE.run, int(g.blocks[0])
        recorder = run.recorder
        for row in self.of_warp.pop((block, g.warp)):
            at = self.positions.get(row.at)
            if at is None:
                line, call = self.lines[row.at[0]], () if row.at[1] < 0 else self.calls[row.at[1]]
                line = recorder.line(line)
                at = self.positions[row.at] = line, recorder.called_from(call)
            if type(row) is Row:
                row.write(recorder, block, g.warp, at)
                continue
            g.mask, run.played = row.mask, at
            args, kwargs = _part((row.args, row.kwargs), row.row, g)
            steps = getattr(row.function(*args, **kwargs), "steps", None)
            while steps is not None:
                run.played = at
                try:
                    waiting = next(steps)
                except StopIteration:
                    break
                run.played = None
                yield waiting
            g.mask, run.played = None, None


def _part(x, row: int, g):
    """What one warp has of an argument of a batch's call: its lanes; rows of blocks count from its cluster's first."""
    if isinstance(x, (tuple, list)):
        return type(x)(_part(one, row, g) for one in x)
    if isinstance(x, dict):
        return {name: _part(one, row, g) for name, one in x.items()}

    def of(a):
        a = a[row : row + 1] if a.shape[0] > 1 else a
        return a[:, g.warp * WARP : (g.warp + 1) * WARP] if a.shape[1] > 1 else a

    if isinstance(x, Value):
        return x if x.a.size == 1 else Value(x.dtype, of(x.a))
    if isinstance(x, Tensor):
        return Tensor(_part(x.pointer, row, g), x.layout)
    if not isinstance(x, Pointer):
        return x
    size = g.launch.cluster_size
    rows = None if x.rows is None else of(x.rows) - row // size * size
    offset = of(x.offset) if isinstance(x.offset, np.ndarray) else x.offset
    return replace(x, offset=offset, rows=rows, view=None)


def by_warp(function):
    """A function that changes what warps wait for or have under way: warps in step do it together at once, and each for itself when
    its log is played."""

    @functools.wraps(function)
    def both(*args, **kwargs):
        run = STATE.run
        log = run.recorder if run is not None else None
        if type(log) is not Log or STATE.group is None:
            return function(*args, **kwargs)
        log.call(function, args, kwargs)
        run.recorder = None
        try:
            return function(*args, **kwargs)
        finally:
            run.recorder = log

    return both


def needs_warps() -> None:
    """What comes next is not to be logged by warps in step."""
    if STATE.group is not None and STATE.group.warp < 0 and STATE.run.recorder is not None:
        raise NeedsWarps
