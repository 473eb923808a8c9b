"""Rules of order, each a trace by hand that has its edge in some ways and lacks it in others: `RULES`.

Those whose report says something of its own; what else orders two accesses test_oracle tries.
"""

import numpy as np
from log import Log, at, span

from cutesim.analysis import races
from cutesim.trace import FenceKind, Op, Space

RULES = {}  # name: (a function from a way to the findings, the ways that are clean, {way: (kind, lines, more facts)})
SLOTS = span(0)  # lane i at word i
G = dict(space=Space.GMEM)


def rule(*lines, kind="race", clean=(True,), found=(False,), facts=None, **geometry):
    """Adds a function (log, way) to RULES: no finding in the ways `clean`, in those of `found` a single one of these lines.

    `found` may be {way: lines}; `facts` are more attributes of the finding.
    """
    wanted = found if isinstance(found, dict) else dict.fromkeys(found, lines)

    def add(function):
        def findings(way):
            log = Log(**geometry)
            return races((function(log, way) or log).trace())

        RULES[function.__name__] = findings, clean, {way: (kind, to, facts or {}) for way, to in wanted.items()}
        return function

    return add


# ---- warps of a block ----


@rule(31, 35, facts=dict(block=0, threads=(0, 32), count=8), threads=256)
def a_block_barrier_orders_its_warps(log, barrier):
    for warp in range(8):
        log.store(31, at(l0=4 * warp), warp=warp)
    if barrier:
        log.barrier(33, range(8))
    for warp in range(8):
        log.load(35, span(0, 4, range(8)), warp=warp)


@rule(31, 35, clean=(), found=(((0, 0, 1, 1)), (1, 1, 0, 0), (0, 1, 0, 1)), facts=dict(threads=(0, 32), count=2))
def a_report_does_not_depend_on_the_schedule(log, order):
    done = set()
    for warp in order:
        if warp in done:
            log.load(35, span(0, 4, range(2)), warp=warp)
        else:
            log.store(31, at(l0=4 * warp), warp=warp)
        done.add(warp)


@rule(31, 35, clean=())
def a_read_of_what_nothing_wrote_before_waits_for_the_write(log, _):
    """However many instructions the writing warp has behind it, and the reading one has not."""
    for _ in range(5):
        log.shuffle(20, 1)
    log.load(35, at(l0=0), warp=1)
    log.store(31, at(l0=0))


@rule(31, 35, clean=(), facts=dict(block=0, count=1), grid=3)
def the_same_race_in_many_blocks_is_one_report(log, _):
    for block in range(3):
        log.store(31, at(l0=0), block=block)
        log.load(35, at(l0=0), block=block, warp=1)


@rule(35, 39, facts=dict(threads=(32, 0)))
def a_buffer_used_twice_needs_a_barrier_before_the_second_use(log, barrier):
    log.store(31, at(l0=0))
    log.barrier(33)
    log.load(35, at(l0=0))
    if barrier:
        log.barrier(37)
    else:
        log.store(39, at(l0=0))  # a fast warp is at the second use already
    log.load(35, at(l0=0), warp=1)


@rule(31, 35, clean=[(0, 1)], found=[(0, 2)], threads=96)
def a_named_barrier_orders_only_those_who_take_part(log, waiting):
    log.store(31, at(l0=0))
    log.barrier(33, waiting, barrier_id=2)
    log.load(35, at(l0=0), warp=1)


# ---- lanes of a warp ----


@rule(3, 5, clean=("sync_warp", "barrier"), found=("", "shuffle", "vote", "redux", "elect"), facts=dict(count=32))
def lanes_of_a_warp_need_a_sync_warp_and_a_shuffle_is_none(log, between):
    log.store(3, SLOTS)
    if between in ("sync_warp", "barrier"):
        getattr(log, between)(4)
    elif between:
        log.event(4, Op[between.upper()])
    log.load(5, SLOTS[::-1])


@rule(9, 9, clean=("same",), found=("mixed", "unknown"), facts=dict(threads=(0, 31), count=1))
def lanes_write_one_word_in_one_instruction(_, values):
    log = Log(values=values != "unknown")
    log.store(9, span(0, 0), values={"same": np.full(32, 2.5), "mixed": np.arange(32.0)}.get(values))
    return log


@rule(9, 9, clean=(2.5,), found=(3.0,), values=True)
def warps_that_write_the_same_value_do_no_harm(log, other):
    log.store(9, at(l0=0), values=np.full(32, 2.5))
    log.store(9, at(l0=0), warp=1, values=np.full(32, other))


@rule(3, 5, clean=(), facts=dict(count=2))
def words_are_counted_whatever_the_widths(log, _):
    log.store(3, span(0, 16), 16)
    log.load(5, span(2, 2, range(2)), 2, warp=1)  # bytes 2 to 5: two words


