"""What the DSL takes the simulator runs, and what the DSL refuses the simulator refuses; test_conformance asks the compiler."""

import numpy as np
import pytest
from dsl import acceptance as k
from test_language import outputs

from cutesim import NotSimulated
from cutesim.simulation import simulate

X = np.arange(64, dtype=np.float32)
LANE = np.arange(32)
HALF = LANE < 16


def lanes(host, x=X):
    """What the 32 lanes wrote, in both modes."""
    return outputs(host, n=64, x=x)[:32]


@pytest.mark.parametrize("name", k.REFUSED)
def test_what_the_dsl_refuses_is_refused(name):
    (finding,) = simulate(getattr(k, name), X, np.zeros(64, np.float32)).findings
    assert finding.kind == "language" and k.REFUSED[name] in finding.message


# name: what its lanes write, from reading the kernel
WANTED = {
    "counter_bound_before": 0 * LANE + 6 + 6 + 3 + 5,
    "renamed_constexpr": np.where(LANE < 3, LANE, -7),
    "helper_of_this": 2 * LANE,
    "vector_at_lane": LANE % 4,
    "vector_in_range": 0 * LANE + 6,
    "any_and_all": np.where((LANE < 3) | (LANE > 8), LANE, -7),
    "any_with_constants": np.where(LANE > 3, LANE, -7),
    "any_of_vector": LANE,  # 0, 1, 2, 3: some are above 0, not all
    "all_as_value": 0 * LANE,
    "rebind_registers": np.where(HALF, 2, 1),
    "rebind_view": LANE % 8 + 4 * HALF,
    "rebind_pointer": np.where(HALF, 5, 1),
    "rebind_in_helper": np.where(HALF, 413, 1008),  # 4 registers of 1 or 2, one of them 7
    "rebind_argument": np.where(HALF, 1, -7),
    "list_set": LANE + HALF,
    "dict_set": LANE + HALF,
    "list_rebind": np.where(HALF, 0, LANE),
    "list_alias": LANE,  # the other name keeps the list as it was
    "list_made_inside": np.where(HALF, LANE, -7),
    "list_in_static_loop": np.where(HALF, 1, 0),
    "object_inside": np.where(HALF, LANE + 1, -7),
    "list_nested": np.where(HALF, LANE, 1),
    "while_list": np.where(HALF, 15, 7),  # 4 or 3 passes: 1 + 2 + 4 (+ 8)
    "fragment_view_dynamic": np.select([LANE % 4 == 0, LANE % 4 == 1, LANE % 4 == 2], [3, LANE + 3, LANE], 0),
    "stride_zero": 0 * LANE + 10,
    "unroll_range": 0 * LANE + 34,
    "constant_if_new_name": LANE,
    "plain_if_changes_value": LANE * 2,
    "constant_if_returns": LANE,
    "constant_if_breaks": LANE + 1,
    "literals_are_known": 0 * LANE + 8111,
    # -7 % 3 is Python's 2, 2**31 wraps, and what is not rounded on the way is 0.1 + 0.2 and 0.1 * lane in float32
    "literals_are_python_s": np.select(
        [LANE > 15, LANE > 7], [np.float32(0.1) * np.float32(LANE), np.float32(0.1 + 0.2)], np.float32(2 - 2**31)
    ),
}


@pytest.mark.parametrize("name", WANTED)
def test_lanes_that_part_keep_their_own(name):
    x = X.copy()
    fast, checked = (np.full(64, -7, np.float32) for _ in range(2))
    simulate(getattr(k, name), x, fast, check=False)
    run = simulate(getattr(k, name), x, checked)
    assert run.ok, run
    np.testing.assert_array_equal(fast[:32], WANTED[name])
    np.testing.assert_array_equal(checked, fast)


def test_tensors_swapped_in_a_while_loop_that_lanes_leave_at_different_times():
    wanted = []
    for lane in range(32):
        a, b, i = [1.0], [2.0], lane
        while i < 33:
            a, b, i = b, a, i + 8
            a[0] += 1.0
        wanted.append(a[0] + 10 * b[0])
    np.testing.assert_array_equal(lanes(k.swap_in_while), wanted)


@pytest.mark.parametrize(
    "name, wanted",
    [("vector_slice", [6 + 22]), ("vector_row", [2, 3]), ("vector_nested_slice", [12]), ("vector_of_bare_extent", [2])],
)
def test_slices_of_vectors(name, wanted):
    out = np.zeros(64, np.float32)
    simulate(getattr(k, name), X, out, check=False)
    np.testing.assert_array_equal(out[: len(wanted)], wanted)


def test_an_index_past_the_end_of_a_vector_is_found():
    (finding,) = simulate(k.vector_past_the_end, X, np.zeros(64, np.float32)).findings
    assert finding.message.endswith("Out of bounds: element 4 of a register vector of shape 4")


def test_a_list_that_a_helper_changes_under_its_caller_s_if_is_not_simulated():
    with pytest.raises(NotSimulated, match="of another function changed inside a dynamic `if` or loop"):
        simulate(k.list_through_helper, X, np.zeros(64, np.float32))


# ---- what the package's kernels do ----------------------------------------------------------------------------------


def test_a_fragment_seen_through_several_views():
    registers, total = [1, 9, 1, 1, 0, 1, 2, 3], 0
    for r in registers:
        total = total * 2 + r
    np.testing.assert_array_equal(lanes(k.fragment_views), 0 * LANE + total + sum(registers[1:6:2]))


@pytest.mark.parametrize("weight", [None, np.full(32, 3, np.float32)])
def test_an_optional_tensor(weight):
    out = np.zeros(32, np.float32)
    assert simulate(k.optional, X, out, weight).ok
    np.testing.assert_array_equal(out, LANE * (1 if weight is None else 3))
    assert simulate(k.optional, X, out).ok
    np.testing.assert_array_equal(out, LANE)


def test_int64_elements_as_indices():
    x, out = np.arange(32, dtype=np.int64) * 1000, np.zeros(32, np.int64)
    assert simulate(k.int64_index, x, out).ok
    np.testing.assert_array_equal(out, x[x % 7])


@pytest.mark.parametrize("host", [k.grid_stride, k.grid_stride_two_blocks_per_sm])
def test_a_grid_stride_loop_reads_the_grid_s_size(host):
    out = np.zeros(128, np.float32)
    x = np.arange(128, dtype=np.float32)
    assert simulate(host, x, out).ok
    np.testing.assert_array_equal(out, x + 2)


@pytest.mark.parametrize("schedule", ["forward", "seeded"])
def test_16_blocks_exchange_4_and_8_bytes_in_two_stages(schedule):
    out = np.zeros(512, np.float32)
    run = simulate(k.cluster16, X, out, 5, schedule=schedule)
    assert run.ok, run
    # block p sends x[peer] + p to its peers, five times
    np.testing.assert_array_equal(out.reshape(16, 32), [[5 * (16 * block + 120)] * 32 for block in range(16)])


@pytest.mark.parametrize("number", k.STORED)
def test_a_tensor_takes_numbers_that_are_not_wider_and_of_its_kind(number):
    for dtype in k.TYPES:
        run = simulate(k.storing(number, dtype), X, np.zeros(64, np.float32))
        assert run.ok == (dtype in k.STORED[number].split()), (number, dtype, run)
        assert run.ok or f"in a {dtype} tensor; convert it: cutlass.{dtype}(...)" in run.findings[0].message
