"""What one thread hands over to another: who is reached, what is ordered, and whom the reports name."""

import inspect

import numpy as np
import pytest

from quack_tutorial.simulation import simulate
from tests.simulator.dsl import hand_over as k


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
    return k.Flag(**options), ints(1), ints(32), ints(32)


@pytest.mark.parametrize("word", ["store", "exchange"])
def test_a_release_reaches_its_scope_alone(word):
    assert simulate(*flag(word=word)).ok
    message = said(*flag(word=word, release="cta"))
    assert "on global memory, 32 words of d" in message and "thread 0 of block 0 wrote" in message
    assert ' has scope cta, which leaves out block 1. Is scope="gpu" meant?' in message
    if word == "store":
        assert f"the one at {place(k.Flag, 'release')} has scope cta" in message


def test_so_does_an_acquire():
    message = said(*flag(acquire="cluster"))
    assert f"the one at {place(k.Flag, 'acquire')} has scope cluster, which leaves out block 0" in message


def test_atomics_of_a_narrow_scope_are_none_to_another_block():
    assert simulate(k.Count("cta", 1), ints(1)).ok and simulate(k.Count("gpu", 2), ints(1)).ok
    assert "on global memory, 1 word of count" in (message := said(k.Count("cta", 2), ints(1)))
    assert 'has scope cta, which leaves out block 1. Is scope="gpu" meant?' in message


def test_a_release_of_what_other_lanes_wrote_needs_them_to_meet():
    message = said(*flag(sync=False))
    assert f"The atomic at {place(k.Flag, 'release')} releases for what its own thread has done" in message
    assert "is cute.arch.sync_warp() missing before it, so that thread 1 meets that thread?" in message


@pytest.mark.parametrize("kernel", [k.Meeting, k.Lock])
@pytest.mark.parametrize(("side", "atomic"), [("before", "release"), ("after", "acquire")])
def test_the_fence_that_is_there_stays_where_it_serves_the_other_side(kernel, side, atomic):
    tensors = (ints(2, 32), ints(1), ints(2, 32)) if kernel is k.Meeting else (ints(1), ints(1))
    assert simulate(kernel(), *tensors).ok
    for tensor in tensors:
        tensor[...] = 0
    message = said(kernel(**{side: False}), *tensors)
    missing = f"is cute.arch.fence_acq_rel_gpu() missing {side} the atomic at {place(kernel, atomic)}?"
    assert message.endswith(missing), message


@pytest.mark.parametrize("test", [False, True])
@pytest.mark.parametrize("answer", ["heeded", "until"])
def test_an_answer_that_is_heeded_orders_what_follows(answer, test):
    assert simulate(k.Asked(answer, test), out := ints(32)).ok
    assert out.tolist() == list(range(31, -1, -1))
    assert simulate(k.Asked(answer, test), ints(32), orders="all").verdict == "clean"


@pytest.mark.parametrize("test", [False, True])
def test_an_answer_that_is_thrown_away_orders_nothing(test):
    for options in ({}, {"schedule": "reverse"}, {"orders": "all"}):
        message = said(k.Asked("ignored", test), ints(32), **options)
        assert message.startswith("Race (read after write) on shared memory, 32 words")
        name = "mbarrier_test_wait" if test else "mbarrier_try_wait"
        assert f"{name} at hand_over.py:" in message
        assert "may return False, and nothing looks at its answer" in message or "has returned False" in message


def test_on_the_way_of_a_no_nothing_is_ordered():
    run = simulate(k.Asked("noted"), ints(32), orders="all")
    message = run.findings[0].message
    assert "has returned False: the second access belongs where it has returned True." in message
    assert any("finds the mbarrier's phase incomplete" in sentence.text for sentence in run.story)
