"""Every order in which a small kernel's warps may come, tried one after another: `simulate(..., orders="all")`.

| module   | what                                                                      |
|----------|---------------------------------------------------------------------------|
| `steps`  | what a step does that others can see, and which steps commute             |
| `order`    | one run whose every step is chosen                                        |
| `search` | which orders are left to try                                              |
| `story`  | a failing order, shrunk to the decisions that matter and told             |
| `choices` | all states of a small kernel, for a reader who chooses who goes next     |

| verdict               | what it says                                                                     |
|-----------------------|----------------------------------------------------------------------------------|
| `clean`               | every order was tried, and none has a finding                                    |
| `clean within bounds` | as many as the bounds allow, and none has a finding                              |
| `wrong`               | in one order there is a race, a deadlock, a wrong access, or a wrong result      |

(`not simulated` is raised.) Lanes of a warp run in lockstep. Where no order fails that way, and several lanes make an atomic on a
word that other warps look at or change, each lane's is then a step of its own; if it cannot
be, the verdict is `clean within bounds`.
Every order is sequentially consistent: what relaxed operations at several words may do beyond that on a GPU is not tried, and the
verdict says so. A sum by atomics whose old value nobody reads counts as the same in any order, so its rounding is not tried.
Nothing is said of other inputs and shapes.
"""

from __future__ import annotations

import textwrap
import time
from dataclasses import dataclass, field, replace

import numpy as np

from cutesim.analysis.ordering import ACQUIRE, RELEASE
from cutesim.memory.arguments import as_array
from cutesim.run import Run
from cutesim.trace import Finding, Op

from .choices import explore
from .order import Order
from .search import Asleep, Search
from .steps import met_in_step
from .story import Following, decisions_of, shrunk, tell

__all__ = ["Bounds", "Order", "Orders", "explore"]


@dataclass(frozen=True)
class Bounds:
    """How long to search: `orders` runs, or `seconds`, whichever comes first."""

    orders: int = 1000
    seconds: float = 30.0


@dataclass(frozen=True)
class Orders(Run):
    """What trying every order gave. Trace, findings and printed text are those of the order that fails, or of the first."""

    tried: int = 0  # orders, of which no two differ only by steps that commute
    seconds: float = 0.0
    whole: bool = False  # no order is left
    decisions: tuple = ()  # story.Decision: what makes the order fail; none where the usual order does
    story: tuple = field(default=(), repr=False)  # story.Sentence, of the failing order
    apart: frozenset = frozenset()  # of the failing order, see order.Order

    @property
    def verdict(self) -> str:
        if self.findings:
            return "wrong"
        return "clean" if self.whole else "clean within bounds"

    @property
    def relaxed(self) -> bool:
        """Whether relaxed atomics, loads or stores meet at several words: a GPU may let them be seen in another order than any."""
        atomics = self.trace.select(Op.ATOMIC)
        words = np.unique(self.trace.addresses[atomics["addresses"]])
        return bool((atomics["arg"] & (ACQUIRE | RELEASE) == 0).any() and (words >= 0).sum() > 1)

    def __str__(self) -> str:
        tried = f"{self.tried:,} order{'s' * (self.tried != 1)} tried in {self.seconds:.1f} s"
        seen = [textwrap.fill(text, 84, break_long_words=False) for text in self.observations]
        if not self.findings:
            every = f"every {'sequentially consistent ' * self.relaxed}order was tried"
            every = every if self.whole else "more orders are left"
            return "\n".join([f"{self.verdict}: {tried}; {every}, and none has a finding.", *seen])
        found = [textwrap.fill(str(finding), 84, break_long_words=False) for finding in self.findings]
        return "\n".join([f"{self.verdict}: found in {tried}.", *self.told(), *found, *seen])

    def told(self) -> list[str]:
        """The failing order as numbered lines."""
        usual = "The usual order shows it, warp after warp:"
        lines = ["This order shows it:" if self.decisions else usual]
        for i, sentence in enumerate(self.story, 1):
            lines.append(textwrap.fill(f"{i}. {sentence.text}", 84, subsequent_indent="   "))
            if sentence.line is not None:
                lines.append(f"   {sentence.line.where}:  {sentence.line.text}")
        return lines

    __repr__ = __str__

    def as_dict(self) -> dict:
        """For JSON."""
        story = []
        for said in self.story:
            where, text = (said.line.where, said.line.text) if said.line else ("", "")
            story.append({"says": said.text, "where": where, "line": text})
        return {
            "verdict": self.verdict,
            "orders": self.tried,
            "seconds": round(self.seconds, 3),
            "every_order": self.whole,
            "findings": [finding.as_dict() for finding in self.findings],
            "decisions": [{"agent": list(d.agent), "steps": d.count} for d in self.decisions],
            "story": story,
            "observations": list(self.observations),
        }


