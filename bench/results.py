"""`quack-tutorial results`: what the records say, worst cells first, and the lines of progress while one is made."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from bench.peers import PROVIDERS
from quack_tutorial.operations import OPERATIONS, named, slug
from quack_tutorial.records import bench as records
from quack_tutorial.records import cards, results
from quack_tutorial.records.cells import L2_MULTIPLE, PUBLIC_MEAN, PUBLIC_SERIES, CellKey, expected_cells
from quack_tutorial.records.results import OURS
from quack_tutorial.records.statistics import PASS_HALF_WIDTH, PASS_RATIO

MOST_NAMED = 6  # cells in a sentence; more are counted


def add_arguments(parser):
    """Declare what `quack-tutorial results` takes."""
    parser.add_argument("operation", nargs="?", help=f"{', '.join(map(slug, OPERATIONS))} (default: all)")
    parser.add_argument("--card", help=f"{', '.join(cards())} (default: the recorded one most like this machine's)")
    parser.add_argument("--records", metavar="DIR", help="another folder of records")
    parser.add_argument(
        "--public", action="store_true", help="the calls that a torch user makes instead of the kernels"
    )
    parser.add_argument("--json", action="store_true", help="print a list of cells as JSON")


def run(args) -> int:
    """Print the table; 0, or 1 with one sentence when a record is broken or there is none."""
    try:
        folder = Path(args.records) if args.records else records.default_folder(args.card)
        if args.records and not folder.is_dir():
            raise ValueError(f"there is no folder {folder}")
        operations = [named(args.operation)] if args.operation else list(OPERATIONS)
        all_series = PUBLIC_SERIES if args.public else ("peers",)
        kept = [record for series in all_series for record in records.load_records(folder, series=series)]
    except ValueError as error:  # RecordError is one
        print(f"results: {error}", file=sys.stderr)
        return 1
    found = [record for record in kept if record.operation in operations]
    table = [
        row for series in all_series for row in results.rows([record for record in found if record.series == series])
    ]
    if args.json:
        print(json.dumps(table, indent=1))
        return 0
    if not table:
        how = f"quack-tutorial bench{' --public' if args.public else ''} --out FILE"
        print(f"results: no cell is measured yet in {folder}; {how} measures.", file=sys.stderr)
        return 1
    print(public_text(found, table) if args.public else as_text(found, table, operations))
    return 0


def sentence(row: dict) -> str:
    """A row in words, for a line of progress."""
    if row["gb_s"] is None:
        best = f"; best peer {row['best_peer']} {row['best_peer_gb_s']:.0f} GB/s" if row["best_peer"] else ""
        return f"ours {row['status']} ({row['message']}){best}"
    text = f"ours {row['gb_s']:.0f} GB/s, {row['fraction_of_ceiling']:.3f} of the ceiling"
    if row["best_peer"]:
        text += (
            f"; {row['ratio_to_best_peer']:.3f} +- {row['half_width']:.3f} of {row['best_peer']} "
            f"({row['best_peer_gb_s']:.0f}): {row['verdict']}"
        )
    return text + "".join(f"; above the ceiling: {name}" for name in row["above_ceiling"])


def all_speeds(cell: records.Cell) -> str:
    """Every provider's GB/s, or why it has none."""
    return ", ".join(
        f"{r.provider} {r.gb_s:.0f} ({r.fraction_of_ceiling:.3f})" if r.status == "ok" else f"{r.provider} {r.status}"
        for r in cell.results
    )


def as_text(found, table, operations) -> str:
    """What `results` prints: a table for each operation that was measured, and how much of the grid there is."""
    lines = []
    for operation in operations:
        own = [row for row in table if row["operation"] == operation]
        if own:
            lines += [
                *(results.provenance(record) for record in found if record.operation == operation),
                "",
                *_table(own),
                "",
            ]
    passed = sum(r["verdict"] == "pass" for r in table)
    lines.append(
        f"{passed} of {len(table)} cells pass: speed at least {PASS_RATIO} of the best peer, "
        f"known to {PASS_HALF_WIDTH:.0%}. The columns on the right are ours over each peer."
    )
    cached = sum(r["cached"] for r in table)
    if cached:
        lines.append(
            f"{cached} of them were measured without clearing L2 before each sample, or went round less than {L2_MULTIPLE} x L2 of "
            "inputs: some may have been found there, so measure them again."
        )
    above = [r for r in table if r["above_ceiling"]]
    if above:
        said = "; ".join(f"{_size(r)} ({', '.join(r['above_ceiling'])})" for r in above)
        if len(above) > MOST_NAMED:
            counts = Counter(r["operation"] for r in above)
            said = ", ".join(f"{operation} in {count} cells" for operation, count in counts.items())
            said += "; where it is ours the table has a !, and --json names all in above_ceiling"
        lines.append(f"Above the ceiling, so look into the measurement: {said}.")
    rough = {}
    for r in table:
        for name, error in r["less_accurate"].items():
            rough[name, r["dtype"]] = max(error, rough.get((name, r["dtype"]), 0))
    if rough:
        said = ", ".join(f"{name} {dtype} (up to {error:g})" for (name, dtype), error in sorted(rough.items()))
        lines.append(f"Less accurate than ours may be, yet timed (error over tolerance): {said}.")
    for operation in operations:
        lines += _coverage(found, [row for row in table if row["operation"] == operation], operation)
    return "\n".join(lines)


