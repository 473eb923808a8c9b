"""Sums of rows of 32, in several orders; and rows whose bits depend on something else than the row."""

import operator

import cutlass
import cutlass.cute as cute

from .formulas import reduced


@cute.kernel
def in_a_chain(mX: cute.Tensor, mO: cute.Tensor):
    lane, row = cute.arch.thread_idx()[0], cute.arch.block_idx()[0]
    if lane == 0:
        total = cutlass.Float32(0.0)
        for k in cutlass.range(32):
            total = total + mX[row, k]
        mO[row] = total


@cute.kernel
def in_a_tree(mX: cute.Tensor, mO: cute.Tensor):
    lane, row = cute.arch.thread_idx()[0], cute.arch.block_idx()[0]
    mO[row] = reduced(mX[row, lane], operator.add)


@cute.kernel
def rescaled(mX: cute.Tensor, mO: cute.Tensor):
    """Two partial sums, of which one is rescaled before they are added."""
    lane, row = cute.arch.thread_idx()[0], cute.arch.block_idx()[0]
    x = cute.math.exp(mX[row, lane])
    for i in range(4):
        x = x + cute.arch.shuffle_sync_bfly(x, offset=1 << i)
    mO[row] = cute.arch.shuffle_sync(x, 0) * cute.math.exp(mX[row, 0]) + cute.arch.shuffle_sync(x, 16)


@cute.kernel
def beside_a_neighbour(mX: cute.Tensor, mO: cute.Tensor):
    """Softmax's sum, less the maximum of all rows that this block has: right, and its bits are the batch's."""
    lane, row = cute.arch.thread_idx()[0], cute.arch.block_idx()[0]
    largest = mX[row, lane]
    for k in cutlass.range(mX.shape[0]):
        largest = cute.arch.fmax(largest, mX[k, lane])
    largest = reduced(largest, cute.arch.fmax)
    mO[row] = reduced(cute.math.exp(mX[row, lane] - largest), operator.add)


@cute.kernel
def by_atomics(mX: cute.Tensor, mO: cute.Tensor):
    """Sums of columns, row after row as they come."""
    lane, row = cute.arch.thread_idx()[0], cute.arch.block_idx()[0]
    cute.arch.atomic_add(mO.iterator + lane, mX[row, lane])


@cute.jit
def by_the_number_of_rows(mX: cute.Tensor, mO: cute.Tensor):
    if cutlass.const_expr(mX.shape[0] < 4):
        in_a_chain(mX, mO).launch(grid=[mX.shape[0], 1, 1], block=[32, 1, 1])
    else:
        in_a_tree(mX, mO).launch(grid=[mX.shape[0], 1, 1], block=[32, 1, 1])


def of_rows(kernel):
    @cute.jit
    def host(mX: cute.Tensor, mO: cute.Tensor):
        kernel(mX, mO).launch(grid=[mX.shape[0], 1, 1], block=[32, 1, 1])

    return host
