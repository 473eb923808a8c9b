"""`quack-tutorial labs release DIR`: the student's copies of all labs, and nothing that is the instructor's.

    DIR/README.md               what to do, a line a lab
    DIR/<lab>/<lab>.ipynb       the notebook, with a stub for each solution and without hidden tests
    DIR/<lab>/lab.packed        what the notebook's checks need: lab.py, packed
    DIR/<lab>/.github/workflows/classroom.yml   GitHub Classroom's points, where the folder is an assignment's template

The checks of a notebook compare with right answers, so they hold some: of the labs that ask for a number, the formula. They are
packed so that nobody reads them by accident. Whoever unpacks them finds those formulas, but no kernel, and not the seed that
`autograde` uses.
"""

from __future__ import annotations

import re
from pathlib import Path

from quack_tutorial import myst

from . import corpus, folders, lab, pack, student, targets

README = """\
# Labs

Each folder is a lab. Open its notebook in JupyterLab (`jupyter lab` in this folder) and fill in the cells that say
`YOUR CODE HERE`. Run each, then the check below it: it says what is right, or what went wrong and in which of your lines. Check as
often as you like; after a change, run the changed cell again first. No GPU is needed, but for a race that one lab offers.

`cell 5:31` is line 31 of the cell that JupyterLab numbers [5]; View, Show Line Numbers counts the lines for you.

{labs}

- The notebooks need Python 3.11 or newer with the package `quack-tutorial` and JupyterLab. Your instructor says where to get them.
- The same checks on the notebook as it was saved: `!quack-tutorial grade LAB` in a cell of it, or the same without the `!` in a
  terminal, in the lab's folder. Here `cell 5` is the fifth cell of code, which has that number after Restart Kernel and Run All.
- The grade comes from the same checks, with other numbers and other sizes. An answer made for the numbers shown here will fail.
- What you hand in may import cutlass, math and operator only, and each lab asks for your own kernel: one imported from the
  package is refused. Cells with plots and tests of your own can stay; they are left out.
- The last cell asks for an explanation in words. A person reads it. The points above are without it.
- `lab.packed` belongs to the checks. Leave it where it is.
- Hand in the notebook under its own name: `LAB.ipynb`.
"""


def release(folder: Path) -> list[Path]:
    """Write the students' copies into an empty folder; the files written. A ValueError says why not."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there and not empty; name a new folder, so that nobody's work is written over")
    if not folders():
        raise ValueError("no labs here; QUACK_TUTORIAL_LABS names the repository's labs/")
    files = {}
    for name, home in folders().items():
        master = (home / f"{name}.md").read_text(encoding="utf-8")
        files[folder / name / f"{name}.ipynb"] = notebook(name, student.student_version(master)).encode()
        files[folder / name / "lab.packed"] = pack((home / "lab.py").read_bytes())
        files[folder / name / ".github/workflows/classroom.yml"] = classroom(name).encode()
    files[folder / "README.md"] = README.format(labs=overview("[{0}]({0}/{0}.ipynb)")).encode()
    for file, content in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return list(files)


CLASSROOM = """\
# GitHub Classroom: runs the notebook's checks on each push and reports their points. The organisation's variable
# QUACK_TUTORIAL says what pip installs: a wheel's address, or git+https://... of the course's repository.
name: Autograding
on: [push, repository_dispatch]
permissions:
  checks: write
  actions: read
  contents: read
jobs:
  run-autograding-tests:
    runs-on: ubuntu-latest
    if: github.actor != 'github-classroom[bot]'
    env:
      QUACK_TUTORIAL_LABS: ${{{{ github.workspace }}}}
    steps:
      - uses: actions/checkout@v4
        with:
          path: {lab}
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: python -m pip install "${{{{ vars.QUACK_TUTORIAL }}}}"
{steps}
      - uses: classroom-resources/autograding-grading-reporter@v1
        env:
{results}
        with:
          runners: {runners}
