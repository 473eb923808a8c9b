"""`quack-tutorial results` and the book's curves, from made-up records whose answers are worked out by hand."""

import argparse
import json
from dataclasses import replace

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
    assert best["best_peer"] == "quack" and best["gb_s"] == pytest.approx(2 * 8192 * 256 * 2 / 40e3, rel=1e-3)
    assert best["ratio_to_best_peer"] == pytest.approx(41 / 40, rel=1e-3)
    assert best["fraction_of_ceiling"] == pytest.approx(38 / 40, rel=1e-3)
    assert best["ratios"]["eager"] == pytest.approx(60 / 40, rel=1e-3)
    assert best["record"] == "softmax.json"
    assert [cell["verdict"] for cell in cells] == ["no result", "slower", "pass"]
    assert cells[0]["gb_s"] is None and cells[0]["status"] == "unsupported"
    assert cells[0]["refused"]["liger"] == "missing: ModuleNotFoundError"


def test_the_table_names_worst_cells_first_and_what_is_missing(folder, capsys, monkeypatch):
    monkeypatch.setattr(records, "changed_kernels", dict)
    assert run(folder) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0] == "softmax on one Synthetic GPU, driver 0.0, torch 0.0, QuACK 0.0, 2020-01-01."
    at = {N: next(i for i, line in enumerate(lines) if f"8192 x {N} " in line) for N in (256, 1024, 262144)}
    assert at[262144] < at[1024] < at[256]
    assert "1 of 3 cells pass" in out
    assert "softmax: 3 of 108 expected cells measured, 1 pass." in out
    assert "rmsnorm backward: 0 of 108 expected cells measured, 0 pass." in out
    assert "compile tuned was left out of 3 of 3 cells of softmax." in out
    assert "eager was left out" not in out
    (missing,) = (line for line in lines if line.startswith("Missing: "))  # of the one operation that has a cell
    assert "; 16384 rows: float32 and bfloat16 and float16 all" in missing
    few = "257, 512, 1000, 2048, 3000, 4096, 5120, 8192, 12289, 16384, 32768, 50257, 65536, 128256, 131072, 151936"
    assert f"8192 rows: float32 and float16 all; bfloat16 {few}" in missing


def test_fractions_above_one_are_flagged_and_many_are_counted(tmp_path, capsys):
    for sizes, said in (
        ((4096,), "softmax bfloat16 8192 x 4096 (ours)"),
        ([256 << k for k in range(7)], "softmax in 7 cells; where it is ours the table has a !"),
    ):
        cells = [synthetic.cell(N=N, ours_us=40.0, ceiling_us=41.0) for N in sizes]
        records.save(synthetic.record(*cells), tmp_path / "r.json")
        assert run(tmp_path) == 0
        out = capsys.readouterr().out
        assert f"Above the ceiling, so look into the measurement: {said}" in out and "1.025!" in out


def test_a_peer_that_is_less_accurate_is_named_once_with_its_largest_error(tmp_path, capsys):
    cells = []
    for N, error in ((256, 3.0), (512, 5.0), (1024, 4.0)):
        cell = synthetic.cell(N=N)
        ours, eager, quack = cell.results
        cells.append(replace(cell, results=(ours, eager, replace(quack, error=error))))
    records.save(synthetic.record(*cells), tmp_path / "r.json")
    assert run(tmp_path) == 0
    assert "(error over tolerance): quack bfloat16 (up to 5)." in capsys.readouterr().out


def test_no_record_or_a_broken_one_is_one_sentence(tmp_path, capsys):
    assert run(tmp_path) == 1 and "no cell is measured yet" in capsys.readouterr().err
    assert run(tmp_path, "--json") == 0 and json.loads(capsys.readouterr().out) == []
    (tmp_path / "r.json").write_text("{}")
    assert run(tmp_path) == 1 and capsys.readouterr().err.count("\n") == 1


def test_the_ladder_comes_in_the_order_it_is_taught(folder):
    found = records.load_records(folder, series="ladder")
    steps = results.ladder(found, "softmax", "bfloat16", 4096)
    assert [step["version"] for step in steps] == ["three-pass", "online", "what ships"]
    assert steps[0]["fraction_of_ceiling"] == pytest.approx(38 / 90, rel=1e-3)
    assert results.ladder(found, "softmax", "bfloat16", 8192) == []


def test_each_operation_has_its_table_and_its_count(tmp_path, capsys):
    backward = synthetic.cell(N=512, operation="rmsnorm backward", peers_us={"eager": 60.0, "compile autograd": 50.0})
    records.save(synthetic.record(synthetic.cell()), tmp_path / "softmax.json")
    records.save(synthetic.record(backward, operation="rmsnorm backward"), tmp_path / "rmsnorm-backward.json")
    assert run(tmp_path) == 0
    out = capsys.readouterr().out
    heads = [line for line in out.splitlines() if line.startswith("cell ")]
    assert len(heads) == 2 and "compile autograd" not in heads[0] and "quack" not in heads[1]
    assert run(tmp_path, "rmsnorm-backward", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["operation"], row["N"], row["record"]) == ("rmsnorm backward", 512, "rmsnorm-backward.json")
    assert row["best_peer"] == "compile autograd" and row["ratio_to_best_peer"] == 1.25
    assert row["gb_s"] > 0 and 0 < row["fraction_of_ceiling"] < 1
    assert run(tmp_path, "groupnorm") == 1
    assert "operation 'groupnorm' is not one of copy, softmax" in capsys.readouterr().err


def test_fast_p_counts_what_is_right_and_more_than_p_times_as_fast():
    cells = [
        synthetic.cell(N=256, ours_us=10.0, peers_us={"eager": 30.0, "quack": 11.0}),
        synthetic.cell(N=512, ours_us=10.0, peers_us={"eager": 15.0, "quack": 9.0}),
        synthetic.cell(N=1024, ours_us=None, peers_us={"eager": 15.0, "quack": 9.0}),
    ]
    found = [synthetic.record(*cells)]
    against_eager = results.speedups(found, "ours", "eager")
    assert {key.N: round(gain, 3) for key, gain in against_eager.items()} == {256: 3.0, 512: 1.5, 1024: 0.0}
    assert [results.fast_p(against_eager.values(), p) for p in (0, 1, 1.6, 3.1)] == [2 / 3, 2 / 3, 1 / 3, 0]
    best = results.speedups(found, "ours", "best peer")
    assert {key.N: round(gain, 3) for key, gain in best.items()} == {256: 1.1, 512: 0.9, 1024: 0.0}
    assert results.speedups(found, "ours", "nobody") == {} == results.speedups(found, "ours", "eager", "rmsnorm")
    assert (
        round(results.speedups(found, "quack", "best peer")[synthetic.CellKey("softmax", "bfloat16", 8192, 256)], 3)
        == 2.727
    )
