"""Methods of plain Python objects inside a dynamic `if` or loop: what the DSL refuses, the simulator refuses too."""

import numpy as np
import pytest
from dsl import objects as k

from cutesim.simulation import simulate
from quack_tutorial import compiler

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
    if compiler.dsl_problem():
        pytest.skip(
            "CuTe DSL is not installed: there is no compiler to ask the same; the simulator's side is tested above"
        )
    spec = compiler.TensorSpec("float32", (1, 64), (64, 1), 16)
    if refused:
        with pytest.raises(Exception, match="plain Python value"):
            compiler.ptx(made(), spec)
    else:
        assert ".entry" in compiler.ptx(made(), spec)
