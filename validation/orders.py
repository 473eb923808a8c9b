"""Suite `orders`: every order of the warps, for every kernel that chapters 4 to 6 and 15 simulate.

A chapter's cells run as a reader runs them; each kernel that they simulate (of those with the same lines, the first) is then tried
in every order on the same arguments, with as many whole clusters of its grid as have at most MOST_WARPS warps, and at least one.
A kernel that an ordinary run calls clean and some order wrong is a mismatch: the book would teach it as correct. So is one of at
most MOST_WARPS warps that cannot be tried to the end within BOUNDS.
"""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np

from cutesim import NotSimulated, simulation
from cutesim.orders import Bounds
from quack_tutorial.records import suite as report
from workbench import myst
from workbench.session import Session

CHAPTERS = ("04", "05", "06", "15")
MOST_WARPS = 6
BOUNDS = Bounds(orders=1000, seconds=20.0)
NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"


class _Watch:
    """Stands for `simulation.simulate` while a chapter runs, and tries each new kernel in every order after its own run."""

    def __init__(self, chapter: str, progress):
        self.chapter, self.progress, self.real = chapter, progress, simulation.simulate
        self.found, self.seen, self.mismatches = {}, set(), []

    def __call__(self, function, *args, **options):
        before = copy.deepcopy((args, options)) if options.get("check", True) else None
        run = self.real(function, *args, **options)
        if before is None or simulation.WATCHES or not run.trace.launches:
            return run
        lines = frozenset((line.file, line.number, line.text) for line in run.trace.lines)
        if lines not in self.seen:
            self.seen.add(lines)
            self._try(function, *before, run.trace.launches[-1])
        return run

    def _try(self, function, args, options, launch) -> None:
        cluster = int(np.prod(launch.cluster))
        per_cluster = cluster * -(-launch.threads // 32)
        blocks = min(launch.blocks, max(1, MOST_WARPS // per_cluster) * cluster)
        warps = blocks * -(-launch.threads // 32)
        name = f"{launch.kernel}, {warps} warp{'s' * (warps != 1)} of {blocks} block{'s' * (blocks != 1)}"
        self.progress(f"chapter {self.chapter}: {name}")
        taken = {key: x for key, x in options.items() if key not in ("schedule", "values", "blocks", "check")}
        again, named = copy.deepcopy((args, taken))
        run = self.real(function, *again, blocks=blocks, **named)
        usual = "clean" if run.ok else run.findings[0].kind
        try:
            found = self.real(function, *args, blocks=blocks, orders=BOUNDS, **taken)
        except NotSimulated:
            self._note(name, usual, 0, 0.0, "not simulated")
            return
        verdict = found.verdict + (f": {found.findings[0].kind}" if found.findings else "")
        self._note(name, usual, found.tried, found.seconds, verdict)
        if run.ok and found.verdict == "wrong":
            self.mismatches.append(f"chapter {self.chapter}: {name}: {found}")
        if warps <= MOST_WARPS and found.verdict == "clean within bounds":
            self.mismatches.append(f"chapter {self.chapter}: {name}: more than {found.tried} orders")

    def _note(self, name, usual, tried, seconds, verdict) -> None:
        """One row for the kernels of a name that fare alike."""
        key = self.chapter, name, usual, verdict
        kernels, orders, longest = self.found.get(key, (0, 0, 0.0))
        self.found[key] = kernels + 1, max(orders, tried), max(longest, seconds)


def run(sample: bool, progress) -> report.Suite:
    """Run the chapters, of a sample only chapter 4."""
    rows, mismatches = [], []
    for chapter in CHAPTERS[:1] if sample else CHAPTERS:
        (path,) = NOTEBOOKS.glob(f"{chapter}-*.md")
        watch, said = _Watch(chapter, progress), []
        simulation.simulate = watch
        try:
            session = Session(lambda kind, text, said=said: said.append((kind, text)))
            for place, cell in enumerate(myst.cells(path.read_text(encoding="utf-8"), path.stem).cells):
                if cell.cell_type == "code":
                    session.run(place, cell.source)
        finally:
            simulation.simulate = watch.real
        if not watch.found:
            mismatches.append(f"chapter {chapter}: nothing was simulated")
        for (*named, usual, verdict), (kernels, orders, seconds) in watch.found.items():
            rows.append((*named, kernels, usual, orders, round(seconds, 2), verdict))
        mismatches += watch.mismatches
    columns = ("chapter", "kernel", "kernels", "usual order", "most orders", "most seconds", "verdict")
    title = "Every order of the warps, for the kernels of chapters 4 to 6 and 15"
    return report.Suite("orders", title, columns, tuple(rows), tuple(mismatches), checked=sum(row[2] for row in rows))
