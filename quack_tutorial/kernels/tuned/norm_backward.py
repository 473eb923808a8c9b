"""The gradients of RMSNorm and LayerNorm: blocks that go through rows, write dx, and add up dw and db.

    xhat = (x - mean) rstd, in RMSNorm x rstd
    dx = rstd (w dy - xhat mean(w dy xhat) - mean(w dy)), in RMSNorm without the last mean
    dw = sum of dy xhat,  db = sum of dy

Chapter 7 climbs to `pipelined`, and the page on what ships from there to `RMSNormBackwardCluster`, which is this kernel; new
here are rows that start anywhere, several rows a block, and their sums. A block keeps its part of the sums in registers and
writes it once, at its end, as one row of (parts, N) numbers; `ColumnSum` adds up these rows, always in the same order:

    rows       0   1   2   3   4   5   6   7       of a tensor
    block 0    x           x           x           a turn each, `parts` rows apart
    block 1        x           x           x
    block 2            x           x

In each of its rows a thread has the same columns, also where rows start at odd addresses, because a block's rows are a multiple of
`ALIKE` apart. Bulk copies bring the next rows meanwhile, and from shared memory a row is read twice, before its sums are known and
after, so that no registers hold it. Rows that bulk copies cannot bring, and short ones, come straight to registers. All in float32.

| argument         | shape      | holds                                              | type                             |
|------------------|------------|----------------------------------------------------|----------------------------------|
| mX, mDO, mDX     | (M, N)     | x (of RMSNorm with a residual h = x + residual), dy, dx | `dtype`                     |
| mDResidualOut    | (M, N)     | RMSNorm: the gradient that h gets directly         | any; None without one            |
| mW               | (N,)       | w                                                  | `weight_dtype`; None without one |
| mMean, mRstd     | (M,)       | mean (LayerNorm), rstd, from the forward kernel    | float32                          |
| mDWPart, mDBPart | (parts, N) | dw, db in parts                                    | float32; None if not asked for   |
"""

from typing import Any, NamedTuple

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.config import CLUSTERS, HOPPER
from quack_tutorial.kernels.layout import SHARED_BYTES, VECTOR_BYTES, as_rows
from quack_tutorial.kernels.tuned.row_exchange import RowExchange
from quack_tutorial.kernels.tuned.row_pipeline import RowPipeline
from quack_tutorial.kernels.tuned.row_tile import RowKernel, RowTile
from quack_tutorial.kernels.tuned.row_weights import RowWeights

ALIKE = 8  # rows so many apart, or a multiple of it, start equally far from a 16-byte boundary


class Share(NamedTuple):
    """Which rows are a block's."""

    part: Any  # the block's number, or its cluster's where a row has several blocks, and that of its row of the sums
    parts: Any  # how many blocks, or clusters, there are
    turns: Any  # how many turns this block has


class ColumnTile(RowTile):
    """The tile of blocks that go through rows and add up their columns.

    A row that does not exist is 0. The head ends at a multiple of 16 bytes, not of a line: more rows start equally far from one. A
    store has a predicate and no branch around it, since the sums take most registers. And a row can be written one `part` after
    the other, a vector or all single elements, where few numbers are to need registers at once."""

    sums_columns = True

    def part(self, rX, i):
        """The registers of part i, the single elements if that is the number of vectors; None of None."""
        if rX is None:
            return None
        size = self.singles if i == self.vectors else self.vector_size
        return cute.make_tensor(rX.iterator + i * self.vector_size, cute.make_layout(size))

    def zeros(self, mX):
        """Registers for a row of mX, all 0; None of None."""
        if mX is None:
            return None
        rX = cute.make_rmem_tensor(self.elements_held, mX.element_type)
        rX.fill(0.0)
        return rX

    def load_early(self, mX, place):
        """`load` before a row's sums are known; where rows start anywhere, which takes most registers, only room for it."""
        return self.load(mX, place) if mX is not None and not self.has_head else self.zeros(mX)

    @cute.jit
    def copy_part(self, rX: cute.Tensor, mX: cute.Tensor, i: cutlass.Constexpr, place, stores: cutlass.Constexpr):
        """`load` of one part into the registers of all, which stay as they are where nothing is in the row; or its `store`."""
        if cutlass.const_expr(i == self.vectors):
            self.copy_singles(rX, mX, place, stores)
        else:
            atom, tXgX, tXrX = self.vectors_of(mX, rX, place)
            source, target = (tXrX, tXgX) if stores else (tXgX, tXrX)
            source, target = source[None, None, i], target[None, None, i]
            self.copy_vector(atom, source, target, self.inside(i, place, i < self.certain, self.several_rows))


