"""What the simulator's analysis counts of memory requests, against Nsight Compute's counters on the GPU.

One `ncu` run profiles every launch of `worker.profiled`, in order; the same launches are simulated here, and each number
that both sides have is compared. `QUANTITIES` says which counter stands for which of ours.

| ours                  | from `analysis.requests`                                  | theirs                                 |
|-----------------------|-----------------------------------------------------------|----------------------------------------|
| requests              | warp instructions that reach global memory                | `l1tex__t_requests…`                   |
| sectors               | aligned 32 bytes that each request touches                | `l1tex__t_sectors…`                    |
| shared requests       | warp instructions that reach shared memory                | `smsp__inst_executed_op_shared…`       |
| wavefronts            | passes through the banks                                  | `smsp__sass_l1tex_data_pipe…`          |

`l1tex__data_pipe…` counts more, and not the same in every run: of 40 wavefronts of RMSNorm, 58 and 59 (an H200, 2026-11-22).
Where the two differ because the compiler made other accesses than the source has, `differences` says which rule it is by.
Not covered: bulk copies and mbarriers, which other counters count; other blocks' shared memory; atomics; caches.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from cutesim.analysis import REQUEST, requests
from cutesim.simulation import simulate
from cutesim.trace import Op, Space
from quack_tutorial.records import suite as report
from validation import differences
from validation.gpu import access_patterns
from validation.gpu.device import where
from validation.outputs import Trial

TIMEOUT_S = 240
LOAD, STORE, ASYNC, READ = "loads", "stores", "cp.async", "loads and cp.async"
OPS = {LOAD: (Op.LOAD,), STORE: (Op.STORE,), ASYNC: (Op.ASYNC_COPY,), READ: (Op.LOAD, Op.ASYNC_COPY)}


@dataclass(frozen=True)
class Quantity:
    """A number that both sides have. Each of `metrics` is a list of counters that are added; the first one that this
    Nsight Compute knows is compared."""

    what: str  # "requests", "sectors" or "wavefronts"
    kind: str  # a key of OPS
    space: Space
    metrics: tuple

    def __str__(self) -> str:
        return f"{'shared' if self.space == Space.SMEM else 'global'} {self.kind}: {self.what}"


GLOBAL, COPIED = (
    "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum",
    "sm__sass_l1tex_t_{}_pipe_lsu_mem_global_op_ldgsts_cache_{}.sum",
)
EXECUTED = "smsp__inst_executed_op_shared_{}.sum"
WAVES = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
CACHES, SECTORS = ("access", "bypass"), ("requests", "sectors")
QUANTITIES = (
    # What cp.async reads is among l1tex's loads.
    *(Quantity(what, READ, Space.GMEM, ((GLOBAL.format(what, "ld"),),)) for what in SECTORS),
    *(Quantity(what, STORE, Space.GMEM, ((GLOBAL.format(what, "st"),),)) for what in SECTORS),
    *(Quantity(what, ASYNC, Space.GMEM, (tuple(COPIED.format(what, c) for c in CACHES),)) for what in SECTORS),
    Quantity("requests", LOAD, Space.SMEM, ((EXECUTED.format("ld"),),)),
    Quantity("requests", STORE, Space.SMEM, ((EXECUTED.format("st"),),)),
    Quantity("wavefronts", LOAD, Space.SMEM, ((WAVES.format("ld"),),)),
    Quantity("wavefronts", STORE, Space.SMEM, ((WAVES.format("st"),),)),
    Quantity("wavefronts", ASYNC, Space.SMEM, ((WAVES.format("ldgsts"),),)),
)


def cases(sample: bool = False) -> list:
    """All launches, in order: the access patterns, then the package's kernels."""
    found = [
        *_pattern_cases("global", access_patterns.global_patterns(), access_patterns.GlobalPattern),
        *_pattern_cases("shared", access_patterns.shared_patterns(), access_patterns.SharedPattern),
        *_pattern_cases("cp.async", access_patterns.async_patterns(), access_patterns.AsyncPattern),
    ]
    found += package_cases()
    return found[:: len(found) // 8] if sample else found


def _pattern_cases(kind, patterns, make):
    """Patterns that share a kernel share the host object too, so that it is compiled once."""
    for pattern in patterns:
        width = f"{pattern.width} byte{'s' * (pattern.width > 1)}"
        family = f"patterns, {kind}{' memory' * (kind != 'cp.async')}, {width} a lane"
        host = make(pattern.width, *([pattern.below < 32] if kind == "cp.async" else []))
        arguments = partial(access_patterns.arguments, pattern, kind != "global")
        yield Trial(family, f"{kind}, {pattern}", host, arguments)


def package_cases() -> list:
    """Each of the package's kernels on two inputs: float32 rows that start anywhere, bfloat16 rows of whole vectors."""
    from validation import trials

    inputs = (", float32, 5 x 257", ", bfloat16, 5 x 4096", "sum of the parts of dw, 8 x 257")
    return [trial for trial in trials.trials() if trial.name.endswith(inputs)]


# ---- what the simulator counts --------------------------------------------------------------------------------------


def simulated(case: Trial) -> tuple:
    """(launches, {str(quantity): number}) of one case, over all its launches."""
    trace = simulate(case.host, *case.arguments()).trace
    return len(trace.launches), counted(trace)


def counted(trace) -> dict:
    """{str(quantity): number} of a trace."""
    table = {space: requests(trace, space) for space in (Space.GMEM, Space.SMEM)}
    return {str(quantity): _count(trace, table[quantity.space], quantity) for quantity in QUANTITIES}


def _count(trace, table, quantity) -> int:
    ops = trace.events["op"][table["event"]]
    mine = table[np.isin(ops, [int(op) for op in OPS[quantity.kind]]) & (table["lanes"] > 0)]
    return len(mine) if quantity.what not in REQUEST.names else int(mine[quantity.what].sum())


# ---- what Nsight Compute counts -------------------------------------------------------------------------------------


class NotCounted(Exception):
    """Why there are no counters, in one sentence."""


PERMISSION = (
    "this user may not read the GPU's counters (ERR_NVGPUCTRPERM): run it as root, or load the NVIDIA driver with "
    "NVreg_RestrictProfilingToAdminUsers=0"
)


def profile(names: list, progress) -> tuple:
    """(one {metric: number} a kernel launch, in order; {case that could not be launched: why}); raises NotCounted."""
    ncu = shutil.which("ncu")
    if ncu is None:
        raise NotCounted("Nsight Compute's ncu is not on the PATH")
    progress("asking ncu for its counters' names")
    metrics = available(_output([ncu, "--query-metrics"], 60))
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "ncu.csv")
        listed = Path(folder, "cases.json")
        listed.write_text(json.dumps(names))
        plain = "--clock-control none --cache-control none --profile-from-start off --csv --page raw --print-units base"
        command = [ncu, *plain.split(), "--metrics", ",".join(metrics), "--log-file", str(table)]
        command += [sys.executable, "-m", "validation.gpu.worker", "profiled", str(listed)]
        progress(f"ncu on {len(names)} kernels")
        said = _output(command, TIMEOUT_S)
        text = table.read_text(encoding="utf-8", errors="replace") if table.exists() else ""
        file = listed.with_name("refused.json")
        refused = json.loads(file.read_text()) if file.exists() else {}
        return parse(text, said), refused


