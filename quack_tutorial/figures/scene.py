"""What a picture is made of: boxes with text, labels, lines; and their SVG.

A `Scene` is what stays; a `player.Frame` says what its boxes hold and how they look at one step. The SVG carries light
colours as attributes, so that it can be read where scripts and style sheets are stripped; the style sheet overrides them.

An ink is a path, or links between boxes ("3>40 "), which are drawn wherever those boxes are. Texts are never squeezed: a row of
lanes whose numbers are `wide_texts` is laid like bricks, two courses of boxes twice as wide. On a phone a picture scrolls.

Not covered: anything that a step moves, except `inks` (one path each) and `notes` (texts with a place).
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from .theme import LIGHT, ROLES

EMPTY = ROLES["-"]
# Width of a digit and of a point at the size of box texts, in the widest of the usual fonts.
GLYPH, POINT = 7.3, 3.7
LANES, PITCH, WIDTH = 32, 21.5, 19.5  # a row of lanes: how far apart they are, how wide a box is
COURSE = 2  # pixels between the courses of a row whose numbers need boxes twice as wide

# Lines that steps redraw: (light colour, width, dashes, filled)
INKS = {
    "even": (LIGHT["even"], 1, "", True),
    "odd": (LIGHT["odd"], 1, "", True),
    "thin": ("#8d96a3", 1, "", False),
    "read": (ROLES["r"][1], 1.8, "", False),
    "write": (ROLES["w"][1], 1.8, "", False),
    "order": (ROLES["p"][1], 2, "", False),
    "missing": (ROLES["f"][1], 2, "6 4", False),
    "fix": (ROLES["a"][1], 2, "6 4", False),
}


@dataclass(frozen=True)
class Box:
    """A rectangle with a text in it; wide=True starts the text at the left, in the font of code."""

    x: float
    y: float
    width: float
    height: float
    wide: bool = False


@dataclass(frozen=True)
class Label:
    """A text that stays; `anchor` is start, middle or end, `kind` is "", "strong", "small", "head" or "code"."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    kind: str = ""


@dataclass(frozen=True)
class Scene:
    """The part of a picture that no step changes. Sizes are in CSS pixels; `rules` is a path of faint lines.

    `font` is the size of its texts.
    """

    width: float
    height: float
    boxes: tuple[Box, ...]
    labels: tuple[Label, ...] = ()
    rules: str = ""
    font: float = 11.5


def number(x: float) -> str:
    """A coordinate, as short as it can be."""
    return f"{x:.1f}".removesuffix(".0")


def arrow(x0: float, y0: float, x1: float, y1: float, head: float = 5) -> str:
    """A path from one point to another with a head at the second."""
    length = max(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 1e-6)
    ux, uy = (x1 - x0) / length * head, (y1 - y0) / length * head
    wings = (x1 - ux - uy * 0.6, y1 - uy + ux * 0.6, x1 - ux + uy * 0.6, y1 - uy - ux * 0.6)
    a, b, c, d = map(number, wings)
    end = f"{number(x1)} {number(y1)}"
    return f"M{number(x0)} {number(y0)}L{end}M{a} {b}L{end}L{c} {d}"


def link(start: int, end: int) -> str:
    """An ink's piece from one box to another, by their numbers."""
    return f"{start}>{end} "


def drawn(ink: str, boxes, head: bool = True) -> str:
    """An ink as a path: links become lines between the boxes, with heads or without."""
    if not ink[:1].isdigit():
        return ink
    return "".join(_linked(boxes[int(a)], boxes[int(b)], head) for a, b in (pair.split(">") for pair in ink.split()))


def _linked(a: Box, b: Box, head: bool) -> str:
    """From edge to edge: sideways between columns of code, round the right side in one column, else downwards or upwards."""
    if a.wide and b.wide and a.x == b.x:
        x, y0, y1 = a.x + a.width + 2, a.y + a.height / 2, b.y + b.height / 2
        return line(x, y0, x + 12, y0) + line(x + 12, y0, x + 12, y1) + arrow(x + 12, y1, x, y1, 5)
    if a.wide and b.wide:
        x0, x1 = (a.x + a.width + 3, b.x - 3) if a.x < b.x else (a.x - 3, b.x + b.width + 3)
        ends = x0, a.y + a.height / 2, x1, b.y + b.height / 2
    else:
        y0, y1 = (a.y + a.height + 1, b.y - 2) if a.y < b.y else (a.y - 1, b.y + b.height + 1)
        ends = a.x + a.width / 2, y0, b.x + b.width / 2, y1
    return (arrow if head else line)(*ends)


def rectangle(x: float, y: float, width: float, height: float) -> str:
    """A closed path."""
    return f"M{number(x)} {number(y)}h{number(width)}v{number(height)}h{number(-width)}z"


