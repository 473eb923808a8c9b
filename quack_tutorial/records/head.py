"""The recorded times and memory of a model's head and its loss: what `quack-tutorial head` wrote, read."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from quack_tutorial.records import measured_on, read


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
        for way in self.ways:
            if way.name == name:
                return way
        raise KeyError(f"no way {name!r}; there are {', '.join(way.name for way in self.ways)}")


@dataclass(frozen=True)
class Heads:
    """What was measured on one GPU."""

    device: str
    driver: str
    date: str
    versions: dict
    shapes: tuple[Shape, ...]

    def shape(self, width: int, words: int) -> Shape:
        """The shape of a width and a vocabulary; KeyError where there is none."""
        for shape in self.shapes:
            if (shape.width, shape.words) == (width, words):
                return shape
        raise KeyError(
            f"{width} x {words} is not recorded; there are {', '.join(f'{s.width} x {s.words}' for s in self.shapes)}"
        )

    origin = property(measured_on)


def load(path=None) -> Heads | None:
    """The record in `path`, by default the one that comes with the package; None where there is none yet."""
    kept = read("head.json", path)
    if kept is None:
        return None
    shapes = tuple(_shape(shape) for shape in kept["shapes"])
    return Heads(*(kept[field] for field in ("device", "driver", "date", "versions")), shapes)


def _shape(kept) -> Shape:
    ways, failed = [], {}
    for name, way in kept["ways"].items():
        if way["status"] == "ok":
            facts = (way.get(key) for key in ("peak_bytes", "loss_error", "gradient_error"))
            ways.append(Way(name, median(way["samples_ms"]), *facts))
        else:
            failed[name] = way["message"]
    return Shape(kept["tokens"], kept["width"], kept["words"], tuple(ways), failed)
