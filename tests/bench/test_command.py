"""`quack-tutorial bench`: what it asks for, what it refuses, and that a sweep goes on where it stopped."""

import argparse
import functools
import json
import sys
import types

import pytest

from bench import command, sweep
from quack_tutorial.operations import OPERATIONS, slug
from quack_tutorial.records import bench as records
from quack_tutorial.records.cells import CellKey, default_rows, expected_cells
from tests.bench import synthetic
from tests.bench.test_sweep import FAKE, ROOT


def argument_parser():
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser


def parsed(*words):
    return argument_parser().parse_args(["softmax", *map(str, words)])


@pytest.fixture
def gpu(monkeypatch):
    """A machine that says it has a GPU, and workers that make times up; the value sets their torch's version."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    found = types.SimpleNamespace(device="cuda", problems=(), driver="0.0")
    monkeypatch.setattr(command.machine, "detect", lambda: found)
    torch = {"version": "0.0", "behaviour": "good"}
    real = command.measure

    def measure(args, keys, providers, kept, driver):
        fake = [sys.executable, str(FAKE), torch["behaviour"], torch["version"]]
        return real(args, keys, providers, kept, driver, start=functools.partial(sweep.Worker, fake))

    monkeypatch.setattr(command, "measure", measure)
    return torch


def no_gpu(monkeypatch, what="this machine has no NVIDIA GPU"):
    found = types.SimpleNamespace(device="cpu", problems=(types.SimpleNamespace(what=what),), driver=None)
    monkeypatch.setattr(command.machine, "detect", lambda: found)


def test_without_a_gpu_it_is_one_sentence_and_exit_1(monkeypatch, capsys):
    no_gpu(monkeypatch)
    assert command.run(parsed("--quick")) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == ("bench measures on a GPU, and there is none to use here: this machine has no NVIDIA GPU.\n")


def test_the_whole_grid_is_the_default():
    assert command.requested_cells(parsed()) == list(expected_cells("softmax"))
    assert {key.M for key in command.requested_cells(parsed())} == {8192, 16384, 32768}


def test_sizes_types_and_rows_that_are_asked_for():
    keys = command.requested_cells(parsed("--dtype", "float16", "--n", "1024,65536"))
    assert keys == [CellKey("softmax", "float16", 32768, 1024), CellKey("softmax", "float16", 16384, 65536)]
    keys = command.requested_cells(parsed("--dtype", "float32", "--n", "1024", "--m", "1,2"))
    assert [key.M for key in keys] == [1, 2]
    assert {key.N for key in command.requested_cells(parsed("--quick"))} == set(command.QUICK_SIZES)


def test_several_operations_are_measured_in_their_order_without_twice():
    args = parsed("--m", "grid")
    args.operation = "cross-entropy,softmax,cross-entropy"
    assert list(dict.fromkeys(key.operation for key in command.requested_cells(args))) == ["cross-entropy", "softmax"]
    assert command.several(args) and not command.several(parsed())
    args.out = "one.json"
    with pytest.raises(ValueError, match="a record holds one operation"):
        command.opened(args)
    args.operation = "softmax,speed"
    with pytest.raises(ValueError, match="operation 'speed' is not one of"):
        command.requested_cells(args)


def test_rows_of_the_grid_are_those_that_go_with_each_size():
    keys = command.requested_cells(parsed("--m", "grid"))
    assert len(keys) == 57 and {(key.N, key.M) for key in keys} == {(key.N, default_rows(key.N)) for key in keys}


def test_the_ladder_has_its_own_providers():
    versions = [
        "thread",
        "warp",
        "three-pass",
        "online",
        "vectors",
        "registers",
        "rows",
        "async",
        "cluster",
        "direct",
        "hint",
        "read twice",
        "short exp",
        "any address",
        "what ships",
    ]
    assert command.requested_providers(parsed("--ladder")) == {"softmax": versions}
    assert command.requested_providers(parsed("--providers", "ours,eager")) == {"softmax": ["ours", "eager"]}
    without = command.requested_providers(parsed("--without", "liger,compile tuned"))
    assert without == {"softmax": ["ours", "eager", "compile", "quack", "liger cute"]}
    of_another = command.requested_providers(parsed("--without", "cudnn,quack tuned,eager"))
    assert of_another == {"softmax": ["ours", "compile", "compile tuned", "quack", "liger", "liger cute"]}


def test_all_operations_are_the_default_and_each_has_its_providers():
    args = argument_parser().parse_args([])
    assert {key.operation for key in command.requested_cells(args)} == set(OPERATIONS)
    assert len(command.requested_cells(args)) == sum(len(expected_cells(name)) for name in OPERATIONS)
    providers = command.requested_providers(args)
    assert "cudnn" in providers["rmsnorm"] and "cudnn" not in providers["softmax"]
    some = command.requested_providers(argument_parser().parse_args(["--providers", "ours,cudnn"]))
    assert some["rmsnorm"] == ["ours", "cudnn"] and some["softmax"] == ["ours"]


def test_all_operations_go_to_a_folder_and_are_gone_on_with(gpu, tmp_path, capsys):
    words = [
        "all",
        "--dtype",
        "bfloat16",
        "--m",
        "8192",
        "--n",
        "256",
        "--providers",
        "ours,eager",
        "--out",
        str(tmp_path),
    ]
    assert command.run(argument_parser().parse_args(words)) == 0
    names = sorted(path.name for path in tmp_path.glob("*.json"))
    assert names == sorted(f"{slug(name)}.json" for name in OPERATIONS)
    record = records.load(tmp_path / "rmsnorm-backward.json")
    assert record.operation == "rmsnorm backward" and len(record.cells) == 1
    assert record.command == (
        "quack-tutorial bench rmsnorm-backward --dtype bfloat16 --n 256 --m 8192 --providers ours,eager "
        "--out rmsnorm-backward.json"
    )
    capsys.readouterr()
    assert command.run(argument_parser().parse_args(words)) == 1
    assert "exists: go on with it with --resume" in capsys.readouterr().err
    assert command.run(argument_parser().parse_args([*words, "--resume"])) == 0
    assert f"{len(OPERATIONS)} cells, {len(OPERATIONS)} of them measured before" in capsys.readouterr().out


def test_a_file_for_all_operations_is_refused(gpu, tmp_path, capsys):
    assert command.run(argument_parser().parse_args(["--n", "256", "--out", str(tmp_path / "r.json")])) == 1
    assert "--out must name a folder" in capsys.readouterr().err


def test_several_gpus_are_noted_with_each_cell(gpu, tmp_path):
    out = tmp_path / "r.json"
    words = ("--dtype", "bfloat16", "--m", "8192", "--n", "256,512,1024,2048,4096", "--gpus", "2", "--out", out)
    assert command.run(parsed(*words)) == 0
    record = records.load(out)
    assert len(record.cells) == 5 and {cell.gpu for cell in record.cells} <= {0, 1}
    assert record.command.endswith("--gpus 2")
    assert '"gpu"' not in json.dumps(records._compact(synthetic.cell()))


def test_one_operation_goes_into_a_folder_that_is_there(gpu, tmp_path):
    words = ("--dtype", "float32", "--n", "256", "--out", tmp_path)
    assert command.run(parsed(*words)) == 0
    assert command.run(parsed(*words, "--resume")) == 0
    record = records.load(tmp_path / "softmax.json")
    assert [cell.N for cell in record.cells] == [256] and "--out softmax.json" in record.command


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("--dtype", "float8"), "dtype 'float8' is not one of float32, bfloat16, float16"),
        (("--n", "1k"), "--n takes positive whole numbers separated by commas, got '1k'"),
        (("--m", "0"), "--m takes positive whole numbers"),
        (("--providers", "nobody"), "provider 'nobody' is not one of: ours, eager"),
        (("--without", "nobody"), "provider 'nobody' is not one of: ours, eager"),
        (("--without", "ours,eager,compile,compile tuned,quack,liger,liger cute"), "softmax has none of the providers"),
        (("--resume",), "--resume goes on with a record: name it with --out FILE"),
    ],
)
def test_what_makes_no_sense_is_said(gpu, capsys, words, sentence):
    assert command.run(parsed(*words)) == 1
    assert sentence in capsys.readouterr().err


def test_several_workers_may_share_a_gpu(gpu, tmp_path, capsys):
    words = (
        "--dtype",
        "bfloat16",
        "--m",
        "8192",
        "--n",
        "256,512,1024",
        "--workers",
        "2",
        "--out",
        tmp_path / "r.json",
    )
    assert command.run(parsed(*words)) == 0
    assert "3 measured, 0 failed, 0 left" in capsys.readouterr().out
    record = records.load(tmp_path / "r.json")
    assert [cell.workers for cell in record.cells] == [2, 2, 2] and record.command.endswith("--workers 2")
    assert command.run(parsed("--workers", "0")) == 1
    assert "--workers takes a number of processes, 1 or more, got 0" in capsys.readouterr().err


def test_a_sweep_is_written_and_gone_on_with(gpu, tmp_path, capsys):
    out = tmp_path / "r.json"
    first = ("--dtype", "bfloat16", "--m", "8192", "--n", "256", "--out", out)
    assert command.run(parsed(*first)) == 0
    assert "1 measured, 0 failed, 0 left" in capsys.readouterr().out
    kept = records.load(out)
    more = ("--dtype", "bfloat16", "--m", "8192", "--n", "256,4096", "--out", out, "--resume")
    assert command.run(parsed(*more)) == 0
    assert "2 cells, 1 of them measured before" in capsys.readouterr().out
    record = records.load(out)
    assert [cell.N for cell in record.cells] == [256, 4096]
    assert record.cells[0] == kept.cells[0]
    assert record.device == "Synthetic GPU"
    assert command.run(parsed(*more)) == 0  # nothing left to do


def test_a_cell_measured_again_is_so_with_the_providers_that_it_had(gpu, tmp_path):
    words = ("--dtype", "bfloat16", "--m", "8192", "--n", "256", "--out", tmp_path / "r.json")
    assert command.run(parsed(*words, "--providers", "ours,quack")) == 0
    assert command.run(parsed(*words, "--providers", "ours,compile", "--resume")) == 0
    (cell,) = records.load(tmp_path / "r.json").cells
    assert [result.provider for result in cell.results] == ["ours", "compile", "quack"]


def test_the_limit_leaves_the_rest_and_says_how_to_go_on(gpu, tmp_path, capsys):
    out = tmp_path / "r.json"
    assert command.run(parsed("--n", "256,4096", "--m", "8192", "--limit-s", "-1", "--out", out)) == 0
    said = capsys.readouterr().out
    assert "0 measured, 0 failed, 6 left" in said
    assert "Go on with: quack-tutorial bench softmax --n 256,4096 --m 8192 --out r.json --resume" in said


def test_a_file_that_exists_is_not_written_over(gpu, tmp_path, capsys):
    out = tmp_path / "r.json"
    records.save(synthetic.record(synthetic.cell()), out)
    before = out.read_text()
    assert command.run(parsed("--n", "256", "--out", out)) == 1
    assert f"{out} exists: go on with it with --resume" in capsys.readouterr().err
    assert command.run(parsed("--ladder", "--n", "256", "--out", out, "--resume")) == 1
    assert "holds softmax (peers), not softmax (ladder)" in capsys.readouterr().err
    assert out.read_text() == before


def test_other_versions_are_not_mixed_into_a_record(gpu, tmp_path, capsys):
    out = tmp_path / "r.json"
    words = ("--dtype", "bfloat16", "--m", "8192", "--out", out)
    assert command.run(parsed("--n", "256", *words)) == 0
    gpu["version"] = "9.9"
    assert command.run(parsed("--n", "4096", *words, "--resume")) == 1
    assert "another machine or version (torch 0.0 there, 9.9 here)" in capsys.readouterr().err
    assert len(records.load(out).cells) == 1


def test_a_package_that_was_not_there_before_is_added_to_a_record(gpu, tmp_path):
    out = tmp_path / "r.json"
    words = ("--dtype", "bfloat16", "--m", "8192", "--out", out)
    assert command.run(parsed("--n", "256", *words)) == 0
    before = json.loads(out.read_text())
    del before["versions"]["quack-kernels"]
    out.write_text(json.dumps(before))
    assert command.run(parsed("--n", "4096", *words, "--resume")) == 0
    assert len(records.load(out).cells) == 2 and records.load(out).versions["quack-kernels"] == "0.0"


def test_a_broken_record_is_not_gone_on_with(gpu, tmp_path, capsys):
    out = tmp_path / "r.json"
    out.write_text(json.dumps({"schema": 1}))
    assert command.run(parsed("--n", "256", "--out", out, "--resume")) == 1
    assert "it has no list of cells" in capsys.readouterr().err


def test_cells_without_a_result_are_named_and_the_exit_is_1(gpu, tmp_path, capsys):
    gpu["behaviour"] = "dies-at-timing"
    assert command.run(parsed("--dtype", "float32", "--n", "256", "--out", tmp_path / "r.json")) == 1
    said = capsys.readouterr().out
    assert "softmax float32 32768 x 256: no result: RuntimeError: CUDA error" in said
    assert "0 measured, 1 failed, 0 left" in said


def test_without_what_our_own_kernels_import_nothing_is_measured(gpu, tmp_path, capsys):
    gpu["behaviour"] = "lacks-ours"
    out = tmp_path / "r.json"
    assert command.run(parsed("--dtype", "float32", "--n", "256", "--out", out)) == 1
    said = capsys.readouterr()
    assert said.err == (
        "bench: what our own kernels need is not here (ImportError: libruntime.so: cannot open shared object file)\n"
    )
    assert "GB/s" not in said.out and not out.exists()


def test_the_time_of_all_steps_together(gpu, tmp_path, capsys):
    words = ("--dtype", "float32", "--n", "256,512", "--steps", "--out", tmp_path / "r.json")
    assert command.run(parsed(*words)) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith("Seconds in all: ") and {"ours", "timing"} <= set(said[-1].replace(",", "").split())


def test_the_recorded_command_names_no_folder(tmp_path):
    args = parsed("--n", "256", "--quick", "--out", tmp_path / "deep" / "r.json")
    assert command.command_line(args) == "quack-tutorial bench softmax --n 256 --quick --out r.json"


def test_public_calls_have_records_and_commands_of_their_own(gpu, tmp_path, capsys):
    words = ["cross-entropy,cross-entropy-backward", "--dtype", "bfloat16", "--n", "256", "--out", str(tmp_path)]
    for flag, names in (("--public", ["cross-entropy", "cross-entropy-backward"]), ("--public-mean", [])):
        asked = argument_parser().parse_args([*words, flag])
        if not names:
            with pytest.raises(ValueError, match="cross-entropy has no series 'public mean'"):
                command.requested_providers(asked)
            asked.operation, names = "cross-entropy-backward", ["cross-entropy-backward"]
        assert command.run(asked) == 0
        for name in names:
            record = records.load(tmp_path / f"{name}{flag[1:]}.json")
            assert record.series == flag[2:].replace("-", " ") and len(record.cells) == 1
            assert f"--n 256 {flag} --out {name}{flag[1:]}.json" in record.command
    assert "cross-entropy backward: ours, eager, compile, compile tuned, quack\n" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        argument_parser().parse_args([*words, "--public", "--ladder"])


def test_a_worker_is_told_which_series_it_measures(monkeypatch):
    asked = []

    class Said(sweep.Worker):
        def measure(self, request, on_step=lambda what: None):
            asked.append(request["series"])
            return super().measure(request, on_step)

    fake = [sys.executable, str(FAKE), "good", "0.0"]
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    keys = [CellKey("softmax", "float32", 8192, 256)]
    for series in ("peers", "public"):
        start = functools.partial(Said, fake)
        assert [m.cell.N for m in sweep.measure_cells(keys, ["ours"], start=start, series=series)] == [256]
    assert asked == ["peers", "public"]
