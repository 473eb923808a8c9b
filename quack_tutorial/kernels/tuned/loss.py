"""The losses of a batch as one number: their mean over the rows that count, or their sum.

Chapter 5's block reduce, of many rows a thread. A block of 1024 threads goes through the M losses and targets. Which
thread adds up which losses, and in which order the threads' sums meet, is fixed: the same losses give the same bits.
One block reads as much as one SM can, 12 bytes a row with int64 targets; the kernel that made the losses read a row of
logits for each, on all SMs.

Not covered: several blocks, which millions of very short rows could use.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.reduce import block_reduce, warp_reduce


class LossReduction:
    """The mean of (M,) losses over rows whose target is not `ignore_index` (NaN if there is none), or the sum of all.

    Losses of rows to be ignored are 0, so that they need not be left out of the sum. The mean also gives, where asked
    for, what the gradient of each loss is multiplied with: 1 over the number of rows that count.
    """

    threads_per_block = 1024
    in_flight = 8  # rows of a thread whose loss and target are on their way at once

    def __init__(self, dtype, mean=True):
        self.dtype, self.mean = dtype, mean

    @cute.jit
    def __call__(self, mLoss, mT, mOut, mScale, ignore_index: cutlass.Int64, stream: cuda.CUstream):
        self.kernel(mLoss, mT, mOut, mScale, ignore_index).launch(
            grid=[1, 1, 1], block=[self.threads_per_block, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mLoss, mT, mOut, mScale, ignore_index: cutlass.Int64):
        tidx, _, _ = cute.arch.thread_idx()
        smem, slots = cutlass.memory.SmemAllocator(), cute.make_layout((1, self.threads_per_block // 32))
        sTotal = smem.allocate_tensor(cutlass.Float32, slots, byte_alignment=16)
        total, count = cutlass.Float32(0.0), cutlass.Int32(0)
        rLoss = cute.make_rmem_tensor(self.in_flight, cutlass.Float32)
        rCounts = cute.make_rmem_tensor(self.in_flight, cutlass.Int32)
        M, step = mLoss.shape[0], self.threads_per_block * self.in_flight
        for first in range(tidx, M, step):
            # read M losses and M targets: the last row again where there is no other, so that no load waits for a branch
            for i in cutlass.range_constexpr(self.in_flight):
                row = cutlass.min(first + i * self.threads_per_block, M - 1)
                rLoss[i] = mLoss[row]
                if cutlass.const_expr(self.mean):
                    rCounts[i] = (mT[row].to(cutlass.Int64) != ignore_index).to(cutlass.Int32)
            for i in cutlass.range_constexpr(self.in_flight):
                if first + i * self.threads_per_block < M:
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
