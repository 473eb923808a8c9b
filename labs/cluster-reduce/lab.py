"""The lab `cluster-reduce`: the maximum of each row and its lowest column, by clusters that go row by row.

Neither book nor package solves it: a block's message is a pair of 8 bytes, the pairs are compared, not added, and two mbarriers
with their slots are used in turn.

    ClusterArgmax(blocks, clusters)(mX, mMax, mIndex)   mX float32 (M, N), mMax float32 (M,), mIndex int32 (M,)

blocks is 2, 4 or 8, each of one warp; cluster c has the rows c, c + clusters, ...; any N from 1 to LONGEST; x may hold infinities
and no NaN.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grading import diagnoses
from grading.diagnoses import View
from grading.judgement import DRAWN, FAST, OWN, SCHEDULES, Case, Diagnosis, Outcome, drawn, wild

TITLE = "Cluster reduce: rows to a cluster, one after the other"
TARGET = "ClusterArgmax"
FUNCTIONS = ("bytes_expected", "place")
LONGEST = 16_384  # columns of a row, as the text promises
CHECKS = {"bytes_expected": 1, "place": 1, "maximum": 2, "index": 2, "edges": 2, "order": 2, "traffic": 1}
LOOKS = {
    "maximum": ("random", "large"),
    "index": ("random", "large"),
    "edges": ("odd", "short", "ties", "infinite", DRAWN),
}
TRAFFIC = "large"
ROWS = "Cluster c has rows c, c + clusters and so on, up to M, and blocks are numbered through all clusters."
ADVICE = {
    "mX": f"Columns end at N, and N need not be a multiple of the cluster's lanes. {ROWS}",
    "mMax": ROWS,
    "mIndex": ROWS,
}
SLOTS = "A block has a slot for each block of the cluster in each stage; ranks and stages are numbered from 0."
UNWRITTEN = -7


def right(case: Case) -> dict:
    """The maximum of each row and its lowest column, by numpy in float64."""
    wide = case.inputs["mX"].astype(np.float64)
    return {"mMax": wide.max(axis=1).astype(np.float32), "mIndex": wide.argmax(axis=1).astype(np.int32)}


def cases(seed: int = 0) -> list[Case]:
    """Rows whose maximum is in each of the blocks, and rows too short for all of them."""
    rng = np.random.default_rng([seed, 6])
    random = rng.standard_normal((8, 256)) * 3
    # Each block wins a row.
    random[np.arange(8), np.arange(8) * 32 + rng.integers(0, 32, 8)] = 20 + rng.random(8)
    odd = -1 - 3 * rng.random((3, 129 + 2 * int(rng.integers(1, 60))))
    odd[2] *= 1e30
    ties = rng.integers(0, 3, (4, 128)).astype(float)
    ties[1, [20, 70]] = np.nextafter(np.float32(9), np.float32(8)), 9  # no tie
    infinite = np.full((3, 70), -np.inf)
    infinite[1, 40] = -3
    infinite[2] = -1
    infinite[2, [40, 65]] = -0.0, 0.0  # which are equal, the first in the higher rank

    def case(name, x, blocks, clusters=1, schedule="forward"):
        M, N = x.shape
        # A tie of the last column with one before it, of odd number, beyond 11 bits where it can be.
        if name == DRAWN:
            x[0, [N // 2 | 1 if N > 2 else 0, -1]] = x[0].max()
        outputs = {"mMax": np.full(M, np.nan, np.float32), "mIndex": np.full(M, UNWRITTEN, np.int32)}
        inputs = {"mX": x.astype(np.float32)}
        how = f"with {clusters} cluster{'s' * (clusters > 1)} of {blocks} blocks"
        return Case(name, (blocks, clusters), inputs, outputs, schedule, seed * 101 + 3, (clusters * blocks, 32), how)

    return [
        *(Case("bytes", (blocks,), target="bytes_expected") for blocks in (2, 4, 8)),
        *(Case("place", (step,), target="place") for step in (0, 1, 2, 3, 4, 5, int(rng.integers(6, 1000)))),
        case("random", random, 4, 2),
        case("random", random[:5], 8),
        case("large", random[:3], 2, 2),
        case("odd", odd, 4),
        case("odd", odd[:, :129], 4, 2),  # one column more than lanes
        case("odd", rng.standard_normal((1, 32 * 8 * int(rng.integers(2, 5)) + 1)), 8),
        case("short", odd[:, : 1 + int(rng.integers(30))], 4),
        case("ties", ties, 4, 3),
        case("infinite", infinite, 2),
        case("random", random[:5], 4, schedule="reverse"),
        case("odd", odd, 8, schedule="seeded"),
        case("random", random[:6], 2, schedule="seeded"),
        *(
            case(DRAWN, wild(rng, *shape), *made, schedule)
            for shape, made, schedule in zip(
                drawn(rng, 128, LONGEST, 1, 80), ((4, 1), (2, 2), (4, 1), (8, 1), (2, 1), (2, 12), (8, 12)), SCHEDULES
            )
        ),
        *(case(DRAWN, wild(rng, M, N), *make, FAST) for make, M, N in OWN.get()),
    ]


# What wrong numbers show ----------------------------------------------------------------------------------------------


def explain(check: str, views: list[View], every: list[View]) -> Iterator[Diagnosis]:
    """What is wrong with the numbers that a check looks at, the most telling first."""
    losing = [v for v in every if v.readers and (v.got["mMax"] != v.right["mMax"]).any()]
    wrong = [(v, int(r)) for v in views for r in np.nonzero(v.got["mMax"] != v.right["mMax"])[0]]
    if wrong:
        v, r = wrong[0]
        yield from converted(losing)
        yield from foreign(wrong)
        yield from lost_ranks(losing)
        yield Diagnosis(
            "wrong maximum",
            f"In {v.row(r)} the maximum is {v.right['mMax'][r]:g}, in column {v.right['mIndex'][r]}; the answer is "
            f"{v.got['mMax'][r]:g}. Which block read that column, and where did its pair go?",
        )
    rows = [(v, int(r)) for v in views for r in np.nonzero(v.got["mIndex"] != v.right["mIndex"])[0]]
    if check != "maximum" and rows:
        v, r = rows[0]
        got, column = int(v.got["mIndex"][r]), int(v.right["mIndex"][r])
        if 0 <= got < v.x.shape[1] and v.x[r, got] == v.right["mMax"][r]:
            yield Diagnosis(
                "ties",
                f"In {v.row(r)} columns {column} and {got} both hold the maximum {v.right['mMax'][r]:g}. The lower one "
                "is asked for, "
                "within a lane, between lanes and between blocks.",
            )
        yield from within_a_part([(v, r) for v, r in rows if v.readers and v.got["mMax"][r] == v.right["mMax"][r]])
        yield Diagnosis(
            "wrong index",
            f"In {v.row(r)} the maximum is right and in column {column}; the answer is {got}. Value and index of a block have to "
            "travel together, to the same slot of the same block.",
        )


def within_a_part(wrong: list) -> Iterator[Diagnosis]:
    """Indices that count the columns of one block alone."""

    def counted(v, r):
        column = v.right["mIndex"][r]
        block = v.readers.block[r]
        return int((block[:column] == block[column]).sum())

    wrong = [(v, r) for v, r in wrong if (v.x[r] == v.right["mMax"][r]).sum() == 1]  # no tie
    if wrong and all(v.got["mIndex"][r] == counted(v, r) for v, r in wrong):
        v, r = wrong[0]
        column = int(v.right["mIndex"][r])
        yield Diagnosis(
            "index within a part",
            f"In {v.row(r)} the maximum is right and in column {column}; the answer is {v.got['mIndex'][r]}, which "
            f"counts the columns that rank {int(v.readers.block[r, column]) % v.case.make[0]} reads. The index is that of the "
            "column in the whole row.",
        )


def converted(views: list[View]) -> Iterator[Diagnosis]:
    """Maxima that are sent as the whole number nearest to 0, whose bits are then taken for a float's."""

    def arrives(v):
        rank = v.readers.block % v.case.make[0]
        parts = np.array([np.where(rank == k, v.x, -np.inf).max(axis=1) for k in range(v.case.make[0])])
        words = (
            np.where(np.isfinite(parts), np.clip(np.trunc(parts), -(2**31), 2**31 - 1), 0)
            .astype(np.int32)
            .view(np.float32)
        )
        return np.fmax.reduce(words), np.fmax.reduce(np.vstack([parts[:1], words[1:]]))

    if all(np.isin(v.got["mMax"], v.x).all() for v in views):
        return
    views = [v for v in views if (v.right["mMax"] >= 1).all() and np.isfinite(v.right["mMax"]).all()]
    if views and all(any((v.got["mMax"] == one).mean() > 0.5 for one in arrives(v)) for v in views):
        v = views[0]
        r = int(np.argmax(v.got["mMax"] != v.right["mMax"]))
        yield Diagnosis(
            "converted, not bitcast",
            f"In {v.row(r)} the maximum is {v.right['mMax'][r]:g}; the answer is {v.got['mMax'][r]:g}. It is as if "
            f"{v.right['mMax'][r]:g} had "
            "been sent as a whole number: read as a float32 its bits are nearly 0. The word that is sent has to have the "
            "float's own "
            "bits, by bitcast, and is not converted.",
        )


