"""RMSNorm of each row of an (M, N) tensor, y = x / sqrt(mean(x^2) + eps) * w, in versions.

| version                 | a row belongs to | reads x | accesses      | the step it adds                                      |
|-------------------------|------------------|---------|---------------|-------------------------------------------------------|
| `RMSNormThread`         | one thread       | 2 times | one element   | the formula; 32 lanes read 32 rows: nothing coalesced |
| `RMSNormBlock`          | one block        | 2 times | one element   | lanes read neighbours; a block reduce                 |
| `RMSNormVectors`        | one block        | 2 times | 16 bytes      | vectors, several on their way                         |
| `tuned.rmsnorm.RMSNorm` | lanes or blocks  | once    | 16 bytes      | the row stays in registers                            |

All take float32, float16 or bfloat16 and compute in float32.

Not covered: residual and bias; the final kernel has them.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.reduce import block_reduce, thread_reduce, warp_reduce
from quack_tutorial.kernels.tuned.config import Config
from quack_tutorial.kernels.tuned.row_tile import RowTile


class RMSNormThread:
    """RMSNorm with one thread a row: the formula and nothing else."""

    @cute.jit
    def __call__(self, mX, mW, mO, eps: cutlass.Float32, stream: cuda.CUstream):
        self.kernel(mX, mW, mO, eps).launch(
            grid=[cute.ceil_div(mX.shape[0], 128), 1, 1], block=[128, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mX, mW, mO, eps: cutlass.Float32):
        M, N = mX.shape
        row = cutlass.Int64(cute.arch.block_idx()[0]) * 128 + cute.arch.thread_idx()[0]
        if row < M:
            # read MN elements
            squares = cutlass.Float32(0.0)
            for col in range(N):
                x = mX[row, col].to(cutlass.Float32)
                squares += x * x
            rstd = cute.math.rsqrt(squares / N + eps)
            # read MN elements; write MN elements
            for col in range(N):
                x = mX[row, col].to(cutlass.Float32)
                mO[row, col] = (x * rstd * mW[col].to(cutlass.Float32)).to(mO.element_type)


class RMSNormBlock:
    """RMSNorm with one block a row, one element a thread at a time."""

    threads = 256

    @cute.jit
    def __call__(self, mX, mW, mO, eps: cutlass.Float32, stream: cuda.CUstream):
        self.kernel(mX, mW, mO, eps).launch(grid=[mX.shape[0], 1, 1], block=[self.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX, mW, mO, eps: cutlass.Float32):
        N, tidx = mX.shape[1], cute.arch.thread_idx()[0]
        row = cutlass.Int64(cute.arch.block_idx()[0])
        slots = cute.make_layout((1, self.threads // 32))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, byte_alignment=16)
        # read MN elements
        squares = cutlass.Float32(0.0)
        for col in range(tidx, N, self.threads):
            x = mX[row, col].to(cutlass.Float32)
            squares += x * x
        squares = block_reduce(warp_reduce(squares, operator.add), operator.add, buffer)
        rstd = cute.math.rsqrt(squares / N + eps)
        # read MN elements; write MN elements
        for col in range(tidx, N, self.threads):
            x = mX[row, col].to(cutlass.Float32)
            mO[row, col] = (x * rstd * mW[col].to(cutlass.Float32)).to(mO.element_type)


class RMSNormVectors:
    """RMSNorm with one block a row, two 16-byte vectors a thread at a time."""

    def __init__(self, dtype, N, rows="aligned", threads=256):
        self.dtype, self.N, self.threads = dtype, N, threads
        self.tile = RowTile(dtype, N, rows, Config(threads, threads), vectors=2, hint=None)

    @cute.jit
    def __call__(self, mX, mW, mO, eps: cutlass.Float32, stream: cuda.CUstream):
        self.kernel(mX, mW, mO, eps).launch(grid=[mX.shape[0], 1, 1], block=[self.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX, mW, mO, eps: cutlass.Float32):
        slots = cute.make_layout((1, self.threads // 32))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, byte_alignment=16)
        row, row_exists, _, lane, head, body = self.tile.place(mX, cute.arch.block_idx()[0])
        # read MN elements
        squares = cutlass.Float32(0.0)
        for piece in range(self.tile.pieces):
            place = row, row_exists, piece, lane, head, body
            x = self.tile.load(mX, place).load().to(cutlass.Float32)
            squares = thread_reduce(x * x, cute.ReductionOp.ADD, squares)
        squares = block_reduce(warp_reduce(squares, operator.add), operator.add, buffer)
        rstd = cute.math.rsqrt(squares / self.N + eps)
        # read MN elements; write MN elements
        for piece in range(self.tile.pieces):
            place = row, row_exists, piece, lane, head, body
            tXrX = self.tile.load(mX, place)
            w = self.tile.load_weight(mW, place, mX.shape[0]).load().to(cutlass.Float32)
            tXrX.store((tXrX.load().to(cutlass.Float32) * rstd * w).to(self.dtype))
            self.tile.store(tXrX, mO, place)
