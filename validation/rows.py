"""Suite `rows`: the row-wise kernels on rows of any length, at any address, in any configuration, against float64.

| part    | cases                                                                                                     |
|---------|-----------------------------------------------------------------------------------------------------------|
| shipped | every line of `kernels.tables`, with the longest row that it serves and with one that is a little shorter |
| random  | seeds: length, kind of rows, address, gap between rows, configuration, type, optional tensors, targets    |

Each case runs on the simulator with all its checks, and no finding may come of it. Outputs must be those of `reference`
within its tolerance, and what lies around them must stay as it was. Types are float32 and float16, which numpy has;
bfloat16 has the vectors of float16.

`reproduce(seed)` says what a random case is and what is wrong with it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from quack_tutorial import reference
from quack_tutorial.kernels.tuned.config import PIPELINED, SPREAD_AS, Config, candidates, of_fields
from quack_tutorial.kernels.tuned.tables import TABLES
from quack_tutorial.records import suite as report
from quack_tutorial.simulation import simulate
from validation.mutation_cases import EPS, IGNORED, gradient_error

SEEDS, SAMPLE_SEEDS, SAMPLE_LINES = 2000, 40, 6
POISON = 55
THREADS = (4, 8, 16, 32, 64, 96, 128, 160, 256)
MOST_HELD = 64  # elements of a row that a thread holds in a random case
VECTOR_BYTES, LINE_BYTES = 16, 128


def run(sample: bool, progress) -> report.Suite:
    """Shipped configurations, then seeds 0, 1, ..."""
    tally = Tally()
    shipped = shipped_cases()
    for case in shipped[:: max(1, len(shipped) // SAMPLE_LINES)] if sample else shipped:
        progress(str(case))
        tally.add("shipped", case, try_case(case))
    for seed in range(SAMPLE_SEEDS if sample else SEEDS):
        case = random_case(seed)
        progress(f"seed {seed}: {case}")
        tally.add("random", case, try_case(case))
    rows = tuple(
        (
            operation,
            *(tally.counts[operation, part] for part in ("shipped", "random")),
            round(tally.errors[operation], 2),
        )
        for operation in SETUPS
    )
    return report.Suite(
        name="rows",
        title="The row-wise kernels at every shipped configuration and at random ones: outputs, bounds, races",
        columns=("operation", "shipped", "random", "largest error"),
        rows=rows,
        mismatches=tuple(tally.mismatches),
        notes=("shipped, random: cases; largest error: over what is tolerated",),
        checked=sum(tally.counts.values()),
    )


def reproduce(seed: int) -> str:
    """What the random case of a seed is, and what is wrong with it."""
    case = random_case(seed)
    error, problems = try_case(case)
    return "\n".join([str(case), f"error {error:.3g} of what is tolerated", *(problems or ["nothing wrong"])])


@dataclass(frozen=True)
class Case:
    """One launch: `before` elements lie between a multiple of 128 bytes and the first row of x, `after` of the output;
    `gap` between rows. The seed is that of the numbers, and of which optional tensors there are."""

    operation: str
    dtype: str
    M: int
    N: int
    rows: str
    config: Config
    before: int
    after: int
    gap: int
    seed: int

    def __str__(self):
        place = f"rows {self.rows}, {self.before} and {self.after} elements before, gap {self.gap}"
        return f"{self.operation} {self.dtype} {self.M} x {self.N}, {place}, {self.config}, seed {self.seed}"


class Tally:
    """What came of the cases."""

    def __init__(self):
        self.counts, self.errors, self.mismatches = Counter(), Counter(), []

    def add(self, part, case, found):
        error, problems = found
        self.counts[case.operation, part] += 1
        self.errors[case.operation] = max(self.errors[case.operation], error)
        self.mismatches += [f"{case}: {problem}" for problem in problems]


# ---- the cases --------------------------------------------------------------------------------------------------------


def shipped_cases() -> list[Case]:
    """Every line of the tables twice: at its limit, and with the next shorter row of its kind."""
    found = []
    for (operation, bits, rows), lines in sorted(TABLES.items()):
        dtype = {32: "float32", 16: "float16"}[bits]
        vector = VECTOR_BYTES * 8 // bits
        for row_bytes, named in lines:
            config, longest = Config(**named), row_bytes * 8 // bits
            through = comes_through_shared_memory(config)
            step = vector * config.blocks_per_row if through else vector
            for N in (longest, longest - (step if rows == "aligned" else 1)):
                gap = 1 if rows == "congruent" and N % vector == 0 else 0
                before = 3 if rows == "congruent" else 0
                in_cluster = config.threads_per_block // config.threads_per_row * max(1, config.blocks_together)
                M = 1 if N > 60_000 else min(in_cluster + 1, 5 * config.rows_each)
                if through and rows == "congruent":
                    # A block goes through more rows than it has stages, and they start alike.
                    M, gap = config.stages + 2, -N % vector
                found.append(Case(operation, dtype, M, N, rows, config, before, before, gap, len(found)))
    return found


def random_case(seed: int) -> Case:
    """The case of a seed."""
    rng = np.random.default_rng([2026, seed])
    operation, dtype = str(rng.choice(list(SETUPS))), str(rng.choice(["float32", "float16"]))
    rows = str(rng.choice(["aligned", "congruent", "any"]))
    vector = VECTOR_BYTES // np.dtype(dtype).itemsize
    N = int(rng.choice([rng.integers(1, 40), rng.integers(40, 400), rng.integers(400, 2600)]))
    config = random_config(rng, operation, N, rows)
    turn = config.threads_per_row * config.blocks_per_row * vector  # elements of a vector a thread
    through = comes_through_shared_memory(config)
    if rows != "congruent" and (through or config.row_ahead):
        N = max(1, N // (vector * config.blocks_per_row)) * vector * config.blocks_per_row
    elif N > turn and rng.random() < 0.5:  # where the last vectors are there for all threads, or just not
        N = N // turn * turn + int(rng.integers(-2, vector + 2))
    before, after, gap = (int(rng.integers(0, high)) for high in (65, 65, 6))
    if rows == "aligned":
        before, after = before // vector * vector, after // vector * vector
        gap = -N % vector + vector * (gap % 3)
    elif rows == "congruent":
        after = before + vector * (after % 9)
    M = int(rng.integers(1, 12))
    if through and rows == "congruent":  # more rows than its 8 blocks have stages
        M += 8 * config.stages
    return Case(operation, dtype, M, N, rows, config, before, after, gap, seed)


def random_config(rng, operation: str, N: int, rows: str) -> Config:
    """Any configuration that leaves a thread few enough elements; now and then one that a sweep would try."""
    operation = spread_as(operation)
    streams = operation in ("cross-entropy", "cross-entropy backward")
    if rng.random() < 0.2:
        tried = [
            c for c in candidates(operation, 32, N) if c.threads_per_block <= 256 and not (c.stages or c.row_ahead)
        ]
        tried = [c for c in tried if c.rows_each == 1 or rows == "aligned"]
        if tried:
            return tried[rng.integers(len(tried))]
    backward = operation == "rmsnorm backward"  # which has more ways to have rows come through shared memory
    copied = rows == "aligned" and operation in PIPELINED or rows == "congruent" and backward and N >= 512
    through = copied and rng.random() < (0.8 if backward else 0.4)
    several = rows == "aligned" and operation == "rmsnorm" and not through and N <= MOST_HELD * 8
    while True:
        threads, blocks = int(rng.choice(THREADS)), 1 if streams else int(rng.choice([1, 1, 1, 2, 4]))
        several_rows = blocks == 1 and (not through or (backward and rows == "aligned"))
        block = threads * int(rng.choice([1, 2, 4])) if several_rows else threads
        ahead = backward and rng.random() < 0.3
        given = int(rng.choice([1, 2, 4])) if streams else int(ahead)  # the fourth of the `NUMBERS`
        each = 1
        if through:
            stages = PIPELINED[operation][1][:2]
            given = int(rng.choice((1, *stages) if backward and rows == "aligned" else stages))
            if backward and rows == "aligned" and N <= MOST_HELD * 8 and rng.random() < 0.6:
                # Several rows a warp, or one.
                threads, blocks, given = int(rng.choice(THREADS[:4])), 1, int(rng.choice(stages))
                block = 32 * int(rng.choice([1, 2, 4]))
        elif several and rng.random() < 0.8:
            threads, blocks, each = int(rng.choice(THREADS[:4])), 1, int(rng.choice([2, 3, 4]))
            block = 32 * int(rng.choice([1, 2, 4]))
        if block % 32 == 0 and block <= 512 and N * each <= MOST_HELD * threads * blocks:
            pairs = blocks == 1 and not through and not backward
            together = int(rng.choice([0, 1, 2, 4] if pairs else [0, 1])) if blocks == 1 else 0
            return of_fields(operation, (threads, block, blocks, given, each, together))


def spread_as(operation: str) -> str:
    """The operation whose ways to spread rows this one has: its own, or another's."""
    return SPREAD_AS.get(operation, operation)


