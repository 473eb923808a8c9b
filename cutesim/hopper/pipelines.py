"""The rest of cutlass.pipeline: tiles stored in bulk groups, the two halves of a pipeline's initialisation, barriers by number.

What each does was read off the PTX of small kernels: `PipelineTmaStore` commits a bulk group, waits until all but stages - 1 have
been read, and at the end until all have; `pipeline_init_arrive` is a fence and, in a cluster, a cluster barrier's arrival, whose
wait `pipeline_init_wait` is; without a cluster that is a block barrier.
Not covered: `PipelineOrder`, `MbarrierArray`, pipelines with a cluster's masks, Blackwell's.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..context import group
from ..machine import asynchronous, barriers, cluster, mbarriers


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
