"""`quack-tutorial grade block-reduce answer.py`: grade a submission, on the simulator.

Exit status: 0 for full marks, 1 for less, 2 when the words make no sense.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from . import diagnoses, folders, lab, sandbox
from .judgement import Check, Refused, Report

MAX_BYTES = 2**20


def add_arguments(parser) -> None:
    """The command's words."""
    parser.add_argument("lab", choices=sorted(folders()), help="the lab")
    parser.add_argument("file", type=Path, help="the submission: .py, .ipynb or MyST .md")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs; a term can have its own (default 0)")
    parser.add_argument("--seconds", type=float, default=sandbox.SECONDS, help="time limit (default %(default)g)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args) -> int:
    """Grade and print; returns the exit status."""
    if args.seed < 0 or not 0 < args.seconds < float("inf"):
        print("grade: --seed is not negative, --seconds is a number above 0", file=sys.stderr)
        return 2
    try:
        text = read(args.file)
    except Refused as refused:
        print(f"grade: {refused}", file=sys.stderr)
        return 2
    report = grade(args.lab, args.file.name, text, args.seed, args.seconds)
    print(json.dumps(report.as_json(), indent=2) if args.json else report)
    return 0 if report.full else 1


def read(file: Path) -> str:
    """A submission's text; Refused if it is no plain file of at most 1 MiB."""
    try:
        if file.exists() and not file.is_file():  # a pipe would never end
            raise OSError(None, "it is no file")
        with file.open("rb") as content:
            text = content.read(MAX_BYTES + 1)
    except OSError as error:
        raise Refused("unreadable", f"cannot read {file}: {error.strerror}") from None
    if len(text) > MAX_BYTES:
        raise Refused("unreadable", f"{file} is larger than 1 MiB, the most that a submission may have")
    return text.decode("utf-8-sig", "replace")


def grade(name: str, file: str, text: str, seed: int = 0, seconds: float = sandbox.SECONDS) -> Report:
    """The report on a submission's text; `file` says how to read it and how to name its lines."""
    module = lab(name)
    try:
        asked = module.TARGET, module.FUNCTIONS
        checks = diagnoses.judge(module, sandbox.outcomes(file, text, *asked, module.cases(seed), seconds))
    except Refused as refused:
        checks = [Check(check, points, refused.diagnosis) for check, points in module.CHECKS.items()]
    return Report(name, file, seed, tuple(checks))
