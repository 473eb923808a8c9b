"""Sums of rows of 32, in several orders; and rows whose bits depend on something else than the row."""

import operator

import cutlass
import cutlass.cute as cute

from .formulas import reduced
from .written import write

write(globals(), parameters="mX, mO", host="")('''
in_a_chain:
    if lane == 0:
        total = cutlass.Float32(0.0)
        for k in cutlass.range(32):
            total = total + mX[block, k]
        mO[block] = total
in_a_tree: mO[block] = reduced(mX[block, lane], operator.add)
rescaled:
    """Two partial sums, of which one is rescaled before they are added."""
    x = cute.math.exp(mX[block, lane])
    for i in range(4):
        x = x + cute.arch.shuffle_sync_bfly(x, offset=1 << i)
    mO[block] = cute.arch.shuffle_sync(x, 0) * cute.math.exp(mX[block, 0]) + cute.arch.shuffle_sync(x, 16)
beside_a_neighbour:
    """Softmax's sum, less the maximum of all rows that this block has: right, and its bits are the batch's."""
    largest = mX[block, lane]
    for k in cutlass.range(mX.shape[0]):
        largest = cute.arch.fmax(largest, mX[k, lane])
    largest = reduced(largest, cute.arch.fmax)
    mO[block] = reduced(cute.math.exp(mX[block, lane] - largest), operator.add)
by_atomics:
    """Sums of columns, row after row as they come."""
    cute.arch.atomic_add(mO.iterator + lane, mX[block, lane])
''')


def of_rows(kernel, of_few=None):
    """A host function with a block a row; of fewer than four rows it launches `of_few`, if that is given."""

    @cute.jit
    def host(mX: cute.Tensor, mO: cute.Tensor):
        if cutlass.const_expr(of_few is not None and mX.shape[0] < 4):
            of_few(mX, mO).launch(grid=[mX.shape[0], 1, 1], block=[32, 1, 1])
        else:
            kernel(mX, mO).launch(grid=[mX.shape[0], 1, 1], block=[32, 1, 1])

    return host


def of_so_many_rows(kernel):
    """A host function that is told how many rows there are."""

    @cute.jit
    def host(mX: cute.Tensor, mO: cute.Tensor, rows: cutlass.Int32):
        kernel(mX, mO).launch(grid=[rows, 1, 1], block=[32, 1, 1])

    return host
