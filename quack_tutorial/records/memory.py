"""The recorded measurements of the memory hierarchy: latencies, bandwidths, strides, conflicts; see `bench/memory.py`.

`load` reads a card's record, `own` what was measured on this machine's GPU and kept, if it was; `ruler` is the one or the other.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from quack_tutorial import card, hardware
from quack_tutorial.records import Record, one


@dataclass(frozen=True)
class Point:
    """One thing that was timed: what it is, and the median of its samples in ns a unit (a step, a request or a byte)."""

    series: str
    name: str
    facts: dict
    ns: float

    @property
    def gb_s(self) -> float:
        """GB/s, where the unit is a byte: bytes a nanosecond."""
        return 1 / self.ns


class Hierarchy(Record):
    """What one GPU's memory takes. Latencies in ns, bandwidths in GB/s (1 GB = 1e9 bytes)."""

    FILE, ROWS, MADE_BY, MAY_LACK = "memory.json", "points", ("nvidia-cutlass-dsl",), False

    @classmethod
    def row(cls, kept):
        series, name, samples = kept.pop("series"), kept.pop("name"), kept.pop("samples_ns")
        return Point(series, name, kept, median(samples))

    @property
    def gpu(self) -> hardware.GPU:
        """What NVIDIA publishes about it."""
        return hardware.find(self.device)

    def series(self, name: str) -> tuple[Point, ...]:
        """The points of a series, in the order of the record; KeyError where there is none."""
        found = tuple(point for point in self.points if point.series == name)
        if not found:
            raise KeyError(f"no series {name!r}; there are {', '.join(dict.fromkeys(p.series for p in self.points))}")
        return found

    def point(self, series: str, name: str) -> Point:
        """One point by its name; KeyError where there is none."""
        return one(self.series(series), name=name)

    def latency_ns(self, level: str) -> float:
        """How long one load takes: "shared", "peer" (another block's shared memory), "L1", "L2" or "HBM"."""
        if level in ("shared", "peer"):
            return self.point("latency", f"chase {level}").ns
        # A chain of 64 KiB fits into L1, one of 8 MiB into L2, one of 1 GiB into neither.
        return self.point("chase", str({"L1": 64 << 10, "L2": 8 << 20, "HBM": 1 << 30}[level])).ns

    def cluster_barrier_ns(self, blocks: int, threads: int = 256, release: bool = False) -> float:
        """How long a barrier of a cluster takes whose arrivals publish what was written, with `release`, or do not."""
        return one(self.series("cluster"), name=f"{'release' if release else 'relaxed'} {blocks} x {threads}").ns

    def bandwidth_gb_s(self, level: str) -> float:
        """How fast all SMs together read: "shared", "peer", "L2" or "HBM" (the fastest stream that was measured)."""
        if level == "HBM":
            return max(point.gb_s for point in self.series("in flight"))
        return self.point("level", {"shared": "shared stream", "peer": "peer stream", "L2": "L2"}[level]).gb_s


load = Hierarchy.load


def kept_at(name: str) -> Path:
    """Where `quack-tutorial memory --keep` puts what it measured on a card, which may be one that nobody recorded."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "quack-tutorial" / f"memory-{name}.json"


def own() -> Hierarchy | None:
    """What was measured on this machine's GPU and kept; None without that, or where the environment names a card."""
    here = None if card.named() else card.here()
    path = here and kept_at(here.card)
    return load(path) if path and path.exists() else None


def ruler() -> Hierarchy:
    """What predictions are made with: this machine's own, or else the record."""
    return own() or load()
