"""Matrix products of threads, warps and warpgroups; ldmatrix and stmatrix; and what goes wrong with those that are waited for."""

import cutlass
import cutlass.cute as cute
import cutlass.utils.hopper_helpers as sm90
from cutlass import BFloat16, Constexpr, Float8E4M3FN, Float8E5M2, Float16, Float32, Int64
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.tensor_utils import LayoutEnum

from .written import write


def tiled_of(kind):
    """The tiled products that are compared with the compiler's."""
    if kind == "f16":
        return cute.make_tiled_mma(warp.MmaF16BF16Op(Float16, Float32, (16, 8, 16)), (2, 2, 1), (32, 32, 16))
    if kind == "k8":
        return cute.make_tiled_mma(warp.MmaF16BF16Op(BFloat16, Float32, (16, 8, 8)), (1, 2, 1))
    if kind == "tf32":
        return cute.make_tiled_mma(warp.MmaTF32Op((16, 8, 8)), (2, 1, 1))
    if kind == "thread":
        return cute.make_tiled_mma(cute.nvgpu.MmaUniversalOp(Float32), cute.make_layout((16, 8, 1), stride=(8, 1, 0)))
    dtype = {"wgmma": BFloat16, "e4m3": Float8E4M3FN, "e5m2": Float8E5M2}[kind]
    return sm90.make_trivial_tiled_mma(
        dtype, dtype, OperandMajorMode.K, OperandMajorMode.K, Float32, (2, 1, 1), (64, 64)
    )


WARP_KINDS = ("f16", "k8", "tf32", "thread")


made = write(globals(), host="")("""
_show(a, b, c, tiled: cute.TiledMma, *, kind):
    thread = tiled.get_slice(t)
    tCgA, tCgB, tCgC = thread.partition_A(a), thread.partition_B(b), thread.partition_C(c)
    print(kind, "parts", tCgA.layout, tCgB.layout, tCgC.layout)
    print(kind, "shapes", tiled.partition_shape_A((128, 64)), tiled.partition_shape_C((128, 128)), tiled.size)
    acc = cute.make_rmem_tensor(tiled.partition_shape_C((128, 128)), Float32)
    print(kind, "sums", acc.layout, thread.make_fragment_C(tCgC).layout)
    if cutlass.const_expr(kind != "wgmma"):
        print(kind, "fragments", tiled.make_fragment_A(tCgA).layout, tiled.make_fragment_B(tCgB).layout)
    if cutlass.const_expr(kind == "f16"):
        load = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), Float16)
        turned = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(True, 4), Float16)
        copies = (cute.make_tiled_copy_A(load, tiled), cute.make_tiled_copy_B(turned, tiled))
        print(kind, "copy A", copies[0].get_slice(t).partition_S(a).layout)
        print(kind, "copy B", copies[1].get_slice(t).partition_S(b).layout)
        print(kind, "retiled A", copies[0].retile(tiled.make_fragment_A(tCgA)).layout)
        print(kind, "retiled B", copies[1].retile(tiled.make_fragment_B(tCgB)).layout)
    if cutlass.const_expr(kind in ("f16", "wgmma")):
        store = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), Float16)
        by_atom = cute.make_tiled_copy_C_atom(store, tiled)
        whole = cute.make_tiled_copy_S(store, by_atom)
        print(kind, "copy C", cute.make_tiled_copy_C(store, tiled).get_slice(t).partition_D(c).layout)
        print(kind, "copy S", whole.get_slice(t).partition_D(c).layout, whole.retile(acc).layout)
_product(a, b, c, tiled: cute.TiledMma):
    thread = tiled.get_slice(t)
    tCgA, tCgB, tCgC = thread.partition_A(a), thread.partition_B(b), thread.partition_C(c)
    rA, rB = tiled.make_fragment_A(tCgA), tiled.make_fragment_B(tCgB)
    rC = tiled.make_fragment_C(tCgC)
    cute.autovec_copy(tCgA, rA)
    cute.autovec_copy(tCgB, rB)
    rC.fill(0.0)
    cute.gemm(tiled, rC, rA, rB, rC)
    cute.autovec_copy(rC, tCgC)
_matrices(a, b, c, tiled: cute.TiledMma):
    sA = smem.allocate_tensor(Float16, cute.make_layout((32, 32), stride=(40, 1)), 16)
    sB = smem.allocate_tensor(Float16, cute.make_layout((32, 32), stride=(1, 40)), 16)
    sC = smem.allocate_tensor(Float16, cute.make_layout((32, 32), stride=(40, 1)), 16)
    for i in cutlass.range_constexpr(8):
        row, column = (t + 128 * i) // 32, (t + 128 * i) % 32
        sA[row, column] = a[row, column]
        sB[row, column] = b[row, column]
    cute.arch.barrier()
    thread = tiled.get_slice(t)
    rA = tiled.make_fragment_A(thread.partition_A(sA))
    rB = tiled.make_fragment_B(thread.partition_B(sB))
    rC = tiled.make_fragment_C(thread.partition_C(c))
    copy_a = cute.make_tiled_copy_A(cute.make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), Float16), tiled)
    copy_b = cute.make_tiled_copy_B(cute.make_copy_atom(warp.LdMatrix8x8x16bOp(True, 4), Float16), tiled)
    cute.copy(copy_a, copy_a.get_slice(t).partition_S(sA), copy_a.retile(rA))
    cute.copy(copy_b, copy_b.get_slice(t).partition_S(sB), copy_b.retile(rB))
    rC.fill(0.0)
    for k in cutlass.range_constexpr(cute.size(rA, mode=[2])):
        cute.gemm(tiled, rC, rA[None, None, k], rB[None, None, k], rC)
    rounded = cute.make_rmem_tensor_like(rC, Float16)
    rounded.store(rC.load().to(Float16))
    copy_c = cute.make_tiled_copy_C(cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), Float16), tiled)
    cute.copy(copy_c, copy_c.retile(rounded), copy_c.get_slice(t).partition_D(sC))
    cute.arch.barrier()
    for i in cutlass.range_constexpr(8):
        row, column = (t + 128 * i) // 32, (t + 128 * i) % 32
        c[row, column] = sC[row, column]
_written(a, b, c, tiled: cute.TiledMma, layout_a: cute.ComposedLayout, layout_b: cute.ComposedLayout, *, fenced):
    sA = smem.allocate_tensor(BFloat16, layout_a.outer, byte_alignment=1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(BFloat16, layout_b.outer, byte_alignment=1024, swizzle=layout_b.inner)
    for i in range(64):
        sA[t % 128, i, 0] = a[t % 128, i]
        sB[t % 64, i, 0] = b[t % 64, i]
    if cutlass.const_expr(fenced):
        cute.arch.fence_view_async_shared()
    cute.arch.barrier()
    thread = tiled.get_slice(t)
    tCrA = tiled.make_fragment_A(thread.partition_A(sA))
    tCrB = tiled.make_fragment_B(thread.partition_B(sB))
    tCgC = thread.partition_C(c)
    acc = cute.make_rmem_tensor(tCgC.shape, Float32)
    acc.fill(0.0)
    warpgroup.fence()
    for step in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
        cute.gemm(tiled, acc, tCrA[None, None, step, 0], tCrB[None, None, step, 0], acc)
    warpgroup.commit_group()
    warpgroup.wait_group(0)
    for i in cutlass.range_constexpr(cute.size(acc)):
        tCgC[i] = acc[i]
_nothing(x):
    x[0, 0] = Float32(0.0)
""")
_show, _product, _matrices, _written, _nothing = map(globals().get, made)


