"""The gradients of RMSNorm: dx = rstd (w dy - xhat mean(w dy xhat)) with xhat = rstd h, dw = sum of dy xhat, db = sum of dy.

Chapter 7 climbs to `RMSNormBackwardStages`. Three kernels do one job: a block goes through rows and adds up its part of dw and db
in registers (`norm_backward`). They differ in where the next row is while one is worked on:

| kernel                     | the next row                               | rows                                              |
|----------------------------|--------------------------------------------|---------------------------------------------------|
| `RMSNormBackwardRegisters` | in registers, or not yet asked for         | those that leave registers free                   |
| `RMSNormBackwardStages`    | in another stage, in shared memory         | longer ones; short ones, several in a stage       |
| `RMSNormBackwardOneStage`  | in the only stage, which the row has left  | the longest: shared memory holds one row of x, dy |

`rmsnorm_backward` picks one by the configuration. All compute in float32. Rows of up to 262144 elements.

| argument         | shape      | holds                                          | type                           |
|------------------|------------|------------------------------------------------|--------------------------------|
| mX               | (M, N)     | h, which is x + residual, and x without one    | `dtype`                        |
| mW               | (N,)       | w                                              | `weight_dtype`; None without one |
| mDO              | (M, N)     | dy                                             | `dtype`                        |
| mDResidualOut             | (M, N)     | the gradient that h gets directly              | any; None without one          |
| mRstd            | (M,)       | rstd, from the forward kernel                  | float32                        |
| mDX              | (M, N)     | dx, the gradient of x and of the residual      | `dtype`                        |
| mDWPart, mDBPart | (parts, N) | dw, db in parts, which `ColumnSum` adds up     | float32; None if not asked for |
"""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.tuned.choice import default_config
from quack_tutorial.kernels.tuned.config import with_room
from quack_tutorial.kernels.tuned.norm_backward import NormBackward, number_of, times_weight


def rmsnorm_backward(dtype, N, promise="aligned", weight_dtype=None, config=None):
    """The kernel for such rows; `weight_dtype` is the weight's type, None where there is none."""
    config = config or default_config("rmsnorm backward", dtype.width, N, promise)
    config = with_room(config, dtype.width, N, promise)
    kernels = {0: RMSNormBackwardRegisters, 1: RMSNormBackwardOneStage}
    return kernels.get(config.stages, RMSNormBackwardStages)(dtype, N, promise, weight_dtype, config)


class RMSNormBackward(NormBackward):
    """What the three kernels share: their launch, and the arithmetic of a row."""

    @cute.jit
    def __call__(self, mX, mW, mDO, mDResidualOut, mRstd, mDX, mDWPart, mDBPart, stream: cuda.CUstream):
        self.kernel(mX, mW, mDO, mDResidualOut, mRstd, mDX, mDWPart, mDBPart).launch(
            grid=self.grid(mX, mDWPart, mDBPart),
            block=[self.config.threads_per_block, 1, 1],
            cluster=self.config.cluster,
            stream=stream,
        )

    def factors(self, tXrX, tXrDO, tXrW, rstd):
        """xhat, dy and w dy in float32."""
        xhat, dy = tXrX.load().to(cutlass.Float32) * rstd, tXrDO.load().to(cutlass.Float32)
        return xhat, dy, times_weight(dy, tXrW)

    @cute.jit
    def mean_of(self, products, opened, turn):
        """The mean over a row of what its threads have a part of each: of w dy xhat."""
        dot = self.exchange.row_sum(self.tile.warp_sum(products), opened, turn)
        return dot * (1.0 / self.tile.N)

    @cute.jit
    def write_row(self, dx, mDResidualOut, mDX, place):
        """Write a row's dx, with the gradient that h gets directly."""
        if cutlass.const_expr(mDResidualOut is not None):
            dx += self.tile.load(mDResidualOut, place).load().to(cutlass.Float32)
        tXrDX = cute.make_rmem_tensor(self.tile.elements_held, self.dtype)
        tXrDX.store(dx.to(self.dtype))
        self.tile.store(tXrDX, mDX, place)


