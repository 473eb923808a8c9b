"""Kernels for suite `mutation` that use what the package's kernels do not, or not in every way.

| kernel      | what it is there for                                                                              |
|-------------|---------------------------------------------------------------------------------------------------|
| `RowSums`   | the block reductions with several rows a block                                                    |
| `LastBlock` | order that a fence and an atomic make: the block that comes last reads what the others wrote       |
| `Handover`  | named barriers: one warp produces, another consumes, in a buffer that is used again                |
| `Mirror`    | order within a warp: `sync_warp` between a write and another lane's read                           |
| `ClusterSum` | a message from every warp to every block of a cluster, and a cluster barrier that is not relaxed  |
| `AsyncCopy` | cp.async whose bytes the same thread reads                                                         |
| `BulkCopy`  | bulk copies both ways                                                                              |
"""

import operator

import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.reduce import block_reduce, block_softmax_reduce, warp_reduce


class RowSums:
    """Sums of rows of 64 floats, two rows a block; with `pairs` also their maxima, by the reduction of pairs."""

    def __init__(self, pairs=False):
        self.pairs = pairs

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor):
        self.kernel(mX, mO).launch(grid=[mX.shape[0] // 2, 1, 1], block=[128, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        row, col = block * 2 + tidx // 64, tidx % 64
        smem = cutlass.memory.SmemAllocator()
        x = mX[row, col]
        if cutlass.const_expr(self.pairs):
            buffer = smem.allocate_tensor(cutlass.Float32, cute.make_ordered_layout((2, 2, 2), order=(2, 1, 0)), 16)
            max_warp = warp_reduce(x, cute.arch.fmax)
            sum_warp = warp_reduce(cute.math.exp(x - max_warp), operator.add)
            max_row, sum_row = block_softmax_reduce(max_warp, sum_warp, buffer)
            result = max_row + sum_row
        else:
            buffer = smem.allocate_tensor(cutlass.Float32, cute.make_ordered_layout((2, 2), order=(1, 0)), 16)
            result = block_reduce(warp_reduce(x, operator.add), operator.add, buffer)
        mO[row, col] = result


class LastBlock:
    """The sum of (blocks, 32) floats: each block its row's, and the block that comes last the sum of those."""

    @cute.jit
    def __call__(self, mX: cute.Tensor, mPart: cute.Tensor, mCount: cute.Tensor, mO: cute.Tensor):
        self.kernel(mX, mPart, mCount, mO).launch(grid=[mX.shape[0], 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mPart: cute.Tensor, mCount: cute.Tensor, mO: cute.Tensor):
        lane, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        blocks, _, _ = cute.arch.grid_dim()
        total = warp_reduce(mX[block, lane], operator.add)
        before = cutlass.Int32(0)
        if lane == 0:
            mPart[block] = total
            cute.arch.fence_acq_rel_gpu()
            before = cute.arch.atomic_add(mCount.iterator, cutlass.Int32(1))
            cute.arch.fence_acq_rel_gpu()
        # The other lanes learn what lane 0 has acquired only here; the shuffle tells them a number and orders nothing.
        cute.arch.sync_warp()
        before = cute.arch.shuffle_sync(before, 0)
        if before == blocks - 1:
            part = cutlass.Float32(0.0)
            if lane < blocks:
                part = mPart[lane]
            total = warp_reduce(part, operator.add)
            if lane == 0:
                mO[0] = total
                mCount[0] = cutlass.Int32(0)


class Handover:
    """Rows of 32 floats, doubled by one warp, reversed and written by the other, through one row of shared memory."""

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor):
        self.kernel(mX, mO).launch(grid=[1, 1, 1], block=[64, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        sX = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(32), 16)
        for row in range(mX.shape[0]):
            if warp == 0:
                if row > 0:
                    cute.arch.barrier(barrier_id=2, number_of_threads=64)  # empty
                sX[lane] = mX[row, lane] * 2.0
                cute.arch.barrier_arrive(barrier_id=1, number_of_threads=64)  # full
            else:
                cute.arch.barrier(barrier_id=1, number_of_threads=64)
                mO[row, lane] = sX[31 - lane]
                if row < mX.shape[0] - 1:
                    cute.arch.barrier_arrive(barrier_id=2, number_of_threads=64)


class Mirror:
    """Rows of 32 floats reversed by a warp each, through shared memory."""

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor):
        self.kernel(mX, mO).launch(grid=[1, 1, 1], block=[64, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        layout = cute.make_ordered_layout((2, 32), order=(1, 0))
        sX = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, layout, 16)
        for row in range(warp, mX.shape[0], 2):
            sX[warp, lane] = mX[row, lane]
            cute.arch.sync_warp()
            mO[row, lane] = sX[warp, 31 - lane]
            cute.arch.sync_warp()


class ClusterSum:
    """Each row of x is summed by `blocks` blocks of 128 threads; every block writes the row's sum to its place in out."""

    def __init__(self, blocks):
        self.blocks = blocks

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor):
        self.kernel(mX, mO).launch(grid=[mX.shape[0], self.blocks, 1], block=[128, 1, 1], cluster=[1, self.blocks, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, part, _ = cute.arch.block_idx()
        rank = cute.arch.block_idx_in_cluster()
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        smem = cutlass.memory.SmemAllocator()
        mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
        slots = smem.allocate_tensor(cutlass.Float32, cute.make_layout((4, self.blocks)), byte_alignment=16)
        if tidx == 0:
            cute.arch.mbarrier_init(mbar, 1)
            cute.arch.mbarrier_init_fence()
            cute.arch.mbarrier_arrive_and_expect_tx(mbar, 4 * 4 * self.blocks)
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()

        columns = mX.shape[1] // self.blocks
        total = cutlass.Float32(0.0)
        for i in range(tidx, columns, 128):
            total += mX[row, part * columns + i]
        total = cute.arch.warp_reduction(total, operator.add)
        if lane < self.blocks:
            slot = slots.iterator + (warp + rank * 4)
            cute.arch.store_async_dsmem(slot, total.bitcast(cutlass.Int32), mbar, lane)
        cute.arch.mbarrier_wait(mbar, 0)
        result = cutlass.Float32(0.0)
        if lane < 4 * self.blocks:
            result = slots[lane % 4, lane // 4]
        result = cute.arch.warp_reduction(result, operator.add)
        if tidx == 0:
            mO[row, part] = result


class AsyncCopy:
    """One row of 128 floats through shared memory with cp.async, one float a thread."""

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor):
        self.kernel(mX, mO).launch(grid=[1, 1, 1], block=[128, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        sX = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout((1, 128)), 16)
        atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), cutlass.Float32, num_bits_per_copy=32)
        thread, value = cute.make_ordered_layout((1, 128), order=(1, 0)), cute.make_layout((1, 1))
        thr_copy = cute.make_tiled_copy_tv(atom, thread, value).get_slice(tidx)
        gX = cute.local_tile(mX, (1, 128), (0, 0))
        cute.copy(atom, thr_copy.partition_S(gX), thr_copy.partition_D(sX))
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        mO[0, tidx] = sX[0, tidx]


class BulkCopy:
    """Rows through shared memory: one thread starts a bulk load and a bulk store, all threads double nothing in between."""

    def __init__(self, N):
        self.N = N

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor):
        self.kernel(mX, mO).launch(grid=[mX.shape[0], 1, 1], block=[64, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        warp = cute.arch.warp_idx()
        smem = cutlass.memory.SmemAllocator()
        mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
        sX = smem.allocate_tensor(cutlass.Float32, cute.make_layout(self.N), byte_alignment=128)
        if tidx == 0:
            cute.arch.mbarrier_init(mbar, 1)
            cute.arch.mbarrier_init_fence()
        cute.arch.barrier()
        load = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), cutlass.Float32)
        store = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkS2GOp(), cutlass.Float32)
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(mbar, self.N * 4)
                cute.copy(load, mX[row, None], sX, mbar_ptr=mbar)
        cute.arch.mbarrier_wait(mbar, 0)
        for i in range(tidx, self.N, 64):
            sX[i] = sX[i] * 1.0
        cute.arch.fence_view_async_shared()
        cute.arch.barrier()
        if warp == 0:
            with cute.arch.elect_one():
                cute.copy(store, sX, mO[row, None])
                cute.arch.cp_async_bulk_commit_group()
                cute.arch.cp_async_bulk_wait_group(0)
