"""Suite `device` without a GPU: a stand-in plays the process that runs kernels on it; the simulator's side is the real one."""

import dataclasses
import json

import pytest

from tests.validation.stand_ins import quiet
from validation import language_kernels, workers


@pytest.fixture
def device(monkeypatch):
    """The suite with the simulator in the GPU's place."""
    pytest.importorskip("torch")
    from validation.gpu import device

    wanted = device.jobs(True)

    def results(command, jobs, each_s):
        for number in jobs:
            try:
                line = dataclasses.asdict(device.compared(wanted[number]))
            except Exception as error:
                line = {"failed": f"{type(error).__name__}: {error}"}
            yield number, json.loads(json.dumps(line))

    monkeypatch.setattr(device, "on_the_gpu", device.simulated)
    monkeypatch.setattr(workers, "results", results)
    return device


def test_what_agrees_is_a_table_without_mismatches(device):
    suite = device.run(True, quiet)
    assert suite.ok, suite
    assert suite.checked == len(language_kernels.KERNELS) + len(device_trials(sample=True))
    first = suite.rows[0]
    assert first[:3] == ("the language, one warp or cluster",) + (len(language_kernels.KERNELS),) * 2
    assert first[4:] == ("100.0 %", "exact", "exact")
    assert any(row[5] not in ("exact", "0.00") for row in suite.rows), "no kernel's error was measured"


def test_a_kernel_that_hangs_is_a_mismatch(device, monkeypatch):
    wanted, run = device.jobs(True), workers.results

    def results(command, jobs, each_s):
        hung = {"failed": "did not come back"}
        return ((number, hung if number == 3 else line) for number, line in run(command, jobs, each_s))

    monkeypatch.setattr(workers, "results", results)
    suite = device.run(True, quiet)
    assert suite.mismatches == (f"{wanted[3].name}: did not come back",)
    assert [row[0] for row in suite.rows] == list(dict.fromkeys(one.family for one in wanted))
    assert sum(row[2] for row in suite.rows) == len(wanted) - 1


def test_without_a_gpu_no_worker_starts_and_the_suite_says_so(monkeypatch):
    pytest.importorskip("torch")
    from validation.gpu import device

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # the workers' processes see none, also where there is one
    (mismatch,) = device.run(True, quiet).mismatches
    assert mismatch.startswith("nothing was compared: no worker could start")


def device_trials(sample):
    from validation import trials

    return trials.trials(sample)


@pytest.mark.parametrize("family, said", [("softmax", "times the tolerance"), ("copy, vectors", "not the right bits")])
def test_a_wrong_output_of_the_gpu_is_a_mismatch(device, monkeypatch, family, said):
    def wrong(host, arguments):
        arguments = device.simulated(host, arguments)
        arguments[1][2, 5] += 1
        return arguments

    trial = next(t for t in device_trials(sample=False) if t.family == family and "float32, 5 x 1000" in t.name)
    assert device.compared(trial).ok
    monkeypatch.setattr(device, "on_the_gpu", wrong)
    result = device.compared(trial)
    assert result.different == 1
    assert len(result.problems) == 1 and said in result.problems[0] and "the GPU" in result.problems[0]


def test_an_output_left_unwritten_is_a_mismatch(device, monkeypatch):
    monkeypatch.setattr(device, "on_the_gpu", lambda host, arguments: list(arguments))
    for trial in device.jobs(sample=True):
        assert not device.compared(trial).ok, trial.name


def test_a_kernel_that_cannot_be_launched_is_a_mismatch_of_its_own(device, monkeypatch):
    def refuses(host, arguments):
        if host is language_kernels.helper:
            raise RuntimeError("no")
        return device.simulated(host, arguments)

    monkeypatch.setattr(device, "on_the_gpu", refuses)
    assert device.run(True, quiet).mismatches == ("a helper function: RuntimeError: no",)


def test_every_trial_is_right_on_the_simulator(device):
    wrong = [problem for trial in device.jobs(sample=False) for problem in device.compared(trial).problems]
    assert not wrong, "\n".join(wrong)


def test_views_keep_their_alignment_on_the_way_to_the_gpu(monkeypatch):
    torch = pytest.importorskip("torch")
    from validation.gpu import device

    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self.clone())
    x = torch.arange(40.0)[3:35].view(4, 8)[:, :5]
    (moved,) = device.on_gpu([x])
    assert torch.equal(moved, x) and moved.data_ptr() != x.data_ptr()
    assert (moved.storage_offset(), moved.stride()) == (3, (8, 1))
    assert device.on_gpu([None, 3]) == [None, 3]
