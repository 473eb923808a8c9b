"""RMSNorm of each row in float8 (e4m3), with a scale a row.

| operation                  | inputs                       | outputs     | bytes moved, besides what N alone decides     |
|----------------------------|------------------------------|-------------|-----------------------------------------------|
| rmsnorm-quantized          | x, w (of x's type)           | q, scale    | MN elements, MN bytes and 4 M                 |
| rmsnorm-quantized residual | x, w (of x's type), residual | q, scale, h | 3 MN elements, MN bytes and 4 M               |

q = y / scale with y of RMSNorm and scale = max|y| / 448; q is kept as uint8, its bits. Of bfloat16 the plain kernel "2R1W"
reads and writes in the same shares, two bytes for one; with a residual "2R2W" comes near.
"""

from __future__ import annotations

from quack_tutorial.operations import rmsnorm
from quack_tutorial.operations.operation import Operation, randn
from quack_tutorial.operations.our_launches import ladder, shipped
from quack_tutorial.shipped import EPS, RMSNORM_QUANTIZED


def formula(x, w):
    """(bits of q, scale) in float32, rounded once."""
    import torch

    h = x.float()
    y = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + EPS) * w
    scale = y.abs().amax(-1, keepdim=True).clamp_min(2.0**-100) / 448
    return (y / scale).to(torch.float8_e4m3fn).view(torch.uint8), scale[:, 0]


def formula_residual(x, w, residual):
    """The same of x + residual, and that sum in x's type."""
    h = x.float() + residual.float()
    return *formula(h, w), h.to(x.dtype)


def _inputs(M, N, dtype):
    return randn(M, N, dtype), randn(1, N, dtype)[0]


def _inputs_residual(M, N, dtype):
    return *_inputs(M, N, dtype), randn(M, N, dtype)


_OURS = shipped(RMSNORM_QUANTIZED, "x w", "q scale")
_RUNGS = ("block", "vectors", "registers")
_ARITHMETIC = (*rmsnorm.ARITHMETIC, "magnitude", "maximum", "product with 1/scale", "conversion")
OPERATIONS = (
    Operation(
        "rmsnorm-quantized",
        pattern="1R",
        ceiling="2R1W",
        formula=formula,
        inputs=_inputs,
        ours=_OURS,
        ladder=ladder("rmsnorm_quantized", "LADDER", _RUNGS, "x w q scale eps", _OURS),
        counted_row_bytes=4,
        code_bytes=1,
        arithmetic=_ARITHMETIC,
    ),
    Operation(
        "rmsnorm-quantized residual",
        pattern="2R1W",
        ceiling="2R2W",
        formula=formula_residual,
        inputs=_inputs_residual,
        ours=shipped(RMSNORM_QUANTIZED, "x w residual", "q scale h"),
        counted_row_bytes=4,
        code_bytes=1,
        arithmetic=("addition of the residual", *_ARITHMETIC),
    ),
)
