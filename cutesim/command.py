"""`cutesim check`: the kernels of a file on the simulator, their findings as text, JSON, SARIF or annotations of GitHub's.

The first line of the text is the verdict:

| verdict         | exit status | what it says                                                                |
|-----------------|-------------|-----------------------------------------------------------------------------|
| `clean`         | 0           | no finding, and with --against the results are the reference's              |
| `finding`       | 1           | a race, a deadlock, a wrong access, a mistake: said below it                 |
| `not simulated` | 3           | the kernel uses something that the simulator lacks, and says what           |
| `wrong`         | 4           | no finding, but other results than the reference's                          |
| `failed`        | 5           | the file ended with an error of its own                                     |
| `clean within bounds` | 6     | with --orders: no finding in the orders that were tried, and more are left  |

2 means that the command's words make no sense. It tells no times. `files` says what is run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from cutesim import __version__, analysis, delays
from cutesim.files import Unusable, run_file
from cutesim.orders import Bounds

EXAMPLES = """\
a file of your own:
  cutesim check kernel.py
  cutesim check kernel.py:softmax x=bf16:8x4096 out=bf16:8x4096:nan 4096
  cutesim check 'kernel.py:Softmax(4096)' x=f32:8x4096 out=f32:8x4096:nan
  cutesim check kernel.py:softmax x=f32:8x64 out=f32:8x64:nan --against reference.py:softmax
  cutesim check kernel.py --orders all

The first runs the file as a script and checks every launch in it. A tensor is TYPE:SHAPE, and VALUES after another colon:
random (if left out), arange, nan or a number. The first line is the verdict: clean (exit status 0), finding (1), not simulated (3),
wrong (4: other results than --against gives), failed (5: an error of the file's own), clean within bounds (6: --orders has
stopped before every order was tried); 2 is for words that make no sense."""


def main(argv=None) -> int:
    """The console script `cutesim`."""
    parser = argparse.ArgumentParser(prog="cutesim", description="CuTe DSL kernels on a simulator, without a GPU.")
    parser.add_argument("--version", action="version", version=f"cutesim {__version__}")
    commands = parser.add_subparsers(metavar="command", required=True)
    add_arguments(commands.add_parser("check", help="run a file's kernels, and say what is wrong with them"))
    try:
        return run(parser.parse_args(argv))
    except BrokenPipeError:  # who read the output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("cutesim: stopped by Ctrl-C.", file=sys.stderr)
        return 130


def add_arguments(parser):
    """The command's words."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Run a kernel on the simulator: findings and traffic."
    parser.epilog = EXAMPLES
    parser.add_argument("target", help="FILE.py or FILE.py:function")
    parser.add_argument(
        "arguments",
        nargs="*",
        metavar="ARGUMENT",
        help="a number, or a tensor as x=f32:8x4096 or out=bf16:8:nan",
    )
    parser.add_argument(
        "--against",
        default="",
        metavar="FILE:FUNCTION",
        help="compare the changed tensors with what this function gives for the others, in float64: torch's tensors if its file "
        "imports torch, else numpy's arrays",
    )
    parser.add_argument(
        "--blocks", type=at_least_one, metavar="K", help="simulate the first K blocks of each launch alone"
    )
    parser.add_argument(
        "--dynamic",
        action="store_true",
        help="extents of tensors are known only when the kernel runs, as of those that CuTe DSL is passed directly",
    )
    parser.add_argument(
        "--schedule", choices=["forward", "reverse", "seeded"], default="forward", help="order of the warps"
    )
    parser.add_argument(
        "--orders",
        type=_bounds,
        metavar="all|N|Ns",
        help="try every order of the warps' visible steps (all: up to 1000 orders or 30 seconds a run), up to N, or for N "
        "seconds; an order that fails is shrunk and told",
    )
    parser.add_argument(
        "--seed",
        type=lambda text: at_least_one(text, 0),
        default=0,
        help="of the input and of --schedule seeded (default 0)",
    )
    parser.add_argument(
        "--delays",
        metavar="FOLDER",
        help="write the file anew with a wait before a line of a race, once for each that could bring it out on a GPU",
    )
    parser.add_argument(
        "--format",
        choices=["text", "json", "sarif", "github"],
        default="text",
        help="json; sarif is SARIF 2.1.0, which code hosts show at the lines; github the verdict, and each finding as a workflow "
        "command that annotates its line",
    )


def at_least_one(text: str, least: int = 1) -> int:
    """A whole number on the command line."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return number


def _bounds(text: str):
    """What simulate's `orders` takes, of `all`, `500` or `60s`."""
    if text == "all":
        return Bounds()
    number = at_least_one(text.removesuffix("s"))
    if text.endswith("s"):
        return Bounds(orders=10**9, seconds=number)
    return Bounds(orders=number, seconds=float("inf"))


