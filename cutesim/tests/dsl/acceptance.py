"""Kernels at the edge of the language: what the DSL takes and what it refuses, of types, vectors, rebinding, containers.

| section                                          | asks                                                                        |
|--------------------------------------------------|-----------------------------------------------------------------------------|
| types                                            | what `where` and the functions of `cute.math` take                          |
| register vectors                                 | which elements and slices a lane may ask for, and when                      |
| any and all                                      | of what, and where Python needs the answer                                  |
| tensors rebound where lanes part                 | which differences a dynamic `if` or loop may join                           |
| lists, dicts and objects changed where lanes part | the same of Python's containers                                            |
| another block's shared memory                    | how it may be reached                                                       |
| what the package's kernels do                    | views of registers, unrolled ranges, optional tensors, clusters of 16       |
| plain ifs and loops                              | what the DSL stages though Python knows the answer                          |
| numbers that the source gives                    | what is known of `Int32(4)` while tracing, and how it is computed with      |
| what a tensor takes                              | which numbers may be stored in which types                                  |

`TAKEN` and `REFUSED`, at the end, name them; the tests run each on the simulator and hand each to the real compiler.
"""

from typing import Any, NamedTuple, Optional

import cutlass
import cutlass.cute as cute

from .hosts import Constexpr, launched, one_warp
from .written import write


@cute.jit
def pick(a, b, c):
    r = a
    if c:
        r = b
    return r


class Box:
    def __init__(self, v):
        self.v = v


class Reader:
    """A plain Python object that a kernel has."""

    def first(self, x):
        return x[0]


class Reading:
    def __init__(self):
        self.reader = Reader()

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])


class MethodOfSelf(Reading):
    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        lane = cute.arch.thread_idx()[0]
        if lane > 3:
            out[lane] = self.reader.first(x)


class MethodOfALocal(Reading):
    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        reader, lane = self.reader, cute.arch.thread_idx()[0]
        if lane > 3:
            out[lane] = reader.first(x)


class Place(NamedTuple):
    row: Any
    column: Any


method_of_self, method_of_a_local = MethodOfSelf(), MethodOfALocal()
READER = Reader()


@cute.jit
def reads(reader, x, out, lane):
    for _ in range(lane):
        out[lane] = reader.first(x)


@cute.jit
def change(held, x):
    held[0] = x[0]


@cute.jit
def copied(piece, out):
    r = cute.make_rmem_tensor((4,), cutlass.Float32)
    cute.copy(cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Float32, num_bits_per_copy=128), piece, r)
    out[cute.arch.thread_idx()[0]] = r[0]


@cute.jit
def pairs(x):
    return cute.make_tensor(x.iterator, cute.make_layout((8, 8, 32), stride=(256, 2, 1)))


def there():
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(32))
    return cute.arch.map_dsmem_ptr(s.iterator, 0)


eight = launched(8)


# ---- what the package's kernels do ------------------------------------------------------------------------------------------


@cute.kernel
def optional_kernel(x: cute.Tensor, out: cute.Tensor, w: Optional[cute.Tensor]):  # noqa: UP045, the DSL's documentation
    tidx, _, _ = cute.arch.thread_idx()
    v = x[tidx]
    if cutlass.const_expr(w is not None):
        v = v * w[tidx]
    out[tidx] = v


@cute.jit
def optional(x: cute.Tensor, out: cute.Tensor, w: Optional[cute.Tensor] = None):  # noqa: UP045
    optional_kernel(x, out, w).launch(grid=[1, 1, 1], block=[32, 1, 1])


@cute.kernel
def of_shape_kernel(x: cute.Tensor, out: cute.Tensor, tile: cute.Tile):
    tidx, _, _ = cute.arch.thread_idx()
    held = cute.make_rmem_tensor(cute.make_layout(tile), cutlass.Float32)
    held.fill(0.0)
    out[tidx] = x[tidx] + cute.size(held) + held[0]


