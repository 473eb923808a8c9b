"""Suite `agreement`: a sample holds, the generator covers what it should, and planted faults are found."""

import numpy as np
import pytest

from cutesim.simulation import simulate
from validation import agreement, compiled, random_kernels, random_reference
from validation.random_kernels import (
    Assign,
    Exchange,
    For,
    If,
    Meeting,
    Program,
    Shuffle,
)

SEEDS = range(60)  # at most; each test stops at the first that shows what it looks for


def test_a_sample_of_the_real_thing():
    found = agreement.run(True, lambda what: None)
    assert found.ok, found
    rows = {row[0]: row[1:4] for row in found.rows}
    for name, _ in agreement.RUNS:
        assert rows[f"as made, {name}"] == (agreement.SAMPLE_SEEDS, 0, 0)
    number, differ, reported = rows["without a barrier of a block"]
    assert number == reported > differ > 0
    got = sum(number for number, _, _ in rows.values())
    assert got == found.checked == 5 * agreement.SAMPLE_SEEDS


def first_mismatch(family):
    """The first thing that is wrong in one of `SEEDS`."""
    tally = agreement.Tally()
    for seed in SEEDS:
        family(random_kernels.program(seed), tally)
        if tally.mismatches:
            return tally.mismatches[0]
    return ""


@pytest.mark.parametrize(
    "table, operation, wrong",
    [
        ("INT_OPERATIONS", "%", np.mod),
        ("SHUFFLES", "shuffle_sync_up", lambda lane, by: max(lane - by, 0)),
    ],
)
def test_where_simulator_and_reference_differ_it_is_said_with_its_seed(table, operation, wrong, monkeypatch):
    monkeypatch.setitem(getattr(random_kernels, table), operation, wrong)
    mismatch = first_mismatch(agreement.as_made)
    assert "fast against the reference: m" in mismatch and ", expected " in mismatch
    seed = int(mismatch.split()[1])
    assert f"seed {seed} of generator {random_kernels.VERSION}: " in mismatch
    assert f"reproduce({seed})" in mismatch
    text = agreement.reproduce(seed)
    assert "@cute.kernel" in text and "without barrier " in text and "against the reference" in text


def test_a_race_that_nobody_reports_is_a_mismatch(monkeypatch):
    class Silent:
        findings = ()

    simulated = agreement._simulated
    monkeypatch.setattr(agreement, "_simulated", lambda *how: (Silent, simulated(*how)[1]))
    mismatch = first_mismatch(agreement.without_a_barrier)
    assert "without barrier " in mismatch and "forward, reverse, seeded reports nothing" in mismatch


def test_a_finding_where_nothing_is_wrong_is_a_mismatch(monkeypatch):
    class Loud:
        findings = ("Race: none",)

    simulated = agreement._simulated
    monkeypatch.setattr(agreement, "_simulated", lambda *how: (Loud, simulated(*how)[1]))
    assert "fast: reports Race: none" in first_mismatch(agreement.as_made)


def test_the_compiler_is_given_every_statement_and_every_kind_of_barrier():
    programs = [random_kernels.program(seed) for seed in range(compiled.RANDOM)]
    kinds = {type(statement) for made in programs for statement in random_kernels.statements(made.body)}
    assert kinds >= {*agreement.FEATURES.values(), Exchange, Meeting}
    barriers = {random_kernels.kind_of(made, k) for made in programs for k in range(made.barriers)}
    assert barriers == set(random_kernels.BARRIERS)


def by_hand(*body, threads=64, blocks=1, cluster=1, sends=0):
    """A program of these statements; its outputs on the simulator, checked, and of the reference, which must be equal."""
    made = Program(0, threads, blocks, threads * blocks, body, 8, cluster, sends)
    arguments = random_kernels.inputs(made)
    run = simulate(random_kernels.loaded(made), *arguments)
    assert run.ok, run
    wanted = random_reference.computed(made)
    assert agreement.differences(arguments[2:], wanted) == []
    return made, wanted


TIMES = Assign("f1", "*", "f1", 0.3)
PLUS = Assign("f1", "+", "f1", 0.1)
ROUNDED_ONCE, ROUNDED_BEFORE_ADDING, ROUNDED_EACH_TIME = 0xBC4CCCCD, 0xBC4CCCC8, 0xBC4CCCD0


@pytest.mark.parametrize(
    "body, bits",
    [
        ((TIMES, TIMES, PLUS), ROUNDED_ONCE),
        ((TIMES, If("<", "lane", 40, (TIMES, PLUS), ())), ROUNDED_EACH_TIME),
        ((TIMES, If(">", "lane", 40, (TIMES, PLUS), ()), TIMES, PLUS), ROUNDED_EACH_TIME),
        ((TIMES, If("<", "lane", 40, (Assign("f0", "*", "f1", 0.3),), ()), TIMES, PLUS), ROUNDED_ONCE),
        ((TIMES, TIMES, For("k1", "", 1, (PLUS,))), ROUNDED_BEFORE_ADDING),
        ((TIMES, Assign("f1", "fmin", "f1", 0.1), TIMES, PLUS), ROUNDED_EACH_TIME),
        ((TIMES, TIMES, Shuffle("f1", "shuffle_sync", "f1", 0), PLUS), ROUNDED_BEFORE_ADDING),
    ],
)
def test_numbers_of_the_source_are_rounded_where_the_compiler_rounds_them(body, bits):
    """-1.25 * 0.3 * 0.3 + 0.1; the PTX of CuTe DSL 4.8.1 stores these numbers, and adds 0.1 to what it shuffles."""
    _, outputs = by_hand(*body, threads=32)
    assert (outputs[1][1].view(np.uint32) == bits).all()


def test_the_reference_says_who_waits_for_nobody():
    exchange = Exchange("sA", "a0", "a0", 1, (), (), 0, (0, 2))
    made = Program(0, 64, 1, 64, (If("<", "lane", 2, (exchange,), ()),), 2)
    said = r"threads wait at \[\('warps', 0, 0, 0\)\] and nobody comes"
    with pytest.raises(RuntimeError, match=said):
        random_reference.computed(made)
