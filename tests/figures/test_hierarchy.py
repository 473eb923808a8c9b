"""The picture of the memories says what the record and NVIDIA's tables say."""

from quack_tutorial import figures, hardware
from quack_tutorial.records import memory

CARD = memory.load()


def test_each_memory_has_its_size_its_latency_and_its_bandwidth():
    player = figures.hierarchy(CARD)
    chip = hardware.find(CARD.device)
    (frame,) = player.frames
    assert frame.texts[0] == "registers: 256 KiB an SM" and 4 * chip.registers_per_sm == 256 * 1024
    assert [text.split(":")[0] for text in frame.texts[3:]] == ["L2", "HBM"]
    scene = player.scene
    told = " | ".join(label.text for label in scene.labels)
    for level in ("shared", "peer", "L2", "HBM"):
        assert f"{CARD.latency_ns(level):.0f} ns a load, {CARD.bandwidth_gb_s(level):,.0f} GB/s" in told
    widths = [box.width for box in scene.boxes]
    assert widths == sorted(widths)
    assert all(0 <= box.x and box.x + box.width <= scene.width for box in scene.boxes)
    assert max(label.y for label in scene.labels) < scene.height


def test_the_caption_compares_what_was_measured():
    caption = figures.hierarchy(CARD).frames[0].caption
    assert f"{CARD.latency_ns('HBM') / CARD.latency_ns('shared'):.0f} times as long" in caption
    found = f"{CARD.bandwidth_gb_s('shared') / CARD.bandwidth_gb_s('HBM'):.0f} times as much"
    assert found in caption
