"""What a reader can choose in a kernel, and the figure in which it is chosen, also without scripts and in a browser."""

import json
import subprocess

import numpy as np
import pytest
from dsl import orders as k

from cutesim.orders import explore
from quack_tutorial import figures
from tests.test_site import find_chromium, missing_tool, skip_unless_required


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
    assert [lost.turns[turn][1] for turn in lost.before][0] == "Warp 0 initialises the mbarrier for 1 arrival."


def test_a_result_may_be_what_is_wrong():
    x = np.zeros(128, np.int32)
    found = choices(k.lost_update, x=x, right=lambda: x[0] == 2)
    assert found.failing == "All have ended, and the result is wrong."
    assert (x == 0).all()  # as it was given


def test_a_store_to_shared_memory_is_a_turn_and_a_race_is_told_by_its_result():
    """Two warps store and then read each other's number without a barrier: right only if both store first."""
    x = np.zeros(128, np.int32)
    found = choices(k.no_barrier, x=x, right=lambda: (x[:64] == np.repeat([2, 1], 32)).all())
    assert [found.turns[turn][1] for turn in found.before] == [
        "Warp 0 writes buffer[0]."
    ]  # or warp 1, which is as good
    assert play(found, 1, 0, 1).ended == play(found, 1, 1, 0).ended == ""
    assert play(found, 0, 1, 1).ended == "All have ended, and the result is wrong."
    assert choices(k.no_barrier).failing.startswith("Race")


def test_a_bound_leaves_whole_runs():
    found = choices(k.barriers, warps=3, most=20)
    assert not all(state.is_whole for state in found.states)
    assert all(state.next or state.ended is not None for state in found.states)


def test_without_scripts_the_figure_is_the_task_and_the_solution(lost):
    html = figures.who_runs_next(lost)._repr_html_()
    plain = html.partition("<script ")[0]
    assert "This kernel fails in some orders and comes out right in others: find one of each." in plain
    assert "Warp 1 does atomic_exch on x[0]." in plain and "Deadlock: 32 threads wait" in plain


def test_the_figure_of_a_correct_kernel_says_so():
    html = figures.who_runs_next(choices(k.sleeps_safely))._repr_html_()
    assert "Whichever you choose, this kernel ends, and nothing is wrong." in html and "<summary>" not in html


def test_a_reader_plays_it(root, tmp_path, lost):
    """By mouse and by keyboard, on a phone's width, in both schemes, and without scripts."""
    lack = missing_tool(root)
    if lack:
        skip_unless_required(lack)
    figure = figures.who_runs_next(lost)._repr_html_()
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>t</title>'
    head += '<meta name="viewport" content="width=device-width">'
    style = "<style>@media (prefers-color-scheme: dark) { body { background: #111; color: #eee } }</style>"
    (tmp_path / "page.html").write_text(
        f"{head}{style}<body><main><h1>Page</h1>{figure}</main></html>", encoding="utf-8"
    )
    command = ["node", str(root / "tests/site/chooser.mjs"), str(tmp_path), "--chromium", find_chromium()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout)
    assert not seen["errors"] and not seen["violations"] and not seen["overflow"], seen
    fine, wrong, by_keyboard = seen["ends"]
    assert fine == "All have ended, and nothing is wrong in this order. Now one that fails?"
    assert "Deadlock: 32 threads wait" in wrong and by_keyboard == wrong
    assert [text.partition(".")[0] for text in seen["turns"]] == [
        "Warp 0 does atomic_or on x[0]",
        "Warp 1 does atomic_exch on x[0]",
        "Warp 1 does atomic_or on x[1] and ends",
        "Warp 0 does atomic_exch on x[1] and waits at orders",
    ]
    assert seen["waits"][0].startswith("waits at orders.py:") and seen["waits"][1] == "has ended"
    assert seen["atStart"] and seen["stays"] and seen["back"] and seen["focus"] == "0"
    assert "find one of each" in seen["plain"] and "button" not in seen["plain"] and seen["plainButtons"] == 0
