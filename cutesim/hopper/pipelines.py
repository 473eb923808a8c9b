"""The rest of cutlass.pipeline: tiles stored in bulk groups, the two halves of a pipeline's initialisation, barriers by number.

What each does was read off the PTX of small kernels: `PipelineTmaStore` commits a bulk group, waits until all but stages - 1 have
been read, and at the end until all have; `pipeline_init_arrive` is a fence and, in a cluster, a cluster barrier's arrival, whose
wait `pipeline_init_wait` is; without a cluster that is a block barrier. `PipelineOrder` has an mbarrier a stage and group: a group
waits at its own, which the group before it arrives at, and the first one's counts as passed at the start.
Not covered: `PipelineOrder` in a cluster, in dynamic code or with a state of the kernel's; `MbarrierArray`, pipelines with a
cluster's masks, Blackwell's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..context import STATE, group, not_simulated
from ..machine import asynchronous, barriers, cluster, mbarriers, warps
from ..machine.control import depth, lowest_lane
from ..machine.pipeline import CooperativeGroup, PipelineState, _steps, _under
from ..values.numeric import Int32, Value, constant_number, scalar


@dataclass(frozen=True)
class PipelineTmaStore:
    """Stages of shared memory whose tiles are stored."""

    num_stages: int

    @classmethod
    def create(cls, *, num_stages, producer_group=None, **_):
        return cls(num_stages)

    def producer_commit(self, **_) -> None:
        asynchronous.cp_async_bulk_commit_group()

    def producer_acquire(self, **_) -> None:
        asynchronous.cp_async_bulk_wait_group(self.num_stages - 1, read=True)

    def producer_tail(self, **_) -> None:
        asynchronous.cp_async_bulk_wait_group(0, read=True)


class PipelineOrder:
    """Groups of warps that take turns, one after another; the first is up to `depth` rounds ahead.

    The stage is Python's own: through a loop that is not unrolled CuTe DSL 4.8.1 does not carry it, and every pass is compiled
    with the first one's phase.
    """

    def __init__(self, barriers, length: int, group_id, state: PipelineState):
        self.barriers, self.length, self.group_id, self.state = barriers, length, group_id, state

    @classmethod
    def create(
        cls, *, depth, length, group_id, producer_group: CooperativeGroup, barrier_storage=None, defer_sync=False, **_
    ):
        """Initialise the mbarriers, and let everybody know."""
        rounds, length = constant_number(depth, "depth"), constant_number(length, "length")
        if barrier_storage is None or group().launch.cluster_size > 1:
            raise not_simulated("PipelineOrder.create without barrier_storage, or in a cluster")
        first = scalar(group_id).a == 0
        state = PipelineState(rounds, 0, 0, Value(Int32, first.astype(np.int32)))
        made = cls(barrier_storage, length, group_id, state)

        def initialise():
            for i in range(rounds * length):
                mbarriers.mbarrier_init(barrier_storage + i, producer_group.size)

        _under(warps.warp_idx().a == 0, lambda: _under(lowest_lane().a, initialise))
        mbarriers.mbarrier_init_fence()
        return made if defer_sync else _steps(barriers.barrier, lambda: made)

    def get_barrier_for_current_stage_idx(self, group_id, **_) -> Value:
        return self.state.index * self.length + group_id

    def wait(self, state=None, **_):
        _require_static(state)
        barrier = self.barriers + self.get_barrier_for_current_stage_idx(self.group_id)
        return mbarriers.mbarrier_wait(barrier, self.state.phase)

    def arrive(self, state=None, **_) -> None:
        """The next group's turn."""
        _require_static(state)
        following = (self.group_id + 1) % self.length
        mbarriers.mbarrier_arrive(self.barriers + self.get_barrier_for_current_stage_idx(following))
        self.state.advance()


def _require_static(state) -> None:
    if state is not None:
        raise not_simulated("PipelineOrder with a state of the kernel's")
    if depth() or STATE.loops:
        raise not_simulated(
            "PipelineOrder in a dynamic `if` or loop (CuTe DSL 4.8.1 compiles every pass of a loop with the first one's phase)"
        )


def pipeline_init_arrive(cluster_shape_mn=None, is_relaxed=False, **_) -> None:
    mbarriers.mbarrier_init_fence()
    if group().launch.cluster_size > 1:
        (cluster.cluster_arrive_relaxed if is_relaxed else cluster.cluster_arrive)()


def pipeline_init_wait(cluster_shape_mn=None, **_):
    return cluster.cluster_wait() if group().launch.cluster_size > 1 else barriers.barrier()


def arrive(barrier_id, num_threads, **_):
    return barriers.barrier_arrive(barrier_id=barrier_id, number_of_threads=num_threads)


def arrive_and_wait(barrier_id, num_threads, **_):
    return barriers.barrier(barrier_id=barrier_id, number_of_threads=num_threads)
