"""What the chapters' cells gave on a GPU, to be opened beside what the simulator gives; `scripts/record_outputs.py` makes it."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from html import unescape

from quack_tutorial import records

UNSEEN = re.compile(r"<(style|script|title)\b.*?</\1>|<!--.*?-->|<[^>]*>", re.DOTALL)


@dataclass(frozen=True)
class Cell:
    """The outputs of one cell, each {"text": ...}, {"error": ...} or {MIME type: data}; none where the simulator gave the same."""

    key: str
    outputs: tuple[dict, ...]


class Outputs(records.Record):
    """One chapter as it ran on a GPU; `errors` has a sentence for each cell that failed there."""

    @classmethod
    def row(cls, kept):
        return Cell(kept["key"], tuple(kept["outputs"]))

    @property
    def origin(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{self.device}, driver {self.driver}, {versions}, {self.date}"


def keys(sources) -> list[str]:
    """For each code cell of a chapter, by what it is found again wherever it moves: its source, and which of its equals it is."""
    found, seen = [], Counter()
    for source in map(str.strip, sources):
        seen[source] += 1
        found.append(hashlib.sha256(f"{seen[source]} {source}".encode()).hexdigest()[:16])
    return found


def words(outputs) -> list[str]:
    """What can be read in outputs, however it is drawn; a picture without words counts by its bytes."""
    found = []
    for output in outputs:
        ((kind, data),) = output.items()
        text = " ".join(unescape(UNSEEN.sub(" ", data)).split()) if kind in ("text/html", "image/svg+xml") else data
        found.append(text or data)
    return found


def load(chapter: str, card: str | None = None) -> Outputs | None:
    """The record of a chapter on a card, by default on the first that ran it; None where there is none."""
    ran = (records.folder(name) / "outputs" / f"{chapter}.json" for name in ([card] if card else records.cards()))
    path = next((path for path in ran if path.exists()), None)
    return path and Outputs.load(path)


def names_another(output: dict, device: str) -> bool:
    """Whether an output of a run on `device` names another card: then it shows that card's records."""
    ((_, data),) = output.items()
    return any(name not in device for name in re.findall(r"NVIDIA ([A-Z]+\d+)", data))


def unfitting(record: Outputs, sources) -> list[str]:
    """The keys of a record that fit none of a chapter's code cells, given by their sources."""
    here = keys(sources)
    return [cell.key for cell in record.cells if cell.key not in here]
