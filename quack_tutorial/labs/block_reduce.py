"""The lab `block-reduce`: the maximum of each row and the lowest column that holds it, one block a row.

Neither book nor package solves it: a pair (value, index) has to travel through the block as one, with one barrier.

    RowArgmax(threads)(mX, mMax, mIndex)   mX float32 (M, N), mMax float32 (M,), mIndex int32 (M,)

threads is 64, 128 or 256; any N of at least 1; x may hold infinities and no NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from . import evidence
from .judgement import Case, Check, Diagnosis, Outcome

NAME = "block-reduce"
TITLE = "Block reduce: the maximum of a row and its column"
TARGET = "RowArgmax"
# check -> points, and the cases that it looks at
CHECKS = {"maximum": 2, "index": 2, "ties": 1, "edges": 2, "order": 2, "traffic": 1}
UNWRITTEN = -7  # an index that no answer has
EXCESS = 1.1  # bytes, as a multiple of the least
# Where there are several, the first explains the others.
RACES = ("same slot", "missing barrier", "reused buffer", "race on output")


def reference(x: np.ndarray) -> tuple:
    """The maximum of each row and its lowest column, by numpy in float64."""
    wide = x.astype(np.float64)
    return wide.max(axis=1).astype(np.float32), wide.argmax(axis=1).astype(np.int32)


# Cases ----------------------------------------------------------------------------------------------------------------


def cases(seed: int = 0) -> list[Case]:
    """Random and adversarial rows; another seed gives other numbers and other N."""
    rng = np.random.default_rng([seed, 5])
    plain = rng.standard_normal((8, 128 * int(rng.integers(3, 6)))) * 3
    plain[np.arange(8), _spread(rng, plain.shape[1], 4)] = 20 + rng.random(8)  # each warp wins some rows
    tied = rng.integers(0, 4, (6, 64 * int(rng.integers(3, 6))))
    tied[:2] = 1  # nothing but ties
    # The first of two equals in the higher warp, and in the higher lane.
    tied[2, [32 + int(rng.integers(32)), 64 + int(rng.integers(32))]] = 9
    tied[3, [16 + int(rng.integers(16)), 64 + int(rng.integers(16))]] = 9
    odd = -1 - 3 * rng.random((4, 256 + 1 + 2 * int(rng.integers(1, 60))))
    short = -1 - 3 * rng.random((3, 1 + 2 * int(rng.integers(18, 45))))
    short[1] = np.abs(short[1])
    infinite = np.full((3, int(rng.integers(66, 190))), -np.inf)
    infinite[1, int(rng.integers(33, 60))] = -5.0
    infinite[2, [40, 63]] = np.inf
    large = rng.standard_normal((2, 1024))
    long = rng.standard_normal((1, 2**16 + 1 + 2 * int(rng.integers(1, 60))))  # columns beyond 16 bits
    long[0, -1 - int(rng.integers(1, 100))] = 9
    tiny = rng.standard_normal((2, int(rng.integers(2, 31))))

    def case(name, x, threads, schedule="forward", turn=0):
        M = len(x)
        outputs = {"mMax": np.full(M, np.nan, np.float32), "mIndex": np.full(M, UNWRITTEN, np.int32)}
        return Case(name, (threads,), {"mX": x.astype(np.float32)}, outputs, schedule, seed * 101 + turn)

    return [
        case("random", plain, 128),
        case("ties", tied, 64),
        case("odd", odd, 128),
        case("short", short, 256),
        case("infinite", infinite, 64),
        case("large", large, 256),
        case("long", long, 256),
        case("tiny", tiny, 64),
        case("tiny", tiny[:, :1], 64),
        case("random", plain[:2], 128, "reverse"),
        case("random", plain[4:6], 128, "seeded", 1),
        case("ties", tied[1:4], 64, "seeded", 2),
        case("odd", odd[:1], 128, "reverse"),
        case("short", short, 256, "seeded", 3),
    ]


def _spread(rng, N: int, warps: int) -> list:
    """A column for each of 8 rows: one in each quarter, then one for each warp that reads every `32 * warps`-th chunk."""
    quarters = [int(rng.integers(N * k // 4, N * (k + 1) // 4)) for k in range(4)]
    chunks = [int(rng.integers(N // (32 * warps))) * 32 * warps + 32 * w + int(rng.integers(32)) for w in range(warps)]
    return quarters + chunks


# Judging --------------------------------------------------------------------------------------------------------------


def judge(outcomes: list[Outcome]) -> list[Check]:
    """Each check's points, or the first mistake that costs them."""
    views = [view(outcome) for outcome in outcomes]
    launch = next(geometry(views), None)
    if launch:  # whatever else is found follows from it
        return [Check(name, points, launch) for name, points in CHECKS.items()]
    by_check = {"order": next((mistake for outcome in outcomes for mistake in findings(outcome)), None)}
    losing = [v for v in views if v.readers and not v.outcome.findings and len(v.wrong_rows)]
    for name, chosen in (
        ("maximum", ("random", "large", "long")),
        ("index", ("random", "large", "long")),
        ("ties", ("ties",)),
        ("edges", ("odd", "short", "infinite", "tiny")),
    ):
        here = [v for v in views if v.case.name in chosen]
        # A race or a wrong access explains the numbers, so they are read only where there is none.
        found = next((mistake for v in here for mistake in findings(v.outcome)), None)
        found = found or next(wrong_numbers(name, here, losing), None)
        # Which of two equals wins says nothing where a part of the row is left out.
        by_check[name] = by_check["maximum"] if found and found.kind == "ties" and losing else found
    large = next(outcome for outcome in outcomes if outcome.case.name == "large")
    by_check["traffic"] = next(iter(findings(large)), None) or next(wasted(large), None)
    if not any((v.maximum == v.right_maximum).any() for v in views):  # order and thrift of no answer
        by_check = {name: found or by_check["maximum"] for name, found in by_check.items()}
    return [Check(name, points, by_check[name]) for name, points in CHECKS.items()]


