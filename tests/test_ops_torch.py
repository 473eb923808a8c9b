"""What torch does around an operation: torch.func, dual tensors, gradients of gradients, fake tensors, compilers, threads.

Each call is right, as torch's own is, or refused with one sentence. tests/gpu/test_ops_torch_gpu.py runs the same on a GPU.
"""

import threading
import warnings
from importlib import import_module

import pytest

torch = pytest.importorskip("torch")

from torch.autograd import forward_ad, functional

from quack_tutorial import ops
from quack_tutorial.ops import largest, quantized  # noqa: F401  whose operators are registered when they are loaded

F, library = torch.nn.functional, torch.ops.quack_tutorial
N, EPS = 5, 1e-6
REFUSED = r"quack_tutorial\.\w+(: forward-mode gradients are not covered| has no gradient).* call [\w.]+ here$"


@pytest.fixture
def device():
    return "cpu"


@pytest.fixture(autouse=True)
def quiet():
    """torch says that torch.jit is deprecated."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit")
        yield


def randn(device, *shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


def rows(device):
    return randn(device, 3, N)


def calls(device):
    """name -> (ours, torch's): each operation as a function of its (3, N) input."""
    w, b, r = (randn(device, *shape, seed=seed) for seed, shape in enumerate(((N,), (N,), (3, N)), 1))
    target = torch.tensor([0, 2, 4], device=device)
    ignored = torch.tensor([0, -100, 2], device=device)
    return {
        "softmax": (ops.softmax, lambda x: torch.softmax(x, -1)),
        "rmsnorm": (lambda x: ops.rmsnorm(x, w, b, eps=EPS), lambda x: F.rms_norm(x, (N,), w, EPS) + b),
        "its weight": (lambda v: ops.rmsnorm(r, v[0], v[1], eps=EPS), lambda v: F.rms_norm(r, (N,), v[0], EPS) + v[1]),
        "with residual": (
            lambda x: sum(ops.rmsnorm(x, w, b, r, eps=EPS)),
            lambda x: F.rms_norm(x + r, (N,), w, EPS) + b + x + r,
        ),
        "topk": (lambda x: ops.topk(x, 3)[0], lambda x: torch.topk(x, 3)[0]),
        "softmax of topk": (lambda x: ops.topk(x, 3, softmax=True)[0], lambda x: torch.topk(x, 3)[0].softmax(-1)),
        "layernorm": (lambda x: ops.layernorm(x, w, b), lambda x: F.layer_norm(x, (N,), w, b)),
        "mean loss": (lambda x: ops.cross_entropy(x, target), lambda x: F.cross_entropy(x, target)),
        "losses": (
            lambda x: ops.cross_entropy(x, target, reduction="none"),
            lambda x: F.cross_entropy(x, target, reduction="none"),
        ),
        "loss with lse": (
            lambda x: ops.cross_entropy(x, target, reduction="sum", return_lse=True)[0],
            lambda x: F.cross_entropy(x, target, reduction="sum"),
        ),
        "weighted and smoothed": (
            lambda x: ops.cross_entropy(x, ignored, w.abs(), label_smoothing=0.1),
            lambda x: F.cross_entropy(x, ignored, w.abs(), label_smoothing=0.1),
        ),
        "linear loss": (
            lambda x: ops.linear_cross_entropy(x, r, ignored),
            lambda x: F.cross_entropy(x @ r.T, ignored),
        ),
        "z-loss": (
            lambda x: z_loss(*ops.cross_entropy(x, ignored, return_lse=True)),
            lambda x: z_loss(F.cross_entropy(x, ignored), x.logsumexp(-1)),
        ),
    }


def z_loss(loss, lse):
    return loss + 0.1 * lse.square().sum()


NAMES = list(calls("cpu"))
every_call = pytest.mark.parametrize("name", NAMES)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-4)


def squared(f):
    return lambda x: f(x).square().sum()


@every_call
def test_torch_func_differentiates_in_reverse(name, device):
    (ours, theirs), x = calls(device)[name], rows(device)
    close(torch.func.grad(squared(ours))(x), torch.func.grad(squared(theirs))(x))
    close(torch.func.jacrev(ours)(x), torch.func.jacrev(theirs)(x))
    result, pullback = torch.func.vjp(ours, x)
    wanted, pullback_of_torch = torch.func.vjp(theirs, x)
    close(result, wanted)
    close(pullback(wanted), pullback_of_torch(wanted))


