"""Small kernels, each about one thing that the language or the machine does, with the answer from numpy.

All of them are exact: copies, integers, selections, sums that round nowhere. `KERNELS` is the table: what the
GPU and the simulator must give, bit for bit.
"""

from __future__ import annotations

import operator

import cutlass
import cutlass.cute as cute
import numpy as np

from validation.mutation.kernels import AsyncCopy, BulkCopy, ClusterSum
from validation.outputs import Trial

FAMILY = "the language, one warp or cluster"
LANES = np.arange(32)


def launched(threads, blocks=1):
    """A host function that runs the kernel `(x, out)` which it decorates."""

    def decorate(kernel):
        @cute.jit
        def host(x: cute.Tensor, out: cute.Tensor):
            kernel(x, out).launch(grid=[blocks, 1, 1], block=[threads, 1, 1])

        host.__name__ = kernel.__name__
        return host

    return decorate


one_warp = launched(32)


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


@one_warp
@cute.kernel
def branches(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    result = x[tidx]
    if tidx < 8:
        result = cutlass.Float32(0.0)
    elif tidx < 16:
        result = result + 1.0
    else:
        if tidx % 2 == 1:
            result = -result
    out[tidx] = result


@one_warp
@cute.kernel
def loop_to_the_lane(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    total = cutlass.Float32(0.0)
    for i in range(tidx):
        total += x[i]
    out[tidx] = total


@one_warp
@cute.kernel
def while_halving(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    n, count = x[tidx], cutlass.Int32(0)
    while n > 1:
        n = n // 2
        count += 1
    out[tidx] = count


@one_warp
@cute.kernel
def lazy_choice(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = x[tidx + 1] if tidx < 31 else cutlass.Float32(-1.0)


def twice_and_one(v):
    return v * 2 + 1


@one_warp
@cute.kernel
def helper(x: cute.Tensor, out: cute.Tensor):
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
        out[tidx] = x[tidx] * self.factor


@cute.kernel
def double(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = x[tidx] + x[tidx]


@cute.jit
def two_launches(x: cute.Tensor, out: cute.Tensor):
    double(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])
    double(out, out).launch(grid=[1, 1, 1], block=[32, 1, 1])


@cute.kernel
def linear_index(x: cute.Tensor, out: cute.Tensor):
    tx, ty, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    out[((by * 3 + bx) * 4 + ty) * 5 + tx] = x[0] + ((by * 3 + bx) * 4 + ty) * 5 + tx


@cute.jit
def three_dimensions(x: cute.Tensor, out: cute.Tensor):
    linear_index(x, out).launch(grid=[3, 2, 1], block=[5, 4, 1])


@one_warp
@cute.kernel
def shuffles(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    v = x[tidx]
    out[tidx] = cute.arch.shuffle_sync_up(v, 3)
    out[tidx + 32] = cute.arch.shuffle_sync_down(v, 5)
    out[tidx + 64] = cute.arch.shuffle_sync_bfly(v, 9)
    out[tidx + 96] = cute.arch.shuffle_sync(v, (tidx * 7) % 32)


def shuffles_answer(x):
    up, down = np.where(LANES < 3, LANES, LANES - 3), np.where(LANES > 26, LANES, LANES + 5)
    return np.concatenate([x[up], x[down], x[LANES ^ 9], x[LANES * 7 % 32]])


@one_warp
@cute.kernel
def votes(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    negative = x[tidx] < 0
    out[tidx] = cute.arch.vote_ballot_sync(negative)
    out[tidx + 32] = cutlass.Int32(cute.arch.vote_any_sync(negative))
    out[tidx + 64] = cutlass.Int32(cute.arch.vote_all_sync(negative))


def votes_answer(x):
    ballot = np.array([sum(1 << int(lane) for lane in LANES[x < 0])], np.uint32).view(np.int32)[0]
    each = np.array([ballot, (x < 0).any(), (x < 0).all()], np.int32)
    return np.repeat(each, 32)


@one_warp
@cute.kernel
def widths(x: cute.Tensor, out: cute.Tensor):
    """Float32 to bfloat16, to float16, to an integer, and back."""
    tidx, _, _ = cute.arch.thread_idx()
    v = x[tidx]
    out[tidx] = v.to(cutlass.BFloat16).to(cutlass.Float32)
    out[tidx + 32] = v.to(cutlass.Float16).to(cutlass.Float32)
    out[tidx + 64] = v.to(cutlass.Int32).to(cutlass.Float32)


def widths_answer(x):
    bits = x.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    whole = x.astype(np.int32)  # towards zero, and no -0
    return np.concatenate([rounded, x.astype(np.float16).astype(np.float32), whole.astype(np.float32)])


class WarpSum:
    """Sums of small whole numbers: exact in float32 in whatever order they are added."""

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[128, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(4), 16)
        total = cute.arch.warp_reduction(x[tidx], operator.add)
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        if lane == 0:
            s[warp] = total
        cute.arch.barrier()
        out[tidx] = s[0] + s[1] + s[2] + s[3]


def trial(about, host, answer, dtype=np.float32, size=32) -> Trial:
    """On fresh small whole numbers, negative ones among them, over a poisoned output; `answer(x)` is what that must hold."""

    def arguments():
        x = np.random.default_rng(5).integers(-40, 40, size).astype(dtype)
        if host is widths:
            x = (x * np.float32(0.3301)).astype(np.float32)
        return x, np.full(answer(x).shape, 77, dtype)

    return Trial(FAMILY, about, host, arguments, (1,), exact=lambda found: (found[1], answer(np.asarray(found[0]))))


def same(x):
    return x


def sums_of(blocks):
    return lambda x: np.repeat(x.sum(axis=1, keepdims=True), blocks, axis=1)


def _sum_everywhere(x):
    return np.full(x.shape, x.sum(), np.float32)


def _branches(x):
    return np.where(LANES < 8, 0, np.where(LANES < 16, x + 1, np.where(LANES % 2 == 1, -x, x))).astype(np.float32)


KERNELS = (
    trial("// floors", floor_divide, lambda x: x // 4, np.int32),
    trial("% keeps the dividend's sign", remainder, lambda x: np.fmod(x, 4), np.int32),
    trial("if, elif, else by lane", branches, _branches),
    trial("a loop as long as the lane's number", loop_to_the_lane, lambda x: np.cumsum(x) - x),
    trial(
        "a while loop that ends lane by lane",
        while_halving,
        lambda x: np.array([max(int(v), 1).bit_length() - 1 for v in x], np.int32),
        np.int32,
    ),
    trial("a conditional expression is lazy", lazy_choice, lambda x: np.append(x[1:], np.float32(-1))),
    trial("a helper function", helper, lambda x: x * 2 + 1),
    trial("a kernel in a class", Scaler(3.0), lambda x: x * 3),
    trial("two launches in order", two_launches, lambda x: x * 4),
    trial("grid and block of two dimensions", three_dimensions, lambda x: x[0] + np.arange(120, dtype=np.float32)),
    trial("shuffles: up, down, butterfly, by index", shuffles, shuffles_answer),
    trial("votes: ballot, any, all", votes, votes_answer, np.int32),
    trial("conversions: bfloat16, float16, int32", widths, widths_answer),
    trial("a block's sum through shared memory", WarpSum(), _sum_everywhere, size=128),
    trial("cp.async", AsyncCopy(), same, size=(1, 128)),
    trial("bulk copies and an mbarrier", BulkCopy(128), same, size=(2, 128)),
    *(
        trial(f"a cluster of {blocks} blocks, st.async", ClusterSum(blocks), sums_of(blocks), size=(1, 256))
        for blocks in (2, 4, 8)
    ),
)
