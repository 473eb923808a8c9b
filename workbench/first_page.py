"""The page that JupyterLab opens: every chapter and lab with its state, and what this machine can do.

It is Markdown, in the workbench, and written again whenever a notebook is saved.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from .copies import Copy

NAME = "start.md"
LOOKED_UP = ("setup", "glossary", "notation", "simulator", "what-ships", "trust")  # pages of book/
PAGE = """\
# Memory-bound GPU kernels in CuTe DSL

{machine} `quack-tutorial doctor`, in a terminal (File, New, Terminal), says more.

**{next}** (Each save writes this page anew, so keep no notes in it. *Reload … from Disk*, in the File menu, brings it up to date.)

{chapters}

{labs}

To look things up: {pages}.
{rest}
## Your copies and the book's

These notebooks are copies, and yours to change. An update of the book renews a copy only while its cells are as the book had
them: what you have changed stays, and **the book's text** stands beside it as `NAME.book.ipynb`. To start a notebook over, rename
or delete your copy and run `make lab` (or `quack-tutorial lab`) again. Git ignores this folder. A state is as of the last save.
"""


def write(home: Path, copies: list[Copy], machine: str) -> None:
    """Write the page into the workbench; `machine` says what works on this one, as Markdown."""
    text = page(copies, machine)
    file = home / NAME
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def page(copies: list[Copy], machine: str) -> str:
    """The page's Markdown."""
    here = [copy for copy in copies if not copy.gone]
    chapters = [copy for copy in here if copy.path.startswith("notebooks/")]
    labs = [copy for copy in here if copy.path.startswith("labs/")]
    named = {}
    for copy in (copy for copy in here if copy.path.startswith("book/")):
        named.setdefault(Path(copy.path).stem, copy)  # the notebook of a page with cells comes before its text
    gone = [copy for copy in copies if copy.gone]
    rest = "".join(f"- [{copy.path}]({copy.path}): {state(copy)}\n" for copy in gone)
    return PAGE.format(
        machine=machine,
        next=_next(chapters, labs),
        chapters=_table("chapter", chapters),
        labs=_table("lab", labs),
        pages=" · ".join(_link(named[name]) for name in LOOKED_UP if name in named),
        rest=f"\nThe book no longer has these under that name; you changed them, so they stay:\n\n{rest}"
        if rest
        else "",
    )


def state(copy: Copy) -> str:
    """How a copy stands to the book, in a few words."""
    day = time.strftime("%d %B %Y", time.localtime(copy.saved)).lstrip("0")
    if not copy.mine:
        return f"run on {day}" if copy.ran else "not started"
    told = f"yours, changed on {day}"
    if copy.newer:
        return f"{told}; the book's text is newer: [open it]({copy.beside})"
    return f"{told} · [the book's text]({copy.beside})" if copy.beside else told


def _next(chapters: list[Copy], labs: list[Copy]) -> str:
    """Where to begin, or to go on."""
    begun = [copy for copy in (*chapters, *labs) if copy.mine or copy.ran]
    if begun:
        return f"Go on with {_link(max(begun, key=lambda copy: copy.saved))}"
    return f"Begin with {_link(chapters[0])}" if chapters else ""


def _table(head: str, rows: list[Copy]) -> str:
    return "\n".join([f"| {head} | state |", "|:--|:--|", *(f"| {_link(copy)} | {state(copy)} |" for copy in rows)])


def _link(copy: Copy) -> str:
    title = re.sub(r"^Lab: (.)", lambda start: start[1].upper(), copy.title)
    return f"[{title.replace('|', '&#124;')}]({copy.path})"
