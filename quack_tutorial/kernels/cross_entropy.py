"""Cross-entropy of each row of an (M, N) tensor of logits with the row's target class, and its gradient: two ladders of versions.

Chapter 9 climbs both. Each version changes one thing in the one before it. The loss is log(sum(exp(x))) - x[target]: the row has
to be read and nothing of it kept, so that no version needs registers for a whole row, or a cluster.

| loss                   | the change                                          | reads x | where it stops paying            |
|------------------------|-----------------------------------------------------|---------|----------------------------------|
| `CrossEntropyTwoPass`  | one block a row: the maximum, then the sum          | twice   | everywhere: two reads            |
| `CrossEntropyOnline`   | both in one pass                                    | once    | two exponentials an element      |
| `CrossEntropyVectors`  | 16 bytes a load, predicated; rescaled once a vector | once    | one load in flight a thread      |
| `CrossEntropyInFlight` | four vectors on their way, one rescaling for all    | once    | short rows: idle threads         |
| `CrossEntropyRows`     | several rows a block, or lanes of a warp            | once    | 16 bits: arithmetic takes longer |
| `CrossEntropyFastExp`  | an exponential of three instructions                | once    | float32: bytes take longer       |
| `CrossEntropyShortTerms` | 16 bits: two instructions a term                  | once    | float32: as before               |
| `CrossEntropyAnyAddress` | rows that start anywhere in vectors, too          | once    |                                  |
| `tuned` CrossEntropy   | the same, with sizes by a rule                      | once    | ships                            |

With the log-sum-exp of the forward pass, the gradient of a logit is dloss (exp(x - lse) - [column = target]), with
[column = target] 1 there and else 0: no reduction at all.

| gradient                                   | the change                            | where it stops paying               |
|--------------------------------------------|---------------------------------------|-------------------------------------|
| `CrossEntropyBackwardElements`             | one block a row, one element a thread | everywhere: few bytes in flight     |
| `CrossEntropyBackwardVectors`              | 16 bytes a load, several on their way | short rows; few long rows: idle SMs |
| `CrossEntropyBackwardFastExp`              | 16 bits: a shorter exponential        | float32: as before                  |
| `CrossEntropyBackwardHint`                 | loads ask L2 to give them up last     |                                     |
| `CrossEntropyBackwardAnyAddress`           | rows that start anywhere in vectors   |                                     |
| `tuned.cross_entropy.CrossEntropyBackward` | the same, with sizes by a rule        | ships                               |

Numbers below are shares of what the fastest plain read reached, 32768 rows on an H200:
`records/h200/bench/cross-entropy-ladder.json`. The versions that are not in it were timed on an H100 alone, if at all;
chapter 9 has their tables.

All take float32, float16 or bfloat16 and compute in float32; targets are columns. A vector divides a row, so rows of odd length get
vectors of one element.

Not covered: ignore_index, targets out of range, the fused kernel that gives loss and gradient at once; the final kernels have them.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.arithmetic import exp_terms, thread_max
from quack_tutorial.kernels.cache_hints import EVICT_LAST, policy_of
from quack_tutorial.kernels.config import Config
from quack_tutorial.kernels.copy import inside, widest_vector
from quack_tutorial.kernels.layout import VECTOR_BYTES, promise_for, threads_for, tile_at, tiled_copy_rows
from quack_tutorial.kernels.reduce import (
    block_reduce,
    block_softmax_reduce,
    combine_lanes,
    exp,
    exp_flushed,
    finite_or_zero,
    online_combine,
    thread_reduce,
    warp_reduce,
)
from quack_tutorial.kernels.tuned.cross_entropy import CrossEntropy, CrossEntropyBackward


class CrossEntropyTwoPass:
    """Cross-entropy with one block a row that reads the row twice: for its maximum, then for the sum.

    Its exponentials are the fast ones; the next versions take accurate ones, until `CrossEntropyFastExp`. Stops paying:
    at two reads, half of a read's speed, unless L2 answers the second (float32: 0.91 of 8192 columns, 0.52 of 16384).
    """

    threads = 256

    @cute.jit
    def __call__(self, mX, mT, mLoss, stream: cuda.CUstream):
        self.kernel(mX, mT, mLoss).launch(grid=[mX.shape[0], 1, 1], block=[self.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX, mT, mLoss):
        N, tidx = mX.shape[1], cute.arch.thread_idx()[0]
        # 64 bits, since row * N may pass 2^31.
        row = cutlass.Int64(cute.arch.block_idx()[0])
        smem, slots = cutlass.memory.SmemAllocator(), cute.make_layout((1, self.threads // 32))
        max_buffer = smem.allocate_tensor(cutlass.Float32, slots, byte_alignment=16)
        sum_buffer = smem.allocate_tensor(cutlass.Float32, slots, byte_alignment=16)
        # read MN elements
        max_row = -cutlass.Float32.inf
        for col in range(tidx, N, self.threads):
            max_row = cute.arch.fmax(max_row, mX[row, col].to(cutlass.Float32))
        max_row = block_reduce(warp_reduce(max_row, cute.arch.fmax), cute.arch.fmax, max_buffer)
        # read MN elements
        sum_row = cutlass.Float32(0.0)
        for col in range(tidx, N, self.threads):
            sum_row += exp(mX[row, col].to(cutlass.Float32) - max_row, fast=True)
        sum_row = block_reduce(warp_reduce(sum_row, operator.add), operator.add, sum_buffer)
        if tidx == 0:
            logit = mX[row, mT[row]].to(cutlass.Float32)
            mLoss[row] = cute.math.log(sum_row) - (logit - max_row)


class CrossEntropyOnline(CrossEntropyTwoPass):
    """As `CrossEntropyTwoPass`, but the maximum and the sum are found in one pass: the sum is rescaled with every element.

    Gains: the second read (float32 of 16384: 0.52 to 0.87). Stops paying: where L2 had answered it, since each element
    now takes two exponentials, one after the other (bfloat16 of 8192: 0.70 to 0.43).
    """

    @cute.kernel
    def kernel(self, mX, mT, mLoss):
        N, tidx = mX.shape[1], cute.arch.thread_idx()[0]
        row = cutlass.Int64(cute.arch.block_idx()[0])
        slots = cute.make_ordered_layout((1, self.threads // 32, 2), order=(2, 1, 0))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, byte_alignment=16)
        # read MN elements
        max_thread, sum_thread = -cutlass.Float32.inf, cutlass.Float32(0.0)
        for col in range(tidx, N, self.threads):
            x = mX[row, col].to(cutlass.Float32)
            # One element is the pair (x, 1), as exp(x - x) = 1.
            max_thread, sum_thread = online_combine(max_thread, sum_thread, x, cutlass.Float32(1.0))
        max_row, sum_row = block_softmax_reduce(*combine_lanes(max_thread, sum_thread), buffer)
        if tidx == 0:
            logit = mX[row, mT[row]].to(cutlass.Float32)
            mLoss[row] = cute.math.log(sum_row) - (logit - max_row)


class CrossEntropyVectors:
    """As `CrossEntropyOnline`, but a thread moves a vector of 16 bytes at a time, and rescales the sum once for its elements.

    Gains: bytes in flight, fewer exponentials (float32 of 4096: 0.45 to 0.96). Stops paying: a thread waits for each load.
    """

    unroll = 1

    def __init__(self, dtype, N, threads_per_block=256):
        self.dtype, self.N, self.threads_per_block = dtype, N, threads_per_block
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.tiler = (1, threads_per_block * self.vector_size * self.unroll)

    @cute.jit
    def __call__(self, mX, mT, mLoss, stream: cuda.CUstream):
        threads = [self.threads_per_block, 1, 1]
        self.kernel(mX, mT, mLoss).launch(grid=[mX.shape[0], 1, 1], block=threads, stream=stream)

    @cute.kernel
    def kernel(self, mX, mT, mLoss):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_block, 1, self.vector_size).get_slice(tidx)
        mC = cute.make_identity_tensor(mX.shape)
        slots = cute.make_ordered_layout((1, self.threads_per_block // 32, 2), order=(2, 1, 0))
        buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, 16)

        # read MN elements
        max_thread, sum_thread = -cutlass.Float32.inf, cutlass.Float32(0.0)
        for tile in range(cute.ceil_div(self.N, self.tiler[1])):
            tXgX = thr_copy.partition_S(tile_at(mX, self.tiler, row, tile))
            tXcX = thr_copy.partition_S(cute.local_tile(mC, self.tiler, (row, tile)))
            tXrX = cute.make_fragment_like(tXgX)
            tXrX.fill(-self.dtype.inf)
            cute.copy(atom, tXgX, tXrX, pred=inside(tXcX, mX.shape))
            x = tXrX.load().to(cutlass.Float32)
            max_new = thread_reduce(x, cute.ReductionOp.MAX, max_thread)
            reference = finite_or_zero(max_new)
            sum_old = sum_thread * exp(max_thread - reference)
            sum_thread = thread_reduce(exp(x - reference), cute.ReductionOp.ADD, sum_old)
            max_thread = max_new
        max_row, sum_row = block_softmax_reduce(*combine_lanes(max_thread, sum_thread), buffer)
        if tidx == 0:
            logit = mX[cutlass.Int64(row), mT[row]].to(cutlass.Float32)
            mLoss[row] = cute.math.log(sum_row) - (logit - max_row)


class CrossEntropyInFlight(CrossEntropyVectors):
    """As `CrossEntropyVectors`, but a thread asks for four vectors before it uses the first; the same source, another number.

    Gains: long rows of float32 (8192: 0.93 to 0.99). Stops paying: in short rows, most of whose loads find nothing.
    """

    unroll = 4


class CrossEntropyRows:
    """As `CrossEntropyInFlight`, but a short row has fewer threads, down to 8 lanes of a warp, and a block has several rows.

    Gains: short rows (float32 of 1024: 0.52 to 0.94). Stops paying: from 8192 on it is the kernel of before; bfloat16
    stays at 0.6 to 0.8, because its arithmetic takes longer than its bytes.
    """

    unroll = 4
    exp = staticmethod(exp)  # the versions after this one replace it, or one of the next three

    def load(self, atom, tXgX, tXrX, tXpX):
        """Load this thread's vectors of a tile."""
        cute.copy(atom, tXgX, tXrX, pred=tXpX)

    def largest(self, tXrX, init_val):
        """The maximum of `init_val` and the values of registers."""
        return thread_reduce(tXrX.load().to(cutlass.Float32), cute.ReductionOp.MAX, init_val)

    def terms(self, tXrX, reference):
        """What the values of registers add to the sum."""
        return self.exp(tXrX.load().to(cutlass.Float32) - reference)

    def __init__(self, dtype, N, threads_per_row=None, threads_per_block=None):
        self.dtype, self.N = dtype, N
        self.threads_per_row = threads_per_row or min(256, threads_for(N))
        self.threads_per_block = threads_per_block or max(128, self.threads_per_row)
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.rows = self.threads_per_block // self.threads_per_row
        self.tiler = (self.rows, self.threads_per_row * self.vector_size * self.unroll)

    @cute.jit
    def __call__(self, mX, mT, mLoss, stream: cuda.CUstream):
        blocks = cute.ceil_div(mX.shape[0], self.rows)
        threads = [self.threads_per_block, 1, 1]
        self.kernel(mX, mT, mLoss).launch(grid=[blocks, 1, 1], block=threads, stream=stream)

    @cute.kernel
    def kernel(self, mX, mT, mLoss):
        tidx, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_row, self.rows, self.vector_size).get_slice(tidx)
        mC = cute.make_identity_tensor(mX.shape)

        # read MN elements
        max_thread, sum_thread = -cutlass.Float32.inf, cutlass.Float32(0.0)
        for tile in range(cute.ceil_div(self.N, self.tiler[1])):
            tXgX = thr_copy.partition_S(tile_at(mX, self.tiler, block, tile))
            tXcX = thr_copy.partition_S(cute.local_tile(mC, self.tiler, (block, tile)))
            tXrX = cute.make_fragment_like(tXgX)
            tXrX.fill(-self.dtype.inf)
            self.load(atom, tXgX, tXrX, inside(tXcX, mX.shape))
            max_new = self.largest(tXrX, max_thread)
            reference = finite_or_zero(max_new)
            sum_old = sum_thread * self.exp(max_thread - reference)
            sum_thread = thread_reduce(self.terms(tXrX, reference), cute.ReductionOp.ADD, sum_old)
            max_thread = max_new
        max_row, sum_row = combine_lanes(max_thread, sum_thread, min(self.threads_per_row, 32))
        if cutlass.const_expr(self.threads_per_row > 32):
            slots = cute.make_ordered_layout((self.rows, self.threads_per_row // 32, 2), order=(2, 1, 0))
            buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, slots, 16)
            max_row, sum_row = block_softmax_reduce(max_row, sum_row, buffer)
        row = cutlass.Int64(block) * self.rows + tidx // self.threads_per_row
        if tidx % self.threads_per_row == 0 and row < mX.shape[0]:
            logit = mX[row, mT[row]].to(cutlass.Float32)
            mLoss[row] = cute.math.log(sum_row) - (logit - max_row)


class CrossEntropyFastExp(CrossEntropyRows):
    """As `CrossEntropyRows`, but with the hardware's 2^x: e^x in three instructions, and 0 where it is below 2^-126.

    Only the logarithm of the sum is wanted, and the sum holds a 1: neither the last bits of a term nor a tiny one are seen in it.
    Gains: bfloat16 (16384: 0.61 to 0.94). Stops paying: in float32, whose bytes take longer than its arithmetic.
    """

    exp = staticmethod(exp_flushed)


class CrossEntropyShortTerms(CrossEntropyFastExp):
    """As `CrossEntropyFastExp`, but 16-bit elements take fewer instructions, as exact as the sum's logarithm can tell.

    A term is two instructions instead of three, two values are compared at a time, and a bfloat16 is widened by a shift
    (`arithmetic.py`). In float32 it is the kernel of before.
    """

    def largest(self, tXrX, init_val):
        return thread_max(tXrX, init_val)

    def terms(self, tXrX, reference):
        return exp_terms(tXrX, reference)


class CrossEntropyAnyAddress(CrossEntropy):
    """What ships, with the sizes of the rungs before: rows that start at any address are read in vectors, too.

    `RowTile` takes the place of the copy with a predicate: whole vectors between the first and the last multiple of 16 bytes
    of a row, single elements before and after, and predicates only in the last piece of a row. A second change comes along:
    the target is loaded before the row, so that memory is waited for once. Sizes are those of `CrossEntropyRows`.
    """

    def __init__(self, dtype, N):
        threads = min(256, threads_for(N))
        config = Config(threads, max(128, threads), vectors_at_once=4)
        super().__init__(dtype, N, promise_for(dtype, N), config=config)

    @cute.jit
    def __call__(self, mX, mT, mLoss, stream: cuda.CUstream):
        launched = self.kernel(mX, mT, mLoss, mLse=None, ignore_index=cutlass.Int64(-100))
        launched.launch(**self.over(mX.shape[0]), stream=stream)


LADDER = {
    "two-pass": lambda dtype, N: CrossEntropyTwoPass(),
    "online": lambda dtype, N: CrossEntropyOnline(),
    "vectors": CrossEntropyVectors,
    "in flight": CrossEntropyInFlight,
    "rows": CrossEntropyRows,
    "fast exp": CrossEntropyFastExp,
    "short terms": CrossEntropyShortTerms,
    "any address": CrossEntropyAnyAddress,
}


class CrossEntropyBackwardElements:
    """The gradient of the logits with one block a row, one element a thread at a time."""

    threads = 256

    @cute.jit
    def __call__(self, mX, mT, mDLoss, mLse, mDX, stream: cuda.CUstream):
        threads = [self.threads, 1, 1]
        self.kernel(mX, mT, mDLoss, mLse, mDX).launch(grid=[mX.shape[0], 1, 1], block=threads, stream=stream)

    @cute.kernel
    def kernel(self, mX, mT, mDLoss, mLse, mDX):
        N, tidx = mX.shape[1], cute.arch.thread_idx()[0]
        row = cutlass.Int64(cute.arch.block_idx()[0])
        target, dloss, lse = mT[row].to(cutlass.Int32), mDLoss[row], mLse[row]
        # read MN elements; write MN elements
        for col in range(tidx, N, self.threads):
            gradient = exp(mX[row, col].to(cutlass.Float32) - lse)
            if col == target:
                gradient -= 1.0
            mDX[row, col] = (gradient * dloss).to(mDX.element_type)


class CrossEntropyBackwardVectors:
    """As `CrossEntropyBackwardElements`, but a thread moves vectors of 16 bytes, `unroll` of them at a time."""

    def exp(self, x):
        """e^x, for which `CrossEntropyBackwardFastExp` has another function."""
        return exp(x)

    def load(self, atom, tXgX, tXrX, tXpX):
        """Load this thread's vectors of a tile, for which `CrossEntropyBackwardHint` has other instructions."""
        cute.copy(atom, tXgX, tXrX, pred=tXpX)

    def __init__(self, dtype, N, threads_per_block=256, unroll=4):
        self.dtype, self.N, self.threads_per_block = dtype, N, threads_per_block
        self.vector_size = widest_vector(dtype, N, VECTOR_BYTES)
        self.tiler = (1, threads_per_block * self.vector_size * unroll)

    @cute.jit
    def __call__(self, mX, mT, mDLoss, mLse, mDX, stream: cuda.CUstream):
        threads = [self.threads_per_block, 1, 1]
        self.kernel(mX, mT, mDLoss, mLse, mDX).launch(grid=[mX.shape[0], 1, 1], block=threads, stream=stream)

    @cute.kernel
    def kernel(self, mX, mT, mDLoss, mLse, mDX):
        row, _, _ = cute.arch.block_idx()
        target, dloss, lse = mT[row].to(cutlass.Int32), mDLoss[row], mLse[row]
        tidx, _, _ = cute.arch.thread_idx()
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_block, 1, self.vector_size).get_slice(tidx)
        mC = cute.make_identity_tensor(mX.shape)
        for tile in range(cute.ceil_div(self.N, self.tiler[1])):
            tXgX = thr_copy.partition_S(tile_at(mX, self.tiler, row, tile))
            tXgDX = thr_copy.partition_D(tile_at(mDX, self.tiler, row, tile))
            tXcX = thr_copy.partition_S(cute.local_tile(mC, self.tiler, (row, tile)))
            tXpX = inside(tXcX, mX.shape)
            # read MN elements
            tXrX = cute.make_fragment_like(tXgX)
            tXrX.fill(-self.dtype.inf)
            self.load(atom, tXgX, tXrX, tXpX)
            gradient = cute.make_rmem_tensor(tXrX.layout, cutlass.Float32)
            gradient.store(self.exp(tXrX.load().to(cutlass.Float32) - lse))
            for k in cutlass.range_constexpr(cute.size(gradient)):
                if tXcX[k][1] == target:
                    gradient[k] = gradient[k] - 1.0
            # write MN elements
            tXrX.store((gradient.load() * dloss).to(self.dtype))
            cute.copy(atom, tXrX, tXgDX, pred=tXpX)


