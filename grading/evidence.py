"""What a trace shows of a submission: who read which column, how often, and what the simulator's findings mean."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from cutesim.analysis.accesses import Kind, accesses
from cutesim.analysis.requests import requests
from cutesim.trace import Finding, Op, Space, Trace

from .judgement import FAST, Diagnosis, Outcome

# Of a request, on average: of long rows a warp's last request alone has fewer than 32.
FEW_LANES = 20
WAITS = (Op.BARRIER, Op.BARRIER_ARRIVE, Op.CLUSTER_ARRIVE, Op.MBARRIER_WAIT)


@dataclass(frozen=True)
class Readers:
    """Who read each element of an input first, and how often each was read; -1 where nobody did.

    `asked` counts requests of a warp for it and others, each once, however many lanes ask, `beside` the lanes beyond one in these;
    `alone` counts requests for one element, and `widest` has the elements of the largest request.
    """

    thread: np.ndarray  # within the block
    times: np.ndarray
    block: np.ndarray
    asked: np.ndarray
    beside: np.ndarray
    alone: int
    widest: int

    @property
    def warp(self) -> np.ndarray:
        return np.where(self.thread < 0, -1, self.thread // 32)

    @property
    def lane(self) -> np.ndarray:
        return np.where(self.thread < 0, -1, self.thread % 32)


def readers(outcome: Outcome, name: str) -> Readers:
    """The readers of the input `name`."""
    array = outcome.case.inputs[name]
    thread, block = np.full(array.size, -1), np.full(array.size, -1)
    every, row, element = _elements(outcome, name, array, Kind.WRITE)
    events = outcome.trace.events
    # The first to read it wins.
    thread[element[::-1]] = (events["warp"][every.event] * 32 + every.lane)[row[::-1]]
    block[element[::-1]] = events["block"][every.event][row[::-1]]
    times = np.bincount(element, minlength=array.size)
    # np.unique takes longer.
    pairs = np.sort(every.event[row].astype(np.int64) * array.size + element)
    first = np.nonzero(np.diff(pairs, prepend=-1))[0]
    lanes = np.diff(first, append=len(pairs))
    event, element = (one.astype(np.intp) for one in np.divmod(pairs[first], array.size))
    wide = np.bincount(event, minlength=1)[event]
    asked, lanes = (np.bincount(element[wide > 1], n[wide > 1], array.size) for n in (np.ones(len(wide)), lanes))
    found = thread, times, block, asked, lanes - asked
    return Readers(*(one.reshape(array.shape) for one in found), int((wide == 1).sum()), int(wide.max(initial=1)))


def sectors(outcome: Outcome, name: str) -> tuple:
    """(sectors a request to the tensor `name`, as few as its bytes could do with, lanes that ask, the source lines, how many ask
    for more than a number), over all its requests; the lines are those of few lanes, or many sectors."""
    trace, called = outcome.trace, _called(outcome, name)
    here = [i for i, t in enumerate(trace.tensors) if t.name == called and t.space == Space.GMEM]
    table = requests(trace)
    table = table[np.isin(table["tensor"], here)]
    if not len(table):
        return 0.0, 0.0, 32.0, (), 0
    worst = table[(table["sectors"] >= 2 * table["ideal_sectors"]) | (table["lanes"] < FEW_LANES)]
    lines = tuple(plain_line(trace.lines[row]) for row in sorted({int(row) for row in worst["line"]}))
    return (
        *(float(table[of].mean()) for of in ("sectors", "ideal_sectors", "lanes")),
        lines,
        int((table["lanes"] > 1).sum()),
    )


def scale(outcome: Outcome, name: str) -> float:
    """How many times the elements of a tensor are those that the blocks in the trace have to do with."""
    if outcome.case.schedule != FAST:
        return 1.0
    times = readers(outcome, name).times if name in outcome.case.inputs else times_stored(outcome, name)
    return times.size / max(1, np.count_nonzero(times))


def warps(trace: Trace) -> int:
    """The warps of a cluster, or of a block that is alone."""
    return max((-(-one.threads // 32) * math.prod(one.cluster) for one in trace.launches), default=1)


def loads(outcome: Outcome, name: str) -> tuple:
    """(how many warps of a block read an element of the input `name`, on average, the source lines that load it)."""
    array, every, start = outcome.case.inputs[name], *_touching(outcome, name, Kind.WRITE)
    events = outcome.trace.events
    warp = events["block"].astype(np.int64) * 32 + events["warp"]  # a block has 32 at most
    whole = (warp.max(initial=0) // 32 + 1) * 32
    who = np.unique((every.address - start) // array.itemsize * whole + warp[every.event])
    pairs = len(np.unique(who // 32))
    return len(who) / max(1, pairs), lines_of(outcome.trace, events[np.unique(every.event)])


def stores(outcome: Outcome, name: str, other: Kind = Kind.READ) -> tuple:
    """(how often an element of the tensor `name` was stored, the source lines that did it)."""
    every, _ = _touching(outcome, name, other)
    return len(every), lines_of(outcome.trace, outcome.trace.events[np.unique(every.event)])


def times_stored(outcome: Outcome, name: str) -> np.ndarray:
    """How often each element of the output `name` was stored."""
    array = outcome.case.outputs[name]
    return np.bincount(_elements(outcome, name, array, Kind.READ)[2], minlength=array.size).reshape(array.shape)


def lines_of(trace: Trace, events) -> tuple:
    """The source lines of some events."""
    return tuple(plain_line(trace.lines[row]) for row in np.unique(events["line"]))


def _touching(outcome: Outcome, name: str, other: Kind):
    """(accesses of a tensor but those of the kind `other`, where it starts); none if the kernel never touched it."""
    trace = outcome.trace
    called = _called(outcome, name)
    info = next((t for t in trace.tensors if t.name == called and t.space == Space.GMEM), None)
    every = accesses(trace, np.arange(len(trace.events)), shared=False)
    if info is None:
        return every.take(np.zeros(len(every), bool)), 0
    inside = (every.address >= info.base_address) & (every.address < info.base_address + info.nbytes)
    return every.take(inside & (every.kind != other)), info.base_address


def _elements(outcome: Outcome, name: str, array: np.ndarray, other: Kind):
    """(accesses of a tensor but those of the kind `other`; for each element of each the access's row, and the element)."""
    every, start = _touching(outcome, name, other)
    words = (every.size // array.itemsize).astype(np.intp)  # which has 32 bits in a browser
    row = np.repeat(np.arange(len(every)), words)
    within = np.arange(len(row)) - (np.cumsum(words) - words)[row]
    return every, row, ((every.address - start) // array.itemsize).astype(np.intp)[row] + within


def _called(outcome: Outcome, name: str) -> str:
    """What the answer calls a tensor of the lab."""
    return outcome.parameters[[*outcome.case.inputs, *outcome.case.outputs].index(name)]


def of_each_warp(events, of_each=1) -> np.ndarray:
    """How many of the events each warp has that has any; `of_each` says for how many each of them counts."""
    whose = np.unique(np.stack([events["block"], events["warp"]]), axis=1, return_inverse=True)[1].ravel()
    return np.bincount(whose, np.broadcast_to(of_each, whose.shape)).astype(int)


def lanes_meet(trace: Trace) -> bool:
    """Whether a warp has a barrier of its lanes, after its first wait at an mbarrier if it waits at one."""
    waits, met = trace.select(Op.MBARRIER_WAIT), trace.select(Op.SYNC_WARP)
    first = {(event["block"], event["warp"]): event["step"] for event in waits[::-1]}
    return any(event["step"] > first.get((event["block"], event["warp"]), -1) for event in met)


def plain_line(line) -> tuple:
    """(file, number, text) of a trace's line."""
    return (line.file, line.number, line.text)


def meaning(finding: Finding, advice: dict, slots: str, syncs: bool = True) -> Diagnosis:
    """What a finding of the simulator says of the submission; out of bounds, with `advice` on the tensor, or that on `slots`.

    `syncs`: whether the kernel has a barrier of a warp, where one is needed (`lanes_meet`).
    """
    kind, message = finding.kind, finding.message
    if kind == "race" and "on global memory" in message:
        kind = "race on output"
    elif kind == "race" and "is an atomic" in message:
        kind = "shared sum"
        message = message.partition(", so one change is lost")[0] + (
            ", so one change is lost. Each warp needs a place of its own, and one thread adds up what the places hold after a "
            "barrier: so the order of the sum is the same in every run."
        )
    elif kind == "race" and "(read after write)" in message:
        kind = "missing barrier"
        message += " A warp that is ahead reads what another has not written yet."
    elif kind == "race" and "(write after write)" in message and len(set(map(plain_line, finding.lines[:2]))) == 1:
        kind = "same slot"
        sent = "st.async" in message
        steps = sent and not re.search(r"thread \d+ of block \d+ sent", message)
        message = re.sub(r"(nothing orders them(?: \([^)]*\))?\.).*", r"\1", message) if sent else message
        message += (
            " One block sends to one slot in two steps: steps that follow each other need slots, and an mbarrier, of their own."
            if steps
            else " Two blocks send to one slot here: each sender needs a slot of its own."
            if sent
            else " Two threads store to one slot here: each warp needs a slot of its own, and one lane that stores."
        )
    elif kind == "race" and "(write after write)" in message:
        kind = "two stores"
        message += (
            " Both lines store to one slot, and which comes last is up to the schedule. A slot that is stored before it is read "
            "needs no start value; where it does, a barrier has to part the two."
        )
    elif kind == "race" and "sent by st.async" in message and not syncs:
        kind = "reused buffer"
        message = message.partition("nothing orders them.")[0] + (
            "nothing orders them. The sender has heard from one lane of the block that reads; that block's other lanes may be "
            "behind. With sync_warp() after the read all lanes have read before one of them goes on and lets others send: a "
            "shuffle orders no memory."
        )
    elif kind == "race":
        kind = "reused buffer"
        message += (
            " The slots are used a second time while a slow warp still needs what they hold from the first: "
            "give the second use slots of its own."
        )
    elif kind == "read before arrival" and "was over as soon as" in message:
        message += (
            " If it does, a block that is a step ahead has sent its next bytes to the same place: steps that follow each other "
            "need slots, and an mbarrier, of their own."
        )
        if not syncs:
            message += (
                " Where they have, a lane may still read while another lane of its warp has sent, which lets the others go on: "
                "with sync_warp() after the read all lanes have read before one of them sends again."
            )
    elif kind == "read before arrival" and " waits for them in a later step only" in message:
        message = message.partition(" mbarrier_wait at ")[0] + (
            " The wait above the read was for another mbarrier than the one that counts these bytes. Do the slot that is sent to "
            "and the mbarrier belong to the same stage? Of a layout (A, B) the element (a, b) lies at a + A b."
        )
    elif kind == "mbarrier arrivals":
        message = f"{message.rstrip('.')}. Either more than one thread arrives, or the block arms the mbarrier for a later step "
        message += "without having waited for this one."
    elif kind == "divergent barrier" or kind == "deadlock" and "nobody changes" not in message:
        message += " A barrier under a condition needs the same answer from every thread of the block."
    elif kind == "divergent shuffle" and "warp_idx() takes" in message:
        kind = "warp number in if"
        message += " The warp's number belongs where the thread's is taken, at the top of the kernel."
    elif kind == "uninitialised":
        message += " Which slots does the last step read, and is each of them written, whatever the number of warps?"
    elif kind == "out of bounds":
        tensor = next((name for name in advice if re.search(rf"\b{re.escape(name)}\b", message)), None)
        message += f" {advice.get(tensor, slots)}"
    return Diagnosis(kind, message, tuple(map(plain_line, finding.lines)))
