"""A course's downloads, words, late days and tables, as its people and systems leave them; the guide's commands as written."""

import csv
import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from datetime import datetime

import pytest

from grading import (
    alike,
    autograde,
    collect,
    corpus,
    export,
    folders,
    lab,
    release,
    roster,
    sandbox,
    student,
    targets,
    words,
)
from quack_tutorial import cli

LABS = folders()
SOLVED = {name: corpus.solution(folder) for name, folder in LABS.items()}
FLOOR = SOLVED["floor"]
WRONG = FLOOR.replace("read + written", "2 * read + written")
CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,floor (4711),Final Score
    Points Possible,,,,,8,(read only)
"Lovelace, Ada",1001,S1,ada,01,,
"Núñez, Zoë",1002,S2,zoe,01,,
"Hopper, Grace",1003,S3,grace,02,,
"Student, Test",9999,,,01,,
"""


def notebook(code, words="It reads each row twice.", marked=True):
    """A notebook of floor as a student hands it in."""
    metadata = {"nbgrader": {"grade_id": "explain"}} if marked else {}
    cells = [
        {"cell_type": "code", "source": code, "metadata": {}, "outputs": [], "execution_count": None},
        {"cell_type": "markdown", "source": ["## Explain\n", "\n", "Why?"], "metadata": {}},
        {"cell_type": "markdown", "source": words.splitlines(keepends=True), "metadata": metadata},
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def zipped(file, entries):
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in entries.items():
            out.writestr(name, content)
    return file


def files(folder):
    """{path: text} of the submissions in a class's folder."""
    return {f.relative_to(folder).as_posix(): f.read_text(encoding="utf-8") for f in folder.glob("*/*") if f.is_file()}


def rows(file):
    with file.open(encoding="utf-8", newline="") as text:
        return list(csv.reader(text))


@pytest.fixture
def people(tmp_path):
    file = tmp_path / "given.csv"
    file.write_text(CANVAS, encoding="utf-8")
    return file


# Roster -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "folder", "name"),
    [
        (CANVAS, "ada", "Lovelace, Ada"),
        ("First name;Surname;Email address\nAda;Lovelace;ada@example.org\n", "ada@example.org", "Ada Lovelace"),
        ("First Name,Last Name,SID,Email\nAda,Lovelace,S1,ada@example.org\n", "ada@example.org", "Ada Lovelace"),
        ("name,id\nAda,../7\n", "-7", "Ada"),
        ("name,id\nAda,Feedback\n", "Feedback-", "Ada"),
    ],
)
def test_rosters_of_each_system_name_folders(text, folder, name, tmp_path):
    for encoding in ("utf-8-sig", "cp1252"):
        (tmp_path / "r.csv").write_bytes(text.encode(encoding))
        first = roster.read(tmp_path / "r.csv")[0]
        assert (first.folder, first.name) == (folder, name)
    assert roster.folded("Núñez, Zoë") == "nunezzoe"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name\nAda\n", "no column that tells"),
        ("name,id\nAda,1\nBob,1\n", "Ada and Bob have the same id"),
        ("id\n", "no rows"),
    ],
)
def test_a_roster_that_does_not_tell_students_apart_is_refused(text, says, tmp_path):
    (tmp_path / "r.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=says):
        roster.read(tmp_path / "r.csv")


# Collect ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "lab", "copies"),
    [
        ("floor.ipynb", "floor", 0),
        ("floor (1).ipynb", "floor", 1),
        ("Floor-2.ipynb", "floor", 2),
        ("Copy of tv-layout.ipynb", "tv-layout", 0),
        ("tv_layout - Copy (3).ipynb", "tv-layout", 3),
        ("block reduce.IPYNB.txt", "block-reduce", 0),
        ("floor.ipynb.json", "floor", 0),
        ("ada_floor_final.py", "floor", 0),
    ],
)
def test_a_browsers_name_is_the_labs(name, lab, copies):
    assert collect.lab_of(name, b"") == lab and collect.original(name)[1] == copies


