"""A pytest fixture that runs kernels on the simulator and fails the test on a finding: pytest loads it wherever this is installed.

    def test_softmax(simulate):
        out = np.empty_like(x)
        simulate(Softmax(4096), x, out)              # a race, a deadlock, a wrong access: the test fails, and says where
        np.testing.assert_allclose(out, expected)

It takes what `quack_tutorial.simulate` takes and returns the same `Run`, for assertions about its trace. No GPU is needed, nor
CuTe DSL: where it is not installed, `import cutlass` is answered in the modules that the tests import (not in the test files).
"""

import pytest


def pytest_configure(config):
    from quack_tutorial.simulator.loading import answer_folder

    answer_folder(str(config.rootpath))


@pytest.fixture
def simulate():
    """`quack_tutorial.simulate`; a finding fails the test."""
    from quack_tutorial.simulation import simulate as run

    def simulate(function, *args, **kwargs):
        result = run(function, *args, **kwargs)
        if not result.ok:
            pytest.fail(str(result), pytrace=False)
        return result

    return simulate
