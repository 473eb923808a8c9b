"""`quack-tutorial results` and the book's curves, from made-up records whose answers are worked out by hand."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import results as command
from quack_tutorial.records import bench as records
from quack_tutorial.records import results
from quack_tutorial.records.bench import Result
from tests.bench import synthetic


def run(folder, *words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([*words, "--records", str(folder)]))


@pytest.fixture
def folder(tmp_path):
    """Three cells: one 2.5 % faster than QuACK, one 2.4 % slower, one that ours refuses; and a ladder."""
    faster = synthetic.cell(N=256, ours_us=40.0, peers_us={"eager": 60.0, "quack": 41.0})
    slower = synthetic.cell(N=1024, ours_us=42.0, peers_us={"eager": 60.0, "quack": 41.0})
    refused = synthetic.cell(N=262144, ours_us=None, refused=(Result("liger", "missing", "ModuleNotFoundError"),))
    records.save(synthetic.record(faster, slower, refused), tmp_path / "softmax.json")
    steps = {"three-pass": 90.0, "online": 70.0, "what ships": 40.0}
    step = synthetic.cell(N=4096, peers_us=steps)
    ladder = synthetic.cell(N=4096, results=tuple(r for r in step.results if r.provider != "ours"))
    records.save(synthetic.record(ladder, series="ladder"), tmp_path / "ladder.json")
    return tmp_path


def test_json_is_a_list_of_cells_worst_first(folder, capsys):
    assert run(folder, "--json") == 0
    cells = json.loads(capsys.readouterr().out)
    assert [cell["N"] for cell in cells] == [262144, 1024, 256]
    best = cells[-1]
    assert best["best_peer"] == "quack"
    assert best["gb_s"] == pytest.approx(2 * 8192 * 256 * 2 / 40e3, rel=1e-3)
    assert best["ratio_to_best_peer"] == pytest.approx(41 / 40, rel=1e-3)
    assert best["fraction_of_ceiling"] == pytest.approx(38 / 40, rel=1e-3)
    assert best["ratios"]["eager"] == pytest.approx(60 / 40, rel=1e-3)
    assert best["record"] == "softmax.json"
    assert [cell["verdict"] for cell in cells] == ["no result", "slower", "pass"]
    assert cells[0]["gb_s"] is None and cells[0]["status"] == "unsupported"
    assert cells[0]["refused"]["liger"] == "missing: ModuleNotFoundError"


def made():
    """(what is special about it, a record) of made-up cells."""
    above = dict(ours_us=40.0, ceiling_us=41.0)
    yield "a cell above its ceiling", synthetic.record(synthetic.cell(**above))
    cells = []
    for N, error in ((256, 3.0), (512, 5.0), (1024, 4.0)):
        cell = synthetic.cell(N=N)
        ours, eager, quack = cell.results
        cells.append(replace(cell, results=(ours, eager, replace(quack, error=error))))
    yield "a peer that is less accurate", synthetic.record(*cells)


def test_tables_of_made_up_records(folder, tmp_path, capsys, monkeypatch, snapshot):
    monkeypatch.setattr(records, "changed_kernels", dict)
    assert run(folder) == 0
    said = ["two series", *capsys.readouterr().out.splitlines()]
    for name, record in made():
        records.save(record, tmp_path / "made/softmax.json")
        assert run(tmp_path / "made") == 0
        said += [name, *capsys.readouterr().out.splitlines()]
    peers_us = {"eager": 60.0, "compile autograd": 50.0}
    backward = synthetic.cell(N=512, operation="rmsnorm backward", peers_us=peers_us)
    records.save(synthetic.record(backward, operation="rmsnorm backward"), tmp_path / "made/rmsnorm-backward.json")
    assert run(tmp_path / "made") == 0
    said += ["two operations", *capsys.readouterr().out.splitlines()]
    snapshot(said, Path(__file__).with_name("tables.txt"))
    assert run(tmp_path / "made", "rmsnorm-backward", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    wanted = ("rmsnorm backward", 512, "rmsnorm-backward.json")
    assert (row["operation"], row["N"], row["record"]) == wanted
    assert row["best_peer"] == "compile autograd" and row["ratio_to_best_peer"] == 1.25
    assert row["gb_s"] > 0 and 0 < row["fraction_of_ceiling"] < 1


def test_fast_p_counts_what_is_right_and_more_than_p_times_as_fast():
    cells = [
        synthetic.cell(N=256, ours_us=10.0, peers_us={"eager": 30.0, "quack": 11.0}),
        synthetic.cell(N=512, ours_us=10.0, peers_us={"eager": 15.0, "quack": 9.0}),
        synthetic.cell(N=1024, ours_us=None, peers_us={"eager": 15.0, "quack": 9.0}),
    ]
    found = [synthetic.record(*cells)]
    against_eager = results.speedups(found, "ours", "eager")
    got = {key.N: round(gain, 3) for key, gain in against_eager.items()}
    assert got == {256: 3.0, 512: 1.5, 1024: 0.0}
    got = [results.fast_p(against_eager.values(), p) for p in (0, 1, 1.6, 3.1)]
    assert got == [2 / 3, 2 / 3, 1 / 3, 0]
    best = results.speedups(found, "ours", "best peer")
    assert {key.N: round(gain, 3) for key, gain in best.items()} == {256: 1.1, 512: 0.9, 1024: 0.0}
    got = results.speedups(found, "ours", "nobody")
    assert got == {} == results.speedups(found, "ours", "eager", "rmsnorm")
    key = synthetic.CellKey("softmax", "bfloat16", 8192, 256)
    got = round(results.speedups(found, "quack", "best peer")[key], 3)
    assert got == 2.727