@cute.jit
def of_shape(x: cute.Tensor, out: cute.Tensor, shape: cute.Shape):
    """Whole numbers of a shape are known while tracing."""
    of_shape_kernel(x, out, shape).launch(grid=[1, 1, 1], block=[32, 1, 1])


@cute.kernel
def grid_stride_kernel(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    blocks, _, _ = cute.arch.grid_dim()
    threads, _, _ = cute.arch.block_dim()
    i = block * threads + tidx
    while i < 128:
        out[i] = x[i] + blocks
        i += blocks * threads


grid_stride = launched(32, blocks=2)(grid_stride_kernel)
# The compiler asks the driver about min_blocks_per_mp, so only a GPU machine can compile it.
grid_stride_two_blocks_per_sm = launched(32, blocks=2, min_blocks_per_mp=2)(grid_stride_kernel)


# ---- what a tensor takes ------------------------------------------------------------------------------------------------

NUMBERS = {
    "int": lambda x, i: 3,
    "float": lambda x, i: 1.5,
    "bool": lambda x, i: True,
    "Int8": lambda x, i: cutlass.Int8(3),
    "Int32": lambda x, i: i,
    "Int64": lambda x, i: cutlass.Int64(3),
    "Uint32": lambda x, i: cutlass.Uint32(3),
    "Float16": lambda x, i: x.to(cutlass.Float16),
    "BFloat16": lambda x, i: x.to(cutlass.BFloat16),
    "Float32": lambda x, i: x,
    "Float64": lambda x, i: x.to(cutlass.Float64),
    "Boolean": lambda x, i: i < 3,
}
TYPES = "Float16 BFloat16 Float32 Float64 Int8 Int32 Int64 Uint32 Boolean".split()
# number: the types that take it, as the DSL 4.8.1 does
STORED = {
    "int": "Int32 Int64 Uint32",
    "float": "Float32 Float64",
    "bool": "Int8 Int32 Int64 Uint32 Boolean",
    "Int8": "Int8 Int32 Int64 Uint32",
    "Int32": "Int32 Int64 Uint32",
    "Int64": "Int64",
    "Uint32": "Int32 Int64 Uint32",
    "Float16": "Float16 BFloat16 Float32 Float64",
    "BFloat16": "Float16 BFloat16 Float32 Float64",
    "Float32": "Float32 Float64",
    "Float64": "Float64",
    "Boolean": "Int8 Int32 Int64 Uint32 Boolean",
}


def storing(number: str, dtype: str):
    """A host function that stores the number in an element of a register tensor of the type."""
    value, element_type = NUMBERS[number], getattr(cutlass, dtype)

    @one_warp
    @cute.kernel
    def store(x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        r = cute.make_rmem_tensor(1, element_type)
        r[0] = value(x[tidx], tidx)
        out[tidx] = x[tidx]

    return store


def given(parameter, constexpr=False):
    """A host function whose kernel takes `parameter` besides its tensors."""

    @cute.kernel
    def plain(x: cute.Tensor, out: cute.Tensor, more):
        out[0] = x[0]

    @cute.kernel
    def constant(x: cute.Tensor, out: cute.Tensor, more: Known):
        out[0] = x[0]

    kernel = constant if constexpr else plain

    @cute.jit
    def host(x: cute.Tensor, out: cute.Tensor):
        kernel(x, out, parameter).launch(grid=[1, 1, 1], block=[32, 1, 1])

    return host


Known = Constexpr
kernel_gets_text, kernel_gets_function = given("text"), given(given)
kernel_gets_text_as_constexpr = given("text", True)


@one_warp
@cute.kernel
def default_is_dynamic(x: cute.Tensor, out: cute.Tensor, n=3):
    for i in cutlass.range_constexpr(n):
        out[i] = x[i]


@cute.kernel
def with_a_default(x: cute.Tensor, out: cute.Tensor, n: Known = 3):
    for i in cutlass.range_constexpr(n):
        if cute.arch.thread_idx()[0] == i:
            out[i] = x[i]


@cute.jit
def renamed_constexpr(x: cute.Tensor, out: cute.Tensor):
    with_a_default(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])


class KernelOfThis:
    @cute.kernel
    def kernel(this, x: cute.Tensor, out: cute.Tensor):
        out[0] = x[0]

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])


