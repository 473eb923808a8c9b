"""Kernels that CuTe DSL would not take, each for one reason, and calls that launch nothing."""

import math

import cutlass
import cutlass.cute as cute
import numpy as np

from .hosts import one_warp
from .written import write


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


class Forgetful:
    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        out[tidx] = x[tidx] * self.factor


forgotten_in_init = Forgetful()


write(
    globals(),
    """
numpy_exp:
    out[tidx] = np.exp(x[tidx])
math_exp:
    out[tidx] = math.exp(x[tidx])
divmod_of_numbers:
    quotient, _ = divmod(tidx, 3)
    out[tidx] = x[quotient]
constexpr_comprehension:
    first = [x[i] for i in cutlass.range_constexpr(2)]
    out[tidx] = first[0] + first[1]
constexpr_sequence:
    first, second = tuple(cutlass.range_constexpr(2))
    out[tidx] = x[first] + x[second]
int_of_index:
    out[tidx] = x[int(tidx)]
item:
    out[tidx] = x[tidx].item()
width_of_a_shuffle:
    out[tidx] = cute.arch.shuffle_sync_bfly(x[tidx], offset=1, width=16)
shuffle_without_offset:
    out[tidx] = cute.arch.shuffle_sync(x[tidx])
sliced:
    first = x[0:4]
    out[tidx] = first[0]
unknown_attribute:
    out[tidx] = cutlass.Float32((x.iterator + tidx).dereferenced())
unknown_argument:
    cute.arch.barrier(1)
    out[tidx] = x[tidx]
two_fragments:
    rA = cute.make_rmem_tensor(4, cutlass.Float32)
    rB = cute.make_rmem_tensor(4, cutlass.Float32)
    for i in cutlass.range_constexpr(4):
        rA[i] = x[tidx]
        if i + tidx < 34:
            rB[i] = x[tidx]
    both = rA.load() + rB.load()
    out[tidx] = both.reduce(cute.ReductionOp.ADD, init_val=0.0, reduction_profile=0)
pointer_operator:
    out[0] = cute.make_tensor(x.iterator @ 1, 1)[0]
""",
)
