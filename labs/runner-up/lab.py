"""The lab `runner-up`: a row's largest number, its column, the second largest, and the weight of the first, in one read.

Neither book nor package solves it: a triple (first, index, second) travels through the block. A number that is merged twice changes
no maximum, and here becomes its own runner-up.

    RunnerUp(threads)(mX, mFirst, mIndex, mSecond, mGate)
        mX float32 or float16 (M, N); mFirst, mSecond and mGate float32 (M,), mIndex int32 (M,)

threads is 64, 128 or 256, a block a row; any N from 1 to LONGEST, with second -inf where N is 1; x may hold infinities and no NaN.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grading import diagnoses
from grading.diagnoses import View
from grading.judgement import DRAWN, FAST, OWN, SCHEDULES, Case, Diagnosis, Outcome, drawn, wild

TITLE = "Winner and runner-up: four kernels in one"
TARGET = "RunnerUp"
FUNCTIONS = ("separate_bytes", "fused_bytes")
LONGEST = 32_768  # columns of a row, as the text promises
CHECKS = {"separate_bytes": 1, "fused_bytes": 1, "winner": 2, "second": 2, "ties": 1, "edges": 2, "gate": 1, "order": 1,
          "traffic": 1}  # fmt: skip
PLAIN = ("random", "large")
LOOKS = {
    "winner": PLAIN,
    "second": PLAIN,
    "ties": ("ties",),
    "edges": ("sorted", "odd", "short", "infinite", "tiny", DRAWN),
    "gate": (*PLAIN, "ties", "infinite", "tiny", DRAWN),
}
NUMBERS = ("mFirst", "mIndex", "mSecond")
OUTPUTS = dict.fromkeys(LOOKS, NUMBERS) | {"winner": NUMBERS[:2], "second": NUMBERS[2:], "gate": ("mGate",)}
TRAFFIC = "large"
ROWS = "Each block has one row."
ADVICE = {"mX": "Columns end at N, and N need not be a multiple of the block."} | dict.fromkeys(
    (*NUMBERS, "mGate"), ROWS
)
SLOTS = "A block has threads // 32 warps, numbered from 0."
TOLERANCE = {"mGate": (1e-6, 0)}
FORMULA = 1e-7  # seven digits of log2(e) do
WIDTHS = 64, 128, 256
UNWRITTEN = -7  # an index that no answer has
MOVED = {"separate_bytes": (4, 7), "fused_bytes": (1, 4)}  # passes over x, and numbers of 4 bytes a row


def right(case: Case) -> dict:
    """First, its lowest column, second and gate of each row, by numpy in float64."""
    wide = np.pad(case.inputs["mX"].astype(np.float64), ((0, 0), (0, 1)), constant_values=-np.inf)
    second, first = np.sort(wide, axis=1)[:, -2:].T
    return {"mFirst": first, "mIndex": wide.argmax(axis=1), "mSecond": second, "mGate": gate(first, second)}


def gate(first: np.ndarray, second: np.ndarray, power=np.exp) -> np.ndarray:
    """The weight of the first in the softmax of the two: a half where they are equal, infinities too."""
    with np.errstate(all="ignore"):
        return 1 / (1 + power(np.where(first == second, 0, second - first)))


def cases(seed: int = 0) -> list[Case]:
    """Random and adversarial rows, in float32 and float16; another seed gives other numbers and other N."""
    rng = np.random.default_rng([seed, 14])

    def case(name, x, threads, schedule="forward", dtype=np.float32, turn=0):
        M = len(x)
        if name == DRAWN:
            parted(rng, x[1::2])
        outputs = {output: np.full(M, np.nan, np.float32) for output in (*NUMBERS, "mGate")}
        outputs["mIndex"] = np.full(M, UNWRITTEN, np.int32)
        with np.errstate(over="ignore"):
            inputs = {"mX": x.astype(dtype)}
        how = f"in {np.dtype(dtype).name} with {threads} threads"
        return Case(name, (threads,), inputs, outputs, schedule, seed * 101 + turn, (M, threads), how)

    def normal(M, N):
        return rng.standard_normal((M, N)) * 2

    plain = parted(rng, normal(10, 128 * int(rng.integers(4, 7))))
    tied = rng.integers(0, 4, (9, 64 * int(rng.integers(3, 6)))).astype(float)
    tied[:2] = 1  # nothing but ties
    # The first of two equals in the higher warp, in the higher lane, and both in one thread.
    tied[2, [32 + int(rng.integers(32)), 64 + int(rng.integers(32))]] = 9
    tied[3, [16 + int(rng.integers(16)), 64 + int(rng.integers(16))]] = 9
    tied[4, [20, 148]] = 9
    tied[5:] = -1
    tied[5, [20, 70]] = -0.0, 0.0  # which are equal, the first in the higher lane
    tied[6, [20, 84]] = -0.0, 0.0  # and in one thread
    tied[7, [20, 70, 75]] = 8.9921875, 9, 8  # which are not
    tied[8, 30:] = 7  # the second of many equals counts
    rows = np.sort(normal(4, 257 + 2 * int(rng.integers(1, 60))), axis=1)
    rows[1:3] = rows[1:3, ::-1]
    rows[2, :2] = rows[2, 1::-1]  # the runner-up first,
    rows[3, -2:] = rows[3, :-3:-1]  # and the runner-up last
    odd = -1 - 3 * rng.random((4, 256 + 1 + 2 * int(rng.integers(1, 60))))
    odd[3] *= 1e4
    # Both in one thread of 128, one of them in its last turn.
    turns = int(rng.integers(odd.shape[1] - 256)) + np.array([[0, 256], [256, 0], [128, 256]])
    odd[np.arange(3)[:, None], turns] = -0.25, -0.5
    short = -1 - 3 * rng.random((3, 1 + 2 * int(rng.integers(32, 45))))
    short[1] = np.abs(short[1])
    infinite = np.full((5, int(rng.integers(66, 190))), -np.inf)
    infinite[1, int(rng.integers(33, 60))] = -5.0
    infinite[2, [40, 63]] = np.inf
    infinite[3, [5, 50]] = np.inf, 3
    infinite[4, [8, 60]] = -3e4, -4e4
    long = normal(1, 2**16 + 1 + 2 * int(rng.integers(1, 60)))  # beyond 16 bits
    long[0, [-1 - int(rng.integers(1, 100)), int(rng.integers(2**16))]] = 12, 11.5
    sizes = [(int(10 ** rng.uniform(1, 4)), int(10 ** rng.uniform(1, 4)), size) for size in (2, 4)]
    half = np.float16
    one, other = rng.permutation([np.float32, half])  # of the long rows
    return [
        *(Case("bytes", made, target=name) for name in FUNCTIONS for made in ((1, 1, 4), (32768, 128, 2), *sizes)),
        case("random", plain, 128),
        case("random", parted(rng, normal(5, 256)), 64, dtype=half),
        case("ties", tied, 64),
        case("sorted", rows, 64),
        case("odd", odd, 128, dtype=half),
        case("short", short, 256),
        case("infinite", infinite, 64),
        case("large", parted(rng, normal(4, 1024)), 256),
        case("large", parted(rng, normal(2, 128 * int(rng.integers(2, 5)) + 40)), 256, dtype=half),
        case(DRAWN, long, 256, FAST),
        case("tiny", normal(3, int(rng.integers(2, 31))), 64),
        case("tiny", normal(2, 2), 64, dtype=half),
        case("tiny", normal(2, 1), 64),
        case("random", plain[:2], 128, "reverse"),
        case("random", plain[4:6], 128, "seeded", turn=1),
        case("odd", odd[:1], 64, "reverse", half),
        case("short", short[:1], 256, "seeded", turn=2),
        *(
            case(DRAWN, wild(rng, *shape), *how)
            for shape, *how in zip(
                drawn(rng, 128, LONGEST, kinds=3),
                (int(rng.choice(WIDTHS)), 64, *rng.choice(WIDTHS, 3).tolist(), *WIDTHS),
                SCHEDULES,
                8 * (one, half, other, other, half),
            )
        ),
        *(case(DRAWN, wild(rng, M, N), *make, FAST) for make, M, N in OWN.get()),
    ]


def parted(rng, x: np.ndarray) -> np.ndarray:
    """Rows whose two largest numbers lie 1, 2, 4, ... columns apart, either of them first: in one thread, or in two that meet in
    any round; in half of the rows one lies near the end."""
    M, N = x.shape
    for row, power in zip(x, rng.permutation(np.arange(M) + rng.integers(99)) % max(1, (N - 1).bit_length())):
        at = int(rng.integers(N)) if rng.random() < 0.5 else N - 1 - int(rng.integers(min(N, 32)))
        other = at - 2**power if at >= 2**power else at + 2**power
        if other < N and np.isfinite(row).all():
            apart = rng.permutation([0, 10 ** rng.uniform(-2, 0)])
            row[[at, other]] = row.max() + np.abs(row).max() * (0.02 + apart)
    return x


# What wrong numbers show ----------------------------------------------------------------------------------------------


def explain(check: str, views: list[View], every: list[View]) -> Iterator[Diagnosis]:
    """What is wrong with the outputs that a check is about, the most telling first."""
    if check == "winner":
        yield from diagnoses.index_in_float(views)
    wrong = bad_rows(views, OUTPUTS[check])
    if not wrong:
        return
    # Whoever has not got the pair right has no gate either.
    pairs = {(id(v), r) for v, r in bad_rows(views, ("mFirst", "mSecond"))}
    gates = [(v, r) for v, r in wrong if (id(v), r) not in pairs]
    if check == "gate" and gates:
        yield from wrong_gate(views, gates)
    maxima = bad_rows(views, NUMBERS[:1])
    losing = [v for v in every if v.readers and bad_rows([v], ("mFirst", "mSecond"))]
    if maxima:
        yield from wrong_maxima(*maxima[0], maxima, losing)
    if bad_rows(views, NUMBERS[1:2]) and check != "second":
        yield from wrong_indices(views)
    seconds = bad_rows(views, NUMBERS[2:])
    if seconds:
        yield from wrong_seconds(*seconds[0], seconds, losing)


def bad_rows(views: list[View], names: tuple) -> list:
    """(view, row) of each row in which one of some outputs is wrong."""

    def close(v, name):
        return np.isclose(v.got[name].astype(np.float64), v.right[name], *TOLERANCE.get(name, (0, 0)))

    return [(v, int(r)) for v in views for r in np.nonzero(~np.all([close(v, name) for name in names], axis=0))[0]]


def two(v: View, times) -> tuple[np.ndarray, np.ndarray]:
    """(M,) the largest and second largest of each row, where each number is there so many times (M, N)."""
    wide = v.x.astype(np.float64)
    kept = np.where(times >= 1, wide, -np.inf)
    often = np.where((times > 1) & (kept > -np.inf), wide, -np.inf).max(axis=1)
    first = kept.max(axis=1)
    kept[np.arange(len(kept)), kept.argmax(axis=1)] = -np.inf
    return first, np.maximum(kept.max(axis=1), often)


def holds(v: View, times) -> bool:
    """Whether first and second are those of the row with each number there so many times."""
    first, second = two(v, times)
    return bool((first == v.got["mFirst"]).all() and (second == v.got["mSecond"]).all())


def best_holds(v: View, kept) -> bool:
    """Whether first is the largest of the elements kept."""
    return bool((np.where(kept, v.x, -np.inf).max(axis=1) == v.got["mFirst"]).all())


def pair(v: View, r: int) -> str:
    """What is right in a row, and which threads read it."""
    column, second = int(v.right["mIndex"][r]), second_column(v, r)
    said = f"In {v.row(r)} the largest number is {v.right['mFirst'][r]:g}, in column {column}"
    if second is not None:
        said += f", and the second largest {v.right['mSecond'][r]:g}, in column {second}"
        if v.readers:
            said += f" (threads {v.readers.thread[r, column]} and {v.readers.thread[r, second]} read them)"
    return said


def second_column(v: View, r: int) -> int | None:
    """The lowest column beside the winner's that holds the second largest."""
    others = np.nonzero(v.x[r] == v.right["mSecond"][r])[0]
    return next((int(c) for c in others if c != v.right["mIndex"][r]), None)


