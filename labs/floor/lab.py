"""The lab `floor`: the least bytes and the least time of kernels that the student has not seen yet.

Functions of plain Python. What a wrong number shows is in MISTAKES: the formula that gives it, and what that formula forgets.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from grading import diagnoses
from grading.judgement import Case, Diagnosis, Outcome

TITLE = "Floor: the bytes that must move, and the time they take"
FUNCTIONS = (
    "softmax_bytes",
    "rmsnorm_backward_bytes",
    "cross_entropy_bytes",
    "time_us",
    "bytes_in_flight",
    "is_memory_bound",
)
CHECKS = {"softmax_bytes": 1, "rmsnorm_backward_bytes": 2, "cross_entropy_bytes": 1, "time_us": 1, "bytes_in_flight": 1,
          "is_memory_bound": 2}  # fmt: skip

RIGHT = {
    "softmax_bytes": lambda M, N, itemsize: 2 * M * N * itemsize,
    "rmsnorm_backward_bytes": lambda M, N, itemsize: 3 * M * N * itemsize + 4 * M + 8 * N,
    "cross_entropy_bytes": lambda M, N, itemsize: M * N * itemsize + 12 * M,
    "time_us": lambda nbytes, gb_s: nbytes / gb_s / 1e3,
    "bytes_in_flight": lambda latency_ns, gb_s: latency_ns * gb_s,
    "is_memory_bound": lambda flops, nbytes, tflop_s, gb_s: flops / nbytes < 1e3 * tflop_s / gb_s,
}

BITS = "That is 8 times the answer: bits, where bytes are asked for."
SHORT = "It forgets how wide a number is: bytes are asked for, not numbers."
# (function, kind, the formula, what it forgets)
MISTAKES = (
    ("softmax_bytes", "two reads", lambda M, N, s: 3 * M * N * s,
     "That reads x twice and writes y once. A second read is needed only if a row does not stay on chip after the first: in "
     "registers or shared memory it can."),
    ("softmax_bytes", "three reads", lambda M, N, s: 4 * M * N * s,
     "That is a read for the maximum, one for the sum and one for the quotients. What is on chip already need not be read again."),
    ("softmax_bytes", "write forgotten", lambda M, N, s: M * N * s, "The result has to be written as well, as large as x."),
    ("softmax_bytes", "numbers, not bytes", lambda M, N, s: 2 * M * N, SHORT),
    ("rmsnorm_backward_bytes", "an input forgotten", lambda M, N, s: 2 * M * N * s + 4 * M + 8 * N,
     "That moves two tensors of shape (M, N). Which three does the backward pass touch?"),
    ("rmsnorm_backward_bytes", "two reads", lambda M, N, s: 5 * M * N * s + 4 * M + 8 * N,
     "That reads x and dy twice: once for the row's sum, once for dx. Between the two they can stay on chip."),
    ("rmsnorm_backward_bytes", "small tensors forgotten", lambda M, N, s: 3 * M * N * s,
     "The large tensors are right. One number a row and two of each column travel, too: few, but the task counts them."),
    ("rmsnorm_backward_bytes", "dw forgotten", lambda M, N, s: 3 * M * N * s + 4 * M + 4 * N,
     "One of the small tensors is missing: w is read, and its gradient has to be written."),
    ("rmsnorm_backward_bytes", "type of the small tensors", lambda M, N, s: 3 * M * N * s + s * M + 2 * s * N,
     "w, dw and rstd are float32 whatever x is."),
    ("rmsnorm_backward_bytes", "a weight for each row", lambda M, N, s: 3 * M * N * s + 4 * M + 8 * M * N,
     "That reads w and writes dw once for each row. All rows share one w, which caches keep, and one dw."),
    ("rmsnorm_backward_bytes", "root forgotten", lambda M, N, s: 3 * M * N * s + 8 * N,
     "One small tensor is missing, the one with a number a row: the root that the forward pass left."),
    ("cross_entropy_bytes", "gradient counted", lambda M, N, s: 2 * M * N * s + 12 * M,
     "That counts a tensor as large as the logits twice: it is read once. The forward pass writes one number a row."),
    ("cross_entropy_bytes", "two reads", lambda M, N, s: 2 * M * N * s + 12 * M,
     "That reads the logits twice. Maximum and sum can be found in one pass."),
    ("cross_entropy_bytes", "type of the target", lambda M, N, s: M * N * s + 8 * M,
     "The targets are int64, of 8 bytes each, and the losses float32."),
    ("cross_entropy_bytes", "small tensors forgotten", lambda M, N, s: M * N * s,
     "A target a row is read, and a loss a row is written."),
    ("cross_entropy_bytes", "one-hot targets", lambda M, N, s: M * N * s + 8 * M * N + 4 * M,
     "A target is one number a row, not one a column."),
    ("time_us", "GiB", lambda b, g: b / g / 2**30 * 1e6, "That divides by 2**30: 1 GB/s is 1e9 bytes a second here, as elsewhere."),
    ("time_us", "unit", lambda b, g: b / g / 1e6, "That is in milliseconds; the name says microseconds."),
    ("time_us", "unit", lambda b, g: b / g / 1e9, "That is in seconds; the name says microseconds."),
    ("time_us", "unit", lambda b, g: b / g, "That is in nanoseconds: 1 GB/s is one byte a nanosecond. The name says microseconds."),
    ("time_us", "upside down", lambda b, g: g / b, "Twice the bandwidth should take half the time; here it takes twice."),
    ("bytes_in_flight", "unit", lambda t, g: t * g * 1e9, "The latency is in nanoseconds, and 1 GB/s is one byte a nanosecond."),
    ("bytes_in_flight", "GiB", lambda t, g: t * g * 2**30 / 1e9,
     "That multiplies by 2**30: 1 GB/s is 1e9 bytes a second here, as elsewhere."),
    ("bytes_in_flight", "upside down", lambda t, g: g / t,
     "A longer latency needs more bytes under way, not fewer: in each nanosecond of waiting the memory could have delivered."),
    ("bytes_in_flight", "upside down", lambda t, g: t / g,
     "A faster memory needs more bytes under way, not fewer, to have an answer ready in each nanosecond."),
    ("bytes_in_flight", "unit", lambda t, g: t * g / 1e3,
     "1 GB/s is 1e9 bytes in 1e9 nanoseconds, one byte a nanosecond: a factor of 1,000 is too many."),
    ("bytes_in_flight", "unit", lambda t, g: t * g * 1e3,
     "1 GB/s is 1e9 bytes in 1e9 nanoseconds, one byte a nanosecond: a factor of 1,000 is too many."),
    ("bytes_in_flight", "round trip", lambda t, g: 2 * t * g,
     "The latency is from the request to the data already: nothing has to be doubled."),
    ("is_memory_bound", "upside down", lambda f, b, p, g: f / b > 1e3 * p / g,
     "A kernel of few operations a byte waits for memory; this says so of one with many."),
    ("is_memory_bound", "tera and giga", lambda f, b, p, g: f / b < p / g,
     "The peak is in tera (1e12) and the bandwidth in giga (1e9): without the factor between, nearly everything looks bound by "
     "arithmetic."),
    ("is_memory_bound", "upside down, tera and giga", lambda f, b, p, g: f / b > p / g,
     "Two things at once: a kernel of few operations a byte waits for memory, and the peak is in tera (1e12), the bandwidth "
     "in giga (1e9)."),
    *(("is_memory_bound", "factor", lambda f, b, p, g, n=n: n * f / b < 1e3 * p / g,
       f"It is as if operations counted {how}: flops are operations already, a multiplication and an addition two of them.")
      for n, how in ((0.5, "half"), (2, "twice"))),
    *(("is_memory_bound", "factor", lambda f, b, p, g, n=n: f / (n * b) < 1e3 * p / g,
       f"It is as if bytes counted {how}: nbytes are all that move, each once.") for n, how in ((0.5, "half"), (2, "twice"))),
    ("is_memory_bound", "rates forgotten", lambda f, b, p, g: f < b,
     "It is as if operations were compared with bytes, and the two rates did not count."),
    ("is_memory_bound", "always", lambda f, b, p, g: True, "Not every kernel is: a product of large matrices is not."),
    ("is_memory_bound", "always", lambda f, b, p, g: False, "Some kernels are: a copy does no arithmetic at all."),
)  # fmt: skip
# {function: {tensor: (what moves of it, {what it is taken for: its bytes})}}
ONCE = ("once", "not at all", "twice", "three times", "four times")
LARGE = {how: lambda M, N, s, n=n: n * M * N * s for n, how in zip((1, 0, 2, 3, 4), ONCE)}
LARGE |= {
    f"{how} at 4 bytes a number, whatever x's type,": lambda M, N, s, n=n: n * 4 * M * N
    for n, how in ((1, "once"), (2, "twice"))
}


def of_each(axis: str, nbytes: int) -> dict:
    """How a tensor of a number of `nbytes` bytes for each row or column may be counted."""
    n = {"row": lambda M, N: M, "column": lambda M, N: N}[axis]
    other = {"row": "column", "column": "row"}[axis]
    return {
        "once": lambda M, N, s: nbytes * n(M, N),
        "not at all": lambda M, N, s: 0,
        f"at {12 - nbytes} bytes a number": lambda M, N, s: (12 - nbytes) * n(M, N),
        "at the bytes of x's type": lambda M, N, s: s * n(M, N),
        f"once for each {other}": lambda M, N, s: nbytes * M * N,
        f"once for each {other}, at the bytes of x's type": lambda M, N, s: s * M * N,
    }


TENSORS = {
    "softmax_bytes": {"x": LARGE, "y": LARGE},
    "rmsnorm_backward_bytes": {"x": LARGE, "dy": LARGE, "dx": LARGE, "the root (float32, a number a row)": of_each("row", 4),
                               "w (float32, a number a column)": of_each("column", 4),
                               "dw (float32, a number a column)": of_each("column", 4)},
    "cross_entropy_bytes": {"the logits": LARGE, "the targets (int64, a number a row)": of_each("row", 8),
                            "the losses (float32, a number a row)": of_each("row", 4)},
}  # fmt: skip
TERMS = {
    "a tensor of shape (M, N)": lambda M, N, s: M * N * s,
    "a number of x's type for each row": lambda M, N, s: M * s,
    "4 bytes for each row": lambda M, N, s: 4 * M,
    "8 bytes for each row": lambda M, N, s: 8 * M,
    "a number of x's type for each column": lambda M, N, s: N * s,
    "4 bytes for each column": lambda M, N, s: 4 * N,
    "8 bytes for each column": lambda M, N, s: 8 * N,
    "a float32 tensor of shape (M, N)": lambda M, N, s: 4 * M * N,
}
BITS_OF = ("softmax_bytes", "rmsnorm_backward_bytes", "cross_entropy_bytes", "bytes_in_flight")


def cases(seed: int = 0) -> list[Case]:
    """Shapes and rates by hand and at random."""
    rng = np.random.default_rng([seed, 1])
    shapes = [(1, 1, 4), (32768, 65536, 4), (8192, 4096, 2), (1 << 20, 1 << 20, 2)]
    shapes += [(int(rng.integers(2, 5000)), int(rng.integers(2, 5000)), itemsize) for itemsize in (1, 2, 4, 8)]
    rates = [(10**9, 1000.0), (2 * 4096 * 4096 * 4, 4000.0)]
    rates += [(int(10 ** rng.uniform(3, 13)), float(round(10 ** rng.uniform(1, 5), 1))) for _ in range(4)]
    waits = [(500.0, 1000.0), (800.0, 4000.0)]
    waits += [(float(round(10 ** rng.uniform(1, 4), 1)), float(rng.integers(10, 99999))) for _ in range(4)]
    # A copy, a softmax, an RMSNorm, a product of two 4096 x 4096 matrices, and each side of the ridge of an H200; then the ridges
    # of an H100 (20 operations a byte) and an A100 (9.6), which lie elsewhere.
    kernels = [(0, 8), (5, 8), (7, 6), (2 * 4096**3, 3 * 4096**2 * 2), (13, 1), (14, 1), (int(rng.integers(1, 9)), 8)]
    bound = [(*kernel, 67.0, 4800.0) for kernel in kernels]
    bound += [(19, 1, 67.0, 3350.0), (21, 1, 67.0, 3350.0), (9, 1, 19.5, 2039.0), (10, 1, 19.5, 2039.0)]
    for side in (0.8, 0.95, 1.05, 1.2):  # of ridges that no card has
        teraflops, gigabytes, moved = rng.uniform(10, 90), rng.uniform(900, 8000), int(rng.integers(10**4, 10**9))
        bound.append((int(side * 1000 * teraflops / gigabytes * moved), moved, round(teraflops, 1), round(gigabytes)))
    return [
        *(Case(name, shape, target=name) for name in FUNCTIONS[:3] for shape in shapes),
        *(Case("time", rate, target="time_us") for rate in rates),
        *(Case("waits", wait, target="bytes_in_flight") for wait in waits),
        *(Case("bound", one, target="is_memory_bound") for one in bound),
    ]


def predict(name: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """What a function's wrong numbers show."""
    wrong = next((o for o in outcomes if not _is(o, RIGHT[name](*o.case.make))), None)
    if wrong is None:
        return
    of_another_type = (o for o in outcomes if not isinstance(o.outputs["answer"], (int, float)))
    wrong = next(of_another_type, wrong)
    answer = wrong.outputs["answer"]
    said = f"{answer:,}" if isinstance(answer, (int, float)) and not isinstance(answer, bool) else repr(answer)
    call = f"{name}({', '.join(f'{x:g}' if isinstance(x, float) else str(x) for x in wrong.case.make)}) returns {said}."
    if not isinstance(answer, (int, float)):
        asked = "True or False" if name == "is_memory_bound" else "A number"
        yield Diagnosis("wrong type", f"{call} {asked} is asked for.")
        return
    own = [mistake[1:] for mistake in MISTAKES if mistake[0] == name]
    for kind, formula, forgotten in own:
        if all(_is(o, formula(*o.case.make)) for o in outcomes):
            yield Diagnosis(kind, f"{call} {forgotten}")
    own = [] if isinstance(RIGHT[name](*wrong.case.make), bool) else own  # a product of verdicts says nothing
    for (first, one, said), (second, other, said_too) in itertools.combinations(own, 2):
        if all(_is(o, one(*o.case.make) * other(*o.case.make) / RIGHT[name](*o.case.make)) for o in outcomes):
            yield Diagnosis(f"{first}, {second}", f"{call} Two things at once: {said} {said_too}")
    if name in BITS_OF and all(_is(o, 8 * RIGHT[name](*o.case.make)) for o in outcomes):
        yield Diagnosis("bits", f"{call} {BITS}")
    if name in TENSORS:
        yield from by_tensor(name, call, outcomes)
        yield from diagnoses.off_by_a_term(name, outcomes, RIGHT[name], TERMS)
    ratios = [o.outputs["answer"] / RIGHT[name](*o.case.make) for o in outcomes if name != "is_memory_bound"]
    if (
        name not in TENSORS
        and ratios
        and max(ratios) - min(ratios) < 1e-9 * abs(ratios[0])
        and ratios[0] > 0
        and abs(ratios[0] - 1) > 1e-3
    ):
        many = ratios[0] if ratios[0] > 1 else 1 / ratios[0]
        sms = " That is the SMs of an H100 or H200: the question is of the whole GPU." if abs(many - 132) < 0.5 else ""
        how = "times" if ratios[0] > 1 else "divided by"
        yield Diagnosis(
            "factor", f"{call} That is always the right number {how} {many:,.6g}.{sms} Where does that come from?"
        )
    if name != "is_memory_bound":
        yield from diagnoses.rounded(call, [(o.outputs["answer"], RIGHT[name](*o.case.make)) for o in outcomes])
    yield Diagnosis("wrong prediction", f"{call} {HINTS[name]}")


