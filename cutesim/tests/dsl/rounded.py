"""Kernels whose results are wrong by rounding, by their formula, or by both; and ways a number takes through memory."""

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32

from .hosts import one_warp


class Variance:
    """The variance of 32 numbers: of what is left of each, or as the mean square less the squared mean; with a wrong divisor."""

    def __init__(self, two_pass: bool, divisor=32.0):
        self.two_pass, self.divisor = two_pass, divisor

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        t, _, _ = cute.arch.thread_idx()
        value = x[t]
        mean = cute.arch.warp_reduction_sum(value) / 32.0
        if cutlass.const_expr(self.two_pass):
            total = cute.arch.warp_reduction_sum((value - mean) * (value - mean))
        else:
            total = cute.arch.warp_reduction_sum(value * value) - 32.0 * mean * mean
        if t == 0:
            out[0] = total / self.divisor


@one_warp
@cute.kernel
def plain_softmax(x: cute.Tensor, out: cute.Tensor):
    """Without the maximum: the powers leave float32."""
    t, _, _ = cute.arch.thread_idx()
    power = cute.math.exp(x[t])
    out[t] = power / cute.arch.warp_reduction_sum(power)


class Way:
    """out = x / 3 over what a kernel may keep a number in."""

    def __init__(self, how: str):
        self.how = how

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        t, _, _ = cute.arch.thread_idx()
        third = x[t] / 3.0
        if cutlass.const_expr(self.how == "bf16"):
            third = third.to(BFloat16).to(Float32)
        if cutlass.const_expr(self.how == "registers"):
            r = cute.make_rmem_tensor((4,), Float32)
            r.fill(0.0)
            r[t % 4] = third
            third = r.load().reduce(cute.ReductionOp.ADD, Float32(0.0), 0)
        if cutlass.const_expr(self.how == "shared"):
            s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32), 16)
            s[31 - t] = third
            cute.arch.sync_warp()
            third = s[31 - t]
        if cutlass.const_expr(self.how == "bits"):
            third = third.bitcast(Int32).bitcast(Float32)
        if cutlass.const_expr(self.how == "atomic"):
            out[t] = 0.0
            cute.arch.atomic_add(out.iterator + t, third)
        elif cutlass.const_expr(self.how == "whole"):
            out[t] = Float32(Int32(third))
        else:
            out[t] = third
