"""`quack-tutorial labs WHAT ...`: the labs, their corpus of answers, and what a course hands out.

| command                       | does                                                                                  |
|-------------------------------|---------------------------------------------------------------------------------------|
| `list`                        | prints each lab, what it asks for and what its checks are worth                        |
| `check [LAB] [ANSWER]`        | grades the corpus of answers, disguised too; exit status 1 if one is told something else. |
| `show LAB ANSWER`             | prints an answer of the corpus, as a file that `grade` takes; `--into FOLDER` writes all |
| `student LAB FILE`            | writes a lab's notebook, .md or .ipynb, without its solutions                          |
| `course FOLDER`               | writes the folder of a course on nbgrader                                             |

The labs are in the repository's folder labs/, which an installed package does not have: QUACK_TUTORIAL_LABS names it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from . import corpus, folders, lab, release, student, targets


def add_arguments(parser) -> None:
    """The command's words."""
    parser.add_argument("what", choices=["list", "check", "show", "student", "course"], help="what to do")
    parser.add_argument(
        "lab", nargs="?", help=f"the lab (default: all), or the course's new folder: {', '.join(folders())}"
    )
    parser.add_argument(
        "file",
        nargs="?",
        help="the answer to show or check; where `student` writes the notebook (.md, .ipynb)",
    )
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="show: write each of the lab's answers there")
    parser.add_argument("--sample", action="store_true", help="check each lab's first answers only, as they are")


def run(args) -> int:
    """Do it; returns the exit status."""
    found = folders()
    if args.what == "course":
        return course(args)
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
    if args.what == "check":
        return 0 if all([check(name, found[name], args.file, args.sample) for name in names]) else 1
    if args.what == "show" and args.lab and args.into:
        args.into.mkdir(parents=True, exist_ok=True)
        for name, (text, _) in corpus.answers(found[args.lab]).items():
            (args.into / f"{name}.py").write_text(text, encoding="utf-8")
        return 0
    if not args.lab or not args.file:
        print(f"labs: name a lab and {'an answer' if args.what == 'show' else 'a file'}", file=sys.stderr)
        return 2
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


def course(args) -> int:
    """Write a course's folder; returns the exit status."""
    if not args.lab:
        print("labs: name a new folder: quack-tutorial labs course FOLDER", file=sys.stderr)
        return 2
    try:
        release.course(Path(args.lab))
    except (ValueError, OSError) as error:
        print(f"labs: {error}", file=sys.stderr)
        return 2
    except ImportError:
        print("labs: the notebooks are written with jupytext (pip install jupytext)", file=sys.stderr)
        return 2
    print(f"wrote {args.lab}: go there, and nbgrader generate_assignment LAB makes a lab's student version")
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
