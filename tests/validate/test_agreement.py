"""Suite `agreement`: a sample holds, the generator covers what it should, and planted faults are found."""

import ast

import numpy as np
import pytest

from quack_tutorial.simulator import simulate
from quack_tutorial.validate import agreement, random_kernels

SEEDS = range(12)


def test_a_sample_of_the_real_thing():
    found = agreement.run(True, lambda what: None)
    assert found.ok, found
    counts = {row[0]: row[1:3] for row in found.rows}
    for name, _ in agreement.RUNS:
        assert counts[f"as made, {name}"] == (agreement.SAMPLE_SEEDS, agreement.SAMPLE_SEEDS)
    missed = [counts[f"without a barrier: {kind}"] for kind in (agreement.DIFFER, agreement.BETWEEN)]
    assert all(count > 0 and reported == count for count, reported in missed)


def tally_of(seeds):
    tally = agreement.Tally()
    for seed in seeds:
        agreement.try_seed(seed, tally)
    return tally


@pytest.mark.parametrize(("table", "operation", "wrong"), [("INT", "%", np.mod), ("FLOAT", "-", np.add)])
def test_a_wrong_operation_of_the_interpreter_is_reported_and_says_how_to_reproduce(
    table, operation, wrong, monkeypatch
):
    monkeypatch.setitem(getattr(random_kernels, f"{table}_OPERATIONS"), operation, wrong)
    mismatches = tally_of(SEEDS).mismatches
    assert any("fast against numpy: m" in sentence for sentence in mismatches)
    seed = mismatches[0].split(":")[0].removeprefix("seed ")
    assert f"reproduce({seed})" in mismatches[0]
    assert "@cute.kernel" in agreement.reproduce(int(seed)) and "against numpy" in agreement.reproduce(int(seed))


def test_a_wrong_shuffle_of_the_interpreter_is_reported(monkeypatch):
    monkeypatch.setitem(random_kernels.SHUFFLES, "shuffle_sync_up", lambda lane, by: np.maximum(lane - by, 0))
    assert tally_of(SEEDS).mismatches


def test_a_race_that_nobody_reports_is_a_mismatch(monkeypatch):
    class Silent:
        findings = ()

    def silent(host, made, how):
        _, outputs = simulated(host, made, how)
        return Silent, outputs

    simulated = agreement._simulated
    monkeypatch.setattr(agreement, "_simulated", silent)
    said = " ".join(tally_of(SEEDS).mismatches)
    assert f"{agreement.DIFFER}, and " in said and "forward, reverse, seeded reports nothing" in said


def test_what_the_simulator_raises_is_a_mismatch(monkeypatch):
    def refuses(*args, **how):
        raise TypeError("no")

    monkeypatch.setattr(agreement, "simulate", refuses)
    assert "the simulator raises TypeError: no" in tally_of([3]).mismatches[0]


def test_programs_depend_on_the_seed_alone_and_barriers_are_dropped_one_at_a_time():
    texts = [random_kernels.source(random_kernels.program(seed)) for seed in SEEDS]
    assert texts == [random_kernels.source(random_kernels.program(seed)) for seed in SEEDS]
    assert len(set(texts)) == len(texts)
    for seed, text in zip(SEEDS, texts):
        made = random_kernels.program(seed)
        ast.parse(text)
        assert text.count("barrier()") == made.barriers > 0
        for k in range(made.barriers):
            assert random_kernels.source(made, k).count("barrier()") == made.barriers - 1


def test_zeros_have_a_sign():
    """fmin of 0 and -0 is -0 on the simulator whichever comes first; seed 1447 comes to that."""
    zeros = np.float32([0.0, -0.0, 0.0, -0.0]), np.float32([0.0, 0.0, -0.0, -0.0])
    assert np.signbit(random_kernels.fmin(*zeros)).tolist() == [False, True, True, True]
    assert np.signbit(random_kernels.fmax(*zeros)).tolist() == [False, False, False, True]
    assert not tally_of([1447]).mismatches


def test_a_program_by_hand():
    """Two warps turn their numbers around by one, and add 1 where the lane is below 2."""
    exchange = random_kernels.Exchange("sA", "a0", "a0", 1, (), (), 0)
    guarded = random_kernels.If("<", "lane", 2, (random_kernels.Assign("a0", "+", "a0", 1),), ())
    made = random_kernels.Program(0, 64, 1, 64, (exchange, guarded), 2)
    expected = np.roll(np.arange(64) * 3, -1) + (np.arange(64) % 32 < 2)
    assert (random_kernels.computed(made)[2][0] == expected).all()
    arguments = random_kernels.inputs(made)
    assert simulate(random_kernels.loaded(made), *arguments).ok
    assert (arguments[4][0] == expected).all()
