"""The cost model, against numbers worked out by hand, and the record that it reads."""

import pytest

from quack_tutorial import cost
from quack_tutorial.records import memory


def hierarchy(**points):
    made = [memory.Point(series.replace("_", " "), name, facts, ns) for (series, name, facts, ns) in points.values()]
    where = {"device": "a GPU", "driver": "1", "date": "2026-01-01", "versions": {"nvidia-cutlass-dsl": "4"}}
    return memory.Hierarchy(where | {"sms": 100, "datasheet_gb_s": 5000.0}, tuple(made))


MADE = hierarchy(hbm=("chase", str(1 << 30), {}, 400.0), stream=("in_flight", "x", {}, 0.00025))  # 400 ns, 4000 GB/s


def test_littles_law_by_hand():
    assert cost.little_gb_s(1000, 400, 100) == 250  # 100 SMs x 1000 bytes every 400 ns
    assert cost.needed_bytes(250, 400, 100) == 1000


def test_a_prediction_is_the_lower_of_bandwidth_and_littles_law():
    whole = cost.predict(4e9, hierarchy=MADE)
    assert (whole.time_us, whole.gb_s, whole.bound) == (pytest.approx(1000), 4000, "bandwidth")
    few = cost.predict(4e9, 1000, MADE)
    assert (few.time_us, few.gb_s, few.bound) == (pytest.approx(16000), 250, "latency")
    assert cost.predict(1, 16000, MADE).bound == "bandwidth"
    assert str(few) == "16,000.0 us at 250 GB/s, bound by latency (predicted)"


@pytest.mark.parametrize(
    ("threads", "registers", "smem", "blocks"),
    [
        (32, 0, 0, 32),  # the most blocks
        (1024, 32, 0, 2),  # the most threads
        (256, 33, 0, 6),  # 33 registers x 32 lanes are given as 1280: 51 warps
        (1024, 65, 0, 0),
        (128, 0, 100 * 1024, 2),  # 101 KB each, of 228
        (128, 0, 228 * 1024, 0),
    ],
)
def test_occupancy_by_hand(threads, registers, smem, blocks):
    assert cost.blocks_per_sm(threads, registers, smem) == blocks


@pytest.mark.parametrize("block", [(0, 0), (1025, 0), (32, 256), (1.5,), ("256",), (256, 1.5), (256, 0, -1)])
def test_what_no_block_has_is_refused(block):
    with pytest.raises(ValueError, match="got"):
        cost.blocks_per_sm(*block)


@pytest.mark.parametrize("wrong", [(None,), (-1,), (float("nan"),), (1e9, 0), (1e9, "many")])
def test_no_time_is_predicted_of_what_are_no_bytes(wrong):
    with pytest.raises(ValueError, match="predict: bytes are numbers that are not negative"):
        cost.predict(*wrong, hierarchy=MADE)


def test_the_recorded_hierarchy_is_in_the_order_that_the_book_tells():
    found = memory.load()
    latencies = [found.latency_ns(level) for level in ("shared", "L1", "peer", "L2", "HBM")]
    assert latencies == sorted(latencies)
    bandwidths = [found.bandwidth_gb_s(level) for level in ("shared", "L2", "HBM")]
    assert bandwidths == sorted(bandwidths, reverse=True)
    assert 0.85 < found.bandwidth_gb_s("HBM") / found.datasheet_gb_s < 1
    with pytest.raises(KeyError, match="no series 'nothing'; there are latency"):
        found.series("nothing")
    with pytest.raises(KeyError, match="there are chase shared"):
        found.point("latency", "nothing")


def test_wavefronts_as_simulated_are_clocks_as_measured():
    points = {point.facts["stride_words"]: point.ns for point in memory.load().series("conflict")}
    for stride, ns in points.items():
        ways = {1: 1, 2: 2, 3: 1, 4: 4, 8: 8, 16: 16, 32: 32, 33: 1}[stride]
        assert ns / points[1] == pytest.approx(ways, rel=0.03)
