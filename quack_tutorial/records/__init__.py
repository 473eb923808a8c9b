"""What was measured or compared, as JSON, and what reads it; what a record is, its one reader and its one writer.

What depends on the card is in a folder a card, named as in `hardware`, such as `h200/`; `folder()` says which one is read:

| in a card's folder | holds                                                                     |
|--------------------|---------------------------------------------------------------------------|
| `bench/`           | times of kernels and their peers; see `bench`, `cells`, `results`         |
| `tune/`            | sweeps of configurations                                                  |
| `host/`            | what a call costs on the host                                             |
| `outputs/`         | what the chapters' cells gave there; see `workbench.outputs`              |
| `parallel/`        | cross-entropy over a vocabulary that several such GPUs share; see `parallel` |
| `head.json`        | a model's head and its loss, the logits whole and in pieces; see `head`   |
| `levels.json`      | chapter 16's kernels beside what ships; see `levels`                      |
| `lines/`           | where warps wait, by the line of a kernel's source; see `lines`           |
| `memory.json`      | latencies and bandwidths of the memory hierarchy; see `memory`            |
| `model.json`       | losses, step times and memory of a transformer's training; see `training` |
| `pitfalls.json`    | a kernel timed in ways that mislead and ways that do not; see `pitfalls`  |
| `profile.json`     | what Nsight Compute counted; see `profile`                                |
| `states.json`      | calls at sizes that no sweep had, after a read, a write and a producer; see `states` |

What does not:

| folder        | holds                                                                         |
|---------------|-------------------------------------------------------------------------------|
| `compiled/`   | registers and spills of the ladders, what compiles where; see `compiled`      |
| `listings/`   | PTX and SASS of a kernel; see `listings`                                      |
| `validation/` | how the simulator compares with specification, compiler and GPU; see `suite`  |

`changed_kernels.json` names the operations whose kernels have changed since they were timed, see `quack_tutorial.records.bench`.

In a file, some fields are the provenance (device, driver, versions, date, command and what else there is to say), and one is the
list of rows. `statistics` has medians and ratios. The modules of this room say what a row is, and what follows from rows.
"""

from __future__ import annotations

import datetime
import functools
import json
import os
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import ClassVar

from quack_tutorial import card, hardware, machine

FOLDER = Path(__file__).parent
# The cards that stand for others: of each is recorded nearly all that pages show.
WHOLE = ("h100", "h200")
SCHEMA = 1
PACKAGES = {
    "torch": "torch",
    "triton": "triton",
    "nvidia-cutlass-dsl": "CuTe DSL",
    "quack-kernels": "QuACK",
    "liger-kernel": "Liger",
    "cudnn": "cuDNN",
}


class RecordError(ValueError):
    """A record that cannot be used: the message says which, where in it, and what is wrong."""


@dataclass(frozen=True)
class Record:
    """What was found once. The facts of its `provenance` are attributes, and so are its `rows`, by the name that a file gives them.

    A kind of record says what it is called in a card's folder (`FILE`), what its rows are called (`ROWS`), which packages made its
    numbers (`MADE_BY`), whether pages can do without it (`MAY_LACK`), and what a row is (`row`).
    """

    provenance: dict
    rows: tuple

    FILE: ClassVar[str] = ""
    ROWS: ClassVar[str] = "cells"
    MADE_BY: ClassVar[tuple] = ("torch", "nvidia-cutlass-dsl", "quack-kernels", "liger-kernel")
    MAY_LACK: ClassVar[bool] = True

    def __getattr__(self, name):
        if name == self.ROWS:
            return self.rows
        if name in self.__dict__.get("provenance", ()):
            return self.provenance[name]
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    @classmethod
    def row(cls, kept: dict):
        """A row from what the file has of it."""
        return kept

    @classmethod
    def load(cls, path=None):
        """The record in `path`, by default the card's that is meant (see `records.folder`); None where there is none yet, if pages
        can do without it. RecordError says in a sentence why a file cannot be used."""
        path = Path(path or folder() / cls.FILE)
        if cls.MAY_LACK and not path.exists():
            return None
        return unchanged(cls._read, path)

    @classmethod
    def _read(cls, path):
        kept = read(path, cls.ROWS)
        try:
            return cls(kept, tuple(map(cls.row, kept.pop(cls.ROWS))))
        except (KeyError, TypeError, AttributeError) as error:
            raise RecordError(f"{path}: a row of {cls.ROWS} is not what this version reads ({error!r})") from error

    @property
    def origin(self) -> str:
        """Where the numbers are from, as a caption says it."""
        return (
            f"Measured on {self.device}, driver {self.driver}, {made_by(self.versions, self.MADE_BY)}, {self.date} UTC."
        )


def one(rows, **facts):
    """The one of the rows that has these facts; KeyError where there is none, or more."""
    found = [row for row in rows if all(getattr(row, name) == value for name, value in facts.items())]
    if len(found) != 1:
        there = dict.fromkeys(" ".join(str(getattr(row, name)) for name in facts) for row in rows)
        wanted = " ".join(f"{name} {value!r}" for name, value in facts.items())
        raise KeyError(f"{wanted} is recorded {len(found)} times; there are {', '.join(there) or 'none'}")
    return found[0]