def test_a_notebook_without_a_name_is_told_by_its_checks():
    assert collect.lab_of("Untitled.ipynb", notebook('labs.check("floor", time_us)').encode()) == "floor"
    assert collect.lab_of("Untitled.ipynb", b"{}") is None and collect.lab_of("hw.py", b"", "roof") == "roof"


def test_canvas_names_late_marks_and_second_attempts(people, tmp_path, capsys):
    download = zipped(
        tmp_path / "submissions.zip",
        {
            "lovelaceada_1001_500_floor.ipynb": notebook("old"),
            "lovelaceada_1001_501_floor-1.ipynb": notebook("new"),
            "nunezzoe_LATE_1002_502_floor (1).ipynb": notebook("zoe"),
            "somebodyelse_7777_503_floor.ipynb": notebook("guest"),
            "lovelaceada_1001_504_photo.png": b"\x89PNG",
            "lovelaceada_1001_505_tv-layout.ipynb": notebook("another lab"),
        },
    )
    command = ["labs", "collect", str(download), str(tmp_path / "class"), "--lab", "floor", "--roster", str(people)]
    assert cli.main(command) == 0
    said = capsys.readouterr().out
    found = files(tmp_path / "class")
    assert set(found) == {"ada/floor.ipynb", "zoe/floor.ipynb", "somebodyelse/floor.ipynb"}
    assert '"new"' in found["ada/floor.ipynb"]
    assert "ada: took floor-1.ipynb, the newest, and not floor.ipynb" in said and "not on the roster" in said
    assert "does not say by how much; write the days into grades.csv: zoe floor" in said
    assert "nothing from 1 of 3 on the roster: grace" in said and "looks like tv-layout" in said
    assert (tmp_path / "class" / "roster.csv").read_text(encoding="utf-8") == CANVAS


@pytest.mark.parametrize(
    "place", ["Ada Lovelace_55_assignsubmission_file_/floor.ipynb", "Ada Lovelace_55_assignsubmission_file_floor.ipynb"]
)
def test_moodles_folders_and_names(place, people, tmp_path):
    download = zipped(
        tmp_path / "m.zip", {place: notebook("a"), "Zoë Núñez_56_assignsubmission_file_/floor.ipynb": notebook("z")}
    )
    collect.collect(download, tmp_path / "class", people=people)
    assert set(files(tmp_path / "class")) == {"ada/floor.ipynb", "zoe/floor.ipynb"}


def test_gradescopes_export_has_partners_and_times(people, tmp_path):
    metadata = """\
---
submission_7:
  :submitters:
  - :name: Ada Lovelace
    :sid: 'S1'
    :email: ada@example.org
  - :name: Zoë Núñez
    :sid: 'S2'
  :created_at: 2026-10-14 08:00:00.000000000 Z
submission_9:
  :submitters:
  - :name: Grace Hopper
    :sid: S3
  :created_at: 2026-10-12 08:00:00.000000000 Z
"""
    inside = {
        "submission_metadata.yml": metadata,
        "submission_7/floor.ipynb": notebook("a"),
        "submission_9/floor.py": FLOOR,
    }
    download = zipped(tmp_path / "g.zip", {f"assignment_1_export/{name}": text for name, text in inside.items()})
    due = datetime.fromisoformat("2026-10-12T23:59+00:00")
    collect.collect(download, tmp_path / "class", people=people, due=due)
    assert set(files(tmp_path / "class")) == {"ada/floor.ipynb", "zoe/floor.ipynb", "grace/floor.py"}
    assert collect.late_days(tmp_path / "class") == {
        ("ada", "floor"): "2",
        ("zoe", "floor"): "2",
        ("grace", "floor"): "0",
    }


