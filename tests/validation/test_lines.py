"""Suite `lines`: what the simulator counts at a line, against a recorded GPU."""

from dataclasses import replace

from quack_tutorial.operations import OPERATIONS
from quack_tutorial.records import lines as record
from validation import lines


def test_the_copies_agree_line_by_line():
    suite = lines.run(sample=True, progress=lambda text: None)
    (row,) = suite.rows
    assert not suite.mismatches and row[1] == suite.checked >= 20 and row[2] >= 20


def test_a_count_that_nothing_explains_is_a_difference():
    row = record.load("copy")("vectors", "float32", lines.N)
    more = [replace(line, sectors=3 * line.sectors) if "# read" in line.text else line for line in row.main.lines]
    wrong = replace(row, launches=(replace(row.main, lines=tuple(more)),))
    every = lines.compared(wrong, OPERATIONS["copy"].ladder["vectors"])
    outcomes = {text: outcome for text, *_, outcome in every}
    assert [outcome for text, outcome in outcomes.items() if "# read" in text] == ["differs"]
