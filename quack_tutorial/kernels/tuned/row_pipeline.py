"""Rows on their way through shared memory: bulk copies bring them, and where a block goes through rows, while one is worked on.

Chapter 8 has one row that waits like this (`SoftmaxReadTwice`), and the page on what ships three of them (RMSNorm's gradient).

    turn          0        1        2        3
    stage 0    row 0 ... used, free | row 3 on its way ...
    stage 1    row 1 on its way ... used, free | row 4 ...
    stage 2    row 2 on its way ............... used, free | ...

One thread starts a bulk copy, no registers wait for what it brings, and a stage's mbarrier says when its bytes are there. The
exchange of the rows' sums says when a stage is free: what a warp brings to turn i, it brings after its last read of turn i - 1.

A block of one turn takes one stage. Where threads read the row twice, 16 elements at a time, they take 32 registers for 80, so
that more blocks fit on an SM and some load while others exchange their sums.

Bulk copies move multiples of 16 bytes from addresses that are: "aligned" rows of whole vectors, of which a cluster's last block may
have fewer. Of rows that start anywhere they bring the vectors, from the first such address on, if a block's rows all start alike
(then each element has the same place in every turn). The few others, at the row's ends, come to registers, a turn ahead as well."""

from typing import Any, NamedTuple

import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.cache_hints import bulk_copy_evict_last
from quack_tutorial.kernels.layout import aligned
from quack_tutorial.kernels.tuned.row_tile import Place


class Arriving(NamedTuple):
    """Where rows arrive."""

    sX: Any  # their slots in shared memory: (stages, tensors, columns)
    mbar: Any  # an mbarrier for each stage
    singles: Any  # registers of this turn's single elements, and of the next one's: two lists, a register tensor for each tensor


