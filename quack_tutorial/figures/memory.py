"""Charts of the memory hierarchy as it was measured, see `records.memory`.

| function    | draws                                                                        |
|-------------|------------------------------------------------------------------------------|
| `latency`   | nanoseconds a load over the bytes that a chain of loads goes through          |
| `in_flight` | GB/s over the bytes in flight on an SM, measured and as Little's law has it   |
| `stride`    | useful GB/s over the words between neighbouring lanes                         |
| `conflicts` | nanoseconds a request of shared memory over the words between lanes           |
"""

from __future__ import annotations

from quack_tutorial.cost import little_gb_s, needed_bytes

from .charts import MARKERS, Chart, log2_axis, name_rows, write_beside
from .theme import LIGHT, SERIES

REQUEST_BYTES = 128  # 32 lanes, 4 bytes each


def size(nbytes: int) -> str:
    """4096 -> "4 KiB"."""
    for unit in ("B", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes} {unit}"
        nbytes //= 1024
    return f"{nbytes} GiB"


def latency(hierarchy) -> Chart:
    """Nanoseconds a load of one thread that follows a chain, over the chain's bytes; shared memory as lines beside it."""
    points = hierarchy.series("chase")
    sizes = [point.facts["bytes"] for point in points]
    lines = {"a peer's shared memory": hierarchy.latency_ns("peer"), "shared memory": hierarchy.latency_ns("shared")}

    def draw(axes, wide):
        axes.plot(sizes, [p.ns for p in points], color=SERIES[0][0], marker="o", markersize=4, label="global memory")
        for (name, ns), (colour, _) in zip(lines.items(), SERIES[1:]):
            axes.axhline(ns, color=colour, linestyle=(0, (5, 3)), linewidth=1.4, label=name)
        ticks = sizes[:: 4 if wide else 8]
        log2_axis(axes, ticks, [size(n) for n in ticks])
        axes.set(ylim=(0, None), xlabel="bytes that the chain goes through", ylabel="ns a load")

    levels = ", ".join(f"{level} {hierarchy.latency_ns(level):.0f} ns" for level in ("L1", "L2", "HBM"))
    return Chart(
        draw,
        "How long one load takes",
        f"{levels}; shared memory {lines['shared memory']:.0f} ns, a peer's {lines[next(iter(lines))]:.0f} ns.",
        hierarchy.origin,
        ("bytes", "ns a load"),
        tuple((size(n), f"{p.ns:.1f}") for n, p in zip(sizes, points)),
        height=(4.6, 4.6),
        legend=(3, 1),
    )


def in_flight(hierarchy, here=None) -> Chart:
    """GB/s of reads from HBM over the bytes in flight on an SM, a mark a width of load, and Little's law as a line.

    `here` is what was measured on the reader's own machine, drawn as open marks.
    """
    points, own = hierarchy.series("in flight"), here.series("in flight") if here else ()
    peak, wait = hierarchy.bandwidth_gb_s("HBM"), hierarchy.latency_ns("HBM")
    xs = sorted({p.facts["bytes_in_flight_per_sm"] for p in points})
    law = {x: min(peak, little_gb_s(x, wait, hierarchy.sms)) for x in [*xs, needed_bytes(peak, wait, hierarchy.sms)]}
    widths = sorted({p.facts["vector_bytes"] for p in points})

    def draw(axes, wide):
        look = {"color": LIGHT["ink"], "linestyle": (0, (5, 3)), "linewidth": 1.4}
        axes.plot(*zip(*sorted(law.items())), label="Little's law", **look)
        for width, (colour, _), mark in zip(widths, SERIES, MARKERS):
            mine = [p for p in points if p.facts["vector_bytes"] == width]
            x, y = [p.facts["bytes_in_flight_per_sm"] for p in mine], [p.gb_s for p in mine]
            axes.plot(x, y, color=colour, marker=mark, linestyle="none", markersize=6, label=f"loads of {width} bytes")
            if mine := [p for p in own if p.facts["vector_bytes"] == width]:
                x, y = [p.facts["bytes_in_flight_per_sm"] for p in mine], [p.gb_s for p in mine]
                look = {"linestyle": "none", "markerfacecolor": "none", "markeredgewidth": 1.6, "markersize": 8}
                axes.plot(x, y, color=colour, marker=mark, label=f"{width} bytes, this machine", **look)
        ticks = xs[:: 1 if wide else 3]
        log2_axis(axes, ticks, [size(n) for n in ticks])
        axes.set(ylim=(0, None), xlabel="bytes in flight on an SM", ylabel="GB/s")

    share = f" ({peak / hierarchy.datasheet_gb_s:.0%} of the datasheet's)" if hierarchy.datasheet_gb_s else ""
    mine = f" This machine's: {here.bandwidth_gb_s('HBM'):,.0f} GB/s." if here else ""
    head = "bytes a load;loads a thread;threads an SM;bytes in flight;Little's law, GB/s;measured, GB/s".split(";")
    speeds = {p.name: f"{p.gb_s:,.0f}" for p in own}
    return Chart(
        draw,
        "Bytes in flight decide the bandwidth",
        f"The fastest stream reads {peak:,.0f} GB/s{share}.{mine}",
        " ".join([hierarchy.origin, *([f"This machine: {here.device}, {here.date} UTC."] if here else ())]),
        (*head, *(["this machine, GB/s"] if here else ())),
        tuple(
            (
                str(p.facts["vector_bytes"]),
                str(p.facts["loads"]),
                f"{p.facts['threads_per_sm']:,}",
                f"{p.facts['bytes_in_flight_per_sm']:,}",
                f"{law[p.facts['bytes_in_flight_per_sm']]:,.0f}",
                f"{p.gb_s:,.0f}",
                *([speeds.get(p.name, "")] if here else ()),
            )
            for p in points
        ),
        height=(5.0, 5.0),
        legend=(4, 2),
    )


