"""What the prose of chapters 7 and 8 says of recorded speeds; a new measurement that says otherwise fails here, not on the page."""

import pytest

import quack_tutorial as qt
from quack_tutorial.records import compiled

ROWS = (1024, 4096, 8192, 16384, 32768)


def share(version, dtype, N, operation="softmax"):
    return qt.recorded(operation, dtype, N=N, ladder=True)[version].of_copy


def test_softmax_online_alone_does_not_pay():
    gains = [share("online", "float32", N) - share("three-pass", "float32", N) for N in ROWS]
    assert min(gains) < 0 and max(gains) < 0.1
    assert all(share("online", "bfloat16", N) < share("three-pass", "bfloat16", N) + 0.02 for N in ROWS)


def test_softmax_unrolled_loops_are_quicker_until_the_rows_leave_l2():
    for dtype in ("float32", "bfloat16"):
        assert share("three-pass", dtype, 8192) > share("three-pass", dtype, 4096) + 0.1
        assert share("three-pass", dtype, 32768) < share("three-pass", dtype, 8192) - 0.1


def test_softmax_one_read_is_the_largest_step_until_registers_spill():
    for dtype in ("float32", "bfloat16"):
        assert all(share("registers", dtype, N) > share("vectors", dtype, N) for N in ROWS)
    assert share("registers", "float32", 131072) < 0.5 * share("vectors", "float32", 131072)
    spilled = {N: compiled.load().find("softmax", "registers", "float32", N).spilled for N in (*ROWS, 131072)}
    assert [N for N, nbytes in spilled.items() if nbytes] == [131072]


def test_softmax_rows_pay_for_short_rows_of_bfloat16_alone():
    assert share("rows", "bfloat16", 1024) > share("registers", "bfloat16", 1024) + 0.05
    for dtype in ("float32", "bfloat16"):
        assert all(share("rows", dtype, N) == pytest.approx(share("registers", dtype, N), abs=0.03) for N in ROWS[1:])


def test_softmax_async_does_not_pay():
    for dtype in ("float32", "bfloat16"):
        assert all(share("async", dtype, N) < share("rows", dtype, N) + 0.02 for N in ROWS)


def test_softmax_cluster_pays_at_131072():
    assert share("cluster", "float32", 131072) > 0.9
    assert qt.recorded("softmax", "float32", N=131072)["ours"].of_copy > 0.9
