"""In what order terms are added, and what a row's bits depend on."""

import numpy as np
import pytest
from dsl import sums as k

from cutesim.sums import same_bits, trees

X = np.random.default_rng(0).standard_normal((5, 32)).astype(np.float32)
OUT = np.zeros(5, np.float32)


def tree(kernel, row=2):
    return trees(k.of_rows(kernel), X, OUT, check=False)["mO"][row]


@pytest.mark.parametrize(("kernel", "depth"), [(k.in_a_chain, 31), (k.in_a_tree, 5), (k.rescaled, 5)])
def test_a_sum_has_a_term_a_column_at_its_depth(kernel, depth):
    found = tree(kernel)
    assert len(found.terms) == 32 and found.depth == depth
    assert sorted(found.columns(X[2])) == [*range(32)]


def test_terms_stand_in_the_order_in_which_they_are_added():
    assert tree(k.in_a_chain).columns(X[2]) == [*range(32)]
    depths = [depth for _, depth, _ in tree(k.in_a_chain).terms]
    assert depths == [31, *range(31, 0, -1)]  # 0 added to the first is no addition


def test_a_result_in_which_nothing_is_added_has_no_sum():
    found = trees(k.of_rows(k.in_a_chain), X, OUT, check=False)["mX"][0, 0]
    assert found.sum is None and found.terms == [] and str(found) == "nothing is added"


@pytest.mark.parametrize("kernel", [k.in_a_chain, k.in_a_tree, k.rescaled])
def test_rows_that_depend_on_nothing_else_are_called_so(kernel):
    for found in (same_bits(k.of_rows(kernel), X, OUT), same_bits(k.of_so_many_rows(kernel), X, OUT, len(X))):
        assert found, found


@pytest.mark.parametrize(
    ("host", "out", "where"),
    [
        (
            k.of_rows(k.in_a_tree, of_few=k.in_a_chain),
            OUT,
            "mO[0] is made otherwise alone than among 5 rows (32 terms, 31 additions",
        ),
        (k.of_rows(k.beside_a_neighbour), OUT, "mO[0] is made otherwise alone"),
        (k.of_rows(k.by_atomics), np.zeros(32, np.float32), "mO[0] is made otherwise in another order of the warps"),
    ],
)
def test_what_a_row_depends_on_is_told_with_both_trees(host, out, where):
    found = same_bits(host, X, out)
    assert not found and where in str(found) and len(found.trees) == 2
    assert found.trees[0].place != found.trees[1].place


def test_too_few_rows_and_as_many_rows_as_columns_are_refused():
    with pytest.raises(ValueError, match="2 rows: take three or more"):
        same_bits(k.of_rows(k.in_a_tree), X[:2], OUT[:2])
    with pytest.raises(ValueError, match="32 rows"):
        same_bits(k.of_rows(k.in_a_tree), np.tile(X[:1], (32, 1)), np.zeros(32, np.float32))


def test_a_finding_is_an_error_that_names_the_kernel():
    with pytest.raises(ValueError, match="has a finding"):
        same_bits(k.of_rows(k.in_a_tree), X[:, :16].copy(), OUT)


def test_without_checks_no_order_is_tried():
    found = same_bits(k.of_rows(k.by_atomics), X, np.zeros(32, np.float32), check=False)
    assert found and "orders of the warps were not tried" in str(found)
