"""The process in which a submission runs: `python -m quack_tutorial.labs.worker FOLDER`.

FOLDER holds job.json, the cases' inputs and nothing that says what is right; what the runs left is written there as well.
Limits of time and memory are set before the submission is read.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from . import submission, trial
from .judgement import Case, Refused


def main(folder: Path) -> None:
    """Do the job in `folder`; the result, or why there is none, is in result.json."""
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    limit(job["seconds"], job["memory_bytes"])
    try:
        result = run(folder, job)
    except Refused as refused:
        result = {"refused": asdict(refused.diagnosis)}
    except MemoryError:
        result = {"refused": {"kind": "memory", "message": "", "lines": []}}
    (folder / "result.json").write_text(json.dumps(result, default=int), encoding="utf-8")


def run(folder: Path, job: dict) -> dict:
    """Try the submission on each case; outputs and traces go into files, findings into the result."""
    answers = submission.load(job["file"], job["text"], job["target"], job["functions"])
    cases = [read_case(folder, i, words) for i, words in enumerate(job["cases"])]
    results = []
    for i, outcome in enumerate(trial.outcomes(answers, cases)):
        returned = outcome.outputs.pop("answer", None)
        np.savez(folder / f"{i}.out.npz", **outcome.outputs)
        if outcome.trace is not None:
            outcome.trace.save(folder / f"{i}.trace.npz")
        findings = [asdict(f) for f in outcome.findings]
        results.append({"findings": findings, "parameters": outcome.parameters, "answer": returned})
    return {"outcomes": results}


def read_case(folder: Path, i: int, words: dict) -> Case:
    """Case `i` of a job, its arrays from their file."""
    with np.load(folder / f"{i}.in.npz", allow_pickle=False) as arrays:
        inputs = {name: arrays[name] for name in words.pop("inputs")}
        outputs = {name: arrays[name] for name in words.pop("outputs")}
    return Case(**words | {"make": trial.plain(words["make"])}, inputs=inputs, outputs=outputs)


def limit(seconds: float, memory_bytes: int) -> None:
    """Limit this process's time, memory, files and child processes, as far as the system can."""
    try:
        import resource
    except ImportError:  # Windows has none of these; the parent's time limit holds there as well
        return
    whole = int(seconds) + 1
    for name, amount in (
        ("RLIMIT_CPU", whole),
        ("RLIMIT_AS", memory_bytes),
        ("RLIMIT_FSIZE", 64 * 2**20),
        ("RLIMIT_CORE", 0),
    ):
        try:
            resource.setrlimit(getattr(resource, name), (amount, amount))
        except (AttributeError, ValueError, OSError):  # macOS refuses some
            continue


if __name__ == "__main__":
    main(Path(sys.argv[1]))
