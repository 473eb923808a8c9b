"""Small kernels that apply the DSL's operations to given numbers, and the operations, one function each.

| class       | out                                                                                     |
|-------------|-----------------------------------------------------------------------------------------|
| `Each`      | `out[k, i] = functions[k](x[0, i], x[1, i], …)`, a thread an element                    |
| `EachFour`  | the same on register vectors of four                                                    |
| `Reduce`    | `out[k, i]` = eight values of x reduced by the k-th operation, from an initial value     |
| `HalfWarps` | votes and shuffles of lanes 0 to 15 and of 16 to 31, each with their mask               |
| `ElectOne`  | how often each warp elected                                                             |
| `Atomic`    | (returned, left in memory), a thread an element, in global or shared memory              |
| `Contended` | what 128 threads' atomics on one number leave                                           |
| `Phases`, `EarlyBytes` | how far mbarrier waits and tests come; bytes that arrive before they are expected |
| `Named`     | values that warps hand over at named barriers                                           |
"""

from __future__ import annotations

import operator

import cutlass
import cutlass.cute as cute

BLOCK = 128


class Each:
    def __init__(self, functions, arity):
        self.functions, self.arity = tuple(functions), arity

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[cute.ceil_div(x.shape[1], BLOCK), 1, 1], block=[BLOCK, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        i = bidx * BLOCK + tidx
        for k in cutlass.range_constexpr(len(self.functions)):
            if cutlass.const_expr(self.arity == 1):
                out[k, i] = self.functions[k](x[0, i])
            elif cutlass.const_expr(self.arity == 2):
                out[k, i] = self.functions[k](x[0, i], x[1, i])
            else:
                out[k, i] = self.functions[k](x[0, i], x[1, i], x[2, i])


class EachFour:
    def __init__(self, functions, arity):
        self.functions, self.arity = tuple(functions), arity

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[x.shape[1] // BLOCK, 1, 1], block=[BLOCK // 4, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        i = bidx * (BLOCK // 4) + tidx
        xs, outs = cute.zipped_divide(x, (1, 4)), cute.zipped_divide(out, (1, 4))
        for k in cutlass.range_constexpr(len(self.functions)):
            if cutlass.const_expr(self.arity == 1):
                result = self.functions[k](xs[None, (0, i)].load())
            else:
                result = self.functions[k](xs[None, (0, i)].load(), xs[None, (1, i)].load())
            outs[None, (k, i)].store(result)


class Reduce:
    """`operations` are members of cute.ReductionOp; x is (1, 8 n), `start` the initial value, out (operations, n)."""

    def __init__(self, operations, start):
        self.operations, self.start = tuple(operations), start

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[out.shape[1] // BLOCK, 1, 1], block=[BLOCK, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        i = bidx * BLOCK + tidx
        values = cute.zipped_divide(x, (1, 8))[None, (0, i)].load()
        for k in cutlass.range_constexpr(len(self.operations)):
            out[k, i] = values.reduce(self.operations[k], x.element_type(self.start), 0)


class HalfWarps:
    """x (1, n) of Int32; out (5, n): ballot, any, all, uni of x != 0, and x through a butterfly by 5."""

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[x.shape[1] // BLOCK, 1, 1], block=[BLOCK, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        i = bidx * BLOCK + tidx
        v = x[0, i]
        if tidx % 32 < 16:
            out[0, i] = cute.arch.vote_ballot_sync(v != 0, mask=0xFFFF)
            out[1, i] = cutlass.Int32(cute.arch.vote_any_sync(v != 0, mask=0xFFFF))
            out[2, i] = cutlass.Int32(cute.arch.vote_all_sync(v != 0, mask=0xFFFF))
            out[3, i] = cutlass.Int32(cute.arch.vote_uni_sync(v != 0, mask=0xFFFF))
            out[4, i] = cute.arch.shuffle_sync_bfly(v, 5, mask=0xFFFF)
        else:
            out[0, i] = cute.arch.vote_ballot_sync(v != 0, mask=0xFFFF0000)
            out[1, i] = cutlass.Int32(cute.arch.vote_any_sync(v != 0, mask=0xFFFF0000))
            out[2, i] = cutlass.Int32(cute.arch.vote_all_sync(v != 0, mask=0xFFFF0000))
            out[3, i] = cutlass.Int32(cute.arch.vote_uni_sync(v != 0, mask=0xFFFF0000))
            out[4, i] = cute.arch.shuffle_sync_bfly(v, 5, mask=0xFFFF0000)


class ElectOne:
    """x (1, 128) of Int32, any; out (1, 4): each warp's elected lanes, counted twice."""

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[BLOCK, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        warp = cute.arch.warp_idx()
        out[0, warp] = 0
        cute.arch.sync_warp()
        with cute.arch.elect_one():
            cute.arch.atomic_add(out.iterator + warp, cutlass.Int32(1))
        cute.arch.sync_warp()
        with cute.arch.elect_one():
            cute.arch.atomic_add(out.iterator + warp, cutlass.Int32(1))


class Atomic:
    """x (2, n): memory and operand; out (2, n): what the atomic returned, and what it left in memory."""

    def __init__(self, function, dtype, shared=False):
        self.function, self.dtype, self.shared = function, dtype, shared

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[x.shape[1] // BLOCK, 1, 1], block=[BLOCK, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        bidx, _, _ = cute.arch.block_idx()
        i = bidx * BLOCK + tidx
        if cutlass.const_expr(self.shared):
            s = cutlass.memory.SmemAllocator().allocate_tensor(self.dtype, cute.make_layout(BLOCK), 16)
            s[tidx] = x[0, i]
            out[0, i] = self.function(s.iterator + tidx, x[1, i])
            out[1, i] = s[tidx]
        else:
            out[1, i] = x[0, i]
            out[0, i] = self.function(out.iterator + (x.shape[1] + i), x[1, i])


class Contended:
    """x (1, 128): a number a thread; out (functions, 1): what they left of a first 5 (exch: whose, is anyone's guess)."""

    def __init__(self, functions):
        self.functions = tuple(functions)

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[BLOCK, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        for k in cutlass.range_constexpr(len(self.functions)):
            if tidx == 0:
                out[k, 0] = 5
        cute.arch.barrier()
        for k in cutlass.range_constexpr(len(self.functions)):
            self.functions[k](out.iterator + k, x[0, tidx])


class Phases:
    """One warp and an mbarrier of 32 arrivals; x (1, 32) any; out (PHASES + 1, 32): the lane's number after each wait.

    First a wait for parity 1 of the fresh mbarrier, which passes; then arrive and wait, phase after phase.
    """

    PHASES = 5

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        mbar = cutlass.memory.SmemAllocator().allocate_array(cutlass.Int64, 1, byte_alignment=8)
        if tidx == 0:
            cute.arch.mbarrier_init(mbar, 32)
            cute.arch.mbarrier_init_fence()
        cute.arch.barrier()
        cute.arch.mbarrier_wait(mbar, 1)
        out[0, tidx] = tidx
        for phase in cutlass.range_constexpr(self.PHASES):
            cute.arch.mbarrier_arrive(mbar)
            cute.arch.mbarrier_wait(mbar, phase % 2)
            out[phase + 1, tidx] = tidx + phase + 1


class PhaseTests:
    """One warp and an mbarrier of two arrivals by lane 0; x (1, 32) any; out (8, 32): tests of parity 0 and 1 when it is
    fresh, after one arrival, after two, and after four."""

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        mbar = cutlass.memory.SmemAllocator().allocate_array(cutlass.Int64, 1, byte_alignment=8)
        if tidx == 0:
            cute.arch.mbarrier_init(mbar, 2)
            cute.arch.mbarrier_init_fence()
        cute.arch.barrier()
        out[0, tidx] = cutlass.Int32(cute.arch.mbarrier_test_wait(mbar, 0))
        out[1, tidx] = cutlass.Int32(cute.arch.mbarrier_test_wait(mbar, 1))
        for step in cutlass.range_constexpr(3):
            cute.arch.sync_warp()
            if tidx == 0:
                cute.arch.mbarrier_arrive(mbar)
                if cutlass.const_expr(step == 2):
                    cute.arch.mbarrier_arrive(mbar)
            cute.arch.sync_warp()
            out[2 * step + 2, tidx] = cutlass.Int32(cute.arch.mbarrier_test_wait(mbar, 0))
            out[2 * step + 3, tidx] = cutlass.Int32(cute.arch.mbarrier_test_wait(mbar, 1))


class EarlyBytes:
    """Two blocks send each other a number with st.async and pass a cluster barrier, before either expects the 4 bytes.

    x (1, 64), out (1, 64): block b's lanes get the number of the other block's lane 7.
    """

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[2, 1, 1], block=[32, 1, 1], cluster=[2, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        rank = cute.arch.block_idx_in_cluster()
        smem = cutlass.memory.SmemAllocator()
        mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
        slot = smem.allocate_tensor(cutlass.Int32, cute.make_layout(1), byte_alignment=16)
        if tidx == 0:
            cute.arch.mbarrier_init(mbar, 1)
            cute.arch.mbarrier_init_fence()
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
        if tidx == 7:
            cute.arch.store_async_dsmem(slot.iterator, x[0, rank * 32 + tidx], mbar, 1 - rank)
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
        if tidx == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(mbar, 4)
        cute.arch.mbarrier_wait(mbar, 0)
        out[0, rank * 32 + tidx] = slot[0]
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()


class Named:
    """x (1, 128), out (1, 128): warps 0 and 1 swap through barrier 1, warp 2 hands to warp 3 through barrier 2."""

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[BLOCK, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        warp = cute.arch.warp_idx()
        s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Int32, cute.make_layout(BLOCK), 16)
        s[tidx] = x[0, tidx]
        if warp < 2:
            cute.arch.barrier(barrier_id=1, number_of_threads=64)
            out[0, tidx] = s[(tidx + 32) % 64]
        elif warp == 2:
            cute.arch.barrier_arrive(barrier_id=2, number_of_threads=64)
            out[0, tidx] = s[tidx]
        else:
            cute.arch.barrier(barrier_id=2, number_of_threads=64)
            out[0, tidx] = s[tidx - 32]


# ---- operations: of numbers, and of vectors where both are allowed --------------------------------------------------


def add(a, b):
    return a + b


def subtract(a, b):
    return a - b


def multiply(a, b):
    return a * b


def divide(a, b):
    return a / b


def floor_divide(a, b):
    return a // b


def modulo(a, b):
    return a % b


def less(a, b):
    return (a < b).to(cutlass.Int32)


def less_equal(a, b):
    return (a <= b).to(cutlass.Int32)


def greater(a, b):
    return (a > b).to(cutlass.Int32)


def greater_equal(a, b):
    return (a >= b).to(cutlass.Int32)


def equal(a, b):
    return (a == b).to(cutlass.Int32)


def unequal(a, b):
    return (a != b).to(cutlass.Int32)


def bit_and(a, b):
    return a & b


def bit_or(a, b):
    return a | b


def bit_xor(a, b):
    return a ^ b


def bit_not(a):
    return ~a


def half_of(a):
    return a * 0.5


def one_over(a):
    return 1.0 / a


def three_minus(a):
    return 3 - a


def seven_over(a):
    return 7 // a


def with_its_bfloat16(a):
    return a.to(cutlass.BFloat16) + a


def with_its_integer(a):
    return a + a.to(cutlass.Int32)


def float16_and_bfloat16(a):
    return (a.to(cutlass.BFloat16) + a.to(cutlass.Float16)).to(cutlass.Float32)


def int8_and_int16(a):
    return (a.to(cutlass.Int8) + a.to(cutlass.Int16)).to(cutlass.Int32)


def int64_and_int32(a):
    return (a.to(cutlass.Int64) * a).to(cutlass.Int32)


def power(exponent):
    def raised(a):
        return a**exponent

    return raised


def both(a, b):
    return ((a < b) & (a > 0)).to(cutlass.Int32)


def either(a, b):
    return ((a < b) | (a > 0)).to(cutlass.Int32)


def one_of(a, b):
    return ((a < b) ^ (a > 0)).to(cutlass.Int32)


def negate(a):
    return -a


def absolute(a):
    return abs(a)


def magnitude(a):
    return cute.math.absf(a)


def shift_left(a, b):
    return a << b


def shift_right(a, b):
    return a >> b


def unsigned_shift_right(a, b):
    return (a.to(cutlass.Uint32) >> b.to(cutlass.Uint32)).to(cutlass.Int32)


def unsigned_floor_divide(a, b):
    return (a.to(cutlass.Uint32) // b.to(cutlass.Uint32)).to(cutlass.Int32)


def unsigned_modulo(a, b):
    return (a.to(cutlass.Uint32) % b.to(cutlass.Uint32)).to(cutlass.Int32)


def unsigned_less(a, b):
    return (a.to(cutlass.Uint32) < b.to(cutlass.Uint32)).to(cutlass.Int32)


def unsigned_max(a, b):
    return cutlass.max(a.to(cutlass.Uint32), b.to(cutlass.Uint32)).to(cutlass.Int32)


def maximum(a, b):
    return cutlass.max(a, b)


def minimum(a, b):
    return cutlass.min(a, b)


def math_max(a, b):
    return cute.math.max(a, b)


def math_min(a, b):
    return cute.math.min(a, b)


def fmax(a, b):
    return cute.arch.fmax(a, b)


def fmin(a, b):
    return cute.arch.fmin(a, b)


def fmax_nan(a, b):
    return cute.arch.fmax(a, b, nan=True)


def fmin_nan(a, b):
    return cute.arch.fmin(a, b, nan=True)


def fmax_abs(a, b):
    return cute.arch.fmax(a, b, abs=True)


def fmin_abs(a, b):
    return cute.arch.fmin(a, b, abs=True)


def fmax_ftz(a, b):
    return cute.arch.fmax(a, b, ftz=True)


def fmin_ftz(a, b):
    return cute.arch.fmin(a, b, ftz=True)


def where_less(a, b):
    return cute.where(a < b, a, b)


def fused_multiply_add(a, b, c):
    return cute.math.fma(a, b, c)


def floor(a):
    return cute.math.floor(a)


def ceil(a):
    return cute.math.ceil(a)


def is_nan(a):
    return cutlass.Boolean(cute.math.isnan(a)).to(cutlass.Int32)


def popc(a):
    return cute.arch.popc(a)


def popc_to_int32(a):
    return cutlass.Int32(cute.arch.popc(a))


def rcp(a):
    return cute.math.rcp(a)


def sqrt(a):
    return cute.math.sqrt(a)


def exp(a):
    return cute.math.exp(a)


def exp2(a):
    return cute.math.exp2(a)


def log(a):
    return cute.math.log(a)


def log2(a):
    return cute.math.log2(a)


def log10(a):
    return cute.math.log10(a)


def rsqrt(a):
    return cute.math.rsqrt(a)


def tanh(a):
    return cute.math.tanh(a)


def sin(a):
    return cute.math.sin(a)


def cos(a):
    return cute.math.cos(a)


def exp_fast(a):
    return cute.math.exp(a, fastmath=True)


def exp2_fast(a):
    return cute.math.exp2(a, fastmath=True)


def log_fast(a):
    return cute.math.log(a, fastmath=True)


def log2_fast(a):
    return cute.math.log2(a, fastmath=True)


def log10_fast(a):
    return cute.math.log10(a, fastmath=True)


def sqrt_fast(a):
    return cute.math.sqrt(a, fastmath=True)


def rsqrt_fast(a):
    return cute.math.rsqrt(a, fastmath=True)


def tanh_fast(a):
    return cute.math.tanh(a, fastmath=True)


def sin_fast(a):
    return cute.math.sin(a, fastmath=True)


def cos_fast(a):
    return cute.math.cos(a, fastmath=True)


def exp2_approx(a):
    return cute.math.exp2(a, approx=True)


def exp2_approx_ftz(a):
    return cute.math.exp2(a, approx=True, ftz=True)


def arch_exp(a):
    return cute.arch.exp(a)


def arch_exp2(a):
    return cute.arch.exp2(a)


def arch_rcp(a):
    return cute.arch.rcp_approx(a)


def vote_ballot(a):
    return cute.arch.vote_ballot_sync(a != 0)


def vote_any(a):
    return cutlass.Int32(cute.arch.vote_any_sync(a != 0))


def vote_all(a):
    return cutlass.Int32(cute.arch.vote_all_sync(a != 0))


def vote_uni(a):
    return cutlass.Int32(cute.arch.vote_uni_sync(a != 0))


def warp_uniform(a):
    return cute.arch.make_warp_uniform(a)


def warp_sum(a):
    return cute.arch.warp_reduction_sum(a)


def warp_max(a):
    return cute.arch.warp_reduction_max(a)


def sum_of_four(a):
    return cute.arch.warp_reduction_sum(a, threads_in_group=4)


def max_of_eight(a):
    return cute.arch.warp_reduction_max(a, threads_in_group=8)


def product_of_sixteen(a):
    return cute.arch.warp_reduction(a, operator.mul, threads_in_group=16)


def converted(*dtypes):
    """x.to(dtypes[0]).to(dtypes[1])…"""

    def convert(a):
        for k in range(len(dtypes)):
            a = a.to(dtypes[k])
        return a

    return convert


def bitcast_to(dtype):
    def bitcast(a):
        return a.bitcast(dtype)

    return bitcast


def shuffled_by(kind, clamp):
    """A shuffle by a distance, or to a lane, that the second number gives, with this mask_and_clamp."""

    def idx(a, b):
        return cute.arch.shuffle_sync(a, b, mask_and_clamp=clamp)

    def up(a, b):
        return cute.arch.shuffle_sync_up(a, b, mask_and_clamp=clamp)

    def down(a, b):
        return cute.arch.shuffle_sync_down(a, b, mask_and_clamp=clamp)

    def bfly(a, b):
        return cute.arch.shuffle_sync_bfly(a, b, mask_and_clamp=clamp)

    return {"idx": idx, "up": up, "down": down, "bfly": bfly}[kind]


def butterfly_by_21(a):
    return cute.arch.shuffle_sync_bfly(a, 21)


def from_lane_9(a):
    return cute.arch.shuffle_sync(a, 9)


def redux(kind):
    def reduced(a):
        return cute.arch.warp_redux_sync(a, kind)

    return reduced
