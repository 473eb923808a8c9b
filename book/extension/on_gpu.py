"""Puts what a chapter's cells gave on a GPU (`outputs` of a card's records) into the page, folded below the simulated outputs.

Under the chapter's title a fold says where and when it ran, and counts the cells. One that changed since then has nothing to
open, nor has one that gave the same words, nor one with a box for each card (`cards.py`), which has what is recorded now. Without a
record a page stays as it is.

Not covered: builders other than HTML.
"""

from datetime import date
from html import escape
from pathlib import Path

from docutils import nodes
from folds import Fold, html, part
from sphinx.transforms.post_transforms import SphinxPostTransform

from workbench import outputs

RAN = """<details class="qt-fold qt-ran"><summary>As run on {gpu}, {day}</summary>
<p>{told}</p><p>{origin}; {seconds:.0f} seconds.</p>{failed}</details>"""


class ShowOnGpu(SphinxPostTransform):
    default_priority = 189  # before folds.py moves outputs: what stands in one is folded with it
    formats = ("html",)

    def run(self, **kwargs):
        record = outputs.load(Path(self.env.docname).name) if self.env.docname.startswith("notebooks/") else None
        if record is None:
            return
        recorded = {cell.key: cell.outputs for cell in record.cells}
        cells = [cell for cell in self.document.findall(nodes.container) if part(cell, "source") is not None]
        keys = outputs.keys(part(cell, "source").astext() for cell in cells)
        device = record.device.removeprefix("NVIDIA ").split()[0]
        gpu = f"an {device}" if device[0] in "AH" else f"a {device}"
        given = [(cell, recorded[key]) for key, cell in zip(keys, cells) if key in recorded]
        other = [(cell, found) for cell, found in given if found and not has_boxes(cell)]
        for cell, found in other:
            show(cell, found, f"As run on {gpu}")
        same = sum(not found for _, found in given)
        self.document.next_node(nodes.title).parent.insert(1, html(ran(record, gpu, len(given), same, len(other))))


def has_boxes(cell):
    """Whether cards.py has given a cell a box for each card."""
    output = part(cell, "output")
    return output is not None and any("qt-card" in child.get("classes", ()) for child in output.children)


def show(cell, found, label):
    """Append the recorded outputs to those of a cell."""
    here = part(cell, "output")
    if here is None:
        here = nodes.container(nb_element="cell_code_output", classes=["cell_output"])
        cell += here
    fold = Fold(label=label, classes=["qt-on-gpu"])
    fold += [drawn(*one) for output in found for one in output.items()]
    here += fold


def drawn(kind, data):
    if kind == "text/html":
        return nodes.container("", html(data), classes=["output", "text_html"])
    if kind == "image/svg+xml":
        return html(data)
    if kind == "image/png":
        return html(f'<img alt="What the cell above drew on the GPU" src="data:image/png;base64,{data.strip()}">')
    look = {"text": "stream", "error": "traceback"}.get(kind, "text_plain")
    return nodes.literal_block(data, data, language="myst-ansi", classes=["output", look])


def ran(record, gpu, given, same, other):
    """What stands below the title, of so many cells that ran, `same` with what stands here, `other` with something to open."""
    told = [(same, "gave there what stands here.")]
    told += [(other, f"gave something else, which <b>As run on {gpu}</b> opens below them.")]
    told += [(given - same - other, "read a card's records, and what is recorded now stands here for each card.")]
    told += [(len(record.cells) - given, "changed since then, and what they gave is left out.")]
    day = date.fromisoformat(record.date)
    return RAN.format(
        gpu=escape(gpu),
        day=f"{day.day} {day:%B %Y}",
        told=" ".join(f"{number} cell{'s' * (number > 1)} {what}" for number, what in told if number),
        origin=escape(record.origin),
        seconds=record.seconds,
        failed="".join(f"<p>{escape(error)}.</p>" for error in record.errors),
    )


def setup(app):
    app.add_post_transform(ShowOnGpu)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
