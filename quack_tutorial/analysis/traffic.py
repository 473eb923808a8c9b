"""What a trace moved: requests and sectors, bytes against the minimum, banks, shuffles, barriers.

| function              | counts                                                                         |
|-----------------------|--------------------------------------------------------------------------------|
| `sectors_per_request` | 32-byte sectors that each warp request to global memory touches, line by line  |
| `bytes_moved`         | bytes read and written of each tensor, against what it holds                   |
| `bank_conflicts`      | shared-memory wavefronts, and those beyond what the access width needs         |
| `shuffle_graph`       | who read whom, and whose values each lane ends with                            |
| `dsmem_matrix`        | bytes from block to block of a cluster                                         |
| `hot_lines`           | all of it by source line                                                       |
| `summary`             | the totals                                                                     |

All are counts of the simulated accesses of the source; the compiler may merge or drop some. The banks are a model: 32 banks of
4 bytes, one word of each a wavefront, 8-byte accesses by half-warps, 16-byte ones by quarter-warps (CUDA C++ Programming
Guide, shared memory, compute capability 5.x and later). Not covered: caches, time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quack_tutorial.simulator.trace import SMEM_BLOCK_BITS, Op, ShuffleKind, Space, Trace

SECTOR = 32  # bytes
BANKS, BANK_BYTES = 32, 4


@dataclass(frozen=True)
class Table:
    """Rows of numbers under names; `str()` is a plain table, `total` the numbers of the whole."""

    title: str
    columns: tuple
    rows: tuple
    total: dict

    def __str__(self) -> str:
        cells = [self.columns, *([_cell(value) for value in row] for row in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        align = [str.ljust if self.rows and isinstance(self.rows[0][i], str) else str.rjust for i in range(len(widths))]
        lines = ["  ".join(a(c, w) for a, c, w in zip(align, row, widths)).rstrip() for row in cells]
        return "\n".join([f"{self.title} (simulated)", *lines])

    __repr__ = __str__


def _cell(value) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _lanes(mask: np.ndarray) -> np.ndarray:
    """Active lanes of each event."""
    bits = np.unpackbits(mask.astype("<u4").view(np.uint8).reshape(-1, 4), axis=1)
    return bits.sum(axis=1).astype(np.int64)


def _distinct(values: np.ndarray) -> np.ndarray:
    """Distinct non-negative values in each row."""
    if len(values) == 0:
        return np.zeros(0, np.int64)
    ordered = np.sort(values, axis=1)
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return (new & (ordered >= 0)).sum(axis=1)


@dataclass(frozen=True)
class _Requests:
    """Warp requests to global memory, one an event."""

    events: np.ndarray
    addresses: np.ndarray
    writes: np.ndarray
    nbytes: np.ndarray  # that the lanes asked for
    sectors: np.ndarray
    ideal: np.ndarray  # sectors that as many distinct bytes need at least


def _requests(trace: Trace) -> _Requests:
    events = trace.events
    plain = np.isin(events["op"], [Op.LOAD, Op.STORE, Op.ATOMIC]) & (events["space"] == Space.GMEM)
    copies = events["op"] == Op.ASYNC_COPY
    chosen = events[plain | copies]
    rows = np.where(chosen["op"] == Op.ASYNC_COPY, chosen["sources"], chosen["addresses"])
    addresses = trace.addresses[rows] if len(rows) else np.zeros((0, 32), np.int64)
    width = chosen["bytes"].astype(np.int64)
    nbytes = _lanes(chosen["mask"]) * width
    touched = np.where(addresses >= 0, addresses // SECTOR, -1)
    last = np.where(addresses >= 0, (addresses + width[:, None] - 1) // SECTOR, -1)
    sectors = _distinct(np.concatenate([touched, last], axis=1))
    distinct = _distinct(addresses) * width
    return _Requests(chosen, addresses, chosen["op"] == Op.STORE, nbytes, sectors, -(-distinct // SECTOR))


def _by_line(trace: Trace, events: np.ndarray, *keys):
    """(line, key values…, index array) groups in order of source line."""
    table = np.stack([events["line"].astype(np.int64), *keys], axis=1) if len(events) else np.zeros((0, 1 + len(keys)))
    unique, inverse = np.unique(table, axis=0, return_inverse=True)
    groups = [(trace.lines[int(u[0])], *u[1:], np.nonzero(inverse.ravel() == i)[0]) for i, u in enumerate(unique)]
    return sorted(groups, key=lambda g: (g[0].file, g[0].number, *map(int, g[1:-1])))


def sectors_per_request(trace: Trace) -> Table:
    """Sectors a warp request touches at each line that reaches global memory; 32 lanes x 4 bytes in a row need 4."""
    r = _requests(trace)
    rows = []
    for line, writes, index in _by_line(trace, r.events, r.writes.astype(np.int64)):
        count = len(index)
        sectors = int(r.sectors[index].sum())
        rows.append(
            (
                line.where,
                "store" if writes else "load",
                count,
                int(r.nbytes[index].sum()),
                sectors,
                sectors / count,
                float(r.ideal[index].mean()),
            )
        )
    total, count = int(r.sectors.sum()), len(r.events)
    return Table(
        "Global memory requests",
        ("line", "", "requests", "bytes", "sectors", "sectors/request", "at least"),
        tuple(rows),
        {
            "requests": count,
            "sectors": total,
            "sectors_per_request": total / count if count else 0.0,
            "ideal_sectors": int(r.ideal.sum()),
        },
    )


def _owner(trace: Trace, address: int) -> int:
    for i, tensor in enumerate(trace.tensors):
        if tensor.space == Space.GMEM and tensor.base_address <= address < tensor.base_address + tensor.nbytes:
            return i
    return -1


def bytes_moved(trace: Trace) -> Table:
    """Bytes read and written of each tensor in global memory, and how often each of its touched bytes was read."""
    r = _requests(trace)
    bulk = trace.select(Op.BULK_COPY)
    rows, read_total, written_total, minimum = [], 0, 0, 0
    for i, tensor in enumerate(trace.tensors):
        if tensor.space != Space.GMEM:
            continue
        low, high = tensor.base_address, tensor.base_address + tensor.nbytes
        mine = ((r.addresses >= low) & (r.addresses < high)).any(axis=1)
        parts = {}
        for name, chosen in (("read", mine & ~r.writes), ("written", mine & r.writes)):
            width = np.repeat(r.events["bytes"][chosen].astype(np.int64), 32)
            flat = r.addresses[chosen].ravel()
            inside = flat >= 0
            parts[name] = int(width[inside].sum()), _union(flat[inside], width[inside])
        for event in bulk:
            name, row = ("read", event["sources"]) if event["space"] == Space.SMEM else ("written", event["addresses"])
            start = int(trace.addresses[row].max())
            if low <= start < high:
                moved, union = parts[name]
                parts[name] = moved + int(event["arg"]), union + int(event["arg"])
        (read, once_read), (written, once_written) = parts["read"], parts["written"]
        times = read / once_read if once_read else 0.0
        rows.append((tensor.name, int(tensor.nbytes), read, written, times))
        read_total, written_total = read_total + read, written_total + written
        minimum += once_read + once_written
    return Table(
        "Bytes through global memory",
        ("tensor", "holds", "read", "written", "times read"),
        tuple(rows),
        {"read": read_total, "written": written_total, "moved": read_total + written_total, "touched": minimum},
    )


def _union(starts: np.ndarray, widths: np.ndarray) -> int:
    """Distinct bytes covered by the spans."""
    if len(starts) == 0:
        return 0
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], (starts + widths)[order]
    reach = np.concatenate([[starts[0]], np.maximum.accumulate(ends)[:-1]])
    return int(np.maximum(0, ends - np.maximum(starts, reach)).sum())


def _wavefronts(addresses: np.ndarray, width: int) -> tuple:
    """(wavefronts, those the width needs) of one request: the most words that fall into one bank, part by part."""
    parts = max(1, width // BANK_BYTES)
    lanes = 32 // parts
    total = ideal = 0
    for part in range(parts):
        mine = addresses[part * lanes : (part + 1) * lanes]
        mine = mine[mine >= 0]
        if len(mine) == 0:
            continue
        words = (mine[:, None] // BANK_BYTES + np.arange(max(1, width // BANK_BYTES))).ravel()
        words = np.unique(words)
        total += int(np.bincount(words % BANKS, minlength=BANKS).max())
        ideal += 1
    return total, ideal


def bank_conflicts(trace: Trace) -> Table:
    """Wavefronts of each line's shared-memory requests, and the excess over one for each 4 bytes of access width."""
    events = trace.events
    chosen = events[
        np.isin(events["op"], [Op.LOAD, Op.STORE, Op.ATOMIC]) & np.isin(events["space"], [Space.SMEM, Space.DSMEM])
    ]
    known: dict = {}
    counts = np.zeros((len(chosen), 2), np.int64)
    for i, event in enumerate(chosen):
        row = trace.addresses[event["addresses"]]
        key = (row.tobytes(), int(event["bytes"]))
        if key not in known:
            known[key] = _wavefronts(np.where(row >= 0, row & ((1 << SMEM_BLOCK_BITS) - 1), -1), int(event["bytes"]))
        counts[i] = known[key]
    rows = []
    for line, writes, index in _by_line(trace, chosen, (chosen["op"] == Op.STORE).astype(np.int64)):
        waves, ideal = (int(n) for n in counts[index].sum(axis=0))
        rows.append((line.where, "store" if writes else "load", len(index), waves, waves - ideal))
    waves, ideal = (int(n) for n in counts.sum(axis=0)) if len(chosen) else (0, 0)
    return Table(
        "Shared memory, a model of its banks",
        ("line", "", "requests", "wavefronts", "excess"),
        tuple(rows),
        {"requests": len(chosen), "wavefronts": waves, "excess": waves - ideal},
    )


