"""`hierarchy`: the memories of a GPU, wider the more threads share them, with their sizes, and what was measured of each."""

from __future__ import annotations

from .player import Frame, Player
from .scene import Box, Label, Scene

WIDTH, ROW, HEIGHT = 720, 62, 24
# What the authors of QuACK say of an H100: ns a load, and TB/s of all SMs, in their post of 2025-07-10.
POST = {
    "registers": ("a few ns", "> 100 TB/s"),
    "shared": ("~10 to 20 ns", "~20 to 30 TB/s"),
    "L2": ("~150 to 200 ns", "~5 to 10 TB/s"),
    "HBM": ("~400 ns", "3.35 TB/s"),
}


def hierarchy(measured) -> Player:
    """Registers, shared memory, a peer's, L2 and HBM; `measured` is a `records.memory.Hierarchy`, sizes are those of its GPU."""
    chip = measured.gpu
    sms, kib, mib = chip.sms, 1024, 1024**2
    latencies = {point.name: point.ns for point in measured.series("latency")}
    rows = [
        (
            "registers",
            f"registers: {4 * chip.registers_per_sm // kib} KiB an SM",
            "a thread",
            f"{latencies['multiply-add']:.1f} ns a multiply-add, {latencies['shuffle']:.0f} ns a shuffle",
        ),
        ("shared", f"shared memory: {chip.smem_per_sm_bytes // kib} KiB an SM", "a block", ""),
        ("peer", "other blocks' shared memory", "a cluster", ""),
        ("L2", f"L2: {chip.l2_bytes // mib} MiB", "all blocks", ""),
        ("HBM", f"HBM: {chip.memory_gb} GB", "all blocks", ""),
    ]
    boxes, labels, texts = [], [], []
    for i, (level, name, who, told) in enumerate(rows):
        width, y = (5 + i) / 9 * (WIDTH - 4), i * ROW + 2
        told = told or f"{measured.latency_ns(level):.0f} ns a load, {measured.bandwidth_gb_s(level):,.0f} GB/s"
        post = f"; the post: {', '.join(POST[level])}" if level in POST else ""
        boxes.append(Box(WIDTH / 2 - width / 2, y, width, HEIGHT))
        labels.append(Label(WIDTH / 2, y + HEIGHT + 12, f"{who}: {told}{post}", "middle"))
        texts.append(name)
    times = measured.latency_ns("HBM") / measured.latency_ns("shared")
    faster = measured.bandwidth_gb_s("shared") / measured.bandwidth_gb_s("HBM")
    caption = (
        f"The wider, the more threads share it, and the farther away it is. A load from HBM takes {times:.0f} times as long as one "
        f"from shared memory, and all {sms} SMs together read {faster:.0f} times as much from shared memory as from HBM."
    )
    scene = Scene(WIDTH, len(rows) * ROW, tuple(boxes), tuple(labels))
    origin = (
        f"{measured.origin} GB/s are those of all SMs together. Sizes: NVIDIA's, of the {chip.name}; one block may have "
        f"{chip.smem_per_block_bytes // kib} KiB of an SM's shared memory. The datasheet gives HBM {chip.bandwidth_gb_s:,} GB/s. "
        "The post: QuACK's authors of an H100."
    )
    frame = Frame(caption, "01236", tuple(texts))
    return Player("Who shares which memory, and how far it is", scene, (frame,), origin)
