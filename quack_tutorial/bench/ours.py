"""How this package's own kernels are set up for the benchmark, and the PTX of what is timed.

`OURS` has a row for each operation: the kernels that are launched, with the specs that they are compiled for, and how
inputs become outputs. `LADDERS` has the versions of a lesson in the order they are taught: a version is another kernel with
the signature of the last one, and so one line.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from quack_tutorial.bench.formulas import EPS, IGNORE_INDEX
from quack_tutorial.compiler import DTYPES, MAX_ALIGNMENT, TensorSpec
from quack_tutorial.occupancy import clusters_at_once

ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


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


def of_rows(name: str, dtype: str = "float32", stride=1) -> TensorSpec:
    """The spec of an (M,) tensor."""
    return TensorSpec(dtype, ("M",), (stride,), 8 if dtype == "int64" else 4)


def of_columns(r: Rows, dtype: str = "float32") -> TensorSpec:
    """The spec of an (N,) tensor."""
    return TensorSpec(dtype, (r.N,), (1,), MAX_ALIGNMENT)


def contiguous_rows(dtype: str, N: int) -> Rows:
    """The rows of contiguous (M, N) tensors."""
    return Rows(dtype, N, "aligned" if N * ITEM_BYTES[dtype] % MAX_ALIGNMENT == 0 else "congruent")


def element(dtype: str):
    """The type in CuTe DSL: "float32" -> Float32."""
    from quack_tutorial.kernels import softmax

    return getattr(softmax.cutlass, DTYPES[dtype])


def like(x):
    """An unwritten tensor of the shape, strides and type of x, also where its rows have gaps between them."""
    import torch

    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)


# The operations ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ours:
    """One row of the table. `kernels(rows, config)` lists (host object, specs and scalars); `run(launch, *inputs)`
    allocates, launches with `launch[i](...)` and returns outputs. `tile_reads` of the inputs are matrices that a block's
    rows are read from once, at their beginning, before as much is written: 0 where blocks go through rows, or write none."""

    kernels: Callable[[Rows, object], list]
    run: Callable
    tile_reads: int = 0


def _copy(r, config=None):
    """Softmax's tile without its arithmetic."""
    from quack_tutorial.kernels.tuned.tile_copy import TileCopy

    return [(TileCopy("softmax", r.element, r.N, r.rows), (r.matrix("x"), None, r.matrix("out")))]


def _run_copy(launch, x):
    out = like(x)
    launch[0](x, None, out)
    return out


def _softmax(r, config=None):
    from quack_tutorial.kernels.tuned.softmax import Softmax

    return [(Softmax(r.element, r.N, r.rows, config=config), _softmax_specs(r))]


def _softmax_specs(r):
    return r.matrix("x"), r.matrix("out")


def _run_softmax(launch, x):
    out = like(x)
    launch[0](x, out)
    return out


def _softmax_backward(r, config=None):
    from quack_tutorial.kernels.tuned.softmax import SoftmaxBackward

    kernel = SoftmaxBackward(r.element, r.N, r.rows, config=config)
    return [(kernel, (r.matrix("y"), r.matrix("dy"), r.matrix("dx")))]


def _run_softmax_backward(launch, y, dy):
    dx = like(y)
    launch[0](y, dy, dx)
    return dx


def _rmsnorm(r, config=None):
    from quack_tutorial.kernels.tuned.rmsnorm import RMSNorm

    return [(RMSNorm(r.element, r.N, r.rows, weight=r.element, config=config), _rmsnorm_specs(r))]


def _rmsnorm_specs(r):
    return r.matrix("x"), of_columns(r, r.dtype), None, None, r.matrix("out"), None, None, EPS


def _run_rmsnorm(launch, x, w):
    out = like(x)
    launch[0](x, w, None, None, out, None, None, EPS)
    return out