@cute.jit
def show(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, kind: Constexpr):
    _show(a, b, c, tiled_of(kind), kind).launch(grid=(1, 1, 1), block=(256, 1, 1))


@cute.jit
def product(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, kind: Constexpr):
    """c = a b^T with operands straight from global memory."""
    tiled = tiled_of(kind)
    _product(a, b, c, tiled).launch(grid=(1, 1, 1), block=(tiled.size, 1, 1))


@cute.jit
def matrices(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    """c = a b^T through ldmatrix, of B transposed, and stmatrix."""
    _matrices(a, b, c, tiled_of("f16")).launch(grid=(1, 1, 1), block=(128, 1, 1))


STAGES = 2


@cute.kernel
def _hopper(
    load_a: cute.CopyAtom,
    mA: cute.Tensor,
    load_b: cute.CopyAtom,
    mB: cute.Tensor,
    c: cute.Tensor,
    tiled: cute.TiledMma,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    tile: Constexpr,
    fault: Constexpr,
    dtype: Constexpr,
):
    t, _, _ = cute.arch.thread_idx()
    bm, bn, _ = cute.arch.block_idx()
    warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = cutlass.memory.SmemAllocator()
    sA = smem.allocate_tensor(dtype, layout_a.outer, byte_alignment=1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(dtype, layout_b.outer, byte_alignment=1024, swizzle=layout_b.inner)
    full = smem.allocate_array(Int64, STAGES, byte_alignment=8)
    empty = smem.allocate_array(Int64, STAGES, byte_alignment=8)
    if warp_idx == 0:
        with cute.arch.elect_one():
            for stage in cutlass.range_constexpr(STAGES):
                cute.arch.mbarrier_init(full + stage, 1)
                cute.arch.mbarrier_init(empty + stage, 8)
            cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    gA = cute.local_tile(mA, (tile[0], tile[2]), (bm, None))
    gB = cute.local_tile(mB, (tile[1], tile[2]), (bn, None))
    gC = cute.local_tile(c, (tile[0], tile[1]), (bm, bn))
    one = cute.make_layout(1)
    tAsA, tAgA = cpasync.tma_partition(load_a, 0, one, cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2))
    tBsB, tBgB = cpasync.tma_partition(load_b, 0, one, cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2))
    nbytes = cute.size_in_bytes(dtype, cute.slice_(layout_a, (None, None, 0)))
    nbytes = nbytes + cute.size_in_bytes(dtype, cute.slice_(layout_b, (None, None, 0)))
    steps = cute.size(gA, mode=[2])
    if warp_idx == 8:
        for k in range(steps):
            stage, round_ = k % STAGES, k // STAGES
            cute.arch.mbarrier_wait(empty + stage, (round_ + 1) % 2)
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full + stage, nbytes)
            cute.copy(load_a, tAgA[None, k], tAsA[None, stage], tma_bar_ptr=full + stage)
            cute.copy(load_b, tBgB[None, k], tBsB[None, stage], tma_bar_ptr=full + stage)
    if warp_idx < 8:
        thread = tiled.get_slice(t)
        tCrA = tiled.make_fragment_A(thread.partition_A(sA))
        tCrB = tiled.make_fragment_B(thread.partition_B(sB))
        tCgC = thread.partition_C(gC)
        acc = cute.make_rmem_tensor(tCgC.shape, Float32)
        acc.fill(0.0)
        if cutlass.const_expr(fault != "fence"):
            warpgroup.fence()
        for k in range(steps):
            stage, round_ = k % STAGES, k // STAGES
            if cutlass.const_expr(fault != "full"):
                cute.arch.mbarrier_wait(full + stage, round_ % 2)
            for step in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
                cute.gemm(tiled, acc, tCrA[None, None, step, stage], tCrB[None, None, step, stage], acc)
            warpgroup.commit_group()
            if cutlass.const_expr(fault == "early"):
                if t % 32 == 0:
                    # wrong: the products may still read the stage
                    cute.arch.mbarrier_arrive(empty + stage)
                warpgroup.wait_group(0)
            else:
                if cutlass.const_expr(fault != "wait"):
                    warpgroup.wait_group(0)
                if cutlass.const_expr(fault != "aligned"):
                    cute.arch.sync_warp()
                if t % 32 == 0:
                    cute.arch.mbarrier_arrive(empty + stage)
        for i in cutlass.range_constexpr(cute.size(acc)):
            tCgC[i] = acc[i]


