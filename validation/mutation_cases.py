"""What suite `mutation` runs the kernels on: small, ragged, and so chosen that together they execute every line.

Few threads, several rows a block of which the last do not exist, rows that end in the middle of a vector or begin there,
rows with a gap behind them and without, several warps a row, clusters, several turns of a block. float32 throughout: what
is mutated does not depend on the type.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quack_tutorial import reference
from quack_tutorial.simulation import simulate

MAX_STEPS = 200_000
EPS = 1e-6
IGNORED = -100
MANY_WARPS = (544, 544, 2)  # threads a row, threads a block, blocks a row: 34 warps, that agree in two steps


@dataclass(frozen=True)
class Case:
    """A kernel with inputs: `arguments()` gives fresh ones, `error(arguments)` the largest error over what is tolerated."""

    name: str
    function: object
    arguments: object
    error: object

    def run(self, **how):
        """(Run, what is wrong with the outputs or ""); the fast mode raises SimulationError at a wrong access."""
        arguments = self.arguments()
        run = simulate(self.function, *arguments, max_steps=MAX_STEPS, **how)
        with np.errstate(all="ignore"):
            error = self.error(arguments)
        return run, "" if error <= 1 else "the output is wrong"


def cases() -> list[Case]:
    """All kernels of the package, and those of the tests where this is a checkout."""
    return [
        *copies(),
        *tile_copies(),
        *softmaxes(),
        *rmsnorms(),
        *layernorms(),
        *cross_entropies(),
        *losses(),
        *steps(),
        *of_this_suite(),
        *asynchronous(),
    ]


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


# Rows that are read again from shared memory, in more than one part, the last of them not whole: spread and columns.
READ_AGAIN = (((32, 32, 1, 1), 1240), ((64, 64, 2, 1), 2200))


def copies():
    from quack_tutorial.kernels import copy

    f32 = copy.cutlass.Float32
    for N in (100, 33):
        for make in copy.LADDER.values():
            made = make(f32, N)
            name = f"{make.__name__}({N})"
            arguments = lambda N=N: (numbers(1, 6, N), poisoned(6, N))  # noqa: E731
            yield Case(name, made, arguments, lambda a: differs(a[0], a[1]))


def tile_copies():
    """Of rows that begin anywhere, and of the sum of two."""
    from quack_tutorial.kernels.tuned import tile_copy

    f32 = tile_copy.cutlass.Float32
    for operation, N, gap, rows, reads in (
        ("softmax", 70, 2, "aligned", 1),
        ("softmax backward", 301, 0, "congruent", 2),
        ("cross-entropy backward", 5003, 0, "congruent", 1),
    ):
        made = tile_copy.TileCopy(operation, f32, N, rows, reads)

        def arguments(N=N, gap=gap, reads=reads):
            x, y = numbers(13, 5, N, gap=gap), numbers(14, 5, N, gap=gap)
            return x, y if reads == 2 else None, poisoned(5, N, gap=gap)

        error = lambda a: differs(a[2], a[0] if a[1] is None else a[0] + a[1])  # noqa: E731
        yield Case(f"TileCopy(5 x {N}, {rows}, {operation})", made, arguments, error)


def softmaxes():
    from quack_tutorial.kernels import softmax as lessons
    from quack_tutorial.kernels.tuned import softmax
    from quack_tutorial.kernels.tuned.config import Config

    f32 = softmax.cutlass.Float32

    def forward(N, gap, M=5):
        return lambda: (numbers(2, M, N, gap=gap, spread=4), poisoned(M, N, gap=gap))

    def backward(N, gap, M=5):
        y = reference.softmax(numbers(2, M, N)).astype(np.float32)
        return lambda: (_with_gap(y, gap), numbers(3, M, N, gap=gap), poisoned(M, N, gap=gap))

    error = lambda a: reference.softmax_error(*a, "float32")  # noqa: E731
    for made in (lessons.SoftmaxThreePass(64), lessons.SoftmaxOnline(64), lessons.SoftmaxVectors(f32, 150, 64)):
        yield Case(type(made).__name__, made, forward(150, 0, 2), error)
    for spread, N, gap, rows in configs():
        config, said = Config(*spread), f"(5 x {N}, {rows}, {spread}, gap {gap})"
        yield Case("Softmax" + said, softmax.Softmax(f32, N, rows, config), forward(N, gap), error)
        yield Case(
            "SoftmaxBackward" + said,
            softmax.SoftmaxBackward(f32, N, rows, config),
            backward(N, gap),
            lambda a: reference.softmax_backward_error(*a, "float32"),
        )
    for spread, N in READ_AGAIN:
        made = softmax.Softmax(f32, N, config=Config(*spread))
        yield Case(f"Softmax(2 x {N}, {spread})", made, forward(N, 0, 2), error)
    made = softmax.Softmax(f32, 1000, config=Config(*MANY_WARPS))
    yield Case(f"Softmax(1 x 1000, {MANY_WARPS})", made, forward(1000, 0, 1), error)


def _with_gap(x, gap):
    wide = np.full((len(x), x.shape[1] + gap), 55, x.dtype)
    wide[:, : x.shape[1]] = x
    return wide[:, : x.shape[1]]


def rmsnorms():
    from quack_tutorial.kernels import rmsnorm as lessons
    from quack_tutorial.kernels.tuned import norm_backward, rmsnorm
    from quack_tutorial.kernels.tuned.config import Config, of_fields
    from quack_tutorial.kernels.tuned.rmsnorm_backward import rmsnorm_backward

    def backward(dtype, N, rows, spread):
        return rmsnorm_backward(dtype, N, rows, rmsnorm.cutlass.Float32, of_fields("rmsnorm backward", spread))

    f32 = rmsnorm.cutlass.Float32
    # One row a block, equal pieces of whole vectors: rows come ahead through shared memory; at last more stages than rows.
    ahead = (
        ((64, 64, 1, 2), 400, 0, "aligned"),
        ((64, 64, 2, 3), 1024, 0, "aligned"),
        ((64, 64, 1, 3), 256, 0, "aligned"),
        # The next row comes ahead in registers; there are parts without a row.
        ((64, 64, 1, 1), 512, 0, "aligned"),
        ((64, 64, 1, 1), 256, 0, "aligned"),
    )
    for spread, N, gap, rows in configs() + ahead:
        M = 2 if len(spread) == 4 and N == 256 else 9
        config, said = Config(*spread), f"({M} x {N}, {rows}, {spread}, gap {gap})"
        made = rmsnorm.RMSNorm(
            f32, N, rows, weight=f32, bias=f32, residual=f32, residual_out=f32, rstd=True, config=config
        )
        yield Case("RMSNorm" + said, made, _rmsnorm_arguments(M, N, gap), _rmsnorm_error)
        for parts in (4, 2) if rows == "aligned" else (4,):
            made = backward(f32, N, rows, spread)
            yield Case(
                f"RMSNormBackward{said[:-1]}, {parts} parts)",
                made,
                _rmsnorm_backward_arguments(M, N, gap, parts),
                _rmsnorm_backward_error,
            )
    # A thread has parts of two rows, and the last block one row too few.
    several = (8, 32, 1, 0, 2)
    made = rmsnorm.RMSNorm(
        f32, 64, weight=f32, bias=f32, residual=f32, residual_out=f32, rstd=True, config=Config(*several)
    )
    yield Case(f"RMSNorm(15 x 64, {several})", made, _rmsnorm_arguments(15, 64, 0), _rmsnorm_error)
    # Through shared memory without a word to L2.
    made = backward(f32, 400, "aligned", (64, 64, 1, 2))
    made.tile.hint = None
    arguments = _rmsnorm_backward_arguments(5, 400, 0, 2)
    yield Case("RMSNormBackward(5 x 400, 2 parts, not kept)", made, arguments, _rmsnorm_backward_error)
    # A row leaves its place in shared memory for registers, and the weights stay there; three turns, and none for the last block.
    for spread, N, parts in (((32, 32, 1, 1), 640, 2), ((32, 32, 1, 1), 640, 6), ((64, 64, 2, 1), 2560, 2)):
        made = backward(f32, N, "aligned", spread)
        arguments = _rmsnorm_backward_arguments(5, N, 0, parts)
        yield Case(f"RMSNormBackward(5 x {N}, {spread}, {parts} parts)", made, arguments, _rmsnorm_backward_error)
    # Several rows in a stage: of a warp each, of half a warp, of two warps; the last block's last row is not there.
    for spread, N in (((32, 64, 1, 2), 128), ((16, 64, 1, 3), 200), ((64, 128, 1, 2), 400)):
        made = backward(f32, N, "aligned", spread)
        M = 5 * spread[1] // spread[0] - 1
        arguments = _rmsnorm_backward_arguments(M, N, 4, 2)
        yield Case(f"RMSNormBackward({M} x {N}, {spread}, 2 parts)", made, arguments, _rmsnorm_backward_error)
    # More warps than one warp has lanes.
    made = backward(f32, 1000, "aligned", MANY_WARPS)
    arguments = _rmsnorm_backward_arguments(3, 1000, 0, 1)
    yield Case(f"RMSNormBackward(3 x 1000, {MANY_WARPS}, 1 part)", made, arguments, _rmsnorm_backward_error)
    # Weights of 16 bits are shifted to where rows begin; the last vector of 301 is not whole.
    f16 = rmsnorm.cutlass.Float16
    for spread, N, gap in (((8, 32, 1), 70, 1), ((32, 64, 1), 301, 0), ((32, 32, 2), 520, 3)):
        made = rmsnorm.RMSNorm(f16, N, "congruent", weight=f16, config=Config(*spread))
        said = f"RMSNorm(9 x {N}, float16, congruent, {spread}, gap {gap})"
        yield Case(said, made, _half_rmsnorm_arguments(9, N, gap), _half_rmsnorm_error)
    # A vector of 16 bits has two quads of sums, and a row so short has no room for gaps between them.
    for spread, N, said in (((8, 32), 64, "(8, 32, 1)"), ((2, 32, 1, 2), 8, "(2, 32, 1, 2)")):
        made = backward(f16, N, "aligned", spread)
        arguments = _half_rmsnorm_backward_arguments(9, N, 2)
        yield Case(f"RMSNormBackward(9 x {N}, float16, {said}, 2 parts)", made, arguments, _half_rmsnorm_backward_error)
    # Rows that start anywhere, more than their 8 blocks have stages: of one block, and of two.
    for spread, M, N in (((32, 32, 1, 2), 26, 301), ((32, 32, 2, 3), 34, 523)):
        made = backward(f16, N, "congruent", spread)
        arguments = _half_rmsnorm_backward_arguments(M, N, 8)
        said = f"RMSNormBackward({M} x {N}, float16, congruent, {spread}, 8 parts)"
        yield Case(said, made, arguments, _half_rmsnorm_backward_error)
    for M, N in ((11, 40), (140, 65), (40, 1030)):
        arguments = lambda M=M, N=N: (numbers(4, M, N), poisoned(N))  # noqa: E731
        error = lambda a: reference.rmsnorm_db_error(*a, "float32")  # noqa: E731
        yield Case(f"ColumnSum({M} x {N})", norm_backward.ColumnSum(N, f32), arguments, error)
    made = lessons.RMSNormBackwardAtomics(f32, 302, threads_per_block=64)
    yield Case("RMSNormBackwardAtomics(9 x 302)", made, _atomics_arguments, _atomics_error)


def _atomics_arguments():
    x = numbers(5, 9, 302)
    rstd = reference.rmsnorm_rstd(x, eps=EPS).astype(np.float32)
    return x, numbers(6, 302), numbers(9, 9, 302), rstd, poisoned(9, 302), np.zeros((1, 302), np.float32)


def _atomics_error(a):
    x, w, dy, rstd, dx, dw = a
    of_dx = reference.rmsnorm_dx_error(x, dy, dx, "float32", weight=w, rstd=rstd)
    return max(of_dx, reference.rmsnorm_dw_error(x, dy, dw[0].astype(np.float64), "float32", rstd=rstd))


def layernorms():
    """Forward and backward as RMSNorm's, and the versions of the ladder."""
    from quack_tutorial.kernels import layernorm as lessons
    from quack_tutorial.kernels.tuned import layernorm
    from quack_tutorial.kernels.tuned.config import Config, of_fields
    from quack_tutorial.kernels.tuned.layernorm_backward import layernorm_backward

    f32, f16 = layernorm.cutlass.Float32, layernorm.cutlass.Float16
    through = (((64, 64, 1, 1), 404, 0, "aligned"), ((64, 64, 2, 1), 1032, 0, "aligned"))
    for spread, N, gap, rows in configs() + through:
        made = layernorm.LayerNorm(f32, N, rows, f32, f32, stats=True, config=Config(*spread))
        said = f"LayerNorm(9 x {N}, {rows}, {spread}, gap {gap})"
        yield Case(said, made, _layernorm_arguments(9, N, gap), _layernorm_error)
    several = (8, 32, 1, 0, 2)
    made = layernorm.LayerNorm(f32, 64, weight=f32, bias=f32, stats=True, config=Config(*several))
    yield Case(f"LayerNorm(15 x 64, {several})", made, _layernorm_arguments(15, 64, 0), _layernorm_error)
    # Weights of 16 bits are shifted to where rows begin.
    made = layernorm.LayerNorm(f16, 301, "congruent", f16, f16, stats=True, config=Config(32, 64))
    yield Case(
        "LayerNorm(9 x 301, float16, congruent)", made, _layernorm_arguments(9, 301, 0, np.float16), _layernorm_error
    )
    ahead = (
        ((64, 64, 1, 2), 400, 0, "aligned"),
        ((64, 64, 2, 3), 1024, 0, "aligned"),
        ((64, 64, 1, 3), 256, 0, "aligned"),
        ((64, 64, 1, 1), 512, 0, "aligned"),
        ((32, 32, 1, 1), 640, 0, "aligned"),  # a row without room for another
        ((64, 64, 2, 1), 2560, 0, "aligned"),
        ((32, 64, 1, 2), 128, 4, "aligned"),  # several rows in a stage: of a warp each, of half a warp, of two warps
        ((16, 64, 1, 3), 200, 4, "aligned"),
        ((64, 128, 1, 2), 400, 4, "aligned"),
        (MANY_WARPS, 1000, 0, "aligned"),
    )
    for spread, N, gap, rows in configs() + ahead:
        M = 2 if N == 512 else 5 * spread[1] // spread[0] - 1
        parts = 4 if rows == "congruent" or M == 2 else 2  # more than there are rows, too
        made = layernorm_backward(f32, N, rows, f32, of_fields("layernorm backward", spread))
        arguments = _layernorm_backward_arguments(M, N, gap, parts)
        said = f"LayerNormBackward({M} x {N}, {rows}, {spread}, gap {gap}, {parts} parts)"
        yield Case(said, made, arguments, _layernorm_backward_error)
    for name, make in lessons.LADDER.items():
        options = {"threads_per_block": 64} if name != "block" else {}
        N = 301 if name == "block" else 302
        arguments = lambda N=N: (numbers(5, 3, N) + 1, numbers(6, N), numbers(7, N), poisoned(3, N), EPS)  # noqa: E731
        error = lambda a: reference.layernorm_error(a[0], a[3], "float32", a[1], a[2], EPS)  # noqa: E731
        yield Case(f"{name}, LayerNorm(3 x {N})", make(f32, N, **options), arguments, error)


