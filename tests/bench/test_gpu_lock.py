"""One worker at a time has the GPU, and others have it while it compiles."""

import importlib
import json
import os
import subprocess
import sys
import time

import pytest

from bench import gpu_lock
from bench.gpu_lock import GpuLock

CHANGED = [
    f"torch._inductor.{name}" for name in ("runtime.triton_heuristics", "codegen.triton", "runtime.benchmarking")
]


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "gpu0")


def test_who_comes_second_waits_until_the_gpu_of_the_first_is_done(path):
    finished = []

    def finish():
        time.sleep(0.3)  # as the GPU may be busy for a while yet
        finished.append(time.monotonic())

    script = (
        "import os, sys, time; from bench.gpu_lock import GpuLock\n"
        "print('waits', flush=True)\n"
        "GpuLock(sys.argv[1]).take()\n"
        "print('has it', time.monotonic(), flush=True)\n"
        "os._exit(1)"
    )
    with GpuLock(path, finish):
        other = subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE, text=True)
        assert other.stdout.readline() == "waits\n"
        time.sleep(0.5)  # long enough for it to take what is not held
    said = other.stdout.readline().split()
    assert other.wait(30) == 1 and float(said[2]) >= finished[0]
    with GpuLock(path) as lock:  # a turn ends with the process that has it
        assert lock.held


@pytest.fixture
def torch_alone(monkeypatch):
    """torch with an autotuner of its own, and without callbacks."""
    torch = pytest.importorskip("torch")
    heuristics, codegen, benchmarking = map(importlib.import_module, CHANGED)
    said = []

    class StandIn:
        def _make_launchers(self, lock):
            said.append(lock.held)

        benchmark_codegened_module = benchmark_gpu = _make_launchers

    monkeypatch.setattr(heuristics, "CachingAutotuner", type("Autotuner", (StandIn,), {}))
    monkeypatch.setattr(codegen, "TritonScheduling", type("Scheduling", (StandIn,), {}))
    monkeypatch.setattr(benchmarking, "benchmarker", type("Benchmarker", (StandIn,), {})())
    uses = (
        lambda lock: heuristics.CachingAutotuner()._make_launchers(lock),
        lambda lock: codegen.TritonScheduling().benchmark_codegened_module(lock),
        lambda lock: benchmarking.benchmarker.benchmark_gpu(lock),
    )
    importlib.import_module("torch._dynamo").reset()
    yield torch, uses, said
    torch._dynamo.reset()


def test_others_have_the_gpu_while_torch_compiles(torch_alone, path):
    torch, uses, said = torch_alone
    lock, during = GpuLock(path), []

    def backend(graph, inputs):
        for use in uses:
            during.append(lock.held)
            use(lock)
        during.append(lock.held)
        return lambda *inputs: (during.append(lock.held), graph(*inputs))[1]

    gpu_lock.give_while_compiling(lock)
    gpu_lock.give_while_compiling(lock)  # as for a second cell: torch is changed once
    with lock:
        compiled = torch.compile(lambda x: x + 1, backend=backend)
        assert compiled(torch.zeros(3)).tolist() == [1, 1, 1]
        # compiling, and between what needs the GPU; then running
        assert during == [False] * 4 + [True]
        assert said == [True] * 3  # as a kernel was put on the GPU, or timed there
        for use in uses:
            use(lock)
        assert said == [True] * 6 and lock.held
    assert not lock.held


def test_inductor_has_what_is_changed_of_it():
    """The names that `give_while_compiling` changes, in the torch that is here."""
    pytest.importorskip("torch")
    heuristics, codegen, benchmarking = map(importlib.import_module, CHANGED)
    assert callable(heuristics.CachingAutotuner._make_launchers)
    assert callable(codegen.TritonScheduling.benchmark_codegened_module)
    assert callable(type(benchmarking.benchmarker).benchmark_gpu)


WORKER = """
import sys, torch
torch.cuda.synchronize = lambda: None  # there may be no GPU
from bench import gpu_lock, worker
worker.describe = lambda: {"held": gpu_lock.own_lock().held}

def measure(request, announce):
    announce("inputs")
    gpu_lock.own_lock().give()
    gpu_lock.own_lock().take()
    return {"held": gpu_lock.own_lock().held and gpu_lock.is_shared()}

sys.exit(worker.serve(measure))
"""


def test_a_worker_has_the_gpu_while_it_measures_and_says_when_it_waits(path):
    """The environment names its lock."""
    pytest.importorskip("torch")
    lock = GpuLock(path)
    lock.take()
    env = {**os.environ, gpu_lock.LOCK: path}
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    with subprocess.Popen([sys.executable, "-c", WORKER], **pipes) as process:

        def said():
            return json.loads(process.stdout.readline())

        assert said() == {"doing": "waiting"}
        lock.give()
        assert [said(), said()] == [{"doing": "starting"}, {"machine": {"held": True}}]
        lock.take()  # it does not have the GPU between two cells
        process.stdin.write('{"cell": 1}\n')
        process.stdin.flush()
        assert said() == {"doing": "waiting"}
        lock.give()
        assert [said(), said()] == [{"doing": "starting"}, {"doing": "inputs"}]
        assert said() == {"cell": {"held": True}}
        lock.take()
        process.stdin.close()
    lock.give()
    assert process.returncode == 0