class RowPipeline:
    """`stages` turns' rows of `tensors` tensors, a turn's row of each together; without stages rows come straight to registers.

    A block has one row in each turn, or a piece of one; `place` is this thread's in it, see `RowTile.place`.
    """

    def __init__(self, dtype, tile, tensors, stages):
        self.dtype, self.tile, self.tensors, self.stages = dtype, tile, tensors, stages
        # Rows on their way while one is worked on. Into a single stage the next row only comes once the one in it has been read.
        self.ahead = max(1, self.stages - 1)
        # What threads read as a whole ends in zeros, as long as all of them together read: none has to ask where the row ends.
        self.width = tile.threads_per_row * tile.vectors * tile.vector_size
        self.last_is_shorter = tile.has_head or tile.width * tile.pieces > tile.N
        if self.stages:
            refuse_unmovable(tile)

    def smem_bytes(self):
        """How much shared memory of a block the rows take."""
        return self.stages * self.tensors * self.width * self.dtype.width // 8 if self.stages else 0

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
            cute.arch.mbarrier_wait(arriving.mbar + turn % self.stages, turn // self.stages % 2)

    def take(self, arriving, tensors, place, turn=0):
        """This thread's part of its row of each tensor: from shared memory, or, if no copies bring rows there, from `tensors`."""
        if self.stages:
            return [self.load(arriving, k, place, turn) for k in range(self.tensors)]
        return [self.tile.load(mX, place) for mX in tensors]

    @cute.jit
    def open(self, place):
        """Make room for rows, an `Arriving` whose slots are ready to be written to."""
        smem = cutlass.memory.SmemAllocator()
        layout = cute.make_ordered_layout((self.stages, self.tensors, self.width), order=(2, 1, 0))
        sX = smem.allocate_tensor(self.dtype, layout, byte_alignment=128)
        mbar = smem.allocate_array(cutlass.Int64, self.stages, byte_alignment=8)
        if cute.arch.thread_idx()[0] == 0:
            for number in cutlass.range_constexpr(self.stages):
                cute.arch.mbarrier_init(mbar + number, 1)
            cute.arch.mbarrier_init_fence()
        # What no copy brings, behind the last element of a row, is 0.
        filled = self.last_is_shorter or self.width > self.tile.width
        for slot in cutlass.range_constexpr(self.stages * self.tensors if filled else 0):
            copied = self.copied(place)
            tail = cute.make_tensor(sX.iterator + slot * self.width + copied, cute.make_layout(self.width))
            for i in range(cute.arch.thread_idx()[0], self.width - copied, self.tile.config.threads_per_block):
                tail[i] = self.dtype(0.0)
        both, held = range(2 if self.tile.has_head else 0), self.tile.elements_held
        singles = [[cute.make_rmem_tensor(held, self.dtype) for _ in range(self.tensors)] for _ in both]
        for k in cutlass.range_constexpr(self.tensors if self.tile.has_head else 0):
            singles[1][k].fill(0.0)
        cute.arch.barrier()
        return Arriving(sX, mbar, singles)

    def copied(self, place):
        """How many elements of its part of a row a block gets from bulk copies."""
        if self.last_is_shorter:
            return cutlass.min(self.tile.width, place.body - place.piece * self.tile.width)
        return self.tile.width

    @cute.jit
    def fetch(self, arriving, tensors, row, place, turn):
        """Start the copies of a `row` of each tensor for `turn`, whose stage must be free; any `place` of the block will do."""
        stage = turn % self.stages
        if cute.arch.warp_idx() == 0:
            with cute.arch.elect_one():  # one lane of the warp
                nbytes, arrived = self.tensors * self.copied(place) * (self.dtype.width // 8), arriving.mbar + stage
                cute.arch.mbarrier_arrive_and_expect_tx(arrived, nbytes)
                for k in cutlass.range_constexpr(self.tensors):
                    start = cutlass.Int64(row), place.head + place.piece * self.tile.width
                    gX = cute.local_tile(cute.domain_offset(start, tensors[k]), (1, self.tile.width), (0, 0))[0, None]
                    if cutlass.const_expr(self.tile.has_head):
                        gX = aligned(gX)
                    target = cute.make_tensor(arriving.sX[stage, k, None].iterator, cute.make_layout(self.tile.width))
                    bulk_copy_evict_last(gX, target, arrived, self.copied(place))

    @cute.jit
    def fetch_singles(self, arriving, tensors, place):
        """What this thread has of single elements becomes the turn's, and those of the row at `place` are loaded for the next: in
        each turn, and before the first one for that."""
        for k in cutlass.range_constexpr(self.tensors if self.tile.has_head else 0):
            now, coming = arriving.singles[0][k], arriving.singles[1][k]
            now.store(coming.load())
            coming.fill(0.0)
            self.tile.copy_singles(coming, tensors[k], place)

    def load(self, arriving, k, place, turn):
        """This thread's part of the turn's row of tensor k, as a register tensor, as often as it is asked for."""
        tile, slot = self.tile, arriving.sX[turn % self.stages, k, None]
        row = cute.make_tensor(slot.iterator, cute.make_layout((1, self.width)))
        rX = cute.make_rmem_tensor(tile.elements_held, self.dtype)
        cute.copy(*tile.vectors_of(row, rX, Place(0, True, 0, place.thread_in_row, 0, self.width)))
        for i in range(tile.elements_held - tile.singles, tile.elements_held):
            rX[i] = arriving.singles[0][k][i]
        return rX


def refuse_unmovable(tile):
    """ValueError where bulk copies cannot bring the rows of a tile to shared memory.

    They move whole vectors: of aligned rows that are nothing else; and, of a kernel whose blocks go through rows that start alike
    (`sums_columns`), those of rows that start anywhere. Each piece must have some.
    """
    whole = tile.promise == "aligned" and tile.vector_size > 1 and tile.singles == 0
    alike = tile.has_head and tile.sums_columns
    if not (whole or alike) or tile.in_last <= 0 or tile.rows_per_block > 1:
        places = f"{tile.pieces} pieces, {tile.rows_per_block} a block"
        raise ValueError(f"rows of {tile.N} elements in {places}, {tile.promise}: bulk copies cannot move them")
    if tile.config.blocks_together > 1:
        tile.config.refuse("a block whose row is copied to it must have one, so blocks_together must be 0 or 1")
