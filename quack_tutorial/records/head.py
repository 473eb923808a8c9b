"""The recorded times and memory of a model's head and its loss: what `quack-tutorial head` wrote, read."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from quack_tutorial.records import Record, one


@dataclass(frozen=True)
class Way:
    """One way: milliseconds forward and backward, bytes beside the inputs and the two gradients (None where not looked at)."""

    name: str
    ms: float
    peak_bytes: int | None
    loss_error: float | None
    gradient_error: float | None


@dataclass(frozen=True)
class Shape:
    """The ways at one shape; `failed` says of those without a time why."""

    tokens: int
    width: int
    words: int
    ways: tuple[Way, ...]
    failed: dict[str, str]

    def way(self, name: str) -> Way:
        """One way by its name; KeyError where it has no time."""
        return one(self.ways, name=name)


class Heads(Record):
    """What was measured on one GPU."""

    FILE, ROWS = "head.json", "shapes"

    @classmethod
    def row(cls, kept):
        ran = {name: way for name, way in kept["ways"].items() if way["status"] == "ok"}
        failed = {name: way["message"] for name, way in kept["ways"].items() if name not in ran}
        facts = ("peak_bytes", "loss_error", "gradient_error")
        ways = tuple(Way(name, median(way["samples_ms"]), *map(way.get, facts)) for name, way in ran.items())
        return Shape(kept["tokens"], kept["width"], kept["words"], ways, failed)

    def shape(self, width: int, words: int) -> Shape:
        """The shape of a width and a vocabulary; KeyError where there is none."""
        return one(self.rows, width=width, words=words)


load = Heads.load
