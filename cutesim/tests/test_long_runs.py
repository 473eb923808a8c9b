"""Long runs: Ctrl-C, and what counts as endless."""

import _thread
import signal
import sys
import threading
import time

import numpy as np
import pytest
from dsl import bounds, language

from cutesim.context import STATE
from cutesim.machine import loops
from cutesim.simulation import simulate

X = np.arange(128, dtype=np.float32)


@pytest.fixture
def interrupts():
    """Python's own answer to Ctrl-C: a shell that starts the tests in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(sys.platform == "emscripten", reason="a browser starts no threads")
@pytest.mark.parametrize("check", [True, False])
def test_ctrl_c_stops_an_endless_kernel_and_the_next_run_works(check, interrupts):
    over = threading.Event()

    def press():  # again and again: Python loses an interrupt that falls into a finaliser
        while not over.wait(0.3):
            _thread.interrupt_main()

    threading.Thread(target=press, daemon=True).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as stopped:
        try:
            simulate(language.endless, X, np.zeros(128, np.float32), check=check, max_steps=10**6)
        finally:
            over.set()
    assert time.monotonic() - start < 5
    # by IPython; in a cell with the line of the reader's
    assert stopped.value._render_traceback_() == ["Interrupted."]
    assert STATE.run is None and STATE.group is None and STATE.loops == 0
    out = np.zeros(32, np.float32)
    assert simulate(language.two_kernels, X[:32], out).ok
    np.testing.assert_array_equal(out, X[:32] * 4)


def test_ctrl_c_in_the_second_run_leaves_the_first_run_s_results(monkeypatch):
    from cutesim import run as running

    def interrupted(*_):
        out[:] = -1
        raise KeyboardInterrupt

    out = np.zeros(32, np.float32)
    monkeypatch.setattr(running, "_silently", interrupted)
    with pytest.raises(KeyboardInterrupt):
        simulate(language.two_kernels, X[:32], out)
    np.testing.assert_array_equal(out, X[:32] * 4)


def test_many_warps_that_end_are_not_endless():
    x = np.zeros((2, 320), np.float32)  # 10 steps a block
    assert simulate(bounds.in_a_loop, x, x.copy(), True, max_steps=15).ok
    (finding,) = simulate(bounds.in_a_loop, x, x.copy(), True, max_steps=9).findings
    assert finding.kind == "endless"
    assert "stopped after 9 loop steps in which no warp came to its end" in finding.message


def test_a_loop_that_takes_too_long_is_endless_too(monkeypatch):
    monkeypatch.setattr(loops, "SECONDS", 0)
    (finding,) = simulate(language.endless, X, np.zeros(128, np.float32)).findings
    assert finding.kind == "endless" and "stopped after 63 loop steps" in finding.message
