import cutlass
import cutlass.cute as cute


class ColumnSum:
    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[x.shape[1], 1, 1], block=[128, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        column, _, _ = cute.arch.block_idx()
        sums = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(4))
        if tidx < x.shape[0]:  # the last rows may be missing
            total = cute.arch.warp_reduction_sum(x[tidx, column])
            if tidx % 32 == 0:
                sums[tidx // 32] = total
            cute.arch.barrier(barrier_id=1, number_of_threads=128)
        if tidx == 0:
            out[column] = sums[0] + sums[1] + sums[2] + sums[3]
