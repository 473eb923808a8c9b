"""Reductions, one level of the hierarchy at a time: thread, warp, block, cluster.

| level   | function         | reaches    | values travel through            | cost for one value                            |
|---------|------------------|------------|----------------------------------|-----------------------------------------------|
| thread  | `thread_reduce`  | one thread | registers                        | one operation an element                      |
| warp    | `warp_reduce`    | 32 lanes   | shuffles                         | log2(width) shuffles, no memory, no barrier   |
| block   | `block_reduce`   | 32 warps   | shared memory, one slot a warp   | a write, a barrier, a read, log2(warps) shuffles |
| block   | `block_softmax_reduce` | 32 warps | the same, (max, sum) together | the same, once instead of twice              |
| cluster | `cluster_reduce` | 16 blocks  | a slot a block in every block    | a message a block, a wait, log2(blocks) shuffles |
| cluster | `cluster_softmax_reduce` | 16 blocks | the same, (max, sum) together | the same, once instead of twice           |

Chapter 4 builds the first two, chapter 5 those of a block, chapter 6 those of a cluster, and chapter 8 combines pairs. Every thread
that takes part gets the result. `op` combines two values and must be commutative. Functions without `@cute.jit` run while tracing:
their ifs and loops are Python's.

Softmax needs the maximum m of a row and the sum of exp(x - m). The pair of a longer row is made from the pairs of its
parts: m = max(m_a, m_b), s = s_a exp(m_a - m) + s_b exp(m_b - m). A part that is all -inf has m = -inf, and -inf - -inf
is NaN: subtract `finite_or_zero(m)` instead, then exp gives the right 0.

`ClusterReduce` is all four levels in one kernel.

Not covered: messages from every warp, a cluster that exchanges in every turn of a loop:
`tuned/row_exchange.py` has them.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

LOG2_E = 1.4426950408889634


def thread_reduce(x, op: cutlass.Constexpr, init_val):
    """Reduce all values of the TensorSSA `x` that one thread holds; `op` is a cute.ReductionOp."""
    return x.reduce(op, init_val=init_val, reduction_profile=0)


@cute.jit
def warp_reduce(value, op: cutlass.Constexpr, width: cutlass.Constexpr = 32):
    """Reduce over groups of `width` neighbouring lanes (a power of 2); every lane gets its group's result."""
    for i in cutlass.range_constexpr(width.bit_length() - 1):
        # Butterfly: each lane and lane xor 2^i swap, so both hold the same, larger part afterwards.
        value = op(value, cute.arch.shuffle_sync_bfly(value, offset=1 << i))
    return value