def _layernorm_arguments(M, N, gap, dtype=np.float32):
    def arguments():
        x, out = _with_gap((numbers(5, M, N) + 1).astype(dtype), gap), _with_gap(poisoned(M, N).astype(dtype), gap)
        return x, numbers(6, N).astype(dtype), numbers(7, N).astype(dtype), out, poisoned(M), poisoned(M), EPS

    return arguments


def _layernorm_error(a):
    x, w, b, out, mean, rstd, _ = a
    of_out = reference.layernorm_error(x, out, str(x.dtype), w, b, EPS)
    return max(of_out, reference.layernorm_stats_error(x, mean, rstd, EPS))


def _layernorm_backward_arguments(M, N, gap, parts):
    x = numbers(5, M, N) + 1
    mean, rstd = (one.astype(np.float32) for one in reference.layernorm_stats(x, EPS))

    def arguments():
        dw, db = (poisoned(parts, N) for _ in range(2))
        dy, dx = numbers(9, M, N, gap=gap), poisoned(M, N, gap=gap)
        return _with_gap(x, gap), numbers(6, N), dy, mean, rstd, dx, dw, db

    return arguments


def _layernorm_backward_error(a):
    x, w, dy, mean, rstd, dx, dw, db = a
    return max(
        reference.layernorm_dx_error(x, dy, dx, "float32", w, mean, rstd),
        reference.layernorm_dw_error(x, dy, dw.astype(np.float64).sum(axis=0), "float32", mean, rstd),
        reference.rmsnorm_db_error(dy, db.astype(np.float64).sum(axis=0), "float32"),
    )


