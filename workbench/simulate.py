"""`quack-tutorial simulate FILE.py[:function] [ARGUMENT ...]`: `cutesim check` by another name."""

from __future__ import annotations

from cutesim import command


def add_arguments(parser) -> None:
    """The command's words."""
    command.add_arguments(parser)
    parser.epilog = command.EXAMPLES.replace("cutesim check", "quack-tutorial simulate")


def run(args) -> int:
    """Simulate, judge, print; returns the exit status."""
    return command.run(args, name="simulate")
