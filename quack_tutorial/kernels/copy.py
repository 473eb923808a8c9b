"""A copy of an (M, N) tensor, the simplest kernel that is bound by memory, in versions.

| version                | one instruction of a thread moves | coalesced | vectorised | through       |
|------------------------|-----------------------------------|-----------|------------|---------------|
| `Copy(vector_bytes=0)` | one element                       | yes       | no         | registers     |
| `Copy()`               | 16 bytes                          | yes       | yes        | registers     |
| `CopyAsync()`          | 16 bytes, cp.async                | yes       | yes        | shared memory |

A block copies a tile of `rows_per_block` x `columns_per_block` elements, and predicates keep it inside the tensor, so
any M and N work. A vector must not straddle the end of a row: where N is not a number of whole vectors, the widest
vector that divides N is taken instead. Rows start at multiples of that vector; rows without a gap between them do.

Not covered: bulk copies (TMA), which one thread issues for a whole block.
"""

import math

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.layout import SHARED_BYTES, VECTOR_BYTES, tile_at, tiled_copy_rows


class Copy:
    """Copy through registers with vectors of up to `vector_bytes` bytes (0: single elements)."""

    def __init__(self, dtype, N, vector_bytes=VECTOR_BYTES, threads_per_row=32, threads_per_block=128, unroll=4):
        self.dtype, self.N = dtype, N
        self.vector_size = widest_vector(dtype, N, vector_bytes)
        self.threads_per_row, self.threads_per_block = threads_per_row, threads_per_block
        # Each thread has `unroll` loads in flight before it stores the first.
        self.tiler = (threads_per_block // threads_per_row, threads_per_row * self.vector_size * unroll)

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        rows, columns = self.tiler
        grid = [cute.ceil_div(mX.shape[0], rows), cute.ceil_div(self.N, columns), 1]
        self.kernel(mX, mO).launch(grid=grid, block=[self.threads_per_block, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row_block, column_block, _ = cute.arch.block_idx()
        gX = tile_at(mX, self.tiler, row_block, column_block)
        gO = tile_at(mO, self.tiler, row_block, column_block)
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), self.tiler, (row_block, column_block))

        atom = cute.make_copy_atom(
            cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=self.vector_size * self.dtype.width
        )
        tiled_copy = tiled_copy_rows(atom, self.threads_per_row, self.tiler[0], self.vector_size)
        thr_copy = tiled_copy.get_slice(tidx)
        tXgX, tXgO, tXcX = thr_copy.partition_S(gX), thr_copy.partition_D(gO), thr_copy.partition_S(cX)
        tXpX = inside(tXcX, mX.shape)

        tXrX = cute.make_fragment_like(tXgX)
        cute.copy(atom, tXgX, tXrX, pred=tXpX)  # read MN elements
        cute.copy(atom, tXrX, tXgO, pred=tXpX)  # write MN elements


class CopyAsync:
    """Copy through shared memory: cp.async writes there without passing through registers."""

    def __init__(self, dtype, N, threads_per_row=32, threads_per_block=128, unroll=4):
        self.dtype, self.N = dtype, N
        self.vector_size = async_vector(dtype, N)
        self.threads_per_row, self.threads_per_block = threads_per_row, threads_per_block
        self.tiler = (threads_per_block // threads_per_row, threads_per_row * self.vector_size * unroll)

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        rows, columns = self.tiler
        grid = [cute.ceil_div(mX.shape[0], rows), cute.ceil_div(self.N, columns), 1]
        self.kernel(mX, mO).launch(grid=grid, block=[self.threads_per_block, 1, 1], stream=stream)

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
        tiled_copy = tiled_copy_rows(atom, self.threads_per_row, self.tiler[0], self.vector_size)
        thr_copy = tiled_copy.get_slice(tidx)
        tXgX, tXsX, tXgO = thr_copy.partition_S(gX), thr_copy.partition_D(sX), thr_copy.partition_D(gO)
        tXpX = inside(thr_copy.partition_S(cX), mX.shape)

        cute.copy(atom_async, tXgX, tXsX, pred=tXpX)  # read MN elements
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        # A thread reads back the bytes it copied itself, so its own wait is enough; for another's, a barrier too.
        tXrX = cute.make_fragment_like(tXgX)
        cute.copy(atom, tXsX, tXrX)
        cute.copy(atom, tXrX, tXgO, pred=tXpX)  # write MN elements


def widest_vector(dtype, N, vector_bytes):
    """Elements of the widest vector of at most `vector_bytes` (a power of 2) that divides rows of N elements."""
    return math.gcd(N, max(1, vector_bytes * 8 // dtype.width))


def async_vector(dtype, N):
    """Elements of the widest vector that divides a row of N and that cp.async can move; ValueError where there is none."""
    vector_size = widest_vector(dtype, N, VECTOR_BYTES)
    if vector_size * dtype.width < 32:
        raise ValueError(
            f"cp.async moves 4, 8 or 16 bytes; rows of {N} elements of {dtype.width} bits allow vectors of "
            f"{vector_size * dtype.width // 8} bytes: use a version that loads into registers"
        )
    return vector_size


def refuse_large_tile(dtype, tiler):
    """ValueError where a tile (rows, columns) of `dtype` is more than a block's shared memory, the slots of its warps aside."""
    nbytes = tiler[0] * tiler[1] * dtype.width // 8
    if nbytes > SHARED_BYTES - 1024:
        raise ValueError(
            f"a tile of {tiler[0]} x {tiler[1]} elements is {nbytes} bytes, and a block has {SHARED_BYTES} of shared memory: "
            f"use a version in which the blocks of a cluster share a row"
        )


@cute.jit
def inside(tXcX: cute.Tensor, shape: cutlass.Constexpr):
    """Which vectors of this thread lie in a tensor of `shape`: Booleans (rows, vectors), from their first coordinates."""
    rows, vectors = cute.size(tXcX, mode=[1]), cute.size(tXcX, mode=[2])
    tXpX = cute.make_rmem_tensor((rows, vectors), cutlass.Boolean)
    for row in cutlass.range_constexpr(rows):
        for vector in cutlass.range_constexpr(vectors):
            tXpX[row, vector] = cute.elem_less(tXcX[0, row, vector], shape)
    return tXpX


@cute.jit
def copy_columns(source: cute.Tensor, target: cute.Tensor, tXcX: cute.Tensor, N: cutlass.Constexpr):
    """Copy this thread's elements one at a time, those of columns below N; the three tensors have the same layout.

    For what is moved once a block, and may have another type than the vectors of the tile were chosen for.
    """
    for k in cutlass.range_constexpr(cute.size(tXcX)):
        if tXcX[k][1] < N:
            target[k] = source[k].to(target.element_type)
