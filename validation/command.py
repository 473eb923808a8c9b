"""`python -m validation`: run the suites that this machine can run, print their tables, keep them with --record."""

from __future__ import annotations

import dataclasses
import datetime
import sys
import time
from importlib import import_module
from pathlib import Path

from quack_tutorial.records import suite as report
from quack_tutorial.records.suite import RECORDED, SUITES


def add_arguments(parser):
    """Declare what `python -m validation` takes."""
    names = [name for name, _ in SUITES]
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(names)} (default: all that can run)")
    parser.add_argument("--sample", action="store_true", help="a small part of each suite, in seconds")
    parser.add_argument(
        "--record", nargs="?", metavar="FOLDER", const="", help="keep the tables (quack_tutorial/records/validation)"
    )


def run(args) -> int:
    """0 if everything agreed, 1 if something did not or a suite asked for by name cannot run, 2 for unknown names."""
    needs = dict(SUITES)
    unknown = [name for name in args.suites if name not in needs]
    if unknown:
        print(f"validation: there is no suite {unknown[0]!r}; there are {', '.join(needs)}.", file=sys.stderr)
        return 2
    if args.record is not None and args.sample:
        print("validation: a record holds whole suites; leave --sample or --record out.", file=sys.stderr)
        return 2
    folder = Path(args.record or report.default_folder())
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(
            f"validation: {folder} cannot hold records ({error.strerror}): name a folder with --record.",
            file=sys.stderr,
        )
        return 2
    status = 0
    for name in args.suites or needs:
        problem = missing(needs[name])
        if problem:
            print(f"{name}: not run here: {problem}")
            status = 1 if args.suites else status
            continue
        suite = measured(name, args.sample)
        print(suite, end="\n\n", flush=True)
        status = status if suite.ok else 1
        if args.record is not None:
            print(f"recorded in {report.save(suite, folder)}")
    return status


def measured(name, sample) -> report.Suite:
    """Run one suite and note how long it took and when."""
    began = time.monotonic()
    suite = import_module(f"validation.{name}").run(sample, progress(name))
    print("\r\033[K" if sys.stderr.isatty() else "", end="", file=sys.stderr, flush=True)
    return dataclasses.replace(
        suite,
        sample=sample,
        seconds=round(time.monotonic() - began, 1),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        where=suite.where or report.here(),
    )


def progress(name):
    """A function that shows on a terminal what a suite is busy with."""

    def show(what):
        if sys.stderr.isatty():
            print(f"\r\033[K{name}: {what}", end="", file=sys.stderr, flush=True)

    return show


def missing(need) -> str | None:
    """Why a suite with this need cannot run here, or None."""
    if need == "nothing":
        return None
    if need == RECORDED:
        return "it was run once; its record names the command and the commit"
    from quack_tutorial import compiler

    return compiler.dsl_problem()
