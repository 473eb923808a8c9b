"""The execution trace: one row per dynamic warp instruction, in the order the simulator executed them.

| table              | one row is                                            | columns                           |
|--------------------|-------------------------------------------------------|-----------------------------------|
| `trace.events`     | one warp instruction                                  | `EVENT_DTYPE` below               |
| `trace.addresses`  | the 32 lane addresses of an event (int64, -1 = idle)   | (n, 32)                           |
| `trace.values`     | the 32 lane values of an event (float64, NaN = idle)   | (n, 32); stores only, unless all are recorded |
| `trace.tensors`    | a tensor a kernel touched                             | `TensorInfo`                      |
| `trace.lines`      | a Python source line                                  | `Line`                            |
| `trace.calls`      | the calls that led from a kernel to a helper function  | the lines of the calls, innermost first |
| `trace.launches`   | a kernel launch                                       | `Launch`                          |

Addresses are in bytes. Global memory is one address space: each storage starts at `TensorInfo.base_address`.
A shared-memory address is `block << SMEM_BLOCK_BITS | offset`, so it names the owning block as well; a plain
shared access names the issuing block, a distributed one (`space == DSMEM`) any block of the cluster.

Not covered: registers (their accesses are not instructions), time, caches.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from pathlib import Path

import numpy as np

FORMAT_VERSION = 3  # of saved traces; 1 had no version in the file, 2 no calls
SMEM_BLOCK_BITS = 20  # 1 MiB per block; Hopper's blocks have at most 227 KiB


class Op(IntEnum):
    """What a warp instruction does. `arg` and `arg2` are the op's own numbers."""

    # arg = 1 if wgmma reads it, through the async proxy; arg2 = 1 if it waits for an earlier one, in a run that `follows` loads
    LOAD = 0
    STORE = 1
    # read and write of each lane's address; arg = 1 if it acquires + 2 if it releases + 4 (cluster) or 8 (CTA): scope; arg2 = 1 if
    # nobody reads what the word held before
    ATOMIC = 2
    # cp.async: `addresses` = shared destination, `sources` = global source (-1: zero fill)
    ASYNC_COPY = 3
    COMMIT_GROUP = 4  # cp.async.commit_group
    WAIT_GROUP = 5  # cp.async.wait_group; arg = groups that may stay pending
    # cp.async.bulk by one lane; arg = bytes, arg2 = mbarrier address (-1: bulk group)
    BULK_COPY = 6
    STORE_ASYNC = 7  # st.async; arg2 row of mbarrier addresses in `sources`
    SHUFFLE = 8  # arg = ShuffleKind, arg2 = offset, mask or lane; `addresses` = the lane each lane read from
    VOTE = 9
    REDUX = 10
    ELECT = 11
    SYNC_WARP = 12
    BARRIER = 13  # arrive and wait at a block barrier; arg = barrier id, arg2 = generation
    BARRIER_ARRIVE = 14  # arrive without waiting; same args
    BARRIER_RESUME = 15  # the warp goes on past BARRIER; same args
    FENCE = 16  # arg = FenceKind
    MBARRIER_INIT = 17  # addresses = mbarrier; arg = arrival count
    # arg = bytes expected (expect_tx), arg2 = phase number that it counts for; `sources` = mbarriers of blocks beyond its scope
    MBARRIER_ARRIVE = 18
    MBARRIER_EXPECT = 19  # arg = bytes
    # reached the wait; arg = parity waited for, arg2 = 1 if it asked and the answer was no, 2 if yes
    MBARRIER_WAIT = 20
    # went on; arg = parity, arg2 = completed phase number it acquired (-1: none)
    MBARRIER_RESUME = 21
    CLUSTER_ARRIVE = 22  # arg = 1 if relaxed, arg2 = generation
    CLUSTER_WAIT = 23  # arg2 = generation
    CLUSTER_RESUME = 24  # arg2 = generation
    ASYNC_DONE = 25  # an asynchronous transfer landed; arg = step of the event that issued it
    BRANCH = 26  # a divergent `if` or loop: mask = lanes that take it, arg = lanes that do not
    EXIT = 27  # the warp's last row


class Space(IntEnum):
    """Which memory an event reaches: global, the block's own shared memory, that of another block of its cluster, or none."""

    NONE = 0
    GMEM = 1
    SMEM = 2
    DSMEM = 3


class ShuffleKind(IntEnum):
    """Which lane a shuffle reads: a given one, one so far below or above, or the one whose number differs in the given bits."""

    IDX = 0
    UP = 1
    DOWN = 2
    BFLY = 3


class FenceKind(IntEnum):
    """For whom a fence orders accesses: a block, a cluster, the GPU, the system, an mbarrier's users, or the async proxy."""

    CTA = 0
    CLUSTER = 1
    GPU = 2
    SYS = 3
    MBARRIER_INIT = 4
    PROXY_ASYNC = 5  # of shared and global memory
    PROXY_ASYNC_SHARED = 6
    PROXY_ASYNC_GLOBAL = 7


