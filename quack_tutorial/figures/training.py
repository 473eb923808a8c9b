"""Charts of the recorded training of a small transformer and of its loss on several GPUs, see `records.training` and
`records.parallel`; each says so where nothing is recorded.

| function | draws                                                                    |
|----------|--------------------------------------------------------------------------|
| `losses` | the loss over the steps, a line a variant                                 |
| `costs`  | step time and peak memory of each variant, with kernels a step in a table |
| `vocabulary` | cross-entropy over a vocabulary that several GPUs share, three ways   |
"""

from __future__ import annotations

from html import escape

from .charts import Chart, _figure
from .suites import Shown
from .theme import LIGHT, SERIES

STYLES = ("solid", (0, (6, 3)), (0, (2, 2)), (0, (8, 2, 2, 2)))


def not_yet(command: str) -> Shown:
    """What stands in the place of a chart that has no record."""
    html = f"<p><em>Not yet measured: <code>{escape(command)}</code> on an H200 makes the record.</em></p>"
    return Shown(html, f"Not yet measured: `{command}` on an H200 makes the record.")


def losses(training) -> Chart | Shown:
    """The loss of every variant over the steps; the summary says how far from stock each comes."""
    if training is None:
        return not_yet("quack-tutorial model --out FILE")
    variants = training.variants

    def draw(wide):
        figure, axes = _figure(wide, 4.4 if wide else 6.2)
        for i, variant in enumerate(variants):
            axes.plot(
                range(1, len(variant.losses) + 1),
                variant.losses,
                color=SERIES[i % len(SERIES)][0],
                linestyle=STYLES[i % len(STYLES)],
                linewidth=2.6 - 0.25 * i,
                label=variant.name,
            )
        axes.set_ylim(bottom=0)
        axes.set_xlabel("step")
        axes.set_ylabel("mean loss")
        columns = 3 if wide else 1
        figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=12, labelcolor=LIGHT["ink"])
        return figure

    apart = {v.name: training.farthest(v.name) for v in variants if v.name != "stock"}
    farthest = max(apart, key=apart.get)
    first, last = variants[0].losses[0], variants[0].losses[-1]
    return Chart(
        draw,
        "The loss, whoever computes it",
        f"From {first:.2f} to {last:.2f}. The farthest from stock at any step: {farthest}, by {apart[farthest]:.3f}.",
        f"{training.what} {training.origin}",
        ("variant", "first", "last", "farthest from stock"),
        tuple((v.name, f"{v.losses[0]:.4f}", f"{v.losses[-1]:.4f}", f"{apart.get(v.name, 0):.4f}") for v in variants),
    )


def costs(training) -> Chart | Shown:
    """Bars of the time of a step and of the memory above what stands between steps, a pair a variant."""
    if training is None:
        return not_yet("quack-tutorial model --out FILE")
    variants = training.variants

    def draw(wide):
        figure, axes = _figure(wide, 0.9 + 0.75 * len(variants))
        places = range(len(variants))
        axes.barh(
            [p - 0.19 for p in places], [v.ms for v in variants], height=0.36, color=SERIES[0][0], label="ms a step"
        )
        gigabytes = [v.peak_bytes / 1e9 for v in variants]
        axes.barh([p + 0.19 for p in places], gigabytes, height=0.36, color=SERIES[1][0], label="GB at most")
        for place, variant in zip(places, variants):
            for value, at in ((variant.ms, -0.19), (variant.peak_bytes / 1e9, 0.19)):
                axes.annotate(f" {value:.1f}", (value, place + at), va="center", color=LIGHT["ink"], fontsize=11.5)
        axes.set_yticks(places, [v.name if wide else v.name.replace(", ", ",\n") for v in variants])
        axes.set_ylim(len(variants) - 0.5, -0.5)
        axes.set_xlim(right=1.15 * max([v.ms for v in variants] + gigabytes))
        axes.grid(axis="y", visible=False)
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=12, labelcolor=LIGHT["ink"])
        return figure

    quickest, least = min(variants, key=lambda v: v.ms), min(variants, key=lambda v: v.peak_bytes)
    failed = "".join(f" {name} did not run: {why}" for name, why in training.failed.items())
    return Chart(
        draw,
        "What a training step costs",
        f"Quickest: {quickest.name}, {quickest.ms:.1f} ms. Least memory: {least.name}, {least.peak_bytes / 1e9:.1f} GB.{failed}",
        f"{training.what} {training.origin}",
        ("variant", "ms a step", "GB at most", "of them standing", "kernels a step"),
        tuple(
            (v.name, f"{v.ms:.2f}", f"{v.peak_bytes / 1e9:.2f}", f"{v.standing_bytes / 1e9:.2f}", f"{v.kernels or ''}")
            for v in variants
        ),
    )


