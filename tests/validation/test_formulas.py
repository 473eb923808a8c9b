"""The suite that compares formulas: every version agrees with the first, and another formula is told."""

from functools import partial

import pytest

pytest.importorskip("torch")
pytest.importorskip("cutlass")

from quack_tutorial.operations import OPERATIONS
from validation import formulas


def test_what_ships_is_the_formula_of_the_first_version():
    suite = formulas.run(True, lambda what: None)
    assert suite.mismatches == () and len(suite.rows) == 9 and suite.checked > 6000
    assert all(row[-2:] == (0, 0) for row in suite.rows)


def test_another_formula_is_told():
    versions = (OPERATIONS[name].ladder["vectors"] for name in ("softmax", "rmsnorm"))
    count, differ, unknown = formulas.compared(
        *(partial(formulas.elements, one, dtype="float32", N=256) for one in versions)
    )
    assert count == differ + unknown == 256 * formulas.ROWS and differ > 0
