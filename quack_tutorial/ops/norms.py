"""RMSNorm, with an optional residual, and LayerNorm on torch tensors, and their gradients."""

from dataclasses import dataclass
from functools import cache

import torch
from torch._C import _are_functorch_transforms_active

from quack_tutorial import shipped
from quack_tutorial.compiler import MAX_ALIGNMENT
from quack_tutorial.ops import launches
from quack_tutorial.ops.registered import register, unscripted


@dataclass(frozen=True, eq=False)
class Norm:
    """What one of them has of its own."""

    name: str
    torchs: str  # the function of torch's that takes what ours does not
    words: str  # what is written behind the input in a call
    kernel: shipped.Kernel
    gradient: shipped.Kernel
    # The vectors, a float32 number a row, that the forward kernel keeps for the gradient.
    stats: tuple[str, ...]

    @property
    def adds(self):
        """Whether a residual may be added first."""
        return "residual" in self.kernel.parameters

    def advice(self, weight):
        """The end of a sentence about a tensor of another type: what a call in torch's order, or one with a bare eps, should be."""
        if isinstance(weight, (tuple, list, int)):
            call = f"{self.name}(input, {self.words})"
            return f"; a row is input's last dimension, so leave normalized_shape out: {call}"
        return f"; give eps by its name: {self.name}(input, weight, eps=eps)"


RMSNORM = Norm(
    "rmsnorm",
    "torch.nn.functional.rms_norm",
    "weight, eps=eps",
    shipped.RMSNORM,
    shipped.RMSNORM_BACKWARD,
    ("rstd",),
)
LAYERNORM = Norm(
    "layernorm",
    "torch.nn.functional.layer_norm",
    "weight, bias, eps",
    shipped.LAYERNORM,
    shipped.LAYERNORM_BACKWARD,
    ("mean", "rstd"),
)


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
        out, h, _ = _forward(RMSNORM, *tensors, eps, with_stats=False)
        return out if residual is None else (out, h)
    if route == "autograd":
        return _Norm.apply(RMSNORM, *tensors, eps)
    eps = check(RMSNORM, *tensors, eps)
    if residual is None:
        return _rmsnorm(input, weight, bias, eps)[0]
    return _add_rmsnorm(input, residual, weight, bias, eps)[:2]


@unscripted
def layernorm(input, weight=None, bias=None, eps=1e-5, *torchs):
    """LayerNorm of `input` over its last dimension: (x - mean) / sqrt(var + eps) * weight + bias, var = mean((x - mean)^2).

    As torch.nn.functional.layer_norm(input, input.shape[-1:], weight, bias, eps). Returns the result, of input's type and
    contiguous. weight and bias are (N,), contiguous, of float32, float16 or bfloat16 each. Limits on shapes and addresses, and
    errors, as for `softmax`. A fifth argument would be torch's eps, behind its normalized_shape: what to write instead is said.
    """
    if eps.__class__ is not float or torchs:
        eps = _check_eps(weight, eps, torchs)
    tensors = input, weight, bias, None
    route = launches.route(*tensors)
    if route == "launch":
        return _forward(LAYERNORM, *tensors, eps, with_stats=False)[0]
    if route == "autograd":
        return _Norm.apply(LAYERNORM, *tensors, eps)
    check(LAYERNORM, *tensors, eps)
    return _layernorm(input, weight, bias, eps)[0]


def _offset(weight, offset):
    launches.check_tensors("rmsnorm", RMSNORM.advice(weight), weight=weight)
    if weight is None:
        raise ValueError(f"rmsnorm: weight_offset={offset} is added to the weight, and there is none")
    launches.dtype_name("rmsnorm", "weight", weight)
    return weight.float() + offset


def _check_eps(weight, eps, torchs):
    """LayerNorm's eps, a float; TypeError for anything else, and for torch's order of arguments."""
    if isinstance(weight, (tuple, list, int)):
        launches.check_tensors("layernorm", LAYERNORM.advice(weight), weight=weight)
    if torchs:
        raise TypeError(f"layernorm: expected input, weight, bias and eps, got {4 + len(torchs)} arguments")
    return launches.check_number("layernorm", "eps", eps, "; leave it out for 1e-5" if eps is None else "")


def check(norm, input, weight, bias, residual, eps):
    """eps, a float, of what can be computed; TypeError, ValueError or RuntimeError for anything else."""
    tensors = dict(input=input, weight=weight, bias=bias) | (dict(residual=residual) if norm.adds else {})
    launches.check_tensors(norm.name, norm.advice(weight), **tensors)
    dtype = launches.dtype_name(norm.name, "input", input)
    _check_vectors(norm.name, input, weight=weight, bias=bias)
    if residual is not None and (residual.shape != input.shape or residual.dtype != input.dtype):
        raise ValueError(
            f"{norm.name}: expected a residual like input, {tuple(input.shape)} of {dtype}, got {tuple(residual.shape)} of "
            f"{str(residual.dtype).removeprefix('torch.')}"
        )
    launches.check_same(norm.name, **tensors)
    return torch.finfo(torch.float32).eps if eps is None else eps


