"""The roofline shows what the records say, and where memory is the bound."""

import pytest

pytest.importorskip("matplotlib", reason="charts are drawn by matplotlib, which is not installed")

import quack_tutorial as qt
from quack_tutorial import card, figures
from quack_tutorial.figures import roof
from quack_tutorial.operations import OPERATIONS


@pytest.mark.parametrize("name", ("h100", "h200"))
def test_the_marks_are_the_recorded_speeds_and_memory_bounds_them(name):
    with card.taken_for(name):
        chart, cells = figures.roofline(), roof.recorded()
        softmax = qt.recorded("softmax", "float32", N=4096)
    assert len(cells) >= 5
    rows = {(operation, kernel): numbers for operation, kernel, *numbers in chart.rows}
    # 5 operations for 8 bytes.
    assert rows["softmax", "ours"][:2] == ["0.625", f"{softmax['ours'].gb_s:,.0f}"]
    assert rows["softmax", "ours"][3] == f"{softmax['ours'].of_copy:.0%}"
    for operation, (_, cell) in cells.items():
        assert cell.bytes_moved == OPERATIONS[operation].bytes(cell.M, cell.N, 4)
        at = roof.intensity(operation, cell)
        assert roof.ENDS[0] < at < roof.ENDS[1] and at * cell.ceiling_gb_s < roof.PEAK_GFLOP_S


def test_every_operation_has_its_formula():
    assert set(roof.STEPS) == set(OPERATIONS) - {"copy"}
