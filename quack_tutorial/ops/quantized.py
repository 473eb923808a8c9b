"""RMSNorm on torch tensors in float8, with an optional residual; for inference, so without a gradient."""

from functools import cache

import torch

from quack_tutorial import shipped
from quack_tutorial.hardware import SCALE_COLUMNS
from quack_tutorial.ops import launches
from quack_tutorial.ops.norms import Norm, check, on_boundary
from quack_tutorial.ops.registered import register, unscripted

NAME, INSTEAD = "rmsnorm_quantized", "quack_tutorial.ops.rmsnorm"
NORM = Norm(NAME, "torch.nn.functional.rms_norm", "weight, eps=eps", shipped.RMSNORM_QUANTIZED, None, ())
BLOCKS = shipped.RMSNORM_QUANTIZED_BLOCKS


@unscripted
def rmsnorm_quantized(input, weight=None, *, residual=None, block=None, eps=None):
    """RMSNorm of `input` over its last dimension in float8: (q, scale), where q * scale is nearly y.

    y = h / sqrt(mean(h^2) + eps) * weight, in float32 all the way. scale = max|y| / 448 of each row, in float32 and of shape
    (..., 1), or with block=128 of each 128 columns, (..., N / 128). q is y / scale, rounded to the nearest number of
    torch.float8_e4m3fn, of two the even one. The maximum is no less than 2^-100, so that zeros stay zeros; NaN in y makes scale and
    q NaN. With a residual, of input's shape and type, h = input + residual in that type is a third result; else h is the input.
    weight, eps and limits as for `rmsnorm`; with block=128 rows have a multiple of 128 elements and start at multiples of 16
    bytes. For inference: where a gradient would be wanted, RuntimeError.
    """
    if eps.__class__ is not float and eps is not None:
        eps = launches.check_number(NAME, "eps", eps)
    tensors = input, weight, residual
    route = launches.route(*tensors)
    if route == "launch":
        q, scale, h = _forward(*tensors, eps, block)
        return (q, scale) if residual is None else (q, scale, h)
    eps = _check(*tensors, eps, block)
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors):
        raise RuntimeError(
            f"{NAME}: a result in float8 has no gradient; call it under torch.no_grad(), or {INSTEAD} to train"
        )
    if residual is None:
        return _rmsnorm_quantized(input, weight, eps, block or 0)
    return _add_rmsnorm_quantized(input, residual, weight, eps, block or 0)


def _check(input, weight, residual, eps, block):
    """eps, a float, of what can be computed; TypeError, ValueError or RuntimeError for anything else."""
    eps, N = check(NORM, input, weight, None, residual, eps), launches.columns(input)
    if block is not None and (isinstance(block, bool) or block != SCALE_COLUMNS):
        raise ValueError(f"{NAME}: expected block to be None, for a scale a row, or {SCALE_COLUMNS}, got {block!r:.60}")
    if block and N % block:
        raise ValueError(
            f"{NAME}: block={block} takes rows of a multiple of {block} elements, got {N}; leave block out"
        )
    return eps


_launches = {}


def _forward(input, weight, residual, eps, block):
    """(q, scale, h or None)."""
    key = eps, block, launches.launch_key(input), launches.launch_key(weight), launches.launch_key(residual)
    key = *key, residual is None or residual.is_nested or residual.shape == input.shape
    launch = _launches.get(key) or launches.keep(_launches, key, _prepare(input, weight, residual, eps, block))
    return launch(input, weight, residual)


def _prepare(input, weight, residual, eps, block):
    """The launch for tensors like these."""
    eps = _check(input, weight, residual, eps, block)
    N, run = launches.columns(input), None
    if N:
        launches.check_rows(NAME, input, NORM.torchs)
        matrices = [launches.as_rows(NAME, given) for given in (input, residual) if given is not None]
        # Q has as many elements before a row.
        promise = launches.promise(*matrices, launches.one_row(matrices[0]))
        if block and promise != "aligned":
            raise ValueError(f"{NAME}: block={block} takes rows that start at multiples of 16 bytes; clone() a view")
        names = (tensor is not None and launches.DTYPE_NAMES[tensor.dtype] for tensor in (input, weight, residual))
        run = launches.guarded(_kernel(input.device.type, *names, N, promise, block), input.device)
    scales = N // block if block else 1

    def launch(input, weight, residual):
        q = torch.empty(input.shape, dtype=torch.uint8, device=input.device)
        scale = torch.empty((*input.shape[:-1], scales), dtype=torch.float32, device=input.device)
        h = None if residual is None else torch.empty_like(input, memory_format=torch.contiguous_format)
        if input.numel():
            x, r = (None if given is None else launches.as_rows(NAME, given) for given in (input, residual))
            of_rows = scale.view(-1, scales) if block else scale.view(-1)
            run(x, on_boundary(weight), r, q.view(-1, N), of_rows, None if h is None else h.view(-1, N), eps)
        elif scale.numel():  # rows without an element
            scale.fill_(2.0**-100 / 448)
        return q.view(torch.float8_e4m3fn), scale, h

    return launch


@cache
def _kernel(device, dtype, weight, residual, N, promise, block):
    kernel = BLOCKS if block else NORM.kernel
    given = dict(w=weight, residual=residual, h=residual)
    return launches.runner_for(device, *kernel.made_for(launches.rows(device, dtype, N, promise), **given))


# For torch's dispatcher ----------------------------------------------------------------------------------------------


def _fake(input, weight, eps, block):
    launches.check_rows(NAME, input, NORM.torchs)
    scales = input.shape[-1] // block if block else 1
    q = input.new_empty(input.shape, dtype=torch.float8_e4m3fn)
    return q, input.new_empty((*input.shape[:-1], scales), dtype=torch.float32)


@register("rmsnorm_quantized", _fake, INSTEAD)
def _rmsnorm_quantized(
    input: torch.Tensor, weight: torch.Tensor | None, eps: float, block: int
) -> tuple[torch.Tensor, torch.Tensor]:
    return _forward(input, weight, None, eps, block or None)[:2]


def _fake_sum(input, residual, weight, eps, block):
    launches.check_rows(NAME, residual, NORM.torchs)
    return *_fake(input, weight, eps, block), torch.empty_like(input, memory_format=torch.contiguous_format)


@register("add_rmsnorm_quantized", _fake_sum, INSTEAD)
def _add_rmsnorm_quantized(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float, block: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _forward(input, weight, residual, eps, block or None)
