"""What an adversarial reading of the simulator found, each as its smallest failing case."""

import numpy as np

from quack_tutorial.simulator import simulate
from tests.simulator.dsl import found as k
from tests.simulator.test_language import outputs

LANES = np.arange(32, dtype=np.float32)


def test_a_register_that_was_read_keeps_its_old_value():
    np.testing.assert_array_equal(outputs(k.swap_registers), LANES)


def test_a_list_changed_by_some_lanes_changes_for_them_alone():
    np.testing.assert_array_equal(outputs(k.list_in_dynamic_if), LANES + (LANES < 16))


def test_ranges_in_comprehensions_and_builtin_max():
    np.testing.assert_array_equal(outputs(k.comprehension_range), LANES * 3)
    np.testing.assert_array_equal(outputs(k.builtin_max), np.maximum(LANES, 7))


def test_a_method_may_have_a_function_s_name():
    np.testing.assert_array_equal(outputs(k.SameName()), LANES * 3)


def test_conversions_to_8_bits_take_the_low_byte_of_16():
    x = np.array([300.0, 1000.0, -1.5] + [0.0] * 29, np.float32)
    out = np.zeros(32, np.int32)
    assert simulate(k.narrow, x, out).ok
    np.testing.assert_array_equal(out[:3], [44, -24, -1])


def test_a_python_int_does_not_give_way_to_bf16():
    assert outputs(k.bf16_times_int)[1] == 257


def test_a_launch_that_starts_again_changes_and_prints_once():
    x = np.arange(64, dtype=np.float32)
    wanted = x + 2
    run = simulate(k.runs_apart, x, x, check=False)  # one array as both arguments
    np.testing.assert_array_equal(x, wanted)
    assert len(run.printed) == 64


def test_a_shuffle_from_a_lane_that_does_not_exist_is_found():
    (finding,) = simulate(k.ragged_sum, np.ones(40, np.float32), np.zeros(40, np.float32)).findings
    assert finding.kind == "divergent shuffle" and "lane 0 of warp 1" in finding.message


def test_unwritten_memory_that_reaches_a_result_is_found():
    out = np.zeros(32, np.float32)
    (finding,) = simulate(k.unwritten_register, LANES, out).findings
    assert finding.kind == "uninitialised" and "out[0] (8 elements in all)" in finding.message
    np.testing.assert_array_equal(out, LANES)  # the first run's results stay


def test_a_register_out_of_bounds_is_found():
    (finding,) = simulate(k.register_out_of_bounds, LANES, np.zeros(32, np.float32)).findings
    assert finding.message.endswith("Out of bounds: register -1 of a register tensor of 4")
