"""`quack-tutorial labs WHAT ...`: the labs of a course, from handing them out to a table of points.

| command                       | does                                                                                  |
|-------------------------------|---------------------------------------------------------------------------------------|
| `list`                        | prints each lab, what it asks for and what its checks are worth                        |
| `check [LAB] [ANSWER]`        | grades the corpus of answers, disguised too; exit status 1 if one is told something else. |
|                               | With `--mutate`: makes wrong answers from the right one, and says which still get full marks |
| `show LAB ANSWER`             | prints an answer of the corpus, as a file that `grade` takes                           |
| `student LAB FILE`            | writes a lab's notebook, .md or .ipynb, without its solutions and hidden tests         |
| `export-task LAB FOLDER`      | writes a lab's kernel as a task for KernelBot and FlashInfer-Bench                     |
| `release FOLDER`              | writes the students' copies of all labs into a folder                                 |
| `collect DOWNLOAD FOLDER`     | sorts an LMS's download into FOLDER/<student>/<lab>.ipynb                               |
| `autograde FOLDER`            | grades FOLDER/<student>/<lab>.ipynb, .md or .py; goes on where it was stopped           |
| `regrade FOLDER [LAB]`        | grades these once more, with the same seeds, and says what changed                    |
| `words FOLDER [LAB]`          | puts the answers in words beside their rubric, and their points into grades.csv       |
| `alike FOLDER [LAB]`          | says which answers share code that was not handed out                                 |
| `feedback FOLDER`             | writes FOLDER/feedback/<student>.html from the grades                                 |
| `export FOLDER`               | writes FOLDER/export: totals, and tables for Canvas and Moodle                        |

The labs are in the repository's folder labs/, which an installed package does not have: QUACK_TUTORIAL_LABS names it.
"""

from __future__ import annotations

import argparse
import sys
import time
from datetime import datetime
from pathlib import Path

from . import (
    alike,
    autograde,
    collect,
    corpus,
    export,
    feedback,
    folders,
    lab,
    mutations,
    release,
    sandbox,
    student,
    targets,
    task,
    words,
)
from .grade import NO_COMPILE

KIT = ("release", "collect", "autograde", "regrade", "words", "alike", "feedback", "export")
TASK = "export-task"


def add_arguments(parser) -> None:
    """The command's words."""
    parser.add_argument("what", choices=["list", "check", "show", "student", TASK, *KIT], help="what to do")
    parser.add_argument(
        "lab", nargs="?", help=f"the lab (default: all), the folder or the download: {', '.join(folders())}"
    )
    parser.add_argument(
        "file",
        nargs="?",
        help="the answer to show or check; where `student` writes the notebook (.md); the kit's lab or folder",
    )
    parser.add_argument(
        "--seed", type=int, help="autograde: of the inputs (default: another for each submission, kept with its grade)"
    )
    parser.add_argument("--seconds", type=float, default=sandbox.SECONDS, help="autograde: for each file (%(default)g)")
    parser.add_argument(
        "--trusted",
        action="store_true",
        help="autograde: grade without a sandbox, too: their authors may run code here",
    )
    parser.add_argument("--lab", dest="of", metavar="LAB", default="", help="collect: the lab that the download is of")
    parser.add_argument("--roster", type=Path, help="collect: the class as the LMS exports it, CSV")
    parser.add_argument("--due", type=_due, help="collect: when it was due, 2026-10-12T23:59")
    parser.add_argument("--nbgrader", action="store_true", help="collect: into the folders that nbgrader reads")
    parser.add_argument("--student", help="regrade: this student alone")
    parser.add_argument(
        "--late", type=_policy, default=(export.FREE, export.MOST, export.COST), metavar="FREE,MOST,COST",
        help="export: late days that are free in the term and at most for a lab, and what each further one costs (default 4,2,0.1)",
    )  # fmt: skip
    parser.add_argument("--no-compile", action="store_true", help=f"autograde: {NO_COMPILE}")
    parser.add_argument("--mutate", action="store_true", help="check: make wrong answers from the right one instead")
    parser.add_argument("--sample", action="store_true", help="check each lab's first answers only, as they are")


def _policy(text: str) -> tuple:
    try:
        free, most, cost = map(float, text.split(","))
    except ValueError:
        free = most = cost = -1
    if not (free >= 0 and most >= 0 and 0 <= cost <= 1):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not FREE,MOST,COST such as 4,2,0.1: three numbers of at least 0, the last at most 1"
        )
    return free, most, cost


