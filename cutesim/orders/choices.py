"""What a reader can choose: a small kernel's states, who can go in each, what they then do, and how it ends.

A choice is a warp that goes on for one step that others can notice, with the steps around it that nobody can (that it passes a
barrier, that it ends), or a transfer that lands. Places that are reached by orders of the same choices that commute are one state:
here ordinary reads and writes count too, so that what a race leaves is shown as it comes out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from cutesim.memory.arguments import as_array, is_tensor
from cutesim.run import OPTIONS, run_once

from .order import Order
from .search import Asleep, Past
from .steps import IDLE, name_of
from .story import Following, decisions_of, turn_of

MOST_STATES, MOST_SECONDS = 400, 20.0
UNNOTICED = IDLE | {"exit"}


@dataclass(frozen=True)
class State:
    """Where the warps stand. `next` are (agent, the state that follows, the turn's number in `Choices.turns`), `waits` are (agent,
    line) of those that wait, and `ended` is how the kernel has ended here: a finding, "" where it is right, None before its end."""

    next: tuple = ()
    waits: tuple = ()
    ended: str | None = None
    is_whole: bool = True  # whether `next` has all who can go


@dataclass(frozen=True)
class Choices:
    """All that can be chosen in a kernel. `begins` is the first state in which a choice matters, `before` the turns that lead
    there, `solution` the agents to choose from there so that it fails, () where no order that is known fails."""

    agents: tuple  # names
    turns: tuple  # of (agent, sentence, where, line of code)
    states: tuple
    begins: int
    before: tuple
    solution: tuple

    @property
    def failing(self) -> str:
        """How the solution ends."""
        at = self.begins
        for agent in self.solution:
            at = next(state for who, state, _ in self.states[at].next if who == agent)
        return self.states[at].ended or ""


@dataclass
class _Found:
    """A state while it is being explored."""

    next: dict
    ready: tuple = ()
    waits: tuple = ()
    ended: str | None = None


def explore(function, *args, most: int = MOST_STATES, seconds: float = MOST_SECONDS, right=None, **kwargs) -> Choices:
    """Run a @cute.jit host function in order after order until all its states are known, or `most`, or for so many `seconds`.

    `args` and `kwargs` are as for `simulate`, without orders; the tensors are left as they are. With `right`, a function without
    arguments that says at the end of each order whether the results are right, an order is judged as on a GPU: it ends or hangs,
    and its results are right or not. A race is then told only by what it does to them.
    """
    arrays = [as_array(x)[0] for x in (*args, *kwargs.values()) if is_tensor(x)]
    before = [array.copy() for array in arrays]
    options = {name: kwargs.pop(name) for name in OPTIONS & kwargs.keys()}

    def run_in(choose):
        for array, old in zip(arrays, before):
            array[...] = old
        order = Order(choose, notes_memory=True)
        try:
            run = run_once(function, args, kwargs, order=order, **options)
        except Asleep:
            return order, None
        found = str(run.findings[0]) if run.findings else ""
        if right is None or order.warps:
            return order, found
        return order, "" if right() else "All have ended, and the result is wrong."

    try:
        return _explored(run_in, most, time.monotonic() + seconds)
    finally:
        for array, old in zip(arrays, before):
            array[...] = old


def _explored(run_in, most: int, until: float) -> Choices:
    states, agents, known, todo, blocks = {}, {}, {}, [()], 1
    while todo and (not states or len(states) < most and time.monotonic() < until):
        prefix = todo.pop()
        order, ended = run_in(_UntilKnown(prefix, states, known))
        blocks = max(blocks, order.blocks)
        steps = order.steps
        bounds = _turns(steps)[: None if ended is not None else -1]
        keys = _keys(steps, bounds, known)
        for first, last, key, after in zip(bounds, bounds[1:], keys, keys[1:]):
            state = states.get(key)
            if state is None:
                state = states[key] = _Found({}, steps[first].ready, _waiting(steps[:first]))
                path = tuple(step.agent for step in steps[:first])
                others = (other for other in reversed(steps[first].ready) if other != steps[first].agent)
                todo += [(*path, other) for other in others]
            agents.setdefault(steps[first].agent, len(agents))
            state.next[steps[first].agent] = after, steps[first:last]
        if ended is not None:
            final = states.setdefault(keys[-1], _Found({}))
            final.ended, final.waits = ended, _waiting(steps)
    return _numbered(states, agents, blocks)


class _UntilKnown(Following):
    """Follows these agents, then goes on as usual, until it comes to a state that is known."""

    def __init__(self, prefix: tuple, states: dict, known: dict):
        super().__init__(decisions_of(prefix))
        self.prefix, self.states, self.known, self.looked = len(prefix), states, known, 0

    def __call__(self, ready: list, steps: list) -> tuple:
        bounds = _turns(steps)[:-1] if len(steps) > self.prefix else [0]
        if bounds[-1] >= max(self.prefix, self.looked + 1):
            self.looked = bounds[-1]
            if _keys(steps, bounds, self.known)[-1] in self.states:
                raise Asleep
        return super().__call__(ready, steps)


def _is_noticed(step) -> bool:
    return any(effect[0] not in UNNOTICED for _, effect in step.effects)


def _turns(steps: list) -> list:
    """Where turns begin: an agent's steps in a row, of which one may be noticed."""
    bounds, noticed = [0], False
    for i, step in enumerate(steps):
        if i and (step.agent != steps[i - 1].agent or (noticed and _is_noticed(step))):
            bounds.append(i)
            noticed = False
        noticed = noticed or _is_noticed(step)
    return [*bounds, len(steps)]


