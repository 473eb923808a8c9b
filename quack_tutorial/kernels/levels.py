"""Softmax at three levels of a GPU, after ThunderKittens: a warp's tile, a block's template, the grid.

| level | here                 | what is written once                                      | left to write          |
|-------|----------------------|-----------------------------------------------------------|------------------------|
| warp  | `row_max`, `row_sum` | how a warp's lanes hold a tile of rows and reduce it      | arithmetic on tiles    |
| block | `LoadComputeStore`   | a producer warp, mbarriers, stages, consumer warps        | a function of a tile   |
| grid  | `overlaps=True`      | blocks that stay, and start before the kernel ahead ends  | nothing                |

The idea of the three levels is from ThunderKittens (Spector et al., 2024, https://arxiv.org/abs/2410.20399); the code
is this book's, and chapter 16 explains it. Rows are contiguous, of whole 16-byte vectors, and a warp holds them in
registers: up to 4096 elements.

Not covered: tensor cores, for which ThunderKittens' tiles are made.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.copy import inside
from quack_tutorial.kernels.layout import MOST_ELEMENTS, VECTOR_BYTES, tile_at, tiled_copy_rows
from quack_tutorial.kernels.reduce import exp, finite_or_zero, thread_reduce, warp_reduce


def row_max(x, lanes_per_row=32):
    """The maximum of each row of a warp's tile, in every lane of the row; `x` is what this lane holds of it."""
    return warp_reduce(thread_reduce(x, cute.ReductionOp.MAX, -cutlass.Float32.inf), cute.arch.fmax, lanes_per_row)


def row_sum(x, lanes_per_row=32):
    """The sum of each row of a warp's tile, in every lane of the row."""
    return warp_reduce(thread_reduce(x, cute.ReductionOp.ADD, cutlass.Float32(0.0)), operator.add, lanes_per_row)


def softmax_tile(x):
    """Softmax of the rows of a warp's tile: three operations on tiles."""
    y = exp(x - finite_or_zero(row_max(x)))
    return y / row_sum(y)


