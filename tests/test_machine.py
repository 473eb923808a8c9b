"""Every kind of machine gets one sentence that says what is so, where, and what to do."""

import json
import sys
import types
from pathlib import Path

import pytest

import quack_tutorial
from quack_tutorial import cli, machine
from tests.nvml import Nvml

HOPPER = {
    "system": "Linux",
    "architecture": "x86_64",
    "python": "3.12.3",
    "numpy": "2.4.6",
    "gpu": "NVIDIA H100 80GB HBM3",
    "compute_capability": (9, 0),
    "driver": "580.95.05",
    "driver_trouble": None,
    "hidden": False,
    "torch": "2.13.0",
    "torch_cuda": "13.0",
    "dsl": "4.8.1",
    "flavours": (12,),
    "tvm_ffi": "0.1.15",
    "jupyterlab": "4.6.6",
    "kernel": None,
}
NO_GPU = {"gpu": None, "compute_capability": None, "driver": None}


def judged(**changes):
    return machine.judge(**(HOPPER | changes))


CU126 = {"driver": "570.133.20", "torch": "2.13.0+cu126", "torch_cuda": "12.6"}
NO_TORCH = {"torch": None, "torch_cuda": None}
MACHINES = {  # by what is so of them, if anything
    "a Hopper GPU with everything": {},
    "an L4": {"gpu": "NVIDIA L4", "compute_capability": (8, 9)},
    "a B200": {"gpu": "NVIDIA B200", "compute_capability": (10, 0)},
    "no GPU": NO_GPU,
    "older than Ampere": {"gpu": "NVIDIA T4", "compute_capability": (7, 5)},
    "no driver": NO_GPU | {"driver_trouble": "its driver is missing"},
    "hidden": NO_GPU | {"hidden": True},
    "DSL missing": {"dsl": None},
    "another DSL": {"dsl": "4.9.0"},
    "torch missing": NO_TORCH,
    "torch and DSL missing": NO_TORCH | {"dsl": None},
    "neither torch nor a GPU": NO_GPU | NO_TORCH,
    "torch for the CPU": {"torch": "2.13.0+cpu", "torch_cuda": None},
    "a driver older than torch's CUDA": {"driver": "570.133.20"},
    "CuTe DSL's libraries for CUDA 13 under a driver for CUDA 12": CU126 | {"flavours": (13,)},
    "a driver older than CuTe DSL's CUDA": {"torch_cuda": "12.6", "driver": "570.133.20"},
    "no libraries": {"flavours": ()},
    "no tvm-ffi": {"tvm_ffi": None},
    "macOS": NO_GPU | {"system": "Darwin", "architecture": "arm64", "dsl": None},
    "Windows": {"system": "Windows", "dsl": None},
    "no numpy": NO_GPU | {"numpy": None},
    "no JupyterLab": {"jupyterlab": None},
    "a kernel of another Python": {"kernel": "/opt/python"},
}


def said(name):
    """Where kernels run and why, what keeps them off the GPU and what to do, what is missing beside, what to type next."""
    found = judged(**MACHINES[name])
    yield f"{name}: {found.device}. {found.reason}"
    yield from (f"  problem: {one.what} ({one.where}): {one.remedy}" for one in found.problems)
    yield from (f"  note: {one.what} ({one.where}): {one.remedy}" for one in found.notes)
    yield f"  {machine.verdict(found)}"


def test_what_is_said_of_each_machine(monkeypatch, snapshot):
    monkeypatch.setattr(machine, "next_command", lambda found: "make lab")
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    lines = (line.replace(sys.prefix, "PREFIX") for name in MACHINES for line in said(name))
    snapshot(lines, Path(__file__).with_name("machines.txt"))


@pytest.mark.parametrize(
    "fits",
    [
        {"torch_cuda": "13.0", "driver": "580.65.06", "flavours": (13,)},
        {"torch_cuda": "12.6", "driver": "575.51.03"},
        # One of the two will do.
        {"torch_cuda": "12.6", "driver": "525.60.13", "flavours": (12, 13)},
        {"driver": None},  # not known: nothing is said against it
    ],
)
def test_a_driver_that_is_new_enough_is_not_complained_of(fits):
    assert judged(**fits).problems == () == judged(**fits).notes


def test_the_doctor_ends_with_what_to_type(monkeypatch, capsys):
    for name in ("a Hopper GPU with everything", "no numpy"):
        monkeypatch.setattr(machine, "detect", lambda name=name: judged(**MACHINES[name]))
        assert cli.main(["doctor"]) == (name == "no numpy")
        assert capsys.readouterr().out.splitlines()[-1] == machine.verdict(judged(**MACHINES[name]))


def test_the_doctor_in_jupyterlab_does_not_say_how_to_start_it(monkeypatch):
    monkeypatch.setenv(machine.IN_LAB, "start.md")
    found = judged(**NO_GPU)
    said = machine.verdict(found)
    assert said.endswith(" Next: open start.md, in the file browser, and choose a chapter")
    monkeypatch.delenv(machine.IN_LAB)
    assert machine.verdict(found).endswith(" lab")


