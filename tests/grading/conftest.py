"""What the tests of all labs share: each lab's folder, and the answers of its corpus."""

import pytest

from grading import compiled, corpus, folders

LABS = folders()


@pytest.fixture(autouse=True)
def no_compiler(request, monkeypatch):
    """Full marks are compiled, which takes seconds, in the tests that are about that alone."""
    if not request.module.__name__.endswith("test_compiled"):
        monkeypatch.setattr(compiled, "problem", lambda: "This test leaves it out.")


@pytest.fixture(params=LABS)
def name(request):
    """Each lab's name."""
    return request.param


@pytest.fixture
def folder(name):
    """Each lab's folder."""
    return LABS[name]


@pytest.fixture(scope="session")
def block_reduce():
    """{name: text} of the answers to the lab block-reduce."""
    return {answer: text for answer, (text, _) in corpus.answers(LABS["block-reduce"]).items()}
