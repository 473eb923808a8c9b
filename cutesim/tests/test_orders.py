"""The search against every interleaving tried one by one, bugs that one order in many shows, and correct kernels much like them."""

from pathlib import Path

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
    x = numbers() if x is None else x
    return simulate(k.launched(kernel, warps, **launch), x, orders=orders, right=right)


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
    "waits_with_either": None,
    "counts_two_ways": None,
}
OF_THREE = ("named", "named_once", "waits_with_either", "counts_two_ways")


@pytest.mark.parametrize("name", SMALL)
def test_the_search_finds_what_every_interleaving_gives(name):
    host = k.launched(getattr(k, name), 3 if name in OF_THREE else 2)
    found, tried = tried_by_search(host)
    every = tried_one_by_one(host)
    # One failure ends a search: which ones there are beside it is not looked for.
    if any(kinds for kinds, _ in every):
        assert any(kinds for kinds, _ in found)
    else:
        assert found == every
    assert SMALL[name] in (None, tried)


def test_whose_arrival_comes_too_late_for_a_phase_depends_on_the_order():
    found, _ = tried_by_search(k.launched(k.overtaken, 3))
    got = {tuple(np.frombuffer(x, np.int32)[[32, 64]]) for _, x in found}
    assert got == {(0, 1), (1, 0), (1, 1)}


def searched():
    """(what is searched, the result): bugs that one order in many shows, and correct kernels much like them."""
    cases = ("spin", "spin_for_ever", "mbarrier_wraps")
    cases += ("wakes_too_early", "flag_without_fence", "lost_update")
    for name in cases:
        yield name, search(getattr(k, name))
    for name in ("ring", "named_once", "waits_with_either", "counts_two_ways"):
        yield f"{name} of 3 warps", search(getattr(k, name), 3)
    for name, right in (("lost_update", 2), ("sums", 2)):
        x = numbers()
        yield (
            f"{name} that should give {right}",
            search(getattr(k, name), x=x, right=lambda x=x, right=right: x[0] == right),
        )
    yield "tickets of 4 warps", search(k.tickets, 4)
    yield "tickets of 4 warps, 5 orders at most", search(k.tickets, 4, orders=Bounds(orders=5))
    yield "exchange of 2 clusters", search(k.exchange, 1, blocks=4, cluster=2)


def told(name, result):
    """The verdict, and how it came to it."""
    yield f"{name}: {result.verdict}, {result.tried} orders"
    yield from (f"  {one.kind}: {[line.text.strip() for line in one.lines]}" for one in result.findings)
    yield from (f"  {text}" for text in result.observations)
    yield from (f"  {decision.agent} {decision.count}" for decision in result.decisions)
    yield from (f"  {one.text} {one.line.text.strip() if one.line else ''}".rstrip() for one in result.story)


def test_what_a_search_of_all_orders_finds_and_how_it_tells_it(snapshot):
    snapshot((line for one in searched() for line in told(*one)), Path(__file__).with_name("orders.txt"))


def test_a_wrong_result_leaves_the_numbers_of_the_order_that_is_told():
    search(k.lost_update, x=(x := numbers()), right=lambda: x[0] == 2)
    assert x[0] == 1


def test_the_usual_runs_miss_a_lost_wake_up():
    """What the search is for: forwards and in reverse nothing goes wrong."""
    host = k.launched(k.wakes_too_early)
    assert simulate(host, numbers()).ok and simulate(host, numbers(), schedule="reverse").ok


def test_the_decisions_replay_to_the_same_failure():
    result = search(k.wakes_too_early)
    again = simulate(k.launched(k.wakes_too_early), numbers(), orders=Order(Following(result.decisions)))
    assert [str(f) for f in again.findings] == [str(f) for f in result.findings]


def test_the_object_and_its_json_agree():
    result = search(k.wakes_too_early)
    data = result.as_dict()
    assert data["verdict"] == "wrong" and data["orders"] == result.tried
    assert data["every_order"] is False
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
    last = simulate(k.launched(k.exchange, 1, blocks=4, cluster=2), numbers(), blocks=range(3, 4))
    assert {*last.trace.events["block"].tolist()} == {2, 3}


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
    "wanted, given",
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
    got = simulate(hand_over.counted(32), out, orders=Bounds(orders=20)).verdict
    assert got == "clean within bounds"
