"""Every rule of order both ways: with its edge no finding, without it one that names both lines. Traces by hand."""

from time import perf_counter

import pytest
from log import Log, span
from rules import RULES, reduced_over_a_cluster

from cutesim.analysis import races


@pytest.mark.parametrize("name", RULES)
def test_a_rule_both_ways(name):
    findings, clean, found = RULES[name]
    for way in clean:
        assert findings(way) == (), way
    for way, (kind, lines, facts) in found.items():
        (finding,) = findings(way)
        numbers = [line.number for line in finding.lines]
        assert (finding.kind, type(lines)(numbers)) == (kind, lines), (way, str(finding))
        assert {name: getattr(finding, name) for name in facts} == facts, way


def test_exit_before_a_transfer_has_landed_is_found_beside_the_early_read():
    log = Log(grid=2, cluster=2)
    reduced_over_a_cluster(log, wait=False)
    wanted = ["exit with traffic in flight", "read before arrival"]
    assert [f.kind for f in races(log.trace())] == wanted


def test_a_trace_of_nothing_has_no_findings():
    assert races(Log().trace()) == ()


def test_many_accesses_take_milliseconds():
    """16 warps transpose a 128 x 128 tile of floats through shared memory: 32 thousand lane accesses."""
    log = Log(threads=512)
    for i in range(32):
        for warp in range(16):
            log.store(3, span(512 * (warp * 8 + i // 4) + 128 * (i % 4)), warp=warp)
    log.barrier(4, range(16))
    for i in range(32):
        for warp in range(16):
            log.load(5, span(4 * (warp * 8 + i // 4) + 512 * 32 * (i % 4), 512), warp=warp)
    trace = log.trace()
    seconds = []
    for _ in range(5):
        start = perf_counter()
        assert races(trace) == ()
        seconds.append(perf_counter() - start)
    assert min(seconds) < 0.2  # about 0.02 where nothing else runs
