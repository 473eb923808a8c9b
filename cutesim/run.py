"""`run_once`: one run, in one order, of a host function and its kernels; the analyses are asked, and `Run` holds what they say."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import io
import textwrap
import threading
import typing
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from cutesim.analysis import races
from cutesim.analysis.races import miscounted
from cutesim.analysis.unwritten import unwritten_reads
from cutesim.context import (
    STATE,
    NotSimulated,
    SimulationError,
    counted,
    fail,
    interrupted,
    line_of,
    refused,
    without_frames,
)
from cutesim.language import blame
from cutesim.language.builtins import BUILTINS
from cutesim.language.proxies import Mapper, cross
from cutesim.machine import control
from cutesim.machine.scheduler import KernelCall, RunState, take_back
from cutesim.memory.arguments import AddressSpace, as_array, global_tensor, is_tensor
from cutesim.trace import Finding, Op, Space, Trace, TraceRecorder

# After these the log breaks off in the middle, and what it then seems to say of races follows from them.
STOPS = {"barrier count", "deadlock", "divergent barrier", "divergent shuffle"}
STOPS |= {"endless", "language", "launch", "mbarrier initialised again"}
MOST_FRAGMENTS = 8  # register tensors that are tried one by one for what reaches a result
# what a run without findings has not
LOOKED_FOR = "race, out-of-bounds access, deadlock or unwritten value"


class Findings(tuple):
    """The findings of a run. Where there are none, asking for one says so: cells read those of kernels that readers may mend."""

    def __getitem__(self, index):
        if not self and not isinstance(index, slice):
            raise without_frames(IndexError("this run has no findings: nothing was found to be wrong"))
        return super().__getitem__(index)


@dataclass(frozen=True)
class Run:
    """What a simulated run gave: its trace, findings, what cute.printf wrote, shared memory of a block.

    `recorded` is the trace, or None with check=False. `smem_bytes` is what a block allocates, gaps for alignment included; of
    several launches, the most. Observations are not errors: a result that depends on the order of atomics.
    """

    recorded: Trace | None
    findings: Findings
    printed: tuple
    smem_bytes: int = 0
    observations: tuple = ()
    # of exact=True: {tensor: what it would hold without any rounding, in float64}
    exact: dict | None = None

    @property
    def trace(self) -> Trace:
        """What the run did; ValueError where check=False recorded nothing."""
        if self.recorded is None:
            text = "this run has no trace, because check=False records none: simulate again without it"
            raise without_frames(ValueError(text))
        return self.recorded

    @property
    def ok(self) -> bool:
        """No finding: for these inputs and the paths they take."""
        return not self.findings

    def __str__(self) -> str:
        head = "simulated"
        if self.recorded is not None and self.recorded.launches:
            launch = self.recorded.launches[-1]
            head = (
                f"simulated {launch.kernel}: {launch.blocks} block{'s' * (launch.blocks != 1)} of {launch.threads} threads, "
                f"{len(self.trace):,} warp instruction{'s' * (len(self.trace) != 1)}"
            )
        if self.ok:
            seen = [textwrap.fill(text, 84, break_long_words=False) for text in self.observations]
            return "\n".join([head, self._looked_for(), *seen])
        wrapped = [textwrap.fill(str(finding), 84, break_long_words=False) for finding in self.findings]
        return "\n".join([f"{head}; {len(wrapped)} finding{'s' * (len(wrapped) != 1)}:", *wrapped])

    __repr__ = __str__

    def __getattr__(self, name):
        of_trace = name in (*Trace.__dataclass_fields__, "select", "line", "callers", "save")
        raise AttributeError(f"a run has no {name}" + "; its trace has: write .trace behind the run" * of_trace)

    def _looked_for(self) -> str:
        """What a run without findings says, and what it does not: a kernel may be clean and its results wrong."""
        if self.recorded is None:
            return "No out-of-bounds access; races not looked for (check=False), results not judged here."
        if not len(self.trace):
            return "The kernel moved and exchanged nothing, so there was nothing to check."
        return f"No {LOOKED_FOR}; results not judged here."


COLLECTED_AFTER = 100_000  # new objects
_TURN = threading.RLock()  # a run's state is the process's; a run may start another one


def _in_turn(function):
    """`function`, for one thread at a time.

    A run makes many objects that live until its end, a row an instruction among them. Python looks for garbage among them every
    700, which takes a seventh of the time; here it does so more rarely.
    """

    @functools.wraps(function)
    def alone(*args, **kwargs):
        with _TURN:
            before = gc.get_threshold()
            gc.set_threshold(max(before[0], COLLECTED_AFTER) if before[0] else 0, *before[1:])
            try:
                return function(*args, **kwargs)
            except KeyboardInterrupt as error:
                raise interrupted(error) from None
            finally:
                gc.set_threshold(*before)

    return alone


class _Apart(Exception):
    """A run in which warps ran in step has something to say: each warp is to run the kernel itself, which then says it."""


@_in_turn
def run_once(function, args: tuple, kwargs: dict, **options) -> Run:
    """One run, in one order of the warps; the options are those of `simulate`.

    `order` chooses who goes next; with it nothing is asked that another run would answer. `history` lists the launches before this
    one that may still run, with None for any that is not known, and is kept up to date.
    """
    try:
        return _once(function, args, kwargs, **options)
    except _Apart as apart:
        take_back(apart.args[0])
    return _once(function, args, kwargs, **options, in_step=False)


def _once(
    function,
    args: tuple,
    kwargs: dict,
    *,
    check=True,
    schedule="forward",
    order=None,
    seed=0,
    values=False,
    blocks=None,
    max_steps=2_000_000,
    fill=0,
    dynamic=(),
    exact=False,
    on_device=False,
    follows=False,
    history=None,
    in_step=True,
) -> Run:
    some = range(blocks) if isinstance(blocks, Integral) else blocks
    usable = isinstance(some, range) and some and some.step == 1 and some.start >= 0
    if some is not None and not usable:
        raise ValueError(
            f"blocks={blocks!r}: it is which blocks of each launch are simulated, a number of at least 1, or a range"
        )
    recorder = TraceRecorder(record_values=values) if check else None
    before = None if history is None or None in history else list(history)
    shared = {"max_steps": max_steps, "blocks": some}
    shared |= {"may_still_run": before, "blame": blame.of_call}
    state = RunState(recorder, schedule, seed, fill=fill, order=order, on_device=on_device, **shared)
    state.in_step, state.follows = in_step and order is None, follows
    poison = _Poison(function, args, kwargs) if check or exact else None
    outer = STATE.run, STATE.group, STATE.loops
    STATE.run, STATE.group, STATE.loops = state, None, 0
    findings, observations = [], ()
    try:
        with np.errstate(all="ignore"):
            _run_host(function, args, kwargs, dynamic)
    except SimulationError as error:
        if not check:
            raise without_frames(error) from None
        findings.append(error.finding)
    except Exception as error:
        if state.went_in_step:
            raise _Apart(state.changed) from None
        if isinstance(error, NotSimulated):
            raise without_frames(error) from None
        located = blame.of_run(error)
        if located is None:
            raise
        if isinstance(located, NotSimulated) or not check:
            raise without_frames(located) from None
        findings.append(located.finding)
    finally:
        STATE.run, STATE.group, STATE.loops = outer
    trace = None
    if recorder is not None:
        recorder.printed = [text for _, _, text in state.printed]
        trace = recorder.finish()
        if findings and _came_apart(trace, findings[0]):
            findings[:0] = races(trace)
        if not any(finding.kind in STOPS for finding in findings):
            findings += races(trace)
            # A search tries the orders that show what comes of it.
            if order is None and not findings:
                findings += miscounted(trace)
            # A block that reads too early may end too early as well: the read is the cause.
            findings.sort(key=lambda finding: finding.kind != "read before arrival")
            reads = (finding for finding in findings if finding.kind == "read before arrival")
            early = {line for finding in reads for line in finding.lines}
            never = "async copy never waited for"
            findings = [f for f in findings if f.kind != never or f.lines[0] not in early]
        # An endless loop that another run makes is not waited for as long as one of the kernel's own.
        briefly = shared | {"max_steps": min(max_steps, 20_000 + 4 * state.most_steps)}
        if not findings and order is None and state.believed:
            late = RunState(TraceRecorder(), schedule, seed, fill=fill, doubted=set(), **briefly)
            if poison.error_of(lambda: _silently(late, function, args, kwargs, dynamic)) is None:
                findings += races(late.recorder.finish())
        if not findings and order is None:
            options = {"fill": fill + 1} | briefly
            again = lambda state: _silently(state, function, args, kwargs, dynamic)  # noqa: E731

            def in_order(**looks_for):
                return again(RunState(TraceRecorder(), schedule, seed, **(options | looks_for)))

            same = functools.partial(in_order, fill=fill)
            quick = lambda likely=None: again(RunState(None, likely=likely, **options))  # noqa: E731
            found, observations = poison.reaches(trace, quick, in_order, same)
            findings += found
        if state.went_in_step and (findings or observations):
            raise _Apart(state.changed)
        observations = (*state.notes, *observations)
    numbers = None
    if exact and not findings:
        in_warps = TraceRecorder() if check and schedule != "forward" else None
        beside = RunState(in_warps, schedule, seed, fill=fill, **shared)
        numbers = poison.exactly(lambda: _silently(beside, function, args, kwargs, dynamic, exact=exact), beside, exact)
    if history is not None and order is None:
        history[:] = [None] if state.may_still_run is None else state.may_still_run
    printed = tuple(text for _, _, text in state.printed)
    return Run(trace, Findings(findings), printed, state.smem_bytes, observations, numbers)


OPTIONS = frozenset(inspect.signature(_once).parameters) - {"function", "args", "kwargs", "in_step"}


def _came_apart(trace, finding) -> bool:
    """Whether all warps of a block have been at the barrier at which some now wait in vain: a loop has more turns for these, and a
    race may be why."""
    if finding.kind != "divergent barrier":
        return False
    events = trace.select(Op.BARRIER)
    events = events[events["block"] == finding.block]
    at = [trace.line(event) in finding.lines for event in events]
    return len({*events["warp"][at].tolist()}) * 32 >= trace.launches[-1].threads


def _silently(state, function, args, kwargs, dynamic, exact=False) -> Exception | None:
    """Run once more in the fast mode; what ended it early."""
    outer = STATE.run, STATE.group, STATE.loops, STATE.exact
    STATE.run, STATE.group, STATE.loops, STATE.exact = state, None, 0, exact
    try:
        # the first run has printed it all
        with np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
            _run_host(function, args, kwargs, dynamic)
    except (SimulationError, NotSimulated) as error:
        return error
    finally:
        STATE.run, STATE.group, STATE.loops, STATE.exact = outer
    return None


class _Poison:
    """Runs a kernel again on what its tensors held: results that depend on memory nobody wrote change with other poison."""

    def __init__(self, function, args, kwargs):
        named = named_tensors(function, args, kwargs).items()
        written = [(name, x) for name, x in named if as_array(x)[0].flags.writeable]
        self.names, self.tensors = [name for name, _ in written], [x for _, x in written]
        self.before = [as_array(x)[0].copy() for x in self.tensors]

    def reaches(self, trace, run_quickly, run_in_order, run_the_same) -> tuple[list, tuple]:
        """(findings, observations), at most one of both; the tensors hold the first run's results afterwards.

        The quick run has no order of warps. Where it gives another result, one in the order of the first run says which of the
        two is the cause: what unwritten memory held, or the order. Where the first run's very own poison gives another result, too,
        neither is: what Python had when the kernel was traced has moved on, as a counter of the reader's does.
        """
        differing, holds = self._differing(run_quickly), None
        for likely in (0, 1) if differing is None and _looks_at_unwritten_integers(trace) else ():
            if differing is None:
                differing, holds = self._differing(functools.partial(run_quickly, likely)), likely
        if differing is None:
            return [], ()
        confirmed = self._differing(functools.partial(run_in_order, likely=holds))
        if confirmed is None:
            return [], (() if isinstance(differing, SimulationError) else (_order_matters(*differing),))
        moved = self._differing(run_the_same)
        if moved is not None:
            return [], (() if isinstance(moved, SimulationError) else (_python_moves_on(*moved),))
        return [self._finding(trace, self._fragment(run_in_order), confirmed)], ()

    def _fragment(self, run_in_order):
        """(the line that makes the fragment whose unwritten registers reach a result, the first line that reads them) or None."""
        unwritten = {}
        self._differing(lambda: run_in_order(unwritten=unwritten))
        for made in list(unwritten)[:MOST_FRAGMENTS]:
            if self._differing(lambda made=made: run_in_order(poisoned=made)) is not None:
                return made, unwritten[made]
        return None

    def _differing(self, run_again):
        """(name, which elements) of the first tensor that another run leaves with other values, or the error in which that ends;
        None if there is neither."""
        first, second, error = self._again(run_again)
        if error is not None:
            return error if isinstance(error, SimulationError) else None
        for name, x, one, two in zip(self.names, self.tensors, first, second):
            if one is two:
                continue
            decode = as_array(x)[1].decode
            a, b = decode(one), decode(two)
            differ = (a != b) & ~((a != a) & (b != b))
            if differ.any():
                return name, differ
        return None

    def _again(self, run_again) -> tuple:
        """(what the tensors hold now, and hold again afterwards; what another run leaves; what ends that early)."""
        arrays = [as_array(x)[0] for x in self.tensors]
        first = list(map(_kept, arrays, self.before))
        for array, old in zip(arrays, self.before):
            array[...] = old
        try:
            error = run_again()
            second = list(map(_kept, arrays, first))
        finally:  # also where Ctrl-C ends the second run
            for array, result in zip(arrays, first):
                array[...] = result
        return first, second, error

    def error_of(self, run_again) -> Exception | None:
        """What ends another run early; the tensors hold the first run's results afterwards."""
        return self._again(run_again)[2]

    def exactly(self, run_again, state, kind) -> dict | None:
        """{tensor of floats: what a run in `kind` of exact numbers leaves}; None where it does not come to its end."""
        if self._again(run_again)[2] is not None:
            return None
        outer, STATE.exact = STATE.exact, kind
        try:
            floats = (memory for memory in state.arguments if memory.dtype.is_float)
            return {memory.name: memory.exactly(state.shadows) for memory in floats}
        finally:
            STATE.exact = outer

    def _finding(self, trace, fragment, confirmed) -> Finding:
        if isinstance(confirmed, SimulationError):
            other = confirmed.finding
            what = f"whether this kernel ends in an error ({other})"
            lines, count = other.lines[:1], 1
        else:
            name, differ = confirmed
            stores = trace.select(Op.STORE, space=Space.GMEM)
            named = [row for row, info in enumerate(trace.tensors) if info.name == name]
            stores = stores[np.isin(stores["tensor"], named)]
            lines = tuple(dict.fromkeys(trace.line(event) for event in stores))[-1:]
            count = int(differ.sum())
            what = f"{_place(name, differ)} ({counted(count, 'element')} in all)"
        reads = unwritten_reads(trace)
        why = "Is a fill or a default missing?"
        if fragment is not None:
            made, read = fragment
            name, equals, _ = (part.strip() for part in made.text.partition("="))
            name = name if equals and name.isidentifier() else "a register tensor"
            why = (
                f"{name} ({made.where}) is read at {read.where} before all of it is written: is a fill or a "
                "default missing?"
            )
            lines = (read,)
        elif reads:  # what registers hold may still be the cause: a trace does not have them
            why = f"In shared memory, {reads[0]}, which nothing has written: is a store missing?"
            lines = (reads[0].line, *(line for line in lines if line != reads[0].line))
        return Finding(
            "uninitialised",
            f"Uninitialised memory: {what} "
            f"changes with what unwritten {'memory happens' if reads and fragment is None else 'registers happen'} to hold. {why}",
            lines,
            count=count,
        )


