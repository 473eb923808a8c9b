"""mbarriers: init, arrive, expect, wait; and what their phases order.

A phase completes when no arrival and no byte is pending; the byte count is signed, so bytes may land before they are expected. A
wait acquires what the arriving threads did before; a try_wait or test_wait does so where its answer is looked at, since it may be
False. An arrival that names the scope of the CTA counts at another block's mbarrier, and releases nothing to that block; one that
names no scope is taken to reach its cluster. Source: PTX ISA 9.0, mbarrier.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np

from cutesim.trace import SMEM_BLOCK_BITS, FenceKind, Line, Op, Space

from ..context import (
    STATE,
    NeedsWarps,
    Waiting,
    counted,
    fail,
    group,
    here,
    kernel_frame,
    line_of,
    not_simulated,
    refused,
    spread,
)
from ..memory.log import by_warp, needs_warps
from ..memory.pointers import Pointer, group_rows
from ..memory.recording import record_event
from ..values.numeric import Boolean, Value, scalar
from .cluster import map_dsmem_ptr
from .control import Pending
from .scheduler import ranges


@dataclass
class MBarrier:
    """An mbarrier's state: the running phase, what it still waits for, and what was said and sent in it."""

    count: int
    pending: int
    block: int
    line: Line  # of its mbarrier_init
    phase: int = 0
    bytes: int = 0  # expected minus arrived: signed
    expected: int = 0
    sent: int = 0
    senders: tuple = ()  # (Line, block) of each transfer that has landed
    expecting: tuple = ()  # Lines that said how many bytes to expect
    arrived: dict = field(default_factory=dict)  # (code, line number) -> arrivals in this phase
    before: tuple = ({}, {})  # the same of the two phases before this one
    # (block, warp) -> the last phase that it has seen completed
    passed: dict = field(default_factory=dict)

    def step(self) -> bool:
        """Complete the phase if nothing is pending; whether it did."""
        if self.pending or self.bytes:
            return False
        self.phase += 1
        self.pending = self.count
        self.expected = self.sent = 0
        self.senders, self.expecting = (), ()
        self.before, self.arrived = (self.before[1], self.arrived), {}
        return True

    def arrive(self, arrivals: int) -> None:
        self.pending -= arrivals
        frame = kernel_frame()
        place = frame.f_code, frame.f_lineno
        self.arrived[place] = self.arrived.get(place, 0) + arrivals

    def outstanding(self) -> str:
        """What the running phase still waits for, who counts it, and who has come."""
        return (
            f"phase {self.phase}: {counted(self.pending, 'arrival')} and {self.bytes} bytes outstanding; {self.line.where} counts "
            f"{counted(self.count, 'arrival')}, and {_from_where(self.arrived) or 'none'} came"
        )

    def missed(self, warp: tuple) -> str:
        """What to say where a phase of the parity that a warp waits for was complete, and the next one, too, before it came."""
        if self.phase - self.passed.get(warp, -1) <= 2:
            return ""
        places = dict.fromkeys((*self.before[0], *self.before[1]))
        came = {place: sum(one.get(place, 0) for one in self.before) for place in places}
        by = f", with {_from_where(came)}" if came else ""
        return (
            f"; this wait has missed phase {self.phase - 2}, of the same parity: that one and phase {self.phase - 1} are over{by}. "
            "Do more threads arrive than are counted, or does one arrive too soon?"
        )

    def expect(self, nbytes: int) -> None:
        self.bytes += nbytes
        self.expected += nbytes
        if nbytes:
            self.expecting += (here(),)


def _from_where(arrived: dict) -> str:
    """ "32 from kernel.py:7, 1 from kernel.py:9" of arrivals by place."""
    lines = ((n, line_of(code.co_filename, at, code.co_name)) for (code, at), n in arrived.items())
    return ", ".join(f"{n} from {line.where}" for n, line in lines)


def _rows_and_offsets(pointer: Pointer, peer) -> tuple:
    """Where each lane's mbarrier is: the row of its block's memory, and the byte there, (B, T) each."""
    g = group()
    if peer is not None:
        pointer = map_dsmem_ptr(pointer, peer)
    rows = group_rows() if pointer.rows is None else pointer.rows
    return spread(rows, g.shape), spread(np.asarray(pointer.offset) * pointer.dtype.itemsize, g.shape)


