"""`linked`: a kernel's source, what a warp's lanes do, and the kernel's PTX and SASS, linked line by line.

The source and the trace are this machine's; PTX and SASS come from a record, see `records.listings`. A line of source is known by
its text. Lines that the compiler attributes to the kernel's head, or to none, lead nowhere. Of PTX and SASS the page shows the
instructions of the chosen line; a box brings all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from html import escape

from .code import methods
from .lane_view import lanes
from .player import Player, called
from .theme import asset


@dataclass(frozen=True)
class Pane:
    """A list of code; `lines` are (the source line that each is from, or "", text)."""

    title: str
    lines: tuple[tuple[str, str], ...]


def linked(trace, listing, kernel, block=0, warp=0) -> Player:
    """`lanes` of one warp with three panes below; `kernel` is the class that `listing` is of, and that the trace ran."""
    player = lanes(trace, block, warp, code=False)
    return replace(
        player,
        title=f"{listing.kernel}: source, lanes, PTX and SASS; warp {warp} of block {block}",
        below=html(panes(trace, listing, kernel), player),
        origin=f"{player.origin} PTX and SASS are recorded: {listing.origin}",
    )


def panes(trace, listing, kernel) -> tuple[Pane, ...]:
    """Source, PTX and SASS."""
    return (
        Pane("Source: choose a line", source_lines(trace, listing, kernel)),
        Pane("PTX", listed(listing, "ptx")),
        Pane("SASS", listed(listing, "sass")),
    )


def source_lines(trace, listing, kernel) -> tuple[tuple[str, str], ...]:
    """The kernel's lines, then those of other functions that a step or an instruction is from."""
    lines = [("@cute.kernel", "@cute.kernel"), *((line.strip(), line) for line in methods(kernel)["kernel"])]
    known = {key for key, _ in lines}
    others = {}
    for function, text in [*((line.function, line.text) for line in trace.lines), *listing.sources]:
        if text not in known and function != "__call__":
            others.setdefault(function.rpartition(".")[2], {})[text] = None
    for function, texts in others.items():
        lines += [("", f"in {function}:"), *((text, f"    {text}") for text in texts)]
    return tuple(lines)


def listed(listing, kind) -> tuple[tuple[str, str], ...]:
    """The lines of "ptx" or "sass" with the source line of each."""
    keys = ["" if function == "__call__" else text for function, text in listing.sources]
    places, texts = getattr(listing, f"{kind}_from"), getattr(listing, kind)
    return tuple((keys[place] if place >= 0 else "", text) for place, text in zip(places, texts))


def html(panes, player) -> str:
    """The panes with the player's opening frame marked, and the script that links them to its frames."""
    keys = list(dict.fromkeys(key for pane in panes for key, _ in pane.lines if key))
    frames = [keys.index(frame.source) if frame.source in keys else -1 for frame in player.frames]
    opening, stepped = keys[frames[player.start]], {keys[n] for n in frames if n >= 0}

    def row(key, text, first):
        if not key:
            return f"<li><code>{escape(text)}</code></li>"
        marks = (' aria-current="true"' if key == opening else "") + (" data-steps" if key in stepped else "")
        return (
            f'<li><button type="button" tabindex="{0 if first else -1}" data-key="{keys.index(key)}"{marks}>'
            f"<code>{escape(text)}</code></button></li>"
        )

    lists = []
    for pane in panes:
        first = next((i for i, (key, _) in enumerate(pane.lines) if key), None)
        rows = "".join(row(key, text, i == first) for i, (key, text) in enumerate(pane.lines))
        every = (
            f'<label hidden><input type="checkbox"> all {len(pane.lines)} lines</label>' if pane is not panes[0] else ""
        )
        lists.append(
            f'<div class="qt-pane" role="group" aria-label="{escape(pane.title)}"><div>{escape(pane.title)} {every}</div>'
            f"<ol>{rows}</ol></div>"
        )
    body = "".join(lists)
    identifier = f"qt-{sha256(body.encode()).hexdigest()[:8]}"
    call = called("linked.js", identifier, {"keys": keys, "frames": frames})
    return f'<style>{asset("linked.css")}</style><div class="qt-panes" id="{identifier}">{body}</div>{call}'
