"""Suite `rows`: a sample holds, and a planted fault is found."""

from collections import Counter

import numpy as np
import pytest

from quack_tutorial.kernels.config import Config
from quack_tutorial.kernels.tuned.row_tile import RowTile
from quack_tutorial.records import suite
from validation import rows


def test_a_sample_of_the_real_thing():
    found = rows.run(True, lambda what: None)
    assert found.ok, found
    assert [row[0] for row in found.rows] == list(rows.KERNELS)
    assert sum(row[2] for row in found.rows) == rows.SAMPLE_SEEDS
    assert sum(row[1] for row in found.rows) >= rows.SAMPLE_LINES
    assert all(0 < row[3] <= 1 for row in found.rows if row[1] + row[2])


def test_what_is_recorded_tried_what_the_rule_gives():
    every = suite.load(suite.default_folder() / "rows.json").rows
    recorded = {operation: shipped for operation, shipped, *_ in every}
    assert recorded == Counter(case.operation for case in rows.shipped_cases()), "python -m validation rows --record"


def test_a_vector_taken_for_certain_that_is_not_is_found(monkeypatch):
    congruent = [seed for seed in range(120) if rows.random_case(seed).rows == "congruent"]
    assert rows.reproduce(congruent[0]).endswith("\nnothing wrong")
    monkeypatch.setattr(RowTile, "most_before", lambda tile: 0)
    assert any(rows.try_case(rows.random_case(seed))[1] for seed in congruent)


@pytest.mark.parametrize("target", (-3, 10, 17))
def test_a_gradient_that_is_a_number_where_the_target_is_no_column_is_wrong(target):
    x = np.zeros((1, 10), np.float32)
    given = dict(x=x, target=np.array([target]), loss=np.zeros(1, np.float32), dx=x)
    assert rows.KERNELS["cross-entropy fused"].error(given) == np.inf


@pytest.mark.parametrize(
    "config", (Config(32, 32, rows_each=4), Config(32, 32, blocks_together=2), Config(64, 64, blocks_together=4))
)
def test_a_last_block_has_no_rows_for_some_of_its_places(config):
    case = rows.Case("rmsnorm", "float32", 3, 200, "aligned", config, 0, 0, 0, rows.random_case(0).seed)
    assert not rows.try_case(case)[1]
