"""The pictures that chapters open with say what an independent calculation says."""

import re

import numpy as np
import pytest

from quack_tutorial import openings

pytest.importorskip("torch", reason="torch is not installed, which the kernels' package needs")


@pytest.fixture(scope="module")
def x():
    """The logits of `openings.cross_entropy`."""
    return 2 * openings._row(32, 9)[0].astype(np.float64)


def numbers(text):
    return [float(found) for found in re.findall(r"-?\d+\.\d+", text.replace("−", "-"))]


def test_every_chapter_opens_with_one_and_every_one_is_used(root):
    texts = [path.read_text("utf-8") for path in sorted((root / "notebooks").glob("[0-9]*.md"))]
    cells = [re.findall(r":tags: \[opening\]\n\n[^\n]+\n\n([^\n]+)\n```", text) for text in texts]
    assert len(cells) == 17 and all(len(found) == 1 for found in cells)
    names = {
        name for name in vars(openings) if name[0] != "_" and getattr(openings, name).__class__.__name__ == "function"
    }
    called = {re.split(r"[.(]", found[0].removeprefix("openings."))[0] for found in cells}
    assert names - {"replace"} == called - {"figures"}


def test_who_holds_what_follows_from_16_bytes_a_thread():
    tile = openings.layouts()
    rows, columns = np.indices((4, 32))
    assert (tile.thread_of == 8 * rows + columns // 4).all()
    assert (tile.value_of == columns % 4).all()


def test_the_pair_at_the_end_is_that_of_the_whole_row():
    x = (openings._row(32, 8) + np.linspace(-1.2, 1.2, 32, dtype=np.float32))[0].astype(np.float64)
    player = openings.softmax()
    *_, m, s = numbers(player.frames[-2].caption.split("It was")[0])
    assert m == pytest.approx(x.max(), abs=0.006)
    assert s == pytest.approx(np.exp(x - x.max()).sum(), abs=0.006)
    half = numbers(player.frames[3].caption.split("It was")[0])
    assert half[-1] == pytest.approx(np.exp(x[:16] - x[:16].max()).sum(), abs=0.006)


def test_the_loss_and_the_gradient_of_a_word(x):
    shares = np.exp(x) / np.exp(x).sum()
    player = openings.cross_entropy()
    for word in (0, 17, 31):
        loss, rises, falls = numbers(player.frames[word].caption)
        assert loss == pytest.approx(-np.log(shares[word]), abs=0.006)
        assert rises == falls == pytest.approx(1 - shares[word], abs=0.006)


def test_a_timer_that_does_not_wait_is_faster_than_the_memory():
    (frame,) = openings.five_timers().frames
    assert frame.roles == "frrrr" and "not waiting" in frame.caption


def test_eight_lanes_need_three_rounds():
    frames = openings.warp_reduce().frames
    assert [re.search(r"from lane (\d+)", f.caption)[1] for f in frames[1::2]] == ["1", "2", "4"]
    assert "4 groups of 8 lanes" in frames[-1].caption


def test_the_line_up_takes_the_rows_of_which_enough_lengths_are_recorded():
    from quack_tutorial import card

    lengths = {}
    for name in ("h200", "h100"):
        with card.taken_for(name):
            chart = openings.line_up("softmax", "float32")
            lengths[name] = [row[0] for row in chart.rows]
            assert f"NVIDIA {name.upper()}" in chart.origin
    assert len(lengths["h200"]) == 11 and {"4,096", "65,536"} <= set(lengths["h100"])
    with pytest.raises(ValueError, match="fewer than three lengths"):
        openings.line_up("softmax", "float64")
