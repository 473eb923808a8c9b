"""Softmax of each row of an (M, N) tensor: y = exp(x - max) / sum(exp(x - max)).

| version            | reads x | the step it adds                                                      |
|--------------------|---------|-----------------------------------------------------------------------|
| `SoftmaxThreePass` | 3 times | one block a row: maximum, then sum, then output                       |
| `SoftmaxOnline`    | 2 times | maximum and sum in one pass, rescaling the sum when the maximum grows |
| `Softmax`          | once    | the row stays in registers; 16-byte vectors; several rows a block     |

All take float32, float16 or bfloat16, compute in float32, and give what torch gives: a row that is all -inf, or that
holds NaN or +inf, becomes NaN.

Not covered: rows of more than 16384 elements (they need a cluster of blocks), backward.
"""

import math
import operator
from dataclasses import dataclass

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.layout import VECTOR_BYTES, aligned, elements_to_boundary, tile_at, tiled_copy_rows
from quack_tutorial.kernels.reduce import (
    block_reduce,
    block_softmax_reduce,
    exp,
    finite_or_zero,
    online_combine,
    thread_reduce,
    warp_reduce,
)

MAX_N = 16384  # the longest row that the registers of one block hold


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


@dataclass(frozen=True)
class Config:
    """How `Softmax` spreads rows over threads: powers of 2, threads_per_row at most threads_per_block."""

    threads_per_row: int
    threads_per_block: int

    def __post_init__(self):
        row, block = self.threads_per_row, self.threads_per_block
        if row & (row - 1) or block & (block - 1) or not (1 <= row <= block and 32 <= block <= 1024):
            raise ValueError(f"{self}: both must be powers of 2, 1 <= threads_per_row <= threads_per_block, 32 to 1024")


# The fastest of the tried pairs (threads a row, threads a block) on an H200, 32768 rows, 2026-11-21. Aligned rows want
# little work in each of many threads; the others have single elements to handle and want fewer, busier threads.
# row bytes up to: (float32, 16 bits) for aligned rows, (float32, 16 bits) for others
CONFIGS = (
    (512, ((16, 128), (16, 128)), ((16, 128), (16, 128))),
    (1024, ((16, 128), (16, 64)), ((16, 128), (16, 128))),
    (2048, ((32, 64), (64, 128)), ((64, 128), (32, 128))),
    (4096, ((64, 64), (128, 128)), ((128, 128), (64, 128))),
    (8192, ((256, 1024), (256, 1024)), ((256, 256), (128, 128))),
    (16384, ((512, 1024), (256, 512)), ((512, 512), (256, 256))),
    (32768, ((1024, 1024), (1024, 1024)), ((512, 512), (512, 512))),
    (65536, ((512, 1024), None), ((512, 512), None)),
)


