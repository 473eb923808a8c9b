"""`timeline`: a warp that has less to do waits at the barrier for one that has more."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed, which the kernels' package needs")

import quack_tutorial as qt
from quack_tutorial import figures
from quack_tutorial.kernels.softmax import SoftmaxThreePass


def bars(player):
    """[(row, first column, columns)] of the boxes, in their order."""
    pitch = 24.0
    boxes = [(b.y // 30, (b.x - 58) / pitch, (b.width + 2) / pitch) for b in player.scene.boxes]
    return [(int(row), round(first), round(long)) for row, first, long in boxes]


@pytest.fixture(scope="module")
def player():
    # 96 numbers for 64 threads: warp 0 reads two of them a pass, warp 1 one.
    x = np.arange(96, dtype=np.float32).reshape(1, 96)
    return figures.timeline(qt.simulate(SoftmaxThreePass(64), x, np.zeros_like(x), values=True).trace)


def test_the_shorter_warp_waits_until_the_longer_one_has_arrived(player):
    roles = player.frames[-1].roles
    every = zip(bars(player), roles)
    waits = [(row, first, long) for (row, first, long), role in every if role == "p"]
    # Reads, writes its slot, waits: warp 0 in columns 0 to 3, warp 1 in 0 to 2, and both go on in column 4.
    assert sorted(waits)[0] == (0, 3, 1) and (1, 2, 2) in waits
    for row in (0, 1):
        mine = sorted((first, long) for at, first, long in bars(player) if at == row)
        assert all(a + long <= b for (a, long), (b, _) in zip(mine, mine[1:]))


def test_nobody_passes_a_barrier_before_all_have_come(player):
    ends = {}
    for (row, first, long), role in zip(bars(player), player.frames[-1].roles):
        if role == "p":
            ends.setdefault(row, []).append(first + long)
    assert ends[0] == ends[1] and len(ends[0]) == 2


def test_the_steps_are_the_instructions_of_the_trace(player):
    assert "Warp 0" in player.frames[0].caption and set(player.frames[0].roles[1:]) == {"-"}
    assert len(player.frames) == len(player.scene.boxes)
