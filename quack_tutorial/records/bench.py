"""Recorded results: what was measured, on what, with which versions, and every sample; as JSON in a card's folder of records.

| class    | is                                                                                          |
|----------|---------------------------------------------------------------------------------------------|
| `Result` | one provider in one cell: its status, its samples and what follows from them                |
| `Cell`   | one size of one operation, with its ceiling and the results of all providers                |
| `Record` | a sweep on one machine with one version of each package: provenance and cells               |

A status is "ok", "unsupported" (the provider refuses the size), "wrong" (its output is, so it was not timed), "missing"
(not installed) or "crashed"; all but "ok" come with the first line of a message and no numbers. Sample i of two
providers in a cell belongs to the same round. Reading checks that what is derived follows from the samples.
"""

from __future__ import annotations

import datetime
import functools
import json
import math
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path

from quack_tutorial import hardware
from quack_tutorial.hardware import ITEM_BYTES
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.records import FOLDER
from quack_tutorial.records import folder as folder_of
from quack_tutorial.records.cells import BEFORE, L2_MULTIPLE, PUBLIC_SERIES, CellKey, bytes_moved, bytes_read
from quack_tutorial.records.statistics import interquartile_range, median

SCHEMA = 1
STATUSES = ("ok", "unsupported", "wrong", "missing", "crashed")
SERIES = ("peers", "ladder", *PUBLIC_SERIES)
DIGITS = 5  # significant digits of a sample
# What a cell's ceiling is called: in a heading, and in a sentence.
RULERS = {
    "copy": ("best copy", "the fastest plain copy of the same size"),
    "read": ("best read", "the fastest kernel that only reads the same bytes"),
    "add": ("best addition", "the fastest addition of the same size"),
    "add three": ("best sum of three", "the fastest sum of three matrices of the same size"),
    "add and keep": ("best addition written twice", "the fastest addition of the same size that writes its sum twice"),
}
PLAIN = "best plain kernel", "the fastest plain kernel with the same reads and writes"  # several of them, or another


class RecordError(ValueError):
    """A record that cannot be used: the message says which, where in it, and what is wrong."""


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


def other_version(kept: dict[str, str], here: dict[str, str]) -> str | None:
    """The first package of which two sets of versions name different ones. That only one of them names a package is no
    contradiction: a peer is measured where it is installed, and the record then names it, too."""
    return next((name for name in sorted(kept) if here.get(name, kept[name]) != kept[name]), None)


@functools.cache
def changed_kernels() -> dict[str, dict[str, str]]:
    """{operation: {"on": the day its kernels changed, "what" changed, "times" against the earlier kernel's}}."""
    return json.loads((FOLDER / "changed_kernels.json").read_text(encoding="utf-8"))


def is_of_earlier_kernel(operation: str, day: str) -> bool:
    """Whether this package's kernels of the operation have changed since that day, in ISO format."""
    return operation in changed_kernels() and day[:10] < changed_kernels()[operation]["on"]


def on_earlier_kernels(timed) -> str:
    """A sentence for each change since these (operation, day) were timed, with a space before it; nothing where there is none."""
    operations = dict.fromkeys(operation for operation, day in timed if is_of_earlier_kernel(operation, day))
    told = (changed_kernels()[operation] | {"operation": operation} for operation in operations)
    said = (
        f" Our {one['operation']} was timed before its kernels changed on {one['on']}: {one['what']}. Times of the changed kernels "
        f"are {one['times']}."
        for one in told
    )
    return "".join(said)


def first_to_last(days) -> str:
    """Days in ISO format as a caption says them: "2026-01-02", or "2026-01-02 to 2026-01-05"."""
    return " to ".join(sorted({min(days), max(days)}))


def rounded(value: float, digits: int = DIGITS) -> float:
    """`value` to so many significant digits."""
    return float(f"{value:.{digits}g}")


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


def stamped(device: dict, driver: str | None) -> dict:
    """What a worker says of this machine, with the driver, the datasheet's bandwidth (None where `hardware` lacks the GPU) and the
    minute in UTC."""
    gpu = hardware.find(device["device"])
    return device | {"driver": driver, "datasheet_gb_s": gpu.bandwidth_gb_s if gpu else None, "date": minute()}