def comes_through_shared_memory(config: Config) -> bool:
    """Whether rows do, which are then cut into equal pieces of whole vectors."""
    return config.stages > 0


# ---- one case ---------------------------------------------------------------------------------------------------------


class Matrices:
    """(M, N) matrices of a case, each in the middle of poisoned elements that a kernel must not touch."""

    def __init__(self, case: Case, rng):
        self.case, self.rng, self.made = case, rng, []

    def new(self, before, values=None):
        """A matrix with `values`, or one to be written, which is NaN."""
        case, dtype = self.case, np.dtype(self.case.dtype)
        stride, line = case.N + case.gap, LINE_BYTES // dtype.itemsize
        flat = np.full(before + case.M * stride + 3 * line, POISON, dtype)
        inside = np.zeros(len(flat), bool)
        first = -flat.ctypes.data // dtype.itemsize % line + before

        def rows_of(array):
            return array[first : first + case.M * stride].reshape(case.M, stride)[:, : case.N]

        rows_of(inside)[...] = True
        rows_of(flat)[...] = np.nan if values is None else values
        self.made.append((flat, inside))
        return rows_of(flat)

    def given(self, spread=1.0):
        """An input of normally distributed numbers."""
        return self.new(self.case.before, self.rng.standard_normal((self.case.M, self.case.N)) * spread)

    def output(self):
        return self.new(self.case.after)

    def vector(self, dtype):
        """A vector (N,) at a multiple of 16 bytes."""
        vector = at_boundary((self.case.N,), dtype)
        vector[...] = self.rng.standard_normal(self.case.N)
        return vector

    def touched(self) -> bool:
        return any((flat[~inside] != POISON).any() for flat, inside in self.made)


