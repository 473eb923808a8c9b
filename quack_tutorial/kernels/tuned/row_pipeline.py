"""Rows on their way through shared memory: bulk copies bring them, and where a block goes through rows, while one is worked on.

Chapter 8 has one row that waits like this (`SoftmaxReadTwice`), and chapter 7 three of them (RMSNorm's gradient).

    turn          0        1        2        3
    stage 0    row 0 ... used, free | row 3 on its way ...
    stage 1    row 1 on its way ... used, free | row 4 ...
    stage 2    row 2 on its way ............... used, free | ...

A block that goes through rows in a loop would otherwise wait for each row's bytes. One thread starts a bulk copy, and no
registers wait for what it brings. A stage's mbarrier says when its bytes are there. The exchange of the rows' sums
says when a stage is free: what a warp brings to turn i, it brings after its last read of turn i - 1.

A block may have several rows in a turn, neighbours in memory. Then each has a place of its own in a stage, and an mbarrier for
the warps that share it, or for the warp that has several: `groups` of warps, which wait for nobody else. Where a warp has rows to
itself, their places are free once its lanes have read them, which `sync_warp` sees to.

A block that has one row takes one stage. It gains by what its registers need not hold: where threads read the row twice from
shared memory, `AT_ONCE` elements at a time, they take 32 registers for 80, more blocks fit on an SM, and while some of them
exchange their sums others load and store. Softmax of 262144 bfloat16 columns went from 0.92 to 0.99 of a copy's speed on an H200.
With no stage rows come straight to registers: `start`, `wait` and `take` are for kernels that do the one or the other.

Bulk copies move multiples of 16 bytes from addresses that are: "aligned" rows whose pieces are equal. Of rows that start anywhere
they bring the vectors, from the first such address on, if a block's rows all start alike (then each element has the same
place in every turn). The few others, which no copy can bring, come to registers, a turn ahead as well:

    | head | vector vector vector ... vector | rest |
      registers        shared memory           registers
"""

from dataclasses import replace
from typing import Any, NamedTuple

import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.layout import SHARED_BYTES, VECTOR_BYTES
from quack_tutorial.kernels.tuned.cache_hints import bulk_copy_evict_last
from quack_tutorial.kernels.tuned.row_tile import Place, RowTile

AT_ONCE = 16  # elements of a row in shared memory that a thread has in registers when it goes through it


class Arriving(NamedTuple):
    """Where rows arrive."""

    sX: Any  # their slots in shared memory: (stages, tensors, rows of the block, columns)
    mbar: Any  # an mbarrier for each stage and group of warps
    singles: Any  # registers of this turn's single elements, and of the next one's: two lists, a register tensor for each tensor


