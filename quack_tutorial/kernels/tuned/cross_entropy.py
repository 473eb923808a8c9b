"""Cross-entropy of each row of an (M, N) tensor of logits with the target class of the row, and its gradient.

    loss = lse - x[target],    lse = log(sum(exp(x))),    dx = (exp(x - lse) - [col == target]) dloss

Far from zero float32 has no room for both a maximum and a logarithm: next to 1e6 its numbers are 1/16 apart. So the loss is
log(sum(exp(x - max))) - (x[target] - max), and where lse is kept for the gradient, so is what rounding it left off.

Chapter 9 climbs to the first two kernels; the third is chapter 8's softmax with a target. A row whose target is `ignore_index` has
loss 0 and gradient 0; one whose target is no column, which is never used as an index, has NaN. All compute in float32.
"""

import math

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.arithmetic import exp_terms, quotient_factors
from quack_tutorial.kernels.reduce import exp
from quack_tutorial.kernels.tuned.online import ExponentialKernel, held_max_sum, online_max_sum, warp_max_sum
from quack_tutorial.kernels.tuned.row_tile import RowKernel, RowTile, existing, keep_loads_above


class LossTile(RowTile):
    """Without the hint: next to nothing is written, and what it would leave in L2 the next kernel pays for."""

    hinted = False


class CrossEntropy(ExponentialKernel):
    """The loss alone: every thread keeps a running (maximum, sum) of the vectors that go past it. With mLse, (M,), or (2, M) for
    the gradient, a row that is all -inf has that as its log-sum-exp, which it adds to a longer row that it is a part of."""

    operation, tile_type = "cross-entropy", LossTile

    @cute.jit
    def __call__(self, mX, mT, mLoss, mLse, ignore_index: cutlass.Int64, stream: cuda.CUstream):
        self.kernel(mX, mT, mLoss, mLse, ignore_index).launch(**self.over(mX.shape[0]), stream=stream)

    @cute.kernel
    def kernel(self, mX, mT, mLoss, mLse, ignore_index: cutlass.Int64):
        tile, exchange = self.tile, self.exchange
        block, _, _ = cute.arch.block_idx()
        opened = exchange.allocate_and_arrive()
        rank = cute.arch.block_idx()[1] if self.config.blocks_per_row > 1 else 0
        place = tile.place(mX, block * tile.rows_per_block, piece=rank)
        row = place.row  # for branches, see `Place`
        # On its way before the row is, and not looked at until the row is on its way too.
        target = target_of(mT, row)
        keep_loads_above()
        # read MN elements
        max_thread, sum_thread = online_max_sum(tile, mX, place, exp_terms)
        col = column_of(target, tile.N)
        logit = logit_of(mX, row, col)
        max_warp, sum_warp = warp_max_sum(tile, max_thread, sum_thread, self.dtype)
        exchange.wait_for_peers()
        max_row, sum_row = exchange.row_max_sum(max_warp, sum_warp, opened, part=mLse is not None)
        if tile.is_first(place):
            log_sum = cute.math.log(sum_row)
            write_loss(mLoss, mLse, row, max_row, log_sum, logit - max_row, col, target == ignore_index)


class CrossEntropyBackward(RowKernel):
    """The gradient from lse: every thread does `vectors_at_once` vectors and is done.

    dloss is (M,) of any floating type and stride, 0 where all rows share a number; mScale, one float32 where it is given, is
    another factor of all: what the mean of the losses divides by. mLse is (M,), or (2, M) with what its rounding left off."""

    operation = "cross-entropy backward"

    @cute.jit
    def __call__(self, mX, mT, mDLoss, mLse, mDX, mScale, ignore_index: cutlass.Int64, stream: cuda.CUstream):
        self.kernel(mX, mT, mDLoss, mLse, mDX, mScale, ignore_index).launch(**self.over(mX.shape[0]), stream=stream)

    def over(self, M):
        """The launch for M rows: neighbouring blocks do neighbouring pieces, so that what runs at once lies together in memory."""
        return self.launched([self.tile.blocks(M) * self.tile.pieces, 1, 1])

    @cute.kernel
    def kernel(self, mX, mT, mDLoss, mLse, mDX, mScale, ignore_index: cutlass.Int64):
        tile = self.tile
        block, _, _ = cute.arch.block_idx()
        block, piece = block // tile.pieces, block % tile.pieces
        place = tile.place(mX, block * tile.rows_per_block, piece=piece)
        loaded = existing(place.row, mX)
        target, (lse, rest), dloss = target_of(mT, place.row), lse_of(mLse, loaded), mDLoss[loaded]
        scale = mScale[0] if cutlass.const_expr(mScale is not None) else None
        keep_loads_above()
        # read MN elements
        tXrX = tile.load(mX, place)
        below = tXrX.load().to(cutlass.Float32) - lse
        if cutlass.const_expr(rest is not None):
            below -= rest
        p = exp(below, fast=self.dtype.width < 32)
        col = column_of(target, tile.N)
        p = less_one_at(tile, p, col, place)
        dloss = dloss.to(cutlass.Float32)
        if cutlass.const_expr(scale is not None):
            dloss *= scale
        # write MN elements
        tXrX.store(gradient(tile, p, dloss, col, target == ignore_index).to(self.dtype))
        tile.store(tXrX, mDX, place)


