"""The roofline's explorer says what the records say, by one rule in Python and in the page."""

import json
import re

import pytest

import quack_tutorial as qt
from quack_tutorial import card, figures
from quack_tutorial.figures import roofline_explorer as explorer
from quack_tutorial.figures.theme import asset
from quack_tutorial.operations import OPERATIONS
from tests.figures.test_players import Checker
from tests.javascript import evaluated

ROOFLINE = figures.roofline()
ALL = [
    (operation, dtype, N, M, row) for operation, found in ROOFLINE.cells.items() for (dtype, N, M), row in found.items()
]


def test_facts_by_hand():
    # 5 operations for 8 bytes, at 4,000 and 2,000 GB/s; and so many operations that the roof is lower than the slope.
    found = explorer.facts(5, 1000, 100, 800_000, 4000, (2000, None))
    got = (found.intensity, found.allowed, found.bound, found.reached)
    assert got == (0.625, 2500, "memory", (1250, None))
    found = explorer.facts(800, 1000, 100, 800_000, 4000, ())
    got = (found.intensity, found.allowed, found.bound)
    assert got == (100, explorer.PEAK_GFLOP_S, "arithmetic")
    assert [explorer.short(x, 2) for x in (3.25, 12.0, 0.0625)] == ["3.3", "12", "0.063"]


def test_every_operation_has_its_formula_and_its_records():
    assert set(explorer.FORMULAS) == set(OPERATIONS) - {"copy"}
    least = {"layernorm": 5, "quantized": 0, "topk": 0}
    few = {name: cells for name in OPERATIONS for word, cells in least.items() if word in name}
    assert all(len(found) > few.get(name, 6) for name, found in ROOFLINE.cells.items())
    with card.taken_for("h200"):
        of_h200 = figures.roofline().cells
    assert all(len(found) > few.get(name, 50) for name, found in of_h200.items())
    assert len(of_h200) >= 7
    assert len(ROOFLINE.cells) >= 7
    for operation, dtype, N, M, row in ALL:
        assert row[0] == OPERATIONS[operation].bytes(M, N, {"float32": 4}.get(dtype, 2))


def test_the_marks_are_the_recorded_speeds():
    recorded = qt.recorded("softmax", "float32", N=4096)
    row = ROOFLINE.cells["softmax"]["float32", 4096, 32768]
    assert row[2:] == [round(recorded[name].gb_s) for name in explorer.PROVIDERS]
    assert row[2] / row[1] == pytest.approx(recorded["ours"].of_copy, abs=0.001)


def test_every_recorded_kernel_is_in_the_picture_and_memory_bound():
    for operation, _, N, M, row in ALL:
        found = explorer.facts(len(explorer.FORMULAS[operation]), M, N, *row[:2], row[2:])
        assert 2 ** explorer.X[0] < found.intensity < 2 ** explorer.X[1] and found.bound == "memory"
        assert all(10 ** explorer.Y[0] < y < 10 ** explorer.Y[1] for y in found.reached if y is not None)


def test_the_page_says_what_python_says():
    script = asset("roofline_explorer.js")
    rule = re.search(r"  function facts\(.*?\n  }\n", script, flags=re.S).group()
    words = re.search(r"  const whole = .*?\n  }\n", script, flags=re.S).group()
    said = evaluated(
        f"const data = {json.dumps(ROOFLINE.data())};{rule}{words}\n"
        f"console.log(JSON.stringify({json.dumps(ALL[::7])}.map(([o, d, N, M, row]) => "
        "say(o, d, N, M, row, facts(data.steps[o], M, N, row[0], row[1], row.slice(2), data.peak)))));"
    )
    assert said == [explorer.sentence(*each) for each in ALL[::7]]


def test_the_figure_asks_for_nothing_and_stands_without_scripts():
    html = ROOFLINE._repr_html_()
    checked = Checker(html)
    assert (checked.wrong, checked.open) == ([], []) and "http" not in html
    operation, dtype, N, M = explorer.START
    assert explorer.sentence(operation, dtype, N, M, ROOFLINE.cells[operation][dtype, N, M]) in html
    assert html.count("<select") == 2 and html.count('type="range"') == 2
    assert html.count("<tr>") == 6
