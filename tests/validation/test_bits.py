"""The suite that says what a row's bits depend on."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("cutlass")

from validation import bits, formulas


def test_what_ships_depends_on_the_row_alone_and_adds_in_a_tree():
    suite = bits.run(True, lambda what: None)
    assert {row[-1] for row in suite.rows} == {"the same everywhere"}
    sums = [(terms, depth) for *_, terms, depth, _ in suite.rows if terms >= 256]
    assert len(sums) >= 8 and all(depth < 40 for _, depth in sums)


def test_a_version_by_atomics_depends_on_the_order():
    from cutesim.sums import same_bits
    from quack_tutorial.operations import OPERATIONS

    host, made = formulas.arguments(OPERATIONS["rmsnorm backward"].ladder["atomics"], "float32", 256)
    assert "in another order of the warps" in str(same_bits(host, *made))
