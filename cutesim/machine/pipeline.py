"""cutlass.pipeline: stages of shared memory that producers fill and consumers empty, over mbarriers.

| class              | a stage is full when                                        | it is empty when                            |
|--------------------|-------------------------------------------------------------|---------------------------------------------|
| `PipelineAsync`    | each producer has called producer_commit                    | each consumer has called consumer_release   |
| `PipelineCpAsync`  | the same, and the cp.async that they made before has landed | the same                                    |
| `PipelineTmaAsync` | the `tx_count` bytes of bulk copies have come                | lane 0 of each consumer warp has released it |

A pipeline has two mbarriers a stage: the full ones, then the empty ones. What follows was read off the PTX of small kernels:
warp 0 initialises them, a fence and a block barrier follow (a cluster barrier in a cluster), and producer_tail waits once for
each stage. A producer's cp.async lands here with its arrival; that its own thread must not read it sooner is not checked.
Not covered: `mcast_mode_mn`, Blackwell's pipelines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..context import group, not_simulated, refused
from ..layouts.layout import size
from ..values import indices
from ..values.numeric import Int32, Value, constant_number, convert
from . import asynchronous, barriers, cluster, mbarriers, warps
from .control import Pending, lowest_lane


def _steps(*calls):
    """One call made of several that may wait, one after another; it gives what the last one gives."""

    def steps():
        result = None
        for call in calls:
            result = call()
            if type(result) is Pending:
                result = yield from result.steps
        return result

    return Pending(steps())


def _under(condition: np.ndarray, call) -> None:
    g = group()
    g.push(condition)
    if g.active().any():
        call()
    g.pop()


# ---- states ---------------------------------------------------------------------------------------------------------


class PipelineState:
    """Which stage comes next, and the parity of its phase. A reader's class may be derived from it."""

    _carries_values = True
    __extract_mlir_values__ = None  # so a derived object's numbers may change in a dynamic `if`

    def __init__(self, stages: int, count, index, phase):
        self._stages = constant_number(stages, "the number of stages")
        self._count, self._index, self._phase = (convert(x, Int32) for x in (count, index, phase))

    stages = property(lambda self: self._stages)
    count = property(lambda self: self._count)
    index = property(lambda self: self._index)
    phase = property(lambda self: self._phase)

    def advance(self, **_) -> None:
        following = self._index.a + 1
        wraps = following == (self._stages.a if isinstance(self._stages, Value) else self._stages)
        self._index = Value(Int32, np.where(wraps, 0, following).astype(np.int32))
        self._phase = Value(Int32, np.where(wraps, self._phase.a ^ 1, self._phase.a).astype(np.int32))
        self._count = self._count + 1

    def reset_count(self, **_) -> None:
        self._count = convert(0, Int32)

    def _copied(self) -> PipelineState:
        return PipelineState(self.stages, self.count, self.index, self.phase)

    def clone(self, **_) -> PipelineState:
        return self._copied()

    def _joined(self, other: PipelineState, join) -> PipelineState:
        """A state with join(name, mine, the other's) of each number."""
        names = ("count", "index", "phase")
        return PipelineState(self.stages, *(join(n, getattr(self, n), getattr(other, n)) for n in names))


def make_pipeline_state(kind: str, stages: int, **_) -> PipelineState:
    """At the first stage; for a producer its mbarrier counts as passed, since nothing is in it yet."""
    return PipelineState(stages, 0, 0, 1 if kind == "Producer" else 0)


@dataclass(frozen=True)
class CooperativeGroup:
    """Who arrives: `size` threads."""

    agent: str
    size: int = 1


# ---- pipelines ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PipelineAsync:
    """Producers and consumers are threads; they read and write the stages themselves."""

    full: object  # pointers to the first mbarrier of each kind
    empty: object
    num_stages: int
    tx_count: int = 0
    sharing: tuple = ()  # (m, n): of a cluster whose blocks multicast, how many rows and columns they stand in

    multicast = False  # whether it can have one

    @classmethod
    def create(
        cls,
        *,
        num_stages,
        producer_group,
        consumer_group,
        barrier_storage=None,
        tx_count=0,
        defer_sync=False,
        cta_layout_vmnk=None,
        name=None,
        tidx=None,
        **_,
    ):
        """Initialise the mbarriers, and let everybody know."""
        blocks, sharing = cta_layout_vmnk, ()
        if blocks is not None and size(blocks) > 1:
            if not cls.multicast or size(blocks[0]) * size(blocks[3]) > 1:
                raise not_simulated(f"{cls.__name__}.create with cta_layout_vmnk={blocks}")
            sharing = (size(blocks[1]), size(blocks[2]))
        if barrier_storage is None:
            raise refused(f"{cls.__name__}.create needs barrier_storage=, room for two mbarriers a stage")
        stages = constant_number(num_stages, "num_stages")
        made = cls(barrier_storage, barrier_storage + stages, stages, tx_count, sharing)

        def initialise() -> None:
            for first, who in ((made.full, producer_group), (made.empty, consumer_group)):

                def each(first=first, who=who) -> None:
                    for stage in range(stages):
                        mbarriers.mbarrier_init(first + stage, who.size)

                _under(lowest_lane().a, each)

        _under(warps.warp_idx().a == 0, initialise)
        mbarriers.mbarrier_init_fence()
        if defer_sync:
            return made
        if group().launch.cluster_size > 1:
            return _steps(cluster.cluster_arrive_relaxed, cluster.cluster_wait, lambda: made)
        return _steps(barriers.barrier, lambda: made)

    # -- producers

    def producer_acquire(self, state, try_acquire_token=None, **_):
        return mbarriers.mbarrier_wait(self.empty + state.index, state.phase)

    def producer_try_acquire(self, state, **_):
        return mbarriers.mbarrier_try_wait(self.empty + state.index, state.phase)

    def producer_commit(self, state, **_) -> None:
        mbarriers.mbarrier_arrive(self.full + state.index)

    def producer_get_barrier(self, state, **_):
        return self.full + state.index

    def producer_tail(self, state, **_):
        """Wait until every stage is empty, so that no consumer arrives at a block that has ended."""

        acquire = lambda: PipelineAsync.producer_acquire(self, state)  # noqa: E731
        return _steps(*([acquire, state.advance] * self.num_stages)[:-1])

    # -- consumers

    def consumer_wait(self, state, try_wait_token=None, **_):
        return mbarriers.mbarrier_wait(self.full + state.index, state.phase)

    def consumer_try_wait(self, state, **_):
        return mbarriers.mbarrier_try_wait(self.full + state.index, state.phase)

    def consumer_release(self, state, **_) -> None:
        mbarriers.mbarrier_arrive(self.empty + state.index)

    # -- both, with their states

    def make_producer(self, **_) -> Participant:
        return Participant(self, make_pipeline_state("Producer", self.num_stages))

    def make_consumer(self, **_) -> Participant:
        return Participant(self, make_pipeline_state("Consumer", self.num_stages))

    def make_participants(self, **_) -> tuple:
        return self.make_producer(), self.make_consumer()


