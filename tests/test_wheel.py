"""The built wheel, as pip installs it on Colab: it is whole, and chapters run from it where the repository is not."""

import json
import os
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")

ROOMS = ("cutesim", "quack_tutorial", "bench", "grading", "workbench")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "tests", "build", "*.egg-info")
CHAPTERS = ("00-ten-minute-win", "07-rmsnorm", "11-profiler", "16-where-next")


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    """Built from a copy, so that nothing is left in the repository."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSE-prose"):
        shutil.copy(root / name, source)
    for room in ROOMS:
        shutil.copytree(root / room, source / room, ignore=LEFT_OUT)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    command += ["wheel", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*command, "--no-build-isolation", "--wheel-dir", str(built), str(source)], capture_output=True, text=True
    )
    if "No module named 'setuptools'" in done.stderr or "BackendUnavailable" in done.stderr:
        pytest.skip("setuptools is not installed, which builds the wheel")
    assert done.returncode == 0, done.stderr
    return next(built.glob("quack_tutorial-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder that holds what is in the wheel."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(folder)
    return folder


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(root, wheel):
    wanted = {
        file.relative_to(root).as_posix()
        for room in ROOMS
        for file in (root / room).rglob("*")
        if file.is_file() and file.suffix not in (".pyc", ".md", ".toml") and not {"tests", "build"} & set(file.parts)
    }
    with zipfile.ZipFile(wheel) as files:
        held = {name for name in files.namelist() if ".dist-info/" not in name}
    assert held == wanted


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_runs_without_the_repository(root, installed, tmp_path, chapter):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("torch", reason="torch is not installed, which the chapters use")
    notebook = nbformat.read(root / "notebooks" / f"{chapter}.ipynb", as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell("import quack_tutorial\nprint(quack_tutorial.__file__)"))
    environment = os.environ | {"PYTHONPATH": str(installed)}
    resources = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(notebook, timeout=300, resources=resources)
    client.execute(env=environment)
    assert notebook.cells[-1].outputs[0].text.startswith(str(installed))


RACE = """
import cutlass
import cutlass.cute as cute
import numpy as np


@cute.kernel
def kernel(x: cute.Tensor, waits: cutlass.Constexpr):
    words = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(64))
    tidx, _, _ = cute.arch.thread_idx()
    if cutlass.const_expr(waits):
        mbar = cutlass.memory.SmemAllocator().allocate_array(cutlass.Int64, 1)
        if tidx == 0:
            cute.arch.mbarrier_init(mbar, 1)
        cute.arch.barrier()
        cute.arch.mbarrier_wait(mbar, 0)
    words[tidx] = x[tidx]
    x[tidx] = words[63 - tidx]


@cute.jit
def host(x: cute.Tensor, waits: cutlass.Constexpr):
    kernel(x, waits).launch(grid=[1, 1, 1], block=[64, 1, 1])


host(np.zeros(64, np.float32), WAITS)
"""


@pytest.mark.parametrize("waits, kind, line", [("False", "race", 17), ("True", "deadlock", 16)])
def test_the_simulator_alone_finds_a_race_and_a_hang(root, tmp_path, waits, kind, line):
    """`pip install ./cutesim` in an environment that holds nothing else but numpy."""
    source = tmp_path / "cutesim"
    shutil.copytree(root / "cutesim", source, ignore=LEFT_OUT)
    command = [sys.executable, "-m", "pip", "install"]
    command += ["--quiet", "--no-deps", "--no-build-isolation", "--target"]
    done = subprocess.run([*command, str(tmp_path / "site"), str(source)], capture_output=True, text=True)
    if "No module named 'setuptools'" in done.stderr or "BackendUnavailable" in done.stderr:
        pytest.skip("setuptools is not installed, which builds the wheel")
    assert done.returncode == 0, done.stderr
    os.symlink(os.path.dirname(np.__file__), tmp_path / "site/numpy")
    (tmp_path / "kernel.py").write_text(RACE.replace("WAITS", waits))
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path / 'site')!r}]; from cutesim.command import main; sys.exit(main())"
    )
    words = [sys.executable, "-S", "-c", code, "check", "kernel.py", "--format", "sarif"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    (result,) = json.loads(done.stdout)["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (result["ruleId"], place["artifactLocation"]["uri"]) == (kind, "kernel.py")
    assert place["region"]["startLine"] == line
