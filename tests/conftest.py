"""What the tests share: the project's root."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root():
    """The project's root folder."""
    return Path(__file__).resolve().parent.parent
