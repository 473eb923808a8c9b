"""Suite `rows`: a sample holds, its cases cover what they should, and planted faults are found."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from cutesim.simulation import simulate
from quack_tutorial.kernels.config import Config
from quack_tutorial.kernels.tuned.row_tile import PROMISES, RowTile
from quack_tutorial.records import suite
from validation import rows

SEEDS = range(120)  # at most; each test stops at the first that shows what it looks for


def first_wrong(wanted=lambda case: True):
    """The first of `SEEDS` whose case is wanted and not right, with what is wrong."""
    for seed in SEEDS:
        case = rows.random_case(seed)
        if wanted(case) and (problems := rows.try_case(case)[1]):
            return seed, problems
    return None


def test_a_sample_of_the_real_thing():
    found = rows.run(True, lambda what: None)
    assert found.ok, found
    assert [row[0] for row in found.rows] == list(rows.KERNELS)
    assert sum(row[2] for row in found.rows) == rows.SAMPLE_SEEDS
    assert sum(row[1] for row in found.rows) >= rows.SAMPLE_LINES
    assert all(0 < row[3] <= 1 for row in found.rows if row[1] + row[2])


def test_the_trials_that_the_compiler_is_given_are_right_in_every_type(of_today):
    pytest.importorskip("torch")
    from validation import trials

    for trial in of_today(trials.trials()):
        given = trial.arguments()
        simulate(trial.host, *given, check=False)
        assert trial.error(given) <= 1, trial.name


def test_what_is_recorded_tried_what_the_rule_gives():
    every = suite.load(suite.default_folder() / "rows.json").rows
    recorded = {operation: shipped for operation, shipped, *_ in every}
    assert recorded == Counter(case.operation for case in rows.shipped_cases()), "python -m validation rows --record"


def test_what_ships_is_tried_with_and_without_stages_clusters_and_several_rows_a_block():
    cases = rows.shipped_cases()
    assert len(cases) == len(set(cases))
    for operation in rows.KERNELS:
        of_it = [case.config for case in cases if case.operation == operation]
        assert {1} < {config.rows_per_block for config in of_it}
        if operation not in rows.STREAMING:
            assert {config.blocks_per_row for config in of_it} == {1, 2, 4, 8, 16}
            assert {0, 1} <= {config.stages for config in of_it} if operation not in rows.GRADIENTS else {0, 3}


def test_random_cases_cover_kinds_of_rows_types_and_spreads():
    cases = [rows.random_case(seed) for seed in range(900)]
    assert {(c.operation, c.dtype, c.rows) for c in cases} == {
        (operation, dtype, kind) for operation in rows.KERNELS for dtype in ("float32", "float16") for kind in PROMISES
    }
    assert {c.config.blocks_per_row for c in cases} == {1, 2, 4}
    assert any(c.config.threads_per_block > c.config.threads_per_row for c in cases)
    # Rows through shared memory; several rows in a turn: of a part of a warp each, of a warp, of several warps.
    through = {(c.operation, c.config.stages) for c in cases if c.config.stages}
    assert {(name, 1) for name in rows.KERNELS if name not in rows.STREAMING} <= through
    assert {c.config.rows_each for c in cases} == {1, 2, 3, 4}
    spreads = [c.config for c in cases if c.operation in rows.GRADIENTS and not c.config.stages]
    several = {np.sign(s.threads_per_row - 32) for s in spreads if s.threads_per_block > s.threads_per_row}
    assert several == {-1, 0, 1}


def test_a_vector_taken_for_certain_that_is_not_is_found(monkeypatch):
    monkeypatch.setattr(RowTile, "most_before", lambda tile: 0)
    seed, problems = first_wrong(lambda case: case.rows == "congruent")
    assert problems
    assert problems[0] in rows.reproduce(seed)
    assert str(rows.random_case(seed)) in rows.reproduce(seed)


def test_a_row_that_ends_too_late_is_found(monkeypatch):
    def inside(tile, i, place, *asked):
        return right(tile, i, place._replace(body=place.body + tile.vector_size), *asked)

    right = RowTile.inside
    monkeypatch.setattr(RowTile, "inside", inside)
    assert first_wrong(lambda case: case.operation == "softmax")


def test_what_is_written_between_rows_is_found():
    case = replace(rows.random_case(0), M=3, N=10, before=5, gap=2, dtype="float32")
    for column in (10, 11):
        matrices = rows.Matrices(case, np.random.default_rng(0))
        matrix = matrices.new(np.dtype(case.dtype), case.before)
        assert not matrices.touched()
        np.lib.stride_tricks.as_strided(matrix, (3, 12), matrix.strides)[1, column] = 0
        assert matrices.touched()


@pytest.mark.parametrize("target", (-3, 10, 17))
def test_a_gradient_that_is_a_number_where_the_target_is_no_column_is_wrong(target):
    x = np.zeros((1, 10), np.float32)
    given = dict(x=x, target=np.array([target]), loss=np.zeros(1, np.float32), dx=x)
    assert rows.KERNELS["cross-entropy fused"].error(given) == np.inf


@pytest.mark.parametrize(
    "config", (Config(32, 32, rows_each=4), Config(32, 32, blocks_together=2), Config(64, 64, blocks_together=4))
)
def test_a_last_block_without_rows_for_all_its_places_is_looked_at(monkeypatch, config):
    case = rows.Case("rmsnorm", "float32", 3, 200, "aligned", config, 0, 0, 0, rows.random_case(0).seed)
    assert not rows.try_case(case)[1]
    made = RowTile.__init__

    def forgetful(tile, *args, **named):
        made(tile, *args, **named)
        tile.several_rows = tile.rows_per_block > 1

    monkeypatch.setattr(RowTile, "__init__", forgetful)
    assert "Out of bounds" in rows.try_case(case)[1][0]
