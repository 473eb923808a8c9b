"""RMSNorm of each row of an (M, N) tensor, y = x / sqrt(mean(x^2) + eps) * w, and its gradient: two ladders of versions.

Chapter 7 climbs both. Each version changes one thing in the one before it.

| forward                 | the change                                             | reads x | where it stops paying             |
|-------------------------|--------------------------------------------------------|---------|-----------------------------------|
| `RMSNormThread`         | one thread a row: the formula; 32 lanes read 32 rows   | twice   | everywhere: nothing is coalesced  |
| `RMSNormBlock`          | one block a row: lanes read neighbours; a block reduce | twice   | 4 bytes a load                    |
| `RMSNormVectors`        | 16 bytes a load, several on their way, predicated      | twice   | still two reads                   |
| `RMSNormRegisters`      | the row stays in registers                             | once    | 131072 columns: spills            |
| `RMSNormRows`           | several rows a block, or lanes of a warp               | once    | here: a lane needs more registers |
| `RMSNormAsync`          | cp.async into shared memory; prepares the next         | once    | always: an extra trip through smem |
| `RMSNormCluster`        | the blocks of a cluster share a row                    | once    | where an SM holds a single block  |
| `RMSNormDirect`         | straight to registers again, without cp.async          | once    | where an SM holds a single block  |
| `RMSNormHint`           | loads ask L2 to give up last what they bring           | once    | where an SM holds a single block  |
| `RMSNormReadTwice`      | the row waits in shared memory, a bulk copy brings it  | once    | short rows: a block has one       |
| `RMSNormAnyAddress`     | rows that start anywhere in vectors, too               | once    |                                   |
| `RMSNormWeightsOnce`    | a thread has a part of two rows, loads weights once    | once    | where registers are scarce        |
| `tuned.rmsnorm.RMSNorm` | the same, with sizes by a rule                         | once    | ships                             |

With rstd = 1 / sqrt(mean(x^2) + eps) and xhat = x rstd, the gradients are dx = rstd (w dy - xhat mean(w dy xhat)) and
dw = sum over the rows of dy xhat.

| backward                        | the change                             | dw                | where it stops paying          |
|---------------------------------|----------------------------------------|-------------------|--------------------------------|
| `RMSNormBackwardAtomics`        | one block a row, in registers          | N atomics a row   | everywhere: additions wait     |
| `RMSNormBackwardVectorAtomics`  | four numbers an atomic                 | N / 4 atomics a row | short rows: additions wait   |
| `RMSNormBackwardParts`          | few blocks, each with many rows        | one write a block | from 16384: dw's part spills   |
| `RMSNormBackwardPipelined`      | cp.async brings the next row meanwhile | the same          | all but bfloat16 of 4096, 8192 |
| `RMSNormBackwardBulk`           | bulk copies in three stages            | the same          | rows that do not fit           |
| `RMSNormBackwardCluster`        | the blocks of a cluster share a row    | the same          |                                |
| `tuned.norm_backward`           | the same, with sizes by a rule; any row               | the same | ships                    |

Numbers below are shares of what the fastest plain kernel reached, 32768 rows (16384 of 131072) on an
H200: `records/h200/bench/rmsnorm-ladder.json` and `rmsnorm-backward-ladder.json`. The versions that are not in it were timed on an
H100 alone, if at all; chapter 7 has their table.

All take float32, float16 or bfloat16 and compute in float32; from `RMSNormVectors` on, w has x's type; backward, w and
dw are float32. A vector divides a row, so rows of odd length get vectors of one element; of 16 bits `RMSNormAsync`,
`RMSNormCluster` and `RMSNormBackwardPipelined` refuse them.

Not covered: residual and bias; the final kernels have them.
"""

import operator
from dataclasses import replace

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.cache_hints import EVICT_LAST, bulk_copy_evict_last, policy_of
from quack_tutorial.kernels.config import Config, clusters_for
from quack_tutorial.kernels.copy import async_vector, copy_columns, inside, refuse_large_tile, widest_vector
from quack_tutorial.kernels.layout import (
    VECTOR_BYTES,
    as_rows,
    of_rungs,
    promise_for,
    row_tiler,
    threads_for,
    tile_at,
    tiled_copy_rows,
)
from quack_tutorial.kernels.reduce import block_reduce, cluster_reduce, open_mbarrier, thread_reduce, warp_reduce
from quack_tutorial.kernels.tuned.norm import RMSNorm
from quack_tutorial.kernels.tuned.norm_backward import RMSNormBackward


