"""The notebooks in JupyterLab, in a real browser, as a reader runs them; two of them in Notebook 7, too.

`tests/site/jupyter.mjs` does what a reader does, this file judges. Skipped where JupyterLab, Chromium or Node.js is missing; with
SITE_TEST=required, as in .ci/run, that is a failure. With NOTEBOOKS=two, as in .ci/run, only two chapters are opened.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from grading import folders, release, student
from quack_tutorial import figures
from tests.test_site import find_chromium, missing_tool, skip_unless_required

ROOT = Path(__file__).resolve().parent.parent
TWO = ["00-ten-minute-win", "05-block-reduce"]
CHAPTERS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
LARGEST = 1_000_000  # bytes of a notebook with all its outputs


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with the notebooks, a lab, and settings of nobody."""
    folder = tmp_path_factory.mktemp("jupyter")
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        shutil.copy(path, folder)
    # Nothing may depend on an extension that renders MyST; and nobody asks about news.
    config = folder / ".config/labconfig/page_config.json"
    config.parent.mkdir(parents=True)
    off = ("jupyterlab-myst", "@jupyterlab/apputils-extension:announcements")
    config.write_text(json.dumps({"disabledExtensions": dict.fromkeys(off, True)}), "utf-8")
    return folder


@pytest.fixture(scope="module")
def environment(home):
    names = {"HOME": "", "JUPYTER_CONFIG_DIR": ".config"}
    names |= {"JUPYTER_DATA_DIR": ".data", "JUPYTER_RUNTIME_DIR": ".run"}
    folders = {name: str(home / folder) for name, folder in names.items()} | {"IPYTHONDIR": str(home / ".ipython")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | folders | {"PYTHONPATH": str(ROOT), "PATH": path}


@contextmanager
def served(program, home, environment, *options):
    """The address of one of Jupyter's applications, while it runs."""
    program = Path(sys.executable).with_name(program)
    lack = missing_tool(ROOT) or (None if program.exists() else "JupyterLab is not installed (make lab-tools)")
    if lack:
        skip_unless_required(lack)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    command = [program, "--no-browser", "--allow-root"]
    command += [f"--port={port}", "--ServerApp.port_retries=0", *options]
    command += ["--IdentityProvider.token=", f"--ServerApp.root_dir={home}"]
    with open(home / "log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        for _ in range(240):
            try:
                urlopen(f"{address}/api", timeout=5).close()
                break
            except (URLError, OSError):
                assert server.poll() is None, (home / "log").read_text("utf-8")[-2000:]
                time.sleep(0.25)
        yield address
    finally:
        server.terminate()
        server.wait(20)


@pytest.fixture(scope="module")
def jupyter(home, environment):
    """The address of a JupyterLab that runs on this machine."""
    with served("jupyter-lab", home, environment, "--expose-app-in-browser") as address:
        yield address


def answer_of(address, *options):
    """The answer of jupyter.mjs for a notebook's address."""
    command = ["node", str(ROOT / "tests/site/jupyter.mjs"), address]
    command += ["--chromium", find_chromium(), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def opened(address, *options):
    """The answer for a notebook that runs, where nothing is to be found."""
    answer = answer_of(address, *options)
    print(
        f"{address.rpartition('/')[2]}: {answer['seconds']:.0f} s, {answer['players']} players, {answer['folds']} folds"
    )
    assert answer["findings"] == []
    assert answer["ran"] == answer["code"]
    return answer


def source_of(name):
    return json.loads((ROOT / f"notebooks/{name}.ipynb").read_text("utf-8"))["cells"]


FEW = os.environ.get("NOTEBOOKS") == "two"
OPENED = [("JupyterLab", name) for name in (TWO if FEW else CHAPTERS)]
OPENED += [("Notebook 7", name) for name in (TWO[:1] if FEW else TWO)]


@pytest.mark.parametrize("program, name", OPENED)
def test_a_notebook_runs_and_keeps_its_keys(request, home, environment, program, name):
    if program == "JupyterLab":
        answer = opened(f"{request.getfixturevalue('jupyter')}/lab/tree/{name}.ipynb?reset")
    else:
        expose = "--JupyterNotebookApp.expose_app_in_browser=True"
        with served("jupyter-notebook", home, environment, expose) as address:
            answer = opened(f"{address}/notebooks/{name}.ipynb")
    cells = source_of(name)
    assert answer["cells"] == len(cells)
    assert answer["folds"] == sum("".join(cell["source"]).count("<details>") for cell in cells)
    if name in TWO:
        assert answer["players"] >= 3
        assert answer["unsolved"] >= 3  # no solution ran in the reader's place
    assert (home / f"{name}.ipynb").stat().st_size < LARGEST


def test_a_notebook_that_is_not_trusted_says_how_its_drawings_come(jupyter, home):
    """Outputs that somebody else made: JupyterLab strips styles, scripts and drawings of them."""
    draw = "from quack_tutorial import figures\nfigures.strides()"
    html = figures.strides()._repr_html_()
    output = {"output_type": "execute_result", "execution_count": 1}
    output |= {"metadata": {}, "data": {"text/html": html}}
    cell = {"cell_type": "code", "id": "a", "execution_count": 1}
    cell |= {"metadata": {}, "source": draw, "outputs": [output]}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": [cell]}
    (home / "given.ipynb").write_text(json.dumps(notebook), "utf-8")
    wanted = {"drawings": 0, "told": 1, "spilt": 0}
    assert answer_of(f"{jupyter}/lab/tree/given.ipynb?reset", "--look", "only") == wanted


def test_a_lab_says_what_is_wrong_and_then_that_it_is_right(jupyter, home):
    """A butterfly that shuffles down leaves the right pair in lane 0 alone."""
    master = (folders()["butterfly"] / "butterfly.md").read_text("utf-8")
    whole = re.sub(rf" *({'|'.join(student.SOLUTION)})\n", "", master)
    notebook = release.notebook("butterfly", student.student_version(master))
    (home / "butterfly.ipynb").write_text(notebook, "utf-8")
    texts = notebook, release.notebook("butterfly", whole)
    both = list(zip(*(json.loads(text)["cells"] for text in texts), strict=True))
    changed = [(given, solved) for given, solved in both if given["source"] != solved["source"]]
    right = {given["id"]: solved["source"] for given, solved in changed}
    wrong = {name: text.replace("shuffle_sync_bfly", "shuffle_sync_down") for name, text in right.items()}
    assert wrong != right
    edits = json.dumps([wrong, right])
    command = f"{jupyter}/lab/tree/butterfly.ipynb?reset"
    _, first, second = ("\n".join(texts) for texts in opened(command, "--edits", edits)["outputs"])
    assert "every lane of the row needs the pair, and only lane 0 has it" in " ".join(first.split())
    every = json.loads(notebook)["cells"]
    checks = [cell for cell in every if cell["source"].startswith("labs.check(")]
    assert len(re.findall(r"^right: ", second, re.M)) == len(checks) >= 5
