"""The recorded ways to mistime a kernel, and what a call costs on the host.

| series   | times softmax                                                                                           |
|----------|---------------------------------------------------------------------------------------------------------|
| timer    | of a large and of a small matrix with the host's clock, with events, and in a CUDA graph                  |
| L2       | of 8 MiB, over one input, and over as many as fill 3 and 16 times L2                                      |
| hint     | right after a kernel that asks L2 to keep what it reads, over the same inputs; with L2 as it is, after the |
|          | driver's reset of kept lines, and cleared                                                                |
| stream   | launched on a stream of its own, by events on the current one, and by the host's clock                    |
| itself   | against itself: all samples of the one before those of the other, and in turns                            |
| clock    | and a matrix product, for seconds on end, with the SM's clock and the power beside each sample            |

"large" is 32768 x 4096 bfloat16, "small" 128 x 256. CONTRIBUTING.md says what made the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from quack_tutorial.records import Record, folder, one, read


@dataclass(frozen=True)
class Point:
    """One way of timing: what it is, and its samples in microseconds a launch."""

    series: str
    name: str
    facts: dict
    samples_us: tuple[float, ...]

    @property
    def us(self) -> float:
        """The median."""
        return median(self.samples_us)

    @property
    def gb_s(self) -> float:
        """What the operation must move, over the median; KeyError where its bytes are not known."""
        return self.facts["bytes"] / self.us / 1e3


class Pitfalls(Record):
    """What was measured on one GPU; `failed` says of a series without points why."""

    FILE, ROWS, MADE_BY = "pitfalls.json", "points", ("torch",)

    @classmethod
    def row(cls, kept):
        series, name, samples = kept.pop("series"), kept.pop("name"), kept.pop("samples_us")
        return Point(series, name, kept, tuple(samples))

    def series(self, name: str, **facts) -> tuple[Point, ...]:
        """The points of a series that have these facts, in the order of the record."""
        return tuple(
            p for p in self.points if p.series == name and all(p.facts.get(key) == fact for key, fact in facts.items())
        )

    def us(self, series: str, name: str, **facts) -> float:
        """The median of the one point of that name; KeyError where there is none, or more."""
        return one(self.series(series, **facts), name=name).us


load = Pitfalls.load


def host_us(operation: str, provider: str = "ours", dtype: str = "bfloat16", gradient: bool = False) -> float:
    """What a call of 128 x 256 costs on the host, in microseconds, kernels loaded; KeyError where it was not measured."""
    wanted = {"operation": operation, "provider": provider, "dtype": dtype, "gradient": gradient}
    for row in read(folder() / "host" / "loaded.json", "measurements")["measurements"]:
        if wanted.items() <= row.items():
            return row["host_us"]
    raise KeyError(f"no host time of {wanted}")
