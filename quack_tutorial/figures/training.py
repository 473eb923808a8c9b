"""Charts of the recorded training of a small transformer and of its loss on several GPUs, see `records.training` and
`records.parallel`; each says so where nothing is recorded.

| function | draws                                                                    |
|----------|--------------------------------------------------------------------------|
| `losses` | the loss over the steps, a line a variant                                 |
| `costs`  | step time and peak memory of each variant, with kernels a step in a table |
| `scaling` | speed-up of the loss against the number of GPUs, measured and modelled    |
| `vocabulary` | cross-entropy over a vocabulary that several GPUs share, five ways     |
| `head` | time and memory of a model's head and its loss                               |
"""

from __future__ import annotations

from quack_tutorial import hardware
from quack_tutorial.records import folder
from quack_tutorial.records.training import DRIFT, LAST

from .charts import MARKERS, STYLES, Chart, grouped_bars, log2_axis
from .suites import Shown, _inline
from .theme import LIGHT, SERIES


def not_yet(command="") -> Shown:
    """What stands in the place of a chart that has no record; `command` makes it, where one does."""
    how = f" `{command}` makes the record." if command else ""
    said = f"Not yet measured on {hardware.called(folder().name)}.{how}"
    return Shown(f"<p><em>{_inline(said)}</em></p>", said)


def losses(training) -> Chart | Shown:
    """The loss of every variant over the steps; the summary compares the means of the last `training.LAST` steps."""
    if training is None:
        return not_yet("quack-tutorial model --out FILE")
    variants = training.variants

    def draw(axes, wide):
        for i, variant in enumerate(variants):
            look = {"color": SERIES[i % 8][0], "linestyle": STYLES[i % 4], "linewidth": 2.6 - 0.25 * i}
            axes.plot(range(1, len(variant.losses) + 1), variant.losses, label=variant.name, **look)
        axes.set(ylim=(0, None), xlabel="step", ylabel="mean loss")

    first, means = variants[0].losses[0], {v.name: v.last_mean for v in variants}
    low, high = min(means, key=means.get), max(means, key=means.get)
    less = {name: f"{mean - means['stock']:+.4f}" for name, mean in means.items() if "stock" in means}
    return Chart(
        draw,
        "The loss, whoever computes it",
        f"From {first:.2f}. Means of the last {LAST} steps lie between {means[low]:.3f} ({low}) and {means[high]:.3f} ({high}).",
        f"{training.what} {training.origin}",
        ("variant", "first", f"mean of the last {LAST}", "less stock's"),
        tuple((v.name, f"{v.losses[0]:.4f}", f"{v.last_mean:.4f}", less.get(v.name, "")) for v in variants),
        height=(4.4, 6.2),
        legend=(3, 1),
    )


def costs(training) -> Chart | Shown:
    """Bars of the time of a step and of the memory above what stands between steps, a pair a variant."""
    if training is None:
        return not_yet("quack-tutorial model --out FILE")
    variants = training.variants

    def draw(axes, wide):
        names = [v.name if wide else v.name.replace(", ", ",\n") for v in variants]
        series = {"ms a step": [v.ms for v in variants], "GB at most": [v.peak_bytes / 1e9 for v in variants]}
        grouped_bars(axes, names, series, 0.38, 0.36, ".1f", room=max(map(max, series.values())))

    least_ms, least = min(v.ms for v in variants), min(variants, key=lambda v: v.peak_bytes)
    quickest = sorted((v for v in variants if v.ms <= least_ms * (1 + DRIFT)), key=lambda v: v.ms)
    names = "; ".join(f"{v.name}, {v.ms:.1f} ms" for v in quickest)
    failed = "".join(f" {name} did not run: {why}" for name, why in training.failed.items())
    return Chart(
        draw,
        "What a training step costs",
        f"Quickest, within the {DRIFT:.0%} by which step times drift: {names}. "
        f"Least memory: {least.name}, {least.peak_bytes / 1e9:.1f} GB.{failed}",
        f"{training.what} {training.origin}",
        ("variant", "ms a step", "GB at most", "of them standing", "kernels a step"),
        tuple(
            (v.name, f"{v.ms:.2f}", f"{v.peak_bytes / 1e9:.2f}", f"{v.standing_bytes / 1e9:.2f}", f"{v.kernels or ''}")
            for v in variants
        ),
        height=(0.9 + 0.75 * len(variants),) * 2,
        legend=(2, 2),
    )


