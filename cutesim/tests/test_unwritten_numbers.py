"""Numbers that nobody wrote and that nothing keeps: maxima, comparisons, conditions and bounds pass over them unless they are far
too large and far too small."""

import numpy as np
import pytest
from dsl import unwritten as k

from cutesim.simulation import simulate


def found(kernel, x, out):
    (finding,) = simulate(kernel, x, out).findings
    assert finding.kind == "uninitialised" and "# here" in finding.lines[0].text, finding
    return finding.message


@pytest.mark.parametrize("value", [9.0, -9.0, 1e20])
@pytest.mark.parametrize("least", [False, True])
def test_a_maximum_or_minimum_over_slots_of_which_two_are_written(least, value):
    x, out = np.full(64, value, np.float32), np.zeros(64, np.float32)
    assert "of slots at unwritten.py:" in found(k.shared_slots(least), x, out)
    assert simulate(k.shared_slots(least, guarded=True), x, out).ok and (out == value).all()


def test_an_index_that_was_never_written_and_that_only_some_numbers_let_be_used():
    x, out = np.zeros(32, np.float32), np.zeros(32, np.int32)
    message = found(k.compares("index", k.Int32), x, out)
    assert "whether this kernel ends in an error (" in message and "Out of bounds" in message
    assert simulate(k.compares("index", k.Int32, guarded=True), x, out).ok


@pytest.mark.parametrize("dtype", k.FLOATS_AND_INTEGERS, ids=str)
@pytest.mark.parametrize("how", ["above", "below"])
def test_a_comparison_with_a_register_that_was_never_written(how, dtype):
    for value in (1000, 30000):
        x, out = np.full(32, value, np.float32), np.zeros(32, np.int32)
        assert "held (unwritten.py:" in found(k.compares(how, dtype), x, out)
        assert simulate(k.compares(how, dtype, guarded=True), x, out).ok


def test_a_condition_and_a_bound_that_were_never_written():
    x, out = np.zeros(32, np.float32), np.zeros(32, np.int32)
    assert "held (unwritten.py:" in found(k.compares("flag", k.cutlass.Boolean), x, out)
    (finding,) = simulate(k.compares("loop", k.Int32), x, out).findings
    assert finding.kind == "endless" and "# here" in finding.lines[0].text
    assert "this loop has 2,147,483,642 passes" in finding.message
    assert "has anybody written its bounds?" in finding.message
    assert simulate(k.compares("loop", k.Int32, guarded=True), x, out).ok and (out == 3).all()


@pytest.mark.parametrize("looked_for", [0, 1])
def test_a_flag_that_was_never_written_and_that_no_poison_is_equal_to(looked_for):
    out = np.zeros(1, np.int32)
    (finding,) = simulate(k.flagged(looked_for), out).findings
    assert finding.kind == "uninitialised" and "# here" in finding.lines[0].text, finding
    assert "reads element 0 of flag at unwritten.py:" in finding.message
    assert simulate(k.flagged(looked_for, guarded=True), out).ok
