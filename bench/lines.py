"""`quack-tutorial lines`: where the warps of a kernel wait, by the line of its Python source, counted by Nsight Compute.

    quack-tutorial lines --out FOLDER          # every rung of the ladders, and what ships: a file of each operation
    quack-tutorial lines kernel.py:scale x=f32:4096 out=f32:4096:nan --html PAGE    # a kernel of your own: `qt.lines`

Kernels are compiled with line information, which changes no instruction. ncu runs each launch again for each group of counters, and
samples at intervals which instruction each warp is at, and why it is not issued. `records.lines` says what a row is.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from bench import asked
from bench.asked import on_a_gpu
from bench.profile import Case, NotProfiled, in_sight, ncu_version, under_ncu
from quack_tutorial import compiler, machine_code, records
from quack_tutorial.records import lines as kept_lines

TIMEOUT_S = 560
DTYPES, SIZES = ("float32", "bfloat16"), (4096, 32768)
HOT = 0.02  # of lines with so large a part of the samples instructions are kept,
MOST = 8  # so many of each, the longest waits
LAUNCH = {
    "ns": "gpu__time_duration.sum",
    "registers": "launch__registers_per_thread",
    "threads": "launch__block_size",
    "blocks": "launch__grid_size",
}
COUNTED = {  # of an instruction: ncu's columns
    "executed": "Instructions Executed",
    "sectors": "L2 Theoretical Sectors Global",
    "ideal_sectors": "L2 Theoretical Sectors Global Ideal",
    "wavefronts": "L1 Wavefronts Shared",
    "ideal_wavefronts": "L1 Wavefronts Shared Ideal",
}
STALL = "stall_"
MARK = "spin_kernel"  # of torch, launched before each case


@dataclass
class Launch:
    """A kernel that ncu counted: its name, `LAUNCH`, and its instructions as (address, place in the source, text, counters)."""

    name: str
    facts: dict = field(default_factory=dict)
    code: list = field(default_factory=list)


def command_line(report, words, only) -> list[str]:
    """ncu's command for a process that turns the profiler on itself; `only` is a regular expression of kernels' names."""
    return [
        shutil.which("ncu") or "ncu",
        *("--clock-control", "none", "--cache-control", "all", "--import-source", "yes"),
        *("--section", "SourceCounters", "--metrics", ",".join(LAUNCH.values())),
        *("--profile-from-start", "off", "--kernel-name", f"regex:{only}"),
        *("--force-overwrite", "--export", str(report)),
        *words,
    ]


def counted(words, only="kernel_cutlass", timeout=TIMEOUT_S) -> list[Launch]:
    """The launches of a process under ncu; NotProfiled says why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.ncu-rep")
        command = command_line(report, words, only)
        said = under_ncu(command, timeout, CUTE_DSL_LINEINFO="1")
        if "ERR_NVGPUCTRPERM" in said:
            raise NotProfiled("this user may not read the GPU's counters (ERR_NVGPUCTRPERM): ask its administrator")
        if not report.exists():
            last = (said.strip().splitlines() or ["nothing"])[-1]
            raise NotProfiled(f"ncu counted no kernel whose name has {only!r}; the last line said: {last}")
        pages = {
            page: subprocess.run(
                [command[0], "--import", str(report), "--csv", "--print-units", "base", "--page", *page.split()],
                capture_output=True,
                text=True,
            ).stdout
            for page in ("raw", "source --print-source sass", "source --print-source cuda,sass")
        }
    return parse(*pages.values())


