"""Small kernels with one bug each, and the same kernel without it: what the simulator and compute-sanitizer are asked about.

`kernel(x, out, bug)` is right with bug=False. Lines marked `# here` are the ones that a report must name: all lines of the
simulator's finding are among them. `CASES` says what each is run on and what kind of finding the simulator must give.
"""

from __future__ import annotations

from dataclasses import dataclass

import cutlass
import cutlass.cute as cute
import numpy as np

THREADS = 64


def launched(blocks=1, threads=THREADS, cluster=1):
    """A host function `(x, out, bug)` that launches the kernel it decorates."""

    def decorate(kernel):
        @cute.jit
        def host(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
            kernel(x, out, bug).launch(grid=[blocks, 1, 1], block=[threads, 1, 1], cluster=[cluster, 1, 1])

        host.__name__ = kernel.__name__
        return host

    return decorate


# ---- races ----------------------------------------------------------------------------------------------------------


@launched()
@cute.kernel
def missing_barrier(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(64), 16)
    s[tidx] = x[tidx]  # here
    if cutlass.const_expr(not bug):
        cute.arch.barrier()
    out[tidx] = s[63 - tidx]  # here


@launched(threads=32)
@cute.kernel
def shuffle_as_barrier(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(32), 16)
    value = x[tidx]
    s[tidx] = value  # here
    value = cute.arch.shuffle_sync_bfly(value, 16)
    if cutlass.const_expr(not bug):
        cute.arch.sync_warp()
    out[tidx] = s[31 - tidx] + value  # here


@launched()
@cute.kernel
def reused_buffer(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(64), 16)
    for row in range(4):
        s[tidx] = x[row * 64 + tidx]  # here
        cute.arch.barrier()
        out[row * 64 + tidx] = s[63 - tidx]  # here
        if cutlass.const_expr(not bug):
            cute.arch.barrier()


@launched()
@cute.kernel
def two_writers(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(64), 16)
    place = tidx // 2 if cutlass.const_expr(bug) else tidx
    s[63 - tidx] = 0.0
    cute.arch.barrier()
    s[place] = x[tidx]  # here
    cute.arch.barrier()
    out[tidx] = s[63 - tidx]


@launched(blocks=2, threads=32)
@cute.kernel
def two_blocks_write(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    place = 0 if cutlass.const_expr(bug) else block
    if tidx == 0:
        out[place] = x[block]  # here


@launched()
@cute.kernel
def async_copy_not_waited_for(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout((1, 64)), 16)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), cutlass.Float32, num_bits_per_copy=32)
    thread, value = cute.make_ordered_layout((1, 64), order=(1, 0)), cute.make_layout((1, 1))
    thr_copy = cute.make_tiled_copy_tv(atom, thread, value).get_slice(tidx)
    row = cute.make_tensor(x.iterator, cute.make_layout((1, 64), stride=(64, 1)))
    cute.copy(atom, thr_copy.partition_S(row), thr_copy.partition_D(s))  # here
    cute.arch.cp_async_commit_group()
    if cutlass.const_expr(not bug):
        cute.arch.cp_async_wait_group(0)
    out[tidx] = s[0, tidx]  # here
    if cutlass.const_expr(bug):
        cute.arch.cp_async_wait_group(0)


# ---- memory that is not there, or not written -----------------------------------------------------------------------


