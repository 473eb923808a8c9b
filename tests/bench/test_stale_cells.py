"""scripts/stale_cells.py on made-up records: what is to be measured again, and what is left when it is taken out."""

import importlib.util
import sys
from dataclasses import replace

import pytest

from bench.results import as_text
from quack_tutorial.records import bench as records
from quack_tutorial.records import results
from tests.bench import synthetic

SHIPPED = "a" * 64, "32/128/1/0"


@pytest.fixture
def script(root, monkeypatch):
    """The script as a module that finds CuTe DSL and believes that `SHIPPED` ships for every cell."""
    spec = importlib.util.spec_from_file_location("stale_cells", root / "scripts/stale_cells.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.ours, "shipped", lambda *which: SHIPPED)
    monkeypatch.setattr(module.compiler, "dsl_problem", lambda: "")
    return module


def timed(N, ptx_sha256=SHIPPED[0], config=SHIPPED[1], wobble=0.0, **more):
    """A cell whose own kernel was such a one; `wobble` is how much every other sample of the peer takes longer."""
    made = synthetic.cell(N=N, peers_us={"eager": 60.0}, **{"slots": 100} | more)
    ours, eager = made.results
    ours = replace(ours, ptx_sha256=ptx_sha256, config=config)
    moved = made.bytes_moved
    slower = [60.0 * (1 + wobble * (turn % 2)) for turn in range(synthetic.ROUNDS)]
    eager = records.ok_result("eager", slower, moved, made.ceiling_gb_s, 4800, error=0.5)
    return replace(made, results=(ours, eager))


def run(script, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["stale_cells.py", *map(str, arguments)])
    return script.main()


def test_changed_and_unsure_cells_are_named_and_taken_out(script, monkeypatch, tmp_path, capsys):
    kept, other, unsure = timed(1024), timed(2048, ptx_sha256="b" * 64), timed(8192, wobble=0.2)
    launched = timed(4096, config="32/128/1/0/1/1")
    records.save(synthetic.record(kept, other, launched, unsure), tmp_path / "softmax.json")
    records.save(synthetic.record(other), tmp_path / "old.json")
    assert run(script, monkeypatch, tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    found = [line.split(": ")[1] for line in lines[:-1]]
    assert found == ["changed", "changed", "changed", "unsure"]
    assert lines[-1] == "4 cells to be measured again."
    assert len(records.load(tmp_path / "softmax.json").cells) == 4  # only said
    assert run(script, monkeypatch, tmp_path, "--drop") == 0
    assert records.load(tmp_path / "softmax.json").cells == (kept,)
    assert not (tmp_path / "old.json").exists()  # a record holds one cell or more
    assert capsys.readouterr().out.endswith("4 cells taken out.\n")


def test_cells_with_cached_inputs_are_taken_out(script, monkeypatch, tmp_path, capsys):
    l2 = synthetic.record(timed(1024)).l2_bytes
    enough = -(-16 * l2 // (8192 * 4096 * 2))  # of matrices of 8192 x 4096 bfloat16
    few = timed(4096, slots=enough - 1)
    many, fewer = (timed(4096, slots=slots, operation="rmsnorm") for slots in (enough, enough - 1))
    dirty = timed(8192, slots=enough, operation="rmsnorm", before=None)
    softmax = synthetic.record(few)
    other = synthetic.record(many, replace(fewer, dtype="float16"), dirty, operation="rmsnorm")
    records.save(softmax, tmp_path / "softmax.json")
    records.save(other, tmp_path / "rmsnorm.json")
    found = [results.row(other, cell)["cached"] for cell in (many, fewer, dirty)]
    assert found == [False, True, True]
    assert "1 of them were measured without clearing L2 before each sample, or went round less than 16 x L2" in as_text(
        [softmax], results.rows([softmax])
    )
    assert run(script, monkeypatch, "--why", "changed,unsure", tmp_path) == 0
    assert capsys.readouterr().out == "0 cells to be measured again.\n"
    got = run(script, monkeypatch, "--drop", "--why", "cached", "--operation", "rmsnorm", tmp_path)
    assert got == 0
    assert records.load(tmp_path / "rmsnorm.json").cells == (many,)
    assert records.load(tmp_path / "softmax.json").cells == (few,)
    both = timed(1024, ptx_sha256="b" * 64, wobble=0.2, slots=1)
    records.save(synthetic.record(both), tmp_path / "softmax.json")
    capsys.readouterr()
    for reason in ("changed", "unsure", "cached"):  # one of several is found by each
        assert run(script, monkeypatch, "--why", reason, "--operation", "softmax", tmp_path) == 0
        assert capsys.readouterr().out.splitlines()[0].endswith(f": {reason}")
