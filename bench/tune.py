"""`quack-tutorial tune`: try every configuration of a kernel at many sizes, keep what was found, and say what to ship.

A sweep is a JSON file of one operation and one promise about rows (see `kernels.tuned.config` for both), one size a line: the
configurations that were tried, each with its median or the reason why it has none, and the time of the plain kernel with
the same reads and writes. `--show` reads such files and compares the best with what `default_config` chooses now: that is
how the shipped table is made. A size has a date of its own where the file was begun before. Times are microseconds a launch,
from CUDA-graph replays over rotating buffers.

| of a candidate | is                                                                                                 |
|----------------|----------------------------------------------------------------------------------------------------|
| config         | the numbers of `config.fields`: threads a row, a block, blocks a row, in flight, and so on         |
| status         | "ok", "refused" (it raised), "wrong" (its result is) or "crashed" (the process died); with a message |
| rough_us       | the best of a few short replays                                                                    |
| us             | the median of at least 7 rounds in turn with the other finalists and the ceiling; finalists only   |
| error          | the largest error over what is tolerated                                                           |
"""

from __future__ import annotations

import functools
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import sweep
from bench.asked import command_line, numbers
from quack_tutorial import machine, records
from quack_tutorial.hardware import ITEM_BYTES
from quack_tutorial.kernels.tuned.config import label
from quack_tutorial.operations import named, slug
from quack_tutorial.operations.our_launches import contiguous_rows
from quack_tutorial.records.cells import ODD_SIZES, POWERS, SWEPT_TOO, default_rows, requested_dtypes, words

ROWS = ("aligned", "congruent")
DTYPES = ("float32", "bfloat16")  # float16 is as wide as bfloat16
PRINTED = 5
# What a sweep uses, and a file says the version of. The peers take no part in one.
USED = ("quack-tutorial", "python", "torch", "cuda", "triton", "nvidia-cutlass-dsl")


@dataclass(frozen=True)
class Size:
    """What one sweep is of."""

    operation: str
    dtype: str
    M: int
    N: int
    rows: str

    def __str__(self):
        return f"{self.operation} {self.dtype} {self.M} x {self.N} {self.rows}"


def add_arguments(parser):
    """Declare what `quack-tutorial tune` takes."""
    parser.add_argument("operation", nargs="?", help="the operation whose kernel is tuned")
    parser.add_argument("--dtype", help="types, separated by commas (default: " + ",".join(DTYPES) + ")")
    parser.add_argument(
        "--n", help="row lengths, separated by commas (default: those of the benchmark and some between)"
    )
    parser.add_argument("--m", help="the number of rows (default: what goes with N)")
    parser.add_argument("--rows", choices=ROWS, default="aligned", help="how rows start (default: aligned)")
    parser.add_argument(
        "--configs",
        help="try these alone: 32/128/1/0,32/64/1/0/2 (the NUMBERS of kernels.tuned.config, the last as far as they are wanted)",
    )
    parser.add_argument("--out", metavar="FILE", help="the file to write; without it results are only shown")
    parser.add_argument("--resume", action="store_true", help="go on with FILE: skip the sizes it holds")
    parser.add_argument("--gpus", type=int, metavar="K", help="use K GPUs of this host, one size each")
    parser.add_argument("--rounds", type=int, default=7, help="rounds in which the best are timed (default: 7)")
    parser.add_argument("--limit-s", type=float, metavar="S", help="stop between sizes after about S seconds")
    parser.add_argument(
        "--show", nargs="+", metavar="FILE", help="read sweeps: the best and what the shipped table loses"
    )


def run(args) -> int:
    """Tune, or show; 0 when it went well, 1 with one sentence when it cannot."""
    try:
        if args.show:
            print(as_text([load(path) for path in args.show]))
            return 0
        if not args.operation:
            raise ValueError("name an operation, or files with --show")
        sizes, kept = requested_sizes(args), opened(args)
        here = machine.detect()
        if here.device != "cuda":
            why = here.problems[0].what if here.problems else "none was found"
            raise ValueError(f"it measures on a GPU, and there is none to use here: {why}")
        return tune(args, sizes, kept, here.driver)
    except (ValueError, RuntimeError) as error:
        print(f"tune: {error}", file=sys.stderr)
        return 1