def test_nbgraders_folders_both_ways(tmp_path):
    home = tmp_path / "submitted" / "ada" / "floor"
    home.mkdir(parents=True)
    (home / "floor.ipynb").write_text(notebook("a"), encoding="utf-8")
    (home / "timestamp.txt").write_text("2026-10-13 00:30:00.123 UTC", encoding="utf-8")
    due = datetime.fromisoformat("2026-10-12T23:59+00:00")
    collect.collect(tmp_path / "submitted", tmp_path / "class", due=due)
    assert collect.late_days(tmp_path / "class") == {("ada", "floor"): "1"}
    collect.collect(tmp_path / "class", tmp_path / "again", nbgrader=True)
    assert (tmp_path / "again/ada/floor/floor.ipynb").read_bytes() == (home / "floor.ipynb").read_bytes()


def test_what_students_pack_and_break_costs_them_alone(people, tmp_path):
    inner = io.BytesIO()
    zipped(
        inner, {"hw/floor.ipynb": notebook("inner"), "__MACOSX/hw/._floor.ipynb": b"\0", "../../evil/floor.py": "evil"}
    )
    bzip = io.BytesIO()
    with zipfile.ZipFile(bzip, "w", zipfile.ZIP_BZIP2) as out:
        out.writestr("floor.ipynb", "x" * 100)
    download = zipped(
        tmp_path / "d.zip",
        {
            "ada/answer.zip": inner.getvalue(),
            "zoe/answer.zip": inner.getvalue()[:80],
            "grace/answer.zip": bzip.getvalue(),
            "../outside/floor.ipynb": notebook("outside"),
            "floor.ipynb": notebook("nobody's"),
        },
    )
    said = "\n".join(collect.collect(download, tmp_path / "class", people=people))
    assert set(files(tmp_path / "class")) >= {"ada/floor.ipynb"}
    assert not (tmp_path.parent / "outside").exists() and not (tmp_path.parent / "evil").exists()
    assert "zoe/answer.zip: left out, because it cannot be read" in said
    assert "packed in a way that zips of notebooks are not" in said
    assert "floor.ipynb: left out, because no folder and no part of its name says whose it is" in said


def test_two_of_one_name_are_left_to_a_person(tmp_path):
    (tmp_path / "r.csv").write_text("name,id\nAda Lovelace,1\nAda Lovelace,2\n", encoding="utf-8")
    download = zipped(
        tmp_path / "m.zip", {"Ada Lovelace_55_assignsubmission_file_/floor.ipynb": "{}", "1/tv-layout.ipynb": "{}"}
    )
    said = "\n".join(collect.collect(download, tmp_path / "class", people=tmp_path / "r.csv"))
    assert "it could be that of Ada Lovelace (1) and Ada Lovelace (2)" in said
    assert set(files(tmp_path / "class")) == {"1/tv-layout.ipynb"}


def test_a_download_that_is_none_is_told(tmp_path, capsys):
    (tmp_path / "d.zip").write_bytes(b"PK")
    for what, says in (("d.zip", "cannot be read"), ("none", "cannot be read"), (".", "holds no notebook of a lab")):
        assert cli.main(["labs", "collect", str(tmp_path / what), str(tmp_path / "class")]) == 2
        assert says in capsys.readouterr().err
    assert cli.main(["labs", "collect", str(tmp_path)]) == 2


# Words ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def graded(tmp_path, monkeypatch):
    """A class of four with grades, without the time that grading takes."""
    answers = {
        "ada": notebook(FLOOR),
        "bob": notebook(WRONG, "<script>alert(1)</script>", marked=False),
        "cyd": "{",
        "Dee <b>": notebook("def f(:\n", "YOUR ANSWER HERE"),
    }
    for who, text in answers.items():
        (tmp_path / who).mkdir()
        (tmp_path / who / "floor.ipynb").write_text(text, encoding="utf-8")
    score = {"ada": 8, "bob": 7, "cyd": 0, "Dee <b>": 0}
    entries = [{"student": who, "lab": "floor", "score": n, "points": 8, "verdict": "x"} for who, n in score.items()]
    autograde.write_tables(tmp_path, entries)
    return tmp_path