@every_call
@pytest.mark.parametrize("dim", (0, 1, 2))
def test_batches_of_vmap(name, dim, device):
    (ours, theirs), x = calls(device)[name], torch.stack([rows(device), 2 * rows(device)], dim)
    for transformed in (lambda f: f, lambda f: torch.func.grad(squared(f))):
        found = torch.func.vmap(transformed(ours), dim)(x)
        close(found, torch.func.vmap(transformed(theirs), dim)(x))


def test_vmap_over_some_arguments(device):
    x, weights = rows(device), randn(device, N, 4)
    wanted = torch.stack([F.rms_norm(x, (N,), w, EPS) for w in weights.t()])
    close(torch.func.vmap(lambda w: ops.rmsnorm(x, w, eps=EPS), 1)(weights), wanted)
    inner = torch.func.vmap(ops.rmsnorm, (None, 0))
    twice = torch.func.vmap(inner, (0, None))(randn(device, 2, 3, N), weights.t())
    expected = torch.stack(
        [torch.stack([ops.rmsnorm(x, w) for w in weights.t().contiguous()]) for x in randn(device, 2, 3, N)]
    )
    close(twice, expected)


@every_call
def test_batches_of_upstream_gradients(name, device):
    found = []
    for f in calls(device)[name]:
        x = rows(device).requires_grad_()
        y = f(x)
        found.append(torch.autograd.grad(y, x, randn(device, 4, *y.shape), is_grads_batched=True)[0])
    close(*found)


def dual(f, x, needs_grad=False):
    with forward_ad.dual_level():
        return f(forward_ad.make_dual(x.clone().requires_grad_(needs_grad), torch.ones_like(x)))


def forward_over_reverse(f, x):
    x = x.clone().requires_grad_()
    y = f(x)
    with forward_ad.dual_level():
        return torch.autograd.grad(y, x, forward_ad.make_dual(torch.ones_like(y), torch.ones_like(y)))


def penalty(f, x, of):
    x = x.clone().requires_grad_()
    loss = of(f(x))
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    (loss + 10 * gradient.square().sum()).backward()
    return x.grad


ROUTES = {
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (torch.ones_like(x),)),
    "jacfwd": lambda f, x: torch.func.jacfwd(f)(x),
    "hessian": lambda f, x: torch.func.hessian(squared(f))(x),
    "grad of grad": lambda f, x: torch.func.grad(lambda x: torch.func.grad(squared(f))(x).sum())(x),
    "dual": dual,
    "dual of a leaf": lambda f, x: dual(f, x, True),
    "forward over reverse": forward_over_reverse,
    "penalty": lambda f, x: penalty(f, x, lambda y: y.square().sum()),
    "penalty of a sum": lambda f, x: penalty(f, x, torch.sum),
    **{
        f"functional.{name}": lambda f, x, name=name: getattr(functional, name)(
            lambda x: f(x).sum(), x, *(() if name == "hessian" else (torch.ones_like(x),))
        )
        for name in ("hessian", "hvp", "vhp", "jvp")
    },
}


OF_SUMS = "penalty of a sum", "functional.hessian", "functional.hvp", "functional.vhp"


@pytest.mark.parametrize("route", ROUTES)
@every_call
def test_what_would_be_silently_zero_is_refused(name, route, device):
    (ours, theirs), x = calls(device)[name], rows(device)
    # Whose gradient is 1 in k places, whatever x is: zero is right.
    if name == "topk" and route in OF_SUMS:
        return close(ROUTES[route](ours, x), ROUTES[route](theirs, x))
    with pytest.raises((RuntimeError, NotImplementedError), match=REFUSED):
        ROUTES[route](ours, x)


@pytest.mark.parametrize("route", [route for route in ROUTES if route not in ("forward over reverse", "hessian")])
def test_the_losses_that_come_with_their_gradient_have_none(route, device):
    target = torch.tensor([0, 2, 4], device=device)
    with pytest.raises((RuntimeError, NotImplementedError), match=REFUSED):
        ROUTES[route](lambda x: ops.cross_entropy_with_grad(x, target)[0], rows(device))
    x = rows(device).requires_grad_()
    for result in ops.cross_entropy_with_grad(x, target):
        with pytest.raises(RuntimeError, match="call quack_tutorial.ops.cross_entropy here"):
            result.sum().backward()


