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
    try:
        if args.file.exists() and not args.file.is_file():
            raise OSError(None, "it is no file")
        with args.file.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        print(f"grade: cannot read {args.file}: {error.strerror}", file=sys.stderr)
        return 2
    if len(text) > MAX_BYTES or args.seed < 0 or not 0 < args.seconds < float("inf"):
        print(
            "grade: a submission has at most 1 MiB, --seed is not negative, --seconds is a number above 0",
            file=sys.stderr,
        )
        return 2
    report = grade(args.lab, args.file.name, text.decode("utf-8-sig", "replace"), args.seed, args.seconds)
    print(json.dumps(report.as_json(), indent=2) if args.json else report)
    return 0 if report.full else 1


def grade(name: str, file: str, text: str, seed: int = 0, seconds: float = sandbox.SECONDS) -> Report:
    """The report on a submission's text; `file` says how to read it and how to name its lines."""
    module = lab(name)
    try:
        asked = module.TARGET, module.FUNCTIONS
        checks = diagnoses.judge(module, sandbox.outcomes(file, text, *asked, module.cases(seed), seconds))
    except Refused as refused:
        checks = [Check(check, points, refused.diagnosis) for check, points in module.CHECKS.items()]
    return Report(name, file, seed, tuple(checks))
