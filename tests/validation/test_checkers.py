"""The suite `checkers`: its kernels before the simulator, and what it makes of the others' answers, which stand-ins give."""

import ast
import json
import sys

import numpy as np
import pytest

from cutesim.simulation import simulate
from cutesim.trace import Launch
from tests.validation.stand_ins import quiet
from validation import checkers, command
from validation.checkers import kernels, sentryward

CASES = kernels.CASES
FEW = {kind: CASES[kind] for kind in list(CASES)[:2]}


@pytest.mark.parametrize("kind", CASES)
def test_the_simulator_finds_each_kind_at_its_line(kind):
    verdict, at, words = checkers.simulated(CASES[kind], True)
    if kind in kernels.NOT_LOOKED_FOR:
        assert verdict == "silent"
        return
    assert (verdict, at) == ("found", True) and f"{CASES[kind].kind}: " in words


@pytest.mark.parametrize("kind", CASES)
def test_a_right_kernel_is_clean_and_right(kind):
    x, y, out = CASES[kind].arrays()
    run = simulate(CASES[kind].host, x, y, out, False)
    assert run.ok, run
    np.testing.assert_allclose(out, CASES[kind].right(*CASES[kind].arrays()[:2]), rtol=1e-4, atol=1e-4)


def test_each_kernel_has_a_twin_that_marks_lines(root):
    lines = (root / "validation/checkers/twins.py").read_text(encoding="utf-8").splitlines()
    kernels_of = [node for node in ast.parse("\n".join(lines)).body if isinstance(node, ast.FunctionDef)]
    twins = {node.name: "\n".join(lines[node.lineno : node.end_lineno]) for node in kernels_of}
    assert set(twins) == {case.name for case in CASES.values()}
    assert all("# here" in text and "bug" in text for text in twins.values())


def answers(**changed):
    """What everyone says where all bugs are found at their lines and nothing else is said, but for `changed`."""
    said = {}
    for tool in checkers.TOOLS:
        for case in FEW.values():
            said[tool, case.name, True], said[tool, case.name, False] = ("found", True, "words"), ("silent", False, "")
    return said | changed.get("but", {})


def test_what_others_find_and_the_simulator_misses_stands_first_and_is_a_mismatch():
    first, second = FEW
    missed = {("simulator", FEW[second].name, True): ("silent", False, "")}
    suite = checkers.compared(FEW, answers(but=missed))
    assert [row[0] for row in suite.rows] == [second, first, "found of 2", "reports on the right kernels"]
    assert suite.rows[0] == (second, "silent", *["found, at its line"] * 3)
    assert suite.rows[2][1:] == (1, 2, 2, 2)
    assert suite.mismatches == (f"{second}: the simulator is silent",)


def test_a_report_on_a_right_kernel_is_false():
    kind = next(iter(FEW))
    name = FEW[kind].name
    false = {(tool, name, False): ("found", False, "a race") for tool in ("simulator", "racecheck")}
    suite = checkers.compared(FEW, answers(but=false))
    assert suite.rows[-1][1:] == (1, 1, 0, 0)
    assert suite.mismatches == (f"{kind}, the right kernel: simulator: a race",)
    assert suite.notes == (f"{kind}, the right kernel: racecheck: a race",)


def test_what_refuses_and_what_gives_no_answer_is_told():
    kind = next(iter(FEW))
    said = answers(but={("SentryWard", FEW[kind].name, True): ("refused", False, "unsupported: a loop")})
    del said["synccheck", FEW[kind].name, True]
    suite = checkers.compared(FEW, said)
    assert suite.rows[0][1:] == ("found, at its line", "found, at its line", "refused", "refused")
    assert suite.notes == (f"{kind}: synccheck no answer", f"{kind}: SentryWard unsupported: a loop")


def test_the_twins_answers_are_read_line_by_line(tmp_path, monkeypatch):
    """The worker gets the kernels' arguments; each verdict of tirx-harness becomes one of ours."""
    lines = [
        {"name": "a", "bug": 1, "checker": "racecheck", "verdict": verdict, "at": True, "words": "w"}
        for verdict in ("clean", "error", "review", "incomplete")
    ]
    for k, line in enumerate(lines):
        line["name"] = f"k{k}"
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import pathlib, sys\nassert sorted(pathlib.Path(sys.argv[1]).glob('*.npz')), sys.argv\nprint('building')\n"
        + "".join(f"print({json.dumps(line)!r})\n" for line in lines)
    )
    monkeypatch.setattr(checkers, "WORKER", worker)
    said = checkers.from_twins(sys.executable, FEW.values(), quiet)
    verdicts = [said["racecheck", f"k{k}", True] for k in range(4)]
    assert verdicts == [(word, True, "w") for word in ("silent", "found", "found", "refused")]


def test_sentryward_is_told_the_launch_and_that_tensors_do_not_overlap():
    launch = Launch(kernel="k", grid=(2, 1, 1), block=(64, 1, 1), cluster=(2, 1, 1), smem_bytes=0)
    given = sentryward.configuration(["k_param_0", "k_param_1"], launch)
    assert given["launch"] == {"grid_dim": [2, 1, 1], "block_dim": [64, 1, 1], "cluster_dim": [2, 1, 1]}
    assert [one["parameter"] for one in given["declarations"]] == ["k_param_0", "k_param_1"]
    assert len({one["object"] for one in given["declarations"]}) == 2


def test_sentrywards_answers_are_judged_by_result_and_witness(tmp_path):
    source = tmp_path / "kernel.py"
    source.write_text("one\ntwo  # here\n")
    words = [{"message": "unordered"}]

    def race(line):
        access = {"location": {"file": str(source), "line": line}}
        return {"result": "potential_race", "diagnostics": words, "races": [{"first": access, "second": access}]}

    assert sentryward.judged(race(2)) == ("found", True, "potential_race: unordered")
    assert sentryward.judged(race(1)) == ("found", False, "potential_race: unordered")
    assert sentryward.judged({"result": "race_free"})[0] == "silent"
    assert sentryward.judged({"result": "unsupported", "diagnostics": words}) == (
        "refused",
        False,
        "unsupported: unordered",
    )


def test_without_an_interpreter_that_has_them_it_says_so(monkeypatch):
    monkeypatch.delenv(checkers.VARIABLE, raising=False)
    assert checkers.problem() == "QUACK_TIRX_PYTHON names no interpreter that has tirx-harness and sentryward"
    monkeypatch.setenv(checkers.VARIABLE, sys.executable)
    assert "No module named 'tirx_harness'" in checkers.problem()
    assert command.missing("tirx") is not None