# ---- blocks and launches ----


@rule(3, 5, clean=("launch",), found=("barrier",), facts=dict(count=32), grid=2)
def blocks_of_a_launch_are_never_ordered_and_launches_are(log, between):
    log.store(3, SLOTS, **G)
    log.launch() if between == "launch" else log.barrier(4)
    log.load(5, SLOTS, **G, block=1)


@rule(3, 5, clean=[(), (1,)], found=[(0,), None], grid=2, cluster=2)
def a_cluster_barrier_orders_what_came_before_unless_its_arrive_is_relaxed(log, relaxed):
    log.cluster_barrier(1)
    log.store(3, at(l0=0), block=0, owner=1)
    if relaxed is not None:
        log.cluster_barrier(4, relaxed=relaxed)
    log.load(5, at(l0=0), block=1)
    log.cluster_barrier(6)


@rule(3, 5, clean=(), grid=4, cluster=2)
def clusters_are_not_ordered_with_each_other(log, _):
    log.cluster_barrier(1, (0, 1))
    log.cluster_barrier(1, (2, 3))
    log.store(3, at(l0=0), **G, block=1)
    log.load(5, at(l0=0), **G, block=2)


# ---- fences and atomics ----

CTA, CLUSTER, GPU, SYS = FenceKind.CTA, FenceKind.CLUSTER, FenceKind.GPU, FenceKind.SYS


FENCED = [(GPU, GPU, 0), (SYS, SYS, 0), (None, None, 3), (GPU, None, 1), (None, GPU, 2)]
UNFENCED = [
    (None, GPU, 0),
    (GPU, None, 0),
    (CTA, GPU, 0),
    (GPU, CLUSTER, 0),
    (None, None, 0),
    (None, None, 1),
    (None, None, 2),
]


@rule(20, 28, clean=FENCED, found=UNFENCED, facts=dict(threads=(0, 0)), grid=3)
def fence_and_atomic_order_the_last_block_after_the_others(log, way):
    """Each block writes its part (line 20) and counts itself (23); the last one reads all parts (28)."""
    release, acquire, bits = way
    blocks, _, _ = log.geometry
    for block in range(blocks):
        for warp in (0, 1):
            log.store(20, span(256 * block + 128 * warp), **G, block=block, warp=warp)
        log.barrier(21, block=block)
        if release is not None:
            log.fence(22, release, [0], block=block)
        log.atomic(23, at(l0=8192), **G, block=block, arg=bits)
        if acquire is not None:
            log.fence(24, acquire, [0], block=block)
        log.barrier(25, block=block)
    for part in range(2 * blocks):
        log.load(28, span(128 * part), **G, block=blocks - 1, warp=part % 2)


@rule(clean=(1,), found={0: {23, 30}}, grid=2)
def a_counter_is_reset_after_every_atomic_on_it_even_without_fences(log, by):
    """The first to count does not know of the second."""
    for block in (0, 1):
        log.atomic(23, at(l0=8192), **G, block=block)
    log.store(30, at(l0=8192), **G, block=by)


# ---- the life of a block's shared memory ----


@rule(3, kind="peer not started", facts=dict(block=1), grid=2, cluster=2)
def a_peer_must_have_started(log, opening):
    if opening:
        log.cluster_barrier(1, relaxed=(0, 1))  # relaxed is enough: no memory, but everyone is there
    log.store(3, at(l0=0), block=0, owner=1)
    log.cluster_barrier(4)


OPS = (Op.STORE, Op.LOAD, Op.ATOMIC)


@rule(
    3,
    kind="exit with traffic in flight",
    clean=[(op, True) for op in OPS],
    found=[(op, False) for op in OPS],
    facts=dict(block=1),
    grid=2,
    cluster=2,
)
def a_peer_must_not_exit_while_its_memory_is_in_use(log, way):
    op, closing = way
    log.cluster_barrier(1)
    log.access(3, op, at(l0=0, l1=4), block=0, owner=1)
    if closing:
        log.cluster_barrier(4)
    log.exit(9, 0)
    log.exit(9, 1)


# ---- cp.async ----


def copied(log, wait=True, barrier=True, reader=0, n=0, commit=True):
    """Warp 0 copies at line 134; thread `reader` x 32 reads at line 141."""
    log.cp_async(134, SLOTS, SLOTS)
    if commit:
        log.commit(135)
    if wait:
        log.wait_group(137, n)
    if barrier:
        log.barrier(139)
    log.load(141, SLOTS, warp=reader)


WAYS = {
    "no wait": dict(wait=False),
    "no commit": dict(commit=False),
    "one left": dict(n=1),
    "no barrier": dict(barrier=False),
}


