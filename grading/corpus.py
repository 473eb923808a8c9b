"""Answers whose diagnosis is known, and disguises of them: what is said must be about the mistake, not the file.

A lab's answers.toml has a table for each answer: `right`, what it does differently, or `kind` and `says`, the kind of its first
diagnosis and words that its sentence must hold (`compiler`: what the real compiler says of it, too). What an answer is:

    edit = '''          lines taken from and put into the notebook's solution (or the answer that `of` names), as in a diff:
     context              the lines that begin with a space or - must be there once, one after the other;
    -old line             several such places are parted by a line @@
    +new line
    '''
    text = '''…'''    or a whole program
"""

from __future__ import annotations

import ast
import builtins
import os
import re
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .grade import grade
from .judgement import Report

IMPORTS = "import cutlass\nimport cutlass.cute as cute\n\n\n"


@dataclass(frozen=True)
class Trial:
    """An answer as it was tried, and whether it got what it should."""

    name: str
    disguise: str
    wanted: str
    got: str
    ok: bool


def answers(folder: Path) -> dict:
    """{name: (text, what answers.toml says of it)}, the notebook's own solution first."""
    tables = tomllib.loads((folder / "answers.toml").read_text(encoding="utf-8"))
    found = {"solution": (solution(folder), {"right": "the notebook's"})}
    for name, table in tables.items():
        try:
            text = table["text"] if "text" in table else edited(found[table.get("of", "solution")][0], table["edit"])
        except (KeyError, ValueError) as error:
            raise ValueError(f"{folder.name}/answers.toml: {name}: {error}") from None
        found[name] = (text, table)
    return found


def solution(folder: Path) -> str:
    """The program that the cells with a solution of the folder's notebook make."""
    master = (folder / f"{folder.name}.md").read_text(encoding="utf-8")
    cells = re.findall(r"^```\{code-cell\}[^\n]*\n---\n.*?^---\n(.*?)^```$", master, re.DOTALL | re.MULTILINE)
    kept = [re.sub(r"(?m)^ *### (BEGIN|END) SOLUTION\n", "", cell) for cell in cells if "### BEGIN SOLUTION" in cell]
    return IMPORTS + "\n\n".join(kept)


def edited(text: str, edit: str) -> str:
    """The text with an edit made; a ValueError if a place of it is not there, or twice."""
    for part in re.split(r"(?m)^@@.*\n", edit):
        lines = part.splitlines(keepends=True)
        if any(line[0] not in " -+\n" for line in lines):
            raise ValueError(f"a line of the edit begins with none of space, - and +: {part}")
        old = "".join(line[1:] or "\n" for line in lines if line[0] != "+")
        new = "".join(line[1:] or "\n" for line in lines if line[0] != "-")
        found = [m.start() for m in re.finditer(rf"(?m)^(?={re.escape(old)})", text)]
        if len(found) != 1:
            raise ValueError(f"this is there {len(found)} times:\n{old}")
        text = text[: found[0]] + new + text[found[0] + len(old) :]
    return text


def disguises(text: str, targets: tuple) -> dict:
    """The answer under other names, in another format, and as it is with another seed: name -> (text, seed)."""
    return {
        "as it is": (text, 0),
        "renamed": (renamed(text, targets), 0),
        "reformatted, seed 1": (reformatted(text), 1),
    }


def trials(folder: Path, targets: tuple, only=None, names=None) -> Iterator[Trial]:
    """Grade each answer in each disguise, as many at a time as there are cores; `only` names the disguises, `names` the answers."""
    tried = [
        (name, disguise, source, seed, wanted)
        for name, (text, wanted) in answers(folder).items()
        for disguise, (source, seed) in disguises(text, targets).items()
        if (only is None or disguise in only) and (names is None or name in names)
    ]

    def told(one) -> Trial:
        name, disguise, source, seed, wanted = one
        return judged(grade(folder.name, "answer.py", source, seed), name, disguise, wanted)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # a submission has a process of its own
        yield from pool.map(told, tried)


def judged(report: Report, name: str, disguise: str, wanted: dict) -> Trial:
    """Whether a report says what is expected."""
    if "right" in wanted:
        got = report.diagnoses[0].message if report.diagnoses else "full marks"
        return Trial(name, disguise, "full marks", got, report.full)
    first = report.diagnoses[0] if report.diagnoses else None
    ok = first is not None and first.kind == wanted["kind"] and wanted["says"] in first.message
    got = "full marks" if first is None else first.kind if ok else f"{first.kind}: {first.message}"
    return Trial(name, disguise, wanted["kind"], got, ok)


def reformatted(text: str) -> str:
    """The same program: no comments, other line numbers, indented by two."""
    lines = ast.unparse(ast.parse(text)).splitlines()
    narrow = [" " * ((len(line) - len(line.lstrip())) // 2) + line.lstrip() for line in lines]
    return "# Reformatted.\n\n\n" + "\n\n".join(narrow) + "\n"


NAMED = {ast.FunctionDef: "name", ast.ClassDef: "name", ast.arg: "arg", ast.Name: "id", ast.Attribute: "attr"}


def renamed(text: str, targets: tuple) -> str:
    """The same program with every name of its own replaced, but those that the lab asks for."""
    tree = ast.parse(text)
    named = [(node, NAMED[type(node)]) for node in ast.walk(tree) if type(node) in NAMED]
    bound = [getattr(node, field) for node, field in named if isinstance(getattr(node, "ctx", ast.Store()), ast.Store)]
    own = {name: f"renamed_{i}" for i, name in enumerate(dict.fromkeys(bound))}
    for kept in [*targets, "self", *dir(builtins), *[name for name in own if name.startswith("__")]]:
        own.pop(kept, None)
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    outside = {name.asname or name.name.partition(".")[0] for node in imports for name in node.names}
    for node, field in named:
        begins = node.value if isinstance(node, ast.Attribute) else node
        known = own.get(getattr(node, field))
        if known and (begins is node or isinstance(begins, ast.Name)) and getattr(begins, "id", "") not in outside:
            setattr(node, field, known)
    return ast.unparse(tree) + "\n"
