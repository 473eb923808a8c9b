"""Kernels whose results are wrong by rounding, by their formula, or by both; and ways a number takes through memory."""

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float32, Int32

from .hosts import one_warp
from .written import write

write(globals())('''
variance(x, out, *, two_pass, divisor=32.0):
    """The variance of 32 numbers: of what is left of each, or as the mean square less the squared mean; with a wrong divisor."""
    value = x[t]
    mean = cute.arch.warp_reduction_sum(value) / 32.0
    if cutlass.const_expr(two_pass):
        total = cute.arch.warp_reduction_sum((value - mean) * (value - mean))
    else:
        total = cute.arch.warp_reduction_sum(value * value) - 32.0 * mean * mean
    if t == 0:
        out[0] = total / divisor
plain_softmax:
    """Without the maximum: the powers leave float32."""
    power = cute.math.exp(x[t])
    out[t] = power / cute.arch.warp_reduction_sum(power)
way(x, out, *, how):
    """out = x / 3 over what a kernel may keep a number in."""
    third = x[t] / 3.0
    if cutlass.const_expr(how == "bf16"):
        third = third.to(BFloat16).to(Float32)
    if cutlass.const_expr(how == "registers"):
        r = cute.make_rmem_tensor((4,), Float32)
        r.fill(0.0)
        r[t % 4] = third
        third = r.load().reduce(cute.ReductionOp.ADD, Float32(0.0), 0)
    if cutlass.const_expr(how == "shared"):
        s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32), 16)
        s[31 - t] = third
        cute.arch.sync_warp()
        third = s[31 - t]
    if cutlass.const_expr(how == "bits"):
        third = third.bitcast(Int32).bitcast(Float32)
    if cutlass.const_expr(how == "atomic"):
        out[t] = 0.0
        cute.arch.atomic_add(out.iterator + t, third)
    elif cutlass.const_expr(how == "whole"):
        out[t] = Float32(Int32(third))
    else:
        out[t] = third
''')
