"""How the warps of a row come to agree, in a block through shared memory, in a cluster through distributed shared memory.

Chapters 5 and 6 build the same for one value and a power of 2 of warps (`block_reduce`, `cluster_reduce`). Here every warp brings
one value (or a pair), and every thread gets what they make together:

| a row has                    | values go to                                               | and are there after               |
|------------------------------|------------------------------------------------------------|-----------------------------------|
| one warp or less             | nobody                                                     |                                   |
| several warps of a block     | each warp's to a slot in the block's shared memory         | the block's barrier               |
| several blocks, 32 warps at most | each warp's to a slot in every block (st.async)        | a phase of that block's mbarrier  |
| several blocks, more warps   | each warp's to its block, then each block's to every block | both                              |

More warps agree in two steps: one step of 16 blocks of 8 warps would be 2048 messages a row. The slots of 32 warps one warp can
read at once.

A block may be written to once its mbarrier is initialised: `allocate_and_arrive` says that this block's is, `wait_for_peers` waits
for the others', and the loads of the row stand between the two. No block ends before it has all its bytes.

A kernel that goes through rows takes two `sets` of slots and passes its count of turns. Turn i + 1 writes other slots than turn i,
and to write what a slower warp still reads one would have to be two turns ahead, with the barrier of the turn between.
"""

import operator
from typing import Any, NamedTuple

import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.config import power_of_2
from quack_tutorial.kernels.reduce import exp, finite_or_zero, warp_reduce


class Opened(NamedTuple):
    """What an exchange has in shared memory; None where it needs none."""

    of_warps: Any  # a slot for every warp of a row: (sets, rows, warps, values)
    of_blocks: Any  # a slot for every sender of the cluster, a warp or a block: (sets, blocks * senders, values)
    mbar: Any  # an mbarrier a set, which counts the bytes that come to of_blocks


