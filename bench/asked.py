"""What the words of the commands in this room ask for, and what they have in common: a GPU, and the line that repeats them."""

from __future__ import annotations

import functools
import shlex
import sys
from pathlib import Path

from quack_tutorial import machine
from quack_tutorial.records.cells import words


def on_a_gpu(run):
    """A command's `run(args, found)` as the `run(args)` that says in a sentence, with status 2, that there is no GPU."""

    @functools.wraps(run)
    def checked(args) -> int:
        found = machine.detect()
        if found.device != "cuda":
            print(f"{args.command}: {found.reason}", file=sys.stderr)
            return 2
        return run(args, found)

    return checked


def command_line(args, words, options) -> str:
    """`quack-tutorial` with these words and what `args` have of the options; without folders, which say nothing to a reader."""
    line = ["quack-tutorial", *words]
    for option in options:
        value = getattr(args, option.replace("-", "_"))
        if value is True:
            line.append(f"--{option}")
        elif value:
            line += [f"--{option}", Path(value).name if option == "out" else str(value)]
    return shlex.join(line)


def numbers(text, option) -> tuple[int, ...]:
    """The positive whole numbers of a list separated by commas; ValueError names `option`."""
    found = words(text)
    for word in found:
        if not word.isdecimal() or int(word) < 1:
            raise ValueError(f"{option} takes positive whole numbers separated by commas, got {word!r}")
    return tuple(int(word) for word in found)