class CrossEntropyBackwardFastExp(CrossEntropyBackwardVectors):
    """As `CrossEntropyBackwardVectors`, but an exponential of 16-bit logits takes 3 instructions less.

    It is off by |x - lse| ulp of a float32, which rounding to 16 bits hides. In float32 it is the kernel of before.
    """

    def exp(self, x):
        return exp(x, fast=self.dtype.width < 32)


class CrossEntropyBackwardHint(CrossEntropyBackwardFastExp):
    """As `CrossEntropyBackwardFastExp`, but every load asks L2 to give up last what it brings, and written bytes go first."""

    def load(self, atom, tXgX, tXrX, tXpX):
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyG2ROp(), self.dtype, num_bits_per_copy=bits)
        cute.copy(atom, tXgX, tXrX, pred=tXpX, cache_policy=policy_of(EVICT_LAST))


class CrossEntropyBackwardAnyAddress(CrossEntropyBackward):
    """What ships, with the sizes of the rungs before: rows that start at any address are moved in vectors, too.

    `RowTile` takes the place of the copy with a predicate. A second change comes along: a block does one piece of a row
    instead of going through it, and short rows share a block.
    """

    def __init__(self, dtype, N):
        threads = min(256, threads_for(N))
        config = Config(threads, max(128, threads), vectors_at_once=4)
        super().__init__(dtype, N, promise_for(dtype, N), config=config)

    @cute.jit
    def __call__(self, mX, mT, mDLoss, mLse, mDX, stream: cuda.CUstream):
        launched = self.kernel(mX, mT, mDLoss, mLse, mDX, mScale=None, ignore_index=cutlass.Int64(-100))
        launched.launch(**self.over(mX.shape[0]), stream=stream)


BACKWARD_LADDER = {
    "elements": lambda dtype, N: CrossEntropyBackwardElements(),
    "vectors": CrossEntropyBackwardVectors,
    "fast exp": CrossEntropyBackwardFastExp,
    "hint": CrossEntropyBackwardHint,
    "any address": CrossEntropyBackwardAnyAddress,
}
