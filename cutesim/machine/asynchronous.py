"""Asynchronous copies: cp.async groups, st.async, bulk copies.

| operation                           | lands, in the checked mode                             | counted by           |
|-------------------------------------|--------------------------------------------------------|----------------------|
| cp.async                            | when cp.async.wait_group covers its group              | its group            |
| st.async, bulk copies to shared memory | when every warp waits                               | an mbarrier's bytes  |
| bulk copies to global memory        | when their group is waited for, or at the launch's end | their group          |

That is as late as is legal, so that a kernel which reads too early sees old bytes. In the fast mode all land at once. A lane
of cp.async whose predicate is false reads nothing and writes zeros. Sources: PTX ISA 9.0, cp.async, st.async, cp.async.bulk.
Not covered: multicast, tensor maps (`hopper.tensor_maps`).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from cutesim.trace import BULK_WAIT, READ_WAIT, SMEM_BLOCK_BITS, Op, Space

from ..context import STATE, WARP, fail, group, here, refused
from ..memory import pointers as m
from ..memory.bounds import check
from ..memory.log import by_warp
from ..memory.recording import lane_addresses, record_accesses, record_event, tensor_index
from ..memory.tensor import element_offsets
from ..values.numeric import Int32, Value, constant_number, scalar
from .cluster import map_dsmem_ptr
from .mbarriers import MBarrier, blocks_named, distinct, find, lane_rows, mbarrier_arrive, places


@dataclass
class AsyncCopy:
    """One issued cp.async: what to move when it lands."""

    source_flat: np.ndarray
    source_index: np.ndarray
    target_flat: np.ndarray
    target_index: np.ndarray
    width: int
    lanes: object  # that read
    writing: object  # those, and the ones that fill with zeros
    where: object  # trace.Line
    warp: int
    block: int

    def land(self) -> None:
        if STATE.run.played is not None:
            return
        index = self.source_index if self.lanes is None else np.where(self.lanes, self.source_index, 0)
        raw = m.gather(self.source_flat, index, self.width)
        if self.lanes is not None:
            lanes = np.broadcast_to(self.lanes, np.broadcast_shapes(self.lanes.shape, index.shape))
            raw = np.where(np.repeat(lanes, self.width, axis=2), raw, 0)
        raw = raw.astype(self.target_flat.dtype)
        m.scatter(self.target_flat, self.target_index, raw, self.width, self.writing)

    def orphaned(self) -> None:
        """The warp has exited with this copy under way."""
        raise fail(
            "async copy never waited for",
            f"Warp {self.warp} of block {self.block} ends while cp.async ({self.where.where}) is still copying. "
            "Is cp_async_commit_group or cp_async_wait_group missing?",
            lines=(self.where,),
            block=self.block,
        )


def issue_cp_async(src, dst, width: int, keep) -> None:
    first_s, first_d = (m.starts(element_offsets(t.layout), width) for t in (src, dst))
    source_flat, source_index = m._flat_index(src.pointer, first_s)
    target_flat, target_index = m._flat_index(dst.pointer, first_d)
    lanes, writing = m._lanes(keep, len(first_s)), m._lanes(None, len(first_s))
    check(src.pointer, first_s, width, lanes, Op.LOAD, src.place(width))
    check(dst.pointer, first_d, width, writing, Op.STORE)
    g = group()
    ends = source_flat, source_index, target_flat, target_index
    copy = AsyncCopy(*ends, width, lanes, writing, here(), g.warp, int(g.blocks[0]))
    _record(src, dst, width, lanes, source_index, target_index)
    if g.warp < 0:
        copy.land()
    if writing is None or writing.any():
        _go_under_way(copy)


@by_warp
def _go_under_way(copy: AsyncCopy) -> None:
    if group().warp >= 0:
        group().open_group.append(copy)


def _record(src, dst, width, lanes, source_index, target_index) -> None:
    if STATE.run.recorder is None:
        return
    g = group()
    spread = lambda a: np.broadcast_to(a, (*g.shape, target_index.shape[2]))  # noqa: E731
    active = spread(g.active()[..., None])
    read = active if lanes is None else spread(lanes)
    sources = np.where(read, lane_addresses(src.pointer, spread(source_index)), -1)
    targets = lane_addresses(dst.pointer, spread(target_index))
    facts = {"space": Space.SMEM, "memory": dst.pointer.memory, "source": src.pointer.memory}
    record_accesses(Op.ASYNC_COPY, active, targets, None, sources, nbytes=width * dst.dtype.itemsize, **facts)


@by_warp
def cp_async_commit_group(**_) -> None:
    g = group()
    record_event(Op.COMMIT_GROUP)
    if g.warp >= 0:
        g.pending.append(g.open_group)
        g.open_group = []


def cp_async_mbarrier_arrive_noinc(mbar_ptr, **_) -> None:
    """Arrive at an mbarrier once this thread's copies so far have landed: here they do so now."""
    cp_async_commit_group()
    cp_async_wait_group(0)
    mbarrier_arrive(mbar_ptr)


