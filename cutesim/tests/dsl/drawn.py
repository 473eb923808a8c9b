"""Small kernels whose traces tests/figures draws: sums of a warp and of a block, strided loads, and races."""

import cutlass
import cutlass.cute as cute
from cutlass import Float32

from .hosts import Constexpr, launched, one_warp
from .written import write


def of_warps(kernel):
    """A function of the number of warps, and of the kernel's other constants."""
    return lambda warps, *constants: launched(32 * warps)(kernel)(warps, *constants)


write(globals())("""
of_groups(x, *, width, largest=False):
    value = Float32(tidx)
    if cutlass.const_expr(largest):
        value = x[tidx]
    for i in cutlass.range_constexpr(width.bit_length() - 1):
        other = cute.arch.shuffle_sync_bfly(value, offset=1 << i)
        value = cute.arch.fmax(value, other) if largest else value + other
down:
    value = x[tidx]
    for i in cutlass.range_constexpr(5):
        value += cute.arch.shuffle_sync_down(value, 16 >> i)
    out[tidx] = value
sent(x): value = cute.arch.shuffle_sync(Float32(tidx) + 5.0, 3)
of_block(x, *, warps, waits) @of_warps:
    buffer = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(warps), 16)
    lane, warp = tidx % 32, tidx // 32
    value = Float32(tidx)
    for i in cutlass.range_constexpr(5):
        value += cute.arch.shuffle_sync_bfly(value, offset=1 << i)
    if lane == 0:
        buffer[warp] = value
    if cutlass.const_expr(waits):
        cute.arch.barrier()
    value = buffer[lane % warps]
    for i in cutlass.range_constexpr(warps.bit_length() - 1):
        value += cute.arch.shuffle_sync_bfly(value, offset=1 << i)
row(x, *, stride, vector, start, repeats):
    for i in cutlass.range_constexpr(repeats):
        values = cute.make_rmem_tensor(vector, Float32)
        place = x.iterator + cute.assume(tidx * stride + start + 32 * i, divby=vector)
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), Float32, num_bits_per_copy=32 * vector)
        cute.copy(atom, cute.make_tensor(place, cute.make_layout(vector)), values)
one_bank(x):
    tile = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout((8, 32), stride=(32, 1)), 16)
    value = tile[tidx % 8, 0]
with_a_loop(x) @launched(64):
    buffer = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    buffer[tidx] = 1.0
    for _ in cutlass.range_constexpr(40):
        other = buffer[tidx]
    value = buffer[0]
twice(x) @launched(64):
    buffer = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(2), 16)
    for _ in cutlass.range_constexpr(2):
        value = Float32(tidx)
        for i in cutlass.range_constexpr(2):
            value += cute.arch.shuffle_sync_bfly(value, offset=1 << i)
        if tidx % 32 == 0:
            buffer[tidx // 32] = value
        value = buffer[0]
""")
