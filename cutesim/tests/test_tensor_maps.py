"""Tensor maps: values against numpy, layouts against what the compiler prints, and each step that may be missing."""

import numpy as np
import pytest
from dsl import tensor_maps as k
from real_compiler import compiler
from running import gives

from cutesim import NotSimulated
from cutesim.dialect import names
from cutesim.simulation import simulate
from cutesim.values.numeric import Float32

PARTS = {
    "row": (True, (128, 64), (256, 384), False),
    "wide": (True, (128, 128), (256, 384), False),
    "column": (False, (128, 64), (256, 384), True),
    "short": (True, (64, 32), (64, 32), False),
    "ragged": (True, (64, 64), (100, 72), False),
}


def ragged(rows, columns):
    return np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)


@pytest.mark.parametrize("kind, tile", [(k.PLAIN, (16, 32)), (k.SWIZZLED, (16, 64))])
def test_tiles_come_and_go_and_end_where_the_tensor_ends(kind, tile):
    x = ragged(37, 100)
    gives(k.doubled, x, wanted=2 * x, kind=kind, tile=tile)


@pytest.mark.parametrize(
    "fault, kind, words",
    [
        ("count", "mbarrier byte mismatch", "expects 4080 bytes in phase 0, and 4096 came"),
        ("wait", "read before arrival", "cute.copy(load, tXgX, tXsX, tma_bar_ptr=bar)"),
        ("fence", "missing proxy fence", "fence"),
        ("group", "exit with traffic in flight", "cp_async_bulk_wait_group missing"),
        ("group", "race", "s[t // 32, t % 32] = Float32(0.0)"),
    ],
)
def test_a_missing_step_is_found(fault, kind, words):
    x = ragged(16, 64)
    findings = simulate(k.doubled, x, x.copy(), k.PLAIN, fault=fault).findings
    said = [f"{f.kind}: {f.message} {[line.text for line in f.lines]}" for f in findings]
    assert any(text.startswith(kind) and words in text for text in said), said


def test_each_of_two_blocks_loads_half_for_both():
    x = np.arange(256, dtype=np.float32).reshape(8, 32)
    gives(k.shared_row, x, wanted=[x, x])
    findings = simulate(k.shared_row, x, np.stack([x, x]), short=True).findings
    assert findings[0].kind == "read before arrival"
    assert "was over as soon as the 512 bytes had come that tensor_maps.py" in findings[0].message


def test_blocks_may_add_to_one_tile_but_not_write_it():
    x = np.random.default_rng(1).standard_normal((32, 32)).astype(np.float32)
    out = np.zeros((4, 32), np.float32)
    run = simulate(k.summed, x, out)
    assert run.ok, run
    wanted = x.astype(np.float64).reshape(8, 4, 32).sum(axis=0)
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-6)
    assert simulate(k.summed, x, out, adds=False).findings[0].kind.startswith("race")


def test_what_a_map_cannot_describe_is_refused():
    x = ragged(16, 66)
    (finding,) = simulate(k.doubled, x, x.copy(), k.PLAIN).findings
    assert finding.kind == "misaligned" and "x has one of 264 bytes" in finding.message
    (finding,) = simulate(k.doubled, x.reshape(-1)[1:1025].reshape(16, 64), x[:, :64].copy(), k.PLAIN).findings
    assert finding.kind == "misaligned" and "4 past one" in finding.message


def test_masks():
    t = np.arange(8)
    gives(k.show_masks, wanted=[3 << 2 * (t // 2), 0b01010101 << t % 2], dtype=np.int32)


@pytest.mark.parametrize("name", PARTS)
def test_the_compiler_prints_the_same_layouts(name, capfd):
    ptx, torch = compiler()
    k_major, tile, shape, turned = PARTS[name]
    x = torch.zeros(shape, dtype=torch.bfloat16)
    x = torch.zeros(shape[::-1], dtype=torch.bfloat16).t() if turned else x
    capfd.readouterr()
    assert ".entry" in ptx(k.show_parts, x, name, k_major, tile)
    said = capfd.readouterr().out
    simulate(k.show_parts, x, name, k_major, tile)
    assert capfd.readouterr().out == said and len(said.splitlines()) == 5


def test_the_compiler_takes_the_kernels():
    ptx, torch = compiler()
    x = torch.zeros(32, 64)
    for kind in (k.PLAIN, k.SWIZZLED):
        text = ptx(k.doubled, x, torch.zeros(32, 64), kind)
        assert "elect.sync" in text and "cp.async.bulk.tensor.2d" in text
    assert "multicast::cluster" in ptx(k.shared_row, torch.zeros(8, 32), torch.zeros(2, 8, 32))
    assert "cp.reduce.async.bulk.tensor" in ptx(k.summed, torch.zeros(32, 32), torch.zeros(4, 32))
    assert ".entry" in ptx(k.show_masks, torch.zeros((2, 8), dtype=torch.int32))


def test_a_composed_layout_is_taken_apart():
    layout = names.NVGPU.warpgroup.make_smem_layout_atom(names.NVGPU.warpgroup.SmemLayoutAtomKind.K_SW64, Float32)
    assert str(names.CUTE.get_nonswizzle_portion(layout)) == "(8,16):(16,1)"
    assert str(names.CUTE.get_swizzle_portion(layout)) == "S<2,4,3>"
    assert isinstance(names.CPASYNC.TmaInfo((1, 2)), tuple)


def test_what_is_left_out_says_so():
    with pytest.raises(NotSimulated, match="make_im2col_tma_atom"):
        names.CPASYNC.make_im2col_tma_atom(1)
