"""The norms of each row of an (M, N) tensor as they ship, with h = x, or x + residual in RMSNorm:

    RMSNorm      y = h / sqrt(mean(h^2) + eps) * w + b
    LayerNorm    y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * w + b

Chapter 7 climbs to RMSNorm without bias and residual. LayerNorm has a second sum a row: about the mean, so after it, and a row's
warps agree twice. From the mean and rstd, 1 over the root, `norm_backward` makes the gradients. All is computed in float32.

| argument     | shape  | holds        | type                           |
|--------------|--------|--------------|--------------------------------|
| mX, mO       | (M, N) | x, y         | `dtype`                        |
| mR           | (M, N) | the residual | `residual`; None without one   |
| mResidualOut | (M, N) | h            | any; None if not asked for     |
| mW, mB       | (N,)   | w, b         | any; None without one          |
| mMean, mRstd | (M,)   | mean, rstd   | float32; None if not asked for |
"""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.arithmetic import corrected
from quack_tutorial.kernels.tuned.row_exchange import RowExchange
from quack_tutorial.kernels.tuned.row_pipeline import RowPipeline
from quack_tutorial.kernels.tuned.row_tile import RowKernel
from quack_tutorial.kernels.tuned.row_weights import RowWeights


class Norm(RowKernel):
    """What both share: all but their launch. `centred` says that the mean is taken off, as in LayerNorm. Which of the tensors
    there are, the kernel asks its arguments."""

    allows_rows_each, centred = True, False

    def __init__(self, dtype, N, promise="aligned", **given):
        super().__init__(dtype, N, promise, **given)
        self.exchange = RowExchange(self.config, sets=2 if self.centred else 1)
        self.pipeline = RowPipeline(dtype, self.tile, tensors=1, stages=self.config.stages)  # x alone
        self.weights = RowWeights(self.tile)

    def run(self, stream, mX, mW, mO, mRstd, eps, mB=None, mR=None, mResidualOut=None, mMean=None):
        """Launch the kernel."""
        launched = self.kernel(mX, mW, mB, mR, mO, mResidualOut, mMean, mRstd, eps)
        launched.launch(**self.over(mX.shape[0]), stream=stream)

    @cute.kernel
    def kernel(self, mX, mW, mB, mR, mO, mResidualOut, mMean, mRstd, eps: cutlass.Float32):
        tile, pipeline, vectors, M = self.tile, self.pipeline, (mW, mB), mX.shape[0]
        block, _, _ = cute.arch.block_idx()
        places = tile.places(mX, block)
        opened, place = self.exchange.allocate_and_arrive(), places[0]
        # read MN elements (2 MN with a residual), and the weights meanwhile
        arriving = pipeline.start((mX,), place)
        weights = self.weights.before_row(vectors, place, M)
        pipeline.wait(arriving)
        loaded = [self.load(mX, mR, arriving, at) for at in places]
        tXrW, tXrB = self.weights.after_row(vectors, place, M, weights)
        # All rows' sums before the first result: the next row's sum would wait for its stores.
        stats = []
        for k in cutlass.range_constexpr(tile.rows_each):
            place, (_, h), mean = places[k], loaded[k], None
            if cutlass.const_expr(mResidualOut is not None):  # write MN elements
                tXrResidualOut = cute.make_rmem_tensor(tile.elements_held, mResidualOut.element_type)
                tXrResidualOut.store(h.to(mResidualOut.element_type))
                tile.store(tXrResidualOut, mResidualOut, place)
            if cutlass.const_expr(self.centred):
                mean = mean_of(self.row_sum(h, opened, 0), tile.N)
                h = self.centred_at(mean, mX, mR, arriving, place, h)
            variance = self.row_sum(h * h, opened, int(self.centred)) * (1.0 / tile.N)
            rstd = cute.math.rsqrt(variance + eps)
            if cutlass.const_expr(self.dtype.width == 32 and (mR is not None or mB is not None)):
                rstd = corrected(rstd, variance + eps)
            if cutlass.const_expr(mRstd is not None):
                if tile.is_first(place):
                    if cutlass.const_expr(self.centred):
                        mMean[place.row] = mean
                    mRstd[place.row] = rstd
            stats.append((mean, rstd))

        for k in cutlass.range_constexpr(tile.rows_each):
            place, (tXrX, h), (mean, rstd) = places[k], loaded[k], stats[k]
            if cutlass.const_expr(pipeline.stages > 0):
                # From shared memory again, so that the row did not have to stay in registers meanwhile.
                tXrX, h = self.load(mX, mR, arriving, place)
            y = (h - mean if self.centred else h) * rstd
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
        (tXrX,) = self.pipeline.take(arriving, (mX,), place)
        h = tXrX.load().to(cutlass.Float32)
        if cutlass.const_expr(mR is not None):
            h += self.tile.load(mR, place).load().to(cutlass.Float32)
        return tXrX, h

    @cute.jit
    def row_sum(self, values, opened, turn: cutlass.Constexpr):
        """The sum of what the threads have of a row; of one that a warp has, nobody waits for anybody."""
        sum_warp = self.tile.warp_sum(values)
        if cutlass.const_expr(turn == 0):
            self.exchange.wait_for_peers()
        return self.exchange.row_sums((sum_warp,), opened, turn)[0]

    @cute.jit
    def centred_at(self, mean, mX, mR, arriving, place, h):
        """The row less its mean, 0 where a thread has nothing of it."""
        if cutlass.const_expr(self.pipeline.stages > 0):
            _, h = self.load(mX, mR, arriving, place)
        tXrD = cute.make_rmem_tensor(self.tile.elements_held, cutlass.Float32)
        tXrD.store(h - mean)
        clear_outside(self.tile, tXrD, place)  # where x is filled with 0, which is no element at a distance of the mean
        return tXrD.load()


