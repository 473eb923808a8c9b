"""LayerNorm of each row of an (M, N) tensor, y = (x - mean) / sqrt(var + eps) * w + b, and its gradient.

| kernel              | reads          | writes                                                                  |
|---------------------|----------------|-------------------------------------------------------------------------|
| `LayerNorm`         | x              | y, and if asked for mean and rstd                                       |
| `LayerNormBackward` | x, dy          | dx, and each block's part of dw and db, which `rmsnorm.ColumnSum` adds up |

mean and rstd = 1 / sqrt(mean((x - mean)^2) + eps) have one number a row; the forward writes them, the backward reads them. Rows lie
in threads, and come to them, as in `rmsnorm.py`. What is added to it is a second sum a row: forward about the mean, after it, so a
row's warps agree twice; backward beside the other, so that both travel together. All compute in float32. Rows of up to 262144
elements.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.reduce import thread_reduce, warp_reduce
from quack_tutorial.kernels.tuned.config import default_config
from quack_tutorial.kernels.tuned.rmsnorm import RMSNormBackward, corrected, rstd_of
from quack_tutorial.kernels.tuned.row_exchange import RowExchange
from quack_tutorial.kernels.tuned.row_pipeline import RowPipeline
from quack_tutorial.kernels.tuned.row_tile import RowTile, rows_of


class LayerNorm:
    """LayerNorm that reads each row once. `weight`, `bias`: their types, None where absent; `stats`: whether mean and rstd are
    written. All three are for who looks at the object: the kernel asks its tensors."""

    def __init__(self, dtype, N, rows="aligned", weight=None, bias=None, stats=False, config=None):
        self.dtype, self.N, self.rows = dtype, N, rows
        self.weight, self.bias, self.stats = weight, bias, stats
        self.config = config or default_config("layernorm", dtype.width, N, rows)
        if self.config.rows_each > 1 and rows != "aligned":
            raise ValueError(f"{self.config}: rows that start anywhere each want the weights elsewhere")
        self.tile = RowTile(dtype, N, rows, self.config, several=True)
        self.exchange = RowExchange(self.config, stages=2)  # of the mean, and of the variance
        self.pipeline = RowPipeline(dtype, self.tile, tensors=1, stages=self.config.in_flight)

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
        tile, exchange, M = self.tile, self.exchange, mX.shape[0]
        block, _, _ = cute.arch.block_idx()
        places = tile.places(mX, block)
        opened, arriving, place = exchange.open(), None, places[0]
        if cutlass.const_expr(self.pipeline.stages > 0):
            arriving = self.pipeline.open(place)
            self.pipeline.fetch(arriving, (mX,), place.row, place, 0)
        # The weights come from L2, on their way before the row has arrived; those that are shifted are waited for: after it.
        tXrW = tXrB = None
        if cutlass.const_expr(mW is not None and not tile.shifts(mW)):
            tXrW = tile.load_weight(mW, place, M)
        if cutlass.const_expr(mB is not None and not tile.shifts(mB)):
            tXrB = tile.load_weight(mB, place, M)

        # read MN elements
        if cutlass.const_expr(self.pipeline.stages > 0):
            self.pipeline.wait(arriving, 0)
        loaded = [self.load(mX, arriving, at) for at in places]
        if cutlass.const_expr(mW is not None and tile.shifts(mW)):
            tXrW = tile.load_weight(mW, place, M)
        if cutlass.const_expr(mB is not None and tile.shifts(mB)):
            tXrB = tile.load_weight(mB, place, M)
        # All rows' sums before the first result: the next row's sum would wait for its stores.
        stats = []
        for k in cutlass.range_constexpr(tile.rows_each):
            place, tXrX = places[k], loaded[k]
            total = warp_sum(self.tile, tXrX.load().to(cutlass.Float32))
            exchange.ready()
            mean = mean_of(exchange.reduce(total, operator.add, 0.0, opened, 0), tile.N)
            if cutlass.const_expr(self.pipeline.stages > 0):
                # From shared memory again, so that the row did not have to stay in registers meanwhile.
                tXrX = self.load(mX, arriving, place)
            tXrD = cute.make_rmem_tensor(tile.values, cutlass.Float32)
            tXrD.store(tXrX.load().to(cutlass.Float32) - mean)
            tile.clear_outside(tXrD, place)  # where x is filled with 0, which is no element at a distance of the mean
            distances = tXrD.load()
            squares = exchange.reduce(warp_sum(self.tile, distances * distances), operator.add, 0.0, opened, 1)
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
            if cutlass.const_expr(self.pipeline.stages > 0):
                tXrX = self.load(mX, arriving, place)
            y = (tXrX.load().to(cutlass.Float32) - mean) * rstd
            if cutlass.const_expr(mW is not None):
                y *= tXrW.load().to(cutlass.Float32)
            if cutlass.const_expr(mB is not None):
                y += tXrB.load().to(cutlass.Float32)
            # write MN elements
            tXrX.store(y.to(self.dtype))
            tile.store(tXrX, mO, place)

    @cute.jit
    def load(self, mX, arriving, place):
        """This thread's part of its row of x, as registers to be used again."""
        if cutlass.const_expr(self.pipeline.stages > 0):
            tXrX = self.pipeline.load(arriving, 0, place, 0)
        else:
            tXrX = self.tile.load(mX, place)
        return tXrX


