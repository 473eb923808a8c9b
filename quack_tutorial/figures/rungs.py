"""`rung`: one version of a ladder, what the cost model says of it, what was measured, and what the compiler gave it.

The model has the bytes that a simulated run asked for, all of them through HBM, and the bytes that the blocks of an SM ask for
before they use the first (`records.compiled`). It knows no cache and no instruction: where they decide, it is off, and that is to
be seen.
"""

from __future__ import annotations

from html import escape

from quack_tutorial import cost
from quack_tutorial.bench import records, results
from quack_tutorial.bench.operations import ITEM_BYTES, OPERATIONS, CellKey, default_rows, named
from quack_tutorial.bench.statistics import median
from quack_tutorial.records import compiled

from .player import page
from .theme import asset

HEAD = ("", "N", "model", "measured", "of the copy", "of the peak", "registers", "spilled")
SIZES = (1024, 4096, 16384, 131072)


def rung(operation, version, moved=1.0, sizes=SIZES, dtypes=("float32", "bfloat16")) -> Rung:
    """A row for each size and dtype of one version; `moved` is what it asks for, as a multiple of the necessary bytes."""
    operation = named(operation)
    cells = records.latest_cells(records.load_records(operation=operation, series="ladder"))
    ladders = compiled.load()
    rows, origins = [], []
    for dtype in dtypes:
        for N in sizes:
            held = cells.get(CellKey(operation, dtype, default_rows(N), N))
            entry = ladders.find(operation, version, dtype, N)
            result = held[1].result(version) if held else None
            nbytes = held[1].bytes_moved if held else _least(operation, dtype, N)
            times = (_model(entry, moved * nbytes), *_measured(result))
            if held:
                origins.append(results.provenance(held[0]))
            took = (str(entry.registers), _bytes(entry.spilled)) if entry else ("", "")
            rows.append((dtype, f"{N:,}", *times, *took))
    share = f"It asks for {moved:.2g} times the necessary bytes (simulated). " if moved != 1 else ""
    where = " ".join([*dict.fromkeys(origins), ladders.origin])
    return Rung(f"{operation}: {version}", share, tuple(rows), where)


class Rung:
    """The table of one version as HTML and as text; `rows` are its texts."""

    def __init__(self, title, summary, rows, where):
        self.title, self.summary, self.rows, self.where = title, summary, rows, where

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in HEAD)
        body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in self.rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return page(
            title=self.title,
            controls="",
            caption=f"<p>{escape(self.summary)}Model and measurement in microseconds, spills in bytes a thread.</p>",
            picture=f'<style>{asset("ladder.css")}</style><div class="qt-table">{table}</div>',
            width=840,
            key="",
            origin=self.where,
            least=280,
            data=[self.title, self.rows],
        )

    def __repr__(self) -> str:
        widths = [max(len(row[i]) for row in (HEAD, *self.rows)) for i in range(len(HEAD))]
        lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths)) for row in (HEAD, *self.rows)]
        return "\n".join([self.title, *lines, self.where])


def in_flight(entry) -> int:
    """The bytes that the blocks of an SM together ask for before they use the first."""
    return entry.in_flight * cost.blocks_per_sm(entry.threads, entry.registers, entry.smem)


def _model(entry, nbytes) -> str:
    if entry is None:  # this version does not take such rows
        return ""
    return f"{cost.predict(nbytes, in_flight(entry)).time_us:,.0f}"


def _least(operation, dtype, N) -> int:
    """What an operation must move where no record says it: its tensors as long as a row."""
    return len(OPERATIONS[operation].pattern) * default_rows(N) * N * ITEM_BYTES[dtype]


def _measured(result) -> tuple[str, str, str]:
    if result is None:
        return "not yet measured", "", ""
    if result.status != "ok":
        return result.status, "", ""
    peak = "" if result.percent_of_datasheet is None else f"{result.percent_of_datasheet:.0f} %"
    return f"{median(result.samples_us):,.1f}", f"{result.fraction_of_ceiling:.0%}".replace("%", " %"), peak


def _bytes(spilled: int) -> str:
    return f"{spilled:,}" if spilled else "none"