def _check_vectors(op, input, **vectors):
    """TypeError or ValueError unless the vectors (None left out) are as long as input's rows and contiguous."""
    N = launches.columns(input)
    for name, vector in vectors.items():
        if vector is None:
            continue
        launches.dtype_name(op, name, vector)
        if vector.shape != (N,):
            raise ValueError(
                f"{op}: expected {name} of shape ({N},), got {tuple(vector.shape)}{_as_vector(op, input, name, vector)}"
            )
        # Under vmap the stride is not that of what is launched: an element of the batch, made contiguous.
        if not (vector.is_contiguous() or _are_functorch_transforms_active()):
            raise ValueError(f"{op}: {name} must be contiguous, got stride {vector.stride()}")


def _as_vector(op, input, name, vector):
    """What to write where a vector is as large as several dimensions of input, or is where input belongs."""
    if vector.dim() < 2:
        return ""
    if vector.shape == input.shape[-vector.dim() :]:
        return f"; write input.flatten(-{vector.dim()}) and {name}.flatten()"
    return f"; write {op}({name}, input)" if name == "weight" and vector.shape[-1:] == input.shape else ""


# Forward -------------------------------------------------------------------------------------------------------------

_launches = {}


def _forward(norm, input, weight, bias, residual, eps, *, with_stats):
    """(result, h or None, the vectors for the gradient or as many None)."""
    key = norm, eps, with_stats, launches.launch_key(input), launches.launch_key(weight), launches.launch_key(bias)
    if residual is not None:
        key = *key, launches.launch_key(residual), residual.is_nested or residual.shape == input.shape
    launch = _launches.get(key)
    if launch is None:
        launch = launches.keep(_launches, key, _prepare(norm, input, weight, bias, residual, eps, with_stats))
    return launch(input, weight, bias, residual)


def _prepare(norm, input, weight, bias, residual, eps, with_stats):
    """The launch for tensors like these."""
    eps = check(norm, input, weight, bias, residual, eps)
    N, empty_like, run = launches.columns(input), launches.contiguous_like(input), None
    are_matrices = False
    if N:
        launches.check_rows(norm.name, input, norm.torchs)
        x, r = (None if given is None else launches.as_rows(norm.name, given) for given in (input, residual))
        names = (None if tensor is None else launches.DTYPE_NAMES[tensor.dtype] for tensor in (input, weight, bias))
        promise = launches.promise(*(matrix for matrix in (x, r, launches.one_row(x)) if matrix is not None))
        run = _kernel(norm, x.device.type, *names, N, promise, residual is not None, with_stats)
        run, are_matrices = launches.guarded(run, x.device), x is input and r is residual
    at_once = all(on_boundary(vector) is vector for vector in (weight, bias))
    none = (None,) * len(norm.stats)

    def launch(input, weight, bias, residual):
        out = empty_like(input)
        h = None if residual is None else torch.empty_like(out)
        stats = [_row_vector(input) for _ in norm.stats] if with_stats else none
        if not at_once:
            weight, bias = on_boundary(weight), on_boundary(bias)
        if not input.numel():
            pass
        elif are_matrices:
            run(input, weight, bias, residual, out, h, *stats, eps)
        else:
            x, r = (None if given is None else launches.as_rows(norm.name, given) for given in (input, residual))
            run(x, weight, bias, r, out.view(-1, N), None if h is None else h.view(-1, N), *stats, eps)
        return out, h, stats

    return launch


@cache
def _kernel(norm, device, dtype, weight, bias, N, promise, has_residual, with_stats):
    """The kernel, called as RMSNorm's is: with a residual and h behind the vectors and the result, None in LayerNorm."""
    given = dict(w=weight, b=bias, residual=has_residual and dtype, h=has_residual and dtype)
    given |= dict.fromkeys(norm.stats, with_stats and "float32")
    run = launches.runner_for(device, *norm.kernel.made_for(launches.rows(device, dtype, N, promise), **given))
    return run if norm.adds else lambda x, w, b, r, out, h, *others: run(x, w, b, out, *others)


def _row_vector(input):
    """A new float32 vector with an element for each row."""
    return torch.empty(input.shape[:-1].numel(), dtype=torch.float32, device=input.device)


