"""The times of cross-entropy over a vocabulary in parts, as the chapter reads them from their records."""

import pytest

from quack_tutorial.records import parallel as records
from quack_tutorial.records import save

WAYS = (
    "pairs loss, kernel, exchange, idle exchange, all-gather, all-reduce, pairs gradient, two all-reduces loss, "
    "two all-reduces exchange, Megatron loss, Megatron gradient, gather, gathered loss, one GPU loss, one GPU gradient"
).split(", ")


CELL = {
    **{"dtype": "bfloat16", "M": 8192, "N": 128256, "ranks": 2},
    "errors": {"loss": 0.5, "gradient": 0.25, "loss from one GPU": 1e-6, "gradient from one GPU": 0.0},
    "samples_us": {name: [1.0, 9.0, 2.0] for name in WAYS} | {"kernel": [1.5], "exchange": [7.0]},
    "asked_bytes": {"pairs": 65536, "gathered": 10**9},
    "nvlink_bytes": {"pairs": 70000.0, "gathered": None},
}
RECORD = {"device": "NVIDIA H200", "ranks": 2, "date": "2026-01-02 03:04"}
RECORD |= {"driver": "0.0", "nccl": "0.3"}
RECORD |= {"versions": {"torch": "0.1", "nvidia-cutlass-dsl": "0.2"}}


def test_a_record_is_read_as_it_was_written(tmp_path):
    assert records.load(tmp_path) == []
    for name, ranks in (("four", 4), ("two", 2)):
        save(tmp_path / f"{name}.json", RECORD | {"ranks": ranks, "cells": [CELL]})
    two, four = records.load(tmp_path)
    assert (two.ranks, four.ranks) == (2, 4)
    cell = two.cell(8192, 128256)
    assert cell.us["pairs loss"] == 2.0 and cell.exchange_us == 0.5 and cell.exchange_share == 0.25
    assert cell.total_us("gathered") == 4.0 and cell.speed_up == 1.0
    assert cell.lost_us == {"kernel": 0.5, "exchange": 0.5, "gradient": 1.0}
    assert sum(cell.lost_us.values()) == cell.total_us("pairs") - cell.total_us("one GPU") / 2
    assert "2 NVIDIA H200s" in two.origin and "NCCL 0.3" in two.origin
    with pytest.raises(KeyError, match="there are bfloat16 8192 128256"):
        two.cell(8192, 128256, "float32")


def test_the_chapters_chart_says_what_the_record_says_or_that_there_is_none(tmp_path):
    pytest.importorskip("matplotlib")
    from quack_tutorial.figures import training as charts

    assert "Not yet measured" in charts.head(None).html
    save(tmp_path / "two.json", RECORD | {"cells": [CELL]})
    found = records.load(tmp_path)
    chart = charts.vocabulary(found)
    assert chart.rows[0] == ("2", "8,192", "128,256", *["0.00"] * 5)
    assert "2 NVIDIA H200s" in chart._repr_html_()
    chart = charts.scaling(found, records.model(found))
    assert chart.rows[0][:4] == ("2", "8,192", "128,256", "1.00")
    assert "model" not in chart._repr_html_()


def test_the_published_records_are_right_and_hold_together():
    found = records.load()
    assert {record.ranks for record in found} >= {1, 2, 4}
    for cell in (cell for record in found for cell in record.cells):
        of_tolerance = [error for name, error in cell.errors.items() if "from one GPU" not in name]
        assert len(of_tolerance) == 8 and max(of_tolerance) <= 1
    assert records.model(found).off < 0.05
