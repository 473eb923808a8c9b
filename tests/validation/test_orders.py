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
    ((key, (kernels, orders, _)),) = watch.found.items()
    assert key == ("99", "sleeper, 2 warps of 1 block", "clean", "wrong: deadlock")
    assert (kernels, orders) == (1, 3)
    assert len(watch.mismatches) == 1 and "chapter 99: sleeper" in watch.mismatches[0]


def test_a_correct_kernel_is_none():
    watch = noted(k.sleeps_safely)
    assert [verdict for *_, verdict in watch.found] == ["clean"] and watch.mismatches == []


def test_the_chapter_gets_its_own_run():
    """The watch stands for simulate: what it gives is what an ordinary run gives."""
    x, y = np.zeros(128, np.int32), np.zeros(128, np.int32)
    run = _Watch("99", lambda what: None)(k.launched(k.ring, 3), x)
    assert str(run) == str(simulation.simulate(k.launched(k.ring, 3), y)) and (x == y).all()
