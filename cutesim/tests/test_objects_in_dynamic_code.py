"""Methods of plain Python objects inside a dynamic `if` or loop: what the DSL refuses, the simulator refuses too."""

import numpy as np
import pytest
from dsl import objects as k
from real_compiler import compiled

from cutesim.simulation import simulate

KERNELS = (
    (k.OfALocal, True),
    (k.OfAParameter, True),
    (k.OfAString, True),
    (k.OfSelf, False),
    (k.Before, False),
    (k.OfATuple, False),
)


@pytest.mark.parametrize("made, refused", KERNELS)
def test_the_simulator_refuses_a_method_of_a_plain_object(made, refused):
    run = simulate(made(), np.zeros((1, 64), np.float32))
    assert ["reader is a Python object" in str(finding) for finding in run.findings] == [True] * refused


@pytest.mark.parametrize("made, refused", KERNELS)
def test_and_so_does_the_compiler(made, refused):
    if refused:
        with pytest.raises(Exception, match="plain Python value"):
            compiled(made(), np.zeros((1, 64), np.float32))
    else:
        assert ".entry" in compiled(made(), np.zeros((1, 64), np.float32))
