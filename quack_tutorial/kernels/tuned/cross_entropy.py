"""Cross-entropy of each row of an (M, N) tensor of logits with the target class of the row, and its gradient.

    loss = lse - x[target],    lse = log(sum(exp(x))),    dx = (exp(x - lse) - [col == target]) dloss

Far from zero float32 has no room for both a maximum and a logarithm: next to 1e6 its numbers are 1/16 apart. So the loss is
log(sum(exp(x - max))) - (x[target] - max), and where lse is kept for the gradient, so is what rounding it left off.

| kernel                 | reads x | writes                     | the row                                               |
|------------------------|---------|----------------------------|-------------------------------------------------------|
| `CrossEntropy`         | once    | loss, lse if asked for     | goes past: nothing of it is needed again              |
| `CrossEntropyBackward` | once    | dx                         | is cut up: given lse, no element needs another        |
| `CrossEntropyFused`    | once    | loss and dx for dloss = 1  | stays in registers or shared memory, as in softmax    |

Chapter 9 climbs to the first two; they are the rungs of any address with sizes by a rule. The third is softmax's kernel
of chapter 8 with a target.

A row whose target is `ignore_index` has loss 0 and gradient 0. A target that is no column gives NaN for its row, and is
never used as an index. All compute in float32. Rows of up to 262144 elements.
"""

import math

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.reduce import exp, finite_or_zero
from quack_tutorial.kernels.tuned.arithmetic import as_float32, exp_scale, exp_scaled, quotient_factors
from quack_tutorial.kernels.tuned.online import online_max_sum, warp_max_sum
from quack_tutorial.kernels.tuned.row_exchange import RowExchange
from quack_tutorial.kernels.tuned.row_pipeline import RowPipeline
from quack_tutorial.kernels.tuned.row_tile import RowTile
from quack_tutorial.kernels.tuned.rule import sizes


class CrossEntropy:
    """The loss alone: every thread keeps a running (maximum, sum) of the vectors that go past it.

    With `lse` a row that is all -inf has -inf as its log-sum-exp, which it adds to a longer row of which it is a part. mLse is
    (M,), or (2, M) for the gradient.
    """

    def __init__(self, dtype, N, promise="aligned", lse=False, config=None):
        self.dtype, self.N, self.promise, self.lse = dtype, N, promise, lse
        self.config = config or sizes("cross-entropy", dtype.width, N, promise)
        # Without the hint: next to nothing is written, and what it would leave in L2 the next kernel pays for.
        self.tile = RowTile(dtype, N, promise, self.config, vectors=self.config.vectors_at_once, hinted=False)
        self.exchange = RowExchange(self.config, values=2)

    @cute.jit
    def __call__(self, mX, mT, mLoss, mLse, ignore_index: cutlass.Int64, stream: cuda.CUstream):
        self.kernel(mX, mT, mLoss, mLse, ignore_index).launch(
            grid=[self.tile.blocks(mX.shape[0]), 1, 1],
            block=[self.config.threads_per_block, 1, 1],
            cluster=self.config.cluster,
            stream=stream,
        )

    @cute.kernel
    def kernel(self, mX, mT, mLoss, mLse, ignore_index: cutlass.Int64):
        tile, exchange = self.tile, self.exchange
        block, _, _ = cute.arch.block_idx()
        opened = exchange.allocate_and_arrive()
        place = tile.place(mX, block * tile.rows_per_block)
        row = place.row  # below, a branch that names `place` would make its constants variables
        # On its way before the row is, and not looked at until the row is on its way too.
        target = target_of(mT, row)
        cute.arch.sync_warp()  # or the compiler would move that load down to where the target is needed

        # read MN elements
        max_thread, sum_thread = online_max_sum(tile, mX, place, for_logarithm=True)
        col = column_of(target, tile.N)
        logit = logit_of(mX, row, col)
        max_warp, sum_warp = warp_max_sum(tile, max_thread, sum_thread, self.dtype)
        # A row has one block, so no `ready` comes before.
        max_row, sum_row = exchange.row_max_sum(max_warp, sum_warp, opened, part=self.lse)
        if place.exists and place.thread_in_row == 0:
            log_sum = cute.math.log(sum_row)
            mLoss[row] = loss_of(log_sum, logit - max_row, col, target == ignore_index).to(mLoss.element_type)
            if cutlass.const_expr(mLse is not None):
                store_lse(mLse, row, max_row, log_sum)