def places(pointer: Pointer, peer=None):
    """(row, byte offset, block, thread) of each active lane's mbarrier."""
    rows, offset = _rows_and_offsets(pointer, peer)
    for b, t in zip(*np.nonzero(group().active())):
        yield int(rows[b, t]), int(offset[b, t]), b, t


def distinct(pointer: Pointer) -> list:
    """(row, byte offset, active lanes) of the mbarriers that the group names."""
    g = group()
    active = g.active()
    rows = group_rows() if pointer.rows is None else pointer.rows
    offset = np.asarray(pointer.offset) * pointer.dtype.itemsize
    if offset.size == 1 and rows.shape[-1] == 1:  # one a block
        lanes = np.broadcast_to(active.sum(axis=1)[:, None], (len(g.blocks), 1))
        rows = np.broadcast_to(rows, lanes.shape)
        return [(int(r), int(offset.reshape(-1)[0]), int(n)) for r, n in zip(rows.flat, lanes.flat) if n]
    keys = np.broadcast_to(rows * g.launch.smem_stride + offset, g.shape)[active]
    found, lanes = np.unique(keys, return_counts=True)
    return [(*divmod(int(key), g.launch.smem_stride), int(n)) for key, n in zip(found, lanes)]


def find(row: int, offset: int, what: str) -> MBarrier:
    launch = group().launch
    found = launch.mbarriers.get((row, offset))
    if found is None:
        block = int(launch.row_blocks[row])
        own = len(group().blocks) == 1 and int(group().blocks[0]) == block
        barrier = "cute.arch.barrier()" if own else "a cluster barrier (cluster_arrive, cluster_wait)"
        raise fail(
            "mbarrier not initialised",
            f"{what} uses an mbarrier of block {block} that is not initialised yet. mbarrier_init by one thread of that block, "
            f"mbarrier_init_fence and {barrier} must come first.",
            block=block,
        )
    return found


def lane_rows(pointer: Pointer, peer=None) -> np.ndarray:
    """The trace's addresses of each lane's mbarrier."""
    g = group()
    rows, offset = _rows_and_offsets(pointer, peer)
    return np.where(g.active(), g.launch.row_blocks[rows] << SMEM_BLOCK_BITS | offset, -1)[0]


def _record(op: Op, pointer, peer=None, **facts) -> None:
    if STATE.run.recorder is None:
        return
    own = peer is None and pointer.rows is None
    space = Space.SMEM if own else Space.DSMEM
    record_event(op, space=space, nbytes=8, addresses=lane_rows(pointer, peer), **facts)


@by_warp
def mbarrier_init(mbar_ptr, cnt, **_) -> None:
    """One phase completes after `cnt` arrivals (and the bytes expected)."""
    count = int(scalar(cnt).a.reshape(-1)[0])
    if not 1 <= count < 1 << 20:
        raise refused(f"mbarrier_init: the arrival count must be 1 to {(1 << 20) - 1}, got {count}")
    _record(Op.MBARRIER_INIT, mbar_ptr, arg=count)
    made = set()  # by this instruction: several lanes that say the same thing at once are let pass
    for row, offset, _, _ in places(mbar_ptr):
        if offset % 8:
            text = f"an mbarrier needs 8-byte alignment; this one is at shared byte {offset}"
            raise fail("misaligned", text)
        if offset + 8 > group().launch.smem_used:
            held = f"the block has allocated {group().launch.smem_used} bytes of shared memory"
            text = f"Out of bounds: {held}, and this mbarrier ends at byte {offset + 7}. Allocate an Int64 for each mbarrier"
            raise fail("out of bounds", text)
        launch = group().launch
        block, before = int(launch.row_blocks[row]), launch.mbarriers.get((row, offset))
        if before is not None and before.block == block and (row, offset) not in made:
            raise fail(
                "mbarrier initialised again",
                f"mbarrier_init of an mbarrier that block {block} has initialised already ({before.line.where}): its phase and "
                "counts would be lost under those who wait. Initialise it once, by one thread, before the first use.",
                lines=(here(), before.line),
                block=block,
            )
        launch.mbarriers[(row, offset)] = MBarrier(count, count, block, here())
        made.add((row, offset))


