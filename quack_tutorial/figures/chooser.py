"""`who_runs_next`: the reader chooses which warp goes on, and tries to make a kernel hang or go wrong.

What can be chosen and what then happens is computed before (`orders.explore`), so the figure needs no kernel. Without scripts it is
the solution: an order that fails, as a list in a fold, or the sentence that no order does.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from .player import framed
from .theme import asset

TASK = (
    "Each button lets one warp go on, up to the next thing that others can notice. So do the keys 1, 2, ... while a button has the "
    "focus, and Backspace goes back."
)
ASKS = "This kernel fails in some orders and comes out right in others: find one of each."
ALWAYS = "This kernel fails in every order: see how."
CLEAN = "Whichever you choose, this kernel ends, and nothing is wrong."
CLEAN_SO_FAR = "None of the orders that were tried fails, and not all were tried."
ORIGIN = (
    "Simulated: each choice is a run of the kernel on the simulator, whose warps go on in lockstep. It tells no times."
)


@dataclass(frozen=True)
class Chooser:
    """The figure of `cutesim.orders.choices.Choices`."""

    title: str
    choices: object

    def data(self) -> dict:
        """What the page's script gets."""
        c = self.choices
        states = [
            {
                "next": [list(n) for n in state.next],
                **({"waits": [list(w) for w in state.waits]} if state.waits else {}),
                **({"ended": state.ended} if state.ended is not None else {}),
                **({} if state.is_whole else {"cut": 1}),
            }
            for state in c.states
        ]
        return {
            "agents": list(c.agents),
            "turns": [list(turn) for turn in c.turns],
            "states": states,
            "begins": c.begins,
            "before": list(c.before),
            "solution": list(c.solution),
        }

    def _repr_html_(self) -> str:
        data = self.data()
        c = self.choices
        if c.solution:
            said = ASKS if any(state.ended == "" for state in c.states) else ALWAYS
        else:
            said = CLEAN if all(state.is_whole for state in c.states) else CLEAN_SO_FAR
        agents = "".join(
            f'<li><button type="button" data-agent="{i}">{escape(name)}</button> <span></span></li>'
            for i, name in enumerate(c.agents)
        )
        buttons = "".join(
            f'<button type="button" data-do="{name}">{words}</button>'
            for name, words in (("back", "Back"), ("anew", "Start over"), ("rest", "Let the rest run"))
        )
        parts = (
            f'<div class="qt-title">{escape(self.title)}</div>'
            f'<div class="qt-caption"><p>{escape(said)}</p></div><p class="qt-controls" hidden="hidden">{TASK}</p>'
            f'<ul class="qt-agents qt-controls" aria-label="Who runs next" hidden="hidden">{agents}</ul>'
            f'<div class="qt-controls" hidden="hidden">{buttons}</div>'
            '<ol class="qt-turns" aria-label="What has happened"></ol>'
            '<p class="qt-end" role="status"></p>'
            f"{self._solution()}"
            f'<div class="qt-origin">{escape(ORIGIN)}</div>'
        )
        return framed(self.title, str(data), parts, "chooser.js", data, " qt-chooser", asset("chooser.css"))

    def _solution(self) -> str:
        """An order that fails, folded."""
        c = self.choices
        if not c.solution:
            return ""
        at, turns = c.begins, list(c.before)
        for agent in c.solution:
            _, at, turn = next(n for n in c.states[at].next if n[0] == agent)
            turns.append(turn)
        rows = "".join(f"<li>{turn_html(*c.turns[turn][1:])}</li>" for turn in turns)
        return (
            f'<details class="qt-solution"><summary>An order that fails</summary><ol class="qt-turns">{rows}</ol>'
            f'<p class="qt-end qt-wrong">{escape(c.failing)}</p></details>'
        )


def turn_html(sentence: str, where: str, code: str) -> str:
    """A turn in words, with the line of source that it ran."""
    source = f"<code><b>{escape(where)}</b>{escape(code)}</code>" if where else ""
    return escape(sentence) + source


def who_runs_next(choices, title="You choose who runs next") -> Chooser:
    """The reader chooses which warp of a kernel runs next; `choices` is what `orders.explore` gives."""
    return Chooser(title, choices)
