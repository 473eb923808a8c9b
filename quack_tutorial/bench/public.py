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
from importlib import import_module

from quack_tutorial.bench import formulas, peers
from quack_tutorial.bench.formulas import EPS
from quack_tutorial.bench.operations import OPERATIONS, Operation

PUBLIC, PUBLIC_MEAN = "public", "public mean"
SERIES = (PUBLIC, PUBLIC_MEAN)


def operations(series: str) -> tuple[str, ...]:
    """The names of the operations that a series has."""
    return tuple(_PROVIDERS[series])


def operation(name: str, series: str) -> Operation:
    """An operation of the table with public calls for its providers; ValueError where the series has none of it."""
    if name not in _PROVIDERS[series]:
        raise ValueError(f"{name} has no series {series!r}; there is {', '.join(operations(series))}")
    found = replace(OPERATIONS[name], providers=_PROVIDERS[series][name], ladder={})
    return replace(found, inputs=functools.partial(_inputs_of_mean, found.inputs)) if series == PUBLIC_MEAN else found


def _inputs_of_mean(inputs, M, N, dtype):
    """`inputs`, each row's dloss being what it has in a mean that is asked for with 1."""
    import torch

    x, target, dloss, lse = inputs(M, N, dtype)
    return x, target, torch.full_like(dloss, 1 / M), lse


def _calls(formula, libraries, eager=None, arrange=None):
    """Providers of a call, torch's spelling and what `libraries` make; with `arrange`, of the gradient of the call."""
    made = {
        "ours": libraries["ours"],
        "eager": lambda: eager or formula,
        "compile": lambda: peers.compile_default(formula),
        "compile tuned": lambda: peers.compile_tuned(formula),
        **libraries,
    }
    if arrange:
        return {name: peers.autograd_backward(make, arrange, lambda make: make()) for name, make in made.items()}
    return {name: functools.partial(_call, make) for name, make in made.items()}


def _call(make, *inputs):
    return make()


def _from_own_output(setup, *inputs):
    """A gradient that begins with the output of the forward pass is judged by that output, as it was rounded there."""
    call = setup(*inputs)
    call.judged = lambda y, dy: (call.passes[y.data_ptr()][0].detach(), dy)
    return call


def _of(module, name, *more, **named):
    """Makes the function `name` of a module, with arguments to follow the tensors."""

    def make():
        function = import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
        return (lambda *tensors: function(*tensors, *more, **named)) if more or named else function

    return make


def _mean_of_losses(x, target):
    """The mean of cross-entropy's losses."""
    import torch

    return torch.nn.functional.cross_entropy(x, target, ignore_index=formulas.IGNORE_INDEX)


def _gradients_of_losses(x, target, dloss, lse):
    return (x, target), 1, dloss


def _gradient_of_mean(x, target, dloss, lse):
    return (x, target), 1, dloss[0] * len(dloss)


_OURS, _LIGER = "quack_tutorial.ops", "liger_kernel.ops"
_SOFTMAX = {
    "ours": _of(_OURS, "softmax"),
    "quack": _of("quack", "softmax"),
    "liger": _of(_LIGER, "LigerSoftmaxFunction.apply"),
}
_RMSNORM = {
    "ours": _of(_OURS, "rmsnorm", eps=EPS),
    "quack": _of("quack", "rmsnorm", eps=EPS),
    "liger": _of(_LIGER, "LigerRMSNormFunction.apply", EPS, 0.0, "gemma", False),
}
_LAYERNORM = {
    "ours": _of(_OURS, "layernorm", eps=EPS),
    "liger": _of(_LIGER, "LigerLayerNormFunction.apply", EPS),
}
_LOSSES, _MEAN = (
    {name: _of(module, "cross_entropy", reduction=reduction) for name, module in (("ours", _OURS), ("quack", "quack"))}
    for reduction in ("none", "mean")
)
_PROVIDERS = {
    PUBLIC: {
        "softmax": _calls(formulas.softmax, _SOFTMAX),
        "softmax backward": {
            name: functools.partial(_from_own_output, setup)
            for name, setup in _calls(formulas.softmax, _SOFTMAX, arrange=lambda y, dy: ((y.logits,), 1, dy)).items()
        },
        "rmsnorm": _calls(formulas.rmsnorm, _RMSNORM, formulas.rmsnorm_of_torch),
        "rmsnorm backward": _calls(
            formulas.rmsnorm, _RMSNORM, formulas.rmsnorm_of_torch, lambda x, w, dy, rstd: ((x, w), 2, dy)
        ),
        "layernorm": _calls(formulas.layernorm, _LAYERNORM, formulas.layernorm_of_torch)
        | {"quack": peers.quack_layernorm},
        "layernorm backward": _calls(
            formulas.layernorm,
            _LAYERNORM,
            formulas.layernorm_of_torch,
            lambda x, w, dy, mean, rstd: ((x, w, w.clone()), 3, dy),
        ),
        "cross-entropy": _calls(formulas.cross_entropy, _LOSSES),
        "cross-entropy backward": _calls(formulas.cross_entropy, _LOSSES, arrange=_gradients_of_losses),
    },
    PUBLIC_MEAN: {"cross-entropy backward": _calls(_mean_of_losses, _MEAN, arrange=_gradient_of_mean)},
}
