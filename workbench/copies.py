"""The reader's copies of the book's notebooks and pages, in a folder that git ignores: the workbench.

| in the workbench               | what it is                                                                       |
|--------------------------------|----------------------------------------------------------------------------------|
| `notebooks/`, `labs/`, `book/` | the copies, in the same places as in the book, so that its links hold            |
| `NAME.book.ipynb`              | the book's text, beside a copy that the reader has changed                       |
| `.book/`                       | the book's text of every copy; `copied.json` says from which text each was made  |

A copy is the reader's as soon as the source of its cells differs from the text that it was made from. Outputs, metadata and empty
cells do not count. `renew` replaces the copies that the reader has not changed, and leaves the others as they are, also where the
book no longer has the chapter. Not covered: merging a reader's changes with the book's.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from pathlib import Path

KEPT = ".book"
RECORD = "copied.json"
BESIDE = ".book"  # in the name of the book's text beside a changed copy


def renew(home: Path, book: dict[str, bytes]) -> list[str]:
    """Bring the workbench up to date with `book`, {path in the workbench: content}, without touching what the reader changed.

    Beside what was changed stands the book's text. Returns the paths that the book no longer has and whose copies are the reader's.
    """
    made = _made(home)
    kept = home / KEPT
    for path, content in book.items():
        _write(kept / path, content)
        new = {"cells": _cells(path, content), "bytes": _digest(content)}
        mine = _cells_of(home / path)
        if mine is None or (mine == made.get(path, {}).get("cells") and made[path] != new):
            _write(home / path, content)
            made[path] = new
        elif mine == new["cells"]:
            made[path] = new
    changed = [path for path in book if _is_mine(home, path, made)]
    wanted = {_put_beside(home, path, made) for path in changed} | set(book)
    gone = [path for path in made if path not in wanted and _is_mine(home, path, made)]
    for path in [path for path in made if path not in wanted and path not in gone]:
        (home / path).unlink(missing_ok=True)
        del made[path]
    for file in kept.rglob("*"):
        if file.is_file() and file.name != RECORD and file.relative_to(kept).as_posix() not in book:
            file.unlink()
    _write(kept / RECORD, json.dumps({"made": made}, indent=1).encode())
    return gone


def _made(home: Path) -> dict:
    """What `renew` noted: the digests of the text that each copy was made from."""
    try:
        return dict(json.loads((home / KEPT / RECORD).read_text(encoding="utf-8"))["made"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # every copy that differs from the book counts as the reader's


def _is_mine(home: Path, path: str, made: dict) -> bool:
    cells = _cells_of(home / path)
    return cells is not None and cells != made.get(path, {}).get("cells")


def _put_beside(home: Path, path: str, made: dict) -> str:
    """Write the book's text beside a copy and return its path: the first free name, or one that the reader left as it was."""
    content = (home / KEPT / path).read_bytes()
    new = {"cells": _cells(path, content), "bytes": _digest(content)}
    stem, suffix = os.path.splitext(path)
    for number in itertools.count(1):
        beside = f"{stem}{BESIDE}{'' if number == 1 else f'-{number}'}{suffix}"
        cells = _cells_of(home / beside)
        if cells == new["cells"] or cells is None or not _is_mine(home, beside, made):
            if cells is None or (cells != new["cells"]):
                _write(home / beside, content)
            made[beside] = new
            return beside


def _cells_of(file: Path) -> str | None:
    """The digest of a file's cells, None where there is no file."""
    return _cells(file.name, file.read_bytes()) if file.exists() else None


def _cells(path: str, content: bytes) -> str:
    """A digest of what a reader changes: the sources of a notebook's cells that are not empty; all of any other file."""
    cells = _notebook(content) if path.endswith(".ipynb") else None
    if cells is None:
        return _digest(content)
    sources = [(cell.get("cell_type"), _source(cell)) for cell in cells]
    return _digest(json.dumps([pair for pair in sources if pair[1]]).encode())


def _notebook(content: bytes) -> list | None:
    """The cells of a notebook; None for what is none."""
    try:
        cells = json.loads(content)["cells"]
        return cells if all(isinstance(cell, dict) for cell in cells) else None
    except (ValueError, KeyError, TypeError):
        return None


def _source(cell: dict) -> str:
    return "".join(cell.get("source", "")).strip()


def title(path: str, content: bytes) -> str:
    cells = _notebook(content)
    text = content.decode("utf-8", "replace") if cells is None else "\n".join(map(_source, cells))
    return next((line[2:].strip() for line in text.splitlines() if line.startswith("# ")), Path(path).stem)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(file: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists() and file.read_bytes() == content:
        return
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(file)
