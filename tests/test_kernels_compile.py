"""Every kernel through the real compiler for sm_90a, without a GPU, and what its PTX says: widths, counts, no spills."""

import importlib
import multiprocessing
import os
import re
import sys
import types
from collections import Counter
from functools import partial

import pytest
from running import python

pytest.importorskip("cutlass", reason="CuTe DSL is not installed")

import cutlass

from bench import ours
from quack_tutorial import compiler, kernel_cache
from quack_tutorial.compiler import TensorSpec, ptx, ptx_hash
from quack_tutorial.kernels.config import MAX_N, Config
from quack_tutorial.kernels.copy import LADDER as COPIES
from quack_tutorial.kernels.reduce import ClusterReduce
from quack_tutorial.kernels.softmax import LADDER as SOFTMAXES
from quack_tutorial.kernels.softmax import SoftmaxOnline, SoftmaxThread, SoftmaxThreePass, SoftmaxWarp
from quack_tutorial.kernels.tuned.norm_backward import LayerNormBackward, RMSNormBackward
from quack_tutorial.kernels.tuned.softmax import Softmax
from quack_tutorial.machine_code import assembled
from quack_tutorial.records import listings
from quack_tutorial.shipped import (
    KERNELS,
    QUANTIZED,
    RMSNORM_QUANTIZED,
    RMSNORM_QUANTIZED_BLOCKS,
    Rows,
    column_sum,
    type_of,
)

DTYPES = {"float32": cutlass.Float32, "bfloat16": cutlass.BFloat16, "float16": cutlass.Float16}
# Where float16 would only repeat what bfloat16 shows: the accesses follow the bits.
WIDTHS = ("float32", "bfloat16")


def row_specs(dtype, N, rows="aligned"):
    align = 16 if rows == "aligned" else DTYPES[dtype].width // 8
    return TensorSpec(dtype, ("M", N), ("x_stride", 1), align), TensorSpec(dtype, ("M", N), ("out_stride", 1), align)


def count(pattern, text):
    return len(re.findall(pattern, text))


def assert_stays_in_registers(text):
    assert ".local" not in text
    used = assembled(text, listed=False)
    if used is not None:  # where ptxas is installed
        assert (used.spill_store_bytes, used.spill_load_bytes) == (0, 0)


def shipped(operation, dtype, N, config=None, rows="aligned"):
    """The first kernel of an operation as it ships, and its PTX."""
    (kernel, specs), *_ = ours.kernels(operation, "ours", Rows(dtype, N, rows), config)
    return kernel, ptx(kernel, *specs)


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("N", (64, 256, 1024, 3000, 4096, 8192, 65536, MAX_N))
def test_softmax_of_aligned_rows_moves_each_element_once_in_128_bit_accesses(N, dtype):
    kernel = Softmax(DTYPES[dtype], N)
    text = ptx(kernel, *row_specs(dtype, N))
    bulk = kernel.shared.stages > 0
    if bulk:  # then the row comes through shared memory, and is read from there twice, 16 elements at a time, in loops
        vectors = 16 // kernel.tile.vector_size
        # In the loop, and in the last piece behind it.
        first = vectors * (2 if kernel.shared.pieces.whole_pieces else 1)
        loads, stores = (0, first + vectors), vectors
        assert count(r"cp\.async\.bulk\.shared", text) == 1
    else:
        loads, stores = (kernel.tile.vectors, 0), kernel.tile.vectors
    assert (count(r"ld\.global", text), count(r"ld\.shared\.v4\.b32", text)) == loads
    assert count(r"ld\.global", text) == count(r"ld\.global\S*\.v4\.b32", text)
    assert count(r"st\.global", text) == count(r"st\.global\.v4\.b32", text) == stores
    # One butterfly for the maximum and one for the sum: within warps, between the warps of a block, between blocks.
    threads, exchange = kernel.config.threads_per_row, kernel.exchange
    blocks = kernel.config.blocks_per_row
    warps = exchange.warps if exchange.in_block else 1
    senders = blocks * exchange.senders if blocks > 1 else 1
    rounds = sum((slots - 1).bit_length() for slots in (min(threads, 32), warps, senders))
    assert count(r"shfl\.sync\.bfly", text) == 2 * rounds
    # The maximum and the sum lie side by side, and travel together: to shared memory, or to the cluster's blocks.
    assert count(r"\tbar\.sync|\tbarrier\.sync", text) == (warps > 1) + bulk
    assert count(r"st\.shared\.v2", text) == (warps > 1)
    assert count(r"st\.async\S*v2", text) == count(r"barrier\.cluster\.wait", text) == (blocks > 1)
    assert_stays_in_registers(text)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("N", (1, 3, 257, 1001, 12289, 50257, MAX_N - 1))
