"""What the kernels of published packages were found to use, in small."""

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest
from dsl import field
from dsl import published as k
from running import gives, python

from cutesim import NotSimulated, command
from cutesim.simulation import simulate

LANE = np.arange(32)


README = Path(command.__file__).with_name("README.md").read_text(encoding="utf-8")
FOUND = re.findall(r"^\| \[.+\| ([^|]+) \| `(\w+)` \| ([a-z ]+) \| (0\.\d+) \|$", README, re.MULTILINE)


@pytest.mark.parametrize("wrong, case, kind, seconds", FOUND)
def test_a_bug_of_the_field_is_found_as_the_readme_says(wrong, case, kind, seconds, capsys):
    for _ in range(2):  # the first loads torch, where it is installed
        start = time.process_time()
        words = [f"{field.__file__}:{case}", "x=f32:128", "out=f32:128", "--format", "json"]
        assert command.main(["check", *words]) == 1
        (run,) = json.loads(capsys.readouterr().out)["runs"]
        assert {finding["kind"] for finding in run["findings"]} == {kind}
    assert max(time.process_time() - start, float(seconds)) < 1


def test_the_readme_has_every_bug_of_the_field():
    assert [(case.wrong, case.name) for case in field.CASES] == [(wrong, name) for wrong, name, *_ in FOUND]


@pytest.mark.parametrize("case", field.CASES, ids=lambda case: case.name)
def test_the_field_s_kernels_are_right_without_their_bugs(case):
    x, out = case.arrays()
    assert simulate(case.host, x, out, False).ok
    np.testing.assert_allclose(out, case.right(x), rtol=1e-4)


def test_a_helper_tries_and_imports_and_a_kernel_imports():
    gives(k.importing, wanted=LANE * 2 * 4, dtype=np.int32)


def test_coordinates_and_tiles_are_the_compiler_s(capsys):
    simulate(k.coordinates)
    ours = capsys.readouterr().out
    # of (2, 4):(4, 1), along the rows
    assert "[(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2)]" in ours
    cute = pytest.importorskip("cutlass.cute")
    cute.compile(k.coordinates)
    assert capsys.readouterr().out == ours


