"""RMSNorm of each row of an (M, N) tensor written in float8 (e4m3) with the scale that was taken out, a ladder of versions.

y = x / sqrt(mean(x^2) + eps) * w, scale = max|y| / 448, q = y / scale. Each version changes one thing in the one before it.

| version                       | the change                                              | reads x | writes                       |
|-------------------------------|---------------------------------------------------------|---------|------------------------------|
| `RMSNormQuantizedBlock`       | one block a row: squares, then the maximum, then q      | 3 times | a byte an instruction        |
| `RMSNormQuantizedVectors`     | 16 bytes a load, several on their way, predicated       | 3 times | as many elements as it loads |
| `RMSNormQuantizedRegisters`   | the row stays in registers, and with it the second sum's y | once | the same                    |
| `RMSNormQuantizedLanes`       | a scale for each 128 columns: a butterfly, no exchange  | once    | a scale for 16 or 32 lanes   |
| `tuned.quantized`             | any row, a residual, clusters, sizes by a rule          | once    | ships, with either scale     |

Two kernels, RMSNorm and one that makes codes of its result, would move 3 MN elements and MN bytes, or 4 MN where the second reads
twice. With the second reduction from registers there are MN elements and MN bytes.

All take float32, float16 or bfloat16 rows and compute in float32; from `RMSNormQuantizedVectors` on w has x's type. A vector
divides a row, so rows of odd length get vectors of one element. q is passed as uint8, its bits. An H200's record has times of all
but `RMSNormQuantizedLanes`; on an H100 none has been timed.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.hardware import SCALE_COLUMNS
from quack_tutorial.kernels.arithmetic import larger, largest_magnitude, scale_of
from quack_tutorial.kernels.copy import inside, widest_vector
from quack_tutorial.kernels.layout import VECTOR_BYTES, as_rows, row_tiler, threads_for, tile_at, tiled_copy_rows
from quack_tutorial.kernels.reduce import block_reduce, thread_reduce, warp_reduce


class RMSNormQuantizedBlock:
    """The formula in three passes: a block has a row, and neighbouring lanes read neighbouring elements."""

    threads = 256

    @cute.jit
    def __call__(self, mX, mW, mQ, mScale, eps: cutlass.Float32, stream: cuda.CUstream):
        launched = self.kernel(mX, mW, mQ, mScale, eps)
        launched.launch(grid=[mX.shape[0], 1, 1], block=[self.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX, mW, mQ, mScale, eps: cutlass.Float32):
        N, tidx = mX.shape[1], cute.arch.thread_idx()[0]
        # 64 bits, since row * N may pass 2^31.
        row = cutlass.Int64(cute.arch.block_idx()[0])
        # A set of slots for each of the two exchanges: a warp may still read the first when another writes the second.
        slots = cute.make_ordered_layout((2, 1, self.threads // 32), order=(2, 1, 0))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, byte_alignment=16)
        # read MN elements
        squares = cutlass.Float32(0.0)
        for col in range(tidx, N, self.threads):
            x = mX[row, col].to(cutlass.Float32)
            squares += x * x
        squares = block_reduce(warp_reduce(squares, operator.add), operator.add, buffer[0, None, None])
        rstd = cute.math.rsqrt(squares / N + eps)
        # read MN elements
        largest = cutlass.Float32(0.0)
        for col in range(tidx, N, self.threads):
            y = mX[row, col].to(cutlass.Float32) * rstd * mW[col].to(cutlass.Float32)
            largest = larger(largest, cute.math.absf(y))
        largest = block_reduce(warp_reduce(largest, larger), larger, buffer[1, None, None])
        scale, inverse = scale_of(largest)
        if tidx == 0:
            mScale[row] = scale
        # read MN elements; write MN bytes
        for col in range(tidx, N, self.threads):
            y = mX[row, col].to(cutlass.Float32) * rstd * mW[col].to(cutlass.Float32)
            mQ[row, col] = (y * inverse).to(cutlass.Float8E4M3FN).bitcast(cutlass.Uint8)


class RMSNormQuantizedVectors:
    """As `RMSNormQuantizedBlock`, but a thread moves vectors of 16 bytes, `unroll` of them at a time, and writes 4 or 8 bytes."""

    def __init__(self, dtype, N, threads_per_block=256, unroll=4):
        self.dtype, self.N, self.threads_per_block = dtype, N, threads_per_block
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.tiler = (1, threads_per_block * self.vector_size * unroll)

    @cute.jit
    def __call__(self, mX, mW, mQ, mScale, eps: cutlass.Float32, stream: cuda.CUstream):
        launched = self.kernel(mX, mW, mQ, mScale, eps)
        launched.launch(grid=[mX.shape[0], 1, 1], block=[self.threads_per_block, 1, 1], stream=stream)

    def copies(self, tidx):
        """For elements of x, and for bytes of q: the copy atom and this thread's part of a copy."""
        found = []
        for dtype in (self.dtype, cutlass.Uint8):
            bits = self.vector_size * dtype.width
            atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), dtype, num_bits_per_copy=bits)
            found.append((atom, tiled_copy_rows(atom, self.threads_per_block, 1, self.vector_size).get_slice(tidx)))
        return found

    @cute.kernel
    def kernel(self, mX, mW, mQ, mScale, eps: cutlass.Float32):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        tiles = cute.ceil_div(self.N, self.tiler[1])
        (atom, thr_copy), (atom_q, thr_copy_q) = self.copies(tidx)
        mC, mW = cute.make_identity_tensor(mX.shape), as_rows(mW, self.N)
        slots = cute.make_ordered_layout((2, 1, self.threads_per_block // 32), order=(2, 1, 0))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, 16)

        # read MN elements
        squares = cutlass.Float32(0.0)
        for tile in range(tiles):
            tXpX = inside(thr_copy.partition_S(cute.local_tile(mC, self.tiler, (row, tile))), mX.shape)
            x = loaded(atom, thr_copy.partition_S(tile_at(mX, self.tiler, row, tile)), tXpX)
            squares = thread_reduce(x * x, cute.ReductionOp.ADD, squares)
        squares = block_reduce(warp_reduce(squares, operator.add), operator.add, buffer[0, None, None])
        rstd = cute.math.rsqrt(squares / self.N + eps)
        # read MN elements
        largest = cutlass.Float32(0.0)
        for tile in range(tiles):
            tXpX = inside(thr_copy.partition_S(cute.local_tile(mC, self.tiler, (row, tile))), mX.shape)
            x = loaded(atom, thr_copy.partition_S(tile_at(mX, self.tiler, row, tile)), tXpX)
            w = loaded(atom, thr_copy.partition_S(cute.local_tile(mW, self.tiler, (0, tile))), tXpX)
            largest = larger(largest, largest_magnitude(x * rstd * w))
        largest = block_reduce(warp_reduce(largest, larger), larger, buffer[1, None, None])
        scale, inverse = scale_of(largest)
        if tidx == 0:
            mScale[row] = scale
        # read MN elements; write MN bytes
        for tile in range(tiles):
            tXgQ = thr_copy_q.partition_D(tile_at(mQ, self.tiler, row, tile))
            tXpX = inside(thr_copy.partition_S(cute.local_tile(mC, self.tiler, (row, tile))), mX.shape)
            x = loaded(atom, thr_copy.partition_S(tile_at(mX, self.tiler, row, tile)), tXpX)
            w = loaded(atom, thr_copy.partition_S(cute.local_tile(mW, self.tiler, (0, tile))), tXpX)
            cute.copy(atom_q, codes_of(x * rstd * w * inverse, tXgQ), tXgQ, pred=tXpX)


class RMSNormQuantizedRegisters(RMSNormQuantizedVectors):
    """As `RMSNormQuantizedVectors`, but the tile is the whole row: read once, and y is in registers when its maximum is known."""

    def __init__(self, dtype, N, threads_per_block=None):
        self.dtype, self.N = dtype, N
        self.threads_per_block = threads_per_block or max(128, threads_for(N))
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.tiler = row_tiler(N, self.vector_size, self.threads_per_block)

    @cute.kernel
    def kernel(self, mX, mW, mQ, mScale, eps: cutlass.Float32):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        (atom, thr_copy), (atom_q, thr_copy_q) = self.copies(tidx)
        gW = cute.local_tile(as_rows(mW, self.N), self.tiler, (0, 0))
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), self.tiler, (row, 0))
        tXcX, tXgQ = thr_copy.partition_S(cX), thr_copy_q.partition_D(tile_at(mQ, self.tiler, row))
        tXpX = inside(tXcX, mX.shape)
        slots = cute.make_ordered_layout((2, 1, self.threads_per_block // 32), order=(2, 1, 0))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, 16)

        # read MN elements
        x = loaded(atom, thr_copy.partition_S(tile_at(mX, self.tiler, row)), tXpX)
        w = loaded(atom, thr_copy.partition_S(gW), tXpX)  # from L2, on its way with the row
        squares = thread_reduce(x * x, cute.ReductionOp.ADD, cutlass.Float32(0.0))
        squares = block_reduce(warp_reduce(squares, operator.add), operator.add, buffer[0, None, None])
        y = x * cute.math.rsqrt(squares / self.N + eps) * w
        y = self.divided(y, mScale, row, tXcX, tXpX, buffer[1, None, None])
        # write MN bytes
        cute.copy(atom_q, codes_of(y, tXgQ), tXgQ, pred=tXpX)

    @cute.jit
    def divided(self, y, mScale, row, tXcX, tXpX, slots):
        """y over the row's scale, which is written."""
        largest = block_reduce(warp_reduce(largest_magnitude(y), larger), larger, slots)
        scale, inverse = scale_of(largest)
        if cute.arch.thread_idx()[0] == 0:
            mScale[row] = scale
        return y * inverse


class RMSNormQuantizedLanes(RMSNormQuantizedRegisters):
    """As `RMSNormQuantizedRegisters`, but each 128 columns have a scale, (M, N / 128) in all: the 16 or 32 lanes that have their
    vectors find the maximum by a butterfly, and no warp waits for another."""

    def __init__(self, dtype, N):
        super().__init__(dtype, N)
        self.lanes = SCALE_COLUMNS // self.vector_size
        if N % SCALE_COLUMNS:
            raise ValueError(f"rows of {N} columns are not blocks of {SCALE_COLUMNS}: use a version with a scale a row")

    @cute.jit
    def divided(self, y, mScale, row, tXcX, tXpX, slots):
        """y over the scales of its blocks, which are written."""
        tXrY = cute.make_rmem_tensor(tXcX.shape, cutlass.Float32)
        tXrY.store(y)
        for i in cutlass.range_constexpr(cute.size(tXcX, mode=[2])):
            vector = tXrY[None, 0, i]
            scale, inverse = scale_of(warp_reduce(largest_magnitude(vector.load()), larger, self.lanes))
            if tXpX[0, i] and cute.arch.lane_idx() % self.lanes == 0:
                mScale[row, tXcX[0, 0, i][1] // SCALE_COLUMNS] = scale
            vector.store(vector.load() * inverse)
        return tXrY.load()


@cute.jit
def loaded(atom, tXgX: cute.Tensor, tXpX: cute.Tensor):
    """What this thread has of a tile, in float32; 0 outside."""
    tXrX = cute.make_fragment_like(tXgX)
    tXrX.fill(0.0)
    cute.copy(atom, tXgX, tXrX, pred=tXpX)
    return tXrX.load().to(cutlass.Float32)


@cute.jit
def codes_of(quotients, tXgQ: cute.Tensor):
    """The numbers in float8, as registers with the bytes to write to `tXgQ`."""
    tXrQ = cute.make_fragment_like(tXgQ)
    cute.recast_tensor(tXrQ, cutlass.Float8E4M3FN).store(quotients.to(cutlass.Float8E4M3FN))
    return tXrQ


LADDER = {
    "block": lambda dtype, N: RMSNormQuantizedBlock(),
    "vectors": RMSNormQuantizedVectors,
    "registers": RMSNormQuantizedRegisters,
}
