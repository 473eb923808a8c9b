"""Submissions whose diagnosis is known, and disguises of them: what is said must be about the mistake, not the file.

A lab's folder holds submissions/ and in it expected.json: for each file either what makes it right, or the kind of its first
diagnosis and words that the sentence must hold.
"""

from __future__ import annotations

import ast
import builtins
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .grade import grade
from .judgement import Report


@dataclass(frozen=True)
class Trial:
    """A submission as it was tried, and whether it got what it should."""

    file: str
    disguise: str
    wanted: str
    got: str
    ok: bool


def disguises(text: str, target: str) -> dict:
    """The submission under other names, in another format, and as it is with another seed: name -> (text, seed)."""
    return {"as it is": (text, 0), "renamed": (renamed(text, target), 0), "reformatted, seed 1": (reformatted(text), 1)}


def trials(folder: Path, lab: str, target: str, only=None) -> Iterator[Trial]:
    """Grade each submission in each disguise; `only` names the disguises to try."""
    expected = json.loads((folder / "submissions/expected.json").read_text(encoding="utf-8"))
    for file, wanted in expected.items():
        text = (folder / "submissions" / file).read_text(encoding="utf-8")
        for disguise, (source, seed) in disguises(text, target).items():
            if only is None or disguise in only:
                yield judged(grade(lab, "answer.py", source, seed), file, disguise, wanted)


def judged(report: Report, file: str, disguise: str, wanted: dict) -> Trial:
    """Whether a report says what is expected."""
    if "right" in wanted:
        got = report.diagnoses[0].message if report.diagnoses else "full marks"
        return Trial(file, disguise, "full marks", got, report.full)
    first = report.diagnoses[0] if report.diagnoses else None
    ok = first is not None and first.kind == wanted["kind"] and wanted["says"] in first.message
    got = "full marks" if first is None else first.kind if ok else f"{first.kind}: {first.message}"
    return Trial(file, disguise, wanted["kind"], got, ok)


def reformatted(text: str) -> str:
    """The same program: no comments, other line numbers, indented by two."""
    lines = ast.unparse(ast.parse(text)).splitlines()
    narrow = [" " * ((len(line) - len(line.lstrip())) // 2) + line.lstrip() for line in lines]
    return "# Reformatted.\n\n\n" + "\n\n".join(narrow) + "\n"


def renamed(text: str, target: str) -> str:
    """The same program with every name of its own replaced, but the class that the lab asks for."""
    tree = ast.parse(text)
    own = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found = [node.name]
        else:
            found = [node.arg] if isinstance(node, ast.arg) else []
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            found = [node.id if isinstance(node, ast.Name) else node.attr]
        own.update({name: f"renamed_{len(own)}" for name in found if name not in own})
    for kept in [target, "self", *dir(builtins), *[name for name in own if name.startswith("__")]]:
        own.pop(kept, None)
    outside = {a.asname or a.name.partition(".")[0] for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))
               for a in n.names}  # fmt: skip

    def new(node, field):
        setattr(node, field, own.get(getattr(node, field), getattr(node, field)))

    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            new(node, "name")
        elif isinstance(node, ast.arg):
            new(node, "arg")
        elif isinstance(node, ast.Name) and node.id not in outside:
            new(node, "id")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in outside:
            new(node, "attr")
    return ast.unparse(tree) + "\n"
