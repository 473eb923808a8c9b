"""Kernels for names that no other test uses: each writes numbers that a slip in that name would change."""

import cutlass
import cutlass.cute as cute
from cutlass import utils
from cutlass.cute import typing

from .hosts import Constexpr, initialise, launched, one_warp
from .written import write


def annotated(
    a: cutlass.Numeric,
    b: cute.Numeric,
    shape: cute.Shape,
    stride: cute.Stride,
    coord: cute.Coord,
    tile: cute.Tile,
    tiler: cute.Tiler,
    ints: cute.IntTuple,
    pointer: cute.Pointer,
    layout: cute.Layout,
    vector: cute.TensorSSA,
    atom: cute.CopyAtom,
    tiled: cute.TiledCopy,
    kind: cute.NumericMeta,
    also: typing.Tensor,
    composed: cute.ComposedLayout,
    swizzle: cute.Swizzle,
):
    return a + b + shape[0] + stride[0] + coord[0] + tile[0] + tiler[0] + ints[0]


@cute.kernel
def waits_for_the_kernel_before(x: cute.Tensor, out: cute.Tensor, wait: Constexpr):
    """x to out; with `wait` "all" after the wait, "half" where only half of the lanes have waited, "reads" where only those
    load and all have waited before they store, "" without."""
    tidx, _, _ = cute.arch.thread_idx()
    if cutlass.const_expr(wait == "all"):
        cute.arch.griddepcontrol_wait()
    if cutlass.const_expr(wait == "half"):
        if tidx < 16:
            cute.arch.griddepcontrol_wait()
            out[tidx] = x[tidx]
    if cutlass.const_expr(wait == "reads"):
        if tidx < 16:
            cute.arch.griddepcontrol_wait()
        value = cute.make_rmem_tensor(1, x.element_type)
        value.fill(0)
        pred = cute.make_rmem_tensor(1, cutlass.Boolean)
        pred[0] = tidx < 16
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), x.element_type)
        cute.copy(atom, cute.make_tensor(x.iterator + tidx, cute.make_layout(1)), value, pred=pred)
        cute.arch.griddepcontrol_wait()
        out[tidx] = value[0]
    else:
        out[tidx] = x[tidx]


@cute.jit
def launched_early(x: cute.Tensor, out: cute.Tensor, wait: Constexpr, use_pdl: Constexpr = True):
    waits_for_the_kernel_before(x, out, wait).launch(grid=[1, 1, 1], block=[32, 1, 1], use_pdl=use_pdl)


@cute.kernel
def ids(out: cute.Tensor):
    """out (10, 16): a row an answer, a column a block."""
    tidx, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    rank_x, rank_y, _ = cute.arch.block_in_cluster_idx()
    size_x, size_y, _ = cute.arch.block_in_cluster_dim()
    cluster_x, cluster_y, _ = cute.arch.cluster_idx()
    clusters_x, clusters_y, _ = cute.arch.cluster_dim()
    b = by * 4 + bx
    if tidx == 0:
        out[0, b] = rank_x
        out[1, b] = rank_y
        out[2, b] = size_x
        out[3, b] = size_y
        out[4, b] = cluster_x
        out[5, b] = cluster_y
        out[6, b] = clusters_x
        out[7, b] = clusters_y
        out[8, b] = cute.arch.cluster_size()
        out[9, b] = cute.arch.block_idx_in_cluster()


@cute.jit
def cluster_ids(out: cute.Tensor):
    ids(out).launch(grid=[4, 4, 1], block=[32, 1, 1], cluster=[2, 2, 1])


HINTS = (
    cute.CacheEvictionPriority.EVICT_FIRST,
    cute.nvgpu.LoadCacheMode.STREAMING,
    cute.nvgpu.cpasync.LoadCacheMode.GLOBAL,
    cute.nvgpu.StoreCacheMode.STREAMING,
    cute.nvgpu.L2PrefetchSize.SIZE_128B,
    cute.nvgpu.MemoryOrder.RELAXED,
    cute.nvgpu.MemoryScope.GPU,
)
NOT_MODELLED = (cute.core, cute.runtime)  # modules that may be imported, and refuse to be used


