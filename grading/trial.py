"""Runs an answer on a lab's cases, on the simulator."""

from __future__ import annotations

import inspect
import random
from contextlib import suppress
from dataclasses import replace
from functools import cache

import numpy as np

from cutesim import NotSimulated
from cutesim.context import ON_A_GPU, SimulationError
from cutesim.run import Findings, Run
from cutesim.simulation import simulate
from cutesim.trace import Finding, Line

from .judgement import DRAWN, FAST, Case, Outcome, Refused
from .sizes import asked, probed
from .submission import because, error_at

MAX_STEPS = 50_000  # turns of loops in one case; a right answer takes a few hundred
APART = 8  # numbers, so that what is aligned stays so
# Blocks of a case of numbers alone whose traffic counts; one if its rows are so long.
SEEN, LONG = 4, 4096


def outcomes(answers: dict, cases: list[Case], anew=None, seen=()) -> list[Outcome]:
    """What each case leaves of the answers, {name: class or function}; `anew()` gives them afresh, for each case.

    A class that cannot be called as the lab calls it, or be run, leaves no outputs in any case behind it, and why as a finding.
    With `anew` cases are tried in an order of their own, which differs from one grading to the next, the large ones of drawn shapes
    last. These are not tried where a smaller one has shown a fault, which costs a large grid much time to find again. Each case has
    a reading of its own; then the calls follow one another in one, of functions and of kernels. `seen` are (make, shape) of cases
    before, as `sizes.asked` has them.
    """
    answer = next((name for name, found in answers.items() if isinstance(found, type)), "")
    order = list(cases)
    if anew is not None:
        random.Random(repr([(case.name, case.make, case.seed) for case in cases])).shuffle(order)
        order.sort(key=lambda case: (case.name, case.schedule) == (DRAWN, FAST))
    left, why, fault = {}, (), None
    for case in order:
        own = answers if anew is None else anew()
        if case.target:
            left[case] = _returned(own[case.target], case)
            continue
        try:
            if not why and fault and (case.name, case.schedule) == (DRAWN, FAST):
                left[case] = Outcome(case, case.outputs, fault.findings, None, fault.parameters)
            elif not why:
                check_signature(own[answer], next(one for one in cases if not one.target))
                left[case] = _outcome(own[answer], case)
                if case.name == DRAWN and left[case].findings:
                    fault = fault or left[case]
        except Refused as refused:
            why = (_told(refused.diagnosis),)
    once = answers if anew is None else anew()
    for case in [case for case in order if case.target and not left[case].findings]:
        if repr(_returned(once[case.target], case).outputs) != repr(left[case].outputs):
            made = ", ".join(map(repr, case.make))
            left[case] = _kept(left[case], f"{case.target}({made if len(made) < 200 else '...'})")
    if answer and not why:
        tried = [o for o in left.values() if o.parameters and o.case.schedule != FAST and not o.findings]
        left |= _in_a_row(answer, tried, anew or (lambda: answers)) | _rows_apart(once[answer], tried)
        if anew is not None and not any(o.findings for o in left.values()):
            own, kernels = _files(once[answer]), [case for case in cases if not case.target]
            left |= {c: replace(left[c], asked=asked(once[answer], c, kernels, own, seen)) for c in probed(kernels)}
    found = [left.get(case) or Outcome(case, {}, why, None, ()) for case in cases]
    return [
        replace(o, findings=tuple(because(f, answers.get(o.case.target or answer)) for f in o.findings)) for o in found
    ]


def _rows_apart(answer, clean: list[Outcome]) -> dict:
    """{case: outcome} of a drawn case that leaves other numbers where rows are parts of longer ones."""
    for o in [o for o in clean if o.case.name == DRAWN and len(next(iter(o.case.inputs.values()))) > 1][:1]:
        with suppress(Refused):  # of a tensor that it takes otherwise the whole grade tells
            run, found, _ = run_of(answer, o.case, APART, check=False)
            if run.findings or any(x.tobytes() != found[name].tobytes() for name, x in o.outputs.items()):
                text = (
                    f"With {_shapes(o.case)} the kernel does not leave the same numbers where each row begins {APART} numbers "
                    "further from the row before it, as in a part of a wider matrix. Where a row begins, its tensor's stride says."
                )
                return {o.case: replace(o, findings=(Finding("rows apart", text, ()),))}
    return {}