def _output(command, timeout_s) -> str:
    """What a command says; NotCounted if it takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise NotCounted(f"{Path(command[0]).name} did not end in {timeout_s} seconds") from error
    return done.stdout + done.stderr


def available(listing: str) -> list:
    """Of each of `QUANTITIES` the first metrics that are in the listing of `ncu --query-metrics`; all, if it is empty.

    Each further metric is a further pass over every kernel.
    """
    known = {line.split()[0] for line in listing.splitlines() if line.strip()}
    choices = [[m for m in quantity.metrics if {x.rpartition(".")[0] for x in m} <= known] for quantity in QUANTITIES]
    found = [metric for choice in choices for metric in (choice or [()])[0]]
    return found or [metric for quantity in QUANTITIES for added in quantity.metrics for metric in added]


def parse(text: str, said: str = "") -> list:
    """The rows of `ncu --csv --page raw`: one {metric: number} a kernel; NotCounted says why there are none."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        if "ERR_NVGPUCTRPERM" in text + said:
            raise NotCounted(PERMISSION)
        errors = [line for line in (text + said).splitlines() if "==ERROR==" in line or "Error" in line]
        last = (errors or (text + said).strip().splitlines() or ["nothing"])[-1].strip()
        raise NotCounted(f"ncu gave no table; it said: {last}")
    header, _units, *rows = csv.reader(line for line in lines[start:] if line.startswith('"'))
    return [
        {name: _number(cell) for name, cell in zip(header, row) if name.endswith(".sum")} | {"kernel": row[4]}
        for row in rows
    ]


