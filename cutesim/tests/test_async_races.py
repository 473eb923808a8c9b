"""Asynchronous copies and mbarriers: every rule of order both ways, on traces by hand."""

import pytest
from log import Log, at, clean, numbers, only, span

from cutesim.analysis import races
from cutesim.trace import FenceKind, Space

SLOTS = span(0)  # lane i at word i


# ---- cp.async ----


def copied(wait=True, barrier=True, reader=0, n=0, commit=True):
    """Warp 0 copies at line 134; thread `reader` x 32 reads at line 141."""
    log = Log()
    log.cp_async(134, SLOTS, SLOTS)
    if commit:
        log.commit(135)
    if wait:
        log.wait_group(137, n)
    if barrier:
        log.barrier(139)
    log.load(141, SLOTS, warp=reader)
    return log


def test_cp_async_is_there_after_wait_group():
    clean(copied(barrier=False))
    clean(copied(reader=1))


@pytest.mark.parametrize("reader", [0, 1])
@pytest.mark.parametrize(
    ("change", "asks"),
    [
        (dict(wait=False), "Is cp_async_wait_group missing?"),
        (
            dict(commit=False),
            "cp_async_wait_group at k.py:137 waits for committed groups alone: is cute.arch.cp_async_commit_group() missing before "
            "it?",
        ),
    ],
)
def test_a_copy_that_is_not_waited_for(reader, change, asks):
    finding = only(copied(reader=reader, **change))
    assert finding.kind == "read before arrival"
    assert numbers(finding) == (134, 141)
    assert str(finding) == (
        f"Read before arrival: k.py:141 reads bytes that cp.async (k.py:134) is still copying. {asks}"
    )


def test_a_wait_that_lets_the_group_stay_pending():
    finding = only(copied(n=1))
    assert finding.kind == "read before arrival"
    assert str(finding).endswith("cp_async_wait_group(1) at k.py:137 lets 1 group stay under way: is that too many?")


def test_another_thread_needs_a_barrier_after_the_wait():
    finding = only(copied(barrier=False, reader=1))
    assert (finding.kind, numbers(finding)) == ("race", (134, 141))
    assert "thread 0's cp.async wrote at k.py:134, thread 32 read at k.py:141" in str(finding)
    assert str(finding).endswith(
        "cp_async_wait_group orders a copy only for the thread that made it: is cute.arch.barrier() missing after it?"
    )


def test_groups_complete_oldest_first():
    for n, first_read in ((1, 4096), (1, 0)):
        log = Log()
        for i in (0, 1):
            log.cp_async(134, span(4096 * i), SLOTS)
            log.commit(135)
        log.wait_group(137, n)
        log.load(141, span(first_read))
        if first_read:
            assert only(log).kind == "read before arrival"
        else:
            clean(log)


def test_two_copies_to_the_same_bytes_are_not_ordered():
    for wait in (True, False):
        log = Log()
        log.cp_async(134, SLOTS, SLOTS)
        log.commit(135)
        if wait:
            log.wait_group(136)
        log.cp_async(138, SLOTS, SLOTS)
        if wait:
            clean(log)
        else:
            assert numbers(only(log)) == (134, 138)


def test_a_copy_into_a_buffer_that_others_still_read():
    for barrier in (True, False):
        log = copied(reader=1)
        if barrier:
            log.barrier(142)
        log.cp_async(143, SLOTS, SLOTS)
        if barrier:
            clean(log)
        else:
            finding = only(log)
            assert numbers(finding) == (141, 143)
            assert "(write after read)" in str(finding)
            assert "thread 32 read at k.py:141, thread 0's cp.async wrote at k.py:143" in str(finding)


# ---- mbarriers ----


def reduced_over_a_cluster(wait=True, publish="fence", phase=0, barrier=True, closing=True):
    """Lane 0 of block 0 sends a word to block 1 (line 88) through an mbarrier, whose block reads it (line 92)."""
    log = Log(grid=2, cluster=2)
    for block in (0, 1):
        log.init(12, block=block)
        if publish == "fence":
            log.fence_init(13, [0], block=block)
    if publish is not None:
        log.cluster_barrier(14, relaxed=(0, 1) if publish in ("fence", "no fence") else ())
    log.arrive(20, block=1, arg=4)
    step = log.st_async(88, at(l0=0), owner=1)
    log.done(88, step, phase, owner=1)
    if wait:
        log.wait(90, block=1)
        if barrier:
            log.barrier(91, block=1)
    log.load(92, at(l5=0), block=1, warp=1)
    if closing:
        log.exit(95, 0)
        log.exit(95, 1)
    return log


