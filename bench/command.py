"""`quack-tutorial bench`: measure cells on this machine's GPU, show them as they come, keep them in a record.

A sweep may be stopped at any time and gone on with (`--resume`): the record is written after every cell, and cells that
it holds are skipped. A record holds one operation, one machine and one version of each package; others are refused. Several
operations, or `all` of them, have a record each in the folder that --out names. With `--workers K` there are K processes, of
which one measures while others compile (see `gpu_lock`).
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from pathlib import Path

from bench import asked, public, sweep
from bench.asked import numbers, on_a_gpu
from bench.peers import PROVIDERS
from bench.results import all_speeds, sentence
from quack_tutorial import hardware
from quack_tutorial.operations import OPERATIONS, is_own, named, slug
from quack_tutorial.records import RecordError, other_version, results, today
from quack_tutorial.records import bench as records
from quack_tutorial.records.cells import (
    BEFORE,
    DTYPES,
    L2_MULTIPLE,
    PUBLIC,
    PUBLIC_MEAN,
    PUBLIC_SERIES,
    CellKey,
    default_rows,
    expected_cells,
    requested_dtypes,
    words,
)

TIMER = (
    f"microseconds a launch: CUDA-graph replay of >= 20 launches, or of 10 ms, over rotating inputs of >= {L2_MULTIPLE} x L2, "
    f"before each sample {BEFORE}, providers interleaved, one sample a round; "
    "do_bench_us: triton.testing.do_bench median"
)
QUICK_SIZES = (1024, 4096, 8192, 16384)
ALL = "all"
GRID_ROWS = "grid"


def add_arguments(parser):
    """Declare what `quack-tutorial bench` takes."""
    names = ", ".join(map(slug, OPERATIONS))
    parser.add_argument("operation", nargs="?", default=ALL, help=f"{names}; several with commas, or all (default)")
    parser.add_argument("--dtype", help="types, separated by commas (default: all of " + ",".join(DTYPES) + ")")
    parser.add_argument("--n", help="row lengths, separated by commas (default: all of the grid)")
    parser.add_argument(
        "--m", help=f"numbers of rows, separated by commas, or {GRID_ROWS}: what goes with N (default: that and 8192)"
    )
    parser.add_argument("--providers", help="providers, separated by commas (default: all that an operation has)")
    parser.add_argument("--without", help="providers to leave out, separated by commas")
    series = parser.add_mutually_exclusive_group()
    series.add_argument("--ladder", action="store_true", help="the versions of the lesson instead of the peers")
    series.add_argument(
        "--public", action="store_true", help="the calls that a torch user makes instead of the kernels"
    )
    series.add_argument("--public-mean", action="store_true", help="the same: cross-entropy's gradient of the mean")
    parser.add_argument(
        "--out", metavar="FILE", help="the record to write, or the folder of several operations' records"
    )
    parser.add_argument("--resume", action="store_true", help="go on with FILE: skip the cells it holds")
    parser.add_argument("--quick", action="store_true", help="4 sizes, 7 rounds, no second timer")
    parser.add_argument("--workers", type=int, default=1, metavar="K", help="K processes: one measures, others compile")
    parser.add_argument("--limit-s", type=float, metavar="S", help="stop between cells after about S seconds")


@on_a_gpu
def run(args, here) -> int:
    """Measure; 0 when it went well or stopped at the limit, 1 with one sentence when it cannot, 2 without a GPU."""
    try:
        if args.workers < 1:
            raise ValueError(f"--workers takes a number of processes, 1 or more, got {args.workers}")
        keys = requested_cells(args)
        providers = requested_providers(args)
        kept = opened(args)
    except ValueError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    try:
        return measure(args, keys, providers, kept, here.driver)
    except (RuntimeError, RecordError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1


def left(args) -> int:
    """How many of the cells that the arguments ask for their records lack."""
    return len(missing_cells(requested_cells(args), opened(args), requested_providers(args)))


def measure(args, keys, providers, kept, driver, start=sweep.Worker) -> int:
    """Measure those of `keys` that the records `kept` lack, and write each; `start` makes a worker.

    `providers` maps operations to names of providers, `kept` operations to the records that there are.
    """
    todo = missing_cells(keys, kept, providers)
    print(f"{len(keys)} cells, {len(keys) - len(todo)} of them measured before; providers:")
    for operation, names in providers.items():
        print(f"  {operation}: {', '.join(names)}")
    if not todo:
        return 0
    earlier = dict(kept)
    began, failed, done, kept = time.monotonic(), 0, 0, dict(kept)
    started = []  # what a worker says about the device is known when the first one has started

    def start_and_note(**more):
        """A worker, ended again where its machine is another one: nothing is measured that could not be kept."""
        worker = start(**more)
        try:
            refuse_others(args, earlier, driver, worker.machine)
        except RecordError:
            worker.close()
            raise
        started.append(worker.machine)
        return worker

    def show(key, what):
        if sys.stderr.isatty():
            print(f"\r\033[K{key}: {what}", end="", file=sys.stderr, flush=True)

    found = sweep.measure_cells(
        todo,
        lambda key: [
            *providers[key.operation],
            *timed_before(key, earlier.get(key.operation), providers[key.operation]),
        ],
        rounds=7 if args.quick else 11,
        do_bench=not args.quick,
        limit_s=args.limit_s,
        on_step=show,
        start=start_and_note,
        workers=args.workers,
        series=series_of(args),
    )
    for measured in found:
        show(measured.key, "")
        if measured.cell is None:
            failed += 1
            print(f"{measured.key}: no result: {measured.message}")
            continue
        operation = measured.key.operation
        refuse_without_ours(measured)
        fresh, path = new_record(args, operation, started[0], driver), path_of(args, operation)
        kept[operation] = records.with_cell(kept.get(operation, fresh), measured.cell, fresh.versions)
        done += 1
        print(f"{describe(fresh, measured.cell)}  [{measured.seconds:.1f} s]", flush=True)
        if path:
            records.save(kept[operation], path)
    left = len(todo) - done - failed
    print(f"{done} measured, {failed} failed, {left} left, in {time.monotonic() - began:.0f} s.")
    if left and args.out:
        print(f"Go on with: {command_line(args)} --resume")
    return 1 if failed else 0


def refuse_without_ours(measured) -> None:
    """RuntimeError if a kernel of this package lacks what it imports: the cell would say nothing."""
    for result in measured.cell.results:
        if is_own(measured.key.operation, result.provider) and result.status == "missing":
            raise RuntimeError(f"what our own kernels need is not here ({result.message})")


def refuse_others(args, kept, driver: str | None, machine: dict) -> None:
    """RecordError if a record of `kept` is of another machine or version than `machine`, which a worker says it is."""
    for operation, record in kept.items():
        fresh = new_record(args, operation, machine, driver)
        if other := difference(record, fresh):
            raise RecordError(f"{path_of(args, operation)} is of another machine or version ({other})")


def requested_operations(args) -> tuple[str, ...]:
    """The operations that the arguments ask for; of all, those that have the series."""
    series = series_of(args)
    if args.operation != ALL:
        return tuple(dict.fromkeys(map(named, args.operation.split(","))))
    if series in PUBLIC_SERIES:
        return public.operations(series)
    return tuple(name for name, operation in OPERATIONS.items() if operation.ladder or series == "peers")


def series_of(args) -> str:
    """The series of the records that the arguments ask for."""
    asked = {"ladder": args.ladder, PUBLIC: args.public, PUBLIC_MEAN: args.public_mean}
    return next((series for series, is_asked in asked.items() if is_asked), "peers")


def requested_cells(args) -> list[CellKey]:
    """The cells that the arguments ask for, in the order of the grid; ValueError says what makes no sense."""
    dtypes = requested_dtypes(args.dtype, ("float32", "bfloat16") if args.ladder else DTYPES)
    sizes, rows = numbers(args.n, "--n"), () if args.m == GRID_ROWS else numbers(args.m, "--m")
    if args.quick and not sizes:
        sizes = QUICK_SIZES
    return [key for operation in requested_operations(args) for key in cells_of(operation, args, dtypes, sizes, rows)]


def cells_of(operation: str, args, dtypes, sizes, rows) -> list[CellKey]:
    """The cells of one operation; all of the grid where neither sizes nor rows are asked for."""
    grid = expected_cells(operation, args.ladder)
    if not sizes and not args.m:
        return [key for key in grid if key.dtype in dtypes]
    sizes = sizes or sorted({key.N for key in grid})
    return [CellKey(operation, dtype, M, N) for dtype in dtypes for N in sizes for M in rows or (default_rows(N),)]


def requested_providers(args) -> dict[str, list[str]]:
    """For each operation the providers that the arguments ask for; ValueError names those there are."""
    wanted, unwanted, found, known = words(args.providers), words(args.without), {}, []
    series = series_of(args)
    for name in requested_operations(args):
        there = providers_there(name, series)
        found[name] = [one for one in there if (not wanted or one in wanted) and one not in unwanted]
        known += [one for one in there if one not in known]
    # What another operation has is left out of this one already.
    anywhere = {one for operation in OPERATIONS.values() for one in (*PROVIDERS[operation.name], *operation.ladder)}
    unknown = [one for one in wanted if one not in known] + [one for one in unwanted if one not in anywhere]
    if unknown:
        raise ValueError(f"provider {unknown[0]!r} is not one of: {', '.join(known)}")
    empty = [name for name, names in found.items() if not names]
    if empty:
        raise ValueError(f"{empty[0]} has none of the providers that are asked for")
    return found


def providers_there(operation: str, series: str):
    """What an operation has in a series: providers, or the rungs of its ladder."""
    if series in PUBLIC_SERIES:
        return public.calls_of(operation, series)
    return OPERATIONS[operation].ladder if series == "ladder" else PROVIDERS[operation]


def several(args) -> bool:
    """Whether the arguments ask for more than one operation, each of which has a record of its own."""
    return args.operation == ALL or "," in args.operation


def path_of(args, operation: str) -> Path | None:
    """Where an operation's record goes: FILE, or FOLDER/operation.json for several or if there is that folder; None where
    nothing is kept."""
    if not args.out or not (several(args) or Path(args.out).is_dir()):
        return Path(args.out) if args.out else None
    series = series_of(args)
    return Path(args.out) / f"{slug(operation)}{'' if series == 'peers' else '-' + slug(series)}.json"


def opened(args) -> dict[str, records.Record]:
    """The records to go on with, by operation; ValueError where that would overwrite or cannot be."""
    if args.resume and not args.out:
        raise ValueError("--resume goes on with a record: name it with --out FILE")
    if several(args) and args.out and args.out.endswith(".json"):
        raise ValueError(f"a record holds one operation, so --out must name a folder for several, not {args.out}")
    kept, series = {}, series_of(args)
    for operation in requested_operations(args):
        path = path_of(args, operation)
        if path is None or not path.exists():
            continue
        if not args.resume:
            raise ValueError(f"{path} exists: go on with it with --resume, or name another file")
        record = records.load(path)
        if (record.operation, record.series) != (operation, series):
            raise ValueError(f"{path} holds {record.operation} ({record.series}), not {operation} ({series})")
        kept[operation] = record
    return kept


def missing_cells(keys, kept: dict[str, records.Record], providers: dict[str, list[str]]) -> list[CellKey]:
    """Those of `keys` that the records do not hold, or without some of the `providers` of their operation."""
    held = {
        record.key(cell)
        for record in kept.values()
        for cell in record.cells
        if all((result := cell.result(name)) and result.status != "missing" for name in providers[record.operation])
    }
    return [key for key in keys if key not in held]


def timed_before(key: CellKey, record: records.Record | None, providers: list[str]) -> list[str]:
    """Those that an earlier measurement of the cell timed beside `providers`: one that takes its place times them, too."""
    if record is None:
        return []
    timed = {
        one.provider for cell in record.cells if record.key(cell) == key for one in cell.results if one.status == "ok"
    }
    return [one for one in providers_there(key.operation, record.series) if one in timed and one not in providers]


def new_record(args, operation: str, device: dict, driver: str | None) -> records.Record:
    """An empty record of this machine; `device` is what a worker says about it."""
    sheet = hardware.find(device["device"])
    return records.Record(
        operation=operation,
        series=series_of(args),
        device=device["device"],
        driver=driver or "unknown",
        datasheet_gb_s=sheet.bandwidth_gb_s if sheet else None,
        l2_bytes=device["l2_bytes"],
        sms=device["sms"],
        versions=device["versions"],
        date=today(),
        command=command_line(args, operation),
        timer=TIMER,
        cells=(),
    )


def command_line(args, operation: str | None = None) -> str:
    """The command that measures what `args` ask for, or `operation` of it, without folders, which say nothing to a reader."""
    out = path_of(args, operation) if operation else args.out
    options = "dtype n m providers without ladder public public-mean quick out".split()
    line = asked.command_line(
        Namespace(**vars(args) | {"out": out}), ["bench", slug(operation or args.operation)], options
    )
    return line + (f" --workers {args.workers}" if args.workers > 1 else "")


def difference(kept, fresh) -> str:
    """The first thing in which two records differ so that their cells do not belong in one; empty where they do."""
    for name in ("operation", "series", "device", "driver"):
        if getattr(kept, name) != getattr(fresh, name):
            return f"{name} {getattr(kept, name)} there, {getattr(fresh, name)} here"
    name = other_version(kept.versions, fresh.versions)
    return f"{name} {kept.versions[name]} there, {fresh.versions[name]} here" if name else ""


def describe(record, cell) -> str:
    """One line on a measured cell."""
    head = f"{record.key(cell)}:"
    ceiling = f"ceiling {cell.ceiling_gb_s:.0f} GB/s ({cell.ceiling})"
    if record.series == "ladder" or cell.result("ours") is None:
        return f"{head} {all_speeds(cell)}; {ceiling}"
    row = results.row(record, cell)
    others = "; ".join(f"{r.provider}: {r.status}, {r.message}" for r in cell.results if r.status != "ok")
    return f"{head} {sentence(row)}; {ceiling}" + (f"; {others}" if others else "")