class CrossEntropyBackward:
    """The gradient from lse: every thread does `vectors_at_once` vectors and is done.

    dloss is (M,) of any floating type and any stride, 0 where all rows share a number; mScale, one float32 where it is given,
    is another factor of all rows: what the mean of the losses divides by. mLse is (M,), or (2, M) with what its rounding left off.
    """

    def __init__(self, dtype, N, promise="aligned", config=None):
        self.dtype, self.N, self.promise = dtype, N, promise
        self.config = config or sizes("cross-entropy backward", dtype.width, N, promise)
        self.tile = RowTile(dtype, N, promise, self.config, vectors=self.config.vectors_at_once)
        self.fast_exp = dtype.width < 32

    @cute.jit
    def __call__(self, mX, mT, mDLoss, mLse, mDX, mScale, ignore_index: cutlass.Int64, stream: cuda.CUstream):
        self.kernel(mX, mT, mDLoss, mLse, mDX, mScale, ignore_index).launch(
            grid=[self.tile.blocks(mX.shape[0]) * self.tile.pieces, 1, 1],
            block=[self.config.threads_per_block, 1, 1],
            cluster=self.config.cluster,
            stream=stream,
        )

    @cute.kernel
    def kernel(self, mX, mT, mDLoss, mLse, mDX, mScale, ignore_index: cutlass.Int64):
        tile = self.tile
        # Neighbouring blocks do neighbouring pieces: what runs at once lies together in memory.
        block, _, _ = cute.arch.block_idx()
        block, piece = block // tile.pieces, block % tile.pieces
        place = tile.place(mX, block * tile.rows_per_block, piece=piece)
        loaded = existing(place.row, mX)
        target, (lse, rest), dloss = target_of(mT, place.row), lse_of(mLse, loaded), mDLoss[loaded]
        scale = mScale[0] if cutlass.const_expr(mScale is not None) else None
        cute.arch.sync_warp()  # what is loaded above this line the compiler does not move down to where it is needed
        # read MN elements
        tXrX = tile.load(mX, place)
        below = tXrX.load().to(cutlass.Float32) - lse
        if cutlass.const_expr(rest is not None):
            below -= rest
        p = exp(below, self.fast_exp)
        col = column_of(target, tile.N)
        p = less_one_at(tile, p, col, place)
        dloss = dloss.to(cutlass.Float32)
        if cutlass.const_expr(scale is not None):
            dloss *= scale
        # write MN elements
        tXrX.store(gradient(tile, p, dloss, col, target == ignore_index).to(self.dtype))
        tile.store(tXrX, mDX, place)


