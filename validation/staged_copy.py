"""A copy through shared memory with vectors as narrow as a row's length asks: Nsight Compute counted what it does.

`kernels.copy.CopyAsync` always moves 16 bytes. Here cp.async moves 4, 8 or 16, as many as divide a row, and the counters
of shared memory tell them apart.
"""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.copy import async_vector, grid_of, inside
from quack_tutorial.kernels.layout import VECTOR_BYTES, tile_at, tiled_copy_rows


class StagedCopy:
    """Copy (M, N) tensors by cp.async; each lane has 4 vectors in flight. ValueError where a row's vectors have only 2 bytes."""

    def __init__(self, dtype, N, threads_per_row=32, threads_per_block=128, unroll=4):
        self.dtype = dtype
        self.vector_size = async_vector(dtype, N)
        self.threads_per_row, self.threads_per_block = threads_per_row, threads_per_block
        self.tiler = (threads_per_block // threads_per_row, threads_per_row * self.vector_size * unroll)

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        self.kernel(mX, mO).launch(
            grid=grid_of(mX.shape, self.tiler), block=[self.threads_per_block, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row_block, column_block, _ = cute.arch.block_idx()
        gX = tile_at(mX, self.tiler, row_block, column_block)
        gO = tile_at(mO, self.tiler, row_block, column_block)
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), self.tiler, (row_block, column_block))
        smem_layout = cute.make_ordered_layout(self.tiler, order=(1, 0))
        sX = cutlass.memory.SmemAllocator().allocate_tensor(self.dtype, smem_layout, byte_alignment=VECTOR_BYTES)

        bits = self.vector_size * self.dtype.width
        atom_async = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), self.dtype, num_bits_per_copy=bits)
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, self.threads_per_row, self.tiler[0], self.vector_size).get_slice(tidx)
        tXgX, tXsX, tXgO = thr_copy.partition_S(gX), thr_copy.partition_D(sX), thr_copy.partition_D(gO)
        tXpX = inside(thr_copy.partition_S(cX), mX.shape)

        cute.copy(atom_async, tXgX, tXsX, pred=tXpX)  # read MN elements
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        tXrX = cute.make_fragment_like(tXgX)
        cute.copy(atom, tXsX, tXrX)
        cute.copy(atom, tXrX, tXgO, pred=tXpX)  # write MN elements
