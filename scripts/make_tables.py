"""Make quack_tutorial/kernels/tuned/tables.py from the sweeps in the cards' folders of records.

python scripts/make_tables.py [--check]

A length may have been swept with several numbers of rows, and with both types of 16 bits; a configuration is as good there as
where it loses most. Lengths of the benchmark that follow each other share a configuration while one is within `TOLERANCE` of the
best at each of them, and none is more than `choice.NEAR` times the one before it. A length between them takes the configuration of
the next longer one where that is within `TOLERANCE`, and its own best otherwise. `FIRST` is the card that was swept whole; another
card has a table of its own, with the lengths that it did not sweep as the first card has them, where the first card's choice takes
over `ENOUGH` times as long as the ceiling in one of its sweeps. With --check nothing is written, and the exit status says whether
the file is what the sweeps give.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import sys
from pathlib import Path

from quack_tutorial.hardware import ITEM_BYTES
from quack_tutorial.kernels.tuned.candidates import candidates
from quack_tutorial.kernels.tuned.choice import NEAR
from quack_tutorial.kernels.tuned.config import fields, of_fields
from quack_tutorial.records.cells import SWEPT_TOO

ROOT = Path(__file__).resolve().parents[1]
TOLERANCE, ENOUGH = 0.003, 1.01

HEAD = '''"""The shipped configurations of the row-wise kernels, from the sweeps in the cards' records (`scripts/make_tables.py`).

For (operation, bits of an element, rows): lines of row bytes up to, and the fields of `config.Config`, as far as they are not
the default. In sweeps on an H200 ({dates}), with 32768 rows (16384 from 64k columns,
8192 from 150k), each was within {percent} % of the best of `candidates` at every size swept once between its limit and the
line above. Of sizes swept more than once, with 8192 rows as well or in both types of 16 bits, it is within {percent} % of what
loses least in the worst of its sweeps. `OTHERS` has what other cards swept anew; `choice.lines_of` says which card's are taken.
"""

FIRST = "{first}"
TABLES = {{
'''
FIRST = "h200"


def lines(sizes: list, operation: str, rows: str) -> list:
    """(row bytes up to, configuration) of the sizes of types of one width, in ascending order; of what is still a candidate."""
    item = ITEM_BYTES[sizes[0]["dtype"]]
    swept = {N: list(of_N) for N, of_N in itertools.groupby(sorted(sizes, key=by_length), by_length)}
    good = {N: within_tolerance(most_lost(of_N, operation, rows)) for N, of_N in swept.items()}
    chosen = shared({N: configs for N, configs in good.items() if N not in SWEPT_TOO})
    for N in sorted(set(good) & set(SWEPT_TOO), reverse=True):
        longer = min((n for n in chosen if n > N), default=None)
        of_longer = chosen.get(longer)
        chosen[N] = of_longer if of_longer in good[N] else min(good[N], key=good[N].get)
    found = []
    for N in sorted(chosen):
        if found and found[-1][1] == chosen[N] and N * item <= NEAR * found[-1][0]:
            found.pop()
        found.append((N * item, chosen[N]))
    return [(limit, *config) for limit, config in found]


def by_length(size: dict) -> int:
    """The length of a sweep's rows."""
    return size["N"]


def within_tolerance(losses: dict) -> dict:
    """Those that lose little against the one that loses least, with how much."""
    least = min(losses.values())
    return {config: loss / least for config, loss in losses.items() if loss <= (1 + TOLERANCE) * least}


def shared(good: dict) -> dict:
    """N -> configuration, the same for lengths that follow each other while one is within the tolerance at all of them."""
    runs = []  # of lengths, with what is good at each of them
    for N in sorted(good):
        lengths, both = runs[-1] if runs else ([], {})
        both = {config: max(both[config], good[N][config]) for config in good[N] if config in both}
        if both and N <= NEAR * lengths[-1]:
            runs[-1] = [*lengths, N], both
        else:
            runs.append(([N], good[N]))
    return {N: min(both, key=both.get) for lengths, both in runs for N in lengths}


