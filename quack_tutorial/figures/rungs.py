"""`rung`: one version of a ladder, what the cost model says of it, what was measured, and what the compiler gave it.

`last_rungs` sets several versions beside each other, as they were measured on an H100.

The model is `cost.predict`, plus a launch: the passes over the rows, what the blocks of an SM have in flight in each, how much of
L2 the rows in work fill, and the instructions that were counted (`records.compiled`).
"""

from __future__ import annotations

from html import escape
from itertools import groupby

from quack_tutorial import cost, hardware
from quack_tutorial.hardware import ITEM_BYTES
from quack_tutorial.operations import OPERATIONS, named
from quack_tutorial.records import bench as records
from quack_tutorial.records import compiled, memory, profile, results
from quack_tutorial.records.cells import CellKey, default_rows
from quack_tutorial.records.statistics import median

from .player import still
from .suites import lined_up

HEAD = "", *"N,model,measured,of the ceiling,of the peak,DRAM,registers,spilled".split(",")
SIZES = (1024, 4096, 16384, 131072)


def rung(operation, version, moved=1.0, sizes=SIZES, dtypes=("float32", "bfloat16")) -> Rung:
    """A row for each size and dtype of one version; `moved` is what it asks for, as a multiple of the necessary bytes.

    Where Nsight Compute counted this version at one of the sizes, a column has the bytes of DRAM, as such a multiple.
    """
    operation = named(operation)
    cells = records.latest_cells(records.load_records(operation=operation, series="ladder"))
    ladders, counted = compiled.load(), profile.load()
    rows, origins, ceilings = [], [], []
    for dtype in dtypes:
        for N in sizes:
            held = cells.get(CellKey(operation, dtype, default_rows(N), N))
            entry = ladders.find(operation, version, dtype, N)
            result = held[1].result(version) if held else None
            nbytes = held[1].bytes_moved if held else _least(operation, dtype, N)
            times = (_model(entry), *_measured(result))
            if held:
                origins.append(results.provenance(held[0]))
                ceilings.append(held[1].ceiling)
            took = (str(entry.registers), _bytes(entry.spilled)) if entry else ("", "")
            dram = [
                c for c in counted.of(operation, N) if (c.provider, c.dtype, c.M) == (version, dtype, default_rows(N))
            ]
            share = f"{_dram(dram[0]) / nbytes:.2f} x" if dram else ""
            rows.append((dtype, f"{N:,}", *times, share, *took))
    head, told = HEAD, "DRAM: the bytes counted there, as a multiple of the necessary ones. "
    at = HEAD.index("DRAM")
    if any(row[at] for row in rows):
        origins.append(counted.origin)
    else:
        head, *rows = (row[:at] + row[at + 1 :] for row in (HEAD, *rows))
        told = ""
    if moved != 1:
        told = f"It asks for {moved:.2g} times the necessary bytes (simulated). {told}"
    if ceilings:
        head = tuple(f"of the {records.ruler(ceilings)[0]}" if name == "of the ceiling" else name for name in head)
    where = " ".join([*dict.fromkeys(origins), ladders.origin])
    told += "Model and measurement in microseconds, spills in bytes a thread."
    if (operation, version, dtypes[0], sizes[0]) not in compiled.executed():
        told += " Its instructions were not counted, so the model is without them."
    return Rung(f"{operation}: {version}", told, head, tuple(rows), where)


CARD = "h100"  # whose folder of records has the last rungs of every ladder
NOT_MEASURED, SHORT = "not yet measured", "not yet"


def last_rungs(operation, versions, sizes, dtypes=("float32", "bfloat16")) -> Rung:
    """Versions beside each other on an H100, each as a share of the ceiling's speed; what a version refuses has a dash."""
    operation = named(operation)
    found = records.load_records(records.default_folder(CARD), operation=operation, series="ladder")
    cells, rows, origins, ceilings = records.latest_cells(found), [], [], []
    for dtype in dtypes:
        for N in sizes:
            held = cells.get(CellKey(operation, dtype, default_rows(N), N))
            rows.append((dtype, f"{N:,}", *(_share(held and held[1].result(version)) for version in versions)))
            if held:
                origins.append(results.provenance(held[0]))
                ceilings.append(held[1].ceiling)
    told = f"Shares of the speed of {records.ruler(ceilings)[1]}." if ceilings else ""
    if any(SHORT in row for row in rows):
        told = f'{told} Where it says "{SHORT}", nothing has been measured.'.strip()
    return Rung(
        f"{operation}: the last rungs, on {hardware.called(CARD)}",
        told,
        ("", "N", *versions),
        tuple(rows),
        " ".join(dict.fromkeys(origins)),
    )


