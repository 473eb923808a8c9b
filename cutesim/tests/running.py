"""What a kernel writes, asked in each mode of the simulator; and what a Python of its own prints."""

import subprocess
import sys

import numpy as np

from cutesim.simulation import simulate

MODES = ({"check": False}, {}, {"schedule": "reverse"})
UNTOUCHED = -7


def gives(host, *given, wanted, n=None, dtype=None, modes=MODES, rtol=0, atol=0, **options):
    """In each mode the kernel writes `wanted` to its last tensor, and nothing behind it; the last run.

    That tensor has the shape of `wanted`, or `n` elements, and the type of the first one that is given, unless another is said.
    """
    wanted = np.asarray(wanted)
    for mode in modes:
        out = np.full(wanted.shape if n is None else n, UNTOUCHED, dtype or given[0].dtype)
        copies = [x.copy() if isinstance(x, np.ndarray) else x for x in given]
        run = simulate(host, *copies, out, **mode, **options)
        assert run.ok, run
        found = out if n is None else out[: len(wanted)]
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol, err_msg=str(mode))
        assert n is None or (out[len(wanted) :] == UNTOUCHED).all(), mode
    return run


def python(*words, **options) -> subprocess.CompletedProcess:
    """What this Python makes of the words of a command line, in a process of its own."""
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, **options)
