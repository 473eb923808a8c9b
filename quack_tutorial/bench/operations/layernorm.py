"""LayerNorm of each row.

| operation          | inputs                | outputs    | bytes moved, besides what N or M alone decides |
|--------------------|-----------------------|------------|------------------------------------------------|
| layernorm          | x, w, b               | y          | 2 MN elements                                  |
| layernorm backward | x, w, dy, mean, rstd  | dx, dw, db | 3 MN elements                                  |

Weight and bias are of x's type, as torch's own wants them; QuACK's is given them in float32, and has no backward.
"""

from __future__ import annotations

import functools

from quack_tutorial.bench.operation import EPS, Operation, as_numpy, at, dtype_of, randn
from quack_tutorial.bench.our_launches import Ours, column_sum, count_of_parts, ladder, like, of_rows
from quack_tutorial.bench.peers import (
    autograd_backward,
    calls_of,
    cudnn_norm,
    eager,
    function_of,
    of_liger,
    of_torch,
)

# Forward -------------------------------------------------------------------------------------------------------------


def formula(x, w, b):
    """LayerNorm of each row in float32, rounded once."""
    import torch

    h = x.float()
    centred = h - h.mean(-1, keepdim=True)
    rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + EPS)
    return (centred * rstd * w + b).to(x.dtype)


def formula_of_torch(x, w, b):
    """torch's own LayerNorm."""
    import torch

    return torch.nn.functional.layer_norm(x, (x.shape[-1],), w, b, EPS)


def _inputs(M, N, dtype):
    return randn(M, N, dtype), *randn(2, N, dtype).unbind()


def _error(inputs, outputs, rows, columns):
    from quack_tutorial import reference

    x, y = at(rows, inputs[0], outputs[0])
    return reference.layernorm_error(x, y, dtype_of(outputs[0]), *map(as_numpy, inputs[1:]), eps=EPS)


def _kernels(r, config=None):
    from quack_tutorial.kernels.tuned.layernorm import LayerNorm

    specs = (r.matrix("x"), r.columns(r.dtype), r.columns(r.dtype), r.matrix("out"), None, None, EPS)
    return [(LayerNorm(r.element, r.N, r.rows, r.element, r.element, config=config), specs)]


def _run(launch, x, w, b):
    out = like(x)
    launch[0](x, w, b, out, None, None, EPS)
    return out


def _rung_launches(kernel, r):
    return [(kernel, (r.matrix("x"), r.columns(r.dtype), r.columns(r.dtype), r.matrix("out"), EPS))]


def _run_rung(launch, x, w, b):
    out = like(x)
    launch[0](x, w, b, out, EPS)
    return out


class _Quack:
    """QuACK's LayerNorm takes float32 weights: those of each set of inputs are converted once, before any is timed."""

    def __init__(self, x, w, b):
        self.converted = {}  # address of x -> weight and bias in float32

    def prepare(self, x, w, b):
        self.converted[x.data_ptr()] = w.float(), b.float()

    def __call__(self, x, w, b):
        from quack.rmsnorm import layernorm_fwd

        return layernorm_fwd(x, *self.converted[x.data_ptr()], eps=EPS)


def _liger(x, w, b):
    """Set up Liger's LayerNorm."""
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    return lambda x, w, b: LigerLayerNormFunction.apply(x, w, b, EPS)


# Backward ------------------------------------------------------------------------------------------------------------


def formula_backward(x, w, dy, mean, rstd):
    """The gradients of LayerNorm's input, weight and bias."""
    h, dy32 = (x.float() - mean[:, None]) * rstd[:, None], dy.float()
    wdy = w * dy32
    dx = rstd[:, None] * (wdy - wdy.mean(-1, keepdim=True) - h * (h * wdy).mean(-1, keepdim=True))
    return dx.to(x.dtype), (dy32 * h).sum(0).to(w.dtype), dy32.sum(0).to(w.dtype)


def _inputs_backward(M, N, dtype):
    import torch

    x, w = randn(M, N, dtype), randn(1, N, dtype)[0]
    found = [torch.var_mean(part.float(), -1, correction=0) for part in x.split(2048)]
    rstd = torch.cat([torch.rsqrt(variance + EPS) for variance, _ in found])
    return x, w, randn(M, N, dtype), torch.cat([mean for _, mean in found]), rstd


def _gradients(x, w, dy, mean, rstd):
    return (x, w, w), 3, dy