def scaling(found, model=None, beyond=(8, 16, 32)) -> Chart | Shown:
    """Speed-up over one GPU against the number of GPUs, a line a size; dotted where it is `model`'s for `beyond`."""
    cells = [cell for record in found for cell in record.cells if cell.dtype == "bfloat16"]
    ranks = sorted({cell.ranks for cell in cells})
    rows = sorted({cell.M for cell in cells}, reverse=True)
    words = sorted({cell.N for cell in cells}, reverse=True)
    ends = list(dict.fromkeys((words[0], words[-1])))
    at = {(cell.M, cell.N, cell.ranks): cell for cell in cells}
    later = [count for count in beyond if model and count > ranks[-1]]

    def draw(axes, wide):
        every = ranks + later
        axes.plot(every, every, color=LIGHT["soft"], linestyle=(0, (5, 3)), linewidth=1.3, label="perfect")
        for i, (M, N) in enumerate((M, N) for M in rows for N in ends):
            there = [count for count in ranks if (M, N, count) in at]
            speed = [at[M, N, count].speed_up for count in there]
            colour = SERIES[i % len(SERIES)][0]
            axes.plot(
                there, speed, color=colour, marker="osD^"[i % 4], linewidth=2.2, label=f"{M:,} tokens, {N:,} words"
            )
            modelled = [model.speed_up(M, N, count) for count in later]
            axes.plot(
                [*there[-1:], *later], [*speed[-1:], *modelled], color=colour, linestyle=(0, (1, 2)), linewidth=1.8
            )
        if later:
            axes.axvspan(ranks[-1], later[-1], color=LIGHT["line"], alpha=0.25, linewidth=0)
            axes.annotate(
                "model", ((ranks[-1] * later[-1]) ** 0.5, 0.72), ha="center", color=LIGHT["soft"], fontsize=12
            )
        axes.set_yscale("log", base=2)
        axes.set_yticks(every, every)
        log2_axis(axes, every, every)
        axes.set(ylim=(0.6, 1.1 * every[-1]), xlabel="GPUs", ylabel="times as fast as one GPU")

    most = [cell for cell in cells if cell.ranks == ranks[-1]]
    best = max(most, key=lambda cell: cell.speed_up)
    worst = min(most, key=lambda cell: cell.speed_up)
    return Chart(
        draw,
        "Speed-up against the number of GPUs",
        f"On {ranks[-1]} GPUs loss and gradient are {worst.speed_up:.1f} times as fast as on one with {worst.M:,} tokens and "
        f"{worst.N:,} words, {best.speed_up:.1f} times with {best.M:,} and {best.N:,}."
        + (f" Dotted: a model fitted to the measured parts, each of which it meets within {model.off:.0%}." if later else ""),
        f"bfloat16 logits; the slowest rank; one GPU's kernel was timed in the same run. {found[-1].origin}",
        ("GPUs", "tokens", "words", "speed-up", "one GPU", "kernel", "exchange", "gradient"),
        tuple(
            (
                f"{cell.ranks}", f"{cell.M:,}", f"{cell.N:,}", f"{cell.speed_up:.2f}", f"{cell.total_us('one GPU'):,.0f} us",
                *(f"{us:,.0f} us" for us in (cell.us["kernel"], cell.exchange_us, cell.us["pairs gradient"])),
            )
            for cell in cells
        ),
        height=(5.0, 6.4),
        legend=(2, 1),
    )  # fmt: skip


WAYS = {
    "pairs": "pairs, one all-gather",
    "two all-reduces": "pairs, two all-reduces",
    "Megatron": "Megatron-LM's steps",
    "gathered": "logits gathered",
    "one GPU": "whole rows on one GPU",
}


