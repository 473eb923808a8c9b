"""`merging`: a butterfly whose operator merges sorted lists, lane by lane and register by register."""

from __future__ import annotations

from .player import Frame, Player
from .scene import Box, Label, Scene

WIDTH, LEFT, HEIGHT, GAP, TOP = 692, 150, 19, 26, 30
ROWS = "holds", "reads, backwards", "keeps the larger, sorted"


def merging(lists, origin: str) -> Player:
    """`lists` (steps + 1, lanes, k) are what each of up to 8 lanes holds at first and after each step; each has a colour."""
    steps, lanes, k = len(lists) - 1, *lists[0].shape
    home = {value: str(lane) for lane in range(lanes) for value in lists[0][lane].tolist()}
    frames = []
    for step in range(steps + 1):
        held, last = lists[step], step == steps
        rows = [held, *((held[[lane ^ 1 << step for lane in range(lanes)], ::-1], lists[step + 1]) if not last else ())]
        values = [row[lane, i] for row in rows for i in range(k) for lane in range(lanes)]
        empty = 3 * lanes * k - len(values)
        caption = f"All lanes hold the {k} largest of {lanes * k} numbers, in order."
        if not last:
            caption = (
                f"Step {step + 1} of {steps}: lane i reads the list of lane i xor {1 << step}, the last number first. The larger "
                f"of each pair are the {k} largest of both lists; they are sorted again."
            )
        roles = "".join(home[value] for value in values) + "-" * empty
        frames.append(Frame(caption, roles, (*(f"{value}" for value in values), *[""] * empty)))
    return Player(f"{lanes} lanes merge sorted lists of {k}", _scene(lanes, k), tuple(frames), origin, start=0)


def _scene(lanes, k) -> Scene:
    """Three rows of lists, one below a lane's number; their names at the left."""
    pitch, boxes, y = (WIDTH - LEFT) / lanes, [], TOP
    labels = [Label(LEFT + (lane + 0.5) * pitch, 8, f"lane {lane}", "middle") for lane in range(lanes)]
    for name in ROWS:
        labels.append(Label(2, y + k * HEIGHT / 2, name))
        boxes += [
            Box(LEFT + lane * pitch, y + i * HEIGHT, pitch - 4, HEIGHT - 2) for i in range(k) for lane in range(lanes)
        ]
        y += k * HEIGHT + GAP
    return Scene(WIDTH, y - GAP + 4, tuple(boxes), tuple(labels))