def steps():
    """The first versions of RMSNorm and cross-entropy; a thread that adds up a whole row is exact enough for a short one."""
    from quack_tutorial.kernels import cross_entropy, rmsnorm

    f32 = rmsnorm.cutlass.Float32
    for made, N in (
        (rmsnorm.RMSNormThread(), 41),
        (rmsnorm.RMSNormBlock(), 301),
        (rmsnorm.RMSNormVectors(f32, 302, threads_per_block=64), 302),
        (rmsnorm.RMSNormCluster(f32, 1004, block_bytes=2048), 1004),
    ):
        arguments = lambda N=N: (numbers(5, 3, N), numbers(6, N), poisoned(3, N), EPS)  # noqa: E731
        error = lambda a: reference.rmsnorm_error(a[0], a[2], "float32", weight=a[1], eps=EPS)  # noqa: E731
        yield Case(f"{type(made).__name__}(3 x {N})", made, arguments, error)
    for made in (cross_entropy.CrossEntropyTwoPass(), cross_entropy.CrossEntropyOnline()):
        arguments = lambda: (numbers(5, 3, 301), np.array([0, 300, 7]), poisoned(3))  # noqa: E731
        error = lambda a: reference.cross_entropy_error(*a)  # noqa: E731
        yield Case(f"{type(made).__name__}(3 x 301)", made, arguments, error)


