"""Barriers of a warp and of a block, fences, and the wait for the kernel before.

Sources: PTX ISA 9.0 (bar, bar.warp.sync, fence, griddepcontrol), CUDA C++ Programming Guide.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cutesim.trace import FenceKind, Op

from ..context import STATE, WARP, NeedsWarps, Waiting, fail, group, here, refuse_other, refused
from ..memory.log import by_warp
from ..memory.recording import record_event
from ..values.numeric import Boolean, Value
from .control import Pending
from .warps import FULL_MASK, active_lanes, by_mask, lanes_that_exist, mask_of, require_all


@dataclass
class Barrier:
    """A block barrier: who has arrived in this generation."""

    generation: int = 0
    arrived: int = 0  # warps
    wanted: int = 0  # warps that this generation counts, as its first one said
    first: object = None  # trace.Line where that one came
    came: list = field(default_factory=list)  # the warps that have arrived in this generation
    before: list = field(default_factory=list)  # and in the one before
    # generations in which one has arrived that waited for the kernels before
    waited: set = field(default_factory=set)


def sync_warp(mask=FULL_MASK, loc=None, ip=None):
    by_mask(mask, _sync_lanes)


def _sync_lanes(mask) -> Value:
    require_all(mask, "sync_warp")
    _one_waited_for_all(WARP, mask_of(mask))
    record_event(Op.SYNC_WARP)
    return Value(Boolean, np.array([[True]]))


# ---- the kernel before ----------------------------------------------------------------------------------------------


def griddepcontrol_wait(loc=None, ip=None):
    """Until the kernels before this one on the stream have ended: here they always have, see `bounds.check`.

    What they wrote is then visible to the whole grid (PTX ISA, griddepcontrol): others of the block may use it too once a
    barrier has told them.
    """
    g = group()
    if g.early is not None:
        g.early &= ~g.active()
    g.launch.waited.update(g.blocks[g.active().any(axis=1)].tolist())
    record_event(Op.FENCE, arg=int(FenceKind.GPU))  # what they wrote is seen after it


def griddepcontrol_launch_dependents(loc=None, ip=None):
    """Let the next kernel on the stream start, once all blocks have said so or ended: here it runs later still. What matters is
    whether the threads that say so first have waited, see `scheduler.LaunchState.waits_first`."""
    g = group()
    early = g.active() if g.early is None else g.active() & g.early
    for block, says, too_early in zip(g.blocks.tolist(), g.active().any(axis=1), early.any(axis=1)):
        if says:
            g.launch.signalled.setdefault(block, g.early is not None and not too_early)


def _one_waited_for_all(threads: int, named=True) -> None:
    """After a barrier of so many neighbouring lanes, or of those named among them: where one of them has waited for the kernels
    before, all of them have."""
    g = group()
    if g.early is not None:
        met = g.active().reshape(len(g.blocks), -1, threads) & named
        early = g.early.reshape(met.shape)
        early &= ~(met & (met & ~early).any(axis=2, keepdims=True))


def whole_warps(what: str, advice="Move it out of the `if`, so that every thread of the block passes it.") -> None:
    """A block barrier must be reached by whole warps."""
    g = group()
    if g.mask is None:
        return
    active = active_lanes()
    exists = np.broadcast_to(lanes_that_exist(), active.shape)
    some = active.any(axis=2)
    torn = some & (active != exists).any(axis=2)
    if torn.any():
        b, w = (int(k[0]) for k in np.nonzero(torn))
        warp, block = w if g.warp < 0 else g.warp, int(g.blocks[b])
        lanes, threads = int(active[b, w].sum()), int(exists[b, w].sum())
        text = (
            f"Divergent {what}: only {lanes} of the {threads} threads of warp {warp} (block {block}) reach it. {advice}"
        )
        raise fail("divergent barrier", text, block=block, count=lanes)
    if g.warp < 0 and not (some | ~exists.any(axis=2)).all():
        raise NeedsWarps


@by_warp
def barrier(*, barrier_id=None, number_of_threads=None, loc=None, ip=None):
    """bar.sync: the warp waits until the block's warps (or `number_of_threads`) have arrived."""
    g = group()
    identifier = _barrier_id(barrier_id)
    count = _thread_count(number_of_threads)
    counts = f"Barrier {identifier} counts {count} threads, warp by warp: let whole warps come to it."
    whole_warps("barrier", *([] if count in (None, g.launch.threads) else [counts]))
    if g.warp < 0:
        if count is not None and count != g.shape[1]:
            raise NeedsWarps
        _one_waited_for_all(g.shape[1])
        return None
    return Pending(_wait_at_barrier(g, identifier, count))


def sync_threads(loc=None, ip=None):
    return barrier()


def _thread_count(number_of_threads) -> int | None:
    count = _of_a_warp(number_of_threads, "number_of_threads")
    if count is not None and (count <= 0 or count % WARP):
        raise refused(f"number_of_threads={count} must be a multiple of {WARP}")
    return count


