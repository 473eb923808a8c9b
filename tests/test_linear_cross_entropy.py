"""`ops.linear_cross_entropy` on the CPU: torch's formula in float64, how many logits exist, and what it refuses."""

import math
import weakref
from importlib import import_module

import pytest

torch = pytest.importorskip("torch")

from quack_tutorial import ops

F = torch.nn.functional


def made(M, N, K, dtype=torch.float32, target=torch.int64):
    draw = torch.Generator().manual_seed(0)
    x, w = (torch.randn(*shape, generator=draw).to(dtype).requires_grad_() for shape in ((M, K), (N, K)))
    return x, w, torch.randint(N, (M,), generator=draw).to(target)


def exact(x, w, t, scale=1.0, **options):
    """(loss, gradients of scale times the loss) by torch in float64."""
    x, w = (tensor.detach().double().requires_grad_() for tensor in (x, w))
    loss = F.cross_entropy(x @ w.T, t.long(), **options)
    return loss.detach(), *torch.autograd.grad(scale * loss, (x, w))


@pytest.mark.parametrize("options", ({}, {"reduction": "sum"}, {"ignore_index": 3}), ids=str)
@pytest.mark.parametrize("rows", (None, 1, 4, 5, 100))
def test_pieces_add_up_to_the_whole(rows, options):
    x, w, t = made(12, 20, 8)
    t[[2, 5]] = options.get("ignore_index", 0)
    loss = ops.linear_cross_entropy(x, w, t, batch_chunk_size=rows, **options)
    assert loss.dtype is torch.float32
    found = loss.detach(), *torch.autograd.grad(3 * loss, (x, w))
    for one, other in zip(found, exact(x, w, t, 3, **options), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("target", (torch.int32, torch.uint8))
@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_sixteen_bits_lose_what_rounding_the_logits_loses(dtype, target):
    x, w, t = made(64, 33, 16, dtype, target)
    loss = ops.linear_cross_entropy(x, w, t)
    found = torch.autograd.grad(loss, (x, w))
    right, *gradients = exact(x, w, t)
    unit = torch.finfo(dtype).eps
    largest = (x @ w.T).abs().max().item()
    assert abs(loss.item() - right) < unit * largest
    for one, other in zip(found, gradients, strict=True):
        assert one.dtype is dtype and (one.double() - other).norm() < 4 * unit * other.norm()


def test_a_sum_over_many_rows_stays_within_float16():
    x, w = torch.full((4096, 2), 64.0).half(), torch.zeros(3, 2).half().requires_grad_()
    t = torch.zeros(4096).long()
    loss = ops.linear_cross_entropy(x, w, t)
    (dweight,) = torch.autograd.grad(loss, w)  # the sum before the mean would be 4096 * 64 * 2/3
    torch.testing.assert_close(
        dweight.float(), torch.tensor([[-2 / 3] * 2, [1 / 3] * 2, [1 / 3] * 2]) * 64, rtol=1e-3, atol=0
    )


def test_no_more_logits_exist_than_asked_for(monkeypatch):
    x, w, t = made(512, 40, 2)
    shapes, pieces, matmul = [], [], torch.Tensor.__matmul__

    def product(a, b):
        assert all(piece() is None for piece in pieces)
        logits = matmul(a, b)
        pieces.append(weakref.ref(logits))
        shapes.append(tuple(logits.shape))
        return logits

    monkeypatch.setattr(torch.Tensor, "__matmul__", product)
    ops.linear_cross_entropy(x, w, t, batch_chunk_size=96)
    assert shapes == [(96, 40)] * 5 + [(32, 40)]
    with torch.no_grad():
        ops.linear_cross_entropy(x, w, t)
    assert shapes[6:] == [(128, 40)] * 4


def test_a_loss_scale_may_pass_the_largest_number_of_float16():
    x, w, t = made(64, 33, 16, torch.float16, torch.int64)
    once, scaled = (torch.autograd.grad(ops.linear_cross_entropy(x, w, t) * by, (x, w)) for by in (1, 65536.0))
    for one, other in zip(once, scaled, strict=True):
        assert torch.equal(other.double(), 65536 * one.double())


@pytest.mark.parametrize("frozen", (0, 1))
def test_what_needs_no_gradient_gets_none(frozen):
    tensors = made(6, 20, 8)
    right = exact(*tensors)
    x, w = (x.detach() if k == frozen else x for k, x in enumerate(tensors[:2]))
    ops.linear_cross_entropy(x, w, tensors[2]).backward()
    wanted = (w, x)[frozen]
    torch.testing.assert_close(wanted.grad.double(), right[2 - frozen], rtol=2e-5, atol=2e-6)
    with torch.no_grad():
        loss = ops.linear_cross_entropy(*tensors)
    assert not loss.requires_grad and loss.item() == pytest.approx(right[0].item())


def test_no_rows_and_none_that_count_are_as_torch_has_them():
    for M, t in ((0, []), (3, [-100] * 3)):
        x, w, _ = made(M, 5, 4)
        target = torch.tensor(t, dtype=torch.int64)
        for reduction, value in (("mean", math.nan), ("sum", 0.0)):
            loss = ops.linear_cross_entropy(x, w, target, reduction=reduction)
            torch.testing.assert_close(loss.item(), value, equal_nan=True)
            assert not any(g.any() for g in torch.autograd.grad(loss, (x, w)))


def test_a_second_backward_pass_is_refused():
    x, w, t = made(6, 20, 8)
    loss = ops.linear_cross_entropy(x, w, t)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="used the gradients up"):
        loss.backward()
    with pytest.raises(RuntimeError, match="gradients of gradients are not covered"):
        g, *_ = torch.autograd.grad(ops.linear_cross_entropy(x, w, t), x, create_graph=True)
        g.sum().backward()


def test_compiled_and_under_autocast():
    x, w, t = made(6, 20, 8)
    right = exact(x, w, t)
    loss = torch.compile(ops.linear_cross_entropy, fullgraph=True, backend="aot_eager")(x, w, t)
    for one, other in zip((loss, *torch.autograd.grad(loss, (x, w))), right, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=2e-5, atol=2e-6)
    with torch.autocast("cpu", torch.bfloat16):
        loss = ops.linear_cross_entropy(x, w, t)
    assert loss.dtype is torch.float32 and x.dtype is torch.float32
    assert loss.item() == pytest.approx(right[0].item(), rel=2e-2)
    assert torch.autograd.grad(loss, w)[0].dtype is torch.float32


@pytest.mark.parametrize("dtype, N", (("float32", 256), ("float32", 1031), ("bfloat16", 8192), ("bfloat16", 40_000)))
def test_gradients_lie_where_the_logits_were_if_nobody_else_reads_those(dtype, N):
    from cutesim.simulation import simulate
    from quack_tutorial.ops import cross_entropy, launches
    from quack_tutorial.shipped import CROSS_ENTROPY_FUSED

    promise = "congruent" if N % 8 else "aligned"
    kernel, _ = CROSS_ENTROPY_FUSED.made_for(launches.rows("cpu", dtype, N, promise), target="int64")
    _, M = import_module(cross_entropy.__module__)._fused_kernel("cpu", dtype, "int64", N, promise)
    assert (M > 0) == (N > 256)
    x, target = torch.randn(M or 4, N).to(getattr(torch, dtype)), torch.arange(M or 4)
    _, dx = ops.cross_entropy_with_grad(x, target)
    run = simulate(kernel, x, target, torch.zeros(M or 4), None, x, -100)
    assert run.ok == (M > 0), run
    torch.testing.assert_close(x, dx, rtol=0, atol=0)
