"""Kernels in which one thread hands over to another, by a flag, a lock or an mbarrier: right, or with one thing missing."""

import cutlass
import cutlass.cute as cute
from cutlass import Int32
from cutlass.experimental import primitives

from .hosts import launched, one_warp
from .written import write


def placed(grid, block):
    """Nothing but a launch of this shape."""

    @cute.jit
    def host(x: cute.Tensor):
        nothing(x).launch(grid=grid, block=block)

    return host


@cute.kernel
def nothing(x: cute.Tensor):
    x[0] = 1


write(globals())('''
raised(flag, d, out, *, release='gpu', acquire='gpu', word='store', sync=True, order='release') @launched(32, blocks=2):
    """Block 0 writes d and sets a flag, block 1 waits for it and reads d; each side with a scope, or a fence of gpu scope."""
    if block == 0:
        d[lane] = lane
        if cutlass.const_expr(sync):
            cute.arch.sync_warp()
        if lane == 0:
            if cutlass.const_expr(word == "store"):
                cute.arch.store(flag.iterator, Int32(1), sem=order, scope=release)  # release
            else:
                cute.arch.atomic_exch(flag.iterator, Int32(1), sem="release", scope=release)  # release
    else:
        if lane == 0:
            seen = Int32(0)
            while seen == 0:
                seen = cute.arch.load(flag.iterator, Int32, sem="acquire", scope=acquire)  # acquire
        cute.arch.sync_warp()
        out[lane] = d[31 - lane]
locked(lock, total, *, after=True, before=True, stored=False) @launched(32, blocks=3):
    """Each block adds 1 to a total that a lock guards; `stored`, and an ordinary store gives the lock back."""
    if cute.arch.thread_idx()[0] == 0:
        held = Int32(1)
        while held != 0:
            held = cute.arch.atomic_cas(lock.iterator, cmp=Int32(0), val=Int32(1))  # acquire
        if cutlass.const_expr(after):
            cute.arch.fence_acq_rel_gpu()
        total[0] = total[0] + 1
        if cutlass.const_expr(before):
            cute.arch.fence_acq_rel_gpu()
        if cutlass.const_expr(stored):
            lock[0] = 0  # gives back
        else:
            cute.arch.atomic_exch(lock.iterator, Int32(0))  # release
asked(out, *, answer='heeded', test=False) @launched(64):
    """Warp 0 writes and arrives, warp 1 asks whether it has and reads: does it look at the answer, and does it heed it?"""
    words = smem.allocate_tensor(Int32, cute.make_layout(32))
    mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 32)
    cute.arch.barrier()
    if tidx < 32:
        words[lane] = lane
        cute.arch.mbarrier_arrive(mbar)
    else:
        if cutlass.const_expr(test):
            there = cute.arch.mbarrier_test_wait(mbar, 0)
        else:
            there = cute.arch.mbarrier_try_wait(mbar, 0)
        if cutlass.const_expr(answer == "until"):
            while not there:
                there = cute.arch.mbarrier_try_wait(mbar, 0)
        if cutlass.const_expr(answer == "heeded"):
            if there:
                out[lane] = words[31 - lane]
        else:
            if cutlass.const_expr(answer == "noted"):
                if there:
                    out[lane] = -1
            if cutlass.const_expr(answer == "made good"):
                if not there:
                    cute.arch.mbarrier_wait(mbar, 0)
            out[lane] = words[31 - lane]
count_each(count, *, scope, too_fast=False) @launched(64, blocks='count.shape[0]'):
    """Each block adds 1 to one count, by an atomic of this scope; `too_fast`, and its warps have a race of their own."""
    cute.arch.atomic_add(count.iterator, Int32(1), scope=scope)
    s = cutlass.memory.SmemAllocator().allocate_tensor(Int32, cute.make_layout(64))
    s[tidx] = 0
    if cutlass.const_expr(too_fast):
        count[1] = s[tidx ^ 1]
counted_then_read(count, out, *, heeds) @launched(64):
    """Two warps add to a count, and the second reads the count as an ordinary word; does it look at what its atomic gives?"""
    if tidx % 32 == 0:
        if cutlass.const_expr(heeds):
            before = cute.arch.atomic_add(count.iterator, Int32(1))
            if before == 1:
                out[0] = count[0]
        else:
            cute.arch.atomic_add(count.iterator, Int32(1))
            if tidx == 32:
                out[0] = count[0]
row_each(x, out, *, arrivals=4, nbytes=128, one_row=False):
    """Four lanes start a bulk copy each, of a row of x to a row of shared memory, and back to a row of out."""
    rows = smem.allocate_tensor(cutlass.Float32, cute.make_layout((4, 32), stride=(32, 1)), 128)
    mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
    if lane == 0:
        cute.arch.mbarrier_init(mbar, arrivals)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_warp()
    load = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), cutlass.Float32)
    store = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkS2GOp(), cutlass.Float32)
    if lane < 4:
        row = 0 if cutlass.const_expr(one_row) else lane
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, nbytes)
        cute.copy(load, x[lane, None], rows[row, None], mbar_ptr=mbar)  # loads
    cute.arch.mbarrier_wait(mbar, 0)
    if lane < 4:
        cute.copy(store, rows[lane, None], out[lane, None])
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0)
peer(x, out, *, closing='cluster_arrive', waits=1) @launched(32, blocks=2, cluster=2):
    """Each of two blocks reads the other's shared memory between cluster barriers."""
    held = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(32))
    held[lane] = x[rank, lane]
    cute.arch.cluster_arrive()
    for _ in cutlass.range_constexpr(waits):
        cute.arch.cluster_wait()  # waits
    theirs = cute.make_rmem_tensor(1, cutlass.Float32)
    place = cute.arch.map_dsmem_ptr(held.iterator + lane, rank ^ 1)
    cute.autovec_copy(cute.make_tensor(place, cute.make_layout(1)), theirs)
    if cutlass.const_expr(closing == "cluster_arrive"):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
    elif cutlass.const_expr(closing == "cluster_arrive_relaxed"):
        cute.arch.cluster_arrive_relaxed()  # closes
        cute.arch.cluster_wait()
    out[rank, lane] = theirs[0]
told(x, out, *, scope=None, relaxed=False) @launched(32, blocks=2, cluster=2):
    """Block 1 writes into block 0's shared memory and arrives at its mbarrier, with a scope; block 0 waits and reads."""
    held = smem.allocate_tensor(cutlass.Float32, cute.make_layout(32))
    mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
    if lane == 0:
        cute.arch.mbarrier_init(mbar, 32)
        cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    if rank == 1:
        primitives.mapa(held.iterator + lane, 0).store(x[lane])
        primitives.mbarrier_arrive(primitives.mapa(mbar, 0), scope=scope, relaxed=relaxed)  # arrives
    else:
        cute.arch.mbarrier_wait(mbar, 0)
        out[lane] = held[31 - lane]
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
counted(out, *, enough) @launched(64):
    """32 lanes write and count themselves, and a thread of another warp reads once it has seen so many."""
    words, count = (smem.allocate_tensor(Int32, cute.make_layout(n)) for n in (32, 1))
    if tidx == 0:
        count[0] = 0
    cute.arch.barrier()
    if tidx < 32:
        words[lane] = lane
        cute.arch.fence_acq_rel_cta()
        cute.arch.atomic_add(count.iterator, Int32(1))
    elif tidx == 32:
        seen = Int32(0)
        while seen < enough:
            seen = cute.arch.atomic_or(count.iterator, Int32(0))
        cute.arch.fence_acq_rel_cta()
        out[0] = words[31]
''')