def test_pip_is_named_so_that_it_installs_here(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/a b/python")
    monkeypatch.setenv("VIRTUAL_ENV", "/another")
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    assert machine.typed("pip install numpy") == "'/a b/python' -m pip install numpy"
    monkeypatch.setenv("CONDA_PREFIX", sys.prefix)
    assert machine.typed("pip install numpy") == "pip install numpy"
    assert machine.typed("nvidia-smi") == "nvidia-smi"


def test_a_kernel_of_another_python_is_seen(tmp_path):
    spec = tmp_path / "kernels/python3/kernel.json"
    spec.parent.mkdir(parents=True)
    for argv, other in (
        (["/opt/base/bin/python", "-m", "ipykernel_launcher"], "/opt/base/bin/python"),
        (["python", "-m", "ipykernel_launcher"], None),  # the Jupyter's own
        ([sys.prefix + "/bin/python"], None),
    ):
        spec.write_text(json.dumps({"argv": argv}))
        assert machine.other_kernel([tmp_path / "none", tmp_path]) == other
    spec.write_text("{")
    assert machine.other_kernel([tmp_path]) is None


def test_the_newest_visible_gpu_is_the_one_named(monkeypatch):
    nvml = Nvml([("NVIDIA T4", (7, 5)), ("NVIDIA H200", (9, 0))])
    monkeypatch.setattr(machine, "load_nvml", lambda: nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = machine.find_gpu()
    got = (found["gpu"], found["compute_capability"], found["driver"])
    assert got == ("NVIDIA H200", (9, 0), "580.95.05")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert machine.find_gpu()["gpu"] == "NVIDIA T4"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert machine.find_gpu()["gpu"] is None
    assert machine.find_gpu()["hidden"]
    monkeypatch.setattr(machine, "load_nvml", lambda: Nvml(status=18))
    wanted = "NVIDIA's driver does not answer (NVML status 18)"
    assert machine.find_gpu()["driver_trouble"] == wanted


def test_a_gpu_on_the_bus_without_a_driver_is_seen(monkeypatch, tmp_path):
    card = tmp_path / "0000:01:00.0"
    card.mkdir()
    (card / "vendor").write_text("0x10de\n")
    (card / "class").write_text("0x030200\n")
    assert machine.nvidia_device_on_bus(tmp_path)
    (card / "class").write_text("0x040300\n")  # the sound function of a graphics card is no GPU
    assert not machine.nvidia_device_on_bus(tmp_path)
    monkeypatch.setattr(machine, "load_nvml", lambda: None)
    monkeypatch.setattr(machine, "nvidia_device_on_bus", lambda: True)
    assert "driver is not installed" in machine.find_gpu()["driver_trouble"]


VALUES = [(None, "012"), ("", ""), ("-1", ""), ("1", "1")]
VALUES += [("0,2", "02"), ("0,-1,2", "0"), ("GPU-8f3a", "012")]


@pytest.mark.parametrize("value, visible", VALUES)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(value, visible):
    assert "".join(str(index) for index in range(3) if machine.is_visible(index, value)) == visible


def test_torch_is_read_without_importing_it(monkeypatch, tmp_path):
    folder = tmp_path / "torch"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('torch was imported')")
    (folder / "version.py").write_text("__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\nhip = None\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert machine.find_torch() == {"torch": "2.13.0+cu130", "torch_cuda": "13.0"}
    (folder / "version.py").write_text("__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n")
    assert machine.find_torch() == {"torch": "2.13.0+cpu", "torch_cuda": None}


def test_start_answers_imports_only_in_a_notebook_without_the_dsl(monkeypatch, capsys):
    answered = []
    namespace = {}
    loading = types.ModuleType("cutesim.language.loading")
    loading.answer_imports = answered.append
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(user_ns=namespace)
    monkeypatch.setitem(sys.modules, "cutesim.language.loading", loading)
    monkeypatch.setitem(sys.modules, "IPython", ipython)

    monkeypatch.setattr(machine, "detect", judged)
    assert quack_tutorial.start().device == "cuda"
    assert answered == []

    monkeypatch.setattr(machine, "detect", lambda: judged(dsl=None))
    assert quack_tutorial.start().device == "cpu"
    assert answered == [namespace]
    assert answered[0] is namespace

    ipython.get_ipython = lambda: None
    quack_tutorial.start()
    assert len(answered) == 1
    assert capsys.readouterr().out.splitlines() == [judged().reason] + 2 * [judged(dsl=None).reason]

    monkeypatch.setattr(machine, "detect", lambda: judged(torch=None, torch_cuda=None))
    quack_tutorial.start()
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2
    assert said[1].startswith(f"torch is not installed in this environment ({sys.prefix})")
    assert said[1].endswith("pip install 'torch>=2.11'")


def test_the_doctor_s_json_has_what_is_there_and_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr(machine, "detect", lambda: judged(dsl=None))
    assert cli.main(["doctor", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["device"], answer["simulator"], answer["dsl"]) == ("cpu", True, None)
    assert answer["problems"][0]["remedy"].startswith("pip install")


@pytest.mark.parametrize("words", [["docter"], [], ["doctor", "--jsno"]])
def test_words_that_make_no_sense_get_one_sentence_and_status_2(words, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "--help" in said.err


def test_this_machine_is_judged_as_torch_sees_it():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    found = machine.detect()
    assert found.torch == torch.__version__
    assert found.torch_cuda == torch.version.cuda
    on_gpu = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)
    usable = on_gpu and found.dsl is not None
    assert found.device == ("cuda" if usable else "cpu")
