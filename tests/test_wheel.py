"""The built wheel, as pip installs it on Colab: it is whole, and chapters run from it where the repository is not."""

import os
import shutil
import subprocess
import sys
import zipfile

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed, which notebooks are read with")

CHAPTERS = ("00-ten-minute-win", "07-rmsnorm", "11-profiler", "14-where-next")


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    """Built from a copy, so that nothing is left in the repository."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSE-prose"):
        shutil.copy(root / name, source)
    shutil.copytree(root / "quack_tutorial", source / "quack_tutorial", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
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
    package = root / "quack_tutorial"
    wanted = {
        file.relative_to(root).as_posix()
        for file in package.rglob("*")
        if file.is_file() and file.suffix != ".pyc" and file.suffix != ".md"
    }
    with zipfile.ZipFile(wheel) as files:
        held = {name for name in files.namelist() if ".dist-info/" not in name}
    assert held == wanted


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_runs_without_the_repository(root, installed, tmp_path, chapter):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed, which executes notebooks")
    pytest.importorskip("torch", reason="torch is not installed, which the chapters use")
    notebook = nbformat.read(root / "notebooks" / f"{chapter}.ipynb", as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell("import quack_tutorial\nprint(quack_tutorial.__file__)"))
    environment = os.environ | {"PYTHONPATH": str(installed)}
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env=environment)
    assert notebook.cells[-1].outputs[0].text.startswith(str(installed))
