"""Small kernels with one fault each, and the same kernels without it: what a finding must be, and where it must be silent.

A case is a kernel of (x, y, out, bug), written short as those of the simulator's own tests, that is right with bug=False. Its
`@fault` says what is wrong, which kind of finding that gives, x, and what out must hold. Lines marked `# here` are those that a
finding names. A test tries them all; suite `sanitizer` also gives them to compute-sanitizer. A fault stands here once.
"""

from __future__ import annotations

from dataclasses import dataclass

import cutlass  # noqa: F401
import cutlass.cute as cute
import cutlass.pipeline as pipeline  # noqa: F401, as below what only the written kernels use
import numpy as np
from cutlass import Constexpr, Float16, Float32, Int32, Int64  # noqa: F401
from cutlass.cute import Tensor
from dsl.written import write

CASES = []


@dataclass(frozen=True)
class Case:
    """`kind`: of the finding with the bug, None where the simulator gives none, and `why`. `right(x, y)` is what out must hold."""

    name: str
    host: object
    wrong: str  # in a reader's words
    kind: str | None
    x: np.ndarray
    right: object
    y: np.ndarray
    adds: bool  # to an out of zeros
    why: str
    orders: str | None  # the bug shows in some orders of the warps alone

    def arrays(self):
        """Fresh (x, y, out) for one run."""
        wanted = self.right(self.x, self.y)
        dtype = np.int32 if wanted.dtype.kind == "i" else np.float32
        return self.x.copy(), self.y.copy(), np.zeros(wanted.shape, dtype)


def fault(
    wrong, kind, x, right, y=(0, 0), why="", orders=None, adds=False, blocks=1, threads=64, cluster=1, cooperative=False
):
    """The host function `(x, y, out, bug)` that launches the kernel, which becomes a case."""
    grid = (*blocks, 1) if isinstance(blocks, tuple) else (blocks, 1, 1)

    def decorate(kernel):
        @cute.jit
        def host(x: Tensor, y: Tensor, out: Tensor, bug: Constexpr):
            made = kernel(x, y, out, bug)
            made.launch(grid=grid, block=[threads, 1, 1], cluster=[cluster, 1, 1], cooperative=cooperative)

        host.__name__ = kernel.__name__
        other = np.asarray(y, np.int32) if isinstance(y, tuple) else y
        CASES.append(Case(host.__name__, host, wrong, kind, x, right, other, adds, why, orders))
        return host

    return decorate


# ---- inputs and answers ---------------------------------------------------------------------------------------------


def random(seed):
    return np.random.default_rng(seed)


def normal(*shape):
    return random(3).standard_normal(shape).astype(np.float32)


WARP, LANE = np.divmod(np.arange(64), 32)
BUCKETS = random(5).integers(0, 16, 288).astype(np.int32)
PLACES = np.where(random(6).integers(0, 4, 64) == 0, -1, random(7).integers(0, 50, 64)).astype(np.int32)
BYTES = random(2).integers(0, 256, 128).astype(np.uint8)
HALVES = random(3).standard_normal((2, 256)).astype(np.float16)
HEADS = np.isin(np.arange(32), (0, 3, 10, 25)).astype(np.int32)


def same(x, y):
    return x


def backwards(x, y):
    return x[::-1]


def segment_sums(x, y):
    return np.concatenate([np.cumsum(part) for part in np.split(x.astype(np.float64), np.nonzero(y)[0][1:])])


def both_consumers(x, y):
    rows = x.reshape(-1, 32)[:, ::-1].ravel()
    return np.concatenate([rows, rows + 1])


def ring_sums(x, y):
    return np.repeat(np.cumsum(x.reshape(4, 32).sum(1, dtype=np.float64)), 32)


def after_the_others(x, y):
    return 2 * np.roll((x + 1).reshape(3, 64), -1, 0).ravel()


