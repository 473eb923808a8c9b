"""Small kernels, each about one behaviour of the language. A line marked `# here` is the one a report must name."""

import cutlass
import cutlass.cute as cute

from .hosts import one_warp


def two_blocks(kernel):
    """A host function that runs `kernel(x, out)` with two blocks of 128 threads."""

    @cute.jit
    def host(x: cute.Tensor, out: cute.Tensor):
        kernel(x, out).launch(grid=[2, 1, 1], block=[128, 1, 1])

    host.__name__ = kernel.__name__
    return host


@one_warp
@cute.kernel
def floor_divide(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = x[tidx] // 4


@one_warp
@cute.kernel
def remainder(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = x[tidx] % 4


@cute.kernel
def double(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = x[tidx] + x[tidx]


def twice_and_one(v):
    return v * 2 + 1


@one_warp
@cute.kernel
def clamp_at_ten(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    value = x[tidx]
    if value > 10.0:
        value = cutlass.Float32(10.0)
    out[tidx] = value


@one_warp
@cute.kernel
def four_ways(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    result = cutlass.Float32(3.0)
    if tidx < 8:
        result = cutlass.Float32(0.0)
    elif tidx < 16:
        result = cutlass.Float32(1.0)
    else:
        if tidx % 2 == 1:
            result = cutlass.Float32(2.0)
    out[tidx] = result


@one_warp
@cute.kernel
def sum_below_lane(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    total = cutlass.Float32(0.0)
    for i in range(tidx):
        total += x[i]
    out[tidx] = total


@one_warp
@cute.kernel
def halvings(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    n, count = tidx, cutlass.Int32(0)
    while n > 1:
        n = n // 2
        count += 1
    out[tidx] = count


@one_warp
@cute.kernel
def lazy_choice(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = x[tidx + 1] - 1.0 if tidx < 31 else cutlass.Float32(-1.0)


@one_warp
@cute.kernel
def guard_by_and(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    if tidx < 31 and x[tidx + 1] > 0.0:  # here: the right side runs for every lane
        out[tidx] = x[tidx]


@one_warp
@cute.kernel
def with_helper(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = twice_and_one(x[tidx])


class Scaler:
    """A kernel as a class, with its configuration in __init__."""

    def __init__(self, factor):
        self.factor = factor

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        out[tidx] = self.scaled(x[tidx])

    def scaled(self, v):
        return v * self.factor


def closure_over(offset):
    """A kernel that reads a variable of the function around it."""

    @one_warp
    @cute.kernel
    def add(x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        out[tidx] = x[tidx] + offset

    return add


@one_warp
@cute.kernel
def prints(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    if tidx < 2:
        cute.printf("thread {} has {}", tidx, x[tidx])


@cute.jit
def two_kernels(x: cute.Tensor, out: cute.Tensor):
    double(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])
    double(out, out).launch(grid=[1, 1, 1], block=[32, 1, 1])


@cute.kernel
def linear_index(out: cute.Tensor):
    tx, ty, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    out[by, bx, ty, tx] = ((by * 3 + bx) * 4 + ty) * 5 + tx


@cute.jit
def three_dimensions(out: cute.Tensor):
    linear_index(out).launch(grid=[3, 2, 1], block=[5, 4, 1])


# ---- refused --------------------------------------------------------------------------------------------------------


@two_blocks
@cute.kernel
def type_changes(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    s = 0
    for i in range(4):  # here: s is Int32 before the loop and Float32 in it
        s += x[tidx]
    out[tidx] = s


@two_blocks
@cute.kernel
def list_by_dynamic_index(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    table = [1.0, 2.0, 3.0]
    for i in range(3):
        out[tidx] = table[i]  # here


@two_blocks
@cute.kernel
def early_return(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    if tidx > 3:
        return  # here
    out[tidx] = x[tidx]


@two_blocks
@cute.kernel
def gone_after_if(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    if tidx > 3:
        y = 1.0
    else:
        y = 2.0
    out[tidx] = y  # here


@two_blocks
@cute.kernel
def breaks(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    for i in range(4):
        if tidx > 3:
            break  # here
        out[tidx] = x[tidx]


@two_blocks
@cute.kernel
def stores_wide(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = x[tidx].to(cutlass.Float64)  # here


@two_blocks
@cute.kernel
def barrier_in_half_a_warp(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    if tidx < 16:
        cute.arch.barrier()  # here
    out[tidx] = x[tidx]


@two_blocks
@cute.kernel
def barrier_in_half_a_block(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    if tidx < 64:
        cute.arch.barrier()  # here
    out[tidx] = x[tidx]


@two_blocks
@cute.kernel
def shuffle_in_half_a_warp(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    v = x[tidx]
    if tidx < 16:
        v = v + cute.arch.shuffle_sync_bfly(v, 16)  # here
    out[tidx] = v


@cute.jit
def too_many_threads(x: cute.Tensor, out: cute.Tensor):
    double(x, out).launch(grid=[1, 1, 1], block=[2048, 1, 1])  # here


@two_blocks
@cute.kernel
def too_much_shared_memory(x: cute.Tensor, out: cute.Tensor):
    smem = cutlass.memory.SmemAllocator()
    first = smem.allocate_tensor(cutlass.Float32, cute.make_layout(40000), 16)
    second = smem.allocate_tensor(cutlass.Float32, cute.make_layout(40000), 16)  # here
    first[0] = second[0]


@two_blocks
@cute.kernel
def odd_alignment(x: cute.Tensor, out: cute.Tensor):
    smem = cutlass.memory.SmemAllocator()
    first = smem.allocate_tensor(cutlass.Float32, cute.make_layout(4), 16)
    second = smem.allocate_tensor(cutlass.Float32, cute.make_layout(4), 9)  # here
    first[0] = second[0]


@two_blocks
@cute.kernel
def endless(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    i = cutlass.Int32(0)
    while i < 10:  # here
        out[tidx] = x[tidx]


@two_blocks
@cute.kernel
def misaligned(x: cute.Tensor, out: cute.Tensor):
    part = cute.make_tensor(x.iterator + 1, cute.make_layout(4))
    registers = cute.make_rmem_tensor(4, cutlass.Float32)
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Float32, num_bits_per_copy=128)
    cute.copy(atom, part, registers)  # here
    out[0] = registers[0]


@two_blocks
@cute.kernel
def past_the_end(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 100 + tidx
    out[i] = x[i]  # here


@one_warp
@cute.kernel
def unknown_name(x: cute.Tensor, out: cute.Tensor):
    cute.arch.issue_clc_query(x)


# ---- helpers without a decorator, and functions as arguments --------------------------------------------------------


def plain_loop(v):
    total = v
    for i in range(3):  # Python's own range: i is 0, 1, 2 while tracing
        total = total + v * (1.0, 2.0, 3.0)[i]
    return total


@one_warp
@cute.kernel
def with_plain_loop(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = plain_loop(x[tidx])


def plain_if(v):
    if v > 0.0:  # here
        v = -v
    return v


@two_blocks
@cute.kernel
def with_plain_if(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = plain_if(x[tidx])


def plain_constexpr(v):
    for _ in cutlass.range_constexpr(3):  # here
        v = v + v
    return v


@two_blocks
@cute.kernel
def with_plain_constexpr(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = plain_constexpr(x[tidx])


@cute.jit
def negated(v):
    if v > 0.0:
        v = -v
    return v


@cute.kernel
def apply_kernel(x: cute.Tensor, out: cute.Tensor, function: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = function(x[tidx])


@cute.jit
def applied(x: cute.Tensor, out: cute.Tensor, function: cutlass.Constexpr):
    apply_kernel(x, out, function).launch(grid=[1, 1, 1], block=[32, 1, 1])


@one_warp
@cute.kernel
def from_below(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = cute.arch.shuffle_sync_up(x[tidx], 3)


@one_warp
@cute.kernel
def throws_away(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()  # `_` is a number here
    total = cutlass.Float32(0.0)
    for i in range(tidx):
        values, _ = (
            cute.make_rmem_tensor(2, cutlass.Float32),
            cute.make_rmem_tensor(2, cutlass.Float32),
        )  # and a tensor here
        values[0] = x[i]
        total += values[0]
    out[tidx] = total


@one_warp
@cute.kernel
def layout_of_the_block(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    rows = cutlass.min(cutlass.Int32(4), x.shape[0] - bidx * 100)
    if tidx < 4:
        grid = cute.make_tensor(x.iterator, cute.make_layout((rows, 2), stride=(rows - 2, 16)))
        out[tidx] = grid[tidx, 1]
        out[tidx + 8] = cutlass.Float32(cute.size(grid))


@one_warp
@cute.kernel
def layout_of_each_thread(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    mine = cute.make_tensor(x.iterator, cute.make_layout(tidx + 1))  # here
    out[tidx] = mine[0]


@one_warp
@cute.kernel
def tries(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    try:
        out[tidx] = x[tidx]
    finally:
        out[tidx] = x[tidx] + 1.0


@one_warp
@cute.kernel
def matches(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    match len(x.shape):
        case 1:
            out[tidx] = x[tidx]


@one_warp
@cute.kernel
def sets_a_global(x: cute.Tensor, out: cute.Tensor):
    global last
    tidx, _, _ = cute.arch.thread_idx()
    last = x[tidx]
    out[tidx] = last
