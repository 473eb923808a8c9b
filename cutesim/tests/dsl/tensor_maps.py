"""Tiles through tensor maps: loads and stores, swizzles, ragged edges, multicast, sums; and what goes wrong with them."""

import cutlass
import cutlass.cute as cute
import cutlass.utils.hopper_helpers as sm90
from cutlass import Float32, Int32, Int64
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.tensor_utils import LayoutEnum

from .hosts import Constexpr, launched, one_warp
from .written import write

PLAIN, SWIZZLED = "plain", "swizzled"


@cute.jit
def laid_out(kind: Constexpr, tile: Constexpr):
    """How a tile lies in shared memory, and its swizzle."""
    m, n = tile
    if cutlass.const_expr(kind == SWIZZLED):
        atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, Float32)
        whole = cute.tile_to_shape(atom, (m, n), (0, 1))
        return whole.outer, whole.inner
    return cute.make_layout((m, n), stride=(n, 1)), None


def parted(atom, s, g, rank=0, blocks=1):
    blocks = cute.make_layout(blocks)
    return cpasync.tma_partition(atom, rank, blocks, cute.group_modes(s, 0, 2), cute.group_modes(g, 0, 2))


made = write(globals(), host="")("""
_doubled(load: cute.CopyAtom, source, store: cute.CopyAtom, target, *, kind, tile, fault):
    bm, bn, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    layout, swizzle = laid_out(kind, tile)
    s = smem.allocate_tensor(Float32, layout, byte_alignment=1024, swizzle=swizzle)
    bar = smem.allocate_array(Int64, 1, byte_alignment=8)
    if warp == 0:
        cpasync.prefetch_descriptor(load)
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(bar, 1)
            cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    gX, gO = (cute.local_tile(x, tile, (bm, bn)) for x in (source, target))
    tXsX, tXgX = parted(load, s, gX)
    tOsO, tOgO = parted(store, s, gO)
    nbytes = cute.size_in_bytes(Float32, layout)
    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(bar, nbytes - 16 if cutlass.const_expr(fault == "count") else nbytes)
        cute.copy(load, tXgX, tXsX, tma_bar_ptr=bar)
    if cutlass.const_expr(fault != "wait"):
        cute.arch.mbarrier_wait(bar, 0)
    for i in cutlass.range_constexpr(cute.size(tile) // 64):
        row, column = (t + 64 * i) // tile[1], (t + 64 * i) % tile[1]
        # wrong: one thread reads before the bytes come, without the wait
        s[row, column] = s[row, column] * 2.0
    if cutlass.const_expr(fault != "fence"):
        cute.arch.fence_proxy("async.shared", space="cta")
    cute.arch.barrier()
    if warp == 0:
        cute.copy(store, tOsO, tOgO)
        cute.arch.cp_async_bulk_commit_group()
        if cutlass.const_expr(fault != "group"):
            cute.arch.cp_async_bulk_wait_group(0, read=True)
    if cutlass.const_expr(fault == "group"):
        cute.arch.barrier()
        s[t // 32, t % 32] = Float32(0.0)  # wrong: the store may still read it
_shared_row(atom: cute.CopyAtom, source, out, *, short):
    s = smem.allocate_tensor(Float32, cute.make_layout((8, 32), stride=(32, 1)), byte_alignment=128)
    bar = smem.allocate_array(Int64, 1, byte_alignment=8)
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(bar, 1)
            cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    blocks = cute.make_layout((1, 2, 1, 1))
    mask = cpasync.create_tma_multicast_mask(blocks, (0, rank, 0, 0), mcast_mode=1)
    g = cute.local_tile(source, (8, 32), (0, 0))
    tXsX, tXgX = parted(atom, s, g, rank, 2)
    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(bar, 512 if cutlass.const_expr(short) else 1024)
        cute.copy(atom, tXgX, tXsX, tma_bar_ptr=bar, mcast_mask=mask)
    cute.arch.mbarrier_wait(bar, 0)
    for i in cutlass.range_constexpr(8):
        out[rank, i, t] = s[i, t]
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
_summed(atom: cute.CopyAtom, target, x):
    s = smem.allocate_tensor(Float32, cute.make_layout((4, 32), stride=(32, 1)), byte_alignment=128)
    for i in cutlass.range_constexpr(4):
        s[i, t] = x[4 * bidx + i, t]
    cute.arch.fence_proxy("async.shared", space="cta")
    cute.arch.barrier()
    g = cute.local_tile(target, (4, 32), (0, 0))
    tOsO, tOgO = parted(atom, s, g)
    cute.copy(atom, tOsO, tOgO)
    cute.arch.cp_async_bulk_commit_group()
    cute.arch.cp_async_bulk_wait_group(0, read=True)
_show_parts(atom: cute.CopyAtom, source, layout: cute.ComposedLayout, *, tile, name):
    s = smem.allocate_tensor(cutlass.BFloat16, layout.outer, byte_alignment=1024, swizzle=layout.inner)
    g = cute.local_tile(source, tile, (0, None))
    print(name, source.layout, g.layout)
    for coord, blocks in ((0, 1), (1, 2)):
        parts = parted(atom, s, g, coord, blocks)
        print(name, coord, parts[0].layout, parts[1].layout)
""")
_doubled, _shared_row, _summed, _show_parts = map(globals().get, made)


