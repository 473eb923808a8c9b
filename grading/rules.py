"""The rules of a lab, a few lines that its notebook shows: `python -m grading.rules` writes them into the masters.

What code may say is `permitted`'s, points are the lab's; a test compares them with what each master says.
"""

from __future__ import annotations

import json
import re
import textwrap

from . import folders, lab, permitted
from .sizes import ROWS

# Days after the date, and what each further one costs of what the answer earned.
FREE, COST = 2, 0.1

HEAD = "## The rules\n\n"
WORDS = re.compile(r"(?m)^## Explain\n(?:.*\n)*?\+\+\+ (\{.*\})$")
PLACE = re.compile(rf"{re.escape(HEAD)}(?:- .*\n(?:  .*\n)*)+\n|(?=^## 1\. )", re.MULTILINE)


def rules(name: str, master: str) -> str:
    """The section of a lab."""
    module = lab(name)
    whole = ", ".join(f"`{module}`" for module in permitted.IMPORTS)
    some = (
        f"; from `{one}` {', '.join(f'`{name}`' for name in vars(what))}" for one, what in permitted.IMPORTED.items()
    )
    points, in_words = sum(module.CHECKS.values()), json.loads(WORDS.search(master)[1])["nbgrader"]["points"]
    lines = [
        f"Your code may import {whole}{''.join(some)}. Any other import at the top of a cell or file is left out.",
        f"Refused in every check and in the grade, with the line: {'; '.join(permitted.FORBIDDEN)}.",
        f"The checks are worth {points} points. The grade comes from the same checks, with other numbers, other sizes and in "
        "another order, each time in code that is read anew; then calls follow one another, and change nothing.",
        f"The explanation at the end is worth {in_words} points more. A person reads it.",
        f"Late: {FREE} days are free. Each further day costs {100 * COST:g} % of what your answer earns, unless your course says "
        "otherwise.",
        "Plots and tests of your own may stay in the notebook. Whatever is neither a function nor a class, and fails in the "
        "grader, is left out.",
    ]
    if module.TARGET:
        lines[2] += (
            f" Some of a kernel's sizes follow from what its own code decides by a size. There are up to {ROWS:,} rows, which may "
            "lie further apart than they are long. It leaves its inputs as they were. "
            "One with full marks is compiled by CuTe DSL, too; refused, it loses the last check's points."
        )
    return HEAD + "".join(textwrap.fill(f"- {line}", 130, subsequent_indent="  ") + "\n" for line in lines) + "\n"


def with_rules(name: str, master: str) -> str:
    """A master notebook with its rules as they are now."""
    return PLACE.sub(lambda _: rules(name, master), master, count=1)


def main() -> None:
    """Write the rules into all masters."""
    for name, home in folders().items():
        file = home / f"{name}.md"
        file.write_text(with_rules(name, file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
