"""Keeps what other tools say as it came, in the folder that the environment variable `QUACK_VALIDATE_RAW` names, if any."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_lock = threading.Lock()


def keep(name: str, text: str) -> None:
    """Write `text` as FOLDER/NAME; nothing where no folder is named."""
    _write(name, text, "w")


def add(name: str, text: str) -> None:
    """The same at the end of the file; from several threads at once, too."""
    _write(name, text, "a")


def lines(name: str) -> list[str]:
    """What was added before, line by line; none where no folder is named."""
    path = Path(os.environ.get("QUACK_VALIDATE_RAW", ""), name)
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def _write(name, text, mode):
    folder = os.environ.get("QUACK_VALIDATE_RAW")
    if not folder:
        return
    with _lock:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with open(Path(folder, name), mode, encoding="utf-8") as file:
            file.write(text)
