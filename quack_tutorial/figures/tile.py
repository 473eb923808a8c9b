"""`tv_layout`: which thread holds which element of a tile, as which of its values; to be asked both ways."""

from __future__ import annotations

from html import escape

import numpy as np

from .player import Frame, key_html, page, slider
from .scene import Box, Label, Scene, svg

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
        """The tile."""
        (rows, columns), pitch = self.thread_of.shape, self.pitch
        height, each_column, each_row = (HEIGHT, 1, 1) if self.texts_shown else (NARROW, 8, 4)
        boxes, labels = [], []
        for r, c in np.ndindex(rows, columns):
            x, y = LEFT + c * pitch, TOP + r * height
            boxes.append(Box(x + 1, y + 1, pitch - 2, height - 2))
            if r == 0 and c % each_column == 0:
                labels.append(Label(x + pitch / 2, y - 9, str(c), "middle", "small"))
            if c == 0 and r % each_row == 0:
                labels.append(Label(x - 6, y + height / 2, str(r), "end", "small"))
            if self.texts_shown and self.thread_of[r, c] >= 0:
                t, v = ("T", "V") if pitch == ROOMY else ("", "")
                labels.append(Label(x + pitch / 2, y + 10, f"{t}{self.thread_of[r, c]}", "middle", "cell"))
                labels.append(Label(x + pitch / 2, y + 22, f"{v}{self.value_of[r, c]}", "middle", "tiny"))
        size = LEFT + columns * pitch + 2, TOP + rows * height + 4
        return Scene(*size, tuple(boxes), tuple(labels))

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

    def words(self) -> list[str]:
        """The tile for who does not see it: a line a thread, its elements in the order of its values."""
        lines = {}
        for (thread, value), (row, column) in sorted(self.holder.items())[:MOST_IN_TABLE]:
            lines.setdefault(thread, []).append(f"value {value} (row {row}, column {column})")
        shown = [f"thread {thread}: {', '.join(held)}" for thread, held in lines.items()]
        return shown + [f"and so on, to thread {self.threads - 1}"] * (len(self.holder) > MOST_IN_TABLE)

    def __repr__(self) -> str:
        return "\n".join([self.title, *self.words()])

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
        says = f"{self.title}. {'; '.join(self.words())}."
        width, least = scene.width, scene.width
        picture = f'<div data-side="tile" style="width:{width}px">{svg(scene, frame, (), says)}</div>'
        if self.table_shown:
            other, held = self.table()
            below = svg(other, held, (), "The same by thread and value: the row and column of each one's element.")
            picture += f'<div data-side="table" style="width:{other.width}px">{below}</div>'
            width, least = width + other.width + 24, max(least, other.width)
        return page(
            title=self.title,
            controls=controls,
            caption=f"<p>{escape(frame.caption)}</p>",
            picture=f'<div class="qt-pair">{picture}</div>',
            width=width,
            least=least,
            key=key_html(self.key()),
            origin=self.origin,
            script="tile.js",
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
