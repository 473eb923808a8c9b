"""`hierarchy`: the memories of a GPU, wider the more threads share them, with their sizes, and what was measured of each."""

from __future__ import annotations

from .player import Frame, Player
from .scene import PHONE, Box, Label, Scene

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
    boxes, narrow, labels, small, texts = [], [], [], [], []
    for i, (level, name, who, told) in enumerate(rows):
        share = (5 + i) / 9
        told = told or f"{measured.latency_ns(level):.0f} ns a load, {measured.bandwidth_gb_s(level):,.0f} GB/s"
        post = f"the post: {', '.join(POST[level])}" if level in POST else ""
        for drawn, notes, width, row in ((boxes, labels, WIDTH, ROW), (narrow, small, PHONE, ROW + 16)):
            wide, y = share * (width - 4), i * row + 2
            drawn.append(Box(width / 2 - wide / 2, y, wide, HEIGHT))
            lines = [f"{who}: {told}"] + [post] * bool(post)
            if width == WIDTH:
                lines = ["; ".join(lines)]
            notes += [Label(width / 2, y + HEIGHT + 12 + 15 * k, line, "middle") for k, line in enumerate(lines)]
        texts.append(name)
    times = measured.latency_ns("HBM") / measured.latency_ns("shared")
    faster = measured.bandwidth_gb_s("shared") / measured.bandwidth_gb_s("HBM")
    caption = (
        f"The wider, the more threads share it, and the farther away it is. A load from HBM takes {times:.0f} times as long as one "
        f"from shared memory, and all {sms} SMs together read {faster:.0f} times as much from shared memory as from HBM."
    )
    phone = Scene(PHONE, len(rows) * (ROW + 16), tuple(narrow), tuple(small))
    scene = Scene(WIDTH, len(rows) * ROW, tuple(boxes), tuple(labels), narrow=phone)
    origin = (
        f"{measured.origin} GB/s are those of all SMs together. Sizes: NVIDIA's, of the {chip.name}; one block may have "
        f"{chip.smem_per_block_bytes // kib} KiB of an SM's shared memory. The datasheet gives HBM {chip.bandwidth_gb_s:,} GB/s. "
        "The post: QuACK's authors of an H100."
    )
    frame = Frame(caption, "01236", tuple(texts))
    return Player("Who shares which memory, and how far it is", scene, (frame,), origin)
