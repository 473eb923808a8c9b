"""The lab `roof`: each row over the mean of its magnitudes, as near to the speed of a copy as it gets.

Neither book nor package solves it. Blocks, threads and rows a block are the student's to choose.

    AbsMeanScale(N)(mX, mY)   mX and mY float32 (M, N), y = x / mean(|x|), the mean being the row's

N is a multiple of 4, from 4 to 8192; no row is all 0, or nearly. Graded without a GPU: the sectors that move, the requests that
ask for them, and by the cost model whether enough bytes are under way. `race` measures on a Hopper GPU.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator

import numpy as np

from cutesim.analysis import requests
from cutesim.trace import Op, Space, Trace
from grading import diagnoses, evidence
from grading.diagnoses import View
from grading.judgement import DRAWN, FAST, OWN, Case, Diagnosis, Outcome, Refused, near, uneven
from quack_tutorial import cost
from quack_tutorial.records import memory

TITLE = "Race to the roof: each row over its mean magnitude, at the speed of a copy"
TARGET = "AbsMeanScale"
FUNCTIONS = ("share_of_copy", "possible", "reachable")
BANDS = (50, 70, 85, 95)  # percent of a copy's speed, on a GPU
# Percent of what a copy has, or of what is needed.
ENOUGH = {"bytes_70": 70, "bytes_95": 95, "in_flight": 95, "requests": 80}
CHECKS = {"share_of_copy": 1, "possible": 1, "reachable": 1, "plain": 2, "odd": 2, "order": 1} | dict.fromkeys(
    ENOUGH, 1
)
LOOKS = {"plain": ("plain", "tall"), "odd": ("odd", "short", "long", DRAWN)} | dict.fromkeys(ENOUGH, ("plain", "wide"))
OUTPUTS = dict.fromkeys(ENOUGH, ())
ADVICE = dict.fromkeys(
    ("mX", "mY"),
    "Rows end at M and columns at N, and N need not be a multiple of the block. Vectors of 4 numbers end at N / 4.",
)
SLOTS = "A block has as many warps as you launch it with, numbered from 0."
TOLERANCE = {"mY": (2e-5, 1e-6)}
RACE_SHAPE = (32768, 4096)
LONGEST = 8192  # columns of a row, as the text promises


def scaled(case: Case, scale) -> np.ndarray:
    """x over `scale` of its rows, a function of x (M, N) in float64."""
    x = case.inputs["mX"].astype(np.float64)
    return x / scale(x).reshape(len(x), 1)


def right(case: Case) -> dict:
    """The result in float64."""
    return {"mY": scaled(case, lambda x: np.abs(x).mean(axis=1))}


def cases(seed: int = 0) -> list[Case]:
    """Rows that fill vectors and blocks and rows that do not, of sizes apart, and rows longer than a block may be."""
    rng = np.random.default_rng([seed, 11])

    def case(name, M, N, schedule="forward"):
        x = rng.standard_normal((M, N)) + 0.3
        if name in ("tall", DRAWN):  # means up to the ends that the text names
            x = uneven(rng, x)
            x *= np.clip(10 ** rng.uniform(-32, 32, (M, 1)), 1.01e-30, 0.99e30) / np.abs(x).mean(axis=1, keepdims=True)
        else:
            x *= 1 + np.arange(M)[:, None]
        outputs = {"mY": np.full((M, N), np.nan, np.float32)}
        more = {"how": f"with N = {N}", "follows": schedule == "forward"}
        return Case(name, (N,), {"mX": x.astype(np.float32)}, outputs, schedule, seed * 101 + 3, **more)

    odd, some, long = (4 * int(rng.integers(*ends)) for ends in ((130, 210), (33, 129), (130, 1850)))
    shares = [
        (10**9, 1000.0, 2000.0),
        (8 * 4096 * 4096, 40.0, 4000.0),
        (int(rng.integers(10**6, 10**9)), 100.0, 3500.0),
    ]
    times = [
        (10**9, 1000.0, 4800.0),
        (10**9, 100.0, 4800.0),
        (8 * 4096 * 4096, 27.9, 4800.0),
        (8 * 4096 * 4096, 28.0, 4800.0),
        (10**9, 300.0, 3350.0),
        (10**9, 298.0, 3350.0),
        (10**9, 280.0, 3350.0),  # in GiB 7 % less
        (10**9, 250.0, 3350.0),
        (10**9, 500.0, 2000.0),  # as fast as the memory allows, which is possible
    ]
    flights = [
        (1024, 4, 100, 500.0, 2000.0),
        (16384, 8, 132, 800.0, 4000.0),  # more than enough
        (512 * int(rng.integers(1, 8)), 2, 132, 750.0, 3350.0),
        (512, 16, int(rng.integers(20, 60)), 650.0, 1000.0),
    ]
    return [
        *(Case("share", one, target="share_of_copy") for one in shares),
        *(Case("possible", one, target="possible") for one in times),
        *(Case("reachable", one, target="reachable") for one in flights),
        case("plain", 4, 1024),
        case("tall", 1030 + int(rng.integers(1, 30)), 128, FAST),
        case("odd", 3, odd),
        case("short", 5, 4 * int(rng.integers(1, 16))),
        case("plain", 2, 1024, "reverse"),
        case("odd", 2, odd, "seeded"),
        case("long", 1, LONGEST),
        case("wide", 2, RACE_SHAPE[1]),
        case("long", 2, 1028 + 8 * int(rng.integers(1, 300))),
        case("long", 1, near(rng, LONGEST, 4)),
        case(DRAWN, int(rng.integers(9, 30)), some),
        case(DRAWN, 5, long),
        case("tall", 30 * int(rng.integers(20, 99)), 128 * int(rng.integers(2, 6)), FAST),
        *(case(DRAWN, M, N, FAST) for _, M, N in OWN.get()),
    ]


# What wrong numbers show ----------------------------------------------------------------------------------------------

FORMULAS = (
    ("sign kept", lambda c: scaled(c, lambda x: x.mean(axis=1)),
     "That is x over the mean of x, in which positive and negative numbers cancel. Magnitudes are asked for."),
    ("positive numbers alone", lambda c: scaled(c, lambda x: np.maximum(x, 0).mean(axis=1)),
     "That is x over the mean of its positive numbers, with 0 for the others. A negative number has a magnitude, too."),
    ("sum, not mean", lambda c: scaled(c, lambda x: np.abs(x).sum(axis=1)),
     "That is x over the sum of the magnitudes. What makes a mean of a sum?"),
    ("root of squares", lambda c: scaled(c, lambda x: np.sqrt((x * x).mean(axis=1))),
     "That is x over the root of the mean square. Here magnitudes are averaged, not squares."),
    ("largest, not mean", lambda c: scaled(c, lambda x: np.abs(x).max(axis=1)),
     "That is x over the largest magnitude. Their mean is asked for."),
    ("upside down", lambda c: scaled(c, lambda x: 1 / np.abs(x).mean(axis=1)),
     "That is x times the mean. It has to be divided."),
    ("magnitude written", lambda c: np.abs(scaled(c, lambda x: np.abs(x).mean(axis=1))),
     "The magnitudes are right, and the signs are gone: |x| is for the mean only, and y is of x."),
    ("unscaled", lambda c: scaled(c, lambda x: np.ones(len(x))), "That is x itself: a copy, and the roof of this race."),
)  # fmt: skip


def explain(check: str, views: list[View], every: list[View]) -> Iterator[Diagnosis]:
    """What is wrong with the numbers; of bands, what is moved beyond the least."""
    wrong = [v for v in views if v.wrong.any()]
    if wrong:
        yield from diagnoses.by_formula([v for v in every if v.readers], "mY", FORMULAS, (1e-4, 1e-4))
        told = diagnoses.first_wrong(wrong[0], "mY", TOLERANCE["mY"])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = wrong[0].right["mY"] / wrong[0].got["mY"]
        even = np.isfinite(ratio).all() and (np.ptp(ratio, axis=1) < 1e-3 * np.abs(ratio).max(axis=1)).all()
        N = wrong[0].x.shape[1]
        divisor = N / ratio.mean()
        alike = len(ratio) > 1 and np.ptp(ratio) < 1e-3 * ratio.max()  # one row fits any factor
        if even and alike and round(divisor) != N:
            text = (
                f"It is as if the sum of the magnitudes were divided by {round(divisor):,}, and N is {N:,}: what is counted "
                f"there?"
            )
            yield Diagnosis("divided by another number", f"{told} {text}")
        if even:
            factors = ", ".join(f"{r:.6g}" for r in ratio[:4, 0])
            text = (
                f"{told} Each row is right but for one factor: {factors} in the first rows. So what it is divided by is not the "
                "mean. Which numbers reach that, from which lanes and warps, and by how many is their sum divided?"
            )
            yield Diagnosis("wrong mean", text)
        means = np.abs(wrong[0].x[wrong[0].wrong].astype(np.float64)).mean(axis=1)
        said = f"The row's mean is {means[0]:.3g}. Has each thread the same mean, and is each number divided once?"
        yield Diagnosis("wrong number", f"{told} {said}")
    elif check in ENOUGH:
        seen = [v.outcome for v in every if v.outcome.trace is not None and not v.outcome.findings]
        for outcome in sorted(seen, key=lambda o: o.case.name not in LOOKS[check]):
            yield from diagnoses.wrong_way(outcome)
            yield from {"requests": narrow, "in_flight": few}.get(check, beyond)(ENOUGH[check], outcome)


def narrow(enough: int, outcome: Outcome) -> Iterator[Diagnosis]:
    """Requests that ask for less than 16 bytes a lane."""
    (M, N), table = outcome.case.inputs["mX"].shape, requests(outcome.trace)
    each, count = table["bytes"].sum() / len(table) / 32, len(table) * evidence.scale(outcome, "mX")
    if count * enough > 100 * 2 * M * -(-N // 128):
        yield Diagnosis(
            "traffic: narrow requests",
            f"Warps make {count:.0f} requests for x {(M, N)} and y, of {each:.3g} bytes a lane; 16 "
            "fit into one. The sectors may be the same, but each request takes its turn in the SM. How many neighbouring numbers "
            "can a lane ask for at once?",
            evidence.lines_of(outcome.trace, table[table["bytes"] < 512]),
        )


WAITS = (
    Op.STORE,
    Op.ATOMIC,
    Op.WAIT_GROUP,
    Op.STORE_ASYNC,
    Op.SHUFFLE,
    Op.VOTE,
    Op.REDUX,
    Op.BARRIER,
    Op.MBARRIER_WAIT,
)


def flight(trace: Trace, row_bytes: int, scale: float = 1) -> dict:
    """By the cost model: what a block, and an SM's blocks together, have under way, and what the bandwidth needs.

    A warp asks for numbers until something needs one of them, a load's address at times, a shuffle, a store or a barrier at the
    latest; the mean of such runs counts. The registers are those that a row's numbers take which a thread loads, or those asked for
    if more, and 24.
    """
    launch, events = trace.launches[0], trace.events
    runs: dict = {}
    loaded = trace.select(Op.LOAD, space=Space.GMEM)
    loaded = sum(int(mask).bit_count() * int(size) for mask, size in zip(loaded["mask"], loaded["bytes"]))
    loaded = int(loaded * scale) // launch.blocks
    for event in events:
        of_warp = runs.setdefault((int(event["block"]), int(event["warp"])), [0])
        if event["op"] in (Op.LOAD, Op.ASYNC_COPY) and event["space"] == Space.GMEM:
            if event["op"] == Op.LOAD and event["arg2"] and of_warp[-1]:  # what it waits for has come before
                of_warp.append(0)
            of_warp[-1] += int(event["mask"]).bit_count() * int(event["bytes"])
        elif event["op"] in WAITS and of_warp[-1]:
            of_warp.append(0)
    of_blocks = collections.Counter()
    for (block, _), of_warp in runs.items():
        of_blocks[block] += sum(of_warp) // max(1, np.count_nonzero(of_warp))
    block_bytes = max(of_blocks.values())
    registers = 24 + max(block_bytes, min(loaded, row_bytes)) // launch.threads // 4
    blocks = cost.blocks_per_sm(launch.threads, min(255, registers), launch.smem_bytes)
    known = memory.load()
    need = cost.needed_bytes(known.bandwidth_gb_s("HBM"), known.latency_ns("HBM"), known.sms)
    return {"block": block_bytes, "blocks": blocks, "sm": blocks * block_bytes, "need": need, "registers": registers}


def few(enough: int, outcome: Outcome) -> Iterator[Diagnosis]:
    """Fewer bytes under way than the bandwidth needs, by the cost model."""
    shape = outcome.case.inputs["mX"].shape
    if shape[1] < 1024:
        return
    found = flight(outcome.trace, 4 * shape[1], evidence.scale(outcome, "mX"))
    if found["registers"] > 255:
        threads = outcome.trace.launches[0].threads
        yield Diagnosis(
            "traffic: too few registers",
            f"For x {shape} a thread of {threads} loads {found['registers'] - 24} numbers of a row. With 24 registers "
            f"besides it would need "
            f"{found['registers']}, and no thread has more than 255: the rest is stored to local memory, and read again. "
            f"How many threads "
            "does a row this long want?",
            evidence.loads(outcome, "mX")[1],
        )
    share = 100 * found["sm"] / found["need"]
    if share < enough and math.prod(shape) >= 8192:
        yield Diagnosis(
            "traffic: few bytes under way",
            f"A block of x {outcome.case.inputs['mX'].shape} asks for {found['block']:,} bytes before its warps wait for the first "
            f"of them, and an SM holds {found['blocks']} such blocks. So {found['sm']:,} bytes are under way, and "
            f"{found['need']:,.0f} are needed: {share:.0f} % of the bandwidth can be reached at most. What can be asked for "
            "earlier, before anything is done with what came first? Or are there too few threads?",
            evidence.loads(outcome, "mX")[1],
        )


def beyond(band: int, outcome: Outcome) -> Iterator[Diagnosis]:
    """What keeps a kernel out of a band of bytes."""
    (M, N), scale = outcome.case.inputs["mX"].shape, evidence.scale(outcome, "mX")
    ends = 2 * M * -(-N // 32) * (N % 8 > 0) / scale  # of requests, in the middle of a sector
    least, moved = int(8 * M * N / scale), 32 * int(requests(outcome.trace)["sectors"].sum())
    share = 100 * least / max(1, moved - 32 * ends)
    if share >= band:
        rows = -(-M // sum(one.blocks for one in outcome.trace.launches))
        # Of fewer a block may have more.
        yield from diagnoses.idle_warps(outcome, "mX", rows=rows) if M > 8 else ()
        return
    text = (
        f"{band} % of a copy's efficiency is not reached: {least:,} bytes are the least for x {(M, N)}, and the kernel's sectors "
        f"have {moved:,}, so it has {share:.0f} %."
    )
    for found in (
        diagnoses.read_again(outcome, "mX", "Where could a row stay until its mean is known?"),
        diagnoses.scattered(outcome, "mX", "mY"),
    ):
        for one in found:
            yield Diagnosis(one.kind, f"{text} {one.message}", one.lines)
    stores, lines = evidence.stores(outcome, "mY")
    if stores > outcome.case.outputs["mY"].size:
        again = f"y is stored {stores / outcome.case.outputs['mY'].size:.3g} times."
        yield Diagnosis(
            "traffic: written again", f"{text} {again} Global memory is no place for what is needed again soon.", lines
        )
    yield Diagnosis("traffic: sectors", f"{text} Which sectors does a warp touch that it does not use whole?")


WRONG_NUMBERS = (
    ("share_of_copy", "upside down", lambda b, us, c: c * us * 1e3 / b, "A faster kernel should get a larger share."),
    ("share_of_copy", "percent", lambda b, us, c: b / us / 10 / c, "That is in percent: 1 stands for the copy's speed here."),
    ("share_of_copy", "unit", lambda b, us, c: b / us / c, "1 GB/s is 1e9 bytes in 1e6 microseconds: a factor is missing."),
    ("share_of_copy", "unit", lambda b, us, c: b / us / 1e6 / c, "1 GB/s is 1e9 bytes in 1e6 microseconds: a factor too many."),
    ("share_of_copy", "one way", lambda b, us, c: b / us / 2e3 / c, "nbytes has both ways already, reading and writing."),
    ("share_of_copy", "twice", lambda b, us, c: 2 * b / us / 1e3 / c,
     "That is twice what is right: nbytes has both ways already, reading and writing."),
    ("possible", "GiB", lambda b, us, p: b / us / 2**30 * 1e6 <= p, "1 GB/s is 1e9 bytes a second here, and not 2**30."),
    ("possible", "upside down", lambda b, us, p: b / us / 1e3 > p, "A long time is always possible; too short a one is not."),
    ("possible", "always", lambda b, us, p: True, "A kernel faster than its bytes allow has not moved them."),
    ("possible", "always", lambda b, us, p: False, "A copy takes the time that this calls impossible."),
    ("possible", "unit", lambda b, us, p: b / us <= p, "1 GB/s is 1e9 bytes in 1e6 microseconds: a factor is missing."),
    ("possible", "one way", lambda b, us, p: b / us / 2e3 <= p, "nbytes has both ways, and the peak is of both together."),
    ("reachable", "not capped", lambda b, n, sms, ns, p: b * n * sms / ns / p, "No kernel gets more than all of it: 1."),
    ("reachable", "one block", lambda b, n, sms, ns, p: min(1, b * sms / ns / p), "An SM holds several blocks."),
    ("reachable", "one SM", lambda b, n, sms, ns, p: min(1, b * n / ns / p), "All SMs ask at the same time."),
    ("reachable", "upside down", lambda b, n, sms, ns, p: min(1, ns * p / (b * n * sms)), "More bytes under way reach more."),
    ("reachable", "always", lambda b, n, sms, ns, p: 1, "Too few bytes under way leave the memory waiting."),
    ("reachable", "GB/s", lambda b, n, sms, ns, p: min(p, b * n * sms / ns), "A share is asked for."),
    ("reachable", "unit", lambda b, n, sms, ns, p: min(1, b * n * sms / ns / p * 1e9), "1 GB/s is 1 byte a nanosecond."),
    ("reachable", "unit", lambda b, n, sms, ns, p: min(1, b * n * sms / ns / p / 1e9), "1 GB/s is 1 byte a nanosecond."),
)  # fmt: skip
RIGHT = {
    "share_of_copy": lambda b, us, c: b / us / 1e3 / c,
    "possible": lambda b, us, p: b / us / 1e3 <= p,
    "reachable": lambda b, n, sms, ns, p: min(1, b * n * sms / ns / p),
}


def predict(name: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """What wrong shares and verdicts on times show."""
    mistakes = [mistake for function, *mistake in WRONG_NUMBERS if function == name]
    hint = "How many GB/s is that, and what are they compared with?"
    if name == "reachable":
        hint = "How many bytes are under way on all SMs, and how many must be for all of gb_s to arrive?"
    yield from diagnoses.wrong_prediction(name, outcomes, RIGHT[name], hint, mistakes, 1e-9)


# The race -------------------------------------------------------------------------------------------------------------


def band(gb_s: float, copy_gb_s: float, peak_gb_s: float | None) -> str:
    """The sentence on a measured speed: its band, or why it does not count."""
    roof = peak_gb_s or 1.25 * copy_gb_s  # where the datasheet is not known, no kernel is this much better than a copy
    if gb_s > roof:
        return (
            f"Refused: {gb_s:,.0f} GB/s, and the memory has {roof:,.0f}. A kernel that is faster than its bytes allow has not "
            "moved them: does each launch read all of x, and write all of y?"
        )
    share = 100 * gb_s / copy_gb_s
    reached = max((b for b in BANDS if b <= share), default=0)
    following = next((b for b in BANDS if b > share), None)
    have = f"the band of {reached} %" if reached else "below the first band"
    return f"{share:.0f} % of the copy: {have}" + (
        f"; the next begins at {following} %." if following else ", the highest there is."
    )


def race(kernel_class) -> str:
    """Measure the class on this machine's GPU, and say its band; without a Hopper GPU say what is missing."""
    import quack_tutorial as qt
    from quack_tutorial.compiler import gpu_problem

    if problem := gpu_problem():
        return f"No race here: {problem.partition(': pass ')[0]}. Any Hopper GPU tells the time. {by_the_model(kernel_class)}"
    import torch

    M, N = RACE_SHAPE
    x = torch.randn(M, N, device="cuda")
    y = torch.full_like(x, math.nan)
    kernel = kernel_class(N)
    time = qt.time(kernel, x, y)
    if not time:
        return str(time)
    # The last launch counts, on numbers that no launch has seen.
    x.copy_(torch.randn_like(x))
    y.fill_(math.nan)
    qt.launch(kernel, x, y)
    if not torch.allclose(y, x / x.abs().mean(dim=1, keepdim=True), 1e-4, 1e-5):
        return "Refused: the numbers of the kernel that was timed are wrong."
    return f"{time}\n{band(time.gb_s, time.copy_gb_s, time.datasheet_gb_s)}"


def by_the_model(kernel_class) -> str:
    """What the cost model says of the class at the race's shape, from one run on the simulator."""
    from grading import trial

    case = next(case for case in cases() if case.name == "wide")
    try:
        trial.check_signature(kernel_class, case)
        run, *_ = trial.run_of(kernel_class, case)
    except Refused as refused:
        return f"By the model there is nothing to say yet: {refused.diagnosis.message}"
    if run.findings or not run.trace.launches:
        return "The model has nothing to say of a kernel that the checks do not pass."
    M, N = RACE_SHAPE
    found = flight(run.trace, 4 * N)
    nbytes = 32 * int(requests(run.trace)["sectors"].sum()) * M // len(case.inputs["mX"])
    told = cost.predict(nbytes, found["sm"])
    return (
        f"By the model {M:,} rows of {N:,} take {told.time_us:,.0f} us, {told.gb_s:,.0f} GB/s, bound by {told.bound}: the "
        f"sectors have {nbytes / 1e9:.2f} GB, and {found['sm']:,} bytes are under way on an SM, where {found['need']:,.0f} are "
        "needed. The model knows nothing of instructions and of waiting at barriers; a measured time is longer."
    )
