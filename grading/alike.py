"""`quack-tutorial labs alike FOLDER [LAB]`: which answers share code that was not handed out, as FOLDER/alike.html.

An answer's fingerprint is the set of its runs of `RUN` tokens, without comments and with one name for all names, less the runs
of the notebook as it was handed out. Two answers are as alike as the share of the smaller fingerprint that the larger one holds:
renaming, reformatting and reordering functions hide nothing. A short answer has few right forms, so a person reads the pairs.
"""

from __future__ import annotations

import html
import io
import itertools
import keyword
import tokenize
from pathlib import Path

from . import autograde, folders, student
from .feedback import STYLE
from .grade import read
from .judgement import Refused
from .submission import parts, without_magics

RUN = 12  # tokens
LEAST = 12  # runs of one's own, below which an answer is too short to compare
SHOWN = 0.5  # pairs at least so alike are listed
SKIPPED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}


def alike(folder: Path, only: str = "") -> list[str]:
    """Write the page; sentences on what was compared. A ValueError says why there is none."""
    found, _ = autograde.submissions(folder)
    labs = [name for name in folders() if only in ("", name) and any(of == name for _, of in found)]
    if not labs:
        raise ValueError(f"{folder} holds no FOLDER/<student>/<lab>.ipynb" + (f" of {only}" if only else ""))
    sections, said = [], []
    for name in labs:
        master = (folders()[name] / f"{name}.md").read_text(encoding="utf-8")
        handed_out = runs(f"{name}.md", student.student_version(master))
        prints = {}
        for (who, of), files in sorted(found.items()):
            if of == name:
                try:
                    prints[who] = runs(files[0].name, read(files[0])) - handed_out
                except Refused as refused:
                    said.append(f"{who} {name}: not compared, {refused}")
        pairs = sorted(
            ((share(prints[a], prints[b]), a, b) for a, b in itertools.combinations(prints, 2)),
            key=lambda p: (-p[0], p[1:]),
        )
        listed = [pair for pair in pairs if pair[0] >= SHOWN]
        said.append(f"{name}: {len(prints)} answers, {len(listed)} of {len(pairs)} pairs at least {SHOWN:.0%} alike")
        sections.append(_section(name, listed))
    title, advice = "Answers that are alike", "A short answer has few right forms: read both before you decide."
    head = (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{title}</title>\n<style>{STYLE}</style>\n'
    )
    page = f"{head}<h1>{title}</h1>\n<p>{advice}</p>\n{''.join(sections)}</html>\n"
    autograde.replace(folder / "alike.html", page)
    return [*said, f"wrote {folder / 'alike.html'}"]


def runs(file: str, text: str) -> set:
    """The runs of tokens in a submission's code; what Python cannot read of it is left out."""
    found = []
    for _, source, notebook in parts(file, text):
        found += tokens(without_magics(source) if notebook else source)
    return {tuple(found[i : i + RUN]) for i in range(len(found) - RUN + 1)}


def tokens(source: str) -> list[str]:
    """A source's tokens, up to the first that Python cannot read; all names are one, but those behind a dot."""
    found, before = [], ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in SKIPPED:
                continue
            own = token.type == tokenize.NAME and before != "." and not keyword.iskeyword(token.string)
            found.append("name" if own else token.string)
            before = token.string
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass
    return found


def share(one: set, other: set) -> float:
    """The share of the smaller set that is in the other; 0 if it is too small to tell."""
    least = min(len(one), len(other))
    return len(one & other) / least if least >= LEAST else 0.0


def _section(name: str, pairs: list) -> str:
    rows = "".join(
        f'<tr><td class="number">{part:.0%}</td><td>{html.escape(a)}</td><td>{html.escape(b)}</td></tr>'
        for part, a, b in pairs
    )
    body = f"<table>{rows}</table>" if rows else '<p class="soft">No pair.</p>'
    return f"<h2>{html.escape(name)}</h2>\n{body}\n"
