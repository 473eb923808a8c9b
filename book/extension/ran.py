"""Names at the end of a build the cells that raised, or wrote to stderr, with what they said; their pages show it, too.

A dependency may do so on a Python that nobody tried, and the reader has a book all the same. `make book STRICT=1` takes it, as any
warning, for an error. Not covered: a cell that never ends, of which MyST-NB warns by itself.
"""

import platform
import textwrap
from pathlib import Path

import nbformat
from sphinx.util import logging

logger = logging.getLogger(__name__)

AVOIDED = """The site is built, and its pages show this where it happened. If no edit of yours is the cause, Python 3.12 avoids it,
with which the book is tested: make clean, then make book PYTHON=python3.12. This is Python {}."""


def said(notebook):
    """A sentence for each cell of a notebook that wrote to stderr, or that raised and is not meant to."""
    for cell, output in [(one, output) for one in notebook.cells for output in one.get("outputs", ())]:
        if output.get("name") == "stderr":
            yield textwrap.shorten(f"cell {cell.execution_count} wrote to stderr: {output.text}", 300)
        elif output.output_type == "error" and "raises-exception" not in cell.metadata.get("tags", ()):
            yield textwrap.shorten(f"cell {cell.execution_count} raised {output.ename}: {output.evalue}", 300)


def name_cells(app, error):
    found = []
    for name in () if error else sorted(app.env.found_docs):
        file = Path(app.env.mystnb_config.output_folder, f"{name}.ipynb")
        found += [f"{name}, {one}" for one in said(nbformat.read(file, as_version=4))] if file.exists() else []
    if found:
        logger.warning("\n".join([*found, AVOIDED.format(platform.python_version())]))


def setup(app):
    app.connect("build-finished", name_cells, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
