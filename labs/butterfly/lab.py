"""The lab `butterfly`: each row's largest number lowered to its second largest, a row to each group of `width` lanes.

Neither book nor package solves it: a pair (best, second) has to be merged in each round, and every lane needs the result.

    ClipToSecond(width)(mX, mY)   mX and mY float32 (M, N)

width is 8, 16 or 32 lanes, a block has 128 threads; any M of at least 1, any N from 2 to LONGEST; x may hold infinities and no NaN.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grading import diagnoses
from grading.diagnoses import View
from grading.judgement import DRAWN, FAST, OWN, SCHEDULES, Case, Diagnosis, Outcome, drawn, wild

TITLE = "Butterfly: the two largest numbers of a row"
TARGET = "ClipToSecond"
FUNCTIONS = ("shuffles",)
LONGEST = 4_096  # columns of a row, as the text promises
CHECKS = {"shuffles": 1, "warps": 2, "groups": 2, "edges": 2, "order": 1, "traffic": 1}
LOOKS = {"warps": ("random", "large"), "groups": ("groups",), "edges": ("ragged", "negative", "tiny", "ties", DRAWN)}
TRAFFIC = "large"
EDGES = "Columns end at N and rows at M: some lanes have no column in the last step, and some no row in the last block."
ADVICE = {"mX": EDGES, "mY": EDGES}
THREADS, WIDTHS = 128, (8, 16, 32)
PICTURES = ("lanes",)  # a butterfly shows one value a lane, and here two travel in turn


def right(case: Case) -> dict:
    """Each row with its largest number lowered to the second largest."""
    x = case.inputs["mX"].astype(np.float64)
    return {"mY": np.minimum(x, np.sort(x, axis=1)[:, -2:-1])}


def cases(seed: int = 0) -> list[Case]:
    """Random and adversarial rows; another seed gives other numbers and other N."""
    rng = np.random.default_rng([seed, 4])
    odd = 33 + 2 * int(rng.integers(1, 20))
    ties = rng.integers(0, 3, (9, 50)).astype(float)
    ties[0] = 1
    ties[1, [7, 30]] = 5, np.nextafter(np.float32(5), np.float32(6))
    infinite = rng.standard_normal((5, odd))
    infinite[1, 5] = infinite[2, [3, 4]] = np.inf
    infinite[3:] = -np.inf
    infinite[4, 8] = -5  # its second is -inf

    def case(name, x, width, schedule="forward"):
        M = len(x)
        outputs = {"mY": np.full(x.shape, np.nan, np.float32)}
        launch = (-(-M // (THREADS // width)), THREADS)
        inputs, how = {"mX": x.astype(np.float32)}, f"with {width} lanes a row"
        return Case(name, (width,), inputs, outputs, schedule, seed * 101 + 1, launch, how)

    def normal(M, N):
        x = rng.standard_normal((M, N)) * 3
        x[::2, 0] += 20  # lane 0 holds the largest of every other row
        return x

    return [
        *(Case("shuffles", (width,), target="shuffles") for width in (2, 8, 16, 32)),
        case("random", normal(8, 96), 32),
        case("large", normal(4, 256), 32),
        case("groups", normal(16, 32), 8),
        case("groups", normal(16, 48), 16),
        case("ragged", normal(5, odd), 32),
        case("ragged", normal(19, 21), 8),
        case("negative", (-4 - abs(normal(8, odd))) * np.where(np.arange(8) == 1, 1e30, 1)[:, None], 16),
        case("tiny", normal(3, 2), 32),
        case("tiny", normal(17, 5), 8),
        case("ties", ties, 16),
        case("ties", infinite, 32),
        case("random", normal(6, 70), 32, "reverse"),
        case("groups", normal(9, 20), 8, "seeded"),
        *(
            case(DRAWN, wild(rng, *shape), *how)
            for shape, *how in zip(
                drawn(rng, 32, LONGEST, 2, kinds=3), (32, *rng.choice(WIDTHS, 4).tolist(), *WIDTHS), SCHEDULES
            )
        ),
        *(case(DRAWN, wild(rng, M, N), *make, FAST) for make, M, N in OWN.get()),
    ]


# What wrong numbers show ----------------------------------------------------------------------------------------------


def explain(check: str, views: list[View], every: list[View]) -> Iterator[Diagnosis]:
    """What is wrong with the numbers that a check looks at, the most telling first."""
    wrong = [v for v in views if v.wrong.any()]
    if not wrong:
        return
    v = wrong[0]
    r = int(np.argmax(v.wrong))
    bad = np.nonzero(v.got["mY"][r] != v.right["mY"][r])[0]
    order = np.argsort(-v.x[r], kind="stable")
    best, second = v.x[r, order[0]], v.x[r, order[1]]
    where = f"In {v.row(r)} the largest numbers are {best:g} and {second:g}"

    def clipped(at):  # whether all outputs are clipped at such numbers (M, 1) or (M, N)
        return all((v.got["mY"] == np.minimum(v.x, at(v)).astype(np.float32)).all() for v in wrong)

    unclipped = [bool((v.got["mY"] == v.x)[v.wrong].all()) for v in wrong]
    seen = [v for v in wrong if v.readers] or [v for v in every if v.readers and v.wrong.any()]
    read = [v.readers.times[v.wrong] for v in seen]
    if all(unclipped) and read and all((times > 1).any(axis=1).all() for times in read):
        column = int(np.argmax(wrong[0].readers.times[r] > 1)) if wrong[0].readers else v.x.shape[1] - 1
        yield Diagnosis(
            "read by two lanes",
            f"{where}, and nothing is clipped. Column {column} is read more than once, so that one number comes in as two: a lane "
            "without a column of its own brings -inf, and no copy of another's number.",
        )
    if all(unclipped):
        yield Diagnosis(
            "counted twice",
            f"{where}, and nothing is clipped, as if the largest were its own second. Either the pair holds one number twice: does "
            "a lane meet the same partner in two rounds, is the best replaced before the second is found from it, or do both start "
            "from one number? Or the pair is right, and the row is clipped at its best.",
        )
    seconds = [np.broadcast_to(np.sort(v.x, axis=1)[:, -2:-1], v.x.shape).astype(np.float32) for v in wrong]
    if all((v.got["mY"] == second).all() for v, second in zip(wrong, seconds)):
        yield Diagnosis(
            "all replaced",
            f"{where}, and every column of y holds {second:g}. Only what is above the second largest comes down to it: y is the "
            "smaller of the two in each column.",
        )
    forward = [v for v in wrong if v.readers]
    if forward and all(
        (v.got["mY"] == of_own_largest(v, second)).all() for v, second in zip(wrong, seconds) if v.readers
    ):
        at = np.argwhere(forward[0].got["mY"] != forward[0].right["mY"])[0]
        yield Diagnosis(
            "own largest replaced",
            f"In {forward[0].row(at[0])} column {at[1]} holds {forward[0].x[tuple(at)]:g}, its lane's largest number, and becomes "
            f"{forward[0].got['mY'][tuple(at)]:g}, the row's second: every lane replaces a number of its own. What is "
            "compared with the pair has to be each number itself, or the row's largest, which a lane knows after the butterfly.",
        )
    twice = [(np.sort(v.x, axis=1)[:, -1] == np.sort(v.x, axis=1)[:, -2])[v.wrong].all() for v in wrong]
    if all(twice):
        yield Diagnosis(
            "ties",
            f"{where}, in two columns, so nothing is above the second; column {bad[0]} is lowered to "
            f"{v.got['mY'][r, bad[0]]:g}. Rows are wrong in which the largest number is there twice, and no others: equal "
            f"numbers are "
            "two numbers. Where is one of them skipped?",
        )
    narrow = [v for v in wrong if v.case.make[0] < 32]
    if narrow and len(narrow) == len(wrong) and clipped(of_warp):
        yield Diagnosis(
            "mixed rows",
            f"{where}; it is clipped at {v.got['mY'][r].max():g}, the second largest of all rows of the warp. A row has "
            f"{v.case.make[0]} lanes here: a round of offset {v.case.make[0]} or more brings another row's numbers.",
        )
    got = v.got["mY"][r, bad[0]]
    for end in (0, got):
        if end not in v.x[r] and clipped(lambda v: np.maximum(np.sort(v.x, axis=1)[:, -2:-1], end)):  # noqa: B023
            text = (
                f"{where}, and column {bad[0]} is clipped at {end:g}, which is not in the row. It comes from a start value or from "
                "lanes without a column: neutral for a maximum is -inf, which no number is below."
            )
            yield Diagnosis("neutral", text)
    if got not in v.x[r] and all(np.allclose(v.got["mY"], v.right["mY"], 1e-3) for v in wrong if v.case.name != DRAWN):
        yield Diagnosis(
            "not exact",
            f"{where}, and column {bad[0]} becomes {got:.9g}, where {second:.9g} is right: near, and no number of the row. The two "
            "largest can be found by comparing alone, and that does not round.",
        )
    for bit in (1, 2, 4, 8, 16):
        if forward and all((v.got["mY"] == np.minimum(v.x, of_half(v, bit)).astype(np.float32)).all() for v in forward):
            yield Diagnosis(
                "lost lanes",
                f"{where}, and lanes {bit} apart clip at different numbers: no round exchanges lanes that are {bit} apart, so each "
                "knows one half of the row only. Which lanes has lane 0 heard of after each round?",
            )
    if forward and lane_0_is_right([v for v in every if v.readers]):
        f = forward[0]
        at = np.argwhere(f.got["mY"] != f.right["mY"])
        lane, column = group_lane(f)[tuple(at[0])], at[0][1]
        yield Diagnosis(
            "only lane 0",
            f"Where lane 0 of a row holds its largest number, that is clipped right; in {f.row(at[0][0])} lane {lane} holds "
            f"it, in column {column}, and clips it at {f.got['mY'][tuple(at[0])]:g}: every lane of the row needs the pair, and "
            "only lane 0 has it. A butterfly leaves it in all, or lane 0 hands it out.",
        )
    lanes = group_lane(v)[r] if v.readers else None
    said = f", read by lanes {lanes[order[0]]} and {lanes[order[1]]} of the group" if v.readers else ""
    yield Diagnosis(
        "wrong second",
        f"{where}{said}; column {bad[0]} holds {v.x[r, bad[0]]:g} and the answer there is {v.got['mY'][r, bad[0]]:g}. "
        "Where two pairs meet, the second largest of the four can be either pair's best or either pair's second.",
    )


def predict(name: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """What a wrong number of shuffles shows."""
    for o in outcomes:
        width, got = o.case.make[0], o.outputs["answer"]
        if got != 2 * (width.bit_length() - 1):
            text = (
                f"shuffles({width}) returns {got!r}. After a round a lane knows of 2 lanes, and each round doubles that: how many "
                f"rounds until it knows of {width}? Two numbers travel in each."
            )
            yield Diagnosis("wrong prediction", text)


def lane_0_is_right(views: list[View]) -> bool:
    """Whether the largest number of each row, and there is such a row, is clipped right where lane 0 read it, and not elsewhere."""
    right, seen, elsewhere = True, 0, False
    for v in views:
        clipped, same = v.right["mY"] != v.x, v.got["mY"] == v.right["mY"]
        of_lane_0 = clipped & (group_lane(v) == 0)
        right, seen = right and bool(same[of_lane_0].all()), seen + of_lane_0.sum()
        elsewhere = elsewhere or not same[clipped & ~of_lane_0].all()
    return right and seen > 1 and elsewhere


def group_lane(v: View) -> np.ndarray:
    """(M, N) the lane within its row's group that read each column."""
    return v.readers.lane % v.case.make[0]


