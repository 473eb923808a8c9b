"""`quack-tutorial simulate FILE.py` and the pytest fixture, as book/simulator.md shows them."""

import json
import os
import re
import shlex

import pytest
from running import python

from quack_tutorial.cli import main

WITHOUT_THE_DSL = """
import importlib.util, sys
import pytest
from cutesim.language import loading

loading.dsl_installed = lambda: False
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in ("cutlass", "cuda") else find(name, *rest)
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.fixture
def folder(root, tmp_path, monkeypatch):
    """The working folder, with the page's file in it."""
    (tmp_path / "column_sum.py").write_text((root / "book/static/column_sum.py").read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_finding_is_told_beside_a_reference(root, capsys, folder):
    """The deadlock stops the kernel before it writes: there is nothing to compare, and the finding is the verdict."""
    (folder / "reference.py").write_text("def column_sum(x):\n    return x.sum(0)\n")
    words = "column_sum.py:ColumnSum() x=f32:96x8 out=f32:8:nan".split()
    words += "--against reference.py:column_sum".split()
    assert main(["simulate", *words]) == 1
    said = capsys.readouterr().out
    assert said.startswith("finding: deadlock, column_sum.py:19 (exit status 1)\n")
    assert main(["simulate", *words, "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "finding"


def test_the_book_s_page_says_what_the_command_says(root, capsys, folder):
    text = (root / "book/simulator.md").read_text()
    command, _, wanted = re.search(r"```console\n\$ quack-tutorial (.*?)```", text, re.DOTALL)[1].partition("\n")
    assert main(shlex.split(command)) == 1
    assert capsys.readouterr().out == wanted


def test_the_fixture_fails_a_test_on_a_finding(root, folder):
    text = (root / "book/simulator.md").read_text()
    body = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    wrong = body.partition("\n\n\n")[2]
    wrong = wrong.replace("test_column_sum", "test_fewer_rows").replace("128", "96")
    compared = (
        body.partition("\n\n\n")[2].replace("test_column_sum", "test_{0}").replace("x, out)", "x, out, against={0})")
    )
    references = "def right(x):\n    return x.sum(0)\n\n\ndef other(x):\n    return x.sum(0) + 1\n"
    tests = [body, wrong, references, *(compared.format(name) for name in ("right", "other"))]
    (folder / "test_kernel.py").write_text("\n\n".join(tests))
    words = ["-q", "-p", "cutesim.pytest_plugin", "-p", "no:cacheprovider", "--rootdir", ".", "."]
    done = python(
        "-c",
        WITHOUT_THE_DSL,
        *words,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(root), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert "2 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "finding: deadlock, column_sum.py:19" in done.stdout
    assert "wrong: 8 of 8 elements of out are not those of other: out[0] is 128 where it gives 129" in done.stdout
    assert "column_sum.py:19: Deadlock: 96 threads wait" in done.stdout
    assert "pytest_plugin.py" not in done.stdout  # the kernel's line, and none of ours
