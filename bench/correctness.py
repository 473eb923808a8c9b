"""Is an output right, before it is timed: float64 reference on sampled rows, and not one element left unwritten.

Outputs are filled with NaN before the launches that are checked, and those launches are the ones to be timed: the same
CUDA graph, so that a launch that the graph does not hold cannot pass.
"""

from __future__ import annotations

import numpy as np

from quack_tutorial.timing import as_tuple

# A peer may miss our tolerance by this factor and still be timed; its error is recorded. torch keeps log-probabilities in
# bfloat16, which alone makes a gradient of cross-entropy wrong by 0.5 % for each unit of -log p, 10 ulp at p = e^-18.
PEER_SLACK = 16
# torch and Liger round dy y to 16 bits before they subtract, and RMSNorm's gradient before they add the residual's: hundreds of
# ulp where the terms cancel. Less exact, but not another result.
# QuACK's top-k keeps a column in the last 12 bits of a float32 value: 2^13 ulp, which are counted in quarters.
PEER_SLACK_OF = {"softmax backward": 2000, "rmsnorm residual backward": 2000, "topk": 1 << 15, "topk 128": 1 << 15}


def sampled(count: int, other: int, seed: int, elements: int = 1 << 19, most: int = 64):
    """Row (or column) numbers to compare, ascending: the first, the last and others at random, of `count` in all.

    `other` is the number of elements in each; about `elements` elements are taken together, and at least 4 numbers.
    """
    wanted = min(count, most, max(4, elements // max(other, 1)))
    drawn = np.random.default_rng(seed).choice(count, size=wanted, replace=False)
    return np.unique(np.concatenate([[0, count - 1], drawn[: max(0, wanted - 2)]]))


def error_of(operation, inputs, outputs, seed: int, elements: int = 1 << 19) -> float:
    """The largest error of torch tensors `outputs` as a fraction of what is tolerated; inf if an element is unwritten."""
    outputs = as_tuple(outputs)
    if any(has_nan(output) for output in outputs):
        return float("inf")
    M, N = inputs[0].shape
    return operation.error(inputs, outputs, sampled(M, N, seed, elements), sampled(N, M, seed, elements))


def has_nan(output) -> bool:
    """Whether a torch tensor holds NaN anywhere; a part at a time, so as not to need its size again."""
    found = (
        (lambda part: part & 127 == 127) if output.dtype.itemsize == 1 else lambda part: part.isnan()
    )  # bits of float8
    return any(bool(found(part).any()) for part in output.reshape(-1).split(1 << 28))


def judgement(error: float, is_ours: bool, operation: str = "") -> str | None:
    """Why an output with this `error` must not be timed, or None."""
    limit = 1.0 if is_ours else PEER_SLACK_OF.get(operation, PEER_SLACK)
    if error <= limit:
        return None
    if error == float("inf"):
        return "elements left unwritten, or NaN where the reference has numbers"
    return f"error {error:.3g} times the tolerance against float64 (limit {limit:g})"