def by_tensor(name: str, call: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """The tensors that were counted otherwise, as few as explain the numbers."""
    tensors = TENSORS[name]
    sizes = {one: [way(*o.case.make) for o in outcomes for way in ways.values()] for one, ways in tensors.items()}

    def alike(one, wrong):  # no number of bytes tells tensors of one size apart
        same = [other for other in tensors if sizes[other] == sizes[one]]
        return one if len({*same} & {*wrong}) > 1 else " or ".join(same)

    for many in (1, 2, 3):
        for wrong in itertools.combinations(tensors, many):
            for ways in itertools.product(*(list(tensors[one])[1:] for one in wrong)):
                found = {one: "once" for one in tensors} | dict(zip(wrong, ways))
                if all(_is(o, sum(tensors[one][how](*o.case.make) for one, how in found.items())) for o in outcomes):
                    said = ", and ".join(f"{alike(one, wrong)} counted {how}" for one, how in zip(wrong, ways))
                    yield Diagnosis(
                        "tensors counted otherwise",
                        f"{call} That is what is right with {said}. Each is read or written once.",
                    )
                    return


def _is(outcome: Outcome, number) -> bool:
    answer, whole = outcome.outputs["answer"], outcome.case.target == "bytes_in_flight"  # of bytes, which nobody halves
    near = isinstance(answer, (int, float)) and math.isclose(answer, number, rel_tol=1e-9)
    return near or whole and isinstance(answer, int) and abs(answer - number) <= 1 + 1e-9 * number


SIZES = "Count for each tensor: how many numbers, of how many bytes, read or written how often."
HINTS = {
    "softmax_bytes": SIZES,
    "rmsnorm_backward_bytes": SIZES,
    "cross_entropy_bytes": SIZES,
    "time_us": "1 GB/s is 1e9 bytes in 1e6 microseconds.",
    "bytes_in_flight": "If a request takes t to answer and g bytes arrive in each unit of time, how many are under way?",
    "is_memory_bound": "Which takes longer at these rates, the arithmetic or the bytes?",
}
