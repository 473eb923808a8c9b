"""A pytest fixture that runs kernels on the simulator and fails the test on a finding: pytest loads it wherever this is installed.

    def test_softmax(simulate):
        out = np.empty_like(x)
        simulate(Softmax(4096), x, out)              # a race, a deadlock, a wrong access: the test fails, and says where
        np.testing.assert_allclose(out, expected)

It takes what `cutesim.simulate` takes and returns the same `Run`, for assertions about its trace; with against=function it
compares the tensors that the kernel changed, as `cutesim check --against` does. A failed test's text begins with the
verdict: finding, wrong or not simulated. No GPU is needed, nor CuTe DSL or torch: where they are not installed, `import cutlass`
and `import torch` are answered in the modules that the tests import (not in the test files).
"""

import pytest


def pytest_configure(config):
    from cutesim.language.loading import answer_folder

    answer_folder(str(config.rootpath))


@pytest.fixture
def simulate():
    """`cutesim.simulate`; a finding fails the test."""
    from cutesim.context import NotSimulated
    from cutesim.files import Outcome, checked_against
    from cutesim.simulation import simulate as run

    def simulate(function, *args, against=None, **kwargs):
        try:
            result, wrong = checked_against(run, against, function, args, kwargs)
        except NotSimulated as error:
            pytest.fail(str(error), pytrace=False)
        outcome = Outcome((result,), wrong=wrong)
        if outcome.verdict != "clean":
            pytest.fail("\n".join([str(outcome), str(result)]), pytrace=False)
        return result

    return simulate
