"""What Nsight Compute counted, as charts and tables: from a record of `quack-tutorial profile`, see `records.profile`.

| function   | shows                                                                                      |
|------------|--------------------------------------------------------------------------------------------|
| `memory`   | registers, L1, L2 and HBM, with the bytes that crossed between them, for one or two kernels  |
| `counters` | a table: a row a counter, a column an implementation                                        |
| `stalls`   | of the cycles between two instructions of a warp, how many it waited for what               |

A case is shown by its longest launch, or all its launches added up where bytes are meant; those recorded have one each.
"""

from __future__ import annotations

from html import escape

from quack_tutorial import cost

from .charts import Chart, name_rows, write_beside
from .suites import Shown, lined_up, table
from .theme import LIGHT, SERIES

SECTOR_BYTES = 32
SCHEDULERS = 4  # of an SM: each issues at most one instruction a cycle
LOAD, STORE, SPILL = SERIES[0][0], SERIES[1][0], SERIES[7][0]
COUNTERS = {  # name: (what the table calls it, how it is written)
    "time_us": ("time, us", "{:,.0f}"),
    "reads": ("HBM reads, in matrices", "{:.2f}"),
    "writes": ("HBM writes, in matrices", "{:.2f}"),
    "dram_percent": ("HBM busy, %", "{:.1f}"),
    "issue_percent": ("issue slots used, %", "{:.1f}"),
    "instructions": ("instructions of warps", "{:,.0f}"),
    "l1_load_requests": ("load requests", "{:,.0f}"),
    "l1_load_sectors": ("sectors of loads", "{:,.0f}"),
    "local_load_sectors": ("sectors of local loads", "{:,.0f}"),
    "local_store_sectors": ("sectors of local stores", "{:,.0f}"),
    "registers": ("registers a thread", "{:.0f}"),
    "smem_bytes": ("shared memory a block, bytes", "{:,.0f}"),
    "threads": ("threads a block", "{:,.0f}"),
    "blocks": ("blocks", "{:,.0f}"),
    "fits": ("blocks that fit an SM (computed)", "{}"),
    "warps": ("warps on an SM (counted)", "{:.1f}"),
}
STALLS = {  # what the chart calls it: the counters that it adds up
    "loads (long scoreboard)": ("long_scoreboard",),
    "smem, special functions (short scoreboard)": ("short_scoreboard",),
    "barrier": ("barrier",),
    "full queues (LG and MIO throttle)": ("lg_throttle", "mio_throttle"),
    "arithmetic latency (wait)": ("wait",),
    "busy arithmetic (math pipe throttle)": ("math_pipe_throttle",),
}
REST = "issues, is ready, or rest"


def blocks_that_fit(case) -> int:
    """How many blocks of the case's kernel an SM holds at once, by threads, registers and shared memory."""
    threads, registers, smem_bytes = (int(case.of_main(name)) for name in ("threads", "registers", "smem_bytes"))
    return cost.blocks_per_sm(threads, registers, max(0, smem_bytes - cost.RESERVED_SMEM_BYTES))


def counters(profile, cases, names) -> Shown:
    """A table of `names`, keys of COUNTERS, for each case."""
    head = ("", *(case.provider for case in cases))
    rows = [(COUNTERS[name][0], *(COUNTERS[name][1].format(_value(case, name)) for case in cases)) for name in names]
    text = "\n".join(lined_up((head, *rows)))
    what = f"{_what(cases[0])}. {profile.origin}"
    return Shown(f"{table(head, rows)}<p><small>{escape(what)}</small></p>", f"{text}\n{what}")


def memory(profile, *cases, title=None) -> Chart:
    """The memory chart: what crossed from HBM to the registers and back, an arrow as wide as its bytes."""
    most = max(total for case in cases for _, edge in _edges(case) for _, total, _ in edge)

    def draw(axes, wide):
        axes.set_axis_off()
        for i, case in enumerate(cases):
            _draw_hierarchy(axes, 10 * i, case, most, wide)
        axes.set(xlim=(-0.5, 10 * len(cases) - 0.5), ylim=(-0.4, 14.6))

    rows = tuple(
        (case.provider, place, kind, f"{total / 1e9:.2f}", f"{total / case.matrix_bytes:.2f}")
        for case in cases
        for place, edge in _edges(case)
        for kind, total, _ in edge
    )
    said = ", ".join(f"{case.provider} {case.reads:.2f} and {case.writes:.2f}" for case in cases)
    spilled = " In red: spilled registers." if any(case.total("local_store_sectors") for case in cases) else ""
    return Chart(
        draw,
        title or f"Memory chart: {_what(cases[0])}",
        f"HBM reads and writes, as multiples of the matrix: {said}. "
        f"Up are loads, down stores; at L2 the sectors that it looked up.{spilled}",
        profile.origin,
        ("kernel", "between", "", "GB", "of the matrix"),
        rows,
        height=(5.2, 5.6),
    )


