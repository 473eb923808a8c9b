"""A lab's master notebook -> the student's: solutions become a stub that fails loudly.

The marks are nbgrader's own, so that `nbgrader generate_assignment` finds the same parts in the master as .ipynb.
"""

from __future__ import annotations

import re

SOLUTION = ("### BEGIN SOLUTION", "### END SOLUTION")
UNFILLED = "this cell is not filled in yet: replace this line"
STUB = ("# YOUR CODE HERE", f"raise RuntimeError({UNFILLED!r})")
PROSE_STUB = ("YOUR ANSWER HERE",)


def student_version(text: str) -> str:
    """The text with each solution replaced by the stub; a ValueError if a mark has no partner."""
    kept, opened, in_code = [], 0, False
    for number, line in enumerate(text.splitlines(), 1):
        mark = line.strip()
        in_code = not in_code if line.startswith("```") else in_code
        if mark == SOLUTION[0]:
            if opened:
                raise ValueError(f"line {number}: {mark} inside the part that line {opened} begins")
            opened = number
            indent = line[: len(line) - len(line.lstrip())]
            kept += [indent + stub for stub in (STUB if in_code else PROSE_STUB)]
        elif mark == SOLUTION[1]:
            if not opened:
                raise ValueError(f"line {number}: {mark} ends nothing")
            opened = 0
        elif not opened:
            kept.append(line)
    if opened:
        raise ValueError(f"line {opened}: {SOLUTION[0]} has no {SOLUTION[1]}")
    return "\n".join(kept) + "\n"


def solution_lines(text: str) -> list[str]:
    """The lines of all solutions, stripped, that hold more than a bracket or a keyword."""
    parts = re.findall(rf"{SOLUTION[0]}\n(.*?)\n\s*{SOLUTION[1]}", text, re.DOTALL)
    return [line.strip() for part in parts for line in part.splitlines() if re.search(r"\w\W+\w", line)]
