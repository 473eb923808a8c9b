"""LayerNorm's peers. QuACK's is given weight and bias in float32, and has no backward."""

from __future__ import annotations

import functools

from bench.peers.setups import (
    autograd_backward,
    calls_of,
    cudnn_norm,
    eager,
    function_of,
    of_liger,
    of_torch,
)
from quack_tutorial.operations.layernorm import formula, formula_backward
from quack_tutorial.shipped import EPS

# Forward -------------------------------------------------------------------------------------------------------------


def formula_of_torch(x, w, b):
    """torch's own LayerNorm."""
    import torch

    return torch.nn.functional.layer_norm(x, (x.shape[-1],), w, b, EPS)


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


def _gradients(x, w, dy, mean, rstd):
    return (x, w, w), 3, dy


def _liger_backward(x, w, dy, mean, rstd):
    """Set up what Liger's LayerNorm calls backward; the bias takes no part in it but for its type."""
    from liger_kernel.ops.layer_norm import layer_norm_backward

    return lambda x, w, dy, mean, rstd: layer_norm_backward(dy, x, w, w, mean, rstd)


# The tables ----------------------------------------------------------------------------------------------------------

PROVIDERS = {
    "layernorm": {
        **of_torch(formula, eagerly=formula_of_torch),
        "quack": _Quack,
        "liger": _liger,
        "liger cute": eager(of_liger("layer_norm", EPS)),
        "cudnn": functools.partial(cudnn_norm, "layernorm"),
    },
    "layernorm backward": {
        **of_torch(formula, formula_backward, _gradients, formula_of_torch),
        "liger": _liger_backward,
        "liger cute": autograd_backward(of_liger("layer_norm", EPS), _gradients),
    },
}
_CALLS = {
    "ours": function_of("quack_tutorial.ops", "layernorm", eps=EPS),
    "liger": function_of("liger_kernel.ops", "LigerLayerNormFunction.apply", EPS),
}
CALLS = {
    "layernorm": calls_of(formula, _CALLS, formula_of_torch) | {"quack": _Quack},
    "layernorm backward": calls_of(
        formula, _CALLS, formula_of_torch, lambda x, w, dy, mean, rstd: ((x, w, w.clone()), 3, dy)
    ),
}