@cute.jit
def meet(count: Tensor, tidx: Int32, blocks: Constexpr, round: Constexpr):
    cute.arch.barrier()
    if tidx == 0:
        cute.arch.fence_acq_rel_gpu()
        cute.arch.atomic_add(count.iterator, Int32(1))
        seen = cute.arch.atomic_add(count.iterator, Int32(0))
        while seen < blocks * round:
            seen = cute.arch.atomic_add(count.iterator, Int32(0))
        cute.arch.fence_acq_rel_gpu()
    cute.arch.barrier()


write(
    globals(),
    """
# races in shared memory
transpose @fault("a warp's barrier where the block's is needed", "race", normal(32, 32), lambda x, y: x.T, blocks=(2, 2), threads=256):
    bx, by, _ = cute.arch.block_idx()
    tile = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout((16, 16), stride=(17, 1)), 16)
    i, j = tidx // 16, tidx % 16
    tile[i, j] = x[by * 16 + i, bx * 16 + j]  # here
    if cutlass.const_expr(bug):
        cute.arch.sync_warp()
    else:
        cute.arch.barrier()
    out[bx * 16 + i, by * 16 + j] = tile[j, i]  # here
reused_buffer @fault("no barrier before a buffer is used again", "race", normal(256), lambda x, y: x.reshape(4, 64)[:, ::-1].ravel()):
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    for row in range(4):
        s[tidx] = x[row * 64 + tidx]  # here
        cute.arch.barrier()
        out[row * 64 + tidx] = s[63 - tidx]  # here
        if cutlass.const_expr(not bug):
            cute.arch.barrier()
missing_sync_warp @fault("no sync_warp between a warp's write and its read", "race", normal(32), backwards, threads=32):
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32), 16)
    s[tidx] = x[tidx]  # here
    if cutlass.const_expr(not bug):
        cute.arch.sync_warp()
    out[tidx] = s[31 - tidx]  # here
shuffle_as_barrier @fault("a shuffle where a sync_warp is needed", "race", normal(32), lambda x, y: x[::-1] + x[np.arange(32) ^ 16], threads=32):
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32), 16)
    value = x[tidx]
    s[tidx] = value  # here
    value = cute.arch.shuffle_sync_bfly(value, 16)
    if cutlass.const_expr(not bug):
        cute.arch.sync_warp()
    out[tidx] = s[31 - tidx] + value  # here
missing_wait @fault("no wait at the mbarrier that says that the data is there", "race", normal(32), backwards):
    smem = cutlass.memory.SmemAllocator()
    full = smem.allocate_array(Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout(32), 16)
    if tidx == 0:
        cute.arch.mbarrier_init(full, 32)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    if tidx < 32:
        s[tidx] = x[tidx]  # here
        cute.arch.mbarrier_arrive(full)
    else:
        if cutlass.const_expr(not bug):
            cute.arch.mbarrier_wait(full, 0)
        out[tidx - 32] = s[63 - tidx]  # here
two_writers @fault("two threads write one word of shared memory", "race", normal(64), backwards):
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    place = tidx // 2 if cutlass.const_expr(bug) else tidx
    s[63 - tidx] = 0.0
    cute.arch.barrier()
    s[place] = x[tidx]  # here
    cute.arch.barrier()
    out[tidx] = s[63 - tidx]
histogram @fault("a sum that many threads make without an atomic", "race", BUCKETS, lambda x, y: np.bincount(x, minlength=16), adds=True, blocks=3, threads=96):
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
queue @fault("an atomic on a word that another warp may not have set yet", "race", normal(224), lambda x, y: -x, threads=96):
    smem = cutlass.memory.SmemAllocator()
    ticket = smem.allocate_tensor(Int32, cute.make_layout(1), 4)
    s = smem.allocate_tensor(Int32, cute.make_layout(3), 4)
    warp, lane = tidx // 32, tidx % 32
    if tidx == 0:
        ticket[0] = 0  # here
    if cutlass.const_expr(not bug):
        cute.arch.barrier()
    tile = Int32(0)
    while tile < 7:
        if lane == 0:
            s[warp] = cute.arch.atomic_add(ticket.iterator, Int32(1))  # here
        cute.arch.sync_warp()
        tile = s[warp]
        cute.arch.sync_warp()
        if tile < 7:
            out[tile * 32 + lane] = x[tile * 32 + lane] * -1.0
# races in global memory
two_blocks_write @fault("two blocks write one word of global memory", "race", normal(64), lambda x, y: x[:2], blocks=2, threads=32):
    block, _, _ = cute.arch.block_idx()
    place = 0 if cutlass.const_expr(bug) else block
    if tidx == 0:
        out[place] = x[block]  # here
turned @fault("vectors of neighbouring threads overlap where they are stored", "race", normal(128), lambda x, y: x.reshape(8, 4, 4).transpose(0, 2, 1).ravel(), threads=32):
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
spin_lock @fault("a lock is given back without a fence", "race", normal(96), lambda x, y: x.sum(keepdims=True), adds=True, blocks=3, threads=32):
    bidx, _, _ = cute.arch.block_idx()
    total = cute.arch.warp_reduction_sum(x[bidx * 32 + tidx])
    if tidx == 0:
        taken = cute.arch.atomic_cas(y.iterator, cmp=Int32(0), val=Int32(1))
        while taken != 0:
            taken = cute.arch.atomic_cas(y.iterator, cmp=Int32(0), val=Int32(1))
        cute.arch.fence_acq_rel_gpu()
        out[0] = out[0] + total  # here
        if cutlass.const_expr(not bug):
            cute.arch.fence_acq_rel_gpu()
        cute.arch.atomic_exch(y.iterator, Int32(0))
grid_barrier @fault("blocks do not meet before they write what others read", "race", normal(192), after_the_others, blocks=3, cooperative=True):
    bidx, _, _ = cute.arch.block_idx()
    out[bidx * 64 + tidx] = x[bidx * 64 + tidx] + 1.0
    meet(y, tidx, 3, 1)
    value = out[(bidx + 1) % 3 * 64 + tidx]  # here
    if cutlass.const_expr(not bug):
        meet(y, tidx, 3, 2)
    out[bidx * 64 + tidx] = value * 2.0  # here
equal_writers @fault("two threads write one word with one value", None, normal(64), lambda x, y: np.append(1, x[1:]), why="the simulator lets equal writes pass"):
    out[tidx] = x[tidx]
    cute.arch.barrier()
    if tidx == 0 or cutlass.const_expr(bug):
        out[0] = 1.0  # here
# asynchronous copies
no_wait_group @fault("shared memory read before cp.async has landed", "read before arrival", normal(32), backwards, threads=32):
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32), 16)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), Float32, num_bits_per_copy=32)
    cute.copy(atom, cute.local_tile(x, (1,), (tidx,)), cute.local_tile(s, (1,), (tidx,)))  # here
    cute.arch.cp_async_commit_group()
    if cutlass.const_expr(not bug):
        cute.arch.cp_async_wait_group(0)
    cute.arch.barrier()
    out[tidx] = s[31 - tidx]  # here
wait_group_off_by_one @fault("one group of copies too many may stay under way", "read before arrival", normal(64), lambda x, y: x.reshape(2, 32)[:, ::-1].ravel(), threads=32):
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), Float32, num_bits_per_copy=32)
    for k in cutlass.range_constexpr(2):
        cute.copy(atom, cute.local_tile(x, (1,), (32 * k + tidx,)), cute.local_tile(s, (1,), (32 * k + tidx,)))  # here
        cute.arch.cp_async_commit_group()
    cute.arch.cp_async_wait_group(1)
    cute.arch.barrier()
    out[tidx] = s[31 - tidx]
    cute.arch.cp_async_wait_group(1 if bug else 0)
    cute.arch.barrier()
    out[32 + tidx] = s[63 - tidx]  # here
rolling_stages @fault("no barrier after the wait for one's own copies", "race", normal(384), lambda x, y: x.reshape(6, 64)[:, ::-1].sum(0, dtype=np.float64)):
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
bulk_copy_not_waited_for @fault("shared memory read before the bulk copy has landed", "read before arrival", normal(64), same):
    smem = cutlass.memory.SmemAllocator()
    mbar = smem.allocate_array(Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout(64), byte_alignment=128)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    load = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), Float32)
    row = cute.make_tensor(x.iterator, cute.make_layout(64))
    if cute.arch.warp_idx() == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(mbar, 256)
            cute.copy(load, row, s, mbar_ptr=mbar)  # here
    if cutlass.const_expr(not bug):
        cute.arch.mbarrier_wait(mbar, 0)
    out[tidx] = s[tidx]  # here
    if cutlass.const_expr(bug):
        cute.arch.mbarrier_wait(mbar, 0)
bulk_stages @fault("a bulk copy into a stage that is still read", "race", normal(256), lambda x, y: x.reshape(4, 64)[:, ::-1].ravel()):
    smem = cutlass.memory.SmemAllocator()
    mbar = smem.allocate_array(Int64, 2, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout((64, 2)), 128)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), Float32)
    if tidx == 0:
        for k in cutlass.range_constexpr(2):
            cute.arch.mbarrier_init(mbar + k, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    for k in cutlass.range_constexpr(4):
        if tidx == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(mbar + k % 2, 256)
        if tidx < 32:
            with cute.arch.elect_one():
                cute.copy(atom, cute.local_tile(x, (64,), (k,)), s[None, k % 2], mbar_ptr=mbar + k % 2)  # here
        cute.arch.mbarrier_wait(mbar + k % 2, k // 2)
        out[k * 64 + tidx] = s[63 - tidx, k % 2]  # here
        if cutlass.const_expr(k < 2 and not bug):
            cute.arch.barrier()
        if cutlass.const_expr(k >= 2):
            cute.arch.barrier()
bulk_store @fault("no proxy fence before a bulk store", "missing proxy fence", normal(64), lambda x, y: (x + 1)[::-1]):
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 128)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkS2GOp(), Float32)
    s[63 - tidx] = x[tidx] + 1.0  # here
    if cutlass.const_expr(not bug):
        cute.arch.fence_view_async_shared()
    cute.arch.barrier()
    if tidx < 32:
        with cute.arch.elect_one():
            cute.copy(atom, s, out)  # here
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0)
# memory that is not there, or not written
gather @fault("an index that is negative", "out of bounds", normal(50), lambda x, y: np.where(y < 0, 0, x[np.clip(y, 0, 49)]), PLACES):
    at = y[tidx]
    inside = (at < 50) & (at >= 0) if cutlass.const_expr(not bug) else at < 50
    value = Float32(0.0)
    if inside:
        value = x[at]  # here
    out[tidx] = value
predicated_tile @fault("columns past a row's end, inside the allocation", "out of bounds", normal(30, 50), lambda x, y: 2 * x, blocks=(2, 2), threads=128):
    bx, by, _ = cute.arch.block_idx()
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), Float32, num_bits_per_copy=32)
    tiled = cute.make_tiled_copy_tv(atom, cute.make_ordered_layout((4, 32), order=(1, 0)), cute.make_layout((4, 1)))
    mine = tiled.get_slice(tidx)
    coordinates = cute.make_identity_tensor(x.shape)
    tile = (16, 32)
    source, target = (mine.partition_S(cute.local_tile(t, tile, (by, bx))) for t in (x, out))
    where = mine.partition_S(cute.local_tile(coordinates, tile, (by, bx)))
    for k in cutlass.range_constexpr(cute.size(source)):
        row, column = where[k]
        inside = row < x.shape[0]
        if cutlass.const_expr(not bug):
            inside = inside & (column < x.shape[1])
        if inside:
            target[k] = source[k] * 2.0  # here
past_the_allocation @fault("elements past the end of the allocation", "out of bounds", normal(60), same):
    # x has 60 elements, and there is nothing behind them
    count = 64 if cutlass.const_expr(bug) else 60
    if tidx < count:
        out[tidx] = x[tidx]  # here
past_the_buffer @fault("one word past a shared buffer, in the next one", "out of bounds", normal(64), lambda x, y: x[::-1] + 1):
    # One float too far in shared memory, where the next buffer begins
    smem = cutlass.memory.SmemAllocator()
    s = smem.allocate_tensor(Float32, cute.make_layout(64), 16)
    t = smem.allocate_tensor(Float32, cute.make_layout(64), 16)
    shift = 1 if cutlass.const_expr(bug) else 0
    t[tidx] = 1.0
    cute.arch.barrier()
    s[tidx + shift] = x[tidx]  # here
    cute.arch.barrier()
    out[tidx] = s[63 - tidx] + t[63 - tidx]
bytes_as_words @fault("a view of more words than there are", "out of bounds", normal(1), lambda x, y: y.reshape(32, 4).sum(1, dtype=np.int32), BYTES, threads=32):
    words = cute.recast_tensor(y, Int32)
    if cutlass.const_expr(bug):
        words = cute.make_tensor(words.iterator, cute.make_layout(33))
    at = tidx + 1 if cutlass.const_expr(bug) else tidx
    word = words[at]  # here
    total = Int32(0)
    for k in cutlass.range_constexpr(4):
        total += (word >> (8 * k)) & 0xFF
    out[tidx] = total
misaligned_vector @fault("a 16-byte load at an address that is no multiple of 16", "misaligned", normal(128), lambda x, y: x.reshape(32, 4).sum(1), threads=32):
    # Says that every thread's four floats start at a multiple of 16 bytes; with the bug they do not
    step = 1 if cutlass.const_expr(bug) else 4
    start = cute.assume(tidx * step, divby=4)
    four = cute.make_tensor(x.iterator + start, cute.make_layout(4))
    registers = cute.make_rmem_tensor(4, Float32)
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), Float32, num_bits_per_copy=128)
    cute.copy(atom, four, registers)  # here
    out[tidx] = registers[0] + registers[1] + registers[2] + registers[3]
uninitialised_shared @fault("a word of shared memory that nobody wrote", "uninitialised", normal(64), backwards):
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    count = 63 if cutlass.const_expr(bug) else 64
    if tidx < count:
        s[tidx] = x[tidx]
    cute.arch.barrier()
    out[tidx] = s[63 - tidx]  # here
uninitialised_register @fault("a register that nobody wrote", "uninitialised", normal(64), same):
    r = cute.make_rmem_tensor(2, Float32)
    if cutlass.const_expr(not bug):
        r.fill(0.0)
    r[0] = x[tidx]
    out[tidx] = r[0] + r[1]  # here
half_dot @fault("a fragment that one lane has not filled", "uninitialised", HALVES[0], lambda x, y: np.full(32, x.astype(np.float64) @ y), HALVES[1], threads=32):
    a, b = cute.make_rmem_tensor((8,), Float16), cute.make_rmem_tensor((8,), Float16)
    cute.autovec_copy(cute.local_tile(x, (8,), (tidx,)), a)
    if tidx < (31 if cutlass.const_expr(bug) else 32):
        cute.autovec_copy(cute.local_tile(y, (8,), (tidx,)), b)
    product = a.load().to(Float32) * b.load().to(Float32)  # here
    total = product.reduce(cute.ReductionOp.ADD, Float32(0.0), 0)
    out[tidx] = cute.arch.warp_reduction_sum(total)  # here
uninitialised_global @fault("an output that is added to before anybody wrote it", None, normal(64), same, why="an array always holds something"):
    # Adds to an output that nobody cleared
    before = out[tidx] if cutlass.const_expr(bug) else Float32(0.0)
    out[tidx] = before + x[tidx]
# threads that do not meet
barrier_in_half_a_warp @fault("a barrier that half of each warp reaches", "divergent barrier", normal(64), backwards):
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    s[tidx] = x[tidx]
    if cutlass.const_expr(bug):
        if tidx % 32 < 16:
            cute.arch.barrier()  # here
    else:
        cute.arch.barrier()
    out[tidx] = s[63 - tidx]
barrier_in_one_warp @fault("a barrier that one of two warps reaches", "divergent barrier", normal(64), backwards):
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    s[tidx] = x[tidx]
    if cutlass.const_expr(bug):
        if tidx < 32:
            cute.arch.barrier()  # here
    else:
        cute.arch.barrier()
    out[tidx] = s[63 - tidx]
shuffle_in_half_a_warp @fault("a shuffle that half of its lanes reach", "divergent shuffle", normal(32), lambda x, y: x + x[np.arange(32) ^ 16], threads=32):
    value = x[tidx]
    if cutlass.const_expr(bug):
        if tidx < 16:
            value = value + cute.arch.shuffle_sync_bfly(value, 16)  # here
    else:
        value = value + cute.arch.shuffle_sync_bfly(value, 16)
    out[tidx] = value
warp_number_in_half_a_warp @fault("warp_idx() where half of each warp is", "divergent shuffle", normal(64), lambda x, y: x + WARP * (LANE < 16)):
    # The compiled warp_idx() is a shuffle of the whole warp from lane 0
    out[tidx] = x[tidx]
    if cutlass.const_expr(bug):
        if tidx % 32 < 16:
            out[tidx] = x[tidx] + cute.arch.warp_idx()  # here
    else:
        warp = cute.arch.warp_idx()
        if tidx % 32 < 16:
            out[tidx] = x[tidx] + warp
segmented @fault("a shuffle from a lane that its mask leaves out", "divergent shuffle", normal(32), segment_sums, HEADS, threads=32):
    heads = cute.arch.vote_ballot_sync(y[tidx] != 0)
    below = heads & ((Int32(2) << tidx) - 1)
    start = 31 - cute.arch.clz(below)
    value = x[tidx]
    for k in cutlass.range_constexpr(5):
        other = cute.arch.shuffle_sync_up(value, 1 << k)
        if tidx - (1 << k) >= start:
            value += other
    if cutlass.const_expr(bug):
        last = cute.arch.shuffle_sync(value, 31, mask=0xFFFF)  # here
        value = last
    out[tidx] = value
ping_pong @fault("a named barrier at which one warp is not waited for again", "deadlock", normal(96), lambda x, y: 2 * x.reshape(3, 32)[:, ::-1].ravel()):
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32), 16)
    lane = tidx % 32
    if tidx < 32:
        for row in range(3):
            if row > 0:
                cute.arch.barrier(barrier_id=2, number_of_threads=64)  # here
            s[lane] = x[row * 32 + lane] * 2.0
            cute.arch.barrier_arrive(barrier_id=1, number_of_threads=64)
    else:
        for row in range(3):
            cute.arch.barrier(barrier_id=1, number_of_threads=64)  # here
            out[row * 32 + lane] = s[31 - lane]
            if row < (1 if cutlass.const_expr(bug) else 2):
                cute.arch.barrier_arrive(barrier_id=2, number_of_threads=64)
too_many_registers @fault("more registers are asked for than there are", "deadlock", normal(384), same, threads=384):
    # A multiprocessor has 65,536 registers, too few for 232 a thread
    if tidx < 128:
        if cutlass.const_expr(bug):
            cute.arch.setmaxregister_increase(232)  # here
        else:
            cute.arch.setmaxregister_decrease(40)
    else:
        cute.arch.setmaxregister_increase(232)  # here
    out[tidx] = x[tidx]
# mbarriers and clusters
two_halves @fault("a wait for the parity that is over", "deadlock", normal(128), lambda x, y: x.reshape(4, 32)[:, ::-1].ravel()):
    smem = cutlass.memory.SmemAllocator()
    full = smem.allocate_array(Int64, 2, byte_alignment=8)
    empty = smem.allocate_array(Int64, 2, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout((32, 2)), 16)
    lane = tidx % 32
    if tidx == 0:
        for k in cutlass.range_constexpr(2):
            cute.arch.mbarrier_init(full + k, 32)
            cute.arch.mbarrier_init(empty + k, 32)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    if tidx >= 32:
        for k in range(4):
            cute.arch.mbarrier_wait(empty + k % 2, 1 - k // 2)  # here
            s[lane, k % 2] = x[k * 32 + lane]  # here
            cute.arch.mbarrier_arrive(full + k % 2)
    else:
        for k in range(4):
            parity = k // 2 if cutlass.const_expr(not bug) else 0
            cute.arch.mbarrier_wait(full + k % 2, parity)
            out[k * 32 + lane] = s[31 - lane, k % 2]  # here
            cute.arch.mbarrier_arrive(empty + k % 2)
wrong_count @fault("an mbarrier that counts one arrival more than come", "deadlock", normal(32), backwards):
    smem = cutlass.memory.SmemAllocator()
    full = smem.allocate_array(Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout(32), 16)
    if tidx == 0:
        cute.arch.mbarrier_init(full, 33 if bug else 32)  # here
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    if tidx < 32:
        s[tidx] = x[tidx]
        cute.arch.mbarrier_arrive(full)  # here
    else:
        cute.arch.mbarrier_wait(full, 0)  # here
        out[tidx - 32] = s[63 - tidx]
overtaken @fault("a producer that overtakes its consumer", "deadlock", normal(64), same):
    smem = cutlass.memory.SmemAllocator()
    full = smem.allocate_array(Int64, 1, byte_alignment=8)
    empty = smem.allocate_array(Int64, 1, byte_alignment=8)
    if tidx == 0:
        cute.arch.mbarrier_init(full, 32)
        cute.arch.mbarrier_init(empty, 32)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    if tidx < 32:
        for k in range(3):
            if cutlass.const_expr(not bug):
                cute.arch.mbarrier_wait(empty, (k + 1) % 2)
            cute.arch.mbarrier_arrive(full)  # here
    else:
        for k in range(3):
            cute.arch.mbarrier_wait(full, k % 2)  # here
            cute.arch.mbarrier_arrive(empty)
    out[tidx] = x[tidx]
pipeline_of_warps @fault("a pipeline that counts half of its consumers", "deadlock", normal(192), both_consumers, threads=96):
    smem = cutlass.memory.SmemAllocator()
    storage = smem.allocate_array(Int64, 4, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout((32, 2)), 16)
    lane = tidx % 32
    pipe = pipeline.PipelineAsync.create(
        num_stages=2,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 32),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 32 if bug else 64),
        barrier_storage=storage,
    )
    if tidx < 32:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, 2)
        for k in cutlass.range(6):
            pipe.producer_acquire(state)  # here
            s[lane, state.index] = x[k * 32 + lane]  # here
            pipe.producer_commit(state)
            state.advance()
        pipe.producer_tail(state)
    else:
        warp = tidx // 32 - 1
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 2)
        for k in cutlass.range(6):
            pipe.consumer_wait(state)  # here
            out[warp * 192 + k * 32 + lane] = s[31 - lane, state.index] + warp  # here
            pipe.consumer_release(state)
            state.advance()
lost_wakeup @fault("a warp that looks for work before it says that it sleeps", "deadlock", normal(64), same, orders="all"):
    # Warp 0 sleeps if there is no work yet; with the bug it looks before it says that it sleeps
    awake = cutlass.memory.SmemAllocator().allocate_array(Int64, 1, byte_alignment=8)
    if tidx == 0:
        cute.arch.mbarrier_init(awake, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    if tidx == 0:
        if cutlass.const_expr(not bug):
            cute.arch.atomic_exch(y.iterator + 1, Int32(1))
        work = cute.arch.atomic_or(y.iterator, Int32(0))
        if work == 0:
            if cutlass.const_expr(bug):
                cute.arch.atomic_exch(y.iterator + 1, Int32(1))
            cute.arch.mbarrier_wait(awake, 0)  # here
    elif tidx == 32:
        cute.arch.atomic_exch(y.iterator, Int32(1))
        asleep = cute.arch.atomic_or(y.iterator + 1, Int32(0))
        if asleep == 1:
            cute.arch.mbarrier_arrive(awake)
    out[tidx] = x[tidx]
wrong_byte_count @fault("an mbarrier that expects more bytes than are sent", "mbarrier byte mismatch", normal(64), same):
    # Waits for 4 bytes more than are sent: on a GPU it never ends
    expected = 260 if cutlass.const_expr(bug) else 256
    smem = cutlass.memory.SmemAllocator()
    mbar = smem.allocate_array(Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(Float32, cute.make_layout(64), byte_alignment=128)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    load = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), Float32)
    row = cute.make_tensor(x.iterator, cute.make_layout(64))
    if cute.arch.warp_idx() == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(mbar, expected)  # here
            cute.copy(load, row, s, mbar_ptr=mbar)
    cute.arch.mbarrier_wait(mbar, 0)  # here
    out[tidx] = s[tidx]
ring @fault("an mbarrier that expects bytes which nobody sends", "mbarrier byte mismatch", normal(128), ring_sums, blocks=4, threads=32, cluster=4):
    rank = cute.arch.block_idx_in_cluster()
    smem = cutlass.memory.SmemAllocator()
    mbar = smem.allocate_array(Int64, 1, byte_alignment=8)
    box = smem.allocate_tensor(Float32, cute.make_layout(1), 16)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, 4)  # here
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    total = cute.arch.warp_reduction_sum(x[rank * 32 + tidx])
    if rank > 0:
        cute.arch.mbarrier_wait(mbar, 0)  # here
        total += box[0]
    sends = rank < 3 if cutlass.const_expr(not bug) else rank < 2
    if sends:
        if tidx == 0:
            cute.arch.store_async_dsmem(box.iterator, total.bitcast(Int32), mbar, rank + 1)
    out[rank * 32 + tidx] = total
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
unpublished_init @fault("an mbarrier that is used before its init is published", "mbarrier not published", normal(64), same):
    full = cutlass.memory.SmemAllocator().allocate_array(Int64, 1, byte_alignment=8)
    if tidx == 0:
        cute.arch.mbarrier_init(full, 64)  # here
        cute.arch.mbarrier_init_fence()
    if cutlass.const_expr(bug):
        cute.arch.sync_warp()
    else:
        cute.arch.barrier()
    cute.arch.mbarrier_arrive(full)  # here
    cute.arch.mbarrier_wait(full, 0)  # here
    out[tidx] = x[tidx]
early_remote_store @fault("a message to an mbarrier that may not be initialised", "mbarrier not initialised", normal(64), lambda x, y: np.repeat(x[[32, 0]], 32), blocks=2, threads=32, cluster=2):
    rank = cute.arch.block_idx_in_cluster()
    smem = cutlass.memory.SmemAllocator()
    full = smem.allocate_array(Int64, 1, byte_alignment=8)
    box = smem.allocate_tensor(Float32, cute.make_layout(1), 16)
    if tidx == 0:
        cute.arch.mbarrier_init(full, 1)  # here
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(full, 4)
    if cutlass.const_expr(not bug):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
    if tidx == 0:
        cute.arch.store_async_dsmem(box.iterator, x[rank * 32].bitcast(Int32), full, 1 - rank)  # here
    cute.arch.mbarrier_wait(full, 0)
    out[rank * 32 + tidx] = box[0]
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
exits_too_early @fault("a block that ends while a message to it is under way", "exit with traffic in flight", normal(64), same, blocks=2, threads=32, cluster=2):
    # Each block writes to the other's shared memory; with the bug, without waiting for the other to be done
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
reads_the_peer @fault("a block that ends while its peer still reads", "exit with traffic in flight", normal(128), lambda x, y: x + x.reshape(2, 64)[::-1, ::-1].ravel(), blocks=2, cluster=2):
    rank = cute.arch.block_idx_in_cluster()
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    s[tidx] = x[rank * 64 + tidx]
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    theirs = cute.make_tensor(cute.arch.map_dsmem_ptr(s.iterator, 1 - rank), cute.make_layout(64))
    r = cute.make_rmem_tensor((1,), Float32)
    cute.autovec_copy(cute.local_tile(theirs, (1,), (63 - tidx,)), r)  # here
    out[rank * 64 + tidx] = s[tidx] + r[0]
    if cutlass.const_expr(not bug):
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
""",  # noqa: E501
    "x, y, out, *, bug",
)
