"""What a course runs on: the students' copies, a folder of submissions graded, the pages that tell students what to mend."""

import json
import os
import shutil
import subprocess
import sys
import zlib

import pytest

from quack_tutorial import cli
from quack_tutorial.labs import corpus, folders, student
from quack_tutorial.labs.grade import grade


def solved(folder, name):
    """The text of a lab's solution, as a file."""
    return corpus.answers(folders()[name])["solution"][0]


# Release ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    pytest.importorskip("jupytext", reason="it writes the notebooks")
    folder = tmp_path_factory.mktemp("course") / "labs"
    assert cli.main(["labs", "release", str(folder)]) == 0
    return folder


def test_a_release_holds_these_files_and_no_others(released):
    files = {str(file.relative_to(released)) for file in released.rglob("*") if file.is_file()}
    assert files == {"README.md"} | {f"{name}/{file}" for name in folders() for file in (f"{name}.ipynb", "lab.packed")}


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
        "from quack_tutorial import labs\n"
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
