"""Thread-block clusters: ranks, distributed shared memory, the cluster barrier. Sources: PTX ISA 9.0, barrier.cluster, mapa.

A cluster barrier orders the ordinary memory of the cluster; a relaxed arrive orders none.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cutesim.trace import Op, Space

from ..context import Waiting, fail, group, here, refuse_other, refused
from ..memory.log import by_warp
from ..memory.pointers import Pointer
from ..memory.recording import record_event
from ..values.arithmetic import int32
from ..values.numeric import Value, scalar
from .barriers import Barrier, whole_warps
from .control import Pending

WAITED = -2  # the group's generation after cluster_wait, until it arrives again


def block_idx_in_cluster(**_) -> Value:
    g = group()
    return int32((g.rows % g.launch.cluster_size)[:, None])


def block_in_cluster_idx(**_):
    g = group()
    cx, cy, _ = g.launch.cluster
    rank = (g.rows % g.launch.cluster_size)[:, None]
    return int32(rank % cx), int32(rank // cx % cy), int32(rank // (cx * cy))


def block_in_cluster_dim(**_):
    return tuple(int32(c) for c in group().launch.cluster)


def cluster_size(**_) -> Value:
    return int32(group().launch.cluster_size)


def cluster_idx(**_):
    g = group()
    (gx, gy, _), (cx, cy, cz) = g.launch.grid, g.launch.cluster
    b = g.blocks[:, None]
    return int32(b % gx // cx), int32(b // gx % gy // cy), int32(b // (gx * gy) // cz)


def map_dsmem_ptr(smem_ptr: Pointer, cta_rank_in_cluster, **_) -> Pointer:
    """mapa: the same shared-memory offset in the block of that rank."""
    if not isinstance(smem_ptr, Pointer) or smem_ptr.memory.space is not Space.SMEM:
        raise refused("map_dsmem_ptr takes a pointer to shared memory")
    g = group()
    size = g.launch.cluster_size
    rank = scalar(cta_rank_in_cluster).a.astype(np.int64)
    bad = ((rank < 0) | (rank >= size)) & g.active()
    if bad.any():
        worst = int(np.broadcast_to(rank, g.shape)[bad][0])
        raise fail("cluster", f"block rank {worst} does not exist: the cluster has {size} blocks")
    rank = np.clip(rank, 0, size - 1)
    return replace(smem_ptr, rows=g.rows[:, None] // size * size + rank)


def _cluster_barrier(g) -> Barrier:
    first = int(g.rows[0]) // g.launch.cluster_size * g.launch.cluster_size
    return g.launch.cluster_barriers.setdefault(first, Barrier())


@by_warp
def _cluster_arrive(relaxed: bool) -> None:
    g = group()
    whole_warps("cluster_arrive")
    if g.warp < 0:
        return
    barrier = _cluster_barrier(g)
    if g.cluster_generation == barrier.generation:
        raise fail("cluster", "this warp arrives twice at the cluster barrier without cluster_wait between")
    g.cluster_generation = barrier.generation
    record_event(Op.CLUSTER_ARRIVE, arg=int(relaxed), arg2=barrier.generation)
    barrier.arrived += 1
    g.launch.settle_cluster_barrier(g)


def cluster_arrive(*, aligned=None, **_) -> None:
    refuse_other("cluster_arrive with aligned", aligned, None, True)
    _cluster_arrive(False)


def cluster_arrive_relaxed(*, aligned=None, **_) -> None:
    """Arrive without releasing: orders no ordinary memory access."""
    refuse_other("cluster_arrive_relaxed with aligned", aligned, None, True)
    _cluster_arrive(True)


@by_warp
def cluster_wait(**_):
    g = group()
    whole_warps("cluster_wait")
    if g.warp < 0:
        return None
    if g.cluster_generation < 0:
        waited = g.cluster_generation == WAITED
        raise fail(
            "cluster",
            f"cluster_wait {'without a cluster_arrive since the last one' if waited else 'before cluster_arrive'}",
        )
    return Pending(_wait_for_cluster(g, _cluster_barrier(g)))


def _wait_for_cluster(g, barrier):
    line, generation = here(), g.cluster_generation
    record_event(Op.CLUSTER_WAIT, arg2=generation)
    while barrier.generation == generation:
        yield Waiting(lambda: barrier.generation != generation, "the cluster barrier", line)
    g.cluster_generation = WAITED
    record_event(Op.CLUSTER_RESUME, arg2=generation)
