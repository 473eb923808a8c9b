"""Kernels that once came out wrong: each is the smallest that showed it."""

import operator

import cutlass
import cutlass.cute as cute

from . import language
from .hosts import Constexpr, initialise, launched, one_warp
from .written import write


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


@cute.kernel
def takes_shared_memory_kernel(x: cute.Tensor, out: cute.Tensor, words: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    flag = smem.allocate_tensor(cutlass.Int8, cute.make_layout(1), 1)
    s = smem.allocate_tensor(cutlass.Float32, cute.make_layout(words), 16)
    if tidx == 0:
        flag[0] = cutlass.Int8(1)
    s[tidx] = x[tidx]
    out[tidx] = s[tidx]


@cute.jit
def takes_shared_memory(x: cute.Tensor, out: cute.Tensor):
    takes_shared_memory_kernel(x, out, 64).launch(grid=[1, 1, 1], block=[32, 1, 1])
    takes_shared_memory_kernel(x, out, 32).launch(grid=[1, 1, 1], block=[32, 1, 1])


def handed_over(kernel):
    """A function of the kernel's constants, and of whether all blocks are promised to run at once."""

    def host(*constants, cooperative=False, **named):
        return launched(32, blocks=4, cooperative=cooperative)(kernel)(*constants, **named)

    return host


made = write(globals(), host="")("""
double: out[tidx] = 2 * x[tidx]
idle(): cute.arch.griddepcontrol_launch_dependents()
add(x, y, order: Constexpr):
    if cutlass.const_expr(order == "signals, waits"):
        cute.arch.griddepcontrol_launch_dependents()
    if cutlass.const_expr(order != "signals alone"):
        cute.arch.griddepcontrol_wait()
    if cutlass.const_expr(order in ("waits, signals", "signals alone")):
        cute.arch.griddepcontrol_launch_dependents()
    if cutlass.const_expr(order != "signals alone"):
        y[tidx] = x[tidx] + 1.0
scale(x, w, y, out, early: Constexpr):
    factor = y[tidx] if cutlass.const_expr(early == "y") else w[tidx]  # which nobody writes
    if cutlass.const_expr(early == "x"):
        x[tidx] = 0.0
    cute.arch.griddepcontrol_wait()
    out[tidx] = factor * y[tidx]
""")
double, idle, add, scale = map(globals().get, made)


@cute.jit
def overlapping(x, w, y, out, early: Constexpr, chain: Constexpr):
    """y = 2 x, then out = w y by a kernel that may start early; `early` is what it touches before it waits."""
    double(x, y).launch(grid=[1, 1, 1], block=[32, 1, 1])
    for _ in range(chain - 1):  # each touches nothing, and waits for nobody
        idle().launch(grid=[1, 1, 1], block=[32, 1, 1], use_pdl=True)
    scale(x, w, y, out, early).launch(grid=[1, 1, 1], block=[32, 1, 1], use_pdl=True)


@cute.jit
def chained(x, w, y, out, order: Constexpr, early: Constexpr):
    """out = w (x + 1), by two kernels that may both start early; `order` is what the first does about it."""
    add(x, y, order).launch(grid=[1, 1, 1], block=[32, 1, 1], use_pdl=True)
    scale(x, w, y, out, early).launch(grid=[1, 1, 1], block=[32, 1, 1], use_pdl=True)


@cute.jit
def put(sX, tidx, value):
    sX[tidx] = value


@cute.jit
def rotated(value, sX, tidx):
    sX[tidx] = value
    cute.arch.barrier()
    return sX[63 - tidx]


@cute.jit
def rotated_twice(value, sX, tidx):
    first = rotated(value, sX, tidx)
    return rotated(first + 1, sX, tidx)


same_name = SameName()
WANTED = {"same_name": "3 * lane"}
TAKEN = write(globals())("""
bf16_times_int = 257 * lane: out[tidx] = cutlass.Float32(x[tidx].to(cutlass.BFloat16) * 257)
helper_of_a_module = 2 * lane + 1: out[tidx] = language.twice_and_one(x[tidx])
swap_registers = lane:
    r = cute.make_rmem_tensor((2,), cutlass.Float32)
    r[0] = x[tidx]
    r[1] = x[31 - tidx]
    old = r[0]
    r[0] = r[1]
    r[1] = old
    out[tidx] = r[1]
comprehension_range = 3 * lane:
    parts = [x[tidx] * float(k) for k in range(3)]
    out[tidx] = parts[0] + parts[1] + parts[2]
""")


write(globals())('''
narrow: out[tidx] = cutlass.Int32(cutlass.Int8(x[tidx]))
runs_apart @launched(64):
    out[tidx] = x[tidx] + 1.0
    cute.printf("{}", tidx)
    if tidx < 32:
        cute.arch.barrier(barrier_id=1, number_of_threads=32)
    out[tidx] = out[tidx] + 1.0
ragged_sum @launched(40): out[tidx] = cute.arch.warp_reduction(x[tidx], operator.add)
unwritten_register:
    r = cute.make_rmem_tensor((2,), cutlass.Float32)
    r[0] = x[tidx]
    out[tidx] = cute.arch.fmax(r[0], r[1])
unwritten_and_written(out, other):
    r = cute.make_rmem_tensor((1,), cutlass.Float32)
    out[tidx] = r[0]
    other[tidx] = cutlass.Float32(tidx)
unwritten_slot:
    slots = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(40), 16)
    slots[tidx] = x[tidx]
    cute.arch.sync_warp()
    neighbour = slots[tidx + 1]
    out[tidx] = neighbour
register_out_of_bounds:
    r = cute.make_rmem_tensor((4,), cutlass.Float32)
    r.fill(0.0)
    out[tidx] = r[tidx % 4 - 1]
warp_number_of_whole_warps @launched(40, blocks=2):
    """Whole warps in a branch, whole blocks in a branch, and a warp of 8 threads."""
    number = cutlass.Int32(0)
    if tidx >= 32:
        number = cute.arch.warp_idx() + 10 * cute.arch.make_warp_uniform(tidx)
    if block == 1:
        number = number + 1000 * cute.arch.warp_idx()
    out[block, tidx] = x[tidx] + number
narrow_vector:
    r = cute.make_rmem_tensor((2,), cutlass.Float32)
    r[0] = x[tidx]
    r[1] = x[tidx] + 0.5
    narrow = r.load().to(cutlass.Uint8)
    out[tidx] = cutlass.Int32(narrow[0]) + cutlass.Int32(narrow[1])
narrow_where_it_fits:
    value = x[tidx]
    out[tidx] = -1
    if value < 128.0:
        out[tidx] = cutlass.Int32(cutlass.Int8(value))
    if value < 256.0:
        r = cute.make_rmem_tensor((1,), cutlass.Float32)
        r[0] = value
        out[tidx] = cutlass.Int32(r.load().to(cutlass.Uint8)[0])
vector_to_boolean:
    r = cute.make_rmem_tensor((1,), cutlass.Float32)
    r[0] = x[tidx]
    out[tidx] = cutlass.Float32(r.load().to(cutlass.Boolean)[0])  # here
atomic_sum @launched(128): cute.arch.atomic_add(out.iterator, x[tidx])
does_nothing: pass
past_the_buffer:
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(32), 16)
    s[tidx + 1] = x[tidx]
    out[tidx] = x[tidx]
misses_a_phase:
    mbar = cutlass.memory.SmemAllocator().allocate_array(cutlass.Int64, 1)
    initialise(mbar, 32)
    for turn in cutlass.range_constexpr(2):
        cute.arch.mbarrier_arrive(mbar)
    cute.arch.mbarrier_wait(mbar, 0)
    out[tidx] = x[tidx]
init_twice @launched(32, blocks=2):
    mbar = cutlass.memory.SmemAllocator().allocate_array(cutlass.Int64, 1)
    for turn in cutlass.range_constexpr(2):
        if tidx == 0:
            cute.arch.mbarrier_init(mbar, 32)
            cute.arch.mbarrier_init_fence()
        cute.arch.barrier()
        cute.arch.mbarrier_arrive(mbar)
        cute.arch.mbarrier_wait(mbar, 0)
    out[tidx] = x[tidx]
far_rows(x, *, how) @launched(64, blocks=3):
    """Row b of x to b, by one of four ways to say where it is."""
    row, _, _ = cute.arch.block_idx()
    value = cutlass.Uint8(row)
    if cutlass.const_expr(how == "element"):
        x[row, tidx] = value
    elif cutlass.const_expr(how == "row"):
        x[row, None][tidx] = value
    elif cutlass.const_expr(how == "tile"):
        tile = cute.local_tile(x, (1, 64), (row, 0))
        tile[0, tidx] = value
    else:
        x[cutlass.Int64(row), tidx] = value
two_counts(x, out, *, wanted) @launched(64):
    """One warp arrives at barrier 1 for 64 threads, the other waits there for `wanted`."""
    out[tidx] = x[tidx]
    if tidx < 32:
        cute.arch.barrier_arrive(barrier_id=1, number_of_threads=64)
    else:
        cute.arch.barrier(barrier_id=1, number_of_threads=wanted)
stored_and_read(x, out, again, *, read):
    """A bulk store of 32 floats, waited for, and read again: `read` is what the wait says."""
    sX = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(32), 16)
    sX[tidx] = x[tidx]
    cute.arch.fence_view_async_shared()
    cute.arch.sync_warp()
    if tidx == 0:
        atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkS2GOp(), cutlass.Float32)
        cute.copy(atom, sX, out)
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0, read=read)
        again[0] = out[0]
flag_of_a_warp(out, *, registers="") @launched(64, blocks=2):
    """Warp 1 spins on a flag in shared memory that warp 0 sets, and keeps it in registers, made before or in each pass."""
    flag = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Int32, cute.make_layout(1))
    if tidx == 0:
        flag[0] = 0
    cute.arch.barrier()
    if tidx == 63:
        seen = cutlass.Int32(0)
        held = cute.make_rmem_tensor(cute.make_layout(1), cutlass.Int32)
        while seen == 0:
            now = cute.arch.atomic_add(flag.iterator, cutlass.Int32(0))
            if cutlass.const_expr(registers == "in each pass"):
                new = cute.make_rmem_tensor(cute.make_layout(1), cutlass.Int32)
                new[0] = now
                now = new[0]
            if cutlass.const_expr(registers == "before"):
                held[0] = now
                now = held[0]
            seen = now
        out[bidx] = seen
    if tidx == 0:
        cute.arch.atomic_add(flag.iterator, cutlass.Int32(7))
overwritten(x, out, *, fenced):
    """Threads clear shared memory, and a bulk copy writes over it."""
    sX = smem.allocate_tensor(cutlass.Float32, cute.make_layout(32), 16)
    mbar = smem.allocate_array(cutlass.Int64, 1)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)
    sX[tidx] = 0.0
    cute.arch.mbarrier_init_fence()
    if cutlass.const_expr(fenced):
        cute.arch.fence_view_async_shared()
    cute.arch.barrier()
    if tidx == 0:
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, 128)
        atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), cutlass.Float32)
        cute.copy(atom, x, sX, mbar_ptr=mbar)
    cute.arch.mbarrier_wait(mbar, 0)
    out[tidx] = sX[tidx]
in_helpers @launched(64):
    """A race whose write is in a helper."""
    sX = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(64), 16)
    put(sX, tidx, x[tidx])
    out[tidx] = sX[63 - tidx]
masked_copies:
    """cp.async under a dynamic `if`, without pred."""
    sX = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout((8, 32)), 16)
    sX[None, tidx].fill(0.0)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), cutlass.Float32, num_bits_per_copy=128)
    if tidx < 5:
        cute.copy(atom, x[None, tidx], sX[None, tidx])
    cute.arch.cp_async_commit_group()
    cute.arch.cp_async_wait_group(0)
    cute.autovec_copy(sX[None, tidx], out[None, tidx])
prints_pi:
    if cute.arch.lane_idx() == 0:
        cute.printf("%f", 3.14)
        cute.printf("{} and {}", 3.14, 3)
handover(flags, sums, *, backwards=False, forgets=False) @handed_over:
    """Block b adds its number to what block b - 1 (or, backwards, b + 1) hands over by a flag in global memory."""
    turn = bidx
    if cutlass.const_expr(backwards):
        turn = 3 - bidx
    if tidx == 0:
        if turn > 0:
            ready = cutlass.Int32(0)
            while ready == 0:
                ready = cute.arch.atomic_add(flags.iterator + (turn - 1), cutlass.Int32(0))
            cute.arch.fence_acq_rel_gpu()
            sums[turn] = sums[turn - 1] + turn
        if cutlass.const_expr(not forgets):
            cute.arch.fence_acq_rel_gpu()
            cute.arch.atomic_add(flags.iterator + turn, cutlass.Int32(1))
barriers_apart @launched(64):
    """Each warp waits at a barrier of its own, where both should meet."""
    sX = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(64), 16)
    sX[tidx] = x[tidx]
    cute.arch.barrier(barrier_id=1 + cute.arch.warp_idx(), number_of_threads=32)
    out[tidx] = sX[63 - tidx]
called_twice @launched(64):
    """A helper called twice by another: the second call's store races with the first call's load."""
    sX = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(64), 16)
    out[tidx] = rotated_twice(x[tidx], sX, tidx)
moved_by_align:
    four = cute.make_tensor((x.iterator + 1).align(16), cute.make_layout(4))
    out[tidx] = four[tidx % 4]
boundary_by_align:
    here = x.iterator + 1
    out[tidx] = cutlass.Float32(here.align(16).toint() - here.toint()) + x[tidx]
counts_from_the_end: out[tidx] = x[-1 - tidx]  # here
tile_past_the_end:
    tile = cute.local_tile(x, (16,), (2,))
    out[tidx] = tile[tidx % 16]  # here
layout_past_the_end:
    every_other = cute.make_tensor(x.iterator, cute.make_layout(32, stride=2))
    out[tidx] = every_other[tidx]  # here
sums_a_tensor:
    tXrX = cute.make_rmem_tensor(3, cutlass.Float32)
    tXrX.fill(1.0)
    out[tidx] = sum(tXrX)  # here
python_int_in_if:
    sign = cutlass.Float32(1.0)
    if tidx < 16:  # here
        sign = -1
    out[tidx] = sign
float_in_loop:
    total = cutlass.Int32(0)
    for i in range(2):  # here
        total = total + x[tidx]
    out[tidx] = cutlass.Float32(total)
len_of_a_tensor:
    if tidx < len(x):  # here
        out[tidx] = x[tidx]
allocated_late @launched(32, blocks=2, cluster=2):
    """Blocks of a cluster send each other a number, to a place that block 1 allocates only once its own bulk copy has come."""
    sX = smem.allocate_tensor(cutlass.Float32, cute.make_layout(32), 128)
    arrived, mbar = (smem.allocate_array(cutlass.Int64, 1) for _ in range(2))
    if lane == 0:
        cute.arch.mbarrier_init(arrived, 1)
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, 4)
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    if rank == 1:
        if lane == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(arrived, 128)
            atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), cutlass.Float32)
            cute.copy(atom, x, sX, mbar_ptr=arrived)
        cute.arch.mbarrier_wait(arrived, 0)
    slot = smem.allocate_tensor(cutlass.Int32, cute.make_layout(1), 16)
    if lane == 0:
        cute.arch.store_async_dsmem(slot.iterator, rank + 5, mbar, 1 - rank)
    cute.arch.mbarrier_wait(mbar, 0)
    if lane == 0:
        out[rank] = slot[0].to(cutlass.Float32)
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
warp_number_of_lane_0(x, out, uniform: Constexpr) @launched(64, blocks=2, passing=True):
    if tidx % 32 == 0:
        if cutlass.const_expr(uniform):
            out[tidx] = x[tidx] + cute.arch.make_warp_uniform(tidx)  # here
        else:
            out[tidx] = x[tidx] + cute.arch.warp_idx()  # here
half_way(x, out) @launched(32, passing=True):
    low, high = cutlass.Int32(0), cutlass.Int32(100)
    while low < high:  # here
        middle = (low + high) // 2
        if x[middle] < 0.5:
            low = middle
        else:
            high = middle
    out[tidx] = low.to(cutlass.Float32)
of_one_warp(x, out) @launched(256, passing=True):
    if cute.arch.warp_idx() == 5:
        cute.arch.setmaxregister_decrease(40)  # here
    out[tidx] = x[tidx]
with_a_word_of_its_own(x, out) @launched(32, passing=True):
    out[tidx] = cute.math.exp(x[tidx], rounding="up")  # here
greedy(out, least: Constexpr) @launched(384, passing=True):
    if tidx < 128:
        cute.arch.setmaxregister_decrease(least)
    else:
        cute.arch.setmaxregister_increase(cutlass.Int32(240))
    out[tidx] = 1.0
flag_of_a_lane(out) @one_warp:
    flag = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Int32, cute.make_layout(1), 16)
    tidx, _, _ = cute.arch.thread_idx()
    if tidx == 0:
        flag[0] = 0
    cute.arch.barrier()
    if tidx == 0:
        seen = cutlass.Int32(0)
        while seen == 0:
            seen = cute.arch.load(flag.iterator, cutlass.Int32, sem="acquire", scope="cta")
        out[0] = 1.0
    elif tidx == 1:
        cute.arch.store(flag.iterator, cutlass.Int32(1), sem="release", scope="cta")
over_an_mbarrier(out, *, at) @launched(32):
    mbar = cutlass.memory.SmemAllocator().allocate_array(cutlass.Int64, 2, byte_alignment=8)
    tidx, _, _ = cute.arch.thread_idx()
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 32)
        cute.make_tensor(mbar, cute.make_layout(2))[at] = cutlass.Int64(0)  # here
    cute.arch.barrier()
    cute.arch.mbarrier_arrive(mbar)
    cute.arch.mbarrier_wait(mbar, 0)
    out[tidx] = 1.0
elected(x, out, *, first) @launched(40):
    if tidx >= first:
        with cute.arch.elect_one():  # here
            out[tidx] = x[tidx]
hands_on(x, out) @one_warp:
    value = x[tidx]
    with cute.arch.elect_one():
        value = value + 1.0
    out[tidx] = value  # here
asks_for_too_little(x, out) @launched(32, smem=64):
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(32), 16)  # here
    s[tidx] = x[tidx]
    out[tidx] = s[tidx]
divided(n, out, *, least) @launched(32):
    out[tidx] = cutlass.Float32(0.0)
    if tidx >= least:
        out[tidx] = cutlass.Float32(100 // n[tidx] + 100 % n[tidx])  # here
acquired_by_one(x, y, flag, out) @launched(64, blocks=2):
    if cute.arch.block_idx()[0] == 0:
        y[tidx] = x[tidx]
        cute.arch.barrier()
        if tidx == 0:
            cute.arch.atomic_add(flag.iterator, cutlass.Int32(1), sem="release", scope="gpu")
    else:
        if tidx == 0:
            seen = cutlass.Int32(0)
            while seen == 0:
                seen = cute.arch.load(flag.iterator, cutlass.Int32, sem="acquire", scope="gpu")
        out[tidx] = y[63 - tidx]  # here
arrives_early(x, out) @launched(64):
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(32), 128)
    if cute.arch.warp_idx() == 0:
        v = x[tidx]
        cute.arch.barrier_arrive(barrier_id=1, number_of_threads=64)
        s[tidx] = v  # here
    else:
        cute.arch.barrier(barrier_id=1, number_of_threads=64)
        out[tidx - 32] = s[tidx - 32]
copies_unwritten(x, out) @launched(64):
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(64), 128)
    if tidx < 40:
        s[tidx] = x[tidx]
    cute.arch.fence_view_async_shared()
    cute.arch.barrier()
    if tidx == 0:
        cute.copy(cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkS2GOp(), cutlass.Float32), s, out)  # here
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0, read=True)
unwritten_index(x, out) @one_warp:
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Int32, cute.make_layout(32), 16)
    out[tidx] = x[s[tidx]]  # here
next_tile(count, out) @launched(64, blocks=2):
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Int32, cute.make_layout(1), 16)
    tile = cutlass.Int32(0)
    while tile < 8:
        if tidx == 0:
            s[0] = cute.arch.atomic_add(count.iterator, cutlass.Int32(1), sem="relaxed", scope="gpu")
        cute.arch.barrier()
        tile = s[0]  # here
        if tidx == 0:
            if tile < 8:
                out[tile] = tile
comes_twice(x, out) @launched(64):
    if cute.arch.warp_idx() == 0:
        cute.arch.barrier_arrive(barrier_id=1, number_of_threads=64)
        cute.arch.barrier_arrive(barrier_id=1, number_of_threads=64)
    else:
        cute.arch.barrier(barrier_id=1, number_of_threads=64)  # here
    out[tidx] = x[tidx]
passes_on(data, out, *, flag) @launched(32, blocks=2):
    if cute.arch.lane_idx() == 0:
        if cute.arch.block_idx()[0] == 0:
            cute.arch.store(data.iterator, cutlass.Int32(3), sem="relaxed", scope="gpu")
            cute.arch.store(data.iterator + flag, cutlass.Int32(1), sem="relaxed", scope="gpu")
        else:
            out[0] = cute.arch.load(data.iterator + flag, cutlass.Int32, sem="relaxed", scope="gpu")
gathers(count, out) @launched(32, blocks=10):
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(50000), 16)
    if cute.arch.lane_idx() == 0:
        s[0] = cutlass.Float32(1.0)
        cute.arch.atomic_add(count.iterator, cutlass.Int32(1), sem="acq_rel", scope="gpu")
        seen = cutlass.Int32(0)
        while seen < out.shape[0]:
            seen = cute.arch.load(count.iterator, cutlass.Int32, sem="acquire", scope="gpu")
        if cute.arch.block_idx()[0] == 0:
            out[0] = seen
''')


@cute.jit
def host_writes(x: cute.Tensor, out: cute.Tensor):
    out[0] = 7.0  # here
    takes_shared_memory_kernel(x, out, 32).launch(grid=[1, 1, 1], block=[32, 1, 1])


@cute.jit
def host_prints(x: cute.Tensor, out: cute.Tensor):
    print(f"{x.iterator} {x!r}")
    takes_shared_memory_kernel(x, out, 32).launch(grid=[1, 1, 1], block=[32, 1, 1])
