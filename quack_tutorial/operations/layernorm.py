"""LayerNorm of each row.

| operation          | inputs                | outputs    | bytes moved, besides what N or M alone decides |
|--------------------|-----------------------|------------|------------------------------------------------|
| layernorm          | x, w, b               | y          | 2 MN elements                                  |
| layernorm backward | x, w, dy, mean, rstd  | dx, dw, db | 3 MN elements                                  |

Weight and bias are of x's type, as torch's own wants them; QuACK's is given them in float32, and has no backward.
"""

from __future__ import annotations

import functools

from quack_tutorial import reference
from quack_tutorial.operations.kernel import COLUMNS, MATRIX, PARTS, ROWS, Kernel, element
from quack_tutorial.operations.operation import EPS, Operation, error_of, randn
from quack_tutorial.operations.our_launches import ladder, shipped
from quack_tutorial.operations.peers import (
    autograd_backward,
    calls_of,
    cudnn_norm,
    eager,
    function_of,
    of_liger,
    of_torch,
)

# The kernels -----------------------------------------------------------------------------------------------------------


def _layernorm(r, config, given):
    from quack_tutorial.kernels.tuned.layernorm import LayerNorm

    return LayerNorm(r.element, r.N, r.promise, config)


def _layernorm_backward(r, config, given):
    from quack_tutorial.kernels.tuned.layernorm_backward import layernorm_backward

    return layernorm_backward(r.element, r.N, r.promise, element(given.get("w")), config)


LAYERNORM = Kernel(
    "layernorm",
    _layernorm,
    {"x": MATRIX, "w": COLUMNS, "b": COLUMNS, "out": MATRIX, "mean": ROWS, "rstd": ROWS, "eps": EPS},
    {
        "out": lambda g, dtype: reference.layernorm_error(g.x, g.out, dtype, g.w, g.b, g.eps),
        "mean": lambda g, dtype: reference.layernorm_stats_error(g.x, g.mean, g.rstd, g.eps),
        "rstd": lambda g, dtype: reference.layernorm_stats_error(g.x, g.mean, g.rstd, g.eps),
    },
    optional=(("w",), ("b",), ("mean", "rstd")),
    inputs={"x": lambda normal, g: normal + 1},
)
LAYERNORM_BACKWARD = Kernel(
    "layernorm backward",
    _layernorm_backward,
    {"x": MATRIX, "w": COLUMNS, "dy": MATRIX, "mean": ROWS, "rstd": ROWS, "dx": MATRIX, "dw": PARTS, "db": PARTS},
    {
        "dx": lambda g, dtype: reference.layernorm_dx_error(g.x, g.dy, g.dx, dtype, g.w, g.mean, g.rstd),
        "dw": lambda g, dtype: reference.layernorm_dw_error(g.x, g.dy, g.dw, dtype, g.mean, g.rstd),
        "db": lambda g, dtype: reference.rmsnorm_db_error(g.dy, g.db, dtype),
    },
    optional=(("w",), ("dw",), ("db",)),
    inputs={
        "x": lambda normal, g: normal + 1,
        "mean": lambda normal, g: reference.layernorm_stats(g.x, EPS)[0],
        "rstd": lambda normal, g: reference.layernorm_stats(g.x, EPS)[1],
    },
)
KERNELS = (LAYERNORM, LAYERNORM_BACKWARD)

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


def _liger_backward(x, w, dy, mean, rstd):
    """Set up what Liger's LayerNorm calls backward; the bias takes no part in it but for its type."""
    from liger_kernel.ops.layer_norm import layer_norm_backward

    return lambda x, w, dy, mean, rstd: layer_norm_backward(dy, x, w, w, mean, rstd)


# The table -----------------------------------------------------------------------------------------------------------

_OURS = shipped(LAYERNORM, "x w b", "out", tile_reads=1)
_RUNGS = ("block", "vectors", "registers")
_CALLS = {
    "ours": function_of("quack_tutorial.ops", "layernorm", eps=EPS),
    "liger": function_of("liger_kernel.ops", "LigerLayerNormFunction.apply", EPS),
}
OPERATIONS = (
    Operation(
        "layernorm",
        pattern="1R1W",
        formula=formula,
        inputs=_inputs,
        error=error_of(LAYERNORM, "x w b", "out"),
        providers={
            "ours": _OURS,
            **of_torch(formula, eagerly=formula_of_torch),
            "quack": _Quack,
            "liger": _liger,
            "liger cute": eager(of_liger("layer_norm", EPS)),
            "cudnn": functools.partial(cudnn_norm, "layernorm"),
        },
        ladder=ladder("layernorm", "LADDER", _RUNGS, "x w b out eps", _OURS),
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
        formula=formula_backward,
        inputs=_inputs_backward,
        error=error_of(LAYERNORM_BACKWARD, "x w dy mean rstd", "dx dw db"),
        providers={
            "ours": shipped(LAYERNORM_BACKWARD, "x w dy mean rstd", "dx dw db"),
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