class RowPipeline:
    """`stages` turns' rows of `tensors` tensors; a turn's row of each arrives together. A block has one row, or
    more where `many_rows_per_block` allows it.

    `place` is this thread's in a row, see `RowTile.place`. For `open`, `copied` and `fetch` any row of the block will do; the other
    methods are about the row that it names.

    Threads take their part of a row to registers as a whole, with `load`; or, with `by_vectors`, go through the `row` with the tile
    `smem_tile`, whose pieces are a few vectors a thread.
    """

    def __init__(self, dtype, tile, tensors, stages, by_vectors=False, many_rows_per_block=False):
        self.dtype, self.tile, self.tensors, self.stages = dtype, tile, tensors, stages
        # Rows on their way while one is worked on. Into a single stage the next row only comes once the one in it has been read.
        self.ahead = max(1, stages - 1)
        threads, of_row = tile.config.threads_per_block, tile.threads_per_row
        self.rows_per_block, self.rows_of_group = tile.rows_per_block, max(1, 32 // of_row)
        self.groups, self.warps = max(1, threads // max(32, of_row)), max(1, of_row // 32)  # in a block, in a group
        if stages:
            refuse_unmovable(tile, many_rows_per_block)
        # What threads read as a whole ends in zeros, as long as all of them together read: none has to ask where the row ends.
        self.width = tile.width if by_vectors else tile.threads_per_row * tile.vectors * tile.vector_size
        if stages and by_vectors:
            one_block = replace(tile.config, blocks_per_row=1, stages=0)
            self.smem_tile = RowTile(dtype, tile.width, "aligned", one_block, vectors=AT_ONCE // tile.vector_size)

    def smem_bytes(self):
        """How much shared memory of a block the rows take."""
        elements = self.tensors * self.rows_per_block * self.width
        return self.stages * elements * self.dtype.width // 8 if self.stages else 0

    def resident_clusters(self, clusters, beside=0):
        """How many clusters (blocks, where a row has one) run at once, about, on a GPU that runs so many with one block on an
        SM: as many on each SM as half of its threads allow, and shared memory, of which a block takes `beside` bytes more."""
        threads = self.tile.config.threads_per_block
        beside += 2048  # the system's 1024, and about as much for mbarriers and an exchange
        return clusters * max(1, min(1024 // threads, SHARED_BYTES // (self.smem_bytes() + beside)))

    # For a block that has one row; the last three are for one that threads go through by vectors.

    def start(self, tensors, place):
        """Start the copies of a block's only row, an `Arriving`; None if rows come straight to registers."""
        if not self.stages:
            return None
        arriving = self.open(place)
        self.fetch(arriving, tensors, place.row, place, 0)
        return arriving

    def wait(self, arriving, turn=0):
        """Wait for the bytes of `turn`; for none if rows come straight to registers."""
        if self.stages:
            stage = turn % self.stages
            at = stage if self.groups == 1 else stage * self.groups + self.group()
            cute.arch.mbarrier_wait(arriving.mbar + at, turn // self.stages % 2)

    def take(self, arriving, k, mX, place, turn=0):
        """This thread's part of its row: of tensor k in shared memory, or, if it is not copied there, of mX."""
        if self.stages and k < self.tensors:
            return self.load(arriving, k, place, turn)
        return self.tile.load(mX, place)

    def row(self, arriving):
        """The block's part of the only row, in shared memory: (1, width)."""
        return cute.make_tensor(arriving.sX.iterator, cute.make_layout((1, self.tile.width)))

    def place(self, piece, thread_in_row):
        """Where `piece` of that part is, as a place of `smem_tile`."""
        return Place(0, True, piece, thread_in_row, 0, self.tile.width)

    def part_of(self, mX, place):
        """The same part of the row in global memory: mX from where it begins, so that it is in row 0."""
        return cute.domain_offset((cutlass.Int64(place.row), place.piece * self.tile.width), mX)

    # For a block that goes through rows, too: those of a turn have a stage.

    @cute.jit
    def open(self, place):
        """Make room for rows, an `Arriving` whose slots are ready to be written to."""
        smem = cutlass.memory.SmemAllocator()
        shape = (self.stages, self.tensors, self.rows_per_block, self.width)
        layout = cute.make_ordered_layout(shape, order=(3, 2, 1, 0))
        sX = smem.allocate_tensor(self.dtype, layout, byte_alignment=128)
        mbar = smem.allocate_array(cutlass.Int64, self.stages * self.groups, byte_alignment=8)
        if cute.arch.thread_idx()[0] == 0:
            for number in cutlass.range_constexpr(self.stages * self.groups):
                cute.arch.mbarrier_init(mbar + number, 1)
            cute.arch.mbarrier_init_fence()
        # What no copy brings, behind the last element of a row, is 0.
        filled = self.tile.has_head or self.width > self.tile.width
        for slot in cutlass.range_constexpr(self.stages * self.tensors * self.rows_per_block if filled else 0):
            copied = self.copied(place)
            tail = cute.make_tensor(sX.iterator + slot * self.width + copied, cute.make_layout(self.width))
            for i in range(cute.arch.thread_idx()[0], self.width - copied, self.tile.config.threads_per_block):
                tail[i] = self.dtype(0.0)
        both = range(2 if self.tile.has_head else 0)
        singles = [
            [cute.make_rmem_tensor(self.tile.elements_held, self.dtype) for _ in range(self.tensors)] for _ in both
        ]
        for k in cutlass.range_constexpr(self.tensors if self.tile.has_head else 0):
            singles[1][k].fill(0.0)
        cute.arch.barrier()
        return Arriving(sX, mbar, singles)

    def copied(self, place):
        """How many elements of its part of a row a block gets from bulk copies."""
        if self.tile.has_head:
            return cutlass.min(self.tile.width, place.body - place.piece * self.tile.width)
        return self.tile.width

    @cute.jit
    def fetch(self, arriving, tensors, row, place, turn):
        """Start the copies of `row` of each tensor for `turn`, and of those that a block has beside it; the stage must be free."""
        mbar = arriving.mbar
        stage, group = turn % self.stages, self.group()
        if cute.arch.warp_idx() == group * self.warps:
            with cute.arch.elect_one():  # one lane of the warp
                nbytes = self.tensors * self.copied(place) * (self.dtype.width // 8)
                if cutlass.const_expr(self.rows_per_block == 1):
                    cute.arch.mbarrier_arrive_and_expect_tx(mbar + stage, nbytes)
                    self.copy_row(arriving.sX, (stage, 0), tensors, row, place, mbar + stage)
                else:
                    first = row + group * self.rows_of_group
                    there = cutlass.max(0, cutlass.min(self.rows_of_group, tensors[0].shape[0] - first))
                    arrived = mbar + (stage * self.groups + group)
                    cute.arch.mbarrier_arrive_and_expect_tx(arrived, nbytes * there)
                    for k in cutlass.range_constexpr(self.rows_of_group):
                        if k < there:
                            slot = stage, group * self.rows_of_group + k
                            self.copy_row(arriving.sX, slot, tensors, first + k, place, arrived)

    @cute.jit
    def copy_row(self, sX, slot, tensors, row, place, mbar):
        """Start the copies of one row of each tensor to its `slot`, (stage, row of the block). For one thread."""
        for k in cutlass.range_constexpr(self.tensors):
            mX = cute.domain_offset((cutlass.Int64(row), place.head + place.piece * self.tile.width), tensors[k])
            gX = cute.local_tile(mX, (1, self.tile.width), (0, 0))[0, None]
            if cutlass.const_expr(self.tile.has_head):
                gX = cute.make_tensor(gX.iterator.align(VECTOR_BYTES), gX.layout)
            target = cute.make_tensor(sX[slot[0], k, slot[1], None].iterator, cute.make_layout(self.tile.width))
            bulk_copy_evict_last(gX, target, mbar, self.copied(place))

    def group(self):
        """Which of the block's groups of warps this thread is in."""
        return cute.arch.warp_idx() // self.warps if self.groups > 1 else 0

    @cute.jit
    def fetch_singles(self, arriving, tensors, place):
        """What this thread has of single elements becomes the turn's, and those of the row at `place` are loaded for the next.

        Called in each turn, and before the first one for that.
        """
        for k in cutlass.range_constexpr(self.tensors if self.tile.has_head else 0):
            now, coming = arriving.singles[0][k], arriving.singles[1][k]
            now.store(coming.load())
            coming.fill(0.0)
            self.tile.load_singles(coming, tensors[k], place)

    def load(self, arriving, k, place, turn):
        """This thread's part of the turn's row of tensor k, as a register tensor, as often as it is asked for; 0 where there is
        none."""
        row_of_block, exists = 0, place.exists
        if self.rows_per_block > 1:
            row_of_block = cute.arch.thread_idx()[0] // self.tile.threads_per_row
        else:
            exists = True
        slot = arriving.sX[turn % self.stages, k, row_of_block, None]
        row = cute.make_tensor(slot.iterator, cute.make_layout((1, self.width)))
        at = Place(0, exists, 0, place.thread_in_row, 0, self.width)
        rX = self.tile.load(row, at, certain=self.tile.vectors, singles=False)
        for i in range(self.tile.elements_held - self.tile.singles, self.tile.elements_held):
            rX[i] = arriving.singles[0][k][i]
        return rX


def refuse_unmovable(tile, many_rows_per_block):
    """ValueError where bulk copies cannot bring the rows of a tile to shared memory.

    They move whole vectors of aligned rows whose pieces are equal, one row a block or `many_rows_per_block`. Of rows that start
    anywhere: one row a block, of a kernel whose blocks go through rows that start alike (`sums_columns`), with vectors in each
    piece wherever the row starts.
    """
    movable = False
    if tile.has_head:
        movable = tile.sums_columns and tile.rows_per_block == 1 and tile.in_last > 0
    elif many_rows_per_block or tile.rows_per_block == 1:
        movable = tile.promise == "aligned" and tile.width * tile.pieces == tile.N
    if not movable:
        raise ValueError(
            f"rows of {tile.N} elements in {tile.pieces} pieces, {tile.promise}: bulk copies cannot move them"
        )
    if tile.config.blocks_together > 1:
        raise ValueError(
            f"{tile.config}: a block whose row is copied to it must have one, so blocks_together must be 0 or 1"
        )
