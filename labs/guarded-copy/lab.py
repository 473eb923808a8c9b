"""The lab `guarded-copy`: float16 rows of any length copied to float32, with each row's maximum and sum, a warp a row.

    CopyWithSummary(rows)(mX, mY, mMax, mSum)   mX float16 (M, N), mY float32 (M, N), mMax and mSum float32 (M,)

rows is 2 or 4, the rows (and warps) of a block; any M and N of at least 1, N up to LONGEST; x holds no infinities and no NaN.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grading import diagnoses
from grading.diagnoses import View
from grading.judgement import DRAWN, FAST, OWN, SCHEDULES, Case, Diagnosis, Outcome, drawn

TITLE = "Guarded copy: rows of any length, and what to fill the gaps with"
TARGET = "CopyWithSummary"
FUNCTIONS = ("steps",)
LONGEST = 12_288  # columns of a row, as the text promises
CHECKS = {"steps": 1, "copy": 2, "maximum": 2, "sum": 2, "order": 1, "traffic": 1}
LOOKS = {"copy": ("even", "odd", DRAWN), "maximum": ("even", "odd", "negative", DRAWN),
         "sum": ("even", "odd", "negative", "large", DRAWN)}  # fmt: skip
OUTPUTS = {"copy": ("mY",), "maximum": ("mMax",), "sum": ("mSum",)}
TRAFFIC = "large"
EDGES = (
    "Columns end at N and rows at M, neither a multiple of anything: in the last step some lanes have no column, in "
    "the last block "
    "some warps no row."
)
ADVICE = dict.fromkeys(("mX", "mY", "mMax", "mSum"), EDGES)
TOLERANCE = {"mSum": (1e-5, 2e-3)}


def right(case: Case) -> dict:
    """The copy, and each row's maximum and sum in float64."""
    x = case.inputs["mX"].astype(np.float64)
    return {"mY": x, "mMax": x.max(axis=1), "mSum": x.sum(axis=1)}


