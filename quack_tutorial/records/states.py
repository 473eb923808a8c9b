"""The recorded times of calls at sizes that no sweep had, in three states of L2, and of the hint in more.

| state      | the calls follow                                                                                |
|------------|-------------------------------------------------------------------------------------------------|
| `rows`     | each other, over inputs that go round: L2 holds other inputs, which it may drop                 |
| `write`    | a write of 256 MB: L2 is full of lines that must be written back before they can go             |
| `producer` | what wrote the call's own matrix: a product of 64 terms for 16-bit logits, else a copy          |

In `hint`, which compares loads with and without it: `read` is a read of 256 MB, `mul` an element-wise copy, and `mm64` and `mm512`
are products of so many terms. Cells were drawn from a seed: types, lengths (models' own, multiples of 64 and of 8, odd ones; every
third a power of 2) and rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from quack_tutorial.records import Record, made_by


@dataclass(frozen=True)
class Cell:
    """One operation, type and size; `us` is {state: {implementation: microseconds a call}}."""

    operation: str
    dtype: str
    M: int
    N: int
    config: str
    us: dict[str, dict[str, float]]

    def over_best_peer(self, state: str) -> float:
        """Our speed over the best peer's."""
        ours = self.us[state]["ours"]
        return min(us for name, us in self.us[state].items() if name != "ours") / ours


class States(Record):
    """What was measured on one GPU."""

    FILE = "states.json"

    @classmethod
    def row(cls, kept):
        return Cell(**kept)

    @property
    def origin(self) -> str:
        """Where the numbers are from; the driver was not noted."""
        return f"Measured on {self.device}, {made_by(self.versions, self.MADE_BY)}, {self.date} UTC."


load = States.load
