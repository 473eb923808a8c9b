"""What a warp's lanes held before and after each shuffle of a series, read off the trace.

The trace has the value that each lane received. What a lane held before is what the lanes that read it received; what it
holds after is what they receive in the next shuffle. Whatever nobody read is worked out with the operation (+, max, min)
that explains all numbers that can be read; with no evidence it stays unknown (NaN in `known` = False places).

Not covered: series that combine pairs, such as online softmax's (max, sum): their results are unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutesim.trace import Op, ShuffleKind

from .wording import LANES, active, row

OPERATIONS = {"+": np.add, "max": np.fmax, "min": np.fmin}
TOLERANCE = {2: 2**-7, 4: 2**-18, 8: 2**-40}  # of a combination, relative, by the bytes of a value


@dataclass(frozen=True)
class Shuffle:
    """One shuffle: `source` lane, value `got`; what each lane held `before` and holds `after`, where known."""

    event: np.void
    lanes: np.ndarray  # (32,) bool: takes part
    source: np.ndarray  # (32,) int
    got: np.ndarray  # (32,) float64
    before: np.ndarray  # (32,) float64
    before_known: np.ndarray  # (32,) bool
    after: np.ndarray
    after_known: np.ndarray
    # (32, 32) int: how often lane i's value afterwards counts lane j's first one.
    covers: np.ndarray


@dataclass(frozen=True)
class Series:
    """Shuffles that reduce one value a lane; `operation` is "+", "max", "min" or None."""

    shuffles: tuple[Shuffle, ...]
    operation: str | None

    def holders(self) -> np.ndarray:
        """Lanes whose last value counts each lane of their group exactly once (for max and min: at least once)."""
        covers, lanes = self.shuffles[-1].covers, self.shuffles[0].lanes
        linked = np.eye(LANES, dtype=bool)
        for shuffle in self.shuffles:
            linked[np.arange(LANES), shuffle.source] = True
        linked |= linked.T
        for _ in range(5):  # 32 lanes: five doublings reach everyone
            linked = linked @ linked
        reduced = covers == 1 if self.operation in ("+", None) else covers >= 1
        whole = (reduced | ~linked).all(axis=1) & (linked.sum(axis=1) > 1)
        return whole & lanes


def series(events) -> list[np.ndarray]:
    """Splits a warp's events into series: shuffles of one kind in a row, until another event or a repeated offset."""
    found, current = [], []
    for event in events:
        shuffle = event["op"] == Op.SHUFFLE
        new = current and (
            not shuffle or event["arg"] != current[0]["arg"] or event["arg2"] in [e["arg2"] for e in current]
        )
        if new:
            found.append(np.array(current))
            current = []
        if shuffle:
            current.append(event)
    return found + ([np.array(current)] if current else [])


def read_series(trace, events, first: np.ndarray | None = None, operation: str | None = None) -> Series:
    """The series' shuffles with what lanes held; `first` may give the lanes' first values.

    `operation` is one that other shuffles of the line agree on; left out, it is found from the numbers. ValueError for a trace
    without values.
    """
    if any(event["values"] < 0 for event in events):
        raise ValueError("the trace has no values: record it with simulate(..., values=True)")
    got = [row(trace.values, event["values"]) for event in events]
    source = [np.where(active(e), row(trace.addresses, e["addresses"]), np.arange(LANES)) for e in events]
    read = [_held(g, s, active(e)) for g, s, e in zip(got, source, events)]
    read[0] = _filled(read[0], first)
    tolerance = TOLERANCE.get(int(events[0]["bytes"]), 2**-18)
    replaces = int(events[0]["arg"]) == ShuffleKind.IDX
    if operation is None and not replaces:
        operation = next((name for name in OPERATIONS if _explains(name, read, got, tolerance)), None)
    counts = np.eye(LANES, dtype=int)
    shuffles, (before, known) = [], read[0]
    for k, event in enumerate(events):
        lanes = active(event)
        counts = counts[source[k]] if replaces else counts + counts[source[k]] * lanes[:, None]
        if replaces:
            after, after_known = np.where(lanes, got[k], before), lanes | known
        elif operation:
            after, after_known = _combined(operation, before, got[k], lanes), known & lanes
        else:
            after, after_known = np.full(LANES, np.nan), np.zeros(LANES, bool)
        if k + 1 < len(events):  # what the trace shows goes before what was worked out
            after = np.where(read[k + 1][1], read[k + 1][0], after)
            after_known = after_known | read[k + 1][1]
        shuffles.append(Shuffle(event, lanes, source[k], got[k], before, known, after, after_known, counts))
        before, known = after, after_known
    return Series(tuple(shuffles), operation)


def _held(got, source, lanes):
    """What each lane held: what a lane that read it received."""
    values, known = np.full(LANES, np.nan), np.zeros(LANES, bool)
    values[source[lanes]], known[source[lanes]] = got[lanes], True
    return values, known


def _filled(held, first):
    """`held` completed by `first`, if that agrees wherever both are known."""
    values, known = held
    if first is None:
        return held
    both = known & ~np.isnan(first)
    if not np.array_equal(values[both], np.asarray(first)[both]):
        return held
    return np.where(known, values, first), known | ~np.isnan(first)


def _combined(operation, a, b, lanes):
    with np.errstate(all="ignore"):
        return np.where(lanes, OPERATIONS[operation](a, b), a)


def _explains(operation, read, got, tolerance) -> bool:
    """Whether before (op) got = before of the next shuffle, everywhere that all three are known, and somewhere they are."""
    seen = False
    for k in range(len(got) - 1):
        (before, known), (following, known_next) = read[k], read[k + 1]
        both = known & known_next & ~np.isnan(got[k])
        wanted = _combined(operation, before, got[k], both)[both]
        if not np.allclose(wanted, following[both], rtol=tolerance, atol=tolerance, equal_nan=True):
            return False
        seen = seen or both.any()
    return bool(seen)
