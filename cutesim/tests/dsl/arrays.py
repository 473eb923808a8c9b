"""Memory without CuTe's layouts: arrays, vectors, pointers made of numbers; primitives by pointers; groups that take turns."""

import cutlass
import cutlass.cute as cute
import cutlass.utils.distributed as distributed
from cutlass import BFloat16, Boolean, Float16, Float32, Int32, Int64, pipeline
from cutlass._mlir.dialects import arith, math, nvvm
from cutlass.cute.nvgpu import cpasync
from cutlass.experimental import primitives
from cutlass.experimental.cuda import tensor_map

from .hosts import Constexpr, launched, one_warp
from .written import write

STAGES = 2


@cute.jit
def _changed(given: cutlass.Array) -> cutlass.Array:
    made = cutlass.Array(Float32, 2)
    made[0] = given[0] * 2.0
    made[1] = given[1]
    if made[0] > 1.0:
        made[1] = 5.0
        given[0] = 3.0
    return made


made = write(globals(), host="")("""
_copied(atom: cute.CopyAtom, source, out, *, waits):
    s = smem.allocate_tensor(Float32, cute.make_layout((8, 32), stride=(32, 1)), 128)
    bar = smem.allocate_array(Int64, 1)
    if t == 0:
        primitives.mbarrier_init(bar, 1)
        primitives.mbarrier_arrive_expect_tx(bar, 1024)
    cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    tile = cute.local_tile(source, (8, 32), (1, 1))
    tiles = cute.group_modes(s, 0, 2), cute.group_modes(tile, 0, 2)
    target, part = cute.nvgpu.cpasync.tma_partition(atom, 0, cute.make_layout(1), *tiles)
    cute.copy(atom, part, target, tma_bar_ptr=bar)
    if cutlass.const_expr(waits):
        cute.arch.mbarrier_wait(bar, 0)
    four = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), Float32, num_bits_per_copy=128)
    registers = cute.make_rmem_tensor((4,), Float32)
    registers.fill(0.0)
    few = cute.make_rmem_tensor((1,), Boolean)
    few[0] = t < 5
    for row in cutlass.range_constexpr(8):
        if t < 8:
            cute.copy_atom_call(four, cute.local_tile(s[row, None], (4,), (t,)), registers, pred=few)
            cute.copy_atom_call(four, registers, cute.local_tile(out[row, None], (4,), (t,)))
_boxed(source: cutlass.GridConstant[tensor_map.TensorMap], out, *, swizzled, waits):
    layout = cute.make_layout((8, 32), stride=(32, 1))
    swizzle = cute.make_swizzle(3, 4, 3) if cutlass.const_expr(swizzled) else None
    s = smem.allocate_tensor(Float32, layout, 1024, swizzle=swizzle)
    start = smem.allocate_array(Int64, 1)
    if t == 0:
        cute.arch.mbarrier_init(start, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    if t < 32:
        if primitives.elect_sync():
            cute.arch.mbarrier_arrive_and_expect_tx(start, 1024)
            primitives.cp_async_bulk_tensor_shared_cta_global(
                s.iterator, source.get_ptr(), [Int32(32), Int32(28)], start, mode=primitives.TMALoadMode.TILE
            )
    if cutlass.const_expr(waits):
        cute.arch.mbarrier_wait(start, 0)
    for row in cutlass.range_constexpr(8):
        out[row, t] = s[row, t]
_stored(atom: cute.CopyAtom, target, x, *, acquires):
    s = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout((4, 32, STAGES), stride=(32, 1, 128)), 128)
    pipeline.pipeline_init_arrive(cluster_shape_mn=(1, 1), is_relaxed=True)
    pipeline.pipeline_init_wait(cluster_shape_mn=(1, 1))
    producer_group = pipeline.CooperativeGroup(pipeline.Agent.Thread, 32)
    stores = pipeline.PipelineTmaStore.create(num_stages=STAGES, producer_group=producer_group)
    g = cute.local_tile(target, (4, 32), (None, 0))
    tOsO, tOgO = cpasync.tma_partition(atom, 0, cute.make_layout(1), cute.group_modes(s, 0, 2), cute.group_modes(g, 0, 2))
    for tile in cutlass.range_constexpr(cute.size(g, mode=[2])):
        for i in cutlass.range_constexpr(4):
            s[i, t, tile % STAGES] = x[4 * tile + i, t] + 1.0
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.sync_warp()
        cute.copy(atom, tOsO[None, tile % STAGES], tOgO[None, tile])
        stores.producer_commit()
        if cutlass.const_expr(acquires):
            stores.producer_acquire()
        cute.arch.sync_warp()
    stores.producer_tail()
""")
_copied, _boxed, _stored = map(globals().get, made)