@cute.jit
def mean_of(total, N: cutlass.Constexpr):
    """total / N, rounded: folded into x - mean it would not be, in some kernels and not in others."""
    mean = total * (1.0 / N)
    if cutlass.const_expr(N & (N - 1) != 0):  # else it is exact
        mean = cute.arch.shuffle_sync_bfly(mean, 0)  # its own number, and nothing is folded across a shuffle
    return mean


class LayerNormBackward(RMSNormBackward):
    """The gradients of LayerNorm: dx = rstd (w dy - mean(w dy) - xh mean(w dy xh)), dw = sum of dy xh, db = sum of dy, with
    xh = (x - mean) rstd.

    A block goes through rows, and its parts of dw and db are added up and written, as in `RMSNormBackward`. Where a thread has
    much of a row, the row stays in shared memory, from where it is read again once its sums are known: dw and db take the
    registers.
    """

    def __init__(self, dtype, N, rows="aligned", weight=None, config=None):
        config = config or default_config("layernorm backward", dtype.width, N, rows)
        # What this decides holds here too, but for two: `frees_stage_early` here only brings the weights to shared memory, since
        # a row stays in its stage until it is done. `finishes_by_vectors` is not read: every row in a stage is finished so.
        super().__init__(dtype, N, rows, weight, config)
        self.exchange = RowExchange(config, values=2, stages=2)
        # Whether there is room for a row beside the one that is worked on.
        self.has_stage_ahead = self.pipeline.stages > 1

    @cute.jit
    def __call__(self, mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart, stream: cuda.CUstream):
        # Where no part is asked for, a block for every tile of rows.
        parts = cute.ceil_div(mX.shape[0], self.tile.rows_per_block)
        if cutlass.const_expr(mDWPart is not None):
            parts = mDWPart.shape[0]
        if cutlass.const_expr(mDBPart is not None):
            parts = mDBPart.shape[0]
        self.kernel(mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart).launch(
            grid=[parts, self.config.blocks_per_row, 1],
            block=[self.config.threads_per_block, 1, 1],
            cluster=self.config.cluster,
            stream=stream,
        )

    @cute.kernel
    def kernel(self, mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart):
        tile, M = self.tile, mX.shape[0]
        # Programmatic dependent launch: the sum of the parts may start, it waits for them.
        cute.arch.griddepcontrol_launch_dependents()
        part, _, _ = cute.arch.block_idx()
        parts, _, _ = cute.arch.grid_dim()
        turns = cute.ceil_div(M - part, parts * tile.rows_per_block)
        if cutlass.const_expr(self.rows_adjacent):
            turns = cute.ceil_div(M - part * tile.rows_per_block, parts * tile.rows_per_block)
        opened = self.exchange.open()
        place = self.place(mX, part, parts, 0)
        arriving, weights, tXrW = None, None, None
        if cutlass.const_expr(self.pipeline.stages > 0):
            arriving = self.pipeline.open(place)
            self.pipeline.fetch_singles(arriving, (mX, mDO), place)
            for turn in cutlass.range_constexpr(self.pipeline.ahead):
                if turn < turns:
                    self.fetch(arriving, mX, mDO, part, parts, place, turn)
        if cutlass.const_expr(self.weights.stages > 0):
            weights = self.weights.open(place)
            self.weights.fetch(weights, (rows_of(mW, 1),), 0, place, 0)
            self.weights.wait(weights, 0)
        elif cutlass.const_expr(mW is not None):
            tXrW = tile.load_weight(mW, place, M)
        next_mean, next_rstd = cutlass.Float32(0.0), cutlass.Float32(0.0)
        if cutlass.const_expr(self.next_in_registers):
            next_x = cute.make_rmem_tensor(tile.values, self.dtype)
            next_dy = cute.make_rmem_tensor(tile.values, mDO.element_type)
            if turns > 0:
                next_x.store(self.tile.load(mX, place).load())
                next_dy.store(self.tile.load(mDO, place).load())
        if cutlass.const_expr(self.next_in_registers or self.rstd_ahead):
            next_mean, next_rstd = rstd_of(mMean, place), rstd_of(mRstd, place)
        tXrDW = cute.make_rmem_tensor(tile.values, cutlass.Float32)
        tXrDB = cute.make_rmem_tensor(tile.values, cutlass.Float32)
        tXrDW.fill(0.0)
        tXrDB.fill(0.0)
        self.exchange.ready()

        for turn in range(turns):
            place = self.place(mX, part, parts, turn)
            # read 2 MN elements
            mean, rstd = next_mean, next_rstd
            if cutlass.const_expr(self.next_in_registers or self.rstd_ahead):
                following = self.place(mX, part, parts, turn + 1)
                next_mean, next_rstd = rstd_of(mMean, following), rstd_of(mRstd, following)
            else:
                mean, rstd = rstd_of(mMean, place), rstd_of(mRstd, place)
            if cutlass.const_expr(self.next_in_registers):
                x_hat, dy, wdy = self.centred(next_x, next_dy, tXrW, mean, rstd)
                if turn + 1 < turns:
                    next_x.store(self.tile.load(mX, following).load())
                    next_dy.store(self.tile.load(mDO, following).load())
            else:
                if cutlass.const_expr(self.pipeline.stages > 0):
                    self.pipeline.fetch_singles(arriving, (mX, mDO), self.place(mX, part, parts, turn + 1))
                    self.pipeline.wait(arriving, turn)
                tXrX, tXrDO = self.load(mX, 0, arriving, place, turn), self.load(mDO, 1, arriving, place, turn)
                x_hat, dy, wdy = self.centred(tXrX, tXrDO, self.weight_of(tXrW, weights, place), mean, rstd)
            # Outside the row dy is 0, and so are the terms of both sums.
            total, dot = self.exchange.add_both(
                warp_sum(self.tile, wdy), warp_sum(self.tile, wdy * x_hat), opened, turn
            )
            offset, slope = total * (1.0 / self.tile.N), dot * (1.0 / self.tile.N)
            if cutlass.const_expr(self.pipeline.stages > 0):
                if cutlass.const_expr(self.has_stage_ahead):
                    # All warps of the row are here, so all have read turn - 1: its stage is free.
                    self.wait_for_row()
                    later = turn + self.pipeline.ahead
                    if later < turns:
                        self.fetch(arriving, mX, mDO, part, parts, place, later)
                # From shared memory again, so that the row does not have to stay in registers meanwhile.
                tXrX, tXrDO = self.load(mX, 0, arriving, place, turn), self.load(mDO, 1, arriving, place, turn)
            # write MN elements
            tXrDX = cute.make_rmem_tensor(self.tile.values, self.dtype)
            if cutlass.const_expr(self.pipeline.stages > 0):
                tXrWeight = self.weight_of(tXrW, weights, place)
                # One part of the row after the other, so that few numbers need registers.
                for i in cutlass.range_constexpr(self.tile.vectors + (self.tile.singles > 0)):
                    w = self.tile.part(tXrWeight, i) if tXrWeight is not None else None
                    x_hat, dy, wdy = self.centred(self.tile.part(tXrX, i), self.tile.part(tXrDO, i), w, mean, rstd)
                    self.tile.part(tXrDX, i).store(((wdy - offset - x_hat * slope) * rstd).to(self.dtype))
                    self.tile.store_part(tXrDX, mDX, i, place)
                    self.add(self.tile.part(tXrDW, i), mDWPart, dy * x_hat)
                    self.add(self.tile.part(tXrDB, i), mDBPart, dy)
                if cutlass.const_expr(not self.has_stage_ahead):
                    cute.arch.barrier()  # all threads are done with the row, and its place is free
                    if turn + 1 < turns:
                        self.fetch(arriving, mX, mDO, part, parts, place, turn + 1)
            else:
                tXrDX.store(((wdy - offset - x_hat * slope) * rstd).to(self.dtype))
                self.tile.store(tXrDX, mDX, place)
                self.add(tXrDW, mDWPart, dy * x_hat)
                self.add(tXrDB, mDBPart, dy)

        if cutlass.const_expr(mDWPart is not None):
            self.write_part(tXrDW, mDWPart, part, place, arriving)
        if cutlass.const_expr(mDBPart is not None):
            self.write_part(tXrDB, mDBPart, part, place, arriving)

    def wait_for_row(self):
        """Wait until all warps of the row have read its turn before, where the exchange did not see to it."""
        if not self.exchange.needed:
            cute.arch.sync_warp()
        elif not self.exchange.in_block:
            # What the blocks sent each other says so too, but not to racecheck of compute-sanitizer.
            cute.arch.barrier()

    @cute.jit
    def centred(self, tXrX, tXrDO, tXrW, mean, rstd):
        """xh, dy and w dy in float32."""
        x_hat, dy = (tXrX.load().to(cutlass.Float32) - mean) * rstd, tXrDO.load().to(cutlass.Float32)
        wdy = dy
        if cutlass.const_expr(tXrW is not None):
            wdy = dy * tXrW.load().to(cutlass.Float32)
        return x_hat, dy, wdy


@cute.jit
def warp_sum(tile: cutlass.Constexpr, values):
    """The sum of all values of the lanes of a row in this warp."""
    total = thread_reduce(values, cute.ReductionOp.ADD, cutlass.Float32(0.0))
    return warp_reduce(total, operator.add, min(tile.threads_per_row, 32))
