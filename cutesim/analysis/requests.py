"""Each warp's requests to memory, and what they cost in a model of the memory's parts.

| memory | part       | a request of a warp takes                                                             |
|--------|------------|---------------------------------------------------------------------------------------|
| global | sector     | every distinct aligned 32 bytes that its lanes touch                                   |
| shared | wavefront  | as many as the fullest of 32 banks of 4 bytes has distinct words; lanes that touch one |
|        |            | word share it                                                                          |

A wavefront serves so many lanes of a request to shared memory, in the order of the lanes:

| bytes a lane | store, cp.async  | load             | load by pairs    |
|--------------|------------------|------------------|------------------|
| up to 4      | 32               | 32               | 32               |
| 8            | 16               | 16               | 32               |
| 16           | 8                | 8                | 16               |

A load goes by pairs if each lane reads the same address as its neighbour, lane xor 1, or else if each reads the same as lane
xor 2; a lane that takes no part agrees with every other. cp.async writes shared memory with every lane that executes it,
also with those whose predicate is false: they write zeros and read nothing.

Sources: CUDA C++ Programming Guide, compute capability 5.x and later, for sectors and banks of 4 bytes. Halves and quarters of
a warp (cp.async: of 4 and 16 bytes), loads by pairs of lane and lane xor 1, and the zeros of cp.async were measured on an H200
with Nsight Compute (the record of suite `counters`). Lane xor 2, and that idle lanes do not matter, are from a note by an
NVIDIA engineer on compute capability 7.x, forums.developer.nvidia.com/t/unexpected-shared-memory-bank-conflict/77228.
Models: stores of several lanes to one address, cp.async of 8 bytes, atomics (counted like a store).
Not covered: bulk copies, which are not made lane by lane; caches; time.
"""

from __future__ import annotations

import numpy as np

from cutesim.trace import SMEM_BLOCK_BITS, Op, Space, Trace

from .accesses import SHARED, lane_bits

SECTOR_BYTES = 32
BANKS, BANK_BYTES = 32, 4
LANES = 32
READ, WRITE, ATOMIC = range(3)
KIND_NAMES = ("load", "store", "atomic")

REQUEST = np.dtype(
    [
        ("event", np.int64),  # row of trace.events
        ("line", np.int64),  # row of trace.lines
        ("tensor", np.int64),  # row of trace.tensors, -1 where no tensor is there
        ("kind", np.int8),  # READ, WRITE or ATOMIC
        ("lanes", np.int64),
        ("bytes", np.int64),  # that the lanes ask for, a byte asked for twice counted twice
        ("sectors", np.int64),  # of global memory
        ("ideal_sectors", np.int64),  # that as many distinct bytes need at least
        ("wavefronts", np.int64),  # of shared memory
        ("ideal_wavefronts", np.int64),  # without conflicts
    ]
)


def requests(trace: Trace, space: Space = Space.GMEM, kind: str | None = None) -> np.ndarray:
    """One row of `REQUEST` for each warp request to global memory (Space.GMEM) or shared memory (SMEM; DSMEM: of other blocks).

    `kind` keeps one of `KIND_NAMES`; ValueError for another. cp.async is a load of global memory and a store of shared memory.
    """
    if kind not in (None, *KIND_NAMES):
        raise ValueError(f"kind={kind!r}: choose one of {', '.join(KIND_NAMES)}")
    table = _all_requests(trace, space)
    return table if kind is None else table[table["kind"] == KIND_NAMES.index(kind)]


def _all_requests(trace: Trace, space: Space) -> np.ndarray:
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
        by_pairs = (events["op"] == int(Op.LOAD)) & _in_pairs(addresses)
        table["wavefronts"], table["ideal_wavefronts"] = _wavefronts(addresses, width, by_pairs)
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
    if space == Space.GMEM:  # a cp.async of which every lane fills with zeros reads nothing
        event = event[(trace.addresses[rows[event]] >= 0).any(axis=1)]
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


def _in_pairs(addresses: np.ndarray) -> np.ndarray:
    """Whether each row's lanes all have the address of lane xor 1, or all that of lane xor 2; idle lanes do not matter."""
    found = np.zeros(len(addresses), bool)
    for distance in (1, 2):
        partner = addresses[:, np.arange(LANES, dtype=np.int64) ^ distance]
        found |= ((addresses == partner) | (addresses < 0) | (partner < 0)).all(axis=1)
    return found


def _wavefronts(addresses: np.ndarray, width: np.ndarray, by_pairs: np.ndarray):
    """(wavefronts, those without conflicts) of each row."""
    inside = np.where(addresses >= 0, addresses & ((1 << SMEM_BLOCK_BITS) - 1), -1)
    needed, ideal = np.zeros(len(inside), np.int64), np.zeros(len(inside), np.int64)
    words_of = np.maximum(1, width // BANK_BYTES)
    lanes_of = np.minimum(LANES, LANES // words_of * np.where(by_pairs, 2, 1))
    for words, lanes in np.unique(np.stack([words_of, lanes_of], axis=1), axis=0):
        mine = np.nonzero((words_of == words) & (lanes_of == lanes))[0]
        passes = inside[mine].reshape(-1, lanes)
        first = passes // BANK_BYTES + np.where(passes >= 0, 0, -words)
        word = first[:, :, None] + np.arange(words, dtype=np.int64)
        word = np.sort(word.reshape(len(passes), -1), axis=1)
        fresh = word >= 0
        fresh[:, 1:] &= word[:, 1:] != word[:, :-1]
        where = np.nonzero(fresh)
        banks = np.bincount((where[0] * BANKS + word[where] % BANKS).astype(np.intp), minlength=len(passes) * BANKS)
        fullest = banks.reshape(len(mine), -1, BANKS).max(axis=2)
        needed[mine] = fullest.sum(axis=1)
        ideal[mine] = (fullest > 0).sum(axis=1)
    return needed, ideal
