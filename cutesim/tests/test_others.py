"""Other people's kernels: what they use beyond this book's, and all that is missing said at once."""

import math
import sys

import numpy as np
import pytest
from dsl import others as k
from real_compiler import compiler
from running import MODES, gives

from cutesim import NotSimulated
from cutesim.analysis import bank_conflicts
from cutesim.memory.arguments import HostTensor
from cutesim.memory.pointers import Pointer
from cutesim.memory.swizzle import Swizzle, by_address
from cutesim.simulation import simulate
from cutesim.values.numeric import Float32


def test_blocks_exchange_through_mapa_and_st_async_in_inline_assembly():
    x = np.random.default_rng(0).standard_normal((2, 32)).astype(np.float32)
    gives(k.swap, x, wanted=np.exp2(x[::-1]), rtol=1e-6)


def test_a_vector_load_under_a_predicate_and_registers_of_one_asm():
    x = np.arange(32, dtype=np.float32)
    gives(k.four, x, wanted=np.clip(np.where(x < 20, x, 0), 3, 17.5))
    short = simulate(k.four, x[:16].copy(), x)
    assert short.findings[0].kind == "out of bounds"  # thread 4 reads four words at x[16]


def test_structs_partials_pointers_and_a_stream_by_keyword():
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    for named in ({}, {"stream": None}):
        run = simulate(k.in_reverse, x, out, **named)
        assert run.ok and (out == 2 * x[::-1]).all() and run.printed == ("64 elements\n",)
    assert run.smem_bytes == 384


def test_sizes_of_structs_and_a_print_in_every_pass(capsys):
    simulate(k.print_sizes)
    assert capsys.readouterr().out == "384 24 Int64\npass 0\npass 1\n"