def stride(hierarchy) -> Chart:
    """Useful GB/s of warps whose lanes read words so far apart; neighbouring words that start off a sector's boundary beside it."""
    points = hierarchy.series("stride")
    apart = [p for p in points if p.facts["offset_words"] == 0]
    shifted = [p for p in points if p.facts["offset_words"]]

    def draw(axes, wide):
        names = [str(p.facts["stride_words"]) for p in apart]
        names += [f"1, from word {p.facts['offset_words']}" for p in shifted]
        values = [REQUEST_BYTES / p.ns for p in (*apart, *shifted)]
        colours = [SERIES[0][0]] * len(apart) + [SERIES[1][0]] * len(shifted)
        places = range(len(names))
        axes.barh(places, values, color=colours, height=0.65)
        name_rows(axes, names)
        axes.set(xlabel="GB/s of the words asked for", ylabel="words between lanes")
        write_beside(axes, places, values, ",.0f")
        axes.set_xlim(right=1.15 * max(values))

    one = REQUEST_BYTES / apart[0].ns
    eight = next(REQUEST_BYTES / p.ns for p in apart if p.facts["stride_words"] == 8)
    return Chart(
        draw,
        "What lanes that are apart cost",
        f"Neighbouring words: {one:,.0f} GB/s. Every eighth: {eight:,.0f}, since each word brings its sector of 32 bytes along.",
        hierarchy.origin,
        ("words between lanes", "first word", "ns a request", "useful GB/s"),
        tuple(
            (str(p.facts["stride_words"]), str(p.facts["offset_words"]), f"{p.ns:.4f}", f"{REQUEST_BYTES / p.ns:,.0f}")
            for p in points
        ),
    )


def conflicts(hierarchy) -> Chart:
    """Nanoseconds that a request of shared memory takes on one SM, over the words between lanes."""
    points = hierarchy.series("conflict")

    def draw(axes, wide):
        places = range(len(points))
        axes.bar(places, [p.ns for p in points], color=SERIES[0][0], width=0.65)
        axes.set_xticks(places, [p.name for p in points])
        axes.set(xlabel="words between lanes", ylabel="ns a request")
        look = {"ha": "center", "va": "bottom", "color": LIGHT["ink"], "fontsize": 11.5}
        for place, point in zip(places, points):
            axes.annotate(f"{point.ns:.2f}", (place, point.ns), **look)

    return Chart(
        draw,
        "What a bank conflict costs",
        f"{points[0].ns:.2f} ns without a conflict; {max(p.ns for p in points):.1f} ns where all lanes meet in one bank.",
        hierarchy.origin,
        ("words between lanes", "ns a request"),
        tuple((p.name, f"{p.ns:.2f}") for p in points),
        height=(3.8, 3.8),
    )
