"""What folds.py makes of a page: which nodes are folded, under which word, and where the inputs stand."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("myst_nb", reason="myst-nb is not installed, whose pages are tested")
from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.utils import new_document

import quack_tutorial as qt


@pytest.fixture(scope="module")
def folds(load):
    return load("book/extension/folds.py")


def text(words):
    return nodes.paragraph("", "", nodes.Text(words))


def predict(words="Predict."):
    return nodes.paragraph("", "", nodes.strong("", words), nodes.Text(" How many?"))


def judge(*values, guess="guess", asked=("clocks",)):
    """The cell that judges a prediction, with the output that a notebook has there."""
    answer = qt.answer(dict.fromkeys(asked), *values)
    node = cell(f"qt.answer({guess}, {', '.join(map(repr, values))})", "")
    node[1].children = [nodes.raw("", answer._repr_html_(), format="html")]
    return node


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
    asks, why = cell('guess = {"clocks": None}'), text("Because it waits. Then more.")
    page = folded(folds, predict(), asks, cell("define"), cell("run", "42 clocks"), judge(42), why, inner)
    kinds = list(outline(page))
    assert [k[0] for k in kinds] == ["title", "paragraph", "form", "container", "container", "fold", "section"]
    assert "<label>clocks <input" in kinds[2][1] and 'data-predict="1"' in kinds[2][1]
    assert kinds[4][1] == ["run"]
    # The value, the reason from the text, the output, the text; neither of the notebook's two cells.
    told = "<ul><li>clocks: 42</li></ul> Because it waits. 42 clocks Because it waits. Then more.".split()
    assert kinds[5][1:] == ("Answer", 1, told)
    (fold,) = page.findall(folds.Fold)
    assert json.loads(fold["answer"])["fields"][0]["value"] == 42


def test_the_next_prediction_ends_the_fold(folds):
    first, second = (cell('guess = {"clocks": None}') for _ in "12")
    page = folded(
        folds, predict(), first, cell("a", "1"), judge(1), text("why"), predict(), second, cell("b", "2"), judge(2)
    )
    found = [k[1:] for k in outline(page) if k[0] == "fold"]
    assert [(label, n) for label, n, _ in found] == [("Answer", 1), ("Answer", 2)]
    assert "2" not in found[0][2]
    assert [json.loads(f["answer"])["fields"][0]["value"] for f in page.findall(folds.Fold)] == [1, 2]


def test_a_prediction_for_later_is_answered_where_the_tag_is(folds):
    asks, answers = cell('first_guess = {"clocks": None}'), cell("b", "2", tags=["answers-later"])
    page = folded(folds, predict("Predict for later."), asks, cell("a", "1"), answers, judge(2, guess="first_guess"))
    kinds = list(outline(page))
    assert [k[0] for k in kinds] == ["title", "paragraph", "form", "container", "form", "container", "fold"]
    assert kinds[3][1] == ["a", "1"]
    assert kinds[6][2] == 1 and "2" in kinds[6][3]
    assert 'id="predict-1"' in kinds[2][1] and 'id="predict-1-again"' in kinds[4][1]


def test_a_prediction_that_is_not_judged_is_a_warning(folds, monkeypatch):
    told = []
    monkeypatch.setattr(folds.logger, "warning", lambda words, location: told.append(words))
    folded(folds, predict(), cell('guess = {"clocks": None}'), cell("run", "42"))
    folded(folds, predict(), cell("run", "42"))
    assert told[0] == "no cell `qt.answer(guess, ...)` judges this prediction"
    assert told[1] == "no cell `guess = {...}` follows this prediction"


def test_what_is_asked_is_read_from_the_cell(folds):
    assert folds.guess_of('guess = {"a": None, "b: x | y": None}  # here') == ("guess", ("a", "b: x | y"))
    for other in ("guess = None", 'guess = {"a": 1}', 'x = {"a": None}', "f()", "a = b = 1\nc = 2", "%time"):
        assert folds.guess_of(other) == ("", ())
    form = folds.form(3, ("a < b", "of the types: float32 | bfloat16"))
    assert "<label>a &lt; b <input" in form and "of the types <select>" in form
    assert re.findall("<option[^>]*>(.*?)</option>", form) == ["choose", "float32", "bfloat16"]


def test_the_reason_is_the_first_sentence_of_the_text(folds):
    linked = nodes.reference("", "L2", refuri="x")
    words = nodes.paragraph("", "", nodes.Text("From "), linked, nodes.Text(" it came, 4.5 times. And more."))
    (said,) = folds.reason([cell("a", "1"), words])
    assert said.astext() == "From L2 it came, 4.5 times." and said[1]["refuri"] == "x"
    ends = nodes.paragraph("", "", nodes.Text("Read ... from "), linked.deepcopy(), nodes.Text(". And more."))
    assert folds.reason([ends])[0].astext() == "Read ... from L2."
    assert words.astext().endswith("And more.") and folds.reason([cell("a", "1")]) == []


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


def test_a_chapter_opens_with_its_picture_and_folds_its_setup_in_one_line(folds):
    document = new_document("page", get_default_settings())
    question, told = text("Why?"), text("One sees this.")
    document += nodes.section(
        "",
        nodes.title("", "Title"),
        question,
        cell("qt.start()", "on the simulator"),
        cell("openings.picture()", "picture", tags=("opening",)),
        told,
        cell("import torch"),
        nodes.section("", nodes.title("", "Inner"), cell("later", "1")),
    )
    folds.OpenWithPicture(document).run()
    page = document[0]
    assert [type(node).__name__ for node in page] == ["title", "paragraph", "container", "paragraph", "Fold", "section"]
    picture, code = page[2]
    assert picture.astext() == "picture" and code["label"] == "Code of the picture" and "picture()" in code.astext()
    assert told["classes"] == ["qt-told-of"] and question["classes"] == []
    assert [part.astext() for part in page[4]] == ["qt.start()\n\non the simulator", "import torch"]


CELLS = """\
---
jupytext: {text_representation: {extension: .md, format_name: myst}}
kernelspec: {name: python3, display_name: Python 3}
---
# Cells