def shuffle_graph(trace: Trace, block: int = 0, warp: int = 0) -> Table:
    """The rounds of one warp's shuffles: who reads whom, and of how many lanes each lane then holds a part.

    A chain of rounds starts again where a round is repeated. A reduction is complete when every lane of a group holds a part
    of all its lanes: `total` says how many the first chain reached at least.
    """
    events = trace.select(Op.SHUFFLE)
    events = events[(events["block"] == block) & (events["warp"] == warp)]
    rows, least, used = [], None, set()
    held = np.eye(32, dtype=bool)
    for event in events:
        step = (int(event["arg"]), int(event["arg2"]))
        if step in used:
            least = least if least is not None else int(held.sum(axis=1).min())
            held, used = np.eye(32, dtype=bool), set()
        used.add(step)
        source = trace.addresses[event["addresses"]]
        held = held | np.where((source >= 0)[:, None], held[np.maximum(source, 0)], False)
        sizes = held.sum(axis=1)
        reads = f"lane 0 reads {source[0]}, lane 1 reads {source[1]}"
        rows.append(
            (
                trace.line(event).where,
                ShuffleKind(step[0]).name.lower(),
                step[1],
                reads,
                int(sizes.min()),
                int(sizes.max()),
            )
        )
    least = least if least is not None else int(held.sum(axis=1).min())
    return Table(
        "Shuffles of one warp",
        ("line", "kind", "by", "partners", "lanes held, least", "most"),
        tuple(rows),
        {"rounds": len(rows), "every_lane_holds": least},
    )


