"""The console script `quack-tutorial`: tables of commands, each in the module that it belongs to.

The rooms above this package, `bench`, `grading` and `workbench`, bring tables of their own, as entry points.

A command's module has `add_arguments(parser)` and `run(args) -> exit status`, and is imported when the command is used.
"""

import argparse
import errno
import os
import sys
from importlib import import_module
from pathlib import Path

from quack_tutorial import card, machine
from quack_tutorial.above import brought

# name, what it does, module
COMMANDS = (
    ("doctor", "say where kernels run on this machine, what is missing and how to get it", "quack_tutorial.machine"),
)
# Options that name a file to write: it is tried before the command starts, which may take minutes.
WRITTEN = ("out", "html", "pack")


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help says what there is.\n")


def main(argv=None):
    """Run one command; returns its exit status, or exits with 2 and one sentence when the words make no sense."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        status = _run(argv)
        if sys.stdout is not None:  # a shell's >&- closes it
            sys.stdout.flush()
        return status
    except BrokenPipeError:  # who read the output, `head` say, has had enough
        _print_no_more()
        return 1
    except KeyboardInterrupt:
        status, why = 130, "stopped by Ctrl-C"
    except MemoryError as error:
        status, why = 2, f"this machine's memory is too small ({error}): take smaller sizes"
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        status, why = 2, f"{where}{machine.reason(error)}: name another file or folder"
        _print_no_more()
    print(f"quack-tutorial {argv[0]}: {why}.", file=sys.stderr)
    return status


def commands_of() -> tuple:
    """(name, what it does, module) of every command that is installed: a reader's first, then the labs', then the benchmark's."""
    return COMMANDS + tuple(command for table in reversed(brought("commands")) for command in table)


def _run(argv) -> int:
    parser = _Parser(prog="quack-tutorial", description="Kernels in CuTe DSL, on a GPU or simulated.")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    table = commands_of()
    modules = {name: module for name, _, module in table}
    for name, text, _ in table:
        command = commands.add_parser(name, help=text, description=text.capitalize() + ".")
        if argv[:1] == [name]:
            import_module(modules[name]).add_arguments(command)
    if argv and not argv[0].startswith("-") and argv[0] not in modules:
        parser.error(f"there is no command {argv[0]!r}")
    args = parser.parse_args(argv)
    try:
        card.named() and card.selected()
    except KeyError as error:
        parser.exit(2, f"{parser.prog}: {card.VARIABLE}: {error.args[0]}; set one of these, or none.\n")
    for name in WRITTEN:
        _make_room(getattr(args, name, None), args.command in ("bench", "lines"))
    if hasattr(sys.stdout, "reconfigure"):  # a notebook's has not
        # For a name that the terminal's encoding does not have.
        sys.stdout.reconfigure(errors="backslashreplace")
    return import_module(modules[args.command]).run(args)


def _make_room(path, or_folder: bool) -> None:
    """OSError where the file `path` could not be written; its folder is made."""
    if path is None:
        return
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    code = errno.EISDIR if path.is_dir() and not or_folder else None
    code = code or (None if os.access(path if path.exists() else path.parent, os.W_OK) else errno.EACCES)
    if code:
        raise OSError(code, os.strerror(code), str(path))


def _print_no_more() -> None:
    """Let what is still to be printed go nowhere: Python would fail once more where it ends."""
    if sys.stdout is sys.__stdout__ is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
