"""Copy: what a memory-bound kernel is without arithmetic.

| operation | inputs | outputs | bytes moved   |
|-----------|--------|---------|---------------|
| copy      | x      | y       | 2 MN elements |

Ours is softmax's tile without its arithmetic.
"""

from __future__ import annotations

from quack_tutorial.operations.operation import Operation, randn
from quack_tutorial.operations.our_launches import ladder, shipped
from quack_tutorial.shipped import MATRIX, Kernel


def _copy(r, config, given):
    from quack_tutorial.kernels.copy import TileCopy

    return TileCopy("softmax", r.element, r.N, r.promise)


COPY = Kernel(
    "copy",
    _copy,
    {"x": MATRIX, "y": MATRIX, "out": MATRIX},  # y: what is added, see `TileCopy`
    {"out": lambda g, dtype: 0.0 if (g.x == g.out).all() else float("inf")},
    optional=(("y",),),
)


def formula(x):
    """The same numbers in new memory."""
    return x.clone()


def _inputs(M, N, dtype):
    return (randn(M, N, dtype),)


_OURS = shipped(COPY, "x", "out")
_RUNGS = ("thread", "coalesced", "vectors", "any row", "async", "hint")
OPERATIONS = (
    Operation(
        "copy",
        pattern="1R1W",
        formula=formula,
        inputs=_inputs,
        ours=_OURS,
        ladder=ladder("copy", "LADDER", _RUNGS, "x out", _OURS),
    ),
)
