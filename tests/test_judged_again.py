"""A cell that judges says the same when it is run again after *Run All*, in the order in which a reader of a notebook does it."""

import html
import re

import pytest

from workbench import myst
from workbench.session import Session

pytest.importorskip("jupytext", reason="jupytext is not installed, which reads the chapters")

GUESS = re.compile(r"^\w*guess = \{", re.M)
JUDGED = re.compile(r"^qt\.answer\(\s*(\w*guess)\b", re.M)
VERDICT = re.compile(r"^(?:\S+ )?(?:right|not yet)\b", re.M)


class Reader:
    """One who runs a notebook's cells in JupyterLab: every cell goes on with all the names that are there."""

    def __init__(self):
        self.said = []
        self.session = Session(lambda kind, text: self.said.append((kind, text)))

    def run(self, place, source):
        """What a cell says: the answers to a prediction, then the verdicts, then the error."""
        self.said.clear()
        self.session.run(place, source)
        drawn = [text for kind, text in self.said if "qt-answer" in text]
        answers = [html.unescape(re.sub("<.*?>", "", text)) for text in drawn]
        printed = "".join(text for kind, text in self.said if kind == "text")
        errors = [f"error: {text}" for kind, text in self.said if kind == "error"]
        return [*answers, *VERDICT.findall(printed), *errors]


def chapter_cells(path):
    """The chapter's cells with code, as (place, source, whether it is a solution)."""
    text = path.read_text("utf-8")
    every = enumerate(myst.cells(text, path.stem).cells)
    code = [(n, cell) for n, cell in every if cell.cell_type == "code"]
    return [(n, cell.source, "hide-cell" in cell.metadata.get("tags", ())) for n, cell in code]


@pytest.mark.parametrize("chapter", [f"{number:02}" for number in range(16)])
def test_a_verdict_stays_after_run_all(root, chapter):
    """Each guess and its answer are run once more, then each solution as a reader pastes it."""
    (path,) = (root / "notebooks").glob(f"{chapter}-*.md")
    cells, reader, asked, again = chapter_cells(path), Reader(), {}, {}
    at_first = {place: reader.run(place, source) for place, source, solution in cells if not solution}
    for place, source, solution in cells:
        if GUESS.search(source):
            asked[source.partition(" =")[0]] = place, source
        judged = JUDGED.search(source)
        if judged and not solution:
            reader.run(*asked[judged[1]])
            again[place] = reader.run(place, source)
    assert again == {place: at_first[place] for place in again} and all(again.values())
    for place, source, solution in cells:
        if solution:
            said = reader.run(place, source)
            assert not [text for text in said if text.startswith("error: ") or text.endswith("not yet")], (source, said)
