"""What a trace moved: sectors, bytes and banks, by source line, by tensor and in all.

| function              | counts                                                                         |
|-----------------------|--------------------------------------------------------------------------------|
| `sectors_per_request` | 32-byte sectors that each warp request to global memory touches, line by line  |
| `bytes_moved`         | bytes read and written of each tensor, against what it holds                   |
| `bank_conflicts`      | shared-memory wavefronts, and those beyond what the access width needs         |
| `summary`             | the totals                                                                     |

All are counts of the simulated accesses of the source; the compiler may merge or drop some. `requests` says what a sector and a
wavefront are. Not covered: caches, time.
"""

from __future__ import annotations

import numpy as np

from cutesim.trace import Op, Space, Trace

from .accesses import Kind, accesses
from .requests import KIND_NAMES, requests, tensor_at
from .table import Summary, Table


def _groups(trace: Trace, *columns):
    """(values of the columns, rows that share them), where the first column is a line: in order of the source."""
    keys = np.stack([column.astype(np.int64) for column in columns], axis=1)
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    found = [(*map(int, u), np.nonzero(inverse.ravel() == i)[0]) for i, u in enumerate(unique)]
    return sorted(found, key=lambda g: (trace.lines[g[0]].file, trace.lines[g[0]].number, *g[1:-1]))


def sectors_per_request(trace: Trace) -> Table:
    """Sectors a warp request touches at each line that reaches global memory; 32 lanes x 4 bytes in a row need 4."""
    table = requests(trace)
    rows = []
    for line, kind, index in _groups(trace, table["line"], table["kind"]):
        part, where = table[index], trace.lines[line].where
        nbytes, sectors, least = (int(part[name].sum()) for name in ("bytes", "sectors", "ideal_sectors"))
        count = len(part)
        rows.append((where, KIND_NAMES[kind], count, nbytes, sectors, sectors / count, least / count))
    total, count = int(table["sectors"].sum()), len(table)
    each, ideal = total / count if count else 0.0, int(table["ideal_sectors"].sum())
    totals = {"requests": count, "sectors": total, "sectors_per_request": each, "ideal_sectors": ideal}
    columns = ("line", "", "requests", "bytes", "sectors", "sectors/request", "at least")
    return Table("Global memory requests", columns, tuple(rows), totals)


def bytes_moved(trace: Trace) -> Table:
    """The bytes read and written of each tensor in global memory, and how many times, on average, a byte that is read is read.

    They are the bytes that the lanes ask for, bulk copies included. An atomic counts as a read and as a write.
    """
    every = accesses(trace, np.arange(len(trace.events), dtype=np.int64), shared=False)
    tensor = tensor_at(trace, every.address)
    rows = []
    total = {"read": 0, "written": 0, "moved": 0, "touched": 0}
    for i, info in enumerate(trace.tensors):
        if info.space != Space.GMEM:
            continue
        read, written = ((tensor == i) & (every.kind != other) for other in (Kind.WRITE, Kind.READ))
        moved = [int(every.size[part].sum()) for part in (read, written)]
        once = [_union(every.address[part], every.size[part]) for part in (read, written)]
        rows.append((info.name, int(info.nbytes), *moved, moved[0] / once[0] if once[0] else 0.0))
        for name, amount in zip(total, (*moved, sum(moved), sum(once))):
            total[name] += amount
    columns = ("tensor", "holds", "read", "written", "times read")
    return Table("Bytes through global memory", columns, tuple(rows), total)


def _union(starts: np.ndarray, widths: np.ndarray) -> int:
    """Distinct bytes covered by the spans."""
    if len(starts) == 0:
        return 0
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], (starts + widths)[order]
    reach = np.concatenate([[starts[0]], np.maximum.accumulate(ends)[:-1]])
    return int(np.maximum(0, ends - np.maximum(starts, reach)).sum())


def bank_conflicts(trace: Trace) -> Table:
    """Wavefronts of each line's shared-memory requests, and the excess over one for each 4 bytes of access width."""
    table = np.concatenate([requests(trace, Space.SMEM), requests(trace, Space.DSMEM)])
    rows = []
    for line, kind, index in _groups(trace, table["line"], table["kind"]):
        waves, ideal = (int(table[name][index].sum()) for name in ("wavefronts", "ideal_wavefronts"))
        rows.append((trace.lines[line].where, KIND_NAMES[kind], len(index), waves, waves - ideal))
    waves, ideal = (int(table[name].sum()) for name in ("wavefronts", "ideal_wavefronts"))
    total = {"requests": len(table), "wavefronts": waves, "excess": waves - ideal}
    columns = ("line", "", "requests", "wavefronts", "excess")
    return Table("Shared memory, a model of its banks", columns, tuple(rows), total)


def summary(trace: Trace) -> Summary:
    """Totals: warp instructions, global requests and sectors, bytes read and written, shared wavefronts, shuffles, barriers."""
    counts = sectors_per_request, bytes_moved, bank_conflicts
    sectors, moved, banks = (count(trace).total for count in counts)
    return Summary(
        warp_instructions=len(trace),
        global_requests=sectors["requests"],
        sectors=sectors["sectors"],
        sectors_per_request=sectors["sectors_per_request"],
        bytes_read=moved["read"],
        bytes_written=moved["written"],
        shared_requests=banks["requests"],
        shared_wavefronts=banks["wavefronts"],
        excess_wavefronts=banks["excess"],
        shuffles=len(trace.select(Op.SHUFFLE)),
        barriers=len(trace.select(Op.BARRIER)),
    )
