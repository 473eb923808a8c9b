"""`report`: one self-contained HTML page of some runs: what was found, what moved, and pictures of it."""

from __future__ import annotations

from html import escape

import numpy as np

from cutesim import analysis

from .block import block_reduce
from .hazard import race
from .lane_view import lanes
from .sectors import coalescing

MOST_RACES, MOST_RUNS, MOST_ROWS = 3, 8, 12
STYLE = """
:root { color-scheme: light dark; --text: #1c2430; --quiet: #59636e; --back: #fff; --box: #f4f6f8; --bad: #b3261e; }
:root { --good: #1a6b38; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e7eb; --quiet: #9aa4af; --back: #14181d; --box: #1e242b; --bad: #ff8a80; --good: #7bd69a; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 860px; }
body { margin: 0 auto; padding: 16px; }
h1 { font-size: 1.4em; }
h2 { font-size: 1.15em; margin-top: 2em; }
p { margin: .5em 0; }
p, h1, h2 { overflow-wrap: break-word; }
.bad { border-left: 4px solid var(--bad); padding-left: 12px; }
.good { color: var(--good); }
.quiet { color: var(--quiet); font-size: .9em; }
.table { overflow-x: auto; margin: 1em 0; }
table { border-collapse: collapse; font-size: .85em; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--quiet); padding-bottom: 4px; }
th, td { padding: 2px 10px; text-align: right; white-space: pre; }
th:first-child, th.text, td.text { text-align: left; }
td.text { font-family: ui-monospace, Menlo, Consolas, monospace; }
tr:nth-child(even) td { background: var(--box); }
"""


def report(runs, title: str, ended: str = "", notes=()) -> str:
    """One self-contained HTML page of some runs: findings, tables and pictures.

    `runs` are what `simulate` returned, with values=True for the pictures of numbers; `ended` says what stopped the file that they
    are from, `notes` are further sentences.
    """
    parts = [f"<h1>{escape(title)}</h1>"]
    parts += [f'<p class="bad">{escape(ended)}</p>'] if ended else []
    for number, run in enumerate(runs[:MOST_RUNS]):
        parts += _run(run, number if len(runs) > 1 else None)
    if len(runs) > MOST_RUNS:
        parts.append(f'<p class="quiet">{len(runs) - MOST_RUNS} more runs are not drawn.</p>')
    parts += [f'<p class="quiet">{escape(note)}</p>' for note in notes]
    parts.append(
        '<p class="quiet">Simulated: what the kernel does, not how long it takes. No finding means none for these '
        "inputs and the paths they take.</p>"
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>'
        f"<body>{''.join(parts)}</body></html>"
    )


def _run(run, number) -> list[str]:
    trace = run.recorded
    head = str(run).partition("\n")[0].partition(";")[0].removeprefix("simulated ")
    parts = [f"<h2>{'' if number is None else f'Run {number + 1}: '}{escape(head)}</h2>"]
    if run.ok:
        parts.append('<p class="good">Nothing wrong found.</p>')
    parts += [f'<p class="bad">{escape(str(finding))}</p>' for finding in run.findings]
    parts += [f'<p class="quiet">{escape(text)}</p>' for text in run.observations]
    if trace is None or not len(trace):
        return parts
    parts += [picture._repr_html_() for picture in _pictures(run)]
    for count in (analysis.bytes_moved, analysis.sectors_per_request, analysis.bank_conflicts, analysis.hot_lines):
        table = count(trace)
        parts += [_table(table)] if table.rows else []
    return parts


def _pictures(run) -> list:
    """What can be drawn of a run: its races, then the warp that a finding names (or the first), lane by lane."""
    trace = run.trace
    found = [_drawn(race, trace, finding) for finding in run.findings if finding.kind == "race"][:MOST_RACES]
    block, warp = _place(run)
    found += [
        _drawn(lanes, trace, block=block, warp=warp),
        _drawn(block_reduce, trace, block=block),
        _drawn(coalescing, trace, block=block, warp=warp),
    ]
    return [picture for picture in found if picture is not None]


def _drawn(draw, *args, **kwargs):
    """The picture, or None where this run has nothing of its kind."""
    try:
        return draw(*args, **kwargs)
    except ValueError:
        return None


def _place(run) -> tuple[int, int]:
    """(block, warp) that the first finding names; without one, of the first event."""
    events = run.trace.events
    for finding in run.findings:
        warps = [thread // 32 for thread in finding.threads[:1]]
        there = events[events["block"] == finding.block]
        if len(there):
            return finding.block, warps[0] if warps and (there["warp"] == warps[0]).any() else int(there["warp"][0])
    first = events[np.lexsort((events["warp"], events["block"]))[0]]
    return int(first["block"]), int(first["warp"])


def _table(table) -> str:
    def cell(value, shown, tag="td"):
        kind = ' class="text"' if isinstance(value, str) else ""
        return f"<{tag}{kind}>{escape(shown)}</{tag}>"

    def number(value):
        return f"{value:.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value

    head = "".join(cell(value, name, "th") for value, name in zip(table.rows[0], table.columns))
    rows = "".join(f"<tr>{''.join(cell(value, number(value)) for value in row)}</tr>" for row in table.rows[:MOST_ROWS])
    more = f"; the first {MOST_ROWS} of {len(table.rows)} rows" if len(table.rows) > MOST_ROWS else ""
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="{escape(table.title)}"><table>'
        f"<caption>{escape(table.title + more)}</caption><tr>{head}</tr>{rows}</table></div>"
    )
