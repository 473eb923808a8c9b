"""`quack-tutorial results`: what the records say, worst cells first, and the lines of progress while one is made."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from quack_tutorial.operations import OPERATIONS, named, slug
from quack_tutorial.records import bench as records
from quack_tutorial.records import cards, results
from quack_tutorial.records.cells import L2_MULTIPLE, PUBLIC_MEAN, PUBLIC_SERIES
from quack_tutorial.records.results import OURS
from quack_tutorial.records.statistics import PASS_HALF_WIDTH, PASS_RATIO


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
    print(as_text(found, table))
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


def as_text(found, table) -> str:
    """What `results` prints: of each record a table, the worst cells first, and how many cells pass."""
    lines = []
    for record in found:
        place = record.series, record.operation, Path(record.path).name
        own = [row for row in table if (row["series"], row["operation"], row["record"]) == place]
        of_what = {"peers": "", PUBLIC_MEAN: ": the gradient of the mean"}.get(record.series, ": the public calls")
        lines += [f"{results.provenance(record)[:-1]}{of_what}.", "", *_table(own), ""] if own else []
    passed = sum(r["verdict"] == "pass" for r in table)
    lines.append(
        f"{passed} of {len(table)} cells pass: speed at least {PASS_RATIO} of the best peer, known to {PASS_HALF_WIDTH:.0%}. "
        "The columns on the right are ours over each peer, of public calls also alone, with what the host needs."
    )
    cached = sum(r["cached"] for r in table)
    if cached:
        lines.append(
            f"{cached} of them were measured without clearing L2 before each sample, or went round less than {L2_MULTIPLE} x L2 of "
            "inputs: some may have been found there, so measure them again."
        )
    above = [r for r in table if r["above_ceiling"]]
    if above:
        lines.append(f"{len(above)} are above the ceiling (!), so look into the measurement; --json names them.")
    rough = sorted({f"{name} {r['dtype']}" for r in table for name in r["less_accurate"]})
    if rough:
        lines.append(f"Less accurate than ours may be, yet timed: {', '.join(rough)}.")
    return "\n".join(lines)


def _table(table):
    peers = list(dict.fromkeys(name for row in table for name in row["ratios"]))
    body = [["cell", "GB/s", "of ceiling", "of peak", "best peer", "ratio", "verdict", *peers]]
    for row in table:
        speed = [row["status"], "", ""]
        if row["gb_s"] is not None:
            peak = f"{row['percent_of_datasheet']:.1f} %" if row["percent_of_datasheet"] else ""
            mark = "!" if row["above_ceiling"] else ""
            speed = [f"{row['gb_s']:.0f}", f"{row['fraction_of_ceiling']:.3f}{mark}", peak]
        ratio = f"{row['ratio_to_best_peer']:.3f} +- {row['half_width']:.3f}" if row["ratio_to_best_peer"] else ""
        others = [_over(row, peer) for peer in peers]
        size = f"{row['operation']} {row['dtype']} {row['M']} x {row['N']}"
        body.append([size, *speed, row["best_peer"] or "", ratio, row["verdict"], *others])
    return _columns(body)


def _over(row, peer) -> str:
    """Ours over a peer in a row of launches, and of public calls alone."""
    found = [row["ratios"].get(peer)]
    if row["series"] in PUBLIC_SERIES and {peer, OURS} <= row["alone_us"].keys():
        found.append(row["alone_us"][peer] / row["alone_us"][OURS])
    return " ".join(f"{ratio:.3f}" for ratio in found if ratio is not None)


def _columns(lines):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return ["  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in lines]
