"""Small kernels with one fault each that depends on order, and the same kernels without it, as `cutesim.delays` takes them.

A case is a `kernel(x, out, bug)` that is right with bug=False, under `@fault(what is wrong, kind of the finding, x, the right
out)`. Lines marked `# here` are those that a finding names. They are what the simulator's own tests have not: each has a sentence
that no kernel of those is told.
"""

from __future__ import annotations

from dataclasses import dataclass

import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass import Constexpr, Float32, Int32, Int64
from cutlass.cute import Tensor

CASES = []


@dataclass(frozen=True)
class Case:
    """`kind`: of the finding with the bug. `right(x)` is what out must hold."""

    name: str
    host: object
    wrong: str  # in a reader's words
    kind: str
    x: np.ndarray
    right: object

    def arrays(self):
        """Fresh (x, out) for one run."""
        return self.x.copy(), np.zeros_like(self.right(self.x), self.x.dtype)


def fault(wrong, kind, x, right, blocks=1, threads=64, cluster=1):
    """Make a case of a kernel: the host function `(x, out, bug)` that launches it, and what it is run on."""

    def decorate(kernel):
        @cute.jit
        def host(x: Tensor, out: Tensor, bug: Constexpr):
            made = kernel(x, out, bug)
            made.launch(grid=[blocks, 1, 1], block=[threads, 1, 1], cluster=[cluster, 1, 1])

        CASES.append(Case(kernel.__name__, host, wrong, kind, x, right))
        return host

    return decorate


def normal(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


BUCKETS = np.random.default_rng(5).integers(0, 16, 288).astype(np.int32)


@fault(
    "a shuffle where a sync_warp is needed", "race", normal(32), lambda x: x[::-1] + x[np.arange(32) ^ 16], threads=32
)
@cute.kernel
def shuffle_as_barrier(x: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32), 16)
    value = x[tidx]
    s[tidx] = value  # here
    value = cute.arch.shuffle_sync_bfly(value, 16)
    if cutlass.const_expr(not bug):
        cute.arch.sync_warp()
    out[tidx] = s[31 - tidx] + value  # here


@fault("two threads write one word of shared memory", "race", normal(64), lambda x: x[::-1])
@cute.kernel
def two_writers(x: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    place = tidx // 2 if cutlass.const_expr(bug) else tidx
    s[63 - tidx] = 0.0
    cute.arch.barrier()
    s[place] = x[tidx]  # here
    cute.arch.barrier()
    out[tidx] = s[63 - tidx]


@fault(
    "a sum that many threads make without an atomic",
    "race",
    BUCKETS,
    lambda x: np.bincount(x, minlength=16),
    blocks=3,
    threads=96,
)
@cute.kernel
def histogram(x: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    counts = cutlass.memory.SmemAllocator().allocate_tensor(Int32, cute.make_layout(16), 16)
    if tidx < 16:
        counts[tidx] = 0
    cute.arch.barrier()
    bucket = x[bidx * 96 + tidx]
    if cutlass.const_expr(bug):
        counts[bucket] = counts[bucket] + 1  # here
    else:
        cute.arch.atomic_add((counts.iterator + bucket).llvm_ptr, Int32(1))
    cute.arch.barrier()
    if tidx < 16:
        cute.arch.atomic_add((out.iterator + tidx).llvm_ptr, counts[tidx])


@fault(
    "vectors of neighbouring threads overlap where they are stored",
    "race",
    normal(128),
    lambda x: x.reshape(8, 4, 4).transpose(0, 2, 1).ravel(),
    threads=32,
)
@cute.kernel
def turned(x: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    r = cute.make_rmem_tensor((4,), Float32)
    turned_ = cute.make_rmem_tensor((4,), Float32)
    cute.autovec_copy(cute.local_tile(x, (4,), (tidx,)), r)
    lane = tidx % 4
    for k in cutlass.range_constexpr(4):
        source = (tidx & ~3) | k
        for j in cutlass.range_constexpr(4):
            got = cute.arch.shuffle_sync(r[j], source)
            if lane == j:
                turned_[k] = got
    if cutlass.const_expr(bug):
        cute.autovec_copy(turned_, cute.make_tensor(out.iterator + tidx, cute.make_layout(4)))  # here
    else:
        cute.autovec_copy(turned_, cute.local_tile(out, (4,), (tidx,)))


@fault(
    "no barrier after the wait for one's own copies",
    "race",
    normal(384),
    lambda x: x.reshape(6, 64)[:, ::-1].sum(0, dtype=np.float64),
)
@cute.kernel
def rolling_stages(x: Tensor, out: Tensor, bug: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    stages, tiles = 3, 6
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout((64, stages)), 16)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), Float32, num_bits_per_copy=32)

    def fetch(tile, stage):
        source = cute.make_tensor(x.iterator + (tile * 64 + tidx), cute.make_layout(1))
        target = cute.make_tensor(s.iterator + (stage * 64 + tidx), cute.make_layout(1))
        cute.copy(atom, source, target)  # here

    for k in cutlass.range_constexpr(stages - 1):
        fetch(k, k)
        cute.arch.cp_async_commit_group()
    total = Float32(0.0)
    for k in cutlass.range_constexpr(tiles):
        cute.arch.cp_async_wait_group(stages - 2)
        if cutlass.const_expr(not bug):
            cute.arch.barrier()
        total += s[63 - tidx, k % stages]  # here
        if cutlass.const_expr(k + stages - 1 < tiles):
            fetch(k + stages - 1, (k + stages - 1) % stages)
        cute.arch.cp_async_commit_group()
    out[tidx] = total


@fault("an mbarrier that is used before its init is published", "mbarrier not published", normal(64), lambda x: x)
@cute.kernel
def unpublished_init(x: Tensor, out: Tensor, bug: Constexpr):
    t, _, _ = cute.arch.thread_idx()
    full = cutlass.memory.SmemAllocator().allocate_array(Int64, 1, byte_alignment=8)
    if t == 0:
        cute.arch.mbarrier_init(full, 64)  # here
        cute.arch.mbarrier_init_fence()
    if cutlass.const_expr(bug):
        cute.arch.sync_warp()
    else:
        cute.arch.barrier()
    cute.arch.mbarrier_arrive(full)  # here
    cute.arch.mbarrier_wait(full, 0)  # here
    out[t] = x[t]


@fault(
    "a block that ends while a message to it is under way",
    "exit with traffic in flight",
    normal(64),
    lambda x: x,
    blocks=2,
    threads=32,
    cluster=2,
)
@cute.kernel
def exits_too_early(x: Tensor, out: Tensor, bug: Constexpr):
    """Each block writes to the other's shared memory; with the bug, without waiting for the other to be done."""
    tidx, _, _ = cute.arch.thread_idx()
    rank = cute.arch.block_idx_in_cluster()
    smem = cutlass.memory.SmemAllocator()
    mbar = smem.allocate_array(Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout(4), byte_alignment=16)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, 4)
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    value = x[rank * 32 + tidx]
    if tidx == 0:
        cute.arch.store_async_dsmem(s.iterator, value.bitcast(Int32), mbar, 1 - rank)  # here
    if cutlass.const_expr(not bug):
        cute.arch.mbarrier_wait(mbar, 0)
    out[rank * 32 + tidx] = value
