"""What a suite of `python -m validation` gives: a table, what did not agree, and where it was run; as text and JSON."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from quack_tutorial import records

# name, what it needs; each is a module of `validation` with run(sample, progress) -> Suite, but for those that
# were run once and are `RECORDED`: their record says which program made it, of which commit
RECORDED = "its record"
SUITES = (
    ("operations", "nothing"),
    ("agreement", RECORDED),
    ("rows", "nothing"),
    ("mutation", "nothing"),
    ("orders", RECORDED),
    ("lines", RECORDED),
    ("formulas", RECORDED),
    ("bits", RECORDED),
    ("grading", RECORDED),
    ("compiled", "dsl"),
    ("checkers", RECORDED),
    ("device", RECORDED),
    ("counters", RECORDED),
    ("sanitizer", RECORDED),
    ("beside", RECORDED),
    ("delays", RECORDED),
    ("shipped", RECORDED),
    ("opinfo", RECORDED),
    ("published", RECORDED),
    ("others", RECORDED),
)


ReportError = records.RecordError


@dataclass(frozen=True)
class Suite:
    """One suite's result. `rows` go with `columns`; the suite passed if `mismatches` is empty.

    A note is what a reader of the table has to know (a survivor and why it is equivalent, a difference and its cause).
    `sample` says that only a part was run. `where` names the device and versions, `date` is a day (UTC). `program` is the command
    that made the record and the commit that has it, where it is no longer here.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple, ...]
    mismatches: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    checked: int = 0
    sample: bool = False
    seconds: float = 0.0
    date: str = ""
    where: dict | None = None
    program: dict | None = None

    @property
    def ok(self) -> bool:
        return not self.mismatches

    def __str__(self) -> str:
        head = f"{self.title}: {self.checked:,} compared, {len(self.mismatches)} did not agree"
        head += f" ({'a sample, ' if self.sample else ''}{self.seconds:.0f} s)"
        lines = [head, *_table(self.columns, self.rows)]
        lines += [f"  {note}" for note in self.notes]
        lines += [f"  MISMATCH {mismatch}" for mismatch in self.mismatches]
        return "\n".join(lines)


def _table(columns, rows):
    texts = [tuple(map(str, row)) for row in (columns, *rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(columns))]
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in texts]


def here() -> dict:
    """The versions that a suite without a GPU depends on."""
    import numpy

    return {"python": platform.python_version(), "numpy": numpy.__version__, "system": platform.system()}


def default_folder() -> Path:
    """quack_tutorial/records/validation of the checkout that this package is in."""
    return records.FOLDER / "validation"


def save(suite: Suite, folder) -> Path:
    """Write `suite` as FOLDER/NAME.json."""
    path = Path(folder) / f"{suite.name}.json"
    records.save(path, asdict(suite))
    return path


def load(path) -> Suite:
    """Read one recorded suite; ReportError says what is wrong with a broken one."""
    kept = records.build(Suite, records.read(path, "rows"), path)
    return replace(kept, rows=tuple(map(tuple, kept.rows)))
