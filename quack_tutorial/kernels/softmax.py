"""Softmax of each row of an (M, N) tensor, y = exp(x - max) / sum(exp(x - max)), in versions.

| version            | reads x | the step it adds                                                      |
|--------------------|---------|-----------------------------------------------------------------------|
| `SoftmaxThreePass` | 3 times | one block a row: maximum, then sum, then output                       |
| `SoftmaxOnline`    | 2 times | maximum and sum in one pass, rescaling the sum when the maximum grows |
| `tuned.softmax.Softmax` | once | the row stays in registers; 16-byte vectors; several rows a block    |

All take float32, float16 or bfloat16, compute in float32, and give what torch gives: a row that is all -inf, or that
holds NaN or +inf, becomes NaN.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.reduce import (
    block_reduce,
    block_softmax_reduce,
    exp,
    finite_or_zero,
    online_combine,
    warp_reduce,
)


class SoftmaxThreePass:
    """Softmax with one block a row that reads the row three times, one element a thread at a time."""

    def __init__(self, threads_per_block=256):
        self.threads_per_block = threads_per_block

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        threads = self.threads_per_block
        self.kernel(mX, mO).launch(grid=[mX.shape[0], 1, 1], block=[threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        row = cutlass.Int64(row)
        threads, N = self.threads_per_block, mX.shape[1]
        smem = cutlass.memory.SmemAllocator()
        max_buffer = smem.allocate_tensor(cutlass.Float32, cute.make_layout((1, threads // 32)), 16)
        sum_buffer = smem.allocate_tensor(cutlass.Float32, cute.make_layout((1, threads // 32)), 16)

        # read MN elements
        max_row = -cutlass.Float32.inf
        for col in range(tidx, N, threads):
            max_row = cute.arch.fmax(max_row, mX[row, col].to(cutlass.Float32))
        max_row = block_reduce(warp_reduce(max_row, cute.arch.fmax), cute.arch.fmax, max_buffer)
        # read MN elements
        sum_row = cutlass.Float32(0.0)
        for col in range(tidx, N, threads):
            sum_row += exp(mX[row, col].to(cutlass.Float32) - max_row)
        sum_row = block_reduce(warp_reduce(sum_row, operator.add), operator.add, sum_buffer)
        # read MN elements; write MN elements
        scale = 1.0 / sum_row
        for col in range(tidx, N, threads):
            mO[row, col] = (exp(mX[row, col].to(cutlass.Float32) - max_row) * scale).to(mO.element_type)


class SoftmaxOnline:
    """Softmax with one block a row that reads the row twice: the maximum and the sum are found together."""

    def __init__(self, threads_per_block=256):
        self.threads_per_block = threads_per_block

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        threads = self.threads_per_block
        self.kernel(mX, mO).launch(grid=[mX.shape[0], 1, 1], block=[threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        row = cutlass.Int64(row)
        threads, N = self.threads_per_block, mX.shape[1]
        smem = cutlass.memory.SmemAllocator()
        buffer = smem.allocate_tensor(
            cutlass.Float32, cute.make_ordered_layout((1, threads // 32, 2), order=(2, 1, 0)), 16
        )

        # read MN elements
        max_thread, sum_thread = -cutlass.Float32.inf, cutlass.Float32(0.0)
        for col in range(tidx, N, threads):
            x = mX[row, col].to(cutlass.Float32)
            max_thread, sum_thread = online_combine(max_thread, sum_thread, x, cutlass.Float32(1.0))
        max_warp = warp_reduce(max_thread, cute.arch.fmax)
        sum_warp = warp_reduce(sum_thread * exp(max_thread - finite_or_zero(max_warp)), operator.add)
        max_row, sum_row = block_softmax_reduce(max_warp, sum_warp, buffer)
        # read MN elements; write MN elements
        scale = 1.0 / sum_row
        for col in range(tidx, N, threads):
            mO[row, col] = (exp(mX[row, col].to(cutlass.Float32) - max_row) * scale).to(mO.element_type)
