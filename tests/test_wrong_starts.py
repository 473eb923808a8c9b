"""What goes wrong first is told in a sentence with the reader's own line, and without a frame of this package."""

import builtins
import linecache
import re
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest
from running import python

import quack_tutorial as qt
from cutesim.context import NotSimulated, SimulationError, told
from cutesim.language import loading
from quack_tutorial import compiler

KERNEL = """\
import cutlass
import cutlass.cute as cute

@cute.kernel
def double_kernel(mX: cute.Tensor, mO: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    mO[tidx] = {value}

@cute.jit
def double(mX: cute.Tensor, mO: cute.Tensor):
    double_kernel(mX, mO).launch(grid=[1, 1, 1], block=[{threads}, 1, 1])
"""
VALUES = """
2 * mXX[tidx]
2 * elephant
len(mX[tidx])
__import__('torch').sin(tidx)
2 * mX[tidx + 1]
cute.arch.shuffle_sync_bfy(mX[tidx], 1)
cute.archs.lane_idx()
mX.shap[0]
mX[tidx].foo
"""


def cell(source, number=3, always=True):
    """The names that a cell of a page defines."""
    file = f"cell {number}"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    names = {"__name__": "__main__"}
    loading.answer_imports(names, always=always)
    exec(compile(source, file, "exec"), names)
    return names


def double(value="2 * mX[tidx]", threads=32):
    return cell(KERNEL.format(value=value, threads=threads))["double"]


def told_of(value):
    """What a launch of the kernel with this value is told, in IPython and by Python too, with the kernel's line last."""
    x = np.zeros(32, np.float32)
    with pytest.raises((SimulationError, NotSimulated)) as raised:
        qt.launch(double(value), x, x.copy())
    lines = told(raised.value)
    assert len(lines) == 2 and lines[1] == f"    cell 3:7:  mO[tidx] = {value}"
    shown = raised.value._render_traceback_()  # by IPython
    assert " ".join(" ".join(shown).split()) == " ".join(" ".join(lines).split())
    assert max(map(len, shown[:-1])) <= 84
    # by Python: one frame of ours, no chain of errors
    printed = "".join(traceback.format_exception(raised.value))
    assert printed.count("quack_tutorial/") == 1 and "Traceback" not in printed[10:]
    return f"{value}: {lines[0]}"


def test_a_launch_that_fails_is_told_with_the_kernels_line(snapshot):
    snapshot(map(told_of, VALUES.split("\n")[1:-1]), Path(__file__).with_name("wrong_starts.txt"))


def test_what_is_spelt_well_and_not_simulated_still_asks_for_a_gpu(monkeypatch):
    monkeypatch.setattr("cutesim.context.in_notebook", lambda: True)
    x = np.zeros(32, np.float32)
    unlike = ("(yield)", "cute.arch.shuffle_sync_bfy(mX[tidx])", "tidx.foo")
    asked = {"cute.arch.no_such_thing()": True} | dict.fromkeys(unlike, False)
    for value, asks in asked.items():
        with pytest.raises(NotSimulated) as raised:
            qt.launch(double(value), x, x.copy())
        assert ("run this cell on a GPU" in str(raised.value)) is asks


@pytest.mark.parametrize(
    "arguments, said",
    [
        ((3,), "launch(double): no argument is a torch tensor or a numpy array"),
        ((np.zeros(32, np.float32),), "double() missing 1 required positional argument: 'mO'"),
    ],
)
def test_wrong_arguments_are_told_with_the_cells_line(arguments, said):
    with pytest.raises(TypeError, match=re.escape(said)) as raised:
        names = cell(
            "import quack_tutorial as qt\n\ndef call(function, arguments):\n    qt.launch(function, *arguments)", 4
        )
        names["call"](double(), arguments)
    assert told(raised.value) == [said, "    cell 4:4:  qt.launch(function, *arguments)"]


def test_without_torch_the_import_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    cases = ("import torch", "from torch import nn", "from quack_tutorial.ops import softmax")
    for source in cases:
        monkeypatch.delitem(sys.modules, "quack_tutorial.ops.softmax", raising=False)
        monkeypatch.delitem(sys.modules, "quack_tutorial.ops", raising=False)
        with pytest.raises(ModuleNotFoundError) as raised:
            cell(source)
        assert raised.value.name == "torch"
        assert told(raised.value) == [
            f"torch is not installed in this environment ({sys.prefix}): pip install 'torch>=2.11'",
            f"    cell 3:1:  {source}",
        ]


def test_a_missing_module_of_somebody_elses_keeps_its_frames(monkeypatch, tmp_path):
    (tmp_path / "theirs.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError) as raised:
        cell("import theirs")
    assert not hasattr(raised.value, "_render_traceback_")
    with pytest.raises(ModuleNotFoundError) as raised:
        cell("import no_such_module")
    wanted = ["No module named 'no_such_module'", "    cell 3:1:  import no_such_module"]
    assert told(raised.value) == wanted


def test_where_the_dsl_is_needed_and_missing_the_sentence_stands_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "cutlass", None)
    spec = compiler.TensorSpec("float32", (32,), (1,))
    said = "CuTe DSL is not installed .*: pip install nvidia-cutlass-dsl=="
    with pytest.raises(RuntimeError, match=said) as raised:
        compiler.ptx(double(), spec, spec)
    assert type(raised.value) is RuntimeError and len(told(raised.value)) == 1
    with pytest.raises(RuntimeError) as raised:  # called by itself, without launch
        double()(None, None)
    said = told(raised.value)[0]
    assert said.startswith("double is a @cute.jit function and the CuTe DSL is not installed here")


def test_the_real_compiler_is_told_with_the_kernels_line_too(tmp_path, monkeypatch):
    pytest.importorskip("cutlass", reason="CuTe DSL is not installed")
    spec = compiler.TensorSpec("float32", (32,), (1,))
    for number, (value, said) in enumerate(
        (
            ("2 * mXX[tidx]", "name 'mXX' is not defined; did you mean mX?"),
            (
                "cute.arch.shuffle_sync_bfy(mX[tidx], 1)",
                "module 'cutlass.cute.arch' has no attribute 'shuffle_sync_bfy'; did you mean shuffle_sync_bfly?",
            ),
        )
    ):
        file = tmp_path / f"kernel_{number}.py"
        file.write_text(KERNEL.format(value=value, threads=32))
        names = {"__name__": file.stem}
        exec(compile(file.read_text(), str(file), "exec"), names)
        with pytest.raises(Exception) as raised:
            compiler.ptx(names["double"], spec, spec)
        where = f"{file.name}:7"
        assert told(raised.value) == [f"{where}: {said}", f"    {where}:  mO[tidx] = {value}"]


NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")
for cell in {cells!r}:
    shell.run_cell(cell, store_history=True)
"""


def test_ipython_shows_the_sentence_alone():
    pytest.importorskip("IPython", reason="IPython is not installed")
    answered = "from cutesim.language.loading import answer_imports\nanswer_imports(globals(), always=True)"
    call = "import numpy as np, quack_tutorial as qt\nx = np.zeros(32, np.float32)\nqt.launch(double, x, x.copy())"
    cells = [answered, KERNEL.format(value="2 * mXX[tidx]", threads=32), call]
    script = NOTEBOOK.format(cells=cells)
    done = python("-c", script, check=True)
    assert done.stdout.splitlines() == [
        "cell 2:7: name 'mXX' is not defined; did you mean mX?",
        "    cell 2:7:  mO[tidx] = 2 * mXX[tidx]",
    ]


def test_pythons_import_is_left_as_it_is():
    assert builtins.__import__.__module__ != loading.__name__
