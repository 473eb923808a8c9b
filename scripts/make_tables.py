"""Make quack_tutorial/kernels/tables.py from the sweeps in book/records/tune.

python scripts/make_tables.py [--check]

Sizes that follow each other share a line while one configuration is within `TOLERANCE` of the fastest at each of them. With
--check nothing is written; the exit status says whether the file is what the sweeps give.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from quack_tutorial.kernels.config import candidates, fields

ROOT = Path(__file__).resolve().parents[1]
TOLERANCE = 0.003
ITEM_BYTES = {"float32": 4, "bfloat16": 2}

HEAD = '''"""The shipped configurations of the row-wise kernels, from the sweeps in book/records/tune (`scripts/make_tables.py`).

For (operation, bits of an element, rows): lines of row bytes up to, threads a row, threads a block, blocks a row, in
flight, registers (0: no limit) and rows a thread where they are several (see `config.Config`). Each was within {percent} % of
the fastest that was tried at every size measured between its limit and the line above, on an H200 on {dates}, with 32768 rows
(16384 from 64k columns, 8192 from 150k). They hold on an H100, whose SMs are the same: with 0.7 of the memory bandwidth, fewer
bytes need to be on their way.
"""

TABLES = {{
'''


def lines(sizes: list, operation: str, rows: str) -> list:
    """(row bytes up to, configuration) of the sizes of one dtype, in ascending order; of what is still a candidate."""
    found, good = [], {}
    for size in sorted(sizes, key=lambda size: size["N"]):
        tried = {fields(c) for c in candidates(operation, 8 * ITEM_BYTES[size["dtype"]], size["N"], rows)}
        times = {tuple(c["config"]): c["us"] for c in size["candidates"] if "us" in c and tuple(c["config"]) in tried}
        best = min(times.values())
        here = {config: us / best for config, us in times.items() if us <= (1 + TOLERANCE) * best}
        both = {config: max(good[config], here[config]) for config in here if config in good}
        limit = size["N"] * ITEM_BYTES[size["dtype"]]
        if both:
            found.pop()
        good = both or here
        found.append((limit, *min(good, key=good.get)))
    return found


def text(sweeps: list) -> str:
    """The module."""
    tables = {}
    for sweep in sweeps:
        for dtype, item in ITEM_BYTES.items():
            sizes = [size for size in sweep["sizes"] if size["dtype"] == dtype]
            if sizes:
                tables[sweep["operation"], item * 8, sweep["rows"]] = lines(sizes, sweep["operation"], sweep["rows"])
    dates = " and ".join(sorted({str(sweep["date"])[:10] for sweep in sweeps}))
    out = [HEAD.format(percent=100 * TOLERANCE, dates=dates)]
    for key in sorted(tables):
        operation, bits, rows = key
        out.append(f'    ("{operation}", {bits}, "{rows}"): (\n')
        out += [f"        {line},\n" for line in tables[key]]
        out.append("    ),\n")
    return "".join(out) + "}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the file is what the sweeps give")
    args = parser.parse_args()
    path = ROOT / "quack_tutorial/kernels/tables.py"
    made = text([json.loads(sweep.read_text()) for sweep in sorted((ROOT / "book/records/tune").glob("*.json"))])
    if not args.check:
        path.write_text(made)
        return 0
    same = path.read_text() == made
    print(f"{path.relative_to(ROOT)} is {'' if same else 'not '}what the sweeps give")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
