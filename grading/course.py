"""A course on nbgrader: what the nbgrader_config.py of a course's folder, which `quack-tutorial labs course` writes, sets up.

nbgrader would run a submitted notebook as the instructor, beside the masters and the gradebook, and a notebook that replaces
`labs.check` would give itself full marks. Here `Judge` stands where nbgrader executes: no cell runs; the file goes through
`grade`, in its sandbox, and each check's cell gets what the grader says as its output. nbgrader takes the points from there.
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
import textwrap
from collections import defaultdict
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook
from nbgrader.converters.base import NbGraderException
from nbgrader.plugins import ExportPlugin, LateSubmissionPlugin
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    NbGraderPreprocessor,
    SaveAutoGrades,
)
from nbgrader.utils import is_grade
from traitlets import Bool, Float, Integer, Unicode

from . import COLUMNS, sandbox
from .grade import grade
from .rules import COST, FREE
from .student import STUB
from .submission import without_outputs

UNTRUSTED = "Without one a submission runs as you; if you trust those who wrote them, set c.Judge.trusted = True."
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
CHECK = re.compile(r'labs\.check\(.*"(\w+)"\)')
# How Canvas, Moodle and a folder for each student name a file: whose it is, and the lab, whatever a browser hung behind it.
# A name that would be a formula in grades.csv, two of its columns, a hidden folder or too long a path is skipped with a warning.
NAMES = (
    r".*/(?P<student_id>[^\W_][^/_,\"=]{0,49})(?:_LATE)?(?:_\d+_\d+_|_\d+_assignsubmission_file_?/?|/)"
    r"(?P<file_id>[a-z-]+?)(?:-\d+| ?\(\d+\))?\.ipynb$"
)


class Judge(NbGraderPreprocessor):
    """The grader's report as the outputs of a notebook's checks; nothing else that a student could have put there is alive."""

    secret = Unicode(
        help="What seeds are drawn from: a file gets the same numbers each time, and nobody guesses them"
    ).tag(config=True)
    trusted = Bool(False, help="Grade where there is no sandbox, too").tag(config=True)
    seconds = Float(sandbox.SECONDS, help="The time limit of a submission").tag(config=True)
    confirm = Bool(True, help="Confirm full marks with CuTe DSL's compiler, where it is installed").tag(config=True)

    def preprocess(self, nb, resources):
        """Grade a notebook whose locked cells are the master's again."""
        if sandbox.problem() and not self.trusted:
            raise NbGraderException(f"{sandbox.problem()} {UNTRUSTED}")
        name = resources["nbgrader"]["notebook"]
        text = without_outputs(nbformat.writes(nb).encode("utf-8", "replace")).decode()
        seed = int.from_bytes(hashlib.sha256((self.secret + text).encode()).digest()[:6])
        report = grade(name, f"{name}.ipynb", text, seed, self.seconds, self.confirm)
        self.log.info("%s", report)
        checks, told = {check.name: check for check in report.checks}, set()
        self._compare(nb, resources["nbgrader"], checks)
        notes = {report.checks[-1].name: f"{report.compiled}\n".lstrip()}  # where it costs points
        nb.metadata = nbformat.from_dict({"kernelspec": KERNEL})
        for cell in nb.cells:
            cell.metadata = nbformat.from_dict({k: v for k, v in cell.metadata.items() if k == "nbgrader"})
            cell.pop("attachments", None)
            if cell.cell_type == "code":
                found = _check(cell)
                cell.outputs = [_output(checks[found], told, notes.get(found, ""))] if found else []
            else:
                # Nbgrader's pages would take it for HTML.
                cell.source = re.sub(r"<(?=[a-zA-Z/!?])", "< ", cell.source)
        return nb, resources

    def _compare(self, nb, at: dict, checks: dict) -> None:
        """Say which points are other than when this student's answer was graded before."""
        if "db_url" not in at:
            return
        with Gradebook(at["db_url"]) as book:
            grades = book.find_submission_notebook(at["notebook"], at["assignment"], at["student"]).grades
            before = {grade.name: grade.auto_score for grade in grades if grade.auto_score is not None}
        now = {cell.metadata.nbgrader.grade_id: checks[found] for cell in nb.cells if (found := _check(cell))}
        changed = [
            (one.name, before[at], one.score) for at, one in now.items() if before.get(at, one.score) != one.score
        ]
        said = ", ".join(f"{name} had {old:g} and has {new}" for name, old, new in changed)
        if before:
            self.log.warning("%s, graded again: %s", at["student"], said or "no check's points change")


class Mistakes(ExportPlugin):
    """What a class got wrong, as a table: the lab, its check, the kind of mistake, how many students made it, and who."""

    def export(self, gradebook):
        """Write mistakes.csv, or what --to says, from the notebooks in autograded/."""
        found = defaultdict(set)
        for file in Path("autograded").glob("*/*/*.ipynb"):
            for cell in nbformat.read(file, 4).cells:
                kinds = [one.ename for one in cell.get("outputs", ()) if one.output_type == "error" and _check(cell)]
                for kind in kinds:
                    found[file.stem, _check(cell), kind].add(file.parts[1])
        with open(self.to or "mistakes.csv", "w", encoding="utf-8", newline="") as to:
            table = csv.writer(to)
            table.writerow(("lab", "check", "mistake", "students", "who"))
            for what, who in sorted(found.items(), key=lambda one: (one[0][0], -len(one[1]), one[0])):
                table.writerow((*what, len(who), ", ".join(sorted(who))))


def _check(cell) -> str:
    """The check of a cell whose points the grader gives, or ""."""
    found = CHECK.search(cell.source) if cell.cell_type == "code" and is_grade(cell) else None
    return found[1] if found else ""


def _output(check, told: set, note: str):
    """What a check says: "right", or an error, which costs its points. A kind of mistake is explained once."""
    said = check.diagnosis
    if said is None:
        return nbformat.v4.new_output("stream", name="stdout", text=f"right: {check.name}\n{note}")
    lines = [f"{check.name}: {said.kind}, as above"]
    if said.kind not in told:
        lines = textwrap.wrap(f"{check.name}: {said.message}", COLUMNS, break_long_words=False, break_on_hyphens=False)
        lines += [f"    {file}:{number}:  {text}" for file, number, text in said.lines]
    told.add(said.kind)
    return nbformat.v4.new_output("error", ename=said.kind, evalue=said.message, traceback=["\n".join(lines)])


class LateDays(LateSubmissionPlugin):
    """Days after the date, begun ones too: some are free, each further one costs a share of what the answer earned."""

    free = Integer(FREE).tag(config=True)
    cost = Float(COST).tag(config=True)

    def late_submission_penalty(self, student_id, score, total_seconds_late):
        """What a late answer loses."""
        days = math.ceil(total_seconds_late / 86400)
        return score * min(1, self.cost * max(0, days - self.free))


def configure(c, secret: str) -> None:
    """Set up a course: `c` is the configuration of its nbgrader_config.py."""
    c.Judge.secret = secret
    c.Autograde.autograde_preprocessors = [Judge, SaveAutoGrades, AssignLatePenalties, CheckCellMetadata]
    c.AssignLatePenalties.plugin_class = LateDays
    c.OverwriteCells.add_missing_cells = True
    c.ClearSolutions.code_stub = {"python": "\n".join(STUB)}
    c.FileNameCollectorPlugin.named_regexp = NAMES
