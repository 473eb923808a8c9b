"""The charts of the memory hierarchy show the record's own numbers."""

from dataclasses import replace

import pytest

pytest.importorskip("matplotlib")

from quack_tutorial.figures import memory as charts
from quack_tutorial.records import memory

CARD = memory.load()


@pytest.mark.parametrize("chart", [charts.latency, charts.in_flight, charts.stride, charts.conflicts])
def test_a_chart_has_a_row_for_each_point_and_says_where_it_is_from(chart):
    made = chart(CARD)
    series = {"latency": "chase", "in_flight": "in flight", "conflicts": "conflict"}
    series = series.get(chart.__name__, chart.__name__)
    assert len(made.rows) == len(CARD.series(series))
    html = made._repr_html_()
    assert html.count("<svg") == 2 and f"Measured on {CARD.device}" in html
    assert "http" not in html.replace("http://www.w3.org", "")


def test_littles_law_bends_where_the_bandwidth_is_reached():
    line = charts.in_flight(CARD).figure.axes[0].lines[0]
    x, y = line.get_data()
    assert y[-1] == CARD.bandwidth_gb_s("HBM")
    assert y[0] == pytest.approx(CARD.sms * x[0] / CARD.latency_ns("HBM"))


def test_this_machine_s_own_points_stand_beside_the_recorded_ones():
    slower = tuple(replace(p, ns=20 * p.ns) for p in CARD.points)
    own = memory.Hierarchy(CARD.provenance | {"device": "NVIDIA L4"}, slower)
    made, alone = charts.in_flight(CARD, here=own), charts.in_flight(CARD)
    assert made.head == (*alone.head, "this machine, GB/s")
    assert [row[:-1] for row in made.rows] == [*alone.rows]
    every = CARD.series("in flight")
    assert [row[-1] for row in made.rows] == [f"{p.gb_s / 20:,.0f}" for p in every]
    labels = [line.get_label() for line in made.figure.axes[0].lines]
    assert "16 bytes, this machine" in labels
    assert len(labels) == 2 * len(alone.figure.axes[0].lines) - 1
    assert "This machine: NVIDIA L4" in made.origin
    assert f"{own.bandwidth_gb_s('HBM'):,.0f} GB/s" in made.summary


def test_sizes_are_named():
    found = [charts.size(n) for n in (512, 4096, 3 << 20, 4 << 30)]
    assert found == ["512 B", "4 KiB", "3 MiB", "4 GiB"]
