"""`quack-tutorial simulate FILE.py[:function] [ARGUMENT ...]`: `cutesim check` by another name.

With --html PAGE it writes a page of pictures, too.
"""

from __future__ import annotations

from pathlib import Path

from cutesim import command


def add_arguments(parser) -> None:
    """The command's words."""
    command.add_arguments(parser)
    parser.epilog = command.EXAMPLES.replace("cutesim check", "quack-tutorial simulate")
    parser.add_argument("--html", metavar="PAGE", help="write findings, tables and pictures to an HTML page")


def run(args) -> int:
    """Simulate, judge, print; returns the exit status."""
    return command.run(args, name="simulate", show=_write_page if args.html else None, values=args.html is not None)


def _write_page(args, outcome) -> None:
    from quack_tutorial.figures import report

    title = Path(args.target.partition(":")[0]).name
    page = report(outcome.runs, title, outcome.ended, (*outcome.tensors, *outcome.wrong))
    Path(args.html).write_text(page, encoding="utf-8")
