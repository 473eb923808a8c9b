"""The sandbox's starting points: each is right for every type and shape that the page offers, and nothing is found."""

import json

import pytest

from workbench.session import Session

pytest.importorskip("torch")


def cells(root):
    notebook = json.loads((root / "notebooks/sandbox.ipynb").read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("start", ["copy", "reduce", "softmax"])
def test_a_starting_point_is_right_and_clean(root, start, dtype):
    source = (root / f"book/static/run/starts/{start}.py").read_text(encoding="utf-8")
    imports, kernel, run, *shown = cells(root)
    session = Session(lambda kind, text: None)
    for shape in ("2, 100", "3, 64", "1, 33"):
        run_here = run.replace("2, 100, torch.float32", f"{shape}, torch.{dtype}")
        assert shape in run_here and dtype in run_here
        assert all(session.run(i, text) for i, text in enumerate([imports, source, run_here, *shown], 1))
        names = session.namespace
        assert names["run"].ok
        tolerance = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 0.13}[dtype]
        assert names["error"] <= tolerance * max(1, names["wanted"](names["x"]).abs().max().item())


def test_the_page_begins_with_the_copy(root):
    assert cells(root)[1].strip() == (root / "book/static/run/starts/copy.py").read_text(encoding="utf-8").strip()
