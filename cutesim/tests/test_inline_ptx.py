"""PTX by its text: the same result and the same trace as cute.copy, the same checks, and nothing that is not modelled."""

import re

import numpy as np
import pytest
from dsl import inline_ptx as k
from real_compiler import compiler

from cutesim import Array
from cutesim.analysis import bytes_moved, races, sectors_per_request
from cutesim.dialect.names import CUTLASS
from cutesim.simulation import simulate
from cutesim.trace import Op

BF16, FP16, FP32, INT64, INT32 = (getattr(CUTLASS, n) for n in ("BFloat16", "Float16", "Float32", "Int64", "Int32"))
FACTS = ("launch", "block", "warp", "op", "mask", "space", "tensor", "bytes", "arg", "arg2")


def rows(M, N, dtype):
    """(x, zeros) and the bits of x: any bit pattern, NaNs with payloads among them."""
    rng = np.random.default_rng(N)
    bits = rng.integers(0, 1 << dtype.width, (M, N)).astype(f"u{dtype.width // 8}")
    if dtype is BF16:
        values = (bits.astype(np.uint32) << 16).view(np.float32)
        values[np.isnan(values)] = 1.0  # made from numbers, which have no payloads
        return Array.bf16(values), Array.bf16(np.zeros((M, N), np.float32))
    return bits.view(f"f{dtype.width // 8}"), np.zeros((M, N), f"f{dtype.width // 8}")


def bits(array):
    numbers = np.ascontiguousarray(array.numpy() if isinstance(array, Array) else array)
    return numbers.view(f"u{numbers.itemsize}")


def facts(trace, *ops):
    """What the trace says of each event of these kinds, without source lines."""
    return [
        (*(int(e[f]) for f in FACTS), trace.addresses[e["addresses"]].tolist(), trace.addresses[e["sources"]].tolist())
        for e in (trace.select(*ops) if ops else trace.events)
    ]


def is_the_copy(kernel, how, columns, dtype, kept=None, rest=0.0, ops=()):
    """The first `kept` elements of each row come, the others are `rest`; `how` the trace is that of "copy". Its events' facts."""
    found = {}
    for way in ("copy", how):
        for check in (True, False):
            x, out = rows(3, columns, dtype)
            run = simulate(kernel(way), x, out, check=check)
            assert run.ok, run
            np.testing.assert_array_equal(bits(out)[:, :kept], bits(x)[:, :kept])
            assert kept is None or (bits(out)[:, kept:] == np.float32(rest).view(np.uint32)).all()
            if check:
                totals = sectors_per_request(run.trace).total, bytes_moved(run.trace).total
                found[way] = facts(run.trace, *ops), *totals
    assert found[how] == found["copy"]
    return found[how][0]


@pytest.mark.parametrize("words", [1, 2, 4])
@pytest.mark.parametrize("dtype", [BF16, FP16, FP32], ids=str)
@pytest.mark.parametrize("how", ["hint", "plain", "asked", "asked hint"])
def test_a_load_is_the_copy_of_its_width(how, dtype, words):
    columns = 64 * words * 32 // dtype.width
    events = is_the_copy(lambda way: k.vectors(dtype, words, way), how, columns, dtype)
    assert {e[7] for e in events if e[3] == Op.LOAD} == {4 * words}


@pytest.mark.parametrize("limit", [37, 32, 0])
@pytest.mark.parametrize("words", [1, 2, 4])
@pytest.mark.parametrize("how", ["asked", "asked hint"])
def test_lanes_whose_predicate_is_off_read_nothing_and_keep_their_words(how, words, limit):
    kernel = lambda way: k.vectors(BF16, words, way, limit, fill=3.0)  # noqa: E731
    is_the_copy(kernel, how, 128 * words, BF16, limit * words * 2, 3.0, (Op.LOAD,))


@pytest.mark.parametrize("limit", [64, 37, 32, 0])
@pytest.mark.parametrize("words", [2, 4])
@pytest.mark.parametrize("dtype", [BF16, FP16, FP32], ids=str)
def test_a_store_is_the_copy_by_the_lanes_whose_predicate_is_on(dtype, words, limit):
    size = words * 32 // dtype.width
    kernel = lambda way: k.stores(dtype, words, way, limit)  # noqa: E731
    is_the_copy(kernel, "asked", 64 * size, dtype, limit * size, ops=(Op.STORE,))


@pytest.mark.parametrize("dtype", [BF16, FP32], ids=str)
def test_lanes_that_an_if_leaves_out_read_nothing(dtype):
    size = 128 // dtype.width
    events = is_the_copy(lambda way: k.vectors(dtype, 4, way, 37), "hint", 64 * size, dtype, 37 * size)
    assert [e[4].bit_count() for e in events if e[3] == Op.LOAD] == [32, 5] * 3


