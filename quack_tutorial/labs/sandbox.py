"""Starts the process in which a submission runs, and reads back what it found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from quack_tutorial.trace import Finding, Line, Trace

from .judgement import Case, Outcome, Refused
from .trial import plain

SECONDS = 30.0
MEMORY_BYTES = 2 * 2**30
PACKAGE_ROOT = Path(__file__).resolve().parents[2]


def outcomes(
    file: str, text: str, target: str, functions: tuple, cases: list[Case], seconds=SECONDS, memory=MEMORY_BYTES
) -> list[Outcome]:
    """Run a submission's class `target` and its functions on the cases, in a process of its own; Refused if nothing comes back."""
    with tempfile.TemporaryDirectory(prefix="lab-") as name:
        folder = Path(name)
        job = {"file": file, "text": text, "target": target, "functions": functions}
        write_job(folder, job | {"seconds": seconds, "memory_bytes": memory}, cases)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "quack_tutorial.labs.worker", name],
                cwd=name,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=seconds + 5,
            )
            status = done.returncode
        except subprocess.TimeoutExpired:
            status = None
        result = folder / "result.json"
        if not result.exists():
            raise how_it_ended(file, status, seconds, memory)
        return read_outcomes(folder, json.loads(result.read_text(encoding="utf-8")), cases, memory)


def how_it_ended(file: str, status, seconds: float, memory: int) -> Refused:
    """A process that left no result: what its exit status says."""
    if status is None or status in (-24, -9):  # SIGXCPU, SIGKILL
        return Refused(
            "time",
            f"{file} was still running after {seconds:g} s; a right answer takes about one. Does some loop never end?",
        )
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    return Refused(
        "crash", f"{file} ended its process ({how}) and left no answer; memory is limited to {memory >> 20} MiB"
    )


def environment() -> dict:
    """As little of the caller's environment as Python needs."""
    kept = {
        k: v for k, v in os.environ.items() if k in ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "LANG")
    }
    # Each thread of a BLAS library would reserve address space, which is limited.
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return kept | one_thread | {"PYTHONPATH": str(PACKAGE_ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


def write_job(folder: Path, job: dict, cases: list[Case]) -> None:
    """Write what the worker needs: the submission, the cases, their inputs."""
    words = []
    for i, case in enumerate(cases):
        np.savez(folder / f"{i}.in.npz", **case.inputs, **case.outputs)
        how = {"name": case.name, "make": case.make, "schedule": case.schedule, "seed": case.seed,
               "target": case.target}  # fmt: skip
        words.append(how | {"inputs": list(case.inputs), "outputs": list(case.outputs)})
    (folder / "job.json").write_text(json.dumps(job | {"cases": words}), encoding="utf-8")


def read_outcomes(folder: Path, result: dict, cases: list[Case], memory: int) -> list[Outcome]:
    """The outcomes that the worker wrote; Refused if it wrote why there are none."""
    refused = result.get("refused")
    if refused:
        message = refused["message"] or f"the submission asked for more than {memory >> 20} MiB of memory"
        raise Refused(refused["kind"], message, tuple(map(tuple, refused["lines"])))
    found = []
    for i, (case, words) in enumerate(zip(cases, result["outcomes"], strict=True)):
        with np.load(folder / f"{i}.out.npz", allow_pickle=False) as arrays:
            outputs = {name: arrays[name] for name in case.outputs}
        if case.target:
            outputs = {"answer": None if words["answer"] is None else plain(words["answer"])}
        path = folder / f"{i}.trace.npz"
        trace = Trace.load(path) if path.exists() else None
        found.append(Outcome(case, outputs, tuple(map(_finding, words["findings"])), trace, tuple(words["parameters"])))
    return found


def _finding(words: dict) -> Finding:
    return Finding(**words | {"lines": tuple(Line(**line) for line in words["lines"])})