WAYS = (("pairs", "pairs cross NVLink"), ("gathered", "logits cross NVLink"), ("one GPU", "whole rows on one GPU"))


def vocabulary(found) -> Chart | Shown:
    """Bars of the time of loss and gradient for each way of `bench.parallel`, a group a cell of the records `found`."""
    if not found:
        return not_yet("quack-tutorial parallel --out FILE")
    cells = [cell for record in found for cell in record.cells]

    def total(cell, way):
        return cell.us[f"{way} loss"] + cell.us[f"{way} gradient"]

    def draw(wide):
        figure, axes = _figure(wide, 1.2 + 0.85 * len(cells))
        for i, (way, label) in enumerate(WAYS):
            places = [place + 0.27 * (i - 1) for place in range(len(cells))]
            ms = [total(cell, way) / 1e3 for cell in cells]
            axes.barh(places, ms, height=0.25, color=SERIES[i][0], label=label)
            for place, value in zip(places, ms):
                axes.annotate(f" {value:.2f}", (value, place), va="center", color=LIGHT["ink"], fontsize=11.5)
        names = [f"{cell.ranks} GPUs,{' ' if wide else chr(10)}{cell.dtype},\n{cell.N:,} words" for cell in cells]
        axes.set_yticks(range(len(cells)), names)
        axes.set_ylim(len(cells) - 0.5, -0.5)
        axes.set_xlim(right=1.15 * max(total(cell, way) for cell in cells for way, _ in WAYS) / 1e3)
        axes.set_xlabel("ms, loss and gradient")
        axes.grid(axis="y", visible=False)
        figure.legend(
            loc="outside lower center", ncols=3 if wide else 1, frameon=False, fontsize=12, labelcolor=LIGHT["ink"]
        )
        return figure

    first = cells[0]
    times = total(first, "gathered") / total(first, "pairs")
    return Chart(
        draw,
        "Cross-entropy over a vocabulary in parts",
        f"{first.dtype}, {first.N:,} words on {first.ranks} GPUs: sending pairs takes {total(first, 'pairs') / 1e3:.2f} ms, "
        f"sending logits {times:.1f} times as long.",
        f"{first.M:,} rows; a call as a training step makes it, host and GPU, the slowest rank. "
        + " ".join(record.origin for record in found),
        (
            *("", "words", "loss, pairs", "of it the exchange", "the exchange alone", "gradient"),
            *("loss, logits", "loss, one GPU", "gradient, one GPU"),
        ),
        tuple(
            (
                f"{cell.ranks} GPUs, {cell.dtype}",
                f"{cell.N:,}",
                f"{cell.us['pairs loss']:,.0f} us",
                f"{cell.exchange_share:.0%}",
                f"{cell.us['exchange']:,.0f} us",
                f"{cell.us['pairs gradient']:,.0f} us",
                *(f"{cell.us[name]:,.0f} us" for name in ("gathered loss", "one GPU loss", "one GPU gradient")),
            )
            for cell in cells
        ),
    )  # fmt: skip
