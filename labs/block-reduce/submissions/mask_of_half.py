import cutlass
import cutlass.cute as cute


@cute.jit
def better(value, index, other, other_index):
    if other > value or (other == value and other_index < index):
        value = other
        index = other_index
    return value, index


@cute.jit
def warp_argmax(value, index, width: cutlass.Constexpr = 32):
    for i in cutlass.range_constexpr(width.bit_length() - 1):
        other = cute.arch.shuffle_sync_bfly(value, offset=1 << i, mask=0xFFFF)
        other_index = cute.arch.shuffle_sync_bfly(index, offset=1 << i, mask=0xFFFF)
        value, index = better(value, index, other, other_index)
    return value, index


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
        N, threads = mX.shape[1], self.threads
        warps = threads // 32
        smem = cutlass.memory.SmemAllocator()
        sMax = smem.allocate_tensor(cutlass.Float32, cute.make_layout(warps), 16)
        sIndex = smem.allocate_tensor(cutlass.Int32, cute.make_layout(warps), 16)
        value = -cutlass.Float32.inf
        index = cutlass.Int32(N)
        for i in cutlass.range_constexpr(cute.ceil_div(N, threads)):
            column = tidx + threads * i
            if column < N:
                value, index = better(value, index, mX[row, column], column)
        value, index = warp_argmax(value, index)
        if lane == 0:
            sMax[warp] = value
            sIndex[warp] = index
        cute.arch.barrier()
        value, index = warp_argmax(sMax[lane % warps], sIndex[lane % warps], warps)
        if tidx == 0:
            mMax[row] = value
            mIndex[row] = index
