"""The lab `block-reduce`: the maximum of each row and the lowest column that holds it, one block a row.

Neither book nor package solves it: a pair (value, index) has to travel through the block as one, with one barrier.

    RowArgmax(threads)(mX, mMax, mIndex)   mX float32 (M, N), mMax float32 (M,), mIndex int32 (M,)

threads is 64, 128 or 256; any N from 1 to LONGEST; x may hold infinities and no NaN.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grading import diagnoses
from grading.diagnoses import View
from grading.judgement import DRAWN, FAST, OWN, SCHEDULES, Case, Diagnosis, Outcome, drawn, near, wild

TITLE = "Block reduce: the maximum of a row and its column"
TARGET = "RowArgmax"
FUNCTIONS = ("least_bytes",)
LONGEST = 75_000  # columns of a row, as the text promises
CHECKS = {"least_bytes": 1, "maximum": 2, "index": 2, "ties": 1, "edges": 2, "order": 2, "traffic": 1}
LOOKS = {"maximum": ("random", "large", "long"), "index": ("random", "large", "long"), "ties": ("ties",),
         "edges": ("odd", "short", "infinite", "tiny", DRAWN)}  # fmt: skip
TRAFFIC = "large"
ROWS = "Each block has one row."
ADVICE = {"mX": "Columns end at N, and N need not be a multiple of the block.", "mMax": ROWS, "mIndex": ROWS}
SLOTS = "A block has threads // 32 warps, numbered from 0."
WIDTHS = 64, 128, 256
UNWRITTEN = -7  # an index that no answer has


def right(case: Case) -> dict:
    """The maximum of each row and its lowest column, by numpy in float64."""
    wide = case.inputs["mX"].astype(np.float64)
    return {"mMax": wide.max(axis=1).astype(np.float32), "mIndex": wide.argmax(axis=1).astype(np.int32)}


def cases(seed: int = 0) -> list[Case]:
    """Random and adversarial rows; another seed gives other numbers and other N."""
    rng = np.random.default_rng([seed, 5])
    plain = rng.standard_normal((8, 128 * int(rng.integers(3, 6)))) * 3
    plain[np.arange(8), _spread(rng, plain.shape[1], 4)] = 20 + rng.random(8)  # each warp wins some rows
    tied = rng.integers(0, 4, (8, 64 * int(rng.integers(3, 6)))).astype(float)
    tied[:2] = 1  # nothing but ties
    # The first of two equals in the higher warp, and in the higher lane.
    tied[2, [32 + int(rng.integers(32)), 64 + int(rng.integers(32))]] = 9
    tied[3, [16 + int(rng.integers(16)), 64 + int(rng.integers(16))]] = 9
    odd = -1 - 3 * rng.random((4, 256 + 1 + 2 * int(rng.integers(1, 60))))
    odd[3] *= 1e30
    # Shorter than a block, and long enough for what is read again to count.
    short = -1 - 3 * rng.random((3, 1 + 2 * int(rng.integers(32, 45))))
    short[1] = np.abs(short[1])
    infinite = np.full((3, int(rng.integers(66, 190))), -np.inf)
    infinite[1, int(rng.integers(33, 60))] = -5.0
    infinite[2, [40, 63]] = np.inf
    # With 8 warps, two rows that the upper half wins, and two whose last lanes win in the lower half.
    large = rng.standard_normal((4, 1024))
    winners = 32 * np.array([rng.integers(4, 6), rng.integers(6, 8), 1, 3]) + [*rng.integers(0, 31, 2), 31, 31]
    large[np.arange(4), winners + 256 * rng.integers(0, 4, 4)] = 9
    long = rng.standard_normal((1, near(rng, LONGEST)))  # beyond 16 bits
    long[0, -1 - int(rng.integers(1, 100))] = 9
    tiny = rng.standard_normal((2, int(rng.integers(2, 31))))
    tied[5:] = -1
    tied[5, [20, 70]] = -0.0, 0.0  # which are equal, the first in the higher lane
    tied[6, [20, 84]] = -0.0, 0.0  # and in one thread
    tied[7, [20, 70]] = np.nextafter(np.float32(9), np.float32(8)), 9  # which are not

    def case(name, x, threads, schedule="forward", turn=0):
        M = len(x)
        if name == DRAWN:  # a tie of the last column with one before it
            x[0, [int(rng.integers(x.shape[1])), -1]] = x[0].max()
        outputs = {"mMax": np.full(M, np.nan, np.float32), "mIndex": np.full(M, UNWRITTEN, np.int32)}
        inputs, how = {"mX": x.astype(np.float32)}, f"with {threads} threads"
        return Case(name, (threads,), inputs, outputs, schedule, seed * 101 + turn, (M, threads), how)

    return [
        *(
            Case("bytes", (M, N), target="least_bytes")
            for M, N in ((1, 1), (32768, 4096), (int(rng.integers(2, 99)), 7))
        ),
        case("random", plain, 128),
        case("ties", tied, 64),
        case("odd", odd, 128),
        case("short", short, 256),
        case("infinite", infinite, 64),
        case("large", large, 256),
        case("long", long, 256, FAST),
        case("tiny", tiny, 64),
        case("tiny", tiny[:, :1], 64),
        case("random", plain[:2], 128, "reverse"),
        case("random", plain[4:6], 128, "seeded", 1),
        case("ties", tied[1:4], 64, "seeded", 2),
        case("odd", odd[:1], 128, "reverse"),
        case("short", short, 256, "seeded", 3),
        *(
            case(DRAWN, wild(rng, *shape), *how)
            for shape, *how in zip(
                drawn(rng, 128, 5000, kinds=3), (*rng.choice(WIDTHS, 5).tolist(), *WIDTHS), SCHEDULES
            )
        ),
        *(case(DRAWN, wild(rng, M, N), *make, FAST) for make, M, N in OWN.get()),
    ]


def _spread(rng, N: int, warps: int) -> list:
    """A column for each of 8 rows: one in each quarter, then one for each warp that reads every `32 * warps`-th chunk."""
    quarters = [int(rng.integers(N * k // 4, N * (k + 1) // 4)) for k in range(4)]
    chunks = [int(rng.integers(N // (32 * warps))) * 32 * warps + 32 * w + int(rng.integers(32)) for w in range(warps)]
    return quarters + chunks


# What wrong numbers show ----------------------------------------------------------------------------------------------


def explain(check: str, views: list[View], every: list[View]) -> Iterator[Diagnosis]:
    """What is wrong with the numbers that a check looks at, the most telling first."""
    # Which warps or lanes are left out shows only in many rows: in all whose maximum is wrong.
    losing = [v for v in every if v.readers and len(wrong_rows(v))]
    yield from wrong_maxima(views, losing)
    if check == "index":
        yield from diagnoses.index_in_float(views)
    if check == "ties":  # where a column is not the answer's number at all, which of two equals wins says nothing
        apart = [
            (v, int(r))
            for v in every
            if v.readers and any((one.got["mIndex"] != one.right["mIndex"]).any() for one in views)
            for r in np.nonzero((v.got["mIndex"] != v.right["mIndex"]) & (v.got["mMax"] == v.right["mMax"]))[0]
        ]
        yield from other_number([(v, r) for v, r in apart if (v.x[r] == v.right["mMax"][r]).sum() == 1])
    if check != "maximum":
        for found in wrong_indices(views, [v for v in views if v.readers]):
            if (
                found.kind == "ties" and losing
            ):  # which of two equals wins says nothing where a part of the row is left out
                yield from wrong_maxima(losing, losing)
            yield found


def wrong_rows(v: View) -> np.ndarray:
    """Rows whose maximum is wrong."""
    return np.nonzero(v.got["mMax"] != v.right["mMax"])[0]


def wrong_maxima(views: list[View], losing: list[View]) -> Iterator[Diagnosis]:
    """What a wrong maximum shows."""
    wrong = [(v, int(r)) for v in views for r in wrong_rows(v)]
    if not wrong:
        return
    v, r = wrong[0]
    foreign = [(v, r) for v, r in wrong if not (v.x[r] == v.got["mMax"][r]).any()]
    if foreign:
        v, r = foreign[0]
        values = {float(v.got["mMax"][r]) for v, r in foreign}
        answer = v.got["mMax"][r]
        if len(values) == 1 and answer > v.right["mMax"][r]:
            yield Diagnosis(
                "neutral",
                f"In {v.row(r)} all numbers are below {answer:g}, and yet {answer:g} is the answer. It comes from a "
                "start value or from lanes without a column: neutral for a maximum is -inf, which no number is below.",
            )
        yield Diagnosis("wrong maximum", f"In {v.row(r)} the answer {answer:g} is none of the row's numbers.")
    yield from diagnoses.lost(losing, best_of, shown)
    c = v.right["mIndex"][r]
    yield Diagnosis(
        "wrong maximum",
        f"In {v.row(r)} the maximum is {v.right['mMax'][r]:g}, in column {c}; the answer is {v.got['mMax'][r]:g}"
        + (
            f". Lane {v.readers.lane[r, c]} of warp {v.readers.warp[r, c]} read that column. Which lanes have exchanged with which "
            "after the last round (lanes 1, 2, 4, 8 and 16 apart have to), and which slots has the last step read?"
            if v.readers
            else "."
        ),
    )


def best_of(v: View, kept: np.ndarray) -> bool:
    """Whether the answers are the maxima of the elements kept."""
    return bool(kept.any() and (np.where(kept, v.x, -np.inf).max(axis=1) == v.got["mMax"]).all())


def shown(v: View, who: str) -> str:
    """What one wrong row shows, and which lane or warp read its maximum."""
    r = int(wrong_rows(v)[0])
    c = v.right["mIndex"][r]
    return (
        f"In {v.row(r)} the maximum {v.right['mMax'][r]:g} is in column {c}, which {who} {getattr(v.readers, who)[r, c]} read; "
        f"the answer is {v.got['mMax'][r]:g}."
    )


def wrong_indices(views: list[View], forward: list[View]) -> Iterator[Diagnosis]:
    """What a wrong index beside a right maximum shows."""
    rows = [(v, int(r)) for v in views for r in np.nonzero(v.got["mMax"] == v.right["mMax"])[0]]
    wrong = [(v, r) for v, r in rows if v.got["mIndex"][r] != v.right["mIndex"][r]]
    if not wrong:
        return
    holds = [(v, r) for v, r in wrong if inside(v, r) and v.x[r, v.got["mIndex"][r]] == v.right["mMax"][r]]
    if len(holds) == len(wrong):
        yield tie(*holds[0])
        return
    v, r = next((v, r) for v, r in wrong if (v, r) not in holds)
    got, column = v.got["mIndex"][r], v.right["mIndex"][r]
    if np.isneginf(v.right["mMax"][r]) and not inside(v, r):
        yield Diagnosis(
            "no column",
            f"In {v.row(r)} every number is -inf, so the lowest column, 0, is right; the answer {got} is no column at all. "
            "Nothing is greater than a start of -inf, so an index that comes from a start value meets columns of the same value: "
            + ("it is lower than all of them, and wins." if got < 0 else "the lower one must win there, too."),
        )
        return
    if all(v.got["mIndex"][r] == v.x.shape[1] for v, r in wrong):
        yield Diagnosis(
            "index never taken",
            f"In {v.row(r)} the maximum is right, and the index is {got}, N, which no column has: the index did not come in with "
            "the winner. Is the maximum replaced before a line compares with it? Then nothing is greater than it any more.",
        )
    yield from other_number([(v, r) for v, r in wrong if v.readers] or wrong)
    text = f"In {v.row(r)} the maximum is in column {column}; the answer is column {got}, "
    text += f"which holds {v.x[r, got]:g}." if inside(v, r) else "which does not exist."
    yield Diagnosis(
        "wrong index",
        f"{text} Either the index has not come with its value, where a lane or a warp hands its maximum over, or it is not the "
        "number of the column that was read.",
    )


def predict(name: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """What a wrong number of bytes shows."""
    mistakes = (
        ("wrong prediction", lambda M, N: M * N + 2 * M, "Those are numbers, not bytes: a float32 and an int32 have 4."),
        ("wrong prediction", lambda M, N: 4 * M * N + 4 * M, "That is one output of two."),
        ("wrong prediction", lambda M, N: 4 * M * N, "That is what is read, without what is written."),
        ("wrong prediction", lambda M, N: 8 * M * N + 8 * M, "That is two reads of x."),
        ("wrong prediction", lambda M, N: 4 * M * N + 12 * M,
         "That is an index, or a maximum, of 8 bytes: an int32 and a float32 have 4."),
    )  # fmt: skip
    hint = "How many numbers are read, how many written, of how many bytes?"
    yield from diagnoses.wrong_prediction(name, outcomes, lambda M, N: 4 * M * N + 8 * M, hint, mistakes)


def inside(v: View, r: int) -> bool:
    """Whether the answered index is a column."""
    return 0 <= v.got["mIndex"][r] < v.x.shape[1]


def tie(v: View, r: int) -> Diagnosis:
    """Two columns hold the maximum, and the answer is not the lower one."""
    low, got = int(v.right["mIndex"][r]), int(v.got["mIndex"][r])
    where = ""
    if v.readers is not None:
        a, b = int(v.readers.thread[r, low]), int(v.readers.thread[r, got])
        where = f", read by threads {a} and {b}" if a != b else f", both read by thread {a}"
        level = "within a thread" if a == b else "between lanes" if a // 32 == b // 32 else "between warps"
        where += f": the tie is decided {level}"
    return Diagnosis(
        "ties",
        f"In {v.row(r)} columns {low} and {got} both hold the maximum {v.right['mMax'][r]:g}{where}. The lower column is asked "
        "for, and the answer is the other. A partner's pair wins if its value is greater, or equal with a lower index.",
    )


def other_number(wrong: list) -> Iterator[Diagnosis]:
    """The index is, in every wrong row, one of the other numbers that a kernel has at hand."""
    if not wrong:
        return
    v, r = wrong[0]
    columns = [v.right["mIndex"][r] for v, r in wrong]
    threads = [int(v.readers.thread[r, c]) if v.readers else np.nan for (v, r), c in zip(wrong, columns)]
    at = [(v, r, c, t) for (v, r), c, t in zip(wrong, columns, threads)]
    answer = f"In {v.row(r)} the maximum is in column {v.right['mIndex'][r]}, and the answer is {v.got['mIndex'][r]}: "
    for name, number in (
        ("the lowest 16 bits of the column", lambda v, r, c, t: (c + 2**15) % 2**16 - 2**15),
        ("the thread's number", lambda v, r, c, t: t),
        ("the lane's number", lambda v, r, c, t: t % 32),
        ("the warp's number", lambda v, r, c, t: t // 32),
        ("the number of the first thread of the winner's warp", lambda v, r, c, t: t // 32 * 32),
        ("0, as the number of a thread or lane that writes", lambda v, r, c, t: 0),
        ("the step of the thread's loop", lambda v, r, c, t: c // v.case.make[0]),
        ("the position in the whole of x", lambda v, r, c, t: r * v.x.shape[1] + c),
    ):
        if all(v.got["mIndex"][r] == number(v, r, c, t) for v, r, c, t in at):
            yield Diagnosis("index of something else", f"{answer}{name}, not the column. Which number was x read with?")
    valid = [(v, r) for v, r in wrong if inside(v, r)]
    if len(valid) > 3 and all(_own_best(v, r) for v, r in valid):  # of few rows that may be chance
        v, r = valid[0]
        got = v.got["mIndex"][r]
        answer = f"In {v.row(r)} the maximum is in column {v.right['mIndex'][r]}, and the answer is {got}: "
        yield Diagnosis(
            "index apart from its value",
            f"{answer}the best column of thread {v.readers.thread[r, got]}, whose value {v.x[r, got]:g} lost. Value and index must "
            "travel as a pair: where a partner's value wins, take the partner's index with it, and only then.",
        )


def _own_best(v: View, r: int) -> bool:
    """Whether the answered column is the best one of the thread that read it."""
    thread, got = v.readers.thread[r], v.got["mIndex"][r]
    return bool(np.where(thread == thread[got], v.x[r], -np.inf).max() == v.x[r, got])


def waste(outcome: Outcome) -> Iterator[Diagnosis]:
    """More bytes or barriers than the task needs."""
    advice = "Carry the index along with the maximum, instead of looking for it in a second pass."
    yield from diagnoses.read_again(outcome, "mX", advice)
    yield from diagnoses.idle_warps(outcome, "mX")
    yield from diagnoses.scattered(outcome, "mX")
    yield from diagnoses.written_again(outcome)
    yield from diagnoses.shuffles(outcome, 10, "5 over the lanes and as many, at most, over the warps.")
    yield from diagnoses.barriers(outcome, 1, "the maximum and its index can travel together.")
