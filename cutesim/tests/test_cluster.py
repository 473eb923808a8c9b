"""Clusters: numbers that blocks send each other, and what is said when a step is missing."""

import re

import numpy as np
import pytest
from dsl.async_copies import partly_off
from dsl.cluster import Exchange, ReadEarly, pair

from cutesim import analysis
from cutesim.simulation import simulate
from cutesim.trace import Op, Space

X = np.arange(1, 5, dtype=np.float32)


# The five classic faults of chapter 6: each report says what was waited for and what came, at the guilty line.
FAULTS = {
    "too many bytes": (
        "mbarrier_arrive_and_expect_tx(mbar, nbytes)",
        r"block 0 expects 32 bytes in phase 0, and 16 came, from blocks 0-3 \(cluster.py:\d+\); the wait at cluster.py:\d+ never",
    ),
    "own rank missing": (
        "mbarrier_arrive_and_expect_tx(mbar, nbytes)",
        r"block 0 expects 16 bytes in phase 0, and 12 came, from blocks 1-3 \(cluster.py:\d+\); the wait at cluster.py:\d+ never",
    ),
    "too few bytes": (
        "store_async_dsmem",
        r"mbarrier_wait at cluster.py:\d+ was over as soon as the 4 bytes had come that cluster.py:\d+ expects: does it count all",
    ),
    "phase reused": (
        "store_async_dsmem",
        r"mbarrier_wait at cluster.py:\d+ was passed by phase 0, complete since before; these bytes count for phase 1: wait for "
        "parity 1",
    ),
    "no wait": ("store_async_dsmem", r"is still sending\. Is mbarrier_wait missing before the read\?"),
    "no barrier between": (
        "store_async_dsmem",
        r"Race \(write after write\).* Only block \d, which gets them, can wait for the first: let a cluster barrier stand after",
    ),
    "no opening barrier": (
        "store_async_dsmem",
        r"an mbarrier of block 1 that is not initialised yet\..* and a cluster barrier \(cluster_arrive, cluster_wait\) must come",
    ),
    "block gone": (
        "store_async_dsmem",
        r"Block 3 exited with 4 bytes still in flight to its shared memory, sent by block 3\. Let it wait at the mbarrier",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_classic_fault_is_named_by_what_came_and_where(fault):
    text, message = FAULTS[fault]
    finding = simulate(Exchange(fault), X, np.zeros((4, 2), np.float32)).findings[0]
    assert text in finding.lines[0].text
    assert re.search(message, finding.message), finding


@pytest.mark.parametrize("schedule", ["forward", "reverse", "seeded"])
def test_without_the_fault_there_is_no_finding(schedule):
    out = np.zeros((4, 2), np.float32)
    run = simulate(Exchange(), X, out, schedule=schedule)
    assert run.ok, run
    np.testing.assert_array_equal(out, [[10, 30]] * 4)  # 1 + 2 + 3 + 4 and 1 + 4 + 9 + 16


def test_a_message_s_values_are_in_the_trace():
    run = simulate(Exchange(), X, np.zeros((4, 2), np.float32), values=True)
    sends = run.trace.select(Op.STORE_ASYNC)
    assert sorted(run.trace.values[sends["values"]][:, 0]) == [1, 1, 2, 3, 4, 4, 9, 16]


def test_a_read_before_the_wait_is_legal_and_stale():
    """What chapter 6 says of it; `tests/gpu/test_cluster_reduce_gpu.py` asks a GPU the same."""
    out = np.zeros(2, np.float32)
    run = simulate(ReadEarly(), np.zeros(4, np.int32), out, 3)
    assert not run.ok and {finding.kind for finding in run.findings} <= {"race", "read before arrival"}
    assert out.tolist() == [7, 8]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("below", [0, 5, 32])
def test_cp_async_fills_with_zeros_where_its_predicate_is_false(below, check):
    """As compiled: a source size of 0, which reads nothing (PTX ISA, cp.async)."""
    x, out = np.arange(1, 33, dtype=np.float32)[None], np.zeros((1, 32), np.float32)
    run = simulate(partly_off(below), x, out, check=check)
    assert not check or run.ok
    np.testing.assert_array_equal(out, np.where(np.arange(32) < below, x, 0))
    if check:
        read, written = (analysis.requests(run.trace, space) for space in (Space.GMEM, Space.SMEM))
        ops = [run.trace.events["op"][table["event"]] == int(Op.ASYNC_COPY) for table in (read, written)]
        assert read["lanes"][ops[0]].tolist() == [below] * (below > 0) and written["lanes"][ops[1]].tolist() == [32]


@pytest.mark.parametrize("how, wanted", [("bits", [[-2.5] * 2, [1.75] * 2]), ("numbers", [[-2, -2], [1, 1]])])
def test_st_async_sends_integers_so_a_number_is_converted(how, wanted):
    """As CuTe DSL 4.8.1 compiles it: cvt.rzi.s32.f32 before st.async where the value is no integer."""
    out = np.zeros((2, 2), np.float32)
    run = simulate(pair(how), np.array([1.75, -2.5], np.float32), out)
    assert run.ok, run
    np.testing.assert_array_equal(out, wanted)
    told = [note for note in run.observations if "send .bitcast(cutlass.Int32)" in note]
    assert len(told) == (how == "numbers")


def test_a_message_of_two_words_wants_a_pointer_known_to_be_aligned():
    """As CuTe DSL 4.8.1: "v2.b32 requires 8-byte aligned pointer, but smem_ptr has alignment 4"."""
    finding = simulate(pair("not aligned"), np.ones(2, np.float32), np.zeros((2, 2), np.float32)).findings[0]
    assert finding.kind == "misaligned" and "write (...).align(8)" in finding.message, finding
