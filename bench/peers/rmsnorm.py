"""RMSNorm's peers."""

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
from quack_tutorial.operations.rmsnorm import (
    formula,
    formula_backward,
    formula_residual,
    formula_residual_backward,
)
from quack_tutorial.shipped import EPS

# Forward -------------------------------------------------------------------------------------------------------------


def formula_of_torch(x, w):
    """torch's own RMSNorm."""
    import torch

    return torch.nn.functional.rms_norm(x, (x.shape[-1],), w, EPS).to(x.dtype)


def _quack(x, w):
    from quack.rmsnorm import rmsnorm_fwd

    return lambda x, w: rmsnorm_fwd(x, w, eps=EPS)[0]


def _quack_tuned(x, w):
    """Set up QuACK's autotuned RMSNorm; the first call tunes, which takes a while."""
    import torch
    from quack.rmsnorm import rmsnorm_fwd_tuned

    def call(x, w):
        out = torch.empty_like(x)
        rmsnorm_fwd_tuned(x, w, out, eps=EPS)
        return out

    call(x, w)
    return call


def _liger(x, w):
    """Set up Liger's RMSNorm with float32 arithmetic ("gemma")."""
    from liger_kernel.ops import LigerRMSNormFunction

    return lambda x, w: LigerRMSNormFunction.apply(x, w, EPS, 0.0, "gemma", False)


# Backward ------------------------------------------------------------------------------------------------------------


def _gradients(x, w, dy, rstd):
    return (x, w), 2, dy


def _quack_backward(x, w, dy, rstd):
    from quack.rmsnorm import rmsnorm_bwd

    return lambda x, w, dy, rstd: rmsnorm_bwd(x, w, dy, rstd)[:2]


def _quack_backward_tuned(x, w, dy, rstd):
    """Set up QuACK's autotuned RMSNorm backward, with the sum that its untuned one takes of the parts of dw."""
    import torch
    from quack.rmsnorm import rmsnorm_bwd_tuned
    from quack.rmsnorm_config import get_sm_count

    parts = get_sm_count(x.shape[1], x.device)

    def call(x, w, dy, rstd):
        dx = torch.empty_like(x)
        dw_parts = torch.empty(parts, x.shape[1], dtype=torch.float32, device=x.device)
        rmsnorm_bwd_tuned(x, w, dy, rstd, dx, dw_parts, has_dw_partial=True)
        return dx, dw_parts.sum(dim=0).to(w.dtype)

    call(x, w, dy, rstd)
    return call


def _liger_backward(x, w, dy, rstd):
    """Set up what Liger's RMSNorm calls backward, in float32 arithmetic and not over dy."""
    from liger_kernel.ops import rms_norm as liger
    from liger_kernel.ops.utils import calculate_settings

    block, warps = calculate_settings(x.shape[1])
    gemma = liger._str_to_casting_mode["gemma"]
    return lambda x, w, dy, rstd: liger.rms_norm_backward(dy, x, w, rstd, 0.0, gemma, block, warps, False, None)


# With a residual -----------------------------------------------------------------------------------------------------


def formula_of_torch_residual(x, w, residual):
    """torch's own RMSNorm of the sum."""
    h = x + residual
    return formula_of_torch(h, w), h


def _quack_residual(x, w, residual):
    from quack.rmsnorm import rmsnorm_fwd

    return lambda x, w, residual: rmsnorm_fwd(x, w, residual=residual, eps=EPS)[:2]


def _of_liger_residual(*more, **options):
    call = of_liger("fused_add_rms_norm", EPS, *more, **options)
    return lambda x, w, residual: call(x, residual, w)


def _gradients_residual(h, w, dy, dh, rstd):
    import torch

    return (h, w, torch.zeros_like(h)), 2, (dy, dh)


def _quack_residual_backward(h, w, dy, dh, rstd):
    from quack.rmsnorm import rmsnorm_bwd

    return lambda h, w, dy, dh, rstd: rmsnorm_bwd(h, w, dy, rstd, dresidual_out=dh, has_residual=True)[:2]


# The tables ----------------------------------------------------------------------------------------------------------

PROVIDERS = {
    "rmsnorm": {
        **of_torch(formula, eagerly=formula_of_torch),
        "quack": _quack,
        "quack tuned": _quack_tuned,
        "liger": _liger,
        "liger cute": eager(of_liger("rms_norm", EPS)),
        "cudnn": functools.partial(cudnn_norm, "rmsnorm"),
    },
    "rmsnorm backward": {
        **of_torch(formula, formula_backward, _gradients, formula_of_torch),
        "quack": _quack_backward,
        "quack tuned": _quack_backward_tuned,
        "liger": _liger_backward,
        "liger cute": autograd_backward(of_liger("rms_norm", EPS), _gradients),
    },
    "rmsnorm residual": {
        **of_torch(formula_residual, eagerly=formula_of_torch_residual),
        "quack": _quack_residual,
        "liger": eager(_of_liger_residual(0.0, "gemma", dsl="triton")),
        "liger cute": eager(_of_liger_residual()),
    },
    "rmsnorm residual backward": {
        **of_torch(formula_residual, formula_residual_backward, _gradients_residual, formula_of_torch_residual),
        "quack": _quack_residual_backward,
        "liger": autograd_backward(_of_liger_residual(0.0, "gemma", dsl="triton"), _gradients_residual),
        "liger cute": autograd_backward(_of_liger_residual(), _gradients_residual),
    },
}
_CALLS = {
    "ours": function_of("quack_tutorial.ops", "rmsnorm", eps=EPS),
    "quack": function_of("quack", "rmsnorm", eps=EPS),
    "liger": function_of("liger_kernel.ops", "LigerRMSNormFunction.apply", EPS, 0.0, "gemma", False),
}
CALLS = {
    "rmsnorm": calls_of(formula, _CALLS, formula_of_torch),
    "rmsnorm backward": calls_of(formula, _CALLS, formula_of_torch, _gradients),
}