@by_warp
def cp_async_wait_group(n, **_) -> None:
    """Wait until at most `n` of this thread's groups are under way."""
    if isinstance(n, Value):
        raise refused("cp_async_wait_group takes a constant")
    keep = constant_number(n, "cp_async_wait_group's n")
    g = group()
    record_event(Op.WAIT_GROUP, arg=keep)
    while len(g.pending) > keep:
        for copy in g.pending.pop(0):
            copy.land()


# ---- into another block: st.async, and bulk copies ------------------------------------------------------------------


@dataclass
class Transfer:
    """Bytes under way to a block's shared memory, counted by an mbarrier when they land."""

    move: object  # function: writes the bytes
    nbytes: int
    row: int  # whose mbarrier counts them
    offset: int
    target_row: int
    issued_by: int  # block
    steps: tuple  # of the rows of the trace that issued it

    def __post_init__(self):
        self.where, self.group = here(), group()
        self.launch = self.group.launch

    def land(self) -> bool:
        """Write and count the bytes; whether that completed the mbarrier's phase."""
        outer, STATE.group = STATE.group, self.group
        try:
            self.move()
            barrier = find(self.row, self.offset, f"the transfer from {self.where.where}")
            barrier.bytes -= self.nbytes
            barrier.sent += self.nbytes
            barrier.senders += ((self.where, self.issued_by),)
            recorder = STATE.run.recorder
            if recorder is not None:
                line = recorder.line(self.where)
                addresses = np.full(WARP, -1, np.int64)
                addresses[0] = (int(self.launch.row_blocks[self.row]) << SMEM_BLOCK_BITS) | self.offset
                for step in self.steps:
                    what = {"space": Space.DSMEM, "addresses": addresses, "arg": step, "arg2": barrier.phase}
                    recorder.event(self.issued_by, self.group.warp, line, Op.ASYNC_DONE, 1, **what)
            return barrier.step()
        finally:
            STATE.group = outer

    def check_target_alive(self, launch, block: int) -> None:
        if int(launch.row_blocks[self.target_row]) == block:
            same = [t for t in launch.in_flight if t.target_row == self.target_row]
            nbytes, senders = sum(t.nbytes for t in same), sorted({t.issued_by for t in same})
            raise fail(
                "exit with traffic in flight",
                f"Block {block} exited with {nbytes} bytes still in flight to its shared memory, sent by {blocks_named(senders)}. "
                "Let it wait at the mbarrier that counts them before it ends.",
                lines=tuple(dict.fromkeys(t.where for t in same)),
                block=block,
            )

    def orphaned(self) -> None:
        self.check_target_alive(self.launch, int(self.launch.row_blocks[self.target_row]))


def issue(transfer: Transfer) -> None:
    if group().warp < 0:
        transfer.land()
    else:
        transfer.launch.in_flight.append(transfer)


def store_async_dsmem(smem_ptr, value, mbar_ptr, peer_cta_rank, **_) -> None:
    """st.async: 4, 8 or 16 bytes into a block of the cluster, counted by that block's mbarrier."""
    parts = tuple(scalar(v) for v in (value if isinstance(value, tuple) else (value,)))
    if len(parts) not in (1, 2, 4) or any(p.dtype.width != 32 for p in parts):
        raise refused("store_async_dsmem takes one, two or four 32-bit values")
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


