"""`quack-tutorial labs export FOLDER`: grades.csv and the roster -> what a learning management system imports.

| file in FOLDER/export | what                                                                                            |
|-----------------------|-------------------------------------------------------------------------------------------------|
| `totals.csv`          | for each student and lab: points, those for the words, late days, what they cost, the total        |
| `canvas.csv`          | Canvas's gradebook: its five columns from the roster, the row of points possible, a column a lab   |
| `moodle.csv`          | the roster's columns, a column a lab; Moodle's import asks which column names the student          |

Everyone on the roster has a row, with 0 for a lab that others handed in and they did not. Late days: 4 a term and at most 2 for
one lab cost nothing, in the order of the labs' chapters; each further day costs a tenth of what the answer earned. `--late` sets
other numbers. Where Canvas's roster has the assignment's column, `butterfly (4711)`, the column keeps that name, by which Canvas
finds it. Gradescope gets its points from its own runs of the grader (`scripts/gradescope`).
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path

from . import autograde, collect, lab, release, roster, words
from .autograde import cell

FREE, MOST, COST = 4, 2, 0.1  # days a term, days a lab, share of a lab's points a day
CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
TOTALS = ("student", "name", "lab", "points", "words", "late_days", "free_days", "cost", "total", "of")


@dataclass(frozen=True)
class Total:
    """What one student has for one lab."""

    points: float
    words: float
    late_days: int
    free_days: int
    of: float
    a_day: float = COST

    @property
    def cost(self) -> float:
        days = self.late_days - self.free_days
        return min(1.0, round(self.a_day * days, 6)) * (self.points + self.words)

    @property
    def total(self) -> float:
        return round(self.points + self.words - self.cost, 2)


def export(folder: Path, late: tuple = (FREE, MOST, COST)) -> list[str]:
    """Write the tables; the sentences on what they lack. A ValueError says why there are none."""
    rows = autograde.manual(folder)
    if not rows:
        raise ValueError(f"{folder}/grades.csv is missing or empty: quack-tutorial labs autograde {folder} writes it")
    said = []
    given = folder / "roster.csv"
    students = roster.read(given) if given.is_file() else []
    if not students:
        said.append(f"{given} is missing: no IDs, and no zeros for those who handed in nothing")
    labs = [name for name in release.in_order() if any(of == name for _, of in rows)]
    graded = {who for who, of in rows if of in labs}
    strangers = sorted(graded - {cell(one.folder) for one in students})
    if students and strangers:
        said.append(f"not on the roster, so in totals.csv alone: {', '.join(strangers)}")
    everyone = [*students, *(roster.Student(one, one, {}) for one in strangers)]
    totals = {one.folder: _of_student(cell(one.folder), labs, rows, said, late) for one in everyone}
    (folder / "export").mkdir(exist_ok=True)
    lines = [
        [cell(one.folder), cell(one.name), name, *_numbers(totals[one.folder][name])]
        for one in everyone
        for name in labs
    ]
    _write(folder / "export" / "totals.csv", [TOTALS, *lines])
    if students:
        columns = _columns(students[0].row, labs)
        _write(folder / "export" / "canvas.csv", _canvas(students, totals, columns))
        kept = [column for column in students[0].row if column and column not in columns.values()]
        of_roster = [[cell((one.row.get(column) or "").strip()) for column in kept] for one in students]
        points = [[_number(totals[one.folder][name].total) for name in labs] for one in students]
        _write(folder / "export" / "moodle.csv", [[*kept, *labs], *(a + b for a, b in zip(of_roster, points))])
    unknown = [
        f"{who} {of}"
        for who, of in sorted(collect.late_by_unknown(folder) & set(rows))
        if not rows[who, of].get("late_days")
    ]
    if unknown:
        said.append(f"late, with no days in grades.csv yet, counted as 0: {', '.join(unknown)}")
    counts = f"{len(everyone)} student{'s' * (len(everyone) != 1)}, {len(labs)} lab{'s' * (len(labs) != 1)}"
    said.append(f"wrote {folder / 'export'}: {counts}")
    return said


def _of_student(who: str, labs: list[str], rows: dict, said: list[str], late: tuple) -> dict:
    """{lab: the student's total}, late days spent in the order of the labs."""
    (left, at_most, a_day), found = late, {}
    for name in labs:
        row = rows.get((who, name), {})
        most = words.asked(name)[2]
        points, of = (_value(row.get(column), f"{who} {name}: {column}", said) for column in ("points", "of"))
        in_words = _value(row.get("manual"), f"{who} {name}: manual", said)
        if row and not row.get("manual"):
            said.append(f"{who} {name}: no points for the words yet, counted as 0")
        if str(row.get("verdict") or "").startswith("not graded"):
            said.append(f"{who} {name}: {row['verdict']}, counted as {points:g}")
        days = int(_value(row.get("late_days"), f"{who} {name}: late_days", said))
        free = int(min(days, at_most, left))
        left -= free
        of = of or sum(lab(name).CHECKS.values())
        found[name] = Total(points, in_words, days, free, of + most, a_day)
    return found


def _value(text, what: str, said: list[str]) -> float:
    try:
        value = float((text or "0").strip().replace(",", "."))
        if 0 <= value < 1000:
            return value
    except ValueError:
        pass
    said.append(f"{what} is {text!r}, which is no number; counted as 0")
    return 0.0


def _columns(row: dict, labs: list[str]) -> dict:
    """{lab: the name of its column}, as the roster has it where it is Canvas's export."""
    named = {
        name: [c for c in row if c and re.fullmatch(rf"(?i)(lab:? )?{re.escape(name)} \(\d+\)", c)] for name in labs
    }
    return {name: found[0] if len(found) == 1 else name for name, found in named.items()}


def _canvas(students: list, totals: dict, columns: dict) -> list:
    lines = [[*CANVAS, *columns.values()]]
    possible = [_number(totals[students[0].folder][name].of) for name in columns]
    lines.append(["    Points Possible", *[""] * (len(CANVAS) - 1), *possible])
    for one in students:
        own = {"Student": one.name} | {
            column: (one.row.get(column) or "").strip() for column in CANVAS if one.row.get(column)
        }
        lines.append(
            [*(cell(own.get(c, "")) for c in CANVAS), *(_number(totals[one.folder][name].total) for name in columns)]
        )
    return lines


def _numbers(total: Total) -> list:
    values = (total.points, total.words, total.late_days, total.free_days, total.cost, total.total, total.of)
    return [_number(value) for value in values]


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _write(file: Path, lines) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    autograde.replace(file, text.getvalue())
