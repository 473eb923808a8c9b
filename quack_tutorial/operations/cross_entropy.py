"""Cross-entropy of each row's logits with a class; rows whose target is -100 are ignored.

| operation              | inputs                | outputs  | bytes moved, besides what N or M alone decides  |
|------------------------|-----------------------|----------|-------------------------------------------------|
| cross-entropy          | x, target (int64)     | loss     | MN elements, targets and losses: 12 bytes a row |
| cross-entropy backward | x, target, dloss, lse | dx       | 2 MN elements                                   |
| cross-entropy fused    | x, target             | loss, dx | 2 MN elements, targets and losses: 12 bytes a row |

Liger's functions wait for the GPU to count targets, which a graph cannot hold: its kernel is launched as they do, with
the count known. It computes the gradient with the loss, over the logits, so it has no backward of its own.
"""

from __future__ import annotations

from quack_tutorial.operations.operation import Operation, randn
from quack_tutorial.operations.our_launches import ladder, shipped
from quack_tutorial.shipped import CROSS_ENTROPY, CROSS_ENTROPY_BACKWARD, CROSS_ENTROPY_FUSED, IGNORE_INDEX, of_rows

# Forward -------------------------------------------------------------------------------------------------------------


def formula(x, target):
    """The loss of each row."""
    import torch

    return torch.nn.functional.cross_entropy(x, target, ignore_index=IGNORE_INDEX, reduction="none")


def _inputs(M, N, dtype):
    import torch

    x = randn(M, N, dtype)
    return x, torch.randint(N, (M,), device=x.device)


# Backward ------------------------------------------------------------------------------------------------------------


def formula_backward(x, target, dloss, lse):
    """The gradient of the logits, from the log-sum-exp of each row."""
    import torch

    p = torch.exp(x.float() - lse[:, None])
    hit = torch.arange(x.shape[1], device=x.device) == target[:, None]
    scale = torch.where(target == IGNORE_INDEX, 0.0, dloss)
    return ((p - hit.float()) * scale[:, None]).to(x.dtype)


def _inputs_backward(M, N, dtype):
    import torch

    x, target = _inputs(M, N, dtype)
    # Numbers that every type holds exactly: torch wants the gradient in the type of its loss.
    dloss = (torch.rand(M, device=x.device) + 0.5).bfloat16().float()
    lse = torch.cat([torch.logsumexp(part.float(), -1) for part in x.split(2048)])
    return x, target, dloss, lse


# Fused ---------------------------------------------------------------------------------------------------------------


def formula_fused(x, target):
    """The loss of each row, and the gradient of the sum of losses."""
    import torch

    x32, ignored = x.float(), target == IGNORE_INDEX
    lse = torch.logsumexp(x32, -1)
    picked = x32.gather(1, torch.where(ignored, 0, target)[:, None])[:, 0]
    ones = torch.ones_like(lse)
    return torch.where(ignored, 0.0, lse - picked), formula_backward(x, target, ones, lse)


# The table -----------------------------------------------------------------------------------------------------------

_OURS = shipped(CROSS_ENTROPY, "x target", "loss")
_OURS_BACKWARD = shipped(CROSS_ENTROPY_BACKWARD, "x target dloss lse", "dx", tile_reads=1)
_RUNGS = ("two-pass, online, vectors, in flight, rows, fast exp, short terms, any address").split(", ")
_RUNGS_BACKWARD = ("elements", "vectors", "fast exp", "hint", "any address")
OPERATIONS = (
    Operation(
        "cross-entropy",
        pattern="1R",
        counted_row_bytes=12,
        formula=formula,
        inputs=_inputs,
        ours=_OURS,
        ladder=ladder("cross_entropy", "LADDER", _RUNGS, "x target loss", _OURS),
        row_bytes=8,
        arithmetic=("maximum", "subtraction", "exponential", "sum"),
    ),
    Operation(
        "cross-entropy backward",
        pattern="1R1W",
        formula=formula_backward,
        inputs=_inputs_backward,
        ours=_OURS_BACKWARD,
        ladder=ladder(
            "cross_entropy",
            "BACKWARD_LADDER",
            _RUNGS_BACKWARD,
            "x target dloss lse dx",
            _OURS_BACKWARD,
            dloss=of_rows(),
        ),
        row_bytes=16,
        arithmetic=("subtraction", "exponential", "subtraction of the target", "product"),
    ),
    Operation(
        "cross-entropy fused",
        pattern="1R1W",
        counted_row_bytes=12,
        formula=formula_fused,
        inputs=_inputs,
        ours=shipped(CROSS_ENTROPY_FUSED, "x target", "loss dx", tile_reads=1),
        row_bytes=8,
        arithmetic=("maximum", "subtraction", "exponential", "sum", "product", "subtraction of the target"),
    ),
)
