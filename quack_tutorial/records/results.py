"""What pages compute from the benchmark's records.

| function        | gives                                                                                     |
|-----------------|-------------------------------------------------------------------------------------------|
| `rows`          | a dictionary for each measured cell: ours against every peer, paired within the cell      |
| `speedups`      | how many times as fast as a baseline an implementation is, cell by cell                    |
| `fast_p`        | the share of cells in which it is right and more than p times as fast                     |
| `provenance`    | device, versions and date in one sentence, for captions                                   |
"""

from __future__ import annotations

from pathlib import Path

from quack_tutorial.operations import OPERATIONS as OPERATIONS  # which pages read
from quack_tutorial.records import bench as records
from quack_tutorial.records import made_by
from quack_tutorial.records.cells import CellKey
from quack_tutorial.records.statistics import PASS_RATIO as PASS_RATIO  # which pages print
from quack_tutorial.records.statistics import median, paired_ratio, verdict

OURS = "ours"


def rows(found: list[records.Record]) -> list[dict]:
    """One dictionary a cell, the latest measurement of each; those without a ratio first, then the worst."""
    table = [row(record, cell) for record, cell in records.latest_cells(found).values() if cell.result(OURS)]
    return sorted(table, key=lambda r: (r["ratio_to_best_peer"] or 0.0, r["operation"], r["dtype"], r["N"], r["M"]))


def row(record: records.Record, cell: records.Cell) -> dict:
    """What a cell says about ours: GB/s, fraction of the ceiling, and paired speed ratios to each peer and the best.

    `above_ceiling` lists providers faster than the ceiling, which is a fault of the measurement until shown otherwise; `cached`
    says that some of the inputs may have been found in L2.
    """
    ours = cell.result(OURS)
    peers = [r for r in cell.results if r.status == "ok" and r.provider != OURS]
    best = max(peers, key=lambda r: r.gb_s, default=None)
    ratios = {r.provider: paired_ratio(ours.samples_us, r.samples_us) for r in peers} if ours.status == "ok" else {}
    to_best = ratios.get(best.provider) if best else None
    return {
        "operation": record.operation,
        "dtype": cell.dtype,
        "M": cell.M,
        "N": cell.N,
        "status": ours.status,
        "message": ours.message,
        "gb_s": ours.gb_s,
        "fraction_of_ceiling": ours.fraction_of_ceiling,
        "percent_of_datasheet": ours.percent_of_datasheet,
        "ceiling_gb_s": cell.ceiling_gb_s,
        "best_peer": best.provider if best else None,
        "best_peer_gb_s": best.gb_s if best else None,
        "ratio_to_best_peer": round(to_best.median, 4) if to_best else None,
        "half_width": round(to_best.half_width, 4) if to_best else None,
        "verdict": verdict(to_best) if to_best else ("no peer" if ours.status == "ok" else "no result"),
        "ratios": {name: round(ratio.median, 4) for name, ratio in ratios.items()},
        "refused": {r.provider: f"{r.status}: {r.message}" for r in cell.results if r.status != "ok"},
        "less_accurate": {r.provider: r.error for r in peers if (r.error or 0) > 1},
        "above_ceiling": [r.provider for r in cell.results if (r.fraction_of_ceiling or 0) > 1],
        "cached": record.cached(cell),
        "alone_us": {r.provider: r.do_bench_us for r in cell.results if r.do_bench_us},
        "series": record.series,
        "device": record.device,
        "record": Path(record.path).name,
    }


def speedups(found, provider: str, baseline: str, operation: str | None = None) -> dict[CellKey, float]:
    """How many times as fast as `baseline` a provider is, paired, in each cell that asked both; 0 where it is wrong or refuses.

    Cells whose baseline has no time are left out. `baseline` may be "best peer": the fastest of the others, ours left out.
    """
    gains = {}
    for key, (_, cell) in records.latest_cells(found).items():
        own = cell.result(provider)
        others = [r for r in cell.results if r.status == "ok" and r.provider != provider]
        if baseline == "best peer":
            base = max((r for r in others if r.provider != OURS), key=lambda r: r.gb_s, default=None)
        else:
            base = next((r for r in others if r.provider == baseline), None)
        if own is None or base is None or (operation and key.operation != operation):
            continue
        ratios = [b / a for a, b in zip(own.samples_us, base.samples_us)]
        gains[key] = median(ratios) if own.status == "ok" else 0.0
    return gains


def fast_p(gains, p: float) -> float:
    """The share of speed-ups above p: KernelBench's fast_p (Ouyang et al. 2025), where a wrong result counts as 0."""
    gains = list(gains)
    return sum(gain > p for gain in gains) / len(gains)


def provenance(record: records.Record) -> str:
    """Device, driver, versions and date of a record in one sentence."""
    latest = max((cell.measured for cell in record.cells), default=record.date)
    changed = records.on_earlier_kernels([(record.operation, latest)])
    return f"{record.operation} on one {record.device}, driver {record.driver}, {made_by(record.versions)}, {record.days}.{changed}"