def _kept(array: np.ndarray, other: np.ndarray) -> np.ndarray:
    """A copy, or the other array where that holds the same bits: inputs may be large."""
    bits = f"u{array.itemsize}"
    return other if np.array_equal(array.view(bits), other.view(bits)) else array.copy()


def _looks_at_unwritten_integers(trace) -> bool:
    """Whether a kernel reads integers of shared memory that nobody wrote: no poison is equal to the flag that it may look for."""
    integers = [i for i, x in enumerate(trace.tensors) if x.space == Space.SMEM and "int" in x.dtype.lower()]
    read = integers and np.isin(trace.select(Op.LOAD, space=Space.SMEM)["tensor"], integers).any()
    return bool(read and unwritten_reads(trace))


def _place(name: str, differ: np.ndarray) -> str:
    """The first element of those that differ."""
    return f"{name}[{', '.join(str(int(i[0])) for i in np.nonzero(differ))}]"


def _python_moves_on(name, differ) -> str:
    """What is said where a result changes from one trace of the kernel to the next."""
    return (
        f"{_place(name, differ)} changes each time that the kernel is traced, with Python's own state (a counter, a random "
        "number); whether it depends on unwritten memory as well was not to be seen."
    )


def _order_matters(name, differ) -> str:
    """What is said where a result depends on the order in which warps came, but on nothing unwritten."""
    return (
        f"{_place(name, differ)} ({counted(int(differ.sum()), 'element')} in all) depends on the order in which warps come, as "
        "sums of floating-point atomics do: the last bits may differ from run to run."
    )


