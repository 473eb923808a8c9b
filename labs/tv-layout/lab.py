"""The lab `tv-layout`: thread and value strides of a tile, so that a warp's request fills its sectors.

A tile has R rows and C columns of float32; its coordinate (m, n) has the index m + R n, as in CuTe. It is a part of a row-major
matrix of 131072 columns. The student's functions return strides (thread, value) for the shapes that the task gives; they are judged
by where they put each value, not by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grading.judgement import Case, Diagnosis, Outcome

TITLE = "TV layout: who holds which element of a tile"
FUNCTIONS = ("sectors", "one_vector", "many_vectors")
CHECKS = {"sectors": 2, "one_vector": 3, "many_vectors": 3}
ROW_BYTES = 4 * 131072
SECTOR = 32


def cases(seed: int = 0) -> list[Case]:
    """Tiles whose rows are read by 8, 16, 32 or 64 lanes, some asked for twice; another seed gives others."""
    rng = np.random.default_rng([seed, 2])
    apart = [(4 * n, 4) for n in range(9)] + [(16, 16), (128, 16), (ROW_BYTES, 4)]  # from all lanes at one address on
    apart += [(4 * int(rng.integers(1, 40)), 4), (16 * int(rng.integers(2, 20)), 16), (8 * int(rng.integers(1, 30)), 8)]
    tiles = [
        (32, 128, 4),
        (4, 128, 4),
        (1, 128, 4),
        (8, 64, 4),
        (16, 32, 4),
        (2, 256, 4),
        (4, 64, 2),
        (4, 32, 1),
        (96, 768, 4),
    ]
    loops = [(4, 256, 4, 2), (1, 512, 4, 4), (8, 64, 4, 2), (2, 384, 2, 3), (4, 128, 1, 4)]
    for rows, lanes, V, K in zip(
        rng.integers(1, 14, 8), rng.choice([8, 16, 24, 32, 48, 64], 8), [1, 2, 4, 8] * 2, rng.integers(2, 6, 8)
    ):
        R, columns = int(rows), int(lanes) * V
        tiles += [(R, columns, V), (R, columns, max(1, V // 2))]
        loops += [(R, 2 * columns * int(K), V, int(many)) for many in (K, 2 * K)]
    return [
        *(Case("sectors", one, target="sectors") for one in apart),
        *(Case("tile", one, target="one_vector") for one in tiles),
        *(Case("loop", one, target="many_vectors") for one in loops),
    ]


def shapes(name: str, R: int, C: int, V: int, K: int = 1) -> tuple:
    """((lanes of a row, rows), (numbers of a vector, vectors)) of a tile."""
    return (C // (V * K), R), (V, K)


def predict(name: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """What a function's wrong answers show."""
    for o in outcomes:
        call = f"{name}({', '.join(map(str, o.case.make))})"
        if name == "sectors":
            yield from wrong_sectors(call, o)
        else:
            strides = as_strides(o.outputs["answer"], name)
            if strides is None:
                wanted = "((lane, row), value)" if name == "one_vector" else "((lane, row), (value, vector))"
                got = o.outputs["answer"]
                whole = (
                    " Strides are whole numbers, and / makes a float: // divides without." if "." in str(got) else ""
                )
                yield Diagnosis("wrong type", f"{call} returns {got}; strides {wanted} are asked for.{whole}")
            else:
                yield from misplaced(call, o.case.make, shapes(name, *o.case.make), strides)