class CrossEntropyFused:
    """The loss, and the gradient of the sum of losses, in one read and one write."""

    def __init__(self, dtype, N, promise="aligned", lse=False, config=None):
        self.dtype, self.N, self.promise, self.lse = dtype, N, promise, lse
        self.config = config or sizes("cross-entropy fused", dtype.width, N, promise)
        self.tile = RowTile(dtype, N, promise, self.config)
        self.exchange = RowExchange(self.config, values=2)
        # The row comes through shared memory if `stages` says so.
        self.pipeline = RowPipeline(dtype, self.tile, tensors=1, stages=self.config.stages, by_vectors=True)
        self.exp_scale = exp_scale(dtype)

    @cute.jit
    def __call__(self, mX, mT, mLoss, mLse, mDX, ignore_index: cutlass.Int64, stream: cuda.CUstream):
        self.kernel(mX, mT, mLoss, mLse, mDX, ignore_index).launch(
            grid=self.tile.grid(mX.shape[0]),
            block=[self.config.threads_per_block, 1, 1],
            cluster=self.config.cluster,
            stream=stream,
        )

    @cute.kernel
    def kernel(self, mX, mT, mLoss, mLse, mDX, ignore_index: cutlass.Int64):
        tile, exchange = self.tile, self.exchange
        block, _, _ = cute.arch.block_idx()
        place = tile.place(mX, block * tile.rows_per_block)
        row = place.row  # below, a branch that names `place` would make its constants variables
        opened = exchange.allocate_and_arrive()
        arriving = self.pipeline.start((mX,), place)
        target = target_of(mT, row)
        cute.arch.sync_warp()  # or the compiler would move that load down to where the target is needed

        # read MN elements
        if cutlass.const_expr(self.pipeline.stages > 0):
            logit = logit_of(mX, row, column_of(target, tile.N))
            self.pipeline.wait(arriving)
            sX, anywhere = self.pipeline.row(arriving), self.pipeline.place(None, place.thread_in_row)
            max_thread, sum_thread = online_max_sum(self.pipeline.smem_tile, sX, anywhere, self.exp_scale)
            max_warp, sum_warp = warp_max_sum(tile, max_thread, sum_thread, self.dtype)
        else:
            tXrX = tile.load(mX, place, fill=-math.inf)
            logit = logit_of(mX, row, column_of(target, tile.N))
            x = tXrX.load().to(cutlass.Float32)
            max_warp = tile.warp_max(x)
            y = exp_scaled(x - finite_or_zero(max_warp), self.exp_scale)
            sum_warp = tile.warp_sum(y)
        exchange.wait_for_peers()
        max_row, scaled_sum = exchange.row_max_sum(max_warp, sum_warp, opened, part=self.lse)
        sum_row = scaled_sum * 2.0**-self.exp_scale
        # Once more, rather than to keep more than the target in registers meanwhile.
        col, ignored = column_of(target, tile.N), target == ignore_index
        if tile.is_first(place):
            log_sum = cute.math.log(sum_row)
            mLoss[row] = loss_of(log_sum, logit - max_row, col, ignored)
            if cutlass.const_expr(mLse is not None):
                store_lse(mLse, row, max_row, log_sum)
        # write MN elements
        if cutlass.const_expr(self.pipeline.stages > 0):
            held = self.write_from_shared(sX, mDX, place, max_row, 1.0 / scaled_sum, col, ignored)
        else:
            if cutlass.const_expr(exchange.needed):
                inverse, scale = quotient_factors(max_warp - max_row, scaled_sum, self.exp_scale)
            else:
                # The hardware's 1 / x, to 1 ulp: a little quicker for some short rows; in softmax it is even (bench/STANDING.md).
                inverse, scale = None, cute.arch.rcp_approx(scaled_sum)
            if cutlass.const_expr(inverse is not None):
                y *= inverse
            tXrX.store(gradient(tile, y, scale, col, ignored).to(self.dtype))
            tile.store(tXrX, mDX, place)
            held = holds(tile, col, place)
        # Who holds the target's column writes it again: cheaper than to compare every column of a long row.
        if held and not ignored:
            p_target = exp(logit - max_row) / sum_row
            mDX[cutlass.Int64(row), col] = (p_target - 1.0).to(self.dtype)

    @cute.jit
    def write_from_shared(self, sX, mDX, place, max_row, scale, col, ignored):
        """Read the row again, from shared memory, and write exp(x - max_row) * scale; whether this thread wrote column `col`."""
        mPart = self.pipeline.part_of(mDX, place)
        for step in range(self.pipeline.smem_tile.pieces):
            at = self.pipeline.place(step, place.thread_in_row)
            rX = self.pipeline.smem_tile.load(sX, at)
            p = exp_scaled(as_float32(rX) - max_row, self.exp_scale)
            rX.store(gradient(self.pipeline.smem_tile, p, scale, col, ignored).to(self.dtype))
            self.pipeline.smem_tile.store(rX, mPart, at)
        local = col - place.piece * self.tile.width
        there = self.pipeline.place(local // self.pipeline.smem_tile.width, place.thread_in_row)
        return holds(self.pipeline.smem_tile, local, there)


def existing(row, mX):
    """`row`, or the last row where there is no such row: what is loaded without a branch must be somewhere.

    A load behind a branch is moved down to where its value is needed, and then memory is waited for twice.
    """
    return cutlass.min(row, mX.shape[0] - 1)


def target_of(mT: cute.Tensor, row):
    """The target of a row, or of the last one. What follows should not look at it before the row is on its way."""
    return mT[existing(row, mT)].to(cutlass.Int64)


@cute.jit
def column_of(target, N: cutlass.Constexpr):
    """The target as a 32-bit column, -1 if it is none."""
    col = cutlass.Int32(-1)
    if target >= 0 and target < N:
        col = target.to(cutlass.Int32)
    return col


@cute.jit
def logit_of(mX: cute.Tensor, row, col):
    """The logit of column `col`, of column 0 if that is -1; of the last row where there is no such row."""
    return mX[cutlass.Int64(existing(row, mX)), cutlass.max(col, 0)].to(cutlass.Float32)


@cute.jit
def loss_of(log_sum, above, col, ignored):
    """log_sum - above, both of a row less its maximum; NaN where the target is no column, 0 where it is to be ignored."""
    loss = log_sum - above
    if col < 0:
        loss = cutlass.Float32(math.nan)
    if ignored:
        loss = cutlass.Float32(0.0)
    return loss


def store_lse(mLse: cute.Tensor, row, max_row, log_sum):
    """Write max_row + log_sum for a row; of a (2, M) mLse the second half gets what rounding the sum left off."""
    lse = max_row + log_sum
    if cute.rank(mLse) == 1:
        mLse[row] = lse
    else:
        mLse[0, row], mLse[1, row] = lse, (max_row - lse) + log_sum


def lse_of(mLse: cute.Tensor, row):
    """(lse, what its rounding left off or None) of a row."""
    return (mLse[row], None) if cute.rank(mLse) == 1 else (mLse[0, row], mLse[1, row])


@cute.jit
def less_one_at(tile, p, col, place):
    """p, this thread's values of a row, less 1 where the row's column `col` is."""
    less = cute.make_rmem_tensor(tile.elements_held, cutlass.Float32)
    less.store(p)
    # Branches become tables of jumps. A few values are done sooner without; with more, jumps are what keeps the compiler from
    # moving loads down to where their values are needed.
    few = tile.vectors <= 2 and tile.elements_held == tile.certain * tile.vector_size
    for k in cutlass.range_constexpr(tile.elements_held):
        if cutlass.const_expr(few):
            less[k] = less[k] - cutlass.Float32(is_at(tile, k, col, place))
        elif is_at(tile, k, col, place):
            less[k] = less[k] - 1.0
    return less.load()


def is_at(tile, k, col, place):
    """Whether this thread's value k is the one in column `col`, a Boolean; of values that the row does not have, anything."""
    single = k - tile.vectors * tile.vector_size
    if single >= 0:
        return tile.single_column(single, place) == col
    vector = k // tile.vector_size * tile.threads_per_row
    # The same number for every k but for a constant.
    return (
        col - place.head - place.piece * tile.width - place.thread_in_row * tile.vector_size
        == vector * tile.vector_size + k % tile.vector_size
    )


@cute.jit
def holds(tile: cutlass.Constexpr, col, place):
    """Whether this thread has the element of column `col`, which may be any number."""
    k, vectors, threads = col - place.head, tile.width // tile.vector_size, tile.threads_per_row
    vector = k // tile.vector_size - place.piece * vectors
    held = k >= 0 and k < place.body and vector >= 0 and vector < vectors and vector % threads == place.thread_in_row
    if cutlass.const_expr(tile.singles > 0):
        if k < 0:
            held = place.piece == 0 and col >= 0 and col % threads == place.thread_in_row
        if k >= place.body:
            held = place.piece == 0 and col < tile.N and (col - place.body) % threads == place.thread_in_row
    return place.exists and held


@cute.jit
def gradient(tile, p, scale, col, ignored):
    """p * scale for this thread's values: NaN if the target is no column, 0 if it is ignored."""
    if col < 0:
        scale = cutlass.Float32(math.nan)
    dx = cute.make_rmem_tensor(tile.elements_held, cutlass.Float32)
    dx.store(p * scale)
    if ignored:
        dx.fill(0.0)
    return dx.load()