def tune(args, sizes, kept, driver, start=None) -> int:
    """Sweep those of `sizes` that the file `kept` (its contents, or None) lacks; `start` makes a worker."""
    todo = missing_sizes(sizes, kept)
    print(f"{len(sizes)} sizes, {len(sizes) - len(todo)} of them tuned before")
    started, began, failed, done = [], time.monotonic(), 0, 0
    command = [sys.executable, "-m", "bench.tuning"]
    start = start or functools.partial(sweep.Worker, command)

    def start_and_note(**more):
        worker = start(**more)
        started.append(worker.machine)
        return worker

    def request(size, crashed, alone):
        configs = [list(config) for config in configs_of(args, size)]
        return {"size": asdict(size), "configs": configs, "crashed": crashed, "rounds": args.rounds}

    def read(data, gpu):
        return data if gpu is None else {**data, "gpu": gpu}

    record = kept
    silent = lambda size, what: None  # noqa: E731
    for found in sweep.attend(todo, request, read, args.limit_s, silent, start_and_note, args.gpus):
        if found.cell is None:
            failed += 1
            print(f"{found.key}: no result: {found.message}")
            continue
        fresh = new_record(args, started[0], driver)
        if record is not None and provenance(record) != provenance(fresh):
            raise ValueError(f"{args.out} is of another machine or version; tune into another file")
        entry = {k: v for k, v in found.cell.items() if k not in ("operation", "rows")} | {"date": fresh["date"]}
        record = {**(record or fresh), "sizes": [*(record or fresh)["sizes"], entry]}
        done += 1
        print("\n".join(best_lines(found.key, found.cell, found.seconds)), flush=True)
        if args.out:
            save(record, args.out)
    left = len(todo) - done - failed
    print(f"{done} tuned, {failed} failed, {left} left, in {time.monotonic() - began:.0f} s.")
    if left and args.out:
        print(f"Go on with: {line(args)} --resume")
    return 1 if failed else 0


def left(args) -> int:
    """How many of the sizes that the arguments ask for their file lacks."""
    return len(missing_sizes(requested_sizes(args), opened(args)))


def missing_sizes(sizes, kept) -> list[Size]:
    """Those of `sizes` that a file's contents, or None, lack."""
    held = {size_of(kept, entry) for entry in kept["sizes"]} if kept else set()
    return [size for size in sizes if size not in held]


def requested_sizes(args) -> list[Size]:
    """The sizes that the arguments ask for; those that no contiguous rows promise `aligned` are left out of the default."""
    operation = named(args.operation)
    dtypes = requested_dtypes(args.dtype, DTYPES)
    asked, rows = numbers(args.n, "--n"), numbers(args.m, "--m")
    sizes = [
        Size(operation, dtype, M, N, args.rows)
        for dtype in dtypes
        for N in asked or sorted(POWERS + ODD_SIZES + SWEPT_TOO)
        for M in rows or (default_rows(N),)
        if args.rows == "congruent" or contiguous_rows(dtype, N).promise == "aligned"
    ]
    if not sizes:
        raise ValueError(
            f"rows of {args.n} elements do not start at multiples of 16 bytes: --rows congruent tunes them"
        )
    return sizes


def configs_of(args, size: Size) -> list[tuple]:
    """What is tried at a size: what was asked for, or the candidates; and in any case what is shipped."""
    from quack_tutorial.kernels.tuned import candidates, config

    if args.configs:
        return [config_from(word) for word in words(args.configs)]
    width = 8 * ITEM_BYTES[size.dtype]
    tried = [config.fields(one) for one in candidates.candidates(size.operation, width, size.N, size.rows)]
    return list(dict.fromkeys([*tried, shipped(size)]))


def config_from(word: str) -> tuple:
    """ "32/128/1/0" -> (32, 128, 1, 0); the third and what follows may be left out. ValueError says what is wrong."""
    from quack_tutorial.kernels.tuned.config import NUMBERS, Config, fields

    parts = word.split("/")
    if not 2 <= len(parts) <= len(NUMBERS) or not all(part.isdigit() for part in parts):
        raise ValueError(f"--configs takes {'/'.join(NUMBERS)}, two or more of them, got {word!r}")
    return fields(Config(*map(int, parts)))


def shipped(size: Size) -> tuple:
    """What a kernel of this size chooses when it is told nothing."""
    from quack_tutorial.kernels.tuned import choice, config

    return config.fields(choice.default_config(size.operation, 8 * ITEM_BYTES[size.dtype], size.N, size.rows))


# Files ---------------------------------------------------------------------------------------------------------------


def opened(args) -> dict | None:
    """The file to go on with, or None for a new one; ValueError where that would overwrite or does not fit."""
    if args.resume and not args.out:
        raise ValueError("--resume goes on with a file: name it with --out FILE")
    if not args.out or not Path(args.out).exists():
        return None
    if not args.resume:
        raise ValueError(f"{args.out} exists: go on with it with --resume, or name another file")
    record = load(args.out)
    if (record["operation"], record["rows"]) != (named(args.operation), args.rows):
        raise ValueError(
            f"{args.out} holds {record['operation']} ({record['rows']}), not {args.operation} ({args.rows})"
        )
    return record


def new_record(args, device: dict, driver: str | None) -> dict:
    """A file without sizes; `device` is what a worker says about it."""
    return {
        "operation": named(args.operation),
        "rows": args.rows,
        **device,
        "versions": {name: version for name, version in device["versions"].items() if name in USED},
        "driver": driver or "unknown",
        "date": records.today(),
        "command": line(args),
        "sizes": [],
    }