def _rmsnorm_backward(r, config=None):
    from quack_tutorial.kernels.tuned.rmsnorm import ColumnSum, RMSNormBackward

    parts = TensorSpec("float32", ("G", r.N), (r.N, 1), MAX_ALIGNMENT)
    kernel = RMSNormBackward(r.element, r.N, r.rows, weight=element("float32"), config=config)
    specs = (r.matrix("x"), of_columns(r), r.matrix("dy"), None, of_rows("rstd"), r.matrix("dx"), parts, None)
    return [(kernel, specs), (ColumnSum(r.N, element("float32")), (parts, of_columns(r)))]


def _run_rmsnorm_backward(launch, x, w, dy, rstd):
    import torch

    dx, dw = like(x), torch.empty_like(w)
    kernel = launch[0].kernel
    most = kernel.most_parts(clusters_at_once(x.device, kernel.config.blocks_per_row))
    parts = torch.empty(kernel.parts_of(x.shape[0], most), x.shape[1], dtype=torch.float32, device=x.device)
    launch[0](x, w, dy, None, rstd, dx, parts, None)
    launch[1](parts, dw)
    return dx, dw


def _layernorm(r, config=None):
    from quack_tutorial.kernels.tuned.layernorm import LayerNorm

    return [(LayerNorm(r.element, r.N, r.rows, r.element, r.element, config=config), _layernorm_specs(r))]


def _layernorm_specs(r):
    return r.matrix("x"), of_columns(r, r.dtype), of_columns(r, r.dtype), r.matrix("out"), None, None, EPS


def _run_layernorm(launch, x, w, b):
    out = like(x)
    launch[0](x, w, b, out, None, None, EPS)
    return out


def _layernorm_backward(r, config=None):
    from quack_tutorial.kernels.tuned.layernorm import LayerNormBackward

    return _with_column_sums(r, LayerNormBackward(r.element, r.N, r.rows, r.element, config), r.dtype)


def _with_column_sums(r, kernel, weight, finishes=True):
    """LayerNorm's backward, for weights of that type, and the sums over the parts of dw and of db, where there are parts."""
    from quack_tutorial.kernels.tuned.rmsnorm import ColumnSum

    parts = TensorSpec("float32", ("G", r.N), (r.N, 1), MAX_ALIGNMENT)
    stats = of_rows("mean"), of_rows("rstd")
    specs = (r.matrix("x"), of_columns(r, weight), r.matrix("dy"), *stats, r.matrix("dx"), parts, parts)
    total = ColumnSum(r.N, element(weight)), (parts, of_columns(r, weight))
    return [(kernel, specs), *([total, total] if finishes else [])]


def _run_layernorm_backward(launch, x, w, dy, mean, rstd):
    kernel = launch[0].kernel
    most = kernel.most_parts(clusters_at_once(x.device, kernel.config.blocks_per_row))
    return _run_with_column_sums(launch, kernel.parts_of(x.shape[0], most), x, w, dy, mean, rstd)


def _run_with_column_sums(launch, count, x, w, dy, mean, rstd):
    import torch

    dx, make = like(x), torch.empty if len(launch) > 1 else torch.zeros
    parts = [make(count, x.shape[1], dtype=torch.float32, device=x.device) for _ in range(2)]
    launch[0](x, w, dy, mean, rstd, dx, *parts)
    if len(launch) == 1:
        return dx, *(part[0] for part in parts)
    sums = [torch.empty_like(w) for _ in parts]
    for add, part, total in zip(launch[1:], parts, sums, strict=True):
        add(part, total)
    return dx, *sums


def _cross_entropy(r, config=None):
    from quack_tutorial.kernels.tuned.cross_entropy import CrossEntropy

    return [(CrossEntropy(r.element, r.N, r.rows, config=config), _cross_entropy_specs(r))]


def _cross_entropy_specs(r):
    return r.matrix("x"), of_rows("target", "int64"), of_rows("loss"), None, IGNORE_INDEX


def _run_cross_entropy(launch, x, target):
    loss = _a_row_each(x)
    launch[0](x, target, loss, None, IGNORE_INDEX)
    return loss