@pytest.mark.parametrize("publish", ["fence", "full"])
def test_st_async_arrives_with_the_phase_of_its_mbarrier(publish):
    clean(reduced_over_a_cluster(publish=publish))


def test_st_async_without_the_wait():
    finding = only(reduced_over_a_cluster(wait=False, closing=False))
    assert (finding.kind, numbers(finding)) == ("read before arrival", (88, 92))
    assert str(finding) == (
        "Read before arrival: k.py:92 reads bytes that st.async (k.py:88) is still sending. "
        "Is mbarrier_wait missing before the read?"
    )


def test_a_transfer_of_the_next_phase_is_not_covered():
    assert numbers(only(reduced_over_a_cluster(phase=1, closing=False))) == (88, 92)


def test_another_warp_needs_its_own_wait_or_a_barrier():
    assert numbers(only(reduced_over_a_cluster(barrier=False))) == (88, 92)


def test_exit_before_a_transfer_has_landed():
    found = races(reduced_over_a_cluster(wait=False).trace())
    assert [f.kind for f in found] == ["exit with traffic in flight", "read before arrival"]
    assert "Block 1 may exit while block 0 still has 4 bytes in flight to its shared memory (k.py:88)" in str(found[0])


def test_an_init_without_its_fence_is_not_published_by_a_relaxed_cluster_barrier():
    finding = only(reduced_over_a_cluster(publish="no fence"))
    assert finding.kind == "mbarrier not published"
    assert numbers(finding) == (12, 88)
    assert "thread 0 of block 1 initialised it at k.py:12, thread 0 of block 0 uses it at k.py:88" in str(finding)
    assert str(finding).endswith("Are mbarrier_init_fence() and a cluster barrier missing between the two?")


def test_within_a_block_an_init_needs_a_barrier():
    for barrier in (True, False):
        log = Log()
        log.init(12)
        if barrier:
            log.barrier(13)
        log.arrive(20, lanes=(3,), warp=1)
        if barrier:
            clean(log)
        else:
            finding = only(log)
            assert (finding.kind, numbers(finding)) == ("mbarrier not published", (12, 20))
            assert str(finding).endswith("Are mbarrier_init_fence() and cute.arch.barrier() missing between the two?")


@pytest.mark.parametrize("arrives", [True, False])
def test_an_arrival_releases_what_its_own_thread_did(arrives):
    log = Log()
    log.init(12)
    log.barrier(13)
    log.store(30, at(l0=0, l1=4))
    log.arrive(31, lanes=(0,) if arrives else (1,))
    log.wait(33, warp=1)
    log.load(35, at(l0=0), warp=1)  # lane 0's word
    if arrives:
        clean(log)
    else:
        assert numbers(only(log)) == (30, 35)


def test_a_fresh_mbarrier_passed_by_parity_acquires_nothing():
    log = Log()
    log.init(12)
    log.barrier(13)
    log.store(30, at(l0=0))
    log.arrive(31)
    log.wait(33, phase=-1, warp=1)
    log.load(35, at(l0=0), warp=1)
    assert numbers(only(log)) == (30, 35)


def test_an_mbarrier_in_every_iteration_orders_both_ways():
    """Producer and consumer with a full and an empty mbarrier; without the arrival on empty the buffer is reused too early."""
    for empty in (True, False):
        log = Log()
        for offset in (1024, 1032):
            log.init(12, offset=offset)
        log.barrier(13)
        for i in range(3):
            if i and empty:
                log.wait(28, i - 1, offset=1032)
            log.store(30, SLOTS)
            log.sync_warp(31)
            log.arrive(32, i)
            log.wait(33, i, warp=1)
            log.load(35, SLOTS, warp=1)
            log.sync_warp(36, warp=1)
            log.arrive(37, i, warp=1, offset=1032)
        if empty:
            clean(log)
        else:
            finding = only(log)
            assert numbers(finding) == (35, 30)
            assert "(write after read)" in str(finding)


def test_a_remote_arrival_must_be_seen_before_exit():
    for seen in (True, False):
        log = Log(grid=2, cluster=2)
        log.init(12, block=1)
        log.fence_init(13, [0], block=1)
        log.cluster_barrier(14, relaxed=(0, 1))
        log.arrive(20, block=0, owner=1)
        if seen:
            log.wait(21, block=1)
        log.exit(30, 0)
        log.exit(30, 1)
        if seen:
            clean(log)
        else:
            assert str(only(log)) == (
                "Block 1 may exit while block 0 still has an arrival in flight to its shared memory (k.py:20). "
                "Is the closing cluster barrier missing?"
            )


