"""Softmax's peers."""

from __future__ import annotations

import functools

from bench.peers.setups import autograd_backward, calls_of, eager, function_of, of_liger, of_torch
from quack_tutorial.operations.softmax import formula, formula_backward

# Forward -------------------------------------------------------------------------------------------------------------


def _quack(x):
    """Set up quack.softmax's forward."""
    from quack.softmax import softmax_fwd

    return softmax_fwd


def _liger(x):
    """Set up Liger's softmax."""
    from liger_kernel.ops import LigerSoftmaxFunction

    return LigerSoftmaxFunction.apply


# Backward ------------------------------------------------------------------------------------------------------------


def _from_logits(y, dy):
    return (y.logits,), 1, dy


def _quack_backward(y, dy):
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


# The tables ----------------------------------------------------------------------------------------------------------

PROVIDERS = {
    "softmax": {
        **of_torch(formula),
        "quack": _quack,
        "liger": _liger,
        "liger cute": eager(of_liger("softmax")),
    },
    "softmax backward": {
        **of_torch(formula, formula_backward, _from_logits),
        "quack": _quack_backward,
        "liger": _liger_backward,
        "liger cute": functools.partial(_from_own_output, autograd_backward(of_liger("softmax"), _from_logits)),
    },
}
_CALLS = {
    "ours": function_of("quack_tutorial.ops", "softmax"),
    "quack": function_of("quack", "softmax"),
    "liger": function_of("liger_kernel.ops", "LigerSoftmaxFunction.apply"),
}
CALLS = {
    "softmax": calls_of(formula, _CALLS),
    "softmax backward": {
        name: functools.partial(_from_own_output, setup)
        for name, setup in calls_of(formula, _CALLS, arrange=_from_logits).items()
    },
}
