"""The lab `softmax`: the log-sum-exp of each row, in one pass over it.

Neither book nor package solves it alone: they divide by the sum, here its logarithm is asked for, of rows that a block reads once.

    LogSumExp(threads)(mX, mLse)   mX float32 (M, N), mLse float32 (M,)

threads is 64 or 128, a block a row; any N from 1 to LONGEST; x may hold -inf, also in whole rows, and no NaN.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grading import diagnoses
from grading.diagnoses import View
from grading.judgement import DRAWN, FAST, OWN, SCHEDULES, Case, Diagnosis, Outcome, drawn, shifts

TITLE = "Softmax: the log-sum-exp of a row, read once"
TARGET = "LogSumExp"
FUNCTIONS = ("rescale",)
LONGEST = 24_576  # columns of a row, as the text promises
CHECKS = {"rescale": 1, "plain": 2, "shifted": 2, "infinite": 2, "order": 1, "traffic": 2}
LOOKS = {
    "plain": ("plain", "odd", DRAWN),
    "shifted": ("high", "low", "rising", "falling"),
    "infinite": ("infinite", "short"),
}
TRAFFIC = "plain"
ROWS = "Each block has one row."
ADVICE = {"mX": "Columns end at N, and N need not be a multiple of the block.", "mLse": ROWS}
SLOTS = "A block has threads // 32 warps, numbered from 0."
TOLERANCE = {"mLse": (2e-6, 2e-5)}
FORMULA = 2e-6  # seven digits of log2(e), in numbers up to 21 below the largest, which alone count


def lse(x: np.ndarray, axis: int = 1) -> np.ndarray:
    """log(sum(exp(x))) in float64, -inf where all of x is."""
    x = x.astype(np.float64)
    largest = x.max(axis=axis, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(x - np.where(np.isinf(largest), 0, largest)).sum(axis=axis)) + np.where(
            np.isinf(largest), 0, largest
        ).squeeze(axis)


def right(case: Case) -> dict:
    """The log-sum-exp in float64."""
    return {"mLse": lse(case.inputs["mX"])}


def cases(seed: int = 0) -> list[Case]:
    """Rows that rise, fall, lie high or low, and hold -inf."""
    rng = np.random.default_rng([seed, 8])
    odd = 257 + 2 * int(rng.integers(1, 60))
    slope = np.linspace(0, 300, 512)[None] + rng.random((2, 512))
    infinite = rng.standard_normal((9, 200))
    infinite[0] = -np.inf
    infinite[1, 1:] = -np.inf
    infinite[2, ::64] = -np.inf  # a thread's every number
    infinite[3, :150] = -np.inf
    infinite[5:][np.arange(200) // 32 != np.arange(4)[:, None]] = -np.inf  # every warp's but one

    def case(name, x, threads, schedule="forward"):
        M = len(x)
        inputs, outputs = {"mX": x.astype(np.float32)}, {"mLse": np.full(M, np.nan, np.float32)}
        how = f"with {threads} threads"
        return Case(name, (threads,), inputs, outputs, schedule, seed * 101 + 5, (M, threads), how)

    def normal(M, N):
        return rng.standard_normal((M, N)) * 3

    def even(M, N):
        """Plain rows; of many numbers near the largest; that rise slowly, rise or fall fast; of many numbers that count together
        alone; and of one warp's numbers alone."""
        x, steep = normal(M, N) + shifts(rng, M), np.linspace(0, 300, N)
        for row, kind in zip(x, rng.permutation((np.arange(M) + rng.integers(7)) % 7)):
            at = int(rng.integers(N))
            if kind == 1:
                row[:] = row[0] + normal(1, N)[0] / 100
            elif kind == 2:
                row[:] = 10 ** rng.uniform(-7.5, -5.5) * np.arange(N)
            elif kind in (3, 4):
                row += steep if kind == 3 else steep[::-1]
            elif kind == 5:
                row[:] = normal(1, N)[0] / 20 - rng.uniform(9.8, 10.6) - np.log(N)
                row[at] = 0
            elif kind == 6:
                row[np.arange(N) // 32 != at // 32] = -np.inf
        return x

    return [
        *(
            Case("rescale", pair, target="rescale")
            for pair in ((1.0, 1.0), (-3.0, 2.0), (1.0, 32.0), (0.0, 80.0), (-300.0, 300.0))
        ),  # no sign overflows
        case("plain", normal(4, 512), 128),
        case("odd", normal(3, odd), 128),
        case("high", 200 + normal(2, 256), 64),
        case("low", -300 + normal(2, 256), 64),
        case("low", [[-1e4], [-1e30]] + normal(2, 256), 64),  # below any start value but -inf
        case("rising", slope, 128),
        case("falling", slope[:, ::-1], 64),
        case("infinite", infinite, 64),
        case("infinite", infinite[5:], 128),
        case("short", normal(3, int(rng.integers(2, 31))), 64),
        case("plain", normal(2, 512), 128, "reverse"),
        case("odd", normal(1, odd), 64, "seeded"),
        *(
            case(DRAWN, even(*shape), *how)
            for shape, *how in zip(drawn(rng, 128, LONGEST), (*rng.choice([64, 128], 5).tolist(), 64, 128), SCHEDULES)
        ),
        *(case(DRAWN, even(M, N), *make, FAST) for make, M, N in OWN.get()),
    ]


# What wrong numbers show ----------------------------------------------------------------------------------------------


def own(case: Case, fold, pad=-np.inf) -> np.ndarray:
    """`fold` over the (M, threads, steps) numbers of each thread, `pad` where a thread has no column."""
    x, threads = case.inputs["mX"].astype(np.float64), case.make[0]
    steps = -(-x.shape[1] // threads)
    filled = np.full((len(x), threads * steps), pad)
    filled[:, : x.shape[1]] = x
    return fold(filled.reshape(len(x), steps, threads).transpose(0, 2, 1))


def unscaled(parts: np.ndarray) -> np.ndarray:
    """The parts' sums added as they are, each relative to its own maximum."""
    largest = parts.max(axis=2)
    sums = np.exp(parts - np.where(np.isinf(largest), 0, largest)[:, :, None]).sum(axis=2)
    return np.log(sums.sum(axis=1)) + largest.max(axis=1)


def never_rescaled(parts: np.ndarray) -> np.ndarray:
    """A thread's running sum, to which each exp(x - maximum so far) is added without scaling what is there."""
    running = np.maximum.accumulate(parts, axis=2)
    return unscaled_sums(np.exp(parts - np.where(np.isinf(running), 0, running)).sum(axis=2), running[:, :, -1])


def unscaled_sums(sums: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Sums of threads, scaled to the row's maximum."""
    top = largest.max(axis=1, keepdims=True)
    return np.log((sums * np.exp(largest - top)).sum(axis=1)) + top[:, 0]


def run(case: Case, merge=None, step=None, lanes=None, warps=None, pad=-np.inf) -> np.ndarray:
    """The notebook's own steps, lanes and warps, some with another merge(largest, total, other, other_total)."""
    step, lanes, warps = (one or merge or forgetful(True, True) for one in (step, lanes, warps))
    threads = case.make[0]
    steps = own(case, lambda parts: parts, pad)  # (M, threads, steps)
    state = np.full(steps.shape[:2], -np.inf), np.zeros(steps.shape[:2])
    for i in range(steps.shape[2]):
        there = np.isfinite(steps[:, :, i])
        state = tuple(np.where(there, *pair) for pair in zip(step(*state, steps[:, :, i], np.ones(there.shape)), state))
    for offset in (1 << k for k in range(5)):
        other = np.arange(threads) ^ offset
        state = lanes(*state, *(part[:, other] for part in state))
    state = tuple(part[:, ::32] for part in state)  # a slot a warp
    for offset in (1 << k for k in range((threads // 32).bit_length() - 1)):
        other = np.arange(threads // 32) ^ offset
        state = warps(*state, *(part[:, other] for part in state))
    return (state[0] + np.log(state[1]))[:, 0]


def forgetful(first: bool, second: bool, power=np.exp):
    """A merge that rescales the first sum, the second, or neither."""

    def merge(largest, total, other, other_total):
        together = np.maximum(largest, other)
        reference = np.where(np.isneginf(together), 0, together)
        scaled = total * power(largest - reference), other_total * power(other - reference)
        return together, (scaled[0] if first else total) + (scaled[1] if second else other_total)

    return merge


def by_the_new_number(largest, total, x, one):
    """A step that scales what is there to the new number, and not to the larger of the two."""
    return np.maximum(largest, x), total * np.exp(largest - x) + one


def upside_down(largest, total, other, other_total):
    """A merge that multiplies by exp(larger - own), where exp(own - larger) is right."""
    together = np.maximum(largest, other)
    reference = np.where(np.isneginf(together), 0, together)
    parts = [np.where(s > 0, s * np.exp(reference - m), 0) for m, s in ((largest, total), (other, other_total))]
    return together, parts[0] + parts[1]


SCALE = "A sum of exp(x - m) belongs to its m: before two are added, both are brought to the larger m, times exp(m - larger)."
FORMULAS = (
    ("rescaling forgotten", lambda c: run(c, forgetful(False, True)),
     f"It is as if merge left its first sum as it is, and scaled the second alone. {SCALE}"),
    ("rescaling forgotten", lambda c: run(c, forgetful(True, False)),
     f"It is as if merge left its second sum as it is, and scaled the first alone. {SCALE}"),
    ("rescaling forgotten", lambda c: run(c, forgetful(False, False)), f"It is as if merge added sums as they are. {SCALE}"),
    *(("rescaling forgotten", lambda c, stage=stage, how=how: run(c, **{stage: forgetful(*how)}),
       f"It is as if, {where}, {which}. {SCALE}")
      for stage, where in (("warps", "where the warps' pairs meet"), ("lanes", "where the lanes' pairs meet"),
                           ("step", "in the thread's own loop"))
      for how, which in (((False, False), "sums were added as they are: each is relative to a maximum of its own"),
                         ((False, True), "the first sum stayed as it is, and the second alone were scaled"),
                         ((True, False), "the second sum stayed as it is, and the first alone were scaled"))),
    ("scaled to the number", lambda c: run(c, step=by_the_new_number),
     f"It is as if the thread's loop scaled its sum by exp(maximum - x) and added 1, whichever of the two is larger. {SCALE}"),
    ("scaled upside down", lambda c: run(c, merge=upside_down), f"It is as if sums were multiplied by exp(larger - m). {SCALE}"),
    ("powers of two", lambda c: run(c, merge=forgetful(True, True, np.exp2)),
     "It is as if 2 ** x were added up, and not exp(x): exp2 wants x times log2(e)."),
    ("powers of two", lambda c: run(c, step=forgetful(True, True, np.exp2)),
     "It is as if the thread's loop added up 2 ** x, and not exp(x): exp2 wants x times log2(e)."),
    ("powers of two", lambda c: (run(c, merge=forgetful(True, True, np.exp2)) - c.inputs["mX"].max(axis=1)) / np.log(2)
     + c.inputs["mX"].max(axis=1),
     "It is as if exp2 and log2 stood for exp and log: exp2 wants x times log2(e), and log2's result is then multiplied by ln 2."),
    ("padding in the sum", lambda c: run(c, step=None, pad=0.0),
     "It is as if columns past the end held 0: exp(0) comes into the sum for each. A lane without a column brings -inf, "
     "or nothing."),
    ("first numbers twice", lambda c: lse(np.hstack([c.inputs["mX"], c.inputs["mX"][:, : c.make[0]]])),
     "It is as if each thread's first number counted twice: once where maximum and sum start from it, and again in the loop."),
    ("slots counted again", lambda c: lse(c.inputs["mX"]) + np.log(32 * 32 / c.make[0]),
     "It is as if each warp's sum counted 32 / warps times: the last step has as many slots as warps, and 32 lanes that read them. "
     "A maximum does not mind, a sum does. Over how many lanes does it merge?"),
    ("rescaling forgotten", lambda c: own(c, never_rescaled),
     f"It is as if a thread's sum were not scaled when its maximum grows. {SCALE}"),
    ("rescaling forgotten", lambda c: own(c, unscaled),
     f"It is as if the sums of threads, each relative to a maximum of its own, were added as they are. {SCALE}"),
    ("logarithm forgotten", lambda c: np.exp(lse(c.inputs["mX"]) - c.inputs["mX"].max(axis=1)),
     "That is the sum itself, relative to the maximum: its logarithm is asked for, and the maximum added."),
    ("logarithm forgotten", lambda c: c.inputs["mX"].max(axis=1) + np.exp(lse(c.inputs["mX"]) - c.inputs["mX"].max(axis=1)),
     "That is the maximum plus the sum: the sum's logarithm is asked for."),
    ("logarithm to base 2", lambda c: (lse(c.inputs["mX"]) - c.inputs["mX"].max(axis=1)) / np.log(2) + c.inputs["mX"].max(axis=1),
     "It is as if the logarithm were to base 2: log2 needs a factor ln 2."),
    ("maximum multiplied", lambda c: c.inputs["mX"].max(axis=1) * (lse(c.inputs["mX"]) - c.inputs["mX"].max(axis=1)),
     "That is the maximum times the logarithm: a factor in the sum becomes a summand after the logarithm."),
    ("start value counted", lambda c: np.logaddexp(lse(np.maximum(c.inputs["mX"], -np.inf)), np.log(c.make[0])),
     "It is as if each thread's sum had started with 1 at a maximum of 0: every thread adds exp(0), which is in no row. A sum of "
     "nothing is 0, and the maximum of nothing -inf."),
    ("start value counted", lambda c: np.logaddexp(lse(c.inputs["mX"]), 0),
     "It is as if one more number, 0, were in the row: what do maximum and sum start from?"),
)  # fmt: skip
PARTS = {
    "mLse": {
        "the row's maximum": (1, lambda c: c.inputs["mX"].max(axis=1)),
        "the logarithm of the sum of exp(x - maximum)": (1, lambda c: lse(c.inputs["mX"]) - c.inputs["mX"].max(axis=1)),
    }
}
REGULAR = ("plain", "odd", "rising", "falling")


def explain(check: str, views: list[View], every: list[View]) -> Iterator[Diagnosis]:
    """What is wrong with the numbers that a check looks at, the most telling first."""
    wrong = [v for v in views if v.wrong.any()]
    if not wrong:
        return
    forward = [v for v in every if v.readers]
    yield from diagnoses.by_formula([v for v in forward if v.case.name in REGULAR], "mLse", FORMULAS, (1e-4, 1e-3))
    v = wrong[0]
    r = int(np.argmax(v.wrong))
    got, told = v.got["mLse"][r], diagnoses.first_wrong(v, "mLse", TOLERANCE["mLse"])
    # Each thread has a number there, and none is far from 0.
    full = [v for v in forward if v.case.name in ("plain", "odd")]
    nan = next(
        ((v, r) for v in full for r in np.nonzero(np.isnan(v.got["mLse"]))[0] if np.isfinite(v.x[r]).all()), None
    )
    if nan:
        yield Diagnosis(
            "infinity in a finite row",
            f"In {nan[0].row(int(nan[1]))} mLse is nan, and all its numbers are finite. So infinities meet on the way: "
            "inf times 0, or inf minus inf. A maximum starts at -inf, and exp(x - -inf) is inf: which exponent is not "
            "below 0, or which difference "
            "has a start value in it?",
        )
    if np.isnan(got) and np.isneginf(v.x[r]).any():
        yield Diagnosis(
            "minus infinity",
            f"{told} The row holds -inf, and a part of it may hold nothing else: a lane, a warp, or the whole. Then its "
            "maximum is -inf, "
            "and -inf minus -inf is NaN. What may be subtracted instead, so that the part's sum is 0?",
        )
    rows = [(x, bad) for o in forward for x, bad in zip(o.x, o.wrong) if np.isfinite(x).any()]
    some = {bad for _, bad in rows} == {True, False}
    if some and all(np.isneginf(x).any() for x, bad in rows if bad):
        yield Diagnosis(
            "minus infinity",
            f"{told} Rows are wrong that hold some -inf, and no others. A lane, or a warp, may have nothing else: what does a part "
            "that is empty leave of the one that it is merged with, whichever of the two comes first?",
        )
    if np.isneginf(v.right["mLse"][r]):
        yield Diagnosis(
            "minus infinity",
            f"{told} The whole row is -inf. Then the maximum is -inf, and so is the logarithm of the sum, 0: what is done with the "
            "two must give -inf again.",
        )
    if np.isneginf(got) and np.abs(v.x[r]).max() < 80:
        yield Diagnosis(
            "start value left",
            f"{told} The row holds no -inf: a start value has stayed. Of two maxima the larger counts, and -inf is the least.",
        )
    tops = [(v.x.max(axis=1), v.wrong) for v in forward]
    if (
        np.isneginf(got)
        and all(top[bad].max() < 0 for top, bad in tops if bad.any())
        and any((top > 0).any() for top, _ in tops)
    ):
        yield Diagnosis(
            "start value left",
            f"{told} Rows are wrong that hold nothing above 0, and no others: their maximum is below what it starts from. Of two "
            "maxima the larger counts, and -inf is the least.",
        )
    steep = [(np.ptp(x[np.isfinite(x)]) > 80, np.abs(x[np.isfinite(x)]).min() > 80, bad) for x, bad in rows]
    if some and all(rises for rises, _, bad in steep if bad) and any(high and not bad for _, high, bad in steep):
        yield Diagnosis(
            "rescaling forgotten",
            f"{told} The row's numbers go from {v.x[r].min():.0f} to {v.x[r].max():.0f}. Rows that lie as far from 0 and close "
            f"together are right, so something is subtracted before exp, but not what was the largest number so far. {SCALE}",
        )
    far = np.abs(v.x[r][np.isfinite(v.x[r])]).max(initial=0) > 80  # whose exp float32 does not hold
    if far and (np.isposinf(got) or (np.isneginf(got) and np.isfinite(v.right["mLse"][r]))):
        high = np.isposinf(got)
        yield Diagnosis(
            "no shift",
            f"{told} The row's numbers are near {np.median(v.x[r][np.isfinite(v.x[r])]):.0f}: exp of that "
            f"{'is beyond' if high else 'is 0 in'} float32. "
            "Subtract the row's maximum before exp, and add it again after log.",
        )
    regular = [v for v in forward if v.wrong.any() and v.case.name in REGULAR]
    yield from diagnoses.lost(regular, matches, shown)
    yield from diagnoses.counted_twice(regular, matches, shown)
    yield from diagnoses.wrong_rounds(regular, matches, shown)
    near = [*wrong, *(v for v in forward if v.case.name in ("plain", "odd"))]
    if all(np.isclose(v.got["mLse"], v.right["mLse"], 0, 0.02).all() for v in near):
        yield Diagnosis(
            "not exact", f"{told} That is near, and float32 can do better: which step rounds, or is approximate?"
        )
    yield Diagnosis("wrong number", f"{told} Which numbers has each maximum, and each sum, seen?")


def matches(v: View, kept: np.ndarray) -> bool:
    """Whether the answers are those of the elements kept, each as often as it is kept."""
    if not kept.any(axis=1).all():
        return False
    with np.errstate(divide="ignore"):
        return bool(np.allclose(lse(v.x + np.log(kept)), v.got["mLse"], 1e-5, 1e-4))


def shown(v: View, who: str) -> str:
    """What one wrong row shows."""
    return diagnoses.first_wrong(v, "mLse", TOLERANCE["mLse"])


def predict(name: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """What a wrong factor shows."""
    for o in outcomes:
        old, new = o.case.make
        got = o.outputs["answer"]
        if not isinstance(got, (int, float)) or not np.isclose(got, np.exp(old - new), 1e-9, 0):
            upside = isinstance(got, (int, float)) and np.isclose(got, np.exp(min(new - old, 700)), rtol=1e-9)
            why = "That is the inverse" if upside else "exp(x - old) times what is exp(x - new)"
            text = f"rescale({old:g}, {new:g}) returns {got!r}. {why}: with a larger maximum each term is smaller."
            yield Diagnosis("wrong prediction", text)


def waste(outcome: Outcome) -> Iterator[Diagnosis]:
    """More bytes or waiting than the task needs."""
    yield from diagnoses.read_again(outcome, "mX", "Keep the numbers, or carry maximum and sum along together.")
    yield from diagnoses.idle_warps(outcome, "mX")
    yield from diagnoses.scattered(outcome, "mX")
    yield from diagnoses.written_again(outcome)
    yield from diagnoses.shuffles(outcome, 10, "5 over the lanes and as many, at most, over the warps.")
    yield from diagnoses.barriers(outcome, 1, "maximum and sum can travel together.")