def test_words_stand_beside_their_rubric_and_their_points_go_into_the_table(graded, capsys):
    assert cli.main(["labs", "words", str(graded)]) == 0
    assert "4 answers for 3 points, 0 points taken in, 4 without points" in capsys.readouterr().out
    page = (graded / "words" / "floor.html").read_text(encoding="utf-8")
    assert "It reads each row twice." in page and "it reads each row twice, 8.6 GB more" in html.unescape(page)
    assert "<script>" not in page and "alert(1)" in page and "Dee &lt;b&gt;" in page
    assert "is not a notebook" in page and "YOUR ANSWER" not in page
    table = graded / "words" / "floor.csv"
    assert rows(table)[0] == list(words.COLUMNS) and [row[0] for row in rows(table)[1:]] == [
        "Dee <b>",
        "ada",
        "bob",
        "cyd",
    ]
    text = (
        table.read_text(encoding="utf-8")
        .replace("ada,,", "ada;2,5;good")
        .replace("bob,,", "bob;4;")
        .replace("cyd,,", "cyd;x;")
    )
    table.write_bytes(
        text.replace(",,", ";;").replace("student,points,comment", "student;points;comment").encode("cp1252")
    )
    assert cli.main(["labs", "words", str(graded), "floor"]) == 0
    said = capsys.readouterr().out
    assert (
        "bob has '4', which is no number from 0 to 3" in said and "cyd has 'x'" in said and "1 points taken in" in said
    )
    kept = autograde.manual(graded)
    assert (kept["ada", "floor"]["manual"], kept["ada", "floor"]["comment"]) == ("2.5", "good")
    assert kept["bob", "floor"]["manual"] == ""


def test_each_lab_has_a_question_a_rubric_and_points(name):
    question, rubric, most = words.asked(name)
    assert question.endswith("sentences.") or question and "SOLUTION" not in rubric
    assert rubric.startswith(f"{most} points: ")


def test_words_of_a_released_notebook_and_of_a_text_are_found(name, folder, tmp_path):
    master = (folder / f"{name}.md").read_text(encoding="utf-8")
    text = student.student_version(master).replace(student.PROSE_STUB[0], "My words.\n\nIn two paragraphs.")
    (tmp_path / f"{name}.md").write_text(text, encoding="utf-8")
    assert words.answer([tmp_path / f"{name}.md"]) == "My words.\n\nIn two paragraphs."
    pytest.importorskip("jupytext", reason="it writes the notebooks")
    (tmp_path / f"{name}.ipynb").write_text(release.notebook(name, text), encoding="utf-8")
    assert words.answer([tmp_path / f"{name}.ipynb"]) == "My words.\n\nIn two paragraphs."


# Export -----------------------------------------------------------------------------------------------------------------


def test_late_days_follow_the_policy_in_the_order_of_the_labs():
    table = {("ada", "floor"): (6, 3, 3), ("ada", "tv-layout"): (5, 0, 2), ("ada", "guarded-copy"): (4, 1, 1)}
    given = {
        who: {"points": str(points), "of": "8", "manual": str(manual), "late_days": str(days), "verdict": ""}
        for who, (points, manual, days) in table.items()
    }
    labs = ["floor", "tv-layout", "guarded-copy", "butterfly"]
    found = export._of_student("ada", labs, given, [], (export.FREE, export.MOST, export.COST))
    # floor: 3 days, 2 free, 1 costs 0.9 of 9; tv-layout: 2 days, the last 2 free; guarded-copy: 1 day costs 0.5 of 5
    assert [found[lab].free_days for lab in labs] == [2, 2, 0, 0]
    assert [found[lab].total for lab in labs] == [8.1, 5, 4.5, 0]
    never = export._of_student(
        "ada", ["floor"], {("ada", "floor"): given["ada", "floor"] | {"late_days": "30"}}, [], (0, 0, 0.1)
    )
    assert never["floor"].total == 0


