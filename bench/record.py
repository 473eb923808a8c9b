"""`quack-tutorial record`: what the book shows of a card, measured on this machine's GPU as far as it is not recorded yet.

    quack-tutorial record                        # what is missing of this card, and the GPU's minutes that each item takes
    quack-tutorial record --missing --minutes 9 --pack FILE      # measure it, in this order, for so long
    quack-tutorial record --take FILE            # elsewhere: put what was packed into quack_tutorial/records
    quack-tutorial record --by RECORDER ...      # what depends on no card, or is recorded by hand: see `recorders`

The items are commands of `quack-tutorial`, each in a process of its own, which write into the card's folder of records; they are
in the order in which pages miss them. Each goes on where an earlier call was stopped. The minutes are an estimate, from what an
H100 with 16 cores and 12 to 14 workers took in November 2026: 5 s a cell of up to 8192 columns, most of it with the GPU; of longer
rows 10 to 30 s, since few such cells fit into its memory at once.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from bench import COMMANDS
from quack_tutorial import card, hardware, kernel_cache, machine, records
from quack_tutorial.records import other_version

PEERS = "--without 'compile tuned,compile autograd,compile autograd tuned,quack tuned,cudnn'"
TUNED = "--without 'quack tuned,cudnn'"
BOTH = "float32,bfloat16"
GRID = f"--dtype {BOTH} --out {{folder}}/bench --resume --workers {{workers}}"
GRACE_S = 30
SCRIPTS = Path(__file__).parents[1] / "scripts"  # of a checkout
LIBRARIES = ("quack", "liger_kernel")


class Refused(Exception):
    """Why nothing can be said or measured, in one sentence."""


@dataclass(frozen=True)
class Item:
    """What is recorded by one command; `seconds` of the GPU for each cell, size or case that is missing, or for all of a file."""

    name: str
    words: str
    seconds: float
    first: str = ""  # a command that compiles and keeps its kernels
    needs: tuple[str, ...] = ()  # modules without which it would say too little


ITEMS = (
    Item("memory", "memory --out {folder}/memory.json", 135),
    Item("ladders", f"bench all --ladder {GRID}", 17),
    Item("model", "model --out {folder}/model.json", 150),
    Item("llama", "model --of llama --out {folder}/model-llama.json", 290, needs=(*LIBRARIES, "transformers")),
    Item("head", "head --out {folder}/head.json", 60, needs=LIBRARIES),
    Item("states", "states --out {folder}/states.json", 540, needs=LIBRARIES),
    # With kernels that an earlier process has compiled and kept.
    Item("host", "host --out {folder}/host/loaded.json", 60, "host --calls 1 --repeats 1"),
    Item("peers", f"bench all --n 1024,4096,16384,65536,262144 --m grid {PEERS} {GRID}", 18, needs=LIBRARIES),
    Item(
        "tuned softmax",  # chapter 12's first exercise
        f"bench softmax --n 4096,8192,16384,32768,65536,131072 --m grid {TUNED} {GRID} --dtype float32",
        30,
        needs=LIBRARIES,
    ),
    Item("profile", "profile --out {folder}/profile.json --resume", 11),
    Item("lines", "lines --out {folder}/lines --resume", 150),
    Item("outputs", "outputs run --to {folder} --jobs 4", 200, needs=("nbclient", "ipykernel", "jupytext")),
    Item("peers between", f"bench all --n 256,512,2048,8192,32768,131072 --m grid {PEERS} {GRID}", 10, needs=LIBRARIES),
    Item(
        "fewer rows",
        f"bench all --n 256,512,1024,2048,4096,8192,16384,32768,65536,131072,262144 --m 8192 {PEERS} {GRID}",
        7,
    ),
    Item("tuned peers", f"bench all --n 1024,4096,16384,65536,262144 --m grid {TUNED} {GRID}", 20, needs=LIBRARIES),
)
WIDEST = max(len(item.name) for item in ITEMS)
WRITES = {"outputs": "outputs.tar.gz"}  # of a command that is told a folder


def add_arguments(parser):
    """Declare what `quack-tutorial record` takes."""
    names = ", ".join(item.name for item in ITEMS)
    parser.add_argument("items", nargs="*", metavar="ITEM", help=f"only these: {names} (default: all)")
    parser.add_argument("--missing", action="store_true", help="measure what is missing; otherwise it is only said")
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="stop after about M minutes (default: when all is done)"
    )
    parser.add_argument("--workers", type=int, default=12, metavar="K", help="processes of a benchmark (default: 12)")
    parser.add_argument("--pack", metavar="FILE", help="after each item, pack the card's records into FILE")
    parser.add_argument("--take", metavar="FILE", help="unpack such a file into quack_tutorial/records")
    parser.add_argument(
        "--by",
        nargs=argparse.REMAINDER,
        metavar="RECORDER ...",
        help=f"run one of {', '.join(recorders())} with its own words",
    )


def run(args) -> int:
    """Say or measure what is missing; 0, or 1 where an item failed, or a sentence says why nothing can be measured."""
    if args.by is not None:
        return by(args.by)
    if args.take:
        return take(args.take)
    try:
        return said_or_measured(args)
    except Refused as error:
        print(f"record: {error}", file=sys.stderr)
        return 1


def said_or_measured(args) -> int:
    """Say or measure what is missing; Refused with the sentence that says why that cannot be."""
    if args.workers < 1:
        raise Refused(f"--workers takes a number of processes, 1 or more, got {args.workers}")
    if args.minutes is not None and not args.minutes > 0:
        raise Refused(f"--minutes takes a number of minutes above 0, got {args.minutes:g}")
    unknown = [name for name in args.items if name not in [item.name for item in ITEMS]]
    if unknown:
        raise Refused(f"there is no item {unknown[0]!r}; quack-tutorial record lists them")
    items = [item for item in ITEMS if not args.items or item.name in args.items]
    found = machine.detect()
    if args.missing and found.device != "cuda":
        raise Refused(found.reason)
    which = hardware.card_of(found.gpu) if found.device == "cuda" else card.selected().card
    folder = records.FOLDER / which
    print(f"What the book shows of a card {which}, in {folder}:")
    if not args.missing:
        for item in items:
            print(said(item, left(item, folder, args.workers)))
        return 0
    for name in ("bench", "host"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return measure(items, folder, args)


def recorders() -> dict[str, list[str]]:
    """How each recorder is started: the scripts of a checkout, and two modules."""
    scripts = {file.stem.removeprefix("record_"): [str(file)] for file in sorted(SCRIPTS.glob("record_*.py"))}
    modules = {"architectures": "bench.architectures", "validation": "validation"}
    return scripts | {name: ["-m", module, "--record"] for name, module in modules.items()}


def by(words: list[str]) -> int:
    """Run a recorder; its exit status."""
    if not words or words[0] not in recorders():
        print(f"record: --by takes one of {', '.join(recorders())}", file=sys.stderr)
        return 2
    return subprocess.call([sys.executable, *recorders()[words[0]], *words[1:]])


def measure(items, folder: Path, args, start=None, here=None) -> int:
    """Run the items that lack something, as long as there is time. `start` runs a command for at most so many seconds, `here` are
    this machine's driver and versions."""
    start, began, failed = start or in_its_time, time.monotonic(), 0
    # Compiled kernels are kept as long as the machine.
    os.environ.setdefault(kernel_cache.VARIABLE, f"{tempfile.gettempdir()}/quack-tutorial-kernels")
    here = here or described()

    def remaining():
        return 60 * args.minutes - (time.monotonic() - began) if args.minutes else float("inf")

    for item in items:
        seconds, lacking = remaining(), [name for name in item.needs if find_spec(name) is None]
        if seconds >= 30 and not lacking:
            drop_others(goes_on_with(item, folder, args.workers), here)
        count = left(item, folder, args.workers)
        if not count:
            continue
        if seconds < 30 or (seconds < item.seconds and not goes_on(item)):
            print(f"{said(item, count)}: left, for {max(0, seconds) / 60:.1f} minutes are not enough")
            continue
        if lacking:
            print(f"{said(item, count)}: left, for {' and '.join(lacking)} cannot be imported here")
            continue
        print(said(item, count), flush=True)
        if item.first:
            command, *words = shlex.split(item.first)
            start([*python_of(command), *words], seconds)
            seconds = remaining()
        command, *words = words_of(item, folder, args.workers)
        if goes_on(item) and args.minutes:
            words += ["--limit-s", f"{max(1, seconds - 20):.0f}"]
        failed += start([*python_of(command), *words], seconds) != 0
        if args.pack:
            pack(folder, Path(args.pack))
    print(f"{(time.monotonic() - began) / 60:.1f} minutes. Missing now:")
    for item in items:
        if count := left(item, folder, args.workers):
            print(said(item, count))
    return int(failed > 0)