def on_boundary(vector):
    """A weight as the kernels read it, from a multiple of 16 bytes on, of stride 1: a copy if it is a view that is not so."""
    if vector is None:
        return None
    at_once = vector.data_ptr() % MAX_ALIGNMENT == 0 and vector.stride(0) == 1
    return vector if at_once else vector.clone(memory_format=torch.contiguous_format)


# Backward ------------------------------------------------------------------------------------------------------------

_backward_launches = {}


class _Norm(torch.autograd.Function):
    """What autograd sees of a call past the dispatcher."""

    @staticmethod
    def forward(ctx, norm, input, weight, bias, residual, eps):
        out, h, stats = _forward(norm, input, weight, bias, residual, eps, with_stats=True)
        ctx.norm = norm
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(input if residual is None else h, weight, bias, *stats)
        return out if residual is None else (out, h)

    @staticmethod
    def backward(ctx, dy, dh=None):
        x, weight, bias, *stats = ctx.saved_tensors
        dy = torch.zeros_like(x) if dy is None else dy
        gradients = _backward if launches.is_plain(dy, dh) else _traced
        dx, dw, db = gradients(ctx.norm, x, weight, stats, dy, dh, bias)
        return None, dx, dw, db, dx if ctx.needs_input_grad[4] else None, None


def _backward(norm, x, weight, stats, dy, dh, bias):
    """(dx, dw, db) from x, or h where there was a residual, and the gradients of what came of it, None for one that is not wanted;
    dw and db are None where there is no weight or no bias."""
    matrices = (x, dy, dh) if norm.adds else (x, dy)
    if not x.numel():
        dw, db = (None if vector is None else torch.zeros_like(vector) for vector in (weight, bias))
        return torch.empty_like(x, memory_format=torch.contiguous_format), dw, db
    key = norm, *map(launches.launch_key, (*matrices, weight, bias))
    launch = _backward_launches.get(key)
    if launch is None:
        if not all(map(launches.is_packed, matrices)):
            x, dy, dh = (None if matrix is None else launches.packed(matrix) for matrix in (x, dy, dh))
            return _backward(norm, x, weight, stats, dy, dh, bias)
        launch = launches.keep(_backward_launches, key, _prepare_backward(norm, matrices, weight, bias))
    return launch(matrices, weight, stats, bias)


def _prepare_backward(norm, matrices, weight, bias):
    """The launch for tensors like these, of which the matrices are packed and have elements."""
    from quack_tutorial.occupancy import clusters_at_once

    x, device = matrices[0], matrices[0].device
    N, empty_like = launches.columns(x), launches.contiguous_like(x)
    views = [matrix.view(-1, N) for matrix in matrices if matrix is not None]
    names = [None if tensor is None else launches.DTYPE_NAMES[tensor.dtype] for tensor in (x, weight, bias)]
    promise = launches.promise(*views, launches.one_row(views[0]))
    with_dh = any(matrix is not None for matrix in matrices[2:])
    kernel, run = _backward_kernel(norm, device.type, *names[:2], N, promise, bias is not None, with_dh)
    most = kernel.most_parts(clusters_at_once(device, kernel.config.blocks_per_row))
    run, are_matrices = launches.guarded(run, device), x.dim() == 2
    at_once = on_boundary(weight) is weight
    adds = [name and launches.guarded(_column_sum(device.type, name, N), device) for name in names[1:]]

    def launch(matrices, weight, stats, bias):
        dx, w = empty_like(matrices[0]), weight if at_once else on_boundary(weight)
        shape = kernel.parts_of(stats[-1].shape[0], most), N
        parts = [add and torch.empty(shape, dtype=torch.float32, device=device) for add in adds]
        out = dx
        if not are_matrices:
            matrices = [None if one is None else one.view(-1, N) for one in matrices]
            out = dx.view(-1, N)
        run(matrices[0], w, *matrices[1:], *stats, out, *parts)
        of_stride_1 = torch.contiguous_format
        totals = [one if one is None else torch.empty_like(one, memory_format=of_stride_1) for one in (weight, bias)]
        for add, part, total in zip(adds, parts, totals, strict=True):
            if add:
                add(part, total)
        return dx, *totals

    return launch


@cache
def _backward_kernel(norm, device, dtype, weight, N, promise, has_bias, has_dh):
    given = dict(w=weight, dh=has_dh and dtype, dw=weight and "float32", db=has_bias and "float32")
    kernel, specs = norm.gradient.made_for(launches.rows(device, dtype, N, promise), **given)
    return kernel, launches.runner_for(device, kernel, specs)


@cache
def _column_sum(device, dtype, N):
    """The sum over the float32 parts of a gradient of N columns, as a vector of `dtype`."""
    return launches.runner_for(device, *shipped.column_sum(N, dtype, launches.card_of(device)))