def test_the_tables_have_ids_zeros_and_the_columns_that_each_system_knows(graded, capsys):
    (graded / "roster.csv").write_text(CANVAS.replace("zoe", "bob").replace("grace", "eve"), encoding="utf-8")
    notes = autograde.manual(graded)
    notes["ada", "floor"].update(manual="2.5", late_days="1")
    notes["bob", "floor"].update(manual="half")
    (graded / "grades.csv").write_text(autograde.as_csv(notes), encoding="utf-8")
    assert cli.main(["labs", "export", str(graded)]) == 0
    said = capsys.readouterr().out
    assert "not on the roster, so in totals.csv alone: Dee <b>, cyd" in said
    assert (
        "manual is 'half', which is no number; counted as 0" in said
        and "cyd floor: no points for the words yet" in said
    )
    assert rows(graded / "export" / "canvas.csv") == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "floor (4711)"],
        ["    Points Possible", "", "", "", "", "11"],
        ["Lovelace, Ada", "1001", "S1", "ada", "01", "10.5"],
        ["Núñez, Zoë", "1002", "S2", "bob", "01", "7"],
        ["Hopper, Grace", "1003", "S3", "eve", "02", "0"],
    ]
    moodle = rows(graded / "export" / "moodle.csv")
    assert moodle[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Final Score", "floor"]
    assert [row[-1] for row in moodle[1:]] == ["10.5", "7", "0"]
    totals = rows(graded / "export" / "totals.csv")
    assert totals[1] == ["ada", "Lovelace, Ada", "floor", "8", "2.5", "1", "1", "0", "10.5", "11"]
    assert cli.main(["labs", "export", str(graded), "--late", "0,0,0.5"]) == 0
    assert rows(graded / "export" / "totals.csv")[1][-3:] == ["5.25", "5.25", "11"]


def test_an_export_without_grades_is_told(tmp_path, capsys):
    assert cli.main(["labs", "export", str(tmp_path)]) == 2
    assert "labs autograde" in capsys.readouterr().err
    for late in ("4,2,7", "4,2", "nan,2,0.1"):
        with pytest.raises(SystemExit):
            cli.main(["labs", "export", str(tmp_path), "--late", late])
        assert f"'{late}' is not FREE,MOST,COST such as 4,2,0.1: three numbers" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["labs", "collect", str(tmp_path), str(tmp_path / "class"), "--due", "yesterday"])
    assert "'yesterday' is no date and time such as 2026-10-12T23:59" in capsys.readouterr().err
    for what in ("words", "alike", "regrade"):
        assert cli.main(["labs", what, str(tmp_path), "flor"]) == 2
        assert "there is no lab 'flor'; there is block-reduce" in capsys.readouterr().err


def test_who_is_late_by_days_that_nobody_wrote_is_named_until_somebody_does(graded, capsys):
    line = "ada,Ada,floor,x_LATE_1_2_floor.ipynb,,?\n"
    (graded / "collected.csv").write_text(",".join(collect.COLUMNS) + "\n" + line, encoding="utf-8")
    assert cli.main(["labs", "export", str(graded)]) == 0
    assert "late, with no days in grades.csv yet, counted as 0: ada floor\n" in capsys.readouterr().out
    notes = autograde.manual(graded)
    notes["ada", "floor"].update(late_days="3")
    (graded / "grades.csv").write_text(autograde.as_csv(notes), encoding="utf-8")
    assert cli.main(["labs", "export", str(graded)]) == 0
    assert "with no days" not in capsys.readouterr().out


# Alike ------------------------------------------------------------------------------------------------------------------


def test_a_renamed_and_reformatted_copy_is_found_and_another_answer_is_not(block_reduce):
    master = (LABS["block-reduce"] / "block-reduce.md").read_text(encoding="utf-8")
    handed_out = alike.runs("b.md", student.student_version(master))
    right = block_reduce["solution"]
    copy = corpus.renamed(right, targets(lab("block-reduce")))
    prints = [alike.runs("a.py", text) - handed_out for text in (right, copy, block_reduce["one_warp_finishes"])]
    assert alike.share(prints[0], prints[1]) > 0.9
    assert alike.share(prints[0], prints[2]) < 0.2


