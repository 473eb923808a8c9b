"""What cells need is compiled once, in many processes; what cannot be is said and costs nothing else."""

import functools
import sys
import types

import pytest

from quack_tutorial.bench import plain_tile, prepare, sweep
from quack_tutorial.bench.operations import CellKey
from quack_tutorial.bench.prepare import Job
from tests.bench.test_sweep import FAKE, ROOT

KEYS = [CellKey("softmax", "bfloat16", M, 256) for M in (32768, 8192)]


@pytest.fixture
def worker(monkeypatch):
    """A function from a behaviour to something that starts such a worker."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return lambda behaviour: functools.partial(sweep.Worker, [sys.executable, str(FAKE), behaviour, "0.0"])


def test_what_does_not_depend_on_the_number_of_rows_is_compiled_once_and_what_is_not_kept_never():
    names = ["ours", "online", "eager", "compile", "compile tuned", "quack", "quack tuned", "cudnn"]
    jobs = prepare.jobs_of(KEYS, lambda key: names)
    tuned = [Job(key, "compile tuned") for key in KEYS]
    assert jobs[0].provider in ("ours", "online") and set(jobs[1:3]) == set(tuned)
    few = CellKey("softmax", "bfloat16", 1024, 256)
    others = [Job(few, n) for n in ("ours", "online", "quack")] + [Job(key, "compile") for key in KEYS]
    assert len(jobs) == 7 and {jobs[0], *jobs[3:]} == set(others)
    assert jobs == prepare.jobs_of(KEYS, lambda key: names)


def test_all_jobs_are_done_on_all_gpus(worker):
    jobs, seen = [Job(CellKey("softmax", "float32", 8192, 64 * n), "ours") for n in range(1, 9)], []

    def start(gpu):
        seen.append(gpu)
        return worker("good")(gpu=gpu)

    said = prepare.prepare(jobs, processes=2, gpus=2, start=start)
    assert sorted(seen) == [0, 0, 1, 1]
    assert said.startswith("8 of 8 programs prepared in ") and said.endswith(" s.")


def test_without_a_number_of_gpus_the_first_one_is_used(worker):
    assert prepare.prepare([Job(KEYS[0], "ours")], 2, None, start=worker("good")).startswith("1 of 1 programs")


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [("refuses", "refused"), ("dies-at:ours", "RuntimeError: CUDA error: an illegal memory access was encountered")],
)
def test_what_cannot_be_compiled_is_said_and_the_rest_goes_on(worker, behaviour, why):
    jobs = [Job(KEYS[0], "ours"), Job(KEYS[0], "quack")]
    said = prepare.prepare(jobs, 1, 1, start=worker(behaviour))
    refused = 2 if behaviour == "refuses" else 1
    assert said.startswith("2 of 2 programs")
    assert f"; {refused} refused, the first: softmax bfloat16 32768 x 256: ours: {why}" in said


def test_the_limit_ends_it(worker):
    assert prepare.prepare([Job(KEYS[0], "ours")], 1, 1, limit_s=-1, start=worker("good")).startswith("0 of 1 programs")


@pytest.fixture
def compiling(monkeypatch):
    """`compile_one` for a made-up operation on a machine without a GPU: what a provider is asked, and what it raises."""
    torch = pytest.importorskip("torch")
    said = []

    class Provider:
        def __init__(self, errors):
            self.errors = list(errors)

        def __call__(self, x):
            if self.errors and (error := self.errors.pop(0)):
                raise error
            return lambda x: said.append(x)

    def ptx(*what):
        said.append(what)
        return []

    within = RuntimeError("OutOfMemoryError: CUDA out of memory")  # as inductor puts it
    providers = {"ours": Provider([]), "quack": Provider([torch.OutOfMemoryError("full"), within]), "liger": None}
    providers["compile"] = Provider([ValueError("no such thing")])
    operation = types.SimpleNamespace(
        inputs=lambda M, N, dtype: ((M, N, dtype),), providers=providers, ladder={}, ptx=ptx, bytes=lambda M, N, item: 9
    )
    monkeypatch.setattr(prepare, "DEVICE", "cpu")
    monkeypatch.setitem(prepare.OPERATIONS, "softmax", operation)
    monkeypatch.setattr(prepare, "WAIT_S", 0)
    monkeypatch.setattr(plain_tile, "setup", lambda operation, x: said.append(("tile", operation)))
    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)

    def one(name):
        said.clear()
        cell = {"operation": "softmax", "dtype": "float32", "M": 8, "N": 256}
        return prepare.compile_one({"cell": cell, "provider": name}, lambda what: None)["problem"], list(said)

    return one


def test_a_provider_is_set_up_and_called_and_the_ptx_of_ours_is_made(compiling):
    inputs = (8, 256, "float32")
    assert compiling("ours") == ("", [inputs, ("ours", "float32", 256), ("tile", "softmax")])
    assert compiling("compile") == ("ValueError: no such thing", [])


def test_a_full_gpu_is_waited_for(compiling, monkeypatch):
    assert compiling("quack") == ("", [(8, 256, "float32")])
    monkeypatch.setattr(prepare, "ATTEMPTS", 1)
    monkeypatch.setitem(prepare.OPERATIONS["softmax"].providers, "quack", full)
    assert compiling("quack") == ("OutOfMemoryError: full", [])


def test_memory_is_there_before_a_provider_is_set_up(compiling, monkeypatch):
    import torch

    waited, real = [], torch.empty

    def empty(nbytes, **more):
        waited.append(nbytes)
        if len(waited) < 3:
            raise torch.OutOfMemoryError("others have it")
        return real(nbytes, **more)

    monkeypatch.setattr(torch, "empty", empty)
    assert compiling("ours")[0] == ""
    assert waited == [3 * 9] * 3


def full(x):
    import torch

    raise torch.OutOfMemoryError("full")
