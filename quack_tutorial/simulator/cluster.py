"""Thread-block clusters: ranks, distributed shared memory, cluster barriers, mbarriers, st.async and bulk copies.

| operation                         | orders                                                                  |
|-----------------------------------|-------------------------------------------------------------------------|
| `cluster_arrive`, `cluster_wait`  | ordinary memory of the cluster (a relaxed arrive: none)                  |
| `mbarrier_arrive`, `mbarrier_wait`| what the arriving threads did before, for who sees the phase complete    |
| `store_async_dsmem`, bulk copies  | their own bytes, through the mbarrier's transaction count               |

A phase completes when no arrival and no byte is pending; the byte count is signed, so bytes may land before they are
expected. In the checked mode an asynchronous transfer lands only when every warp waits. Sources: PTX ISA 9.0, mbarrier,
st.async, cp.async.bulk, barrier.cluster, mapa. Not covered: multicast, tensor maps.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace

import numpy as np

from quack_tutorial.trace import BULK_WAIT, READ_WAIT, FenceKind, Line, Op, Space

from . import memory as m
from .context import STATE, NeedsWarps, fail, group, here, kernel_frame, line_of, not_simulated
from .control import Pending, constant_number
from .numeric import Boolean, Int32, Value, scalar
from .scheduler import Barrier, Waiting, ranges
from .tensor import element_offsets

# ---- who a block is -------------------------------------------------------------------------------------------------


def _int32(a) -> Value:
    return Value(Int32, np.atleast_2d(np.asarray(a)).astype(np.int32))


def block_idx_in_cluster(**_) -> Value:
    g = group()
    return _int32((g.rows % g.launch.cluster_size)[:, None])


def block_in_cluster_idx(**_):
    g = group()
    cx, cy, _ = g.launch.cluster
    rank = (g.rows % g.launch.cluster_size)[:, None]
    return _int32(rank % cx), _int32(rank // cx % cy), _int32(rank // (cx * cy))


def block_in_cluster_dim(**_):
    return tuple(_int32(c) for c in group().launch.cluster)


def cluster_size(**_) -> Value:
    return _int32(group().launch.cluster_size)


def cluster_idx(**_):
    g = group()
    (gx, gy, _), (cx, cy, cz) = g.launch.grid, g.launch.cluster
    b = g.blocks[:, None]
    return _int32(b % gx // cx), _int32(b // gx % gy // cy), _int32(b // (gx * gy) // cz)


def map_dsmem_ptr(smem_ptr: m.Pointer, cta_rank_in_cluster, **_) -> m.Pointer:
    """mapa: the same shared-memory offset in the block of that rank."""
    if not isinstance(smem_ptr, m.Pointer) or smem_ptr.memory.space is not Space.SMEM:
        raise fail("language", "map_dsmem_ptr takes a pointer to shared memory")
    g = group()
    size = g.launch.cluster_size
    rank = scalar(cta_rank_in_cluster).a.astype(np.int64)
    bad = ((rank < 0) | (rank >= size)) & g.active()
    if bad.any():
        worst = int(np.broadcast_to(rank, g.shape)[bad][0])
        raise fail("cluster", f"block rank {worst} does not exist: the cluster has {size} blocks")
    rank = np.clip(rank, 0, size - 1)
    return replace(smem_ptr, rows=g.rows[:, None] // size * size + rank)


# ---- cluster barrier ------------------------------------------------------------------------------------------------


def _cluster_barrier(g) -> Barrier:
    first = int(g.rows[0]) // g.launch.cluster_size * g.launch.cluster_size
    return g.launch.cluster_barriers.setdefault(first, Barrier())


def _cluster_arrive(relaxed: bool) -> None:
    from .arch import _whole_warps

    g = group()
    _whole_warps("cluster_arrive")
    if g.warp < 0:
        return
    barrier = _cluster_barrier(g)
    if g.cluster_generation == barrier.generation:
        raise fail("cluster", "this warp arrives twice at the cluster barrier without cluster_wait between")
    g.cluster_generation = barrier.generation
    m.record_event(Op.CLUSTER_ARRIVE, arg=int(relaxed), arg2=barrier.generation)
    barrier.arrived += 1
    if barrier.arrived == g.launch.cluster_size * -(-g.launch.threads // m.WARP):
        barrier.generation += 1
        barrier.arrived = 0


def cluster_arrive(*, aligned=None, **_) -> None:
    _cluster_arrive(False)


def cluster_arrive_relaxed(*, aligned=None, **_) -> None:
    """Arrive without releasing: orders no ordinary memory access."""
    _cluster_arrive(True)


def cluster_wait(**_):
    from .arch import _whole_warps

    g = group()
    _whole_warps("cluster_wait")
    if g.warp < 0:
        return None
    if g.cluster_generation < 0:
        raise fail("cluster", "cluster_wait before cluster_arrive")
    return Pending(_wait_for_cluster(g, _cluster_barrier(g)))


def _wait_for_cluster(g, barrier):
    line, generation = here(), g.cluster_generation
    m.record_event(Op.CLUSTER_WAIT, arg2=generation)
    while barrier.generation == generation:
        yield Waiting(lambda: barrier.generation != generation, "the cluster barrier", line)
    m.record_event(Op.CLUSTER_RESUME, arg2=generation)


# ---- mbarriers ------------------------------------------------------------------------------------------------------


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
    passed: dict = field(default_factory=dict)  # (block, warp) -> the last phase that it has seen completed

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
            f"phase {self.phase}: {_count(self.pending, 'arrival')} and {self.bytes} bytes outstanding; {self.line.where} counts "
            f"{_count(self.count, 'arrival')}, and {_from_where(self.arrived) or 'none'} came"
        )

    def missed(self, warp: tuple) -> str:
        """What to say where a phase of the parity that a warp waits for was complete, and the next one, too, before it came."""
        if self.phase - self.passed.get(warp, -1) <= 2:
            return ""
        came = {place: sum(one.get(place, 0) for one in self.before) for place in {**self.before[0], **self.before[1]}}
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
    return ", ".join(
        f"{n} from {line_of(code.co_filename, number, code.co_name).where}" for (code, number), n in arrived.items()
    )


def _places(pointer: m.Pointer, peer=None):
    """(row, byte offset, block, thread) of each active lane's mbarrier."""
    g = group()
    if peer is not None:
        pointer = map_dsmem_ptr(pointer, peer)
    rows = np.broadcast_to(m.group_rows() if pointer.rows is None else pointer.rows, g.shape)
    offset = np.broadcast_to(np.asarray(pointer.offset) * pointer.dtype.itemsize, g.shape)
    for b, t in zip(*np.nonzero(g.active())):
        yield int(rows[b, t]), int(offset[b, t]), b, t