def wrong_sectors(call: str, o: Outcome) -> Iterator[Diagnosis]:
    """A wrong number of sectors."""
    apart, width = o.case.make
    right = len(touched(np.arange(32) * apart, width))
    got = o.outputs["answer"]
    if got == right:
        return
    text = f"{call} returns {got}; lane 1 begins {apart} bytes after lane 0. "
    if got == 32 * width / SECTOR:
        yield Diagnosis(
            "bytes, not sectors",
            text + "That counts the bytes asked for; a sector counts whole, whoever wants how much of it.",
        )
    if got == 32 and apart < SECTOR:
        yield Diagnosis("a sector a lane", text + "Lanes that fall into the same 32 bytes share the sector.")
    if got == max(1, 32 * apart // SECTOR) and apart > SECTOR:
        yield Diagnosis("gaps counted", text + "Sectors that no lane touches are not moved: a lane here touches one.")
    if got == -(-(31 * apart + width) // SECTOR) and apart > SECTOR:
        yield Diagnosis(
            "gaps counted", text + "From the first byte to the last there are sectors that no lane touches."
        )
    yield Diagnosis(
        "wrong prediction",
        text + "Which of the 32-byte sectors, at multiples of 32, hold a byte that some lane asks for?",
    )


def touched(starts: np.ndarray, width: int) -> np.ndarray:
    """The sectors that accesses of `width` bytes at such addresses touch."""
    return np.unique((starts[:, None] + np.arange(width)) // SECTOR)


def as_strides(answer, name: str):
    """((lane, row), (value, vector)) as integers, or None."""
    thread, value = answer if isinstance(answer, tuple) and len(answer) == 2 else (None, None)
    value = (value, 0) if name == "one_vector" and isinstance(value, int) else value
    value = (*value, 0) if name == "one_vector" and isinstance(value, tuple) and len(value) == 1 else value
    for part in (thread, value):
        if not isinstance(part, tuple) or len(part) != 2 or not all(type(s) is int and abs(s) < 2**40 for s in part):
            return None
    return thread, value


def misplaced(call: str, make: tuple, shape: tuple, strides: tuple) -> Iterator[Diagnosis]:
    """What strides that are wrong do to the tile: first whether each element has one owner, then how a warp reads it."""
    R, C, V = make[:3]
    (lanes, rows), (values, vectors) = shape
    lane, row, value, vector = (
        np.arange(n) * s for n, s in zip((lanes, rows, values, vectors), (*strides[0], *strides[1]))
    )
    at = row[:, None, None, None] + lane[:, None, None] + vector[:, None] + value  # the first mode counts fastest
    at = at.reshape(lanes * rows, vectors * values)
    said = f"{call} = ({strides[0]}, {strides[1] if vectors > 1 else strides[1][0]})"
    if strides == ((V * R, 1), (R, V * lanes)) and vectors > 1 and R > 1:
        yield Diagnosis(
            "columns, not indices",
            f"{said}: the next vector is indeed {V * lanes} columns on. But a stride counts indices, and the next column "
            f"is {R} of them.",
        )
    if (strides[0], value[-1]) == ((V, C), V - 1) and V > 1:
        yield Diagnosis(
            "order of memory",
            f"{said} counts as x lies in memory, row by row. The tile's indices go down its columns: (m, n) has m + {R} n.",
        )
    right = ((V * R, 1), (R, V * lanes * R))
    for one, swapped in (("lane and row", (right[0][::-1], right[1])), ("value and vector", (right[0], right[1][::-1])),
                         ("threads and values", right[::-1])):  # fmt: skip
        if vectors > 1 and strides == swapped != right:
            yield Diagnosis(
                "exchanged",
                f"{said}: the strides of {one} have changed places. The shape is ((lane, row), (value, vector)).",
            )
    if vectors > 1 and lanes != 32 and strides[1] == (R, 32 * V * R):
        yield Diagnosis(
            "32 lanes",
            f"{said} takes 32 lanes for a row. A row of {C} columns has {lanes} here: a lane's next vector is {lanes} on.",
        )
    outside = np.argwhere((at < 0) | (at >= R * C))
    if len(outside):
        t, v = outside[0]
        yield Diagnosis(
            "outside the tile",
            f"{said} puts value {v} of thread {t} at index {at[t, v]}, and the tile of {R} x {C} ends at {R * C - 1}. By how much "
            f"does the index grow with one step of each mode? One column is {R} indices from the next, one row is 1.",
        )
    where = np.argsort(at, axis=None, kind="stable")
    again = np.nonzero(np.diff(at.ravel()[where]) == 0)[0]
    if len(again) and not len(outside):
        (t, v), (u, w) = (divmod(int(i), at.shape[1]) for i in where[again[0] : again[0] + 2])
        twice = int(at[t, v])
        missing = int(np.setdiff1d(np.arange(R * C), at)[0])
        yield Diagnosis(
            "held twice",
            f"{said} gives coordinate ({twice % R}, {twice // R}) to value {v} of thread {t} and to value {w} of thread {u}, and "
            f"({missing % R}, {missing // R}) to nobody. Each element of the tile needs one owner.",
        )
    if len(outside) or len(again):
        return
    address = at % R * ROW_BYTES + at // R * 4
    steps = np.diff(address.reshape(len(at), vectors, V), axis=2)
    if V > 1 and not (steps == 4).all():
        t, k, v = np.argwhere(steps != 4)[0]
        yield Diagnosis(
            "no vector",
            f"{said}: values {v} and {v + 1} of thread {t} are {apart(abs(int(steps[t, k, v])))} apart in memory, so its "
            f"{V} numbers are no vector of {4 * V} bytes. The values of a vector have to be neighbours in a row of x.",
        )
        return
    first = address[:32, 0]
    found, least = len(touched(first, 4 * V)), -(-len(first) * 4 * V // SECTOR)
    if found == least and lanes > 1 and first[1] - first[0] != 4 * V:
        yield Diagnosis(
            "scattered",
            f"{said}: lane 1 is {apart(int(first[1] - first[0]))} from lane 0, so a request of a row's lanes is {lanes} pieces of "
            "the row, of whole sectors as it happens. One piece is asked for: neighbouring lanes read neighbouring vectors.",
        )
    if found > least:
        yield Diagnosis(
            "scattered",
            f"{said}: lane 1 is {apart(int(first[1] - first[0]))} from lane 0, so a request of the first warp touches {found} "
            f"sectors; {least} would do. Neighbouring lanes should read neighbouring vectors of a row, in each request.",
        )


def apart(nbytes: int) -> str:
    """A distance in bytes, or KiB."""
    return f"{nbytes // 1024} KiB" if abs(nbytes) >= 2048 and nbytes % 1024 == 0 else f"{nbytes} bytes"
