"""Kernels unlike the book's: silent where they are right, and the bug at its lines where they are not."""

import numpy as np
import pytest

from cutesim.simulation import simulate
from validation.unlike_kernels import CASES

ORDERS = ("forward", "reverse", "seeded")


@pytest.mark.parametrize("schedule", ORDERS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_right_kernel_is_clean_and_right(case, schedule):
    x, y, out = case.arrays()
    run = simulate(case.host, x, y, out, False, schedule=schedule)
    assert run.ok, run
    wanted = case.right(*case.arrays()[:2])
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_its_bug_is_found_at_its_lines(case):
    for schedule in ORDERS:
        x, y, out = case.arrays()
        findings = simulate(case.host, x, y, out, True, schedule=schedule).findings
        assert {finding.kind for finding in findings} == {case.kind}
        for finding in findings:
            assert all("# here" in line.text for line in finding.lines), finding


def told(name):
    case = next(case for case in CASES if case.name == name)
    return [finding.message for finding in simulate(case.host, *case.arrays(), True).findings]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("histogram", "so one change is lost: is an atomic, as cute.arch.atomic_add, meant?"),
        ("spin_lock", "is cute.arch.fence_acq_rel_gpu() missing before the atomic at unlike_kernels.py:527?"),
        ("pipeline_of_warps", "has missed phase 0, of the same parity: that one and phase 1 are over, with 64 from"),
        ("two_halves", "Do more threads arrive than are counted, or does one arrive too soon?"),
        ("matvec", "lets 1 group stay under way: is that too many?"),
        ("bytes_as_words", "at y[128]; y is (128,)"),
        ("turned", "Should one thread do it, or is the index wrong?"),
    ],
)
def test_one_cause_is_told_once_and_in_words_that_mend_it(name, words):
    (message,) = told(name)
    assert words in message and "barrier() missing" not in message


def test_the_compiler_takes_them():
    pytest.importorskip("cutlass.cute", reason="the CuTe DSL is not installed")
    torch = pytest.importorskip("torch")
    from quack_tutorial.compiler import ptx

    for case in CASES:
        assert ".entry" in ptx(case.host, *map(torch.from_numpy, case.arrays()), False), case.name
