"""What the page of a kernel as one types says of kernels, and draws of them."""

import json

import pytest

pytest.importorskip("torch", reason="torch is not installed, in which the starts say what is wanted")

from workbench import motion
from workbench.session import Session

WRITE = "mO[tidx] = buffer[0] + buffer[1]"
MENDED = ("# cute.arch.barrier()", "cute.arch.barrier()")


def shown(root, name, *edits):
    """(verdict as the page gets it, titles of the figures) of a start with edits."""
    source = (root / f"book/static/run/starts/{name}.py").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    run = (root / "book/static/motion.js").read_text(encoding="utf-8").split('RUN = "')[1].split('";')[0]
    told = []
    session = Session(lambda kind, text: told.append((kind, text)))
    assert session.run(1, source, 0, (1,)), told
    assert session.run(2, run.replace("\\n", "\n"), 1), told
    (verdict,) = (one for kind, text in told if kind == "verdict" for one in json.loads(text))
    drawn = [text for kind, text in told if kind == "html" and "aria-label" in text]
    return verdict, [text.split('aria-label="')[1].split('"')[0] for text in drawn]


def test_the_page_begins_with_the_race(root):
    page = (root / "book/motion.md").read_text(encoding="utf-8")
    assert (root / "book/static/run/starts/race.py").read_text(encoding="utf-8").strip() in page


# By hand: of 64 numbers, how many are wrong, never written, NaN.
@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        (WRITE, f"if tidx < 32:\n        {WRITE}", (32, 32, 0)),
        (WRITE, "pass", (64, 64, 0)),
        (WRITE, 'mO[tidx] = cutlass.Float32(float("nan"))', (64, 0, 64)),
        ("buffer[1]\n", "buffer[0]\n", (64, 0, 0)),
        ("kernel(mX, mO).launch(grid=[1, 1, 1], block=[32 * WARPS, 1, 1])", "pass", (64, 64, 0)),
        ("mX[tidx]\n", "mX[tidx] * cutlass.Float32(1.001)\n", (64, 0, 0)),
    ],
)
def test_a_wrong_kernel_without_a_finding_is_wrong(root, old, new, counts):
    verdict, _ = shown(root, "race", MENDED, (old, new))
    assert not verdict["right"] and not verdict["findings"]
    assert (verdict["wrong"], verdict["unwritten"], verdict["nans"]) == counts
    assert verdict["ran"] == (new != "pass" or old == WRITE)


def test_a_right_kernel_may_print_what_it_likes(root):
    verdict, _ = shown(root, "race", MENDED, ("WARPS = 2", 'WARPS = 2\nprint("1 finding:")'))
    assert verdict["right"]


@pytest.mark.parametrize("name", ["reduce", "softmax", "copy"])
def test_the_other_starts_are_right(root, name):
    verdict, titles = shown(root, name)
    assert verdict["right"] and verdict["difference"] <= verdict["tolerance"] and len(titles) >= 2


def test_a_kernel_of_rows_may_say_so_in_any_way_and_must_do_all_of_them(root):
    unpacked = ("    kernel(mX, mO).launch(grid=[mX.shape[0]", "    M, N = mX.shape\n    kernel(mX, mO).launch(grid=[M")
    assert shown(root, "softmax", unpacked)[0]["shapes"] == [[1, 100]]
    verdict, _ = shown(root, "softmax", ("grid=[mX.shape[0]", "grid=[1"))
    assert not verdict["right"] and (verdict["shapes"], verdict["unwritten"]) == ([[3, 100]], 200)
    assert shown(root, "copy", ("THREADS = 64", "THREADS = 64\nSHAPE = 2, 40"))[0]["shapes"] == [[2, 40]]


def test_a_run_without_a_trace_has_no_pictures():
    class Run:
        recorded = None

    assert list(motion.pictures(Run())) == []