def _cross_entropy_backward(r, config=None):
    from quack_tutorial.kernels.tuned.cross_entropy import CrossEntropyBackward

    dloss = of_rows("dloss", stride="dloss_stride")
    specs = (r.matrix("x"), of_rows("target", "int64"), dloss, of_rows("lse"), r.matrix("dx"), None, IGNORE_INDEX)
    return [(CrossEntropyBackward(r.element, r.N, r.rows, config=config), specs)]


def _run_cross_entropy_backward(launch, x, target, dloss, lse):
    dx = like(x)
    launch[0](x, target, dloss, lse, dx, None, IGNORE_INDEX)
    return dx


def _cross_entropy_fused(r, config=None):
    from quack_tutorial.kernels.tuned.cross_entropy import CrossEntropyFused

    specs = (r.matrix("x"), of_rows("target", "int64"), of_rows("loss"), None, r.matrix("dx"), IGNORE_INDEX)
    return [(CrossEntropyFused(r.element, r.N, r.rows, config=config), specs)]


def _run_cross_entropy_fused(launch, x, target):
    loss, dx = _a_row_each(x), like(x)
    launch[0](x, target, loss, None, dx, IGNORE_INDEX)
    return loss, dx


def _a_row_each(x):
    import torch

    return torch.empty(x.shape[0], dtype=torch.float32, device=x.device)


OURS = {
    "copy": Ours(_copy, _run_copy),
    "softmax": Ours(_softmax, _run_softmax, tile_reads=1),
    "softmax backward": Ours(_softmax_backward, _run_softmax_backward, tile_reads=2),
    "rmsnorm": Ours(_rmsnorm, _run_rmsnorm, tile_reads=1),
    "rmsnorm backward": Ours(_rmsnorm_backward, _run_rmsnorm_backward),
    "layernorm": Ours(_layernorm, _run_layernorm, tile_reads=1),
    "layernorm backward": Ours(_layernorm_backward, _run_layernorm_backward),
    "cross-entropy": Ours(_cross_entropy, _run_cross_entropy),
    "cross-entropy backward": Ours(_cross_entropy_backward, _run_cross_entropy_backward, tile_reads=1),
    "cross-entropy fused": Ours(_cross_entropy_fused, _run_cross_entropy_fused, tile_reads=1),
}


# The ladders ---------------------------------------------------------------------------------------------------------


FINAL = "what ships"  # the last rung of every ladder: the operation's own kernel


def _ladder(module: str, table: str, specs, run, last: Ours) -> dict[str, Ours]:
    """The versions of a lesson: those of `table` in kernels.`module`, by name, and what ships.

    A version is made from (type, N) and takes `specs(rows)`; `run` allocates its outputs and launches it.
    """
    names = LADDER_NAMES[module, table]

    def version(name):
        def kernels(r, config=None):
            from importlib import import_module

            make = getattr(import_module(f"quack_tutorial.kernels.{module}"), table)[name]
            return [(make(r.element, r.N), specs(r))]

        return Ours(kernels, run)

    return {name: version(name) for name in names} | {FINAL: last}


# What `LADDER` and `BACKWARD_LADDER` of a lesson hold, as long as nobody may import CuTe DSL; a test compares the two.
_ROW_RUNGS = ("vectors", "registers", "rows", "async", "cluster")
LADDER_NAMES = {
    ("copy", "LADDER"): ("thread", "coalesced", "vectors", "any row", "async"),
    ("softmax", "LADDER"): ("thread", "warp", "three-pass", "online", *_ROW_RUNGS),
    ("rmsnorm", "LADDER"): ("thread", "block", *_ROW_RUNGS),
    ("rmsnorm", "BACKWARD_LADDER"): ("atomics", "parts", "pipelined"),
    ("layernorm", "LADDER"): ("block", "vectors", "registers"),
    ("layernorm", "BACKWARD_LADDER"): ("atomics", "parts", "pipelined"),
    ("cross_entropy", "LADDER"): ("two-pass", "online", "vectors", "in flight", "rows", "fast exp"),
    ("cross_entropy", "BACKWARD_LADDER"): ("elements", "vectors", "tiles"),
}


