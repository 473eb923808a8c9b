"""Arrays, vectors, pointers made of numbers, primitives by pointers: values, a missing step, the compiler's instructions."""

import re

import numpy as np
import pytest
from dsl import arrays as k
from real_compiler import compiler
from running import UNTOUCHED, gives

from cutesim import NotSimulated
from cutesim.dialect import names
from cutesim.simulation import simulate
from cutesim.values.field import FIELDS
from cutesim.values.numeric import BFloat16

T = np.arange(32)


def kinds(run) -> list:
    return [finding.kind for finding in run.findings]


def normal(seed, *shape) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def bf16(x) -> np.ndarray:
    return BFloat16.round(np.asarray(x, np.float32))


def test_arrays_are_memory():
    x = normal(0, 128)
    out = np.zeros((12, 32), np.float32)
    run = simulate(k.arrays, x, out)
    assert run.ok, run
    mine = x.reshape(32, 4).copy()
    mine[T % 2 == 1, T[T % 2 == 1] % 4] = 7
    np.testing.assert_array_equal(out[0], (mine[:, 1] + mine[T, (T + 1) % 4])[::-1])
    np.testing.assert_array_equal(out[1], mine[::-1, 3])
    np.testing.assert_array_equal(out[2], np.trunc(mine[:, 0] * np.float32(10)))
    np.testing.assert_allclose(out[3], x[2::4] * 2 + x[3::4] + 34, rtol=1e-6)
    np.testing.assert_array_equal(out[8:].reshape(-1), x)


def test_arrays_and_vectors_may_be_rebound():
    x = normal(8, 32)
    a, b = np.stack([x, x]), np.stack([x * 2, x])
    large = b[0] > 1
    b[1, large], a[0, large] = 5, 3
    for _ in range(3):
        b[0] += 1
        a[1] += b[0]
    v = np.where(T > 3, a, b) * np.where(T > 7, np.float32(2), np.float32(1))
    gives(k.rebound, x, wanted=v[0] * np.float32(100) + v[1])


def test_vectors_are_element_by_element():
    x = normal(1, 40)
    v = np.stack([x[T], 0 * x[T] + 2, x[T + 1], x[T + 2]])
    w = (v + v * np.float32(2) - np.float32(1)).astype(np.float32)
    raw = BFloat16.encode(bf16(w)).astype(np.uint32)
    bits = (raw[2] | raw[2] << 16).astype(np.uint32).view(np.int32)
    wanted = [w[0], -w[T % 4, T], bits.astype(np.float32)]
    wanted += [bf16(w[0]) + np.float32(6), np.float32(4.5) / w[1]]
    gives(k.vectors, x, wanted=wanted)


def test_clusters_reach_their_neighbours():
    x = normal(2, 2, 32)
    gives(k.neighbours, x, wanted=x[::-1, ::-1])
    assert "race" in kinds(simulate(k.neighbours, x, x.copy(), False))


def test_a_bulk_copy_and_a_view_as_integers_keep_the_exact_numbers():
    x = normal(9, 2, 128)
    gives(k.in_bulk, x, wanted=x * np.float32(3))
    field = FIELDS[0]
    exact = simulate(k.in_bulk, x, np.zeros_like(x), exact=field).exact["out"]
    assert (exact == field.multiply(field.encode(x, constants=False), field.encode(3.0))).all()


@pytest.mark.parametrize("waits", ["try", "test", "limit"])
def test_an_mbarrier_is_polled(waits):
    x = np.arange(32, dtype=np.float32)
    gives(k.polled, x, wanted=x[::-1], waits=waits)
    for schedule in ("forward", "reverse"):
        assert "race" in kinds(simulate(k.polled, x, x.copy(), "no", schedule=schedule))


