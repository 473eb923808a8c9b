"""Static and dynamic extents: what the compiler does not know it does not simplify, and the kernel sees a value.

The layouts are what CuTe DSL 4.8.1 prints for the same functions and marks; where it is installed it prints them again.
"""

import numpy as np
import pytest

from cutesim.analysis import bytes_moved
from cutesim.language.loading import answer_package
from cutesim.memory.arguments import HostTensor
from cutesim.simulation import simulate

answer_package("dsl")

from dsl import extents as k


def static(x):
    return x


def all_unknown(x):
    return x.mark_layout_dynamic()


def rows_unknown(x):
    return x.mark_compact_shape_dynamic(mode=0)


def columns_by_four(x):
    return x.mark_compact_shape_dynamic(mode=1, stride_order=(0, 1), divisibility=4)


PRINTED = {
    static: """
        (3,256):(256,1)
        (4,256,1):(1@0,1@1,0)
        ((4,64),(1,4)):((256,1),(0,64))
        (3,256):(256,1)
        (256):(1)
        ((4,1),2,4):((1,0),512,64)
        ((3,256)):((256,1))
        (256):(1)
    """,
    all_unknown: """
        (?,?):(?{i64},1)
        (4,256,?):(1@0,1@1,4@0)
        ((4,64),(?,?)):((?{i64},1),(?{i64 div=4},64))
        (?,?):(?{i64},1)
        (?):(1)
        ((4,1),?,?):((1,0),?{i64 div=2},64)
        ((?,?)):((?{i64},1))
        (?):(1)
    """,
    rows_unknown: """
        (?,256):(256,1)
        (4,256,?):(1@0,1@1,4@0)
        ((4,64),(?,4)):((256,1),(1024,64))
        (?,256):(256,1)
        (256):(1)
        ((4,1),?,4):((1,0),512,64)
        ((?,256)):((256,1))
        (256):(1)
    """,
    columns_by_four: """
        (3,?{div=4}):(?{i64 div=4},1)
        (4,256,1):(1@0,1@1,0)
        ((4,64),(1,?)):((?{i64 div=4},1),(0,64))
        (3,?{div=4}):(?{i64 div=4},1)
        (?{div=4}):(1)
        ((4,1),2,?):((1,0),?{i64 div=8},64)
        ((3,?{div=4})):((?{i64 div=4},1))
        (?{div=4}):(1)
    """,
}
MADE = """
    (?,256):(1,?)
    (?,?):(1,?)
    (256,?):(1,256)
    (?,256):(256,1)
    ((4,?),(64,4)):((1,4),(?,?{div=64}))
    ((4,64),(?,?)):((?,1),(?{div=4},64))
    (1,512,?):(0,1@1,512@1)
    (?,2,?,4):(1,?,?{div=2},?{div=2})
    ((2,?),(4,2)):((1,8),(2,?{div=8}))
    (?,8):(1,?)
    ?:1
"""


@pytest.mark.parametrize("mark", PRINTED)
def test_layouts_of_a_marked_tensor(mark, capsys):
    simulate(k.print_layouts, mark(HostTensor(np.zeros((3, 256), np.float32), assumed_align=16)))
    assert capsys.readouterr().out.split() == PRINTED[mark].split()


def test_layouts_made_of_numbers_known_when_the_kernel_runs(capsys):
    simulate(k.print_made, 3, 5)
    found = capsys.readouterr().out.split("\n")[:-1]
    assert found == [line.strip() for line in MADE.strip().split("\n")]


@pytest.mark.parametrize("mark", PRINTED)
def test_the_compiler_prints_the_same(mark, capfd):
    cute = pytest.importorskip("cutlass.cute", reason="the CuTe DSL is not installed")
    torch = pytest.importorskip("torch")
    from cutlass.cute.runtime import from_dlpack

    cute.compile(k.print_layouts, mark(from_dlpack(torch.zeros(3, 256), assumed_align=16)))
    printed = capfd.readouterr().out
    found = [line for line in printed.split() if line in PRINTED[mark].split()]
    assert found == PRINTED[mark].split(), printed


def test_tensors_passed_directly_and_modes_named_by_the_caller(capsys):
    x = np.zeros((3, 256), np.float32)
    for dynamic, mark in ((True, all_unknown), ({"x": (0,)}, rows_unknown), ((), static)):
        simulate(k.print_layouts, x, dynamic=dynamic)
        assert capsys.readouterr().out.split() == PRINTED[mark].split()


@pytest.mark.parametrize("rows", [1, 3, 4, 9])
def test_a_persistent_kernel_reaches_each_row_once(rows):
    x = np.arange(rows * 32, dtype=np.float32).reshape(rows, 32)
    out = np.zeros_like(x)
    run = simulate(k.persistent, x, out, dynamic=True)
    assert run.ok and (out == x + 1).all(), run


def test_with_static_rows_the_compiler_gives_tile_1_the_rows_of_tile_0():
    x = np.arange(96, dtype=np.float32).reshape(3, 32)
    moved = bytes_moved(simulate(k.persistent, x, np.zeros_like(x)).trace).total["written"]
    assert moved == 2 * x.nbytes  # both blocks write rows 0 to 2: the stride of an extent of 1 is 0
    moved = bytes_moved(simulate(k.persistent, x, np.zeros_like(x), dynamic=True).trace).total["written"]
    assert moved == x.nbytes


def test_an_extent_is_a_value_of_its_own_type():
    from cutesim.layouts.layout import Extent
    from cutesim.memory.tensor import shown

    for bits, name in ((32, "int32"), (64, "int64")):
        value = shown(Extent(5, 1, bits))
        assert value.a.dtype == name and str(value.dtype).lower() == name


def test_registers_need_static_extents():
    (finding,) = simulate(k.fragment, np.zeros((3, 256), np.float32), dynamic=True).findings
    assert "registers need a shape known while tracing, and this one is (?,)" in finding.message
    assert simulate(k.fragment, np.zeros((3, 256), np.float32), dynamic={"x": (0,)}).ok


def test_a_host_function_asks_for_extents():
    x = np.ones((5, 32), np.float32)
    out = np.zeros_like(x)
    run = simulate(k.rows_decide, x, out, dynamic=True)
    assert run.trace.launches[0].grid == (3, 1, 1) and (out == 2).all()
    assert not len(simulate(k.rows_decide, x[:2].copy(), out, dynamic=True).trace)


def test_a_vector_is_as_wide_as_the_compiler_knows_it_may_be():
    from cutesim.memory.arguments import AddressSpace, global_tensor
    from cutesim.memory.tensor import access_width

    def width(x, row=1):
        return access_width(global_tensor(x, "x", AddressSpace())[row, None])

    x = np.zeros((3, 256), np.float32)
    # from_dlpack promises the type's own alignment alone
    assert width(x) == 4 and width(HostTensor(x)) == 1
    assert width(HostTensor(x, 16)) == 4
    assert width(HostTensor(x, 16).mark_layout_dynamic()) == 1
    assert width(columns_by_four(HostTensor(x, 16))) == 4


def test_marks_that_cannot_be():
    x = HostTensor(np.zeros((3, 256), np.float32))
    with pytest.raises(ValueError, match="not a multiple of divisibility=4"):
        x.mark_compact_shape_dynamic(mode=0, divisibility=4)
    with pytest.raises(ValueError, match="leading_dim=0 has the stride 256"):
        x.mark_layout_dynamic(leading_dim=0)
