"""PTX by its text: the same result and the same trace as cute.copy, the same checks, and nothing that is not modelled."""

import re

import numpy as np
import pytest
from dsl import inline_ptx as k
from real_compiler import compiler

from cutesim import Array, NotSimulated, SimulationError
from cutesim.analysis import bytes_moved, races, sectors_per_request
from cutesim.dialect.names import CUTLASS
from cutesim.simulation import simulate
from cutesim.trace import Op

BF16, FP16, FP32, INT64, INT32 = (getattr(CUTLASS, n) for n in ("BFloat16", "Float16", "Float32", "Int64", "Int32"))
FACTS = ("launch", "block", "warp", "op", "mask", "space", "tensor", "bytes", "arg", "arg2")


def rows(M, N, dtype):
    """(x, zeros) and the bits of x: any bit pattern, NaNs with payloads among them."""
    bits = np.random.default_rng(N).integers(0, 1 << dtype.width, (M, N)).astype(f"u{dtype.width // 8}")
    if dtype is BF16:
        values = (bits.astype(np.uint32) << 16).view(np.float32)
        values[np.isnan(values)] = 1.0  # made from numbers, which have no payloads
        return Array.bf16(values), Array.bf16(np.zeros((M, N), np.float32))
    return bits.view(f"f{dtype.width // 8}"), np.zeros((M, N), f"f{dtype.width // 8}")


def bits(array):
    numbers = np.ascontiguousarray(array.numpy() if isinstance(array, Array) else array)
    return numbers.view(f"u{numbers.itemsize}")


def facts(trace, *ops):
    """What the trace says of each event, without source lines."""
    events = trace.select(*ops)
    return [
        (*(int(e[f]) for f in FACTS), trace.addresses[e["addresses"]].tolist(), trace.addresses[e["sources"]].tolist())
        for e in events
    ]


@pytest.mark.parametrize("words", [1, 2, 4])
@pytest.mark.parametrize("dtype", [BF16, FP16, FP32], ids=str)
@pytest.mark.parametrize("how", ["hint", "plain", "asked", "asked hint"])
def test_a_load_is_the_copy_of_its_width(how, dtype, words):
    N = 64 * words * 32 // dtype.width
    found = {}
    for way in ("copy", how):
        x, out = rows(3, N, dtype)
        run = simulate(k.Vectors(dtype, words, way), x, out)
        assert run.ok, run
        np.testing.assert_array_equal(bits(out), bits(x))
        found[way] = facts(run.trace), sectors_per_request(run.trace).total, bytes_moved(run.trace).total
        (load,) = {e[7] for e in found[way][0] if e[3] == Op.LOAD}
        assert load == 4 * words
    assert found[how] == found["copy"]
    x, out = rows(3, N, dtype)
    simulate(k.Vectors(dtype, words, how), x, out, check=False)
    np.testing.assert_array_equal(bits(out), bits(x))


@pytest.mark.parametrize("limit", [37, 32, 0])
@pytest.mark.parametrize("words", [1, 2, 4])
@pytest.mark.parametrize("how", ["asked", "asked hint"])
def test_lanes_whose_predicate_is_off_read_nothing_and_keep_their_words(how, words, limit):
    size, traces = words * 32 // BF16.width, {}
    for way in ("copy", how):
        for check in (True, False):
            x, out = rows(2, 64 * size, BF16)
            run = simulate(k.Vectors(BF16, words, way, limit, fill=3.0), x, out, check=check)
            assert run.ok, run
            np.testing.assert_array_equal(bits(out)[:, : limit * size], bits(x)[:, : limit * size])
            assert (bits(out)[:, limit * size :] == np.float32(3.0).view(np.uint32)).all()
            if check:
                traces[way] = facts(run.trace, Op.LOAD)
    assert traces[how] == traces["copy"]


@pytest.mark.parametrize("limit", [64, 37, 32, 0])
@pytest.mark.parametrize("words", [2, 4])
@pytest.mark.parametrize("dtype", [BF16, FP16, FP32], ids=str)
def test_a_store_is_the_copy_by_the_lanes_whose_predicate_is_on(dtype, words, limit):
    size, traces = words * 32 // dtype.width, {}
    for how in ("copy", "asked"):
        for check in (True, False):
            x, out = rows(3, 64 * size, dtype)
            run = simulate(k.Stores(dtype, words, how, limit), x, out, check=check)
            assert run.ok, run
            np.testing.assert_array_equal(bits(out)[:, : limit * size], bits(x)[:, : limit * size])
            assert not bits(out)[:, limit * size :].any()
            if check:
                traces[how] = facts(run.trace, Op.STORE), bytes_moved(run.trace).total
    assert traces["asked"] == traces["copy"]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("how", ["copy", "asked"])
