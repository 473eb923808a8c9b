"""The recorded times of chapter 14's kernels: what `quack-tutorial levels` wrote, read."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

FILE = Path(__file__).parent / "levels" / "h200.json"


def load(path=FILE) -> tuple[list[dict], str]:
    """(one dictionary a cell: dtype, M, N, and GB/s by kernel name), and where they come from; ([], sentence) without a record."""
    if not Path(path).exists():
        return [], "Not measured yet: `quack-tutorial levels` does it on a Hopper GPU."
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    cells = [
        {
            **{key: cell[key] for key in ("dtype", "M", "N")},
            "gb_s": {name: cell["bytes_moved"] / median(us) / 1e3 for name, us in cell["samples_us"].items()},
        }
        for cell in data["cells"]
    ]
    return cells, f"Measured on one {data['device']}, {data['date'][:10]}, driver {data['driver']}."
