"""How numbers, lanes, addresses and events read in a picture."""

from __future__ import annotations

import math

import numpy as np

from cutesim.trace import SMEM_BLOCK_BITS, Op, Space

LANES = 32
NOTHING = "·"  # in the box of a lane that takes no part


def short(value: float) -> str:
    """A number in 5 characters: 3 digits that count, 2 where it is negative, "12k" for 12345, ".0006", "4e−10", "nan", "inf"."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "−inf"
    sign, size = ("−" if value < 0 else ""), abs(value)
    if size == int(size) and size < 10_000:
        return f"{sign}{int(size)}"
    if 0.0095 <= size < 999.5:
        digits = 0 if size >= 99.5 else 1 if size >= 9.995 else 2
        if sign and size >= 0.995:
            digits = max(0, digits - 1)
        return sign + f"{size:.{digits}f}".removeprefix("0")
    for limit, unit in ((1e6, "k"), (1e9, "M"), (1e12, "G")):
        if 999.5 <= size < limit * 0.9995:
            return f"{sign}{size / limit * 1e3:.0f}{unit}"
    if 0.00095 <= size < 0.0095:
        return sign + f"{size:.3f}".removeprefix("0")
    if 0.000095 <= size < 0.00095 and not sign:
        return f"{size:.4f}".removeprefix("0")
    mantissa, exponent = f"{size:.0e}".split("e")
    if sign and int(exponent) < -9:
        return "−0"  # a sixth character, and nothing beside the numbers around it
    return f"{sign}{mantissa}e{int(exponent)}".replace("-", "−")


def full(value: float) -> str:
    """A number in a sentence: 6 digits that count."""
    return f"{value:.6g}".replace("-", "−")


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun: "1 word", "4 words"."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def ranges(numbers) -> str:
    """0, 1, 2, 5 as "0-2, 5"."""
    ordered = sorted({int(n) for n in numbers})
    parts, first = [], None
    for n, following in zip(ordered, [*ordered[1:], None]):
        first = n if first is None else first
        if following != n + 1:
            parts.append(str(n) if first == n else f"{first}-{n}")
            first = None
    return ", ".join(parts)


def active(event) -> np.ndarray:
    """Which of the 32 lanes took part."""
    return (int(event["mask"]) >> np.arange(LANES, dtype=np.int64)) & 1 == 1


def lane_words(lanes: np.ndarray) -> str:
    """Lanes in words: "all 32 lanes", "lane 0", "lanes 0-7"."""
    chosen = np.nonzero(lanes)[0]
    if len(chosen) == LANES:
        return "all 32 lanes"
    return f"lane{'s' * (len(chosen) != 1)} {ranges(chosen)}"


def offset_in(tensor, address: int) -> int:
    """Bytes from a tensor's element 0 to an address."""
    if tensor.space != Space.GMEM:
        address &= (1 << SMEM_BLOCK_BITS) - 1
    return int(address) - tensor.base_address


def element(tensor, address: int) -> str:
    """The element at an address, as x[3, 128]."""
    index = offset_in(tensor, address) // tensor.itemsize
    coordinate = [0] * len(tensor.shape)
    modes = sorted(((s, i) for i, s in enumerate(tensor.stride) if isinstance(s, int) and s), reverse=True)
    if len(modes) < len(tensor.shape) and any(not isinstance(s, int) for s in tensor.stride):
        return f"{tensor.name}, element {index}"  # nested modes: the flat index is what there is to say
    for stride, mode in modes:
        coordinate[mode], index = divmod(index, stride)
    return f"{tensor.name}[{', '.join(map(str, coordinate))}]"


def verb(event, plural: bool = True) -> str:
    """What the lanes of an event do: "read", "write", …"""
    words = {Op.LOAD: "read", Op.STORE: "write", Op.ATOMIC: "update", Op.ASYNC_COPY: "copy"}
    word = words[Op(int(event["op"]))]
    if plural:
        return word
    return "copies" if word == "copy" else word + "s"


def picked(
    trace, launch: int, block: int | None = None, warp: int | None = None, line: int | None = None
) -> np.ndarray:
    """The events of a launch, of one block, of one warp, of one line number; ValueError where there is none."""
    events = trace.events
    keep = events["launch"] == launch
    if block is not None:
        keep &= events["block"] == block
    if warp is not None:
        keep &= events["warp"] == warp
    if line is not None:
        keep &= np.isin(events["line"], [i for i, row in enumerate(trace.lines) if row.number == line])
    if not keep.any():
        asked = {"launch": launch, "block": block, "warp": warp, "line": line}
        told = ", ".join(f"{name} {value}" for name, value in asked.items() if value is not None)
        if not len(trace.events):
            error = ValueError("nothing can be drawn: the run stopped before its first access, as its finding says")
            error._render_traceback_ = lambda: [str(error)]  # a notebook shows this sentence alone
            raise error
        here = sorted({row.number for row in trace.lines})
        raise ValueError(f"the trace has no event of {told}; its events are on lines {ranges(here) or 'none'}")
    return events[keep]


def touched(trace, events, name, lacks, none) -> list[int]:
    """The numbers of the tensors of these events, by address, or of the one called `name`; ValueError where there is none."""
    found = sorted(set(map(int, events["tensor"])), key=lambda t: trace.tensors[t].base_address)
    chosen = [t for t in found if name in (None, trace.tensors[t].name)]
    if not chosen:
        names = ", ".join(trace.tensors[t].name for t in found) or "none"
        raise ValueError(none if name is None else f"{lacks} {names}")
    return chosen


def line_of(trace, event) -> dict:
    """Where an event's line of source is and what it says, as a frame has it; nothing for no event."""
    if event is None:
        return {}
    line = trace.line(event)
    return {"where": line.where, "source": line.text}


def row(table: np.ndarray, index: int) -> np.ndarray | None:
    """A row of trace.addresses or trace.values, or None where the event has none."""
    return table[int(index)] if index >= 0 else None


def origin(trace, launch: int, *place: str) -> str:
    """What a picture of a trace is from."""
    name = trace.launches[launch].kernel if trace.launches else "kernel"
    of = "" if name == "kernel" else f" of {name}"
    return f"Simulated: drawn from a run{of} on the simulator{''.join(', ' + p for p in place)}."
