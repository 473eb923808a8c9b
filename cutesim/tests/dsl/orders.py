"""Small kernels that go wrong in one order among many, and correct ones much like them.

`launched` gives a host function of each.
"""

import cutlass
import cutlass.cute as cute

from .hosts import Constexpr, initialise
from .written import write


def launched(kernel, warps=2, blocks=1, cluster=None):
    name, *constants = kernel if isinstance(kernel, tuple) else (kernel.__name__,)
    body = globals()[name]
    options = {"cluster": [cluster, 1, 1]} if cluster else {}

    @cute.jit
    def host(x):
        body(x, *constants).launch(grid=[blocks, 1, 1], block=[32 * warps, 1, 1], **options)

    return host


write(globals(), parameters="x", host="")('''
sleeper(x, *, says_so_first):
    """Warp 0 looks whether there is work and, if not, sleeps; warp 1 puts work there and wakes a sleeper. Where warp 0 says
    that it sleeps only after it has looked, warp 1 may come between the two, and nobody wakes warp 0."""
    mbar = smem.allocate_array(cutlass.Int64, 1)
    tid, _, _ = cute.arch.thread_idx()
    initialise(mbar, 1)
    if tid < 32:
        if cutlass.const_expr(says_so_first):
            if tid == 0:
                cute.arch.atomic_exch(x.iterator + 1, cutlass.Int32(1))
        work = cute.arch.atomic_or(x.iterator, cutlass.Int32(0))
        if work == 0:
            if cutlass.const_expr(not says_so_first):
                if tid == 0:
                    cute.arch.atomic_exch(x.iterator + 1, cutlass.Int32(1))
            cute.arch.mbarrier_wait(mbar, 0)
    elif tid == 32:
        cute.arch.atomic_exch(x.iterator, cutlass.Int32(1))
        asleep = cute.arch.atomic_or(x.iterator + 1, cutlass.Int32(0))
        if asleep == 1:
            cute.arch.mbarrier_arrive(mbar)
ring:
    """Warp 0 fills one of two stages, warps 1 and 2 read it; the second reader of a stage frees it."""
    full = smem.allocate_array(cutlass.Int64, 2)
    empty = smem.allocate_array(cutlass.Int64, 2)
    stage = smem.allocate_tensor(cutlass.Int32, cute.make_layout(2))
    tid, _, _ = cute.arch.thread_idx()
    if tid == 0:
        for s in cutlass.range_constexpr(2):
            cute.arch.mbarrier_init(full + s, 1)
            cute.arch.mbarrier_init(empty + s, 2)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    if tid < 32:
        for i in cutlass.range_constexpr(3):
            cute.arch.mbarrier_wait(empty + i % 2, (i // 2 + 1) % 2)
            if tid == 0:
                stage[i % 2] = i + 1
                cute.arch.mbarrier_arrive(full + i % 2)
    else:
        for i in cutlass.range_constexpr(3):
            cute.arch.mbarrier_wait(full + i % 2, i // 2 % 2)
            if tid % 32 == 0:
                x[tid // 32 * 8 + i] = stage[i % 2]
                cute.arch.mbarrier_arrive(empty + i % 2)
flag(x, *, fences=True):
    """Warp 0 writes a number and raises a flag, warp 1 reads the number if the flag is up."""
    if tid == 0:
        x[8] = 42
        if cutlass.const_expr(fences):
            cute.arch.fence_acq_rel_gpu()
        cute.arch.atomic_exch(x.iterator, cutlass.Int32(1))
    elif tid == 32:
        up = cute.arch.atomic_or(x.iterator, cutlass.Int32(0))
        if cutlass.const_expr(fences):
            cute.arch.fence_acq_rel_gpu()
        if up == 1:
            x[9] = x[8]
spin(x, *, raises=True):
    """Warp 1 asks until warp 0 has raised the flag."""
    if tid == 0:
        x[8] = 42
        cute.arch.fence_acq_rel_gpu()
        cute.arch.atomic_exch(x.iterator, cutlass.Int32(1 if raises else 0))
    elif tid == 32:
        up = cute.arch.atomic_or(x.iterator, cutlass.Int32(0))
        while up == 0:
            up = cute.arch.atomic_or(x.iterator, cutlass.Int32(0))
        cute.arch.fence_acq_rel_gpu()
        x[9] = x[8]
named(x, *, wrong=False):
    """Warps 1 and 2 hand warp 0 their numbers by a barrier each; the wrong one uses a single barrier for both."""
    buffer = smem.allocate_tensor(cutlass.Int32, cute.make_layout(2))
    tid, _, _ = cute.arch.thread_idx()
    if tid < 32:
        cute.arch.barrier(barrier_id=1, number_of_threads=64)
        if tid == 0:
            x[0] = buffer[0]
        cute.arch.barrier(barrier_id=1 if wrong else 2, number_of_threads=64)
        if tid == 0:
            x[1] = buffer[1]
    elif tid < 64:
        if tid == 32:
            buffer[0] = 7
        cute.arch.barrier_arrive(barrier_id=1, number_of_threads=64)
    else:
        if tid == 64:
            buffer[1] = 8
        cute.arch.barrier_arrive(barrier_id=1 if wrong else 2, number_of_threads=64)
waits_with_either:
    """Warps 1 and 2 wait at one barrier until warp 0 has come for each; it takes warp 1 to be the first."""
    buffer = smem.allocate_tensor(cutlass.Int32, cute.make_layout(1))
    tid, _, _ = cute.arch.thread_idx()
    if tid == 32:
        buffer[0] = 7
    cute.arch.barrier(barrier_id=1, number_of_threads=64)
    if tid < 32:
        if tid == 0:
            x[0] = buffer[0]
        cute.arch.barrier(barrier_id=1, number_of_threads=64)
counts_two_ways:
    """Barrier 0 is the block's own: warps 0 and 1 alone take it for one of theirs."""
    if tid < 64:
        cute.arch.barrier(barrier_id=0, number_of_threads=64)
    cute.arch.barrier()
overtaken:
    """Two of three arrivals complete the phase: whose is the third depends on the order."""
    mbar = smem.allocate_array(cutlass.Int64, 1)
    tid, _, _ = cute.arch.thread_idx()
    initialise(mbar, 2)
    if tid % 32 == 0:
        cute.arch.mbarrier_arrive(mbar)
        if tid > 0:
            came = cute.arch.mbarrier_test_wait(mbar, 0)
            if came:
                x[tid] = 1
exchange:
    """Two blocks send each other a number by st.async."""
    mbar = smem.allocate_array(cutlass.Int64, 1)
    slot = smem.allocate_tensor(cutlass.Int32, cute.make_layout(2))
    tid, _, _ = cute.arch.thread_idx()
    rank = cute.arch.block_idx_in_cluster()
    if tid == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, 4)
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    if tid == 0:
        cute.arch.store_async_dsmem(slot.iterator, rank + 5, mbar, 1 - rank)
    cute.arch.mbarrier_wait(mbar, 0)
    if tid == 0:
        x[rank] = slot[0]
nothing:
    x[tid] = 1
barriers:
    buffer = smem.allocate_tensor(cutlass.Int32, cute.make_layout(96))
    tid, _, _ = cute.arch.thread_idx()
    for _ in cutlass.range_constexpr(4):
        buffer[tid] = x[tid]
        cute.arch.barrier()
        x[tid] = buffer[(tid + 32) % 96]
        cute.arch.barrier()
no_barrier:
    buffer = smem.allocate_tensor(cutlass.Int32, cute.make_layout(2))
    tid, _, _ = cute.arch.thread_idx()
    warp = tid // 32
    if tid % 32 == 0:
        buffer[warp] = warp + 1
    x[tid] = buffer[1 - warp]
tickets:
    """Each warp draws a ticket and counts: every order of the three atomics."""
    if tid % 32 == 0:
        old = cute.arch.atomic_add(x.iterator, cutlass.Int32(1))
        cute.arch.atomic_add(x.iterator + 1 + old, cutlass.Int32(1))
sums:
    if tid % 32 == 0:
        cute.arch.atomic_add(x.iterator, cutlass.Int32(1))
mbarrier_wraps:
    """Two phases are counted by warp 1 alone, so that warp 0 may find the parity turned back."""
    mbar = smem.allocate_array(cutlass.Int64, 1)
    tid, _, _ = cute.arch.thread_idx()
    initialise(mbar, 1)
    if tid < 32:
        cute.arch.mbarrier_wait(mbar, 0)
    elif tid == 32:
        cute.arch.mbarrier_arrive(mbar)
        cute.arch.mbarrier_arrive(mbar)
tests_once:
    """Warp 0 asks once whether warp 1 has arrived: both answers are legal."""
    mbar = smem.allocate_array(cutlass.Int64, 1)
    tid, _, _ = cute.arch.thread_idx()
    initialise(mbar, 1)
    if tid == 0:
        came = cute.arch.mbarrier_test_wait(mbar, 0)
        if came:
            x[0] = 1
    elif tid == 32:
        cute.arch.mbarrier_arrive(mbar)
lost_update:
    """Each warp reads and writes a counter by two atomics: another may come between."""
    if tid % 32 == 0:
        old = cute.arch.atomic_or(x.iterator, cutlass.Int32(0))
        cute.arch.atomic_exch(x.iterator, old + 1)
''')
# Kernels by their names, with their constants.
wakes_too_early, sleeps_safely = ("sleeper", False), ("sleeper", True)
flag_without_fence, spin_for_ever, named_once = ("flag", False), ("spin", False), ("named", True)
