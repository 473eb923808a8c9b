"""The kernels that ship, each described once: what it is called with, how it is made, which inputs it wants, how wrong it may be.

Whoever launches it or judges what it wrote reads this: `ops`, the benchmark, the proof suites and the tests. Arguments have names;
what is absent is None.

| kind         | shape  | type, unless another is given                              |
|--------------|--------|------------------------------------------------------------|
| MATRIX       | (M, N) | that of the rows                                           |
| COLUMNS      | (N,)   | that of the rows                                           |
| ROWS         | (M,)   | float32                                                    |
| STRIDED_ROWS | (M,)   | the same, any distance apart                               |
| TARGETS      | (M,)   | int64                                                      |
| PARTS        | (G, N) | float32: a sum over all rows, in parts that are yet to add |
| CODES        | (M, N) | uint8: the bits of float8 numbers (e4m3)                   |
| SCALES       | (M, N / 128) | float32                                              |
| SCALE        | ()     | float32                                                    |
| `Best`       | (M, k) | its own, or that of the rows                               |
| a number     |        | the number itself is what is passed where none is given    |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import SimpleNamespace

import numpy as np

import quack_tutorial as qt
from quack_tutorial import hardware
from quack_tutorial.compiler import DTYPES, MAX_ALIGNMENT, TensorSpec
from quack_tutorial.hardware import ITEM_BYTES, SCALE_COLUMNS, usual_top

MATRIX, COLUMNS, ROWS, STRIDED_ROWS, TARGETS, PARTS, CODES, SCALES, SCALE = (
    "matrix", "columns", "rows", "strided rows", "targets", "parts", "codes", "scales", "scale",
)  # fmt: skip
_TYPES = {TARGETS: "int64", CODES: "uint8"}  # of a kind, where it is neither the rows' nor float32


EPS = 1e-6  # added to the mean of squares in RMSNorm, to the variance in LayerNorm
IGNORE_INDEX = -100
HOPPER = hardware.gpu("h100")  # whose kernels are meant where no card is given


@dataclass(frozen=True)
class Best:
    """The kind of a contiguous (M, k) tensor, with something of the k largest of each row; None: the usual k for N."""

    k: int | None = None
    dtype: str | None = None

    def count(self, N: int) -> int:
        """Numbers of a row."""
        return min(N, self.k or usual_top(N))


@dataclass(frozen=True)
class Rows:
    """What kernels are compiled for: the type and length of a row, the promise about addresses ("aligned", ...), and the card."""

    dtype: str
    N: int
    promise: str
    card: hardware.GPU = HOPPER

    @property
    def element(self):
        """The type in CuTe DSL."""
        return element(self.dtype)

    def matrix(self, name: str, dtype: str | None = None) -> TensorSpec:
        """The spec of an (M, N) tensor; any number of rows, any distance apart. Where vectors of the rows start, vectors of as many
        elements of another type do."""
        dtype = dtype or self.dtype
        item = _item_bytes(dtype)
        align = (
            min(MAX_ALIGNMENT, MAX_ALIGNMENT * item // _item_bytes(self.dtype)) if self.promise == "aligned" else item
        )
        return TensorSpec(dtype, ("M", self.N), (f"{name}_stride", 1), align)

    def columns(self, dtype: str | None = None) -> TensorSpec:
        """The spec of an (N,) tensor."""
        return TensorSpec(dtype or self.dtype, (self.N,), (1,), MAX_ALIGNMENT)


def _item_bytes(dtype):
    return ITEM_BYTES.get(dtype, 1)


def of_rows(dtype: str = "float32", stride: int | str = 1) -> TensorSpec:
    """The spec of an (M,) tensor."""
    align = ITEM_BYTES.get(dtype, 4) if isinstance(stride, str) else 8 if dtype == "int64" else 4
    return TensorSpec(dtype, ("M",), (stride,), align)


def of_parts(N: int) -> TensorSpec:
    """The spec of the (G, N) parts of a sum over rows."""
    return TensorSpec("float32", ("G", N), (N, 1), MAX_ALIGNMENT)


def column_sum(N: int, dtype: str, card: hardware.GPU = HOPPER) -> tuple:
    """(the kernel that adds up the parts of a sum over rows, what it is compiled for), for a sum of type `dtype`."""
    from quack_tutorial.kernels.tuned.sums import ColumnSum

    return ColumnSum(N, element(dtype), card), (of_parts(N), TensorSpec(dtype, (N,), (1,), MAX_ALIGNMENT))


def type_of(kind: str, dtype: str) -> str:
    """The type of a tensor of a kind, of rows of `dtype`, unless another is given."""
    if isinstance(kind, Best):
        return kind.dtype or dtype
    return dtype if kind in (MATRIX, COLUMNS) else _TYPES.get(kind, "float32")


def shape_of(kind: str, M: int, N: int, parts: int = 0) -> tuple:
    """The shape of a tensor of a kind for M rows of N, a sum over them in so many `parts`."""
    if isinstance(kind, Best):
        return M, kind.count(N)
    shapes = {COLUMNS: (N,), PARTS: (parts, N), SCALES: (M, N // SCALE_COLUMNS), SCALE: ()}
    return (M, N) if kind in (MATRIX, CODES) else shapes.get(kind, (M,))


def element(dtype: str | None):
    """The type in CuTe DSL: "float32" -> Float32; None for None."""
    from quack_tutorial.kernels import layout

    return dtype and getattr(layout.cutlass, DTYPES[dtype])


def dtype_of(array) -> str:
    """The type of an array of numpy, torch or the simulator: "float32"."""
    return str(array.dtype).removeprefix("torch.").lower()


def float64(array):
    """An array of numpy, torch or the simulator as one of numpy's, numbers with a point in float64."""
    if hasattr(array, "is_floating_point"):
        return (array.double() if array.is_floating_point() else array).cpu().numpy()
    array = array if isinstance(array, np.ndarray) else array.numpy()
    return array.astype(np.float64) if array.dtype.kind == "f" else array