class HostOfThis:
    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        out[0] = x[0]

    @cute.jit
    def __call__(this, x: cute.Tensor, out: cute.Tensor):
        this.kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])


class HelperOfThis:
    """Only where Python's objects cross into a kernel, or from the host, does the name of the first parameter matter."""

    @cute.jit
    def doubled(this, v):
        return v + v

    @cute.kernel
    def kernel(this: Constexpr, x: cute.Tensor, out: cute.Tensor):
        lane = cute.arch.thread_idx()[0]
        out[lane] = this.doubled(x[lane])

    @cute.jit
    def launched(this, x: cute.Tensor, out: cute.Tensor):
        this.kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.launched(x, out)


kernel_of_this, host_of_this, helper_of_this = KernelOfThis(), HostOfThis(), HelperOfThis()


WANTED = {
    "renamed_constexpr": "np.where(lane < 3, lane, -7)",
    "helper_of_this": "2 * lane",
    "method_of_self": "np.where(lane > 3, 0, -7)",
}
TAKEN = write(globals())("""
# types
where_with_float = [0]:
    w = cute.where(v > 0.0, v, 0.0)
    out[0] = w[0]
exp_of_bf16 = [1]: out[0] = cute.math.exp(x[0].to(cutlass.BFloat16)).to(cutlass.Float32)
# register vectors
vector_at_lane = lane % 4: out[tidx] = v[tidx % 4]
vector_in_range = 6:
    v = cute.make_tensor(x.iterator, cute.make_layout((4, 2))).load()
    s = cutlass.Float32(0.0)
    for i in range(4):
        s += v[i, 0]
    out[tidx] = s
vector_slice = [6 + 22]:
    v = cute.make_tensor(x.iterator, cute.make_layout((4, 2))).load()
    w = v[None, 1]
    out[0] = w[2] + w.reduce(cute.ReductionOp.ADD, 0.0, 0)
vector_row = [2, 3]:
    v = cute.make_tensor(x.iterator, cute.make_layout((4, 2), stride=(2, 1))).load()
    w = v[1, None]
    out[0] = w[0]
    out[1] = w[1]
vector_nested_slice = [12]:
    v = cute.make_tensor(x.iterator, cute.make_layout(((4, 2), 2))).load()
    w = v[(None, 1), 1]
    u = v[None, 0]
    out[0] = w[0] + u[0]
vector_of_bare_extent = [2]:
    v = cute.make_tensor(x.iterator, cute.make_layout((4,))).load()
    u = cute.make_tensor(x.iterator, cute.make_layout(4)).load()
    w = v + u
    out[0] = w[1]
# 128 bits from an address that is known to be a multiple of 16 bytes
wide_tile @eight = 4 * lane[:8]: copied(cute.local_tile(x, (4,), (tidx,)), out)
wide_by_an_assumption @eight = [0] * 8:
    copied(cute.make_tensor(x.iterator + cute.assume(cutlass.Int32(x[0]), divby=4), cute.make_layout(4)), out)
wide_past_four @eight = 4 * lane[:8] + 4: copied(cute.local_tile(cute.domain_offset((4,), x), (4,), (tidx,)), out)
wide_of_a_constant_row @eight = 4 * lane[:8] + 4:
    copied(cute.local_tile(pairs(x)[cutlass.Int32(x[0]), 2, None], (4,), (tidx,)), out)
not_so_wide @eight = 4 * lane[:8]:
    r = cute.make_rmem_tensor((4,), cutlass.Float32)
    cute.autovec_copy(cute.local_tile(cute.domain_offset((cutlass.Int32(x[0]),), x), (4,), (tidx,)), r)
    out[tidx] = r[0]
# any and all
any_and_all = np.where((lane < 3) | (lane > 8), lane, -7):
    if any([tidx < 3, tidx > 8]):
        out[tidx] = x[tidx]
    if all([tidx < 3, tidx > 8]):
        out[tidx] = x[tidx]
any_with_constants = np.where(lane > 3, lane, -7):
    if any([False, tidx > 3]):
        out[tidx] = x[tidx]
    if all([True, tidx > 3]):
        out[tidx] = x[tidx]
any_of_vector = lane:
    if cute.any_(v > 0.0):
        out[tidx] = x[tidx]
    if cute.all_(v > 0.0):
        out[tidx] = x[tidx]
all_as_value = 0:
    ok = all([tidx < 3, x[0] > 0.0])
    out[tidx] = ok.to(cutlass.Float32)
# tensors rebound where lanes part
rebind_view = lane % 8 + 4 * half:
    t = cute.domain_offset((0,), x)
    if tidx < 16:
        t = cute.domain_offset((4,), x)
    out[tidx] = t[tidx % 8]
rebind_pointer = np.where(half, 5, 1):
    p = x.iterator
    if tidx < 16:
        p = x.iterator + 4
    out[tidx] = cute.make_tensor(p, cute.make_layout(4))[1]
swap_in_while = np.repeat([35, 43, 24, 32, 13], [1, 8, 8, 8, 7]):
    a = cute.make_rmem_tensor(4, cutlass.Float32)
    b = cute.make_rmem_tensor(4, cutlass.Float32)
    a.fill(1.0)
    b.fill(2.0)
    i = tidx
    while i < 33:
        t = a
        a = b
        b = t
        a[0] = a[0] + 1.0
        i += 8
    out[tidx] = a[0] + b[0] * 10.0
rebind_in_helper = np.where(half, 413, 1008):
    a = cute.make_rmem_tensor(4, cutlass.Float32)
    b = cute.make_rmem_tensor(4, cutlass.Float32)
    a.fill(1.0)
    b.fill(2.0)
    r = pick(a, b, tidx < 16)
    r[1] = 7.0
    out[tidx] = a.load().reduce(cute.ReductionOp.ADD, 0.0, 0) * 100.0 + b.load().reduce(cute.ReductionOp.ADD, 0.0, 0)
rebind_argument = np.where(half, 1, -7):
    t = (x, out)
    s = t[0]
    if tidx < 16:
        s = t[1]
    s[tidx] = 1.0
# lists, dicts and objects changed where lanes part
dict_set = lane + half:
    held = {"a": x[tidx]}
    if tidx < 16:
        held["a"] = held["a"] + 1.0
    out[tidx] = held["a"]
list_rebind = np.where(half, 0, lane):
    held = [x[tidx], x[0]]
    if tidx < 16:
        held = [held[1], held[0]]
    out[tidx] = held[0]
list_alias = lane:
    held = [x[tidx], x[0]]
    other = held
    if tidx < 16:
        held[0] = held[0] + 1.0
    out[tidx] = other[0]
list_in_static_loop = 1 * half:
    held = [0.0, 0.0]
    if tidx < 16:
        for k in cutlass.range_constexpr(2):
            held[k] = x[k]
    out[tidx] = held[0] + held[1]
object_inside = np.where(half, lane + 1, -7):
    if tidx < 16:
        b = Box(x[tidx])
        b.v = b.v + 1.0
        out[tidx] = b.v
method_before_the_if = np.where(lane > 3, 0, -7):
    reader = READER
    first = reader.first(x)
    if tidx > 3:
        out[tidx] = first
named_tuple_made_anew = lane + 1:
    place = Place(0, tidx)
    for turn in range(tidx):
        place = Place(0, turn)
    if tidx > 3:
        place = Place(0, tidx)
    out[tidx] = x[tidx] + 1.0
    out[place.row + place.column] = x[place.column] + 1.0
list_nested = np.where(half, lane, 1):
    grid = [[0.0, 1.0], [2.0, 3.0]]
    if tidx < 16:
        grid[0][1] = x[tidx]
    out[tidx] = grid[0][1]
while_list = np.where(half, 15, 7):
    held = [0.0, 1.0]
    i = tidx
    while i < 64:
        held[0] = held[0] + held[1]
        held[1] = held[1] * 2.0
        i += 16
    out[tidx] = held[0]
# another block's shared memory
fragment_views = 774:
    r = cute.make_rmem_tensor(8, cutlass.Float32)
    r.fill(0.0)
    a = cute.make_tensor(r.iterator, cute.make_layout(4))
    b = cute.make_tensor(r.iterator + 4, cute.make_layout((2, 2)))
    c = cute.make_tensor(r.iterator + 1, cute.make_layout(3, stride=2))
    a.fill(1.0)
    b.store(cute.make_tensor(x.iterator, cute.make_layout((2, 2))).load())
    c[0] = 9.0
    s = r.load()
    t = cutlass.Float32(0.0)
    for k in cutlass.range_constexpr(8):
        t = t * 2.0 + s[k]
    out[tidx] = t + c.load().reduce(cute.ReductionOp.ADD, 0.0, 0)
fragment_view_dynamic = np.select([lane % 4 == 0, lane % 4 == 1, lane % 4 == 2], [3, lane + 3, lane], 0):
    r = cute.make_rmem_tensor(8, cutlass.Float32)
    r.fill(0.0)
    b = cute.make_tensor(r.iterator + tidx % 4, cute.make_layout(2))
    b[0] = x[tidx]
    b[1] = 3.0
    out[tidx] = r[1] + r[2]
stride_zero = 10:
    w = cute.make_tensor(x.iterator, cute.make_layout((4, 8), stride=(0, 1)))
    v = w[1, None].load()
    out[tidx] = v[3] + w[tidx % 4, 7]
unroll_range = 0 * lane + 34:
    s = cutlass.Float32(0.0)
    for i in cutlass.range(0, 8, unroll=4):
        s += x[i]
    for i in cutlass.range(4, unroll_full=True):
        s += x[i]
    out[tidx] = s
# plain ifs and loops: without const_expr the DSL stages them, even where Python knows the answer
constant_if_new_name = lane:
    a = 3
    if cutlass.const_expr(a > 5):
        y = x[0]
    elif cutlass.const_expr(a > 2):
        y = x[tidx]
    else:
        y = x[1]
    out[tidx] = y
plain_if_changes_value = lane * 2:
    a, y = 3, x[tidx]
    if a > 2:
        y = y * 2.0
    out[tidx] = y
# numbers that the source gives
literals_are_known = 8111:
    y = cutlass.Float32(0.0)
    for i in cutlass.range_constexpr(cutlass.Int32(2) + 1):
        y += [1.0, 10.0, 100.0][cutlass.Int32(i)]
    if cutlass.const_expr(cutlass.min(cutlass.Int32(4), 9) * 2 > 7):
        y += int(cutlass.Int32(1) << 3) * 1000.0
    out[tidx] = y
literals_are_python_s = np.select([lane > 15, lane > 7], [f32(0.1) * f32(lane), f32(0.1 + 0.2)], f32(2 - 2**31)):
    out[tidx] = cutlass.Float32(cutlass.Int32(-7) % 3) + cutlass.Float32(cutlass.Int32(2**31 - 1) + 1)
    if tidx > 7:
        out[tidx] = cutlass.Float32(cutlass.BFloat16(0.1) + cutlass.BFloat16(0.2))
    if tidx > 15:
        out[tidx] = cutlass.Float16(0.1) * x[tidx]
constant_if_returns = lane:
    out[tidx] = x[tidx]
    if cutlass.const_expr(True):
        return
    out[tidx] = x[0]
constant_if_breaks = lane + 1:
    for i in cutlass.range_constexpr(4):
        if cutlass.const_expr(i == 2):
            break
        out[tidx] = x[tidx] + i
# the two lists
counter_bound_before = 20:
    i, total = 7, 0.0
    for i in range(4):
        total += x[i]
    for k in cutlass.range_constexpr(6):
        total += 1.0
    out[cute.arch.thread_idx()[0]] = total + x[i] + k
""")


