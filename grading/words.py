"""`quack-tutorial labs words FOLDER [LAB]`: the answers in words beside their rubric, and their points into grades.csv.

| file in FOLDER     | what                                                                                               |
|--------------------|----------------------------------------------------------------------------------------------------|
| `words/<lab>.html` | the question, what it is worth and for what, and under it each student's answer                      |
| `words/<lab>.csv`  | student, points, comment, in the page's order: fill it in, and give the command again                |

The second time, the points go into the columns `manual` and `comment` of grades.csv. Points above the question's are refused.
"""

from __future__ import annotations

import csv
import io
import json
import re
from html import escape
from pathlib import Path

from . import autograde, folders, lab, roster, student
from .autograde import cell
from .feedback import STYLE
from .grade import read
from .judgement import Refused, clean
from .submission import parts

COLUMNS = ("student", "points", "comment")
QUESTION = re.compile(r"(?m)^## Explain\n(.*?)\n\+\+\+ (\{.*\})\n(.*)\Z", re.DOTALL)


def words(folder: Path, only: str = "") -> list[str]:
    """Write the pages and tables of a class's folder, and take in the points of the tables; sentences on what was done."""
    found, _ = autograde.submissions(folder)
    labs = [name for name in folders() if (only in ("", name)) and any(of == name for _, of in found)]
    if not labs:
        raise ValueError(f"{folder} holds no FOLDER/<student>/<lab>.ipynb" + (f" of {only}" if only else ""))
    if not (folder / "grades.csv").is_file():
        raise ValueError(f"{folder}/grades.csv is missing: quack-tutorial labs autograde {folder} writes it")
    (folder / "words").mkdir(exist_ok=True)
    said, notes = [], autograde.manual(folder)
    for name in labs:
        question, rubric, most = asked(name)
        table = folder / "words" / f"{name}.csv"
        taken = _taken_in(table, name, most, notes, said) if table.is_file() else 0
        answers = {who: answer(files) for (who, of), files in sorted(found.items()) if of == name}
        _write(table, name, answers, notes)
        page = table.with_suffix(".html")
        page.write_text(_page(name, question, rubric, most, answers, notes), encoding="utf-8")
        missing = sum(not (notes.get((cell(who), name)) or {}).get("manual") for who in answers)
        said.append(
            f"{page}: {len(answers)} answers for {most} points, {taken} points taken in, {missing} without points"
        )
    autograde.replace(folder / "grades.csv", autograde.as_csv(notes))
    return said


def asked(name: str) -> tuple[str, str, float]:
    """(the question, its rubric, its points) of a lab's last cell, from the instructor's notebook."""
    master = (folders()[name] / f"{name}.md").read_text(encoding="utf-8")
    question, metadata, rubric = QUESTION.search(master).groups()
    rubric = "\n".join(line for line in rubric.splitlines() if line not in student.SOLUTION)
    return question.strip(), rubric.strip(), json.loads(metadata)["nbgrader"]["points"]


def answer(files: list[Path]) -> str:
    """What a student wrote under "Explain"; "" where there is nothing, and why in brackets where the file cannot be read."""
    file = files[0]
    try:
        text = read(file)
        if file.suffix == ".ipynb":
            parts(file.name, text)  # Refused if it is no notebook
            cells = json.loads(text)["cells"]
            text = _of_notebook([one for one in cells if isinstance(one, dict)])
        else:
            text = text.partition("\n## Explain\n")[2]
            text = re.sub(r"(?m)^\+\+\+.*$", "\0", text).rpartition("\0")[2]
    except (Refused, ValueError, TypeError, AttributeError, RecursionError) as error:
        return f"[{clean(str(error), 200)}]"
    text = text.encode("utf-8", "replace").decode("utf-8")  # half of a character, as JSON may hold one
    return "\n".join(line for line in text.splitlines() if line.strip() not in student.PROSE_STUB).strip()


def _of_notebook(cells: list) -> str:
    """The text of the cell that nbgrader calls explain, or of all cells of text after the question."""
    texts = ["".join(one.get("source") or "") for one in cells]
    for one, text in zip(cells, texts):
        metadata = one.get("metadata")
        if isinstance(metadata, dict) and (metadata.get("nbgrader") or {}).get("grade_id") == "explain":
            return text
    at = next((i for i, text in enumerate(texts) if text.lstrip().startswith("## Explain")), len(texts))
    return "\n\n".join(
        text for one, text in zip(cells[at + 1 :], texts[at + 1 :]) if one.get("cell_type") == "markdown"
    )


def _taken_in(table: Path, name: str, most: float, notes: dict, said: list[str]) -> int:
    """Put the points of a table into the notes; how many."""
    count = 0
    for row in roster.table(table):
        points, comment = ((row.get(column) or "").strip() for column in ("points", "comment"))
        note = notes.get((row.get("student"), name))
        if note is None or not (points or comment):
            continue
        try:
            good = not points or 0 <= float(points.replace(",", ".")) <= most
        except ValueError:
            good = False
        if not good:
            said.append(
                f"{table}: {row['student']} has {points!r}, which is no number from 0 to {most}; left as it was"
            )
            continue
        count += bool(points)
        note.update(
            {"manual": points.replace(",", ".") or note.get("manual"), "comment": comment or note.get("comment")}
        )
    return count


def _write(table: Path, name: str, answers: dict, notes: dict) -> None:
    text = io.StringIO()
    written = csv.writer(text, lineterminator="\n")
    written.writerow(COLUMNS)
    for who in answers:
        note = notes.get((cell(who), name)) or {}
        written.writerow([cell(who), note.get("manual") or "", cell(note.get("comment") or "")])
    autograde.replace(table, text.getvalue())


def _page(name: str, question: str, rubric: str, most: float, answers: dict, notes: dict) -> str:
    """The page of one lab; everything that a student could have written is escaped."""
    parts = [
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">\n'
        f"<title>Words: {escape(name)}</title>\n<style>{STYLE}"
        "body { max-width: 76rem; } main { display: grid; grid-template-columns: 22rem 1fr; gap: 2rem; }\n"
        "aside { position: sticky; top: 1rem; align-self: start; } article { white-space: pre-wrap; }\n"
        "@media (max-width: 52rem) { main { grid-template-columns: 1fr; } aside { position: static; } }</style>\n"
        f"<h1>{escape(lab(name).TITLE)}</h1>\n<main><aside><p>{escape(question)}</p>\n<h2>{most} points</h2><p>{escape(rubric)}</p>"
        f'<p class="soft">Write points and comments into {escape(name)}.csv beside this page, then give the command again.</p>'
        "</aside><div>\n"
    ]
    for who, text in answers.items():
        note = notes.get((cell(who), name)) or {}
        told = f"{note['manual']} of {most}" if note.get("manual") else "no points yet"
        body = f"<article>{escape(text)}</article>" if text else '<p class="soft">Nothing written.</p>'
        parts.append(f'<h2>{escape(who)} <span class="soft">{escape(told)}</span></h2>\n{body}\n')
    return "".join([*parts, "</div></main></html>\n"])
