"""The tables of the book's page "How far to trust the simulator", from the recorded suites.

| function      | gives                                                                            |
|---------------|----------------------------------------------------------------------------------|
| `overview`    | a row a suite: how much was compared, how much disagreed, where and when         |
| `suite(name)` | one suite: a sentence, its table, its notes, what did not agree                  |
| `cards`       | the generations of GPUs: which of them ran the kernels, and which they were only compiled for |
| `others`      | other people's kernels that were tried: a row a source, and why some are refused |
| `coverage`    | the names of the DSL that the simulator answers, folded, namespace by namespace  |

Each shows itself as HTML in a notebook and as text elsewhere; a table scrolls in its own box. A suite without a record says so.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

from quack_tutorial import hardware
from quack_tutorial.records import FOLDER, read
from quack_tutorial.records import cards as recorded_cards
from quack_tutorial.records import suite as report
from quack_tutorial.records.suite import RECORDED, SUITES

LONG = 12  # rows or notes; more are folded
SENTENCE = 24  # characters; a cell with more is one
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class Shown:
    """A piece of the page, as HTML and as text."""

    html: str
    text: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


def recorded(name: str, folder=None) -> report.Suite | None:
    """The record of a suite, None where there is none; raises ReportError where it cannot be read."""
    path = Path(folder or report.default_folder(), f"{name}.json")
    return report.load(path) if path.exists() else None


def overview(folder=None) -> Shown:
    """A row a suite, in the order of `python -m validation`."""
    columns = ("suite", "compared", "disagreed", "compares", "recorded")
    rows = []
    for name, _ in SUITES:
        kept = recorded(name, folder)
        if kept is None:
            rows.append((name, "", "", "", NOT_RECORDED))
        else:
            rows.append((name, kept.checked, len(kept.mismatches), kept.title, _place(kept)))
    return shown(columns, rows)


def suite(name: str, folder=None) -> Shown:
    """What one suite found, or that it is not recorded; KeyError for a name that is no suite's."""
    is_alive = dict(SUITES)[name] != RECORDED
    kept = recorded(name, folder)
    if kept is None:
        said = f"{name}: {NOT_RECORDED}." + f" `python -m validation {name} --record` runs it." * is_alive
        return Shown(f"<p>{_inline(said)}</p>", said)
    parts = [f"<p>{_inline(_sentence(kept))}</p>", folded(table(kept.columns, kept.rows), "Table", len(kept.rows))]
    parts += [_list("Did not agree", kept.mismatches), _list("Notes", kept.notes)]
    return Shown("\n".join(parts), str(kept))


def cards() -> Shown:
    """A row a generation of GPUs: its cards, those that ran and timed the kernels, and what compiles for it."""
    kept = json.loads((FOLDER / "compiled" / "architectures.json").read_text(encoding="utf-8"))
    rows = []
    for arch, counts in kept.items():
        digits = arch.removeprefix("sm_").rstrip("a")
        capability = int(digits[:-1]), int(digits[-1])
        of_it = [gpu for gpu in hardware.GPUS if gpu.capability == capability]
        ran = ", ".join(gpu.name for gpu in of_it if gpu.card in recorded_cards()) or "none: compiled only"
        compiled = f"{counts['compile']} of {counts['programs']}, {counts['date']}"
        names = ", ".join(gpu.name for gpu in of_it) or "none in this book's table"
        rows.append((".".join(map(str, capability)), names, ran, compiled, counts["need newer"]))
    columns = ("compute capability", "cards", "measured on")
    columns += ("programs that compile", "refused: they need a newer one")
    return shown(columns, rows)


# Of the facts that `bench.releases` keeps: registers, loads in flight, loads by their width, instructions by their kind.
COMPARED = slice(0, 1), slice(2, 3), slice(6, 8), slice(8, None)


def releases() -> Shown:
    """A row a release of CuTe DSL and generation: what compiles and what differs from the newest; then each program that moved."""
    kept = read(FOLDER / "compiled" / "releases.json")
    named = sorted(kept["releases"], key=lambda release: [int(part) for part in release.split(".")], reverse=True)
    newest = kept["releases"][named[0]]
    rows, moved = [], []
    for release in named:
        for arch, programs in kept["releases"][release].items():
            made = {name: said for name, said in programs.items() if isinstance(said, list)}
            pairs = [(newest[arch][name], said) for name, said in made.items() if isinstance(newest[arch][name], list)]
            some = [sum(said[n] > 0 for said in made.values()) for n in (1, 5)]
            differ = [sum(old[part] != new[part] for old, new in pairs) for part in COMPARED]
            renamed = sum(said[0] != said[4] for said in made.values())
            rows.append((release, arch, f"{len(made)} of {len(programs)}", *some, *differ, renamed))
    for arch, programs in newest.items():
        for name in programs:
            # None: newer than that record.
            all_said = [kept["releases"][release][arch].get(name) for release in named]
            facts = {_brief(said) for said in all_said if isinstance(said, list)}
            if len(facts) > 1:
                moved.append((f"{name} ({arch})", *(_brief(said) for said in all_said)))
    columns = (
        "release,made for,compile,spill,use local memory,other registers,other loads in flight,other widths of loads,"
    )
    columns += "other kinds of instructions,other registers if renamed"
    first, second = shown(columns.split(","), rows), shown(("program", *named), moved)
    said = f"Compiled {kept['date']} without a GPU, the PTX of all releases by ptxas {kept['ptxas']}."
    named = "Programs that became others: registers, bytes spilled, loads in flight, local bytes, loads of 16 bytes, narrower ones"
    html = f"{first.html}<p>{said}</p>{folded(second.html, named, max(len(moved), LONG + 1))}"
    return Shown(html, "\n".join([first.text, said, named, second.text]))


