"""Top-k on torch tensors, and its gradient."""

from functools import cache
from numbers import Integral

import torch

from quack_tutorial import shipped
from quack_tutorial.hardware import MOST_TOP, MOST_TOP_COLUMNS
from quack_tutorial.ops import launches
from quack_tutorial.ops.registered import register, unscripted

TORCHS = "torch.topk"


@unscripted
def topk(input, k, *, softmax=False):
    """The k largest numbers of each row of `input`, its last dimension, and their columns: (values, indices), (..., k), in order.

    As torch.topk(input, k): values of input's type, indices in int64, the largest first, NaN before all others. Of equal numbers
    the one with the lower index comes first, which torch leaves open. With `softmax` the values are their softmax, computed in
    float32 and rounded once. The gradient goes to the k numbers that were found.

    `input` is float32, float16 or bfloat16 of any shape, with 1 to 4096 elements in its last dimension, which must have stride 1;
    rows may be any stride apart and start at any address. k is 1 to 128, and no more than there are elements. Raises TypeError,
    ValueError or RuntimeError before anything is launched.
    """
    if k.__class__ is not int:
        k = launches.check_number("topk", "k", k, kind=Integral)
    softmax, route = bool(softmax), launches.route(input)
    if route == "dispatcher":
        _check(input, k)
        return _topk(input, k, softmax)
    return _forward(input, k, softmax) if route == "launch" else _TopK.apply(input, k, softmax)


def _check(input, k):
    launches.check_tensors("topk", input=input)
    launches.dtype_name("topk", "input", input)
    N = launches.columns(input)
    if N > MOST_TOP_COLUMNS or k > MOST_TOP:
        raise ValueError(
            f"topk: a row has at most {MOST_TOP_COLUMNS} elements, and k is at most {MOST_TOP}, got input of shape "
            f"{tuple(input.shape)} and k={k}; call {TORCHS} there"
        )
    if not 1 <= k <= N:
        raise ValueError(f"topk: expected k to be 1 to {N}, the elements of a row, got {k}")


_launches = {}


def _forward(input, k, softmax):
    """(values, indices)."""
    key = k, softmax, launches.launch_key(input)
    launch = _launches.get(key) or launches.keep(_launches, key, _prepare(input, k, softmax))
    return launch(input)


def _prepare(input, k, softmax):
    """The launch for tensors like `input`."""
    _check(input, k)
    x = launches.as_rows("topk", input)
    kernel = _kernel(x.device.type, launches.DTYPE_NAMES[x.dtype], x.shape[1], launches.promise(x), k, softmax)
    run = launches.guarded(kernel, x.device)

    def launch(input):
        found = _fake(input, k, softmax)
        if input.numel():
            run(launches.as_rows("topk", input), *(output.view(-1, k) for output in found))
        return found

    return launch


class _TopK(torch.autograd.Function):
    """What autograd sees of a call past the dispatcher."""

    @staticmethod
    def forward(ctx, input, k, softmax):
        found = _forward(input, k, softmax)
        _keep(ctx, (input, k, softmax), found)
        ctx.mark_non_differentiable(found[1])
        return found

    @staticmethod
    def backward(ctx, dvalues, _):
        return _gradient(ctx, dvalues, _), None, None


@cache
def _kernel(device, dtype, N, promise, k, softmax):
    return launches.runner_for(device, *shipped.topk(k, softmax).made_for(launches.rows(device, dtype, N, promise)))


def _fake(input, k, softmax):
    """Tensors for the results."""
    shape = (*input.shape[:-1], k) if input.dim() else ()
    return input.new_empty(shape), input.new_empty(shape, dtype=torch.int64)


def _keep(ctx, inputs, output):
    # Without softmax the places are enough, and the values may be changed in place, as routers do.
    ctx.save_for_backward(output[1], *output[: inputs[2]])
    ctx.N, ctx.softmax = launches.columns(inputs[0]), inputs[2]


def _gradient(ctx, dvalues, _):
    indices, *values = ctx.saved_tensors
    return _topk_backward(dvalues, *(values or [dvalues]), indices, ctx.N, ctx.softmax)


def _fake_backward(dvalues, values, indices, N, softmax):
    return values.new_empty((*values.shape[:-1], N) if values.dim() else ())


@register("topk_backward", _fake_backward, TORCHS)
def _topk_backward(
    dvalues: torch.Tensor, values: torch.Tensor, indices: torch.Tensor, N: int, softmax: bool
) -> torch.Tensor:
    """The gradient of the input, by torch: a k-long one in its places among zeros, M N elements written and then M k."""
    if softmax:
        y, dy = values.float(), dvalues.float()
        dvalues = (y * (dy - (y * dy).sum(-1, keepdim=True))).to(values.dtype)
    zeros = _fake_backward(dvalues, values, indices, N, softmax).zero_()
    return zeros.scatter_(-1, indices, dvalues) if values.dim() else zeros.copy_(dvalues)


def _fake_checked(input, k, softmax):
    _check(input, k)
    launches.as_rows("topk", input)
    return _fake(input, k, softmax)


@register("topk", _fake_checked, TORCHS, keep=_keep, gradient=lambda ctx, *given: (_gradient(ctx, *given), None, None))
def _topk(input: torch.Tensor, k: int, softmax: bool) -> tuple[torch.Tensor, torch.Tensor]:
    return _forward(input, k, softmax)