def run(args, name="cutesim check") -> int:
    """Simulate, judge, print; returns the exit status. `name` is the command that was typed."""
    if ".py" not in args.target:
        print(f"{name}: {args.target!r} is no file: write FILE.py or FILE.py:function", file=sys.stderr)
        return 2
    options = {"schedule": args.schedule, "blocks": args.blocks}
    options |= {"dynamic": True} if args.dynamic else {}
    options |= {"orders": args.orders} if args.orders else {}
    try:
        outcome = run_file(args.target, args.arguments, args.seed, args.against, **options)
    except Unusable as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    form = args.format
    if form in ("json", "sarif"):
        found = as_sarif(args.target, outcome) if form == "sarif" else as_dict(outcome)
        print(json.dumps(found, indent=2))
    elif form == "github":
        print("\n".join([str(outcome), *as_annotations(args.target, outcome)]))
    else:
        for sentence in (str(outcome), *outcome.notes, *map(_with_traffic, outcome.runs), *outcome.tensors):
            print(sentence)
    if args.delays:
        written = delays.write(outcome.runs, args.delays)
        print("\n".join(written), file=sys.stdout if form == "text" else sys.stderr)
    if outcome.ended:
        print(f"{name}: {outcome.ended}", file=sys.stderr)
    return outcome.status


def _with_traffic(run) -> str:
    printed = "".join(run.printed)
    if run.recorded is None or not len(run.trace):
        return f"{printed}{run}"
    return f"{printed}{run}\n{traffic(analysis.summary(run.trace))}"


def as_dict(outcome) -> dict:
    """An outcome for JSON."""
    runs = [
        {
            "simulated": True,
            "clean": run.ok,
            "findings": [finding.as_dict() for finding in run.findings],
            "observations": list(run.observations),
            **({"orders": run.as_dict()} if hasattr(run, "as_dict") else {}),
            **(analysis.summary(run.trace) if run.recorded is not None else {}),
        }
        for run in outcome.runs
    ]
    said = {"verdict": outcome.verdict, "exit_status": outcome.status, "said": str(outcome), "runs": runs}
    lists = {name: list(getattr(outcome, name)) for name in ("tensors", "wrong", "notes")}
    return {**said, **lists, "ended": outcome.ended}


def _found(target: str, outcome) -> list:
    """(kind, level, sentence, [(path, line), ...]) of each; a wrong result, or what ended the file, is at its first line."""
    file = Path(target.partition(".py")[0] + ".py")
    found = [(f.kind, "error", str(f), f.lines) for run in outcome.runs for f in run.findings]
    found += [("wrong result", "error", said, ()) for said in outcome.wrong]
    if outcome.ended:
        level = "warning" if outcome.verdict == "not simulated" else "error"
        found.append((outcome.verdict, level, outcome.ended, ()))
    places = lambda lines: [(_shown(line.file), line.number) for line in lines if line.number] or [(_shown(file), 1)]  # noqa: E731
    return [(kind, level, said, places(lines)) for kind, level, said, lines in found]


def as_annotations(target: str, outcome) -> list:
    """The findings as GitHub's workflow commands, which show each at its line."""
    written = []
    for kind, level, said, ((path, number), *_) in _found(target, outcome):
        for char in "%\r\n":
            said, path = (text.replace(char, f"%{ord(char):02X}") for text in (said, path))
        path = path.replace(":", "%3A").replace(",", "%2C")
        written.append(f"::{level} file={path},line={number},title={kind}::{said}")
    return written


def as_sarif(target: str, outcome) -> dict:
    """The findings as SARIF 2.1.0."""
    found, results = _found(target, outcome), []
    for kind, level, said, places in found:
        places = [_place(*place) for place in places]
        result = {"ruleId": kind, "level": level, "message": {"text": said}}
        related = {"relatedLocations": places[1:]} if places[1:] else {}
        results.append({**result, "locations": places[:1], **related})
    rules = [{"id": kind} for kind in dict.fromkeys(kind for kind, *_ in found)]
    driver = {"name": "cutesim", "version": __version__, "rules": rules}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    runs = [{"tool": {"driver": driver}, "results": results}]
    return {"$schema": schema, "version": "2.1.0", "runs": runs}


def _shown(file) -> str:
    """The path from the working folder on."""
    file, here = Path(file), Path.cwd()
    return (file.relative_to(here) if file.is_relative_to(here) else file).as_posix()


def _place(path: str, number: int) -> dict:
    return {"physicalLocation": {"artifactLocation": {"uri": path}, "region": {"startLine": number}}}


def traffic(result: dict) -> str:
    """The lines that say what a run moved, of `analysis.summary`."""
    moved, wavefronts = result["bytes_read"] + result["bytes_written"], result["shared_wavefronts"]
    return (
        f"  {moved:,} bytes through global memory\n"
        f"  {_counted(result['global_requests'], 'global request')}, {result['sectors_per_request']:.2f} sectors each; "
        f"{_counted(result['excess_wavefronts'], 'excess wavefront')} of {wavefronts:,} in shared memory (a model)\n"
        f"  {_counted(result['warp_instructions'], 'warp instruction')} recorded, {_counted(result['shuffles'], 'shuffle')} "
        f"among them, {_counted(result['barriers'], 'barrier arrival')}"
    )


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
