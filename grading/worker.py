"""The process in which a submission runs: `python -m grading.worker FOLDER`.

FOLDER holds job.json, the cases' inputs and nothing that says what is right. What the runs left goes to the standard output as one
zip file, which `returned` reads. Limits are set before the submission is read.
"""

from __future__ import annotations

import io
import json
import linecache
import os
import sys
import tempfile
import zipfile
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from . import permitted, submission, trial
from .judgement import Case, Refused
from .limits import OVER, limit


def main(folder: Path) -> None:
    """Do the job in `folder`, and write the result, or why there is none."""
    out = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # what a submission prints
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    limit(job["seconds"], job["memory_bytes"], partial(stop, out, job))
    files = {}
    try:
        result = run(folder, job, files)
    except Refused as refused:
        result = {"refused": asdict(refused.diagnosis)}
    except MemoryError:
        result = {"refused": {"kind": "memory", "message": "", "lines": []}}
    send(out, result, files)


def send(out, result: dict, files: dict) -> None:
    """Write what comes back as a zip file."""
    files["result.json"] = json.dumps(result, default=int).encode()
    with out, zipfile.ZipFile(out, "w") as back:
        for name, content in files.items():
            back.writestr(name, content)


def stop(out, job: dict, number: int, frame) -> None:
    """End this process where its time is over, and say at which line of the submission that was."""
    own, at = {name for name, *_ in submission.parts(job["file"], job["text"])}, ()
    while frame is not None and not at:
        name, line = frame.f_code.co_filename, frame.f_lineno
        at = ((name, line, linecache.getline(name, line).strip()),) if name in own else ()
        frame = frame.f_back
    where = "".join(f", at {name}:{line}" for name, line, _ in at)
    said = OVER.format(file=job["file"], seconds=job["seconds"], where=where)
    send(out, {"refused": {"kind": "time", "message": said, "lines": at}}, {})
    os._exit(0)


def run(folder: Path, job: dict, files: dict) -> dict:
    """Try the submission on each case; outputs and traces go into `files`, findings into the result."""
    before = permitted.surface()
    anew = partial(submission.load, job["file"], job["text"], job["target"], job["functions"])
    cases = [read_case(folder, i, words) for i, words in enumerate(job["cases"])]
    results = []
    seen = [(trial.plain(make), tuple(shape)) for make, shape in job["seen"]]
    for i, outcome in enumerate(trial.outcomes(anew(), cases, anew, seen)):
        returned = outcome.outputs.pop("answer", None)
        for kind, arrays in (("out", outcome.outputs), ("exact", outcome.exact)):
            if arrays or kind == "out":
                content = io.BytesIO()
                np.savez(content, **arrays)
                files[f"{i}.{kind}.npz"] = content.getvalue()
        if outcome.trace is not None:
            with tempfile.TemporaryDirectory() as home:
                outcome.trace.save(Path(home, "trace"))
                files[f"{i}.trace.npz"] = Path(home, "trace").read_bytes()
        findings = [
            {"kind": f.kind, "message": f.message, "lines": [(x.file, x.number, x.text, x.function) for x in f.lines]}
            for f in outcome.findings
        ]
        results.append(
            {"findings": findings, "parameters": outcome.parameters, "answer": returned, "asked": outcome.asked}
        )
    after = permitted.surface()
    if any(after.get(one) != members for one, members in before.items()):
        raise Refused(
            "refused", "The submission changes what it imports. It may give attributes to objects of its own only."
        )
    return {"outcomes": results}


def read_case(folder: Path, i: int, words: dict) -> Case:
    """Case `i` of a job, its arrays from their file."""
    with np.load(folder / f"{i}.in.npz", allow_pickle=False) as arrays:
        inputs = {name: arrays[name] for name in words.pop("inputs")}
        outputs = {name: arrays[name] for name in words.pop("outputs")}
    lists, made = words.pop("lists"), words.pop("make")
    make = [one if isinstance(one, dict) else trial.plain(one) for one in made]
    make = tuple(list(one) if k in lists else one for k, one in enumerate(make))
    return Case(**words, make=make, inputs=inputs, outputs=outputs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
