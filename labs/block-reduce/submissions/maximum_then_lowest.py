# The maximum of the warp first; then the lowest column among the lanes that hold it.
import cutlass
import cutlass.cute as cute


@cute.jit
def lowest(a, b):
    result = a
    if b < a:
        result = b
    return result


@cute.jit
def warp_pair(value, column, rounds: cutlass.Constexpr):
    best = value
    for i in cutlass.range_constexpr(rounds):
        best = cute.arch.fmax(best, cute.arch.shuffle_sync_bfly(best, offset=1 << i))
    candidate = cutlass.Int32(2**31 - 1)
    if value == best:
        candidate = column
    for i in cutlass.range_constexpr(rounds):
        candidate = lowest(candidate, cute.arch.shuffle_sync_bfly(candidate, offset=1 << i))
    return best, candidate


class RowArgmax:
    """One block a row; a slot of shared memory a warp for each half of the pair."""

    def __init__(self, threads):
        self.threads = threads
        self.slots = threads // 32

    @cute.jit
    def __call__(self, mX: cute.Tensor, mMax: cute.Tensor, mIndex: cute.Tensor):
        self.kernel(mX, mMax, mIndex).launch(grid=[mX.shape[0], 1, 1], block=[self.threads, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mMax: cute.Tensor, mIndex: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        N = mX.shape[1]
        rounds = self.slots.bit_length() - 1
        smem = cutlass.memory.SmemAllocator()
        values = smem.allocate_tensor(cutlass.Float32, cute.make_layout(self.slots), 16)
        columns = smem.allocate_tensor(cutlass.Int32, cute.make_layout(self.slots), 16)
        value, column = -cutlass.Float32.inf, cutlass.Int32(2**31 - 1)
        if tidx < N:
            value = mX[bidx, tidx]
            column = tidx
        for c in cutlass.range(tidx + self.threads, N, self.threads):
            x = mX[bidx, c]
            if x > value:
                value = x
                column = c
        value, column = warp_pair(value, column, 5)
        if lane == 31:
            values[warp] = value
            columns[warp] = column
        cute.arch.barrier()
        value, column = warp_pair(values[lane % self.slots], columns[lane % self.slots], rounds)
        if tidx == 0:
            mMax[bidx] = value
            mIndex[bidx] = column
