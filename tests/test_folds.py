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
    classes = ["cell", *(f"tag_{tag}" for tag in tags)]
    node = nodes.container(nb_element="cell_code", classes=classes, **attributes)
    node += nodes.container("", nodes.literal_block(source, source), nb_element="cell_code_source")
    if output is not None:
        node += nodes.container("", nodes.literal_block(output, output), nb_element="cell_code_output")
    return node


def folded(folds, *children, by=("FoldPredictions", "FoldCells")):
    """The section that a page with these children becomes."""
    document = new_document("page", get_default_settings())
    document += nodes.section("", nodes.title("", "Title"), *children)
    for transform in by:
        getattr(folds, transform)(document).run()
    return document[0]


def outline(node, depth=1):
    """Kind, classes and words of what is on a page; of a fold its label, its prediction and what is judged, and what it holds."""
    for one in node:
        named = [one.get("label"), one.get("prediction"), one.get("answer"), one["classes"]]
        is_open = isinstance(one, nodes.section) or any(type(inner).__name__ == "Fold" for inner in one.findall())
        words = "" if is_open else " ".join(one.astext().split())
        yield "  " * depth + " ".join([type(one).__name__, *(str(name) for name in named if name), words]).rstrip()
        if is_open:
            yield from outline(one, depth + 1)


def asks(name="guess"):
    return cell(f'{name} = {{"clocks": None}}')


def pages(folds):
    """(what a page is, what becomes of it)."""
    inner, why = nodes.section("", nodes.title("", "Inner")), text("Because it waits. Then more.")
    page = predict(), asks(), cell("define"), cell("run", "42 clocks"), judge(42), why, inner
    yield "an answer is folded to the end of the section", folded(folds, *page)
    first = predict(), asks(), cell("a", "1"), judge(1), text("why")
    yield "the next prediction ends the fold", folded(folds, *first, predict(), asks(), cell("b", "2"), judge(2))
    later = cell("b", "2", tags=["answers-later"]), judge(2, guess="first_guess")
    page = predict("Predict for later."), asks("first_guess"), cell("a", "1"), *later
    yield "a prediction for later is answered where the tag is", folded(folds, *page)
    for mode, asked in (("all", "Show {type}"), ("input", "Show {type}"), ("all", "Hint")):
        page = cell("source", "output", hide_mode=mode, prompt_show=asked, prompt_hide="")
        yield f"a cell that hides {mode} and asks {asked}", folded(folds, page)
    note = nodes.admonition("", nodes.title("", "Hint"), text("Think."), classes=["dropdown"])
    yield "a dropdown", folded(folds, note)
    exercise = cell("# your lines", "wrong", exec_count=7), cell("judge()", "a not yet\nb right", exec_count=8)
    page = *exercise, cell("solved", "it is not yet simple", exec_count=9)
    yield "an exercise without its lines shows nothing", folded(folds, *page)
    picture = cell("openings.picture()", "picture", tags=("opening",)), text("One sees this.")
    below = cell("import torch"), nodes.section("", nodes.title("", "Inner"), cell("later", "1"))
    page = text("Why?"), cell("qt.start()", "on the simulator"), *picture, *below
    opened = folded(folds, *page, by=("OpenWithPicture",))
    yield "a chapter opens with its picture and folds its setup in one line", opened


def test_what_becomes_of_pages(folds, snapshot):
    said = (line for name, page in pages(folds) for line in (name, *outline(page)))
    snapshot(said, Path(__file__).with_name("folds.txt"))


def test_a_prediction_that_is_not_judged_is_a_warning(folds, monkeypatch):
    told = []
    monkeypatch.setattr(folds.logger, "warning", lambda words, location: told.append(words))
    folded(folds, predict(), cell('guess = {"clocks": None}'), cell("run", "42"))
    folded(folds, predict(), cell("run", "42"))
    assert told[0] == "no cell `qt.answer(guess, ...)` judges this prediction"
    assert told[1] == "no cell `guess = {...}` follows this prediction"


def test_what_is_asked_is_read_from_the_cell(folds):
    found = folds.guess_of('guess = {"a": None, "b: x | y": None}  # here')
    assert found == ("guess", ("a", "b: x | y"))
    cases = ("guess = None", 'guess = {"a": 1}', 'x = {"a": None}')
    cases += ("f()", "a = b = 1\nc = 2", "%time")
    for other in cases:
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
def test_a_cell_that_raised_or_wrote_to_stderr_fails_a_strict_build(root, tmp_path, strict):
    yaml = pytest.importorskip("yaml", reason="the settings are YAML")
    dry = subprocess.run(["make", "-n", "-B", "book", f"STRICT={strict}"], cwd=root, capture_output=True, text=True)
    *_, options = re.findall(r"jupyter-book build \.(.*)", dry.stdout)  # after that of a first look
    extension = {"local_extensions": {"ran": str(root / "book/extension")}, "extra_extensions": ["ran"]}
    execute = yaml.safe_load((root / "_config.yml").read_text("utf-8"))["execute"]
    (tmp_path / "_config.yml").write_text(json.dumps({"execute": execute, "sphinx": extension}), "utf-8")
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: page\n", "utf-8")
    (tmp_path / "page.md").write_text(CELLS, "utf-8")
    command = [Path(sys.executable).with_name("jupyter-book"), "build", tmp_path, *options.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert bool(done.returncode) == bool(strict), done.stderr
    for named in ("1 wrote to stderr: Guards may run slower\n", "2 raised ZeroDivisionError: division by zero\n"):
        assert f"page, cell {named}" in done.stderr
    assert "make book PYTHON=" in done.stderr and "meant" not in done.stderr
    shown = (tmp_path / "_build/html/page.html").read_text("utf-8")
    assert [shown.count(kind) for kind in ("output stderr", "output traceback", ">42")] == [1, 2, 1]
