"""The DSL's behaviour as the simulator gives it, beside the kernels that test_written runs, and what `simulate` does not take."""

import numpy as np
import pytest
from dsl import acceptance, blamed
from dsl import language as k

from cutesim import NotSimulated
from cutesim.memory.arguments import HostTensor
from cutesim.simulation import simulate


def test_printf_says_thread_and_value():
    result = simulate(k.prints, np.arange(32, dtype=np.float32), np.zeros(32, np.float32))
    assert result.printed == ("thread 0 has 0.000000\n", "thread 1 has 1.000000\n")


def test_grid_and_block_of_three_dimensions():
    out = np.full((2, 3, 4, 5), -1, np.int32)
    assert simulate(k.three_dimensions, out).ok
    np.testing.assert_array_equal(out.ravel(), np.arange(120))


def test_source_that_cannot_be_read_is_said():
    scope = {"__name__": "__main__"}
    exec("def host(x):\n    pass\n", scope)
    with pytest.raises(NotSimulated, match="cannot read the source of host"):
        simulate(scope["host"], np.zeros(4, np.float32))


def test_arguments_it_cannot_take():
    with pytest.raises(TypeError, match="complex64"):
        simulate(k.clamp_at_ten, np.zeros(32, np.complex64), np.zeros(32, np.float32))
    with pytest.raises(TypeError, match="needs a @cute.jit function"):
        simulate(42)
    with pytest.raises(ValueError, match="schedule='sideways'"):
        simulate(k.clamp_at_ten, np.zeros(32), np.zeros(32), schedule="sideways")
    said = r"^never_launched\(\) missing 1 required positional argument: 'out'$"
    with pytest.raises(TypeError, match=said):
        simulate(blamed.never_launched, np.zeros(32, np.float32))


def test_an_alignment_that_is_not_promised_is_not_known():
    x, out = np.zeros(32, np.float32), np.zeros(8, np.float32)
    assert simulate(acceptance.wide_tile, HostTensor(x, 16), out).ok
    assert not simulate(acceptance.wide_tile, HostTensor(x, 4), out).ok
