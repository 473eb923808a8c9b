"""Recorded PTX and SASS of a kernel, for pages that are built where neither compiler is; `scripts/record_listing.py` makes them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from quack_tutorial.records import FOLDER


@dataclass(frozen=True)
class Listing:
    """The PTX and the SASS of one kernel, line by line, and what made them.

    `sources` are (function, line) of the source; `ptx_from` and `sass_from` have for each line its place there, or -1.
    """

    kernel: str
    dtype: str
    N: int
    versions: dict
    date: str
    registers: int  # a thread
    sources: tuple[tuple[str, str], ...]
    ptx: tuple[str, ...]
    sass: tuple[str, ...]
    ptx_from: tuple[int, ...]
    sass_from: tuple[int, ...]

    def excerpt(self, kind: str, first: str, last: str) -> str:
        """The lines of "ptx" or "sass" from the one that holds `first` to the next that holds `last`; ValueError without."""
        lines = getattr(self, kind)
        start = next((i for i, line in enumerate(lines) if first in line), None)
        end = next((i for i, line in enumerate(lines) if start is not None and i >= start and last in line), None)
        if end is None:
            raise ValueError(f"the {kind} of {self.kernel} has no line with {first!r} and then one with {last!r}")
        return "\n".join(lines[start : end + 1])

    @property
    def origin(self) -> str:
        """Where the lines are from, as a caption says it."""
        tools = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{self.kernel}, {self.dtype}, N = {self.N}, for sm_90a: {tools}, {self.date}."


def load(name: str) -> Listing:
    """The record `name` in `listings/`."""
    kept = json.loads((FOLDER / "listings" / f"{name}.json").read_text(encoding="utf-8"))
    del kept["command"]
    kept["sources"] = tuple(map(tuple, kept["sources"]))
    for kind in ("ptx", "sass"):
        places, lines = zip(*kept[kind])
        kept |= {kind: lines, f"{kind}_from": places}
    return Listing(**kept)
