"""The recorded times of chapter 14's kernels: what `quack-tutorial levels` wrote, read."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from quack_tutorial.records import read


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


@dataclass(frozen=True)
class Levels:
    """What was measured on one GPU."""

    device: str
    driver: str
    date: str
    versions: dict
    datasheet_gb_s: float | None
    cells: tuple[Cell, ...]

    @property
    def origin(self) -> str:
        """Where the numbers are from, as a caption says it."""
        versions = f"torch {self.versions['torch']}, CuTe DSL {self.versions['nvidia-cutlass-dsl']}"
        return f"Measured on {self.device}, driver {self.driver}, {versions}, {self.date} UTC."


def load(path=None) -> Levels | None:
    """The record in `path`, by default the card's that is meant (see `records.folder`); None where there is none yet."""
    kept = read("levels.json", path)
    if kept is None:
        return None
    cells = tuple(
        Cell(
            *(cell[key] for key in ("dtype", "M", "N", "bytes_moved")),
            {name: median(samples) for name, samples in cell["samples_us"].items()},
        )
        for cell in kept["cells"]
    )
    return Levels(*(kept[key] for key in ("device", "driver", "date", "versions", "datasheet_gb_s")), cells)