class RMSNormThread:
    """RMSNorm with one thread a row: the formula and nothing else.

    Stops paying at once: the lanes of a request are a row apart, so each brings a sector of its own (bfloat16: 0.05).
    In float32 its running sum of a row is too inexact to be timed.
    """

    @cute.jit
    def __call__(self, mX, mW, mO, eps: cutlass.Float32, stream: cuda.CUstream):
        self.kernel(mX, mW, mO, eps).launch(
            grid=[cute.ceil_div(mX.shape[0], 128), 1, 1], block=[128, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mX, mW, mO, eps: cutlass.Float32):
        M, N = mX.shape
        # 64 bits, since row * N may pass 2^31.
        row = cutlass.Int64(cute.arch.block_idx()[0]) * 128 + cute.arch.thread_idx()[0]
        if row < M:
            # read MN elements
            squares = cutlass.Float32(0.0)
            for col in range(N):
                x = mX[row, col].to(cutlass.Float32)
                squares += x * x
            # rsqrt(a) is 1 / sqrt(a).
            rstd = cute.math.rsqrt(squares / N + eps)
            # read MN elements; write MN elements
            for col in range(N):
                x = mX[row, col].to(cutlass.Float32)
                mO[row, col] = (x * rstd * mW[col].to(cutlass.Float32)).to(mO.element_type)


class RMSNormBlock:
    """As `RMSNormThread`, but a block shares the row: neighbouring lanes read neighbouring elements.

    Gains: coalesced loads (bfloat16 of 4096: 0.05 to 0.43). Stops paying: 4 bytes a load, or 2, keep too few in flight.
    """

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
    """As `RMSNormBlock`, but a thread moves vectors of 16 bytes, `unroll` of them at a time.

    Gains: bytes in flight (bfloat16 of 4096: 0.43 to 0.94, as L2 answers the second read). Stops paying: in long rows,
    at the 2/3 of a copy that two reads allow, and in short ones, which fill a part of a tile.
    """

    def __init__(self, dtype, N, threads_per_block=256, unroll=4):
        self.dtype, self.N, self.threads_per_block = dtype, N, threads_per_block
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.tiler = (1, threads_per_block * self.vector_size * unroll)

    @cute.jit
    def __call__(self, mX, mW, mO, eps: cutlass.Float32, stream: cuda.CUstream):
        threads = [self.threads_per_block, 1, 1]
        self.kernel(mX, mW, mO, eps).launch(grid=[mX.shape[0], 1, 1], block=threads, stream=stream)

    @cute.kernel
    def kernel(self, mX, mW, mO, eps: cutlass.Float32):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        tiles = cute.ceil_div(self.N, self.tiler[1])
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_block, 1, self.vector_size).get_slice(tidx)
        mC, mW = cute.make_identity_tensor(mX.shape), as_rows(mW, self.N)
        slots = cute.make_layout((1, self.threads_per_block // 32))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, 16)

        # read MN elements
        squares = cutlass.Float32(0.0)
        for tile in range(tiles):
            tXgX = thr_copy.partition_S(tile_at(mX, self.tiler, row, tile))
            tXpX = inside(thr_copy.partition_S(cute.local_tile(mC, self.tiler, (row, tile))), mX.shape)
            tXrX = cute.make_fragment_like(tXgX)
            tXrX.fill(0.0)
            cute.copy(atom, tXgX, tXrX, pred=tXpX)
            x = tXrX.load().to(cutlass.Float32)
            squares = thread_reduce(x * x, cute.ReductionOp.ADD, squares)
        squares = block_reduce(warp_reduce(squares, operator.add), operator.add, buffer)
        rstd = cute.math.rsqrt(squares / self.N + eps)
        # read MN elements; write MN elements
        for tile in range(tiles):
            tXgX = thr_copy.partition_S(tile_at(mX, self.tiler, row, tile))
            tXgW = thr_copy.partition_S(cute.local_tile(mW, self.tiler, (0, tile)))
            tXgO = thr_copy.partition_D(tile_at(mO, self.tiler, row, tile))
            tXpX = inside(thr_copy.partition_S(cute.local_tile(mC, self.tiler, (row, tile))), mX.shape)
            tXrX, tXrW = cute.make_fragment_like(tXgX), cute.make_fragment_like(tXgX)
            tXrX.fill(0.0)
            tXrW.fill(0.0)
            cute.copy(atom, tXgX, tXrX, pred=tXpX)
            cute.copy(atom, tXgW, tXrW, pred=tXpX)
            y = tXrX.load().to(cutlass.Float32) * rstd * tXrW.load().to(cutlass.Float32)
            tXrX.store(y.to(self.dtype))
            cute.copy(atom, tXrX, tXgO, pred=tXpX)


class RMSNormRegisters(RMSNormVectors):
    """As `RMSNormVectors`, but the tile is the whole row: read once, and kept in registers until it is written.

    Gains: the second read (float32 of 16384: 0.67 to 0.96). Stops paying: at 131072, where 1024 threads of 64 registers
    spill (0.16).
    """

    def __init__(self, dtype, N, threads_per_block=None):
        self.dtype, self.N = dtype, N
        self.threads_per_block = threads_per_block or max(128, threads_for(N))
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.tiler = row_tiler(N, self.vector_size, self.threads_per_block)

    @cute.kernel
    def kernel(self, mX, mW, mO, eps: cutlass.Float32):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        gX, gO = tile_at(mX, self.tiler, row), tile_at(mO, self.tiler, row)
        gW = cute.local_tile(as_rows(mW, self.N), self.tiler, (0, 0))
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), self.tiler, (row, 0))
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_block, 1, self.vector_size).get_slice(tidx)
        tXgX, tXgW, tXgO = thr_copy.partition_S(gX), thr_copy.partition_S(gW), thr_copy.partition_D(gO)
        tXpX = inside(thr_copy.partition_S(cX), mX.shape)
        slots = cute.make_layout((1, self.threads_per_block // 32))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, 16)

        # read MN elements
        tXrX, tXrW = cute.make_fragment_like(tXgX), cute.make_fragment_like(tXgX)
        tXrX.fill(0.0)
        tXrW.fill(0.0)
        cute.copy(atom, tXgX, tXrX, pred=tXpX)
        cute.copy(atom, tXgW, tXrW, pred=tXpX)  # from L2, on its way with the row
        x = tXrX.load().to(cutlass.Float32)

        squares = thread_reduce(x * x, cute.ReductionOp.ADD, cutlass.Float32(0.0))
        squares = block_reduce(warp_reduce(squares, operator.add), operator.add, buffer)
        rstd = cute.math.rsqrt(squares / self.N + eps)

        # write MN elements
        tXrX.store((x * rstd * tXrW.load().to(cutlass.Float32)).to(self.dtype))
        cute.copy(atom, tXrX, tXgO, pred=tXpX)


class RMSNormRows:
    """As `RMSNormRegisters`, but a block has several rows where one would give its threads little to load.

    A row of 1024 elements belongs to one warp, a shorter one to 16 or 8 lanes of it: no shared memory, no barrier. Does
    not pay at 1024 (float32: 0.98 to 0.95): a lane holds 32 elements and 32 weights, in 64 registers instead of 30, so
    fewer warps fit an SM. From 4096 on a block has one row, and it is the kernel of before.
    """

    def __init__(self, dtype, N, threads_per_row=None, threads_per_block=None):
        self.dtype, self.N = dtype, N
        self.threads_per_row = threads_per_row or threads_for(N)
        self.threads_per_block = threads_per_block or max(128, self.threads_per_row)
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.rows = self.threads_per_block // self.threads_per_row
        self.tiler = row_tiler(N, self.vector_size, self.threads_per_row, self.rows)

    @cute.jit
    def __call__(self, mX, mW, mO, eps: cutlass.Float32, stream: cuda.CUstream):
        blocks = cute.ceil_div(mX.shape[0], self.rows)
        threads = [self.threads_per_block, 1, 1]
        self.kernel(mX, mW, mO, eps).launch(grid=[blocks, 1, 1], block=threads, stream=stream)

    @cute.kernel
    def kernel(self, mX, mW, mO, eps: cutlass.Float32):
        tidx, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        gX, gO = tile_at(mX, self.tiler, block), tile_at(mO, self.tiler, block)
        # Every row of the tile has the same weights: a stride of 0 from one to the next.
        gW = cute.local_tile(as_rows(mW, self.N, self.rows), self.tiler, (0, 0))
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), self.tiler, (block, 0))
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_row, self.rows, self.vector_size).get_slice(tidx)
        tXgX, tXgW, tXgO = thr_copy.partition_S(gX), thr_copy.partition_S(gW), thr_copy.partition_D(gO)
        tXpX = inside(thr_copy.partition_S(cX), mX.shape)

        # read MN elements
        tXrX, tXrW = cute.make_fragment_like(tXgX), cute.make_fragment_like(tXgX)
        tXrX.fill(0.0)
        tXrW.fill(0.0)
        cute.copy(atom, tXgX, tXrX, pred=tXpX)
        cute.copy(atom, tXgW, tXrW, pred=tXpX)
        x = tXrX.load().to(cutlass.Float32)

        squares = thread_reduce(x * x, cute.ReductionOp.ADD, cutlass.Float32(0.0))
        squares = warp_reduce(squares, operator.add, min(self.threads_per_row, 32))
        if cutlass.const_expr(self.threads_per_row > 32):
            slots = cute.make_ordered_layout((self.rows, self.threads_per_row // 32), order=(1, 0))
            buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, 16)
            squares = block_reduce(squares, operator.add, buffer)
        rstd = cute.math.rsqrt(squares / self.N + eps)

        # write MN elements
        tXrX.store((x * rstd * tXrW.load().to(cutlass.Float32)).to(self.dtype))
        cute.copy(atom, tXrX, tXgO, pred=tXpX)


class RMSNormAsync(RMSNormRows):
    """As `RMSNormRows`, but cp.async brings the tile into shared memory.

    Gains nothing by itself: the thread waits at once, and the row then needs the same registers. `RMSNormCluster` opens
    its cluster meanwhile. Stops paying: the way is longer (float32 of 16384: 0.96 to 0.95), and a row must fit shared
    memory.
    """

    def __init__(self, dtype, N, threads_per_row=None, threads_per_block=None):
        self.dtype, self.N = dtype, N
        self.threads_per_row = threads_per_row or threads_for(N)
        self.threads_per_block = threads_per_block or max(128, self.threads_per_row)
        self.vector_size = async_vector(dtype, N)
        self.rows = self.threads_per_block // self.threads_per_row
        self.tiler = row_tiler(N, self.vector_size, self.threads_per_row, self.rows)
        refuse_large_tile(dtype, self.tiler)

    @cute.kernel
    def kernel(self, mX, mW, mO, eps: cutlass.Float32):
        tidx, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        gX, gO = tile_at(mX, self.tiler, block), tile_at(mO, self.tiler, block)
        gW = cute.local_tile(as_rows(mW, self.N, self.rows), self.tiler, (0, 0))
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), self.tiler, (block, 0))
        smem = cutlass.memory.SmemAllocator()
        sX = smem.allocate_tensor(self.dtype, cute.make_ordered_layout(self.tiler, order=(1, 0)), VECTOR_BYTES)
        bits = self.vector_size * self.dtype.width
        atom_async = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), self.dtype, num_bits_per_copy=bits)
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_row, self.rows, self.vector_size).get_slice(tidx)
        tXgX, tXgW = thr_copy.partition_S(gX), thr_copy.partition_S(gW)
        tXsX, tXgO = thr_copy.partition_D(sX), thr_copy.partition_D(gO)
        tXpX = inside(thr_copy.partition_S(cX), mX.shape)

        # read MN elements
        tXrX, tXrW = cute.make_fragment_like(tXgX), cute.make_fragment_like(tXgX)
        tXrX.fill(0.0)
        tXrW.fill(0.0)
        cute.copy(atom_async, tXgX, tXsX, pred=tXpX)
        cute.arch.cp_async_commit_group()
        cute.copy(atom, tXgW, tXrW, pred=tXpX)
        cute.arch.cp_async_wait_group(0)
        # A thread reads back the vectors that it copied itself, so its own wait is enough: no barrier.
        cute.copy(atom, tXsX, tXrX, pred=tXpX)
        x = tXrX.load().to(cutlass.Float32)

        squares = thread_reduce(x * x, cute.ReductionOp.ADD, cutlass.Float32(0.0))
        squares = warp_reduce(squares, operator.add, min(self.threads_per_row, 32))
        if cutlass.const_expr(self.threads_per_row > 32):
            slots = cute.make_ordered_layout((self.rows, self.threads_per_row // 32), order=(1, 0))
            buffer = smem.allocate_tensor(cutlass.Float32, slots, 16)
            squares = block_reduce(squares, operator.add, buffer)
        rstd = cute.math.rsqrt(squares / self.N + eps)

        # write MN elements
        tXrX.store((x * rstd * tXrW.load().to(cutlass.Float32)).to(self.dtype))
        cute.copy(atom, tXrX, tXgO, pred=tXpX)


class RMSNormCluster:
    """As `RMSNormAsync`, but the blocks of a cluster share a row of more than `block_bytes`, each with a part of its columns.

    Chapter 6 explains the calls. Gains: nothing spills (float32 of 131072: 0.16 to 0.78). Stops paying: there an SM
    holds one block, and while that waits for its cluster nothing is loaded.
    """

    def __init__(self, dtype, N, block_bytes=64 * 1024):
        self.dtype, self.N = dtype, N
        # A power of 2 of blocks, each with at most `block_bytes`.
        self.blocks_per_row = clusters_for(N * dtype.width // 8, block_bytes)
        columns = -(-N // self.blocks_per_row)
        # A block of a cluster has one row, or a part of one.
        self.threads_per_row = max(128, threads_for(columns)) if self.blocks_per_row > 1 else threads_for(columns)
        self.threads_per_block = max(128, self.threads_per_row)
        self.vector_size = async_vector(dtype, N)
        self.rows = self.threads_per_block // self.threads_per_row
        self.tiler = row_tiler(columns, self.vector_size, self.threads_per_row, self.rows)
        refuse_large_tile(dtype, self.tiler)

    @cute.jit
    def __call__(self, mX, mW, mO, eps: cutlass.Float32, stream: cuda.CUstream):
        blocks = cute.ceil_div(mX.shape[0], self.rows) * self.blocks_per_row
        cluster = [self.blocks_per_row, 1, 1] if self.blocks_per_row > 1 else None
        threads = [self.threads_per_block, 1, 1]
        self.kernel(mX, mW, mO, eps).launch(grid=[blocks, 1, 1], block=threads, cluster=cluster, stream=stream)

    @cute.kernel
    def kernel(self, mX, mW, mO, eps: cutlass.Float32):
        tidx, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        # Neighbouring blocks share a row: this one has the tile `rank` of its columns.
        row_tile, rank = block // self.blocks_per_row, block % self.blocks_per_row
        gX, gO = tile_at(mX, self.tiler, row_tile, rank), tile_at(mO, self.tiler, row_tile, rank)
        gW = cute.local_tile(as_rows(mW, self.N, self.rows), self.tiler, (0, rank))
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), self.tiler, (row_tile, rank))
        smem = cutlass.memory.SmemAllocator()
        sX = smem.allocate_tensor(self.dtype, cute.make_ordered_layout(self.tiler, order=(1, 0)), VECTOR_BYTES)
        bits = self.vector_size * self.dtype.width
        atom_async = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), self.dtype, num_bits_per_copy=bits)
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_row, self.rows, self.vector_size).get_slice(tidx)
        tXgX, tXgW = thr_copy.partition_S(gX), thr_copy.partition_S(gW)
        tXsX, tXgO = thr_copy.partition_D(sX), thr_copy.partition_D(gO)
        tXpX = inside(thr_copy.partition_S(cX), mX.shape)
        if cutlass.const_expr(self.blocks_per_row > 1):
            mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
            open_mbarrier(mbar)

        # read MN elements
        tXrX, tXrW = cute.make_fragment_like(tXgX), cute.make_fragment_like(tXgX)
        tXrX.fill(0.0)
        tXrW.fill(0.0)
        cute.copy(atom_async, tXgX, tXsX, pred=tXpX)
        cute.arch.cp_async_commit_group()
        cute.copy(atom, tXgW, tXrW, pred=tXpX)
        cute.arch.cp_async_wait_group(0)
        cute.copy(atom, tXsX, tXrX, pred=tXpX)
        x = tXrX.load().to(cutlass.Float32)

        squares = thread_reduce(x * x, cute.ReductionOp.ADD, cutlass.Float32(0.0))
        squares = warp_reduce(squares, operator.add, min(self.threads_per_row, 32))
        if cutlass.const_expr(self.threads_per_row > 32):
            slots = cute.make_ordered_layout((self.rows, self.threads_per_row // 32), order=(1, 0))
            buffer = smem.allocate_tensor(cutlass.Float32, slots, 16)
            squares = block_reduce(squares, operator.add, buffer)
            if cutlass.const_expr(self.blocks_per_row > 1):
                cluster_buffer = smem.allocate_tensor(cutlass.Float32, cute.make_layout(self.blocks_per_row), 16)
                cute.arch.cluster_wait()  # every block's mbarrier is there
                squares = cluster_reduce(squares, operator.add, cluster_buffer, mbar)
        rstd = cute.math.rsqrt(squares / self.N + eps)

        # write MN elements
        tXrX.store((x * rstd * tXrW.load().to(cutlass.Float32)).to(self.dtype))
        cute.copy(atom, tXrX, tXgO, pred=tXpX)


class RMSNormDirect(RMSNormCluster):
    """As `RMSNormCluster`, but rows come straight to registers: a thread waited for its copies at once anyway.

    Rows of odd length, which cp.async refuses in 16 bits, are possible again. Stops paying: as before, where an SM holds one
    block.
    """

    def __init__(self, dtype, N, block_bytes=64 * 1024):
        self.dtype, self.N = dtype, N
        self.blocks_per_row = clusters_for(N * dtype.width // 8, block_bytes)
        columns = -(-N // self.blocks_per_row)
        self.threads_per_row = max(128, threads_for(columns)) if self.blocks_per_row > 1 else threads_for(columns)
        self.threads_per_block = max(128, self.threads_per_row)
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.rows = self.threads_per_block // self.threads_per_row
        self.tiler = row_tiler(columns, self.vector_size, self.threads_per_row, self.rows)

    @cute.kernel
    def kernel(self, mX, mW, mO, eps: cutlass.Float32):
        tidx, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        row_tile, rank = block // self.blocks_per_row, block % self.blocks_per_row
        gX, gO = tile_at(mX, self.tiler, row_tile, rank), tile_at(mO, self.tiler, row_tile, rank)
        gW = cute.local_tile(as_rows(mW, self.N, self.rows), self.tiler, (0, rank))
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), self.tiler, (row_tile, rank))
        smem = cutlass.memory.SmemAllocator()
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_row, self.rows, self.vector_size).get_slice(tidx)
        tXgX, tXgW, tXgO = thr_copy.partition_S(gX), thr_copy.partition_S(gW), thr_copy.partition_D(gO)
        tXpX = inside(thr_copy.partition_S(cX), mX.shape)
        if cutlass.const_expr(self.blocks_per_row > 1):
            mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
            open_mbarrier(mbar)

        # read MN elements
        tXrX, tXrW = cute.make_fragment_like(tXgX), cute.make_fragment_like(tXgX)
        tXrX.fill(0.0)
        tXrW.fill(0.0)
        self.load(atom, tXgX, tXrX, tXpX)
        cute.copy(atom, tXgW, tXrW, pred=tXpX)
        x = tXrX.load().to(cutlass.Float32)

        squares = thread_reduce(x * x, cute.ReductionOp.ADD, cutlass.Float32(0.0))
        squares = warp_reduce(squares, operator.add, min(self.threads_per_row, 32))
        if cutlass.const_expr(self.threads_per_row > 32):
            slots = cute.make_ordered_layout((self.rows, self.threads_per_row // 32), order=(1, 0))
            buffer = smem.allocate_tensor(cutlass.Float32, slots, 16)
            squares = block_reduce(squares, operator.add, buffer)
            if cutlass.const_expr(self.blocks_per_row > 1):
                cluster_buffer = smem.allocate_tensor(cutlass.Float32, cute.make_layout(self.blocks_per_row), 16)
                cute.arch.cluster_wait()  # every block's mbarrier is there
                squares = cluster_reduce(squares, operator.add, cluster_buffer, mbar)
        rstd = cute.math.rsqrt(squares / self.N + eps)

        # write MN elements
        tXrX.store((x * rstd * tXrW.load().to(cutlass.Float32)).to(self.dtype))
        cute.copy(atom, tXrX, tXgO, pred=tXpX)

    def load(self, atom, tXgX, tXrX, tXpX):
        """Load this thread's part of the row, for which `RMSNormHint` has other instructions."""
        cute.copy(atom, tXgX, tXrX, pred=tXpX)


class RMSNormHint(RMSNormDirect):
    """As `RMSNormDirect`, but every load of x asks L2 to give up last what it brings, so that what was written goes first.

    Chapter 3's hint (`CopyHint`). The weights, which every block reads, are loaded as before. Stops paying: where blocks
    wait, and not the memory.
    """

    def load(self, atom, tXgX, tXrX, tXpX):
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyG2ROp(), self.dtype, num_bits_per_copy=bits)
        cute.copy(atom, tXgX, tXrX, pred=tXpX, cache_policy=policy_of(EVICT_LAST))


class RMSNormReadTwice:
    """As `RMSNormHint`, but a block's part of the row waits in shared memory and is read from there twice.

    A bulk copy, which one thread starts, brings it; chapter 6 explains the mbarrier. While warps wait for the others' sums,
    only weights are in registers, so that several blocks share an SM, and while one waits for its cluster, others load and
    store. Stops paying: in short rows, since a block has one. A row that bulk copies cannot cut into equal parts of whole
    vectors is refused.
    """

    def __init__(self, dtype, N, block_bytes=32 * 1024):
        self.dtype, self.N = dtype, N
        self.blocks_per_row = clusters_for(N * dtype.width // 8, block_bytes)
        self.columns = -(-N // self.blocks_per_row)  # of a block
        self.vector_size = VECTOR_BYTES * 8 // dtype.width
        if N % (self.blocks_per_row * self.vector_size):
            raise ValueError(
                f"bulk copies move whole vectors of {self.vector_size}; {N} elements are not {self.blocks_per_row} equal "
                f"parts of them: use a version that loads into registers"
            )
        # 128 bytes of the row for each thread: 8 vectors.
        self.threads_per_block = max(32, threads_for(self.columns, elements=8 * self.vector_size))
        self.tiler = row_tiler(self.columns, self.vector_size, self.threads_per_block)

    @cute.jit
    def __call__(self, mX, mW, mO, eps: cutlass.Float32, stream: cuda.CUstream):
        cluster = [self.blocks_per_row, 1, 1] if self.blocks_per_row > 1 else None
        self.kernel(mX, mW, mO, eps).launch(
            grid=[mX.shape[0] * self.blocks_per_row, 1, 1],
            block=[self.threads_per_block, 1, 1],
            cluster=cluster,
            stream=stream,
        )

    @cute.kernel
    def kernel(self, mX, mW, mO, eps: cutlass.Float32):
        tidx, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        row, rank = block // self.blocks_per_row, block % self.blocks_per_row
        part = (1, self.columns)
        gX, gO = tile_at(mX, part, row, rank), tile_at(mO, part, row, rank)
        gW = cute.local_tile(as_rows(mW, self.N), part, (0, rank))
        cX = cute.make_identity_tensor(part)
        smem = cutlass.memory.SmemAllocator()
        sX = smem.allocate_tensor(self.dtype, cute.make_layout(part, stride=(self.columns, 1)), 128)
        arrived = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_block, 1, self.vector_size).get_slice(tidx)
        tXsX, tXgW, tXgO, tXcX = (
            thr_copy.partition_S(cute.local_tile(tensor, self.tiler, (0, 0))) for tensor in (sX, gW, gO, cX)
        )
        tXpX = None if self.columns == self.tiler[1] else inside(tXcX, part)
        if tidx == 0:
            cute.arch.mbarrier_init(arrived, 1)
            cute.arch.mbarrier_init_fence()
        if cutlass.const_expr(self.blocks_per_row > 1):
            mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
            open_mbarrier(mbar)
        cute.arch.barrier()  # nobody waits for an mbarrier that is not there

        # read MN elements
        if tidx == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(arrived, self.columns * self.dtype.width // 8)
            bulk_copy_evict_last(gX[0, None], sX[0, None], arrived)
        tXrX, tXrW = cute.make_fragment_like(tXsX), cute.make_fragment_like(tXsX)
        tXrX.fill(0.0)
        tXrW.fill(0.0)
        cute.copy(atom, tXgW, tXrW, pred=tXpX)
        cute.arch.mbarrier_wait(arrived, 0)
        cute.copy(atom, tXsX, tXrX, pred=tXpX)
        x = tXrX.load().to(cutlass.Float32)

        squares = thread_reduce(x * x, cute.ReductionOp.ADD, cutlass.Float32(0.0))
        squares = warp_reduce(squares, operator.add)
        if cutlass.const_expr(self.threads_per_block > 32):
            slots = cute.make_layout((1, self.threads_per_block // 32))
            squares = block_reduce(squares, operator.add, smem.allocate_tensor(cutlass.Float32, slots, 16))
        if cutlass.const_expr(self.blocks_per_row > 1):
            cluster_buffer = smem.allocate_tensor(cutlass.Float32, cute.make_layout(self.blocks_per_row), 16)
            cute.arch.cluster_wait()
            squares = cluster_reduce(squares, operator.add, cluster_buffer, mbar)
        rstd = cute.math.rsqrt(squares / self.N + eps)

        # write MN elements
        cute.copy(atom, tXsX, tXrX, pred=tXpX)
        x = tXrX.load().to(cutlass.Float32)
        tXrX.store((x * rstd * tXrW.load().to(cutlass.Float32)).to(self.dtype))
        cute.copy(atom, tXrX, tXgO, pred=tXpX)


class RMSNormAnyAddress(RMSNorm):
    """What ships, with the sizes of the rungs before: rows that start at any address are moved in vectors, too.

    `RowTile` takes the place of the copy with a predicate: whole vectors between the first and the last multiple of 16 bytes
    of a row, single elements before and after. A row is in registers, as in `RMSNormHint`, or, where a cluster has it, in
    shared memory, as in `RMSNormReadTwice`. A second change comes along: in clusters of few warps each warp sends its sum
    itself (`tuned/row_exchange.py`).
    """

    rows_each = 1  # of a thread

    def __init__(self, dtype, N, block_bytes=32 * 1024):
        config = of_rungs(dtype, N, block_bytes, thread_bytes=128)
        if config.threads_per_row <= 32 and config.blocks_per_row == 1 and promise_for(dtype, N) == "aligned":
            config = replace(config, rows_each=self.rows_each)
        super().__init__(dtype, N, promise_for(dtype, N), config=config)

    @cute.jit
    def __call__(self, mX, mW, mO, eps: cutlass.Float32, stream: cuda.CUstream):
        self.run(stream, mX, mW, mO, mRstd=None, eps=eps)


class RMSNormWeightsOnce(RMSNormAnyAddress):
    """As `RMSNormAnyAddress`, but a thread has a part of two rows and loads their weights once; the same source, another number.

    Stops paying: where two rows and their weights take so many registers that fewer warps fit an SM. Rows of several warps,
    and rows that start anywhere, which want the weights elsewhere, are done as before.
    """

    rows_each = 2


LADDER = {
    "thread": lambda dtype, N: RMSNormThread(),
    "block": lambda dtype, N: RMSNormBlock(),
    "vectors": RMSNormVectors,
    "registers": RMSNormRegisters,
    "rows": RMSNormRows,
    "async": RMSNormAsync,
    "cluster": RMSNormCluster,
    "direct": RMSNormDirect,
    "hint": RMSNormHint,
    "read twice": RMSNormReadTwice,
    "any address": RMSNormAnyAddress,
    "weights once": RMSNormWeightsOnce,
}


class RMSNormBackwardAtomics:
    """dx and dw with one block a row: it reads the row of x and dy once, and adds its row's part to dw with atomics.

    mDO is dy, mRstd (M,) what forward found. mDWPart is (1, N) and must be 0 before. The order of the additions changes
    from run to run, and with it dw's last bits. Stops paying at once: additions to one address wait for each other
    (all below 0.33).
    """

    leaves_parts = False  # dw is mDWPart's only row

    def __init__(self, dtype, N, threads_per_block=None):
        self.dtype, self.N = dtype, N
        # Half of forward's elements a thread: x, dy, w and dw take registers for each.
        self.threads_per_block = threads_per_block or max(128, threads_for(N, elements=16))
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.tiler = row_tiler(N, self.vector_size, self.threads_per_block)

    def parts_of(self, M, sms):
        """How many rows mDWPart has, for M rows of x on a GPU of `sms` SMs."""
        return 1

    @cute.jit
    def __call__(self, mX, mW, mDO, mRstd, mDX, mDWPart, stream: cuda.CUstream):
        self.kernel(mX, mW, mDO, mRstd, mDX, mDWPart).launch(
            grid=[mX.shape[0], 1, 1], block=[self.threads_per_block, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mX, mW, mDO, mRstd, mDX, mDWPart):
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
        slots = cute.make_layout((1, self.threads_per_block // 32))
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

        rstd = mRstd[row]
        xhat, dy = tXrX.load().to(cutlass.Float32) * rstd, tXrDO.load().to(cutlass.Float32)
        wdy = dy * tXrW.load()
        dot = warp_reduce(thread_reduce(xhat * wdy, cute.ReductionOp.ADD, cutlass.Float32(0.0)), operator.add)
        mean = block_reduce(dot, operator.add, buffer) / self.N

        # write MN elements; add MN elements to dw
        tXrX.store(((wdy - xhat * mean) * rstd).to(self.dtype))
        cute.copy(atom, tXrX, tXgDX, pred=tXpX)
        tXrDW = cute.make_rmem_tensor(tXrX.layout, cutlass.Float32)
        tXrDW.store(dy * xhat)
        self.add(tXrDW, tXcX, mDWPart)

    @cute.jit
    def add(self, tXrDW: cute.Tensor, tXcX: cute.Tensor, mDWPart: cute.Tensor):
        """Add what this thread has of each of its columns to the only row of mDWPart."""
        for k in cutlass.range_constexpr(cute.size(tXcX)):
            column = tXcX[k][1]
            if column < self.N:
                cute.arch.atomic_add(mDWPart.iterator + column, tXrDW[k])


class RMSNormBackwardVectorAtomics(RMSNormBackwardAtomics):
    """As `RMSNormBackwardAtomics`, but an instruction adds up to four neighbouring numbers, 16 bytes (`atom.add.v4.f32`).

    The sums are still those of single numbers: a vector is not added as a whole.
    """

    @cute.jit
    def add(self, tXrDW: cute.Tensor, tXcX: cute.Tensor, mDWPart: cute.Tensor):
        width = min(4, self.vector_size)
        for k in cutlass.range_constexpr(0, cute.size(tXcX), width):
            column = tXcX[k][1]
            if column < self.N:
                if cutlass.const_expr(width == 1):
                    cute.arch.atomic_add(mDWPart.iterator + column, tXrDW[k])
                else:
                    neighbours = cute.make_tensor(tXrDW.iterator + k, cute.make_layout(width))
                    cute.arch.atomic_add(mDWPart.iterator + column, neighbours.load().ir_value())


class RMSNormBackwardParts:
    """As `RMSNormBackwardAtomics`, but with 1024 threads an SM, whatever N is: each block goes through many rows.

    Its part of dw stays in registers and is written once, as a row of mDWPart; `tuned.sums.ColumnSum` adds up the
    rows, always in the same order, so that dw has the same bits in every run. The weights are read once a block.

    Gains: no atomics (float32 of 8192: 0.21 to 0.95). Stops paying: from 16384 columns on the part spills (float32:
    0.47).
    """

    leaves_parts = True  # dw is the sum of mDWPart's rows

    def __init__(self, dtype, N, threads_per_block=None):
        self.dtype, self.N = dtype, N
        self.threads_per_block = threads_per_block or max(128, threads_for(N, elements=16))
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.tiler = row_tiler(N, self.vector_size, self.threads_per_block)

    def parts_of(self, M, sms):
        """How many rows mDWPart has, and how many blocks are launched, for M rows of x on a GPU of `sms` SMs.

        At 4096 and 8192 columns only half of the blocks fit an SM at once, for want of registers; the others follow.
        """
        return min(M, sms * max(1, 1024 // self.threads_per_block))

    @cute.jit
    def __call__(self, mX, mW, mDO, mRstd, mDX, mDWPart, stream: cuda.CUstream):
        self.kernel(mX, mW, mDO, mRstd, mDX, mDWPart).launch(
            grid=[mDWPart.shape[0], 1, 1], block=[self.threads_per_block, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mX, mW, mDO, mRstd, mDX, mDWPart):
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
        slots = cute.make_ordered_layout((2, 1, self.threads_per_block // 32), order=(2, 1, 0))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, 16)

        tXrX = cute.make_fragment_like(thr_copy.partition_S(tile_at(mX, self.tiler, part)))
        tXrDO = cute.make_fragment_like(tXrX)
        tXrX.fill(0.0)
        tXrDO.fill(0.0)
        tXrW, tXrDW = (cute.make_rmem_tensor(tXrX.layout, cutlass.Float32) for _ in range(2))
        tXrW.fill(0.0)
        tXrDW.fill(0.0)
        copy_columns(thr_copy.partition_S(gW), tXrW, tXcX, self.N)

        for row in range(part, mX.shape[0], parts):
            # read 2 MN elements
            cute.copy(atom, thr_copy.partition_S(tile_at(mX, self.tiler, row)), tXrX, pred=tXpX)
            cute.copy(atom, thr_copy.partition_S(tile_at(mDO, self.tiler, row)), tXrDO, pred=tXpX)
            rstd = mRstd[row]
            xhat, dy = tXrX.load().to(cutlass.Float32) * rstd, tXrDO.load().to(cutlass.Float32)
            wdy = dy * tXrW.load()
            dot = warp_reduce(thread_reduce(xhat * wdy, cute.ReductionOp.ADD, cutlass.Float32(0.0)), operator.add)
            # Two sets of slots: with one barrier a row, only the set of the row before may still be read.
            turn = (row - part) // parts % 2
            mean = block_reduce(dot, operator.add, buffer[turn, None, None]) / self.N
            tXrDW.store(tXrDW.load() + dy * xhat)
            # write MN elements; x and dy are 0 in columns from N on, and so is dx
            tXrX.store(((wdy - xhat * mean) * rstd).to(self.dtype))
            cute.copy(atom, tXrX, thr_copy.partition_D(tile_at(mDX, self.tiler, row)), pred=tXpX)

        gDW = cute.local_tile(as_rows(mDWPart[part, None], self.N), self.tiler, (0, 0))
        copy_columns(tXrDW, thr_copy.partition_D(gDW), tXcX, self.N)


class RMSNormBackwardPipelined(RMSNormBackwardParts):
    """As `RMSNormBackwardParts`, but cp.async brings the next row into shared memory while this one is reduced.

    Gains: bfloat16 of 4096 and 8192 columns (0.79 to 0.90, 0.76 to 0.94). Stops paying: elsewhere
    (bfloat16 of 1024: 0.82 to 0.73), and two rows each of x and dy must fit shared memory.
    """

    def __init__(self, dtype, N, threads_per_block=None):
        self.dtype, self.N = dtype, N
        self.threads_per_block = threads_per_block or max(128, threads_for(N, elements=16))
        self.vector_size = async_vector(dtype, N)
        self.tiler = row_tiler(N, self.vector_size, self.threads_per_block)
        refuse_large_tile(dtype, (4, self.tiler[1]))  # two rows of x and two of dy

    @cute.kernel
    def kernel(self, mX, mW, mDO, mRstd, mDX, mDWPart):
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
        slots = cute.make_ordered_layout((2, 1, self.threads_per_block // 32), order=(2, 1, 0))
        buffer = smem.allocate_tensor(cutlass.Float32, slots, 16)

        tXrX = cute.make_fragment_like(thr_copy.partition_S(tile_at(mX, self.tiler, part)))
        tXrDO = cute.make_fragment_like(tXrX)
        tXrX.fill(0.0)
        tXrDO.fill(0.0)
        tXrW, tXrDW = (cute.make_rmem_tensor(tXrX.layout, cutlass.Float32) for _ in range(2))
        tXrW.fill(0.0)
        tXrDW.fill(0.0)
        # read 2 MN elements, from here on a row ahead; a loop over a tuple is Python's: unrolled
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
            xhat, dy = tXrX.load().to(cutlass.Float32) * rstd, tXrDO.load().to(cutlass.Float32)
            wdy = dy * tXrW.load()
            dot = warp_reduce(thread_reduce(xhat * wdy, cute.ReductionOp.ADD, cutlass.Float32(0.0)), operator.add)
            mean = block_reduce(dot, operator.add, buffer[turn, None, None]) / self.N
            tXrDW.store(tXrDW.load() + dy * xhat)
            # write MN elements
            tXrX.store(((wdy - xhat * mean) * rstd).to(self.dtype))
            cute.copy(atom, tXrX, thr_copy.partition_D(tile_at(mDX, self.tiler, row)), pred=tXpX)

        gDW = cute.local_tile(as_rows(mDWPart[part, None], self.N), self.tiler, (0, 0))
        copy_columns(tXrDW, thr_copy.partition_D(gDW), tXcX, self.N)


class RMSNormBackwardBulk(RMSNormBackward):
    """What ships, with the sizes of the rungs before: bulk copies bring rows, where cp.async did, and two rows are on their
    way while one is worked on.

    One thread starts a copy for all, and an mbarrier counts its bytes. Of rows that start anywhere the copies bring what lies
    between multiples of 16 bytes, and threads the few elements before and after. A row that does not fit is refused.
    """

    leaves_parts = True
    blocks_per_row = 1

    def __init__(self, dtype, N):
        # Of a thread 64 bytes of a row: x, dy, w and dw take registers for each element.
        columns = -(-N // self.blocks_per_row)
        threads = max(128, threads_for(columns, elements=64 * 8 // dtype.width))
        config = Config(threads, threads, self.blocks_per_row, stages=3)
        super().__init__(dtype, N, promise_for(dtype, N), weight_dtype=cutlass.Float32, config=config)
        refuse_large_tile(dtype, (6, self.tile.width))  # three rows of x and three of dy

    @cute.jit
    def __call__(self, mX, mW, mDO, mRstd, mDX, mDWPart, stream: cuda.CUstream):
        self.run(stream, mX, mW, mDO, mRstd, mDX, mDWPart, mDBPart=None)


class RMSNormBackwardCluster(RMSNormBackwardBulk):
    """As `RMSNormBackwardBulk`, but the blocks of a cluster share a row of more than 32 KiB; the same source, another number."""

    def __init__(self, dtype, N):
        self.blocks_per_row = clusters_for(N * dtype.width // 8, 32 * 1024)
        super().__init__(dtype, N)


BACKWARD_LADDER = {
    "atomics": RMSNormBackwardAtomics,
    "vector atomics": RMSNormBackwardVectorAtomics,
    "parts": RMSNormBackwardParts,
    "pipelined": RMSNormBackwardPipelined,
    "bulk": RMSNormBackwardBulk,
    "cluster": RMSNormBackwardCluster,
}
