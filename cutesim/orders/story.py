"""A failing order shrunk to the decisions that matter, and told: a sentence a decision, with its Python line.

A decision is that one warp (or transfer) goes on for so many steps although another was next. Without decisions the usual order
runs: a warp goes on until it waits, then the first that can. Shrinking takes decisions away, then steps of those that are left, as
long as the run still fails in the same way (Zeller, Hildebrandt: Simplifying and isolating failure-inducing input, 2002).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from cutesim.trace import Line

from .search import usual
from .steps import name_of

MOST_TOLD = 4  # operations in a sentence


@dataclass(frozen=True)
class Decision:
    """`agent` goes, for `count` steps."""

    agent: tuple
    count: int


@dataclass(frozen=True)
class Sentence:
    """What happens after a decision, and the line that it is about."""

    text: str
    line: Line | None
    agent: tuple
    steps: int

    def __str__(self) -> str:
        return self.text + (f"  [{self.line.where}: {self.line.text}]" if self.line else "")


class Following:
    """`choose` for a run that takes these decisions, and then goes on as usual. A decision that cannot be taken is passed over."""

    def __init__(self, decisions):
        self.left = [[d.agent, d.count] for d in decisions]

    def __call__(self, ready: list, steps: list) -> tuple:
        while self.left:
            agent, count = self.left[0]
            if count and agent in ready:
                self.left[0][1] -= 1
                return agent
            self.left.pop(0)
        return usual(ready, steps)


def decisions_of(agents) -> list[Decision]:
    """An order as decisions: each agent's steps in a row are one."""
    return [Decision(agent, len([*steps])) for agent, steps in groupby(agents)]


def shrunk(decisions: list, fails, most_runs: int = 200) -> list:
    """The fewest of these decisions with which `fails` still holds, each with the fewest steps."""
    left = [most_runs]

    def holds(candidate) -> bool:
        left[0] -= 1
        return left[0] >= 0 and fails(candidate)

    if holds([]):
        return []
    parts = 2
    while len(decisions) >= 2:
        size = -(-len(decisions) // parts)
        for start in range(0, len(decisions), size):
            candidate = decisions[:start] + decisions[start + size :]
            if holds(candidate):
                decisions, parts = candidate, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(len(decisions), parts * 2)
    for i, decision in enumerate(decisions):
        for count in range(1, decision.count):
            fewer = [*decisions[:i], Decision(decision.agent, count), *decisions[i + 1 :]]
            if holds(fewer):
                decisions = fewer
                break
    return decisions


def tell(steps: list, blocks: int, for_ever: bool) -> tuple:
    """A sentence for each warp's or transfer's turn in a run that fails; `for_ever` says that those who are left wait."""
    turns = (turn_of([*turn], blocks, for_ever) for _, turn in groupby(steps, lambda step: step.agent))
    sentences = [sentence for sentence in turns if sentence is not None]
    if for_ever:
        stuck = {step.agent: step for step in steps if len(step.agent) == 2}
        left = [name_of(agent, blocks) for agent, step in sorted(stuck.items()) if step.waits]
        who = _joined(left) if left else "those who wait"
        sentences.append(Sentence(f"Nobody is left to let {who} go on.", None, (), 0))
    return tuple(sentences)


def turn_of(steps: list, blocks: int, for_ever: bool) -> Sentence | None:
    """What one agent does in these steps, None where there is nothing to tell."""
    told = list(dict.fromkeys(entry for step in steps for entry in step.told))
    waits = steps[-1].waits
    if not told and not waits:
        return None
    said = list(dict.fromkeys(words for words, _ in told))
    if for_ever and len(said) > MOST_TOLD:  # what was read and written keeps nobody waiting
        said = [words for words in said if not words.startswith(("reads", "writes"))]
    said = said[-MOST_TOLD:]
    if waits:
        said.append(f"waits at {waits[1].where}")
    name = name_of(steps[0].agent, blocks)
    line = waits[1] if waits else told[-1][1]
    return Sentence(f"{name[0].upper()}{name[1:]} {_joined(said)}.", line, steps[0].agent, len(steps))


def _joined(parts: list) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