@rule(134, 141, kind="read before arrival", clean=("no barrier", ""), found=("no wait", "no commit", "one left"))
def cp_async_is_there_after_wait_group(log, way):
    copied(log, **WAYS.get(way, {}))


@rule(134, 141, clean=(), facts=dict(threads=(0, 32)))
def another_thread_needs_a_barrier_after_the_wait(log, _):
    copied(log, barrier=False, reader=1)


@rule(134, 138)
def two_copies_to_the_same_bytes_are_not_ordered(log, wait):
    log.cp_async(134, SLOTS, SLOTS)
    log.commit(135)
    if wait:
        log.wait_group(136)
    log.cp_async(138, SLOTS, SLOTS)


# ---- mbarriers ----


def reduced_over_a_cluster(log, wait=True, publish="fence", phase=0, barrier=True, closing=True):
    """Lane 0 of block 0 sends a word to block 1 (line 88) through an mbarrier, whose block reads it (line 92)."""
    for block in (0, 1):
        log.init(12, block=block)
        if publish == "fence":
            log.fence_init(13, [0], block=block)
    log.cluster_barrier(14, relaxed=(0, 1) if publish in ("fence", "no fence") else ())
    log.arrive(20, block=1, arg=4)
    log.done(88, log.st_async(88, at(l0=0), owner=1), phase, owner=1)
    if wait:
        log.wait(90, block=1)
        if barrier:
            log.barrier(91, block=1)
    log.load(92, at(l5=0), block=1, warp=1)
    if closing:
        log.exit(95, 0)
        log.exit(95, 1)


REDUCED = {
    "no wait": dict(wait=False, closing=False),
    "next phase": dict(phase=1, closing=False),
    "no barrier": dict(barrier=False),
    "full": dict(publish="full"),
}


@rule(
    88,
    92,
    kind="read before arrival",
    clean=("fence", "full"),
    found=("no wait", "next phase", "no barrier"),
    grid=2,
    cluster=2,
)
def st_async_arrives_with_the_phase_of_its_mbarrier(log, way):
    reduced_over_a_cluster(log, **REDUCED.get(way, {}))


@rule(12, 88, kind="mbarrier not published", clean=(), grid=2, cluster=2)
def an_init_without_its_fence_is_not_published_by_a_relaxed_cluster_barrier(log, _):
    reduced_over_a_cluster(log, publish="no fence")


@rule(12, 20, kind="mbarrier not published")
def within_a_block_an_init_needs_a_barrier(log, barrier):
    log.init(12)
    if barrier:
        log.barrier(13)
    log.arrive(20, lanes=(3,), warp=1)


@rule(30, 35, clean=[(0, 0)], found=[(1, 0), (0, -1)])
def an_arrival_releases_what_its_own_thread_did_to_those_who_wait_for_its_phase(log, way):
    """The phase -1 of a fresh mbarrier, passed by parity, acquires nothing."""
    lane, phase = way
    log.init(12)
    log.barrier(13)
    log.store(30, at(l0=0, l1=4))
    log.arrive(31, lanes=(lane,))
    log.wait(33, phase=phase, warp=1)
    log.load(35, at(l0=0), warp=1)  # lane 0's word


@rule(20, kind="exit with traffic in flight", grid=2, cluster=2)
def a_remote_arrival_must_be_seen_before_exit(log, seen):
    log.init(12, block=1)
    log.fence_init(13, [0], block=1)
    log.cluster_barrier(14, relaxed=(0, 1))
    log.arrive(20, block=0, owner=1)
    if seen:
        log.wait(21, block=1)
    log.exit(30, 0)
    log.exit(30, 1)


@rule(30, 35, clean=("st.async",), found=("bulk",), grid=2, cluster=2)
def st_async_releases_what_its_thread_did_and_a_bulk_copy_does_not(log, transfer):
    for block in (0, 1):
        log.init(12, block=block)
        log.fence_init(13, [0], block=block)
    log.store(14, at(l0=512))
    log.cluster_barrier(15)
    log.load(30, at(l0=512))
    if transfer == "st.async":
        log.done(31, log.st_async(31, at(l0=0), owner=1), owner=1)
        log.wait(33, block=1)
        log.store(35, at(l0=512), block=1, owner=0)
    else:
        log.done(31, log.bulk(31, 0, 0, 16, mbarrier=1024))
        log.wait(33, warp=1)
        log.store(35, at(l0=512), warp=1)
    log.cluster_barrier(39)


# ---- bulk copies ----


@rule(21, 25, kind="read before arrival")
def a_bulk_load_arrives_with_its_mbarrier(log, wait):
    """One cause, though two lines read and one writes too early."""
    log.init(12)
    log.fence_init(12, [0])
    log.barrier(13)
    log.arrive(20, arg=512)
    log.done(21, log.bulk(21, 0, 0, 512, mbarrier=1024))
    for warp in (0, 1):
        if wait:
            log.wait(23, warp=warp)
        log.load(25, span(128 * warp), warp=warp)
        log.store(26, span(128 * warp), warp=warp)
        log.load(27, span(128 * warp), warp=warp)


