"""Blocks of a cluster that send each other numbers through distributed shared memory."""

import operator

import cutlass
import cutlass.cute as cute

from .hosts import Constexpr, launched
from .written import write


class Exchange:
    """Four blocks of one warp each sum one number a block, and then its square, through the same slots; mO (4, 2).

    `fault` makes one of the mistakes that chapter 6 shows.
    """

    def __init__(self, fault=""):
        self.fault = fault

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor):
        self.kernel(mX, mO).launch(grid=[4, 1, 1], block=[32, 1, 1], cluster=[4, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        rank = cute.arch.block_idx_in_cluster()
        smem = cutlass.memory.SmemAllocator()
        slots = smem.allocate_tensor(cutlass.Float32, cute.make_layout(4), 16)
        mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
        if cute.arch.lane_idx() == 0:
            cute.arch.mbarrier_init(mbar, 1)
            cute.arch.mbarrier_init_fence()
        if cutlass.const_expr(self.fault != "no opening barrier"):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
        else:
            cute.arch.sync_warp()
        value = mX[rank]
        for turn in cutlass.range_constexpr(1 if self.fault == "block gone" else 2):
            total = self.exchange(value, slots, mbar, 0 if self.fault == "phase reused" else turn)
            if cute.arch.lane_idx() == 0:
                mO[rank, turn] = total
            value = value * value
            if cutlass.const_expr(turn == 0 and self.fault not in ("block gone", "no barrier between")):
                cute.arch.cluster_arrive()
                cute.arch.cluster_wait()

    @cute.jit
    def exchange(self, value, slots: cute.Tensor, mbar, phase: Constexpr):
        lane, rank = cute.arch.lane_idx(), cute.arch.block_idx_in_cluster()
        nbytes = {"too many bytes": 32, "too few bytes": 4}.get(self.fault, 16)
        if lane == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(mbar, nbytes)
        if lane < 4 and (lane != rank or cutlass.const_expr(self.fault != "own rank missing")):
            cute.arch.store_async_dsmem(slots.iterator + rank, value.bitcast(cutlass.Int32), mbar, lane)
        total = value
        if cutlass.const_expr(self.fault != "block gone"):
            if cutlass.const_expr(self.fault != "no wait"):
                cute.arch.mbarrier_wait(mbar, phase)
            total = cute.arch.warp_reduction(slots[lane % 4], operator.add, threads_in_group=4)
        return total


write(globals())('''
reads_early(mNext, mO, steps: cutlass.Int32) @launched(32, blocks=2, cluster=2, passing=True):
    """Block 1 sends 8 to block 0 after `steps` loads in a chain; block 0 reads its slot, where 7 stood, before and after the wait.

    mNext (n,) int32 is the chain, ending in 0; mO (2,) float32 gets the two numbers.
    """
    slots = smem.allocate_tensor(cutlass.Float32, cute.make_layout(1), 16)
    mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
    if lane == 0:
        slots[0] = cutlass.Float32(7.0)
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    if lane == 0 and rank == 1:
        at = cutlass.Int32(0)
        for _ in range(steps):
            at = mNext[at]
        value = cutlass.Float32(8.0) + at.to(cutlass.Float32)
        cute.arch.store_async_dsmem(slots.iterator, value.bitcast(cutlass.Int32), mbar, 0)
    if lane == 0 and rank == 0:
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, 4)
        mO[0] = slots[0]
        cute.arch.mbarrier_wait(mbar, 0)
        mO[1] = slots[0]
pair(mX, mO, *, how='bits') @launched(32, blocks=2, cluster=2):
    """Each block of a cluster of two sends (x, x) to the other; `how` is "bits", "numbers" or "not aligned"."""
    slots = smem.allocate_tensor(cutlass.Float32, cute.make_layout(4), 16)
    mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
    if lane == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    word = mX[rank]
    if cutlass.const_expr(how != "numbers"):
        word = word.bitcast(cutlass.Int32)
    place = slots.iterator + 2 * rank
    if cutlass.const_expr(how != "not aligned"):
        place = place.align(8)
    if lane == 0:
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, 8)
        cute.arch.store_async_dsmem(place, (word, word), mbar, 1 - rank)
    cute.arch.mbarrier_wait(mbar, 0)
    if lane < 2:
        value = slots[2 * (1 - rank) + lane]
        if cutlass.const_expr(how == "numbers"):
            value = value.bitcast(cutlass.Int32).to(cutlass.Float32)
        mO[rank, lane] = value
leaves(out, *, by='block', reads=False) @launched(64, blocks=2, cluster=2):
    """A block, or a warp of each, ends without coming to the cluster barrier, at which the others wait."""
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(1), 16)
    s[0] = cutlass.Float32(1.0)
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    goes_on = rank == 0 if cutlass.const_expr(by == "block") else cute.arch.warp_idx() == rank
    if goes_on:
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
        if cutlass.const_expr(reads):
            theirs = cute.make_tensor(cute.arch.map_dsmem_ptr(s.iterator, 1 - rank), cute.make_layout(1))
            cute.autovec_copy(theirs, cute.make_tensor(out.iterator + tidx, cute.make_layout(1)))
        else:
            out[tidx] = 2.0
''')
