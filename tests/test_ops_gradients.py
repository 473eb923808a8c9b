"""rmsnorm, cross_entropy and all gradients on CPU tensors (the simulator) against float64; torch.library and torch.compile."""

import pytest

torch = pytest.importorskip("torch")

from quack_tutorial import ops, reference

F = torch.nn.functional
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
SIZES = (1, 3, 33, 64, 257, 1000)
EPS = 1e-6


def randn(*shape, dtype=torch.float32, seed=0, grad=False):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return x.requires_grad_(grad)


def exact(*tensors):
    """The tensors in float64, with gradients of their own."""
    return [None if t is None else t.detach().double().requires_grad_() for t in tensors]


def numbers(*tensors):
    return [None if t is None else t.detach().double().numpy() for t in tensors]


def name(dtype):
    return str(dtype).removeprefix("torch.")


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("N", SIZES)
def test_softmax_gradient(N, dtype):
    x, dy = randn(5, N, dtype=dtype, grad=True), randn(5, N, dtype=dtype, seed=1)
    y = ops.softmax(x)
    y.backward(dy)
    y, dy, dx = numbers(y, dy, x.grad)
    assert reference.softmax_backward_error(y, dy, dx, name(dtype)) <= 1


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("M, N", [*((5, N) for N in SIZES), (40, 1001)])  # the last: copied, several rows a block
def test_rmsnorm_with_everything_and_its_gradients(M, N, dtype):
    x, r = randn(M, N, dtype=dtype, grad=True), randn(M, N, dtype=dtype, seed=1, grad=True)
    w, b = randn(N, seed=2, grad=True), randn(N, dtype=dtype, seed=3, grad=True)
    dy, dh = randn(M, N, dtype=dtype, seed=4), randn(M, N, dtype=dtype, seed=5)
    y, h = ops.rmsnorm(x, w, b, r, eps=EPS)
    with torch.no_grad():
        same_y, same_h = ops.rmsnorm(x, w, b, r, eps=EPS)
    assert torch.equal(y, same_y) and torch.equal(h, same_h)
    torch.autograd.backward((y, h), (dy, dh))
    kind, (X, W, B, R, Y, H, DY, DH) = name(dtype), numbers(x, w, b, r, y, h, dy, dh)
    assert reference.rmsnorm_error(X, Y, kind, weight=W, bias=B, residual=R, eps=EPS) <= 1
    assert (H == torch.from_numpy(X + R).to(dtype).double().numpy()).all()
    # The backward starts from h as it was stored, and from rstd of h as it was before that.
    DX, DR, DW, DB = numbers(x.grad, r.grad, w.grad, b.grad)
    rstd = reference.rmsnorm_rstd(X, residual=R, eps=EPS)
    assert (DX == DR).all()
    assert reference.rmsnorm_dx_error(H, DY, DX, kind, weight=W, dresidual=DH, rstd=rstd) <= 1
    assert reference.rmsnorm_dw_error(H, DY, DW, "float32", rstd=rstd) <= 1
    assert reference.rmsnorm_db_error(DY, DB, kind) <= 1


def test_the_bias_s_gradient_is_not_rounded_to_the_weight_s_type():
    x, dy = randn(40, 64, dtype=torch.bfloat16), randn(40, 64, dtype=torch.bfloat16, seed=1)
    w, b = randn(64, dtype=torch.bfloat16, seed=2, grad=True), randn(64, seed=3, grad=True)
    ops.rmsnorm(x, w, b).backward(dy)
    assert w.grad.dtype == torch.bfloat16 and b.grad.dtype == torch.float32
    assert reference.rmsnorm_db_error(*numbers(dy, b.grad), "float32") <= 1


