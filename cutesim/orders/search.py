"""Every order of a kernel's visible steps, each once: stateless search with source sets and sleep sets.

Two orders that differ by swaps of steps that commute are one. The search runs the kernel from its start for each; after a run it
looks for pairs of steps that do not commute and that nothing between them orders, and notes at the earlier one that the later
one's warp (or what leads to it) is to be tried there first. A warp that was tried at a place sleeps in the other branches until
a step comes that does not commute with its own. (Abdulla, Aronis, Jonsson, Sagonas: Optimal dynamic partial order reduction,
POPL 2014, algorithm 1.)

What orders two steps: the program, a transfer's sending, an effect that does not commute, all arrivals of a phase or generation
and who waits for it, and launches, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .steps import Step, commute, still


class Asleep(BaseException):  # no error of the kernel's
    """All that can go sleep: this order is known already."""


def usual(ready: list, steps: list):
    """Who goes if nothing speaks for another: who went last, else the first warp; a transfer when nobody else can."""
    last = steps[-1].agent if steps else None
    return last if last in ready and len(last) == 2 else ready[0]


@dataclass
class _Node:
    """A place in the search: before a step."""

    ready: list
    chosen: tuple
    sleep: dict  # agent -> effects of its step
    todo: set = field(default_factory=set)  # the agents to be tried here
    done: dict = field(default_factory=dict)  # agent -> effects


class Search:
    """Gives `choose` for one run after another; `explored` is called after each, and says whether there is another."""

    def __init__(self):
        self.nodes: list[_Node] = []
        self.fixed = 0  # how many of the nodes the next run repeats

    def choose(self, ready: list, steps: list) -> tuple:
        at = len(steps)
        if at < self.fixed:
            return self.nodes[at].chosen
        sleep = {}
        if at:
            before, last = self.nodes[at - 1], steps[-1]
            known = {**before.sleep, **before.done}
            after = {agent: still(e, last.effects) for agent, e in known.items() if agent != last.agent}
            sleep = {agent: e for agent, e in after.items() if e is not None}
        awake = [agent for agent in ready if agent not in sleep]
        if not awake:
            raise Asleep
        chosen = usual(awake, steps)
        self.nodes.append(_Node(ready, chosen, sleep, {chosen}))
        return chosen

    def explored(self, steps: list[Step]) -> bool:
        """Take in a run's steps; whether another order is left."""
        self._note_reversals(steps)
        while self.nodes:
            node = self.nodes[-1]
            if len(self.nodes) <= len(steps):
                node.done[node.chosen] = steps[len(self.nodes) - 1].effects
            todo = node.todo - node.done.keys() - node.sleep.keys()
            left = [agent for agent in node.ready if agent in todo]
            if left:
                node.chosen = left[0]
                self.fixed = len(self.nodes)
                return True
            self.nodes.pop()
        return False

    def _note_reversals(self, steps: list) -> None:
        past = Past(steps)
        for at in range(max(0, self.fixed - 1), len(steps)):
            for earlier in past.reversible[at]:
                node = self.nodes[earlier]
                if not _could_go(self.nodes, steps, earlier, at):
                    continue
                between = [k for k in range(earlier + 1, at) if not past.of[k] >> earlier & 1] + [at]
                first, seen, agents = [], 0, set()
                for k in between:
                    if steps[k].agent not in agents and not past.of[k] & seen:
                        first.append(steps[k].agent)
                    agents.add(steps[k].agent)
                    seen |= 1 << k
                if node.todo & set(first):
                    continue
                possible = [agent for agent in first if agent in node.ready]
                possible = [steps[at].agent] * (steps[at].agent in possible) + possible
                node.todo |= set(possible[:1] or node.ready)


def _could_go(nodes: list, steps: list, earlier: int, later: int) -> bool:
    """Whether the later step's warp may come before the earlier one: not if that is what lets it go."""
    agent = steps[later].agent
    between = {step.agent for step in steps[earlier + 1 : later]}
    if agent in nodes[earlier].ready or agent in between:
        return True
    return earlier + 1 < len(nodes) and agent not in nodes[earlier + 1].ready


class Past:
    """What comes before what: `of[i]` has bit k where step k must come before step i, or is it; `reversible[i]` are the steps that
    could have come after i instead."""

    def __init__(self, steps: list[Step]):
        self.of: list[int] = []
        self.reversible: list[list] = []
        last: dict = {}  # agent -> its last step
        touched: dict = {}  # object -> [(step, effect)]
        phases: dict = {}  # (object, phase or generation) -> the past of all its arrivals
        launch, base = 1, 0
        for i, step in enumerate(steps):
            if step.launch != launch:
                launch, base = step.launch, (1 << i) - 1
            led_by = last.get(step.agent, last.get(step.sender))
            before = base if led_by is None else base | self.of[led_by]
            arrived = {(thing, effect[1]) for thing, effect in step.effects if effect[0] == "arrive"}
            awaited = needed = 0  # all arrivals of what it has waited for; and before it came
            for thing, effect in step.effects:
                if effect[0] in ("resume", "wait"):
                    own = (thing, effect[1]) in arrived  # and could have come sooner, and waited
                    for phase in _phases(thing, effect, phases):
                        awaited |= phases.get((thing, phase), 0)
                        needed |= 0 if own else phases.get((thing, phase), 0)
            if "test" not in {effect[0] for _, effect in step.effects}:
                before |= needed  # a test could have come sooner, and failed
            clashes = set()
            for thing, effect in step.effects:
                clashes |= {k for k, other in touched.get(thing, ()) if not commute(other, effect)}
            phase_past = 0
            for thing, effect in step.effects:
                if effect[0] == "arrive":
                    phase_past |= phases.get((thing, effect[1]), 0)
            reversible = []
            for k in sorted(clashes, reverse=True):
                if not before >> k & 1:
                    # A wait comes before the next phase's end if one of that phase's arrivals comes after the wait.
                    ends = phase_past >> k & 1 and _is_wait(steps[k], step)
                    if steps[k].agent != step.agent and not ends:
                        reversible.append(k)
                    before |= self.of[k]
            before |= awaited
            self.of.append(before | 1 << i)
            self.reversible.append(reversible)
            last[step.agent] = i
            for thing, effect in step.effects:
                touched.setdefault(thing, []).append((i, effect))
                if effect[0] == "arrive":
                    phases[thing, effect[1]] = phases.get((thing, effect[1]), 0) | self.of[i]


def _phases(thing, effect, phases) -> list:
    """The phases that a wait has seen complete; of a barrier the one generation."""
    if effect[0] == "resume":
        return [effect[1]]
    return [phase for other, phase in phases if other == thing and phase <= effect[1]]


def _is_wait(earlier: Step, later: Step) -> bool:
    """Whether the two clash only as a wait and the arrival that completes a later phase."""
    pairs = ((a, b) for x, a in earlier.effects for y, b in later.effects if x == y)
    return all((a[0], b[0]) == ("wait", "arrive") for a, b in pairs if not commute(a, b))
