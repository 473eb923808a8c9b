"""`tv_layout`: which thread holds which element of a tile, as which of its values; to be asked both ways."""

from __future__ import annotations

from html import escape

import numpy as np

from .player import Frame, key_html, page, slider
from .scene import Box, Label, Scene, svg
from .theme import asset

MOST_CELLS = 2048
MOST_IN_TABLE = 160
TINTS = 8
ROOMY, WIDE, NARROW, HEIGHT = 36, 22, 15, 32  # boxes with thread and value in them, and without
LEFT, TOP = 32, 26
ENTRY, ROW = 46, 24  # a box of the table


class TileFigure:
    """A tile of elements coloured by thread; `_repr_html_` shows it with sliders for (thread, value)."""

    def __init__(self, thread_of, value_of, title, origin):
        self.thread_of, self.value_of = thread_of, value_of
        self.title, self.origin = title, origin
        rows, columns = thread_of.shape
        self.texts_shown = columns <= 32
        self.pitch = ROOMY if columns <= 16 else WIDE if self.texts_shown else NARROW
        self.holder = {}
        for r in range(rows):
            for c in range(columns):
                if thread_of[r, c] >= 0:
                    self.holder.setdefault((int(thread_of[r, c]), int(value_of[r, c])), (r, c))
        if not self.holder:
            raise ValueError("no element of the tile belongs to a thread")
        self.threads, self.values = int(thread_of.max()) + 1, int(value_of.max()) + 1
        self.table_shown = columns <= 16 and self.values <= 8 and self.threads * self.values <= MOST_IN_TABLE

    def data(self) -> dict:
        """What the page's script gets."""
        return {
            "columns": self.thread_of.shape[1],
            "threads": self.threads,
            "values": self.values,
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
        labels += self._cells() if self.texts_shown else []
        return Scene(LEFT + columns * self.pitch + 2, TOP + rows * height + 4, boxes, tuple(labels))

    def _cells(self) -> list[Label]:
        """The thread of each element and, below it, which of its values."""
        labels, (t, v) = [], ("T", "V") if self.pitch == ROOMY else ("", "")
        for (r, c), thread in np.ndenumerate(self.thread_of):
            if thread >= 0:
                x, y = LEFT + c * self.pitch + self.pitch / 2, TOP + r * HEIGHT
                labels.append(Label(x, y + 10, f"{t}{thread}", "middle", "cell"))
                labels.append(Label(x, y + 22, f"{v}{self.value_of[r, c]}", "middle", "tiny"))
        return labels

    def table(self) -> tuple[Scene, Frame]:
        """The same the other way round: a row a thread, a column a value, in each box its element."""
        boxes, labels, roles = [], [], ""
        labels += [Label(LEFT + v * ENTRY + ENTRY / 2, TOP - 9, f"V{v}", "middle", "small") for v in range(self.values)]
        for t in range(self.threads):
            y = TOP + t * ROW
            labels.append(Label(LEFT - 6, y + ROW / 2, f"T{t}", "end", "small"))
            for v in range(self.values):
                x = LEFT + v * ENTRY
                boxes.append(Box(x + 1, y + 1, ENTRY - 2, ROW - 2))
                roles += tint(t) if (t, v) in self.holder else "i"
                if (t, v) in self.holder:
                    row, column = self.holder[t, v]
                    labels.append(Label(x + ENTRY / 2, y + ROW / 2, f"{row}, {column}", "middle", "cell"))
        size = LEFT + self.values * ENTRY + 2, TOP + self.threads * ROW + 4
        return Scene(*size, tuple(boxes), tuple(labels)), Frame("", roles, ("",) * len(boxes))

    def frame(self) -> Frame:
        """The static picture: every element, in its thread's tint."""
        thread = self.thread_of.ravel()
        roles = "".join("i" if t < 0 else tint(int(t)) for t in thread)
        t, v = min(self.holder)
        row, column = self.holder[t, v]
        return Frame(sentence(t, v, row, column), roles, ("",) * thread.size)

    def key(self):
        """What is in the boxes."""
        if self.table_shown:
            return (("0", "T thread, V which of its values; in the table row and column of the element"),)
        return (("0", "above the thread, below which of its values; a tint is a thread's"),) if self.texts_shown else ()

    def _repr_html_(self) -> str:
        data, frame, scene = self.data(), self.frame(), self.scene()
        thread, value = min(self.holder)
        controls = slider("Thread", data["threads"], thread, str(thread)) + slider(
            "Value", data["values"], value, str(value)
        )
        picture = svg(
            scene, frame, (), f"{self.title}. Rows and columns of the tile, each element with its thread and value."
        )
        width = scene.width
        if self.table_shown:
            other, held = self.table()
            below = svg(other, held, (), "The same by thread and value: the row and column of each one's element.")
            picture = (
                f'<div class="qt-pair"><div style="width:{scene.width}px">{picture}</div>'
                f'<div style="width:{other.width}px">{below}</div></div>'
            )
            width += other.width + 24
        return page(
            title=self.title,
            controls=controls,
            caption=f"<p>{escape(frame.caption)}</p>",
            picture=picture,
            width=width,
            least=min(scene.width, 640),
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


def tint(thread: int) -> str:
    """A thread's tint, shifted every 8 threads, so that rows of 8, 16 or 32 threads differ from the next row too."""
    return str((thread + thread // TINTS * 3) % TINTS)


def sentence(thread: int, value: int, row: int, column: int) -> str:
    """A place of the tile in words, as the script says it too."""
    return f"(thread {thread}, value {value}) → (row {row}, column {column})"
