"""Matrix products: values against float64, layouts against what the compiler prints, steps that may be missing."""

import numpy as np
import pytest
from dsl import products as k
from real_compiler import compiler
from running import gives

from cutesim import Array
from cutesim.dialect import names
from cutesim.layouts import layout as la
from cutesim.simulation import simulate
from cutesim.values.numeric import BFloat16, Float32, Int8

KINDS = (*k.WARP_KINDS, "wgmma")


def operands(m, n, depth, dtype=np.float32):
    rng = np.random.default_rng(m + n + depth)
    return [rng.integers(-4, 5, shape).astype(dtype) for shape in ((m, depth), (n, depth))]


def bf16(x):
    torch = pytest.importorskip("torch")
    return torch.from_numpy(x).to(torch.bfloat16)


def product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize("kind", ["f16", "tf32", "thread"])
def test_products_of_warps_and_threads(kind):
    m, n, depth = (32, 32, 32) if kind != "thread" else (16, 8, 4)
    a, b = operands(m, n, depth, np.float16 if kind == "f16" else np.float32)
    gives(k.product, a, b, wanted=product(a, b), dtype=np.float32, kind=kind)


def test_a_product_of_real_numbers_is_rounded_like_float32():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((32, 32)).astype(np.float16) for _ in range(2))
    gives(k.product, a, b, wanted=product(a, b), dtype=np.float32, kind="f16", rtol=2e-6, atol=2e-6)


