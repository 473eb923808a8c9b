"""The ceiling of one size: the fastest plain vector kernel with the same reads and writes, in the same run.

Launch and drain weigh more on small sizes, so the ceiling is found for each size anew, by a sweep over block sizes,
warps and cache hints, with torch's own copy or add beside it, and our kernel's own tile without its arithmetic. Which plain
kernels are the best is remembered for sizes of one pattern that are alike, in a process and by the workers of one run, which
tell each other through a file; they are timed again in each cell. A kernel above its ceiling is a fault of the measurement until
shown otherwise: `quack-tutorial results` flags it.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from contextlib import suppress
from pathlib import Path

import torch

from bench.sweep import SWEEPS
from quack_tutorial import timing
from quack_tutorial.records.cells import UNSWEPT

# 32-bit words a block: warps, 16 to 128 bytes a thread
WARPS = {256: (2,), 512: (2, 4), 1024: (2, 4, 8), 2048: (4, 8, 16), 4096: (4, 8, 16), 8192: (8, 16)}
SHAPES = tuple((words, warps) for words, each in WARPS.items() for warps in each)
KEPT = 4  # how many of the sweep's best are timed in turn with the providers; the quickest of them is the ceiling
HINTS = (("", ""), ("", ".cs"), ("evict_first", ".cs"), ("evict_last", ""))  # of loads and stores
ALIKE = 0.05  # sizes of one pattern that differ by less share a sweep within a process

_swept = {}  # (pattern, bytes) -> names of the best kernels


def ceiling_candidates(pattern: str, bytes_moved: int, slots: int, pool, swept=True) -> dict[str, timing.Replay]:
    """The best plain kernels of the sweep and torch's own, captured and ready to be timed in turn with the providers.

    Keys say what each is ("copy, 2048 words, 4 warps, stores .cs"). `bytes_moved` is the operation's; the plain kernels
    move as much, rounded up to 16 bytes a stream. Unless they are `swept`, `UNSWEPT` stand for the best of a sweep.
    """
    from quack_tutorial import plain_kernels

    words = math.ceil(bytes_moved / streams(pattern) / 16) * 4
    buffers = [tuple(_random_words(words) for _ in range(int(pattern[0]))) for _ in range(slots)]
    launches = timing.launches_for(bytes_moved, slots)
    short = max(slots, math.ceil(launches / 4))
    calls = {}
    for (block, warps), (load, store) in itertools.product(SHAPES, HINTS):
        calls[_name(pattern, block, warps, load, store)] = plain_kernels.plain(pattern, block, warps, load, store)
    best = best_of_sweep(pattern, bytes_moved)
    if best is None and not swept:
        best = [_name(pattern, *shape) for shape in UNSWEPT]
    elif best is None:
        # All of the sweep's graphs stay until the last capture: a pool whose graphs are all gone is no longer one.
        sweep = {name: timing.capture(call, buffers, short, pool).released() for name, call in calls.items()}
        rough = {name: timing.rough_us(replay, 3) for name, replay in sweep.items()}
        best = sorted(rough, key=rough.get)[:KEPT]
        remember_sweep(pattern, bytes_moved, best)
    chosen = {name: calls[name] for name in best}
    own = plain_kernels.torch_own(pattern)
    if own is not None:
        chosen[f"torch {own.__name__}"] = own
    return {name: timing.capture(call, buffers, launches, pool).released() for name, call in chosen.items()}


def streams(pattern: str) -> int:
    """Reads and writes in all: 3 of "2R1W"."""
    return sum(map(int, pattern[::2]))


def own_tile(operation: str, inputs, launches: int, pool) -> dict[str, timing.Replay]:
    """The operation's own tile without its arithmetic, captured on the cell's `inputs`; none where it has no such tile."""
    from bench import plain_tile

    if operation not in plain_tile.READS:
        return {}
    name, call = plain_tile.setup(operation, inputs[0][0])
    return {name: timing.capture(call, inputs, launches, pool).released()}


def remember_sweep(pattern: str, bytes_moved: int, best: list[str]) -> None:
    """Keep what a sweep found, for this process and for the others of its run."""
    _swept[pattern, bytes_moved] = best
    if path := os.environ.get(SWEEPS):
        # One write of a line: those of others are not in between.
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps([pattern, bytes_moved, best]) + "\n")


def best_of_sweep(pattern: str, bytes_moved: int) -> list[str] | None:
    """The names that a sweep of as many bytes, or nearly, found to be the best in this process or its run; None without one."""
    if path := os.environ.get(SWEEPS):
        # There is none yet, or its last line is just being written.
        with suppress(OSError, ValueError):
            for line in Path(path).read_text(encoding="utf-8").splitlines():
                kind, size, best = json.loads(line)
                _swept.setdefault((kind, size), best)
    alike = (size for kind, size in _swept if kind == pattern and abs(size - bytes_moved) <= ALIKE * bytes_moved)
    nearest = min(alike, key=lambda size: abs(size - bytes_moved), default=None)
    return None if nearest is None else _swept[pattern, nearest]


def _random_words(count):
    return torch.randint(-(2**31), 2**31 - 1, (count,), dtype=torch.int32, device="cuda")


def _name(pattern, block, warps, load, store):
    kind = {"1R": "read", "1R1W": "copy", "2R1W": "add", "2R2W": "add and keep", "3R1W": "add three"}[pattern]
    hints = "".join(f", {what} {hint}" for what, hint in (("loads", load), ("stores", store)) if hint)
    return f"{kind}, {block} words, {warps} warps{hints}"
