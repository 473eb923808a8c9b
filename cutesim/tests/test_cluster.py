"""Clusters: numbers that blocks send each other, and what is said when a step is missing."""

import numpy as np
import pytest
from dsl.cluster import Exchange, leaves, pair, reads_early

from cutesim.simulation import simulate

X = np.arange(1, 5, dtype=np.float32)


@pytest.mark.parametrize("schedule", ["forward", "reverse", "seeded"])
def test_without_the_fault_there_is_no_finding(schedule):
    out = np.zeros((4, 2), np.float32)
    run = simulate(Exchange(), X, out, schedule=schedule)
    assert run.ok, run
    np.testing.assert_array_equal(out, [[10, 30]] * 4)  # 1 + 2 + 3 + 4 and 1 + 4 + 9 + 16


def test_a_read_before_the_wait_is_legal_and_stale():
    """What chapter 6 says of it; `tests/gpu/test_cluster_reduce_gpu.py` asks a GPU the same."""
    out = np.zeros(2, np.float32)
    run = simulate(reads_early, np.zeros(4, np.int32), out, 3)
    assert not run.ok
    assert {finding.kind for finding in run.findings} <= {"race", "read before arrival"}
    assert out.tolist() == [7, 8]


@pytest.mark.parametrize("how, wanted", [("bits", [[-2.5] * 2, [1.75] * 2]), ("numbers", [[-2, -2], [1, 1]])])
def test_st_async_sends_integers_so_a_number_is_converted(how, wanted):
    """As CuTe DSL 4.8.1 compiles it: cvt.rzi.s32.f32 before st.async where the value is no integer."""
    out = np.zeros((2, 2), np.float32)
    run = simulate(pair(how), np.array([1.75, -2.5], np.float32), out)
    assert run.ok, run
    np.testing.assert_array_equal(out, wanted)
    told = [note for note in run.observations if "send .bitcast(cutlass.Int32)" in note]
    assert len(told) == (how == "numbers")


@pytest.mark.parametrize("by", ["block", "warp"])
@pytest.mark.parametrize("options", [{"schedule": "forward"}, {"schedule": "reverse"}, {"orders": "all"}])
def test_a_cluster_barrier_waits_for_nobody_who_has_ended(by, options):
    """PTX ISA, exit: a barrier of the whole cluster is released where only threads that exit hold it up."""
    assert simulate(leaves(by), np.zeros(64, np.float32), **options).ok
    found = simulate(leaves(by, reads=True), np.zeros(64, np.float32), **options).findings
    assert {finding.kind for finding in found} == {"exit with traffic in flight"}
