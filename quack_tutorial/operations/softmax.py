"""Softmax of each row.

| operation        | inputs | outputs | bytes moved   |
|------------------|--------|---------|---------------|
| softmax          | x      | y       | 2 MN elements |
| softmax backward | y, dy  | dx      | 3 MN elements |
"""

from __future__ import annotations

from quack_tutorial import reference
from quack_tutorial.operations.kernel import MATRIX, Kernel
from quack_tutorial.operations.operation import Operation, error_of, randn
from quack_tutorial.operations.our_launches import ladder, shipped

# The kernels -----------------------------------------------------------------------------------------------------------


def _softmax(r, config, given):
    from quack_tutorial.kernels.tuned.softmax import Softmax

    return Softmax(r.element, r.N, r.promise, config)


def _softmax_backward(r, config, given):
    from quack_tutorial.kernels.tuned.softmax import SoftmaxBackward

    return SoftmaxBackward(r.element, r.N, r.promise, config)


SOFTMAX = Kernel(
    "softmax",
    _softmax,
    {"x": MATRIX, "out": MATRIX},
    {"out": lambda g, dtype: reference.softmax_error(g.x, g.out, dtype)},
    inputs={"x": lambda normal, g: 4 * normal},
)
SOFTMAX_BACKWARD = Kernel(
    "softmax backward",
    _softmax_backward,
    {"y": MATRIX, "dy": MATRIX, "dx": MATRIX},
    {"dx": lambda g, dtype: reference.softmax_backward_error(g.y, g.dy, g.dx, dtype)},
    inputs={"y": lambda normal, g: reference.softmax(2 * normal)},
)
KERNELS = (SOFTMAX, SOFTMAX_BACKWARD)

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
_RUNGS = ("thread", "warp", "three-pass", "online", "vectors", "registers", "rows", "async", "cluster")
_RUNGS += ("direct", "hint", "read twice", "short exp", "any address")
OPERATIONS = (
    Operation(
        "softmax",
        pattern="1R1W",
        formula=formula,
        inputs=_inputs,
        error=error_of(SOFTMAX, "x", "out"),
        ours=_OURS,
        ladder=ladder("softmax", "LADDER", _RUNGS, "x out", _OURS),
        arithmetic=("maximum", "subtraction", "exponential", "sum", "product"),
    ),
    Operation(
        "softmax backward",
        pattern="2R1W",
        formula=formula_backward,
        inputs=_inputs_backward,
        error=error_of(SOFTMAX_BACKWARD, "y dy", "dx"),
        ours=shipped(SOFTMAX_BACKWARD, "y dy", "dx", tile_reads=2),
        arithmetic=("product", "sum", "subtraction", "product"),
    ),
)
