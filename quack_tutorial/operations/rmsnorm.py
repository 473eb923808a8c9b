"""RMSNorm of each row.

| operation                 | inputs                       | outputs | bytes moved, besides what N or M alone decides |
|---------------------------|------------------------------|---------|------------------------------------------------|
| rmsnorm                   | x, w (of x's type)           | y       | 2 MN elements                                  |
| rmsnorm backward          | x, w (float32), dy, rstd     | dx, dw  | 3 MN elements                                  |
| rmsnorm residual          | x, w (of x's type), residual | y, h    | 4 MN elements                                  |
| rmsnorm residual backward | h, w (float32), dy, dh, rstd | dx, dw  | 4 MN elements                                  |

With a residual, y is of h = x + residual, which the next layer takes as its residual; dx is the gradient of both.

The weight is of x's type forward, as in torch.nn.RMSNorm, and float32 backward, where its gradient is added up.
"""

from __future__ import annotations

from quack_tutorial.operations.operation import Operation, randn
from quack_tutorial.operations.our_launches import ladder, shipped
from quack_tutorial.shipped import EPS, RMSNORM, RMSNORM_BACKWARD

# Forward -------------------------------------------------------------------------------------------------------------


def formula(x, w):
    """RMSNorm of each row in float32, rounded once."""
    import torch

    h = x.float()
    return (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + EPS) * w).to(x.dtype)


def _inputs(M, N, dtype):
    return randn(M, N, dtype), randn(1, N, dtype)[0]


# Backward ------------------------------------------------------------------------------------------------------------


def formula_backward(x, w, dy, rstd):
    """The gradients of RMSNorm's input and weight."""
    h, dy32 = x.float() * rstd[:, None], dy.float()
    wdy = w * dy32
    dx = rstd[:, None] * (wdy - h * (h * wdy).mean(-1, keepdim=True))
    return dx.to(x.dtype), (dy32 * h).sum(0).to(w.dtype)


def _inputs_backward(M, N, dtype):
    import torch

    x, w = randn(M, N, dtype), randn(1, N, "float32")[0]
    rstd = torch.cat([torch.rsqrt(part.float().square().mean(-1) + EPS) for part in x.split(2048)])
    return x, w, randn(M, N, dtype), rstd


# With a residual -----------------------------------------------------------------------------------------------------


def formula_residual(x, w, residual):
    """RMSNorm of each row of x + residual in float32, and that sum, both rounded once."""
    h = x.float() + residual.float()
    return formula(h, w).to(x.dtype), h.to(x.dtype)


def _inputs_residual(M, N, dtype):
    return *_inputs(M, N, dtype), randn(M, N, dtype)


def formula_residual_backward(h, w, dy, dh, rstd):
    """The gradients of x, or of the residual, and of the weight."""
    dx, dw = formula_backward(h.float(), w, dy, rstd)
    return (dx + dh.float()).to(h.dtype), dw


def _inputs_residual_backward(M, N, dtype):
    h, w, dy, rstd = _inputs_backward(M, N, dtype)
    return h, w, dy, randn(M, N, dtype), rstd


# The table -----------------------------------------------------------------------------------------------------------

_OURS = shipped(RMSNORM, "x w", "out", tile_reads=1)
_OURS_BACKWARD = shipped(RMSNORM_BACKWARD, "x w dy rstd", "dx dw", w="float32")
_RUNGS = (
    "thread, block, vectors, registers, rows, async, cluster, direct, hint, read twice, any address, weights once"
).split(", ")
_RUNGS_BACKWARD = "atomics, vector atomics, parts, pipelined, bulk, cluster".split(", ")
ARITHMETIC = ("square", "sum", "product", "product with the weight")
_ARITHMETIC_BACKWARD = (
    "x times 1/rms, dy times the weight, their product, its sum, x times the mean, "
    "subtraction, product with 1/rms, product for dw, sum of dw"
).split(", ")
OPERATIONS = (
    Operation(
        "rmsnorm",
        pattern="1R1W",
        formula=formula,
        inputs=_inputs,
        ours=_OURS,
        ladder=ladder("rmsnorm", "LADDER", _RUNGS, "x w out eps", _OURS),
        arithmetic=ARITHMETIC,
    ),
    Operation(
        "rmsnorm backward",
        pattern="2R1W",
        formula=formula_backward,
        inputs=_inputs_backward,
        ours=_OURS_BACKWARD,
        ladder=ladder(
            "rmsnorm",
            "BACKWARD_LADDER",
            _RUNGS_BACKWARD,
            "x w dy rstd dx dw",
            _OURS_BACKWARD,
            w="float32",
        ),
        row_bytes=4,
        arithmetic=_ARITHMETIC_BACKWARD,
    ),
    Operation(
        "rmsnorm residual",
        pattern="2R2W",
        formula=formula_residual,
        inputs=_inputs_residual,
        ours=shipped(RMSNORM, "x w residual", "out h"),
        arithmetic=("addition of the residual", *ARITHMETIC),
    ),
    Operation(
        "rmsnorm residual backward",
        pattern="3R1W",
        formula=formula_residual_backward,
        inputs=_inputs_residual_backward,
        ours=shipped(RMSNORM_BACKWARD, "x w dy dh rstd", "dx dw", w="float32"),
        row_bytes=4,
        arithmetic=(*_ARITHMETIC_BACKWARD, "addition of dh"),
    ),
)
