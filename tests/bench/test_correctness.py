"""What may be timed: outputs within tolerance of float64, on rows that include the ends, with nothing unwritten."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from bench import correctness
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.operations.softmax import formula as softmax_torch

SOFTMAX = OPERATIONS["softmax"]


def test_one_unwritten_element_in_a_row_that_is_not_sampled_is_found():
    x = torch.randn(5000, 600)
    y = softmax_torch(x)
    row = next(row for row in range(5000) if row not in correctness.sampled(5000, 600, seed=0))
    y[row, 17] = float("nan")
    assert correctness.error_of(SOFTMAX, (x,), y, seed=0) == float("inf")
    assert "unwritten" in correctness.judgement(float("inf"), is_ours=False)


def test_a_peer_has_more_room_and_ours_has_none():
    assert correctness.judgement(2.0, is_ours=False) is None
    assert correctness.judgement(2.0, is_ours=True)
    assert correctness.judgement(17.0, is_ours=False)


@pytest.mark.parametrize("M, N", [(1, 1), (2, 5), (8192, 262144), (32768, 256)])
def test_sampled_rows_hold_both_ends_and_are_no_more_than_they_may(M, N):
    rows = correctness.sampled(M, N, seed=3)
    assert rows[0] == 0 and rows[-1] == M - 1
    assert len(set(rows)) == len(rows) <= 64
    assert list(rows) == sorted(rows)
