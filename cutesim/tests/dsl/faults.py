"""Kernels with one fault each that depends on order, and, with bug=False, without it. A finding names lines marked `# here`."""

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64

from .hosts import Constexpr, launched
from .written import write

FAULTS = write(globals())('''
shuffle_as_barrier(x, out, *, bug) @launched(32):
    """A shuffle where a sync_warp is needed."""
    s = smem.allocate_tensor(Float32, cute.make_layout(32), 16)
    value = x[tidx]
    s[tidx] = value  # here
    value = cute.arch.shuffle_sync_bfly(value, 16)
    if cutlass.const_expr(not bug):
        cute.arch.sync_warp()
    out[tidx] = s[31 - tidx] + value  # here
two_writers(x, out, *, bug) @launched(64):
    """Two threads write one word of shared memory."""
    s = smem.allocate_tensor(Float32, cute.make_layout(64), 16)
    place = tidx // 2 if cutlass.const_expr(bug) else tidx
    s[63 - tidx] = 0.0
    cute.arch.barrier()
    s[place] = x[tidx]  # here
    cute.arch.barrier()
    out[tidx] = s[63 - tidx]
histogram(x, out, *, bug) @launched(96, blocks=3):
    """A sum that many threads make without an atomic."""
    counts = smem.allocate_tensor(Int32, cute.make_layout(16), 16)
    if tidx < 16:
        counts[tidx] = 0
    cute.arch.barrier()
    bucket = x[bidx * 96 + tidx]
    if cutlass.const_expr(bug):
        counts[bucket] = counts[bucket] + 1  # here
    else:
        cute.arch.atomic_add((counts.iterator + bucket).llvm_ptr, Int32(1))
    cute.arch.barrier()
    if tidx < 16:
        cute.arch.atomic_add((out.iterator + tidx).llvm_ptr, counts[tidx])
turned(x, out, *, bug) @launched(32):
    """Each four threads turn a 4 x 4 square; vectors of neighbouring threads overlap where they are stored."""
    r, turned_ = (cute.make_rmem_tensor((4,), Float32) for _ in range(2))
    cute.autovec_copy(cute.local_tile(x, (4,), (tidx,)), r)
    place = tidx % 4
    for k in cutlass.range_constexpr(4):
        source = (tidx & ~3) | k
        for j in cutlass.range_constexpr(4):
            got = cute.arch.shuffle_sync(r[j], source)
            if place == j:
                turned_[k] = got
    if cutlass.const_expr(bug):
        cute.autovec_copy(turned_, cute.make_tensor(out.iterator + tidx, cute.make_layout(4)))  # here
    else:
        cute.autovec_copy(turned_, cute.local_tile(out, (4,), (tidx,)))
rolling_stages(x, out, *, bug) @launched(64):
    """No barrier after the wait for one's own copies."""
    stages, tiles = 3, 6
    s = smem.allocate_tensor(Float32, cute.make_layout((64, stages)), 16)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), Float32, num_bits_per_copy=32)
    def fetch(tile, stage):
        source = cute.make_tensor(x.iterator + (tile * 64 + tidx), cute.make_layout(1))
        target = cute.make_tensor(s.iterator + (stage * 64 + tidx), cute.make_layout(1))
        cute.copy(atom, source, target)  # here
    for k in cutlass.range_constexpr(stages - 1):
        fetch(k, k)
        cute.arch.cp_async_commit_group()
    total = Float32(0.0)
    for k in cutlass.range_constexpr(tiles):
        cute.arch.cp_async_wait_group(stages - 2)
        if cutlass.const_expr(not bug):
            cute.arch.barrier()
        total += s[63 - tidx, k % stages]  # here
        if cutlass.const_expr(k + stages - 1 < tiles):
            fetch(k + stages - 1, (k + stages - 1) % stages)
        cute.arch.cp_async_commit_group()
    out[tidx] = total
unpublished_init(x, out, *, bug) @launched(64):
    """An mbarrier that is used before its init is published."""
    full = smem.allocate_array(Int64, 1, byte_alignment=8)
    if t == 0:
        cute.arch.mbarrier_init(full, 64)  # here
        cute.arch.mbarrier_init_fence()
    if cutlass.const_expr(bug):
        cute.arch.sync_warp()
    else:
        cute.arch.barrier()
    cute.arch.mbarrier_arrive(full)  # here
    cute.arch.mbarrier_wait(full, 0)  # here
    out[t] = x[t]
exits_too_early(x, out, *, bug) @launched(32, blocks=2, cluster=2):
    """Each block writes to the other's shared memory; with the bug, without waiting for the other to be done."""
    mbar = smem.allocate_array(Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout(4), byte_alignment=16)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, 4)
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    value = x[rank * 32 + tidx]
    if tidx == 0:
        cute.arch.store_async_dsmem(s.iterator, value.bitcast(Int32), mbar, 1 - rank)  # here
    if cutlass.const_expr(not bug):
        cute.arch.mbarrier_wait(mbar, 0)
    out[rank * 32 + tidx] = value
''')
