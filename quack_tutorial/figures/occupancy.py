"""What fits on an SM, behind sliders: the resident warps, the bytes in flight, and the bandwidth that the model predicts."""

from __future__ import annotations

from quack_tutorial import cost

from .grid import explorer
from .player import Frame, Player
from .scene import Box, Label, Scene


def occupancy(hierarchy) -> Player:
    """Sliders for a kernel's block and loads: the warps that an SM then holds, the bytes in flight, and what the model predicts."""
    slots = tuple(Box(4 + 38 * (k % 16), 24 + 17 * (k // 16), 34, 13) for k in range(64))
    bar = Box(4, 116, 604, 15, wide=True)
    labels = (Label(4, 16, "places for warps on one SM", kind="small"), Label(4, 110, "bytes in flight", kind="small"))
    scene = Scene(612, 136, (*slots, bar), labels)
    needed = cost.needed_bytes(hierarchy.bandwidth_gb_s("HBM"), hierarchy.latency_ns("HBM"), hierarchy.sms)

    def draw(threads, registers, shared, loads):
        smem_bytes = int(shared.split()[0]) * 1024
        blocks = cost.blocks_per_sm(threads, registers, smem_bytes)
        warps, per_thread = blocks * threads // 32, 16 * loads
        in_flight = 32 * warps * per_thread
        roles = "r" * warps + "-" * (64 - warps) + ("a" if in_flight >= needed else "w")
        if not blocks:
            return Frame("Not one such block fits on an SM.", "-" * 64 + "f", ("",) * 64 + ("0 KiB",))
        predicted = cost.predict(1e9, in_flight, hierarchy)
        caption = (
            f"{blocks} block{'s' * (blocks != 1)} of {threads} threads: {warps} of 64 warps, {in_flight / 1024:,.0f} KiB in flight "
            f"on each SM. The model predicts {predicted.gb_s:,.0f} GB/s, bound by {predicted.bound}."
        )
        return Frame(
            caption, roles, ("",) * 64 + (f"{in_flight / 1024:,.0f} KiB; Little's law asks for {needed / 1024:,.0f}",)
        )

    axes = {
        "threads": (128, 256, 512, 1024),
        "registers": (32, 64, 128, 248),
        "shared": ("0 KiB", "16 KiB", "64 KiB", "200 KiB"),
        "loads": (1, 2, 4, 8),
    }
    key = (("r", "a warp is here"), ("-", "free"), ("a", "enough in flight"), ("w", "too little"))
    start = {"threads": 256, "registers": 64, "shared": "0 KiB", "loads": 1}
    origin = (
        "Computed: threads of a block, registers of a thread, shared memory of a block, 16-byte loads in flight a thread. "
        f"The rules are NVIDIA's, latency and bandwidth measured. {hierarchy.origin}"
    )
    return explorer("What fits on an SM", axes, scene, draw, origin, key, start)
