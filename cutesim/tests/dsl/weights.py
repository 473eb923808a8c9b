"""Kernels whose loads matter in some blocks, or in some places, only."""

import cutlass
import cutlass.cute as cute

from .hosts import launched


@launched(32, blocks=4)
@cute.kernel
def weights_of_one_block(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    weight = x[tidx]
    total = cutlass.Float32(0.0)
    if block == 0:
        total = weight
    out[block, tidx] = total


@launched(32)
@cute.kernel
def last_of_four(x: cute.Tensor, out: cute.Tensor):
    """Each of 32 threads stores 0, 0, 0 and its number of x, as one vector."""
    tidx, _, _ = cute.arch.thread_idx()
    four = cute.make_rmem_tensor(4, cutlass.Float32)
    four.fill(0.0)
    four[3] = x[tidx]
    cute.autovec_copy(four, cute.make_tensor((out.iterator + 4 * tidx).align(16), cute.make_layout(4)))