@pytest.mark.parametrize("transfer", ["st.async", "bulk"])
def test_st_async_releases_what_its_thread_did_and_a_bulk_copy_does_not(transfer):
    log = Log(grid=2, cluster=2)
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
    if transfer == "st.async":
        clean(log)
    else:
        assert numbers(only(log)) == (30, 35)


# ---- bulk copies ----


@pytest.mark.parametrize("wait", [True, False])
def test_a_bulk_load_arrives_with_its_mbarrier(wait):
    log = Log()
    log.init(12)
    log.fence_init(12, [0])
    log.barrier(13)
    log.arrive(20, arg=512)
    step = log.bulk(21, 0, 0, 512, mbarrier=1024)
    log.done(21, step)
    for warp in (0, 1):
        if wait:
            log.wait(23, warp=warp)
        log.load(25, span(128 * warp), warp=warp)
        log.store(26, span(128 * warp), warp=warp)
        log.load(27, span(128 * warp), warp=warp)
    if wait:
        clean(log)
    else:
        finding = only(log)  # one cause, though two lines read and one writes too early
        assert str(finding) == (
            "Read before arrival: k.py:25 reads bytes that the bulk copy (k.py:21) is still copying. "
            "Is mbarrier_wait missing before the read?"
        )


@pytest.mark.parametrize("wait", [True, False])
def test_a_bulk_store_reads_until_its_group_is_waited_for(wait):
    log = Log()
    log.store(20, SLOTS)
    log.fence(20, FenceKind.PROXY_ASYNC)
    log.barrier(21)
    log.bulk(22, 0, 0, 128, store=True)
    log.commit(23, [0], bulk=True)
    if wait:
        log.wait_group(24, 0, [0], bulk=True)
    log.barrier(25)
    log.store(26, SLOTS, warp=1)
    if wait:
        clean(log)
    else:
        finding = only(log)
        assert numbers(finding) == (22, 26)
        assert "thread 0's bulk copy read at k.py:22, thread 32 wrote at k.py:26" in str(finding)
        assert str(finding).endswith("Is cp_async_bulk_wait_group missing between the two?")


@pytest.mark.parametrize("read", [True, False])
def test_what_a_bulk_store_wrote_is_there_after_a_wait_for_writes_alone(read):
    log = Log()
    log.store(20, SLOTS)
    log.fence(20, FenceKind.PROXY_ASYNC)
    log.barrier(21)
    log.bulk(22, 0, 0, 128, store=True)
    log.commit(23, [0], bulk=True)
    log.wait_group(24, 0, [0], bulk=True, read=read)
    log.load(25, span(0, 4, [0]), space=Space.GMEM)
    log.barrier(26)
    log.store(27, SLOTS, warp=1)  # shared memory has been read either way
    if not read:
        clean(log)
        return
    finding = only(log)
    assert numbers(finding) == (22, 25)
    assert str(finding).endswith(
        "cp_async_bulk_wait_group(..., read=True) at k.py:24 waits until the copy has read shared memory; what it writes is "
        "there after one without read=True."
    )


@pytest.mark.parametrize(
    "fence", [None, FenceKind.PROXY_ASYNC_SHARED, FenceKind.PROXY_ASYNC_GLOBAL, FenceKind.PROXY_ASYNC]
)
def test_a_bulk_load_of_what_threads_wrote_to_global_memory_needs_a_proxy_fence(fence):
    log = Log()
    log.init(18, lanes=[0])
    log.fence_init(19)
    log.store(20, span(0), space=Space.GMEM)
    if fence is not None:
        log.fence(21, fence)
    log.barrier(22)
    step = log.bulk(23, 0, 0, 128, mbarrier=1024)
    log.arrive(24)
    log.done(23, step)
    log.wait(25)
    log.barrier(26)
    log.exit(27)
    if fence in (FenceKind.PROXY_ASYNC_GLOBAL, FenceKind.PROXY_ASYNC):
        clean(log)
        return
    finding = only(log)
    assert finding.kind == "missing proxy fence" and numbers(finding) == (20, 23)
    assert "reads x in global memory that thread 0 wrote at k.py:20" in str(finding)
    assert 'cute.arch.fence_proxy("async.global")' in str(finding)


