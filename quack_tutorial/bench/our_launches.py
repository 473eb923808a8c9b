"""What our kernels are compiled for and how they are launched: the parts that the modules of `operations` use."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from quack_tutorial.compiler import DTYPES, MAX_ALIGNMENT, TensorSpec
from quack_tutorial.occupancy import clusters_at_once
from quack_tutorial.records import ITEM_BYTES

FINAL = "what ships"  # the last rung of every ladder: the operation's own kernel


@dataclass(frozen=True)
class Rows:
    """What kernels are compiled for: the type and length of a row, and the promise about addresses ("aligned", ...)."""

    dtype: str
    N: int
    rows: str

    @property
    def element(self):
        """The type in CuTe DSL."""
        return element(self.dtype)

    def matrix(self, name: str) -> TensorSpec:
        """The spec of an (M, N) tensor; any number of rows, any distance apart."""
        align = MAX_ALIGNMENT if self.rows == "aligned" else ITEM_BYTES[self.dtype]
        return TensorSpec(self.dtype, ("M", self.N), (f"{name}_stride", 1), align)

    def columns(self, dtype: str = "float32") -> TensorSpec:
        """The spec of an (N,) tensor."""
        return TensorSpec(dtype, (self.N,), (1,), MAX_ALIGNMENT)

    def parts(self) -> TensorSpec:
        """The spec of the (G, N) parts of a sum over rows."""
        return TensorSpec("float32", ("G", self.N), (self.N, 1), MAX_ALIGNMENT)


def of_rows(name: str, dtype: str = "float32", stride=1) -> TensorSpec:
    """The spec of an (M,) tensor."""
    return TensorSpec(dtype, ("M",), (stride,), 8 if dtype == "int64" else 4)


def contiguous_rows(dtype: str, N: int) -> Rows:
    """The rows of contiguous (M, N) tensors."""
    return Rows(dtype, N, "aligned" if N * ITEM_BYTES[dtype] % MAX_ALIGNMENT == 0 else "congruent")


def rows_of(x) -> Rows:
    """What the addresses of a torch tensor's rows allow to promise, given that outputs are made `like` it."""
    dtype = str(x.dtype).removeprefix("torch.")
    steps = x.data_ptr() | x.stride(0) * x.element_size()
    return Rows(dtype, x.shape[1], "aligned" if steps % MAX_ALIGNMENT == 0 else "congruent")


def element(dtype: str):
    """The type in CuTe DSL: "float32" -> Float32."""
    from quack_tutorial.kernels import softmax

    return getattr(softmax.cutlass, DTYPES[dtype])


def like(x):
    """An unwritten tensor of the shape, strides and type of x, also where its rows have gaps between them."""
    import torch

    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)


def column_sum(r: Rows, dtype: str) -> tuple:
    """(the kernel that adds up the parts of a sum over rows, its specs)."""
    from quack_tutorial.kernels.tuned.norm_backward import ColumnSum

    return ColumnSum(r.N, element(dtype)), (r.parts(), r.columns(dtype))


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