def shown(v: View, who: str) -> str:
    """What one wrong row shows."""
    _, r = bad_rows([v], ("mFirst", "mSecond"))[0]
    return f"{pair(v, r)}; the answers are {v.got['mFirst'][r]:g} and {v.got['mSecond'][r]:g}."


def wrong_maxima(v: View, r: int, wrong: list, losing: list[View]) -> Iterator[Diagnosis]:
    """What a wrong first shows."""
    yield from foreign("mFirst", wrong)
    yield from diagnoses.lost(losing, holds, shown)
    yield from diagnoses.lost(losing, best_holds, shown)
    if all(
        (v.got["mFirst"][r], v.got["mSecond"][r]) == (v.right["mSecond"][r], v.right["mFirst"][r]) for v, r in wrong
    ):
        yield Diagnosis(
            "outputs exchanged",
            f"{pair(v, r)}; the answers are {v.got['mFirst'][r]:g} and {v.got['mSecond'][r]:g}, the two in the other order.",
        )
    yield Diagnosis(
        "wrong first",
        f"{pair(v, r)}; the first is answered to be {v.got['mFirst'][r]:g}. Which lanes have exchanged with which after the last "
        "round, and which slots does the last step read?",
    )


def foreign(name: str, wrong: list) -> Iterator[Diagnosis]:
    """Numbers that no column of their rows holds, and that are always the same, or near the row's."""
    found = [(v, r) for v, r in wrong if not (v.x[r] == v.got[name][r]).any() and not np.isneginf(v.got[name][r])]
    if not found:
        return
    v, r = found[0]
    got, answer = v.got[name][r], v.right[name][r]
    if len({float(v.got[name][r]) for v, r in found}) == 1 and (got > answer or np.isneginf(answer)):
        yield Diagnosis(
            "neutral",
            f"{pair(v, r)}; {name} is {got:g}, which no column holds. It comes from a start value or from lanes without a column: "
            "neutral for a maximum is -inf, which no number is below. That holds for both numbers of a triple.",
        )
    if all(np.isclose(v.got[name][r], v.right[name][r], 2e-3, 1e-7) for v, r in found):
        yield Diagnosis(
            "not exact",
            f"{pair(v, r)}; {name} is {got:.9g}: near, and no number of the row. The two largest can be found by comparing alone, "
            "and that does not round: a float32 stays one until it is written.",
        )
    if np.isnan(got):
        yield Diagnosis("not a number", f"{pair(v, r)}; {name} is nan. Comparing makes none: which line calculates?")


