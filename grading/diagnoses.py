"""What many labs look for in a kernel's outcomes, and the order in which a lab asks for it.

| function       | finds                                                                        |
|----------------|------------------------------------------------------------------------------|
| `findings`     | races, deadlocks, wrong accesses, misuse of the language: what the simulator found |
| `wrong_launch` | another grid or block than the task's                                         |
| `unwritten`    | outputs that nothing is written to                                           |
| `unread`       | input that no thread reads                                                   |
| `lost`         | lanes or warps whose part of the row never reaches the answer                 |
| `by_formula`   | numbers that another formula gives                                            |
| `by_parts`     | sums of which a part has another factor                                       |
| `near_formula` | numbers that are near, and that another formula gives                         |
| `off_by_a_term` | predictions with a term too many or too few                                   |
| `index_in_float` | column numbers that are kept as float32                                       |
| `read_again`, `scattered`, `written_again`, `idle_warps`, `barriers` | waste                  |

The first mistake found explains the others, so each check is told one. Of a lab's module `judge` uses

    CHECKS = {check: points}            those in LOOKS, and besides "order" (no finding in any case) and "traffic"
    LOOKS = {check: names of cases}     whose numbers count; the first one's diagnosis stands for a kernel that is wrong everywhere
    TRAFFIC = name of the case whose waste counts, besides that of those called "drawn" (`judgement.drawn`)
    right(case) -> {output: array}      computed from float64
    explain(check, views, every)        yields what the wrong numbers of some views show; every: all of the lab's views
    PARTS = {output: {words: (factor, part(case))}}, what a right output is a sum of, for `by_parts`
    waste(outcome)                      yields what is read, written or waited for too often
    ADVICE = {tensor: what to say of an access out of its bounds}, SLOTS the same of shared memory
    TOLERANCE = {output: (relative, absolute)}, and of each of these outputs the formula is looked at in float64, too
    FORMULA = how near of its parts a result has to be in float64, if not diagnoses.FORMULA
    OUTPUTS = {check: outputs}          that a check of LOOKS is about, if not all
    may_skip(case) -> (M,) of bool      the rows that an answer need not read

and, for each of FUNCTIONS, which are checks of the same name, `predict(function, outcomes)`: what wrong returns show.
A lab may have `raised(function, arguments)`, too: what is said beside an error of Python's.
"""

from __future__ import annotations

import itertools
import math
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from cutesim.analysis import rounding
from cutesim.trace import Op, Space

from . import evidence
from .judgement import DRAWN, FAST, RACES, Case, Check, Diagnosis, Outcome, failed

EXCESS = 1.1  # bytes, as a multiple of the least
ROUNDED = ("not exact", "accumulated in float16")  # what a lab says of numbers that are near
FORMULA = 5e-7  # of a result's parts: more is no constant of seven digits, and no step that float64 does not follow


@dataclass(frozen=True, eq=False)
class View:
    """An outcome beside what is right, and who read what (in the forward schedule)."""

    outcome: Outcome
    right: dict  # output -> array
    wrong: np.ndarray  # (M,) whether a row of any output is wrong
    readers: evidence.Readers | None

    @property
    def case(self) -> Case:
        return self.outcome.case

    @property
    def x(self) -> np.ndarray:
        """The first input."""
        return next(iter(self.case.inputs.values()))

    @property
    def got(self) -> dict:
        return self.outcome.outputs

    def row(self, r: int) -> str:
        """Where the reader finds a row: its number, the shape and what the case was made with."""
        return f"row {r} of x {self.x.shape} {self.case.how}".rstrip()


def judge(module, outcomes: list[Outcome]) -> list[Check]:
    """Each check's points, or the first mistake that costs them."""
    with warnings.catch_warnings():
        # Of what wrong numbers come to: a student could only wonder.
        warnings.simplefilter("ignore", RuntimeWarning)
        return _judged(module, outcomes)


def _judged(module, outcomes: list[Outcome]) -> list[Check]:
    by_check = _of_functions(module, outcomes)
    kernels = [o for o in outcomes if not o.case.target]
    stopped = next((_as_told(f) for o in kernels if not o.outputs for f in o.findings), None)
    if stopped:  # the functions count all the same
        by_check |= {name: stopped for name in module.CHECKS if name not in module.FUNCTIONS}
    elif kernels:
        by_check |= _of_kernel(module, kernels)
    return [Check(name, points, by_check.get(name)) for name, points in module.CHECKS.items()]


def _of_functions(module, outcomes: list[Outcome]) -> dict:
    by_check, kinds = {}, set()
    for name in module.FUNCTIONS:
        here = [o for o in outcomes if o.case.target == name]
        told = (_raised(module, name, o, _as_told(f)) for o in here for f in o.findings)
        mistake = next(told, None) or (first_of(module.predict(name, here)) if here else None)
        if mistake and mistake.kind in kinds:  # of another function: told besides that one's
            mistake = replace(mistake, kind=f"{mistake.kind} in {name}")
        kinds.add(mistake and mistake.kind)
        by_check[name] = mistake
    return by_check


def first_of(mistakes: Iterator[Diagnosis], wrong: bool = False) -> Diagnosis | None:
    """The first mistake, if any; of numbers that nobody thought of, and whose mistake nobody can name, that they are `wrong`."""
    try:
        return next(mistakes, None)
    except Exception as error:  # the other checks count all the same
        said = "What the kernel wrote is wrong, and the grader has no diagnosis: compare a short row with numpy."
        return Diagnosis("wrong, no diagnosis", said) if wrong else Diagnosis("not graded", failed(error))


def _raised(module, name: str, outcome: Outcome, said: Diagnosis) -> Diagnosis:
    """What Python raised in a function, and what the lab knows of the arguments."""
    if said.kind != "error":
        return said
    more = module.raised(name, outcome.case.make) if hasattr(module, "raised") else ""
    call = f"{name}({', '.join(map(repr, outcome.case.make))})"
    by_arguments = any(
        f" {kind}Error" in said.message for kind in ("ZeroDivision", "Overflow", "Value", "Index", "Key")
    )
    more = more or (f"It was called as {call}." if by_arguments and len(call) < 120 else "")
    return replace(said, message=f"{said.message}. {more}") if more else said


