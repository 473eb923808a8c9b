"""The lab `rmsnorm`: RMSNorm of each head of a row, as attention applies it to queries and keys.

Neither book nor package solves it: they normalise whole rows.

    HeadNorm(heads)(mX, mW, mY)   mX and mY float16 (M, N), N = heads D, mW float32 (D,)

heads is 2 or 4, each head a warp; any D of at least 1. y = x / sqrt(mean(x^2) + EPS) * w, the mean being the head's.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quack_tutorial.labs import diagnoses
from quack_tutorial.labs.diagnoses import View
from quack_tutorial.labs.judgement import Case, Diagnosis, Outcome

TITLE = "RMSNorm of each head"
TARGET = "HeadNorm"
GROUPED = True  # a head is a row of its own
FUNCTIONS = ("least_bytes",)
CHECKS = {"least_bytes": 1, "even": 2, "odd": 2, "extremes": 2, "order": 1, "traffic": 1}
LOOKS = {"even": ("even",), "odd": ("odd",), "extremes": ("large", "tiny")}
TRAFFIC = "even"
HEADS = "Head h of a row has columns h D to (h + 1) D - 1, and w has D elements, the same for each head."
ADVICE = dict.fromkeys(("mX", "mW", "mY"), HEADS)
EPS = 1e-5
TOLERANCE = {"mY": (6e-4, 1e-6)}  # one rounding to float16 is up to 4.9e-4; two do not fit


def norm(case: Case, mean=lambda x: (x * x).mean(axis=2, keepdims=True), root=lambda m: np.sqrt(m + EPS)) -> np.ndarray:
    """The result with this mean and this root; x is (M, heads, D)."""
    x = case.inputs["mX"].astype(np.float64)
    heads = x.reshape(len(x), case.make[0], -1)
    return (heads / root(mean(heads)) * case.inputs["mW"].astype(np.float64)).reshape(x.shape)


def right(case: Case) -> dict:
    """The norm in float64."""
    return {"mY": norm(case)}


def cases(seed: int = 0) -> list[Case]:
    """Heads of even and odd width, of large numbers and of tiny ones."""
    rng = np.random.default_rng([seed, 7])

    def case(name, D, heads, scale, M=3, schedule="forward"):
        scales = scale * (1 + np.arange(heads))[:, None]  # each head of its own size
        x = (rng.standard_normal((M, heads, D)) * scales + scale).reshape(M, -1).astype(np.float16)
        inputs = {"mX": x, "mW": (1 + rng.random(D)).astype(np.float32)}
        how = f"with {heads} heads"
        return Case(
            name, (heads,), inputs, {"mY": np.full(x.shape, np.nan, np.float16)}, schedule, seed, (M, 32 * heads), how
        )

    odd = 33 + 2 * int(rng.integers(1, 15))
    return [
        *(
            Case("bytes", shape, target="least_bytes")
            for shape in ((1, 2, 1), (4096, 32, 128), (int(rng.integers(2, 99)), 4, 33))
        ),
        case("even", 64, 4, 1.0),
        case("even", 128, 2, 1.0),
        case("odd", odd, 4, 1.0),
        case("odd", int(rng.integers(2, 31)), 2, 1.0),
        case("odd", 33, 2, 1.0),  # one column more than lanes
        case("odd", 129 + 32 * int(rng.integers(0, 4)), 2, 1.0),  # the same, after more than four steps
        case("large", 96, 2, 300.0),
        case("tiny", 64, 4, 1e-3),
        case("odd", odd, 2, 1.0, 2, "reverse"),
    ]


# What wrong numbers show ----------------------------------------------------------------------------------------------


def padded(x: np.ndarray) -> int:
    """D rounded up to whole steps of a warp."""
    return -(-x.shape[2] // 32) * 32


def mixed(x: np.ndarray) -> np.ndarray:
    """The mean of squares over whole steps, where the last reaches into the next heads."""
    M, heads, D = x.shape
    row = np.concatenate([x.reshape(M, -1), np.zeros((M, padded(x)))], axis=1)
    sums = [(row[:, h * D : h * D + padded(x)] ** 2).sum(axis=1) for h in range(heads)]
    return np.stack(sums, axis=1)[:, :, None] / D


FORMULAS = (
    ("divided by padded D", lambda c: norm(c, lambda x: (x * x).sum(axis=2, keepdims=True) / padded(x)),
     "It is as if the sum of squares were divided by D rounded up to a multiple of 32: lanes without a column count "
     "for nothing."),
    ("divided by N", lambda c: norm(c, lambda x: (x * x).sum(axis=2, keepdims=True) / (x.shape[1] * x.shape[2])),
     "It is as if one head's sum of squares were divided by the whole row's columns: each head has its own mean, of D numbers."),
    ("mean of the row", lambda c: norm(c, lambda x: (x * x).mean(axis=(1, 2), keepdims=True)),
     "It is as if all heads shared the mean of the row: each head has its own."),
    ("mixed heads", lambda c: norm(c, mixed),
     "It is as if the last step of a head's loop added squares of the next head: a head ends at D columns."),
    ("eps outside the root", lambda c: norm(c, root=lambda m: np.sqrt(m) + EPS),
     "It is as if eps were added after the root: sqrt(mean) + eps, where sqrt(mean + eps) is asked for. Small numbers show it."),
    ("eps added to the factor", lambda c: norm(c, root=lambda m: 1 / (1 / np.sqrt(m) + EPS)),
     "It is as if eps were added to 1 / sqrt(mean): it belongs under the root, beside the mean. Small numbers show it."),
    ("eps forgotten", lambda c: norm(c, root=np.sqrt), "It is as if there were no eps: small numbers show it."),
    ("root forgotten", lambda c: norm(c, root=lambda m: m + EPS), "As if x were divided by the mean of squares, not by its root."),
    ("multiplied by the root", lambda c: norm(c, root=lambda m: 1 / np.sqrt(m + EPS)),
     "It is as if x were multiplied by the root, not divided."),
    ("mean forgotten", lambda c: norm(c, lambda x: (x * x).sum(axis=2, keepdims=True)),
     "It is as if x were divided by the root of the sum: the mean is the sum over D."),
    ("squares forgotten", lambda c: norm(c, lambda x: x.mean(axis=2, keepdims=True)),
     "It is as if the numbers were averaged as they are: their squares have to be. Is each multiplied by itself?"),
    ("mean of magnitudes", lambda c: norm(c, lambda x: np.abs(x).mean(axis=2, keepdims=True)),
     "It is as if magnitudes were averaged: squares have to be."),
    ("mean of the numbers", lambda c: norm(c, lambda x: x.mean(axis=2, keepdims=True) ** 2),
     "It is as if the mean of the numbers were squared: the squares have to be averaged."),
    ("weight in the mean", lambda c: norm(c, lambda x: ((x * c.inputs["mW"]) ** 2).mean(axis=2, keepdims=True)),
     "It is as if the numbers were weighted before they were squared: the mean is that of x alone."),
    ("weight forgotten", lambda c: norm(c) / np.tile(c.inputs["mW"], c.make[0]), "As if w were 1: each column has its weight."),
)  # fmt: skip


def explain(check: str, views: list[View], every: list[View]) -> Iterator[Diagnosis]:
    """What is wrong with the numbers that a check looks at, the most telling first."""
    forward = [v for v in every if v.readers]
    wrong = [v for v in views if v.wrong.any()]
    if not wrong:
        return
    v = wrong[0]
    yield from diagnoses.by_formula(forward, "mY", FORMULAS, TOLERANCE["mY"])
    large = [v for v in forward if v.case.name == "large"]
    if any(v.wrong.any() for v in large) and not any(v.wrong.any() for v in forward if v.case.name != "large"):
        yield Diagnosis(
            "accumulated in float16",
            f"{diagnoses.first_wrong(large[0], 'mY', TOLERANCE['mY'])} Small numbers are right, and of these the "
            "squares leave float16, "
            "which ends at 65504. Square and add in float32.",
        )
    if all(abs(v.got["mY"] / v.right["mY"] - 1).max() < 0.1 for v in forward if v.case.name != "large"):
        text = f"{diagnoses.first_wrong(v, 'mY', TOLERANCE['mY'])} That is near: does something run in float16 that float32 should?"
        yield Diagnosis("accumulated in float16", text)
    yield from lone_lanes(forward)
    yield Diagnosis("wrong number", diagnoses.first_wrong(v, "mY", TOLERANCE["mY"]))


def lone_lanes(views: list[View]) -> Iterator[Diagnosis]:
    """Each lane divides by the mean of its own squares: no lane has heard of another."""
    for v in views:
        x = v.x.astype(np.float64)
        who = v.readers.thread
        own = np.zeros(x.shape)
        for thread in np.unique(who):
            own += (who == thread) * np.where(who == thread, x * x, 0).sum(axis=1, keepdims=True)
        D = x.shape[1] // v.case.make[0]
        alone = x / np.sqrt(own / D + EPS) * np.tile(v.case.inputs["mW"], v.case.make[0])
        if not np.allclose(v.got["mY"], alone, 1e-2, 1e-3):
            return
    v = next(v for v in views if v.wrong.any())
    text = "Each lane divides by the squares of its own columns: the head's sum needs those of all 32 lanes, in all 32 lanes."
    yield Diagnosis("lost lanes", f"{diagnoses.first_wrong(v, 'mY', TOLERANCE['mY'])} {text}")


def predict(name: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """What a wrong number of bytes shows."""
    wrong = next((o for o in outcomes if o.outputs["answer"] != _bytes(*o.case.make)), None)
    if wrong is None:
        return
    call = f"least_bytes({', '.join(map(str, wrong.case.make))}) returns {wrong.outputs['answer']}."
    for formula, why in (
        (lambda M, H, D: 4 * M * H * D, "The weights are read, too."),
        (lambda M, H, D: 4 * M * H * D + 4 * H * D, "All heads share the D weights."),
        (lambda M, H, D: 8 * M * H * D + 4 * D, "A float16 has 2 bytes."),
        (lambda M, H, D: 4 * M * H * D + 2 * D, "The weights are float32: 4 bytes each."),
        (
            lambda M, H, D: 6 * M * H * D + 4 * D,
            "A head's numbers can stay in registers between the two uses: one read is enough.",
        ),
    ):
        if all(o.outputs["answer"] == formula(*o.case.make) for o in outcomes):
            yield Diagnosis("wrong prediction", f"{call} {why}")
    yield Diagnosis(
        "wrong prediction", f"{call} Which tensors are read and written, of how many numbers of how many bytes?"
    )


def _bytes(M: int, heads: int, D: int) -> int:
    return 4 * M * heads * D + 4 * D


def waste(outcome: Outcome) -> Iterator[Diagnosis]:
    """More bytes or waiting than the task needs."""
    yield from diagnoses.read_again(outcome, "mX", "Keep the lane's numbers in registers until the mean is known.")
    yield from diagnoses.scattered(outcome, "mX", "mY")
    yield from diagnoses.written_again(outcome)
    yield from diagnoses.barriers(outcome, 0, "a head belongs to one warp.")