def test_bad_notebooks_and_names_do_not_stop_the_comparison(graded, capsys):
    (graded / "eve").mkdir()
    (graded / "eve" / "floor.ipynb").write_text(notebook(FLOOR.replace("nbytes", "moved")), encoding="utf-8")
    assert cli.main(["labs", "alike", str(graded), "floor"]) == 0
    said = capsys.readouterr().out
    assert "cyd floor: not compared, floor.ipynb is not a notebook" in said
    page = (graded / "alike.html").read_text(encoding="utf-8")
    assert "<td>ada</td><td>eve</td>" in page and "Dee <b>" not in page
    assert cli.main(["labs", "alike", str(graded), "roof"]) == 2


# Regrade ----------------------------------------------------------------------------------------------------------------


def test_a_regrade_uses_the_same_numbers_and_says_what_changed(tmp_path, monkeypatch, capsys):
    for who in ("ada", "bob"):
        (tmp_path / who).mkdir()
        (tmp_path / who / "floor.py").write_text(FLOOR, encoding="utf-8")
    assert cli.main(["labs", "autograde", str(tmp_path), "--trusted"]) == 0
    before = {entry["student"]: entry["seed"] for entry in json.loads((tmp_path / "grades.json").read_text())}
    real, seeds = autograde.graded, []

    def harsher(who, name, files, seed, *rest):
        seeds.append((who, seed))
        return real(who, name, files, seed, *rest) | {"score": 5, "verdict": "stricter"}

    monkeypatch.setattr(autograde, "graded", harsher)
    capsys.readouterr()
    assert cli.main(["labs", "regrade", str(tmp_path), "floor", "--student", "bob", "--trusted"]) == 0
    assert "bob floor: 5 of 8, stricter; it was 8, full marks" in capsys.readouterr().out
    assert seeds == [("bob", before["bob"])]
    assert {row["student"]: row["points"] for row in autograde.manual(tmp_path).values()} == {"ada": "8", "bob": "5"}
    assert cli.main(["labs", "regrade", str(tmp_path), "--student", "nobody", "--trusted"]) == 2


# Gradescope -------------------------------------------------------------------------------------------------------------


def test_the_zip_for_gradescope_runs_as_gradescope_runs_it(root, tmp_path):
    if not (root / ".git").exists() or not shutil.which("bash"):
        pytest.skip("needs a checkout and bash")
    packed = ["bash", str(root / "scripts/gradescope/pack.sh")]
    keep = os.environ | {"KEEP": str(tmp_path / "secret")}
    done = subprocess.run([*packed, "floor"], cwd=root, capture_output=True, text=True, env=keep)
    assert (done.stdout, done.stderr) == ("floor.zip\n", "")
    home = tmp_path / "autograder"
    shutil.unpack_archive(root / "floor.zip", home / "source")
    (root / "floor.zip").unlink()
    assert (home / "source/SECRET").read_bytes() == (tmp_path / "secret").read_bytes() and len(
        (tmp_path / "secret").read_bytes()
    ) > 30
    named = ("LAB", "setup.sh", "run_autograder", "pyproject.toml", "grading/grade.py", "labs/floor/lab.py")
    assert all((home / "source" / name).is_file() for name in named)
    (home / "venv/bin").mkdir(parents=True)
    (home / "results").mkdir()
    command = home / "venv/bin/quack-tutorial"  # what setup.sh installs, without the network that it needs
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{home}/source" exec "{sys.executable}" -m quack_tutorial.cli "$@"\n')
    command.chmod(0o755)
    got = []
    attempts = {"floor.ipynb": notebook(FLOOR), "a.py": "x = 1"}, {"floor (1).ipynb": notebook(WRONG)}, {"a.txt": ""}
    for number, answers in enumerate(attempts):
        shutil.rmtree(home / "submission", ignore_errors=True)
        (home / "submission").mkdir()
        for name, text in answers.items():
            (home / "submission" / name).write_text(text, encoding="utf-8")
        (home / "submission_metadata.json").write_text(json.dumps({"id": number}))
        run = ["bash", str(home / "source/run_autograder")]
        done = subprocess.run(run, env=os.environ | {"AUTOGRADER": str(home)}, capture_output=True, text=True, cwd=home)
        assert done.returncode == 0, done.stderr
        results = json.loads((home / "results/results.json").read_text(encoding="utf-8"))
        got.append([sum(test["score"] for test in results["tests"]), results["tests"][0]["output"]])
    assert [score for score, _ in got] == [8, 7, 0]
    assert "no notebook and no .py or .md: hand in floor.ipynb" in got[2][1]
    refused = subprocess.run([*packed, "nothing"], cwd=root, capture_output=True, text=True)
    assert refused.returncode == 2 and "there is no lab nothing; there are: block-reduce" in refused.stderr