def _rmsnorm_arguments(M, N, gap):
    def arguments():
        x, w, b, r = numbers(5, M, N, gap=gap), numbers(6, N), numbers(7, N), numbers(8, M, N, gap=gap)
        return x, w, b, r, poisoned(M, N, gap=gap), poisoned(M, N, gap=gap), poisoned(M), EPS

    return arguments


def _rmsnorm_error(a):
    x, w, b, r, out, residual_out, rstd, _ = a
    return max(
        reference.rmsnorm_error(x, out, "float32", weight=w, bias=b, residual=r, eps=EPS),
        reference.rmsnorm_rstd_error(x, rstd, residual=r, eps=EPS),
        differs(residual_out, x + r),
    )


def _half_rmsnorm_arguments(M, N, gap):
    def arguments():
        x, w, out = (
            _with_gap(numbers(5, M, N).astype(np.float16), gap),
            numbers(6, N),
            np.full((M, N + gap), np.nan, np.float16),
        )
        return x, w.astype(np.float16), None, None, out[:, :N], None, None, EPS

    return arguments


def _half_rmsnorm_error(a):
    return reference.rmsnorm_error(a[0], a[4], "float16", weight=a[1], eps=EPS)


def _rmsnorm_backward_arguments(M, N, gap, parts):
    x = numbers(5, M, N)
    rstd = reference.rmsnorm_rstd(x, eps=EPS).astype(np.float32)

    def arguments():
        w, dy, dh = numbers(6, N), numbers(9, M, N, gap=gap), numbers(10, M, N, gap=gap)
        return _with_gap(x, gap), w, dy, dh, rstd, poisoned(M, N, gap=gap), poisoned(parts, N), poisoned(parts, N)

    return arguments


