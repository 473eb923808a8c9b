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
    for how in ORDERS[:3]:
        findings = simulate(case.host, *case.arrays(), True, **how).findings
        kind = case.kind if how["schedule"] == "forward" else OTHERS.get(case.name, case.kind)
        assert {finding.kind for finding in findings} == {kind}
        assert all("# here" in line.text for finding in findings for line in finding.lines), findings


@pytest.mark.parametrize(
    "name, words",
    [
        ("histogram", "so one change is lost: is an atomic, as cute.arch.atomic_add, meant?"),
        ("spin_lock", "is cute.arch.fence_acq_rel_gpu() missing before the atomic at corpus.py:"),
        ("wait_group_off_by_one", "lets 1 group stay under way: is that too many?"),
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