def cases(seed: int = 0) -> list[Case]:
    """Even and odd rows, negative ones, and sums beyond float16."""
    rng = np.random.default_rng([seed, 3])
    odd = 33 + 2 * int(rng.integers(1, 30))

    def case(name, x, rows, schedule="forward"):
        M = len(x)
        if name == DRAWN:
            x[0, -1] = min(1.5 * x.max(), 65504)
            x[1 if M > 1 else int(rng.integers(2)) :: 2] *= -1
        x = x.astype(np.float16)
        outputs = {"mY": np.full(x.shape, np.nan, np.float32)}
        outputs |= {"mMax": np.full(M, np.nan, np.float32), "mSum": np.full(M, np.nan, np.float32)}
        how = f"with {rows} rows a block"
        return Case(name, (rows,), {"mX": x}, outputs, schedule, seed, (-(-M // rows), 32 * rows), how)

    def normal(M, N):
        return rng.standard_normal((M, N)) + 1

    return [
        *(Case("steps", (N,), target="steps") for N in (1, 31, 32, 33, int(10 ** rng.uniform(2, 9)))),
        case("even", normal(4, 64), 4),
        case("odd", normal(5, odd), 4),
        case("odd", normal(3, int(rng.integers(3, 31))), 2),
        case("odd", normal(1, 1), 4),
        # No number that a maximum might start from is below all of these rows.
        case("negative", -np.array([[2], [200], [2e3], [2e4], [65500]]) - abs(normal(5, odd)), 2),
        case("negative", -1 - abs(normal(3, int(rng.integers(2, 31)))), 4),
        case("large", 300 + 20 * normal(2, 512), 2),
        case("odd", normal(3, 31), 2, "reverse"),
        *(
            case(DRAWN, scale * normal(*shape), *how)
            for shape, scale, *how in zip(
                drawn(rng, 32, LONGEST), (9e3, 1, 3e-6, 1, 1, 1, 1), (2, 4, 2, 2, 4, 2, 4), SCHEDULES
            )
        ),
        *(case(DRAWN, normal(M, N), *make, FAST) for make, M, N in OWN.get()),
    ]


# What wrong numbers show ----------------------------------------------------------------------------------------------


def explain(check: str, views: list[View], every: list[View]) -> Iterator[Diagnosis]:
    """What is wrong with the output that a check looks at."""
    (name,) = OUTPUTS[check]
    relative, absolute = TOLERANCE.get(name, (0, 0))
    wrong = [(v, tuple(map(int, at))) for v in views
             for at in np.argwhere(~np.isclose(v.got[name], v.right[name], relative, absolute))]  # fmt: skip
    if not wrong:
        return
    wrong = [(v, at) for v, at in wrong if v.readers] or wrong  # numbers that grow with N overflow in the longest rows
    v, at = wrong[0]
    got, expected = v.got[name][at], v.right[name][at]
    where = f"In {v.row(at[0])}"
    yield from {"copy": wrong_copy, "maximum": wrong_maximum, "sum": wrong_sum}[check](v, at, wrong, where)
    text = f"{where} {name}{list(at)} is {got:g}, and {expected:g} is right."
    if check == "maximum" and got > expected:
        text += " That is larger than every number of the row."
        if all((v.x[at] == -v.got[name][at]).any() for v, at in wrong):
            text += " It is the magnitude of one: a sign is lost before the maximum."
        elif len(wrong) > 1 and len({float(v.got[name][at]) for v, at in wrong}) == 1:
            text += " All wrong rows have it: what a maximum starts from, or a lane is filled with, has won."
    yield Diagnosis(f"wrong {check}", text)


def wrong_copy(v: View, at: tuple, wrong: list, where: str) -> Iterator[Diagnosis]:
    """A number that is not where it belongs."""
    r, c = at
    found = np.argwhere(v.x.astype(np.float64) == v.got["mY"][at])
    if len(found):
        row, column = found[0]
        text = f"{where} column {c} of y holds what x has in row {row}, column {column}. Do load and store use the same coordinate?"
        yield Diagnosis("wrong place", text)


def wrong_maximum(v: View, at: tuple, wrong: list, where: str) -> Iterator[Diagnosis]:
    """A maximum that padding or a start value won."""
    if all(v.got["mMax"][at] == 0 and (v.x[at] < 0).all() for v, at in wrong):
        yield Diagnosis(
            "neutral",
            f"{where} all numbers are negative, and the maximum is given as 0: a start value or the filling of lanes "
            "without a column "
            "has won. Neutral for a maximum is -inf.",
        )
    yield from lost_lanes([v for v, _ in wrong if v.readers])


def lost_lanes(views: list[View]) -> Iterator[Diagnosis]:
    """Maxima of some lanes only."""

    def matches(v, kept):
        return bool(kept.any() and (np.where(kept, v.x, -np.inf).max(axis=1) == v.got["mMax"]).all())

    def shown(v, who):
        r = int(np.argmax(v.got["mMax"] != v.right["mMax"]))
        return f"In {v.row(r)} the maximum is {v.right['mMax'][r]:g}, and the answer {v.got['mMax'][r]:g}."

    yield from diagnoses.lost(views, matches, shown)


def wrong_sum(v: View, at: tuple, wrong: list, where: str) -> Iterator[Diagnosis]:
    """A sum that padding or the type spoilt."""
    got, expected = v.got["mSum"][at], v.right["mSum"][at]
    if all(np.isclose(v.got["mSum"][at], last_of_lanes(v.x)[at], 1e-3) for v, at in wrong):
        yield Diagnosis(
            "sum replaced",
            f"{where} the sum is {expected:g}, and the answer {got:g}, which is the sum of each lane's last number: every step has "
            "to add to what the lane has, not take its place.",
        )
    for lane in (0, 31):
        if all(np.isclose(v.got["mSum"][at], v.x[at, lane::32].astype(np.float64).sum(), 1e-3) for v, at in wrong):
            yield Diagnosis(
                "not reduced",
                f"{where} the sum is {expected:g}, and the answer {got:g}, which is lane {lane}'s part alone: who adds up what the "
                "32 lanes have?",
            )
    if all(np.isclose(v.got["mSum"][at], summed_in_each_step(v.x)[at], 1e-2) for v, at in wrong if v.x.shape[1] > 32):
        yield Diagnosis(
            "summed in each step",
            f"{where} the sum is {expected:g}, and the answer {got:g}: as if warp_reduction_sum came in each step. After it every "
            "lane has the warp's sum, and the next reduction adds that up 32 times. Each lane adds up its own numbers first.",
        )
    large = [(v, at) for v, at in wrong if v.right["mSum"][at] > 65504]
    if np.isneginf(got) or (np.isnan(got) and not large):
        yield Diagnosis(
            "neutral",
            f"{where} the sum is {expected:g}, and the answer is {got:g}: a lane without a column has added -inf. What "
            "is neutral for a "
            "maximum is not for a sum, which takes 0.",
        )
    if large and all(np.isinf(v.got["mSum"][at]) for v, at in large):
        v, at = large[0]
        yield Diagnosis(
            "accumulated in float16",
            f"In {v.row(at[0])} the sum is {v.right['mSum'][at]:g}, and the answer is infinite: float16 ends at 65504. "
            "Numbers that are "
            "read as float16 should be added in float32.",
        )
    if all(
        abs(v.got["mSum"][at] - v.right["mSum"][at]) < 0.02 * np.abs(v.x[at].astype(float)).sum() for v, at in wrong
    ):
        yield Diagnosis(
            "accumulated in float16",
            f"{where} the sum is {expected:.8g}, and the answer {got:.8g}: near, with an error that float16's 11 bits leave, or a "
            "step as coarse. Numbers that are read as float16 should be added in float32.",
        )


def last_of_lanes(x: np.ndarray) -> np.ndarray:
    """The sum over the lanes of the last number that each has of a row."""
    return x[:, -32:].astype(np.float64).sum(axis=1)


def summed_in_each_step(x: np.ndarray) -> np.ndarray:
    """The sum where the warp's reduction stands in the loop."""
    total = np.zeros(len(x))
    for start in range(0, x.shape[1], 32):
        total = 32 * total + x[:, start : start + 32].astype(np.float64).sum(axis=1)
    return total


def predict(name: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """What a wrong number of steps shows."""
    for o in outcomes:
        (N,), got = o.case.make, o.outputs["answer"]
        if got != -(-N // 32):
            over = isinstance(got, (int, float)) and got > -(-N // 32)
            why = (
                "in the last no lane has a column"
                if over
                else "not every column has its turn: the last step may be short"
            )
            yield Diagnosis(
                "wrong prediction", f"steps({N}) returns {got!r}. Then {why}. 32 columns a step: how many steps?"
            )


def waste(outcome: Outcome) -> Iterator[Diagnosis]:
    """More bytes or waiting than the task needs."""
    yield from diagnoses.read_again(
        outcome, "mX", "Copy, maximum and sum can use the same number while it is in a register."
    )
    yield from diagnoses.idle_warps(outcome, "mX", rows=outcome.case.make[0])
    yield from diagnoses.scattered(outcome, "mX", "mY")
    yield from diagnoses.written_again(outcome)
    yield from diagnoses.barriers(outcome, 0, "a row belongs to one warp.")
