"""Where a kernel's warps wait, by the line of its source: the record that `quack-tutorial lines` makes, read.

At intervals the GPU samples which instruction each warp is at, and why it is not issued. A row is a kernel at one size: `launches`,
each with its `lines`, each with what was counted in all its instructions. Sectors are of global memory, as the addresses of a
request demand, wherever found; wavefronts are of shared memory; the ideal ones are what the same bytes would take if they lay
together; `live` are the most registers of a thread that hold a value at one of its instructions. `sass` are the slowest
instructions of the slowest lines, (place in the code, text, executed, samples), `ptx` the first that the compiler made of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

from quack_tutorial import records
from quack_tutorial.records import Record, made_by, one

MOST = 40  # instructions of a line that are shown
# Why a warp was not issued, by ncu's names: (what the time goes to, in words).
REASONS = {
    "long_sb": ("memory", "waits for what was loaded from global memory, wherever it is found"),
    "lg": ("memory", "waits for room in the queue to global memory"),
    "drain": ("memory", "has ended, and its last stores are on their way"),
    "tex": ("memory", "waits for room in the queue to L1"),
    "short_sb": ("SM", "waits for shared memory, a shuffle or a special function"),
    "mio": ("SM", "waits for room in the queue to shared memory, shuffles and special functions"),
    "barrier": ("barrier", "waits at a barrier for other warps"),
    "membar": ("barrier", "waits for a fence"),
    "sleep": ("barrier", "sleeps"),
    "wait": ("pipe", "waits the few cycles that every instruction takes"),
    "math": ("pipe", "waits for a pipe that is busy"),
    "dispatch": ("pipe", "waits for the dispatcher"),
    "no_inst": ("pipe", "waits for its instruction to be fetched"),
    "imc": ("pipe", "waits for a constant"),
    "branch_resolving": ("pipe", "waits for a branch to be taken"),
    "misc": ("pipe", "waits for something else"),
    "not_selected": ("issue", "could go on, but another warp was taken"),
    "selected": ("issue", "is issued"),
}
GROUPS = {
    "memory": "global memory",
    "SM": "shared memory, shuffles, special functions",
    "barrier": "barriers",
    "pipe": "pipes and fetching",
    "issue": "issuing",
}


@dataclass(frozen=True)
class Line:
    """A line of source; what was counted is of all warps and of all its instructions together. Of lines with the same text in one
    function, `which` it is; several that were counted together."""

    file: str
    function: str
    text: str
    which: int | tuple[int, ...] = 0
    instructions: int = 0
    executed: int = 0
    samples: int = 0
    stalls: dict = field(default_factory=dict)
    sectors: int = 0
    ideal_sectors: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    live: int = 0
    sass: tuple = ()
    ptx: tuple = ()

    @cached_property
    def groups(self) -> Counter:
        """Samples by `GROUPS`."""
        found = Counter()
        for reason, count in self.stalls.items():
            found[REASONS.get(reason, ("pipe",))[0]] += count
        return found

    @property
    def reason(self) -> str | None:
        """What most of the samples waited for, a key of `REASONS`; None without samples."""
        return max(self.stalls, key=self.stalls.get, default=None)


@dataclass(frozen=True)
class Launch:
    """A kernel as it was launched: its generated name, time in us, registers a thread, threads a block, blocks, and its lines."""

    kernel: str
    us: float
    registers: int
    threads: int
    blocks: int
    lines: tuple[Line, ...]

    @property
    def samples(self) -> int:
        """Of all its lines."""
        return sum(line.samples for line in self.lines)

    def share(self, line: Line) -> float:
        """Which part of all samples is at a line."""
        return line.samples / max(1, self.samples)

    @cached_property
    def live(self) -> int:
        """The most registers of a thread that are in use at one of its lines; 0 where that is not known."""
        return max((line.live for line in self.lines), default=0)

    def slowest(self) -> Line:
        """The line with most samples."""
        return max(self.lines, key=lambda line: line.samples)


@dataclass(frozen=True)
class Sampled:
    """One version of an operation at one size, and its launches."""

    operation: str
    version: str
    dtype: str
    M: int
    N: int
    ptx_sha256: str
    launches: tuple[Launch, ...]

    @property
    def main(self) -> Launch:
        """The longest launch."""
        return max(self.launches, key=lambda launch: launch.us)


class Lines(Record):
    """The record of one operation: `lines("registers")` in float32 at 4,096 columns."""

    MADE_BY = ("torch", "nvidia-cutlass-dsl")

    @classmethod
    def load(cls, operation):
        """The record of the selected card, else of one that has it; None where nobody recorded the operation."""
        name = f"lines/{operation.replace(' ', '-')}.json"
        folders = [records.folder(), *(records.FOLDER / card for card in records.cards())]
        path = next((folder / name for folder in folders if (folder / name).exists()), None)
        return path and cls.read(path)

    @classmethod
    def read(cls, path):
        """The record in a file."""
        kept = records.read(path, cls.ROWS)
        sources = kept.pop("sources")
        return cls(kept, tuple(_row(cell, sources) for cell in kept.pop(cls.ROWS)))

    def __call__(self, version, dtype="float32", N=4096) -> Sampled:
        return one(self.rows, version=version, dtype=dtype, N=N)

    @property
    def origin(self) -> str:
        """Where the samples are from, as a caption says it."""
        ncu, tools = self.ncu.removeprefix("Version ").split(" ")[0], self.tools
        return (
            f"Sampled on one {self.device}, {self.date} UTC, by Nsight Compute {ncu}, driver {self.driver}, "
            f"{made_by(self.versions, self.MADE_BY)}. Registers in use: by nvdisasm {tools['nvdisasm']}, ptxas {tools['ptxas']}."
        )


def compiled(kernel: str, registers: int, found: dict) -> Launch:
    """A launch of which nothing was counted; `found` has for each (file, function, text, which) of the source its PTX, its
    (place in the code, SASS), and the registers in use at each."""
    rows = []
    for where, (ptx, sass, live) in found.items():
        shown = tuple((place, text.rstrip(" ;"), 0, 0) for place, text in sass[:MOST])
        made = {"instructions": len(sass) or len(ptx), "live": max(live, default=0)}
        rows.append(Line(*where, **made, sass=shown, ptx=tuple(text.strip() for text in ptx[:MOST])))
    return Launch(kernel, 0, registers, 0, 0, tuple(rows))


def launch_of(kept: dict, sources: list) -> Launch:
    """A launch as a record keeps it; its lines number the (file, function, text, which) of `sources`."""
    facts = (kept[name] for name in ("registers", "threads", "blocks"))
    return Launch(
        kept["kernel"], kept["ns"] / 1000, *facts, tuple(_line(dict(line), sources) for line in kept["lines"])
    )


def _row(cell: dict, sources: list) -> Sampled:
    launches = tuple(launch_of(launch, sources) for launch in cell["launches"])
    case = cell["case"] | {"version": cell["case"]["provider"]}
    del case["provider"]
    return Sampled(**case, ptx_sha256=cell["ptx_sha256"], launches=launches)


def _line(kept: dict, sources: list) -> Line:
    place = kept.pop("source")
    where = sources[place] if place >= 0 else ("", "", "", 0)
    return Line(*where, **kept)


load = Lines.load
