"""`code_diff`: what changes from one version of a kernel to the next, read from their source when it is drawn.

Only lines that differ are shown, under the name of the method they stand in; docstrings, and lines that are only a
comment, take no part. A fold below has the new version's whole kernel, and the other methods that changed, with the new
lines marked.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import keyword
import re
import textwrap
from html import escape
from pathlib import Path

from .player import still


def code_diff(old, new) -> Shown:
    """The lines of `new` that are not in `old` ("+"), and the other way round ("-"); two classes, or two functions."""
    before, after = methods(old), methods(new)
    parts, added, removed = [], 0, 0
    for name in dict.fromkeys([*after, *before]):
        rows = changed_lines(before.get(name, []), after.get(name, []))
        if rows:
            parts.append((name, rows))
            added += sum(sign == "+" for sign, _ in rows)
            removed += sum(sign == "-" for sign, _ in rows)
    title = f"{old.__name__} becomes {new.__name__}"
    summary = f"{removed} {'line' if removed == 1 else 'lines'} removed, {added} added."
    return Shown(title, summary, origin(old, new), parts, whole(old, new, [name for name, _ in parts]))


class Shown:
    """The difference as HTML for a page and as text elsewhere.

    `parts` are (method, [(sign, line), ...]); `whole` is the same with all lines of the new version's kernel and of what changed.
    """

    def __init__(self, title, summary, where, parts, whole):
        self.title, self.summary, self.where, self.parts = title, summary, where, parts
        self.whole = whole

    def _repr_html_(self) -> str:
        rows = _rows(self.parts)
        if self.whole:
            names = ", ".join(name for name, _ in self.whole)
            rows += f"<details><summary>Whole kernel ({escape(names)}), new lines marked</summary>"
            rows += f"{_rows(self.whole)}</details>"
        return still(self.title, self.summary, f'<div class="qt-diff">{rows}</div>', self.where, self.summary)

    def __repr__(self) -> str:
        lines = [self.title]
        for name, rows in self.parts:
            lines += [f"  {name}", *(f"{sign} {line}" for sign, line in rows)]
        return "\n".join(lines)


def changed_lines(before: list[str], after: list[str]) -> list[tuple[str, str]]:
    """[("-", line), ("+", line), (" ", "...")]: the dots stand for lines that both have, between two changes."""
    rows = []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            if rows:
                rows.append((" ", "\N{MIDLINE HORIZONTAL ELLIPSIS}"))
            continue
        rows += [("-", line) for line in before[i:j]] + [("+", line) for line in after[k:m]]
    return rows[:-1] if rows and rows[-1][0] == " " else rows


def whole(old, new, changed) -> list[tuple[str, list[tuple[str, str]]]]:
    """The kernel of `new` and its `changed` methods with all their lines and comments; "+" marks the lines that `old` has not."""
    before, after = methods(old), methods(new, comments=True)
    found = []
    for name in dict.fromkeys(["kernel", *changed]):
        lines = after.get(name, [])
        code = [n for n, line in enumerate(lines) if _is_code(line)]
        matcher = difflib.SequenceMatcher(None, before.get(name, []), [lines[n] for n in code], autojunk=False)
        new_lines = {code[n] for tag, _, _, k, m in matcher.get_opcodes() if tag != "equal" for n in range(k, m)}
        if lines:
            found.append((name, [("+" if n in new_lines else "", line) for n, line in enumerate(lines)]))
    return found


def methods(thing, comments=False) -> dict[str, list[str]]:
    """The lines of the one function, or of each method and attribute that a class has, its own and those it inherits."""
    found = {}
    # The last base is object.
    for base in reversed(thing.__mro__[:-1]) if inspect.isclass(thing) else [thing]:
        found |= written(base, comments)
    return found


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def written(thing, comments=False) -> dict[str, list[str]]:
    """The lines of each method and attribute in a class's source, or of the one function, without docstrings.

    Without `comments`, lines that are empty or only a comment are left out, too.
    """
    source = textwrap.dedent(inspect.getsource(thing))
    lines, top = source.splitlines(), ast.parse(source).body[0]
    nodes = [node for node in ast.walk(top) if isinstance(node, ast.FunctionDef)]
    if isinstance(top, ast.ClassDef):
        nodes = [node for node in top.body if isinstance(node, ast.FunctionDef)]
    found = {}
    for node in nodes:
        doc = node.body[0]
        skipped = range(0)
        if ast.get_docstring(node) is not None:
            skipped = range(doc.lineno, doc.end_lineno + 1)
        numbers = [n for n in range(node.lineno, node.end_lineno + 1) if n not in skipped]
        body = textwrap.dedent("\n".join(lines[n - 1] for n in numbers)).splitlines()
        found[node.name] = [line for line in body if comments or _is_code(line)]
    for node in top.body if isinstance(top, ast.ClassDef) else ():
        if isinstance(node, ast.Assign):
            found[ast.unparse(node.targets[0])] = [line.strip() for line in lines[node.lineno - 1 : node.end_lineno]]
    return found


def origin(old, new) -> str:
    """ "quack_tutorial/kernels/softmax.py, from line 69 and from line 110"."""
    places = {}
    for thing in (old, new):
        path = Path(inspect.getsourcefile(thing))
        name = (
            "/".join(path.parts[path.parts.index("quack_tutorial") :]) if "quack_tutorial" in path.parts else path.name
        )
        places.setdefault(name, []).append(inspect.getsourcelines(thing)[1])
    told = [f"{name}, {' and '.join(f'from line {n}' for n in numbers)}" for name, numbers in places.items()]
    return f"Read from {'; '.join(told)}."


def _rows(parts) -> str:
    return "".join(
        f'<div class="qt-in">{escape(name)}</div>' + "".join(_row(sign, line) for sign, line in lines)
        for name, lines in parts
    )


def _row(sign: str, line: str) -> str:
    """A line under its sign: added, removed, dots for the lines between, or none."""
    indent = len(line) - len(line.lstrip())
    words = {"+": "added: ", "-": "removed: ", " ": "unchanged lines: ", "": ""}[sign]
    told = f'<span aria-hidden="true">{sign}</span><span class="qt-said">{words}</span>' if words else "<span></span>"
    return (
        f'<div class="qt-row" data-d="{sign.strip()}" style="--in:{indent}">{told}'
        f"<code>{coloured(line.strip())}</code></div>"
    )


# In this order: comment, string, number, decorator, word. The classes are those of the page's cells.
TOKEN = re.compile(
    r"""(?P<c1>#.*)|(?P<s2>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<mi>\b\d[\w.]*)|(?P<nd>@[\w.]+)|(?P<n>[A-Za-z_]\w*)"""
)


def coloured(line: str) -> str:
    """A line of Python as HTML, with the colours that code has in the page's cells."""
    html, at = "", 0
    for token in TOKEN.finditer(line):
        kind = "k" if keyword.iskeyword(token[0]) else token.lastgroup
        html += escape(line[at : token.start()])
        html += escape(token[0]) if kind == "n" else f'<span class="{kind}">{escape(token[0])}</span>'
        at = token.end()
    return html + escape(line[at:])
