"""The maximum and the sum of exponentials of a row: of one in registers, and in one pass as a row goes past a thread.

The pass is the loop of chapter 9's `in flight` and of chapter 8's `read twice`, over the pieces of a `RowTile`. A thread has the
row's values in registers only while it adds them, so that their number does not depend on N. The row comes from global
memory (cross-entropy's loss, which needs it once) or from shared memory (a `SharedRow`, which is then read again).
"""

import math
import operator
from dataclasses import replace

import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.arithmetic import as_float32, exp_scale, exp_scaled, thread_max
from quack_tutorial.kernels.reduce import exp, exp_flushed, finite_or_zero, thread_reduce, warp_reduce
from quack_tutorial.kernels.tuned.row_exchange import RowExchange
from quack_tutorial.kernels.tuned.row_pipeline import RowPipeline
from quack_tutorial.kernels.tuned.row_tile import Place, RowKernel, RowTile

AT_ONCE = 16  # elements of a row in shared memory that a thread has in registers when it goes through it


def held_max_sum(tile, tXrX, scale):
    """(y, max, sum) of a row's lanes in this warp, from what each has of it in registers: y are its values' exp(x - max), as
    `exp_scaled` gives them with `scale`, and sum the sum of all y."""
    x = tXrX.load().to(cutlass.Float32)
    max_thread = thread_reduce(x, cute.ReductionOp.MAX, -cutlass.Float32.inf)
    max_warp = warp_reduce(max_thread, cute.arch.fmax, min(tile.threads_per_row, 32))
    y = exp_scaled(x - finite_or_zero(max_warp), scale)
    return y, max_warp, tile.warp_sum(y)


@cute.jit
def online_max_sum(tile, mX, place, terms: cutlass.Constexpr):
    """This thread's (max, sum of exp(x - max)) of its row of mX, whose pieces it goes through; `terms(rX, reference)` gives
    exp(x - reference) for the values of a piece."""
    max_thread, sum_thread = -cutlass.Float32.inf, cutlass.Float32(0.0)
    blocks = tile.config.blocks_per_row  # of a cluster: they take the pieces in turns
    rank = place.piece if blocks > 1 else 0
    # Pieces that every row has whole without looking where it ends, then the last one or two.
    for piece in range(rank, tile.whole_pieces, blocks):
        max_thread, sum_thread = with_piece(max_thread, sum_thread, terms, tile, mX, place, piece, tile.vectors)
    for piece in cutlass.range_constexpr(tile.whole_pieces, tile.pieces):
        if blocks == 1 or rank == piece % blocks:
            max_thread, sum_thread = with_piece(max_thread, sum_thread, terms, tile, mX, place, piece, tile.certain)
    return max_thread, sum_thread


def with_piece(max_old, sum_old, terms, tile, mX, place, piece, certain):
    """The pair with one more piece of the row, in which each thread's first `certain` vectors are. First comes the piece's maximum:
    then it is one exponential an element, and one for the sum so far."""
    rX = tile.load(mX, place._replace(piece=piece), fill=-math.inf, certain=certain)
    max_new = thread_max(rX, max_old)
    reference = finite_or_zero(max_new)
    scaled = sum_old * exp_flushed(max_old - reference)
    return max_new, thread_reduce(terms(rX, reference), cute.ReductionOp.ADD, scaled)


def warp_max_sum(tile, max_thread, sum_thread, dtype):
    """The pair of a row's lanes in this warp from the pairs of each, in every lane; of values of `dtype`."""
    width = min(tile.threads_per_row, 32)
    max_warp = warp_reduce(max_thread, cute.arch.fmax, width)
    difference = max_thread - finite_or_zero(max_warp)
    factor = exp_flushed(difference) if dtype.width < 32 else exp(difference)
    return max_warp, warp_reduce(sum_thread * factor, operator.add, width)


class SharedRow(RowPipeline):
    """A block's only row, or its part of one, that comes to shared memory and is read there a few vectors at a time: in `pieces`,
    a tile of `AT_ONCE` elements a thread. Without stages rows are in registers, and there is nothing here."""

    def __init__(self, dtype, tile):
        super().__init__(dtype, tile, tensors=1, stages=tile.config.stages)
        self.width = tile.width  # none of its threads reads past that
        if self.stages:
            if self.last_is_shorter:
                tile.config.refuse(f"a row of {tile.N} elements has no equal pieces, so stages must be 0")
            of_part = replace(tile.config, blocks_per_row=1, stages=0, vectors_at_once=AT_ONCE // tile.vector_size)
            self.pieces = RowTile(dtype, tile.width, "aligned", of_part)

    def row(self, arriving):
        """The block's part of the row, in shared memory: (1, width)."""
        return cute.make_tensor(arriving.sX.iterator, cute.make_layout((1, self.width)))

    def part_of(self, mX, place):
        """The same part of the row in global memory: mX from where it begins, so that it is in row 0."""
        return cute.domain_offset((cutlass.Int64(place.row), place.piece * self.width), mX)

    def place(self, piece, place):
        """Where this thread, whose `place` in the row is given, is in a `piece` of the part."""
        return Place(0, True, piece, place.thread_in_row, 0, self.width)

    def warp_max_sum(self, sX, place, terms):
        """(max, sum) of what this warp reads of the part `sX`, in every lane; `terms` as in `online_max_sum`."""
        return warp_max_sum(self.tile, *online_max_sum(self.pieces, sX, self.place(0, place), terms), self.dtype)


class ExponentialKernel(RowKernel):
    """What kernels on exponentials of a row share: how its warps exchange (max, sum), and how they write what is `finished`."""

    def __init__(self, dtype, N, promise="aligned", **given):
        super().__init__(dtype, N, promise, **given)
        self.exchange = RowExchange(self.config, values=2)
        self.shared, self.exp_scale = SharedRow(dtype, self.tile), exp_scale(dtype)

    def terms(self, rX, reference):
        """e^(x - reference) for each x of a register tensor, as `exp_scaled`."""
        return exp_scaled(as_float32(rX) - reference, self.exp_scale)

    def finished(self, tile, terms, factor, target):
        """A tile's results from its exponentials, of a row whose `target` may be given."""
        return terms * factor

    def write_held(self, tXrX, terms, inverse, factor, mO, place, target=None):
        """Write a row that is in registers, with both factors of `quotient_factors`."""
        terms = terms if inverse is None else terms * inverse
        tXrX.store(self.finished(self.tile, terms, factor, target).to(self.dtype))
        self.tile.store(tXrX, mO, place)

    @cute.jit
    def write_shared(self, sX, max_row, factor, mPart, place, target=None):
        """Write the part of a row that is in shared memory, `sX`, to mPart: it is read again, a few vectors at a time."""
        for piece in range(self.shared.pieces.pieces):
            at = self.shared.place(piece, place)
            rX = self.shared.pieces.load(sX, at)
            rX.store(self.finished(self.shared.pieces, self.terms(rX, max_row), factor, target).to(self.dtype))
            self.shared.pieces.store(rX, mPart, at)