@cute.jit
def counts_to_three():
    for i in cutlass.range_constexpr(3):
        print(i)


@cute.jit
def prints_apart():
    print("a", 1, sep="-", end="!\n")
    print("b", 2)


TAKEN = write(globals())('''
spaces = x[:32] + 700:
    """Whether memory is where AddressSpace says, and hints that change nothing."""
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Int32, cute.make_layout(32), 16)
    total = x[tidx]
    if cutlass.const_expr(x.memspace == cutlass.AddressSpace.gmem):
        total += 100
    if cutlass.const_expr(s.memspace == cute.AddressSpace.smem):
        total += 200
    if cutlass.const_expr(len(HINTS) == 7):
        total += 400
    out[tidx] = total
unsigned_types = low_bits(x[:32], 8), low_bits(x[:32], 16), low_bits([(int(n) % (1 << 64)) // 3 for n in x[:32]]), 2 * x[:32] + 1:
    """out (128,): x as Uint8, Uint16, and the quotient by 3 as Uint64, in Int32; then 2 x + 1."""
    v = x[tidx]
    out[tidx] = v.to(cutlass.Uint8).to(cutlass.Int32)
    out[tidx + 32] = v.to(cutlass.Uint16).to(cutlass.Int32)
    out[tidx + 64] = (v.to(cutlass.Uint64) // cutlass.Uint64(3)).to(cutlass.Int32)
    out[tidx + 96] = v + cutlass.as_numeric(v) + cutlass.as_numeric(1)
loops_and_conditions = lane * (lane - 1) // 2 + 100 * (lane < 8):
    """The sum of the numbers below the lane's; 100 more in lanes below WARP_SIZE / 4."""
    total = cutlass.Int32(0)
    for i in cutlass.range(tidx):
        total += i
    if cutlass.dynamic_expr(tidx < cute.arch.WARP_SIZE // 4):
        total += 100
    out[tidx] = cute.arch.shuffle_sync_bfly(total, 0, mask=cute.arch.FULL_MASK)
old_range = lane * (lane - 1) // 2:
    total = cutlass.Int32(0)
    for i in cutlass.range_dynamic(tidx):
        total += i
    out[tidx] = total
built_ins = abs(x[:32] - lane) + 5003 + 1000 * ((lane < 3) | (lane > 30)) + 2000 * ((lane > 3) & (lane < 8)):
    """How far x is from the lane's number, and marks for which conditions held; says "traced" once."""
    print("traced")
    v = x[tidx]
    total = max(v, tidx) - min(v, tidx)
    for i in range(3):
        total += i
    if any([tidx < 3, tidx > 30]):
        total += 1000
    if all([tidx > 3, tidx < 8]):
        total += 2000
    if cutlass.const_expr(isinstance(v, cutlass.Int32) and not isinstance(v, cutlass.Float32)):
        total += 5000
    out[tidx] = total
annotations = 2 * lane + 21:
    """The lane's number, twice, and 1 + 2 + … + 6."""
    cute.arch.setmaxregister_decrease(24)
    cute.arch.setmaxregister_increase(240)
    plain = isinstance(x.layout, cute.Layout) and not isinstance(x.layout, (cute.ComposedLayout, cute.Swizzle))
    nothing = (None,) * (9 if cutlass.const_expr(plain) else 8)
    out[tidx] = annotated(tidx, tidx, (1,), (2,), (3,), (4,), (5,), (6,), *nothing)
vectors = x[:4] + 1, [0] * 4, [8] * 4, [32]:
    """Lane 0: x[0:4] + 1 of ones_like, x - x of zeros_like, 3 of full, 5 of full_like, and the size in bytes of 8 numbers."""
    if tidx == 0:
        row = cute.make_tensor(x.iterator, cute.make_layout(4))
        v = row.load()
        registers = cute.make_rmem_tensor_like(row)
        registers.store(v + cute.ones_like(v))
        cute.basic_copy(registers, cute.make_tensor(out.iterator, cute.make_layout(4)))
        registers.store(cute.zeros_like(v))
        cute.autovec_copy(registers, cute.make_tensor(out.iterator + 4, cute.make_layout(4)))
        registers.store(cute.full((4,), 3, cutlass.Int32) + cute.full_like(v, 5))
        cute.basic_copy(registers, cute.make_tensor(out.iterator + 8, cute.make_layout(4)))
        out[12] = cute.size_in_bytes(cutlass.Int32, cute.make_layout(8))
predicated = x[:5]:
    """Lane 0 copies those of eight numbers whose place is below (5)."""
    if tidx == 0:
        row = cute.make_tensor(x.iterator, cute.make_layout(8))
        pred = cute.make_rmem_tensor(8, cutlass.Boolean)
        for i in cutlass.range_constexpr(8):
            pred[i] = cute.elem_less((i,), (5,))
        cute.basic_copy_if(pred, row, cute.make_tensor(out.iterator, cute.make_layout(8)))
recast = x[:32].view(np.int16)[::2]:
    """x (Int32) seen as Int16: the low half of each number."""
    halves = cute.recast_tensor(x, cutlass.Int16)
    out[tidx] = halves[2 * tidx].to(cutlass.Int32)
recast_registers = np.where(lane % 2 == 0, turned(x[:32]), x[32:64]), f32(lane).view(np.int32), np.where(lane < 16, lane, 2):
    """Registers of Int16 and Float32 seen as Int32, read and written: both halves swapped, the bits of a number."""
    halves = cute.make_rmem_tensor((2, 2), cutlass.Int16)
    words = cute.recast_tensor(halves, cutlass.Int32)
    for k in cutlass.range_constexpr(2):
        words[0, k] = x[tidx + 32 * k]
    if tidx % 2 == 0:
        halves[0, 1], halves[1, 1] = halves[1, 0], halves[0, 0]
    out[tidx] = words[0, 1]
    number = cute.make_rmem_tensor(1, cutlass.Float32)
    number[0] = tidx.to(cutlass.Float32)
    out[tidx + 32] = cute.recast_tensor(number, cutlass.Int32)[0]
    if tidx >= 16:
        cute.recast_tensor(number, cutlass.Int32)[0] = 0x40000000
    out[tidx + 64] = number[0].to(cutlass.Int32)
copy_operations = x[31::-1]:
    """x to registers, to shared memory, to registers, to out, reversed on the way; each with its own copy operation."""
    s = utils.SmemAllocator().allocate_tensor(cutlass.Int32, cute.make_layout(32), 16)
    registers = cute.make_rmem_tensor(1, cutlass.Int32)
    one = cute.make_layout(1)
    load = cute.make_copy_atom(cute.nvgpu.CopyG2ROp(), cutlass.Int32, num_bits_per_copy=32)
    put = cute.make_copy_atom(cute.nvgpu.CopyR2SOp(), cutlass.Int32, num_bits_per_copy=32)
    get = cute.make_copy_atom(cute.nvgpu.CopyS2ROp(), cutlass.Int32, num_bits_per_copy=32)
    store = cute.make_copy_atom(cute.nvgpu.CopyR2GOp(), cutlass.Int32, num_bits_per_copy=32)
    cute.copy(load, cute.make_tensor(x.iterator + cute.assume(tidx, divby=1), one), registers)
    cute.copy(put, registers, cute.make_tensor(s.iterator + tidx, one))
    cute.arch.sync_threads()
    cute.copy(get, cute.make_tensor(s.iterator + (31 - tidx), one), registers)
    cute.copy(store, registers, cute.make_tensor(out.iterator + tidx, one))
tiled_by_layout = x[:64]:
    """x to out through a tiled copy made from a thread-value layout: each lane takes elements 2 * lane and 2 * lane + 1."""
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Int32, num_bits_per_copy=64)
    tiled = cute.make_tiled_copy(atom, cute.make_layout((32, 2), stride=(2, 1)), (64,))
    part = tiled.get_slice(tidx)
    source = cute.make_tensor(x.iterator, cute.make_layout(64))
    target = cute.make_tensor(out.iterator, cute.make_layout(64))
    cute.copy(atom, part.partition_S(source), part.partition_D(target))
without_effect = x[:32]:
    """x to out, past every fence and hint."""
    cute.arch.griddepcontrol_wait()
    v = x[tidx]
    cute.arch.fence_acq_rel_cta()
    cute.arch.fence_acq_rel_cluster()
    cute.arch.fence_acq_rel_gpu()
    cute.arch.fence_acq_rel_sys()
    cute.arch.fence_proxy("async.shared", space="cta")
    cute.arch.griddepcontrol_launch_dependents()
    out[tidx] = v
expected_apart = x:
    """x (128,) to out (128,) by a bulk copy whose bytes are expected before the arrival, polled with try_wait."""
    mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(cutlass.Int32, cute.make_layout(128), byte_alignment=128)
    initialise(mbar, 1)
    load = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), cutlass.Int32)
    with cute.arch.elect_one():
        cute.arch.mbarrier_expect_tx(mbar, 512)
        cute.copy(load, x, s, mbar_ptr=mbar)
        cute.arch.mbarrier_arrive(mbar)
    done = cute.arch.mbarrier_try_wait(mbar, 0)
    while not done:
        done = cute.arch.mbarrier_try_wait(mbar, 0)
    for i in cutlass.range(tidx, 128, 32):
        out[i] = s[i]
polled @launched(64) = x[31::-1]:
    """Warp 0 polls with test_wait until warp 1 has written and arrived; out (32,) is x, reversed."""
    mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(cutlass.Int32, cute.make_layout(32), byte_alignment=16)
    initialise(mbar, 32)
    if tidx < 32:
        done = cute.arch.mbarrier_test_wait(mbar, 0)
        while not done:
            done = cute.arch.mbarrier_test_wait(mbar, 0)
        out[tidx] = s[31 - tidx]
    else:
        s[tidx - 32] = x[tidx - 32]
        cute.arch.mbarrier_arrive(mbar)
''')


