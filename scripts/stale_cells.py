"""Say which cells of the records are to be measured again, and why; with --drop take them out, for `bench --resume`.

    python scripts/stale_cells.py [--why changed,unsure,cached] [--operation cross-entropy] [--drop] [FOLDER]

| why       | what it means                                                                                   |
|-----------|-------------------------------------------------------------------------------------------------|
| changed   | a kernel of this package that was timed, or its configuration, is not what ships now             |
| unsure    | the speed ratio to the best peer is not known to 1 %                                             |
| cached    | some inputs may have been found in L2: too few went round, or it was not cleared before a sample |

"changed" needs CuTe DSL, which compiles what ships; no reason needs a GPU.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from bench import ours
from bench.asked import words
from quack_tutorial import compiler, hardware
from quack_tutorial.operations import named
from quack_tutorial.records import bench as records
from quack_tutorial.records import results


def changed(record: records.Record, cell: records.Cell) -> bool:
    return any(
        (result.ptx_sha256, result.config)
        != ours.shipped(record.operation, result.provider, cell.dtype, cell.N, hardware.card_of(record.device))
        for result in cell.results
        if result.ptx_sha256
    )


def unsure(record: records.Record, cell: records.Cell) -> bool:
    return record.series != "ladder" and results.row(record, cell)["verdict"] == "unsure"


REASONS = {"changed": changed, "unsure": unsure, "cached": records.Record.cached}


def why(record: records.Record, cell: records.Cell, wanted) -> str:
    """The first of the `wanted` reasons why a cell is to be measured again; nothing if it is not."""
    return next((reason for reason in REASONS if reason in wanted and REASONS[reason](record, cell)), "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=records.default_folder(),
        help="default: the benchmark of the card that is selected",
    )
    parser.add_argument(
        "--why", default=",".join(REASONS), help="only these reasons, separated by commas (default: all)"
    )
    parser.add_argument("--operation", help="only this operation (default: all)")
    parser.add_argument("--drop", action="store_true", help="take them out of the records")
    args = parser.parse_args()
    wanted = words(args.why)
    problem = compiler.dsl_problem() if "changed" in wanted else ""
    if not problem and (unknown := [reason for reason in wanted if reason not in REASONS]):
        problem = f"--why {unknown[0]}: expected {', '.join(REASONS)}"
    if not problem and not args.folder.is_dir():
        problem = f"{args.folder} is no folder: name one that holds records"
    if problem:
        print(f"stale_cells: {problem}", file=sys.stderr)
        return 1
    found = 0
    try:
        operation = named(args.operation) if args.operation else None
        for record in [one for series in records.SERIES for one in records.load_records(args.folder, series=series)]:
            if operation not in (None, record.operation):
                continue
            reasons = [(cell, why(record, cell, wanted)) for cell in record.cells]
            for cell, reason in reasons:
                if reason:
                    found += 1
                    print(f"{record.key(cell)}{f' ({record.series})' * (record.series != 'peers')}: {reason}")
            kept = tuple(cell for cell, reason in reasons if not reason)
            if args.drop and not kept:
                Path(record.path).unlink()
            elif args.drop and len(kept) < len(record.cells):
                records.save(replace(record, cells=kept), record.path)
    except ValueError as error:  # RecordError is one
        print(f"stale_cells: {error}", file=sys.stderr)
        return 1
    print(f"{found} cells {'taken out' if args.drop else 'to be measured again'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