def foreign(wrong: list) -> Iterator[Diagnosis]:
    """Maxima that the row does not hold."""
    found = [(v, r) for v, r in wrong if not (v.x[r] == v.got["mMax"][r]).any()]
    if (
        found
        and len({float(v.got["mMax"][r]) for v, r in found}) == 1
        and all(v.got["mMax"][r] > v.right["mMax"][r] for v, r in found)
    ):
        v, r = found[0]
        yield Diagnosis(
            "neutral",
            f"In {v.row(r)} all numbers are below {v.got['mMax'][r]:g}, which is the answer. It comes from a start "
            "value or from lanes "
            "without a column: neutral for a maximum is -inf.",
        )


def lost_ranks(views: list[View]) -> Iterator[Diagnosis]:
    """Answers without the columns that some ranks read."""
    if not views:
        return

    def gone(k, alone):
        found = []
        for v in views:
            blocks = v.case.make[0]
            rank = v.readers.block % blocks
            kept = (rank == k % blocks) if alone else (rank != k % blocks)
            found.append(kept.any() and (np.where(kept, v.x, -np.inf).max(axis=1) == v.got["mMax"]).all())
        return all(found)

    for k in (0, 1, 2, 3, -1):
        for alone in (True, False):
            if gone(k, alone):
                v = views[0]
                r = int(np.argmax(v.got["mMax"] != v.right["mMax"]))
                rank = int(v.readers.block[r, v.right["mIndex"][r]]) % v.case.make[0]
                text = f"Only what rank {k % v.case.make[0]} read reaches the answer" if alone else (
                    f"What rank {k % v.case.make[0]} read never reaches the answer")  # fmt: skip
                yield Diagnosis(
                    "lost ranks",
                    f"{text}. In {v.row(r)} rank {rank} read the maximum {v.right['mMax'][r]:g}; the answer is "
                    f"{v.got['mMax'][r]:g}. "
                    "Who sends to whom, its own block included, and which slots does the last step read?",
                )