class WarpTile:
    """A function of a warp's tile, one row a warp: load the tile, apply `compute`, store it."""

    def __init__(self, dtype, N, compute=softmax_tile, warps=4):
        self.dtype, self.N, self.compute, self.warps = dtype, N, compute, warps
        self.vector_size = vector_of(dtype, N)
        self.tiler = (warps, -(-N // (32 * self.vector_size)) * 32 * self.vector_size)

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        blocks = cute.ceil_div(mX.shape[0], self.warps)
        self.kernel(mX, mO).launch(grid=[blocks, 1, 1], block=[32 * self.warps, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, 32, self.warps, self.vector_size).get_slice(tidx)
        cX = cute.local_tile(cute.make_identity_tensor(mX.shape), self.tiler, (block, 0))
        tXpX = inside(thr_copy.partition_S(cX), mX.shape)
        tXgX = thr_copy.partition_S(tile_at(mX, self.tiler, block))
        # read MN elements
        tXrX = cute.make_fragment_like(tXgX)
        tXrX.fill(-self.dtype.inf)
        cute.copy(atom, tXgX, tXrX, pred=tXpX)
        # write MN elements
        tXrX.store(self.compute(tXrX.load().to(cutlass.Float32)).to(self.dtype))
        cute.copy(atom, tXrX, thr_copy.partition_D(tile_at(mO, self.tiler, block)), pred=tXpX)


class LoadComputeStore:
    """The same function in a template: one warp brings tiles by bulk copies, the others compute, a row each, and store.

    `stages` tiles are under way at once. Two mbarriers a stage pass it on: `full` when its bytes have come, `empty` when every
    consumer has read them. Blocks stay and take every `blocks`-th tile. With `overlaps` a kernel starts while the one ahead of it
    on the stream still runs (programmatic dependent launch), and waits for it before it reads.
    """

    def __init__(self, dtype, N, blocks, compute=softmax_tile, consumers=4, stages=3, overlaps=False):
        self.dtype, self.N, self.blocks, self.compute = dtype, N, blocks, compute
        self.consumers, self.stages, self.overlaps = consumers, stages, overlaps
        self.vector_size = vector_of(dtype, N)
        self.tiler = (1, -(-N // (32 * self.vector_size)) * 32 * self.vector_size)

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        threads = [32 * (self.consumers + 1), 1, 1]
        self.kernel(mX, mO).launch(grid=[self.blocks, 1, 1], block=threads, stream=stream, use_pdl=self.overlaps)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        block, _, _ = cute.arch.block_idx()
        warp = cute.arch.warp_idx()
        smem = cutlass.memory.SmemAllocator()
        layout = cute.make_ordered_layout((self.stages, self.consumers, self.N), order=(2, 1, 0))
        sX = smem.allocate_tensor(self.dtype, layout, byte_alignment=128)
        full = smem.allocate_array(cutlass.Int64, self.stages, byte_alignment=8)
        empty = smem.allocate_array(cutlass.Int64, self.stages, byte_alignment=8)
        if cute.arch.thread_idx()[0] == 0:
            for stage in cutlass.range_constexpr(self.stages):
                cute.arch.mbarrier_init(full + stage, 1)
                cute.arch.mbarrier_init(empty + stage, self.consumers)
            cute.arch.mbarrier_init_fence()
        cute.arch.barrier()
        if cutlass.const_expr(self.overlaps):
            cute.arch.griddepcontrol_wait()  # what the kernel ahead writes is there from here on
            cute.arch.griddepcontrol_launch_dependents()
        if warp == self.consumers:
            self.produce(mX, sX, full, empty, block)
        else:
            self.consume(mX, mO, sX, full, empty, block, warp)

    @cute.jit
    def produce(self, mX, sX, full, empty, block):
        """The producer warp: for each tile a free stage, then the copies of its rows."""
        M = mX.shape[0]
        atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), self.dtype)
        for tile in range(block, cute.ceil_div(M, self.consumers), self.blocks):
            turn = (tile - block) // self.blocks
            stage = turn % self.stages
            # Until its consumers have left it the last time round.
            if turn >= self.stages:
                cute.arch.mbarrier_wait(empty + stage, (turn // self.stages - 1) % 2)
            with cute.arch.elect_one():
                there = cutlass.min(self.consumers, M - tile * self.consumers)
                cute.arch.mbarrier_arrive_and_expect_tx(full + stage, there * (self.N * self.dtype.width // 8))
                for k in cutlass.range_constexpr(self.consumers):
                    if k < there:
                        # read MN elements
                        gX = tile_at(mX, (1, self.N), tile * self.consumers + k)[0, None]
                        target = cute.make_tensor(sX[stage, k, None].iterator, cute.make_layout(self.N))
                        cute.copy(atom, gX, target, mbar_ptr=full + stage)

    @cute.jit
    def consume(self, mX, mO, sX, full, empty, block, warp):
        """A consumer warp: for each tile take its row into registers, hand the stage back, compute and store."""
        M, lane = mX.shape[0], cute.arch.lane_idx()
        bits = self.vector_size * self.dtype.width
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        thr_copy = tiled_copy_rows(atom, 32, 1, self.vector_size).get_slice(lane)
        cX = cute.local_tile(cute.make_identity_tensor((1, self.N)), self.tiler, (0, 0))
        tXpX = inside(thr_copy.partition_S(cX), (1, self.N))
        for tile in range(block, cute.ceil_div(M, self.consumers), self.blocks):
            turn = (tile - block) // self.blocks
            stage, row = turn % self.stages, tile * self.consumers + warp
            slot = cute.make_tensor(sX[stage, warp, None].iterator, cute.make_layout((1, self.N), stride=(self.N, 1)))
            tXsX = thr_copy.partition_S(cute.local_tile(slot, self.tiler, (0, 0)))
            tXrX = cute.make_fragment_like(tXsX)
            tXrX.fill(-self.dtype.inf)
            cute.arch.mbarrier_wait(full + stage, turn // self.stages % 2)
            if row < M:
                cute.copy(atom, tXsX, tXrX, pred=tXpX)
            cute.arch.sync_warp()
            if lane == 0:
                cute.arch.mbarrier_arrive(empty + stage)
            if row < M:
                # write MN elements
                tXrX.store(self.compute(tXrX.load().to(cutlass.Float32)).to(self.dtype))
                cute.copy(atom, tXrX, thr_copy.partition_D(tile_at(mO, self.tiler, row)), pred=tXpX)


def vector_of(dtype, N):
    """Elements of a 16-byte vector; ValueError where a row is not of whole ones, or too long for a warp's registers."""
    vector_size = VECTOR_BYTES * 8 // dtype.width
    if N % vector_size or N > 32 * MOST_ELEMENTS:
        raise ValueError(
            f"rows of {N} elements of {dtype.width} bits: a warp's tile takes rows of whole 16-byte vectors, up to "
            f"{32 * MOST_ELEMENTS} elements"
        )
    return vector_size
