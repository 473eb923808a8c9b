"""Kernels unlike the book's, each right with bug=False and wrong with bug=True: what the simulator must find, and where it must be
silent.

Scans, sorts, stencils, histograms, locks, queues, rings and grid barriers, written before any of them was run on the simulator and
kept as they were but for two that the language refuses. `kernel(x, y, out, bug)`; lines marked `# here` are those that a finding
names. `CASES` says what each is run on, what its output must be without the bug, and what kind of finding it gets with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import cutlass
import cutlass.cute as cute
import cutlass.pipeline as pipeline
import numpy as np
from cutlass import Float16, Float32, Int32, Int64, Uint32


def launched(grid=(1, 1, 1), threads=64, cluster=1):
    """A host function `(x, y, out, bug)` that launches the kernel it decorates."""

    def decorate(kernel):
        @cute.jit
        def host(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
            kernel(x, y, out, bug).launch(grid=grid, block=[threads, 1, 1], cluster=[cluster, 1, 1])

        host.__name__ = kernel.__name__
        return host

    return decorate


# 1. An inclusive scan by doubling in two buffers (Hillis and Steele).


@launched(threads=128)
@cute.kernel
def doubling_scan(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout((128, 2)), 16)
    s[tidx, 0] = x[tidx]
    cute.arch.barrier()
    source = 0
    for power in cutlass.range_constexpr(7):
        target = source if cutlass.const_expr(bug) else 1 - source
        value = s[tidx, source]
        if tidx >= 1 << power:
            value += s[tidx - (1 << power), source]  # here
        s[tidx, target] = value  # here
        cute.arch.barrier()
        source = target
    out[tidx] = s[tidx, source]


# 2. A histogram in shared memory by atomics, added to the global one.


@launched(grid=(3, 1, 1), threads=96)
@cute.kernel
def histogram(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    counts = cutlass.memory.SmemAllocator().allocate_tensor(Int32, cute.make_layout(16), 16)
    if tidx < 16:
        counts[tidx] = 0
    cute.arch.barrier()
    bucket = y[bidx * 96 + tidx]
    if cutlass.const_expr(bug):
        counts[bucket] = counts[bucket] + 1  # here
    else:
        cute.arch.atomic_add((counts.iterator + bucket).llvm_ptr, Int32(1))
    cute.arch.barrier()
    if tidx < 16:
        cute.arch.atomic_add((out.iterator + tidx).llvm_ptr, counts[tidx])


# 3. A transpose through padded shared memory; the block is two-dimensional.


@launched(grid=(2, 2, 1), threads=256)
@cute.kernel
def transpose(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    tile = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout((16, 16), stride=(17, 1)), 16)
    i, j = tidx // 16, tidx % 16
    tile[i, j] = x[by * 16 + i, bx * 16 + j]  # here
    if cutlass.const_expr(bug):
        cute.arch.sync_warp()
    else:
        cute.arch.barrier()
    out[bx * 16 + i, by * 16 + j] = tile[j, i]  # here


# 4. A stencil with a halo of one on either side.


@launched(grid=(2, 1, 1), threads=64)
@cute.kernel
def stencil(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(66), 16)
    at = bidx * 64 + tidx
    s[tidx + 1] = x[at]
    if tidx == 0:
        s[0] = x[at - 1] if at > 0 else Float32(0.0)
    if tidx == 63:
        last = 128 if cutlass.const_expr(not bug) else 129
        s[65] = x[at + 1] if at + 1 < last else Float32(0.0)  # here
    cute.arch.barrier()
    out[at] = s[tidx] + s[tidx + 1] + s[tidx + 2]


# 5. The last block to come adds up what all blocks have written (a counter decides which one that is).


@launched(grid=(4, 1, 1), threads=32)
@cute.kernel
def last_block_sums(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    flag = cutlass.memory.SmemAllocator().allocate_tensor(Int32, cute.make_layout(1), 16)
    total = cute.arch.warp_reduction_sum(x[bidx * 32 + tidx])
    if tidx == 0:
        out[1 + bidx] = total  # here
        if cutlass.const_expr(not bug):
            cute.arch.fence_acq_rel_gpu()
        flag[0] = cute.arch.atomic_add((y.iterator + 0).llvm_ptr, Int32(1))
        cute.arch.fence_acq_rel_gpu()
    cute.arch.barrier()
    if flag[0] == 3:
        if tidx == 0:
            result = Float32(0.0)
            for b in range(4):
                result += out[1 + b]  # here
            out[0] = result


# 6. Bitonic sort of 64 numbers in shared memory.


@launched(threads=64)
@cute.kernel
def bitonic(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    s[tidx] = x[tidx]
    cute.arch.barrier()
    for stage in cutlass.range_constexpr(1, 7):
        for step in cutlass.range_constexpr(stage):
            distance = 1 << (stage - 1 - step)
            partner = tidx ^ distance
            if partner > tidx:
                mine, theirs = s[tidx], s[partner]  # here
                ascending = (tidx & (1 << stage)) == 0
                if (mine > theirs) == ascending:
                    s[tidx] = theirs  # here
                    s[partner] = mine  # here
            if cutlass.const_expr(not bug or distance != 32):
                cute.arch.barrier()
    out[tidx] = s[tidx]


# 7. Warp 0 fills, warp 1 empties, over two named barriers.


@launched(threads=64)
@cute.kernel
def ping_pong(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32), 16)
    lane = tidx % 32
    if tidx < 32:
        for row in range(3):
            if row > 0:
                cute.arch.barrier(barrier_id=2, number_of_threads=64)  # here
            s[lane] = x[row * 32 + lane] * 2.0
            cute.arch.barrier_arrive(barrier_id=1, number_of_threads=64)
    else:
        for row in range(3):
            cute.arch.barrier(barrier_id=1, number_of_threads=64)  # here
            out[row * 32 + lane] = s[31 - lane]
            if row < (1 if cutlass.const_expr(bug) else 2):
                cute.arch.barrier_arrive(barrier_id=2, number_of_threads=64)


# 8. Argmax of a warp by shuffles of value and index.


@launched(threads=32)
@cute.kernel
def argmax(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    best, at = x[tidx], tidx
    for k in cutlass.range_constexpr(5):
        other = cute.arch.shuffle_sync_down(best, 1 << k)
        where = cute.arch.shuffle_sync_down(at, 1 << k)
        if other > best:
            best, at = other, where
    if cutlass.const_expr(bug):
        if tidx < 16:
            at = cute.arch.shuffle_sync(at, 0)  # here
    else:
        at = cute.arch.shuffle_sync(at, 0)
    out[tidx] = Float32(at)


# 9. Rows of a sparse matrix, a warp a row (offsets in y).


@launched(grid=(2, 1, 1), threads=64)
@cute.kernel
def sparse_rows(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    warp, lane = tidx // 32, tidx % 32
    row = bidx * 2 + warp
    if row < 3 or cutlass.const_expr(bug):
        total = Float32(0.0)
        at = y[row] + lane
        while at < y[row + 1]:  # here
            total += x[at]
            at += 32
        total = cute.arch.warp_reduction_sum(total)
        if lane == 0:
            out[row] = total


# 10. A ring through four blocks of a cluster: each hands its sum on with st.async.


@launched(grid=(4, 1, 1), threads=32, cluster=4)
@cute.kernel
def ring(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    rank = cute.arch.block_idx_in_cluster()
    smem = cutlass.memory.SmemAllocator()
    mbar = smem.allocate_array(Int64, 1, byte_alignment=8)
    box = smem.allocate_tensor(Float32, cute.make_layout(1), 16)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, 4)  # here
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    total = cute.arch.warp_reduction_sum(x[rank * 32 + tidx])
    if rank > 0:
        cute.arch.mbarrier_wait(mbar, 0)  # here
        total += box[0]
    sends = rank < 3 if cutlass.const_expr(not bug) else rank < 2
    if sends:
        if tidx == 0:
            cute.arch.store_async_dsmem(box.iterator, total.bitcast(Int32), mbar, rank + 1)
    out[rank * 32 + tidx] = total
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


# 11. A gather by indices that lie in another tensor.


@launched(threads=64)
@cute.kernel
def gather(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    at = y[tidx]
    inside = (at < 50) & (at >= 0) if cutlass.const_expr(not bug) else at < 50
    value = Float32(0.0)
    if inside:
        value = x[at]  # here
    out[tidx] = value


# 12. Two halves of one buffer under two mbarriers: warp 1 writes, warp 0 reads, twice round.


@launched(threads=64)
@cute.kernel
def two_halves(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    full = smem.allocate_array(Int64, 2, byte_alignment=8)
    empty = smem.allocate_array(Int64, 2, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout((32, 2)), 16)
    lane = tidx % 32
    if tidx == 0:
        for k in cutlass.range_constexpr(2):
            cute.arch.mbarrier_init(full + k, 32)
            cute.arch.mbarrier_init(empty + k, 32)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    if tidx >= 32:
        for k in range(4):
            cute.arch.mbarrier_wait(empty + k % 2, 1 - k // 2)  # here
            s[lane, k % 2] = x[k * 32 + lane]  # here
            cute.arch.mbarrier_arrive(full + k % 2)
    else:
        for k in range(4):
            parity = k // 2 if cutlass.const_expr(not bug) else 0
            cute.arch.mbarrier_wait(full + k % 2, parity)
            out[k * 32 + lane] = s[31 - lane, k % 2]  # here
            cute.arch.mbarrier_arrive(empty + k % 2)


# 13. Welford's mean and variance, joined over warps through shared memory.


@launched(threads=96)
@cute.kernel
def welford(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    warp, lane = tidx // 32, tidx % 32
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout((3, 4)), 16)
    count, mean, m2 = Float32(1.0), x[tidx], Float32(0.0)
    for k in cutlass.range_constexpr(5):
        other_mean = cute.arch.shuffle_sync_bfly(mean, 1 << k)
        other_m2 = cute.arch.shuffle_sync_bfly(m2, 1 << k)
        delta = other_mean - mean
        mean += delta * 0.5
        m2 += other_m2 + delta * delta * count * 0.5
        count += count
    if lane == 0:
        s[0, warp], s[1, warp], s[2, warp] = count, mean, m2
    cute.arch.barrier()
    if tidx == 0:
        for w in cutlass.range_constexpr(1, 4 if bug else 3):
            n = s[0, w]  # here
            delta = s[1, w] - mean  # here
            whole = count + n
            mean += delta * n / whole
            m2 += s[2, w] + delta * delta * count * n / whole  # here
            count = whole
        out[0], out[1] = mean, m2 / count  # here


# 14. A grid-stride loop of vectors; with the bug the tail is not cut off.


@launched(grid=(2, 1, 1), threads=32)
@cute.kernel
def grid_stride(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    width, _, _ = cute.arch.block_dim()
    blocks, _, _ = cute.arch.grid_dim()
    n = cute.size(x)
    at = bidx * width + tidx
    limit = n if cutlass.const_expr(not bug) else n + 1
    while at < limit:
        out[at] = x[at] * 2.0 + 1.0  # here
        at += width * blocks


# 15. A bulk copy per chunk into two stages; waits for the wrong parity.


@launched(threads=64)
@cute.kernel
def bulk_stages(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    mbar = smem.allocate_array(Int64, 2, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout((64, 2)), 128)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), Float32)
    if tidx == 0:
        for k in cutlass.range_constexpr(2):
            cute.arch.mbarrier_init(mbar + k, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    for k in cutlass.range_constexpr(4):
        if tidx == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(mbar + k % 2, 256)
        if tidx < 32:
            with cute.arch.elect_one():
                cute.copy(atom, cute.local_tile(x, (64,), (k,)), s[None, k % 2], mbar_ptr=mbar + k % 2)  # here
        cute.arch.mbarrier_wait(mbar + k % 2, k // 2)
        out[k * 64 + tidx] = s[63 - tidx, k % 2]  # here
        if cutlass.const_expr(k < 2 and not bug):
            cute.arch.barrier()
        if cutlass.const_expr(k >= 2):
            cute.arch.barrier()


# 16. An exclusive offset for each warp, then compaction: which lanes keep their number.


@launched(threads=64)
@cute.kernel
def compaction(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    warp, lane = tidx // 32, tidx % 32
    s = cutlass.memory.SmemAllocator().allocate_tensor(Int32, cute.make_layout(2), 8)
    keep = x[tidx] > 0.0
    ballot = cute.arch.vote_ballot_sync(keep)
    below = cute.arch.popc(ballot & ((Int32(1) << lane) - 1))
    if lane == 0:
        s[warp] = cute.arch.popc(ballot)
    cute.arch.barrier()
    base = s[0] if warp == 1 else Int32(0)
    if cutlass.const_expr(bug):
        base = Int32(0)
    if keep:
        out[base + below] = x[tidx]  # here


# 17. A matrix times a vector; the vector is copied by cp.async in two groups.


@launched(threads=32)
@cute.kernel
def matvec(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout((2, 128), stride=(128, 1)), 16)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), Float32, num_bits_per_copy=128)
    tiled = cute.make_tiled_copy_tv(atom, cute.make_ordered_layout((1, 32), order=(1, 0)), cute.make_layout((1, 4)))
    mine = tiled.get_slice(tidx)
    for half in cutlass.range_constexpr(2):
        source, target = cute.local_tile(y, (1, 128), (0, half)), cute.local_tile(s, (1, 128), (half, 0))
        cute.copy(atom, mine.partition_S(source), mine.partition_D(target))  # here
        cute.arch.cp_async_commit_group()
    total = Float32(0.0)
    for half in cutlass.range_constexpr(2):
        cute.arch.cp_async_wait_group(1 if half == 0 or bug else 0)
        cute.arch.sync_warp()
        for k in cutlass.range(128):
            total += x[tidx, half * 128 + k] * s[half, k]  # here
    out[tidx] = total


# 18. A tile of registers stored from a strided view that does not fit 16 bytes.


@launched(threads=32)
@cute.kernel
def every_second(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    view = cute.make_tensor(x.iterator, cute.make_layout((4, 32), stride=(2, 8)))
    r = cute.make_rmem_tensor((4,), Float32)
    if cutlass.const_expr(bug):
        for k in cutlass.range_constexpr(3):
            r[k] = view[k, tidx]
    else:
        cute.autovec_copy(view[None, tidx], r)
    out[tidx] = r.load().reduce(cute.ReductionOp.ADD, 0.0, 0)  # here


# 19. Two reductions of a block through one buffer.


@launched(threads=128)
@cute.kernel
def two_reductions(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    warp, lane = tidx // 32, tidx % 32
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(4), 16)
    value = x[tidx]
    largest = cute.arch.warp_reduction_max(value)
    if lane == 0:
        s[warp] = largest
    cute.arch.barrier()
    for w in cutlass.range_constexpr(4):
        largest = cute.arch.fmax(largest, s[w])  # here
    total = cute.arch.warp_reduction_sum(cute.math.exp(value - largest))
    if cutlass.const_expr(not bug):
        cute.arch.barrier()
    if lane == 0:
        s[warp] = total  # here
    cute.arch.barrier()
    total = s[0] + s[1] + s[2] + s[3]
    out[tidx] = cute.math.exp(value - largest) / total


# 20. A pipeline whose consumers wait for a stage and give it back; one consumer warp too few is counted.


@launched(threads=96)
@cute.kernel
def pipeline_of_warps(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    storage = smem.allocate_array(Int64, 4, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout((32, 2)), 16)
    lane = tidx % 32
    pipe = pipeline.PipelineAsync.create(
        num_stages=2,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 32),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 32 if bug else 64),
        barrier_storage=storage,
    )
    if tidx < 32:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, 2)
        for k in cutlass.range(6):
            pipe.producer_acquire(state)  # here
            s[lane, state.index] = x[k * 32 + lane]  # here
            pipe.producer_commit(state)
            state.advance()
        pipe.producer_tail(state)
    else:
        warp = tidx // 32 - 1
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 2)
        for k in cutlass.range(6):
            pipe.consumer_wait(state)  # here
            out[warp * 192 + k * 32 + lane] = s[31 - lane, state.index] + warp  # here
            pipe.consumer_release(state)
            state.advance()


# 21. A lock by compare-and-swap; the update is not atomic.


@launched(grid=(3, 1, 1), threads=32)
@cute.kernel
def spin_lock(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    total = cute.arch.warp_reduction_sum(x[bidx * 32 + tidx])
    if tidx == 0:
        taken = cute.arch.atomic_cas(y.iterator, cmp=Int32(0), val=Int32(1))
        while taken != 0:
            taken = cute.arch.atomic_cas(y.iterator, cmp=Int32(0), val=Int32(1))
        cute.arch.fence_acq_rel_gpu()
        out[0] = out[0] + total  # here
        if cutlass.const_expr(not bug):
            cute.arch.fence_acq_rel_gpu()
        cute.arch.atomic_exch(y.iterator, Int32(0))


# 22. Rows shared by a cluster: each block reads the others' parts by mapa.


@launched(grid=(2, 1, 1), threads=64, cluster=2)
@cute.kernel
def reads_the_peer(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    rank = cute.arch.block_idx_in_cluster()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    s[tidx] = x[rank * 64 + tidx]
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    theirs = cute.make_tensor(cute.arch.map_dsmem_ptr(s.iterator, 1 - rank), cute.make_layout(64))
    r = cute.make_rmem_tensor((1,), Float32)
    cute.autovec_copy(cute.local_tile(theirs, (1,), (63 - tidx,)), r)  # here
    out[rank * 64 + tidx] = s[tidx] + r[0]
    if cutlass.const_expr(not bug):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()


# 23. A bulk store of what threads have written; the fence of the async proxy is left out.


@launched(threads=64)
@cute.kernel
def bulk_store(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 128)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkS2GOp(), Float32)
    s[63 - tidx] = x[tidx] + 1.0  # here
    if cutlass.const_expr(not bug):
        cute.arch.fence_view_async_shared()
    cute.arch.barrier()
    if tidx < 32:
        with cute.arch.elect_one():
            cute.copy(atom, s, out)  # here
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0)


# 24. Fragments of half precision, added in float32; a fragment that is not filled.


@launched(threads=32)
@cute.kernel
def half_dot(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    a, b = cute.make_rmem_tensor((8,), Float16), cute.make_rmem_tensor((8,), Float16)
    cute.autovec_copy(cute.local_tile(x, (8,), (tidx,)), a)
    if tidx < (31 if cutlass.const_expr(bug) else 32):
        cute.autovec_copy(cute.local_tile(y, (8,), (tidx,)), b)
    product = a.load().to(Float32) * b.load().to(Float32)  # here
    total = product.reduce(cute.ReductionOp.ADD, Float32(0.0), 0)
    out[tidx] = cute.arch.warp_reduction_sum(total)  # here


# 25. A transposing tile with a swizzled column, two-dimensional thread layout and predicates.


@launched(grid=(2, 2, 1), threads=128)
@cute.kernel
def predicated_tile(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), Float32, num_bits_per_copy=32)
    tiled = cute.make_tiled_copy_tv(atom, cute.make_ordered_layout((4, 32), order=(1, 0)), cute.make_layout((4, 1)))
    mine = tiled.get_slice(tidx)
    coordinates = cute.make_identity_tensor(x.shape)
    tile = (16, 32)
    source, target = (mine.partition_S(cute.local_tile(t, tile, (by, bx))) for t in (x, out))
    where = mine.partition_S(cute.local_tile(coordinates, tile, (by, bx)))
    for k in cutlass.range_constexpr(cute.size(source)):
        row, column = where[k]
        inside = row < x.shape[0]
        if cutlass.const_expr(not bug):
            inside = inside & (column < x.shape[1])
        if inside:
            target[k] = source[k] * 2.0  # here


# 26. Blocks that meet at a barrier of the whole grid, twice.


@cute.jit
def meet(count: cute.Tensor, tidx: Int32, blocks: cutlass.Constexpr, round: cutlass.Constexpr):
    cute.arch.barrier()
    if tidx == 0:
        cute.arch.fence_acq_rel_gpu()
        cute.arch.atomic_add(count.iterator, Int32(1))
        seen = cute.arch.atomic_add(count.iterator, Int32(0))
        while seen < blocks * round:
            seen = cute.arch.atomic_add(count.iterator, Int32(0))
        cute.arch.fence_acq_rel_gpu()
    cute.arch.barrier()


class GridBarrier:
    @cute.jit
    def __call__(self, x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
        self.kernel(x, y, out, bug).launch(grid=[3, 1, 1], block=[64, 1, 1], cooperative=True)

    @cute.kernel
    def kernel(self, x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        out[bidx * 64 + tidx] = x[bidx * 64 + tidx] + 1.0
        meet(y, tidx, 3, 1)
        value = out[(bidx + 1) % 3 * 64 + tidx]  # here
        if cutlass.const_expr(not bug):
            meet(y, tidx, 3, 2)
        out[bidx * 64 + tidx] = value * 2.0  # here


grid_barrier = GridBarrier()


# 27. Quantised bytes packed into words by shifts; the shift of the last one is wrong, which only a result shows.


@launched(threads=32)
@cute.kernel
def packs_bytes(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    word = Uint32(0)
    for k in cutlass.range_constexpr(4):
        q = Int32(x[tidx * 4 + k] * 10.0) & 0xFF
        word = word | (Uint32(q) << (8 * k))
    if cutlass.const_expr(bug):
        if tidx > 15:
            word = cute.arch.shuffle_sync_down(word, 1)  # here
    out[tidx] = Int64(word)


# 28. A segmented sum: flags say where segments begin.


@launched(threads=32)
@cute.kernel
def segmented(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    heads = cute.arch.vote_ballot_sync(y[tidx] != 0)
    below = heads & ((Int32(2) << tidx) - 1)
    start = 31 - cute.arch.clz(below)
    value = x[tidx]
    for k in cutlass.range_constexpr(5):
        other = cute.arch.shuffle_sync_up(value, 1 << k)
        if tidx - (1 << k) >= start:
            value += other
    if cutlass.const_expr(bug):
        last = cute.arch.shuffle_sync(value, 31, mask=0xFFFF)  # here
        value = last
    out[tidx] = value


# 29. A multi-stage cp.async pipeline with a rolling stage.


@launched(threads=64)
@cute.kernel
def rolling_stages(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    stages, tiles = 3, 6
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout((64, stages)), 16)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), Float32, num_bits_per_copy=32)

    def fetch(tile, stage):
        source = cute.make_tensor(x.iterator + (tile * 64 + tidx), cute.make_layout(1))
        target = cute.make_tensor(s.iterator + (stage * 64 + tidx), cute.make_layout(1))
        cute.copy(atom, source, target)  # here

    for k in cutlass.range_constexpr(stages - 1):
        fetch(k, k)
        cute.arch.cp_async_commit_group()
    total = Float32(0.0)
    for k in cutlass.range_constexpr(tiles):
        cute.arch.cp_async_wait_group(stages - 2)
        if cutlass.const_expr(not bug):
            cute.arch.barrier()
        total += s[63 - tidx, k % stages]  # here
        if cutlass.const_expr(k + stages - 1 < tiles):
            fetch(k + stages - 1, (k + stages - 1) % stages)
        cute.arch.cp_async_commit_group()
    out[tidx] = total


# 30. A helper that returns early by a constexpr, nested functions, a dataclass of parameters, while with two conditions.


@cute.jit
def newton(value: Float32, steps: cutlass.Constexpr):
    guess = value * 0.5 + 0.5
    k = Int32(0)
    while (k < steps) & (guess > 0.0):
        guess = 0.5 * (guess + value / guess)
        k += 1
    return guess


@launched(threads=32)
@cute.kernel
def roots(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    value = cute.math.absf(x[tidx])
    result = newton(value, 12)
    at = tidx * 2 if cutlass.const_expr(bug) else tidx
    out[at] = result  # here


# 31. Warps take turns with an index kept in shared memory: a queue of tiles.


@launched(grid=(1, 1, 1), threads=96)
@cute.kernel
def queue(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    ticket = smem.allocate_tensor(Int32, cute.make_layout(1), 4)
    s = smem.allocate_tensor(Int32, cute.make_layout(3), 4)
    warp, lane = tidx // 32, tidx % 32
    if tidx == 0:
        ticket[0] = 0  # here
    if cutlass.const_expr(not bug):
        cute.arch.barrier()
    tile = Int32(0)
    while tile < 7:
        if lane == 0:
            s[warp] = cute.arch.atomic_add(ticket.iterator, Int32(1))  # here
        cute.arch.sync_warp()
        tile = s[warp]
        cute.arch.sync_warp()
        if tile < 7:
            out[tile * 32 + lane] = x[tile * 32 + lane] * -1.0


# 32. A reduction over columns: blocks share rows, atomics join them. The early exit of idle blocks skips the barrier.


@launched(grid=(4, 1, 1), threads=64)
@cute.kernel
def column_sums(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout((8, 8)), 16)
    r, c = tidx // 8, tidx % 8
    row = bidx * 8 + r
    if cutlass.const_expr(bug):
        if row < x.shape[0]:
            s[r, c] = x[row, c]
            cute.arch.barrier()  # here
    else:
        s[r, c] = x[row, c] if row < x.shape[0] else Float32(0.0)
        cute.arch.barrier()
    if r == 0:
        total = Float32(0.0)
        for k in cutlass.range_constexpr(8):
            total += s[k, c]
        cute.arch.atomic_add(out.iterator + c, total)


# 33. Numbers of 8 bits through a view of words.


@launched(threads=32)
@cute.kernel
def bytes_as_words(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    words = cute.recast_tensor(y, Int32)
    if cutlass.const_expr(bug):
        words = cute.make_tensor(words.iterator, cute.make_layout(33))
    at = tidx + 1 if cutlass.const_expr(bug) else tidx
    word = words[at]  # here
    total = Int32(0)
    for k in cutlass.range_constexpr(4):
        total += (word >> (8 * k)) & 0xFF
    out[tidx] = total


# 34. A vector of a warp turned by shuffles: a register transpose of 4 x 4 blocks.


@launched(threads=32)
@cute.kernel
def turned(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    r = cute.make_rmem_tensor((4,), Float32)
    turned_ = cute.make_rmem_tensor((4,), Float32)
    cute.autovec_copy(cute.local_tile(x, (4,), (tidx,)), r)
    lane = tidx % 4
    for k in cutlass.range_constexpr(4):
        source = (tidx & ~3) | k
        for j in cutlass.range_constexpr(4):
            got = cute.arch.shuffle_sync(r[j], source)
            if lane == j:
                turned_[k] = got
    if cutlass.const_expr(bug):
        cute.autovec_copy(turned_, cute.make_tensor(out.iterator + tidx, cute.make_layout(4)))  # here
    else:
        cute.autovec_copy(turned_, cute.local_tile(out, (4,), (tidx,)))


# ---- the table ------------------------------------------------------------------------------------------------------

RNG = np.random.default_rng


def normal(*shape):
    return RNG(3).standard_normal(shape).astype(np.float32)


def bitonic_expected(x, y):
    return np.sort(x)


@dataclass(frozen=True)
class Case:
    """`kind`: of the finding with the bug; None where only the result is wrong. `right(x, y)` is what out must hold."""

    host: object
    kind: str
    x: np.ndarray
    out: int
    right: object
    y: object = None
    dtype: type = np.float32

    @property
    def name(self) -> str:
        return getattr(self.host, "__name__", type(self.host).__name__)

    def arrays(self):
        y = np.zeros(1, np.int32) if self.y is None else self.y.copy()
        return self.x.copy(), y, np.zeros(self.out, self.dtype)


def _rows(x, n):
    return x.reshape(-1, n)


BUCKETS = RNG(5).integers(0, 16, 288).astype(np.int32)
OFFSETS = np.array([0, 40, 45, 120, 130], np.int32)[:4]
PLACES = np.where(RNG(6).integers(0, 4, 64) == 0, -1, RNG(7).integers(0, 60, 64)).astype(np.int32)
POSITIVE = normal(64)


def kept(x, y):
    found = x[x > 0]
    return np.concatenate([found, np.zeros(64 - len(found), np.float32)])


def softmaxed(x, y):
    e = np.exp(x.astype(np.float64) - x.max())
    return e / e.sum()


def reversed_rows(x, y):
    return x.reshape(-1, 32)[:, ::-1].ravel()


CASES = (
    Case(doubling_scan, "race", normal(128), 128, lambda x, y: np.cumsum(x.astype(np.float64))),
    Case(histogram, "race", normal(1), 16, lambda x, y: np.bincount(y, minlength=16), BUCKETS, np.int32),
    Case(transpose, "race", normal(32, 32), (32, 32), lambda x, y: x.T),
    Case(
        stencil,
        "out of bounds",
        normal(128),
        128,
        lambda x, y: np.convolve(x.astype(np.float64), [1, 1, 1], "same"),
    ),
    Case(
        last_block_sums,
        "race",
        normal(128),
        5,
        lambda x, y: np.concatenate([[x.sum(dtype=np.float64)], x.reshape(4, 32).sum(1, dtype=np.float64)]),
    ),
    Case(bitonic, "race", normal(64), 64, bitonic_expected),
    Case(ping_pong, "deadlock", normal(96), 96, lambda x, y: 2 * reversed_rows(x, y)),
    Case(argmax, "divergent shuffle", normal(32), 32, lambda x, y: np.full(32, x.argmax())),
    Case(
        sparse_rows,
        "out of bounds",
        normal(120),
        4,
        lambda x, y: np.array([x[a:b].sum(dtype=np.float64) for a, b in zip(y, y[1:])] + [0]),
        OFFSETS,
    ),
    Case(
        ring,
        "mbarrier byte mismatch",
        normal(128),
        128,
        lambda x, y: np.repeat(np.cumsum(x.reshape(4, 32).sum(1, dtype=np.float64)), 32),
    ),
    Case(
        gather,
        "out of bounds",
        normal(50),
        64,
        lambda x, y: np.where((y >= 0) & (y < 50), x[np.clip(y, 0, 49)], 0),
        PLACES,
    ),
    Case(two_halves, "deadlock", normal(128), 128, reversed_rows),
    Case(
        welford,
        "uninitialised",
        normal(96),
        2,
        lambda x, y: np.array([x.mean(dtype=np.float64), x.var(dtype=np.float64)]),
    ),
    Case(grid_stride, "out of bounds", normal(150), 150, lambda x, y: 2.0 * x + 1),
    Case(bulk_stages, "race", normal(256), 256, lambda x, y: x.reshape(4, 64)[:, ::-1].ravel()),
    Case(compaction, "race", POSITIVE, 64, kept),
    Case(matvec, "read before arrival", normal(32, 256), 32, lambda x, y: x.astype(np.float64) @ y[0], normal(1, 256)),
    Case(
        every_second, "uninitialised", normal(256), 32, lambda x, y: x.reshape(32, 8)[:, ::2].sum(1, dtype=np.float64)
    ),
    Case(two_reductions, "race", normal(128), 128, softmaxed),
    Case(
        pipeline_of_warps,
        "deadlock",
        normal(192),
        384,
        lambda x, y: np.concatenate([reversed_rows(x, y), reversed_rows(x, y) + 1]),
    ),
    Case(spin_lock, "race", normal(96), 1, lambda x, y: np.array([x.sum(dtype=np.float64)]), np.zeros(1, np.int32)),
    Case(
        reads_the_peer,
        "exit with traffic in flight",
        normal(128),
        128,
        lambda x, y: x + x.reshape(2, 64)[::-1, ::-1].ravel(),
    ),
    Case(bulk_store, "missing proxy fence", normal(64), 64, lambda x, y: (x + 1)[::-1]),
    Case(
        half_dot,
        "uninitialised",
        normal(256).astype(np.float16),
        32,
        lambda x, y: np.full(32, x.astype(np.float64) @ y),
        normal(256).astype(np.float16),
    ),
    Case(predicated_tile, "out of bounds", normal(30, 50), (30, 50), lambda x, y: 2 * x),
    Case(
        grid_barrier,
        "race",
        normal(192),
        192,
        lambda x, y: 2 * np.roll((x + 1).reshape(3, 64), -1, 0).ravel(),
        np.zeros(1, np.int32),
    ),
    Case(
        packs_bytes,
        "divergent shuffle",
        normal(128),
        32,
        lambda x, y: ((x * np.float32(10)).astype(np.int32).reshape(32, 4) & 255) @ (1 << 8 * np.arange(4)),
        None,
        np.int64,
    ),
    Case(
        segmented,
        "divergent shuffle",
        normal(32),
        32,
        lambda x, y: np.concatenate([np.cumsum(p) for p in np.split(x.astype(np.float64), np.nonzero(y)[0][1:])]),
        np.isin(np.arange(32), (0, 3, 10, 25)).astype(np.int32),
    ),
    Case(rolling_stages, "race", normal(384), 64, lambda x, y: x.reshape(6, 64)[:, ::-1].sum(0, dtype=np.float64)),
    Case(roots, "out of bounds", normal(32), 32, lambda x, y: np.sqrt(np.abs(x))),
    Case(queue, "race", normal(224), 224, lambda x, y: -x),
    Case(column_sums, "divergent barrier", normal(29, 8), 8, lambda x, y: x.sum(0, dtype=np.float64)),
    Case(
        bytes_as_words,
        "out of bounds",
        normal(1),
        32,
        lambda x, y: y.reshape(32, 4).sum(1, dtype=np.int32),
        RNG(2).integers(0, 256, 128).astype(np.uint8),
        np.int32,
    ),
    Case(turned, "race", normal(128), 128, lambda x, y: x.reshape(8, 4, 4).transpose(0, 2, 1).ravel()),
)
