"""cp.async by every thread of a warp, some of which are off."""

import cutlass
import cutlass.cute as cute

from .hosts import one_warp
from .written import write

write(globals())('''
partly_off(mX, mO, *, below):
    """One row of 32 floats over sevens with cp.async, which is on for the lanes below `below`."""
    sX = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout((1, 32)), 16)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), cutlass.Float32, num_bits_per_copy=32)
    thread, value = cute.make_ordered_layout((1, 32), order=(1, 0)), cute.make_layout((1, 1))
    thr_copy = cute.make_tiled_copy_tv(atom, thread, value).get_slice(tidx)
    pred = cute.make_rmem_tensor((1, 1), cutlass.Boolean)
    pred[0, 0] = tidx < below
    sX[0, tidx] = 7.0
    cute.copy(atom, thr_copy.partition_S(mX), thr_copy.partition_D(sX), pred=pred)
    cute.arch.cp_async_commit_group()
    cute.arch.cp_async_wait_group(0)
    mO[0, tidx] = sX[0, tidx]
''')
