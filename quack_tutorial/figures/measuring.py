"""Charts and tables of how times are taken: from the benchmark's records, and from those of the pitfalls.

| function       | shows                                                                                       |
|----------------|---------------------------------------------------------------------------------------------|
| `launch_bound` | a kernel's time against a copy's: in a CUDA graph, and one launch between events            |
| `cheats`       | the cheats of `bench.cheats`, and which checks catch each                                   |
| `pitfalls`     | a series of the pitfalls as a table                                                         |
| `hints`        | how much quicker a kernel seems because of what another left in L2                          |
| `clocks`       | time, clock and power over seconds of the same work                                         |
| `fast_p`       | the share of cells in which an implementation is more than p times as fast as a baseline    |
| `levels`       | chapter 16's kernels beside what ships, as shares of a copy's speed                         |

What is not recorded says so.
"""

from __future__ import annotations

from html import escape

from quack_tutorial.records import bench as bench_records
from quack_tutorial.records import results

from .charts import Chart, draw_lines, grouped_bars, log2_axis
from .suites import Shown, shown, table
from .theme import LIGHT
from .training import not_yet

MIB = 1 << 20


def launch_bound(records, operation: str, dtype: str, M: int, host_us: float) -> Chart:
    """Microseconds of our kernel over the bytes it moves; `host_us`, what a call costs on the host, as a line."""
    found = [
        (record, cell, cell.result("ours"))
        for key, (record, cell) in sorted(bench_records.latest_cells(records).items())
        if (key.operation, key.dtype, key.M) == (operation, dtype, M)
    ]
    found = [(record, cell, own) for record, cell, own in found if own and own.do_bench_us]
    sizes = [cell.bytes_moved / MIB for _, cell, _ in found]
    events = [own.do_bench_us for _, _, own in found]
    graph = [cell.bytes_moved / own.gb_s / 1e3 for _, cell, own in found]
    copy = [cell.bytes_moved / cell.ceiling_gb_s / 1e3 for _, cell, _ in found]
    lines = {
        "between events, one launch (do_bench)": events,
        "in a CUDA graph": graph,
        "what the call costs on the host": [host_us] * len(found),
    }

    def draw(axes, wide):
        axes.axhline(1, color=LIGHT["ink"], linewidth=1.2, label="a copy of the same size, in a graph")
        times = {name: (sizes, [us / of_copy for us, of_copy in zip(values, copy)]) for name, values in lines.items()}
        draw_lines(axes, times, marked=True)
        ticks = [2**k for k in range(3, 14, 1 if wide else 2) if 2**k <= 1.01 * sizes[-1]]
        log2_axis(axes, ticks, [f"{size:,}" for size in ticks])
        axes.set(ylim=(0, None), xlabel="MiB moved", ylabel="time, the copy's = 1")

    record = found[0][0]
    return Chart(
        draw,
        f"One kernel, two timers: {operation}, {dtype}, {M:,} rows",
        f"{sizes[0]:.0f} MiB: {events[0]:.1f} us between events, {graph[0]:.1f} in a graph. "
        f"{sizes[-1]:,.0f} MiB: {events[-1]:,.0f} and {graph[-1]:,.0f}.",
        f"Measured on {record.device}, driver {record.driver}, torch {record.versions['torch']}, {record.days}.",
        ("N", "MiB moved", "between events, us", "in a graph, us", "a copy, us"),
        tuple(
            (f"{cell.N:,}", f"{size:,.1f}", f"{a:,.2f}", f"{b:,.2f}", f"{c:,.2f}")
            for (_, cell, _), size, a, b, c in zip(found, sizes, events, graph, copy)
        ),
        height=(4.6, 5.6),
        legend=(2, 1),
    )


def cheats(honest, verdicts, caught) -> Shown:
    """A row a cheat: how many times as fast as `honest` the naive benchmark calls it, and a mark for each check that objects."""
    checks = list(dict.fromkeys(check for reasons in caught.values() for check in reasons))
    head = ("candidate", "naive", *checks)
    rows = [
        (
            name,
            f"{honest.ms / verdict.ms:,.1f} x" if verdict.right else "wrong",
            *("●" if check in caught[name] else "" for check in checks),
        )
        for name, verdict in verdicts.items()
    ]
    found = shown(head, rows)
    return Shown(f'<div style="font-size: 0.8em">{found.html}</div>', found.text)


