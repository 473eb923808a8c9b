"""Floats of 8 bits: all 256 of each format, rounding against a search of all, and what the compiler takes and refuses."""

import numpy as np
import pytest
from dsl import eight_bits as k
from real_compiler import compiler

from cutesim import Array
from cutesim.simulation import simulate
from cutesim.values.numeric import TYPES

LARGEST = {"Float8E4M3FN": 448.0, "Float8E5M2": 57344.0}
TORCH = {"Float8E4M3FN": "float8_e4m3fn", "Float8E5M2": "float8_e5m2"}
BYTES = np.arange(256, dtype=np.uint8)


def number(byte: int, name: str) -> float:
    """A byte's number, by the formats' definition."""
    exponent, mantissa = (4, 3) if name == "Float8E4M3FN" else (5, 2)
    field, fraction = byte >> mantissa & (1 << exponent) - 1, byte & (1 << mantissa) - 1
    bias, last = 2 ** (exponent - 1) - 1, (1 << exponent) - 1
    if name == "Float8E4M3FN" and byte & 127 == 127 or name == "Float8E5M2" and field == last and fraction:
        return float("nan")
    if name == "Float8E5M2" and field == last:
        size = float("inf")
    else:
        size = 2.0 ** (max(field, 1) - bias) * ((field > 0) + fraction / 2**mantissa)
    return -size if byte & 128 else size


def nearest(x: np.ndarray, name: str) -> np.ndarray:
    """The bytes that cvt.rn.satfinite makes of float64 numbers: the nearest, of two the even one; found by looking at all."""
    values = np.array([number(b, name) for b in range(128)])
    codes = np.flatnonzero(np.isfinite(values))
    size = np.minimum(np.abs(x), LARGEST[name])
    distance = np.abs(np.nan_to_num(size)[:, None] - values[codes])
    # two in a tie, which goes to the even byte
    near = distance == distance.min(axis=1, keepdims=True)
    found = codes[np.argmax(near * (2 - codes % 2), axis=1)].astype(np.uint8)
    return np.where(np.isnan(x), 0x7F, found | np.signbit(x).astype(np.uint8) << 7).astype(np.uint8)


def numbers(name: str) -> np.ndarray:
    """float32 numbers, 2,048 of them: all of the format, ties between neighbours, what lies beside the ties, and beyond."""
    finite = np.array([v for v in (number(b, name) for b in range(128)) if np.isfinite(v)])
    ties = (finite[1:] + finite[:-1]) / 2
    edge = [LARGEST[name] * f for f in (1.03, 1.0625, 1.07, 1.125, 2, 1e30)]
    special = [0.0, np.inf, np.nan, 1e-40, 2.0**-18, 2.0**-19, 2.0**-30]
    sizes = np.concatenate([finite, ties, ties * (1 + 2.0**-23), ties * (1 - 2.0**-23), edge, special]).astype(
        np.float32
    )
    both = np.concatenate([sizes, -sizes])
    more = np.random.default_rng(0).standard_normal(2048 - len(both)).astype(np.float32)
    return np.concatenate([both, more * np.exp2(np.arange(len(more)) % 24 - 12)]).astype(np.float32)


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("source", ["float32", "float16", "float64"])
def test_numbers_are_rounded_as_the_instruction_does(name, source):
    with np.errstate(over="ignore"):
        x = numbers(name).astype(source)
    one, four = np.zeros(2048, np.uint8), np.zeros(2048, np.uint8)
    run = simulate(k.rounded(TYPES[name]), x, one, four)
    assert run.ok, run
    np.testing.assert_array_equal(one, nearest(x.astype(np.float64), name))
    np.testing.assert_array_equal(four, one)


def test_float64_goes_through_float32():
    x = np.full(1024, 1.0625 + 2.0**-40)  # above a tie, which it is in float32
    one = np.zeros(1024, np.uint8)
    assert simulate(k.rounded(TYPES["Float8E4M3FN"]), x, one, np.zeros_like(one)).ok
    assert one[0] == 0x38


def test_a_run_in_float64_knows_what_was_rounded():
    x = np.random.default_rng(1).standard_normal(1024).astype(np.float32)
    four = Array(np.zeros(1024, np.uint8), TYPES["Float8E4M3FN"])
    run = simulate(k.rounded(four.dtype), x, np.zeros(1024, np.uint8), four, exact=True)
    np.testing.assert_array_equal(run.exact["four"], x)
    assert 0.01 < np.abs(four.numpy() - x).max() < 0.13


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("wide", ["Float32", "Float16", "BFloat16"])
def test_each_byte_is_its_number(name, wide):
    wanted = np.array([number(b, name) for b in range(256)])
    out = Array(np.zeros(256, TYPES[wide].storage), TYPES[wide])
    assert simulate(k.widened(TYPES[name], TYPES[wide]), BYTES, out).ok
    np.testing.assert_array_equal(out.numpy().astype(np.float64), wanted)


