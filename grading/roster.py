"""A course's roster: who is in the course, under the names that a learning management system gives them.

A roster is a CSV that the system itself exports: Canvas's gradebook, Moodle's participants or grades, Gradescope's roster, or a
table of one's own with some of these columns:

| what   | columns that are read                                                                                   |
|--------|---------------------------------------------------------------------------------------------------------|
| name   | Student, Name, Full name; or First name and Last name, Surname                                           |
| folder | the first that is filled in for all of SIS Login ID, Username, Email, Email address, SID, ID number,      |
|        | SIS User ID, ID                                                                                         |

The other columns travel along, for `export`.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from .judgement import clean

KEYS = ("sis login id", "username", "email", "email address", "sid", "id number", "sis user id", "id")
NAMES = ("student", "name", "full name")
RESERVED = ("feedback", "words", "export")  # folders that the kit makes beside the students'


@dataclass(frozen=True)
class Student:
    """A row of a roster: `folder` is the student's in a class's folder, `row` has the columns as they were given."""

    folder: str
    name: str
    row: dict

    def known_as(self) -> set[str]:
        """Each way in which a download may name the student, folded."""
        words = re.split(r",\s*", self.name, maxsplit=1)
        ways = {self.folder, self.name, " ".join(words), " ".join(words[::-1])}
        parts = " ".join(words[::-1]).split()
        ways.add(" ".join(parts[-1:] + parts[:-1]))  # Canvas puts the last name first
        ways |= {value for column, value in self.row.items() if (column or "").strip().lower() in KEYS}
        return {folded(one) for one in ways if folded(one)}


def read(file: Path) -> list[Student]:
    """The students of a roster; a ValueError says what it lacks."""
    rows = table(file)
    if not rows:
        raise ValueError(f"{file} has no rows")
    columns = {(name or "").strip().lower(): name for name in rows[0]}
    rows = [row for row in rows if not _is_no_student(row, columns)]

    def value(row, name):
        return (row.get(columns.get(name)) or "").strip()

    key = next((one for one in KEYS if rows and all(value(row, one) for row in rows)), None)
    if key is None:
        raise ValueError(
            f"{file} has no column that tells every student apart; one of these is needed: {', '.join(KEYS)}"
        )
    students, taken = [], {}
    for row in rows:
        first = value(row, "first name")
        last = value(row, "last name") or value(row, "surname")
        name = next(filter(None, (value(row, one) for one in NAMES)), f"{first} {last}".strip())
        student = Student(folder_name(value(row, key)), clean(name or value(row, key), 200), row)
        if student.folder.casefold() in taken:
            raise ValueError(
                f"{file}: {taken[student.folder.casefold()]} and {student.name} have the same {columns[key]}"
            )
        taken[student.folder.casefold()] = student.name
        students.append(student)
    return students


def _is_no_student(row: dict, columns: dict) -> bool:
    """Whether a row is an empty one, or one of a Canvas export that holds points possible, or its test student."""
    texts = [value.strip() for value in row.values() if isinstance(value, str)]
    named = (row.get(columns.get("student")) or "").strip().lower()
    return not any(texts) or named in ("points possible", "student, test") or ("student" in columns and not named)


def table(file: Path) -> list[dict]:
    """The rows of a CSV as spreadsheets and learning management systems save them: commas, semicolons or tabs, UTF-8 or cp1252."""
    data = file.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:  # as a spreadsheet on Windows may save it
        text = data.decode("cp1252", "replace")
    head = text.partition("\n")[0]
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=head.count)))


def folded(text: str) -> str:
    """A name without case, accents and whatever is neither letter nor digit, as file names of downloads spell it."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in plain if c.isalnum())


def folder_name(text: str) -> str:
    """A text as the name of a folder that is safe on each system, and none that the kit needs itself."""
    name = re.sub(r'[/\\:*?"<>|]', "-", clean(text, 100)).strip(". ") or "nobody"
    return f"{name}-" if name.casefold() in RESERVED else name


def matching(students: list[Student], *names: str) -> list[Student]:
    """The students whom the first of these names that anybody bears can mean; more than one where it is ambiguous."""
    for name in filter(None, map(folded, names)):
        found = [student for student in students if name in student.known_as()]
        if found:
            return found
    return []
