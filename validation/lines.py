"""Suite `lines`: what the simulator counts at a line of a kernel, against what Nsight Compute counted there on a GPU.

Of every version of a ladder a few rows of 4,096 run on the simulator; the records of lines (`quack-tutorial lines`) have the same
kernels on 32,768. Sectors of global memory and wavefronts of shared memory are compared line by line: those of a row, and where
blocks go through many rows those of a block, times how many there were. Where they differ:

| explained as       | holds                                                                                            |
|--------------------|--------------------------------------------------------------------------------------------------|
| joined             | the compiler made one wider access of several that lie side by side: they take what their bytes do |
| neighbouring lines | the function's lines agree together: the compiler names another line of it                        |
| elsewhere          | the kernel agrees as a whole: the compiler names a line of another function, or none              |
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import combinations

import torch

from cutesim import analysis
from cutesim.simulation import simulate
from cutesim.trace import Space
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.operations.our_launches import FINAL, contiguous_rows
from quack_tutorial.records import lines as record
from quack_tutorial.records import suite as report
from validation import trials

N, DTYPES, SMS = 4096, ("float32", "bfloat16"), 2
COUNTED = (("sectors", Space.GMEM), ("wavefronts", Space.SMEM))
EXPLAINED = "joined", "neighbouring lines", "elsewhere"
CLOSE = 0.01
TYPES = {"rmsnorm backward": {"w": "float32"}}  # of tensors that have not the row's


@dataclass(frozen=True)
class Draw(trials.Draw):
    """Arguments of a version of a ladder, as its ladder's benchmark gives them."""

    host: object = None
    M: int = 0

    def targets(self, M, N):
        return torch.arange(M) * 37 % N

    def parts(self) -> int:
        return self.host.parts_of(self.M, SMS) if hasattr(self.host, "parts_of") else 1


def run(sample=False, progress=print) -> report.Suite:
    """Every version whose lines are recorded; as a sample the copies alone."""
    rows, mismatches, checked, differ = [], [], 0, {}
    every = [name for name, operation in OPERATIONS.items() if operation.ladder and record.load(name)]
    for operation in ["copy"] if sample else every:
        kept, tally = record.load(operation), Counter()
        for version in OPERATIONS[operation].ladder:
            for dtype in DTYPES if version != FINAL else ():
                progress(f"{operation}, {version}, {dtype}")
                found = compared(kept(version, dtype, N), OPERATIONS[operation].ladder[version])
                tally.update(outcome for *_, outcome in found)
                for text, unit, ours, theirs, outcome in found:
                    said = f"{text!r}: {ours:g} {unit} a row simulated, {theirs:g} counted, in {operation}, {version}, {dtype}"
                    if outcome == "differs":
                        mismatches.append(said)
                    elif outcome != "agrees":
                        differ.setdefault((outcome, text), f"{outcome}: {said}")
        rows.append((operation, sum(tally.values()), *(tally[outcome] for outcome in ("agrees", *EXPLAINED))))
        checked += sum(tally.values())
    return report.Suite(
        "lines",
        "Sectors and wavefronts at each line of the ladders, on the simulator and on a GPU",
        ("ladder", "lines", "agree", *EXPLAINED),
        tuple(rows),
        tuple(mismatches),
        checked=checked,
        notes=(record.load("copy").origin, *sorted(differ.values())),
    )


def compared(row, ours) -> list[tuple]:
    """(text, unit, a row simulated, a row counted, outcome) of each line that touches memory in either."""
    M = 64 if row.version == "thread" and row.operation != "copy" else 16
    host = ours.kernels(contiguous_rows(row.dtype, N), None)[0][0]
    traces = [simulated(ours, host, row.dtype, rows) for rows in ((M, 2 * M) if hasattr(host, "parts_of") else (M,))]
    found = []
    for unit, space in COUNTED:
        expected = at_all_rows(traces, M, row, space, unit)
        ideal = at_all_rows(traces, M, row, space, f"ideal_{unit}")
        counted = defaultdict(float)
        for line in row.main.lines:
            text = "of no line" if line.text.startswith("@cute.") else line.text
            counted[line.function, text] += getattr(line, unit) / row.M
        keys = [key for key in {**expected, **counted} if expected[key] or counted[key]]
        joined = {key: expected[key] for key in keys if in_wider_accesses(expected[key], ideal[key], counted[key])}
        expected |= {key: counted[key] for key in joined}
        for key in keys:
            outcome = "joined" if key in joined else judged(key, keys, expected, counted)
            simulated_there = joined.get(key, expected[key])
            found.append((key[1], unit, round(simulated_there, 2), round(counted[key], 2), outcome))
    return found


def judged(key, keys, expected, counted) -> str:
    """ "agrees", one of `EXPLAINED`, or "differs"."""
    if near(expected[key], counted[key]):
        return "agrees"
    groups = [[other for other in keys if other[n] == key[n]] for n in (0, 1)] + [keys]
    sums = [[sum(each[o] for o in group) for each in (expected, counted)] for group in groups]
    for name, (ours, theirs) in zip((EXPLAINED[1], *EXPLAINED[1:]), sums):
        if near(ours, theirs):
            return name
    for group, (ours, theirs) in zip(groups, sums):
        spared = [expected[other] for other in group if not counted[other]]
        if any(near(ours - sum(some), theirs) for n in range(1, len(spared) + 1) for some in combinations(spared, n)):
            return "joined"
    return "differs"


def in_wider_accesses(simulated, ideal, counted) -> bool:
    """Whether so much was counted as one access takes in the place of 2, 4 or 8, or as the bytes take if they lie together."""
    fewer = (ideal, *(simulated / n for n in (2, 4, 8)))
    return counted > 0 and not near(simulated, counted) and any(near(one, counted) for one in fewer)


def at_all_rows(traces, M, row, space, unit) -> dict:
    """{(function, text): what the recorded launch should take a row}, from a run on M rows, or that and one on twice as many."""
    counts = [at_lines(trace, space, unit) for trace in traces]
    if len(counts) == 1:
        return defaultdict(float, {key: count / M for key, count in counts[0].items()})
    found, blocks = defaultdict(float), traces[0].launches[0].blocks
    for key in {**counts[0], **counts[1]}:
        a_row = (counts[1][key] - counts[0][key]) / M
        a_block = (counts[0][key] - M * a_row) / blocks
        found[key] = a_row + a_block * row.main.blocks / row.M
    return found


def near(a: float, b: float) -> bool:
    """Whether two counts differ by a hundredth at most."""
    return abs(a - b) <= CLOSE * max(a, b)


def simulated(ours, host, dtype: str, M: int):
    """The trace of a version's first launch on M rows."""
    draw, kernel = Draw(dtype, (), TYPES.get(ours.kernel.name, {}), host, M), ours.kernel
    given = dict(zip(kernel.parameters, kernel.positional(kernel.arguments(M, N, draw))))
    return simulate(host, *(given[name] for name in ours.arguments)).trace


def at_lines(trace, space, unit) -> dict:
    """{(function, text): what all requests of the line take}."""
    found, table = defaultdict(float), analysis.requests(trace, space)
    for request in table:
        line = trace.lines[int(request["line"])]
        found[line.function.rpartition(".")[2], line.text.strip()] += int(request[unit])
    return found
