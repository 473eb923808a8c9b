"""RMSNorm of each row of an (M, N) tensor, y = h / sqrt(mean(h^2) + eps) * w + b, with h = x or x + residual.

Chapter 7 climbs to it without bias and residual (`RMSNormAnyAddress` and `RMSNormWeightsOnce` make it with the sizes of the rungs).
x is read once, and the residual if there is one; y is written, and if asked for h and rstd = 1 / sqrt(mean(h^2) + eps), one number
a row, from which `norm_backward` makes the gradients. All is computed in float32. Rows of up to 262144 elements.

| argument | shape  | holds           | type                           |
|----------|--------|-----------------|--------------------------------|
| mX, mO   | (M, N) | x, y            | `dtype`                        |
| mR       | (M, N) | the residual    | `residual`; None without one   |
| mResidualOut      | (M, N) | h               | any; None if not asked for     |
| mW, mB   | (N,)   | w, b            | any; None without one          |
| mRstd    | (M,)   | rstd            | float32; None if not asked for |
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


class RMSNorm:
    """RMSNorm that reads each row once. `residual` is its type, None where there is none; which of the other tensors there are, the
    kernel asks its tensors."""

    def __init__(self, dtype, N, promise="aligned", residual=None, config=None):
        self.dtype, self.N, self.promise = dtype, N, promise
        self.config = config or sizes("rmsnorm residual" if residual else "rmsnorm", dtype.width, N, promise)
        self.tile = RowTile(dtype, N, promise, self.config, allows_rows_each=True)
        self.exchange = RowExchange(self.config)
        # The row comes through shared memory if `stages` says so; a residual too, if it has its type.
        tensors = 2 if residual is dtype else 1
        self.pipeline = RowPipeline(dtype, self.tile, tensors, stages=self.config.stages)

    @cute.jit
    def __call__(self, mX, mW, mB, mR, mO, mResidualOut, mRstd, eps: cutlass.Float32, stream: cuda.CUstream):
        self.kernel(mX, mW, mB, mR, mO, mResidualOut, mRstd, eps).launch(
            grid=self.tile.grid(mX.shape[0]),
            block=[self.config.threads_per_block, 1, 1],
            cluster=self.config.cluster,
            stream=stream,
        )

    @cute.kernel
    def kernel(self, mX, mW, mB, mR, mO, mResidualOut, mRstd, eps: cutlass.Float32):
        tile, exchange, pipeline, M = self.tile, self.exchange, self.pipeline, mX.shape[0]
        block, _, _ = cute.arch.block_idx()
        places = tile.places(mX, block)
        opened, place = exchange.allocate_and_arrive(), places[0]
        # read MN elements (2 MN with a residual), and the weights meanwhile
        arriving = pipeline.start((mX, mR), place)
        weights = weights_before_row(tile, (mW, mB), place, M)
        pipeline.wait(arriving)
        loaded = [self.load(mX, mR, arriving, at) for at in places]
        tXrW, tXrB = weights_after_row(tile, (mW, mB), place, M, weights)
        # All rows' sums before the first result: the next row's sum would wait for its stores.
        rstds = []
        for k in cutlass.range_constexpr(tile.rows_each):
            place, (_, h) = places[k], loaded[k]
            if cutlass.const_expr(mResidualOut is not None):  # write MN elements
                tXrResidualOut = cute.make_rmem_tensor(tile.elements_held, mResidualOut.element_type)
                tXrResidualOut.store(h.to(mResidualOut.element_type))
                tile.store(tXrResidualOut, mResidualOut, place)
            squares_warp = tile.warp_sum(h * h)
            exchange.wait_for_peers()  # nothing to wait for where a thread has several rows: one warp has each
            squares = exchange.row_sum(squares_warp, opened)
            rstd = cute.math.rsqrt(squares * (1.0 / tile.N) + eps)
            if cutlass.const_expr(self.dtype.width == 32 and (mR is not None or mB is not None)):
                rstd = corrected(rstd, squares * (1.0 / tile.N) + eps)
            if cutlass.const_expr(mRstd is not None):
                if tile.is_first(place):
                    mRstd[place.row] = rstd
            rstds.append(rstd)

        for k in cutlass.range_constexpr(tile.rows_each):
            place, (tXrX, h), rstd = places[k], loaded[k], rstds[k]
            if cutlass.const_expr(pipeline.stages > 0):
                # From shared memory again, so that the row did not have to stay in registers meanwhile.
                tXrX, h = self.load(mX, mR, arriving, place)
            y = h * rstd
            if cutlass.const_expr(mW is not None):
                y *= tXrW.load().to(cutlass.Float32)
            if cutlass.const_expr(mB is not None):
                y += tXrB.load().to(cutlass.Float32)
            # write MN elements
            tXrX.store(y.to(self.dtype))
            tile.store(tXrX, mO, place)

    @cute.jit
    def load(self, mX, mR, arriving, place):
        """This thread's part of its row of x, as registers to be used again, and of h = x + residual, in float32."""
        tXrX = self.pipeline.take(arriving, 0, mX, place)
        h = tXrX.load().to(cutlass.Float32)
        if cutlass.const_expr(mR is not None):
            h += self.pipeline.take(arriving, 1, mR, place).load().to(cutlass.Float32)
        return tXrX, h
