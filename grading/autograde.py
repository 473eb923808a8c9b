"""`quack-tutorial labs autograde FOLDER`: grade FOLDER/<student>/<lab>.ipynb (or .md, .py), several at a time.

`quack-tutorial labs regrade FOLDER [LAB] [--student NAME]`: grade these once more, with the seeds of their grades, and say
what changed.

| file in FOLDER | what                                                                                          |
|----------------|-----------------------------------------------------------------------------------------------|
| `grades.jsonl` | a line for each submission, written as soon as it is graded; a later run does not grade it again |
| `grades.json`  | all reports                                                                                   |
| `grades.csv`   | student, lab, points, of, verdict; and manual, late_days, comment, which are the instructor's |

A submission is graded again, and its kernel compiled again, when its file, the lab or the seed has changed, or whether there is a
compiler. What the instructor wrote into grades.csv stays; late days that `labs collect` could tell fill an empty cell.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import secrets
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from . import FILES, compiled, folders, lab, roster, sandbox
from .grade import failed, grade, nothing, read
from .judgement import Refused, clean

UNTRUSTED = "Without one a submission runs as you, beside the other submissions; if you trust those who wrote them, say --trusted."
COLUMNS = ("student", "lab", "points", "of", "verdict")
MANUAL = ("manual", "late_days", "comment")


def run(
    folder: Path,
    seed: int | None,
    seconds: float,
    trusted: bool,
    confirm: bool = True,
    again=None,
    jobs: int | None = None,
) -> int:
    """Grade what is not graded yet; 0 when all is, 1 if the grader failed on a file, 2 for an empty folder or where there is
    no sandbox, 130 if interrupted. `again(student, lab)` says which are graded in any case, and the others are not."""
    found, strays = submissions(folder)
    if not found:
        print(f"autograde: {folder} holds no FOLDER/<student>/<lab>.ipynb, .md or .py", file=sys.stderr)
        return 2
    if sandbox.problem() and not trusted:
        print(f"autograde: {sandbox.problem()} {UNTRUSTED}", file=sys.stderr)
        return 2
    log = folder / "grades.jsonl"
    if log.is_dir():
        print(
            f"autograde: {log} is a folder, and grades are kept in a file of that name: rename the folder",
            file=sys.stderr,
        )
        return 2
    known = {(entry["student"], entry["lab"]): entry for entry in logged(log)}
    why = compiled.problem() if confirm else "--no-compile"
    keys = {who: digest(who[1], files, seed, seconds, not why) for who, files in found.items()}
    todo = [who for who in found if (again(*who) if again else known.get(who, {}).get("digest") != keys[who])]
    before = {who: known.get(who) for who in todo}
    if again and not todo:
        print(f"autograde: {folder} holds no such submission", file=sys.stderr)
        return 2
    told = f"not compiled: {why}" if why else "compiled"
    print(f"{len(found)} submissions, {len(found) - len(todo)} graded already; full marks are {told}", flush=True)
    start, status, lock = time.monotonic(), 0, threading.Lock()
    pool = ThreadPoolExecutor(jobs or os.cpu_count())  # each submission has a process of its own
    try:
        with log.open("a", encoding="utf-8") as out:
            if log.stat().st_size and not log.read_bytes().endswith(b"\n"):  # a run was killed while it wrote this line
                out.write("\n")

            def one(who):
                # A seed of its own: what feedback shows of its numbers is worth nothing in the next attempt.
                own = secrets.randbelow(10**15) if seed is None else seed
                own = before[who]["seed"] if again and seed is None and before[who] else own
                entry = graded(*who, found[who], own, seconds, confirm) | {"digest": keys[who]}
                if "failed" not in entry:
                    with lock:
                        out.write(json.dumps(entry) + "\n")
                        out.flush()
                return who, entry

            for count, future in enumerate(as_completed([pool.submit(one, who) for who in todo]), 1):
                who, entry = future.result()
                known[who] = entry
                status = 1 if "failed" in entry else status
                left = (time.monotonic() - start) / count * (len(todo) - count)
                points = f"{entry['score']} of {entry['points']}"
                print(
                    f"[{count}/{len(todo)}, {left:.0f} s left] {who[0]} {who[1]}: {points}, {entry['verdict']}"
                    f"{changed(before[who], entry) if again else ''}",
                    flush=True,
                )
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        print(f"\nautograde: stopped; what is graded is in {log}, and the same command goes on", file=sys.stderr)
        status = 130
    current = {who for who in found if known.get(who, {}).get("digest") == keys[who]} | (
        set(known) & set(found) if again else set()
    )
    entries = [known[who] for who in sorted(current)]
    write_tables(folder, entries)
    for stray in strays:
        print(f"autograde: not graded: {stray}", file=sys.stderr)
    print(f"wrote {folder / 'grades.csv'} and grades.json: {len(entries)} of {len(found)} submissions")
    pool.shutdown()
    return status


def changed(before: dict | None, now: dict) -> str:
    """What a grade was before, where it was another one."""
    if before is None or (before["score"], before["verdict"]) == (now["score"], now["verdict"]):
        return "" if before is None else ", as before"
    return f"; it was {before['score']}, {before['verdict']}"


def submissions(folder: Path) -> tuple[dict, list[str]]:
    """({(student, lab): its files}, a sentence for each file and folder that is no submission)."""
    found, strays = {}, []
    for home in sorted(folder.iterdir()) if folder.is_dir() else []:
        if home.is_symlink() or not home.is_dir() or home.name.startswith(".") or home.name in roster.RESERVED:
            continue
        before = len(found)
        for file in sorted(home.iterdir()):
            if file.stem in folders() and file.suffix in (".ipynb", ".md", ".py"):
                files = found.setdefault((clean(home.name), file.stem), [file])
                if files[0].parent != home:
                    strays.append(
                        f"{file.name} of {home.name!r}: {files[0].parent.name!r} looks the same; rename one of the folders"
                    )
                elif files[0] != file:
                    files.append(file)
            elif file.suffix in (".ipynb", ".py", ".md") and file.name != "README.md":
                strays.append(f"{clean(home.name)}/{clean(file.name)}, which is named as no lab is")
        if len(found) == before and not (strays and repr(home.name) in strays[-1]):
            strays.append(f"{clean(home.name)}, who has handed in nothing")
    return found, strays


def digest(name: str, files: list[Path], seed: int | None, seconds: float, compiles: bool) -> str:
    """What a grade depends on: the files, the lab, the seed that was asked for, the time, whether a compiler confirms it."""
    home = folders()[name]
    state = hashlib.sha256(json.dumps([seed, seconds, compiles, [file.name for file in files]]).encode())
    for file in [*files, *(home / one for one in FILES)]:
        if file.is_file() and not file.is_symlink():
            try:
                with file.open("rb") as content:
                    state.update(content.read(2**21))
            except OSError as error:  # `graded` tells
                state.update(str(error.errno).encode())
    return state.hexdigest()


def graded(student: str, name: str, files: list[Path], seed: int, seconds: float, confirm: bool) -> dict:
    """The entry of one submission: its report, and a verdict in a few words. It never raises."""
    try:
        try:
            if len(files) > 1:
                names = " and ".join(file.name for file in files)
                raise Refused("two files", f"{names} are both there; hand in one of them")
            if files[0].is_symlink():
                raise Refused("unreadable", f"{files[0].name} is a link, not a file")
            report = grade(name, files[0].name, read(files[0]), seed, seconds, confirm)
        except Refused as refused:
            report = nothing(name, files[0].name, seed, refused)
        verdict = "full marks" if report.full else report.diagnoses[0].kind
        entry = report.as_json()
    except Exception as error:  # forged results, a mistake of ours: the others have to be graded all the same
        points = sum(lab(name).CHECKS.values())
        entry = {
            "lab": name,
            "file": clean(files[0].name),
            "seed": seed,
            "score": 0,
            "points": points,
            "full_marks": False,
        }
        entry |= {"checks": [], "diagnoses": [{"kind": "not graded", "message": failed(error), "lines": []}]}
        entry["failed"] = type(error).__name__
        verdict = f"not graded ({entry['failed']})"
    return {"student": student, **entry, "verdict": verdict}


def logged(log: Path) -> list[dict]:
    """The entries of an earlier run, without a line that it did not finish."""
    entries = []
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else []:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and {"student", "lab", "digest", "seed"} <= set(entry):
            entries.append(entry)
    return entries


def write_tables(folder: Path, entries: list[dict]) -> None:
    """grades.json and grades.csv, each replaced as a whole; a row of grades.csv that is not graded anew stays as it is."""
    from .collect import late_days  # which needs this module's neighbours

    rows, late = manual(folder), late_days(folder)
    replace(folder / "grades.json", json.dumps(entries, indent=1) + "\n")
    fresh = {}
    for entry in entries:
        who = cell(entry["student"]), entry["lab"]
        values = [entry["student"], entry["lab"], entry["score"], entry["points"], entry["verdict"]]
        notes = {column: rows.get(who, {}).get(column) or "" for column in MANUAL}
        notes["late_days"] = notes["late_days"] or late.get((entry["student"], entry["lab"]), "")
        fresh[who] = dict(zip(COLUMNS, map(cell, values))) | notes
    replace(
        folder / "grades.csv", as_csv(fresh | {who: row for who, row in rows.items() if who not in fresh and all(who)})
    )


def as_csv(rows: dict) -> str:
    """{(student, lab): row} as the text of grades.csv."""
    text = io.StringIO()
    table = csv.DictWriter(text, [*COLUMNS, *MANUAL], restval="", extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    for row in rows.values():
        table.writerow(
            {
                column: cell(row.get(column) or "") if column in MANUAL else row.get(column)
                for column in (*COLUMNS, *MANUAL)
            }
        )
    return text.getvalue()


def manual(folder: Path) -> dict:
    """{(student, lab): the row} of grades.csv, as the instructor left it."""
    file = folder / "grades.csv"
    return {(row.get("student"), row.get("lab")): row for row in roster.table(file)} if file.exists() else {}


def replace(file: Path, text: str) -> None:
    """Write a file so that at any moment the old one or the new one is there, whole."""
    new = file.with_name(file.name + ".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, file)


def cell(value):
    """A value that no spreadsheet takes for a formula: points of -1 stay a number."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") and not value[1:].replace(".", "", 1).isdigit():
        return "'" + value
    return value