def wrong_indices(views: list[View]) -> Iterator[Diagnosis]:
    """What a wrong index shows, where the first is right."""
    wrong = [(v, r) for v, r in bad_rows(views, ("mIndex",)) if v.got["mFirst"][r] == v.right["mFirst"][r]]
    if not wrong:
        return
    held, other = [], []
    for v, r in wrong:
        equal = inside(v, r) and v.x[r, v.got["mIndex"][r]] == v.right["mFirst"][r]
        (held if equal else other).append((v, r))
    if held and all(np.isneginf(v.right["mFirst"][r]) for v, r in other):
        v, r = held[0]
        low, got = int(v.right["mIndex"][r]), int(v.got["mIndex"][r])
        where = f", read by threads {v.readers.thread[r, low]} and {v.readers.thread[r, got]}" if v.readers else ""
        yield Diagnosis(
            "ties",
            f"In {v.row(r)} columns {low} and {got} both hold the largest number {v.right['mFirst'][r]:g}{where}. The lower column "
            "is asked for, and the answer is the other. Both partners of a round must come to the same winner.",
        )
    v, r = other[0]
    got = int(v.got["mIndex"][r])
    if np.isneginf(v.right["mFirst"][r]):
        yield Diagnosis(
            "no column",
            f"In {v.row(r)} every number is -inf, so the lowest column, 0, is right; the answer is {got}. Nothing is greater than "
            "a start of -inf, so an index that comes from a start value meets columns of the same value: those must win.",
        )
    forward = [(v, r) for v, r in wrong if v.readers]
    for name, number in (
        ("the column of the runner-up", lambda v, r, c: second_column(v, r)),
        ("the lowest 16 bits of the column", lambda v, r, c: (c + 2**15) % 2**16 - 2**15),
        ("the step of the thread's loop", lambda v, r, c: c // v.case.make[0]),
        ("the position in the whole of x", lambda v, r, c: r * v.x.shape[1] + c),
        ("N, which no column has", lambda v, r, c: v.x.shape[1]),
        ("the thread's number", lambda v, r, c: v.readers and v.readers.thread[r, c]),
        ("the lane's number", lambda v, r, c: v.readers and v.readers.lane[r, c]),
        ("the warp's number", lambda v, r, c: v.readers and v.readers.warp[r, c]),
    ):
        if all(v.got["mIndex"][r] == number(v, r, v.right["mIndex"][r]) for v, r in forward or wrong):
            yield Diagnosis(
                "index of something else",
                f"{pair(v, r)}; the index is {got}: {name}. It is the number of the column that x was read with, and comes in with "
                "the winner.",
            )
    text = f"the index is {got}, " + (f"whose column holds {v.x[r, got]:g}" if inside(v, r) else "which is no column")
    yield Diagnosis(
        "index apart from its value",
        f"{pair(v, r)}; {text}. First and index travel together: where a partner's first wins, take its index with it, and only "
        "then.",
    )


def inside(v: View, r: int) -> bool:
    """Whether the answered index is a column."""
    return 0 <= v.got["mIndex"][r] < v.x.shape[1]


def units(v: View) -> dict:
    """Who may hold a part of a row: {words: (M, N) the part that each column is in}."""
    thread = v.readers.thread
    return {"thread": thread, "warp": thread // 32, "half of the warps": thread * 2 // v.case.make[0]}


def by_unit(v: View, whose: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(M, parts): the first and second of each part of a row."""
    found = [two(v, whose == part) for part in range(int(whose.max()) + 1)]
    return tuple(np.array(some).T for some in zip(*found))


def winners_second_lost(v: View, whose: np.ndarray) -> np.ndarray:
    """(M,) the second largest, of each part the first alone."""
    firsts, _ = by_unit(v, whose)
    return np.sort(np.pad(firsts, ((0, 0), (1, 0)), constant_values=-np.inf), axis=1)[:, -2]


def losers_first_lost(v: View, whose: np.ndarray) -> np.ndarray:
    """(M,) the largest of the parts' seconds."""
    return by_unit(v, whose)[1].max(axis=1)


def wrong_seconds(v: View, r: int, wrong: list, losing: list[View]) -> Iterator[Diagnosis]:
    """What a wrong second shows."""
    got = v.got["mSecond"][r]
    forward = [(v, r) for v, r in wrong if v.readers] or wrong
    if all(v.got["mSecond"][r] == v.right["mFirst"][r] for v, r in wrong):
        again = [(v, r, int(c)) for v, r in forward if v.readers for c in np.nonzero(v.readers.times[r] > 1)[0]]
        if again and len({(id(v), r) for v, r, _ in again}) == len(forward):
            v, r, column = again[0]
            yield Diagnosis(
                "read by two lanes",
                f"{pair(v, r)}; the second is answered to be the first. Column {column} is read more than once, so that one number "
                "comes in as two: a thread without a column of its own brings -inf, and no copy of another's number.",
            )
        yield from diagnoses.counted_twice(losing, holds, shown)
        yield from diagnoses.wrong_rounds(losing, holds, shown)
        yield Diagnosis(
            "counted twice",
            f"{pair(v, r)}; the second is answered to be {got:g}, as if the winner were its own runner-up. Either a triple meets "
            "itself: in a round whose partner it has met before, in a last step that reads a slot twice, or where a start value is "
            "a number that comes again. Or the first is replaced before the second is found from it.",
        )
    equal = [(v, r) for v, r in wrong if v.right["mFirst"][r] == v.right["mSecond"][r] > -np.inf]
    if len(equal) == len(wrong):
        yield Diagnosis(
            "ties",
            f"{pair(v, r)}; the second is answered to be {got:g}. Rows are wrong in which the largest number is there twice, and "
            "no others: equal numbers are two numbers, and the one that is not the winner is second. Where is it dropped?",
        )
    yield from foreign("mSecond", wrong)
    yield from diagnoses.lost(losing, holds, shown)
    for words in ("thread", "warp", "half of the warps"):
        seen = [v for v in losing if v.readers]
        if seen and all((winners_second_lost(v, units(v)[words]) == v.got["mSecond"]).all() for v in seen):
            yield Diagnosis(
                "runner-up behind the winner",
                f"{pair(v, r)}; the second is answered to be {got:g}, the best of the parts that lost. Each {words} hands over its "
                "first alone, or merges firsts alone: the runner-up may be in the winner's own part.",
            )
        if seen and all((losers_first_lost(v, units(v)[words]) == v.got["mSecond"]).all() for v in seen):
            yield Diagnosis(
                "loser's first lost",
                f"{pair(v, r)}; the second is answered to be {got:g}. It is as if only seconds were compared with seconds where "
                f"each {words} meets another: the first that loses is a candidate for the second place, too.",
            )
    if all(np.isneginf(v.got["mSecond"][r]) for v, r in wrong):
        yield Diagnosis(
            "second never taken",
            f"{pair(v, r)}; the second is answered to be -inf, a start value. What becomes of a first that is replaced, and of one "
            "that loses?",
        )
    yield Diagnosis(
        "wrong second",
        f"{pair(v, r)}; the second is answered to be {got:g}. Where two triples meet, one first wins. What is second is the "
        "larger of the first that lost and the second of the one that won: which of these does your merge forget, on which side?",
    )


def rows_softmax(case: Case) -> np.ndarray:
    """The first's weight in the softmax of the whole row."""
    x = case.inputs["mX"].astype(np.float64)
    with np.errstate(all="ignore"):
        return 1 / np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1)


def of_pair(formula):
    """A formula of first and second, as one of a case."""
    return lambda case: formula(right(case)["mFirst"], right(case)["mSecond"])


SOFTMAX = "Of the two, each weighs exp of itself, and the gate is the first's share of both."
FORMULAS = (
    ("gate of the runner-up", of_pair(lambda f, s: 1 - gate(f, s)), f"It is the runner-up's weight. {SOFTMAX}"),
    ("powers of two", of_pair(lambda f, s: gate(f, s, np.exp2)),
     "It is as if 2 ** x stood for exp(x): exp2 wants x times log2(e)."),
    ("margin, not its weight", of_pair(lambda f, s: f - s), f"That is the margin, first - second. {SOFTMAX}"),
    ("odds, not the share", of_pair(lambda f, s: np.exp(f - s)), f"That is the first's weight over the second's. {SOFTMAX}"),
    ("odds, not the share", of_pair(lambda f, s: np.exp(s - f)), f"That is the second's weight over the first's. {SOFTMAX}"),
    ("without exp", of_pair(lambda f, s: f / (f + s)), f"It is as if the numbers themselves were weights. {SOFTMAX}"),
    ("weight of one number", of_pair(lambda f, s: 1 / (1 + np.exp(-f))),
     f"It is as if the second were 0: the sigmoid of the first alone. {SOFTMAX}"),
    ("softmax of the whole row", rows_softmax, f"It is the first's weight among all numbers of the row. {SOFTMAX}"),
)  # fmt: skip


def wrong_gate(views: list[View], wrong: list) -> Iterator[Diagnosis]:
    """What a wrong gate beside a right pair shows."""

    def told(v, r):
        said = (
            f"In {v.row(r)} first and second are {v.right['mFirst'][r]:g} and {v.right['mSecond'][r]:g}; the gate is "
        )
        return f"{said}{v.got['mGate'][r]:.7g}, and {v.right['mGate'][r]:.7g} is right."

    shown = told(*wrong[0])
    yield from diagnoses.by_formula(
        [v for v in views if v.case.name in PLAIN and v.readers], "mGate", FORMULAS, (1e-4, 1e-6)
    )
    if all(v.right["mFirst"][r] == v.right["mSecond"][r] and np.isinf(v.right["mFirst"][r]) for v, r in wrong):
        yield Diagnosis(
            "equal infinities",
            f"{shown} Infinity minus infinity is NaN: where the two are equal, whatever they are, so are the weights.",
        )
    if all(v.right["mFirst"][r] == v.right["mSecond"][r] for v, r in wrong):
        yield Diagnosis("equal numbers", f"{shown} Where the two are equal the weights are, too: a half each.")
    if all(np.isinf(v.right["mSecond"][r]) for v, r in wrong):
        yield Diagnosis(
            "no runner-up",
            f"{shown} Only rows are wrong in which the second is infinite. Next to -inf every other number has all the weight; "
            "what does your formula make of it?",
        )
    far = [(v, r) for v, r in wrong if not 0.5 <= v.got["mGate"][r] <= 1 and np.isfinite(v.right["mSecond"][r])]
    if far:
        v, r = far[0]
        yield Diagnosis(
            "no shift",
            f"{told(v, r)} So it is where numbers are far from 0, or from each other: exp of that is beyond float32, or 0, and "
            "infinity over infinity, or 0 over 0, is NaN. Take the difference first, and of the sign that cannot overflow.",
        )
    if all(np.isclose(v.got["mGate"][r], v.right["mGate"][r], 2e-3) for v, r in wrong):
        yield Diagnosis(
            "not exact", f"{shown} That is near, and float32 can do better: which step rounds, or is approximate?"
        )
    yield Diagnosis("wrong gate", f"{shown} {SOFTMAX}")


def predict(name: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """What a wrong number of bytes shows."""
    passes, words = MOVED[name]
    others = next(one for one in MOVED.items() if one[0] != name)
    x = "over x: count them kernel by kernel, and two bytes a number where it has two."
    mistakes = (
        ("other kernels", lambda M, N, size: others[1][0] * size * M * N + 4 * others[1][1] * M, f"That is {others[0]}."),
        ("numbers, not bytes", lambda M, N, size: passes * M * N + words * M, "Those are numbers: count their bytes."),
        ("x at 4 bytes", lambda M, N, size: 4 * (passes * M * N + words * M), "x has `size` bytes a number, which may be 2."),
        ("rows at x's size", lambda M, N, size: size * (passes * M * N + words * M),
         "First, index, second and gate have 4 bytes each, whatever x has."),
        ("x alone", lambda M, N, size: passes * size * M * N, "That is x alone: each row's few numbers move, too."),
        *(("passes", lambda M, N, size, n=n: n * size * M * N + 4 * words * M, f"That is what is right with {n} passes {x}")
          for n in range(1, 6) if n != passes),
        *(("numbers of a row", lambda M, N, size, n=n: passes * size * M * N + 4 * n * M,
           f"That is what is right with {n} numbers of 4 bytes a row: which are read, which written, in each kernel?")
          for n in range(1, 10) if n != words),
    )  # fmt: skip
    hint = "Go through the kernels one by one: what does each read, what does it write, of how many bytes?"
    yield from diagnoses.wrong_prediction(
        name, outcomes, lambda M, N, size: passes * size * M * N + 4 * words * M, hint, mistakes
    )


def waste(outcome: Outcome) -> Iterator[Diagnosis]:
    """More bytes or waiting than the task needs."""
    advice = "Carry all three along, instead of looking for the second in another pass."
    yield from diagnoses.read_again(outcome, "mX", advice)
    yield from diagnoses.idle_warps(outcome, "mX")
    yield from diagnoses.scattered(outcome, "mX")
    yield from diagnoses.written_again(outcome)
    yield from diagnoses.shuffles(outcome, 10, "5 over the lanes and as many, at most, over the warps.")
    yield from diagnoses.barriers(outcome, 1, "the three can travel together.")
