"""A class's folder graded twice gives the same table: ten submissions in the quick tests, sixty in the slow ones."""

import random

import pytest

from grading import corpus, folders, lab
from quack_tutorial import cli


def hand_in(folder, count):
    """Write `count` submissions into a folder: right and wrong ones of all labs, and files that are no answer at all."""
    pool = [
        (f"{name}.py", text.encode())
        for name, home in folders().items()
        for text, told in corpus.answers(home).values()
        for _ in range(3 if "right" in told else 1)
    ]
    odd = [("floor.ipynb", b"{"), ("floor.py", bytes(range(256))), ("butterfly.py", b"")]
    for i, (name, content) in enumerate(random.Random(count).sample(pool, count - len(odd)) + odd):
        (folder / f"student-{i:02}").mkdir(parents=True)
        (folder / f"student-{i:02}" / name).write_bytes(content)


@pytest.mark.parametrize("count", [10, pytest.param(60, marks=pytest.mark.slow)])
def test_the_same_folder_gets_the_same_table(count, tmp_path):
    tables = []
    for time in ("once", "twice"):
        hand_in(tmp_path / time, count)
        command = ["labs", "autograde", str(tmp_path / time), "--trusted", "--seed", "5", "--no-compile"]
        assert cli.main(command) == 0
        tables.append([(tmp_path / time / file).read_text(encoding="utf-8") for file in ("grades.csv", "grades.json")])
    assert tables[0] == tables[1]
    rows = [row.split(",") for row in tables[0][0].splitlines()[1:]]
    verdicts = {verdict for _, _, _, _, verdict, *_ in rows}
    assert len(rows) == count and "full marks" in verdicts and len(verdicts) > 3
    assert all(int(of) == sum(lab(name).CHECKS.values()) for _, name, _, of, *_ in rows)
