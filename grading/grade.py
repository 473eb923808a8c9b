"""`quack-tutorial grade block-reduce answer.py`: grade a submission, on the simulator.

Exit status: 0 for full marks, 1 for less, 2 when the words make no sense, 3 if the grader itself failed. With --gradescope it is 0
when results.json is written, whatever it says: Gradescope takes anything else for a broken autograder.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from . import compiled, diagnoses, folders, lab, sandbox
from .judgement import OWN, Case, Check, Refused, Report, clean, failed
from .submission import MAX_BYTES, MAX_NOTEBOOK, sizes, without_outputs

MOST_NAMED = 6  # files that a sentence lists
RESULTS = Path("/autograder/results/results.json")  # where Gradescope looks
CALLS = re.compile(r"labs\.(?:check|watch)\(\s*\\?[\"']([\w-]+)")


def add_arguments(parser) -> None:
    """The command's words."""
    parser.add_argument("lab", choices=sorted(folders()), help="the lab")
    parser.add_argument(
        "file", type=Path, nargs="?", help="the submission, or its folder: .py, .ipynb or MyST .md (default LAB.ipynb)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the inputs; a term can have its own (default 0)")
    parser.add_argument("--seconds", type=float, default=sandbox.SECONDS, help="time limit (default %(default)g)")
    parser.add_argument("--no-compile", action="store_true", help="do not confirm full marks with CuTe DSL's compiler")
    parser.add_argument("--gradescope", action="store_true", help="write Gradescope's results.json")
    parser.add_argument("--results", type=Path, help=f"where --gradescope writes it (default {RESULTS}, else here)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args) -> int:
    """Grade and print; returns the exit status."""
    args.file = args.file or _handed_in(args.lab)
    if args.seed < 0 or not 0 < args.seconds < float("inf"):
        print("grade: --seed is not negative, --seconds is a number above 0", file=sys.stderr)
        return 2
    try:
        args.file = chosen(args.lab, args.file) if args.file.is_dir() else args.file
        report = grade(args.lab, args.file.name, read(args.file), args.seed, args.seconds, not args.no_compile)
    except Exception as error:
        refused = error if isinstance(error, Refused) else Refused("not graded", failed(error))
        if not args.gradescope:
            print(f"grade: {clean(str(refused))}", file=sys.stderr)
            return 2 if refused is error else 3
        report = nothing(args.lab, args.file.name, args.seed, refused)
    if args.gradescope:
        file = args.results or (RESULTS if RESULTS.parent.is_dir() else Path(RESULTS.name))
        try:
            file.write_text(json.dumps(gradescope(report), indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            print(f"grade: cannot write {file}: {error.strerror}: name another file with --results", file=sys.stderr)
            return 2
        print(f"wrote {file}: {report.score} of {report.points} points")
        if sandbox.problem():
            print(f"grade: {sandbox.problem()} The submission could read whatever this user can.", file=sys.stderr)
        return 0
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


def chosen(name: str, folder: Path) -> Path:
    """A lab's file among those that were handed in; Refused where none is it, or two are."""
    files = sorted(
        file for file in folder.iterdir() if suffix_of(file.name) and file.is_file() and not file.is_symlink()
    )
    own = [file for file in files if suffix_of(file.name) and original(file.name)[0] == name]
    own = own or [file for file in files if lab_of(file.name, file.read_bytes()[:MAX_BYTES]) == name]
    own = own or [
        file for file in files if lab_of(file.name, file.read_bytes()[:MAX_BYTES]) is None and file.name != "README.md"
    ]
    exact = [file for file in own if file.stem == name] or own
    if len(exact) == 1:
        return exact[0]
    there, more = [clean(file.name, 100) for file in exact or files], len(exact or files) - MOST_NAMED
    there = ", ".join(there[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "") or "no notebook and no .py or .md"
    how = "hand in one of them" if exact else f"hand in {name}.ipynb"
    raise Refused("unreadable" if not exact else "two files", f"this holds {there}: {how}")


def gradescope(report: Report) -> dict:
    """The report as Gradescope's results.json: a test for each check, with its diagnosis where that is told first."""
    told, tests = set(), []
    for check in report.checks:
        d = check.diagnosis
        output = "right" if d is None else f"{d.kind}: as above" if d.kind in told else d.message
        if d and d.kind not in told:
            output = "\n".join([output, *(f"{file}:{number}:  {text}" for file, number, text in d.lines)])
            told.add(d.kind)
        test = {"name": check.name, "score": check.score, "max_score": check.points, "output": output}
        tests.append(test | {"status": "failed" if d else "passed", "visibility": "visible"})
    output = f"{report.score} of {report.points} points ({report.lab}) {report.compiled}".rstrip()
    return {"output": output, "output_format": "text",
            "test_output_format": "text", "stdout_visibility": "hidden", "tests": tests}  # fmt: skip


def read(file: Path) -> str:
    """A submission's text, a notebook's without its outputs; Refused if it is no plain file of at most 1 MiB."""
    notebook = suffix_of(file.name) == ".ipynb"
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
        OWN.set(sizes(file, text, seed))
        cases = module.cases(seed)
        OWN.set(())
        asked = module.TARGET, module.FUNCTIONS
        checks = diagnoses.judge(module, sandbox.outcomes(file, text, *asked, cases, seconds))
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
        return replace(report, compiled=f"Compiled by {dsl} for each shape.")
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


def lab_of(name: str, data: bytes) -> str | None:
    """The lab of a file by its name, else by the checks that it calls."""
    known = folders()
    stem, _ = original(name)
    if stem in known:
        return stem
    within = [lab for lab in known if re.search(rf"(?<![a-z]){re.escape(lab)}(?![a-z])", stem)]
    if len(within) == 1:
        return within[0]
    called = Counter(lab for lab in CALLS.findall(data.decode("utf-8", "replace")) if lab in known)
    return called.most_common(1)[0][0] if called else None


def original(name: str) -> tuple[str, int]:
    """(the stem that a student's file had, in small letters; the number that a browser or Canvas gave its copy)."""
    stem = name[: len(name) - len(_ending(name))].lower().strip()
    copies = 0
    while found := re.search(r"(?:\s*\((\d+)\)|-(\d+)|\s*[-_ ]\s*copy(?:\s*\(?(\d+)\)?)?)$", stem):
        if stem in folders():
            break
        copies += max([int(n) for n in found.groups() if n], default=1)
        stem = stem[: found.start()].strip()
    stem = re.sub(r"^copy(\d*)? of ", "", stem)
    return re.sub(r"[\s_]+", "-", stem), copies


def suffix_of(name: str) -> str:
    """.ipynb, .md or .py; "" for another file."""
    return re.match(r"\.(?:ipynb|md|py)|", _ending(name).lower())[0]


def _ending(name: str) -> str:
    """A name's suffix, with what a browser hung behind it."""
    found = re.search(r"\.(ipynb|md|py)(\.txt|\.json)?$", name, re.IGNORECASE)
    return found[0] if found else ""
