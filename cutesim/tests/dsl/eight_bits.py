"""Floats of 8 bits: conversions, vectors of them, memory that holds them, and what the compiler refuses of them."""

import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Boolean, Float8E4M3FN, Float8E5M2, Float16, Float32, Float64, Int32, Uint8, Uint32
from cutlass._mlir.dialects import llvm

from .hosts import Constexpr, launched, one_warp
from .written import write


def _pairs(text, constraints, *operands):
    return Uint32(llvm.inline_asm(Uint32.mlir_type, [o.ir_value() for o in operands], text, constraints))


# Statements on `a`, a byte, `v` and `four`, four of a type, and `out`, bytes too.
KNOWN = {
    "t": "t, _, _ = cute.arch.thread_idx()",
    "a": "a = x[t]",
    "v": "v = cute.recast_tensor(cute.local_tile(x, (4,), (t,)), Float8E4M3FN).load()",
    "four": "four = cute.recast_tensor(cute.local_tile(out, (4,), (t,)), Float8E4M3FN)",
}


# what the compiler fails at
REFUSED = write(globals(), known=KNOWN)("""
a_sum: out[t] = (a.bitcast(Float8E4M3FN) + a.bitcast(Float8E4M3FN)).bitcast(Uint8)
a_sum_of_vectors: four.store(v + v)
of_two_formats: out[t] = Uint8(Int32(a.bitcast(Float8E4M3FN) * a.bitcast(Float8E5M2)))
a_negative: out[t] = (-a.bitcast(Float8E4M3FN)).bitcast(Uint8)
a_comparison:
    if a.bitcast(Float8E4M3FN) > out[0].bitcast(Float8E4M3FN):
        out[t] = Uint8(1)
a_reduction: out[t] = Uint8(Int32(v.reduce(cute.ReductionOp.ADD, Float32(0.0), 0)))
a_function: out[t] = Uint8(Int32(cute.math.exp(a.bitcast(Float8E4M3FN)).to(Float32)))
a_maximum: out[t] = Uint8(Int32(cutlass.max(a.bitcast(Float8E4M3FN), out[t].bitcast(Float8E4M3FN)).to(Float32)))
of_an_integer: out[t] = Float8E4M3FN(Int32(a)).bitcast(Uint8)
of_a_condition: out[t] = Float8E4M3FN(a > Uint8(3)).bitcast(Uint8)
to_an_integer: out[t] = Uint8(a.bitcast(Float8E4M3FN).to(Int32))
to_the_other_format: out[t] = a.bitcast(Float8E4M3FN).to(Float8E5M2).bitcast(Uint8)
stored_without_conversion: cute.recast_tensor(out, Float8E4M3FN)[t] = Float32(a)
a_vector_without_conversion: four.store(cute.full((4,), 1.0, Float32))
""")
TAKEN = write(globals(), known=KNOWN)("""
chosen_by_a_condition:
    r = Float8E4M3FN(1.0)
    if t > 3:
        r = a.bitcast(Float8E4M3FN)
    four[0] = r
where: four.store(cute.where(cute.full((4,), t > 3, Boolean), v, v))
with_a_wider_type: out[t] = Uint8(Int32(a.bitcast(Float8E4M3FN) * BFloat16(2.0) + Float32(t)))
a_maximum_of_another_type: out[t] = Uint8(Int32(max(a.bitcast(Float8E5M2).to(Float64), Float64(1.0))))
""")
write(globals())('''
rounded(x, one, four, *, dtype) @launched(256, blocks="cute.size(x) // 1024"):
    """Each of 32 x n numbers of x as bytes of a type, one by one and four at a time."""
    place = cute.arch.block_idx()[0] * 256 + tidx
    tile, bytes_ = cute.local_tile(x, (4,), (place,)), cute.local_tile(one, (4,), (place,))
    for i in cutlass.range_constexpr(4):
        bytes_[i] = tile[i].to(dtype).bitcast(Uint8)
    cute.recast_tensor(cute.local_tile(four, (4,), (place,)), dtype).store(tile.load().to(dtype))
widened(x, out, *, dtype, wide) @launched(64):
    """Each byte of x, as a type of 8 bits, as a wider one."""
    cute.local_tile(out, (2,), (t,)).store(cute.recast_tensor(cute.local_tile(x, (2,), (t,)), dtype).load().to(wide))
    for i in cutlass.range_constexpr(2):
        out[128 + 2 * t + i] = x[128 + 2 * t + i].bitcast(dtype).to(wide)
moved:
    """256 floats of 8 bits through shared memory and registers."""
    shared = cutlass.memory.SmemAllocator().allocate_tensor(x.element_type, cute.make_layout(256), 16)
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), x.element_type, num_bits_per_copy=64)
    tiled = cute.make_tiled_copy_tv(atom, cute.make_layout(32), cute.make_layout(8))
    part = tiled.get_slice(t)
    cute.copy(atom, part.partition_S(x), part.partition_D(shared))
    cute.arch.barrier()
    registers = cute.make_rmem_tensor((8,), x.element_type)
    cute.autovec_copy(cute.local_tile(shared, (8,), (31 - t,)), registers)
    cute.autovec_copy(registers, cute.local_tile(out, (8,), (31 - t,)))
constants(out) @launched(1):
    out[0] = Float8E4M3FN(464.0).bitcast(Uint8)
    out[1] = Float8E4M3FN(465.0).bitcast(Uint8)
    out[2] = Float8E5M2(1e6).bitcast(Uint8)
    out[3] = Float8E5M2(-3).bitcast(Uint8)
    four = cute.recast_tensor(cute.local_tile(out, (4,), (1,)), Float8E4M3FN)
    four.fill(1.5)
    out[8] = Uint8(cutlass.const_expr(Float8E4M3FN.width + Float8E5M2.width))
    if Float8E5M2(2.0) * 3.0 > Float16(5.0):
        out[9] = Uint8(1)
assembled:
    """Pairs of 64 numbers, as inline assembly has them."""
    a, b = x[2 * t], x[2 * t + 1]
    four = "{ .reg .b16 p, q; cvt.rn.satfinite.e4m3x2.f32 p, $2, $1; cvt.rn.satfinite.e5m2x2.f32 q, $2, $1; mov.b32 $0, {p, q}; }"
    bits = _pairs(four, "=r,f,f", a, b)
    out[0, t] = bits
    back = "{ .reg .b16 p, q; mov.b32 {p, q}, $1; cvt.rn.f16x2.e4m3x2 $0, p; }"
    halves = _pairs(back, "=r,r", bits)
    out[1, t] = halves
    out[2, t] = _pairs("{ .reg .b16 p; cvt.rn.satfinite.e5m2x2.f16x2 p, $1; cvt.u32.u16 $0, p; }", "=r,r", halves)
    out[3, t] = _pairs("cvt.rn.relu.bf16x2.f32 $0, $2, $1;", "=r,f,f", a, b)
    out[4, t] = _pairs("{ .reg .b16 p; mov.b32 {_, p}, $1; cvt.u32.u16 $0, p; }", "=r,r", halves)
''')