def pitfalls(recorded, series: str) -> Shown:
    """A series: each way of timing, its median and its range, and GB/s where the bytes are known."""
    if recorded is None or not recorded.series(series):
        return not_yet()
    rows, full = [], ("timed so", "", "rows x columns", "us a launch", "least to most", "GB/s")
    for point in recorded.series(series):
        facts = ", ".join(f"{key} {value}" for key, value in point.facts.items() if key not in ("bytes", "M", "N"))
        of = f"{point.facts['M']:,} x {point.facts['N']:,}" if "M" in point.facts else ""
        gb_s = f"{point.gb_s:,.0f}" if "bytes" in point.facts else ""
        low, high = min(point.samples_us), max(point.samples_us)
        rows.append((point.name, facts, of, f"{point.us:,.2f}", f"{low:,.2f} to {high:,.2f}", gb_s))
    shown = [i for i in range(len(full)) if any(row[i] for row in rows)]
    head, *rows = ([row[i] for i in shown] for row in (full, *rows))
    text = "\n".join("  ".join(row) for row in (head, *rows))
    return Shown(f"{table(head, rows)}<p><small>{escape(recorded.origin)}</small></p>", f"{text}\n{recorded.origin}")


def hints(recorded) -> Chart | Shown:
    """Percent that a kernel seems quicker than with L2 cleared and 16 x L2 of inputs, by kernel and by what L2 holds."""
    if recorded is None or not recorded.series("hint"):
        return not_yet()
    names = list(dict.fromkeys(point.name for point in recorded.series("hint")))
    states = ((3, "as it is"), (3, "kept lines released"), (16, "as it is"), (16, "cleared"))

    def us(name, multiple, state):
        return recorded.us("hint", name, multiple=multiple, L2=state)

    gains = {s: [100 * (us(n, 16, "cleared") / us(n, *s) - 1) for n in names] for s in states[:-1]}

    def draw(axes, wide):
        series = {f"{multiple} x L2, {state}": values for (multiple, state), values in gains.items()}
        grouped_bars(axes, [n if wide else n.replace(" ", "\n", 1) for n in names], series, 0.26, 0.24)
        axes.axvline(0, color=LIGHT["ink"], linewidth=1)
        axes.set_xlabel("% quicker than with 16 x L2, cleared")

    worst = max(range(len(names)), key=lambda i: gains[states[0]][i])
    return Chart(
        draw,
        "What a hint left in L2 does to the next kernel",
        f"Right after a kernel with the hint, over 3 x L2 of inputs: {names[worst]}, {gains[states[0]][worst]:+.1f} %.",
        recorded.origin,
        ("kernel", *[f"{multiple} x L2, {state}, us" for multiple, state in states]),
        tuple((name, *[f"{us(name, *state):.2f}" for state in states]) for name in names),
        height=(4.4, 5.6),
        legend=(3, 1),
    )


def clocks(recorded) -> Chart | Shown:
    """Time a launch over the seconds that the same work goes on, against that work's first sample."""
    if recorded is None or not recorded.series("clock"):
        return not_yet()
    works = {}
    for point in recorded.series("clock"):
        works.setdefault(point.name, []).append(point)

    def draw(axes, wide):
        relative = [[p.us / points[0].us for p in points] for points in works.values()]
        seconds = [[p.facts["seconds"] for p in points] for points in works.values()]
        draw_lines(axes, dict(zip(works, zip(seconds, relative))), marked=True)
        axes.set(xlabel="seconds of the same work", ylabel="time, first sample = 1")

    def known(point, key):
        return f"{point.facts[key]:,.0f}" if key in point.facts else ""

    drifts = {name: points[-1].us / points[0].us - 1 for name, points in works.items()}
    most = max(drifts, key=lambda name: abs(drifts[name]))
    return Chart(
        draw,
        "The same work, second after second",
        f"The largest change from the first sample to the last: {most}, {drifts[most]:+.1%}.",
        recorded.origin,
        ("work", "first, us", "last, us", "MHz first", "MHz last", "W first", "W last"),
        tuple(
            (
                name,
                f"{p[0].us:,.1f}",
                f"{p[-1].us:,.1f}",
                *(known(p[i], key) for key in ("sm_mhz", "watts") for i in (0, -1)),
            )
            for name, p in works.items()
        ),
        height=(4.4, 6.0),
        legend=(2, 1),
    )