@pytest.mark.parametrize("dtype", [BF16, FP32], ids=str)
@pytest.mark.parametrize("check", [True, False])
def test_slices_of_a_partition_predicated_one_by_one(dtype, check):
    x, out = rows(3, 76 * 64 // dtype.width, dtype)  # of 128 vectors
    run = simulate(k.slices(dtype), x, out, check=check)
    assert run.ok, run
    np.testing.assert_array_equal(bits(out), bits(x))


def test_a_bulk_copy_is_the_one_of_cute_copy():
    events = is_the_copy(lambda how: k.bulk_rows(512, how), "hint", 512, FP32)
    assert sum(e[3] == Op.BULK_COPY for e in events) == 3


def test_a_bulk_copy_that_nobody_waits_for_is_found():
    found = {}
    for how in ("copy", "hint"):
        x, out = rows(1, 512, FP32)
        run = simulate(k.bulk_rows(512, how, wait=False), x, out)
        found[how] = [f.kind for f in (*run.findings, *races(run.trace))]
    assert found["hint"] == found["copy"] and found["hint"]


LOAD_2 = "ld.global.v2.b32 {{$w0}, {$w1}}, [{$r0}];"
HINTED = "ld.global.L2::cache_hint.b32 {$w0}, [{$r0}], {$r1};"
STORED, INTS = k.stored(2), [INT32] * 2
# the text, types, arguments and options of what does not go with the instruction, and of what is not simulated
TEXTS = (
    (STORED, [], "smem nine nine nine"),
    (LOAD_2, [INT32], "x"),
    (LOAD_2, INTS, "x policy"),
    (LOAD_2, INTS, "nine"),
    (HINTED, [INT32], "x nine"),
    (k.BULK, [], "x x nine smem policy"),
    (k.BULK, [], "smem x sixteen smem policy"),
    (k.BULK, [], "smem x nine smem policy"),
    ("mov.u32 {$w0}, %clock;", [INT32], ""),
    ("tex.1d.v4.f32.s32 {$w0}, {$r0};", [FP32], "nine"),
    ("", [], ""),
    (LOAD_2, INTS, "x", ("predicate", True)),
    ("createpolicy.fractional.L2::evict_last.b64 {$w0}, 0.0;", [INT64], ""),
)
REFUSED = [  # for test_reports
    *(
        ("given", k.given(text, tuple(types), tuple(args.split()), options), *rows(1, 64, FP32))
        for text, types, args, *options in TEXTS
    ),
    *(("stores", k.stores(FP32, 4, how, 15), *rows(3, 56, FP32)) for how in ("copy", "asked")),
    *(("stores", k.stores(BF16, 4, how, 32, shift=3), *rows(1, 1024, BF16)) for how in ("copy", "asked")),
    *(("vectors", k.vectors(FP32, 4, how), *rows(3, 56, FP32)) for how in ("copy", "hint")),
    *(("vectors", k.vectors(BF16, 2, how), *rows(3, 56, BF16)) for how in ("copy", "hint")),
    ("vectors", k.vectors(BF16, 4, "hint", limit=32, shift=3), *rows(1, 1024, BF16)),
    *(
        ("bulk_rows", k.bulk_rows(N, how, shift=shift), *rows(2, 512, FP32))
        for how in ("copy", "hint")
        for N, shift in ((510, 0), (500, 1), (512, 4))
    ),
]


@pytest.mark.parametrize("how", ["copy", "asked"])
def test_a_store_up_to_the_end_of_its_row_is_none_past_it(how):
    assert simulate(k.stores(FP32, 4, how, 14), *rows(3, 56, FP32)).ok


@pytest.mark.parametrize("priority", ["last", "first", "normal", "unchanged"])
@pytest.mark.parametrize("fraction", ["", ", 1.0", ",0.5"])
def test_policies(priority, fraction):
    x, out = rows(1, 64, FP32)
    text = f"createpolicy.fractional.L2::evict_{priority}.b64  {{$w0}}{fraction} ;"
    assert simulate(k.given(text, (INT64,)), x, out).ok


def compiled(kernel, dtype):
    ptx, torch = compiler()
    return ptx(kernel, *(torch.zeros(2, 1024, dtype=getattr(torch, dtype)) for _ in range(2)))


def accesses(instruction, text):
    """How many words of 32 bits each load or store in a PTX text moves."""
    found = re.findall(rf"{instruction}[\w.:]*?(?:\.v(\d))?\.[bfu]32\b", text)
    return [int(words or 1) for words in found]


@pytest.mark.parametrize("words", [1, 2, 4])
@pytest.mark.parametrize("dtype, name", [("BFloat16", "bfloat16"), ("Float32", "float32")])
def test_the_compiler_emits_the_loads_that_the_simulator_shows(words, dtype, name):
    cutlass = pytest.importorskip("cutlass", reason="the CuTe DSL is not installed")
    for how in ("hint", "plain", "asked", "asked hint"):
        text = compiled(k.vectors(getattr(cutlass, dtype), words, how, limit=9), name)
        assert accesses(r"ld\.global", text) == [words]
        assert ("L2::cache_hint" in text) == how.endswith("hint")


@pytest.mark.parametrize("words", [2, 4])
@pytest.mark.parametrize("dtype, name", [("BFloat16", "bfloat16"), ("Float32", "float32")])
def test_the_compiler_emits_the_store_that_the_simulator_shows(words, dtype, name):
    cutlass = pytest.importorskip("cutlass", reason="the CuTe DSL is not installed")
    text = compiled(k.stores(getattr(cutlass, dtype), words, "asked", limit=9), name)
    assert accesses(r"st\.global", text) == [words]
    assert f"@p st.global.v{words}.b32" in text


def test_the_compiler_emits_the_slices_and_the_bulk_copy():
    cutlass = pytest.importorskip("cutlass", reason="the CuTe DSL is not installed")
    assert accesses(r"ld\.global", compiled(k.slices(cutlass.Float32), "float32")) == [2] * 4
    text = compiled(k.bulk_rows(512, "hint"), "float32")
    assert len(re.findall(r"cp\.async\.bulk\.shared", text)) == 1