class RMSNormBackwardRegisters(RMSNormBackward):
    """Rows come to registers: the next one while one is worked on, if `row_ahead` of the configuration says so."""

    @cute.kernel
    def kernel(self, mX, mW, mDO, mDResidualOut, mRstd, mDX, mDWPart, mDBPart):
        tile, exchange, row_ahead = self.tile, self.exchange, self.config.row_ahead > 0
        share, opened = self.share_of(mX.shape[0]), exchange.allocate_and_arrive()
        place = self.place(mX, share, 0)
        tXrW = self.weights_of(mW, place, mX.shape[0])
        next_rstd = cutlass.Float32(0.0)
        if cutlass.const_expr(row_ahead):
            next_x = cute.make_rmem_tensor(tile.elements_held, self.dtype)
            next_dy = cute.make_rmem_tensor(tile.elements_held, mDO.element_type)
            if share.turns > 0:
                next_x.store(self.tile.load(mX, place).load())
                next_dy.store(self.tile.load(mDO, place).load())
                next_rstd = number_of(mRstd, place)
        sums = self.empty_sums(mDWPart, mDBPart)
        exchange.wait_for_peers()

        for turn in range(share.turns):
            place = self.place(mX, share, turn)
            # read 2 MN elements (3 MN with a gradient of h)
            if cutlass.const_expr(row_ahead):
                rstd = next_rstd
                xhat, dy, wdy = self.factors(next_x, next_dy, tXrW, rstd)
                if turn + 1 < share.turns:
                    following = self.place(mX, share, turn + 1)
                    next_x.store(self.tile.load(mX, following).load())
                    next_dy.store(self.tile.load(mDO, following).load())
                    next_rstd = number_of(mRstd, following)
            else:
                rstd = number_of(mRstd, place)
                xhat, dy, wdy = self.factors(self.tile.load(mX, place), self.tile.load(mDO, place), tXrW, rstd)
            mean = self.mean_of(wdy * xhat, opened, turn)
            # write MN elements
            self.write_row((wdy - xhat * mean) * rstd, mDResidualOut, mDX, place)
            self.add(sums, dy, xhat)

        self.write_parts(sums, mDWPart, mDBPart, share.part, place)