# What a WAIT_GROUP waits for (its `arg2`): cp.async groups, bulk groups, or that bulk groups have read their sources.
COPY_WAIT, BULK_WAIT, READ_WAIT = range(3)

EVENT_DTYPE = np.dtype(
    [
        ("step", np.int32),  # position in execution order
        ("launch", np.int16),  # row of `launches`
        ("block", np.int32),  # linear block index
        ("warp", np.int16),  # warp within the block
        ("line", np.int32),  # row of `lines`
        ("call", np.int32),  # row of `calls`, -1 for a line of the kernel itself
        ("op", np.int8),
        ("space", np.int8),
        ("tensor", np.int16),  # row of `tensors`, -1 for none
        ("mask", np.uint32),  # bit i: lane i took part
        ("bytes", np.int16),  # bytes each lane moved
        ("addresses", np.int32),  # row of `addresses`, -1 for none
        ("sources", np.int32),  # second row of `addresses`, -1 for none
        ("values", np.int32),  # row of `values`, -1 for none
        ("arg", np.int64),
        ("arg2", np.int64),
    ]
)


@dataclass(frozen=True)
class Line:
    """A Python source line of a kernel."""

    file: str
    number: int
    text: str
    function: str

    @property
    def where(self) -> str:
        """`reduce.py:31`, or `cell 3:7` for a notebook cell."""
        file = self.file if self.file.startswith("cell ") else Path(self.file).name
        return f"{file}:{self.number}"


@dataclass(frozen=True)
class TensorInfo:
    """A tensor (or shared-memory allocation) that a kernel touched."""

    name: str
    space: int
    dtype: str  # "float32", "bfloat16", ...
    itemsize: int
    shape: tuple
    stride: tuple  # in elements
    base_address: int  # of element 0, in bytes; a shared allocation's offset in its block
    nbytes: int  # bytes from base_address to the last element's end


@dataclass(frozen=True)
class Launch:
    """One kernel launch: its name and geometry."""

    kernel: str
    grid: tuple
    block: tuple
    cluster: tuple
    smem_bytes: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return int(np.prod(self.block))

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return int(np.prod(self.grid))


@dataclass(frozen=True)
class Trace:
    """What a simulated run did. Built by `TraceRecorder`; analyses and figures only read it."""

    events: np.ndarray
    addresses: np.ndarray
    values: np.ndarray
    tensors: tuple
    lines: tuple
    launches: tuple
    printed: tuple = ()  # what cute.printf wrote, one string a call and lane
    calls: tuple = ()  # of tuples of Line: the helper's caller first, the kernel's line last

    def __len__(self) -> int:
        return len(self.events)

    def select(self, *ops: Op, space: Space | None = None) -> np.ndarray:
        """The events whose op is one of `ops` (all if none given), in order."""
        keep = np.ones(len(self.events), bool)
        if ops:
            keep &= np.isin(self.events["op"], [int(op) for op in ops])
        if space is not None:
            keep &= self.events["space"] == int(space)
        return self.events[keep]

    def line(self, event) -> Line:
        """The source line that made the event."""
        return self.lines[int(event["line"])]

    def callers(self, event) -> tuple:
        """The lines of the calls that led to the event, innermost first; none where the kernel itself made it."""
        return () if event["call"] < 0 else self.calls[int(event["call"])]

    def save(self, path) -> None:
        """Write the trace as one compressed .npz file that `load` reads back, here or on another machine.

        | array       | type           | what                                                                           |
        |-------------|----------------|--------------------------------------------------------------------------------|
        | `version`   | int            | `FORMAT_VERSION`; a change of the columns is a new version                      |
        | `events`    | `EVENT_DTYPE`  | (n,) one row a warp instruction; its columns are described at `EVENT_DTYPE`     |
        | `addresses` | int64          | (a, 32) what `events["addresses"]` and `events["sources"]` number, -1 = idle lane |
        | `values`    | float64        | (v, 32) what `events["values"]` numbers, NaN = idle lane                        |
        | `tables`    | JSON text      | the other fields of `Trace`: lists of `TensorInfo`s, `Line`s, ... as objects   |

        Nothing in it is pickled, so a file from someone else runs no code.
        """
        tables = {name: [*map(asdict, getattr(self, name))] for name in ("tensors", "lines", "launches")}
        tables["printed"] = list(self.printed)
        tables["calls"] = [[*map(asdict, call)] for call in self.calls]
        with open(path, "wb") as file:  # numpy would add .npz to a bare path
            arrays = {name: getattr(self, name) for name in ("events", "addresses", "values")}
            facts = {"version": np.array(FORMAT_VERSION), "tables": np.array(json.dumps(tables))}
            np.savez_compressed(file, **arrays, **facts)

    @classmethod
    def load(cls, path) -> Trace:
        """Read a trace that `save` wrote; ValueError if the file is none, is damaged, or is of another version."""
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError(f"{path} is not a trace: it is no .npz file")
            file.seek(0)
            try:
                with np.load(file, allow_pickle=False) as data:
                    found = {name: data[name] for name in data.files}
                version = int(found.get("version", 1))
                trace = cls._from_arrays(found) if version == FORMAT_VERSION else None
            except Exception as error:
                # A damaged header fails in numpy, zipfile, zlib, json or tokenize.
                raise ValueError(f"{path} is not a trace, or is damaged: {error}") from error
        if trace is None:
            raise ValueError(
                f"{path} is a trace of format {version}, and this version of the package reads format {FORMAT_VERSION}; "
                "simulate the kernel again and save it anew"
            )
        return trace

    @classmethod
    def _from_arrays(cls, data) -> Trace:
        tables = json.loads(str(data["tables"]))
        tuples = lambda row: {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}  # noqa: E731
        of = lambda kind, rows: tuple(kind(**tuples(row)) for row in rows)  # noqa: E731
        made = {"tensors": of(TensorInfo, tables["tensors"]), "lines": of(Line, tables["lines"])}
        made |= {"launches": of(Launch, tables["launches"]), "printed": tuple(tables["printed"])}
        made["calls"] = tuple(of(Line, call) for call in tables["calls"])
        trace = cls(data["events"], data["addresses"], data["values"], **made)
        if trace.events.dtype != EVENT_DTYPE:
            raise TypeError("its events have other columns")
        rows = {"addresses": trace.addresses, "sources": trace.addresses, "values": trace.values}
        rows |= {"line": trace.lines, "call": trace.calls}
        rows |= {"tensor": trace.tensors, "launch": trace.launches}
        for column, table in rows.items():
            if len(trace.events) and trace.events[column].max() >= len(table):
                raise TypeError(f"its events name {column} that it does not hold")
        return trace


