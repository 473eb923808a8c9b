"""The lab `prove-it-wrong`: a kernel that passes its own test, three inputs that show where it fails, and a kernel that does not.

Neither book nor package solves it: the entropy of a row's softmax, of any length, with the same bits in every batch.

    length(few), numbers(few), batch(few)   rows on which the given RowEntropy(few) is wrong, or gives a row other bits
    Entropy()(mX, mH)                       mX float32 (M, N), mH float32 (M,)

Any M of at least 1, any N of 1 to 16,384; x may hold -inf, though not in a whole row, and no NaN. The proofs are run: SOURCE is the
kernel that the notebook shows; a test compares the two.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator

import numpy as np

from cutesim.simulation import simulate
from grading import diagnoses, evidence, submission
from grading.diagnoses import View
from grading.judgement import DRAWN, FAST, OWN, SCHEDULES, Case, Diagnosis, Outcome, drawn

TITLE = "Prove it wrong: a kernel that is right for its tests' sizes only"
TARGET = "Entropy"
FUNCTIONS = ("length", "numbers", "batch")
CHECKS = {
    "length": 1,
    "numbers": 1,
    "batch": 2,
    "tests": 1,
    "sizes": 2,
    "values": 2,
    "bits": 3,
    "order": 1,
    "traffic": 1,
}
LOOKS = {
    "tests": ("tests",),
    "sizes": ("odd", "short", DRAWN),
    "values": ("low", "masked", "equal"),
    "bits": ("batch",),
}
TRAFFIC = "tests"
ADVICE = {
    "mX": "Columns end at N and rows at M: a lane may have no column, and a warp no row.",
    "mH": "It has a number a row.",
}
SLOTS = "How many warps has a block, and how many slots?"
TOLERANCE = {"mH": (2e-5, 2e-5)}
LONGEST = 16_384  # columns of a row
WAITS = 12  # of warps at barriers, a row: the given kernel's
SOURCE = '''\
import operator


@cute.jit
def over_row(value, op: cutlass.Constexpr, slots, warps: cutlass.Constexpr):
    """`op` of a row's values: over a warp's lanes, then over the warps that share the row."""
    for i in cutlass.range_constexpr(5):
        value = op(value, cute.arch.shuffle_sync_bfly(value, offset=1 << i))
    if cutlass.const_expr(warps > 1):
        tidx, _, _ = cute.arch.thread_idx()
        if tidx % 32 == 0:
            slots[tidx // 32] = value
        cute.arch.barrier()
        value = slots[0]
        for warp in cutlass.range_constexpr(1, warps):
            value = op(value, slots[warp])
    return value


class RowEntropy:
    """The entropy of each row's softmax. With at most `few` rows each gets a block of 4 warps, else a warp, 4 rows a block."""

    def __init__(self, few):
        self.few = few

    @cute.jit
    def __call__(self, mX: cute.Tensor, mH: cute.Tensor):
        M = mX.shape[0]
        warps = 4 if M <= self.few else 1
        self.kernel(mX, mH, warps).launch(grid=[cute.ceil_div(M * warps, 4), 1, 1], block=[128, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mH: cute.Tensor, warps: cutlass.Constexpr):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        lanes = 32 * warps
        row, first = (bidx * 128 + tidx) // lanes, tidx % lanes
        slots = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout((4, 3)), 16)
        each = mX.shape[1] // lanes
        rX = cute.make_rmem_tensor(each, cutlass.Float32)
        largest = cutlass.Float32(0)
        for i in cutlass.range_constexpr(each):
            rX[i] = 0.0
            if row < mX.shape[0]:
                rX[i] = mX[row, first + lanes * i]
            largest = cute.arch.fmax(largest, rX[i])
        largest = over_row(largest, cute.arch.fmax, slots[None, 0], warps)
        total, weighted = cutlass.Float32(0), cutlass.Float32(0)
        for i in cutlass.range_constexpr(each):
            part = cute.math.exp(rX[i] - largest)
            total = total + part
            weighted = weighted + part * (rX[i] - largest)
        total = over_row(total, operator.add, slots[None, 1], warps)
        weighted = over_row(weighted, operator.add, slots[None, 2], warps)
        if first == 0 and row < mX.shape[0]:
            mH[row] = cute.math.log(total) - weighted / total
