"""Chapter 6 on a Hopper GPU: the cluster reduce, and what a read before the wait gives."""

import operator

import pytest

torch = pytest.importorskip("torch")

from quack_tutorial import compiler

_problem = compiler.dsl_problem() or compiler.gpu_problem(least=compiler.CLUSTERS)
if _problem:
    pytest.skip(f"needs a Hopper GPU and CuTe DSL: {_problem}", allow_module_level=True)

import cutlass.cute as cute
from dsl.cluster import reads_early

from quack_tutorial.kernels.reduce import ClusterReduce


@pytest.mark.parametrize("blocks, threads", ((1, 32), (2, 64), (4, 256), (8, 1024)))
def test_every_block_of_the_cluster_has_the_rows_result(blocks, threads):
    x = torch.randn(1000, 5001, device="cuda")
    out = torch.full((1000, blocks), torch.nan, device="cuda")
    for op, init_val, wanted in (
        (operator.add, 0.0, x.double().sum(1)),
        (cute.arch.fmax, -float("inf"), x.double().amax(1)),
    ):
        compiler.launch(ClusterReduce(op, init_val, blocks, threads), x, out)
        found = out.double()
        torch.testing.assert_close(found, wanted[:, None].expand(-1, blocks), rtol=0, atol=1e-3)


def test_a_read_before_the_wait_is_legal_and_stale():
    chain, out = torch.zeros(4, dtype=torch.int32, device="cuda"), torch.zeros(2, device="cuda")
    # loads of 15 ns or more: milliseconds after the read
    compiler.launch(reads_early, chain, out, 100_000)
    torch.cuda.synchronize()
    assert out.tolist() == [7, 8]
