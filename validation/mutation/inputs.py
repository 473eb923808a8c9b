"""What suite `mutation` runs the kernels on: small, ragged, and so chosen that together they execute every line.

Few threads, several rows a block of which the last do not exist, rows that end in the middle of a vector or begin there,
rows with a gap behind them and without, several warps a row, clusters, several turns of a block. float32, since what
is mutated does not depend on the type; `compiled` has some of them in float16, too.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace

import numpy as np

from quack_tutorial import reference
from quack_tutorial.kernels import copy
from quack_tutorial.kernels.config import Config
from quack_tutorial.kernels.reduce import ClusterReduce
from quack_tutorial.kernels.rmsnorm_quantized import RMSNormQuantizedLanes
from quack_tutorial.kernels.tuned.sums import ColumnSum, LossReduction
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.shipped import (
    CODES,
    COLUMNS,
    KERNELS,
    MATRIX,
    PARTS,
    QUANTIZED,
    RMSNORM_QUANTIZED,
    TARGETS,
    element,
    type_of,
)
from validation import outputs
from validation.mutation import kernels as mutation_kernels
from validation.outputs import Case
from validation.rows import STREAMING

IGNORED = -100
# Threads a row, threads a block, blocks a row: 34 warps, that agree in two steps.
MANY_WARPS = (544, 544, 2)


def cases() -> list[Case]:
    """All kernels of the package, and those of this suite."""
    return [*rungs(), *tile_copies(), *ships(), *more(), *sums(), *losses(), *of_this_suite(), *asynchronous()]


# From which numbers of a kernel's arguments are drawn; an argument that is not named has a seed of its own too.
SEEDS = {"x": 5, "w": 6, "b": 7, "residual": 8, "dy": 9, "dh": 10, "dloss": 12}

ALONE = dict(dtype="float16", vectors="float16", absent=("b", "residual", "rstd"))
HALF = dict(dtype="float16", count=2)
# What is more than `configs` have: operations, spread, M, N, how rows start, how else `Draw` differs.
MORE = (
    # A row is read again from shared memory, in more than one part, the last of them not whole.
    ("softmax", (32, 32, 1, 1), 2, 1240),
    ("softmax", (64, 64, 2, 1), 2, 2200),
    ("cross-entropy fused", (32, 32, 1, 1), 7, 1240),
    ("cross-entropy fused", (64, 64, 2, 1), 7, 2200),
    # Blocks of 128 columns: of a warp with one row, of two warps, of two blocks whose last warps have none.
    ("rmsnorm-quantized blocks", (32, 64), 5, 384),
    ("rmsnorm-quantized blocks", (64, 64, 2), 3, 896),
    # More warps than one warp has lanes.
    ("softmax", MANY_WARPS, 1, 1000),
    ("rmsnorm backward, layernorm backward", MANY_WARPS, 3, 1000, dict(count=1)),
    # A thread has parts of two rows, and the last block one row too few.
    ("rmsnorm, layernorm", (8, 32, 1, 0, 2), 15, 64),
    # Rows come through shared memory; backward ahead, in one block and in two, at last more stages than rows.
    ("layernorm", (64, 64, 1, 1), 9, 404),
    ("layernorm", (64, 64, 2, 1), 9, 1032),
    ("rmsnorm, rmsnorm backward, layernorm backward", (64, 64, 1, 2), 9, 400),
    ("rmsnorm, rmsnorm backward, layernorm backward", (64, 64, 2, 3), 9, 1024),
    ("rmsnorm, rmsnorm backward, layernorm backward", (64, 64, 1, 3), 2, 256),
    ("rmsnorm", (64, 64, 1, 1), 9, 512),
    # The only stage is free once the row has been read, and weights stay in shared memory; three turns, none for the last block.
    ("rmsnorm backward, layernorm backward", (32, 32, 1, 1), 5, 640, dict(count=2)),
    ("rmsnorm backward", (32, 32, 1, 1), 5, 640, dict(count=6)),
    ("rmsnorm backward, layernorm backward", (64, 64, 2, 1), 5, 2560, dict(count=2)),
    # Several rows in a turn: of a warp each, of half a warp, of two warps; the last block's last row is not there.
    ("rmsnorm backward, layernorm backward", (32, 64), 9, 128, dict(count=2, gap=4)),
    ("rmsnorm backward, layernorm backward", (16, 64), 19, 200, dict(count=2, gap=4)),
    ("rmsnorm backward, layernorm backward", (64, 128), 9, 400, dict(count=2, gap=4)),
    # Weights of 16 bits are shifted to where rows begin; the last vector of 301 is not whole.
    ("rmsnorm", (8, 32, 1), 9, 70, "congruent", ALONE | dict(gap=1)),
    ("rmsnorm", (32, 64, 1), 9, 301, "congruent", ALONE),
    ("rmsnorm", (32, 32, 2), 9, 520, "congruent", ALONE | dict(gap=3)),
    ("layernorm", (32, 64), 9, 301, "congruent", dict(dtype="float16", vectors="float16")),
    # A vector of 16 bits has two quads of sums.
    ("rmsnorm backward", (8, 32), 9, 64, HALF),
    ("rmsnorm backward", (2, 32), 9, 8, HALF),
    # Rows that start anywhere, more than their 8 blocks have stages: of one block, and of two.
    ("rmsnorm backward", (32, 32, 1, 2), 26, 301, "congruent", HALF | dict(count=8)),
    ("rmsnorm backward", (32, 32, 2, 3), 34, 523, "congruent", HALF | dict(count=8)),
)


@dataclass(frozen=True)
class Draw:
    """A kernel's arguments, see `Kernel.arguments`: all that it can be given but for `absent`, in float32 or float16."""

    gap: int = 0
    dtype: str = "float32"
    vectors: str = "float32"
    count: int = 4
    absent: tuple = ()
    ignored: int = IGNORED

    def has(self, group) -> bool:
        return group[0] not in self.absent

    def parts(self) -> int:
        return self.count

    def normal(self, name, shape):
        return np.random.default_rng(SEEDS.get(name, 2)).standard_normal(shape)

    def targets(self, M, N):
        """Among them one to ignore, one too large, one negative; the last row's is a column."""
        return np.array([N, self.ignored, 0, -3, N // 2, 1, N - 1], np.int64)[-M:]

    def place(self, name, kind, values, shape):
        if kind == TARGETS:
            return values
        dtype = type_of(kind, self.vectors if kind == COLUMNS else self.dtype)
        values = np.full(shape, 77) if values is None else values
        return _with_gap(values.astype(dtype), self.gap) if kind in (MATRIX, CODES) else values.astype(dtype)


def shipped(operation, spread, M, N, rows="aligned", **how):
    """A case of a kernel that ships, spread as the first numbers of a `Config` say; of one that streams the fourth are vectors."""
    kernel, draw = (KERNELS | QUANTIZED)[operation], Draw(**how)

    def given():
        numbers = {"ignore_index": draw.ignored} if "target" in kernel.parameters else {}
        return kernel.arguments(M, N, draw) | numbers

    fourth = "vectors_at_once" if operation in STREAMING else "stages"
    config = Config(*spread[:3], **dict(zip((fourth, "rows_each", "blocks_together"), spread[3:])))
    host = kernel.host(given(), rows, config)
    return Case(
        f"{operation}({M} x {N}, {rows}, {spread}{''.join(f', {name} {value}' for name, value in how.items())})",
        host,
        lambda: kernel.positional(given()),
        lambda found: outputs.error(kernel, dict(zip(kernel.parameters, found, strict=True))),
    )


def ships(dtype="float32"):
    """Every kernel that ships, spread in all ways of `configs`."""
    half = dtype == "float16"
    for operation, kernel in (KERNELS | {RMSNORM_QUANTIZED.name: RMSNORM_QUANTIZED}).items():
        for spread, N, gap, rows in configs():
            if half and rows == "aligned" and (N + gap) % 8:
                continue
            how = dict(gap=gap) | (dict(dtype=dtype) if half else {})
            if operation in STREAMING:
                if spread[2] > 1:
                    continue
                spread = *spread, 2
            if "target" in kernel.parameters:
                how["ignored"] = 3 if rows == "aligned" else IGNORED  # one of the columns, or none
            sums = PARTS in kernel.parameters.values()
            for count in (4, 2) if sums and rows == "aligned" else (8 if half else 4,):
                yield shipped(
                    operation, spread, 9 if sums else 7, N, rows, **how, **(dict(count=count) if sums else {})
                )


def more():
    """Those of `MORE`, and the version that has a scale for each block."""
    blocks = SimpleNamespace(kernel=QUANTIZED["rmsnorm-quantized blocks"], arguments="x w q scale eps".split())
    yield from rung(blocks, RMSNormQuantizedLanes, 384)
    for operations, spread, M, N, *rest in MORE:
        for operation in operations.split(", "):
            rows, how = (*rest, "aligned", {})[:2] if rest and isinstance(rest[0], str) else ("aligned", *rest, {})[:2]
            yield shipped(operation, spread, M, N, rows, **how)


def numbers(seed, *shape, gap=0, spread=1):
    """Normally distributed float32; `gap` elements lie between rows."""
    x = np.random.default_rng(seed).standard_normal((*shape[:-1], shape[-1] + gap)).astype(np.float32) * spread
    return x[..., : shape[-1]]


def poisoned(*shape, gap=0):
    return np.full((*shape[:-1], shape[-1] + gap), 77, np.float32)[..., : shape[-1]]


def differs(one, other):
    return 0.0 if np.array_equal(one, other) else np.inf


def configs():
    """(threads a row, threads a block, blocks a row) with a number of columns, a gap and a promise for each."""
    return (
        ((8, 32, 1), 64, 0, "aligned"),
        ((8, 32, 1), 68, 0, "aligned"),
        ((8, 32, 1), 70, 2, "aligned"),
        ((8, 32, 1), 71, 0, "congruent"),
        ((8, 32, 1), 45, 0, "any"),
        ((64, 128, 1), 516, 4, "aligned"),
        ((96, 192, 1), 390, 0, "any"),
        ((64, 64, 1), 257, 0, "congruent"),
        ((64, 64, 2), 518, 2, "aligned"),
        ((64, 64, 2), 519, 0, "congruent"),
        ((96, 96, 2), 1536, 0, "aligned"),
    )


@dataclass(frozen=True)
class DrawOfRung(Draw):
    """The arguments of a version of a ladder, all that it takes."""

    host: object = None
    M: int = 0

    def parts(self) -> int:
        if hasattr(self.host, "most_parts"):
            # Of a kernel that ships: so many that a block's rows start alike.
            return self.host.parts_of(self.M, 8)
        return min(2, self.host.parts_of(self.M, 1)) if hasattr(self.host, "parts_of") else 1

    def targets(self, M, N):
        return np.array([0, N - 1, 7, N // 2, 1], np.int64)[:M]

    def place(self, name, kind, values, shape):
        if kind == PARTS and not self.host.leaves_parts:
            values = np.zeros(shape)  # which the kernel adds to
        return super().place(name, kind, values, shape)


def rungs(dtype="float32", operations=tuple(OPERATIONS)):
    """Every version of their ladders: on rows of one tile, on ragged ones, and those that spread a row over a cluster on such."""
    for name in operations:
        operation = OPERATIONS[name]
        if not operation.ladder:
            continue
        family, _, backward = name.partition(" ")
        module = import_module(f"quack_tutorial.kernels.{family.replace('-', '_')}")
        for version, make in getattr(module, "BACKWARD_LADDER" if backward else "LADDER", {}).items():
            takes = inspect.signature(make).parameters
            for N in (16, 41, 302):
                yield from rung(operation.ladder[version], make, N, dtype)
            if "block_bytes" in takes:
                yield from rung(operation.ladder[version], make, 1016, dtype, block_bytes=2048)


def rung(ours, make, N, dtype="float32", M=5, **options):
    """A case of a version of a ladder, unless it takes no rows of this length."""
    try:
        host = make(element(dtype), N, **options)
    except ValueError:  # it moves whole vectors
        return
    kernel, draw = ours.kernel, DrawOfRung(dtype=dtype, host=host, M=M)

    def arguments():
        given = kernel.arguments(M, N, draw)
        named = dict(zip(kernel.parameters, kernel.positional(given), strict=True))
        return tuple(named[name] for name in ours.arguments)

    error = lambda found: outputs.error(kernel, dict(zip(ours.arguments, found, strict=True)))  # noqa: E731
    said = "" if dtype == "float32" else f", {dtype}"
    yield Case(f"{type(host).__name__}({M} x {N}{said})", host, arguments, error)


def tile_copies():
    """Of rows that begin anywhere, and of the sum of two."""
    f32 = copy.cutlass.Float32
    for operation, N, gap, rows, reads in (
        ("softmax", 70, 2, "aligned", 1),
        ("softmax backward", 301, 0, "congruent", 2),
        ("cross-entropy backward", 5003, 0, "congruent", 1),
    ):
        made = copy.TileCopy(operation, f32, N, rows, reads)

        def arguments(N=N, gap=gap, reads=reads):
            x, y = numbers(13, 5, N, gap=gap), numbers(14, 5, N, gap=gap)
            return x, y if reads == 2 else None, poisoned(5, N, gap=gap)

        error = lambda a: differs(a[2], a[0] if a[1] is None else a[0] + a[1])  # noqa: E731
        yield Case(f"TileCopy(5 x {N}, {rows}, {operation})", made, arguments, error)


def _with_gap(x, gap):
    wide = np.full((len(x), x.shape[1] + gap), 55, x.dtype)
    wide[:, : x.shape[1]] = x
    return wide[:, : x.shape[1]]


def sums():
    """Of columns: of parts that are added up, and of what each block of a cluster has."""
    for M, N in ((11, 40), (140, 65), (40, 1030)):
        arguments = lambda M=M, N=N: (numbers(4, M, N), poisoned(N))  # noqa: E731
        error = lambda a: reference.rmsnorm_db_error(*a, "float32")  # noqa: E731
        yield Case(f"ColumnSum({M} x {N})", ColumnSum(N, element("float32")), arguments, error)
    arguments = lambda: (numbers(4, 3, 301), poisoned(3, 2))  # noqa: E731
    error = lambda a: near(a[1], a[0].sum(axis=1, keepdims=True, dtype=np.float64))  # noqa: E731
    yield Case("ClusterReduce(2)", ClusterReduce(blocks=2, threads_per_block=64), arguments, error)


def losses():
    """The reduction of a batch's losses."""
    for M, mean in ((10000, True), (9000, False)):

        def arguments(M=M, mean=mean):
            generator = np.random.default_rng(21)
            target = np.where(generator.random(M) < 0.3, IGNORED, 5)
            target[-1] = 5  # what a thread reads that has no row left
            values = np.where(target == IGNORED, 0, generator.random(M)).astype(np.float32)
            return values, target if mean else None, poisoned(1), poisoned(1) if mean else None, IGNORED

        def error(a, mean=mean):
            count = np.float64((a[1] != IGNORED).sum()) if mean else 1.0
            wrong = abs(a[2][0] * count / a[0].sum(dtype=np.float64) - 1) / 1e-6
            return max(wrong, abs(a[3][0] * count - 1) / 1e-6) if mean else wrong

        kernel = LossReduction(copy.cutlass.Float32, mean)
        yield Case(f"LossReduction({M}{', mean' if mean else ''})", kernel, arguments, error)


# ---- kernels of this suite -----------------------------------------------------------------------------------------


def of_this_suite():
    def pair(x):
        x = x.astype(np.float64)
        by_warp = x.reshape(len(x), 2, 32)
        return by_warp.max(axis=(1, 2)) + np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1)

    for pairs, wanted in ((False, lambda x: x.sum(axis=1, dtype=np.float64)), (True, pair)):
        arguments = lambda: (numbers(13, 4, 64), poisoned(4, 64))  # noqa: E731
        error = lambda a, wanted=wanted: near(a[1], wanted(a[0])[:, None])  # noqa: E731
        yield Case(f"RowSums({'pairs' * pairs})", mutation_kernels.RowSums(pairs), arguments, error)
    zero = np.zeros(1, np.int32)
    arguments = lambda: (numbers(14, 5, 32), poisoned(5), zero.copy(), poisoned(1))  # noqa: E731
    error = lambda a: max(near(a[3], a[0].sum(dtype=np.float64)), differs(a[2], zero))  # noqa: E731
    yield Case("LastBlock", mutation_kernels.LastBlock(), arguments, error)
    for name, seed, M, factor in (("Handover", 15, 3, 2), ("Mirror", 16, 4, 1)):
        arguments = lambda seed=seed, M=M: (numbers(seed, M, 32), poisoned(M, 32))  # noqa: E731
        error = lambda a, factor=factor: differs(a[1], factor * a[0][:, ::-1])  # noqa: E731
        yield Case(name, getattr(mutation_kernels, name)(), arguments, error)


def near(result, wanted):
    """The largest error over 1e-4; infinite where NaN."""
    return float(np.nan_to_num(np.abs(result - wanted).max(), nan=np.inf)) / 1e-4


def asynchronous():
    x = numbers(0, 3, 512)
    for blocks in (2, 4):
        arguments = lambda blocks=blocks: (x[:2].copy(), poisoned(2, blocks))  # noqa: E731
        error = lambda a: near(a[1], x[:2].astype(np.float64).sum(axis=1, keepdims=True))  # noqa: E731
        yield Case(f"ClusterSum({blocks})", mutation_kernels.ClusterSum(blocks), arguments, error)
    moved = lambda a: differs(a[0], a[1])  # noqa: E731
    yield Case("AsyncCopy()", mutation_kernels.AsyncCopy(), lambda: (numbers(0, 1, 128), poisoned(1, 128)), moved)
    for N in (512, 32):
        arguments = lambda N=N: (numbers(0, 3, N), poisoned(3, N))  # noqa: E731
        yield Case(f"BulkCopy({N})", mutation_kernels.BulkCopy(N), arguments, moved)
