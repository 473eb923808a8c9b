"""The labs' autograder on Gradescope: what it writes, the zip that is uploaded, and the seed of a submission."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from grading import corpus, folders, sandbox
from quack_tutorial import cli

FLOOR = corpus.solution(folders()["floor"])
WRONG = FLOOR.replace("read + written", "2 * read + written")


def notebook(code):
    """A notebook of floor as a student hands it in."""
    cells = [{"cell_type": "code", "source": code, "metadata": {}, "outputs": [], "execution_count": None}]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def test_gradescopes_log_says_where_there_is_no_sandbox(tmp_path, capsys, monkeypatch):
    (tmp_path / "floor.py").write_text(FLOOR, encoding="utf-8")
    words = ["grade", "--gradescope", "--results", str(tmp_path / "out"), "floor", str(tmp_path / "floor.py")]
    for problem in (None, "There is no sandbox here: install bubblewrap."):
        monkeypatch.setattr(sandbox, "problem", lambda: problem)  # noqa: B023
        assert cli.main(words) == 0
        assert ("could read" in capsys.readouterr().err) == bool(problem)


def test_gradescope_gets_a_test_for_each_check_and_is_never_left_without(tmp_path, capsys):
    answer, out = tmp_path / "floor.py", tmp_path / "results.json"
    answer.write_text(WRONG, encoding="utf-8")
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
