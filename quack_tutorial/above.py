"""What the rooms above this package bring to it, as entry points: commands, and notebooks to copy (`pyproject.toml` lists them)."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

CHECKOUT = Path(__file__).parents[1] / "pyproject.toml"


def brought(kind: str) -> list:
    """What is named under quack_tutorial.KIND, in the order of the names; of a checkout that is not installed, too."""
    group = f"quack_tutorial.{kind}"
    found = list(entry_points(group=group))
    if not found and CHECKOUT.exists():
        listed = tomllib.loads(CHECKOUT.read_text(encoding="utf-8"))["project"]["entry-points"][group]
        found = [EntryPoint(name, value, group) for name, value in listed.items()]
    return [entry.load() for entry in sorted(found, key=lambda entry: entry.name)]
