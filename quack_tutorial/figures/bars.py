"""Rows of numbers as bars, step by step: `online_softmax` over one row, `loss_gradient` for every target, `rates` side by side."""

from __future__ import annotations

import numpy as np

from .grid import explorer
from .player import Frame, Player
from .scene import Box, Label, Scene, rectangle
from .wording import full

WIDTH, LEFT, HEIGHT, GAP = 692, 4, 76, 30
STEP = 4  # numbers read between two pictures


def online_softmax(x, y, origin) -> Player:
    """A row x and its softmax y: the pair (maximum, sum) after every 4 numbers, and what each number adds to the sum.

    Below stands e^(x - m) with the largest m so far: where m grows, every bar shrinks.
    """
    scene, n = _scene(len(x), "x", "e^(x − m)"), len(x)
    m, s, frames, low = -np.inf, 0.0, [], min(0.0, float(x.min()))
    tall = (x - low) / (x.max() - low)
    for end in range(STEP, n + 1, STEP):
        before, part = m, x[end - STEP : end].astype(np.float64)
        m = max(m, part.max())
        s = s * np.exp(before - m) + np.exp(part - m).sum()
        shares = np.where(np.arange(n) < end, np.exp(x - m), 0.0)
        grows = ""
        if -np.inf < before < m:
            grows = f" It was {before:.2f}: the sum so far shrinks {np.exp(m - before):.1f} times."
        frames.append(
            Frame(
                f"{end} of {n} numbers are read. The maximum so far is m = {m:.2f}, the sum of e^(x − m) is s = {s:.2f}.{grows}",
                ("v" * (end - STEP) + "r" * STEP + "-" * (n - end)) * 2,
                ("",) * 2 * n,
                inks={"even": _areas(scene, tall, 0), "odd": _areas(scene, shares, n)},
            )
        )
    frames.append(
        Frame(
            f"The row is written: e^(x − m) / s, with the last m = {m:.2f} and s = {s:.2f}. The largest is {full(float(y.max()))}.",
            "v" * n + "w" * n,
            ("",) * 2 * n,
            inks={"even": _areas(scene, tall, 0), "odd": _areas(scene, y / y.max(), n)},
        )
    )
    return Player(
        "Online softmax: one pass, two numbers kept", scene, tuple(frames), origin,
        (("r", "read now"), ("v", "read before"), ("w", "written")), start=len(frames) // 2,
    )  # fmt: skip


def loss_gradient(x, losses, gradients, origin) -> Player:
    """A row of logits x, with the loss and the row of gradients for each target."""
    n = len(x)
    scene = _scene(n, "logits", "gradient")
    low = min(0.0, float(x.min()))
    tall = (x - low) / (x.max() - low)

    def draw(**chosen):
        at = chosen["right word"]
        gradient = gradients[at]
        return Frame(
            f"If word {at} is the right one, the loss is {losses[at]:.2f}. Its logit must rise by {-gradient[at]:.2f}, "
            f"all others must fall, by {gradient.sum() - gradient[at]:.2f} together.",
            ("v" * at + "a" + "v" * (n - at - 1)) * 2,
            ("",) * 2 * n,
            inks={
                "even": _areas(scene, tall, 0) + _areas(scene, np.maximum(gradient, 0) / 2, n, base=0.5),
                "odd": _areas(scene, np.maximum(-gradient, 0) / 2, n, base=0.5, down=True),
            },
        )

    return explorer(
        "Cross-entropy: one right word, and what every logit hears of it",
        {"right word": tuple(range(n))},
        scene,
        draw,
        origin,
        (
            ("a", "the right word"),
            ("even", "a logit, or a gradient that lowers it"),
            ("odd", "a gradient that raises it"),
        ),
        {"right word": int(np.argsort(x)[n // 2])},
    )


def rates(title, names, values, limit, caption, origin) -> Player:
    """Bars side by side, each with its number; `limit` is (value, words): what nothing can pass, drawn as a line."""
    most = max(*values, limit[0])
    width, named, row = 720, 190, 30
    boxes, labels = [], []
    for i, (name, value) in enumerate(zip(names, values)):
        length = (width - named - 4) * value / most
        boxes.append(Box(named + 1, i * row + 2, max(2, length), 20))
        labels.append(Label(0, i * row + 12, name))
        inside = value > 0.6 * most
        place = named + length + (-8 if inside else 8)
        labels.append(Label(place, i * row + 12, f"{value:,.0f} GB/s", "end" if inside else "start", "cell"))
    x, y = named + 1 + (width - named - 4) * limit[0] / most, len(names) * row + 8
    labels.append(Label(max(x, 0), y + 8, limit[1], kind="small"))
    scene = Scene(width, y + 20, tuple(boxes), tuple(labels), rules=f"M{x:.1f} 0V{y:.1f}")
    frame = Frame(caption, "".join("f" if value > limit[0] else "r" for value in values), ("",) * len(names))
    return Player(title, scene, (frame,), origin, (("r", "possible"), ("f", "more than the memory can")))


def _scene(n, above, below) -> Scene:
    pitch = (WIDTH - LEFT) / n
    places = [LEFT + i * pitch for i in range(n)]
    boxes = [Box(x, top, pitch - 1.5, HEIGHT) for top in (18, 18 + HEIGHT + GAP) for x in places]
    labels = (Label(LEFT, 8, above, kind="small"), Label(LEFT, HEIGHT + GAP + 8, below, kind="small"))
    return Scene(WIDTH, 2 * HEIGHT + GAP + 22, tuple(boxes), labels)


def _areas(scene, shares, first, base=0.0, down=False) -> str:
    """Bars in the boxes from `first` on: shares of a box's height, up from `base`, or down from it."""
    path = ""
    for box, share in zip(scene.boxes[first:], shares):
        height = float(share) * HEIGHT
        if height >= 0.3:
            top = box.y + HEIGHT * (1 - base) - (0 if down else height)
            path += rectangle(box.x, top, box.width, height)
    return path