@pytest.mark.parametrize("rows", ("aligned", "congruent", "any"))
def test_softmax_of_odd_rows_adds_single_accesses_at_the_ends(N, dtype, rows):
    tile = Softmax(DTYPES[dtype], N, rows).tile
    text = ptx(Softmax(DTYPES[dtype], N, rows), *row_specs(dtype, N, rows))
    wide = tile.vectors if tile.vector_size > 1 else 0
    single = tile.singles if tile.vector_size > 1 else tile.vectors
    assert count(r"ld\.global\S*\.v4", text) == count(r"st\.global\.v4", text) == wide
    assert count(r"ld\.global", text) == count(r"st\.global", text) == wide + single
    assert_stays_in_registers(text)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "kernel, reads", ((SoftmaxThread(), 3), (SoftmaxWarp(), 3), (SoftmaxThreePass(), 3), (SoftmaxOnline(), 2))
)
def test_the_simple_versions_read_x_once_a_pass_one_element_at_a_time(kernel, reads, dtype):
    text = ptx(kernel, *row_specs(dtype, 1001, "any"))
    assert count(r"ld\.global\.v\d", text) == 0
    # Each pass is a loop: unrolled or not, its loads are in a block of code of its own.
    blocks = [block for block in re.split(r"^\$L\w+:", text, flags=re.M) if "ld.global" in block]
    assert len(blocks) >= reads
    assert_stays_in_registers(text)


