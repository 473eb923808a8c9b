"""Whether two kernels are the same formula: identities hold, whatever rounds, and no difference is too small."""

import numpy as np
import pytest
from dsl import formulas as k

from cutesim.formulas import same_formula
from cutesim.values.field import FIELDS

X = (np.random.default_rng(0).standard_normal((8, 32)) * 2).astype(np.float32)


def compared(one, other, x=X):
    return same_formula(k.rows(one), k.rows(other), x, np.zeros_like(x))


@pytest.mark.parametrize(
    "one, other",
    [
        (k.softmax, k.softmax_in_powers_of_two),
        (k.softmax, k.softmax_unshifted),
        (k.softmax, k.softmax_by_logarithm),
        (k.variance, k.variance_by_squares),
        (k.normed, k.normed_by_rsqrt),
        (k.largest, k.largest_of_negatives),
        (k.tanh, k.tanh_of_a_product),
    ],
)
def test_equal_formulas_are_called_so_however_they_round(one, other):
    found = compared(one, other)
    assert found.same is True, found
    assert "the same formula" in str(found) and (found.ulps > 0) == ("by rounding" in str(found))


ONES = [(k.softmax, k.softmax_with_a_tiny_term), (k.variance, k.variance_of_a_sample)]
ONES += [(k.variance, k.normed), (k.tanh, k.largest)]


@pytest.mark.parametrize("one, other", ONES)
def test_a_difference_is_told_however_small(one, other):
    found = compared(one, other)
    assert found.same is False and "mO[0, 0] is the first of" in str(found)


def test_a_term_below_the_last_bit_differs_though_all_bits_agree():
    found = compared(k.softmax, k.softmax_with_a_tiny_term)
    assert found.same is False and found.ulps == 0


def test_an_exponential_of_an_exponential_cannot_be_said():
    found = compared(k.of_exponents, k.of_exponents, X / 8)
    assert found.same is None and "256 of 256 elements of mO" in str(found)


def test_arguments_stay_as_they_are_and_a_finding_is_no_comparison():
    x = X.copy()
    compared(k.softmax, k.softmax_unshifted, x)
    assert (x == X).all()
    with pytest.raises(ValueError, match="has a finding"):
        same_formula(k.rows(k.softmax), k.rows(k.softmax), X[:, :31].copy(), np.zeros((8, 31), np.float32))


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_s_functions_turn_sums_into_products_and_back(field):
    a, b = (field.encode(x, constants=False) for x in np.random.default_rng(1).standard_normal((2, 1000)))
    P, Q = field.moduli
    assert len(np.unique(field.exponentials[0])) == P
    assert pow(int(field.exponentials[0][1]), P, Q) == 1
    assert (field.multiply(field.exp(a), field.exp(b)) == field.exp(field.add(a, b))).all()
    assert (field.log(field.exp(a)).real == a.real).all()
    logs = field.add(field.log(a), field.log(b))
    assert (field.log(field.multiply(a, b)).real == logs.real).all()
    known = (roots := field.root(a)).imag >= 0
    assert (field.multiply(roots, roots).imag[known] == a.imag[known]).all()
    assert 400 < known.sum() < 600
    assert (field.multiply(field.divide(a, b), b) == a).all()
    assert (
        field.constant(0.1)
        == field.constant(float(np.float32(0.1)))
        == field.divide(field.encode(1.0), field.encode(10.0))
    )