@cute.jit
def copied(x: cute.Tensor, out: cute.Tensor, waits: Constexpr = True):
    """A tile by a tensor map into shared memory, then 20 of 32 columns of it out."""
    layout = cute.make_layout((8, 32), stride=(32, 1))
    atom, source = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), x, layout, (8, 32))
    _copied(atom, source, out, waits).launch(grid=1, block=32)


@cute.jit
def boxed(x: cute.Tensor, out: cute.Tensor, swizzled: Constexpr = False, waits: Constexpr = True):
    """Rows 28 to 35 of 32, columns 32 to 63 of 64, by a map made of an address; rows past the end are zeros."""
    kinds = tensor_map.TensorMapSwizzle
    made = tensor_map.create_tensor_map_tiled(
        x.iterator.toint(),
        Float32,
        [Int64(64), Int64(32)],
        [Int64(16)],
        [32, 8],
        swizzle=kinds.s128b if swizzled else kinds.none,
        l2_promotion=tensor_map.TensorMapL2Promotion.none,
        oob_fill=tensor_map.TensorMapFloatOOBFill.none,
    )
    _boxed(made, out, swizzled, waits).launch(grid=1, block=32)


@cute.jit
def stored(x: cute.Tensor, out: cute.Tensor, acquires: Constexpr = True):
    """out = x + 1 through two stages; without acquiring, a stage is filled while its store still reads it."""
    layout = cute.make_layout((4, 32), stride=(32, 1))
    atom, target = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), out, layout, (4, 32))
    _stored(atom, target, x, acquires).launch(grid=(1, 1, 1), block=(32, 1, 1))


