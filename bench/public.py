"""The calls that a torch user makes, of each library: what `bench --public` times in place of the kernels.

| series      | forward                     | backward                                                        |
|-------------|-----------------------------|-----------------------------------------------------------------|
| public      | the call, without gradients | torch.autograd.grad, from gradients of all that the call gave   |
| public mean |                             | of the mean of the losses, from one number: cross-entropy alone |

Whatever a library launches besides its kernel is timed with it: a conversion, a product with the mean's scale, a sum
over parts. In a row, in a CUDA graph, the host's time is left out (`samples_us`); alone it is not (`do_bench_us`).
Ceilings are the quickest of a few plain kernels, without a sweep.

`ptx_sha256` is of the operation's kernel as `bench` times it, which the call's kernel is but for what is asked of it,
such as dloss in 16 bits: a cell is stale when that kernel is. Liger's cross-entropy waits for the GPU, which a graph
cannot hold, and has its gradient before it is asked: it is not here. QuACK has no gradient of LayerNorm.
"""

from __future__ import annotations

import functools

from bench.peers import CALLS, CALLS_OF_MEAN
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.records.cells import PUBLIC_MEAN


def operations(series: str) -> tuple[str, ...]:
    """The names of the operations that a series has."""
    there = CALLS_OF_MEAN if series == PUBLIC_MEAN else CALLS
    return tuple(name for name in OPERATIONS if name in there)


def calls_of(name: str, series: str) -> dict:
    """Provider -> setup function of the calls of an operation; ValueError where the series has none of it."""
    if name not in operations(series):
        raise ValueError(f"{name} has no series {series!r}; there is {', '.join(operations(series))}")
    return (CALLS_OF_MEAN if series == PUBLIC_MEAN else CALLS)[name]


def inputs_of(name: str, series: str):
    """What makes the inputs of an operation for a series: M, N, dtype -> tensors."""
    inputs = OPERATIONS[name].inputs
    return functools.partial(_inputs_of_mean, inputs) if series == PUBLIC_MEAN else inputs


def _inputs_of_mean(inputs, M, N, dtype):
    """`inputs`, each row's dloss being what it has in a mean that is asked for with 1."""
    import torch

    x, target, dloss, lse = inputs(M, N, dtype)
    return x, target, torch.full_like(dloss, 1 / M), lse
