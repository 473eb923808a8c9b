"""`quack-tutorial labs list`, `labs check`, `labs student LAB FILE`.

| command   | does                                                                                             |
|-----------|--------------------------------------------------------------------------------------------------|
| `list`    | prints each lab, what it asks for and what its checks are worth                                   |
| `check`   | grades the corpus of submissions, disguised too; exit status 1 if one is told something else      |
| `student` | writes a lab's notebook without its solutions and hidden tests                                    |

The notebooks and the corpus are in the repository's folder labs/, which an installed package does not have: `--folder`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from . import LABS, corpus, lab, student

FOLDER = Path(__file__).resolve().parents[2] / "labs"


def add_arguments(parser) -> None:
    """The command's words."""
    parser.add_argument("what", choices=["list", "check", "student"], help="what to do")
    parser.add_argument("lab", nargs="?", choices=sorted(LABS), help="the lab (default: all)")
    parser.add_argument("file", nargs="?", type=Path, help="where `student` writes the notebook (.md)")
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="the folder of the labs (default: the repository's)"
    )


def run(args) -> int:
    """Do it; returns the exit status."""
    names = [args.lab] if args.lab else list(LABS)
    if args.what == "list":
        for name in names:
            checks = ", ".join(f"{check} {points}" for check, points in lab(name).CHECKS.items())
            print(f"{name}: {lab(name).TITLE}. Hand in the class {lab(name).TARGET}; points: {checks}.")
        return 0
    missing = [name for name in names if not (args.folder / name).is_dir()]
    if missing:
        print(f"labs: {args.folder / missing[0]} is not there; --folder names the repository's labs/", file=sys.stderr)
        return 2
    if args.what == "check":
        return 0 if all([check(name, args.folder / name) for name in names]) else 1
    if not args.lab or not args.file:
        print("labs: say which lab and where to: quack-tutorial labs student block-reduce out.md", file=sys.stderr)
        return 2
    master = (args.folder / args.lab / f"{args.lab}.md").read_text(encoding="utf-8")
    args.file.write_text(student.student_version(master), encoding="utf-8")
    print(f"wrote {args.file}")
    return 0


def check(name: str, folder: Path) -> bool:
    """Grade a lab's corpus and print a line for each trial; whether all got what they should."""
    start, good, count = time.monotonic(), 0, 0
    for trial in corpus.trials(folder, name, lab(name).TARGET):
        mark = "ok" if trial.ok else f"WRONG, wanted {trial.wanted}"
        print(f"{trial.file:<24} {trial.disguise:<20} {mark:<4} {trial.got}", flush=True)
        good, count = good + trial.ok, count + 1
    print(f"{name}: {good} of {count} as expected, {time.monotonic() - start:.0f} s")
    return good == count > 0