def public_text(found, table) -> str:
    """What `results --public` prints: of each series and operation ours over each peer, in a row and alone."""
    lines = []
    for record in found:
        own = [row for row in table if (row["series"], row["operation"]) == (record.series, record.operation)]
        of_what = "the gradient of the mean" if record.series == PUBLIC_MEAN else "the public calls"
        lines += [f"{results.provenance(record)[:-1]}: {of_what}.", "", *_public_table(own), ""]
    passed = sum(row["verdict"] == "pass" for row in table)
    lines.append(
        f"{passed} of {len(table)} cells pass: calls in a row, in a CUDA graph, at least {PASS_RATIO} as fast as the "
        f"best peer's, known to {PASS_HALF_WIDTH:.0%}. On the right are ours over each peer, in a row and alone, with "
        "what the host needs."
    )
    return "\n".join(lines)


def _public_table(table):
    """The lines of one record's table."""
    peers = list(dict.fromkeys(name for row in table for name in row["ratios"]))
    body = []
    for row in table:
        best, alone = row["best_peer"], row["alone_us"]
        line = [_size(row), row["verdict"], best or ""]
        line += [f"{row['ratio_to_best_peer']:.3f} +- {row['half_width']:.3f}" if row["ratio_to_best_peer"] else ""]
        for peer in peers:
            in_a_row = f"{row['ratios'][peer]:.3f}" if peer in row["ratios"] else ""
            line.append(f"{in_a_row} {alone[peer] / alone[OURS]:.3f}" if peer in alone and OURS in alone else in_a_row)
        body.append(line)
    return _columns([["cell", "verdict", "best peer", "ratio", *peers], *body])


def _table(table):
    """The lines of one operation's table."""
    peers = list(dict.fromkeys(name for r in table for name in r["ratios"]))
    head = ["cell", "GB/s", "of ceiling", "of peak", "best peer", "ratio", "+-", "verdict", *peers]
    body = []
    for r in table:
        cell = _size(r)
        if r["gb_s"] is None:
            body.append([cell, r["status"], "", "", r["best_peer"] or "", "", "", r["verdict"], *[""] * len(peers)])
            continue
        body.append(
            [
                cell,
                f"{r['gb_s']:.0f}",
                f"{r['fraction_of_ceiling']:.3f}" + ("!" if OURS in r["above_ceiling"] else ""),
                f"{r['percent_of_datasheet']:.1f} %" if r["percent_of_datasheet"] else "",
                r["best_peer"] or "",
                f"{r['ratio_to_best_peer']:.3f}" if r["best_peer"] else "",
                f"{r['half_width']:.3f}" if r["best_peer"] else "",
                r["verdict"],
                *[f"{r['ratios'][name]:.3f}" if name in r["ratios"] else "" for name in peers],
            ]
        )
    return _columns([head, *body])


def _coverage(found, table, operation):
    """How many of an operation's expected cells are measured and pass, which are missing, and who was left out."""
    missing, expected = missing_cells(found, operation), expected_cells(operation)
    on_grid = {(key.dtype, key.M, key.N) for key in expected}
    passed = sum(row["verdict"] == "pass" and (row["dtype"], row["M"], row["N"]) in on_grid for row in table)
    measured = len(expected) - len(missing)
    lines = [f"{operation}: {measured} of {len(expected)} expected cells measured, {passed} pass."]
    if missing and measured:
        lines.append("Missing: " + "; ".join(_in_words(missing, expected)))
    cells = [cell for key, (_, cell) in records.latest_cells(found).items() if key.operation == operation]
    for provider in PROVIDERS[operation]:
        left_out = sum(cell.result(provider) is None for cell in cells)
        if left_out:
            lines.append(f"{provider} was left out of {left_out} of {len(cells)} cells of {operation}.")
    return lines


def _in_words(cells, grid):
    """Cells of one operation, a number of rows after the other: "8192 rows: float32 all; bfloat16 and float16 256, 512"."""

    def sizes(keys):
        found = {}
        for key in keys:
            found.setdefault((key.M, key.dtype), []).append(key.N)
        return found

    everything, rows = sizes(grid), {}
    for (M, dtype), found in sizes(cells).items():
        numbers = "all" if found == everything[M, dtype] else ", ".join(map(str, found))
        rows.setdefault(M, {}).setdefault(numbers, []).append(dtype)
    return [
        f"{M} rows: " + "; ".join(f"{' and '.join(dtypes)} {numbers}" for numbers, dtypes in alike.items())
        for M, alike in rows.items()
    ]


def missing_cells(found: list[records.Record], operation: str) -> list[CellKey]:
    """The cells of the grid that no record holds."""
    held = records.latest_cells(found)
    return [key for key in expected_cells(operation) if key not in held]


def _size(row):
    return f"{row['operation']} {row['dtype']} {row['M']} x {row['N']}"


def _columns(lines):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return ["  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in lines]
