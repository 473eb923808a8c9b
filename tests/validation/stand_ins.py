"""What plays a tool or a listener in the tests of the suites that need a GPU."""

import os
import sys


def quiet(_):
    """Progress that nobody watches."""


def stand_in(monkeypatch, folder, name, source):
    """Puts a Python script on the PATH under the name of one of NVIDIA's tools."""
    script = folder / name
    (folder / f"{name}.py").write_text(f"import json, os, sys\nargs = sys.argv[1:]\n{source}")
    script.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" "{folder / name}.py" "$@"\n'
    )  # a first line holds no path with a space
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return script
