"""The charts of recorded speeds: what they plot and say, for made-up records."""

import re
from pathlib import Path

import pytest

from tests.figures.test_players import Checker

pytest.importorskip("matplotlib", reason="charts are drawn by matplotlib, which is not installed")

from quack_tutorial.figures import climb, ladder, throughput
from quack_tutorial.figures.charts import flat
from quack_tutorial.records import bench, results
from quack_tutorial.records.bench import Result
from tests.bench import synthetic

SIZES = (256, 1024, 16384, 131072)


@pytest.fixture(autouse=True)
def no_kernel_has_changed(monkeypatch):
    monkeypatch.setattr(bench, "changed_kernels", dict)


def records(providers=("ours", "eager"), dtype="float32"):
    """Made-up speeds: a ceiling of 4000 GB/s, ours at 95 %, others slower."""
    return [
        {"operation": "softmax", "provider": p, "dtype": dtype, "M": 8192, "N": n, "gb_s": 4000.0 * (0.95 - 0.1 * i),
         "ceiling": "copy, 1024 words, 8 warps", "ceiling_gb_s": 4000.0, "device": "Made-up GPU", "date": "2026-01-02"}
        for i, p in enumerate(providers) for n in SIZES
    ]  # fmt: skip


def versions():
    return [
        {"operation": "softmax", "provider": v, "dtype": "float32", "M": 8192, "N": 16384, "gb_s": s,
         "ceiling": "torch copy", "fraction_of_ceiling": s / 4000, "device": "Made-up GPU", "date": "2026-01-02"}
        for v, s in (("three passes", 1000.0), ("one read", 3800.0))
    ]  # fmt: skip


def lines(chart):
    (axes,) = chart.figure.axes
    return {line.get_label(): list(zip(*map(list, line.get_data()))) for line in axes.lines}


def test_throughput_plots_every_provider_and_the_ceiling():
    chart = throughput(records())
    plotted = lines(chart)
    assert set(plotted) == {"the fastest plain copy of the same size", "ours", "eager"}
    assert plotted["the fastest plain copy of the same size"] == [(n, 4000.0) for n in SIZES]
    assert plotted["eager"] == [(n, pytest.approx(3400.0)) for n in SIZES]
    assert chart.figure.axes[0].get_xscale() == "log"


def test_a_line_has_a_gap_where_nothing_was_measured():
    missing = [r for r in records() if (r["provider"], r["N"]) != ("eager", 1024)]
    drawn = lines(throughput(missing))["eager"]
    assert [n for n, _ in drawn] == list(SIZES)
    # NaN: no line to it and none from it
    assert [speed != speed for _, speed in drawn] == [False, True, False, False]


@pytest.mark.parametrize("chart", (throughput(records()), ladder(versions())), ids=("throughput", "ladder"))
def test_a_phone_has_a_drawing_of_its_own(chart):
    html = chart._repr_html_()
    wide, narrow = (
        re.search(rf'<div class="qt-{kind}"><svg.*?</svg>', html, re.DOTALL)[0] for kind in ("wide", "narrow")
    )
    width = [int(re.search(r'<svg[^>]* width="(\d+)"', drawing)[1]) for drawing in (wide, narrow)]
    assert width == [763, 324]
    names = set(re.findall(r' id="([^"]+)"', wide)) & set(re.findall(r' id="([^"]+)"', narrow))
    assert not names  # a reference in one must not find the other, which is not shown
    texts = [set(re.findall(r"<text[^>]*>([^<]+)</text>", drawing)) for drawing in (wide, narrow)]
    curves = chart.head[0] == "N"
    said = {"ours", "eager", "GB/s"} if curves else {"three passes", "one read", "25 %", "95 %"}
    assert said <= texts[0] & texts[1]


def test_the_days_are_those_of_the_cells_that_are_drawn():
    table = records()
    for row in table:
        row["date"] = "2026-01-05" if row["N"] == 256 else "2026-01-03" if row["N"] == 1024 else "2026-01-02"
    assert throughput(table).origin == "Measured on Made-up GPU, 2026-01-02 to 2026-01-05."
    cells = [
        synthetic.cell(N=256, measured="2026-01-04T23:59:59+00:00"),
        synthetic.cell(N=512, measured="2026-01-06T00:00:00+00:00"),
    ]
    record = synthetic.record(*cells)
    assert record.days == "2026-01-04 to 2026-01-06"
    assert results.provenance(record).endswith(", 2026-01-04 to 2026-01-06.")
    assert {row["date"] for row in flat([record]) if row["N"] == 256} == {"2026-01-04"}
    assert synthetic.record().days == record.date


def test_this_machines_points_stand_apart():
    here = [dict(r, gb_s=2000.0, device="Other GPU") for r in records(("ours",)) if r["N"] == 1024]
    chart = throughput(records(), here=here)
    assert lines(chart)["ours, this machine"] == [(1024, 2000.0)]
    assert chart.origin == "Measured on Made-up GPU, 2026-01-02. This machine: Other GPU."


