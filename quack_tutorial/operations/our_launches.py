"""Our kernels of an operation, and the versions of its ladder, as what the benchmark can set up and time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from quack_tutorial.compiler import MAX_ALIGNMENT
from quack_tutorial.occupancy import clusters_at_once
from quack_tutorial.operations.kernel import COLUMNS, MATRIX, PARTS, TARGETS, Kernel, Rows, column_sum, dtype_of
from quack_tutorial.records import ITEM_BYTES

FINAL = "what ships"  # the last rung of every ladder: the operation's own kernel


def contiguous_rows(dtype: str, N: int) -> Rows:
    """The rows of contiguous (M, N) tensors."""
    return Rows(dtype, N, "aligned" if N * ITEM_BYTES[dtype] % MAX_ALIGNMENT == 0 else "congruent")


def rows_of(x) -> Rows:
    """What the addresses of a torch tensor's rows allow to promise, given that outputs are made `like` it."""
    steps = x.data_ptr() | x.stride(0) * x.element_size()
    return Rows(dtype_of(x), x.shape[1], "aligned" if steps % MAX_ALIGNMENT == 0 else "congruent")


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
    """Our kernels of an operation, or a version of its ladder: a setup function, see `peers`.

    `kernels(rows, config)` lists (host object, specs and scalars); `run(launch, *inputs)` allocates, launches with
    `launch[i](...)` and returns outputs. `tile_reads` of the inputs are matrices that a block's rows are read from
    once, at their beginning, before as much is written: 0 where blocks go through rows, or write none.
    """

    kernels: Callable[[Rows, object], list]
    run: Callable
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
    otherwise. An output that is a sum over rows comes in parts, which a second kernel adds up."""
    inputs, outputs = inputs.split(), outputs.split()
    sums = [name for name in outputs if kernel.parameters[name] == PARTS]

    def kernels(r, config=None):
        given = {name: "int64" if kernel.parameters[name] == TARGETS else "float32" for name in (*inputs, *outputs)}
        given |= {name: r.dtype for name in given if kernel.parameters[name] in (MATRIX, COLUMNS)} | types
        return [kernel.launch(r, config, **given), *(column_sum(r.N, types.get("w", r.dtype)) for _ in sums)]

    def run(launch, *tensors):
        import torch

        x, found = tensors[0], {}
        count = count_of_parts(launch[0].kernel, x) if sums else 0
        for name in outputs:
            is_matrix = kernel.parameters[name] == MATRIX
            shape = (count, x.shape[1]) if name in sums else (x.shape[0],)
            found[name] = like(x) if is_matrix else torch.empty(shape, dtype=torch.float32, device=x.device)
        given = dict(zip(inputs, tensors, strict=True))
        launch[0](*kernel.positional(given | found))
        for add, name in zip(launch[1:], sums, strict=True):
            parts, found[name] = found[name], torch.empty_like(given["w"])
            add(parts, found[name])
        return tuple(found.values()) if len(found) > 1 else found[outputs[0]]

    return Ours(kernels, run, tile_reads)


def ladder(module: str, table: str, names, launches, run, last: Ours) -> dict[str, Ours]:
    """The versions of a lesson, as `table` of kernels.`module` has them, and what ships, by name.

    A version is made from (type, N); `launches(kernel, rows)` is what `Ours.kernels` lists of it, and `run` as there.
    Their `names` are given because reading them would import CuTe DSL; a test compares the two.
    """

    def version(name):
        def kernels(r, config=None):
            make = getattr(import_module(f"quack_tutorial.kernels.{module}"), table)[name]
            return launches(make(r.element, r.N), r)

        return Ours(kernels, run)

    return {name: version(name) for name in names} | {FINAL: last}