class RowExchange:
    """Slots of `values` float32, 1 or 2: for every warp of a row in its block, and for every block that shares it."""

    def __init__(self, config, values=1, sets=1):
        self.values, self.sets, self.blocks = values, sets, config.blocks_per_row
        self.rows_per_block = config.threads_per_block // config.threads_per_row
        self.warps = (config.threads_per_row + 31) // 32  # of a row in a block
        self.needed = self.warps > 1 or self.blocks > 1
        # Who of a block sends to the cluster: every warp, or one for all of them.
        self.senders = self.warps if self.warps * self.blocks <= 32 else 1
        # Whether the warps of a block agree among themselves first, or have nobody else.
        self.in_block = self.warps > 1 and (self.blocks == 1 or self.senders == 1)

    @cute.jit
    def allocate_and_arrive(self):
        """Make room for what is exchanged, an `Opened`, and tell the cluster that this block is there."""
        of_warps, of_blocks, mbar = None, None, None
        smem = cutlass.memory.SmemAllocator()
        if cutlass.const_expr(self.in_block):
            shape = (self.sets, self.rows_per_block, self.warps, self.values)
            layout = cute.make_ordered_layout(shape, order=(3, 2, 1, 0))
            of_warps = smem.allocate_tensor(cutlass.Float32, layout, byte_alignment=16)
        if cutlass.const_expr(self.blocks > 1):
            layout = cute.make_ordered_layout((self.sets, self.blocks * self.senders, self.values), order=(2, 1, 0))
            of_blocks = smem.allocate_tensor(cutlass.Float32, layout, byte_alignment=16)
            mbar = smem.allocate_array(cutlass.Int64, self.sets, byte_alignment=8)
            if cute.arch.thread_idx()[0] == 0:
                for number in cutlass.range_constexpr(self.sets):
                    cute.arch.mbarrier_init(mbar + number, 1)
                cute.arch.mbarrier_init_fence()
            cute.arch.cluster_arrive_relaxed()
        return Opened(of_warps, of_blocks, mbar)

    def wait_for_peers(self):
        """Wait until every block of the cluster can be written to."""
        if self.blocks > 1:
            cute.arch.cluster_wait()

    @cute.jit
    def share_warps(self, values, opened, turn=0):
        """Bring this warp's `values` (a tuple) and get those of all of the row's in this block: a tensor (warps, values)."""
        lane, warp, used = cute.arch.lane_idx(), cute.arch.warp_idx(), turn % self.sets
        row, slot = warp // self.warps, warp % self.warps
        if lane == 0:
            for k in cutlass.range_constexpr(self.values):
                opened.of_warps[used, row, slot, k] = values[k]
        cute.arch.barrier()
        return opened.of_warps[used, row, None, None]

    @cute.jit
    def share_blocks(self, values, opened, turn=0):
        """Send a warp's or a block's `values` to every block of the cluster and get all: a tensor (blocks * senders, values)."""
        used, lane, warp = turn % self.sets, cute.arch.lane_idx(), cute.arch.warp_idx()
        if cute.arch.thread_idx()[0] == 0:
            nbytes = 4 * self.blocks * self.senders * self.values
            cute.arch.mbarrier_arrive_and_expect_tx(opened.mbar + used, nbytes)
        if cutlass.const_expr(not self.in_block):
            # What lanes read in the last turn comes before what one of them sends for all; shuffles order no memory.
            cute.arch.sync_warp()
        slot = cute.arch.block_idx_in_cluster() * self.senders + warp % self.senders
        own = cute.crd2idx((used, slot, 0), opened.of_blocks.layout)
        if warp < self.senders and lane < self.blocks:  # a lane for each block
            words = tuple(value.bitcast(cutlass.Int32) for value in values)
            cute.arch.store_async_dsmem(
                (opened.of_blocks.iterator + own).align(4 * self.values),
                words if self.values > 1 else words[0],
                opened.mbar + used,
                lane,
            )
        cute.arch.mbarrier_wait(opened.mbar + used, turn // self.sets % 2)
        return opened.of_blocks[used, None, None]

    @cute.jit
    def row_sums(self, values, opened, turn=0, op: cutlass.Constexpr = operator.add):
        """The sum over the row of each of `values`, one or two a warp, in one exchange: a tuple, in every thread. With another `op`
        what that makes of them, of numbers that are no less than 0."""
        if cutlass.const_expr(self.in_block):
            values = add_slots(self.share_warps(values, opened, turn), op)
        if cutlass.const_expr(self.blocks > 1):
            values = add_slots(self.share_blocks(values, opened, turn), op)
        return values

    @cute.jit
    def row_max_sum(self, maximum, total, opened, part: cutlass.Constexpr = False):
        """The (max, sum of exponentials) of a row from those of its warps; the sum is NaN if the row holds NaN or +inf, as torch
        has it, and if it is all -inf: of a `part` of a row 0."""
        if cutlass.const_expr(self.in_block):
            # What is all -inf here may be a part of a row that is not.
            part_of_row = part or self.blocks > 1
            maximum, total = combine_slots(self.share_warps((maximum, total), opened), part_of_row)
        if cutlass.const_expr(self.blocks > 1):
            maximum, total = combine_slots(self.share_blocks((maximum, total), opened), part)
        return maximum, total


@cute.jit
def add_slots(shared: cute.Tensor, op: cutlass.Constexpr = operator.add):
    """The sums of what at most 32 slots (slots, values) have, or what another `op` makes of them, in every lane: a tuple."""
    slots, values = cute.size(shared, mode=[0]), range(cute.size(shared, mode=[1]))
    lanes = power_of_2(slots)  # so that a butterfly works
    lane = cute.arch.lane_idx() % lanes
    totals = tuple(cutlass.Float32(0.0) for _ in values)
    if lane < slots:
        totals = tuple(shared[lane, k] for k in values)
    return tuple(warp_reduce(total, op, lanes) for total in totals)


@cute.jit
def combine_slots(shared: cute.Tensor, part: cutlass.Constexpr = False):
    """The (max, sum) of at most 32 pairs (slots, 2), in every lane; a `part` of a row may be all -inf, with sum 0."""
    slots = cute.size(shared, mode=[0])
    lanes = power_of_2(slots)
    lane = cute.arch.lane_idx() % lanes
    max_slot, sum_slot = -cutlass.Float32.inf, cutlass.Float32(0.0)
    if lane < slots:
        max_slot, sum_slot = shared[lane, 0], shared[lane, 1]
    # All maxima first, then all sums: one exp a slot, where combining pair by pair needs two a step.
    maximum = warp_reduce(max_slot, cute.arch.fmax, lanes)
    reference = maximum
    if cutlass.const_expr(part):
        reference = finite_or_zero(maximum)
    return maximum, warp_reduce(sum_slot * exp(max_slot - reference), operator.add, lanes)