def bulk_stored(log):
    log.store(20, SLOTS)
    log.fence(20, FenceKind.PROXY_ASYNC)
    log.barrier(21)
    log.bulk(22, 0, 0, 128, store=True)
    log.commit(23, [0], bulk=True)


@rule(22, 26, facts=dict(threads=(0, 32)))
def a_bulk_store_reads_until_its_group_is_waited_for(log, wait):
    bulk_stored(log)
    if wait:
        log.wait_group(24, 0, [0], bulk=True)
    log.barrier(25)
    log.store(26, SLOTS, warp=1)


@rule(22, 25, kind="read before arrival")
def what_a_bulk_store_wrote_is_there_after_a_wait_for_writes_alone(log, written):
    bulk_stored(log)
    log.wait_group(24, 0, [0], bulk=True, read=not written)
    log.load(25, span(0, 4, [0]), **G)
    log.barrier(26)
    log.store(27, SLOTS, warp=1)  # shared memory has been read either way


@rule(22, kind="exit with traffic in flight", clean=())
def a_block_must_not_exit_while_a_bulk_store_reads_its_memory(log, _):
    bulk_stored(log)
    log.exit(30)


# ---- the async proxy ----

ASYNC, OF_SHARED, OF_GLOBAL = FenceKind.PROXY_ASYNC, FenceKind.PROXY_ASYNC_SHARED, FenceKind.PROXY_ASYNC_GLOBAL


@rule(20, 23, kind="missing proxy fence", clean=(OF_GLOBAL, ASYNC), found=(None, OF_SHARED))
def a_bulk_load_of_what_threads_wrote_to_global_memory_needs_a_proxy_fence(log, fence):
    log.init(18, lanes=[0])
    log.fence_init(19)
    log.store(20, span(0), **G)
    if fence is not None:
        log.fence(21, fence)
    log.barrier(22)
    step = log.bulk(23, 0, 0, 128, mbarrier=1024)
    log.arrive(24)
    log.done(23, step)
    log.wait(25)
    log.barrier(26)
    log.exit(27)


@rule(
    20,
    24,
    kind="missing proxy fence",
    clean=("before the barrier", "after the barrier"),
    found=("too late", "nowhere"),
    facts=dict(threads=(32, 0), count=64),
)
def a_bulk_store_sees_threads_writes_only_after_a_proxy_fence(log, where):
    """Every writer's fence before the barrier, or the copying thread's after it, is on the way; none, or a later one, is not."""
    for warp in (0, 1):
        log.store(20, span(128 * warp), warp=warp)
        if where == "before the barrier":
            log.fence(21, ASYNC, warp=warp)
    log.barrier(22)
    if where == "after the barrier":
        log.fence(23, ASYNC, [0])
    log.bulk(24, 0, 0, 256, store=True)
    if where == "too late":
        log.fence(25, ASYNC)
    log.commit(26, [0], bulk=True)
    log.wait_group(27, 0, [0], bulk=True)


@rule(found=())
def what_a_bulk_copy_wrote_needs_no_proxy_fence(log, _):
    log.init(12)
    log.fence_init(12, [0])
    log.barrier(13)
    log.arrive(20, arg=128)
    log.done(21, log.bulk(21, 0, 0, 128, mbarrier=1024))
    log.wait(23)
    log.bulk(24, 0, 4096, 128, store=True)
    log.commit(26, [0], bulk=True)
    log.wait_group(27, 0, [0], bulk=True)


@rule(12, 21, kind="mbarrier not published", clean=("init", "proxy"), found=("of another thread", None))
def a_bulk_copy_counts_on_an_mbarrier_only_after_a_fence(log, fence):
    """A barrier publishes the init to the block's threads, but not to the async proxy."""
    log.init(12)
    if fence == "proxy":
        log.fence(13, ASYNC, [0])
    elif fence:
        log.fence_init(13, [0 if fence == "init" else 1])
    log.barrier(14)
    log.arrive(20, arg=128, lanes=(2,))
    log.done(21, log.bulk(21, 0, 0, 128, mbarrier=1024, lane=2))
    log.wait(23)


@rule(20, 25, kind="missing proxy fence")
def cp_async_writes_as_a_thread_does(log, fence):
    log.cp_async(20, SLOTS, SLOTS)
    log.commit(21)
    log.wait_group(22)
    if fence:
        log.fence(23, ASYNC)
    log.barrier(24)
    log.bulk(25, 0, 4096, 128, store=True)
    log.commit(26, [0], bulk=True)
    log.wait_group(27, 0, [0], bulk=True)
