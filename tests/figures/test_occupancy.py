"""What fits on an SM: the sliders' frames against the rules of occupancy, done by hand."""

from quack_tutorial import cost, figures
from quack_tutorial.records import memory


def frames():
    player = figures.occupancy(memory.load())
    axes = [[*values] for values in player.axes.values()]
    from itertools import product

    return dict(zip(product(*axes), player.frames)), player


def test_full_occupancy_and_what_registers_and_shared_memory_take():
    by_choice, _ = frames()
    full = by_choice["256", "32", "0 KiB", "1"]
    assert full.roles[:64] == "r" * 64
    assert full.caption.startswith("8 blocks of 256 threads: 64 of 64 warps, 32 KiB in flight")
    # 65,536 registers / 64 = 1024 threads
    assert by_choice["256", "64", "0 KiB", "1"].roles.count("r") == 32
    # three blocks of 65 KiB in 228
    assert by_choice["128", "32", "64 KiB", "1"].roles.count("r") == 12
    assert by_choice["1024", "128", "0 KiB", "8"].caption == "Not one such block fits on an SM."


def test_the_bar_is_green_where_little_s_law_is_content():
    by_choice, player = frames()
    h200 = memory.load()
    needed = cost.needed_bytes(h200.bandwidth_gb_s("HBM"), h200.latency_ns("HBM"), h200.sms)
    for (_threads, _registers, _shared, loads), frame in by_choice.items():
        in_flight = frame.roles[:64].count("r") * 32 * 16 * int(loads)
        assert frame.roles[64] == ("f" if not in_flight else "a" if in_flight >= needed else "w")
    assert len(player._repr_html_()) < 140_000
