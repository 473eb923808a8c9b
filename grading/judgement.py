"""The records of grading: what is tried, what came of it, what it means, and what it is worth."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np

from cutesim.trace import Finding, Trace

DRAWN = "drawn"  # the name of cases of such shapes
FAST = "fast"  # the schedule of cases with all blocks at once; the trace is that of a few blocks, for what they move
SCHEDULES = ("forward",) * 3 + (FAST,) * 12  # of drawn shapes
OWN = ContextVar("(make, rows, columns) of cases that the answer asks for: `sizes`", default=())
PRIMES = (67, 71, 79, 83, 97, 101, 109, 127, 131, 149, 163, 179, 191, 211, 227, 251)


@dataclass(frozen=True, eq=False)
class Case:
    """One run: TARGET(*make)(*inputs, *outputs), the outputs filled with what no right answer holds.

    Where the lab asks for functions, a case is one call of one: target(*make), and what it returns is the output "answer".
    What a function may write into is a list there, or a dict.
    """

    name: str
    make: tuple
    inputs: dict = field(default_factory=dict)  # name -> array, in the order of the call
    outputs: dict = field(default_factory=dict)
    schedule: str = "forward"
    seed: int = 0
    launch: tuple | None = None  # (blocks, threads) that the task asks for; None: any
    how: str = ""  # how a sentence says what it was made with: "with 128 threads"
    target: str = ""  # the function, where there are several
    follows: bool = False  # whether its trace marks loads that wait for others

    def __post_init__(self):
        for array in self.outputs.values():
            if array.dtype.kind == "f":  # a NaN that no kernel computes
                array.view(f"u{array.itemsize}")[np.isnan(array)] |= 0x123


def near(rng, longest: int, step: int = 1) -> int:
    """The longest row that a lab promises, or one nearly as long, a multiple of `step`: no kernel goes wrong, or wastes, beyond
    some length unseen."""
    return longest - step * int(rng.integers(2) * longest / step / 8 * rng.uniform() ** 2)


def drawn(rng, lanes: int, longest: int, least: int = 1, rows: int = 1024, kinds: int = 2) -> tuple:
    """(rows, columns) of cases in which right numbers and thrift are asked for, and which no source can name.

    They are long rows, of 17 columns or more for each of their lanes, many rows, one too many for whole blocks, and one row of a
    prime length; and, all blocks at once, some rows as long as the lab promises or nearly, more than `rows` rows of the `least`
    columns that it allows, and half as many of some length for each of so many kinds of a kernel.
    """
    long = lanes * int(rng.integers(17, 22)) + int(rng.integers(lanes))
    many = 17 + 4 * int(rng.integers(2)), 8 * int(rng.integers(3, 8))
    one, most = (1, int(rng.choice(PRIMES))), (5, near(rng, longest))
    some = [(int(rng.integers(rows // 4, rows)), int(rng.integers(33, 130))) for _ in range(kinds)]
    return (7, long), many, one, most, (rows + int(rng.integers(1, 20)), least), *some


def shifts(rng, rows: int, most: float = 1000) -> np.ndarray:
    """What may be added to the numbers of each of so many rows, (rows, 1), so that rows lie high, low and about 0."""
    return rng.choice([-most, -0.02 * most, 0, 0.1 * most], (rows, 1)) * rng.uniform(0.5, 1, (rows, 1))


def uneven(rng, x: np.ndarray) -> np.ndarray:
    """x (M, N), in each row as it is, or with one number, or half of them, up to 1e7 times as large."""
    some = np.array([0, 1 / x.shape[1], 0.5])[(np.arange(len(x)) + rng.integers(3)) % 3, None]
    return x * np.where(rng.random(x.shape) < some, 10 ** rng.uniform(3, 7, (len(x), 1)), 1)


def telling(rng, right, formulas, *ends) -> list[tuple]:
    """Arguments between such ends (and in steps of a third number) in which none of the formulas is right; 10,000 are tried."""
    found, left = [], list(formulas)
    for _ in range(10_000):
        one = tuple(int(rng.integers(low, high)) * (step or [1])[0] for low, high, *step in ends)
        still = [formula for formula in left if formula(*one) == right(*one)]
        if len(still) < len(left) or not found:
            found.append(one)
        left = still
        if not left:
            break
    return found


def wild(rng, rows: int, columns: int) -> np.ndarray:
    """Rows for what only compares numbers: plain, tiny, far below 0, of sizes far apart, low, with several infinities, of the
    least steps that subnormal numbers take, and high; in two of three the largest number is there just twice: in long rows so many
    columns apart that one thread has both, or side by side where few types tell their numbers apart and the first is in the last
    lane, and in others so many apart that two lanes meet in each of the rounds."""
    x = rng.standard_normal((rows, columns))
    kinds, tied = (rng.permutation((np.arange(rows) + rng.integers(many)) % many) for many in (8, 3))
    if columns > 512:  # a plain row that is tied side by side is always there
        kinds[-1], tied[-1] = 0, 2
    for row, kind, twice in zip(x, kinds, tied):
        some = rng.integers(columns, size=4)
        if kind == 1:
            row *= 10 ** rng.uniform(-36, -30)
        elif kind == 2:
            row[:] = -3.4e38 * rng.uniform(0.9, 1, columns)
        elif kind == 3:
            row[some] = 10 ** rng.uniform(20, 38, 4)
        elif kind == 4:
            row[some] = np.inf
        elif kind == 5:
            row -= 10 ** rng.uniform(1, 4)
        elif kind == 6:
            row[:] = rng.integers(-9, 9, columns) * 2.0**-149
            row[np.sort(some[:2])] = np.array([11, 12]) * 2.0**-149  # whose halves are equal
        elif kind == 7:
            row[:] = (1 + np.abs(row) / 9) * 10 ** rng.uniform(3, 37)
        apart = 32 << int(rng.integers(4)) if columns > 256 else 1 << int(rng.integers(8))
        apart = 1 if twice == 2 and columns > 512 else apart
        if twice and columns > apart:
            at, best = int(rng.integers(columns - apart)), int(row.argmax())
            at = at if columns <= 512 or apart > 1 else 256 * int(rng.integers(columns // 512, columns // 256)) + 255
            at = min(at, columns - 2) if apart == 1 else at
            row[at], row[best] = row[best], row[at]
            row[at + apart] = row[at]
    return x


def hard(rng, rows: int, columns: int) -> np.ndarray:
    """Rows of what counts nowhere, in all columns or in half: both infinities, NaN, and the largest numbers of either sign."""
    held = np.array([-np.inf, np.inf, np.nan, 3.4e38, -3.4e38])[np.arange(rows) // 2 % 5, None]
    some = rng.random((rows, columns)) < np.where(np.arange(rows) % 2, 0.5, 1)[:, None]
    return np.where(some, held, rng.standard_normal((rows, columns)))


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run left: its outputs, findings and, where it came to an end, its trace.

    A class that cannot be run leaves no outputs.
    """

    case: Case
    outputs: dict
    findings: tuple[Finding, ...]
    trace: Trace | None
    parameters: tuple  # what the answer calls its inputs and outputs; the trace names tensors so
    exact: dict = field(default_factory=dict)  # outputs that the same steps give in float64
    asked: tuple = ()  # (rows, columns) at which the answer may do something else: `sizes`


