"""The lab `cross-entropy`: the loss with smoothed labels and its gradient, from one read of the logits.

Neither book nor package solves it: their labels are not smoothed.

    SmoothedLoss(lanes)(mX, mT, mLoss, mDx)   mX and mDx float32 (M, N), mT int32 (M,), mLoss float32 (M,)

lanes is 32, a row to a block of one warp. A target of -100 means that the row is ignored: its loss and gradient are 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grading import diagnoses
from grading.diagnoses import View
from grading.judgement import DRAWN, FAST, OWN, SCHEDULES, Case, Diagnosis, Outcome, drawn, hard, shifts

TITLE = "Cross-entropy: smoothed labels, loss and gradient from one read"
TARGET = "SmoothedLoss"
FUNCTIONS = ("least_bytes",)
LONGEST = 8_192  # columns of a row, as the text promises
CHECKS = {"least_bytes": 1, "loss": 2, "gradient": 2, "ignored": 2, "shifted": 1, "order": 1, "traffic": 1}
LOOKS = {
    "loss": ("plain", "odd", DRAWN),
    "gradient": ("plain", "odd", DRAWN),
    "ignored": ("ignored", "any"),
    "shifted": ("shifted",),
}
OUTPUTS = {"loss": ("mLoss",), "gradient": ("mDx",)}  # of the other checks both
TRAFFIC = "plain"
SMOOTHING, IGNORED = 0.1, -100
COLUMNS = "Columns run from 0 to N - 1, N need not be a multiple of 32, and a target of -100 is no column."
ADVICE = {"mX": COLUMNS, "mDx": COLUMNS, "mT": "Each block has one row.", "mLoss": "Each block has one row."}
TOLERANCE = {"mLoss": (1e-5, 2e-4), "mDx": (1e-4, 5e-6)}


def parts(case: Case) -> tuple:
    """(x, log-sum-exp, logit of the target or 0, ignored, which column is the target) in float64; all but x (M, 1) or (M, N)."""
    x, target = case.inputs["mX"].astype(np.float64), case.inputs["mT"][:, None]
    largest, hit = x.max(axis=1, keepdims=True), np.arange(x.shape[1]) == target
    with np.errstate(invalid="ignore"):  # in an ignored row all may be -inf
        lse = largest + np.log(np.exp(x - largest).sum(axis=1, keepdims=True))
    return x, lse, np.where(hit, x, 0).sum(axis=1, keepdims=True), target == IGNORED, hit


def right(case: Case) -> dict:
    """Loss and gradient in float64."""
    x, lse, logit, ignored, hit = parts(case)
    loss = lse - (1 - SMOOTHING) * logit - SMOOTHING * x.mean(axis=1, keepdims=True)
    gradient = np.exp(x - lse) - (1 - SMOOTHING) * hit - SMOOTHING / x.shape[1]
    return {"mLoss": np.where(ignored, 0, loss)[:, 0], "mDx": np.where(ignored, 0, gradient)}


def may_skip(case: Case) -> np.ndarray:
    """Rows that are ignored: their answer is 0, whatever their logits."""
    return case.inputs["mT"] == IGNORED


def cases(seed: int = 0) -> list[Case]:
    """Rows of even and odd length, targets everywhere, ignored rows, rows that lie high."""
    rng = np.random.default_rng([seed, 9])

    def case(name, M, N, shift=0.0, ignore=(), schedule="forward"):
        low = shifts(rng, M, 150) if name == DRAWN else 0
        x = (rng.standard_normal((M, N)) * 2 + shift + low).astype(np.float32)
        target = rng.integers(0, N, M).astype(np.int32)
        target[-1] = N - 1
        # Lane 0, which writes the loss, has a target in one case only: what never reaches it is missed in all others.
        beside = np.where(target + 1 < N, target + 1, np.maximum(target - 1, 0))
        target = np.where(target % 32 == 0, beside, target).astype(np.int32)
        if name == "shifted":
            target[0] = 0
            x[1, 0] -= 100  # lane 0's first number is no stand-in for the maximum
            x[2:] += [[-rng.uniform(1080, 1180)], [700]]  # nor is one that is low, or high, elsewhere
        if name == "any":  # whatever they hold
            x[:-1], ignore = hard(rng, M - 1, N), range(M - 1)
        if name == DRAWN:  # numbers that count together alone
            x[-1], x[-1, -1] = x[-1] / 9 - 15, 3
            ignore = [M // 2] if M > 2 else []
            x[ignore] += 200  # whatever they hold, -inf in many columns or in all
            x[ignore] -= np.where(rng.random((len(ignore), N)) < rng.uniform(0.5, 1.5), np.inf, 0)
        target[list(ignore)] = IGNORED
        outputs = {"mLoss": np.full(M, np.nan, np.float32), "mDx": np.full((M, N), np.nan, np.float32)}
        return Case(name, (32,), {"mX": x, "mT": target}, outputs, schedule, seed, (M, 32))

    odd = 65 + 2 * int(rng.integers(1, 30))
    return [
        *(
            Case("bytes", shape, target="least_bytes")
            for shape in ((1, 1), (4096, 32000), (int(rng.integers(2, 99)), 77))
        ),
        case("plain", 4, 128),
        case("odd", 4, odd),
        case("odd", 3, int(rng.integers(3, 31))),
        case("odd", 2, 33),  # one column more than lanes
        case("odd", 2, 129 + 32 * int(rng.integers(0, 4))),  # the same, after more than four steps
        case("ignored", 5, odd, ignore=(0, 1, 3)),
        case("any", 11, 5),
        case("shifted", 4, 96, shift=200.0),
        case("odd", 2, odd, schedule="reverse"),
        *(
            case(DRAWN, *shape, schedule=schedule)
            for shape, schedule in zip(drawn(rng, 32, LONGEST, kinds=1), SCHEDULES)
        ),
        *(case(DRAWN, M, N, schedule=FAST) for make, M, N in OWN.get()),
    ]


# What wrong numbers show ----------------------------------------------------------------------------------------------


def loss_with(logit=1 - SMOOTHING, zero=True, lse=lambda x, lse: lse, over=lambda N: N):
    """The loss with another weight of the target's logit, another log-sum-exp or number of columns."""

    def formula(case):
        x, sums, at, ignored, _ = parts(case)
        loss = lse(x, sums)[:, :1] - logit * at - SMOOTHING * x.sum(axis=1, keepdims=True) / over(x.shape[1])
        return np.where(ignored & zero, 0, loss)[:, 0]

    return formula


