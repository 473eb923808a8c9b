"""`qt.time` on a Hopper GPU: kernels in a CUDA graph, and those whose host function takes no stream."""

import re
import shutil

import pytest

torch = pytest.importorskip("torch")

from quack_tutorial import compiler

_problem = compiler.dsl_problem() or compiler.gpu_problem()
if _problem:
    pytest.skip(f"needs a Hopper GPU and CuTe DSL: {_problem}", allow_module_level=True)

import cutlass
import cutlass.cute as cute

import quack_tutorial as qt
from quack_tutorial.kernels.copy import CopyVectors
from quack_tutorial.kernels.memory import Stream

pytestmark = [pytest.mark.gpu]


class Doubled:
    """Rows of 128 E numbers, doubled; launched on CUDA's default stream."""

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor):
        self.kernel(mX, mO).launch(grid=[mX.shape[0], 1, 1], block=[128, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        for k in cutlass.range_constexpr(mX.shape[1] // 128):
            mO[row, 128 * k + tidx] = 2 * mX[row, 128 * k + tidx]


def test_a_kernel_without_a_stream_is_timed_too():
    x = torch.randn(16384, 4096, device="cuda")
    out = torch.zeros_like(x)
    timing = qt.time(Doubled(), x, out)
    assert torch.equal(out, 2 * x) and not timing.in_graph
    # A launch of 512 MiB takes longer than the host's call, so the two ways of timing agree.
    in_graph = qt.time(CopyVectors(cutlass.Float32, 4096), x, out)
    assert in_graph.in_graph and 0.5 < timing.gb_s / in_graph.gb_s < 1.2
    torch.randn(3, device="cuda")  # no capture was broken


def test_a_kernel_that_only_reads_is_timed_beside_a_read():
    kernel = Stream(16, 4, 128)
    x = torch.randn((1 << 27) // kernel.chunk * kernel.chunk, device="cuda")
    sums = torch.empty(16 * torch.cuda.get_device_properties(0).multi_processor_count, 128, device="cuda")
    timing = qt.time(kernel, x, sums, 1, nbytes=4 * x.numel())
    assert timing.ruler == "read" and 0.85 < timing.of_ruler < 1.05


def test_a_kernel_s_lines_have_the_samples_of_this_gpu():
    x = torch.randn(4096, 4096, device="cuda")
    shown = repr(qt.lines(Doubled(), x, torch.empty_like(x)))
    if "ERR_NVGPUCTRPERM" in shown or shutil.which("ncu") is None:
        pytest.skip("needs Nsight Compute's ncu, and the GPU's counters")
    shares = [float(found) for found in re.findall(r"^ *([\d.]+)%", shown, re.M)]
    assert 97 < sum(shares) < 103 and "sampled on this machine's" in shown
