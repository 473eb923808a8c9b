"""Recorded PTX and SASS of a kernel, for pages that are built where neither compiler is; `scripts/record_listing.py` makes them."""

from __future__ import annotations

from dataclasses import dataclass

from quack_tutorial.machine_code import INSTRUCTION, Code, moved_bytes
from quack_tutorial.records import FOLDER, read
from quack_tutorial.records.lines import Launch, compiled


def _tools(kept: dict) -> str:
    """What made a record, and when."""
    return ", ".join([f"{name} {version}" for name, version in kept["versions"].items()] + [kept["date"]])


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

    def launch(self) -> Launch:
        """The lines of source with the PTX and the SASS of each."""
        found = {("", *source, 0): ([], [], []) for source in self.sources}
        places = list(found)
        for text, place in zip(self.ptx, self.ptx_from):
            if place >= 0:
                found[places[place]][0].append(text)
        for n, (text, place) in enumerate(zip(self.sass, self.sass_from)):
            if place >= 0:
                found[places[place]][1].append((n, text))
        return compiled(self.kernel, self.registers, found)

    @property
    def origin(self) -> str:
        """Where the lines are from, as a caption says it."""
        return f"{self.kernel}, {self.dtype}, N = {self.N}, for sm_90a: {_tools(vars(self))}."


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
        found = [INSTRUCTION.match(line)[2] for _, line in self.memory]
        return sum(moved_bytes(name) // 4 for name in found if name.split(".")[0] == operation)

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
    return {made.N: made for made in found}, f"{kept['kernel']}, {kept['dtype']}, for sm_90a: {_tools(kept)}."


COUNTED = FOLDER / "listings" / "counted.json"


def counted() -> dict[str, Code]:
    """The machine code of those of chapter 1's kernels that it counts in, by their names in `bench.memory`."""
    found = read(COUNTED, "kernels")["kernels"]
    return {kept["name"]: Code(kept["registers"], sass=tuple(kept["sass"])) for kept in found}


def steered() -> tuple[dict[int, Code], str]:
    """What a kernel takes if it is compiled so that at least 1, 2 or more of its blocks fit on an SM, and where that is from."""
    kept = read(COUNTED, "steered")
    found = {made.pop("least_blocks"): Code(**made) for made in kept["steered"]}
    return found, f"{kept['steered_kernel']['name']}, for sm_90a: {_tools(kept)}."


def load(name: str) -> Listing:
    """The record `name` in `listings/`."""
    kept = read(FOLDER / "listings" / f"{name}.json", "ptx")
    del kept["command"]
    kept["sources"] = tuple(map(tuple, kept["sources"]))
    for kind in ("ptx", "sass"):
        places, lines = zip(*kept[kind])
        kept |= {kind: lines, f"{kind}_from": places}
    return Listing(**kept)
