"""`tv_layout`: which thread holds which element of a tile, as which of its values; to be asked both ways."""

from __future__ import annotations

from html import escape

import numpy as np

from .player import Frame, key_html, page, slider
from .scene import Box, Label, Scene, svg
from .theme import asset

MOST_CELLS = 2048
TINTS = 8
WIDE, NARROW, HEIGHT = 22, 15, 28  # boxes with thread and value in them, and without
LEFT, TOP = 28, 26


class TileFigure:
    """A tile of elements coloured by thread; `_repr_html_` shows it with sliders for (thread, value)."""

    def __init__(self, thread_of, value_of, title, origin):
        self.thread_of, self.value_of = thread_of, value_of
        self.title, self.origin = title, origin
        rows, columns = thread_of.shape
        self.texts_shown = columns <= 32
        self.pitch = WIDE if self.texts_shown else NARROW
        self.holder = {}
        for r in range(rows):
            for c in range(columns):
                if thread_of[r, c] >= 0:
                    self.holder.setdefault((int(thread_of[r, c]), int(value_of[r, c])), (r, c))
        if not self.holder:
            raise ValueError("no element of the tile belongs to a thread")

    def data(self) -> dict:
        """What the page's script gets."""
        return {
            "columns": self.thread_of.shape[1],
            "threads": int(self.thread_of.max()) + 1,
            "values": int(self.value_of.max()) + 1,
            "thread": self.thread_of.ravel().tolist(),
            "value": self.value_of.ravel().tolist(),
        }

    def scene(self) -> Scene:
        rows, columns = self.thread_of.shape
        height = HEIGHT if self.texts_shown else NARROW
        boxes = tuple(
            Box(LEFT + c * self.pitch + 1, TOP + r * height + 1, self.pitch - 2, height - 2)
            for r in range(rows)
            for c in range(columns)
        )
        every = 1 if self.texts_shown else 8
        labels = [
            Label(LEFT + c * self.pitch + self.pitch / 2, TOP - 9, str(c), "middle", "small")
            for c in range(0, columns, every)
        ]
        every = 1 if height == HEIGHT else 4
        labels += [
            Label(LEFT - 6, TOP + r * height + height / 2, str(r), "end", "small") for r in range(0, rows, every)
        ]
        labels.append(Label(LEFT - 6, TOP - 9, "col", "end", "small"))
        labels += self._cells() if self.texts_shown else []
        return Scene(LEFT + columns * self.pitch + 2, TOP + rows * height + 4, boxes, tuple(labels))

    def _cells(self) -> list[Label]:
        """The thread of each element and, smaller below it, which of its values."""
        labels = []
        for (r, c), thread in np.ndenumerate(self.thread_of):
            if thread >= 0:
                x, y = LEFT + c * WIDE + WIDE / 2, TOP + r * HEIGHT
                labels.append(Label(x, y + 10, str(thread), "middle", "cell"))
                labels.append(Label(x, y + 20, str(self.value_of[r, c]), "middle", "tiny"))
        return labels

    def frame(self) -> Frame:
        """The static picture: every element, in its thread's tint."""
        thread = self.thread_of.ravel()
        # Shifted every 8 threads, so that rows of 8, 16 or 32 threads differ from the next row too.
        roles = "".join("i" if t < 0 else str((t + t // TINTS * 3) % TINTS) for t in thread)
        t, v = min(self.holder)
        row, column = self.holder[t, v]
        return Frame(sentence(t, v, row, column), roles, ("",) * thread.size)

    def key(self):
        """What is in the boxes."""
        return (("0", "above the thread, below which of its values; a tint is a thread's"),) if self.texts_shown else ()

    def _repr_html_(self) -> str:
        data, frame, scene = self.data(), self.frame(), self.scene()
        thread, value = min(self.holder)
        controls = slider("Thread", data["threads"], thread, str(thread)) + slider(
            "Value", data["values"], value, str(value)
        )
        return page(
            title=self.title,
            controls=controls,
            caption=f"<p>{escape(frame.caption)}</p>",
            picture=svg(
                scene, frame, (), f"{self.title}. Rows and columns of the tile, each element with its thread and value."
            ),
            width=scene.width,
            key=key_html(self.key()),
            origin=self.origin,
            script=asset("tile.js"),
            data=data,
            attributes=' data-part="tile"',
        )


def tv_layout(thread_of, value_of, title="Who holds what: thread and value of each element", origin="") -> TileFigure:
    """A tile whose element (row, column) is value `value_of[row, column]` of thread `thread_of[row, column]`.

    Both are integer arrays of one shape (rows, columns); thread -1 marks an element that nobody holds. `origin` says what the
    arrays are from. ValueError for other shapes, and for more than 2048 elements.
    """
    thread_of, value_of = np.asarray(thread_of), np.asarray(value_of)
    if thread_of.ndim != 2 or thread_of.shape != value_of.shape:
        raise ValueError(
            f"thread_of and value_of must have one shape (rows, columns), got {thread_of.shape} and {value_of.shape}"
        )
    if thread_of.size > MOST_CELLS:
        raise ValueError(f"a tile of {thread_of.size} elements is too much to look at: pass at most {MOST_CELLS}")
    return TileFigure(thread_of, value_of, title, origin or "Computed from the layout, not from a run.")


def sentence(thread: int, value: int, row: int, column: int) -> str:
    """A place of the tile in words, as the script says it too."""
    return f"(thread {thread}, value {value}) → (row {row}, column {column})"
