"""Softmax of each row of an (M, N) tensor as it ships, y = exp(x - max) / sum(exp(x - max)), and its gradient.

`Softmax` is the last rung of chapter 8 (`SoftmaxAnyAddress` makes it with the sizes of the rungs); `SoftmaxBackward` has no ladder.
Both classes take float32, float16 or bfloat16 rows of up to 262144 elements, compute in float32, and give what torch gives: a row
that is all -inf, or that holds NaN or +inf, becomes NaN.
"""

import math

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.reduce import finite_or_zero
from quack_tutorial.kernels.tuned.arithmetic import as_float32, exp_scale, exp_scaled, quotient_factors
from quack_tutorial.kernels.tuned.online import online_max_sum, warp_max_sum
from quack_tutorial.kernels.tuned.row_exchange import RowExchange
from quack_tutorial.kernels.tuned.row_pipeline import RowPipeline
from quack_tutorial.kernels.tuned.row_tile import RowTile
from quack_tutorial.kernels.tuned.rule import sizes


class Softmax:
    """Softmax that reads the row once and keeps it in registers, in those of a cluster where one block has too few; or in shared
    memory, if `stages` of the configuration says so.

    `promise` is what the caller knows about addresses ("aligned", "congruent" or "any", see `row_tile`).
    """

    def __init__(self, dtype, N, promise="aligned", config=None):
        self.dtype, self.N, self.promise = dtype, N, promise
        self.config = config or sizes("softmax", dtype.width, N, promise)
        self.tile = RowTile(dtype, N, promise, self.config)
        self.exchange = RowExchange(self.config, values=2)
        self.pipeline = RowPipeline(dtype, self.tile, tensors=1, stages=self.config.stages, by_vectors=True)
        self.exp_scale = exp_scale(dtype)

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        self.kernel(mX, mO).launch(
            grid=self.tile.grid(mX.shape[0]),
            block=[self.config.threads_per_block, 1, 1],
            cluster=self.config.cluster,
            stream=stream,
        )

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tile, exchange = self.tile, self.exchange
        block, _, _ = cute.arch.block_idx()
        place = tile.place(mX, block * tile.rows_per_block)
        opened = exchange.allocate_and_arrive()
        # read MN elements
        if cutlass.const_expr(self.pipeline.stages > 0):
            arriving = self.pipeline.start((mX,), place)
            self.pipeline.wait(arriving)
            self.in_shared_memory(arriving, mO, place, opened)
        else:
            self.in_registers(tile.load(mX, place, fill=-math.inf), mO, place, opened)

    @cute.jit
    def in_registers(self, tXrX, mO, place, opened):
        """Softmax of a row that the threads have in registers, `tXrX`."""
        tile, exchange = self.tile, self.exchange
        x = tXrX.load().to(cutlass.Float32)
        # Every warp subtracts its own maximum, so that a row of several warps needs only one exchange.
        max_warp = tile.warp_max(x)
        # For 16 bits 2^64 times too large, until the division: the short exponential makes 0 of results below 2^-126, which
        # bfloat16 still has.
        y = exp_scaled(x - finite_or_zero(max_warp), self.exp_scale)
        sum_warp = tile.warp_sum(y)
        inverse, factor = None, 1.0 / sum_warp  # a row all -inf: 0 * inf = NaN
        if cutlass.const_expr(exchange.needed):
            exchange.wait_for_peers()
            max_row, sum_row = exchange.row_max_sum(max_warp, sum_warp, opened)
            inverse, factor = quotient_factors(max_warp - max_row, sum_row, self.exp_scale)
        if cutlass.const_expr(inverse is not None):
            y *= inverse

        # write MN elements
        tXrX.store((y * factor).to(self.dtype))
        tile.store(tXrX, mO, place)

    @cute.jit
    def in_shared_memory(self, arriving, mO, place, opened):
        """Softmax of a row whose parts the blocks have in shared memory: read twice from there, a few vectors at a time."""
        exchange, pipeline = self.exchange, self.pipeline
        sX, mPart = pipeline.row(arriving), pipeline.part_of(mO, place)
        anywhere = pipeline.place(None, place.thread_in_row)
        max_thread, sum_thread = online_max_sum(pipeline.smem_tile, sX, anywhere, self.exp_scale)
        # The warp's, and the row's if it has no other.
        max_row, sum_row = warp_max_sum(self.tile, max_thread, sum_thread, self.dtype)
        if cutlass.const_expr(exchange.needed):
            exchange.wait_for_peers()
            max_row, sum_row = exchange.row_max_sum(max_row, sum_row, opened)
        factor = 1.0 / sum_row  # one factor: the terms below already have the row's maximum

        # write MN elements
        for step in range(self.pipeline.smem_tile.pieces):
            at = self.pipeline.place(step, place.thread_in_row)
            rX = self.pipeline.smem_tile.load(sX, at)
            rX.store((exp_scaled(as_float32(rX) - max_row, self.exp_scale) * factor).to(self.dtype))
            self.pipeline.smem_tile.store(rX, mPart, at)


class SoftmaxBackward:
    """The gradient of softmax: dx = y (dy - sum(dy y)) for each row, from y, which softmax gave, and dy."""

    def __init__(self, dtype, N, promise="aligned", config=None):
        self.dtype, self.N, self.promise = dtype, N, promise
        self.config = config or sizes("softmax backward", dtype.width, N, promise)
        self.tile = RowTile(dtype, N, promise, self.config)
        self.exchange = RowExchange(self.config)
        self.pipeline = RowPipeline(dtype, self.tile, tensors=2, stages=self.config.stages)

    @cute.jit
    def __call__(self, mY: cute.Tensor, mDY: cute.Tensor, mDX: cute.Tensor, stream: cuda.CUstream):
        self.kernel(mY, mDY, mDX).launch(
            grid=self.tile.grid(mY.shape[0]),
            block=[self.config.threads_per_block, 1, 1],
            cluster=self.config.cluster,
            stream=stream,
        )

    @cute.kernel
    def kernel(self, mY: cute.Tensor, mDY: cute.Tensor, mDX: cute.Tensor):
        tile, exchange, pipeline = self.tile, self.exchange, self.pipeline
        block, _, _ = cute.arch.block_idx()
        place = tile.place(mY, block * tile.rows_per_block)
        opened = exchange.allocate_and_arrive()

        # read 2 MN elements
        arriving = pipeline.start((mY, mDY), place)
        pipeline.wait(arriving)
        tXrY, tXrDY = pipeline.take(arriving, 0, mY, place), pipeline.take(arriving, 1, mDY, place)
        y, dy = tXrY.load().to(cutlass.Float32), tXrDY.load().to(cutlass.Float32)
        sum_warp = tile.warp_sum(y * dy)
        exchange.wait_for_peers()
        sum_row = exchange.row_sum(sum_warp, opened)
        if cutlass.const_expr(pipeline.stages > 0):
            # From shared memory again, so that the rows did not have to stay in registers meanwhile.
            tXrY, tXrDY = pipeline.take(arriving, 0, mY, place), pipeline.take(arriving, 1, mDY, place)
            y, dy = tXrY.load().to(cutlass.Float32), tXrDY.load().to(cutlass.Float32)

        # write MN elements
        tXrY.store((y * (dy - sum_row)).to(self.dtype))
        tile.store(tXrY, mDX, place)
