"""The charts of Nsight Compute's counters, on a case whose numbers are worked out by hand."""

import pytest

pytest.importorskip("matplotlib")

from bench.profile import METRICS
from quack_tutorial.figures import profile as charts
from quack_tutorial.records import profile
from quack_tutorial.records.profile import Profile, Profiled

# 1,000 rows of 1,000 float32 numbers: 4 MB, read twice and written once, in sectors of 32 bytes.
MEGABYTE = 1_000_000
COUNTED = dict.fromkeys(METRICS, 0.0) | {
    "kernel": "k",
    "time_us": 10.0,
    "dram_read_bytes": 8 * MEGABYTE,
    "dram_write_bytes": 4 * MEGABYTE,
    "l1_load_sectors": 8 * MEGABYTE / 32,
    "l1_store_sectors": 4 * MEGABYTE / 32,
    "l2_sectors_read": 12 * MEGABYTE / 32,
    "l2_sectors_written": 6 * MEGABYTE / 32,
    "issue_percent": 50.0,
    "warps": 40.0,
    "stall_long_scoreboard": 12.0,
    "stall_barrier": 3.0,
    "stall_lg_throttle": 0.5,
    "stall_mio_throttle": 1.5,
    "registers": 48.0,
    "threads": 320.0,
    "smem_bytes": 1240.0,
}


def case(provider="a", source=None, **changed):
    return Profiled("softmax", provider, "float32", 1000, 1000, (COUNTED | changed,), source)


A = case()
RECORD = Profile({"device": "GPU", "date": "2026-01-01", "driver": "1", "ncu": "Version 9", "versions": {}}, (A,))


def test_reads_and_writes_are_in_matrices():
    assert (A.reads, A.writes) == (2, 1)


def test_lines_of_the_source_are_found_by_their_words():
    made = case(source="for i in x:\n    a = tl.load(p)\n    b = a + 1\n    tl.store(q, b)\n")
    assert made.lines("tl.load", "tl.store") == "a = tl.load(p)\ntl.store(q, b)"
    assert A.lines("tl.load") == ""


def test_the_memory_chart_has_the_bytes_of_each_edge():
    made = charts.memory(RECORD, A)
    assert [row[1:] for row in made.rows] == [
        ("registers and L1", "loads", "0.01", "2.00"),
        ("registers and L1", "stores", "0.00", "1.00"),
        ("L1 and L2", "loads", "0.01", "3.00"),
        ("L1 and L2", "stores", "0.01", "1.50"),
        ("L2 and HBM", "loads", "0.01", "2.00"),
        ("L2 and HBM", "stores", "0.00", "1.00"),
    ]
    assert "a 2.00 and 1.00" in made.summary and "spilled" not in made.summary


def test_spills_have_arrows_of_their_own():
    made = charts.memory(RECORD, A, case("b", local_store_sectors=4 * MEGABYTE / 32))
    assert ("b", "registers and L1", "spilled, stores", "0.00", "1.00") in made.rows
    assert "In red: spilled registers." in made.summary
    html = made._repr_html_()
    assert html.count("<svg") == 2 and "Counted on one GPU, 2026-01-01, by Nsight Compute 9" in html


def test_stalls_add_up_to_the_cycles_between_instructions():
    made = charts.stalls(RECORD, [A])
    (row,) = made.rows
    # 40 warps on 4 schedulers, one instruction in two cycles: each warp issues every 20 cycles.
    assert row == ("a", "12.00", "0.00", "3.00", "2.00", "0.00", "0.00", "3.00", "20.00")
    assert "a 60% for loads" in made.summary


def test_blocks_that_fit_do_not_count_the_reserved_kilobyte_twice():
    assert charts.blocks_that_fit(A) == 4  # 48 x 32 registers a warp, 10 warps: 15,360 of 65,536
    # 227 KB are all that a block can have; with the reserved 1 KB it fills the SM.
    assert charts.blocks_that_fit(case(smem_bytes=228 * 1024.0, registers=32.0, threads=32.0)) == 1


def test_counters_stand_in_the_order_asked_for():
    text = charts.counters(RECORD, [A], ("registers", "reads", "fits")).text.splitlines()
    assert [line.split()[-1] for line in text[1:4]] == ["48", "2.00", "4"]


def test_no_more_blocks_were_counted_than_fit():
    for found in profile.load().cases:
        counted = found.of_main("warps") / (found.of_main("threads") / 32)
        got = 0.8 * charts.blocks_that_fit(found)
        assert got < counted <= charts.blocks_that_fit(found), found.provider
