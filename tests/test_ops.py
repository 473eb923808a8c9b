"""ops.softmax and launch on CPU tensors (the simulator) against torch, and every argument they refuse."""

from importlib import import_module

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from quack_tutorial import compiler, ops, reference

INF = float("inf")


def rows(M, N, dtype=torch.float32, seed=0, spread=8.0):
    return (torch.randn(M, N, generator=torch.Generator().manual_seed(seed)) * spread).to(dtype)


def assert_softmax(x, out):
    error = reference.softmax_error(x.double().numpy(), out.double().numpy(), str(x.dtype).removeprefix("torch."))
    assert error <= 1.0, f"error is {error:.2f} of the tolerance"


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
@pytest.mark.parametrize(
    "N", (1, 2, 3, 7, 8, 31, 33, 127, 255, 257, 1000, 1023, 3000, 4095, 4096, 12289, 16384, 50257, 262144)
)
def test_softmax_of_every_size(N, dtype):
    for M in (1, 5):
        x = rows(M, N, dtype)
        assert_softmax(x, ops.softmax(x))


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("offset, gap", ((0, 8), (1, 7), (3, 0), (5, 16), (1, 16)))
@pytest.mark.parametrize("N", (5, 100, 1001))
def test_views_at_any_address_leave_their_surroundings_alone(N, offset, gap, dtype):
    big_x = rows(5, N + gap + 8, dtype)
    x = big_x[:, offset : offset + N]
    assert_softmax(x, ops.softmax(x))
    big_out = torch.full_like(big_x, 777.0)
    out = big_out[:, offset : offset + N]
    promise = import_module("quack_tutorial.ops.launches").promise(x, out)
    import_module("quack_tutorial.ops.softmax")._kernel("cpu", str(dtype).removeprefix("torch."), N, promise)(x, out)
    assert_softmax(x, out)
    big_out[:, offset : offset + N] = 777.0
    assert (big_out == 777.0).all(), "wrote outside the view"


def test_float16_sums_do_not_overflow():
    x = torch.zeros(2, 16384, dtype=torch.float16)  # the sum of exp is 16384, of exp(11) more than float16 holds
    x[1] = 11.0
    assert (ops.softmax(x) == 1 / 16384).all()


@pytest.mark.parametrize("shape", ((0, 5), (5, 0), (2, 3, 64), (2, 1, 2, 33), (100,), ()))
def test_shapes_of_any_rank(shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    out = ops.softmax(x)
    assert out.shape == x.shape and out.is_contiguous() and out.dtype == x.dtype
    torch.testing.assert_close(out, torch.softmax(x, -1))
    torch.testing.assert_close(ops.softmax(x, dim=max(x.dim() - 1, 0)), out)


def test_rows_may_repeat_and_single_columns_have_any_stride():
    x = rows(1, 64)
    torch.testing.assert_close(ops.softmax(x.expand(5, 64)), torch.softmax(x.expand(5, 64), -1))
    column = rows(5, 8)[:, 3:4].t().t()
    assert (ops.softmax(column) == 1).all()


def versions():
    from quack_tutorial.kernels import copy, softmax

    Float32 = softmax.cutlass.Float32
    yield softmax.SoftmaxThreePass(), torch.softmax
    yield softmax.SoftmaxOnline(), torch.softmax
    for make in copy.LADDER.values():
        yield make(Float32, 257), lambda x, dim: x


def test_launch_runs_every_version_on_the_simulator():
    x = rows(5, 257)
    x[1, :250] = -INF
    for kernel, expected in versions():
        out = torch.full_like(x, 777.0)
        compiler.launch(kernel, x, out)
        torch.testing.assert_close(out, expected(x, dim=-1), msg=type(kernel).__name__)
        array = np.full((5, 257), 777.0, dtype=np.float32)
        compiler.launch(kernel, x.numpy(), array)
        np.testing.assert_array_equal(array, out.numpy())


def test_launch_without_tensors_says_so():
    from quack_tutorial.kernels import softmax

    with pytest.raises(TypeError, match=r"launch\(SoftmaxOnline\): no argument is a torch tensor or a numpy array"):
        compiler.launch(softmax.SoftmaxOnline(), 3)