def python_of(command: str) -> list[str]:
    """How a command of an item is started."""
    return [sys.executable, *recorders().get(command, ["-m", "quack_tutorial.cli", command])]


def words_of(item: Item, folder: Path, workers: int) -> list[str]:
    """The words of the item's command."""
    return [word.format(folder=folder, workers=workers) for word in shlex.split(item.words)]


def goes_on(item: Item) -> bool:
    """Whether the item's command can be stopped between two of what it measures, and goes on with its record."""
    return "--resume" in item.words


def left(item: Item, folder: Path, workers: int) -> int:
    """How much of the item is missing: cells, sizes, cases or files."""
    command, *words = words_of(item, folder, workers)
    if command in WRITES:
        return int(not (folder / WRITES[command]).exists() and not (folder / command).is_dir())
    if not goes_on(item):
        return int(not Path(words[words.index("--out") + 1]).exists())
    module, args = parsed(command, words)
    with told(args.out):
        return module.left(args)


def parsed(command: str, words: list[str]) -> tuple:
    """The module of a command that goes on with its record, and its arguments."""
    module = import_module({name: module for name, _, module in COMMANDS}[command])
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return module, parser.parse_args(words)


@contextmanager
def told(path):
    """Refused for a file that is no record: of what kind, or why not, where the error does not name it itself."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        why = str(error) if str(path) in str(error) else f"{path}: no record that this version reads ({error!r})"
        raise Refused(f"{why}; remove it, or restore it") from error


def said(item: Item, count: int) -> str:
    """A line on an item of which so much is missing."""
    told = f"{count} missing, about {count * item.seconds / 60:.1f} minutes" if count else "recorded"
    return f"  {item.name:{WIDEST}} {told}"


def in_its_time(command: list[str], seconds: float) -> int:
    """Run a command; what it started is ended if it takes `GRACE_S` longer, or by Ctrl-C. Its exit status."""
    process = subprocess.Popen(command, start_new_session=True)
    try:
        return process.wait(timeout=None if seconds == float("inf") else seconds + GRACE_S)
    except subprocess.TimeoutExpired:
        print(f"{shlex.join(command[1:])} was ended: its time was over", flush=True)
        return 1
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def goes_on_with(item: Item, folder: Path, workers: int) -> list[Path]:
    """The records that the item's command would go on with."""
    name, *words = words_of(item, folder, workers)
    if not goes_on(item):
        return []
    if name != "bench":
        out = Path(words[words.index("--out") + 1])
        return sorted(out.glob("*.json")) if out.is_dir() else [out] if out.exists() else []
    bench, args = parsed(name, words)
    paths = [bench.path_of(args, operation) for operation in bench.requested_operations(args)]
    return [path for path in paths if path.exists()]


