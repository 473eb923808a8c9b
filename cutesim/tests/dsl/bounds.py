"""Rows that are overrun: the address is in the tensor, in the next row, and the coordinate is not. x and out are (M, N).

Each comes with the predicate that it lacks (`guarded`), which must be free of findings.
"""

import cutlass
import cutlass.cute as cute

from .hosts import Constexpr, launched, one_warp
from .written import write

COLUMNS = 64  # of a tile: 16 threads a row, 4 elements each


two_rows = launched(32, blocks=2, passing=True)


@cute.jit
def copied(x, out, guarded, first, bits):
    """Copy row `block` from column `first` on with 16 threads of 4 elements, two rows a tile."""
    tidx, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Float32, num_bits_per_copy=bits)
    threads = cute.make_ordered_layout((2, 16), order=(1, 0))
    thr_copy = cute.make_tiled_copy_tv(atom, threads, cute.make_layout((1, 4))).get_slice(tidx)
    gX = cute.local_tile(cute.domain_offset((cutlass.Int64(block) * 2, first), x), (2, COLUMNS), (0, 0))
    gO = cute.local_tile(cute.domain_offset((cutlass.Int64(block) * 2, first), out), (2, COLUMNS), (0, 0))
    tXgX, tXgO = thr_copy.partition_S(gX), thr_copy.partition_D(gO)
    # What the kernels of the package do where they know an address better than the compiler.
    tXgX = cute.make_tensor(tXgX.iterator.align(16), tXgX.layout)
    tXgO = cute.make_tensor(tXgO.iterator.align(16), tXgO.layout)
    tXrX = cute.make_fragment_like(tXgX)
    row, col = block * 2 + tidx // 16, first + tidx % 16 * 4
    if cutlass.const_expr(guarded):
        tXpX = cute.make_rmem_tensor((1, 1), cutlass.Boolean)
        tXpX[0, 0] = (row < x.shape[0]) & (col + 3 < x.shape[1])
        cute.copy(atom, tXgX, tXrX, pred=tXpX)
        cute.copy(atom, tXrX, tXgO, pred=tXpX)
    else:
        cute.copy(atom, tXgX, tXrX)
        cute.copy(atom, tXrX, tXgO)


OVERRUN = write(globals())("""
element(x, out, *, guarded) @two_rows:
    row, _, _ = cute.arch.block_idx()
    limit = x.shape[1] if cutlass.const_expr(guarded) else 32
    if tidx < limit:
        out[row, tidx] = x[row, tidx]
element_of_slice(x, out, *, guarded) @two_rows:
    row, _, _ = cute.arch.block_idx()
    limit = x.shape[1] if cutlass.const_expr(guarded) else 32
    gX, gO = x[row, None], out[row, None]
    if tidx < limit:
        gO[tidx] = gX[tidx]
in_a_loop(x, out, *, guarded) @two_rows:
    row, _, _ = cute.arch.block_idx()
    limit = x.shape[1] if cutlass.const_expr(guarded) else x.shape[1] + 1
    for col in range(tidx, limit, 32):
        out[row, col] = x[row, col]
tiled(x, out, *, guarded) @two_rows: copied(x, out, guarded, 0, 128)
tiled_from_an_offset(x, out, *, guarded) @two_rows:
    copied(x, out, guarded, tidx * 0 + 4, 128)  # dynamic, as the distance to the next 16-byte boundary is
asynchronous(x, out, *, guarded) @two_rows:
    row, _, _ = cute.arch.block_idx()
    sX = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(128), 16)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), cutlass.Float32, num_bits_per_copy=128)
    thr_copy = cute.make_tiled_copy_tv(atom, cute.make_layout(32), cute.make_layout(4)).get_slice(tidx)
    gX = cute.local_tile(x[row, None], (128,), (0,))
    limit = x.shape[1] if cutlass.const_expr(guarded) else 128
    pred = cute.make_rmem_tensor(1, cutlass.Boolean)
    pred[0] = tidx * 4 < limit
    cute.copy(atom, thr_copy.partition_S(gX), thr_copy.partition_D(sX), pred=pred)
    cute.arch.cp_async_commit_group()
    cute.arch.cp_async_wait_group(0)
    if tidx * 4 < x.shape[1]:
        for k in cutlass.range_constexpr(4):
            out[row, tidx * 4 + k] = sX[tidx * 4 + k]
atomically(x, out, *, guarded) @two_rows:
    row, _, _ = cute.arch.block_idx()
    limit = x.shape[1] if cutlass.const_expr(guarded) else 32
    if tidx < limit:
        place = cute.domain_offset((row, tidx), out)
        cute.arch.atomic_add(place.iterator, x[row, 0])
""")


write(globals())('''
tiled_from_column_1(x, out, *, guarded) @two_rows: copied(x, out, guarded, 1, 128)
# where the coordinates are given up, or wrap as CuTe says: nothing may be reported
flat:
    size = x.shape[0] * x.shape[1]
    flat_x, flat_out = (cute.make_tensor(t.iterator, cute.make_layout(size)) for t in (x, out))
    for i in range(tidx, size, 32):
        flat_out[i] = flat_x[i]
by_one_index:
    for i in range(tidx, cute.size(x), 32):  # colexicographic: (i % M, i // M)
        out[i] = x[i]
one_row_for_all:
    """A weight (N,) seen as (M, N), and rows counted from the end."""
    weight = cute.make_tensor(x.iterator, cute.make_layout((out.shape[0], out.shape[1]), stride=(0, 1)))
    last = cute.domain_offset((out.shape[0] - 1, 0), out)
    for row in range(out.shape[0]):
        for col in range(tidx, out.shape[1], 32):
            last[-row, col] = weight[row, col]
''')
