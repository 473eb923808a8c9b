"""What the tests of all labs share: each lab's folder, and the answers of its corpus."""

import pytest

from quack_tutorial.labs import corpus, folders

LABS = folders()


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