def test_coordinates_of_an_extent_that_is_known_when_the_kernel_runs():
    offsets = LANE % 16
    wanted = (offsets % 4 + offsets // 8 % 2 * 4) * 10 + offsets // 4 % 2
    gives(k.at_run_time, wanted=wanted, dtype=np.int32, columns=8)


def test_shared_memory_as_two_structs_and_a_swizzled_layout_over_a_tensor_s_place():
    torch = pytest.importorskip("torch")

    x = torch.arange(512).reshape(16, 32).bfloat16()
    out = torch.full((17, 32), float("nan"), dtype=torch.bfloat16)
    assert simulate(k.two_views, x, out).ok
    # (32, 16):(16, 1) of the column-major numbering of (16, 32)
    assert torch.equal(out[:16], x)
    assert torch.equal(out[16], torch.arange(31, -1, -1).bfloat16())


def test_a_cluster_multicasts_through_a_pipeline_whose_stages_must_be_given_back():
    x = np.random.default_rng(0).standard_normal((6, 32)).astype(np.float32).T
    out = np.zeros((2, 6, 32), np.float32)
    for check in (True, False):
        assert simulate(k.multicast, x, out, True, check=check).ok and (out == x.T).all()
        out[:] = 0
    assert simulate(k.multicast, x, out, False).findings[0].kind == "deadlock"


def test_a_swizzled_layout_counts_from_where_each_thread_s_tensor_begins():
    gives(k.swizzled_rows, wanted=LANE ^ (LANE >> 2 & 3), dtype=np.int32)


@pytest.mark.parametrize("check", [True, False])
def test_a_pointer_is_indexed_and_converts_what_is_stored(check):
    torch = pytest.importorskip("torch")
    x, out = torch.randn(32), torch.full((96,), float("nan"))
    assert simulate(k.indexed_pointers, x, out, check=check).ok
    assert torch.equal(out[:32], x.bfloat16().float())
    assert torch.equal(out[32:64], torch.arange(32).float())
    assert torch.allclose(out[64:].flip(0), x + 0.5)  # the larger and the smaller of two


def test_a_view_s_pointer_is_cast_where_lanes_are_on():
    x = np.random.default_rng(0).standard_normal(16).astype(np.float32)
    gives(k.cast_pointers, x, wanted=x)


FLOATS = (
    np.array([-1.5, 2.5, -0.0, 0.25, np.nan, 1e3, -2.5, 7.0] * 4, np.float32),
    np.roll(np.array([0.5, -0.0, np.nan, 3.0, -1.5, 9.0, 0.0, 1.0] * 4, np.float32), 1),
)
# of each word the low one first
HALVES = tuple(np.stack([x, x[::-1]], 1).astype(np.float16) for x in FLOATS)
WHOLE = {"rni": np.rint, "rmi": np.floor, "rpi": np.ceil, "rzi": np.trunc}


def word(text, a, b):
    """What one instruction gives of two words."""
    x = np.stack([np.ascontiguousarray(side).view(np.int32).reshape(32) for side in (a, b)])
    out = np.zeros(32, np.int32)
    assert simulate(k.one_instruction(text), x, out).ok
    return out


@pytest.mark.parametrize("way", WHOLE)
def test_a_conversion_of_ptx_rounds_as_it_says(way):
    wanted = WHOLE[way](np.nan_to_num(FLOATS[0])).astype(np.int32)
    np.testing.assert_array_equal(word(f"cvt.{way}.s32.f32 $0, $1;", *FLOATS), wanted)


@pytest.mark.parametrize("name", ["max", "min", "add", "mul"])
def test_an_instruction_works_on_the_two_numbers_of_a_register(name):
    function = {"max": np.fmax, "min": np.fmin, "add": np.add, "mul": np.multiply}[name]
    found = word(f"{name}.f16x2 $0, $1, $2;", *HALVES).view(np.float16).reshape(32, 2)
    np.testing.assert_array_equal(found, function(*HALVES))
    if name in ("max", "min"):
        with_nan = word(f"{name}.NaN.f16x2 $0, $1, $2;", *HALVES).view(np.float16).reshape(32, 2)
        wanted = (np.maximum if name == "max" else np.minimum)(*HALVES)
        np.testing.assert_array_equal(with_nan, wanted)


@pytest.mark.parametrize(
    "text",
    [
        "mul.sat.f32 $0, $1, $2;",
        "mul.rz.f32 $0, $1, $2;",
        "max.xorsign.abs.f32 $0, $1, $2;",
        "add.sat.s32 $0, $1, $2;",
        "fma.rn.sat.f32 $0, $1, $2, $2;",
        "cvt.s32.f32 $0, $1;",
        "cvt.rni.sat.s32.f32 $0, $1;",
    ],
)
def test_a_word_of_an_instruction_that_is_not_read_is_refused(text):
    opcode = text.split()[0]
    with pytest.raises(NotSimulated, match=f"inline_asm of {opcode.replace('.', '[.]')}"):
        word(text, *FLOATS)


ADDS = """
import cutlass
import cutlass.cute as cute
import cutlass.cute.tensor as tensors
from cutlass.cutlass_dsl import dsl_user_op

own_get, own_set = tensors._Tensor.__getitem__, tensors._Tensor.__setitem__


def spelt(idx, rank):
    marks = tuple(None if isinstance(i, slice) else i for i in (idx if isinstance(idx, tuple) else (idx,)))
    if Ellipsis not in marks:
        return marks
    at = marks.index(Ellipsis)
    return marks[:at] + (None,) * (rank - len(marks) + 1) + marks[at + 1 :]


@dsl_user_op
def get(self, idx, *, loc=None, ip=None):
    return own_get(self, spelt(idx, tensors.rank(self.shape)), loc=loc, ip=ip)


@dsl_user_op
def put(self, idx, value, *, loc=None, ip=None):
    return own_set(self, spelt(idx, tensors.rank(self.shape)), value, loc=loc, ip=ip)


def to(self, dtype, *, loc=None, ip=None):
    made = cute.make_rmem_tensor_like(self, dtype, loc=loc, ip=ip)
    made.store(self.load(loc=loc, ip=ip).to(dtype, loc=loc, ip=ip), loc=loc, ip=ip)
    return made


if WITH:
    tensors._Tensor.__getitem__, tensors._Tensor.__setitem__, tensors._Tensor.to = get, put, to
    tensors.TensorSSA.__getitem__ = get


@cute.kernel
def kernel(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    r = cute.make_rmem_tensor((4, 2), cutlass.Float32)
    r[..., 0] = x[tidx, ...].load()
    r[:, 1] = x[tidx, :].load() + 0.5
    whole = r.to(cutlass.Int32).load().to(cutlass.Float32)
    place = cute.make_identity_tensor((4, 4))[1, ...]
    out[tidx, None] = r.load()[..., 1] + whole[None, 0] + place[2][1] * 100.0


@cute.jit
def host(x: cute.Tensor, out: cute.Tensor):
    kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])
"""
RUNS = """
import sys
import numpy as np
from cutesim.simulation import simulate
from cutesim.language import loading

loading.answer_folder(sys.argv[1], always=True)
sys.path.insert(0, sys.argv[1])
import adds

x, out = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32) * 9, np.zeros((32, 4), np.float32)
assert simulate(adds.host, x, out).ok
np.testing.assert_array_equal(out, x + 0.5 + np.trunc(x) + 200)
"""


def test_methods_that_a_package_gives_the_dsl_s_tensors_run_and_none_are_made_up(tmp_path):
    for has in (True, False):
        (tmp_path / "adds.py").write_text(ADDS.replace("WITH", str(has)))
        done = python("-c", RUNS, str(tmp_path), check=False)
        assert (done.returncode == 0) == has, done.stderr
        said = "not simulated: ... in a coordinate, which is not CuTe DSL's own, (adds.py:"
        assert has or said in done.stderr


@pytest.mark.parametrize("stepping", [16, 32])
def test_a_pipeline_s_state_changes_for_those_threads_that_change_it(stepping):
    threads = np.arange(64)
    # a leap and a step, where one leap passes the end of the ring at most once
    after = threads % 8 + 1
    turned = (threads // 4 + (after % 4 == 0)) % 2
    wanted = [threads < stepping, threads + 1, (threads + 1) % 4, turned]
    gives(k.states, wanted=wanted, dtype=np.int32, stepping=stepping)


def test_the_place_of_a_swizzled_tensor_with_a_plain_layout_is_refused():
    torch = pytest.importorskip("torch")
    said = "the iterator of a tensor whose layout has a swizzle, with a layout without one"
    with pytest.raises(NotSimulated, match=said):
        simulate(k.unswizzled, torch.zeros(32, dtype=torch.bfloat16))
