"""`explorer`: pictures for every combination of some parameters, computed beforehand, behind native sliders."""

from __future__ import annotations

from itertools import product

from .player import Player
from .sectors import coalescing


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


def coalescing_explorer(title, axes, trace_of, line=None, start=None) -> Player:
    """`coalescing`'s first request for each combination of parameters; `trace_of(**parameters)` gives a trace for each."""
    names = list(axes)
    traces = {point: trace_of(**dict(zip(names, point))) for point in product(*axes.values())}
    rows = max(len(coalescing(trace, line, requests=1).scene.boxes) // 4 for trace in traces.values())
    players = {point: coalescing(trace, line, requests=1, rows=rows) for point, trace in traces.items()}
    sample = next(iter(players.values()))
    draw = lambda **parameters: players[tuple(parameters[name] for name in names)].frames[0]  # noqa: E731
    return explorer(title, axes, sample.scene, draw, sample.origin, sample.key, start)
