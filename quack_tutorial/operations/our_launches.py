"""Our kernels of an operation, and the versions of its ladder, as what the benchmark can set up and time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from quack_tutorial import card
from quack_tutorial.compiler import MAX_ALIGNMENT
from quack_tutorial.hardware import ITEM_BYTES
from quack_tutorial.occupancy import clusters_at_once
from quack_tutorial.shipped import MATRIX, PARTS, Kernel, Rows, column_sum, dtype_of, shape_of, type_of

FINAL = "what ships"  # the last rung of every ladder: the operation's own kernel


def contiguous_rows(dtype: str, N: int) -> Rows:
    """The rows of contiguous (M, N) tensors."""
    promise = "aligned" if N * ITEM_BYTES[dtype] % MAX_ALIGNMENT == 0 else "congruent"
    return Rows(dtype, N, promise, card.selected())


def rows_of(x) -> Rows:
    """What the addresses of a torch tensor's rows allow to promise, given that outputs are made `like` it."""
    steps = x.data_ptr() | x.stride(0) * x.element_size()
    promise = "aligned" if steps % MAX_ALIGNMENT == 0 else "congruent"
    return Rows(dtype_of(x), x.shape[1], promise, card.selected())


def like(x):
    """An unwritten tensor of the shape, strides and type of x, also where its rows have gaps between them."""
    import torch

    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)


def count_of_parts(kernel, x) -> int:
    """The parts that a kernel adds up a sum over the rows of `x` in; a version of a ladder has no say in how many."""
    if not hasattr(kernel, "most_parts"):
        return kernel.parts_of(x.shape[0], clusters_at_once(x.device, 1))
    return kernel.parts_of(x.shape[0], kernel.most_parts(clusters_at_once(x.device, kernel.config.blocks_per_row)))


@dataclass(frozen=True)
class Ours:
    """Our kernels of an operation, or a version of its ladder: a setup function, see `bench.peers`.

    `kernels(rows, config)` lists (host object, specs and scalars); `run(launch, *inputs)` allocates, launches with
    `launch[i](...)` and returns outputs. `tile_reads` of the inputs are matrices that a block's rows are read from
    once, at their beginning, before as much is written: 0 where blocks go through rows, or write none. `arguments` are those of
    `kernel` that the first launch takes, `inputs` and `outputs` those that a call takes and returns.
    """

    kernels: Callable[[Rows, object], list]
    run: Callable
    kernel: Kernel
    arguments: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tile_reads: int = 0

    def __call__(self, *inputs):
        return self.callable_for(rows_of(inputs[0]))

    def callable_for(self, r: Rows, config=None):
        """The operation as a callable on CUDA tensors that allocates its outputs."""
        return functools.partial(self.run, [_Launch(kernel, args) for kernel, args in self.kernels(r, config)])


class _Launch:
    """A compiled kernel, with the host object that it was compiled from."""

    def __init__(self, kernel, args):
        from quack_tutorial import compiler

        self.kernel, self.run = kernel, compiler.compile_for(kernel, *args)

    def __call__(self, *args):
        self.run(*args)


def shipped(kernel: Kernel, inputs: str, outputs: str, tile_reads=0, **types) -> Ours:
    """A kernel that ships as the benchmark calls it: with `inputs`, for `outputs`; vectors are of x's type unless `types` says
    otherwise."""

    def made(r, config):
        given = {
            name: types.get(name) or type_of(kernel.parameters[name], r.dtype) for name in f"{inputs} {outputs}".split()
        }
        return kernel.made_for(r, config, **given)

    return _ours(kernel, made, list(kernel.parameters), inputs.split(), outputs.split(), types, tile_reads)


def ladder(module: str, table: str, names, arguments: str, last: Ours, **types) -> dict[str, Ours]:
    """The versions of a lesson, as `table` of kernels.`module` has them, and what ships, the `last` one, by name.

    A version is made from (type, N), and takes those `arguments` of the kernel that ships. Their `names` are given because reading
    them would import CuTe DSL; a test compares the two.
    """
    taken, kernel = arguments.split(), last.kernel
    outputs = [name for name in taken if name in kernel.errors]
    inputs = [name for name in taken if name not in outputs and not isinstance(kernel.parameters[name], (int, float))]

    def version(name):
        def made(r, config):
            make = getattr(import_module(f"quack_tutorial.kernels.{module}"), table)[name]
            given = {name: types.get(name) or type_of(kernel.parameters[name], r.dtype) for name in (*inputs, *outputs)}
            specs = kernel.specs(r, **given)
            return make(r.element, r.N), tuple(specs[name] for name in taken)

        return _ours(kernel, made, taken, inputs, outputs, types)

    return {name: version(name) for name in names} | {FINAL: last}


def _ours(kernel, made, taken, inputs, outputs, types, tile_reads=0) -> Ours:
    """`made(rows, config)` gives the host object and its specs, which takes the arguments `taken`. An output that is a sum over
    rows comes in parts, which a second kernel adds up, unless the first one has added to zeros."""
    sums = [name for name in outputs if kernel.parameters[name] == PARTS]

    def kernels(r, config=None):
        host, specs = made(r, config)
        adds = [column_sum(r.N, types.get("w", r.dtype), r.card) for _ in sums if getattr(host, "leaves_parts", True)]
        return [(host, specs), *adds]

    def run(launch, *tensors):
        import torch

        x, host, given = tensors[0], launch[0].kernel, dict(zip(inputs, tensors, strict=True))
        count, found = count_of_parts(host, x) if sums else 0, {}
        new = torch.empty if getattr(host, "leaves_parts", True) else torch.zeros
        for name in outputs:
            kind = kernel.parameters[name]
            dtype = getattr(torch, type_of(kind, dtype_of(x)))
            shape = shape_of(kind, *x.shape, count)
            found[name] = like(x) if kind == MATRIX else new(shape, dtype=dtype, device=x.device)
        arguments = dict(zip(kernel.parameters, kernel.positional(given | found)))
        launch[0](*(arguments[name] for name in taken))
        for k, name in enumerate(sums, 1):
            parts = found[name]
            found[name] = found[name][0] if len(launch) == 1 else torch.empty_like(given["w"])
            if len(launch) > 1:
                launch[k](parts, found[name])
        return tuple(found.values()) if len(found) > 1 else found[outputs[0]]

    return Ours(kernels, run, kernel, tuple(taken), tuple(inputs), tuple(outputs), tile_reads)
