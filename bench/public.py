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
from dataclasses import replace

from quack_tutorial.operations import OPERATIONS
from quack_tutorial.operations.operation import Operation
from quack_tutorial.records.cells import PUBLIC_MEAN


def operations(series: str) -> tuple[str, ...]:
    """The names of the operations that a series has."""
    return tuple(name for name, operation in OPERATIONS.items() if _calls(operation, series))


def _calls(operation, series):
    return operation.calls_of_mean if series == PUBLIC_MEAN else operation.calls


def operation(name: str, series: str) -> Operation:
    """An operation of the table with public calls for its providers; ValueError where the series has none of it."""
    if name not in operations(series):
        raise ValueError(f"{name} has no series {series!r}; there is {', '.join(operations(series))}")
    found = replace(OPERATIONS[name], providers=_calls(OPERATIONS[name], series), ladder={})
    return replace(found, inputs=functools.partial(_inputs_of_mean, found.inputs)) if series == PUBLIC_MEAN else found


def _inputs_of_mean(inputs, M, N, dtype):
    """`inputs`, each row's dloss being what it has in a mean that is asked for with 1."""
    import torch

    x, target, dloss, lse = inputs(M, N, dtype)
    return x, target, torch.full_like(dloss, 1 / M), lse
