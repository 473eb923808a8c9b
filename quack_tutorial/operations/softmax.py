"""Softmax of each row.

| operation        | inputs | outputs | bytes moved   |
|------------------|--------|---------|---------------|
| softmax          | x      | y       | 2 MN elements |
| softmax backward | y, dy  | dx      | 3 MN elements |
"""

from __future__ import annotations

import functools

from quack_tutorial import reference
from quack_tutorial.operations.kernel import MATRIX, Kernel
from quack_tutorial.operations.operation import Operation, error_of, randn
from quack_tutorial.operations.our_launches import ladder, shipped
from quack_tutorial.operations.peers import autograd_backward, calls_of, eager, function_of, of_liger, of_torch

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


def _quack(x):
    """Set up quack.softmax's forward."""
    from quack.softmax import softmax_fwd

    return softmax_fwd


def _liger(x):
    """Set up Liger's softmax."""
    from liger_kernel.ops import LigerSoftmaxFunction

    return LigerSoftmaxFunction.apply


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


def _from_logits(y, dy):
    return (y.logits,), 1, dy


def _quack_backward(y, dy):
    """Set up what quack.softmax's backward calls."""
    from quack.softmax import softmax_bwd

    return lambda y, dy: softmax_bwd(dy, y)


def _liger_backward(y, dy):
    """Set up what Liger's softmax calls backward, with the block size that its forward would have chosen."""
    from liger_kernel.ops.softmax import _softmax_backward
    from liger_kernel.ops.utils import calculate_settings

    block, warps = calculate_settings(y.shape[1])
    return lambda y, dy: _softmax_backward(dy, y, block, warps, y.shape[1] > block)


def _from_own_output(setup, *inputs):
    """A gradient that begins with the output of the forward pass is judged by that output, as it was rounded there."""
    call = setup(*inputs)
    call.judged = lambda y, dy: (call.passes[y.data_ptr()][0].detach(), dy)
    return call


# The table -----------------------------------------------------------------------------------------------------------

_OURS = shipped(SOFTMAX, "x", "out", tile_reads=1)
_RUNGS = ("thread", "warp", "three-pass", "online", "vectors", "registers", "rows", "async", "cluster")
_RUNGS += ("direct", "hint", "read twice", "short exp", "any address")
_CALLS = {
    "ours": function_of("quack_tutorial.ops", "softmax"),
    "quack": function_of("quack", "softmax"),
    "liger": function_of("liger_kernel.ops", "LigerSoftmaxFunction.apply"),
}
OPERATIONS = (
    Operation(
        "softmax",
        pattern="1R1W",
        formula=formula,
        inputs=_inputs,
        error=error_of(SOFTMAX, "x", "out"),
        providers={
            "ours": _OURS,
            **of_torch(formula),
            "quack": _quack,
            "liger": _liger,
            "liger cute": eager(of_liger("softmax")),
        },
        ladder=ladder("softmax", "LADDER", _RUNGS, "x out", _OURS),
        calls=calls_of(formula, _CALLS),
        arithmetic=("maximum", "subtraction", "exponential", "sum", "product"),
    ),
    Operation(
        "softmax backward",
        pattern="2R1W",
        formula=formula_backward,
        inputs=_inputs_backward,
        error=error_of(SOFTMAX_BACKWARD, "y dy", "dx"),
        providers={
            "ours": shipped(SOFTMAX_BACKWARD, "y dy", "dx", tile_reads=2),
            **of_torch(formula, formula_backward, _from_logits),
            "quack": _quack_backward,
            "liger": _liger_backward,
            "liger cute": functools.partial(_from_own_output, autograd_backward(of_liger("softmax"), _from_logits)),
        },
        calls={
            name: functools.partial(_from_own_output, setup)
            for name, setup in calls_of(formula, _CALLS, arrange=_from_logits).items()
        },
        arithmetic=("product", "sum", "subtraction", "product"),
    ),
)
