import cutlass
import cutlass.cute as cute


@cute.jit
def over_block(value, op: cutlass.Constexpr, buffer: cute.Tensor):
    for i in cutlass.range_constexpr(5):
        value = op(value, cute.arch.shuffle_sync_bfly(value, offset=1 << i))
    lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
    if lane == 0:
        buffer[warp] = value
    cute.arch.barrier()
    result = buffer[0]
    for w in cutlass.range_constexpr(1, cute.size(buffer)):
        result = op(result, buffer[w])
    return result


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
        smem = cutlass.memory.SmemAllocator()
        buffer = smem.allocate_tensor(cutlass.Float32, cute.make_layout(self.threads // 32), 16)
        value = -cutlass.Float32.inf
        index = cutlass.Int32(N)
        for i in cutlass.range_constexpr(cute.ceil_div(N, self.threads)):
            column = tidx + self.threads * i
            if column < N:
                x = mX[row, column]
                if x > value or (x == value and column < index):
                    value = x
                    index = column
        best = over_block(value, cute.arch.fmax, buffer)
        # Columns of other values must not win: the lowest of those that hold the maximum is the largest negative.
        candidate = -cutlass.Float32.inf
        if value == best:
            candidate = -cutlass.Float32(index)
        lowest = over_block(candidate, cute.arch.fmax, buffer)
        if tidx == 0:
            mMax[row] = best
            mIndex[row] = cutlass.Int32(-lowest)