def findings(outcome: Outcome) -> list[Diagnosis]:
    """What the simulator found in a run, the most telling first."""
    columns, rows = ("Columns end at N, and N need not be a multiple of the block.", "Each block has one row.")
    advice = dict.fromkeys(outcome.parameters, rows) | {outcome.parameters[0]: columns}
    slots = "A block has threads // 32 warps, numbered from 0."
    said = [evidence.meaning(finding, advice, slots) for finding in outcome.findings]
    return sorted(said, key=lambda d: RACES.index(d.kind) if d.kind in RACES else -1)


@dataclass(frozen=True, eq=False)
class View:
    """An outcome beside what is right, and who read what (in the forward schedule)."""

    outcome: Outcome
    x: np.ndarray
    maximum: np.ndarray
    index: np.ndarray
    right_maximum: np.ndarray
    right_index: np.ndarray
    readers: evidence.Readers | None

    @property
    def case(self) -> Case:
        return self.outcome.case

    @property
    def wrong_rows(self) -> np.ndarray:
        """Rows whose maximum is wrong."""
        return np.nonzero(self.maximum != self.right_maximum)[0]

    def row(self, r: int) -> str:
        """Where the reader finds a row: its number, the shape and the block."""
        return f"row {r} of x {self.x.shape} with {self.case.make[0]} threads"


def view(outcome: Outcome) -> View:
    """The outcome with what is right, computed here."""
    x = outcome.case.inputs["mX"]
    who = evidence.readers(outcome, "mX") if outcome.trace is not None else None
    return View(outcome, x, outcome.outputs["mMax"], outcome.outputs["mIndex"], *reference(x), who)


