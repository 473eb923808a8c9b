"""Mistakes of a reader's, and names that the simulator lacks: each must be told as what it is."""

import cutlass
import cutlass.cute as cute
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
def host_leaves_the_tensor(x: cute.Tensor):
    x[40] = 1.0


@cute.jit
def host_asks_for_its_thread(x: cute.Tensor):
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


class Use:
    """A kernel whose one line is `what`."""

    def __init__(self, what):
        self.what, self.scaled = what, Scaled(3)

    @cute.jit
    def __call__(self, x: cute.Tensor):
        self.kernel(x).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor):
        t, _, _ = cute.arch.thread_idx()
        inner = lambda a: a  # noqa: E731

        def nested(a):
            return a

        if cutlass.const_expr(self.what == "operators"):
            x[t] = Float32(self.scaled * 2 + self.scaled[1] + len(self.scaled))
        if cutlass.const_expr(self.what == "unknown name"):
            x[t] = Float32(tidx)  # noqa: F821
        if cutlass.const_expr(self.what == "too many arguments"):
            x[t] = reader_helper(1.0, 2.0, 3.0)
        if cutlass.const_expr(self.what == "nested with none"):
            x[t] = nested()
        if cutlass.const_expr(self.what == "lambda with none"):
            x[t] = inner()
        if cutlass.const_expr(self.what == "index of a list"):
            x[t] = [1.0, 2.0][2]
        if cutlass.const_expr(self.what == "key of a dict"):
            x[t] = {"a": 1.0}["b"]
        if cutlass.const_expr(self.what == "division by zero"):
            x[t] = 1.0 / (len("ab") - 2)
        if cutlass.const_expr(self.what == "assert"):
            assert len("ab") == 3, "not three"
        if cutlass.const_expr(self.what == "int of a word"):
            x[t] = int("two")
        if cutlass.const_expr(self.what == "attribute of a function"):
            x[t] = reader_helper.factor
        if cutlass.const_expr(self.what == "index of a function"):
            x[t] = reader_helper[0]
        if cutlass.const_expr(self.what == "plus of an object"):
            x[t] = self.scaled + 1
        if cutlass.const_expr(self.what == "class without arguments"):
            x[t] = Scaled().factor
        if cutlass.const_expr(self.what == "list without append"):
            [].add(1)

        # what the simulator lacks
        if cutlass.const_expr(self.what == "missing + number"):
            x[t] = cute.no_such_thing + 1.0
        if cutlass.const_expr(self.what == "number < missing"):
            x[t] = Float32(t < cute.no_such_thing)
        if cutlass.const_expr(self.what == "number of missing"):
            x[t] = Float32(cute.no_such_thing)
        if cutlass.const_expr(self.what == "store of missing"):
            x[t] = cute.no_such_thing
        if cutlass.const_expr(self.what == "missing as condition"):
            x[t] = 1.0 if cute.no_such_thing else 2.0
        if cutlass.const_expr(self.what == "loop over missing"):
            for _ in cute.no_such_thing:
                x[t] = 1.0
        if cutlass.const_expr(self.what == "instance of missing"):
            x[t] = 1.0 if isinstance(x.layout, cute.no_such_thing) else 2.0
        if cutlass.const_expr(self.what == "shape of a tuple"):
            print(x.shape.shape)
        if cutlass.const_expr(self.what == "layout @ layout"):
            print(x.layout @ x.layout)
        if cutlass.const_expr(self.what == "layout < 3"):
            print(x.layout < 3)
        if cutlass.const_expr(self.what == "layout of a function"):
            print(cute.make_composed_layout(lambda c: c, 0, x.layout))
        if cutlass.const_expr(self.what == "dots"):
            print(x[...])
        if cutlass.const_expr(self.what == "sorted tensors"):
            print(sorted([x, x]))
        if cutlass.const_expr(self.what == "sum of layouts"):
            print(sum([x.layout]))
        if cutlass.const_expr(self.what == "format"):
            print(f"{t:.2f}")
        if cutlass.const_expr(self.what == "three arguments"):
            x[t] = cute.arch.fmin(x[t], 1.0, 2.0)
        if cutlass.const_expr(self.what == "number in a tuple"):
            print(t in (1, "2"))
        if cutlass.const_expr(self.what == "index of a token"):
            print(cute.ReductionOp.ADD.value)


class Part:
    def __init__(self):
        self.helper = helper_of_part

    @cute.kernel
    def kernel(self, x: cute.Tensor):
        self.method(x)
        self.helper(x)

    def method(self, x):
        cute.arch.first_gap(x)
        self.static(x)

    @staticmethod
    def static(x):
        cute.arch.second_gap(x)


def helper_of_part(x):
    cute.arch.third_gap(x)


class Base:
    @cute.jit
    def __call__(self, x: cute.Tensor):
        self.part.kernel(x).launch(grid=[1, 1, 1], block=[32, 1, 1])


class Whole(Base):
    def __init__(self):
        self.part = Part()


write(
    globals(),
    """
far(x):
    t, _, _ = cute.arch.thread_idx()
    i = (t + 1) * 1000000 * 3000
    x[i] = 1.0
with_a_number(x, n: Int32) @launched(32, passing=True):
    t, _, _ = thread_idx()
    if t < n:
        x[t] = Float32(size(x))
""",
)
