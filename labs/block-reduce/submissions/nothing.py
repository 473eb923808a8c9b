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
        other = cute.arch.shuffle_sync_bfly(value, offset=1 << i)
        other_index = cute.arch.shuffle_sync_bfly(index, offset=1 << i)
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