write(globals())('''
polls_for_ever:
    """Nobody arrives: the loop does not end."""
    mbar = cutlass.memory.SmemAllocator().allocate_array(cutlass.Int64, 1, byte_alignment=8)
    initialise(mbar, 1)
    done = cute.arch.mbarrier_test_wait(mbar, 0)
    while not done:
        done = cute.arch.mbarrier_test_wait(mbar, 0)
    out[tidx] = x[tidx]
atomic_vectors(x, out, *, width=4, first=0):
    """Each lane adds `width` of its block's numbers, from `first` on, to those of `out`."""
    at = tidx % 8 * width
    values = cute.make_rmem_tensor(width, cutlass.Float32)
    for k in cutlass.range_constexpr(width):
        values[k] = x[at + k]
    cute.arch.atomic_add(out.iterator + (at + first), values.load().ir_value())
arrives_unaligned: cute.arch.barrier_arrive(barrier_id=1, number_of_threads=32, aligned=False)
arrives_unaligned_at_the_cluster: cute.arch.cluster_arrive(aligned=False)
largest_of_integers: out[0] = v.reduce(cute.ReductionOp.MAX, cutlass.Int32(0), 0)
one_launched_early(x, out, how: Constexpr) @launched(64, use_pdl=True, passing=True):
    """x to out by 64 threads. Thread 0 waits; the others meet it at a block barrier ("block"), in its warp ("warp"), half of them
    there ("half", and "named" where all arrive), or at a barrier that it passed before it waited ("before", and "twice" where
    it comes to the next one while they have not gone on)."""
    if cutlass.const_expr(how == "before" or how == "twice"):
        cute.arch.sync_threads()
    if tidx == 0:
        cute.arch.griddepcontrol_wait()
    if cutlass.const_expr(how == "half"):
        if tidx % 32 < 16:
            cute.arch.sync_warp(mask=0xFFFF)
    if cutlass.const_expr(how == "named"):
        cute.arch.sync_warp(mask=0xFFFF)
    if cutlass.const_expr(how == "block"):
        cute.arch.sync_threads()
    if cutlass.const_expr(how == "warp"):
        cute.arch.sync_warp()
    if cutlass.const_expr(how == "twice"):
        if tidx < 32:
            cute.arch.barrier_arrive(barrier_id=0, number_of_threads=64)
        else:
            out[tidx] = x[tidx]
            cute.arch.barrier(barrier_id=0, number_of_threads=64)
    else:
        out[tidx] = x[tidx]
''')
REFUSED = ["largest_of_integers"]