def _distinct(pointer: m.Pointer) -> list:
    """(row, byte offset, active lanes) of the mbarriers that the group names."""
    g = group()
    active = g.active()
    rows = m.group_rows() if pointer.rows is None else pointer.rows
    offset = np.asarray(pointer.offset) * pointer.dtype.itemsize
    if offset.size == 1 and rows.shape[-1] == 1:  # one a block
        lanes = np.broadcast_to(active.sum(axis=1)[:, None], (len(g.blocks), 1))
        rows = np.broadcast_to(rows, lanes.shape)
        return [(int(r), int(offset.reshape(-1)[0]), int(n)) for r, n in zip(rows.flat, lanes.flat) if n]
    keys = np.broadcast_to(rows * g.launch.smem_stride + offset, g.shape)[active]
    found, lanes = np.unique(keys, return_counts=True)
    return [(*divmod(int(key), g.launch.smem_stride), int(n)) for key, n in zip(found, lanes)]


def _find(row: int, offset: int, what: str) -> MBarrier:
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


def _lane_rows(pointer: m.Pointer, peer=None) -> np.ndarray:
    """The trace's addresses of each lane's mbarrier."""
    g = group()
    out = np.full(m.WARP, -1, np.int64)
    for row, offset, _, t in _places(pointer, peer):
        out[t] = (int(g.launch.row_blocks[row]) << m.SMEM_BLOCK_BITS) | offset
    return out


