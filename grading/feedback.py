"""`quack-tutorial labs feedback FOLDER`: one HTML page for each student, FOLDER/feedback/<student>.html, from grades.json.

A page needs no network and no script, and follows the reader's light or dark scheme. What an instructor wrote into grades.csv
(points by hand, late days, a comment) is on it. Everything that a student could have written is escaped.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from . import folders, lab
from .autograde import cell, manual

STYLE = """
:root { color-scheme: light dark; --ink: #1d2433; --soft: #5a6374; --paper: #ffffff; --line: #d9dee7; --code: #f4f6f9;
  --good: #1a7f37; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #a3adbd; --paper: #14181f; --line: #343c49; --code: #1d232d;
  --good: #57c26f; --bad: #ff8a80; } }
body { margin: 0 auto; max-width: 46rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1.2rem; }
table { border-collapse: collapse; } td, th { padding: .2rem 1rem .2rem 0; text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 500; } th, td.number { white-space: nowrap; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: var(--code); padding: .6rem .8rem; white-space: pre-wrap; font-size: .88rem; border-radius: 4px; }
.good { color: var(--good); } .bad { color: var(--bad); } .soft { color: var(--soft); }
"""


def feedback(folder: Path) -> list[Path]:
    """Write the pages; the files written. A ValueError says what is missing."""
    try:
        entries = json.loads((folder / "grades.json").read_text(encoding="utf-8"))
        students = {}
        for entry in entries:
            students.setdefault(entry["student"], []).append(entry)
    except FileNotFoundError:
        raise ValueError(f"{folder}/grades.json is missing: quack-tutorial labs autograde {folder} writes it") from None
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{folder}/grades.json is not what autograde writes; run it again") from None
    notes, written = manual(folder), []
    (folder / "feedback").mkdir(exist_ok=True)
    for student, own in students.items():
        file = folder / "feedback" / f"{Path(student).name}.html"
        file.write_text(page(student, own, notes), encoding="utf-8")
        written.append(file)
    return written


def page(student: str, entries: list[dict], notes: dict) -> str:
    """A student's page, labs in the order of the list of labs."""
    body = "".join(section(entry, notes.get((cell(student), entry["lab"]), {})) for entry in entries)
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">\n'
        f"<title>Labs: {escape(student)}</title>\n<style>{STYLE}</style>\n<h1>Labs: {escape(student)}</h1>\n"
        "<p>Mend what a lab's first diagnosis says, run the checks in your notebook again, then read on.</p>\n"
        f"{body}</html>\n"
    )


def section(entry: dict, notes: dict) -> str:
    """One lab: its points, its checks, its diagnoses."""
    title = lab(entry["lab"]).TITLE if entry["lab"] in folders() else entry["lab"]
    lines = [f"<h2>{escape(title)}</h2>", f"<p><b>{entry['score']} of {entry['points']} points</b> "]
    lines[-1] += f'<span class="soft">for {escape(entry["file"])}</span></p>'
    for column, says in (("manual", "Points by hand"), ("late_days", "Late days used"), ("comment", "Comment")):
        if notes.get(column):
            lines.append(f"<p>{says}: {escape(notes[column])}</p>")
    if entry.get("compiled"):
        lines.append(f'<p class="soft">{escape(entry["compiled"])}</p>')
    numbers = {d["kind"]: i for i, d in enumerate(entry["diagnoses"], 1)}
    if entry["checks"]:
        lines.append("<table>")
    for check in entry["checks"]:
        right = check["kind"] is None
        told = "right" if right else f"see {numbers[check['kind']]}: {check['kind']}"
        lines.append(
            f'<tr><th scope="row">{escape(check["name"])}</th><td class="number">{check["score"]} of {check["points"]}</td>'
            f'<td class="{"good" if right else "bad"}">{escape(told)}</td></tr>'
        )
    if entry["checks"]:
        lines.append("</table>")
    if entry["diagnoses"]:
        lines.append("<ol>")
    for diagnosis in entry["diagnoses"]:
        source = "\n".join(f"{line['file']}:{line['line']}:  {line['text']}" for line in diagnosis["lines"])
        lines.append(f"<li><p>{escape(diagnosis['message'])}</p>" + (f"<pre>{escape(source)}</pre>" if source else ""))
    if entry["diagnoses"]:
        lines.append("</ol>")
    return "\n".join(lines) + "\n"