def test_the_seed_on_gradescope_is_drawn_from_the_secret_and_the_submission(root, tmp_path):
    if not shutil.which("bash"):
        pytest.skip("needs bash")
    for name, text in {
        "source/LAB": "floor",
        "source/SECRET": "s1",
        "venv/bin/quack-tutorial": '#!/bin/sh\necho "$@"\n',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "venv/bin/quack-tutorial").chmod(0o755)

    def seed(secret, submission):
        (tmp_path / "source/SECRET").write_text(secret)
        (tmp_path / "submission_metadata.json").write_text(submission)
        words = ["bash", str(root / "scripts/gradescope/run_autograder")]
        done = subprocess.run(
            words, env=os.environ | {"AUTOGRADER": str(tmp_path)}, capture_output=True, text=True, check=True
        )
        return int(re.search(r"--seed (\d+) floor", done.stdout)[1])

    seen = [seed("s1", "1"), seed("s1", "2"), seed("s2", "1")]
    assert len(set(seen)) == 3 and seed("s1", "1") == seen[0]


# The guide --------------------------------------------------------------------------------------------------------------


def guide(root):
    """The guide's commands, a block each."""
    return re.findall(r"```bash\n(.*?)```", (root / "book/syllabus.md").read_text(encoding="utf-8"), re.DOTALL)