def wrong_numbers(check: str, views: list[View], losing: list[View]) -> Iterator[Diagnosis]:
    """What is wrong with the numbers that a check looks at, the most telling first.

    `losing` are all views with a wrong maximum: which warps or lanes are left out shows only in many rows.
    """
    forward = [v for v in views if v.readers is not None]
    yield from unwritten(views)
    yield from unread(forward)
    yield from wrong_maxima(views, losing)
    if check != "maximum":
        yield from wrong_indices(views, forward)


def geometry(views: list[View]) -> Iterator[Diagnosis]:
    """Launches other than one of M blocks of the threads asked for."""
    for v in views:
        if v.outcome.trace is None:
            continue
        seen = [(one.blocks, one.threads) for one in v.outcome.trace.launches]
        if not seen and not v.outcome.findings:
            yield Diagnosis(
                "launch", "No kernel is launched: `__call__` has to end with `.launch(grid=..., block=...)`."
            )
        if seen and seen != [(len(v.x), v.case.make[0])]:
            said = ", ".join(f"{blocks} blocks of {threads}" for blocks, threads in seen)
            text = f"The task is one launch of one block a row: {len(v.x)} blocks of {v.case.make[0]} threads; launched: {said}."
            yield Diagnosis("launch", text)


def unwritten(views: list[View]) -> Iterator[Diagnosis]:
    """Outputs that still hold what they were filled with."""
    for v in views:
        for name, bad in (("mMax", np.isnan(v.maximum)), ("mIndex", v.index == UNWRITTEN)):
            if bad.any() and v.readers and evidence.stores(v.outcome, name)[0] < len(v.x):
                rows = f"row {int(np.argmax(bad))}" if not bad.all() else "any row"
                yield Diagnosis("unwritten", f"Nothing is written to {name} for {rows} of x {v.x.shape}.")


def unread(views: list[View]) -> Iterator[Diagnosis]:
    """Columns that no thread reads: the answer cannot depend on them."""
    for v in views:
        row, column = np.nonzero(v.readers.times == 0)
        if len(row):
            part = column[row == row[0]]
            many = f"columns {part[0]} to {part[-1]}" if len(part) > 1 else f"column {part[0]}"
            text = f"{len(part)} of {v.x.shape[1]} columns are never read in {v.row(int(row[0]))}: {many}."
            yield Diagnosis("unread columns", text)


def wrong_maxima(views: list[View], losing: list[View]) -> Iterator[Diagnosis]:
    """What a wrong maximum shows."""
    wrong = [(v, int(r)) for v in views for r in v.wrong_rows]
    if not wrong:
        return
    v, r = wrong[0]
    foreign = [(v, r) for v, r in wrong if not (v.x[r] == v.maximum[r]).any()]
    if foreign:
        v, r = foreign[0]
        values = {float(v.maximum[r]) for v, r in foreign}
        if len(values) == 1 and float(v.maximum[r]) > float(v.right_maximum[r]):
            yield Diagnosis(
                "neutral",
                f"In {v.row(r)} all numbers are below {v.maximum[r]:g}, and yet {v.maximum[r]:g} is the answer. It comes from a "
                "start value or from lanes without a column: neutral for a maximum is -inf, which no number is below.",
            )
        yield Diagnosis("wrong maximum", f"In {v.row(r)} the answer {v.maximum[r]:g} is none of the row's numbers.")
    if losing:
        yield from lost(losing)
    c = v.right_index[r]
    yield Diagnosis(
        "wrong maximum",
        f"In {v.row(r)} the maximum is {v.right_maximum[r]:g}, in column {v.right_index[r]}; the answer is {v.maximum[r]:g}"
        + (
            f". Lane {v.readers.lane[r, c]} of warp {v.readers.warp[r, c]} read that column. Which lanes have exchanged with which "
            "after the last round (lanes 1, 2, 4, 8 and 16 apart have to), and which slots has the last step read?"
            if v.readers
            else "."
        ),
    )


