"""A copy of an (M, N) tensor, the simplest kernel that is bound by memory, as a ladder: each version changes one thing.

Chapter 3 climbs it. The functions at the end are what the other ladders take from it: `widest_vector`, `inside`, and those about
cp.async.

| version          | what it changes                        | one instruction of a lane moves  | sectors a request, float32    |
|------------------|----------------------------------------|----------------------------------|-------------------------------|
| `CopyThread`     | a lane has 64 neighbouring bytes       | one element                      | 32                            |
| `CopyCoalesced`  | a lane's elements are a warp apart     | one element                      | 4                             |
| `CopyVectors`    | a lane's element is a vector           | 16 bytes, if they divide a row   | 16                            |
| `CopyUnaligned`  | vectors begin at a 16-byte boundary    | 16 bytes in every row            | 16, or 17 in an unaligned row |
| `CopyAsync`      | loads end in shared memory, in groups  | 16 bytes in every row, cp.async  | as above                      |
| `CopyHint`       | `CopyVectors`, with a hint to L2       | 16 bytes, if they divide a row   | 16                            |

In all of them a warp has 2 KiB of a row, a lane has 64 bytes in flight, predicates keep both inside the tensor, and any M, N and
type of 16 or 32 bits work. `CopyUnaligned` and `CopyAsync` ask that each row of x and of out begins equally far from a 16-byte
boundary, as it does in contiguous tensors of one shape.

Not covered: bulk copies (TMA), which one thread issues for a whole block.
"""

import math
from dataclasses import replace

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.cache_hints import EVICT_LAST, policy_of
from quack_tutorial.kernels.layout import (
    SHARED_BYTES,
    VECTOR_BYTES,
    aligned,
    elements_to_boundary,
    tile_at,
    tiled_copy_rows,
)
from quack_tutorial.kernels.tuned.row_tile import RowKernel
from quack_tutorial.kernels.tuned.rule import sizes

LANES = 32
LANE_BYTES = 64  # that each lane has in flight, however they are cut