def default_config(vector_size, vectors, width, aligned):
    """The measured choice for rows of `vectors` x `vector_size` elements of `width` bits: the table, with fewer threads
    a row where more than a fifth of their vectors would lie behind the end."""
    pairs = next(row[1 if aligned else 2] for row in CONFIGS if vectors * vector_size * width // 8 <= row[0])
    threads_per_row, threads_per_block = pairs[0 if width == 32 else 1]
    threads = threads_per_row
    while threads > 1 and vectors < 0.8 * threads * math.ceil(vectors / threads):
        threads //= 2
    return Config(threads, threads_per_block if threads == threads_per_row else max(threads, 128))


class Softmax:
    """Softmax that reads the row once and keeps it in registers.

    `rows` is what the caller knows about addresses, and decides the width of the accesses:

    | rows        | promise                                                        | accesses                              |
    |-------------|----------------------------------------------------------------|---------------------------------------|
    | "aligned"   | every row of x and of out starts at a multiple of 16 bytes     | vectors, single elements at the end   |
    | "congruent" | row m of x and row m of out are equally far from such multiple | vectors, single elements at both ends |
    | "any"       | nothing                                                        | single elements                       |

    Rows of an odd length that follow each other without gaps are congruent: each starts somewhere else, in x as in out.
    """

    def __init__(self, dtype, N, rows="aligned", config=None):
        if not 1 <= N <= MAX_N:
            raise ValueError(f"Softmax keeps a row in the registers of one block: N must be 1 to {MAX_N}, got {N}")
        if rows not in ("aligned", "congruent", "any"):
            raise ValueError(f'rows must be "aligned", "congruent" or "any", got {rows!r}')
        self.dtype, self.N, self.rows = dtype, N, rows
        self.fast_exp = dtype.width < 32
        self.vector_size = VECTOR_BYTES * 8 // dtype.width
        if rows == "any" or N < self.vector_size:
            self.vector_size = 1
        vectors = N // self.vector_size
        self.config = config or default_config(self.vector_size, vectors, dtype.width, rows == "aligned")
        self.vectors_per_thread = math.ceil(vectors / self.config.threads_per_row)
        # Elements of a row outside its whole vectors, at most: vector_size - 1 at either end.
        self.singles = 2 * (self.vector_size - 1) if rows == "congruent" else N % self.vector_size
        self.singles_per_thread = math.ceil(self.singles / self.config.threads_per_row)

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        threads = self.config.threads_per_block
        rows_per_block = threads // self.config.threads_per_row
        blocks = cute.ceil_div(mX.shape[0], rows_per_block)
        self.kernel(mX, mO).launch(grid=[blocks, 1, 1], block=[threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        N, threads_per_row, vector_size = self.N, self.config.threads_per_row, self.vector_size
        rows_per_block = self.config.threads_per_block // threads_per_row
        columns = threads_per_row * vector_size * self.vectors_per_thread  # of the tile; single elements lie beside it
        tidx, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        row, lane = tidx // threads_per_row, tidx % threads_per_row  # of this thread in the tile, in the row
        row_exists = block * rows_per_block + row < mX.shape[0]

        atom = cute.make_copy_atom(
            cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=vector_size * self.dtype.width
        )
        thr_copy = tiled_copy_rows(atom, threads_per_row, rows_per_block, vector_size).get_slice(tidx)
        gX, gO = tile_at(mX, (rows_per_block, columns), block), tile_at(mO, (rows_per_block, columns), block)
        tXgX, tXgO = thr_copy.partition_S(gX), thr_copy.partition_D(gO)
        # A row is `head` single elements up to the first 16-byte boundary, `body` elements in vectors, and the rest.
        head, body = 0, N - N % vector_size
        if cutlass.const_expr(self.rows == "congruent" and vector_size > 1):
            head = elements_to_boundary(gX[row, None])
            body = (N - head) // vector_size * vector_size
            tXgX = aligned(thr_copy.partition_S(cute.domain_offset((0, head), gX)))
            tXgO = aligned(thr_copy.partition_D(cute.domain_offset((0, head), gO)))
        tXpX = cute.make_rmem_tensor((1, self.vectors_per_thread), cutlass.Boolean)
        for i in cutlass.range_constexpr(self.vectors_per_thread):
            tXpX[0, i] = row_exists and (i * threads_per_row + lane) * vector_size < body

        # read MN elements
        tXrX = cute.make_fragment_like(tXgX)
        tXrX.fill(-self.dtype.inf)
        cute.copy(atom, tXgX, tXrX, pred=tXpX)
        x = tXrX.load().to(cutlass.Float32)
        max_thread = thread_reduce(x, cute.ReductionOp.MAX, -cutlass.Float32.inf)
        if cutlass.const_expr(self.singles > 0):
            tSrX = cute.make_rmem_tensor(self.singles_per_thread, self.dtype)
            tSrX.fill(-self.dtype.inf)
            for i in cutlass.range_constexpr(self.singles_per_thread):
                col = single_column(i * threads_per_row + lane, head, body)
                if row_exists and col < N:
                    tSrX[i] = gX[row, col]
            x_singles = tSrX.load().to(cutlass.Float32)
            max_thread = thread_reduce(x_singles, cute.ReductionOp.MAX, max_thread)

        # Every warp scales by its own maximum, so that a row of several warps needs only one exchange.
        width = min(threads_per_row, 32)
        max_warp = warp_reduce(max_thread, cute.arch.fmax, width)
        reference = finite_or_zero(max_warp)
        y = exp(x - reference, self.fast_exp)
        sum_thread = thread_reduce(y, cute.ReductionOp.ADD, cutlass.Float32(0.0))
        if cutlass.const_expr(self.singles > 0):
            y_singles = exp(x_singles - reference, self.fast_exp)
            sum_thread = thread_reduce(y_singles, cute.ReductionOp.ADD, sum_thread)
        sum_warp = warp_reduce(sum_thread, operator.add, width)
        scale = 1.0 / sum_warp  # a row all -inf: 0 * inf = NaN
        if cutlass.const_expr(threads_per_row > 32):
            slots = cute.make_ordered_layout((rows_per_block, threads_per_row // 32, 2), order=(2, 1, 0))
            buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, byte_alignment=16)
            max_row, sum_row = block_softmax_reduce(max_warp, sum_warp, buffer)
            scale = exp(max_warp - max_row) / sum_row

        # write MN elements
        tXrO = cute.make_fragment_like(tXgO)
        tXrO.store((y * scale).to(self.dtype))
        cute.copy(atom, tXrO, tXgO, pred=tXpX)
        if cutlass.const_expr(self.singles > 0):
            tSrO = cute.make_rmem_tensor(self.singles_per_thread, self.dtype)
            tSrO.store((y_singles * scale).to(self.dtype))
            for i in cutlass.range_constexpr(self.singles_per_thread):
                col = single_column(i * threads_per_row + lane, head, body)
                if row_exists and col < N:
                    gO[row, col] = tSrO[i]


@cute.jit
def single_column(k, head, body):
    """The column of a row's k-th element outside its vectors: first those before them, then those after them."""
    col = k
    if k >= head:
        col = k + body
    return col