def _in_a_row(answer: str, clean: list[Outcome], anew) -> dict:
    """{case: outcome} of the first that leaves other numbers where calls come before it, of the same object or of another."""
    quick, made = {"check": False, "on_device": True}, cache(anew()[answer])
    tensors = [[x.copy() for x in (*o.case.inputs.values(), *o.case.outputs.values())] for o in clean]

    def calls(*given):
        for k, one in enumerate(objects):
            one(*given[k * len(tensors[0]) : (k + 1) * len(tensors[0])])

    with suppress(Exception):  # a call alone has raised none
        objects = [made(*o.case.make) for o in clean]
        simulate(calls, *sum(tensors, []), max_steps=MAX_STEPS * len(clean), **quick)
    for o, left in zip(clean, tensors):
        if o is clean[0] and all(
            x.tobytes() == y.tobytes() for x, y in zip(o.case.outputs.values(), left[-len(o.outputs) :])
        ):
            break  # not even the first call has come to its end
        alone = run_of(anew()[answer], o.case, check=False)[1].values()
        if any(x.tobytes() != y.tobytes() for x, y in zip(alone, left[len(o.case.inputs) :])):
            return {o.case: _kept(o, f"the kernel, with {_shapes(o.case)},")}
    return {}


def _kept(outcome: Outcome, what: str) -> Outcome:
    text = (
        f"Called after other calls, {what} does not leave what it leaves when it comes first. What do they keep for it, in a name "
        "outside, in the class, in `self` or in a default value?"
    )
    return replace(outcome, findings=(Finding("kept from a call", text, ()),))


def _shapes(case: Case) -> str:
    return ", ".join(f"{name} {array.shape}" for name, array in case.inputs.items())


def _returned(function, case: Case) -> Outcome:
    """What a function of plain Python returns, or a finding of what it raised: the other functions count all the same."""
    if isinstance(function, Refused):
        return Outcome(case, {"answer": None}, (_told(function.diagnosis, case.target),), None, ())
    file = inspect.unwrap(function).__code__.co_filename
    try:
        # A function may write into it.
        given = [one.copy() if isinstance(one, (list, dict)) else one for one in case.make]
        return Outcome(case, {"answer": plain(function(*given))}, (), None, ())
    except MemoryError:
        raise
    except KeyboardInterrupt as stopped:  # by the student, who means the other cases, too
        raise error_at(stopped, [file]) from None
    except BaseException as error:
        told = error.diagnosis if isinstance(error, Refused) else error_at(error, [file]).diagnosis
        return Outcome(case, {"answer": None}, (_told(told, case.target),), None, ())


def _told(diagnosis, function: str = "") -> Finding:
    return Finding(diagnosis.kind, diagnosis.message, tuple(Line(*line, function) for line in diagnosis.lines))


def plain(value, depth: int = 0):
    """A returned number, string or nested tuple of such, as what JSON can carry; Refused for anything else."""
    if isinstance(value, (tuple, list)) and depth < 4 and len(value) <= 4096:
        return tuple(plain(one, depth + 1) for one in value)
    if type(value) is str and len(value) <= 200 or type(value) in (bool, float):
        return value
    if type(value) is int and abs(value) < 2**100:
        return value
    what = (
        f"a value of type {type(value).__name__}; numbers, strings, and lists or tuples of them, are what it may return"
    )
    if type(value) in (int, str):
        what = f"{type(value).__name__} of more digits or letters than an answer has"
    elif value is None:
        what = "nothing; does each path end with `return`?"
    raise Refused("wrong type", f"the function returns {what}")


