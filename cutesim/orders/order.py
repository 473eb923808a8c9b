"""One run of a kernel in which someone chooses, after each visible step, who goes next.

Warps of all blocks run at the same time, as on a GPU that has room for them, and an asynchronous transfer lands whenever it is
chosen. A loop that asks again and again goes on once a word or mbarrier that it has asked about has changed.
"""

from __future__ import annotations

import types

import numpy as np

from cutesim.context import STATE, Waiting, fail, here, not_simulated
from cutesim.machine import control
from cutesim.machine.control import Pending
from cutesim.machine.scheduler import deadlock, exit_warp, warps_of
from cutesim.trace import Op, Space

from .steps import OP, SEEN, SPACE, Step, accesses_of, changes, effects_of, told_of

MOST_STEPS = 20_000  # of one run
MOST_AGENTS = 64  # warps of a launch


def call(function, *args, **kwargs):
    """`control.call`, after which another warp may come if others can see what was done."""
    in_kernel = STATE.group is not None and STATE.group.warp >= 0
    if in_kernel and getattr(function, "is_lane_by_lane", False):
        line = here()
        if (line.file, line.number) in STATE.run.order.apart and STATE.group.active().sum() > 1:
            return Pending(_lane_by_lane(function, args, kwargs))
    result = control.call(function, *args, **kwargs)
    if STATE.group is None or STATE.group.warp < 0:
        return result
    if type(result) is Pending:
        return Pending(_with_turn(result.steps))
    return Pending(_turn(result)) if STATE.run.order.was_seen() else result


def _with_turn(steps):
    result = yield from steps
    if STATE.run.order.was_seen():
        yield _until_chosen()
    return result


def _turn(result):
    yield _until_chosen()
    return result


def _lane_by_lane(function, args, kwargs):
    """One call a lane, after each of which another warp may come."""
    g, whole = STATE.group, None
    for lane in np.flatnonzero(g.active()[0]):
        mine = (np.arange(len(g.threads)) == lane)[None]
        g.push(mine)
        result = function(*args, **kwargs)
        g.pop()
        whole = result if whole is None else _with_lane(whole, mine, result)
        if STATE.run.order.was_seen():
            yield _until_chosen()
    return whole


def _with_lane(whole, mine, result):
    """What a call has given, with one lane's part of another."""
    if hasattr(result, "to_elements"):
        pairs = zip(whole.to_elements(), result.to_elements())
        return type(whole)([_with_lane(old, mine, new) for old, new in pairs])
    if not hasattr(result, "a"):
        return whole
    lane = mine[..., None] if result.a.ndim == 3 else mine
    return result._like(result.dtype, np.where(lane, result.a, whole.a))


def _until_chosen() -> Waiting:
    return Waiting(lambda: True, "its turn", here())


def turn():
    """Another warp may come after a store to shared memory."""
    in_kernel = STATE.group is not None and STATE.group.warp >= 0
    return Pending(_turn(None)) if in_kernel and STATE.run.order.was_seen() else None


CONTROL = types.SimpleNamespace(**{**vars(control), "call": call, "turn": turn})


