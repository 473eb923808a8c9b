"""The recorded times of cross-entropy over a vocabulary in parts, as read; each record names the program that made it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from quack_tutorial.records import FOLDER, WHOLE, Record, folder, made_by, one


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
    def exchange_us(self) -> float:
        """What the exchange of pairs adds to the kernel, microseconds."""
        return self.us["pairs loss"] - self.us["kernel"]

    @property
    def exchange_share(self) -> float:
        """The same as a share of the whole loss."""
        return self.exchange_us / self.us["pairs loss"]

    def total_us(self, way: str) -> float:
        """Loss and gradient of "pairs", "two all-reduces", "Megatron", "gathered" or "one GPU".

        All but Megatron and one GPU take the same gradient: that of a rank's own columns.
        """
        own = way in ("Megatron", "one GPU")
        return self.us[f"{way} loss"] + self.us[f"{way if own else 'pairs'} gradient"]

    @property
    def speed_up(self) -> float:
        """How many times as fast as on one GPU loss and gradient are."""
        return self.total_us("one GPU") / self.total_us("pairs")

    @property
    def lost_us(self) -> dict[str, float]:
        """What each part takes beyond its share of one GPU's time; together, the time beyond a perfect speed-up."""
        return {
            "kernel": self.us["kernel"] - self.us["one GPU loss"] / self.ranks,
            "exchange": self.exchange_us,
            "gradient": self.us["pairs gradient"] - self.us["one GPU gradient"] / self.ranks,
        }


class Parallel(Record):
    """What was measured on one machine."""

    @classmethod
    def row(cls, kept):
        us = {name: median(samples) for name, samples in kept.pop("samples_us").items()}
        return Cell(**kept, us=us)

    def cell(self, M: int, N: int, dtype: str = "bfloat16") -> Cell:
        """The cell of some rows of a vocabulary; KeyError where there is none."""
        return one(self.rows, dtype=dtype, M=M, N=N)

    @property
    def origin(self) -> str:
        """Where the numbers are from, as a caption says it."""
        versions = f"{made_by(self.versions, ('torch', 'nvidia-cutlass-dsl'))}, NCCL {self.nccl}"
        gpus = f"{self.ranks} {self.device}s of one host" if self.ranks > 1 else self.device
        return f"Measured on {gpus}, driver {self.driver}, {versions}, {self.date} UTC."


@dataclass(frozen=True)
class Model:
    """What the parts of a loss and its gradient would take on more GPUs than were measured: a model, fitted to the measured parts.

    Kernel and gradient take a constant, and a time for each of a rank's M n logits; the exchange takes a constant, a time for each
    rank, and one for each rank's M pairs. A machine whose GPUs are not all joined as the measured ones were does not follow it.
    """

    kernel: tuple[float, float]
    gradient: tuple[float, float]
    exchange: tuple[float, float, float]
    one_gpu: dict[tuple[int, int], float]  # (M, N): measured, microseconds
    off: float  # the largest relative distance of a fitted part from its measurement

    def parts_us(self, M: int, N: int, ranks: int) -> dict[str, float]:
        """Microseconds of each part, in the order in which they run."""
        logits = M * N / ranks
        return {
            "kernel": float(np.dot(self.kernel, (1, logits))),
            "exchange": float(np.dot(self.exchange, (1, ranks, ranks * M))),
            "gradient": float(np.dot(self.gradient, (1, logits))),
        }

    def speed_up(self, M: int, N: int, ranks: int) -> float:
        """How many times as fast as the measured one GPU."""
        return self.one_gpu[M, N] / sum(self.parts_us(M, N, ranks).values())


def model(records) -> Model | None:
    """The model of one card's bfloat16 cells; None where fewer than two numbers of GPUs beyond one are recorded.

    It leaves out rows that do not divide into 16-byte vectors, which other kernels take.
    """
    cells = [cell for record in records for cell in record.cells if cell.dtype == "bfloat16"]
    shared = [cell for cell in cells if cell.ranks > 1]
    if len({cell.ranks for cell in shared}) < 2:
        return None
    whole = [cell for cell in cells if cell.N % 8 == 0]
    fits = {
        "kernel": (whole, lambda cell: cell.us["kernel"], lambda cell: (1, cell.M * cell.N / cell.ranks)),
        "gradient": (whole, lambda cell: cell.us["pairs gradient"], lambda cell: (1, cell.M * cell.N / cell.ranks)),
        "exchange": (shared, lambda cell: cell.exchange_us, lambda cell: (1, cell.ranks, cell.ranks * cell.M)),
    }
    found, off = {}, 0.0
    for part, (chosen, measured, features) in fits.items():
        relative = np.array([np.divide(features(cell), measured(cell)) for cell in chosen])
        found[part], *_ = np.linalg.lstsq(relative, np.ones(len(chosen)), rcond=None)
        off = max(off, np.abs(relative @ found[part] - 1).max())
    fitted = {part: tuple(map(float, numbers)) for part, numbers in found.items()}
    one_gpu = {(cell.M, cell.N): cell.total_us("one GPU") for cell in cells}
    return Model(**fitted, one_gpu=one_gpu, off=float(off))


def load(path=None, dtype="bfloat16") -> list[Parallel]:
    """The records in folder `path`, by default those of the card that is meant, or of one of `WHOLE` that has some: their cells of
    one type, fewest GPUs first."""
    folders = (folder(), *(FOLDER / which for which in WHOLE))
    path = path or next(at / "parallel" for at in folders if (at / "parallel").is_dir())
    found = map(Parallel.load, sorted(Path(path).glob("*.json")))
    found = [replace(record, rows=tuple(cell for cell in record.cells if cell.dtype == dtype)) for record in found]
    return sorted((record for record in found if record.cells), key=lambda record: record.ranks)