def test_tf32_drops_the_last_bits_of_the_fraction():
    a, b = operands(32, 32, 32)
    a += np.float32(2**-12)
    c = np.zeros((32, 32), np.float32)
    assert simulate(k.product, a, b, c, "tf32").ok
    kept = (a.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    np.testing.assert_allclose(c, kept.astype(np.float64) @ b.T, atol=1e-4)
    assert np.abs(c - a.astype(np.float64) @ b.T).max() > 1e-3


def test_ldmatrix_and_stmatrix():
    a, b = operands(32, 32, 32, np.float16)
    gives(k.matrices, a, b, wanted=product(a, b))


def test_a_pipeline_of_tensor_maps_and_warpgroups():
    a, b = operands(160, 64, 192)
    # rows that the map fills with zeros
    wanted = np.concatenate([product(a, b), np.zeros((96, 64))])
    gives(k.hopper, bf16(a), bf16(b), wanted=wanted, dtype=np.float32)
    # wgmma.wait_group is .sync.aligned: one lane may then say for its warp that the stage is free
    gives(k.hopper, bf16(a), bf16(b), wanted=wanted, dtype=np.float32, modes=[{}], fault="aligned")


def test_wgmma_reads_what_threads_wrote_behind_a_proxy_fence():
    a, b = operands(128, 64, 64)
    gives(k.written, bf16(a), bf16(b), wanted=product(a, b), dtype=np.float32, fenced=True)
    findings = simulate(k.written, bf16(a), bf16(b), np.zeros((128, 64), np.float32), False).findings
    said = [[f.kind, *(line.text.strip() for line in f.lines)] for f in findings]
    last = "warpgroup.wait_group(0)"
    stores = ["sA[t % 128, i, 0] = a[t % 128, i]", "sB[t % 64, i, 0] = b[t % 64, i]"]
    assert said == [["missing proxy fence", store, last] for store in stores], findings
    assert "wgmma, waited for at products.py" in findings[0].message


@pytest.mark.parametrize("kind, name", [("e4m3", "Float8E4M3FN"), ("e5m2", "Float8E5M2")])
def test_warpgroups_multiply_floats_of_8_bits(kind, name):
    dtype = names.CUTE.__dict__[name]
    # whole numbers that both formats have
    a, b = (np.clip(x, -4, 4).astype(np.float32) for x in operands(128, 64, 256))
    packed, more = [dtype.encode(x) for x in (a, b)], {"tile": (128, 64, 128), "kind": kind}
    # Floats, and bytes that the kernel reads as floats.
    for given in ([Array(x, dtype) for x in packed], packed):
        gives(k.hopper, *given, wanted=product(a, b), dtype=np.float32, modes=[{}], **more)
    findings = simulate(k.hopper, *packed, np.zeros((128, 64), np.float32), "wait", **more).findings
    assert findings[0].kind == "read before arrival"


@pytest.mark.parametrize(
    "fault, kind, words",
    [
        ("wait", "read before arrival", "wait_group"),
        ("fence", "missing wgmma fence", "cute.gemm(tiled, acc"),
        ("early", "race", "cute.copy(load_a"),
        ("full", "read before arrival", "mbarrier_wait"),
    ],
)
def test_a_missing_step_is_found(fault, kind, words):
    a, b = operands(128, 64, 64 * k.STAGES if fault == "full" else 256)
    findings = simulate(k.hopper, bf16(a), bf16(b), np.zeros((128, 64), np.float32), fault).findings
    said = [f"{f.kind}: {f.message} {[line.text for line in f.lines]}" for f in findings]
    assert any(text.startswith(kind) and words in text for text in said), said


def test_the_same_functions_have_other_names():
    utils, helpers = names.CUTLASS.utils, names.CUTLASS.utils.hopper_helpers
    assert utils.sm90_make_smem_layout_a is helpers.make_smem_layout_a
    assert utils.sm90_make_smem_layout_b is helpers.make_smem_layout_b
    assert utils.sm90_make_smem_layout_epi is helpers.make_smem_layout_epi
    assert utils.sm90_get_smem_layout_atom is helpers.get_smem_layout_atom
    assert utils.sm90_make_trivial_tiled_mma is helpers.make_trivial_tiled_mma
    store = utils.sm90_get_smem_store_op(names.CUTLASS.tensor_utils.LayoutEnum.COL_MAJOR, BFloat16, Float32)
    assert store.op.transpose and store.values == 8
    warpgroup, cute = names.NVGPU.warpgroup, names.CUTE
    assert warpgroup.OperandMajorMode is names.NVGPU.OperandMajorMode
    op = warpgroup.MmaF8Op(
        Int8, Int8, Float32, (64, 8, 32), warpgroup.OperandSource.RMEM, *[warpgroup.OperandMajorMode.K] * 2
    )
    tiled = cute.make_tiled_mma(cute.make_mma_atom(op))
    assert cute.MmaAtom.matches(cute.make_mma_atom(op)) and cute.ThrMma.matches(tiled.get_slice(0))
    # PTX ISA, wgmma.m64nNk32: thread 5 holds row 1, columns 4 to 7, then row 9, then both again 16 columns on
    at = la.offsets(op.a).reshape(-1, 128)[:, 5]
    assert [(int(x) % 64, int(x) // 64) for x in at[::4]] == [(1, 4), (9, 4), (1, 20), (9, 20)]
    assert tiled.get(warpgroup.Field.ACCUMULATE) is True
    copy = cute.make_tiled_copy_D(store, cute.make_tiled_copy_C(store, cute.make_tiled_mma(op)))
    assert cute.ThrCopy.matches(copy.get_slice(0))


def printed(capfd, host, *arguments):
    ptx, torch = compiler()
    capfd.readouterr()
    assert ".entry" in ptx(host, *arguments)
    said = capfd.readouterr().out
    simulate(host, *arguments)
    return said.splitlines(), capfd.readouterr().out.splitlines()


@pytest.mark.parametrize("kind", KINDS)
def test_the_compiler_prints_the_same_layouts(kind, capfd):
    dtype = np.float32 if kind in ("tf32", "thread") else np.float16
    arguments = [np.zeros(shape, dtype) for shape in ((128, 64), (128, 64), (128, 128))]
    said, mine = printed(capfd, k.show, *arguments, kind)
    assert mine == said and len(said) >= 4


def test_the_compiler_lays_shared_memory_out_the_same(capfd):
    said, mine = printed(capfd, k.show_shared_layouts, np.zeros((8, 8), np.float32))
    assert mine == said and len(said) == 22


def test_the_compiler_takes_the_kernels():
    ptx, torch = compiler()
    half = torch.zeros(32, 32, dtype=torch.float16)
    assert "mma.sync.aligned.m16n8k16" in ptx(k.product, half, half, torch.zeros(32, 32), "f16")
    text = ptx(k.matrices, half, half, half)
    assert "ldmatrix" in text and "stmatrix" in text
    a, b = (torch.zeros(shape, dtype=torch.bfloat16) for shape in ((128, 256), (64, 256)))
    for kind, name in (("e4m3", "e4m3.e4m3"), ("e5m2", "e5m2.e5m2")):
        eight = torch.zeros((128, 128), dtype=torch.uint8), torch.zeros((64, 128), dtype=torch.uint8)
        text = ptx(k.hopper, *eight, torch.zeros(128, 64), "", (128, 64, 128), kind)
        assert f"wgmma.mma_async.sync.aligned.m64n64k32.f32.{name}" in text
    assert "fence.proxy.async" in ptx(
        k.written, a[:, :64].contiguous(), b[:, :64].contiguous(), torch.zeros(128, 64), True
    )
    text = ptx(k.hopper, a, b, torch.zeros(128, 64))
    assert "wgmma.mma_async" in text and "wgmma.wait_group" in text