def _half_rmsnorm_backward_arguments(M, N, parts):
    def arguments():
        x, w, dy, dh, rstd, dx, dw, db = _rmsnorm_backward_arguments(M, N, 0, parts)()
        x, dy, dh, dx = (one.astype(np.float16) for one in (x, dy, dh, dx))
        return x, w, dy, dh, reference.rmsnorm_rstd(x, eps=EPS).astype(np.float32), dx, dw, db

    return arguments


def _half_rmsnorm_backward_error(a):
    return _rmsnorm_backward_error(a, "float16")


def _rmsnorm_backward_error(a, dtype="float32"):
    x, w, dy, dh, rstd, dx, dw, db = a
    return max(
        reference.rmsnorm_dx_error(x, dy, dx, dtype, weight=w, dresidual=dh, rstd=rstd),
        reference.rmsnorm_dw_error(x, dy, dw.astype(np.float64).sum(axis=0), "float32", rstd=rstd),
        reference.rmsnorm_db_error(dy, db.astype(np.float64).sum(axis=0), "float32"),
    )


def cross_entropies():
    from quack_tutorial.kernels.tuned import cross_entropy
    from quack_tutorial.kernels.tuned.config import Config

    f32 = cross_entropy.cutlass.Float32
    for spread, N, gap, rows in configs():
        said = f"(6 x {N}, {rows}, {spread}, gap {gap})"
        ignored = 3 if rows == "aligned" else IGNORED  # one of the columns, or none
        if spread[2] == 1:
            config = Config(*spread, vectors_at_once=2)
            made = cross_entropy.CrossEntropy(f32, N, rows, lse=True, config=config)
            yield Case("CrossEntropy" + said, made, _logits(N, gap, ignored, "loss", "lse"), _loss_error)
            made = cross_entropy.CrossEntropyBackward(f32, N, rows, config=config)
            yield Case("CrossEntropyBackward" + said, made, _logits(N, gap, ignored, "backward"), _backward_error)
        made = cross_entropy.CrossEntropyFused(f32, N, rows, lse=True, config=Config(*spread))
        yield Case("CrossEntropyFused" + said, made, _logits(N, gap, ignored, "loss", "lse", "dx"), _fused_error)
    for spread, N in READ_AGAIN:
        made = cross_entropy.CrossEntropyFused(f32, N, lse=True, config=Config(*spread))
        arguments = _logits(N, 0, IGNORED, "loss", "lse", "dx")
        yield Case(f"CrossEntropyFused(6 x {N}, {spread})", made, arguments, _fused_error)