def mbarrier_init_fence(**_) -> None:
    record_event(Op.FENCE, arg=int(FenceKind.MBARRIER_INIT))


def _amount(x, b: int, t: int) -> int:
    a = np.broadcast_to(scalar(x).a, group().shape)
    return int(a[b, t])


def mbarrier_arrive(mbar_ptr, peer_cta_rank_in_cluster=None, arrive_count=1, **how) -> None:
    _arrive("mbarrier_arrive", mbar_ptr, peer_cta_rank_in_cluster, arrive_count, 0, **how)


def mbarrier_arrive_and_expect_tx(mbar_ptr, bytes, peer_cta_rank_in_cluster=None, *how, **named) -> None:
    _arrive("mbarrier_arrive_and_expect_tx", mbar_ptr, peer_cta_rank_in_cluster, 1, bytes, *how, **named)


@by_warp
def _arrive(name: str, pointer, peer, count, nbytes, relaxed=False, scope=None, **_) -> None:
    if relaxed:
        raise not_simulated(f"{name} with relaxed=True")
    phase = None
    for row, offset, b, t in places(pointer, peer):
        barrier = find(row, offset, name)
        phase = barrier.phase if phase is None else phase
        amount, arrivals = _amount(nbytes, b, t), _amount(count, b, t)
        barrier.expect(amount)
        if arrivals > barrier.pending:
            counted_ = f"mbarrier_init counted ({barrier.count}) in phase {barrier.phase}"
            raise fail("mbarrier arrivals", f"{name}: more arrivals than {counted_}")
        barrier.arrive(arrivals)
        barrier.step()
    if phase is not None:
        shown, unreached = int(scalar(nbytes).a.reshape(-1)[0]), None
        if str(scope).rpartition(".")[2].lower() == "cta" and STATE.run.recorder is not None:
            at = lane_rows(pointer, peer)
            unreached = np.where(at >> SMEM_BLOCK_BITS == group().blocks[0], -1, at)
        _record(Op.MBARRIER_ARRIVE, pointer, peer, sources=unreached, arg=shown, arg2=phase)


@by_warp
def mbarrier_expect_tx(mbar_ptr, bytes, peer_cta_rank_in_cluster=None, **_) -> None:
    for row, offset, b, t in places(mbar_ptr, peer_cta_rank_in_cluster):
        find(row, offset, "mbarrier_expect_tx").expect(_amount(bytes, b, t))
    shown = int(scalar(bytes).a.reshape(-1)[0])
    _record(Op.MBARRIER_EXPECT, mbar_ptr, peer_cta_rank_in_cluster, arg=shown)


def _parity(phase) -> int:
    g = group()
    flat = np.broadcast_to(scalar(phase).a, g.shape)[g.active()]
    if (flat != flat[0]).any():
        if g.warp < 0:
            raise NeedsWarps
        raise not_simulated("lanes of one warp that wait for different phases")
    if int(flat[0]) not in (0, 1):
        raise refused(f"an mbarrier is waited for by parity, 0 or 1, not {int(flat[0])}")
    return int(flat[0])


def _done(barriers: list, parity: int) -> bool:
    return all(barrier.phase % 2 != parity for barrier in barriers)


def _acquired(barrier: MBarrier) -> int:
    return barrier.phase - 1  # -1: a fresh mbarrier passed by parity, which acquires nothing


def _asked(name: str, pointer, phase) -> tuple:
    """(the mbarriers that the group asks, the parity); in the fast mode their phases must be complete."""
    parity = _parity(phase)
    barriers = [find(row, offset, name) for row, offset, _ in distinct(pointer)]
    if group().warp < 0 and not _done(barriers, parity):
        raise NeedsWarps
    return barriers, parity


class _Yes(Value):
    """That phases were complete when a warp asked: who looks at it goes on with what they order, and who does not must take it
    that they were not."""

    __slots__ = ("pointer", "facts", "group", "unaware")

    def __init__(self, pointer, **facts):
        self.dtype, self.pointer, self.facts, self.group = Boolean, pointer, facts, group()
        self.unaware = self.group.active().copy()  # lanes that have not looked

    @property
    def a(self) -> np.ndarray:
        g = STATE.group
        if g is self.group:
            looking = self.unaware & g.active()
            if looking.any():
                self.unaware, STATE.run.believed = self.unaware & ~looking, True
                g.push(looking)
                _record(Op.MBARRIER_RESUME, self.pointer, **self.facts)
                g.pop()
        return np.array([[True]])


