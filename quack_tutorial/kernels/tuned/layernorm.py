"""LayerNorm of each row of an (M, N) tensor, y = (x - mean) / sqrt(var + eps) * w + b.

It is RMSNorm (chapter 7, `rmsnorm.py`) with a second sum a row: about the mean, so after it, and a row's warps agree twice. x is
read once; y is written, and if asked for mean and rstd = 1 / sqrt(mean((x - mean)^2) + eps), one number a row each, from which
`norm_backward` makes the gradients. All is computed in float32. Rows of up to 262144 elements.

| argument     | shape  | holds      | type                                |
|--------------|--------|------------|-------------------------------------|
| mX, mO       | (M, N) | x, y       | `dtype`                             |
| mW, mB       | (N,)   | w, b       | any; None without one               |
| mMean, mRstd | (M,)   | mean, rstd | float32; both None if not asked for |
"""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.tuned.arithmetic import corrected
from quack_tutorial.kernels.tuned.row_exchange import RowExchange
from quack_tutorial.kernels.tuned.row_pipeline import RowPipeline
from quack_tutorial.kernels.tuned.row_tile import RowTile
from quack_tutorial.kernels.tuned.row_weights import weights_after_row, weights_before_row
from quack_tutorial.kernels.tuned.rule import sizes


class LayerNorm:
    """LayerNorm that reads each row once. Which of weight, bias, mean and rstd there are, the kernel asks its tensors."""

    def __init__(self, dtype, N, promise="aligned", config=None):
        self.dtype, self.N, self.promise = dtype, N, promise
        self.config = config or sizes("layernorm", dtype.width, N, promise)
        self.tile = RowTile(dtype, N, promise, self.config, allows_rows_each=True)
        self.exchange = RowExchange(self.config, sets=2)  # of the mean, and of the variance
        self.pipeline = RowPipeline(dtype, self.tile, tensors=1, stages=self.config.stages)

    @cute.jit
    def __call__(self, mX, mW, mB, mO, mMean, mRstd, eps: cutlass.Float32, stream: cuda.CUstream):
        self.kernel(mX, mW, mB, mO, mMean, mRstd, eps).launch(
            grid=self.tile.grid(mX.shape[0]),
            block=[self.config.threads_per_block, 1, 1],
            cluster=self.config.cluster,
            stream=stream,
        )

    @cute.kernel
    def kernel(self, mX, mW, mB, mO, mMean, mRstd, eps: cutlass.Float32):
        tile, exchange, pipeline, M = self.tile, self.exchange, self.pipeline, mX.shape[0]
        block, _, _ = cute.arch.block_idx()
        places = tile.places(mX, block)
        opened, place = exchange.allocate_and_arrive(), places[0]
        # read MN elements, and the weights meanwhile
        arriving = pipeline.start((mX,), place)
        weights = weights_before_row(tile, (mW, mB), place, M)
        pipeline.wait(arriving)
        loaded = [pipeline.take(arriving, 0, mX, at) for at in places]
        tXrW, tXrB = weights_after_row(tile, (mW, mB), place, M, weights)
        # All rows' sums before the first result: the next row's sum would wait for its stores.
        stats = []
        for k in cutlass.range_constexpr(tile.rows_each):
            place, tXrX = places[k], loaded[k]
            total = tile.warp_sum(tXrX.load().to(cutlass.Float32))
            exchange.wait_for_peers()
            mean = mean_of(exchange.row_sum(total, opened, 0), tile.N)
            if cutlass.const_expr(pipeline.stages > 0):
                # From shared memory again, so that the row did not have to stay in registers meanwhile.
                tXrX = pipeline.take(arriving, 0, mX, place)
            tXrD = cute.make_rmem_tensor(tile.elements_held, cutlass.Float32)
            tXrD.store(tXrX.load().to(cutlass.Float32) - mean)
            clear_outside(tile, tXrD, place)  # where x is filled with 0, which is no element at a distance of the mean
            distances = tXrD.load()
            squares = exchange.row_sum(tile.warp_sum(distances * distances), opened, 1)
            variance = squares * (1.0 / tile.N)
            rstd = cute.math.rsqrt(variance + eps)
            if cutlass.const_expr(self.dtype.width == 32 and mB is not None):
                rstd = corrected(rstd, variance + eps)
            if cutlass.const_expr(mMean is not None):
                if tile.is_first(place):
                    mMean[place.row] = mean
                    mRstd[place.row] = rstd
            stats.append((mean, rstd))

        for k in cutlass.range_constexpr(tile.rows_each):
            place, tXrX, (mean, rstd) = places[k], loaded[k], stats[k]
            if cutlass.const_expr(pipeline.stages > 0):
                tXrX = pipeline.take(arriving, 0, mX, place)
            y = (tXrX.load().to(cutlass.Float32) - mean) * rstd
            if cutlass.const_expr(mW is not None):
                y *= tXrW.load().to(cutlass.Float32)
            if cutlass.const_expr(mB is not None):
                y += tXrB.load().to(cutlass.Float32)
            # write MN elements
            tXrX.store(y.to(self.dtype))
            tile.store(tXrX, mO, place)


@cute.jit
def clear_outside(tile: cutlass.Constexpr, rX: cute.Tensor, place):
    """Set the values of this thread that its row does not have to 0, whatever was made of what `RowTile.load` fills them with."""
    for i in cutlass.range_constexpr(tile.certain, tile.vectors):
        inside = tile.inside(i, place, False, False)
        for k in cutlass.range_constexpr(i * tile.vector_size, (i + 1) * tile.vector_size):
            kept = rX.element_type(0.0)
            if inside:
                kept = rX[k]
            rX[k] = kept
    for k in cutlass.range_constexpr(tile.singles):
        col, kept = tile.single_column(k, place), rX.element_type(0.0)
        if place.piece == 0 and col < tile.N:
            kept = rX[tile.vectors * tile.vector_size + k]
        rX[tile.vectors * tile.vector_size + k] = kept


@cute.jit
def mean_of(total, N: cutlass.Constexpr):
    """total / N, rounded: folded into x - mean it would not be, in some kernels and not in others."""
    mean = total * (1.0 / N)
    if cutlass.const_expr(N & (N - 1) != 0):  # else it is exact
        mean = cute.arch.shuffle_sync_bfly(mean, 0)  # its own number, and nothing is folded across a shuffle
    return mean
