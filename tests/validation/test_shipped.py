"""Suite `shipped` without a GPU: a stand-in plays compute-sanitizer, and the simulator the kernels."""

import pytest

from quack_tutorial.operations import KERNELS
from quack_tutorial.operations.kernel import Rows
from tests.validation.stand_ins import quiet, stand_in
from validation.gpu import sanitizer, shipped, worker

REPORT = """========= Invalid __global__ read of size 16 bytes
=========     at kernel_cutlass_kernel_0+0x110
"""
WHOLE = """========= COMPUTE-SANITIZER
now launching float32 16 x 1
{first}now launching float32 16 x 3
{second}{end}========= ERROR SUMMARY: {errors} errors
"""
DONE = worker.ALL_DONE + "\n"


@pytest.mark.parametrize(
    "first, second, end, wrong",
    [
        ("", "", DONE, ""),
        (REPORT, "", DONE, "Invalid __global__ read of size 16 bytes (float32 16 x 1)"),
        ("", REPORT, DONE, "Invalid __global__ read of size 16 bytes (float32 16 x 3)"),
        ("", "", "", "ended early (float32 16 x 3)"),
    ],
)
def test_a_report_is_named_with_its_case(first, second, end, wrong):
    text = WHOLE.format(first=first, second=second, end=end, errors=int(bool(first + second)))
    assert shipped.what_is_wrong(text) == wrong


def test_a_worker_that_does_not_start_says_so():
    assert shipped.what_is_wrong("ImportError: no torch\n").endswith("(before the first launch)")


COMPUTE_SANITIZER = """
assert os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] == "1"
worker, job, call, tool = args[-4:]
assert (worker, job) == ("validation.gpu.worker", "calls") and tool == args[1]
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
    from quack_tutorial import compiler

    monkeypatch.setattr(compiler, "dsl_problem", lambda: "")
    monkeypatch.setattr(compiler, "gpu_problem", lambda: "")
    stand_in(monkeypatch, tmp_path, "compute-sanitizer", COMPUTE_SANITIZER.replace("{done}", worker.ALL_DONE))
    suite = shipped.run(False, quiet)
    assert [row[:2] for row in suite.rows] == [(name, len(shipped.cases(name))) for name in shipped.CALLS]
    said = {row[0]: row[2:] for row in suite.rows}
    race = "Race reported between Write access and Read access (float32 16 x 1)"
    assert said["softmax"] == ("nothing", race, "nothing", "nothing")
    assert set(said["rmsnorm"]) == {"ended early (float32 16 x 1)"} and set(said["cross_entropy"]) == {"nothing"}
    assert len(suite.mismatches) == 5 and f"softmax, racecheck: {race}" in suite.mismatches
    assert suite.checked == 4 * len(shipped.CALLS)  # the stand-in launches one case each
    sample = shipped.run(True, quiet)
    assert {row[3:] for row in sample.rows} == {("not asked",) * 3} and len(sample.mismatches) == 1


def test_without_compute_sanitizer_one_sentence_says_so(monkeypatch):
    monkeypatch.setattr(sanitizer.shutil, "which", lambda _: None)
    suite = shipped.run(False, quiet)
    assert suite.mismatches == ("compute-sanitizer was not asked: it is not on the PATH",)


@pytest.mark.parametrize("name", shipped.CALLS)
def test_the_worker_makes_a_call_at_each_of_its_cases(name, monkeypatch, capsys):
    pytest.importorskip("torch")
    from quack_tutorial.ops import launches

    launched, of_simulator = [], launches.runner_for
    launches.column_sum.cache_clear()  # which an operation tested before may have filled

    def compiled(device, kernel, specs):
        run = of_simulator(device, kernel, specs)
        return lambda *args: (launched.append(type(kernel).__name__), run(*args))

    monkeypatch.setattr(launches, "runner_for", compiled)
    monkeypatch.setattr(shipped, "cases", lambda *_: [("float32", 3, 23), ("bfloat16", 2, 72)])
    worker.calls(name, "memcheck", "cpu")
    assert capsys.readouterr().out.splitlines() == [
        "now launching float32 3 x 23",
        "now launching bfloat16 2 x 72",
        worker.ALL_DONE,
    ]
    made = [KERNELS[one].launch(Rows("float32", 23, "congruent"))[0] for one in shipped.CALLS[name].operations]
    kernels = {type(kernel).__name__ for kernel in made}
    assert kernels <= set(launched) <= kernels | {"ColumnSum", "ReducedCrossEntropy"}
    assert launched.count(type(made[0]).__name__) in (2, 4)


def test_synccheck_sees_one_row_of_those_that_many_blocks_share():
    for name in shipped.CALLS:
        fewer = [(all_, few) for all_, few in zip(shipped.cases(name), shipped.cases(name, "synccheck")) if all_ != few]
        assert all(all_[::2] == few[::2] and few[1] == 1 and few[2] > 32768 for all_, few in fewer)
        assert bool(fewer) == (name != "cross_entropy")  # which takes one block a row
