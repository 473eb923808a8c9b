"""Sectors and wavefronts against brute force; bytes, exchanges and totals against cases done by hand."""

import json

import numpy as np
import pytest
from log import Log, at, span

from cutesim import analysis
from cutesim.trace import Op, ShuffleKind, Space

G = dict(space=Space.GMEM)


# ---- sectors: of more patterns tests/validation/test_access_patterns.py has what an H200 counted ----------------------


def test_sectors_by_brute_force():
    rng = np.random.default_rng(1)
    for _ in range(200):
        nbytes = int(rng.choice([1, 2, 4, 8, 16]))
        addresses = np.where(rng.random(32) < 0.7, rng.integers(0, 40, 32) * nbytes, -1)
        if (addresses < 0).all():
            continue
        touched = {a + k for a in addresses[addresses >= 0].tolist() for k in range(nbytes)}
        log = Log()
        log.load(3, addresses, nbytes, **G)
        (row,) = analysis.requests(log.trace())
        lanes = int((addresses >= 0).sum())
        assert (row["lanes"], row["bytes"]) == (lanes, lanes * nbytes)
        assert row["sectors"] == len({b // 32 for b in touched})
        assert row["ideal_sectors"] == -(-len(touched) // 32)


def test_sectors_by_line_and_in_all():
    log = Log()
    for warp in (0, 1):
        log.load(3, span(128 * warp), warp=warp, **G)
        log.store(5, span(256 * warp, 8), warp=warp, **G)
    log.load(7, span(0))  # shared memory is no part of it
    table = analysis.sectors_per_request(log.trace())
    wanted = (("k.py:3", "load", 2, 256, 8, 4.0, 4.0), ("k.py:5", "store", 2, 256, 16, 8.0, 4.0))
    assert table.rows == wanted
    wanted = {"requests": 4, "sectors": 24, "sectors_per_request": 6.0, "ideal_sectors": 16}
    assert table.total == wanted
    assert str(table).splitlines() == [
        "Global memory requests (simulated)",
        "line           requests  bytes  sectors  sectors/request  at least",
        "k.py:3  load          2    256        8             4.00      4.00",
        "k.py:5  store         2    256       16             8.00      4.00",
    ]
    assert table.column("sectors") == (8, 16)
    with pytest.raises(KeyError, match="no column 'bank'; it has line, requests, bytes"):
        table.column("bank")


def test_cp_async_reads_global_and_writes_shared_memory():
    log = Log()
    log.cp_async(3, span(0, 128), span(0, 16), 16)
    trace = log.trace()
    (read,) = analysis.requests(trace)
    assert (read["kind"], read["sectors"], read["tensor"]) == (0, 16, 1)
    (same,) = analysis.requests(trace, kind="load")
    assert same == read and not len(analysis.requests(trace, kind="store"))
    (written,) = analysis.requests(trace, Space.SMEM)
    assert (written["kind"], written["wavefronts"], written["ideal_wavefronts"]) == (1, 32, 4)


# ---- bytes ----------------------------------------------------------------------------------------------------------


def test_bytes_moved_counts_what_is_read_again():
    log = Log()
    for _ in range(3):
        log.load(3, span(0), **G)
    log.store(5, span(0, 4, range(16)), **G)
    log.atomic(6, at(l0=0), **G)
    table = analysis.bytes_moved(log.trace())
    name, holds, read, written, times = table.rows[0]
    assert (name, read, written) == ("x", 3 * 128 + 4, 64 + 4)
    assert times == 388 / 128
    assert table.total == {"read": 388, "written": 68, "moved": 456, "touched": 128 + 64}


def test_bulk_copies_and_cp_async_are_bytes_too():
    log = Log()
    log.cp_async(3, span(0, 16), span(0, 16), 16)
    log.bulk(4, 0, 0, 512, mbarrier=1024)
    log.bulk(5, 0, 4096, 256, store=True)
    table = analysis.bytes_moved(log.trace())
    assert table.rows == (("x", 1 << 20, 1024, 256, 2.0),)


# ---- banks ----------------------------------------------------------------------------------------------------------


def test_cp_async_writes_zeros_and_reads_nothing_where_it_has_no_source():
    log = Log()
    log.cp_async(3, span(0), np.where(np.arange(32) < 8, span(0), -1))
    log.cp_async(4, span(0), np.full(32, -1))
    read, written = (analysis.requests(log.trace(), space) for space in (Space.GMEM, Space.SMEM))
    assert (read["lanes"].tolist(), read["sectors"].tolist()) == ([8], [1])
    assert (written["lanes"].tolist(), written["wavefronts"].tolist()) == ([32, 32], [1, 1])


def test_wavefronts_by_brute_force():
    """Where lanes read one address by pairs, loads take twice the lanes a wavefront, and stores do not."""
    rng = np.random.default_rng(2)
    for i in range(300):
        nbytes = int(rng.choice([1, 2, 4, 8, 16]))
        addresses = rng.integers(0, 200, 32) * nbytes
        together = (0, 1, 2)[i % 3]  # lane and lane xor this read one address
        addresses = np.where(rng.random(32) < (0.7, 0.1)[i % 2], addresses[np.arange(32) & ~together], -1)
        if (addresses < 0).all():
            continue
        pairs = [[(a, addresses[lane ^ apart]) for lane, a in enumerate(addresses)] for apart in (1, 2)]
        by_pairs = any(all(a == b or min(a, b) < 0 for a, b in both) for both in pairs)
        log = Log(grid=4)
        wanted = []
        for op in (Op.LOAD, Op.STORE):
            log.access(3, op, addresses, nbytes, block=i % 4)
            lanes = 32 * 4 // max(4, nbytes) * (2 if op == Op.LOAD and by_pairs and nbytes > 4 else 1)
            fullest = []
            for first in range(0, 32, lanes):
                words = {}
                for a in addresses[first : first + lanes]:
                    for byte in range(nbytes) if a >= 0 else ():
                        word = (int(a) + byte) // 4
                        words.setdefault(word % 32, set()).add(word)
                fullest.append(max((len(w) for w in words.values()), default=0))
            wanted.append((sum(fullest), sum(most > 0 for most in fullest)))
        found = analysis.requests(log.trace(), Space.SMEM)
        assert list(zip(found["wavefronts"], found["ideal_wavefronts"])) == wanted


def test_bank_conflicts_by_line():
    log = Log()
    log.store(3, span(0, 128))
    log.load(5, span(0))
    log.mbarrier(6, Op.MBARRIER_ARRIVE)
    table = analysis.bank_conflicts(log.trace())
    assert table.rows == (("k.py:3", "store", 1, 32, 31), ("k.py:5", "load", 1, 1, 0))
    assert table.total == {"requests": 2, "wavefronts": 33, "excess": 31}
    assert "a model" in str(table)


# ---- shuffles -------------------------------------------------------------------------------------------------------


def rounds(*offsets, kind=ShuffleKind.BFLY, lanes=range(32)):
    log = Log()
    lane = np.arange(32)
    for offset in offsets:
        source = {ShuffleKind.BFLY: lane ^ offset, ShuffleKind.DOWN: lane + offset, ShuffleKind.IDX: lane * 0 + offset}[
            kind
        ]
        log.shuffle(4, offset, kind, np.where(source < 32, source, lane), lanes=lanes)
    return analysis.shuffle_graph(log.trace())


def test_a_butterfly_reaches_everyone():
    graph = rounds(16, 8, 4, 2, 1)
    (chain,) = graph.chains
    assert chain.held[-1].all() and chain.complete.all()
    assert [int(held.sum(axis=1).min()) for held in chain.held] == [2, 4, 8, 16, 32]
    assert chain.partners[0].tolist() == [lane ^ 16 for lane in range(32)]
    assert graph.total == {"rounds": 5, "every_lane_holds": 32, "groups": 1, "complete_lanes": 32}
    assert str(graph).endswith("5 rounds: one group of 32 lanes; every lane hears its whole group")


def test_wrong_offsets_leave_islands():
    graph = rounds(1, 2, 3, 4, 5)
    (chain,) = graph.chains
    assert chain.groups == tuple(tuple(range(i, i + 8)) for i in (0, 8, 16, 24))
    assert graph.total["every_lane_holds"] == 8
    assert "4 groups of 8 lanes, none of which hears another" in str(graph)


def test_a_tree_gives_the_result_to_one_lane():
    (chain,) = rounds(16, 8, 4, 2, 1, kind=ShuffleKind.DOWN).chains
    assert np.nonzero(chain.complete)[0].tolist() == [0]
    assert "1 of 32 lanes hears its whole group" in str(chain)


def test_a_broadcast_replaces_what_lanes_had():
    (chain,) = rounds(7, kind=ShuffleKind.IDX).chains
    assert (chain.held[-1] == (np.arange(32) == 7)).all()


def test_two_reductions_are_two_chains():
    assert [len(chain.events) for chain in rounds(16, 8, 4, 2, 1, 16, 8, 4, 2, 1).chains] == [5, 5]
    # side by side
    assert [len(chain.events) for chain in rounds(16, 16, 8, 8, 4, 4, 2, 2, 1, 1).chains] == [5, 5]


# ---- clusters, barriers, totals -------------------------------------------------------------------------------------


def test_dsmem_matrix():
    log = Log(grid=4, cluster=2)
    log.store(3, span(0), block=0, owner=1)
    log.load(4, span(0, 4, range(8)), block=3, owner=2)
    log.st_async(5, at(l0=0, l1=8), owner=0, nbytes=8, block=1)
    log.store(6, span(0), block=1)  # its own
    matrix = analysis.dsmem_matrix(log.trace())
    assert matrix.tolist() == [[0, 128, 0, 0], [16, 0, 0, 0], [0, 0, 0, 0], [0, 0, 32, 0]]


def test_summary_adds_up_and_is_json():
    log = Log()
    log.load(3, span(0), **G)
    log.store(4, span(0, 8), **G)
    log.store(5, span(0, 128))
    log.barrier(6)
    log.shuffle(7, 1)
    summary = analysis.summary(log.trace())
    assert json.loads(json.dumps(summary)) == {
        "warp_instructions": 8,
        "global_requests": 2,
        "sectors": 12,
        "sectors_per_request": 6.0,
        "bytes_read": 128,
        "bytes_written": 128,
        "shared_requests": 1,
        "shared_wavefronts": 32,
        "excess_wavefronts": 31,
        "shuffles": 1,
        "barriers": 2,
    }
    assert "sectors per request             6.00" in str(summary)


def test_an_empty_trace_counts_nothing():
    trace = Log().trace()
    assert set(analysis.summary(trace).values()) == {0}
    tables = analysis.shuffle_graph(trace), analysis.bank_conflicts(trace)
    for table in tables:
        assert table.rows == ()
    assert analysis.dsmem_matrix(trace).tolist() == [[0]]
