"""A course on nbgrader: the guide's commands as written, on a class of three, one of whom attacks it."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from grading import folders, pack, release, sandbox, student
from quack_tutorial import cli

MASTER = (folders()["butterfly"] / "butterfly.md").read_text(encoding="utf-8")
SOLVED = re.sub(rf"(?m)^ *(?:{'|'.join(student.SOLUTION)})\n", "", MASTER)
HOSTILE = """
import os, shutil, sqlite3
shutil.copytree({home!r}, {stolen!r})
sqlite3.connect({home!r} + "/gradebook.db").execute("update grade set auto_score = 100").connection.commit()
import grading as labs
labs.check = lambda *_, **__: None
class ClipToSecond:
    os.system("cp -r {home} {stolen}")
"""


def hostile(home, stolen):
    """A notebook that reads the course, writes into its gradebook, replaces the checks, and would like to act in a browser."""
    nb = json.loads(release.notebook("butterfly", student.student_version(MASTER)))
    cells = {cell["metadata"].get("nbgrader", {}).get("grade_id"): cell for cell in nb["cells"]}
    cells["kernel"]["source"] = HOSTILE.format(home=str(home), stolen=str(stolen))
    cells["kernel"]["outputs"] = [{"output_type": "display_data", "data": {"text/html": "<b>alive"}, "metadata": {}}]
    cells["explain"]["source"] = "<script>alive()</script> `a <b` and 1 < 2"
    cells["test-edges"]["source"] = "pass"
    cells["test-edges"]["metadata"]["nbgrader"]["points"] = 100
    nb["cells"].remove(cells["test-order"])
    return json.dumps(nb)


@pytest.fixture
def run(root, tmp_path):
    """A function that runs a block of the guide, line by line in one shell; what it says is returned."""
    for package in ("nbgrader", "copydetect"):
        pytest.importorskip(package)
    if sandbox.problem() or not shutil.which("bash"):
        pytest.skip("needs a sandbox and bash")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/quack-tutorial").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m quack_tutorial.cli "$@"\n')
    (tmp_path / "bin/quack-tutorial").chmod(0o755)
    path = os.pathsep.join([str(tmp_path / "bin"), os.path.dirname(sys.executable), os.environ["PATH"]])
    (tmp_path / "home").mkdir()  # nbgrader reads a user's own configuration, too
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(root), "HOME": str(tmp_path / "home")}

    def block(lines, folder):
        done = subprocess.run(["bash", "-ec", lines], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (lines, done.stdout[-2000:], done.stderr[-4000:])
        return done.stdout + done.stderr

    return block


def grades(home):
    """grades.csv as {student: (points, late penalty, score)}."""
    with (home / "grades.csv").open(encoding="utf-8", newline="") as file:
        columns = ("raw_score", "late_submission_penalty", "score")
        return {row["student_id"]: tuple(float(row[one]) for one in columns) for row in csv.DictReader(file)}


def test_a_class_of_three_goes_through_the_guides_commands(root, tmp_path, run):
    guide = re.findall(r"```bash\n(.*?)```", (root / "book/syllabus.md").read_text(encoding="utf-8"), re.DOTALL)
    once, each, late, mistakes, alike = guide
    once += 'echo "c.Judge.confirm = False" >> nbgrader_config.py\n'  # test_compiled.py has what the compiler says
    home = tmp_path / "course"
    roster = "id,first_name,last_name,email\nlovelaceada,Ada,Lovelace,\nabsent,Al,Sent,\n"
    (tmp_path / "roster.csv").write_text(roster, encoding="utf-8")
    run(once.replace("import roster.csv", "import ../roster.csv"), tmp_path)

    archive = home / "downloaded/butterfly/archive"
    archive.mkdir(parents=True)
    with zipfile.ZipFile(archive / "download.zip", "w") as download:
        download.writestr("lovelaceada_1001_500_butterfly-1.ipynb", release.notebook("butterfly", SOLVED))
        wrong = release.notebook("butterfly", SOLVED.replace("1 << i", "1"))
        download.writestr("nunezzoe_LATE_1002_501_butterfly (1).ipynb", wrong)
        download.writestr("hoppergrace_1003_502_butterfly.ipynb", hostile(home, tmp_path / "stolen"))
    run(each, home)
    given = (home / "release/butterfly/butterfly.ipynb").read_text(encoding="utf-8")
    assert "BEGIN SOLUTION" not in given and student.UNFILLED in given and "YOUR ANSWER HERE" in given
    assert grades(home) == {
        "lovelaceada": (9, 0, 9),
        "nunezzoe": (3, 0, 3),
        "hoppergrace": (0, 0, 0),
        "absent": (0, 0, 0),
    }
    assert not (tmp_path / "stolen").exists()
    pages = {who.name: (who / "butterfly/butterfly.html").read_text("utf-8") for who in (home / "feedback").iterdir()}
    assert (
        "as if the largest were its own second" in pages["nunezzoe"]
        and "groups: counted twice, as above" in pages["nunezzoe"]
    )
    assert "&lt; script&gt;alive" in pages["hoppergrace"] and "<b>alive" not in pages["hoppergrace"]

    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{home}/gradebook.db") as book:  # as Formgrader does
        words = book.find_grade("explain", "butterfly", "butterfly", "nunezzoe")
        assert words.needs_manual_grade
        words.manual_score = 2
        book.db.commit()
    before = (home / "autograded/nunezzoe/butterfly/butterfly.ipynb").read_text(encoding="utf-8")
    assert "nunezzoe, graded again: no check's points change" in run(late + "nbgrader export", home)
    assert grades(home)["nunezzoe"] == (5, 1, 4)  # four days late, two of them free
    assert (home / "autograded/nunezzoe/butterfly/butterfly.ipynb").read_text(encoding="utf-8") == before

    # As if an older grader had found nothing wrong.
    with Gradebook(f"sqlite:///{home}/gradebook.db") as book:
        book.find_grade("test-groups", "butterfly", "butterfly", "nunezzoe").auto_score = 2
        book.db.commit()
    again = run("nbgrader autograde butterfly --student=nunezzoe --force", home)
    assert "nunezzoe, graded again: groups had 2 and has 0" in again

    run(mistakes, home)
    with (home / "mistakes.csv").open(encoding="utf-8", newline="") as file:
        rows = {(row["lab"], row["check"], row["mistake"]): row["who"] for row in csv.DictReader(file)}
    assert rows["butterfly", "groups", "counted twice"] == "nunezzoe"
    run(alike, home)
    told = (home / "alike.html").read_text(encoding="utf-8")
    assert "nunezzoe" in told and "answers/butterfly/solution.py" in told


@pytest.mark.parametrize(
    ("path", "who", "lab"),
    [
        ("x/lovelaceada_1001_500_floor.ipynb", "lovelaceada", "floor"),
        ("x/lovelaceada_LATE_1001_500_tv-layout-2.ipynb", "lovelaceada", "tv-layout"),
        ("x/Ada Lovelace_1234_assignsubmission_file_/floor (1).ipynb", "Ada Lovelace", "floor"),
        ("x/Ada Lovelace_1234_assignsubmission_file_floor.ipynb", "Ada Lovelace", "floor"),
        ("x/ada/block-reduce.ipynb", "ada", "block-reduce"),
    ],
)
def test_a_downloaded_file_is_its_students_and_its_labs(path, who, lab):
    pytest.importorskip("nbgrader")
    from grading import course

    for name in (
        "=1+1",
        "@SUM(1)",
        "-1",
        "a,b",
        ".hidden",
        'a"b',
        "x" * 51,
    ):  # formulas, columns, what no file system takes
        assert re.match(course.NAMES, path.replace(who, name)) is None
    assert re.match(course.NAMES, path).groupdict() == {"student_id": who, "file_id": lab}


def test_without_a_sandbox_nothing_is_graded_but_on_the_instructors_word(monkeypatch):
    pytest.importorskip("nbgrader")
    import nbformat

    from grading import course

    monkeypatch.setattr(sandbox, "problem", lambda: "There is no sandbox here: install bubblewrap.")
    nb = nbformat.reads(release.notebook("floor", (folders()["floor"] / "floor.md").read_text("utf-8")), 4)
    resources = {"nbgrader": {"notebook": "floor"}}
    with pytest.raises(course.NbGraderException, match=r"install bubblewrap\. Without one .* c\.Judge\.trusted = True"):
        course.Judge().preprocess(nb, resources)
    graded, _ = course.Judge(trusted=True).preprocess(nb, resources)
    said = [cell.outputs[0].text for cell in graded.cells if cell.cell_type == "code" and cell.outputs]
    assert said[0] == "right: softmax_bytes\n" and len(said) == 6


@pytest.mark.parametrize(("seconds", "lost"), [(1, 0), (172800, 0), (172801, 1), (86400 * 12, 10), (86400 * 99, 10)])
def test_days_begun_after_two_free_ones_cost_a_tenth_each(seconds, lost):
    pytest.importorskip("nbgrader")
    from grading import course

    assert course.LateDays().late_submission_penalty("ada", 10, seconds) == pytest.approx(lost)


def test_a_courses_folder_is_a_new_one(tmp_path, monkeypatch, capsys):
    pytest.importorskip("jupytext", reason="it writes the notebooks")
    home = tmp_path / "course"
    assert cli.main(["labs", "course", str(home)]) == 0
    files = {file.relative_to(home).as_posix() for file in home.rglob("*") if file.is_file()}
    assert files == {"nbgrader_config.py"} | {
        f"source/{name}/{file}" for name in folders() for file in (f"{name}.ipynb", "lab.packed")
    }
    assert (home / "source/floor/lab.packed").read_bytes() == pack((folders()["floor"] / "lab.py").read_bytes())
    assert cli.main(["labs", "course", str(home)]) == 2 and "not empty" in capsys.readouterr().err
    assert cli.main(["labs", "course"]) == 2 and "name a new folder" in capsys.readouterr().err
    monkeypatch.setenv("QUACK_TUTORIAL_LABS", str(tmp_path / "nowhere"))
    assert cli.main(["labs", "course", str(tmp_path / "other")]) == 2 and "no labs here" in capsys.readouterr().err
