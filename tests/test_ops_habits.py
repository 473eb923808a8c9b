"""What a torch user writes out of habit: taken as torch takes it, or answered with the call to write instead, which then works."""

import copy
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from quack_tutorial import ops

F = torch.nn.functional
N, EPS = 8, 1e-6


def randn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def close(ours, theirs, **options):
    torch.testing.assert_close(ours, theirs, **(options or dict(atol=2e-6, rtol=2e-5)))


x, w, b, images = randn(3, N), randn(N, seed=1), randn(N, seed=2), randn(2, 4, 3, seed=3)
target = torch.tensor([0, 3, 7])
labels = torch.tensor([[0, 1, 2], [3, 2, 1]])
INPUTS = {
    "softmax": dict(input=images),
    "rmsnorm": dict(input=x, weight=w, eps=EPS),
    "layernorm": dict(input=x, weight=w, bias=b, eps=EPS),
    "cross_entropy": dict(input=x, target=target),
}
long, soft = labels[:, [0, 1, 2, 0]], x.softmax(1)
SHORT = dict(loss=ops.cross_entropy, linear=ops.linear_cross_entropy, float8=ops.rmsnorm_quantized, zeros=torch.zeros)
WRITTEN = dict(globals(), **SHORT, **{name: getattr(ops, name) for name in ops.__all__})


# What a user writes, what the advice in the error gives, and the inputs that are others than `INPUTS`.
ADVISED = {
    ValueError: (
        ("softmax(images, 1)", lambda: torch.softmax(images, 1)),
        ("softmax(images, -2)", lambda: torch.softmax(images, 1)),
        ("rmsnorm(w, x)", lambda: F.rms_norm(x, (N,), w), dict(input=w, weight=x)),
        ("loss(x[0], target[1])", lambda: F.cross_entropy(x[0], target[1]), dict(input=x[0], target=target[1])),
        ("loss(images, labels)", lambda: F.cross_entropy(images, labels), dict(input=images, target=labels)),
        (
            "loss(images, long)",
            lambda: F.cross_entropy(images.flatten(0, 1), long.flatten() % 3),
            dict(input=images, target=long % 3),
        ),
    ),
    TypeError: (
        ("rmsnorm(x, (N,), w)", lambda: F.rms_norm(x, (N,), w, EPS)),
        ("rmsnorm(x, [N], w, EPS)", lambda: F.rms_norm(x, (N,), w, EPS)),
        ("rmsnorm(x, w, EPS)", lambda: F.rms_norm(x, (N,), w, EPS)),
        ("layernorm(x, (N,), w, b)", lambda: F.layer_norm(x, (N,), w, b, EPS)),
        ("layernorm(x, (N,), w, b, EPS)", lambda: F.layer_norm(x, (N,), w, b, EPS)),
        ("layernorm(x, w, EPS)", lambda: F.layer_norm(x, (N,), w, None, EPS)),
        ("loss(x, target, 3)", lambda: F.cross_entropy(x[::2], target[::2])),
        ("loss(x, target, 'sum')", lambda: 3 * F.cross_entropy(x, target)),
        ("loss(x, target, None, None, 3)", lambda: F.cross_entropy(x, target, ignore_index=3)),
        (
            "loss(x, target, w, False, -100, None, 'mean', 0.1)",
            lambda: F.cross_entropy(x, target, w, reduction="sum", label_smoothing=0.1),
            dict(weight=w),
        ),
        ("loss(target, x)", lambda: F.cross_entropy(x, target), dict(input=target, target=x)),
        ("loss(x, soft)", lambda: F.cross_entropy(x, soft), dict(target=soft)),
        ("softmax(x.to_sparse())", lambda: x, dict(input=x.to_sparse())),
    ),
}


@pytest.mark.parametrize("error, case", [(error, case) for error in ADVISED for case in ADVISED[error]])
def test_the_advice_of_an_error_works_when_it_is_followed(error, case):
    call, wanted, given = (*case, {})[:3]
    with pytest.raises(error) as raised:
        eval(call, WRITTEN)
    said = str(raised.value)
    advice = re.search(r"(?:write|out:|name:) (.*)$", said).group(1)
    close(eval(advice, WRITTEN, INPUTS[said.partition(":")[0]] | given), wanted())