def parse(raw: str, sass: str, joined: str) -> list[Launch]:
    """The launches in three pages of a report: facts of a launch, its instructions in order, and the line that each is from.

    The pages list the same launches in the same order; the third only those with line information, and each file apart.
    """
    head, _units, *rows = csv.reader([line for line in raw.splitlines() if line.startswith('"')])
    launches: list[Launch] = []
    for row in rows:
        cells = dict(zip(head, row))
        launches.append(Launch(cells["Kernel Name"], {name: _number(cells[ncu]) for name, ncu in LAUNCH.items()}))
    sections, head = [], []
    for row in csv.reader(sass.splitlines()):
        if row[:1] == ["Kernel Name"]:
            sections.append([])
        elif row[:1] == ["Address"]:
            head = row
        elif row and row[0].startswith("0x"):
            sections[-1].append(dict(zip(head, row)))
    # A kernel without line information is listed twice, with the same samples, which no two launches have.
    sections = [code for n, code in enumerate(sections) if not n or code != sections[n - 1]]
    if len(sections) != len(launches):
        raise NotProfiled(f"ncu lists the code of {len(sections)} of {len(launches)} launches")
    for launch, code in zip(launches, sections):
        launch.code = [[cells["Address"], None, " ".join(cells["Source"].split()), _counters(cells)] for cells in code]
        for (*_, before), (*_, behind) in zip(launch.code, launch.code[1:]):
            # A warp that has ended and whose stores are on their way is sampled one instruction behind its exit.
            if not behind["executed"]:
                before["samples"] += behind.pop("samples")
                before["stalls"] += behind.pop("stalls")
                behind |= {"samples": 0, "stalls": Counter()}
    _place(launches, joined)
    return launches


def _place(launches, joined: str) -> None:
    """Say of each instruction which (file, line) it is from, as the page that joins source and instructions has it."""
    file, line, sections = "", 0, []
    for row in csv.reader(joined.splitlines()):
        if row[:1] == ["File Path"]:
            file = row[1]
        elif row[:1] == ["Function Name"]:
            sections.append((row[1], file, {}))
        elif len(row) > 2 and sections:
            line = int(row[0]) if row[0].isdecimal() else line
            if row[2].startswith("0x"):
                sections[-1][2][row[2]] = file, line
    waiting = iter(sections)
    section = next(waiting, None)
    for launch in launches:
        addresses = {entry[0]: entry for entry in launch.code}
        files = set()
        # A launch's files follow each other; a file that comes again is of the next launch.
        while section and section[2].keys() <= addresses.keys() and section[1] not in files:
            files.add(section[1])
            for address, place in section[2].items():
                addresses[address][1] = place
            section = next(waiting, None)


def _counters(cells: dict) -> dict:
    """What ncu counted of an instruction; "stalls" are samples by reason."""
    stalls = {n.removeprefix(STALL): _number(cell) for n, cell in cells.items() if n.startswith(STALL) and "(" not in n}
    counters = {name: _number(cells.get(ncu)) for name, ncu in COUNTED.items()}
    return counters | {"samples": sum(stalls.values()), "stalls": Counter(stalls)}


def _number(text) -> float:
    try:
        return int(float(text.replace(",", "")))
    except (AttributeError, ValueError):
        return 0


def row_of(launch: Launch, sources: dict, compiled: Compiled, hot=HOT, most=MOST) -> dict:
    """A launch as a record has it; `sources` numbers the (file, function, text, which of such) of lines, and takes up new ones."""
    lines, total = {}, sum(entry[3]["samples"] for entry in launch.code)
    said = [compiled.place(place) for _, place, *_ in launch.code]
    places = machine_code.placed([f"{text};" for *_, text, _ in launch.code], said)
    for offset, (place, (*_, text, counters)) in enumerate(zip(places, launch.code)):
        lines.setdefault(place, []).append((offset, text, counters))
    kept = []
    for place, code in lines.items():
        key = -1
        if place:
            key = sources.setdefault((_short(place[0]), *machine_code.source_line(*place)), len(sources))
        row = {"source": key, "instructions": len(code)}
        row |= {name: sum(counters[name] for _, _, counters in code) for name in COUNTED}
        stalls = sum((counters["stalls"] for _, _, counters in code), Counter())
        row["live"] = compiled.live.get(place, 0)
        row |= {"samples": stalls.total(), "stalls": dict(+stalls)}
        if row["samples"] >= hot * total:
            slowest = sorted(code, key=lambda entry: -entry[2]["samples"])[:most]
            row["sass"] = [
                [offset, text, counters["executed"], counters["samples"]]
                for offset, text, counters in sorted(slowest, key=lambda entry: entry[0])
            ]
            row["ptx"] = compiled.ptx.get(place, [])[:most]
        kept.append({name: value for name, value in row.items() if value or name == "source"})
    return {"kernel": launch.name, **launch.facts, "lines": kept}


