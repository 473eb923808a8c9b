"""The kernels that measure the memory hierarchy: what they compute, what they touch, and that the compiler takes them."""

import numpy as np
import pytest

from cutesim import analysis
from cutesim.analysis.requests import READ
from cutesim.simulation import simulate
from cutesim.trace import Op, Space
from quack_tutorial.kernels import memory


def chain(n, seed=0):
    """A cycle through n places, as indices, and the order in which it visits them from place 0."""
    order = np.concatenate([[0], 1 + np.random.default_rng(seed).permutation(n - 1)])
    following = np.empty(n, np.int32)
    following[order] = np.roll(order, -1)
    return following, order


def requests_of(run, space):
    """The warp requests that read `space`."""
    found = analysis.requests(run.trace, space)
    return found[found["kind"] == READ]


def x(n):
    return np.random.default_rng(1).standard_normal(n).astype(np.float32)


@pytest.mark.parametrize("space", ["global", "shared", "peer"])
def test_a_chase_ends_where_the_chain_says(space):
    following, order = chain(64)
    out = np.full(1, -1, np.int32)
    run = simulate(memory.PointerChase(64, space), following, out, 29)
    assert run.ok and out[0] == order[29]
    where = {"global": Space.GMEM, "shared": Space.SMEM, "peer": Space.DSMEM}[space]
    chased = run.trace.select(Op.LOAD, space=where)
    assert len(chased[chased["mask"] == 1]) == 29


def test_chains_of_shuffles_and_multiply_adds():
    numbers, out = x(32), np.empty(32, np.float32)
    assert simulate(memory.Chain("shuffle"), numbers, out, 3).ok
    np.testing.assert_array_equal(out, numbers.reshape(16, 2)[:, ::-1].ravel())
    assert simulate(memory.Chain("multiply-add"), numbers, out, 2).ok
    a = numbers[0].astype(np.float64)
    np.testing.assert_allclose(out, (numbers * a + a) * a + a, rtol=1e-6)


@pytest.mark.parametrize("vector_bytes", [4, 8, 16])
def test_a_stream_adds_up_everything_once_a_turn(vector_bytes):
    kernel = memory.Stream(vector_bytes, in_flight=2, threads=64)
    numbers, out = x(5 * kernel.chunk), np.full((3, 64), np.nan, np.float32)
    run = simulate(kernel, numbers, out, 2)
    assert run.ok
    found = out.sum(dtype=np.float64)
    np.testing.assert_allclose(found, 2 * numbers.sum(dtype=np.float64), rtol=1e-5)
    loads = run.trace.select(Op.LOAD, space=Space.GMEM)
    assert len(loads) == 2 * 5 * 2 * 2
    assert set(requests_of(run, Space.GMEM)["bytes"]) == {32 * vector_bytes}


@pytest.mark.parametrize("form", memory.LoopSum.FORMS)
def test_a_loop_adds_up_everything_however_it_is_written(form):
    kernel = memory.LoopSum(form, threads=32)
    numbers, out = x(16 * 2 * 32 * 3), np.full((2, 32), np.nan, np.float32)
    run = simulate(kernel, numbers, out, 2)
    assert run.ok
    found = out.sum(dtype=np.float64)
    np.testing.assert_allclose(found, 2 * numbers.sum(dtype=np.float64), rtol=1e-4)
    assert set(requests_of(run, Space.GMEM)["bytes"]) == {512}


@pytest.mark.parametrize("words, apart, groups", [(1, 1, 1), (8, 1, 2), (4, 8, 1), (32, 1, None)])
def test_atomics_add_one_a_lane_and_turn(words, apart, groups):
    kernel = memory.Atomics(words, apart, groups, blocks=2, threads=64)
    out = np.zeros(kernel.size, np.float32)
    run = simulate(kernel, out, 3)
    assert run.ok
    np.testing.assert_array_equal(out[::apart], 2 * 64 * 3 / kernel.size * apart)
    assert out.sum() == 2 * 64 * 3


@pytest.mark.parametrize("stride, offset, sectors", [(1, 0, 4), (1, 1, 5), (2, 0, 8), (8, 0, 32), (32, 0, 32)])
def test_strided_requests_touch_the_sectors_that_they_should(stride, offset, sectors):
    numbers, out = x(16 * 2 * 64 * stride + offset), np.full((2, 64), np.nan, np.float32)
    run = simulate(memory.Strided(stride, offset, threads=64), numbers, out, 16)
    assert run.ok
    found = out.sum(dtype=np.float64)
    np.testing.assert_allclose(found, numbers[offset::stride].sum(dtype=np.float64), rtol=1e-4)
    loads = requests_of(run, Space.GMEM)
    assert set(loads["sectors"]) == {sectors}


