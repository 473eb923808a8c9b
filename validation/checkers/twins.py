"""The kernels of `kernels` once more, in TIRx: `bug` is a number that the kernel gets, 0 for right.

Only an interpreter that has tirx-harness can import this. Lines marked `# here` are those that a finding should name.
"""

from tvm.script import tirx as T

BULK_IN = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
BULK_OUT = "cp.async.bulk.global.shared::cta.bulk_group"
REMOTE = "st_async.shared::cluster.mbarrier::complete_tx::bytes.u32"
# fmt: off


@T.prim_func
def transpose(bug: T.int32, x: T.Buffer((1024,), "float32"), out: T.Buffer((1024,), "float32")):
    T.device_entry()
    block = T.cta_id([4])
    warp = T.warp_id([8])
    lane = T.lane_id([32])
    tile = T.alloc_buffer((272,), "float32", scope="shared")
    t = warp * 32 + lane
    i = t // 16
    j = t % 16
    bx = block % 2
    by = block // 2
    tile[i * 17 + j] = x[(by * 16 + i) * 32 + bx * 16 + j]  # here
    if bug == 0:
        T.cuda.cta_sync()
    else:
        T.cuda.warp_sync()
    out[(bx * 16 + i) * 32 + by * 16 + j] = tile[j * 17 + i]  # here


