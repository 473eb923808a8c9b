"""The recorded training of a small transformer with each implementation of its norms and loss; see `bench/training.py`."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from quack_tutorial.records import measured_on, read

LAST = 50  # steps: one alone may jump
DRIFT = 0.04  # variants ran one after the other; within one, the medians of 20 steps each differ by up to 4 %


def settled_ms(step_ms) -> float:
    """The median of the second half of the steps, when all is compiled and tuned."""
    return median(step_ms[len(step_ms) // 2 :])


@dataclass(frozen=True)
class Variant:
    """One implementation: the loss and the milliseconds of each step, the most bytes allocated, kernels launched a step."""

    name: str
    losses: tuple[float, ...]
    step_ms: tuple[float, ...]
    peak_bytes: int
    standing_bytes: int
    kernels: int | None

    @property
    def ms(self) -> float:
        """Milliseconds a step, once all is compiled."""
        return settled_ms(self.step_ms)

    @property
    def last_mean(self) -> float:
        """The mean loss of the last `LAST` steps."""
        last = self.losses[-LAST:]
        return sum(last) / len(last)


@dataclass(frozen=True)
class Training:
    """What was trained on one GPU; `failed` says of the variants that have no times why."""

    device: str
    driver: str
    date: str
    versions: dict
    sizes: dict
    variants: tuple[Variant, ...]
    failed: dict[str, str]

    def variant(self, name: str) -> Variant:
        """One variant by its name; KeyError where there is none."""
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise KeyError(f"no variant {name!r}; there are {', '.join(v.name for v in self.variants)}")

    origin = property(measured_on)

    @property
    def what(self) -> str:
        """The model and its data in a sentence."""
        s = self.sizes
        return (
            f"{s['layers']} layers of width {s['width']:,}, {s['vocabulary']:,} tokens, {s['B']} x {s['T']:,} of them "
            f"a step, activations {s['dtype']}, {s['steps']} steps."
        )


def load(path=None) -> Training | None:
    """The record in `path`, by default the card's that is meant (see `records.folder`); None where there is none yet."""
    kept = read("model.json", path)
    if kept is None:
        return None
    variants, failed = [], {}
    for found in kept["variants"]:
        if found.pop("status") == "ok":
            variants.append(Variant(**found | {key: tuple(found[key]) for key in ("losses", "step_ms")}))
        else:
            failed[found["name"]] = found["message"]
    fields = ("device", "driver", "date", "versions", "sizes")
    return Training(*(kept[field] for field in fields), tuple(variants), failed)
