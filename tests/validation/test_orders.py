"""The suite `orders`: what it notes of a kernel, and what it calls a mismatch."""

import numpy as np
from dsl import orders as k

from cutesim import simulation
from validation.orders import _Watch


def noted(kernel):
    watch = _Watch("99", lambda what: None)
    watch(k.launched(kernel), np.zeros(128, np.int32))
    watch(k.launched(kernel), np.zeros(128, np.int32))  # the same lines
    return watch


def test_a_kernel_that_only_some_order_shows_to_be_wrong_is_a_mismatch():
    watch = noted(k.wakes_too_early)
    (row,) = watch.rows
    assert row[1:5] == ("sleeper, 2 warps of 1 block", 1, "clean", 3)
    assert row[6] == "wrong: deadlock"
    assert len(watch.mismatches) == 1 and "chapter 99: sleeper" in watch.mismatches[0]


def test_a_correct_kernel_is_none():
    watch = noted(k.sleeps_safely)
    assert [row[6] for row in watch.rows] == ["clean"] and watch.mismatches == []


def test_the_chapter_gets_its_own_run():
    """The watch stands for simulate: what it gives is what an ordinary run gives."""
    x, y = np.zeros(128, np.int32), np.zeros(128, np.int32)
    run = _Watch("99", lambda what: None)(k.launched(k.ring, 3), x)
    assert str(run) == str(simulation.simulate(k.launched(k.ring, 3), y)) and (x == y).all()
