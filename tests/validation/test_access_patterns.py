"""One-warp kernels whose requests are known, against what Nsight Compute counted of them on an H200."""

import json
from pathlib import Path

import numpy as np

from validation import access_patterns

RECORDED = json.loads(Path(__file__).with_name("access_patterns_h200.json").read_text())["patterns"]


def test_every_pattern_counts_what_nsight_compute_counted_on_an_h200():
    assert len(RECORDED) > 150
    wrong, met = [], set()
    for name, pattern, run, x, out in access_patterns.runs():
        assert run.ok, run
        met.add(name)
        mine = access_patterns.counted(run.trace)
        wrong += [f"{name}: {mine} against {RECORDED[name]}"] if mine != RECORDED.get(name, mine) else []
        if name.startswith("cp.async") and pattern.below == 17:  # lanes that take no part fill with zeros
            assert (out == np.where(np.arange(len(x)) < 17 * (len(x) // 32), x, 0)).all(), name
    assert not wrong, "\n".join(wrong)
    assert met >= set(RECORDED)