def stalls(profile, cases, title=None) -> Chart:
    """Bars of the cycles between two instructions of a warp, by what it waited for."""
    parts = [_cycles(case) for case in cases]

    def draw(axes, wide):
        places = range(len(cases))
        left = [0.0] * len(cases)
        colours = (*(SERIES[i][0] for i in (0, 1, 7, 3, 2, 6)), LIGHT["line"])
        for reason, colour in zip((*STALLS, REST), colours):
            values = [part[reason] for part in parts]
            axes.barh(places, values, left=left, height=0.6, color=colour, label=reason)
            left = [at + value for at, value in zip(left, values)]
        write_beside(axes, places, left, ".0f")
        name_rows(axes, [case.provider if wide else case.provider.replace(" ", "\n") for case in cases])
        axes.set_xlim(0, 1.1 * max(left))
        axes.set_xlabel("cycles from one instruction of a warp to its next" if wide else "cycles between instructions")

    most = [max(STALLS, key=part.get) for part in parts]
    said = ", ".join(
        f"{case.provider} {part[reason] / sum(part.values()):.0%} for {reason.split(' (')[0]}"
        for case, part, reason in zip(cases, parts, most)
    )
    return Chart(
        draw,
        title or f"What warps wait for: {_what(cases[0])}",
        f"What takes most of a warp's cycles: {said}.",
        profile.origin,
        ("kernel", *STALLS, REST, "in all"),
        tuple(
            (case.provider, *(f"{cycles:.2f}" for cycles in part.values()), f"{sum(part.values()):.2f}")
            for case, part in zip(cases, parts)
        ),
        height=(2.1 + 0.55 * len(cases), 2.9 + 0.55 * len(cases)),
        legend=(2, 1),
    )


def _what(case) -> str:
    return f"{case.operation}, {case.dtype}, {case.M:,} x {case.N:,}"


def _value(case, name):
    if name in ("reads", "writes"):
        return getattr(case, name)
    return blocks_that_fit(case) if name == "fits" else case.of_main(name)


def _cycles(case) -> dict[str, float]:
    """By reason; together they are a scheduler's warps over the instructions that it issues in a cycle."""
    of = {reason: sum(case.of_main(f"stall_{name}") for name in names) for reason, names in STALLS.items()}
    whole = case.of_main("warps") / SCHEDULERS / (case.of_main("issue_percent") / 100)
    return of | {REST: max(0.0, whole - sum(of.values()))}


def _edges(case):
    """(between what, ((kind, bytes, colour), ...)) from the registers down to HBM."""

    def edge(loads, stores, unit=SECTOR_BYTES):
        return ("loads", unit * case.total(loads), LOAD), ("stores", unit * case.total(stores), STORE)

    spills = [
        (f"spilled, {kind}", nbytes, SPILL) for kind, nbytes, _ in edge("local_load_sectors", "local_store_sectors")
    ]
    return (
        ("registers and L1", (*edge("l1_load_sectors", "l1_store_sectors"), *(spill for spill in spills if spill[1]))),
        ("L1 and L2", edge("l2_sectors_read", "l2_sectors_written")),
        ("L2 and HBM", edge("dram_read_bytes", "dram_write_bytes", unit=1)),
    )


def _draw_hierarchy(axes, x, case, most, wide):
    """Four boxes from the registers down to HBM; between them an arrow up for loads and one down for stores."""
    from matplotlib.patches import FancyArrow, Rectangle

    names = ("registers", "L1", f"L2, {case.of_main('l2_hit_percent'):.0f} % hits", "HBM")
    axes.text(x + 4.5, 14, case.provider, ha="center", va="bottom", color=LIGHT["ink"], fontsize=13, weight="bold")
    for level, name in enumerate(names):
        y = 12.4 - 4 * level
        axes.add_patch(Rectangle((x, y), 9, 1.2, facecolor=LIGHT["paper"], edgecolor=LIGHT["soft"], linewidth=1.2))
        axes.text(x + 4.5, y + 0.6, name, ha="center", va="center", color=LIGHT["ink"], fontsize=12)
    for level, (_, edge) in enumerate(_edges(case)):
        top, bottom = 12.3 - 4 * level, 9.7 - 4 * level
        for i, (kind, total, colour) in enumerate(edge):
            at = x + 9 * (i + 0.5) / len(edge) - 0.8
            width = max(0.06, 1.3 * total / most)
            start, length = (bottom, 2.6) if "loads" in kind else (top, -2.6)
            head = {"head_width": width + 0.5, "head_length": 0.5, "length_includes_head": True}
            axes.add_patch(FancyArrow(at, start, 0, length, width=width, color=colour, linewidth=0, **head))
            many = len(edge) > 2 and not wide
            text = f"{total / 1e9:.1f}" if many else f"{total / 1e9:.1f} GB"
            beside = at + width / 2 + 0.35
            axes.text(beside, top - 1.3, text, ha="left", va="center", color=LIGHT["ink"], fontsize=11.5)
