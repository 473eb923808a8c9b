"""What Nsight Compute counted of our kernels and of others': the record that `quack-tutorial profile` makes, read."""

from __future__ import annotations

from dataclasses import dataclass

from quack_tutorial.hardware import ITEM_BYTES
from quack_tutorial.records import Record, made_by, one


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


class Profile(Record):
    """The record: `profile("softmax", "quack", 131072)`, `profile.of(operation, N)`, and where it comes from in `origin`."""

    FILE, ROWS, MAY_LACK = "profile.json", "cases", False
    MADE_BY = ("torch", "triton", "quack-kernels", "liger-kernel", "cudnn")

    @classmethod
    def row(cls, kept):
        return Profiled(**kept["case"], launches=tuple(kept["launches"]), source=kept["source"])

    def of(self, operation, N) -> tuple[Profiled, ...]:
        """All implementations of an operation at one length of a row, in the order they were profiled."""
        return tuple(case for case in self.rows if (case.operation, case.N) == (operation, N))

    def __call__(self, operation, provider, N) -> Profiled:
        return one(self.of(operation, N), provider=provider)

    @property
    def origin(self) -> str:
        """Where the counts are from, as a caption says it."""
        ncu = self.ncu.removeprefix("Version ").split(" ")[0]
        days = " and ".join(dict.fromkeys(time.split()[0] for time in self.date.split(", ")))
        tools = f"Nsight Compute {ncu}, driver {self.driver}, {made_by(self.versions, self.MADE_BY)}"
        return f"Counted on one {self.device}, {days}, by {tools}."


load = Profile.load