@by_warp
def send_words(smem_ptr, parts, mbar_ptr, peer_cta_rank) -> None:
    """st.async of these 32-bit words, wherever the pointer is known to be."""
    g = group()
    target, barrier = map_dsmem_ptr(smem_ptr, peer_cta_rank), map_dsmem_ptr(mbar_ptr, peer_cta_rank)
    nbytes = 4 * len(parts)
    words = replace(target, dtype=Int32, offset=np.asarray(target.offset) * target.dtype.itemsize // 4)
    first = np.arange(len(parts), dtype=np.int64)
    check(words, first[:1], len(parts), m._lanes(None, 1), Op.STORE)
    flat, index = m._flat_index(words, first)
    index = np.broadcast_to(index, g.shape + (len(parts),))
    raw = np.stack([np.broadcast_to(p.bitcast(Int32).a, g.shape) for p in parts], axis=2)
    step = -1
    if STATE.run.recorder is not None:
        lanes = g.active()[0]
        addresses = np.where(lanes, lane_addresses(words, index[0, :, 0]), -1)
        first_word = smem_ptr.dtype if smem_ptr.dtype.width == 32 else Int32
        values = first_word.decode(raw[0, :, 0].astype(np.int32).view(first_word.storage)).astype(np.float64)
        facts = {"tensor": tensor_index(STATE.run.recorder, smem_ptr.memory), "nbytes": nbytes}
        facts |= {"addresses": addresses, "values": np.where(lanes, values, np.nan)}
        sources = lane_rows(mbar_ptr, peer_cta_rank)
        step = record_event(Op.STORE_ASYNC, space=Space.DSMEM, sources=sources, **facts)
    if g.warp < 0:
        m.scatter(flat, index[..., :1], raw, len(parts), m._lanes(None, 1))
        for row, offset, lanes in distinct(barrier):
            _landed(find(row, offset, "store_async_dsmem"), lanes * nbytes)
        return
    target_rows = np.broadcast_to(target.rows, g.shape)
    for row, offset, b, t in places(barrier):
        find(row, offset, "store_async_dsmem")
        require_alive(int(target_rows[b, t]))
        move = functools.partial(_store_words, flat, index[b, t].copy(), raw[b, t].copy())
        issue(Transfer(move, nbytes, row, offset, int(target_rows[b, t]), int(g.blocks[b]), (step,)))


def _landed(barrier: MBarrier, nbytes: int) -> None:
    barrier.bytes -= nbytes
    barrier.sent += nbytes
    barrier.step()


def _store_words(flat, index, words) -> None:
    if STATE.exact:
        STATE.run.shadows.store(flat, index, words)
    flat[index] = words


def require_alive(row: int) -> None:
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
    """One bulk copy's elements: read, then written, each as late as is legal."""

    source_flat: np.ndarray
    source: np.ndarray
    target_flat: np.ndarray
    target: np.ndarray
    data: np.ndarray | None = None
    moved: bool = False  # by warps in step, whose log is played now

    def read(self) -> None:
        if self.data is None and not self.moved:
            self.data = self.source_flat[self.source]
            if STATE.exact:
                self.data = STATE.run.shadows.load(self.source_flat, self.source, self.data)

    def write(self) -> None:
        self.read()
        if not self.moved:
            _store_words(self.target_flat, self.target, self.data)


@by_warp
def bulk_copy(src, dst, mbar_ptr=None) -> None:
    """cp.async.bulk by each active thread: a contiguous run between global and shared memory."""
    g = group()
    nbytes = len(element_offsets(src.layout)) * src.dtype.itemsize
    if nbytes % 16:
        raise refused(f"a bulk copy moves a multiple of 16 bytes, got {nbytes}")
    for side in (src, dst):
        offsets = element_offsets(side.layout)
        if (np.diff(offsets) != 1).any():
            raise refused(f"a bulk copy moves one contiguous run; {side} is not")
    count = len(element_offsets(src.layout))
    first = np.zeros(1, np.int64)
    active = g.active()
    # 16 bytes at a time, as the alignment that the instruction asks for
    step = 16 // src.dtype.itemsize
    chunks = np.arange(0, count, step, dtype=np.int64)
    for side, op in ((src, Op.LOAD), (dst, Op.STORE)):
        check(side.pointer, chunks, step, m._lanes(None, len(chunks)), op, side.place(step))
    source_flat, source_index = m._flat_index(src.pointer, first)
    target_flat, target_index = m._flat_index(dst.pointer, first)
    if active.reshape(len(g.blocks), -1, WARP).sum(axis=2).max() > 1:
        _refuse_one_target(np.broadcast_to(target_index[..., 0], g.shape), active, count)
    to_shared = dst.memspace is Space.SMEM
    for b, t in zip(*np.nonzero(active)):
        s = int(np.broadcast_to(source_index, g.shape + (1,))[b, t, 0])
        d = int(np.broadcast_to(target_index, g.shape + (1,))[b, t, 0])
        elements = np.arange(count, dtype=np.int64)
        move = BulkMove(source_flat, s + elements, target_flat, d + elements, moved=STATE.run.played is not None)
        step_number = _record_bulk(src, dst, s, d, nbytes, mbar_ptr, np.arange(len(g.threads)) == t)
        if not to_shared:
            STATE.run.before_write(dst.pointer.memory)
            g.bulk_open.append(move)
            if g.warp < 0:
                move.write()
            continue
        if mbar_ptr is None:
            raise refused("a bulk copy to shared memory needs mbar_ptr=, which counts its bytes")
        row, offset = next((r, o) for r, o, bb, tt in places(mbar_ptr) if (bb, tt) == (b, t))
        find(row, offset, "the bulk copy")
        target = int(g.rows[b])
        issue(Transfer(move.write, nbytes, row, offset, target, int(g.blocks[b]), (step_number,)))


def _refuse_one_target(target: np.ndarray, active: np.ndarray, count: int) -> None:
    """Threads of a warp may each issue a bulk copy, but not in one instruction to the same bytes: nothing says which comes last."""
    for b, warp in np.argwhere(active.reshape(len(target), -1, WARP).any(axis=2)):
        lanes = slice(warp * WARP, (warp + 1) * WARP)
        starts = np.sort(target[b, lanes][active[b, lanes]])
        if (np.diff(starts) < count).any():
            block = int(group().blocks[b])
            raise fail(
                "race",
                f"{len(starts)} threads of a warp each issue this bulk copy (block {block}), some of them to the same bytes, and "
                "which comes last is not defined: let one thread do it, with cute.arch.elect_one(), or give each its own part.",
                block=block,
            )


def _record_bulk(src, dst, s: int, d: int, nbytes: int, mbar_ptr, lane: np.ndarray) -> int:
    """The row of one lane's copy."""
    recorder = STATE.run.recorder
    if recorder is None:
        return -1

    def spread(tensor, at):
        return np.where(lane, lane_addresses(tensor.pointer, np.full(WARP, at)), -1)

    tensor_index(recorder, src.pointer.memory)
    barrier = -1 if mbar_ptr is None else int(lane_rows(mbar_ptr)[lane][0])
    ends = {"addresses": spread(dst, d), "sources": spread(src, s), "arg": nbytes, "arg2": barrier}
    tensor = tensor_index(recorder, dst.pointer.memory)
    return record_event(Op.BULK_COPY, mask=lane, space=dst.memspace, tensor=tensor, **ends)


@by_warp
def cp_async_bulk_commit_group(**_) -> None:
    g = group()
    record_event(Op.COMMIT_GROUP, arg=1)
    g.bulk_groups.append(g.bulk_open)
    g.bulk_open = []


@by_warp
def cp_async_bulk_wait_group(group_count, read=None, **_) -> None:
    """Wait until at most that many bulk groups are under way; with read=True, until the others have read their sources.

    What has been read need not be in global memory yet: it may come there when the launch ends.
    """
    g = group()
    keep = constant_number(group_count, "cp_async_bulk_wait_group's count")
    record_event(Op.WAIT_GROUP, arg=keep, arg2=READ_WAIT if read else BULK_WAIT)
    if g.warp < 0:
        return
    if read:
        for moves in g.bulk_groups[: max(0, len(g.bulk_groups) - keep)]:
            for move in moves:
                move.read()
        return
    while len(g.bulk_groups) > keep:
        for move in g.bulk_groups.pop(0):
            move.write()
