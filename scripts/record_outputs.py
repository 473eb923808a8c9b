"""Execute the chapters on this machine, a GPU's, and keep what each cell gave, to be opened beside the simulated outputs.

    python scripts/record_outputs.py run --to FOLDER [--jobs 4] [CHAPTER ...]   # on the GPU
    python scripts/record_outputs.py keep FOLDER/outputs.tar.gz      # where the book is built, from the same sources
    python scripts/record_outputs.py drop                            # what fits no cell any more

`run` writes FOLDER/outputs.tar.gz, with a file for each chapter: device, driver, versions, date, seconds, and the outputs by
the sha256 of their cell's source. Each chapter runs in a process of its own; an error is what its cell gave, and one line
names it. While a cell takes times (`TIMES`), no other chapter's cell runs.

`keep` executes the same chapters on the simulator, and puts the files into the card's folder of records without what came out
the same, as a figure drawn from records does, without the simulator's figures, which tell nothing of a GPU, without the times of
exercises' stubs, which move nothing, and without what names another card, whose records were read. Outputs of cells that the page
does not show are not recorded.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from quack_tutorial import hardware, machine, records  # noqa: E402
from quack_tutorial.notebook import TOO_FAST  # noqa: E402
from workbench import myst, outputs  # noqa: E402

ARCHIVE = "outputs.tar.gz"
LIMIT_S = 300  # of one chapter
RICHEST_FIRST = ("text/html", "image/svg+xml", "image/png", "text/markdown", "text/plain")
# Of one output; what is larger is left out, and a sentence stands in its place.
MOST_BYTES = 1_000_000
TIMES = re.compile(r"\bqt\.time\(|\btry_it\(|perf_counter|\bone_us\(|\bcheats\.|\bncu\.profile\(")

ERRORS = re.compile(
    r"[Ll]argest error( is at .*? instead of)?\s+[-+\w.]+|right for [\w ]+ = [\dx, and]+"
)  # of numbers and lengths that are drawn anew
# The simulator's figures, on whatever machine.
SIMULATED = re.compile(r'class="qt-break"|class="qt-origin">Simulated')


# On the GPU --------------------------------------------------------------------------------------------------------


def run(args) -> int:
    found = machine.detect()
    print(found.reason, flush=True)
    names = [path.stem for path in sorted((ROOT / "notebooks").glob("*.md")) if chosen(path.stem, args.chapters)]
    if not names:
        print(f"no chapter is called {' or '.join(args.chapters)}", file=sys.stderr)
        return 2
    args.to.mkdir(parents=True, exist_ok=True)
    archive, texts = args.to / ARCHIVE, {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        for done in as_completed([pool.submit(run_apart, name, Path(folder)) for name in names]):
            name, text, sentence = done.result()
            print(sentence, flush=True)
            if text:
                texts[name] = text
                # After each chapter, in case this process is ended from outside.
                pack(texts, archive)
    print(f"{archive}: {len(texts)} of {len(names)} chapters, {archive.stat().st_size / 1e6:.2f} MB")
    return 0 if len(texts) == len(names) else 1


def pack(texts: dict, archive: Path) -> None:
    partial = archive.with_suffix(".partial")
    with tarfile.open(partial, "w:gz") as files:
        for name in sorted(texts):
            entry = tarfile.TarInfo(f"{name}.json")
            entry.size = len(texts[name])
            files.addfile(entry, io.BytesIO(texts[name]))
    partial.replace(archive)


def chosen(name: str, wanted: list[str]) -> bool:
    """Whether a notebook is among those asked for, by name or number; without any, every numbered chapter is."""
    return any(name == one or name.startswith(f"{one}-") for one in wanted) if wanted else name[0].isdigit()


def run_apart(name: str, folder: Path) -> tuple[str, bytes, str]:
    """A chapter's name, its record made in a process of its own, and one line that says how it went."""
    file, start = folder / f"{name}.json", time.perf_counter()
    command = [sys.executable, __file__, "one", name, "--to", str(file), "--locks", str(folder)]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        said, _ = child.communicate(timeout=LIMIT_S + 60)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        said = f"did not end {LIMIT_S + 60} s after its start"
        child.communicate()  # what it said goes with it
    seconds = time.perf_counter() - start
    if not file.exists():
        last = (said.strip().splitlines() or ["no word"])[-1]
        return name, b"", f"{name}: FAILED after {seconds:.0f} s: {last[:300]}"
    text = file.read_bytes()
    record = json.loads(text)
    line = f"{name}: {len(record['cells'])} cells with outputs, {record['seconds']:.0f} s, {len(text) / 1000:.0f} KB"
    return name, text, "; ".join([line, *record["errors"]])