def test_shapes(capsys):
    x, t = np.arange(32, dtype=np.float32).reshape(4, 8), np.arange(8)
    wanted = [x[2 + t // 4, 4 + t % 4], t % 2, t // 2, np.full(8, 4)]
    gives(k.shapes, x, wanted=np.stack(wanted, axis=1), modes=[{}])
    assert capsys.readouterr().out == "(1, (1, 1)) (1, 2, 3) True\n"


def test_the_compiler_takes_and_prints_the_same(capfd):
    cute = pytest.importorskip("cutlass.cute", reason="the CuTe DSL is not installed")
    torch = pytest.importorskip("torch")
    from cutlass.cute.runtime import from_dlpack

    x, square = (from_dlpack(torch.zeros(shape), assumed_align=16) for shape in ((64,), (8, 8)))
    cute.compile(k.print_sizes)
    cute.compile(k.shapes, square, square)
    assert capfd.readouterr().out == "384 24 Int64\npass 0\npass 1\n(1, (1, 1)) (1, 2, 3) True\n"
    driver = pytest.importorskip("cuda.bindings.driver", reason="CUDA's Python bindings are not installed")
    cute.compile(k.in_reverse, x, x, stream=driver.CUstream(0))
    cute.compile(k.swap, square, square)
    numbers = [from_dlpack(torch.zeros(shape, dtype=torch.int32)) for shape in ((1,), (2,), (32, 2))]
    cute.compile(k.locked, *numbers)
    cute.compile(k.four, x, x)


def test_the_kernels_of_an_installed_library_are_simulated(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages" / "somebodys_kernels"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(
        "from cutesim.dialect import names\n"
        "cutlass, cute = names.CUTLASS, names.CUTE\n"
        "@cute.kernel\n"
        "def add_kernel(x: cute.Tensor):\n"
        "    tidx, _, _ = cute.arch.thread_idx()\n"
        "    x[tidx] = x[tidx] + 1.0\n"
        "@cute.jit\n"
        "def add(x: cute.Tensor):\n"
        "    add_kernel(x).launch(grid=[1, 1, 1], block=[32, 1, 1])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    import somebodys_kernels

    x = np.zeros(32, np.float32)
    assert simulate(somebodys_kernels.add, x).ok and (x == 1).all()
    monkeypatch.delitem(sys.modules, "somebodys_kernels")


def test_a_name_of_an_older_release_still_means_what_it_did():
    from cutesim.dialect.names import CUTE

    assert CUTE.make_fragment is CUTE.make_rmem_tensor
    assert "not simulated" not in repr(CUTE.make_fragment)


def test_a_lock_of_atomics_that_acquire_and_release():
    for schedule in ("forward", "reverse"):
        lock, total, out = np.zeros(1, np.int32), np.zeros(2, np.int32), np.zeros((32, 2), np.int32)
        run = simulate(k.locked, lock, total, out, schedule=schedule)
        assert run.ok and lock[0] == 0 and total.tolist() == [3, 0], run
        assert (out[:12, 0] == 0xFFF).all()
        assert out[:9, 1].tolist() == [32, 31, 30, 30, 29, 29, 29, 29, 28]


def test_a_marked_tensor_is_an_argument_of_such_kernels():
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    assert simulate(k.in_reverse, HostTensor(x).mark_layout_dynamic(), out).ok and out[0] == 126


@pytest.mark.parametrize("how, parameters, conflicts", [("elements", (5, 0, 5), 0), ("vectors", (3, 2, 3), 96)])
def test_a_swizzled_tile_is_transposed(how, parameters, conflicts):
    x = np.arange(1024, dtype=np.float32).reshape(32, 32)
    banks = bank_conflicts(gives(k.transpose(how, parameters), x, wanted=x.T).trace)
    assert sum(banks.column("excess")) == conflicts


def test_a_vector_wider_than_a_swizzle_keeps_together_is_refused_or_narrowed():
    x = np.arange(1024, dtype=np.float32).reshape(32, 32)
    gives(k.transpose("vectors", (5, 0, 5)), x, wanted=x.T)


def test_a_swizzle_of_addresses_that_cuts_elements_is_refused_with_what_to_do():
    plain = Pointer(None, Float32, 0)
    said = r"S<5,0,5> of Float32: .* keeps 1 byte together.* a base of 2 or more"
    with pytest.raises(NotSimulated, match=said):
        by_address(plain, Swizzle(5, 0, 5))


def test_composed_layouts_are_the_compiler_s(capsys):
    simulate(k.composed_numbers)
    ours = capsys.readouterr().out
    assert ours.startswith("S<3,2,3> o 0 o (8,16):(16,1) [0, 19, ")
    cute = pytest.importorskip("cutlass.cute", reason="the CuTe DSL is not installed")
    cute.compile(k.composed_numbers)
    assert capsys.readouterr().out == ours


def test_the_compiler_stores_swizzled_vectors_whole():
    ptx, torch = compiler()
    tensors = [torch.zeros(32, 32) for _ in range(2)]
    wide = ptx(k.transpose("vectors", (3, 2, 3)), *tensors)
    narrow = ptx(k.transpose("vectors", (5, 0, 5)), *tensors)
    assert wide.count("st.shared.v4") == 8 and "st.shared.v" not in narrow
    assert ".entry" in ptx(k.transpose(), *tensors)


def test_what_public_kernels_use_besides(capsys):
    x, lane = np.arange(32, dtype=np.float32), np.arange(32)
    wanted = [3 * (lane < 8) + 3 * (lane & 1), np.full(32, 12), x.view(np.int32)]
    wanted += [np.exp2(lane), np.full(32, 31)]
    wanted.append(lane - np.where(lane < 16, x[:16].sum(), x[16:].sum()))
    gives(k.odds, x, wanted=np.array(wanted, np.float32))
    assert "Float32" in capsys.readouterr().out


def test_blocks_meet_by_atomics_of_inline_assembly():
    wanted = np.arange(64, dtype=np.float32).reshape(2, 32)[::-1]
    x = np.zeros((2, 32), np.float32)
    gives(k.meet, np.zeros(1, np.int32), x, wanted=wanted, dtype=np.float32)


def test_64_bits_go_to_another_block():
    gives(k.pairs, wanted=np.repeat([[(1 << 40) + 1], [1 << 40]], 32, axis=1), dtype=np.int64)


def test_the_compiler_takes_what_public_kernels_use_besides():
    cute = pytest.importorskip("cutlass.cute", reason="the CuTe DSL is not installed")
    torch = pytest.importorskip("torch")
    from cutlass.cute.runtime import from_dlpack, make_ptr

    x, out, wide = torch.zeros(2, 32), torch.zeros(6, 32), torch.zeros(2, 32, dtype=torch.int64)
    cute.compile(k.odds, make_ptr(k.Float32, x.data_ptr(), cute.AddressSpace.gmem), from_dlpack(out))
    cute.compile(k.meet, *map(from_dlpack, (torch.zeros(1, dtype=torch.int32), x, x)))
    cute.compile(k.pairs, from_dlpack(wide))
    cute.compile(k.listed, from_dlpack(torch.zeros(64)), from_dlpack(torch.zeros(3, 64)))


def test_a_pipeline_by_hand():
    x = np.arange(32, dtype=np.float32)
    gives(k.by_hand, x, wanted=x[::-1])


@pytest.mark.parametrize("kind", ["async", "cp.async", "bulk"])
@pytest.mark.parametrize("handles", [False, True])
def test_pipelines_of_two_stages(kind, handles):
    x = np.arange(128, dtype=np.float32).reshape(4, 32).T
    for options in ({}, {"schedule": "reverse"}, {"schedule": "seeded"}, {"check": False}):
        out = np.zeros((4, 32), np.float32).T
        run = simulate(k.stages(kind, handles), x, out, **options)
        assert run.ok and (out == x).all(), run


@pytest.mark.parametrize("handles", [False, True])
@pytest.mark.parametrize("kind", ["async", "cp.async"])
def test_a_release_of_all_lanes_waits_for_each(kind, handles):
    """PipelineTmaAsync's is an arrival of lane 0 with no sync_warp before it, in the compiler's PTX too: test_reports has it."""
    x = np.zeros((4, 32), np.float32).T
    assert simulate(k.stages(kind, handles, meets=False), x, x.copy()).ok


def test_fences_on_the_right_sides_of_a_flag():
    x = np.zeros(64, np.float32)
    assert simulate(k.flagged(("before the flag", "after seeing it")), x, np.zeros(1, np.int32), x.copy()).ok


def test_a_wait_in_the_peer_after_the_cluster_barrier():
    x = np.zeros(32, np.float32)
    assert simulate(k.reads_the_peer(early=True), x, x.copy()).ok


@pytest.mark.parametrize("kind", ["async", "cp.async", "bulk"])
def test_the_compiler_takes_the_pipelines(kind):
    ptx, torch = compiler()
    assert ".entry" in ptx(k.by_hand, torch.zeros(32), torch.zeros(32))
    for handles in (False, True):
        text = ptx(k.stages(kind, handles), torch.zeros(4, 32).T, torch.zeros(4, 32).T)
        assert text.count("mbarrier.init") == 4
        assert ("cp.async.mbarrier.arrive.noinc" in text) == (kind == "cp.async")
        assert ("mbarrier.arrive.expect_tx" in text) == (kind == "bulk")
        alone = ptx(k.stages(kind, handles, meets=False), torch.zeros(4, 32).T, torch.zeros(4, 32).T)
        assert "bar.warp.sync" in text and "bar.warp.sync" not in alone


def test_barriers_in_a_comprehension_and_rare_functions():
    x = np.arange(64, dtype=np.float32)
    first = x[::-1] + 2
    unit = first.astype(np.float64) * 0.01
    second = np.array([math.erf(u) for u in unit]) + np.tan(unit) - np.arctan2(first, first + 10)
    for options in MODES:
        out = np.zeros((3, 64), np.float32)
        run = simulate(k.listed, x, out, **options)
        assert run.ok, run
        np.testing.assert_array_equal(out[0], first + x[::-1] + 12)
        np.testing.assert_allclose(out[1], second, rtol=1e-4)
        wanted = np.arcsin(unit) + np.arccos(unit) * np.arctan(unit)
        np.testing.assert_allclose(out[2], wanted, rtol=1e-5)
