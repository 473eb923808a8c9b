"""LayerNorm of each row of an (M, N) tensor, y = (x - mean) / sqrt(var + eps) * w + b, a ladder of versions.

Each version changes one thing in the one before it. No chapter climbs it: the rungs are RMSNorm's (chapter 7, whose fourth exercise
is about the variance), and what is new is the mean.

| forward                     | the change                                            | reads x | where it stops paying          |
|-----------------------------|-------------------------------------------------------|---------|--------------------------------|
| `LayerNormBlock`            | one block a row: the mean, then the variance about it | 3 times | 4 bytes a load                 |
| `LayerNormVectors`          | 16 bytes a load, several on their way, predicated     | 3 times | still three reads              |
| `LayerNormRegisters`        | the row stays in registers                            | once    | from 16384 (16 bits) or 32768  |
| `tuned.layernorm.LayerNorm` | several rows a block, clusters, odd rows              | once    | ships                          |

var = mean((x - mean)^2) is found about the mean that was found before. mean(x^2) - mean^2 would need one pass and one exchange, and
is the difference of two large numbers where the mean is large. With the row in registers the second pass costs no bytes.

Numbers below are shares of what the fastest plain kernel reached, 32768 rows on an H200:
`records/h200/bench/layernorm-ladder.json`.

All take float32, float16 or bfloat16 and compute in float32; from `LayerNormVectors` on, w and b have x's type. A vector
divides a row, so rows of odd length get vectors of one element. The steps on the way from `LayerNormRegisters` to what ships
are RMSNorm's: `rmsnorm.py`. Not covered: the gradients, which take RMSNorm's steps too and ship in
`tuned/norm_backward.py`.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.copy import inside, widest_vector
from quack_tutorial.kernels.layout import VECTOR_BYTES, as_rows, row_tiler, threads_for, tile_at, tiled_copy_rows
from quack_tutorial.kernels.reduce import block_reduce, thread_reduce, warp_reduce


class LayerNormBlock:
    """LayerNorm with one block a row, whose neighbouring lanes read neighbouring elements: the formula, in three passes.

    Gains: it is right, and coalesced. Stops paying: 4 bytes a load, or 2, are too few in flight (bfloat16: at most 0.66).
    """

    threads = 256

    @cute.jit
    def __call__(self, mX, mW, mB, mO, eps: cutlass.Float32, stream: cuda.CUstream):
        self.kernel(mX, mW, mB, mO, eps).launch(grid=[mX.shape[0], 1, 1], block=[self.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX, mW, mB, mO, eps: cutlass.Float32):
        N, tidx = mX.shape[1], cute.arch.thread_idx()[0]
        # 64 bits, since row * N may pass 2^31.
        row = cutlass.Int64(cute.arch.block_idx()[0])
        # A set of slots for each of the two exchanges: a warp may still read the first when another writes the second.
        slots = cute.make_ordered_layout((2, 1, self.threads // 32), order=(2, 1, 0))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, byte_alignment=16)
        # read MN elements
        total = cutlass.Float32(0.0)
        for col in range(tidx, N, self.threads):
            total += mX[row, col].to(cutlass.Float32)
        mean = block_reduce(warp_reduce(total, operator.add), operator.add, buffer[0, None, None]) / N
        # read MN elements
        squares = cutlass.Float32(0.0)
        for col in range(tidx, N, self.threads):
            d = mX[row, col].to(cutlass.Float32) - mean
            squares += d * d
        squares = block_reduce(warp_reduce(squares, operator.add), operator.add, buffer[1, None, None])
        rstd = cute.math.rsqrt(squares / N + eps)
        # read MN elements; write MN elements
        for col in range(tidx, N, self.threads):
            xhat = (mX[row, col].to(cutlass.Float32) - mean) * rstd
            mO[row, col] = (xhat * mW[col].to(cutlass.Float32) + mB[col].to(cutlass.Float32)).to(mO.element_type)


class LayerNormVectors:
    """As `LayerNormBlock`, but a thread moves vectors of 16 bytes, `unroll` of them at a time.

    Gains: bytes in flight (bfloat16 of 4096: 0.37 to 0.94, as L2 answers two reads). Stops paying: in rows too long for
    L2, at the half of a copy that three reads allow (float32 of 32768: 0.49), and in short ones, a part of a tile.
    """

    def __init__(self, dtype, N, threads_per_block=256, unroll=4):
        self.dtype, self.N, self.threads_per_block = dtype, N, threads_per_block
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.tiler = (1, threads_per_block * self.vector_size * unroll)

    @cute.jit
    def __call__(self, mX, mW, mB, mO, eps: cutlass.Float32, stream: cuda.CUstream):
        threads = [self.threads_per_block, 1, 1]
        self.kernel(mX, mW, mB, mO, eps).launch(grid=[mX.shape[0], 1, 1], block=threads, stream=stream)

    @cute.kernel
    def kernel(self, mX, mW, mB, mO, eps: cutlass.Float32):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        tiles = cute.ceil_div(self.N, self.tiler[1])
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_block, 1, self.vector_size).get_slice(tidx)
        mC, mW, mB = cute.make_identity_tensor(mX.shape), as_rows(mW, self.N), as_rows(mB, self.N)
        slots = cute.make_ordered_layout((2, 1, self.threads_per_block // 32), order=(2, 1, 0))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, 16)

        # read MN elements
        total = cutlass.Float32(0.0)
        for tile in range(tiles):
            tXgX = thr_copy.partition_S(tile_at(mX, self.tiler, row, tile))
            tXpX = inside(thr_copy.partition_S(cute.local_tile(mC, self.tiler, (row, tile))), mX.shape)
            tXrX = cute.make_fragment_like(tXgX)
            tXrX.fill(0.0)
            cute.copy(atom, tXgX, tXrX, pred=tXpX)
            total = thread_reduce(tXrX.load().to(cutlass.Float32), cute.ReductionOp.ADD, total)
        mean = block_reduce(warp_reduce(total, operator.add), operator.add, buffer[0, None, None]) / self.N
        # read MN elements
        squares = cutlass.Float32(0.0)
        for tile in range(tiles):
            tXgX = thr_copy.partition_S(tile_at(mX, self.tiler, row, tile))
            tXcX = thr_copy.partition_S(cute.local_tile(mC, self.tiler, (row, tile)))
            tXrX = cute.make_fragment_like(tXgX)
            tXrX.fill(0.0)
            cute.copy(atom, tXgX, tXrX, pred=inside(tXcX, mX.shape))
            d = distances(tXrX, mean, tXcX, self.N)
            squares = thread_reduce(d * d, cute.ReductionOp.ADD, squares)
        squares = block_reduce(warp_reduce(squares, operator.add), operator.add, buffer[1, None, None])
        rstd = cute.math.rsqrt(squares / self.N + eps)
        # read MN elements; write MN elements
        for tile in range(tiles):
            tXgX = thr_copy.partition_S(tile_at(mX, self.tiler, row, tile))
            tXgW = thr_copy.partition_S(cute.local_tile(mW, self.tiler, (0, tile)))
            tXgB = thr_copy.partition_S(cute.local_tile(mB, self.tiler, (0, tile)))
            tXgO = thr_copy.partition_D(tile_at(mO, self.tiler, row, tile))
            tXpX = inside(thr_copy.partition_S(cute.local_tile(mC, self.tiler, (row, tile))), mX.shape)
            tXrX, tXrW, tXrB = (cute.make_fragment_like(tXgX) for _ in range(3))
            for tXgT, tXrT in ((tXgX, tXrX), (tXgW, tXrW), (tXgB, tXrB)):
                tXrT.fill(0.0)
                cute.copy(atom, tXgT, tXrT, pred=tXpX)
            xhat = (tXrX.load().to(cutlass.Float32) - mean) * rstd
            y = xhat * tXrW.load().to(cutlass.Float32) + tXrB.load().to(cutlass.Float32)
            tXrX.store(y.to(self.dtype))
            cute.copy(atom, tXrX, tXgO, pred=tXpX)


class LayerNormRegisters(LayerNormVectors):
    """As `LayerNormVectors`, but the tile is the whole row: read once, and both sums and the result come from registers.

    Gains: two reads (float32 of 16384: 0.74 to 0.92). Stops paying: in bfloat16 of 16384 (0.95 to 0.60), where one
    block of 512 threads is all that an SM's registers allow, and in float32 of 32768, where 1024 threads of 64
    registers spill.
    """

    def __init__(self, dtype, N, threads_per_block=None):
        self.dtype, self.N = dtype, N
        self.threads_per_block = threads_per_block or max(128, threads_for(N))
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.tiler = row_tiler(N, self.vector_size, self.threads_per_block)

    @cute.kernel
    def kernel(self, mX, mW, mB, mO, eps: cutlass.Float32):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        gX, gO = tile_at(mX, self.tiler, row), tile_at(mO, self.tiler, row)
        gW, gB = (cute.local_tile(as_rows(m, self.N), self.tiler, (0, 0)) for m in (mW, mB))
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), self.tiler, (row, 0))
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_block, 1, self.vector_size).get_slice(tidx)
        tXgX, tXgW, tXgB = (thr_copy.partition_S(g) for g in (gX, gW, gB))
        tXgO, tXcX = thr_copy.partition_D(gO), thr_copy.partition_S(cX)
        tXpX = inside(tXcX, mX.shape)
        slots = cute.make_ordered_layout((2, 1, self.threads_per_block // 32), order=(2, 1, 0))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, 16)

        # read MN elements
        tXrX, tXrW, tXrB = (cute.make_fragment_like(tXgX) for _ in range(3))
        for tXgT, tXrT in ((tXgX, tXrX), (tXgW, tXrW), (tXgB, tXrB)):  # w and b from L2, on their way with the row
            tXrT.fill(0.0)
            cute.copy(atom, tXgT, tXrT, pred=tXpX)

        total = thread_reduce(tXrX.load().to(cutlass.Float32), cute.ReductionOp.ADD, cutlass.Float32(0.0))
        mean = block_reduce(warp_reduce(total, operator.add), operator.add, buffer[0, None, None]) / self.N
        d = distances(tXrX, mean, tXcX, self.N)
        squares = thread_reduce(d * d, cute.ReductionOp.ADD, cutlass.Float32(0.0))
        squares = block_reduce(warp_reduce(squares, operator.add), operator.add, buffer[1, None, None])
        rstd = cute.math.rsqrt(squares / self.N + eps)

        # write MN elements
        tXrX.store((d * rstd * tXrW.load().to(cutlass.Float32) + tXrB.load().to(cutlass.Float32)).to(self.dtype))
        cute.copy(atom, tXrX, tXgO, pred=tXpX)


@cute.jit
def distances(tXrX: cute.Tensor, mean, tXcX: cute.Tensor, N: cutlass.Constexpr):
    """x - mean in float32; 0 in columns from N on, where x was filled with 0 and the distance would be the mean."""
    tXrD = cute.make_rmem_tensor(tXrX.layout, cutlass.Float32)
    tXrD.store(tXrX.load().to(cutlass.Float32) - mean)
    for k in cutlass.range_constexpr(cute.size(tXcX)):
        if tXcX[k][1] >= N:
            tXrD[k] = 0.0
    return tXrD.load()


LADDER = {"block": lambda dtype, N: LayerNormBlock(), "vectors": LayerNormVectors, "registers": LayerNormRegisters}
