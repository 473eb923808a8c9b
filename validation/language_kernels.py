"""Small kernels, each about one thing that the language or the machine does, with the answer from numpy.

Where the simulator's own tests have such a kernel, it is that one. All are exact: copies, integers, selections, sums that round
nowhere. `KERNELS` has what the GPU and the simulator must give, bit for bit.
"""

from __future__ import annotations

# ruff: noqa: F401, F821 — the written kernels use imports that nothing else does, and have their names from their text
import operator

import cutlass
import cutlass.cute as cute
import numpy as np
from dsl import language
from dsl.hosts import launched, one_warp
from dsl.written import write

from validation.mutation.kernels import AsyncCopy, BulkCopy, ClusterSum
from validation.outputs import Trial

FAMILY = "the language, one warp or cluster"
LANES = np.arange(32)

write(
    globals(),
    """
branches:
    result = x[tidx]
    if tidx < 8:
        result = cutlass.Float32(0.0)
    elif tidx < 16:
        result = result + 1.0
    else:
        if tidx % 2 == 1:
            result = -result
    out[tidx] = result
while_halving:
    n, count = x[tidx], cutlass.Int32(0)
    while n > 1:
        n = n // 2
        count += 1
    out[tidx] = count
shuffles:
    one = x[tidx]
    out[tidx] = cute.arch.shuffle_sync_up(one, 3)
    out[tidx + 32] = cute.arch.shuffle_sync_down(one, 5)
    out[tidx + 64] = cute.arch.shuffle_sync_bfly(one, 9)
    out[tidx + 96] = cute.arch.shuffle_sync(one, (tidx * 7) % 32)
votes:
    negative = x[tidx] < 0
    out[tidx] = cute.arch.vote_ballot_sync(negative)
    out[tidx + 32] = cutlass.Int32(cute.arch.vote_any_sync(negative))
    out[tidx + 64] = cutlass.Int32(cute.arch.vote_all_sync(negative))
widths:
    one = x[tidx] * cutlass.Float32(0.3301)
    out[tidx] = one.to(cutlass.BFloat16).to(cutlass.Float32)
    out[tidx + 32] = one.to(cutlass.Float16).to(cutlass.Float32)
    out[tidx + 64] = one.to(cutlass.Int32).to(cutlass.Float32)
block_sum @launched(128):
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(4), 16)
    total = cute.arch.warp_reduction(x[tidx], operator.add)
    lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
    if lane == 0:
        s[warp] = total
    cute.arch.barrier()
    out[tidx] = s[0] + s[1] + s[2] + s[3]
""",
)


def shuffled(x):
    up, down = np.where(LANES < 3, LANES, LANES - 3), np.where(LANES > 26, LANES, LANES + 5)
    return np.concatenate([x[up], x[down], x[LANES ^ 9], x[LANES * 7 % 32]])


def voted(x):
    ballot = np.array([sum(1 << int(lane) for lane in LANES[x < 0])], np.uint32).view(np.int32)[0]
    return np.repeat(np.array([ballot, (x < 0).any(), (x < 0).all()], np.int32), 32)


def narrowed(x):
    x = x * np.float32(0.3301)
    bits = x.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    whole = x.astype(np.int32)  # towards zero, and no -0
    return np.concatenate([rounded, x.astype(np.float16).astype(np.float32), whole.astype(np.float32)])


def branched(x):
    return np.where(LANES < 8, 0, np.where(LANES < 16, x + 1, np.where(LANES % 2 == 1, -x, x))).astype(np.float32)


def halved(x):
    return np.array([max(int(v), 1).bit_length() - 1 for v in x], np.int32)


def same(x):
    return x


def trial(about, host, answer, dtype=np.float32, size=32) -> Trial:
    """On fresh small whole numbers, negative ones among them, over a poisoned output; `answer(x)` is what that must hold."""

    def arguments():
        x = np.random.default_rng(5).integers(-40, 40, size).astype(dtype)
        return x, np.full(answer(x).shape, 77, dtype)

    return Trial(FAMILY, about, host, arguments, (1,), exact=lambda found: (found[1], answer(np.asarray(found[0]))))


KERNELS = (
    trial("// floors", language.floor_divide, lambda x: x // 4, np.int32),
    trial("% keeps the dividend's sign", language.remainder, lambda x: np.fmod(x, 4), np.int32),
    trial("if, elif, else by lane", branches, branched),
    trial("a loop as long as the lane's number", language.sum_below_lane, lambda x: np.cumsum(x) - x),
    trial("a while loop that ends lane by lane", while_halving, halved, np.int32),
    trial("a conditional expression is lazy", language.lazy_choice, lambda x: np.append(x[1:] - 1, np.float32(-1))),
    trial("a helper function", language.with_helper, lambda x: x * 2 + 1),
    trial("a kernel in a class", language.Scaler(3.0), lambda x: x * 3),
    trial("two launches in order", language.two_kernels, lambda x: x * 4),
    Trial(
        FAMILY,
        "grid and block of two dimensions",
        language.three_dimensions,
        lambda: (np.full((2, 3, 4, 5), 77, np.int32),),
        (0,),
        exact=lambda found: (found[0], np.arange(120, dtype=np.int32).reshape(2, 3, 4, 5)),
    ),
    trial("shuffles: up, down, butterfly, by index", shuffles, shuffled),
    trial("votes: ballot, any, all", votes, voted, np.int32),
    trial("conversions: bfloat16, float16, int32", widths, narrowed),
    trial("a block's sum through shared memory", block_sum, lambda x: np.full_like(x, x.sum()), size=128),
    trial("cp.async", AsyncCopy(), same, size=(1, 128)),
    trial("bulk copies and an mbarrier", BulkCopy(128), same, size=(2, 128)),
    *(
        trial(
            f"a cluster of {blocks} blocks, st.async",
            ClusterSum(blocks),
            lambda x, blocks=blocks: np.repeat(x.sum(axis=1, keepdims=True), blocks, axis=1),
            size=(1, 256),
        )
        for blocks in (2, 4, 8)
    ),
)
