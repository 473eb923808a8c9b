"""The recorded ways to mistime a kernel (see `bench/pitfalls.py`), and what a call costs on the host."""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median

from quack_tutorial.records import folder, read


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


@dataclass(frozen=True)
class Pitfalls:
    """What was measured on one GPU; `failed` says of a series without points why."""

    device: str
    driver: str
    date: str
    versions: dict
    datasheet_gb_s: float | None
    failed: dict[str, str]
    points: tuple[Point, ...]

    def series(self, name: str, **facts) -> tuple[Point, ...]:
        """The points of a series that have these facts, in the order of the record."""
        return tuple(
            p for p in self.points if p.series == name and all(p.facts.get(key) == fact for key, fact in facts.items())
        )

    def us(self, series: str, name: str, **facts) -> float:
        """The median of the one point of that name; KeyError where there is none, or more."""
        found = [p for p in self.series(series, **facts) if p.name == name]
        if len(found) != 1:
            raise KeyError(f"series {series!r} has {len(found)} points {name!r} with {facts}")
        return found[0].us

    @property
    def origin(self) -> str:
        """Where the numbers are from, as a caption says it."""
        return f"Measured on {self.device}, driver {self.driver}, torch {self.versions['torch']}, {self.date} UTC."


def load(path=None) -> Pitfalls | None:
    """The record in `path`, by default the card's that is meant (see `records.folder`); None where there is none yet."""
    kept = read("pitfalls.json", path)
    if kept is None:
        return None
    points = []
    for row in kept["points"]:
        series, name, samples = row.pop("series"), row.pop("name"), row.pop("samples_us")
        points.append(Point(series, name, row, tuple(samples)))
    fields = ("device", "driver", "date", "versions", "datasheet_gb_s", "failed")
    return Pitfalls(*(kept[field] for field in fields), tuple(points))


def host_us(operation: str, provider: str = "ours", dtype: str = "bfloat16", gradient: bool = False) -> float:
    """What a call of 128 x 256 costs on the host, in microseconds, kernels loaded; KeyError where it was not measured."""
    kept = json.loads((folder() / "host" / "loaded.json").read_text(encoding="utf-8"))
    wanted = {"operation": operation, "provider": provider, "dtype": dtype, "gradient": gradient}
    for row in kept["measurements"]:
        if wanted.items() <= row.items():
            return row["host_us"]
    raise KeyError(f"no host time of {wanted}")
