"""Whether two kernels are the same formula: identities hold, whatever rounds, and no difference is too small."""

import math
import re

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


@pytest.mark.parametrize("one, count, lost_in", [(k.of_exponents, "256", "exp"), (k.root_of_a_sum, r"\d+", "sqrt")])
def test_what_no_field_has_is_named_with_its_line(one, count, lost_in):
    found = compared(one, one, X / 8)
    line = one.__code__.co_firstlineno + 1
    assert found.same is None
    assert re.search(rf"{count} of 256 elements of mO .* {lost_in} in \S*formulas.py:{line}$", str(found)), found


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


def test_constants_are_what_a_reader_takes_them_for_however_they_are_held():
    field = FIELDS[0]
    log2_e, single = math.log2(math.e), lambda x: float(np.float32(x))
    quotients = [(1, 3), (1, 10), (7123, 10000), (1, 50257), (355, 113), (205, 2048), (4099**2, 1)]
    for a, b in quotients:
        read = field.divide(field.encode(float(a)), field.encode(float(b)))
        assert field.constant(a / b) == read and (a == 4099**2 or field.constant(single(a / b)) == read), (a, b)
    assert field.constant(5 * 1e-6) == field.constant(5e-6) and field.constant(0.1 + 0.2) == field.constant(0.3)
    assert field.constant(math.pi) == field.constant(3.1415927) == field.constant(single(math.pi))
    assert field.constant(log2_e) == field.constant(1.442695) == field.constant(single(log2_e)) == field._of(1, 1)
    assert field.constant(-3 / log2_e) == field.constant(single(-3 * math.log(2))) == field._of(-3, -1)
    others = [float(np.nextafter(np.float32(log2_e), np.float32(end))) for end in (0, 2)]
    assert len({field.constant(x) for x in (0.0, 1e-50, 31.999999, 32.0, *others, log2_e)}) == 7
