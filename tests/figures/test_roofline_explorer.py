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


SCRIPT = asset("roofline_explorer.js")
RULE = re.search(r"  function facts\(.*?\n  }\n", SCRIPT, flags=re.S).group()
WORDS = re.search(r"  const whole = .*?\n  }\n", SCRIPT, flags=re.S).group()


def said(expressions):
    """What the page's rule and words give."""
    listed = ", ".join(expressions)
    return evaluated(
        f"const data = {json.dumps(ROOFLINE.data())};{RULE}{WORDS}\nconsole.log(JSON.stringify([{listed}]));"
    )


def test_facts_by_hand():
    # 5 operations for 8 bytes, at 4,000 and 2,000 GB/s; and so many operations that the roof is lower than the slope.
    first, second, *numbers = said(
        ["facts(5, 1000, 100, 800000, 4000, [2000, null], 67000)", "facts(800, 1000, 100, 800000, 4000, [], 67000)"]
        + [f"short({x}, 2)" for x in (3.25, 12.0, 0.0625)]
    )
    assert first == {"intensity": 0.625, "allowed": 2500, "bound": "memory", "reached": [1250, None]}
    assert (second["intensity"], second["allowed"], second["bound"]) == (100, explorer.PEAK_GFLOP_S, "arithmetic")
    assert numbers == ["3.3", "12", "0.063"]


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
        intensity = len(explorer.FORMULAS[operation]) * M * N / row[0]
        assert 2 ** explorer.X[0] < intensity < 2 ** explorer.X[1] and row[1] * intensity < explorer.PEAK_GFLOP_S
        assert all(10 ** explorer.Y[0] < y * intensity < 10 ** explorer.Y[1] for y in row[2:] if y is not None)


def test_the_page_says_what_bounds_a_kernel():
    operation, dtype, N, M = explorer.START
    row = ROOFLINE.cells[operation][dtype, N, M]
    found = f"facts(5, {M}, {N}, {row[0]}, {row[1]}, {json.dumps(row[2:])}, data.peak)"
    (sentence,) = said([f"say('softmax', 'float32', {N}, {M}, {json.dumps(row)}, {found})"])
    assert sentence.startswith(
        "softmax, float32, 32,768 rows of 4,096: 5 operations and 8 bytes an element, 0.625 operations"
    )
    assert f"moves {row[1]:,} GB/s" in sentence and sentence.endswith("The memory is the bound.")


def test_the_figure_asks_for_nothing_and_stands_without_scripts():
    html = ROOFLINE._repr_html_()
    checked = Checker(html)
    assert (checked.wrong, checked.open) == ([], []) and "http" not in html
    assert html.count("<select") == 2 and html.count('type="range"') == 2 and "<svg" in html
