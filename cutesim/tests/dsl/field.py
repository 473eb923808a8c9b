"""Bugs of public kernels, each in the smallest kernel that has it; cutesim's README has the table."""

import cutlass
import cutlass.cute as cute
from cutlass.experimental import primitives


def launched(threads, **how):
    """A host function for a kernel of (x, out)."""

    def host_of(kernel):
        @cute.jit
        def host(x: cute.Tensor, out: cute.Tensor):
            kernel(x, out).launch(block=[threads, 1, 1], **how)

        return host

    return host_of


pair = {"grid": [2, 1, 1], "cluster": [2, 1, 1]}
alone = {"grid": [1, 1, 1]}


def shared(count):
    return cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(count), 16)


@launched(32, **pair)
@cute.kernel
def narrow_scope(x, out):
    lane, rank = cute.arch.lane_idx(), cute.arch.block_idx_in_cluster()
    held = shared(32)
    mbar = cutlass.memory.SmemAllocator().allocate_array(cutlass.Int64, 1, byte_alignment=8)
    if lane == 0:
        cute.arch.mbarrier_init(mbar, 32)
        cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    if rank == 1:
        primitives.mapa(held.iterator + lane, 0).store(x[lane])
        primitives.mbarrier_arrive(primitives.mapa(mbar, 0), scope=primitives.MemScope.CTA)
    else:
        cute.arch.mbarrier_wait(mbar, 0)
        out[lane] = held[31 - lane]
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


@launched(32, **pair)
@cute.kernel
def left_early(x, out):
    lane, rank = cute.arch.lane_idx(), cute.arch.block_idx_in_cluster()
    held = shared(32)
    held[lane] = x[32 * rank + lane]
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    out[32 * rank + lane] = primitives.mapa(held.iterator + lane, rank ^ 1).load()


@launched(64, **alone)
@cute.kernel
def tile_reused(x, out):
    tidx, _, _ = cute.arch.thread_idx()
    tile = shared(64)
    tile[tidx] = x[tidx]
    cute.arch.barrier()
    part = tile[tidx] * tile[63 - tidx]
    tile[tidx] = part  # partial sums go where the tile was
    cute.arch.barrier()
    out[tidx] = tile[tidx] + tile[tidx ^ 32]


@launched(64, **alone)
@cute.kernel
def leader_writes_again(x, out):
    tidx, _, _ = cute.arch.thread_idx()
    bound, total = shared(1), cutlass.Float32(0.0)
    for turn in range(2):
        if tidx == 0:
            bound[0] = x[turn]
        cute.arch.barrier()
        total += bound[0]
    out[tidx] = total


@launched(64, **alone)
@cute.kernel
def search_too_soon(x, out):
    tidx, _, _ = cute.arch.thread_idx()
    prefix = shared(64)
    prefix[tidx] = x[tidx]
    low = cutlass.Int32(0)
    for step in cutlass.range_constexpr(5, -1, -1):
        if prefix[low + (1 << step)] <= 0.5:
            low += 1 << step
    out[tidx] = prefix[low]


@launched(64, **alone)
@cute.kernel
def scratch_reused(x, out):
    tidx, _, _ = cute.arch.thread_idx()
    scratch = shared(2)
    mean = over_block(x[tidx], scratch) / 64.0
    off = x[tidx] - mean
    out[tidx] = off / over_block(off * off, scratch)


@cute.jit
def over_block(value, scratch):
    value, warp = cute.arch.warp_reduction_sum(value), cute.arch.warp_idx()
    if cute.arch.lane_idx() == 0:
        scratch[warp] = value
    cute.arch.barrier()
    return scratch[0] + scratch[1]


@launched(96, **alone)
@cute.kernel
def arrives_again(x, out):
    tidx, _, _ = cute.arch.thread_idx()
    for _ in range(2):
        if tidx < 64:
            cute.arch.barrier_arrive(barrier_id=1, number_of_threads=96)
        else:
            cute.arch.barrier(barrier_id=1, number_of_threads=96)
    out[tidx] = x[tidx]
