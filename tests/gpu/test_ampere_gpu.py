"""Code for Ampere (sm_80) of every rung and shipped kernel that allows it, on the GPU at hand, whose driver assembles the PTX.

With all sizes fixed a compiled kernel takes its pointers and numbers alone; the blocks are as many as the simulator launches.
"""

import ctypes
import re

import pytest

torch = pytest.importorskip("torch", reason="needs torch and a GPU")

from bench import correctness, ours
from bench.architectures import OF_HOPPER
from cutesim.simulation import simulate
from quack_tutorial import card, compiler
from quack_tutorial.operations import OPERATIONS

_problem = compiler.dsl_problem() or compiler.gpu_problem()
if _problem:
    pytest.skip(f"needs a GPU and CuTe DSL: {_problem}", allow_module_level=True)

M, N, DTYPE = 8, 1024, "float32"
LADDERS = {name: list(operation.ladder)[:-1] for name, operation in OPERATIONS.items()}
RUNGS = [(name, rung) for name, ladder in LADDERS.items() for rung in ("ours", *ladder)]


class OnAmpere:
    """A launch of a kernel as `ours` makes it, compiled for sm_80."""

    def __init__(self, kernel, specs):
        self.kernel = kernel

    def __call__(self, *args):
        text = compiler.ptx(self.kernel, *args, arch="sm_80")
        copies = [arg.cpu() if isinstance(arg, torch.Tensor) else arg for arg in args]
        (launch,) = simulate(self.kernel, *copies).trace.launches
        drive(text, launch, [arg for arg in args if arg is not None])


def drive(text, launch, args):
    """Load PTX and launch its kernel through the driver."""
    name, parameters = re.search(r"\.entry\s+([\w$]+)\s*\((.*?)\)", text, re.S).groups()
    if parameters.count(".param") != len(args):  # in three of cross-entropy's versions
        pytest.skip("the kernel takes what its host function computes besides")
    cuda, module, function = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), text.encode()) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()) == 0
    values = [ctypes.c_void_p(arg.data_ptr()) if isinstance(arg, torch.Tensor) else ctypes.c_float(arg) for arg in args]
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    dims = [ctypes.c_uint(int(size)) for size in (*launch.grid, *launch.block)]
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    smem = ctypes.c_uint(48 * 1024)  # what a block has without asking for more
    assert cuda.cuLaunchKernel(function, *dims, smem, stream, pointers, None) == 0
    torch.cuda.synchronize()
    assert cuda.cuModuleUnload(module) == 0


@pytest.mark.parametrize("operation, rung", RUNGS)
def test_code_for_ampere_gives_right_results_here(operation, rung):
    torch.manual_seed(0)
    inputs = OPERATIONS[operation].inputs(M, N, DTYPE)
    with card.taken_for("a100_80"):
        launches = [OnAmpere(*one) for one in ours.kernels(operation, rung, ours.contiguous_rows(DTYPE, N))]
        try:
            outputs = ours.row_of(operation, rung).run(launches, *inputs)
        except compiler.NeedsNewerGPU as error:
            # float8 came with Ada.
            assert rung in OF_HOPPER or OPERATIONS[operation].code_bytes, error
            pytest.skip(str(error))
    # One thread adds a row's squares up one after the other, which is less exact than a tree.
    most = 2 if (operation, rung) == ("rmsnorm", "thread") else 1
    assert correctness.error_of(OPERATIONS[operation], inputs, outputs, seed=1) <= most