def _of_a_warp(number, what: str) -> int | None:
    """A number that is the same for all lanes of a warp that are on."""
    if not isinstance(number, Value):
        return number if number is None else int(number)
    g = group()
    flat = np.broadcast_to(number.a, g.shape)[g.active()]
    if (flat != flat[0]).any():
        raise NeedsWarps if g.warp < 0 else refused(f"{what} must be the same for the whole warp")
    return int(flat[0])


def _barrier_id(barrier_id) -> int:
    identifier = _of_a_warp(barrier_id, "a barrier's number") or 0
    if not 0 <= identifier < 16:
        raise refused(f"barrier {identifier} does not exist: a block has barriers 0 to 15")
    return identifier


def _arrive(g, identifier: int, count):
    launch, block = g.launch, int(g.blocks[0])
    bar = launch.barriers.setdefault((block, identifier), Barrier())
    wanted = (-(-launch.threads // WARP)) if count is None else count // WARP
    if bar.arrived and bar.wanted != wanted:
        name = f"Barrier {identifier}" if identifier else "The block barrier"
        raise fail(
            "barrier count",
            f"{name} counts two ways: warp {g.warp} of block {block} comes with {wanted * WARP} threads, and "
            f"{bar.first.where} came with {bar.wanted * WARP} before. All who wait or arrive at a barrier must give one count.",
            lines=(here(), bar.first),
            block=block,
        )
    if not bar.arrived:
        bar.wanted, bar.first = wanted, here()
    bar.arrived += 1
    bar.came.append(g.warp)
    if g.early is not None and (g.active() & ~g.early).any():
        bar.waited.add(bar.generation)
    generation = bar.generation
    if bar.arrived >= wanted:
        bar.generation += 1
        bar.arrived = 0
        bar.before, bar.came = bar.came, []
    return bar, generation


def _awaited(identifier: int, bar: Barrier) -> str:
    """What is said of a barrier at which warps wait for ever."""
    if identifier == 0:
        return "the block barrier"
    why, twice = "", [warp for warp in bar.before if bar.before.count(warp) > 1]
    if twice:
        came = f"warp {twice[0]} came {bar.before.count(twice[0])} times to it"
        why = f", and the turn before is over since {came}"
    return f"barrier {identifier}, which counts {bar.wanted * WARP} threads: {bar.arrived * WARP} have come{why}"


def _wait_at_barrier(g, identifier: int, count):
    line = here()
    if STATE.run.recorder is not None:
        bar = g.launch.barriers.setdefault((int(g.blocks[0]), identifier), Barrier())
        record_event(Op.BARRIER, arg=identifier, arg2=bar.generation)
    bar, generation = _arrive(g, identifier, count)
    while bar.generation == generation:
        yield Waiting(lambda: bar.generation != generation, lambda: _awaited(identifier, bar), line)
    if g.early is not None and generation in bar.waited:
        g.early &= ~g.active()
    record_event(Op.BARRIER_RESUME, arg=identifier, arg2=generation)


def barrier_arrive(*, barrier_id=None, number_of_threads=None, aligned=True, loc=None, ip=None):
    """bar.arrive: count this warp in without waiting."""
    g = group()
    if number_of_threads is None:
        raise refused("barrier_arrive needs number_of_threads")
    refuse_other("barrier_arrive with aligned", aligned, True)
    identifier, count = _barrier_id(barrier_id), _thread_count(number_of_threads)
    whole_warps("barrier_arrive")
    if g.warp < 0:
        raise NeedsWarps
    bar = g.launch.barriers.setdefault((int(g.blocks[0]), identifier), Barrier())
    record_event(Op.BARRIER_ARRIVE, arg=identifier, arg2=bar.generation)
    _arrive(g, identifier, count)


def _fence(kind: FenceKind):
    def fence(*_, **__):
        record_event(Op.FENCE, arg=int(kind))

    return fence


fence_acq_rel_cta = _fence(FenceKind.CTA)
fence_acq_rel_cluster = _fence(FenceKind.CLUSTER)
fence_acq_rel_gpu = _fence(FenceKind.GPU)
fence_acq_rel_sys = _fence(FenceKind.SYS)
fence_view_async_shared = _fence(FenceKind.PROXY_ASYNC_SHARED)


def fence_proxy(kind="async", *_, **__) -> None:
    """fence.proxy: what threads did before is seen by bulk copies after it, in the memory that `kind` names or in all."""
    if "async" not in str(kind):
        return
    kinds = {"shared": FenceKind.PROXY_ASYNC_SHARED, "global": FenceKind.PROXY_ASYNC_GLOBAL}
    named = [fence for word, fence in kinds.items() if word in str(kind)]
    record_event(Op.FENCE, arg=int([*named, FenceKind.PROXY_ASYNC][0]))
