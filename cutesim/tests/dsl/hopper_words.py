"""Small names that Hopper's kernels use: pairs, bits, loads by pointers, dialects' names, schedulers."""

import cutlass
import cutlass.cute as cute
import cutlass.utils as utils
from cutlass import Float32, Int32, Int64
from cutlass._mlir import ir
from cutlass._mlir.dialects import arith, llvm
from cutlass.cutlass_dsl import T
from cutlass.tensor_utils import LayoutEnum

from .hosts import Constexpr, launched, one_warp
from .written import write


def sum_and_difference(a, b, *, loc=None, ip=None):
    both = llvm.inline_asm(
        ir.Type.parse("!llvm.struct<(i32, i32)>"),
        [Int32(a).ir_value(loc=loc, ip=ip), Int32(b).ir_value(loc=loc, ip=ip)],
        "{ add.s32 $0, $2, $3; sub.s32 $1, $2, $3; }",
        "=r,=r,r,r",
        has_side_effects=False,
        is_align_stack=False,
        asm_dialect=llvm.AsmDialect.AD_ATT,
    )
    return (
        Int32(llvm.extractvalue(T.i32(), both, [0], loc=loc, ip=ip)),
        Int32(llvm.extractvalue(T.i32(), both, [1], loc=loc, ip=ip)),
    )


@cute.kernel
def _tiles(out: cute.Tensor, params: utils.PersistentTileSchedulerParams):
    t, _, _ = cute.arch.thread_idx()
    scheduler = utils.StaticPersistentTileScheduler.create(params, cute.arch.block_idx(), cute.arch.grid_dim())
    work = scheduler.initial_work_tile_info()
    while work.is_valid_tile:
        m, n, batch = work.tile_idx
        if t == 0:
            out[m, n, batch] = scheduler.num_tiles_executed + 1
        scheduler.advance_to_next_work()
        work = scheduler.get_current_work()


@cute.jit
def tiles(out: cute.Tensor):
    params = utils.PersistentTileSchedulerParams((4, 3, 2), (2, 1, 1))
    grid = utils.StaticPersistentTileScheduler.get_grid_shape(params, 5)
    _tiles(out, params).launch(grid=grid, block=32, cluster=(2, 1, 1))


@cute.jit
def leading(x: cute.Tensor):
    print(LayoutEnum.from_tensor(x).name, LayoutEnum.from_tensor(x).is_k_major_a())


write(globals())("""
bits:
    a, b = x[t], x[31 - t]
    out[0, t] = Int32(cute.arch.prmt(a, b, 0x9706))
    out[1, t] = cute.arch.lop3(a, b, x[0], 0xCA)
    out[2, t] = cute.arch.brev(a)
    out[3, t] = cute.arch.mul_hi(a, b)
    out[4, t] = Int32(cute.arch.mul_wide(a, b) >> 20)
    out[5, t] = cute.arch.log2_of_pow2_int(Int32(1) << t % 31)
    out[6, t] = Int32(cute.arch.lanemask_lt())
    out[7, t] = cutlass.select_(t < 7, a, b)
    by = cute.fast_divmod_create_divisor(Int32(7))
    quotient, rest = divmod(t * 3, by)
    out[8, t] = quotient * 100 + rest
floats:
    a, b = x[t], x[31 - t]
    out[0, t] = cute.math.abs(a)
    out[1, t] = cute.math.div(a, b)
    out[2, t] = cute.math.log1p(cute.math.abs(a))
    out[3, t] = cute.math.copysign(a, b)
    out[4, t] = cute.math.trunc(a * 3.0)
    out[5, t] = cute.math.round(a * 3.0)
    out[6, t] = cute.math.roundeven(a * 3.0)
    if cute.math.isfinite(a / (b - b)):
        out[7, t] = Float32(1.0)
    if cute.math.isinf(a / (b - b)):
        out[8, t] = Float32(2.0)
packed:
    a, b = x[t], x[31 - t]
    p, q = cute.arch.fma_packed_f32x2((a, b), (b, a), (a, a), rnd="rn")
    out[0, t], out[1, t] = p, q
    p, q = cute.arch.mul_packed_f32x2((a, b), (b, b))
    out[2, t], out[3, t] = p, q
    p, q = cute.arch.add_packed_f32x2((a, b), (b, b))
    out[4, t], out[5, t] = p, q
    p, q = cute.arch.sub_packed_f32x2((a, b), (b, b))
    out[6, t], out[7, t] = p, q
    p, q = cute.arch.exp_packed_f32x2((a, b))
    out[8, t] = p + q
pointers(x, out, count):
    place = x.iterator + t * 4
    cute.arch.prefetch(place.llvm_ptr, cache_level="L2")
    four = cute.arch.load(place.llvm_ptr, ir.VectorType.get([4], Int32.mlir_type))
    room = cute.arch.alloc_smem(Int32, 128, alignment=16)
    cute.arch.store((room + t * 4).llvm_ptr, four)
    cute.arch.barrier()
    word = cute.arch.load((room + (31 - t) * 4).llvm_ptr, Int32)
    address = Int64(llvm.ptrtoint(T.i64(), (room + t).llvm_ptr))
    start = Int64(llvm.ptrtoint(T.i64(), room.llvm_ptr))
    plus, minus = sum_and_difference(word, t)
    cute.arch.store((out.iterator + t).llvm_ptr, plus)
    out[1, t] = minus
    out[2, t] = Int32(address - start)
    out[3, t] = Int32(llvm.bitcast(T.i32(), Float32(t).ir_value()))
    cute.arch.red(count.iterator.llvm_ptr, Int32(1), op="add", dtype="s32", sem="relaxed", scope="gpu")
    out[4, t] = Int32(arith.extui(T.i32(), (t < 5).ir_value()))
rest(x, out, numbers):
    cute.arch.warpgroup_reg_dealloc(40)
    t, _, _ = cute.arch.thread_idx()
    numbers[0, t] = cute.arch.smid() * 0 + cute.arch.WARPS_PER_WARPGROUP + cute.arch.THREADS_PER_WARPGROUP
    cute.arch.atomic_fmax(out.iterator, x[t])
    cute.arch.atomic_max_float32((out.iterator + 1).llvm_ptr, cute.math.abs(x[t]))
    quotient, rest = divmod(t, cute.fast_divmod_create_divisor_v2(Int32(5)))
    numbers[1, t] = quotient * 100 + rest
    cute.arch.warpgroup_reg_alloc(40)
dynamic(out) @launched(32, smem=256):
    room = cute.make_tensor(cute.arch.get_dyn_smem(Int32, alignment=16), cute.make_layout(64))
    room[t] = t + cute.arch.dynamic_smem_size()
    cute.arch.barrier()
    out[t] = room[31 - t]
""")
