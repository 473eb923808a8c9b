"""A block's sum with one barrier, to be broken."""

import cutlass
import cutlass.cute as cute


class BlockSum:
    """128 numbers, four warps, every thread gets the sum."""

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor):
        self.kernel(mX, mO).launch(grid=[1, 1, 1], block=[128, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(4), 16)
        total = mX[tidx]
        for i in cutlass.range_constexpr(5):
            total += cute.arch.shuffle_sync_bfly(total, offset=1 << i)
        if lane == 0:
            buffer[warp] = total
        cute.arch.barrier()
        mO[tidx] = buffer[0] + buffer[1] + buffer[2] + buffer[3]
