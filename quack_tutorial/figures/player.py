"""A step player: one picture that a reader steps through, as a single piece of HTML.

The HTML holds an SVG of the opening step, the steps as JSON and a little plain JavaScript. Without scripts the opening
step and its caption remain. That is the finished picture, a preview that stands before step 1: *Next* goes from it to step 1, and
no further than the last step, which says that it is the end.

Not covered: playing by itself, animation.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from itertools import count, product

from .scene import INKS, Label, Scene, drawn, number, svg
from .theme import ROLES, asset, style_sheet

_numbers = count(1)  # the same picture may be shown twice on one page


@dataclass(frozen=True)
class Frame:
    """One step. `roles` has a letter for each box (see `theme`), `texts` a text; `inks` are paths or links, `notes` more texts."""

    caption: str
    roles: str
    texts: tuple[str, ...]
    where: str = ""
    source: str = ""
    inks: dict[str, str] = field(default_factory=dict)
    notes: tuple[Label, ...] = ()


@dataclass(frozen=True)
class Player:
    """Frames over one scene.

    `key` explains what is drawn: pairs of a role or the name of an ink, and words. `origin` says what the picture is from.
    `start` is the frame shown at first, also where scripts do not run: left out, the last. `axes` maps a slider's name to its
    values' names, for frames in the order of `itertools.product`; None gives one slider of steps. The page hears the figure's event
    `qt-step` (detail: the frame's number).
    ValueError for frames that do not fit the scene or the axes.
    """

    title: str
    scene: Scene
    frames: tuple[Frame, ...]
    origin: str
    key: tuple[tuple[str, str], ...] = ()
    start: int = -1
    axes: dict[str, tuple[str, ...]] | None = None

    def __post_init__(self):
        if not self.frames:
            raise ValueError(f"{self.title}: a player needs at least one frame")
        object.__setattr__(self, "start", range(len(self.frames))[self.start])
        for i, frame in enumerate(self.frames):
            if not len(frame.roles) == len(frame.texts) == len(self.scene.boxes):
                raise ValueError(
                    f"{self.title}: frame {i} has {len(frame.roles)} roles and {len(frame.texts)} texts, "
                    f"the scene has {len(self.scene.boxes)} boxes"
                )
            unknown = (set(frame.roles) - {*ROLES, "h"}) | (set(frame.inks) - set(INKS))
            if unknown:
                raise ValueError(f"{self.title}: frame {i} uses {sorted(unknown)}, which theme and scene do not have")
        if self.axes and len(self.frames) != len(list(product(*self.axes.values()))):
            raise ValueError(f"{self.title}: {len(self.frames)} frames do not fill the grid of {dict(self.axes)}")

    def data(self) -> dict:
        """What the page's script gets."""
        frames = [
            {
                "c": frame.caption,
                "w": frame.where,
                "s": frame.source,
                "r": frame.roles,
                "t": frame.texts,
                "i": {name: drawn(ink, self.scene.boxes, name != "thin") for name, ink in frame.inks.items() if ink},
                "n": [[_short(n.x), _short(n.y), n.text, n.anchor, n.kind] for n in frame.notes],
            }
            for frame in self.frames
        ]
        axes = [len(names) for names in self.axes.values()] if self.axes else None
        names = list(self.axes.values()) if self.axes else None
        return {
            "frames": frames,
            "start": self.start,
            "preview": self.preview(),
            "axes": axes,
            "names": names,
        }

    def _repr_html_(self) -> str:
        frame = self.frames[self.start]
        inks = tuple(name for name in INKS if any(f.inks.get(name) for f in self.frames))
        picture = svg(self.scene, frame, inks, f"{self.title}. The text above describes the step that is shown.")
        return page(
            title=self.title,
            controls=self._controls(),
            caption=caption(frame, self.preview() if len(self.frames) > 1 and not self.axes else None),
            picture=picture,
            width=self.scene.width,
            key=key_html(self.key),
            origin=self.origin,
            script="player.js",
            data=self.data(),
            least=self.scene.width * 11 / self.scene.font,  # texts of 11 pixels
        )

    def preview(self) -> str:
        """What is said of the picture that stands before step 1; "" where the player opens with step 1."""
        if self.start == 0 or self.axes:
            return ""
        if self.start == len(self.frames) - 1:
            return f"The finished picture, after all {self.start + 1} steps."
        return f"The picture of step {self.start + 1} of {len(self.frames)}."

    def _controls(self) -> str:
        if self.axes:
            start = list(product(*(range(len(names)) for names in self.axes.values())))[self.start]
            return "".join(
                slider(name, len(names), at, names[at]) for (name, names), at in zip(self.axes.items(), start)
            )
        if len(self.frames) == 1:
            return ""
        buttons = '<button type="button" data-go="-1">Back</button><button type="button" data-go="1">Next</button>'
        many = len(self.frames)
        shown = f"all {many}" if 0 < self.start == many - 1 else f"{self.start + 1} of {many}"
        return buttons + slider("Step", many + 1, self.start + 1, shown, least=1)


def slider(name: str, values: int, at: int, shown: str, least: int = 0) -> str:
    """A labelled native slider over `least` … values - 1, and beside it what it stands at, which the caption tells who listens."""
    return (
        f'<span class="qt-slider"><label>{escape(name)} <input type="range" min="{least}" max="{values - 1}" '
        f'value="{at}" aria-valuetext="{escape(shown)}"></label><output aria-live="off">{escape(shown)}</output></span>'
    )


def caption(frame: Frame, stage: str | None = None) -> str:
    """A frame's source line and sentence; before them a place that says whether this is the preview or the end."""
    code = f"<b>{escape(frame.where)}</b> {escape(frame.source)}"
    said = "" if stage is None else f'<small class="qt-stage">{escape(stage)}</small>'
    return f'{said}<code class="qt-source">{code}</code><p>{escape(frame.caption)}</p>'


def key_html(key) -> str:
    """What the colours and lines of a figure mean."""
    items = []
    for name, words in key:
        if name in INKS:
            colour, width, dashes, filled = INKS[name]
            paint = f'fill="{colour}"' if filled else f'fill="none" stroke="{colour}" stroke-width="{width}"'
            shape = "M1 2h16v10h-16z" if filled else "M1 7h16"
            dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
            mark = f'<path data-ink="{name}" {paint}{dashed} d="{shape}"/>'
        else:
            fill, stroke = ROLES[name][:2]
            mark = f'<rect data-r="{name}" fill="{fill}" stroke="{stroke}" x="1" y="2" width="16" height="10" rx="2"/>'
        items.append(f'<li><svg width="18" height="14" aria-hidden="true">{mark}</svg> {escape(words)}</li>')
    return f'<ul class="qt-key" hidden="hidden">{"".join(items)}</ul>' if items else ""


def page(
    *, title, caption, picture, origin, controls="", width=840, least=280, key="", script="", data=None, attributes=""
) -> str:
    """The HTML of one figure. `script` names the file of a function of (id, data), in brackets, that brings it to life.

    The style sheet shows a drawing and its key, which are `hidden` without it: a notebook that is not trusted loses style sheet
    and drawing, and would show the numbers of the drawing in a row. `STRIPPED` then stands in their place.
    """
    is_drawn = "<svg" in picture
    first, dot, rest = origin.partition(". " if len(origin) > 400 else "\0")
    more = f".<details><summary>More on where this is from</summary>{escape(rest)}</details>" if dot else ""
    parts = (
        f'<div class="qt-title">{escape(title)}</div>'
        f'<div class="qt-controls" hidden="hidden">{controls}</div>'
        f'<div class="qt-caption" aria-live="polite">{caption}</div>'
        f'<div class="qt-picture" tabindex="0" role="group" aria-label="{escape(title)}: the picture"{attributes}>'
        f'<div{HIDDEN * is_drawn} style="min-width:{number(min(width, least))}px;max-width:{number(width)}px">{picture}</div>'
        f"{STRIPPED * is_drawn}</div>"
        f'{key}<div class="qt-origin">{escape(first)}{more}</div>'
    )
    return framed(title, as_json(data), parts, script, data)


def framed(title, told_by, parts, script, data, kind="", css="") -> str:
    """The parts of a figure in its frame, with the script that brings them to life; `told_by` tells it from others of its title."""
    identifier = f"qt-{sha256((title + told_by).encode()).hexdigest()[:8]}-{next(_numbers)}"
    return (
        f'<div class="qt-figure{kind}" id="{identifier}" role="group" aria-label="{escape(title)}">'
        f"<style>{style_sheet()}{css}</style>{keeps_its_keys(parts)}</div>"
        f"{called(script, identifier, data) if script else ''}"
    )


def still(title, caption, table, origin, data) -> str:
    """The HTML of a table or listing of a ladder, in which nothing moves; `data` tells it from others of its title."""
    table = f"<style>{asset('ladder.css')}</style>{table}"
    return page(title=title, caption=f"<p>{escape(caption)}</p>", picture=table, origin=origin, data=[title, data])


HIDDEN = ' hidden="hidden"'  # JupyterLab drops an attribute without a value
STRIPPED = (
    '<p class="qt-stripped">The drawing is left out, because this notebook is not trusted: choose Trust Notebook in the '
    "command palette (Ctrl-Shift-C).</p>"
)
FOCUSABLE = re.compile(r"<(a|button|input|select|summary|(?:div|ol)(?=[^>]* tabindex=))(?=[ >])")


def keeps_its_keys(html: str) -> str:
    """The HTML with a mark on all that can have the focus: without it, JupyterLab takes the keys pressed there for its own."""
    return FOCUSABLE.sub(r'<\1 data-lm-suppress-shortcuts="true"', html)


def called(script, identifier, data) -> str:
    """A script element that calls the function of (id, data) in a file; `data-draws` names it for pages that have it already."""
    name = script.removesuffix(".js")
    return f'<script data-draws="{name}">{function_in(script)}("{identifier}",{as_json(data)});</script>'


def _short(x: float) -> int | float:
    """A coordinate as JSON writes it shortest."""
    return int(x) if x == int(x) else round(x, 1)


def as_json(data) -> str:
    """JSON that cannot end the script element it stands in, whatever its texts hold."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


# An editor may run this outside the figure: find the figure by its id, each only once. Then show its controls, if it has any.
STARTS = """(function (id, data) {{
for (const root of document.querySelectorAll('[id="' + id + '"]:not([data-ready])')) {{
root.dataset.ready = "";
{}(root, data);
for (const part of root.querySelectorAll(".qt-controls")) part.hidden = !part.hasChildNodes();
}}
}})"""


def function_in(script: str) -> str:
    """A function of (id, data) that calls the one in a script's file, without its comments and indentation, with (root, data)."""
    body = "\n".join(line.strip() for line in asset(script).splitlines() if not re.match(r"\s*//", line))
    return STARTS.format(body.strip().removesuffix(";"))
