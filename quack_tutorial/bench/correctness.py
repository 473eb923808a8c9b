"""Is an output right, before it is timed: float64 reference on sampled rows, and not one element left unwritten.

Outputs are filled with NaN before the launches that are checked, and those launches are the ones to be timed: the same
CUDA graph, so that a launch that the graph does not hold cannot pass.
"""

from __future__ import annotations

import numpy as np

PEER_SLACK = 8  # a peer may miss our tolerance by this factor and still be timed; its error is recorded


def sampled_rows(M: int, N: int, seed: int, elements: int = 1 << 21, most: int = 64):
    """Row numbers to compare, ascending: the first, the last and others at random, about `elements` elements in all."""
    count = min(M, most, max(4, elements // max(N, 1)))
    drawn = np.random.default_rng(seed).choice(M, size=count, replace=False)
    return np.unique(np.concatenate([[0, M - 1], drawn[: max(0, count - 2)]]))


def error_of(operation, inputs, output, seed: int) -> float:
    """The largest error of torch tensor `output` as a fraction of what is tolerated; inf if an element is unwritten."""
    if has_nan(output):
        return float("inf")
    M, N = inputs[0].shape
    return operation.error(inputs, output, sampled_rows(M, N, seed))


def has_nan(output) -> bool:
    """Whether a torch tensor holds NaN anywhere; a part at a time, so as not to need its size again."""
    return any(bool(part.isnan().any()) for part in output.reshape(-1).split(1 << 28))


def judgement(error: float, is_ours: bool) -> str | None:
    """Why an output with this `error` must not be timed, or None."""
    limit = 1.0 if is_ours else PEER_SLACK
    if error <= limit:
        return None
    if error == float("inf"):
        return "elements left unwritten, or NaN where the reference has numbers"
    return f"error {error:.3g} times the tolerance against float64 (limit {limit:g})"
