"""A kernel whose blocks all load weights and of which one uses them."""

import cutlass
import cutlass.cute as cute


@cute.kernel
def weights_kernel(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    weight = x[tidx]
    total = cutlass.Float32(0.0)
    if block == 0:
        total = weight
    out[block, tidx] = total


@cute.jit
def weights_of_one_block(x: cute.Tensor, out: cute.Tensor):
    weights_kernel(x, out).launch(grid=[4, 1, 1], block=[32, 1, 1])
