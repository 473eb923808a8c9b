"""LayerNorm on torch tensors, and its gradient."""

from functools import cache

import torch

from quack_tutorial.ops import launches
from quack_tutorial.ops.registered import register, unscripted
from quack_tutorial.shipped import LAYERNORM, LAYERNORM_BACKWARD

TORCHS = "torch.nn.functional.layer_norm"
_ADVICE = "; a row is input's last dimension, so leave normalized_shape out: layernorm(input, weight, bias, eps)"
_ADVICE_ON_EPS = "; give eps by its name: layernorm(input, weight, eps=eps)"


@unscripted
def layernorm(input, weight=None, bias=None, eps=1e-5, *torchs):
    """LayerNorm of `input` over its last dimension: (x - mean) / sqrt(var + eps) * weight + bias, var = mean((x - mean)^2).

    As torch.nn.functional.layer_norm(input, input.shape[-1:], weight, bias, eps). Returns the result, of input's type and
    contiguous. weight and bias are (N,), contiguous, of float32, float16 or bfloat16 each. Limits on shapes and addresses, and
    errors, as for `softmax`. A fifth argument would be torch's eps, behind its normalized_shape: what to write instead is said.
    """
    if eps.__class__ is not float or torchs:
        eps = _check_eps(weight, eps, torchs)
    tensors = input, weight, bias
    route = launches.route(*tensors)
    if route == "launch":
        return _forward(*tensors, eps, False)[0]
    if route == "autograd":
        return _LayerNorm.apply(*tensors, eps)
    _check(*tensors)
    return _layernorm(*tensors, eps)[0]


def _check_eps(weight, eps, torchs):
    """eps, a float; TypeError for anything else, and for torch's order of arguments."""
    if isinstance(weight, (tuple, list, int)):
        launches.check_tensors("layernorm", _ADVICE, weight=weight)
    if torchs:
        raise TypeError(f"layernorm: expected input, weight, bias and eps, got {4 + len(torchs)} arguments")
    return launches.check_number("layernorm", "eps", eps, "; leave it out for 1e-5" if eps is None else "")


def _check(input, weight, bias):
    """TypeError, ValueError or RuntimeError for what cannot be computed."""
    advice = _ADVICE if isinstance(weight, (tuple, list, int)) else _ADVICE_ON_EPS
    launches.check_tensors("layernorm", advice, input=input, weight=weight, bias=bias)
    launches.dtype_name("layernorm", "input", input)
    launches.check_vectors("layernorm", input, weight=weight, bias=bias)
    launches.check_same("layernorm", input=input, weight=weight, bias=bias)


_launches = {}
_backward_launches = {}


def _forward(input, weight, bias, eps, with_stats):
    """(result, mean or None, rstd or None)."""
    key = eps, with_stats, launches.launch_key(input), launches.launch_key(weight), launches.launch_key(bias)
    launch = _launches.get(key)
    if launch is None:
        launch = launches.keep(_launches, key, _prepare(input, weight, bias, eps, with_stats))
    return launch(input, weight, bias)


def _prepare(input, weight, bias, eps, with_stats):
    """The launch for tensors like these."""
    _check(input, weight, bias)
    N, empty_like = launches.columns(input), launches.contiguous_like(input)
    if N == 0:
        return _nothing
    launches.check_rows("layernorm", input, TORCHS)
    x = launches.as_rows("layernorm", input)
    names = (None if tensor is None else launches.DTYPE_NAMES[tensor.dtype] for tensor in (input, weight, bias))
    kernel = _kernel(x.device.type, *names, N, launches.promise(x, launches.one_row(x)), with_stats)
    run, is_matrix = launches.guarded(kernel, x.device), x is input
    on_boundary = all(launches.on_boundary(vector) is vector for vector in (weight, bias))

    def launch(input, weight, bias):
        out = empty_like(input)
        mean, rstd = (launches.row_vector(input), launches.row_vector(input)) if with_stats else (None, None)
        if not on_boundary:
            weight, bias = launches.on_boundary(weight), launches.on_boundary(bias)
        if not input.numel():
            pass
        elif is_matrix:
            run(input, weight, bias, out, mean, rstd, eps)
        else:
            run(launches.as_rows("layernorm", input), weight, bias, out.view(-1, N), mean, rstd, eps)
        return out, mean, rstd

    return launch


def _nothing(input, weight, bias):
    """The launch for rows of no elements."""
    out = torch.empty_like(input, memory_format=torch.contiguous_format)
    return out, launches.row_vector(input), launches.row_vector(input)


def _backward(x, weight, mean, rstd, dy, bias):
    return launches.norm_gradients(_backward_launches, _backward_kernel, (x, dy), weight, (mean, rstd), bias)


class _LayerNorm(torch.autograd.Function):
    """What autograd sees of a call past the dispatcher."""

    @staticmethod
    def forward(ctx, input, weight, bias, eps):
        out, mean, rstd = _forward(input, weight, bias, eps, True)
        ctx.save_for_backward(input, weight, bias, mean, rstd)
        return out

    @staticmethod
    def backward(ctx, dy):
        input, weight, bias, mean, rstd = ctx.saved_tensors
        gradients = _backward if launches.is_plain(dy) else _traced_gradients
        return *gradients(input, weight, mean, rstd, dy, bias), None


@cache
def _kernel(device, dtype, weight, bias, N, promise, stats):
    given = dict(w=weight, b=bias, mean=stats and "float32", rstd=stats and "float32")
    return launches.runner_for(device, *LAYERNORM.launch(launches.rows(device, dtype, N, promise), **given))


@cache
def _backward_kernel(device, dtype, weight, N, promise, with_bias):
    given = dict(w=weight, dw=weight and "float32", db=with_bias and "float32")
    kernel, specs = LAYERNORM_BACKWARD.launch(launches.rows(device, dtype, N, promise), **given)
    return kernel, launches.runner_for(device, kernel, specs)


def _traced_gradients(input, weight, mean, rstd, dy, bias):
    """As `_backward`, by way of the dispatcher."""
    return launches.without_absent(_layernorm_backward(input, weight, mean, rstd, dy, bias), weight, bias)


@register("layernorm_backward", launches.fake_norm_gradients, TORCHS)
def _layernorm_backward(
    input: torch.Tensor,
    weight: torch.Tensor | None,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    dy: torch.Tensor,
    bias: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    dx, *totals = _backward(input, weight, mean, rstd, dy, bias)
    return dx, *(input.new_empty(0) if total is None else total for total in totals)


def _fake(input, weight, bias, eps):
    out, rstd = launches.fake_of_rows("layernorm", input, TORCHS)
    return out, torch.empty_like(rstd), rstd


def _keep(ctx, inputs, output):
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(*inputs[:3], *output[1:])


def _gradient(ctx, dy, *_):
    input, weight, bias, mean, rstd = ctx.saved_tensors
    return *_traced_gradients(input, weight, mean, rstd, dy, bias), None


@register("layernorm", _fake, TORCHS, _keep, _gradient)
def _layernorm(
    input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _forward(input, weight, bias, eps, True)