class RMSNorm(Norm):
    """RMSNorm that reads each row once; with a `residual` its sizes are others."""

    def __init__(self, dtype, N, promise="aligned", *, residual=False, **given):
        self.operation = "rmsnorm residual" if residual else "rmsnorm"
        super().__init__(dtype, N, promise, **given)

    @cute.jit
    def __call__(self, mX, mW, mB, mR, mO, mResidualOut, mRstd, eps: cutlass.Float32, stream: cuda.CUstream):
        self.run(stream, mX, mW, mO, mRstd, eps, mB=mB, mR=mR, mResidualOut=mResidualOut)


class LayerNorm(Norm):
    """LayerNorm that reads each row once."""

    operation, centred = "layernorm", True

    @cute.jit
    def __call__(self, mX, mW, mB, mO, mMean, mRstd, eps: cutlass.Float32, stream: cuda.CUstream):
        self.run(stream, mX, mW, mO, mRstd, eps, mB=mB, mMean=mMean)


@cute.jit
def clear_outside(tile: cutlass.Constexpr, rX: cute.Tensor, place):
    """Set the values of this thread that its row does not have to 0, whatever was made of what `RowTile.load` fills them with."""
    size, first_single = tile.vector_size, tile.vectors * tile.vector_size
    for k in cutlass.range_constexpr(tile.certain * size, tile.elements_held):
        kept, inside = rX.element_type(0.0), tile.inside(k // size, place)
        if cutlass.const_expr(k >= first_single):
            inside = place.piece == 0 and tile.single_column(k - first_single, place) < tile.N
        if inside:
            kept = rX[k]
        rX[k] = kept


@cute.jit
def mean_of(total, N: cutlass.Constexpr):
    """total / N, rounded: folded into x - mean it would not be, in some kernels and not in others."""
    mean = total * (1.0 / N)
    if cutlass.const_expr(N & (N - 1) != 0):  # else it is exact
        mean = cute.arch.shuffle_sync_bfly(mean, 0)  # its own number, and nothing is folded across a shuffle
    return mean