'''


def entropy(x: np.ndarray) -> np.ndarray:
    """The entropy of each row's softmax in float64."""
    total, weighted = sums(x)
    return np.log(total) - weighted / total


def sums(x: np.ndarray, pad: int = 0) -> tuple:
    """(M,) the sums of e = exp(x - maximum) and of e (x - maximum), with `pad` zeros behind each row."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, pad)))
    shifted = x - x.max(axis=1, keepdims=True)
    parts = np.exp(shifted)
    return parts.sum(axis=1), (parts * np.where(parts > 0, shifted, 0)).sum(axis=1)


def right(case: Case) -> dict:
    """The entropies in float64."""
    return {"mH": entropy(case.inputs["mX"])}


def cases(seed: int = 0) -> list[Case]:
    """Proofs for two thresholds; then sizes, numbers, and rows that return in other batches."""
    rng = np.random.default_rng([seed, 13])
    odd = 33 + 2 * int(rng.integers(1, 40))

    def case(name, x, schedule="forward"):
        x = np.asarray(x, np.float32)
        return Case(name, (), {"mX": x}, {"mH": np.full(len(x), np.nan, np.float32)}, schedule, seed * 101 + 13)

    def normal(M, N):
        return rng.standard_normal((M, N)) * 1.5

    masked = normal(6, odd)
    masked[rng.random(masked.shape) < 0.5] = -np.inf
    masked[:, :2] = normal(6, 2)
    masked[1, 2:] = masked[2, 2 : odd - 3] = masked[3, :-1] = -np.inf
    masked[3, -1] = 1
    return [
        *(Case(name, (int(few),), target=name) for name in FUNCTIONS for few in rng.permutation(np.arange(2, 8))[:2]),
        *(case("tests", normal(M, N)) for M, N in ((8, 256), (2, 128))),
        case("tests", normal(64, 1024), FAST),
        case("odd", normal(5, odd)),
        case("odd", normal(1, odd + 128)),
        case("odd", normal(2, 1000 + odd)),
        case("short", normal(9, int(rng.integers(2, 31)))),
        *(
            case("low", far + normal(5, odd)) for far in (-200, 300, -1e4, -1e30, 1e30)
        ),  # a batch each: nothing of a neighbour does harm
        case("masked", masked),
        case("equal", np.full((3, odd), [[0], [-3], [7]])),
        *batches(rng, case, normal, odd),
        case("odd", normal(6, odd), "reverse"),
        case("tests", normal(5, 256), "seeded"),
        *(case(DRAWN, normal(*shape), how) for shape, how in zip(drawn(rng, 32, LONGEST), SCHEDULES)),
        *(case(DRAWN, normal(M, N), FAST) for make, M, N in OWN.get()),
    ]


def batches(rng, case, normal, odd: int) -> Iterator[Case]:
    """The same rows in batches of many sizes, at other places, beside others, and beside far larger ones."""
    tall = 128 + int(rng.integers(1, 300))  # than wide
    for N, sizes in ((128, (1, 2, 3, 5, 8, tall)), (odd, (1, 4, 5, 6, 9, 33, 140)), (1000 + odd, (1, 2, 40))):
        kept = normal(5, N)
        for M in sizes:
            for beside in (1, 20) if M > 2 else (1, 1):
                x = normal(M, N) * beside
                places = rng.permutation(M)[: max(1, M // 2)]
                x[places] = kept[rng.integers(0, 5, len(places))]
                yield case("batch", x, FAST)


# Proofs ---------------------------------------------------------------------------------------------------------------


@functools.cache
def given():
    """The class RowEntropy of the notebook."""
    return submission.load("row_entropy.py", f"import cutlass\nimport cutlass.cute as cute\n{SOURCE}", "RowEntropy")[
        "RowEntropy"
    ]


def run(few: int, rows: np.ndarray) -> np.ndarray:
    """What RowEntropy(few) makes of some rows."""
    found = np.full(len(rows), np.nan, np.float32)
    with np.errstate(all="ignore"):
        simulate(given()(few), rows.copy(), found, check=False, on_device=True)
    return found


def predict(name: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """Why what a proof returns proves nothing."""
    for o in outcomes:
        (few,), answer = o.case.make, o.outputs["answer"]
        call = f"{name}({few})"
        both = name == "batch"
        if both and not (isinstance(answer, (tuple, list)) and len(answer) == 2):
            many = f"a list of {len(answer)}" if isinstance(answer, (tuple, list)) else type(answer).__name__
            yield Diagnosis("wrong type", f"{call} returns {many}; two batches are asked for, each a list of rows.")
            return
        found = [rows_of(one) for one in (answer if both else (answer,))]
        told = next((one for one in found if isinstance(one, str)), None) or outside(name, found)
        if told:
            yield Diagnosis("not allowed", f"{call}: {told}")
            return
        said = same_bits(few, *found) if both else all_right(few, *found, name)
        if said:
            yield Diagnosis(f"not proven: {name}", f"{call}: {said}")


def rows_of(answer) -> np.ndarray | str:
    """The rows (M, N) that an answer holds, or what is wrong with them, in words."""
    if not isinstance(answer, (tuple, list)) or not all(isinstance(row, (tuple, list)) for row in answer):
        return "rows are asked for: a list of lists of numbers."
    if not all(type(x) in (int, float) for row in answer for x in row):
        return "a row holds something that is no number."
    if not 1 <= len(answer) <= 8 or len({len(row) for row in answer}) != 1:
        lengths = ", ".join(map(str, sorted(set(map(len, answer)))))
        return f"1 to 8 rows of one length are asked for, not {len(answer)} of {lengths or 'no'} numbers."
    with np.errstate(over="ignore"):
        return np.array(answer, np.float64).astype(np.float32)


def outside(name: str, batches: list[np.ndarray]) -> str:
    """Which of the task's limits a proof does not keep, in words; "" if none."""
    for x in batches:
        N = x.shape[1]
        if not (128 <= N <= 256 if name == "length" else N == 128):
            return f"its rows have {N} numbers, and {'128 to 256' if name == 'length' else '128'} are asked for."
        most = {"length": 2, "batch": 20}.get(name, np.inf)
        if not (np.abs(x) <= most).all() and most < np.inf:
            return f"its numbers have to be between -{most} and {most}, so that it proves what it is to prove."
        if name == "numbers" and not (np.isneginf(x) | (np.abs(x) <= 1e30)).all():
            return "its numbers have to be -inf, or between -1e30 and 1e30."
        if np.isneginf(x).all(axis=1).any():
            return "a whole row is -inf. The softmax of that has no entropy."
    if name == "batch" and len(batches[1]) != len(batches[0]) + 1:
        return f"the first batch has {rows(batches[0])} and the second {rows(batches[1])}; one more is asked for."
    if name == "batch" and not np.array_equal(batches[0][0], batches[1][0]):
        return "the two batches begin with different rows."
    return ""


def rows(x: np.ndarray) -> str:
    return f"{len(x)} row{'s' * (len(x) > 1)}"


def all_right(few: int, x: np.ndarray, name: str) -> str:
    """That the kernel is right on some rows, and what to think about next, in words; "" if it is not."""
    got, expected = run(few, x), entropy(x)
    if not np.allclose(got, expected, 1e-4, 1e-4):
        return ""
    off = np.abs(got - expected).max()
    why = "What does each step of the kernel make of the largest number of the row, and of a number whose exp is 0?"
    if name == "length":
        why = "Which columns does a lane take, how many lanes has a row with so many rows, and what if N is no multiple of them?"
    many = f"{rows(x)} of {x.shape[1]} numbers"
    return f"the kernel is right on that, {many}: off by {off:.2g} at most, and the test allows 1e-4. {why}"


def same_bits(few: int, first: np.ndarray, second: np.ndarray) -> str:
    """That both batches' first rows have the same bits, and what to think about next, in words; "" if they have not."""
    one, other = (run(few, x)[0] for x in (first, second))
    if one.tobytes() != other.tobytes():
        return ""
    why = "With how many rows does the kernel add in another order?"
    if len(first) == few:
        why = "It adds in another order there, but most rows end with the same bits even so: rounding shows best in a small "
        why += "entropy, as of a row that one number rules."
    return f"the first row's entropy is {one:.9g} in a batch of {rows(first)} and of {rows(second)}, bit for bit. {why}"


# What wrong numbers show ----------------------------------------------------------------------------------------------


def padded(width: int):
    """The entropies with columns of 0 up to a multiple of `width`."""

    def formula(case):
        total, weighted = sums(case.inputs["mX"], -case.inputs["mX"].shape[1] % width)
        return np.log(total) - weighted / total

    return formula


def combined(how):
    """The case -> how(logarithm of the sum, mean of x - maximum, sum, maximum)."""

    def formula(case):
        total, weighted = sums(case.inputs["mX"])
        return how(np.log(total), weighted / total, total, case.inputs["mX"].max(axis=1).astype(np.float64))

    return formula


FORMULAS = (
    *(("neutral", padded(width), "It is as if lanes without a column brought 0: exp(0 - maximum) comes into the sum for each. What "
       "is neutral for the maximum and for both sums?") for width in (32, 64, 128, 256)),
    ("wrong sign", combined(lambda log, mean, total, top: log + mean), "It is as if the mean of x - maximum were added to the "
     "logarithm. That mean is never above 0, and an entropy never below."),
    ("wrong sign", combined(lambda log, mean, total, top: mean - log), "It is the right number with the other sign."),
    ("mean not divided", combined(lambda log, mean, total, top: log - mean * total),
     "It is as if the weighted sum were not divided by the sum of exponentials."),
    ("logarithm left out", combined(lambda log, mean, total, top: -mean),
     "It is the mean of maximum - x alone: the logarithm of the sum belongs to it."),
    ("mean left out", combined(lambda log, mean, total, top: log), "It is the logarithm of the sum alone."),
    ("base 2", combined(lambda log, mean, total, top: (log - mean) / math.log(2)), "It is the entropy to base 2, in bits."),
    ("base 2", combined(lambda log, mean, total, top: log / math.log(2) - mean),
     "It is as if the sum's logarithm were to base 2: log2 needs a factor ln 2."),
    ("maximum forgotten", combined(lambda log, mean, total, top: log - mean - top),
     "The maximum is missing: log(sum of exp(x)) is the maximum plus the logarithm of the sum of exp(x - maximum)."),
    ("maximum forgotten", combined(lambda log, mean, total, top: log - mean + top), "The row's maximum comes on top."),
)  # fmt: skip


def explain(check: str, views: list[View], every: list[View]) -> Iterator[Diagnosis]:
    """What is wrong with the numbers that a check looks at, or with their bits, the most telling first."""
    wrong = [v for v in views if v.wrong.any()]
    if not wrong:
        yield from other_bits(views) if check == "bits" else ()
        return
    regular = [v for v in every if v.readers and v.case.name in ("tests", "odd", "short")]
    yield from diagnoses.by_formula(regular, "mH", FORMULAS, (1e-4, 1e-4))
    v = wrong[0]
    r = int(np.argmax(v.wrong))
    x, told = v.x[r], diagnoses.first_wrong(v, "mH", TOLERANCE["mH"])
    if v.case.name == "batch" and np.abs(v.x).max() > 8 > np.abs(x).max():
        said = "It is wrong among rows of far larger numbers: does something of a neighbour, as its maximum, come into the row?"
        yield Diagnosis("neighbours' maximum", f"{told} {said}")
    infinite = not np.isfinite(v.got["mH"][r])
    if infinite and any(w.case.name in ("odd", "short") and not np.isfinite(w.got["mH"]).all() for w in every):
        said = "and rows of such lengths are wrong whatever they hold. In the last step some lanes have no column. What do they"
        yield Diagnosis("empty lane", f"{told} The row has {len(x)} numbers, {said} bring to each sum?")
    if np.isneginf(x).any():
        yield Diagnosis(
            "minus infinity",
            f"{told} The row holds -inf: its exp is 0, and 0 times -inf is NaN. A lane may hold nothing else, and -inf minus -inf "
            "is NaN, too. What does such a number add to each sum, and with what may it be left out?",
        )
    if infinite and x.max() < -80:
        yield Diagnosis(
            "start value",
            f"{told} The row's largest number is {x.max():.6g}. If something larger is subtracted, every exp is 0: what does the "
            "maximum start from, and what does a lane without a column bring?",
        )
    if infinite and x.max() > 80:
        said = f"The row's largest number is {x.max():.6g}, whose exp may be beyond float32: what is subtracted?"
        yield Diagnosis("no shift", f"{told} {said}")
    if np.allclose(v.got["mH"], v.right["mH"], 1e-2, 1e-2):
        said = "That is near, and float32 can do better: which step rounds, leaves out small terms, or subtracts two large numbers?"
        yield Diagnosis("not exact", f"{told} {said}")
    yield Diagnosis("wrong number", f"{told} Which numbers of the row has each of the three results seen?")


def other_bits(views: list[View]) -> Iterator[Diagnosis]:
    """A row that has other bits in another batch, at another place, or beside other rows."""
    seen = {}
    for v in views:
        for r, x in enumerate(v.x):
            seen.setdefault(x.tobytes(), []).append((len(v.x), r, v.got["mH"][r]))
    pairs = [pair for found in seen.values() for pair in itertools.combinations(found, 2)]
    pairs = [(a, b) for a, b in pairs if a[2].tobytes() != b[2].tobytes()]
    for kind, alike, why in (
        ("neighbours", 2, "Only the rows beside it are others. What of them comes into its sums?"),
        (
            "place",
            1,
            "Among as many rows its place decides. What depends on the row's number: which warp, or lane, begins where?",
        ),
        ("number of rows", 0, "What depends on M: how many lanes share a row, or in what order they add?"),
    ):
        for (M, r, h), (m, q, k) in ((a, b) for a, b in pairs if a[:alike] == b[:alike]):
            text = f"One row's entropy is {h:.9g} as row {r} of {M} and {k:.9g} as row {q} of {m}. {why}"
            yield Diagnosis(f"bits: {kind}", text)


def waste(outcome: Outcome) -> Iterator[Diagnosis]:
    """More bytes or waiting than the given kernel has."""
    yield from diagnoses.read_again(outcome, "mX", "Keep the row in registers, as the given kernel does.")
    yield from diagnoses.scattered(outcome, "mX")
    yield from diagnoses.written_again(outcome)
    who, events = evidence.readers(outcome, "mX"), outcome.trace.select(*evidence.WAITS)
    rows = np.count_nonzero(who.times.any(axis=1))
    waits = np.isin(32 * events["block"] + events["warp"], 32 * who.block + who.warp).sum()  # others have no row
    said = f"For each row of x {who.times.shape} warps wait {waits / max(1, rows):.3g} times at barriers"
    if waits > WAITS * rows:
        said += f", where {WAITS} are enough: four warps, three times each."
        yield Diagnosis(
            "exchanges", f"{said} How many warps has a row, how many barriers a result, and do longer rows have more?"
        )