REFUSED = """
softmax(zeros(2, 3).double())
softmax(zeros(2, 3).int())
softmax([1.0, 2.0])
softmax(zeros(2).numpy())
softmax(x, [0])
softmax(x, None)
rmsnorm(zeros(2, 3).double())
rmsnorm(zeros(2, 3), zeros(3).int())
rmsnorm(x, eps='1e-6')
rmsnorm(x, eps=[1e-6])
rmsnorm(x, w, weight_offset='1')
rmsnorm(x, w, weight_offset=zeros(1))
ops.RMSNorm(N, weight_offset='1')
layernorm(x, eps=None)
layernorm(x, eps=(1e-6,))
layernorm(x, w, b, EPS, 3)
loss(x, [0, 3, 7])
loss(zeros(2, 3), zeros(2))
loss(x, target.short())
loss(x, target, ignore_index=1.5)
loss(x, target, ignore_index=2**63)
loss(x, target, w, ignore_index=-(2**63) - 1)
ops.cross_entropy_with_grad(x, target, 2**70)
loss(x, target, ignore_index=[0])
ops.cross_entropy_with_grad(x, target, None)
loss(x, target, label_smoothing='a')
loss(x, target, dtype=torch.float64)
loss(x.bfloat16(), target, dtype=torch.float16)
softmax(zeros(2, 3), 0)
softmax(zeros(2, 3), 2)
softmax(zeros(3, 2).t())
softmax(zeros(2, 3, 8).transpose(0, 1))
softmax(zeros(1, 262145))
rmsnorm(zeros(3, 2).t())
rmsnorm(zeros(2, 3), zeros(4))
rmsnorm(zeros(2, 3), zeros(6)[::2])
rmsnorm(zeros(2, 3), residual=zeros(2, 4))
rmsnorm(zeros(2, 3), residual=zeros(2, 3).half())
rmsnorm(x, weight_offset=1.0)
ops.RMSNorm(N, elementwise_affine=False, weight_offset=1.0)
ops.RMSNorm(5)(x)
layernorm(images, images[0])
loss(zeros(3), torch.tensor(0))
loss(zeros(2, 3), torch.tensor([0]))
loss(zeros(2, 0), torch.tensor([0, 1]))
loss(x, target, w[:3])
loss(x, target, w.long())
loss(x, target, label_smoothing=1.5)
loss(x, target, reduction='avg')
loss(x, target, reduction=['mean'])
loss(zeros(2, 3), torch.tensor([0, 3]))
loss(zeros(2, 3), torch.tensor([-2, 0]))
rmsnorm(zeros(2, 3), zeros(3, device='meta'))
float8(zeros(2, 96), block=64)
float8(zeros(2, 96), block=128)
float8(zeros(2, 96), zeros(95))
float8(zeros(2, 96), residual=zeros(2, 95))
float8(zeros(2, 96), eps='1')
float8(zeros(2, 96), zeros(96, requires_grad=True))
topk(zeros(2, 64), 65)
topk(zeros(2, 64), 0)
topk(zeros(2, 0), 1)
topk(zeros(2, 300), 129)
topk(zeros(2, 4097), 1)
topk(zeros(2, 64), 2.0)
linear(zeros(2, 3, 8), zeros(20, 8), target)
linear(zeros(3, 7), zeros(20, 8), target)
linear(zeros(3, 8).half(), zeros(20, 8), target)
linear(zeros(3, 8), None, target)
linear(zeros(3, 8), zeros(20, 8), target[:2])
linear(zeros(3, 8), zeros(7, 8), target)
linear(zeros(3, 8), zeros(20, 8), target, reduction='none')
linear(zeros(3, 8), zeros(20, 8), target, reduction='meen')
linear(zeros(3, 8), zeros(20, 8), target, batch_chunk_size=0)
linear(zeros(3, 8), zeros(20, 8), target, batch_chunk_size=1.5)
linear(zeros(3, 8), zeros(20, 8), target, ignore_index=0.5)
"""


def refused(call):
    with pytest.raises((TypeError, ValueError, IndexError, RuntimeError)) as raised:
        eval(call, WRITTEN)
    return f"{call}: {type(raised.value).__name__}: {raised.value}"


def test_what_is_refused_is_named(snapshot):
    snapshot(map(refused, REFUSED.split("\n")[1:-1]), Path(__file__).with_name("refused_calls.txt"))


def test_targets_of_bytes_with_class_weights():
    options = dict(weight=w, label_smoothing=0.1)
    close(ops.cross_entropy(x, target.byte(), **options), F.cross_entropy(x, target, **options))


