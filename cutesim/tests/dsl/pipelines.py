"""The rest of cutlass.pipeline, and primitives that stand for what cute.arch has."""

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, pipeline
from cutlass.cute.nvgpu import cpasync
from cutlass.experimental import primitives

STAGES = 2


@cute.kernel
def _stored(atom: cute.CopyAtom, target: cute.Tensor, x: cute.Tensor, acquires: cutlass.Constexpr):
    t, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(
        Float32, cute.make_layout((4, 32, STAGES), stride=(32, 1, 128)), 128
    )
    pipeline.pipeline_init_arrive(cluster_shape_mn=(1, 1), is_relaxed=True)
    pipeline.pipeline_init_wait(cluster_shape_mn=(1, 1))
    stores = pipeline.PipelineTmaStore.create(
        num_stages=STAGES, producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 32)
    )
    g = cute.local_tile(target, (4, 32), (None, 0))
    tOsO, tOgO = cpasync.tma_partition(
        atom, 0, cute.make_layout(1), cute.group_modes(s, 0, 2), cute.group_modes(g, 0, 2)
    )
    for tile in cutlass.range_constexpr(cute.size(g, mode=[2])):
        for i in cutlass.range_constexpr(4):
            s[i, t, tile % STAGES] = x[4 * tile + i, t] + 1.0
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.sync_warp()
        cute.copy(atom, tOsO[None, tile % STAGES], tOgO[None, tile])
        stores.producer_commit()
        if cutlass.const_expr(acquires):
            stores.producer_acquire()
        cute.arch.sync_warp()
    stores.producer_tail()


class Stored:
    """out = x + 1 through two stages; without acquiring, a stage is filled while its store still reads it."""

    def __init__(self, acquires=True):
        self.acquires = acquires

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        layout = cute.make_layout((4, 32), stride=(32, 1))
        atom, target = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), out, layout, (4, 32))
        _stored(atom, target, x, self.acquires).launch(grid=(1, 1, 1), block=(32, 1, 1))


@cute.kernel
def _primitive(x: cute.Tensor, out: cute.Tensor, waits: cutlass.Constexpr):
    t, _, _ = cute.arch.thread_idx()
    primitives.griddepcontrol(primitives.GridDepAction.WAIT)
    s = cutlass.memory.SmemAllocator().allocate_tensor(Int32, cute.make_layout(64), 16)
    view = cutlass.make_array_view(x)
    value = view[t]
    near = primitives.shfl_sync(0xFFFFFFFF, value, 1, 31, primitives.Shfl.BFLY)
    first = primitives.shfl_sync(0xFFFFFFFF, value, 0, 31, primitives.Shfl.IDX)
    s[t] = near * 100 + first
    primitives.bar_warp_sync(0xFFFFFFFF)
    if cutlass.const_expr(waits):
        primitives.barrier_cta_sync()
    if t < 32:
        primitives.barrier_cta_arrive(1, 64)
    else:
        primitives.barrier_cta_sync(1, thread_count=64)
    out[0, t] = s[63 - t]
    some = primitives.vote_sync(0xFFFFFFFF, t % 32 == 3, primitives.VoteSync.BALLOT)
    out[1, t] = some
    if primitives.elect_sync():
        out[2, t // 32] = Int32(7)
    if t < 32:
        pipeline.arrive(2, 64)
    else:
        pipeline.arrive_and_wait(2, 64)
    primitives.griddepcontrol(primitives.GridDepAction.LAUNCH_DEPENDENTS)


class Primitive:
    def __init__(self, waits=True):
        self.waits = waits

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        _primitive(x, out, self.waits).launch(grid=(1, 1, 1), block=(64, 1, 1))
