"""What the gradients of RMSNorm and LayerNorm share: blocks that go through rows, and add up their columns.

Chapter 7 has the idea in `RMSNormBackwardParts`; new here are rows that start anywhere, several rows a block, and their sums.

    rows       0   1   2   3   4   5   6   7       of a tensor
    block 0    x           x           x           a turn each, `parts` rows apart
    block 1        x           x           x
    block 2            x           x
               part 0, 1, 2 of dw and db, which `ColumnSum` adds up

A weight's gradient is a sum over all rows. A block that stays keeps its part of that sum in registers and writes it once, at its
end, as one row of (parts, N) numbers; `ColumnSum` adds up these rows, always in the same order. In each of its rows a thread has
the same columns, also where rows start at odd addresses, because a block's rows are a multiple of `ALIKE` apart.

`NormBackward` has what every such kernel needs around its loop, the kernels themselves are in `rmsnorm_backward` and
`layernorm_backward`.
"""

from typing import Any, NamedTuple

import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.layout import VECTOR_BYTES, tile_at
from quack_tutorial.kernels.tuned.config import MOST_BYTES_AHEAD, has_clusters, most_blocks
from quack_tutorial.kernels.tuned.row_exchange import RowExchange
from quack_tutorial.kernels.tuned.row_pipeline import RowPipeline
from quack_tutorial.kernels.tuned.row_tile import RowTile
from quack_tutorial.kernels.tuned.row_weights import load_weight, rows_of

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
    """A kernel whose blocks go through rows of x and dy, and add up columns. A subclass has the kernel.

    `values` is how many sums a row has. Rows come to registers, or through shared memory, in so many stages as the configuration
    says. `keeps_weights` says that the weights stay in shared memory where a bulk copy can bring them there: a kernel that has no
    registers for them asks for it.
    """

    def __init__(self, dtype, N, promise, weight_dtype, config, values=1, keeps_weights=False):
        self.dtype, self.N, self.promise, self.config = dtype, N, promise, config
        self.overlaps = has_clusters()  # whether what adds up the parts may start before this kernel has ended
        if config.blocks_together > 1:
            raise ValueError(f"{config}: a block goes through rows of its own, so blocks_together must be 0 or 1")
        self.tile = RowTile(dtype, N, promise, config, sums_columns=True)
        if self.tile.has_head and config.stages == 1:
            raise ValueError(
                f"{config}: rows that start anywhere need no stage or at least two, so stages must not be 1"
            )
        self.exchange = RowExchange(config, values=values, sets=2)
        self.pipeline = RowPipeline(dtype, self.tile, tensors=2, stages=config.stages, many_rows_per_block=True)
        several = self.tile.rows_per_block > 1
        # Several rows that arrive together are neighbours in memory.
        self.rows_adjacent = config.stages > 0 and several
        # Where all of a row is in vectors, threads add up the sums of the block's rows through shared memory.
        self.sums_through_smem = (
            several and promise == "aligned" and self.tile.singles == 0 and self.tile.vector_size >= 4
        )
        # rstd is on its way a turn ahead where rows are short: a turn would wait for it. Rows of 12 KB are slower so.
        self.rstd_ahead = self.rows_adjacent and N * dtype.width // 8 <= MOST_BYTES_AHEAD
        kept = keeps_weights and weight_dtype is not None
        kept = kept and self.tile.width * weight_dtype.width % (8 * VECTOR_BYTES) == 0
        self.weight_pipeline = RowPipeline(weight_dtype, self.tile, tensors=1, stages=int(kept))

    def most_parts(self, clusters):
        """How many parts of dw there should be at most on a GPU that runs so many of the kernel's clusters (of its blocks,
        where a row has one) at once with one block on an SM, see `quack_tutorial/occupancy.py`."""
        parts = self.pipeline.resident_clusters(clusters, self.weight_pipeline.smem_bytes())
        parts = min(parts, clusters * most_blocks(self.config, self.N, self.pipeline.stages))
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
    def load_part(self, rX: cute.Tensor, mX: cute.Tensor, i: cutlass.Constexpr, place):
        """`RowTile.load` of one part alone into the registers of all; those of what is not in the row stay as they are."""
        tile = self.tile
        if cutlass.const_expr(i == tile.vectors):
            tile.load_singles(rX, mX, place)
        else:
            atom, tXgX = tile.vectors_of(mX, place, True)
            vectors = tile.as_vectors(rX, tXgX)
            tile.copy_vector(i, atom, tXgX, vectors, place, tile.certain, tile.several_rows, tile.hint)

    @cute.jit
    def store_part(self, rX: cute.Tensor, mX: cute.Tensor, i: cutlass.Constexpr, place):
        """`RowTile.store` of one part alone, from the registers of all."""
        tile = self.tile
        if cutlass.const_expr(i == tile.vectors):
            tile.store_singles(rX, tile_at(mX, (1, tile.N), place.row), place)
        else:
            atom, tXgX = tile.vectors_of(mX, place, True)
            tile.copy_vector(i, atom, tile.as_vectors(rX, tXgX), tXgX, place, tile.certain, tile.several_rows, None)

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


def times_weight(dy, tXrW):
    """w dy; dy where there are no weights."""
    return dy if tXrW is None else dy * tXrW.load().to(cutlass.Float32)


@cute.jit
def number_of(mRows: cute.Tensor, place):
    """The number that this thread's row has in (M,), its mean or rstd; 0 where there is no such row."""
    number = cutlass.Float32(0.0)
    if place.exists:
        number = mRows[place.row]
    return number