def _short(file: str) -> str:
    path = Path(file)
    return "/".join(path.parts[path.parts.index("quack_tutorial") :]) if "quack_tutorial" in path.parts else path.name


# The record ----------------------------------------------------------------------------------------------------------


def cases(operation: str) -> list[Case]:
    """Every version of an operation, and what ships."""
    from quack_tutorial.operations import OPERATIONS
    from quack_tutorial.records.cells import default_rows

    versions = ["ours", *(version for version in OPERATIONS[operation].ladder if version != "what ships")]
    return [
        Case(operation, version, dtype, default_rows(N), N) for N in SIZES for dtype in DTYPES for version in versions
    ]


def work(file) -> None:
    """The process under ncu: each case once with the profiler on, behind a mark; the file keeps which could be called."""
    import torch

    from quack_tutorial.operations import OPERATIONS

    done, made = [], None
    for words in json.loads(Path(file).read_text()):
        case = Case(**words)
        operation, size = OPERATIONS[case.operation], (case.M, case.N, case.dtype)
        if made != size:
            inputs = None
            inputs, made = operation.inputs(*size), size
        try:
            call = {"ours": operation.ours, **operation.ladder}[case.provider](*inputs)
            call(*inputs)
        except (ValueError, RuntimeError) as error:
            print(f"{case}: {error}", flush=True)
            continue
        in_sight(call, *inputs, mark=lambda: torch.cuda._sleep(1))
        done.append(words)
        Path(file).with_name("done.json").write_text(json.dumps(done))


@dataclass(frozen=True)
class Compiled:
    """What the compiler says of a case: the hash of its PTX, `places` {(name of a file, line): (file, line)}, and of each place its
    PTX and the most registers that are live at it, by nvdisasm where that is installed.

    ncu may name the file of the class that launches for that of the kernel, and of a text in PTX it has lines that follow it.
    """

    ptx_sha256: str
    places: dict
    ptx: dict
    live: dict = field(default_factory=dict)

    def place(self, said):
        """Where in the source an instruction is from of which ncu says a (file, line); None where that cannot be told."""
        name, line = (Path(said[0]).name, said[1]) if said else ("", 0)
        return self.places.get((name, line), self.places.get(("", line)))


def as_compiled(case: dict) -> Compiled:
    """A case compiled with line information, for which `CUTE_DSL_LINEINFO` is set when CuTe DSL is imported."""
    from bench import ours

    return compiled_of(ours.ptx(*(case[name] for name in ("operation", "provider", "dtype", "N"))))


def compiled_of(texts: list[str]) -> Compiled:
    """What is read off the PTX of a case's kernels."""
    from bench import ours

    counted_on, ptx = {}, {}
    for text in texts:
        for line, place in machine_code.located(text, counted_on):
            if place:
                ptx.setdefault(place, []).append(line.strip())
    places = {(Path(file).name, line): place for (file, line), place in counted_on.items()}
    for file, line in reversed(ptx):
        places |= {(Path(file).name, line): (file, line), ("", line): (file, line)}
    live = Counter()
    for code in map(machine_code.assembled, texts):
        for place, registers in zip(code.places, code.live) if code else ():
            place = place and counted_on.get(place, place)
            live[place] = max(live[place], registers)
    return Compiled(ours.ptx_sha256(texts), places, ptx, live)


def in_processes(function, items) -> list:
    """`function` of each item, computed in processes that see line information."""
    os.environ["CUTE_DSL_LINEINFO"] = "1"
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return list(pool.map(function, items))


