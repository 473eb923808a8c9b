"""The gradients of LayerNorm: dx = rstd (w dy - mean(w dy) - xhat mean(w dy xhat)), dw = sum of dy xhat, db = sum of dy, with
xhat = (x - mean) rstd.

No chapter has them: they are RMSNorm's (chapter 7, `rmsnorm_backward`) with a second sum a row, and the two sums travel together. A
block goes through rows and adds up its part of dw and db in registers (`norm_backward`).

| kernel                       | a row, until its sums are known                | the next row meanwhile                |
|------------------------------|------------------------------------------------|---------------------------------------|
| `LayerNormBackwardRegisters` | stays in registers                             | in registers, or not yet asked for    |
| `LayerNormBackwardStages`    | stays in shared memory and is read again       | in another stage, if there is another |

`layernorm_backward` picks one by the configuration. All compute in float32. Rows of up to 262144 elements.

| argument         | shape      | holds                                      | type                           |
|------------------|------------|--------------------------------------------|--------------------------------|
| mX, mDO, mDX     | (M, N)     | x, dy, dx                                  | `dtype`                        |
| mW               | (N,)       | w                                          | `weight_dtype`; None without one |
| mMean, mRstd     | (M,)       | mean, rstd, from the forward kernel        | float32                        |
| mDWPart, mDBPart | (parts, N) | dw, db in parts, which `ColumnSum` adds up | float32; None if not asked for |
"""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.tuned.choice import default_config
from quack_tutorial.kernels.tuned.config import with_room
from quack_tutorial.kernels.tuned.norm_backward import NormBackward, number_of, times_weight


def layernorm_backward(dtype, N, promise="aligned", weight_dtype=None, config=None):
    """The kernel for such rows; `weight_dtype` is the weight's type, None where there is none."""
    config = config or default_config("layernorm backward", dtype.width, N, promise)
    config = with_room(config, dtype.width, N, promise)
    return (LayerNormBackwardStages if config.stages else LayerNormBackwardRegisters)(
        dtype, N, promise, weight_dtype, config
    )


class LayerNormBackward(NormBackward):
    """What both kernels share: their launch, and the arithmetic of a row."""

    def __init__(self, dtype, N, promise, weight_dtype, config):
        # With a single stage no registers are left for weights.
        super().__init__(dtype, N, promise, weight_dtype, config, values=2, keeps_weights=config.stages == 1)

    @cute.jit
    def __call__(self, mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart, stream: cuda.CUstream):
        self.kernel(mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart).launch(
            grid=self.grid(mX, mDWPart, mDBPart),
            block=[self.config.threads_per_block, 1, 1],
            cluster=self.config.cluster,
            stream=stream,
        )

    def factors(self, tXrX, tXrDO, tXrW, mean, rstd):
        """xhat, dy and w dy in float32."""
        xhat, dy = (tXrX.load().to(cutlass.Float32) - mean) * rstd, tXrDO.load().to(cutlass.Float32)
        return xhat, dy, times_weight(dy, tXrW)

    @cute.jit
    def means_of(self, wdy, xhat, opened, turn):
        """The means over a row of w dy and of w dy xhat. Outside the row dy is 0, and so are the terms of both."""
        total, dot = self.tile.warp_sum(wdy), self.tile.warp_sum(wdy * xhat)
        total, dot = self.exchange.row_sums((total, dot), opened, turn)
        return total * (1.0 / self.tile.N), dot * (1.0 / self.tile.N)


