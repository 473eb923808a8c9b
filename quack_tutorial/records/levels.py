"""The recorded times of chapter 16's kernels: as read; CONTRIBUTING.md says what made the record."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from quack_tutorial.records import Record


@dataclass(frozen=True)
class Cell:
    """One type and size: microseconds a launch of each kernel, and of torch's copy under "copy"."""

    dtype: str
    M: int
    N: int
    bytes_moved: int
    us: dict[str, float]

    def gb_s(self, name: str) -> float:
        """A kernel's bandwidth."""
        return self.bytes_moved / self.us[name] / 1e3

    def of_copy(self, name: str) -> float:
        """A kernel's share of the copy's speed."""
        return self.us["copy"] / self.us[name]


class Levels(Record):
    """What was measured on one GPU."""

    FILE, MADE_BY = "levels.json", ("torch", "nvidia-cutlass-dsl")

    @classmethod
    def row(cls, kept):
        us = {name: median(samples) for name, samples in kept["samples_us"].items()}
        return Cell(kept["dtype"], kept["M"], kept["N"], kept["bytes_moved"], us)


load = Levels.load
