"""The suite that says what a row's bits depend on."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("cutlass")

from validation import bits


def test_what_ships_depends_on_the_row_alone_and_adds_in_a_tree():
    suite = bits.run(True, lambda what: None)
    assert {row[-1] for row in suite.rows} == {"the same everywhere"}
    sums = [(terms, depth) for *_, terms, depth, _ in suite.rows if terms >= 256]
    assert len(sums) >= 8 and all(depth < 40 for _, depth in sums)
