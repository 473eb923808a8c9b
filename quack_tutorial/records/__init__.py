"""What was measured or compared, as JSON, and what reads it.

What depends on the card is in a folder a card, named as in `hardware`, such as `h200/`; `folder()` says which one is read:

| in a card's folder | holds                                                                     |
|--------------------|---------------------------------------------------------------------------|
| `bench/`           | times of kernels and their peers                                          |
| `tune/`            | sweeps of configurations                                                  |
| `host/`            | what a call costs on the host                                             |
| `outputs/`         | what the chapters' cells gave there; see `outputs`                        |
| `parallel/`        | cross-entropy over a vocabulary that several such GPUs of one host share  |
| `head.json`        | a model's head and its loss, the logits whole and in pieces; see `head`   |
| `levels.json`      | chapter 14's kernels beside what ships; see `levels`                      |
| `memory.json`      | latencies and bandwidths of the memory hierarchy                          |
| `model.json`       | losses, step times and memory of a small transformer's training           |
| `pitfalls.json`    | one kernel timed in ways that mislead, and in ways that do not            |
| `profile.json`     | what Nsight Compute counted                                               |

What does not:

| folder        | holds                                                                         |
|---------------|-------------------------------------------------------------------------------|
| `compiled/`   | registers and spills of the ladders' versions; see `compiled`                 |
| `listings/`   | PTX and SASS of a kernel; see `listings`                                      |
| `validation/` | how the simulator compares with specification, compiler and GPU; see `suite`  |

`changed_kernels.json` names the operations whose kernels have changed since they were timed, see `quack_tutorial.records.bench`.
"""

import json
from pathlib import Path

from quack_tutorial import card

FOLDER = Path(__file__).parent
WHOLE = ("h100", "h200")  # the cards that stand for others: of each is recorded nearly all that pages show


def folder(name: str | None = None) -> Path:
    """The folder of a card's records: of the one named, of the one that the environment names, or of the recorded one that is most
    like this machine's GPU; ValueError where nothing of it is recorded."""
    name = name or card.named()
    if name is None:
        return FOLDER / card.nearest_recorded(WHOLE)
    if name not in cards():
        raise ValueError(f"nothing is recorded of a card {name!r}; there are {', '.join(cards())}")
    return FOLDER / name


def read(name: str, path=None) -> dict | None:
    """What `path` holds, by default the file of that name of the card that is meant; None where there is none."""
    path = Path(path or folder() / name)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def measured_on(record) -> str:
    """Where a record's numbers are from, as a caption says it."""
    names = {"torch": "torch", "nvidia-cutlass-dsl": "CuTe DSL", "quack-kernels": "QuACK", "liger-kernel": "Liger"}
    versions = ", ".join(f"{name} {record.versions[key]}" for key, name in names.items() if key in record.versions)
    return f"Measured on {record.device}, driver {record.driver}, {versions}, {record.date} UTC."


def cudnn_version(number: str) -> str:
    """cuDNN's version as its releases are named, from the number that torch has for it: "9.19.0" of "91900"."""
    return f"{int(number) // 10000}.{int(number) // 100 % 100}.{int(number) % 100}"


def cards() -> list[str]:
    """The cards of which something is recorded."""
    return sorted(path.parent.name for path in FOLDER.glob("*/bench") if any(path.parent.rglob("*.json")))
