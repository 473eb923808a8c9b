"""Accesses out of bounds by coordinate: past the end of a row, although the address lies in the next row."""

import math

import numpy as np
import pytest
from dsl import bounds as k
from running import gives

from cutesim import SimulationError
from cutesim.layouts import layout as la
from cutesim.layouts import layout_algebra as algebra
from cutesim.machine import copying
from cutesim.memory import tensor as tn
from cutesim.memory.arguments import AddressSpace, global_tensor
from cutesim.simulation import simulate
from cutesim.values.numeric import Float32

# the shape of x in which a kernel without its predicate overruns a row
OVERRUN = {"element": (3, 20), "element_of_slice": (3, 20), "in_a_loop": (3, 40), "tiled": (4, 56)}
OVERRUN |= {"tiled_from_an_offset": (4, 64), "asynchronous": (3, 100), "atomically": (3, 20)}


def arguments(shape):
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    return x, np.zeros_like(x)


REFUSED = [  # for test_reports
    *((name, getattr(k, name), *arguments(shape), False) for name, shape in OVERRUN.items()),
    ("tiled", k.tiled, *arguments((3, 64)), False),  # block 1 has rows 2 and 3
    ("flat", k.flat, *arguments((3, 20))[:1], np.zeros((2, 20), np.float32)),  # by its address
]


@pytest.mark.parametrize("name", OVERRUN)
def test_with_its_predicate_nothing_is_reported(name):
    x, out = arguments(OVERRUN[name])
    run = simulate(getattr(k, name), x, out, True)
    assert run.ok, run


@pytest.mark.parametrize("check", [True, False])
def test_vectors_of_an_array_that_starts_off_a_boundary(check):
    # rows start 12 bytes past a multiple of 16
    storage = np.arange(3 + 4 * 64 + 2, dtype=np.float32)
    x, out = storage[3:-2].reshape(4, 64), np.zeros(len(storage), np.float32)
    copied = out[3:-2].reshape(4, 64)
    run = simulate(k.tiled_from_column_1, x, copied, True, check=check)
    assert run.ok, run
    wanted = np.zeros((4, 64), np.float32)
    wanted[:, 1:61] = x[:, 1:61]  # whole vectors
    np.testing.assert_array_equal(copied, wanted)
    assert not out[:3].any() and not out[-2:].any()


@pytest.mark.parametrize("host", [k.flat, k.by_one_index])
def test_other_ways_through_all_elements_are_not_reported(host):
    x, _ = arguments((3, 20))
    gives(host, x, wanted=x)


def test_stride_0_and_negative_coordinates_are_not_reported():
    x = np.arange(40, dtype=np.float32)
    gives(k.one_row_for_all, x, wanted=[x] * 3)


# ---- a view's coordinates are those of its addresses ----------------------------------------------------------------


def tiled_copy(rng):
    rows, threads, vector = (2 ** int(rng.integers(0, n)) for n in (3, 5, 3))
    atom = copying.make_copy_atom(copying.CopyUniversalOp(), Float32, num_bits_per_copy=32 * vector)
    order = (1, 0) if rng.random() < 0.7 else (0, 1)
    thread_layout = la.make_ordered_layout((rows, threads), order)
    return copying.make_tiled_copy_tv(atom, thread_layout, la.make_layout((1, vector))).get_slice(
        int(rng.integers(rows * threads))
    )


def changed(t, rng):
    """The tensor after one random operation that kernels do; the tensor itself where that one does not fit."""
    rank = la.rank(t.layout)
    draw = lambda n: int(rng.integers(n))  # noqa: E731
    choice = draw(7)
    if choice == 0 and rank == 2:
        return tn.local_tile(t, (2 ** draw(4), 2 ** draw(6)), (draw(3), draw(3)))
    if choice == 1 and rank == 2 and la.depth(t.layout) == 1:
        return tiled_copy(rng).partition_S(t)
    if choice == 2 and la.depth(t.layout) == 1:
        return tn.domain_offset(tuple(draw(5) - 2 for _ in range(rank)), t)
    if choice == 3:
        keep = draw(rank)
        return t[tuple(None if i == keep or draw(2) else draw(2) for i in range(rank))]
    if choice == 4 and rank > 1:
        return tn.on_layout(la.group_modes)(t, 0, 2)
    if choice == 5:
        return tn.on_layout(algebra.coalesce)(t)
    if choice == 6 and rank > 1:
        return tn.on_layout(la.select)(t, [rank - 1, 0])
    return t


def test_coordinates_and_addresses_of_random_views_agree():
    rng = np.random.default_rng(0)
    known, views = 0, 0
    for _ in range(600):
        storage = np.zeros((int(rng.integers(1, 9)), int(rng.integers(1, 9)) * 16), np.float32)
        array = storage.T if rng.random() < 0.2 else storage[:, : storage.shape[1] - int(rng.integers(3))]
        t = global_tensor(array, "x", AddressSpace())
        strides = t.stride
        for _ in range(int(rng.integers(1, 5))):
            try:
                t = changed(t, rng)
            except (ValueError, SimulationError):  # the operation does not fit this layout
                break
            views += 1
            if t.coords is None:
                break
            known += 1
            columns = la.offsets(t.coords.layout)
            columns = columns if columns.ndim == 2 else np.zeros((len(columns), 0), np.int64)
            address = sum(b * s for b, s in zip(t.coords.base, strides))
            every = enumerate(strides[: columns.shape[1]])
            address = address + sum(columns[:, i] * s for i, s in every)
            found = np.broadcast_to(address, la.size(t.layout))
            np.testing.assert_array_equal(found, t.pointer.offset + tn.element_offsets(t.layout))
    assert views > 600 and known > 0.9 * views, (known, views)