def of_own_largest(v: View, second: np.ndarray) -> np.ndarray:
    """x with the largest number that each lane read replaced by the row's second largest."""
    lanes, found = group_lane(v), v.x.copy()
    for lane in range(v.case.make[0]):
        own = np.where(lanes == lane, v.x, -np.inf).max(axis=1, keepdims=True)
        found = np.where((lanes == lane) & (v.x == own), second, found)
    return found


def of_warp(v: View) -> np.ndarray:
    """(M, 1) the second largest number of all rows of a row's warp."""
    rows = 32 // v.case.make[0]
    warps = [v.x[i : i + rows] for i in range(0, len(v.x), rows)]
    return np.concatenate([np.full((len(part), 1), np.sort(part, axis=None)[-2]) for part in warps])


def of_half(v: View, bit: int) -> np.ndarray:
    """(M, N) the second largest number that lanes of the same `bit` as a column's read."""
    low = (group_lane(v) & bit) == 0
    halves = [np.sort(np.where(part, v.x, -np.inf), axis=1)[:, -2:-1] for part in (low, ~low)]
    return np.where(low, *halves)


def waste(outcome: Outcome) -> Iterator[Diagnosis]:
    """More bytes or waiting than the task needs."""
    yield from diagnoses.read_again(outcome, "mX", "Keep the lane's numbers in registers until they are clipped.")
    yield from diagnoses.idle_warps(outcome, "mX", rows=THREADS // outcome.case.make[0])
    yield from diagnoses.scattered(outcome, "mX", "mY", width=outcome.case.make[0])
    yield from diagnoses.written_again(outcome)
    rounds = outcome.case.make[0].bit_length() - 1
    yield from diagnoses.shuffles(outcome, rounds, "with each round a lane knows twice as many lanes' numbers.", True)
    yield from diagnoses.barriers(outcome, 0, "the lanes of a row are in one warp, and a shuffle waits for them.")