class CrossEntropyFused(ExponentialKernel):
    """The loss, and the gradient of the sum of losses, in one read and one write; mLse as in `CrossEntropy`."""

    operation = "cross-entropy fused"

    @cute.jit
    def __call__(self, mX, mT, mLoss, mLse, mDX, ignore_index: cutlass.Int64, stream: cuda.CUstream):
        self.kernel(mX, mT, mLoss, mLse, mDX, ignore_index).launch(**self.over(mX.shape[0]), stream=stream)

    @cute.kernel
    def kernel(self, mX, mT, mLoss, mLse, mDX, ignore_index: cutlass.Int64):
        tile, exchange, shared = self.tile, self.exchange, self.shared
        block, _, _ = cute.arch.block_idx()
        place = tile.place(mX, block * tile.rows_per_block)
        row = place.row  # for branches, see `Place`
        opened = exchange.allocate_and_arrive()
        arriving = shared.start((mX,), place)
        target = target_of(mT, row)
        keep_loads_above()
        # read MN elements
        if cutlass.const_expr(shared.stages > 0):
            logit = logit_of(mX, row, column_of(target, tile.N))
            shared.wait(arriving)
            sX = shared.row(arriving)
            max_warp, sum_warp = shared.warp_max_sum(sX, place, self.terms)
        else:
            tXrX = tile.load(mX, place, fill=-math.inf)
            logit = logit_of(mX, row, column_of(target, tile.N))
            y, max_warp, sum_warp = held_max_sum(tile, tXrX, self.exp_scale)
        exchange.wait_for_peers()
        max_row, scaled_sum = exchange.row_max_sum(max_warp, sum_warp, opened, part=mLse is not None)
        sum_row = scaled_sum * 2.0**-self.exp_scale
        # Once more, rather than to keep more than the target in registers meanwhile.
        col, ignored = column_of(target, tile.N), target == ignore_index
        if tile.is_first(place):
            write_loss(mLoss, mLse, row, max_row, cute.math.log(sum_row), logit - max_row, col, ignored)
        # write MN elements
        if cutlass.const_expr(shared.stages > 0):
            self.write_shared(sX, max_row, 1.0 / scaled_sum, shared.part_of(mDX, place), place, (col, ignored))
            local = col - place.piece * tile.width
            held = holds(shared.pieces, local, shared.place(local // shared.pieces.width, place))
        else:
            # The hardware's 1 / x, to 1 ulp: a little quicker for some short rows; in softmax it is even (bench/STANDING.md).
            inverse, factor = None, cute.arch.rcp_approx(scaled_sum)
            if cutlass.const_expr(exchange.needed):
                inverse, factor = quotient_factors(max_warp - max_row, scaled_sum, self.exp_scale)
            self.write_held(tXrX, y, inverse, factor, mDX, place, (col, ignored))
            held = holds(tile, col, place)
        # Who holds the target's column writes it again: cheaper than to compare every column of a long row.
        if held and not ignored:
            p_target = exp(logit - max_row) / sum_row
            mDX[cutlass.Int64(row), col] = (p_target - 1.0).to(self.dtype)

    def finished(self, tile, terms, factor, target):
        """The gradient from its exponentials; `target` is its column, and whether it is ignored."""
        return gradient(tile, terms, factor, *target)


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
def write_loss(mLoss, mLse, row, max_row, log_sum, above, col, ignored):
    """Write the loss of a row, log_sum - above, both less its maximum: NaN where the target is no column, 0 where it is `ignored`;
    and if asked for lse = max_row + log_sum, in a (2, M) mLse with what rounding left off."""
    loss = log_sum - above
    if col < 0:
        loss = cutlass.Float32(math.nan)
    if ignored:
        loss = cutlass.Float32(0.0)
    mLoss[row] = loss.to(mLoss.element_type)
    if cutlass.const_expr(mLse is not None):
        lse = max_row + log_sum
        if cutlass.const_expr(cute.rank(mLse) == 1):
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
    size, threads = tile.vector_size, tile.threads_per_row
    if k >= tile.vectors * size:
        return tile.single_column(k - tile.vectors * size, place) == col
    # The same number for every k but for a constant.
    from_first = col - place.head - place.piece * tile.width - place.thread_in_row * size
    return from_first == k // size * threads * size + k % size


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
