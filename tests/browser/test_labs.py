"""Each lab's solution, judged as a page judges it; `pytest.mjs` runs this where numpy's integers have 32 bits."""

import sys

import pytest

import grading
from grading import corpus, diagnoses, submission, trial

pytestmark = pytest.mark.skipif(sys.platform != "emscripten", reason="tests/grading does it here")


@pytest.mark.parametrize("name", grading.folders())
def test_a_solution_passes_each_check(name):
    module = grading.lab(name)
    answers = submission.load("a.py", corpus.solution(grading.folders()[name]), module.TARGET, module.FUNCTIONS)
    told = diagnoses.judge(module, trial.outcomes(answers, module.cases(0)))
    assert [one.name for one in told] == [*module.CHECKS]
    assert not [one.diagnosis for one in told if one.diagnosis]
