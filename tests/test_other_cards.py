"""Cells that run for the other cards, too: which do, on which names, and what they publish."""

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

pytest.importorskip("IPython", reason="IPython is not installed, which runs the cells")
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from quack_tutorial import card, hardware, records
from tests.transcripts import played
from workbench import myst, other_cards

SETUP = "from quack_tutorial import card\nimport numpy as np\nrng = np.random.default_rng(1)"


def published(shell, cell):
    """What a cell that runs publishes of other cards."""
    shell.display_pub.outputs.clear()
    shell.run_cell(cell, store_history=True)
    drawn = [output["data"].get("text/html", "") for output in shell.display_pub.outputs]
    marked = (re.search(r">(.*)</script>", html, re.DOTALL) for html in drawn if "qt-other-card" in html)
    return [json.loads(found[1].replace("<\\/", "</")) for found in marked]


def new_shell(monkeypatch):
    """Of a notebook on a machine without a GPU."""
    monkeypatch.delenv(card.VARIABLE, raising=False)
    monkeypatch.setattr(card, "here", lambda: None)
    shell = InteractiveShell()
    shell.display_pub = CapturingDisplayPublisher()
    other_cards.load_ipython_extension(shell)
    return shell


def test_cells_run_for_the_other_card_too(monkeypatch, snapshot):
    """Those that ask for the card, and those that read what such a cell bound; on their own names and random numbers."""

    def begin():
        said, shell = [], new_shell(monkeypatch)
        published(shell, SETUP)

        def run(number, source):
            with redirect_stdout(io.StringIO()) as printed:
                found = published(shell, source)
            said.extend([("text", printed.getvalue())] * bool(printed.getvalue()))
            said.extend(("for another card", json.dumps(one)) for one in found)

        return said, run

    file = Path(__file__).with_name("other_cards.txt")
    snapshot(played(file, begin), file)


def test_a_card_in_the_environment_is_told_too(monkeypatch):
    shell = new_shell(monkeypatch)
    monkeypatch.setenv(card.VARIABLE, "h100")
    (found,) = published(shell, "from quack_tutorial import records\nprint(records.folder().name)")
    assert found["outputs"] == [{"text": "h200\n"}]


def test_cards_in_a_sentence():
    """Also of two that begin alike, and of one that `hardware` lacks."""
    found = [hardware.called(gpu.card) for gpu in hardware.GPUS]
    assert found[:4] == ["an H100", "an H100 PCIe", "an H100 NVL", "an H200"]
    assert {"an A100", "an RTX 4090"} < {*found}
    assert len({*found}) == len(found)
    assert hardware.called("a10g") == "an A10G" and hardware.called("rtx_a6000") == "an RTX A6000"


def test_a_chapter_names_a_card_that_was_recorded_later(root, tmp_path, monkeypatch):
    """Of a faked B200, whose records are the H200's under its name, nothing that chapter 12 shows names an H200."""
    for path in (records.FOLDER / "h200").rglob("*.json"):
        place = tmp_path / "b200" / path.relative_to(records.FOLDER / "h200")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(path.read_text("utf-8").replace("NVIDIA H200", "NVIDIA B200"), "utf-8")
    for path in records.FOLDER.iterdir():
        if path.name != "h100":
            (tmp_path / path.name).symlink_to(path)
    monkeypatch.setattr(records, "FOLDER", tmp_path)
    monkeypatch.setattr(card, "BOOK", "h200")
    monkeypatch.setattr(records, "WHOLE", ("h200",))
    shell = new_shell(monkeypatch)
    chapter = myst.cells((root / "notebooks/12-case-files.md").read_text("utf-8"), "12-case-files")
    cells = [cell.source for cell in chapter.cells if cell.cell_type == "code"][:14]
    found = [one for cell in cells for one in published(shell, cell)]
    assert len(found) > 8 and {one["card"] for one in found} == {"b200"}
    assert not any("missing" in one for one in found)
    told = json.dumps(found)
    assert told.count("NVIDIA B200") >= 3 and "NVIDIA H200" not in told