class CopyThread:
    """Each lane copies 64 neighbouring bytes of a row, one element at a time, as a loop on a CPU would.

    Gains: it is right. Stops paying at once: the lanes of a request are 64 bytes apart, so each brings a sector of its own.
    """

    def __init__(self, dtype, N, threads_per_block=128):
        self.N, self.threads_per_block = N, threads_per_block
        self.elements = LANE_BYTES * 8 // dtype.width  # of a lane
        self.tiler = (threads_per_block // LANES, LANES * self.elements)

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        self.kernel(mX, mO).launch(
            grid=grid_of(mX.shape, self.tiler), block=[self.threads_per_block, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        row_block, column_block, _ = cute.arch.block_idx()
        rows, columns = self.tiler
        # 64 bits, since row * N may pass 2^31.
        row = cutlass.Int64(row_block) * rows + warp
        first = column_block * columns + lane * self.elements
        rX = cute.make_rmem_tensor(self.elements, mX.element_type)
        # read MN elements
        for i in cutlass.range_constexpr(self.elements):
            if row < mX.shape[0] and first + i < self.N:
                rX[i] = mX[row, first + i]
        # write MN elements
        for i in cutlass.range_constexpr(self.elements):
            if row < mX.shape[0] and first + i < self.N:
                mO[row, first + i] = rX[i]


class CopyCoalesced:
    """As `CopyThread`, but a lane's elements are 32 apart: in each request, neighbouring lanes have neighbouring elements.

    Gains: 4 sectors a request instead of 32 (2 of 16-bit elements), and all of their bytes are used. Stops paying: an element an
    instruction, with its own address and predicate, so the warp has to issue many.
    """

    def __init__(self, dtype, N, threads_per_block=128):
        self.N, self.threads_per_block = N, threads_per_block
        self.elements = LANE_BYTES * 8 // dtype.width
        self.tiler = (threads_per_block // LANES, LANES * self.elements)

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        self.kernel(mX, mO).launch(
            grid=grid_of(mX.shape, self.tiler), block=[self.threads_per_block, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        row_block, column_block, _ = cute.arch.block_idx()
        rows, columns = self.tiler
        row = cutlass.Int64(row_block) * rows + warp
        first = column_block * columns + lane
        rX = cute.make_rmem_tensor(self.elements, mX.element_type)
        # read MN elements
        for i in cutlass.range_constexpr(self.elements):
            if row < mX.shape[0] and first + i * LANES < self.N:
                rX[i] = mX[row, first + i * LANES]
        # write MN elements
        for i in cutlass.range_constexpr(self.elements):
            if row < mX.shape[0] and first + i * LANES < self.N:
                mO[row, first + i * LANES] = rX[i]


class CopyVectors:
    """As `CopyCoalesced`, but through a TiledCopy whose unit is a vector of up to `vector_bytes` (0: single elements).

    Gains: a quarter of the instructions, an eighth of 16-bit elements. Stops paying: a vector must not straddle the end of a row
    and must begin at a multiple of its size, so its length is the widest that divides N: one element where N is odd.
    """

    def __init__(self, dtype, N, vector_bytes=VECTOR_BYTES, threads_per_block=128):
        self.dtype, self.N, self.threads_per_block = dtype, N, threads_per_block
        self.vector_size = widest_vector(dtype, N, vector_bytes)
        self.tiler = (threads_per_block // LANES, LANES * LANE_BYTES * 8 // dtype.width)

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

        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        tiled_copy = tiled_copy_rows(atom, LANES, self.tiler[0], self.vector_size)
        thr_copy = tiled_copy.get_slice(tidx)
        tXgX, tXgO, tXcX = thr_copy.partition_S(gX), thr_copy.partition_D(gO), thr_copy.partition_S(cX)
        tXpX = inside(tXcX, mX.shape)

        tXrX = cute.make_fragment_like(tXgX)
        cute.copy(atom, tXgX, tXrX, pred=tXpX)  # read MN elements
        cute.copy(atom, tXrX, tXgO, pred=tXpX)  # write MN elements


class CopyUnaligned:
    """As `CopyVectors`, but a row's vectors begin at its first 16-byte boundary; what is left at its ends goes one by one.

    Each row begins elsewhere, so a warp partitions its own. Gains: vectors of 16 bytes whatever N is. Stops paying: in
    short rows, of which the ends are much. Where tensors are passed as aligned and N is a multiple of a vector, the
    compiler leaves all of it out.
    """

    def __init__(self, dtype, N, threads_per_block=128):
        self.dtype, self.N, self.threads_per_block = dtype, N, threads_per_block
        self.vector_size = VECTOR_BYTES * 8 // dtype.width
        self.tiler = (threads_per_block // LANES, LANES * LANE_BYTES * 8 // dtype.width)

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        self.kernel(mX, mO).launch(
            grid=grid_of(mX.shape, self.tiler), block=[self.threads_per_block, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        row_block, column_block, _ = cute.arch.block_idx()
        rows, columns = self.tiler
        row = row_block * rows + warp
        # A row is `head` elements, `body` in whole vectors, and a rest: 3 | 4 4 4 4 4 4 | 2.
        head, body = head_and_body(mX, row, self.N, self.vector_size)
        gX = cute.local_tile(aligned(row_from(mX, row, head)), (1, columns), (0, column_block))
        gO = cute.local_tile(aligned(row_from(mO, row, head)), (1, columns), (0, column_block))
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), (1, columns), (0, column_block))

        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=VECTOR_BYTES * 8)
        thr_copy = tiled_copy_rows(atom, LANES, 1, self.vector_size).get_slice(lane)
        tXgX, tXgO, tXcX = thr_copy.partition_S(gX), thr_copy.partition_D(gO), thr_copy.partition_S(cX)
        tXpX = inside(tXcX, (mX.shape[0] - row, body))  # coordinates count from (row, head)

        tXrX = cute.make_fragment_like(tXgX)
        cute.copy(atom, tXgX, tXrX, pred=tXpX)  # read MN elements, with the ends
        # The row's first block takes its ends.
        if column_block == 0 and row < mX.shape[0]:
            copy_ends(mX, mO, row, lane, head, head + body)
        cute.copy(atom, tXrX, tXgO, pred=tXpX)  # write MN elements, with the ends


class CopyAsync:
    """As `CopyUnaligned`, but cp.async brings the vectors to shared memory, a group of one a lane at a time.

    Gains: no register waits for a load, so more bytes can be in flight than registers could hold (here the same 64 a
    lane). Stops paying: a copy has registers to spare, and the way through shared memory is one more way to go.
    """

    def __init__(self, dtype, N, threads_per_block=128):
        self.dtype, self.N, self.threads_per_block = dtype, N, threads_per_block
        self.vector_size = VECTOR_BYTES * 8 // dtype.width
        self.tiler = (threads_per_block // LANES, LANES * LANE_BYTES * 8 // dtype.width)

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        self.kernel(mX, mO).launch(
            grid=grid_of(mX.shape, self.tiler), block=[self.threads_per_block, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        row_block, column_block, _ = cute.arch.block_idx()
        rows, columns = self.tiler
        row = row_block * rows + warp
        head, body = head_and_body(mX, row, self.N, self.vector_size)
        gX = cute.local_tile(aligned(row_from(mX, row, head)), (1, columns), (0, column_block))
        gO = cute.local_tile(aligned(row_from(mO, row, head)), (1, columns), (0, column_block))
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), (1, columns), (0, column_block))
        smem_layout = cute.make_ordered_layout(self.tiler, order=(1, 0))
        smem = cutlass.memory.SmemAllocator().allocate_tensor(self.dtype, smem_layout, byte_alignment=VECTOR_BYTES)
        sX = cute.local_tile(smem, (1, columns), (warp, 0))

        bits = VECTOR_BYTES * 8
        atom_async = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), self.dtype, num_bits_per_copy=bits)
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, LANES, 1, self.vector_size).get_slice(lane)
        tXgX, tXsX = thr_copy.partition_S(gX), thr_copy.partition_D(sX)
        tXgO, tXcX = thr_copy.partition_D(gO), thr_copy.partition_S(cX)
        tXpX = inside(tXcX, (mX.shape[0] - row, body))  # coordinates count from (row, head)

        vectors = cute.size(tXgX, mode=[2])
        for i in cutlass.range_constexpr(vectors):
            # read MN elements, with the ends
            cute.copy(atom_async, tXgX[None, None, i], tXsX[None, None, i], pred=tXpX[None, i])
            cute.arch.cp_async_commit_group()
        # The row's first block takes its ends.
        if column_block == 0 and row < mX.shape[0]:
            copy_ends(mX, mO, row, lane, head, head + body)
        tXrX = cute.make_fragment_like(tXgX)
        for i in cutlass.range_constexpr(vectors):
            # A lane reads back what it copied itself, so its own wait is enough; for another's, a barrier too.
            cute.arch.cp_async_wait_group(vectors - 1 - i)
            cute.copy(atom, tXsX[None, None, i], tXrX[None, None, i])
            # write MN elements, with the ends
            cute.copy(atom, tXrX[None, None, i], tXgO[None, None, i], pred=tXpX[None, i])


class CopyHint(CopyVectors):
    """As `CopyVectors`, but each load asks L2 to give up last what it brings, so that what was written goes first.

    A copy atom for loads from global memory takes a policy, a number that an instruction of its own makes. Gains: the share of
    `what ships` that its sizes do not explain. Stops paying: where a kernel writes next to nothing.
    """

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row_block, column_block, _ = cute.arch.block_idx()
        gX = tile_at(mX, self.tiler, row_block, column_block)
        gO = tile_at(mO, self.tiler, row_block, column_block)
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), self.tiler, (row_block, column_block))

        bits = self.vector_size * self.dtype.width
        atom_load = cute.make_copy_atom(cute.nvgpu.CopyG2ROp(), self.dtype, num_bits_per_copy=bits)
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        tiled_copy = tiled_copy_rows(atom, LANES, self.tiler[0], self.vector_size)
        thr_copy = tiled_copy.get_slice(tidx)
        tXgX, tXgO, tXcX = thr_copy.partition_S(gX), thr_copy.partition_D(gO), thr_copy.partition_S(cX)
        tXpX = inside(tXcX, mX.shape)

        tXrX = cute.make_fragment_like(tXgX)
        cute.copy(atom_load, tXgX, tXrX, pred=tXpX, cache_policy=policy_of(EVICT_LAST))  # read MN elements
        cute.copy(atom, tXrX, tXgO, pred=tXpX)  # write MN elements


LADDER = {
    "thread": CopyThread,
    "coalesced": CopyCoalesced,
    "vectors": CopyVectors,
    "any row": CopyUnaligned,
    "async": CopyAsync,
    "hint": CopyHint,
}


class TileCopy(RowKernel):
    """The reads and writes of a kernel that ships, without its arithmetic: out = x, or with `reads` = 2 x + y, of (M, N) matrices,
    with the tile that `operation` has for such rows.

    What is left of a kernel's time is what its memory takes, with just this spread of rows over threads: a ceiling (chapter
    10) that the benchmark times beside the kernel.
    """

    allows_rows_each = True

    def __init__(self, operation, dtype, N, promise, reads=1):
        # A row that the kernel has in shared memory is in registers here.
        config = replace(sizes(operation, dtype.width, N, promise), stages=0)
        super().__init__(dtype, N, promise, config=config)
        self.reads = reads

    @cute.jit
    def __call__(self, mX, mY, mO, stream: cuda.CUstream):
        launched = self.launched([self.tile.blocks(mX.shape[0]), self.tile.pieces, 1])
        self.kernel(mX, mY, mO).launch(**launched, stream=stream)

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


def grid_of(shape, tiler):
    """Blocks down and along a tensor of `shape` (M, N), each with a tile of `tiler` (rows, columns)."""
    return [cute.ceil_div(shape[0], tiler[0]), cute.ceil_div(shape[1], tiler[1]), 1]


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
def inside(tXcX: cute.Tensor, shape):
    """Which vectors of this thread lie in a tensor of `shape`: Booleans (rows, vectors), from their first coordinates."""
    rows, vectors = cute.size(tXcX, mode=[1]), cute.size(tXcX, mode=[2])
    tXpX = cute.make_rmem_tensor((rows, vectors), cutlass.Boolean)
    for row in cutlass.range_constexpr(rows):
        for vector in cutlass.range_constexpr(vectors):
            tXpX[row, vector] = cute.elem_less(tXcX[0, row, vector], shape)
    return tXpX


@cute.jit
def copy_columns(source: cute.Tensor, target: cute.Tensor, tXcX: cute.Tensor, N: cutlass.Constexpr):
    """Copy this thread's elements one at a time, those of columns below N; the three tensors have one shape.

    For what is moved once a block, and may have another type than the vectors of the tile were chosen for.
    """
    for k in cutlass.range_constexpr(cute.size(tXcX)):
        if tXcX[k][1] < N:
            target[k] = source[k].to(target.element_type)


def row_from(mX, row, column):
    """The view whose (0, 0) is mX's (row, column); the address is computed in 64 bits."""
    return cute.domain_offset((cutlass.Int64(row), column), mX)


def head_and_body(mX, row, N, vector_size):
    """(elements before the first 16-byte boundary of a row, elements in whole vectors behind it)."""
    head = cutlass.min(elements_to_boundary(row_from(mX, row, 0), VECTOR_BYTES), N)
    return head, (N - head) // vector_size * vector_size


@cute.jit
def copy_ends(mX: cute.Tensor, mO: cute.Tensor, row, lane, head, tail):
    """Copy the elements of a row before column `head` and from column `tail` on, one a lane; both are fewer than a vector's."""
    row = cutlass.Int64(row)
    if lane < head:
        mO[row, lane] = mX[row, lane]
    if tail + lane < mX.shape[1]:
        mO[row, tail + lane] = mX[row, tail + lane]
