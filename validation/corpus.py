"""Small kernels with one fault each that depends on order, and the same kernels without it: what a GPU may get away with.

A case is a `kernel(x, y, out, bug)` that is right with bug=False, under two decorators: `@fault(what is wrong, kind of the
finding)` and `@launched(x, the right out)`. Lines marked `# here` are those that a finding names. A test tries them all on the
simulator, the suite `delays` on a GPU. Faults of every order are in the simulator's own tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass import Constexpr, Float32, Int32, Int64
from cutlass.cute import Tensor

CASES = []


@dataclass(frozen=True)
class Case:
    """`kind`: of the finding with the bug. `right(x, y)` is what out must hold."""

    name: str
    host: object
    wrong: str  # in a reader's words
    kind: str
    x: np.ndarray
    right: object
    y: np.ndarray
    adds: bool  # to an out of zeros

    def arrays(self):
        """Fresh (x, y, out) for one run."""
        wanted = self.right(self.x, self.y)
        dtype = np.int32 if wanted.dtype.kind == "i" else np.float32
        return self.x.copy(), self.y.copy(), np.zeros(wanted.shape, dtype)


def fault(wrong, kind):
    """Make a case of what `launched` gives."""

    def decorate(given):
        host, x, right, y, adds = given
        CASES.append(Case(host.__name__, host, wrong, kind, x, right, y, adds))
        return host

    return decorate


def launched(x, right, y=(0, 0), adds=False, blocks=1, threads=64, cluster=1, cooperative=False):
    """The host function `(x, y, out, bug)` that launches the kernel, and what it is run on."""
    grid = (*blocks, 1) if isinstance(blocks, tuple) else (blocks, 1, 1)

    def decorate(kernel):
        @cute.jit
        def host(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
            made = kernel(x, y, out, bug)
            made.launch(grid=grid, block=[threads, 1, 1], cluster=[cluster, 1, 1], cooperative=cooperative)

        host.__name__ = kernel.__name__
        return host, x, right, np.asarray(y, np.int32) if isinstance(y, tuple) else y, adds

    return decorate


# ---- inputs and answers ---------------------------------------------------------------------------------------------


def random(seed):
    return np.random.default_rng(seed)


def normal(*shape):
    return random(3).standard_normal(shape).astype(np.float32)


BUCKETS = random(5).integers(0, 16, 288).astype(np.int32)


def same(x, y):
    return x


def backwards(x, y):
    return x[::-1]


def after_the_others(x, y):
    return 2 * np.roll((x + 1).reshape(3, 64), -1, 0).ravel()


# ---- races in shared memory ------------------------------------------------------------------------------------------


@fault("a warp's barrier where the block's is needed", "race")
@launched(normal(32, 32), lambda x, y: x.T, blocks=(2, 2), threads=256)
@cute.kernel
def transpose(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    tile = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout((16, 16), stride=(17, 1)), 16)
    i, j = tidx // 16, tidx % 16
    tile[i, j] = x[by * 16 + i, bx * 16 + j]  # here
    if cutlass.const_expr(bug):
        cute.arch.sync_warp()
    else:
        cute.arch.barrier()
    out[bx * 16 + i, by * 16 + j] = tile[j, i]  # here


@fault("no barrier before a buffer is used again", "race")
@launched(normal(256), lambda x, y: x.reshape(4, 64)[:, ::-1].ravel())
@cute.kernel
def reused_buffer(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    for row in range(4):
        s[tidx] = x[row * 64 + tidx]  # here
        cute.arch.barrier()
        out[row * 64 + tidx] = s[63 - tidx]  # here
        if cutlass.const_expr(not bug):
            cute.arch.barrier()


@fault("no sync_warp between a warp's write and its read", "race")
@launched(normal(32), backwards, threads=32)
@cute.kernel
def missing_sync_warp(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    t, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32), 16)
    s[t] = x[t]  # here
    if cutlass.const_expr(not bug):
        cute.arch.sync_warp()
    out[t] = s[31 - t]  # here


@fault("a shuffle where a sync_warp is needed", "race")
@launched(normal(32), lambda x, y: x[::-1] + x[np.arange(32) ^ 16], threads=32)
@cute.kernel
def shuffle_as_barrier(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32), 16)
    value = x[tidx]
    s[tidx] = value  # here
    value = cute.arch.shuffle_sync_bfly(value, 16)
    if cutlass.const_expr(not bug):
        cute.arch.sync_warp()
    out[tidx] = s[31 - tidx] + value  # here


@fault("no wait at the mbarrier that says that the data is there", "race")
@launched(normal(32), backwards)
@cute.kernel
def missing_wait(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
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


@fault("two threads write one word of shared memory", "race")
@launched(normal(64), backwards)
@cute.kernel
def two_writers(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    place = tidx // 2 if cutlass.const_expr(bug) else tidx
    s[63 - tidx] = 0.0
    cute.arch.barrier()
    s[place] = x[tidx]  # here
    cute.arch.barrier()
    out[tidx] = s[63 - tidx]


@fault("a sum that many threads make without an atomic", "race")
@launched(BUCKETS, lambda x, y: np.bincount(x, minlength=16), adds=True, blocks=3, threads=96)
@cute.kernel
def histogram(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    counts = cutlass.memory.SmemAllocator().allocate_tensor(Int32, cute.make_layout(16), 16)
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


@fault("an atomic on a word that another warp may not have set yet", "race")
@launched(normal(224), lambda x, y: -x, threads=96)
@cute.kernel
def queue(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    ticket = smem.allocate_tensor(Int32, cute.make_layout(1), 4)
    s = smem.allocate_tensor(Int32, cute.make_layout(3), 4)
    warp, lane = tidx // 32, tidx % 32
    if tidx == 0:
        ticket[0] = 0  # here
    if cutlass.const_expr(not bug):
        cute.arch.barrier()
    tile = Int32(0)
    while tile < 7:
        if lane == 0:
            s[warp] = cute.arch.atomic_add(ticket.iterator, Int32(1))  # here
        cute.arch.sync_warp()
        tile = s[warp]
        cute.arch.sync_warp()
        if tile < 7:
            out[tile * 32 + lane] = x[tile * 32 + lane] * -1.0


# ---- races in global memory ------------------------------------------------------------------------------------------


@fault("two blocks write one word of global memory", "race")
@launched(normal(64), lambda x, y: x[:2], blocks=2, threads=32)
@cute.kernel
def two_blocks_write(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    place = 0 if cutlass.const_expr(bug) else block
    if tidx == 0:
        out[place] = x[block]  # here


@fault("vectors of neighbouring threads overlap where they are stored", "race")
@launched(normal(128), lambda x, y: x.reshape(8, 4, 4).transpose(0, 2, 1).ravel(), threads=32)
@cute.kernel
def turned(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    r = cute.make_rmem_tensor((4,), Float32)
    turned_ = cute.make_rmem_tensor((4,), Float32)
    cute.autovec_copy(cute.local_tile(x, (4,), (tidx,)), r)
    lane = tidx % 4
    for k in cutlass.range_constexpr(4):
        source = (tidx & ~3) | k
        for j in cutlass.range_constexpr(4):
            got = cute.arch.shuffle_sync(r[j], source)
            if lane == j:
                turned_[k] = got
    if cutlass.const_expr(bug):
        cute.autovec_copy(turned_, cute.make_tensor(out.iterator + tidx, cute.make_layout(4)))  # here
    else:
        cute.autovec_copy(turned_, cute.local_tile(out, (4,), (tidx,)))


@fault("a lock is given back without a fence", "race")
@launched(normal(96), lambda x, y: x.sum(keepdims=True), adds=True, blocks=3, threads=32)
@cute.kernel
def spin_lock(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    total = cute.arch.warp_reduction_sum(x[bidx * 32 + tidx])
    if tidx == 0:
        taken = cute.arch.atomic_cas(y.iterator, cmp=Int32(0), val=Int32(1))
        while taken != 0:
            taken = cute.arch.atomic_cas(y.iterator, cmp=Int32(0), val=Int32(1))
        cute.arch.fence_acq_rel_gpu()
        out[0] = out[0] + total  # here
        if cutlass.const_expr(not bug):
            cute.arch.fence_acq_rel_gpu()
        cute.arch.atomic_exch(y.iterator, Int32(0))


@cute.jit
def meet(count: Tensor, tidx: Int32, blocks: Constexpr, round: Constexpr):
    cute.arch.barrier()
    if tidx == 0:
        cute.arch.fence_acq_rel_gpu()
        cute.arch.atomic_add(count.iterator, Int32(1))
        seen = cute.arch.atomic_add(count.iterator, Int32(0))
        while seen < blocks * round:
            seen = cute.arch.atomic_add(count.iterator, Int32(0))
        cute.arch.fence_acq_rel_gpu()
    cute.arch.barrier()


@fault("blocks do not meet before they write what others read", "race")
@launched(normal(192), after_the_others, blocks=3, cooperative=True)
@cute.kernel
def grid_barrier(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    out[bidx * 64 + tidx] = x[bidx * 64 + tidx] + 1.0
    meet(y, tidx, 3, 1)
    value = out[(bidx + 1) % 3 * 64 + tidx]  # here
    if cutlass.const_expr(not bug):
        meet(y, tidx, 3, 2)
    out[bidx * 64 + tidx] = value * 2.0  # here


# ---- asynchronous copies ---------------------------------------------------------------------------------------------


@fault("shared memory read before cp.async has landed", "read before arrival")
@launched(normal(32), backwards, threads=32)
@cute.kernel
def no_wait_group(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    t, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32), 16)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), Float32, num_bits_per_copy=32)
    cute.copy(atom, cute.local_tile(x, (1,), (t,)), cute.local_tile(s, (1,), (t,)))  # here
    cute.arch.cp_async_commit_group()
    if cutlass.const_expr(not bug):
        cute.arch.cp_async_wait_group(0)
    cute.arch.barrier()
    out[t] = s[31 - t]  # here


@fault("one group of copies too many may stay under way", "read before arrival")
@launched(normal(64), lambda x, y: x.reshape(2, 32)[:, ::-1].ravel(), threads=32)
@cute.kernel
def wait_group_off_by_one(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
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


@fault("no barrier after the wait for one's own copies", "race")
@launched(normal(384), lambda x, y: x.reshape(6, 64)[:, ::-1].sum(0, dtype=np.float64))
@cute.kernel
def rolling_stages(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    stages, tiles = 3, 6
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout((64, stages)), 16)
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


@fault("shared memory read before the bulk copy has landed", "read before arrival")
@launched(normal(64), same)
@cute.kernel
def bulk_copy_not_waited_for(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    mbar = smem.allocate_array(Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout(64), byte_alignment=128)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    load = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), Float32)
    row = cute.make_tensor(x.iterator, cute.make_layout(64))
    if cute.arch.warp_idx() == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(mbar, 256)
            cute.copy(load, row, s, mbar_ptr=mbar)  # here
    if cutlass.const_expr(not bug):
        cute.arch.mbarrier_wait(mbar, 0)
    out[tidx] = s[tidx]  # here
    if cutlass.const_expr(bug):
        cute.arch.mbarrier_wait(mbar, 0)


@fault("a bulk copy into a stage that is still read", "race")
@launched(normal(256), lambda x, y: x.reshape(4, 64)[:, ::-1].ravel())
@cute.kernel
def bulk_stages(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    mbar = smem.allocate_array(Int64, 2, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout((64, 2)), 128)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), Float32)
    if tidx == 0:
        for k in cutlass.range_constexpr(2):
            cute.arch.mbarrier_init(mbar + k, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    for k in cutlass.range_constexpr(4):
        if tidx == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(mbar + k % 2, 256)
        if tidx < 32:
            with cute.arch.elect_one():
                cute.copy(atom, cute.local_tile(x, (64,), (k,)), s[None, k % 2], mbar_ptr=mbar + k % 2)  # here
        cute.arch.mbarrier_wait(mbar + k % 2, k // 2)
        out[k * 64 + tidx] = s[63 - tidx, k % 2]  # here
        if cutlass.const_expr(k < 2 and not bug):
            cute.arch.barrier()
        if cutlass.const_expr(k >= 2):
            cute.arch.barrier()


@fault("no proxy fence before a bulk store", "missing proxy fence")
@launched(normal(64), lambda x, y: (x + 1)[::-1])
@cute.kernel
def bulk_store(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 128)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkS2GOp(), Float32)
    s[63 - tidx] = x[tidx] + 1.0  # here
    if cutlass.const_expr(not bug):
        cute.arch.fence_view_async_shared()
    cute.arch.barrier()
    if tidx < 32:
        with cute.arch.elect_one():
            cute.copy(atom, s, out)  # here
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0)


# ---- mbarriers and clusters ------------------------------------------------------------------------------------------


@fault("an mbarrier that is used before its init is published", "mbarrier not published")
@launched(normal(64), same)
@cute.kernel
def unpublished_init(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
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


@fault("a message to an mbarrier that may not be initialised", "mbarrier not initialised")
@launched(normal(64), lambda x, y: np.repeat(x[[32, 0]], 32), blocks=2, threads=32, cluster=2)
@cute.kernel
def early_remote_store(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
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


@fault("a block that ends while a message to it is under way", "exit with traffic in flight")
@launched(normal(64), same, blocks=2, threads=32, cluster=2)
@cute.kernel
def exits_too_early(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    """Each block writes to the other's shared memory; with the bug, without waiting for the other to be done."""
    tidx, _, _ = cute.arch.thread_idx()
    rank = cute.arch.block_idx_in_cluster()
    smem = cutlass.memory.SmemAllocator()
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


@fault("a block that ends while its peer still reads", "exit with traffic in flight")
@launched(normal(128), lambda x, y: x + x.reshape(2, 64)[::-1, ::-1].ravel(), blocks=2, cluster=2)
@cute.kernel
def reads_the_peer(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    rank = cute.arch.block_idx_in_cluster()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    s[tidx] = x[rank * 64 + tidx]
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    theirs = cute.make_tensor(cute.arch.map_dsmem_ptr(s.iterator, 1 - rank), cute.make_layout(64))
    r = cute.make_rmem_tensor((1,), Float32)
    cute.autovec_copy(cute.local_tile(theirs, (1,), (63 - tidx,)), r)  # here
    out[rank * 64 + tidx] = s[tidx] + r[0]
    if cutlass.const_expr(not bug):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
