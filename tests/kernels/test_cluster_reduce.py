"""`ClusterReduce`: right and without a finding on the simulator, in every order, and what its PTX asks for."""

import operator

import numpy as np
import pytest

pytest.importorskip("cuda.bindings.driver", reason="CuTe DSL is not installed")
cute = pytest.importorskip("cutlass.cute", reason="CuTe DSL is not installed")

from cutesim.simulation import simulate
from cutesim.trace import Op
from quack_tutorial.kernels.reduce import ClusterReduce

X = np.random.default_rng(6).standard_normal((2, 301)).astype(np.float32)


@pytest.mark.parametrize("schedule", ("forward", "reverse", "seeded"))
@pytest.mark.parametrize("blocks, threads", ((1, 32), (2, 64), (4, 128), (8, 32), (16, 32)))
def test_every_block_of_the_cluster_has_the_rows_result(blocks, threads, schedule):
    for op, init_val, wanted in (
        (operator.add, 0.0, X.astype(np.float64).sum(1)),
        (cute.arch.fmax, -np.inf, X.max(1)),
    ):
        out = np.full((2, blocks), np.nan, np.float32)
        run = simulate(ClusterReduce(op, init_val, blocks, threads), X, out, schedule=schedule, seed=blocks)
        assert run.ok, run
        assert np.abs(out - wanted[:, None]).max() < 1e-3 * (op is operator.add) + 1e-30
        assert (out == out[:, :1]).all()  # the same bits in every block


def test_a_block_sends_one_word_to_each_block():
    run = simulate(ClusterReduce(blocks=4, threads_per_block=64), X[:1], np.zeros((1, 4), np.float32))
    sends = run.trace.select(Op.STORE_ASYNC)
    assert [bin(int(mask)).count("1") for mask in sends["mask"]] == [4] * 4  # of a block's two warps, one sends
    assert len(run.trace.select(Op.ASYNC_DONE)) == 16
