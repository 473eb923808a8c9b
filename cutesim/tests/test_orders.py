"""The search against every interleaving tried one by one, bugs that one order in many shows, and correct kernels much like them."""

import numpy as np
import pytest
from dsl import hand_over
from dsl import orders as k

from cutesim import NotSimulated
from cutesim.orders import Bounds, Order, Orders
from cutesim.orders.search import Asleep, Search
from cutesim.orders.story import Decision, Following, shrunk
from cutesim.simulation import simulate, watched


def numbers():
    return np.zeros(128, np.int32)


def search(kernel, warps=2, x=None, orders="all", right=None, **launch) -> Orders:
    return simulate(k.launched(kernel, warps, **launch), numbers() if x is None else x, orders=orders, right=right)


def run_in(host, x, choose):
    """(the order, what came of it: the kinds of findings and the numbers) of one run."""
    order = Order(choose)
    try:
        run = simulate(host, x, orders=order)
    except Asleep:
        return order, None
    kinds = tuple(sorted({finding.kind for finding in run.findings}))
    return order, (kinds, None if "deadlock" in kinds else x.tobytes())


def tried_one_by_one(host) -> set:
    """What comes of every interleaving of the visible steps, without any reduction."""
    found, path = set(), []  # of [agents that can go, which of them is taken]
    while True:

        def choose(ready, steps):
            if len(steps) == len(path):
                path.append([ready, 0])
            return path[len(steps)][0][path[len(steps)][1]]

        found.add(run_in(host, numbers(), choose)[1])
        while path and path[-1][1] + 1 == len(path[-1][0]):
            path.pop()
        if not path:
            return found
        path[-1][1] += 1


def tried_by_search(host) -> tuple:
    """(what comes of the orders that the search tries, how many there are), where none ends it."""
    found, one, tried, left = set(), Search(), 0, True
    while left:
        order, outcome = run_in(host, numbers(), one.choose)
        if outcome is not None:
            found.add(outcome)
            tried += 1
        left = one.explored(order.steps)
    return found, tried


# Of few steps, since one by one there are thousands of interleavings soon; how many orders there are of what does not commute,
# counted by hand, where no order fails.
SMALL = {
    "sums": 1,
    "tickets": 2,
    "mbarrier_wraps": None,
    "wakes_too_early": None,
    "sleeps_safely": 3,
    "flag": 2,
    "flag_without_fence": None,
    "lost_update": 4,
    "tests_once": 2,
    "named": 1,
    "named_once": None,
}


@pytest.mark.parametrize("name", SMALL)
def test_the_search_finds_what_every_interleaving_gives(name):
    host = k.launched(getattr(k, name), 3 if name.startswith("named") else 2)
    found, tried = tried_by_search(host)
    every = tried_one_by_one(host)
    if any(kinds for kinds, _ in every):  # one failure ends a search: which ones there are beside it is not looked for
        assert any(kinds for kinds, _ in found)
    else:
        assert found == every
    assert SMALL[name] in (None, tried)


@pytest.mark.parametrize(("name", "warps"), [("spin", 2), ("ring", 3)])
def test_correct_kernels_that_ask_again_or_wait_for_each_other_are_clean_in_every_order(name, warps):
    result = search(getattr(k, name), warps)
    assert result.verdict == "clean", str(result)


