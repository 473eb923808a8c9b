"""Layouts with extents that are known only when the kernel runs, as the compiler prints them; and a persistent kernel."""

import cutlass
import cutlass.cute as cute

from .hosts import Constexpr, one_warp
from .written import write


@cute.jit
def print_layouts(x: cute.Tensor):
    """One line a layout."""
    m, n = x.shape
    print(x.layout)
    print(cute.local_tile(cute.make_identity_tensor(x.shape), (4, 256), (None, 0)).layout)
    print(cute.zipped_divide(x, (4, 64)).layout)
    print(cute.coalesce(x.layout))
    print(x[1, None].layout)
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), x.element_type, num_bits_per_copy=128)
    tiled = cute.make_tiled_copy_tv(atom, cute.make_ordered_layout((2, 16), order=(1, 0)), cute.make_layout((1, 4)))
    print(tiled.get_slice(3).partition_S(x).layout)
    print(cute.group_modes(x.layout, 0, 2))
    print(cute.select(x.layout, mode=[1]))


@cute.jit
def print_made(m: cutlass.Int32, n: cutlass.Int32):
    print(cute.make_layout((m, 256)))
    print(cute.make_layout((m, n)))
    print(cute.coalesce(cute.make_layout((256, m))))
    print(cute.make_ordered_layout((m, 256), order=(1, 0)))
    print(cute.logical_divide(cute.make_layout((m, 256)), (4, 64)))
    print(cute.zipped_divide(cute.make_layout((m, n), stride=(n, 1)), (4, 64)))
    print(cute.local_tile(cute.make_identity_tensor((m, n)), (1, 512), (0, None)).layout)
    print(cute.flatten(cute.make_layout(((m, 2), n, 4))))
    print(cute.tile_to_shape(cute.make_layout((2, 4)), (m, 8), (0, 1)))
    print(cute.make_layout((m * 4, 8)))
    print(cute.make_layout(m))


@cute.kernel
def persistent_kernel(x: cute.Tensor, out: cute.Tensor, blocks: Constexpr[int]):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    rows = x.shape[0]
    places = cute.local_tile(cute.make_identity_tensor(x.shape), (4, 32), (None, 0))
    tiles = cute.ceil_div(rows, 4)
    for tile in cutlass.range(bidx, tiles + 1, blocks):  # one tile too many, which the predicate catches
        place = places[tidx // 32, tidx % 32, tile]
        if cute.elem_less(place, x.shape):
            out[place] = x[place] + 1.0


@cute.jit
def persistent(x: cute.Tensor, out: cute.Tensor):
    persistent_kernel(x, out, 2).launch(grid=[2, 1, 1], block=[128, 1, 1])


@cute.jit
def rows_decide(x: cute.Tensor, out: cute.Tensor):
    """A host function that asks: a grid, a branch and a loop of numbers known when it runs."""
    rows = x.shape[0]
    grid = cute.ceil_div(rows, 2)
    if rows > 2:
        persistent_kernel(x, out, 1).launch(grid=[grid, 1, 1], block=[128, 1, 1])


write(globals())("""
fragment(x):
    rX = cute.make_rmem_tensor(x[0, None].shape, x.element_type)
    rX.fill(0.0)
""")
