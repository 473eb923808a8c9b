"""LayerNorm of each row.

| operation          | inputs                | outputs    | bytes moved, besides what N or M alone decides |
|--------------------|-----------------------|------------|------------------------------------------------|
| layernorm          | x, w, b               | y          | 2 MN elements                                  |
| layernorm backward | x, w, dy, mean, rstd  | dx, dw, db | 3 MN elements                                  |

Weight and bias are of x's type, as torch's own wants them.
"""

from __future__ import annotations

from quack_tutorial.operations.operation import Operation, randn
from quack_tutorial.operations.our_launches import ladder, shipped
from quack_tutorial.shipped import EPS, LAYERNORM, LAYERNORM_BACKWARD

# Forward -------------------------------------------------------------------------------------------------------------


def formula(x, w, b):
    """LayerNorm of each row in float32, rounded once."""
    import torch

    h = x.float()
    centred = h - h.mean(-1, keepdim=True)
    rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + EPS)
    return (centred * rstd * w + b).to(x.dtype)


def _inputs(M, N, dtype):
    # Each at an address of its own.
    return randn(M, N, dtype), *(randn(1, N, dtype)[0] for _ in range(2))


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
_ARITHMETIC = (
    "sum; subtraction of the mean; square; sum of squares; product with 1/deviation; "
    "product with the weight; addition of the bias"
).split("; ")
_ARITHMETIC_BACKWARD = (
    "subtraction of the mean; product with 1/deviation; dy times the weight; its sum; its product with x; "
    "sum of those; x times their mean; two subtractions, one; and the other; product with 1/deviation; "
    "product for dw; sum of dw; sum of db"
).split("; ")
OPERATIONS = (
    Operation(
        "layernorm",
        pattern="1R1W",
        formula=formula,
        inputs=_inputs,
        ours=_OURS,
        ladder=ladder("layernorm", "LADDER", _RUNGS, "x w b out eps", _OURS),
        arithmetic=_ARITHMETIC,
    ),
    Operation(
        "layernorm backward",
        pattern="2R1W",
        formula=formula_backward,
        inputs=_inputs_backward,
        ours=shipped(LAYERNORM_BACKWARD, "x w dy mean rstd", "dx dw db"),
        row_bytes=8,
        arithmetic=_ARITHMETIC_BACKWARD,
    ),
)