@cute.jit
def block_reduce(value, op: cutlass.Constexpr, buffer: cute.Tensor):
    """Reduce one value a warp over the warps of a row; `buffer` is shared memory of (rows, warps_per_row).

    All lanes of a warp pass their warp's value. warps_per_row is a power of 2, at most 32. A second call on the same
    buffer needs a barrier between the two: a fast warp would overwrite what a slow one has not read.
    """
    warps_per_row = cute.size(buffer, mode=[1])
    lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
    if lane == 0:
        buffer[warp // warps_per_row, warp % warps_per_row] = value
    cute.arch.barrier()
    value = buffer[warp // warps_per_row, lane % warps_per_row]
    return warp_reduce(value, op, width=warps_per_row)


def exp(x, fast=False):
    """e^x for a Float32 or a TensorSSA of them, to 1 ulp; `fast` costs 3 instructions less and adds up to 1.2 |x| ulp.

    The hardware has 2^x, and e^x = 2^(x log2 e). Rounding it and log2 e moves the result by up to 1.2 |x| ulp: too much for
    float32, invisible after rounding to 16 bits. The accurate version takes the product apart into an integer, which
    goes straight into the exponent bits, and a small remainder without rounding error. Both keep results below 2^-126.
    """
    if fast:
        return cute.math.exp2(x * LOG2_E)
    return cute.math.exp(x)


def exp_flushed(x, scale=0):
    """2^scale e^x for a Float32 or a TensorSSA of them, in two instructions; a result below 2^-126 becomes 0.

    Subtracting the maximum, before the call, is a third. The hardware's 2^x needs three more where small results are kept.
    Where e^x only goes into a sum next to a 1, they do not matter.
    """
    # fastmath: small results become 0
    return cute.math.exp2(x * LOG2_E + scale if scale else x * LOG2_E, fastmath=True)


@cute.jit
def finite_or_zero(m):
    """`m`, or 0 where it is -inf: what an all -inf part subtracts, so that exp(-inf - m) is 0 and not NaN."""
    result = m
    if m == -cutlass.Float32.inf:
        result = cutlass.Float32(0.0)
    return result


@cute.jit
def online_combine(max_a, sum_a, max_b, sum_b):
    """(max, sum of exp(x - max)) of two parts together, from the pairs of each; a part may be all -inf."""
    max_ab = cute.arch.fmax(max_a, max_b)
    reference = finite_or_zero(max_ab)
    return max_ab, sum_a * exp(max_a - reference) + sum_b * exp(max_b - reference)


@cute.jit
def block_softmax_reduce(max_warp, sum_warp, buffer: cute.Tensor):
    """The (max, sum) of a row from the pairs of its warps, in one exchange; `buffer` is (rows, warps_per_row, 2).

    Of a row that is all -inf the sum is 0, as for any part of a row.
    """
    warps_per_row = cute.size(buffer, mode=[1])
    lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
    row, slot = warp // warps_per_row, warp % warps_per_row
    if lane == 0:
        buffer[row, slot, 0] = max_warp
        buffer[row, slot, 1] = sum_warp
    cute.arch.barrier()
    max_slot = buffer[row, lane % warps_per_row, 0]
    sum_slot = buffer[row, lane % warps_per_row, 1]
    return combine_lanes(max_slot, sum_slot, warps_per_row)


@cute.jit
def combine_lanes(max_lane, sum_lane, width: cutlass.Constexpr = 32):
    """The (max, sum) of the pairs of `width` neighbouring lanes, in each of them.

    All maxima first, then all sums: one exp a lane, where combining pair by pair needs two a step.
    """
    max_all = warp_reduce(max_lane, cute.arch.fmax, width)
    return max_all, warp_reduce(sum_lane * exp(max_lane - finite_or_zero(max_all)), operator.add, width)


@cute.jit
def open_mbarrier(mbar):
    """Initialise this block's mbarrier for one arrival, and tell the cluster; `cluster_wait` must follow before a message.

    The fence publishes the mbarrier to the other blocks, so the arrival need order nothing else: it is relaxed.
    """
    if cute.arch.thread_idx()[0] == 0:
        # A phase ends after 1 arrival and all bytes announced.
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive_relaxed()


@cute.jit
def cluster_reduce(
    value,
    op: cutlass.Constexpr,
    slots: cute.Tensor,
    mbar,
    phase: cutlass.Constexpr = 0,
):
    """Reduce one Float32 a block over a cluster; `slots` is shared memory of (blocks,).

    All threads of a block pass the block's value; blocks is a power of 2, at most 16. No block ends before it has all
    its bytes, so no message can reach a block that is gone, and the kernel needs no cluster barrier at its end. A
    second call on the same slots waits for the other phase, and needs a cluster barrier between the two: a fast block
    would overwrite what a slow one has not read, and its bytes would count for the slow one's first phase.
    """
    blocks, rank = cute.size(slots), cute.arch.block_idx_in_cluster()
    tidx, _, _ = cute.arch.thread_idx()
    if tidx == 0:
        # The one arrival, and how many bytes are to come.
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, 4 * blocks)
    if tidx < blocks:  # thread p sends to block p, its own included
        # The same 32 bits as an integer: a message is made of words.
        word = value.bitcast(cutlass.Int32)
        # Into this block's slot of block tidx, counted at its mbarrier.
        cute.arch.store_async_dsmem(slots.iterator + rank, word, mbar, tidx)
    cute.arch.mbarrier_wait(mbar, phase)
    return warp_reduce(slots[cute.arch.lane_idx() % blocks], op, width=blocks)


@cute.jit
def cluster_softmax_reduce(max_block, sum_block, slots: cute.Tensor, mbar):
    """The (max, sum) of a row from the pairs of its blocks, in one exchange; as `cluster_reduce`, with `slots` (blocks, 2)."""
    blocks, rank = cute.size(slots, mode=[0]), cute.arch.block_idx_in_cluster()
    tidx, _, _ = cute.arch.thread_idx()
    if tidx == 0:
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, 8 * blocks)
    if tidx < blocks:
        pair = max_block.bitcast(cutlass.Int32), sum_block.bitcast(cutlass.Int32)
        # A pair is one message of 8 bytes, at a multiple of 8.
        cute.arch.store_async_dsmem((slots.iterator + 2 * rank).align(8), pair, mbar, tidx)
    cute.arch.mbarrier_wait(mbar, 0)
    lane = cute.arch.lane_idx() % blocks
    return combine_lanes(slots[lane, 0], slots[lane, 1], blocks)


class ClusterReduce:
    """Each row of an (M, N) tensor, reduced by the `blocks` blocks of a cluster; mO (M, blocks) gets what each ends up with.

    `op` is commutative with `init_val` as its neutral element; blocks and threads_per_block / 32 are powers of 2.
    """

    def __init__(self, op=operator.add, init_val=0.0, blocks=4, threads_per_block=256):
        self.op, self.init_val, self.blocks, self.threads_per_block = op, init_val, blocks, threads_per_block

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        self.kernel(mX, mO).launch(
            grid=[mX.shape[0] * self.blocks, 1, 1],
            block=[self.threads_per_block, 1, 1],
            cluster=[self.blocks, 1, 1],
            stream=stream,
        )

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        # 64 bits, since row * N may pass 2^31.
        row, rank = cutlass.Int64(bidx // self.blocks), cute.arch.block_idx_in_cluster()
        threads, N = self.threads_per_block, mX.shape[1]
        smem = cutlass.memory.SmemAllocator()
        buffer = smem.allocate_tensor(cutlass.Float32, cute.make_layout((1, threads // 32)), 16)
        slots = smem.allocate_tensor(cutlass.Float32, cute.make_layout(self.blocks), 16)
        # An mbarrier is 8 bytes.
        mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
        open_mbarrier(mbar)
        # read MN elements
        value = cutlass.Float32(self.init_val)
        for col in range(rank * threads + tidx, N, self.blocks * threads):
            value = self.op(value, mX[row, col].to(cutlass.Float32))
        value = block_reduce(warp_reduce(value, self.op), self.op, buffer)
        cute.arch.cluster_wait()  # every block's mbarrier is there
        value = cluster_reduce(value, self.op, slots, mbar)
        # write M x blocks elements
        if tidx == 0:
            mO[row, rank] = value
