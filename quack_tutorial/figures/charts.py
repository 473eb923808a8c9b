"""`throughput`, `ladder` and `climb`: recorded speeds as charts that follow the page's light or dark colours.

matplotlib draws; its SVG is put into the page with every colour named as a CSS variable and every text left as text, in the
page's font, for a wide column and for a phone's, of which the page shows one. The numbers stand below as a table. `Chart.figure`
is the matplotlib figure itself, for other uses.

Records are the `Record`s of `bench`, or dictionaries as `flat` makes them of those. A record's ceiling is the kernel that speeds
are measured against; a chart calls it by what it does, see `quack_tutorial.records.bench.RULERS`.

Not covered: error bars, times.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from html import escape

from quack_tutorial.operations import OPERATIONS
from quack_tutorial.records.bench import first_to_last, on_earlier_kernels, ruler

from .player import page
from .theme import LIGHT, SERIES, variable

CEILING = "ceiling"
MOST_LEVEL = 10  # names side by side below an axis
MARKERS = "osD^vPXd"
STYLES = ("solid", (0, (6, 3)), (0, (2, 2)), (0, (8, 2, 2, 2)))
WIDE, NARROW = 10.6, 4.5  # inches of 72 pixels
# Colours that matplotlib draws with stand for the page's own.
PAPER_COLOURS = {LIGHT[name]: name for name in ("ink", "soft", "line", "paper")}
PAPER_COLOURS |= {light: f"s{i}" for i, (light, _) in enumerate(SERIES)}


@dataclass(frozen=True)
class Chart:
    """What `draw(axes, wide)` draws on matplotlib's axes, and what it is from; `head` and `rows` are the numbers it shows.

    `height`, in inches, and `legend`, the columns of one below the axes, are those of the wide and of the narrow drawing.
    """

    draw: Callable[[object, bool], None] = field(repr=False)
    title: str
    summary: str
    origin: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    height: tuple[float, float] = (4.4, 4.4)
    legend: tuple[int, int] | None = None

    @cached_property
    def figure(self):
        """The matplotlib figure for a wide column."""
        return self.drawn(True)

    def drawn(self, wide: bool):
        """The matplotlib figure, wide or narrow."""
        from matplotlib.figure import Figure

        size = WIDE if wide else NARROW, self.height[not wide]
        figure = Figure(figsize=size, layout="constrained")
        # Safari's letters are wider than those that matplotlib measures.
        figure.get_layout_engine().set(w_pad=10 / 72)
        figure.patch.set_alpha(0)
        axes = figure.add_subplot()
        _style(axes)
        self.draw(axes, wide)
        if self.legend:
            look = {"loc": "outside lower center", "frameon": False, "labelcolor": LIGHT["ink"], "fontsize": 12}
            figure.legend(ncols=self.legend[not wide], **look)
        return figure

    def _repr_html_(self) -> str:
        label = f"{self.title}. {self.summary} The numbers are in the table below."
        wide, narrow = _inline_svg(self.figure, label), _inline_svg(self.drawn(False), label)
        return page(
            title=self.title,
            caption=f"<p>{escape(self.summary)}</p>",
            picture=f'<div class="qt-wide">{wide}</div><div class="qt-narrow">{narrow}</div>',
            width=WIDE * 72,
            key=_table(self.head, self.rows),
            origin=self.origin,
            data=[self.title, self.rows],
        )


def throughput(records, operation=None, dtype=None, M=None, here=None, title=None) -> Chart:
    """GB/s over N (in powers of 2) for each provider, with the ceiling that the records name.

    Only records of the given operation, dtype and M count; `here` are records of the reader's own machine, drawn as open marks.
    ValueError where nothing is left to draw.
    """
    table = _chosen(records, operation, dtype, M)
    curves = _curves(table) | {CEILING: sorted({r["N"]: r["ceiling_gb_s"] for r in table}.items())}
    mine = _curves(_chosen(here, operation, dtype, M)) if here else {}
    mine.pop(CEILING, None)
    styles, (short, whole) = _styles(curves), ruler(r.get("ceiling") for r in table)
    sizes = sorted({n for points in [*curves.values(), *mine.values()] for n, _ in points})
    asked = {n for points in curves.values() for n, _ in points}

    def draw(axes, wide):
        for name, points in _ordered(curves):
            colour, marker = styles[name]
            speed = dict(points)
            x = [n for n in sizes if n in asked]
            y = [speed.get(n, float("nan")) for n in x]  # a line has a gap where there is no value
            if name == CEILING:
                axes.plot(
                    x, y, color=LIGHT["ink"], linestyle=(0, (5, 3)), linewidth=1.3, label=whole if wide else short
                )
            else:
                ours = name == "ours"
                axes.plot(x, y, color=colour, marker=marker, markersize=5 if ours else 4, linewidth=2.6 if ours else 1.4,
                          label=name, zorder=5 if ours else 3)  # fmt: skip
        for name, points in mine.items():
            colour, marker = styles.get(name, (LIGHT["ink"], "o"))
            x, y = zip(*points)
            open_mark = {"linestyle": "none", "markerfacecolor": "none", "markeredgewidth": 1.6}
            axes.plot(
                x, y, color=colour, marker=marker, markersize=8, label=f"{name}, this machine", zorder=6, **open_mark
            )
        _size_axis(axes, sizes, 12 if wide else 6)
        axes.set(ylim=(0, None), ylabel="GB/s")

    what = _what(table)
    return Chart(
        draw,
        title or f"{what}: throughput over the length of a row",
        _throughput_summary(curves, whole),
        _origin(table, here),
        (
            "N",
            *[short if name == CEILING else name for name, _ in _ordered(curves)],
            *[f"{name}, this machine" for name in mine],
        ),
        _by_size(sizes, [points for _, points in _ordered(curves)] + list(mine.values())),
        height=(5.4, 5.4),
        legend=(4, 2),
    )


def ladder(records, operation=None, dtype=None, N=None, title=None) -> Chart:
    """One bar for each version of a kernel, in the order they are taught: its speed as a share of the ceiling's.

    ValueError where records of more than one size are left, or none.
    """
    table = [r for r in _chosen(records, operation, dtype, None) if N in (None, r["N"])]
    sizes = {(r["M"], r["N"], r["dtype"]) for r in table}
    if len(sizes) != 1:
        raise ValueError(f"a ladder has one size, the records have {len(sizes)}: choose one by dtype= and N=")
    shares = [(r["provider"], 100 * r["fraction_of_ceiling"], r["gb_s"]) for r in _taught(table)]
    short, whole = ruler(r.get("ceiling") for r in table)
    names = [name for name, _, _ in shares]
    places = range(len(shares))

    def draw(axes, wide):
        values = [share for _, share, _ in shares]
        axes.barh(list(places), values, color=SERIES[0][0], height=0.6 if wide else 0.45)
        for place, (name, share, _) in zip(places, shares):
            inside = share > (12 if wide else 25)
            axes.text(share + (-1 if inside else 1), place, f"{share:.0f} %", va="center", ha="right" if inside else "left",
                      color=LIGHT["paper"] if inside else LIGHT["ink"], fontsize=12)  # fmt: skip
            if not wide:  # a name beside its bar would leave little of the bar
                axes.text(0, place - 0.28, name, va="bottom", color=LIGHT["ink"], fontsize=12)
        axes.set_yticks(list(places), names if wide else [""] * len(shares))
        axes.set_ylim(len(shares) - 0.5, -0.5 if wide else -0.75)
        axes.axvline(100, color=LIGHT["ink"], linestyle=(0, (5, 3)), linewidth=1.3)
        axes.set_xlim(0, max(112, *[share + 10 for _, share, _ in shares]))
        axes.set_xlabel(f"% of the speed of {whole} (dashed)" if wide else f"% of the {short}'s speed (dashed)")
        axes.grid(visible=False)
        axes.grid(axis="x", color=LIGHT["line"], linewidth=0.6)
        axes.tick_params(axis="y", length=0, labelsize=12, labelcolor=LIGHT["ink"])

    first, last = shares[0], shares[-1]
    summary = f"{first[0]}: {first[1]:.0f} %, {last[0]}: {last[1]:.0f} % of the speed of {whole}."
    if len(shares) == 1:
        summary = f"{first[0]}: {first[1]:.0f} % of the speed of {whole}."
    (m, n, kind) = sizes.pop()
    rows = tuple((name, f"{gb_s:,.0f}", f"{share:.1f} %") for name, share, gb_s in shares)
    head = ("version", "GB/s", f"of the {short}")
    return Chart(
        draw,
        title or f"{_what(table, False)}: what each version gains, {m:,} rows of {n:,} {kind}",
        summary,
        _origin(table, None),
        head,
        rows,
        height=(0.9 + 0.6 * len(shares), 0.9 + 0.8 * len(shares)),
    )


def climb(records, operation, dtype, title=None, versions=None) -> Chart:
    """Every version of a ladder at every size: as a share of the ceiling's speed above, of the datasheet's peak below.

    A line a size, a place on the axis a version, in the order they are taught. `versions` are those to draw, in their order (left
    out: all); one that has no speed keeps its place, and the chart says why. ValueError where nothing is left to draw.
    """
    table = _taught(_chosen(records, operation, dtype, None))
    table = [r for r in table if versions is None or r["provider"] in versions]
    if not table:
        raise ValueError(f"none of the versions {', '.join(versions)} is recorded")
    sizes, (short, whole) = sorted({r["N"] for r in table}), ruler(r.get("ceiling") for r in table)
    versions = list(versions or dict.fromkeys(r["provider"] for r in table))
    share = {(r["provider"], r["N"]): 100 * r["fraction_of_ceiling"] for r in table}
    peak = {(r["provider"], r["N"]): r.get("percent_of_datasheet") for r in table}
    timed = {version for version, _ in share}
    without = {version: _why_not(records, operation, dtype, version) for version in versions if version not in timed}
    panels = [(f"% of the {short}", share)] + ([("% of the peak", peak)] if all(peak.values()) else [])

    def draw(first, wide):
        figure = first.figure
        first.remove()
        drawn = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (label, values) in zip(drawn, panels):
            _style(axes)
            for n, (colour, _), mark in zip(sizes, SERIES, MARKERS):
                # A gap where there is none.
                y = [values.get((version, n), float("nan")) for version in versions]
                name = f"N = {n:,}" if axes is drawn[0] else None
                axes.plot(range(len(versions)), y, color=colour, marker=mark, markersize=5, linewidth=1.5, label=name)
            axes.axhline(100, color=LIGHT["ink"], linestyle=(0, (5, 3)), linewidth=1.3)
            axes.set_ylim(0, 108)
            axes.set_ylabel(label)
        names = [f"{version}\n({without[version]})" if version in without else version for version in versions]
        turned = (30 if len(names) > MOST_LEVEL else 0) if wide else 60
        drawn[-1].set_xticks(range(len(names)), names, rotation=turned, ha="right" if turned else "center")
        drawn[-1].set_xlim(-0.5, len(names) - 0.5)

    def cell(version, n):
        if (version, n) not in share:
            return _why_not(records, operation, dtype, version, n)
        of_peak = peak[version, n]
        return f"{share[version, n]:.0f}\u00a0%" + (f"\u00a0({of_peak:.0f}\u00a0%)" if of_peak else "")

    low, high = min(share.values()), max(share.values())
    reasons = {}  # said once for all the versions that it holds for
    for version in versions:
        gaps = [f"{n:,}" for n in sizes if cell(version, n) == "not yet measured"]
        if version in without:
            reasons.setdefault(without[version].capitalize(), []).append(version)
        elif gaps:
            reasons.setdefault(f"Not yet measured at N = {' and '.join(gaps)}", []).append(version)
    lacking = "".join(f" {why}: {', '.join(names)}." for why, names in reasons.items())
    return Chart(
        draw,
        title or f"{_what(table)}: every version at every size",
        f"From {low:.0f} to {high:.0f} % of the speed of {whole} (dashed).{lacking}",
        _origin(table, None),
        (f"of the {short} (of the peak)", *[f"N = {n:,}" for n in sizes]),
        tuple((version, *[cell(version, n) for n in sizes]) for version in versions),
        height=(7.2, 8.0),
        legend=(len(sizes), 2),
    )


# Records -------------------------------------------------------------------------------------------------------------


def flat(records) -> list[dict]:
    """Records as one dictionary for each speed."""
    rows = []
    for record in records:
        if isinstance(record, dict):
            rows.append(record)
            continue
        for cell in record.cells:
            common = {"operation": record.operation, "device": record.device}
            common |= {"date": cell.measured[:10], "measured": cell.measured}
            common |= {"driver": record.driver, "versions": record.versions}
            common |= {"dtype": cell.dtype, "M": cell.M, "N": cell.N}
            common |= {"ceiling": cell.ceiling, "ceiling_gb_s": cell.ceiling_gb_s}
            for result in cell.results:
                if result.status == "ok":
                    speeds = {"gb_s": result.gb_s, "fraction_of_ceiling": result.fraction_of_ceiling}
                    speeds["percent_of_datasheet"] = result.percent_of_datasheet
                    rows.append({**common, "provider": result.provider, **speeds})
    return rows


def _taught(table) -> list:
    """The records in the order in which their versions are taught; those of versions that are not taught come last."""
    operation = table[0]["operation"]
    order = [*OPERATIONS[operation].ladder]
    return sorted(table, key=lambda r: order.index(r["provider"]) if r["provider"] in order else len(order))


def _why_not(records, operation, dtype, version, N=None) -> str:
    """Why a version has no speed in the records, at all or at one size."""
    cells = [cell for r in records if not isinstance(r, dict) and r.operation == operation for cell in r.cells]
    results = [result for cell in cells if cell.dtype == dtype and N in (None, cell.N) for result in cell.results]
    statuses = sorted({result.status for result in results if result.provider == version})
    return ", ".join(statuses) or "not yet measured"


def _chosen(records, operation, dtype, M):
    wanted = {"operation": operation, "dtype": dtype, "M": M}
    table = flat(records)
    kept = [r for r in table if all(v in (None, r[k]) for k, v in wanted.items())]
    if not kept:
        told = ", ".join(f"{k} {v}" for k, v in wanted.items() if v is not None) or "a speed"
        raise ValueError(f"none of {len(table)} records has {told}")
    for key in ("operation", "dtype"):
        kinds = sorted({r[key] for r in kept})
        if len(kinds) > 1:
            raise ValueError(f"the records are of several: {', '.join(kinds)}; choose one by {key}=")
    return kept


def _curves(table) -> dict[str, list[tuple[int, float]]]:
    curves = {}
    for r in table:
        points = curves.setdefault(r["provider"], {})
        if r["N"] in points:
            raise ValueError(f"{r['provider']} has two speeds at N = {r['N']}: choose one by M=")
        points[r["N"]] = r["gb_s"]
    return {name: sorted(points.items()) for name, points in curves.items()}


def _ordered(curves):
    """Ceiling first, then by the speed at the largest size, as the curves end on the right."""
    return sorted(curves.items(), key=lambda item: (item[0] != CEILING, -item[1][-1][1]))


def _styles(curves):
    """A colour and a mark for each provider that do not depend on who is fast: ours first, others by name."""
    names = sorted((n for n in curves if n != CEILING), key=lambda n: (n != "ours", n))
    return {CEILING: (LIGHT["ink"], "")} | {
        n: (SERIES[i % len(SERIES)][0], MARKERS[i % 8]) for i, n in enumerate(names)
    }


def _throughput_summary(curves, whole) -> str:
    ceiling = dict(curves[CEILING])
    name = "ours" if "ours" in curves else next(n for n, _ in _ordered(curves) if n != CEILING)
    shares = [gb_s / ceiling[n] for n, gb_s in curves[name]]
    low, high = f"{100 * min(shares):.0f}", f"{100 * max(shares):.0f}"
    span = f"{low} %" if low == high else f"{low} to {high} %"
    return f"{name[0].upper() + name[1:]}: {span} of the speed of {whole}."


def _by_size(sizes, curves):
    known = [dict(points) for points in curves]
    return tuple((f"{n:,}", *[f"{points[n]:,.0f}" if n in points else "" for points in known]) for n in sizes)


def _what(table, with_dtype=True) -> str:
    first = table[0]
    text = first["operation"] + (f", {first['dtype']}" if with_dtype else "")
    return (text[0].upper() + text[1:]).replace("Rmsnorm", "RMSNorm")


def _versions(row) -> list:
    """The driver and the versions that a record holds, as a caption names them."""
    names = {"torch": "torch", "triton": "triton", "nvidia-cutlass-dsl": "CuTe DSL", "quack-kernels": "QuACK"}
    held = row.get("versions") or {}
    driver = [f"driver {row['driver']}"] if row.get("driver") else []
    return driver + [f"{name} {held[key]}" for key, name in names.items() if key in held]


def _origin(table, here) -> str:
    days = {}  # by device and versions
    for r in table:
        days.setdefault(", ".join([r["device"], *_versions(r)]), []).append(r["date"])
    devices = sorted(f"{device}, {first_to_last(found)}" for device, found in days.items())
    changed = on_earlier_kernels((r["operation"], r.get("measured", r["date"])) for r in table)
    text = f"Measured on {'; '.join(devices)}.{changed}"
    return text + (f" This machine: {', '.join(sorted({r['device'] for r in here}))}." if here else "")


# Drawing -------------------------------------------------------------------------------------------------------------


def grouped_bars(axes, names, series, pitch, height, written="", fontsize=11.5, room=None):
    """Bars to the right, a group for each of `names`, in it a bar of each of `series`, {label: values}, `pitch` apart.

    `written` is the format of the value beside each bar, or one for each of the series; `room` the largest value that needs some.
    """
    formats = written if isinstance(written, tuple) else (written,) * len(series)
    for i, ((label, values), form) in enumerate(zip(series.items(), formats)):
        places = [place + pitch * (i - (len(series) - 1) / 2) for place in range(len(names))]
        axes.barh(places, values, height=height, color=SERIES[i][0], label=label)
        write_beside(axes, places, values if form else (), form, fontsize)
    name_rows(axes, names)
    if room:
        axes.set(ylim=(len(names) - 0.5, -0.5), xlim=(None, 1.15 * room))


def name_rows(axes, names):
    """The names of rows of bars, from the top down."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)


