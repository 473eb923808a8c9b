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

import linecache
import operator

import cutlass
import cutlass.cute as cute

BLOCK = 128
TYPES = "Float64 Float32 Float16 BFloat16 Int64 Uint64 Int32 Uint32 Int16 Uint16 Int8 Uint8 Boolean".split()


def number(each=BLOCK):
    """Which of all threads this is."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    return bidx * each + tidx


def half_votes(v, out, i, mask):
    out[0, i] = cute.arch.vote_ballot_sync(v != 0, mask=mask)
    out[1, i] = cutlass.Int32(cute.arch.vote_any_sync(v != 0, mask=mask))
    out[2, i] = cutlass.Int32(cute.arch.vote_all_sync(v != 0, mask=mask))
    out[3, i] = cutlass.Int32(cute.arch.vote_uni_sync(v != 0, mask=mask))
    out[4, i] = cute.arch.shuffle_sync_bfly(v, 5, mask=mask)


class Launched:
    """Launches `kernel` on a thread an element of a row of out, in blocks of BLOCK elements."""

    threads = BLOCK

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[cute.ceil_div(out.shape[1], BLOCK), 1, 1], block=[self.threads, 1, 1])


class Each(Launched):
    def __init__(self, functions, arity):
        self.functions, self.arity = tuple(functions), arity

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        i = number()
        for k in cutlass.range_constexpr(len(self.functions)):
            if cutlass.const_expr(self.arity == 1):
                out[k, i] = self.functions[k](x[0, i])
            elif cutlass.const_expr(self.arity == 2):
                out[k, i] = self.functions[k](x[0, i], x[1, i])
            else:
                out[k, i] = self.functions[k](x[0, i], x[1, i], x[2, i])


class EachFour(Each):
    threads = BLOCK // 4

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        i = number(BLOCK // 4)
        xs, outs = cute.zipped_divide(x, (1, 4)), cute.zipped_divide(out, (1, 4))
        for k in cutlass.range_constexpr(len(self.functions)):
            if cutlass.const_expr(self.arity == 1):
                result = self.functions[k](xs[None, (0, i)].load())
            else:
                result = self.functions[k](xs[None, (0, i)].load(), xs[None, (1, i)].load())
            outs[None, (k, i)].store(result)


class Reduce(Launched):
    """`operations` are members of cute.ReductionOp; x is (1, 8 n), `start` the initial value, out (operations, n)."""

    def __init__(self, operations, start):
        self.operations, self.start = tuple(operations), start

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        i = number()
        values = cute.zipped_divide(x, (1, 8))[None, (0, i)].load()
        for k in cutlass.range_constexpr(len(self.operations)):
            out[k, i] = values.reduce(self.operations[k], x.element_type(self.start), 0)


class HalfWarps(Launched):
    """x (1, n) of Int32; out (5, n): ballot, any, all, uni of x != 0, and x through a butterfly by 5."""

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        lane, i = cute.arch.thread_idx()[0] % 32, number()
        v = x[0, i]
        if lane < 16:
            half_votes(v, out, i, 0xFFFF)
        else:
            half_votes(v, out, i, 0xFFFF0000)


class ElectOne(Launched):
    """x (1, 128) of Int32, any; out (1, 4): each warp's elected lanes, counted twice."""

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


class Atomic(Launched):
    """x (2, n): memory and operand; out (2, n): what the atomic returned, and what it left in memory."""

    def __init__(self, function, dtype, shared=False):
        self.function, self.dtype, self.shared = function, dtype, shared

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, i = cute.arch.thread_idx()[0], number()
        if cutlass.const_expr(self.shared):
            s = cutlass.memory.SmemAllocator().allocate_tensor(self.dtype, cute.make_layout(BLOCK), 16)
            s[tidx] = x[0, i]
            out[0, i] = self.function(s.iterator + tidx, x[1, i])
            out[1, i] = s[tidx]
        else:
            out[1, i] = x[0, i]
            out[0, i] = self.function(out.iterator + (x.shape[1] + i), x[1, i])


class Contended(Launched):
    """x (1, 128): a number a thread; out (functions, 1): what they left of a first 5 (exch: whose, is anyone's guess)."""

    def __init__(self, functions):
        self.functions = tuple(functions)

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        for k in cutlass.range_constexpr(len(self.functions)):
            if tidx == 0:
                out[k, 0] = 5
        cute.arch.barrier()
        for k in cutlass.range_constexpr(len(self.functions)):
            self.functions[k](out.iterator + k, x[0, tidx])


class Phases(Launched):
    """One warp and an mbarrier of 32 arrivals; x (1, 32) any; out (PHASES + 1, 32): the lane's number after each wait.

    First a wait for parity 1 of the fresh mbarrier, which passes; then arrive and wait, phase after phase.
    """

    PHASES = 5

    threads = 32

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


class PhaseTests(Launched):
    """One warp and an mbarrier of two arrivals by lane 0; x (1, 32) any; out (8, 32): tests of parity 0 and 1 when it is
    fresh, after one arrival, after two, and after four."""

    threads = 32

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


class Named(Launched):
    """x (1, 128), out (1, 128): warps 0 and 1 swap through barrier 1, warp 2 hands to warp 3 through barrier 2."""

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


def function(expression: str, arity: int):
    """The function of a, of a and b, or of a, b and c that an expression means, with source that simulator and DSL both find."""
    text = f"def applied({', '.join('abc'[:arity])}):\n    return {expression}\n"
    name = f"{expression} of {arity}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace = {"cutlass": cutlass, "cute": cute, "operator": operator, "__name__": __name__}
    namespace |= {dtype: getattr(cutlass, dtype) for dtype in TYPES}
    exec(compile(text, name, "exec"), namespace)
    return namespace["applied"]
