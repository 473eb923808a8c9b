"""LayerNorm of each row.

| operation          | inputs                | outputs    | bytes moved, besides what N or M alone decides |
|--------------------|-----------------------|------------|------------------------------------------------|
| layernorm          | x, w, b               | y          | 2 MN elements                                  |
| layernorm backward | x, w, dy, mean, rstd  | dx, dw, db | 3 MN elements                                  |

Weight and bias are of x's type, as torch's own wants them.
"""

from __future__ import annotations

from quack_tutorial import reference
from quack_tutorial.operations.kernel import COLUMNS, MATRIX, PARTS, ROWS, Kernel, element
from quack_tutorial.operations.operation import EPS, Operation, error_of, randn
from quack_tutorial.operations.our_launches import ladder, shipped

# The kernels -----------------------------------------------------------------------------------------------------------


def _layernorm(r, config, given):
    from quack_tutorial.kernels.tuned.layernorm import LayerNorm

    return LayerNorm(r.element, r.N, r.promise, config)


def _layernorm_backward(r, config, given):
    from quack_tutorial.kernels.tuned.norm_backward import LayerNormBackward

    return LayerNormBackward(r.element, r.N, r.promise, element(given.get("w")), config)


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


def _inputs(M, N, dtype):
    return randn(M, N, dtype), *randn(2, N, dtype).unbind()


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


# The table -----------------------------------------------------------------------------------------------------------

_OURS = shipped(LAYERNORM, "x w b", "out", tile_reads=1)
_RUNGS = ("block", "vectors", "registers")
OPERATIONS = (
    Operation(
        "layernorm",
        pattern="1R1W",
        formula=formula,
        inputs=_inputs,
        error=error_of(LAYERNORM, "x w b", "out"),
        ours=_OURS,
        ladder=ladder("layernorm", "LADDER", _RUNGS, "x w b out eps", _OURS),
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
        ours=shipped(LAYERNORM_BACKWARD, "x w dy mean rstd", "dx dw db"),
        row_bytes=8,
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
