"""Kinds of bugs, each a small CuTe DSL kernel that is right with bug=False and wrong with bug=True.

`kernel(x, y, out, bug)`; six are those of `unlike_kernels`. Lines marked `# here` are those that a finding should name. Each
has a twin of its name in `twins`, line for line where the two languages allow it.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass import Float32, Int32, Int64

from validation import unlike_kernels
from validation.unlike_kernels import Case, launched, normal


def reversed_warps(x, y):
    return x.reshape(-1, 32)[:, ::-1].ravel()


@launched(threads=64)
@cute.kernel
def divergent_barrier(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    t, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    s[t] = x[t]
    if cutlass.const_expr(bug):
        if t < 48:
            cute.arch.barrier()  # here
    else:
        cute.arch.barrier()
    out[t] = s[63 - t]


@launched(threads=64)
@cute.kernel
def reused_slot(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    t, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    s[t] = x[t]
    cute.arch.barrier()
    first = s[63 - t]  # here
    if cutlass.const_expr(not bug):
        cute.arch.barrier()
    s[t] = first + first  # here
    cute.arch.barrier()
    out[t] = first + s[63 - t]


@launched(threads=32)
@cute.kernel
def missing_sync_warp(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    t, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32), 16)
    s[t] = x[t]  # here
    if cutlass.const_expr(not bug):
        cute.arch.sync_warp()
    out[t] = s[31 - t]  # here


@launched(threads=32)
@cute.kernel
def shuffle_for_order(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    t, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32), 16)
    value = x[t]
    s[t] = value  # here
    value = cute.arch.shuffle_sync_bfly(value, offset=31)
    if cutlass.const_expr(not bug):
        cute.arch.sync_warp()
    out[t] = value + s[31 - t]  # here


@launched(threads=64)
@cute.kernel
def missing_wait(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    t, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    full = smem.allocate_array(Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout(32), 16)
    if t == 0:
        cute.arch.mbarrier_init(full, 32)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    if t < 32:
        s[t] = x[t]  # here
        cute.arch.mbarrier_arrive(full)
    else:
        if cutlass.const_expr(not bug):
            cute.arch.mbarrier_wait(full, 0)
        out[t - 32] = s[63 - t]  # here


@launched(threads=64)
@cute.kernel
def wrong_bytes(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    t, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    full = smem.allocate_array(Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout(64), 128)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), Float32)
    if t == 0:
        cute.arch.mbarrier_init(full, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    if t == 0:
        cute.arch.mbarrier_arrive_and_expect_tx(full, 512 if bug else 256)  # here
    if t < 32:
        with cute.arch.elect_one():
            cute.copy(atom, x, s, mbar_ptr=full)  # here
    cute.arch.mbarrier_wait(full, 0)  # here
    out[t] = s[63 - t]


@launched(threads=64)
@cute.kernel
def unpublished_init(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    t, _, _ = cute.arch.thread_idx()
    full = cutlass.memory.SmemAllocator().allocate_array(Int64, 1, byte_alignment=8)
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


@launched(threads=64)
@cute.kernel
def wrong_count(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    t, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    full = smem.allocate_array(Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout(32), 16)
    if t == 0:
        cute.arch.mbarrier_init(full, 33 if bug else 32)  # here
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    if t < 32:
        s[t] = x[t]
        cute.arch.mbarrier_arrive(full)  # here
    else:
        cute.arch.mbarrier_wait(full, 0)  # here
        out[t - 32] = s[63 - t]


@launched(grid=(2, 1, 1), threads=32, cluster=2)
@cute.kernel
def early_remote_store(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    t, _, _ = cute.arch.thread_idx()
    rank = cute.arch.block_idx_in_cluster()
    smem = cutlass.memory.SmemAllocator()
    full = smem.allocate_array(Int64, 1, byte_alignment=8)
    box = smem.allocate_tensor(Float32, cute.make_layout(1), 16)
    if t == 0:
        cute.arch.mbarrier_init(full, 1)  # here
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(full, 4)
    if cutlass.const_expr(not bug):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
    if t == 0:
        cute.arch.store_async_dsmem(box.iterator, x[rank * 32].bitcast(Int32), full, 1 - rank)  # here
    cute.arch.mbarrier_wait(full, 0)
    out[rank * 32 + t] = box[0]
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


@launched(threads=32)
@cute.kernel
def no_wait_group(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    t, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32), 16)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), Float32, num_bits_per_copy=32)
    cute.copy(atom, cute.local_tile(x, (1,), (t,)), cute.local_tile(s, (1,), (t,)))  # here
    cute.arch.cp_async_commit_group()
    if cutlass.const_expr(not bug):
        cute.arch.cp_async_wait_group(0)
    cute.arch.barrier()
    out[t] = s[31 - t]  # here


@launched(threads=32)
@cute.kernel
def wait_group_off_by_one(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    t, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), Float32, num_bits_per_copy=32)
    for k in cutlass.range_constexpr(2):
        cute.copy(atom, cute.local_tile(x, (1,), (32 * k + t,)), cute.local_tile(s, (1,), (32 * k + t,)))  # here
        cute.arch.cp_async_commit_group()
    cute.arch.cp_async_wait_group(1)
    cute.arch.barrier()
    out[t] = s[31 - t]
    cute.arch.cp_async_wait_group(1 if bug else 0)
    cute.arch.barrier()
    out[32 + t] = s[63 - t]  # here


@launched(threads=64)
@cute.kernel
def two_writers(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    t, _, _ = cute.arch.thread_idx()
    if cutlass.const_expr(bug):
        out[t % 63] = x[t]  # here
    else:
        out[t] = x[t]


@launched(threads=64)
@cute.kernel
def equal_writers(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    t, _, _ = cute.arch.thread_idx()
    out[t] = x[t]
    cute.arch.barrier()
    if t == 0 or cutlass.const_expr(bug):
        out[0] = 1.0  # here


@launched(threads=384)
@cute.kernel
def too_many_registers(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    """A multiprocessor has 65,536 registers, too few for 232 a thread."""
    t, _, _ = cute.arch.thread_idx()
    if t < 128:
        if cutlass.const_expr(bug):
            cute.arch.setmaxregister_increase(232)  # here
        else:
            cute.arch.setmaxregister_decrease(40)
    else:
        cute.arch.setmaxregister_increase(232)  # here
    out[t] = x[t]


@launched(threads=64)
@cute.kernel
def overtaken(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    t, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    full = smem.allocate_array(Int64, 1, byte_alignment=8)
    empty = smem.allocate_array(Int64, 1, byte_alignment=8)
    if t == 0:
        cute.arch.mbarrier_init(full, 32)
        cute.arch.mbarrier_init(empty, 32)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    if t < 32:
        for k in range(3):
            if cutlass.const_expr(not bug):
                cute.arch.mbarrier_wait(empty, (k + 1) % 2)
            cute.arch.mbarrier_arrive(full)  # here
    else:
        for k in range(3):
            cute.arch.mbarrier_wait(full, k % 2)  # here
            cute.arch.mbarrier_arrive(empty)
    out[t] = x[t]


@launched(threads=64)
@cute.kernel
def lost_wakeup(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    """Warp 0 sleeps if there is no work yet; with the bug it looks before it says that it sleeps."""
    t, _, _ = cute.arch.thread_idx()
    awake = cutlass.memory.SmemAllocator().allocate_array(Int64, 1, byte_alignment=8)
    if t == 0:
        cute.arch.mbarrier_init(awake, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    if t == 0:
        if cutlass.const_expr(not bug):
            cute.arch.atomic_exch(y.iterator + 1, Int32(1))
        work = cute.arch.atomic_or(y.iterator, Int32(0))
        if work == 0:
            if cutlass.const_expr(bug):
                cute.arch.atomic_exch(y.iterator + 1, Int32(1))
            cute.arch.mbarrier_wait(awake, 0)  # here
    elif t == 32:
        cute.arch.atomic_exch(y.iterator, Int32(1))
        asleep = cute.arch.atomic_or(y.iterator + 1, Int32(0))
        if asleep == 1:
            cute.arch.mbarrier_arrive(awake)
    out[t] = x[t]


_unlike = {case.name: case for case in unlike_kernels.CASES}


def _same(x, y):
    return x


def _one_first(x, y):
    return np.concatenate([[1], x[1:]])


def _exchanged(x, y):
    return np.repeat(x.reshape(2, 32)[::-1, 0], 32)


MOST_WARPS = 6  # of a kernel that is tried in every order
NOT_LOOKED_FOR = ("two threads write one word with one value",)  # the simulator lets equal writes pass
_two = np.zeros(2, np.int32)
# kind, its case
CASES = {
    "a block barrier is missing": _unlike["transpose"],
    "a barrier in a divergent branch": Case(
        divergent_barrier, "divergent barrier", normal(64), 64, lambda x, y: x[::-1]
    ),
    "a slot is reused too early": Case(reused_slot, "race", normal(64), 64, lambda x, y: x[::-1] + 2 * x),
    "sync_warp is missing": Case(missing_sync_warp, "race", normal(32), 32, reversed_warps),
    "a shuffle is taken to order memory": Case(shuffle_for_order, "race", normal(32), 32, lambda x, y: 2 * x[::-1]),
    "an mbarrier's wait is missing": Case(missing_wait, "race", normal(32), 32, reversed_warps),
    "a wait has the wrong parity": _unlike["two_halves"],
    "an mbarrier expects too many bytes": Case(
        wrong_bytes, "mbarrier byte mismatch", normal(64), 64, lambda x, y: x[::-1]
    ),
    "an mbarrier is used before its init is published": Case(
        unpublished_init, "mbarrier not published", normal(64), 64, _same
    ),
    "an arrive count is off by one": Case(wrong_count, "deadlock", normal(32), 32, reversed_warps),
    "the proxy fence before a bulk store is missing": _unlike["bulk_store"],
    "a remote store comes before the peer's init": Case(
        early_remote_store, "mbarrier not initialised", normal(64), 64, _exchanged
    ),
    "a block ends while its peer still reads": _unlike["reads_the_peer"],
    "cp.async is read without wait_group": Case(no_wait_group, "read before arrival", normal(32), 32, reversed_warps),
    "wait_group is off by one": Case(wait_group_off_by_one, "read before arrival", normal(64), 64, reversed_warps),
    "an access is out of bounds by one": _unlike["grid_stride"],
    "two threads write one word": Case(two_writers, "race", normal(64), 64, _same),
    "two threads write one word with one value": Case(equal_writers, "race", normal(64), 64, _one_first),
    "more registers are asked for than there are": Case(too_many_registers, "deadlock", normal(384), 384, _same),
    "a producer overtakes its consumer": Case(overtaken, "deadlock", normal(64), 64, _same),
    "a lock is released without a fence": _unlike["spin_lock"],
    "a deadlock that only some orders show": Case(lost_wakeup, "deadlock", normal(64), 64, _same, _two),
}