def _run_host(function, args, kwargs, dynamic=()) -> None:
    mapper = STATE.run.mapper = Mapper(BUILTINS)
    target = mapper.map(function)
    if not hasattr(type(target), "start_call"):
        needs = "a @cute.jit function or an object with a @cute.jit __call__"
        raise without_frames(TypeError(f"simulate needs {needs}, got {type(function).__name__}"))
    names, annotations, wants_stream = parameters_of(function)
    _refuse_another_self(function)
    arguments = _Arguments(mapper, dynamic)
    prepared = []
    for i, x in enumerate(args):
        name = names[i] if i < len(names) else f"argument {i}"
        prepared.append(arguments.argument(x, name, annotations.get(name, "")))
    named = {k: arguments.argument(v, k, annotations.get(k, "")) for k, v in kwargs.items()}
    if wants_stream and "stream" not in named and "stream" not in names[: len(args)]:
        named["stream"] = None
    result = control.call(target, *prepared, **named)
    if isinstance(result, KernelCall):
        name = result.function.name
        raise fail(
            "launch",
            f"{name} is a @cute.kernel: simulate a @cute.jit function that calls {name}(...).launch(grid=..., block=...)",
        )
    if type(result) is control.Pending:
        for _ in result.steps:
            pass
    for call in STATE.run.kernel_calls:
        if not call.launched:
            name = call.function.name
            text = f"{name}(...) does not run by itself: write {name}(...).launch(grid=..., block=...)"
            raise fail("launch", text, lines=(call.line,))


