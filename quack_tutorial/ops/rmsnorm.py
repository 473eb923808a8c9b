"""RMSNorm on torch tensors, with an optional residual, and its gradient."""

from functools import cache

import torch

from quack_tutorial.ops import rows


def rmsnorm(input, weight=None, bias=None, residual=None, eps=None):
    """RMSNorm of `input` over its last dimension: h / sqrt(mean(h^2) + eps) * weight + bias, with h = input + residual.

    As torch.nn.functional.rms_norm(input, input.shape[-1:], weight, eps), where eps=None means the smallest step at 1 of
    input's type. Returns the result, of input's type and contiguous; with a residual (of input's shape and type) returns
    (result, h), h of the same type, which the next layer takes as its residual. weight and bias are (N,), contiguous, of
    float32, float16 or bfloat16 each. Limits on shapes and addresses as for `softmax`.
    """
    dtype = rows.dtype_name("rmsnorm", "input", input)
    N = input.shape[-1] if input.dim() else 1
    for name, vector in (("weight", weight), ("bias", bias)):
        if vector is None:
            continue
        rows.dtype_name("rmsnorm", name, vector)
        if vector.shape != (N,):
            raise ValueError(f"rmsnorm: expected {name} of shape ({N},), got {tuple(vector.shape)}")
        if not vector.is_contiguous():
            raise ValueError(f"rmsnorm: {name} must be contiguous, got stride {vector.stride()}")
    if residual is not None and (residual.shape != input.shape or residual.dtype != input.dtype):
        raise ValueError(
            f"rmsnorm: expected a residual like input, {tuple(input.shape)} of {dtype}, got {tuple(residual.shape)} of "
            f"{str(residual.dtype).removeprefix('torch.')}"
        )
    rows.check_same("rmsnorm", input=input, weight=weight, bias=bias, residual=residual)
    eps = torch.finfo(input.dtype).eps if eps is None else float(eps)
    if rows.plain_call(input, weight, bias, residual):
        out, h, _ = _forward(input, weight, bias, residual, eps, False)
        return out if residual is None else (out, h)
    if residual is None:
        return _rmsnorm(input, weight, bias, eps)[0]
    return _add_rmsnorm(input, residual, weight, bias, eps)[:2]