def run_of(answer, case: Case, apart: int = 0, **more):
    """(the simulated run of a class on one case, its outputs, {input that it changed: the first place}); Refused where it cannot
    be run. Rows begin so many numbers further `apart` than they are long; `more` is for `simulate`."""
    outputs, inputs = (
        {name: _wider(array, apart)[..., : array.shape[-1]] for name, array in some.items()}
        for some in (case.outputs, case.inputs)
    )
    how = {"seed": case.seed, "max_steps": MAX_STEPS, "on_device": True, "follows": case.follows, **more}
    fast = case.schedule == FAST
    few = len(next(iter(inputs.values()))) < 6  # float64 takes as long again
    how |= {"check": "blocks" in more, "exact": few and "exact" in more} if fast else {"schedule": case.schedule}
    try:
        run = simulate(answer(*case.make), *inputs.values(), *outputs.values(), **how)
    except NotSimulated as error:
        raise Refused("not simulated", str(error).replace(ON_A_GPU, "")) from None
    except SimulationError as stopped:  # of a case without a trace
        run = Run(None, Findings([stopped.finding]), ())
    except MemoryError:
        raise
    except BaseException as error:
        raise error_at(error, _files(answer)) from None
    for finding in run.findings:
        if finding.kind == "endless":  # so would be the other cases, each as slow to find out
            text = (
                f"{finding.message.partition(' loop steps')[0]} turns of loops with {_shapes(case)}, where a right answer takes a "
                "few hundred. Either this loop does not end, or one thread walks a whole row: give each thread its share."
            )
            raise Refused("endless", text, tuple((x.file, x.number, x.text) for x in finding.lines))
    differs = {name: np.argwhere(x.view(np.uint8) != inputs[name].view(np.uint8)) for name, x in case.inputs.items()}
    size = {name: x.itemsize for name, x in inputs.items()}
    changed = {n: (*map(int, at[0][:-1]), int(at[0][-1]) // size[n]) for n, at in differs.items() if len(at)}
    return run, outputs, changed


def _wider(array: np.ndarray, apart: int) -> np.ndarray:
    """A copy; of a matrix with so many more columns."""
    return np.pad(array, ((0, 0), (0, apart)), constant_values=1) if array.ndim > 1 else array.copy()


def _outcome(answer, case: Case) -> Outcome:
    parameters = tuple(inspect.signature(inspect.unwrap(answer.__call__)).parameters)[1:]
    run, outputs, changed = run_of(answer, case, exact=True)
    named = dict(zip(parameters, (*case.inputs, *case.outputs)))
    exact = {named[name]: x for name, x in (run.exact or {}).items() if named.get(name) in outputs}
    named_so = dict(zip(case.inputs, parameters))
    written = tuple(_written(named_so[name], at) for name, at in changed.items())
    run = _some_blocks(answer, case) if case.schedule == FAST and not run.findings else run
    return Outcome(case, outputs, (*run.findings, *written), run.recorded, parameters, exact)


def _some_blocks(answer, case: Case) -> Run:
    """A checked run of a few blocks, anywhere in the grid."""
    blocks = case.launch[0] if case.launch else len(next(iter(case.inputs.values())))
    first = random.Random(repr((case.seed, blocks))).randrange(max(1, blocks - SEEN))
    seen = SEEN if next(iter(case.inputs.values())).shape[1] < LONG else 1
    run, *_ = run_of(answer, case, blocks=range(first, first + seen))
    return run if run.trace.launches and len(run.trace) else run_of(answer, case, blocks=SEEN)[0]


def _written(name: str, at: tuple) -> Finding:
    where = f"{name}[{', '.join(map(str, at))}]"
    return Finding(
        "input", f"{name} is an input, and the kernel has changed {where}. Whoever called it still needs it.", ()
    )


def _files(answer) -> set:
    """The files or cells that the answer's functions are from: those of the names that its code can see."""
    seen = inspect.unwrap(answer.__call__).__globals__
    found = [
        *(f for x in seen.values() for f in (vars(x).values() if isinstance(x, type) else [x])),
        *vars(answer).values(),
    ]
    own = [f for f in map(inspect.unwrap, filter(inspect.isfunction, found)) if inspect.isfunction(f)]
    return {f.__code__.co_filename for f in own if f.__globals__ is seen}


def check_signature(answer, case: Case) -> None:
    """Refused if a class cannot be made and called as the lab does it."""
    call = next((vars(base)["__call__"] for base in answer.__mro__ if "__call__" in vars(base)), None)
    wanted = (*case.inputs, *case.outputs)
    if not callable(call) or inspect.unwrap(call) is call:
        raise Refused("signature", f"{answer.__name__} needs a @cute.jit method __call__(self, {', '.join(wanted)})")
    for function, arguments, said in (
        (answer.__init__, case.make, f"{answer.__name__}({', '.join(map(str, case.make))})"),
        (inspect.unwrap(call), wanted, f"__call__(self, {', '.join(wanted)})"),
    ):
        try:
            inspect.signature(function).bind(None, *arguments)
        except TypeError as error:
            name = f"{answer.__name__}.{function.__name__}"
            raise Refused("signature", f"{name} cannot be called as {said}: {error}") from None
    if len(inspect.signature(inspect.unwrap(call)).parameters) <= len(wanted):
        raise Refused(
            "signature", f"{answer.__name__}.__call__ has to name its parameters: __call__(self, {', '.join(wanted)})"
        )