def provenance(record: dict) -> tuple:
    """What must agree for sizes to belong in one file."""
    return tuple(
        json.dumps(record[name], sort_keys=True) for name in ("operation", "rows", "device", "driver", "versions")
    )


def save(record: dict, path) -> None:
    """Write the file whole, one size a line."""
    sizes = sorted(record["sizes"], key=lambda entry: (entry["dtype"], entry["N"], entry["M"]))
    records.save(path, record | {"sizes": sizes})


def load(path) -> dict:
    """Read a file; RecordError says what is wrong with a broken one."""
    return records.read(path, "sizes")


def line(args) -> str:
    """The command that repeats the sweep."""
    words = ["tune", slug(named(args.operation)), "--rows", args.rows]
    return command_line(args, words, ["dtype", "n", "m", "configs", "out"])


# Showing -------------------------------------------------------------------------------------------------------------


def size_of(record: dict, entry: dict) -> Size:
    """Which size an entry of a file is."""
    return Size(record["operation"], entry["dtype"], entry["M"], entry["N"], record["rows"])


def ranking(entry: dict) -> list[dict]:
    """The candidates of a size that ran: finalists first, by their medians, then the others by their rough times."""
    right = [candidate for candidate in entry["candidates"] if candidate["status"] == "ok"]
    return sorted(right, key=lambda candidate: ("us" not in candidate, candidate.get("us", candidate["rough_us"])))


def loss(entry: dict, config) -> float | None:
    """How much slower `config` is than the best, as a fraction: 0.02 is 2 %; None where it was not tried or did not run."""
    ranked = ranking(entry)
    found = next((candidate for candidate in ranked if tuple(candidate["config"]) == tuple(config)), None)
    if found is None:
        return None
    kind = "us" if "us" in found else "rough_us"
    return found[kind] / ranked[0][kind] - 1


def best_lines(size: Size, entry: dict, seconds: float | None = None) -> list[str]:
    """The best few configurations of a size in words, with what they reach of the ceiling; and who did not run."""
    ranked, failed = ranking(entry), [c for c in entry["candidates"] if c["status"] != "ok"]
    took = "" if seconds is None else f", {seconds:.1f} s"
    lines = [f"{size}: {len(entry['candidates'])} tried, {len(failed)} did not run{took}; ceiling {entry['ceiling']}"]
    for candidate in ranked[:PRINTED]:
        us = candidate.get("us", candidate["rough_us"])
        mark = "  shipped" if tuple(candidate["config"]) == shipped(size) else ""
        gb_s = entry["bytes_moved"] / us / 1e3
        lines.append(
            f"  {label(candidate['config']):<14} {us:10.2f} us {gb_s:6.0f} GB/s {entry['ceiling_us'] / us:6.3f}{mark}"
        )
    lines += [f"  {label(c['config']):<14} {c['status']}: {c['message']}" for c in failed[:PRINTED]]
    return lines


def as_text(files: list[dict]) -> str:
    """For each operation, type and promise: the best at each size, what is shipped, and how much that loses."""
    lines = []
    for record in files:
        for dtype in dict.fromkeys(entry["dtype"] for entry in record["sizes"]):
            entries = [entry for entry in record["sizes"] if entry["dtype"] == dtype]
            lines += ["", f"{record['operation']} {dtype} {record['rows']} on {record['device']}, {record['date']}"]
            lines.append(
                f"{'M x N':<16} {'row bytes':>9}  {'best':<14} {'of ceiling':>10}  {'shipped':<14} {'loses':>7}  next"
            )
            lines += [_line(record, entry) for entry in entries]
            losses = [found for entry in entries if (found := loss(entry, shipped(size_of(record, entry)))) is not None]
            if losses:
                lines.append(f"shipped loses {max(losses):.1%} at most, {sum(losses) / len(losses):.1%} on average")
    return "\n".join(lines).lstrip("\n")


def _line(record, entry):
    ranked, chosen = ranking(entry), shipped(size_of(record, entry))
    size = f"{entry['M']} x {entry['N']}"
    row_bytes = entry["N"] * ITEM_BYTES[entry["dtype"]]
    if not ranked:
        return f"{size:<16} {row_bytes:>9}  nothing ran: {entry['candidates'][0]['message']}"
    best, lost = ranked[0], loss(entry, chosen)
    of_ceiling = entry["ceiling_us"] / best.get("us", best["rough_us"])
    others = ", ".join(f"{label(c['config'])} +{c['us'] / best['us'] - 1:.1%}" for c in ranked[1:4] if "us" in c)
    text = "not run" if lost is None else f"{lost:.1%}"
    return f"{size:<16} {row_bytes:>9}  {label(best['config']):<14} {of_ceiling:>10.3f}  {label(chosen):<14} {text:>7}  {others}"
