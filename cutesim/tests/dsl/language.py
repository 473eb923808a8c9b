"""Small kernels, each about one behaviour of the language. A line marked `# here` is the one a report must name."""

import cutlass
import cutlass.cute as cute

from .hosts import Constexpr, launched, one_warp
from .written import write

two_blocks = launched(128, blocks=2)


@cute.kernel
def double(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = x[tidx] + x[tidx]


def twice_and_one(v):
    return v * 2 + 1


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


@cute.jit
def too_many_threads(x: cute.Tensor, out: cute.Tensor):
    double(x, out).launch(grid=[1, 1, 1], block=[2048, 1, 1])  # here


# ---- helpers without a decorator, and functions as arguments --------------------------------------------------------


def plain_loop(v):
    total = v
    for i in range(3):  # Python's own range: i is 0, 1, 2 while tracing
        total = total + v * (1.0, 2.0, 3.0)[i]
    return total


def plain_generator(v):
    yield v
    for i in range(2):
        yield v * float(i)
    yield from [v, v]
    if cutlass.const_expr(True):
        return
    yield v


def plain_if(v):
    if v > 0.0:  # here
        v = -v
    return v


def plain_constexpr(v):
    for _ in cutlass.range_constexpr(3):  # here
        v = v + v
    return v


@cute.jit
def negated(v):
    if v > 0.0:
        v = -v
    return v


WANTED = {"two_kernels": "4 * lane"}
TAKEN = write(globals())("""
clamp_at_ten = np.minimum(lane, 10):
    value = x[tidx]
    if value > 10.0:
        value = cutlass.Float32(10.0)
    out[tidx] = value
four_ways = np.select([lane < 8, lane < 16, lane % 2 == 1], [0, 1, 2], 3):
    result = cutlass.Float32(3.0)
    if tidx < 8:
        result = cutlass.Float32(0.0)
    elif tidx < 16:
        result = cutlass.Float32(1.0)
    else:
        if tidx % 2 == 1:
            result = cutlass.Float32(2.0)
    out[tidx] = result
sum_below_lane = lane * (lane - 1) // 2:
    total = cutlass.Float32(0.0)
    for i in range(tidx):
        total += x[i]
    out[tidx] = total
lazy_choice = np.where(lane < 31, lane, -1): out[tidx] = x[tidx + 1] - 1.0 if tidx < 31 else cutlass.Float32(-1.0)
powers = np.sqrt(x[:32]) + np.exp2(x[:32] % 4): out[tidx] = x[tidx] ** 0.5 + (2.0 ** v)[tidx % 4]
with_helper = 2 * lane + 1: out[tidx] = twice_and_one(x[tidx])
with_plain_loop = 7 * lane: out[tidx] = plain_loop(x[tidx])
with_plain_generator = 4 * lane:
    total = cutlass.Float32(0.0)
    for part in plain_generator(x[tidx]):
        total += part
    out[tidx] = total
from_below = [0, 1, 2, *range(29)]: out[tidx] = cute.arch.shuffle_sync_up(x[tidx], 3)
throws_away = lane * (lane - 1) // 2:
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
layout_of_the_block = [16, 18, 20, 22, *[-7] * 4, *[8] * 4]:
    rows = cutlass.min(cutlass.Int32(4), x.shape[0] - bidx * 100)
    if tidx < 4:
        grid = cute.make_tensor(x.iterator, cute.make_layout((rows, 2), stride=(rows - 2, 16)))
        out[tidx] = grid[tidx, 1]
        out[tidx + 8] = cutlass.Float32(cute.size(grid))
""")


write(globals())("""
floor_divide: out[tidx] = x[tidx] // 4
remainder: out[tidx] = x[tidx] % 4
prints:
    if tidx < 2:
        cute.printf("thread {} has {}", tidx, x[tidx])
# refused
applied(x, out, helper: cutlass.Constexpr) @launched(32, passing=True): out[tidx] = helper(x[tidx])
""")


ONLY_WHEN_RUN = write(globals())("""
vector_past_the_end: out[tidx] = cute.make_tensor(x.iterator, cute.make_layout(4)).load()[tidx % 5]
guard_by_and:
    if tidx < 31 and x[tidx + 1] > 0.0:  # here: the right side runs for every lane
        out[tidx] = x[tidx]
# refused
barrier_in_half_a_warp @two_blocks:
    if tidx < 16:
        cute.arch.barrier()  # here
    out[tidx] = x[tidx]
shuffle_in_half_a_warp @two_blocks:
    v = x[tidx]
    if tidx < 16:
        v = v + cute.arch.shuffle_sync_bfly(v, 16)  # here
    out[tidx] = v
too_much_shared_memory @two_blocks:
    first = smem.allocate_tensor(cutlass.Float32, cute.make_layout(40000), 16)
    second = smem.allocate_tensor(cutlass.Float32, cute.make_layout(40000), 16)  # here
    first[0] = second[0]
odd_alignment @two_blocks:
    first = smem.allocate_tensor(cutlass.Float32, cute.make_layout(4), 16)
    second = smem.allocate_tensor(cutlass.Float32, cute.make_layout(4), 9)  # here
    first[0] = second[0]
endless @two_blocks:
    i = cutlass.Int32(0)
    while i < 10:  # here
        out[tidx] = x[tidx]
forever @two_blocks:
    while True:  # here
        pass
""")


REFUSED = write(globals())("""
# refused
type_changes @two_blocks:
    s = 0
    for i in range(4):  # here: s is Int32 before the loop and Float32 in it
        s += x[tidx]
    out[tidx] = s
list_by_dynamic_index @two_blocks:
    table = [1.0, 2.0, 3.0]
    for i in range(3):
        out[tidx] = table[i]  # here
early_return @two_blocks:
    if tidx > 3:
        return  # here
    out[tidx] = x[tidx]
gone_after_if @two_blocks:
    if tidx > 3:
        y = 1.0
    else:
        y = 2.0
    out[tidx] = y  # here
breaks @two_blocks:
    for i in range(4):
        if tidx > 3:
            break  # here
        out[tidx] = x[tidx]
with_plain_if @two_blocks: out[tidx] = plain_if(x[tidx])
with_plain_constexpr @two_blocks: out[tidx] = plain_constexpr(x[tidx])
""")


LACKING = write(globals())("""
# refused
unknown_name: cute.arch.issue_clc_query(x)
layout_of_each_thread:
    mine = cute.make_tensor(x.iterator, cute.make_layout(tidx + 1))  # here
    out[tidx] = mine[0]
tries:
    try:
        out[tidx] = x[tidx]
    finally:
        out[tidx] = x[tidx] + 1.0
matches:
    match len(x.shape):
        case 1:
            out[tidx] = x[tidx]
sets_a_global:
    global last
    tidx, _, _ = cute.arch.thread_idx()
    last = x[tidx]
    out[tidx] = last
""")
ONLY_WHEN_RUN += ["too_many_threads"]
TAKEN += ["two_kernels"]
