"""The recorded training of a small transformer with each implementation of its norms and loss; see `bench/training.py`."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from quack_tutorial.records import Record, one

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


class Training(Record):
    """What was trained on one GPU; `failed` says of the variants that have no times why."""

    FILE, ROWS = "model.json", "variants"

    @classmethod
    def row(cls, kept):
        kept |= {key: tuple(kept[key]) for key in ("losses", "step_ms") if key in kept}
        is_ok = kept.pop("status") == "ok"
        return Variant(**kept) if is_ok else kept

    @classmethod
    def load(cls, path=None):
        found = super().load(path)
        ran = tuple(row for row in found.rows if isinstance(row, Variant)) if found else ()
        failed = {row["name"]: row["message"] for row in found.rows if row not in ran} if found else {}
        return found and cls(found.provenance | {"failed": failed}, ran)

    def variant(self, name: str) -> Variant:
        """One variant by its name; KeyError where there is none."""
        return one(self.rows, name=name)

    @property
    def what(self) -> str:
        """The model and its data in a sentence."""
        s = self.sizes
        return (
            f"{s['layers']} layers of width {s['width']:,}, {s['vocabulary']:,} tokens, {s['B']} x {s['T']:,} of them "
            f"a step, activations {s['dtype']}, {s['steps']} steps."
        )


load = Training.load
