import cutlass
import cutlass.cute as cute

from quack_tutorial.kernels.reduce import block_reduce, warp_reduce


class RowArgmax:
    def __init__(self, threads):
        self.threads = threads

    @cute.jit
    def __call__(self, mX: cute.Tensor, mMax: cute.Tensor, mIndex: cute.Tensor):
        self.kernel(mX, mMax).launch(grid=[mX.shape[0], 1, 1], block=[self.threads, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mMax: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        smem = cutlass.memory.SmemAllocator()
        buffer = smem.allocate_tensor(cutlass.Float32, cute.make_layout((1, self.threads // 32)), 16)
        value = warp_reduce(mX[row, tidx], cute.arch.fmax)
        value = block_reduce(value, cute.arch.fmax, buffer)
        if tidx == 0:
            mMax[row] = value
