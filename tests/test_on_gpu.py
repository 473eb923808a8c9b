"""What on_gpu.py adds to a page: the outputs recorded on a GPU, folded below those of the cells that still are as they were."""

import sys

import pytest

pytest.importorskip("myst_nb", reason="myst-nb is not installed, whose pages are tested")
from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.utils import new_document

from tests.test_folds import cell
from workbench import outputs


@pytest.fixture(scope="module")
def on_gpu(load):
    load("book/extension/folds.py")
    return load("book/extension/on_gpu.py")


def record_of(**given):
    """A record: source of a cell -> what it gave."""
    cells = tuple(outputs.Cell(key, tuple(found)) for key, found in zip(outputs.keys(given), given.values()))
    versions = {"torch": "2.11.0"}
    kept = {"chapter": "07", "device": "NVIDIA H200", "driver": "580"}
    kept |= {"versions": versions, "date": "2026-11-24"}
    return outputs.Outputs(kept | {"seconds": 12.3, "errors": ["cell 3: OSError: no"]}, cells)


def page(on_gpu, monkeypatch, record, *cells, name="notebooks/07"):
    monkeypatch.setattr(outputs, "load", lambda chapter: record)
    document = new_document("page", get_default_settings())
    document += nodes.section("", nodes.title("", "Title"), *cells)
    document.settings.env = type("Environment", (), {"docname": name})()
    on_gpu.ShowOnGpu(document).run()
    return document[0]


def folds_in(section):
    folds = [node for node in section.findall() if type(node).__name__ == "Fold"]
    return [(node["label"], node.astext().split()) for node in folds]


def test_other_outputs_are_folded_below_the_simulated_ones(on_gpu, monkeypatch):
    c = [{"text/html": "<p>5</p>"}, {"error": "E: no"}]
    record = record_of(a=[{"text": "fast"}], b=[], gone=[{"text": "old"}], c=c)
    section = page(on_gpu, monkeypatch, record, cell("a", "slow"), cell("b", "same"), cell("c"))
    wanted = [("As run on an H200", ["fast"]), ("As run on an H200", ["<p>5</p>", "E:", "no"])]
    assert folds_in(section) == wanted
    first, _, third = section.children[2:]
    assert [child["nb_element"] for child in third] == ["cell_code_source", "cell_code_output"]
    assert first[1].astext().split() == ["slow", "fast"]


def test_the_line_below_the_title_counts_and_says_where(on_gpu, monkeypatch):
    record = record_of(a=[{"text": "fast"}], b=[], gone=[{"text": "old"}])
    line = page(on_gpu, monkeypatch, record, cell("a", "slow"), cell("b", "same"))[1].astext()
    assert "As run on an H200, 24 November 2026" in line
    assert "1 cell gave there what stands here" in line and "1 cell gave something else" in line
    assert "1 cell changed since" in line
    assert "driver 580, torch 2.11.0" in line and "cell 3: OSError: no" in line


def test_without_a_record_and_outside_of_chapters_nothing_changes(on_gpu, monkeypatch):
    for record, name in ((None, "notebooks/07"), (record_of(a=[{"text": "fast"}]), "book/labs/07")):
        section = page(on_gpu, monkeypatch, record, cell("a", "slow"), name=name)
        assert len(section) == 2 and not folds_in(section)


def test_a_cell_with_a_box_for_each_card_gets_no_second_one(on_gpu, monkeypatch):
    """The run read one card's records, which its box has as they are now."""
    boxed = cell("a", "4,000")
    boxed[1].replace(boxed[1][0], nodes.container("", nodes.literal_block("4,000", "4,000"), classes=["qt-card"]))
    a = [{"text": "3,999"}]
    section = page(on_gpu, monkeypatch, record_of(a=a, b=[{"text": "fast"}]), boxed, cell("b", "slow"))
    assert folds_in(section) == [("As run on an H200", ["fast"])]
    line = section[1].astext()
    assert "1 cell gave something else" in line and "1 cell read a card's records" in line


def test_what_a_fold_hides_stays_hidden(on_gpu, monkeypatch):
    """A prediction's answer is folded with what the GPU gave."""
    question = nodes.paragraph("", "", nodes.strong("", "Predict."), nodes.Text(" How many?"))
    a = [{"text": "fast"}]
    section = page(on_gpu, monkeypatch, record_of(a=a), question, cell("a", "slow"))
    sys.modules["folds"].FoldPredictions(section.document).run()
    label, words = folds_in(section)[0]
    assert label == "Answer" and words[-2:] == ["slow", "fast"]