"""
CHECK = """\
      - id: {check}
        uses: classroom-resources/autograding-command-grader@v1
        with:
          test-name: {check}
          command: quack-tutorial grade {lab} {lab}/{lab}.ipynb --check {check}
          timeout: 2
          max-score: {points}"""


def classroom(name: str) -> str:
    """GitHub Classroom's workflow for a repository that holds one lab: a test for each check, with its points."""
    checks = lab(name).CHECKS
    steps = "\n".join(CHECK.format(lab=name, check=check, points=points) for check, points in checks.items())
    results = "\n".join(
        f"          {check.upper()}_RESULTS: ${{{{ steps.{check}.outputs.result }}}}" for check in checks
    )
    return CLASSROOM.format(lab=name, steps=steps, results=results, runners=",".join(checks))


def overview(title: str = "{0}") -> str:
    """The labs as a Markdown table, in the order of their chapters; `title` is how a name is written."""
    rows = []
    for name, home in folders().items():
        minutes, chapters = about((home / f"{name}.md").read_text(encoding="utf-8"))
        hand_in = ", ".join(f"`{target}`" for target in targets(lab(name)))
        after, points = " and ".join(map(str, chapters)), sum(lab(name).CHECKS.values())
        rows.append((chapters[::-1], f"| {title.format(name)} | {hand_in} | {after} | {minutes} | {points} |"))
    head = ["| lab | you hand in | after chapter | minutes | points |", "|---|---|---|---|---|"]
    return "\n".join(head + [row for _, row in sorted(rows)])


def in_order() -> list[str]:
    """The labs' names in the order of their chapters."""
    after = {
        name: about((home / f"{name}.md").read_text(encoding="utf-8"))[1][::-1] for name, home in folders().items()
    }
    return sorted(after, key=lambda name: (after[name], name))


def mistakes() -> str:
    """What the wrong answers of each lab's corpus are told, as MyST: each kind of mistake once."""
    parts = []
    for name, home in folders().items():
        told = {}
        for _, wanted in corpus.answers(home).values():
            if "kind" in wanted:
                told.setdefault(wanted["kind"], wanted["says"])
        chapters = about((home / f"{name}.md").read_text(encoding="utf-8"))[1]
        lines = [f"- **{kind}**: {says.replace('*', chr(92) + '*')}" for kind, says in told.items()]
        parts.append((chapters[::-1], f":::{{dropdown}} {lab(name).TITLE}\n" + "\n".join(lines) + "\n:::"))
    return "\n\n".join(text for _, text in sorted(parts))


def about(master: str) -> tuple[int, list[int]]:
    """Minutes that a lab takes, and the chapters that come before it, as its notebook's first cell says."""
    head = master.partition("```{code-cell}")[0]
    minutes = int(re.search(r"It takes about (\d+) minutes", head)[1])
    before = re.search(r"Chapters? ([\d and,]+) comes? before it", head)[1]
    return minutes, [int(number) for number in re.findall(r"\d+", before)]


def notebook(name: str, text: str) -> str:
    """A MyST notebook as .ipynb, the same bytes each time; an ImportError without jupytext."""
    made = myst.reader(text, name, folders()[name])
    for cell in made.cells:
        if cell["cell_type"] == "code" and cell.metadata.get("nbgrader", {}).get("grade"):
            cell.metadata["tags"] = ["raises-exception"]  # a check that fails does not keep Run All from the others
    return myst.dumps(made)


def notebooks() -> dict[str, bytes]:
    """{path: the student's notebook} of each lab, in the order of their chapters."""
    masters = {name: (home / f"{name}.md").read_text(encoding="utf-8") for name, home in folders().items()}
    in_order = sorted(masters, key=lambda name: about(masters[name])[1][::-1])
    return {
        f"labs/{name}/{name}.ipynb": notebook(name, student.student_version(masters[name])).encode()
        for name in in_order
    }
