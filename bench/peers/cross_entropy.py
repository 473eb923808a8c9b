"""Cross-entropy's peers."""

from __future__ import annotations

from bench.peers.setups import calls_of, function_of, of_torch
from quack_tutorial.operations.cross_entropy import formula, formula_backward, formula_fused
from quack_tutorial.shipped import IGNORE_INDEX

# Forward -------------------------------------------------------------------------------------------------------------


def _quack(x, target):
    """Set up quack.cross_entropy's forward."""
    from quack.cross_entropy import cross_entropy_fwd

    return lambda x, target: cross_entropy_fwd(x, target, ignore_index=IGNORE_INDEX)


def _liger(x, target):
    return lambda x, target: _launch_liger(x, target, gradients=False)


# What Liger's kernel could do beside the loss.
_LEFT_OUT = dict.fromkeys(("weight_ptr", "z_loss_ptr", "token_accuracy_ptr", "predicted_tokens_ptr", "softcap"))
_LEFT_OUT |= dict.fromkeys(("RETURN_Z_LOSS", "RETURN_TOKEN_ACCURACY", "RETURN_PREDICTED_TOKENS"), False)
_LEFT_OUT |= dict.fromkeys(("HAS_WEIGHT", "HAS_SOFTCAPPING"), False)
_LEFT_OUT |= dict.fromkeys(("token_accuracy_stride", "predicted_tokens_stride"), 0)
_LEFT_OUT |= dict.fromkeys(("weight_sum", "lse_square_scale", "label_smoothing"), 0.0)


def _launch_liger(x, target, gradients):
    import torch
    import triton
    from liger_kernel.ops import cross_entropy as liger

    rows, columns = x.shape
    loss = torch.zeros(rows, dtype=x.dtype, device=x.device)
    liger.liger_cross_entropy_kernel[(rows,)](
        **_LEFT_OUT,
        X_ptr=x,
        X_stride=x.stride(0),
        Y_ptr=target,
        Y_stride=1,
        loss_ptr=loss,
        loss_stride=1,
        n_cols=columns,
        n_non_ignore=rows,
        sum_non_ignore_weight=rows,
        ignore_index=IGNORE_INDEX,
        reduction="none",
        BLOCK_SIZE=min(liger.MAX_FUSED_SIZE, triton.next_power_of_2(columns)),
        HAS_GRADIENTS=gradients,
        num_warps=32,
    )
    return loss


# Backward ------------------------------------------------------------------------------------------------------------


def _gradients(x, target, dloss, lse):
    return (x, target), 1, dloss


def _quack_backward(x, target, dloss, lse):
    """Set up what quack.cross_entropy's backward calls."""
    from quack.cross_entropy import cross_entropy_bwd

    return lambda x, target, dloss, lse: cross_entropy_bwd(x, target, dloss, lse, ignore_index=IGNORE_INDEX)


def _mean_of_losses(x, target):
    import torch

    return torch.nn.functional.cross_entropy(x, target, ignore_index=IGNORE_INDEX)


def _gradient_of_mean(x, target, dloss, lse):
    return (x, target), 1, dloss[0] * len(dloss)


# Fused ---------------------------------------------------------------------------------------------------------------


def _quack_fused(x, target):
    """Set up quack's cross-entropy that gives the gradient with the loss."""
    from quack.cross_entropy import cross_entropy_fwd

    return lambda x, target: cross_entropy_fwd(x, target, ignore_index=IGNORE_INDEX, return_dx=True)


class _LigerFused:
    """Liger's cross-entropy kernel, which writes the gradient over the logits: each set of inputs gets a copy."""

    def __init__(self, x, target):
        self.copies = {}  # address of x -> its copy, gradient and logits in turn

    def prepare(self, x, target):
        self.copies[x.data_ptr()] = x.clone()

    def __call__(self, x, target):
        copy = self.copies[x.data_ptr()]
        return _launch_liger(copy, target, gradients=True), copy

    def fresh(self, x, target):
        copy = x.clone()
        return _launch_liger(copy, target, gradients=True), copy


# The tables ----------------------------------------------------------------------------------------------------------

PROVIDERS = {
    "cross-entropy": {**of_torch(formula), "quack": _quack, "liger": _liger},
    "cross-entropy backward": {**of_torch(formula, formula_backward, _gradients), "quack": _quack_backward},
    "cross-entropy fused": {**of_torch(formula, formula_fused), "quack": _quack_fused, "liger": _LigerFused},
}
_LOSSES, _MEAN = (
    {
        "ours": function_of("quack_tutorial.ops", "cross_entropy", reduction=reduction),
        "quack": function_of("quack", "cross_entropy", reduction=reduction),
    }
    for reduction in ("none", "mean")
)
CALLS = {
    "cross-entropy": calls_of(formula, _LOSSES),
    "cross-entropy backward": calls_of(formula, _LOSSES, arrange=_gradients),
}
CALLS_OF_MEAN = {"cross-entropy backward": calls_of(_mean_of_losses, _MEAN, arrange=_gradient_of_mean)}