def run_one(args) -> int:
    name, start = args.chapters[0], time.perf_counter()
    notebook = source_of(name)
    errors = execute(notebook, LIMIT_S, args.locks)
    record = {
        "chapter": name,
        **where(),
        "seconds": round(time.perf_counter() - start, 1),
        "errors": errors,
        "cells": [asdict(cell) for cell in recorded(notebook)],
    }
    records.save(args.to, record)
    return 0


def source_of(name: str):
    """A chapter's cells, solutions among them, which are text in its .ipynb."""
    return myst.cells((ROOT / "notebooks" / f"{name}.md").read_text(encoding="utf-8"), name)


def execute(notebook, limit: float, locks: Path) -> list[str]:
    """Run the cells of a notebook until `limit` seconds have passed; one sentence for each that failed unmeant."""
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    with tempfile.TemporaryDirectory() as folder:
        # This interpreter, whatever kernels are installed.
        spec = Path(folder, "python3", "kernel.json")
        spec.parent.mkdir()
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec.write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
        specs = KernelSpecManager(kernel_dirs=[folder], ensure_native_kernel=False)
        # The kernel's own files, so that several do not share a history.
        os.environ |= {name: folder for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR")}
        client = NotebookClient(
            notebook,
            km=AsyncKernelManager(kernel_name="python3", kernel_spec_manager=specs),
            resources={"metadata": {"path": str(ROOT / "notebooks")}},
            allow_errors=True,
        )
        end, errors = time.monotonic() + limit, []
        with client.setup_kernel():
            for index, cell in enumerate(notebook.cells):
                if cell.cell_type != "code":
                    continue
                client.timeout = max(1, int(end - time.monotonic()))
                place = f"cell {1 + sum(c.cell_type == 'code' for c in notebook.cells[:index])}"
                try:
                    with turn(locks, alone=bool(TIMES.search(cell.source))):
                        client.execute_cell(cell, index)
                except (CellTimeoutError, DeadKernelError) as error:
                    errors.append(f"{place} and what follows not run: {type(error).__name__}")
                    break
                failed = [o for o in cell.outputs if o.output_type == "error"]
                if failed and "raises-exception" not in cell.metadata.get("tags", ()):
                    errors.append(f"{place}: {failed[0].ename}: {' '.join(failed[0].evalue.split())[:200]}")
        return errors


@contextmanager
def turn(locks: Path, alone: bool):
    """Wait until a cell may run: with the others, or, when it takes times, `alone` among all chapters' cells."""
    with open(locks / "door", "w") as door, open(locks / "room", "w") as room:
        # Whoever waits for the room to empty keeps the door shut for those behind.
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield


def where() -> dict:
    found = machine.detect()
    versions = {"python": found.python, "torch": found.torch, "CuTe DSL": found.dsl}
    return {
        "device": found.gpu if found.device == "cuda" else "the simulator",
        "driver": found.driver,
        "versions": {name: version for name, version in versions.items() if version},
        "date": records.today(),
    }


def recorded(notebook):
    """The cells of an executed notebook that the page shows, and that gave something."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for key, cell in zip(outputs.keys(cell.source for cell in cells), cells):
        given = []
        for one in filter(None, map(compact, cell.outputs)):
            if "text" in one and given and "text" in given[-1]:
                one = {"text": given.pop()["text"] + one["text"]}  # what a cell prints is one box
            given.append(one)
        if given and "remove-cell" not in cell.metadata.get("tags", ()):
            yield outputs.Cell(key, tuple(given))


def compact(output) -> dict | None:
    """An output as the page needs it: {"text"}, or one {type: data}; None for what no page shows."""
    if output.output_type == "stream":
        return {"text": output.text}
    if output.output_type == "error":
        return {"error": f"{output.ename}: {output.evalue}"}
    kind = next((kind for kind in RICHEST_FIRST if kind in output.data), None)
    if kind is None or "application/vnd.jupyter.widget-view+json" in output.data:
        return None
    data = output.data[kind]
    if len(data) > MOST_BYTES:
        return {"text": f"(An output of {len(data) / 1e6:.1f} MB is left out of this record.)"}
    return {kind: data}


# Where the book is built ---------------------------------------------------------------------------------------------


def keep(args) -> int:
    measured = records_in(args.archive)
    with tempfile.TemporaryDirectory() as folder:
        run(argparse.Namespace(chapters=list(measured), to=Path(folder), jobs=args.jobs))
        simulated = records_in(Path(folder, ARCHIVE))
    for name, record in measured.items():
        here = {cell["key"]: list(map(lasting, outputs.words(cell["outputs"]))) for cell in simulated[name]["cells"]}
        for cell in record["cells"]:
            given = zip(cell["outputs"], outputs.words(cell["outputs"]))
            same = here.get(cell["key"], ())
            cell["outputs"] = [
                output
                for output, words in given
                if lasting(words) not in same
                and TOO_FAST not in " ".join(words.split())
                and not SIMULATED.search(output.get("text/html", ""))
                if not outputs.names_another(output, record["device"])
            ]
        records.save(records.FOLDER / hardware.card_of(record["device"]) / "outputs" / f"{name}.json", record)
        other = sum(bool(cell["outputs"]) for cell in record["cells"])
        print(f"{name}: {other} of {len(record['cells'])} cells gave something else there")
    return 0


def lasting(words: str) -> str:
    """Words without the sizes of errors, which are others on other random numbers."""
    return ERRORS.sub("", " ".join(words.split()))


def records_in(archive: Path) -> dict:
    """The records of an archive by chapter."""
    try:
        with tarfile.open(archive) as files:
            return {Path(entry.name).stem: json.load(files.extractfile(entry)) for entry in files.getmembers()}
    except (OSError, tarfile.TarError) as error:
        sys.exit(f"record_outputs: {archive} is no archive that `run` has written ({machine.reason(error)})")


def drop(args) -> int:
    for path in sorted(records.FOLDER.glob("*/outputs/*.json")):
        record = records.read(path, "cells")
        cells = source_of(path.stem).cells
        gone = outputs.unfitting(
            outputs.load(path.stem, path.parts[-3]), [cell.source for cell in cells if cell.cell_type == "code"]
        )
        if gone:
            record["cells"] = [cell for cell in record["cells"] if cell["key"] not in gone]
            records.save(path, record)
            print(f"{path.parts[-3]}, {path.name}: {len(gone)} cells dropped, {len(record['cells'])} left")
    return 0


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for name, command in (("run", run), ("one", run_one)):
        sub = commands.add_parser(name)
        sub.add_argument("chapters", nargs="*", metavar="CHAPTER", help="a name or a number such as 04 (all)")
        sub.add_argument("--to", type=Path, required=True)
        sub.add_argument("--jobs", type=int, default=4, help="chapters that run at once (4)")
        sub.add_argument("--locks", type=Path, help=argparse.SUPPRESS)
        sub.set_defaults(command=command)
    sub = commands.add_parser("keep")
    sub.add_argument("archive", type=Path)
    sub.add_argument("--jobs", type=int, default=2, help="chapters that run at once (2)")
    sub.set_defaults(command=keep)
    commands.add_parser("drop").set_defaults(command=drop)
    args = parser.parse_args(argv)
    return args.command(args)


if __name__ == "__main__":
    sys.exit(main())