@pytest.mark.parametrize("stride, ways", [(1, 1), (2, 2), (32, 32), (33, 1)])
def test_shared_reads_have_the_conflicts_that_they_should(stride, ways):
    kernel = memory.SharedReads(stride)
    numbers, out = x(kernel.words), np.empty(kernel.threads, np.float32)
    run = simulate(kernel, numbers, out, 3)
    assert run.ok
    first = np.arange(kernel.threads) % 32 * stride
    wanted = sum(numbers[first + k + 32 * i] for k in range(3) for i in range(16))
    np.testing.assert_allclose(out, wanted, rtol=1e-5)
    assert set(requests_of(run, Space.SMEM)["wavefronts"]) == {ways}


@pytest.mark.parametrize("peer", [False, True])
def test_shared_memory_is_streamed_from_the_block_that_is_meant(peer):
    kernel = memory.SharedStream(peer, threads=64)
    numbers, out = x(kernel.words), np.empty((2, 64), np.float32)
    run = simulate(kernel, numbers, out, 4)
    assert run.ok
    vectors = numbers.reshape(-1, 4).sum(1)
    wanted = sum(vectors[k : k + 64] for k in range(4))
    np.testing.assert_allclose(out[0], wanted, rtol=1e-4, atol=1e-5)
    assert len(run.trace.select(Op.LOAD, space=Space.DSMEM)) == (16 if peer else 0)


@pytest.mark.parametrize("blocks, release", [(1, False), (2, False), (4, True)])
def test_barriers_are_passed_by_all(blocks, release):
    out = np.zeros(1, np.int32)
    assert simulate(memory.Barriers(64, blocks, release), out, 5).ok and out[0] == 5


@pytest.mark.parametrize("barrier", memory.Reread.BARRIERS)
def test_a_cycle_is_followed_round_and_round(barrier):
    following, order = chain(50)
    out = np.full(1, -1, np.int32)
    assert simulate(memory.Reread(barrier), following, out, 2).ok and out[0] == order[2 * 64 % 50]


def test_a_conflict_beside_a_stream_is_as_wide_as_it_should_be():
    kernel = memory.ReadsBeside(4)
    numbers, out = x(3 * kernel.chunk), np.empty((2, kernel.threads), np.float32)
    run = simulate(kernel, numbers, out)
    assert run.ok
    lane = 4 * (np.arange(kernel.threads) % 32)
    beside = [sum(numbers[lane + c + 32 * i] for c in chunks for i in range(8)).sum() for chunks in ((0, 2), (1,))]
    vectors = numbers.reshape(3, -1).sum(1, dtype=np.float64)
    found = out.sum(1)
    wanted = [vectors[0] + vectors[2] + beside[0], vectors[1] + beside[1]]
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-2)
    assert set(requests_of(run, Space.SMEM)["wavefronts"]) == {4}


@pytest.mark.parametrize("schedule", ["forward", "reverse", "seeded"])
def test_a_ball_goes_to_and_fro(schedule):
    out = np.zeros(1, np.int32)
    run = simulate(memory.PingPong(), out, 6, schedule=schedule)
    assert run.ok and out[0] == 12
    assert len(run.trace.select(Op.STORE_ASYNC)) == 12


def test_the_compiler_takes_them():
    pytest.importorskip("cutlass")
    from bench.memory import compiled_cases
    from quack_tutorial.compiler import ptx

    cases = {name: (kernel, *specs) for name, kernel, specs in compiled_cases()}
    named = ("chase peer", "stream 16 x 4", "stream 8 x 4")
    named += ("shared stream", "peer stream", "cluster (True, 4, 256)")
    of_each_kind = {type(kernel): name for name, (kernel, *_) in cases.items()}
    texts = {name: ptx(*cases[name]) for name in (*named, *of_each_kind.values(), "cluster (False, 4, 256)")}
    for release in (True, False):
        assert ("cluster.arrive.relaxed" in texts[f"cluster ({release}, 4, 256)"]) != release
    assert "ld.shared::cluster" in texts["chase peer"]
    assert "ld.global.v4" in texts["stream 16 x 4"] and "ld.global.v2" in texts["stream 8 x 4"]
    assert "ld.shared.v4" in texts["shared stream"]
    assert "ld.shared::cluster.v4" in texts["peer stream"]
    assert "st.async" in texts["ping-pong"]