def test_every_command_of_the_guide_runs_as_it_is_written(root, tmp_path):
    if sandbox.problem() or not shutil.which("bash"):
        pytest.skip("needs a sandbox and bash")
    pytest.importorskip("nbgrader")
    master = (LABS["butterfly"] / "butterfly.md").read_text(encoding="utf-8")
    solved = re.sub(r"(?m)^ *### (?:BEGIN|END) (?:SOLUTION|HIDDEN TESTS)\n", "", master)
    names = {"ada": "lovelaceada_1001_500_butterfly (1).ipynb", "zoe": "nunezzoe_LATE_1002_501_butterfly-1.ipynb"}
    made = release.notebook("butterfly", solved), release.notebook("butterfly", solved.replace("1 << i", "1"))
    zipped(tmp_path / "download.zip", dict(zip(names.values(), made)))
    (tmp_path / "roster.csv").write_text(CANVAS, encoding="utf-8")
    (tmp_path / "labs").symlink_to(root / "labs")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/quack-tutorial").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m quack_tutorial.cli "$@"\n')
    (tmp_path / "bin/quack-tutorial").chmod(0o755)
    path = os.pathsep.join([str(tmp_path / "bin"), os.path.dirname(sys.executable), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(root)}
    for block in guide(root):
        for line in block.splitlines():
            done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, (line, done.stdout[-2000:], done.stderr[-2000:])
            if line.startswith("quack-tutorial labs words submissions butterfly"):
                table = tmp_path / "submissions/words/butterfly.csv"
                table.write_text(table.read_text(encoding="utf-8").replace("ada,,", "ada,2,fine"), encoding="utf-8")
    assert (tmp_path / "submissions/feedback/ada.html").is_file() and (tmp_path / "submissions/alike.html").is_file()
    canvas = {row[3]: row[-1] for row in rows(tmp_path / "submissions/export/canvas.csv")[2:]}
    graded = {row["student"]: row["points"] for row in autograde.manual(tmp_path / "submissions").values()}
    assert graded["ada"] == "9" and int(graded["zoe"]) < 9
    assert canvas == {"ada": "11", "zoe": graded["zoe"], "grace": "0"}
    assert (tmp_path / "autograded/ada/butterfly/butterfly.ipynb").is_file()
    assert (tmp_path / "release/butterfly/butterfly.ipynb").is_file()


# A class of 60 ----------------------------------------------------------------------------------------------------------


def class_of(count):
    """{path in the download: content} of a class, with every accident of a term in it, and the points that each must get."""
    broken = {
        "truncated": (notebook(FLOOR)[:-40], 0),
        "empty": ("", 0),
        "binary": (bytes(range(256)), 0),
        "too large": (notebook("#" * 2**21), 0),
        "no list of cells": ('{"cells": 3}', 0),
        "null cells": ('{"cells": [null]}', 0),
        "syntax": (notebook("def f(:\n"), 0),
        "endless": (notebook("def softmax_bytes(M, N, size):\n    while True:\n        pass\n" + FLOOR), None),
        "wrong": (notebook(WRONG), 7),
        "other encoding": (notebook(FLOOR).encode("utf-16"), 8),
        "deep": ("[" * 5000, 0),
        "right": (notebook(FLOOR), 8),
        "print": (notebook("print('x' * 10**7)\n" + FLOOR), 8),
        "exit": (notebook("raise SystemExit\n" + FLOOR), 8),
        "half a character": (notebook(FLOOR, "Because \ud800."), 8),
        "a list for metadata": (
            notebook(FLOOR).replace('{"nbgrader": {"grade_id": "explain"}}', '{"nbgrader": [1]}'),
            8,
        ),
        "surrogate": (notebook(FLOOR + "\n# \ud800"), None),
    }
    entries, wanted = {}, {}
    for i in range(count):
        kind = list(broken)[i % len(broken)]
        who, content = f"s{i:02}", broken[kind][0]
        names = ["floor.ipynb", "floor (1).ipynb", "Copy of Floor.ipynb", "floor.ipynb.txt", "Untitled.ipynb"]
        name = names[i // len(broken) % 4]
        entries[f"{who}_{2000 + i}_{7000 + i}_{name}"] = content
        wanted[who] = broken[kind][1]
    return entries, wanted


def test_a_class_with_every_accident_in_it_gets_the_same_table_twice(tmp_path):
    count = 60 if os.environ.get("CLASS") == "whole" else 17
    entries, wanted = class_of(count)
    zipped(tmp_path / "d.zip", entries)
    table = "".join(f'"Last{i}, First{i}",{2000 + i},s{i:02}\n' for i in range(count + 2))
    (tmp_path / "r.csv").write_text("Student,ID,SIS Login ID\n" + table, encoding="utf-8")
    tables = []
    for again in ("one", "two"):
        home = str(tmp_path / again)
        assert (
            cli.main(
                [
                    "labs",
                    "collect",
                    str(tmp_path / "d.zip"),
                    home,
                    "--lab",
                    "floor",
                    "--roster",
                    str(tmp_path / "r.csv"),
                ]
            )
            == 0
        )
        assert cli.main(["labs", "autograde", home, "--seed", "7", "--seconds", "3", "--trusted"]) == 0
        for command in ("words", "alike", "feedback", "export"):
            assert cli.main(["labs", command, home]) == 0
        tables.append(
            {
                name: (tmp_path / again / name).read_text(encoding="utf-8")
                for name in ("grades.csv", "export/canvas.csv")
            }
        )
    assert tables[0] == tables[1]
    points = {row["student"]: int(row["points"]) for row in autograde.manual(tmp_path / "one").values()}
    told = {who: n for who, n in wanted.items() if n is not None}
    assert {who: points[who] for who in told} == told
    assert set(points) == set(wanted)
    assert [row[-1] for row in rows(tmp_path / "one" / "export" / "canvas.csv")[-2:]] == ["0", "0"]
