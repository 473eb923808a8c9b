"""What the page of a kernel as one types shows of its kernels."""

import json
from html import unescape

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
    assert session.run(2, run.replace("TAKES_ROWS", str("shape[1]" in source or "mX[row" in source)), 1), told
    text = "".join(text for kind, text in told if kind == "text")
    drawn = [text for kind, text in told if kind == "html"]
    lines = json.loads(unescape(drawn[0].split('data-lines="')[1].split('"')[0]))
    found = {source.splitlines()[int(number) - 1].strip(): facts for number, facts in lines.items()}
    return text, [text.split('aria-label="')[1].split('"')[0] for text in drawn[1:]], found


def test_the_race_is_found_and_drawn_first(root):
    text, titles, _ = shown(root, "race")
    assert "Race (read after write)" in text and titles[0].startswith("A race") and "who waits for whom" in titles[1]


def test_with_its_barrier_the_sum_is_right(root):
    text, titles, _ = shown(root, "race", "# cute.arch.barrier()", "cute.arch.barrier()")
    assert "No race, out-of-bounds access" in text and "Largest difference from wanted(x): 0." in text
    assert not any(title.startswith("A race") for title in titles)


def test_the_bytes_of_each_line_stand_beside_it(root):
    # 64 floats in; a sum from lane 0 of each of 2 warps; then 64 threads read both words and write one number.
    _, _, lines = shown(root, "race", "# cute.arch.barrier()", "cute.arch.barrier()")
    assert lines == {
        "total = mX[tidx]": [["reads", "256 B"]],
        "buffer[warp] = total": [["writes", "8 B shared"]],
        "cute.arch.barrier()": [["waits", "2 warps"]],
        "mO[tidx] = buffer[0] + buffer[1]": [["reads", "512 B shared"], ["writes", "256 B"]],
    }


@pytest.mark.parametrize("name", ["reduce", "softmax"])
def test_the_other_starts_are_right(root, name):
    text, titles, _ = shown(root, name)
    assert "No race, out-of-bounds access" in text and len(titles) >= 2


def test_a_run_without_a_trace_has_no_pictures():
    class Run:
        recorded = None

    assert list(motion.pictures(Run())) == []
