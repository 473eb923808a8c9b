"""The reference against hand-made cases, torch's float64 softmax, and torch's own conversions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quack_tutorial import reference

torch = pytest.importorskip("torch")

INF, NAN = math.inf, math.nan


def test_softmax_by_hand():
    # exp(0), exp(ln 2), exp(ln 5) = 1, 2, 5
    got = reference.softmax([[0.0, math.log(2), math.log(5)], [1e30, 1e30, -1e30]])
    np.testing.assert_allclose(got, [[1 / 8, 2 / 8, 5 / 8], [0.5, 0.5, 0.0]], rtol=1e-15)


@pytest.mark.parametrize("row", ([-INF, -INF], [INF, 0.0], [NAN, 0.0], [-INF, 0.0], [INF, -INF], [0.0]))
def test_softmax_of_hard_rows_is_torchs(row):
    np.testing.assert_array_equal(
        reference.softmax(row), torch.softmax(torch.tensor(row, dtype=torch.float64), 0).numpy()
    )


@pytest.mark.parametrize(
    "dtype, value, step",
    [
        ("float32", 1.0, 2**-23),
        ("float32", 1.999, 2**-23),
        ("float32", 2.0, 2**-22),
        ("float32", 1e-45, 2**-149),  # subnormal
        ("float32", 0.0, 2**-149),
        ("float16", -1.0, 2**-10),
        ("float16", 6e-8, 2**-24),
        ("bfloat16", 1.0, 2**-7),
        ("bfloat16", 0.25, 2**-9),
    ],
)
def test_ulp_by_hand(dtype, value, step):
    assert reference.ulp(value, dtype) == step


@pytest.mark.parametrize("dtype", reference.FORMATS)
@given(st.floats(width=32))
def test_rounding_is_torchs(dtype, value):
    # float32 inputs, so that torch rounds once
    expected = torch.tensor([value], dtype=torch.float32).to(getattr(torch, dtype)).double().numpy()
    np.testing.assert_array_equal(reference.round_to([value], dtype), expected)


def test_distance_counts_steps_and_treats_nan_and_infinity_as_values():
    one = 1.0
    assert reference.ulp_distance(one + 3 * 2**-23, one, "float32") == 3
    assert reference.ulp_distance(NAN, NAN, "float32") == 0
    assert reference.ulp_distance(INF, INF, "float16") == 0
    assert reference.ulp_distance(INF, -INF, "float16") == INF
    assert reference.ulp_distance(NAN, 1.0, "bfloat16") == INF
    assert reference.ulp_distance(1.0, NAN, "bfloat16") == INF


def test_tolerance_grows_with_the_distance_from_the_maximum():
    # The smaller element's share of the sum is nothing, a half, a quarter; two terms are one level of additions.
    np.testing.assert_allclose(reference.softmax_tolerance([[0.0, -1000.0]], "float32"), [[4.5, 2004.5]])
    np.testing.assert_allclose(reference.softmax_tolerance([[7.0, 7.0]], "float32"), [[4.5, 4.5]])
    below = math.log(3)
    expected = [[4.5 + 2 * (below / 4), 4.5 + 2 * (below + below / 4)]]
    np.testing.assert_allclose(reference.softmax_tolerance([[0.0, -below]], "float32"), expected)
    np.testing.assert_allclose(reference.softmax_tolerance([[0.0] + [-INF] * 1023], "float32"), 9.0)
    np.testing.assert_array_equal(reference.softmax_tolerance([[0.0, -3.0]], "bfloat16"), [[1.0, 1.0]])


@pytest.mark.parametrize("dtype", reference.FORMATS)
def test_error_accepts_a_good_softmax_and_refuses_one_wrong_element(dtype):
    x = torch.randn(8, 100, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))
    good = torch.softmax(x.float(), -1).to(x.dtype).double().numpy()
    assert reference.softmax_error(x.double().numpy(), good, dtype) <= 1.0
    for wrong in (good[3, 7] * 1.05, NAN, 0.0):
        bad = good.copy()
        bad[3, 7] = wrong
        assert reference.softmax_error(x.double().numpy(), bad, dtype) > 1.0
    assert reference.softmax_error(np.zeros((0, 4)), np.zeros((0, 4)), dtype) == 0.0


def test_unknown_dtype_is_named():
    with pytest.raises(ValueError, match="float32, float16, bfloat16, got 'int8'"):
        reference.ulp(1.0, "int8")
