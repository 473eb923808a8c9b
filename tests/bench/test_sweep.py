"""A sweep outlives a provider that takes the process down, and stops between cells when its time is up."""

import functools
import sys
import time
from pathlib import Path

import pytest

from bench import sweep
from bench.gpu_lock import LOCK
from quack_tutorial.records.cells import CellKey

FAKE = Path(__file__).with_name("fake_worker.py")
ROOT = FAKE.parents[2]
KEYS = [CellKey("softmax", "bfloat16", 8192, N) for N in (256, 4096)]
PROVIDERS = ["ours", "eager", "quack"]


@pytest.fixture
def worker(monkeypatch):
    """A function from a behaviour to something that starts such a worker."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return lambda behaviour: functools.partial(sweep.Worker, [sys.executable, str(FAKE), behaviour, "0.0"])


def test_every_cell_comes_back_in_order_and_its_steps_are_told(worker):
    told, asked = [], []

    class Heard(sweep.Worker):
        def measure(self, request, *rest):
            asked.append((request["series"], request["rounds"], request["do_bench"]))
            return super().measure(request, *rest)

    start = functools.partial(Heard, worker("good").args[0])
    note = lambda key, what: told.append(what)  # noqa: E731
    options = {"rounds": 7, "do_bench": False, "series": "public", "on_step": note}
    found = list(sweep.measure_cells(KEYS, PROVIDERS, start=start, limit_s=60, **options))
    assert [measured.key for measured in found] == KEYS
    assert [measured.cell.N for measured in found] == [256, 4096]
    assert [result.provider for result in found[0].cell.results] == PROVIDERS
    assert told == 2 * ["ceiling", *PROVIDERS, "timing"] and asked == 2 * [("public", 7, False)]


def test_a_provider_that_kills_the_process_is_recorded_and_the_others_are_measured(worker):
    found = list(sweep.measure_cells(KEYS[:1], PROVIDERS, start=worker("dies-at:quack")))
    (measured,) = found
    quack = measured.cell.result("quack")
    assert quack.status == "crashed"
    assert quack.message == "RuntimeError: CUDA error: an illegal memory access was encountered"
    assert measured.cell.result("eager").status == "ok"


def test_a_death_that_belongs_to_no_provider_costs_the_cell_and_the_sweep_goes_on(worker):
    found = list(sweep.measure_cells(KEYS, PROVIDERS, start=worker("dies-at-timing")))
    assert [measured.cell for measured in found] == [None, None]
    assert "illegal memory access" in found[0].message and "busy with timing" in found[0].message


def test_a_cell_for_which_others_left_no_memory_is_measured_again_alone(worker):
    started = []

    def start(more):
        started.append(more)
        return worker("full-at:eager" if len(started) <= 2 else "good")(more=more)

    (found,) = sweep.measure_cells(KEYS[:1], PROVIDERS, start=start, workers=2)
    assert len(started) >= 3 and found.cell.result("eager").status == "ok"


def test_a_provider_that_has_too_little_memory_alone_is_recorded(worker):
    (found,) = sweep.measure_cells(KEYS[:1], PROVIDERS, start=worker("full-at:eager"), workers=2)
    result = found.cell.result("eager")
    wanted = ("crashed", "torch.OutOfMemoryError: CUDA out of memory.")
    assert (result.status, result.message) == wanted
    assert found.cell.result("ours").status == "ok"


def test_workers_of_a_gpu_share_its_lock_and_the_processors(worker, monkeypatch):
    keys = [CellKey("softmax", "bfloat16", 8192, 64 * n) for n in range(1, 9)]
    monkeypatch.setattr(sweep.os, "cpu_count", lambda: 24)
    seen = []

    def start(more):
        seen.append((more[LOCK], more[sweep.COMPILE_THREADS]))
        return worker("good")(more=more)

    found = list(sweep.measure_cells(keys, PROVIDERS, start=start, workers=3))
    assert sorted(measured.key for measured in found) == keys
    assert {measured.cell.workers for measured in found} == {3}
    assert len(seen) == 3 and len({lock for lock, _ in seen}) == 1 and {threads for _, threads in seen} == {"8"}


# The second is larger than an H200's memory.
@pytest.mark.parametrize("M, N", [(32768, 131072), (262144, 262144)])
def test_large_cells_of_workers_that_share_a_gpu_are_measured_one_after_the_other(worker, M, N):
    keys = [CellKey("softmax", dtype, M, N) for dtype in ("bfloat16", "float16", "float32")]
    running, most = set(), []

    def step(key, what):
        running.add(key)
        most.append(len(running))
        time.sleep(0.1)  # long enough for the others to come in, were they let
        if what == "timing":  # the last
            running.discard(key)

    found = sweep.measure_cells(keys, PROVIDERS, start=worker("h200"), workers=3, on_step=step)
    assert sorted(measured.key for measured in found) == sorted(keys) and set(most) == {1}


def test_a_worker_that_does_not_start_says_why(worker):
    with pytest.raises(RuntimeError, match="does not start: ImportError: no module named torch"):
        list(sweep.measure_cells(KEYS, PROVIDERS, start=worker("never-starts")))


def test_who_waits_for_the_gpu_may_be_silent(monkeypatch):
    monkeypatch.setattr(sweep, "SILENCE_S", 0.5)
    lines = ['{"doing": "waiting"}', "", '{"doing": "starting"}', '{"machine": 1}']
    lines += ['{"doing": "waiting"}', "", '{"cell": 2}']
    script = f"import time\nfor line in {lines}: print(line, flush=True) if line else time.sleep(1.5)\ninput()"
    started = sweep.Worker([sys.executable, "-c", script])
    assert started.machine == 1 and started.measure({}) == 2
    started.close()
    silent = lines[:3] + [""]
    script = f"import time\nfor line in {silent}: print(line, flush=True) if line else time.sleep(1.5)"
    with pytest.raises(sweep.WorkerDied, match="no answer in 0.5 s"):
        sweep.Worker([sys.executable, "-c", script])


@pytest.mark.parametrize(
    "message, full",
    [
        ("torch.OutOfMemoryError: CUDA out of memory.", True),
        ("InductorError: OutOfMemoryError: CUDA", True),
        ("RuntimeError: Triton Error [CUDA]: out of memory", True),
        ("RuntimeError: CUDA_ERROR_OUT_OF_MEMORY", True),
        ("cudnnGraphNotSupportedError: CUDNN_STATUS_ALLOC_FAILED", True),
        ("OutOfResources: out of resource: shared memory, Required: 300000", False),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", False),
    ],
)
def test_every_way_to_say_that_memory_ran_out_is_known(message, full):
    assert sweep.is_out_of_memory(message) == full


def test_the_limit_ends_it_between_cells(worker):
    assert list(sweep.measure_cells(KEYS, PROVIDERS, limit_s=-1, start=worker("good"))) == []


def says(name):
    """The command of a worker whose machine is what its environment says under a name."""
    script = f"import json, os; print(json.dumps({{'machine': os.environ['{name}']}}), flush=True); input()"
    return [sys.executable, "-c", script]


def test_the_worker_is_started_for_multi_kernel():
    started = sweep.Worker(says("TORCHINDUCTOR_MULTI_KERNEL"))
    started.close()
    assert started.machine == "1"
