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

import numpy as np

from quack_tutorial import reference
from quack_tutorial.operations.kernel import MATRIX, ROWS, SCALE, STRIDED_ROWS, TARGETS, Kernel, of_rows
from quack_tutorial.operations.operation import Operation, error_of, randn
from quack_tutorial.operations.our_launches import ladder, shipped

IGNORE_INDEX = -100

# The kernels -----------------------------------------------------------------------------------------------------------


def _cross_entropy(r, config, given):
    from quack_tutorial.kernels.tuned.cross_entropy import CrossEntropy

    return CrossEntropy(r.element, r.N, r.promise, "lse" in given, config)


def _cross_entropy_backward(r, config, given):
    from quack_tutorial.kernels.tuned.cross_entropy import CrossEntropyBackward

    return CrossEntropyBackward(r.element, r.N, r.promise, config)


def _cross_entropy_fused(r, config, given):
    from quack_tutorial.kernels.tuned.cross_entropy import CrossEntropyFused

    return CrossEntropyFused(r.element, r.N, r.promise, "lse" in given, config)


def _gradient_error(g, dloss, lse, dtype):
    """Rows whose target is no column are NaN, which the reference does not say."""
    column = (g.target >= 0) & (g.target < g.x.shape[1]) | (g.target == g.ignore_index)
    if not np.isnan(g.dx[~column]).all():
        return np.inf
    dloss, lse = np.broadcast_to(dloss, g.target.shape), None if lse is None else lse[column]
    of = g.x[column], g.target[column], dloss[column], g.dx[column]
    return reference.cross_entropy_backward_error(*of, dtype, lse, g.ignore_index)


def _scaled(g):
    """What multiplies a row's gradient: dloss, or its product with `scale`, which is a float32 number too."""
    return g.dloss if g.scale is None else np.float32(g.dloss) * np.float32(g.scale)


_ERRORS = {
    "loss": lambda g, dtype: reference.cross_entropy_error(g.x, g.target, g.loss, dtype, g.ignore_index),
    "lse": lambda g, dtype: reference.logsumexp_error(g.x, g.lse),
}
_LOGITS = {"x": lambda normal, g: 3 * normal}
CROSS_ENTROPY = Kernel(
    "cross-entropy",
    _cross_entropy,
    {"x": MATRIX, "target": TARGETS, "loss": ROWS, "lse": ROWS, "ignore_index": IGNORE_INDEX},
    _ERRORS,
    optional=(("lse",),),
    inputs=_LOGITS,
)
CROSS_ENTROPY_BACKWARD = Kernel(
    "cross-entropy backward",
    _cross_entropy_backward,
    {
        "x": MATRIX,
        "target": TARGETS,
        "dloss": STRIDED_ROWS,
        "lse": ROWS,
        "dx": MATRIX,
        "scale": SCALE,
        "ignore_index": IGNORE_INDEX,
    },
    {"dx": lambda g, dtype: _gradient_error(g, _scaled(g), g.lse, dtype)},
    optional=(("scale",),),
    inputs=_LOGITS | {"lse": lambda normal, g: reference.logsumexp(g.x)},
)
CROSS_ENTROPY_FUSED = Kernel(
    "cross-entropy fused",
    _cross_entropy_fused,
    {"x": MATRIX, "target": TARGETS, "loss": ROWS, "lse": ROWS, "dx": MATRIX, "ignore_index": IGNORE_INDEX},
    _ERRORS | {"dx": lambda g, dtype: _gradient_error(g, 1.0, None, dtype)},
    optional=(("lse",),),
    inputs=_LOGITS,
)
KERNELS = (CROSS_ENTROPY, CROSS_ENTROPY_BACKWARD, CROSS_ENTROPY_FUSED)

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
_RUNGS = (
    "two-pass",
    "online",
    "vectors",
    "in flight",
    "rows",
    "fast exp",
    "short terms",
    "any address",
)
_RUNGS_BACKWARD = ("elements", "vectors", "fast exp", "hint", "any address")
OPERATIONS = (
    Operation(
        "cross-entropy",
        pattern="1R",
        counted_row_bytes=12,
        formula=formula,
        inputs=_inputs,
        error=error_of(CROSS_ENTROPY, "x target", "loss"),
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
        error=error_of(CROSS_ENTROPY_BACKWARD, "x target dloss lse", "dx"),
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
        error=error_of(CROSS_ENTROPY_FUSED, "x target", "loss dx"),
        ours=shipped(CROSS_ENTROPY_FUSED, "x target", "loss dx", tile_reads=1),
        row_bytes=8,
        arithmetic=("maximum", "subtraction", "exponential", "sum", "product", "subtraction of the target"),
    ),
)
