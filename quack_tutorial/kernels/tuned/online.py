"""The maximum and the sum of exponentials of a row in one pass, as the row goes past a thread a few vectors at a time.

The loop of chapter 9's `in flight` and of chapter 8's `read twice`, over the pieces of a `RowTile`. A thread has the
row's values in registers only while it adds them, so that their number does not depend on N. The row comes from global
memory (cross-entropy's loss, which needs it once) or from shared memory (softmax, which then reads it again).
"""

import math
import operator

import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.reduce import exp, exp_flushed, finite_or_zero, thread_reduce, warp_reduce
from quack_tutorial.kernels.tuned.arithmetic import as_float32, exp_scaled, exp_terms, thread_max


@cute.jit
def online_max_sum(tile, mX, place, scale: cutlass.Constexpr = 0, for_logarithm: cutlass.Constexpr = False):
    """This thread's (max, sum of exp(x - max)) of its row of mX, whose pieces, all of them, are this thread's to go through.

    The terms are those of `exp_scaled` with `scale`, or those of `exp_terms` if the sum is only used `for_logarithm`.
    """
    max_thread, sum_thread = -cutlass.Float32.inf, cutlass.Float32(0.0)
    # Pieces that every row has whole without looking where it ends, then the last one or two.
    for piece in range(tile.whole_pieces):
        at = in_piece(place, piece)
        max_thread, sum_thread = add_piece(tile, mX, at, tile.vectors, scale, for_logarithm, max_thread, sum_thread)
    for piece in cutlass.range_constexpr(tile.whole_pieces, tile.pieces):
        at = in_piece(place, piece)
        max_thread, sum_thread = add_piece(tile, mX, at, tile.certain, scale, for_logarithm, max_thread, sum_thread)
    return max_thread, sum_thread


def in_piece(place, piece):
    """The same place in another piece of its row."""
    return place._replace(piece=piece)


@cute.jit
def add_piece(
    tile,
    mX,
    place,
    certain: cutlass.Constexpr,
    scale: cutlass.Constexpr,
    for_logarithm: cutlass.Constexpr,
    max_old,
    sum_old,
):
    """The pair with this thread's vectors of one piece, the first `certain` of them in the row."""
    rX = tile.load(mX, place, fill=-math.inf, certain=certain)
    # The piece's maximum first: then one exponential an element, and one for the sum so far.
    max_new = thread_max(rX, max_old)
    reference = finite_or_zero(max_new)
    scaled = sum_old * exp_flushed(max_old - reference)
    if cutlass.const_expr(for_logarithm):
        terms = exp_terms(rX, reference)
    else:
        terms = exp_scaled(as_float32(rX) - reference, scale)
    return max_new, thread_reduce(terms, cute.ReductionOp.ADD, scaled)


def warp_max_sum(tile, max_thread, sum_thread, dtype):
    """The pair of a row's lanes in this warp from the pairs of each, in every lane; of values of `dtype`."""
    width = min(tile.threads_per_row, 32)
    max_warp = warp_reduce(max_thread, cute.arch.fmax, width)
    difference = max_thread - finite_or_zero(max_warp)
    factor = exp_flushed(difference) if dtype.width < 32 else exp(difference)
    return max_warp, warp_reduce(sum_thread * factor, operator.add, width)