```{code-cell} ipython3
import sys; print("Guards may run slower", file=sys.stderr)
```
```{code-cell} ipython3
1 / 0
```
```{code-cell} ipython3
:tags: [raises-exception]

raise ValueError("meant")
```
```{code-cell} ipython3
print(6 * 7)
```
"""


@pytest.mark.parametrize("strict", ["", "1"])
def test_a_cell_that_raised_or_wrote_to_stderr_is_named_and_fails_a_strict_build_alone(root, tmp_path, strict):
    yaml = pytest.importorskip("yaml", reason="the settings are YAML")
    dry = subprocess.run(["make", "-n", "-B", "book", f"STRICT={strict}"], cwd=root, capture_output=True, text=True)
    *_, options = re.findall(r"jupyter-book build \.(.*)", dry.stdout)  # after that of a first look
    extension = {"local_extensions": {"ran": str(root / "book/extension")}, "extra_extensions": ["ran"]}
    execute = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["execute"]
    (tmp_path / "_config.yml").write_text(json.dumps({"execute": execute, "sphinx": extension}), encoding="utf-8")
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: page\n", encoding="utf-8")
    (tmp_path / "page.md").write_text(CELLS, encoding="utf-8")
    command = [Path(sys.executable).with_name("jupyter-book"), "build", tmp_path, *options.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert bool(done.returncode) == bool(strict), done.stderr
    for named in ("1 wrote to stderr: Guards may run slower\n", "2 raised ZeroDivisionError: division by zero\n"):
        assert f"page, cell {named}" in done.stderr
    assert "make book PYTHON=" in done.stderr and "meant" not in done.stderr
    shown = (tmp_path / "_build/html/page.html").read_text(encoding="utf-8")
    assert [shown.count(kind) for kind in ("output stderr", "output traceback", ">42")] == [1, 2, 1]