class Order:
    """What `machine.scheduler` asks who goes next. `choose(ready, steps)` gives one of the agents that can go, given the steps so
    far; what it raises ends the run."""

    control = CONTROL

    def __init__(self, choose, notes_memory=False, apart=frozenset()):
        self.choose = choose
        self.apart = apart  # (file, line) of atomics whose every lane is a step of its own
        self.notes_memory = (
            notes_memory  # whether ordinary accesses are effects, and stores to shared memory end a step
        )
        self.steps: list[Step] = []
        self.atomics: list = []  # (name, whether it changed the word) since the step began
        self.launches = 0
        self.blocks = 1  # of the largest launch
        self.looked = 0  # the first row of the log that `was_seen` has not looked at
        self.warps: dict = {}  # agent -> scheduler.Warp, of those that have not ended

    def was_seen(self) -> bool:
        """Whether the running step has done something that others can see."""
        rows = STATE.run.recorder.rows
        new, self.looked = rows[self.looked :], len(rows)
        stores = (row for row in new if self.notes_memory and row[OP] == Op.STORE)
        return any(row[OP] in SEEN for row in new) or any(row[SPACE] != Space.GMEM for row in stores)

    def run(self, kernel, launch, blocks) -> None:
        """Run a launch's blocks to their ends."""
        launch.open_batch(blocks)
        self.launches += 1
        self.blocks = max(self.blocks, len(blocks))
        self.places = {int(block): row for row, block in enumerate(blocks)}
        self.warps = {(int(w.group.blocks[0]), w.group.warp): w for w in warps_of(kernel, launch, blocks)}
        if len(self.warps) > MOST_AGENTS:
            raise not_simulated(
                f"every order of {kernel.function.full_name}: it has {len(self.warps)} warps, and at most {MOST_AGENTS} are "
                "taken; give it fewer threads, or simulate the first blocks alone (blocks=k)"
            )
        self.transfers = {}  # agent -> Transfer
        self.sent = dict.fromkeys(self.warps, 0)  # how many transfers
        # the objects that a loop has asked about in this pass
        self.asked = {agent: set() for agent in self.warps}
        self.news = dict.fromkeys(self.warps, False)  # whether one of them has changed since
        self.written = dict.fromkeys(self.warps, 0)  # RunState.writes, as if the warp were alone
        while self.warps:
            ready = [agent for agent, warp in self.warps.items() if self._can_go(agent, warp)] + list(self.transfers)
            if not ready:
                deadlock(launch, list(self.warps.values()))
            if len(self.steps) > MOST_STEPS:
                raise fail("endless", f"stopped after {MOST_STEPS:,} steps: does this loop end?")
            self._step(launch, self.choose(ready, self.steps), tuple(ready))
        for transfer in launch.in_flight:
            transfer.orphaned()

    def _can_go(self, agent, warp) -> bool:
        waiting = warp.waiting
        if waiting is None:
            return True
        return self.news[agent] if waiting.spins else waiting.ready()

    def _step(self, launch, agent, ready) -> None:
        recorder, failed = STATE.run.recorder, True
        start = self.looked = len(recorder.rows)
        self.atomics.clear()
        sender, ended, waits = None, False, ()
        try:
            if agent in self.transfers:
                transfer, sender = self.transfers.pop(agent), agent[:2]
                launch.in_flight.remove(transfer)
                transfer.land()
            else:
                ended = self._go_on(launch, agent)
                warp = self.warps.get(agent)
                if warp is not None and not self._can_go(agent, warp):
                    waits = (warp.waiting.what, warp.waiting.line)
            failed = False
        finally:
            rows = recorder.rows[start:]
            effects = effects_of(recorder, rows, launch, self.atomics, self.places)
            if self.notes_memory:
                effects |= accesses_of(recorder, rows)
            told = told_of(recorder, rows)
            self.steps.append(Step(agent, self.launches, effects, told, ready, sender, ended or failed, waits))
        for transfer in launch.in_flight[len(self.transfers) :]:
            self.transfers[(*agent, self.sent[agent])] = transfer
            self.sent[agent] += 1
        stored = any(row[OP] == Op.STORE for row in rows)
        changed = {thing for thing, effect in effects if changes(effect)}
        for other, asked in self.asked.items():
            if other != agent and (stored or asked & changed):
                self.news[other] = True
        if agent in self.asked:
            self.asked[agent] |= {thing for thing, _ in effects}

    def _go_on(self, launch, agent) -> bool:
        """Run a warp until it yields; whether it has ended."""
        run, warp, loops = STATE.run, self.warps[agent], STATE.loops
        if warp.waiting is not None and warp.waiting.spins:
            self.asked[agent], self.news[agent] = set(), False
        STATE.group, STATE.loops = warp.group, warp.loops
        before, run.writes = run.writes, self.written[agent]
        try:
            warp.waiting = next(warp.steps)
            warp.loops = STATE.loops
            return False
        except StopIteration:
            del self.warps[agent]
            run.came_to_an_end()
            exit_warp(launch, warp)
            return True
        finally:
            self.written[agent], run.writes = run.writes, before
            STATE.loops = loops