def predict(name: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """What a wrong number of bytes, or a wrong stage and parity, shows."""
    yield from (_bytes if name == "bytes_expected" else _places)(outcomes)


def _bytes(outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    mistakes = (
        ("bytes expected", lambda blocks: 4 * blocks, "A message is a pair: a float32 and an int32."),
        ("bytes expected", lambda blocks: 8 * (blocks - 1), "A block sends to itself as well."),
        ("bytes expected", lambda blocks: 2 * blocks, "Bytes are counted, not words."),
        ("bytes expected", lambda blocks: 64 * blocks, "Bytes are counted, not bits."),
        ("bytes expected", lambda blocks: 8, "That is one message: every block of the cluster sends one."),
        ("bytes expected", lambda blocks: 16 * blocks, "A stage waits for its own step's messages alone."),
    )
    hint = "How many messages come, of how many bytes?"
    yield from diagnoses.wrong_prediction("bytes_expected", outcomes, lambda blocks: 8 * blocks, hint, mistakes)


def _places(outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    answers = [(o, o.outputs["answer"], o.case.make[0]) for o in outcomes]
    wrong = next(
        (one for one in answers if one[1] not in ((one[2] % 2, one[2] // 2 % 2), [one[2] % 2, one[2] // 2 % 2])), None
    )
    if wrong is None:
        return
    call = f"place({wrong[2]}) returns {wrong[1]!r}."
    if not (isinstance(wrong[1], (tuple, list)) and len(wrong[1]) == 2):
        yield Diagnosis("wrong type", f"{call} A pair is asked for: the stage and the parity.")
        return
    for kind, formula, why in (
        ("exchanged", lambda s: (s // 2 % 2, s % 2), "Each step takes the other stage; parities change with each use of one."),
        ("parity of the step", lambda s: (s % 2, s % 2), "Steps 0 and 2 use one stage, the second time in its next phase: the "
         "parity tells these two apart."),
        ("one phase", lambda s: (s % 2, 0), "The second use of a stage is its second phase, and that has parity 1."),
        ("one phase", lambda s: (s % 2, 1), "The first phase has parity 0, and the next 1."),
        ("phase, not parity", lambda s: (s % 2, s // 2), "That is the phase's number: its parity is that number modulo 2."),
        ("one stage", lambda s: (0, s % 2), "With one stage a fast block's next message overwrites a slot that another still "
         "reads: steps take two stages in turn."),
        ("other parity", lambda s: (s % 2, 1 - s // 2 % 2), "The first phase of an mbarrier has parity 0."),
        ("stage, not modulo", lambda s: (s, s // 2 % 2), "There are two stages, 0 and 1."),
    ):  # fmt: skip
        if all(tuple(got) == formula(step) for _, got, step in answers if isinstance(got, (tuple, list))):
            yield Diagnosis(kind, f"{call} {why}")
    yield Diagnosis("wrong place", f"{call} Write down stage and phase of steps 0 to 4, one below the other.")


def waste(outcome: Outcome) -> Iterator[Diagnosis]:
    """More bytes than the task needs."""
    yield from diagnoses.read_again(outcome, "mX", "Each block reads its own part of the row.")
    yield from diagnoses.idle_warps(outcome, "mX", outcome.case.make[0])
    yield from diagnoses.scattered(outcome, "mX")
    yield from diagnoses.written_again(outcome)
    yield from diagnoses.barriers(
        outcome,
        1,
        "before the first message. From then on each block waits at its own mbarriers, for bytes: a step's messages say that "
        "all blocks have come that far.",
        of_cluster=True,
    )
