"""What the kernels compute with: conversions, on the simulator."""

import pytest

pytest.importorskip("cutlass", reason="CuTe DSL is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from cutesim.simulation import simulate
from quack_tutorial.kernels.arithmetic import as_float32

PATTERNS = 1 << 16


class Widen:
    """float32 of 16-bit values, `values` a thread."""

    def __init__(self, values):
        self.values = values

    @cute.jit
    def __call__(self, mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
        blocks = PATTERNS // (1024 * self.values)
        self.kernel(mX, mO).launch(grid=[blocks, 1, 1], block=[1024, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mO: cute.Tensor):
        first = (cute.arch.block_idx()[0] * 1024 + cute.arch.thread_idx()[0]) * self.values
        tXrX = cute.make_rmem_tensor(self.values, mX.element_type)
        tXrO = cute.make_rmem_tensor(self.values, cutlass.Float32)
        for k in cutlass.range_constexpr(self.values):
            tXrX[k] = mX[first + k]
        tXrO.store(as_float32(tXrX))
        for k in cutlass.range_constexpr(self.values):
            mO[first + k] = tXrO[k]


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
@pytest.mark.parametrize("values", (1, 8))
def test_every_16_bit_value_in_float32_is_itself(values, dtype):
    x = torch.arange(-PATTERNS // 2, PATTERNS // 2, dtype=torch.int32).to(torch.int16).view(dtype)
    out = torch.full((PATTERNS,), 77.0)
    simulate(Widen(values), x, out, check=False)
    torch.testing.assert_close(out, x.float(), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(out.signbit()[~out.isnan()], x.signbit()[~out.isnan()])
