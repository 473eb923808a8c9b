"""Softmax on torch tensors, and its gradient.

| name       | is                                                                                |
|------------|-----------------------------------------------------------------------------------|
| `softmax`  | what is called: it checks, and takes one of the others                            |
| `_forward` | the launch alone, where no gradient is wanted                                     |
| `_Softmax` | the launch with its gradient, for plain tensors, which need no dispatcher         |
| `_softmax` | the operator that torch's dispatcher has: under torch.compile, vmap, torch.func    |
"""

from functools import cache
from numbers import Integral

import torch

from quack_tutorial.ops import launches
from quack_tutorial.ops.registered import register, unscripted
from quack_tutorial.shipped import SOFTMAX, SOFTMAX_BACKWARD

TORCHS = "torch.softmax"


@unscripted
def softmax(input, dim=-1):
    """Softmax of `input` over its last dimension, as torch.softmax(input, dim=-1); the result is contiguous.

    `input` is float32, float16 or bfloat16 of any shape, with at most 262144 elements in its last dimension, which must
    have stride 1; rows may be any stride apart and start at any address. Raises TypeError, ValueError or RuntimeError
    before anything is launched.
    """
    if dim.__class__ is not int:
        dim = launches.check_number("softmax", "dim", dim, kind=Integral)
    route = launches.route(input)
    if route == "dispatcher":
        _check(input, dim)
        return _softmax(launches.autocast_to_float32(input, on=("cuda",)))
    input = launches.autocast_to_float32(input, on=("cuda",))
    return _forward(input, dim) if route == "launch" else _Softmax.apply(input, dim)


def _check(input, dim):
    launches.check_tensors("softmax", input=input)
    launches.dtype_name("softmax", "input", input)
    launches.check_last("softmax", dim, input)


_launches = {}
_backward_launches = {}


def _forward(input, dim=-1):
    key = dim, launches.launch_key(input)
    launch = _launches.get(key) or launches.keep(_launches, key, _prepare(input, dim))
    return launch(input)


def _prepare(input, dim):
    """The launch for tensors like `input`."""
    _check(input, dim)
    N, empty_like = launches.columns(input), launches.contiguous_like(input)
    if N == 0:
        return empty_like
    launches.check_rows("softmax", input, TORCHS)
    x = launches.as_rows("softmax", input)
    kernel = _kernel(x.device.type, launches.DTYPE_NAMES[x.dtype], N, launches.promise(x, launches.one_row(x)))
    run, is_matrix = launches.guarded(kernel, x.device), x is input

    def launch(input):
        output = empty_like(input)
        if input.numel():
            if is_matrix:
                run(input, output)
            else:
                run(launches.as_rows("softmax", input), output.view(-1, N))
        return output

    return launch


def _backward(y, dy):
    key = launches.launch_key(y), launches.launch_key(dy)
    launch = _backward_launches.get(key)
    if launch is None:
        if not (launches.is_packed(y) and launches.is_packed(dy)):
            return _backward(launches.packed(y), launches.packed(dy))
        launch = launches.keep(_backward_launches, key, _prepare_backward(y, dy))
    return launch(y, dy)


def _prepare_backward(y, dy):
    """The launch for packed tensors like these."""
    N, empty_like = launches.columns(y), launches.contiguous_like(y)
    if N == 0:
        return lambda y, dy: empty_like(y)
    x = y.view(-1, N)
    promise = launches.promise(x, dy.view(-1, N), launches.one_row(x))
    kernel = _backward_kernel(y.device.type, launches.DTYPE_NAMES[y.dtype], N, promise)
    run, are_matrices = launches.guarded(kernel, y.device), y.dim() == 2

    def launch(y, dy):
        dx = empty_like(y)
        if dx.numel():
            if are_matrices:
                run(y, dy, dx)
            else:
                run(y.view(-1, N), dy.view(-1, N), dx.view(-1, N))
        return dx

    return launch


class _Softmax(torch.autograd.Function):
    """What autograd sees of a call past the dispatcher."""

    @staticmethod
    def forward(ctx, input, dim):
        output = _forward(input, dim)
        ctx.save_for_backward(output)
        return output

    @staticmethod
    def backward(ctx, dy):
        gradient = _backward if launches.is_plain(dy) else _softmax_backward
        return gradient(ctx.saved_tensors[0], dy), None


@cache
def _kernel(device, dtype, N, promise):
    return launches.runner_for(device, *SOFTMAX.made_for(launches.rows(device, dtype, N, promise)))


@cache
def _backward_kernel(device, dtype, N, promise):
    return launches.runner_for(device, *SOFTMAX_BACKWARD.made_for(launches.rows(device, dtype, N, promise)))


def _fake(input):
    launches.check_rows("softmax", input, TORCHS)
    return torch.empty_like(input, memory_format=torch.contiguous_format)


@register("softmax_backward", lambda y, dy: torch.empty_like(y), TORCHS)
def _softmax_backward(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    return _backward(y, dy)


@register(
    "softmax",
    _fake,
    TORCHS,
    keep=lambda ctx, inputs, output: ctx.save_for_backward(output),
    gradient=lambda ctx, dy: _softmax_backward(ctx.saved_tensors[0], dy),
)
def _softmax(input: torch.Tensor) -> torch.Tensor:
    return _forward(input)
