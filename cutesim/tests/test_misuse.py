"""What a reader is told of a kernel that the DSL would not take, or that the simulator does not have: where, and what to write."""

import numpy as np
import pytest

from cutesim import NotSimulated
from cutesim.language.loading import answer_package
from cutesim.simulation import simulate

answer_package("dsl")

from dsl import misused

X = np.arange(32, dtype=np.float32)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("unknown_attribute", "not simulated: .dereferenced of a Pointer"),
        ("pointer_operator", "not simulated: unsupported operand type(s) for @: 'Pointer' and 'int'"),
        ("unknown_argument", "not simulated: barrier as it is called here: barrier() takes 0 positional"),
    ],
)
def test_what_the_simulator_lacks_is_never_a_finding(kernel, message):
    with pytest.raises(NotSimulated, match="misused.py:") as raised:
        simulate(getattr(misused, kernel), X, X.copy())
    assert str(raised.value).startswith(message)
    assert "GPU" not in str(raised.value)  # which is said in a notebook only


def test_arguments_of_the_host_function_are_counted_by_its_own_name():
    with pytest.raises(TypeError, match=r"^never_launched\(\) missing 1 required positional argument: 'out'$"):
        simulate(misused.never_launched, X)
