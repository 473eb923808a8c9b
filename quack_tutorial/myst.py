"""From a notebook's MyST source to its cells.

`cells` gives the source's own, one for one: what the published page runs, by their numbers.

Each cell has an id that depends only on the notebook's name and the cell's place in the source, so that the same source gives the
same bytes, and a cell is found again in whatever is made of it. jupytext reads the source; without it there is an ImportError.
"""

from __future__ import annotations

import hashlib
import json


def cell_id(name: str, place: int | str) -> str:
    """An id for a cell: 12 hexadecimal digits from the notebook's name and the cell's place in it."""
    return hashlib.sha256(f"{name}/{place}".encode()).hexdigest()[:12]


def cells(text: str, name: str):
    """The notebook `name` as its source has it, without outputs and without jupytext's metadata."""
    import jupytext

    notebook = jupytext.reads(text, fmt="md:myst")
    notebook.metadata.pop("jupytext", None)
    for place, cell in enumerate(notebook.cells):
        cell["id"] = cell_id(name, place)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def dumps(notebook) -> str:
    """A notebook as the text of its file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