def _as_told(finding) -> Diagnosis:
    return Diagnosis(finding.kind, finding.message, tuple(map(evidence.plain_line, finding.lines)))


def _of_kernel(module, outcomes: list[Outcome]) -> dict:
    views = [view(module, outcome) for outcome in outcomes]
    launch = first_of(wrong_launch(views))
    if launch:  # whatever else is found follows from it
        return {name: launch for name in module.CHECKS if name not in module.FUNCTIONS}
    by_check = {"order": first_of(mistake for o in outcomes for mistake in findings(module, o))}
    for name, chosen in module.LOOKS.items():
        here = [v for v in views if v.case.name in chosen]
        # A race or a wrong access explains the numbers, so they are read only where there is none.
        found = first_of(mistake for v in here for mistake in findings(module, v.outcome))
        by_check[name] = found or first_of(_wrong_numbers(module, name, here, views), any(v.wrong.any() for v in here))
    if "traffic" in module.CHECKS:
        looked = next(o for o in outcomes if o.case.name == module.TRAFFIC)
        by_check["traffic"] = first_of(findings(module, looked)) or first_of(_wasted(module, looked, outcomes))
    if all(v.wrong.all() for v in views):  # order and thrift of no answer
        first = next((by_check[name] for name in module.LOOKS if by_check[name]), None)
        by_check = {name: found if name in module.LOOKS else found or first for name, found in by_check.items()}
    return by_check