@by_warp
def mbarrier_wait(mbar_ptr, phase, **_):
    """Wait until the phase of that parity has completed."""
    barriers, parity = _asked("mbarrier_wait", mbar_ptr, phase)
    return None if group().warp < 0 else Pending(_wait_for_phase(mbar_ptr, barriers, parity))


def _wait_for_phase(pointer, barriers: list, parity: int):
    line, warp = here(), (int(group().blocks[0]), group().warp)
    _record(Op.MBARRIER_WAIT, pointer, arg=parity)

    ready = functools.partial(_done, barriers, parity)

    def state():
        b = next(b for b in barriers if not _done([b], parity))
        return f"an mbarrier ({b.outstanding()}{b.missed(warp)})"

    def mismatch():
        never = (b for b in barriers if not _done([b], parity) and b.pending == 0 and b.bytes)
        return next((_mismatch(b, line) for b in never), "")

    first = STATE.run.order is not None  # others may come between the code before and the wait
    while first or not ready():
        yield Waiting(ready, state, line, mismatch)
        first = False
    for b in barriers:
        b.passed[warp] = _acquired(b)
    _record(Op.MBARRIER_RESUME, pointer, arg=parity, arg2=_acquired(barriers[0]) if barriers else -1)


def _mismatch(barrier: MBarrier, wait: Line):
    """(what, lines): bytes that were said and bytes that came, where the one will never be the other."""
    said = tuple(dict.fromkeys(barrier.expecting))
    sent = tuple(dict.fromkeys(line for line, _ in barrier.senders))
    blocks = sorted({block for _, block in barrier.senders})
    places = ", ".join(line.where for line in sent)
    came = f"{barrier.sent} came" + (f", from {blocks_named(blocks)} ({places})" if sent else "")
    text = (
        f"mbarrier byte mismatch: block {barrier.block} expects {barrier.expected} bytes in phase {barrier.phase}, and {came}; "
        f"the wait at {wait.where} never ends."
    )
    return text, (*said, wait)


def blocks_named(blocks) -> str:
    return f"block{'s' * (len(blocks) > 1)} {ranges(blocks)}"


def mbarrier_try_wait(mbar_ptr, phase, **_):
    """Whether the phase has completed; other warps run before it says no."""
    return _asks("try_wait", mbar_ptr, phase)


def mbarrier_test_wait(mbar_ptr, phase, **_):
    """Whether the phase has completed, without blocking: False only once nothing else can go on."""
    return _asks("test_wait", mbar_ptr, phase)


def _asks(how: str, pointer, phase):
    needs_warps()
    barriers, parity = _asked(f"mbarrier_{how}", pointer, phase)
    if group().warp < 0:
        return Value(Boolean, np.array([[True]]))
    return Pending(_answer(how, pointer, barriers, parity))


def _comes_too_early(barriers, parity) -> bool:
    """Whether this warp is told that the phase is not complete, in a run that tells each so once."""
    if STATE.run.doubted is None:
        return False
    g, before = group(), len(STATE.run.doubted)
    STATE.run.doubted.update((g.blocks[0], g.warp, id(b), b.phase - _done([b], parity)) for b in barriers)
    return len(STATE.run.doubted) > before


def _answer(how: str, pointer, barriers, parity):
    early, done = _comes_too_early(barriers, parity), functools.partial(_done, barriers, parity)
    # Where orders are chosen it says what is so when it comes: how long a try waits is not known, perhaps not at all.
    if not early and STATE.run.order is None and not done():
        yield Waiting(done, f"an mbarrier ({how})", here(), gives_up=how == "test_wait")
    if early or not done():
        _record(Op.MBARRIER_WAIT, pointer, arg=parity, arg2=1)
        return Value(Boolean, np.array([[False]]))
    _record(Op.MBARRIER_WAIT, pointer, arg=parity, arg2=2)
    return _Yes(pointer, arg=parity, arg2=_acquired(barriers[0]) if barriers else -1)
