"""What is handed out of the labs, and what the guide says of weeks, mistakes and hubs."""

import json
import math
import os
import re
import subprocess
import sys
import tomllib

import pytest

from grading import corpus, folders, lab, pack, release, student
from quack_tutorial import __version__


def test_a_check_that_fails_does_not_keep_run_all_from_the_others(name, folder):
    pytest.importorskip("jupytext", reason="it writes the notebooks")
    given = student.student_version((folder / f"{name}.md").read_text(encoding="utf-8"))
    cells = json.loads(release.notebook(name, given))["cells"]
    tagged = {"labs.check(" in "".join(cell["source"]) for cell in cells if cell["metadata"].get("tags")}
    checks = [cell["metadata"].get("tags") for cell in cells if "labs.check(" in "".join(cell["source"])]
    assert tagged == {True} and checks == [["raises-exception"]] * len(lab(name).CHECKS)


def test_the_checks_of_a_copy_run_where_there_is_nothing_but_the_copy(tmp_path):
    """In a folder of its own, with no labs/ in reach: a wrong answer is told, the right one passes."""
    (tmp_path / "floor").mkdir()
    (tmp_path / "floor/lab.packed").write_bytes(pack((folders()["floor"] / "lab.py").read_bytes()))
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


# Syllabus ---------------------------------------------------------------------------------------------------------------


def minutes_of_chapters(root):
    """{number, or name of a page without: minutes} that the chapters give for themselves."""
    words = {"about an hour": 60, "about an hour and a half": 90, "about two hours": 120}
    for file in sorted((root / "notebooks").glob("*.md")):
        head = file.read_text(encoding="utf-8").partition("\n## ")[0]
        said = re.search(
            r"takes (about an hour and a half|about two hours|about an hour|about\s+(\d+)(?: minutes)?)", head
        )
        if said:
            name = int(file.name[:2]) if file.name[0].isdigit() else file.stem
            yield name, words.get(said[1]) or int(said[2])


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
        own = [int(name[:2]) if name[0].isdigit() else name for name in re.findall(r"notebooks/([\w-]+)\.md", read)]
        names = [name for name in labs.split(", ") if name]
        seen, given = seen + own, given + names
        assert int(number) == week
        assert all(max(after[name]) in seen for name in names), names
        minutes = sum(chapters[n] for n in own) + sum(taken[name] for name in names)
        assert float(hours) == math.ceil(minutes / 30) / 2, (week, minutes)
    assert len(table) == weeks and sorted(seen, key=str) == sorted(chapters, key=str)
    assert [n for n in seen if n in range(99)] == sorted(n for n in chapters if n in range(99))
    assert sorted(given) == sorted(folders())


def test_every_kind_of_mistake_is_listed(name, folder):
    text = release.mistakes()
    kinds = {wanted["kind"] for _, wanted in corpus.answers(folder).values() if "kind" in wanted}
    assert all(f"- **{kind}**: " in text for kind in kinds)


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
    assert steps[3][1].startswith("release ") and "cp -r release " in text  # what nbgrader writes
