"""With numpy alone (no DSL, no torch, no matplotlib) a script runs on the simulator, and a first check loads little.

A child process hides what else is installed here: its import system finds none of `HIDDEN`, as if nobody had installed them.
.ci/run does the same in an environment that really has numpy and pytest alone.
"""

import os
import subprocess
import sys
import textwrap

import pytest
from running import python

pytestmark = pytest.mark.skipif(sys.platform == "emscripten", reason="a browser starts no processes")
HIDDEN = {
    "cutlass": "nvidia-cutlass-dsl",
    "cuda": "cuda-python",
    "torch": "torch",
    "matplotlib": "matplotlib",
    "IPython": "ipython",
    "ipykernel": "ipykernel",
    "ipywidgets": "ipywidgets",
    "hypothesis": "hypothesis",
    "tensor_layouts": "tensor-layouts",
    "yaml": "pyyaml",
    "jupytext": "jupytext",
}
PREFACE = f"""
import sys
from importlib.machinery import PathFinder
from importlib.metadata import Prepared

HIDDEN = {HIDDEN!r}

class Numpy:
    "The import system's own finder, without what is hidden."

    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else PathFinder.find_spec(name, path, target)

    @staticmethod
    def find_distributions(context):
        hidden = {{Prepared(name).normalized for name in HIDDEN.values()}}
        if context.name is not None and Prepared(context.name).normalized in hidden:
            return []
        return PathFinder.find_distributions(context)

sys.meta_path[:] = [Numpy if finder is PathFinder else finder for finder in sys.meta_path]
"""
EPILOGUE = """
assert not set(HIDDEN) & set(sys.modules), set(HIDDEN) & set(sys.modules)
"""


def alone(code: str, root) -> subprocess.CompletedProcess:
    """Run code in a Python that finds numpy and the standard library, and no more of what is here."""
    environment = os.environ | {"PYTHONPATH": str(root), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    script = PREFACE + textwrap.dedent(code) + EPILOGUE
    return python("-c", script, cwd=root, env=environment, timeout=300)


def output(code: str, root) -> str:
    done = alone(code, root)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


SCRIPT = """
import numpy as np
import cutlass.cute as cute
from beside import twice
from quack_tutorial import simulate

@cute.kernel
def kernel(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = twice(x[tidx])

@cute.jit
def host(x: cute.Tensor, out: cute.Tensor):
    kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])

if __name__ == "__main__":
    import sys
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    run = simulate(host, x, out)
    print(run.ok, (out == 2 * x).all(), sys.argv[1:], "cutlass" in sys.modules)
    host(x, out)
"""


def test_a_script_that_imports_cutlass_runs(root, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    beside = "import cutlass\n\ndef twice(v):\n    return cutlass.Float32(v + v)\n"
    (tmp_path / "beside.py").write_text(beside)
    words = ["cutesim", str(tmp_path / "script.py"), "an argument"]
    code = f"""
    import runpy
    sys.argv[:] = {words!r}
    runpy.run_module("cutesim", run_name="__main__", alter_sys=False)
    """
    done = alone(code, root)
    assert done.stdout == "True True ['an argument'] False\n", done.stdout + done.stderr
    # Called directly, a host function says what to do.
    assert "host is a @cute.jit function and the CuTe DSL is not installed here" in done.stderr
    assert "cutesim.simulate(...)" in done.stderr


def test_without_a_script_it_says_what_it_wants(root):
    for words, wanted in (([], "give it a script"), (["none.py"], "there is no file none.py")):
        command = [sys.executable, "-m", "cutesim", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=root)
        assert done.returncode == 1 and wanted in done.stderr


def test_a_first_check_loads_no_more_of_numpy_than_it_needs(root):
    """numpy.ma, which the first call of np.unique loads, takes longer than a small kernel; in a browser several times as long."""
    code = """
    import numpy as np
    from quack_tutorial.kernels.reduce import ClusterReduce
    from cutesim.simulation import simulate
    x, out = np.ones((1, 256), np.float32), np.zeros((1, 2), np.float32)
    assert simulate(ClusterReduce(blocks=2, threads_per_block=64), x, out).ok and (out == 256).all()
    print("numpy.ma" in sys.modules)
    """
    assert output(code, root) == "False\n"
