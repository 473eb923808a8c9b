"""Kernels that CuTe DSL would not take, each for one reason, and calls that launch nothing."""

import math

import cutlass
import cutlass.cute as cute
import numpy as np

from .hosts import one_warp


@cute.kernel
def copy_kernel(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = x[tidx]


@cute.jit
def never_launched(x: cute.Tensor, out: cute.Tensor):
    copy_kernel(x, out)


@cute.jit
def an_argument_short(x: cute.Tensor, out: cute.Tensor):
    copy_kernel(x).launch(grid=[1, 1, 1], block=[32, 1, 1])


@one_warp
@cute.kernel
def numpy_exp(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = np.exp(x[tidx])


@one_warp
@cute.kernel
def math_exp(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = math.exp(x[tidx])


@one_warp
@cute.kernel
def divmod_of_numbers(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    quotient, _ = divmod(tidx, 3)
    out[tidx] = x[quotient]


@one_warp
@cute.kernel
def constexpr_comprehension(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    first = [x[i] for i in cutlass.range_constexpr(2)]
    out[tidx] = first[0] + first[1]


@one_warp
@cute.kernel
def constexpr_sequence(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    first, second = tuple(cutlass.range_constexpr(2))
    out[tidx] = x[first] + x[second]


@one_warp
@cute.kernel
def int_of_index(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = x[int(tidx)]


@one_warp
@cute.kernel
def item(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = x[tidx].item()


@one_warp
@cute.kernel
def width_of_a_shuffle(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = cute.arch.shuffle_sync_bfly(x[tidx], offset=1, width=16)


@one_warp
@cute.kernel
def shuffle_without_offset(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = cute.arch.shuffle_sync(x[tidx])


@one_warp
@cute.kernel
def sliced(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    first = x[0:4]
    out[tidx] = first[0]


@one_warp
@cute.kernel
def unknown_attribute(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = cutlass.Float32((x.iterator + tidx).dereferenced())


@one_warp
@cute.kernel
def unknown_argument(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    cute.arch.barrier(1)
    out[tidx] = x[tidx]


@one_warp
@cute.kernel
def two_fragments(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    rA = cute.make_rmem_tensor(4, cutlass.Float32)
    rB = cute.make_rmem_tensor(4, cutlass.Float32)
    for i in cutlass.range_constexpr(4):
        rA[i] = x[tidx]
        if i + tidx < 34:
            rB[i] = x[tidx]
    both = rA.load() + rB.load()
    out[tidx] = both.reduce(cute.ReductionOp.ADD, init_val=0.0, reduction_profile=0)


@one_warp
@cute.kernel
def pointer_operator(x: cute.Tensor, out: cute.Tensor):
    out[0] = cute.make_tensor(x.iterator @ 1, 1)[0]


class Forgetful:
    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        out[tidx] = x[tidx] * self.factor


forgotten_in_init = Forgetful()
