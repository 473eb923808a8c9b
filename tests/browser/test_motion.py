"""What the page of a kernel as one types shows of its kernels."""

import pytest

pytest.importorskip("torch", reason="torch is not installed, in which the starts say what is wanted")

from quack_tutorial.browser import motion
from quack_tutorial.browser.session import Session


def shown(root, name, old="", new=""):
    """(printed text, titles of the figures) of a start with an edit, run as the page does."""
    script = (root / "book/static/motion.js").read_text(encoding="utf-8")
    run = script.split("const RUN = `")[1].split("`;")[0]
    source = (root / f"book/static/run/starts/{name}.py").read_text(encoding="utf-8").replace(old, new)
    told = []
    session = Session(lambda kind, text: told.append((kind, text)))
    assert session.run(1, source, 0, (1,)), told
    assert session.run(2, run.replace("MISSING", str("mX[tidx]" in source)), 1), told
    text = "".join(text for kind, text in told if kind == "text")
    return text, [text.split('aria-label="')[1].split('"')[0] for kind, text in told if kind == "html"]


def test_the_race_is_found_and_drawn_first(root):
    text, titles = shown(root, "race")
    assert "Race (read after write)" in text and titles[0].startswith("A race") and "who waits for whom" in titles[1]


def test_with_its_barrier_the_sum_is_right(root):
    text, titles = shown(root, "race", "# cute.arch.barrier()", "cute.arch.barrier()")
    assert "nothing wrong found" in text and "Largest difference from wanted(x): 0." in text
    assert not any(title.startswith("A race") for title in titles)


@pytest.mark.parametrize("name", ["reduce", "softmax"])
def test_the_other_starts_are_right(root, name):
    text, titles = shown(root, name)
    assert "nothing wrong found" in text and len(titles) >= 2


def test_a_run_without_a_trace_has_no_pictures():
    class Run:
        trace = None

    assert list(motion.pictures(Run())) == []