def line(x0: float, y0: float, x1: float, y1: float) -> str:
    """A straight path."""
    return f"M{number(x0)} {number(y0)}L{number(x1)} {number(y1)}"


def text_width(text: str) -> float:
    """About how many pixels a box's text takes."""
    return sum(POINT if c in ".,·" else GLYPH for c in text)


def wide_texts(texts) -> bool:
    """Whether any text is too long for a box of a plain row of lanes."""
    return any(text_width(text) > WIDTH - 1.5 for text in set(texts))


def lane_row(left: float, top: float, height: float, bricks: bool) -> list[Box]:
    """A row of 32 boxes; as bricks the odd lanes are a course lower, and each lane stays where it is from left to right."""
    if not bricks:
        return [Box(left + i * PITCH + 1, top, WIDTH, height) for i in range(LANES)]
    wide = 2 * PITCH - 3
    middle = left + PITCH / 2
    return [Box(middle + i * PITCH - wide / 2, top + i % 2 * (height + COURSE), wide, height) for i in range(LANES)]


def numbered(left: float, y: float, name: str, first: int = 0, each: int = 1) -> list[Label]:
    """The numbers of a row of 32, above or below it, and what they number."""
    numbers = [Label(left + i * PITCH + PITCH / 2, y, str(first + i), "middle", "small") for i in range(0, LANES, each)]
    return [*numbers, Label(left - 14, y, name, "end", "small")]


def row_height(height: float, bricks: bool) -> float:
    """The height of a row of 32 lanes, in two courses where they are drawn as bricks."""
    return 2 * height + COURSE if bricks else height


def _box(box: Box, role: str) -> str:
    fill, stroke = ROLES.get(role, EMPTY)[:2]
    paint = "" if role in "-h" else f' fill="{fill}" stroke="{stroke}"'
    hidden = ' visibility="hidden"' if role == "h" else ""
    place = f'x="{number(box.x)}" y="{number(box.y)}" width="{number(box.width)}" height="{number(box.height)}"'
    return f'<rect data-r="{role}"{hidden}{paint} {place}/>'


def _word(box: Box, role: str, text: str) -> str:
    x = box.x + 7 if box.wide else box.x + box.width / 2
    kind = ' class="qt-code" text-anchor="start"' if box.wide else ""
    place = f'x="{number(x)}" y="{number(box.y + box.height / 2)}"'
    # `data-r` would give the text the role's fill.
    faint = f' data-w="{role}"' if role in "ih" else ""
    return f"<text{faint}{kind} {place}>{escape(text)}</text>"


def _label(label: Label) -> str:
    kind = f' class="qt-{label.kind}"' if label.kind else ""
    anchor = f' text-anchor="{label.anchor}"' if label.anchor != "start" else ""
    return f'<text{kind}{anchor} x="{number(label.x)}" y="{number(label.y)}">{escape(label.text)}</text>'


def _ink(name: str, path: str) -> str:
    colour, width, dashes, filled = INKS[name]
    paint = f'fill="{colour}" stroke="none"' if filled else f'fill="none" stroke="{colour}" stroke-width="{width}"'
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path data-ink="{name}" {paint}{dashed} d="{path}"/>'


def svg(scene: Scene, frame, inks: tuple[str, ...], label: str) -> str:
    """The SVG of a scene with one frame drawn in; `inks` names the paths that any frame uses."""
    areas = [name for name in inks if INKS[name][3]]
    lines = [name for name in inks if not INKS[name][3]]
    paths = {name: drawn(ink, scene.boxes, name != "thin") for name, ink in frame.inks.items()}
    shown = lambda names: "".join(_ink(name, paths.get(name, "")) for name in names)  # noqa: E731
    font = f'font-family="system-ui,sans-serif" font-size="{number(scene.font)}"'
    size = f'viewBox="0 0 {number(scene.width)} {number(scene.height)}" width="{number(scene.width)}"'
    return (
        f'<svg {size} height="{number(scene.height)}" role="img" aria-label="{escape(label)}" {font} '
        f'dominant-baseline="central">'
        f'<path class="qt-rules" fill="none" stroke="{LIGHT["line"]}" d="{scene.rules}"/>'
        f"{shown(lines)}"  # behind the boxes: an arrow may pass under those between its ends
        f'<g data-part="boxes" fill="{EMPTY[0]}" stroke="{EMPTY[1]}">{"".join(map(_box, scene.boxes, frame.roles))}</g>'
        f'{shown(areas)}<g data-part="words" fill="{LIGHT["ink"]}" text-anchor="middle">'
        f"{''.join(map(_word, scene.boxes, frame.roles, frame.texts))}</g>"
        f'<g data-part="labels" fill="{LIGHT["soft"]}">{"".join(map(_label, scene.labels))}</g>'
        f'<g data-part="notes" fill="{LIGHT["ink"]}">{"".join(map(_label, frame.notes))}</g></svg>'
    )
