"""`quack-tutorial simulate FILE.py[:function] [ARGUMENT ...]`: `cutesim check` by another name."""

from __future__ import annotations

from cutesim import command


def add_arguments(parser) -> None:
    command.add_arguments(parser)
    parser.epilog = command.EXAMPLES.replace("cutesim check", "quack-tutorial simulate")


def run(args) -> int:
    return command.run(args, name="simulate")
