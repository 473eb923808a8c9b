"""What Nsight Compute counted of our kernels and of others': the record that `quack-tutorial profile` makes, read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from quack_tutorial.hardware import ITEM_BYTES
from quack_tutorial.records import cudnn_version, folder


@dataclass(frozen=True)
class Profiled:
    """One implementation at one size: its launches, each a dictionary of counters, and the source that was generated for it."""

    operation: str
    provider: str
    dtype: str
    M: int
    N: int
    launches: tuple[dict, ...]
    source: str | None

    def total(self, name) -> float:
        """A counter added over the launches, such as "dram_read_bytes"."""
        return sum(launch[name] for launch in self.launches)

    @property
    def matrix_bytes(self) -> int:
        """The M x N input, in bytes: the unit in which HBM's reads and writes say what a kernel does."""
        return self.M * self.N * ITEM_BYTES[self.dtype]

    @property
    def reads(self) -> float:
        """How many times the matrix was read from HBM."""
        return self.total("dram_read_bytes") / self.matrix_bytes

    @property
    def writes(self) -> float:
        """How many times as many bytes were written to HBM."""
        return self.total("dram_write_bytes") / self.matrix_bytes

    def lines(self, *words) -> str:
        """The lines of the generated source that hold one of `words`, without their indentation."""
        found = (line.strip() for line in (self.source or "").splitlines())
        return "\n".join(line for line in found if any(word in line for word in words))

    def of_main(self, name) -> float:
        """A counter of the longest launch, such as "registers"."""
        return max(self.launches, key=lambda launch: launch["time_us"])[name]


@dataclass(frozen=True)
class Profile:
    """The record: `profile("softmax", "quack", 131072)`, `profile.of(operation, N)`, and where it comes from in `origin`."""

    cases: tuple[Profiled, ...]
    origin: str

    def of(self, operation, N) -> tuple[Profiled, ...]:
        """All implementations of an operation at one length of a row, in the order they were profiled."""
        return tuple(case for case in self.cases if (case.operation, case.N) == (operation, N))

    def __call__(self, operation, provider, N) -> Profiled:
        for case in self.of(operation, N):
            if case.provider == provider:
                return case
        there = ", ".join(case.provider for case in self.of(operation, N)) or "nobody"
        raise KeyError(f"{provider!r} is not profiled for {operation} of rows of {N}; {there} is")


def load(path=None) -> Profile:
    """The record in `path`, by default the card's that is meant; FileNotFoundError where there is none."""
    data = json.loads(Path(path or folder() / "profile.json").read_text(encoding="utf-8"))
    cases = tuple(
        Profiled(**kept["case"], launches=tuple(kept["launches"]), source=kept["source"]) for kept in data["cases"]
    )
    versions, ncu = data["versions"], data["ncu"].removeprefix("Version ").split(" ")[0]
    days = " and ".join(dict.fromkeys(time.split()[0] for time in data["date"].split(", ")))
    origin = (
        f"Counted on one {data['device']}, {days}, by Nsight Compute {ncu}, driver {data['driver']}, "
        f"torch {versions['torch']}, triton {versions['triton']}, "
        f"QuACK {versions['quack-kernels']}, Liger {versions['liger-kernel']}"
        + (f", cuDNN {cudnn_version(versions['cudnn'])}." if "cudnn" in versions else ".")
    )
    return Profile(cases, origin)
