"""The page that JupyterLab opens: every chapter and lab, and what this machine can do; Markdown, in the workbench."""

from __future__ import annotations

import re
from pathlib import Path

from .copies import title

NAME = "start.md"
LOOKED_UP = ("setup", "glossary", "notation", "simulator", "what-ships", "trust")  # pages of book/
PAGE = """\
# Memory-bound GPU kernels in CuTe DSL

{machine} `quack-tutorial doctor`, in a terminal (File, New, Terminal), says more.

Chapters:

{chapters}

Labs:

{labs}

To look things up: {pages}.
{rest}
## Your copies and the book's

These notebooks are copies, and yours to change. An update of the book renews a copy only while its cells are as the book had
them: what you have changed stays, and **the book's text** stands beside it as `NAME.book.ipynb`. To start a notebook over, rename
or delete your copy and run `make lab` (or `quack-tutorial lab`) again. Git ignores this folder, and keep no notes in this page.
"""


def page(book: dict[str, bytes], gone: list[str], machine: str) -> str:
    """The page's Markdown: `book` is {path in the workbench: content}, `gone` what the book no longer has and the reader changed,
    `machine` what works on this one."""
    links = {path: _link(path, content) for path, content in book.items()}
    pages = {Path(path).stem: link for path, link in reversed(links.items()) if path.startswith("book/")}
    rest = "".join(f"- [{path}]({path})\n" for path in gone)
    return PAGE.format(
        machine=machine,
        chapters=_list(links, "notebooks/"),
        labs=_list(links, "labs/"),
        pages=" · ".join(pages[name] for name in LOOKED_UP if name in pages),
        rest=f"\nThe book no longer has these under that name; you changed them, so they stay:\n\n{rest}" * bool(gone),
    )


def _list(links: dict[str, str], folder: str) -> str:
    return "\n".join(f"- {link}" for path, link in links.items() if path.startswith(folder))


def _link(path: str, content: bytes) -> str:
    words = re.sub(r"^Lab: (.)", lambda start: start[1].upper(), title(path, content))
    return f"[{words}]({path})"
