"""Kernels that once came out wrong: each is the smallest that showed it."""

import operator

import cutlass
import cutlass.cute as cute

from tests.simulator.dsl.language import one_warp


@one_warp
@cute.kernel
def swap_registers(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    r = cute.make_rmem_tensor((2,), cutlass.Float32)
    r[0] = x[tidx]
    r[1] = x[31 - tidx]
    old = r[0]
    r[0] = r[1]
    r[1] = old
    out[tidx] = r[1]


@one_warp
@cute.kernel
def list_in_dynamic_if(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    held = [x[tidx]]
    if tidx < 16:
        held[0] = held[0] + 1.0
    out[tidx] = held[0]


@one_warp
@cute.kernel
def comprehension_range(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    parts = [x[tidx] * float(k) for k in range(3)]
    out[tidx] = parts[0] + parts[1] + parts[2]


@one_warp
@cute.kernel
def builtin_max(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = max(x[tidx], 7.0)


def scaled(v):
    return v * 3.0


class SameName:
    """A method that calls the module's function of the same name."""

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        out[tidx] = self.scaled(x[tidx])

    def scaled(self, v):
        return scaled(v)


@one_warp
@cute.kernel
def narrow(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = cutlass.Int32(cutlass.Int8(x[tidx]))


@one_warp
@cute.kernel
def bf16_times_int(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = cutlass.Float32(x[tidx].to(cutlass.BFloat16) * 257)


@cute.kernel
def add_one_apart(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = x[tidx] + 1.0
    cute.printf("{}", tidx)
    if tidx < 32:
        cute.arch.barrier(barrier_id=1, number_of_threads=32)
    out[tidx] = out[tidx] + 1.0


@cute.jit
def runs_apart(x: cute.Tensor, out: cute.Tensor):
    add_one_apart(x, out).launch(grid=[1, 1, 1], block=[64, 1, 1])


@cute.kernel
def ragged_sum_kernel(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = cute.arch.warp_reduction(x[tidx], operator.add)


@cute.jit
def ragged_sum(x: cute.Tensor, out: cute.Tensor):
    ragged_sum_kernel(x, out).launch(grid=[1, 1, 1], block=[40, 1, 1])


@one_warp
@cute.kernel
def unwritten_register(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    r = cute.make_rmem_tensor((2,), cutlass.Float32)
    r[0] = x[tidx]
    out[tidx] = cute.arch.fmax(r[0], r[1])


@one_warp
@cute.kernel
def register_out_of_bounds(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    r = cute.make_rmem_tensor((4,), cutlass.Float32)
    r.fill(0.0)
    out[tidx] = r[tidx % 4 - 1]