def at_boundary(shape, dtype):
    """An array to be written, which is NaN, at a multiple of 16 bytes."""
    count, dtype = int(np.prod(shape)), np.dtype(dtype)
    flat = np.full(count + VECTOR_BYTES, np.nan, dtype)
    return flat[-flat.ctypes.data % VECTOR_BYTES // dtype.itemsize :][:count].reshape(shape)


def try_case(case: Case) -> tuple[float, list[str]]:
    """(error over what is tolerated, what is wrong); whatever the simulator raises is wrong."""
    rng = np.random.default_rng([7, case.seed])
    matrices = Matrices(case, rng)
    try:
        kernel, arguments, error_of = SETUPS[case.operation](case, matrices, rng)
        ran = simulate(kernel, *arguments)
        with np.errstate(all="ignore"):
            error = error_of()
    except Exception as error:  # whatever it is, it is this case's
        return np.inf, [f"{type(error).__name__}: {str(error).splitlines()[0]}"]
    problems = [str(finding).splitlines()[0] for finding in ran.findings]
    problems += ["the output is wrong"] if not error <= 1 else []
    problems += ["it wrote where no row is"] if matrices.touched() else []
    return error, problems


def _type(name):
    from quack_tutorial.kernels.tuned import row_tile as rows

    return {"float32": rows.cutlass.Float32, "float16": rows.cutlass.Float16}[name]


def _some(rng, *choices):
    return choices[rng.integers(len(choices))]


def _softmax(case, matrices, rng):
    from quack_tutorial.kernels.tuned.softmax import Softmax

    x, out = matrices.given(_some(rng, 0, 1, 30)), matrices.output()
    if rng.random() < 0.2:
        x[rng.integers(case.M), rng.integers(case.N)] = -np.inf
    kernel = Softmax(_type(case.dtype), case.N, case.rows, case.config)
    return kernel, (x, out), lambda: reference.softmax_error(x, out, case.dtype)


def _softmax_backward(case, matrices, rng):
    from quack_tutorial.kernels.tuned.softmax import SoftmaxBackward

    y = matrices.new(case.before, reference.softmax(rng.standard_normal((case.M, case.N))))
    dy, dx = matrices.given(), matrices.output()
    kernel = SoftmaxBackward(_type(case.dtype), case.N, case.rows, case.config)
    return kernel, (y, dy, dx), lambda: reference.softmax_backward_error(y, dy, dx, case.dtype)


def _rmsnorm(case, matrices, rng):
    from quack_tutorial.kernels.tuned.rmsnorm import RMSNorm

    weight, bias = (_some(rng, None, case.dtype, "float32", "float16") for _ in range(2))
    residual, rstd = _some(rng, None, case.dtype), _some(rng, None, np.full(case.M, np.nan, np.float32))
    x, w, b = matrices.given(), *(None if one is None else matrices.vector(one) for one in (weight, bias))
    r, out, h = (matrices.given() if residual else None), matrices.output(), (matrices.output() if residual else None)
    types = (None if one is None else _type(one) for one in (weight, bias, residual, residual))
    kernel = RMSNorm(_type(case.dtype), case.N, case.rows, *types, rstd=rstd is not None, config=case.config)

    def error():
        parts = [reference.rmsnorm_error(x, out, case.dtype, weight=w, bias=b, residual=r, eps=EPS)]
        if rstd is not None:
            parts.append(reference.rmsnorm_rstd_error(x, rstd, residual=r, eps=EPS))
        if h is not None:
            parts.append(0.0 if np.array_equal(h, (x.astype(np.float32) + r).astype(x.dtype)) else np.inf)
        return max(parts)

    return kernel, (x, w, b, r, out, h, rstd, EPS), error


def _rmsnorm_backward(case, matrices, rng):
    from quack_tutorial.kernels.tuned.rmsnorm_backward import rmsnorm_backward

    weight = _some(rng, None, case.dtype, "float32")
    h, w = matrices.given(), None if weight is None else matrices.vector(weight)
    dy, dx = matrices.given(), matrices.output()
    rstd = reference.rmsnorm_rstd(h, eps=EPS).astype(np.float32)
    dw, db = _parts(case, rng)
    types = None if weight is None else _type(weight)
    kernel = rmsnorm_backward(_type(case.dtype), case.N, case.rows, weight=types, config=case.config)

    def error():
        found = [reference.rmsnorm_dx_error(h, dy, dx, case.dtype, weight=w, rstd=rstd)]
        if dw is not None:
            found.append(reference.rmsnorm_dw_error(h, dy, dw.astype(np.float64).sum(axis=0), "float32", rstd=rstd))
        if db is not None:
            found.append(reference.rmsnorm_db_error(dy, db.astype(np.float64).sum(axis=0), "float32"))
        return max(found)

    return kernel, (h, w, dy, None, rstd, dx, dw, db), error


def _layernorm(case, matrices, rng):
    from quack_tutorial.kernels.tuned.layernorm import LayerNorm

    weight, bias = (_some(rng, None, case.dtype, "float32", "float16") for _ in range(2))
    x, w, b = matrices.given(), *(None if one is None else matrices.vector(one) for one in (weight, bias))
    x += _some(rng, 0, 3)
    out, (mean, rstd) = matrices.output(), _some(rng, (None, None), np.full((2, case.M), np.nan, np.float32))
    types = (None if one is None else _type(one) for one in (weight, bias))
    kernel = LayerNorm(_type(case.dtype), case.N, case.rows, *types, stats=mean is not None, config=case.config)

    def error():
        of_stats = 0.0 if mean is None else reference.layernorm_stats_error(x, mean, rstd, EPS)
        return max(of_stats, reference.layernorm_error(x, out, case.dtype, w, b, EPS))

    return kernel, (x, w, b, out, mean, rstd, EPS), error


def _layernorm_backward(case, matrices, rng):
    from quack_tutorial.kernels.tuned.layernorm_backward import layernorm_backward

    weight = _some(rng, None, case.dtype, "float32")
    x, w = matrices.given(), None if weight is None else matrices.vector(weight)
    dy, dx = matrices.given(), matrices.output()
    stats = [one.astype(np.float32) for one in reference.layernorm_stats(x, EPS)]
    dw, db = _parts(case, rng)
    types = None if weight is None else _type(weight)
    kernel = layernorm_backward(_type(case.dtype), case.N, case.rows, weight=types, config=case.config)

    def error():
        found = [reference.layernorm_dx_error(x, dy, dx, case.dtype, w, *stats)]
        if dw is not None:
            found.append(reference.layernorm_dw_error(x, dy, dw.astype(np.float64).sum(axis=0), "float32", *stats))
        if db is not None:
            found.append(reference.rmsnorm_db_error(dy, db.astype(np.float64).sum(axis=0), "float32"))
        return max(found)

    return kernel, (x, w, dy, *stats, dx, dw, db), error


def _parts(case, rng):
    """What blocks write of dw and of db, or None."""
    parts = int(rng.integers(1, 9))
    if case.rows == "congruent":  # a block's rows must start alike
        vector = VECTOR_BYTES // np.dtype(case.dtype).itemsize
        parts = 8 if (case.N + case.gap) % vector else 1
    found = (np.full((parts, case.N), np.nan, np.float32) if rng.random() < 0.8 else None for _ in range(2))
    if case.N % 4 == 0 and case.rows == "aligned":  # where parts are written in vectors, they begin where vectors may
        return tuple(None if one is None else at_boundary(one.shape, "float32") for one in found)
    return tuple(found)


def _cross_entropy(case, matrices, rng):
    from quack_tutorial.kernels.tuned.cross_entropy import CrossEntropy

    x, target, loss = matrices.given(3.0), _targets(case, rng), np.full(case.M, np.nan, np.float32)
    lse = _some(rng, None, np.full(case.M, np.nan, np.float32))
    kernel = CrossEntropy(_type(case.dtype), case.N, case.rows, str(target.dtype), lse is not None, case.config)
    return kernel, (x, target, loss, lse, IGNORED), lambda: _loss_error(x, target, loss, lse)


def _cross_entropy_backward(case, matrices, rng):
    from quack_tutorial.kernels.tuned.cross_entropy import CrossEntropyBackward

    x, target, dx = matrices.given(3.0), _targets(case, rng), matrices.output()
    dloss, lse = rng.standard_normal(case.M).astype(np.float32), reference.logsumexp(x).astype(np.float32)
    kernel = CrossEntropyBackward(_type(case.dtype), case.N, case.rows, case.config)
    arguments = x, target, dloss, lse, dx, None, IGNORED
    return kernel, arguments, lambda: gradient_error(x, target, dloss, dx, lse, IGNORED)


def _cross_entropy_fused(case, matrices, rng):
    from quack_tutorial.kernels.tuned.cross_entropy import CrossEntropyFused

    x, target, dx = matrices.given(3.0), _targets(case, rng), matrices.output()
    loss, lse = (np.full(case.M, np.nan, np.float32) for _ in range(2))
    kernel = CrossEntropyFused(_type(case.dtype), case.N, case.rows, True, case.config)

    def error():
        return max(_loss_error(x, target, loss, lse), gradient_error(x, target, 1.0, dx, None, IGNORED))

    return kernel, (x, target, loss, lse, dx, IGNORED), error


def _targets(case, rng):
    """Columns, the last one among them; now and then one to ignore, and one that is no column."""
    target = rng.integers(0, case.N, case.M).astype(_some(rng, np.int64, np.int32))
    target[rng.random(case.M) < 0.2] = IGNORED
    for _ in range(2):
        if rng.random() < 0.3:
            target[rng.integers(case.M)] = _some(rng, -3, case.N, case.N + 7, case.N - 1)
    return target


def _loss_error(x, target, loss, lse):
    of_lse = 0.0 if lse is None else reference.logsumexp_error(x, lse)
    return max(reference.cross_entropy_error(x, target, loss, "float32", IGNORED), of_lse)


SETUPS = {
    "softmax": _softmax,
    "softmax backward": _softmax_backward,
    "rmsnorm": _rmsnorm,
    "rmsnorm backward": _rmsnorm_backward,
    "layernorm": _layernorm,
    "layernorm backward": _layernorm_backward,
    "cross-entropy": _cross_entropy,
    "cross-entropy backward": _cross_entropy_backward,
    "cross-entropy fused": _cross_entropy_fused,
}