def losses():
    """The reduction of a batch's losses."""
    from quack_tutorial.kernels.tuned import loss

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

        kernel = loss.LossReduction(loss.cutlass.Float32, mean)
        yield Case(f"LossReduction({M}{', mean' if mean else ''})", kernel, arguments, error)


def _logits(N, gap, ignored, *outputs):
    """Six rows of logits; among the targets one to ignore, one too large, one negative; the last row's is a column."""
    target = np.array([N, ignored, 0, -3, N // 2, N - 1], np.int64)

    def arguments():
        x = numbers(11, 6, N, gap=gap, spread=3)
        lse = reference.logsumexp(x).astype(np.float32)
        made = {"loss": [poisoned(6)], "lse": [poisoned(6)], "dx": [poisoned(6, N, gap=gap)]}
        made["backward"] = [numbers(12, 6), lse, *made["dx"], None]
        return x, target.copy(), *(array for name in outputs for array in made[name]), ignored

    return arguments


def _loss_error(a):
    of_loss = reference.cross_entropy_error(a[0], a[1], a[2], "float32", a[-1])
    return max(of_loss, reference.logsumexp_error(a[0], a[3]))


def _backward_error(a):
    return gradient_error(a[0], a[1], a[2], a[4], a[3], a[-1])


def _fused_error(a):
    return max(_loss_error(a), gradient_error(a[0], a[1], 1.0, a[4], None, a[-1]))


def gradient_error(x, target, dloss, dx, lse, ignored):
    """Rows whose target is no column are NaN, which the reference does not say."""
    column = (target >= 0) & (target < x.shape[1]) | (target == ignored)
    if not np.isnan(dx[~column]).all():
        return np.inf
    dloss = np.broadcast_to(dloss, target.shape)
    lse = None if lse is None else lse[column]
    part = dict(lse=lse, ignore_index=ignored)
    of = x[column], target[column], dloss[column], dx[column], str(x.dtype)
    return reference.cross_entropy_backward_error(*of, **part)


# ---- kernels of this suite and of the tests --------------------------------------------------------------------------


def of_this_suite():
    from validation import mutation_kernels

    def spread_over_row(values):
        return np.repeat(values[:, None], 64, axis=1)

    def pair(x):
        x = x.astype(np.float64)
        by_warp = x.reshape(len(x), 2, 32)
        return by_warp.max(axis=(1, 2)) + np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1)

    for pairs, wanted in ((False, lambda x: x.sum(axis=1, dtype=np.float64)), (True, pair)):
        yield Case(
            f"RowSums({'pairs' * pairs})",
            mutation_kernels.RowSums(pairs),
            lambda: (numbers(13, 4, 64), poisoned(4, 64)),
            lambda a, wanted=wanted: near(a[1], spread_over_row(wanted(a[0]))),
        )
    yield Case(
        "LastBlock",
        mutation_kernels.LastBlock(),
        lambda: (numbers(14, 5, 32), poisoned(5), np.zeros(1, np.int32), poisoned(1)),
        lambda a: max(near(a[3], a[0].sum(dtype=np.float64)), differs(a[2], np.zeros(1, np.int32))),
    )
    yield Case(
        "Handover",
        mutation_kernels.Handover(),
        lambda: (numbers(15, 3, 32), poisoned(3, 32)),
        lambda a: differs(a[1], 2 * a[0][:, ::-1]),
    )
    yield Case(
        "Mirror",
        mutation_kernels.Mirror(),
        lambda: (numbers(16, 4, 32), poisoned(4, 32)),
        lambda a: differs(a[1], a[0][:, ::-1]),
    )


def near(result, wanted):
    """The largest error over 1e-4; infinite where NaN."""
    return float(np.nan_to_num(np.abs(result - wanted).max(), nan=np.inf)) / 1e-4


def asynchronous():
    from validation import mutation_kernels

    x = numbers(0, 3, 512)
    for blocks in (2, 4):
        sums = np.repeat(x[:2].astype(np.float64).sum(axis=1, keepdims=True), blocks, axis=1)
        yield Case(
            f"ClusterSum({blocks})",
            mutation_kernels.ClusterSum(blocks),
            lambda blocks=blocks: (x[:2].copy(), poisoned(2, blocks)),
            lambda a, sums=sums: near(a[1], sums),
        )
    moved = lambda a: differs(a[0], a[1])  # noqa: E731
    yield Case("AsyncCopy()", mutation_kernels.AsyncCopy(), lambda: (numbers(0, 1, 128), poisoned(1, 128)), moved)
    for N in (512, 32):
        arguments = lambda N=N: (numbers(0, 3, N), poisoned(3, N))  # noqa: E731
        yield Case(f"BulkCopy({N})", mutation_kernels.BulkCopy(N), arguments, moved)