def made_by(versions: dict[str, str], packages=tuple(PACKAGES)) -> str:
    """Those of the packages that `versions` has, by their usual names."""
    return ", ".join(f"{PACKAGES[name]} {_version(name, versions[name])}" for name in packages if name in versions)


def _version(package, version):
    if package != "cudnn":
        return version
    number = int(version)  # torch has one number for it: 91900 is 9.19.0
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


# Files ---------------------------------------------------------------------------------------------------------------


def folder(name: str | None = None) -> Path:
    """The folder of a card's records: of the one named, of the one that the environment names, or of the recorded one that is most
    like this machine's GPU; ValueError where nothing of it is recorded."""
    name = name or card.named()
    if name is None:
        return FOLDER / card.nearest_recorded(WHOLE)
    if name not in cards():
        raise ValueError(f"nothing is recorded of a card {name!r}; there are {', '.join(cards())}")
    return FOLDER / name


def cards() -> list[str]:
    """The cards of which something is recorded."""
    return sorted(path.parent.name for path in FOLDER.glob("*/bench") if any(path.parent.rglob("*.json")))


def read(path, rows: str | None = None) -> dict:
    """What a record's file holds; RecordError says in a sentence why it cannot be used. `rows` names a list that it must have."""
    try:
        kept = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({machine.reason(error)})") from error
    except ValueError as error:
        raise RecordError(f"{path}: cannot be read as JSON ({error}); record it again") from error
    require(isinstance(kept, dict), f"{path}: a record is a JSON object, this is a {type(kept).__name__}")
    schema = kept.pop("schema", SCHEMA)
    require(schema == SCHEMA, f"{path}: schema {schema!r}, this version reads {SCHEMA}; record it again")
    require(rows is None or isinstance(kept.get(rows), list), f"{path}: it has no list of {rows}")
    return kept


def unchanged(make, path):
    """What `make(path)` gives, made once for as long as the file stays what it is: pages ask for a record in many cells."""
    try:
        file = os.stat(path)
    except OSError:
        return make(path)  # which says why
    return _made(make, path, (file.st_ino, file.st_size, file.st_mtime_ns))


@functools.lru_cache(maxsize=256)
def _made(make, path, state):
    return make(path)


def save(path, kept: dict) -> None:
    """Write a record, each item of a list on a line of its own so that a diff shows what changed; the file is replaced whole."""
    path = Path(path)
    parts = []
    for name, value in ({"schema": SCHEMA} | kept).items():
        items = value if isinstance(value, (list, tuple)) and value else [value]
        text = ",\n  ".join(json.dumps(item, ensure_ascii=False) for item in items)
        parts.append(f'"{name}": ' + (f"[\n  {text}]" if items is value else text))
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")
    unfinished.replace(path)


def stamped(device: dict, driver: str | None, command: str) -> dict:
    """The provenance of what is measured now: what a worker says of this machine, the driver, the datasheet's bandwidth (None where
    `hardware` lacks the GPU), the minute in UTC and the command."""
    gpu = hardware.find(device["device"])
    more = {"driver": driver, "datasheet_gb_s": gpu.bandwidth_gb_s if gpu else None, "date": minute()}
    return device | more | {"command": command}


def minute() -> str:
    """Now, in UTC, as records have it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M")


def today() -> str:
    """The day, in UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def other_version(kept: dict[str, str], here: dict[str, str]) -> str | None:
    """The first package of which two sets of versions name different ones. That only one of them names a package is no
    contradiction: a peer is measured where it is installed, and the record then names it, too."""
    return next((name for name in sorted(kept) if here.get(name, kept[name]) != kept[name]), None)


def rounded(value: float, digits: int = 5) -> float:
    """`value` to so many significant digits."""
    return float(f"{value:.{digits}g}")


# Typed rows ----------------------------------------------------------------------------------------------------------

# What a field may hold, by its annotation; numbers may come as int where a float is meant.
_KINDS = {"str": str, "int": int, "float": (int, float)}


def build(kind, data, where):
    """An instance of the dataclass `kind`; RecordError for fields that are missing, unknown or of another type."""
    require(isinstance(data, dict), f"{where}: expected a JSON object, got a {type(data).__name__}")
    names = {field.name: field for field in fields(kind)}
    unknown = sorted(set(data) - set(names))
    require(not unknown, f"{where}: unknown field {', '.join(unknown)}")
    values = {}
    for name, field in names.items():
        if name not in data:
            require(field.default is not MISSING, f"{where}: {name} is missing")
            continue
        value = values[name] = tuple(data[name]) if isinstance(data[name], list) else data[name]
        wanted = _KINDS.get(field.type.removesuffix(" | None"))
        if wanted and not (value is None and field.type.endswith("None")):
            fits = isinstance(value, wanted) and not isinstance(value, bool)
            require(fits, f"{where}: {name} must be {field.type}, got {value!r}")
    return kind(**values)


def require(condition, sentence: str) -> None:
    """RecordError with the sentence where the condition does not hold."""
    if not condition:
        raise RecordError(sentence)
