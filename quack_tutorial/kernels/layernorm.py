"""LayerNorm of each row of an (M, N) tensor, y = (x - mean) / sqrt(var + eps) * w + b, and its gradient: two ladders of versions.

Each version changes one thing in the one before it.

| forward                     | the change                                            | reads x | where it stops paying          |
|-----------------------------|-------------------------------------------------------|---------|--------------------------------|
| `LayerNormBlock`            | one block a row: the mean, then the variance about it | 3 times | 4 bytes a load                 |
| `LayerNormVectors`          | 16 bytes a load, several on their way, predicated     | 3 times | still three reads              |
| `LayerNormRegisters`        | the row stays in registers                            | once    | from 16384 (16 bits) or 32768  |
| `tuned.layernorm.LayerNorm` | several rows a block, clusters, odd rows              | once    | ships                          |

var = mean((x - mean)^2) is found about the mean that was found before. mean(x^2) - mean^2 would need one pass and one exchange, and
is the difference of two large numbers where the mean is large. With the row in registers the second pass costs no bytes.

With rstd = 1 / sqrt(var + eps) and xhat = (x - mean) rstd, the gradients are
dx = rstd (w dy - mean(w dy) - xhat mean(w dy xhat)), and over the rows dw = sum of dy xhat, db = sum of dy. A row has two
sums, which its warps exchange together.

| backward                            | the change                             | dw and db         | where it stops paying       |
|-------------------------------------|----------------------------------------|-------------------|-----------------------------|
| `LayerNormBackwardAtomics`          | one block a row, in registers          | 2 N atomics a row | everywhere: additions wait  |
| `LayerNormBackwardParts`            | few blocks, each with many rows        | one write a block | from 16384: the parts spill |
| `LayerNormBackwardPipelined`        | cp.async brings the next row meanwhile | the same          | nearly everywhere           |
| `tuned.layernorm_backward`          | several rows, clusters, bulk copies    | the same          | ships                       |

A block's parts of dw and db take two registers an element, beside the row's: from 16384 columns on the second and third
version spill (ptxas 13.0 says 420 bytes a thread for the second, 368 in bfloat16, and 320 for the third, which refuses
such rows of float32; in `records/compiled`). There a cluster has to share the row.

Numbers below are shares of what the fastest plain kernel reached, 32768 rows on an H200:
`records/bench/layernorm-ladder.json` and `layernorm-backward-ladder.json`.

All take float32, float16 or bfloat16 and compute in float32; from `LayerNormVectors` on, w and b have x's type;
backward, w, dw and db are float32. A vector divides a row, so rows of odd length get vectors of one element; of 16 bits
`LayerNormBackwardPipelined` refuses them. The steps on the way from `LayerNormRegisters` to what ships are RMSNorm's:
`rmsnorm.py`.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.copy import async_vector, copy_columns, inside, refuse_large_tile, widest_vector
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


class LayerNormRegisters:
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

    @cute.jit
    def __call__(self, mX, mW, mB, mO, eps: cutlass.Float32, stream: cuda.CUstream):
        threads = [self.threads_per_block, 1, 1]
        self.kernel(mX, mW, mB, mO, eps).launch(grid=[mX.shape[0], 1, 1], block=threads, stream=stream)

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


@cute.jit
def block_sums(a, b, buffer: cute.Tensor):
    """The sums of one pair a warp over the block, in one exchange; `buffer` is shared memory of (warps, 2).

    warps is a power of 2, at most 32. A second call on the same buffer needs a barrier between the two.
    """
    warps, lane, warp = cute.size(buffer, mode=[0]), cute.arch.lane_idx(), cute.arch.warp_idx()
    if lane == 0:
        buffer[warp, 0] = a
        buffer[warp, 1] = b
    cute.arch.barrier()
    a, b = buffer[lane % warps, 0], buffer[lane % warps, 1]
    return warp_reduce(a, operator.add, warps), warp_reduce(b, operator.add, warps)


class LayerNormBackwardAtomics:
    """dx, dw and db with one block a row: it reads the row of x and dy once, and adds its row's part to dw and db with atomics.

    mDO is dy, mMean and mRstd (M,) what forward found. mDWPart and mDBPart are (1, N) and must be 0 before. The order
    of the additions changes from run to run, and with it the last bits of both. Stops paying at once: additions to one
    address wait for each other (all below 0.2).
    """

    finishes = False  # dw and db are the only rows of mDWPart and mDBPart

    def __init__(self, dtype, N, threads_per_block=None):
        self.dtype, self.N = dtype, N
        # Half of forward's elements a thread: x, dy, w, dw and db take registers for each.
        self.threads_per_block = threads_per_block or max(128, threads_for(N, elements=16))
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.tiler = row_tiler(N, self.vector_size, self.threads_per_block)

    def parts_of(self, M, sms):
        """How many rows mDWPart and mDBPart have, for M rows of x on a GPU of `sms` SMs."""
        return 1

    @cute.jit
    def __call__(self, mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart, stream: cuda.CUstream):
        self.kernel(mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart).launch(
            grid=[mX.shape[0], 1, 1], block=[self.threads_per_block, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        gX, gDO, gDX = (tile_at(m, self.tiler, row) for m in (mX, mDO, mDX))
        gW = cute.local_tile(as_rows(mW, self.N), self.tiler, (0, 0))
        cX = cute.local_tile(cute.make_identity_tensor((1, self.N)), self.tiler, (0, 0))
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_block, 1, self.vector_size).get_slice(tidx)
        tXgX, tXgDO, tXgDX = thr_copy.partition_S(gX), thr_copy.partition_S(gDO), thr_copy.partition_D(gDX)
        tXcX = thr_copy.partition_S(cX)
        tXpX = inside(tXcX, (1, self.N))
        slots = cute.make_ordered_layout((self.threads_per_block // 32, 2), order=(1, 0))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, 16)

        # read 2 MN elements
        tXrX, tXrDO = cute.make_fragment_like(tXgX), cute.make_fragment_like(tXgX)
        tXrX.fill(0.0)
        tXrDO.fill(0.0)
        cute.copy(atom, tXgX, tXrX, pred=tXpX)
        cute.copy(atom, tXgDO, tXrDO, pred=tXpX)
        tXrW = cute.make_rmem_tensor(tXrX.layout, cutlass.Float32)
        tXrW.fill(0.0)
        copy_columns(thr_copy.partition_S(gW), tXrW, tXcX, self.N)

        # dy is 0 in columns from N on, and so is all that xhat is multiplied with.
        rstd = mRstd[row]
        xhat, dy = (tXrX.load().to(cutlass.Float32) - mMean[row]) * rstd, tXrDO.load().to(cutlass.Float32)
        wdy = dy * tXrW.load()
        total = warp_reduce(thread_reduce(wdy, cute.ReductionOp.ADD, cutlass.Float32(0.0)), operator.add)
        dot = warp_reduce(thread_reduce(xhat * wdy, cute.ReductionOp.ADD, cutlass.Float32(0.0)), operator.add)
        total, dot = block_sums(total, dot, buffer)

        # write MN elements; add MN elements to dw, MN elements to db
        tXrX.store(((wdy - total / self.N - xhat * (dot / self.N)) * rstd).to(self.dtype))
        cute.copy(atom, tXrX, tXgDX, pred=tXpX)
        tXrDW, tXrDB = (cute.make_rmem_tensor(tXrX.layout, cutlass.Float32) for _ in range(2))
        tXrDW.store(dy * xhat)
        tXrDB.store(dy)
        for k in cutlass.range_constexpr(cute.size(tXcX)):
            column = tXcX[k][1]
            if column < self.N:
                cute.arch.atomic_add(mDWPart.iterator + column, tXrDW[k])
                cute.arch.atomic_add(mDBPart.iterator + column, tXrDB[k])


class LayerNormBackwardParts:
    """As `LayerNormBackwardAtomics`, but with 1024 threads an SM, whatever N is: each block goes through many rows.

    Its parts of dw and db stay in registers and are written once, as rows of mDWPart and mDBPart;
    `tuned.norm_backward.ColumnSum` adds up the rows, always in the same order, so that both have the same bits in every run.
    The weights are read once a block.

    Gains: no atomics (float32 of 8192: 0.19 to 0.94). Stops paying: from 16384 on the parts spill (float32: 0.31).
    """

    finishes = True  # dw and db are the sums of the rows of mDWPart and mDBPart

    def __init__(self, dtype, N, threads_per_block=None):
        self.dtype, self.N = dtype, N
        self.threads_per_block = threads_per_block or max(128, threads_for(N, elements=16))
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.tiler = row_tiler(N, self.vector_size, self.threads_per_block)

    def parts_of(self, M, sms):
        """How many rows mDWPart and mDBPart have, and how many blocks are launched, for M rows of x on a GPU of `sms` SMs.

        At 4096 and 8192 columns only half of the blocks fit an SM at once, for want of registers; the others follow.
        """
        return min(M, sms * max(1, 1024 // self.threads_per_block))

    @cute.jit
    def __call__(self, mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart, stream: cuda.CUstream):
        self.kernel(mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart).launch(
            grid=[mDWPart.shape[0], 1, 1], block=[self.threads_per_block, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart):
        tidx, _, _ = cute.arch.thread_idx()
        part, _, _ = cute.arch.block_idx()
        parts, _, _ = cute.arch.grid_dim()
        gW = cute.local_tile(as_rows(mW, self.N), self.tiler, (0, 0))
        cX = cute.local_tile(cute.make_identity_tensor((1, self.N)), self.tiler, (0, 0))
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_block, 1, self.vector_size).get_slice(tidx)
        tXcX = thr_copy.partition_S(cX)
        tXpX = inside(tXcX, (1, self.N))  # the same in every row
        slots = cute.make_ordered_layout((2, self.threads_per_block // 32, 2), order=(2, 1, 0))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, 16)

        tXrX = cute.make_fragment_like(thr_copy.partition_S(tile_at(mX, self.tiler, part)))
        tXrDO = cute.make_fragment_like(tXrX)
        tXrX.fill(0.0)
        tXrDO.fill(0.0)
        tXrW, tXrDW, tXrDB = (cute.make_rmem_tensor(tXrX.layout, cutlass.Float32) for _ in range(3))
        tXrW.fill(0.0)
        tXrDW.fill(0.0)
        tXrDB.fill(0.0)
        copy_columns(thr_copy.partition_S(gW), tXrW, tXcX, self.N)

        for row in range(part, mX.shape[0], parts):
            # read 2 MN elements
            cute.copy(atom, thr_copy.partition_S(tile_at(mX, self.tiler, row)), tXrX, pred=tXpX)
            cute.copy(atom, thr_copy.partition_S(tile_at(mDO, self.tiler, row)), tXrDO, pred=tXpX)
            rstd = mRstd[row]
            xhat, dy = (tXrX.load().to(cutlass.Float32) - mMean[row]) * rstd, tXrDO.load().to(cutlass.Float32)
            wdy = dy * tXrW.load()
            total = warp_reduce(thread_reduce(wdy, cute.ReductionOp.ADD, cutlass.Float32(0.0)), operator.add)
            dot = warp_reduce(thread_reduce(xhat * wdy, cute.ReductionOp.ADD, cutlass.Float32(0.0)), operator.add)
            # Two sets of slots: with one barrier a row, only the set of the row before may still be read.
            turn = (row - part) // parts % 2
            total, dot = block_sums(total, dot, buffer[turn, None, None])
            tXrDW.store(tXrDW.load() + dy * xhat)
            tXrDB.store(tXrDB.load() + dy)
            # write MN elements, from other registers: in columns from N on dy must stay 0, and dx is not
            tXrDX = cute.make_fragment_like(tXrX)
            tXrDX.store(((wdy - total / self.N - xhat * (dot / self.N)) * rstd).to(self.dtype))
            cute.copy(atom, tXrDX, thr_copy.partition_D(tile_at(mDX, self.tiler, row)), pred=tXpX)

        for tXrSum, mPart in ((tXrDW, mDWPart), (tXrDB, mDBPart)):
            gPart = cute.local_tile(as_rows(mPart[part, None], self.N), self.tiler, (0, 0))
            copy_columns(tXrSum, thr_copy.partition_D(gPart), tXcX, self.N)


class LayerNormBackwardPipelined:
    """As `LayerNormBackwardParts`, but cp.async brings the next row into shared memory while this one is reduced.

    Gains: little (bfloat16 of 16384: 0.30 to 0.34). Stops paying: nearly everywhere (float32 of 4096: 0.90 to 0.79,
    bfloat16 of 1024: 0.75 to 0.53); two rows each of x and dy must fit shared memory.
    """

    finishes = True

    def __init__(self, dtype, N, threads_per_block=None):
        self.dtype, self.N = dtype, N
        self.threads_per_block = threads_per_block or max(128, threads_for(N, elements=16))
        self.vector_size = async_vector(dtype, N)
        self.tiler = row_tiler(N, self.vector_size, self.threads_per_block)
        refuse_large_tile(dtype, (4, self.tiler[1]))  # two rows of x and two of dy

    def parts_of(self, M, sms):
        """How many rows mDWPart and mDBPart have, and how many blocks are launched, for M rows of x on a GPU of `sms` SMs."""
        return min(M, sms * max(1, 1024 // self.threads_per_block))

    @cute.jit
    def __call__(self, mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart, stream: cuda.CUstream):
        self.kernel(mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart).launch(
            grid=[mDWPart.shape[0], 1, 1], block=[self.threads_per_block, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart):
        tidx, _, _ = cute.arch.thread_idx()
        part, _, _ = cute.arch.block_idx()
        parts, _, _ = cute.arch.grid_dim()
        gW = cute.local_tile(as_rows(mW, self.N), self.tiler, (0, 0))
        cX = cute.local_tile(cute.make_identity_tensor((1, self.N)), self.tiler, (0, 0))
        bits = self.vector_size * self.dtype.width
        atom_async = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), self.dtype, num_bits_per_copy=bits)
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_block, 1, self.vector_size).get_slice(tidx)
        tXcX = thr_copy.partition_S(cX)
        tXpX = inside(tXcX, (1, self.N))
        smem = cutlass.memory.SmemAllocator()
        stages = cute.make_ordered_layout((2, self.tiler[1]), order=(1, 0))
        sX = smem.allocate_tensor(self.dtype, stages, VECTOR_BYTES)
        sDO = smem.allocate_tensor(self.dtype, stages, VECTOR_BYTES)
        slots = cute.make_ordered_layout((2, self.threads_per_block // 32, 2), order=(2, 1, 0))
        buffer = smem.allocate_tensor(cutlass.Float32, slots, 16)

        tXrX = cute.make_fragment_like(thr_copy.partition_S(tile_at(mX, self.tiler, part)))
        tXrDO = cute.make_fragment_like(tXrX)
        tXrX.fill(0.0)
        tXrDO.fill(0.0)
        tXrW, tXrDW, tXrDB = (cute.make_rmem_tensor(tXrX.layout, cutlass.Float32) for _ in range(3))
        tXrW.fill(0.0)
        tXrDW.fill(0.0)
        tXrDB.fill(0.0)
        # read 2 MN elements, from here on a row ahead
        for m, s in ((mX, sX), (mDO, sDO)):
            tXgX = thr_copy.partition_S(tile_at(m, self.tiler, part))
            cute.copy(atom_async, tXgX, thr_copy.partition_D(tile_at(s, self.tiler, 0)), pred=tXpX)
        cute.arch.cp_async_commit_group()
        copy_columns(thr_copy.partition_S(gW), tXrW, tXcX, self.N)

        for row in range(part, mX.shape[0], parts):
            turn = (row - part) // parts % 2
            if row + parts < mX.shape[0]:
                for m, s in ((mX, sX), (mDO, sDO)):
                    tXgX = thr_copy.partition_S(tile_at(m, self.tiler, row + parts))
                    cute.copy(atom_async, tXgX, thr_copy.partition_D(tile_at(s, self.tiler, 1 - turn)), pred=tXpX)
            cute.arch.cp_async_commit_group()  # an empty group after the last row, so that the count below holds
            cute.arch.cp_async_wait_group(1)  # all groups but the newest: this row is there
            # A thread reads back, and overwrites, only what it copied itself, so its own wait is enough.
            cute.copy(atom, thr_copy.partition_S(tile_at(sX, self.tiler, turn)), tXrX, pred=tXpX)
            cute.copy(atom, thr_copy.partition_S(tile_at(sDO, self.tiler, turn)), tXrDO, pred=tXpX)
            rstd = mRstd[row]
            xhat, dy = (tXrX.load().to(cutlass.Float32) - mMean[row]) * rstd, tXrDO.load().to(cutlass.Float32)
            wdy = dy * tXrW.load()
            total = warp_reduce(thread_reduce(wdy, cute.ReductionOp.ADD, cutlass.Float32(0.0)), operator.add)
            dot = warp_reduce(thread_reduce(xhat * wdy, cute.ReductionOp.ADD, cutlass.Float32(0.0)), operator.add)
            total, dot = block_sums(total, dot, buffer[turn, None, None])
            tXrDW.store(tXrDW.load() + dy * xhat)
            tXrDB.store(tXrDB.load() + dy)
            # write MN elements
            tXrDX = cute.make_fragment_like(tXrX)
            tXrDX.store(((wdy - total / self.N - xhat * (dot / self.N)) * rstd).to(self.dtype))
            cute.copy(atom, tXrDX, thr_copy.partition_D(tile_at(mDX, self.tiler, row)), pred=tXpX)

        for tXrSum, mPart in ((tXrDW, mDWPart), (tXrDB, mDBPart)):
            gPart = cute.local_tile(as_rows(mPart[part, None], self.N), self.tiler, (0, 0))
            copy_columns(tXrSum, thr_copy.partition_D(gPart), tXcX, self.N)


BACKWARD_LADDER = {
    "atomics": LayerNormBackwardAtomics,
    "parts": LayerNormBackwardParts,
    "pipelined": LayerNormBackwardPipelined,
}