def minute() -> str:
    """Now, in UTC, as records have it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M")


def save(record: Record, path) -> None:
    """Write `record` as JSON, one cell a line, cells in the order of the grid; the file is replaced whole."""
    cells = sorted(record.cells, key=lambda cell: (cell.dtype, cell.N, cell.M))
    head = {"schema": SCHEMA, **{k: v for k, v in _plain(record).items() if k not in ("cells", "path")}}
    lines = [json.dumps(head, separators=(", ", ": "))[:-1] + ', "cells": [']
    lines += [
        json.dumps(_compact(cell), separators=(",", ":")) + ("," if cell is not cells[-1] else "") for cell in cells
    ]
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text("\n".join([*lines, "]}"]) + "\n", encoding="utf-8")
    unfinished.replace(path)


def load(path) -> Record:
    """Read and check one record; RecordError says what is wrong with a broken one."""
    return from_data(_read(path), str(path))


def _read(path):
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise RecordError(f"{path}: not JSON ({error}); measure it again with quack-tutorial bench") from error


def load_records(folder=None, operation: str | None = None, series: str = "peers") -> list[Record]:
    """All records of a folder (`default_folder` if left out) of one series, oldest first; other operations left out."""
    folder = Path(folder) if folder is not None else default_folder()
    records = []
    for path in sorted(folder.glob("*.json")):
        data = _read(path)
        # One of another operation is left out unchecked: checking takes a hundred times as long as reading.
        if operation is None or not isinstance(data, dict) or data.get("operation", operation) == operation:
            records.append(from_data(data, str(path)))
    records = [r for r in records if r.series == series]
    return sorted(records, key=lambda record: record.date)


def default_folder(card: str | None = None) -> Path:
    """quack_tutorial/records/CARD/bench of the checkout that this package is in; see `records.folder`."""
    return folder_of(card) / "bench"


def latest_cells(records: list[Record]) -> dict[CellKey, tuple[Record, Cell]]:
    """For each cell of the grid the most recent measurement of it."""
    found = {}
    for record in records:
        for cell in record.cells:
            key = record.key(cell)
            if key not in found or found[key][1].measured <= cell.measured:
                found[key] = (record, cell)
    return found


def ruler(ceilings) -> tuple[str, str]:
    """What these ceilings of cells are called together, in a heading and in a sentence."""
    kinds = {str(ceiling).removeprefix("torch ").partition(",")[0] for ceiling in ceilings}
    return RULERS.get(kinds.pop(), PLAIN) if len(kinds) == 1 else PLAIN


def with_cell(record: Record, cell: Cell, versions: dict[str, str]) -> Record:
    """`record` with `cell` added, which was measured with these versions, in place of an earlier measurement of the same size."""
    others = tuple(c for c in record.cells if (c.dtype, c.M, c.N) != (cell.dtype, cell.M, cell.N))
    return replace(record, cells=(*others, cell), versions=record.versions | versions)


# Reading -------------------------------------------------------------------------------------------------------------


def from_data(data, path="record") -> Record:
    """A `Record` from what json.loads gives; RecordError where something is missing, unknown or does not follow."""
    _require(isinstance(data, dict), f"{path}: a record is a JSON object, this is a {type(data).__name__}")
    _require(
        data.get("schema") == SCHEMA,
        f"{path}: schema {data.get('schema')!r}, this version reads {SCHEMA}; measure it again",
    )
    data = {k: v for k, v in data.items() if k != "schema"}
    cells = data.pop("cells", None)
    _require(isinstance(cells, list), f"{path}: it has no list of cells")
    record = _build(Record, {**data, "cells": (), "path": path}, path)
    _require(record.operation in OPERATIONS, f"{path}: operation {record.operation!r} is not one that is measured")
    _require(record.series in SERIES, f"{path}: series {record.series!r} is not one of {', '.join(SERIES)}")
    cells = tuple(_read_cell(cell, record, path) for cell in cells)
    sizes = [(cell.dtype, cell.M, cell.N) for cell in cells]
    twice = {size for size in sizes if sizes.count(size) > 1}
    _require(not twice, f"{path}: cell {' '.join(map(str, next(iter(twice), ())))} is there twice")
    return replace(record, cells=cells)


def _read_cell(data, record, path):
    _require(isinstance(data, dict), f"{path}: a cell is a JSON object, this is a {type(data).__name__}")
    where = f"{path}: cell {data.get('dtype')} {data.get('M')} x {data.get('N')}"
    results = data.get("results")
    _require(isinstance(results, list) and results, f"{where}: it has no results")
    cell = _build(Cell, {**data, "results": ()}, where)
    _require(cell.dtype in ITEM_BYTES, f"{where}: dtype is not one of {', '.join(ITEM_BYTES)}")
    expected = bytes_moved(record.key(cell))
    _require(
        cell.bytes_moved == expected, f"{where}: bytes_moved is {cell.bytes_moved}, the operation moves {expected}"
    )
    _check_samples(cell.ceiling_samples_us, f"{where}: ceiling")
    _follows(cell.ceiling_gb_s, cell.bytes_moved / median(cell.ceiling_samples_us) / 1e3, f"{where}: ceiling_gb_s")
    results = tuple(_read_result(result, cell, record, where) for result in results)
    names = [result.provider for result in results]
    _require(len(set(names)) == len(names), f"{where}: a provider is there twice ({', '.join(names)})")
    return replace(cell, results=results)


def _read_result(data, cell, record, where):
    _require(isinstance(data, dict), f"{where}: a result is a JSON object, this is a {type(data).__name__}")
    where = f"{where}: {data.get('provider')}"
    result = _build(Result, data, where)
    _require(result.status in STATUSES, f"{where}: status {result.status!r} is not one of {', '.join(STATUSES)}")
    if result.status != "ok":
        _require(bool(result.message), f"{where}: status {result.status} without a message")
        _require(not result.samples_us and result.gb_s is None, f"{where}: status {result.status} with times")
        return result
    _check_samples(result.samples_us, where)
    _require(
        len(result.samples_us) == len(cell.ceiling_samples_us),
        f"{where}: {len(result.samples_us)} samples, but the ceiling has {len(cell.ceiling_samples_us)}",
    )
    gb_s = cell.bytes_moved / median(result.samples_us) / 1e3
    _follows(result.gb_s, gb_s, f"{where}: gb_s")
    _follows(result.fraction_of_ceiling, gb_s / cell.ceiling_gb_s, f"{where}: fraction_of_ceiling")
    if record.datasheet_gb_s:
        _follows(result.percent_of_datasheet, 100 * gb_s / record.datasheet_gb_s, f"{where}: percent_of_datasheet")
    return result


# What a field may hold, by its annotation; numbers may come as int where a float is meant.
_KINDS = {"str": str, "int": int, "float": (int, float), "float | None": (int, float)}
_KINDS |= {"str | None": str, "int | None": int}


def _build(kind, data, where):
    """An instance of the dataclass `kind`; RecordError for fields that are missing, unknown or of another type."""
    names = {field.name: field for field in fields(kind)}
    unknown = sorted(set(data) - set(names))
    _require(not unknown, f"{where}: unknown field {', '.join(unknown)}")
    values = {}
    for name, field in names.items():
        if name not in data:
            _require(_has_default(field), f"{where}: {name} is missing")
            continue
        value = tuple(data[name]) if isinstance(data[name], list) else data[name]
        wanted = _KINDS.get(field.type)
        if wanted and not (value is None and "None" in field.type):
            fits = isinstance(value, wanted) and not isinstance(value, bool)
            _require(fits, f"{where}: {name} must be {field.type}, got {value!r}")
        values[name] = value
    return kind(**values)


def _has_default(field):
    return field.default is not MISSING or field.default_factory is not MISSING


def _check_samples(samples, where):
    fine = isinstance(samples, tuple) and all(
        isinstance(s, (int, float)) and not isinstance(s, bool) and math.isfinite(s) and s > 0 for s in samples
    )
    _require(fine and len(samples) >= 3, f"{where}: its samples must be 3 or more positive microseconds")


def _follows(stated, derived, where):
    close = isinstance(stated, (int, float)) and math.isclose(stated, derived, rel_tol=1e-3)
    _require(close, f"{where} is {stated}, but its samples give {derived:.5g}")


def _require(condition, sentence):
    if not condition:
        raise RecordError(sentence)


def _plain(record):
    return asdict(replace(record, cells=()))


def _compact(cell):
    """A cell as a dictionary, with the fields of results that say nothing left out."""
    data = {k: v for k, v in asdict(cell).items() if v is not None}
    data["results"] = [{k: v for k, v in r.items() if v not in (None, "", ())} for r in data["results"]]
    return data