def _keys(steps: list, bounds: list, known: dict) -> list:
    """For each place between turns what tells its state from others: which steps were made, and how many of each agent's came
    before each. `known` numbers what each agent has done so far."""
    past, masks, chains, found = Past(steps).of, {}, {}, []
    for i, step in enumerate(steps[: bounds[-1]]):
        if i in bounds:
            found.append(tuple(sorted(chains.items())))
        masks[step.agent] = masks.get(step.agent, 0) | 1 << i
        counts = ((agent, (past[i] & mask).bit_count()) for agent, mask in masks.items())
        clock = tuple(sorted((agent, count) for agent, count in counts if count))
        chains[step.agent] = known.setdefault((chains.get(step.agent), clock), len(known))
    return [*found, tuple(sorted(chains.items()))]


def _waiting(steps: list) -> tuple:
    last = {step.agent: step for step in steps}
    return tuple((agent, step.waits[1]) for agent, step in last.items() if step.waits)


def _numbered(states, agents, blocks) -> Choices:
    numbers = {key: i for i, key in enumerate(states)}
    texts: dict = {}
    made = []
    for found in states.values():
        following = []
        for agent, (after, steps) in found.next.items():
            said = turn_of(steps, blocks, False)
            line = said.line if said else None
            shown = (line.where, line.text) if line else ("", "")
            text = (agents[agent], said.text if said else "", *shown)
            if after in numbers:
                following.append((agents[agent], numbers[after], texts.setdefault(text, len(texts))))
        ready = set(found.ready)
        can = {agents[agent] for agent in ready if agent in agents}
        following.sort()
        stuck = ((agents[a], line.where) for a, line in found.waits if a in agents)
        waits = tuple((agent, where) for agent, where in stuck if agent not in can)
        made.append(State(tuple(following), waits, found.ended, len(following) == len(ready)))
    outcomes = _outcomes(made)
    at, before = 0, []
    while len(made[at].next) and all(outcomes[to] == outcomes[at] for _, to, _ in made[at].next):
        if len(outcomes[at]) == 1:
            at, before = 0, []
            break
        _, to, turn = made[at].next[0]
        before.append(turn)
        at = to
    names = tuple(name_of(agent, blocks) for agent in agents)
    return Choices(names, tuple(texts), tuple(made), at, tuple(before), _solution(made, at))


def _outcomes(states: list) -> list:
    """For each state how the kernel may end from there."""
    found = [frozenset() if state.ended is None else frozenset([state.ended]) for state in states]
    changed = True
    while changed:
        changed = False
        for i, state in enumerate(states):
            both = found[i].union(*(found[to] for _, to, _ in state.next))
            changed = changed or both != found[i]
            found[i] = both
    return found


def _solution(states: list, begins: int) -> tuple:
    """The choices from `begins` to the nearest end that is wrong, with the fewest changes from one agent to another."""
    best, todo = {(begins, -1): (0, ())}, [(0, begins, -1, ())]
    while todo:
        todo.sort(key=lambda entry: (entry[0], len(entry[3])))
        changes, at, last, path = todo.pop(0)
        if states[at].ended:
            return path
        for agent, to, _ in states[at].next:
            cost = changes + (agent != last)
            if best.get((to, agent), (cost + 1,))[0] > cost:
                best[to, agent] = (cost, ())
                todo.append((cost, to, agent, (*path, agent)))
    return ()
