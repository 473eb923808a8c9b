"""What chapter 16 shows of the recorded times of its kernels."""

import pytest

from quack_tutorial.records import levels as records


def test_the_chart_says_what_the_record_says_or_that_there_is_none():
    pytest.importorskip("matplotlib")
    from quack_tutorial.figures import measuring as charts

    assert "Not yet measured" in charts.levels(None).html
    us = {"copy": 2.0, "template": 4.0, "overlapping": 2.5, "what ships": 2.0}
    kept = {"device": "NVIDIA H200", "driver": "0.1"}
    kept |= {"date": "2026-01-02 03:04", "datasheet_gb_s": 4800}
    kept["versions"] = {"torch": "0.2", "nvidia-cutlass-dsl": "0.3"}
    chart = charts.levels(records.Levels(kept, (records.Cell("float32", 2048, 1024, 2_400_000, us),)))
    assert "Overlap saves the template 1.50 of 4.0 us at 2,048 x 1,024 float32" in chart.summary
    assert chart.rows[0] == ("float32, 2,048 x 1,024", "copy", "2.00", "1,200", "100%", "25%")
    assert chart.rows[2][4] == "80%" and chart._repr_html_().count("<svg") == 2
