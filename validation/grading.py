"""Suite `grading`: what the labs' grader lets pass. Right answers, built in several ways and disguised, must get full marks;
the red team's submissions, of tests/grading/test_attacks.py, must not.

Wrong answers, and those that a program makes from right ones, are the corpus's (`quack-tutorial labs check`).
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from grading import corpus, folders, lab, targets
from grading.grade import grade
from quack_tutorial.records import suite as report
from validation.red_team import SOURCES

SECONDS = 30.0
RED_TEAM = "butterfly"  # the lab that its submissions are for


def told(name: str, answer: str, disguise: str, text: str, seed: int):
    """The report on a right answer; the compiler is asked about it once."""
    return grade(name, "answer.py", text, seed, SECONDS, confirm=disguise == "as it is")


def run(sample=False, progress=lambda what: None) -> report.Suite:
    """A row a lab, and one for the red team."""
    chosen = list(folders().items())[: 2 if sample else None]
    rows, mismatches, notes = [], [], []
    refused = tried = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # a submission has a process of its own
        for name, folder in chosen:
            progress(name)
            right = {answer: text for answer, (text, told) in corpus.answers(folder).items() if "right" in told}
            asked = [
                (answer, how, text, seed)
                for answer, one in right.items()
                for how, (text, seed) in corpus.disguises(one, targets(lab(name))).items()
            ]
            found = list(pool.map(lambda one: told(name, *one), asked))  # noqa: B023
            wrong = [
                f"{name}: {a} ({how}): {r.diagnoses[0].message}" for (a, how, *_), r in zip(asked, found) if not r.full
            ]
            rows.append((name, len(asked), len(wrong), len(asked)))
            mismatches += [f"refused, and right: {one}" for one in wrong]
            tried, refused = tried + len(asked), refused + len(wrong)
        progress("red team")
        attacks = dict(list(SOURCES.items())[:4]) if sample else SOURCES
        found = list(pool.map(lambda text: grade(RED_TEAM, "answer.py", text, 0, SECONDS), attacks.values()))
    passed = [attack for attack, told in zip(attacks, found) if told.full]
    rows.append(("red team", len(attacks), len(attacks) - len(passed), 0))
    mismatches += [f"full marks for an attack: {attack}" for attack in passed]
    notes.append(f"right answers refused: {refused} of {tried} ({refused / tried:.1%})")
    notes.append(f"red team with full marks: {len(passed)} of {len(attacks)}")
    return report.Suite(
        "grading",
        "What the labs' grader lets pass",
        ("lab", "submissions", "refused or wrong", "full marks wanted"),
        tuple(rows),
        tuple(mismatches),
        tuple(notes),
        tried + len(attacks),
    )
