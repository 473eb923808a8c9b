"""The corpus of small kernels: silent where they are right, and the fault at its lines, in its words, where they are not."""

import numpy as np
import pytest

from cutesim.simulation import simulate
from validation.corpus import CASES

ORDERS = {"schedule": "forward"}, {"schedule": "reverse"}, {"schedule": "seeded", "seed": 1}
# if the warp that did not do it comes first
OTHERS = {"unpublished_init": "mbarrier not initialised"}
WORDS = {
    "histogram": "so one change is lost: is an atomic, as cute.arch.atomic_add, meant?",
    "turned": "Should one thread do it, or is the index wrong?",
    "shuffle_as_barrier": "stands between the two but orders no memory: is cute.arch.sync_warp() missing?",
    "rolling_stages": "orders a copy only for the thread that made it: is cute.arch.barrier() missing after it?",
    "unpublished_init": "Are mbarrier_init_fence() and cute.arch.barrier() missing between the two?",
    "two_writers": "in the same instruction, ",
    "exits_too_early": "which has exited. Is the closing cluster barrier missing?",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_its_fault_is_found_at_its_lines_in_every_order_and_none_without_it(case):
    for how in (*ORDERS, {"check": False}):
        x, out = case.arrays()
        run = simulate(case.host, x, out, False, **how)
        assert not run.findings, run
        np.testing.assert_allclose(out, case.right(x), rtol=1e-4, atol=1e-4)
    said = ""
    for how in ORDERS:
        findings = simulate(case.host, *case.arrays(), True, **how).findings
        kind = case.kind if how["schedule"] == "forward" else OTHERS.get(case.name, case.kind)
        assert {finding.kind for finding in findings} == {kind}
        assert all("# here" in line.text for finding in findings for line in finding.lines), findings
        said += "".join(finding.message for finding in findings)
    assert WORDS[case.name] in said


def test_the_compiler_takes_them():
    pytest.importorskip("cutlass.cute", reason="the CuTe DSL is not installed")
    torch = pytest.importorskip("torch")
    from quack_tutorial.compiler import ptx

    for case in CASES:
        for bug in (False, True):
            assert ".entry" in ptx(case.host, *map(torch.from_numpy, case.arrays()), bug), case.name
