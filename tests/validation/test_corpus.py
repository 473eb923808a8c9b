"""The corpus of small kernels: silent where they are right, and the fault at its lines where they are not."""

import numpy as np
import pytest

from cutesim.simulation import simulate
from validation.corpus import CASES

ORDERS = ({"schedule": "forward"}, {"schedule": "reverse"})
ORDERS += ({"schedule": "seeded", "seed": 1}, {"check": False})
BY_NAME = {case.name: case for case in CASES}
# if the warp that did not do it comes first
OTHERS = {"unpublished_init": "mbarrier not initialised"}
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@each
def test_a_right_kernel_is_clean_and_right(case):
    for how in ORDERS:
        x, y, out = case.arrays()
        run = simulate(case.host, x, y, out, False, **how)
        assert not run.findings, run
        np.testing.assert_allclose(out, case.right(*case.arrays()[:2]), rtol=1e-4, atol=1e-4)


@each
def test_its_fault_is_found_at_its_lines_in_every_order(case):
    for how in [{"orders": case.orders}] if case.orders else ORDERS[:3]:
        findings = simulate(case.host, *case.arrays(), True, **how).findings
        first = how.get("schedule", "forward") == "forward"
        kind = case.kind if first else OTHERS.get(case.name, case.kind)
        assert {finding.kind for finding in findings} == ({kind} if kind else set())
        assert all("# here" in line.text for finding in findings for line in finding.lines), findings
    assert bool(case.why) == (case.kind is None)


@pytest.mark.parametrize(
    "name, words",
    [
        ("histogram", "so one change is lost: is an atomic, as cute.arch.atomic_add, meant?"),
        ("spin_lock", "is cute.arch.fence_acq_rel_gpu() missing before the atomic at corpus.py:"),
        ("pipeline_of_warps", "has missed phase 0, of the same parity: that one and phase 1 are over, with 64 from"),
        ("two_halves", "Do more threads arrive than are counted, or does one arrive too soon?"),
        ("wait_group_off_by_one", "lets 1 group stay under way: is that too many?"),
        ("bytes_as_words", "at y[128]; y is (128,)"),
        ("turned", "Should one thread do it, or is the index wrong?"),
    ],
)
def test_one_cause_is_told_once_and_in_words_that_mend_it(name, words):
    (finding,) = simulate(BY_NAME[name].host, *BY_NAME[name].arrays(), True).findings
    assert words in finding.message and "barrier() missing" not in finding.message


def test_no_two_kernels_show_the_same_fault():
    assert len(BY_NAME) == len(CASES) == len({case.wrong for case in CASES})


def test_the_compiler_takes_them():
    pytest.importorskip("cutlass.cute", reason="the CuTe DSL is not installed")
    torch = pytest.importorskip("torch")
    from quack_tutorial.compiler import ptx

    for case in CASES:
        for bug in (False, True):
            assert ".entry" in ptx(case.host, *map(torch.from_numpy, case.arrays()), bug), case.name
