"""The rest of cutlass.pipeline, and primitives: values, and a step that is missing."""

import numpy as np
from dsl import pipelines as k
from real_compiler import compiler

from cutesim.dialect import names
from cutesim.simulation import simulate


def test_tiles_are_stored_through_stages():
    x, out = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32), np.zeros((16, 32), np.float32)
    run = simulate(k.Stored(), x, out)
    assert run.ok, run
    np.testing.assert_array_equal(out, x + 1)
    kinds = [finding.kind for finding in simulate(k.Stored(acquires=False), x, out).findings]
    assert "race" in kinds, kinds


def test_some_names_have_a_second_place():
    pipeline = names.CUTLASS.pipeline
    assert names.by_path("cutlass.pipeline.helpers").pipeline_init_wait is pipeline.pipeline_init_wait


def test_primitives():
    x, out = np.arange(64, dtype=np.int32) ** 2, np.zeros((3, 64), np.int32)
    run = simulate(k.Primitive(), x, out)
    assert run.ok, run
    t = np.arange(64)
    np.testing.assert_array_equal(out[0], (x[t ^ 1] * 100 + x[t // 32 * 32])[::-1])
    assert (out[1] == 8).all() and out[2].tolist() == [7, 7] + [0] * 62
    (finding,) = simulate(k.Primitive(waits=False), x, out).findings[:1]
    assert finding.kind == "race"


def test_the_compiler_takes_them():
    ptx, torch = compiler()
    assert "cp.async.bulk.wait_group.read \t1" in ptx(k.Stored(), torch.zeros(16, 32), torch.zeros(16, 32))
    numbers = torch.zeros(64, dtype=torch.int32)
    assert "shfl.sync.bfly" in ptx(k.Primitive(), numbers, torch.zeros((3, 64), dtype=torch.int32))
