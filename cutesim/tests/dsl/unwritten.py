"""Kernels in which numbers that nobody wrote are compared, or decide how far a loop goes; and right ones that discard them."""

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32


class Slots:
    """A maximum or minimum over 32 slots in shared memory, of which two have been written."""

    def __init__(self, least=False, guarded=False):
        self.least, self.guarded = least, guarded

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[64, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, warp, lane = cute.arch.thread_idx()[0], cute.arch.warp_idx(), cute.arch.lane_idx()
        slots = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32))
        best = -cute.arch.warp_reduction_max(-x[tidx]) if self.least else cute.arch.warp_reduction_max(x[tidx])
        if lane == 0:
            slots[warp] = best
        cute.arch.barrier()
        mine = slots[lane]  # here
        if cutlass.const_expr(self.guarded):
            mine = mine if lane < 2 else best
        if cutlass.const_expr(self.least):
            out[tidx] = -cute.arch.warp_reduction_max(-mine)
        else:
            out[tidx] = cute.arch.warp_reduction_max(mine)


class Compared:
    """A register that was never written is compared with x, or is a condition or the bound of a loop."""

    def __init__(self, how, dtype=Float32, guarded=False):
        self.how, self.dtype, self.guarded = how, dtype, guarded

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx = cute.arch.thread_idx()[0]
        held = cute.make_rmem_tensor(1, self.dtype)
        if cutlass.const_expr(self.guarded):
            held[0] = self.dtype(3)
        said = Int32(0)
        if cutlass.const_expr(self.how == "loop"):
            for _ in range(held[0]):  # here
                said += 1
        elif cutlass.const_expr(self.how == "index"):
            if held[0] < 32:  # here
                said = x[held[0]].to(Int32)
        elif cutlass.const_expr(self.how == "flag"):
            if held[0]:  # here
                said = Int32(1)
        elif cutlass.const_expr(self.how == "above"):
            if x[tidx] > held[0].to(Float32):  # here
                said = Int32(1)
        else:
            if x[tidx] < held[0].to(Float32):  # here
                said = Int32(1)
        out[tidx] = said


class Flag:
    """A word of shared memory that was never written, unless `guarded`, says whether to write."""

    def __init__(self, looked_for, guarded=False):
        self.looked_for, self.guarded = looked_for, guarded

    @cute.jit
    def __call__(self, out: cute.Tensor):
        self.kernel(out).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, out: cute.Tensor):
        flag = cutlass.memory.SmemAllocator().allocate_tensor(Int32, cute.make_layout(1))
        if cutlass.const_expr(self.guarded):
            flag[0] = 7
            cute.arch.sync_warp()
        if flag[0] == self.looked_for:  # here
            out[0] = 1


FLOATS_AND_INTEGERS = (Float32, cutlass.Float16, cutlass.BFloat16, Int32, cutlass.Int64, cutlass.Int16, cutlass.Uint32)
