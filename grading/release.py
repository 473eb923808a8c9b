"""What is handed out of the labs: the folder of a course on nbgrader, a student's notebook, the tables that pages show.

`quack-tutorial labs course FOLDER` writes

    FOLDER/nbgrader_config.py          grading by `course`, in the sandbox, and a secret of this course
    FOLDER/source/<lab>/<lab>.ipynb    the master, as nbgrader's generate_assignment takes it
    FOLDER/source/<lab>/lab.packed     what the notebook's checks need: lab.py, packed

The checks of a notebook compare with right answers, so they hold some: of the labs that ask for a number, the formula. They are
packed so that nobody reads them by accident. Whoever unpacks them finds those formulas, but no kernel, and not the numbers that a
grade comes from.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from workbench import myst

from . import corpus, folders, lab, pack, student, targets

CONFIG = """\
from grading import course

c = get_config()
course.configure(c, secret="{secret}")
"""


def course(folder: Path) -> list[Path]:
    """Write a course's folder, which must be empty; the files written. A ValueError says why not."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there and not empty; name a new folder, so that nobody's work is written over")
    if not folders():
        raise ValueError("no labs here; QUACK_TUTORIAL_LABS names the repository's labs/")
    files = {folder / "nbgrader_config.py": CONFIG.format(secret=secrets.token_hex(16)).encode()}
    for name, home in folders().items():
        master = (home / f"{name}.md").read_text(encoding="utf-8")
        files[folder / "source" / name / f"{name}.ipynb"] = notebook(name, master).encode()
        files[folder / "source" / name / "lab.packed"] = pack((home / "lab.py").read_bytes())
    for file, content in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return list(files)


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


def mistakes() -> str:
    """What the wrong answers of each lab's corpus are told, as Markdown: each kind of mistake once."""
    parts = []
    for name, home in folders().items():
        told = {}
        for _, wanted in corpus.answers(home).values():
            if "kind" in wanted:
                told.setdefault(wanted["kind"], wanted["says"])
        chapters = about((home / f"{name}.md").read_text(encoding="utf-8"))[1]
        lines = [f"- **{kind}**: {says.replace('*', chr(92) + '*')}" for kind, says in told.items()]
        fold = myst.FOLD.format(label=lab(name).TITLE, body="\n".join(lines))
        # As the site's folds look.
        parts.append((chapters[::-1], fold.replace("<details>", '<details class="qt-fold">')))
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
            # A check that fails does not keep Run All from the others.
            cell.metadata["tags"] = ["raises-exception"]
    return myst.dumps(made)


def notebooks() -> dict[str, bytes]:
    """{path: the student's notebook} of each lab, in the order of their chapters."""
    masters = {name: (home / f"{name}.md").read_text(encoding="utf-8") for name, home in folders().items()}
    in_order = sorted(masters, key=lambda name: about(masters[name])[1][::-1])
    return {
        f"labs/{name}/{name}.ipynb": notebook(name, student.student_version(masters[name])).encode()
        for name in in_order
    }
