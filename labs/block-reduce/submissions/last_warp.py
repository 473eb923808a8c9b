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
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        N, warps = mX.shape[1], self.threads // 32
        smem = cutlass.memory.SmemAllocator()
        sMax = smem.allocate_tensor(cutlass.Float32, cute.make_layout(warps), 16)
        sIndex = smem.allocate_tensor(cutlass.Int32, cute.make_layout(warps), 16)
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
        if lane == 0:
            sMax[warp] = best
            sIndex[warp] = index
        cute.arch.barrier()
        best, index = sMax[0], sIndex[0]
        for w in cutlass.range_constexpr(warps - 1):
            if sMax[w] > best or (sMax[w] == best and sIndex[w] < index):
                best = sMax[w]
                index = sIndex[w]
        if tidx == 0:
            mMax[row] = best
            mIndex[row] = index
