"""What folds.py makes of a page: which nodes are folded, under which word, and where the inputs stand."""

import importlib.util
import re
import sys

import pytest

pytest.importorskip("myst_nb", reason="myst-nb is not installed, whose pages are tested")
from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.utils import new_document


@pytest.fixture(scope="module")
def folds(root):
    spec = importlib.util.spec_from_file_location("folds", root / "book/extension/folds.py")
    module = sys.modules["folds"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text(words):
    return nodes.paragraph("", "", nodes.Text(words))


def predict(words="Predict."):
    return nodes.paragraph("", "", nodes.strong("", words), nodes.Text(" How many?"))


def cell(source, output=None, tags=(), **attributes):
    node = nodes.container(nb_element="cell_code", classes=["cell", *(f"tag_{tag}" for tag in tags)], **attributes)
    node += nodes.container("", nodes.literal_block(source, source), nb_element="cell_code_source")
    if output is not None:
        node += nodes.container("", nodes.literal_block(output, output), nb_element="cell_code_output")
    return node


def folded(folds, *children):
    """(kind, words) of what a page with these children becomes; folds as (label, prediction, words inside)."""
    document = new_document("page", get_default_settings())
    document += nodes.section("", nodes.title("", "Title"), *children)
    for transform in (folds.FoldPredictions, folds.FoldCells):
        transform(document).run()
    return document[0]


def outline(section):
    for node in section:
        if type(node).__name__ == "Fold":
            yield ("fold", node["label"], node.get("prediction"), node.astext().split())
        elif isinstance(node, nodes.raw):
            yield ("form", node.astext())
        else:
            yield (type(node).__name__, node.astext().split())


def test_the_answer_is_folded_to_the_end_of_the_section(folds):
    inner = nodes.section("", nodes.title("", "Inner"))
    page = folded(
        folds, predict(), cell("guess = None  # clocks"), cell("define"), cell("run", "42"), text("why"), inner
    )
    kinds = list(outline(page))
    assert [k[0] for k in kinds] == ["title", "paragraph", "form", "container", "container", "fold", "section"]
    assert "clocks" in kinds[2][1] and 'data-predict="1"' in kinds[2][1]
    assert kinds[4][1] == ["run"]
    assert kinds[5][1:3] == ("Answer", 1) and "42" in kinds[5][3] and "why" in kinds[5][3]


def test_the_next_prediction_ends_the_fold(folds):
    page = folded(folds, predict(), cell("a", "1"), text("why"), predict(), cell("b", "2"))
    found = [k[1:] for k in outline(page) if k[0] == "fold"]
    assert [(label, n) for label, n, _ in found] == [("Answer", 1), ("Answer", 2)]
    assert "2" not in found[0][2]


def test_a_prediction_for_later_is_answered_where_the_tag_is(folds):
    page = folded(folds, predict("Predict for later."), cell("a", "1"), cell("b", "2", tags=["answers-later"]))
    kinds = list(outline(page))
    assert [k[0] for k in kinds] == ["title", "paragraph", "form", "container", "form", "container", "fold"]
    assert kinds[3][1] == ["a", "1"]
    assert kinds[6][2] == 1 and "2" in kinds[6][3]


@pytest.mark.parametrize(
    ("mode", "asked", "label"),
    [("all", "Show {type}", "Solution"), ("input", "Show {type}", "Code"), ("all", "Hint", "Hint")],
)
def test_a_fold_is_called_what_it_holds(folds, mode, asked, label):
    page = folded(folds, cell("source", "output", hide_mode=mode, prompt_show=asked, prompt_hide=""))
    (fold,) = page.findall(folds.Fold)
    assert fold["label"] == label
    assert ("output" in fold.astext()) == (mode == "all")


def test_a_dropdown_becomes_a_fold(folds):
    note = nodes.admonition("", nodes.title("", "Hint"), text("Think."), classes=["dropdown"])
    (fold,) = folded(folds, note).findall(folds.Fold)
    assert (fold["label"], fold.astext()) == ("Hint", "Think.")


def test_an_exercise_without_its_lines_shows_nothing(folds):
    open_ones = [cell("# your lines", "wrong", exec_count=7), cell("judge()", "a not yet\nb right", exec_count=8)]
    page = folded(folds, *open_ones, cell("solved", "it is not yet simple", exec_count=9))
    assert not re.search("wrong|right", page.astext()) and "not yet simple" in page.astext()
    assert "cell 7" in page.astext()
