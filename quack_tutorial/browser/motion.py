"""The pictures of a kernel that is being typed: what its warps did, what its lanes read and wrote, and what is wrong with it."""

from __future__ import annotations

from quack_tutorial import figures

MOST_RACES = 2


def pictures(run):
    """The figures of one simulated run: its races, then all warps side by side, shared words, and the first warp's lanes.

    A figure that the run has nothing for is left out.
    """
    if run.trace is None:
        return
    races = [finding for finding in run.findings if finding.kind == "race"]
    draws = [lambda finding=finding: figures.race(run.trace, finding) for finding in races[:MOST_RACES]]
    draws.append(lambda: figures.timeline(run.trace))
    draws.append(lambda: figures.block_reduce(run.trace))
    draws.append(lambda: figures.lanes(run.trace))
    for draw in draws:
        try:
            yield draw()
        except (ValueError, IndexError):  # no such events in this run
            continue
