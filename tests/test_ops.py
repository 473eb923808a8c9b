"""The operations and `launch` on CPU tensors, the simulator: what tests/gpu/test_ops_gpu.py does not do there as well."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from quack_tutorial import compiler, ops

F = torch.nn.functional
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def randn(*shape, dtype=torch.float32, seed=0, grad=False):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return x.requires_grad_(grad)


def exact(*tensors):
    """The tensors in float64, with gradients of their own."""
    return [None if t is None else t.detach().double().requires_grad_() for t in tensors]


def name(dtype):
    return str(dtype).removeprefix("torch.")


def test_layernorm_s_weight_and_bias_may_be_there_alone_and_anywhere():
    x, dy, vectors = randn(9, 64, grad=True), randn(9, 64, seed=1), randn(2, 65, seed=2)
    w = vectors[0, 1:].requires_grad_()  # starts 4 bytes behind a boundary
    for given in (dict(weight=w), dict(bias=w)):
        ours, torchs = (
            torch.autograd.grad(y, (x, w), dy) for y in (ops.layernorm(x, **given), F.layer_norm(x, (64,), **given))
        )
        for one, other in zip(ours, torchs, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def softmax_gradient(x, target, weight):
    """The gradient of cross-entropy in float64, each row's times its weight; target -100 is ignored."""
    (X,) = exact(x)
    (F.cross_entropy(X, target, reduction="none") * weight.double()).sum().backward()
    return X.grad


@pytest.mark.parametrize("of_dloss", (*DTYPES, torch.float64), ids=name)
@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_the_gradients_of_losses_are_read_as_they_lie_in_memory(dtype, of_dloss):
    x, target = randn(6, 33, dtype=dtype), torch.tensor([0, 32, -100, 16, -100, 11])
    lse = x.float().logsumexp(-1)
    step = {"float32": 5e-5, "bfloat16": 2**-7, "float16": 2**-10}[name(dtype)]
    spread = randn(6, 3, dtype=of_dloss)
    laid_out = (spread[:, 0].contiguous(), spread[:, 1])
    laid_out += (spread.new_full((), 0.75).expand(6), spread.flatten()[1:7])
    for dloss in laid_out:
        for scale in (None, torch.tensor(0.25)):
            found = torch.ops.quack_tutorial.cross_entropy_backward(x, target, dloss, lse, -100, scale)
            wanted = softmax_gradient(x, target, dloss if scale is None else dloss * scale)
            torch.testing.assert_close(found.double(), wanted, rtol=step, atol=4e-7 if dtype == torch.float32 else 1e-3)


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_upstream_gradients_may_lie_apart_and_be_asked_for_twice(dtype):
    x, target = randn(6, 33, dtype=dtype, grad=True), torch.tensor([0, 32, -100, 16, -100, 11])
    losses = ops.cross_entropy(x, target, reduction="none")
    apart = randn(6, 2, dtype=dtype, seed=1)[:, 1]
    (packed,) = torch.autograd.grad(losses, x, apart.contiguous(), retain_graph=True)
    (once,) = torch.autograd.grad(losses, x, apart, retain_graph=True)
    losses.backward(apart)
    assert torch.equal(packed, once) and torch.equal(packed, x.grad)
    # The same losses twice in what is differentiated: their gradients are added up before they come here.
    (both,) = torch.autograd.grad((mean := ops.cross_entropy(x, target)) + 2 * mean, x)
    (single,) = torch.autograd.grad(ops.cross_entropy(x, target), x, torch.tensor(3.0, dtype=dtype))
    assert torch.equal(both, single)


@pytest.mark.parametrize("reduction", ("mean", "sum", "none"))
@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_the_gradient_of_cross_entropy_is_one_kernel(dtype, reduction):
    """Beside the place for the result, torch is asked for views of what it has: nothing that takes a kernel of its own."""
    x, target = randn(6, 40, dtype=dtype, grad=True), torch.tensor([0, 39, -100, 16, -100, 11])
    losses = ops.cross_entropy(x, target, reduction=reduction)
    dloss = torch.ones_like(losses)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.autograd.grad(losses, x, dloss)
    names = [event.name for event in profile.events()]
    asked = {name.removeprefix("aten::") for name in names if name.startswith("aten::")}
    # The simulator's way to numpy is among them; a conversion that copies would be _to_copy as well.
    views = {"expand", "as_strided", "detach", "view", "alias", "to", "resolve_conj", "resolve_neg"}
    assert "empty_like" in asked, asked
    assert asked <= {"empty_like", "empty_strided", "new_empty", "empty", *views}, asked


def test_a_sum_whose_norm_nobody_uses_has_a_gradient():
    x, residual = (torch.randn(3, 33, requires_grad=True) for _ in range(2))
    _, h = ops.rmsnorm(x, None, None, residual)
    (2 * h).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 2.0)) and torch.equal(residual.grad, x.grad)


def test_float16_sums_do_not_overflow():
    # the sum of exp is 16384, of exp(11) more than float16 holds
    x = torch.zeros(2, 16384, dtype=torch.float16)
    x[1] = 11.0
    assert (ops.softmax(x) == 1 / 16384).all()


def test_rows_may_repeat_and_single_columns_have_any_stride():
    x = 8 * randn(1, 64)
    torch.testing.assert_close(ops.softmax(x.expand(5, 64)), torch.softmax(x.expand(5, 64), -1))
    column = randn(5, 8)[:, 3:4].t().t()
    assert (ops.softmax(column) == 1).all()


def test_launch_takes_tensors_and_arrays():
    from quack_tutorial.kernels.softmax import SoftmaxOnline

    x = 8 * randn(5, 257)
    x[1, :250] = -torch.inf
    out, array = torch.full_like(x, 777.0), np.full((5, 257), 777.0, dtype=np.float32)
    compiler.launch(SoftmaxOnline(), x, out)
    compiler.launch(SoftmaxOnline(), x.numpy(), array)
    torch.testing.assert_close(out, torch.softmax(x, -1))
    np.testing.assert_array_equal(array, out.numpy())