def _forward(input, weight, bias, residual, eps, with_rstd):
    """(result, h or None, rstd or None)."""
    out = torch.empty_like(input, memory_format=torch.contiguous_format)
    h = None if residual is None else torch.empty_like(out)
    N = input.shape[-1] if input.dim() else 1
    rstd = torch.empty(input.numel() // max(N, 1), dtype=torch.float32, device=input.device) if with_rstd else None
    if out.numel() == 0:
        return out, h, rstd
    x, y = rows.as_rows("rmsnorm", input), out.view(-1, N)
    r = None if residual is None else rows.as_rows("rmsnorm", residual)
    s = None if residual is None else h.view(-1, N)
    weight, bias = _on_boundary(weight), _on_boundary(bias)
    promise = rows.promise(*(matrix for matrix in (x, y, r, s) if matrix is not None))
    names = (rows.DTYPE_NAMES[v.dtype] if v is not None else None for v in (input, weight, bias))
    run = _kernel(input.device.type, *names, N, promise, residual is not None, with_rstd)
    rows.on_device(input, run, x, weight, bias, r, y, s, rstd, eps)
    return out, h, rstd


def _backward(h, weight, rstd, dy, dh, with_bias):
    """(dx, dw, db): dw and db are empty where there is no weight or no bias."""
    N = h.shape[-1] if h.dim() else 1
    dx = torch.empty_like(h, memory_format=torch.contiguous_format)
    like = {"dtype": torch.float32 if weight is None else weight.dtype, "device": h.device}
    dw = torch.zeros(N if weight is not None else 0, **like)
    db = torch.zeros(N if with_bias else 0, **like)
    if dx.numel() == 0:
        return dx, dw, db
    x, out, dy = h.contiguous().view(-1, N), dx.view(-1, N), rows.gradient_rows(dy, N)
    dh = None if dh is None else rows.gradient_rows(dh, N)
    weight = _on_boundary(weight)
    promise = rows.promise(*(matrix for matrix in (x, dy, dh, out) if matrix is not None))
    device, dtype = h.device.type, rows.DTYPE_NAMES[h.dtype]
    weight_name = None if weight is None else rows.DTYPE_NAMES[weight.dtype]
    kernel, run = _backward_kernel(device, dtype, weight_name, N, promise, dh is not None, with_bias)
    parts = kernel.partial_blocks(_sm_count(h.device))
    part_w, part_b = (
        torch.empty(parts, N, device=h.device) if given else None for given in (weight is not None, with_bias)
    )
    rows.on_device(h, run, x, weight, dy, dh, rstd, out, part_w, part_b)
    for part, total in ((part_w, dw), (part_b, db)):
        if part is not None:
            rows.on_device(h, _column_sum(device, rows.DTYPE_NAMES[total.dtype], N), part, total)
    return dx, dw, db


def _on_boundary(vector):
    """A weight that starts at a multiple of 16 bytes, as the kernels read it: a copy if it is a view that does not."""
    return vector if vector is None or vector.data_ptr() % rows.MAX_ALIGNMENT == 0 else vector.clone()


def _sm_count(device):
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


@cache
def _kernel(device, dtype, weight, bias, N, promise, residual, rstd):
    from quack_tutorial.kernels.rmsnorm import RMSNorm

    def type_of(name):
        return None if name is None else rows.dsl_type(name)

    def matrix(name, given=True):
        return rows.matrix_spec(dtype, N, promise, name) if given else None

    own = type_of(dtype)
    added = own if residual else None
    kernel = RMSNorm(own, N, promise, type_of(weight), type_of(bias), added, added, rstd)
    vectors = (None if name is None else rows.of_columns(name, N) for name in (weight, bias))
    specs = (matrix("x"), *vectors, matrix("r", residual), matrix("out"), matrix("h", residual))
    return rows.compiled(device, kernel, *specs, rows.of_rows("float32") if rstd else None, 0.0)


@cache
def _backward_kernel(device, dtype, weight, N, promise, dh, with_bias):
    from quack_tutorial.compiler import TensorSpec
    from quack_tutorial.kernels.rmsnorm import RMSNormBackward

    kernel = RMSNormBackward(rows.dsl_type(dtype), N, promise, None if weight is None else rows.dsl_type(weight))
    x, dy, dx = (rows.matrix_spec(dtype, N, promise, name) for name in ("x", "dy", "dx"))
    parts = TensorSpec("float32", ("G", N), (N, 1), rows.MAX_ALIGNMENT)
    specs = (x, rows.of_columns(weight, N) if weight else None, dy)
    specs += (rows.matrix_spec(dtype, N, promise, "dh") if dh else None, rows.of_rows("float32"), dx)
    return kernel, rows.compiled(device, kernel, *specs, parts if weight else None, parts if with_bias else None)


@cache
def _column_sum(device, dtype, N):
    from quack_tutorial.compiler import TensorSpec
    from quack_tutorial.kernels.rmsnorm import ColumnSum

    parts = TensorSpec("float32", ("G", N), (N, 1), rows.MAX_ALIGNMENT)
    return rows.compiled(device, ColumnSum(N, rows.dsl_type(dtype)), parts, rows.of_columns(dtype, N))


@torch.library.custom_op("quack_tutorial::rmsnorm", mutates_args=())
def _rmsnorm(
    input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    out, _, rstd = _forward(input, weight, bias, None, eps, True)
    return out, rstd


@torch.library.custom_op("quack_tutorial::add_rmsnorm", mutates_args=())
def _add_rmsnorm(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _forward(input, weight, bias, residual, eps, True)


@torch.library.custom_op("quack_tutorial::rmsnorm_backward", mutates_args=())
def _rmsnorm_backward(
    h: torch.Tensor,
    weight: torch.Tensor | None,
    rstd: torch.Tensor,
    dy: torch.Tensor,
    dh: torch.Tensor | None,
    with_bias: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _backward(h, weight, rstd, dy, dh, with_bias)


def _fake_forward(input):
    out = torch.empty_like(input, memory_format=torch.contiguous_format)
    count = 1
    for size in input.shape[:-1]:
        count = count * size
    return out, input.new_empty((count,), dtype=torch.float32)


@_rmsnorm.register_fake
def _(input, weight, bias, eps):
    return _fake_forward(input)


@_add_rmsnorm.register_fake
def _(input, residual, weight, bias, eps):
    out, rstd = _fake_forward(input)
    return out, torch.empty_like(out), rstd


@_rmsnorm_backward.register_fake
def _(h, weight, rstd, dy, dh, with_bias):
    N = h.shape[-1] if h.dim() else 1
    vector = torch.float32 if weight is None else weight.dtype
    dw = h.new_empty((N if weight is not None else 0,), dtype=vector)
    db = h.new_empty((N if with_bias else 0,), dtype=vector)
    return torch.empty_like(h, memory_format=torch.contiguous_format), dw, db


def _keep(ctx, inputs, output):
    input, weight, bias, _ = inputs
    ctx.save_for_backward(input, weight, bias, output[1])


def _rmsnorm_gradient(ctx, dy, _):
    input, weight, bias, rstd = ctx.saved_tensors
    dx, dw, db = _rmsnorm_backward(input, weight, rstd, dy, None, bias is not None)
    return dx, _given(weight, dw), _given(bias, db), None


def _keep_sum(ctx, inputs, output):
    _, _, weight, bias, _ = inputs
    ctx.save_for_backward(output[1], weight, bias, output[2])


def _add_rmsnorm_gradient(ctx, dy, dh, _):
    h, weight, bias, rstd = ctx.saved_tensors
    dx, dw, db = _rmsnorm_backward(h, weight, rstd, dy, dh, bias is not None)
    return dx, dx, _given(weight, dw), _given(bias, db), None


def _given(vector, gradient):
    return None if vector is None else gradient.to(vector.dtype)


_rmsnorm.register_autograd(_rmsnorm_gradient, setup_context=_keep)
_add_rmsnorm.register_autograd(_add_rmsnorm_gradient, setup_context=_keep_sum)