def try_orders(once, tensors: dict, bounds="all", right=None) -> Orders:
    """Run for each order: `once(order=Order(...))` gives a Run, `tensors` are what it reads and writes, by name. Where none has a
    finding, `once()` says what does not depend on the order: unwritten memory that reaches a result."""
    bounds = Bounds() if bounds == "all" else bounds
    if not isinstance(bounds, Bounds):
        raise ValueError(f'orders={bounds!r}: write orders="all", or orders=Bounds(orders=..., seconds=...)')
    arrays = [as_array(x)[0] for x in tensors.values()]
    before = [array.copy() for array in arrays]

    def reset() -> None:
        for array, old in zip(arrays, before):
            array[...] = old

    def run_in(choose) -> tuple:
        reset()
        order = Order(choose, apart=apart)
        try:
            run = once(order=order)
        except Asleep:
            return order, None
        return order, run if run.findings else replace(run, findings=_wrong_result(right))

    search, start, tried = Search(), time.perf_counter(), 0
    results, differing, left = None, "", True
    # atomics whose lanes are steps of their own; those that several lanes have made in one step
    apart, met = set(), set()
    while left:
        order, run = run_in(search.choose)
        if run is not None:
            tried += 1
            if run.findings:
                break
            results = results or [array.copy() for array in arrays]
            differing = differing or _differing(results, arrays, tensors)
            met |= met_in_step(order.steps, run.trace)
        left = search.explored(order.steps)
        if not left and not met <= apart:
            apart, met, search, left = apart | met, set(), Search(), True
        if tried >= bounds.orders or time.perf_counter() - start > bounds.seconds:
            break
    seconds = time.perf_counter() - start
    if not run or not run.findings:
        reset()
        run = once()
        run = replace(run, observations=(differing,) if differing else run.observations)
        return _orders(run, tried=tried, seconds=seconds, whole=not left and not met)
    kind, where = _sign(run)

    def fails(decisions) -> bool:
        found = run_in(Following(decisions))[1]
        return bool(found.findings) and _sign(found) == (kind, where)

    decisions = shrunk(decisions_of([step.agent for step in order.steps]), fails)
    order, run = run_in(Following(decisions))
    story = tell(order.steps, order.blocks, run.findings[0].kind in ("deadlock", "divergent barrier"))
    facts = {"decisions": tuple(decisions), "story": story, "apart": frozenset(apart)}
    return _orders(run, tried=tried, seconds=seconds, **facts)


def _orders(run: Run, **facts) -> Orders:
    return Orders(run.trace, run.findings, run.printed, run.smem_bytes, run.observations, **facts)


def _sign(run) -> tuple:
    """By what two failures are the same."""
    first = run.findings[0]
    return first.kind, tuple((line.file, line.number) for line in first.lines[:1])


def _wrong_result(right) -> tuple:
    if right is None:
        return ()
    try:
        said = right()
        why = "" if said is None or said is True or bool(said) else "the check of the results says no"
    except AssertionError as error:
        why = str(error) or "the check of the results fails"
    return (Finding("wrong result", f"Wrong result: {why}.", ()),) if why else ()


def _differing(results, arrays, tensors) -> str:
    """What is said of a result that is not the same in two orders."""
    for name, one, other in zip(tensors, results, arrays):
        same = (one == other) | ((one != one) & (other != other))
        if not np.all(same):
            at = tuple(int(k[0]) for k in np.nonzero(~same))
            place = f"{name}[{', '.join(map(str, at))}]"
            return (
                f"{place} depends on the order: it is {one[at]} in one and {other[at]} in another. Whether both are right is not "
                "judged here; simulate(..., right=...) does."
            )
    return ""