def _brief(said) -> str:
    if said is None:
        return "not tried"
    return ", ".join(map(str, said[:3] + said[5:8])) if isinstance(said, list) else "does not compile"


def coverage() -> Shown:
    """What the simulator answers: first what the words mean, then the tables, each folded under its namespace."""
    kept = read(FOLDER / "validation/names.json")
    meaning = shown(("how", "means"), kept["meaning"].items())
    parts, texts = [meaning.html], [meaning.text]
    for space, lines in kept["names"].items():  # names that share a line share a row
        rows = [
            (", ".join(f"`{n}`" for n in names.split()), how, *rest, *[""][len(rest) - 1 :])
            for names, how, *rest in lines
        ]
        found = shown(("names", "how", "tested in", "note"), rows)
        parts.append(folded(found.html, space, LONG + 1))
        texts += ["", space, found.text]
    return Shown("\n".join(parts), "\n".join(texts))


def _sentence(kept) -> str:
    disagreed = len(kept.mismatches)
    said = "all agreed" if not disagreed else f"{disagreed:,} did not agree"
    program = kept.program
    repeat = f"; repeat it: `python -m validation {kept.name}`"
    made = program and f"; made by `{program['command']}` of commit `{program['commit'][:12]}`"
    return f"{kept.checked:,} compared, {said}. {_place(kept)}{made or repeat}"


def _place(kept) -> str:
    """When, and on what: the GPU where there was one."""
    where = kept.where or {}
    versions = [where["device"]] if "device" in where else []
    names = {"cuda": "CUDA", "dsl": "CuTe DSL", "sentryward": "SentryWard"}
    known = "cuda", "dsl", "numpy", "tirx-harness", "sentryward"
    versions += [f"{names.get(key, key)} {where[key]}" for key in known if where.get(key)]
    return ", ".join([kept.date, *versions])


def shown(columns, rows) -> Shown:
    """`table` in a page, and elsewhere its rows as lines."""
    return Shown(table(columns, rows), "\n".join("  ".join(map(_cell, row)) for row in (columns, *rows)))


def lined_up(rows, first=str.ljust) -> list[str]:
    """The rows as lines, whose columns end below each other; `first` is how a text stands in the first one."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    stands = [first, *[str.rjust] * (len(widths) - 1)]
    return ["  ".join(stand(text, width) for stand, text, width in zip(stands, row, widths)) for row in rows]


def table(columns, rows) -> str:
    """An HTML table in a box of its own that scrolls; numbers stand at the right, `text` in backticks is code."""
    head = "".join(f'<th scope="col">{_inline(column)}</th>' for column in columns)
    body = "".join("<tr>" + "".join(_data(cell) for cell in row) + "</tr>" for row in rows)
    return (
        '<div style="overflow-x: auto" tabindex="0" role="region" aria-label="table">'
        f'<table class="table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _data(cell) -> str:
    number = isinstance(cell, (int, float)) and not isinstance(cell, bool)
    # Sentences keep a readable width on a phone, where the box scrolls.
    style = "text-align: right" if number else "min-width: 14em" if len(_cell(cell)) > SENTENCE else ""
    attribute = f' style="{style}"' if style else ""
    return f"<td{attribute}>{_inline(_cell(cell))}</td>"


def _cell(cell) -> str:
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def _inline(text) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(str(text), quote=False))


def folded(html: str, title: str, length: int) -> str:
    """The piece as it is, or behind its title if it is long."""
    if length <= LONG:
        return html
    count = f"{title} ({length} rows)" if title == "Table" else title
    return f"<details><summary>{escape(count)}</summary>{html}</details>"


def _list(title, sentences) -> str:
    if not sentences:
        return ""
    items = "".join(f"<li>{_inline(sentence)}</li>" for sentence in sentences)
    long = sum(map(len, sentences)) > 100 * LONG or len(sentences) > LONG
    opened = "" if long else " open"
    return f"<details{opened}><summary>{title} ({len(sentences)})</summary><ul>{items}</ul></details>"