def _error_backward(inputs, outputs, rows, columns):
    from quack_tutorial import reference

    x, w, dy, *stats = inputs
    dx, dw, db = outputs
    X, DY, DX, *STATS = at(rows, x, dy, dx, *stats)
    error = reference.layernorm_dx_error(X, DY, DX, dtype_of(dx), as_numpy(w), *STATS)
    (X, DY), (DW, DB) = at(columns, x, dy, dim=1), at(columns, dw, db)  # all rows of some columns
    of_dw = reference.layernorm_dw_error(X, DY, DW, dtype_of(dw), *map(as_numpy, stats))
    return max(error, of_dw, reference.rmsnorm_db_error(DY, DB, dtype_of(db)))


def _kernels_backward(r, config=None):
    from quack_tutorial.kernels.tuned.layernorm_backward import layernorm_backward

    kernel = layernorm_backward(r.element, r.N, r.rows, r.element, config)
    specs = (r.matrix("x"), r.columns(r.dtype), r.matrix("dy"), of_rows("mean"), of_rows("rstd"), r.matrix("dx"))
    total = column_sum(r, r.dtype)
    return [(kernel, (*specs, r.parts(), r.parts())), total, total]


def _run_backward(launch, x, w, dy, mean, rstd):
    import torch

    dx, count = like(x), count_of_parts(launch[0].kernel, x)
    parts = [torch.empty(count, x.shape[1], dtype=torch.float32, device=x.device) for _ in range(2)]
    launch[0](x, w, dy, mean, rstd, dx, *parts)
    sums = [torch.empty_like(w) for _ in parts]
    for add, part, total in zip(launch[1:], parts, sums, strict=True):
        add(part, total)
    return dx, *sums


def _liger_backward(x, w, dy, mean, rstd):
    """Set up what Liger's LayerNorm calls backward; the bias takes no part in it but for its type."""
    from liger_kernel.ops.layer_norm import layer_norm_backward

    return lambda x, w, dy, mean, rstd: layer_norm_backward(dy, x, w, w, mean, rstd)


# The table -----------------------------------------------------------------------------------------------------------

_OURS, _OURS_BACKWARD = Ours(_kernels, _run, tile_reads=1), Ours(_kernels_backward, _run_backward)
_RUNGS = ("block", "vectors", "registers")
_CALLS = {
    "ours": function_of("quack_tutorial.ops", "layernorm", eps=EPS),
    "liger": function_of("liger_kernel.ops", "LigerLayerNormFunction.apply", EPS),
}
OPERATIONS = (
    Operation(
        "layernorm",
        pattern="1R1W",
        bytes=lambda M, N, item: 2 * M * N * item,
        inputs=_inputs,
        error=_error,
        providers={
            "ours": _OURS,
            **of_torch(formula, eagerly=formula_of_torch),
            "quack": _Quack,
            "liger": _liger,
            "liger cute": eager(of_liger("layer_norm", EPS)),
            "cudnn": functools.partial(cudnn_norm, "layernorm"),
        },
        ladder=ladder("layernorm", "LADDER", _RUNGS, _rung_launches, _run_rung, _OURS),
        calls=calls_of(formula, _CALLS, formula_of_torch) | {"quack": _Quack},
        arithmetic=(
            "sum",
            "subtraction of the mean",
            "square",
            "sum of squares",
            "product with 1/deviation",
            "product with the weight",
            "addition of the bias",
        ),
    ),
    Operation(
        "layernorm backward",
        pattern="2R1W",
        bytes=lambda M, N, item: 3 * M * N * item,
        inputs=_inputs_backward,
        error=_error_backward,
        providers={
            "ours": _OURS_BACKWARD,
            **of_torch(formula, formula_backward, _gradients, formula_of_torch),
            "liger": _liger_backward,
            "liger cute": autograd_backward(of_liger("layer_norm", EPS), _gradients),
        },
        row_bytes=8,
        calls=calls_of(formula, _CALLS, formula_of_torch, lambda x, w, dy, mean, rstd: ((x, w, w.clone()), 3, dy)),
        arithmetic=(
            "subtraction of the mean",
            "product with 1/deviation",
            "dy times the weight",
            "its sum",
            "its product with x",
            "sum of those",
            "x times their mean",
            "two subtractions, one",
            "and the other",
            "product with 1/deviation",
            "product for dw",
            "sum of dw",
            "sum of db",
        ),
    ),
)