def test_a_block_must_not_exit_while_a_bulk_store_reads_its_memory():
    log = Log()
    log.store(20, SLOTS)
    log.fence(20, FenceKind.PROXY_ASYNC)
    log.barrier(21)
    log.bulk(22, 0, 0, 128, store=True)
    log.commit(23, [0], bulk=True)
    log.exit(30)
    finding = only(log)
    assert finding.kind == "exit with traffic in flight"
    assert str(finding).endswith("Is cp_async_bulk_wait_group missing?")


# ---- the async proxy ----


@pytest.mark.parametrize("where", ["before the barrier", "after the barrier", "too late", "nowhere"])
def test_a_bulk_store_sees_threads_writes_only_after_a_proxy_fence(where):
    """Every writer's fence before the barrier, or the copying thread's after it, is on the way; none, or a later one, is not."""
    log = Log()
    for warp in (0, 1):
        log.store(20, span(128 * warp), warp=warp)
        if where == "before the barrier":
            log.fence(21, FenceKind.PROXY_ASYNC, warp=warp)
    log.barrier(22)
    if where == "after the barrier":
        log.fence(23, FenceKind.PROXY_ASYNC, [0])
    log.bulk(24, 0, 0, 256, store=True)
    if where == "too late":
        log.fence(25, FenceKind.PROXY_ASYNC)
    log.commit(26, [0], bulk=True)
    log.wait_group(27, 0, [0], bulk=True)
    if where in ("before the barrier", "after the barrier"):
        clean(log)
        return
    finding = only(log)
    assert (finding.kind, numbers(finding), finding.count) == ("missing proxy fence", (20, 24), 64)
    assert str(finding) == (
        "Missing proxy fence: the bulk copy at k.py:24 reads shared memory that thread 32 wrote at k.py:20 (64 words, "
        "block 0); the async proxy needs cute.arch.fence_view_async_shared() before the barrier."
    )


def test_the_fence_of_one_warp_publishes_nothing_of_another():
    log = Log()
    for warp in (0, 1):
        log.store(20, span(128 * warp), warp=warp)
    log.fence(21, FenceKind.PROXY_ASYNC)
    log.barrier(22)
    log.bulk(24, 0, 0, 256, store=True)
    log.commit(26, [0], bulk=True)
    log.wait_group(27, 0, [0], bulk=True)
    finding = only(log)
    assert (finding.kind, finding.threads, finding.count) == ("missing proxy fence", (32, 0), 32)


def test_what_a_bulk_copy_wrote_needs_no_proxy_fence():
    log = Log()
    log.init(12)
    log.fence_init(12, [0])
    log.barrier(13)
    log.arrive(20, arg=128)
    log.done(21, log.bulk(21, 0, 0, 128, mbarrier=1024))
    log.wait(23)
    log.bulk(24, 0, 4096, 128, store=True)
    log.commit(26, [0], bulk=True)
    log.wait_group(27, 0, [0], bulk=True)
    clean(log)


@pytest.mark.parametrize("fence", ["init", "proxy", "of another thread", None])
def test_a_bulk_copy_counts_on_an_mbarrier_only_after_a_fence(fence):
    """A barrier publishes the init to the block's threads, but not to the async proxy."""
    log = Log()
    log.init(12)
    if fence == "init":
        log.fence_init(13, [0])
    elif fence == "proxy":
        log.fence(13, FenceKind.PROXY_ASYNC, [0])
    elif fence == "of another thread":
        log.fence_init(13, [1])
    log.barrier(14)
    log.arrive(20, arg=128, lanes=(2,))
    log.done(21, log.bulk(21, 0, 0, 128, mbarrier=1024, lane=2))
    log.wait(23)
    if fence in ("init", "proxy"):
        clean(log)
        return
    finding = only(log)
    assert (finding.kind, numbers(finding)) == ("mbarrier not published", (12, 21))
    assert str(finding) == (
        "Mbarrier used before its init is published: thread 0 initialised it at k.py:12, and the bulk copy at k.py:21 counts "
        "on it through the async proxy (block 0). Is mbarrier_init_fence() missing before the barrier?"
    )


@pytest.mark.parametrize("fence", [True, False])
def test_cp_async_writes_as_a_thread_does(fence):
    log = Log()
    log.cp_async(20, SLOTS, SLOTS)
    log.commit(21)
    log.wait_group(22)
    if fence:
        log.fence(23, FenceKind.PROXY_ASYNC)
    log.barrier(24)
    log.bulk(25, 0, 4096, 128, store=True)
    log.commit(26, [0], bulk=True)
    log.wait_group(27, 0, [0], bulk=True)
    if fence:
        clean(log)
    else:
        assert (only(log).kind, numbers(only(log))) == ("missing proxy fence", (20, 25))
