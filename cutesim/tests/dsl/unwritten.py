"""Kernels in which numbers that nobody wrote are compared, or decide how far a loop goes; and right ones that discard them."""

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32

from .hosts import launched, one_warp
from .written import write

FLOATS_AND_INTEGERS = (Float32, cutlass.Float16, cutlass.BFloat16, Int32)
FLOATS_AND_INTEGERS += (cutlass.Int64, cutlass.Int16, cutlass.Uint32)


write(globals())('''
shared_slots(x, out, *, least=False, guarded=False) @launched(64):
    """A maximum or minimum over 32 slots in shared memory, of which two have been written."""
    tidx, warp, lane = cute.arch.thread_idx()[0], cute.arch.warp_idx(), cute.arch.lane_idx()
    slots = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32))
    best = -cute.arch.warp_reduction_max(-x[tidx]) if least else cute.arch.warp_reduction_max(x[tidx])
    if lane == 0:
        slots[warp] = best
    cute.arch.barrier()
    mine = slots[lane]  # here
    if cutlass.const_expr(guarded):
        mine = mine if lane < 2 else best
    if cutlass.const_expr(least):
        out[tidx] = -cute.arch.warp_reduction_max(-mine)
    else:
        out[tidx] = cute.arch.warp_reduction_max(mine)
compares(x, out, *, how, dtype=Float32, guarded=False):
    """A register that was never written is compared with x, or is a condition or the bound of a loop."""
    tidx = cute.arch.thread_idx()[0]
    held = cute.make_rmem_tensor(1, dtype)
    if cutlass.const_expr(guarded):
        held[0] = dtype(3)
    said = Int32(0)
    if cutlass.const_expr(how == "loop"):
        for _ in range(held[0]):  # here
            said += 1
    elif cutlass.const_expr(how == "index"):
        if held[0] < 32:  # here
            said = x[held[0]].to(Int32)
    elif cutlass.const_expr(how == "flag"):
        if held[0]:  # here
            said = Int32(1)
    elif cutlass.const_expr(how == "above"):
        if x[tidx] > held[0].to(Float32):  # here
            said = Int32(1)
    else:
        if x[tidx] < held[0].to(Float32):  # here
            said = Int32(1)
    out[tidx] = said
flagged(out, *, looked_for, guarded=False):
    """A word of shared memory that was never written, unless `guarded`, says whether to write."""
    flag = cutlass.memory.SmemAllocator().allocate_tensor(Int32, cute.make_layout(1))
    if cutlass.const_expr(guarded):
        flag[0] = 7
        cute.arch.sync_warp()
    if flag[0] == looked_for:  # here
        out[0] = 1
''')
