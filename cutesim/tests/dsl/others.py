"""Kernels as public repositories write them: inline assembly, structs of shared memory, partials, pointers made of addresses."""

import functools
from dataclasses import dataclass

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, cutlass_dsl, pipeline
from cutlass._mlir.dialects import llvm
from cutlass.base_dsl import enums, typing
from cutlass.cutlass_dsl import dsl_user_op
from cutlass.experimental import primitives

from .hosts import Constexpr, initialise, launched, one_warp
from .written import write

T = cutlass_dsl.T
SIDE_EFFECTS = {"has_side_effects": True, "is_align_stack": False, "asm_dialect": llvm.AsmDialect.AD_ATT}
NEXT, TWICE = lambda n: n + 1, lambda n: n * 2
BY_NAME = {"next": lambda n: n + 1, "twice": lambda n: n * 2}
# by the DSL where it is installed
MADE_OUTSIDE = pipeline.NamedBarrier(barrier_id=2, num_threads=32)


def asm(result, text, constraints, *operands):
    return llvm.inline_asm(result, [x.ir_value() for x in operands], text, constraints, **SIDE_EFFECTS)


@cutlass_dsl.dsl_user_op
def mapa(ptr: cute.Pointer, rank: Int32, *, loc=None, ip=None) -> Int32:
    """The cluster's address of the same place in another block."""
    return Int32(asm(T.i32(), "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", ptr.toint(loc=loc, ip=ip), Int32(rank)))


@dsl_user_op
def send(value: Float32, ptr: cute.Pointer, mbar: cute.Pointer, rank: Int32, *, loc=None, ip=None):
    text = "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [$0], $1, [$2];"
    asm(None, text, "r,f,r", mapa(ptr, rank, loc=loc, ip=ip), Float32(value), mapa(mbar, rank, loc=loc, ip=ip))


@dsl_user_op
def exp2_fast(a: Float32, *, loc=None, ip=None) -> Float32:
    return Float32(asm(T.f32(), "ex2.approx.ftz.f32 $0, $1;", "=f,f", Float32(a)))


@dsl_user_op
def load_four(ptr: cute.Pointer, wanted: Int32, *, loc=None, ip=None):
    """Four words where `wanted`, else zeros."""
    text = """{
        .reg .pred p;
        setp.ne.s32 p, $5, 0;
        mov.b32 $0, 0; mov.b32 $1, 0; mov.b32 $2, 0; mov.b32 $3, 0;
        @p ld.global.v4.b32 {$0, $1, $2, $3}, [$4];
    }"""
    four = llvm.StructType.get_literal([T.i32()] * 4)
    words = asm(four, text, "=r,=r,=r,=r,l,r", ptr.toint(loc=loc, ip=ip), Int32(wanted))
    return tuple(Int32(llvm.extractvalue(T.i32(), words, [i], loc=loc, ip=ip)) for i in range(4))


@dsl_user_op
def between(a: Float32, low: Float32, high: Float32, *, loc=None, ip=None) -> Float32:
    """`a` brought between two bounds, through a register of its own."""
    text = "{ .reg .f32 t; max.f32 t, $1, $2; min.f32 $0, t, $3; }"
    return Float32(asm(T.f32(), text, "=f,f,f,f", *map(Float32, (a, low, high))))


@dsl_user_op
def clock(*, loc=None, ip=None) -> Int32:
    return Int32(asm(T.i32(), "mov.u32 $0, %clock;", "=r"))


def scaled(factor, x):
    return factor * x


@cute.struct
class Storage:
    mbar: cute.struct.MemRange[cutlass.Int64, 2]
    flag: cutlass.Int32
    sX: cute.struct.Align[cute.struct.MemRange[cutlass.Float32, 64], 128]