def test_a_type_that_autocast_rules_out_is_named():
    for _ in range(2):
        ops.cross_entropy(x.bfloat16(), target, dtype=torch.bfloat16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            said = "be torch.float32 for torch.bfloat16 logits under torch.autocast"
            with pytest.raises(TypeError, match=said):
                ops.cross_entropy(x.bfloat16(), target, dtype=torch.bfloat16)


NOT_DENSE = {
    "sparse": (lambda x: x.to_sparse(), "got layout sparse_coo; write {}.to_dense"),
    "compressed": (lambda x: x.to_sparse_csr(), "got layout sparse_csr; write {}.to_dense"),
    "mkldnn": (lambda x: x.to_mkldnn(), "got layout _mkldnn; write {}.to_dense"),
    "nested": (
        lambda x: torch.nested.nested_tensor([x, x[:2]]),
        r"got a nested one; call it for each of {}.unbind\(\)",
    ),
    "nested vectors": (lambda x: torch.nested.nested_tensor([x[0], x[1]]), "got a nested one"),
    "jagged": (lambda x: torch.nested.nested_tensor([x, x[:2]], layout=torch.jagged), "got a nested one"),
}


@pytest.mark.filterwarnings("ignore")  # torch says that sparse and nested tensors may change
@pytest.mark.parametrize("kind", NOT_DENSE)
def test_tensors_without_rows_in_memory_are_refused(kind):
    make, message = NOT_DENSE[kind]
    given = make(x)
    calls = {
        "input": (
            ops.softmax,
            ops.rmsnorm,
            ops.layernorm,
            lambda x: ops.cross_entropy(x, target),
            lambda x: ops.cross_entropy(x, target, w),
            lambda x: ops.cross_entropy_with_grad(x, target),
        ),
        "residual": (lambda r: ops.rmsnorm(x, residual=r),),
        "weight": (
            lambda w: ops.rmsnorm(x, w),
            lambda w: ops.rmsnorm(x, w, weight_offset=1.0),
            lambda w: ops.layernorm(x, w),
            lambda w: ops.cross_entropy(x, target, w),
        ),
        "bias": (lambda b: ops.rmsnorm(x, w, b), lambda b: ops.layernorm(x, w, b)),
        "target": (lambda t: ops.cross_entropy(x, t), lambda t: ops.cross_entropy_with_grad(x, t)),
    }
    for name, several in calls.items():
        for call in several:
            for needs_grad in (False, True):
                leaf = given.detach().requires_grad_(needs_grad and given.is_floating_point())
                said = f"expected {name} to be a dense tensor, {message.format(name)}"
                with pytest.raises(TypeError, match=said):
                    call(leaf)


def test_the_mean_over_ignored_rows_alone_is_nan_with_weights_too():
    assert ops.cross_entropy(x, torch.full((3,), -100), w.abs()).isnan()
    assert ops.cross_entropy(x, torch.full((3,), -100), reduction="sum", label_smoothing=0.1) == 0


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_weights_around_zero_with_an_offset(dtype):
    given, small = randn(3, N, dtype=dtype).requires_grad_(), (w / 100).to(dtype).requires_grad_()
    X, W = (tensor.detach().double().requires_grad_() for tensor in (given, small))
    out = ops.rmsnorm(given, small, eps=EPS, weight_offset=1.0)
    wanted = F.rms_norm(X, (N,), W + 1, EPS)
    out.sum().backward()
    wanted.sum().backward()
    tolerance = dict(rtol=1e-5, atol=1e-5) if dtype == torch.float32 else dict(rtol=2**-7, atol=2**-7)
    assert small.grad.dtype == dtype
    for ours, exact in ((out, wanted), (given.grad, X.grad), (small.grad, W.grad)):
        close(ours.double(), exact, **tolerance)


MODULES = (
    (ops.RMSNorm, torch.nn.RMSNorm, (N,), {}),
    (ops.RMSNorm, torch.nn.RMSNorm, ((3, N),), dict(eps=1e-3)),
    (ops.RMSNorm, torch.nn.RMSNorm, (N,), dict(elementwise_affine=False)),
    (ops.LayerNorm, torch.nn.LayerNorm, (N,), {}),
    (ops.LayerNorm, torch.nn.LayerNorm, ((3, N),), dict(bias=False)),
    (ops.LayerNorm, torch.nn.LayerNorm, (N,), dict(elementwise_affine=False)),
)


@pytest.mark.parametrize("ours, theirs, args, options", MODULES)
def test_the_norms_stand_in_for_torch_s_modules(ours, theirs, args, options):
    mine, other = ours(*args, **options), theirs(*args, **options)
    assert repr(mine) == repr(other) and isinstance(mine, theirs)
    for parameter in other.parameters():
        torch.nn.init.normal_(parameter)
    mine.load_state_dict(other.state_dict())
    twin = copy.deepcopy(mine)
    results = []
    for module in (other, mine, twin):
        leaf = randn(2, 3, N).requires_grad_()
        out = module(leaf)
        out.square().sum().backward()
        results.append([out, leaf.grad, *(parameter.grad for parameter in module.parameters())])
    for found in results[1:]:
        for one, wanted in zip(found, results[0], strict=True):
            close(one, wanted, rtol=2e-5, atol=2e-5)


def test_a_norm_of_a_sum_and_a_weight_around_zero():
    norm = ops.RMSNorm(N, eps=EPS, weight_offset=1.0)
    assert (norm.weight == 0).all() and "weight_offset=1.0" in repr(norm)
    out, h = norm(x, randn(3, N, seed=5))
    close(h, x + randn(3, N, seed=5))
    close(out, F.rms_norm(h, (N,), None, EPS))


@pytest.mark.parametrize(
    "options", ({}, dict(ignore_index=3), dict(label_smoothing=0.1, reduction="sum"), dict(weight=w.abs()))
)
def test_the_loss_stands_in_for_torch_s_module(options):
    mine, other = ops.CrossEntropyLoss(**options), torch.nn.CrossEntropyLoss(**options)
    assert repr(mine) == repr(other) and mine.state_dict().keys() == other.state_dict().keys()
    close(copy.deepcopy(mine)(x, target), other(x, target))
    assert ops.CrossEntropyLoss(dtype=torch.float32)(x.bfloat16(), target).dtype == torch.float32
