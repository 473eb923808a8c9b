"""Cells of a page and what is told of them, as a text file: of each cell its number, which cell stands above it, and its lines.

`played` runs them and gives the lines of the file with what comes out now, for the fixture `snapshot`.
"""

import re
from itertools import groupby
from textwrap import dedent

from workbench.session import Session

CELL = re.compile(r"^In (\d+)(?: after (\d+))?:\n((?:    .*\n|\n)+)", re.M)
# Of a traceback: frames of files, and the marks under its lines, in which Python's versions differ.
ELSEWHERE = re.compile(r'^  File ".*\n(?:    .*\n)*|^[ ~^]+\n', re.M)


def page():
    """A new session of a page: what it tells, and what runs a cell."""
    said = []
    return said, Session(lambda kind, text: said.append((kind, text))).run


def played(file, begin=page):
    """Each part of the file, which begins with its title, in what `begin` gives for it."""
    for title, body in re.findall(r"^# (.*)\n((?:(?!# ).*\n)*)", file.read_text("utf-8"), re.M):
        said, run = begin()
        yield f"# {title}"
        for number, after, source in CELL.findall(body):
            said.clear()
            source = source.rstrip("\n")
            run(int(number), dedent(source), *([int(after)] if after else ()))
            yield f"In {number}{' after ' + after if after else ''}:"
            yield from source.split("\n")
            for kind, parts in groupby(said, key=lambda one: one[0]):
                text = ("" if kind == "text" else "\n").join(text for _, text in parts)
                lines = ELSEWHERE.sub("", text).rstrip("\n").split("\n")
                yield from (f"> {kind}: {line}".rstrip() for line in lines)
