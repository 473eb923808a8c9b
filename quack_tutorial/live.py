"""Explorers that run kernels: in a live notebook, each move of a slider simulates or times one on this machine.

| function   | runs                       | says                                                                       |
|------------|----------------------------|----------------------------------------------------------------------------|
| `strides`  | `kernels.memory.Strided`   | sectors a request, and on a GPU the useful GB/s, beside the recorded ones   |
| `streams`  | `kernels.memory.Stream`    | bytes in flight, what Little's law allows, the GB/s here and as recorded    |
| `versions` | `kernels.softmax.LADDER`   | operations a byte, bytes that a version asks for, its time here and as recorded |

The published pages have pictures of the same things that need no kernel: `figures.strides`, `figures.occupancy`,
`figures.roofline`. Each function here takes the device that `qt.start()` found, "cuda" or "cpu", and returns sliders of
ipywidgets. Without ipywidgets it says its piece once, for the first choice; while a book is being built it says nothing.
"""

from __future__ import annotations

import contextlib
import io
import os

import numpy as np

from quack_tutorial import cost, hardware
from quack_tutorial.notebook import recorded, time
from quack_tutorial.records import folder, memory

OPERATIONS = 5  # a softmax's, for each element: maximum, subtraction, exponential, sum, product
# Else JupyterLab takes the keys that are pressed in a slider for its own: d twice deletes the cell.
KEEPS_ITS_KEYS = """<script>
document.currentScript?.closest(".jp-OutputArea")?.addEventListener("focusin", (event) =>
  event.target.setAttribute("data-lm-suppress-shortcuts", "true"));
</script>"""


def strides(device: str):
    """Sliders for how many words lanes are apart, and at which word they begin."""
    return _panel(say_stride, device, stride=(1, 2, 4, 8, 16, 32), offset=(0, 1, 2, 4, 8, 16))


def streams(device: str):
    """Sliders for the bytes of a load, the loads that a thread has in flight, and the threads of an SM."""
    return _panel(
        say_stream, device, vector_bytes=(4, 8, 16), loads=(1, 2, 4, 8), threads_per_sm=(128, 256, 512, 1024, 2048)
    )


def versions(device: str):
    """Sliders for a version of softmax, its dtype and the length of a row."""
    from quack_tutorial.kernels.softmax import LADDER

    return _panel(
        say_version, device, version=tuple(LADDER), dtype=("float32", "bfloat16"), N=(1024, 4096, 8192, 16384, 32768)
    )


def say_stride(device, stride, offset):
    """Print what lanes `stride` words apart cost, from word `offset` on."""
    from cutesim import analysis
    from cutesim.simulation import simulate
    from quack_tutorial.kernels.memory import Strided

    kernel = Strided(stride, offset, threads=32)
    words = np.zeros(8 * 32 * stride + offset, np.float32)
    run = simulate(kernel, words, np.zeros((1, 32), np.float32), 8)
    requests = analysis.requests(run.trace)
    sectors = requests[requests["kind"] == 0]["sectors"].mean()
    print(f"stride {stride}, offset {offset}: {sectors:.1f} sectors a request of 128 bytes (simulated)")
    for point in memory.load().series("stride"):
        if point.name == f"{stride} + {offset}":
            print(f"recorded on {_card()}: {128 / point.ns:,.0f} GB/s of the words that were asked for")
    if device == "cuda":
        import torch

        x, sums = torch.randn(1 << 28, device=device), torch.empty(8 * _sms(), 256, device=device)
        count = (len(x) - offset) // (sums.numel() * stride) // 8 * 8
        print(time(Strided(stride, offset), x, sums, count, nbytes=4 * count * sums.numel()))


def say_stream(device, vector_bytes, loads, threads_per_sm):
    """Print the bytes in flight of so many threads with so many loads, and the bandwidth that follows."""
    found, in_flight = memory.load(), vector_bytes * loads * threads_per_sm
    print(f"{in_flight:,} bytes in flight on an SM")
    predicted = cost.predict(1, in_flight)
    print(
        f"model of {'this machine' if predicted.here else _card()}: {predicted.gb_s:,.0f} GB/s, bound by {predicted.bound}"
    )
    name = f"{vector_bytes} x {loads} x {threads_per_sm}"
    point = next((point for point in found.series("in flight") if point.name == name), None)
    print(
        f"recorded on {_card()}: {point.gb_s:,.0f} GB/s" if point else "not recorded: registers for so many are short"
    )
    if device == "cuda":
        import torch

        from quack_tutorial.kernels.memory import Stream

        kernel = Stream(vector_bytes, loads, 128)
        x = torch.randn((1 << 28) // kernel.chunk * kernel.chunk, device=device)
        sums = torch.empty(_sms() * threads_per_sm // 128, 128, device=device)
        print(time(kernel, x, sums, 1, nbytes=4 * x.numel()))


def say_version(device, version, dtype, N):
    """Print what one version of softmax asks for, and how long it takes."""
    import torch

    from cutesim import analysis
    from cutesim.simulation import simulate
    from quack_tutorial.compiler import DTYPES
    from quack_tutorial.kernels import softmax

    x = torch.randn(1, N).to(getattr(torch, dtype))
    kernel = softmax.LADDER[version](getattr(softmax.cutlass, DTYPES[dtype]), N)
    run = simulate(kernel, x, torch.empty_like(x))
    least = 2 * N * x.element_size()
    asked = analysis.bytes_moved(run.trace).total["moved"]
    print(f"{version}, {dtype}, rows of {N:,}: {OPERATIONS * N / least:.3g} operations a byte that must move;")
    print(f"it asks for {asked / least:.2f} times the bytes that must move (simulated)")
    held = recorded("softmax", dtype, N=N, ladder=True)
    if version in held.names:
        print(
            f"recorded on {_card()}: {held[version].us:,.0f} us, {held[version].of_copy:.0%} of the {held.ruler}'s speed"
        )
    if device == "cuda":
        x = torch.randn(32768, N, device=device).to(x.dtype)
        print(time(kernel, x, torch.empty_like(x)))


def _card():
    """The card whose records are shown, as a sentence names it."""
    return hardware.called(folder().name)


def _panel(say, device, **choices):
    """Sliders over `choices` that call `say(device, ...)` after each move; None where there is nobody to move them."""
    # A book is being built, or a page runs the chapter.
    if os.environ.get("QUACK_TUTORIAL_PROGRESS") == "0":
        return None
    try:
        import ipywidgets
        from IPython.display import HTML, display
    except ImportError:
        print("The sliders need ipywidgets: pip install ipywidgets. Their first choice:")
        say(device, **{name: values[0] for name, values in choices.items()})
        return None
    controls = {
        name: ipywidgets.SelectionSlider(
            options=values,
            description=name.replace("_", " "),
            continuous_update=False,
            style={"description_width": "initial"},
        )
        for name, values in choices.items()
    }

    def said(**chosen):
        # A progress line would stay: ipywidgets' output cannot be emptied.
        with contextlib.redirect_stderr(io.StringIO()):
            say(device, **chosen)

    display(HTML(KEEPS_ITS_KEYS))
    return ipywidgets.interactive(said, **controls)


def _sms() -> int:
    import torch

    return torch.cuda.get_device_properties(0).multi_processor_count
