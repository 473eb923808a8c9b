"""Suite `rows`: the row-wise kernels on rows of any length, at any address, in any configuration, against float64.

| part    | cases                                                                                                     |
|---------|-----------------------------------------------------------------------------------------------------------|
| shipped | what the rule gives at lengths on both sides of each that changes it, of rows that start alike and not      |
| random  | seeds: length, kind of rows, address, gap between rows, configuration, type, optional tensors, targets    |

Each case runs on the simulator with all its checks, and no finding may come of it. Outputs must be those of `reference`
within its tolerance, in any order of the warps, and what lies around them must stay as it was. Types are float32 and
float16, which numpy has; bfloat16 has the vectors of float16.

`reproduce(seed)` says what a random case is and what is wrong with it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product

import numpy as np

from cutesim.simulation import simulate
from quack_tutorial.kernels.config import Config
from quack_tutorial.kernels.tuned.rule import sizes
from quack_tutorial.records import suite as report
from quack_tutorial.shipped import CODES, COLUMNS, KERNELS, MATRIX, TARGETS, type_of
from quack_tutorial.shipped import IGNORE_INDEX as IGNORED
from validation import outputs

SEEDS, SAMPLE_SEEDS, SAMPLE_LINES = 2000, 40, 6
POISON = 55
THREADS = (4, 8, 16, 32, 64, 96, 128, 160, 256)
MOST_HELD = 64  # elements of a row that a thread holds in a random case
VECTOR_BYTES, LINE_BYTES = 16, 128
# Bytes of a row: short ones, and those at which the rule changes what it gives, which the next longer rows of their kind are after.
LENGTHS = 48, 256, 512, *(1024 * k for k in (1, 2, 4, 8, 12, 16, 26, 32, 40, 64, 128, 256, 512))
STREAMING = "cross-entropy", "cross-entropy backward"
GRADIENTS = "rmsnorm backward", "layernorm backward"  # whose blocks go through rows


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
    counts, errors = tally.counts, tally.errors
    rows = ((name, counts[name, "shipped"], counts[name, "random"], round(errors[name], 2)) for name in KERNELS)
    return report.Suite(
        name="rows",
        title="The row-wise kernels at every shipped configuration and at random ones: outputs, bounds, races",
        columns=("operation", "shipped", "random", "largest error"),
        rows=tuple(rows),
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
    """What the rule gives every kernel for rows of `LENGTHS`, and for the next longer ones of their kind."""
    found = []
    for operation, dtype, rows in product(KERNELS, ("float32", "float16"), ("aligned", "congruent")):
        vector = VECTOR_BYTES // np.dtype(dtype).itemsize
        for row_bytes, longer in product(LENGTHS, (0, vector if rows == "aligned" else 1)):
            N = row_bytes // np.dtype(dtype).itemsize + longer
            if N > 150_000 and longer or N > 262_144:
                continue
            config = sizes(operation, 8 * np.dtype(dtype).itemsize, N, rows)
            gap = 1 if rows == "congruent" and N % vector == 0 else 0
            before = 3 if rows == "congruent" else 0
            M = 1 if N > 60_000 else min(config.rows_per_block * max(1, config.blocks_together) + 1, 40)
            if operation in GRADIENTS and config.stages:
                # A block goes through more rows than it has stages, and they start alike.
                M, gap = config.stages + 2, -N % vector if rows == "congruent" else gap
            found.append(Case(operation, dtype, M, N, rows, config, before, before, gap, len(found)))
    return found


def random_case(seed: int) -> Case:
    """The case of a seed."""
    rng = np.random.default_rng([2026, seed])
    operation, dtype = str(rng.choice(list(KERNELS))), str(rng.choice(["float32", "float16"]))
    rows = str(rng.choice(["aligned", "congruent", "any"]))
    vector = VECTOR_BYTES // np.dtype(dtype).itemsize
    N = int(rng.choice([rng.integers(1, 40), rng.integers(40, 400), rng.integers(400, 2600)]))
    config = random_config(rng, operation, N, rows)
    turn = config.threads_per_row * config.blocks_per_row * vector  # elements of a vector a thread
    through = config.stages > 0
    if rows != "congruent" and through:
        N = max(1, N // (vector * config.blocks_per_row)) * vector * config.blocks_per_row
    elif N > turn and rng.random() < 0.5:
        # Where the last vectors are there for all threads, or just not.
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
    """Any configuration that leaves a thread few enough elements; now and then the one that ships."""
    streams, gradient = operation in STREAMING, operation in GRADIENTS
    if rng.random() < 0.2:
        ships = sizes(operation, 32, N, rows)
        if ships.threads_per_block <= 256 and not ships.stages:
            return ships
    copied = rows == "aligned" and not streams or rows == "congruent" and gradient and N >= 512
    through = copied and rng.random() < (0.8 if gradient else 0.4)
    several = rows == "aligned" and operation in ("rmsnorm", "layernorm") and not through and N <= MOST_HELD * 8
    while True:
        threads = int(rng.choice(THREADS))
        blocks = 1 if streams else int(rng.choice([1, 1, 1, 2, 4]))
        block = threads * int(rng.choice([1, 2, 4])) if blocks == 1 and not through else threads
        stages, each = int(through), 1
        if through and gradient:
            stages = int(rng.choice([1, 2, 3] if rows == "aligned" else [2, 3]))
        elif several and rng.random() < 0.8:
            threads, blocks, each = int(rng.choice(THREADS[:4])), 1, int(rng.choice([2, 3, 4]))
            block = 32 * int(rng.choice([1, 2, 4]))
        if block % 32 == 0 and block <= 512 and N * each <= MOST_HELD * threads * blocks:
            pairs = blocks == 1 and not through and not gradient
            together = int(rng.choice([0, 1, 2, 4] if pairs else [0, 1])) if blocks == 1 else 0
            at_once = int(rng.choice([1, 2, 4, 5])) if streams else 0
            return Config(threads, block, blocks, stages, each, together, at_once)


# ---- one case ---------------------------------------------------------------------------------------------------------


class Matrices:
    """(M, N) matrices of a case, each in the middle of poisoned elements that a kernel must not touch."""

    def __init__(self, case: Case, rng):
        self.case, self.rng, self.made, self.some = case, rng, [], int(rng.integers(1, 9))

    def new(self, dtype, before, values=None):
        """A matrix of a type with `values`, or one to be written, which is NaN, in bits of 8 too."""
        case = self.case
        stride, line = case.N + case.gap, LINE_BYTES // dtype.itemsize
        flat = np.full(before + case.M * stride + 3 * line, POISON, dtype)
        inside = np.zeros(len(flat), bool)
        first = -flat.ctypes.data // dtype.itemsize % line + before

        def rows_of(array):
            return array[first : first + case.M * stride].reshape(case.M, stride)[:, : case.N]

        rows_of(inside)[...] = True
        rows_of(flat)[...] = (127 if dtype == np.uint8 else np.nan) if values is None else values
        self.made.append((flat, inside))
        return rows_of(flat)

    def has(self, group) -> bool:
        return self.rng.random() < (0.8 if group[0] in ("dw", "db") else 0.5)

    def parts(self) -> int:
        """In how many parts blocks write a sum."""
        if self.case.rows != "congruent":
            return self.some
        return 8 if (self.case.N + self.case.gap) % (VECTOR_BYTES // np.dtype(self.case.dtype).itemsize) else 1

    def normal(self, name, shape):
        return self.rng.standard_normal(shape)

    def targets(self, M, N):
        """Columns, the last one among them; now and then one to ignore, and one that is no column."""
        target = self.rng.integers(0, N, M).astype(self.rng.choice([np.int64, np.int32]))
        target[self.rng.random(M) < 0.2] = IGNORED
        for _ in range(2):
            if self.rng.random() < 0.3:
                target[self.rng.integers(M)] = self.rng.choice([-3, N, N + 7, N - 1])
        return target

    def place(self, name, kind, values, shape):
        """Vectors are of any type, at a multiple of 16 bytes."""
        dtype = np.dtype(type_of(kind, self.case.dtype))
        if kind in (MATRIX, CODES):
            return self.new(dtype, self.case.after if values is None else self.case.before, values)
        if kind == TARGETS:
            return values
        found = at_boundary(
            shape, self.rng.choice([self.case.dtype, "float32", "float16"]) if kind == COLUMNS else dtype
        )
        if values is not None:
            found[...] = values
        return found

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
    matrices, kernel = Matrices(case, rng), KERNELS[case.operation]
    try:
        given = kernel.arguments(case.M, case.N, matrices)
        if case.operation in HARDER:
            HARDER[case.operation](given["x"], rng)
        order = ("forward", "reverse")[case.seed % 2]
        ran = simulate(kernel.host(given, case.rows, case.config), *kernel.positional(given), schedule=order)
        error = outputs.error(kernel, given)
    except Exception as error:  # whatever it is, it is this case's
        return np.inf, [f"{type(error).__name__}: {str(error).splitlines()[0]}"]
    problems = [str(finding).splitlines()[0] for finding in ran.findings]
    problems += ["the output is wrong"] if not error <= 1 else []
    problems += ["it wrote where no row is"] if matrices.touched() else []
    problems += [note for note in ran.observations if "depends on the order" in note]
    return error, problems


def _harder_logits(x, rng):
    """Equal ones, or far apart ones; now and then a class that is out of the question."""
    x *= np.asarray(rng.choice([0, 0.25, 7.5]), x.dtype)
    if rng.random() < 0.2:
        x[rng.integers(x.shape[0]), rng.integers(x.shape[1])] = -np.inf


def _harder_mean(x, rng):
    x += np.asarray(rng.choice([-1, 2]), x.dtype)


# What inputs are made of drawn ones, in place.
HARDER = {"softmax": _harder_logits, "layernorm": _harder_mean}