def lost(views: list[View]) -> Iterator[Diagnosis]:
    """Answers that are the maxima of all warps (or lanes) but some, in every row."""
    for bit in (16, 8, 4, 2, 1):  # the answer is lane 0's, and this round would have brought it the others'
        if all(_best(v, (v.readers.lane & bit) == 0) for v in views):
            gone = [lane for lane in range(32) if lane & bit]
            yield _lost(views[0], "lane", gone, f"No round exchanges lanes that are {bit} apart.")
        for apart in (None, 4, 2, 1):  # None: half of the warps
            halves = [apart or v.case.make[0] // 64 for v in views]
            if all(_best(v, ((v.readers.lane & bit) | (v.readers.warp & half)) == 0) for v, half in zip(views, halves)):
                gone = [lane for lane in range(32) if lane & bit]
                warps = f"{apart}" if apart else "half their number"
                advice = (
                    f"No round exchanges lanes that are {bit} apart, and the last step no warps that are {warps} apart."
                )
                yield _lost(views[0], "lane", gone, advice)
    for who, advice in (
        ("warp", "Do all warps write a slot, and does the last step read every slot?"),
        ("lane", "Which lanes have exchanged with which, after the last round?"),
    ):
        gone = [np.unique(getattr(v.readers, who)[v.x > v.maximum[:, None]]) for v in views]
        if all(_best(v, ~np.isin(getattr(v.readers, who), g)) for v, g in zip(views, gone)):
            yield _lost(views[0], who, gone[0].tolist(), advice)


def _best(v: View, kept: np.ndarray) -> bool:
    """Whether the answers are the maxima of the elements kept."""
    return bool(kept.any() and (np.where(kept, v.x, -np.inf).max(axis=1) == v.maximum).all())


def _lost(v: View, who: str, gone: list, advice: str) -> Diagnosis:
    r = int(v.wrong_rows[0])
    word = f"{who}{'s' * (len(gone) > 1)} {_ranges(gone)}" + ("" if who == "warp" else " of each warp")
    reader = getattr(v.readers, who)[r, v.right_index[r]]
    return Diagnosis(
        f"lost {who}s",
        f"What {word} read never reaches the answer. In {v.row(r)} the maximum {v.right_maximum[r]:g} is in column "
        f"{v.right_index[r]}, which {who} {reader} read; the answer is {v.maximum[r]:g}. {advice}",
    )


def _ranges(numbers: list) -> str:
    """[1, 2, 3, 5] -> '1 to 3, 5'."""
    runs = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)


def wrong_indices(views: list[View], forward: list[View]) -> Iterator[Diagnosis]:
    """What a wrong index beside a right maximum shows."""
    rows = [(v, int(r)) for v in views for r in range(len(v.x)) if v.maximum[r] == v.right_maximum[r]]
    wrong = [(v, r) for v, r in rows if v.index[r] != v.right_index[r]]
    if not wrong:
        return
    holds = [(v, r) for v, r in wrong if 0 <= v.index[r] < v.x.shape[1] and v.x[r, v.index[r]] == v.right_maximum[r]]
    if len(holds) == len(wrong):
        yield tie(*holds[0])
        return
    v, r = next((v, r) for v, r in wrong if (v, r) not in holds)
    if np.isneginf(v.right_maximum[r]) and not 0 <= v.index[r] < v.x.shape[1]:
        yield Diagnosis(
            "no column",
            f"In {v.row(r)} every number is -inf, so the lowest column, 0, is right; the answer {v.index[r]} is no column at all. "
            "Nothing is greater than a start of -inf: on equal values the lower index must win there, too.",
        )
        return
    yield from other_number([(v, r) for v, r in wrong if v.readers])
    text = f"In {v.row(r)} the maximum is in column {v.right_index[r]}; the answer is column {v.index[r]}, "
    inside = 0 <= v.index[r] < v.x.shape[1]
    yield Diagnosis(
        "wrong index", text + (f"which holds {v.x[r, v.index[r]]:g}." if inside else "which does not exist.")
    )


