"""`quack-tutorial bench`: what it asks for, what it refuses, and that a sweep goes on where it stopped."""

import argparse
import functools
import json
import sys
import types

import pytest

from bench import command, sweep
from quack_tutorial import machine
from quack_tutorial.operations import OPERATIONS, slug
from quack_tutorial.records import bench as records
from quack_tutorial.records.cells import CellKey, default_rows, expected_cells
from tests.bench import synthetic
from tests.bench.test_sweep import FAKE, ROOT

SMALL = ("--dtype", "bfloat16", "--m", "8192")


def parsed(*words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(list(map(str, words)))


def run(*words):
    return command.run(parsed(*words))


@pytest.fixture
def gpu(monkeypatch):
    """A machine that says it has a GPU, and workers that make times up; the value says how they behave, and with which torch."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    found = types.SimpleNamespace(device="cuda", problems=(), driver="0.0")
    monkeypatch.setattr(machine, "detect", lambda: found)
    fake, real = {"behaviour": "good", "version": "0.0"}, command.measure

    def measure(args, keys, providers, kept, driver):
        start = functools.partial(sweep.Worker, [sys.executable, str(FAKE), *fake.values()])
        return real(args, keys, providers, kept, driver, start=start)

    monkeypatch.setattr(command, "measure", measure)
    return fake


def test_the_cells_that_are_asked_for():
    def asked(*words):
        return command.requested_cells(parsed(*words))

    assert asked("softmax") == list(expected_cells("softmax"))
    assert asked() == [key for name in OPERATIONS for key in expected_cells(name)]
    wanted = [CellKey("softmax", "float16", M, N) for M, N in ((32768, 1024), (16384, 65536))]
    assert asked("softmax", "--dtype", "float16", "--n", "1024,65536") == wanted
    every = asked("softmax", "--dtype", "float32", "--n", "1024", "--m", "1,2")
    assert [key.M for key in every] == [1, 2]
    assert {key.N for key in asked("softmax", "--quick")} == set(command.QUICK_SIZES)
    grid = asked("softmax", "--m", "grid")
    assert len(grid) == 57 and all(key.M == default_rows(key.N) for key in grid)
    several = asked("cross-entropy,softmax,cross-entropy", "--m", "grid")
    assert list(dict.fromkeys(key.operation for key in several)) == ["cross-entropy", "softmax"]


def test_the_providers_that_are_asked_for():
    def asked(*words):
        return command.requested_providers(parsed(*words))

    assert asked("softmax", "--ladder") == {"softmax": list(OPERATIONS["softmax"].ladder)}
    assert asked("softmax", "--providers", "ours,eager") == {"softmax": ["ours", "eager"]}
    # the last is another operation's
    without = asked("softmax", "--without", "liger,compile tuned,cudnn")
    assert without == {"softmax": ["ours", "eager", "compile", "quack", "liger cute"]}
    some = asked("--providers", "ours,cudnn")
    assert some["rmsnorm"] == ["ours", "cudnn"] and some["softmax"] == ["ours"]
    assert some.keys() == OPERATIONS.keys()


def test_all_operations_go_to_a_folder_and_are_gone_on_with(gpu, tmp_path, capsys):
    words = ("all", *SMALL, "--n", "256", "--providers", "ours,eager", "--out", tmp_path)
    assert run(*words) == 0
    every = tmp_path.iterdir()
    assert {path.name for path in every} == {f"{slug(name)}.json" for name in OPERATIONS}
    record = records.load(tmp_path / "rmsnorm-backward.json")
    assert record.operation == "rmsnorm backward" and len(record.cells) == 1
    assert record.command == (
        "quack-tutorial bench rmsnorm-backward --dtype bfloat16 --n 256 --m 8192 --providers ours,eager "
        "--out rmsnorm-backward.json"
    )
    capsys.readouterr()
    assert run(*words) == 1 and "exists: go on with it with --resume" in capsys.readouterr().err
    assert run(*words, "--resume") == 0
    found = f"{len(OPERATIONS)} cells, {len(OPERATIONS)} of them measured before"
    assert found in capsys.readouterr().out


def test_workers_are_noted_with_each_cell(gpu, tmp_path):
    """And one operation's record goes into a folder that is there."""
    found = run("softmax", *SMALL, "--n", "256,512,1024,2048,4096", "--workers", "2", "--out", tmp_path)
    assert found == 0
    record = records.load(tmp_path / "softmax.json")
    assert [cell.workers for cell in record.cells] == [2] * 5
    assert record.command.endswith("--out softmax.json --workers 2")
    assert "workers" not in records._compact(synthetic.cell())


def test_what_is_in_a_file_is_not_written_over_or_mixed(gpu, tmp_path, capsys):
    out = tmp_path / "r.json"
    assert run("softmax", *SMALL, "--n", "256", "--out", out) == 0
    before, kept = out.read_text(), records.load(out)
    words = ("softmax", *SMALL, "--n", "4096", "--out", out, "--resume")
    assert run(*words[:-1]) == 1
    assert "exists: go on with it with --resume" in capsys.readouterr().err
    assert run(*words, "--ladder") == 1
    assert "holds softmax (peers), not softmax (ladder)" in capsys.readouterr().err
    gpu["version"] = "9.9"
    assert run(*words) == 1
    assert "another machine or version (torch 0.0 there, 9.9 here)" in capsys.readouterr().err
    assert out.read_text() == before
    out.write_text("{}")
    assert run(*words) == 1 and "it has no list of cells" in capsys.readouterr().err
    gpu["version"], fewer = "0.0", json.loads(before)
    del fewer["versions"]["quack-kernels"]
    out.write_text(json.dumps(fewer))  # a package that was not there before is no contradiction
    assert run(*words) == 0
    assert len(records.load(out).cells) == 2 and records.load(out).cells[0] == kept.cells[0]
    assert run(*words) == 0  # nothing left to do
    assert records.load(out).versions["quack-kernels"] == "0.0"


def test_without_what_our_own_kernels_import_nothing_is_measured(gpu, tmp_path, capsys):
    gpu["behaviour"] = "lacks-ours"
    assert run("softmax", "--dtype", "float32", "--n", "256", "--out", tmp_path / "r.json") == 1
    said = capsys.readouterr()
    assert "our own kernels need is not here (ImportError: libruntime.so" in said.err
    assert said.err.count("\n") == 1
    assert "GB/s" not in said.out and not (tmp_path / "r.json").exists()
