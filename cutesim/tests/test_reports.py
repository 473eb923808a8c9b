"""The wording of reports, in one place: reports.txt has one report of each kind, and what each rule of order says without its edge.

`REPORTS=write pytest cutesim/tests/test_reports.py` writes it anew; read what has changed before it is committed.
"""

import os
import re
from pathlib import Path

import numpy as np
from dsl import bounds, found, hand_over, language, misused, names, others
from dsl.cluster import Exchange
from rules import RULES

from cutesim.simulation import simulate

FILE = Path(__file__).parent / "reports.txt"
X, LARGE = np.arange(128, dtype=np.float32), np.full(32, 1000, np.float32)


def floats(*shape):
    return np.zeros(shape, np.float32)


def ints(*shape):
    return np.zeros(shape, np.int32)


CASES = [
    (bounds.tiled, floats(4, 56), floats(4, 56), False),
    *((Exchange(fault), X[:4], floats(4, 2)) for fault in ("too many bytes", "too few bytes", "phase reused", "block gone")),
    *((Exchange(fault), X[:4], floats(4, 2)) for fault in ("no wait", "no barrier between", "no opening barrier")),
    *((kernel, X[:32], floats(32)) for kernel in (found.unwritten_register, found.init_twice, found.counts_from_the_end)),
    (found.narrow, LARGE, ints(32)),
    (found.two_counts(96), X[:64], floats(64)),
    (found.stored_and_read(True), X[:32], floats(32), floats(1)),
    (found.overwritten(False), X[:32], floats(32)),
    (found.ragged_sum, X[:40], floats(40)),
    (found.called_twice, X[:64], floats(64)),
    (hand_over.raised(release="cta"), ints(1), ints(32), ints(32)),
    (hand_over.meeting(before=False), ints(2, 32), ints(1), ints(2, 32)),
    (hand_over.row_each(arrivals=3), floats(4, 32), floats(4, 32)),
    (hand_over.peer(waits=2), floats(2, 32), floats(2, 32)),
    (others.half_arrive, floats(64)),
    (names.launched_early, ints(128), ints(128), ""),
    (misused.never_launched, X[:32], floats(32)),
    (misused.numpy_exp, X[:32], floats(32)),
    *(
        (getattr(language, name), X, floats(128))
        for name in "misaligned endless barrier_in_half_a_warp too_much_shared_memory odd_alignment type_changes".split()
    ),
]


def reports():
    for host, *arguments in CASES:
        for finding in simulate(host, *arguments, max_steps=2000).findings:
            message = re.sub(r"(?<=[.]py:)[0-9]+", "N", finding.message)
            yield f"{finding.kind}: {message}"
    for name, (findings, _, found_in) in RULES.items():
        for way in found_in:
            yield f"{name}: {findings(way)[0]}"


def test_reports_are_worded_so():
    text = "\n".join(reports()) + "\n"
    if os.environ.get("REPORTS") == "write":
        FILE.write_text(text, encoding="utf-8")
    assert text.splitlines() == FILE.read_text(encoding="utf-8").splitlines()
