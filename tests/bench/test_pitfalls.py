"""The recorded ways to mistime a kernel, as the chapter reads them."""

import pytest

from quack_tutorial import card
from quack_tutorial.records import pitfalls as records
from quack_tutorial.records import save

HEAD = {"device": "NVIDIA H200", "driver": "0.0"}
HEAD |= {"date": "2026-01-02 03:04", "versions": {"torch": "0.0"}}
HEAD |= {"datasheet_gb_s": 4800, "failed": {"stream": "RuntimeError: none left"}}


def point(series, name, facts, samples_us):
    return {"series": series, "name": name, **facts, "samples_us": samples_us}


def made_up():
    """Points of each series that is drawn; no number here was measured."""
    size = {"M": 4096, "N": 1024, "bytes": 16 << 20}
    yield point("timer", "events around one launch", {"size": "large", **size}, (8.0, 9.0, 10.0))
    for multiple, kept in ((3, 9.8), (16, 10.0)):
        for state, us in (("as it is", kept), ("kept lines released", 10.0), ("cleared", 10.0)):
            yield point("hint", "a plain copy", {"multiple": multiple, "L2": state, **size}, (us,) * 3)
    for second in range(3):
        facts = {"seconds": second, "sm_mhz": 1900 - second, "watts": 500 + second}
        yield point("clock", "softmax of zeros", facts, (10.0 + second,))


@pytest.fixture
def recorded(tmp_path):
    path = tmp_path / "h200.json"
    save(path, HEAD | {"points": [*made_up()]})
    return records.load(path)


def test_a_record_is_read_as_it_was_written(recorded):
    assert len(recorded.points) == 10 and recorded.failed == HEAD["failed"]
    (timer,) = recorded.series("timer", size="large")
    assert timer.us == 9.0 and timer.gb_s == pytest.approx((16 << 20) / 9000)
    assert recorded.us("hint", "a plain copy", multiple=3, L2="as it is") == 9.8
    with pytest.raises(KeyError, match="recorded 6 times"):
        recorded.us("hint", "a plain copy")


def test_the_chapters_figures_say_what_the_record_says_or_that_there_is_none(recorded, tmp_path):
    pytest.importorskip("matplotlib")
    from quack_tutorial.figures import measuring as charts

    assert records.load(tmp_path / "none.json") is None
    cases = (charts.hints(None), charts.clocks(None))
    cases += (charts.pitfalls(None, "timer"), charts.pitfalls(recorded, "L2"))
    for nothing in cases:
        assert "Not yet measured" in nothing.html
    assert "+2.0 %" in charts.hints(recorded).summary  # 10 / 9.8
    assert charts.hints(recorded).rows == (("a plain copy", "9.80", "10.00", "10.00", "10.00"),)
    wanted = (("softmax of zeros", "10.0", "12.0", "1,900", "1,898", "500", "502"),)
    assert charts.clocks(recorded).rows == wanted
    assert "8.00 to 10.00" in charts.pitfalls(recorded, "timer").html
    for chart in (charts.hints(recorded), charts.clocks(recorded)):
        assert chart._repr_html_().count("<svg") == 2 and "Measured on NVIDIA H200" in chart.origin


def test_the_benchmarks_records_are_drawn_for_the_chapter():
    pytest.importorskip("matplotlib")
    from quack_tutorial.figures import measuring as charts
    from quack_tutorial.records.bench import load_records

    with card.taken_for("h200"):  # the chapter, too, shows this card's
        chart = charts.launch_bound(load_records(), "softmax", "bfloat16", 8192, records.host_us("softmax"))
    between, in_graph, copy = (float(value) for value in chart.rows[0][2:])
    assert chart.rows[0][0] == "256" and between > in_graph > copy > 8.4 / 4.8  # MB over TB/s


def test_host_times_are_those_of_the_record():
    assert 1 < records.host_us("softmax") < 100
    with pytest.raises(KeyError, match="no host time"):
        records.host_us("softmax", provider="nobody")
