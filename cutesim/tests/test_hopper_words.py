"""Small names that Hopper's kernels use, against numpy and against the compiler."""

import numpy as np
import pytest
from dsl import hopper_words as k
from dsl.hand_over import raised
from real_compiler import compiler
from running import UNTOUCHED, gives

from cutesim.dialect import names
from cutesim.simulation import simulate

LANE = np.arange(32, dtype=np.int64)  # a browser's own have 32 bits


def test_bits():
    x = np.random.default_rng(3).integers(-(2**31), 2**31, 32).astype(np.int32)
    a, b = x.astype(np.int64), x[::-1].astype(np.int64)
    ua, ub = a & 0xFFFFFFFF, b & 0xFFFFFFFF
    both = ua | ub << 32
    byte = lambda i: both >> np.int64(8 * i) & 255  # noqa: E731
    sign = np.where(byte(1) & 128, 255, 0)
    wanted = [
        # selector 0x9706: nibbles 6, 0, 7 and 9, whose high bit asks for the sign of byte 1
        byte(6) | byte(0) << 8 | byte(7) << 16 | sign << 24,
        (a & b) | (~a & x[0]),  # 0xCA: a ? b : c
        [int(f"{v:032b}"[::-1], 2) for v in ua],
        a * b >> 32,
        a * b >> 20,
        LANE % 31,
        (1 << LANE) - 1,
        np.where(LANE < 7, a, b),
        LANE * 3 // 7 * 100 + LANE * 3 % 7,
    ]
    wrapped = [np.asarray(row).astype(np.int64).astype(np.uint32).view(np.int32) for row in wanted]
    gives(k.bits, x, wanted=wrapped)


def test_floats():
    x = np.random.default_rng(4).standard_normal(32).astype(np.float32)
    a, b = x.astype(np.float64), x[::-1].astype(np.float64)
    wanted = [np.abs(a), a / b, np.log1p(np.abs(a))]
    wanted += [
        np.copysign(a, b),
        np.trunc(3 * x),
        np.trunc(3 * x + np.copysign(0.5, x)),
        np.rint(3 * x),
        0 * a + UNTOUCHED,
    ]
    wanted += [0 * a + 2]
    gives(k.floats, x, wanted=wanted, rtol=5e-7, atol=1e-7)


def test_pairs_are_rounded_once_each_and_a_note_says_that_hopper_has_none():
    x = np.random.default_rng(4).standard_normal(32).astype(np.float32)
    out = np.zeros((9, 32), np.float32)
    run = simulate(k.packed, x, out)
    assert run.ok and "fma_packed_f32x2 is compiled for Blackwell" in str(run)
    a, b = x.astype(np.float64), x[::-1].astype(np.float64)
    wanted = np.stack([a * b + a, b * a + a, a * b, b * b, a + b, b + b, a - b, 0 * b])
    np.testing.assert_array_equal(out[:8], wanted.astype(np.float32))
    np.testing.assert_allclose(out[8], np.exp(a) + np.exp(b), rtol=5e-6)


def test_pointers_and_dialects():
    x, out = np.arange(128, dtype=np.int32) ** 2, np.zeros((5, 32), np.int32)
    count = np.zeros(1, np.int32)
    run = simulate(k.pointers, x, out, count)
    assert run.ok, run
    word = x[4 * (31 - LANE)]
    wanted = [word + LANE, word - LANE, 4 * LANE, LANE.astype(np.float32).view(np.int32), LANE < 5]
    np.testing.assert_array_equal(out, np.stack(wanted))
    assert count[0] == 32
    short = simulate(k.pointers, x[:126].copy(), out, count)
    assert short.findings[0].kind == "out of bounds" and short.findings[0].threads == (31,)


def test_lane_masks_and_atomics_of_floats():
    x = np.random.default_rng(5).standard_normal(32).astype(np.float32)
    out, numbers = np.array([-9, 0], np.float32), np.zeros((2, 32), np.int32)
    assert simulate(k.rest, x, out, numbers).ok
    np.testing.assert_array_equal(out, [x.max(), np.abs(x).max()])
    wanted = [132 + 0 * LANE, LANE // 5 * 100 + LANE % 5]
    np.testing.assert_array_equal(numbers, wanted)


def test_names_that_stand_in_other_places_or_for_no_instruction():
    assert names.CUTLASS.utils.smem_allocator.SmemAllocator is names.CUTLASS.memory.SmemAllocator
    assert names.CUTLASS.utils.LayoutEnum is names.CUTLASS.tensor_utils.LayoutEnum
    assert names.CUTLASS.utils.get_smem_capacity_in_bytes("sm_90") == 232_448
    assert names.CUTLASS.utils.get_smem_capacity_in_bytes("sm_80") == 166_912
    assert names.CUTLASS.utils.HardwareInfo().get_max_active_clusters(2) == 66
    assert names.CUTLASS.utils.WorkTileInfo((1, 2, 3), True).tile_idx == (1, 2, 3)
    assert names.CUTE.FastDivmodDivisor is names.CUTE.FastDivmodDivisorV2
    assert str(names.MATH.RoundingMode.NEAREST_EVEN) == "NEAREST_EVEN"
    assert names.CUTE.prefetch() is names.CUTE.testing.assert_() is names.ARCH.prefetch() is None
    assert names.NVGPU.CacheEvictionPriority is names.CUTE.CacheEvictionPriority
    assert names.ARCH.dynamic_smem_size


def test_dynamic_shared_memory():
    assert gives(k.dynamic, wanted=31 - LANE + 256, dtype=np.int32, modes=[{}]).smem_bytes == 256


def test_every_tile_is_one_block_s():
    out = np.zeros((4, 3, 2), np.int32)
    assert simulate(k.tiles, out).ok
    # 12 clusters of two blocks for 5 at a time: the first two have three tiles, the others two
    assert (out.reshape(2, 2, 3, 2)[:, 0] == out.reshape(2, 2, 3, 2)[:, 1]).all() and out.min() == 1
    assert sorted(out[::2].ravel()) == [1] * 5 + [2] * 5 + [3] * 2


def test_the_compiler_takes_the_same(capfd):
    ptx, torch = compiler()
    numbers = lambda *shape: torch.zeros(shape, dtype=torch.int32)  # noqa: E731
    assert "prmt" in ptx(k.bits, numbers(32), numbers(9, 32))
    assert ".entry" in ptx(k.floats, torch.zeros(32), torch.zeros(9, 32))
    with pytest.raises(Exception, match="F32x2 intrinsics are not supported"):  # for Hopper
        ptx(k.packed, torch.zeros(32), torch.zeros(9, 32))
    text = ptx(k.pointers, numbers(128), numbers(5, 32), numbers(1))
    assert "red.relaxed.gpu.global.add.s32" in text or "red.relaxed.gpu.add.s32" in text
    assert "st.release.gpu" in ptx(raised(), numbers(1), numbers(32), numbers(32))
    assert ".entry" in ptx(k.rest, torch.zeros(32), torch.zeros(2), numbers(2, 32))
    assert ".entry" in ptx(k.dynamic, numbers(32))
    assert ".entry" in ptx(k.tiles, numbers(4, 3, 2))
    capfd.readouterr()
    ptx(k.leading, torch.zeros(8, 4))
    said = capfd.readouterr().out
    simulate(k.leading, np.zeros((8, 4), np.float32))
    assert capfd.readouterr().out == said == "ROW_MAJOR True\n"