@dataclass
class TraceRecorder:
    """Collects rows while a kernel runs; `finish()` freezes them into a `Trace`."""

    record_values: bool = False
    rows: list = field(default_factory=list)
    address_rows: list = field(default_factory=list)
    value_rows: list = field(default_factory=list)
    tensors: list = field(default_factory=list)
    lines: list = field(default_factory=list)
    launches: list = field(default_factory=list)
    printed: list = field(default_factory=list)
    line_index: dict = field(default_factory=dict)
    calls: list = field(default_factory=list)

    def called_from(self, lines: tuple) -> int:
        """The row of `calls` for the calls that led to a helper function, -1 for none."""
        if lines and lines not in self.calls:
            self.calls.append(lines)
        return self.calls.index(lines) if lines else -1

    def line(self, line: Line) -> int:
        key = (line.file, line.number)
        if key not in self.line_index:
            self.line_index[key] = _added(self.lines, line)
        return self.line_index[key]

    def tensor(self, info: TensorInfo) -> int:
        return _added(self.tensors, info)

    def event(
        self,
        block,
        warp,
        line,
        op,
        mask,
        *,
        space=0,
        tensor=-1,
        nbytes=0,
        addresses=None,
        sources=None,
        values=None,
        arg=0,
        arg2=0,
        call=-1,
    ) -> int:
        """Append one row; returns its step. `addresses`, `sources`, `values` are (32,) arrays or None."""
        step = len(self.rows)
        if op != Op.STORE and not self.record_values:
            values = None  # a store's tell a harmless race from a real one
        held = [_added(self.address_rows, row) for row in (addresses, sources)]
        held.append(_added(self.value_rows, values))
        launch = len(self.launches) - 1
        head = step, launch, block, warp, line, call, int(op), int(space), tensor, mask, nbytes
        self.rows.append((*head, *held, arg, arg2))
        return step

    def finish(self) -> Trace:
        stack = lambda rows, dtype: np.array(rows, dtype).reshape(-1, 32)  # noqa: E731
        addresses, values = stack(self.address_rows, np.int64), stack(self.value_rows, np.float64)
        tables = self.tensors, self.lines, self.launches, self.printed, self.calls
        return Trace(np.array(self.rows, EVENT_DTYPE), addresses, values, *map(tuple, tables))


def _added(table: list, row) -> int:
    """The number that a row gets in its table; -1 for None, which is none."""
    if row is None:
        return -1
    table.append(row)
    return len(table) - 1


@dataclass(frozen=True)
class Finding:
    """Something wrong that a run or an analysis of its trace found: data first, `str()` is the sentence."""

    kind: str  # "race", "out of bounds", "misaligned", "deadlock", "divergent barrier", "read before arrival", "early access", ...
    message: str  # one sentence: what, where, what to do
    lines: tuple  # of Line, most telling first
    block: int = -1
    threads: tuple = ()  # thread index within its block, one per line where known
    addresses: tuple = ()
    count: int = 1  # how many words, accesses or threads show it

    def as_dict(self) -> dict:
        """For JSON."""
        lines = [{"file": at.file, "line": at.number, "function": at.function, "text": at.text} for at in self.lines]
        where = {"block": int(self.block), "threads": [int(thread) for thread in self.threads]}
        return {"kind": self.kind, "message": self.message, "lines": lines, **where}

    def __str__(self) -> str:
        return self.message
