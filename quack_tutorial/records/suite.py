"""What a suite of `python -m validation` gives: a table, what did not agree, and where it was run; as text and JSON."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from quack_tutorial import machine
from quack_tutorial.records import FOLDER

SCHEMA = 1
# name, what it needs; "past" was measured once, by a program that stands in the repository's history (`made_by` of its record).
# Each other one is a module of `validation`, or of `validation.gpu`, with run(sample, progress) -> Suite
SUITES = (
    ("operations", "nothing"),
    ("agreement", "nothing"),
    ("rows", "nothing"),
    ("mutation", "nothing"),
    ("orders", "nothing"),
    ("grading", "nothing"),
    ("compiled", "dsl"),
    ("checkers", "past"),
    ("device", "gpu"),
    ("counters", "gpu"),
    ("sanitizer", "gpu"),
    ("beside", "past"),
    ("shipped", "gpu"),
    ("opinfo", "gpu"),
    ("published", "past"),
    ("others", "past"),
)


class ReportError(ValueError):
    """A recorded suite that cannot be used; the message says which and why."""


@dataclass(frozen=True)
class Suite:
    """One suite's result. `rows` go with `columns`; the suite passed if `mismatches` is empty.

    A note is what a reader of the table has to know (a survivor and why it is equivalent, a difference and its cause).
    `sample` says that only a part was run. `where` names the device and versions, `date` is a day (UTC).
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
    made_by: str = ""  # the commit whose program made it, where that is not kept

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
    return FOLDER / "validation"


def save(suite: Suite, folder) -> Path:
    """Write `suite` as FOLDER/NAME.json, one row a line; the file is replaced whole."""
    path = Path(folder) / f"{suite.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"schema": SCHEMA, **asdict(suite)}
    parts = []
    for key, value in data.items():
        if isinstance(value, tuple) and value:
            items = ",\n  ".join(json.dumps(item, ensure_ascii=False) for item in value)
            parts.append(f"{json.dumps(key)}: [\n  {items}]")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")
    unfinished.replace(path)
    return path


def load(path) -> Suite:
    """Read one recorded suite; ReportError says what is wrong with a broken one."""
    path = Path(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReportError(
            f"{path}: cannot be read as JSON ({machine.reason(error)}); record it again with python -m validation"
        ) from error
    if not isinstance(data, dict) or data.pop("schema", None) != SCHEMA:
        raise ReportError(f"{path}: not of schema {SCHEMA}; record it again with python -m validation")
    names = {field.name for field in fields(Suite)}
    if not names >= set(data) or not {"name", "title", "columns", "rows"} <= set(data):
        raise ReportError(f"{path}: fields do not fit; record it again with python -m validation")
    for key, value in data.items():
        if isinstance(value, list):
            data[key] = tuple(tuple(item) if isinstance(item, list) else item for item in value)
    return Suite(**data)