@cute.kernel
def reversed_kernel(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    storage = cutlass.memory.SmemAllocator().allocate(Storage)
    sX = storage.sX.get_tensor(cute.make_layout(64))
    sX[tidx] = x[tidx]
    cute.arch.sync_threads()
    twice = functools.partial(scaled, 2.0)
    type = x.element_type  # a name of Python's that a kernel may use
    words = cute.make_ptr(
        cutlass.Float32, out.iterator.toint() + cutlass.Int64(tidx) * 4, cute.AddressSpace.gmem, assumed_align=4
    )
    one = cute.make_tensor(cute.recast_ptr(cute.recast_ptr(words, dtype=Int32), dtype=Float32), 1)
    one[0] = twice(sX[63 - tidx]) + max(float(a) for a in (0, 1)) - type(1.0)


@cute.jit
def in_reverse(x: cute.Tensor, out: cute.Tensor, *, stream):
    cute.printf("{} elements", cute.size(x))
    reversed_kernel(x, out).launch(grid=[1, 1, 1], block=[64, 1, 1], stream=stream)


@cute.kernel
def shapes_kernel(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    mine = cute.local_partition(x, cute.make_ordered_layout((2, 4), order=(1, 0)), tidx)
    row, column = cute.idx2crd(tidx, (2, 4))
    kind = type(x[0, 0])
    out[tidx, 0] = mine[1, 1]
    out[tidx, 1] = kind(row)
    out[tidx, 2] = kind(column)
    out[tidx, 3] = cutlass.Float32.zero + Float32(cute.size(cute.filter_zeros(cute.make_layout((4, 2), stride=(1, 0)))))


@cute.jit
def shapes(x: cute.Tensor, out: cute.Tensor):
    print(cute.repeat_like(1, (2, (3, 4))), cute.flatten_to_tuple((1, (2, 3))), cute.is_static(x.layout))
    shapes_kernel(x, out).launch(grid=[1, 1, 1], block=[8, 1, 1])


def helper(x):
    cute.nvgpu.tcgen05.commit(x)


@cute.jit
def composed_numbers():
    """What swizzles make of offsets, as the tracing Python sees it."""
    for parameters in ((3, 2, 3), (2, 4, 3), (5, 0, 5), (1, 3, -2)):
        layout = cute.make_composed_layout(cute.make_swizzle(*parameters), 0, cute.make_layout((8, 16), stride=(16, 1)))
        print(layout if parameters[2] > 0 else parameters, [layout((i, 3 * i % 16)) for i in range(8)])


@dataclass
class Counter:
    """A dataclass, which the DSL takes apart into its values."""

    count: Int32
    step: Constexpr[int]

    def advance(self):
        self.count = self.count + self.step


@cute.struct
class Numbers:
    values: cute.struct.MemRange[Float32, 4]
    count: cute.struct.Align[Int32, 16]


@dsl_user_op
def pair(low: Float32, high: Float32, *, loc=None, ip=None) -> cutlass.Int64:
    both = typing.Vector.from_elements((low, high), Float32, loc=loc, ip=ip)
    return both.bitcast(cutlass.Int64, loc=loc, ip=ip).to_elements(loc=loc, ip=ip)[0]


@cute.kernel
def odds_kernel(x: cute.Pointer, out: cute.Tensor):
    """What public kernels use besides: each line fills one row of out."""
    lane = cute.arch.lane_idx()
    source = cute.make_tensor(x, cute.make_layout(32))
    print(source.type)
    if lane == 0:
        cute.print_tensor(source)
    counter = Counter(Int32(0), 3)
    if lane < 8:
        counter.advance()
    for _ in range(lane & 1):
        counter.advance()
    out[0, lane] = Float32(counter.count)
    numbers = cutlass.memory.SmemAllocator().allocate(Numbers)
    if lane == 0:
        numbers.values[2] = Float32(7)
        numbers.count = 5
    cute.arch.sync_warp()
    out[1, lane] = numbers.values[2] + Float32(numbers.count.ptr.load())
    out[2, lane] = Float32(Int32(pair(Float32(1), source[lane]) >> 32)) + cutlass.Float.zero
    arch = cutlass.base_dsl.BaseDSL._get_dsl().get_arch_enum()
    assert arch >= enums.Arch.sm_90
    half = cutlass.Uint32(0xFFFF) << (lane // 16 * 16)  # of each half of the warp its own
    total = source[lane]
    for offset in cutlass.range_constexpr(4):
        if lane != 40:
            total += cute.arch.shuffle_sync_bfly(total, 1 << offset, mask=half)
    moved = cute.domain_offset((1, None), cute.make_tensor(x, cute.make_layout((2, 16))))
    total += moved[0, 3] - source[7]
    out[5, lane] = cute.prepend_ones(source, up_to_rank=2)[0, lane] - total
    out[4, lane] = Float32(primitives.redux_sync(lane, primitives.ReductionKind.MAX, 0xFFFFFFFF))
    out[3, lane] = cute.arch.inline_ptx(
        "ex2.approx.ftz.f32 {$w0}, {$r0};", write_only_types=[Float32], read_only_args=[Float32(lane)]
    )


@cute.jit
def odds(x: cute.Pointer, out: cute.Tensor):
    odds_kernel.set_name_prefix("odds")
    odds_kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])


@dsl_user_op
def arrive(ptr: cute.Pointer, *, loc=None, ip=None) -> cutlass.Uint32:
    text, one = "atom.add.release.gpu.u32 $0, [$1], $2;", cutlass.Uint32(1)
    return cutlass.Uint32(asm(cutlass.Uint32.mlir_type, text, "=r,l,r", ptr.toint(loc=loc, ip=ip), one))


@dsl_user_op
def arrived(ptr: cute.Pointer, *, loc=None, ip=None) -> cutlass.Uint32:
    text = "ld.acquire.gpu.u32 $0, [$1];"
    return cutlass.Uint32(asm(cutlass.Uint32.mlir_type, text, "=r,l", ptr.toint(loc=loc, ip=ip)))


def pipeline_of(kind, storage):
    threads = pipeline.CooperativeGroup(pipeline.Agent.Thread, 32)
    one = pipeline.CooperativeGroup(pipeline.Agent.Thread)
    if kind == "bulk":
        return pipeline.PipelineTmaAsync.create(
            barrier_storage=storage, num_stages=2, producer_group=one, consumer_group=one, tx_count=128
        )
    made = pipeline.PipelineCpAsync if kind == "cp.async" else pipeline.PipelineAsync
    return made.create(barrier_storage=storage, num_stages=2, producer_group=threads, consumer_group=threads)


@cute.jit
def fill(kind: Constexpr, source, stage, lane, barrier):
    if cutlass.const_expr(kind == "bulk"):
        bulk = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), Float32)
        with cute.arch.elect_one():
            cute.copy(bulk, source, stage, mbar_ptr=barrier)
    elif cutlass.const_expr(kind == "cp.async"):
        word = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), Float32, num_bits_per_copy=32)
        cute.copy(word, cute.local_tile(source, (1,), (lane,)), cute.local_tile(stage, (1,), (lane,)))
    else:
        stage[lane] = source[lane]