def test_words():
    x = normal(4, 40)
    out, count = np.zeros((10, 32), np.float32), np.array([5, 9], np.int32)
    run = simulate(k.words, x, out, count)
    assert run.ok, run
    np.testing.assert_array_equal(out[0], x[4 * (T % 8) + 1])
    np.testing.assert_array_equal(out[1], x[T] + np.float32(1))
    assert (out[2] == 9).all() and count.tolist() == [5 + 64, 9]
    np.testing.assert_array_equal(out[3], bf16(x[T + 1]) * np.float32(1000) + bf16(x[T]))
    assert (out[4] == 0x7E).all()
    np.testing.assert_array_equal(out[5], x[T // 4 * 4 + 3])
    np.testing.assert_array_equal(out[6], x[T ^ 3])
    np.testing.assert_allclose(out[7:9], [np.exp2(x[T])] * 2, rtol=3e-7)
    assert out[9].sum() == 1


def test_matrices():
    x = np.random.default_rng(5).integers(-(2**31), 2**31, 128).astype(np.int32)
    first = np.ascontiguousarray(x[:32].view(np.uint16).reshape(8, 8).T).view(np.int32)
    # lane 4 r + c holds elements 2 c and 2 c + 1 of row r: the word c of the row
    gives(k.matrices, x, wanted=[*x.reshape(4, 32), first.reshape(-1)])


def test_tiles_and_atoms_are_copied():
    x = normal(6, 32, 64)
    gives(k.copied, x, wanted=np.where(T < 20, x[8:16, 32:], 0))
    assert kinds(simulate(k.copied, x, np.ones((8, 32), np.float32), waits=False)) != []


@pytest.mark.parametrize("swizzled", [False, True])
def test_boxes_of_maps_without_tensors_are_copied(swizzled):
    x = normal(7, 32, 64)
    wanted = np.concatenate([x[28:, 32:], np.zeros((4, 32))])
    gives(k.boxed, x, wanted=wanted, swizzled=swizzled)
    run = simulate(k.boxed, x, np.ones((8, 32), np.float32), swizzled, waits=False)
    assert "read before arrival" in kinds(run)


@pytest.mark.parametrize("change", ["subview", "slice", "gmem"])
def test_other_uses_of_arrays_are_refused_by_their_names(change):
    from cutesim.hopper import arrays
    from cutesim.memory.pointers import Space
    from cutesim.values.numeric import Float32

    array = object.__new__(arrays.Array)
    array.shape = (4,)
    calls = {
        "subview": lambda: array.subview(1),
        "slice": lambda: array[1:2],
        "gmem": lambda: arrays.Array(Float32, 4, space=Space.GMEM),
    }
    with pytest.raises(NotSimulated, match="cutlass.Array"):
        calls[change]()


def test_tiles_are_stored_through_stages():
    x = normal(0, 16, 32)
    gives(k.stored, x, wanted=x + 1)
    assert "race" in kinds(simulate(k.stored, x, x.copy(), acquires=False))


def test_some_names_have_a_second_place():
    pipeline = names.CUTLASS.pipeline
    found = names.by_path("cutlass.pipeline.helpers").pipeline_init_wait
    assert found is pipeline.pipeline_init_wait


def test_primitives():
    x, t = np.arange(64, dtype=np.int32) ** 2, np.arange(64)
    first = (x[t ^ 1] * 100 + x[t // 32 * 32])[::-1]
    gives(k.primitive, x, wanted=[first, 8 + 0 * t, np.where(t < 2, 7, UNTOUCHED)])
    assert kinds(simulate(k.primitive, x, np.zeros((3, 64), np.int32), waits=False))[0] == "race"


def test_the_compiler_takes_them():
    ptx, torch = compiler()
    x, whole = torch.zeros(128), torch.zeros(128, dtype=torch.int32)
    text = ptx(k.arrays, x, torch.zeros((12, 32)))
    assert "ld.global.v4.b32" in text and "st.global.v4.b32" in text and "cvt.rzi.s32.f32" in text
    assert ".visible .entry" in ptx(k.rebound, x, x)
    assert ".visible .entry" in ptx(k.vectors, x, torch.zeros((5, 32)))
    text = ptx(k.neighbours, x.reshape(4, 32), torch.zeros((2, 32)), True)
    assert "ld.shared::cluster.b32" in text and "barrier.cluster.arrive.aligned" in text
    said = ptx(k.neighbours, x.reshape(4, 32), torch.zeros((2, 32)), False)
    assert "barrier.cluster.arrive.relaxed" in said
    assert "cp.async.bulk.shared::cluster.global" in ptx(k.in_bulk, x.reshape(1, 128), x.reshape(1, 128))
    for waits, instruction in (("try", "try_wait"), ("test", "test_wait"), ("limit", "try_wait")):
        assert f"mbarrier.{instruction}.parity" in ptx(k.polled, x, x, waits)
    text = ptx(k.words, x, torch.zeros((10, 32)), whole)
    words = "ld.global.v4.b32 ld.acquire.gpu.global.b32 cvt.rn.bf16x2.f32 cvt.rn.satfinite.e4m3x2.f32"
    words += " 7199 shfl.sync.bfly membar.gl ex2.approx"
    assert [word for word in words.split() if word not in text] == []
    text = ptx(k.matrices, whole, torch.zeros((5, 32), dtype=torch.int32))
    assert "ldmatrix.sync.aligned.m8n8.x4.shared.b16" in text
    assert "ldmatrix.sync.aligned.m8n8.x1.trans" in text
    text = ptx(k.boxed, torch.zeros(32, 64), torch.zeros(8, 32), True)
    assert re.search(r"cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes", text)
    assert "cp.async.bulk.tensor.2d" in ptx(k.copied, torch.zeros(32, 64), torch.zeros(8, 32))
    said = ptx(k.stored, torch.zeros(16, 32), torch.zeros(16, 32))
    assert "cp.async.bulk.wait_group.read \t1" in said
    assert "shfl.sync.bfly" in ptx(k.primitive, whole[:64], torch.zeros((3, 64), dtype=torch.int32))
