"""What one thread hands over to another: who is reached, what is ordered, and whom the reports name."""

import inspect

import numpy as np
import pytest
from dsl import hand_over as k

from cutesim.simulation import simulate


def ints(*shape):
    return np.zeros(shape, np.int32)


def place(kernel, comment):
    """hand_over.py:N of a class's first line that ends with the comment."""
    lines, first = inspect.getsourcelines(kernel)
    return f"hand_over.py:{first + next(i for i, line in enumerate(lines) if line.rstrip().endswith(f'# {comment}'))}"


def said(kernel, *tensors, **options):
    """The message of the only finding."""
    (finding,) = simulate(kernel, *tensors, **options).findings
    return finding.message


def flag(**options):
    return k.raised(**options), ints(1), ints(32), ints(32)


@pytest.mark.parametrize("word", ["store", "exchange"])
def test_a_release_reaches_its_scope_alone(word):
    assert simulate(*flag(word=word)).ok
    message = said(*flag(word=word, release="cta"))
    assert "on global memory, 32 words of d" in message and "thread 0 of block 0 wrote" in message
    assert ' has scope cta, which leaves out block 1. Is scope="gpu" meant?' in message
    if word == "store":
        assert f"the one at {place(k.raised, 'release')} has scope cta" in message


def test_so_does_an_acquire():
    message = said(*flag(acquire="cluster"))
    assert f"the one at {place(k.raised, 'acquire')} has scope cluster, which leaves out block 0" in message


def test_atomics_are_ordered_within_their_scope():
    assert simulate(k.Count("cta", 1), ints(1)).ok and simulate(k.Count("gpu", 2), ints(1)).ok


def test_a_release_of_what_other_lanes_wrote_needs_them_to_meet():
    message = said(*flag(sync=False))
    assert f"The atomic at {place(k.raised, 'release')} releases only what its own thread has done: " in message
    assert "is cute.arch.sync_warp() missing before it, so that thread 1 meets that thread?" in message


@pytest.mark.parametrize("kernel", [k.meeting, k.locked])
@pytest.mark.parametrize(("side", "atomic"), [("before", "release"), ("after", "acquire")])
def test_the_fence_that_is_there_stays_where_it_serves_the_other_side(kernel, side, atomic):
    tensors = (ints(2, 32), ints(1), ints(2, 32)) if kernel is k.meeting else (ints(1), ints(1))
    assert simulate(kernel(), *tensors).ok
    for tensor in tensors:
        tensor[...] = 0
    message = said(kernel(**{side: False}), *tensors)
    missing = f"is cute.arch.fence_acq_rel_gpu() missing {side} the atomic at {place(kernel, atomic)}?"
    assert message.endswith(missing), message


def test_a_lock_that_an_ordinary_store_gives_back_is_told_so():
    for finding in simulate(k.locked(stored=True), ints(1), ints(1)).findings:
        assert finding.kind == "race" and "an ordinary store hands nothing over" in finding.message, finding
        assert all(place(k.locked, where) in finding.message for where in ("acquire", "gives back"))


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
        assert "may return False, and nothing looks at its answer" in message or "has returned False" in message


@pytest.mark.parametrize("test", [False, True])
def test_a_read_behind_the_if_is_found_in_the_usual_order(test):
    run = simulate(k.asked("noted", test), out := ints(32))
    assert "has returned False: the second access belongs where it has returned True." in run.findings[0].message
    assert out.tolist() == list(range(31, -1, -1))  # the first run's results stay


@pytest.mark.parametrize("orders", [None, "all"])
def test_an_atomic_whose_old_value_nobody_reads_tells_nothing_of_the_others(orders):
    message = said(k.counted_then_read(heeds=False), ints(1), ints(1), orders=orders)
    assert message.startswith("Race (read after write) on global memory, 1 word of count: thread 0 updated at")
    assert simulate(k.counted_then_read(heeds=True), ints(1), ints(1), orders=orders).ok


def test_on_the_way_of_a_no_nothing_is_ordered():
    run = simulate(k.asked("noted"), ints(32), orders="all")
    message = run.findings[0].message
    assert "has returned False: the second access belongs where it has returned True." in message
    assert any("finds the mbarrier's phase incomplete" in sentence.text for sentence in run.story)


def rows():
    return np.arange(128, dtype=np.float32).reshape(4, 32).copy(), np.zeros((4, 32), np.float32)


@pytest.mark.parametrize("options", [{}, {"schedule": "seeded"}, {"check": False}, {"orders": "all"}])
def test_several_lanes_may_each_start_a_bulk_copy(options):
    x, out = rows()
    run = simulate(k.row_each(), x, out, **options)
    assert run.ok and (out == x).all(), run


def test_a_launch_may_have_the_largest_of_each_axis():
    assert simulate(k.Placed((65536, 1, 1), (1, 1, 1)), ints(1), blocks=1).ok
    assert simulate(k.Placed((1, 1, 1), (1, 1, 64)), ints(1)).ok


def pairs():
    return np.ones((2, 32), np.float32), np.zeros((2, 32), np.float32)


def test_a_relaxed_arrive_that_closes_a_cluster_is_named():
    assert simulate(k.peer(), *pairs()).ok
    message = said(k.peer("cluster_arrive_relaxed"), *pairs())
    where = place(k.peer, "closes")
    assert message.endswith(f"cluster_arrive_relaxed at {where} orders no memory: is cluster_arrive() meant?")
    assert said(k.peer("nothing"), *pairs()).endswith("Is the closing cluster barrier missing?")