def _rmsnorm_step_specs(r):
    return r.matrix("x"), of_columns(r, r.dtype), r.matrix("out"), EPS


def _run_rmsnorm_step(launch, x, w):
    out = like(x)
    launch[0](x, w, out, EPS)
    return out


def _rmsnorm_backward_ladder():
    """The versions with their sum over the parts of dw, where dw has parts."""

    def version(name):
        def kernels(r, config=None):
            from quack_tutorial.kernels.rmsnorm import BACKWARD_LADDER
            from quack_tutorial.kernels.tuned.rmsnorm import ColumnSum

            parts = TensorSpec("float32", ("G", r.N), (r.N, 1), MAX_ALIGNMENT)
            kernel = BACKWARD_LADDER[name](r.element, r.N)
            specs = (r.matrix("x"), of_columns(r), r.matrix("dy"), of_rows("rstd"), r.matrix("dx"), parts)
            finish = [(ColumnSum(r.N, element("float32")), (parts, of_columns(r)))] if kernel.finishes_dw else []
            return [(kernel, specs), *finish]

        return Ours(kernels, _run_rmsnorm_backward_step)

    names = LADDER_NAMES["rmsnorm", "BACKWARD_LADDER"]
    return {name: version(name) for name in names} | {FINAL: OURS["rmsnorm backward"]}


def _run_rmsnorm_backward_step(launch, x, w, dy, rstd):
    import torch

    dx, kernel = like(x), launch[0].kernel
    count = kernel.parts_of(x.shape[0], clusters_at_once(x.device, 1))
    make = torch.empty if kernel.finishes_dw else torch.zeros
    parts = make(count, x.shape[1], dtype=torch.float32, device=x.device)
    launch[0](x, w, dy, rstd, dx, parts)
    if not kernel.finishes_dw:
        return dx, parts[0]
    dw = torch.empty_like(w)
    launch[1](parts, dw)
    return dx, dw


def _layernorm_step_specs(r):
    return r.matrix("x"), of_columns(r, r.dtype), of_columns(r, r.dtype), r.matrix("out"), EPS


def _run_layernorm_step(launch, x, w, b):
    out = like(x)
    launch[0](x, w, b, out, EPS)
    return out


def _layernorm_backward_ladder():
    """The versions with their sums over the parts of dw and db, where these have parts."""

    def version(name):
        def kernels(r, config=None):
            from quack_tutorial.kernels.layernorm import BACKWARD_LADDER

            kernel = BACKWARD_LADDER[name](r.element, r.N)
            return _with_column_sums(r, kernel, r.dtype, kernel.finishes)

        return Ours(kernels, _run_layernorm_backward_step)

    names = LADDER_NAMES["layernorm", "BACKWARD_LADDER"]
    return {name: version(name) for name in names} | {FINAL: OURS["layernorm backward"]}


def _run_layernorm_backward_step(launch, x, w, dy, mean, rstd):
    count = launch[0].kernel.parts_of(x.shape[0], clusters_at_once(x.device, 1))
    return _run_with_column_sums(launch, count, x, w, dy, mean, rstd)


def _cross_entropy_step_specs(r):
    return r.matrix("x"), of_rows("target", "int64"), of_rows("loss")


def _run_cross_entropy_step(launch, x, target):
    loss = _a_row_each(x)
    launch[0](x, target, loss)
    return loss


def _cross_entropy_backward_step_specs(r):
    return r.matrix("x"), of_rows("target", "int64"), of_rows("dloss"), of_rows("lse"), r.matrix("dx")


def _run_cross_entropy_backward_step(launch, x, target, dloss, lse):
    dx = like(x)
    launch[0](x, target, dloss, lse, dx)
    return dx


