"""`explorer`: pictures for every combination of some parameters, computed beforehand, behind native sliders."""

from __future__ import annotations

from itertools import product

from .player import Player


def explorer(title, axes, scene, draw, origin, key=(), start=None) -> Player:
    """A player with one slider for each axis.

    `axes` maps a parameter's name to its values; `draw(**parameters)` gives the `Frame` of one combination over `scene`.
    `start` maps parameters to the values shown at first (left out: the first of each). `origin` says what it is from.
    """
    names = list(axes)
    points = list(product(*axes.values()))
    frames = tuple(draw(**dict(zip(names, point))) for point in points)
    first = tuple((start or {}).get(name, values[0]) for name, values in axes.items())
    if first not in points:
        raise ValueError(f"{title}: start={start} is not on the grid")
    shown = {name: tuple(map(str, values)) for name, values in axes.items()}
    return Player(title, scene, frames, origin, tuple(key), points.index(first), shown)