class _Arguments:
    """Turns what simulate is given into what the host function gets."""

    def __init__(self, mapper: Mapper, dynamic):
        self.mapper, self.dynamic, self.space = mapper, dynamic, AddressSpace()

    def argument(self, x, name: str, annotation: str):
        if is_tensor(x):
            dynamic = self.dynamic.get(name, ()) if isinstance(self.dynamic, dict) else self.dynamic
            tensor = global_tensor(x, name, self.space, dynamic)
            return tensor.pointer if "Pointer" in annotation else tensor
        if isinstance(x, (tuple, list)):
            return type(x)(self.argument(v, f"{name}[{i}]", annotation) for i, v in enumerate(x))
        return cross(self.mapper.map(x), annotation)


def parameters_of(function):
    """Parameter names and annotation texts of the host function, and whether it takes a stream."""
    plain, original = inspect.isfunction(function), _undecorated(function)
    parameters = list(inspect.signature(original).parameters.values())
    if not plain:
        parameters = parameters[1:]  # self, whatever it is called
    annotated = (p for p in parameters if p.annotation is not p.empty)
    texts = {p.name: _text(p.annotation) for p in annotated}
    needs = any(p.name == "stream" and p.default is inspect.Parameter.empty for p in parameters)
    return [p.name for p in parameters], texts, needs


