"""RMSNorm on torch tensors, with an optional residual, and its gradient."""

from functools import cache

import torch

from quack_tutorial.ops import launches
from quack_tutorial.ops.registered import register, unscripted
from quack_tutorial.shipped import RMSNORM, RMSNORM_BACKWARD

TORCHS = "torch.nn.functional.rms_norm"
_ADVICE = "; a row is input's last dimension, so leave normalized_shape out: rmsnorm(input, weight, eps=eps)"
_ADVICE_ON_EPS = "; give eps by its name: rmsnorm(input, weight, eps=eps)"


@unscripted
def rmsnorm(input, weight=None, bias=None, residual=None, eps=None, *, weight_offset=0.0):
    """RMSNorm of `input` over its last dimension: h / sqrt(mean(h^2) + eps) * weight + bias, with h = input + residual.

    As torch.nn.functional.rms_norm(input, input.shape[-1:], weight, eps), where eps=None means float32's smallest step at 1
    for 16-bit inputs too. Returns the result, of input's type and contiguous; with a residual (of input's shape and type) returns
    (result, h), h of the same type, which the next layer takes as its residual. weight and bias are (N,), contiguous, of
    float32, float16 or bfloat16 each. With `weight_offset` the result is multiplied by weight + weight_offset, a float32 vector of
    its own: 1.0 where a model keeps weights around zero. Limits on shapes and addresses, and errors, as for `softmax`.
    """
    if weight_offset.__class__ is not float:
        weight_offset = launches.check_number("rmsnorm", "weight_offset", weight_offset)
    if eps.__class__ is not float and eps is not None:
        eps = launches.check_number("rmsnorm", "eps", eps)
    if weight_offset:
        weight = _offset(weight, weight_offset)
    tensors = input, weight, bias, residual
    route = launches.route(*tensors)
    if route == "launch":
        out, h, _ = _forward(*tensors, eps, False)
        return out if residual is None else (out, h)
    if route == "autograd":
        return _RMSNorm.apply(*tensors, eps)
    eps = _check(*tensors, eps)
    if residual is None:
        return _rmsnorm(input, weight, bias, eps)[0]
    return _add_rmsnorm(input, residual, weight, bias, eps)[:2]


def _offset(weight, offset):
    launches.check_tensors("rmsnorm", _ADVICE, weight=weight)
    if weight is None:
        raise ValueError(f"rmsnorm: weight_offset={offset} is added to the weight, and there is none")
    launches.dtype_name("rmsnorm", "weight", weight)
    return weight.float() + offset


def _check(input, weight, bias, residual, eps):
    """eps, a float, of what can be computed; TypeError, ValueError or RuntimeError for anything else."""
    advice = _ADVICE if isinstance(weight, (tuple, list, int)) else _ADVICE_ON_EPS
    launches.check_tensors("rmsnorm", advice, input=input, weight=weight, bias=bias, residual=residual)
    dtype = launches.dtype_name("rmsnorm", "input", input)
    launches.check_vectors("rmsnorm", input, weight=weight, bias=bias)
    if residual is not None and (residual.shape != input.shape or residual.dtype != input.dtype):
        raise ValueError(
            f"rmsnorm: expected a residual like input, {tuple(input.shape)} of {dtype}, got {tuple(residual.shape)} of "
            f"{str(residual.dtype).removeprefix('torch.')}"
        )
    launches.check_same("rmsnorm", input=input, weight=weight, bias=bias, residual=residual)
    return torch.finfo(torch.float32).eps if eps is None else eps


_launches = {}
_backward_launches = {}


def _forward(input, weight, bias, residual, eps, with_rstd):
    """(result, h or None, rstd or None)."""
    key = eps, with_rstd, launches.launch_key(input), launches.launch_key(weight), launches.launch_key(bias)
    if residual is not None:
        key = *key, launches.launch_key(residual), residual.is_nested or residual.shape == input.shape
    launch = _launches.get(key)
    if launch is None:
        launch = launches.keep(_launches, key, _prepare(input, weight, bias, residual, eps, with_rstd))
    return launch(input, weight, bias, residual)


