import cutlass.cute as cute

THREADS = 64


@cute.kernel
def kernel(mX: cute.Tensor, mO: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    # read MN elements; write MN elements
    for i in range(tidx, mX.shape[1], THREADS):
        mO[row, i] = mX[row, i]


@cute.jit
def host(mX: cute.Tensor, mO: cute.Tensor):
    kernel(mX, mO).launch(grid=[mX.shape[0], 1, 1], block=[THREADS, 1, 1])


def wanted(x):
    return x
