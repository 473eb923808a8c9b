"""The mutation suite's kernels of clusters and copies: right in both modes, and each finding where a step is missing."""

import numpy as np
import pytest

from cutesim import SimulationError
from cutesim.simulation import simulate
from tests.validation.edited import edited
from validation.mutation import kernels
from validation.mutation.kernels import AsyncCopy, BulkCopy, ClusterSum


def rows(M=2, N=4096):
    return np.random.default_rng(0).standard_normal((M, N)).astype(np.float32)


@pytest.mark.parametrize("schedule", ["forward", "reverse", "seeded"])
@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_a_cluster_sums_rows(blocks, schedule):
    x = rows()
    wanted = x.astype(np.float64).sum(axis=1, keepdims=True)
    fast, checked = (np.full((2, blocks), np.nan, np.float32) for _ in range(2))
    simulate(ClusterSum(blocks), x, fast, check=False)
    run = simulate(ClusterSum(blocks), x, checked, schedule=schedule, seed=3)
    assert run.ok, run
    assert np.abs(fast - wanted).max() < 1e-3
    np.testing.assert_array_equal(fast, checked)


# what is made of a step, and the kind and words of the finding
EXPECT = "cute.arch.mbarrier_arrive_and_expect_tx(mbar, 4 * 4 * self.blocks"
BUGS = {
    "unpublished": (
        ("        cute.arch.cluster_arrive()\n        cute.arch.cluster_wait()\n",),
        "mbarrier not initialised",
        "store_async_dsmem uses an mbarrier of block 2 that is not initialised yet",
    ),
    "too many bytes": (
        (EXPECT, EXPECT + " + 4"),
        "mbarrier byte mismatch",
        "expects 36 bytes in phase 0, and 32 came, from blocks 0, 2 (kernels.py:",
    ),
    "no arrival": (
        (f"            {EXPECT})\n",),
        "deadlock",
        "an mbarrier (phase 0: 1 arrival and -32 bytes outstanding; ",
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_missing_step_is_found(bug):
    edit, kind, text = BUGS[bug]
    with edited(kernels, *edit):
        finding = simulate(ClusterSum(2), rows(), np.zeros((2, 2), np.float32)).findings[0]
    assert finding.kind == kind, finding
    assert text in finding.message


def test_bulk_copies_both_ways():
    x = rows(3, 512)
    out = np.zeros_like(x)
    for check in (False, True):
        out[...] = 0
        run = simulate(BulkCopy(512), x, out, check=check)
        assert run.ok, run
        np.testing.assert_array_equal(out, x)


def test_reading_before_a_bulk_copy_lands_shows_old_bytes():
    x = rows(1, 512)
    out = np.zeros_like(x)
    wait, loop = "        cute.arch.mbarrier_wait(mbar, 0)\n", "        for i in range(tidx, self.N, 64):\n"
    with edited(kernels, wait + loop, loop):
        run = simulate(BulkCopy(512), x, out)
    assert not run.ok
    assert np.isnan(out).any()  # poison, not the row


def test_reading_before_cp_async_lands_shows_old_bytes():
    x = rows(1, 128)
    out = np.zeros_like(x)
    wait, read = "        cute.arch.cp_async_wait_group(0)\n", "        mO[0, tidx] = sX[0, tidx]\n"
    with edited(kernels, wait + read, read + wait):
        run = simulate(AsyncCopy(), x, out)
    assert not run.ok
    assert np.isnan(out).any()
    assert simulate(AsyncCopy(), x, out).ok
    np.testing.assert_array_equal(out, x)


def test_a_peer_that_does_not_exist_is_said():
    refused = pytest.raises(SimulationError, match="block rank 2 does not exist: the cluster has 2 blocks")
    with edited(kernels, "mbar, lane)", "mbar, lane + 1)"), refused:
        simulate(ClusterSum(2), rows(), np.zeros((2, 2), np.float32), check=False)