def gradient_with(zero=True, lse=lambda x, lse: lse):
    """The gradient with ignored rows counted, or another log-sum-exp."""

    def formula(case):
        x, sums, _, ignored, at = parts(case)
        gradient = np.exp(x - lse(x, sums)) - (1 - SMOOTHING) * at - SMOOTHING / x.shape[1]
        return np.where(ignored & zero, 0, gradient)

    return formula


def by_lane(case: Case) -> np.ndarray:
    """The loss where a lane's number is compared with the target, in every step."""
    x, lse, _, ignored, _ = parts(case)
    hits = np.arange(x.shape[1]) % 32 == case.inputs["mT"][:, None]
    loss = lse - (1 - SMOOTHING) * (x * hits).sum(axis=1, keepdims=True) - SMOOTHING * x.mean(axis=1, keepdims=True)
    return np.where(ignored, 0, loss)[:, 0]


def by_lane_of_the_last_step(case: Case) -> np.ndarray:
    """The loss where the target is a lane's number, and the last step's number of that lane counts."""
    x, lse, _, ignored, _ = parts(case)
    target, N = case.inputs["mT"][:, None], x.shape[1]
    at = (N - 1) // 32 * 32 + target
    logit = np.where(at < N, np.take_along_axis(x, np.clip(at, 0, N - 1), axis=1), -np.inf)
    logit = np.where((target >= 0) & (target < 32), logit, 0)
    return np.where(ignored, 0, lse - (1 - SMOOTHING) * logit - SMOOTHING * x.mean(axis=1, keepdims=True))[:, 0]


def label_of_the_target(case: Case) -> np.ndarray:
    """The gradient where the target's label lacks its share of what all columns get."""
    *_, ignored, hit = parts(case)
    return gradient_with()(case) + np.where(ignored, 0, hit * SMOOTHING / hit.shape[1])


def shifted(x, lse):
    return lse - x.max(axis=1, keepdims=True)