def registered(device):
    """(operator, its arguments), for all that are registered; what is asked for gradients of does not need them yet."""
    x, r, w, b = (randn(device, *shape, seed=seed) for seed, shape in enumerate(((3, N), (3, N), (N,), (N,))))
    ones, target = torch.ones(3, device=device), torch.tensor([0, 2, 4], device=device)
    yield library.softmax, (x,)
    yield library.softmax_backward, (torch.softmax(x, -1), r)
    yield library.rmsnorm, (x, w, None, EPS)
    yield library.rmsnorm, (x, None, None, EPS)
    yield library.add_rmsnorm, (x, r, w, b, EPS)
    yield library.rmsnorm_backward, (x, w, ones, r, None, b)
    yield library.rmsnorm_backward, (x, w, ones, r, r, None)
    yield library.rmsnorm_quantized, (x, w, EPS, 0)
    yield library.add_rmsnorm_quantized, (x, r, None, EPS, 0)
    yield library.topk, (x, 3, True)
    yield library.topk_backward, (r[:, :3], x[:, :3], torch.tensor([[0, 2, 4]] * 3, device=device), N, True)
    yield library.layernorm, (x, w, b, EPS)
    yield library.layernorm, (x, None, None, EPS)
    yield library.layernorm_backward, (x, w, ones, ones, r, b)
    for reduction in ("mean", "sum", "none"):
        yield library.cross_entropy, (x, target, -100, reduction)
    yield library.cross_entropy_backward, (x, target, ones, ones, -100)
    yield library.cross_entropy_backward, (x, target, ones[:1].expand(3), ones, -100, ones[0])
    yield library.cross_entropy_lse, (x, torch.stack((x.logsumexp(-1), 0 * ones)))
    yield library.cross_entropy_with_grad, (x, target, -100)
    yield library.linear_cross_entropy, (x, torch.cat((x, r)), target, -100, True, 2, True, True)
    yield library.linear_cross_entropy_backward, (x, r, x, r, ones[0])


REGISTERED = range(len(list(registered("cpu"))))
every_operator = pytest.mark.parametrize("k", REGISTERED, ids=lambda k: list(registered("cpu"))[k][0].__name__)


def test_every_operator_is_tried():
    named = {str(operator).removeprefix("quack_tutorial.") for operator, _ in registered("cpu")}
    registered_names = [name for name in torch._C._dispatch_get_all_op_names() if "quack_t" in name]
    assert named == {name.partition("::")[2] for name in registered_names}


@every_operator
def test_operators_are_registered_as_torch_wants_them(k, device):
    operator, args = list(registered(device))[k]
    torch.library.opcheck(operator.default, args)
    # Those have no gradient.
    if not operator.__name__.endswith(("_backward", "_with_grad", "_quantized")):
        torch.library.opcheck(operator.default, (args[0].requires_grad_(), *args[1:]))


@every_operator
def test_operators_called_by_their_names_refuse_forward_mode(k, device):
    operator, (x, *rest) = list(registered(device))[k]
    first = lambda x: operator(x, *rest)  # noqa: E731
    for route in ("jvp", "dual"):
        with pytest.raises(NotImplementedError, match=REFUSED):
            ROUTES[route](first, x)
    said = "torch.func differentiates it through quack_tutorial.ops"
    with pytest.raises(NotImplementedError, match=said):
        torch.func.grad(lambda x: torch.utils._pytree.tree_leaves(first(x))[0].sum())(x)


@every_call
def test_what_memory_holds_is_not_always_what_a_tensor_is(name, device):
    (ours, theirs), x = calls(device)[name], rows(device)
    conjugate = torch.complex(x, x).conj().imag  # a view whose sign is changed as it is read
    assert conjugate.is_neg()
    # vectors must be contiguous
    close(ours(torch._neg_view(x) if name == "its weight" else conjugate), theirs(-x))
    close(ours(torch._efficientzerotensor((3, N), device=device)), theirs(0 * x))
    for make in (
        lambda y: torch._neg_view(torch.ones_like(y)),
        lambda y: torch._efficientzerotensor(y.shape, device=device),
    ):
        gradients = []
        for f in (ours, theirs):
            leaf = x.clone().requires_grad_()
            y = f(leaf)
            gradients.append(torch.autograd.grad(y, leaf, make(y))[0])
        close(*gradients)


@pytest.mark.parametrize("shape", ((1, 1), (1, 1, 1), (2, 1), (1, 3), (3, 4), (2, 1, 3), (1,), ()))
def test_upstream_gradients_that_were_expanded(shape, device):
    last = shape[-1:] or (1,)
    for ours, theirs in (
        (ops.softmax, lambda x: torch.softmax(x, -1)),
        (lambda x: ops.rmsnorm(x, eps=EPS), lambda x: F.rms_norm(x.view(shape or (1,)), last, eps=EPS).view(shape)),
        (ops.layernorm, lambda x: F.layer_norm(x.view(shape or (1,)), last).view(shape)),
    ):
        found = []
        for f in (ours, theirs):
            x = randn(device, *shape).requires_grad_()
            f(x).sum().backward()
            found.append(x.grad)
        close(*found)


