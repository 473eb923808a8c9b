"""Break it: a kernel's source in which every line that can be broken opens to show what then happens.

Made of `details` elements alone, so that it works without scripts, by keyboard, and in a notebook that is not trusted.
"""

from __future__ import annotations

from html import escape
from itertools import groupby

from .player import keeps_its_keys

STYLE = """
.qt-break { font-size: 0.85em; border: 1px solid color-mix(in srgb, currentColor 25%, transparent);
  border-radius: 4px; padding: 0.5em 0; margin: 1em 0; }
.qt-break p.qt-break-how { margin: 0 1em 0.5em; font-size: 1.1em; }
.qt-break code { background: none !important; padding: 0 !important; }
.qt-break.qt-break code { border: 0; color: inherit; font-size: 1em;
  display: block; padding-left: 4ch !important; text-indent: -4ch; white-space: pre-wrap; overflow-wrap: anywhere; }
.qt-break div.qt-break-line, .qt-break summary { padding: 0 1em 0 2.4em; line-height: 1.65; }
.qt-break details { background: none; border: 0; margin: 0; padding: 0; box-shadow: none; }
.qt-break summary { cursor: pointer; position: relative; list-style: none; font-weight: inherit; background: none; }
.qt-break summary::-webkit-details-marker { display: none; }
.qt-break summary::before { content: "\\2702"; position: absolute; left: 0.9em; opacity: 0.75; }
.qt-break summary:hover, .qt-break summary:focus-visible, .qt-break details[open] > summary {
  background: color-mix(in srgb, currentColor 10%, transparent); }
.qt-break dl { margin: 0.3em 1em 0.8em 2.4em; white-space: normal; max-width: 60em; }
.qt-break dt { font-weight: 600; margin-top: 0.5em; overflow-wrap: anywhere; }
.qt-break dd { margin: 0.1em 0 0 1em; white-space: pre-line; overflow-wrap: anywhere; }
"""


class Breakage:
    """The picture of `mutants.outcomes`; prints as text where there is no HTML."""

    def __init__(self, broken):
        self.broken = broken

    def __str__(self) -> str:
        lines = [f"{self.broken.name}: what each edit of it leads to"]
        for outcome in self.broken.outcomes:
            lines += [f"line {outcome.line}: {outcome.edit}", f"    {outcome.said}"]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        by_line = {at: list(group) for at, group in groupby(sorted(self.broken.outcomes, key=_line), key=_line)}
        rows = []
        for number, text in enumerate(self.broken.source, 1):
            code = f"<code>{escape(text) or ' '}</code>"
            if number not in by_line:
                rows.append(f'<div class="qt-break-line">{code}</div>')
                continue
            edits = "".join(
                f"<dt>{escape(_in_words(outcome.edit))}</dt><dd>{escape(outcome.said)}</dd>"
                for outcome in by_line[number]
            )
            rows.append(f"<details><summary>{code}</summary><dl>{edits}</dl></details>")
        found = sum(outcome.found for outcome in self.broken.outcomes)
        silent = sum(not outcome.found and outcome.wrong for outcome in self.broken.outcomes)
        harmless = len(self.broken.outcomes) - found - silent
        how = (
            f"Open a line with scissors to break it. Of {len(self.broken.outcomes)} edits the simulator reports {found}; "
            f"wrong numbers without breaking a rule: {silent}; no change here: {harmless}."
        )
        return keeps_its_keys(
            f'<style>{STYLE}</style><div class="qt-break" role="group" aria-label="Break {escape(self.broken.name)}">'
            f'<p class="qt-break-how">{how}</p>{"".join(rows)}</div>'
        )


def _line(outcome) -> int:
    return outcome.line


def _in_words(edit: str) -> str:
    return edit.replace("`", "")


def break_it(broken) -> Breakage:
    """The source of a kernel whose lines open to show what breaking them does; `broken` is from `mutants.outcomes`."""
    return Breakage(broken)