def test_a_store_is_checked(how, check):
    x, out = rows(3, 56, FP32)
    said = "Out of bounds: thread 14 of block 0 writes 16 bytes at out[0, 56]; out is (3, 56)"
    assert said in message(k.Stores(FP32, 4, how, 15), x, out, check)
    assert simulate(k.Stores(FP32, 4, how, 14), x, out, check=check).ok
    x, out = rows(1, 1024, BF16)
    said = "Misaligned: thread 0 of block 0 writes 16 bytes of out at an address that is 6 past a multiple of 16"
    assert said in message(k.Stores(BF16, 4, how, 32, shift=3), x, out, check)


@pytest.mark.parametrize("dtype", [BF16, FP32], ids=str)
def test_lanes_that_an_if_leaves_out_read_nothing(dtype):
    limit, size = 37, 128 // dtype.width
    traces = {}
    for how in ("copy", "hint"):
        for check in (True, False):
            x, out = rows(2, 64 * size, dtype)
            run = simulate(k.Vectors(dtype, 4, how, limit), x, out, check=check)
            assert run.ok, run
            np.testing.assert_array_equal(bits(out)[:, : limit * size], bits(x)[:, : limit * size])
            assert not bits(out)[:, limit * size :].any()
            if check:
                traces[how] = facts(run.trace, Op.LOAD)
    assert traces["hint"] == traces["copy"]
    assert [e[4].bit_count() for e in traces["hint"]] == [32, 5] * 2