@pytest.mark.parametrize("name", TORCH)
def test_memory_keeps_every_byte(name):
    out = np.zeros(256, np.uint8)
    run = simulate(k.moved, Array(BYTES.copy(), TYPES[name]), Array(out, TYPES[name]))
    assert run.ok, run
    np.testing.assert_array_equal(out, BYTES)


@pytest.mark.parametrize("name", TORCH)
def test_tensors_of_torch_are_arguments(name):
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(BYTES.copy()).view(getattr(torch, TORCH[name]))
    out = torch.zeros(256, dtype=torch.uint8).view(x.dtype)
    assert simulate(k.moved, x, out).ok
    np.testing.assert_array_equal(out.view(torch.uint8).numpy(), BYTES)


def test_constants_do_not_saturate():
    out = np.zeros(16, np.uint8)
    run = simulate(k.constants, out)
    assert run.ok, run
    # as the compiler folds them
    assert out.tolist() == [0x7E, 0x7F, 0x7C, 0xC2, *[0x3C] * 4, 16, 1, *[0] * 6]


def test_inline_assembly_converts_pairs():
    x = numbers("Float8E4M3FN")[-64:]
    out = np.zeros((5, 32), np.uint32)
    run = simulate(k.assembled, x, out)
    assert run.ok, run
    e4m3, e5m2 = (nearest(x.astype(np.float64), name) for name in TORCH)
    pair = lambda low, high, bits: low.astype(np.uint32) | high.astype(np.uint32) << bits  # noqa: E731
    wanted = pair(e4m3[::2], e4m3[1::2], 8) | pair(e5m2[::2], e5m2[1::2], 8) << 16
    np.testing.assert_array_equal(out[0], wanted)
    half = np.array([number(b, "Float8E4M3FN") for b in e4m3.tolist()]).astype(np.float16)
    raw = half.view(np.uint16)
    np.testing.assert_array_equal(out[1], pair(raw[::2], raw[1::2], 16))
    again = nearest(half.astype(np.float64), "Float8E5M2")
    np.testing.assert_array_equal(out[2], pair(again[::2], again[1::2], 8))
    bf16 = TYPES["BFloat16"]
    positive = bf16.encode(bf16.round(np.maximum(x, 0)))
    np.testing.assert_array_equal(out[3], pair(positive[::2], positive[1::2], 16))
    np.testing.assert_array_equal(out[4], raw[1::2])


@pytest.mark.parametrize("name", k.TAKEN)
def test_what_the_compiler_takes_runs(name):
    run = simulate(getattr(k, name), BYTES.copy(), np.zeros(256, np.uint8))
    assert run.ok, run


@pytest.mark.parametrize("name", [*k.REFUSED, *k.TAKEN])
def test_the_compiler_says_so(name):
    ptx, torch = compiler()
    x = torch.zeros(256, dtype=torch.uint8)
    if name in k.TAKEN:
        assert ".visible .entry" in ptx(getattr(k, name), x, x)
        return
    with pytest.raises(Exception) as refused:  # each in its own words, most of them the backend's
        ptx(getattr(k, name), x, x)
    wanted = ("CompilerDiagnosticError", "DSLRuntimeError", "ValueError")
    assert refused.type.__name__ in wanted, refused


def test_the_compiler_takes_the_kernels():
    ptx, torch = compiler()
    import cutlass

    x, one = torch.zeros(2048), torch.zeros(2048, dtype=torch.uint8)
    assert "cvt.rn.satfinite.e4m3x2.f32" in ptx(k.rounded(cutlass.Float8E4M3FN), x, one, one)
    text = ptx(k.rounded(cutlass.Float8E5M2), x.half(), one, one)
    assert "cvt.rn.satfinite.e5m2x2.f16x2" in text
    text = ptx(k.rounded(cutlass.Float8E4M3FN), x.double(), one, one)
    assert "cvt.rn.f32.f64" in text and "cvt.rn.satfinite.e4m3x2.f32" in text
    said = ptx(k.widened(cutlass.Float8E5M2, cutlass.Float32), one[:256], x[:256])
    assert "cvt.rn.f16x2.e5m2x2" in said
    assert f"{{{0xC27C7F7E - 2**32}, {0x3C3C3C3C}}}" in ptx(k.constants, one)
    assert "cvt.rn.relu.bf16x2.f32" in ptx(k.assembled, x, torch.zeros((5, 32), dtype=torch.int32))
