"""Cross-entropy of each row of an (M, N) tensor of logits with the target class of the row, in versions.

| version                 | a row belongs to | reads x | accesses      | the step it adds                                      |
|-------------------------|------------------|---------|---------------|-------------------------------------------------------|
| `CrossEntropyTwoPass`   | one block        | 2 times | one element   | the maximum, then the sum                             |
| `CrossEntropyOnline`    | one block        | once    | one element   | both at once, rescaled when the maximum grows         |
| `tuned.cross_entropy.CrossEntropy` | lanes or a block | once | 16 bytes | vectors, rescaled once for several                 |

All take float32, float16 or bfloat16 and compute in float32.

Not covered: ignore_index, log-sum-exp; the final kernel has them.
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


class CrossEntropyTwoPass:
    """Cross-entropy with one block a row that reads the row twice: for its maximum, then for the sum."""

    threads = 256

    @cute.jit
    def __call__(self, mX, mT, mLoss, stream: cuda.CUstream):
        self.kernel(mX, mT, mLoss).launch(grid=[mX.shape[0], 1, 1], block=[self.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX, mT, mLoss):
        N, tidx = mX.shape[1], cute.arch.thread_idx()[0]
        row = cutlass.Int64(cute.arch.block_idx()[0])
        smem, slots = cutlass.memory.SmemAllocator(), cute.make_layout((1, self.threads // 32))
        max_buffer = smem.allocate_tensor(cutlass.Float32, slots, byte_alignment=16)
        sum_buffer = smem.allocate_tensor(cutlass.Float32, slots, byte_alignment=16)
        # read MN elements
        max_row = -cutlass.Float32.inf
        for col in range(tidx, N, self.threads):
            max_row = cute.arch.fmax(max_row, mX[row, col].to(cutlass.Float32))
        max_row = block_reduce(warp_reduce(max_row, cute.arch.fmax), cute.arch.fmax, max_buffer)
        # read MN elements
        sum_row = cutlass.Float32(0.0)
        for col in range(tidx, N, self.threads):
            sum_row += exp(mX[row, col].to(cutlass.Float32) - max_row, True)
        sum_row = block_reduce(warp_reduce(sum_row, operator.add), operator.add, sum_buffer)
        if tidx == 0:
            logit = mX[row, mT[row]].to(cutlass.Float32)
            mLoss[row] = max_row + cute.math.log(sum_row) - logit


class CrossEntropyOnline:
    """Cross-entropy with one block a row that reads the row once, rescaling the sum with every element."""

    threads = 256

    @cute.jit
    def __call__(self, mX, mT, mLoss, stream: cuda.CUstream):
        self.kernel(mX, mT, mLoss).launch(grid=[mX.shape[0], 1, 1], block=[self.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX, mT, mLoss):
        N, tidx = mX.shape[1], cute.arch.thread_idx()[0]
        row = cutlass.Int64(cute.arch.block_idx()[0])
        slots = cute.make_ordered_layout((1, self.threads // 32, 2), order=(2, 1, 0))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, byte_alignment=16)
        # read MN elements
        max_thread, sum_thread = -cutlass.Float32.inf, cutlass.Float32(0.0)
        for col in range(tidx, N, self.threads):
            x = mX[row, col].to(cutlass.Float32)
            max_thread, sum_thread = online_combine(max_thread, sum_thread, x, cutlass.Float32(1.0))
        max_warp = warp_reduce(max_thread, cute.arch.fmax)
        sum_warp = warp_reduce(sum_thread * exp(max_thread - finite_or_zero(max_warp)), operator.add)
        max_row, sum_row = block_softmax_reduce(max_warp, sum_warp, buffer)
        if tidx == 0:
            logit = mX[row, mT[row]].to(cutlass.Float32)
            mLoss[row] = max_row + cute.math.log(sum_row) - logit
