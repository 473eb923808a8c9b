"""Softmax of each row of an (M, N) tensor, y = exp(x - max) / sum(exp(x - max)): a ladder of versions.

Chapter 8 climbs it, from the first rung of chapter 0 to what ships. Each version changes one thing in the one before it.

| version                 | the change                                             | reads x | where it stops paying               |
|-------------------------|--------------------------------------------------------|---------|-------------------------------------|
| `SoftmaxThread`         | one thread a row: maximum, then sum, then output       | 3 times | everywhere: nothing is coalesced    |
| `SoftmaxWarp`           | one warp a row: lanes read neighbours                  | 3 times | long rows: too many at once for L2  |
| `SoftmaxThreePass`      | one block a row                                        | 3 times | short rows: barriers; long: 3 reads |
| `SoftmaxOnline`         | maximum and sum in one pass                            | twice   | two exponentials an element         |
| `SoftmaxVectors`        | 16 bytes a load, predicated; rescaled once for several | twice   | still two reads                     |
| `SoftmaxRegisters`      | the row stays in registers                             | once    | short rows; 131072 columns: spills  |
| `SoftmaxRows`           | several rows a block, or lanes of a warp               | once    | from 4096 on: the kernel of before  |
| `SoftmaxAsync`          | cp.async into shared memory; prepares the next         | once    | always: an extra trip through smem  |
| `SoftmaxCluster`        | the blocks of a cluster share a row                    | once    | where an SM holds a single block    |
| `SoftmaxDirect`         | straight to registers again, without cp.async          | once    | where an SM holds a single block    |
| `SoftmaxHint`           | loads ask L2 to give up last what they bring           | once    | where an SM holds a single block    |
| `SoftmaxReadTwice`      | the row stays in shared memory, a bulk copy brings it  | once    | short rows: a block has one         |
| `SoftmaxShortExp`       | 16 bits: fewer instructions an element                 | once    | short rows; float32: as before      |
| `SoftmaxAnyAddress`     | rows that start anywhere in vectors, too               | once    |                                     |
| `tuned.softmax.Softmax` | the same, with sizes by a rule                         | once    | ships                               |

Numbers below are shares of what the fastest plain copy reached, 32768 rows (16384 of 131072) on an
H200: `records/h200/bench/softmax-ladder.json`. The versions after `SoftmaxCluster` are not in it: they were timed on an H100 alone,
`records/h100/bench/softmax-ladder.json`.

All take float32, float16 or bfloat16, compute in float32, and give what torch gives: a row that is all -inf, or that
holds NaN or +inf, becomes NaN. A vector divides a row, so rows of odd length get vectors of one element; of 16 bits
`SoftmaxAsync` and `SoftmaxCluster` refuse them. The two versions whose rows stay in shared memory refuse rows that are not
whole vectors of 16 bytes.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.arithmetic import as_float32, exp_scale, exp_scaled, thread_max
from quack_tutorial.kernels.cache_hints import EVICT_LAST, bulk_copy_evict_last, policy_of
from quack_tutorial.kernels.config import clusters_for
from quack_tutorial.kernels.copy import async_vector, inside, refuse_large_tile, widest_vector
from quack_tutorial.kernels.layout import (
    VECTOR_BYTES,
    of_rungs,
    promise_for,
    row_tiler,
    threads_for,
    tile_at,
    tiled_copy_rows,
)
from quack_tutorial.kernels.reduce import (
    block_reduce,
    block_softmax_reduce,
    cluster_softmax_reduce,
    combine_lanes,
    exp,
    finite_or_zero,
    online_combine,
    open_mbarrier,
    thread_reduce,
    warp_reduce,
)
from quack_tutorial.kernels.tuned.softmax import Softmax


class SoftmaxThread:
    """Softmax with one thread a row: the formula, and what rounding adds to a long sum is taken off again.

    Gains: it is right. Stops paying at once: the lanes of a request are a row apart, so each brings its own sector.
    """

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        blocks = cute.ceil_div(mX.shape[0], 128)
        self.kernel(mX, mO).launch(grid=[blocks, 1, 1], block=[128, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        M, N = mX.shape
        # 64 bits, since row * N may pass 2^31.
        row = cutlass.Int64(cute.arch.block_idx()[0]) * 128 + cute.arch.thread_idx()[0]
        if row < M:
            # read MN elements
            max_row = -cutlass.Float32.inf
            for col in range(N):
                max_row = cute.arch.fmax(max_row, mX[row, col].to(cutlass.Float32))
            # read MN elements
            sum_row, excess = cutlass.Float32(0.0), cutlass.Float32(0.0)
            for col in range(N):
                term = exp(mX[row, col].to(cutlass.Float32) - max_row) - excess
                total = sum_row + term
                excess = (total - sum_row) - term  # what this addition's rounding has added
                sum_row = total
            # read MN elements; write MN elements
            scale = 1.0 / sum_row
            for col in range(N):
                mO[row, col] = (exp(mX[row, col].to(cutlass.Float32) - max_row) * scale).to(mO.element_type)


class SoftmaxWarp:
    """As `SoftmaxThread`, but a warp shares the row: neighbouring lanes read neighbouring elements.

    A lane adds every 32nd term, so the sum needs no correction. Gains: each sector serves 8 lanes (float32 of 1024
    columns: 0.08 to 0.74). Stops paying: an SM works on 64 rows at once, which from 4096 columns on are more than L2
    holds (by their bytes; no counter was read).
    """

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        blocks = cute.ceil_div(mX.shape[0], 4)
        self.kernel(mX, mO).launch(grid=[blocks, 1, 1], block=[128, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        M, N = mX.shape
        lane = cute.arch.lane_idx()
        row = cutlass.Int64(cute.arch.block_idx()[0]) * 4 + cute.arch.warp_idx()
        if row < M:
            # read MN elements
            max_row = -cutlass.Float32.inf
            for col in range(lane, N, 32):
                max_row = cute.arch.fmax(max_row, mX[row, col].to(cutlass.Float32))
            max_row = warp_reduce(max_row, cute.arch.fmax)
            # read MN elements
            sum_row = cutlass.Float32(0.0)
            for col in range(lane, N, 32):
                sum_row += exp(mX[row, col].to(cutlass.Float32) - max_row)
            sum_row = warp_reduce(sum_row, operator.add)
            # read MN elements; write MN elements
            scale = 1.0 / sum_row
            for col in range(lane, N, 32):
                mO[row, col] = (exp(mX[row, col].to(cutlass.Float32) - max_row) * scale).to(mO.element_type)


class SoftmaxThreePass:
    """As `SoftmaxWarp`, but a block shares the row; the warps' maxima and sums meet in shared memory.

    Gains: fewer rows at once, so L2 answers two of the reads (float32 of 8192: 0.41 to 0.76). Stops paying: in short
    rows, where 256 threads meet at barriers for few bytes (float32 of 1024: 0.74 to 0.56), and in rows too long for L2
    again.
    """

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


class SoftmaxOnline(SoftmaxThreePass):
    """As `SoftmaxThreePass`, but the maximum and the sum are found in one pass, and their two exchanges become one.

    Gains: a read, which pays where L2 had not answered it: float32 from 16384 columns on. Stops paying: in most other
    rows, since each element now takes two exponentials, one after the other (bfloat16 of 8192: 0.67 to 0.55).
    """

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        row = cutlass.Int64(row)
        threads, N = self.threads_per_block, mX.shape[1]
        slots = cute.make_ordered_layout((1, threads // 32, 2), order=(2, 1, 0))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, 16)

        # read MN elements
        max_thread, sum_thread = -cutlass.Float32.inf, cutlass.Float32(0.0)
        for col in range(tidx, N, threads):
            x = mX[row, col].to(cutlass.Float32)
            # One element is the pair (x, 1), as exp(x - x) = 1.
            max_thread, sum_thread = online_combine(max_thread, sum_thread, x, cutlass.Float32(1.0))
        max_row, sum_row = block_softmax_reduce(*combine_lanes(max_thread, sum_thread), buffer)
        # read MN elements; write MN elements
        scale = 1.0 / sum_row
        for col in range(tidx, N, threads):
            mO[row, col] = (exp(mX[row, col].to(cutlass.Float32) - max_row) * scale).to(mO.element_type)


class SoftmaxVectors:
    """As `SoftmaxOnline`, but a thread moves vectors of 16 bytes, `unroll` of them at a time, and rescales once for all.

    Two changes, bytes in flight and arithmetic; cross-entropy takes them one by one. A TiledCopy says which vectors of
    a tile are whose, and predicates which of them lie in the row. Of several elements the maximum comes first, then one
    rescaling.

    Gains: bytes in flight, and one exponential an element instead of two (bfloat16 of 4096: 0.37 to 0.72). Stops
    paying: at two reads, 2/3 of a copy, and in short rows, which fill a part of a tile.
    """

    def __init__(self, dtype, N, threads_per_block=256, unroll=4):
        self.dtype, self.N, self.threads_per_block = dtype, N, threads_per_block
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.tiler = (1, threads_per_block * self.vector_size * unroll)

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        threads = self.threads_per_block
        self.kernel(mX, mO).launch(grid=[mX.shape[0], 1, 1], block=[threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        tiles = cute.ceil_div(self.N, self.tiler[1])
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_block, 1, self.vector_size).get_slice(tidx)
        mC = cute.make_identity_tensor(mX.shape)
        slots = cute.make_ordered_layout((1, self.threads_per_block // 32, 2), order=(2, 1, 0))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, 16)

        # read MN elements
        max_thread, sum_thread = -cutlass.Float32.inf, cutlass.Float32(0.0)
        for tile in range(tiles):
            tXgX = thr_copy.partition_S(tile_at(mX, self.tiler, row, tile))
            tXcX = thr_copy.partition_S(cute.local_tile(mC, self.tiler, (row, tile)))
            tXrX = cute.make_fragment_like(tXgX)
            tXrX.fill(-self.dtype.inf)
            cute.copy(atom, tXgX, tXrX, pred=inside(tXcX, mX.shape))
            x = tXrX.load().to(cutlass.Float32)
            max_new = thread_reduce(x, cute.ReductionOp.MAX, max_thread)
            reference = finite_or_zero(max_new)
            sum_old = sum_thread * exp(max_thread - reference)
            sum_thread = thread_reduce(exp(x - reference), cute.ReductionOp.ADD, sum_old)
            max_thread = max_new
        max_row, sum_row = block_softmax_reduce(*combine_lanes(max_thread, sum_thread), buffer)
        # read MN elements; write MN elements
        scale = 1.0 / sum_row
        for tile in range(tiles):
            tXgX = thr_copy.partition_S(tile_at(mX, self.tiler, row, tile))
            tXgO = thr_copy.partition_D(tile_at(mO, self.tiler, row, tile))
            tXpX = inside(thr_copy.partition_S(cute.local_tile(mC, self.tiler, (row, tile))), mX.shape)
            tXrX = cute.make_fragment_like(tXgX)
            tXrX.fill(-self.dtype.inf)
            cute.copy(atom, tXgX, tXrX, pred=tXpX)
            tXrX.store((exp(tXrX.load().to(cutlass.Float32) - max_row) * scale).to(self.dtype))
            cute.copy(atom, tXrX, tXgO, pred=tXpX)


class SoftmaxRegisters(SoftmaxVectors):
    """As `SoftmaxVectors`, but the tile is the whole row: read once, and kept in registers until it is written.

    Two things follow: the threads grow with N, and each warp scales by its own maximum. Gains: the second read (float32
    of 16384: 0.69 to 0.96). Stops paying: at 131072, where 1024 threads of 64 registers spill, and in short rows, whose
    blocks have few bytes to load.
    """

    def __init__(self, dtype, N, threads_per_block=None):
        self.dtype, self.N = dtype, N
        self.threads_per_block = threads_per_block or max(128, threads_for(N))
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.tiler = row_tiler(N, self.vector_size, self.threads_per_block)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        gX, gO = tile_at(mX, self.tiler, row), tile_at(mO, self.tiler, row)
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), self.tiler, (row, 0))
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_block, 1, self.vector_size).get_slice(tidx)
        tXgX, tXgO = thr_copy.partition_S(gX), thr_copy.partition_D(gO)
        tXpX = inside(thr_copy.partition_S(cX), mX.shape)
        slots = cute.make_ordered_layout((1, self.threads_per_block // 32, 2), order=(2, 1, 0))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, 16)

        # read MN elements
        tXrX = cute.make_fragment_like(tXgX)
        tXrX.fill(-self.dtype.inf)
        cute.copy(atom, tXgX, tXrX, pred=tXpX)
        x = tXrX.load().to(cutlass.Float32)

        # Each warp scales by its own maximum, so that its terms need no second exponential after the exchange.
        max_thread = thread_reduce(x, cute.ReductionOp.MAX, -cutlass.Float32.inf)
        max_warp = warp_reduce(max_thread, cute.arch.fmax)
        y = exp(x - finite_or_zero(max_warp))
        sum_thread = thread_reduce(y, cute.ReductionOp.ADD, cutlass.Float32(0.0))
        max_row, sum_row = block_softmax_reduce(max_warp, warp_reduce(sum_thread, operator.add), buffer)

        # write MN elements
        tXrX.store((y * (exp(max_warp - max_row) / sum_row)).to(self.dtype))
        cute.copy(atom, tXrX, tXgO, pred=tXpX)


class SoftmaxRows:
    """As `SoftmaxRegisters`, but a block has several rows where one would give its threads little to load.

    A row of 1024 elements belongs to one warp, a shorter one to 16 or 8 lanes of it: no shared memory, no barrier.
    Gains: short rows (bfloat16 of 1024: 0.86 to 0.97). Stops paying: from 4096 on a block has one row, and it is the
    kernel of before.
    """

    def __init__(self, dtype, N, threads_per_row=None, threads_per_block=None):
        self.dtype, self.N = dtype, N
        self.threads_per_row = threads_per_row or threads_for(N)
        self.threads_per_block = threads_per_block or max(128, self.threads_per_row)
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.rows = self.threads_per_block // self.threads_per_row
        self.tiler = row_tiler(N, self.vector_size, self.threads_per_row, self.rows)

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        blocks = cute.ceil_div(mX.shape[0], self.rows)
        self.kernel(mX, mO).launch(grid=[blocks, 1, 1], block=[self.threads_per_block, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        gX, gO = tile_at(mX, self.tiler, block), tile_at(mO, self.tiler, block)
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), self.tiler, (block, 0))
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_row, self.rows, self.vector_size).get_slice(tidx)
        tXgX, tXgO = thr_copy.partition_S(gX), thr_copy.partition_D(gO)
        tXpX = inside(thr_copy.partition_S(cX), mX.shape)

        # read MN elements
        tXrX = cute.make_fragment_like(tXgX)
        tXrX.fill(-self.dtype.inf)
        cute.copy(atom, tXgX, tXrX, pred=tXpX)
        x = tXrX.load().to(cutlass.Float32)

        width = min(self.threads_per_row, 32)
        max_thread = thread_reduce(x, cute.ReductionOp.MAX, -cutlass.Float32.inf)
        # In a short row of its 8 or 16 lanes.
        max_warp = warp_reduce(max_thread, cute.arch.fmax, width)
        y = exp(x - finite_or_zero(max_warp))
        sum_thread = thread_reduce(y, cute.ReductionOp.ADD, cutlass.Float32(0.0))
        sum_warp = warp_reduce(sum_thread, operator.add, width)
        scale = 1.0 / sum_warp
        if cutlass.const_expr(self.threads_per_row > 32):
            slots = cute.make_ordered_layout((self.rows, self.threads_per_row // 32, 2), order=(2, 1, 0))
            buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, 16)
            max_row, sum_row = block_softmax_reduce(max_warp, sum_warp, buffer)
            scale = exp(max_warp - max_row) / sum_row

        # write MN elements
        tXrX.store((y * scale).to(self.dtype))
        cute.copy(atom, tXrX, tXgO, pred=tXpX)


class SoftmaxAsync(SoftmaxRows):
    """As `SoftmaxRows`, but cp.async brings the tile into shared memory.

    Gains nothing by itself: the thread waits at once, and the row then needs the same registers. `SoftmaxCluster` opens
    its cluster meanwhile. Stops paying: the way is longer (bfloat16 of 16384: 0.94 to 0.91), and a row must fit shared
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
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        gX, gO = tile_at(mX, self.tiler, block), tile_at(mO, self.tiler, block)
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), self.tiler, (block, 0))
        smem = cutlass.memory.SmemAllocator()
        sX = smem.allocate_tensor(self.dtype, cute.make_ordered_layout(self.tiler, order=(1, 0)), VECTOR_BYTES)
        bits = self.vector_size * self.dtype.width
        atom_async = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), self.dtype, num_bits_per_copy=bits)
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_row, self.rows, self.vector_size).get_slice(tidx)
        tXgX, tXsX, tXgO = thr_copy.partition_S(gX), thr_copy.partition_D(sX), thr_copy.partition_D(gO)
        tXpX = inside(thr_copy.partition_S(cX), mX.shape)

        # read MN elements
        cute.copy(atom_async, tXgX, tXsX, pred=tXpX)
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        # A thread reads back the vectors that it copied itself, so its own wait is enough: no barrier.
        tXrX = cute.make_fragment_like(tXgX)
        tXrX.fill(-self.dtype.inf)
        cute.copy(atom, tXsX, tXrX, pred=tXpX)
        x = tXrX.load().to(cutlass.Float32)

        width = min(self.threads_per_row, 32)
        max_thread = thread_reduce(x, cute.ReductionOp.MAX, -cutlass.Float32.inf)
        max_warp = warp_reduce(max_thread, cute.arch.fmax, width)
        y = exp(x - finite_or_zero(max_warp))
        sum_thread = thread_reduce(y, cute.ReductionOp.ADD, cutlass.Float32(0.0))
        sum_warp = warp_reduce(sum_thread, operator.add, width)
        scale = 1.0 / sum_warp
        if cutlass.const_expr(self.threads_per_row > 32):
            slots = cute.make_ordered_layout((self.rows, self.threads_per_row // 32, 2), order=(2, 1, 0))
            buffer = smem.allocate_tensor(cutlass.Float32, slots, 16)
            max_row, sum_row = block_softmax_reduce(max_warp, sum_warp, buffer)
            scale = exp(max_warp - max_row) / sum_row

        # write MN elements
        tXrX.store((y * scale).to(self.dtype))
        cute.copy(atom, tXrX, tXgO, pred=tXpX)


class SoftmaxCluster:
    """As `SoftmaxAsync`, but the blocks of a cluster share a row of more than `block_bytes`, each with a part of its columns.

    Chapter 6 explains the calls. Gains: nothing spills (float32 of 131072: 0.26 to 0.97). Stops paying: where an SM
    holds one block, it waits for its cluster and loads nothing (bfloat16 of 131072, in blocks of 1024 threads: 0.65).
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
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        blocks = cute.ceil_div(mX.shape[0], self.rows) * self.blocks_per_row
        cluster = [self.blocks_per_row, 1, 1] if self.blocks_per_row > 1 else None
        threads = [self.threads_per_block, 1, 1]
        self.kernel(mX, mO).launch(grid=[blocks, 1, 1], block=threads, cluster=cluster, stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        # Neighbouring blocks share a row: this one has the tile `rank` of its columns.
        row_tile, rank = block // self.blocks_per_row, block % self.blocks_per_row
        gX, gO = tile_at(mX, self.tiler, row_tile, rank), tile_at(mO, self.tiler, row_tile, rank)
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), self.tiler, (row_tile, rank))
        smem = cutlass.memory.SmemAllocator()
        sX = smem.allocate_tensor(self.dtype, cute.make_ordered_layout(self.tiler, order=(1, 0)), VECTOR_BYTES)
        bits = self.vector_size * self.dtype.width
        atom_async = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), self.dtype, num_bits_per_copy=bits)
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_row, self.rows, self.vector_size).get_slice(tidx)
        tXgX, tXsX, tXgO = thr_copy.partition_S(gX), thr_copy.partition_D(sX), thr_copy.partition_D(gO)
        tXpX = inside(thr_copy.partition_S(cX), mX.shape)
        if cutlass.const_expr(self.blocks_per_row > 1):
            mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
            open_mbarrier(mbar)

        # read MN elements
        cute.copy(atom_async, tXgX, tXsX, pred=tXpX)
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        tXrX = cute.make_fragment_like(tXgX)
        tXrX.fill(-self.dtype.inf)
        cute.copy(atom, tXsX, tXrX, pred=tXpX)
        x = tXrX.load().to(cutlass.Float32)

        width = min(self.threads_per_row, 32)
        max_thread = thread_reduce(x, cute.ReductionOp.MAX, -cutlass.Float32.inf)
        max_warp = warp_reduce(max_thread, cute.arch.fmax, width)
        y = exp(x - finite_or_zero(max_warp))
        sum_thread = thread_reduce(y, cute.ReductionOp.ADD, cutlass.Float32(0.0))
        sum_warp = warp_reduce(sum_thread, operator.add, width)
        scale = 1.0 / sum_warp
        if cutlass.const_expr(self.threads_per_row > 32):
            slots = cute.make_ordered_layout((self.rows, self.threads_per_row // 32, 2), order=(2, 1, 0))
            buffer = smem.allocate_tensor(cutlass.Float32, slots, 16)
            max_row, sum_row = block_softmax_reduce(max_warp, sum_warp, buffer)
            if cutlass.const_expr(self.blocks_per_row > 1):
                slots = cute.make_ordered_layout((self.blocks_per_row, 2), order=(1, 0))
                cluster_buffer = smem.allocate_tensor(cutlass.Float32, slots, 16)
                cute.arch.cluster_wait()  # every block's mbarrier is there
                max_row, sum_row = cluster_softmax_reduce(max_row, sum_row, cluster_buffer, mbar)
            scale = exp(max_warp - max_row) / sum_row

        # write MN elements
        tXrX.store((y * scale).to(self.dtype))
        cute.copy(atom, tXrX, tXgO, pred=tXpX)


class SoftmaxDirect(SoftmaxCluster):
    """As `SoftmaxCluster`, but rows come straight to registers: a thread waited for its copies at once anyway.

    Rows of odd length, which cp.async refuses in 16 bits, are possible again. Gains: little (on an H100 bfloat16 of 131072:
    0.87 to 0.90). Stops paying: as before, where an SM holds one block.
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
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        row_tile, rank = block // self.blocks_per_row, block % self.blocks_per_row
        gX, gO = tile_at(mX, self.tiler, row_tile, rank), tile_at(mO, self.tiler, row_tile, rank)
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), self.tiler, (row_tile, rank))
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_row, self.rows, self.vector_size).get_slice(tidx)
        tXgX, tXgO = thr_copy.partition_S(gX), thr_copy.partition_D(gO)
        tXpX = inside(thr_copy.partition_S(cX), mX.shape)
        smem = cutlass.memory.SmemAllocator()
        if cutlass.const_expr(self.blocks_per_row > 1):
            mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
            open_mbarrier(mbar)

        # read MN elements
        tXrX = cute.make_fragment_like(tXgX)
        tXrX.fill(-self.dtype.inf)
        self.load(atom, tXgX, tXrX, tXpX)
        x = tXrX.load().to(cutlass.Float32)

        width = min(self.threads_per_row, 32)
        max_thread = thread_reduce(x, cute.ReductionOp.MAX, -cutlass.Float32.inf)
        max_warp = warp_reduce(max_thread, cute.arch.fmax, width)
        y = exp(x - finite_or_zero(max_warp))
        sum_thread = thread_reduce(y, cute.ReductionOp.ADD, cutlass.Float32(0.0))
        sum_warp = warp_reduce(sum_thread, operator.add, width)
        scale = 1.0 / sum_warp
        if cutlass.const_expr(self.threads_per_row > 32):
            slots = cute.make_ordered_layout((self.rows, self.threads_per_row // 32, 2), order=(2, 1, 0))
            buffer = smem.allocate_tensor(cutlass.Float32, slots, 16)
            max_row, sum_row = block_softmax_reduce(max_warp, sum_warp, buffer)
            if cutlass.const_expr(self.blocks_per_row > 1):
                slots = cute.make_ordered_layout((self.blocks_per_row, 2), order=(1, 0))
                cluster_buffer = smem.allocate_tensor(cutlass.Float32, slots, 16)
                cute.arch.cluster_wait()  # every block's mbarrier is there
                max_row, sum_row = cluster_softmax_reduce(max_row, sum_row, cluster_buffer, mbar)
            scale = exp(max_warp - max_row) / sum_row

        # write MN elements
        tXrX.store((y * scale).to(self.dtype))
        cute.copy(atom, tXrX, tXgO, pred=tXpX)

    def load(self, atom, tXgX, tXrX, tXpX):
        """Load this thread's part of the row, for which `SoftmaxHint` has other instructions."""
        cute.copy(atom, tXgX, tXrX, pred=tXpX)


class SoftmaxHint(SoftmaxDirect):
    """As `SoftmaxDirect`, but every load asks L2 to give up last what it brings, so that what was written goes first.

    A copy atom for loads from global memory takes a policy, a number that an instruction of its own makes
    (`cache_hints.py`); cp.async and bulk copies take the argument too and leave the hint out. Gains: about 1 % (on an
    H100 float32 of 32768: 0.988 to 0.999). Stops paying: where blocks wait, and not the memory.
    """

    def load(self, atom, tXgX, tXrX, tXpX):
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyG2ROp(), self.dtype, num_bits_per_copy=bits)
        cute.copy(atom, tXgX, tXrX, pred=tXpX, cache_policy=policy_of(EVICT_LAST))


class SoftmaxReadTwice:
    """As `SoftmaxHint`, but a block's part of the row stays in shared memory and is read from there twice.

    A bulk copy, which one thread starts, brings it; chapter 6 explains the mbarrier. A thread has 16 elements in registers
    at a time, however long the row: so 256 threads do for 64 KiB, several blocks share an SM, and while one waits for its
    cluster, others load and store. Gains: rows whose blocks filled an SM (on an H100 bfloat16 of 131072: 0.89 to 1.00). Stops
    paying: elsewhere (bfloat16 of 32768: 1.00 to 0.99), most in short rows, since a block has one. A row that bulk copies
    cannot cut into equal parts of whole vectors is refused.
    """

    def widen(self, tXrX):
        """The values of registers in float32. `SoftmaxShortExp` has another one, and other ones of the next two."""
        return tXrX.load().to(cutlass.Float32)

    def largest(self, tXrX, init_val):
        """The maximum of `init_val` and the values of registers."""
        return thread_reduce(self.widen(tXrX), cute.ReductionOp.MAX, init_val)

    def exp(self, x):
        """What the terms of the sum are, and the results before they are divided by it."""
        return exp(x)

    def __init__(self, dtype, N, block_bytes=64 * 1024):
        self.dtype, self.N = dtype, N
        self.blocks_per_row = clusters_for(N * dtype.width // 8, block_bytes)
        self.columns = -(-N // self.blocks_per_row)  # of a block
        self.vector_size = VECTOR_BYTES * 8 // dtype.width
        if N % (self.blocks_per_row * self.vector_size):
            raise ValueError(
                f"bulk copies move whole vectors of {self.vector_size}; {N} elements are not {self.blocks_per_row} equal "
                f"parts of them: use a version that loads into registers"
            )
        self.threads_per_block = min(256, max(32, threads_for(self.columns)))
        self.tiler = (1, self.threads_per_block * 16)

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        cluster = [self.blocks_per_row, 1, 1] if self.blocks_per_row > 1 else None
        self.kernel(mX, mO).launch(
            grid=[mX.shape[0] * self.blocks_per_row, 1, 1],
            block=[self.threads_per_block, 1, 1],
            cluster=cluster,
            stream=stream,
        )

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        row, rank = block // self.blocks_per_row, block % self.blocks_per_row
        part = (1, self.columns)
        gX, gO = tile_at(mX, part, row, rank), tile_at(mO, part, row, rank)
        cX = cute.make_identity_tensor(part)
        smem = cutlass.memory.SmemAllocator()
        sX = smem.allocate_tensor(self.dtype, cute.make_layout(part, stride=(self.columns, 1)), 128)
        arrived = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
        warps = self.threads_per_block // 32
        buffer = smem.allocate_tensor(cutlass.Float32, cute.make_ordered_layout((1, warps, 2), order=(2, 1, 0)), 16)
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_block, 1, self.vector_size).get_slice(tidx)
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
        cute.arch.mbarrier_wait(arrived, 0)

        max_thread, sum_thread = -cutlass.Float32.inf, cutlass.Float32(0.0)
        tiles = cute.ceil_div(self.columns, self.tiler[1])
        for tile in range(tiles):
            tXsX = thr_copy.partition_S(cute.local_tile(sX, self.tiler, (0, tile)))
            tXpX = inside(thr_copy.partition_S(cute.local_tile(cX, self.tiler, (0, tile))), part)
            tXrX = cute.make_fragment_like(tXsX)
            tXrX.fill(-self.dtype.inf)
            cute.copy(atom, tXsX, tXrX, pred=tXpX)
            max_new = self.largest(tXrX, max_thread)
            reference = finite_or_zero(max_new)
            terms = self.exp(self.widen(tXrX) - reference)
            sum_old = sum_thread * exp(max_thread - reference)
            sum_thread = thread_reduce(terms, cute.ReductionOp.ADD, sum_old)
            max_thread = max_new
        max_row, sum_row = block_softmax_reduce(*combine_lanes(max_thread, sum_thread), buffer)
        if cutlass.const_expr(self.blocks_per_row > 1):
            slots = cute.make_ordered_layout((self.blocks_per_row, 2), order=(1, 0))
            cluster_buffer = smem.allocate_tensor(cutlass.Float32, slots, 16)
            cute.arch.cluster_wait()
            max_row, sum_row = cluster_softmax_reduce(max_row, sum_row, cluster_buffer, mbar)

        # write MN elements
        factor = 1.0 / sum_row
        for tile in range(tiles):
            tXsX = thr_copy.partition_S(cute.local_tile(sX, self.tiler, (0, tile)))
            tXgO = thr_copy.partition_D(cute.local_tile(gO, self.tiler, (0, tile)))
            tXpX = inside(thr_copy.partition_S(cute.local_tile(cX, self.tiler, (0, tile))), part)
            tXrX = cute.make_fragment_like(tXsX)
            tXrX.fill(-self.dtype.inf)
            cute.copy(atom, tXsX, tXrX, pred=tXpX)
            tXrX.store((self.exp(self.widen(tXrX) - max_row) * factor).to(self.dtype))
            cute.copy(atom, tXrX, tXgO, pred=tXpX)


class SoftmaxShortExp(SoftmaxReadTwice):
    """As `SoftmaxReadTwice`, but 16-bit elements take fewer instructions, as exact as 16 bits can tell (`arithmetic.py`).

    The exponential is the hardware's 2^x without the care for small results; so that none is lost, all are 2^64 times too
    large until the division. Two values are compared at a time, and a bfloat16 is widened by a shift. Gains: nothing on an
    H100, whose memory sets the pace (from 0.5 % faster to 0.2 % slower). In float32 it is the kernel of before.
    """

    def widen(self, tXrX):
        return as_float32(tXrX)

    def largest(self, tXrX, init_val):
        return thread_max(tXrX, init_val)

    def exp(self, x):
        """2^64 e^x of 16-bit elements, e^x of others."""
        return exp_scaled(x, exp_scale(self.dtype))


class SoftmaxAnyAddress(Softmax):
    """What ships, with the sizes of the rungs before: rows that start at any address are moved in vectors, too.

    `RowTile` takes the place of the copy with a predicate: whole vectors between the first and the last multiple of 16 bytes
    of a row, single elements before and after. A row is in registers, as in `SoftmaxHint`, or, where a cluster has it, in
    shared memory, as in `SoftmaxShortExp`. A second change comes along: in clusters of few warps each warp sends its pair
    itself (`tuned/row_exchange.py`).
    """

    def __init__(self, dtype, N, block_bytes=64 * 1024):
        super().__init__(dtype, N, promise_for(dtype, N), config=of_rungs(dtype, N, block_bytes, thread_bytes=256))


LADDER = {
    "thread": lambda dtype, N: SoftmaxThread(),
    "warp": lambda dtype, N: SoftmaxWarp(),
    "three-pass": lambda dtype, N: SoftmaxThreePass(),
    "online": lambda dtype, N: SoftmaxOnline(),
    "vectors": SoftmaxVectors,
    "registers": SoftmaxRegisters,
    "rows": SoftmaxRows,
    "async": SoftmaxAsync,
    "cluster": SoftmaxCluster,
    "direct": SoftmaxDirect,
    "hint": SoftmaxHint,
    "read twice": SoftmaxReadTwice,
    "short exp": SoftmaxShortExp,
    "any address": SoftmaxAnyAddress,
}