class RMSNormBackwardStages(RMSNormBackward):
    """Bulk copies bring the next rows to stages in shared memory, from where each row is read twice: before its mean is known and
    after, so that it does not have to stay in registers meanwhile."""

    @cute.kernel
    def kernel(self, mX, mW, mDO, mDResidualOut, mRstd, mDX, mDWPart, mDBPart):
        exchange, pipeline = self.exchange, self.pipeline
        share, opened = self.share_of(mX.shape[0]), exchange.allocate_and_arrive()
        place = self.place(mX, share, 0)
        arriving = pipeline.open(place)
        pipeline.fetch_singles(arriving, (mX, mDO), place)
        for turn in cutlass.range_constexpr(pipeline.ahead):
            if turn < share.turns:
                self.fetch(arriving, mX, mDO, share, place, turn)
        tXrW = self.weights_of(mW, place, mX.shape[0])
        next_rstd = cutlass.Float32(0.0)
        if cutlass.const_expr(self.rstd_ahead):
            next_rstd = number_of(mRstd, place)
        sums = self.empty_sums(mDWPart, mDBPart)
        exchange.wait_for_peers()

        for turn in range(share.turns):
            place = self.place(mX, share, turn)
            # read 2 MN elements (3 MN with a gradient of h)
            if cutlass.const_expr(self.rstd_ahead):
                rstd = next_rstd
                next_rstd = number_of(mRstd, self.place(mX, share, turn + 1))
            else:
                rstd = number_of(mRstd, place)
            self.pipeline.fetch_singles(arriving, (mX, mDO), self.place(mX, share, turn + 1))
            self.pipeline.wait(arriving, turn)
            tXrX, tXrDO = (self.pipeline.load(arriving, k, place, turn) for k in (0, 1))
            xhat, dy, wdy = self.factors(tXrX, tXrDO, tXrW, rstd)
            mean = self.mean_of(wdy * xhat, opened, turn)
            # All warps of the row are here, so all have read turn - 1: its stage is free.
            self.wait_for_free_stage()
            ahead = turn + self.pipeline.ahead
            if ahead < share.turns:
                self.fetch(arriving, mX, mDO, share, place, ahead)
            # From shared memory again.
            tXrX, tXrDO = (self.pipeline.load(arriving, k, place, turn) for k in (0, 1))
            # write MN elements
            if cutlass.const_expr(self.tile.has_head):
                self.finish_by_vectors(tXrX, tXrDO, tXrW, sums, mDResidualOut, mDX, place, rstd, mean)
            else:
                xhat, dy, wdy = self.factors(tXrX, tXrDO, tXrW, rstd)
                self.write_row((wdy - xhat * mean) * rstd, mDResidualOut, mDX, place)
                self.add(sums, dy, xhat)

        self.write_parts(sums, mDWPart, mDBPart, share.part, place, arriving)

    @cute.jit
    def finish_by_vectors(self, tXrX, tXrDO, tXrW, sums, mDResidualOut, mDX, place, rstd, mean):
        """Write a turn's dx and add to the sums, one vector of the row after the other. Rows that start anywhere take most
        registers, and so few numbers need any at once."""
        tXrDX, tXrDResidualOut = cute.make_rmem_tensor(self.tile.elements_held, self.dtype), None
        if cutlass.const_expr(mDResidualOut is not None):
            tXrDResidualOut = cute.make_rmem_tensor(self.tile.elements_held, mDResidualOut.element_type)
            tXrDResidualOut.fill(0.0)
        # The vectors, then the single elements: rows that start anywhere always have some.
        for i in cutlass.range_constexpr(self.tile.vectors + 1):
            xhat, dy, wdy = self.factors(*(self.part(tXr, i) for tXr in (tXrX, tXrDO, tXrW)), rstd)
            dx = (wdy - xhat * mean) * rstd
            if cutlass.const_expr(mDResidualOut is not None):
                self.load_part(tXrDResidualOut, mDResidualOut, i, place)
                dx += self.part(tXrDResidualOut, i).load().to(cutlass.Float32)
            self.part(tXrDX, i).store(dx.to(self.dtype))
            self.store_part(tXrDX, mDX, i, place)
            self.add(self.part(sums, i), dy, xhat)


class RMSNormBackwardOneStage(RMSNormBackward):
    """A row leaves the only stage for registers at once, and the next one comes there while the sums meet.

    No register is left for weights: these stay in shared memory. dw and db are added up before the sums meet, so that neither dy
    nor the weights are needed after.
    """

    def __init__(self, dtype, N, promise, weight_dtype, config):
        super().__init__(dtype, N, promise, weight_dtype, config, keeps_weights=True)

    @cute.kernel
    def kernel(self, mX, mW, mDO, mDResidualOut, mRstd, mDX, mDWPart, mDBPart):
        exchange, pipeline = self.exchange, self.pipeline
        share, opened = self.share_of(mX.shape[0]), exchange.allocate_and_arrive()
        place = self.place(mX, share, 0)
        arriving = pipeline.open(place)
        if share.turns > 0:
            self.fetch(arriving, mX, mDO, share, place, 0)
        weights = self.weights_of(mW, place, mX.shape[0])
        sums = self.empty_sums(mDWPart, mDBPart)
        exchange.wait_for_peers()

        for turn in range(share.turns):
            place = self.place(mX, share, turn)
            # read 2 MN elements (3 MN with a gradient of h)
            rstd = number_of(mRstd, place)
            self.pipeline.wait(arriving, turn)
            tXrX, tXrDO = (self.pipeline.load(arriving, k, place, turn) for k in (0, 1))
            cute.arch.barrier()  # all threads have their part of the row, and its place is free
            if turn + 1 < share.turns:
                self.fetch(arriving, mX, mDO, share, place, turn + 1)
            xhat, dy, wdy = self.factors(tXrX, tXrDO, self.weight_of(weights, place), rstd)
            self.add(sums, dy, xhat)
            mean = self.mean_of(wdy * xhat, opened, turn)
            # write MN elements
            self.write_row((wdy - xhat * mean) * rstd, mDResidualOut, mDX, place)

        self.write_parts(sums, mDWPart, mDBPart, share.part, place, arriving)