def _record(op: Op, pointer, peer=None, **facts) -> None:
    if STATE.run.recorder is None:
        return
    remote = peer is not None or pointer.rows is not None
    m.record_event(
        op, space=Space.DSMEM if remote else Space.SMEM, nbytes=8, addresses=_lane_rows(pointer, peer), **facts
    )


def mbarrier_init(mbar_ptr, cnt, **_) -> None:
    """One phase completes after `cnt` arrivals (and the bytes expected)."""
    count = int(scalar(cnt).a.reshape(-1)[0])
    if not 1 <= count < 1 << 20:
        raise fail("language", f"mbarrier_init: the arrival count must be 1 to {(1 << 20) - 1}, got {count}")
    _record(Op.MBARRIER_INIT, mbar_ptr, arg=count)
    made = set()  # by this instruction: several lanes that say the same thing at once are let pass
    for row, offset, _, _ in _places(mbar_ptr):
        if offset % 8:
            raise fail("misaligned", f"an mbarrier needs 8-byte alignment; this one is at shared byte {offset}")
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
    m.record_event(Op.FENCE, arg=int(FenceKind.MBARRIER_INIT))


def _amount(x, b: int, t: int) -> int:
    a = np.broadcast_to(scalar(x).a, group().shape)
    return int(a[b, t])


def mbarrier_arrive(mbar_ptr, peer_cta_rank_in_cluster=None, arrive_count=1, **_) -> None:
    _arrive("mbarrier_arrive", mbar_ptr, peer_cta_rank_in_cluster, arrive_count, 0)


def mbarrier_arrive_and_expect_tx(mbar_ptr, bytes, peer_cta_rank_in_cluster=None, *_, **__) -> None:
    _arrive("mbarrier_arrive_and_expect_tx", mbar_ptr, peer_cta_rank_in_cluster, 1, bytes)


def _arrive(name: str, pointer, peer, count, nbytes) -> None:
    phase = None
    for row, offset, b, t in _places(pointer, peer):
        barrier = _find(row, offset, name)
        phase = barrier.phase if phase is None else phase
        amount, arrivals = _amount(nbytes, b, t), _amount(count, b, t)
        barrier.expect(amount)
        if arrivals > barrier.pending:
            raise fail(
                "mbarrier arrivals",
                f"{name}: more arrivals than mbarrier_init counted ({barrier.count}) in phase {barrier.phase}",
            )
        barrier.arrive(arrivals)
        barrier.step()
    if phase is not None:
        shown = int(scalar(nbytes).a.reshape(-1)[0])
        _record(Op.MBARRIER_ARRIVE, pointer, peer, arg=shown, arg2=phase)


def mbarrier_expect_tx(mbar_ptr, bytes, peer_cta_rank_in_cluster=None, **_) -> None:
    for row, offset, b, t in _places(mbar_ptr, peer_cta_rank_in_cluster):
        _find(row, offset, "mbarrier_expect_tx").expect(_amount(bytes, b, t))
    _record(Op.MBARRIER_EXPECT, mbar_ptr, peer_cta_rank_in_cluster, arg=int(scalar(bytes).a.reshape(-1)[0]))


def _parity(phase) -> int:
    g = group()
    flat = np.broadcast_to(scalar(phase).a, g.shape)[g.active()]
    if (flat != flat[0]).any():
        if g.warp < 0:
            raise NeedsWarps
        raise not_simulated("lanes of one warp that wait for different phases")
    if int(flat[0]) not in (0, 1):
        raise fail("language", f"an mbarrier is waited for by parity, 0 or 1, not {int(flat[0])}")
    return int(flat[0])


def _done(barrier: MBarrier, parity: int) -> bool:
    return barrier.phase % 2 != parity


def _acquired(barrier: MBarrier) -> int:
    return barrier.phase - 1  # -1: a fresh mbarrier passed by parity, which acquires nothing