# launch, kind, the text of the line that the finding names first
WRONG = {
    "mbarrier_wraps": ({}, "deadlock", "mbarrier_wait"),
    "wakes_too_early": ({}, "deadlock", "mbarrier_wait"),
    "flag_without_fence": ({}, "race", "x[8] = 42"),
    "spin_for_ever": ({}, "deadlock", "while up == 0"),
    "named_once": ({"warps": 3}, "race", "buffer[0] = 7"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_bug_that_an_order_shows_is_found(name):
    launch, kind, text = WRONG[name]
    result = search(getattr(k, name), **launch)
    assert (result.verdict, result.findings[0].kind) == ("wrong", kind)
    assert text in result.findings[0].lines[0].text


def test_the_usual_runs_miss_a_lost_wake_up():
    """What the search is for: forwards and in reverse nothing goes wrong."""
    host = k.launched(k.wakes_too_early)
    assert simulate(host, numbers()).ok and simulate(host, numbers(), schedule="reverse").ok


def test_a_lost_wake_up_is_told_by_its_decisions():
    result = search(k.wakes_too_early)
    told = [sentence.text for sentence in result.story]
    assert told[-4:] == [
        "Warp 0 does atomic_or on x[0].",
        "Warp 1 does atomic_exch on x[0], does atomic_or on x[1] and ends.",
        f"Warp 0 does atomic_exch on x[1] and waits at {result.findings[0].lines[0].where}.",
        "Nobody is left to let warp 0 go on.",
    ]
    assert [sentence.line.text[:4] for sentence in result.story[-4:-1]] == ["work", "asle", "cute"]
    # Warp 0 and warp 1 come to the barrier, warp 0 looks, and then warp 1 goes first: after that all goes as usual.
    assert [(d.agent[1], d.count) for d in result.decisions] == [(0, 2), (1, 1), (0, 1), (1, 1)]


def test_the_decisions_replay_to_the_same_failure():
    result = search(k.wakes_too_early)
    again = simulate(k.launched(k.wakes_too_early), numbers(), orders=Order(Following(result.decisions)))
    assert [str(f) for f in again.findings] == [str(f) for f in result.findings]


def test_a_wrong_result_in_one_order_is_wrong():
    x = numbers()
    result = search(k.lost_update, x=x, right=lambda: x[0] == 2)
    assert (result.verdict, result.findings[0].kind) == ("wrong", "wrong result")
    assert x[0] == 1  # of the order that is told
    assert search(k.sums, x=(y := numbers()), right=lambda: y[0] == 2).verdict == "clean"


def test_without_a_check_a_result_that_depends_on_the_order_is_an_observation():
    result = search(k.lost_update)
    assert result.verdict == "clean"
    assert "x[0] depends on the order: it is 2 in one and 1 in another" in result.observations[0]


def test_bounds_are_kept_and_said():
    result = search(k.tickets, warps=4, orders=Bounds(orders=5))
    assert (result.verdict, result.tried) == ("clean within bounds", 5)
    assert search(k.tickets, warps=4).tried == 24
    assert "more orders are left" in str(result)


def test_the_object_and_its_json_agree():
    result = search(k.wakes_too_early)
    data = result.as_dict()
    assert data["verdict"] == "wrong" and data["orders"] == result.tried and data["every_order"] is False
    assert [s["says"] for s in data["story"]] == [s.text for s in result.story]
    assert data["story"][-2]["where"].startswith("orders.py:")


def test_arguments_are_as_an_ordinary_run_leaves_them():
    x, y = numbers(), numbers()
    search(k.ring, warps=3, x=x)
    simulate(k.launched(k.ring, 3), y)
    assert (x == y).all() and x.any()


def test_a_cluster_is_tried_as_a_whole():
    result = search(k.exchange, warps=1, blocks=4, cluster=2)
    one = simulate(k.launched(k.exchange, 1, blocks=4, cluster=2), numbers(), orders="all", blocks=1)
    assert (result.verdict, one.verdict) == ("clean", "clean")
    assert {int(b) for b in one.trace.events["block"]} == {0, 1}


def test_orders_takes_all_or_bounds():
    with pytest.raises(ValueError, match="write orders="):
        search(k.sums, orders="some")


def test_a_watched_call_keeps_its_orders():
    with watched() as runs:
        search(k.tickets, warps=2)
    assert [run.tried for run in runs] == [2]


def test_too_many_warps_are_not_simulated():
    with pytest.raises(NotSimulated, match="at most 64"):
        search(k.sums, warps=32, blocks=3)


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ([], "abcdefgh"),  # fails always
        (["c"], "abcdefgh"),
        (["a", "h"], "abcdefgh"),
        (["b", "d", "f"], "abcdefgh"),
    ],
)
def test_shrinking_keeps_what_is_needed(wanted, given):
    decisions = [Decision((0, ord(letter)), 3) for letter in given]

    def fails(candidate):
        return {chr(d.agent[1]) for d in candidate if d.count >= 2} >= set(wanted)

    assert shrunk(decisions, fails) == [Decision((0, ord(letter)), 2) for letter in wanted]


def test_another_warp_may_come_between_two_lanes_atomics():
    """In lockstep the count goes from 0 to 32 at once, and who waits for 31 waits for all of them."""
    out = np.zeros(1, np.int32)
    assert simulate(hand_over.counted(31), out).ok
    found = simulate(hand_over.counted(31), out, orders="all")
    assert found.findings[0].kind == "race" and "thread 31 wrote" in found.findings[0].message
    again = simulate(hand_over.counted(31), out, orders=Order(Following(found.decisions), apart=found.apart))
    assert [finding.message for finding in again.findings] == [finding.message for finding in found.findings]
    assert simulate(hand_over.counted(32), out, orders=Bounds(orders=20)).verdict == "clean within bounds"