def drop_others(paths: list[Path], here: dict) -> None:
    """Remove those records that are of another driver or of other versions than `here`: a record has one of each."""
    for path in paths:
        with told(path):
            kept = records.read(path)
            other = "driver" if kept["driver"] != here["driver"] else other_version(kept["versions"], here["versions"])
        if other:
            path.unlink()
            print(f"  {path.name} is of another {other}: it is measured anew", flush=True)


def described() -> dict:
    """What a worker says of this machine, with the driver; asked in a process of its own, which leaves the GPU alone afterwards."""
    code = "import json; from bench.worker import describe; print(json.dumps(describe()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"this machine cannot be described: {(done.stderr.splitlines() or ['no reason was given'])[-1]}")
    return json.loads(done.stdout.splitlines()[-1]) | {"driver": machine.detect().driver}


def pack(folder: Path, file: Path) -> None:
    """Pack a card's records into a file, which is replaced whole."""
    unfinished = file.with_name(file.name + ".part")
    with tarfile.open(unfinished, "w:gz") as archive:
        archive.add(folder, folder.name)
    unfinished.replace(file)


def take(file) -> int:
    """Unpack a card's records into quack_tutorial/records: all of a file, nothing of one that is broken or holds anything else."""
    why = "is no file that --pack wrote"
    try:
        with tarfile.open(file) as archive:
            found = [one for one in archive if not one.isdir()]
            other = [
                one.name for one in found if not one.isfile() or not re.fullmatch(r"\w+(/\.?[\w-][\w.-]*)+", one.name)
            ]
            if found and not other:
                archive.extractall(records.FOLDER, found)
                print(f"{records.FOLDER}: taken over {', '.join(sorted({one.name.split('/')[0] for one in found}))}")
                return 0
            why = f"holds {other[0]!r}, which is no record of a card" if other else "holds nothing"
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile):
        pass
    print(f"record: {file} {why}", file=sys.stderr)
    return 1