@cute.jit
def exchanged(value, slots, tidx):
    """What the thread at the other end of the block has."""
    cute.arch.barrier()
    slots[tidx] = value
    cute.arch.barrier()
    return slots[63 - tidx]


def fence(fences, where):
    if where in fences:
        cute.arch.fence_acq_rel_gpu()


write(globals())('''
swap @launched(32, blocks=2, cluster=2):
    """Two blocks of a cluster exchange 2 ^ x."""
    box = smem.allocate_tensor(Float32, cute.make_layout(32))
    mbar = smem.allocate_array(cutlass.Int64, 1)
    rank = cute.arch.block_idx_in_cluster()
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive_relaxed()
    cute.arch.cluster_wait()
    if tidx == 0:
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, 128)
    send(exp2_fast(x[bidx, tidx]), box.iterator + tidx, mbar, 1 - rank)
    cute.arch.mbarrier_wait(mbar, 0)
    out[bidx, tidx] = box[tidx]
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
four @launched(8):
    words = load_four(x.iterator + 4 * tidx, Int32(tidx < 5))
    for i in cutlass.range_constexpr(4):
        out[4 * tidx + i] = between(words[i].bitcast(Float32), 3.0, 17.5)
locked(lock, total, out) @launched(32, blocks=3):
    """Each block adds 1 to a total that a lock guards, taken and given back by atomics that acquire and release."""
    if tidx < 12:
        out[tidx, 0] = cute.arch.activemask()
    out[tidx, 1] = cute.arch.clz(tidx)
    if tidx == 0:
        held = cutlass.Int32(1)
        while held != 0:
            held = cute.arch.atomic_cas(
                lock.iterator, cmp=cutlass.Int32(0), val=cutlass.Int32(1), sem="acquire", scope="gpu"
            )
        place = (total.iterator + 1) - 1
        place.store(place.load() + 1)
        cute.arch.atomic_exch(lock.iterator, cutlass.Int32(0), sem="release", scope="gpu")
transpose(x, out, *, how='elements', parameters=(5, 0, 5)):
    """A (32, 32) tile through shared memory, swizzled so that neither its rows nor its columns meet in a bank."""
    plain = cute.make_layout((32, 32), stride=(32, 1))
    layout = cute.make_composed_layout(cute.make_swizzle(*parameters), 0, plain)
    sX = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, layout, byte_alignment=128)
    if cutlass.const_expr(how == "vectors"):
        for i in cutlass.range_constexpr(8):
            tile = (4 * i + lane // 8, lane % 8)
            cute.autovec_copy(cute.local_tile(x, (1, 4), tile), cute.local_tile(sX, (1, 4), tile))
    else:
        for i in cutlass.range_constexpr(cute.size(layout, mode=[0])):
            row = sX[i, None]
            row[lane] = x[i, lane]
    cute.arch.sync_warp()
    for i in cutlass.range_constexpr(32):
        out[i, lane] = sX[lane, i]
meet(count, x, out) @launched(32, blocks=2, cooperative=True):
    """Two blocks meet at a counter in global memory, then each reads what the other wrote."""
    x[bidx, tidx] = Float32(32 * bidx + tidx)
    cute.arch.barrier()
    if tidx == 0:
        arrive(count.iterator)
        seen = cutlass.Uint32(0)
        while seen < 2:
            seen = arrived(count.iterator)
    cute.arch.barrier()
    out[bidx, tidx] = x[1 - bidx, tidx]
pairs(out) @launched(32, blocks=2, cluster=2):
    """64 bits to the other block of a cluster in one st.async."""
    slot = smem.allocate_tensor(cutlass.Int64, cute.make_layout(1), 8)
    mbar = smem.allocate_array(cutlass.Int64, 1)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, 8)
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    if tidx == 0:
        there = Int32(cute.arch.map_dsmem_ptr(slot.iterator, bidx ^ 1).toint())
        barrier = Int32(cute.arch.map_dsmem_ptr(mbar, bidx ^ 1).toint())
        cute.arch.inline_ptx(
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.s64 [{$r0}], {$r1}, [{$r2}];",
            read_only_args=[there, (cutlass.Int64(1) << 40) + bidx, barrier],
        )
    cute.arch.mbarrier_wait(mbar, 0)
    out[bidx, tidx] = slot[0]
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
by_hand:
    """What pipelines are made of, and barriers of a pipeline's kind."""
    sX = smem.allocate_tensor(Float32, cute.make_layout(32), 16)
    mbar = smem.allocate_array(cutlass.Int64, 1)
    if lane == 0:
        cute.arch.mbarrier_init(mbar, 32)
    cute.arch.mbarrier_init_fence()
    pipeline.sync(barrier_id=1)
    word = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), Float32, num_bits_per_copy=32)
    cute.copy(word, cute.local_tile(x, (1,), (lane,)), cute.local_tile(sX, (1,), (lane,)))
    cute.arch.cp_async_mbarrier_arrive_noinc(mbar)
    state = pipeline.PipelineState(1, Int32(0), Int32(0), Int32(0))
    cute.arch.mbarrier_wait(mbar + state.index, state.phase)
    value = sX[31 - lane]
    MADE_OUTSIDE.arrive_and_wait()
    out[lane] = value
listed @launched(64):
    slots = cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(64), 16)
    pairs = ((1.0, 2.0), (3.0, 4.0))
    parts = [exchanged(x[tidx] + a * b, slots, tidx) for a, b in pairs if a < 2.0 or b > 3.0]
    out[0, tidx] = parts[0] + parts[1]
    unit = parts[0] * 0.01
    out[1, tidx] = cute.math.erf(unit) + cute.math.tan(unit) - cute.math.atan2(parts[0], parts[1])
    out[2, tidx] = cute.math.asin(unit) + cute.math.acos(unit) * cute.math.atan(unit)
lambdas_of_one_line = 6 * lane + 2: out[tidx] = Float32(NEXT(tidx) + TWICE(tidx) + BY_NAME["next"](tidx) + BY_NAME["twice"](tidx))
coordinates_of_one_mode = 2 * lane + 11:
    c, plain = cute.make_identity_tensor((32,)), cute.make_identity_tensor(32)
    tile = cute.local_tile(c, (8,), (1,))
    out[tidx] = Float32(c[tidx][0] + plain[tidx] + tile[3][0])
divided_by_one_mode = (lane, [2, 2, 2, 1, 11]):
    out[tidx] = x[tidx]
    n = tidx + 33
    if tidx == 0:
        out[32] = Float32(cute.ceil_div(n, (32,)))
        out[33] = Float32(cute.ceil_div(33, (32,)))
        out[34] = Float32(cute.ceil_div((33, 1), (32,))[0])
        out[35] = Float32(cute.ceil_div((33, 1), (32,))[1])
        out[36] = Float32(cute.ceil_div((100, 7), 64))
counted_when_it_runs = lane:
    cute.arch.barrier(barrier_id=1, number_of_threads=cute.arch.block_dim()[0])
    out[tidx] = x[tidx]
given_in_one_arm(out):
    counter = Counter(Int32(0), 3)
    if lane < 8:
        counter.extra = lane
    out[lane] = counter.extra  # here
flagged(x, flag, out, *, fences=()) @launched(64, blocks=2, cooperative=True):
    """Block 0 writes x and sets a flag, block 1 waits for it and reads; `fences` says where there are any."""
    if bidx == 0:
        fence(fences, "before the write")
        x[tidx] = 1.0
        fence(fences, "before the barrier")
        cute.arch.barrier()
        if tidx == 0:
            fence(fences, "before the flag")
            cute.arch.atomic_add(flag.iterator, 1)  # set
        fence(fences, "after the flag")
    else:
        if tidx == 0:
            seen = Int32(0)
            while seen == 0:
                seen = cute.arch.atomic_add(flag.iterator, 0)  # seen
            fence(fences, "after seeing it")
        cute.arch.barrier()
        fence(fences, "after the other barrier")
        out[tidx] = x[tidx]
stages(x, out, *, kind, handles=False, releases=True, early="", meets=True) @launched(64):
    """Warp 0 brings columns of x to two stages of shared memory, warp 1 takes them from there to out."""
    warp = cute.arch.warp_idx()
    stages = smem.allocate_tensor(Float32, cute.make_layout((32, 2)), 16)
    pipe = pipeline_of(kind, smem.allocate_array(cutlass.Int64, 4))
    if cutlass.const_expr(handles):
        producer, consumer = pipe.make_participants()
        if warp == 0:
            for i in range(4):
                slot = producer.acquire_and_advance()
                fill(kind, x[None, i], stages[None, slot.index], lane, slot.barrier)
                slot.commit()
            producer.tail()
        else:
            for i in range(4):
                slot = consumer.wait_and_advance()
                out[lane, i] = stages[lane, slot.index]
                if cutlass.const_expr(meets):
                    cute.arch.sync_warp()
                slot.release()
    elif warp == 0:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, 2)
        for i in range(4):
            pipe.producer_acquire(state)
            if cutlass.const_expr(early == "commit"):
                pipe.producer_commit(state)
            fill(kind, x[None, i], stages[None, state.index], lane, pipe.producer_get_barrier(state))
            if cutlass.const_expr(early != "commit"):
                pipe.producer_commit(state)
            state.advance()
        pipe.producer_tail(state)
    else:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 2)
        for i in range(4):
            pipe.consumer_wait(state)
            if cutlass.const_expr(early == "release"):
                pipe.consumer_release(state)
            out[lane, i] = stages[lane, state.index]
            if cutlass.const_expr(meets):
                cute.arch.sync_warp()
            if cutlass.const_expr(releases and early != "release"):
                pipe.consumer_release(state)
            state.advance()
half_arrive(x) @launched(64):
    """Half of those that an mbarrier counts arrive at it, and all wait."""
    mbar = cutlass.memory.SmemAllocator().allocate_array(cutlass.Int64, 1)
    initialise(mbar, 64)
    if tidx < 32:
        cute.arch.mbarrier_arrive(mbar)
    cute.arch.mbarrier_wait(mbar, 0)
    x[tidx] = 1.0
reads_the_peer(x, out, *, early) @launched(32, blocks=2, cluster=2):
    """A block reads what was sent to its peer, which waits for it: before or after the cluster barrier."""
    box = smem.allocate_tensor(Float32, cute.make_layout(32), 16)
    mbar = smem.allocate_array(cutlass.Int64, 1)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(mbar, 128)
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    cute.arch.store_async_dsmem(box.iterator + tidx, x[tidx], mbar, 1 - rank)
    if cutlass.const_expr(early):
        cute.arch.mbarrier_wait(mbar, 0)
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    theirs = cute.make_tensor(cute.arch.map_dsmem_ptr(box.iterator + tidx, 1 - rank), cute.make_layout(1))
    mine = cute.make_rmem_tensor((1,), Float32)
    cute.autovec_copy(theirs, mine)
    out[tidx] = mine[0]
    if cutlass.const_expr(not early):
        cute.arch.mbarrier_wait(mbar, 0)  # too late
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
print_sizes() @launched(64):
    @cute.struct
    class Inner:
        small: cute.struct.MemRange[cutlass.Int8, 3]
        wide: cute.struct.MemRange[cutlass.Int64, 2]
    storage = cutlass.memory.SmemAllocator().allocate(Inner)
    print(Storage.size_in_bytes(), Inner.size_in_bytes(), storage.wide.data_ptr().value_type)
    for i in cutlass.range_constexpr(2):
        print("pass", i)
''')
LACKING = write(globals())("""
ask_the_clock: x[0] = Float32(clock())
unknown:
    cute.make_cotiled_copy(1, 2, 3)
    cute.arch.clock64()
    helper(x)
""")
TAKEN = "lambdas_of_one_line coordinates_of_one_mode".split()
TAKEN += "divided_by_one_mode counted_when_it_runs".split()
