"""What one thread hands over to another: who is reached, and what is ordered; what is said where it is not, test_reports has."""

import numpy as np
import pytest
from dsl import hand_over as k

from cutesim.simulation import simulate


def ints(*shape):
    return np.zeros(shape, np.int32)


def floats(*shape):
    return np.zeros(shape, np.float32)


def said(kernel, *tensors, **options):
    """The message of the only finding."""
    (finding,) = simulate(kernel, *tensors, **options).findings
    return finding.message


RIGHT = {
    "store": (k.raised(), ints(1), ints(32), ints(32)),
    "exchange": (k.raised(word="exchange"), ints(1), ints(32), ints(32)),
    "lock": (k.locked(), ints(1), ints(1)),
    "peer": (k.peer(), floats(2, 32), floats(2, 32)),
    "arrival": (k.told(), floats(32), floats(32)),
    "arrival of the cluster's scope": (k.told(scope=k.primitives.MemScope.CLUSTER), floats(32), floats(32)),
    "count of a block": (k.count_each("cta"), ints(1)),
    "count of two blocks": (k.count_each("gpu"), ints(2)),
    "the deepest block": (k.placed((1, 1, 1), (1, 1, 64)), ints(1)),
}


@pytest.mark.parametrize("what", RIGHT)
def test_where_nothing_is_missing_nothing_is_found(what):
    run = simulate(*RIGHT[what])
    assert run.ok, run


def test_the_widest_grid_is_launched():
    assert simulate(k.placed((65536, 1, 1), (1, 1, 1)), ints(1), blocks=1).ok


@pytest.mark.parametrize("test", [False, True])
@pytest.mark.parametrize("answer", ["heeded", "until", "made good"])
def test_an_answer_that_is_heeded_orders_what_follows(answer, test):
    assert simulate(k.asked(answer, test), out := ints(32)).ok
    assert out.tolist() == list(range(31, -1, -1))
    assert simulate(k.asked(answer, test), ints(32), orders="all").verdict == "clean"


@pytest.mark.parametrize("test", [False, True])
def test_an_answer_that_is_thrown_away_orders_nothing(test):
    for options in ({}, {"schedule": "reverse"}, {"orders": "all"}):
        message = said(k.asked("ignored", test), ints(32), **options)
        assert message.startswith("Race (read after write) on shared memory, 32 words")
        name = "mbarrier_test_wait" if test else "mbarrier_try_wait"
        assert f"{name} at hand_over.py:" in message
        assert "may return False: the second access belongs where it has returned True." in message


@pytest.mark.parametrize("orders", [None, "all"])
def test_an_atomic_whose_old_value_nobody_reads_tells_nothing_of_the_others(orders):
    message = said(k.counted_then_read(heeds=False), ints(1), ints(1), orders=orders)
    assert message.startswith("Race (read after write) on global memory, 1 word of count: thread 0 updated at")
    assert simulate(k.counted_then_read(heeds=True), ints(1), ints(1), orders=orders).ok


def test_on_the_way_of_a_no_nothing_is_ordered():
    run = simulate(k.asked("noted"), ints(32), orders="all")
    assert "may return False" in run.findings[0].message
    assert any("finds the mbarrier's phase incomplete" in sentence.text for sentence in run.story)


@pytest.mark.parametrize("options", [{}, {"schedule": "seeded"}, {"check": False}, {"orders": "all"}])
def test_several_lanes_may_each_start_a_bulk_copy(options):
    x = np.arange(128, dtype=np.float32).reshape(4, 32)
    out = np.zeros_like(x)
    run = simulate(k.row_each(), x, out, **options)
    assert run.ok and (out == x).all(), run