def _share(result) -> str:
    if result is None:
        return SHORT
    return f"{result.fraction_of_ceiling:.1%}" if result.status == "ok" else "\N{EN DASH}"


class Rung:
    """The table of one version, or of several, as HTML and as text; `head` and `rows` are its texts."""

    def __init__(self, title, summary, head, rows, where):
        self.title, self.summary, self.head, self.rows = title, summary, head, rows
        self.where = where

    def _repr_html_(self) -> str:
        # So that a phone shows all columns.
        hyphened = {"measured": "meas&shy;ured", "registers": "regis&shy;ters"}
        names = [hyphened.get(name, escape(name)) for name in self.head[1:]]
        head = "".join(f'<th scope="col">{name}</th>' for name in names)
        body = "".join(
            f'<tbody><tr><th scope="rowgroup" colspan="{len(names)}">{escape(dtype)}</th></tr>'
            + "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row[1:]) + "</tr>" for row in rows)
            + "</tbody>"
            for dtype, rows in groupby(self.rows, key=lambda row: row[0])
        )
        table = f'<div class="qt-table qt-rung"><table><thead><tr>{head}</tr></thead>{body}</table></div>'
        return still(self.title, self.summary, table, self.where, self.rows)

    def __repr__(self) -> str:
        return "\n".join([self.title, *lined_up((self.head, *self.rows), str.rjust), self.where])


def in_flight(entry) -> int:
    """The bytes that the blocks of an SM together ask for before they use the first."""
    return entry.in_flight * cost.blocks_per_sm(entry.threads, entry.registers, entry.smem)


def predicted(entry, hierarchy) -> cost.Prediction:
    """What the model says of a version as compiled, at the rows of the benchmark, without the launch."""
    row, M = entry.N * ITEM_BYTES[entry.dtype], default_rows(entry.N)
    blocks = cost.blocks_per_sm(entry.threads, entry.registers, entry.smem)
    operation = OPERATIONS[entry.operation]
    pattern, matrix = operation.pattern, M * row
    first, *again = (blocks * each for each in entry.passes)
    rows_at_once = blocks * hierarchy.sms * (entry.threads // 32 if entry.version == "warp" else 1)
    counted = compiled.executed().get((entry.operation, entry.version, entry.dtype, entry.N))
    return cost.predict(
        int(pattern[0]) * matrix,
        first,
        hierarchy,
        again=again,
        written=(int(pattern[2]) * matrix if "W" in pattern else 0) + operation.code_bytes * M * entry.N,
        in_work=rows_at_once * row,
        instructions=counted["instructions"] * M / counted["M"] if counted else 0,
    )


def _model(entry) -> str:
    if entry is None:  # this version does not take such rows
        return ""
    # What was measured beside it is a record, so the model is of the record's card, whatever this machine has.
    return f"{predicted(entry, memory.load()).time_us + cost.LAUNCH_US:,.0f}"


def _least(operation, dtype, N) -> int:
    """What an operation must move where no record says it: its tensors as long as a row."""
    return len(OPERATIONS[operation].pattern) * default_rows(N) * N * ITEM_BYTES[dtype]


def _measured(result) -> tuple[str, str, str]:
    if result is None:
        return NOT_MEASURED, "", ""
    if result.status != "ok":
        return result.status, "", ""
    peak = "" if result.percent_of_datasheet is None else f"{result.percent_of_datasheet:.0f} %"
    us = median(result.samples_us)
    return f"{us:,.{1 if us < 1000 else 0}f}", f"{result.fraction_of_ceiling:.0%}".replace("%", " %"), peak


def _dram(case) -> float:
    return case.total("dram_read_bytes") + case.total("dram_write_bytes")


def _bytes(spilled: int) -> str:
    return f"{spilled:,}" if spilled else "none"
