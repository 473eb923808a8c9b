"""Each warp's requests to memory, and what they cost in a model of the memory's parts.

| memory | part       | a request of a warp takes                                                             |
|--------|------------|---------------------------------------------------------------------------------------|
| global | sector     | every distinct aligned 32 bytes that its lanes touch                                   |
| shared | wavefront  | as many as the fullest of 32 banks of 4 bytes has distinct words; 8-byte accesses go   |
|        |            | by half-warps, 16-byte ones by quarter-warps; lanes that read one word share it        |

Sources: CUDA C++ Programming Guide, compute capability 5.x and later, global and shared memory. The guide documents the banks
for 4 bytes; halves and quarters for wider accesses are a model, as are atomics, which count like a store.
Not covered: bulk copies, which are not made lane by lane; caches; time.
"""

from __future__ import annotations

import numpy as np

from quack_tutorial.simulator.trace import SMEM_BLOCK_BITS, Op, Space, Trace

from .accesses import SHARED, lane_bits

SECTOR_BYTES = 32
BANKS, BANK_BYTES = 32, 4
READ, WRITE, ATOMIC = range(3)
KIND_NAMES = ("load", "store", "atomic")

REQUEST = np.dtype(
    [
        ("event", np.int64),  # row of trace.events
        ("line", np.int64),  # row of trace.lines
        ("tensor", np.int64),  # row of trace.tensors, -1 where no tensor is there
        ("kind", np.int8),  # READ, WRITE or ATOMIC
        ("lanes", np.int64),
        ("bytes", np.int64),  # that the lanes ask for together, a byte asked for twice counted twice
        ("sectors", np.int64),  # of global memory
        ("ideal_sectors", np.int64),  # that as many distinct bytes need at least
        ("wavefronts", np.int64),  # of shared memory
        ("ideal_wavefronts", np.int64),  # without conflicts
    ]
)


def requests(trace: Trace, space: Space = Space.GMEM) -> np.ndarray:
    """One row of `REQUEST` for each warp request to global memory (Space.GMEM) or shared memory (SMEM; DSMEM: of other blocks).

    cp.async is a read of global memory and a write of shared memory.
    """
    event, kind, rows = _chosen(trace, Space(space))
    table = np.zeros(len(event), REQUEST)
    if not len(event):
        return table
    events = trace.events[event]
    addresses = np.where(lane_bits(events["mask"]), trace.addresses[rows], -1)
    width = events["bytes"].astype(np.int64)
    table["event"], table["kind"], table["line"] = event, kind, events["line"]
    table["lanes"] = (addresses >= 0).sum(axis=1)
    table["bytes"] = table["lanes"] * width
    if space == Space.GMEM:
        table["tensor"] = tensor_at(trace, addresses.max(axis=1))
        last = np.where(addresses >= 0, addresses + width[:, None] - 1, -1)
        table["sectors"] = _distinct(np.concatenate([addresses, last], axis=1) // SECTOR_BYTES)
        table["ideal_sectors"] = -(-_distinct_bytes(addresses, width) // SECTOR_BYTES)
    else:
        table["tensor"] = events["tensor"]
        table["wavefronts"], table["ideal_wavefronts"] = _wavefronts(addresses, width)
    return table


def tensor_at(trace, addresses: np.ndarray) -> np.ndarray:
    """The global tensor that holds each address, -1 for none."""
    found = np.full(len(addresses), -1, np.int64)
    for i, tensor in enumerate(trace.tensors):
        if tensor.space not in SHARED:
            inside = (addresses >= tensor.base_address) & (addresses < tensor.base_address + tensor.nbytes)
            found[inside & (found < 0)] = i
    return found


def _chosen(trace: Trace, space: Space):
    """(rows of trace.events, kinds, rows of trace.addresses) of the requests to a space, in order."""
    events = trace.events
    kinds = np.full(max(Op) + 1, -1, np.int8)
    kinds[[Op.LOAD, Op.STORE, Op.ATOMIC]] = READ, WRITE, ATOMIC
    kind, rows = kinds[events["op"]], events["addresses"].astype(np.int64)
    here = (kind >= 0) & (events["space"] == int(space))
    if space in (Space.GMEM, Space.SMEM):
        copies = events["op"] == int(Op.ASYNC_COPY)
        here |= copies
        kind = np.where(copies, READ if space == Space.GMEM else WRITE, kind)
        if space == Space.GMEM:
            rows = np.where(copies, events["sources"], rows)
    event = np.nonzero(here & (rows >= 0))[0]
    return event, kind[event], rows[event]


def _distinct(numbers: np.ndarray) -> np.ndarray:
    """How many distinct numbers, negative ones aside, each row has."""
    ordered = np.sort(numbers, axis=1)
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return (new & (ordered >= 0)).sum(axis=1)


def _distinct_bytes(addresses: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Bytes that each row's accesses cover together: each adds what the one at the next lower address has not."""
    ordered = np.sort(addresses, axis=1)
    added = np.minimum(np.diff(ordered, axis=1), width[:, None])
    return np.where(ordered[:, :-1] >= 0, added, 0).sum(axis=1) + np.where(ordered[:, -1] >= 0, width, 0)


def _wavefronts(addresses: np.ndarray, width: np.ndarray):
    """(wavefronts, those without conflicts) of each row."""
    inside = np.where(addresses >= 0, addresses & ((1 << SMEM_BLOCK_BITS) - 1), -1)
    needed, ideal = np.zeros(len(inside), np.int64), np.zeros(len(inside), np.int64)
    for size in np.unique(width):
        words = max(1, int(size) // BANK_BYTES)
        mine = np.nonzero(width == size)[0]
        # Lanes of one pass: all 32 for up to 4 bytes, a half of them for 8, a quarter for 16.
        passes = inside[mine].reshape(len(mine) * words, 32 // words)
        word = passes[:, :, None] // BANK_BYTES + np.where(passes >= 0, 0, -words)[:, :, None] + np.arange(words)
        word = np.sort(word.reshape(len(passes), -1), axis=1)
        fresh = word >= 0
        fresh[:, 1:] &= word[:, 1:] != word[:, :-1]
        where = np.nonzero(fresh)
        banks = np.bincount(where[0] * BANKS + word[where] % BANKS, minlength=len(passes) * BANKS)
        fullest = banks.reshape(len(mine), words, BANKS).max(axis=2)
        needed[mine] = fullest.sum(axis=1)
        ideal[mine] = (fullest > 0).sum(axis=1)
    return needed, ideal
