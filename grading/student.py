"""A lab's master notebook -> the student's: solutions become a stub that fails loudly, hidden tests are gone.

The marks are nbgrader's own, so that `nbgrader generate_assignment` finds the same parts in the master as .ipynb.
"""

from __future__ import annotations

import re

SOLUTION = ("### BEGIN SOLUTION", "### END SOLUTION")
HIDDEN = ("### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS")
UNFILLED = "this cell is not filled in yet: replace this line"
STUB = ("# YOUR CODE HERE", f"raise RuntimeError({UNFILLED!r})")
PROSE_STUB = ("YOUR ANSWER HERE",)


def student_version(text: str) -> str:
    """The text with each solution replaced by the stub and hidden tests removed; a ValueError if a mark has no partner."""
    kept, inside, opened, in_code = [], None, 0, False
    for number, line in enumerate(text.splitlines(), 1):
        mark = line.strip()
        in_code = not in_code if line.startswith("```") else in_code
        if mark in (SOLUTION[0], HIDDEN[0]):
            if inside:
                raise ValueError(f"line {number}: {mark} inside the part that line {opened} begins")
            inside, opened = (SOLUTION if mark == SOLUTION[0] else HIDDEN), number
            if inside is SOLUTION:
                indent = line[: len(line) - len(line.lstrip())]
                kept += [indent + stub for stub in (STUB if in_code else PROSE_STUB)]
        elif mark in (SOLUTION[1], HIDDEN[1]):
            if inside is None or mark != inside[1]:
                raise ValueError(f"line {number}: {mark} ends nothing")
            inside = None
        elif inside is None:
            kept.append(line)
    if inside:
        raise ValueError(f"line {opened}: {inside[0]} has no {inside[1]}")
    return "\n".join(kept) + "\n"


def solution_lines(text: str) -> list[str]:
    """The lines of all solutions and hidden tests, stripped, that hold more than a bracket or a keyword."""
    found = []
    for begin, end in (SOLUTION, HIDDEN):
        for part in re.findall(rf"{begin}\n(.*?)\n\s*{end}", text, re.DOTALL):
            found += [line.strip() for line in part.splitlines() if re.search(r"\w\W+\w", line)]
    return found
