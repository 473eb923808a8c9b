import cutlass
import cutlass.cute as cute


class RowArgmax:
    def __init__(self, threads):
        self.threads = threads

    @cute.jit
    def __call__(self, mX: cute.Tensor, mMax: cute.Tensor, mIndex: cute.Tensor):
        self.kernel(mX, mMax, mIndex).launch(grid=[mX.shape[0], 1, 1], block=[self.threads, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mMax: cute.Tensor, mIndex: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        N = mX.shape[1]
        best = -cutlass.Float32.inf
        index = cutlass.Int32(N)
        for i in cutlass.range_constexpr(cute.ceil_div(N, self.threads)):
            column = tidx + self.threads * i
            if column < N:
                x = mX[row, column]
                if x > best or (x == best and column < index):
                    best = x
                    index = column
        for i in cutlass.range_constexpr(5):
            other = cute.arch.shuffle_sync_bfly(best, offset=1 << i)
            other_index = cute.arch.shuffle_sync_bfly(index, offset=1 << i)
            if other > best or (other == best and other_index < index):
                best = other
                index = other_index
        if tidx == 0:
            mMax[row] = best
            mIndex[row] = index
