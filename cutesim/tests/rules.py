"""Rules of order, each a trace by hand that has its edge in some ways and lacks it in others: `RULES`.

Those that no kernel of these tests shows; what else orders two accesses test_oracle tries.
"""

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

        found_in = {way: (kind, to, facts or {}) for way, to in wanted.items()}
        RULES[function.__name__] = findings, clean, found_in
        return function

    return add


# ---- fences and atomics ----

CTA, CLUSTER, GPU, SYS = FenceKind.CTA, FenceKind.CLUSTER, FenceKind.GPU, FenceKind.SYS


FENCED = [(GPU, GPU, 0), (SYS, SYS, 0), (None, None, 3), (GPU, None, 1), (None, GPU, 2)]
UNFENCED = [(None, GPU, 0), (GPU, None, 0), (CTA, GPU, 0), (GPU, CLUSTER, 0)]
UNFENCED += [(None, None, 0), (None, None, 1), (None, None, 2)]


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
        # relaxed is enough: no memory, but everyone is there
        log.cluster_barrier(1, relaxed=(0, 1))
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


@rule(134, 141, kind="read before arrival", clean=("",), found=("no wait", "no commit", "one left"))
def cp_async_is_there_after_wait_group(log, way):
    log.cp_async(134, SLOTS, SLOTS)
    if way != "no commit":
        log.commit(135)
    if way != "no wait":
        log.wait_group(137, way == "one left")
    log.barrier(139)
    log.load(141, SLOTS)


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


# ---- the async proxy ----

ASYNC, OF_SHARED = FenceKind.PROXY_ASYNC, FenceKind.PROXY_ASYNC_SHARED
OF_GLOBAL = FenceKind.PROXY_ASYNC_GLOBAL


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