@T.prim_func
def divergent_barrier(bug: T.int32, x: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
    T.device_entry()
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    s = T.alloc_buffer((64,), "float32", scope="shared")
    t = warp * 32 + lane
    s[t] = x[t]
    if bug == 0 or t < 48:
        T.cuda.cta_sync()  # here
    out[t] = s[63 - t]


@T.prim_func
def reused_slot(bug: T.int32, x: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
    T.device_entry()
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    s = T.alloc_buffer((64,), "float32", scope="shared")
    first = T.local_scalar("float32")
    t = warp * 32 + lane
    s[t] = x[t]
    T.cuda.cta_sync()
    first = s[63 - t]  # here
    if bug == 0:
        T.cuda.cta_sync()
    s[t] = first + first  # here
    T.cuda.cta_sync()
    out[t] = first + s[63 - t]


@T.prim_func
def missing_sync_warp(bug: T.int32, x: T.Buffer((32,), "float32"), out: T.Buffer((32,), "float32")):
    T.device_entry()
    _warp = T.warp_id([1])
    lane = T.lane_id([32])
    s = T.alloc_buffer((32,), "float32", scope="shared")
    s[lane] = x[lane]  # here
    if bug == 0:
        T.cuda.warp_sync()
    out[lane] = s[31 - lane]  # here


@T.prim_func
def shuffle_for_order(bug: T.int32, x: T.Buffer((32,), "float32"), out: T.Buffer((32,), "float32")):
    T.device_entry()
    _warp = T.warp_id([1])
    lane = T.lane_id([32])
    s = T.alloc_buffer((32,), "float32", scope="shared")
    value = T.local_scalar("float32")
    value = x[lane]
    s[lane] = value  # here
    value = T.cuda.__shfl_xor_sync(T.uint32(0xFFFFFFFF), value, 31, 32)
    if bug == 0:
        T.cuda.warp_sync()
    out[lane] = value + s[31 - lane]  # here


@T.prim_func
def missing_wait(bug: T.int32, x: T.Buffer((32,), "float32"), out: T.Buffer((32,), "float32")):
    T.device_entry()
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    full = T.alloc_buffer((1,), "uint64", scope="shared")
    s = T.alloc_buffer((32,), "float32", scope="shared")
    if (warp == 0) and (lane == 0):
        T.ptx.mbarrier.init.shared.b64(full.ptr_to([0]), 32)
        T.ptx.fence.mbarrier_init.release.cluster()
    T.cuda.cta_sync()
    if warp == 0:
        s[lane] = x[lane]  # here
        T.ptx.mbarrier.arrive.shared.b64(full.ptr_to([0]))
    else:
        if bug == 0:
            T.cuda.mbarrier_wait(full.ptr_to([0]), 0)
        out[lane] = s[31 - lane]  # here


@T.prim_func
def two_halves(bug: T.int32, x: T.Buffer((128,), "float32"), out: T.Buffer((128,), "float32")):
    T.device_entry()
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    full = T.alloc_buffer((2,), "uint64", scope="shared")
    empty = T.alloc_buffer((2,), "uint64", scope="shared")
    s = T.alloc_buffer((64,), "float32", scope="shared")
    if (warp == 0) and (lane == 0):
        for k in T.serial(2):
            T.ptx.mbarrier.init.shared.b64(full.ptr_to([k]), 32)
            T.ptx.mbarrier.init.shared.b64(empty.ptr_to([k]), 32)
        T.ptx.fence.mbarrier_init.release.cluster()
    T.cuda.cta_sync()
    if warp == 1:
        for k in T.serial(4):
            T.cuda.mbarrier_wait(empty.ptr_to([k % 2]), 1 - k // 2)  # here
            s[k % 2 * 32 + lane] = x[k * 32 + lane]  # here
            T.ptx.mbarrier.arrive.shared.b64(full.ptr_to([k % 2]))  # here
    else:
        for k in T.serial(4):
            if bug == 0:
                T.cuda.mbarrier_wait(full.ptr_to([k % 2]), k // 2)
            else:
                T.cuda.mbarrier_wait(full.ptr_to([k % 2]), 0)  # here
            out[k * 32 + lane] = s[k % 2 * 32 + 31 - lane]  # here
            T.ptx.mbarrier.arrive.shared.b64(empty.ptr_to([k % 2]))


@T.prim_func
def wrong_bytes(bug: T.int32, x: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
    T.device_entry()
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    full = T.alloc_buffer((1,), "uint64", scope="shared")
    s = T.alloc_buffer((64,), "float32", scope="shared", align=128)
    t = warp * 32 + lane
    if t == 0:
        T.ptx.mbarrier.init.shared.b64(full.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init.release.cluster()
    T.cuda.cta_sync()
    if t == 0:
        T.ptx.mbarrier.arrive.expect_tx.shared.b64(full.ptr_to([0]), T.Select(bug == 0, T.uint32(256), T.uint32(512)))  # here
        T.ptx[BULK_IN](s.ptr_to([0]), x.ptr_to([0]), T.uint32(256), full.ptr_to([0]))  # here
    T.cuda.mbarrier_wait(full.ptr_to([0]), 0)  # here
    out[t] = s[63 - t]


@T.prim_func
def unpublished_init(bug: T.int32, x: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
    T.device_entry()
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    full = T.alloc_buffer((1,), "uint64", scope="shared")
    t = warp * 32 + lane
    if t == 0:
        T.ptx.mbarrier.init.shared.b64(full.ptr_to([0]), 64)  # here
        T.ptx.fence.mbarrier_init.release.cluster()
    if bug == 0:
        T.cuda.cta_sync()
    else:
        T.cuda.warp_sync()
    T.ptx.mbarrier.arrive.shared.b64(full.ptr_to([0]))  # here
    T.cuda.mbarrier_wait(full.ptr_to([0]), 0)  # here
    out[t] = x[t]


@T.prim_func
def wrong_count(bug: T.int32, x: T.Buffer((32,), "float32"), out: T.Buffer((32,), "float32")):
    T.device_entry()
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    full = T.alloc_buffer((1,), "uint64", scope="shared")
    s = T.alloc_buffer((32,), "float32", scope="shared")
    if (warp == 0) and (lane == 0):
        T.ptx.mbarrier.init.shared.b64(full.ptr_to([0]), T.Select(bug == 0, T.uint32(32), T.uint32(33)))  # here
        T.ptx.fence.mbarrier_init.release.cluster()
    T.cuda.cta_sync()
    if warp == 0:
        s[lane] = x[lane]
        T.ptx.mbarrier.arrive.shared.b64(full.ptr_to([0]))  # here
    else:
        T.cuda.mbarrier_wait(full.ptr_to([0]), 0)  # here
        out[lane] = s[31 - lane]


@T.prim_func
def bulk_store(bug: T.int32, x: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
    T.device_entry()
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    s = T.alloc_buffer((64,), "float32", scope="shared", align=128)
    t = warp * 32 + lane
    s[63 - t] = x[t] + T.float32(1)  # here
    if bug == 0:
        T.ptx.fence.proxy.async_.shared__cta()
    T.cuda.cta_sync()
    if t == 0:
        T.ptx[BULK_OUT](out.ptr_to([0]), s.ptr_to([0]), T.uint32(256))  # here
        T.ptx.cp.async_.bulk.commit_group()
        T.ptx.cp.async_.bulk.wait_group(0)


@T.prim_func
def early_remote_store(bug: T.int32, x: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
    T.device_entry()
    _cluster = T.cluster_id([1])
    rank = T.cta_id_in_cluster([2])
    _warp = T.warp_id([1])
    lane = T.lane_id([32])
    full = T.alloc_buffer((1,), "uint64", scope="shared")
    box = T.alloc_buffer((1,), "float32", scope="shared")
    theirs = T.local_scalar("uint32")
    theirs_full = T.local_scalar("uint32")
    if lane == 0:
        T.ptx.mbarrier.init.shared.b64(full.ptr_to([0]), 1)  # here
        T.ptx.fence.mbarrier_init.release.cluster()
        T.ptx.mbarrier.arrive.expect_tx.shared.b64(full.ptr_to([0]), T.uint32(4))
    if bug == 0:
        T.cuda.cluster_sync()
    if lane == 0:
        T.ptx["mapa.shared::cluster.u32"](theirs, T.cuda.cvta_generic_to_shared(box.ptr_to([0])), T.cast(1 - rank, "uint32"))
        T.ptx["mapa.shared::cluster.u32"](theirs_full, T.cuda.cvta_generic_to_shared(full.ptr_to([0])), T.cast(1 - rank, "uint32"))
        T.ptx[REMOTE](theirs, T.reinterpret("uint32", x[rank * 32]), theirs_full)  # here
    T.cuda.mbarrier_wait(full.ptr_to([0]), 0)
    out[rank * 32 + lane] = box[0]
    T.cuda.cluster_sync()


@T.prim_func
def reads_the_peer(bug: T.int32, x: T.Buffer((128,), "float32"), out: T.Buffer((128,), "float32")):
    T.device_entry()
    _cluster = T.cluster_id([1])
    rank = T.cta_id_in_cluster([2])
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    s = T.alloc_buffer((64,), "float32", scope="shared")
    theirs = T.local_scalar("uint32")
    value = T.local_scalar("float32")
    t = warp * 32 + lane
    s[t] = x[rank * 64 + t]
    T.cuda.cluster_sync()
    T.ptx["mapa.shared::cluster.u32"](theirs, T.cuda.cvta_generic_to_shared(s.ptr_to([63 - t])), T.cast(1 - rank, "uint32"))
    T.ptx["ld.shared::cluster.f32"](value, theirs)  # here
    out[rank * 64 + t] = s[t] + value
    if bug == 0:
        T.cuda.cluster_sync()


@T.prim_func
def no_wait_group(bug: T.int32, x: T.Buffer((32,), "float32"), out: T.Buffer((32,), "float32")):
    T.device_entry()
    _warp = T.warp_id([1])
    lane = T.lane_id([32])
    s = T.alloc_buffer((32,), "float32", scope="shared", align=16)
    T.ptx["cp.async.ca.shared.global"](s.ptr_to([lane]), x.ptr_to([lane]), 4, 4)  # here
    T.ptx.cp.async_.commit_group()
    if bug == 0:
        T.ptx.cp.async_.wait_group(0)
    T.cuda.cta_sync()
    out[lane] = s[31 - lane]  # here


@T.prim_func
def wait_group_off_by_one(bug: T.int32, x: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
    T.device_entry()
    _warp = T.warp_id([1])
    lane = T.lane_id([32])
    s = T.alloc_buffer((64,), "float32", scope="shared", align=16)
    for k in T.serial(2):
        T.ptx["cp.async.ca.shared.global"](s.ptr_to([32 * k + lane]), x.ptr_to([32 * k + lane]), 4, 4)  # here
        T.ptx.cp.async_.commit_group()
    T.ptx.cp.async_.wait_group(1)
    T.cuda.cta_sync()
    out[lane] = s[31 - lane]
    if bug == 0:
        T.ptx.cp.async_.wait_group(0)
    else:
        T.ptx.cp.async_.wait_group(1)
    T.cuda.cta_sync()
    out[32 + lane] = s[63 - lane]  # here


@T.prim_func
def grid_stride(bug: T.int32, x: T.Buffer((150,), "float32"), out: T.Buffer((150,), "float32")):
    T.device_entry()
    block = T.cta_id([2])
    _warp = T.warp_id([1])
    lane = T.lane_id([32])
    at = T.local_scalar("int32")
    at = block * 32 + lane
    while at < T.Select(bug == 0, 150, 151):
        out[at] = x[at] * T.float32(2) + T.float32(1)  # here
        at = at + 64


@T.prim_func
def two_writers(bug: T.int32, x: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
    T.device_entry()
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    t = warp * 32 + lane
    if bug == 0:
        out[t] = x[t]
    else:
        out[t % 63] = x[t]  # here


@T.prim_func
def equal_writers(bug: T.int32, x: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
    T.device_entry()
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    t = warp * 32 + lane
    out[t] = x[t]
    T.cuda.cta_sync()
    if t == 0 or bug != 0:
        out[0] = T.float32(1)  # here


@T.prim_func
def too_many_registers(bug: T.int32, x: T.Buffer((384,), "float32"), out: T.Buffer((384,), "float32")):
    T.device_entry()
    warp = T.warp_id([12])
    lane = T.lane_id([32])
    t = warp * 32 + lane
    if warp < 4:
        if bug == 0:
            T.ptx.setmaxnreg.dec.sync.aligned.u32(40)
        else:
            T.ptx.setmaxnreg.inc.sync.aligned.u32(232)  # here
    else:
        T.ptx.setmaxnreg.inc.sync.aligned.u32(232)  # here
    out[t] = x[t]


@T.prim_func
def overtaken(bug: T.int32, x: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
    T.device_entry()
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    full = T.alloc_buffer((1,), "uint64", scope="shared")
    empty = T.alloc_buffer((1,), "uint64", scope="shared")
    if (warp == 0) and (lane == 0):
        T.ptx.mbarrier.init.shared.b64(full.ptr_to([0]), 32)
        T.ptx.mbarrier.init.shared.b64(empty.ptr_to([0]), 32)
        T.ptx.fence.mbarrier_init.release.cluster()
    T.cuda.cta_sync()
    if warp == 0:
        for k in T.serial(3):
            if bug == 0:
                T.cuda.mbarrier_wait(empty.ptr_to([0]), (k + 1) % 2)
            T.ptx.mbarrier.arrive.shared.b64(full.ptr_to([0]))  # here
    else:
        for k in T.serial(3):
            T.cuda.mbarrier_wait(full.ptr_to([0]), k % 2)  # here
            T.ptx.mbarrier.arrive.shared.b64(empty.ptr_to([0]))
    out[warp * 32 + lane] = x[warp * 32 + lane]


@T.prim_func
def spin_lock(bug: T.int32, x: T.Buffer((96,), "float32"), y: T.Buffer((1,), "int32"), out: T.Buffer((1,), "float32")):
    T.device_entry()
    block = T.cta_id([3])
    _warp = T.warp_id([1])
    lane = T.lane_id([32])
    total = T.local_scalar("float32")
    taken = T.local_scalar("int32")
    old = T.local_scalar("int32")
    total = x[block * 32 + lane]
    for k in T.serial(5):
        total = total + T.cuda.__shfl_xor_sync(T.uint32(0xFFFFFFFF), total, 1 << k, 32)
    if lane == 0:
        taken = 1
        while taken != 0:
            T.ptx["atom.relaxed.gpu.global.cas.b32"](taken, y.ptr_to([0]), 0, 1)
        T.ptx["fence.acq_rel.gpu"]()
        out[0] = out[0] + total  # here
        if bug == 0:
            T.ptx["fence.acq_rel.gpu"]()
        T.ptx["atom.relaxed.gpu.global.exch.b32"](old, y.ptr_to([0]), 0)


@T.prim_func
def lost_wakeup(bug: T.int32, x: T.Buffer((64,), "float32"), y: T.Buffer((2,), "int32"), out: T.Buffer((64,), "float32")):
    T.device_entry()
    warp = T.warp_id([2])
    lane = T.lane_id([32])
    awake = T.alloc_buffer((1,), "uint64", scope="shared")
    work = T.local_scalar("int32")
    asleep = T.local_scalar("int32")
    old = T.local_scalar("int32")
    t = warp * 32 + lane
    if t == 0:
        T.ptx.mbarrier.init.shared.b64(awake.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init.release.cluster()
    T.cuda.cta_sync()
    if t == 0:
        if bug == 0:
            T.ptx["atom.global.exch.b32"](old, y.ptr_to([1]), 1)
        T.ptx["atom.global.or.b32"](work, y.ptr_to([0]), 0)
        if work == 0:
            if bug != 0:
                T.ptx["atom.global.exch.b32"](old, y.ptr_to([1]), 1)
            T.cuda.mbarrier_wait(awake.ptr_to([0]), 0)  # here
    else:
        if t == 32:
            T.ptx["atom.global.exch.b32"](old, y.ptr_to([0]), 1)
            T.ptx["atom.global.or.b32"](asleep, y.ptr_to([1]), 0)
            if asleep == 1:
                T.ptx.mbarrier.arrive.shared.b64(awake.ptr_to([0]))
    out[t] = x[t]