COPY_ACCESSES = {  # loads of one element, loads of 16 bytes, cp.async of 16 bytes; for N of whole vectors, and for any other
    "thread": lambda elements: ((elements, 0, 0), (elements, 0, 0)),
    "coalesced": lambda elements: ((elements, 0, 0), (elements, 0, 0)),
    "vectors": lambda elements: ((0, 4, 0), (elements, 0, 0)),
    "any row": lambda elements: ((0, 4, 0), (2, 4, 0)),
    "async": lambda elements: ((0, 0, 4), (2, 0, 4)),
    "hint": lambda elements: ((0, 4, 0), (elements, 0, 0)),
}


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("version", COPIES)
def test_a_lane_of_each_copy_moves_64_bytes_as_wide_as_its_version_says(version, dtype):
    bits = DTYPES[dtype].width
    for N, (single, wide, copied) in zip((4096, 1001), COPY_ACCESSES[version](64 * 8 // bits), strict=True):
        spec = TensorSpec(dtype, ("M", N), ("stride", 1), 16 if N == 4096 else bits // 8)
        text = ptx(COPIES[version](DTYPES[dtype], N), spec, spec)
        assert count(r"ld\.global(\.L2::cache_hint)?\.b\d+", text) == single
        assert count(r"ld\.global(\.L2::cache_hint)?\.v4\.b32", text) == wide
        assert count(r"st\.global\.v4\.b32", text) == wide + copied
        assert count(r"st\.global", text) == single + wide + copied
        assert count(r"cp\.async\.c[ag]\.shared\.global \[[^\]]*\], \[[^\]]*\], 16", text) == copied
        found = count(r"cp\.async\.commit_group", text)
        assert found == count(r"cp\.async\.wait_(group|all)", text) == copied
        assert_stays_in_registers(text)


@pytest.mark.parametrize("blocks", (2, 4, 16))
def test_a_cluster_reduce_sends_one_word_a_block_and_waits_at_an_mbarrier(blocks):
    spec = TensorSpec("float32", ("M", 1001), (1001, 1), 4)
    spec = spec, TensorSpec("float32", ("M", blocks), (blocks, 1), 4)
    text = ptx(ClusterReduce(blocks=blocks), *spec)
    assert count(r"\bmapa", text) == 2  # of the slot and of the mbarrier
    assert count(r"st\.async\S*\.b32", text) == count(r"mbarrier\.try_wait", text) == 1
    assert count(r"mbarrier\.arrive\.expect_tx", text) == 1
    found = count(r"fence\.mbarrier_init", text)
    assert found == count(r"barrier\.cluster\.arrive\.relaxed", text) == 1
    assert count(r"barrier\.cluster\.wait", text) == 1
    assert_stays_in_registers(text)


def test_a_vector_is_the_widest_that_divides_a_row():
    sizes = {N: COPIES["vectors"](cutlass.BFloat16, N).vector_size for N in (4096, 1004, 1002, 1001)}
    assert sizes == {4096: 8, 1004: 4, 1002: 2, 1001: 1}


def test_row_addresses_are_64_bit_even_when_every_size_is_fixed():
    spec = TensorSpec("float32", (2**20, 4096), (4096, 1))
    text = ptx(Softmax(cutlass.Float32, 4096), spec, spec)
    assert count(r"mul\.wide\.u32|mad\.wide\.u32|mul\.lo\.s64|shl\.b64", text) > 0
    # 4096 elements of 4 bytes: the block's row times 16384 must not be computed in 32 bits.
    assert count(r"(mul\.lo\.s32|shl\.b32)\s+%r\d+, %r\d+, (16384|14);", text) == 0


def test_a_launch_has_the_cluster_of_its_configuration():
    assert Config(128, 128).cluster is None
    assert Config(128, 128, 4).cluster == [1, 4, 1]
    assert Config(128, 128, blocks_together=1).cluster == [1, 1, 1]
    assert Config(128, 128, blocks_together=2).cluster == [2, 1, 1]
    with pytest.raises(ValueError, match="rows of its own, so blocks_together must be 0 or 1"):
        RMSNormBackward(cutlass.Float32, 512, config=Config(128, 128, blocks_together=2))
    said = "copied to it must have one, so blocks_together must be 0 or 1"
    with pytest.raises(ValueError, match=said):
        Softmax(cutlass.Float32, 4096, config=Config(128, 128, 1, 1, blocks_together=2))


@pytest.mark.parametrize("kernel", (RMSNormBackward, LayerNormBackward))
def test_a_gradient_of_rows_that_start_anywhere_has_no_single_stage(kernel):
    """Neither their single elements, which no bulk copy brings, nor their weights would be where the kernel looks for them."""
    dtype = cutlass.Float32
    with pytest.raises(ValueError, match="so stages must not be 1"):
        kernel(dtype, 129, "congruent", weight_dtype=dtype, config=Config(32, 32, stages=1))
    kernel(dtype, 129, "congruent", weight_dtype=dtype, config=Config(32, 32, stages=2))
    kernel(dtype, 128, "aligned", weight_dtype=dtype, config=Config(32, 32, stages=1))
    # What ships is never refused.
    for N in (*range(1, 40), *(4097 * k + 1 for k in range(MAX_N // 4097))):
        kernel(dtype, N, "congruent", weight_dtype=dtype)


def test_sizes_and_promises_softmax_does_not_know_are_refused():
    for N in (0, MAX_N + 1):
        with pytest.raises(ValueError, match=f"N must be 1 to {MAX_N}, got {N}"):
            Softmax(cutlass.Float32, N)
    with pytest.raises(ValueError, match="got 'odd'"):
        Softmax(cutlass.Float32, 8, "odd")


def test_hash_is_the_same_for_the_same_kernel_and_blind_to_comments_names_and_lines():
    text = ptx(Softmax(cutlass.Float32, 1024), *row_specs("float32", 1024))
    again = ptx(Softmax(cutlass.Float32, 1024), *row_specs("float32", 1024))
    assert ptx_hash(text) == ptx_hash(again)
    entry = re.search(r"\.entry\s+([\w$]+)", text).group(1)
    noisy = text.replace(entry, "another_name").replace("ret;", "\t.loc 1 2 3\n /* here */ ret; // end")
    noisy += "\n.section .debug_str { .b8 1 }\n"
    assert noisy != text and ptx_hash(noisy) == ptx_hash(text)
    assert ptx_hash(text.replace("max.f32", "min.f32", 1)) != ptx_hash(text)
    found = ptx_hash(ptx(Softmax(cutlass.Float32, 1028), *row_specs("float32", 1028)))
    assert found != ptx_hash(text)


TOGETHER = """
import threading
from quack_tutorial import compiler, kernel_cache
from quack_tutorial.kernels.softmax import SoftmaxOnline
spec, gate, found = compiler.TensorSpec("float32", ("M", 64), ("s", 1)), threading.Barrier(4), []
def work():
    gate.wait()
    found.append(compiler._compile(SoftmaxOnline(), (spec, spec), compiler.HOPPER_ARCH))
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 4 and ".entry" in compiler.ptx(SoftmaxOnline(), spec, spec)
"""


def test_threads_may_compile_their_first_kernels_together_and_leave_no_file_behind(tmp_path):
    # In a folder of its own: other tests compile at the same time, and their files are there for a moment.
    done = python("-c", TOGETHER, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())


def hash_of_softmax(_):
    return ptx_hash(ptx(SoftmaxOnline(), *row_specs("float32", 64)))


def test_processes_that_compile_the_same_kernel_do_not_read_each_others_half():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert len(set(pool.map(hash_of_softmax, range(6), chunksize=1))) == 1


def test_a_folder_for_the_dsl_s_files_is_used_and_left_empty_and_changes_no_kernel_s_name(tmp_path):
    code = "from tests.test_kernels_compile import *; print(hash_of_softmax(0), compiler._environment())"
    environment = {**os.environ, compiler.DUMP_FOLDER: str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = python("-c", code, env=environment)
    found = done.stdout.split()
    assert found == f"{hash_of_softmax(0)} {compiler._environment()}".split(), done.stderr
    assert not list(tmp_path.glob("*.ptx")) and list(tmp_path.glob("*.lock"))


def test_a_folder_for_the_dsl_s_files_that_comes_too_late_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(compiler.DUMP_FOLDER, str(tmp_path))
    with pytest.raises(RuntimeError, match="CUTE_DSL_DUMP_DIR was set after CuTe DSL was imported"):
        hash_of_softmax(0)


@pytest.mark.parametrize("N", (3000, 3001, 50257))
def test_weights_of_16_bits_come_in_vectors_wherever_rows_begin(N):
    """Loads of single elements are those at a row's ends, in x and in the weight, and those of the weight's last vector."""
    kernel, specs = KERNELS["rmsnorm"].made_for(Rows("bfloat16", N, "congruent"), w="bfloat16")
    text = ptx(kernel, *specs)
    tile = kernel.tile
    last = (tile.vectors - tile.certain_next) * (N % 8)
    assert count(r"ld\.global\.b16", text) == 2 * tile.singles + last
    assert count(r"ld\.global\S*\.v4", text) == 3 * tile.vectors


def test_arguments_are_counted():
    x, out = row_specs("float32", 64)
    with pytest.raises(TypeError, match="Softmax: argument 'mO' is missing"):
        ptx(Softmax(cutlass.Float32, 64), x)
    with pytest.raises(TypeError, match="takes 2 arguments, got 3"):
        ptx(Softmax(cutlass.Float32, 64), x, out, out)


def test_another_version_of_the_dsl_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(cutlass, "__version__", "4.1.0")
    said = r"CuTe DSL 4.1.0 is installed .* pip install nvidia-cutlass-dsl==4.8.1"
    with pytest.raises(RuntimeError, match=said):
        ptx(SoftmaxOnline(), *row_specs("float32", 64))


def test_a_gpu_older_than_ampere_is_named(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA T4")
    with pytest.raises(RuntimeError, match=r"8.0 or newer; this is a NVIDIA T4 \(7.5\)"):
        compiler.compile_for(SoftmaxOnline(), *row_specs("float32", 64))


def fake_tensor(device):
    return types.SimpleNamespace(
        shape=(1,), dtype="float32", data_ptr=lambda: 0, is_cuda=device != "cpu", device=device
    )


def test_tensors_on_two_devices_are_refused():
    said = r"launch\(SoftmaxOnline\): all tensors .* one device, got cpu, cuda:0"
    with pytest.raises(ValueError, match=said):
        compiler.launch(SoftmaxOnline(), fake_tensor("cuda:0"), fake_tensor("cpu"))


def test_a_changed_helper_constant_or_attribute_is_compiled_anew():
    scale = {"SCALE": 2.0, "cutlass": cutlass}
    exec("def helper(x): return x * SCALE\ndef host(x): return helper(x)", scale)
    first = compiler._fingerprint(scale["host"])
    assert compiler._fingerprint(scale["host"]) == first and hash(first) is not None
    scale["SCALE"] = 3.0
    second = compiler._fingerprint(scale["host"])
    assert second != first
    exec("def helper(x): return x + SCALE", scale)
    assert compiler._fingerprint(scale["host"]) != second
    of = {compiler._fingerprint(Softmax(*args)) for args in ((cutlass.BFloat16, 64), (cutlass.Float32, 64, "any"))}
    assert len(of | {compiler._fingerprint(Softmax(cutlass.Float32, 64))}) == 3


def with_all(name, dtype, N, rows, **given):
    """(kernel, its specs) of one that ships with every tensor that it can be given, but for what is `given` otherwise."""
    kernel = (KERNELS | QUANTIZED)[name]
    types = {one: type_of(kind, dtype) for one, kind in kernel.parameters.items()}
    numbers = {"eps", "ignore_index", "target"}
    given = {one: kind for one, kind in types.items() if one not in numbers} | {"w": "float32"} | given
    return kernel.made_for(Rows(dtype, N, rows), **given)


NS = ((1, "any"), (256, "aligned"), (512, "aligned"))
NS += ((1001, "congruent"), (3000, "aligned"), (131072, "aligned"))
LOSS = dict(target="int32", scale=None)
LOSS_OF_MEAN = dict(target="int64", lse=TensorSpec("float32", (2, "M"), ("lse", 1), 4), dloss="bfloat16")
WITH_ALL = [(name, dtype, *size, {}) for name in KERNELS for size in NS for dtype in WIDTHS]
WITH_ALL += [(RMSNORM_QUANTIZED.name, "bfloat16", *size, {}) for size in NS]
WITH_ALL += [(RMSNORM_QUANTIZED_BLOCKS.name, dtype, 131072, "aligned", {}) for dtype in WIDTHS]
# A residual's gradient and a bias's take registers; cross-entropy's callers give other tensors for a mean.
WITH_ALL += [("rmsnorm backward", "bfloat16", N, "aligned", {}) for N in (384, 8192, 16384)]
WITH_ALL += [("cross-entropy backward", "bfloat16", *size, given) for given in (LOSS, LOSS_OF_MEAN) for size in NS]


@pytest.mark.parametrize("name, dtype, N, rows, given", WITH_ALL)
def test_row_kernels_compile_with_all_their_tensors_and_stay_in_registers(name, dtype, N, rows, given):
    weight = dtype if name == "layernorm backward" else "float32"
    kernel, specs = with_all(name, dtype, N, rows, w=weight, **given)
    text = ptx(kernel, *specs)
    assert_stays_in_registers(text)
    # A division is a call, and in a loop what is in registers around it may be spilled: of a mean there is none.
    assert "div.rn" not in text or name not in KERNELS or "norm" not in name


@pytest.mark.parametrize("N", (3001, 12289, 50257))
def test_rmsnorm_backward_of_rows_that_start_anywhere_stays_in_registers(N):
    """With a weight and its gradient. With a bias and the gradient of h as well, four vectors of a thread spill: 416 such threads
    took 501 us on an H100 where 224 that do not spill took 634 (bfloat16, 1,328 x 50,257).
    """
    for dtype in WIDTHS:
        kernel, specs = with_all("rmsnorm backward", dtype, N, "congruent", dh=None, db=None)
        text = ptx(kernel, *specs)
        assert_stays_in_registers(text)
        if kernel.config.stages > 1:
            kernel, specs = with_all("rmsnorm backward", dtype, N, "congruent")
            used = assembled(ptx(kernel, *specs), listed=False)
            assert used is None or used.spill_store_bytes <= (384 if kernel.config.threads_per_row == 416 else 128)
        copied = "cp.async.bulk.shared" in text
        assert copied == (kernel.config.stages > 1)


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("N", (1024, 4096, 131072))
def test_layernorm_reads_a_row_once_and_writes_it_once(N, dtype):
    kernel, text = shipped("layernorm", dtype, N)
    tile = kernel.tile
    of_row = tile.vectors * tile.rows_each
    assert count(r"st\.global", text) == count(r"st\.global\.v4\.b32", text) == of_row
    # the weight and the bias, and the row
    loads = 2 * tile.vectors + (0 if kernel.pipeline.stages else of_row)
    assert count(r"ld\.global", text) == count(r"ld\.global\S*\.v4", text) == loads
    assert count(r"cp\.async\.bulk\.shared", text) == kernel.pipeline.stages


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("kernel", QUANTIZED.values(), ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("N", (512, 4096, 131072))
def test_rmsnorm_in_float8_reads_a_row_once_and_writes_its_codes_as_wide_as_its_vectors(N, kernel, dtype):
    host, specs = kernel.made_for(Rows(dtype, N, "aligned"), w=dtype)
    text, tile = ptx(host, *specs), host.tile
    # The row, and the weight.
    assert count(r"ld\.global", text) == count(r"ld\.global\S*\.v4", text) == 2 * tile.vectors
    scales = tile.vectors if kernel is RMSNORM_QUANTIZED_BLOCKS else 1
    assert count(r"st\.global", text) == tile.vectors + scales and "st.global.b8" not in text
    assert count(r"cvt\.rn\.satfinite\.e4m3x2\.f32", text) == tile.elements_held // 2
    assert_stays_in_registers(text)


@pytest.mark.parametrize("dtype", DTYPES)
def test_column_sums_compile(dtype):
    kernel, specs = column_sum(1000, dtype)
    assert_stays_in_registers(ptx(kernel, *specs))


def test_a_column_sum_is_launched_early_and_waits_before_it_reads():
    kernel, specs = with_all("rmsnorm backward", "float32", 256, "aligned")
    text = ptx(kernel, *specs)
    assert text.index("griddepcontrol.launch_dependents") < text.index("ld.global")
    kernel, specs = column_sum(256, "float32")
    text = ptx(kernel, *specs)
    assert text.index("griddepcontrol.wait") < text.index("ld.global")


@pytest.mark.parametrize(
    "name, kernels, version", [("copy-vectors", COPIES, "vectors"), ("softmax-registers", SOFTMAXES, "registers")]
)
def test_the_recorded_listing_is_what_is_compiled(name, kernels, version):
    listing = listings.load(name)
    spec = TensorSpec(listing.dtype, ("M", listing.N), ("stride", 1))
    text = ptx(kernels[version](DTYPES[listing.dtype], listing.N), spec, spec)
    found = ptx_hash("\n".join(listing.ptx))
    assert found == ptx_hash(text), "the kernel changed: run scripts/record_listing.py again"
    wide = sum(".E.128" in line for line in listing.sass)
    wanted = {"copy-vectors": 8, "softmax-registers": 2}[name]
    assert wide == count(r"(ld|st)\.global\.v4", text) == wanted


# Rows for which the rule gives the sizes of the last rung.
SAME_SIZES = (
    ("softmax", "any address", "bfloat16", 3000),
    ("rmsnorm", "any address", "float32", 131072),
    ("rmsnorm", "any address", "bfloat16", 32768),
    ("rmsnorm", "weights once", "bfloat16", 131072),
    ("rmsnorm backward", "bulk", "bfloat16", 1024),
    ("rmsnorm backward", "cluster", "float32", 131072),
    ("cross-entropy", "any address", "bfloat16", 8192),
)


@pytest.mark.parametrize("operation, version, dtype, N", SAME_SIZES)
def test_what_ships_is_the_last_rung_with_the_sizes_of_the_rule(operation, version, dtype, N):
    of_rung = ours.ptx(operation, version, dtype, N)[0]
    of_shipped = ours.ptx(operation, "what ships", dtype, N)[0]
    assert ptx_hash(of_rung) == ptx_hash(of_shipped)


# Loads, stores, shuffles, barriers and arithmetic on float32: all but the integers that make addresses.
TAUGHT = r"^\s+(?:@!?%p\d+ )?((?:ld|st)\.(?:global|shared|async)|shfl|bar|mbarrier|cp|(?:max|add|mul|fma|ex2|rsqrt)\.[\w.]*f32)"


@pytest.mark.parametrize(
    "operation, plain, dtype, N",
    (
        ("softmax", "hint", "float32", 1024),
        ("softmax", "hint", "float32", 8192),
        ("rmsnorm", "hint", "float32", 8192),
        ("rmsnorm", "hint", "bfloat16", 1024),
        ("rmsnorm", "read twice", "float32", 131072),
        ("rmsnorm", "read twice", "bfloat16", 131072),
    ),
)
def test_any_address_costs_whole_vectors_nothing_but_addresses(operation, plain, dtype, N):
    counts = []
    for version in (plain, "any address"):
        found = re.findall(TAUGHT + r"([\w.:]*)", ours.ptx(operation, version, dtype, N)[0], re.M)
        counts.append(Counter("".join(parts) for parts in found))
    assert counts[0] == counts[1]


@pytest.fixture
def in_chapter(root, tmp_path, monkeypatch):
    """The module made of what a chapter's cell defines, from its first line to one that begins with `end`."""

    def found(chapter, within, end="#"):
        cells = re.findall(
            r"```{code-cell} ipython3\n(.*?)```", (root / "notebooks" / chapter).read_text("utf-8"), re.S
        )
        (source,) = (cell for cell in cells if within in cell)
        imports = (
            "from dataclasses import dataclass\n\nimport cutlass\nimport cutlass.cute as cute\n"
            "from quack_tutorial.kernels.layout import tile_at\n\n\n"
        )
        (tmp_path / "of_a_chapter.py").write_text(imports + source.partition(f"\n{end}")[0], "utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "of_a_chapter", raising=False)
        return importlib.import_module("of_a_chapter")

    return found


def test_chapter_14_s_bulk_store_is_one_instruction_behind_a_fence(in_chapter):
    spec = TensorSpec("float32", ("M", 1024), (1024, 1), 16)
    text = ptx(in_chapter("16-where-next.md", "class StoreInBulk:", "long_rows").StoreInBulk(), spec, spec)
    assert count(r"cp\.async\.bulk\.global\.shared", text) == count(r"fence\.proxy\.async", text) == 1
    assert count(r"st\.global", text) == 0


def test_a_copy_to_shared_memory_passes_l1_only_if_it_is_asked_to(monkeypatch):
    """Chapter 3: the cache operator is `.ca` unless `cache_mode` says GLOBAL."""
    monkeypatch.delenv(kernel_cache.VARIABLE, raising=False)
    spec, cpasync = TensorSpec("float32", ("M", 4096), ("stride", 1)), cutlass.cute.nvgpu.cpasync
    for modes, operator in (({}, "ca"), ({"cache_mode": cpasync.LoadCacheMode.GLOBAL}, "cg")):
        monkeypatch.setattr(cpasync, "CopyG2SOp", partial(cpasync.CopyG2SOp, **modes))
        text = ptx(COPIES["async"](cutlass.Float32, 4096), spec, spec)
        found = count(rf"cp\.async\.{operator}\.shared", text)
        assert found == count(r"cp\.async\.c[ag]\.", text) == 4


@pytest.mark.parametrize("how, local", [("by_index", 20), ("by_steps", 0)])
def test_the_listings_of_chapter_11_s_turned_rows_are_what_is_compiled(in_chapter, how, local):
    chapter = in_chapter("11-profiler.md", "class Turn:", "x = ")
    listing = listings.load(f"turn-{how.replace('_', '-')}")
    spec = TensorSpec(listing.dtype, ("M", listing.N), ("stride", 1))
    found = ptx_hash("\n".join(listing.ptx))
    assert found == ptx_hash(ptx(chapter.Turn(getattr(chapter, how)), spec, spec))
    assert sum("STL" in line or "LDL" in line for line in listing.sass) == local


def test_chapter_14_s_kernel_that_reads_twice_is_the_one_that_reads_once(in_chapter):
    RowSum = in_chapter("16-where-next.md", "class RowSum:").RowSum
    specs = TensorSpec("float32", (4, 256), (256, 1), 16), TensorSpec("float32", (4, 32), (32, 1), 16)
    once, twice, apart = (
        ptx(RowSum(at, 5, 1, True, reads), *specs) for at, reads in ((True, 1), (True, 2), (False, 1))
    )
    assert ptx_hash(once) == ptx_hash(twice) != ptx_hash(apart)