def _wasted(module, looked: Outcome, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """What a kernel moves or waits for beyond the task's need, in any case: first in the lab's own, then in the drawn ones."""
    yield from wrong_way(looked)
    yield from module.waste(looked)
    others = [one for one in outcomes if one is not looked and one.trace is not None and not one.findings]
    for outcome in sorted(others, key=lambda one: (one.case.schedule == FAST, one.case.name != DRAWN)):
        yield from wrong_way(outcome)
        # Rows that are written again are read again, too, and say less of it.
        yield from written_again(outcome)
        yield from module.waste(outcome)


def view(module, outcome: Outcome) -> View:
    """The outcome with what is right, computed here."""
    right = module.right(outcome.case)
    wrong = np.zeros(len(next(iter(right.values()))), bool)
    for name, expected in right.items():
        relative, absolute = getattr(module, "TOLERANCE", {}).get(name, (0, 0))
        with np.errstate(invalid="ignore"):
            close = np.isclose(outcome.outputs[name].astype(np.float64), expected, relative, absolute, equal_nan=True)
        rows = close.reshape(len(close), -1).all(axis=1)
        wrong |= ~rows if len(rows) == len(wrong) else not rows.all()  # it may have other rows
    first = next(iter(outcome.case.inputs))
    seen = outcome.case.schedule == "forward" and not outcome.findings
    who = evidence.readers(outcome, first) if seen else None
    return View(outcome, right, wrong, who)


def _wrong_numbers(module, check: str, views: list[View], every: list[View]) -> Iterator[Diagnosis]:
    """What wrong numbers show, without a line: that which stores them is seldom at fault, and no number tells which is."""
    large = [v for v in views if v.case.schedule == FAST]
    yield from unwritten([v for v in views if v not in large])
    # What nobody wrote, in another order.
    if any(np.isnan(v.got[name]).any() for v in views if not v.readers for name in v.got):
        yield from unwritten([v for v in every if v.case.schedule != FAST])
    whose = getattr(module, "ROWS", "Which rows does each block take?")
    may_skip = getattr(module, "may_skip", None)
    yield from unread([v for v in views if v.readers], whose, may_skip)
    if any(v.wrong.any() and not v.readers for v in views):  # where nobody looked who reads what
        yield from unread([v for v in every if v.readers], whose, may_skip)
    yield from unwritten(large)
    for mistake in module.explain(check, views, every):
        if mistake.kind in ROUNDED:
            yield from near_formula(module, check, views)
        if mistake.kind.startswith("wrong"):  # than which a pattern says more
            for pattern in itertools.chain(
                by_pattern(module, mistake, views, every), by_parts(module, mistake, views, every)
            ):
                yield replace(pattern, message=by_precision(module, pattern, views, ("rounding", "range")))
            mistake = replace(mistake, message=by_precision(module, mistake, views))
        yield mistake
    yield from near_formula(module, check, views)


def near_formula(module, check: str, views: list[View]) -> Iterator[Diagnosis]:
    """Outputs that are near, or right within their tolerance, and whose own steps give something else in float64.

    A number that its type holds, where the right one needs more digits, has been rounded, and tells nothing; nor do infinities.
    """
    names = getattr(module, "OUTPUTS", {}).get(check, getattr(module, "TOLERANCE", {}))
    for v, name in itertools.product(views, names):
        right, got, exact = v.right[name], v.got[name], v.outcome.exact.get(name)
        if exact is None or np.abs(right).max() > 1e9:  # where -1e30 is no infinity
            continue
        parts = getattr(module, "PARTS", {}).get(name, {}).values()
        scale = sum(np.abs(factor * part(v.case)).reshape(right.shape) for factor, part in parts if factor)
        scale = scale if parts else np.abs(right) if right.ndim == 1 else np.abs(right).max(axis=1, keepdims=True)
        # What a tolerance is of, beside the number: 2e-5 (1 + h) is of 1.
        relative, absolute = getattr(module, "TOLERANCE", {}).get(name, (0, 0))
        scale = scale + (absolute / relative if relative and not parts else 0)
        scale = scale * getattr(module, "FORMULA", FORMULA)
        with np.errstate(all="ignore"):
            rounded = (exact == exact.astype(got.dtype)) & (right != right.astype(got.dtype))
            off = np.where(rounded, 0, np.nan_to_num(np.abs(exact - right), posinf=0))
        if (off > scale).any():
            at = tuple(np.argwhere(off > scale)[0].tolist())
            said = (
                f"{_place(v, name, at)} is {got[at]:.6g}. That is near, but another formula has made it: in float64 the same "
                f"steps give {exact[at]:.9g}, and {right[at]:.9g} is right. Which constant, term or factor is not the task's?"
            )
            yield Diagnosis("wrong formula", said)


def by_precision(module, mistake: Diagnosis, views: list[View], causes=rounding.CAUSES) -> str:
    """What is said of a mistake, and whether its first wrong element is the formula's or rounding's fault, if that is known and
    one of `causes`."""
    v = next((v for v in views if v.wrong.any()), None)
    name = v and wrong_output(module, v, mistake.message)
    if v is None or name not in v.outcome.exact:
        return mistake.message
    at = _first_wrong(v, name, getattr(module, "TOLERANCE", {}).get(name, (0, 0)))
    numbers = [float(held[name][at]) for held in (v.got, v.outcome.exact, v.right)]
    cause = rounding.cause(*numbers)
    said = rounding.said(*numbers)
    if cause == "formula":
        unknown = " What is, these numbers do not show." * mistake.message.endswith("is right.")
        said = f"In float64 the same steps give {numbers[1]:.6g}: rounding is not the cause.{unknown}"
    return f"{mistake.message} {said}" if cause in causes else mistake.message


def findings(module, outcome: Outcome) -> Iterator[Diagnosis]:
    """What the simulator found in a run, the most telling first."""
    called = dict(zip([*outcome.case.inputs, *outcome.case.outputs], outcome.parameters))
    advice = {called[name]: text for name, text in module.ADVICE.items()}
    syncs = outcome.trace is None or evidence.lanes_meet(outcome.trace)
    said = [evidence.meaning(finding, advice, getattr(module, "SLOTS", ""), syncs) for finding in outcome.findings]
    inputs = "|".join(re.escape(called[name]) for name in outcome.case.inputs)
    said = [_of_written_input(one, inputs) for one in said]
    said = [_of_lone_waits(_of_part_of_a_warp(one, outcome), outcome) for one in said]
    yield from sorted(said, key=lambda d: RACES.index(d.kind) if d.kind in RACES else -1)


def _of_written_input(said: Diagnosis, inputs: str) -> Diagnosis:
    """A race on global memory on an input, which nobody should write."""
    found = re.search(rf"\bwords? of ({inputs}):", said.message)
    if said.kind != "race on output" or not found:
        return said
    message = re.sub(r" Each of the two reads the element, .*", "", said.message)
    return replace(
        said, kind="race on input", message=f"{message} {found[1]} is an input: read it, and do not write to it."
    )


def _of_part_of_a_warp(said: Diagnosis, outcome: Outcome) -> Diagnosis:
    """A shuffle that lacks lanes because the block was launched without them, and not for an `if`."""
    threads = next((one.threads for one in outcome.trace.launches if one.threads % 32), 0) if outcome.trace else 0
    if said.kind != "divergent shuffle" or not threads:
        return said
    lanes = threads % 32
    has = f"The block has {threads} threads, so its last warp has {lanes} lane{'s' * (lanes > 1)}, and a shuffle wants all 32: "
    told = said.message.removesuffix(" Move the shuffle out of the `if`.")
    return replace(said, kind="part of a warp", message=f"{told} {has}launch a multiple of 32 threads.")


def _of_lone_waits(said: Diagnosis, outcome: Outcome) -> Diagnosis:
    """A read before its bytes have come because its lane did not wait for them, though another lane of its warp did."""
    waits = outcome.trace.select(Op.MBARRIER_WAIT) if outcome.trace else ()
    if said.kind != "read before arrival" or not len(waits) or (waits["mask"] == 0xFFFFFFFF).any():
        return said
    line = outcome.trace.lines[int(waits["line"][0])]
    text = (
        f"Only some lanes of a warp wait for them, at {line.file}:{line.number}: the others go on and read at once. "
        "Each lane that reads has to wait first."
    )
    message = f"{said.message.partition(' is still sending.')[0]} is still sending. {text}"
    return replace(said, message=message, lines=(*said.lines, evidence.plain_line(line)))


def wrong_launch(views: list[View]) -> Iterator[Diagnosis]:
    """Launches other than the one that the task asks for, where it asks for one."""
    for v in views:
        if v.outcome.trace is None:
            continue
        seen = [(one.blocks, one.threads) for one in v.outcome.trace.launches]
        if not seen and not v.outcome.findings:
            text = "No kernel is launched: `__call__` has to end with `.launch(grid=..., block=...)`."
            yield Diagnosis("launch", text)
        if seen and v.case.launch and seen != [v.case.launch]:
            said = ", ".join(f"{blocks} blocks of {threads}" for blocks, threads in seen)
            blocks, threads = v.case.launch
            text = (
                f"The task is one launch of {blocks} blocks of {threads} threads for x {v.x.shape}; launched: {said}."
            )
            yield Diagnosis("launch", text)


def unwritten(views: list[View]) -> Iterator[Diagnosis]:
    """Outputs that still hold what they were filled with."""
    for v in views:
        for name, filled in v.case.outputs.items():
            bits = f"u{filled.itemsize}"
            bad = v.got[name].view(bits) == filled.view(bits)
            if bad.any() and (v.case.schedule == FAST or v.readers and evidence.stores(v.outcome, name)[0] < bad.size):
                yield _unwritten(name, bad, v)


def _of_those(rows: list, v: View) -> str:
    """What all of some rows, and no others, have in common in an input of a whole number a row, as a sentence."""
    others = [r for r in range(len(v.x)) if r not in rows]
    for name, array in v.case.inputs.items():
        if array.shape == (len(v.x),) and array.dtype.kind == "i" and others:
            values = np.unique(array[rows])
            if len(values) == 1 and values[0] not in array[others]:
                return f" These are the rows in which {name} is {values[0]}: that asks for a number, too, and nobody stores it."
    return ""


def _unwritten(name: str, bad: np.ndarray, v: View) -> Diagnosis:
    """The rows of an output, or the first element, that nothing is written to."""
    rows = np.nonzero(bad.reshape(len(bad), -1).all(axis=1))[0].tolist()
    row, *column = np.argwhere(bad)[0].tolist()
    if bad.all():
        where = "any row"
    elif rows:
        where = f"row{'s' * (len(rows) > 1)} {ranges(rows)}"
    else:
        where = f"row {row}, column {column[0]}"
    lines = evidence.stores(v.outcome, name)[1] if v.readers else ()
    advice = " Which row, and which columns of it, does each warp take?" if rows and not bad.all() else ""
    if not rows and bad[row][column[0] :].all():
        advice = " Nor for the rest of the row: is a remainder dropped where N is divided?"
    if len(bad) != len(v.x) and rows and min(rows) >= len(v.x):  # a row a block
        advice = " No row of x belongs to that block: what it has to leave is written all the same."
    advice = (_of_those(rows, v) if rows and len(bad) == len(v.x) else "") or advice
    return Diagnosis("unwritten", f"Nothing is written to {name} for {where} of x {v.x.shape}.{advice}", lines)


def unread(views: list[View], whose: str, may_skip: Callable | None = None) -> Iterator[Diagnosis]:
    """Columns that no thread reads: the answer cannot depend on them. `whose` says which rows a block has.

    may_skip(case): the rows (M,) of which the right answer needs no number.
    """
    for v in views:
        unseen = v.readers.times == 0
        if may_skip:
            unseen &= ~may_skip(v.case)[:, None]
        never = unseen.all(axis=1)
        lines = evidence.loads(v.outcome, next(iter(v.case.inputs)))[1]
        if never.any() and not never.all():
            text = f"No thread reads {v.row(int(np.argmax(never)))}. {whose}"
            yield Diagnosis("unread rows", text, lines)
        row, column = np.nonzero(unseen)
        if len(row):
            part = column[row == row[0]]
            runs = ranges(part.tolist()).split(", ")
            many = f"column{'s' * (len(part) > 1)} {', '.join(runs[:4])}{' and more' * (len(runs) > 4)}"
            text = f"{len(part)} of {v.x.shape[1]} columns are never read in {v.row(int(row[0]))}: {many}."
            if (again := v.readers.times[row[0]] > 1).any():
                text += (
                    f" Column {int(np.argmax(again))} is read more than once: how far is it to a thread's next column?"
                )
            elif part[-1] == v.x.shape[1] - 1 and len(runs) == 1:
                text += " The row ends there: is a remainder dropped where N is divided?"
            yield Diagnosis("unread columns", text, lines)


def by_formula(views: list[View], name: str, formulas, tolerance: tuple) -> Iterator[Diagnosis]:
    """Wrong outputs `name` that are, in all views, those of another formula: (kind, formula(case) -> array, what it says).

    Outputs that are right within `tolerance` tell no formula from the right one.
    """
    wrong = [v for v in views if not np.allclose(v.got[name], v.right[name], *tolerance, equal_nan=True)]
    if not wrong:
        return
    v = wrong[0]
    for kind, formula, said in formulas:
        with np.errstate(all="ignore"):
            same = all(np.allclose(o.got[name], formula(o.case), *tolerance, equal_nan=True) for o in views)
        if same:
            yield Diagnosis(kind, f"{first_wrong(v, name, tolerance)} {said}")


def off_by_a_term(name: str, outcomes: list[Outcome], right: Callable, terms: dict) -> Iterator[Diagnosis]:
    """Predictions that are right but for one term, or two, too many or too few: {what it is: term(*arguments)}."""
    wrong = next((o for o in outcomes if o.outputs["answer"] != right(*o.case.make)), None)
    answers = [(o.outputs["answer"], right(*o.case.make), o.case.make) for o in outcomes]
    if wrong is None or not all(isinstance(got, (int, float)) and math.isfinite(got) for got, _, _ in answers):
        return
    off = [got - expected for got, expected, _ in answers]
    found = {what: [term(*make) for _, _, make in answers] for what, term in terms.items()}
    for count in (1, 2):
        for some, signs in itertools.product(
            itertools.combinations(found, count), itertools.product((1, -1), repeat=count)
        ):
            if all(d == sum(sign * found[what][k] for what, sign in zip(some, signs)) for k, d in enumerate(off)):
                said = [f"{what} {'counted too often' if s > 0 else 'not counted'}" for what, s in zip(some, signs)]
                call = f"{name}({', '.join(f'{x:,}' for x in wrong.case.make)}) returns {wrong.outputs['answer']:,}."
                yield Diagnosis("wrong prediction", f"{call} That is what is right with {' and '.join(said)}.")


def wrong_prediction(
    name: str, outcomes: list[Outcome], right: Callable, hint: str, mistakes=(), near: float = 0.0
) -> Iterator[Diagnosis]:
    """A number that is wrong: in all outcomes another formula's, of (kind, formula, what it forgets), else in a way nobody knows.
    Whole numbers are met exactly, others `near`."""

    def follows(formula) -> list:
        return [
            isinstance(got, (int, float)) and math.isclose(got, formula(*make), rel_tol=near) for got, make in answers
        ]

    answers = [(o.outputs["answer"], o.case.make) for o in outcomes]
    wrong = next((answer for answer, good in zip(answers, follows(right)) if not good), None)
    if wrong is not None:
        call = f"{name}({', '.join(map(str, wrong[1]))}) returns {wrong[0]!r}."
        if not isinstance(wrong[0], (int, float)):
            asked = "True or False" if isinstance(right(*wrong[1]), bool) else "A number"
            yield Diagnosis("wrong type", f"{call} {asked} is asked for.")
        for kind, formula, forgotten in mistakes:
            if all(follows(formula)):
                yield Diagnosis(kind, f"{call} {forgotten}")
        yield from () if near else rounded(call, [(got, right(*make)) for got, make in answers])
        yield Diagnosis("wrong prediction", f"{call} {hint}")


def rounded(call: str, pairs: list) -> Iterator[Diagnosis]:
    """Numbers that are near the right ones in every case: (returned, right)."""
    if all(isinstance(got, (int, float)) and abs(got - number) <= max(0.005 * abs(number), 1) for got, number in pairs):
        text = (
            "Each number is near the right one, and not the same: does a `round`, an `int`, a `//` or a `ceil` move it?"
        )
        yield Diagnosis("rounded", f"{call} {text}")


# What a right number may have been multiplied by, or divided: (in words, from the numbers of a row or group that belong together).
FACTORS = (
    ("{n}, as many as belong together", lambda n, rows: n),
    ("the root of {n}, as many as belong together", lambda n, rows: n**0.5),
    ("{rows}, the rows of x", lambda n, rows: rows),
    ("32, the lanes of a warp", lambda n, rows: 32),
    ("2", lambda n, rows: 2),
    ("ln 2", lambda n, rows: np.log(2)),
    ("-1", lambda n, rows: -1),
)


def by_parts(module, mistake: Diagnosis, views: list[View], every: list[View]) -> Iterator[Diagnosis]:
    """A wrong output that is, in all views, a sum of known parts: module.PARTS = {output: {words: (factor, part(case))}}."""
    wrong = next(v for v in views if v.wrong.any())
    name = wrong_output(module, wrong, mistake.message)
    parts = getattr(module, "PARTS", {}).get(name, {})
    known = [v for v in every if v.readers and np.isfinite(v.got[name]).all()]
    # The fit's digits are those of the largest.
    known = [v for v in known if np.abs(v.right[name]).max() < 1e9]
    if not parts or not known:
        return
    terms = np.stack([np.concatenate([part(v.case).ravel() for v in known]) for _, part in parts.values()], axis=1)
    got = np.concatenate([v.got[name].ravel() for v in known]).astype(np.float64)
    found, _, rank, _ = np.linalg.lstsq(terms, got, rcond=None)
    tolerance = getattr(module, "TOLERANCE", {}).get(name, (0, 0))
    if rank < len(parts) or not np.allclose(terms @ found, got, *(10 * one for one in tolerance)):
        return
    off = [
        f"{words} had the factor {0 + round(factor, 3):g}, where {right:g} is right"
        for (words, (right, _)), factor in zip(parts.items(), found)
        if abs(factor - right) > 0.01
    ]
    told = first_wrong(wrong, name, tolerance)
    if off:
        yield Diagnosis("parts counted otherwise", f"{told} In all rows it is as if {', and '.join(off)}.")


def by_pattern(module, mistake: Diagnosis, views: list[View], every: list[View]) -> Iterator[Diagnosis]:
    """What wrong outputs have to do with right ones, where no formula of the lab says it."""
    wrong = [v for v in views if v.wrong.any()]
    name = wrong_output(module, wrong[0], mistake.message)
    tolerance = getattr(module, "TOLERANCE", {}).get(name, (0, 0))
    known = [v for v in every if v.readers and np.isfinite(v.right[name]).all() and np.isfinite(v.got[name]).all()]
    known = [v for v in known if not np.allclose(v.got[name], v.right[name], *tolerance)]
    told = first_wrong(wrong[0], name, tolerance)
    if not known:
        return
    loose = max(tolerance[0], 2e-3), max(tolerance[1], 1e-6)

    def fits(made) -> bool:
        # In most cases: where numbers are tiny or huge, something else may decide.
        sizes = [min(1, np.abs(v.right[name]).max()) for v in known]
        good = [np.allclose(v.got[name], made(v), loose[0], loose[1] * size) for v, size in zip(known, sizes)]
        return sum(good) > 2 * len(good) / 3

    for other, right in wrong[0].right.items():
        if other != name and right.shape == wrong[0].right[name].shape and fits(lambda v: v.right[other]):  # noqa: B023
            text = f"{told} In every row it is what {other} has to hold: have the two outputs changed places?"
            yield Diagnosis("outputs exchanged", text)
    if fits(lambda v: v.right[name][::-1]) or fits(lambda v: np.roll(v.right[name], 1, axis=0)):
        yield Diagnosis("another row", f"{told} Each row holds what another row has to.")
    for (words, factor), power in itertools.product(FACTORS, (1, -1)):
        if fits(lambda v: v.right[name] * float(factor(together(module, v), len(v.x))) ** power):  # noqa: B023
            words = "1 / " * (power < 0) + words.format(n=together(module, known[0]), rows=len(known[0].x))
            text = f"{told} It is what is right times {words}."
            yield Diagnosis("factor", f"{text} Where is that multiplied, or divided by?")
    if mistake.kind not in ("wrong number", "wrong gradient"):  # the lab says more
        return
    ratios = [ratio(v, name) for v in known if v.right[name].ndim == 2]
    if (
        ratios
        and max(np.abs(r - 1).max() for r in ratios) > 0.01
        and all(np.ptp(r.reshape(len(r), -1, together(module, v)), axis=2).max() < 0.01 for r, v in zip(ratios, known))
    ):
        some = ", ".join(f"{x:.3g}" for x in ratios[0][:, 0][:4])
        text = f"{told} The numbers that belong together are right but for one factor, in the first rows {some}."
        yield Diagnosis("one factor", f"{text} So what they are multiplied with is wrong, and nothing else.")
    at = np.nonzero(np.abs(ratios[0][0] - 1) > 0.01)[0].tolist() if ratios else ()
    if at and all(np.ptp(r, axis=0).max() < 0.01 for r in ratios):
        more = f" and {len(at) - 1} others are" if len(at) > 1 else " is"
        text = f"{told} Column {at[0]}{more} off by a factor of its own, the same in every row."
        yield Diagnosis("by column", f"{text} Which number of the other input does a column take?")


def wrong_output(module, v: View, message: str) -> str:
    """Of a view's outputs one that is wrong, and that a message names if it names any."""
    tolerances = getattr(module, "TOLERANCE", {})
    wrong = [
        name
        for name, right in v.right.items()
        if not np.allclose(v.got[name].astype(np.float64), right, *tolerances.get(name, (0, 0)), equal_nan=True)
    ]
    return next((name for name in wrong if name in message), wrong[0])


def together(module, v: View) -> int:
    """How many numbers of a row share a sum: all, or a group's where the lab says how many groups a row has."""
    return v.x.shape[1] // (v.case.make[0] if getattr(module, "GROUPED", False) else 1)


def ratio(v: View, name: str) -> np.ndarray:
    """Each output over the right one; 1 where that is 0 and both are."""
    with np.errstate(all="ignore"):
        found = v.got[name].astype(np.float64) / v.right[name]
    return np.where(np.abs(v.right[name]) < 1e-6, 1, np.nan_to_num(found, nan=1, posinf=1e9, neginf=-1e9))


def first_wrong(v: View, name: str, tolerance: tuple = (0, 0)) -> str:
    """The first wrong element of an output, as a sentence."""
    at = _first_wrong(v, name, tolerance)
    return f"{_place(v, name, at)} is {float(v.got[name][at]):.6g}, and {v.right[name][at]:.6g} is right."


def _place(v: View, name: str, at: tuple) -> str:
    """An element of an output, and where the reader finds it."""
    if len(v.got[name]) != len(v.x):  # rows of its own
        return f"For x {v.x.shape} {v.case.how} {name}{list(at)}"
    return f"In {v.row(at[0])}{f', column {at[-1]}' * (len(at) > 1)} {name}"


def _first_wrong(v: View, name: str, tolerance: tuple) -> tuple:
    close = np.isclose(v.got[name].astype(np.float64), v.right[name], *tolerance, equal_nan=True)
    return tuple(np.argwhere(~close)[0].tolist())


# Lost lanes and warps -------------------------------------------------------------------------------------------------


def lost(views: list[View], matches: Callable, shown: Callable) -> Iterator[Diagnosis]:
    """Answers that are, in every row, those of all warps (or lanes) but some.

    matches(view, kept): whether the answers are right for the elements kept (M, N) alone; shown(view, who) says what one wrong
    row shows, `who` being "lane" or "warp".
    """
    if not views:
        return

    def told(who, gone, advice):
        word = f"{who}{'s' * (len(gone) > 1)} {ranges(gone)}" + ("" if who == "warp" else " of each warp")
        text = f"What {word} read never reaches the answer. {shown(views[0], who)} {advice}".rstrip()
        return Diagnosis(f"lost {who}s", text)

    warps = [v.case.launch[1] // 32 for v in views]
    for slots in (2, 4, 8, 16):
        if all(n > slots and matches(v, v.readers.warp < slots) for v, n in zip(views, warps)):
            advice = f"Does the last step read {slots} slots, however many warps there are?"
            yield told("warp", list(range(slots, warps[0])), advice)
    # The answer is lane 0's, and this round would have brought it the others'.
    for bit in (16, 8, 4, 2, 1):
        gone = [lane for lane in range(32) if lane & bit]
        for apart in (0, None, 4, 2, 1):  # None: half of the warps
            halves = [n // 2 if apart is None else apart for n in warps]
            if all(matches(v, ((v.readers.lane & bit) | (v.readers.warp & h)) == 0) for v, h in zip(views, halves)):
                far = f", and the last step no warps that are {apart or 'half their number'} apart" * (apart != 0)
                yield told("lane", gone, f"No round exchanges lanes that are {bit} apart{far}.")
    for who, count, advice in (
        ("warp", 0, "Do all warps write a slot, and does the last step read every slot?"),
        ("lane", 32, "Which lanes have exchanged with which, after the last round?"),
    ):
        numbers = [count or v.case.launch[1] // 32 for v in views]
        for k in range(-max(numbers), max(numbers)):  # negative: counted from the end
            for alone in (False, True):
                gone = [[i for i in range(n) if (i == k % n) != alone] for n in numbers]
                if not all(-n <= k < n and 0 < len(g) < n for g, n in zip(gone, numbers)):
                    continue
                if all(matches(v, ~np.isin(getattr(v.readers, who), g)) for v, g in zip(views, gone)):
                    yield told(who, gone[0], advice)


def counted_twice(views: list[View], matches: Callable, shown: Callable) -> Iterator[Diagnosis]:
    """Answers that are, in every row, those of all elements and once more those that a warp, or a lane of each warp, read.

    matches(view, times): whether the answers are right where each element counts so often.
    """
    for who, count in (("warp", 0), ("lane", 32)):
        for k in (0, -1):
            counts = [count or v.case.launch[1] // 32 for v in views]
            if views and all(matches(v, 1.0 + (getattr(v.readers, who) == k % n)) for v, n in zip(views, counts)):
                whose = f"{who} {k % counts[0]}" + (" of each warp" if who == "lane" else "")
                advice = "Does whoever brings the parts together begin with one of them, and then come to it again?"
                yield Diagnosis("counted twice", f"What {whose} read counts twice. {shown(views[0], who)} {advice}")

    if views and all(
        matches(v, 1.0 + (v.readers.warp == 0) * (32 - v.case.launch[1] // 32)) for v in views if v.case.launch[1] > 32
    ):
        text = (
            "In the last step all 32 lanes of warp 0 take part, and those without a slot still hold their own warp's part: "
            "it counts again."
        )
        advice = "A lane without a slot brings what is neutral, or as many lanes exchange as there are slots."
        yield Diagnosis("counted twice", f"{shown(views[0], 'warp')} {text} {advice}")


ROUNDS = ([1, 2, 3, 4, 5], [0, 1, 2, 3, 4], [2, 4, 6, 8, 10], [1] * 5, [16] * 5, [1, 2, 4, 8, 8], [1, 2, 4, 4, 8], [1, 3, 5, 7, 9],
          [31, 15, 7, 3, 1], [1, 3, 7, 15, 31])  # fmt: skip


def wrong_rounds(views: list[View], matches: Callable, shown: Callable) -> Iterator[Diagnosis]:
    """Sums over the lanes of a warp whose rounds have other partners than those 1, 2, 4, 8 and 16 apart."""
    for offsets in ROUNDS:
        times, lanes = np.eye(32), np.arange(32)
        for offset in offsets:
            times = times + times[lanes ^ offset]
        often = times[0]
        if (often != 1).any() and views and all(matches(v, often[v.readers.lane]) for v in views):
            never, again = ranges(np.nonzero(often == 0)[0].tolist()), ranges(np.nonzero(often > 1)[0].tolist())
            text = f"Of each warp what lanes {again} read counts more than once" + (
                f", and lanes {never} never" if never else ""
            )
            how = (
                f"as in rounds whose partners are {', '.join(map(str, offsets))} apart. Each round doubles what a lane knows: 1, "
                f"2, 4, 8, 16."
            )
            yield Diagnosis("wrong rounds", f"{shown(views[0], 'lane')} {text}, {how}")


def ranges(numbers: list) -> str:
    """[1, 2, 3, 5] -> '1 to 3, 5'."""
    runs = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)


def index_in_float(views: list[View]) -> Iterator[Diagnosis]:
    """Column numbers kept in shared memory as float32: x has no whole numbers here."""
    for v in views:
        if v.readers is None:
            continue
        trace = v.outcome.trace
        floats = [i for i, t in enumerate(trace.tensors) if t.space == Space.SMEM and t.dtype == "Float32"]
        stores = trace.select(Op.STORE, space=Space.SMEM)
        stores = stores[np.isin(stores["tensor"], floats) & (stores["values"] >= 0)]
        for line in np.unique(stores["line"]):
            held = trace.values[stores["values"][stores["line"] == line]]
            held = held[np.isfinite(held)]  # a warp without a column stores a start value
            whole = len(held) and np.isin(held, np.arange(v.x.shape[1] + 1)).all() and (held != 0).any()
            if whole and not np.isin(held, v.x).all():  # maxima of whole numbers
                yield Diagnosis(
                    "index in float32",
                    "Shared memory holds column numbers as float32, which has 24 bits: column 16777217 would come back as "
                    "16777216. Keep the index in a type that holds every column.",
                    (evidence.plain_line(trace.lines[line]),),
                )


# Waste ----------------------------------------------------------------------------------------------------------------


def read_again(outcome: Outcome, name: str, advice: str) -> Iterator[Diagnosis]:
    """An input that is asked for more often than the task needs.

    Each warp of a row may ask for two numbers alone, as the last of a row or one for all its lanes.
    """
    who, (M, N) = evidence.readers(outcome, name), outcome.case.inputs[name].shape
    asked, alone = (evidence.scale(outcome, name) * float(n) for n in (who.asked.mean(), who.alone))
    times = asked + (alone > 2 * evidence.warps(outcome.trace) * M) * alone / (M * N)
    by_row = who.asked.sum(axis=1) / np.maximum(1, (who.times > 0).sum(axis=1))
    if max(times, by_row.max()) > EXCESS + 4 / N or who.beside.any():
        text = f"The kernel asks for {name[1:].lower()} {times:.2f} times ({name} {(M, N)}); once is enough."
        if times <= EXCESS + 4 / N < by_row.max():
            row, times = int(by_row.argmax()), by_row.max()
            text = f"The kernel asks for row {row} of {name} {(M, N)} {times:.2f} times, and for others less; once is enough."
        elif times <= EXCESS + 4 / N:
            row, column = np.argwhere(who.beside)[0]
            text = f"Lanes of one request ask for the same number, {name}[{row}, {column}] of {(M, N)}; once is enough."
        by_warps, lines = evidence.loads(outcome, name)
        if by_warps > EXCESS and by_warps > 0.9 * times:
            advice = (
                f"On average {by_warps:.3g} warps of a block read each number. The block's threads share a row: with which "
                "column does each begin, and how far is its next step?"
            )
        if N > 1 and who.times[:, :-1].max() <= 1 < who.times[:, -1].max():
            advice = "Threads past the end read the last column again: guard the read, and a thread without a column reads nothing."
        yield Diagnosis("traffic: read again", f"{text} {advice}".strip(), lines)


def scattered(outcome: Outcome, *names: str, width: int = 32) -> Iterator[Diagnosis]:
    """Requests whose lanes reach far more sectors than their bytes fill, or of few lanes, though a row has enough for all.

    A row has `width` lanes of a warp.
    """
    first, x = next(iter(outcome.case.inputs.items()))
    M, N = x.shape
    of_warp = -(-M * width // 32) * (EXCESS * -(-N // width) + evidence.warps(outcome.trace))
    most, enough = of_warp / evidence.scale(outcome, first), evidence.FEW_LANES * min(1, M * width / 32)
    for name in names:
        each, least, lanes, lines, count = evidence.sectors(outcome, name)
        if lanes < enough and (count > most or each < 4 and N >= 256):
            yield Diagnosis(
                "traffic: few lanes a request",
                f"Each request of a warp to {name} is for {lanes:.3g} of its 32 lanes on average, and the row has enough for all: "
                "a condition, or a loop over lanes, parts them. Let all lanes ask at the same line, in the same step.",
                lines,
            )
        if each >= 2 * least and each - least > 2:
            yield Diagnosis(
                "traffic: scattered",
                f"Each request of a warp to {name} touches {each:.3g} sectors of 32 bytes, where {least:.3g} hold what it asks "
                "for: neighbouring lanes are far apart. Each lane should read beside the lane before it, and store so.",
                lines,
            )


def written_again(outcome: Outcome) -> Iterator[Diagnosis]:
    """Outputs that are stored more often than they have elements."""
    for name, array in outcome.case.outputs.items():
        stores, lines = evidence.stores(outcome, name)
        stores *= evidence.scale(outcome, name)
        # Two lanes may write what belongs to a row.
        if stores > (2 if array.ndim == 1 else EXCESS) * array.size:
            each = "a row" if array.ndim == 1 else "an element"
            text = f"{name} is written {stores / array.size:.3g} times {each}; once is enough."
            by_row = evidence.times_stored(outcome, name).reshape(len(array), -1).min(axis=1)
            often = np.nonzero(by_row > by_row.min())[0].tolist()
            if len(often) < len(array) and often and outcome.case.schedule != FAST:
                rows = f"Row{'s' * (len(often) > 1)} {ranges(often)} of {name}"
                text = (
                    f"{rows}: written {by_row[often[0]]} times, and the others {by_row.min()}. Several warps or blocks work on the "
                    "same row: one that has no row of its own has nothing to do."
                )
            yield Diagnosis("traffic: written again", text, lines)


def wrong_way(outcome: Outcome) -> Iterator[Diagnosis]:
    """Inputs that the kernel stores to, were it what they held, and outputs that it reads, whatever they held."""
    for name in outcome.case.inputs:
        count, lines = evidence.stores(outcome, name)
        if count:
            text = f"The kernel stores {count} number{'s' * (count > 1)} to {name}. An input is never written, not even with"
            yield Diagnosis("traffic: input written", f"{text} what it holds.", lines)
    for name in outcome.case.outputs:
        count, lines = evidence.stores(outcome, name, evidence.Kind.WRITE)
        if count:
            atomic = set(lines) <= set(evidence.lines_of(outcome.trace, outcome.trace.select(Op.ATOMIC)))
            text = (
                f"The kernel reads {count} number{'s' * (count > 1)} of {name}{', as atomics do' * atomic}. An output is written "
                "and never read: keep in registers or shared memory what you need again, and ask of nothing that an earlier launch "
                "may have left there."
            )
            yield Diagnosis("traffic: output read", text, lines)


def idle_warps(outcome: Outcome, name: str, cluster: int = 0, rows: int = 1) -> Iterator[Diagnosis]:
    """Warps of a block, or blocks of a `cluster` of so many, that read far more than their share of a row of an input.

    A share may be rounded up to a request, and a few lanes may read what is left over. Where a block has `rows` rows at a time, its
    warps share all of x, if there are four times so many rows.
    """
    who, warps, (M, N) = evidence.readers(outcome, name), evidence.warps(outcome.trace), outcome.case.inputs[name].shape
    what, whole, count = ("block", "cluster", cluster) if cluster else ("warp", "block", warps)
    if rows > 1 and M < 4 * rows:
        return
    reader = np.where(who.thread < 0, count, who.block % cluster if cluster else who.warp)
    each = np.stack([(reader == k).sum(axis=1) for k in range(count)], axis=1)
    each = each if rows == 1 else each.sum(axis=0, keepdims=True)
    share = each.mean(axis=1, keepdims=True)
    most = np.maximum((1.25 if rows == 1 else 1.5) * share, who.widest * (np.ceil(share / who.widest) + 0.5))
    for one in each[(each > most).any(axis=1)]:
        busy, idle = (np.nonzero(some)[0].tolist() for some in (one if 0 in one else one > 1.25 * one.mean(), one == 0))
        share = f"{one[busy].sum() / one.sum():.0%}".replace("100%", "all")
        text = f"{what.capitalize()}{'s' * (len(busy) > 1)} {ranges(busy)} of each {whole} read{'s' * (len(busy) == 1)} {share} of "
        text += f"{'a row of ' * (M > rows == 1)}{name} {(M, N)}"
        text += f", and {what}{'s' * (len(idle) > 1)} {ranges(idle)} nothing" if idle else ""
        advice = f"Bytes in flight come from all {what}s of a {whole}: give each its share."
        yield Diagnosis(f"traffic: idle {what}s", f"{text}. {advice}", evidence.loads(outcome, name)[1])


def barriers(outcome: Outcome, most: int, advice: str, of_cluster: bool = False) -> Iterator[Diagnosis]:
    """More waiting than the task needs, at barriers and mbarriers or, with `of_cluster`, at barriers of the whole cluster."""
    events = outcome.trace.select(*(Op.CLUSTER_ARRIVE,) if of_cluster else evidence.WAITS)
    # A wait that asked, and the answer was no, counts for none.
    events = events[(events["op"] != Op.MBARRIER_WAIT) | (events["arg2"] != 1)]
    waits = evidence.of_each_warp(events).max(initial=0)
    if waits > most:
        enough = ("none is needed", "one is enough")[most] if most < 2 else f"{most} are enough"
        what = "barrier of the cluster" if of_cluster else "barrier"
        said = f"{waits} {what.replace('barrier', 'barriers')}" if waits > 1 else f"a {what}"
        yield Diagnosis("exchanges", f"Each warp waits at {said}, and {enough}: {advice}")


def shuffles(outcome: Outcome, rounds: int, advice: str, by_all: bool = False) -> Iterator[Diagnosis]:
    """More shuffles than three a round: of a pair, and of what one may add; `by_all`: or fewer of some warps than of others.

    One of 8 bytes is two, as on the GPU.
    """
    trace, events = outcome.trace, outcome.trace.select(Op.SHUFFLE)
    each = evidence.of_each_warp(events, np.maximum(1, events["bytes"] // 4))
    lines = evidence.lines_of(trace, events)
    warps = len(np.unique(trace.events["block"])) * -(-trace.launches[0].threads // 32)
    if by_all and (len(each) < warps or np.ptp(each)):
        told = "Some warps shuffle less often than others: one without a row has left, or jumps over them. All lanes belong in"
        yield Diagnosis("exchanges: left out", f"{told} every shuffle, with what is neutral.", lines)
    if each.max(initial=0) > 3 * rounds:
        halves = " (one of 8 bytes counts as two: the GPU needs two for it)" if events["bytes"].max() > 4 else ""
        told = (
            f"Each warp shuffles {each.max()} times{halves}, and {3 * rounds} are enough for {rounds} rounds: {advice}"
        )
        yield Diagnosis("exchanges: shuffles", told, lines)
