"""Every rung and every kernel that ships compiles for each generation of GPUs since Ampere, or needs what only Hopper brought."""

import contextlib
import datetime
import os

import pytest

pytest.importorskip("cutlass", reason="CuTe DSL is not installed")

from bench import architectures
from quack_tutorial import compiler

OTHERS = tuple(arch for arch in compiler.ARCHITECTURES if arch != compiler.HOPPER_ARCH)
# One a day besides Hopper's, for which other tests compile; ARCHITECTURES=all takes all of them, as the workflow does.
CHOSEN = (
    OTHERS if os.environ.get("ARCHITECTURES") == "all" else [OTHERS[datetime.date.today().toordinal() % len(OTHERS)]]
)


@pytest.mark.parametrize("arch", CHOSEN)
def test_all_compiles_that_the_generation_can_run(arch, of_today):
    found = architectures.compiled(arch, wanted=of_today(architectures.programs()))
    wrong = {program: said for program, said in found.items() if said not in ("compiles", "needs newer")}
    assert not wrong, wrong
    needing = {program for program, said in found.items() if said == "needs newer"}
    if arch in ("sm_80", "sm_86", "sm_89"):
        # Rows of 131,072 float32 numbers fit into no block's registers; the others are rungs that are about what Hopper brought.
        unforeseen = {one for one in needing if one[3] != 131072 and one[1] not in architectures.OF_HOPPER}
        if arch != "sm_89":  # which brought float8
            unforeseen = {one for one in unforeseen if not one[0].startswith("rmsnorm-quantized")}
        assert not unforeseen
    else:
        assert not needing


def test_a_generation_has_its_name():
    names = {(8, 0): "sm_80", (8, 9): "sm_89", (9, 0): "sm_90a"}
    names |= {(10, 3): "sm_103a", (12, 0): "sm_120a"}
    assert {capability: compiler.arch_of(capability) for capability in names} == names
    assert set(architectures.CARDS) == set(compiler.ARCHITECTURES)


def test_a_kernel_that_the_gpu_cannot_run_is_simulated_with_one_sentence(monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    from quack_tutorial.kernels.reduce import ClusterReduce

    class OnGPU(torch.Tensor):
        """A CPU tensor that says it is an Ampere's."""

        is_cuda = property(lambda self: True)

        def cpu(self):
            return self.as_subclass(torch.Tensor).clone()

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *which: (8, 0))
    x, out = torch.arange(4096.0).reshape(2, 2048), torch.zeros(2, 4)
    compiler.launch(ClusterReduce(), x.as_subclass(OnGPU), on_gpu := out.as_subclass(OnGPU))
    said = capsys.readouterr().out
    assert "need compute capability 9.0 or newer, and is compiled for sm_80. It runs on the simulator." in said
    assert torch.equal(on_gpu.as_subclass(torch.Tensor), x.sum(1, keepdim=True).expand(2, 4))