class NormBackward(RowKernel):
    """What both gradients share; `centred` says that x is less its mean, as in LayerNorm. With a single stage there are no
    registers for weights: they stay in shared memory where a bulk copy can bring them there."""

    tile_type, centred = ColumnTile, False

    def __init__(self, dtype, N, promise="aligned", *, weight_dtype=None, card=HOPPER, config=None):
        super().__init__(dtype, N, promise, card=card, config=config)
        tile, config = self.tile, self.config
        self.overlaps = card.capability >= CLUSTERS  # what adds up the parts may start before this kernel has ended
        if config.blocks_together > 1:
            config.refuse("a block goes through rows of its own, so blocks_together must be 0 or 1")
        if tile.has_head and config.stages == 1:
            config.refuse("rows that start anywhere need no stage or at least two, so stages must not be 1")
        self.exchange = RowExchange(config, values=2 if self.centred else 1, sets=2)
        self.pipeline = RowPipeline(dtype, tile, tensors=2, stages=config.stages)
        # Where all of a row is in vectors, threads add up the sums of the block's rows through shared memory.
        in_vectors = promise == "aligned" and tile.singles == 0 and tile.vector_size >= 4
        self.sums_through_smem = tile.rows_per_block > 1 and in_vectors
        whole = weight_dtype is not None and not any(
            n * weight_dtype.width % (8 * VECTOR_BYTES) for n in (tile.width, N)
        )
        self.weights = RowWeights(tile)
        self.weight_pipeline = RowPipeline(weight_dtype, tile, tensors=1, stages=int(config.stages == 1 and whole))
        self.part_tile = tile.beside(wide=promise == "aligned" and N % 4 == 0)

    @cute.kernel
    def kernel(self, mX, mW, mDO, mDResidualOut, mMean, mRstd, mDX, mDWPart, mDBPart):
        exchange, stages, rows = self.exchange, self.pipeline.stages, (mX, mDO)
        share, opened = self.share_of(mX.shape[0]), exchange.allocate_and_arrive()
        place = self.place(mX, share, 0)
        arriving = self.start(rows, share, place)
        weights = self.weights_of(mW, place, mX.shape[0])
        next_mean, next_rstd = number_of(mMean, place), number_of(mRstd, place)
        tXrDW, tXrDB = self.tile.zeros(mDWPart), self.tile.zeros(mDBPart)
        exchange.wait_for_peers()

        for turn in range(share.turns):
            place, following = self.place(mX, share, turn), self.place(mX, share, turn + 1)
            # read 2 MN elements (3 MN with a gradient of h)
            mean, rstd = next_mean, next_rstd
            next_mean, next_rstd = number_of(mMean, following), number_of(mRstd, following)  # so that no turn waits
            tXrDResidualOut = self.tile.load_early(mDResidualOut, place)
            if cutlass.const_expr(stages > 0):
                self.pipeline.fetch_singles(arriving, rows, following)
                self.pipeline.wait(arriving, turn)
            tXrX, tXrDO = self.pipeline.take(arriving, rows, place, turn)
            xhat, _, wdy = self.factors(tXrX, tXrDO, self.weight_of(weights, place), mean, rstd)
            offset, slope = self.means_of(wdy, xhat, opened, turn)
            if cutlass.const_expr(stages > 1):
                # All warps of the row are here, so all have read turn - 1: its stage is free.
                self.wait_for_free_stage()
                self.fetch(arriving, rows, share, place, turn + self.pipeline.ahead)
            if cutlass.const_expr(stages > 0):
                tXrX, tXrDO = self.pipeline.take(arriving, rows, place, turn)  # from shared memory again
            # write MN elements, one vector of the row after the other, so that few numbers need registers
            tXrDX, tXrW = cute.make_rmem_tensor(self.tile.elements_held, self.dtype), self.weight_of(weights, place)
            for i in cutlass.range_constexpr(self.tile.vectors + (self.tile.singles > 0)):
                xhat, dy, wdy = self.factors(*(self.tile.part(tXr, i) for tXr in (tXrX, tXrDO, tXrW)), mean, rstd)
                dx = ((wdy - offset if self.centred else wdy) - xhat * slope) * rstd
                if cutlass.const_expr(mDResidualOut is not None):
                    if cutlass.const_expr(self.tile.has_head):
                        self.tile.copy_part(tXrDResidualOut, mDResidualOut, i, place, stores=False)
                    dx += self.tile.part(tXrDResidualOut, i).load().to(cutlass.Float32)
                self.tile.part(tXrDX, i).store(dx.to(self.dtype))
                self.tile.copy_part(tXrDX, mDX, i, place, stores=True)
                self.add(self.tile.part(tXrDW, i), dy * xhat)
                self.add(self.tile.part(tXrDB, i), dy)
            if cutlass.const_expr(stages == 1):
                cute.arch.barrier()  # all threads are done with the row, and its place is free
                self.fetch(arriving, rows, share, place, turn + 1)

        self.write_sum(tXrDW, mDWPart, share.part, place)
        self.write_sum(tXrDB, mDBPart, share.part, place)

    def factors(self, tXrX, tXrDO, tXrW, mean, rstd):
        """xhat, dy and w dy in float32."""
        x, dy = tXrX.load().to(cutlass.Float32), tXrDO.load().to(cutlass.Float32)
        xhat = (x - mean if self.centred else x) * rstd
        return xhat, dy, dy if tXrW is None else dy * tXrW.load().to(cutlass.Float32)

    def means_of(self, wdy, xhat, opened, turn):
        """The means over a row of w dy, if x is centred, and of w dy xhat; outside the row dy is 0."""
        sums = (self.tile.warp_sum(wdy * xhat),)
        if self.centred:
            sums = self.tile.warp_sum(wdy), *sums
        sums = self.exchange.row_sums(sums, opened, turn)
        means = [total * (1.0 / self.tile.N) for total in sums]
        return means if self.centred else (None, *means)

    def most_parts(self, clusters):
        """How many parts of dw there should be at most on a GPU that runs so many of the kernel's clusters, or blocks, at once
        with one block on an SM (`quack_tutorial/occupancy.py`): about as many as run at once in half of an SM's threads."""
        # Beside the rows the system takes 1024 bytes of shared memory, and mbarriers and an exchange about as much.
        of_block = self.pipeline.smem_bytes() + self.weight_pipeline.smem_bytes() + 2048
        parts = clusters * max(1, min(1024 // self.config.threads_per_block, SHARED_BYTES // of_block))
        return max(ALIKE, parts // ALIKE * ALIKE) if self.promise == "congruent" else parts

    def parts_of(self, M, most):
        """How many of `most` parts of dw M rows need, so that each block has a row."""
        rows = self.tile.rows_per_block
        alike = ALIKE if self.promise == "congruent" and rows > 1 else 1
        return min(most, -(-M // (rows * alike)) * alike)

    def run(self, stream, mX, mW, mDO, mRstd, mDX, mDWPart, mDBPart, mDResidualOut=None, mMean=None):
        """Launch a block, or a cluster, for each part of the sums; where none is asked for, for every tile of rows."""
        blocks = cute.ceil_div(mX.shape[0], self.tile.rows_per_block)
        for mPart in (mDWPart, mDBPart):
            blocks = blocks if mPart is None else mPart.shape[0]
        launched = self.kernel(mX, mW, mDO, mDResidualOut, mMean, mRstd, mDX, mDWPart, mDBPart)
        launched.launch(**self.launched([blocks, self.config.blocks_per_row, 1]), stream=stream)

    def share_of(self, M):
        """This block's share of M rows. What adds up the parts may start from here on and waits for them (chapter 16)."""
        if self.overlaps:
            cute.arch.griddepcontrol_launch_dependents()
        (part, _, _), (parts, _, _) = cute.arch.block_idx(), cute.arch.grid_dim()
        return Share(part, parts, cute.ceil_div(M - part, parts * self.tile.rows_per_block))

    def place(self, mX, share, turn):
        """Where this thread is in its row of a turn, see `RowTile.place`."""
        rows = share.parts * self.tile.rows_per_block
        return self.tile.place(mX, share.part + turn * rows, stride=share.parts)

    @cute.jit
    def start(self, rows, share, place):
        """Start the first copies of the `rows` that come through shared memory, x and dy, an `Arriving`; None without stages."""
        arriving = None
        if cutlass.const_expr(self.pipeline.stages > 0):
            arriving = self.pipeline.open(place)
            self.pipeline.fetch_singles(arriving, rows, place)
            for turn in cutlass.range_constexpr(self.pipeline.ahead):
                self.fetch(arriving, rows, share, place, turn)
        return arriving

    @cute.jit
    def fetch(self, arriving, rows, share, place, turn):
        """Start the copies of the row of a turn, if the block has so many."""
        if turn < share.turns:
            self.pipeline.fetch(arriving, rows, share.part + turn * share.parts, place, turn)

    def wait_for_free_stage(self):
        """Wait until all warps have read their row of the turn before, where the exchange did not see to that."""
        if not self.exchange.needed:
            cute.arch.sync_warp()
        elif not self.exchange.in_block:
            # What the blocks sent each other says so too, but not to racecheck of compute-sanitizer.
            cute.arch.barrier()

    def weights_of(self, mW, place, M):
        """Bring the weights, once for all turns: to registers, or to shared memory if they stay there; `weight_of` has them."""
        if self.weight_pipeline.stages == 0:
            return self.weights.load(mW, place, M)
        arriving = self.weight_pipeline.open(place)
        self.weight_pipeline.fetch(arriving, (as_rows(mW, self.N),), 0, place, 0)
        self.weight_pipeline.wait(arriving)
        return arriving

    def weight_of(self, weights, place):
        """This thread's weights in registers, None if there are none."""
        return self.weight_pipeline.load(weights, 0, place, 0) if self.weight_pipeline.stages else weights

    def add(self, tXrSum, values):
        """Add a row's values to a sum, if it is asked for."""
        if tXrSum is not None:
            tXrSum.store(tXrSum.load() + values)

    @cute.jit
    def write_sum(self, tXrSum, mPart, part, place):
        """Add up what the block's rows of threads hold and write it as row `part` of mPart, if that is asked for."""
        thread_row = cute.arch.thread_idx()[0] // self.tile.threads_per_row
        if cutlass.const_expr(mPart is not None and self.sums_through_smem):
            self.write_quads(tXrSum, mPart, part, place, thread_row)
        elif cutlass.const_expr(mPart is not None):
            if cutlass.const_expr(self.tile.rows_per_block > 1):
                self.add_to_first(tXrSum, place, thread_row)
            self.part_tile.store(tXrSum, mPart, place._replace(row=part, exists=thread_row == 0))

    @cute.jit
    def write_quads(self, tXrSum: cute.Tensor, mPart: cute.Tensor, part, place, thread_row):
        """Add them up, four columns in one thread, through shared memory, and write them.

        A thread's vectors are `quads` of four sums each. The first quads of all vectors are neighbours, then come the others, so
        that the lanes that write one each, and those that read neighbouring columns, use all banks; with two quads a vector

            | vector 0, first | vector 1, first | ... | gap | vector 0, second | vector 1, second | ... | gap |
        """
        rows, N, size = self.tile.rows_per_block, self.tile.N, self.tile.vector_size
        tidx, quads = cute.arch.thread_idx()[0], size // 4
        apart = N // quads + 32 // quads  # a gap of 32 numbers a row, or two of 16
        layout = cute.make_layout((4, quads, N // size, rows), stride=(1, apart, 4, quads * apart))
        sSum = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, layout, byte_alignment=16)
        rSum = cute.make_tensor(tXrSum.iterator, cute.make_layout((4, quads, self.tile.vectors)))
        for i in cutlass.range_constexpr(self.tile.vectors):
            vector = i * self.tile.threads_per_row + place.thread_in_row
            if vector < N // size:
                for k in cutlass.range_constexpr(quads):
                    cute.autovec_copy(rSum[None, k, i], sSum[None, k, vector, thread_row])
        cute.arch.barrier()
        gPart = cute.make_tensor(cute.domain_offset((part, 0), mPart).iterator.align(16), cute.make_layout((4, N // 4)))
        for k in range(tidx, N // 4, self.config.threads_per_block):
            total = cute.make_rmem_tensor(4, cutlass.Float32)
            total.fill(0.0)
            for row in cutlass.range_constexpr(rows):
                of_row = cute.make_rmem_tensor(4, cutlass.Float32)
                cute.autovec_copy(sSum[None, k % quads, k // quads, row], of_row)
                total.store(total.load() + of_row.load())
            cute.autovec_copy(total, gPart[None, k])

    @cute.jit
    def add_to_first(self, tXrSum: cute.Tensor, place, thread_row):
        """Add them up in the threads of the first row, which have its columns in registers."""
        rows, held = self.tile.rows_per_block, self.tile.elements_held
        layout = cute.make_ordered_layout((rows, held, self.tile.threads_per_row), order=(2, 1, 0))
        sSum = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, layout, byte_alignment=16)
        for i in cutlass.range_constexpr(held):
            sSum[thread_row, i, place.thread_in_row] = tXrSum[i]
        cute.arch.barrier()
        if thread_row == 0:
            for other in range(1, rows):
                for i in cutlass.range_constexpr(held):
                    tXrSum[i] += sSum[other, i, place.thread_in_row]


@cute.jit
def number_of(mRows, place):
    """The number that this thread's row has in (M,), its mean or rstd; 0 where there is no such row, or no mean."""
    number = cutlass.Float32(0.0)
    if cutlass.const_expr(mRows is not None):
        if place.exists:
            number = mRows[place.row]
    return number


class RMSNormBackward(NormBackward):
    """The gradients of RMSNorm."""

    operation = "rmsnorm backward"

    @cute.jit
    def __call__(self, mX, mW, mDO, mDResidualOut, mRstd, mDX, mDWPart, mDBPart, stream: cuda.CUstream):
        self.run(stream, mX, mW, mDO, mRstd, mDX, mDWPart, mDBPart, mDResidualOut=mDResidualOut)


class LayerNormBackward(NormBackward):
    """The gradients of LayerNorm."""

    operation, centred = "layernorm backward", True

    @cute.jit
    def __call__(self, mX, mW, mDO, mMean, mRstd, mDX, mDWPart, mDBPart, stream: cuda.CUstream):
        self.run(stream, mX, mW, mDO, mRstd, mDX, mDWPart, mDBPart, mMean=mMean)
