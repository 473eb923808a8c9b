"""The recorded times of cross-entropy over a vocabulary in parts: what `quack-tutorial parallel` wrote, read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from quack_tutorial.records import FOLDER


@dataclass(frozen=True)
class Cell:
    """One type and vocabulary on `ranks` GPUs: microseconds a call of each way, bytes a rank received, errors.

    `us` has the medians; `asked_bytes` is what was asked of NCCL, `nvlink_bytes` what NVLink's counters saw, None where they
    could not be read. Of the errors, "loss" and "gradient" are fractions of the tolerance, the others differences.
    """

    dtype: str
    M: int
    N: int
    ranks: int
    us: dict[str, float]
    asked_bytes: dict[str, int]
    nvlink_bytes: dict[str, float | None]
    errors: dict[str, float]

    @property
    def exchange_share(self) -> float:
        """What the exchange of pairs adds to the kernel, as a share of the whole loss."""
        return 1 - self.us["kernel"] / self.us["pairs loss"]


@dataclass(frozen=True)
class Parallel:
    """What was measured on one machine."""

    device: str
    ranks: int
    date: str
    driver: str
    versions: dict
    nccl: str
    cells: tuple[Cell, ...]

    def cell(self, dtype: str, N: int) -> Cell:
        """The cell of a type and vocabulary; KeyError where there is none."""
        for cell in self.cells:
            if (cell.dtype, cell.N) == (dtype, N):
                return cell
        raise KeyError(f"{dtype} {N} is not recorded; there are {', '.join(f'{c.dtype} {c.N}' for c in self.cells)}")

    @property
    def origin(self) -> str:
        """Where the numbers are from, as a caption says it."""
        versions = f"torch {self.versions['torch']}, CuTe DSL {self.versions['nvidia-cutlass-dsl']}, NCCL {self.nccl}"
        return (
            f"Measured on {self.ranks} {self.device}s of one host, driver {self.driver}, {versions}, {self.date} UTC."
        )


def load(path=None) -> list[Parallel]:
    """The records in folder `path`, by default those that come with the package, fewest GPUs first."""
    found = []
    for file in sorted(Path(path or FOLDER / "parallel").glob("*.json")):
        kept = json.loads(file.read_text(encoding="utf-8"))
        cells = tuple(_cell(cell) for cell in kept["cells"])
        fields = ("device", "ranks", "date", "driver", "versions", "nccl")
        found.append(Parallel(*(kept[field] for field in fields), cells))
    return sorted(found, key=lambda record: record.ranks)


def _cell(kept) -> Cell:
    us = {name: median(samples) for name, samples in kept["samples_us"].items()}
    return Cell(**{key: value for key, value in kept.items() if key != "samples_us"}, us=us)
