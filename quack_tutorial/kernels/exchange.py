"""How the warps of a row come to agree, in a block through shared memory, in a cluster through distributed shared memory.

Every warp brings one value (or a pair) and every thread gets what they make together:

| a row has                  | a warp's values go to                           | and are there after                        |
|----------------------------|-------------------------------------------------|--------------------------------------------|
| one warp or less           | nobody                                          |                                            |
| several warps of a block   | a slot in the block's shared memory             | the block's barrier                        |
| several blocks             | a slot in every block of the cluster (st.async) | a phase of the receiving block's mbarrier  |

A cluster's blocks must not write to a block whose mbarrier is not initialised: `open` says that this block's is, `ready`
waits for the others', and the loads of the row stand between the two. No block ends before it has all its bytes, so no
write can reach a block that is gone.

A kernel that goes through rows in a loop takes `stages=2` and passes its count of turns: turn i + 1 writes other slots
than turn i, so that one barrier a turn is enough. A warp that is ahead cannot write what a slower one still reads: for
that it would have to be two turns ahead, with the barrier of the turn between them.
"""

import math
import operator

import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.reduce import exp, warp_reduce


class RowExchange:
    """The slots of `values` float32 (1 or 2) for every warp of a row, in each block that shares it."""

    def __init__(self, config, values=1, stages=1):
        self.values, self.stages, self.blocks = values, stages, config.blocks_per_row
        self.rows = config.threads_per_block // config.threads_per_row
        self.warps = math.ceil(config.threads_per_row / 32)
        self.needed = config.threads_per_row > 32 or self.blocks > 1
        self.slots = self.warps * self.blocks
        # The lanes that reduce the slots: a power of 2, so that a butterfly works.
        self.width = min(32, 1 << (self.slots - 1).bit_length())

    @cute.jit
    def open(self):
        """(slots, mbarriers), both None where they are not needed; in a cluster, also announces this block to the others."""
        buffer, mbar = None, None
        if cutlass.const_expr(self.needed):
            smem = cutlass.memory.SmemAllocator()
            layout = cute.make_ordered_layout((self.stages, self.rows, self.slots, self.values), order=(3, 2, 1, 0))
            buffer = smem.allocate_tensor(cutlass.Float32, layout, byte_alignment=16)
            if cutlass.const_expr(self.blocks > 1):
                mbar = smem.allocate_array(cutlass.Int64, self.stages, byte_alignment=8)
                if cute.arch.thread_idx()[0] == 0:
                    for stage in cutlass.range_constexpr(self.stages):
                        cute.arch.mbarrier_init(mbar + stage, 1)
                    cute.arch.mbarrier_init_fence()
                cute.arch.cluster_arrive_relaxed()
        return buffer, mbar

    def ready(self):
        """Wait until every block of the cluster can be written to."""
        if self.blocks > 1:
            cute.arch.cluster_wait()

    @cute.jit
    def share(self, values, opened, turn=0):
        """Bring this warp's `values` (a tuple) and get everybody's: a tensor (slots, values) of this thread's row."""
        buffer, mbar = opened
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        row, slot, stage = warp // self.warps, warp % self.warps, turn % self.stages
        if cutlass.const_expr(self.blocks == 1):
            if lane == 0:
                for k in cutlass.range_constexpr(self.values):
                    buffer[stage, row, slot, k] = values[k]
            cute.arch.barrier()
        else:
            if cute.arch.thread_idx()[0] == 0:
                cute.arch.mbarrier_arrive_and_expect_tx(mbar + stage, 4 * self.slots * self.values)
            # What lanes read in the last turn comes before what one of them sends for all; shuffles order no memory.
            cute.arch.sync_warp()
            slot += cute.arch.block_idx_in_cluster() * self.warps
            target = buffer.iterator + cute.crd2idx((stage, 0, slot, 0), buffer.layout)
            if lane < self.blocks:  # one lane a block
                words = tuple(value.bitcast(cutlass.Int32) for value in values)
                cute.arch.store_async_dsmem(
                    target.align(4 * self.values), words if self.values > 1 else words[0], mbar + stage, lane
                )
            cute.arch.mbarrier_wait(mbar + stage, turn // self.stages % 2)
        return buffer[stage, row, None, None]

    @cute.jit
    def reduce(self, value, op: cutlass.Constexpr, init_val: cutlass.Constexpr, opened, turn=0):
        """One value a warp, reduced over the row; `op` is commutative with `init_val` as its neutral element."""
        result = value
        if cutlass.const_expr(self.needed):
            shared = self.share((value,), opened, turn)
            result = cutlass.Float32(init_val)
            for k in cutlass.range_constexpr(math.ceil(self.slots / self.width)):
                slot = k * self.width + cute.arch.lane_idx() % self.width
                if slot < self.slots:
                    result = op(result, shared[slot, 0])
            result = warp_reduce(result, op, self.width)
        return result

    @cute.jit
    def softmax_reduce(self, max_warp, sum_warp, opened):
        """The (max, sum of exponentials) of a row from those of its warps.

        The row's sum is NaN if the row is all -inf or holds NaN or +inf, as torch has it.
        """
        max_row, sum_row = max_warp, sum_warp
        if cutlass.const_expr(self.needed):
            shared = self.share((max_warp, sum_warp), opened)
            parts = math.ceil(self.slots / self.width)
            pairs = cute.make_rmem_tensor((2, parts), cutlass.Float32)
            max_row = -cutlass.Float32.inf
            for k in cutlass.range_constexpr(parts):
                slot = k * self.width + cute.arch.lane_idx() % self.width
                pairs[0, k], pairs[1, k] = -cutlass.Float32.inf, cutlass.Float32(0.0)
                if slot < self.slots:
                    pairs[0, k], pairs[1, k] = shared[slot, 0], shared[slot, 1]
                max_row = cute.arch.fmax(max_row, pairs[0, k])
            max_row = warp_reduce(max_row, cute.arch.fmax, self.width)
            # All maxima first, then all sums: one exp a slot, where combining pair by pair needs two a step.
            sum_row = cutlass.Float32(0.0)
            for k in cutlass.range_constexpr(parts):
                sum_row += pairs[1, k] * exp(pairs[0, k] - max_row)
            sum_row = warp_reduce(sum_row, operator.add, self.width)
        return max_row, sum_row