def most_lost(swept: list, operation: str, rows: str) -> dict:
    """configuration -> its time over the fastest, in that of the sweeps of one N where it loses most; of those that were finalists
    in each, or, where there is none, of all by their rough times. ValueError if none ran in each."""
    for time in ("us", "rough_us"):
        lost = []
        for size in swept:
            tried = {fields(c) for c in candidates(operation, 8 * ITEM_BYTES[size["dtype"]], size["N"], rows)}
            ran = {tuple(c["config"]): c[time] for c in size["candidates"] if c["status"] == "ok" and time in c}
            times = {config: us for config, us in ran.items() if config in tried}
            lost.append({config: us / min(times.values()) for config, us in times.items()})
        in_each = {config: max(one[config] for one in lost) for config in lost[0] if all(config in one for one in lost)}
        if in_each:
            return in_each
    size = f"{operation} {swept[0]['dtype']} N={swept[0]['N']} {rows}"
    raise ValueError(f"{size}: no configuration ran in every sweep; tune it again with one list of --configs")


def swept(sweeps: list) -> dict:
    """(operation, bits, rows) -> the sizes that were swept."""
    found = {}
    for sweep in sweeps:
        for size in sweep["sizes"]:
            key = sweep["operation"], 8 * ITEM_BYTES[size["dtype"]], sweep["rows"]
            found.setdefault(key, []).append({"date": sweep["date"]} | size)
    return found


def text(sweeps: dict) -> str:
    """The module, from card -> its sweeps."""
    first = swept(sweeps[FIRST])
    # A file has the date when it was begun, a size its own if it came later.
    dates = ", ".join(sorted({size["date"] for sizes in first.values() for size in sizes}))
    out = [
        HEAD.format(percent=100 * TOLERANCE, dates=dates, first=FIRST),
        *as_lines(first, "    "),
        "}\n",
        "OTHERS = {",
    ]
    for card in sorted(set(sweeps) - {FIRST}):
        own = {}
        for key, sizes in swept(sweeps[card]).items():
            operation, _, rows = key
            if key in first and will_do(lines(first[key], operation, rows), sizes):
                continue
            lengths = set(map(by_length, sizes))
            own[key] = sizes + [size for size in first.get(key, ()) if by_length(size) not in lengths]
        out += [f'\n    "{card}": {{\n', *as_lines(own, "        "), "    },"]
    return "".join(out) + ("\n}\n" if len(sweeps) > 1 else "}\n")


def as_lines(found: dict, margin: str) -> list:
    """The lines of a table in the module, as the formatter has them."""
    out = []
    for operation, bits, rows in sorted(found):
        table = lines(found[operation, bits, rows], operation, rows)
        entries = [f"({limit}, dict({named(operation, config)})),\n" for limit, *config in table]
        if len(entries) == 1:
            out.append(f'{margin}("{operation}", {bits}, "{rows}"): ({entries[0].rstrip()}),\n')
            continue
        out.append(f'{margin}("{operation}", {bits}, "{rows}"): (\n')
        out += [f"{margin}    {entry}" for entry in entries]
        out.append(f"{margin}),\n")
    return out


def will_do(table: list, sizes: list) -> bool:
    """Whether what a table has for the sizes was tried in each sweep, and takes at most `ENOUGH` times as long as the ceiling."""
    for size in sizes:
        row_bytes = size["N"] * ITEM_BYTES[size["dtype"]]
        chosen = next((config for limit, *config in table if row_bytes <= limit), None)
        times = [
            one.get("us", one["rough_us"])
            for one in size["candidates"]
            if one["config"] == chosen and one["status"] == "ok"
        ]
        if not times or times[0] > ENOUGH * size["ceiling_us"]:
            return False
    return True


def named(operation: str, numbers) -> str:
    """The fields of a configuration that are not the default, as what a dict is made from."""
    config = of_fields(operation, numbers)
    given = [field for field in dataclasses.fields(config) if getattr(config, field.name) != field.default]
    return ", ".join(f"{field.name}={getattr(config, field.name)}" for field in given)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the file is what the sweeps give")
    args = parser.parse_args()
    path = ROOT / "quack_tutorial/kernels/tuned/tables.py"
    sweeps = {}
    for file in sorted((ROOT / "quack_tutorial/records").glob("*/tune/*.json")):
        sweeps.setdefault(file.parts[-3], []).append(json.loads(file.read_text()))
    made = text(sweeps)
    if not args.check:
        path.write_text(made)
        return 0
    same = path.read_text() == made
    print(f"{path.relative_to(ROOT)} is {'' if same else 'not '}what the sweeps give")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