def fast_p(records, provider: str, baselines) -> Chart:
    """The share of recorded cells in which `provider` is right and more than p times as fast, a line for each baseline."""
    gains = {baseline: list(results.speedups(records, provider, baseline).values()) for baseline in baselines}
    places = [0.8 + 0.01 * i for i in range(221)]
    curves = {baseline: [100 * results.fast_p(found, p) for p in places] for baseline, found in gains.items()}

    def draw(axes, wide):
        draw_lines(axes, {f"against {baseline}": (places, curve) for baseline, curve in curves.items()}, linewidth=2)
        axes.axvline(1, color=LIGHT["soft"], linewidth=1)
        axes.set(ylim=(0, 102), xlabel="p, times as fast", ylabel="% of the cells: fast_p")

    marks = (0.8, 1.0, 1.2, 1.5, 2.0)
    first, last = baselines[0], baselines[-1]
    devices = sorted({record.device for record in records})
    days = bench_records.first_to_last([day for record in records for day in record.days.split(" to ")])
    return Chart(
        draw,
        f"fast_p of {provider}",
        f"More than 1.5 times as fast as {first} in {results.fast_p(gains[first], 1.5):.0%} of the cells, "
        f"as {last} in {results.fast_p(gains[last], 1.5):.0%}.",
        f"Computed from {len(gains[first])} cells measured on {', '.join(devices)}, {days}.",
        ("against", *[f"fast_{p:g}" for p in marks]),
        tuple((b, *[f"{results.fast_p(found, p):.1%}" for p in marks]) for b, found in gains.items()),
        height=(4.4, 5.4),
        legend=(4, 2),
    )


def levels(recorded) -> Chart | Shown:
    """Chapter 16's kernels as percent of a copy's speed, a group of bars a type and size; the summary says what overlap saves."""
    if recorded is None:
        return not_yet()
    cells, names = recorded.cells, [name for name in recorded.cells[0].us if name != "copy"]

    def draw(axes, wide):
        labels = [f"{cell.dtype},{' ' if wide else chr(10)}{cell.M:,} x {cell.N:,}" for cell in cells]
        shares = {name: [100 * cell.of_copy(name) for cell in cells] for name in names}
        grouped_bars(axes, labels, shares, 0.8 / len(names), 0.72 / len(names))
        axes.axvline(100, color=LIGHT["ink"], linewidth=1.2)
        axes.set_xlabel("% of the speed of torch's copy")

    saved = [(cell.us["template"] - cell.us["overlapping"], cell) for cell in cells]
    said = [f"{us:.2f} of {cell.us['template']:.1f} us at {cell.M:,} x {cell.N:,} {cell.dtype}" for us, cell in saved]
    rows = []
    for cell in cells:
        for name in cell.us:
            size = (f"{cell.dtype}, {cell.M:,} x {cell.N:,}", name, f"{cell.us[name]:,.2f}", f"{cell.gb_s(name):,.0f}")
            peak = f"{cell.gb_s(name) / recorded.datasheet_gb_s:.0%}" if recorded.datasheet_gb_s else ""
            rows.append((*size, f"{cell.of_copy(name):.0%}", peak))
    return Chart(
        draw,
        "Three levels of one softmax",
        f"Overlap saves the template {said[0]}, and {said[-1]}.",
        recorded.origin,
        ("softmax", "kernel", "us a launch", "GB/s", "of the copy", "of the datasheet's peak"),
        tuple(rows),
        height=(1.2 + 0.8 * len(cells),) * 2,
        legend=(len(names), 2),
    )