def mbarrier_wait(mbar_ptr, phase, **_):
    """Wait until the phase of that parity has completed."""
    g = group()
    parity = _parity(phase)
    barriers = [_find(row, offset, "mbarrier_wait") for row, offset, _ in _distinct(mbar_ptr)]
    if g.warp < 0:
        if not all(_done(b, parity) for b in barriers):
            raise NeedsWarps
        return None
    return Pending(_wait_for_phase(mbar_ptr, barriers, parity))


def _wait_for_phase(pointer, barriers: list, parity: int):
    line, warp = here(), (int(group().blocks[0]), group().warp)
    _record(Op.MBARRIER_WAIT, pointer, arg=parity)

    def ready():
        return all(_done(b, parity) for b in barriers)

    def state():
        b = next(b for b in barriers if not _done(b, parity))
        return f"an mbarrier ({b.outstanding()}{b.missed(warp)})"

    def mismatch():
        for b in barriers:
            if not _done(b, parity) and b.pending == 0 and b.bytes:
                return _mismatch(b, line)
        return ""

    if STATE.run.order is not None:  # others may come between the code before and the wait
        yield Waiting(ready, state, line, mismatch)
    while not ready():
        yield Waiting(ready, state, line, mismatch)
    for b in barriers:
        b.passed[warp] = _acquired(b)
    _record(Op.MBARRIER_RESUME, pointer, arg=parity, arg2=_acquired(barriers[0]) if barriers else -1)


def _mismatch(barrier: MBarrier, wait: Line):
    """(what, lines): bytes that were said and bytes that came, where the one will never be the other."""
    said = tuple(dict.fromkeys(barrier.expecting))
    sent = tuple(dict.fromkeys(line for line, _ in barrier.senders))
    blocks = sorted({block for _, block in barrier.senders})
    places = ", ".join(line.where for line in sent)
    came = f"{barrier.sent} came" + (f", from {_blocks(blocks)} ({places})" if sent else "")
    text = (
        f"mbarrier byte mismatch: block {barrier.block} expects {barrier.expected} bytes in phase {barrier.phase}, and {came}; "
        f"the wait at {wait.where} never ends."
    )
    return text, (*said, wait)


def _blocks(blocks) -> str:
    return f"block{'s' * (len(blocks) > 1)} {ranges(blocks)}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"


def mbarrier_try_wait(mbar_ptr, phase, **_):
    """Whether the phase has completed; other warps run before it says no."""
    g = group()
    parity = _parity(phase)
    barriers = [_find(row, offset, "mbarrier_try_wait") for row, offset, _ in _distinct(mbar_ptr)]
    done = all(_done(b, parity) for b in barriers)
    if g.warp < 0:
        if not done:
            raise NeedsWarps
        return Value(Boolean, np.array([[True]]))
    return Pending(_try(mbar_ptr, barriers, parity))


def _try(pointer, barriers, parity):
    line = here()
    done = all(_done(b, parity) for b in barriers)
    if not done or STATE.run.order is not None:
        yield Waiting(lambda: all(_done(b, parity) for b in barriers), "an mbarrier (try_wait)", line)
    _record(Op.MBARRIER_RESUME, pointer, arg=parity, arg2=_acquired(barriers[0]) if barriers else -1)
    return Value(Boolean, np.array([[True]]))


def mbarrier_test_wait(mbar_ptr, phase, **_):
    """Whether the phase has completed, without blocking: False only once nothing else can go on."""
    g = group()
    parity = _parity(phase)
    barriers = [_find(row, offset, "mbarrier_test_wait") for row, offset, _ in _distinct(mbar_ptr)]
    if g.warp < 0:
        if not all(_done(b, parity) for b in barriers):
            raise NeedsWarps
        return Value(Boolean, np.array([[True]]))
    return Pending(_test(mbar_ptr, barriers, parity))