LADDERS = {
    "copy": _ladder("copy", "LADDER", _softmax_specs, _run_softmax, OURS["copy"]),
    "softmax": _ladder("softmax", "LADDER", _softmax_specs, _run_softmax, OURS["softmax"]),
    "rmsnorm": _ladder("rmsnorm", "LADDER", _rmsnorm_step_specs, _run_rmsnorm_step, OURS["rmsnorm"]),
    "rmsnorm backward": _rmsnorm_backward_ladder(),
    "layernorm": _ladder("layernorm", "LADDER", _layernorm_step_specs, _run_layernorm_step, OURS["layernorm"]),
    "layernorm backward": _layernorm_backward_ladder(),
    "cross-entropy": _ladder(
        "cross_entropy", "LADDER", _cross_entropy_step_specs, _run_cross_entropy_step, OURS["cross-entropy"]
    ),
    "cross-entropy backward": _ladder(
        "cross_entropy",
        "BACKWARD_LADDER",
        _cross_entropy_backward_step_specs,
        _run_cross_entropy_backward_step,
        OURS["cross-entropy backward"],
    ),
}


# Setting up ----------------------------------------------------------------------------------------------------------


def versions(operation: str) -> tuple[str, ...]:
    """The names of the ladder's versions, in the order they are taught; () where there is no ladder."""
    return tuple(LADDERS.get(operation, ()))


def kernels(operation: str, provider: str, r: Rows, config=None) -> list:
    """What `provider` ("ours" or a version of the ladder) launches: (host object, specs and scalars) for each launch."""
    return row_of(operation, provider).kernels(r, config)


def row_of(operation: str, provider: str) -> Ours:
    """The table's row of our kernel, or of a version of the ladder."""
    return OURS[operation] if provider == "ours" else LADDERS[operation][provider]


def setup(operation: str, provider: str = "ours", config=None):
    """A set-up function: compiles for the inputs of a cell, and returns a callable on such inputs that allocates outputs."""

    def compiled(*inputs):
        x = inputs[0]
        return callable_for(operation, provider, rows_of(x), config)

    return compiled


def callable_for(operation: str, provider: str, r: Rows, config=None):
    """The operation as a callable on CUDA tensors that allocates its outputs."""
    launches = [_Launch(kernel, args) for kernel, args in kernels(operation, provider, r, config)]
    return functools.partial(row_of(operation, provider).run, launches)


class _Launch:
    """A compiled kernel, with the host object that it was compiled from."""

    def __init__(self, kernel, args):
        from quack_tutorial import compiler

        self.kernel, self.run = kernel, compiler.compile_for(kernel, *args)

    def __call__(self, *args):
        self.run(*args)


def rows_of(x) -> Rows:
    """What the addresses of a torch tensor's rows allow to promise, given that outputs are made `like` it."""
    dtype = str(x.dtype).removeprefix("torch.")
    steps = x.data_ptr() | x.stride(0) * x.element_size()
    return Rows(dtype, x.shape[1], "aligned" if steps % MAX_ALIGNMENT == 0 else "congruent")


def ptx(operation: str, provider: str, dtype: str, N: int) -> list[str]:
    """The PTX of each kernel that is launched for contiguous rows of N; needs no GPU."""
    from quack_tutorial import compiler

    return [compiler.ptx(kernel, *args) for kernel, args in kernels(operation, provider, contiguous_rows(dtype, N))]


def config_label(operation: str, provider: str, dtype: str, N: int) -> str | None:
    """The configuration of the kernel for contiguous rows of N, as in `tune`; None of a version that has none."""
    from quack_tutorial.kernels.tuned.config import fields, label

    config = getattr(kernels(operation, provider, contiguous_rows(dtype, N))[0][0], "config", None)
    return None if config is None else label(fields(config))


@functools.cache
def shipped(operation: str, provider: str, dtype: str, N: int) -> tuple[str, str | None]:
    """(hash of the PTX, configuration) of what ships for contiguous rows of N, as a record holds them. The configuration too: how
    blocks are launched is not in the PTX."""
    return ptx_sha256(ptx(operation, provider, dtype, N)), config_label(operation, provider, dtype, N)


def ptx_sha256(texts: list[str]) -> str:
    """The hash that a record holds of the PTX of one or several kernels."""
    from quack_tutorial import compiler

    hashes = [compiler.ptx_hash(text) for text in texts]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest()