@cute.jit
def hopper(
    a: cute.Tensor,
    b: cute.Tensor,
    c: cute.Tensor,
    fault: Constexpr = "",
    tile: Constexpr = (128, 64, 64),
    kind: Constexpr = "wgmma",
):
    """c = a b^T: one warp loads tiles through tensor maps, two warpgroups multiply them."""
    dtype = {"wgmma": BFloat16, "e4m3": Float8E4M3FN, "e5m2": Float8E5M2}[kind]
    tiled = tiled_of(kind)
    if cutlass.const_expr(a.element_type is not dtype):  # bytes: floats of 8 bits
        a, b = cute.recast_tensor(a, dtype), cute.recast_tensor(b, dtype)
    layout_a = sm90.make_smem_layout_a(LayoutEnum.from_tensor(a), tile, dtype, STAGES)
    layout_b = sm90.make_smem_layout_b(LayoutEnum.from_tensor(b), tile, dtype, STAGES)
    load = cpasync.CopyBulkTensorTileG2SOp()
    one_a, one_b = (cute.slice_(x, (None, None, 0)) for x in (layout_a, layout_b))
    load_a, mA = cpasync.make_tiled_tma_atom(load, a, one_a, (tile[0], tile[2]))
    load_b, mB = cpasync.make_tiled_tma_atom(load, b, one_b, (tile[1], tile[2]))
    grid = (*cute.ceil_div(c.shape, tile[:2]), 1)
    _hopper(load_a, mA, load_b, mB, c, tiled, layout_a, layout_b, tile, fault, dtype).launch(
        grid=grid, block=(288, 1, 1)
    )


@cute.jit
def written(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, fenced: Constexpr):
    """c = a b^T of tiles that threads write themselves."""
    tile = (128, 64, 64)
    layout_a = sm90.make_smem_layout_a(LayoutEnum.ROW_MAJOR, tile, BFloat16, 1)
    layout_b = sm90.make_smem_layout_b(LayoutEnum.ROW_MAJOR, tile, BFloat16, 1)
    _written(a, b, c, tiled_of("wgmma"), layout_a, layout_b, fenced).launch(grid=(1, 1, 1), block=(256, 1, 1))


@cute.jit
def show_shared_layouts(x: cute.Tensor):
    cases = ("MN_INTER", "MN_SW32", "MN_SW64", "MN_SW128", "K_INTER", "K_SW32", "K_SW64", "K_SW128")
    for kind in cases:
        for dtype in (BFloat16, Float32):
            print(kind, warpgroup.make_smem_layout_atom(getattr(warpgroup.SmemLayoutAtomKind, kind), dtype))
    for name in ("ROW_MAJOR", "COL_MAJOR"):
        layout = getattr(LayoutEnum, name)
        print(name, sm90.make_smem_layout_a(layout, (128, 64, 64), BFloat16, 3))
        print(name, sm90.make_smem_layout_b(layout, (128, 96, 32), BFloat16, 2))
        print(name, sm90.make_smem_layout_epi(BFloat16, layout, (128, 32), 2))
    _nothing(x).launch(grid=(1, 1, 1), block=(32, 1, 1))