def _due(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date and time such as 2026-10-12T23:59") from None


def run(args) -> int:
    """Do it; returns the exit status."""
    found = folders()
    if args.what in KIT:
        return kit(args)
    if args.lab and args.lab not in found:
        print(f"labs: there is no lab {args.lab!r}; there is {', '.join(found) or 'none'}", file=sys.stderr)
        return 2
    names = [args.lab] if args.lab else list(found)
    if not found:
        print("labs: no labs here; QUACK_TUTORIAL_LABS names the repository's labs/", file=sys.stderr)
        return 2
    if args.what == "list":
        for name in names:
            module = lab(name)
            checks = ", ".join(f"{check} {points}" for check, points in module.CHECKS.items())
            print(f"{name}: {module.TITLE}. Hand in {' and '.join(targets(module))}; points: {checks}.")
        return 0
    if args.what in ("check", "show") and args.file and args.file not in (known := corpus.answers(found[args.lab])):
        print(f"labs: {args.lab} has no answer {args.file}; there is {', '.join(known)}", file=sys.stderr)
        return 2
    if args.what == "check" and args.mutate:
        return 0 if all([mutate(name, found[name], args.seed or 0) for name in names]) else 1
    if args.what == "check":
        return 0 if all([check(name, found[name], args.file, args.sample) for name in names]) else 1
    if not args.lab or not args.file:
        print(f"labs: name a lab and {'an answer' if args.what == 'show' else 'a file'}", file=sys.stderr)
        return 2
    if args.what == TASK:
        try:
            files = task.export(args.lab, Path(args.file))
        except ValueError as error:
            print(f"labs: {error}", file=sys.stderr)
            return 2
        print("\n".join(f"wrote {file}" for file in files))
        return 0
    if args.what == "show":
        print(corpus.answers(found[args.lab])[args.file][0], end="")
        return 0
    master = (found[args.lab] / f"{args.lab}.md").read_text(encoding="utf-8")
    given = student.student_version(master)
    if args.file.endswith(".ipynb"):
        try:
            given = release.notebook(args.lab, given)
        except ImportError:
            print("labs: a .ipynb needs jupytext (pip install jupytext); .md needs nothing", file=sys.stderr)
            return 2
    Path(args.file).write_text(given, encoding="utf-8")
    print(f"wrote {args.file}")
    return 0


def kit(args) -> int:
    """The commands that take a folder; returns the exit status."""
    if not args.lab:
        print(f"labs: name a folder: quack-tutorial labs {args.what} FOLDER", file=sys.stderr)
        return 2
    folder = Path(args.lab)
    if args.what in ("regrade", "words", "alike") and args.file not in (None, *folders()):
        print(f"labs: there is no lab {args.file!r}; there is {', '.join(folders()) or 'none'}", file=sys.stderr)
        return 2
    if args.what in ("autograde", "regrade"):
        if (args.seed or 0) < 0 or not 0 < args.seconds < float("inf"):
            print("labs: --seed is not negative, --seconds is a number above 0", file=sys.stderr)
            return 2
        again = None
        if args.what == "regrade":

            def again(who, of):
                return args.file in (None, of) and args.student in (None, who)

        return autograde.run(folder, args.seed, args.seconds, args.trusted, not args.no_compile, again)
    if args.what == "collect" and not args.file:
        print(
            "labs: name the download and the class's folder: quack-tutorial labs collect DOWNLOAD FOLDER",
            file=sys.stderr,
        )
        return 2
    try:
        if args.what == "release":
            said = [f"wrote {len(release.release(folder))} files: README.md in {folder} is where a student starts"]
        elif args.what == "feedback":
            said = [f"wrote {len(feedback.feedback(folder))} files: {folder}/feedback"]
        elif args.what == "collect":
            said = collect.collect(folder, Path(args.file), args.of, args.roster, args.due, args.nbgrader)
        elif args.what == "export":
            said = export.export(folder, args.late)
        else:
            said = (words.words if args.what == "words" else alike.alike)(folder, args.file or "")
    except ValueError as error:
        print(f"labs: {error}", file=sys.stderr)
        return 2
    except ImportError:
        print("labs: the notebooks are written with jupytext (pip install jupytext)", file=sys.stderr)
        return 2
    print("\n".join(said))
    return 0


def check(name: str, folder: Path, answer=None, sample: bool = False) -> bool:
    """Grade a lab's corpus and print a line for each trial; whether all got what they should."""
    start, good, count = time.monotonic(), 0, 0
    chosen = [answer] if answer else list(corpus.answers(folder))[:4] if sample else None
    only = ["as it is"] if sample else None
    for trial in corpus.trials(folder, targets(lab(name)), only, chosen):
        mark = "ok" if trial.ok else f"WRONG, wanted {trial.wanted}"
        print(f"{trial.name:<24} {trial.disguise:<20} {mark:<4} {trial.got}", flush=True)
        good, count = good + trial.ok, count + 1
    print(f"{name}: {good} of {count} as expected, {time.monotonic() - start:.0f} s")
    return good == count > 0


def mutate(name: str, folder: Path, seed: int) -> bool:
    """Print the edits of a lab's solution that keep full marks and their share; whether each has an explanation."""
    start, why = time.monotonic(), corpus.harmless(folder)
    kept, tried = mutations.survivors(name, corpus.solution(folder), lab(name).cases(seed), seed)
    holes = [edit for edit in kept if edit.words not in why]
    for edit in holes:
        print(f"{name}: full marks for a wrong answer? {edit.words}")
    for edit in kept:
        if edit.words in why:
            print(f"{name}: harmless: {edit.words}: {why[edit.words]}")
    share = len(holes) / tried
    explained = len(kept) - len(holes)
    print(f"{name}: {len(holes)} of {tried} wrong answers keep full marks ({share:.1%}), {explained} more change nothing; "
          f"{time.monotonic() - start:.0f} s", flush=True)  # fmt: skip
    return not holes
