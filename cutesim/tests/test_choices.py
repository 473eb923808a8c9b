"""What a reader can choose in a kernel."""

import numpy as np
import pytest
from dsl import orders as k

from cutesim.orders import explore


def choices(kernel, warps=2, x=None, **more):
    launch = {name: more.pop(name) for name in ("blocks", "cluster") if name in more}
    return explore(k.launched(kernel, warps, **launch), np.zeros(128, np.int32) if x is None else x, **more)


@pytest.fixture(scope="module")
def lost():
    """A lost wake-up."""
    return choices(k.wakes_too_early)


def play(found, *agents):
    """The state after these agents' turns from `begins`."""
    at = found.begins
    for agent in agents:
        at = next(state for who, state, _ in found.states[at].next if who == agent)
    return found.states[at]


def test_two_independent_warps_have_four_states():
    found = choices(k.nothing)
    assert [len(state.next) for state in found.states].count(2) == 1
    assert len(found.states) == 4 and found.solution == ()


def test_three_tickets_have_the_states_of_three_warps():
    """Each of three warps draws a ticket and counts for it: which of the others came before is all that tells states apart."""
    found = choices(k.tickets, warps=3)
    done = [(state.ended, state.next) for state in found.states if state.ended is not None]
    assert done == [("", ())] * 6  # one for each order of three tickets


def test_a_choice_leads_to_a_hang_and_another_does_not(lost):
    assert lost.agents == ("warp 0", "warp 1")
    failed = play(lost, 0, 1, 1, 0)
    assert "Deadlock: 32 threads wait" in failed.ended and failed.next == ()
    assert [agent for agent, _ in failed.waits] == [0]
    fine = play(lost, 1, 0)
    while fine.next:
        fine = lost.states[fine.next[0][1]]
    assert fine.ended == ""


def test_the_solution_fails_and_what_comes_before_is_told(lost):
    assert play(lost, *lost.solution).ended == lost.failing != ""
    wanted = "Warp 0 initialises the mbarrier for 1 arrival."
    assert [lost.turns[turn][1] for turn in lost.before][0] == wanted


def test_a_result_may_be_what_is_wrong():
    x = np.zeros(128, np.int32)
    found = choices(k.lost_update, x=x, right=lambda: x[0] == 2)
    assert found.failing == "All have ended, and the result is wrong."
    assert (x == 0).all()  # as it was given


def test_a_store_to_shared_memory_is_a_turn_and_a_race_is_told_by_its_result():
    """Two warps store and then read each other's number without a barrier: right only if both store first."""
    x = np.zeros(128, np.int32)
    found = choices(k.no_barrier, x=x, right=lambda: (x[:64] == np.repeat([2, 1], 32)).all())
    # or warp 1, which is as good
    assert [found.turns[turn][1] for turn in found.before] == ["Warp 0 writes buffer[0]."]
    assert play(found, 1, 0, 1).ended == play(found, 1, 1, 0).ended == ""
    assert play(found, 0, 1, 1).ended == "All have ended, and the result is wrong."
    assert choices(k.no_barrier).failing.startswith("Race")


def test_a_bound_leaves_whole_runs():
    found = choices(k.barriers, warps=3, most=20)
    assert not all(state.is_whole for state in found.states)
    assert all(state.next or state.ended is not None for state in found.states)
