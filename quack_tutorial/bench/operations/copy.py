"""Copy: what a memory-bound kernel is without arithmetic.

| operation | inputs | outputs | bytes moved   |
|-----------|--------|---------|---------------|
| copy      | x      | y       | 2 MN elements |

Ours is softmax's tile without its arithmetic.
"""

from __future__ import annotations

from quack_tutorial.bench.operation import Operation, at, randn
from quack_tutorial.bench.our_launches import Ours, ladder, like
from quack_tutorial.bench.peers import eager


def formula(x):
    """The same numbers in new memory."""
    return x.clone()


def _inputs(M, N, dtype):
    return (randn(M, N, dtype),)


def _error(inputs, outputs, rows, columns):
    x, y = at(rows, *inputs, *outputs)
    return 0.0 if (x == y).all() else float("inf")


def _kernels(r, config=None):
    from quack_tutorial.kernels.tuned.tile_copy import TileCopy

    return [(TileCopy("softmax", r.element, r.N, r.rows), (r.matrix("x"), None, r.matrix("out")))]


def _run(launch, x):
    out = like(x)
    launch[0](x, None, out)
    return out


def _rung_launches(kernel, r):
    return [(kernel, (r.matrix("x"), r.matrix("out")))]


def _run_rung(launch, x):
    out = like(x)
    launch[0](x, out)
    return out


_OURS = Ours(_kernels, _run)
_RUNGS = ("thread", "coalesced", "vectors", "any row", "async", "hint")
OPERATIONS = (
    Operation(
        "copy",
        pattern="1R1W",
        bytes=lambda M, N, item: 2 * M * N * item,
        inputs=_inputs,
        error=_error,
        providers={"ours": _OURS, "eager": eager(formula)},
        ladder=ladder("copy", "LADDER", _RUNGS, _rung_launches, _run_rung, _OURS),
    ),
)
