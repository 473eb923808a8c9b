"""Softmax on torch tensors, and its gradient."""

from functools import cache

import torch

from quack_tutorial.ops import rows


def softmax(input, dim=-1):
    """Softmax of `input` over its last dimension, as torch.softmax(input, dim=-1); the result is contiguous.

    `input` is float32, float16 or bfloat16 of any shape, with at most 262144 elements in its last dimension, which must
    have stride 1; rows may be any stride apart and start at any address. Raises TypeError, ValueError or RuntimeError
    before anything is launched.
    """
    rows.dtype_name("softmax", "input", input)
    rows.check_last("softmax", dim, input)
    input = rows.autocast_to_float32(input, on=("cuda",))
    return _forward(input) if rows.plain_call(input) else _softmax(input)


def _forward(input):
    output = torch.empty_like(input, memory_format=torch.contiguous_format)
    if output.numel() == 0:
        return output
    x = rows.as_rows("softmax", input)
    out = output if x is input else output.view(x.shape)
    run = _kernel(input.device.type, rows.DTYPE_NAMES[input.dtype], x.shape[1], rows.promise(x, out))
    rows.on_device(input, run, x, out)
    return output


def _backward(y, dy):
    dx = torch.empty_like(y)
    if dx.numel() == 0:
        return dx
    N = y.shape[-1] if y.dim() else 1
    y, dy = y.contiguous().view(-1, N), rows.gradient_rows(dy, N)
    out = dx.view(-1, N)
    run = _backward_kernel(dx.device.type, rows.DTYPE_NAMES[dx.dtype], N, rows.promise(y, dy, out))
    rows.on_device(dx, run, y, dy, out)
    return dx


@cache
def _kernel(device, dtype, N, promise):
    from quack_tutorial.kernels.softmax import Softmax

    specs = (rows.matrix_spec(dtype, N, promise, name) for name in ("x_stride", "out_stride"))
    return rows.compiled(device, Softmax(rows.dsl_type(dtype), N, promise), *specs)


@cache
def _backward_kernel(device, dtype, N, promise):
    from quack_tutorial.kernels.softmax import SoftmaxBackward

    specs = (rows.matrix_spec(dtype, N, promise, name) for name in ("y_stride", "dy_stride", "dx_stride"))
    return rows.compiled(device, SoftmaxBackward(rows.dsl_type(dtype), N, promise), *specs)


@torch.library.custom_op("quack_tutorial::softmax", mutates_args=())
def _softmax(input: torch.Tensor) -> torch.Tensor:
    return _forward(input)


@torch.library.custom_op("quack_tutorial::softmax_backward", mutates_args=())
def _softmax_backward(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    return _backward(y, dy)


@_softmax.register_fake
def _(input):
    return torch.empty_like(input, memory_format=torch.contiguous_format)


@_softmax_backward.register_fake
def _(y, dy):
    return torch.empty_like(y)


_softmax.register_autograd(
    lambda ctx, dy: _softmax_backward(ctx.saved_tensors[0], dy),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
)