def turns(N: int) -> int:
    """The columns that 32 lanes look at, past the end included."""
    return -(-N // 32) * 32


def zeros_in_the_sum(x, lse):
    """Each column past the end adds exp(0 - max), which is exp(0) of what is not shifted."""
    return np.logaddexp(lse, np.log(turns(x.shape[1]) - x.shape[1]))


def own_largest(x, lse):
    """A lane's own maximum taken for the row's: (M, N), as the lane of each column has it."""
    past = np.full((len(x), turns(x.shape[1]) - x.shape[1]), -np.inf)
    by_turn = np.hstack([x, past]).reshape(len(x), -1, 32)
    largest = by_turn.max(axis=1, keepdims=True)
    found = largest + np.log(np.exp(by_turn - largest).sum(axis=(1, 2), keepdims=True))
    return np.broadcast_to(found, by_turn.shape).reshape(len(x), -1)[:, : x.shape[1]]


def apart(x, lse):
    """The sums of lanes, each relative to a maximum of the lane's own, added as they are."""
    past = np.full((len(x), turns(x.shape[1]) - x.shape[1]), -np.inf)
    by_turn = np.hstack([x, past]).reshape(len(x), -1, 32)
    largest = by_turn.max(axis=1, keepdims=True)
    sums = np.exp(by_turn - np.where(np.isinf(largest), 0, largest)).sum(axis=(1, 2))[:, None]
    return np.log(sums) + x.max(axis=1, keepdims=True)


def of_lane_0(x):
    """The columns that lane 0 reads, as 1."""
    return np.arange(x.shape[1]) % 32 == 0


def own_sum(x, lse):
    """Each lane divides by the sum of its own columns: (M, N)."""
    largest = x.max(axis=1, keepdims=True)
    found = np.zeros(x.shape)
    for lane in range(min(32, x.shape[1])):
        found[:, lane::32] = np.log(np.exp(x[:, lane::32] - largest).sum(axis=1, keepdims=True))
    return largest + found


def lone_mean(case: Case) -> np.ndarray:
    """The loss with lane 0's part of the mean alone."""
    x, _, _, ignored, _ = parts(case)
    lost = SMOOTHING * (x * ~of_lane_0(x)).sum(axis=1) / x.shape[1]
    return loss_with()(case) + np.where(ignored[:, 0], 0, lost)


def shared_by_the_others(case: Case) -> dict:
    """Loss and gradient where the tenth goes to the N - 1 columns that are not the target, and nine tenths to the target."""
    x, lse, logit, ignored, hit = parts(case)
    share = SMOOTHING / max(1, x.shape[1] - 1)
    loss = lse - (1 - SMOOTHING) * logit - share * (x.sum(axis=1, keepdims=True) - logit)
    gradient = np.exp(x - lse) - np.where(hit, 1 - SMOOTHING, share)
    return {"mLoss": np.where(ignored, 0, loss)[:, 0], "mDx": np.where(ignored, 0, gradient)}


OTHERS = (
    "It is as if the tenth were shared by the N - 1 other columns: here all N have a share, so the target has nine tenths and "
    "a tenth over N."
)
IGNORE = "It is as if the row counted: for a target of -100 it does not, and -100 must not be looked up."
PADDED = "Columns past the end of the row come into the sum of exponentials as 0, and exp(0 - max) is not 0. What pads the row?"
APART = "Each lane has subtracted its own maximum. A sum over all lanes needs that of the row, which warp_reduction_max gives."
LOSSES = (
    ("ignored row counted", loss_with(zero=False), IGNORE),
    ("logit before the shift", loss_with(lse=shifted),
     "The maximum is missing: the sum is of exp(x - max), and the target's logit is not shifted. Add the maximum, or "
     "shift both."),
    ("padding in the sum", loss_with(lse=zeros_in_the_sum), PADDED),
    ("maximum of a lane", loss_with(lse=own_largest), APART),
    ("maximum of a lane", loss_with(lse=apart), APART),
    ("lost lanes", lone_mean,
     "It is as if the mean knew the columns of lane 0 alone: a sum over the row needs those of all lanes."),
    ("lost lanes", loss_with(lse=lambda x, lse: own_sum(x, lse)[:, :1]),
     "It is as if the sum of exponentials were lane 0's own: a sum over the row needs those of all lanes."),
    ("padding in the mean", loss_with(over=turns),
     "The sum is divided by the columns that the lanes look at, 32 a turn: the mean is over the N of the row."),
    ("mean over 32", loss_with(over=lambda N: 32),
     "The sum is divided by 32, the lanes: the mean is over the N columns of the row."),
    ("sum, not mean", lambda c: np.where(parts(c)[3], 0, parts(c)[1] - (1 - SMOOTHING) * parts(c)[2]
                                         - SMOOTHING * parts(c)[0].sum(axis=1, keepdims=True))[:, 0],
     "It is as if the tenth were given to each column, not shared among them: the mean is the sum over N."),
    ("target in the wrong place", by_lane,
     "It is as if the lane's number were the column: each lane has columns lane, lane + 32, ...; only one of them is the target."),
    ("target in the wrong place", by_lane_of_the_last_step,
     "It is as if the target were a lane's number, and that lane's last number its logit: a lane has columns lane, lane + 32, ..."),
    ("shared by the others", lambda c: shared_by_the_others(c)["mLoss"], OTHERS),
    ("target forgotten", loss_with(logit=0),
     "The target's logit never comes in: which lane has it, and do the others learn of it?"),
)  # fmt: skip
GRADIENTS = (
    ("ignored row counted", gradient_with(zero=False), IGNORE),
    ("shared by the others", lambda c: shared_by_the_others(c)["mDx"], OTHERS),
    ("label of the target", label_of_the_target,
     "The target's label is nine tenths here. It has its share of the tenth besides: nine tenths and a tenth over N."),
    ("padding in the sum", gradient_with(lse=zeros_in_the_sum), PADDED),
    ("maximum of a lane", gradient_with(lse=own_largest), APART),
    ("maximum of a lane", gradient_with(lse=apart), APART),
    ("lost lanes", gradient_with(lse=own_sum),
     "It is as if each lane divided by the sum of exponentials of its own columns: the row's sum needs those of all lanes, and all "
     "lanes need it."),
    ("not divided by the sum", gradient_with(lse=lambda x, lse: x.max(axis=1, keepdims=True)),
     "It is as if exp(x - max) were the probability: divide it by the row's sum, or subtract lse instead of the maximum."),
    ("not divided by the sum", gradient_with(lse=lambda x, lse: 0 * lse),
     "It is as if exp(x) were the probability: it has to be divided by the row's sum of exponentials."),
)  # fmt: skip


def of_counted(part):
    """part(x, lse, logit, hit) of the rows that count, and 0 of the others."""

    def found(case):
        x, lse, logit, ignored, hit = parts(case)
        return np.where(ignored, 0, part(x, lse, logit, hit))

    return found


PARTS = {
    "mLoss": {
        "the row's maximum": (1, of_counted(lambda x, lse, at, hit: x.max(axis=1, keepdims=True))),
        "the logarithm of the sum of exp(x - maximum)": (1, of_counted(lambda x, lse, at, hit: shifted(x, lse))),
        "that of the sum of 2 ** (x - maximum)": (0, of_counted(lambda x, lse, at, hit: np.log(
            np.exp2(x - x.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)))),
        "the target's logit": (SMOOTHING - 1, of_counted(lambda x, lse, at, hit: at)),
        "the mean of x": (-SMOOTHING, of_counted(lambda x, lse, at, hit: x.mean(axis=1, keepdims=True))),
    },
    "mDx": {
        "exp(x - lse)": (1, of_counted(lambda x, lse, at, hit: np.exp(x - lse))),
        "2 ** (x - lse)": (0, of_counted(lambda x, lse, at, hit: np.exp2(x - lse))),
        "1 in the target's column": (SMOOTHING - 1, of_counted(lambda x, lse, at, hit: hit)),
        "1 / N in every column": (-SMOOTHING, of_counted(lambda x, lse, at, hit: np.ones(x.shape) / x.shape[1])),
    },
}  # fmt: skip


def explain(check: str, views: list[View], every: list[View]) -> Iterator[Diagnosis]:
    """What is wrong with the numbers that a check looks at, the most telling first."""
    for name in OUTPUTS.get(check, ("mLoss", "mDx")):
        wrong = [v for v in views if not _close(v, name).all()]
        if not wrong:
            continue
        v = wrong[0]
        formulas = {"mLoss": LOSSES, "mDx": GRADIENTS}[name]
        told = diagnoses.first_wrong(v, name, TOLERANCE[name])
        finite = np.isfinite(v.got[name]).all()
        shift = f"{told} Rows may lie far from 0, and exp(89) is beyond float32: subtract the row's maximum before exp."
        elsewhere = all(np.isfinite(o.got[name]).all() for o in every if o.case.name != "shifted")
        top = v.x.max(axis=1)
        if not finite and check == "shifted" and top[v.wrong].max() < -88 and not v.wrong[np.abs(top) > 88].all():
            text = f"The row's largest number is {top[v.wrong][0]:.6g}, and rows that lie high are right. With anything above a row"
            yield Diagnosis("start value", f"{told} {text} each exp is 0: from what does its maximum start?")
        if not finite and check == "shifted" and (elsewhere or not _close(v, "mDx").all()):
            yield Diagnosis("no shift", shift)
        zeroed = (v.case.inputs["mT"] == 0) & ~_close(v, name).reshape(len(v.x), -1).all(axis=1)
        if zeroed.any() and not v.got[name][zeroed].any():
            text = "Its target is 0, which is a column like any other. Which targets mean that the row is ignored?"
            yield Diagnosis("target 0 ignored", f"{told} The row was given 0, as ignored rows are. {text}")
        # Where rows lie high, float32 overflows before a formula shows.
        known = [o for o in every if o.readers and o.case.name != "shifted"]
        known = [o for o in known if not _close(o, name).all()] or known
        # A lane without a column may bring -inf - -inf.
        known = [o for o in known if np.isfinite(o.got[name]).all()] or known
        yield from diagnoses.by_formula(known, name, formulas, TOLERANCE[name])
        if (
            all(may_skip(o.case)[~_close(o, name).reshape(len(o.x), -1).all(axis=1)].all() for o in wrong)
            and not finite
        ):
            text = "Only ignored rows are wrong: 0 times an infinity or a NaN is NaN. Choose their 0, and do not multiply by it."
            yield Diagnosis("ignored row not chosen", f"{told} {text}")
        if not finite and name == "mLoss" and not (v.case.name == "shifted" and elsewhere) and _close(v, "mDx").all():
            text = "The gradient is right, and with it the sum of exponentials."
            if all(np.isfinite(o.got[name]).all() for o in every if o.x.shape[1] % 32 == 0):
                yield Diagnosis(
                    "padding in the mean", f"{told} {text} Does what pads the row, -inf, come into the mean?"
                )
            text += " So an infinity comes in beside it: what do lanes that have not the target bring to the sum of its logit?"
            yield Diagnosis("start of the logit", f"{told} {text} Neutral for a sum is 0.")
        if not finite:
            yield Diagnosis("no shift", shift)
        yield Diagnosis(f"wrong {'loss' if name == 'mLoss' else 'gradient'}", told)


def _close(v: View, name: str) -> np.ndarray:
    relative, absolute = TOLERANCE[name]
    return np.isclose(v.got[name], v.right[name], relative, absolute)


def predict(name: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """What a wrong number of bytes shows."""
    mistakes = (
        ("wrong prediction", lambda M, N: 12 * M * N + 8 * M,
         "x is read twice there: once is enough if a row stays in registers."),
        ("wrong prediction", lambda M, N: 8 * M * N, "A target a row is read, too, and a loss written."),
        ("wrong prediction", lambda M, N: 4 * M * N + 8 * M, "The gradient is written, as large as x."),
    )  # fmt: skip
    hint = "Which tensors are read and written, of how many numbers of 4 bytes?"
    yield from diagnoses.wrong_prediction(name, outcomes, lambda M, N: 8 * M * (N + 1), hint, mistakes)


def waste(outcome: Outcome) -> Iterator[Diagnosis]:
    """More bytes or waiting than the task needs."""
    yield from diagnoses.read_again(outcome, "mX", "Keep the lane's logits in registers for the gradient.")
    yield from diagnoses.scattered(outcome, "mX", "mDx")
    yield from diagnoses.written_again(outcome)
    yield from diagnoses.barriers(outcome, 0, "a row belongs to one warp.")