def _test(pointer, barriers, parity):
    def ready():
        return all(_done(b, parity) for b in barriers)

    if STATE.run.order is not None:  # it says what is so when it comes
        _record(Op.MBARRIER_WAIT, pointer, arg=parity, arg2=1)
    elif not ready():
        yield Waiting(ready, "an mbarrier (test_wait)", here(), gives_up=True)
    done = ready()
    if done:
        _record(Op.MBARRIER_RESUME, pointer, arg=parity, arg2=_acquired(barriers[0]) if barriers else -1)
    return Value(Boolean, np.array([[done]]))


# ---- asynchronous transfers -----------------------------------------------------------------------------------------


@dataclass
class Transfer:
    """Bytes under way to a block's shared memory, counted by an mbarrier when they land."""

    move: object  # function: writes the bytes
    nbytes: int
    row: int  # whose mbarrier counts them
    offset: int
    target_row: int
    issued_by: int  # block
    where: object  # trace.Line
    step: int
    launch: object
    group: object

    def land(self) -> bool:
        """Write and count the bytes; whether that completed the mbarrier's phase."""
        outer, STATE.group = STATE.group, self.group
        try:
            self.move()
            barrier = _find(self.row, self.offset, f"the transfer from {self.where.where}")
            barrier.bytes -= self.nbytes
            barrier.sent += self.nbytes
            barrier.senders += ((self.where, self.issued_by),)
            recorder = STATE.run.recorder
            if recorder is not None:
                line = recorder.line(self.where.file, self.where.number, self.where.text, self.where.function)
                address = (int(self.launch.row_blocks[self.row]) << m.SMEM_BLOCK_BITS) | self.offset
                addresses = np.full(m.WARP, -1, np.int64)
                addresses[0] = address
                recorder.event(
                    self.issued_by,
                    self.group.warp,
                    line,
                    Op.ASYNC_DONE,
                    1,
                    space=Space.DSMEM,
                    addresses=addresses,
                    arg=self.step,
                    arg2=barrier.phase,
                )
            return barrier.step()
        finally:
            STATE.group = outer

    def check_target_alive(self, launch, block: int) -> None:
        if int(launch.row_blocks[self.target_row]) == block:
            same = [t for t in launch.in_flight if t.target_row == self.target_row]
            nbytes, senders = sum(t.nbytes for t in same), sorted({t.issued_by for t in same})
            raise fail(
                "exit with traffic in flight",
                f"Block {block} exited with {nbytes} bytes still in flight to its shared memory, sent by {_blocks(senders)}. "
                "Let it wait at the mbarrier that counts them before it ends.",
                lines=tuple(dict.fromkeys(t.where for t in same)),
                block=block,
            )

    def orphaned(self) -> None:
        self.check_target_alive(self.launch, int(self.launch.row_blocks[self.target_row]))


def _issue(transfer: Transfer) -> None:
    if group().warp < 0:
        transfer.land()
    else:
        transfer.launch.in_flight.append(transfer)


def store_async_dsmem(smem_ptr, value, mbar_ptr, peer_cta_rank, **_) -> None:
    """st.async: 4, 8 or 16 bytes into a block of the cluster, counted by that block's mbarrier."""
    parts = tuple(scalar(v) for v in (value if isinstance(value, tuple) else (value,)))
    if len(parts) not in (1, 2, 4) or any(p.dtype.width != 32 for p in parts):
        raise fail("language", "store_async_dsmem takes one, two or four 32-bit values")
    nbytes = 4 * len(parts)
    if smem_ptr.alignment < nbytes:
        raise fail(
            "misaligned",
            f"store_async_dsmem sends {nbytes} bytes at once, and this pointer is known to be at a multiple of "
            f"{smem_ptr.alignment} only: where it is at one of {nbytes}, write (...).align({nbytes})",
        )
    converted = next((p.dtype for p in parts if p.dtype.is_float), None)
    if converted:
        says = (
            f"{here().where}: store_async_dsmem takes integers, so this {converted} is converted to one and loses its fraction, "
            "as on a GPU: send .bitcast(cutlass.Int32)."
        )
        if says not in STATE.run.notes:
            STATE.run.notes.append(says)
    send_words(smem_ptr, tuple(p.to(Int32) for p in parts), mbar_ptr, peer_cta_rank)


