"""The same kernels on a Hopper GPU and on the simulator give the same bits, where arithmetic is exact."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch and a Hopper GPU")
from quack_tutorial.compiler import CLUSTERS, dsl_problem, gpu_problem, launch

PROBLEM = dsl_problem() or gpu_problem(least=CLUSTERS)
if PROBLEM:
    pytest.skip(f"needs a Hopper GPU and CuTe DSL: {PROBLEM}", allow_module_level=True)

import cutlass
from dsl import language as k
from dsl.async_copies import partly_off

from cutesim.simulation import simulate
from quack_tutorial.kernels.copy import LADDER
from validation.mutation.kernels import AsyncCopy, BulkCopy, ClusterSum

pytestmark = pytest.mark.gpu
DTYPES = {torch.float32: cutlass.Float32, torch.bfloat16: cutlass.BFloat16}
DTYPES |= {torch.float16: cutlass.Float16}


def both(host, x, out):
    """The kernel's output on the GPU and on the simulator, both over poisoned memory."""
    on_gpu = torch.full_like(out, 77).cuda()
    launch(host, x.cuda(), on_gpu)
    torch.cuda.synchronize()
    simulated = torch.full_like(out, 77)
    run = simulate(host, x, simulated)
    assert run.ok, run
    return on_gpu.cpu(), simulated


EXACT = "clamp_at_ten four_ways sum_below_lane lazy_choice with_helper with_plain_loop from_below two_kernels".split()


@pytest.mark.parametrize("name", EXACT)
def test_the_language_s_kernels_give_the_same_bits(name):
    x = torch.arange(32, dtype=torch.float32)
    gpu, simulated = both(getattr(k, name), x, torch.empty(32))
    assert torch.equal(gpu, simulated)


@pytest.mark.parametrize("kernel", [k.floor_divide, k.remainder], ids=["floor_divide", "remainder"])
def test_integer_division_gives_the_same_bits(kernel):
    x = torch.arange(-16, 16, dtype=torch.int32)
    gpu, simulated = both(kernel, x, torch.empty(32, dtype=torch.int32))
    assert torch.equal(gpu, simulated)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("N", [1000, 1001])
@pytest.mark.parametrize("version", LADDER)
def test_copies_move_the_same_bits(version, N, dtype):
    x = torch.randint(-(2**15), 2**15, (7, N * dtype.itemsize // 2), dtype=torch.int16).view(dtype)
    host = LADDER[version](DTYPES[dtype], N)
    gpu, simulated = both(host, x, torch.empty_like(x))
    assert torch.equal(gpu.view(torch.int16), simulated.view(torch.int16))
    assert torch.equal(gpu.view(torch.int16), x.view(torch.int16))


@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_cluster_sums_give_the_same_bits(blocks):
    x = torch.randn(3, 4096, generator=torch.Generator().manual_seed(1))
    gpu, simulated = both(ClusterSum(blocks), x, torch.empty(3, blocks))
    assert torch.equal(gpu, simulated)


@pytest.mark.parametrize("host", [AsyncCopy(), BulkCopy(128)], ids=["cp.async", "bulk"])
def test_asynchronous_copies_arrive(host):
    x = torch.randn(1, 128, generator=torch.Generator().manual_seed(2))
    gpu, simulated = both(host, x, torch.empty_like(x))
    assert torch.equal(gpu, x) and torch.equal(simulated, x)


@pytest.mark.parametrize("below", [0, 5, 32])
def test_lanes_whose_cp_async_is_off_get_zeros(below):
    x = torch.arange(1.0, 33.0)[None]
    gpu, simulated = both(partly_off(below), x, torch.empty_like(x))
    assert torch.equal(gpu, simulated)
    assert torch.equal(gpu, torch.where(torch.arange(32) < below, x, 0.0))
