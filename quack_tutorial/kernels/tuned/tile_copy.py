"""The reads and writes of a row-wise kernel without its arithmetic: out = x, or x + y, with the kernel's own tile.

What is left of a kernel's time is what its memory takes, with just this spread of rows over threads: a ceiling (chapter
10) that the benchmark times beside the kernel.
"""

from dataclasses import replace

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.tuned.row_tile import RowTile
from quack_tutorial.kernels.tuned.rule import sizes


class TileCopy:
    """out = x, or with `reads` = 2 x + y, of (M, N) matrices, with the tile that `operation` has for such rows."""

    def __init__(self, operation, dtype, N, promise, reads=1):
        config = sizes(operation, dtype.width, N, promise)
        # A row that the kernel has in shared memory is in registers here.
        self.config = replace(config, stages=0)
        self.tile, self.reads = (
            RowTile(dtype, N, promise, self.config, vectors=config.vectors_at_once, allows_rows_each=True),
            reads,
        )

    @cute.jit
    def __call__(self, mX, mY, mO, stream: cuda.CUstream):
        self.kernel(mX, mY, mO).launch(
            grid=self.tile.grid(mX.shape[0]),
            block=[self.config.threads_per_block, 1, 1],
            cluster=self.config.cluster,
            stream=stream,
        )

    @cute.kernel
    def kernel(self, mX, mY, mO):
        tile = self.tile
        block, _, _ = cute.arch.block_idx()
        places, rows = tile.places(mX, block), []
        # read MN elements, or 2 MN
        for place in places:
            tXrX = tile.load(mX, place)
            if cutlass.const_expr(self.reads == 2):
                tXrX.store((tXrX.load() + tile.load(mY, place).load()).to(mX.element_type))
            rows.append(tXrX)
        # write MN elements
        for k in cutlass.range_constexpr(tile.rows_each):
            tile.store(rows[k], mO, places[k])
