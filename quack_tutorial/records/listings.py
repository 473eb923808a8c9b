"""Recorded PTX and SASS of a kernel, for pages that are built where neither compiler is; `scripts/record_listing.py` makes them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from quack_tutorial.records import FOLDER, read

WIDTH = re.compile(r"\.(64|128)\b")


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


@dataclass(frozen=True)
class Traffic:
    """The instructions of a compiled kernel that touch memory or wait at a barrier, as (place among all, text)."""

    N: int
    threads: int
    registers: int  # a thread
    stack_bytes: int  # a thread
    instructions: int
    memory: tuple[tuple[int, str], ...]

    def words(self, operation: str) -> int:
        """How many 4-byte words a thread moves by an operation, "STL" or another."""
        found = [line for _, line in self.memory if f"{operation} " in line or f"{operation}." in line]
        return sum(int(width[1]) // 32 if (width := WIDTH.search(line)) else 1 for line in found)

    def strip(self, marks: dict[str, str], width: int = 72) -> str:
        """The code from its first instruction to its last in `width` characters: of each stretch, the first of `marks` in it."""
        parts = [[] for _ in range(width)]
        for place, line in self.memory:
            parts[place * width // self.instructions].append(line)
        return "".join(
            next((mark for name, mark in marks.items() if any(name in line for line in part)), ".") for part in parts
        )


def liger_softmax() -> tuple[dict[int, Traffic], str]:
    """What Triton makes of Liger's softmax, by the length of a row, and where it is from; CONTRIBUTING.md says what made it."""
    kept = read(FOLDER / "listings" / "liger-softmax.json", "cells")
    found = [Traffic(**cell | {"memory": tuple(map(tuple, cell["memory"]))}) for cell in kept["cells"]]
    tools = ", ".join(f"{name} {version}" for name, version in kept["versions"].items())
    return {made.N: made for made in found}, f"{kept['kernel']}, {kept['dtype']}, for sm_90a: {tools}, {kept['date']}."


def load(name: str) -> Listing:
    """The record `name` in `listings/`."""
    kept = read(FOLDER / "listings" / f"{name}.json", "ptx")
    del kept["command"]
    kept["sources"] = tuple(map(tuple, kept["sources"]))
    for kind in ("ptx", "sass"):
        places, lines = zip(*kept[kind])
        kept |= {kind: lines, f"{kind}_from": places}
    return Listing(**kept)