@pytest.mark.parametrize("shape", ((0, 5), (5, 0), (2, 3, 16), (7,)))
def test_rmsnorm_alone_is_torch_s(shape):
    x = randn(*shape, grad=True)
    torch.testing.assert_close(ops.rmsnorm(x), F.rms_norm(x, shape[-1:]))
    with torch.no_grad():
        torch.testing.assert_close(ops.rmsnorm(x), F.rms_norm(x, shape[-1:]))
    (gradient,) = torch.autograd.grad(ops.rmsnorm(x).sum(), x)
    torch.testing.assert_close(
        gradient, torch.autograd.grad(F.rms_norm(x, shape[-1:]).sum(), x)[0], atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("M, N", [*((5, N) for N in SIZES), (40, 1001)])
def test_layernorm_and_its_gradients(M, N, dtype):
    x = (randn(M, N) + 1).to(dtype).requires_grad_()
    w, b = randn(N, seed=2, grad=True), randn(N, dtype=dtype, seed=3, grad=True)
    dy = randn(M, N, dtype=dtype, seed=4)
    y = ops.layernorm(x, w, b, eps=EPS)
    with torch.no_grad():
        assert torch.equal(y, ops.layernorm(x, w, b, eps=EPS))
    y.backward(dy)
    kind, (X, W, B, Y, DY, DX, DW, DB) = name(dtype), numbers(x, w, b, y, dy, x.grad, w.grad, b.grad)
    assert reference.layernorm_error(X, Y, kind, W, B, EPS) <= 1
    assert reference.layernorm_dx_error(X, DY, DX, kind, W, eps=EPS) <= 1
    assert reference.layernorm_dw_error(X, DY, DW, "float32", eps=EPS) <= 1
    assert reference.rmsnorm_db_error(DY, DB, kind) <= 1


@pytest.mark.parametrize("shape", ((0, 5), (5, 0), (2, 3, 16), (7,)))
def test_layernorm_alone_is_torch_s(shape):
    x = randn(*shape, grad=True)
    if 0 not in shape[-1:]:  # torch refuses rows of nothing
        torch.testing.assert_close(ops.layernorm(x), F.layer_norm(x, shape[-1:]))
    with torch.no_grad():
        assert torch.equal(ops.layernorm(x), ops.layernorm(x.clone()))
    dy = randn(*shape, seed=1)
    (gradient,) = torch.autograd.grad(ops.layernorm(x), x, dy)
    assert gradient.shape == x.shape
    if x.numel():
        wanted = torch.autograd.grad(F.layer_norm(x, shape[-1:]), x, dy)[0]
        torch.testing.assert_close(gradient, wanted, atol=1e-5, rtol=1e-5)


def test_layernorm_s_weight_and_bias_may_be_there_alone_and_anywhere():
    x, dy, vectors = randn(9, 64, grad=True), randn(9, 64, seed=1), randn(2, 65, seed=2)
    w = vectors[0, 1:].requires_grad_()  # starts 4 bytes behind a boundary
    for given in (dict(weight=w), dict(bias=w)):
        ours, torchs = (
            torch.autograd.grad(y, (x, w), dy) for y in (ops.layernorm(x, **given), F.layer_norm(x, (64,), **given))
        )
        for one, other in zip(ours, torchs, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("reduction", ("mean", "sum", "none"))
@pytest.mark.parametrize("index", (torch.int64, torch.int32))
@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_cross_entropy_and_its_gradient(dtype, index, reduction):
    for N in SIZES:
        x = randn(6, N, dtype=dtype, grad=True)
        target = torch.tensor([0, N - 1, -100, N // 2, -100, N // 3]).to(index)
        loss, lse = ops.cross_entropy(x, target, reduction=reduction, return_lse=True)
        with torch.no_grad():
            assert torch.equal(loss, ops.cross_entropy(x, target, reduction=reduction))
        weight = torch.arange(1.0, 7.0) if reduction == "none" else torch.tensor(2.0)
        loss.backward(weight.to(dtype))
        (X,) = exact(x)
        wanted = F.cross_entropy(X, target.long(), reduction=reduction)
        wanted.backward(weight.double())
        assert loss.dtype == dtype
        step = {"float32": 5e-5, "bfloat16": 2**-7, "float16": 2**-10}[name(dtype)]
        torch.testing.assert_close(loss.double(), wanted, rtol=step, atol=1e-6)
        torch.testing.assert_close(lse.double(), X.logsumexp(-1), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(x.grad.double(), X.grad, rtol=step, atol=4e-7 if dtype == torch.float32 else 1e-3)
        assert (x.grad[2] == 0).all() and (x.grad[4] == 0).all()


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
    laid_out = spread[:, 0].contiguous(), spread[:, 1], spread.new_full((), 0.75).expand(6), spread.flatten()[1:7]
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
    asked = {event.name.removeprefix("aten::") for event in profile.events() if event.name.startswith("aten::")}
    # The simulator's way to numpy is among them; a conversion that copies would be _to_copy as well.
    views = {"expand", "as_strided", "detach", "view", "alias", "to", "resolve_conj", "resolve_neg"}
    assert "empty_like" in asked and asked <= {"empty_like", "empty_strided", "new_empty", "empty", *views}, asked


def test_losses_and_the_gradient_of_their_sum_in_one_pass():
    x = randn(5, 100)
    target = torch.tensor([0, 99, -1, 50, 3])
    loss, dx = ops.cross_entropy_with_grad(x, target, ignore_index=-1)
    (X,) = exact(x)
    wanted = F.cross_entropy(X, target, ignore_index=-1, reduction="none")
    wanted.sum().backward()
    torch.testing.assert_close(loss.double(), wanted, rtol=5e-5, atol=1e-6)
    torch.testing.assert_close(dx.double(), X.grad, rtol=1e-5, atol=1e-6)


def test_edges_of_cross_entropy():
    x = randn(3, 40)
    ignored = torch.full((3,), -100)
    assert ops.cross_entropy(x, ignored).isnan()  # the mean of nothing, as torch has it
    assert ops.cross_entropy(x, ignored, reduction="sum") == 0
    assert ops.cross_entropy(x[:0], ignored[:0], reduction="sum") == 0
    x[0], x[1, :39] = -float("inf"), -float("inf")
    target = torch.tensor([0, 39, 1])
    losses = ops.cross_entropy(x, target, reduction="none")
    torch.testing.assert_close(losses, F.cross_entropy(x, target, reduction="none"), equal_nan=True)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: ops.rmsnorm(torch.zeros(2, 3).double()), TypeError, "expected input of float32, float16 or bfloat16"),
        (
            lambda: ops.rmsnorm(torch.zeros(2, 3), torch.zeros(4)),
            ValueError,
            r"expected weight of shape \(3,\), got \(4,\)",
        ),
        (lambda: ops.rmsnorm(torch.zeros(2, 3), torch.zeros(6)[::2]), ValueError, "weight must be contiguous"),
        (lambda: ops.rmsnorm(torch.zeros(2, 3), torch.zeros(3).int()), TypeError, "expected weight of float32"),
        (
            lambda: ops.rmsnorm(torch.zeros(2, 3), residual=torch.zeros(2, 4)),
            ValueError,
            r"a residual like input, \(2, 3\)",
        ),
        (lambda: ops.rmsnorm(torch.zeros(2, 3), residual=torch.zeros(2, 3).half()), ValueError, "of float16"),
        (lambda: ops.rmsnorm(torch.zeros(3, 2).t()), ValueError, "last dimension must have stride 1"),
        (lambda: ops.rmsnorm(torch.zeros(2, 3), torch.zeros(3, device="meta")), RuntimeError, "weight on meta"),
        (lambda: ops.cross_entropy(torch.zeros(3), torch.tensor(0)), ValueError, r"input of shape \(M, N\)"),
        (lambda: ops.cross_entropy(torch.zeros(2, 3), torch.tensor([0])), ValueError, r"got \(2, 3\) and \(1,\)"),
        (
            lambda: ops.cross_entropy(torch.zeros(2, 3), torch.zeros(2)),
            TypeError,
            "expected target of int64, int32 or uint8",
        ),
        (lambda: ops.cross_entropy(torch.zeros(2, 3), torch.tensor([0, 3])), IndexError, "target 3 is out of bounds"),
        (lambda: ops.cross_entropy(torch.zeros(2, 3), torch.tensor([-2, 0])), IndexError, "target -2 is out of bounds"),
        (
            lambda: ops.cross_entropy(torch.zeros(2, 3), torch.tensor([0, 1]), reduction="avg"),
            ValueError,
            "'avg' is not a valid",
        ),
        (lambda: ops.cross_entropy(torch.zeros(2, 0), torch.tensor([0, 1])), ValueError, "at least one class"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_model_compiles_whole():
    x, w, target = randn(5, 64, grad=True), randn(64, seed=1, grad=True), torch.randint(0, 64, (5,))

    def model(x, w):
        h = ops.rmsnorm(ops.softmax(x), w, eps=EPS)
        h, r = ops.rmsnorm(ops.layernorm(h, w, w), residual=x)
        return ops.cross_entropy(h + r, target)

    def gradients(f):
        return torch.autograd.grad(f(x, w), (x, w))

    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x, w), model(x, w))
    for one, other in zip(gradients(compiled), gradients(model), strict=True):
        torch.testing.assert_close(one, other)


def test_autocast_gives_the_types_that_torch_gives_on_a_cpu():
    x, target = randn(5, 64, dtype=torch.bfloat16), torch.randint(0, 64, (5,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ops.softmax(x).dtype == torch.softmax(x, -1).dtype == torch.bfloat16
        assert ops.cross_entropy(x, target).dtype == F.cross_entropy(x, target).dtype == torch.float32
        assert ops.rmsnorm(x).dtype == ops.layernorm(x).dtype == torch.bfloat16


def test_a_sum_whose_norm_nobody_uses_has_a_gradient():
    x, residual = (torch.randn(3, 33, requires_grad=True) for _ in range(2))
    _, h = ops.rmsnorm(x, None, None, residual)
    (2 * h).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 2.0)) and torch.equal(residual.grad, x.grad)
