"""`heat_map`: a recorded sweep of configurations at one size, two of their numbers as rows and columns.

| name                  | is                                                    |
|-----------------------|-------------------------------------------------------|
| `threads a row`       | threads of one block that share a row                 |
| `threads a block`     | all threads of a block                                |
| `blocks a row`        | the size of the cluster that shares a row             |
| `loads a thread`      | vectors of 16 bytes of its row that a thread has      |
"""

from __future__ import annotations

import json
from html import escape
from math import ceil

from quack_tutorial.hardware import ITEM_BYTES
from quack_tutorial.operations import named, slug
from quack_tutorial.records import folder
from quack_tutorial.records.bench import ruler
from quack_tutorial.records.cells import default_rows

from .player import still

PALE = 0.6  # a share of the ceiling's speed that has no colour left
AXES = {
    "threads a row": lambda config, nbytes: config[0],
    "threads a block": lambda config, nbytes: config[1],
    "blocks a row": lambda config, nbytes: config[2],
    "loads a thread": lambda config, nbytes: ceil(nbytes / 16 / (config[0] * config[2])),
}


KERNELS = {"registers": 0, "shared memory": 1}  # where a row waits -> the stages of such configurations


def heat_map(operation, dtype, N, rows="threads a row", columns="threads a block", M=None, kept=None) -> HeatMap:
    """The fastest of the configurations in each place, as a share of the ceiling's speed; ValueError without a record.

    `kept` ("registers" or "shared memory") leaves only the kernel whose rows wait there; without it a place has the faster one.
    """
    operation, M = named(operation), M or default_rows(N)
    record = json.loads((folder() / "tune" / f"{slug(operation)}-aligned.json").read_text(encoding="utf-8"))
    found = [size for size in record["sizes"] if (size["dtype"], size["M"], size["N"]) == (dtype, M, N)]
    if not found:
        raise ValueError(f"no sweep of {operation}, {dtype}, {M} x {N} is recorded")
    size, nbytes, places, tried = found[-1], N * ITEM_BYTES[dtype], {}, 0
    for candidate in size["candidates"]:
        if candidate["status"] != "ok" or (kept and candidate["config"][3] != KERNELS[kept]):
            continue
        tried += 1
        place = tuple(AXES[axis](candidate["config"], nbytes) for axis in (rows, columns))
        share = size["ceiling_us"] / (candidate.get("us") or candidate["rough_us"])
        places[place] = max(share, places.get(place, 0.0))
    if not places:
        raise ValueError(f"no sweep of {operation}, {dtype}, {M} x {N} with rows in {kept} is recorded")
    versions = record["versions"]
    where = (
        f"{tried} configurations, measured on {record['device']}, driver {record['driver']}, CuTe DSL "
        f"{versions['nvidia-cutlass-dsl']}, {size.get('date', record['date'])}; the rest of a configuration is free."
    )
    told = f", kept in {kept}" if kept else ""
    return HeatMap(
        f"{operation}, {dtype}, {M:,} rows of {N:,}{told}", rows, columns, places, where, ruler([size["ceiling"]])[1]
    )


def counted(number: int, what: str) -> str:
    """A number of what an axis names: "1 block a row", "512 threads a row"."""
    noun, _, rest = what.partition(" ")
    return f"{number:,} {noun.removesuffix('s') if number == 1 else noun} {rest}"


class HeatMap:
    """`places` maps (row, column) to a share of the speed of `ceiling`; `best` is the place of the largest."""

    def __init__(self, title, rows, columns, places, where, ceiling):
        self.title, self.rows, self.columns, self.places, self.where = title, rows, columns, places, where
        self.ceiling = ceiling
        self.best = max(places, key=places.get)

    def _repr_html_(self) -> str:
        down, across = (sorted({place[i] for place in self.places}) for i in (0, 1))
        head = "".join(f'<th scope="col">{n:,}</th>' for n in across)
        corner = f'<th scope="col">{escape(self.rows)} &darr;<br>{escape(self.columns)} &rarr;</th>'
        body = "".join(
            f'<tr><th scope="row">{r:,}</th>' + "".join(self._cell((r, c)) for c in across) + "</tr>" for r in down
        )
        table = f'<table class="qt-heat"><thead><tr>{corner}{head}</tr></thead><tbody>{body}</tbody></table>'
        share = f"{100 * self.places[self.best]:.0f} %"
        place = f"{counted(self.best[0], self.rows)}, {counted(self.best[1], self.columns)}"
        best = f"Best: {place}, {share} of the speed of {self.ceiling}."
        caption = f"{best} An empty place was not tried or is no configuration."
        return still(self.title, caption, f'<div class="qt-table">{table}</div>', self.where, best)

    def __repr__(self) -> str:
        lines = [f"{r:6} x {c:5}: {share:.0%}" for (r, c), share in sorted(self.places.items())]
        return "\n".join([f"{self.title}: {self.rows} x {self.columns}", *lines, self.where])

    def _cell(self, place) -> str:
        if place not in self.places:
            return "<td></td>"
        share = self.places[place]
        strength = round(55 * min(1.0, max(0.0, (share - PALE) / (1 - PALE))) ** 2)
        colour = f"color-mix(in srgb, var(--qt-s0) {strength}%, var(--qt-paper))"
        mark = " data-best" if place == self.best else ""
        return f'<td{mark} style="background: {colour}">{100 * share:.0f}</td>'
