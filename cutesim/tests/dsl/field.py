"""Bugs of public kernels, each in the smallest kernel that has it; cutesim's README has the table."""

from typing import NamedTuple

import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass.experimental import primitives

CASES = []


class Case(NamedTuple):
    """A kernel of (x, out, bug), what is wrong with it with the bug, and what out must hold without."""

    name: str
    host: object
    wrong: str
    right: object

    def arrays(self):
        """Fresh (x, out) for one run."""
        x = np.random.default_rng(1).random(128, np.float32)
        return x, np.zeros_like(x)


def launched(threads, right, **how):
    """A host function for a kernel of (x, out, bug), whose docstring says what is wrong; it has the bug if nobody says no."""

    def host_of(kernel):
        @cute.jit
        def host(x: cute.Tensor, out: cute.Tensor, bug: cutlass.Constexpr = True):
            kernel(x, out, bug).launch(block=[threads, 1, 1], **how)

        CASES.append(Case(kernel.__name__, host, kernel.__doc__, lambda x: np.append(right(x), np.zeros(128))[:128]))
        return host

    return host_of


def products(x):
    parts = x[:64] * x[63::-1]
    return parts + np.roll(parts, 32)


def search(x):
    low = 0
    for step in (32, 16, 8, 4, 2, 1):
        low += step if x[low + step] <= 0.5 else 0
    return np.full(64, x[low])


def scaled(x):
    off = x[:64] - x[:64].mean(dtype=np.float64)
    return off / (off * off).sum()


pair = {"grid": [2, 1, 1], "cluster": [2, 1, 1]}
alone = {"grid": [1, 1, 1]}


def shared(count):
    return cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(count), 16)


@launched(32, lambda x: x[31::-1], **pair)
@cute.kernel
def narrow_scope(x, out, bug: cutlass.Constexpr):
    """a block tells another one that it has written, with a scope that ends at its own block"""
    lane, rank = cute.arch.lane_idx(), cute.arch.block_idx_in_cluster()
    held = shared(32)
    mbar = cutlass.memory.SmemAllocator().allocate_array(cutlass.Int64, 1, byte_alignment=8)
    if lane == 0:
        cute.arch.mbarrier_init(mbar, 32)
        cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    if rank == 1:
        scope = primitives.MemScope.CTA if cutlass.const_expr(bug) else primitives.MemScope.CLUSTER
        primitives.mapa(held.iterator + lane, 0).store(x[lane])
        primitives.mbarrier_arrive(primitives.mapa(mbar, 0), scope=scope)
    else:
        cute.arch.mbarrier_wait(mbar, 0)
        out[lane] = held[31 - lane]
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


@launched(32, lambda x: x[:64].reshape(2, 32)[::-1], **pair)
@cute.kernel
def left_early(x, out, bug: cutlass.Constexpr):
    """no cluster barrier at the end: a block may be gone while another uses its memory"""
    lane, rank = cute.arch.lane_idx(), cute.arch.block_idx_in_cluster()
    held = shared(32)
    held[lane] = x[32 * rank + lane]
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    out[32 * rank + lane] = primitives.mapa(held.iterator + lane, rank ^ 1).load()
    if cutlass.const_expr(not bug):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()


@launched(64, products, **alone)
@cute.kernel
def tile_reused(x, out, bug: cutlass.Constexpr):
    """partial sums are written where a tile was that other warps may still read"""
    tidx, _, _ = cute.arch.thread_idx()
    tile = shared(64)
    tile[tidx] = x[tidx]
    cute.arch.barrier()
    part = tile[tidx] * tile[63 - tidx]
    if cutlass.const_expr(not bug):
        cute.arch.barrier()
    tile[tidx] = part  # partial sums go where the tile was
    cute.arch.barrier()
    out[tidx] = tile[tidx] + tile[tidx ^ 32]


@launched(64, lambda x: np.full(64, x[0] + x[1]), **alone)
@cute.kernel
def leader_writes_again(x, out, bug: cutlass.Constexpr):
    """one thread writes a shared number anew while others may still read the last one"""
    tidx, _, _ = cute.arch.thread_idx()
    bound, total = shared(1), cutlass.Float32(0.0)
    for turn in range(2):
        if tidx == 0:
            bound[0] = x[turn]
        cute.arch.barrier()
        total += bound[0]
        if cutlass.const_expr(not bug):
            cute.arch.barrier()
    out[tidx] = total


@launched(64, search, **alone)
@cute.kernel
def search_too_soon(x, out, bug: cutlass.Constexpr):
    """threads search a shared table that others may not have written yet"""
    tidx, _, _ = cute.arch.thread_idx()
    prefix = shared(64)
    prefix[tidx] = x[tidx]
    if cutlass.const_expr(not bug):
        cute.arch.barrier()
    low = cutlass.Int32(0)
    for step in cutlass.range_constexpr(5, -1, -1):
        if prefix[low + (1 << step)] <= 0.5:
            low += 1 << step
    out[tidx] = prefix[low]


@launched(64, scaled, **alone)
@cute.kernel
def scratch_reused(x, out, bug: cutlass.Constexpr):
    """a second reduction uses the scratch memory of the first, which warps may still read"""
    tidx, _, _ = cute.arch.thread_idx()
    scratch = shared(2)
    mean = over_block(x[tidx], scratch) / 64.0
    off = x[tidx] - mean
    if cutlass.const_expr(not bug):
        cute.arch.barrier()
    out[tidx] = off / over_block(off * off, scratch)


@cute.jit
def over_block(value, scratch):
    value, warp = cute.arch.warp_reduction_sum(value), cute.arch.warp_idx()
    if cute.arch.lane_idx() == 0:
        scratch[warp] = value
    cute.arch.barrier()
    return scratch[0] + scratch[1]


@launched(96, lambda x: x[:96], **alone)
@cute.kernel
def arrives_again(x, out, bug: cutlass.Constexpr):
    """warps arrive at a named barrier without waiting, come round again, and count twice"""
    tidx, _, _ = cute.arch.thread_idx()
    for _ in range(2):
        if tidx < 64 and cutlass.const_expr(bug):
            cute.arch.barrier_arrive(barrier_id=1, number_of_threads=96)
        else:
            cute.arch.barrier(barrier_id=1, number_of_threads=96)
    out[tidx] = x[tidx]
