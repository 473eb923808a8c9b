"""What the tests share: the project's root, which of them `make test` leaves to `make test-all`, and how `.ci/run` samples."""

import datetime
import os
import sys
from importlib import util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root():
    """The project's root folder."""
    return Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def load(root):
    """A function from the path of a script, or of a module of the site's, to it as a module that others find by its name."""

    def module_of(path):
        name = Path(path).stem
        if getattr(sys.modules.get(name), "__file__", None) != str(root / path):
            spec = util.spec_from_file_location(name, root / path)
            sys.modules[name] = util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        return sys.modules[name]

    return module_of


@pytest.fixture(scope="session")
def snapshot():
    """Holds lines against those of a file, for what one looks at; with REPORTS=write in the environment it writes them anew."""

    def compared(lines, file):
        text = "\n".join(lines) + "\n"
        if os.environ.get("REPORTS") == "write":
            file.write_text(text, encoding="utf-8")
        assert text.splitlines() == file.read_text(encoding="utf-8").splitlines()

    return compared


@pytest.fixture(scope="session")
def of_today():
    """A function: of cases that one session tries, with TESTS=part the share that it tries today; else all."""
    today = datetime.date.today().toordinal()

    def chosen(cases):
        cases = list(cases)
        return [case for k, case in enumerate(cases) if tried(k, len(cases), today)]

    return chosen


# What takes minutes: whole corpora, proof suites, browsers. The start of a test's id.
SLOW = (
    "tests/grading/",
    "tests/test_course.py",
    "tests/validation/",
    "tests/test_site.py",
    "tests/test_safe.py",
    "tests/test_found.py::test_the_built_site",
    "tests/test_jupyter.py",
    "tests/test_wheel.py",
    "tests/test_workbench.py::test_the_server",
    "tests/test_predictions.py::test_predictions_by_keyboard",
    "tests/test_run_in_page.py",
    "tests/bench/test_published_records.py::test_what_was_timed_is_what_is_shipped",
    "tests/test_kernels_compile.py::test_softmax_of_odd_rows",
    "tests/test_kernel_cache.py",
    "tests/test_architectures.py::test_all_compiles",
    *(f"tests/test_judged_again.py::test_a_verdict_stays_after_run_all[{n}" for n in ("07", "08", "09", "1")),
    "cutesim/tests/test_long_runs.py",
)


DAYS = 7  # of which each has its share of the cases
IN_PAGE = "tests/test_run_in_page.py::"  # each of whose tests takes a browser half a minute


def tried(k: int, count: int, today: int) -> bool:
    """Whether the k-th of so many cases runs on that day. With TESTS=part, as in .ci/run, every seventh does, or, of fewer, one."""
    return os.environ.get("TESTS") != "part" or (k - today) % min(count, DAYS) == 0


def left_out(items, today: int) -> list:
    """The tests that do not run on that day, most of their cases with TESTS=part.

    Within a week each has run; those that are timed always do. Without it, as in the workflow and before a commit, all of them
    do. The pages of the site (`tests/test_site.py`) are sampled alike, and so are the tests of what a reader does in one.
    """
    cases = {}
    for item in items:
        name, case, _ = item.nodeid.partition("[")
        cases.setdefault(IN_PAGE if name.startswith(IN_PAGE) and not case else name, []).append(item)
    return [item for these in cases.values() for k, item in enumerate(these) if not tried(k, len(these), today)]


def pytest_collection_modifyitems(config, items):
    sampled = [item for item in items if not item.get_closest_marker("timed")]
    deselected = set(left_out(sampled, datetime.date.today().toordinal()))
    config.hook.pytest_deselected(items=list(deselected))
    items[:] = [item for item in items if item not in deselected]
    # The longest first: last, it would run beside an idle core.
    items.sort(key=lambda item: not item.nodeid.startswith("tests/test_site.py"))
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
