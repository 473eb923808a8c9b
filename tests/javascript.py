"""JavaScript of the site's pages, run by Node.js beside the Python that it must agree with."""

import json
import shutil
import subprocess

import pytest


def evaluated(program):
    """What the program logs, a line of JSON; skips where there is no Node.js."""
    if shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    done = subprocess.run(["node", "-"], input=program, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