write(globals())("""
# any and all
# tensors rebound where lanes part
# lists, dicts and objects changed where lanes part
list_through_helper:
    held = [x[tidx]]
    if tidx < 16:
        change(held, x)
    out[tidx] = held[0]
# another block's shared memory
int64_index:
    label = x[tidx]
    out[tidx] = x[label % 7]
cluster16(x, out, iters: cutlass.Int32) @launched(32, blocks=16, cluster=16, passing=True):
    mbar = smem.allocate_array(cutlass.Int64, 2)
    buf = smem.allocate_tensor(cutlass.Float32, cute.make_layout((16, 2)), 16)
    pairs = smem.allocate_tensor(cutlass.Int64, cute.make_layout((16, 2)), 16)
    if tidx == 0:
        for k in cutlass.range_constexpr(2):
            cute.arch.mbarrier_init(mbar + k, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive_relaxed()
    cute.arch.cluster_wait()
    phase = cutlass.Int32(0)
    stage = cutlass.Int32(0)
    total = cutlass.Float32(0.0)
    for it in range(iters):
        if tidx == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(mbar + stage, 16 * 12)
        if tidx < 16:
            word = (x[tidx] + rank).bitcast(cutlass.Int32)
            cute.arch.store_async_dsmem(buf.iterator + (stage * 16 + rank), word, mbar + stage, tidx)
            pair = (cutlass.Float32(1.0).bitcast(cutlass.Int32), cutlass.Float32(2.0).bitcast(cutlass.Int32))
            cute.arch.store_async_dsmem(pairs.iterator + (stage * 16 + rank), pair, mbar + stage, tidx)
        cute.arch.mbarrier_wait(mbar + stage, phase)
        for k in range(16):
            total += buf[k, stage]
            if pairs[k, stage] != 0x400000003F800000:  # the bits of 1.0 and 2.0
                total = -cutlass.Float32.inf
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
        stage += 1
        if stage == 2:
            stage = cutlass.Int32(0)
            phase = phase ^ 1
    out[rank * 32 + tidx] = total
""")


