"""What the prose of chapters 7 to 9 says of recorded speeds; a new measurement that says otherwise fails here, not on the page."""

import pytest

import quack_tutorial as qt
from quack_tutorial.records import compiled, profile

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


# Chapter 9 -----------------------------------------------------------------------------------------------------------


def loss_us(version, dtype, N):
    return qt.recorded("cross-entropy", dtype, N=N, ladder=True)[version].us


def test_cross_entropy_online_pays_where_l2_did_not_answer():
    for dtype, N, slower in (("float32", 8192, True), ("bfloat16", 8192, True), ("bfloat16", 16384, True)):
        assert (loss_us("online", dtype, N) > 1.05 * loss_us("two-pass", dtype, N)) == slower
    assert loss_us("online", "float32", 16384) < 0.7 * loss_us("two-pass", "float32", 16384)


def test_cross_entropy_in_flight_loses_at_1024_and_at_16384_in_bfloat16():
    for dtype, N in (("float32", 1024), ("bfloat16", 1024), ("bfloat16", 16384)):
        assert loss_us("in flight", dtype, N) > 1.05 * loss_us("vectors", dtype, N)
    assert loss_us("in flight", "bfloat16", 131072) < loss_us("vectors", "bfloat16", 131072)
    assert compiled.load().find("cross-entropy", "in flight", "bfloat16", 16384).registers == 80


def test_cross_entropy_in_bfloat16_is_held_back_by_instructions():
    counted = profile.load()
    rows, fast, ours = (counted("cross-entropy", name, 16384).of_main for name in ("rows", "fast exp", "ours"))
    assert rows("dram_read_bytes") == pytest.approx(ours("dram_read_bytes"), rel=0.01)
    assert rows("instructions") > 1.4 * fast("instructions") > 1.4 * 1.3 * ours("instructions")
    assert rows("warps") < 0.65 * fast("warps")
    assert loss_us("fast exp", "bfloat16", 16384) < 0.7 * loss_us("rows", "bfloat16", 16384)
    assert (
        share("fast exp", "float32", 16384, "cross-entropy") < share("rows", "float32", 16384, "cross-entropy") + 0.02
    )


def test_cross_entropy_backward_tiles_do_not_pay():
    for dtype in ("float32", "bfloat16"):
        for N in (1024, 4096, 16384, 32768):
            tiles, vectors = (share(name, dtype, N, "cross-entropy backward") for name in ("tiles", "vectors"))
            assert tiles < vectors + 0.01


def test_cross_entropy_fused_saves_about_a_third():
    for N, saved in ((50257, 0.26), (128256, 0.31), (151936, 0.31)):
        loss, gradient, fused = (
            qt.recorded(f"cross-entropy{kind}", "bfloat16", N=N)["ours"].us for kind in ("", " backward", " fused")
        )
        assert 1 - fused / (loss + gradient) == pytest.approx(saved, abs=0.03)