# For torch's dispatcher ----------------------------------------------------------------------------------------------


def _traced(norm, x, weight, stats, dy, dh, bias):
    """As `_backward`, by way of the dispatcher, whose operators have no None to give."""
    given = (x, weight, *stats, dy, *((dh,) if norm.adds else ()), bias)
    dx, dw, db = (_rmsnorm_backward if norm.adds else _layernorm_backward)(*given)
    return dx, None if weight is None else dw, None if bias is None else db


def _fake_gradients(x, weight, *others):
    """What a gradient gives torch's tracing, no elements for a vector that is absent; the last of the others is the bias."""
    dw, db = (x.new_empty(0) if vector is None else torch.empty_like(vector) for vector in (weight, others[-1]))
    return torch.empty_like(x, memory_format=torch.contiguous_format), dw, db


def _present(gradients, x):
    """The gradients as an operator gives them, no elements for a vector that is absent."""
    return tuple(x.new_empty(0) if one is None else one for one in gradients)


@register("rmsnorm_backward", _fake_gradients, RMSNORM.torchs)
def _rmsnorm_backward(
    h: torch.Tensor,
    weight: torch.Tensor | None,
    rstd: torch.Tensor,
    dy: torch.Tensor,
    dh: torch.Tensor | None,
    bias: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _present(_backward(RMSNORM, h, weight, (rstd,), dy, dh, bias), h)


@register("layernorm_backward", _fake_gradients, LAYERNORM.torchs)
def _layernorm_backward(
    input: torch.Tensor,
    weight: torch.Tensor | None,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    dy: torch.Tensor,
    bias: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _present(_backward(LAYERNORM, input, weight, (mean, rstd), dy, None, bias), input)


def _fake(norm, input):
    """(a result like `input`, a float32 vector with an element for each row)."""
    launches.check_rows(norm.name, input, norm.torchs)
    out, count = torch.empty_like(input, memory_format=torch.contiguous_format), 1
    for size in input.shape[:-1]:
        count = count * size
    return out, input.new_empty((count,), dtype=torch.float32)


def _fake_rmsnorm(input, weight, bias, eps):
    return _fake(RMSNORM, input)


def _keep_rmsnorm(ctx, inputs, output):
    input, weight, bias, _ = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(input, weight, bias, output[1])


def _gradient_rmsnorm(ctx, dy, _):
    input, weight, bias, rstd = ctx.saved_tensors
    return *_traced(RMSNORM, input, weight, (rstd,), dy, None, bias), None


@register("rmsnorm", _fake_rmsnorm, RMSNORM.torchs, _keep_rmsnorm, _gradient_rmsnorm)
def _rmsnorm(
    input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    out, _, (rstd,) = _forward(RMSNORM, input, weight, bias, None, eps, with_stats=True)
    return out, rstd


def _fake_sum(input, residual, weight, bias, eps):
    launches.check_rows("rmsnorm", residual, RMSNORM.torchs)
    out, rstd = _fake(RMSNORM, input)
    return out, torch.empty_like(out), rstd


def _keep_sum(ctx, inputs, output):
    _, _, weight, bias, _ = inputs
    ctx.mark_non_differentiable(output[2])
    ctx.save_for_backward(output[1], weight, bias, output[2])


def _gradient_sum(ctx, dy, dh, _):
    h, weight, bias, rstd = ctx.saved_tensors
    dx, dw, db = _traced(RMSNORM, h, weight, (rstd,), dy, dh, bias)
    return dx, dx, dw, db, None


@register("add_rmsnorm", _fake_sum, RMSNORM.torchs, _keep_sum, _gradient_sum)
def _add_rmsnorm(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    out, h, (rstd,) = _forward(RMSNORM, input, weight, bias, residual, eps, with_stats=True)
    return out, h, rstd


def _fake_layernorm(input, weight, bias, eps):
    out, rstd = _fake(LAYERNORM, input)
    return out, torch.empty_like(rstd), rstd


def _keep_layernorm(ctx, inputs, output):
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(*inputs[:3], *output[1:])


def _gradient_layernorm(ctx, dy, *_):
    input, weight, bias, mean, rstd = ctx.saved_tensors
    return *_traced(LAYERNORM, input, weight, (mean, rstd), dy, None, bias), None


@register("layernorm", _fake_layernorm, LAYERNORM.torchs, _keep_layernorm, _gradient_layernorm)
def _layernorm(
    input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    out, _, (mean, rstd) = _forward(LAYERNORM, input, weight, bias, None, eps, with_stats=True)
    return out, mean, rstd