class PipelineCpAsync(PipelineAsync):
    """Producers fill stages by cp.async."""

    def producer_commit(self, state, **_) -> None:
        asynchronous.cp_async_mbarrier_arrive_noinc(self.full + state.index)


class PipelineTmaAsync(PipelineAsync):
    """One warp fills stages by bulk copies, which count at producer_get_barrier(state).

    In a cluster that multicasts, a block's stage is filled by all blocks of its row and of its column, so a consumer releases it
    to each of them.
    """

    multicast = True

    def producer_acquire(self, state, try_acquire_token=None, **_):
        def expect():
            one, barrier = lowest_lane().a, self.full + state.index
            _under(one, lambda: mbarriers.mbarrier_arrive_and_expect_tx(barrier, self.tx_count))

        return _steps(lambda: mbarriers.mbarrier_wait(self.empty + state.index, state.phase), expect)

    def producer_commit(self, state, **_) -> None:
        """Nothing: the bytes arrive by themselves."""

    def consumer_release(self, state, **_) -> None:
        """Lane 0 arrives for its warp. Nothing makes it wait for what the other lanes read: that is left to the kernel."""
        first = indices.lane_idx().a == 0
        if not self.sharing:
            return _under(first, lambda: mbarriers.mbarrier_arrive(self.empty + state.index))
        rows, columns = self.sharing
        mine = cluster.block_idx_in_cluster().a
        for peer in range(rows * columns):
            concerned = (mine % rows == peer % rows) | (mine // rows == peer // rows)
            barrier = self.empty + state.index
            _under(first & concerned, lambda at=(barrier, peer): mbarriers.mbarrier_arrive(*at))


class Participant:
    """A producer or a consumer with its state."""

    _carries_values = True

    def __init__(self, pipeline: PipelineAsync, state: PipelineState):
        self.pipeline, self.state = pipeline, state

    def _copied(self) -> Participant:
        return Participant(self.pipeline, self.state._copied())

    clone = _copied

    def _joined(self, other: Participant, join) -> Participant:
        return Participant(self.pipeline, self.state._joined(other.state, join))

    def advance(self, **_) -> None:
        self.state.advance()

    def acquire(self, try_acquire_token=None, **_):
        state = self.state._copied()
        return _steps(lambda: self.pipeline.producer_acquire(state), lambda: Handle(self.pipeline, state))

    def try_acquire(self, **_):
        return self.pipeline.producer_try_acquire(self.state)

    def wait(self, try_wait_token=None, **_):
        state = self.state._copied()
        return _steps(lambda: self.pipeline.consumer_wait(state), lambda: Handle(self.pipeline, state))

    def try_wait(self, **_):
        return self.pipeline.consumer_try_wait(self.state)

    def acquire_and_advance(self, try_acquire_token=None, **_):
        handle = self.acquire()
        self.advance()
        return handle

    def wait_and_advance(self, try_wait_token=None, **_):
        handle = self.wait()
        self.advance()
        return handle

    def commit(self, handle=None, **_):
        return self.pipeline.producer_commit(self.state if handle is None else handle.state)

    def release(self, handle=None, **_):
        return self.pipeline.consumer_release(self.state if handle is None else handle.state)

    def tail(self, **_):
        return self.pipeline.producer_tail(self.state)


@dataclass(frozen=True)
class Handle:
    """A stage that was acquired or waited for."""

    pipeline: PipelineAsync
    state: PipelineState

    index = property(lambda self: self.state.index)
    count = property(lambda self: self.state.count)
    barrier = property(lambda self: self.pipeline.producer_get_barrier(self.state))

    def commit(self, **_):
        return self.pipeline.producer_commit(self.state)

    def release(self, **_):
        return self.pipeline.consumer_release(self.state)


# ---- barriers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NamedBarrier:
    """A barrier of the block by its number, and how many threads it counts."""

    barrier_id: int
    num_threads: int

    def arrive(self, **_):
        return barriers.barrier_arrive(barrier_id=self.barrier_id, number_of_threads=self.num_threads)

    def arrive_and_wait(self, **_):
        return barriers.barrier(barrier_id=self.barrier_id, number_of_threads=self.num_threads)

    sync = arrive_and_wait


def sync(barrier_id=0, **_):
    return barriers.barrier(barrier_id=barrier_id)
