"""Asynchronous copies through shared memory: cp.async by every thread, a bulk copy by one."""

import cutlass
import cutlass.cute as cute


class AsyncCopy:
    """One row of 128 floats through shared memory with cp.async, one float a thread."""

    def __init__(self, wait=True):
        self.wait = wait

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor):
        self.kernel(mX, mO).launch(grid=[1, 1, 1], block=[128, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        sX = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout((1, 128)), 16)
        atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), cutlass.Float32, num_bits_per_copy=32)
        thread, value = cute.make_ordered_layout((1, 128), order=(1, 0)), cute.make_layout((1, 1))
        thr_copy = cute.make_tiled_copy_tv(atom, thread, value).get_slice(tidx)
        gX = cute.local_tile(mX, (1, 128), (0, 0))
        cute.copy(atom, thr_copy.partition_S(gX), thr_copy.partition_D(sX))
        cute.arch.cp_async_commit_group()
        if cutlass.const_expr(self.wait):
            cute.arch.cp_async_wait_group(0)
        mO[0, tidx] = sX[0, tidx]
        if cutlass.const_expr(not self.wait):
            cute.arch.cp_async_wait_group(0)


class PartlyOff:
    """One row of 32 floats over sevens with cp.async, which is on for the lanes below `below`."""

    def __init__(self, below):
        self.below = below

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor):
        self.kernel(mX, mO).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        sX = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout((1, 32)), 16)
        atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), cutlass.Float32, num_bits_per_copy=32)
        thread, value = cute.make_ordered_layout((1, 32), order=(1, 0)), cute.make_layout((1, 1))
        thr_copy = cute.make_tiled_copy_tv(atom, thread, value).get_slice(tidx)
        pred = cute.make_rmem_tensor((1, 1), cutlass.Boolean)
        pred[0, 0] = tidx < self.below
        sX[0, tidx] = 7.0
        cute.copy(atom, thr_copy.partition_S(mX), thr_copy.partition_D(sX), pred=pred)
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        mO[0, tidx] = sX[0, tidx]


class BulkCopy:
    """Rows through shared memory: one thread starts a bulk load and a bulk store, all threads double nothing in between."""

    def __init__(self, N, wait=True):
        self.N, self.wait = N, wait

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor):
        self.kernel(mX, mO).launch(grid=[mX.shape[0], 1, 1], block=[64, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        warp = cute.arch.warp_idx()
        smem = cutlass.memory.SmemAllocator()
        mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
        sX = smem.allocate_tensor(cutlass.Float32, cute.make_layout(self.N), byte_alignment=128)
        if tidx == 0:
            cute.arch.mbarrier_init(mbar, 1)
            cute.arch.mbarrier_init_fence()
        cute.arch.barrier()
        load = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), cutlass.Float32)
        store = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkS2GOp(), cutlass.Float32)
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(mbar, self.N * 4)
                cute.copy(load, mX[row, None], sX, mbar_ptr=mbar)
        if cutlass.const_expr(self.wait):
            cute.arch.mbarrier_wait(mbar, 0)
        for i in range(tidx, self.N, 64):
            sX[i] = sX[i] * 1.0
        cute.arch.fence_view_async_shared()
        cute.arch.barrier()
        if warp == 0:
            with cute.arch.elect_one():
                cute.copy(store, sX, mO[row, None])
                cute.arch.cp_async_bulk_commit_group()
                cute.arch.cp_async_bulk_wait_group(0)
        if cutlass.const_expr(not self.wait):
            cute.arch.mbarrier_wait(mbar, 0)
