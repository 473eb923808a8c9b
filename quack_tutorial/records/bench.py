"""Recorded results: what was measured, on what, with which versions, and every sample; as JSON in a card's folder of records.

| class    | is                                                                                          |
|----------|---------------------------------------------------------------------------------------------|
| `Result` | one provider in one cell: its status, its samples and what follows from them                |
| `Cell`   | one size of one operation, with its ceiling and the results of all providers                |
| `Record` | a sweep on one machine with one version of each package: provenance and cells               |

A status is "ok", "unsupported" (the provider refuses the size), "wrong" (its output is, so it was not timed), "missing"
(not installed) or "crashed"; all but "ok" come with the first line of a message and no numbers. Sample i of two
providers in a cell belongs to the same round. What is derived follows from the samples; a test looks at every record.
"""

from __future__ import annotations

import functools
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from quack_tutorial import records
from quack_tutorial.hardware import ITEM_BYTES
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.records import FOLDER, build, require, rounded
from quack_tutorial.records.cells import BEFORE, L2_MULTIPLE, PUBLIC_SERIES, CellKey, bytes_read
from quack_tutorial.records.statistics import interquartile_range, median

STATUSES = ("ok", "unsupported", "wrong", "missing", "crashed")
SERIES = ("peers", "ladder", *PUBLIC_SERIES)
# What a cell's ceiling is called: in a heading, and in a sentence.
RULERS = {
    "copy": ("best copy", "the fastest plain copy of the same size"),
    "read": ("best read", "the fastest kernel that only reads the same bytes"),
    "add": ("best addition", "the fastest addition of the same size"),
    "add three": ("best sum of three", "the fastest sum of three matrices of the same size"),
    "add and keep": ("best addition written twice", "the fastest addition of the same size that writes its sum twice"),
}
# Several of them, or another.
PLAIN = "best plain kernel", "the fastest plain kernel with the same reads and writes"


@dataclass(frozen=True)
class Result:
    """One provider in one cell. Times are microseconds a launch; `error` is the largest over what is tolerated.

    Of our kernels, `config` is how rows were spread and blocks launched, the numbers of `kernels.tuned.config.fields`.
    """

    provider: str
    status: str
    message: str = ""
    samples_us: tuple[float, ...] = ()
    iqr_us: float | None = None
    do_bench_us: float | None = None
    gb_s: float | None = None
    fraction_of_ceiling: float | None = None
    percent_of_datasheet: float | None = None
    error: float | None = None
    ptx_sha256: str | None = None
    config: str | None = None


@dataclass(frozen=True)
class Cell:
    """One size: the ceiling and everyone's results. `measured` is the UTC time, `slots` the buffers gone round.

    `gpu` is the number of the GPU on its host, where several of one host measured a cell each. `before` is what preceded each
    sample, None where L2 was not cleared. `workers` is how many processes shared the GPU (see `gpu_lock`), None for one alone.
    """

    dtype: str
    M: int
    N: int
    bytes_moved: int
    measured: str
    launches: int
    slots: int
    ceiling: str
    ceiling_gb_s: float
    ceiling_samples_us: tuple[float, ...]
    results: tuple[Result, ...]
    gpu: int | None = None
    before: str | None = None
    workers: int | None = None

    def result(self, provider: str) -> Result | None:
        """The result of `provider`, or None where it was not asked."""
        return next((result for result in self.results if result.provider == provider), None)


@dataclass(frozen=True)
class Record:
    """A sweep. `datasheet_gb_s` is None for a GPU that `hardware` does not list."""

    operation: str
    series: str
    device: str
    driver: str
    datasheet_gb_s: float | None
    l2_bytes: int
    sms: int
    versions: dict[str, str]
    date: str
    command: str
    timer: str
    cells: tuple[Cell, ...]
    path: str = ""

    def key(self, cell: Cell) -> CellKey:
        """Which cell of the grid `cell` is."""
        return CellKey(self.operation, cell.dtype, cell.M, cell.N)

    def cached(self, cell: Cell) -> bool:
        """Whether some of the cell's inputs may have been found in L2: its launches went round too few of them, or L2 was not
        cleared before a sample, see `timing`."""
        few = cell.slots * bytes_read(self.key(cell)) < 0.999 * L2_MULTIPLE * self.l2_bytes
        return few or cell.before != BEFORE

    @property
    def days(self) -> str:
        """When its cells were measured: a day, or the first and the last. `date` is when it was begun."""
        return first_to_last([cell.measured[:10] for cell in self.cells] or [self.date])


@functools.cache
def changed_kernels() -> dict[str, list[dict]]:
    """{operation: its changes}: the day, or the moment, "on" which kernels changed, of which "providers" (all, if it does not say),
    "what" changed, "times" against the earlier kernel's."""
    return json.loads((FOLDER / "changed_kernels.json").read_text(encoding="utf-8"))


def changes_since(operation: str, day: str, provider: str = "ours") -> list[dict]:
    """The changes of this package's kernel of the operation, or of the version `provider` of its ladder, since that day."""
    of_it = changed_kernels().get(operation, ())
    return [one for one in of_it if provider in one.get("providers", (provider,)) and day < one["on"]]


def on_earlier_kernels(timed) -> str:
    """A sentence for the last change since each of these (operation, day) was timed, with a space before it; nothing where there is
    none."""
    last = {operation: changes[-1] for operation, day in timed if (changes := changes_since(operation, day))}
    said = (
        f" Our {operation} was timed before its kernels changed on {one['on'][:10]}: {one['what']}. Times of the changed kernels "
        f"are {one['times']}."
        for operation, one in last.items()
    )
    return "".join(said)