def dsmem_matrix(trace: Trace) -> np.ndarray:
    """Bytes that block i (row) moved to or from the shared memory of block j (column), over the whole grid."""
    blocks = max((launch.blocks for launch in trace.launches), default=0)
    matrix = np.zeros((blocks, blocks), np.int64)
    for event in trace.events[
        (trace.events["space"] == Space.DSMEM)
        & np.isin(trace.events["op"], [Op.LOAD, Op.STORE, Op.ATOMIC, Op.STORE_ASYNC])
    ]:
        for address in trace.addresses[event["addresses"]]:
            if address >= 0:
                matrix[int(event["block"]), int(address) >> SMEM_BLOCK_BITS] += int(event["bytes"])
    return matrix


def hot_lines(trace: Trace) -> Table:
    """Warp instructions of each line, most first."""
    numbers, counts = np.unique(trace.events["line"], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    rows = tuple((trace.lines[int(numbers[i])].where, int(counts[i]), trace.lines[int(numbers[i])].text) for i in order)
    return Table(
        "Warp instructions by line", ("line", "instructions", "source"), rows, {"instructions": len(trace.events)}
    )


class Summary(dict):
    """The totals of a trace, by name; `str()` is one line each."""

    def __str__(self) -> str:
        def text(value):
            return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"

        return "\n".join(f"{name.replace('_', ' '):24}{text(value):>12}" for name, value in self.items())


def summary(trace: Trace) -> Summary:
    """Totals: warp instructions, global requests and sectors, bytes read and written, shared wavefronts, shuffles, barriers."""
    requests, moved, banks = sectors_per_request(trace).total, bytes_moved(trace).total, bank_conflicts(trace).total
    return Summary(
        warp_instructions=len(trace),
        global_requests=requests["requests"],
        sectors=requests["sectors"],
        sectors_per_request=requests["sectors_per_request"],
        bytes_read=moved["read"],
        bytes_written=moved["written"],
        shared_requests=banks["requests"],
        shared_wavefronts=banks["wavefronts"],
        excess_wavefronts=banks["excess"],
        shuffles=len(trace.select(Op.SHUFFLE)),
        barriers=len(trace.select(Op.BARRIER)),
    )