def draw_lines(axes, curves, marked=False, **look):
    """A line for each of {label: (x, y)}, that differ in colour, in dashes and, `marked`, in the marks of their points."""
    for i, (label, (x, y)) in enumerate(curves.items()):
        marks = {"marker": MARKERS[i], "markersize": 4} if marked else {}
        axes.plot(x, y, color=SERIES[i % 8][0], linestyle=STYLES[i % 4], label=label, **marks, **look)


def write_beside(axes, places, values, form, fontsize=11.5):
    """The values at the right ends of their bars."""
    for place, value in zip(places, values):
        axes.annotate(f" {value:{form}}", (value, place), va="center", color=LIGHT["ink"], fontsize=fontsize)


def log2_axis(axes, ticks, names):
    """Powers of 2 from left to right, with these marks."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, names)
    axes.minorticks_off()


def _style(axes):
    axes.patch.set_alpha(0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LIGHT["soft"])
    axes.tick_params(colors=LIGHT["soft"], labelcolor=LIGHT["soft"], labelsize=12)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(size=12, color=LIGHT["soft"])
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=LIGHT["line"], linewidth=0.6)


def _size_axis(axes, sizes, most):
    from matplotlib.ticker import FixedLocator, NullLocator

    axes.set_xscale("log", base=2)
    low, high = min(sizes), max(sizes)
    ticks = [2**k for k in range(40) if low <= 2**k <= high] or [low]
    while len(ticks) > most:
        ticks = ticks[::-2][::-1]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{n // 1024}k" if n >= 1024 and n % 1024 == 0 else str(n) for n in ticks])
    axes.set_xlabel("N, elements in a row (k = 1024)")


def _inline_svg(figure, label: str) -> str:
    """The figure as an SVG element of an HTML page: no addresses, colours as variables, texts in the page's font."""
    import matplotlib

    file = io.StringIO()
    salt = f"{label} {figure.get_figwidth()}"
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(file.getvalue())
    prefix = f"c{abs(hash_of(salt)):x}-"
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                parent.remove(child)
    for node in root.iter():
        node.tag = node.tag.rpartition("}")[2]
        for name in list(node.attrib):
            plain, value = name.rpartition("}")[2], node.attrib.pop(name)
            node.set(plain, _own(plain, value, prefix))
        if node.tag == "path" and "style" not in node.attrib and node.get("d") and not node.get("id"):
            node.set("style", "fill: none")
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    width, height = (f"{inches * 72:.0f}" for inches in figure.get_size_inches())
    root.attrib |= {"role": "img", "aria-label": label, "width": width, "height": height}
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def hash_of(text: str) -> int:
    """A number that is the same in every process."""
    from zlib import crc32

    return crc32(text.encode())


def _own(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return prefix + value
    if name == "href":
        return "#" + prefix + value.removeprefix("#")
    value = re.sub(r"url\(#", f"url(#{prefix}", value)
    if name in ("d", "points", "transform", "x", "y"):  # a hundredth of a pixel is enough
        value = re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), value)
    for colour, variable_name in PAPER_COLOURS.items():
        value = value.replace(colour, variable(variable_name))
    if name == "style":
        value = re.sub(r"font: ([^;']*?)'[^;]*", r"font: \1system-ui, sans-serif", value)
    return value


def _table(head, rows) -> str:
    cells = lambda tag, row: "".join(f"<{tag}>{escape(text)}</{tag}>" for text in row)  # noqa: E731
    header = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>"
    return f'<details><summary>The numbers</summary><div class="qt-table">{table}</div></details>'
