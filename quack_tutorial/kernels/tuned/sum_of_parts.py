"""The parts of a weight's gradient added up: the kernel behind those of `norm_backward`, always in the same order.

Chapter 7's `RMSNormBackwardParts` leaves (parts, N) numbers. A block has 32 columns, or 8, and its warps' sums meet in
shared memory (chapter 5). New here: it is launched before the kernel ahead of it has ended (chapter 14's `overlaps`).
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.reduce import warp_reduce
from quack_tutorial.kernels.tuned.config import has_clusters


class ColumnSum:
    """The sum of each column of a (G, N) float32 tensor, always in the same order, as one row of `dtype`."""

    threads_per_block = 1024
    in_flight = 8  # numbers of a thread that are on their way at once

    def __init__(self, N, dtype):
        self.N, self.dtype, self.overlaps = N, dtype, has_clusters()
        # Columns of a block. Where they are few there are more blocks so, each of which reads a sector of a row and not a line.
        self.columns = 32 if N > 1024 else 8

    @cute.jit
    def __call__(self, mPart: cute.Tensor, mOut: cute.Tensor, stream: cuda.CUstream):
        blocks = cute.ceil_div(self.N, self.columns)
        # Programmatic dependent launch (`use_pdl`): it starts before the kernel ahead of it on the stream has ended, if that says
        # so.
        self.kernel(mPart, mOut).launch(
            grid=[blocks, 1, 1], block=[self.threads_per_block, 1, 1], stream=stream, use_pdl=self.overlaps
        )

    @cute.kernel
    def kernel(self, mPart: cute.Tensor, mOut: cute.Tensor):
        block, _, _ = cute.arch.block_idx()
        lane, warp, warps = cute.arch.lane_idx(), cute.arch.warp_idx(), self.threads_per_block // 32
        sSum = cutlass.memory.SmemAllocator().allocate_tensor(
            cutlass.Float32, cute.make_ordered_layout((warps, self.columns), order=(1, 0)), byte_alignment=16
        )
        if cutlass.const_expr(self.overlaps):
            cute.arch.griddepcontrol_wait()  # until that kernel has ended, and its writes are here
        # A lane has a column, and neighbouring lanes of a column neighbouring rows.
        lanes = 32 // self.columns
        of_block, first_row, rows = lane // lanes, warp * lanes + lane % lanes, warps * lanes
        col, total, G = block * self.columns + of_block, cutlass.Float32(0.0), mPart.shape[0]
        values = cute.make_rmem_tensor(self.in_flight, cutlass.Float32)
        if col < self.N:
            for first in range(first_row, G, rows * self.in_flight):
                for i in cutlass.range_constexpr(self.in_flight):
                    values[i] = 0.0
                    if first + i * rows < G:
                        values[i] = mPart[first + i * rows, col]
                for i in cutlass.range_constexpr(self.in_flight):
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
