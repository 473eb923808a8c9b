"""`quack-tutorial grade block-reduce answer.py`: grade a submission, on the simulator.

Exit status: 0 for full marks, 1 for less, 2 when the words make no sense, 3 if the grader itself failed.
"""

from __future__ import annotations

import contextvars
import json
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

from . import compiled, diagnoses, folders, lab, sandbox
from .judgement import OWN, Case, Check, Refused, Report, clean, failed
from .submission import MAX_BYTES, MAX_NOTEBOOK, without_outputs

ROUNDS, MOST_ASKED = 3, 30  # of cases that the answer asks for, and how many such in one


def add_arguments(parser) -> None:
    """The command's words."""
    parser.add_argument("lab", choices=sorted(folders()), help="the lab")
    parser.add_argument(
        "file", type=Path, nargs="?", help="the submission: .py, .ipynb or MyST .md (default LAB.ipynb)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the inputs; a term can have its own (default 0)")
    parser.add_argument("--seconds", type=float, default=sandbox.SECONDS, help="time limit (default %(default)g)")
    parser.add_argument("--no-compile", action="store_true", help="do not confirm full marks with CuTe DSL's compiler")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args) -> int:
    """Grade and print; returns the exit status."""
    args.file = args.file or _handed_in(args.lab)
    if args.seed < 0 or not 0 < args.seconds < float("inf"):
        print("grade: --seed is not negative, --seconds is a number above 0", file=sys.stderr)
        return 2
    try:
        report = grade(args.lab, args.file.name, read(args.file), args.seed, args.seconds, not args.no_compile)
    except Exception as error:
        refused = error if isinstance(error, Refused) else Refused("not graded", failed(error))
        print(f"grade: {clean(str(refused))}", file=sys.stderr)
        return 2 if refused is error else 3
    print(json.dumps(report.as_json(), indent=2) if args.json else report)
    if args.file.suffix == ".ipynb" and not args.json:
        saved = time.strftime("%H:%M:%S on %d %B", time.localtime(args.file.stat().st_mtime)).replace(" 0", " ")
        print(f"{args.file.name} as it was saved at {saved}: what you have written since is not in it.")
    return 0 if report.full else 1


def _handed_in(name: str) -> Path:
    """A lab's notebook here, or in the copies that `make lab` keeps."""
    here = Path(f"{name}.ipynb")
    places = here, Path("labs", name, here), Path("work/labs", name, here)
    return next((place for place in places if place.exists()), here)


def read(file: Path) -> str:
    """A submission's text, a notebook's without its outputs; Refused if it is no plain file of at most 1 MiB."""
    notebook = file.suffix == ".ipynb"
    try:
        if file.exists() and not file.is_file():  # a pipe would never end
            raise OSError(None, "it is no file")
        with file.open("rb") as content:
            text = content.read((MAX_NOTEBOOK if notebook else MAX_BYTES) + 1)
    except OSError as error:
        raise Refused("unreadable", f"cannot read {file}: {error.strerror}: name a .ipynb, .py or .md file") from None
    if notebook and len(text) <= MAX_NOTEBOOK:
        text = without_outputs(text)
    if len(text) > MAX_BYTES:
        outputs = ", even without the outputs of its cells" * notebook
        raise Refused("unreadable", f"{file} is larger than 1 MiB{outputs}, the most that a submission may have")
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):  # as PowerShell's > writes
        return text.decode("utf-16", "replace")
    if b"\0" in text:
        raise Refused("unreadable", f"{file.name} is no text: hand in a notebook (.ipynb) or Python (.py, .md)")
    return text.decode("utf-8-sig", "replace")


def grade(
    name: str, file: str, text: str, seed: int = 0, seconds: float = sandbox.SECONDS, confirm: bool = True
) -> Report:
    """The report on a submission's text; `file` says how to read it and how to name its lines.

    With `confirm` a kernel with full marks is compiled by CuTe DSL, where it is installed.
    """
    module = lab(name)
    try:
        cases = more = module.cases(seed)
        outcomes, asked = [], []
        for _ in range(ROUNDS):
            outcomes += sandbox.outcomes(
                file, text, module.TARGET, module.FUNCTIONS, more, seconds, seen=tuple(outcomes)
            )
            checks = diagnoses.judge(module, outcomes)
            new = sorted({(o.case.make, *size) for o in outcomes for size in o.asked} - {*asked})
            asked += random.Random(seed).sample(new, min(MOST_ASKED, len(new)))
            context = contextvars.copy_context()
            context.run(OWN.set, asked)
            more = context.run(module.cases, seed)[len(outcomes) :]
            if not more or any(check.diagnosis for check in checks):
                break
    except Refused as refused:
        return nothing(name, file, seed, refused)
    report = Report(name, file, seed, tuple(checks)).cleaned()
    return confirmed(report, file, text, cases, confirm) if report.full and module.TARGET else report


def confirmed(report: Report, file: str, text: str, cases: list[Case], confirm: bool) -> Report:
    """The report on a kernel with full marks, after CuTe DSL has seen it: one that it refuses loses the last check's points."""
    why = compiled.problem() if confirm else "--no-compile leaves it out."
    if why:
        return replace(report, compiled=f"Not compiled: {why}")
    refused = compiled.compile_answer(file, text, lab(report.lab).TARGET, cases)
    dsl = f"CuTe DSL {compiled.DSL_VERSION}"
    if refused is None:
        return replace(
            report, compiled=f"Compiled by {dsl} for each shape of rows of up to {compiled.LONGEST:,} numbers."
        )
    *others, last = report.checks
    at = f" at {refused.lines[0][0]}:{refused.lines[0][1]}" if refused.lines else ""
    cost = f"the point of {last.name}" if last.points == 1 else f"the {last.points} points of {last.name}"
    message = (
        f"The simulator accepts this kernel, and {dsl} refuses to compile it{at}, which costs {cost}: {refused.message}"
    )
    return replace(report, checks=(*others, replace(last, diagnosis=replace(refused, message=message)))).cleaned()


def nothing(name: str, file: str, seed: int, refused: Refused) -> Report:
    """The report on a submission that could not be tried: no points, and why."""
    checks = [Check(check, points, refused.diagnosis) for check, points in lab(name).CHECKS.items()]
    return Report(name, file, seed, tuple(checks)).cleaned()
