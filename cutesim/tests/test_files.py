"""`cutesim check FILE.py`: a stranger's kernel from the command line."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from running import python

from cutesim import Array
from cutesim.command import main
from cutesim.files import Unusable, argument, run_file
from cutesim.simulation import LOOKED_FOR

SCALE = """
import sys

import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass.cute import runtime


@cute.kernel
def scale_kernel(x: cute.Tensor, out: cute.Tensor, factor: cutlass.Float32, n: cutlass.Constexpr[int]):
    i = cute.arch.block_idx()[0] * 64 + cute.arch.thread_idx()[0]
    if i < n:
        out[i] = x[i] * factor


@cute.jit
def scale(x: cute.Tensor, out: cute.Tensor, factor: cutlass.Float32, n: cutlass.Constexpr[int]):
    scale_kernel(x, out, factor, n).launch(grid=[(n + 63) // 64, 1, 1], block=[64, 1, 1])


class Scale:
    def __init__(self, n):
        self.n = n

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        scale_kernel(x, out, 2.0, self.n).launch(grid=[(self.n + 63) // 64, 1, 1], block=[64, 1, 1])


def on_the_host(x, out, n):
    x, out = runtime.from_dlpack(x), runtime.from_dlpack(out)
    run = cute.compile(scale, x, out, 3.0, n)
    run(x, out, 3.0)


if __name__ == "__main__":
    n, _ = int(sys.argv[1]), cutlass.cuda.initialize_cuda_context()
    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    on_the_host(x, out, n)
    assert (out == 3 * x).all(), "wrong"
    Scale(n)(x, out)
    assert (out == 2 * x).all(), "wrong again"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scaling.py"
    path.write_text(SCALE)
    return path


def test_a_script_runs_with_its_own_host_code(file):
    outcome = run_file(str(file), ["100"])
    assert [run.ok for run in outcome.runs] == [True, True] and outcome.ended == ""


def test_what_is_found_in_a_script_does_not_end_it(file):
    outcome = run_file(str(file), ["101"])
    # of the first; then the script's assert
    assert [run.findings[0].kind for run in outcome.runs] == ["out of bounds"]
    assert outcome.ended == "scaling.py:41: AssertionError: wrong"


@pytest.mark.parametrize(
    "words",
    [
        ["scale", "x=f32:100:arange", "out=f32:100:nan", "factor=3.0", "n=100"],
        # Those without a name go to the parameters that have none.
        ["scale", "f32:100", "out=f32:100:nan", "3.0", "100"],
        ["Scale(100)", "f32:100", "f32:100:0"],
        ["on_the_host", "f32:100", "f32:100:0", "100"],
    ],
)
def test_one_function_of_a_file_on_given_tensors(file, words):
    outcome = run_file(f"{file}:{words[0]}", words[1:])
    (run,) = outcome.runs
    assert run.ok and outcome.tensors[0] == "x: 0 of 100 elements changed"
    assert outcome.tensors[1].startswith(("out: 100 of 100", "out: 99 of 100"))  # 0 stays 0


def test_what_stays_nan_of_a_tensor_given_as_nan_is_said_in_the_first_line(file):
    words = ["x=f32:100", "out=f32:100:nan", "3.0", "60"]
    said = str(run_file(f"{file}:scale", words))
    assert said.endswith("; 40 of 100 elements of out are still nan, as given (exit status 0)")
    whole = (words[0], "out=f32:100:nan", "3.0", "100"), (words[0], "out=f32:100:0", "3.0", "60")
    assert not any("nan" in str(run_file(f"{file}:scale", given)) for given in whole)


def test_a_function_launched_early_may_follow_any_kernel_and_a_script_s_first_launch_none(tmp_path):
    path = tmp_path / "early.py"
    path.write_text(
        SCALE.replace("(n + 63) // 64, 1, 1], block=[64, 1, 1])", "2, 1, 1], block=[64, 1, 1], use_pdl=True)", 1)
    )
    said = str(run_file(f"{path}:scale", ["f32:100", "f32:100", "3.0", "100"]))
    assert said.startswith("finding: early access, early.py:14")
    assert run_file(str(path), ["100"]).verdict == "clean"


UNUSABLE = """
scale f32:100
scale y=3
scale factor=3 factor=4
scale f33:100
scale i32:8:nan
Scale
scale f32:8x0
scale f32:99999x99999
scale 1 2 3 4 5
scale(
scales
scale x=f32:100:arange out=f32:100:nan factor=3.0 n=100 --against reference.py:two
scale x=f32:100:arange out=f32:100:nan factor=3.0 n=100 --against reference.py:of_another_name
scale x=f32:100:arange out=f32:100:nan factor=3.0 n=100 --against reference.py:nothing
scale x=f32:100:arange out=f32:100:nan factor=3.0 n=100 --against reference.py
"""


def test_words_that_make_no_sense_and_references_that_do_not_fit_are_told_so(file, snapshot):
    (file.parent / "reference.py").write_text(REFERENCE)

    def told(line):
        call, _, against = line.partition(" --against ")
        expression, *words = call.split()
        with pytest.raises(Unusable) as raised:
            run_file(f"{file}:{expression}", words, against=against and f"{file.parent}/{against}" or None)
        return f"{line}: {raised.value}".replace(f"{file.parent}/", "")

    snapshot(map(told, UNUSABLE.split("\n")[1:-1]), Path(__file__).with_name("unusable.txt"))


def test_a_file_that_launches_nothing_says_what_it_has(tmp_path):
    path = tmp_path / "quiet.py"
    path.write_text(SCALE.partition("if __name__")[0])
    said = r"quiet.py ran, and launched no kernel; its @cute.jit functions are scale\(x,"
    with pytest.raises(Unusable, match=said):
        run_file(str(path))


MARKED = """
import cutlass, cutlass.cute as cute, numpy as np
from cutlass.cute.runtime import from_dlpack

@cute.jit
def layout_of(x: cute.Tensor):
    print(x.layout)

x = np.zeros((3, 8), np.float32)
layout_of(x)
layout_of(from_dlpack(x))
layout_of(from_dlpack(x).mark_compact_shape_dynamic(mode=0))
compiled = cute.compile(layout_of, from_dlpack(x).mark_compact_shape_dynamic(mode=1))
compiled(x)
cute.compile(layout_of, x)(from_dlpack(x))
"""


def test_what_a_script_marks_as_dynamic_is_dynamic(tmp_path, capsys):
    (tmp_path / "marked.py").write_text(MARKED)
    run_file(str(tmp_path / "marked.py"))
    wanted = "(?,?):(?{i64},1) (3,8):(8,1) (?,8):(8,1) (3,?):(?{i64},1) (?,?):(?{i64},1)".split()
    assert capsys.readouterr().out.split() == wanted


def test_tensors_of_the_command_line():
    rng = np.random.default_rng(0)
    assert argument("7", rng) == 7 and argument("1e-5", rng) == 1e-5
    assert argument("none", rng) is None
    x = argument("bf16:2x3:1.5", rng)
    assert isinstance(x, Array) and (x.numpy() == np.full((2, 3), 1.5)).all()
    assert np.isnan(argument("float16:4:nan", rng)).all()
    assert argument("i64:2x2:arange", rng).tolist() == [[0, 1], [2, 3]]
    assert argument("f32:1000", rng).std() > 0.9 and argument("bool:3", rng).dtype == bool


REFERENCE = """
def thrice(x, factor):
    return factor * x


def by_name(x):
    return {"out": 3 * x, "x": x}


def other(x):
    return 3 * x + (x == 7)


def two(x):
    return x, x


def of_another_name(y):
    return y
"""
WORDS = ["x=f32:100:arange", "out=f32:100:nan", "factor=3.0", "n=100"]


@pytest.mark.parametrize("name", ["thrice", "by_name"])
def test_results_are_compared_with_a_reference(file, name):
    (file.parent / "reference.py").write_text(REFERENCE)
    outcome = run_file(f"{file}:scale", WORDS, against=f"{file.parent}/reference.py:{name}")
    assert (outcome.verdict, outcome.status, outcome.wrong) == ("clean", 0, ())


def test_other_results_than_the_reference_s_are_wrong(file, capsys):
    (file.parent / "reference.py").write_text(REFERENCE)
    words = ["check", f"{file}:scale", *WORDS, "--against", f"{file.parent}/reference.py:other"]
    assert main(words) == 4
    first = capsys.readouterr().out.splitlines()[0]
    assert first == (
        "wrong: 1 of 100 elements of out are not those of other: out[7] is 21 where it gives 22. In float64 the same steps give "
        "21: the formula is wrong, not the precision (exit status 4)"
    )
    assert main([*words, "--format", "json"]) == 4
    assert json.loads(capsys.readouterr().out)["verdict"] == "wrong"


def test_what_still_holds_its_old_number_is_told_as_that(file):
    (file.parent / "reference.py").write_text(REFERENCE)
    words = ["x=f32:100:arange", "out=f32:100:nan", "factor=3.0", "n=90"]
    (said,) = run_file(f"{file}:scale", words, against=f"{file.parent}/reference.py:thrice").wrong
    assert "out[90] is still nan where it gives 270" in said and "10 of them hold what they did before the run" in said


def test_findings_as_annotations_of_a_workflow(file, capsys, monkeypatch):
    monkeypatch.chdir(file.parent)
    odd = file.rename(file.with_name("a,b.py")).name
    assert main(["check", f"{odd}:scale", *WORDS, "--format", "github"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1  # the verdict
    assert main(["check", f"{odd}:scale", *WORDS[:3], "n=101", "--format", "github"]) == 1
    verdict, said = capsys.readouterr().out.splitlines()
    assert verdict.startswith("finding: out of bounds, ")
    assert said.startswith("::error file=a%2Cb.py,line=14,title=out of bounds::a,b.py:14: Out of bounds: thread ")
    for name, has in (("json", "runs"), ("sarif", "$schema")):
        main(["check", f"{odd}:scale", *WORDS, "--format", name])
        assert has in json.loads(capsys.readouterr().out)
    (file.parent / odd).write_text("raise ValueError('100 %\\nof it')")
    assert main(["check", odd, "--format", "github"]) == 5
    found = capsys.readouterr().out.splitlines()[-1]
    assert found.endswith("line=1,title=failed::a,b.py:1: ValueError: 100 %25%0Aof it")
    (file.parent / odd).write_text(SCALE.replace("x[i] * factor", "cute.arch.no_such_thing(x[i])"))
    assert main(["check", f"{odd}:scale", *WORDS, "--format", "github"]) == 3
    found = capsys.readouterr().out.splitlines()[1]
    assert found.startswith("::warning file=a%2Cb.py,line=1,title=not simulated::")


def test_the_module_is_the_command_too(file):
    ran = python(
        "-m",
        "cutesim",
        "check",
        f"{file}:scale",
        *WORDS[:3],
        "n=101",
        "--format",
        "github",
        cwd=Path(__file__).parents[2],
    )
    assert ran.returncode == 1 and ",line=14,title=out of bounds::" in ran.stdout, ran.stderr


def test_the_first_line_is_the_verdict(file, capsys):
    assert main(["check", f"{file}:scale", *WORDS]) == 0
    assert capsys.readouterr().out.startswith(f"clean: no {LOOKED_FOR} in 1 run (exit status 0)\n")
    assert main(["check", f"{file}:scale", *WORDS[:3], "n=101"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("finding: out of bounds, scaling.py:14 (exit status 1)\n")
    assert main(["check", "nowhere.py"]) == 2
    assert "there is no file nowhere.py" in capsys.readouterr().err
    assert main(["check", f"{file}:scale_kernel", *WORDS]) == 1
    # none of its lines has run
    assert capsys.readouterr().out.startswith("finding: launch (exit status 1)\n")
    file.write_text(SCALE.replace("x[i] * factor", "cute.arch.no_such_thing(x[i])"))
    assert main(["check", f"{file}:scale", *WORDS]) == 3
    assert capsys.readouterr().out.startswith(
        "not simulated: cute.arch.no_such_thing (scaling.py:14) (exit status 3)\n"
    )
    file.write_text(
        SCALE.replace("    on_the_host(x, out, n)\n", "    on_the_host(x, out, n)\n    raise ValueError('mine')\n")
    )
    assert main(["check", str(file), "100"]) == 5
    said = capsys.readouterr().out
    assert said.startswith("failed: scaling.py:41: ValueError: mine (exit status 5)\n")


WITH_TORCH = """
import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def twice_kernel(x: cute.Tensor, out: cute.Tensor):
    i = cute.arch.block_idx()[0] * 32 + cute.arch.thread_idx()[0]
    out[i] = x[i] * 2.0


@cute.jit
def twice(x: cute.Tensor, out: cute.Tensor, stream: cuda.CUstream):
    twice_kernel(x, out).launch(grid=[x.shape[0] // 32, 1, 1], block=[32, 1, 1], stream=stream)


def main():
    torch.manual_seed(0)
    assert torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 9
    x = torch.randn(64, device="cuda", dtype=torch.float32)
    out = torch.empty_like(x).to("cuda").cuda()
    stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
    run = cute.compile(twice, from_dlpack(x), from_dlpack(out), stream)
    run(from_dlpack(x), from_dlpack(out), stream)
    torch.cuda.synchronize()
    torch.testing.assert_close(out.cpu(), 2 * x.cpu())


main()
"""
NO_TORCH = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name.partition(".")[0] in ("torch", "cutlass", "cuda") else find(name, *rest)
from cutesim.command import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("torch", ["torch", "no torch"])
def test_a_script_of_torch_s_gpu_tensors(root, tmp_path, torch):
    if torch == "torch":
        pytest.importorskip("torch")
    (tmp_path / "twice.py").write_text(WITH_TORCH)
    code = (
        "import sys; from cutesim.command import main; sys.exit(main(sys.argv[1:]))" if torch == "torch" else NO_TORCH
    )
    env = os.environ | {"PYTHONPATH": str(root)}
    done = python("-c", code, "check", "twice.py", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    first, note, *_ = done.stdout.splitlines()
    assert first == f"clean: no {LOOKED_FOR} in 1 run (exit status 0)"
    wanted = "twice.py:23: the device is taken as the CPU, since the simulator runs there and no GPU is used."
    assert note == wanted


def test_torch_is_itself_again_after_a_script(file):
    torch = pytest.importorskip("torch")
    before = dict(vars(torch.cuda))
    run_file(str(file), ["100"])
    assert dict(vars(torch.cuda)) == before
