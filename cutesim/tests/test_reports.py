"""The wording of reports, in one place: reports.txt has one of each kind, and of each rule of order without its edge.

`REPORTS=write pytest cutesim/tests/test_reports.py` writes it anew; read what has changed before it is committed.
"""

import os
import re
from pathlib import Path

import numpy as np
from dsl import bounds, cluster, found, hand_over, language, misused, names, unwritten
from rules import RULES

from cutesim.simulation import simulate

FILE = Path(__file__).parent / "reports.txt"


def floats(*shape):
    return np.zeros(shape, np.float32)


def ints(*shape):
    return np.zeros(shape, np.int32)


def runs():
    """One for each kind of finding, in the order of the file."""
    x = np.arange(128, dtype=np.float32)
    for name in misused.REFUSED:
        yield simulate(getattr(misused, name), x[:32], floats(32))
    for host in language.REFUSED:
        yield simulate(host, x, floats(128), max_steps=2000)
    yield simulate(bounds.tiled(False) if callable(bounds.tiled) else bounds.tiled, floats(4, 56), floats(4, 56))
