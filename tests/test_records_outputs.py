"""What the chapters' cells gave on a GPU: how it is recorded, and that each record still fits its chapter."""

import json
import re

import pytest

from quack_tutorial import records
from workbench import myst, outputs

nbformat = pytest.importorskip("nbformat")


@pytest.fixture(scope="module")
def script(load):
    return load("scripts/record_outputs.py")


def notebook_of(*sources):
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    return nbformat.v4.new_notebook(cells=cells)


def test_every_recorded_cell_fits_a_cell_of_its_chapter(root):
    pytest.importorskip("jupytext", reason="jupytext is not installed, which reads the chapters")
    for path in sorted(records.FOLDER.glob("*/outputs/*.json")):
        record = outputs.load(path.stem, path.parts[-3])
        assert record.chapter == path.stem and record.driver, path.name
        chapter = myst.cells((root / "notebooks" / f"{path.stem}.md").read_text("utf-8"), path.stem)
        gone = outputs.unfitting(record, [cell.source for cell in chapter.cells if cell.cell_type == "code"])
        assert not gone, f"{path.name}: {len(gone)} cells changed since; python scripts/record_outputs.py drop"


def test_a_cell_that_changed_fits_no_longer():
    first, second = outputs.keys(["print(1)", "print(2)"])
    record = outputs.Outputs({}, tuple(outputs.Cell(key, ()) for key in (first, second)))
    assert outputs.unfitting(record, ["print(2)", "print(3)"]) == [first]


def test_equal_cells_have_keys_of_their_own():
    keys = outputs.keys(["f()", "g()", "f()\n"])
    assert len(set(keys)) == 3 and keys[0] == outputs.keys(["f()"])[0]


def test_words_are_what_can_be_read():
    drawn = '<style>p{color:red}</style><p>4 &lt; <b title="no">5</b></p><script>var x</script>'
    assert outputs.words([{"text/html": drawn}, {"text": "a  b\n"}]) == ["4 < 5", "a  b\n"]
    found = outputs.words([{"image/svg+xml": "<svg><path d='M0'/></svg>"}])
    assert found == ["<svg><path d='M0'/></svg>"]


def test_a_chapter_is_executed_and_its_errors_are_told(script, tmp_path):
    pytest.importorskip("nbclient")
    notebook = notebook_of(
        "print('a')\nprint('b')", "1 / 0", "raise ValueError('meant')", "x = 1", "6 * 7", "hidden = 1; hidden"
    )
    notebook.cells[2].metadata["tags"] = ["raises-exception"]
    notebook.cells[5].metadata["tags"] = ["remove-cell"]
    assert script.execute(notebook, 60, tmp_path) == ["cell 2: ZeroDivisionError: division by zero"]
    given = [cell.outputs for cell in script.recorded(notebook)]
    wanted = [({"text": "a\nb\n"},), ({"error": "ZeroDivisionError: division by zero"},)]
    wanted += [({"error": "ValueError: meant"},), ({"text/plain": "42"},)]
    assert given == wanted


def test_what_the_simulator_gave_as_well_is_not_kept(script, tmp_path, monkeypatch):
    def archive_in(folder, *cells):
        record = {
            "chapter": "x",
            "device": "NVIDIA L4",
            "cells": [{"key": key, "outputs": given} for key, given in cells],
        }
        folder.mkdir(exist_ok=True)
        script.pack({"x": json.dumps(record).encode()}, folder / script.ARCHIVE)

    same, measured = {"text": "Right: all 5 numbers; largest error 3.4e-07."}, {"text": "12 us"}
    figure = {"text/html": "<p>5 <b>sectors</b></p>"}
    player = {"text/html": '<p>7</p><div class="qt-origin">Simulated: drawn from a run.</div>'}
    stub = {"text": "0.1 us on this GPU. No kernel that moves these\nbytes is so fast: it moves fewer"}
    another = {"text": "recorded on one NVIDIA H200, driver 580"}
    cells = ("a", [same, measured]), ("b", [figure, player, another]), ("c", [measured, stub])
    archive_in(tmp_path / "gpu", *cells)
    drawn = {"text/html": "<p>5 sectors</p>"}  # in other colours
    simulated = (("a", [{"text": same["text"].replace("3.4", "8.5")}]), ("b", [drawn]))
    monkeypatch.setattr(script, "run", lambda args: archive_in(args.to, *simulated))
    monkeypatch.setattr(records, "FOLDER", tmp_path)
    assert script.main(["keep", str(tmp_path / "gpu" / script.ARCHIVE)]) == 0
    kept = json.loads((tmp_path / "l4/outputs/x.json").read_text("utf-8"))["cells"]
    assert [cell["outputs"] for cell in kept] == [[measured], [], [measured]]


def test_no_recorded_output_shows_another_card_s_records():
    assert outputs.names_another({"text": "timed on one NVIDIA H200, driver 580"}, "NVIDIA H100 80GB HBM3")
    assert not outputs.names_another({"text": "12 us on this NVIDIA H100 80GB HBM3"}, "NVIDIA H100 80GB HBM3")
    for file in sorted(records.FOLDER.glob("*/outputs/*.json")):
        record = outputs.load(file.stem, file.parts[-3])
        given = [one for cell in record.cells for one in cell.outputs]
        found = [one for one in given if outputs.names_another(one, record.device)]
        assert not found, file.name


def test_no_recorded_output_claims_more_than_a_copy_can(root):
    """An exercise's stub moves few of the bytes that are counted, and a copy may be slow: such a speed is no result."""
    for file in sorted((root / "quack_tutorial/records").glob("*/outputs/*.json")):
        text = " ".join(file.read_text("utf-8").replace("\\n", " ").split())
        shares = [int(share) for share in re.findall(r"(\d+)% of a plain copy", text)]
        assert max(shares, default=0) <= 105, file.name
