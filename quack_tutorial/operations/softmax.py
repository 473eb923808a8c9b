"""Softmax of each row.

| operation        | inputs | outputs | bytes moved   |
|------------------|--------|---------|---------------|
| softmax          | x      | y       | 2 MN elements |
| softmax backward | y, dy  | dx      | 3 MN elements |
"""

from __future__ import annotations

from quack_tutorial.operations.operation import Operation, randn
from quack_tutorial.operations.our_launches import ladder, shipped
from quack_tutorial.shipped import SOFTMAX, SOFTMAX_BACKWARD

# Forward -------------------------------------------------------------------------------------------------------------


def formula(x):
    """Softmax of each row."""
    import torch

    return torch.nn.functional.softmax(x, dim=-1)


def _inputs(M, N, dtype):
    return (randn(M, N, dtype),)


# Backward ------------------------------------------------------------------------------------------------------------


def formula_backward(y, dy):
    """The gradient of softmax's input, from its output."""
    y32, dy32 = y.float(), dy.float()
    return (y32 * (dy32 - (y32 * dy32).sum(-1, keepdim=True))).to(y.dtype)


def _inputs_backward(M, N, dtype):
    x = randn(M, N, dtype)
    y = formula(x)
    y.logits = x  # for those who must run the forward pass first
    return y, randn(M, N, dtype)


# The table -----------------------------------------------------------------------------------------------------------

_OURS = shipped(SOFTMAX, "x", "out", tile_reads=1)
_RUNGS = "thread, warp, three-pass, online, vectors, registers, rows, async, cluster".split(", ")
_RUNGS += ("direct", "hint", "read twice", "short exp", "any address")
OPERATIONS = (
    Operation(
        "softmax",
        pattern="1R1W",
        formula=formula,
        inputs=_inputs,
        ours=_OURS,
        ladder=ladder("softmax", "LADDER", _RUNGS, "x out", _OURS),
        arithmetic=("maximum", "subtraction", "exponential", "sum", "product"),
    ),
    Operation(
        "softmax backward",
        pattern="2R1W",
        formula=formula_backward,
        inputs=_inputs_backward,
        ours=shipped(SOFTMAX_BACKWARD, "y dy", "dx", tile_reads=2),
        arithmetic=("product", "sum", "subtraction", "product"),
    ),
)