def _number(cell: str) -> float | None:
    """A number as ncu writes it, None for n/a."""
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        return None


def measured(quantity: Quantity, rows: list) -> tuple:
    """(number, the metrics it comes from) over a case's launches; (None, ()) where no counter has it."""
    for added in quantity.metrics:
        values = [row.get(metric) for row in rows for metric in added]
        if values and None not in values:
            return int(sum(values)), added
    return None, ()


# ---- the two together -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """One number of one case, from both sides."""

    case: Trial
    quantity: Quantity
    simulated: int
    counted: int
    metrics: tuple
    why: str = ""  # the rule that a difference is by, if it is by one

    @property
    def equal(self) -> bool:
        return self.simulated == self.counted

    def __str__(self) -> str:
        return (
            f"{self.case.name}: {self.quantity}: simulated {self.simulated}, counted {self.counted} "
            f"({' + '.join(self.metrics)})"
        )


def compared(launched: list, kernels: list) -> list:
    """Every number that both sides have and that is not 0 on both; raises NotCounted if launches do not match.

    `launched` are (case, what `simulated` gives of it) in the order in which ncu saw `kernels`.
    """
    expected = sum(launches for _, (launches, _) in launched)
    if expected != len(kernels):
        raise NotCounted(f"ncu saw {len(kernels)} kernel launches where {expected} were expected")
    found, rest = [], iter(kernels)
    for case, (launches, numbers) in launched:
        rows = [next(rest) for _ in range(launches)]
        for quantity in QUANTITIES:
            count, metrics = measured(quantity, rows)
            if metrics and (count or numbers[str(quantity)]):
                found.append(Comparison(case, quantity, numbers[str(quantity)], count, metrics))
    return found


def run(sample: bool, progress) -> report.Suite:
    """Let ncu count all cases, simulate them, compare."""
    chosen = cases(sample)
    try:
        kernels, refused = profile([case.name for case in chosen], progress)
        launched = []
        for case in chosen:
            progress(f"simulating {case.name}")
            if case.name not in refused:
                launched.append((case, simulated(case)))
        found = explained(compared(launched, kernels), progress)
    except NotCounted as error:
        return suite([], [f"nothing was compared: {error}"])
    mismatches = [f"{name}: not launched: {why}" for name, why in refused.items()]
    return suite(found, mismatches + [str(one) for one in found if not one.equal and not one.why])


def explained(found: list, progress) -> list:
    """The comparisons, those that differ by a rule with the rule; each case is simulated and compiled once more for it."""
    rules = {}
    for one in found:
        if not one.equal and one.case.name not in rules:
            progress(f"explaining {one.case.name}")
            rules[one.case.name] = differences.Rules(one.case, counted)
    return [one if one.equal else replace(one, why=rules[one.case.name].explain(one)) for one in found]


def suite(found: list, mismatches: list) -> report.Suite:
    """The table: a row a family and quantity."""
    rows = {family: {} for family in dict.fromkeys(one.case.family for one in found)}
    for one in found:
        rows[one.case.family].setdefault(str(one.quantity), []).append(one)
    reasons = Counter(one.why for one in found if one.why)
    return report.Suite(
        name="counters",
        title="Requests, sectors and wavefronts against Nsight Compute",
        columns=("kernels", "number", "launches", "equal", "explained", "simulated, in all", "counted, in all"),
        rows=tuple(
            (
                family,
                quantity,
                len(group),
                sum(one.equal for one in group),
                sum(bool(one.why) for one in group),
                sum(one.simulated for one in group),
                sum(one.counted for one in group),
            )
            for family, quantities in rows.items()
            for quantity, group in quantities.items()
        ),
        mismatches=tuple(mismatches),
        notes=(
            *(f"{number} explained: {why}" for why, number in reasons.items()),
            *(
                f"{quantity} is {' + '.join(metrics)}"
                for quantity, metrics in sorted({(str(one.quantity), one.metrics) for one in found})
            ),
        ),
        checked=len(found),
        where=where(),
    )
