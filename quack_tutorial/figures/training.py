"""Charts of the recorded training of a small transformer, see `records.training`; each says so where nothing is recorded.

| function | draws                                                                    |
|----------|--------------------------------------------------------------------------|
| `losses` | the loss over the steps, a line a variant                                 |
| `costs`  | step time and peak memory of each variant, with kernels a step in a table |
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
