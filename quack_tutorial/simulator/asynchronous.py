"""Asynchronous copies: cp.async groups. (Clusters, mbarriers and bulk copies join here.)

In the checked mode a copy's bytes land as late as is legal, when cp.async.wait_group covers its group, so that a kernel which
reads too early sees old bytes. In the fast mode they land at once. A lane whose predicate is false reads nothing and writes zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quack_tutorial.trace import Op, Space

from . import memory as m
from .context import STATE, fail, group
from .control import constant_number
from .numeric import Value


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
        index = self.source_index if self.lanes is None else np.where(self.lanes, self.source_index, 0)
        raw = m.gather(self.source_flat, index, self.width)
        if self.lanes is not None:
            lanes = np.broadcast_to(self.lanes, np.broadcast_shapes(self.lanes.shape, index.shape))
            raw = np.where(np.repeat(lanes, self.width, axis=2), raw, 0)
        m.scatter(self.target_flat, self.target_index, raw.astype(self.target_flat.dtype), self.width, self.writing)

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
    from .context import here
    from .tensor import element_offsets

    first_s, first_d = (m.starts(element_offsets(t.layout), width) for t in (src, dst))
    source_flat, source_index = m._flat_index(src.pointer, first_s)
    target_flat, target_index = m._flat_index(dst.pointer, first_d)
    lanes, writing = m._lanes(keep, len(first_s)), m._lanes(None, len(first_s))
    m.check(src.pointer, first_s, width, lanes, Op.LOAD, src.place(width))
    m.check(dst.pointer, first_d, width, writing, Op.STORE)
    g = group()
    copy = AsyncCopy(
        source_flat, source_index, target_flat, target_index, width, lanes, writing, here(), g.warp, int(g.blocks[0])
    )
    if g.warp < 0:
        copy.land()
        return
    _record(src, dst, width, lanes, source_index, target_index)
    if writing is None or writing.any():
        g.open_group.append(copy)


def _record(src, dst, width, lanes, source_index, target_index) -> None:
    recorder = STATE.run.recorder
    if recorder is None:
        return
    g = group()
    line, call = m.current_line(recorder)
    tensor = m.tensor_index(recorder, dst.pointer.memory)
    m.tensor_index(recorder, src.pointer.memory)
    chunks = target_index.shape[2]
    spread = lambda a: np.broadcast_to(a, (1, m.WARP, chunks))[0]  # noqa: E731
    active = spread(g.active()[..., None])
    reading = active if lanes is None else spread(lanes)
    sources = m.lane_addresses(src.pointer, spread(source_index))
    targets = m.lane_addresses(dst.pointer, spread(target_index))
    for chunk in range(chunks):
        on = active[:, chunk]
        if on.any():
            recorder.event(
                int(g.blocks[0]),
                g.warp,
                line,
                Op.ASYNC_COPY,
                m.mask_bits(on),
                space=Space.SMEM,
                tensor=tensor,
                nbytes=width * dst.dtype.itemsize,
                addresses=np.where(on, targets[:, chunk], -1),
                sources=np.where(reading[:, chunk], sources[:, chunk], -1) if reading[:, chunk].any() else None,
                call=call,
            )


def cp_async_commit_group(**_) -> None:
    g = group()
    m.record_event(Op.COMMIT_GROUP)
    if g.warp >= 0:
        g.pending.append(g.open_group)
        g.open_group = []


def cp_async_mbarrier_arrive_noinc(mbar_ptr, **_) -> None:
    """Arrive at an mbarrier once this thread's copies so far have landed: here they do so now."""
    from .cluster import mbarrier_arrive

    cp_async_commit_group()
    cp_async_wait_group(0)
    mbarrier_arrive(mbar_ptr)


def cp_async_wait_group(n, **_) -> None:
    """Wait until at most `n` of this thread's groups are under way."""
    if isinstance(n, Value):
        raise fail("language", "cp_async_wait_group takes a constant")
    keep = constant_number(n, "cp_async_wait_group's n")
    g = group()
    m.record_event(Op.WAIT_GROUP, arg=keep)
    while len(g.pending) > keep:
        for copy in g.pending.pop(0):
            copy.land()