def test_mixed_records_are_refused():
    with pytest.raises(ValueError, match="several: bfloat16, float32; choose one by dtype="):
        throughput(records() + records(dtype="bfloat16"))
    with pytest.raises(ValueError, match="ours has two speeds at N = 256: choose one by M="):
        throughput(records() + [dict(r, M=32768) for r in records()])
    with pytest.raises(ValueError, match="none of 8 records has dtype float16"):
        throughput(records(), dtype="float16")
    assert len(lines(throughput(records() + [dict(r, M=32768) for r in records()], M=8192))) == 3


def test_ladder_has_a_bar_for_each_version_in_their_order():
    chart = ladder(versions())
    (axes,) = chart.figure.axes
    assert [round(bar.get_width(), 6) for bar in axes.patches] == [25.0, 95.0]
    assert axes.yaxis_inverted()
    with pytest.raises(ValueError, match="a ladder has one size, the records have 2"):
        ladder(versions() + [dict(r, N=256) for r in versions()])


@pytest.mark.parametrize("chart", [throughput(records()), ladder(versions())], ids=["throughput", "ladder"])
def test_a_chart_follows_the_pages_colours_and_asks_for_nothing(chart):
    html = chart._repr_html_()
    assert not re.search(r"https?:|@import|url\((?!#)|@font-face|<image|<metadata", html)
    svg = html[html.index("<svg") : html.index("</svg>")]
    # every colour is one of the theme's variables, with a fallback
    found = set(re.findall(r"#[0-9a-f]{6}(?![0-9a-f-])", svg))
    assert found == set(re.findall(r"var\(--qt-[a-z0-9]+,(#[0-9a-f]{6})\)", svg))
    assert re.search(r"<text[^>]*>[^<]*%|<text[^>]*>GB/s", svg)  # texts are texts
    assert "Measured on Made-up GPU, 2026-01-02." in html
    checked = Checker(html + chart._repr_html_())
    assert (checked.wrong, checked.open) == ([], [])


def test_every_recorded_ceiling_has_a_name():
    from quack_tutorial.records import bench as records
    from quack_tutorial.records.bench import PLAIN, ruler

    for series in ("peers", "ladder"):
        for record in records.load_records(series=series):
            ceilings = [row["ceiling"] for row in flat([record])]
            plain = [name for name in ceilings if not name.startswith("own tile")]
            assert ruler(plain) != PLAIN, (record.operation, series)


CEILINGS = {  # by what they are called in short
    "best read": ("read, 4096 words, 8 warps",),
    "best addition": ("torch add", "add, 512 words, 4 warps"),
    "best plain kernel": ("copy, 512 words, 4 warps", "own tile"),
    "unknown": (None,),
}


def drawn():
    """Charts of made-up records by what is special about them."""
    for name, ceilings in CEILINGS.items():
        bars, curves = (
            [{**row, "ceiling": ceilings[i % len(ceilings)]} for i, row in enumerate(rows)]
            for rows in (versions(), records())
        )
        yield f"ladder, {name}", ladder(bars)
        yield f"climb, {name}", climb(bars, "softmax", "float32")
        yield f"throughput, {name}", throughput(curves)
    # a later measurement comes last in a record
    names = ("what ships", "cluster", "online", "three-pass")
    later = [{**versions()[0], "provider": name} for name in names]
    yield "ladder in the order that is taught", ladder(later)
    yield "climb in the order that is taught", climb(later, "softmax", "float32")
    wrong = (Result("online", "wrong", "error 3 times the tolerance"),)
    peers_us = {"three-pass": 60.0}
    cell = synthetic.cell(dtype="float32", ours_us=40.0, peers_us=peers_us, refused=wrong)
    made = synthetic.record(cell, series="ladder")
    steps = ("thread", "three-pass", "online")
    yield "climb without the speed of some versions", climb([made], "softmax", "float32", versions=steps)
    few = synthetic.cell(dtype="float32", N=4096, ours_us=None, peers_us={"three-pass": 60.0})
    made = synthetic.record(few, synthetic.cell(dtype="float32", N=8192, peers_us={}))
    yield "climb without some versions at one size", climb([made], "softmax", "float32")


def said(chart):
    """Its sentence and its table; of each plot the names of its axes, of the places along them and of its lines."""
    yield f"  {chart.summary}"
    yield from ("  " + " | ".join(row) for row in (chart.head, *chart.rows))
    for axes in chart.figure.axes:
        ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
        places = [tick.get_text() for tick in ticks]
        every = (*places, *(line.get_label() for line in axes.lines))
        names = [name for name in every if name[:1].isalpha()]
        yield f"    {axes.get_xlabel()} | {axes.get_ylabel()} | {', '.join(names)}"


def test_the_charts_say_and_name_these_things(snapshot):
    lines = (line for name, chart in drawn() for line in (name, *said(chart)))
    snapshot(lines, Path(__file__).with_name("charts.txt"))
