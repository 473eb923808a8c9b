"""RMSNorm of each row of an (M, N) tensor, y = h / sqrt(mean(h^2) + eps) * w + b, and its gradient.

| kernel            | reads                        | writes                                                               |
|-------------------|------------------------------|----------------------------------------------------------------------|
| `RMSNorm`         | x, and a residual if given   | y, and if asked for the sum h = x + residual and rstd                |
| `RMSNormBackward` | h, dy, and h's own gradient  | dx, and each block's part of dw and db                               |
| `ColumnSum`       | the parts                    | dw or db, always added up in the same order                          |

rstd = 1 / sqrt(mean(h^2) + eps) has one number a row; the forward writes it, the backward reads it. All compute in
float32. Rows of up to 262144 elements.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.layout import VECTOR_BYTES
from quack_tutorial.kernels.reduce import thread_reduce, warp_reduce
from quack_tutorial.kernels.tuned.config import (
    MOST_BYTES_AHEAD,
    MOST_NEXT_ELEMENTS,
    default_config,
    elements_held,
    most_blocks,
)
from quack_tutorial.kernels.tuned.row_exchange import RowExchange
from quack_tutorial.kernels.tuned.row_pipeline import RowPipeline, pipelines
from quack_tutorial.kernels.tuned.row_tile import RowTile, rows_of

ALIKE = 8  # rows so many apart, or a multiple of it, start equally far from a 16-byte boundary


class RMSNorm:
    """RMSNorm that reads each row once. `weight`, `bias`, `residual`, `residual_out`: their types, None where absent. Of these
    only `residual` makes a difference; the others, and `rstd`, are for who looks at the object: the kernel asks its tensors."""

    def __init__(
        self,
        dtype,
        N,
        rows="aligned",
        weight=None,
        bias=None,
        residual=None,
        residual_out=None,
        rstd=False,
        config=None,
    ):
        self.dtype, self.N, self.rows = dtype, N, rows
        self.weight, self.bias, self.residual, self.residual_out, self.rstd = weight, bias, residual, residual_out, rstd
        self.config = config or default_config("rmsnorm", dtype.width, N, rows)
        if self.config.rows_each > 1 and rows != "aligned":
            raise ValueError(f"{self.config}: rows that start anywhere each want the weights elsewhere")
        self.tile = RowTile(dtype, N, rows, self.config, several=True)
        self.exchange = RowExchange(self.config)
        # The row comes through shared memory if `in_flight` says so; a residual too, if it has its type.
        tensors = 2 if residual is dtype else 1
        self.pipeline = RowPipeline(dtype, self.tile, tensors, stages=self.config.in_flight)

    @cute.jit
    def __call__(self, mX, mW, mB, mR, mO, mRO, mRstd, eps: cutlass.Float32, stream: cuda.CUstream):
        threads = self.config.threads_per_block
        self.kernel(mX, mW, mB, mR, mO, mRO, mRstd, eps).launch(
            grid=self.tile.grid(mX.shape[0]),
            block=[threads, 1, 1],
            cluster=self.config.cluster,
            stream=stream,
        )

    @cute.kernel
    def kernel(self, mX, mW, mB, mR, mO, mRO, mRstd, eps: cutlass.Float32):
        tile, exchange, M = self.tile, self.exchange, mX.shape[0]
        block, _, _ = cute.arch.block_idx()
        places = tile.places(mX, block)
        opened, arriving, place = exchange.open(), None, places[0]
        if cutlass.const_expr(self.pipeline.stages > 0):
            arriving = self.pipeline.open(place)
            self.pipeline.fetch(arriving, (mX, mR), place.row, place, 0)
        # The weights come from L2, on their way before the row has arrived; those that are shifted are waited for: after it.
        tXrW = tXrB = None
        if cutlass.const_expr(mW is not None and not tile.shifts(mW)):
            tXrW = tile.load_weight(mW, place, M)
        if cutlass.const_expr(mB is not None and not tile.shifts(mB)):
            tXrB = tile.load_weight(mB, place, M)

        # read MN elements (2 MN with a residual)
        if cutlass.const_expr(self.pipeline.stages > 0):
            self.pipeline.wait(arriving, 0)
        loaded = [self.load(mX, mR, arriving, at) for at in places]
        if cutlass.const_expr(mW is not None and tile.shifts(mW)):
            tXrW = tile.load_weight(mW, place, M)
        if cutlass.const_expr(mB is not None and tile.shifts(mB)):
            tXrB = tile.load_weight(mB, place, M)
        # All rows' sums before the first result: the next row's sum would wait for its stores.
        rstds = []
        for k in cutlass.range_constexpr(tile.rows_each):
            place, (_, h) = places[k], loaded[k]
            if cutlass.const_expr(mRO is not None):  # write MN elements
                tXrRO = cute.make_rmem_tensor(tile.values, mRO.element_type)
                tXrRO.store(h.to(mRO.element_type))
                tile.store(tXrRO, mRO, place)
            squares_thread = thread_reduce(h * h, cute.ReductionOp.ADD, cutlass.Float32(0.0))
            squares_warp = warp_reduce(squares_thread, operator.add, min(tile.threads_per_row, 32))
            exchange.ready()
            squares = exchange.reduce(squares_warp, operator.add, 0.0, opened)
            rstd = cute.math.rsqrt(squares * (1.0 / tile.N) + eps)
            if cutlass.const_expr(self.dtype.width == 32 and (mR is not None or mB is not None)):
                rstd = corrected(rstd, squares * (1.0 / tile.N) + eps)
            if cutlass.const_expr(mRstd is not None):
                if tile.is_first(place):
                    mRstd[place.row] = rstd
            rstds.append(rstd)

        for k in cutlass.range_constexpr(tile.rows_each):
            place, (tXrX, h), rstd = places[k], loaded[k], rstds[k]
            if cutlass.const_expr(self.pipeline.stages > 0):
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
        if cutlass.const_expr(self.pipeline.stages > 0):
            tXrX = self.pipeline.load(arriving, 0, place, 0)
        else:
            tXrX = self.tile.load(mX, place)
        h = tXrX.load().to(cutlass.Float32)
        if cutlass.const_expr(self.residual is not None):
            if cutlass.const_expr(self.pipeline.stages > 0 and self.pipeline.tensors > 1):
                h += self.pipeline.load(arriving, 1, place, 0).load().to(cutlass.Float32)
            else:
                h += self.tile.load(mR, place).load().to(cutlass.Float32)
        return tXrX, h


class RMSNormBackward:
    """The gradients of RMSNorm: dx = rstd (w dy - xh mean(w dy xh)) with xh = rstd h, dw = sum of dy xh, db = sum of dy.

    A block goes through rows `parts` apart, so that it can add up its part of dw in registers, and so that in each of its
    rows a thread has the same columns, also where rows start at odd addresses. mDO is dy, and mDRO, where it is given, the
    gradient that h gets directly.
    """

    def __init__(self, dtype, N, rows="aligned", weight=None, config=None):
        self.dtype, self.N, self.rows, self.weight = dtype, N, rows, weight
        self.config = config or default_config("rmsnorm backward", dtype.width, N, rows)
        if self.config.blocks_together > 1:
            raise ValueError(f"{self.config}: a block goes through rows of its own, so blocks_together must be 0 or 1")
        self.tile = RowTile(dtype, N, rows, self.config, sums_columns=True)
        self.exchange = RowExchange(self.config, stages=2)
        # The next row is on its way while one is worked on, unless `in_flight` is 0. With 2 or more it is in another stage, in
        # shared memory. With 1 it is in registers, or, if those cannot hold two rows, in the only stage, which the row before has
        # left for registers.
        long = rows == "aligned" and pipelines(self.tile) and elements_held(self.config, N) > MOST_NEXT_ELEMENTS
        self.frees_stage_early = self.config.in_flight == 1 and long
        self.next_in_registers = self.config.in_flight == 1 and not long
        stages = 0 if self.next_in_registers else self.config.in_flight
        self.pipeline = RowPipeline(dtype, self.tile, tensors=2, stages=stages, several=True)
        # Rows that start anywhere take most registers, so the end of a turn goes through a thread's part a vector at a time.
        self.finishes_by_vectors = stages > 0 and self.tile.has_head
        several = self.tile.rows_per_block > 1
        # Several rows that arrive together are neighbours in memory.
        self.rows_adjacent = stages > 0 and several
        # Where all of a row is in vectors, threads add up the sums of the block's rows through shared memory.
        self.sums_through_smem = several and rows == "aligned" and self.tile.singles == 0 and self.tile.vector_size >= 4
        # rstd is on its way a turn ahead where rows are short: a turn would wait for it. Rows of 12 KB are slower so.
        self.rstd_ahead = self.rows_adjacent and N * dtype.width // 8 <= MOST_BYTES_AHEAD
        # Where rows leave for registers, none is left for weights: these stay in shared memory if a bulk copy can bring them there.
        copied = (
            self.frees_stage_early and weight is not None and self.tile.width * weight.width % (8 * VECTOR_BYTES) == 0
        )
        self.weights = RowPipeline(weight, self.tile, tensors=1, stages=int(copied))

    def most_parts(self, clusters):
        """How many parts of dw there should be at most on a GPU that runs so many of the kernel's clusters (of its blocks,
        where a row has one) at once with one block on an SM, see `quack_tutorial/occupancy.py`."""
        parts = self.pipeline.resident_clusters(clusters, self.weights.smem_bytes())
        parts = min(parts, clusters * most_blocks(self.config, self.N, self.pipeline.stages))
        return max(ALIKE, parts // ALIKE * ALIKE) if self.rows == "congruent" else parts

    def parts_of(self, M, most):
        """How many of `most` parts of dw M rows need, so that each block has a row."""
        blocks = -(-M // self.tile.rows_per_block)
        if self.rows == "congruent" and self.tile.rows_per_block > 1:
            blocks += -blocks % ALIKE
        return min(most, blocks)

    @cute.jit
    def __call__(self, mX, mW, mDO, mDRO, mRstd, mDX, mDWPart, mDBPart, stream: cuda.CUstream):
        # Where no part is asked for, a block for every tile of rows.
        parts = cute.ceil_div(mX.shape[0], self.tile.rows_per_block)
        if cutlass.const_expr(mDWPart is not None):
            parts = mDWPart.shape[0]
        if cutlass.const_expr(mDBPart is not None):
            parts = mDBPart.shape[0]
        threads = self.config.threads_per_block
        self.kernel(mX, mW, mDO, mDRO, mRstd, mDX, mDWPart, mDBPart).launch(
            grid=[parts, self.config.blocks_per_row, 1],
            block=[threads, 1, 1],
            cluster=self.config.cluster,
            stream=stream,
        )

    @cute.kernel
    def kernel(self, mX, mW, mDO, mDRO, mRstd, mDX, mDWPart, mDBPart):
        tile, exchange = self.tile, self.exchange
        M = mX.shape[0]
        # Programmatic dependent launch: the sum of the parts may start, it waits for them.
        cute.arch.griddepcontrol_launch_dependents()
        part, _, _ = cute.arch.block_idx()
        parts, _, _ = cute.arch.grid_dim()
        turns = cute.ceil_div(M - part, parts * tile.rows_per_block)
        if cutlass.const_expr(self.rows_adjacent):
            turns = cute.ceil_div(M - part * tile.rows_per_block, parts * tile.rows_per_block)
        opened = exchange.open()
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
        next_rstd = cutlass.Float32(0.0)
        if cutlass.const_expr(self.next_in_registers):
            next_x = cute.make_rmem_tensor(tile.values, self.dtype)
            next_dy = cute.make_rmem_tensor(tile.values, mDO.element_type)
            if turns > 0:
                next_x.store(self.tile.load(mX, place).load())
                next_dy.store(self.tile.load(mDO, place).load())
                next_rstd = rstd_of(mRstd, place)
        elif cutlass.const_expr(self.rstd_ahead):
            next_rstd = rstd_of(mRstd, place)
        tXrDW = cute.make_rmem_tensor(tile.values, cutlass.Float32)
        tXrDB = cute.make_rmem_tensor(tile.values, cutlass.Float32)
        tXrDW.fill(0.0)
        tXrDB.fill(0.0)
        exchange.ready()

        for turn in range(turns):
            place = self.place(mX, part, parts, turn)
            # read 2 MN elements (3 MN with a gradient of h)
            if cutlass.const_expr(self.next_in_registers):
                rstd = next_rstd
                x_hat, dy, wdy = self.factors(next_x, next_dy, tXrW, rstd)
                if turn + 1 < turns:
                    following = self.place(mX, part, parts, turn + 1)
                    next_x.store(self.tile.load(mX, following).load())
                    next_dy.store(self.tile.load(mDO, following).load())
                    next_rstd = rstd_of(mRstd, following)
            else:
                if cutlass.const_expr(self.rstd_ahead):
                    rstd = next_rstd
                    next_rstd = rstd_of(mRstd, self.place(mX, part, parts, turn + 1))
                else:
                    rstd = rstd_of(mRstd, place)
                if cutlass.const_expr(self.pipeline.stages > 0):
                    self.pipeline.fetch_singles(arriving, (mX, mDO), self.place(mX, part, parts, turn + 1))
                    self.pipeline.wait(arriving, turn)
                tXrX, tXrDO = self.load(mX, 0, arriving, place, turn), self.load(mDO, 1, arriving, place, turn)
                if cutlass.const_expr(self.frees_stage_early):
                    cute.arch.barrier()  # all threads have their part of the row, and its place is free
                    if turn + 1 < turns:
                        self.fetch(arriving, mX, mDO, part, parts, place, turn + 1)
                x_hat, dy, wdy = self.factors(tXrX, tXrDO, self.weight_of(tXrW, weights, place), rstd)
                if cutlass.const_expr(self.frees_stage_early):
                    # Before the sums meet: then neither dy nor the weights are needed after.
                    self.add(tXrDW, mDWPart, dy * x_hat)
                    self.add(tXrDB, mDBPart, dy)
            dot_thread = thread_reduce(wdy * x_hat, cute.ReductionOp.ADD, cutlass.Float32(0.0))
            dot_warp = warp_reduce(dot_thread, operator.add, min(self.tile.threads_per_row, 32))
            mean = self.exchange.reduce(dot_warp, operator.add, 0.0, opened, turn) * (1.0 / self.tile.N)
            if cutlass.const_expr(self.pipeline.stages > 0 and not self.frees_stage_early):
                # All warps of the row are here, so all have read turn - 1: its stage is free.
                if cutlass.const_expr(not self.exchange.needed):
                    cute.arch.sync_warp()
                elif cutlass.const_expr(not self.exchange.in_block):
                    # What the blocks sent each other says so too, but not to racecheck of compute-sanitizer.
                    cute.arch.barrier()
                ahead = turn + self.pipeline.ahead
                if ahead < turns:
                    self.fetch(arriving, mX, mDO, part, parts, place, ahead)
                # From shared memory again, so that the row does not have to stay in registers meanwhile.
                tXrX, tXrDO = self.load(mX, 0, arriving, place, turn), self.load(mDO, 1, arriving, place, turn)
                if cutlass.const_expr(not self.finishes_by_vectors):
                    x_hat, dy, wdy = self.factors(tXrX, tXrDO, tXrW, rstd)
            # write MN elements
            if cutlass.const_expr(self.finishes_by_vectors):
                sums = tXrDW, mDWPart, tXrDB, mDBPart
                self.finish(tXrX, tXrDO, tXrW, sums, mDRO, mDX, place, rstd, mean)
            else:
                dx = (wdy - x_hat * mean) * rstd
                if cutlass.const_expr(mDRO is not None):
                    dx += self.tile.load(mDRO, place).load().to(cutlass.Float32)
                tXrDX = cute.make_rmem_tensor(self.tile.values, self.dtype)
                tXrDX.store(dx.to(self.dtype))
                self.tile.store(tXrDX, mDX, place)
                if cutlass.const_expr(not self.frees_stage_early):
                    self.add(tXrDW, mDWPart, dy * x_hat)
                    self.add(tXrDB, mDBPart, dy)

        if cutlass.const_expr(mDWPart is not None):
            self.write_part(tXrDW, mDWPart, part, place, arriving)
        if cutlass.const_expr(mDBPart is not None):
            self.write_part(tXrDB, mDBPart, part, place, arriving)

    @cute.jit
    def finish(self, tXrX, tXrDO, tXrW, sums, mDRO, mDX, place, rstd, mean):
        """Write a turn's dx and add to the sums, one part of the row after the other, so that few numbers need registers."""
        tile, (tXrDW, mDWPart, tXrDB, mDBPart) = self.tile, sums
        tXrDX, tXrDRO = cute.make_rmem_tensor(tile.values, self.dtype), None
        if cutlass.const_expr(mDRO is not None):
            tXrDRO = cute.make_rmem_tensor(tile.values, mDRO.element_type)
            tXrDRO.fill(0.0)
        for i in cutlass.range_constexpr(tile.vectors + 1):
            w = tile.part(tXrW, i) if tXrW is not None else None
            x_hat, dy, wdy = self.factors(tile.part(tXrX, i), tile.part(tXrDO, i), w, rstd)
            dx = (wdy - x_hat * mean) * rstd
            if cutlass.const_expr(mDRO is not None):
                tile.load_part(tXrDRO, mDRO, i, place)
                dx += tile.part(tXrDRO, i).load().to(cutlass.Float32)
            tile.part(tXrDX, i).store(dx.to(self.dtype))
            tile.store_part(tXrDX, mDX, i, place)
            self.add(tile.part(tXrDW, i), mDWPart, dy * x_hat)
            self.add(tile.part(tXrDB, i), mDBPart, dy)

    def place(self, mX, part, parts, turn):
        """Where this thread is in its row of a turn, see `RowTile.place`."""
        rows = self.tile.rows_per_block
        if self.rows_adjacent:
            return self.tile.place(mX, (part + turn * parts) * rows)
        return self.tile.place(mX, part + turn * (parts * rows), stride=parts)

    def fetch(self, arriving, mX, mDO, part, parts, place, turn):
        """Start the copies of the rows of a turn."""
        row = part + turn * parts
        if self.rows_adjacent:
            row *= self.tile.rows_per_block
        self.pipeline.fetch(arriving, (mX, mDO), row, place, turn)

    @cute.jit
    def load(self, mX, k, arriving, place, turn):
        """This thread's part of its row of tensor k, from shared memory if that is where it arrives."""
        if cutlass.const_expr(self.pipeline.stages > 0):
            tXrX = self.pipeline.load(arriving, k, place, turn)
        else:
            tXrX = self.tile.load(mX, place)
        return tXrX

    def weight_of(self, tXrW, weights, place):
        """This thread's weights, from shared memory if that is where they stay."""
        return tXrW if weights is None else self.weights.load(weights, 0, place, 0)

    @cute.jit
    def add(self, tXrSum: cute.Tensor, mPart, values):
        """Add `values` to a sum of columns, if it is asked for."""
        if cutlass.const_expr(mPart is not None):
            tXrSum.store(tXrSum.load() + values)

    @cute.jit
    def factors(self, tXrX, tXrDO, tXrW, rstd):
        """xh, dy and w dy in float32."""
        x_hat, dy = tXrX.load().to(cutlass.Float32) * rstd, tXrDO.load().to(cutlass.Float32)
        wdy = dy
        if cutlass.const_expr(tXrW is not None):
            wdy = dy * tXrW.load().to(cutlass.Float32)
        return x_hat, dy, wdy

    @cute.jit
    def write_part(self, tXrSum: cute.Tensor, mPart: cute.Tensor, part, place, arriving):
        """Add up what the block's rows of threads hold and write it as row `part` of mPart."""
        if cutlass.const_expr(self.sums_through_smem):
            self.write_sums(tXrSum, mPart, part, place, arriving)
        else:
            self.write_first(tXrSum, mPart, part, place)

    @cute.jit
    def write_sums(self, tXrSum: cute.Tensor, mPart: cute.Tensor, part, place, arriving):
        """Add them up, four columns in one thread, through shared memory: where the rows were, if they were there."""
        rows, threads, N = self.tile.rows_per_block, self.config.threads_per_block, self.tile.N
        tidx, _, _ = cute.arch.thread_idx()
        thread_row = tidx // self.tile.threads_per_row
        # A thread's vectors are `quads` of four sums each. The first quads of all vectors are neighbours, then come the others, so
        # that the lanes that write one each, and those that read neighbouring columns, use all banks.
        quads, size = self.tile.vector_size // 4, self.tile.vector_size
        apart = N // quads + self.gap()
        layout = cute.make_layout((4, quads, N // size, rows), stride=(1, apart, 4, quads * apart))
        if cutlass.const_expr(self.rows_adjacent):
            # `cosize`: the float32 that the layout spans, each in the place of 32 // width elements.
            spanned = 32 // self.dtype.width * cute.cosize(layout)
            room = cute.make_tensor(arriving.sX.iterator, cute.make_layout(spanned))
            sSum = cute.make_tensor(cute.recast_tensor(room, cutlass.Float32).iterator, layout)
            cute.arch.barrier()  # no thread reads there any more
        else:
            sSum = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, layout, byte_alignment=16)
        rSum = cute.make_tensor(tXrSum.iterator, cute.make_layout((4, quads, self.tile.vectors)))
        for i in cutlass.range_constexpr(self.tile.vectors):
            vector = i * self.tile.threads_per_row + place.thread_in_row
            if vector < N // size:
                for k in cutlass.range_constexpr(quads):
                    cute.autovec_copy(rSum[None, k, i], sSum[None, k, vector, thread_row])
        cute.arch.barrier()
        gPart = cute.make_tensor(cute.domain_offset((part, 0), mPart).iterator.align(16), cute.make_layout((4, N // 4)))
        for k in range(tidx, N // 4, threads):
            total = cute.make_rmem_tensor(4, cutlass.Float32)
            total.fill(0.0)
            for row in cutlass.range_constexpr(rows):
                of_row = cute.make_rmem_tensor(4, cutlass.Float32)
                cute.autovec_copy(sSum[None, k % quads, k // quads, row], of_row)
                total.store(total.load() + of_row.load())
            cute.autovec_copy(total, gPart[None, k])

    def gap(self):
        """How many numbers lie between the first quads of a row's sums and the second ones, and behind these; none where they come
        to lie in the rows' places and these have no room for 32 more than a row."""
        room = self.pipeline.smem_bytes() // (4 * self.tile.rows_per_block)
        # 32 a row: one gap, or two where a vector is two quads.
        return 0 if self.rows_adjacent and room < self.tile.N + 32 else 32 // (self.tile.vector_size // 4)

    @cute.jit
    def write_first(self, tXrSum: cute.Tensor, mPart: cute.Tensor, part, place):
        """Add them up in the threads of the first row, which have its columns in registers."""
        tile = self.tile
        thread_row = cute.arch.thread_idx()[0] // tile.threads_per_row
        if cutlass.const_expr(tile.rows_per_block > 1):
            shape = (tile.rows_per_block, tile.values, tile.threads_per_row)
            layout = cute.make_ordered_layout(shape, order=(2, 1, 0))
            sSum = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, layout, byte_alignment=16)
            for i in cutlass.range_constexpr(tile.values):
                sSum[thread_row, i, place.thread_in_row] = tXrSum[i]
            cute.arch.barrier()
            if thread_row == 0:
                for other in range(1, tile.rows_per_block):
                    for i in cutlass.range_constexpr(tile.values):
                        tXrSum[i] += sSum[other, i, place.thread_in_row]
        wide = self.rows == "aligned" and tile.N % 4 == 0
        tile.store(tXrSum, mPart, place._replace(row=part, exists=thread_row == 0), wide)


@cute.jit
def corrected(root, a):
    """1 / sqrt(a), rounded but for rare cases: a step of Newton's method from `rsqrt`, which may be 2^-22.9 off (PTX ISA).

    A residual and a bias round once more each: with both, the worst of 4 million float32 results was 4.4 ulp off without this.
    """
    product = a * root
    rest = cute.math.fma(a, root, -product)  # what its rounding took
    off = cute.math.fma(-rest, root, cute.math.fma(-product, root, cutlass.Float32(1.0)))  # 1 - a root^2
    better = cute.math.fma(root * 0.5, off, root)
    if better == better:  # NaN where root is 0 or infinity
        root = better
    return root


@cute.jit
def rstd_of(mRstd: cute.Tensor, place):
    """rstd of this thread's row, 0 where there is none."""
    rstd = cutlass.Float32(0.0)
    if place.exists:
        rstd = mRstd[place.row]
    return rstd


class ColumnSum:
    """The sum of each column of a (G, N) float32 tensor, always in the same order, as one row of `dtype`."""

    threads_per_block = 1024
    in_flight = 8  # numbers of a thread that are on their way at once

    def __init__(self, N, dtype):
        self.N, self.dtype = N, dtype
        # Columns of a block. Where they are few there are more blocks so, each of which reads a sector of a row and not a line.
        self.columns = 32 if N > 1024 else 8

    @cute.jit
    def __call__(self, mPart: cute.Tensor, mOut: cute.Tensor, stream: cuda.CUstream):
        blocks = cute.ceil_div(self.N, self.columns)
        # Programmatic dependent launch (`use_pdl`): it starts before the kernel ahead of it on the stream has ended, if that says
        # so.
        self.kernel(mPart, mOut).launch(
            grid=[blocks, 1, 1], block=[self.threads_per_block, 1, 1], stream=stream, use_pdl=True
        )

    @cute.kernel
    def kernel(self, mPart: cute.Tensor, mOut: cute.Tensor):
        block, _, _ = cute.arch.block_idx()
        lane, warp, warps = cute.arch.lane_idx(), cute.arch.warp_idx(), self.threads_per_block // 32
        sSum = cutlass.memory.SmemAllocator().allocate_tensor(
            cutlass.Float32, cute.make_ordered_layout((warps, self.columns), order=(1, 0)), byte_alignment=16
        )
        cute.arch.griddepcontrol_wait()  # until that kernel has ended, and its writes are here
        # A lane has a column, and neighbouring lanes of a column neighbouring rows.
        lanes = 32 // self.columns
        of_block, first_row, rows = lane // lanes, warp * lanes + lane % lanes, warps * lanes
        col, total, G = block * self.columns + of_block, cutlass.Float32(0.0), mPart.shape[0]
        values = cute.make_rmem_tensor(self.in_flight, cutlass.Float32)
        if col < self.N:
            for first in range(first_row, G, rows * self.in_flight):
                for i in cutlass.range_constexpr(self.in_flight):
                    values[i] = 0.0
                    if first + i * rows < G:
                        values[i] = mPart[first + i * rows, col]
                for i in cutlass.range_constexpr(self.in_flight):
                    total += values[i]
        total = warp_reduce(total, operator.add, lanes)
        if lane % lanes == 0:
            sSum[warp, of_block] = total
        cute.arch.barrier()
        col = block * self.columns + lane
        if warp == 0 and lane < self.columns and col < self.N:
            total = cutlass.Float32(0.0)
            for other in cutlass.range_constexpr(warps):
                total += sSum[other, lane]
            mOut[col] = total.to(self.dtype)
