"""What is added up behind a kernel, always in the same order: the parts of a weight's gradient, and the losses of a batch.

Both are chapter 5's block reduce, of many numbers a thread; new here are numbers in flight, and a kernel that starts before the
one ahead of it has ended (chapter 16's `overlaps`). One block adds the losses: 12 bytes a row, beside the row of logits."""

import operator

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.config import CLUSTERS, HOPPER
from quack_tutorial.kernels.reduce import block_reduce, warp_reduce

THREADS = 1024  # of a block
IN_FLIGHT = 8  # numbers of a thread that are on their way at once


class ColumnSum:
    """The sum of each column of a (G, N) float32 tensor, the parts that `norm_backward` leaves, as one row of `dtype`."""

    def __init__(self, N, dtype, card=HOPPER):
        self.N, self.dtype, self.overlaps = N, dtype, card.capability >= CLUSTERS
        # Columns of a block. Where they are few there are more blocks so, each of which reads a sector of a row and not a line.
        self.columns = 32 if N > 1024 else 8

    @cute.jit
    def __call__(self, mPart: cute.Tensor, mOut: cute.Tensor, stream: cuda.CUstream):
        grid = [cute.ceil_div(self.N, self.columns), 1, 1]
        # Programmatic dependent launch: it starts before the kernel ahead of it on the stream has ended, if that says so.
        self.kernel(mPart, mOut).launch(grid=grid, block=[THREADS, 1, 1], stream=stream, use_pdl=self.overlaps)

    @cute.kernel
    def kernel(self, mPart: cute.Tensor, mOut: cute.Tensor):
        block, _, _ = cute.arch.block_idx()
        lane, warp, warps = cute.arch.lane_idx(), cute.arch.warp_idx(), THREADS // 32
        slots = cute.make_ordered_layout((warps, self.columns), order=(1, 0))
        sSum = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, byte_alignment=16)
        if cutlass.const_expr(self.overlaps):
            cute.arch.griddepcontrol_wait()  # until that kernel has ended, and its writes are here
        # A lane has a column, and neighbouring lanes of a column neighbouring rows.
        lanes = 32 // self.columns
        of_block, first_row, rows = lane // lanes, warp * lanes + lane % lanes, warps * lanes
        col, total, G = block * self.columns + of_block, cutlass.Float32(0.0), mPart.shape[0]
        values = cute.make_rmem_tensor(IN_FLIGHT, cutlass.Float32)
        if col < self.N:
            for first in range(first_row, G, rows * IN_FLIGHT):
                for i in cutlass.range_constexpr(IN_FLIGHT):
                    values[i] = 0.0
                    if first + i * rows < G:
                        values[i] = mPart[first + i * rows, col]
                for i in cutlass.range_constexpr(IN_FLIGHT):
                    total += values[i]
        total = warp_reduce(total, operator.add, lanes)
        if lane % lanes == 0:
            sSum[warp, of_block] = total
        cute.arch.barrier()
        col = block * self.columns + lane
        if warp == 0 and lane < self.columns and col < self.N:
            total = cutlass.Float32(0.0)
            for other in cutlass.range_constexpr(warps):
                total += sSum[other, lane]
            mOut[col] = total.to(self.dtype)


class LossReduction:
    """The mean of (M,) losses over rows whose target is not `ignore_index` (NaN if there is none), or the sum of all, since ignored
    rows have 0. The mean also gives, where asked for, the factor of each loss's gradient: 1 over the number of rows."""

    def __init__(self, dtype, mean=True):
        self.dtype, self.mean = dtype, mean

    @cute.jit
    def __call__(self, mLoss, mT, mOut, mScale, ignore_index: cutlass.Int64, stream: cuda.CUstream):
        launched = self.kernel(mLoss, mT, mOut, mScale, ignore_index)
        launched.launch(grid=[1, 1, 1], block=[THREADS, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mLoss, mT, mOut, mScale, ignore_index: cutlass.Int64):
        tidx, _, _ = cute.arch.thread_idx()
        smem, slots = cutlass.memory.SmemAllocator(), cute.make_layout((1, THREADS // 32))
        sTotal = smem.allocate_tensor(cutlass.Float32, slots, byte_alignment=16)
        total, count = cutlass.Float32(0.0), cutlass.Int32(0)
        rLoss = cute.make_rmem_tensor(IN_FLIGHT, cutlass.Float32)
        rCounts = cute.make_rmem_tensor(IN_FLIGHT, cutlass.Int32)
        M = mLoss.shape[0]
        for first in range(tidx, M, THREADS * IN_FLIGHT):
            # read M losses and M targets: the last row again where there is no other, so that no load waits for a branch
            for i in cutlass.range_constexpr(IN_FLIGHT):
                row = cutlass.min(first + i * THREADS, M - 1)
                rLoss[i] = mLoss[row]
                if cutlass.const_expr(self.mean):
                    rCounts[i] = (mT[row].to(cutlass.Int64) != ignore_index).to(cutlass.Int32)
            for i in cutlass.range_constexpr(IN_FLIGHT):
                if first + i * THREADS < M:
                    total += rLoss[i]
                    if cutlass.const_expr(self.mean):
                        count += rCounts[i]
        total = block_reduce(warp_reduce(total, operator.add), operator.add, sTotal)
        if cutlass.const_expr(self.mean):
            sCount = smem.allocate_tensor(cutlass.Int32, slots, byte_alignment=16)
            count = block_reduce(warp_reduce(count, operator.add), operator.add, sCount)
            total /= count.to(cutlass.Float32)
        if tidx == 0:  # write 1 or 2 elements
            mOut[0] = total.to(self.dtype)
            if cutlass.const_expr(mScale is not None):
                mScale[0] = 1.0 / count.to(cutlass.Float32)


class ReducedCrossEntropy:
    """Cross-entropy's losses, and right behind them their mean or sum: two kernels in one call, which is quicker than two."""

    def __init__(self, cross_entropy, reduction):
        self.cross_entropy, self.reduction = cross_entropy, reduction

    @cute.jit
    def __call__(self, mX, mT, mLoss, mLse, mOut, mScale, ignore_index: cutlass.Int64, stream: cuda.CUstream):
        self.cross_entropy(mX, mT, mLoss, mLse, ignore_index, stream)
        self.reduction(mLoss, mT, mOut, mScale, ignore_index, stream)