write(globals())('''
arrays:
    mine = cutlass.Array(Float32, 4, space=cutlass.AddressSpace.rmem)
    for i in cutlass.range_constexpr(4):
        mine[i] = x[4 * t + i]
    if t % 2 == 1:
        mine[t % 4] = 7
    shared = cutlass.Array(Float32, (4, 32), space=cutlass.AddressSpace.smem, alignment=16)
    shared[1, t] = mine[1] + mine[(t + 1) % 4]
    (shared.data_ptr() + 64 + t).store(mine[3])
    whole = cutlass.Array(Int32, 2)
    whole[0] = mine[0] * 10.0
    source = cutlass.inttoptr(x.iterator.toint() + Int64(t) * 16, mem_space=1, dtype=Float32)
    four = source.load(count=4, alignment=16)
    mine.store(four, 0, 4)
    two = mine.load(2, 2)
    cute.arch.barrier()
    out[0, t] = shared[1, 31 - t]
    out[1, t] = (shared.data_ptr() + 64 + 31 - t).load()
    out[2, t] = Float32(whole[0])
    out[3, t] = two[0] * 2.0 + two[1] + Float32(cutlass.const_expr(len(shared.shape) + shared.strides[0]))
    target = cutlass.inttoptr(out.iterator.toint() + Int64(t) * 16 + 1024, mem_space=1, dtype=Float32)
    target.store(mine.data_ptr().load(count=4, alignment=4), alignment=16)
rebound:
    """Arrays that a helper changes and makes; an array and a vector that a dynamic `if` rebinds."""
    a = cutlass.Array(Float32, 2)
    a[0] = x[t]
    a[1] = x[t]
    b = _changed(a)
    for _ in range(3):
        b[0] += 1.0
        a[1] = a[1] + b[0]
    if t > 3:
        b = a
    v = b.load(0, 2)
    if t > 7:
        v = v + v
    out[t] = v[0] * 100.0 + v[1]
vectors:
    v = cutlass.Vector.from_elements((x[t], 2.0, x[t + 1], x[t + 2]), Float32)
    w = v + v * 2.0 - cutlass.vector.full((4,), 1.0, dtype=Float32)
    out[0, t] = w[0]
    out[1, t] = (-w)[t % 4]
    halves = w.to(BFloat16).bitcast(Int32)
    bits = (halves & 0xFFFF) | (halves << 16)
    out[2, t] = Float32(bits[1])
    again = bits.bitcast(BFloat16).to(Float32)
    out[3, t] = again[0] + Float32(cutlass.const_expr(w.numel() + halves.shape[0]))
    sixteen = cutlass.vector.full((2,), 1.5, dtype=Float16) * 3.0
    out[4, t] = Float32(sixteen[1]) / w[1]
primitive(x, out, waits: Constexpr = True) @launched(64, passing=True):
    primitives.griddepcontrol(primitives.GridDepAction.WAIT)
    s = cutlass.memory.SmemAllocator().allocate_tensor(Int32, cute.make_layout(64), 16)
    view = cutlass.make_array_view(x)
    value = view[t]
    near = primitives.shfl_sync(0xFFFFFFFF, value, 1, 31, primitives.Shfl.BFLY)
    first = primitives.shfl_sync(0xFFFFFFFF, value, 0, 31, primitives.Shfl.IDX)
    s[t] = near * 100 + first
    primitives.bar_warp_sync(0xFFFFFFFF)
    if cutlass.const_expr(waits):
        primitives.barrier_cta_sync()
    if t < 32:
        primitives.barrier_cta_arrive(1, 64)
    else:
        primitives.barrier_cta_sync(1, thread_count=64)
    out[0, t] = s[63 - t]
    some = primitives.vote_sync(0xFFFFFFFF, t % 32 == 3, primitives.VoteSync.BALLOT)
    out[1, t] = some
    if primitives.elect_sync():
        out[2, t // 32] = Int32(7)
    if t < 32:
        pipeline.arrive(2, 64)
    else:
        pipeline.arrive_and_wait(2, 64)
    primitives.griddepcontrol(primitives.GridDepAction.LAUNCH_DEPENDENTS)
neighbours(x, out, arrives: Constexpr = True) @launched(32, blocks=2, cluster=2, passing=True):
    """Each block writes the other's row, backwards; an arrival that is relaxed orders nothing."""
    b, _, _ = cute.arch.block_idx()
    shared = cutlass.Array(Float32, 32, space=cutlass.AddressSpace.smem, alignment=16)
    shared[t] = x[b, t]
    if cutlass.const_expr(arrives):
        primitives.barrier_cluster_arrive()
    else:
        primitives.barrier_cluster_arrive_relaxed()
    primitives.barrier_cluster_wait()
    peer = primitives.mapa(shared.data_ptr(), cute.arch.block_idx_in_cluster() ^ 1)
    out[b, t] = (peer + 31 - t).load()
    nvvm.cluster_arrive(aligned=True)
    nvvm.cluster_wait(aligned=True)
in_bulk(x, out) @launched(32, blocks=2, cluster=2):
    """Each block copies a row in bulk, reads it as integers and writes three times its numbers."""
    shared = cutlass.Array(Int32, 128, space=cutlass.AddressSpace.smem, alignment=16)
    bar = cutlass.Array(Int64, 1, space=cutlass.AddressSpace.smem, alignment=8)
    given, made = cute.recast_tensor(x, Int32), cute.recast_tensor(out, Int32)
    first = 128 * primitives.cluster_ctarank()
    if t == 0:
        primitives.mbarrier_init(bar, 1)
        cute.arch.mbarrier_init_fence()
        primitives.mbarrier_arrive_expect_tx(bar, 512)
        primitives.cp_async_bulk_shared_cluster_global(shared, given.iterator + first, bar, 512)
    primitives.barrier_cta_sync_aligned()
    while not primitives.mbarrier_try_wait_parity(bar, 0):
        pass
    place, space = shared.data_ptr() + 4 * t, primitives.SharedSpace.shared_cta
    four = primitives.load_ext(place, dtype=Int32, count=4, shared_space=space).bitcast(Float32)
    three = cutlass.Vector.from_elements(tuple(four[k] * 3.0 for k in range(4)), Float32)
    primitives.store_ext(three.bitcast(Int32), made.iterator + (first + 4 * t))
    primitives.fence_sc_cluster()
    primitives.barrier_cluster_arrive_aligned()
    primitives.barrier_cluster_wait_aligned()
polled(x, out, waits: Constexpr = 'try') @launched(64, passing=True):
    """One warp writes what the other reads once the mbarrier says so."""
    bar = cutlass.Array(Int64, 1, space=cutlass.AddressSpace.smem, alignment=8)
    shared = cutlass.Array(Float32, 32, space=cutlass.AddressSpace.smem, alignment=16)
    if t == 0:
        primitives.mbarrier_init(bar, 32)
    cute.arch.barrier()
    if t < 32:
        shared[t] = x[t]
        primitives.mbarrier_arrive(bar.data_ptr())
    else:
        if cutlass.const_expr(waits == "try"):
            while not primitives.mbarrier_wait_parity(
                bar.data_ptr(),
                0,
                primitives.MBarrierWait.TRY,
                scope=primitives.MBarrierScope.CTA,
                order=primitives.MemOrder.ACQUIRE,
            ):
                pass
        if cutlass.const_expr(waits == "test"):
            while not primitives.mbarrier_wait_parity(bar, Int32(0), primitives.MBarrierWait.TEST):
                pass
        if cutlass.const_expr(waits == "limit"):
            while not primitives.mbarrier_try_wait_parity(bar, 0):
                pass
        out[t - 32] = shared[63 - t]
words(x, out, count):
    four = primitives.load_ext(x.iterator + 4 * (t % 8), dtype=Int32, count=4)
    out[0, t] = four.bitcast(Float32)[1]
    primitives.store_ext(x[t] + 1.0, out.iterator + 32 + t)
    flag = primitives.load_ext(count.iterator + 1, order=primitives.MemOrder.ACQUIRE, scope=primitives.MemScope.GPU)
    out[2, t] = Float32(flag)
    pair = primitives.cvt_packfloat_f32(
        x[t], x[t + 1], 0, primitives.CVTPackFloat.BF16X2, rnd=primitives.FPRoundingMode.RN
    )
    both = cutlass.Vector.from_elements((pair,), Int32).bitcast(BFloat16).to(Float32)
    out[3, t] = both[0] * 1000.0 + both[1]
    eight = primitives.cvt_packfloat_f32(
        x[t],
        500.0,
        0,
        primitives.CVTPackFloat.E4M3X2,
        rnd=primitives.FPRoundingMode.RN,
        sat=primitives.SaturationModeKind.SATFINITE,
    )
    out[4, t] = Float32(eight & 255)
    out[5, t] = cute.arch.shuffle_sync_op(x[t], 3, 0xFFFFFFFF, 7199)
    out[6, t] = cute.arch.shuffle_sync_op(x[t], 3, kind=nvvm.ShflKind.bfly)
    distributed.atomicAdd(count.iterator, Int32(2))
    nvvm.memory_barrier(nvvm.MemScopeKind.GPU)
    flags = arith.FastMathFlags
    out[7, t] = Float32(math.exp2(x[t].ir_value(), fastmath=flags.none))
    out[8, t] = Float32(math.exp2(x[t].ir_value(), fastmath=flags.fast))
    out[9, t] = Float32(0.0)
    if Boolean(nvvm.elect_sync()):
        out[9, t] = Float32(1.0)
matrices @launched(32, preferred_smem_carveout=50):
    """Four 8 x 8 matrices of 16 bits, and the first one transposed."""
    shared = cutlass.Array(Int32, 128, space=cutlass.AddressSpace.smem, alignment=16)
    for i in cutlass.range_constexpr(4):
        shared[4 * t + i] = x[4 * t + i]
    cute.arch.barrier()
    rows = shared.data_ptr() + 4 * t
    four = primitives.ldmatrix(rows, 4, primitives.MMALayout.ROW, shape=primitives.LoadShape.M8N8)
    for i in cutlass.range_constexpr(4):
        out[i, t] = four[i]
    out[4, t] = primitives.ldmatrix(shared.data_ptr() + 4 * (t % 8), 1, primitives.MMALayout.COL)
''')