REFUSED = write(globals())("""
# types
where_mixed:
    w = cute.where(v > 0.0, v.to(cutlass.BFloat16), v)
    out[0] = w[0].to(cutlass.Float32)
where_of_two_numbers:
    w = cute.where(v > 0.0, 1.0, 0.0)
    out[0] = w[0]
where_of_one_condition:
    w = cute.where(x[0] > 0.0, x[0], x[1])
    out[0] = w
atomic_max_of_floats: cute.arch.atomic_max(out.iterator, x[0])
exp_of_int: out[tidx] = cute.math.exp(tidx)
# register vectors
vector_sliced_at_lane:
    v = cute.make_tensor(x.iterator, cute.make_layout((4, 2))).load()
    w = v[None, tidx % 2]
    out[0] = w[2]
# 128 bits from an address that is not known to be a multiple of 16 bytes
wide_from_anywhere @eight: copied(cute.make_tensor(x.iterator + cutlass.Int32(x[0]), cute.make_layout(4)), out)
wide_from_four_times_anywhere @eight: copied(cute.make_tensor(x.iterator + 4 * cutlass.Int32(x[0]), cute.make_layout(4)), out)
wide_past_anything @eight: copied(cute.local_tile(cute.domain_offset((cutlass.Int32(x[0]),), x), (4,), (tidx,)), out)
wide_of_a_row @eight: copied(cute.local_tile(pairs(x)[cutlass.Int32(x[0]), cutlass.Int32(x[0]), None], (4,), (tidx,)), out)
# any and all
any_of_generator:
    if any(tidx > k for k in range(3)):
        out[tidx] = x[tidx]
# tensors rebound where lanes part
rebind_space:
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(32), 16)
    t = x
    if tidx < 16:
        t = s
    out[tidx] = t[tidx]
rebind_layout:
    t = cute.make_tensor(x.iterator, cute.make_layout(8))
    if tidx < 16:
        t = cute.make_tensor(x.iterator, cute.make_layout(8, stride=2))
    out[tidx] = t[3]
rebind_alignment:
    t = x
    for i in range(4):
        t = cute.domain_offset((1,), t)
    out[tidx] = t[1]
# lists, dicts and objects changed where lanes part
list_append:
    held = [x[tidx]]
    if tidx < 16:
        held.append(x[0])
    out[tidx] = held[0]
object_set:
    b = Box(x[tidx])
    if tidx < 16:
        b.v = b.v + 1.0
    out[tidx] = b.v
method_of_a_parameter: reads(READER, x, out, tidx)
list_type_change:
    held = [0, 1]
    if tidx < 16:
        held[0] = x[tidx]
    out[tidx] = cutlass.Float32(held[0])
list_static_after:
    held = [0.0, 2]
    if tidx < 16:
        held[0] = x[0]
    for k in cutlass.range_constexpr(held[1]):
        out[tidx] = held[0]
# another block's shared memory
dsmem_arch_load: out[0] = cute.arch.load(there(), cutlass.Float32)
dsmem_arch_store: cute.arch.store(there(), x[0])
dsmem_load @launched(32, blocks=2, cluster=2):
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(32), 16)
    s[tidx] = x[tidx]
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    r = cute.make_tensor(cute.arch.map_dsmem_ptr(s.iterator, cutlass.Int32(1)), cute.make_layout(32))
    out[tidx] = r[tidx]
# plain ifs and loops: without const_expr the DSL stages them, even where Python knows the answer
plain_if_new_name:
    a = 3
    if a > 2:
        y = x[tidx]
    out[tidx] = y
const_expr_not_at_the_top:
    if not cutlass.const_expr(False):
        y = x[tidx]
    out[tidx] = y
plain_if_makes_dynamic:
    a, b = 3, 1
    if a > 5:
        b = 2
    for _ in cutlass.range_constexpr(b):
        out[tidx] = x[tidx]
plain_if_changes_type:
    a, y = 3, 0
    if a > 2:
        y = x[tidx]
    out[tidx] = y
# numbers that the source gives
literal_after_if:
    a = cutlass.Int32(1)
    if tidx < 99:
        a = cutlass.Int32(2)
    out[tidx] = cutlass.const_expr(a) * 1.0
untaken_if_returns:
    if tidx >= 32:
        return
    out[tidx] = x[tidx]
untaken_if_breaks:
    for i in cutlass.range_constexpr(4):
        if tidx >= 32:
            if tidx >= 64:
                break
        out[tidx] = x[tidx] + i
plain_while_makes_dynamic:
    n = 3
    while n > 0:
        n -= 1
    for _ in cutlass.range_constexpr(n + 1):
        out[tidx] = x[tidx]
reduce_without_init:
    v = cute.make_tensor(x.iterator, cute.make_layout((4, 2))).load()
    out[0] = v.reduce(cute.ReductionOp.MAX)
# the two lists
counter_after_loop:
    for i in range(4):
        out[i] = x[i]
    out[0] = x[i]
""")
REFUSED += "method_of_a_local list_through_helper kernel_gets_text kernel_gets_function".split()
REFUSED += "default_is_dynamic kernel_of_this host_of_this".split()
TAKEN += "grid_stride kernel_gets_text_as_constexpr renamed_constexpr helper_of_this method_of_self".split()