@cute.jit
def doubled(x: cute.Tensor, out: cute.Tensor, kind: Constexpr, tile: Constexpr = (16, 64), fault: Constexpr = ""):
    """out = 2 x, tile by tile."""
    layout, _ = laid_out(kind, tile)
    load, source = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), x, layout, tile)
    store, target = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), out, layout, tile)
    grid = (*cute.ceil_div(x.shape, tile), 1)
    _doubled(load, source, store, target, kind, tile, fault).launch(grid=grid, block=64)


@cute.jit
def shared_row(x: cute.Tensor, out: cute.Tensor, short: Constexpr = False):
    """Each of two blocks loads half of a tile for both."""
    atom, source = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SMulticastOp(),
        x,
        cute.make_layout((8, 32), stride=(32, 1)),
        (8, 32),
        num_multicast=2,
    )
    _shared_row(atom, source, out, short).launch(grid=(2, 1, 1), block=(32, 1, 1), cluster=(2, 1, 1))


@cute.jit
def summed(x: cute.Tensor, out: cute.Tensor, adds: Constexpr = True):
    """out += every fourth row of x: each block adds its four rows, or writes them, which is a race."""
    op = cpasync.CopyBulkTensorTileS2GOp()
    if cutlass.const_expr(adds):
        op = cpasync.CopyReduceBulkTensorTileS2GOp(cute.ReductionOp.ADD)
    atom, target = cpasync.make_tiled_tma_atom(op, out, cute.make_layout((4, 32), stride=(32, 1)), (4, 32))
    _summed(atom, target, x).launch(grid=x.shape[0] // 4, block=32)


@cute.jit
def show_parts(x: cute.Tensor, name: Constexpr, k_major: Constexpr, tile: Constexpr):
    """Prints the layouts of one tile's partition."""
    kind = LayoutEnum.ROW_MAJOR if cutlass.const_expr(k_major) else LayoutEnum.COL_MAJOR
    layout = sm90.make_smem_layout_a(kind, (tile[0], 64, tile[1]), cutlass.BFloat16, 3)
    print(layout, cute.size_in_bytes(cutlass.BFloat16, layout))
    one = cute.slice_(layout, (None, None, 0))
    print(one, cute.cosize(one.outer))
    atom, source = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), x, one, tile)
    _show_parts(atom, source, layout, tile, name).launch(grid=1, block=32)


write(globals())("""
show_masks(out) @launched(8):
    blocks = cute.make_layout((1, 2, 4, 1))
    out[0, t] = Int32(cpasync.create_tma_multicast_mask(blocks, (0, t % 2, t // 2 % 4, 0), mcast_mode=1))
    out[1, t] = Int32(cute.make_layout_image_mask(blocks, (0, t % 2, t // 2 % 4, 0), mode=2))
""")