def named_tensors(function, args, kwargs) -> dict:
    """The tensors among a host function's arguments, by the names of its parameters."""
    names = *parameters_of(function)[0], *(f"argument {i}" for i in range(len(args)))
    return {name: x for name, x in (*zip(names, args), *kwargs.items()) if is_tensor(x)}


def _undecorated(function):
    """The host function, or an object's `__call__`, as the reader has written it."""
    called = inspect.isfunction(function) or inspect.ismethod(function)
    target = function if called else type(function).__call__
    return inspect.unwrap(getattr(target, "__func__", target))


def _refuse_another_self(function) -> None:
    """The DSL takes the object of a method that the host calls by the name of its parameter."""
    if inspect.isfunction(function):
        return
    original = _undecorated(function)
    first = next(iter(inspect.signature(original).parameters.values()), None)
    if first is None or first.name in ("self", "cls"):
        return
    if "Constexpr" not in _text(first.annotation):
        code = original.__code__
        lines = enumerate(inspect.getsource(original).splitlines(), code.co_firstlineno)
        begins = (number for number, line in lines if line.lstrip().startswith("def "))
        number = next(begins, code.co_firstlineno)
        text = f"{original.__qualname__} is a method that the host calls, and calls its object {first.name}; the DSL wants self"
        raise refused(text, lines=(line_of(code.co_filename, number, code.co_name),))


def _text(annotation) -> str:
    # As the DSL's cute.Shape is.
    if isinstance(annotation, str) or typing.get_origin(annotation) is typing.Union:
        return str(annotation)
    return getattr(annotation, "__name__", None) or str(annotation)
