"""The figure in which a reader chooses who runs next, also without scripts and in a browser."""

import numpy as np
import pytest
from dsl import orders as k

from cutesim.orders import explore
from quack_tutorial import figures
from tests.test_predictions import driven


def choices(kernel):
    return explore(k.launched(kernel), np.zeros(128, np.int32))


@pytest.fixture(scope="module")
def lost():
    """A lost wake-up."""
    return choices(k.wakes_too_early)


def test_without_scripts_the_figure_is_the_task_and_the_solution(lost):
    html = figures.who_runs_next(lost)._repr_html_()
    plain = html.partition("<script ")[0]
    assert "This kernel fails in some orders and comes out right in others: find one of each." in plain
    assert "Warp 1 does atomic_exch on x[0]." in plain and "Deadlock: 32 threads wait" in plain


def test_the_figure_of_a_correct_kernel_says_so():
    html = figures.who_runs_next(choices(k.sleeps_safely))._repr_html_()
    assert "Whichever you choose, this kernel ends, and nothing is wrong." in html
    assert "<summary>" not in html


def test_a_reader_plays_it(root, tmp_path, lost):
    """By mouse and by keyboard, on a phone's width, in both schemes, and without scripts."""
    figure = figures.who_runs_next(lost)._repr_html_()
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>t</title>'
    head += '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
    style = "<style>@media (prefers-color-scheme: dark) { body { background: #111; color: #eee } }</style>"
    (tmp_path / "page.html").write_text(
        f"{head}{style}<body><main><h1>Page</h1>{figure}</main></html>", encoding="utf-8"
    )
    seen = driven(root, "chooser", tmp_path)
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
    assert "find one of each" in seen["plain"] and "button" not in seen["plain"]
    assert seen["plainButtons"] == 0
