"""The compiled softmax on a Hopper GPU against the float64 reference: shapes, addresses, hard values, streams, graphs."""

from importlib import import_module

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from quack_tutorial import compiler, ops, reference

_problem = compiler.dsl_problem() or compiler.gpu_problem(least=compiler.CLUSTERS)
if _problem:
    pytest.skip(f"needs a Hopper GPU and CuTe DSL: {_problem}", allow_module_level=True)

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
SIZES = (
    1,
    2,
    3,
    7,
    31,
    33,
    127,
    255,
    257,
    1000,
    1023,
    3000,
    4095,
    4096,
    5120,
    8191,
    12289,
    16383,
    16384,
    50257,
    131072,
    262143,
    262144,
)
POISON = 777.0  # no softmax has it


def run(x, out):
    """Softmax of the rows of x into out, without ops' own output."""
    name = str(x.dtype).removeprefix("torch.")
    promise = import_module("quack_tutorial.ops.launches").promise(x, out)
    import_module("quack_tutorial.ops.softmax")._kernel("cuda", name, x.shape[1], promise)(x, out)


def assert_softmax(x, out, rows=24):
    """All of `out` was written, and sampled rows are within tolerance of the reference."""
    M = x.shape[0]
    assert not (out == POISON).any(), "an output was not written"
    sample = sorted(
        {0, 1, M // 2, M - 2, M - 1, *np.random.default_rng(M).integers(0, M, rows).tolist()} & set(range(M))
    )
    error = reference.softmax_error(
        x[sample].double().cpu().numpy(), out[sample].double().cpu().numpy(), str(x.dtype).removeprefix("torch.")
    )
    assert error <= 1.0, f"error is {error:.2f} of the tolerance"


def random_rows(M, N, dtype, seed=0, spread=8.0):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return (torch.randn(M, N, generator=generator, device="cuda") * spread).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("N", SIZES)
def test_every_size(N, dtype):
    for M in (1, 3, 132, 1000):
        x = random_rows(M, N, dtype, seed=M)
        out = torch.full_like(x, POISON)
        run(x, out)
        assert_softmax(x, out)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("N", (3, 100, 1000, 1001, 4096, 8191))
def test_views_at_any_address_leave_their_surroundings_alone(N, dtype):
    for x_offset, out_offset, gap in ((0, 0, 8), (1, 1, 7), (3, 0, 1), (0, 5, 16), (1, 1, 16)):
        big_x = random_rows(37, N + gap + 8, dtype, seed=gap)
        big_out = torch.full_like(big_x, POISON)
        x, out = big_x[:, x_offset : x_offset + N], big_out[:, out_offset : out_offset + N]
        run(x, out)
        assert_softmax(x, out)
        outside = torch.ones_like(big_out, dtype=torch.bool)
        outside[:, out_offset : out_offset + N] = False
        assert (big_out[outside] == POISON).all(), "wrote outside the view"


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("N", (5, 257, 4096, 16383))
def test_hard_values(N, dtype):
    inf, nan = float("inf"), float("nan")
    largest = torch.finfo(dtype).max
    x = random_rows(16, N, dtype, spread=1.0)
    x[0] = -inf  # a whole row: NaN
    x[1, : N - 1] = -inf  # all threads but one see only -inf
    x[2, : N // 2] = -inf  # half of the warps do
    x[3, N // 2 :] = -inf
    x[4, N // 3] = inf  # NaN
    x[5, N - 1] = nan  # NaN
    x[6] = nan
    x[7] = largest
    x[8] = -largest
    x[9, 0] = largest
    x[10] = 0.0
    x[11] = torch.linspace(-1, 1, N, device="cuda") * (60000.0 if dtype == torch.float16 else 1e30)
    x[12] = torch.linspace(-100, 0, N, device="cuda")  # results down to subnormals
    x[13] = torch.finfo(dtype).tiny / 2
    x[14, 0], x[14, N - 1] = inf, -inf
    out = torch.full_like(x, POISON)
    run(x, out)
    assert_softmax(x, out, rows=64)


def test_matches_torch_in_what_is_nan():
    x = random_rows(4, 1000, torch.float32)
    x[0], x[1, 5], x[2, 7] = -float("inf"), float("inf"), float("nan")
    assert torch.equal(ops.softmax(x).isnan(), torch.softmax(x, -1).isnan())


def test_same_bits_every_run():
    x = random_rows(1000, 4095, torch.float32)
    first = ops.softmax(x)
    for _ in range(5):
        assert torch.equal(ops.softmax(x), first)


@pytest.mark.parametrize("shape", ((0, 5), (5, 0), (2, 3, 64), (2, 2, 2, 33), (1000,), ()))
def test_shapes_of_any_rank(shape):
    x = torch.randn(shape, device="cuda")
    out = ops.softmax(x)
    assert out.shape == x.shape and out.is_contiguous()
    torch.testing.assert_close(out, torch.softmax(x, -1))


def test_more_elements_than_32_bits_count():
    # 2^31 elements in 4 GiB; the last rows are the ones whose offset overflows.
    x = torch.zeros(2**31 // 4096 + 8, 4096, dtype=torch.float16, device="cuda")
    x[-8:] = random_rows(8, 4096, torch.float16)
    out = torch.full_like(x, POISON)
    run(x, out)
    assert_softmax(x[-8:], out[-8:])
    assert (out[:-8] == 1 / 4096).all()


def test_runs_on_torchs_current_stream():
    # The input is still being written on the side stream when softmax is called; a launch elsewhere would read zeros.
    x, fresh = torch.zeros(1000, 4096, device="cuda"), random_rows(1000, 4096, torch.float32)
    ops.softmax(x)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        x.copy_(fresh)
        out = ops.softmax(x)
    side.synchronize()
    assert_softmax(fresh, out)


def test_can_be_captured_in_a_cuda_graph():
    x = random_rows(132, 1000, torch.bfloat16)
    ops.softmax(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = ops.softmax(x)
    x.copy_(random_rows(132, 1000, torch.bfloat16, seed=5))
    graph.replay()
    torch.cuda.synchronize()
    assert_softmax(x, out)


def test_launch_compiles_for_the_tensors_it_is_given():
    import cutlass

    from quack_tutorial.kernels import copy, softmax

    for M, N in ((1, 64), (5, 1000), (132, 1001)):
        x = random_rows(M, N, torch.float32)
        for kernel in (softmax.SoftmaxThreePass(), softmax.SoftmaxOnline()):
            out = torch.full_like(x, POISON)
            compiler.launch(kernel, x, out)
            assert_softmax(x, out)
        for make in copy.LADDER.values():
            out = torch.full_like(x, POISON)
            compiler.launch(make(cutlass.Float32, N), x, out)
            assert torch.equal(out, x)


def test_launch_without_a_stream_parameter_keeps_the_order_of_the_current_stream():
    import cutlass
    import cutlass.cute as cute

    @cute.kernel
    def double(x: cute.Tensor, out: cute.Tensor):
        i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
        out[i] = x[i] * 2.0

    @cute.jit
    def host(x: cute.Tensor, out: cute.Tensor):
        double(x, out).launch(grid=[cute.size(x) // 128, 1, 1], block=[128, 1, 1])

    x, out = torch.zeros(1024, device="cuda"), torch.zeros(1024, device="cuda")
    compiler.launch(host, x, out)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        x.fill_(3.0)
        compiler.launch(host, x, out)
        copied = out.clone()
    side.synchronize()
    assert (copied == 6.0).all()
    assert cutlass.__version__ == compiler.DSL_VERSION


def test_refuses_tensors_on_two_devices():
    import cutlass

    from quack_tutorial.kernels import copy

    x = torch.zeros(4, 8, device="cuda")
    with pytest.raises(ValueError, match="one device, got cpu, cuda:0"):
        compiler.launch(copy.CopyVectors(cutlass.Float32, 8), x, torch.zeros(4, 8))