def first_to_last(days) -> str:
    """Days in ISO format as a caption says them: "2026-01-02", or "2026-01-02 to 2026-01-05"."""
    return " to ".join(sorted({min(days), max(days)}))


def ok_result(provider, samples_us, bytes_moved, ceiling_gb_s, datasheet_gb_s, **more) -> Result:
    """A result with status ok: everything derived from the rounded samples, so that a reader can derive it again."""
    samples = tuple(rounded(sample) for sample in samples_us)
    gb_s = bytes_moved / median(samples) / 1e3
    return Result(
        provider=provider,
        status="ok",
        samples_us=samples,
        iqr_us=rounded(interquartile_range(samples), 3),
        gb_s=rounded(gb_s),
        fraction_of_ceiling=rounded(gb_s / ceiling_gb_s, 4),
        percent_of_datasheet=rounded(100 * gb_s / datasheet_gb_s, 4) if datasheet_gb_s else None,
        **more,
    )


def save(record: Record, path) -> None:
    """Write `record`, cells in the order of the grid."""
    cells = sorted(record.cells, key=lambda cell: (cell.dtype, cell.N, cell.M))
    head = {name: value for name, value in asdict(replace(record, cells=())).items() if name != "path"}
    records.save(path, head | {"cells": list(map(_compact, cells))})


def load(path) -> Record:
    """Read and check one record; RecordError says what is wrong with a broken one."""
    return records.unchanged(_read, str(path))


def _read(path: str) -> Record:
    return _checked(records.read(path, "cells"), path)


def _about(path: str) -> tuple:
    kept = records.read(path, "cells")
    return kept.get("series"), kept.get("operation")


def load_records(folder=None, operation: str | None = None, series: str = "peers") -> list[Record]:
    """All records of a folder (`default_folder` if left out) of one series, oldest first; other operations left out."""
    found = []
    for path in sorted(Path(folder or default_folder()).glob("*.json")):
        of_series, of_operation = records.unchanged(_about, str(path))
        if of_series in (series, None) and (operation is None or of_operation in (operation, None)):
            found.append(load(path))
    return sorted(found, key=lambda record: record.date)


def default_folder(card: str | None = None) -> Path:
    """quack_tutorial/records/CARD/bench of the checkout that this package is in; see `records.folder`."""
    return records.folder(card) / "bench"


def latest_cells(found: list[Record]) -> dict[CellKey, tuple[Record, Cell]]:
    """For each cell of the grid the most recent measurement of it."""
    latest = {}
    for record in found:
        for cell in record.cells:
            key = record.key(cell)
            if key not in latest or latest[key][1].measured <= cell.measured:
                latest[key] = (record, cell)
    return latest


def ruler(ceilings) -> tuple[str, str]:
    """What these ceilings of cells are called together, in a heading and in a sentence."""
    kinds = {str(ceiling).removeprefix("torch ").partition(",")[0] for ceiling in ceilings}
    return RULERS.get(kinds.pop(), PLAIN) if len(kinds) == 1 else PLAIN


def with_cell(record: Record, cell: Cell, versions: dict[str, str]) -> Record:
    """`record` with `cell` added, which was measured with these versions, in place of an earlier measurement of the same size."""
    others = tuple(c for c in record.cells if (c.dtype, c.M, c.N) != (cell.dtype, cell.M, cell.N))
    return replace(record, cells=(*others, cell), versions=record.versions | versions)


# Reading -------------------------------------------------------------------------------------------------------------


def _checked(kept: dict, path: str) -> Record:
    """A `Record` from what its file holds; RecordError where something is missing or unknown."""
    record = build(Record, kept | {"cells": (), "path": path}, path)
    require(record.operation in OPERATIONS, f"{path}: operation {record.operation!r} is not one that is measured")
    require(record.series in SERIES, f"{path}: series {record.series!r} is not one of {', '.join(SERIES)}")
    return replace(record, cells=tuple(_checked_cell(cell, path) for cell in kept["cells"]))


def _checked_cell(kept, path):
    require(isinstance(kept, dict), f"{path}: a cell is a JSON object, this is a {type(kept).__name__}")
    where = f"{path}: cell {kept.get('dtype')} {kept.get('M')} x {kept.get('N')}"
    results = kept.get("results")
    require(isinstance(results, list) and results, f"{where}: it has no results")
    cell = build(Cell, kept | {"results": ()}, where)
    require(cell.dtype in ITEM_BYTES, f"{where}: dtype is not one of {', '.join(ITEM_BYTES)}")
    return replace(cell, results=tuple(_checked_result(result, where) for result in results))


def _checked_result(kept, where):
    result = build(Result, kept, where)
    where = f"{where}: {result.provider}"
    require(result.status in STATUSES, f"{where}: status {result.status!r} is not one of {', '.join(STATUSES)}")
    is_whole = len(result.samples_us) >= 3 and None not in (result.gb_s, result.fraction_of_ceiling)
    require(result.status != "ok" or is_whole, f"{where}: status ok without 3 samples and a speed")
    return result


def _compact(cell):
    """A cell as a dictionary, with the fields of results that say nothing left out."""
    data = {k: v for k, v in asdict(cell).items() if v is not None}
    data["results"] = [{k: v for k, v in r.items() if v not in (None, "", ())} for r in data["results"]]
    return data