@dataclass(frozen=True)
class Diagnosis:
    """A mistake: its kind, a sentence or two for the student, and (file, number, text) of the lines it concerns."""

    kind: str
    message: str
    lines: tuple = ()


def clean(text: str, most: int = 1500) -> str:
    """A text that a student may have had a hand in, as one line that is safe to print: no control characters, not too long."""
    text = "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text[: most + 1])
    return text if len(text) <= most else text[: most - 1] + "…"


def failed(error: Exception) -> str:
    """What is said where the grader itself failed."""
    what = clean(f"{type(error).__name__}: {error}", 200)
    return f"The grader could not finish with this file ({what}). A person will look at it; the points are not final."


class Refused(Exception):
    """A submission that cannot be tried; `diagnosis` says why."""

    def __init__(self, kind: str, message: str, lines: tuple = ()):
        super().__init__(message)
        self.diagnosis = Diagnosis(kind, message, lines)


@dataclass(frozen=True)
class Check:
    """One thing that is graded; all its points, or none and why."""

    name: str
    points: int
    diagnosis: Diagnosis | None = None

    @property
    def score(self) -> int:
        return 0 if self.diagnosis else self.points


@dataclass(frozen=True)
class Report:
    """A graded submission."""

    lab: str
    file: str
    seed: int
    checks: tuple[Check, ...]
    compiled: str = ""  # of a kernel with full marks: whether CuTe DSL compiled it, as a sentence

    def cleaned(self) -> Report:
        """The report, each of its texts safe to print and of a length that a person reads."""

        def told(one: Diagnosis) -> Diagnosis:
            lines = tuple((clean(file, 100), number, clean(text, 200)) for file, number, text in one.lines[:8])
            return Diagnosis(clean(one.kind, 60), clean(one.message), lines)

        checks = (Check(c.name, c.points, c.diagnosis and told(c.diagnosis)) for c in self.checks)
        return Report(self.lab, clean(self.file, 100), self.seed, tuple(checks), self.compiled)

    @property
    def score(self) -> int:
        return sum(check.score for check in self.checks)

    @property
    def points(self) -> int:
        return sum(check.points for check in self.checks)

    @property
    def full(self) -> bool:
        return self.score == self.points

    @property
    def diagnoses(self) -> tuple[Diagnosis, ...]:
        """Each kind of mistake once, as its first check shows it; the one to mend first first."""
        found = {}
        for c in self.checks:
            if c.diagnosis:
                found.setdefault(c.diagnosis.kind, c.diagnosis)
        return tuple(sorted(found.values(), key=lambda d: rank(d.kind)))

    @property
    def verdict(self) -> str:
        """right, wrong, race, waste or refused, by what is to be mended first."""
        if self.full:
            return "right"
        first = self.diagnoses[0].kind
        if first.startswith(("traffic", "exchanges")):
            return "waste"
        return "refused" if first in REFUSED else "race" if first in ("race", *RACES) else "wrong"

    def as_json(self) -> dict:
        """Plain data: score, and for each check its points and diagnosis."""
        names = ("lab", "file", "seed", "score", "points", "verdict", "compiled")
        return {name: getattr(self, name) for name in names} | {
            "full_marks": self.full,
            "checks": [
                {"name": c.name, "score": c.score, "points": c.points, "kind": c.diagnosis and c.diagnosis.kind}
                for c in self.checks
            ],
            "diagnoses": [
                {
                    "kind": d.kind,
                    "message": d.message,
                    "lines": [dict(zip(("file", "line", "text"), one)) for one in d.lines],
                }
                for d in self.diagnoses
            ],
        }

    def __str__(self) -> str:
        lines = [f"{self.file}: {self.score} of {self.points} points ({self.lab})"]
        width = max(len(c.name) for c in self.checks)
        numbers = {d.kind: i for i, d in enumerate(self.diagnoses, 1)}
        for c in self.checks:
            why = f"  see {numbers[c.diagnosis.kind]}: {c.diagnosis.kind}" if c.diagnosis else ""
            lines.append(f"  {c.name:<{width}}  {c.score}/{c.points}{why}")
        for d in self.diagnoses:
            lines.append(f"\n{numbers[d.kind]}. {d.message}")
            lines += [f"     {file}:{number}:  {text}" for file, number, text in d.lines]
        if self.compiled:
            lines.append(f"  {self.compiled}")
        return "\n".join(lines)


# Where there are several, the first explains the others.
RACES = ("same slot", "two stores", "shared sum", "missing barrier", "reused buffer", "race on output", "race on input")
# Nothing was tried.
REFUSED = ("refused", "syntax", "missing", "signature", "unreadable", "forged", "too much", "not simulated",
           "not compiled", "not filled in")  # fmt: skip
# What makes a wrong number comes before the wrong number; what costs only time comes last.
LATE = ("launch", "unwritten", "unread", "uninitialised", "neutral", "lost", "index", "no column", "wrong", "ties", "bits",
        "traffic", "exchanges")  # fmt: skip


def rank(kind: str) -> int:
    """Where a kind of mistake stands in the order of mending."""
    return next((i for i, start in enumerate(LATE, 1) if kind.startswith(start)), 0)