def _prepare(input, weight, bias, residual, eps, with_rstd):
    """The launch for tensors like these."""
    eps = _check(input, weight, bias, residual, eps)
    N, empty_like = launches.columns(input), launches.contiguous_like(input)
    if N == 0:
        return _nothing
    launches.check_rows("rmsnorm", input, TORCHS)
    x, r = (None if given is None else launches.as_rows("rmsnorm", given) for given in (input, residual))
    names = (None if tensor is None else launches.DTYPE_NAMES[tensor.dtype] for tensor in (input, weight, bias))
    promise = launches.promise(*(matrix for matrix in (x, r, launches.one_row(x)) if matrix is not None))
    kernel = _kernel(x.device.type, *names, N, promise, residual is not None, with_rstd)
    run, is_matrix = launches.guarded(kernel, x.device), x is input and r is residual
    on_boundary = all(launches.on_boundary(vector) is vector for vector in (weight, bias))

    def launch(input, weight, bias, residual):
        out = empty_like(input)
        h = None if residual is None else torch.empty_like(out)
        rstd = launches.row_vector(input) if with_rstd else None
        if not on_boundary:
            weight, bias = launches.on_boundary(weight), launches.on_boundary(bias)
        if not input.numel():
            pass
        elif is_matrix:
            run(input, weight, bias, residual, out, h, rstd, eps)
        else:
            x, r = (None if given is None else launches.as_rows("rmsnorm", given) for given in (input, residual))
            run(x, weight, bias, r, out.view(-1, N), None if h is None else h.view(-1, N), rstd, eps)
        return out, h, rstd

    return launch


def _nothing(input, weight, bias, residual):
    """The launch for rows of no elements."""
    out = torch.empty_like(input, memory_format=torch.contiguous_format)
    return out, torch.empty_like(out), launches.row_vector(input)


def _backward(h, weight, rstd, dy, dh, bias):
    return launches.norm_gradients(_backward_launches, _backward_kernel, (h, dy, dh), weight, (rstd,), bias)


class _RMSNorm(torch.autograd.Function):
    """What autograd sees of a call past the dispatcher."""

    @staticmethod
    def forward(ctx, input, weight, bias, residual, eps):
        out, h, rstd = _forward(input, weight, bias, residual, eps, True)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(input if residual is None else h, weight, bias, rstd)
        return out if residual is None else (out, h)

    @staticmethod
    def backward(ctx, dy, dh=None):
        h, weight, bias, rstd = ctx.saved_tensors
        dy = torch.zeros_like(h) if dy is None else dy
        gradients = _backward if launches.is_plain(dy, dh) else _traced_gradients
        dx, dw, db = gradients(h, weight, rstd, dy, dh, bias)
        return dx, dw, db, dx if ctx.needs_input_grad[3] else None, None


@cache
def _kernel(device, dtype, weight, bias, N, promise, residual, rstd):
    given = dict(w=weight, b=bias, residual=residual and dtype, h=residual and dtype, rstd=rstd and "float32")
    return launches.runner_for(device, *RMSNORM.launch(launches.rows(device, dtype, N, promise), **given))


@cache
def _backward_kernel(device, dtype, weight, N, promise, with_bias, dh):
    given = dict(w=weight, dh=dh and dtype, dw=weight and "float32", db=with_bias and "float32")
    kernel, specs = RMSNORM_BACKWARD.launch(launches.rows(device, dtype, N, promise), **given)
    return kernel, launches.runner_for(device, kernel, specs)


def _traced_gradients(h, weight, rstd, dy, dh, bias):
    """As `_backward`, by way of the dispatcher."""
    return launches.without_absent(_rmsnorm_backward(h, weight, rstd, dy, dh, bias), weight, bias)


@register("rmsnorm_backward", launches.fake_norm_gradients, TORCHS)
def _rmsnorm_backward(
    h: torch.Tensor,
    weight: torch.Tensor | None,
    rstd: torch.Tensor,
    dy: torch.Tensor,
    dh: torch.Tensor | None,
    bias: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    dx, *totals = _backward(h, weight, rstd, dy, dh, bias)
    return dx, *(h.new_empty(0) if total is None else total for total in totals)


def _fake(input, weight, bias, eps):
    return launches.fake_of_rows("rmsnorm", input, TORCHS)


def _keep(ctx, inputs, output):
    input, weight, bias, _ = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(input, weight, bias, output[1])


def _gradient(ctx, dy, _):
    input, weight, bias, rstd = ctx.saved_tensors
    return *_traced_gradients(input, weight, rstd, dy, None, bias), None


@register("rmsnorm", _fake, TORCHS, _keep, _gradient)
def _rmsnorm(
    input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    out, _, rstd = _forward(input, weight, bias, None, eps, True)
    return out, rstd


def _fake_sum(input, residual, weight, bias, eps):
    launches.check_rows("rmsnorm", residual, TORCHS)
    out, rstd = launches.fake_of_rows("rmsnorm", input, TORCHS)
    return out, torch.empty_like(out), rstd


def _keep_sum(ctx, inputs, output):
    _, _, weight, bias, _ = inputs
    ctx.mark_non_differentiable(output[2])
    ctx.save_for_backward(output[1], weight, bias, output[2])


def _gradient_sum(ctx, dy, dh, _):
    h, weight, bias, rstd = ctx.saved_tensors
    dx, dw, db = _traced_gradients(h, weight, rstd, dy, dh, bias)
    return dx, dx, dw, db, None


@register("add_rmsnorm", _fake_sum, TORCHS, _keep_sum, _gradient_sum)
def _add_rmsnorm(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _forward(input, weight, bias, residual, eps, True)
