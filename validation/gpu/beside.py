"""Suite `beside`: the same broken kernels given to the simulator, to compute-sanitizer's four tools, and to a GPU a thousand times.

The kernels are mutants, as in `mutation`, a seeded choice of each kind whose harm is to memory or to synchronisation, each on
the longest of a few of `mutation.inputs` that executes its place; those that no input can tell from the original are left
out. Every watcher runs a mutant in a process of its own, which ends after `TIMEOUT_S`. A tool has *reported* if it prints a
report, or if the kernel did not end under it; the thousand runs, on fresh inputs, have *shown* it if an output is wrong, or the
kernel fails or does not end. The unaltered kernels are given to all of them too: what is said of those is a false report.

Without a GPU, or as a sample, only the simulator is asked.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from cutesim.mutants import applied, mutants_of, source_of
from quack_tutorial.records import suite as report
from validation import mutation, raw
from validation.gpu import sanitizer
from validation.gpu.device import where
from validation.mutation.locator import Locator

SEED, EACH, SAMPLE_EACH = 2026, 3, 1
KINDS = ("barrier", "fence", "mbarrier", "count", "group", "predicate", "index")
RUNS, TIMEOUT_S = 1000, 60
WORKER, TOOL = "validation.gpu.beside_worker", "compute-sanitizer"
ROOT = Path(__file__).resolve().parents[2]
KEPT = "beside.jsonl"  # of `raw`: what was said, an answer a line; a run that was cut off goes on from there
UNALTERED, UNALTERED_ROW = "unaltered", "the same kernels unaltered"
WATCHERS = (*sanitizer.TOOLS, "1,000 runs")
COLUMNS = ("kind", "kernels", "simulator", "at the place", "output only", *WATCHERS, "any tool")
SAID_OF_A_RUN = re.compile(r"^(\d+) of (\d+) runs were wrong$", re.M)


def chosen(each: int, progress):
    """(pairs of a mutant and the longest case, unaltered, that executes its place, all cases that were run unaltered)."""
    cases = [case for case in mutation.cases() if case.name.startswith(mutation.SAMPLE_CASES)]
    modules = mutation._modules(cases)
    files = sorted({module.__file__ for module in modules})
    bases = []
    for case in cases:
        progress(f"{case.name} unaltered")
        bases.append(mutation.baseline(case, set(files)))
    bases.sort(key=lambda base: -base.cost)
    reached = {kind: [] for kind in KINDS}
    for mutant in (mutant for file in files for mutant in mutants_of(file)):
        lines = {(mutant.file, n) for n in range(mutant.first, mutant.line + 1)}
        base = next((base for base in bases if lines & base.lines), None)
        if base and mutant.kind in KINDS and mutant.id not in mutation.EQUIVALENT:
            reached[mutant.kind].append((mutant, base))
    rng = random.Random(SEED)
    pairs = [pair for found in reached.values() for pair in rng.sample(found, min(each, len(found)))]
    return pairs, bases, modules, files


def simulated(mutant, base, modules, locator) -> str:
    """Either "at the place", "elsewhere", "output" or "": what the simulator says of a mutant on this one case."""
    verdict = mutation.Verdict(mutant)
    with applied(mutant, modules):
        for how in [dict(schedule=schedule, seed=seed) for schedule, seed in mutation.RUNS]:
            if mutation._try(verdict, base, how, locator):
                return "at the place" if verdict.outcome == mutation.DETECTED else ""
    return {mutation.WRONG: "elsewhere" if "finding elsewhere" in verdict.said else "output"}.get(verdict.outcome, "")


def watched(watcher: str, case_name: str, module: str = "", path: str = "") -> str:
    """What one watcher says of a case, altered by the file `path` in place of `module`'s; "" for nothing."""
    if watcher in sanitizer.TOOLS:
        words = (case_name, "1", module, path)
        return sanitizer.said_by(
            sanitizer.output_of(TOOL, watcher, WORKER, words, TIMEOUT_S, {"CUTE_DSL_LINEINFO": "1"})
        )
    command = [sys.executable, "-m", WORKER, case_name, str(RUNS), module, path]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"did not end in {TIMEOUT_S} s"
    found = SAID_OF_A_RUN.search(done.stdout)
    if found is None:
        return f"failed: {(done.stderr.strip().splitlines() or ['without a word'])[-1][:160]}"
    return "" if found[1] == "0" else found[0]