@launched()
@cute.kernel
def column_overrun(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    """x is (4, 60): columns 60 to 63 of a row are the first of the next row, inside the allocation."""
    tidx, _, _ = cute.arch.thread_idx()
    columns = 64 if cutlass.const_expr(bug) else 60
    for row in range(3):
        if tidx < columns:
            out[row * 64 + tidx] = x[row, tidx]  # here


@launched()
@cute.kernel
def past_the_allocation(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    """x has 60 elements, and there is nothing behind them."""
    tidx, _, _ = cute.arch.thread_idx()
    count = 64 if cutlass.const_expr(bug) else 60
    if tidx < count:
        out[tidx] = x[tidx]  # here


@launched()
@cute.kernel
def past_the_buffer(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    """One float too far in shared memory, where the next buffer begins."""
    tidx, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    s = smem.allocate_tensor(cutlass.Float32, cute.make_layout(64), 16)
    t = smem.allocate_tensor(cutlass.Float32, cute.make_layout(64), 16)
    shift = 1 if cutlass.const_expr(bug) else 0
    t[tidx] = 1.0
    cute.arch.barrier()
    s[tidx + shift] = x[tidx]  # here
    cute.arch.barrier()
    out[tidx] = s[63 - tidx] + t[63 - tidx]


@launched()
@cute.kernel
def uninitialised_shared(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(64), 16)
    count = 63 if cutlass.const_expr(bug) else 64
    if tidx < count:
        s[tidx] = x[tidx]
    cute.arch.barrier()
    out[tidx] = s[63 - tidx]  # here


@launched()
@cute.kernel
def uninitialised_register(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    r = cute.make_rmem_tensor(2, cutlass.Float32)
    if cutlass.const_expr(not bug):
        r.fill(0.0)
    r[0] = x[tidx]
    out[tidx] = r[0] + r[1]  # here


@launched()
@cute.kernel
def uninitialised_global(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    """Adds to an output that nobody cleared."""
    tidx, _, _ = cute.arch.thread_idx()
    before = out[tidx] if cutlass.const_expr(bug) else cutlass.Float32(0.0)
    out[tidx] = before + x[tidx]


@launched(threads=32)
@cute.kernel
def misaligned_vector(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    """Says that every thread's four floats start at a multiple of 16 bytes; with the bug they do not."""
    tidx, _, _ = cute.arch.thread_idx()
    step = 1 if cutlass.const_expr(bug) else 4
    start = cute.assume(tidx * step, divby=4)
    four = cute.make_tensor(x.iterator + start, cute.make_layout(4))
    registers = cute.make_rmem_tensor(4, cutlass.Float32)
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Float32, num_bits_per_copy=128)
    cute.copy(atom, four, registers)  # here
    out[tidx] = registers[0] + registers[1] + registers[2] + registers[3]


# ---- threads that do not meet ---------------------------------------------------------------------------------------


@launched()
@cute.kernel
def barrier_in_half_a_warp(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(64), 16)
    s[tidx] = x[tidx]
    if cutlass.const_expr(bug):
        if tidx % 32 < 16:
            cute.arch.barrier()  # here
    else:
        cute.arch.barrier()
    out[tidx] = s[63 - tidx]


@launched()
@cute.kernel
def barrier_in_one_warp(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(64), 16)
    s[tidx] = x[tidx]
    if cutlass.const_expr(bug):
        if tidx < 32:
            cute.arch.barrier()  # here
    else:
        cute.arch.barrier()
    out[tidx] = s[63 - tidx]


@launched(threads=32)
@cute.kernel
def shuffle_in_half_a_warp(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    value = x[tidx]
    if cutlass.const_expr(bug):
        if tidx < 16:
            value = value + cute.arch.shuffle_sync_bfly(value, 16)  # here
    else:
        value = value + cute.arch.shuffle_sync_bfly(value, 16)
    out[tidx] = value


@launched()
@cute.kernel
def warp_number_in_half_a_warp(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    """The compiled warp_idx() is a shuffle of the whole warp from lane 0."""
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = x[tidx]
    if cutlass.const_expr(bug):
        if tidx % 32 < 16:
            out[tidx] = x[tidx] + cute.arch.warp_idx()  # here
    else:
        warp = cute.arch.warp_idx()
        if tidx % 32 < 16:
            out[tidx] = x[tidx] + warp


# ---- mbarriers and clusters -----------------------------------------------------------------------------------------


@launched()
@cute.kernel
def bulk_copy_not_waited_for(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(cutlass.Float32, cute.make_layout(64), byte_alignment=128)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    load = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), cutlass.Float32)
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


@launched()
@cute.kernel
def wrong_byte_count(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    """Waits for 4 bytes more than are sent: on a GPU it never ends."""
    tidx, _, _ = cute.arch.thread_idx()
    expected = 260 if cutlass.const_expr(bug) else 256
    smem = cutlass.memory.SmemAllocator()
    mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(cutlass.Float32, cute.make_layout(64), byte_alignment=128)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    load = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), cutlass.Float32)
    row = cute.make_tensor(x.iterator, cute.make_layout(64))
    if cute.arch.warp_idx() == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(mbar, expected)  # here
            cute.copy(load, row, s, mbar_ptr=mbar)
    cute.arch.mbarrier_wait(mbar, 0)  # here
    out[tidx] = s[tidx]


@launched(blocks=2, threads=32, cluster=2)
@cute.kernel
def mbarrier_not_published(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    """Each block sends a word to the other before it knows that the other's mbarrier is there."""
    tidx, _, _ = cute.arch.thread_idx()
    rank = cute.arch.block_idx_in_cluster()
    smem = cutlass.memory.SmemAllocator()
    mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(cutlass.Float32, cute.make_layout(4), byte_alignment=16)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, 4)
    if cutlass.const_expr(not bug):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
    else:
        cute.arch.sync_warp()
    value = x[rank * 32 + tidx]
    if tidx == 0:
        cute.arch.store_async_dsmem(s.iterator, value.bitcast(cutlass.Int32), mbar, 1 - rank)  # here
    cute.arch.mbarrier_wait(mbar, 0)
    out[rank * 32 + tidx] = s[0]
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


@launched(blocks=2, threads=32, cluster=2)
@cute.kernel
def exits_too_early(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr):
    """Each block writes to the other's shared memory; with the bug, without waiting for the other to be done."""
    tidx, _, _ = cute.arch.thread_idx()
    rank = cute.arch.block_idx_in_cluster()
    smem = cutlass.memory.SmemAllocator()
    mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(cutlass.Float32, cute.make_layout(4), byte_alignment=16)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, 4)
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    value = x[rank * 32 + tidx]
    if tidx == 0:
        cute.arch.store_async_dsmem(s.iterator, value.bitcast(cutlass.Int32), mbar, 1 - rank)  # here
    if cutlass.const_expr(not bug):
        cute.arch.mbarrier_wait(mbar, 0)
    out[rank * 32 + tidx] = value


# ---- the table ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One bug: `kind` is what the simulator's finding must be, None where it cannot know, and `why` says why."""

    host: object
    bug: str  # in a reader's words
    kind: str | None
    shape: tuple = (64,)
    out: int = 64
    why: str = ""

    @property
    def name(self) -> str:
        return self.host.__name__

    def arrays(self):
        """Fresh (x, out) for one run, float32."""
        x = np.random.default_rng(7).standard_normal(self.shape).astype(np.float32)
        return x, np.zeros(self.out, np.float32)


CASES = (
    Case(missing_barrier, "no barrier between writing and reading shared memory", "race"),
    Case(shuffle_as_barrier, "a shuffle where a sync_warp is needed", "race", (32,), 32),
    Case(reused_buffer, "no barrier before a buffer is used again", "race", (256,), 256),
    Case(two_writers, "two threads write one word of shared memory", "race"),
    Case(two_blocks_write, "two blocks write one word of global memory", "race"),
    Case(async_copy_not_waited_for, "shared memory read before cp.async has landed", "read before arrival"),
    Case(bulk_copy_not_waited_for, "shared memory read before the bulk copy has landed", "read before arrival"),
    Case(column_overrun, "columns past a row's end, inside the allocation", "out of bounds", (4, 60), 256),
    Case(past_the_allocation, "elements past the end of the allocation", "out of bounds", (60,)),
    Case(past_the_buffer, "one word past a shared buffer, in the next one", "out of bounds"),
    Case(misaligned_vector, "a 16-byte load at an address that is no multiple of 16", "misaligned", (128,), 32),
    Case(uninitialised_shared, "a word of shared memory that nobody wrote", "uninitialised"),
    Case(uninitialised_register, "a register that nobody wrote", "uninitialised"),
    Case(
        uninitialised_global,
        "an output that is added to before anybody wrote it",
        None,
        why="its arguments are arrays, and an array always holds something",
    ),
    Case(barrier_in_half_a_warp, "a barrier that half of each warp reaches", "divergent barrier"),
    Case(barrier_in_one_warp, "a barrier that one of two warps reaches", "divergent barrier"),
    Case(shuffle_in_half_a_warp, "a shuffle that half of its lanes reach", "divergent shuffle", (32,), 32),
    Case(warp_number_in_half_a_warp, "warp_idx() where half of each warp is", "divergent shuffle"),
    Case(wrong_byte_count, "an mbarrier that expects more bytes than are sent", "mbarrier byte mismatch"),
    Case(mbarrier_not_published, "a message to an mbarrier that may not be initialised", "mbarrier not initialised"),
    Case(exits_too_early, "a block that ends while a message to it is under way", "exit with traffic in flight"),
)
