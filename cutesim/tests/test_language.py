"""The DSL's behaviour as the simulator gives it, and the sentences for what the DSL refuses."""

import numpy as np
import pytest
from dsl import language as k

from cutesim import NotSimulated, SimulationError
from cutesim.simulation import simulate


def run(host, *arrays, **options):
    return simulate(host, *arrays, **options)


def outputs(host, n=32, dtype=np.float32, x=None):
    x = np.arange(n, dtype=dtype) if x is None else x
    fast, checked = np.full(n, -7, dtype), np.full(n, -7, dtype)
    assert run(host, x, fast, check=False).ok
    result = run(host, x, checked)
    assert result.ok, result
    np.testing.assert_array_equal(fast, checked)
    return checked


def test_floor_division_floors_and_remainder_keeps_the_dividends_sign():
    x = np.array([-7, -1, 0, 1, 7, 8] + [3] * 26, np.int32)
    np.testing.assert_array_equal(outputs(k.floor_divide, dtype=np.int32, x=x), x // 4)
    np.testing.assert_array_equal(outputs(k.remainder, dtype=np.int32, x=x), np.fmod(x, 4))


def test_a_dynamic_if_selects_lane_by_lane():
    np.testing.assert_array_equal(outputs(k.clamp_at_ten), np.minimum(np.arange(32), 10))


def test_nested_ifs_and_elif():
    wanted = [0 if i < 8 else 1 if i < 16 else (2 if i % 2 else 3) for i in range(32)]
    np.testing.assert_array_equal(outputs(k.four_ways), wanted)


def test_loops_with_bounds_that_differ_between_lanes():
    np.testing.assert_array_equal(outputs(k.sum_below_lane), [i * (i - 1) / 2 for i in range(32)])
    np.testing.assert_array_equal(outputs(k.halvings, dtype=np.int32), [0] + [int(np.log2(i)) for i in range(1, 32)])


def test_what_is_thrown_away_may_change_its_type():
    np.testing.assert_array_equal(outputs(k.throws_away), [i * (i - 1) / 2 for i in range(32)])


def test_a_conditional_expression_is_lazy():
    np.testing.assert_array_equal(outputs(k.lazy_choice), [i if i < 31 else -1 for i in range(32)])


def test_and_does_not_short_circuit():
    x = np.arange(32, dtype=np.float32)
    found = run(k.guard_by_and, x, np.zeros(32, np.float32)).findings
    assert [f.kind for f in found] == ["out of bounds"]
    assert "x[32]" in found[0].message


def test_helpers_classes_and_closures():
    np.testing.assert_array_equal(outputs(k.with_helper), np.arange(32) * 2 + 1)
    np.testing.assert_array_equal(outputs(k.Scaler(3.0)), np.arange(32) * 3)
    np.testing.assert_array_equal(outputs(k.closure_over(5.0)), np.arange(32) + 5)


def test_a_helper_without_a_decorator_is_plain_python():
    np.testing.assert_array_equal(outputs(k.with_plain_loop), np.arange(32) * 7)


def test_a_function_as_a_constexpr_argument():
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    assert run(k.applied, x, out, k.negated).ok
    np.testing.assert_array_equal(out, -x)


def test_shuffle_up_leaves_the_first_lanes_their_own():
    np.testing.assert_array_equal(outputs(k.from_below), [0, 1, 2, *range(29)])


def test_printf_says_thread_and_value():
    result = run(k.prints, np.arange(32, dtype=np.float32), np.zeros(32, np.float32))
    assert result.printed == ("thread 0 has 0.000000\n", "thread 1 has 1.000000\n")


def test_two_kernels_in_one_host_function():
    np.testing.assert_array_equal(outputs(k.two_kernels), np.arange(32) * 4)


def test_grid_and_block_of_three_dimensions():
    out = np.full((2, 3, 4, 5), -1, np.int32)
    assert run(k.three_dimensions, out).ok
    np.testing.assert_array_equal(out.ravel(), np.arange(120))


REFUSED = {
    k.type_changes: "s changes type",
    k.list_by_dynamic_index: "range_constexpr",
    k.early_return: "invert the condition and put the work inside",
    k.gone_after_if: "y is bound first inside a dynamic `if`",
    k.breaks: "break in a loop that runs on the GPU",
    k.stores_wide: "cannot store Float64 in a Float32 tensor",
    k.barrier_in_half_a_warp: "only 16 of the 32 threads of warp 0",
    k.barrier_in_half_a_block: "the block's other warps have ended without reaching it",
    k.shuffle_in_half_a_warp: "its mask names lane 16 of warp 0",
    k.with_plain_if: "a helper needs @cute.jit for that",
    k.with_plain_constexpr: "range_constexpr works in @cute.jit",
    k.too_many_threads: "2048 threads; a block has 1 to 1024",
    k.too_much_shared_memory: "Hopper allows 232,448",
    k.odd_alignment: "byte_alignment is 9, and an alignment is a power of two",
    k.endless: "stopped after 2,000 loop steps",
    k.forever: "its condition is always true",
    k.misaligned: "reads 16 bytes of x at an address that is 4 past a multiple of 16",
    k.past_the_end: "thread 28 of block 1 reads 4 bytes at x[128]; x is (128,)",
}


@pytest.mark.parametrize("host", REFUSED, ids=lambda h: h.__name__)
def test_what_is_refused_says_where_and_what(host):
    x = np.arange(128, dtype=np.float32)
    (finding,) = run(host, x, np.zeros(128, np.float32), max_steps=2000).findings
    assert REFUSED[host] in finding.message
    assert finding.message.startswith("language.py:")
    line = finding.lines[0]
    assert "# here" in line.text, line
    with pytest.raises(SimulationError) as raised:
        run(host, x, np.zeros(128, np.float32), check=False, max_steps=2000)
    assert REFUSED[host] in str(raised.value)


def test_what_is_not_modelled_is_named():
    with pytest.raises(NotSimulated, match=r"not simulated: cute.arch.issue_clc_query \(language.py:\d+\)"):
        run(k.unknown_name, np.zeros(32, np.float32), np.zeros(32, np.float32))


@pytest.mark.parametrize(
    ("kernel", "instead"),
    [
        (k.tries, "leave `try` out"),
        (k.matches, "write if and elif"),
        (k.sets_a_global, "read a global without the word"),
    ],
)
def test_a_statement_that_is_not_simulated_says_what_to_write_instead(kernel, instead):
    with pytest.raises(NotSimulated, match=rf"{instead}.* \(language.py:\d+\)"):
        run(kernel, np.zeros(32, np.float32), np.zeros(32, np.float32))


def test_a_layout_may_be_known_only_when_the_kernel_runs():
    x, out = np.arange(128, dtype=np.float32), np.zeros(32, np.float32)
    assert not run(k.layout_of_the_block, x, out).findings
    assert out[:4].tolist() == [16, 18, 20, 22] and out[8:12].tolist() == [8] * 4


def test_a_layout_for_each_thread_is_not_simulated():
    with pytest.raises(NotSimulated, match=r"a layout that is not the same in all threads \(language.py:\d+\)"):
        run(k.layout_of_each_thread, np.zeros(32, np.float32), np.zeros(32, np.float32))


def test_source_that_cannot_be_read_is_said():
    scope = {"__name__": "__main__"}
    exec("def host(x):\n    pass\n", scope)
    with pytest.raises(NotSimulated, match="cannot read the source of host"):
        run(scope["host"], np.zeros(4, np.float32))


def test_arguments_it_cannot_take():
    with pytest.raises(TypeError, match="complex64"):
        run(k.clamp_at_ten, np.zeros(32, np.complex64), np.zeros(32, np.float32))
    with pytest.raises(TypeError, match="needs a @cute.jit function"):
        run(42)
    with pytest.raises(ValueError, match="schedule='sideways'"):
        run(k.clamp_at_ten, np.zeros(32), np.zeros(32), schedule="sideways")