class Unused(torch.autograd.Function):
    """Gives what comes before it an undefined gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return None


@every_call
def test_an_undefined_upstream_gradient_is_zero(name, device):
    x = rows(device).requires_grad_()
    Unused.apply(calls(device)[name][0](x)).sum().backward()
    assert x.grad is None or not x.grad.any()


REAL = lambda device: {  # noqa: E731
    **{name: ours for name, (ours, _) in calls(device).items()},
    "with grad": lambda x: ops.cross_entropy_with_grad(x, torch.zeros(3, dtype=torch.int64, device=device)),
}


def described(result):
    return [(t.shape, t.dtype, t.stride(), t.requires_grad) for t in torch.utils._pytree.tree_leaves(result)]


@pytest.mark.parametrize("name", [*NAMES, "with grad"])
def test_meta_and_fake_tensors_are_described_and_never_launched(name, device, monkeypatch):
    from torch._subclasses.fake_tensor import FakeTensorMode

    wanted = [described(REAL(device)[name](x)) for x in (rows(device), rows(device).requires_grad_())]

    def never(*args):
        raise AssertionError("a kernel was made for a tensor without elements")

    launches = import_module("quack_tutorial.ops.launches")
    monkeypatch.setattr(launches, "compile_for", never)
    monkeypatch.setattr("cutesim.simulation.simulate", never)
    on_meta = REAL("meta")[name]
    assert [described(on_meta(x)) for x in (rows("meta"), rows("meta").requires_grad_())] == wanted
    if name != "with grad":
        x = rows("meta").requires_grad_()
        assert torch.autograd.grad(on_meta(x).sum(), x)[0].shape == x.shape
    with FakeTensorMode():
        for needs_grad, expected in enumerate(wanted):
            x = torch.empty(3, N, device=device).requires_grad_(bool(needs_grad))
            found = REAL(device)[name](x)
            assert described(found) == expected
            if needs_grad and name != "with grad":
                assert torch.autograd.grad(found.sum(), x)[0].shape == x.shape


@pytest.mark.parametrize(
    "make, message",
    (
        (lambda: torch.empty(4, N).t(), "call .contiguous.. first"),
        (lambda: torch.empty(2, 3, 8).transpose(0, 1), "call .contiguous.. first"),
        (lambda: torch.empty(1, 262145), "at most 262144 elements, got .*; call torch.* there"),
    ),
)
def test_fake_tensors_are_refused_where_real_ones_are(make, message):
    from torch._subclasses.fake_tensor import FakeTensorMode

    for call in (ops.softmax, ops.rmsnorm, ops.layernorm):
        with pytest.raises(ValueError, match=message):
            call(make())
        with FakeTensorMode(), pytest.raises(ValueError, match=message):
            call(make())


class Module(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


@pytest.mark.parametrize("name", [*NAMES, "with grad"])
def test_calls_compile_whole_and_are_exported(name, device):
    f, x, other = REAL(device)[name], rows(device), 2 * rows(device)
    torch._dynamo.reset()
    close(torch.compile(f, backend="aot_eager", fullgraph=True)(x), f(x))
    close(torch.export.export(Module(f), (x,)).module()(other), f(other))
    if name != "with grad":
        leaves = [x.clone().requires_grad_() for _ in range(2)]
        torch.compile(squared(f), backend="aot_eager", fullgraph=True)(leaves[0]).backward()
        squared(f)(leaves[1]).backward()
        close(leaves[0].grad, leaves[1].grad)


def test_threads_may_call_together(device):
    gate, wrong = threading.Barrier(4), []

    def work(k):
        try:
            for columns in (7, 9):  # sizes of which no other test is the first
                x = randn(device, 3, columns, seed=k).requires_grad_()
                w = randn(device, columns).requires_grad_()
                target = torch.tensor([0, 2, 4], device=device)
                gate.wait(timeout=60)
                loss = ops.cross_entropy(ops.rmsnorm(ops.softmax(x), w, eps=EPS), target)
                found = torch.autograd.grad(loss, (x, w))
                wanted = F.cross_entropy(F.rms_norm(torch.softmax(x, -1), (columns,), w, EPS), target)
                close((loss, *found), (wanted, *torch.autograd.grad(wanted, (x, w))))
        except BaseException as error:
            wrong.append(error)
            gate.abort()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
