"""What the tests share: the project's root, and which of them `make test` leaves to `make test-all`."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root():
    """The project's root folder."""
    return Path(__file__).resolve().parent.parent


# What takes minutes: whole corpora, proof suites, every line of the shipped tables, browsers. The start of a test's id.
SLOW = (
    "tests/labs/",
    "tests/validation/",
    "tests/test_site.py",
    "tests/test_found.py::test_the_built_site",
    "tests/test_jupyter.py",
    "tests/test_wheel.py",
    "tests/test_print_book.py::test_chromium",
    "tests/test_playground.py",
    "tests/test_workbench.py::test_the_server",
    "tests/test_predictions.py::test_predictions_by_keyboard",
    "tests/test_run_in_page.py",
    "tests/bench/test_published_records.py::test_what_was_timed_is_what_is_shipped",
    "tests/test_kernels_compile.py::test_every_line_of_the_shipped_tables_compiles",
    "tests/test_kernels_compile.py::test_softmax_of_odd_rows",
    "tests/test_kernel_cache.py",
    "tests/test_architectures.py::test_all_compiles",
    *(f"tests/test_judged_again.py::test_a_verdict_stays_after_run_all[{n}" for n in ("07", "08", "09", "1")),
    "tests/simulator/test_acceptance.py",
    "tests/simulator/test_long_runs.py",
)


def pytest_collection_modifyitems(items):
    # The longest first: last, it would run beside an idle core.
    items.sort(key=lambda item: not item.nodeid.startswith("tests/test_site.py"))
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
