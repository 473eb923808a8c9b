"""A row sum over a cluster: one block a slice, partial sums exchanged through distributed shared memory."""

import operator

import cutlass
import cutlass.cute as cute


class ClusterSum:
    """Each row of x is summed by `blocks` blocks of 128 threads; every block writes the row's sum to its place in out.

    `bug` takes one step away, for the tests of the reports.
    """

    def __init__(self, blocks, bug=""):
        self.blocks, self.bug = blocks, bug

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
        expected = 4 * 4 * self.blocks + 4 * int(self.bug == "too many bytes")
        if tidx == 0:
            cute.arch.mbarrier_init(mbar, 1)
            cute.arch.mbarrier_init_fence()
            if cutlass.const_expr(self.bug != "no arrival"):
                cute.arch.mbarrier_arrive_and_expect_tx(mbar, expected)
        if cutlass.const_expr(self.bug != "unpublished"):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()

        columns = mX.shape[1] // self.blocks
        total = cutlass.Float32(0.0)
        for i in range(tidx, columns, 128):
            total += mX[row, part * columns + i]
        total = cute.arch.warp_reduction(total, operator.add)
        if lane < self.blocks:
            slot = slots.iterator + (warp + rank * 4)
            peer = lane + int(self.bug == "wrong peer")
            cute.arch.store_async_dsmem(slot, total.bitcast(cutlass.Int32), mbar, peer)
        if cutlass.const_expr(self.bug != "no wait"):
            cute.arch.mbarrier_wait(mbar, 0)
        result = cutlass.Float32(0.0)
        if lane < 4 * self.blocks:
            result = slots[lane % 4, lane // 4]
        result = cute.arch.warp_reduction(result, operator.add)
        if tidx == 0:
            mO[row, part] = result
        if cutlass.const_expr(self.bug == "no wait"):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
