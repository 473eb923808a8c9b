"""Suite `checkers`: kinds of bugs before the simulator and before other checkers that need no GPU either.

Each kind is a small kernel, right and broken (`kernels`). The simulator sees its source, and SentryWard the PTX that CuTe DSL
compiles from it (`sentryward`); TIRx's racecheck and synccheck see its twin in their own language (`twins`). These three run in the
interpreter that the environment variable `QUACK_TIRX_PYTHON` names, which needs `pip install tirx-harness sentryward`.
tirx-harness builds its engine with cargo, which takes minutes the first time.

*found* is a report on the broken kernel, *at its line* one that names a line marked `# here`; *refused* is neither a report nor
a clean bill. A report on a right kernel is a false one. What the simulator misses, or says of a right kernel, is a mismatch;
what the others refuse or say falsely is told in notes. A kernel that an ordinary run calls clean is tried in every order.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from cutesim.simulation import simulate
from quack_tutorial.records import suite as report
from validation.checkers import kernels, sentryward

VARIABLE = "QUACK_TIRX_PYTHON"
BUILT = "QUACK_TIRX_BUILT"  # a sentence on how tirx-harness's engine was built, where it was not as pip and cargo do it
SILENT, FOUND, REFUSED = "silent", "found", "refused"
OURS, THEIRS = "simulator", ("racecheck", "synccheck", "SentryWard")
TOOLS = (OURS, *THEIRS)
COLUMNS = ("kind", *TOOLS)
FALSE = "reports on the right kernels"
TIRX_SAYS = {"clean": SILENT, "error": FOUND, "review": FOUND}  # the last verdict, incomplete, says that it cannot tell
SAMPLE = 3
WORKER = Path(__file__).with_name("twins_worker.py")
ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("tirx-harness", "tirx-kernels", "apache-tvm", "sentryward")


def problem() -> str | None:
    """Why the others cannot be asked here, or None."""
    python = os.environ.get(VARIABLE)
    if not python:
        return f"{VARIABLE} names no interpreter that has tirx-harness and sentryward"
    done = subprocess.run(
        [python, "-c", "import tirx_harness, sentryward"], capture_output=True, text=True, check=False
    )
    return (done.stderr.strip() or "no word").splitlines()[-1] if done.returncode else None


def simulated(case, bug: bool) -> tuple[str, bool, str]:
    """The simulator's (verdict, whether a finding names a marked line, words)."""
    arrays = case.arrays()
    first = simulate(case.host, *arrays, bug)
    findings, how, launch = first.findings, "", first.trace.launches[-1]
    if not findings and launch.blocks * -(-launch.threads // 32) <= kernels.MOST_WARPS:
        run = simulate(case.host, *case.arrays(), bug, orders="all")
        findings, how = run.findings, f"in one of {run.tried} orders: "
    if not findings and not bug:
        np.testing.assert_allclose(arrays[2], case.right(*case.arrays()[:2]), rtol=1e-4, atol=1e-4)
    at = any("# here" in line.text for finding in findings for line in finding.lines)
    words = how + "; ".join(f"{finding.kind}: {finding.message}" for finding in findings)
    return (FOUND if findings else SILENT), at, words


def from_twins(python: str, cases, progress) -> dict:
    """{(tool, kernel, whether it is broken): (verdict, at, words)} of TIRx's two checkers."""
    said = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            np.savez(Path(folder, f"{case.name}.npz"), **dict(zip(("x", "y", "out"), case.arrays())))
        command = [python, str(WORKER), folder, "racecheck", "synccheck"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in filter(lambda line: line.startswith("{"), process.stdout):
                one = json.loads(line)
                verdict = TIRX_SAYS.get(one["verdict"], REFUSED)
                said[one["checker"], one["name"], bool(one["bug"])] = verdict, one["at"], one["words"]
                progress(f"{one['checker']}: {one['name']}")
    return said


def from_sentryward(python: str, cases, progress) -> dict:
    """The same of SentryWard."""
    said = {}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "validation.checkers.ptx_worker", folder]
        subprocess.run(command, env={**os.environ, "CUTE_DSL_LINEINFO": "1"}, cwd=ROOT, check=True, timeout=600)
        for case in cases:
            launch = simulate(case.host, *case.arrays(), False).trace.launches[-1]
            for bug in (False, True):
                progress(f"SentryWard: {case.name}")
                path = Path(folder, f"{case.name}.{bug:d}.ptx")
                answer = sentryward.asked(python, path, launch)
                said["SentryWard", case.name, bug] = sentryward.judged(answer)
    return said


def run(sample: bool, progress) -> report.Suite:
    """Ask all four of every kind, of a sample of the first few."""
    python = os.environ[VARIABLE]
    cases = dict(list(kernels.CASES.items())[: SAMPLE if sample else None])
    said = {}
    for case in cases.values():
        for bug in (False, True):
            progress(f"{OURS}: {case.name}")
            said[OURS, case.name, bug] = simulated(case, bug)
    said |= from_twins(python, cases.values(), progress) | from_sentryward(python, cases.values(), progress)
    suite = compared(cases, said, where(python))
    built = os.environ.get(BUILT)
    return dataclasses.replace(suite, notes=(built, *suite.notes)) if built else suite


def compared(cases, said, place=None) -> report.Suite:
    """The suite from {(tool, kernel, whether it is broken): (verdict, at, words)}; what we miss and others find comes first."""
    names = {kind: case.name for kind, case in cases.items()}
    missed = [kind for kind, name in names.items() if said[OURS, name, True][0] != FOUND]
    order = sorted(names, key=lambda kind: (kind not in missed, list(names).index(kind)))
    rows, notes, mismatches = [], [], []
    for kind in order:
        told = {tool: said.get((tool, names[kind], True), (REFUSED, False, "no answer")) for tool in TOOLS}
        rows.append((kind, *(f"{verdict}, at its line" if at else verdict for verdict, at, _ in told.values())))
        if kind in missed:
            mismatches.append(f"{kind}: the simulator is {told[OURS][0]}")
        notes += [f"{kind}: {tool} {words}" for tool, (verdict, _, words) in told.items() if verdict == REFUSED]
    false = {tool: 0 for tool in TOOLS}
    for kind, name in names.items():
        for tool in TOOLS:
            verdict, _, words = said.get((tool, name, False), (SILENT, False, ""))
            if verdict == FOUND:
                false[tool] += 1
                (mismatches if tool == OURS else notes).append(f"{kind}, the right kernel: {tool}: {words}")
    found = {tool: sum(said.get((tool, name, True), ("",))[0] == FOUND for name in names.values()) for tool in TOOLS}
    rows.append((f"found of {len(names)}", *found.values()))
    rows.append((FALSE, *false.values()))
    return report.Suite(
        name="checkers",
        title="Kinds of bugs before the simulator and other checkers that need no GPU",
        columns=COLUMNS,
        rows=tuple(rows),
        mismatches=tuple(mismatches),
        notes=tuple(note[:400] for note in notes),
        checked=2 * len(TOOLS) * len(names),
        where=place,
    )


def where(python: str) -> dict:
    """The versions of all that was asked."""
    code = f"import importlib.metadata as m, json; print(json.dumps({{n: m.version(n) for n in {PACKAGES!r}}}))"
    theirs = json.loads(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout)
    import cutlass

    return {**report.here(), "dsl": cutlass.__version__, **theirs, "machine": platform.machine()}
