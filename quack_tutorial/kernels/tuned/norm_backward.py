"""The gradients of RMSNorm and LayerNorm: blocks that go through rows, write dx, and add up dw and db.

    xhat = (x - mean) rstd, in RMSNorm x rstd
    dx = rstd (w dy - xhat mean(w dy xhat) - mean(w dy)), in RMSNorm without the last mean
    dw = sum of dy xhat,  db = sum of dy

Chapter 7 has the idea in `RMSNormBackwardParts` and climbs to `RMSNormBackwardBulk`, which is this kernel; new here are rows that
start anywhere, several rows a block, and their sums.

    rows       0   1   2   3   4   5   6   7       of a tensor
    block 0    x           x           x           a turn each, `parts` rows apart
    block 1        x           x           x
    block 2            x           x
               part 0, 1, 2 of dw and db, which `ColumnSum` adds up

A weight's gradient is a sum over all rows. A block that stays keeps its part of that sum in registers and writes it once, at its
end, as one row of (parts, N) numbers; `ColumnSum` adds up these rows, always in the same order. In each of its rows a thread has
the same columns, also where rows start at odd addresses, because a block's rows are a multiple of `ALIKE` apart.

Meanwhile bulk copies bring the next rows to stages in shared memory. From there a row is read twice, before its sums are known and
after, so that it does not have to stay in registers. Where bulk copies cannot bring rows, or rows are so short that it was quicker,
they come straight to registers (no stages).

| argument         | shape      | holds                                          | type                             |
|------------------|------------|------------------------------------------------|----------------------------------|
| mX               | (M, N)     | x; of RMSNorm with a residual h = x + residual | `dtype`                          |
| mW               | (N,)       | w                                              | `weight_dtype`; None without one |
| mDO              | (M, N)     | dy                                             | `dtype`                          |
| mDResidualOut    | (M, N)     | RMSNorm: the gradient that h gets directly     | any; None without one            |
| mMean, mRstd     | (M,)       | mean (LayerNorm), rstd, from the forward kernel | float32                         |
| mDX              | (M, N)     | dx, the gradient of x and of the residual      | `dtype`                          |
| mDWPart, mDBPart | (parts, N) | dw, db in parts                                | float32; None if not asked for   |

All is computed in float32. Rows of up to 262144 elements.
"""

from typing import Any, NamedTuple

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.layout import VECTOR_BYTES, tile_at
from quack_tutorial.kernels.tuned.config import has_clusters
from quack_tutorial.kernels.tuned.row_exchange import RowExchange
from quack_tutorial.kernels.tuned.row_pipeline import RowPipeline
from quack_tutorial.kernels.tuned.row_tile import RowTile
from quack_tutorial.kernels.tuned.row_weights import load_weight, rows_of
from quack_tutorial.kernels.tuned.rule import sizes

ALIKE = 8  # rows so many apart, or a multiple of it, start equally far from a 16-byte boundary


class Share(NamedTuple):
    """Which rows are a block's."""

    part: Any  # the block's number, or its cluster's where a row has several blocks, and that of its row of the sums
    parts: Any  # how many blocks, or clusters, there are
    turns: Any  # how many turns this block has


class Sums(NamedTuple):
    """What a thread has added up of its columns, in registers; None of what is not asked for."""

    dw: Any
    db: Any


