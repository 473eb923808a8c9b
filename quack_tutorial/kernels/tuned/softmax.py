"""Softmax of each row of an (M, N) tensor as it ships, y = exp(x - max) / sum(exp(x - max)), and its gradient.

`Softmax` is the last rung of chapter 8 (`SoftmaxAnyAddress` makes it with the sizes of the rungs); `SoftmaxBackward` has no
ladder. Both classes take float32, float16 or bfloat16 rows of up to 262144 elements, compute in float32, and give what torch
gives: a row that is all -inf, or that holds NaN or +inf, becomes NaN."""

import math

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.arithmetic import quotient_factors
from quack_tutorial.kernels.tuned.online import ExponentialKernel, held_max_sum
from quack_tutorial.kernels.tuned.row_exchange import RowExchange
from quack_tutorial.kernels.tuned.row_pipeline import RowPipeline
from quack_tutorial.kernels.tuned.row_tile import RowKernel


class Softmax(ExponentialKernel):
    """Softmax that reads the row once: to registers, of a cluster where one block has too few, or to shared memory."""

    operation = "softmax"

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        self.kernel(mX, mO).launch(**self.over(mX.shape[0]), stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tile, exchange = self.tile, self.exchange
        block, _, _ = cute.arch.block_idx()
        place = tile.place(mX, block * tile.rows_per_block)
        opened = exchange.allocate_and_arrive()
        # read MN elements
        if cutlass.const_expr(self.shared.stages > 0):
            arriving = self.shared.start((mX,), place)
            self.shared.wait(arriving)
            self.in_shared_memory(arriving, mO, place, opened)
        else:
            self.in_registers(tile.load(mX, place, fill=-math.inf), mO, place, opened)

    @cute.jit
    def in_registers(self, tXrX, mO, place, opened):
        """Softmax of a row that the threads have in registers, `tXrX`."""
        # Every warp subtracts its own maximum, so that a row of several warps needs only one exchange.
        y, max_warp, sum_warp = held_max_sum(self.tile, tXrX, self.exp_scale)
        inverse, factor = None, 1.0 / sum_warp  # a row all -inf: 0 * inf = NaN
        if cutlass.const_expr(self.exchange.needed):
            self.exchange.wait_for_peers()
            max_row, sum_row = self.exchange.row_max_sum(max_warp, sum_warp, opened)
            inverse, factor = quotient_factors(max_warp - max_row, sum_row, self.exp_scale)
        self.write_held(tXrX, y, inverse, factor, mO, place)  # write MN elements

    @cute.jit
    def in_shared_memory(self, arriving, mO, place, opened):
        """Softmax of a row whose parts the blocks have in shared memory."""
        sX, mPart = self.shared.row(arriving), self.shared.part_of(mO, place)
        max_row, sum_row = self.shared.warp_max_sum(sX, place, self.terms)  # the row's, if it has no other warp
        if cutlass.const_expr(self.exchange.needed):
            self.exchange.wait_for_peers()
            max_row, sum_row = self.exchange.row_max_sum(max_row, sum_row, opened)
        self.write_shared(sX, max_row, 1.0 / sum_row, mPart, place)  # write MN elements


class SoftmaxBackward(RowKernel):
    """The gradient of softmax: dx = y (dy - sum(dy y)) for each row, from y, which softmax gave, and dy."""

    operation = "softmax backward"

    def __init__(self, dtype, N, promise="aligned", **given):
        super().__init__(dtype, N, promise, **given)
        self.exchange = RowExchange(self.config)
        self.pipeline = RowPipeline(dtype, self.tile, tensors=2, stages=self.config.stages)

    @cute.jit
    def __call__(self, mY: cute.Tensor, mDY: cute.Tensor, mDX: cute.Tensor, stream: cuda.CUstream):
        self.kernel(mY, mDY, mDX).launch(**self.over(mY.shape[0]), stream=stream)

    @cute.kernel
    def kernel(self, mY: cute.Tensor, mDY: cute.Tensor, mDX: cute.Tensor):
        tile, exchange, pipeline = self.tile, self.exchange, self.pipeline
        block, _, _ = cute.arch.block_idx()
        place = tile.place(mY, block * tile.rows_per_block)
        opened = exchange.allocate_and_arrive()
        # read 2 MN elements
        arriving = pipeline.start((mY, mDY), place)
        pipeline.wait(arriving)
        tXrY, y, dy = self.load(arriving, mY, mDY, place)
        sum_warp = tile.warp_sum(y * dy)
        exchange.wait_for_peers()
        (sum_row,) = exchange.row_sums((sum_warp,), opened)
        if cutlass.const_expr(pipeline.stages > 0):
            # From shared memory again, so that the rows did not have to stay in registers meanwhile.
            tXrY, y, dy = self.load(arriving, mY, mDY, place)
        # write MN elements
        tXrY.store((y * (dy - sum_row)).to(self.dtype))
        tile.store(tXrY, mDX, place)

    def load(self, arriving, mY, mDY, place):
        """This thread's part of y, as registers to be used again, and of y and dy in float32."""
        tXrY, tXrDY = self.pipeline.take(arriving, (mY, mDY), place)
        return tXrY, tXrY.load().to(cutlass.Float32), tXrDY.load().to(cutlass.Float32)
