"""One line for a simulation that takes long: how much of the launch is done, rewritten in place, in a terminal on stderr.

Shown after `PATIENCE` seconds, in a terminal and in a notebook; nowhere if QUACK_TUTORIAL_PROGRESS=0 is set, which a build
of the book wants, or if stderr is a file.
"""

from __future__ import annotations

import os
import sys
import time

PATIENCE = 2.0  # seconds without a word
EVERY = 0.2  # seconds between two updates


def is_wanted() -> bool:
    """Whether someone watches stderr."""
    if os.environ.get("QUACK_TUTORIAL_PROGRESS") == "0" or sys.stderr is None:
        return False
    return getattr(sys.stderr, "isatty", lambda: False)() or in_notebook()


def in_notebook() -> bool:
    return type(sys.stderr).__module__.partition(".")[0] == "ipykernel"


class Progress:
    """The line of one simulate() call."""

    def __init__(self):
        self.due = time.monotonic() + PATIENCE
        self.width = 0  # of the line that stands there
        self.output = None  # a notebook's that it stands in

    def update(self, name: str, done: float, blocks: int) -> None:
        """`done` of the launch's `blocks` have been simulated."""
        self.say(f"simulating {name}: {int(100 * done / blocks)} % of {blocks:,} block{'s' * (blocks != 1)}")

    def say(self, text: str) -> None:
        """Called often, writes seldom."""
        now = time.monotonic()
        if now < self.due:
            return
        if not is_wanted():
            self.due = float("inf")
            return
        self.due = now + EVERY
        self._write(text)
        self.width = len(text)

    def close(self) -> None:
        """Take the line away."""
        if self.width:
            self._write("")
            self.width = 0

    def _write(self, text: str) -> None:
        if not in_notebook():
            sys.stderr.write("\r" + text.ljust(self.width) + "\r" * (not text))
            sys.stderr.flush()
        elif self.output:
            self.output.update({"text/plain": text}, raw=True)
        else:  # an output that can be emptied: of what stderr has got a red bar would remain
            from IPython.display import display

            self.output = display({"text/plain": text}, raw=True, display_id=True)
