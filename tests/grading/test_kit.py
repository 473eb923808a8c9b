"""What a course runs on: the students' copies, a folder of submissions graded, the pages that tell students what to mend."""

import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zlib
from html.parser import HTMLParser

import pytest

from grading import autograde, corpus, folders, lab, release, sandbox, student
from grading.grade import grade
from quack_tutorial import __version__, cli


def solved(name):
    """The text of a lab's solution."""
    return corpus.answers(folders()[name])["solution"][0]


WORKFLOW = ".github/workflows/classroom.yml"

# Release ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    pytest.importorskip("jupytext", reason="it writes the notebooks")
    folder = tmp_path_factory.mktemp("course") / "labs"
    assert cli.main(["labs", "release", str(folder)]) == 0
    return folder


def test_a_release_holds_these_files_and_no_others(released):
    files = {str(file.relative_to(released)) for file in released.rglob("*") if file.is_file()}
    assert files == {"README.md"} | {
        f"{name}/{file}" for name in folders() for file in (f"{name}.ipynb", "lab.packed", WORKFLOW)
    }


def test_a_check_that_fails_does_not_keep_run_all_from_the_others(released, name):
    cells = json.loads((released / name / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    tagged = {"labs.check(" in "".join(cell["source"]) for cell in cells if cell["metadata"].get("tags")}
    checks = [cell["metadata"].get("tags") for cell in cells if "labs.check(" in "".join(cell["source"])]
    assert tagged == {True} and checks == [["raises-exception"]] * len(lab(name).CHECKS)


def test_nothing_leaks(released, name, folder):
    master = (folder / f"{name}.md").read_text(encoding="utf-8")
    secret = student.solution_lines(master)
    for file in released.rglob("*"):
        if file.is_file():
            packed = file.suffix == ".packed"
            content = (zlib.decompress(file.read_bytes()) if packed else file.read_bytes()).decode("utf-8")
            assert packed or not any(text in content for text, _ in corpus.answers(folder).values())
            cells = json.loads(content)["cells"] if file.suffix == ".ipynb" else []
            lines = {line.strip() for cell in cells for line in "".join(cell["source"]).splitlines()}
            lines |= {line.strip() for line in content.splitlines()}
            assert [line for line in secret if line in lines] == [], file
            assert not any(word in content for word in ("seed=2207", "BEGIN SOLUTION", "BEGIN HIDDEN", str(folder)))


def test_solving_only_adds_lines_but_for_the_stub(released, name, folder):
    given = json.loads((released / name / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    lines = [line for cell in given for line in "".join(cell["source"]).splitlines() if line.strip()]
    stubs = {*student.STUB, *student.PROSE_STUB}
    master = iter((folder / f"{name}.md").read_text(encoding="utf-8").splitlines())
    for line in lines:  # each is in the master, in the same order
        assert line.strip() in stubs or line in master, line
    assert sum(line.strip() == student.STUB[0] for line in lines) >= 2


def test_the_checks_of_a_copy_run_where_there_is_nothing_but_the_copy(released, tmp_path):
    """In a folder of its own, with no labs/ in reach: a wrong answer is told, the right one passes."""
    shutil.copytree(released / "floor", tmp_path / "floor")
    script = (
        "import grading as labs\n"
        "def time_us(nbytes, gb_s): return nbytes / gb_s * {factor}\n"
        "labs.check('floor', time_us, 'time_us')\n"
    )
    for factor, says in (("1e-3", "right: time_us"), ("1", "time_us: ")):
        done = subprocess.run(
            [sys.executable, "-c", script.format(factor=factor)],
            cwd=tmp_path / "floor",
            env={**os.environ, "QUACK_TUTORIAL_LABS": str(tmp_path / "none")},
            capture_output=True,
            text=True,
        )
        assert says in done.stdout + done.stderr


def test_a_release_without_labs_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("QUACK_TUTORIAL_LABS", str(tmp_path / "nowhere"))
    assert cli.main(["labs", "release", str(tmp_path / "handout")]) == 2
    assert "no labs here" in capsys.readouterr().err and not (tmp_path / "handout").exists()


def test_a_release_writes_over_nothing(released, capsys):
    assert cli.main(["labs", "release", str(released)]) == 2
    assert "not empty" in capsys.readouterr().err
    assert cli.main(["labs", "release"]) == 2
    assert "name a folder" in capsys.readouterr().err


def test_the_readme_has_a_line_a_lab(released):
    text = (released / "README.md").read_text(encoding="utf-8")
    assert "| [butterfly](butterfly/butterfly.ipynb) | `ClipToSecond`, `shuffles` | 4 | 60 | 9 |" in text
    assert text.count(".ipynb) | `") == len(folders())


def test_the_stub_of_a_released_notebook_is_graded_with_a_sentence(released):
    file = released / "floor" / "floor.ipynb"
    report = grade("floor", file.name, file.read_text(encoding="utf-8"))
    assert report.score == 0 and "not filled in yet" in report.diagnoses[0].message
    assert report.diagnoses[0].kind == "not filled in"


def test_classrooms_workflow_has_a_test_for_each_check_and_runs_what_there_is(released, name, tmp_path, capsys):
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((released / name / WORKFLOW).read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    checkout, python, install, *tests, reporter = job["steps"]
    checks = [(step["with"]["test-name"], step["with"]["max-score"]) for step in tests]
    assert checks == list(lab(name).CHECKS.items()) and [step["id"] for step in tests] == [check for check, _ in checks]
    assert reporter["with"]["runners"].split(",") == [check for check, _ in checks]
    assert reporter["env"] == {f"{c.upper()}_RESULTS": f"${{{{ steps.{c}.outputs.result }}}}" for c, _ in checks}
    assert checkout["with"]["path"] == name and "vars.QUACK_TUTORIAL" in install["run"]
    wanted = tomllib.loads((folders()[name].parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = [int(n) for n in python["with"]["python-version"].split(".")]
    assert version >= [int(n) for n in wanted["requires-python"].removeprefix(">=").split(".")]
    program, *words = tests[-1]["with"]["command"].split()
    assert program in wanted["scripts"] and words[:3] == ["grade", name, f"{name}/{name}.ipynb"]
    assert cli.main([words[0], name, str(released / words[2]), *words[3:]]) == 1  # as it was handed out
    assert "not filled in yet" in capsys.readouterr().out


def test_a_check_alone_decides_the_exit_status(tmp_path, capsys):
    answer = tmp_path / "floor.py"
    answer.write_text(solved("floor").replace("read + written", "2 * read + written"), encoding="utf-8")
    for check, status in (("softmax_bytes", 1), ("time_us", 0), ("nothing", 2)):
        assert cli.main(["grade", "floor", str(answer), "--check", check]) == status
    assert "floor has no check nothing; it has softmax_bytes, " in capsys.readouterr().err


# Autograde --------------------------------------------------------------------------------------------------------------


def rows(folder):
    """grades.csv as {(student, lab): row}."""
    with (folder / "grades.csv").open(encoding="utf-8", newline="") as file:
        return {(row["student"], row["lab"]): row for row in csv.DictReader(file)}


@pytest.fixture
def class_of_six(tmp_path):
    """Submissions as they come: right, wrong, no notebook, binary, twice, a pipe, and a name that is no lab's."""
    right = solved("floor")
    files = {
        "ada/floor.py": right.encode(),
        "bob/floor.py": right.replace("read + written", "2 * read + written").encode(),
        "cyd/floor.ipynb": b"{",
        "dan/floor.py": bytes(range(256)),
        "eve/floor.py": right.encode(),
        "eve/floor.md": right.encode(),
        "fay/floor (1).py": right.encode(),
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "gus").mkdir()
    os.mkfifo(tmp_path / "gus" / "floor.py")
    return tmp_path


def test_a_folder_is_graded_whatever_is_in_it(class_of_six, capsys):
    assert cli.main(["labs", "autograde", str(class_of_six), "--seed", "5", "--trusted"]) == 0
    said = capsys.readouterr()
    assert "Traceback" not in said.err + said.out
    assert "not graded: fay/floor (1).py, which is named as no lab is" in said.err
    assert {
        student: (row["points"], row["of"], row["verdict"]) for (student, _), row in rows(class_of_six).items()
    } == {
        "ada": ("8", "8", "full marks"),
        "bob": ("7", "8", "two reads"),
        "cyd": ("0", "8", "unreadable"),
        "dan": ("0", "8", "unreadable"),
        "eve": ("0", "8", "two files"),
        "gus": ("0", "8", "unreadable"),
    }
    reports = json.loads((class_of_six / "grades.json").read_text(encoding="utf-8"))
    (bob,) = (entry for entry in reports if entry["student"] == "bob")
    assert "second read is needed only if" in bob["diagnoses"][0]["message"] and bob["seed"] == 5


def test_a_second_run_grades_what_has_changed_and_keeps_what_a_person_wrote(class_of_six, monkeypatch):
    command = ["labs", "autograde", str(class_of_six), "--trusted"]
    calls = []
    monkeypatch.setattr(autograde, "graded", lambda *a, real=autograde.graded: calls.append(a[0]) or real(*a))
    assert cli.main(command) == 0
    assert sorted(calls) == ["ada", "bob", "cyd", "dan", "eve", "gus"]
    first = rows(class_of_six)
    assert len({entry["seed"] for entry in json.loads((class_of_six / "grades.json").read_text(encoding="utf-8"))}) == 6
    table = (class_of_six / "grades.csv").read_text(encoding="utf-8")
    marked = table.replace("two reads,,,", "two reads,2.5,1,a good explanation")
    (class_of_six / "grades.csv").write_text(marked, encoding="utf-8")
    log = class_of_six / "grades.jsonl"
    log.write_text(log.read_text(encoding="utf-8")[:-40], encoding="utf-8")  # killed while it wrote its last line
    (class_of_six / "dan" / "floor.py").write_text(solved("floor"), encoding="utf-8")
    lost = calls[-1]
    calls.clear()
    assert cli.main(command) == 0
    assert set(calls) <= {"ada", "bob", "cyd", "dan", "eve", "gus"} and "dan" in calls and len(calls) <= 2, (
        calls,
        lost,
    )
    second = rows(class_of_six)
    bob = second.pop(("bob", "floor"))
    assert (bob["manual"], bob["late_days"], bob["comment"]) == ("2.5", "1", "a good explanation")
    assert second.pop(("dan", "floor"))["points"] == "8"
    assert all(first[who] == row for who, row in second.items())


@pytest.mark.parametrize(
    ("separator", "encoding"), [(",", "utf-8"), (";", "utf-8-sig"), (";", "cp1252"), ("\t", "utf-8")]
)
def test_what_a_person_wrote_survives_spreadsheets_and_an_interruption(separator, encoding, tmp_path, monkeypatch):
    for who in ("ada", "bob", "cyd"):
        (tmp_path / who).mkdir()
        (tmp_path / who / "floor.py").write_text(solved("floor"), encoding="utf-8")
    command = ["labs", "autograde", str(tmp_path), "--trusted", "--seed"]
    assert cli.main([*command, "1"]) == 0
    table = (tmp_path / "grades.csv").read_text(encoding="utf-8").replace("full marks,,,", "full marks,2.5,1,très bien")
    (tmp_path / "grades.csv").write_bytes(table.replace(",", separator).encode(encoding))
    stopped = iter([None, KeyboardInterrupt, KeyboardInterrupt])

    def graded(*a, real=autograde.graded):
        if next(stopped):
            raise KeyboardInterrupt
        return real(*a)

    monkeypatch.setattr(autograde, "graded", graded)
    assert cli.main([*command, "2"]) == 130  # each is graded anew, and one only before the interruption
    kept = rows(tmp_path)
    assert {row["manual"] for row in kept.values()} == {"2.5"} and len(kept) == 3
    assert {row["comment"] for row in kept.values()} == {"très bien"}


def test_odd_folders_cost_nobody_else_a_grade(tmp_path, capsys):
    for who in ("ada", "bob c", "bob\u00a0c", "d" * 252):
        (tmp_path / who).mkdir()
        (tmp_path / who / "floor.py").write_text(solved("floor"), encoding="utf-8")
    assert cli.main(["labs", "autograde", str(tmp_path), "--trusted"]) == 0
    said = capsys.readouterr().err
    assert "floor.py of 'bob\\xa0c': 'bob c' looks the same; rename one of the folders" in said
    assert [row["verdict"] for row in rows(tmp_path).values()] == ["full marks"] * 3
    (tmp_path / "grades.jsonl").unlink()
    (tmp_path / "grades.jsonl").mkdir()
    assert cli.main(["labs", "autograde", str(tmp_path), "--trusted"]) == 2
    assert "is a folder, and grades are kept in a file of that name" in capsys.readouterr().err


def test_nothing_is_lost_when_it_is_killed_midway(tmp_path):
    for i in range(6):
        (tmp_path / f"s{i}").mkdir()
        (tmp_path / f"s{i}" / "floor.py").write_text(solved("floor"), encoding="utf-8")
    command = [sys.executable, "-m", "quack_tutorial.cli", "labs", "autograde", str(tmp_path), "--trusted"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    running.stdout.readline()
    assert running.stdout.readline().startswith("[1/6")
    running.kill()
    running.wait()
    running.stdout.close()
    done = (tmp_path / "grades.jsonl").read_text(encoding="utf-8").count("\n")
    assert 1 <= done < 6
    said = subprocess.run(command, capture_output=True, text=True).stdout
    assert f"6 submissions, {done} graded already" in said
    assert {row["points"] for row in rows(tmp_path).values()} == {"8"}


def test_a_grader_that_fails_is_told_apart_and_tried_again(class_of_six, monkeypatch, capsys):
    def fails(*_):
        raise KeyError("\x1b[2J forged")

    with monkeypatch.context() as patched:
        patched.setattr(autograde, "grade", fails)
        assert cli.main(["labs", "autograde", str(class_of_six), "--trusted"]) == 1
    assert "\x1b" not in capsys.readouterr().out
    assert rows(class_of_six)["ada", "floor"]["verdict"].startswith("not graded (KeyError")
    assert cli.main(["labs", "autograde", str(class_of_six), "--trusted"]) == 0
    assert rows(class_of_six)["ada", "floor"]["verdict"] == "full marks"


def test_without_a_sandbox_a_folder_is_graded_on_the_instructors_word_only(class_of_six, capsys, monkeypatch):
    monkeypatch.setattr(sandbox, "problem", lambda: "There is no sandbox here: install bubblewrap.")
    assert cli.main(["labs", "autograde", str(class_of_six)]) == 2
    said = capsys.readouterr().err
    assert (
        said.startswith("autograde: There is no sandbox here: install bubblewrap. Without one")
        and said.count("\n") == 1
    )
    assert not (class_of_six / "grades.csv").exists()
    assert cli.main(["labs", "autograde", str(class_of_six), "--trusted"]) == 0
    assert rows(class_of_six)["ada", "floor"]["verdict"] == "full marks"


def test_what_no_spreadsheet_may_take_for_a_formula():
    assert autograde.cell("=1+1") == "'=1+1" and autograde.cell("-2.5") == "-2.5" and autograde.cell(3) == 3


def test_a_folder_without_submissions_is_told(tmp_path, capsys):
    for folder in (tmp_path, tmp_path / "none"):
        assert cli.main(["labs", "autograde", str(folder)]) == 2
        assert "holds no" in capsys.readouterr().err


# Feedback ---------------------------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_a_page_says_what_is_wrong_and_where_and_nothing_in_it_is_alive(tmp_path, capsys):
    evil = "<script>alert(1)</script>&amp;"
    (tmp_path / "Zoë <b>").mkdir()
    text = solved("block-reduce").replace("        cute.arch.barrier()\n", "")
    text = text.replace("sMax[warp] = value\n", f"sMax[warp] = value  # {evil}\n")
    (tmp_path / "Zoë <b>" / "block-reduce.py").write_text(text, encoding="utf-8")
    assert cli.main(["labs", "autograde", str(tmp_path), "--trusted"]) == 0
    table = (tmp_path / "grades.csv").read_text(encoding="utf-8")
    (tmp_path / "grades.csv").write_text(table.replace("barrier,,,", "barrier,2,1,Read <this>"), encoding="utf-8")
    assert cli.main(["labs", "feedback", str(tmp_path)]) == 0
    content = (tmp_path / "feedback" / "Zoë <b>.html").read_text(encoding="utf-8")
    page = Tags(content)
    assert {tag for tag, _ in page.tags} <= {"html", "meta", "title", "style", "h1", "h2", "p", "b", "span", "table", "tr", "th",
                                             "td", "ol", "li", "pre"}  # fmt: skip
    assert not any({"src", "href", "style", "onclick"} & set(attrs) for _, attrs in page.tags)
    assert "Labs: Zoë <b>" in page.text and "1 of 11 points" in page.text and evil in page.text
    assert "Points by hand: 2" in page.text and "Late days used: 1" in page.text and "Comment: Read <this>" in page.text
    assert "see 1: missing barrier" in page.text and "url(" not in content and "prefers-color-scheme: dark" in content
    capsys.readouterr()
    assert cli.main(["labs", "autograde", str(tmp_path), "--trusted"]) == 0  # the folder of pages is no student
    assert "feedback" not in capsys.readouterr().err


def test_feedback_without_grades_is_told(tmp_path, capsys):
    assert cli.main(["labs", "feedback", str(tmp_path)]) == 2
    assert "labs autograde" in capsys.readouterr().err
    (tmp_path / "grades.json").write_text("[1]", encoding="utf-8")
    assert cli.main(["labs", "feedback", str(tmp_path)]) == 2
    assert "not what autograde writes" in capsys.readouterr().err


# Gradescope -------------------------------------------------------------------------------------------------------------


def test_gradescopes_log_says_where_there_is_no_sandbox(tmp_path, capsys, monkeypatch):
    (tmp_path / "floor.py").write_text(solved("floor"), encoding="utf-8")
    words = ["grade", "--gradescope", "--results", str(tmp_path / "out"), "floor", str(tmp_path / "floor.py")]
    for problem in (None, "There is no sandbox here: install bubblewrap."):
        monkeypatch.setattr(sandbox, "problem", lambda: problem)  # noqa: B023
        assert cli.main(words) == 0
        assert ("could read" in capsys.readouterr().err) == bool(problem)


def test_gradescope_gets_a_test_for_each_check_and_is_never_left_without(tmp_path, capsys):
    answer, out = tmp_path / "floor.py", tmp_path / "results.json"
    answer.write_text(solved("floor").replace("read + written", "2 * read + written"), encoding="utf-8")
    assert cli.main(["grade", "--gradescope", "--results", str(out), "floor", str(answer)]) == 0
    results = json.loads(out.read_text(encoding="utf-8"))
    assert [(t["name"], t["score"], t["max_score"], t["status"]) for t in results["tests"]] == [
        ("softmax_bytes", 0, 1, "failed"),
        ("rmsnorm_backward_bytes", 2, 2, "passed"),
        ("cross_entropy_bytes", 1, 1, "passed"),
        ("time_us", 1, 1, "passed"),
        ("bytes_in_flight", 1, 1, "passed"),
        ("is_memory_bound", 2, 2, "passed"),
    ]
    assert "A second read is needed only if" in results["tests"][0]["output"]
    assert results["output"] == "7 of 8 points (floor)"
    assert cli.main(["grade", "--gradescope", "--results", str(out), "floor", str(tmp_path / "none.py")]) == 0
    results = json.loads(out.read_text(encoding="utf-8"))
    assert sum(t["score"] for t in results["tests"]) == 0 and "cannot read" in results["tests"][0]["output"]
    assert results["tests"][1]["output"] == "unreadable: as above"
    capsys.readouterr()
    assert cli.main(["grade", "--gradescope", "--results", str(tmp_path / "no" / "r"), "floor", str(answer)]) == 2
    assert "cannot write" in capsys.readouterr().err


# Syllabus ---------------------------------------------------------------------------------------------------------------


def minutes_of_chapters(root):
    """{number: minutes} that the chapters give for themselves."""
    words = {"about an hour": 60, "about an hour and a half": 90, "about two hours": 120}
    for file in sorted((root / "notebooks").glob("[0-9]*.md")):
        head = file.read_text(encoding="utf-8").partition("\n## ")[0]
        said = re.search(
            r"takes (about an hour and a half|about two hours|about an hour|about\s+(\d+)(?: minutes)?)", head
        )
        yield int(file.name[:2]), words.get(said[1]) or int(said[2])


@pytest.mark.parametrize("weeks", [12, 6])
def test_the_weeks_hold_every_chapter_and_lab_and_their_hours_add_up(root, weeks):
    text = (root / "book/syllabus.md").read_text(encoding="utf-8")
    part = text.partition({12: "## Twelve weeks", 6: "## Six weeks"}[weeks])[2].partition("\n## ")[0]
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines() if re.match(r"\| \d", line)]
    chapters, taken = dict(minutes_of_chapters(root)), {name: 0 for name in folders()}
    after = {}
    for name, folder in folders().items():
        taken[name], after[name] = release.about((folder / f"{name}.md").read_text(encoding="utf-8"))
    seen, given = [], []
    for week, (number, read, labs, hours, _) in enumerate(table, 1):
        own = [int(n) for n in re.findall(r"notebooks/(\d\d)-", read)]
        names = [name for name in labs.split(", ") if name]
        seen, given = seen + own, given + names
        assert int(number) == week
        assert all(max(after[name]) in seen for name in names), names
        minutes = sum(chapters[n] for n in own) + sum(taken[name] for name in names)
        assert float(hours) == math.ceil(minutes / 30) / 2, (week, minutes)
    assert len(table) == weeks and seen == sorted(chapters)
    assert sorted(given) == sorted(folders())


def test_every_kind_of_mistake_is_listed(name, folder):
    text = release.mistakes()
    kinds = {wanted["kind"] for _, wanted in corpus.answers(folder).values() if "kind" in wanted}
    assert all(f"- **{kind}**: " in text for kind in kinds)


def test_the_commands_of_the_syllabus_are_there(root):
    text = (root / "book/syllabus.md").read_text(encoding="utf-8")
    for line in re.findall(r"^quack-tutorial (labs \w+)", text, re.MULTILINE):
        with pytest.raises(SystemExit) as left:
            cli.main([*line.split(), "--help"])
        assert left.value.code == 0


# A hub ------------------------------------------------------------------------------------------------------------------


def test_the_hubs_recipes_name_the_wheel_and_the_versions_of_this_package(root):
    text = (root / "book/syllabus.md").read_text(encoding="utf-8")
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wheel = f"{project['name'].replace('-', '_')}-{__version__}-py3-none-any.whl"
    assert set(re.findall(r"[\w.-]+\.whl", text)) == {wheel}
    assert set(re.findall(r'"(jupyterlab[^"]*)"', text)) <= set(project["optional-dependencies"]["jupyter"])
    assert "quack-tutorial[jupyter]" in project["optional-dependencies"]["labs"]
    (image,) = re.findall(r"```dockerfile\n(.*?)```", text, re.DOTALL)
    steps = [line.split(maxsplit=1) for line in image.splitlines()]
    assert [word for word, _ in steps] == ["FROM", "COPY", "RUN", "COPY"]
    version = [int(n) for n in re.search(r":python-([\d.]+)$", steps[0][1])[1].split(".")]
    assert version >= [int(n) for n in project["requires-python"].removeprefix(">=").split(".")]
    assert re.search(r"^quack-tutorial labs release handout ", text, re.MULTILINE)  # what both copy