def tie(v: View, r: int) -> Diagnosis:
    """Two columns hold the maximum, and the answer is not the lower one."""
    low, got = int(v.right_index[r]), int(v.index[r])
    where = ""
    if v.readers is not None:
        a, b = int(v.readers.thread[r, low]), int(v.readers.thread[r, got])
        where = f", read by threads {a} and {b}" if a != b else f", both read by thread {a}"
        level = "within a thread" if a == b else "between lanes" if a // 32 == b // 32 else "between warps"
        where += f": the tie is decided {level}"
    return Diagnosis(
        "ties",
        f"In {v.row(r)} columns {low} and {got} both hold the maximum {v.right_maximum[r]:g}{where}. The lower column is asked "
        "for, and the answer is the other. A partner's pair wins if its value is greater, or equal with a lower index.",
    )


def other_number(wrong: list) -> Iterator[Diagnosis]:
    """The index is, in every wrong row, one of the other numbers that a kernel has at hand."""
    if not wrong:
        return
    v, r = wrong[0]
    at = [(v, r, int(v.readers.thread[r, v.right_index[r]])) for v, r in wrong]
    answer = f"In {v.row(r)} the maximum is in column {v.right_index[r]}, and the answer is {v.index[r]}: "
    for name, number in (
        ("the lowest 16 bits of the column", lambda v, r, t: (v.right_index[r] + 2**15) % 2**16 - 2**15),
        ("the thread's number", lambda v, r, t: t),
        ("the lane's number", lambda v, r, t: t % 32),
        ("the warp's number", lambda v, r, t: t // 32),
        ("the step of the thread's loop", lambda v, r, t: v.right_index[r] // v.case.make[0]),
        ("the position in the whole of x", lambda v, r, t: r * v.x.shape[1] + v.right_index[r]),
    ):
        if all(v.index[r] == number(v, r, t) for v, r, t in at):
            yield Diagnosis("index of something else", f"{answer}{name}, not the column. Which number was x read with?")
    inside = [(v, r) for v, r in wrong if 0 <= v.index[r] < v.x.shape[1]]
    if inside and all(_own_best(v, r) for v, r in inside):
        v, r = inside[0]
        answer = f"In {v.row(r)} the maximum is in column {v.right_index[r]}, and the answer is {v.index[r]}: "
        thread = v.readers.thread[r, v.index[r]]
        yield Diagnosis(
            "index apart from its value",
            f"{answer}the best column of thread {thread}, whose value {v.x[r, v.index[r]]:g} lost. Value and index must "
            "travel as a pair: where a partner's value wins, take the partner's index with it, and only then.",
        )


def _own_best(v: View, r: int) -> bool:
    """Whether the answered column is the best one of the thread that read it."""
    thread = v.readers.thread[r]
    mine = np.where(thread == thread[v.index[r]], v.x[r], -np.inf)
    return bool(mine.max() == v.x[r, v.index[r]])


def wasted(outcome: Outcome) -> Iterator[Diagnosis]:
    """More bytes or barriers than the task needs."""
    x = outcome.case.inputs["mX"]
    times = evidence.readers(outcome, "mX").times.mean()
    if times > EXCESS:
        yield Diagnosis(
            "traffic: read again",
            f"The kernel asks for x {times:.2f} times (x {x.shape}); once is enough. Carry the index along with the maximum, "
            "instead of looking for it in a second pass.",
        )
    for name in outcome.case.outputs:
        stores, lines = evidence.stores(outcome, name)
        if stores > 2 * len(x):
            yield Diagnosis(
                "traffic: written again",
                f"{name} is written {stores / len(x):g} times a row; one thread is enough.",
                lines,
            )
    barriers = evidence.barriers_a_warp(outcome.trace)
    if barriers > 1:
        yield Diagnosis(
            "exchanges",
            f"Each warp waits at {barriers} barriers, and one is enough: the maximum and its index can travel together.",
        )