class LayerNormBackwardRegisters(LayerNormBackward):
    """Rows come to registers: the next one while one is worked on, if `row_ahead` of the configuration says so."""

    @cute.kernel
    def kernel(self, mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart):
        tile, row_ahead = self.tile, self.config.row_ahead > 0
        share, opened = self.share_of(mX.shape[0]), self.exchange.allocate_and_arrive()
        place = self.place(mX, share, 0)
        tXrW = self.weights_of(mW, place, mX.shape[0])
        next_mean, next_rstd = cutlass.Float32(0.0), cutlass.Float32(0.0)
        if cutlass.const_expr(row_ahead):
            next_x = cute.make_rmem_tensor(tile.elements_held, self.dtype)
            next_dy = cute.make_rmem_tensor(tile.elements_held, mDO.element_type)
            if share.turns > 0:
                next_x.store(self.tile.load(mX, place).load())
                next_dy.store(self.tile.load(mDO, place).load())
            next_mean, next_rstd = number_of(mMean, place), number_of(mRstd, place)
        sums = self.empty_sums(mDWPart, mDBPart)
        self.exchange.wait_for_peers()

        for turn in range(share.turns):
            place = self.place(mX, share, turn)
            # read 2 MN elements
            mean, rstd = next_mean, next_rstd
            if cutlass.const_expr(row_ahead):
                following = self.place(mX, share, turn + 1)
                next_mean, next_rstd = number_of(mMean, following), number_of(mRstd, following)
                xhat, dy, wdy = self.factors(next_x, next_dy, tXrW, mean, rstd)
                if turn + 1 < share.turns:
                    next_x.store(self.tile.load(mX, following).load())
                    next_dy.store(self.tile.load(mDO, following).load())
            else:
                mean, rstd = number_of(mMean, place), number_of(mRstd, place)
                xhat, dy, wdy = self.factors(self.tile.load(mX, place), self.tile.load(mDO, place), tXrW, mean, rstd)
            offset, slope = self.means_of(wdy, xhat, opened, turn)
            # write MN elements
            tXrDX = cute.make_rmem_tensor(self.tile.elements_held, self.dtype)
            tXrDX.store(((wdy - offset - xhat * slope) * rstd).to(self.dtype))
            self.tile.store(tXrDX, mDX, place)
            self.add(sums, dy, xhat)

        self.write_parts(sums, mDWPart, mDBPart, share.part, place)


class LayerNormBackwardStages(LayerNormBackward):
    """Bulk copies bring rows to stages in shared memory, from where each is read twice: dw and db take the registers."""

    @cute.kernel
    def kernel(self, mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart):
        pipeline = self.pipeline
        share, opened = self.share_of(mX.shape[0]), self.exchange.allocate_and_arrive()
        place = self.place(mX, share, 0)
        arriving = pipeline.open(place)
        pipeline.fetch_singles(arriving, (mX, mDO), place)
        for turn in cutlass.range_constexpr(pipeline.ahead):
            if turn < share.turns:
                self.fetch(arriving, mX, mDO, share, place, turn)
        weights = self.weights_of(mW, place, mX.shape[0])
        next_mean, next_rstd = cutlass.Float32(0.0), cutlass.Float32(0.0)
        if cutlass.const_expr(self.rstd_ahead):
            next_mean, next_rstd = number_of(mMean, place), number_of(mRstd, place)
        sums = self.empty_sums(mDWPart, mDBPart)
        self.exchange.wait_for_peers()

        for turn in range(share.turns):
            place = self.place(mX, share, turn)
            # read 2 MN elements
            mean, rstd = next_mean, next_rstd
            if cutlass.const_expr(self.rstd_ahead):
                following = self.place(mX, share, turn + 1)
                next_mean, next_rstd = number_of(mMean, following), number_of(mRstd, following)
            else:
                mean, rstd = number_of(mMean, place), number_of(mRstd, place)
            self.pipeline.fetch_singles(arriving, (mX, mDO), self.place(mX, share, turn + 1))
            self.pipeline.wait(arriving, turn)
            tXrX, tXrDO = (self.pipeline.load(arriving, k, place, turn) for k in (0, 1))
            xhat, _, wdy = self.factors(tXrX, tXrDO, self.weight_of(weights, place), mean, rstd)
            offset, slope = self.means_of(wdy, xhat, opened, turn)
            if cutlass.const_expr(self.pipeline.stages > 1):
                # All warps of the row are here, so all have read turn - 1: its stage is free.
                self.wait_for_free_stage()
                ahead = turn + self.pipeline.ahead
                if ahead < share.turns:
                    self.fetch(arriving, mX, mDO, share, place, ahead)
            # From shared memory again, so that the row does not have to stay in registers meanwhile.
            tXrX, tXrDO = (self.pipeline.load(arriving, k, place, turn) for k in (0, 1))
            # write MN elements, one vector of the row after the other, so that few numbers need registers
            tXrDX, tXrW = cute.make_rmem_tensor(self.tile.elements_held, self.dtype), self.weight_of(weights, place)
            for i in cutlass.range_constexpr(self.tile.vectors + (self.tile.singles > 0)):
                xhat, dy, wdy = self.factors(*(self.part(tXr, i) for tXr in (tXrX, tXrDO, tXrW)), mean, rstd)
                self.part(tXrDX, i).store(((wdy - offset - xhat * slope) * rstd).to(self.dtype))
                self.store_part(tXrDX, mDX, i, place)
                self.add(self.part(sums, i), dy, xhat)
            if cutlass.const_expr(self.pipeline.stages == 1):
                cute.arch.barrier()  # all threads are done with the row, and its place is free
                if turn + 1 < share.turns:
                    self.fetch(arriving, mX, mDO, share, place, turn + 1)

        self.write_parts(sums, mDWPart, mDBPart, share.part, place, arriving)
