"""Suite `shipped` without a GPU: a stand-in plays compute-sanitizer, and the simulator the kernels."""

import os
import sys

import pytest

from quack_tutorial import compiler
from quack_tutorial.shipped import KERNELS, Rows
from validation import shipped

INVALID = """========= Invalid __global__ read of size 16 bytes
=========     at kernel_cutlass_kernel_0+0x110
"""
RACE = """========= Error: Race reported between Write access at kernel_0+0x90 in /x/copy.py:40
=========     and Read access at kernel_0+0xa0 in /x/copy.py:43 [256 hazards]
"""
WHOLE = """========= COMPUTE-SANITIZER
now launching float32 16 x 1
{first}now launching float32 16 x 3
{second}{end}========= {whose} SUMMARY: {errors} errors
"""
DONE = shipped.ALL_DONE + "\n"


@pytest.mark.parametrize(
    "first, second, end, errors, wrong",
    [
        ("", "", DONE, 0, ""),
        (INVALID, "", DONE, 1, "Invalid __global__ read of size 16 bytes (float32 16 x 1)"),
        ("", RACE, DONE, 1, "Race reported between Write access and Read access (float32 16 x 3)"),
        ("", "", "", 0, "ended early (float32 16 x 3)"),
        ("", "", DONE, 3, "errors without a report (float32 16 x 3)"),
    ],
)
def test_a_report_is_named_with_its_case(first, second, end, errors, wrong):
    whose = "RACECHECK" if RACE in second else "ERROR"
    found = shipped.what_is_wrong(WHOLE.format(first=first, second=second, end=end, errors=errors, whose=whose))
    assert found == wrong


COMPUTE_SANITIZER = """
assert os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] == "1"
module, call, tool = args[-3:]
assert module == "validation.shipped" and tool == args[1]
print("========= COMPUTE-SANITIZER")
print("now launching float32 16 x 1")
wrong = call == "softmax" and "racecheck" in args
if wrong:
    print("========= Error: Race reported between Write access and Read access")
if call != "rmsnorm":
    print("{done}")
print("========= ERROR SUMMARY: 1 errors" if wrong else "========= ERROR SUMMARY: 0 errors")
"""


def test_each_call_has_a_line_and_what_is_reported_is_a_mismatch(monkeypatch, tmp_path):
    monkeypatch.setattr(compiler, "dsl_problem", lambda: "")
    monkeypatch.setattr(compiler, "gpu_problem", lambda: "")
    script, plays = tmp_path / "compute-sanitizer", tmp_path / "plays.py"
    program = COMPUTE_SANITIZER.replace("{done}", shipped.ALL_DONE)
    plays.write_text("import os, sys\nargs = sys.argv[1:]\n" + program)
    # a first line holds no path with a space
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{plays}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    suite = shipped.run(False, str)
    found = [row[:2] for row in suite.rows]
    assert found == [(name, len(shipped.cases(name))) for name in shipped.CALLS]
    said = {row[0]: row[2:] for row in suite.rows}
    race = "Race reported between Write access and Read access (float32 16 x 1)"
    assert said["softmax"] == ("nothing", race, "nothing", "nothing")
    assert set(said["rmsnorm"]) == {"ended early (float32 16 x 1)"}
    assert set(said["cross_entropy"]) == {"nothing"}
    assert len(suite.mismatches) == 5 and f"softmax, racecheck: {race}" in suite.mismatches
    assert suite.checked == 4 * len(shipped.CALLS)  # the stand-in launches one case each
    sample = shipped.run(True, str)
    assert {row[3:] for row in sample.rows} == {("not asked",) * 3} and len(sample.mismatches) == 1


@pytest.mark.parametrize("name", shipped.CALLS)
def test_the_process_makes_a_call_at_each_of_its_cases(name, monkeypatch, capsys):
    pytest.importorskip("torch")
    from quack_tutorial.ops import launches

    launched, of_simulator = [], launches.runner_for
    launches.column_sum.cache_clear()  # which an operation tested before may have filled

    def compiled(device, kernel, specs):
        run = of_simulator(device, kernel, specs)
        return lambda *args: (launched.append(type(kernel).__name__), run(*args))

    monkeypatch.setattr(launches, "runner_for", compiled)
    monkeypatch.setattr(shipped, "cases", lambda *_: [("float32", 3, 23), ("bfloat16", 2, 72)])
    shipped.call(name, "memcheck", "cpu")
    assert capsys.readouterr().out.splitlines() == [
        "now launching float32 3 x 23",
        "now launching bfloat16 2 x 72",
        shipped.ALL_DONE,
    ]
    made = [KERNELS[one].launch(Rows("float32", 23, "congruent"))[0] for one in shipped.CALLS[name].operations]
    kernels = {type(kernel).__name__ for kernel in made}
    assert kernels <= set(launched) <= kernels | {"ColumnSum", "ReducedCrossEntropy"}
    assert launched.count(type(made[0]).__name__) in (2, 4)


def test_synccheck_sees_one_row_of_those_that_many_blocks_share():
    for name in shipped.CALLS:
        every = zip(shipped.cases(name), shipped.cases(name, "synccheck"))
        fewer = [(all_, few) for all_, few in every if all_ != few]
        assert all(all_[::2] == few[::2] and few[1] == 1 and few[2] > 32768 for all_, few in fewer)
        assert bool(fewer) == (name != "cross_entropy")  # which takes one block a row