def vocabulary(found) -> Chart | Shown:
    """Bars of the time of loss and gradient for each way: a group a number of GPUs and a vocabulary."""
    cells = [cell for record in found for cell in record.cells if cell.ranks > 1]
    most = max(cell.M for cell in cells)
    ends = {pick(cell.N for cell in cells if cell.M == most) for pick in (min, max)}
    shown = [cell for cell in cells if cell.M == most and cell.N in ends]

    def draw(axes, wide):
        names = [f"{cell.ranks} GPUs,{' ' if wide else chr(10)}{cell.N:,}\nwords" for cell in shown]
        ms = {label: [cell.total_us(way) / 1e3 for cell in shown] for way, label in WAYS.items()}
        grouped_bars(axes, names, ms, 0.17, 0.15, ".2f", fontsize=12, room=max(map(max, ms.values())))
        axes.set_xlabel("ms, loss and gradient")

    last = shown[-1]
    times = {way: last.total_us(way) / last.total_us("pairs") for way in WAYS}
    return Chart(
        draw,
        "Cross-entropy over a vocabulary in parts",
        f"{last.M:,} tokens, {last.N:,} words on {last.ranks} GPUs: pairs take {last.total_us('pairs') / 1e3:.2f} ms, "
        f"Megatron-LM's steps {times['Megatron']:.1f} times as long, gathered logits {times['gathered']:.0f} times.",
        f"{most:,} rows of bfloat16 logits, the slowest rank. {found[-1].origin}",
        ("GPUs", "tokens", "words", *(f"{label}, ms" for label in WAYS.values())),
        tuple(
            (f"{cell.ranks}", f"{cell.M:,}", f"{cell.N:,}", *(f"{cell.total_us(way) / 1e3:.2f}" for way in WAYS))
            for cell in cells
        ),
        height=(1.2 + 1.25 * len(shown),) * 2,
        legend=(3, 1),
    )


def head(found, width=4096, words=128256) -> Chart | Shown:
    """Each way of `bench.head` at one shape as a point, its time against its memory; the table has all shapes."""
    if found is None:
        return not_yet("quack-tutorial head --out FILE")
    shape = found.shape(width, words)
    bare = shape.way("matrix products").ms
    chosen = sorted((way for way in shape.ways if way.peak_bytes), key=lambda way: way.peak_bytes)

    def draw(axes, wide):
        places = {way.name: (way.peak_bytes / 1e9, way.ms) for way in chosen}
        for i, (name, at) in enumerate(places.items()):
            axes.plot(*at, MARKERS[i], color=SERIES[i][0], markersize=8, label=name)
        ours = [at for name, at in places.items() if name.startswith("ours")]
        axes.plot(*zip(*ours), color=LIGHT["soft"], linewidth=1.2, zorder=1)
        axes.axhline(bare, color=LIGHT["ink"], linestyle=STYLES[1], label="the products alone")
        ticks = [2.0**k for k in range(-3, 5)]
        log2_axis(axes, ticks, [f"{tick:g}" for tick in ticks])
        axes.set(ylim=(0, None), xlabel="GB beside inputs and gradients", ylabel="ms, forward and backward")

    return Chart(
        draw,
        "The head and its loss: time against memory",
        f"Least memory: {chosen[0].name}, {chosen[0].peak_bytes / 1e9:.2f} GB. The three matrix products alone take {bare:.1f} ms.",
        f"{shape.tokens:,} tokens, width {width:,}, {words:,} words, bfloat16. {found.origin}",
        ("way", "tokens x width x words", "ms", "GB"),
        tuple(
            (
                way.name,
                f"{size.tokens:,} x {size.width:,} x {size.words:,}",
                f"{way.ms:.2f}",
                f"{way.peak_bytes / 1e9:.2f}" if way.peak_bytes else "",
            )
            for size in found.shapes
            for way in size.ways
        ),
        legend=(4, 2),
    )
