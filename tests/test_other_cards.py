"""Cells that run for the other cards, too: which do, on which names, and what they publish."""

import json
import re

import pytest

pytest.importorskip("IPython", reason="IPython is not installed, which runs the cells")
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from quack_tutorial import card, hardware, myst, other_cards, records

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


@pytest.fixture
def run(monkeypatch):
    """Runs cells in a new notebook; gives what the last one published of the other card, None where it published nothing."""

    shell = new_shell(monkeypatch)

    def run(*cells):
        *_, last = (published(shell, cell) for cell in (SETUP, *cells))
        return last[0] if last else None

    run.names = shell.user_ns
    return run


HERE = card.BOOK
(OTHER,) = (name for name in records.cards() if name != HERE)


def test_a_cell_that_asks_for_the_card_runs_for_the_other_one(run):
    assert run("print(1)") is None
    both = [{"text": f"{OTHER}\n"}, {"text/plain": "132"}]
    assert run("print(card.selected().card)\ncard.selected().sms") == {"here": HERE, "card": OTHER, "outputs": both}


def test_what_follows_from_such_a_cell_runs_on_its_own_names(run):
    found = run(
        "name = card.selected().card", "def shout():\n    return name.upper()", "text = f'<{shout()}>'", "print(text)"
    )
    assert found["outputs"] == [{"text": f"<{OTHER.upper()}>\n"}] and run.names["text"] == f"<{HERE.upper()}>"
    # A function may be older than the name that it reads.
    found = run("def later():\n    return held", "held = card.selected().card", "print(later())")
    assert found["outputs"] == [{"text": f"{OTHER}\n"}]


def test_a_name_that_is_bound_anew_depends_on_no_card(run):
    assert run("name = card.selected().card", "name = 3", "print(name)") is None
    assert run("same = card.selected().sms", "print(same)") is None  # both have 132
    pair = run(
        "pair = card.selected().sms, np.ones(2)", "print(pair[1].sum())"
    )  # arrays have no truth value of their own
    assert pair["outputs"] == [{"text": "2.0\n"}]


def test_what_was_not_measured_is_missing_also_in_what_follows(run):
    cells = (f"speed = {{{HERE!r}: 4000}}[card.selected().card]", "print(speed)")
    assert run(cells[0]) == run(*cells) == {"here": HERE, "card": OTHER, "outputs": [], "missing": True}
    assert run.names["speed"] == 4000
    begun = run("print('counted', card.selected().card)\n" + cells[0])
    assert begun == {"here": HERE, "card": OTHER, "outputs": [{"text": f"counted {OTHER}\n"}], "missing": True}


def test_what_a_cell_bound_before_it_failed_is_there_and_it_reads_names_as_they_were(run):
    cell = f"flag = False\nspeed = {{{HERE!r}: 4000}}[card.selected().card]\nlate = 1"
    assert run("flag, late = False, 0", cell, "print(flag)") is None
    assert run("flag, late = False, 0", cell, "print(late)")["missing"]
    found = run("n = 1", "n = n + 1\nprint(n, card.selected().card)")
    assert found["outputs"] == [{"text": f"2 {OTHER}\n"}]
    inside = "def shout():\n    return [name.upper() for _ in range(1)]"
    found = run(inside, "name = card.selected().card", "print(shout())")
    assert found["outputs"] == [{"text": f"['{OTHER.upper()}']\n"}]


def test_the_other_card_draws_the_same_numbers(run):
    assert run("print(card.selected().sms, rng.integers(1000))", "print(card.selected().card)")["outputs"] == [
        {"text": f"{OTHER}\n"}
    ]
    found = run("x = rng.integers(1000, size=3)\nname = card.selected().card", "print(name, x.tolist())")
    assert found["outputs"] == [{"text": f"{OTHER} {run.names['x'].tolist()}\n"}]


def test_the_notebook_draws_the_same_numbers_as_without(run):
    run("first = rng.integers(1000, size=3)\ncard.selected()", "then = rng.integers(1000, size=3)")
    import numpy as np

    alone = np.random.default_rng(1)
    assert [run.names["first"].tolist(), run.names["then"].tolist()] == [
        alone.integers(1000, size=3).tolist() for _ in range(2)
    ]


def test_a_card_in_the_environment_is_told_too(run, monkeypatch):
    monkeypatch.setenv(card.VARIABLE, HERE)
    assert run("from quack_tutorial import records", "print(records.folder().name)")["outputs"] == [
        {"text": f"{OTHER}\n"}
    ]


def test_cards_in_a_sentence():
    """Also of two that begin alike, and of one that `hardware` lacks."""
    found = [hardware.called(gpu.card) for gpu in hardware.GPUS]
    assert found[:4] == ["an H100", "an H100 PCIe", "an H100 NVL", "an H200"] and {"an A100", "an RTX 4090"} < {*found}
    assert len({*found}) == len(found)
    assert hardware.called("a10g") == "an A10G" and hardware.called("rtx_a6000") == "an RTX A6000"


def test_a_chapter_names_a_card_that_was_recorded_later(root, tmp_path, monkeypatch):
    """Of a faked B200, whose records are the H200's under its name, nothing that chapter 12 shows names an H200."""
    for path in (records.FOLDER / "h200").rglob("*.json"):
        place = tmp_path / "b200" / path.relative_to(records.FOLDER / "h200")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(path.read_text(encoding="utf-8").replace("NVIDIA H200", "NVIDIA B200"), encoding="utf-8")
    for path in records.FOLDER.iterdir():
        if path.name != "h100":
            (tmp_path / path.name).symlink_to(path)
    monkeypatch.setattr(records, "FOLDER", tmp_path)
    monkeypatch.setattr(card, "BOOK", "h200")
    monkeypatch.setattr(records, "WHOLE", ("h200",))
    shell = new_shell(monkeypatch)
    chapter = myst.cells((root / "notebooks/12-case-files.md").read_text(encoding="utf-8"), "12-case-files")
    cells = [cell.source for cell in chapter.cells if cell.cell_type == "code"][:14]
    found = [one for cell in cells for one in published(shell, cell)]
    assert len(found) > 8 and {one["card"] for one in found} == {"b200"} and not any("missing" in one for one in found)
    told = json.dumps(found)
    assert told.count("NVIDIA B200") >= 3 and "NVIDIA H200" not in told
