"""Mistakes of a reader's, and names that the simulator lacks: each must be told as what it is."""

import math

import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass import Float32, Int32
from cutlass.cute import size
from cutlass.cute.arch import thread_idx

from .hosts import Constexpr, launched, one_warp
from .written import write


@cute.jit
def host_touches(x: cute.Tensor):
    """What a host function may do with a tensor in the CPU's memory, before it launches."""
    twos = cute.make_rmem_tensor((4,), Float32)
    twos.fill(2.0)
    part = cute.local_tile(x, (4,), (1,))
    part.store(part.load() + twos.load())
    for i in range(4):
        x[i] = x[i] * 3.0 + Float32(i)
    if x[0] > 100.0:
        x[31] = -1.0
    cute.printf("{} {}", x[3], x[4])


@cute.jit
def host_leaves_the_tensor(x: cute.Tensor, out: cute.Tensor):
    x[140] = 1.0


@cute.jit
def host_asks_for_its_thread(x: cute.Tensor, out: cute.Tensor):
    t, _, _ = cute.arch.thread_idx()
    x[t] = 1.0


def reader_helper(a, b):
    return a + b


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __mul__(self, x):
        return self.factor * x

    def __getitem__(self, i):
        return self.factor + i

    def __len__(self):
        return 0


SCALED = Scaled(3)


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


write(globals())("""
operators = 10: out[tidx] = Float32(SCALED * 2 + SCALED[1] + len(SCALED))
with_a_number(x, n: Int32) @launched(32, passing=True):
    t, _, _ = thread_idx()
    if t < n:
        x[t] = Float32(size(x))
""")
MISTAKES = write(globals())("""
unknown_name: x[tidx] = Float32(thread)
too_many_arguments: x[tidx] = reader_helper(1.0, 2.0, 3.0)
nested_with_none:
    def nested(a):
        return a
    x[tidx] = nested()
index_of_a_list: x[tidx] = [1.0, 2.0][2]
division_by_zero: x[tidx] = 1.0 / (len("ab") - 2)
asserts: assert len("ab") == 3, "not three"
int_of_a_word: x[tidx] = int("two")
attribute_of_a_function: x[tidx] = reader_helper.factor
plus_of_an_object: x[tidx] = SCALED + 1
class_without_arguments: x[tidx] = Scaled().factor
list_without_append: [].add(1)
far:
    i = (t + 1) * 1000000 * 3000
    x[i] = 1.0
numpy_exp: out[tidx] = np.exp(x[tidx])
math_exp: out[tidx] = math.exp(x[tidx])
divmod_of_numbers:
    quotient, _ = divmod(tidx, 3)
    out[tidx] = x[quotient]
constexpr_comprehension:
    first = [x[i] for i in cutlass.range_constexpr(2)]
    out[tidx] = first[0] + first[1]
int_of_index: out[tidx] = x[int(tidx)]
item: out[tidx] = x[tidx].item()
width_of_a_shuffle: out[tidx] = cute.arch.shuffle_sync_bfly(x[tidx], offset=1, width=16)
shuffle_without_offset: out[tidx] = cute.arch.shuffle_sync(x[tidx])
sliced:
    first = x[0:4]
    out[tidx] = first[0]
two_fragments:
    rA = cute.make_rmem_tensor(4, cutlass.Float32)
    rB = cute.make_rmem_tensor(4, cutlass.Float32)
    for i in cutlass.range_constexpr(4):
        rA[i] = x[tidx]
        if i + tidx < 34:
            rB[i] = x[tidx]
    both = rA.load() + rB.load()
    out[tidx] = both.reduce(cute.ReductionOp.ADD, init_val=0.0, reduction_profile=0)
""")
MISTAKES += "never_launched an_argument_short forgotten_in_init copy_kernel host_leaves_the_tensor host_asks_for_its_thread".split()
LACKING = write(globals())("""
missing_plus_number: x[tidx] = cute.no_such_thing + 1.0
number_below_missing: x[tidx] = Float32(tidx < cute.no_such_thing)
number_of_missing: x[tidx] = Float32(cute.no_such_thing)
store_of_missing: x[tidx] = cute.no_such_thing
missing_as_condition: x[tidx] = 1.0 if cute.no_such_thing else 2.0
loop_over_missing:
    for _ in cute.no_such_thing:
        x[tidx] = 1.0
instance_of_missing: x[tidx] = 1.0 if isinstance(x.layout, cute.no_such_thing) else 2.0
shape_of_a_tuple: print(x.shape.shape)
layout_at_layout: print(x.layout @ x.layout)
layout_below_3: print(x.layout < 3)
layout_of_a_function: print(cute.make_composed_layout(lambda c: c, 0, x.layout))
dots: print(x[...])
sorted_tensors: print(sorted([x, x]))
sum_of_layouts: print(sum([x.layout]))
formats: print(f"{tidx:.2f}")
three_arguments: x[tidx] = cute.arch.fmin(x[tidx], 1.0, 2.0)
number_in_a_tuple: print(tidx in (1, "2"))
index_of_a_token: print(cute.ReductionOp.ADD.value)
unknown_attribute: out[tidx] = cutlass.Float32((x.iterator + tidx).dereferenced())
unknown_argument:
    cute.arch.barrier(1)
    out[tidx] = x[tidx]
pointer_operator: out[0] = cute.make_tensor(x.iterator @ 1, 1)[0]
""")
