"""RMSNorm of each row of an (M, N) tensor, written in 8 bits as a matmul in float8 takes it, with the scale that was taken out:

    y = h / sqrt(mean(h^2) + eps) * w, h = x or x + residual
    scale = max|y| / 448, of a row or of each block of 128 columns;  q = y / scale in float8 (e4m3), whose largest number is 448

The maximum is a second reduction, over numbers that are still in registers. Some longer rows wait before it in shared memory, see
`row_pipeline`. For a scale a row its warps agree twice, as in LayerNorm; a block of 128 columns is in 16 or 32 neighbouring lanes,
so that a butterfly is enough.

y is not rounded to x's type on the way: one rounding and its instructions less, and the maximum is that of the numbers that are
divided. vLLM rounds y twice, and once where DeepSeek's quantisation follows a norm: of 2,000 random rows of 4,096 bfloat16
numbers 2.9 % and 2.2 % of the codes are others then. The maximum is no less than 2^-100 (torchao takes 1e-12, vLLM 2^-9,
DeepSeek nothing, which makes NaN of zeros), so rows of zeros have a scale and codes of 0. NaN in y makes the scale NaN, and
all codes that it belongs to.

| argument     | shape                 | holds        | type                                                |
|--------------|-----------------------|--------------|-----------------------------------------------------|
| mX, mR       | (M, N)                | x, residual  | `dtype`; None without a residual                    |
| mW           | (N,)                  | w            | any; None without one                               |
| mQ           | (M, N)                | q            | uint8: the bits, since not all that hands tensors over knows float8 |
| mScale       | (M,), or (M, N / 128) | scale        | float32                                             |
| mResidualOut | (M, N)                | h            | any; None if not asked for                          |
"""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.hardware import SCALE_COLUMNS
from quack_tutorial.kernels.arithmetic import corrected, larger, largest_magnitude, scale_of
from quack_tutorial.kernels.reduce import warp_reduce
from quack_tutorial.kernels.tuned.norm import Norm
from quack_tutorial.kernels.tuned.row_exchange import RowExchange
from quack_tutorial.kernels.tuned.row_tile import RowTile


class RMSNormQuantized(Norm):
    """RMSNorm in float8 with a scale a row, which reads each row once; with a `residual` its sizes are others."""

    operation, allows_rows_each = "rmsnorm-quantized", False

    def __init__(self, dtype, N, promise="aligned", *, residual=False, **given):
        if residual:
            self.operation = f"{self.operation} residual"
        super().__init__(dtype, N, promise, **given)
        self.exchange = RowExchange(self.config, sets=2)

    @cute.jit
    def __call__(self, mX, mW, mR, mQ, mScale, mResidualOut, eps: cutlass.Float32, stream: cuda.CUstream):
        launched = self.kernel(mX, mW, mR, mQ, mScale, mResidualOut, eps)
        launched.launch(**self.over(mX.shape[0]), stream=stream)

    @cute.kernel
    def kernel(self, mX, mW, mR, mQ, mScale, mResidualOut, eps: cutlass.Float32):
        tile, M = self.tile, mX.shape[0]
        block, _, _ = cute.arch.block_idx()
        place = tile.place(mX, block * tile.rows_per_block)
        opened = self.exchange.allocate_and_arrive()
        # read MN elements (2 MN with a residual)
        arriving = self.pipeline.start((mX,), place)
        self.pipeline.wait(arriving)
        _, h = self.load(mX, mR, arriving, place)
        # Now: before the row they would take more registers, and fewer blocks would fit.
        tXrW = self.weights.load(mW, place, M)
        if cutlass.const_expr(mResidualOut is not None):  # write MN elements
            tXrResidualOut = cute.make_rmem_tensor(tile.elements_held, mResidualOut.element_type)
            tXrResidualOut.store(h.to(mResidualOut.element_type))
            tile.store(tXrResidualOut, mResidualOut, place)
        variance = self.row_sum(h * h, opened, 0) * (1.0 / tile.N)
        rstd = cute.math.rsqrt(variance + eps)
        if cutlass.const_expr(self.dtype.width == 32 and mR is not None):
            rstd = corrected(rstd, variance + eps)
        if cutlass.const_expr(self.pipeline.stages > 0):
            # From shared memory again, so that the row did not have to stay in registers meanwhile.
            _, h = self.load(mX, mR, arriving, place)
        y = h * rstd
        if cutlass.const_expr(mW is not None):
            y *= tXrW.load().to(cutlass.Float32)
        tXrY = cute.make_rmem_tensor(tile.elements_held, cutlass.Float32)
        tXrY.store(y)
        self.divide(tXrY, mScale, place, opened)
        # write MN bytes
        tXrQ = cute.make_rmem_tensor(tile.elements_held, cutlass.Float8E4M3FN)
        tXrQ.store(tXrY.load().to(cutlass.Float8E4M3FN))
        tile.store(cute.recast_tensor(tXrQ, cutlass.Uint8), mQ, place)

    @cute.jit
    def divide(self, tXrY: cute.Tensor, mScale: cute.Tensor, place, opened):
        """Divide this thread's part of y by the row's scale, and write that."""
        largest = warp_reduce(largest_magnitude(tXrY.load()), larger, min(self.tile.threads_per_row, 32))
        (largest,) = self.exchange.row_sums((largest,), opened, 1, larger)
        scale, inverse = scale_of(largest)
        if self.tile.is_first(place):
            mScale[place.row] = scale
        tXrY.store(tXrY.load() * inverse)


class BlockTile(RowTile):
    """Rows whose blocks of 128 columns lie in one piece each."""

    columns_together = SCALE_COLUMNS


class RMSNormQuantizedBlocks(RMSNormQuantized):
    """As `RMSNormQuantized`, with a scale for each block of 128 columns: N must be a multiple, rows aligned."""

    operation, tile_type = "rmsnorm-quantized blocks", BlockTile

    def __init__(self, dtype, N, promise="aligned", **given):
        if N % SCALE_COLUMNS or promise != "aligned":
            raise ValueError(
                f"blocks of {SCALE_COLUMNS} columns: N must be a multiple, of aligned rows, got {N}, {promise}"
            )
        super().__init__(dtype, N, promise, **given)
        self.lanes = SCALE_COLUMNS // self.tile.vector_size  # that have a block
        if self.config.threads_per_row < self.lanes:
            self.config.refuse(
                f"{self.lanes} threads have a block of {SCALE_COLUMNS} columns, so threads_per_row must be no less"
            )

    @cute.jit
    def divide(self, tXrY: cute.Tensor, mScale: cute.Tensor, place, opened):
        """Divide this thread's part of y by the scales of the blocks that it lies in, and write those."""
        tile = self.tile
        size = tile.vector_size
        for i in cutlass.range_constexpr(tile.vectors):
            vector = cute.make_tensor(tXrY.iterator + i * size, cute.make_layout(size))
            scale, inverse = scale_of(warp_reduce(largest_magnitude(vector.load()), larger, self.lanes))
            first, inside = place.thread_in_row % self.lanes == 0, tile.inside(i, place)
            if place.exists & inside & first:
                column = place.piece * tile.width + (i * tile.threads_per_row + place.thread_in_row) * size
                mScale[place.row, column // SCALE_COLUMNS] = scale
            vector.store(vector.load() * inverse)