class NormBackward:
    """What both gradients share: all but their launch. `centred` says that x is less its mean, as in LayerNorm.

    With a single stage there are no registers for weights: they stay in shared memory where a bulk copy can bring them there.
    """

    def __init__(self, dtype, N, promise, weight_dtype, config, centred):
        self.dtype, self.N, self.promise, self.config, self.centred = dtype, N, promise, config, centred
        self.overlaps = has_clusters()  # whether what adds up the parts may start before this kernel has ended
        if config.blocks_together > 1:
            raise ValueError(f"{config}: a block goes through rows of its own, so blocks_together must be 0 or 1")
        self.tile = RowTile(dtype, N, promise, config, sums_columns=True)
        if self.tile.has_head and config.stages == 1:
            raise ValueError(
                f"{config}: rows that start anywhere need no stage or at least two, so stages must not be 1"
            )
        self.exchange = RowExchange(config, values=2 if centred else 1, sets=2)
        self.pipeline = RowPipeline(dtype, self.tile, tensors=2, stages=config.stages, many_rows_per_block=True)
        several = self.tile.rows_per_block > 1
        # Several rows that arrive together are neighbours in memory.
        self.rows_adjacent = config.stages > 0 and several
        # Where all of a row is in vectors, threads add up the sums of the block's rows through shared memory.
        self.sums_through_smem = (
            several and promise == "aligned" and self.tile.singles == 0 and self.tile.vector_size >= 4
        )
        kept = config.stages == 1 and not several and weight_dtype is not None
        kept = kept and self.tile.width * weight_dtype.width % (8 * VECTOR_BYTES) == 0
        self.weight_pipeline = RowPipeline(weight_dtype, self.tile, tensors=1, stages=int(kept))

    @cute.kernel
    def kernel(self, mX, mW, mDO, mDResidualOut, mMean, mRstd, mDX, mDWPart, mDBPart):
        exchange, stages = self.exchange, self.pipeline.stages
        share, opened = self.share_of(mX.shape[0]), exchange.allocate_and_arrive()
        place = self.place(mX, share, 0)
        arriving = self.start(mX, mDO, share, place)
        weights = self.weights_of(mW, place, mX.shape[0])
        next_mean, next_rstd = self.numbers_of(mMean, mRstd, place)
        sums = self.empty_sums(mDWPart, mDBPart)
        exchange.wait_for_peers()

        for turn in range(share.turns):
            place, following = self.place(mX, share, turn), self.place(mX, share, turn + 1)
            # read 2 MN elements (3 MN with a gradient of h)
            mean, rstd = next_mean, next_rstd
            next_mean, next_rstd = self.numbers_of(mMean, mRstd, following)
            tXrDResidualOut = self.load_early(mDResidualOut, place)
            if cutlass.const_expr(stages > 0):
                self.pipeline.fetch_singles(arriving, (mX, mDO), following)
                self.pipeline.wait(arriving, turn)
            tXrX, tXrDO = self.row_of(arriving, mX, mDO, place, turn)
            xhat, _, wdy = self.factors(tXrX, tXrDO, self.weight_of(weights, place), mean, rstd)
            offset, slope = self.means_of(wdy, xhat, opened, turn)
            if cutlass.const_expr(stages > 1):
                # All warps of the row are here, so all have read turn - 1: its stage is free.
                self.wait_for_free_stage()
                ahead = turn + self.pipeline.ahead
                if ahead < share.turns:
                    self.fetch(arriving, mX, mDO, share, place, ahead)
            if cutlass.const_expr(stages > 0):
                tXrX, tXrDO = self.row_of(arriving, mX, mDO, place, turn)  # from shared memory again
            # write MN elements, one vector of the row after the other, so that few numbers need registers
            tXrDX, tXrW = cute.make_rmem_tensor(self.tile.elements_held, self.dtype), self.weight_of(weights, place)
            for i in cutlass.range_constexpr(self.tile.vectors + (self.tile.singles > 0)):
                xhat, dy, wdy = self.factors(*(self.part(tXr, i) for tXr in (tXrX, tXrDO, tXrW)), mean, rstd)
                dx = (self.less(wdy, offset) - xhat * slope) * rstd
                if cutlass.const_expr(mDResidualOut is not None):
                    if cutlass.const_expr(self.tile.has_head):
                        self.load_part(tXrDResidualOut, mDResidualOut, i, place)
                    dx += self.part(tXrDResidualOut, i).load().to(cutlass.Float32)
                self.part(tXrDX, i).store(dx.to(self.dtype))
                self.store_part(tXrDX, mDX, i, place)
                self.add(self.part(sums, i), dy, xhat)
            if cutlass.const_expr(stages == 1):
                cute.arch.barrier()  # all threads are done with the row, and its place is free
                if turn + 1 < share.turns:
                    self.fetch(arriving, mX, mDO, share, place, turn + 1)

        self.write_parts(sums, mDWPart, mDBPart, share.part, place, arriving)

    # The arithmetic of a row.

    def factors(self, tXrX, tXrDO, tXrW, mean, rstd):
        """xhat, dy and w dy in float32."""
        x, dy = tXrX.load().to(cutlass.Float32), tXrDO.load().to(cutlass.Float32)
        return self.less(x, mean) * rstd, dy, dy if tXrW is None else dy * tXrW.load().to(cutlass.Float32)

    def less(self, values, mean):
        """`values` less a mean, where x is centred."""
        return values - mean if self.centred else values

    @cute.jit
    def means_of(self, wdy, xhat, opened, turn):
        """The means over a row of w dy, 0 where x is not centred, and of w dy xhat; outside the row dy is 0."""
        total, dot = cutlass.Float32(0.0), self.tile.warp_sum(wdy * xhat)
        if cutlass.const_expr(self.centred):
            total = self.tile.warp_sum(wdy)
            total, dot = self.exchange.row_sums((total, dot), opened, turn)
        else:
            dot = self.exchange.row_sum(dot, opened, turn)
        return total * (1.0 / self.tile.N), dot * (1.0 / self.tile.N)

    # Which rows a block has, and where they are.

    def most_parts(self, clusters):
        """How many parts of dw there should be at most on a GPU that runs so many of the kernel's clusters (of its blocks,
        where a row has one) at once with one block on an SM, see `quack_tutorial/occupancy.py`."""
        parts = self.pipeline.resident_clusters(clusters, self.weight_pipeline.smem_bytes())
        return max(ALIKE, parts // ALIKE * ALIKE) if self.promise == "congruent" else parts

    def parts_of(self, M, most):
        """How many of `most` parts of dw M rows need, so that each block has a row."""
        blocks = -(-M // self.tile.rows_per_block)
        if self.promise == "congruent" and self.tile.rows_per_block > 1:
            blocks += -blocks % ALIKE
        return min(most, blocks)

    def grid(self, mX, *parts):
        """The grid: a block, or a cluster, for each part of the sums; where none is asked for, for every tile of rows."""
        blocks = cute.ceil_div(mX.shape[0], self.tile.rows_per_block)
        for mPart in parts:
            if mPart is not None:
                blocks = mPart.shape[0]
        return [blocks, self.config.blocks_per_row, 1]

    def share_of(self, M):
        """This block's share of M rows, a `Share`. What adds up the parts may start from here on: it waits for them itself
        (programmatic dependent launch)."""
        if self.overlaps:
            cute.arch.griddepcontrol_launch_dependents()
        (part, _, _), (parts, _, _), rows = cute.arch.block_idx(), cute.arch.grid_dim(), self.tile.rows_per_block
        first = part * rows if self.rows_adjacent else part
        return Share(part, parts, cute.ceil_div(M - first, parts * rows))

    def place(self, mX, share, turn):
        """Where this thread is in its row of a turn, see `RowTile.place`."""
        rows = self.tile.rows_per_block
        if self.rows_adjacent:
            return self.tile.place(mX, (share.part + turn * share.parts) * rows)
        return self.tile.place(mX, share.part + turn * (share.parts * rows), stride=share.parts)

    def fetch(self, arriving, mX, mDO, share, place, turn):
        """Start the copies of the rows of a turn."""
        row = share.part + turn * share.parts
        if self.rows_adjacent:
            row *= self.tile.rows_per_block
        self.pipeline.fetch(arriving, (mX, mDO), row, place, turn)

    @cute.jit
    def start(self, mX, mDO, share, place):
        """Make room for the rows that come through shared memory and start the first copies, an `Arriving`; None without stages."""
        arriving = None
        if cutlass.const_expr(self.pipeline.stages > 0):
            arriving = self.pipeline.open(place)
            self.pipeline.fetch_singles(arriving, (mX, mDO), place)
            for turn in cutlass.range_constexpr(self.pipeline.ahead):
                if turn < share.turns:
                    self.fetch(arriving, mX, mDO, share, place, turn)
        return arriving

    def row_of(self, arriving, mX, mDO, place, turn):
        """This thread's part of its row of x and of dy."""
        return tuple(self.pipeline.take(arriving, k, m, place, turn) for k, m in enumerate((mX, mDO)))

    def numbers_of(self, mMean, mRstd, place):
        """(mean, rstd) of a row, 0 where there is no such row; a turn ahead, so that no turn waits for them."""
        mean = cutlass.Float32(0.0) if mMean is None else number_of(mMean, place)
        return mean, number_of(mRstd, place)

    def weights_of(self, mW, place, M):
        """Bring the weights, once for all turns: to registers, or to shared memory if they stay there; `weight_of` has them."""
        if self.weight_pipeline.stages:
            arriving = self.weight_pipeline.open(place)
            self.weight_pipeline.fetch(arriving, (rows_of(mW, 1),), 0, place, 0)
            self.weight_pipeline.wait(arriving, 0)
            return arriving
        return None if mW is None else load_weight(self.tile, mW, place, M)

    def weight_of(self, weights, place):
        """This thread's weights in registers, None if there are none."""
        return self.weight_pipeline.load(weights, 0, place, 0) if self.weight_pipeline.stages else weights

    def wait_for_free_stage(self):
        """Wait until all warps have read their row of the turn before, where the exchange did not see to that."""
        if not self.exchange.needed:
            cute.arch.sync_warp()
        elif not self.exchange.in_block:
            # What the blocks sent each other says so too, but not to racecheck of compute-sanitizer.
            cute.arch.barrier()

    def empty_sums(self, *parts):
        """The sums of dw and db before the first row, a `Sums`, for the `parts` that are to be written, None or (parts, N)."""
        sums = [cute.make_rmem_tensor(self.tile.elements_held, cutlass.Float32) for _ in parts]
        for tXrSum in sums:
            tXrSum.fill(0.0)
        return Sums(*(None if mPart is None else tXrSum for mPart, tXrSum in zip(parts, sums)))

    def add(self, sums, dy, xhat):
        """Add a row's dy xhat to dw, and its dy to db."""
        if sums.dw is not None:
            sums.dw.store(sums.dw.load() + dy * xhat)
        if sums.db is not None:
            sums.db.store(sums.db.load() + dy)

    @cute.jit
    def write_parts(self, sums, mDWPart, mDBPart, part, place, arriving=None):
        """Write the block's part of dw and of db, as far as they are asked for."""
        if cutlass.const_expr(mDWPart is not None):
            self.write_part(sums.dw, mDWPart, part, place, arriving)
        if cutlass.const_expr(mDBPart is not None):
            self.write_part(sums.db, mDBPart, part, place, arriving)

    # A row one vector after the other, where few numbers are to need registers at once.

    def part(self, rX, i):
        """The registers of vector i; of the single elements if i is the number of vectors; of each of `Sums`; None of None."""
        if rX is None:
            return None
        if isinstance(rX, Sums):
            return Sums(self.part(rX.dw, i), self.part(rX.db, i))
        tile = self.tile
        size = tile.singles if i == tile.vectors else tile.vector_size
        return cute.make_tensor(rX.iterator + i * tile.vector_size, cute.make_layout(size))

    @cute.jit
    def load_early(self, mX, place):
        """`RowTile.load` before the sums are known; of rows that start anywhere, which take most registers, only room for
        `load_part`, 0. None of None."""
        rX = None
        if cutlass.const_expr(mX is not None and self.tile.has_head):
            rX = cute.make_rmem_tensor(self.tile.elements_held, mX.element_type)
            rX.fill(0.0)
        elif cutlass.const_expr(mX is not None):
            rX = self.tile.load(mX, place)
        return rX

    @cute.jit
    def load_part(self, rX: cute.Tensor, mX: cute.Tensor, i: cutlass.Constexpr, place):
        """`RowTile.load` of one part alone into the registers of all; those of what is not in the row stay as they are."""
        tile = self.tile
        if cutlass.const_expr(i == tile.vectors):
            tile.load_singles(rX, mX, place)
        else:
            atom, tXgX = tile.vectors_of(mX, place, True)
            vectors = tile.as_vectors(rX, tXgX)
            tile.copy_vector(i, atom, tXgX, vectors, place, tile.certain, tile.several_rows, True)

    @cute.jit
    def store_part(self, rX: cute.Tensor, mX: cute.Tensor, i: cutlass.Constexpr, place):
        """`RowTile.store` of one part alone, from the registers of all."""
        tile = self.tile
        if cutlass.const_expr(i == tile.vectors):
            tile.store_singles(rX, tile_at(mX, (1, tile.N), place.row), place)
        else:
            atom, tXgX = tile.vectors_of(mX, place, True)
            tile.copy_vector(i, atom, tile.as_vectors(rX, tXgX), tXgX, place, tile.certain, tile.several_rows)

    # The end: a block's part of the sums.

    @cute.jit
    def write_part(self, tXrSum: cute.Tensor, mPart: cute.Tensor, part, place, arriving):
        """Add up what the block's rows of threads hold and write it as row `part` of mPart."""
        if cutlass.const_expr(self.sums_through_smem):
            self.write_sums(tXrSum, mPart, part, place, arriving)
        else:
            self.write_first(tXrSum, mPart, part, place)

    @cute.jit
    def write_sums(self, tXrSum: cute.Tensor, mPart: cute.Tensor, part, place, arriving):
        """Add them up, four columns in one thread, through shared memory: where the rows were, if they were there.

        A thread's vectors are `quads` of four sums each. The first quads of all vectors are neighbours, then come the others, so
        that the lanes that write one each, and those that read neighbouring columns, use all banks; with two quads a vector

            | vector 0, first | vector 1, first | ... | gap | vector 0, second | vector 1, second | ... | gap |
        """
        rows, threads, N = self.tile.rows_per_block, self.config.threads_per_block, self.tile.N
        tidx, _, _ = cute.arch.thread_idx()
        thread_row = tidx // self.tile.threads_per_row
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
        """How many numbers a gap has: none where the sums lie in the rows' places and these have no room for 32 more than a row."""
        room = self.pipeline.smem_bytes() // (4 * self.tile.rows_per_block)
        # 32 a row: one gap, or two where a vector is two quads.
        return 0 if self.rows_adjacent and room < self.tile.N + 32 else 32 // (self.tile.vector_size // 4)

    @cute.jit
    def write_first(self, tXrSum: cute.Tensor, mPart: cute.Tensor, part, place):
        """Add them up in the threads of the first row, which have its columns in registers."""
        tile = self.tile
        thread_row = cute.arch.thread_idx()[0] // tile.threads_per_row
        if cutlass.const_expr(tile.rows_per_block > 1):
            shape = (tile.rows_per_block, tile.elements_held, tile.threads_per_row)
            layout = cute.make_ordered_layout(shape, order=(2, 1, 0))
            sSum = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, layout, byte_alignment=16)
            for i in cutlass.range_constexpr(tile.elements_held):
                sSum[thread_row, i, place.thread_in_row] = tXrSum[i]
            cute.arch.barrier()
            if thread_row == 0:
                for other in range(1, tile.rows_per_block):
                    for i in cutlass.range_constexpr(tile.elements_held):
                        tXrSum[i] += sSum[other, i, place.thread_in_row]
        wide = self.promise == "aligned" and tile.N % 4 == 0
        tile.store(tXrSum, mPart, place._replace(row=part, exists=thread_row == 0), wide)


@cute.jit
def number_of(mRows: cute.Tensor, place):
    """The number that this thread's row has in (M,), its mean or rstd; 0 where there is no such row."""
    number = cutlass.Float32(0.0)
    if place.exists:
        number = mRows[place.row]
    return number


class RMSNormBackward(NormBackward):
    """The gradients of RMSNorm."""

    def __init__(self, dtype, N, promise="aligned", weight_dtype=None, config=None):
        config = config or sizes("rmsnorm backward", dtype.width, N, promise)
        super().__init__(dtype, N, promise, weight_dtype, config, centred=False)

    @cute.jit
    def __call__(self, mX, mW, mDO, mDResidualOut, mRstd, mDX, mDWPart, mDBPart, stream: cuda.CUstream):
        self.kernel(mX, mW, mDO, mDResidualOut, None, mRstd, mDX, mDWPart, mDBPart).launch(
            grid=self.grid(mX, mDWPart, mDBPart),
            block=[self.config.threads_per_block, 1, 1],
            cluster=self.config.cluster,
            stream=stream,
        )


class LayerNormBackward(NormBackward):
    """The gradients of LayerNorm."""

    def __init__(self, dtype, N, promise="aligned", weight_dtype=None, config=None):
        config = config or sizes("layernorm backward", dtype.width, N, promise)
        super().__init__(dtype, N, promise, weight_dtype, config, centred=True)

    @cute.jit
    def __call__(self, mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart, stream: cuda.CUstream):
        self.kernel(mX, mW, mDO, None, mMean, mRstd, mDX, mDWPart, mDBPart).launch(
            grid=self.grid(mX, mDWPart, mDBPart),
            block=[self.config.threads_per_block, 1, 1],
            cluster=self.config.cluster,
            stream=stream,
        )