def record(operation: str, sources: dict) -> list[dict]:
    """The rows of an operation: one for each version, type and size that can be called."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder, "cases.json")
        listed.write_text(json.dumps([case.__dict__ for case in cases(operation)]))
        words = [sys.executable, "-m", "bench.lines", str(listed)]
        launches = counted(words, f"kernel_cutlass|{MARK}")
        done = json.loads(listed.with_name("done.json").read_text())
    rows = []
    for launch in launches:
        if MARK in launch.name:
            rows.append({"case": done[len(rows)], "launches": []})
        else:
            rows[-1]["launches"].append(launch)
    for row, compiled in zip(rows, in_processes(as_compiled, [row["case"] for row in rows])):
        row["ptx_sha256"] = compiled.ptx_sha256
        row["launches"] = [row_of(launch, sources, compiled) for launch in row["launches"]]
    return rows


# A kernel of the reader's own ----------------------------------------------------------------------------------------


def count(folder: Path, ptx: str) -> kept_lines.Launch:
    """What ncu counts of the compiled function and its arguments in a folder; `ptx` is the function's, with lines."""
    launches = counted([sys.executable, "-m", "bench.lines", "--own", str(folder)])
    main = max(launches, key=lambda launch: launch.facts["ns"])
    sources: dict = {}
    return kept_lines.launch_of(row_of(main, sources, compiled_of([ptx]), hot=0, most=40), list(sources))


def work_own(folder: Path) -> None:
    """The process under ncu: the function twice on CUDA tensors, the second time with the profiler on."""
    import torch

    args = [arg.cuda() if hasattr(arg, "cuda") else arg for arg in torch.load(folder / "args.pt")]
    function = compiler.load_kept(folder / "kernel.o")
    in_sight(function, *args)


def shown(args) -> int:
    """Print a kernel of the reader's line by line, and write its page; 2 where the words make no sense."""
    from cutesim.files import Unusable, called
    from quack_tutorial.line_by_line import lines

    try:
        kernel, given = called(args.target, args.arguments, answered=compiler.dsl_problem() is not None)
        figure = lines(kernel, *given)
    except (Unusable, RuntimeError) as error:
        print(f"lines: {error}", file=sys.stderr)
        return 2
    print(figure)
    if args.html:
        Path(args.html).write_text(figure.html, encoding="utf-8")
    return 0


def add_arguments(parser):
    """Declare what `quack-tutorial lines` takes."""
    parser.add_argument(
        "target", nargs="?", metavar="FILE.py:FUNCTION", help="a kernel of your own; without it the ladders"
    )
    parser.add_argument(
        "arguments", nargs="*", metavar="ARGUMENT", help="as for simulate: a number, or a tensor as x=f32:8x4096"
    )
    parser.add_argument("--html", metavar="PAGE", help="write the figure of your kernel as a page")
    parser.add_argument("--out", metavar="FOLDER", help="keep the record of the ladders in this folder")
    parser.add_argument("--resume", action="store_true", help="skip the operations that FOLDER has")
    parser.add_argument("--limit-s", type=float, default=1e9, help="start no operation after so many seconds")


def run(args) -> int:
    """Count and print; 1 where ncu counts nothing, 2 where the words make no sense or a GPU is missing."""
    if args.target:
        return shown(args)
    if args.out is None:
        print(
            "lines: name your kernel, as FILE.py:function x=f32:8x4096, or --out FOLDER for the ladders' record",
            file=sys.stderr,
        )
        return 2
    try:
        return recorded(args)
    except NotProfiled as error:
        print(f"lines: {error}", file=sys.stderr)
        return 1


@on_a_gpu
def recorded(args, found) -> int:
    """A file of each operation."""
    from bench.worker import describe

    began = time.monotonic()
    for operation in todo(args):
        if time.monotonic() - began > args.limit_s:
            print(f"{operation}: left, the time is up")
            continue
        sources: dict = {}
        rows = record(operation, sources)
        head = records.stamped(describe(), found.driver, asked.command_line(args, ["lines"], ["out"]))
        head |= {"ncu": ncu_version(), "tools": machine_code.tools()}
        records.save(path_of(args, operation), head | {"sources": list(sources), "cells": rows})
        print(f"{operation}: {len(rows)} kernels, {time.monotonic() - began:.0f} s", flush=True)
    return 0


def path_of(args, operation: str) -> Path:
    return Path(args.out, f"{operation.replace(' ', '-')}.json")


def todo(args) -> list[str]:
    """The operations that are not there."""
    from quack_tutorial.operations import OPERATIONS

    return [operation for operation in OPERATIONS if not (args.resume and path_of(args, operation).exists())]


def left(args) -> int:
    """How many operations the record lacks."""
    return len(todo(args))


if __name__ == "__main__":
    work_own(Path(sys.argv[2])) if sys.argv[1] == "--own" else work(sys.argv[1])
