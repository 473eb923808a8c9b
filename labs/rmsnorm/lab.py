"""The lab `rmsnorm`: the backward pass of RMSNorm of each head of a row, as attention applies it to queries and keys.

Neither book nor package solves it: they normalise whole rows, whose weight no two heads share.

    HeadNormBackward(heads, blocks)(mX, mW, mDy, mDx, mParts)
        mX, mDy and mDx float16 (M, N), N = heads D; mW float32 (D,), the same for each head; mParts float32 (blocks, D)

heads is 2 or 4, each head a warp; any D from 1 to LONGEST. With r = 1 / sqrt(mean(x^2) + EPS) and xhat = x r, both of a head:
dx = r (w dy - xhat mean(w dy xhat)), and parts[b] = the sum of dy xhat over all heads of the rows b, b + blocks, ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from grading import diagnoses
from grading.diagnoses import View
from grading.judgement import DRAWN, FAST, OWN, SCHEDULES, Case, Diagnosis, Outcome, drawn

TITLE = "RMSNorm of each head, backward"
TARGET = "HeadNormBackward"
GROUPED = True  # a head is a row of its own
FUNCTIONS = ("least_bytes",)
LONGEST = 4_096  # columns of a head, as the text promises
CHECKS = {"least_bytes": 1, "dx": 2, "parts": 2, "odd": 2, "extremes": 1, "order": 2, "traffic": 1}
LOOKS = {"dx": ("even",), "parts": ("even",), "odd": ("odd", "few", DRAWN), "extremes": ("large", "tiny")}
OUTPUTS = {"dx": ("mDx",), "parts": ("mParts",)}  # of the other checks both
TRAFFIC = "even"
HEADS = "Head h of a row has columns h D to (h + 1) D - 1, and w has D elements, the same for each head."
ADVICE = dict.fromkeys(("mX", "mW", "mDy", "mDx"), HEADS) | {
    "mParts": "It has a row for each block and D columns, which all heads share."
}
SLOTS = "A block has a warp for each head, numbered from 0, and D sums of each."
EPS = 1e-5
TOLERANCE = {"mDx": (6e-4, 2e-5), "mParts": (1e-4, 2e-4)}  # one rounding to float16 is up to 4.9e-4; two do not fit


def over_head(n: np.ndarray) -> np.ndarray:
    """The mean of each head; n is (M, heads, D)."""
    return n.mean(axis=2, keepdims=True)


def gradients(
    case: Case,
    mean: Callable = over_head,  # of squares and products
    squares: Callable | None = None,  # of squares, if another
    root: Callable = lambda m: np.sqrt(m + EPS),
    dx: Callable = lambda r, g, xhat, c: r * (g - xhat * c),
    product: Callable = lambda x, xhat, w, dy: w * dy * xhat,
    dw: Callable = lambda x, xhat, w, dy: dy * xhat,
    rows: Callable = lambda block: block.sum(axis=0),  # of (rows, heads, D)
    heads: Callable = lambda sums: sums.sum(axis=0),  # of (heads, D)
    taken: Callable = lambda each, b, blocks: each[b::blocks],  # of all rows, block b's
    idle: float = 0.0,  # what a block without a row leaves
) -> dict:
    """Both gradients in float64, with one step or another replaced."""
    count, blocks = case.make
    x, dy = (case.inputs[name].astype(np.float64).reshape(len(case.inputs["mX"]), count, -1) for name in ("mX", "mDy"))
    w = case.inputs["mW"].astype(np.float64)
    r = 1 / root((squares or mean)(x * x))
    xhat = x * r
    each = dw(x, xhat, w, dy)
    of_blocks = [taken(each, b, blocks) for b in range(blocks)]
    parts = [heads(rows(block)) if len(block) else np.full(len(w), idle) for block in of_blocks]
    found = dx(r, w * dy, xhat, mean(product(x, xhat, w, dy)))
    return {"mDx": found.reshape(len(x), -1), "mParts": np.array(parts)}


def consecutive(each: np.ndarray, b: int, blocks: int) -> np.ndarray:
    """Rows that follow each other, as many for each block."""
    share = -(-len(each) // blocks)
    return each[b * share : (b + 1) * share]


def one_head_a_column(sums: np.ndarray) -> np.ndarray:
    """Of (heads, D) in each column the head whose warp writes it."""
    d = np.arange(sums.shape[1])
    return sums[d // 32 % len(sums), d]


def right(case: Case) -> dict:
    """Both gradients in float64."""
    return gradients(case)


def cases(seed: int = 0) -> list[Case]:
    """Heads of even and odd width, of large numbers and of tiny ones, more rows than blocks and fewer."""
    rng = np.random.default_rng([seed, 7])

    def case(name, D, heads, M=5, blocks=2, scale=1.0, schedule="forward"):
        scales = scale * (1 + np.arange(heads))[:, None]  # each head of its own size
        x = (rng.standard_normal((M, heads, D)) * scales + scale).reshape(M, -1).astype(np.float16)
        dy = ((rng.standard_normal((M, heads * D)) + 0.5) * (1 + np.arange(M) % 8)[:, None] * scale**0.5).astype(
            np.float16
        )
        weights = (1 + rng.random(D)) * np.where(np.arange(D) % 5 == 1, -1, 1)
        inputs = {"mX": x, "mW": weights.astype(np.float32), "mDy": dy}
        outputs = {"mDx": np.full(x.shape, np.nan, np.float16), "mParts": np.full((blocks, D), np.nan, np.float32)}
        how = f"with {heads} heads and {blocks} block{'s' * (blocks > 1)}"
        return Case(name, (heads, blocks), inputs, outputs, schedule, seed, (blocks, 32 * heads), how)

    odd = 33 + 2 * int(rng.integers(1, 15))
    sizes = ((1, 2, 1, 1), (4096, 32, 128, 264), (int(rng.integers(2, 99)), 4, 33, 7))
    return [
        *(Case("bytes", shape, target="least_bytes") for shape in sizes),
        case("even", 64, 4),
        case("even", 128, 2, 4, 3),
        case("odd", odd, 4),
        case("odd", int(rng.integers(2, 31)), 2),
        case("odd", 129 + 32 * int(rng.integers(0, 4)), 2),  # one column more than lanes, after at least four steps
        case("few", 33, 2, 2, 3),
        case("large", 96, 2, scale=5000.0),  # the squares of one lane sum to more than 1e8
        case("tiny", 64, 4, scale=1e-3),
        case("tiny", 33, 2, scale=1e-6),  # subnormal numbers
        case("even", 64, 2, 3, 2, schedule="reverse"),
        case("odd", odd, 4, 3, 2, schedule="seeded"),
        *(
            case(DRAWN, D, heads, M, blocks, schedule=schedule)
            for (M, D), heads, blocks, schedule in zip(
                drawn(rng, 32, LONGEST, 8, 200), (2, 2, 4, 2, 2, 2, 4), (1, 4, 3, 1, 1, 90, 80), SCHEDULES
            )
        ),
        *(case(DRAWN, N // make[0], make[0], M, make[1], schedule=FAST) for make, M, N in OWN.get()),
    ]


# What wrong numbers show ----------------------------------------------------------------------------------------------


def padded(n: np.ndarray) -> np.ndarray:
    """The mean over D rounded up to whole steps of a warp."""
    return n.sum(axis=2, keepdims=True) / (-(-n.shape[2] // 32) * 32)


def over_lanes(n: np.ndarray) -> np.ndarray:
    """The sums over each 32 neighbouring columns, in all of them."""
    return np.concatenate([np.broadcast_to(part.sum(axis=2, keepdims=True), part.shape)
                           for part in np.split(n, range(32, n.shape[2], 32), axis=2)], axis=2)  # fmt: skip


# of dx: kind, what of `gradients` is replaced, what it means
STEPS = (
    ("product forgotten", {"dx": lambda r, g, xhat, c: r * g},
     "That is r * w * dy: r depends on every x of the head, and what that adds, xhat * mean(w * dy * xhat), is missing."),
    ("sign", {"dx": lambda r, g, xhat, c: r * (g + xhat * c)}, "It is as if the mean's part were added: it is subtracted."),
    ("not normalised", {"dx": lambda r, g, xhat, c: r * (g - xhat / r * c)},
     "It is as if x stood where xhat = x * r has to, in the mean or beside it."),
    ("not normalised", {"dx": lambda r, g, xhat, c: r * (g - xhat / r * c), "product": lambda x, xhat, w, dy: w * dy * x},
     "It is as if x stood where xhat = x * r has to, in the mean and beside it."),
    ("weight forgotten", {"product": lambda x, xhat, w, dy: dy * xhat},
     "It is as if the mean were that of dy * xhat: what is averaged has the weight in it."),
    ("weight forgotten", {"dx": lambda r, g, xhat, c: 0, "product": lambda x, xhat, w, dy: dy * xhat, "unweighted": True},
     "As if w were 1: dy is multiplied by the column's weight before anything else."),
    ("r forgotten", {"dx": lambda r, g, xhat, c: g - xhat * c}, "The factor r in front of the bracket is missing."),
    ("mean forgotten", {"mean": lambda n: n.sum(axis=2, keepdims=True)},
     "It is as if sums stood for means: both are divided by D."),
    ("mean forgotten", {"dx": lambda r, g, xhat, c: r * (g - xhat * c * xhat.shape[2])},
     "It is as if w * dy * xhat were added up and not divided by D."),
    ("divided by padded D", {"mean": padded},
     "It is as if sums were divided by D rounded up to a multiple of 32: lanes without a column count for nothing."),
    ("divided by N", {"mean": lambda n: over_head(n) / n.shape[1]},
     "It is as if a head's sums were divided by the whole row's columns: each head has means of its own, of D numbers."),
    ("divided by N", {"dx": lambda r, g, xhat, c: r * (g - xhat * c / xhat.shape[1])},
     "It is as if the sum of w * dy * xhat were divided by the whole row's columns: its mean is over the D of the head."),
    ("divided by N", {"root": lambda m: np.sqrt(m / m.shape[1] + EPS)},
     "It is as if the sum of squares were divided by the whole row's columns: its mean is over the D of the head."),
    ("mean of the row", {"mean": lambda n: n.mean(axis=(1, 2), keepdims=True)},
     "It is as if all heads shared the means of the row: each head has its own."),
    ("eps outside the root", {"root": lambda m: np.sqrt(m) + EPS},
     "It is as if eps were added after the root: sqrt(mean) + eps, where sqrt(mean + eps) is asked for. Small numbers show it."),
    ("eps added to the factor", {"root": lambda m: 1 / (1 / np.sqrt(m) + EPS)},
     "It is as if eps were added to 1 / sqrt(mean): it belongs under the root, beside the mean. Small numbers show it."),
    ("eps in the sum", {"squares": lambda n: (n.sum(axis=2, keepdims=True) + EPS) / n.shape[2] - EPS},
     "It is as if eps were added to the sum of squares, before the division by D: it belongs beside the mean. Small "
     "numbers show it."),
    ("eps forgotten", {"root": np.sqrt}, "It is as if there were no eps: small numbers show it."),
    ("root forgotten", {"root": lambda m: m + EPS}, "It is as if r were 1 / (mean + eps): the root is missing."),
)  # fmt: skip
SUMS = (
    ("weight in dw", {"dw": lambda x, xhat, w, dy: dy * xhat * w},
     "It is as if dy * xhat * w were added up: y is xhat * w, so its derivative by w has no w in it."),
    ("not normalised in dw", {"dw": lambda x, xhat, w, dy: dy * x}, "It is as if dy * x were added up: xhat is x * r."),
    ("sum over columns", {"dw": lambda x, xhat, w, dy: over_lanes(dy * xhat)},
     "It is as if the lanes of a warp were added up: dw has a number for each column, and is a sum over rows and heads alone."),
    ("sum over columns", {"dw": lambda x, xhat, w, dy: over_lanes(dy * x)},
     "It is as if the lanes of a warp were added up, and x stood for xhat: dw has a number for each column."),
    ("dy alone", {"dw": lambda x, xhat, w, dy: dy}, "It is as if dy alone were added up, which is the gradient of a bias."),
    ("last row alone", {"rows": lambda block: block[-1]},
     "That is the block's last row alone: each row is added to what the rows before it left."),
    ("first row alone", {"rows": lambda block: block[0]}, "That is the block's first row alone: a block has more than one."),
    ("mean of rows", {"rows": lambda block: block.mean(axis=0)}, "That is a mean over the block's rows: a sum is asked for."),
    ("heads left out", {"heads": lambda sums: sums[0]},
     "That is head 0 alone: all heads share w, so that a part is the sum over all of them."),
    ("heads left out", {"heads": lambda sums: sums[-1]},
     "That is the last head alone: all heads share w, so that a part is the sum over all of them."),
    ("heads left out", {"heads": lambda sums: sums[:2].sum(axis=0)},
     "That is heads 0 and 1 alone, and there are four: a part is the sum over as many heads as there are."),
    ("mean of rows", {"rows": lambda block: block.mean(axis=0), "idle": np.nan},
     "That is a mean over the block's rows, and 0 / 0 where it has none: a sum is asked for."),
    ("consecutive rows", {"taken": consecutive},
     "That is the sum over rows that follow each other, of block 0 the first ones: block b has the rows b, b + blocks, ..."),
    ("heads left out", {"heads": one_head_a_column},
     "That is one head's sum alone, in each column that of the warp that writes it: all heads share w, so that a part is the sum "
     "over all of them."),
    ("mean of heads", {"heads": lambda sums: sums.mean(axis=0)}, "That is a mean over the heads: a sum is asked for."),
)  # fmt: skip


def instead(name: str, steps) -> list:
    """Formulas of an output from steps of `gradients` that are replaced."""

    def formula(replaced):
        def found(case):
            if "unweighted" in replaced:
                case = Case(case.name, case.make, case.inputs | {"mW": np.ones_like(case.inputs["mW"])})
                return gradients(case)[name]
            return gradients(case, **replaced)[name]

        return found

    return [(kind, formula(replaced), said) for kind, replaced, said in steps]


def explain(check: str, views: list[View], every: list[View]) -> Iterator[Diagnosis]:
    """What is wrong with the numbers that a check looks at, the most telling first."""
    forward = [v for v in every if v.readers]
    for name, steps in (("mDx", STEPS), ("mParts", SUMS + STEPS)):
        bad = [v for v in views if differs(v, name).any()]
        if not bad or name not in OUTPUTS.get(check, ("mDx", "mParts")):
            continue
        yield from diagnoses.by_formula(forward, name, instead(name, steps), TOLERANCE[name])
        told = diagnoses.first_wrong(bad[0], name, TOLERANCE[name])
        large = [v for v in forward if v.case.name == "large"]
        if differs(large[0], name).any() and not any(differs(v, name).any() for v in forward if v.case.name != "large"):
            yield Diagnosis(
                "accumulated in float16",
                f"{told} Small numbers are right, and of these the squares leave float16, which ends at 65504. Square and add in "
                "float32.",
            )
        if name == "mParts":
            yield from lost_rows(forward, told)
        tiny = [v.case.name for v in forward if differs(v, name).any()] == ["tiny"]
        if tiny:
            text = "Only rows of tiny numbers are wrong, where eps decides: to what is it added, and what is done with that?"
            yield Diagnosis("eps", f"{told} {text}")
        if all(np.allclose(v.got[name], v.right[name], 0.03, 0.03) for v in (*forward, *bad) if v.case.name != "large"):
            yield Diagnosis(
                "accumulated in float16", f"{told} That is near: does something run in float16 that float32 should?"
            )
        if name == "mDx":
            starts = [
                (differs(v, name)[: v.case.make[1]].any(), differs(v, name)[v.case.make[1] :].any()) for v in forward
            ]
            if not any(first for first, _ in starts) and sum(later for _, later in starts) > 1:
                text = "Each block's first row is right, and rows after it are not: what of a row is left when the next one starts?"
                yield Diagnosis("rows after the first", f"{told} {text}")
            yield from lone_lanes(forward, told)
            yield Diagnosis(
                "wrong number",
                f"{told} Are r, the mean and the weight those of the row, head and column that the number is in?",
            )
        yield Diagnosis("wrong part", f"{told} Which rows, and which heads, have been added to it, each how often?")


def differs(v: View, name: str) -> np.ndarray:
    """Where an output is wrong."""
    return ~np.isclose(v.got[name].astype(np.float64), v.right[name], *TOLERANCE[name])


def lost_rows(views: list[View], told: str) -> Iterator[Diagnosis]:
    """A part that is NaN or garbage where a block has no row, and sums that nobody started at 0."""
    idle = [v for v in views if v.case.make[1] > len(v.x)]
    busy = [v for v in views if v not in idle]
    if any(differs(v, "mParts").any() for v in idle) and not any(differs(v, "mParts").any() for v in busy):
        text = f"{told} Block {len(idle[0].x)} has no row there, and its part is 0: what do its registers hold?"
        yield Diagnosis("block without a row", text)


def lone_lanes(views: list[View], told: str) -> Iterator[Diagnosis]:
    """Each lane takes the means of its own columns: no lane has heard of another."""

    def alone(n):
        sums = np.zeros(n.shape)
        for k in range(32):
            sums[:, :, k::32] = n[:, :, k::32].sum(axis=2, keepdims=True) / n.shape[2]
        return sums

    for kinds, mean in (("squares", alone), ("products", None)):
        for v in views:
            count = v.case.make[0]
            shape = (len(v.x), count, -1)
            x, dy = (v.case.inputs[name].astype(np.float64).reshape(shape) for name in ("mX", "mDy"))
            w = v.case.inputs["mW"]
            r = 1 / np.sqrt((mean or over_head)(x * x) + EPS)
            found = r * (w * dy - x * r * alone(w * dy * x * r))
            if not np.allclose(v.got["mDx"], found.reshape(v.x.shape), 1e-2, 1e-2):
                break
        else:
            text = (
                "Each lane has the sum of its own columns: a head's sums need those of all 32 lanes, in all 32 lanes."
            )
            yield Diagnosis("lost lanes", f"{told} It is as if only lanes' own {kinds} were averaged. {text}")


def predict(name: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """What a wrong number of bytes shows."""
    terms = {
        "one of x, dy and dx": lambda M, H, D, B: 2 * M * H * D,
        "x, dy and dx at 4 bytes a number, where a float16 has 2,": lambda M, H, D, B: 6 * M * H * D,
        "the weights": lambda M, H, D, B: 4 * D,
        "weights of 2 bytes each, where a float32 has 4,": lambda M, H, D, B: 2 * D,
        "weights of their own for each further head, where all share them,": lambda M, H, D, B: 4 * D * (H - 1),
        "the parts": lambda M, H, D, B: 4 * D * B,
        "w (all blocks share one) or a part of dw (each block has one) of each further block": lambda M, H, D, B: (
            4 * D * (B - 1)
        ),
        "parts of each head, where a block adds its heads up first,": lambda M, H, D, B: 4 * D * B * (H - 1),
        "an r that is stored and read, where it can be found again from x,": lambda M, H, D, B: 4 * M * H,
    }
    yield from diagnoses.off_by_a_term(name, outcomes, _bytes, terms)
    yield from diagnoses.wrong_prediction(
        name, outcomes, _bytes, "Which tensors are read and written, of how many numbers of how many bytes?"
    )


def _bytes(M: int, heads: int, D: int, blocks: int) -> int:
    return 6 * M * heads * D + 4 * D + 4 * D * blocks


def waste(outcome: Outcome) -> Iterator[Diagnosis]:
    """More bytes or waiting than the task needs."""
    for name in ("mX", "mDy"):
        yield from diagnoses.read_again(
            outcome, name, "Keep the lane's numbers in registers until both means are known."
        )
    yield from diagnoses.idle_warps(outcome, "mX")
    yield from diagnoses.scattered(outcome, "mX", "mDy", "mDx")
    yield from diagnoses.written_again(outcome)
    yield from diagnoses.barriers(outcome, 1, "warps meet once, after the last row.")
