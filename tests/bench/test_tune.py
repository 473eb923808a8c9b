"""`quack-tutorial tune`: what is tried, what is kept, what is shown; and one sweep with the GPU's part played by the CPU."""

import argparse
import functools
import json
import sys
import types

import pytest

from bench import sweep, tune
from quack_tutorial.kernels.tuned import candidates, choice
from quack_tutorial.kernels.tuned.config import Config, fields
from tests.bench.test_sweep import FAKE, ROOT

TRIED = [Config(32, 128), Config(16, 128), Config(64, 128), Config(256, 512)]


FIRST = ("softmax", "--n", "256", "--dtype", "bfloat16")


def run(*words):
    return tune.run(parsed(*words))


def parsed(*words):
    parser = argparse.ArgumentParser()
    tune.add_arguments(parser)
    return parser.parse_args(list(map(str, words)))


@pytest.fixture
def gpu(monkeypatch):
    """A machine that says it has a GPU, made-up workers, four candidates at every size, of which the first is shipped."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    found = types.SimpleNamespace(device="cuda", problems=(), driver="0.0")
    monkeypatch.setattr(tune.machine, "detect", lambda: found)
    monkeypatch.setattr(candidates, "candidates", lambda operation, width, N, rows: TRIED)
    monkeypatch.setattr(choice, "default_config", lambda operation, width, N, rows: TRIED[0])
    real = tune.tune

    def tuned(args, sizes, kept, driver):
        return real(
            args, sizes, kept, driver, start=functools.partial(sweep.Worker, [sys.executable, str(FAKE), "good", "0.0"])
        )

    monkeypatch.setattr(tune, "tune", tuned)


def test_the_sizes_of_the_benchmark_and_some_more_are_the_default_and_rows_keep_their_promise():
    sizes = tune.requested_sizes(parsed("rmsnorm-backward"))
    assert {size.operation for size in sizes} == {"rmsnorm backward"}
    assert {size.dtype for size in sizes} == {"float32", "bfloat16"}
    assert {128, 768, 1000} <= {size.N for size in sizes} and 257 not in {size.N for size in sizes}
    assert {257, 4096} <= {size.N for size in tune.requested_sizes(parsed("softmax", "--rows", "congruent"))}
    with pytest.raises(ValueError, match="rows of 257 elements do not start at multiples of 16 bytes"):
        tune.requested_sizes(parsed("softmax", "--n", "257"))


def test_what_is_shipped_is_always_tried(gpu, monkeypatch):
    monkeypatch.setattr(choice, "default_config", lambda *args: Config(8, 64))
    size = tune.Size("softmax", "bfloat16", 8192, 4096, "aligned")
    assert tune.configs_of(parsed("softmax"), size) == [*map(fields, TRIED), (8, 64, 1, 0)]
    asked = parsed("softmax", "--configs", "32/64,128/128/2/4")
    assert tune.configs_of(asked, size) == [(32, 64, 1, 0), (128, 128, 2, 4)]


def test_a_sweep_is_kept_gone_on_with_and_shown(gpu, tmp_path, capsys, monkeypatch):
    out = tmp_path / "tune" / "softmax.json"
    assert run(*FIRST, "--out", out) == 0
    said = capsys.readouterr().out
    assert "softmax bfloat16 32768 x 256 aligned: 4 tried, 1 did not run" in said
    lines = [line for line in said.splitlines() if line.startswith("  ")]
    assert [line.split()[0] for line in lines] == ["16/128/1/0", "32/128/1/0", "64/128/1/0", "256/512/1/0"]
    assert lines[1].endswith("shipped") and "refused: RuntimeError: too many resources" in lines[3]
    assert run("softmax", "--n", "256,512", "--dtype", "bfloat16", "--out", out) == 1
    assert "exists: go on with it with --resume" in capsys.readouterr().err
    assert run("softmax", "--n", "256,512", "--dtype", "bfloat16", "--out", out, "--resume", "--gpus", "2") == 0
    assert "2 sizes, 1 of them tuned before" in capsys.readouterr().out
    record = tune.load(out)
    assert [entry["N"] for entry in record["sizes"]] == [256, 512]
    assert record["device"] == "Synthetic GPU" and record["versions"] == {"torch": "0.0"} and record["date"]
    assert all(entry["date"] >= record["date"] for entry in record["sizes"])
    assert "gpu" not in record["sizes"][0] and record["sizes"][1]["gpu"] in (0, 1)

    assert run("--show", out) == 0
    said = capsys.readouterr().out
    assert "softmax bfloat16 aligned on Synthetic GPU" in said
    # 10.788 and 10.948 us: 0.16 us or 1.5 % more
    assert "shipped loses 1.5% at most, 1.5% on average" in said
    line = next(line for line in said.splitlines() if line.startswith("32768 x 256"))
    assert line.split()[3:5] == ["512", "16/128/1/0"] and "32/128/1/0" in line and "+1.5%" in line
    monkeypatch.setattr(choice, "default_config", lambda *args: TRIED[-1])
    assert run("--show", out) == 0 and "not run" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, sentence",
    [
        ((), "name an operation"),
        (("groupnorm",), "operation 'groupnorm' is not one of copy, softmax"),
        (("softmax", "--dtype", "int8"), "dtype 'int8' is not one of float32"),
        (("softmax", "--resume"), "--resume goes on with a file"),
        (("--show", "nowhere.json"), "nowhere.json: cannot be read"),
    ],
)
def test_what_makes_no_sense_is_said(gpu, capsys, words, sentence):
    assert run(*words) == 1
    assert sentence in capsys.readouterr().err


def test_files_of_other_machines_and_sweeps_are_not_mixed(gpu, tmp_path, capsys):
    out = tmp_path / "softmax.json"
    first = ("softmax", "--n", "256", "--dtype", "bfloat16", "--out", out)
    assert run(*first) == 0
    assert run("rmsnorm", *first[1:], "--resume") == 1
    assert "holds softmax (aligned), not rmsnorm (aligned)" in capsys.readouterr().err
    record = json.loads(out.read_text())
    out.write_text(json.dumps({**record, "device": "Another GPU"}))
    assert run(*first[:1], "--n", "512", *first[3:], "--resume") == 1
    assert "another machine or version" in capsys.readouterr().err


def test_without_a_gpu_it_is_one_sentence(monkeypatch, capsys):
    found = types.SimpleNamespace(device="cpu", problems=(types.SimpleNamespace(what="no GPU"),), driver=None)
    monkeypatch.setattr(tune.machine, "detect", lambda: found)
    assert run("softmax") == 1
    assert capsys.readouterr().err == "tune: it measures on a GPU, and there is none to use here: no GPU\n"


# One sweep -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def tuning(monkeypatch):
    """The module that tries configurations, its graph, clock, ceiling and compiler replaced; `times` are what it reads."""
    pytest.importorskip("torch", reason="torch is not installed")
    from bench import tuning
    from tests.bench import host_gpu

    host_gpu.play(monkeypatch, None)
    monkeypatch.setattr(tuning.ceilings, "ceiling_candidates", lambda *args: {"plain": None})
    calls = {}  # threads a row -> callable, or an exception

    def compiled(operation, provider, rows, config):
        call = calls[config.threads_per_row]
        if isinstance(call, Exception):
            raise call
        return call

    monkeypatch.setattr(tuning.ours, "callable_for", compiled)
    monkeypatch.setattr(tuning.timing, "rough_us", lambda replay, rounds: replay.graph.us)

    def interleaved(replays, rounds):
        us = {name: 9.0 if name == ("ceiling", "plain") else replay.graph.us + 1 for name, replay in replays.items()}
        return {name: [value] * rounds for name, value in us.items()}

    monkeypatch.setattr(tuning.timing, "interleaved_us", interleaved)
    return tuning, calls


def timed(us, function):
    def call(*inputs):
        return function(*inputs)

    call.us = us
    return call


@pytest.mark.parametrize("rows", ["aligned", "congruent"])
def test_candidates_are_checked_timed_and_the_best_timed_again(tuning, rows):
    tuning, calls = tuning
    from quack_tutorial.operations.our_launches import rows_of
    from quack_tutorial.operations.softmax import formula

    def softmax(x):
        assert rows_of(x).promise == rows
        return formula(x)

    calls |= {n: timed(20.0 - i, softmax) for i, n in enumerate((1, 2, 4, 8, 16, 32, 64, 96))}
    calls[128] = timed(1.0, lambda x: softmax(x) * 1.001)
    calls[160] = RuntimeError("too much shared memory\nfor this GPU")
    crashed = {"192/192/1/0": "CUDA error"}
    told = []
    size = {"operation": "softmax", "dtype": "float32", "M": 64, "N": 256, "rows": rows}
    tried = [(n, max(32, n), 1, 0) for n in (*calls, 192)]
    found = tuning.measure_size(size, tried, crashed, announce=told.append)
    by = {entry["config"][0]: entry for entry in found["candidates"]}
    assert [entry["config"] for entry in found["candidates"]] == [list(config) for config in tried]
    assert by[128]["status"] == "wrong" and "times the tolerance" in by[128]["message"]
    assert (by[160]["status"], by[160]["message"]) == ("refused", "RuntimeError: too much shared memory")
    assert by[192]["status"] == "crashed" and "192/192/1/0" not in told
    finalists = sorted((entry["us"], entry["config"][0]) for entry in found["candidates"] if "us" in entry)
    assert finalists == [(14.0, 96), (15.0, 64), (16.0, 32), (17.0, 16), (18.0, 8), (19.0, 4)]
    assert by[1]["rough_us"] == 20.0 and 0 < by[1]["error"] <= 1
    assert found["ceiling_us"] == 9.0 and found["bytes_moved"] == 2 * 64 * 256 * 4
    assert told[:3] == ["inputs", "ceiling", "1/32/1/0"] and told[-1] == "timing"


def test_more_are_timed_again_where_they_are_nearly_as_good(tuning):
    tuning, calls = tuning
    from quack_tutorial.operations.softmax import formula

    calls |= {n: timed(10.0 + i / 40, formula) for i, n in enumerate((1, 2, 4, 8, 16, 32, 64, 96, 128, 160))}
    size = {"operation": "softmax", "dtype": "float32", "M": 64, "N": 256, "rows": "aligned"}
    found = tuning.measure_size(size, [(n, max(32, n), 1, 0) for n in calls])
    timed_again = [entry["config"][0] for entry in found["candidates"] if "us" in entry]
    assert timed_again == [1, 2, 4, 8, 16, 32, 64, 96, 128]  # up to 10.2, 2 % more than the best


def test_rows_that_cannot_keep_the_promise_are_refused(tuning):
    tuning, _ = tuning
    size = {"operation": "softmax", "dtype": "float32", "M": 8, "N": 257, "rows": "aligned"}
    with pytest.raises(ValueError, match="rows of 257 float32 elements one after another are congruent, not aligned"):
        tuning.measure_size(size, [(32, 32, 1, 0)])