def asked(pairs, progress) -> dict:
    """{(mutant's id or UNALTERED and the case's name, watcher): what it says}."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        jobs = [
            ((UNALTERED, base.case.name), (base.case.name,)) for base in {id(base): base for _, base in pairs}.values()
        ]
        for number, (mutant, base) in enumerate(pairs):
            path = folder / str(number) / Path(mutant.file).name
            path.parent.mkdir()
            path.write_text(mutant.text(source_of(mutant.file)), encoding="utf-8")
            module = ".".join(Path(mutant.file).resolve().relative_to(ROOT).with_suffix("").parts)
            jobs.append(((mutant.id, base.case.name), (base.case.name, module, str(path))))
        every = [(key, watcher, words) for key, words in jobs for watcher in WATCHERS]
        said = {((mutant, case), watcher): text for mutant, case, watcher, text in map(json.loads, raw.lines(KEPT))}

        def ask(job):
            key, watcher, words = job
            if (key, watcher) not in said:
                text = watched(watcher, *words)
                raw.add(KEPT, json.dumps((*key, watcher, text)) + "\n")
                said[key, watcher] = text
                progress(f"{watcher}: {key[0]}")

        with ThreadPoolExecutor(max(1, min(14, (os.cpu_count() or 2) - 2))) as pool:
            list(pool.map(ask, every))
    return said


def run(sample: bool, progress) -> report.Suite:
    """The simulator's side of the chosen mutants, and the others' where they can be asked and `sample` is not set."""
    pairs, bases, modules, files = chosen(SAMPLE_EACH if sample else EACH, progress)
    problem = "a sample" if sample else sanitizer.cannot_be_asked()
    mismatches = [problem for base in bases for problem in base.problems]
    if problem and not sample:
        mismatches.append(problem)
    locator, mine = Locator(files), {}
    for mutant, base in pairs:
        progress(f"simulating {mutant.id}")
        mine[mutant.id] = simulated(mutant, base, modules, locator)
    said = {} if problem else asked(pairs, progress)
    key = lambda pair: (pair[0].id, pair[1].case.name)  # noqa: E731
    rows, notes = [], []
    for kind in (*KINDS, "all"):
        of_kind = [pair for pair in pairs if kind in (pair[0].kind, "all")]
        counts = Counter(mine[mutant.id] for mutant, _ in of_kind)
        reported = counts["at the place"] + counts["elsewhere"]
        theirs = _seen(said, [key(pair) for pair in of_kind])
        rows.append((kind, len(of_kind), reported, counts["at the place"], counts["output"], *theirs))
    clean = list(dict.fromkeys((UNALTERED, base.case.name) for _, base in pairs))
    rows.append((UNALTERED_ROW, len(clean), len(mismatches), 0, 0, *_seen(said, clean)))
    missed = []
    for mutant, base in pairs:
        theirs = {watcher: said.get((key((mutant, base)), watcher), "") for watcher in WATCHERS}
        told = "; ".join(f"{watcher}: {text}" for watcher, text in theirs.items() if text)
        if mine[mutant.id] not in ("at the place", "elsewhere"):
            missed.append(f"not found by the simulator: {mutant.where} {mutant.id}; {told or 'nor by any other'}")
        elif said:
            notes.append(f"{mutant.where} {mutant.id} ({mine[mutant.id]}): {told or 'nothing from the others'}")
    notes = missed + notes
    for unaltered, watcher in ((unaltered, watcher) for unaltered in clean for watcher in WATCHERS):
        if text := said.get((unaltered, watcher)):
            notes.append(f"unaltered {unaltered[1]}: {watcher}: {text}")
    return report.Suite(
        name="beside",
        title="The same broken kernels before the simulator, compute-sanitizer and a thousand runs",
        columns=COLUMNS,
        rows=tuple(rows),
        mismatches=tuple(mismatches),
        notes=tuple(notes),
        checked=len(pairs),
        where=where() if said else None,
    )


def _seen(said, keys) -> list:
    """Of how many kernels each watcher said something, and any of the tools; "not asked" where none was."""
    if not said:
        return ["not asked"] * (len(WATCHERS) + 1)
    by = [(watcher,) for watcher in WATCHERS] + [tuple(sanitizer.TOOLS)]
    return [sum(any(said[key, watcher] for watcher in watchers) for key in keys) for watchers in by]