@pytest.mark.parametrize("dtype", [BF16, FP32], ids=str)
@pytest.mark.parametrize("check", [True, False])
def test_slices_of_a_partition_predicated_one_by_one(dtype, check):
    x, out = rows(3, 76 * 64 // dtype.width, dtype)  # of 128 vectors
    run = simulate(k.Slices(dtype), x, out, check=check)
    assert run.ok, run
    np.testing.assert_array_equal(bits(out), bits(x))


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("how", ["copy", "hint"])
@pytest.mark.parametrize(
    ("dtype", "words", "columns", "where"),
    [
        (FP32, 4, 56, "thread 14 of block 0 reads 16 bytes at x[0, 56]; x is (3, 56)"),
        (BF16, 2, 56, "thread 14 of block 0 reads 8 bytes at x[0, 56]; x is (3, 56)"),
    ],
)
def test_out_of_bounds_is_named_by_its_coordinate(dtype, words, columns, where, how, check):
    x, out = rows(3, columns, dtype)
    assert where in message(k.Vectors(dtype, words, how), x, out, check)


@pytest.mark.parametrize("check", [True, False])
def test_an_address_that_is_no_multiple_of_the_width_is_misaligned(check):
    x, out = rows(1, 1024, BF16)
    found = message(k.Vectors(BF16, 4, "hint", limit=32, shift=3), x, out, check)
    assert "Misaligned: thread 0 of block 0 reads 16 bytes of x at an address that is 6 past a multiple of 16" in found


def message(kernel, x, out, check=True):
    if check:
        (finding,) = simulate(kernel, x, out).findings
        return finding.message
    with pytest.raises(SimulationError) as raised:
        simulate(kernel, x, out, check=False)
    return str(raised.value)


def test_a_bulk_copy_is_the_one_of_cute_copy():
    found = {}
    for how in ("copy", "hint"):
        for check in (False, True):
            x, out = rows(3, 512, FP32)
            run = simulate(k.BulkRows(512, how), x, out, check=check)
            assert run.ok, run
            np.testing.assert_array_equal(bits(out), bits(x))
        assert not races(run.trace)
        found[how] = facts(run.trace), bytes_moved(run.trace).total
    assert found["hint"] == found["copy"]
    assert sum(e[3] == Op.BULK_COPY for e in found["hint"][0]) == 3


def test_a_bulk_copy_that_nobody_waits_for_is_found():
    found = {}
    for how in ("copy", "hint"):
        x, out = rows(1, 512, FP32)
        run = simulate(k.BulkRows(512, how, wait=False), x, out)
        found[how] = [f.kind for f in (*run.findings, *races(run.trace))]
    assert found["hint"] == found["copy"] and found["hint"]


@pytest.mark.parametrize("how", ["copy", "hint"])
@pytest.mark.parametrize(
    ("N", "shift", "said"),
    [
        (510, 0, "a bulk copy moves a multiple of 16 bytes, got 2040"),
        (500, 1, "Misaligned: thread 0 of block 0 reads 16 bytes of x"),
        (512, 4, "Out of bounds: thread 0 of block 0 reads 16 bytes at x[0, 512]; x is (2, 512)"),
    ],
)
def test_a_bulk_copy_is_checked(N, shift, said, how):
    x, out = rows(2, 512, FP32)
    assert said in message(k.BulkRows(N, how, shift=shift), x, out)


LOAD_2 = "ld.global.v2.b32 {{$w0}, {$w1}}, [{$r0}];"
HINTED = "ld.global.L2::cache_hint.b32 {$w0}, [{$r0}], {$r1};"
# what is not simulated: the text, types, arguments, options, and what the one sentence says
ASKED = k.asked(2, hint=False)
STORED = k.stored(2)
REFUSED = (
    (STORED.replace("$r3", "$r2"), [], ["x", "nine", "nine", "nine"], {}, "; known is, without write_only_types, {"),
    (STORED, [], ["x", "nine", "nine"], {}, "; known is, without write_only_types, {"),
    (STORED, [INT32], ["x", "nine", "nine", "nine"], {}, "; known is, without write_only_types, {"),
    (ASKED.replace("$r3", "$r2"), [INT32] * 2, ["x", "nine", "nine", "nine"], {}, "; known is { .reg .pred p;"),
    (ASKED, [INT32] * 2, ["x", "nine", "nine"], {}, "; known is { .reg .pred p;"),
    ("mov.u32 {$w0}, %clock;", [INT32], [], {}, "inline_asm with the operand %clock"),
    ("tex.1d.v4.f32.s32 {$w0}, {$r0};", [FP32], ["nine"], {}, "inline_asm of tex.1d.v4.f32.s32"),
    ("", [], [], {}, "inline_ptx of nothing"),
    (LOAD_2, [INT32] * 2, ["x"], {"predicate": True}, "inline_ptx of ld.global.v2.b32 with predicate"),
    (LOAD_2, [INT32] * 2, ["x"], {"read_write_args": [1]}, "inline_ptx of ld.global.v2.b32 with read_write_args"),
    (LOAD_2.replace("$w1", "$w0"), [INT32] * 2, ["x"], {}, "with the operands {{$w0},{$w0}},[{$r0}];; known is"),
    (LOAD_2.replace("r0}", "r0}+8"), [INT32] * 2, ["x"], {}, "with the operands {{$w0},{$w1}},[{$r0}+8];"),
    (LOAD_2.replace(";", ""), [INT32] * 2, ["x"], {}, "with the operands {{$w0},{$w1}},[{$r0}]; known is"),
    (LOAD_2 + LOAD_2, [INT32] * 2, ["x"], {}, "with the operands"),
    ("createpolicy.fractional.L2::evict_last.b64 {$w0}, 0.0;", [INT64], [], {}, "with the operands {$w0},0.0;"),
)
WRONG = (
    (
        STORED,
        [],
        ["x", "nine", "nine", "sixteen"],
        "the predicate and the words of an access that is asked must be Int32",
    ),
    (
        STORED,
        [],
        ["smem", "nine", "nine", "nine"],
        "st.global.v2.b32: the address must be a pointer to global memory, got",
    ),
    (LOAD_2, [INT32], ["x"], "ld.global.v2.b32 needs write_only_types=[Int32, Int32], got [Int32]"),
    (LOAD_2, [FP32] * 2, ["x"], "ld.global.v2.b32 needs write_only_types=[Int32, Int32], got [Float32, Float32]"),
    (LOAD_2, [INT32] * 2, ["x", "policy"], "ld.global.v2.b32 needs 1 read_only_args, got 2"),
    (LOAD_2, [INT32] * 2, ["smem"], "the address must be a pointer to global memory, got one to shared memory"),
    (LOAD_2, [INT32] * 2, ["nine"], "the address must be a pointer to global memory, got Value"),
    (HINTED, [INT32], ["x", "nine"], "the cache policy of ld.global.L2::cache_hint.b32 must be what createpolicy gave"),
    (
        ASKED,
        [INT32] * 2,
        ["x", "sixteen", "nine", "nine"],
        "the predicate and the words of an access that is asked must be",
    ),
    (
        ASKED,
        [INT32] * 2,
        ["smem", "nine", "nine", "nine"],
        "the address must be a pointer to global memory, got one to",
    ),
    (k.POLICY, [INT32], [], "needs write_only_types=[Int64], got [Int32]"),
    (k.BULK, [], ["x", "x", "nine", "smem", "policy"], "the target must be a pointer to shared memory"),
    (k.BULK, [], ["smem", "x", "sixteen", "smem", "policy"], "the number of bytes must be Int32, got Int64"),
    (k.BULK, [], ["smem", "x", "nine", "smem", "policy"], "a bulk copy moves a multiple of 16 bytes, got 9"),
)


@pytest.mark.parametrize(("text", "types", "args", "options", "said"), REFUSED)
def test_what_is_not_modelled_is_refused_in_one_sentence(text, types, args, options, said):
    x, out = rows(1, 64, FP32)
    with pytest.raises(NotSimulated) as raised:
        simulate(k.Given(text, types, args, **options), x, out)
    found = str(raised.value)
    assert said in found and found.startswith("not simulated: ") and "inline_ptx.py:" in found and "\n" not in found


@pytest.mark.parametrize(("text", "types", "args", "said"), WRONG)
def test_what_does_not_go_with_the_instruction_is_an_error(text, types, args, said):
    x, out = rows(1, 64, FP32)
    found = message(k.Given(text, types, args), x, out)
    assert said in found and "inline_ptx.py:" in found and "\n" not in found


@pytest.mark.parametrize("priority", ["last", "first", "normal", "unchanged"])
@pytest.mark.parametrize("fraction", ["", ", 1.0", ",0.5"])
def test_policies(priority, fraction):
    x, out = rows(1, 64, FP32)
    text = f"createpolicy.fractional.L2::evict_{priority}.b64  {{$w0}}{fraction} ;"
    assert simulate(k.Given(text, [INT64]), x, out).ok


def compiled(kernel, dtype):
    ptx, torch = compiler()
    return ptx(kernel, *(torch.zeros(2, 1024, dtype=getattr(torch, dtype)) for _ in range(2)))


def accesses(instruction, text):
    """How many words of 32 bits each load or store in a PTX text moves."""
    found = re.findall(rf"{instruction}[\w.:]*?(?:\.v(\d))?\.[bfu]32\b", text)
    return [int(words or 1) for words in found]


@pytest.mark.parametrize("words", [1, 2, 4])
@pytest.mark.parametrize(("dtype", "name"), [("BFloat16", "bfloat16"), ("Float32", "float32")])
def test_the_compiler_emits_the_loads_that_the_simulator_shows(words, dtype, name):
    cutlass = pytest.importorskip("cutlass", reason="the CuTe DSL is not installed; it exists for Linux alone")
    for how in ("hint", "plain", "asked", "asked hint"):
        text = compiled(k.Vectors(getattr(cutlass, dtype), words, how, limit=9), name)
        assert accesses(r"ld\.global", text) == [words]
        assert ("L2::cache_hint" in text) == how.endswith("hint")


@pytest.mark.parametrize("words", [2, 4])
@pytest.mark.parametrize(("dtype", "name"), [("BFloat16", "bfloat16"), ("Float32", "float32")])
def test_the_compiler_emits_the_store_that_the_simulator_shows(words, dtype, name):
    cutlass = pytest.importorskip("cutlass", reason="the CuTe DSL is not installed; it exists for Linux alone")
    text = compiled(k.Stores(getattr(cutlass, dtype), words, "asked", limit=9), name)
    assert accesses(r"st\.global", text) == [words]
    assert f"@p st.global.v{words}.b32" in text


def test_the_compiler_emits_the_slices_and_the_bulk_copy():
    cutlass = pytest.importorskip("cutlass", reason="the CuTe DSL is not installed; it exists for Linux alone")
    assert accesses(r"ld\.global", compiled(k.Slices(cutlass.Float32), "float32")) == [2] * 4
    assert len(re.findall(r"cp\.async\.bulk\.shared", compiled(k.BulkRows(512, "hint"), "float32"))) == 1
