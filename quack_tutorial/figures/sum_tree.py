"""`sum_tree`: in what order the terms of a sum were added, level by level."""

from __future__ import annotations

from .player import Frame, Player
from .scene import Box, Label, Scene
from .wording import counted

MOST_TERMS = 64
SIZE, LEVEL, LEFT, TOP, WIDTH = 9, 17, 12, 26, 660


def sum_tree(tree, row=None, title="The order of a sum") -> Player:
    """What a `cutesim.sums.Tree` adds, a step a level: terms above, each sum below what it adds.

    `row` holds the numbers that the terms are made of, and orders them as it does; without it they stand as they are added.
    ValueError for a tree that adds nothing, or more than 64 terms.
    """
    terms = tree.terms
    if not 2 <= len(terms) <= MOST_TERMS:
        raise ValueError(f"the sum has {len(terms):,} terms: take one of 2 to {MOST_TERMS}")
    column = tree.columns(row) if row is not None else range(len(terms))
    if None in column or len({*column}) < len(terms):
        column = range(len(terms))
    places, sums, level = [*column], [], [0] * len(terms)
    left = iter(range(len(terms)))

    def add(at):
        """The number of the box that stands for what is at a place of the sum; (whether it was rescaled on the way)."""
        parts = tree.parts(at)
        if parts is None:
            return next(left), False
        if len(parts) == 1:
            return add(parts[0])[0], True
        (one, first), (other, second) = add(parts[0]), add(parts[1])
        places.append((places[one] + places[other]) / 2)
        level.append(max(level[one], level[other]) + 1)
        sums.append((one, other, first or second))
        return len(places) - 1, False

    add(tree.sum)
    rescaled = any(scaled for *_, scaled in sums)
    height = max(level)
    scene = _scene(places, level, len(terms))
    frames = [_frame(scene, sums, level, step, len(terms)) for step in range(1, height + 1)]
    key = (("r", "term"), ("w", "sum made in this step"), ("-", "sum made before"))
    key += (("a", "sum, of which a part was rescaled first"),) if rescaled else ()
    return Player(title, scene, tuple(frames), f"Simulated: {tree}. A box stands below what it adds.", key=key)


def _scene(places, level, terms: int) -> Scene:
    pitch = (WIDTH - 2 * LEFT) / terms
    size = min(SIZE, pitch - 1)
    x = lambda place: LEFT + (place + 0.5) * pitch  # noqa: E731
    boxes = tuple(Box(x(p) - size / 2, TOP + h * LEVEL, size, SIZE) for p, h in zip(places, level))
    labels = tuple(Label(x(k), TOP - 10, str(k), "middle", "small") for k in range(0, terms, max(1, terms // 8)))
    return Scene(WIDTH, TOP + (max(level) + 1) * LEVEL, boxes, labels)


def _frame(scene, sums, level, step: int, terms: int) -> Frame:
    roles = ["r"] * terms
    links = ""
    for at, (one, other, scaled) in enumerate(sums, terms):
        roles.append("h" if level[at] > step else "a" if scaled else "w" if level[at] == step else "-")
        if level[at] <= step:
            links += f"{one}>{at} {other}>{at} "
    now = [at for at in range(terms, len(level)) if level[at] == step]
    caption = f"Level {step}: {counted(len(now), 'addition')}" + (" that can be made at once." if len(now) > 1 else ".")
    return Frame(caption, "".join(roles), ("",) * len(roles), inks={"thin": links})
