"""Faults that depend on order: silent where there is none, and told at its lines in every order; test_reports has the words."""

import numpy as np
import pytest
from dsl import faults as k
from real_compiler import compiled
from running import MODES

from cutesim.simulation import simulate


def normal(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


RIGHT = {  # what each is given, and what it then writes
    "shuffle_as_barrier": (normal(32), lambda x: x[::-1] + x[np.arange(32) ^ 16]),
    "two_writers": (normal(64), lambda x: x[::-1]),
    "histogram": (np.arange(288, dtype=np.int32) ** 2 % 16, lambda x: np.bincount(x, minlength=16)),
    "turned": (normal(128), lambda x: x.reshape(8, 4, 4).transpose(0, 2, 1).ravel()),
    "rolling_stages": (normal(384), lambda x: x.reshape(6, 64)[:, ::-1].sum(0)),
    "unpublished_init": (normal(64), lambda x: x),
    "exits_too_early": (normal(64), lambda x: x),
}
CASES = [
    (getattr(k, name)(True), x, np.zeros_like(right(x), x.dtype)) for name, (x, right) in RIGHT.items()
]  # for test_reports
# Where the warp that did not do it comes first.
OTHERS = {"unpublished_init": "mbarrier not initialised"}
ORDERS = {}, {"schedule": "reverse"}, {"schedule": "seeded", "seed": 1}


@pytest.mark.parametrize("name", k.FAULTS)
def test_its_fault_is_found_at_its_lines_in_every_order_and_none_without_it(name):
    x, right = RIGHT[name]
    host, kinds = getattr(k, name), set()
    for mode in (*MODES, *ORDERS):
        out = np.zeros_like(right(x), x.dtype)
        run = simulate(host(False), x, out, **mode)
        assert run.ok, run
        np.testing.assert_allclose(out, right(x), rtol=1e-4, atol=1e-4)
    for mode in ORDERS:
        findings = simulate(host(True), x, np.zeros_like(out), **mode).findings
        kinds |= {finding.kind for finding in findings}
        assert findings and all("# here" in line.text for finding in findings for line in finding.lines), findings
    assert len(kinds - {OTHERS.get(name)}) == 1


@pytest.mark.parametrize("bug", [False, True])
@pytest.mark.parametrize("name", k.FAULTS)
def test_the_compiler_takes_it(name, bug):
    x, right = RIGHT[name]
    assert ".entry" in compiled(getattr(k, name)(bug), x.copy(), np.zeros_like(right(x), x.dtype))
