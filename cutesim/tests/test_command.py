"""`quack-tutorial simulate --orders`: verdict, exit status, story and JSON."""

import json

import pytest

from cutesim.command import main

TICKETS = """
import cutlass
import cutlass.cute as cute


@cute.kernel
def kernel(x: cute.Tensor, waits: cutlass.Constexpr[bool]):
    mbar = cutlass.memory.SmemAllocator().allocate_array(cutlass.Int64, 1)
    tid, _, _ = cute.arch.thread_idx()
    if tid == 0:
        cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    if tid % 32 == 0:
        ticket = cute.arch.atomic_add(x.iterator, cutlass.Int32(1))
        if ticket == 0 and tid == 0:
            cute.arch.mbarrier_arrive(mbar)
    if cutlass.const_expr(waits):
        cute.arch.mbarrier_wait(mbar, 0)


@cute.jit
def draws(x: cute.Tensor):
    kernel(x, False).launch(grid=[1, 1, 1], block=[96, 1, 1])


@cute.jit
def hangs(x: cute.Tensor):
    kernel(x, True).launch(grid=[1, 1, 1], block=[96, 1, 1])
"""


@pytest.fixture
def said(tmp_path, capsys):
    """A function from a kernel's name and words to (exit status, what is printed)."""
    file = tmp_path / "tickets.py"
    file.write_text(TICKETS)

    def run(name, *words):
        return main(["check", f"{file}:{name}", "x=i32:8:0", *words]), capsys.readouterr().out

    return run


def test_all_orders_are_tried(said):
    status, text = said("draws", "--orders", "all")
    assert status == 0 and text.startswith("clean: no race")
    # of three tickets
    assert "clean: 6 orders tried in" in text and "every order was tried" in text


def test_bounds_have_a_verdict_and_a_status_of_their_own(said):
    status, text = said("draws", "--orders", "2")
    assert status == 6 and text.startswith("clean within bounds: ")
    assert "clean within bounds: 2 orders tried" in text
    assert said("draws", "--orders", "60s")[0] == 0
    with pytest.raises(SystemExit):
        said("draws", "--orders", "0")


def test_an_order_that_fails_is_told(said):
    status, text = said("hangs", "--orders", "all")
    assert status == 1 and text.startswith("finding: deadlock, tickets.py:")
    assert "Nobody is left to let" in text and "does atomic_add on x[0]" in text


def test_json_has_the_verdict_and_the_story(said):
    status, text = said("hangs", "--orders", "all", "--format", "json")
    data = json.loads(text)
    (run,) = data["runs"]
    assert (data["exit_status"], run["orders"]["verdict"]) == (status, "wrong") == (1, "wrong")
    assert run["orders"]["findings"] == run["findings"]
    assert all(step["where"].startswith("tickets.py:") for step in run["orders"]["story"][:-1])