def send_words(smem_ptr, parts, mbar_ptr, peer_cta_rank) -> None:
    """st.async of these 32-bit words, wherever the pointer is known to be."""
    g = group()
    target, barrier = map_dsmem_ptr(smem_ptr, peer_cta_rank), map_dsmem_ptr(mbar_ptr, peer_cta_rank)
    nbytes = 4 * len(parts)
    words = replace(target, dtype=Int32, offset=np.asarray(target.offset) * target.dtype.itemsize // 4)
    first = np.arange(len(parts), dtype=np.int64)
    m.check(words, first[:1], len(parts), m._lanes(None, 1), Op.STORE)
    flat, index = m._flat_index(words, first)
    index = np.broadcast_to(index, g.shape + (len(parts),))
    raw = np.stack([np.broadcast_to(p.bitcast(Int32).a, g.shape) for p in parts], axis=2)
    step = -1
    if STATE.run.recorder is not None:
        lanes = g.active()[0]
        addresses = np.where(lanes, m.lane_addresses(words, index[0, :, 0]), -1)
        first_word = smem_ptr.dtype if smem_ptr.dtype.width == 32 else Int32
        values = first_word.decode(raw[0, :, 0].astype(np.int32).view(first_word.storage)).astype(np.float64)
        step = m.record_event(
            Op.STORE_ASYNC,
            space=Space.DSMEM,
            tensor=m.tensor_index(STATE.run.recorder, smem_ptr.memory),
            nbytes=nbytes,
            addresses=addresses,
            sources=_lane_rows(mbar_ptr, peer_cta_rank),
            values=np.where(lanes, values, np.nan),
        )
    if g.warp < 0:
        m.scatter(flat, index[..., :1], raw, len(parts), m._lanes(None, 1))
        for row, offset, lanes in _distinct(barrier):
            _landed(_find(row, offset, "store_async_dsmem"), lanes * nbytes)
        return
    where = here()
    target_rows = np.broadcast_to(target.rows, g.shape)
    for row, offset, b, t in _places(barrier):
        _find(row, offset, "store_async_dsmem")
        _require_alive(int(target_rows[b, t]), where)

        block = int(g.blocks[b])
        move = functools.partial(_store_words, flat, index[b, t].copy(), raw[b, t].copy())
        _issue(Transfer(move, nbytes, row, offset, int(target_rows[b, t]), block, where, step, g.launch, g))


def _landed(barrier: MBarrier, nbytes: int) -> None:
    barrier.bytes -= nbytes
    barrier.sent += nbytes
    barrier.step()


def _store_words(flat, index, words) -> None:
    if STATE.exact:
        STATE.run.shadows.store(flat, index, words)
    flat[index] = words


def _require_alive(row: int, where) -> None:
    launch = group().launch
    block = int(launch.row_blocks[row])
    if group().warp >= 0 and launch.live_warps.get(block, 1) == 0:
        raise fail(
            "exit with traffic in flight",
            f"this writes to the shared memory of block {block}, which has exited. Is the closing cluster barrier missing?",
            block=block,
        )


@dataclass(eq=False)
class BulkMove:
    """One bulk copy's bytes: read, then written, each as late as is legal."""

    source_flat: np.ndarray
    source: int
    target_flat: np.ndarray
    target: int
    count: int
    data: np.ndarray | None = None

    def read(self) -> None:
        if self.data is None:
            self.data = self.source_flat[self.source : self.source + self.count].copy()

    def write(self) -> None:
        self.read()
        self.target_flat[self.target : self.target + self.count] = self.data
        if STATE.exact:
            STATE.run.shadows.move(self.source_flat, self.source, self.target_flat, self.target, self.count)


def bulk_copy(atom, src, dst, mbar_ptr=None) -> None:
    """cp.async.bulk by each active thread: a contiguous run between global and shared memory."""
    g = group()
    nbytes = len(element_offsets(src.layout)) * src.dtype.itemsize
    if nbytes % 16:
        raise fail("language", f"a bulk copy moves a multiple of 16 bytes, got {nbytes}")
    for side in (src, dst):
        offsets = element_offsets(side.layout)
        if (np.diff(offsets) != 1).any():
            raise fail("language", f"a bulk copy moves one contiguous run; {side} is not")
    count = len(element_offsets(src.layout))
    first = np.zeros(1, np.int64)
    active = g.active()
    if active.reshape(len(g.blocks), -1, m.WARP).sum(axis=2).max() > 1:
        raise fail(
            "language", "every active thread issues a bulk copy; let one do it: with cute.arch.elect_one() in one warp"
        )
    # 16 bytes at a time, as the alignment that the instruction asks for
    step = 16 // src.dtype.itemsize
    chunks = np.arange(0, count, step, dtype=np.int64)
    for side, op in ((src, Op.LOAD), (dst, Op.STORE)):
        m.check(side.pointer, chunks, step, m._lanes(None, len(chunks)), op, side.place(step))
    source_flat, source_index = m._flat_index(src.pointer, first)
    target_flat, target_index = m._flat_index(dst.pointer, first)
    to_shared = dst.memspace is Space.SMEM
    where = here()
    for b, t in zip(*np.nonzero(active)):
        s = int(np.broadcast_to(source_index, g.shape + (1,))[b, t, 0])
        d = int(np.broadcast_to(target_index, g.shape + (1,))[b, t, 0])

        move = BulkMove(source_flat, s, target_flat, d, count)
        step_number = _record_bulk(src, dst, s, d, nbytes, mbar_ptr)
        if not to_shared:
            STATE.run.before_write(dst.pointer.memory)
            g.bulk_open.append(move)
            if g.warp < 0:
                move.write()
            continue
        if mbar_ptr is None:
            raise fail("language", "a bulk copy to shared memory needs mbar_ptr=, which counts its bytes")
        row, offset = next((r, o) for r, o, bb, tt in _places(mbar_ptr) if (bb, tt) == (b, t))
        _find(row, offset, "the bulk copy")
        _issue(
            Transfer(move.write, nbytes, row, offset, int(g.rows[b]), int(g.blocks[b]), where, step_number, g.launch, g)
        )


def _record_bulk(src, dst, s: int, d: int, nbytes: int, mbar_ptr) -> int:
    recorder = STATE.run.recorder
    if recorder is None:
        return -1
    active = group().active()[0]

    def spread(tensor, at):
        return np.where(active, m.lane_addresses(tensor.pointer, np.full(m.WARP, at)), -1)

    m.tensor_index(recorder, src.pointer.memory)
    barrier = -1 if mbar_ptr is None else int(_lane_rows(mbar_ptr).max())
    return m.record_event(
        Op.BULK_COPY,
        space=dst.memspace,
        tensor=m.tensor_index(recorder, dst.pointer.memory),
        addresses=spread(dst, d),
        sources=spread(src, s),
        arg=nbytes,
        arg2=barrier,
    )


def cp_async_bulk_commit_group(**_) -> None:
    g = group()
    m.record_event(Op.COMMIT_GROUP, arg=1)
    g.bulk_groups.append(g.bulk_open)
    g.bulk_open = []


def cp_async_bulk_wait_group(group_count, read=None, **_) -> None:
    """Wait until at most that many bulk groups are under way; with read=True, until the others have read their sources.

    What has been read need not be in global memory yet: it may come there when the launch ends.
    """
    g = group()
    keep = constant_number(group_count, "cp_async_bulk_wait_group's count")
    m.record_event(Op.WAIT_GROUP, arg=keep, arg2=READ_WAIT if read else BULK_WAIT)
    if g.warp < 0:
        return
    if read:
        for move in [move for moves in g.bulk_groups[: max(0, len(g.bulk_groups) - keep)] for move in moves]:
            move.read()
        return
    while len(g.bulk_groups) > keep:
        for move in g.bulk_groups.pop(0):
            move.write()