@dataclass(frozen=True)
class Kernel:
    """One kernel that ships.

    `parameters` are name -> kind, in the order in which its host function takes them; `optional` are groups of names, of which
    each is there as a whole or not at all. `make(rows, config, given)` gives the host object, `given` being name -> type of what is
    there. `errors` says for each output its error over what is tolerated, from everything that is there, in float64, by name,
    and the output's type; of a sum's parts it is given the sum. `inputs` says which numbers an input has where normally
    distributed ones of spread 1 will not do, from such numbers and the inputs before it.
    """

    name: str
    make: Callable[[Rows, object, Mapping[str, str]], object]
    parameters: Mapping[str, object]
    errors: Mapping[str, Callable[[SimpleNamespace, str], float]]
    optional: tuple[tuple[str, ...], ...] = ()
    inputs: Mapping[str, Callable[[np.ndarray, SimpleNamespace], np.ndarray]] = field(default_factory=dict)

    def specs(self, r: Rows, **given) -> dict:
        """What each parameter is compiled for, with those optional tensors that are `given` a type, or a spec of their own."""
        return {name: self._spec(name, kind, r, given.get(name)) for name, kind in self.parameters.items()}

    def made_for(self, r: Rows, config=None, **given) -> tuple:
        """(host object, what it is compiled for), see `specs`."""
        specs = self.specs(r, **given)
        types = {name: spec.dtype for name, spec in specs.items() if isinstance(spec, TensorSpec)}
        return self.make(r, config, types), tuple(specs.values())

    def _spec(self, name, kind, r, dtype):
        if isinstance(kind, (int, float)) or isinstance(dtype, TensorSpec):
            return kind if dtype is None else dtype
        if not dtype and any(name in group for group in self.optional):
            return None
        if kind in (MATRIX, CODES):
            return r.matrix(name, dtype or _TYPES.get(kind))
        if isinstance(kind, Best):
            return TensorSpec(type_of(kind, r.dtype), ("M", kind.count(r.N)), (kind.count(r.N), 1), MAX_ALIGNMENT)
        if kind == SCALES:
            return TensorSpec("float32", ("M", r.N // SCALE_COLUMNS), (r.N // SCALE_COLUMNS, 1), 4)
        if kind == COLUMNS:
            return r.columns(dtype)
        if kind == PARTS:
            return of_parts(r.N)
        if kind == SCALE:
            return TensorSpec("float32", (), (), 4)
        dtype = dtype or type_of(kind, r.dtype)
        return of_rows(dtype, f"{name}_stride" if kind == STRIDED_ROWS else 1)

    def host(self, arguments: Mapping, promise="aligned", config=None, card: hardware.GPU = HOPPER):
        """The host object for such arguments, numpy arrays or torch tensors by name."""
        there = {name: array for name, array in arguments.items() if hasattr(array, "dtype")}
        x = there[next(iter(self.parameters))]
        r = Rows(dtype_of(x), x.shape[1], promise, card)
        return self.make(r, config, {n: dtype_of(a) for n, a in there.items()})

    def positional(self, arguments: Mapping) -> tuple:
        """The arguments in the host function's order."""
        unknown = arguments.keys() - self.parameters.keys()
        if unknown:
            raise TypeError(f"{self.name} has no {', '.join(sorted(unknown))}: it takes {', '.join(self.parameters)}")
        numbers = {name: kind for name, kind in self.parameters.items() if isinstance(kind, (int, float))}
        return tuple(arguments.get(name, numbers.get(name)) for name in self.parameters)

    def arguments(self, M: int, N: int, draw) -> dict:
        """Arguments for M rows of N, by name.

        `draw.has(group)` says whether optional tensors are there, `draw.parts()` in how many parts a sum is written,
        `draw.targets(M, N)` gives class numbers, `draw.normal(name, shape)` normally distributed float64; and
        `draw.place(name, kind, values, shape)` gives the array that has them, or with None for values one to be written.
        """
        absent = {name for group in self.optional if not draw.has(group) for name in group}
        given = {}
        for name, kind in self.parameters.items():
            if name in absent or isinstance(kind, (int, float)):
                continue
            shape, values = shape_of(kind, M, N, draw.parts() if kind == PARTS else 0), None
            if kind == TARGETS:
                values = draw.targets(M, N)
            elif name not in self.errors:
                values = draw.normal(name, shape)
                values = self.inputs[name](values, self.exact(given)) if name in self.inputs else values
            given[name] = draw.place(name, kind, values, shape)
        return given

    def exact(self, arguments: Mapping) -> SimpleNamespace:
        """The arguments in float64 by name, sums added up, None where there is none."""
        found = dict(zip(self.parameters, self.positional(arguments)))
        for name, array in found.items():
            if hasattr(array, "dtype"):
                found[name] = float64(array).sum(axis=0) if self.parameters[name] == PARTS else float64(array)
        return SimpleNamespace(**found)

    def error(self, arguments: Mapping) -> float:
        """The largest error of all outputs that are there, over what is tolerated."""
        g = self.exact(arguments)
        there = {name: array for name, array in arguments.items() if array is not None}
        return max(check(g, dtype_of(there[name])) for name, check in self.errors.items() if name in there)


def made(module: str, name: str, **types):
    """`Kernel.make` of a class of `kernels.tuned`, which takes as each of `types` the type of the tensor that is named there."""

    def make(r, config, given):
        kernel = getattr(import_module(f"quack_tutorial.kernels.tuned.{module}"), name)
        options = {option: element(given.get(tensor)) for option, tensor in types.items()}
        return kernel(r.element, r.N, r.promise, card=r.card, config=config, **options)

    return make


SOFTMAX = Kernel(
    "softmax",
    made("softmax", "Softmax"),
    {"x": MATRIX, "out": MATRIX},
    {"out": lambda g, dtype: qt.reference.softmax_error(g.x, g.out, dtype)},
    inputs={"x": lambda normal, g: 4 * normal},
)
SOFTMAX_BACKWARD = Kernel(
    "softmax backward",
    made("softmax", "SoftmaxBackward"),
    {"y": MATRIX, "dy": MATRIX, "dx": MATRIX},
    {"dx": lambda g, dtype: qt.reference.softmax_backward_error(g.y, g.dy, g.dx, dtype)},
    inputs={"y": lambda normal, g: qt.reference.softmax(2 * normal)},
)
RMSNORM = Kernel(
    "rmsnorm",
    made("norm", "RMSNorm", residual="residual"),
    {"x": MATRIX, "w": COLUMNS, "b": COLUMNS, "residual": MATRIX, "out": MATRIX, "h": MATRIX, "rstd": ROWS, "eps": EPS},
    {
        "out": lambda g, dtype: qt.reference.rmsnorm_error(g.x, g.out, dtype, g.w, g.b, g.residual, g.eps),
        "h": lambda g, dtype: qt.reference.sum_error(g.x, g.residual, g.h, dtype),
        "rstd": lambda g, dtype: qt.reference.rmsnorm_rstd_error(g.x, g.rstd, g.residual, g.eps),
    },
    optional=(("w",), ("b",), ("residual", "h"), ("rstd",)),
)


def _quantized(name, host, kind, block):
    """RMSNorm in float8, with a scale of that kind."""

    def error_of(which):
        return lambda g, dtype: getattr(qt.reference, f"rmsnorm_quantized_{which}_error")(
            g.x, g.q if which == "code" else g.scale, g.w, g.residual, g.eps, block
        )

    return Kernel(
        name,
        made("quantized", host, residual="residual"),
        {"x": MATRIX, "w": COLUMNS, "residual": MATRIX, "q": CODES, "scale": kind, "h": MATRIX, "eps": EPS},
        {"q": error_of("code"), "scale": error_of("scale"), "h": RMSNORM.errors["h"]},
        optional=(("w",), ("residual", "h")),
    )


RMSNORM_QUANTIZED = _quantized("rmsnorm-quantized", "RMSNormQuantized", ROWS, None)
RMSNORM_QUANTIZED_BLOCKS = _quantized("rmsnorm-quantized blocks", "RMSNormQuantizedBlocks", SCALES, SCALE_COLUMNS)
# Where x had a residual, x is h here, and dh the gradient that reaches it by other ways.
RMSNORM_BACKWARD = Kernel(
    "rmsnorm backward",
    made("norm_backward", "RMSNormBackward", weight_dtype="w"),
    {"x": MATRIX, "w": COLUMNS, "dy": MATRIX, "dh": MATRIX, "rstd": ROWS, "dx": MATRIX, "dw": PARTS, "db": PARTS},
    {
        "dx": lambda g, dtype: qt.reference.rmsnorm_dx_error(g.x, g.dy, g.dx, dtype, g.w, g.dh, g.rstd),
        "dw": lambda g, dtype: qt.reference.rmsnorm_dw_error(g.x, g.dy, g.dw, dtype, g.rstd),
        "db": lambda g, dtype: qt.reference.rmsnorm_db_error(g.dy, g.db, dtype),
    },
    optional=(("w",), ("dh",), ("dw",), ("db",)),
    inputs={"rstd": lambda normal, g: qt.reference.rmsnorm_rstd(g.x, eps=EPS)},
)
LAYERNORM = Kernel(
    "layernorm",
    made("norm", "LayerNorm"),
    {"x": MATRIX, "w": COLUMNS, "b": COLUMNS, "out": MATRIX, "mean": ROWS, "rstd": ROWS, "eps": EPS},
    {
        "out": lambda g, dtype: qt.reference.layernorm_error(g.x, g.out, dtype, g.w, g.b, g.eps),
        "mean": lambda g, dtype: qt.reference.layernorm_stats_error(g.x, g.mean, g.rstd, g.eps),
        "rstd": lambda g, dtype: qt.reference.layernorm_stats_error(g.x, g.mean, g.rstd, g.eps),
    },
    optional=(("w",), ("b",), ("mean", "rstd")),
    inputs={"x": lambda normal, g: normal + 1},
)
LAYERNORM_BACKWARD = Kernel(
    "layernorm backward",
    made("norm_backward", "LayerNormBackward", weight_dtype="w"),
    {"x": MATRIX, "w": COLUMNS, "dy": MATRIX, "mean": ROWS, "rstd": ROWS, "dx": MATRIX, "dw": PARTS, "db": PARTS},
    {
        "dx": lambda g, dtype: qt.reference.layernorm_dx_error(g.x, g.dy, g.dx, dtype, g.w, g.mean, g.rstd),
        "dw": lambda g, dtype: qt.reference.layernorm_dw_error(g.x, g.dy, g.dw, dtype, g.mean, g.rstd),
        "db": lambda g, dtype: qt.reference.rmsnorm_db_error(g.dy, g.db, dtype),
    },
    optional=(("w",), ("dw",), ("db",)),
    inputs={
        "x": lambda normal, g: normal + 1,
        "mean": lambda normal, g: qt.reference.layernorm_stats(g.x, EPS)[0],
        "rstd": lambda normal, g: qt.reference.layernorm_stats(g.x, EPS)[1],
    },
)


def _gradient_error(g, dloss, lse, dtype):
    """Rows whose target is no column are NaN, which the reference does not say."""
    column = (g.target >= 0) & (g.target < g.x.shape[1]) | (g.target == g.ignore_index)
    if not np.isnan(g.dx[~column]).all():
        return np.inf
    dloss, lse = np.broadcast_to(dloss, g.target.shape), None if lse is None else lse[column]
    of = g.x[column], g.target[column], dloss[column], g.dx[column]
    return qt.reference.cross_entropy_backward_error(*of, dtype, lse, g.ignore_index)


def _scaled(g):
    """What multiplies a row's gradient: dloss, or its product with `scale`, which is a float32 number too."""
    return g.dloss if g.scale is None else np.float32(g.dloss) * np.float32(g.scale)


_ERRORS = {
    "loss": lambda g, dtype: qt.reference.cross_entropy_error(g.x, g.target, g.loss, dtype, g.ignore_index),
    "lse": lambda g, dtype: qt.reference.logsumexp_error(g.x, g.lse),
}
_LOGITS = {"x": lambda normal, g: 3 * normal}
CROSS_ENTROPY = Kernel(
    "cross-entropy",
    made("cross_entropy", "CrossEntropy"),
    {"x": MATRIX, "target": TARGETS, "loss": ROWS, "lse": ROWS, "ignore_index": IGNORE_INDEX},
    _ERRORS,
    optional=(("lse",),),
    inputs=_LOGITS,
)
CROSS_ENTROPY_BACKWARD = Kernel(
    "cross-entropy backward",
    made("cross_entropy", "CrossEntropyBackward"),
    {
        "x": MATRIX,
        "target": TARGETS,
        "dloss": STRIDED_ROWS,
        "lse": ROWS,
        "dx": MATRIX,
        "scale": SCALE,
        "ignore_index": IGNORE_INDEX,
    },
    {"dx": lambda g, dtype: _gradient_error(g, _scaled(g), g.lse, dtype)},
    optional=(("scale",),),
    inputs=_LOGITS | {"lse": lambda normal, g: qt.reference.logsumexp(g.x)},
)
CROSS_ENTROPY_FUSED = Kernel(
    "cross-entropy fused",
    made("cross_entropy", "CrossEntropyFused"),
    {"x": MATRIX, "target": TARGETS, "loss": ROWS, "lse": ROWS, "dx": MATRIX, "ignore_index": IGNORE_INDEX},
    _ERRORS | {"dx": lambda g, dtype: _gradient_error(g, 1.0, None, dtype)},
    optional=(("lse",),),
    inputs=_LOGITS,
)


def topk(k: int | None = None, softmax: bool = False) -> Kernel:
    """Top-k, with softmax of the values in place of them or not; None: the usual k for N."""
    values, indices = Best(k), Best(k, "int64")

    def make(r, config, given):
        from quack_tutorial.kernels.tuned.topk import topk

        return topk(r.element, r.N, r.promise, k=values.count(r.N), softmax=softmax, config=config)

    return Kernel(
        "topk",
        make,
        {"x": MATRIX, "values": values, "indices": indices},
        {
            "values": lambda g, dtype: qt.reference.topk_error(g.x, g.values, dtype, softmax),
            "indices": lambda g, dtype: qt.reference.topk_indices_error(g.x, g.indices),
        },
    )


_ALL = (SOFTMAX, SOFTMAX_BACKWARD, RMSNORM, RMSNORM_BACKWARD, LAYERNORM, LAYERNORM_BACKWARD)
_ALL += (CROSS_ENTROPY, CROSS_ENTROPY_BACKWARD, CROSS_ENTROPY_FUSED)
# Those that spread rows of any length by the rule, as suites have recorded them.
KERNELS = {kernel.name: kernel for kernel in _ALL}
# Not recorded yet.
QUANTIZED = {kernel.name: kernel for kernel in (RMSNORM_QUANTIZED, RMSNORM_QUANTIZED_BLOCKS)}
